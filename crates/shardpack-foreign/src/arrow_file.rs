//! Detects Arrow files, as `datasets.save_to_disk` and Feather write them, by their first bytes, so that they are refused by
//! name.
//!
//! Source: Arrow columnar format 1.5, "IPC Streaming Format" and "IPC File Format"; Feather version 1 of R and of pandas before 1.0.

use shardpack_format::{Error, help};

/// Prefix of a message in a stream, since Arrow 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The metadata of a message is padded to this.
const ALIGNMENT: u32 = 8;

/// The format whose files begin with `first`.
pub(crate) fn detect(first: &[u8]) -> Option<&'static str> {
    let number = |at: usize| Some(u32::from_le_bytes(first.get(at..at + 4)?.try_into().ok()?));
    let is_stream = || {
        let (bytes, root) = (number(4)?, number(8)?);
        // A schema comes first, as a table of flatbuffers.
        Some(first.starts_with(&CONTINUATION) && bytes > 0 && bytes.is_multiple_of(ALIGNMENT) && root < bytes)
    };
    match first {
        _ if first.starts_with(b"ARROW1\0\0") => Some("an Arrow file (Feather)"),
        _ if first.starts_with(b"FEA1") => Some("a Feather file of version 1"),
        _ if is_stream().unwrap_or(false) => Some("an Arrow stream"),
        _ => None,
    }
}

/// That it is not read.
pub(crate) fn refused(what: &str) -> Error {
    Error::data(format!("{what}, which is not read")).help(help::ARROW_TO_PARQUET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrow_is_told_by_its_first_bytes() {
        let stream = [&CONTINUATION[..], &256u32.to_le_bytes(), &16u32.to_le_bytes()].concat();
        // The length of a first record that no file has.
        let record = [&CONTINUATION[..], &[0; 8]].concat();
        for (first, is) in [
            (&b"ARROW1\0\0...."[..], true),
            (b"FEA1....", true),
            (&stream, true),
            (&stream[..8], false),
            (&record, false),
            (b"PAR1", false),
            (b"ARROW1", false),
            (b"", false),
        ] {
            assert_eq!(detect(first).is_some(), is, "{first:?}");
        }
    }
}
