//! Collects the rows of a list in any format: paths, labels, splits, texts and files.
//!
//! Holds at all times: a path leads to a file below the root. A row that cannot be packed is reported with a reason.

mod begin;
mod found;
mod root;
pub(crate) mod trial;

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use shardpack_format::{Error, ErrorKind, Result, splits, text};
use shardpack_storage::scheme;

use super::{
    Columns, List,
    by_name::{FilesByName, Found},
    clues::Clues,
    extensions::Extensions,
    file_columns::{FileColumn, Look, NamedFiles},
    json,
    label_value::{LabelValue, Seen, whole},
    multi_label::MultiLabel,
    stored::Kind,
    targets::Targets,
};
use crate::{
    ObjectTree,
    classes::{self, Words},
    names,
    options::{Options, SPLITS, Splits},
    sys,
};
pub use found::is_same_line;

/// Longest path in bytes.
const PATH_BYTES: usize = 16 << 10;
const MAX_SPLITS: usize = 100;
/// Members of a text that `--meta json` writes.
const META: [&str; 5] = ["class", "class_hex", "label", "path", "path_hex"];

/// A parsed row.
pub(super) struct Row<'a> {
    /// Line number, from 1.
    pub line: u64,
    pub path: &'a [u8],
    pub label: LabelValue,
    /// Class name beside a numeric label.
    pub class: Option<&'a [u8]>,
    /// Split name, if the list has splits.
    pub split: Option<&'a [u8]>,
    /// Paths in the columns of files, in their order; an empty one names no file.
    pub files: &'a [&'a [u8]],
    /// The field with several classes.
    pub several: &'a [u8],
    /// All other fields, as a JSON object.
    pub text: &'a [u8],
}

/// A stored row.
struct StoredRow {
    line: u64,
    path: Range<u64>,
    text: (u64, u32),
    number: Option<i64>,
    word: Option<classes::Word>,
    class: Option<classes::Word>,
    /// Index in `split_names`.
    split: u32,
}

/// Collects the rows of a list.
pub(super) struct Rows<'a> {
    /// User settings for columns.
    pub columns: &'a Columns,
    /// Ignore labels.
    pub no_labels: bool,
    /// Use splits.
    pub splits: bool,
    /// Collect texts: to keep them, or for the targets in them.
    pub wants_text: bool,
    /// Keep the texts as the component json.
    pub(super) keeps_text: bool,
    pub(super) root: &'a Path,
    /// The object tree at the root, if the root is a URL.
    remote: Option<&'a ObjectTree>,
    /// Whether an error names the folder of the files. The search for it reads many folders.
    pub(super) suggests_root: bool,
    /// The files that rows name in any folder below the root.
    pub(super) by_name: Option<&'a FilesByName>,
    /// The root as an absolute path: as given, and with symbolic links resolved.
    roots: [PathBuf; 2],
    pub(super) options: &'a Options,
    pub(super) has_labels: bool,
    /// Whether options choose columns of the list.
    pub(super) has_columns: bool,
    /// Whether the label of a row is the folder of its path.
    pub(super) is_label_folder: bool,
    /// The column of labels, if it has a name.
    pub(super) label_column: Option<String>,
    labels: Seen,
    /// Results of lookups below a URL, each of which is a request.
    looked: Mutex<HashMap<Vec<u8>, bool>>,
    pub(super) extensions: Extensions,
    /// Whether absolute paths are relative to the root; `None` until the first such path decides.
    are_absolute_below: Option<bool>,
    /// Facts about files that decide the form of the list: of an earlier look, and new ones.
    clues: Mutex<Clues>,
    /// Whether paths have a number behind them, as in `a.jpg#0`; `None` until the first such path decides.
    are_numbered: Option<bool>,
    /// Columns of files.
    pub(super) files: Vec<FileColumn>,
    pub(super) look: Look,
    named_files: NamedFiles,
    pub(super) multi_label: Option<MultiLabel>,
    pub(super) targets: Targets,
    meta: bool,
    paths: Vec<u8>,
    texts: Vec<u8>,
    has_text: bool,
    words: Words,
    /// Class names in the order of labels, if the list has them.
    pub known: Vec<Vec<u8>>,
    rows: Vec<StoredRow>,
    /// Reasons for invalid labels, by row number.
    unfit: HashMap<usize, String>,
    split_names: Vec<String>,
    /// The first line with an unknown split, and the split's name.
    other_splits: Option<(u64, String)>,
    has_known_split: bool,
    ignored: BTreeMap<String, u64>,
    notes: Vec<String>,
}

