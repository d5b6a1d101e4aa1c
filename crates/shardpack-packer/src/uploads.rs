//! Uploads to a store: shards from memory in parts of equal length while they are made; small files whole.
//!
//! Holds at all times: shards are never on disk, and memory holds only the parts that are being filled and
//! sent. Multipart uploads that a run has started and not ended are recorded, and the next run aborts them.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shardpack_format::{Error, ErrorKind, Result, hash, help, regular};
use shardpack_reader::{StoreSettings, Transfers};
use shardpack_storage::remote::{Completed, Settings, Store, Upload};

use crate::{monitor::Monitor, own, parallel::each, sys};

/// Minimum length of a part: S3 requires at least 5 MiB, and each part is a request.
const PART_BYTES: u64 = 8 << 20;
/// Maximum number of parts of a shard: stores allow 10,000, and a compressed shard may be longer than its
/// content.
const MOST_PARTS: u64 = 9_000;
/// Maximum number of threads that frame, hash and send at a time.
const MOST_THREADS: usize = 8;
/// Parts in memory for each thread: one being sent, and the two at the start and the end of a span.
const PARTS_A_THREAD: u64 = 3;
/// Concurrent requests for small files and lengths.
const REQUESTS: usize = 32;
/// Bytes of a file that a thread reads at a time.
const READ_BYTES: u64 = 1 << 20;
/// Maximum length of a small file that is read.
const MOST_BYTES: u64 = 1 << 30;
/// A file of known length is read up to this many bytes more: a server that sends more is not trusted.
const MORE_BYTES: u64 = 64 << 20;
/// File in the work folder: multipart uploads that were started or have ended, one a line.
const RECORD_FILE: &str = "uploads";
/// In place of the name for an upload that has ended; no object has this name.
const ENDED: &str = "";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Length in bytes of the parts of a shard with this length or content.
fn part_bytes(content_bytes: u64) -> u64 {
    PART_BYTES.max(content_bytes.div_ceil(MOST_PARTS).next_multiple_of(1 << 20))
}

/// A folder of a store, for writing.
#[derive(Clone, Debug)]
pub struct Uploads {
    store: Arc<Store>,
    /// Prefix of names: empty, or the folder of a split with a slash.
    below: String,
    /// File that records multipart uploads.
    record: PathBuf,
    guard: Option<Arc<Guard>>,
}

/// Required content of a file in the store at the time when a shard becomes an object.
struct Guard {
    file: String,
    check: Box<Check>,
}

