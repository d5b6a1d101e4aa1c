//! Parquet without its library: the first bytes of a file, and the content of a cell. A build without the feature
//! `parquet` has only these.

/// The first bytes of a file, and its last.
pub(super) const MAGIC: &[u8] = b"PAR1";

/// Whether a file begins as parquet does.
pub fn is(first: &[u8]) -> bool {
    first.starts_with(MAGIC)
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
