//! Reads listed files: opens each by folder descriptor and name, reads it in one pass and closes it. If samples are values, reads the
//! arrays in the files.

use std::{
    fs::File,
    io::{self, IoSliceMut, Read},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use shardpack_format::{Result, text};

use super::{Look, ReadError, Refusal, SampleReader, names, storage, walk};
use crate::{
    foreign::npz::{self, Npz},
    listing::Listing,
    sys,
};

/// Divisor of the descriptor limit: 1 / `FOLDER_SHARE` of it may be used for folders; files and shards need the rest.
const FOLDER_SHARE: u64 = 2;

/// NONBLOCK: a pipe that replaced a file must not block the open.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Reads the bytes of files in folders.
#[derive(Debug)]
pub struct FolderReader<'a> {
    listing: &'a Listing,
    root: OwnedFd,
    root_path: PathBuf,
    /// Cached descriptors of the first folders; files in other folders are opened by path from the root.
    folders: Box<[OnceLock<OwnedFd>]>,
}

impl<'a> FolderReader<'a> {
    /// Opens a reader for `listing`, whose paths are relative to `root`.
    pub fn open(root: &Path, listing: &'a Listing) -> Result<Self> {
        let fd = walk::open_folder(rustix::fs::CWD, root.as_os_str().as_bytes())
            .map_err(|e| sys::io_error("cannot open folder", root, e.into()))?;
        let kept = (sys::raise_open_files() / FOLDER_SHARE).saturating_sub(64).min(listing.folders().len() as u64);
        let folders = (0..kept).map(|_| OnceLock::new()).collect();
        Ok(Self { listing, root: fd, root_path: root.to_path_buf(), folders })
    }

    /// Opens the file `name` in the folder of sample `number`.
    fn file(&self, number: u64, name: &[u8]) -> Result<File, ReadError> {
        let folder = &self.listing.folder(number).path;
        let mut opened = match self.folders.get(self.listing.entry(number).folder as usize) {
            Some(slot) => {
                self.folder(slot, folder).and_then(|folder| rustix::fs::openat(folder, name, FLAGS, Mode::empty()))
            }
            None => rustix::fs::openat(&self.root, names::join(folder, name).as_slice(), FLAGS, Mode::empty()),
        };
        if matches!(opened, Err(Errno::STALE)) {
            // The server invalidated the open folder handle; the path may still be valid.
            opened = rustix::fs::open(self.path(number, name), FLAGS, Mode::empty());
        }
        opened.map(File::from).map_err(|error| ReadError::of_system(error.into(), &self.path(number, name)))
    }

    /// The path of the file `name` in the folder of sample `number`.
    fn path(&self, number: u64, name: &[u8]) -> PathBuf {
        let path = names::join(&self.listing.folder(number).path, name);
        self.root_path.join(std::ffi::OsStr::from_bytes(&path))
    }

    /// Opens the file at `path` in the source.
    fn file_at(&self, path: &[u8]) -> Result<File, ReadError> {
        let opened = match rustix::fs::openat(&self.root, path, FLAGS, Mode::empty()) {
            // As in `file`.
            Err(Errno::STALE) => rustix::fs::open(self.root_path.join(names::as_path(path)), FLAGS, Mode::empty()),
            opened => opened,
        };
        opened
            .map(File::from)
            .map_err(|error| ReadError::of_system(error.into(), &self.root_path.join(names::as_path(path))))
    }

    /// Reads the file `name` in the folder of sample `number` into `payload`; the file must have the listed length.
    fn read_file(&self, number: u64, name: &[u8], payload: &mut [u8]) -> Result<(), ReadError> {
        self.read_opened(self.file(number, name)?, &|| self.path(number, name), payload)
    }

    /// Reads `file` at `path` into `payload`; the file must have the listed length.
    fn read_opened(&self, mut file: File, path: &dyn Fn() -> PathBuf, payload: &mut [u8]) -> Result<(), ReadError> {
        // Reads one byte more than planned: a short read has reached the end of the file, so no extra read call is needed.
        let (mut filled, mut beyond) = (0, [0]);
        while filled < payload.len() {
            let parts = &mut [IoSliceMut::new(&mut payload[filled..]), IoSliceMut::new(&mut beyond)];
            match file.read_vectored(parts) {
                Ok(0) => return Err(changed(format!("{filled} bytes"), payload.len())),
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::of_system(error, &path())),
            }
        }
        match filled > payload.len() {
            true => Err(changed("more bytes".to_owned(), payload.len())),
            false => Ok(()),
        }
    }

    /// Reads the file at `path` in the source into `out`; the file must have the listed length.
    pub(super) fn read_at(&self, path: &[u8], out: &mut [u8]) -> Result<(), ReadError> {
        let file = self.file_at(path)?;
        self.read_opened(file, &|| self.root_path.join(names::as_path(path)), out)
    }

    /// Opens sample `number`, a `.npz` file, and returns the result of `look`.
    pub(super) fn npz<T>(
        &self,
        number: u64,
        look: impl FnOnce(&Npz<'_, File>) -> Result<T, npz::Fault>,
    ) -> Result<T, ReadError> {
        let name = self.listing.name(number);
        let failed = |error: io::Error| ReadError::of_system(error, &self.path(number, name));
        let file = self.file(number, name)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Npz::open(&file, bytes).and_then(|npz| look(&npz)).map_err(|fault| match fault {
            npz::Fault::Io(error) => failed(error),
            npz::Fault::Data(what) => ReadError::Refused(Refusal(what)),
        })
    }

    fn folder<'s>(&self, slot: &'s OnceLock<OwnedFd>, path: &[u8]) -> Result<&'s OwnedFd, Errno> {
        if let Some(folder) = slot.get() {
            return Ok(folder);
        }
        let folder = walk::open_folder(&self.root, path)?;
        // If another thread was first, this descriptor is closed.
        Ok(slot.get_or_init(|| folder))
    }
}

