//! Writes an object while its bytes are made: parts of equal length are sent from memory by many threads.
//!
//! Holds at all times: memory holds only the parts that are being filled and sent. An object that fits one part is put whole when
//! it is finished. Multipart uploads that are started and not ended are in the record of the work folder, if there is one.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shardpack_format::{Error, ErrorKind, Result, hash};

use crate::{
    FileWriter, Size, own,
    parts::{PART_BYTES, part_bytes},
    remote::{Completed, Store, Upload},
    storage::check_written,
    sys,
};

/// File in the work folder: multipart uploads that were started or have ended, one a line.
const RECORD_FILE: &str = "uploads";
/// In place of the name for an upload that has ended; no object has this name.
const ENDED: &str = "";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Record of multipart uploads.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    path: PathBuf,
    /// The storage's folder, relative to the one whose names are recorded: empty, or a path with a slash.
    below: String,
}

impl Record {
    /// The record in the folder `work` of this machine.
    pub fn in_folder(work: &Path) -> Self {
        Self { path: work.join(RECORD_FILE), below: String::new() }
    }

    /// The same record for the subfolder `name`.
    pub fn folder(&self, name: &str) -> Self {
        Self { path: self.path.clone(), below: format!("{}{name}/", self.below) }
    }

    /// Whether there is one in `work`.
    pub fn is_in(work: &Path) -> bool {
        work.join(RECORD_FILE).exists()
    }

    fn begun(&self, id: &str, name: &str) -> Result<()> {
        own::append(&self.path, &format!("{id}\t{}{name}\n", self.below))
    }

    fn ended(&self, id: &str) -> Result<()> {
        own::append(&self.path, &format!("{id}\t{ENDED}\n"))
    }

    /// Aborts the recorded uploads of `store`, whose folder is that of the record, and removes the record. Returns the names of
    /// objects whose parts may remain, because the store refuses to abort.
    pub fn abort_all(&self, store: &Store) -> Result<Vec<String>> {
        let lines = sys::read_opt(&self.path)?.unwrap_or_default();
        let lines = String::from_utf8_lossy(&lines).into_owned();
        let mut begun = BTreeMap::new();
        for (id, name) in lines.lines().filter_map(|line| line.split_once('\t')) {
            match name {
                ENDED => drop(begun.remove(id)),
                name => drop(begun.insert(id, name)),
            }
        }
        let mut left = Vec::new();
        for (id, name) in begun {
            match store.abort(name, id) {
                Ok(()) => self.ended(id)?,
                // Some servers also refuse for unknown uploads.
                Err(error) if error.kind() == ErrorKind::Usage => left.push(name.to_owned()),
                Err(error) => return Err(error),
            }
        }
        sys::remove_file(&self.path)?;
        Ok(left)
    }
}

/// A part that is being filled.
#[derive(Debug)]
struct Filling {
    bytes: Vec<u8>,
    filled: usize,
}

#[derive(Debug, Default)]
struct State {
    parts: BTreeMap<u64, Filling>,
    /// Offset of the end of the last written byte.
    end: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ObjectWriter {
    store: Arc<Store>,
    record: Option<Record>,
    name: String,
    size: Size,
    part_bytes: u64,
    state: Mutex<State>,
    upload: Mutex<Option<Arc<Upload>>>,
}

impl ObjectWriter {
    pub fn new(store: Arc<Store>, record: Option<Record>, name: &str, size: Size) -> Self {
        let (Size::Known(bytes) | Size::Content(bytes)) = size;
        Self {
            store,
            record,
            name: name.to_owned(),
            size,
            part_bytes: part_bytes(bytes),
            state: Mutex::default(),
            upload: Mutex::default(),
        }
    }

    /// Length of the object in bytes; `None` if it is not known before the end.
    fn known(&self) -> Option<u64> {
        match self.size {
            Size::Known(bytes) => Some(bytes),
            Size::Content(_) => None,
        }
    }

    /// Length of part `number` in bytes, as far as known before the end.
    fn part_length(&self, number: u64) -> u64 {
        let start = number * self.part_bytes;
        self.known().map_or(self.part_bytes, |bytes| bytes.saturating_sub(start).min(self.part_bytes))
    }

