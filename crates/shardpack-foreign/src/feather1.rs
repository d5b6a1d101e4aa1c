//! Detects Feather files of version 1, as R and pandas before 1.0 write them, by their first bytes, so that they are refused by name.
//!
//! Source: Apache Arrow, `cpp/src/arrow/ipc/feather.fbs`.

use shardpack_format::{Error, help};

/// Whether a file begins as one does.
pub(crate) fn is(first: &[u8]) -> bool {
    first.starts_with(b"FEA1")
}

/// That it is not read.
pub(crate) fn refused() -> Error {
    Error::data("a Feather file of version 1, which is not read").help(help::FEATHER_1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feather_of_version_1_is_told_by_its_first_bytes() {
        assert!(is(b"FEA1....") && !is(b"FEA2") && !is(b"ARROW1\0\0") && !is(b""));
        assert!(refused().to_string().contains("Feather"));
    }
}
