//! Detects the file extension of a column of bytes and paths, such as audio of `datasets`: the common extension of all paths,
//! else by the first bytes.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use shardpack_format::{ErrorKind, Result};

use super::super::Bytes;
use super::{
    super::CancelCheck,
    footer::Footer,
    leaf::{SNIFFED_ROWS, SNIFFED_VALUES, each_value},
};

/// Longest extension in bytes.
const LONGEST: usize = 5;
/// Extensions that say how a component is decoded: no file here is called so.
const OF_VALUES: [&str; 4] = ["npy", "json", "txt", "cls"];

/// The extension, without a dot, that all files of a column share; `None` if they have several, or the extension is unknown.
/// `bytes` and `paths` are the leaves of the column.
///
/// # Errors
/// If `check_cancelled` cancels, or bytes are unreadable; unreadable paths are reported with the rows.
pub(super) fn detect(
    file: &Arc<Bytes>,
    footer: &Footer,
    bytes: usize,
    paths: usize,
    check_cancelled: CancelCheck<'_>,
) -> Result<Option<String>> {
    let mut told = Common::None;
    match each_value(file, footer, paths, u64::MAX, check_cancelled, &mut |path| told.add(of_path(path))) {
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
        // The walk reads only the values before the corrupt part.
        _ => {}
    }
    if let Common::One(extension) = told {
        return Ok(Some(extension));
    }
    let (mut told, mut seen) = (Common::None, 0);
    each_value(file, footer, bytes, SNIFFED_ROWS, check_cancelled, &mut |content| {
        seen += 1;
        match told.add(of_content(content).map(str::to_owned)) {
            ControlFlow::Continue(()) if seen < SNIFFED_VALUES => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    })?;
    Ok(match told {
        Common::One(extension) => Some(extension),
        Common::None | Common::Several => None,
    })
}

/// Common property of the values.
enum Common {
    None,
    One(String),
    Several,
}

impl Common {
    fn add(&mut self, extension: Option<String>) -> ControlFlow<()> {
        match (&*self, extension) {
            (Self::None, Some(extension)) => *self = Self::One(extension),
            (Self::One(known), Some(extension)) if *known == extension => {}
            _ => *self = Self::Several,
        }
        if matches!(self, Self::Several) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The extension of a path, if it is one of a file.
fn of_path(path: &[u8]) -> Option<String> {
    let extension = Path::new(str::from_utf8(path).ok()?).extension()?.to_str()?.to_ascii_lowercase();
    let is_plain =
        (1..=LONGEST).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_plain && !OF_VALUES.contains(&&*extension)).then_some(extension)
}

/// The extension that files which begin so usually have.
fn of_content(content: &[u8]) -> Option<&'static str> {
    Some(match content {
        [b'f', b'L', b'a', b'C', ..] => "flac",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => "wav",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'A', b'V', b'I', b' ', ..] => "avi",
        [b'O', b'g', b'g', b'S', ..] => "ogg",
        [b'I', b'D', b'3', ..] | [0xff, 0xfb | 0xfa | 0xf3 | 0xf2, ..] => "mp3",
        [_, _, _, _, b'f', b't', b'y', b'p', b'M', b'4', b'A', ..] => "m4a",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "mp4",
        [0x1a, 0x45, 0xdf, 0xa3, ..] => "mkv",
        [b'%', b'P', b'D', b'F', b'-', ..] => "pdf",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_those_of_files() {
        for (path, extension) in [
            ("a.flac", Some("flac")),
            ("x/y.z/a.WAV", Some("wav")),
            ("a.tar.gz", Some("gz")),
            ("a", None),
            ("x.d/a", None),
            ("a.npy", None),
            ("a.some text", None),
            ("a.", None),
            (".wav", None),
        ] {
            assert_eq!(of_path(path.as_bytes()).as_deref(), extension, "{path}");
        }
        assert_eq!(of_content(b"RIFF\x24\0\0\0WAVEfmt "), Some("wav"));
        assert_eq!(of_content(b"RIFF\x24\0\0\0"), None);
        assert_eq!(of_content(b""), None);
    }
}
