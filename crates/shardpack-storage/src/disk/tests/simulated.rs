//! A disk that loses what was not synced if the power is cut.
//!
//! Calls run in a real folder, which is the volatile state, and are recorded. [`Simulated::states`] makes all durable states from the
//! records that POSIX allows: a file that was not synced has any of its written pieces, and any length up to the written one; a name
//! has any of the values since the last sync of its folder. Only a rename is one step for the new name, as on all file systems.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Seek},
    os::{fd::BorrowedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
};

use rustix::io::Errno;
use shardpack_format::Result;

use crate::{
    disk::{Disk, RealDisk},
    sys::io_error,
};

/// Bytes of a piece that is lost or kept as a whole, as a page is.
const PIECE_BYTES: usize = 4;
/// A test with more states is too large.
const MAX_STATES: usize = 100_000;

/// Files with their bytes, and folders, by path below the folder of the disk.
pub(super) type State = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// The state of a real folder.
pub(super) fn state_of(base: &Path) -> State {
    let (mut state, mut folders) = (State::new(), vec![base.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let bytes = path.is_file().then(|| fs::read(&path).unwrap());
            if bytes.is_none() {
                folders.push(path.clone());
            }
            state.insert(path.strip_prefix(base).unwrap().to_path_buf(), bytes);
        }
    }
    state
}

/// Creates the files and folders of `state` in an empty folder.
pub(super) fn restore(state: &State, base: &Path) {
    for (path, bytes) in state {
        match bytes {
            Some(bytes) => fs::write(base.join(path), bytes).unwrap(),
            None => fs::create_dir(base.join(path)).unwrap(),
        }
    }
}

/// A change or a sync. Files have numbers: those of the first state, then those that were created.
#[derive(Debug)]
pub(super) enum Step {
    Folder(PathBuf),
    Create(PathBuf),
    Write(usize, u64, Vec<u8>),
    Sync(usize),
    /// Bytes written before are never durable for certain: later syncs succeed without them on Linux. Source: fsync(2), "EIO".
    FailedSync(usize),
    SyncFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
}

/// What happens to calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    None,
    /// The call with this number, from 0, fails.
    Fails(usize, Errno),
    /// Calls of this kind succeed without effect on the durable state, as if the program had left them out.
    Ignores(fn(&Step) -> bool),
}

#[derive(Debug, Default)]
struct Records {
    steps: Vec<Step>,
    calls: usize,
    files: usize,
    /// Numbers of the open files by inode.
    numbers: BTreeMap<u64, usize>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Simulated {
    base: PathBuf,
    start: State,
    fault: Fault,
    records: Mutex<Records>,
}

impl Simulated {
    /// A disk whose durable state is that of the real folder `base`.
    pub(super) fn new(base: &Path, fault: Fault) -> Self {
        let start = state_of(base);
        let files = start.values().flatten().count();
        Self { base: base.to_path_buf(), start, fault, records: Mutex::new(Records { files, ..Records::default() }) }
    }

    /// Number of calls so far.
    pub(super) fn calls(&self) -> usize {
        self.records().calls
    }

    /// Number of steps so far.
    pub(super) fn steps(&self) -> usize {
        self.records().steps.len()
    }

    /// All states that a power cut after `steps` steps may leave.
    pub(super) fn states(&self, steps: usize) -> BTreeSet<State> {
        let replayed = Replayed::new(&self.start, &self.records().steps[..steps]);
        let (mut states, mut choices) = (BTreeSet::new(), Choices::default());
        for _ in 0..MAX_STATES {
            states.insert(replayed.state(&mut |options| choices.next(options)));
            if !choices.advance() {
                return states;
            }
        }
        panic!("too many states after {steps} steps of {:?}", self.records().steps);
    }

    /// The state without a power cut, from the records.
    pub(super) fn recorded(&self) -> State {
        Replayed::new(&self.start, &self.records().steps).state(&mut |options| options - 1)
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap()
    }

