//! Rows of a program on their way to a dataset: a spool of files of rows, which `convert` reads as shards.
//!
//! Holds at all times: a file of the spool has whole rows and appears under its name when it is complete. Its name has the number of its
//! first row and of the row after its last one. One process writes a spool.
//!
//! A killed process loses the rows in memory. A power failure may also damage the files of the last 30 s: until they are
//! synced, the disk is free for the dataset, and most spools are removed before. A note has the number of rows that are synced. The next
//! run compares the hashes of all later files, and removes the files from the first damaged one on, so their rows are written again.

use std::{ops::Range, panic::resume_unwind, path::Path, sync::Arc, thread::JoinHandle, time::Duration};

use shardpack_format::{
    Error, Result,
    hash::FileHash,
    rows::{self, Builder, DIGITS, End},
    text,
};
use shardpack_runtime::{Instant, threads};
use shardpack_storage::{Entry, Local, Size, Storage, UNFINISHED, lock::Lock, own};

/// Length in bytes above which a file of the spool is finished. Memory holds two of them: one is filled while the other is written.
const FILE_BYTES: usize = 64 << 20;
/// Rows after which a file of the spool is finished, so that threads share small rows.
const FILE_ROWS: u64 = 1 << 15;
/// Extension of the files of rows in earlier versions.
const OLD_NAME: &str = "tar";
/// File in the spool that locks it.
const LOCK_FILE: &str = "lock";
/// Extension of the small files of the spool's owner.
const NOTE: &str = ".json";
/// File with the number of rows that a power failure does not damage.
const SYNCED: &str = "synced.json";
/// Age at which files are synced.
const SYNC_AFTER: Duration = Duration::from_secs(30);
/// File that marks the rows as packed, while the spool is removed.
const PACKED: &str = "packed.json";
/// Longest file of the spool's owner that is read.
const MAX_NOTE_BYTES: u64 = 64 << 20;

/// A spool that is being written.
#[derive(Debug)]
pub struct Spool {
    storage: Arc<dyn Storage>,
    file_bytes: usize,
    /// The file that is being filled.
    file: Builder,
    /// Rows in `file`.
    rows: Range<u64>,
    /// The thread that writes a file.
    writing: Option<JoinHandle<Result<Output>>>,
    /// Writes the next file.
    output: Output,
    lock: Option<Lock>,
}

impl Spool {
    /// Opens the spool in `folder`, which is created, and keeps its rows. A removal that was interrupted is finished.
    ///
    /// # Errors
    /// If another process writes the spool, or the folder has other files.
    pub fn open(folder: &Path) -> Result<Self> {
        own::create_folders(folder)?;
        own::no_link(folder)?;
        let entries = Local::new(folder).list("")?.unwrap_or_default();
        if let Some(old) = entries.iter().find(|entry| rows_of(&entry.name, OLD_NAME).is_some()) {
            let what = format!("has {}, rows of an earlier version of shardpack", old.name);
            return Err(write_again(Error::usage(what).in_file(folder)));
        }
        if let Some(other) = entries.into_iter().find(|entry| !is_own(entry)) {
            let what = format!("has {}, which is no file of rows", text::line(&other.name));
            return Err(Error::usage(what).in_file(folder).help("choose another folder for the rows with spool"));
        }
        let lock = Lock::take_where_there_are_locks(&folder.join(LOCK_FILE))?;
        let mut spool = Self::on(Arc::new(Local::new(folder)), FILE_BYTES)?;
        spool.lock = lock;
        Ok(spool)
    }

    fn on(storage: Arc<dyn Storage>, file_bytes: usize) -> Result<Self> {
        if storage.length(PACKED)?.is_some() {
            clear(&*storage)?;
        }
        let (mut next, mut files) = (0, Vec::new());
        for entry in storage.list("")?.unwrap_or_default() {
            if entry.name.strip_suffix(UNFINISHED).is_some_and(|name| name.ends_with('.')) {
                storage.remove(&entry.name)?;
                continue;
            }
            let Some(rows) = rows_of(&entry.name, rows::NAME) else { continue };
            if rows.start != next {
                let what = format!("rows {next} to {} are missing", rows.start.saturating_sub(1));
                return Err(write_again(Error::data(what).in_file(storage.path_of(&entry.name))));
            }
            next = rows.end;
            files.push((entry.name, rows));
        }
        let (next, output) = remove_damaged(&*storage, files)?;
        Ok(Self { storage, file_bytes, file: Builder::default(), rows: next..next, writing: None, output, lock: None })
    }

    /// Number of the next row: all rows before it are kept or written.
    pub fn next_row(&self) -> u64 {
        self.rows.end
    }

    /// Begins a row; a row that was not ended is dropped.
    pub fn begin(&mut self) {
        self.file.begin();
    }

