//! Finds the files of paths without an extension: `0001` for `0001.jpg`, and of ids of sounds, as lists of speech have them (LJSpeech).
//!
//! Holds at all times: a path gets an extension only if it is not itself a file. In a folder, a path with two image
//! files is refused. Below a URL, each look is a request, so the extension of the first path is that of all.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    os::unix::ffi::OsStrExt,
    sync::{Mutex, PoisonError},
};

use shardpack_format::{Result, text};

use super::{
    by_name::Found,
    rows::{Rows, two_files},
};
use crate::{
    names::{self, SOUNDS, cut},
    sys,
};

/// Extensions with their dot, by file name without extension. A file without an extension has an empty one.
type Folder = HashMap<Vec<u8>, Vec<Vec<u8>>>;

/// The state of the search.
#[derive(Default)]
pub(super) struct Extensions {
    /// Image and sound files of the folders that were looked at, by the folder's path below the root.
    folders: Mutex<HashMap<Vec<u8>, Folder>>,
    /// Whether paths lack their extension; `None` until the first row decides.
    are_missing: Option<bool>,
    /// The first extension found. A path whose file is missing gets it too.
    first: Option<Vec<u8>>,
    /// Number of paths that got an extension, by extension.
    counts: BTreeMap<Vec<u8>, u64>,
}

impl Extensions {
    /// The state after an earlier look found `first` as the first extension.
    pub fn of_first(first: Option<&str>) -> Self {
        Self { first: first.map(|first| first.as_bytes().to_vec()), ..Self::default() }
    }

    /// The first extension, if it is UTF-8.
    pub fn first_name(&self) -> Option<String> {
        String::from_utf8(self.first.clone()?).ok()
    }

    /// Counts a path that got `extension`.
    fn count(&mut self, extension: Vec<u8>) {
        *self.counts.entry(extension.clone()).or_default() += 1;
        self.first.get_or_insert(extension);
    }

    /// The note about the paths that got an extension.
    pub fn note(&self) -> Option<String> {
        let counts = self.counts.iter().map(|(extension, count)| format!("{} ({count})", text::shown(extension)));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let all: u64 = self.counts.values().sum();
        (all > 0).then(|| format!("{all} paths without an extension got one: {counts}"))
    }
}

impl Rows<'_> {
    /// Whether `path` is not itself a file, and only an image or sound file with an extension exists.
    ///
    /// # Errors
    /// If the lookup fails.
    pub fn is_without_extension(&self, path: &[u8]) -> Result<bool> {
        if self.clues().has_stem(path) {
            return Ok(true);
        }
        let found = self.is_without_extension_now(path)?;
        if found && self.count() == 0 {
            self.clues().add_stem(path);
        }
        Ok(found)
    }

    fn is_without_extension_now(&self, path: &[u8]) -> Result<bool> {
        let Some(path) = self.below(path).filter(|path| !path.is_empty()) else { return Ok(false) };
        if cut(&path).1.contains(&b'.') {
            return Ok(false);
        }
        if let Some(files) = self.by_name {
            return Ok(files.with_extension(&path).first().is_some());
        }
        let found = self.extensions_of(&path)?;
        Ok(!found.is_empty() && !found.iter().any(Vec::is_empty))
    }

    /// Appends the extension to a path that lacks it; `line` is the line of the list.
    ///
    /// # Errors
    /// If two files have this name, or the lookup fails.
    pub fn append_extension(&mut self, path: &mut Vec<u8>, line: u64) -> Result<()> {
        if cut(path).1.contains(&b'.') {
            self.extensions.are_missing.get_or_insert(false);
            return Ok(());
        }
        let is_first = self.extensions.are_missing.is_none();
        let are_missing = match self.extensions.are_missing {
            Some(are_missing) => are_missing,
            None => !self.is_file(path)?,
        };
        self.extensions.are_missing = Some(are_missing);
        if !are_missing {
            return Ok(());
        }
        match self.by_name.map_or(Found::Nothing, |files| files.with_extension(path)) {
            Found::Several(one, other) => return Err(two_files(line, path, one, other)),
            Found::One(file) => {
                let extension = file[file.len() - cut(file).1.len()..][cut(path).1.len()..].to_vec();
                *path = file.to_vec();
                self.extensions.count(extension);
                return Ok(());
            }
            Found::Nothing => {}
        }
        let found = if self.is_cheap() || is_first { self.extensions_of(path)? } else { Vec::new() };
        let extension = match found.as_slice() {
            [] => self.extensions.first.clone(),
            found if found.iter().any(Vec::is_empty) => None,
            [one] => Some(one.clone()),
            [one, other, ..] => {
                let [one, other] = [one, other].map(|extension| [path.as_slice(), extension].concat());
                return Err(two_files(line, path, &one, &other));
            }
        };
        if let Some(extension) = extension {
            path.extend_from_slice(&extension);
            self.extensions.count(extension);
        }
        Ok(())
    }

    /// The extensions of the image files with this path, sorted; of the sound files, if there is no other file.
    fn extensions_of(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (folder, name) = cut(path);
        if !self.is_cheap() {
            let images = self.extensions_among(path, &names::EXTENSIONS)?;
            return if images.is_empty() { self.extensions_among(path, &SOUNDS) } else { Ok(images) };
        }
        let mut folders = self.extensions.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if !folders.contains_key(folder) {
            folders.insert(folder.to_vec(), self.image_files(folder)?);
        }
        let mut found = folders.get(folder).and_then(|files| files.get(name)).cloned().unwrap_or_default();
        if found.iter().any(|extension| !names::is_sound(extension)) {
            found.retain(|extension| !names::is_sound(extension));
        }
        Ok(found)
    }

    /// Those of `known`, in lower and upper case, that make a file of this path. Looks once for each.
    fn extensions_among(&self, path: &[u8], known: &[&str]) -> Result<Vec<Vec<u8>>> {
        let known = known.iter().flat_map(|known| [(*known).to_owned(), known.to_uppercase()]);
        let known = known.map(|extension| format!(".{extension}").into_bytes());
        let found = known.map(|one| Ok(self.is_file(&[path, &one].concat())?.then_some(one)));
        found.filter_map(Result::transpose).collect()
    }

    /// The image and sound files of a folder below the root, and the files without an extension.
    fn image_files(&self, folder: &[u8]) -> Result<Folder> {
        use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
        let path = self.root.join(names::as_path(folder));
        let failed = |error| sys::io_error("cannot read folder", &path, error);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename | InvalidInput) => {
                return Ok(Folder::new());
            }
            Err(error) => return Err(failed(error)),
        };
        let mut files = Folder::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.as_bytes();
            let at = name.iter().rposition(|byte| *byte == b'.').unwrap_or(name.len());
            let is_candidate = at == name.len() || names::is_image(name) || names::is_sound(name);
            if is_candidate && entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
                files.entry(name[..at].to_vec()).or_default().push(name[at..].to_vec());
            }
        }
        files.values_mut().for_each(|found| found.sort());
        Ok(files)
    }
}
