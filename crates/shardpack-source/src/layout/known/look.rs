//! Looks at the folders and files of a tree, each folder once.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    rc::Rc,
};

use shardpack_format::{regular, splits};

use super::super::{Likeness, pairs};
use crate::{
    filter,
    names::{self, Name},
    sample_files,
    tree::Tree,
};

/// Levels of folders of images in a split: `train/JPEGImages/480p/bear`.
pub(super) const MAX_BELOW_SPLIT: usize = 3;
/// Most first-level folders that are inspected.
pub(super) const MAX_SPLITS: usize = 16;
/// Bytes of a file that are read at most.
pub(super) const READ_BYTES: u64 = 64 << 10;
/// Pieces of a long file that are read.
pub(super) const PIECES: u64 = 16;

/// Looks at folders and files of a tree.
pub(super) struct Look<'t> {
    pub tree: Tree<'t>,
    /// Folders that the user calls splits.
    pub splits: &'t [String],
    /// The inspected folder, relative to the tree; empty for the tree.
    pub inside: String,
    read: &'t ReadFolders,
}

/// Names in the folders that were read: most layouts look at the same ones.
#[derive(Default)]
pub(super) struct ReadFolders(RefCell<Kept>);

/// Names by folder, and their number; and the starts of files.
#[derive(Default)]
struct Kept {
    folders: HashMap<PathBuf, Rc<Names>>,
    names: usize,
    starts: HashMap<PathBuf, Rc<[u8]>>,
}

/// Names in a folder, sorted.
#[derive(Default)]
struct Names {
    folders: Vec<String>,
    files: Vec<String>,
}

impl ReadFolders {
    /// Names that are kept at most.
    const MAX_NAMES: usize = 1 << 20;
    /// Starts of files that are kept at most.
    const MAX_STARTS: usize = 64;

    /// The start of a file, which several layouts look at.
    fn start(&self, path: &Path, read: impl FnOnce() -> Vec<u8>) -> Rc<[u8]> {
        if let Some(known) = self.0.borrow().starts.get(path) {
            return Rc::clone(known);
        }
        let start: Rc<[u8]> = read().into();
        let starts = &mut self.0.borrow_mut().starts;
        if starts.len() == Self::MAX_STARTS {
            starts.clear();
        }
        starts.insert(path.to_owned(), Rc::clone(&start));
        start
    }

    fn get(&self, path: &Path, read: impl FnOnce() -> Names) -> Rc<Names> {
        if let Some(known) = self.0.borrow().folders.get(path) {
            return Rc::clone(known);
        }
        let names = Rc::new(read());
        let mut kept = self.0.borrow_mut();
        let count = 1 + names.folders.len() + names.files.len();
        if kept.names + count > Self::MAX_NAMES {
            *kept = Kept::default();
        }
        kept.names += count;
        kept.folders.insert(path.to_owned(), Rc::clone(&names));
        names
    }
}

impl<'t> Look<'t> {
    pub fn new(tree: Tree<'t>, splits: &'t [String], read: &'t ReadFolders) -> Self {
        Self { tree, splits, inside: String::new(), read }
    }

    /// The same for the folder `inside`.
    pub fn within(&self, inside: String) -> Self {
        Self { inside, ..*self }
    }

    /// Folders between the tree and the inspected folder, the latter counted.
    pub fn depth(&self) -> usize {
        if self.inside.is_empty() { 0 } else { self.inside.split('/').count() }
    }

    /// The path of a file or folder in the folder that is looked at.
    pub fn path(&self, below: &str) -> PathBuf {
        let below = match (self.inside.is_empty(), below.is_empty()) {
            (true, _) => below.to_owned(),
            (false, true) => self.inside.clone(),
            (false, false) => format!("{}/{below}", self.inside),
        };
        self.tree.path(below.as_bytes())
    }

