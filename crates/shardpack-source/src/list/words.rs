//! Reads lines of words with one delimiter between two words, whatever blanks there are.

use std::io::{self, BufRead, Read};

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

#[cfg(test)]
mod tests {
    use super::*;

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
