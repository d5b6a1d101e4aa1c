//! Reads lines of words with one delimiter between two words, whatever blanks there are; and lines of two fields, which the first
//! comma or blank separates.

use std::io::{self, BufRead, Read};

use super::lines::MAX_RECORD_BYTES;

/// The delimiter of words: a byte that text lists do not have.
pub(super) const WORDS: u8 = 0x1f;

/// The lines of `input`, with [`WORDS`] in the place of each run of blanks, and no blanks at the ends of a line.
pub(super) struct Words<R> {
    input: R,
    /// Whether the last bytes were blanks after a word of the same line.
    is_between: bool,
    /// Whether the line has a word.
    has_word: bool,
}

impl<R> Words<R> {
    pub fn new(input: R) -> Self {
        Self { input, is_between: false, has_word: false }
    }
}

impl<R: BufRead> Read for Words<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut written = 0;
        // A word needs two bytes: the delimiter and its first byte.
        while written + 2 <= out.len() {
            let buffer = self.input.fill_buf()?;
            let Some(byte) = buffer.first().copied() else { break };
            self.input.consume(1);
            match byte {
                b'\n' | b'\r' => (self.is_between, self.has_word) = (false, false),
                byte if byte.is_ascii_whitespace() => {
                    self.is_between = self.has_word;
                    continue;
                }
                _ => {
                    if std::mem::take(&mut self.is_between) {
                        out[written] = WORDS;
                        written += 1;
                    }
                    self.has_word = true;
                }
            }
            out[written] = byte;
            written += 1;
        }
        Ok(written)
    }
}

/// The lines of `input`, with [`WORDS`] between their two fields.
pub(super) struct TwoFields<R> {
    input: R,
    split: Split,
    /// The present line, and the bytes of it that were read.
    line: Vec<u8>,
    at: usize,
}

/// Splits a line into a path and a text.
pub(super) type Split = fn(&[u8]) -> Option<(&[u8], Vec<u8>)>;

impl<R> TwoFields<R> {
    pub fn new(input: R, split: Split) -> Self {
        Self { input, split, line: Vec::new(), at: 0 }
    }
}

impl<R: BufRead> Read for TwoFields<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            (self.line, self.at) = (Vec::new(), 0);
            // The reader of records refuses a longer line.
            let most = MAX_RECORD_BYTES as u64 + 1;
            self.input.by_ref().take(most).read_until(b'\n', &mut self.line)?;
            let (line, end) = self.line.split_at(self.line.trim_ascii_end().len());
            let replaced = match (self.split)(line) {
                Some((path, text)) => Some([path, &[WORDS], &text, end].concat()),
                // A line of blanks is empty.
                None if line.is_empty() => Some(end.iter().filter(|byte| b"\r\n".contains(byte)).copied().collect()),
                None => None,
            };
            self.line = replaced.unwrap_or_else(|| std::mem::take(&mut self.line));
        }
        let read = (&self.line[self.at..]).read(out)?;
        self.at += read;
        Ok(read)
    }
}

/// The fields before and after the first comma. A text in quotes loses them.
pub(super) fn first_comma(line: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    let at = line.iter().position(|byte| *byte == b',')?;
    Some((&line[..at], unquoted(&line[at + 1..])))
}

/// The fields before and after the first blank. The text of a word alone is empty.
pub(super) fn first_blank(line: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    let line = line.trim_ascii_start();
    let at = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    (at > 0).then(|| (&line[..at], line[at..].trim_ascii().to_vec()))
}

/// A text without the quotes around it, if there are any. Quotes in it are doubled then.
fn unquoted(text: &[u8]) -> Vec<u8> {
    match text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) {
        None => text.to_vec(),
        Some(inner) => {
            let mut bytes = inner.iter().peekable();
            let mut out = Vec::with_capacity(inner.len());
            while let Some(byte) = bytes.next() {
                let _ = bytes.next_if(|next| (*byte, **next) == (b'"', b'"'));
                out.push(*byte);
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comma_is_the_delimiter() {
        let text = "a,b\r\nc.jpg,d, e , f\n\"x\ng,\"h, \"\"i\"\"\" \n,";
        for capacity in [1, 3, 64] {
            let (mut lines, mut found) = (TwoFields::new(text.as_bytes(), first_comma), Vec::new());
            let mut out = vec![0; capacity];
            loop {
                let read = lines.read(&mut out).unwrap();
                if read == 0 {
                    break;
                }
                found.extend_from_slice(&out[..read]);
            }
            let expected = "a\u{1f}b\r\nc.jpg\u{1f}d, e , f\n\"x\ng\u{1f}h, \"i\" \n\u{1f}";
            assert_eq!(String::from_utf8(found).unwrap(), expected);
        }
    }

    #[test]
    fn the_first_blank_is_the_delimiter() {
        let mut found = String::new();
        let lines = "a-1 HELLO  WORLD\r\nb\tX, Y\n c  d \n \t\r\ne\n\nf  \n";
        TwoFields::new(lines.as_bytes(), first_blank).read_to_string(&mut found).unwrap();
        assert_eq!(found, "a-1\u{1f}HELLO  WORLD\r\nb\u{1f}X, Y\nc\u{1f}d \n\r\ne\u{1f}\n\nf\u{1f}  \n");
    }

    #[test]
    fn runs_of_blanks_are_one_delimiter() {
        let text = "  a  b\t c \r\n\n d\n e f";
        for capacity in [2, 3, 64] {
            let (mut words, mut found) = (Words::new(text.as_bytes()), Vec::new());
            let mut out = vec![0; capacity];
            loop {
                let read = words.read(&mut out).unwrap();
                if read == 0 {
                    break;
                }
                found.extend_from_slice(&out[..read]);
            }
            assert_eq!(String::from_utf8(found).unwrap(), "a\u{1f}b\u{1f}c\r\n\nd\ne\u{1f}f");
        }
    }
}
