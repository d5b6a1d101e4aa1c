//! Target tells what the paths on a command line are: datasets, some shards of one, or tar files that somebody else
//! wrote.
//!
//! Only names and manifests are looked at. A shard of a dataset is known by the manifest beside it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use shardpack_format::{Error, Result, manifest};
use shardpack_reader::{Dataset, Shard, WORK_FOLDER};

use crate::{plan_file, sys};

/// A plan file beyond this is not read just to say how many shards there will be.
const SMALL_PLAN_BYTES: u64 = 4 << 20;

/// What can be looked at as one.
#[derive(Debug)]
pub enum Target {
    /// A dataset, or some of its shards.
    Dataset(Box<View>),
    /// Tar files without a manifest, in the order in which they were given.
    Foreign(Vec<PathBuf>),
}

/// A dataset, and which of its shards are meant.
#[derive(Debug)]
pub struct View {
    /// The dataset.
    pub dataset: Dataset,
    /// Numbers of the shards, ascending.
    pub shards: Vec<usize>,
}

impl View {
    fn whole(folder: &Path) -> Result<Box<Self>> {
        let dataset = open(folder)?;
        Ok(Box::new(Self { shards: (0..dataset.manifest().shards.len()).collect(), dataset }))
    }

    /// Whether all shards are meant.
    pub fn is_whole(&self) -> bool {
        self.shards.len() == self.dataset.manifest().shards.len()
    }

    /// The shards that are meant, in order.
    pub fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        self.shards.iter().filter_map(|number| self.dataset.shard(*number).ok())
    }

    /// Adds the shard that `path` is; `false` if it is none of this dataset.
    fn add(&mut self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        let is_it = |shard: &manifest::Shard| name == shard.file.as_str();
        let found = self.dataset.manifest().shards.iter().position(is_it);
        let Some(number) = found.filter(|_| self.dataset.folder() == folder_of(path)) else { return false };
        if let Err(at) = self.shards.binary_search(&number) {
            self.shards.insert(at, number);
        }
        true
    }

    /// Number of samples in the shards that are meant.
    pub fn samples(&self) -> u64 {
        self.shards().map(|shard| shard.len()).sum()
    }
}

/// Opens a dataset such that images that are read are compared with their hashes.
fn open(folder: &Path) -> Result<Dataset> {
    Ok(Dataset::open(folder)?.check_content(true))
}

/// What `paths` are; neighbours that belong together are one target.
///
/// # Errors
/// When a path is not there, is none of these, or holds an unfinished pack.
pub fn resolve(paths: &[PathBuf]) -> Result<Vec<Target>> {
    let mut targets: Vec<Target> = Vec::new();
    for path in paths {
        let kind = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::usage("not found").in_file(path),
            _ => sys::io_error("cannot look at", path, error),
        })?;
        if kind.is_dir() {
            targets.extend(folder(path)?);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            targets.push(Target::Dataset(View::whole(&of_manifest(path)?)?));
        } else {
            add_file(&mut targets, path)?;
        }
    }
    Ok(targets)
}

fn folder(path: &Path) -> Result<Vec<Target>> {
    refuse_unfinished(path)?;
    if path.join(manifest::FILE).exists() {
        return Ok(vec![Target::Dataset(View::whole(path)?)]);
    }
    let splits = shardpack_reader::splits(path)?;
    if !splits.is_empty() {
        return splits.iter().map(|split| View::whole(&split.path).map(Target::Dataset)).collect();
    }
    let failed = |error| sys::io_error("cannot read folder", path, error);
    let entries = path.read_dir().map_err(failed)?.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    let mut tars: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).filter(|path| is_tar(path)).collect();
    tars.sort();
    if tars.is_empty() {
        let what = format!("no {} in it, nor in its folders, and no tar files", manifest::FILE);
        return Err(Error::usage(what).in_file(path).help("give a folder that `shardpack pack` wrote, or tar files"));
    }
    Ok(vec![Target::Foreign(tars)])
}

/// Whether the name is one of a tar file that can be read, and the file no folder.
fn is_tar(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let hidden = name.starts_with(b".");
    !hidden && [&b".tar"[..], b".tar.zst", b".tzst"].iter().any(|end| name.ends_with(end)) && path.is_file()
}

/// The folder of a file that was given as a manifest.
fn of_manifest(path: &Path) -> Result<PathBuf> {
    if path.file_name().is_none_or(|name| name != manifest::FILE) {
        let what = format!("a manifest is called {}", manifest::FILE);
        return Err(Error::usage(what).in_file(path).help("give the folder, its manifest, or tar files"));
    }
    let folder = folder_of(path);
    refuse_unfinished(&folder)?;
    Ok(folder)
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}

