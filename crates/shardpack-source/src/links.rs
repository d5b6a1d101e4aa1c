//! Finds images behind symbolic links that leave the source tree, and the folder of their targets.
//!
//! Trees of links are a common way to build one dataset from another, so links are followed and reported. A link leaves
//! the tree if the real path of its target's folder is outside. Each target folder is resolved once.

use std::{
    collections::HashMap,
    ffi::{CStr, OsStr},
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use shardpack_format::{size, text};

use super::names::as_path;

/// The reason for a link under `--no-follow`.
pub(super) const NOT_FOLLOWED: &str = "a symbolic link, and --no-follow";

/// Images behind links that leave the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outside {
    images: u64,
    /// The deepest folder that contains all targets.
    folder: Option<Arc<Path>>,
}

impl Outside {
    /// Adds an image in `folder` or below.
    pub fn add(&mut self, folder: &Arc<Path>) {
        self.join(&Self { images: 1, folder: Some(Arc::clone(folder)) });
    }

    /// Adds the images of `other`.
    pub fn join(&mut self, other: &Self) {
        self.images += other.images;
        match (&self.folder, &other.folder) {
            (Some(own), Some(other)) if !other.starts_with(own) => {
                let above = own.ancestors().find(|above| other.starts_with(above));
                self.folder = above.map(Arc::from);
            }
            (None, Some(other)) => self.folder = Some(Arc::clone(other)),
            _ => {}
        }
    }

    /// A note for the user, if there are such images.
    pub fn note(&self, noun: &str) -> Option<String> {
        let folder = self.folder.as_ref().filter(|_| self.images > 0)?;
        let (count, are) = (size::counted(self.images, noun), if self.images == 1 { "is" } else { "are" });
        Some(format!(
            "{count} {are} behind symbolic links out of the source, to {}; --no-follow refuses them",
            text::path(&**folder)
        ))
    }
}

/// Resolved link targets.
pub(super) struct Links {
    /// The real path of the source.
    root: Option<PathBuf>,
    /// Real paths of target folders, by the unresolved path of the target folder.
    known: Mutex<HashMap<PathBuf, Option<Arc<Path>>>>,
}

impl Links {
    /// Creates an empty cache for the source `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.canonicalize().ok(), known: Mutex::default() }
    }

    /// The real path of the folder `path`, if it is outside the source.
    pub fn outside_of(&self, path: &Path) -> Option<Arc<Path>> {
        let real = path.canonicalize().ok()?;
        (!real.starts_with(self.root.as_ref()?)).then(|| Arc::from(real))
    }

    /// The folder outside the source that the link `name` leads to. The link is in `folder`, at `path`.
    pub fn outside(&self, folder: impl AsFd, path: &Path, name: &CStr) -> Option<Arc<Path>> {
        let root = self.root.as_ref()?;
        let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
        let target = path.join(as_path(target.as_bytes()));
        let above = target.parent()?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(above).cloned();
        let real = known.unwrap_or_else(|| {
            let real = above.canonicalize().ok().map(Arc::from);
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(above.to_path_buf(), real.clone());
            real
        })?;
        if !real.starts_with(root) {
            return Some(real);
        }
        // The target may be another link, or a folder above the source.
        let whole = path.join(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()?;
        (!whole.starts_with(root)).then(|| Arc::from(whole.parent().unwrap_or(&whole)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_many_targets_are_one_above_them() {
        let mut outside = Outside::default();
        assert_eq!(outside.note("image"), None);
        for (folder, expected) in
            [("/mnt/raw/a", "/mnt/raw/a"), ("/mnt/raw/b", "/mnt/raw"), ("/mnt/raw/b/c", "/mnt/raw"), ("/media", "/")]
        {
            outside.add(&Arc::from(Path::new(folder)));
            assert!(outside.note("image").unwrap().contains(&format!("to {expected};")), "{outside:?}");
        }
        assert!(outside.note("image").unwrap().starts_with("4 images are behind"), "{outside:?}");
    }

    #[test]
    fn links_lead_out_by_their_real_target() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for below in ["src/cat", "raw"] {
            std::fs::create_dir_all(base.join(below)).unwrap();
        }
        for file in ["src/own.jpg", "raw/1.jpg"] {
            std::fs::write(base.join(file), b"x").unwrap();
        }
        let links = Links::new(&base.join("src"));
        let cat = base.join("src/cat");
        let fd = std::fs::File::open(&cat).unwrap();
        for (name, target, expected) in [
            ("a", "../own.jpg", None),
            ("b", "../../raw/1.jpg", Some("raw")),
            ("c", "b", Some("raw")),
            ("d", "../../raw", Some("")),
            ("e", "../../src/own.jpg", None),
            ("f", "nothing/x", None),
        ] {
            std::os::unix::fs::symlink(target, cat.join(name)).unwrap();
            let name = std::ffi::CString::new(name).unwrap();
            let expected = expected.map(|below| if below.is_empty() { base.clone() } else { base.join(below) });
            assert_eq!(links.outside(&fd, &cat, &name).as_deref(), expected.as_deref(), "{target}");
        }
    }
}
