//! Finds files by their names in any folder below the root, for lists that name files without their folders: `--root 'FOLDER/**'`.
//!
//! Holds at all times: a name that two files have is refused. Links to folders are not followed; hidden files and those of systems are no
//! files of a list.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use shardpack_format::Result;

use crate::{
    monitor::Monitor,
    names::{self, Name, SOUNDS, cut},
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

/// The files below a folder, sorted by name.
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
    /// Where its name begins.
    name: u32,
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
    /// Walks all folders below `root`; stops after `most` files.
    ///
    /// # Errors
    /// If a folder cannot be read, or the user cancels.
    pub fn walk(root: &Path, most: usize, monitor: &dyn Monitor) -> Result<Self> {
        let mut found = Self::default();
        let mut folders: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(folder) = folders.pop() {
            monitor.check_cancelled()?;
            let path = root.join(names::as_path(&folder));
            let failed = |error| sys::io_error("cannot read folder", &path, error);
            for entry in fs::read_dir(&path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let (name, kind) = (entry.file_name(), entry.file_type().map_err(failed)?);
                if matches!(names::classify(name.as_bytes(), |_| true), Name::Hidden | Name::System) {
                    continue;
                }
                let path = names::join(&folder, name.as_bytes());
                match kind.is_dir() {
                    true => folders.push(path),
                    false => found.push(&path),
                }
            }
            if found.files.len() >= most {
                break;
            }
        }
        let Self { bytes, files } = &mut found;
        let key = |file: &File| (file.name(bytes), file.path(bytes));
        files.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        Ok(found)
    }

    fn push(&mut self, path: &[u8]) {
        let name = path.len() - cut(path).1.len();
        // Paths that a system opens have fewer than 4 GiB.
        self.files.push(File { start: self.bytes.len(), length: path.len() as u32, name: name as u32 });
        self.bytes.extend_from_slice(path);
    }

    /// The file at `path`, or else the files whose paths end in it.
    pub fn find(&self, path: &[u8]) -> Found<'_> {
        let name = cut(path).1;
        let named = || self.beginning(name).filter(move |file| cut(file).1 == name && is_end(file, path));
        let exact = named().find(|file| *file == path);
        exact.map_or_else(|| Found::of(named()), Found::One)
    }

    /// The image files at `path` and an extension; the sounds, if there is no image.
    pub fn with_extension(&self, path: &[u8]) -> Found<'_> {
        let stem = [cut(path).1, b"."].concat();
        let of = |is_kind: &dyn Fn(&[u8]) -> bool| {
            let files = self.beginning(&stem).filter(|file| {
                let (folder, name) = cut(file);
                let extension = &name[stem.len()..];
                let own = names::join(folder, &name[..stem.len() - 1]);
                !extension.contains(&b'.') && is_end(&own, path) && is_kind(name)
            });
            Found::of(files)
        };
        match of(&names::is_image) {
            Found::Nothing => of(&is_sound),
            images => images,
        }
    }

    /// The files whose names begin so.
    fn beginning(&self, with: &[u8]) -> impl Iterator<Item = &[u8]> {
        let first = self.files.partition_point(|file| file.name(&self.bytes) < with);
        let files = self.files[first..].iter().take_while(move |file| file.name(&self.bytes).starts_with(with));
        files.map(|file| file.path(&self.bytes))
    }
}

impl File {
    fn path<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.start + self.length as usize]
    }

    fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &self.path(bytes)[self.name as usize..]
    }
}

/// Whether the last folders and the name of `file` are `path`.
fn is_end(file: &[u8], path: &[u8]) -> bool {
    file.strip_suffix(path).is_some_and(|above| above.is_empty() || above.ends_with(b"/"))
}

fn is_sound(name: &[u8]) -> bool {
    let at = name.iter().rposition(|byte| *byte == b'.');
    at.is_some_and(|at| SOUNDS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(&name[at + 1..])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;

    #[test]
    fn names_are_found_in_any_folder_and_two_files_of_a_name_are_told_apart_by_their_folders() {
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
        ] {
            fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
            fs::write(folder.path().join(path), path).unwrap();
        }
        std::os::unix::fs::symlink("..", folder.path().join("b/up")).unwrap();
        let files = FilesByName::walk(folder.path(), usize::MAX, &Silent).unwrap();
        for (path, expected) in [
            ("y.png", Found::One(&b"b/y.png"[..])),
            ("b/y.png", Found::One(b"b/y.png")),
            ("x.jpg", Found::Several(b"a/x.jpg", b"b/c/x.jpg")),
            ("a/x.jpg", Found::One(b"a/x.jpg")),
            ("c/x.jpg", Found::One(b"b/c/x.jpg")),
            ("top.jpg", Found::One(b"top.jpg")),
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
        ] {
            assert_eq!(files.with_extension(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(super::folder(Path::new("a/**")), Some(PathBuf::from("a")));
        assert_eq!(super::folder(Path::new("**")), Some(PathBuf::from(".")));
        assert_eq!(super::folder(Path::new("a**")), None);
    }
}