    /// The path in the tree of the only folder, if there are no images beside it.
    pub fn only_folder(&self) -> Option<String> {
        let [inner] = <[String; 1]>::try_from(self.folders("")).ok()?;
        let is_alone = self.files("").images().is_empty();
        is_alone.then(|| if self.inside.is_empty() { inner.clone() } else { format!("{}/{inner}", self.inside) })
    }

    /// Names in the folder `below` of the tree. Names that are not UTF-8 are left out.
    fn names(&self, below: &str) -> Rc<Names> {
        let path = self.path(below);
        self.read.get(&path, || {
            let mut names = Names::default();
            let is_meant = |name: &[u8]| !matches!(names::classify(name, |_| false), Name::Hidden | Name::System);
            for (name, is_folder) in
                sample_files::entries(self.tree, &path).into_iter().filter(|(name, _)| is_meant(name))
            {
                let Ok(name) = String::from_utf8(name) else { continue };
                if is_folder { names.folders.push(name) } else { names.files.push(name) }
            }
            names.folders.sort_unstable();
            names.files.sort_unstable();
            names
        })
    }

    /// Names of the folders in `below`, sorted.
    pub fn folders(&self, below: &str) -> Vec<String> {
        self.names(below).folders.clone()
    }

    /// Whether `below` has a file of this name; `name` may have a folder. Over a network, to look into a folder that is missing costs a request.
    pub fn has_file(&self, below: &str, name: &str) -> bool {
        match name.split_once('/') {
            None => self.files(below).has(name),
            Some((folder, rest)) => {
                let inner = if below.is_empty() { folder.to_owned() } else { format!("{below}/{folder}") };
                self.folders(below).iter().any(|one| one == folder) && self.has_file(&inner, rest)
            }
        }
    }

    pub fn files(&self, below: &str) -> Files {
        Files(self.names(below).files.clone())
    }

    /// Whether a folder of this name is a split.
    pub fn is_split(&self, name: &str) -> bool {
        let is_sure = Likeness::classify(name.as_bytes()).is_sure() || self.splits.iter().any(|split| split == name);
        is_sure && splits::check_name(name).is_ok()
    }

    /// The first-level folders, if all are splits; without those that have no images, which cannot be packed.
    pub fn split_folders(&self) -> Option<Vec<String>> {
        self.split_folders_of(|name| self.has_images(name, MAX_BELOW_SPLIT))
    }

    /// The first-level folders that are wanted, if all are splits or like splits.
    pub fn split_folders_of(&self, is_wanted: impl Fn(&str) -> bool) -> Option<Vec<String>> {
        let mut top = self.folders("");
        let are_few = !top.is_empty() && top.len() <= MAX_SPLITS;
        let are_splits = are_few && (top.iter().all(|name| self.is_split(name)) || self.are_like_splits(&top));
        top.retain(|name| are_splits && is_wanted(name));
        (!top.is_empty()).then_some(top)
    }

    /// Whether half of the folders `top` are called as splits, and all have the same folders in them, which are called as pairs: `our485` and
    /// `eval15`, each with `low` and `high` (LOL).
    fn are_like_splits(&self, top: &[String]) -> bool {
        let has_pair = |names: &[String]| {
            let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            !pairs::called_so(&names).is_empty()
        };
        let are_called = top.iter().filter(|name| self.is_split(name)).count();
        if are_called * 2 < top.len() || has_pair(top) || top.iter().any(|name| splits::check_name(name).is_err()) {
            return false;
        }
        let inner = self.folders(&top[0]);
        has_pair(&inner) && top.iter().all(|name| self.folders(name) == inner)
    }

    /// Whether the folders at `root`, the root of a list in the folder that is looked at, are classes by their names.
    pub fn are_classes(&self, root: &Path) -> bool {
        let Some(below) = root.strip_prefix(self.path("")).ok().and_then(Path::to_str) else { return false };
        let folders = self.folders(below);
        let is_other = |name: &String| {
            !name.contains(|letter: char| letter.is_alphabetic())
                || Likeness::classify(name.as_bytes()).word().is_some()
                || pairs::is_half(name.as_bytes())
        };
        folders.len() > 1 && !folders.iter().any(is_other)
    }