    /// Whether the object fits one part, so that it is put whole at the end.
    fn is_one_part(&self) -> bool {
        self.known().is_some_and(|bytes| bytes <= self.part_bytes)
    }

    /// The multipart upload, created by the first caller.
    fn upload(&self) -> Result<Arc<Upload>> {
        let mut upload = lock(&self.upload);
        if let Some(upload) = &*upload {
            return Ok(Arc::clone(upload));
        }
        let begun = Arc::new(self.store.upload(&self.name)?);
        self.record.as_ref().map_or(Ok(()), |record| record.begun(begun.id(), &self.name))?;
        Ok(Arc::clone(upload.insert(begun)))
    }

    fn ended(&self, upload: &Upload) -> Result<()> {
        self.record.as_ref().map_or(Ok(()), |record| record.ended(upload.id()))
    }

    /// Compares all bytes of the object with the written ones by hash.
    fn is_stored(&self, bytes: u64, blake3: &hash::FileHash) -> Result<bool> {
        self.store.forget(&self.name);
        if self.store.length(&self.name)? != Some(bytes) {
            return Ok(false);
        }
        let mut hasher = blake3::Hasher::new();
        let mut at = 0;
        while at < bytes {
            let end = bytes.min(at + PART_BYTES);
            self.store.read_range(&self.name, bytes, at..end, |piece: &[u8]| {
                hasher.update(piece);
            })?;
            at = end;
        }
        Ok(hasher.finalize().as_bytes() == blake3)
    }
}

impl FileWriter for ObjectWriter {
    fn path(&self) -> PathBuf {
        self.store.object_url(&self.name).into()
    }

    fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        self.size.check(offset + bytes.len() as u64, || self.path())?;
        while !bytes.is_empty() {
            let number = offset / self.part_bytes;
            let length = self.part_length(number);
            let within = (offset - number * self.part_bytes) as usize;
            let taken = bytes.len().min(length as usize - within);
            let full = {
                let mut state = lock(&self.state);
                state.end = state.end.max(offset + taken as u64);
                let part =
                    state.parts.entry(number).or_insert_with(|| Filling { bytes: vec![0; length as usize], filled: 0 });
                part.bytes[within..within + taken].copy_from_slice(&bytes[..taken]);
                part.filled += taken;
                // Spans do not overlap, so no byte is written and counted twice.
                let is_full = part.filled as u64 == length && !self.is_one_part();
                if is_full { state.parts.remove(&number) } else { None }
            };
            if let Some(part) = full {
                self.upload()?.part(number as usize, part.bytes)?;
            }
            (bytes, offset) = (&bytes[taken..], offset + taken as u64);
        }
        Ok(())
    }

    fn finish(&self, bytes: u64, blake3: &hash::FileHash) -> Result<()> {
        let (rest, end) = {
            let mut state = lock(&self.state);
            (std::mem::take(&mut state.parts), state.end)
        };
        let is_whole = match self.known() {
            Some(all) if self.is_one_part() => end == all && rest.values().all(|part| part.filled as u64 == all),
            Some(all) => rest.is_empty() && end == all,
            None => rest.len() <= 1,
        };
        check_written(end, bytes, || self.path())?;
        if !is_whole {
            return Err(Error::data("bytes of the file were not written").in_file(self.path()));
        }
        for (number, mut part) in rest {
            part.bytes.truncate(part.filled);
            match number {
                // The whole object fits one part.
                0 => return self.store.put(&self.name, part.bytes),
                number => self.upload()?.part(number as usize, part.bytes)?,
            }
        }
        let Some(upload) = lock(&self.upload).take() else {
            return self.store.put(&self.name, Vec::new());
        };
        match upload.complete()? {
            Completed::Perhaps(error) if !self.is_stored(bytes, blake3)? => Err(error),
            Completed::Yes | Completed::Perhaps(_) => {
                self.store.forget(&self.name);
                self.ended(&upload)
            }
        }
    }

    fn abort(&self) -> Result<()> {
        lock(&self.state).parts.clear();
        let upload = lock(&self.upload).take();
        upload.map_or(Ok(()), |upload| upload.abort().and_then(|()| self.ended(&upload)))
    }
}
