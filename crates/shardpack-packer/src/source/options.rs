//! Options of a walk: splits, what is left out, and which components go along.

use std::collections::{BTreeMap, BTreeSet};

use shardpack_format::{component::Component, splits};

/// Names of folders that are taken for splits.
pub const SPLITS: [&str; 10] = splits::KNOWN;

/// Features of TFRecord that say what the image's own first bytes do, and that TFRecord files written here have anew: they go
/// along only where they are asked for.
const OF_THE_IMAGE: [&str; 5] = ["image/format", "image/height", "image/width", "image/channels", "image/colorspace"];

/// Whether the first level of the source are splits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Splits {
    /// If every first-level folder has the name of a split.
    #[default]
    Auto,
    /// They are classes.
    None,
    /// These are splits; other folders are left alone.
    Names(Vec<String>),
    /// What a dataset of these splits is compared with: these as far as they are there, and all others that there are.
    Compared(Vec<String>),
}

/// Which components of a source of samples go along, beside image and label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Components {
    /// All that can.
    #[default]
    All,
    /// None.
    None,
    /// These, by their names.
    Named(Vec<Component>),
}

impl Components {
    /// Whether the field `field` of a record does, if it can.
    pub fn wants_field(&self, field: &str) -> bool {
        match self {
            Self::All => !OF_THE_IMAGE.contains(&field),
            Self::None => false,
            Self::Named(_) => Component::field(field).is_ok_and(|kind| self.wants(kind.name())),
        }
    }

    /// Whether that called `name` does, if it can.
    pub fn wants(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Named(kinds) => kinds.iter().any(|kind| kind.name() == name),
        }
    }
}

/// Of fields, by what they are called as components, the extensions of those of their values that are no single ones: what single ones
/// beside them become.
pub type Extensions = BTreeMap<String, BTreeSet<&'static str>>;

/// How a source is walked.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// See [`Splits`].
    pub splits: Splits,
    /// Only images whose path matches one of these globs; all, if there are none.
    pub include: Vec<String>,
    /// No images whose path matches one of these globs.
    pub exclude: Vec<String>,
    /// Threads of the walk.
    pub threads: usize,
    /// Samples have no labels, whatever folders they are in.
    pub no_labels: bool,
    /// Files that come with images.
    pub with: Vec<Component>,
    /// Which further components of samples go along, where the source is a dataset or shards.
    pub components: Components,
    /// Leave out what the source tells of samples beside that, and what a sealed dataset has of its own.
    pub no_text: bool,
    /// What is known of fields from other sources of the same dataset.
    pub extensions: Extensions,
    /// What it tells begins with class, label and path.
    pub meta: bool,
    /// Symbolic links in a tree, or in what a list names, are bad and not followed.
    pub no_follow: bool,
    /// Which files of a tree are payloads, by extension or pattern; images, if there are none.
    pub files: Vec<String>,
    /// All files of the same name but for the extension are one sample.
    pub groups: bool,
    /// Where a tree has no images, files of another kind are taken, if there is but one that can be meant.
    pub guess: bool,
}
