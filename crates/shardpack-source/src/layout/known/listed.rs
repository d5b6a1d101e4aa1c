//! Images or sounds, and lists beside them with their classes, texts or targets: CelebA, Flickr8k, ESC-50, LJSpeech, `train/metadata.jsonl`.
//!
//! The first rows of each list are read as `shardpack pack LIST` reads them, below each folder that may be its root. Holds at all times: a list is named only
//! if its rows are files of one root, and if it names images in each folder, picked over the folder; or the message has the folders that it lacks.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use shardpack_format::{ErrorKind, memory, shell};

use super::{
    super::containers::are_parts,
    Files, Found, Look, MAX_AROUND, ReadFolders,
    counterparts::join,
    list_names::{is_other, is_train, split_of},
    list_splits::{of_splits, one_per_split},
    stem,
};
use crate::{
    Result,
    api::SourceListing,
    list::{
        self, anywhere,
        trial::{BYTES, Start, Trial},
    },
    names::{self, SOUNDS},
    options::Options,
    tree::Tree,
};

/// Most folders that are looked into.
const MAX_FOLDERS: usize = 64;
/// Levels of folders with lists, or with the files that they name.
const MAX_LEVELS: usize = 3;
/// Most lists: more are of single images or folders. DTD has 31.
const MAX_LISTS: usize = 40;
/// Most folders that a list may be relative to.
const MAX_ROOTS: usize = 16;
/// Most bytes of a list that are searched for names of images, within the memory.
const MAX_BYTES: u64 = 256 << 20;
/// Images of a folder that are looked for in a list.
const PICKED: usize = 16;
/// A list with the folder of its paths.
pub(super) struct List {
    path: PathBuf,
    /// Folder of the list, and folder of its paths.
    pub folder: PathBuf,
    pub root: PathBuf,
    /// Name of its split, and name of the list without it.
    pub split: Option<(String, String)>,
    pub trial: Trial,
    /// Whether it has no labels, and the folders of its files are classes.
    pub has_class_folders: bool,
    /// The picked images that it names, by the number of their folder.
    seen: HashSet<(usize, String)>,
}

/// A folder of the first level, or the source, that has images or sounds.
struct Media {
    folder: String,
    /// Paths of files below it, picked over the folder.
    picked: Vec<String>,
}

/// The folders that are looked into, with the lists in them.
struct Folders {
    all: Vec<(String, Vec<String>)>,
    media: Vec<Media>,
    are_sounds: bool,
    /// Whether the folders of images are numbered parts: a list names files of all of them, without their folders.
    are_parts: bool,
}

/// The samples `found` in the tree at `root`, with a note on lists that name the images of their only class.
///
/// # Errors
/// The error of `found`; for a tree without classes, and for sounds of one class, the error names the lists and the command that packs them.
pub(crate) fn asked(root: &Path, options: &Options, found: Result<Vec<SourceListing>>) -> Result<Vec<SourceListing>> {
    let tree = Tree { root, listed: None };
    let is_question = match &found {
        _ if !options.is_open() => false,
        // The question on a known layout is the better one.
        Err(error) => error.kind() == ErrorKind::Usage && super::ask(tree, &[]).is_ok(),
        Ok(found) => found.iter().all(|one| one.listing.classes.len() < 2),
    };
    if !is_question {
        return found.map(|mut found| {
            note_splits(tree, options, &mut found);
            found
        });
    }
    let read = ReadFolders::default();
    let Some((look, lists, are_sounds)) = in_tree(tree, &read) else { return found };
    match found {
        Ok(mut found) if !are_sounds => {
            let note = format!("{}: {} {}", lists.what, lists.usage(), lists.result);
            found.first_mut().into_iter().for_each(|first| first.notes.push(note.clone()));
            Ok(found)
        }
        _ => Err(look.question(&lists)),
    }
}