    /// Whether a folder has images, or a folder in it, `levels` deep.
    pub fn has_images(&self, folder: &str, levels: usize) -> bool {
        let below =
            || self.folders(folder).into_iter().any(|name| self.has_images(&format!("{folder}/{name}"), levels - 1));
        !self.files(folder).images().is_empty() || levels > 0 && below()
    }

    /// The option for images in the folders `inner` of `images`: splits if all are called so.
    pub fn folders_option(&self, images: &str, inner: &[String]) -> (&'static str, String) {
        match !inner.is_empty() && inner.iter().all(|name| self.is_split(name)) {
            true => ("--splits", format!("{images}/{{split}}")),
            false => ("--include", filter::below(images)),
        }
    }

    /// The start of a file; empty if it cannot be read.
    pub fn start(&self, path: &str) -> Rc<[u8]> {
        let path = self.path(path);
        self.read.start(&path, || match self.tree.listed {
            Some((_, first_bytes)) => first_bytes(&path, READ_BYTES),
            None => self.read(&path, READ_BYTES),
        })
    }

    /// Pieces of a file of this machine, spread over it; a short file is whole. Empty if it cannot be read.
    pub fn pieces(&self, path: &Path) -> Vec<u8> {
        let mut pieces = Vec::new();
        let Ok(mut file) = regular::open(path) else { return pieces };
        let length = file.metadata().map_or(0, |of| of.len());
        let step = (length / PIECES).max(READ_BYTES);
        for at in (0..length).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let read =
                file.seek(SeekFrom::Start(at)).and_then(|_| (&mut file).take(READ_BYTES).read_to_end(&mut pieces));
            if read.is_err() {
                return Vec::new();
            }
        }
        pieces
    }

    /// The first `most` bytes of a file of this machine; empty if it cannot be read.
    pub fn read(&self, path: &Path, most: u64) -> Vec<u8> {
        let mut start = Vec::new();
        let read = regular::open(path).and_then(|file| file.take(most).read_to_end(&mut start));
        if read.is_ok() { start } else { Vec::new() }
    }
}

/// Names of the files in a folder.
pub(super) struct Files(pub Vec<String>);

impl Files {
    /// Whether there is a file of this name.
    pub fn has(&self, wanted: &str) -> bool {
        self.0.iter().any(|name| name == wanted)
    }

    /// Names of the images, without extension.
    pub fn images(&self) -> HashSet<&str> {
        self.0.iter().filter(|name| names::is_image(name.as_bytes())).map(|name| stem(name)).collect()
    }

    /// Names of the files with this extension, without it.
    pub fn stems(&self, extension: &str) -> HashSet<&str> {
        self.0.iter().filter_map(|name| name.strip_suffix(extension)?.strip_suffix('.')).collect()
    }

    /// The first file with this extension.
    pub fn first_of(&self, extension: &str) -> Option<String> {
        self.0.iter().find(|name| has_extension(name, extension)).cloned()
    }

    /// The images that have a file of the same name among `others`, and those that have none.
    pub fn pairs(&self, others: &HashSet<&str>) -> (u64, u64) {
        let images = self.images();
        let with = images.iter().filter(|stem| others.contains(**stem)).count();
        (with as u64, (images.len() - with) as u64)
    }
}

/// Whether `text` is somewhere in the start of a file.
pub(super) fn contains(start: &[u8], text: &[u8]) -> bool {
    start.windows(text.len()).any(|window| window == text)
}

/// Whether the file at a path has this extension.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    match extension {
        "" => !path.rsplit('/').next().unwrap_or(path).contains('.'),
        extension => path.strip_suffix(extension).is_some_and(|stem| stem.ends_with('.')),
    }
}

pub(super) fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}