type Check = dyn Fn(Option<Vec<u8>>) -> Result<()> + Send + Sync;

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Uploads {
    /// The folder at `url`; sends no request yet.
    ///
    /// # Errors
    /// If it is read-only, or there are no such settings.
    pub fn new(url: &Path, settings: &StoreSettings, work: &Path) -> Result<Self> {
        let text = url.to_str().ok_or_else(|| Error::usage("a URL that is not UTF-8").in_file(url))?;
        let store = Arc::new(Store::new(text, &Settings::of(settings.pairs().iter().cloned()))?);
        match store.is_read_only() {
            true => Err(Error::usage("a web server is only read from").in_file(store.url()).help(help::COPY_TO_WEB)),
            false => Ok(Self { store, below: String::new(), record: work.join(RECORD_FILE), guard: None }),
        }
    }

    /// The subfolder of a split, or the folder itself.
    pub fn of_split(&self, split: Option<&str>) -> Self {
        let below = split.map_or_else(String::new, |split| format!("{split}/"));
        Self { below, ..self.clone() }
    }

    /// The same folder, with its own record of multipart uploads in the folder `work`.
    pub fn recorded_in(&self, work: &Path) -> Self {
        Self { record: work.join(RECORD_FILE), ..self.clone() }
    }

    /// The same folder, but a shard becomes an object only if `check` accepts the present content of `file`.
    pub fn guarded(&self, file: String, check: impl Fn(Option<Vec<u8>>) -> Result<()> + Send + Sync + 'static) -> Self {
        Self { guard: Some(Arc::new(Guard { file, check: Box::new(check) })), ..self.clone() }
    }

    /// Runs the check of [`Uploads::guarded`].
    ///
    /// # Errors
    /// The error of the check, and if the store does not answer.
    pub fn is_unchanged(&self) -> Result<()> {
        match &self.guard {
            None => Ok(()),
            Some(guard) => (guard.check)(self.of_split(None).read_if_there(&guard.file)?),
        }
    }

    /// Whether the folder `work` has a record of multipart uploads.
    pub fn has_record(work: &Path) -> bool {
        work.join(RECORD_FILE).exists()
    }

    /// The URL.
    pub fn url(&self) -> &str {
        self.store.url()
    }

    /// Aborts the multipart uploads of earlier runs. Returns the names of objects whose parts may remain,
    /// because the store refuses to abort.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn give_up_begun(&self) -> Result<Vec<String>> {
        let lines = sys::read_if_there(&self.record)?.unwrap_or_default();
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
            match self.store.abort(name, id) {
                Ok(()) => note(&self.record, id, ENDED)?,
                // Some servers also refuse for unknown uploads.
                Err(error) if error.kind() == ErrorKind::Usage => left.push(name.to_owned()),
                Err(error) => return Err(error),
            }
        }
        sys::remove_file(&self.record)?;
        Ok(left)
    }

    /// Number of concurrent threads for this memory, and the memory that remains beside their parts.
    pub fn threads(memory_bytes: u64, jobs: usize) -> (usize, u64) {
        let of_thread = PARTS_A_THREAD * PART_BYTES;
        let fit = usize::try_from(memory_bytes / 2 / of_thread).unwrap_or(usize::MAX);
        let threads = jobs.max(MOST_THREADS).min(fit).max(1);
        (threads, memory_bytes.saturating_sub(threads as u64 * of_thread).max(memory_bytes / 2))
    }

    /// Number of requests to put a shard of this many bytes.
    pub fn requests(content_bytes: u64, is_compressed: bool) -> u64 {
        let parts = content_bytes.div_ceil(part_bytes(content_bytes));
        // A shard that fits one part is put whole; for a compressed shard that is not known.
        if parts <= 1 && !is_compressed { 1 } else { parts + 2 }
    }

    /// Number of requests of [`Uploads::reader`] for a file of this many bytes.
    pub fn fetches(bytes: u64) -> u64 {
        bytes.div_ceil(PART_BYTES)
    }

    /// A shard of length `content_bytes`; if it is compressed, that is the length of its content.
    pub(crate) fn shard(&self, file: &str, content_bytes: u64, is_compressed: bool) -> ObjectOutput {
        let part_bytes = part_bytes(content_bytes);
        ObjectOutput {
            uploads: self.clone(),
            name: format!("{}{file}", self.below),
            bytes: (!is_compressed).then_some(content_bytes),
            part_bytes,
            state: Mutex::default(),
            upload: Mutex::default(),
        }
    }

    /// A reader from the beginning of a file of length `bytes`.
    pub fn reader(&self, file: &str, bytes: u64) -> impl Read + use<> {
        let (store, name) = (Arc::clone(&self.store), format!("{}{file}", self.below));
        store.forget(&name);
        let (mut at, mut piece, mut taken) = (0, Vec::new(), 0);
        let read = move |into: &mut [u8]| {
            if taken == piece.len() && at < bytes {
                piece.resize((bytes - at).min(PART_BYTES) as usize, 0);
                store.read(&name, bytes, at, &mut piece).map_err(|error| io::Error::other(error.to_string()))?;
                (at, taken) = (at + piece.len() as u64, 0);
            }
            let given = into.len().min(piece.len() - taken);
            into[..given].copy_from_slice(&piece[taken..taken + given]);
            taken += given;
            Ok(given)
        };
        Reading(read)
    }

    /// Puts a small file.
    pub fn put(&self, file: &str, bytes: Vec<u8>) -> Result<()> {
        self.store.put(&format!("{}{file}", self.below), bytes)
    }

    /// Puts the file at `path`, which has this length and BLAKE3, or replaces the object of its name: whole, or
    /// in concurrent parts.
    ///
    /// # Errors
    /// If the store refuses it; [`Uploads::give_up_begun`] aborts the parts.
    pub fn put_file(
        &self,
        file: &str,
        path: &Path,
        bytes: u64,
        blake3: &hash::FileHash,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let failed = |error| sys::io_error("cannot read", path, error);
        let output = self.shard(file, bytes, false);
        if bytes <= output.part_bytes {
            return self.put(file, regular::read(path).map_err(failed)?);
        }
        let from = regular::open(path).map_err(failed)?;
        let starts: Vec<u64> = (0..bytes.div_ceil(output.part_bytes)).map(|part| part * output.part_bytes).collect();
        each(&starts, MOST_THREADS, |start| {
            let (mut at, end) = (*start, bytes.min(start + output.part_bytes));
            while at < end {
                monitor.go_on()?;
                let mut piece = vec![0; READ_BYTES.min(end - at) as usize];
                from.read_exact_at(&mut piece, at).map_err(failed)?;
                output.write_at(&piece, at)?;
                at += piece.len() as u64;
            }
            Ok(())
        })?;
        output.finish(bytes, blake3)
    }

    /// Reads a small file of length `bytes`; `None` if it is missing. If `is_right` is false, the file is read
    /// once more.
    pub fn read_right(&self, file: &str, bytes: u64, is_right: impl Fn(&[u8]) -> bool) -> Result<Option<Vec<u8>>> {
        let (name, most) = (format!("{}{file}", self.below), bytes.saturating_add(MORE_BYTES));
        match self.store.read_now(&name, most)? {
            Some(bytes) if !is_right(&bytes) => self.store.read_now(&name, most),
            read => Ok(read),
        }
    }

    /// Reads a small file; `None` if it is missing.
    pub fn read_if_there(&self, file: &str) -> Result<Option<Vec<u8>>> {
        self.store.read_now(&format!("{}{file}", self.below), MOST_BYTES)
    }

    /// Time of the last change of a file that was read before, in nanoseconds since 1970; `None` if the store does not report it.
    /// Stores report whole seconds: this is the end of the second.
    pub fn changed_at_ns(&self, file: &str) -> Option<u128> {
        let seconds = self.store.changed_at(&format!("{}{file}", self.below))?;
        Some((u128::try_from(seconds).ok()? + 1) * 1_000_000_000)
    }

    /// Removes a file; a missing file is no error.
    pub fn remove(&self, file: &str) -> Result<()> {
        self.store.delete(&format!("{}{file}", self.below))
    }

    /// Lengths of the existing files in bytes.
    pub fn lengths<'f>(&self, files: &[&'f str]) -> Result<BTreeMap<&'f str, u64>> {
        let lengths = Mutex::new(BTreeMap::new());
        each(files, REQUESTS, |file| {
            let name = format!("{}{file}", self.below);
            self.store.forget(&name);
            if let Some(bytes) = self.store.length(&name)? {
                lock(&lengths).insert(*file, bytes);
            }
            Ok(())
        })?;
        Ok(lengths.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts files of the folder `from`, with concurrent requests.
    pub fn put_files(&self, from: &Path, files: &[PathBuf]) -> Result<()> {
        each(files, REQUESTS, |file| {
            let path = from.join(file);
            let bytes = regular::read(&path).map_err(|error| sys::io_error("cannot read", &path, error))?;
            self.put(&file.to_string_lossy(), bytes)
        })
    }

    /// Removes files, with concurrent requests.
    pub fn remove_files(&self, files: &[String]) -> Result<()> {
        each(files, REQUESTS, |file| self.remove(file))
    }

    /// Files in the folder `below`, or in all, with their lengths in bytes, by name.
    pub fn list(&self, below: &str) -> Result<BTreeMap<String, u64>> {
        let mut files = BTreeMap::new();
        self.store.list(below, |page| {
            files.extend(page.objects.into_iter().map(|object| (object.name, object.bytes)));
            Ok(())
        })?;
        Ok(files)
    }

    /// The first existing file that is not one of `own`; folder markers do not count.
    pub fn first_other(&self, own: impl Fn(&str) -> bool) -> Result<Option<String>> {
        let mut other = None;
        let listed = self.store.list("", |page| {
            let names = page.objects.into_iter().map(|object| object.name);
            let odd = page.odd.into_iter().filter(|odd| !odd.is_folder()).map(|odd| odd.name);
            other = names.chain(odd).find(|name| !own(name));
            // Ends the list request, which may be long.
            if other.is_some() { Err(Error::usage("there is another")) } else { Ok(()) }
        });
        match other {
            Some(name) => Ok(Some(name)),
            None => listed.map(|()| None),
        }
    }

    /// Network transfers so far.
    pub fn transfers(&self) -> Transfers {
        self.store.transfers()
    }
}