impl<'a> Rows<'a> {
    /// An empty collection for `list`. `splits` enables its splits; `by_name` are the files that rows name in any folder.
    pub fn new(list: &'a List, options: &'a Options, splits: bool, by_name: Option<&'a FilesByName>) -> Result<Self> {
        let root = &list.root;
        let absolute = std::path::absolute(root).map_err(|e| sys::io_error("cannot find", root, e))?;
        let resolved = std::fs::canonicalize(root).unwrap_or_else(|_| absolute.clone());
        let clues = options.list_clues.values().next().cloned().unwrap_or_default();
        let targets = Targets::of(&list.columns, options)?;
        Ok(Self {
            columns: &list.columns,
            no_labels: options.no_labels,
            splits,
            wants_text: !options.no_text || !targets.is_empty(),
            keeps_text: !options.no_text,
            root,
            remote: list.remote.as_ref(),
            suggests_root: true,
            by_name,
            has_columns: list.kind != Kind::Coco,
            roots: [absolute, resolved],
            options,
            has_labels: false,
            is_label_folder: false,
            label_column: None,
            labels: Seen::default(),
            looked: Mutex::default(),
            extensions: Extensions::of_first(clues.extension.as_deref()),
            are_absolute_below: clues.absolute,
            are_numbered: clues.numbered,
            clues: Mutex::new(clues),
            files: FileColumn::all(&list.columns, options)?,
            look: Look::default(),
            named_files: NamedFiles::default(),
            multi_label: MultiLabel::of(&list.columns, options)?,
            targets,
            meta: options.meta && !options.no_text,
            paths: Vec::new(),
            texts: Vec::new(),
            has_text: false,
            words: Words::default(),
            known: Vec::new(),
            rows: Vec::new(),
            unfit: HashMap::new(),
            split_names: Vec::new(),
            other_splits: None,
            has_known_split: false,
            ignored: BTreeMap::new(),
            notes: Vec::new(),
        })
    }