impl SampleReader for FolderReader<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        let components = self.listing.components();
        match &components.payload {
            None => self.read_file(number, self.listing.name(number), payload),
            Some(kind) => {
                let form = components.form(components.payload_form(number));
                if names::is_npz(self.listing.name(number)) {
                    return self.npz(number, |npz| npz.read(kind.name(), form, payload));
                }
                self.read_file(number, self.listing.name(number), payload)?;
                match payload.starts_with(&form.head()) {
                    true => Ok(()),
                    false => Err(ReadError::Refused(Refusal(format!(
                        "changed since it was planned: its header is not that of an array {form}"
                    )))),
                }
            }
        }
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        let components = self.listing.components();
        let (Some(kind), Some(cell)) = (components.kinds.get(which), components.cells_of(number).get(which)) else {
            return Err(ReadError::Refused(Refusal("has no such component".to_owned())));
        };
        if kind.is_value() {
            return self.npz(number, |npz| npz.read(kind.name(), components.form(cell.form), out));
        }
        let path = || self.listing.component_file(number, which);
        if let Some((path, _)) = kind.is_path().then(path).flatten() {
            return self.read_at(&path, out).map_err(|error| of_component(&path, error));
        }
        let Some(name) = kind.file_of(self.listing.name(number)) else {
            return components.copy_text(*cell, out).map_err(|why| ReadError::Refused(Refusal(why)));
        };
        // An empty file is not read, and cannot have become shorter.
        self.read_file(number, &name, out).map_err(|error| of_component(&name, error))
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        let name = self.listing.name(number);
        let (file, bytes) = (self.file(number, name)?, self.listing.entry(number).bytes);
        if look == Look::Ahead {
            storage::read_ahead(&file, bytes);
        }
        let mut peeked = storage::peek(&file, 0, first, look);
        if matches!((&peeked, look), (Ok(Some(_)), Look::Memory | Look::Ahead)) && bytes as usize > first.len() {
            let last = storage::peek(&file, u64::from(bytes) - 1, &mut [0], look);
            peeked = last.and_then(|last| if last.is_some() { peeked } else { Ok(None) });
        }
        peeked.map_err(|error| ReadError::of_system(error, &self.path(number, name)))
    }
}

/// The error of a sample that names the file of its component.
pub(super) fn of_component(file: &[u8], error: ReadError) -> ReadError {
    match error {
        ReadError::Refused(Refusal(why)) => ReadError::Refused(Refusal(format!("{}: {why}", text::shown(file)))),
        fatal => fatal,
    }
}

fn changed(found: String, planned: usize) -> ReadError {
    ReadError::Refused(Refusal(format!("changed since it was planned: {found}, {planned} in the plan")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::{Folder, FolderSamples};
    use std::sync::Arc;

    #[test]
    fn a_file_that_changed_or_went_is_refused_and_the_rest_is_read() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("a")).unwrap();
        let mut samples = FolderSamples::default();
        for (name, found) in [("gone", None), ("longer", Some(6)), ("right", Some(5)), ("shorter", Some(4))] {
            if let Some(bytes) = found {
                std::fs::write(root.path().join("a").join(name), vec![b'x'; bytes]).unwrap();
            }
            samples.push(name.as_bytes(), 5, 0, 0);
        }
        let folder = Folder { path: b"a".as_slice().into(), class: Some(0) };
        let listing = Listing::new(Arc::new(vec![b"a".as_slice().into()]), vec![(folder, samples)]);
        let reader = FolderReader::open(root.path(), &listing).unwrap();
        let mut payload = [0; 5];
        let mut read = |number| {
            reader.read(number, &mut payload).map_err(|error| match error {
                ReadError::Refused(Refusal(reason)) => reason,
                ReadError::Fatal(error) => error.to_string(),
            })
        };
        assert!(read(0).unwrap_err().starts_with("cannot be read: No such file"));
        assert_eq!(read(1).unwrap_err(), "changed since it was planned: more bytes, 5 in the plan");
        assert_eq!(read(2), Ok(()));
        assert_eq!(read(3).unwrap_err(), "changed since it was planned: 4 bytes, 5 in the plan");
        assert_eq!(&payload, b"xxxxx");
    }
}
