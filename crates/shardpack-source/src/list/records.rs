//! Splits CSV into records by RFC 4180.
//!
//! If the RFC is silent, the parser follows Python's `csv`: a quote inside an unquoted field is a plain character, and
//! empty lines are skipped. The crate csv-core splits fields. This file adds line numbers, size limits and the error for
//! an unclosed quote.

use std::io::{self, BufRead};

use csv_core::ReadRecordResult;
use shardpack_format::{Error, Result};

use super::{columns::MAX_COLUMNS, lines::MAX_RECORD_BYTES, words::WORDS};

/// Bytes that are searched for the delimiter.
pub(super) const SNIFFED_BYTES: usize = 64 << 10;

/// Iterates over the records of a file.
pub(crate) struct Records<R> {
    pub input: R,
    parser: csv_core::Reader,
    /// Number of the next line, from 1.
    pub line: u64,
    /// Whether the last line ended with `\r`; a following `\n` belongs to the same line end.
    is_returned: bool,
    /// The fields of the record end to end, and the end of each. Both buffers are longer than the record.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Number of fields of the record.
    pub count: usize,
}

impl<R: BufRead> Records<R> {
    pub fn with_delimiter(input: R, delimiter: u8) -> Self {
        // Lists with bars (LJSpeech) or blanks have quotes as plain characters.
        let has_quotes = !matches!(delimiter, b'|' | WORDS);
        let mut parser = csv_core::ReaderBuilder::new().delimiter(delimiter).quoting(has_quotes).build();
        // csv-core strips a byte order mark at its start. This call begins the input, so that a second mark is kept.
        parser.read_record(b"\n", &mut [0], &mut [0]);
        let (bytes, ends) = (vec![0; SNIFFED_BYTES], vec![0; MAX_COLUMNS]);
        Self { input, parser, line: 1, is_returned: false, bytes, ends, count: 0 }
    }

    /// Reads the next record and returns its first line.
    ///
    /// # Errors
    /// If the record is too long, or a quote is not closed.
    pub fn next(&mut self) -> Result<Option<u64>> {
        loop {
            self.count = 0;
            if !self.pass_empty_lines()? {
                return Ok(None);
            }
            let line = self.line;
            self.read(line)?;
            // A single empty field in quotes is no record either.
            if self.count > 1 || self.ends[0] > 0 {
                return Ok(Some(line));
            }
        }
    }

    /// Skips and counts empty lines; false at the end of the file. The parser does not report empty lines.
    fn pass_empty_lines(&mut self) -> Result<bool> {
        loop {
            let buffer = self.input.fill_buf().map_err(unreadable)?;
            let empty = buffer.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            for byte in &buffer[..empty] {
                self.line += u64::from(*byte == b'\r' || !self.is_returned);
                self.is_returned = *byte == b'\r';
            }
            let (is_end, is_more) = (buffer.is_empty(), empty < buffer.len());
            self.input.consume(empty);
            if is_end || is_more {
                return Ok(is_more);
            }
        }
    }

