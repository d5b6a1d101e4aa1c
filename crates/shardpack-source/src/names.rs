//! File names: image extensions, system files, archives, and joining names to paths.

use shardpack_format::text;

use std::path::Path;

/// torchvision's list (0.29, `IMG_EXTENSIONS`).
pub const EXTENSIONS: [&str; 9] = ["jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp"];

/// Extensions of sounds.
pub const SOUNDS: [&str; 6] = ["wav", "flac", "mp3", "ogg", "opus", "m4a"];

/// Kind of a folder entry, from its name alone.
pub(super) enum Name {
    Hidden,
    /// Files and folders that operating systems create.
    System,
    /// An image, or a file that the user selected as a sample.
    Payload,
    Other,
}

/// Names of files that operating systems and their programs leave in folders.
const SYSTEM: [&str; 11] = [
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
    "icon\r",
    // macOS archives; network storage with thumbnails and deleted files; disks of Windows and Linux.
    "__macosx",
    "@eadir",
    "#recycle",
    "#snapshot",
    "$recycle.bin",
    "system volume information",
    "lost+found",
];

/// Whether a path contains a file or folder that a system created.
pub(super) fn is_of_system(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| matches!(classify(name, |_| false), Name::System))
}

/// Kind of the entry `name`; `is_payload` matches the names of payloads.
pub(super) fn classify(name: &[u8], is_payload: impl Fn(&[u8]) -> bool) -> Name {
    match name {
        [b'.', ..] => Name::Hidden,
        _ if SYSTEM.iter().any(|system| system.as_bytes().eq_ignore_ascii_case(name)) => Name::System,
        _ if is_payload(name) => Name::Payload,
        _ => Name::Other,
    }
}

const ARCHIVES: [&str; 9] = ["tar", "tar.gz", "tgz", "zip", "tar.zst", "tar.xz", "tar.bz2", "7z", "rar"];

/// Whether files with this extension, in lower case, are archives.
pub(super) fn is_archive(extension: &str) -> bool {
    ARCHIVES.contains(&extension)
}

/// Whether a file of this name is a tar, compressed or not.
pub(super) fn is_tar(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    ARCHIVES.iter().filter(|end| end.starts_with("t")).any(|end| name.ends_with(&format!(".{end}")))
}

/// Whether the name has an image extension.
pub(super) fn is_image(name: &[u8]) -> bool {
    has_extension(name, &EXTENSIONS)
}

/// Whether the name has the extension of a sound.
pub(super) fn is_sound(name: &[u8]) -> bool {
    has_extension(name, &SOUNDS)
}

fn has_extension(name: &[u8], known: &[&str]) -> bool {
    let extension = name.rsplit_once_byte(b'.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| known.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(extension)))
}

/// Whether text has the form of a file name with an extension.
pub(super) fn is_like_a_file(text: &[u8]) -> bool {
    let name = text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.rsplit_once_byte(b'.').is_some_and(|(_, extension)| {
        (1..=5).contains(&extension.len())
            && extension.iter().all(u8::is_ascii_alphanumeric)
            && extension.iter().any(u8::is_ascii_alphabetic)
    })
}

/// Whether the name is that of an `.npz` archive.
pub(super) fn is_npz(name: &[u8]) -> bool {
    name.rsplit_once_byte(b'.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case(b"npz"))
}

trait RSplitOnce {
    fn rsplit_once_byte(&self, byte: u8) -> Option<(&[u8], &[u8])>;
}

impl RSplitOnce for [u8] {
    fn rsplit_once_byte(&self, byte: u8) -> Option<(&[u8], &[u8])> {
        let at = self.iter().rposition(|b| *b == byte)?;
        Some((&self[..at], &self[at + 1..]))
    }
}

/// Reason for ignoring a file that is not an image.
pub(super) fn other_reason(name: &[u8]) -> String {
    match name.rsplit_once_byte(b'.') {
        Some((stem, extension)) if !stem.is_empty() && extension.len() <= 16 => {
            format!("extension .{}", text::shown(extension).to_string().to_lowercase())
        }
        _ => "no extension".to_owned(),
    }
}

/// Path of `name` in `folder`; an empty `folder` is the root.
pub(super) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder {
        [] => name.to_vec(),
        _ => [folder, b"/", name].concat(),
    }
}

/// Splits a path into folder and name.
pub(super) fn cut(path: &[u8]) -> (&[u8], &[u8]) {
    let at = path.iter().rposition(|byte| *byte == b'/');
    at.map_or((&[], path), |at| (&path[..at], &path[at + 1..]))
}

/// The name of the folder that holds the file at `path`; `None` for a name alone.
pub(super) fn folder(path: &[u8]) -> Option<&[u8]> {
    let (folder, _) = cut(path);
    folder.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty())
}

/// These bytes as a path.
pub(super) fn as_path(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_may_be_files_have_an_extension() {
        for (field, expected) in [
            ("a/b.jpg", true),
            ("x y.npy", true),
            ("0.5", false),
            ("A sentence.", false),
            ("a.b/c", false),
            ("x.a b", false),
            ("", false),
        ] {
            assert_eq!(is_like_a_file(field.as_bytes()), expected, "{field}");
        }
    }
}
