//! Options of the source: columns of lists, files beside images, fields of records.

use std::path::{Path, PathBuf};

use clap::{
    Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser},
};
use shardpack_format::{
    component::Component,
    formats::foreign::{Entries, FieldSelection},
};
use shardpack_packer::{Error, pack::PlanOptions};
use shardpack_reader::StoreSettings;
use shardpack_source::{
    self as source, LabelPattern, SharedSource, SourceKind, SplitSource, SplitSources, extra_roots,
    foreign::{Kind, lmdb},
    list,
    options::OnMissing,
    shared,
};

/// Which columns of a list are what, and where its files are.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// For lists: folder or URL that paths are relative to and that contains all files; FOLDER/** finds files by
    /// name in any folder below [default: the folder of the list]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// For lists: column with the path [default: detected by name]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "NAME")]
    path_column: Option<String>,
    /// For lists: column with the label [default: detected by name]; folder, without a column of this
    /// name, is the folder of each path
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "NAME")]
    label_column: Option<String>,
    /// For lists: column with the split [default: `split`, if its values are train, val, test, …]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "NAME")]
    split_column: Option<String>,
    /// For lists: columns whose values are paths of files, such as masks: the files become components. COLUMN, or NAME=COLUMN for a
    /// component of another name, separated by commas. none packs paths as text [default: refused if a column names files]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "COLUMN|NAME=COLUMN|none", value_delimiter = ',')]
    file_column: Vec<String>,
    /// For lists: column with several classes for each image, as lists or as text with a separator: 'tags:|', tags:comma, tags:space;
    /// or FIRST..LAST, columns with 0 or 1 for a class each. They become the component multi_hot: uint8 with a 1 for each class, whose
    /// names are in the manifest
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "COLUMN[:SEPARATOR]|FIRST..LAST")]
    multi_label: Option<String>,
    /// For lists: columns with numbers, or lists of numbers, that are no classes: each becomes an array NAME.npy. COLUMN, COLUMN:DTYPE
    /// for a dtype of numpy, or NAME=COLUMN:DTYPE, separated by commas [default dtype: int64 for whole numbers, else float64]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "[NAME=]COLUMN[:DTYPE]", value_delimiter = ',')]
    target: Vec<String>,
}

impl ListArgs {
    /// The base folder of relative paths, or its URL.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The columns for the packer.
    pub fn columns(&self) -> list::Columns {
        let Self { root, path_column, label_column, split_column, file_column, multi_label, target } = self.clone();
        let (path, label, split) = (path_column, label_column, split_column);
        list::Columns { root, path, label, split, files: file_column, multi_label, targets: target }
    }
}

/// Folders outside the source.
#[derive(Args, Clone, Debug, Default)]
pub struct ExtraRootArgs {
    /// A folder outside SRC with files for --with, and its name in patterns: with masks=/data/masks, --with
    /// 'mask={masks}/{parent}/*.png'. Repeat for each folder
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "NAME=FOLDER")]
    extra_root: Vec<PathBuf>,
}

impl ExtraRootArgs {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.extra_root.is_empty()
    }

    /// `source` with the files in these folders.
    ///
    /// # Errors
    /// If a value is not `NAME=FOLDER`, or a folder is missing or in the source.
    pub fn around(&self, source: SharedSource) -> Result<SharedSource, Error> {
        extra_roots::around(source, extra_roots::parse(&self.extra_root)?)
    }
}

/// What images are packed, and with what.
#[derive(Args, Clone, Debug)]
pub struct SourceArgs {
    /// A split and its source, instead of SRC: a tree of class folders, or a list. Repeat for each split; all share one list of
    /// classes
    #[arg(help_heading = crate::help::SOURCE, long = "split", value_name = "NAME=SRC")]
    parts: Vec<PathBuf>,
    #[command(flatten)]
    pub list: ListArgs,
    #[command(flatten)]
    extra: ExtraRootArgs,
    /// Samples have no labels: ignore class folders and label columns
    #[arg(help_heading = crate::help::SOURCE, long)]
    no_labels: bool,
    /// For trees: labels are in file names, and folders are no classes. PATTERN is for the whole name without its extension:
    /// {label} is the label, n in braces is one or more digits, * any text, all else itself. {label} is as short as possible:
    /// from american_pit_bull_12.jpg, '{label}_*' takes american, and with n in braces for * american_pit_bull. Images whose
    /// names do not match are bad, which --on-bad handles
    // clap makes a line break of an n in braces.
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "PATTERN", conflicts_with = "no_labels")]
    label_pattern: Option<String>,
    /// Files that belong to the sample of an image, separated by commas. EXT: beside the image, same name, this extension.
    /// NAME=PATTERN: beside it, as in mask=*_mask.png; or at a path from its folder, as in mask=../masks/*.png, with {stem} or *,
    /// {name}, {dir}, {parent} and {grandparent}. boxes=KIND:PATTERN: boxes and their class numbers from label files; KIND is yolo, yolo-seg,
    /// voc, labelme, coco, csv, kitti, wider, cvat, via or scalabel. boxes=coco: from the list of COCO that is packed
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "EXT|NAME=PATTERN", value_delimiter = ',')]
    with: Vec<String>,
    /// Images without a file of --with or --file-column: bad, left out, or packed without it [default: error for a path, empty beside images]
    #[arg(help_heading = crate::help::SOURCE, long, value_enum)]
    on_missing: Option<OnMissingArg>,
    /// For trees: files that are samples, if the samples are not images. EXT, or a pattern of names as in '*.flac', separated
    /// by commas [default: images, or else the only other kind of file]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "EXT|PATTERN", value_delimiter = ',')]
    files: Vec<String>,
    /// Do not follow symbolic links in SRC; they are bad images, which --on-bad handles
    #[arg(long)]
    no_follow: bool,
    /// For trees: files that differ only in the extension are one sample; --files selects its payload
    #[arg(help_heading = crate::help::SOURCE, long, value_enum, value_name = "stem")]
    group: Option<Group>,
}