    /// Adds a value to the row: the extension of its file, and the content in parts.
    ///
    /// # Errors
    /// If the value is too long; the row cannot be ended then.
    pub fn add(&mut self, extension: &str, parts: &[&[u8]]) -> Result<()> {
        self.file.add(extension, parts)
    }

    /// Drops the row that was begun.
    pub fn cancel(&mut self) {
        self.file.cancel();
    }

    /// Ends the row; true if its file is full, and [`Spool::write_out`] has to be called before the next row.
    ///
    /// # Errors
    /// If the row has no values, or 4 GiB; the row is dropped, and the next one may be written.
    pub fn end(&mut self) -> Result<bool> {
        self.file.end()?;
        self.rows.end += 1;
        Ok(self.file.bytes() >= self.file_bytes || self.file.rows() >= FILE_ROWS)
    }

    /// Writes a row: the extension and content of each of its files.
    ///
    /// # Errors
    /// As [`Spool::add`], [`Spool::end`] and [`Spool::write_out`].
    pub fn write<'m>(&mut self, members: impl IntoIterator<Item = (&'m str, &'m [u8])>) -> Result<()> {
        self.begin();
        let added = members.into_iter().try_for_each(|(extension, content)| self.add(extension, &[content]));
        if let Err(error) = added {
            self.cancel();
            return Err(error);
        }
        if self.end()? { self.write_out() } else { Ok(()) }
    }

    /// Writes the remaining rows, and waits until all are in files.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn finish(&mut self) -> Result<()> {
        self.write_out()?;
        self.wait()
    }

    /// As [`Spool::finish`], and syncs all files: for rows that stay for long.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn finish_synced(&mut self) -> Result<()> {
        self.finish()?;
        self.output.sync(&*self.storage, self.rows.end)
    }

    /// A small file of the spool's owner: the types of columns, names of classes.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn note(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.storage.read(name, MAX_NOTE_BYTES)
    }

    /// Writes or replaces a small file of the spool's owner.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn put_note(&self, name: &str, content: Vec<u8>) -> Result<()> {
        self.storage.put(name, content)
    }

    /// Removes a small file of the spool's owner; a missing file is no error.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_note(&self, name: &str) -> Result<()> {
        self.storage.remove(name)
    }

    /// Marks the rows as packed: the next [`Spool::open`] removes them.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn mark_packed(&mut self) -> Result<()> {
        self.wait()?;
        self.storage.put(PACKED, Vec::new())
    }

    /// Removes the spool, and its folder if that is empty then.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove(mut self) -> Result<()> {
        self.mark_packed()?;
        clear(&*self.storage)?;
        self.storage.remove(LOCK_FILE)?;
        own::remove_empty_folder(self.storage.root())
    }

    /// Begins to write the file of the rows in memory.
    ///
    /// # Errors
    /// If the disk has failed: then no further row can be written.
    pub fn write_out(&mut self) -> Result<()> {
        if self.file.rows() == 0 {
            return Ok(());
        }
        self.wait()?;
        let mut output = std::mem::take(&mut self.output);
        std::mem::swap(&mut self.file, &mut output.file);
        let rows = self.rows.clone();
        self.rows.start = self.rows.end;
        let storage = Arc::clone(&self.storage);
        let writing = threads::spawn(None, move || output.write(&*storage, rows).map(|()| output));
        self.writing = Some(writing.map_err(shardpack_format::threads::cannot_start)?);
        Ok(())
    }

    /// Waits for the file that is being written.
    fn wait(&mut self) -> Result<()> {
        if let Some(writing) = self.writing.take() {
            self.output = writing.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        }
        Ok(())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // Nobody is left to report a failure to, and a file that is not complete has no name.
        if let Some(writing) = self.writing.take() {
            let _ = writing.join();
        }
    }
}

/// Writes files, and syncs them later.
#[derive(Debug, Default)]
struct Output {
    /// The file to write, then memory for another one.
    file: Builder,
    /// Files that are not synced, and when the first one was written.
    unsynced: Vec<String>,
    since: Option<Instant>,
}

impl Output {
    /// Writes the file, which has `rows`, and syncs all files if some are old.
    fn write(&mut self, storage: &dyn Storage, rows: Range<u64>) -> Result<()> {
        let name = format!("rows-{:0DIGITS$}-{:0DIGITS$}.{}", rows.start, rows.end, rows::NAME);
        let bytes = self.file.finish(rows.start);
        let (length, hash) = (bytes.len() as u64, FileHash::default());
        let out = storage.create(&name, Size::Known(length))?;
        if let Err(error) = out.write_at(bytes, 0).and_then(|()| out.finish_unsynced(length, &hash)) {
            // The first error counts; the next run removes the rest.
            let _ = out.abort();
            return Err(error);
        }
        self.file.clear();
        self.unsynced.push(name);
        match self.since.get_or_insert_with(Instant::now).elapsed() >= SYNC_AFTER {
            true => self.sync(storage, rows.end),
            false => Ok(()),
        }
    }