    /// Reads a record that begins on line `start`, up to the first line end outside quotes.
    fn read(&mut self, start: u64) -> Result<()> {
        let in_line = |what: String| Error::data(format!("line {start}: {what}"));
        let mut length = 0;
        loop {
            let buffer = self.input.fill_buf().map_err(unreadable)?;
            let is_end = buffer.is_empty();
            // A final `\n` ends the last line like any other. If a quote is open, the parser continues and reports no
            // error.
            let given = if is_end { b"\n" } else { buffer };
            let (result, read, copied, ended) =
                self.parser.read_record(given, &mut self.bytes[length..], &mut self.ends[self.count..]);
            (length, self.count) = (length + copied, self.count + ended);
            self.is_returned = given[..read].last() == Some(&b'\r');
            self.line += given[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
            self.input.consume(if is_end { 0 } else { read });
            match result {
                ReadRecordResult::Record => {
                    self.line += u64::from(self.is_returned);
                    return Ok(());
                }
                ReadRecordResult::InputEmpty if is_end => return Err(in_line("a quote is not closed".to_owned())),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
                ReadRecordResult::OutputFull if length <= MAX_RECORD_BYTES => {
                    self.bytes.resize((2 * length).min(MAX_RECORD_BYTES + 1), 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(in_line(format!(
                        "more than {MAX_RECORD_BYTES} bytes or {MAX_COLUMNS} fields; is a quote not closed?"
                    )));
                }
            }
        }
    }

    pub fn field(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    pub fn fields(&self) -> Vec<Vec<u8>> {
        (0..self.count).map(|number| self.field(number).to_vec()).collect()
    }
}

pub(super) fn unreadable(error: io::Error) -> Error {
    Error::io("cannot read", error)
}

/// Detects the delimiter: the most frequent candidate outside quotes in the first line.
pub(crate) fn delimiter(first: &[u8]) -> u8 {
    let mut in_quotes = false;
    let mut counts = [(b',', 0usize), (b';', 0), (b'\t', 0)];
    for byte in first.iter().take(SNIFFED_BYTES) {
        match byte {
            b'"' => in_quotes = !in_quotes,
            b'\n' | b'\r' if !in_quotes => break,
            _ if !in_quotes => counts.iter_mut().filter(|(own, _)| own == byte).for_each(|(_, count)| *count += 1),
            _ => {}
        }
    }
    // On a tie the first candidate wins.
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(byte, _)| *byte)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn all(text: &str, capacity: usize) -> Result<Vec<(u64, Vec<String>)>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).as_bytes();
        // A small buffer must not affect the detected delimiter.
        let mut records = Records::with_delimiter(BufReader::with_capacity(capacity, text), delimiter(text));
        let mut out = Vec::new();
        while let Some(line) = records.next()? {
            let fields = records.fields().into_iter().map(|field| String::from_utf8_lossy(&field).into_owned());
            out.push((line, fields.collect()));
        }
        Ok(out)
    }

    #[test]
    fn fields_are_those_of_the_rfc() {
        let text = "\u{feff}a,\"b, \"\"c\"\"\",\r\n\n\"two\nlines\",x\"y\",\"q\"z\rlast,,";
        let expected =
            [(1, vec!["a", "b, \"c\"", ""]), (3, vec!["two\nlines", "x\"y\"", "qz"]), (5, vec!["last", "", ""])];
        for capacity in [8, 1024] {
            let found = all(text, capacity).unwrap();
            let found: Vec<(u64, Vec<&str>)> =
                found.iter().map(|(line, fields)| (*line, fields.iter().map(String::as_str).collect())).collect();
            assert_eq!(found, expected);
        }
        let error = all("a,b\n\"open,c\n", 64).unwrap_err();
        assert_eq!(error.to_string(), "line 2: a quote is not closed");
    }

    #[test]
    fn a_last_line_that_a_carriage_return_ends_has_no_field_more() {
        for text in ["a\nb\r", "a\rb\r\n", "\r\na\r\rb"] {
            let found: Vec<_> = all(text, 8).unwrap().into_iter().map(|(_, fields)| fields).collect();
            assert_eq!(found, [["a"], ["b"]], "{text:?}");
        }
    }

    #[test]
    fn a_record_is_bounded_in_bytes_and_in_fields() {
        let rows = [
            (",".repeat(MAX_COLUMNS - 1), true),
            (",".repeat(MAX_COLUMNS), false),
            ("x".repeat(MAX_RECORD_BYTES), true),
            ("x".repeat(MAX_RECORD_BYTES + 1), false),
            (format!("\"{}", "x\n".repeat(MAX_RECORD_BYTES)), false),
        ];
        for (text, is_read) in rows {
            match all(&format!("a\n{text}\n"), SNIFFED_BYTES) {
                Ok(found) => assert!(is_read && found.len() == 2),
                Err(error) => {
                    let what = error.to_string();
                    assert!(
                        !is_read && what.starts_with("line 2: more than ") && what.ends_with("is a quote not closed?")
                    );
                }
            }
        }
    }

    #[test]
    fn what_stands_between_fields_is_found() {
        for (text, expected) in [("a,b", b','), ("a;b", b';'), ("a\tb", b'\t'), ("a", b','), ("\"a;;b\",c\n;;;", b',')]
        {
            assert_eq!(delimiter(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_comes_back(
            records in prop::collection::vec(prop::collection::vec("[a,;\"\n\r é]{0,6}", 3), 1..6),
            capacity in 4usize..40,
        ) {
            // The obvious twin: all fields quoted, quotes doubled.
            let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let line = |fields: &Vec<String>| fields.iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n";
            let text: String = records.iter().map(line).collect();
            let found: Vec<_> = all(&text, capacity).unwrap().into_iter().map(|(_, fields)| fields).collect();
            prop_assert_eq!(found, records);
        }
    }
}
