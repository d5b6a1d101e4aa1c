//! Rows of a program on their way to a dataset: a spool of tar files, which are shards as others write them.
//!
//! Holds at all times: a file of the spool has whole rows and appears under its name when it is complete. Its name has the number of its
//! first row and of the row after its last one, so names alone show which rows are kept. One process writes a spool.

use std::{ops::Range, panic::resume_unwind, path::Path, sync::Arc, thread::JoinHandle};

use shardpack_format::{
    Error, Result,
    formats::webdataset::{append, append_end},
    text,
};
use shardpack_runtime::threads;
use shardpack_storage::{Entry, Local, Storage, UNFINISHED, lock::Lock, own};

/// Length in bytes above which a file of the spool is finished. Memory holds two of them: one is filled while the other is written.
const FILE_BYTES: usize = 64 << 20;
/// Longest row in bytes: records of shards are shorter than 4 GiB.
const MAX_ROW_BYTES: usize = u32::MAX as usize;
/// Digits of row numbers, with which names sort as numbers do.
const DIGITS: usize = 12;
/// File in the spool that locks it.
const LOCK_FILE: &str = "lock";
/// Extension of the small files of the spool's owner.
const NOTE: &str = ".json";
/// File that marks the rows as packed, while the spool is removed.
const PACKED: &str = "packed.json";
/// Longest file of the spool's owner that is read.
const MAX_NOTE_BYTES: u64 = 64 << 20;

/// A spool that is being written.
#[derive(Debug)]
pub struct Spool {
    storage: Arc<dyn Storage>,
    file_bytes: usize,
    tar: Vec<u8>,
    /// Rows in `tar`.
    rows: Range<u64>,
    writing: Option<JoinHandle<Result<()>>>,
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
        if let Some(other) = Local::new(folder).list("")?.into_iter().flatten().find(|entry| !is_own(entry)) {
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
        let mut next = 0;
        for entry in storage.list("")?.unwrap_or_default() {
            if entry.name.strip_suffix(UNFINISHED).is_some_and(|name| name.ends_with('.')) {
                storage.remove(&entry.name)?;
                continue;
            }
            let Some(rows) = rows_of(&entry.name) else { continue };
            if rows.start != next {
                let what = format!("rows {next} to {} are missing", rows.start.saturating_sub(1));
                return Err(Error::data(what)
                    .in_file(storage.path_of(&entry.name))
                    .help("remove the folder, and write all rows again"));
            }
            next = rows.end;
        }
        Ok(Self { storage, file_bytes, tar: Vec::new(), rows: next..next, writing: None, lock: None })
    }

    /// Number of the next row: all rows before it are kept or written.
    pub fn next_row(&self) -> u64 {
        self.rows.end
    }

    /// Writes a row: the extension and content of each of its files.
    ///
    /// # Errors
    /// If a name is too long or the row has 4 GiB; the row is not written, and the next one may be. If the disk fails: then no further
    /// row can be written.
    pub fn write<'m>(&mut self, members: impl IntoIterator<Item = (&'m str, &'m [u8])>) -> Result<()> {
        let start = self.tar.len();
        let key = format!("{:0DIGITS$}", self.rows.end);
        let mut append = |(extension, data)| {
            append(&mut self.tar, &key, extension, data)?;
            match self.tar.len() - start <= MAX_ROW_BYTES {
                true => Ok(()),
                false => Err(Error::usage("a row of 4 GiB or more")),
            }
        };
        if let Err(error) = members.into_iter().try_for_each(&mut append) {
            self.tar.truncate(start);
            return Err(error);
        }
        if self.tar.len() == start {
            return Err(Error::usage("a row without values"));
        }
        self.rows.end += 1;
        if self.tar.len() >= self.file_bytes { self.write_out() } else { Ok(()) }
    }

    /// Writes the remaining rows, and waits until all are on disk.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn finish(&mut self) -> Result<()> {
        self.write_out()?;
        self.wait()
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
    fn write_out(&mut self) -> Result<()> {
        if self.tar.is_empty() {
            return Ok(());
        }
        self.wait()?;
        let mut tar = std::mem::take(&mut self.tar);
        append_end(&mut tar);
        let name = format!("rows-{:0DIGITS$}-{:0DIGITS$}.tar", self.rows.start, self.rows.end);
        self.rows.start = self.rows.end;
        let storage = Arc::clone(&self.storage);
        let writing = threads::spawn(None, move || storage.put(&name, tar));
        self.writing = Some(writing.map_err(shardpack_format::threads::cannot_start)?);
        Ok(())
    }

    /// Waits for the file that is being written.
    fn wait(&mut self) -> Result<()> {
        match self.writing.take() {
            Some(writing) => writing.join().unwrap_or_else(|panic| resume_unwind(panic)),
            None => Ok(()),
        }
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
    !entry.is_folder && (name == LOCK_FILE || name.ends_with(NOTE) || rows_of(name).is_some())
}

