//! Provides files as bytes in memory: mapped if the system allows it. All `unsafe` code of this crate is here.
//!
//! A mapping is read-only, covers a whole file whose length was checked just before, and lives as long as the slices
//! borrowed from it. The crate's page describes the effect of changes to a mapped file by other processes.

#![allow(unsafe_code)]

use std::{fs::File, io, os::unix::fs::FileExt};

use memmap2::Mmap;

/// The bytes of a whole file: a mapping, or a copy in memory if the file system or the kernel refuses to map.
#[derive(Debug)]
pub struct Bytes(Backing);

#[derive(Debug)]
enum Backing {
    Mapped(Mmap),
    Copied(Vec<u8>),
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Backing::Mapped(map) => map,
            Backing::Copied(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Backing::Copied(bytes))
    }
}

impl Bytes {
    /// Maps the whole `file`, which is `bytes` long.
    ///
    /// # Errors
    /// When the system refuses: the file system does not support it, or there are too many mappings
    /// (`vm.max_map_count`).
    pub(crate) fn map(file: &File, bytes: u64) -> io::Result<Self> {
        // The kernel rejects empty mappings.
        if bytes == 0 {
            return Ok(Self(Backing::Copied(Vec::new())));
        }
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: the mapping is private to this process's view of a regular file, read-only, and owned by `Bytes`, so
        // no slice outlives it. No program can prevent other processes from changing or truncating the file; datasets
        // are sealed, and the crate's page describes the risk for a caller. Every offset that is read from a mapping
        // is checked after each read.
        let map = unsafe { memmap2::MmapOptions::new().len(length).map(file) }?;
        Ok(Self(Backing::Mapped(map)))
    }

    /// As [`Bytes::map`], but reads the file into memory if mapping is refused.
    ///
    /// # Errors
    /// When the file cannot be read either, or is now shorter than `bytes`.
    pub(crate) fn map_or_read(file: &File, bytes: u64) -> io::Result<Self> {
        Self::map(file, bytes).or_else(|_| Self::read(file, bytes))
    }

    /// A copy of the whole `file`, which is `bytes` long.
    ///
    /// # Errors
    /// When the file cannot be read, or is now shorter.
    pub(crate) fn read(file: &File, bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(length)?;
        copy.resize(length, 0);
        file.read_exact_at(&mut copy, 0)?;
        Ok(Self(Backing::Copied(copy)))
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
            // The descriptor is no longer needed.
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
