//! Walks all folders below the classes in parallel and follows links.
//!
//! Holds at all times: each folder entry is listed, counted, or reported with a reason. An entry that cannot be inspected never counts as
//! a non-image. The walk does not enter loops of links.

use std::{
    collections::BTreeMap,
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};
use shardpack_format::{Error, Result, component::Component, text};
use shardpack_runtime::threads;

use super::{
    companions::{self, Companions, Refused},
    filter::{LEFT_OUT, PathFilter},
    links::{Links, NOT_FOLLOWED},
    names::{Name, as_path, join, other_reason},
    outcome::{Outcome, beside, sized, unpacked},
};
use crate::{
    component_table::{Cell, ComponentTable},
    ledger::{Fate, Unpacked},
    listing::{self, Folder, FolderSamples},
    monitor::Monitor,
    sys,
};

/// The file status fields that the walk needs, with the same widths on every system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    device: u64,
    pub inode: u64,
    pub mtime_ns: i64,
}

impl Facts {
    #[allow(clippy::unnecessary_cast, reason = "the widths differ between systems")]
    pub fn from_stat(stat: &Stat) -> Self {
        let seconds = stat.st_mtime as i64;
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            mtime_ns: seconds.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64),
        }
    }
}

/// An ancestor folder, for loop detection.
#[derive(Debug)]
pub(super) struct Above {
    stat: Facts,
    above: Option<Arc<Above>>,
}

impl Above {
    fn new(stat: &Stat, above: Option<Arc<Above>>) -> Arc<Self> {
        Arc::new(Self { stat: Facts::from_stat(stat), above })
    }

    fn holds(&self, stat: &Stat) -> bool {
        let here = Facts::from_stat(stat);
        let mut at = Some(self);
        while let Some(folder) = at {
            if (folder.stat.device, folder.stat.inode) == (here.device, here.inode) {
                return true;
            }
            at = folder.above.as_deref();
        }
        false
    }
}

/// A folder to walk.
#[derive(Debug)]
struct Task {
    path: Vec<u8>,
    class: Option<u32>,
    /// `None` for the root itself.
    above: Option<Arc<Above>>,
    /// Target of the link that left the source on the way here, if any.
    outside: Option<Arc<Path>>,
}

