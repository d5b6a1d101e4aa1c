//! Files as bytes in memory: mapped where the system allows it. All the `unsafe` of this crate is here.
//!
//! A mapping is read-only, of a whole file whose length was checked just before, and lives as long as the bytes that
//! are handed out of it. See the crate's page for what happens to a mapped file that somebody else changes.

#![allow(unsafe_code)]

use std::{fs::File, io, os::unix::fs::FileExt};

use memmap2::Mmap;

/// The bytes of a whole file: a mapping, or a copy in memory where the file system or the kernel refuses to map.
#[derive(Debug)]
pub struct Bytes(Kept);

#[derive(Debug)]
enum Kept {
    Mapped(Mmap),
    Copied(Vec<u8>),
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Kept::Mapped(map) => map,
            Kept::Copied(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Kept::Copied(bytes))
    }
}

impl Bytes {
    /// Maps the whole of `file`, which was found to be `bytes` long.
    ///
    /// # Errors
    /// When the system refuses: no such call on this file system, or too many mappings (`vm.max_map_count`).
    pub(crate) fn map(file: &File, bytes: u64) -> io::Result<Self> {
        // An empty mapping is an error to the kernel.
        if bytes == 0 {
            return Ok(Self(Kept::Copied(Vec::new())));
        }
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: the mapping is private to this process's view of a regular file, read-only, and owned by `Bytes`, so
        // no slice of it outlives it. That nobody else changes or cuts the file meanwhile cannot be enforced by any
        // program; datasets are sealed, and the crate's page says what a caller takes on. All offsets that are read out
        // of a mapping are checked after they were read, each time.
        let map = unsafe { memmap2::MmapOptions::new().len(length).map(file) }?;
        Ok(Self(Kept::Mapped(map)))
    }

    /// As [`Bytes::map`], but where that is refused the file is read into memory.
    ///
    /// # Errors
    /// When the file cannot be read either, or is shorter than `bytes` by now.
    pub(crate) fn map_or_read(file: &File, bytes: u64) -> io::Result<Self> {
        Self::map(file, bytes).or_else(|_| Self::read(file, bytes))
    }

    /// A copy of the whole of `file`, which was found to be `bytes` long.
    ///
    /// # Errors
    /// When it cannot be read, or is shorter by now.
    pub(crate) fn read(file: &File, bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(length)?;
        copy.resize(length, 0);
        file.read_exact_at(&mut copy, 0)?;
        Ok(Self(Kept::Copied(copy)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_and_a_copy_hold_the_bytes_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        for length in [0usize, 1, 4095, 4096, 4097, 1 << 20] {
            let content: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let path = folder.path().join("file");
            std::fs::write(&path, &content).unwrap();
            let file = File::open(&path).unwrap();
            let (map, copy) = (Bytes::map(&file, length as u64).unwrap(), Bytes::read(&file, length as u64).unwrap());
            // The descriptor is not needed any more.
            drop(file);
            assert!(map.as_ref() == content && copy.as_ref() == content, "{length}");
        }
    }

    #[test]
    fn a_mapping_outlives_the_name_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"still here").unwrap();
        let map = Bytes::map(&File::open(&path).unwrap(), 10).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(map.as_ref(), b"still here");
    }

    #[test]
    fn a_copy_of_more_than_the_file_holds_is_refused() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"12345").unwrap();
        assert!(Bytes::read(&file, 6).is_err());
        assert!(Bytes::read(&file, u64::MAX).is_err());
    }
}
