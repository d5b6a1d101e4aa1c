//! Reads a list of images: a CSV, JSONL, Parquet or text file, or a file of COCO, OpenMMLab or StyleGAN. Each row names a file and
//! may add label, split and other fields.
//!
//! Holds at all times: no list can make `pack` read a file outside the root. A sample's text has the list's numbers to
//! the digit.

mod by_name;
mod clues;
mod coco;
mod columns;
mod csv;
mod extensions;
mod file_columns;
mod files;
pub(crate) mod json;
mod jsonl;
mod label_value;
mod lines;
mod mapping;
pub(crate) mod members;
mod mmlab;
mod multi_label;
mod parquet;
pub(crate) mod records;
mod rows;
mod separator;
pub(super) mod stored;
mod targets;
mod words;

use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, ErrorKind, Result, component::Component, help, manifest, regular};
use shardpack_reader::{StoreSettings, Transfers};
use shardpack_storage::{Access, Address};

use super::{
    ObjectTree,
    api::{ReadTable, SampleReader, SharedSource, Source, SourceKind, SourceListing},
    folder_reader::FolderReader,
    npz, object_classes,
    options::{Options, Splits},
    retry::Retrying,
    stored::Stored,
};
use crate::{
    coco_files, foreign,
    listing::Listing,
    monitor::{Monitor, Phase},
    sys,
};
use by_name::FilesByName;
pub(crate) use by_name::anywhere;
pub use clues::Clues;
use label_value::FRACTIONS;
use rows::Rows;
pub use rows::is_same_line;
pub(crate) use rows::trial;
pub use stored::Columns;
use stored::{Kind, StoredList};

/// File extensions of lists.
const EXTENSIONS: [(&str, Kind); 10] = [
    ("csv", Kind::Csv),
    ("tsv", Kind::Csv),
    ("txt", Kind::Text),
    ("lst", Kind::Text),
    ("token", Kind::Text),
    ("jsonl", Kind::Jsonl),
    ("ndjson", Kind::Jsonl),
    ("odgt", Kind::Jsonl),
    ("json", Kind::Coco),
    ("parquet", Kind::Parquet),
];

/// Bytes at the start of a list in JSON that tell its kind.
const SNIFFED_BYTES: u64 = 1 << 20;

/// A list of images.
#[derive(Clone, Debug)]
pub struct List {
    path: PathBuf,
    kind: Kind,
    root: PathBuf,
    /// The object tree at the root, if the root is a URL.
    remote: Option<ObjectTree>,
    /// Whether rows name files in any folder below the root.
    by_name: bool,
    columns: Columns,
}

/// Whether a file of this name may be a list of text.
pub(crate) fn is_called_text(path: &Path) -> bool {
    kind_of(path).is_some_and(|kind| kind != Kind::Parquet)
}

fn kind_of(path: &Path) -> Option<Kind> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    EXTENSIONS.iter().find(|(known, _)| *known == extension).map(|(_, kind)| *kind)
}

/// The kind of a list in JSON that begins so.
fn kind_of_json(start: &[u8]) -> Kind {
    match start.trim_ascii_start() {
        [b'[', ..] => Kind::Array,
        start if mmlab::is(start) => Kind::MmLab,
        start if mapping::is(start) => Kind::Mapping,
        _ => Kind::Coco,
    }
}

/// Whether `path` is a list, by its extension. A Parquet file is a list if it holds no images and has a column of
/// paths, by its name or by `columns`.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn is_list(path: &Path, columns: &Columns) -> Result<bool> {
    let Some(kind) = kind_of(path) else { return Ok(false) };
    if path.file_name().is_some_and(|name| name == manifest::FILE) || !sys::is_file(path)? {
        return Ok(false);
    }
    if kind != Kind::Parquet {
        return Ok(true);
    }
    let open = || regular::open(path).map_err(|e| sys::io_error("cannot open", path, e));
    match foreign::parquet::has_images(open()?) {
        Ok(true) => Ok(false),
        Ok(false) if !columns.is_empty() => Ok(true),
        Ok(false) => {
            let names = foreign::parquet::Table::open(open()?).map(|table| table.names());
            Ok(names.is_ok_and(|names| {
                columns::Roles::assign(&names, columns, false, false).is_ok_and(|roles| roles.is_some())
            }))
        }
        Err(error) if error.kind() == ErrorKind::System => Err(error.in_file(path)),
        Err(_) => Ok(true),
    }
}

