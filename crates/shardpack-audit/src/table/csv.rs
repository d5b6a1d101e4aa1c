//! Rows as comma-separated values.
//!
//! Source: RFC 4180, except that lines end in LF, as on Unix. An unknown value is an empty field, an empty text
//! is `""`.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
};

use shardpack_format::{Error, Result};

use super::{COLUMNS, Cell, Row, Sink};

/// Writes rows to a file.
pub(super) struct Writer {
    out: BufWriter<File>,
}

impl Writer {
    /// Writes the names of the columns.
    pub fn new(mut out: BufWriter<File>) -> Result<Self> {
        let names = COLUMNS.map(|(name, _)| name).join(",");
        writeln!(out, "{names}").map_err(failed)?;
        Ok(Self { out })
    }
}

impl Sink for Writer {
    fn add(&mut self, row: &Row<'_>) -> Result<()> {
        line(row, &mut self.out).map_err(failed)
    }

    fn finish(self: Box<Self>) -> Result<File> {
        self.out.into_inner().map_err(|error| failed(error.into_error()))
    }
}

fn failed(error: io::Error) -> Error {
    Error::io("cannot write", error)
}

fn line(cells: &[Cell<'_>], out: &mut impl Write) -> io::Result<()> {
    for (number, cell) in cells.iter().enumerate() {
        if number > 0 {
            out.write_all(b",")?;
        }
        match cell {
            Cell::Text(text) => quoted(text, out)?,
            Cell::Unsigned(number) => write!(out, "{number}")?,
            Cell::Signed(number) => write!(out, "{number}")?,
            Cell::Null => {}
        }
    }
    out.write_all(b"\n")
}

fn quoted(text: &str, out: &mut impl Write) -> io::Result<()> {
    // Some readers trim unquoted spaces at both ends.
    let is_plain = !text.is_empty() && !text.contains(['"', ',', '\n', '\r']) && text.trim() == text;
    if is_plain { out.write_all(text.as_bytes()) } else { write!(out, "\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_misread_is_quoted() {
        let text = |text: &'static str| Cell::Text(text.into());
        let cells = [
            text("plain"),
            text("a,b"),
            text("say \"hi\""),
            text("two\nlines"),
            text(" space"),
            text(""),
            Cell::Null,
            Cell::Signed(-3),
            Cell::Unsigned(u64::MAX),
        ];
        let mut out = Vec::new();
        line(&cells, &mut out).unwrap();
        let expected = "plain,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\" space\",\"\",,-3,18446744073709551615\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
