//! What a folder holds: a dataset, several (its splits), or a pack that is not finished.

use std::{
    io,
    path::{Path, PathBuf},
};

use shardpack_format::{Error, Result, manifest};

use crate::files;

/// Name of the folder in which `shardpack pack` keeps what is not finished; it is gone once the pack is.
pub use shardpack_format::manifest::WORK_FOLDER;

/// A dataset inside a folder of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Name of its folder (`train`, `val`), with replacement characters where that is not UTF-8.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
}

/// The datasets in the folders of `path`, by name; none where `path` is a dataset itself.
///
/// # Errors
/// When `path` cannot be read, or holds a pack that is not finished.
pub fn splits(path: impl AsRef<Path>) -> Result<Vec<Split>> {
    let path = path.as_ref();
    refuse_unfinished(path)?;
    if path.join(manifest::FILE).exists() {
        return Ok(Vec::new());
    }
    list(path).map_err(|error| files::io_error("cannot read folder", error).in_file(path))
}

fn list(path: &Path) -> io::Result<Vec<Split>> {
    let mut splits = Vec::new();
    for entry in path.read_dir()? {
        let entry = entry?;
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if !name.starts_with('.') && path.join(manifest::FILE).is_file() {
            splits.push(Split { name, path });
        }
    }
    splits.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(splits)
}

/// Fails where `folder`, or the one that it is a split of, holds a pack that is not finished.
pub(crate) fn refuse_unfinished(folder: &Path) -> Result<()> {
    // By way of `..` and not of the text: `train` and `.` have a folder above them too.
    for folder in [folder.to_path_buf(), folder.join("..")] {
        if folder.join(WORK_FOLDER).is_dir() {
            let shown = folder.canonicalize().unwrap_or(folder);
            return Err(Error::data(format!("holds an unfinished pack: {WORK_FOLDER} is in it"))
                .in_file(shown)
                .help("run the same `shardpack pack` again; it goes on where it stopped"));
        }
    }
    Ok(())
}

/// Why `folder` without a manifest cannot be opened.
pub(crate) fn no_manifest(folder: &Path) -> Error {
    let error = match list(folder) {
        Err(error) => files::io_error("cannot read folder", error),
        Ok(splits) if splits.is_empty() => {
            Error::usage(format!("no dataset: there is no {} in it, nor in its folders", manifest::FILE))
        }
        Ok(splits) => {
            let names: Vec<_> = splits.iter().map(|split| split.name.as_str()).collect();
            Error::usage(format!("holds several datasets: {}", names.join(", ")))
                .help(format!("open one of them: {}", splits[0].path.display()))
        }
    };
    error.in_file(folder)
}