/// `--on-missing`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnMissingArg {
    /// The image is bad, which --on-bad handles
    Error,
    /// The image is left out
    Skip,
    /// The sample lacks the component
    Empty,
}

impl From<OnMissingArg> for OnMissing {
    fn from(arg: OnMissingArg) -> Self {
        match arg {
            OnMissingArg::Error => Self::Error,
            OnMissingArg::Skip => Self::Skip,
            OnMissingArg::Empty => Self::Empty,
        }
    }
}

/// `--group`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Group {
    /// Group by the name without its last extension
    Stem,
}

/// Help for an SRC in addition to `--split NAME=SRC`.
pub const SPLITS_ALONE: &str = "leave SRC out, or make it a split: --split NAME=SRC";

impl SourceArgs {
    /// SRC, if given, and DST, from the positional arguments.
    ///
    /// # Errors
    /// If one is missing, or both SRC and `--split` are given.
    pub fn paths<'p>(&self, first: &'p Path, second: Option<&'p Path>) -> Result<(Option<&'p Path>, &'p Path), Error> {
        match (self.parts.is_empty(), second) {
            (true, Some(dst)) => Ok((Some(first), dst)),
            (true, None) => Err(Error::usage("DST is missing")),
            (false, None) => Ok((None, first)),
            (false, Some(_)) => {
                Err(Error::usage("--split already names the sources: give only DST").in_file(first).help(SPLITS_ALONE))
            }
        }
    }

    /// As [`SourceArgs::paths`], for `plan`: DST is optional if SRC is given.
    ///
    /// # Errors
    /// As [`SourceArgs::paths`].
    pub fn planned_paths<'p>(
        &self,
        first: &'p Path,
        second: Option<&'p Path>,
    ) -> Result<(Option<&'p Path>, Option<&'p Path>), Error> {
        match (self.parts.is_empty(), second) {
            (true, None) => Ok((Some(first), None)),
            _ => self.paths(first, second).map(|(src, dst)| (src, Some(dst))),
        }
    }

    /// Paths of the source: several if there are several splits.
    pub fn places<'p>(&'p self, src: Option<&'p Path>) -> Vec<&'p Path> {
        let of_part = |part: &'p PathBuf| {
            let text = part.to_str()?;
            text.split_once('=').map(|(_, source)| Path::new(source))
        };
        src.into_iter().chain(self.parts.iter().filter_map(of_part)).chain(self.list.root()).collect()
    }

    /// The source to pack: a tree, an archive or a list, or the sources of the splits. `settings` are for the store of a tree at a URL.
    ///
    /// # Errors
    /// If a file is not a list, or options for columns are given for a tree.
    pub fn resolve(&self, src: Option<&Path>, settings: &StoreSettings) -> Result<SharedSource, Error> {
        let columns = self.list.columns();
        let of = |src: &Path| source::resolve_to_pack(src, &columns, settings);
        let source = match src {
            Some(src) => of(src)?,
            None => several(&self.parts, of)?,
        };
        let any_list = source.leaves().iter().any(|leaf| leaf.kind() == SourceKind::List);
        let all_lists = source.is_all(&[SourceKind::List]);
        if all_lists && (!self.files.is_empty() || self.group.is_some()) {
            return Err(Error::usage("--files and --group are for trees: a list names its files")
                .in_file(source.path())
                .help("select files with --include, and files beside them with --with EXT"));
        }
        if all_lists && self.label_pattern.is_some() {
            return Err(Error::usage("--label-pattern is for trees: a list has its own labels")
                .in_file(source.path())
                .help("choose the column of labels with --label-column NAME"));
        }
        match columns.is_empty() || any_list {
            true => self.extra.around(source),
            false => Err(Error::usage(
                "--root, --path-column, --label-column, --split-column, --file-column, --multi-label and --target are for lists",
            )
            .in_file(source.path())),
        }
    }

    /// Copies these options into `options`.
    ///
    /// # Errors
    /// If a value of `--with` or `--label-pattern` is invalid.
    pub fn put(&self, options: &mut [PlanOptions]) -> Result<(), Error> {
        let with = self.with.iter().map(|with| Component::with(with)).collect::<Result<Vec<_>, _>>()?.concat();
        let list = &self.list;
        if with.is_empty() && list.file_column.is_empty() && list.target.is_empty() && self.on_missing.is_some() {
            return Err(Error::usage(
                "--on-missing is for the files of --with and --file-column and the values of --target, and none is given",
            ));
        }
        let label_pattern = self.label_pattern.as_deref().map(LabelPattern::parse).transpose()?;
        for options in options {
            options.bytes.format.label_pattern.clone_from(&self.label_pattern);
            options.walk.label_pattern.clone_from(&label_pattern);
            options.walk.no_labels = self.no_labels;
            options.walk.no_follow = self.no_follow;
            options.walk.with.clone_from(&with);
            options.walk.on_missing = self.on_missing.map(OnMissing::from);
            options.walk.files.clone_from(&self.files);
            options.walk.groups = self.group.is_some();
            options.walk.guess = true;
        }
        Ok(())
    }
}

