//! One object of a dataset in the cache: a file with space for the whole object, with some blocks present.
//!
//! A file holds the object's length as 8 bytes, an entry of 8 bytes for each block, zeros up to a multiple of 4,096,
//! and then the object's bytes at their offsets; missing blocks are holes and take no disk space. An entry is 0, or 1
//! if room is reserved for the block, or the checksum of its bytes.
//!
//! Holds at all times: a block is handed out only if its bytes match its entry. So blocks that a killed process or a
//! power failure left incomplete count as missing, and two processes may write the same block.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt, path::Path};

use shardpack_format::hash;
use shardpack_storage::own::{self, Access};

/// Unit of reads and fetches: small, so that a cache miss fetches little more than requested.
pub(super) const BLOCK_BYTES: u64 = 64 * 1024;
const PAGE_BYTES: u64 = 4096;
const ENTRY_BYTES: u64 = 8;

/// Entries that are not checksums.
const NOTHING: u64 = 0;
const ROOM: u64 = 1;
/// Length field of an unfinished file: empty objects are not cached.
const UNFINISHED: u64 = 0;

/// An open object.
pub(super) struct Blocks {
    file: File,
    /// Length of the object in bytes.
    bytes: u64,
}

/// State of a file.
pub(super) enum CacheFileState {
    Right(Blocks),
    /// The file is missing or unfinished.
    Missing,
    Damaged,
}

/// Whether the entry marks the block as present.
fn is_kept(entry: u64) -> bool {
    entry > ROOM
}

fn checksum(block: &[u8]) -> u64 {
    hash::block(block).max(ROOM + 1)
}

fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}

/// Bytes in front of an object of `bytes`; `None` if no file can be that long.
fn front_bytes(bytes: u64) -> Option<u64> {
    (1 + blocks_of(bytes)).checked_mul(ENTRY_BYTES)?.checked_next_multiple_of(PAGE_BYTES)
}

/// Length of the file for an object of `bytes`.
fn file_bytes(bytes: u64) -> Option<u64> {
    front_bytes(bytes)?.checked_add(bytes)
}

/// Opens a file of the cache for reading and writing; does not follow symbolic links.
pub(super) fn open(path: &Path, create: bool) -> io::Result<File> {
    own::open_in_place(path, if create { Access::Create } else { Access::ReadWrite })
}