/// Adds a note on lists of splits beside class folders (EuroSAT): test images are among the others.
fn note_splits(tree: Tree<'_>, options: &Options, sources: &mut [SourceListing]) {
    let [one] = sources else { return };
    if !options.is_open() || one.split.is_some() || one.listing.classes.len() < 2 {
        return;
    }
    let read = ReadFolders::default();
    let look = Look::new(tree, &[], &read);
    let Some(folders) = Folders::of_classes(&look) else { return };
    let lists: Vec<List> = folders.lists(&look);
    let of_splits = of_splits(&lists);
    if let Some(lists) = of_splits.iter().find(|lists| folders.lacking(lists).is_empty()) {
        let lists = found(&look, lists, &[], &folders, None);
        one.notes.push(format!(
            "{}, and all are packed as one dataset: {} {}",
            lists.what,
            lists.usage(),
            lists.result
        ));
    }
}

/// Lists beside images or sounds, in the source or in its only folder; and whether they are of sounds.
fn in_tree<'t>(tree: Tree<'t>, read: &'t ReadFolders) -> Option<(Look<'t>, Found, bool)> {
    let mut look = Look::new(tree, &[], read);
    for _ in 0..=MAX_AROUND {
        if let Some((found, are_sounds)) = find(&look) {
            return Some((look, found, are_sounds));
        }
        look.inside = look.only_folder()?;
    }
    None
}

/// Lists beside the images or sounds of a folder; and whether they are of sounds.
fn find(look: &Look<'_>) -> Option<(Found, bool)> {
    let folders = Folders::find(look)?;
    let lists: Vec<List> = folders.lists(look);
    let of_splits = of_splits(&lists);
    if let Some(first) = of_splits.iter().find(|lists| folders.lacking(lists).is_empty()) {
        let is_first = |list: &&List| first.iter().any(|one| std::ptr::eq(*one, *list));
        let others = of_splits.iter().flatten().copied().filter(|list| !is_first(list)).collect::<Vec<_>>();
        return Some((found(look, first, &others, &folders, None), folders.are_sounds));
    }
    let top = anywhere(&look.path(""));
    if let Some(lists) = one_per_split(&lists).filter(|lists| folders.lacking(lists).is_empty())
        && folders.have_distinct_names(look)
        && lists.iter().all(|list| list.names_files_below(look, &top))
    {
        return Some((found(look, &lists, &[], &folders, Some(&top)), folders.are_sounds));
    }
    // A text of one line may be called as a file. The source itself, and folders with folders, which may be classes, are not left out.
    let may_lack = |folder: &&str| !folder.is_empty() && look.folders(folder).is_empty();
    let mut named: Vec<(&List, usize)> = Vec::new();
    for list in lists.iter().filter(|list| list.trial.rows > 1) {
        let lacks = folders.lacking(&[list]);
        if lacks.len() < folders.media.len() && lacks.iter().all(may_lack) {
            named.push((list, lacks.len()));
        }
    }
    named.sort_by_key(|(list, lacks)| {
        let is_other = *lacks > 0 && list.split.as_ref().is_none_or(|(split, _)| !is_train(split));
        (*lacks, is_other, !list.trial.has_columns, list.trial.has_own_labels)
    });
    let ((first, _), others) = named.split_first()?;
    let others: Vec<&List> = others.iter().map(|(list, _)| *list).filter(|list| list.root == first.root).collect();
    Some((found(look, &[first], &others, &folders, None), folders.are_sounds))
}

impl List {
    /// Whether all of its first rows name files below `root`.
    fn names_files_below(&self, look: &Look<'_>, root: &Path) -> bool {
        let trial = Start::new(look.read(&self.path, BYTES)).trial(&self.path, root);
        trial.is_some_and(|trial| trial.files == trial.rows)
    }
}