/// The splits in these values of `--split`, with the source that `of` makes from each.
///
/// # Errors
/// If a value is not of the form `NAME=SRC`.
pub fn several(parts: &[PathBuf], of: impl Fn(&Path) -> Result<SharedSource, Error>) -> Result<SharedSource, Error> {
    let part = |part: &PathBuf| {
        let (split, src) = source::part_of(part).ok_or_else(|| {
            Error::usage("--split is written NAME=SRC, as in --split train=photos/train").in_file(part)
        })?;
        Ok(SplitSource { split, source: of(&src)? })
    };
    SplitSources::new(parts.iter().map(part).collect::<Result<_, Error>>()?).map(shared)
}

/// Names of all readable formats, for `--from`.
fn kinds() -> PossibleValuesParser {
    let of_format = Kind::names().into_iter().map(PossibleValue::new);
    let of_dialect = |(name, aliases, help): (&'static str, &'static [&'static str], &'static str)| {
        PossibleValue::new(name).aliases(aliases).help(help)
    };
    PossibleValuesParser::new(of_format.chain(Kind::dialects().map(of_dialect)))
}

/// How records of shards are read.
#[derive(Args, Clone, Debug)]
pub struct Records {
    /// Format of the shards [default: detected]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "FORMAT|lmdb:DIALECT", value_parser = kinds())]
    pub from: Option<String>,
    /// Field with the image: extension, feature, column or dataset path [default: detected]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "NAME", visible_aliases = ["image-column", "images"])]
    image_feature: Option<String>,
    /// Field with the label: extension, feature, column or dataset path [default: detected]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "NAME", visible_aliases = ["label-column", "labels"])]
    label_feature: Option<String>,
    /// For records with several labels: index of the label to use, from 0 [default: all are one component]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "N")]
    label_index: Option<usize>,
    /// For LMDB, tar and HDF5: where the label is. key: first folder of the key (tar: last folder), or as in --key-pattern.
    /// value: in the value. header:TYPE: whole number at the start of the value (u8, u16le, u16be, u32le, …, i64be). FILE: file
    /// of keys and labels (text, CSV, TSV, JSON). tar takes only key, HDF5 only FILE [default: detected]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "key|value|header:TYPE|FILE")]
    label_from: Option<String>,
    /// For LMDB and tar: pattern of the keys, as in {class}/{name}.jpg or {split}-{label}-{id}. * matches anything
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "PATTERN")]
    key_pattern: Option<String>,
    /// For LMDB: number of bytes in each value before the image, label included
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "N")]
    skip_header: Option<u64>,
}

impl Records {
    /// The requested format.
    ///
    /// # Errors
    /// If the format is unknown.
    pub fn kind(&self) -> Result<Option<Kind>, Error> {
        self.from.as_deref().map(Kind::parse).transpose()
    }

    /// The requested fields.
    pub fn wanted(&self) -> FieldSelection {
        FieldSelection {
            image: self.image_feature.clone(),
            label: self.label_feature.clone(),
            label_number: self.label_index,
            entries: Entries {
                dialect: self.from.clone().filter(|name| Kind::is_dialect(name)),
                label_from: self.label_from.clone(),
                key_pattern: self.key_pattern.clone(),
                header_bytes: self.skip_header,
            },
            ..FieldSelection::default()
        }
    }

    /// The requested fields as stored in a manifest: for a label file the entry `file`, without its path on this machine.
    pub fn kept(&self) -> FieldSelection {
        let mut wanted = self.wanted();
        if lmdb::label_file(&wanted.entries).is_some() {
            wanted.entries.label_from = Some("file".to_owned());
        }
        wanted
    }

    /// Whether any field was requested.
    pub fn chooses_fields(&self) -> bool {
        self.wanted() != FieldSelection::default()
    }
}