impl List {
    /// Opens the list at `path`; `settings` configure the store if the root is a URL.
    ///
    /// # Errors
    /// If the extension is unknown, the file cannot be read, or the root cannot be found.
    pub fn find(path: &Path, columns: &Columns, settings: &StoreSettings) -> Result<Self> {
        let mut kind = kind_of(path).ok_or_else(|| {
            let known = EXTENSIONS.map(|(extension, _)| format!(".{extension}")).join(", ");
            let error = Error::usage(format!("neither a folder nor a list: a list ends in {known}")).in_file(path);
            match crate::names::is_tar(path) {
                true => error
                    .help("shardpack convert SRC DST packs the tree of images in a tar, with its folders as classes"),
                false => error.help("shardpack convert reads shards"),
            }
        })?;
        let file = regular::open(path).map_err(|e| sys::io_error("cannot open", path, e))?;
        if kind == Kind::Coco {
            let mut first = Vec::new();
            let read = file.take(SNIFFED_BYTES).read_to_end(&mut first);
            read.map_err(|e| sys::io_error("cannot read", path, e))?;
            kind = kind_of_json(first.strip_prefix(json::BOM).unwrap_or(&first));
        }
        let label = columns.label.as_deref().filter(|label| *label != coco::CATEGORY_ID);
        let files = columns.files.iter().map(String::as_str).find(|value| *value != file_columns::NONE);
        let target = columns.targets.first().map(String::as_str);
        let said =
            [columns.path.as_deref(), label, columns.split.as_deref(), files, columns.multi_label.as_deref(), target];
        if kind == Kind::Coco && said.iter().any(Option::is_some) {
            let options = "--path-column, --label-column, --split-column, --file-column, --multi-label and --target";
            return Err(Error::usage(format!("{options}: COCO has no columns"))
                .in_file(path)
                .help("--label-column category_id takes the category of each image, if it has one"));
        }
        let folder = coco_files::folder_of(path);
        let root = match (&columns.root, kind) {
            (Some(root), _) => root.clone(),
            (None, Kind::Coco) => coco_files::root(path, folder, coco_files::FILE_NAME)?,
            (None, Kind::MmLab) => coco_files::root(path, folder, mmlab::IMG_PATH)?,
            (None, _) => folder.to_path_buf(),
        };
        let (path, columns) = (path.to_path_buf(), columns.clone());
        Self { path, kind, root, remote: None, by_name: false, columns }.with_root(settings)
    }

    /// Resolves the root: a URL, or a folder in which files are found by name.
    fn with_root(mut self, settings: &StoreSettings) -> Result<Self> {
        if let Some(folder) = by_name::folder(&self.root) {
            if Address::of(&self.root).url().is_some() {
                return Err(Error::usage("files are found by name in folders only, and not below a URL")
                    .in_file(&self.root)
                    .help("give the URL without /**; names in the list are names below it"));
            }
            (self.root, self.by_name) = (folder, true);
        }
        let remote = Address::of(&self.root).url().map(|url| ObjectTree::new(Path::new(url), settings)).transpose()?;
        let root = remote.as_ref().map_or(self.root, |remote| remote.root().to_owned());
        Ok(Self { root, remote, ..self })
    }

    /// The files below the root, about `most`, if rows name files in any folder.
    fn files_by_name(&self, options: &Options, most: usize, monitor: &dyn Monitor) -> Result<Option<FilesByName>> {
        let walk = || FilesByName::walk(&self.root, !options.no_follow, most, monitor);
        self.by_name.then(walk).transpose()
    }

    pub(crate) fn restored(stored: StoredList) -> Result<Self> {
        let StoredList { path, kind, root, columns } = stored;
        Self { path, kind, root, remote: None, by_name: false, columns }.with_root(&StoreSettings::default())
    }

