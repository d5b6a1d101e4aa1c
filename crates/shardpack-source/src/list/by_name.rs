//! Finds files by their names in any folder below the root, for lists that name files without their folders: `--root 'FOLDER/**'`.
//!
//! Holds at all times: a name of two files is refused. Each folder is walked once, also if links lead to it. Hidden files and those of systems
//! are no files of a list.

use std::{
    cmp::Ordering,
    collections::HashSet,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use shardpack_format::{Result, component};

use crate::{
    monitor::Monitor,
    names::{self, Name, cut},
    sys,
};

/// The end of a root whose files are found by name.
const ANYWHERE: &str = "**";

/// The folder of a root that ends in `/**`.
pub(super) fn folder(root: &Path) -> Option<PathBuf> {
    root.ends_with(ANYWHERE).then(|| match root.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    })
}

/// The root whose files are found by name in any folder below `folder`.
pub(crate) fn anywhere(folder: &Path) -> PathBuf {
    folder.join(ANYWHERE)
}

/// The files below a folder, sorted by their paths without extension, read from the end: files of a name in all folders are neighbours.
#[derive(Debug, Default)]
pub(super) struct FilesByName {
    /// Paths below the folder, end to end.
    bytes: Vec<u8>,
    files: Vec<File>,
}

/// Where a path is in the bytes.
#[derive(Clone, Copy, Debug)]
struct File {
    start: usize,
    length: u32,
    /// Its length without the extension and the dot.
    stem: u32,
}

/// The files of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    Nothing,
    One(&'a [u8]),
    /// The first two of several.
    Several(&'a [u8], &'a [u8]),
}

impl<'a> Found<'a> {
    fn of(mut files: impl Iterator<Item = &'a [u8]>) -> Self {
        match (files.next(), files.next()) {
            (None, _) => Self::Nothing,
            (Some(one), None) => Self::One(one),
            (Some(one), Some(other)) => Self::Several(one, other),
        }
    }

    /// The file, or the first of several.
    pub fn first(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Nothing => None,
            Self::One(first) | Self::Several(first, _) => Some(first),
        }
    }
}

impl FilesByName {
    /// Walks all folders below `root`, to about `most` entries. Links to folders are followed if `follows`.
    ///
    /// # Errors
    /// If a folder cannot be read, or the user cancels.
    pub fn walk(root: &Path, follows: bool, most: usize, monitor: &dyn Monitor) -> Result<Self> {
        let (mut found, mut entries, mut known) = (Self::default(), 0, HashSet::new());
        let mut folders: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(folder) = folders.pop().filter(|_| entries < most) {
            monitor.check_cancelled()?;
            let path = root.join(names::as_path(&folder));
            let failed = |error| sys::io_error("cannot read folder", &path, error);
            let facts = fs::metadata(&path).map_err(failed)?;
            if !known.insert((facts.dev(), facts.ino())) {
                continue;
            }
            let mut inner = Vec::new();
            for entry in fs::read_dir(&path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let (name, kind) = (entry.file_name(), entry.file_type().map_err(failed)?);
                if matches!(names::classify(name.as_bytes(), |_| true), Name::Hidden | Name::System) {
                    continue;
                }
                entries += 1;
                let below = names::join(&folder, name.as_bytes());
                // A link that leads nowhere is a file that cannot be read.
                let is_link = || kind.is_symlink() && follows && fs::metadata(entry.path()).is_ok_and(|to| to.is_dir());
                if kind.is_dir() || is_link() { inner.push(below) } else { found.push(&below) }
            }
            // Of two links to a folder, the same is followed each time.
            inner.sort_unstable_by(|a, b| b.cmp(a));
            folders.append(&mut inner);
        }
        let Self { bytes, files } = &mut found;
        files.sort_unstable_by(|a, b| {
            backwards(a.stem(bytes), b.stem(bytes)).then_with(|| a.path(bytes).cmp(b.path(bytes)))
        });
        Ok(found)
    }

    fn push(&mut self, path: &[u8]) {
        // Paths that a system opens have fewer than 4 GiB.
        let stem = stem(path).len() as u32;
        self.files.push(File { start: self.bytes.len(), length: path.len() as u32, stem });
        self.bytes.extend_from_slice(path);
    }