/// State shared by all threads of a walk.
struct Walk<'a> {
    root: &'a OwnedFd,
    root_path: &'a Path,
    /// Filters, applied to paths relative to the root.
    keep: &'a PathFilter,
    /// Files next to images that become components.
    components: &'a [Component],
    links: Links,
    monitor: &'a dyn Monitor,
    queue: Mutex<Queue>,
    changed: Condvar,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Queue {
    tasks: Vec<Task>,
    /// Tasks taken and not yet done.
    running: usize,
    failed: Option<Error>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether `error` concerns the path and is permanent; all other errors concern the machine.
pub(super) fn is_of_path(error: Errno) -> bool {
    use Errno as E;
    matches!(error, E::NOENT | E::ACCESS | E::PERM | E::LOOP | E::NOTDIR | E::NAMETOOLONG)
}

/// Reason text for an entry that cannot be inspected.
pub(super) fn unread(error: Errno) -> String {
    match error {
        Errno::LOOP => "leads in a circle: a loop of symbolic links".to_owned(),
        _ => format!("cannot be read: {}", std::io::Error::from(error)),
    }
}

/// Opens a folder by a path relative to `parent`.
pub(super) fn open_folder(parent: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { b".".as_slice() } else { path };
    rustix::fs::openat(parent, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Walks `classes` below `root` with `jobs` threads; `root` is `source` or a folder in `source`.
///
/// `classes` holds the path of each folder (empty for the root itself) and its class number.
#[allow(clippy::too_many_arguments, reason = "each is one thing, and there is one caller")]
pub(super) fn walk(
    source: &Path,
    root: &OwnedFd,
    root_path: &Path,
    classes: Vec<(Vec<u8>, Option<u32>)>,
    keep: &PathFilter,
    components: &[Component],
    jobs: usize,
    monitor: &dyn Monitor,
) -> Result<Outcome> {
    let stat = rustix::fs::fstat(root).map_err(|e| sys::io_error("cannot look at", root_path, e.into()))?;
    let above = Above::new(&stat, None);
    let above = |path: &[u8]| (!path.is_empty()).then(|| Arc::clone(&above));
    let links = Links::new(source);
    let top = links.outside_of(root_path);
    let task = |(path, class): (Vec<u8>, _)| Task { above: above(&path), path, class, outside: top.clone() };
    let tasks = classes.into_iter().map(task).collect();
    let walk = Walk {
        root,
        root_path,
        keep,
        components,
        links,
        monitor,
        queue: Mutex::new(Queue { tasks, ..Queue::default() }),
        changed: Condvar::new(),
        outcome: Mutex::new(Outcome {
            samples: listing::Builder::with(ComponentTable::new(components.to_vec())),
            ..Outcome::default()
        }),
    };
    threads::each(jobs, || walk.work());
    match lock(&walk.queue).failed.take() {
        Some(error) => Err(error),
        None => Ok(walk.outcome.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

impl Walk<'_> {
    fn work(&self) {
        while let Some(task) = self.next() {
            let done = self.folder(&task);
            let mut queue = lock(&self.queue);
            queue.running -= 1;
            match done {
                Ok(tasks) => queue.tasks.extend(tasks),
                Err(error) => {
                    queue.failed.get_or_insert(error);
                }
            }
            if let Err(error) = self.monitor.check_cancelled() {
                queue.failed.get_or_insert(error);
            }
            // Other threads wait only if the queue was empty.
            let wake = !queue.tasks.is_empty() || queue.running == 0 || queue.failed.is_some();
            drop(queue);
            if wake {
                self.changed.notify_all();
            }
        }
    }

    fn next(&self) -> Option<Task> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.failed.is_some() {
                return None;
            }
            if let Some(task) = queue.tasks.pop() {
                queue.running += 1;
                return Some(task);
            }
            if queue.running == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn error(&self, what: &str, path: &[u8], error: Errno) -> Error {
        sys::io_error(what, &self.root_path.join(as_path(path)), error.into())
    }

    /// Reports an entry at `path` that contains an unknown number of images.
    fn unseen(&self, path: Vec<u8>, why: String) -> Unpacked {
        match self.keep.leaves_out(&path) {
            true => unpacked(path, None, Fate::Filtered, LEFT_OUT),
            false => unpacked(path, None, Fate::Skipped, &why),
        }
    }

    /// Target of the link `name` in the folder at `path` if the target is outside the source. Fails if links are not followed.
    fn link(&self, folder: impl AsFd, path: &[u8], name: &CStr) -> Result<Option<Arc<Path>>, &'static str> {
        match self.keep.follows() {
            true => Ok(self.links.outside(folder, &self.root_path.join(as_path(path)), name)),
            false => Err(NOT_FOLLOWED),
        }
    }

    /// As [`Walk::link`], for a class folder whose type was not read from its parent folder.
    fn class_link(&self, path: &[u8]) -> Result<Option<Arc<Path>>, &'static str> {
        let is_link = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        let Ok(name) = std::ffi::CString::new(path) else { return Ok(None) };
        match rustix::fs::statat(self.root, &*name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_link) {
            true => self.link(self.root, b"", &name),
            false => Ok(None),
        }
    }

    /// Types and names of the entries of the folder `fd` at `path`, in the order of their inodes: on a disk that seeks, neighbouring
    /// inodes are stored side by side.
    fn names(&self, fd: impl AsFd, path: &[u8]) -> Result<Vec<(FileType, Box<CStr>)>> {
        let mut names: Vec<(u64, FileType, Box<CStr>)> = Vec::new();
        for entry in Dir::read_from(fd).map_err(|e| self.error("cannot read folder", path, e))? {
            let entry = entry.map_err(|e| self.error("cannot read folder", path, e))?;
            let name = entry.file_name();
            if name.to_bytes() != b"." && name.to_bytes() != b".." {
                names.push((entry.ino(), entry.file_type(), name.into()));
            }
        }
        names.sort_unstable_by_key(|(inode, ..)| *inode);
        Ok(names.into_iter().map(|(_, kind, name)| (kind, name)).collect())
    }

    /// Adds the images of a folder, by name, and returns their samples. `linked` has the outside targets of linked images, `wanted`
    /// the component files, and whether an image claims each.
    fn samples(
        &self,
        task: &Task,
        fd: impl AsFd + Copy,
        mut images: Vec<(Box<CStr>, Stat)>,
        linked: &BTreeMap<Box<CStr>, Arc<Path>>,
        wanted: &mut BTreeMap<Box<[u8]>, bool>,
        found: &mut Outcome,
    ) -> Result<FolderSamples> {
        images.sort_unstable_by(|(a, _), (b, _)| a.to_bytes().cmp(b.to_bytes()));
        let mut samples = FolderSamples::default();
        let (mut count, mut total) = (0, 0);
        for (name, stat) in images {
            let listed = |file: &[u8]| wanted.contains_key(file);
            let places =
                Places { root: self.root.as_fd(), folder: &task.path, extra: None, here: Some((fd.as_fd(), &listed)) };
            let cells = cells(&places, name.to_bytes(), self.components, self.keep, &mut found.companions)
                .map_err(|(file, error)| self.error("cannot look at", &file, error))?;
            for file in self.components.iter().filter_map(|kind| kind.file_of(name.to_bytes())) {
                wanted.entry(file.into()).and_modify(|claimed| *claimed = true);
            }
            match image_bytes(&stat).map_err(Refused::from).and_then(|bytes| Ok((bytes, cells?))) {
                Err(Refused { fate, why }) => {
                    let path = join(&task.path, name.to_bytes());
                    found.unpacked.push(unpacked(path, task.class, fate, &why));
                }
                Ok((bytes, cells)) => {
                    let facts = Facts::from_stat(&stat);
                    samples.push(name.to_bytes(), bytes, facts.inode, facts.mtime_ns);
                    samples.push_cells(&cells);
                    linked.get(&name).into_iter().for_each(|folder| found.outside.add(folder));
                    count += 1;
                    total += u64::from(bytes);
                }
            }
        }
        self.monitor.advance(count, total);
        Ok(samples)
    }

    /// Opens the folder of `task`. Returns its descriptor, its place outside the source if it has one, and the chain of folders for
    /// its own subfolders; or the reason why it is not listed.
    fn enter(&self, task: &Task) -> Result<Result<(OwnedFd, Option<Arc<Path>>, Arc<Above>), String>> {
        let is_class = task.above.is_some() && !task.path.contains(&b'/');
        let outside = match is_class.then(|| self.class_link(&task.path)) {
            None => task.outside.clone(),
            Some(Ok(outside)) => outside.or_else(|| task.outside.clone()),
            Some(Err(why)) => return Ok(Err(why.to_owned())),
        };
        let fd = match open_folder(self.root, &task.path) {
            Ok(fd) => fd,
            Err(error) if is_of_path(error) && task.above.is_some() => return Ok(Err(unread(error))),
            Err(error) => return Err(self.error("cannot open folder", &task.path, error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|e| self.error("cannot look at", &task.path, e))?;
        if task.above.as_ref().is_some_and(|above| above.holds(&stat)) {
            return Ok(Err("leads back to a folder above it: a loop of symbolic links".to_owned()));
        }
        let above = Above::new(&stat, task.above.clone());
        Ok(Ok((fd, outside, above)))
    }

    /// Lists one folder and returns its subfolders.
    fn folder(&self, task: &Task) -> Result<Vec<Task>> {
        let (fd, outside, above) = match self.enter(task)? {
            Ok(entered) => entered,
            Err(why) => {
                lock(&self.outcome).unpacked.push(self.unseen(task.path.clone(), why));
                return Ok(Vec::new());
            }
        };
        let mut found = Outcome::default();
        let mut tasks = Vec::new();
        let mut images: Vec<(Box<CStr>, Stat)> = Vec::new();
        // Outside targets of linked images.
        let mut linked: BTreeMap<Box<CStr>, Arc<Path>> = BTreeMap::new();
        // Component files, and whether an image claims each.
        let mut wanted: BTreeMap<Box<[u8]>, bool> = BTreeMap::new();
        for (listed_type, name) in self.names(&fd, &task.path)? {
            let bytes = name.to_bytes();
            let class_of_name = self.keep.classify(bytes);
            let is_visible = !matches!(class_of_name, Name::Hidden | Name::System);
            let may_be_file = is_visible && listed_type != FileType::Directory;
            if may_be_file && found.companions.sees(self.components, &task.path, bytes) {
                continue;
            }
            if may_be_file && self.components.iter().any(|kind| !kind.is_path() && kind.takes(&task.path, bytes)) {
                wanted.insert(bytes.into(), false);
                continue;
            }
            if matches!(class_of_name, Name::Hidden | Name::System) {
                found.ignore(if matches!(class_of_name, Name::Hidden) { "hidden" } else { "system" }.to_owned());
                continue;
            }
            // A file that is not an image by name needs no inspection.
            if listed_type == FileType::RegularFile && matches!(class_of_name, Name::Other) {
                found.ignore(other_reason(bytes));
                continue;
            }
            let path = || join(&task.path, bytes);
            if listed_type != FileType::Directory && matches!(class_of_name, Name::Payload) && !self.keep.wants(&path())
            {
                found.companions.claim(self.components, &task.path, bytes);
                found.unpacked.push(unpacked(path(), task.class, Fate::Filtered, LEFT_OUT));
                continue;
            }
            let looked = rustix::fs::statat(&fd, &*name, AtFlags::empty());
            let is_link = match listed_type {
                FileType::Unknown => rustix::fs::readlinkat(&fd, &*name, Vec::new()).is_ok(),
                listed_type => listed_type == FileType::Symlink,
            };
            let is_meant = |stat: &Stat| {
                FileType::from_raw_mode(stat.st_mode) == FileType::Directory || matches!(class_of_name, Name::Payload)
            };
            let outside = match looked {
                Ok(stat) if is_link && is_meant(&stat) => match self.link(&fd, &task.path, &name) {
                    Ok(led) => led.or_else(|| outside.clone()),
                    Err(why) => {
                        found.unpacked.push(unpacked(path(), task.class, Fate::Skipped, why));
                        continue;
                    }
                },
                _ => outside.clone(),
            };
            match looked {
                Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => {
                        tasks.push(Task { path: path(), class: task.class, above: Some(Arc::clone(&above)), outside })
                    }
                    FileType::RegularFile if matches!(class_of_name, Name::Payload) => {
                        linked.extend(outside.map(|outside| (name.clone(), outside)));
                        images.push((name, stat));
                    }
                    _ if matches!(class_of_name, Name::Other) => found.ignore(other_reason(bytes)),
                    _ => found.unpacked.push(unpacked(path(), task.class, Fate::Skipped, "not a regular file")),
                },
                Err(error) if !is_of_path(error) => return Err(self.error("cannot look at", &path(), error)),
                // The entry may be a folder of images.
                Err(error) if matches!(class_of_name, Name::Other) => {
                    found.unpacked.push(self.unseen(path(), unread(error)));
                }
                Err(error) => found.unpacked.push(unpacked(path(), task.class, Fate::Skipped, &unread(error))),
            }
        }
        let samples = self.samples(task, &fd, images, &linked, &mut wanted, &mut found)?;
        for name in wanted.iter().filter(|(_, claimed)| !**claimed).map(|(name, _)| name) {
            let kind = self.components.iter().find(|kind| !kind.is_path() && kind.takes(&task.path, name));
            let kind = kind.map_or("", Component::name);
            found.ignore(format!("{kind} without its {}", self.keep.payload()));
        }
        let mut outcome = lock(&self.outcome);
        if !samples.is_empty() {
            outcome.samples.add(Folder { path: task.path.as_slice().into(), class: task.class }, &samples);
        }
        outcome.unpacked.append(&mut found.unpacked);
        outcome.outside.join(&found.outside);
        outcome.companions.append(&mut found.companions);
        for (reason, count) in found.ignored {
            *outcome.ignored.entry(reason).or_default() += count;
        }
        Ok(tasks)
    }
}

/// Length of an image file in bytes, or why the file is not a sample.
pub(super) fn image_bytes(stat: &Stat) -> Result<u32, String> {
    sized(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Whether a folder has a file of this name.
type HasFile<'a> = &'a dyn Fn(&[u8]) -> bool;

/// Where [`cells`] looks for files.
pub(super) struct Places<'a> {
    /// The source.
    pub root: BorrowedFd<'a>,
    /// The folder of the image, relative to the source.
    pub folder: &'a [u8],
    /// If `root` is a folder outside the source: the start of the paths in it, its name in braces.
    pub extra: Option<&'a str>,
    /// The same folder if it is open, and its files.
    pub here: Option<(BorrowedFd<'a>, HasFile<'a>)>,
}

/// The component files of the image `name`, or why the image cannot be packed with them.
///
/// # Errors
/// The file that the machine could not inspect, see [`is_of_path`].
pub(super) fn cells(
    places: &Places<'_>,
    name: &[u8],
    kinds: &[Component],
    keep: &PathFilter,
    companions: &mut Companions,
) -> Result<Result<Vec<Cell>, Refused>, (Vec<u8>, Errno)> {
    companions.claim(kinds, places.folder, name);
    kinds.iter().filter(|kind| !kind.is_text()).map(|kind| cell(places, name, kind, keep)).collect()
}

/// The file of the component `kind` of the image `name`; see [`cells`].
fn cell(
    places: &Places<'_>,
    name: &[u8],
    kind: &Component,
    keep: &PathFilter,
) -> Result<Result<Cell, Refused>, (Vec<u8>, Errno)> {
    let path = kind.path_of(places.folder, name);
    if kind.is_path() && path.as_deref() == Some(&join(places.folder, name)[..]) {
        return Ok(Err(companions::is_its_own(kind)));
    }
    file_cell(places, kind, kind.file_of(name), path, keep)
}

/// The file of the component `kind` at `path` in the source, which is `file` in the folder of the image if it is beside it.
///
/// # Errors
/// As [`cells`].
pub(super) fn file_cell(
    places: &Places<'_>,
    kind: &Component,
    file: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    keep: &PathFilter,
) -> Result<Result<Cell, Refused>, (Vec<u8>, Errno)> {
    let missing = |path: Option<&[u8]>| Ok(companions::missing(kind, path, keep.on_missing()));
    let Some(path) = path else { return missing(None) };
    let from_root = places.extra.and_then(|extra| path.strip_prefix(extra.as_bytes())).unwrap_or(&path);
    // In the open folder by name, else by the path from the source.
    let (at, below) = match (&file, places.here) {
        (Some(file), Some((_, is_listed))) if !is_listed(file) => return missing(Some(&path)),
        (Some(file), Some((here, _))) => (here, file.as_slice()),
        _ => (places.root, from_root),
    };
    let shown = text::shown(file.as_deref().unwrap_or(&path));
    let wrong = |what: String| {
        let beside = if file.is_some() { " beside it" } else { "" };
        Ok(Err(Refused::from(format!("{shown}{beside} {what}"))))
    };
    if file.is_none() && !keep.follows() && has_link(&places.root, from_root) {
        return wrong(format!("is {NOT_FOLLOWED}"));
    }
    let look = |how| rustix::fs::statat(at, below, how);
    match look(if keep.follows() { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => wrong(format!("is {NOT_FOLLOWED}")),
        // A link that leads nowhere is there.
        Err(Errno::NOENT) if matches!(look(AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) => missing(Some(&path)),
        Err(error) if !is_of_path(error) => Err((path, error)),
        Err(error) => wrong(unread(error)),
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
            wrong("is not a regular file".to_owned())
        }
        Ok(stat) => {
            let bytes = beside(below, u64::try_from(stat.st_size).unwrap_or(0)).map_err(Refused::from);
            Ok(bytes.map(|bytes| Cell::file(bytes, Facts::from_stat(&stat).mtime_ns)))
        }
    }
}

/// Whether `path` or a folder in it is a symbolic link.
pub(super) fn has_link(root: &impl AsFd, path: &[u8]) -> bool {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
    let is_link = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    ends.into_iter().any(|end| rustix::fs::statat(root, &path[..end], AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_link))
}