    /// Makes all files durable; they have the rows before `end`.
    fn sync(&mut self, storage: &dyn Storage, end: u64) -> Result<()> {
        self.unsynced.iter().try_for_each(|name| storage.sync_file(name))?;
        storage.sync("")?;
        (self.unsynced, self.since) = (Vec::new(), None);
        storage.put(SYNCED, end.to_string().into_bytes())
    }
}

/// Removes the files from the first damaged one on. Returns the number of rows in those before, and the output that syncs them. Files
/// that were synced are not read.
fn remove_damaged(storage: &dyn Storage, files: Vec<(String, Range<u64>)>) -> Result<(u64, Output)> {
    let synced = storage.read(SYNCED, MAX_NOTE_BYTES)?.unwrap_or_default();
    // Without a number that can be read, all files are compared.
    let synced = str::from_utf8(&synced).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (mut whole, mut output) = (0, Output::default());
    for (number, (name, rows)) in files.iter().enumerate() {
        if rows.end > synced {
            if !storage.read(name, u64::MAX)?.is_some_and(|bytes| End::is_whole(&bytes)) {
                // The last one first: the names of the others have no gap.
                files.iter().skip(number).rev().try_for_each(|(name, _)| storage.remove(name))?;
                break;
            }
            output.unsynced.push(name.clone());
            output.since.get_or_insert_with(Instant::now);
        }
        whole = rows.end;
    }
    Ok((whole, output))
}

/// Removes all files but the lock, and last the mark that they are removed.
fn clear(storage: &dyn Storage) -> Result<()> {
    for entry in storage.list("")?.unwrap_or_default() {
        if is_own(&entry) && ![LOCK_FILE, PACKED].contains(&&*entry.name) {
            storage.remove(&entry.name)?;
        }
    }
    storage.sync("")?;
    storage.remove(PACKED)
}

/// Whether a spool has such a file.
fn is_own(entry: &Entry) -> bool {
    let name = entry.name.strip_suffix(UNFINISHED).and_then(|name| name.strip_suffix('.')).unwrap_or(&entry.name);
    !entry.is_folder && (name == LOCK_FILE || name.ends_with(NOTE) || rows_of(name, rows::NAME).is_some())
}

/// The rows in the file `name` of a spool, which has this extension.
fn rows_of(name: &str, extension: &str) -> Option<Range<u64>> {
    let (start, end) = name.strip_prefix("rows-")?.strip_suffix(extension)?.strip_suffix('.')?.split_once('-')?;
    let rows = start.parse().ok()?..end.parse().ok()?;
    (rows.start < rows.end).then_some(rows)
}

/// `error` of rows that cannot be continued.
fn write_again(error: Error) -> Error {
    error.help("remove the folder, and write all rows again")
}

#[cfg(test)]
mod tests {
    use shardpack_storage::{Faulty, Memory};

    use super::*;

    fn spool(storage: &Arc<Memory>) -> Spool {
        Spool::on(Arc::clone(storage) as Arc<dyn Storage>, 1400).unwrap()
    }

    fn write(spool: &mut Spool, rows: Range<u64>) {
        for row in rows {
            let text = format!("row {row}");
            spool.write([("txt", text.as_bytes()), ("bin", &[0; 700][..])]).unwrap();
        }
    }

    fn files(storage: &Memory) -> Vec<(String, Vec<u8>)> {
        let names = storage.list("").unwrap().unwrap().into_iter().map(|entry| entry.name);
        names
            .map(|name| (storage.read(&name, u64::MAX).unwrap().unwrap(), name))
            .map(|(file, name)| (name, file))
            .collect()
    }

