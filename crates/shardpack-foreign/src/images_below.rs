//! Looks for images in a folder and its subfolders, for help about a source without shards.

use std::path::Path;

/// Depth of nested folders searched for an image: split, class, image.
const DEPTH: usize = 3;
/// Maximum number of entries inspected per folder.
const LOOKED_AT: usize = 100;

/// Whether `folder` holds images, by some of its files.
pub(super) fn are(folder: &Path) -> bool {
    holds_images(folder, DEPTH)
}

/// Whether one of the first files of `folder` or of its subfolders has the extension of an image. Unreadable folders count as
/// empty: the result is only a hint.
fn holds_images(folder: &Path, depth: usize) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    let paths = entries.take(LOOKED_AT).filter_map(|entry| entry.ok()).map(|entry| entry.path());
    let is_image = |path: &Path| {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        extension
            .is_some_and(|extension| ["jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"].contains(&&*extension))
    };
    paths.into_iter().any(|path| match path.is_dir() {
        true => depth > 1 && holds_images(&path, depth - 1),
        false => is_image(&path),
    })
}