    /// Counts a call; fails if it is the one that shall fail.
    fn call(&self, path: &Path) -> Result<()> {
        let number = self.records().calls;
        self.records().calls += 1;
        match self.fault {
            Fault::Fails(failing, errno) if failing == number => Err(io_error("cannot write", path, errno.into())),
            _ => Ok(()),
        }
    }

    fn record(&self, step: Step) {
        if !matches!(self.fault, Fault::Ignores(is_ignored) if is_ignored(&step)) {
            self.records().steps.push(step);
        }
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.base).unwrap().to_path_buf()
    }

    fn number(&self, file: &File) -> usize {
        self.records().numbers[&file.metadata().unwrap().ino()]
    }

    /// A write; a failing one writes half of the bytes.
    fn written(&self, file: &File, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
        let called = self.call(path);
        let bytes = if called.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
        RealDisk.write_at(file, path, bytes, offset)?;
        self.record(Step::Write(self.number(file), offset, bytes.to_vec()));
        called
    }
}

impl Disk for Simulated {
    fn create_new(&self, path: &Path) -> Result<Option<File>> {
        self.call(path)?;
        let is_taken = path.symlink_metadata().is_ok();
        let created = RealDisk.create_new(path)?;
        assert_eq!(created.is_none(), is_taken, "{}", path.display());
        if let Some(file) = &created {
            let mut records = self.records();
            let number = records.files;
            records.files += 1;
            records.numbers.insert(file.metadata().unwrap().ino(), number);
            drop(records);
            self.record(Step::Create(self.below(path)));
        }
        Ok(created)
    }

    fn create_folder(&self, above: BorrowedFd<'_>, name: &Path, path: &Path) -> Result<bool> {
        self.call(path)?;
        let is_new = RealDisk.create_folder(above, name, path)?;
        if is_new {
            self.record(Step::Folder(self.below(if name.is_absolute() { name } else { path })));
        }
        Ok(is_new)
    }

    fn write(&self, mut file: &File, path: &Path, bytes: &[u8]) -> Result<()> {
        let offset = file.stream_position().unwrap();
        self.written(file, path, bytes, offset)?;
        file.seek(io::SeekFrom::Current(bytes.len() as i64)).unwrap();
        Ok(())
    }

    fn write_at(&self, file: &File, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
        self.written(file, path, bytes, offset)
    }

    fn sync(&self, file: &File, path: &Path) -> Result<()> {
        let (called, number) = (self.call(path), self.number(file));
        self.record(if called.is_ok() { Step::Sync(number) } else { Step::FailedSync(number) });
        called
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        self.call(path)?;
        assert!(path.is_dir(), "{}", path.display());
        self.record(Step::SyncFolder(self.below(path)));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.call(to)?;
        RealDisk.rename(from, to)?;
        self.record(Step::Rename(self.below(from), self.below(to)));
        Ok(())
    }

    /// Does not fail: a rename follows a failed link.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.link(from, to)?;
        self.record(Step::Link(self.below(from), self.below(to)));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.call(path)?;
        RealDisk.remove(path)?;
        self.record(Step::Remove(self.below(path)));
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Folder,
    File(usize),
}

/// Bytes of a file.
#[derive(Debug, Default)]
struct Data {
    durable: Vec<u8>,
    /// Writes since the last sync.
    pending: Vec<(usize, Vec<u8>)>,
    has_failed: bool,
}

impl Data {
    /// A content after a power cut; the last option of each choice is the one without a cut.
    fn content(&self, choose: &mut dyn FnMut(usize) -> usize) -> Vec<u8> {
        let pieces = self.pending.iter().flat_map(|(offset, bytes)| {
            let at = (*offset..).step_by(PIECE_BYTES);
            at.zip(bytes.chunks(PIECE_BYTES))
        });
        let pieces: Vec<_> = pieces.collect();
        let ends = pieces.iter().map(|(at, piece)| at + piece.len()).filter(|end| *end > self.durable.len());
        let lengths: BTreeSet<_> = ends.chain([self.durable.len()]).collect();
        let lengths: Vec<_> = lengths.into_iter().collect();
        let mut content = self.durable.clone();
        content.resize(lengths[lengths.len() - 1], 0);
        for (at, piece) in pieces {
            if choose(2) == 1 {
                content[at..at + piece.len()].copy_from_slice(piece);
            }
        }
        content.truncate(lengths[choose(lengths.len())]);
        content
    }
}

