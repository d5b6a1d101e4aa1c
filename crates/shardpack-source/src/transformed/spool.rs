//! Spool file for transformed images, as a sequence of records, so that a stopped run can resume.
//!
//! ```text
//! 0   magic "shardsp2" | 16 bytes: hash of the recipe and of what carries it out
//!     records: 16 bytes key | u8 what | u16 length of the text | u32 length of the image
//!              u64 XXH3-64 of the 23 bytes before and the text | text | u64 XXH3-64 of the image | image
//! ```
//! All integers are little-endian. Each read checks the image's hash. The key is a hash of split, path, length and
//! modification time of the original image, so a record is used for that image only. The first incomplete or invalid
//! record ends the spool; later images are made again.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use shardpack_format::{Error, Result, hash};
use shardpack_storage::{
    OpenFile, Storage,
    own::{self, Access},
};

use crate::{Look, listing::take, storage, sys};

const MAGIC: &[u8; 8] = b"shardsp2";
const HEADER_BYTES: u64 = 24;
const RECORD_BYTES: usize = 31;
/// Length of the hash before an image.
const HASH_BYTES: usize = 8;

/// Outcome for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// The recipe does not change the image.
    Untouched = 0,
    /// The record holds a new image; the text lists the changes.
    Made = 1,
    /// The recipe cannot be applied; the text is the reason.
    Refused = 2,
}

impl What {
    /// Converts the number in a file.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Untouched, Self::Made, Self::Refused].into_iter().find(|what| *what as u8 == number)
    }
}

/// A record of the spool, without the image bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The outcome.
    pub what: What,
    /// The changes, or the reason for refusal.
    pub text: String,
    /// Offset of the image in the spool.
    pub place: u64,
    /// Length of the image in bytes.
    pub bytes: u32,
}

/// An open spool; several threads may write to it.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    file: File,
    /// Offset of the next record.
    end: Mutex<u64>,
}

impl Spool {
    /// Opens or creates the spool at `path` for `recipe`. Returns the records of an earlier run by key, if that run had
    /// the same recipe; otherwise the spool is emptied.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn open(path: &Path, recipe: &str) -> Result<(Self, HashMap<u128, Record>)> {
        let failed = |error| sys::io_error("cannot open", path, error);
        let file = own::open_or_create(path, Access::Create)?;
        let header = [&MAGIC[..], &hash::content(recipe.as_bytes()).to_le_bytes()].concat();
        let (mut known, mut end) = (HashMap::new(), HEADER_BYTES);
        let mut input = BufReader::with_capacity(1 << 20, &file);
        let mut found = vec![0; header.len()];
        if input.read_exact(&mut found).is_ok() && found == header {
            while let Some((key, record)) = next(&mut input, end).map_err(failed)? {
                end = record.place + u64::from(record.bytes);
                known.insert(key, record);
            }
        } else {
            own::set_length(&file, 0).and_then(|()| file.write_all_at(&header, 0)).map_err(failed)?;
        }
        own::set_length(&file, end).map_err(failed)?;
        Ok((Self { path: path.to_path_buf(), file, end: Mutex::new(end) }, known))
    }

    /// Appends the outcome for the image with `key`.
    ///
    /// # Errors
    /// If the image is 4 GiB or longer, or the file cannot be written.
    pub fn add(&self, key: u128, what: What, text: &str, image: &[u8]) -> Result<Record> {
        let too_long = || Error::data("an image of 4 GiB or more");
        let bytes = u32::try_from(image.len()).map_err(|_| too_long())?;
        // The text is usually one line. It is cut at a character boundary below 64 KiB.
        let cut = (0..=text.len().min(usize::from(u16::MAX))).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let text = &text[..cut];
        let before = RECORD_BYTES + text.len() + HASH_BYTES;
        let mut record = Vec::with_capacity(before + image.len());
        record.extend_from_slice(&key.to_le_bytes());
        record.push(what as u8);
        record.extend_from_slice(&(text.len() as u16).to_le_bytes());
        record.extend_from_slice(&bytes.to_le_bytes());
        record.extend_from_slice(&checksum(&record, text.as_bytes()).to_le_bytes());
        record.extend_from_slice(text.as_bytes());
        record.extend_from_slice(&hash::block(image).to_le_bytes());
        record.extend_from_slice(image);
        let start = {
            let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
            let start = *end;
            *end += record.len() as u64;
            start
        };
        let written = self.file.write_all_at(&record, start);
        written.map_err(|error| sys::io_error("cannot write", &self.path, error))?;
        Ok(Record { what, text: text.to_owned(), place: start + before as u64, bytes })
    }

    /// Syncs all records to disk.
    ///
    /// # Errors
    /// If the sync fails.
    pub fn sync(&self) -> Result<()> {
        own::sync(&self.file, &self.path)
    }
}

/// A complete spool in a storage.
#[derive(Debug)]
pub struct SpoolReader {
    path: PathBuf,
    file: Box<dyn OpenFile>,
}

impl SpoolReader {
    /// Opens the spool `name` of `storage`.
    ///
    /// # Errors
    /// If it is missing, or cannot be opened.
    pub fn open(storage: &dyn Storage, name: &str) -> Result<Self> {
        let path = storage.path_of(name);
        match storage.open(name)? {
            Some(file) => Ok(Self { path, file }),
            None => Err(Error::data("is missing: it holds transformed images").in_file(path)),
        }
    }