    /// Lists the files: one [`SourceListing`] for each split, or one for all.
    fn discover_files(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        monitor.begin(Phase::Walking, 0, 0);
        let by_name = self.files_by_name(options, usize::MAX, monitor)?;
        let mut splits = options.splits != Splits::None;
        let mut rows = Rows::new(self, options, splits, by_name.as_ref())?;
        self.read(&mut rows, monitor)?;
        let mut note = None;
        if rows.has_other_splits() {
            // The column named `split` holds something else.
            splits = false;
            note = rows.splits_among_others();
            rows = Rows::new(self, options, splits, by_name.as_ref())?;
            self.read(&mut rows, monitor)?;
        }
        if let Some(what) = rows.labels_are_no_classes() {
            if let Some(name) = &self.columns.label {
                return Err(Error::usage(format!("--label-column {name}: labels are {what}, and no classes"))
                    .in_file(&self.path)
                    .help(help::NO_LABELS));
            }
            let column = rows.label_column.take().filter(|_| what == FRACTIONS);
            rows = self.without_labels(column.as_deref(), options, (splits, by_name.as_ref()), monitor)?;
            let place = match rows.keeps_text {
                _ if rows.targets.has_numeric_labels() => "they are packed as an array",
                true if what.starts_with("lists") => {
                    "they are packed in the component json (--multi-label COLUMN packs lists of classes as multi_hot)"
                }
                true => "they are packed in the component json (--target COLUMN packs numbers as an array)",
                false => "--meta none leaves them out",
            };
            rows.note(format!("labels are {what}, and no classes: {place}"));
        }
        if let Some(note) = note {
            rows.note(note);
        }
        rows.decide_files().map_err(|error| error.in_file(&self.path))?;
        rows.finish(options, monitor)
    }

    /// The rows without labels. If the column of labels is given and has numbers in all rows, it is a target.
    fn without_labels<'r>(
        &'r self,
        column: Option<&str>,
        options: &'r Options,
        (splits, by_name): (bool, Option<&'r FilesByName>),
        monitor: &dyn Monitor,
    ) -> Result<Rows<'r>> {
        let again = |column: Option<&str>| {
            let mut rows = Rows::new(self, options, splits, by_name)?;
            rows.no_labels = true;
            rows.wants_text |= column.is_some_and(|column| rows.targets.add_label(column));
            self.read(&mut rows, monitor).map(|()| rows)
        };
        let rows = again(column)?;
        match column.is_some() && !rows.targets.has_numeric_labels() {
            true => again(None),
            false => Ok(rows),
        }
    }

    fn read(&self, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
        let open = || regular::open(&self.path).map_err(|e| sys::io_error("cannot open", &self.path, e));
        let read = match self.kind {
            Kind::Csv => csv::read(open()?, (false, self.is_tsv()), rows, monitor),
            Kind::Text => csv::read(open()?, (true, false), rows, monitor),
            Kind::Jsonl => jsonl::read(open, rows, monitor),
            Kind::Array => jsonl::read_array(&self.whole()?, rows, monitor),
            Kind::Parquet => parquet::read(open()?, rows, monitor),
            Kind::Coco => coco::read(&self.whole()?, rows, monitor),
            Kind::MmLab => mmlab::read(&self.whole()?, rows, monitor),
            Kind::Mapping => mapping::read(&self.whole()?, rows, monitor),
        };
        read.map_err(|error| error.in_file(&self.path))
    }

    fn is_tsv(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tsv"))
    }

    /// Reads the whole file without a byte order mark.
    fn whole(&self) -> Result<Vec<u8>> {
        let mut bytes = regular::read(&self.path).map_err(|e| sys::io_error("cannot read", &self.path, e))?;
        if bytes.starts_with(json::BOM) {
            bytes.drain(..json::BOM.len());
        }
        Ok(bytes)
    }
}

impl Source for List {
    fn kind(&self) -> SourceKind {
        SourceKind::List
    }

    fn roots(&self) -> Vec<&Path> {
        vec![&self.root]
    }

    fn transfers(&self) -> Option<Transfers> {
        self.remote.as_ref().and_then(|remote| remote.transfers())
    }

    fn access(&self) -> Access {
        self.remote.as_ref().map_or(Access::FILES, Source::access)
    }

    fn has_times(&self) -> bool {
        self.remote.is_none()
    }