    #[test]
    fn rows_after_a_crash_give_the_files_of_one_run() {
        let whole = Arc::new(Memory::new("whole"));
        let mut at_once = spool(&whole);
        write(&mut at_once, 0..10);
        at_once.finish().unwrap();
        let names: Vec<_> = files(&whole).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names[0], "rows-000000000000-000000000002.rows");
        assert_eq!(names.len(), 5);
        for stop in 0..10 {
            let parts = Arc::new(Memory::new("parts"));
            let mut stopped = spool(&parts);
            write(&mut stopped, 0..stop);
            drop(stopped);
            let mut resumed = spool(&parts);
            assert_eq!(resumed.next_row(), stop / 2 * 2);
            let next = resumed.next_row();
            write(&mut resumed, next..10);
            resumed.finish().unwrap();
            assert_eq!(files(&parts), files(&whole), "stopped at {stop}");
        }
    }

    #[test]
    fn a_row_that_cannot_be_written_leaves_no_trace() {
        let storage = Arc::new(Memory::new("rows"));
        let mut spool = spool(&storage);
        write(&mut spool, 0..1);
        let long = "x".repeat(300);
        assert!(spool.write([("txt", &b"a"[..]), (&long, b"b")]).is_err());
        assert!(spool.write([]).is_err());
        write(&mut spool, 1..2);
        spool.finish().unwrap();
        let found = files(&storage);
        assert_eq!(found.len(), 1);
        let mut whole = Builder::default();
        for row in 0..2 {
            whole.begin();
            whole.add("txt", &[format!("row {row}").as_bytes()]).unwrap();
            whole.add("bin", &[&[0; 700]]).unwrap();
            whole.end().unwrap();
        }
        assert_eq!(found[0].1, whole.finish(0));
    }

    #[test]
    fn files_that_a_power_failure_damaged_are_written_again() {
        let whole = Arc::new(Memory::new("whole"));
        let mut at_once = spool(&whole);
        write(&mut at_once, 0..10);
        at_once.finish().unwrap();
        let expected = files(&whole);
        for (number, (name, content)) in expected.iter().enumerate() {
            for damaged in [Vec::new(), vec![0; content.len()], content[..content.len() / 2].to_vec()] {
                let storage = Arc::new(Memory::new("damaged"));
                for (name, content) in &expected {
                    storage.put(name, content.clone()).unwrap();
                }
                storage.put(name, damaged).unwrap();
                let mut resumed = spool(&storage);
                assert_eq!((resumed.next_row(), files(&storage).len()), (number as u64 * 2, number));
                write(&mut resumed, number as u64 * 2..10);
                resumed.finish_synced().unwrap();
                assert_eq!(files(&storage)[..5], expected[..]);
                // Files that are synced are not compared again.
                storage.put(name, vec![0; content.len()]).unwrap();
                assert_eq!(spool(&storage).next_row(), 10);
            }
        }
    }

    #[test]
    fn a_missing_file_is_refused() {
        let storage = Arc::new(Memory::new("rows"));
        write(&mut spool(&storage), 0..10);
        storage.remove("rows-000000000002-000000000004.rows").unwrap();
        let error = Spool::on(storage, 4096).unwrap_err();
        assert!(error.to_string().contains("rows 2 to 3 are missing"), "{error}");
        assert!(error.help_text().is_some_and(|help| help.starts_with("remove the folder")));
    }

    #[test]
    fn a_removal_that_was_interrupted_is_finished() {
        for kept in 0..4 {
            let storage = Arc::new(Memory::new("rows"));
            let mut packed = spool(&storage);
            write(&mut packed, 0..6);
            packed.put_note("columns.json", b"{}".to_vec()).unwrap();
            packed.finish().unwrap();
            packed.mark_packed().unwrap();
            drop(packed);
            for (name, _) in files(&storage).into_iter().filter(|(name, _)| name != PACKED).skip(kept) {
                storage.remove(&name).unwrap();
            }
            let mut next = spool(&storage);
            assert_eq!((next.next_row(), files(&storage)), (0, Vec::new()), "{kept}");
            write(&mut next, 0..2);
            next.finish().unwrap();
            assert_eq!(spool(&storage).next_row(), 2);
        }
    }

    #[test]
    fn other_files_are_neither_taken_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        for other in ["thesis.txt", "rows-old.tar", "rows-000000000003-000000000002.rows"] {
            let path = folder.path().join(other);
            std::fs::write(&path, "mine").unwrap();
            let error = Spool::open(folder.path()).unwrap_err();
            assert!(error.to_string().contains(other), "{error}");
            assert!(error.help_text().is_some_and(|help| help.starts_with("choose another folder for the rows")));
            std::fs::remove_file(&path).unwrap();
        }
        let old = folder.path().join("rows-000000000000-000000000002.tar");
        std::fs::write(&old, "rows").unwrap();
        let error = Spool::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains("rows of an earlier version of shardpack"), "{error}");
        assert!(error.help_text().is_some_and(|help| help.starts_with("remove the folder")));
        std::fs::remove_file(&old).unwrap();
        let spool = Spool::open(folder.path()).unwrap();
        std::fs::write(folder.path().join("thesis.txt"), "mine").unwrap();
        spool.remove().unwrap_err();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_of_the_disk_is_reported_before_the_end() {
        let faulty = Faulty::new(Arc::new(Memory::new("rows")), |_, name| match name.ends_with(".rows") {
            true => Err(Error::io("cannot write", std::io::Error::other("full"))),
            false => Ok(()),
        });
        let mut spool = Spool::on(Arc::new(faulty), 4096).unwrap();
        let rows = (0..10).try_for_each(|_| spool.write([("bin", &[0; 3000][..])]));
        assert!(rows.and_then(|()| spool.finish()).is_err());
    }
}