/// Writes to a record the name of the upload `id`, or that it has ended.
fn note(record: &Path, id: &str, name: &str) -> Result<()> {
    own::append(record, &format!("{id}\t{name}\n"))
}

/// A reader from a function.
struct Reading<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for Reading<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0(into)
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

/// A shard that is uploaded in parts by many threads while it is made.
#[derive(Debug)]
pub(crate) struct ObjectOutput {
    uploads: Uploads,
    name: String,
    /// Its length; not known for a compressed shard, which is written in order.
    bytes: Option<u64>,
    part_bytes: u64,
    state: Mutex<State>,
    upload: Mutex<Option<Arc<Upload>>>,
}

impl ObjectOutput {
    /// URL, for messages.
    pub fn path(&self) -> PathBuf {
        self.uploads.store.object_url(&self.name).into()
    }

    /// Length of part `number` in bytes, as far as known before the end.
    fn part_length(&self, number: u64) -> u64 {
        let start = number * self.part_bytes;
        self.bytes.map_or(self.part_bytes, |bytes| bytes.saturating_sub(start).min(self.part_bytes))
    }

    /// Writes `bytes` at `offset`; sends parts that are then full.
    pub fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        if self.bytes.is_some_and(|all| offset + bytes.len() as u64 > all) {
            return Err(Error::data("more bytes were written than planned").in_file(self.path()).at_byte(offset));
        }
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
                let is_full = part.filled as u64 == length;
                if is_full { state.parts.remove(&number) } else { None }
            };
            if let Some(part) = full {
                self.send(number, part.bytes)?;
            }
            (bytes, offset) = (&bytes[taken..], offset + taken as u64);
        }
        Ok(())
    }

    fn send(&self, number: u64, bytes: Vec<u8>) -> Result<()> {
        let is_all = self.bytes.is_some_and(|all| all <= self.part_bytes);
        match is_all {
            true => self.uploads.is_unchanged().and_then(|()| self.uploads.store.put(&self.name, bytes)),
            false => self.upload()?.part(number as usize, bytes),
        }
    }

    /// The multipart upload, created by the first caller.
    fn upload(&self) -> Result<Arc<Upload>> {
        let mut upload = lock(&self.upload);
        if let Some(upload) = &*upload {
            return Ok(Arc::clone(upload));
        }
        let begun = Arc::new(self.uploads.store.upload(&self.name)?);
        note(&self.uploads.record, begun.id(), &self.name)?;
        Ok(Arc::clone(upload.insert(begun)))
    }

    /// Completes the object, which must have this length and BLAKE3.
    ///
    /// # Errors
    /// If the store refuses it, or then holds other bytes.
    pub fn finish(&self, bytes: u64, blake3: &hash::FileHash) -> Result<()> {
        let (rest, end) = {
            let mut state = lock(&self.state);
            (std::mem::take(&mut state.parts), state.end)
        };
        let is_whole = match self.bytes {
            Some(all) => rest.is_empty() && end == all,
            None => rest.len() <= 1,
        };
        if !is_whole || end != bytes {
            let what = format!("{end} bytes were written, {bytes} expected");
            return Err(Error::data(what).in_file(self.path()));
        }
        let upload = lock(&self.upload).clone();
        // An object that was put whole was checked at that time.
        if !rest.is_empty() || upload.is_some() {
            self.uploads.is_unchanged()?;
        }
        for (number, mut part) in rest {
            part.bytes.truncate(part.filled);
            match number {
                // The whole shard fits one part.
                0 => return self.uploads.store.put(&self.name, part.bytes),
                number => self.upload()?.part(number as usize, part.bytes)?,
            }
        }
        let upload = lock(&self.upload).take();
        // Otherwise it was put when it was complete.
        let Some(upload) = upload else { return Ok(()) };
        match upload.complete()? {
            Completed::Perhaps(error) if !self.is_there(bytes, blake3)? => Err(error),
            Completed::Yes | Completed::Perhaps(_) => note(&self.uploads.record, upload.id(), ENDED),
        }
    }

    /// Compares all bytes of the object with the written ones by hash.
    fn is_there(&self, bytes: u64, blake3: &hash::FileHash) -> Result<bool> {
        self.uploads.store.forget(&self.name);
        if self.uploads.store.length(&self.name)? != Some(bytes) {
            return Ok(false);
        }
        let mut hasher = blake3::Hasher::new();
        let uploads = self.uploads.of_split(None);
        hasher
            .update_reader(uploads.reader(&self.name, bytes))
            .map_err(|error| Error::io("cannot read", error).in_file(self.path()))?;
        Ok(hasher.finalize().as_bytes() == blake3)
    }

    /// Aborts its upload.
    pub fn give_up(&self) -> Result<()> {
        lock(&self.state).parts.clear();
        let upload = lock(&self.upload).take();
        upload.map_or(Ok(()), |upload| upload.abort().and_then(|()| note(&self.uploads.record, upload.id(), ENDED)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_threads_follow_the_memory_and_the_length() {
        for (memory, jobs) in [(1 << 20, 2), (64 << 20, 2), (256 << 20, 2), (4 << 30, 2), (4 << 30, 64)] {
            let (threads, left) = Uploads::threads(memory, jobs);
            assert!(threads >= 1 && left >= memory / 2 && left <= memory, "{memory} {jobs}");
            assert!(threads == 1 || left + threads as u64 * 3 * PART_BYTES <= memory, "{memory} {jobs}");
        }
        let settings =
            StoreSettings::new([("anonymous".to_owned(), "true".to_owned()), ("region".to_owned(), "x".to_owned())]);
        let uploads = Uploads::new(Path::new("s3://bucket/x"), &settings, Path::new("/nothing")).unwrap();
        for (bytes, part) in [
            (1, PART_BYTES),
            (256 << 20, PART_BYTES),
            (4 << 40, (4u64 << 40).div_ceil(9_000).next_multiple_of(1 << 20)),
        ] {
            let shard = uploads.of_split(Some("train")).shard("a.tar", bytes, false);
            assert_eq!((shard.part_bytes, shard.name.as_str()), (part, "train/a.tar"));
            assert!(bytes.div_ceil(shard.part_bytes) <= 10_000);
            assert_eq!(shard.part_length(bytes / shard.part_bytes), bytes % shard.part_bytes);
        }
    }
}
