//! Writes of files through power cuts between any two calls, and through calls that fail.

mod simulated;

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use rustix::io::Errno;
use shardpack_format::{Result, hash};
use tempfile::TempDir;

use self::simulated::{Fault, Simulated, State, Step, restore, state_of};
use super::Disk;
use crate::{FileWriter, Local, Size, Storage, own};

const OLD: &[u8] = b"the old bytes";
const NEW: &[u8] = b"0123456789";

/// Bytes of a file; `None` if it is missing.
type Bytes = Option<&'static [u8]>;
/// Runs on a disk in this folder.
type DiskAction = fn(Arc<dyn Disk>, &Path) -> Result<()>;

/// A change of one file.
struct Row {
    name: &'static str,
    /// Path of the file.
    file: &'static str,
    /// The change.
    change: DiskAction,
    /// Makes it durable.
    sync: DiskAction,
    /// The bytes after the change, from those before it.
    after: fn(Bytes) -> Bytes,
}

fn dst(disk: Arc<dyn Disk>, base: &Path) -> Local {
    Local::on(disk, base.join("dst"))
}

/// The split `train`, whose unfinished files are in a work folder.
fn train(disk: Arc<dyn Disk>, base: &Path) -> Result<Arc<dyn Storage>> {
    dst(disk, base).with_work(&base.join("work")).folder("train")
}

/// Starts a file, and writes the second part of it first.
fn start(storage: &dyn Storage, name: &str) -> Result<Box<dyn FileWriter>> {
    let file = storage.create(name, Size::Known(NEW.len() as u64))?;
    file.write_at(&NEW[6..], 6)?;
    file.start_write_back(6, 10);
    file.write_at(&NEW[..6], 0)?;
    Ok(file)
}

fn finish(file: &dyn FileWriter) -> Result<()> {
    file.finish(NEW.len() as u64, &hash::file(NEW))
}

const ROWS: [Row; 11] = [
    Row {
        name: "put",
        file: "dst/x",
        change: |disk, base| dst(disk, base).put("x", NEW.to_vec()),
        sync: |disk, base| dst(disk, base).sync(""),
        after: |_| Some(NEW),
    },
    Row {
        name: "put in new subfolders",
        file: "dst/a/b/x",
        change: |disk, base| dst(disk, base).put("a/b/x", NEW.to_vec()),
        sync: |disk, base| dst(disk, base).sync("a/b"),
        after: |_| Some(NEW),
    },
    Row {
        name: "put below new folders",
        file: "new/deep/dst/x",
        change: |disk, base| Local::on(disk, base.join("new/deep/dst")).put("x", NEW.to_vec()),
        sync: |disk, base| Local::on(disk, base.join("new/deep/dst")).sync(""),
        after: |_| Some(NEW),
    },
    Row {
        name: "create",
        file: "dst/x",
        change: |disk, base| finish(start(&dst(disk, base), "x")?.as_ref()),
        sync: |disk, base| dst(disk, base).sync(""),
        after: |_| Some(NEW),
    },
    Row {
        name: "create with a work folder",
        file: "dst/train/a/x",
        change: |disk, base| finish(start(train(disk, base)?.as_ref(), "a/x")?.as_ref()),
        sync: |disk, base| train(disk, base)?.sync("a"),
        after: |_| Some(NEW),
    },
    Row {
        name: "abort",
        file: "dst/x",
        change: |disk, base| start(&dst(disk, base), "x")?.abort(),
        sync: |disk, base| dst(disk, base).sync(""),
        after: |old| old,
    },
    Row {
        name: "abort in a work folder",
        file: "dst/train/x",
        change: |disk, base| {
            let storage = train(disk, base)?;
            drop(start(storage.as_ref(), "x")?);
            storage.abort_begun().map(drop)
        },
        sync: |disk, base| train(disk, base)?.sync(""),
        after: |old| old,
    },
    Row {
        name: "remove",
        file: "dst/x",
        change: |disk, base| dst(disk, base).remove("x"),
        sync: |disk, base| dst(disk, base).sync(""),
        after: |_| None,
    },
    Row {
        name: "temporary file beside",
        file: "x",
        change: |disk, base| {
            let mut temporary = own::Temporary::on(disk, base.join("x.0123.part"))?;
            temporary.write(&NEW[..3])?;
            temporary.write(&NEW[3..])?;
            temporary.finish(&base.join("x"))
        },
        sync: |disk, base| disk.sync_folder(base),
        after: |_| Some(NEW),
    },
    Row {
        name: "file of the program",
        file: "x",
        change: |disk, base| {
            let file = disk.create(&base.join("x.part"))?;
            disk.write_at(&file, &base.join("x.part"), NEW, 0)?;
            disk.finish(&file, &base.join("x.part"), &base.join("x"))
        },
        sync: |disk, base| disk.sync_folder(base),
        after: |_| Some(NEW),
    },
    Row {
        name: "published file",
        file: "x",
        change: |disk, base| {
            let file = disk.create(&base.join("x.part"))?;
            disk.write(&file, &base.join("x.part"), NEW)?;
            disk.publish(&file, &base.join("x.part"), &base.join("x")).map(drop)
        },
        sync: |disk, base| disk.sync_folder(base),
        after: |old| old.or(Some(NEW)),
    },
];