    /// The file at `path` if it has folders, or else the files whose last folders and name are `path`.
    pub fn find(&self, path: &[u8]) -> Found<'_> {
        let extension = &path[stem(path).len()..];
        let has_it = |file: &&[u8]| file[stem(file).len()..] == *extension;
        let exact = self.at(stem(path)).find(has_it);
        match exact.filter(|_| path.contains(&b'/')) {
            Some(file) => Found::One(file),
            None => Found::of(exact.into_iter().chain(self.below_any(stem(path)).filter(has_it))),
        }
    }

    /// The image files at `path` and an extension, found in the same way; the sounds, if there is no image.
    pub fn with_extension(&self, path: &[u8]) -> Found<'_> {
        let of = |is_kind: &dyn Fn(&[u8]) -> bool| {
            let is_it = |file: &&[u8]| is_kind(file);
            match Found::of(self.at(path).filter(is_it)) {
                found if found != Found::Nothing && path.contains(&b'/') => found,
                _ => Found::of(self.at(path).chain(self.below_any(path)).filter(is_it)),
            }
        };
        match of(&names::is_image) {
            Found::Nothing => of(&names::is_sound),
            images => images,
        }
    }

    /// The files at `stem`.
    fn at(&self, stem: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.files_from(self.first(stem), move |own| own == stem)
    }

    /// The files at `stem` in any folder.
    fn below_any(&self, stem: &[u8]) -> impl Iterator<Item = &[u8]> {
        let end = [b"/", stem].concat();
        self.files_from(self.first(&end), move |own| own.ends_with(&end))
    }

    /// The number of the first file whose stem ends in `stem`, or would stand behind it.
    fn first(&self, stem: &[u8]) -> usize {
        self.files.partition_point(|file| backwards(file.stem(&self.bytes), stem) == Ordering::Less)
    }

    /// The files from number `first` on, while their stems are wanted.
    fn files_from(&self, first: usize, is_wanted: impl Fn(&[u8]) -> bool) -> impl Iterator<Item = &[u8]> {
        let files = self.files[first..].iter().take_while(move |file| is_wanted(file.stem(&self.bytes)));
        files.map(|file| file.path(&self.bytes))
    }
}

impl File {
    fn path<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.start + self.length as usize]
    }

    fn stem<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.start + self.stem as usize]
    }
}

/// Compares two texts from their ends.
fn backwards(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

/// A path without its extension and the dot.
fn stem(path: &[u8]) -> &[u8] {
    let name = cut(path).1;
    &path[..path.len() - name.len() + component::stem(name).len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;

    #[test]
    fn names_are_found_in_any_folder_and_two_files_of_a_name_differ_by_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "a/x.jpg",
            "b/c/x.jpg",
            "b/y.png",
            "b/y.flac",
            "s/z.flac",
            "s/z.txt",
            "s/z.a.jpg",
            ".h/q.jpg",
            "q/.q.jpg",
            "top.jpg",
            "d/top.jpg",
            "e/n",
            "f/n.jpg",
            "e/-x.jpg",
        ] {
            fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
            fs::write(folder.path().join(path), path).unwrap();
        }
        std::os::unix::fs::symlink("..", folder.path().join("b/up")).unwrap();
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("linked.jpg"), "x").unwrap();
        std::os::unix::fs::symlink(other.path(), folder.path().join("z-link")).unwrap();
        let walk = |follows, most| FilesByName::walk(folder.path(), follows, most, &Silent).unwrap();
        let files = walk(true, usize::MAX);
        assert_eq!(files.find(b"linked.jpg"), Found::One(b"z-link/linked.jpg"));
        assert_eq!(walk(false, usize::MAX).find(b"linked.jpg"), Found::Nothing);
        assert!(walk(true, 3).files.len() < 10);
        for (path, expected) in [
            ("y.png", Found::One(&b"b/y.png"[..])),
            ("b/y.png", Found::One(b"b/y.png")),
            ("x.jpg", Found::Several(b"a/x.jpg", b"b/c/x.jpg")),
            ("a/x.jpg", Found::One(b"a/x.jpg")),
            ("c/x.jpg", Found::One(b"b/c/x.jpg")),
            ("top.jpg", Found::Several(b"top.jpg", b"d/top.jpg")),
            ("d/top.jpg", Found::One(b"d/top.jpg")),
            ("n", Found::One(b"e/n")),
            ("op.jpg", Found::Nothing),
            ("q.jpg", Found::Nothing),
            ("y", Found::Nothing),
            ("", Found::Nothing),
        ] {
            assert_eq!(files.find(path.as_bytes()), expected, "{path}");
        }
        for (path, expected) in [
            ("y", Found::One(&b"b/y.png"[..])),
            ("z", Found::One(b"s/z.flac")),
            ("s/z", Found::One(b"s/z.flac")),
            ("b/z", Found::Nothing),
            ("x", Found::Several(b"a/x.jpg", b"b/c/x.jpg")),
            ("c/x", Found::One(b"b/c/x.jpg")),
            ("n", Found::One(b"f/n.jpg")),
            ("top", Found::Several(b"top.jpg", b"d/top.jpg")),
            ("", Found::Nothing),
        ] {
            assert_eq!(files.with_extension(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(super::folder(Path::new("a/**")), Some(PathBuf::from("a")));
        assert_eq!(super::folder(Path::new("**")), Some(PathBuf::from(".")));
        assert_eq!(super::folder(Path::new("a**")), None);
    }
}