/// Names and files after some steps.
struct Replayed {
    /// Values of each name: the durable one, then those since the last sync of its folder.
    names: BTreeMap<PathBuf, Vec<Option<Node>>>,
    files: Vec<Data>,
}

impl Replayed {
    fn new(start: &State, steps: &[Step]) -> Self {
        let mut replayed = Self { names: BTreeMap::new(), files: Vec::new() };
        for (path, bytes) in start {
            let node = match bytes {
                None => Node::Folder,
                Some(bytes) => replayed.file(bytes.clone()),
            };
            replayed.names.insert(path.clone(), vec![Some(node)]);
        }
        steps.iter().for_each(|step| replayed.apply(step));
        replayed
    }

    fn file(&mut self, durable: Vec<u8>) -> Node {
        self.files.push(Data { durable, ..Data::default() });
        Node::File(self.files.len() - 1)
    }

    fn set(&mut self, path: &Path, node: Option<Node>) {
        self.names.entry(path.to_path_buf()).or_insert_with(|| vec![None]).push(node);
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Folder(path) => self.set(path, Some(Node::Folder)),
            Step::Create(path) => {
                let node = self.file(Vec::new());
                self.set(path, Some(node));
            }
            Step::Write(file, offset, bytes) => self.files[*file].pending.push((*offset as usize, bytes.clone())),
            Step::Sync(file) if self.files[*file].has_failed => {}
            Step::Sync(file) => {
                let data = &mut self.files[*file];
                data.durable = data.content(&mut |options| options - 1);
                data.pending.clear();
            }
            Step::FailedSync(file) => self.files[*file].has_failed = true,
            Step::SyncFolder(folder) => {
                let inside = self.names.iter_mut().filter(|(path, _)| path.parent() == Some(folder));
                inside.for_each(|(_, values)| drop(values.drain(..values.len() - 1)));
            }
            Step::Rename(from, to) => {
                let node = self.names[from].last().copied().unwrap();
                self.set(to, node);
                self.set(from, None);
            }
            Step::Link(from, to) => {
                let node = self.names[from].last().copied().unwrap();
                self.set(to, node);
            }
            Step::Remove(path) => self.set(path, None),
        }
    }

    /// A state; see [`Data::content`].
    fn state(&self, choose: &mut dyn FnMut(usize) -> usize) -> State {
        let (mut state, mut contents) = (State::new(), BTreeMap::new());
        for (path, values) in &self.names {
            let above = path.parent().unwrap();
            if !above.as_os_str().is_empty() && !state.contains_key(above) {
                continue;
            }
            match values[choose(values.len())] {
                None => {}
                Some(Node::Folder) => drop(state.insert(path.clone(), None)),
                Some(Node::File(file)) => {
                    let content = contents.entry(file).or_insert_with(|| self.files[file].content(choose));
                    state.insert(path.clone(), Some(content.clone()));
                }
            }
        }
        state
    }
}

/// Passes through all sequences of choices.
#[derive(Debug, Default)]
struct Choices {
    /// The choices of this sequence, with the number of options.
    made: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    fn next(&mut self, options: usize) -> usize {
        if self.at == self.made.len() {
            self.made.push((0, options));
        }
        self.at += 1;
        self.made[self.at - 1].0
    }

    /// Begins the next sequence; false after the last one.
    fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, options)) = self.made.pop() {
            if choice + 1 < options {
                self.made.push((choice + 1, options));
                return true;
            }
        }
        false
    }
}
