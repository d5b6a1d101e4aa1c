//! Kinds of files that describe an image, by the first bytes: the options that pack them.

use super::{Files, Look, counterparts::join, look::contains};
use crate::boxes;

/// Extensions of texts about an image.
pub(super) const TEXTS: [&str; 4] = ["txt", "json", "xml", "caption"];

/// Most label files that are looked into for an object.
const MAX_EMPTY: usize = 64;

/// The value of `--with` for files `PATTERN` with this extension in `folder`, where `PATTERN` is `before` and the name of the image; `name` is
/// the component of files that are not parsed.
pub(super) fn option(look: &Look<'_>, folder: &str, extension: &str, before: &str, name: Option<&str>) -> String {
    match kind(look, folder, &look.files(folder), extension) {
        Some(kind) => format!("boxes={kind}:{before}*.{extension}"),
        None => match name {
            Some(name) => format!("{name}={before}*.{extension}"),
            None => extension.to_owned(),
        },
    }
}

/// The kind of label files with this extension among `files`, those in `folder`; `None` if they are something else.
pub(super) fn kind(look: &Look<'_>, folder: &str, files: &Files, extension: &str) -> Option<&'static str> {
    let first = files.first_of(extension)?;
    let start = look.start(&join(folder, &first));
    let has = |text: &[u8]| contains(&start, text);
    match extension {
        "xml" | "" => has(b"<annotation").then_some("voc"),
        "txt" => {
            // An image without objects has an empty file.
            let names = files.0.iter().filter(|name| name.ends_with(".txt")).take(MAX_EMPTY);
            names.into_iter().find_map(|name| boxes::is_kitti(&look.start(&join(folder, name))))?.then_some("kitti")
        }
        "json" => (has(b"\"shapes\"") || has(b"\"version\"") && has(b"\"flags\"")).then_some("labelme"),
        _ => None,
    }
}

/// The extension of the files that most images among `files` have beside them, and the number of images without.
pub(super) fn beside(files: &Files) -> Option<(&'static str, u64)> {
    TEXTS.into_iter().find_map(|extension| {
        let (with, lacking) = files.pairs(&files.stems(extension));
        (with > 0 && with >= lacking).then_some((extension, lacking))
    })
}