    fn stored(&self) -> Stored {
        let Self { path, kind, root, remote: _, by_name, columns } = self.clone();
        let root = if by_name { anywhere(&root) } else { root };
        Stored::List(StoredList { path, kind, root, columns })
    }

    fn resolved(&self) -> Result<SharedSource> {
        let root = if self.remote.is_some() { self.root.clone() } else { sys::resolved(&self.root)? };
        Ok(Arc::new(Self { path: sys::resolved(&self.path)?, root, ..self.clone() }))
    }

    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        let mut found = self.discover_files(&options.of_files()?, monitor)?;
        match &self.remote {
            Some(remote) => remote.take_object_classes(&mut found, options)?,
            None => object_classes::take_in(&self.root, &mut found, options)?,
        }
        let place = |_: Option<&str>| match &self.remote {
            Some(remote) => npz::SplitLocation::Objects(remote, None),
            None => npz::SplitLocation::Folder(self.root.clone()),
        };
        npz::taken_apart(found, &place, monitor)
    }

    fn open<'a>(
        &'a self,
        _: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        match &self.remote {
            Some(remote) => remote.open(None, listing, work, monitor),
            None => Ok(Box::new(Retrying(FolderReader::open(&self.root, listing)?))),
        }
    }

    fn has_annotations(&self) -> bool {
        self.kind == Kind::Coco
    }

    fn list_file(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn annotations(&self) -> Result<Option<Vec<u8>>> {
        self.has_annotations().then(|| self.whole()).transpose()
    }

    fn with_tables(&self, component: &str, read: &ReadTable<'_>) -> Result<Option<SharedSource>> {
        let file = (self.kind == Kind::Parquet).then(|| regular::open(&self.path).ok()).flatten();
        let Some(Ok(table)) = file.map(foreign::parquet::Table::open) else { return Ok(None) };
        let is = |name: &String| {
            Component::field(name).is_ok_and(|one| Component::field(component).is_ok_and(|other| one == other))
        };
        table.names().iter().chain(table.left_out()).any(is).then(|| read(&self.path)).transpose()
    }
}

/// Reads `bytes` as a list of the kind that `kind` selects, for fuzzing. The listed files need not exist.
#[doc(hidden)]
pub fn fuzz(kind: u8, bytes: &[u8]) -> usize {
    let list = List {
        path: PathBuf::from("list"),
        kind: Kind::Csv,
        // A folder that is missing has no files that would make a run depend on this machine.
        root: std::env::temp_dir().join("shardpack-fuzz-no-folder"),
        remote: None,
        by_name: false,
        columns: Columns::default(),
    };
    let monitor = &crate::monitor::Silent;
    let options = Options { threads: 1, ..Options::default() };
    let Ok(mut rows) = Rows::new(&list, &options, true, None) else { return 0 };
    let _ = match kind % 6 {
        0 | 1 => csv::read(bytes, (kind % 6 == 1, false), &mut rows, monitor),
        2 => jsonl::read(|| Ok(bytes), &mut rows, monitor),
        3 => jsonl::read_array(bytes, &mut rows, monitor),
        4 => mmlab::read(bytes, &mut rows, monitor),
        _ => coco::read(bytes, &mut rows, monitor),
    };
    rows.finish(&options, monitor).map_or(0, |found| found.iter().map(|found| found.unpacked.len()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pieces of lists.
    const TOKENS: [&[u8]; 25] = [
        b"path",
        b"label",
        b"split",
        b"a.jpg",
        b"../x",
        b"/",
        b",",
        b";",
        b"\t",
        b"\"",
        b"\n",
        b"\r",
        b" ",
        b"7",
        b"-1e-7",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b"\"images\":[{\"id\":1,\"file_name\":\"a\"}]",
        b"\"annotations\":[{\"image_id\":1}]",
        b"{\"data_list\":[{\"img_path\":\"a\",\"gt_label\":1}]}",
        b"\xff",
        b"\0",
    ];

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(kind in 0u8..6, tokens in prop::collection::vec(0usize..25, 0..40)) {
            let bytes: Vec<u8> = tokens.into_iter().flat_map(|token| TOKENS[token]).copied().collect();
            fuzz(kind, &bytes);
        }
    }
}