impl Row {
    /// A disk with the file as it was.
    fn disk(&self, old: Bytes, fault: Fault) -> (TempDir, Arc<Simulated>) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("dst")).unwrap();
        if let Some(old) = old {
            let path = folder.path().join(self.file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, old).unwrap();
        }
        let disk = Arc::new(Simulated::new(folder.path(), fault));
        (folder, disk)
    }

    fn run(&self, disk: &Arc<Simulated>, base: &Path) -> Result<()> {
        (self.change)(disk.clone(), base)?;
        (self.sync)(disk.clone(), base)
    }

    /// Fails if the file has other than these bytes, or if there is another finished file.
    fn holds(&self, state: &State, allowed: &[Bytes]) -> std::result::Result<(), String> {
        let found = state.get(Path::new(self.file)).and_then(|bytes| bytes.as_deref());
        let is_finished = |path: &Path| path.extension().is_none_or(|extension| extension != "part");
        let files = state.iter().filter(|(path, bytes)| bytes.is_some() && is_finished(path)).count();
        match allowed.contains(&found) && files == usize::from(found.is_some()) {
            true => Ok(()),
            false => Err(format!("{}: expected one of {allowed:?}, found {state:?}", self.name)),
        }
    }

    /// Fails if the file is neither old nor new after a power cut, or not new after one at the end, or if the same change does
    /// not succeed then.
    fn survives_cuts(&self, old: Bytes, fault: Fault) -> std::result::Result<(), String> {
        let (new, (folder, disk)) = ((self.after)(old), self.disk(old, fault));
        self.run(&disk, folder.path()).map_err(|error| error.to_string())?;
        assert_eq!(disk.recorded(), state_of(folder.path()), "{}: changed without the disk", self.name);
        let mut tried = BTreeSet::new();
        for steps in 0..=disk.steps() {
            let allowed = if steps == disk.steps() { vec![new] } else { vec![old, new] };
            for state in disk.states(steps) {
                self.holds(&state, &allowed)?;
                if tried.insert(state.clone()) {
                    self.succeeds_after(&state, new)?;
                }
            }
        }
        Ok(())
    }

    fn succeeds_after(&self, state: &State, new: Bytes) -> std::result::Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        restore(state, folder.path());
        let disk = Arc::new(Simulated::new(folder.path(), Fault::None));
        self.run(&disk, folder.path()).map_err(|error| format!("{}: {error} after {state:?}", self.name))?;
        disk.states(disk.steps()).iter().try_for_each(|state| self.holds(state, &[new]))
    }
}

#[test]
fn after_a_power_cut_a_file_has_its_old_or_its_new_bytes_and_the_next_try_succeeds() {
    for row in ROWS {
        for old in [None, Some(OLD)] {
            row.survives_cuts(old, Fault::None).unwrap();
        }
    }
}

