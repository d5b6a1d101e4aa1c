//! Datasets that are packed after others: a work folder marks each as unfinished from the start.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_format::{Result, manifest::WORK_FOLDER};
use shardpack_storage::Address;

use crate::{own, sys};

/// Unused work folders, and for each whether its parent folder was missing before.
#[derive(Debug, Default)]
pub struct Announced(Vec<(PathBuf, bool)>);

impl Announced {
    /// Creates a work folder in each of `folders` that is missing or empty. The pack itself checks the others, and
    /// URLs.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(folders: impl IntoIterator<Item = PathBuf>) -> Result<Self> {
        let mut all = Self::default();
        // At a URL nothing shows that a pack has begun but its plan.
        for folder in folders.into_iter().filter_map(|folder| Address::of(&folder).local().map(Path::to_path_buf)) {
            let is_new = sys::exists(&folder).map(|is_there| !is_there);
            let made = is_new.and_then(|is_new| match is_new || is_empty(&folder)? {
                true => own::work_folder(&folder, WORK_FOLDER).map(|work| Some((work, is_new))),
                false => Ok(None),
            });
            match made {
                Ok(made) => all.0.extend(made),
                Err(error) => {
                    all.withdraw();
                    return Err(error);
                }
            }
        }
        Ok(all)
    }

    /// Removes the work folders that are still unused.
    pub fn withdraw(self) {
        for (work, is_new) in self.0 {
            // The reason why nothing was packed matters more than an empty folder.
            let _ = own::remove_empty_folder(&work);
            if is_new {
                let _ = work.parent().map(own::remove_empty_folder);
            }
        }
    }
}

fn is_empty(folder: &Path) -> Result<bool> {
    let failed = |e| sys::io_error("cannot read folder", folder, e);
    Ok(fs::read_dir(folder).map_err(failed)?.next().is_none())
}

#[cfg(test)]
mod tests {
    use shardpack_reader::is_unfinished;

    use super::*;

    #[test]
    fn what_comes_later_is_unfinished_until_it_is_there_or_nothing_was_packed() {
        let root = tempfile::tempdir().unwrap();
        let (new, empty, held) = (root.path().join("a/new"), root.path().join("empty"), root.path().join("held"));
        fs::create_dir(&empty).unwrap();
        fs::create_dir(&held).unwrap();
        fs::write(held.join("x"), "").unwrap();
        let announced = Announced::create([new.clone(), empty.clone(), held.clone()]).unwrap();
        assert!([&new, &empty].into_iter().all(|folder| is_unfinished(folder).unwrap()));
        fs::write(empty.join(WORK_FOLDER).join("plan"), "").unwrap();
        announced.withdraw();
        assert!(!new.exists() && is_unfinished(&empty).unwrap() && held.join("x").exists());
        fs::write(root.path().join("file"), "").unwrap();
        assert!(Announced::create([new.clone(), root.path().join("file")]).is_err());
        assert!(!new.exists());
    }
}
