//! Zip archives: the one reader of their bytes, and a [`Storage`](shardpack_storage::Storage) of the files in one.
//!
//! Holds at all times: a member that is read has the length and the checksum of the directory. Archives whose directory,
//! headers and lengths contradict each other are refused.
//!
//! # Specification
//! PKWARE APPNOTE 6.3.10, 4.3.7 (local header), 4.3.12 (directory), 4.3.14 to 4.3.16 (end), 4.5.3 (zip64), 4.6.9 (0x7075, names in UTF-8).

pub(crate) mod archive;
mod end;
mod extra;
mod folder;
#[cfg(test)]
pub(crate) mod written;

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
};

use shardpack_format::Error;

pub use folder::ZipFolder;

/// Reason why a file or a member is unreadable.
#[derive(Debug)]
pub enum Fault {
    /// A system error, or an [`Error`] of a storage.
    Io(io::Error),
    /// The archive is corrupt, or a member is encrypted or packed by a method that is refused by name.
    Data(String),
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

pub(crate) fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(Fault::Data(what.into()))
}

impl Fault {
    /// The same, of the member called `name`.
    pub(crate) fn of_member(self, name: &str) -> Self {
        match self {
            Self::Data(what) if !what.starts_with("member ") => Self::Data(format!("member {name:?}: {what}")),
            other => other,
        }
    }

    /// The same as an error of a storage.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Data(what) => Error::data(what),
            Self::Io(error) => error.downcast().unwrap_or_else(|error| Error::io("cannot read", error)),
        }
    }
}

/// Bytes that are read at any offset.
pub trait ReadAt {
    /// Fills `out` from `offset` on.
    ///
    /// # Errors
    /// As [`FileExt::read_exact_at`].
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.get(start..).and_then(|rest| rest.get(..out.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }
}

fn read<R: ReadAt + ?Sized>(file: &R, offset: u64, out: &mut [u8]) -> Result<()> {
    file.read_at(offset, out).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Data("truncated: shorter than its directory requires".to_owned()),
        _ => Fault::Io(error),
    })
}

fn inflate(unpacked: &mut impl Read, out: &mut [u8]) -> Result<()> {
    unpacked.read_exact(out).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Data("damaged: unpacks to less than in the directory".to_owned()),
        _ => failed(error),
    })
}

/// An error of decompression: an error of the system or of a storage, or corrupt data.
fn failed(error: io::Error) -> Fault {
    let is_of_storage = error.get_ref().is_some_and(|inner| inner.is::<Error>());
    match error.raw_os_error().is_some() || is_of_storage {
        true => Fault::Io(error),
        false => Fault::Data(format!("damaged: {error}")),
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    // All callers have so many bytes.
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(number(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}
