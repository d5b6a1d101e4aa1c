//! A place in bytes that goes forward, and never past their end.

use std::ops::Range;

/// Bytes and how far they have been read.
pub(super) struct Cursor<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) at: usize,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Range of the next `bytes` bytes; advances the cursor.
    pub(super) fn range(&mut self, bytes: u64) -> Result<Range<usize>, String> {
        let left = self.left();
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= left).ok_or_else(|| match bytes {
            1 => "it ends too early".to_owned(),
            _ => format!("{bytes} bytes are claimed, {left} are left"),
        })?;
        let start = self.at;
        self.at += bytes;
        Ok(start..self.at)
    }

    pub(super) fn slice(&mut self, bytes: u64) -> Result<&'b [u8], String> {
        let range = self.range(bytes)?;
        Ok(&self.bytes[range])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let left = self.left();
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk());
        let bytes = bytes.ok_or_else(|| format!("{N} bytes are wanted, {left} are left"))?;
        self.at += N;
        Ok(*bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, String> {
        self.array().map(|[byte]| byte)
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self) -> Result<&'b [u8], String> {
        let rest = &self.bytes[self.at..];
        let bytes = rest.iter().position(|byte| *byte == b'\n').ok_or("a line has no end")?;
        self.at += bytes + 1;
        Ok(&rest[..bytes])
    }
}