#[test]
fn a_failed_call_leaves_the_old_bytes_and_the_next_try_succeeds() {
    for row in ROWS {
        for (old, errno) in [(None, Errno::IO), (Some(OLD), Errno::IO), (None, Errno::NOSPC), (Some(OLD), Errno::NOSPC)]
        {
            let (folder, disk) = row.disk(old, Fault::None);
            row.run(&disk, folder.path()).unwrap();
            for failing in 0..disk.calls() {
                let (folder, disk) = row.disk(old, Fault::Fails(failing, errno));
                let changed = (row.change)(disk.clone(), folder.path());
                let is_unchanged = changed.is_err();
                if is_unchanged {
                    row.holds(&state_of(folder.path()), &[old]).unwrap();
                    for state in (0..=disk.steps()).flat_map(|steps| disk.states(steps)) {
                        row.holds(&state, &[old]).unwrap();
                    }
                }
                let error = changed.and_then(|()| (row.sync)(disk.clone(), folder.path())).unwrap_err();
                let found = error.io_error().and_then(std::io::Error::raw_os_error);
                assert_eq!(found, Some(errno.raw_os_error()), "{}: {error}", row.name);
                row.run(&disk, folder.path()).unwrap();
                let new = (row.after)(old);
                row.holds(&state_of(folder.path()), &[new]).unwrap();
                // The name of a folder above the storage is synced only by the call that creates the folder.
                let is_of_folder =
                    is_unchanged && error.location().file.as_deref().is_some_and(|it| Path::new(it).is_dir());
                let durable: &[_] = if is_of_folder { &[old, new] } else { &[new] };
                disk.states(disk.steps()).iter().for_each(|state| row.holds(state, durable).unwrap());
            }
        }
    }
}

/// The simulation finds the faults that the other tests exclude.
#[test]
fn a_missing_sync_or_a_wrong_order_is_found() {
    for row in ROWS {
        for old in [None, Some(OLD)] {
            let new = (row.after)(old);
            let no_sync = row.survives_cuts(old, Fault::Ignores(|step| matches!(step, Step::Sync(_))));
            assert_eq!(no_sync.is_err(), new == Some(NEW), "{}", row.name);
            let no_names = row.survives_cuts(old, Fault::Ignores(|step| matches!(step, Step::SyncFolder(_))));
            assert_eq!(no_names.is_err(), new != old, "{}", row.name);
        }
    }
    let wrong: [DiskAction; 3] = [
        |disk, base| {
            let file = disk.create(&base.join("x"))?;
            disk.write(&file, base, NEW)?;
            disk.sync(&file, base)
        },
        |disk, base| {
            let file = disk.create(&base.join("x.part"))?;
            disk.write(&file, base, NEW)?;
            disk.rename(&base.join("x.part"), &base.join("x"))?;
            disk.sync(&file, base)
        },
        |disk, base| {
            let file = disk.create(&base.join("x.part"))?;
            disk.write(&file, base, NEW)?;
            disk.remove(&base.join("x"))?;
            disk.finish(&file, &base.join("x.part"), &base.join("x"))
        },
    ];
    let sync: DiskAction = |disk, base| disk.sync_folder(base);
    for (number, change) in wrong.into_iter().enumerate() {
        let row = Row { name: "wrong", file: "x", change, sync, after: |_| Some(NEW) };
        assert!(row.survives_cuts(Some(OLD), Fault::None).is_err(), "{number}");
    }
}

#[test]
fn a_file_that_was_not_synced_loses_any_of_its_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Simulated::new(folder.path(), Fault::None);
    let file = disk.create(&folder.path().join("x")).unwrap();
    disk.sync_folder(folder.path()).unwrap();
    disk.write(&file, folder.path(), b"abcdef").unwrap();
    let contents = |disk: &Simulated| -> Vec<_> {
        disk.states(disk.steps()).into_iter().map(|state| state[Path::new("x")].clone().unwrap()).collect()
    };
    let all: [&[u8]; 7] = [b"", b"\0\0\0\0", b"\0\0\0\0\0\0", b"\0\0\0\0ef", b"abcd", b"abcd\0\0", b"abcdef"];
    assert_eq!(contents(&disk), all);
    disk.sync(&file, folder.path()).unwrap();
    assert_eq!(contents(&disk), [b"abcdef"]);
}