impl Folders {
    /// The folders of the source; `None` if there are no lists, or no images and sounds, or several folders that are no splits: pairs, or classes.
    fn find(look: &Look<'_>) -> Option<Self> {
        let mut all = vec![(String::new(), lists_of(&look.files("")))];
        let mut level = 0..1;
        for _ in 0..MAX_LEVELS {
            let folders = level.flat_map(|at: usize| {
                let folder = all[at].0.clone();
                look.folders(&folder).into_iter().map(move |name| join(&folder, &name))
            });
            let inner: Vec<String> = folders.take(MAX_FOLDERS - all.len()).collect();
            level = all.len()..all.len() + inner.len();
            all.extend(inner.into_iter().map(|folder| {
                let lists = lists_of(&look.files(&folder));
                (folder, lists)
            }));
        }
        let lists: usize = all.iter().map(|(_, lists)| lists.len()).sum();
        if lists == 0 || lists > MAX_LISTS {
            return None;
        }
        let top = || look.folders("").into_iter().take(MAX_ROOTS).map(|folder| (folder, MAX_LEVELS));
        let media = |are_sounds: bool| -> Vec<Media> {
            let all = std::iter::once((String::new(), 0)).chain(top());
            let picked =
                all.map(|(folder, levels)| Media { picked: picked(look, &folder, levels, are_sounds), folder });
            picked.filter(|media| !media.picked.is_empty()).collect()
        };
        let images = media(false);
        let are_sounds = images.is_empty();
        let media = if are_sounds { media(true) } else { images };
        let is_split = |media: &Media| look.is_split(&media.folder) && !are_sounds;
        let are_parts = are_parts(&media.iter().map(|media| media.folder.as_bytes()).collect::<Vec<_>>());
        let is_one = media.len() == 1 || are_parts || !media.is_empty() && media.iter().all(is_split);
        is_one.then_some(Self { all, media, are_sounds, are_parts })
    }

    /// The source of class folders, with the lists right in it; `None` if there are not several.
    fn of_classes(look: &Look<'_>) -> Option<Self> {
        let lists = lists_of(&look.files(""));
        if !(2..=MAX_LISTS).contains(&lists.len()) {
            return None;
        }
        let media = vec![Media { folder: String::new(), picked: picked(look, "", MAX_LEVELS, false) }];
        Some(Self { all: vec![(String::new(), lists)], media, are_sounds: false, are_parts: false })
    }

    /// The lists of files below folders of the source.
    fn lists(&self, look: &Look<'_>) -> Vec<List> {
        let mut lists = Vec::new();
        for (folder, name) in self.all.iter().flat_map(|(folder, names)| names.iter().map(move |name| (folder, name))) {
            let split = split_of(look, name, folder);
            let folder = look.path(folder);
            let path = folder.join(name);
            let start = Start::new(look.read(&path, BYTES));
            let has_class_folders = |one: &Trial, root: &Path| {
                let is_of_paths = !one.has_more || one.are_ids && !one.has_columns;
                is_of_paths && one.are_in_folders && look.are_classes(root)
            };
            let is_meant = |one: &Trial, root: &Path| one.has_more || split.is_some() && has_class_folders(one, root);
            let fits =
                |root: &Path| start.trial(&path, root).filter(|one| one.files * 2 > one.rows && is_meant(one, root));
            let own = split.as_ref().map(|(split, _)| split.as_str());
            let Some((root, first)) = self.root(look, &folder, own, &fits) else { continue };
            let trial = start.whole(&path, &root).unwrap_or(first);
            let most = MAX_BYTES.min(memory::most_of_piece());
            let text = look.read(&path, most);
            if text.len() as u64 == most {
                continue;
            }
            let seen = self.seen(look, &text, &root);
            let has_class_folders = has_class_folders(&trial, &root) && names_folders(look, &text, &root);
            // Paths alone add nothing to the images, unless their folders are classes.
            if trial.has_more || has_class_folders {
                lists.push(List { path, folder, root, split, trial, has_class_folders, seen });
            }
        }
        lists
    }

