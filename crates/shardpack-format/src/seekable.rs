//! The seek table of a compressed shard: where each zstd frame begins, in the file and in the unpacked shard.
//!
//! A shard `.tar.zst` is one zstd frame for each block of samples, one for what follows the last record, and this
//! table in a skippable frame, which every zstd decoder passes over.
//! ```text
//! u32 0x184D2A5E | u32 length of the rest | for each frame: u32 packed bytes, u32 unpacked bytes
//! u32 frames | u8 0 (no checksums: the frames have their own) | u32 0x8F92EAB1
//! ```
//! A shard that has to be a single frame (`.mds.zstd`) has no table. Some shards of an earlier build have several frames and
//! a table, so the end of the file decides.
//! Source: "Zstandard Seekable Format" 0.1.0 (facebook/zstd, contrib/seekable_format).

use crate::{Error, Result};

const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
const FOOTER_MAGIC: u32 = 0x8F92_EAB1;
const HEADER_BYTES: usize = 8;
/// Length in bytes of the footer of the table.
pub const FOOTER_BYTES: usize = 9;
const ENTRY_BYTES: usize = 8;

/// Where a frame lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it starts in the file, in bytes.
    pub packed_offset: u64,
    /// Its length in the file in bytes.
    pub packed_bytes: u32,
    /// Where its content starts in the unpacked shard, in bytes.
    pub offset: u64,
    /// Length of its content in bytes.
    pub bytes: u32,
}

impl Frame {
    /// Where its content ends in the unpacked shard, in bytes.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.bytes)
    }
}

/// The frames of a shard in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeekTable {
    frames: Vec<Frame>,
}

impl SeekTable {
    /// Adds the next frame.
    ///
    /// # Errors
    /// When a length does not fit 32 bits.
    pub fn push(&mut self, packed_bytes: usize, bytes: usize) -> Result<()> {
        let (packed_offset, offset) = self.end();
        let fit = |n: usize| u32::try_from(n).map_err(|_| Error::usage("a compressed block over 4 GiB"));
        self.frames.push(Frame { packed_offset, packed_bytes: fit(packed_bytes)?, offset, bytes: fit(bytes)? });
        Ok(())
    }

    /// The table of a file of `packed_bytes` that is a single frame of `bytes`, and has none.
    ///
    /// # Errors
    /// When a length does not fit 32 bits.
    pub fn of_one(packed_bytes: u64, bytes: u64) -> Result<Self> {
        let fit = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let mut table = Self::default();
        table.push(fit(packed_bytes), fit(bytes))?;
        Ok(table)
    }

    /// Where the frames end, in the file and unpacked, in bytes.
    pub fn end(&self) -> (u64, u64) {
        self.frames.last().map_or((0, 0), |last| {
            (last.packed_offset + u64::from(last.packed_bytes), last.offset + u64::from(last.bytes))
        })
    }

    /// The frames in order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The frame that holds byte `offset` of the unpacked shard.
    pub fn frame_at(&self, offset: u64) -> Option<&Frame> {
        let after = self.frames.partition_point(|frame| frame.offset <= offset);
        let frame = self.frames.get(after.checked_sub(1)?)?;
        (offset - frame.offset < u64::from(frame.bytes)).then_some(frame)
    }

    /// The skippable frame that ends the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let content = self.frames.len() * ENTRY_BYTES + FOOTER_BYTES;
        let mut out = Vec::with_capacity(HEADER_BYTES + content);
        out.extend_from_slice(&SKIPPABLE_MAGIC.to_le_bytes());
        out.extend_from_slice(&(content as u32).to_le_bytes());
        for frame in &self.frames {
            out.extend_from_slice(&frame.packed_bytes.to_le_bytes());
            out.extend_from_slice(&frame.bytes.to_le_bytes());
        }
        out.extend_from_slice(&(self.frames.len() as u32).to_le_bytes());
        out.push(0);
        out.extend_from_slice(&FOOTER_MAGIC.to_le_bytes());
        out
    }

    /// Length in bytes of the table whose last [`FOOTER_BYTES`] are `footer`.
    ///
    /// # Errors
    /// When they are not the end of a seek table without checksums.
    pub fn table_bytes(footer: &[u8]) -> Result<u64> {
        Self::table_bytes_if_any(footer)?.ok_or_else(|| Error::data("no zstd seek table at the end"))
    }

    /// The same; `None` where they are the end of something else.
    ///
    /// # Errors
    /// When they are too few.
    pub fn table_bytes_if_any(footer: &[u8]) -> Result<Option<u64>> {
        let footer: &[u8; FOOTER_BYTES] =
            footer.try_into().map_err(|_| Error::data("too short to end in a zstd seek table"))?;
        let [a, b, c, d, descriptor, magic @ ..] = *footer;
        if u32::from_le_bytes(magic) != FOOTER_MAGIC || descriptor != 0 {
            return Ok(None);
        }
        let frames = u64::from(u32::from_le_bytes([a, b, c, d]));
        Ok(Some(frames * ENTRY_BYTES as u64 + (HEADER_BYTES + FOOTER_BYTES) as u64))
    }

    /// Reads the table from the whole skippable frame; its frames must fill the `file_bytes` before it.
    ///
    /// # Errors
    /// If the table is invalid.
    pub fn read(bytes: &[u8], file_bytes: u64) -> Result<Self> {
        let wrong = |what: &str| Error::data(format!("zstd seek table: {what}"));
        let word = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
            word.map(u32::from_le_bytes).ok_or_else(|| wrong("cut short"))
        };
        let footer = bytes.len().checked_sub(FOOTER_BYTES).ok_or_else(|| wrong("cut short"))?;
        if Self::table_bytes(&bytes[footer..])? != bytes.len() as u64 {
            return Err(wrong("its number of frames does not fit its length"));
        }
        if word(0)? != SKIPPABLE_MAGIC || word(4)? as usize != bytes.len() - HEADER_BYTES {
            return Err(wrong("no skippable frame"));
        }
        let mut table = Self::default();
        for entry in (HEADER_BYTES..footer).step_by(ENTRY_BYTES) {
            table.push(word(entry)? as usize, word(entry + 4)? as usize)?;
        }
        if table.end().0.checked_add(bytes.len() as u64) != Some(file_bytes) {
            return Err(wrong("its frames do not fill the file"));
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_back_and_finds_frames_by_offset() {
        let mut table = SeekTable::default();
        for (packed, bytes) in [(10, 100), (20, 50), (5, 1)] {
            table.push(packed, bytes).unwrap();
        }
        let bytes = table.to_bytes();
        assert_eq!(SeekTable::table_bytes(&bytes[bytes.len() - FOOTER_BYTES..]).unwrap(), bytes.len() as u64);
        assert_eq!(SeekTable::read(&bytes, 35 + bytes.len() as u64).unwrap(), table);
        let found = |offset| table.frame_at(offset).map(|frame| frame.packed_offset);
        assert_eq!([0, 99, 100, 149, 150, 151].map(found), [Some(0), Some(0), Some(10), Some(10), Some(30), None]);
    }

    #[test]
    fn a_table_that_is_cut_or_does_not_fit_is_refused() {
        let mut table = SeekTable::default();
        table.push(10, 100).unwrap();
        let bytes = table.to_bytes();
        for cut in 0..bytes.len() {
            assert!(SeekTable::read(&bytes[..cut], 10 + cut as u64).is_err());
        }
        assert!(SeekTable::read(&bytes, 11 + bytes.len() as u64).is_err());
        assert_eq!(SeekTable::default().frame_at(0), None);
    }
}