    /// Counts items of the list that are not images.
    pub fn ignore(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.ignored.entry(reason.to_owned()).or_default() += count;
        }
    }

    /// Adds a note for the user.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Number of rows.
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// The type of the labels, if they are not classes.
    pub fn labels_are_no_classes(&self) -> Option<&'static str> {
        self.labels.are_no_classes()
    }

    /// Whether a split column that was detected by its name has other values.
    pub fn has_other_splits(&self) -> bool {
        self.other_splits.is_some()
    }

    /// A note, if that column also has known splits.
    pub fn splits_among_others(&self) -> Option<String> {
        let (line, other) = self.other_splits.as_ref().filter(|_| self.has_known_split)?;
        let says = if other.is_empty() { "none".to_owned() } else { format!("{other:?}") };
        Some(format!("some lines have a split, but line {line} has {says}: all lines are one dataset"))
    }

    /// The name of a split, and whether it is a known name.
    fn split_name(&self, split: &[u8]) -> (String, bool) {
        let name = String::from_utf8_lossy(split.trim_ascii()).into_owned();
        let is_known = match &self.options.splits {
            Splits::Auto => SPLITS.contains(&&*name),
            Splits::Compared(names) => SPLITS.contains(&&*name) || names.contains(&name),
            Splits::None | Splits::Names(_) => true,
        };
        (name, is_known)
    }

    /// Whether a look at a file is no request.
    pub fn is_cheap(&self) -> bool {
        self.remote.is_none()
    }

    /// Whether `path` is an existing file. Each path is looked up once.
    ///
    /// # Errors
    /// If the lookup fails.
    pub fn is_file(&self, path: &[u8]) -> Result<bool> {
        if self.clues().has_file(path) {
            return Ok(true);
        }
        let found = self.is_file_now(path)?;
        if found && self.rows.is_empty() {
            self.clues().add_file(path);
        }
        Ok(found)
    }

    pub(super) fn clues(&self) -> MutexGuard<'_, Clues> {
        self.clues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All clues, for the next look.
    fn all_clues(&self) -> Clues {
        let mut clues = self.clues().clone();
        clues.extension = self.extensions.first_name();
        (clues.absolute, clues.numbered) = (self.are_absolute_below, self.are_numbered);
        clues
    }

    fn is_file_now(&self, path: &[u8]) -> Result<bool> {
        if self.is_cheap() {
            return self.look(path);
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = looked.get(path) {
            return Ok(*known);
        }
        let found = self.look(path)?;
        looked.insert(path.to_vec(), found);
        Ok(found)
    }

    /// Whether `path` is absolute and outside the root, and a file below the root without its slash.
    ///
    /// # Errors
    /// If the lookup fails.
    pub fn is_file_after_slash(&self, path: &[u8]) -> Result<bool> {
        match without_slash(path).filter(|_| self.remote.is_some() || self.inside(path).is_none()) {
            Some(relative) => self.is_file(relative),
            None => Ok(false),
        }
    }

    /// Whether `path` is no file, and is one without the number at its end, as in `a.jpg#0`.
    ///
    /// # Errors
    /// If the lookup fails.
    pub fn is_file_before_number(&self, path: &[u8]) -> Result<bool> {
        match without_number(path) {
            Some(bare) => Ok(!self.is_file(path)? && self.is_file(bare)?),
            None => Ok(false),
        }
    }

    /// A path without the number at its end, if the first path with one is that of a file without it.
    fn bare<'p>(&mut self, path: &'p [u8]) -> Result<&'p [u8]> {
        let Some(bare) = without_number(path) else { return Ok(path) };
        let are_numbered = match self.are_numbered {
            Some(are_numbered) => are_numbered,
            None => self.is_file_before_number(path)?,
        };
        if are_numbered && self.are_numbered.is_none() {
            self.notes.push(format!("paths end in a number, which is left out: {}", text::shown(path)));
        }
        self.are_numbered = Some(are_numbered);
        Ok(if are_numbered { bare } else { path })
    }

    fn look(&self, path: &[u8]) -> Result<bool> {
        self.is_file_inside(self.inside(path))
    }

    /// Whether this path, relative to the root, is an existing file.
    fn is_file_inside(&self, path: Option<Vec<u8>>) -> Result<bool> {
        match path.filter(|path| !path.is_empty()) {
            None => Ok(false),
            Some(path) => match self.remote {
                None => sys::is_file(&self.root.join(names::as_path(&path))),
                Some(remote) => match remote.look(&String::from_utf8_lossy(&path)) {
                    // The name is invalid, so no object can have it.
                    Err(error) if error.kind() == ErrorKind::Data => Ok(false),
                    looked => Ok(looked?.is_some()),
                },
            },
        }
    }

    /// The path relative to the root, also if `path` is absolute and names a file below the root.
    pub fn below(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.inside(path).or_else(|| self.inside(without_slash(path)?))
    }

    /// The path of a row relative to the root. If the first absolute path outside the root is that of a file below the
    /// root (`/img/0.jpg` for `ROOT/img/0.jpg`), all such paths are taken so.
    fn path_below(&mut self, path: &[u8]) -> Result<Option<Vec<u8>>> {
        let inside = self.inside(path);
        let relative = match without_slash(path) {
            Some(relative) if self.remote.is_some() || inside.is_none() => self.inside(relative),
            _ => return Ok(inside),
        };
        let are_below = match self.are_absolute_below {
            Some(are_below) => are_below,
            None if self.remote.is_some() && self.is_file_inside(inside.clone())? => false,
            None => self.is_file_inside(relative.clone())? || (self.is_cheap() && self.is_without_extension(path)?),
        };
        if are_below && self.are_absolute_below.is_none() {
            self.notes.push(format!("paths begin with a slash: they are relative to {}", text::path(&self.root)));
        }
        self.are_absolute_below = Some(are_below);
        Ok(if are_below { relative } else { inside })
    }

    /// The path relative to the root, in the folder where it is found by name; `None` if `path` lies outside the root.
    fn inside(&self, path: &[u8]) -> Option<Vec<u8>> {
        let relative = self.normalized(path)?;
        let found = self.found_by_name(path, &relative).and_then(|found| found.first());
        Some(found.map_or(relative, <[u8]>::to_vec))
    }

    /// The files that `path`, which is `relative` to the root, names in any folder. An absolute path has its folder. A path without an extension
    /// is that of an image or sound, if there is one.
    fn found_by_name(&self, path: &[u8], relative: &[u8]) -> Option<Found<'a>> {
        let files = self.by_name.filter(|_| !path.starts_with(b"/"))?;
        let is_id = !names::cut(relative).1.contains(&b'.') && files.with_extension(relative) != Found::Nothing;
        (!is_id).then(|| files.find(relative))
    }

    /// The path relative to the root; `None` if `path` lies outside the root.
    fn normalized(&self, path: &[u8]) -> Option<Vec<u8>> {
        use std::os::unix::ffi::OsStrExt;
        if let Some(remote) = self.remote {
            return remote.name_of(std::str::from_utf8(path).ok()?).map(String::into_bytes);
        }
        let mut relative = names::as_path(path);
        if relative.is_absolute() {
            relative = self.roots.iter().find_map(|root| relative.strip_prefix(root).ok())?;
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in relative.as_os_str().as_bytes().split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        Some(parts.join(&b'/'))
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the row has no path, or a path outside the root. The error names the line.
    pub fn add(&mut self, row: &Row<'_>) -> Result<()> {
        if self.other_splits.is_some() {
            self.has_known_split |= row.split.is_some_and(|split| self.split_name(split).1);
            return Ok(());
        }
        let in_line = |what: String| Error::usage(format!("line {}: {what}", row.line));
        if row.path.is_empty() {
            return Err(in_line("a path of 0 bytes".to_owned()));
        }
        let bare = self.bare(row.path)?;
        let mut path = self.relative(bare, row)?;
        self.append_extension(&mut path, row.line)?;
        let Some(split) = self.split(row)? else { return Ok(()) };
        let folder = self.is_label_folder.then(|| LabelValue::of_folder(&path));
        let label = folder.as_ref().unwrap_or(&row.label);
        self.labels.add(label);
        if let (LabelValue::Text(label), None) = (label, self.labels.is_path) {
            let is_path = names::is_image(label) && (self.is_file(label)? || self.is_file_after_slash(label)?);
            self.labels.is_path = Some(is_path);
        }
        let (mut number, mut word) = (None, None);
        match label {
            LabelValue::Missing => {}
            LabelValue::Unlabelled(why) => drop(self.unfit.insert(self.rows.len(), format!("no label: {why}"))),
            LabelValue::Number(label) => number = Some(*label),
            LabelValue::Text(text) => {
                number = std::str::from_utf8(text).ok().and_then(whole);
                word = Some(self.words.intern(text));
            }
            LabelValue::Name(name) => word = Some(self.words.intern(name)),
            LabelValue::Fraction(spelled) => {
                self.unfit.insert(self.rows.len(), format!("label: {spelled} is no whole number"));
            }
            LabelValue::Unfit(why) => {
                self.unfit.insert(self.rows.len(), format!("label: {why}"));
            }
        }
        for path in row.files {
            let path = if path.is_empty() { Vec::new() } else { self.relative(path, row)? };
            self.named_files.push(&path);
        }
        if let Some(several) = &mut self.multi_label {
            several.add_row(row.several, row.line)?;
        }
        let class = row.class.map(<[u8]>::trim_ascii).filter(|class| !class.is_empty());
        let class = class.map(|class| self.words.intern(class));
        let start = self.paths.len() as u64;
        self.paths.extend_from_slice(&path);
        let kept = self.targets.take(row.text, row.line)?;
        let text_bytes = u32::try_from(kept.len()).map_err(|_| in_line("more than 4 GiB of text".to_owned()))?;
        let text = (self.texts.len() as u64, text_bytes);
        if self.keeps_text {
            self.has_text |= kept.len() > "{}".len();
            self.check_members(&kept, row.line)?;
            self.texts.extend_from_slice(&kept);
        }
        let path = start..self.paths.len() as u64;
        self.rows.push(StoredRow { line: row.line, path, text, number, word, class, split });
        Ok(())
    }

    /// The path in the source of a file that `row` names.
    ///
    /// # Errors
    /// If the path leads out of the root.
    fn relative(&mut self, path: &[u8], row: &Row<'_>) -> Result<Vec<u8>> {
        let in_line = |what: String| Error::usage(format!("line {}: {what}", row.line));
        if path.len() > PATH_BYTES {
            return Err(in_line(format!("a path of {} bytes", path.len())));
        }
        let shown = text::shown(path);
        if let (Some(_), None) = (scheme(&shown.to_string()), self.remote) {
            return Err(in_line(format!("path {shown:?} is a URL, and the root is a folder"))
                .help("set the common start of the paths with --root URL, as in --root s3://bucket/images/"));
        }
        let below = self.path_below(path)?.ok_or_else(|| {
            in_line(format!("path {shown:?} leads out of {}", text::path(&self.root)))
                .help("set the folder that holds all files with --root FOLDER; --root / accepts any path")
        })?;
        let bare = if self.normalized(path).is_some() { path } else { without_slash(path).unwrap_or(path) };
        if let Some(plain) = self.normalized(bare)
            && let Some(Found::Several(one, other)) = self.found_by_name(bare, &plain)
        {
            return Err(two_files(row.line, path, one, other));
        }
        match below.is_empty() {
            true => Err(in_line(format!("path {shown:?} is the root itself"))),
            false => Ok(below),
        }
    }

    /// Fails if a row's text has a member that `--meta json` writes for class, label or path.
    fn check_members(&self, text: &[u8], line: u64) -> Result<()> {
        if !self.meta {
            return Ok(());
        }
        let members = str::from_utf8(text).ok().and_then(json::members).unwrap_or_default();
        match members.iter().find(|(name, _)| META.contains(&name.as_str())) {
            Some((name, _)) => Err(Error::usage(format!(
                "line {line}: column {name:?} has the name of a member that --meta json writes"
            ))
            .help("leave out --meta json: the component json has the other columns without it")),
            None => Ok(()),
        }
    }

    /// Split number of the row; `None` if the split is skipped.
    fn split(&mut self, row: &Row<'_>) -> Result<Option<u32>> {
        let Some(split) = row.split.filter(|_| self.splits) else { return Ok(Some(0)) };
        let (name, is_known) = self.split_name(split);
        self.has_known_split |= is_known;
        match &self.options.splits {
            Splits::Names(names) if !names.contains(&name) => {
                *self.ignored.entry(format!("split {name}")).or_default() += 1;
                return Ok(None);
            }
            _ if self.columns.split.is_none() && !is_known => {
                self.other_splits = Some((row.line, name));
                return Ok(None);
            }
            _ => {}
        }
        splits::check_name(&name).map_err(|error| Error::usage(format!("line {}: {}", row.line, error.what())))?;
        let known = self.split_names.iter().position(|known| *known == name);
        if known.is_none() && self.split_names.len() == MAX_SPLITS {
            return Err(Error::usage(format!("line {}: more than {MAX_SPLITS} splits", row.line))
                .help("choose the split column with --split-column NAME; --splits none packs without splits"));
        }
        Ok(Some(known.unwrap_or_else(|| {
            self.split_names.push(name);
            self.split_names.len() - 1
        }) as u32))
    }

    fn path(&self, row: &StoredRow) -> &[u8] {
        &self.paths[row.path.start as usize..row.path.end as usize]
    }

    /// The paths in the columns of files of row `number`.
    fn files_of(&self, number: usize) -> Vec<&[u8]> {
        self.named_files.of(number, self.files.len())
    }

    fn text(&self, row: &StoredRow) -> &[u8] {
        let start = row.text.0 as usize;
        self.texts.get(start..start + row.text.1 as usize).unwrap_or_default()
    }
}

/// The error for a path on line `line` that two files have.
pub(super) fn two_files(line: u64, path: &[u8], one: &[u8], other: &[u8]) -> Error {
    let [shown, one, other] = [path, one, other].map(|path| text::shown(path).to_string());
    Error::usage(format!("line {line}: path {shown:?} has two files: {one} and {other}"))
        .help("write folder and extension of each path in the list, or make --root a folder with one of the two")
}

/// An absolute path without its leading slashes.
fn without_slash(path: &[u8]) -> Option<&[u8]> {
    let at = path.iter().position(|byte| *byte != b'/')?;
    (at > 0).then(|| &path[at..])
}

/// A path before `#` and a number.
fn without_number(path: &[u8]) -> Option<&[u8]> {
    let at = path.iter().rposition(|byte| *byte == b'#')?;
    let is_number = at + 1 < path.len() && path[at + 1..].iter().all(u8::is_ascii_digit);
    (at > 0 && is_number).then(|| &path[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_reader::StoreSettings;

    #[test]
    fn no_path_leads_out_of_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.csv");
        std::fs::write(&path, "").unwrap();
        let list = List::find(&path, &Columns::default(), &StoreSettings::default()).unwrap();
        let options = Options::default();
        let rows = Rows::new(&list, &options, true, None).unwrap();
        let absolute = folder.path().join("a/b.jpg").into_os_string().into_encoded_bytes();
        for (path, expected) in [
            (&b"a/b.jpg"[..], Some("a/b.jpg")),
            (b"./a//x/../b.jpg", Some("a/b.jpg")),
            (&absolute, Some("a/b.jpg")),
            (b"../b.jpg", None),
            (b"a/../../b.jpg", None),
            (b"/etc/passwd", None),
            (b".", Some("")),
        ] {
            let inside = rows.inside(path).map(|path| String::from_utf8(path).unwrap());
            assert_eq!(inside.as_deref(), expected, "{}", String::from_utf8_lossy(path));
        }
    }
}