/// The rows in the file `name` of a spool.
fn rows_of(name: &str) -> Option<Range<u64>> {
    let (start, end) = name.strip_prefix("rows-")?.strip_suffix(".tar")?.split_once('-')?;
    let rows = start.parse().ok()?..end.parse().ok()?;
    (rows.start < rows.end).then_some(rows)
}

#[cfg(test)]
mod tests {
    use shardpack_storage::{Faulty, Memory};

    use super::*;

    fn spool(storage: &Arc<Memory>) -> Spool {
        Spool::on(Arc::clone(storage) as Arc<dyn Storage>, 4096).unwrap()
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
        assert_eq!(names[0], "rows-000000000000-000000000002.tar");
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
        let long = "x".repeat(100);
        assert!(spool.write([("txt", &b"a"[..]), (&long, b"b")]).is_err());
        assert!(spool.write([]).is_err());
        write(&mut spool, 1..2);
        spool.finish().unwrap();
        let found = files(&storage);
        let mut reader = shardpack_format::formats::webdataset::reader::Reader::new(&found[0].1[..], None);
        let mut names = Vec::new();
        while let Some(member) = reader.next().unwrap() {
            names.push(String::from_utf8(member.name).unwrap());
        }
        assert_eq!(names, ["000000000000.txt", "000000000000.bin", "000000000001.txt", "000000000001.bin"]);
    }

    #[test]
    fn a_missing_file_is_refused() {
        let storage = Arc::new(Memory::new("rows"));
        write(&mut spool(&storage), 0..10);
        storage.remove("rows-000000000002-000000000004.tar").unwrap();
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
        for other in ["thesis.txt", "rows-old.tar", "rows-000000000003-000000000002.tar"] {
            let path = folder.path().join(other);
            std::fs::write(&path, "mine").unwrap();
            let error = Spool::open(folder.path()).unwrap_err();
            assert!(error.to_string().contains(other), "{error}");
            assert!(error.help_text().is_some_and(|help| help.starts_with("choose another folder for the rows")));
            std::fs::remove_file(&path).unwrap();
        }
        let spool = Spool::open(folder.path()).unwrap();
        std::fs::write(folder.path().join("thesis.txt"), "mine").unwrap();
        spool.remove().unwrap_err();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_of_the_disk_is_reported_before_the_end() {
        let faulty = Faulty::new(Arc::new(Memory::new("rows")), |_, name| match name.ends_with(".tar") {
            true => Err(Error::io("cannot write", std::io::Error::other("full"))),
            false => Ok(()),
        });
        let mut spool = Spool::on(Arc::new(faulty), 4096).unwrap();
        let rows = (0..10).try_for_each(|_| spool.write([("bin", &[0; 3000][..])]));
        assert!(rows.and_then(|()| spool.finish()).is_err());
    }
}