    /// Reads the image at offset `place` into `out`, which must have its length; one request over a network.
    ///
    /// # Errors
    /// If the file cannot be read, or the image does not match its hash.
    pub fn read(&self, place: u64, out: &mut [u8]) -> Result<()> {
        let damaged = || {
            let error = Error::data("a transformed image is damaged").in_file(&self.path).at_byte(place);
            error.help("remove the file: its images are then transformed again")
        };
        let start = place.checked_sub(HASH_BYTES as u64).ok_or_else(damaged)?;
        let end = place.checked_add(out.len() as u64).filter(|end| *end <= self.file.bytes()).ok_or_else(damaged)?;
        let mut expected = [0; HASH_BYTES];
        if self.file.local().is_some() {
            self.file.read_at(start, &mut expected)?;
            self.file.read_at(place, out)?;
        } else {
            // One request.
            let mut at = 0;
            self.file.read_range(start..end, &mut |bytes| {
                let (of_hash, of_image) = bytes.split_at(bytes.len().min(HASH_BYTES.saturating_sub(at)));
                fill(&mut expected, at, of_hash);
                fill(out, (at + of_hash.len()).saturating_sub(HASH_BYTES), of_image);
                at += bytes.len();
            })?;
        }
        if hash::block(out) == u64::from_le_bytes(expected) { Ok(()) } else { Err(damaged()) }
    }

    /// Reads the first bytes of an image at offset `place` into `first`, as [`storage::peek`]; `None` if they come over a network and
    /// are only wanted if that costs nothing.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn peek(&self, place: u64, first: &mut [u8], look: Look) -> Result<Option<usize>> {
        match self.file.local() {
            Some(file) => {
                storage::peek(file, place, first, look).map_err(|error| sys::io_error("cannot read", &self.path, error))
            }
            None if matches!(look, Look::Memory | Look::Ahead) => Ok(None),
            None => self.file.read_at(place, first).map(|()| Some(first.len())),
        }
    }
}

/// Copies `bytes` to `into` at `at`; a hash shows what is left out.
fn fill(into: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(into) = into.get_mut(at..at + bytes.len()) {
        into.copy_from_slice(bytes);
    }
}

/// Reads the record at offset `at` from `input`; `None` if it is incomplete or invalid.
fn next(input: &mut impl Read, at: u64) -> io::Result<Option<(u128, Record)>> {
    let mut head = [0; RECORD_BYTES];
    if !is_read(input.read_exact(&mut head))? {
        return Ok(None);
    }
    let (key, rest) = take(&head);
    let ([what], rest) = take(rest);
    let (text_bytes, rest) = take(rest);
    let (image_bytes, rest) = take(rest);
    let (expected, _) = take(rest);
    let Some(what) = What::from_number(what) else { return Ok(None) };
    let (text_bytes, bytes) = (usize::from(u16::from_le_bytes(text_bytes)), u32::from_le_bytes(image_bytes));
    // The buffer grows with the bytes that are present, whatever length the record has.
    let mut body = Vec::new();
    let before = text_bytes + HASH_BYTES;
    let length = before as u64 + u64::from(bytes);
    if input.take(length).read_to_end(&mut body)? as u64 != length {
        return Ok(None);
    }
    let (text, rest) = body.split_at(text_bytes);
    let (of_image, image) = take(rest);
    if checksum(&head[..RECORD_BYTES - 8], text) != u64::from_le_bytes(expected)
        || hash::block(image) != u64::from_le_bytes(of_image)
    {
        return Ok(None);
    }
    let Ok(text) = std::str::from_utf8(text) else { return Ok(None) };
    let place = at + (RECORD_BYTES + before) as u64;
    Ok(Some((u128::from_le_bytes(key), Record { what, text: text.to_owned(), place, bytes })))
}

fn is_read(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn checksum(head: &[u8], text: &[u8]) -> u64 {
    hash::block(&[head, text].concat())
}

#[cfg(test)]
mod tests {
    use shardpack_storage::Local;

    use super::*;

    #[test]
    fn what_was_made_is_known_again_and_nothing_after_the_first_damage_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let (spool, known) = Spool::open(&path, "small").unwrap();
        assert!(known.is_empty());
        let records = [
            (1, spool.add(1, What::Made, "resized", b"image").unwrap()),
            (2, spool.add(2, What::Untouched, "", b"").unwrap()),
            (3, spool.add(3, What::Refused, "no image", b"").unwrap()),
        ];
        let mut image = [0; 5];
        let reader = || SpoolReader::open(&Local::new(folder.path()), "spool").unwrap();
        reader().read(records[0].1.place, &mut image).unwrap();
        assert_eq!(&image, b"image");
        drop(spool);
        let bytes = std::fs::read(&path).unwrap();
        for at in records[0].1.place as usize - 8..records[0].1.place as usize + 5 {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            for damaged in [&wrong[..], &bytes[..at]] {
                std::fs::write(&path, damaged).unwrap();
                let error = reader().read(records[0].1.place, &mut image).unwrap_err();
                assert!(error.to_string().contains("damaged"), "byte {at}: {error}");
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Spool::open(&path, "small").unwrap().1, HashMap::from(records.clone()));
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            for damaged in [&wrong[..], &bytes[..at]] {
                std::fs::write(&path, damaged).unwrap();
                let (spool, known) = Spool::open(&path, "small").unwrap();
                assert!(known.len() < 3, "byte {at}");
                assert!(known.iter().all(|(key, record)| records[*key as usize - 1].1 == *record), "byte {at}");
                // A remade image takes the place of the invalid records.
                let again = spool.add(9, What::Made, "", b"other").unwrap();
                assert_eq!(Spool::open(&path, "small").unwrap().1.get(&9), Some(&again), "byte {at}");
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        assert!(Spool::open(&path, "large").unwrap().1.is_empty());
    }
}