    /// The folder that has most files of a list in `folder`: its own or one above; else the only one, or that of its split.
    fn root(
        &self,
        look: &Look<'_>,
        folder: &Path,
        split: Option<&str>,
        fits: &dyn Fn(&Path) -> Option<Trial>,
    ) -> Option<(PathBuf, Trial)> {
        let top = look.path("");
        let outside = top.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
        let mut above = folder.ancestors().take_while(|above| above.starts_with(&top)).chain(outside);
        if let Some(found) = above.find_map(|root| Some((root.to_owned(), fits(root)?))) {
            return Some(found);
        }
        if self.are_parts {
            let root = anywhere(&top);
            return fits(&root).map(|trial| (root, trial));
        }
        let others = self.all.iter().skip(1).map(|(name, _)| (name, look.path(name)));
        let others = others.filter(|(_, other)| other != folder).take(MAX_ROOTS);
        let fitting: Vec<_> = others.filter_map(|(name, root)| Some((name, fits(&root)?, root))).collect();
        let is_own = |name: &str| split.is_some_and(|split| name.split('/').any(|part| part == split));
        // Ids that begin again in each split have several roots.
        let only = fitting.first().filter(|_| fitting.len() == 1);
        let (_, trial, root) = fitting.iter().find(|(name, ..)| is_own(name)).or(only)?;
        Some((root.clone(), *trial))
    }

    /// The picked images that a list with this `text` names, with paths below `root`.
    fn seen(&self, look: &Look<'_>, text: &[u8], root: &Path) -> HashSet<(usize, String)> {
        let picked = self.media.iter().flat_map(|media| &media.picked).map(|path| file_name(path));
        let wanted: HashSet<&[u8]> = picked.flat_map(|name| [name, stem(name)]).map(str::as_bytes).collect();
        // A name in quotes may have any of the others.
        let quoted = text.split(|byte| b"\"\n\r".contains(byte));
        let words = text.split(|byte| b"\"\n\r\t,;| /#".contains(byte)).chain(quoted);
        let words: HashSet<&[u8]> = words.filter(|word| wanted.contains(word)).collect();
        let mut seen = HashSet::new();
        for (number, media) in self.media.iter().enumerate() {
            let folder = look.path(&media.folder);
            // As a path, `FOLDER/**` lies below `FOLDER`, so the check of folders would fail.
            if self.are_parts || folder.starts_with(root) || root.starts_with(&folder) {
                // Each folder may have a list of its own (GTSRB).
                let is_seen = |path: &&String| {
                    let name = file_name(path);
                    (self.are_parts || folder.join(path).starts_with(root))
                        && [name, stem(name)].iter().any(|one| words.contains(one.as_bytes()))
                };
                seen.extend(media.picked.iter().filter(is_seen).map(|path| (number, path.clone())));
            }
        }
        seen
    }

    /// Whether no name, with or without extension, is in two of the folders of images. False if images are in folders below them.
    fn have_distinct_names(&self, look: &Look<'_>) -> bool {
        let mut stems = HashSet::new();
        self.media.iter().all(|media| {
            let files = look.files(&media.folder);
            let images = files.images();
            !images.is_empty() && images.into_iter().all(|stem| stems.insert(stem.to_owned()))
        })
    }

    /// The folders of images that the `lists` together do not name.
    fn lacking(&self, lists: &[&List]) -> Vec<&str> {
        let is_seen = |key: &(usize, String)| lists.iter().any(|list| list.seen.contains(key));
        let lacks = |(number, media): &(usize, &Media)| {
            let seen = media.picked.iter().filter(|path| is_seen(&(*number, (*path).clone()))).count();
            seen * 4 < media.picked.len() * 3
        };
        self.media.iter().enumerate().filter(lacks).map(|(_, media)| media.folder.as_str()).collect()
    }
}