/// Adds a file: to the shards of the dataset that it belongs to, or to the foreign files before it.
fn add_file(targets: &mut Vec<Target>, path: &Path) -> Result<()> {
    if let Some(Target::Dataset(view)) = targets.last_mut()
        && view.add(path)
    {
        return Ok(());
    }
    let folder = folder_of(path);
    if folder.join(manifest::FILE).is_file() {
        refuse_unfinished(&folder)?;
        let mut view = Box::new(View { dataset: open(&folder)?, shards: Vec::new() });
        if view.add(path) {
            targets.push(Target::Dataset(view));
            return Ok(());
        }
    }
    match targets.last_mut() {
        Some(Target::Foreign(files)) => files.push(path.to_path_buf()),
        _ => targets.push(Target::Foreign(vec![path.to_path_buf()])),
    }
    Ok(())
}

/// Fails where `folder`, or the one that it is a split of, holds a pack that is not finished; says how far that is.
fn refuse_unfinished(folder: &Path) -> Result<()> {
    for folder in [folder.to_path_buf(), folder.join("..")] {
        let work = folder.join(WORK_FOLDER);
        if !work.is_dir() {
            continue;
        }
        let shown = if folder.ends_with("..") { folder.canonicalize().unwrap_or(folder) } else { folder };
        let finished = finished_shards(&shown).map_err(|error| sys::io_error("cannot read folder", &shown, error))?;
        let plan = work.join("plan");
        let is_small = fs::metadata(&plan).is_ok_and(|plan| plan.len() <= SMALL_PLAN_BYTES);
        // A plan that cannot be read is for `pack` to complain about.
        let planned = is_small.then(|| plan_file::read(&plan).ok()).flatten();
        let of = planned.map(|file| file.plans.iter().map(|plan| plan.shards.len()).sum::<usize>());
        let progress = match of {
            Some(all) => format!("{finished} of {all} shards are finished"),
            None => format!("shards that are finished: {finished}"),
        };
        return Err(Error::usage(format!("an unfinished pack; {progress}"))
            .in_file(shown)
            .help("the same pack command goes on from there"));
    }
    Ok(())
}

/// A shard is finished when its index has its name.
fn finished_shards(folder: &Path) -> io::Result<usize> {
    let mut finished = 0;
    let folders = folder.read_dir()?.collect::<io::Result<Vec<_>>>()?;
    let splits = folders.iter().map(|entry| entry.path().join(manifest::INDEX_FOLDER));
    for indexes in splits.chain([folder.join(manifest::INDEX_FOLDER)]).filter(|path| path.is_dir()) {
        for entry in indexes.read_dir()? {
            finished += usize::from(entry?.path().extension().is_some_and(|extension| extension == "index"));
        }
    }
    Ok(finished)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_files_without_a_manifest_are_foreign_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.tar", "a.tar", "c.tar.zst", ".hidden.tar", "a.tar.idx", "x.json"] {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        fs::create_dir(folder.path().join("d.tar")).unwrap();
        let targets = resolve(&[folder.path().to_path_buf()]).unwrap();
        let [Target::Foreign(files)] = &targets[..] else { panic!("{targets:?}") };
        let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.tar", "b.tar", "c.tar.zst"]);
        let given = [folder.path().join("b.tar"), folder.path().join("a.tar")];
        let targets = resolve(&given).unwrap();
        let [Target::Foreign(files)] = &targets[..] else { panic!("{targets:?}") };
        assert_eq!(files, &given, "files stay in the order in which they were given");
    }

    #[test]
    fn what_is_nothing_is_said_to_be_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let message = |path: PathBuf| resolve(&[path]).unwrap_err().to_string();
        assert!(message(folder.path().to_path_buf()).ends_with("no tar files"));
        assert!(message(folder.path().join("none")).ends_with("none: not found"));
        fs::write(folder.path().join("x.json"), b"{}").unwrap();
        assert!(message(folder.path().join("x.json")).ends_with("a manifest is called manifest.json"));
    }

    #[test]
    fn an_unfinished_pack_is_said_to_be_one_from_inside_too() {
        let folder = tempfile::tempdir().unwrap();
        for part in [".shardpack", "train/index", "val/index"] {
            fs::create_dir_all(folder.path().join(part)).unwrap();
        }
        for index in ["train/index/a.index", "val/index/a.index", "val/index/b.index"] {
            fs::write(folder.path().join(index), b"").unwrap();
        }
        for part in ["", "train"] {
            let error = resolve(&[folder.path().join(part)]).unwrap_err();
            assert_eq!(error.kind(), shardpack_format::ErrorKind::Usage);
            assert!(error.to_string().ends_with("an unfinished pack; shards that are finished: 3"), "{error}");
        }
    }
}
