//! Options that select samples.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use shardpack_format::{image_header::Kind, regular};
use shardpack_packer::{
    Error, Result,
    plan::Check,
    selection::{Choice, ClassList, ClassMap},
};

/// Largest file of classes in bytes: enough for a million names.
const CLASS_FILE_BYTES: u64 = 256 << 20;

/// What goes in.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "What goes in")]
pub struct Selection {
    /// How thoroughly each image is checked before it is packed
    #[arg(long, value_enum, default_value = "header")]
    check: CheckArg,
    /// Only these kinds of images, by their first bytes: jpeg, png, webp, …, separated by commas
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind)]
    formats: Vec<Kind>,
    /// Only images whose shorter side has at least N pixels
    #[arg(long, value_name = "N")]
    min_side: Option<u32>,
    /// Only images of at most N pixels
    #[arg(long, value_name = "N")]
    max_pixels: Option<u64>,
    /// Pack only the first of several images with equal bytes, class and components in one split
    #[arg(long, value_enum, value_name = "exact")]
    dedup: Option<Dedup>,
    /// Add a ledger line for images that are in two splits or two classes; they are still packed
    #[arg(long)]
    leaks: bool,
    /// Add a ledger line for images that look like another image; they are still packed. Decodes every image
    #[arg(long)]
    near_duplicates: bool,
    /// Only N images per class and split, chosen by --seed and path
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sample_per_class: Option<u64>,
    /// Classes in the order of their labels: one name per line, or JSON. Images of other classes are left out
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// New names for classes: `old new` per line, or JSON. Classes with equal new names are merged
    #[arg(long, value_name = "FILE")]
    class_map: Option<PathBuf>,
}

/// `--check`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum CheckArg {
    /// Parse the headers for the index; no image is refused
    Header,
    /// Parse all codes of a JPEG, in a fraction of the time of a decode. Missing or damaged codes make the image bad.
    /// Progressive JPEGs and other images are decoded as with `full`
    Entropy,
    /// Decode each image; an image that does not decode is bad
    Full,
}

/// `--dedup`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dedup {
    /// Equal bytes
    Exact,
}

impl Selection {
    /// The check for each image.
    pub fn check(&self) -> Check {
        match self.check {
            CheckArg::Header => Check::Header,
            CheckArg::Entropy => Check::Entropy,
            CheckArg::Full => Check::Full,
        }
    }

    /// The choice for the packer.
    ///
    /// # Errors
    /// If a file of classes cannot be read or parsed.
    pub fn choice(&self, seed: u64, jobs: usize) -> Result<Choice> {
        let read = |path: &PathBuf| read(path);
        let classes = self
            .classes
            .as_ref()
            .map(|path| read(path).and_then(|bytes| ClassList::read(&bytes).map_err(|error| error.in_file(path))));
        let class_map = self
            .class_map
            .as_ref()
            .map(|path| read(path).and_then(|bytes| ClassMap::read(&bytes).map_err(|error| error.in_file(path))));
        Ok(Choice {
            class_map: class_map.transpose()?,
            classes: classes.transpose()?,
            kinds: self.formats.clone(),
            min_side: self.min_side,
            max_pixels: self.max_pixels,
            dedup: self.dedup.is_some(),
            leaks: self.leaks,
            near: self.near_duplicates,
            per_class: self.sample_per_class,
            seed,
            // These reads wait more for the disk or the network than for a core.
            threads: (2 * jobs).max(8),
            jobs,
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |error| Error::io("cannot read", error).in_file(path);
    let bytes = regular::open(path).and_then(|file| file.metadata()).map_err(failed)?.len();
    if bytes > CLASS_FILE_BYTES {
        return Err(Error::usage(format!("{bytes} bytes: no list of classes is that long")).in_file(path));
    }
    regular::read(path).map_err(failed)
}

fn kind(name: &str) -> Result<Kind, String> {
    let alias = match name.to_ascii_lowercase().as_str() {
        "jpg" => "jpeg".to_owned(),
        "tif" => "tiff".to_owned(),
        "ppm" | "pgm" | "pbm" => "pnm".to_owned(),
        other => other.to_owned(),
    };
    let known = || Kind::ALL.iter().filter(|kind| **kind != Kind::Unknown);
    known().find(|kind| kind.name() == alias).copied().ok_or_else(|| {
        let names: Vec<_> = known().map(|kind| kind.name()).collect();
        format!("one of {}", names.join(", "))
    })
}