impl Blocks {
    /// Opens the file at `path` for an object of `bytes`.
    pub fn find(path: &Path, bytes: u64) -> io::Result<CacheFileState> {
        let file = match open(path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CacheFileState::Missing),
            Err(error) => return Err(error),
        };
        let is_long = Some(file.metadata()?.len()) == file_bytes(bytes);
        Ok(match length_of(&file)? {
            UNFINISHED => CacheFileState::Missing,
            length if length == bytes && is_long => CacheFileState::Right(Self { file, bytes }),
            _ => CacheFileState::Damaged,
        })
    }

    /// Creates the file at `path` without blocks. The caller must prevent concurrent calls.
    pub fn create(path: &Path, bytes: u64) -> io::Result<Self> {
        let file = open(path, true)?;
        let length = file_bytes(bytes).ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        own::set_length(&file, 0)?;
        own::set_length(&file, length)?;
        // Last, because the length marks the file as complete.
        file.write_all_at(&bytes.to_le_bytes(), 0)?;
        Ok(Self { file, bytes })
    }

    /// Disk space of the file for an object of `bytes` without any block.
    pub fn empty_bytes(bytes: u64) -> u64 {
        front_bytes(bytes).unwrap_or(u64::MAX)
    }

    /// The blocks that overlap the bytes `range`.
    pub fn covering(range: &Range<u64>) -> Range<u64> {
        range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)
    }

    /// The byte range of `blocks`.
    pub fn range(&self, blocks: &Range<u64>) -> Range<u64> {
        let end = blocks.end.saturating_mul(BLOCK_BYTES).min(self.bytes);
        blocks.start.saturating_mul(BLOCK_BYTES).min(end)..end
    }

    /// Whether each of `blocks` is present, by its entry.
    pub fn kept(&self, blocks: &Range<u64>) -> io::Result<Vec<bool>> {
        Ok(self.entries(blocks)?.into_iter().map(is_kept).collect())
    }

    /// Bytes of the blocks in `blocks` without reserved room.
    pub fn uncounted_bytes(&self, blocks: &Range<u64>) -> io::Result<u64> {
        let entries = self.entries(blocks)?;
        let without = (blocks.start..).zip(&entries).filter(|(_, entry)| **entry == NOTHING);
        Ok(without.map(|(block, _)| self.room(block)).sum())
    }

    /// Marks `blocks` as reserved, except blocks that are present.
    pub fn count(&self, blocks: &Range<u64>) -> io::Result<()> {
        let mut entries = self.entries(blocks)?;
        entries.iter_mut().filter(|entry| **entry == NOTHING).for_each(|entry| *entry = ROOM);
        self.set_entries(blocks.start, &entries)
    }

    /// Reads whole blocks from `first` on into `into`; returns for each block whether it is present and its checksum
    /// matches.
    pub fn read(&self, first: u64, into: &mut [u8]) -> io::Result<Vec<bool>> {
        let blocks = first..first + blocks_of(into.len() as u64);
        let entries = self.entries(&blocks)?;
        self.file.read_exact_at(into, self.place(first))?;
        let found = into.chunks(BLOCK_BYTES as usize).zip(&entries);
        Ok(found.map(|(block, entry)| is_kept(*entry) && checksum(block) == *entry).collect())
    }

    /// Writes whole blocks from `first` on. Their room must be reserved.
    pub fn write(&self, first: u64, blocks: &[u8]) -> io::Result<()> {
        self.file.write_all_at(blocks, self.place(first))?;
        // After the bytes, so that a reader that sees the entry also sees the bytes.
        let entries: Vec<_> = blocks.chunks(BLOCK_BYTES as usize).map(checksum).collect();
        self.set_entries(first, &entries)
    }

    /// Marks `blocks` as missing; their room stays reserved.
    pub fn forget(&self, blocks: &Range<u64>) -> io::Result<()> {
        let mut entries = self.entries(blocks)?;
        entries.iter_mut().filter(|entry| is_kept(**entry)).for_each(|entry| *entry = ROOM);
        self.set_entries(blocks.start, &entries)
    }

    /// Disk space of a block in whole pages.
    fn room(&self, block: u64) -> u64 {
        let range = self.range(&(block..block + 1));
        (range.end - range.start).next_multiple_of(PAGE_BYTES)
    }

    /// Offset of a block in the file.
    fn place(&self, block: u64) -> u64 {
        Self::empty_bytes(self.bytes).saturating_add(block.saturating_mul(BLOCK_BYTES))
    }

    fn entries(&self, blocks: &Range<u64>) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; blocks.end.saturating_sub(blocks.start) as usize * ENTRY_BYTES as usize];
        self.file.read_exact_at(&mut bytes, (1 + blocks.start) * ENTRY_BYTES)?;
        Ok(numbers(&bytes).collect())
    }

    fn set_entries(&self, first: u64, entries: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, (1 + first) * ENTRY_BYTES)
    }

    /// Counted bytes of the file at `path`: its front, and all blocks that are present or reserved.
    pub fn counted_bytes(path: &Path) -> io::Result<u64> {
        let file = own::open_in_place(path, Access::Read)?;
        let (length, bytes) = (file.metadata()?.len(), length_of(&file)?);
        let (Some(front), true) = (front_bytes(bytes), file_bytes(bytes) == Some(length)) else {
            // A damaged file counts with its full length; an unfinished file holds no blocks.
            return Ok(if bytes == UNFINISHED { length.min(PAGE_BYTES) } else { length });
        };
        let this = Self { file, bytes };
        let (mut counted, mut buffer, mut block, all) = (front, vec![0; 1 << 16], 0, blocks_of(bytes));
        while block < all {
            let some = (all - block).min(buffer.len() as u64 / ENTRY_BYTES);
            let part = &mut buffer[..(some * ENTRY_BYTES) as usize];
            this.file.read_exact_at(part, (1 + block) * ENTRY_BYTES)?;
            counted += (block..)
                .zip(numbers(part))
                .filter(|(_, entry)| *entry != NOTHING)
                .map(|(at, _)| this.room(at))
                .sum::<u64>();
            block += some;
        }
        Ok(counted)
    }
}

