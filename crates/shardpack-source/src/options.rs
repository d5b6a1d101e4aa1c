//! Options of a walk: splits, filters and components.

use std::collections::{BTreeMap, BTreeSet};

use shardpack_format::{Error, Result, component::Component, splits};

use super::{label_pattern::LabelPattern, list::Clues};

/// Folder names that count as splits.
pub const SPLITS: [&str; 10] = splits::KNOWN;

/// Key that sorts the names of splits: known names first, in their usual order.
pub(super) fn by_usual_order(name: &str) -> (usize, String) {
    (SPLITS.iter().position(|known| *known == name).unwrap_or(SPLITS.len()), name.to_owned())
}

/// TFRecord features that repeat what the image header holds. TFRecord files written by shardpack contain them anew, so these features
/// become components only on request.
const OF_THE_IMAGE: [&str; 5] = ["image/format", "image/height", "image/width", "image/channels", "image/colorspace"];

/// Whether the first-level folders of the source are splits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Splits {
    /// Splits, if every first-level folder has the name of a split.
    #[default]
    Auto,
    /// Classes.
    None,
    /// These folders are splits; other folders are ignored.
    Names(Vec<String>),
    /// For comparison with a dataset of these splits: uses those that exist, and all other splits of the source.
    Compared(Vec<String>),
}

/// Which fields become components, besides image and label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Components {
    /// All fields that can.
    #[default]
    All,
    /// No field.
    None,
    /// The fields with these names.
    Named(Vec<Component>),
}

impl Components {
    /// Whether the record field `field` is wanted as a component.
    pub fn wants_field(&self, field: &str) -> bool {
        match self {
            Self::All => !OF_THE_IMAGE.contains(&field),
            Self::None => false,
            Self::Named(_) => Component::field(field).is_ok_and(|kind| self.wants(kind.name())),
        }
    }

    /// Whether the component `name` is wanted.
    pub fn wants(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Named(kinds) => kinds.iter().any(|kind| kind.name() == name),
        }
    }
}

/// How images without a file that `--with` names are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// The image is bad.
    Error,
    /// The image is left out.
    Skip,
    /// The sample has no such component.
    Empty,
}

/// By component name: the extensions of field values that are not single values. They decide how single values of that field are stored.
pub type Extensions = BTreeMap<String, BTreeSet<&'static str>>;

/// The error for files of `kind` in a folder `name` outside the source that the user did not give.
pub(super) fn unknown_folder(kind: &Component, name: &str) -> Error {
    Error::usage(format!("--with {}: no folder is called {name}", kind.with_value())).help(format!(
        "--extra-root {name}=FOLDER gives it; without it, a pattern knows {{stem}}, {{name}}, {{dir}}, {{parent}} and {{grandparent}}"
    ))
}

/// Options for listing a source.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// See [`Splits`].
    pub splits: Splits,
    /// Only images whose path matches one of these globs; empty for all images.
    pub include: Vec<String>,
    /// No images whose path matches one of these globs.
    pub exclude: Vec<String>,
    /// Threads of the walk.
    pub threads: usize,
    /// Samples have no labels, whatever their folders.
    pub no_labels: bool,
    /// Labels of a tree are in the names of its files; folders are no classes.
    pub label_pattern: Option<LabelPattern>,
    /// Files next to images that become components.
    pub with: Vec<Component>,
    /// Images without a file of `with`; `None`: a missing file beside the image is no error, one at a path is.
    pub on_missing: Option<OnMissing>,
    /// Further components of samples, if the source is a dataset or shards.
    pub components: Components,
    /// `--meta none`: omits the further columns of a list, the components of shards unless they are named, and the own components of a
    /// sealed dataset unless they are in `with`.
    pub no_text: bool,
    /// Field extensions from other sources of the same dataset.
    pub extensions: Extensions,
    /// The text of a sample starts with class, label and path.
    pub meta: bool,
    /// Symbolic links in a tree or a list are reported as bad and not followed.
    pub no_follow: bool,
    /// Files of a tree that are payloads, as extensions or patterns; empty for images.
    pub files: Vec<String>,
    /// Files with the same name and different extensions form one sample.
    pub groups: bool,
    /// By split: facts about files that decided how a list was read, from the dataset that is compared with the list. The name of a
    /// dataset without splits is empty.
    pub list_clues: BTreeMap<String, Clues>,
    /// If a tree has no images, use files of another kind, provided that only one kind is possible.
    pub guess: bool,
    /// There are files of components outside this source, which are not in `with`.
    pub has_extra: bool,
}

impl Options {
    /// The same with only those components next to samples that are files in the source.
    ///
    /// # Errors
    /// If the files of a component are in a folder that the source does not know.
    pub(super) fn of_files(&self) -> Result<Self> {
        if let Some((kind, root)) = self.with.iter().find_map(|kind| Some((kind, kind.extra_root()?))) {
            return Err(unknown_folder(kind, root));
        }
        let mut options = self.clone();
        options.with.retain(|kind| !kind.is_value() && !kind.is_of_list());
        Ok(options)
    }

    /// Whether no option says which files are samples, or where their labels are.
    pub(super) fn is_open(&self) -> bool {
        let has_patterns = !(self.files.is_empty() && self.include.is_empty() && self.exclude.is_empty());
        let has_labels = self.no_labels || self.label_pattern.is_some();
        self.guess && self.splits == Splits::Auto && !has_patterns && !has_labels && !self.groups && !self.has_files()
    }

    /// Whether samples have files beside them, in the source or outside.
    pub(super) fn has_files(&self) -> bool {
        self.has_extra || !self.with.is_empty()
    }
}
