//! Parquet and Arrow without a library: the first bytes of a file, and the content of a cell. A build without the feature
//! `parquet` has only these.
//!
//! Source: Arrow columnar format 1.5, "IPC Streaming Format" and "IPC File Format".

/// The first bytes of a file, and its last.
pub(super) const MAGIC: &[u8] = b"PAR1";

/// Whether a file begins as parquet does.
pub fn is(first: &[u8]) -> bool {
    first.starts_with(MAGIC)
}

/// Begins and ends an Arrow file.
pub(super) const ARROW_MAGIC: &[u8] = b"ARROW1";
/// Begins a message in a stream, since Arrow 0.15.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];
/// The metadata of a message is padded to this.
const ALIGNMENT: u32 = 8;
/// How many bytes [`is_arrow`] looks at.
pub(super) const ARROW_BYTES: usize = 12;

/// Whether a file begins as an Arrow file or stream does.
pub fn is_arrow(first: &[u8]) -> bool {
    let number = |at: usize| Some(u32::from_le_bytes(first.get(at..at + 4)?.try_into().ok()?));
    let is_stream = || {
        let (bytes, root) = (number(4)?, number(8)?);
        // A schema comes first, as a table of flatbuffers.
        Some(first.starts_with(&CONTINUATION) && bytes > 0 && bytes.is_multiple_of(ALIGNMENT) && root < bytes)
    };
    first.starts_with(b"ARROW1\0\0") || is_stream().unwrap_or(false)
}

/// Content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Number(i128),
    /// A number with a fraction, as JSON spells it.
    Real(String),
    /// Text or bytes.
    Text(Vec<u8>),
    /// Cells in order.
    List(Vec<Datum>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrow_is_told_by_its_first_bytes() {
        let stream = [&CONTINUATION[..], &256u32.to_le_bytes(), &16u32.to_le_bytes()].concat();
        // The length of a first record that no file has.
        let record = [&CONTINUATION[..], &[0; 8]].concat();
        for (first, expected) in [
            (&b"ARROW1\0\0...."[..], true),
            (&stream, true),
            (&stream[..8], false),
            (&record, false),
            (b"FEA1....", false),
            (b"PAR1", false),
            (b"ARROW1", false),
            (b"", false),
        ] {
            assert_eq!(is_arrow(first), expected, "{first:?}");
        }
    }
}