/// Length of the object that a file is for; 0 if the file is too short to hold a length.
fn length_of(file: &File) -> io::Result<u64> {
    let mut bytes = [0; ENTRY_BYTES as usize];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read.map(|()| u64::from_le_bytes(bytes)),
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: usize = BLOCK_BYTES as usize;

    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|n| (n * n / 7 + n) as u8).collect()
    }

    fn found(path: &Path, bytes: usize) -> Option<Blocks> {
        match Blocks::find(path, bytes as u64).unwrap() {
            CacheFileState::Right(blocks) => Some(blocks),
            CacheFileState::Missing | CacheFileState::Damaged => None,
        }
    }

    #[test]
    fn blocks_are_there_once_they_are_written_and_count_from_when_their_room_does() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [1, B - 1, B, B + 1, 3 * B + 7, 600 * B] {
            let path = folder.path().join(bytes.to_string());
            assert!(matches!(Blocks::find(&path, 1).unwrap(), CacheFileState::Missing));
            let blocks = Blocks::create(&path, bytes as u64).unwrap();
            let (front, last) = (Blocks::empty_bytes(bytes as u64), bytes.div_ceil(B) as u64 - 1);
            let alone = last..last + 1;
            let range = blocks.range(&alone);
            let room = (range.end - range.start).next_multiple_of(PAGE_BYTES);
            assert_eq!(Blocks::counted_bytes(&path).unwrap(), front);
            assert_eq!(blocks.uncounted_bytes(&alone).unwrap(), room);
            blocks.count(&alone).unwrap();
            assert_eq!(blocks.uncounted_bytes(&alone).unwrap(), 0);
            assert_eq!(blocks.kept(&alone).unwrap(), [false]);
            let written = content((range.end - range.start) as usize);
            blocks.write(last, &written).unwrap();
            // A reader that opens the file now sees the block.
            let other = found(&path, bytes).unwrap();
            let mut read = vec![0; written.len()];
            assert_eq!(other.read(last, &mut read).unwrap(), [true]);
            assert!(read == written);
            assert_eq!(Blocks::counted_bytes(&path).unwrap(), front + room);
            other.forget(&alone).unwrap();
            assert_eq!(blocks.read(last, &mut read).unwrap(), [false]);
            assert_eq!(Blocks::counted_bytes(&path).unwrap(), front + room);
            assert!(found(&path, bytes + 1).is_none());
        }
    }

    #[test]
    fn a_bit_that_flips_anywhere_in_the_file_gives_no_wrong_byte() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = (folder.path().join("x"), 2 * B + 100);
        let content = content(bytes);
        let blocks = Blocks::create(&path, bytes as u64).unwrap();
        blocks.count(&(0..3)).unwrap();
        blocks.write(0, &content).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let places = (0..40).chain((4096..whole.len()).step_by(997)).chain([whole.len() - 1]);
        for at in places {
            let mut wrong = whole.clone();
            wrong[at] ^= 1 << (at % 8);
            std::fs::write(&path, &wrong).unwrap();
            let Some(blocks) = found(&path, bytes) else { continue };
            let mut read = vec![0; bytes];
            let are_right = blocks.read(0, &mut read).unwrap();
            assert!(!(8..32).contains(&at) || are_right.contains(&false), "byte {at}");
            for (block, is_right) in are_right.iter().enumerate() {
                let range = block * B..bytes.min((block + 1) * B);
                assert!(!is_right || read[range.clone()] == content[range], "byte {at}, block {block}");
            }
        }
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_not_right() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = (folder.path().join("x"), B + 5);
        Blocks::create(&path, bytes as u64).unwrap().write(0, &content(bytes)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in (0..30).chain((30..whole.len()).step_by(1013)) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(found(&path, bytes).is_none(), "cut at {cut}");
            assert!(Blocks::counted_bytes(&path).unwrap() <= whole.len() as u64);
        }
    }
}