/// Whether a list with this `text` names most folders at its root. A list of one split names all classes, but only some patients or videos.
fn names_folders(look: &Look<'_>, text: &[u8], root: &Path) -> bool {
    let Some(below) = root.strip_prefix(look.path("")).ok().and_then(Path::to_str) else { return false };
    let folders = look.folders(below);
    let words: HashSet<&[u8]> = text.split(|byte| b"\n\r\t,;| /".contains(byte)).collect();
    let named = folders.iter().filter(|folder| words.contains(folder.as_bytes())).count();
    named * 10 >= folders.len() * 9
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Paths of images, or of sounds, in a folder and `levels` of folders in it: the same number of each folder.
fn picked(look: &Look<'_>, folder: &str, levels: usize, are_sounds: bool) -> Vec<String> {
    let is_sound =
        |name: &str| SOUNDS.iter().any(|known| name.strip_suffix(known).is_some_and(|stem| stem.ends_with('.')));
    let mut files = look.files(folder).0;
    files.retain(|name| if are_sounds { is_sound(name) } else { names::is_image(name.as_bytes()) });
    let step = files.len().div_ceil(PICKED).max(1);
    let mut all: Vec<String> = files.into_iter().step_by(step).collect();
    if levels > 0 && all.is_empty() {
        let inner = look.folders(folder);
        let step = inner.len().div_ceil(PICKED / 4).max(1);
        let below = |name: &String| {
            let inner = picked(look, &join(folder, name), levels - 1, are_sounds);
            inner.into_iter().map(|path| join(name, &path)).collect::<Vec<_>>()
        };
        all.extend(inner.iter().step_by(step).flat_map(below));
        let step = all.len().div_ceil(PICKED).max(1);
        all = all.into_iter().step_by(step).collect();
    }
    all
}

/// The lists in a folder. A file with the name of an image or sound is a text of it.
fn lists_of(files: &Files) -> Vec<String> {
    let mut media = files.images();
    SOUNDS.iter().for_each(|extension| media.extend(files.stems(extension)));
    let is_list =
        |name: &&String| list::is_called_text(Path::new(name)) && !is_other(name) && !media.contains(stem(name));
    files.0.iter().filter(is_list).cloned().collect()
}

/// The command that packs `lists`: one, or one for each split. `others` name the same files. `root` is given if the roots of `lists` differ.
fn found(look: &Look<'_>, lists: &[&List], others: &[&List], folders: &Folders, root: Option<&Path>) -> Found {
    let (first, are_sounds) = (lists[0], folders.are_sounds);
    let source = |list: &&List| match &list.split {
        Some((split, _)) if lists.len() > 1 => format!("--split {split}={}", shell::path(&list.path)),
        _ => shell::path(&list.path).to_string(),
    };
    let sources = lists.iter().map(source).collect::<Vec<_>>().join(" ");
    let are_beside = lists.iter().all(|list| list.root == list.folder);
    let root = match root.or_else(|| (!are_beside).then_some(&*first.root)) {
        Some(root) => format!(" --root {}", shell::path(root)),
        None => String::new(),
    };
    // Labels that are ids or texts are no classes.
    let are_own = lists.iter().all(|list| list.trial.has_own_labels);
    let are_folders = lists.iter().all(|list| list.has_class_folders);
    let labels = match (are_folders, are_own) {
        (true, _) => " --label-column folder",
        (false, true) => " --no-labels",
        (false, false) => "",
    };
    let name =
        |list: &&List| list.path.strip_prefix(look.path("")).unwrap_or(&list.path).to_string_lossy().into_owned();
    let names = |lists: &[&List]| lists.iter().map(name).collect::<Vec<_>>().join(", ");
    let one = if are_sounds { "sound" } else { "image" };
    let lacks = folders.lacking(lists).join(", ");
    let lacks = if lacks.is_empty() { String::new() } else { format!(", which does not name those of {lacks}") };
    let what = match lists {
        [_] => format!("{one}s, and a list of them in {}{lacks}", names(lists)),
        _ => format!("{one}s, and lists of their splits in {}", names(lists)),
    };
    let has_classes = are_folders || lists.iter().any(|list| list.trial.has_classes);
    let has_columns = lists.iter().any(|list| list.trial.has_columns);
    let result = match (are_sounds, has_classes, has_columns) {
        (false, true, false) => "packs each image with its class",
        (false, true, true) => "packs each image with its class, and the other columns as JSON",
        (false, false, _) => "packs each image with its columns as JSON",
        (true, true, false) => "packs each sound with its class",
        (true, true, true) => "packs each sound with its class, and the other columns as JSON",
        (true, false, _) => "packs each sound with its columns as JSON",
    };
    let more = format!("{} {} too; ", names(others), if others.len() == 1 { "lists them" } else { "list them" });
    let more = if others.is_empty() { String::new() } else { more };
    let other = Some(format!("{more}--no-labels packs the {one}s without a list"));
    Found {
        command: Some(format!("shardpack pack {sources} DST{root}{labels}")),
        other,
        ..Found::new(what, Vec::new(), result)
    }
}
