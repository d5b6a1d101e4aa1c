//! Options that several commands share, and parsers for sizes, names and URLs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::{
    Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser},
};
use shardpack_format::formats::{self, Choice};
use shardpack_packer::{
    Error,
    pack::{Extension, PlanOptions, ReadOrderChoice},
    plan::{self, Compression, Cut, Order},
};
use shardpack_reader::StoreSettings;
use shardpack_runtime::threads;
use shardpack_source::{
    FolderSplits, Fractions,
    options::{self, Splits},
    sys,
};
use shardpack_storage::{Address, scheme};

use crate::{selection::Selection, transform_args::Changes};

/// How a command talks.
#[derive(Args, Clone, Copy, Debug)]
pub struct Talk {
    /// Print one JSON document on stdout instead of text
    #[arg(long)]
    pub json: bool,
    /// Print only results and errors: no progress, no notes
    #[arg(long, short)]
    pub quiet: bool,
}

/// What a machine may spend.
#[derive(Args, Clone, Copy, Debug)]
pub struct Machine {
    /// Number of threads [default: all cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

impl Machine {
    /// Threads to use.
    pub fn jobs(self) -> usize {
        self.jobs.map_or_else(threads::cores, usize::from)
    }
}

/// Names of all writable formats.
fn formats() -> PossibleValuesParser {
    let value = |entry: &formats::Entry| PossibleValue::new(entry.name).aliases(entry.aliases).help(entry.about);
    PossibleValuesParser::new(formats::ALL.iter().map(value))
}

/// Parses `NAME=VALUE`.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "write NAME=VALUE".to_owned())?;
    Ok((name.replace('-', "_"), value.to_owned()))
}

/// Which kind of order.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OrderArg {
    /// One global shuffle, fixed by --seed
    Shuffled,
    /// Trees: by class, folder and file name. Lists: by line. Shards: as stored
    Source,
}

/// What is to be done about the label.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ClsArg {
    /// Component `cls` with the number of the class
    Label,
    /// No component `cls`
    None,
}

/// Metadata components.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MetaArg {
    /// No metadata; components of a source dataset or of shards are left out too
    None,
    /// Component `json`: class, label and original path, then the metadata of a list
    Json,
}

/// What decides the bytes of the shards.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// Format of the shards. May be repeated: each format goes to DST/FORMAT, and the source is read once if DST is a folder
    #[arg(help_heading = crate::help::SHARDS, long, value_parser = formats(), default_value = "webdataset")]
    pub format: Vec<String>,
    /// For tfrecord: label of the first class; 1 if 0 is the background, as in TF-Slim [default: 0]
    #[arg(help_heading = crate::help::SHARDS, long, value_name = "N")]
    pub label_offset: Option<u64>,
    /// For tfrecord: only these features, separated by commas [default: all]
    #[arg(help_heading = crate::help::SHARDS, long, value_name = "KEYS")]
    pub features: Option<String>,
    /// For mds: encoding of the image column: jpeg, png or bytes [default: jpeg]
    #[arg(help_heading = crate::help::SHARDS, long, value_name = "ENCODING")]
    pub mds_encoding: Option<String>,
    /// Setting of the format, as listed in docs/reference/formats/; may be repeated
    #[arg(help_heading = crate::help::SHARDS, long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
    /// Order of the samples
    #[arg(help_heading = crate::help::SHARDS, long, value_enum, default_value = "shuffled")]
    pub order: OrderArg,
    /// Seed of the shuffle
    #[arg(help_heading = crate::help::SHARDS, long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// Maximum size of a shard; shards get about equal sizes [default: 256MiB, for mds 64MiB]
    #[arg(help_heading = crate::help::SHARDS, long, value_name = "SIZE", value_parser = large_size, group = "cut")]
    pub shard_size: Option<u64>,
    /// Maximum number of samples in a shard; shards get about equal numbers
    #[arg(help_heading = crate::help::SHARDS, long, value_name = "N", group = "cut")]
    pub shard_samples: Option<u64>,
    /// Number of shards
    #[arg(help_heading = crate::help::SHARDS, long, value_name = "N", group = "cut")]
    pub shards: Option<u64>,
    /// Name of the shards if the source has no splits: NAME-000000.tar
    #[arg(help_heading = crate::help::SHARDS, long, default_value = "shard", value_parser = name)]
    pub name: String,
    /// Folders that are splits: auto, none, or NAMES separated by commas. auto: train, val, test, … if there are no other
    /// folders. A path with {split}, as in images/{split}, names folders inside SRC, for images without labels
    #[arg(help_heading = crate::help::SOURCE, long, default_value = "auto", value_name = "auto|none|NAMES")]
    pub splits: String,
    /// Random splits for a source without splits: NAME=FRACTION, separated by commas. The rest is train. The split of a sample
    /// depends only on --seed and its path, so new samples do not move others
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "val=0.05,test=0.05")]
    pub split_fraction: Option<String>,
    /// Extension of the images: common, content, or an extension for all images. common: the extension of the most common kind,
    /// for all images. content: the extension of each image's kind
    #[arg(help_heading = crate::help::SHARDS, long, value_name = "common|content|EXT", default_value = "common", value_parser = extension)]
    pub ext: String,
    /// Component with the label
    #[arg(help_heading = crate::help::SHARDS, long, value_enum, default_value = "label")]
    pub cls: ClsArg,
    /// Component with metadata [default: the metadata of a list or dataset, if there is any]
    #[arg(help_heading = crate::help::SHARDS, long, value_enum)]
    pub meta: Option<MetaArg>,
    /// Compress shards: zstd or zstd:LEVEL, 1 to 22 (photographs do not get smaller)
    #[arg(help_heading = crate::help::SHARDS, long, value_name = "zstd[:LEVEL]", value_parser = compression)]
    pub compress: Option<Compression>,
    /// Only images whose path matches this glob; may be repeated
    #[arg(help_heading = crate::help::CHOICE, long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Leave out images whose path matches this glob; may be repeated
    #[arg(help_heading = crate::help::CHOICE, long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    changes: Changes,
}

impl PlanArgs {
    /// The options for the packer, one per format.
    ///
    /// # Errors
    /// If no format has one of the options.
    pub fn options(&self, jobs: usize) -> Result<Vec<PlanOptions>, Error> {
        let choices = self.choices()?;
        let survey = self.selection.choice(self.seed, jobs)?;
        let recipe = self.changes.recipe()?;
        let splits = self.splits();
        let fractions = self.split_fraction.as_ref().map(|text| Fractions::new(text, self.seed)).transpose()?;
        let is_pattern = FolderSplits::is_pattern(&self.splits);
        let folders = is_pattern.then(|| FolderSplits::new(&self.splits)).transpose()?;
        if fractions.is_some() && is_pattern {
            return Err(Error::usage(
                "--splits with a pattern and --split-fraction are both given: a sample is in one split",
            ));
        }
        let (fractions, split_folders) = (fractions.map(|one| one.to_string()), folders.map(|one| one.to_string()));
        let extension = match self.ext.as_str() {
            "common" => Extension::MostCommon,
            "content" => Extension::Content,
            fixed => Extension::Fixed(fixed.to_owned()),
        };
        // A walk waits more for the disk or the network than for a core.
        let threads = (2 * jobs).max(8);
        let walk = options::Options {
            splits,
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            threads,
            no_text: matches!(self.meta, Some(MetaArg::None)),
            meta: matches!(self.meta, Some(MetaArg::Json)),
            ..options::Options::default()
        };
        let of_format = |format: Choice| {
            let cut = match (self.shards, self.shard_samples) {
                (Some(shards), _) => Cut::Shards(shards),
                (None, Some(samples)) => Cut::ShardSamples(samples),
                (None, None) => Cut::ShardSize(match self.shard_size {
                    Some(bytes) => bytes,
                    None => formats::open(&format)?.usual_shard_bytes(),
                }),
            };
            let bytes = plan::Options {
                name: self.name.clone(),
                order: match self.order {
                    OrderArg::Shuffled => Order::Shuffled,
                    OrderArg::Source => Order::Source,
                },
                seed: self.seed,
                cut,
                format: Choice { fractions: fractions.clone(), split_folders: split_folders.clone(), ..format },
                compression: self.compress.unwrap_or(Compression::None),
                check: self.selection.check(),
                recipe: None,
            };
            Ok(PlanOptions {
                walk: walk.clone(),
                survey: survey.clone(),
                bytes,
                extension: extension.clone(),
                recipe: recipe.clone(),
                roles: self.changes.roles().to_vec(),
            })
        };
        choices.into_iter().map(of_format).collect()
    }

    /// Which folders or files are splits.
    pub fn splits(&self) -> Splits {
        match self.splits.as_str() {
            "auto" => Splits::Auto,
            "none" => Splits::None,
            // The packer divides the source.
            pattern if FolderSplits::is_pattern(pattern) => Splits::None,
            names => Splits::Names(names.split(',').map(str::to_owned).collect()),
        }
    }

    /// The formats with their settings: each setting goes to all formats that have it.
    fn choices(&self) -> Result<Vec<Choice>, Error> {
        let mut entries: Vec<&formats::Entry> = Vec::new();
        for name in &self.format {
            let entry = formats::entry(name)?;
            if !entries.iter().any(|known| known.name == entry.name) {
                entries.push(entry);
            }
        }
        let (cls, json) = (matches!(self.cls, ClsArg::Label), matches!(self.meta, Some(MetaArg::Json)));
        let names = || entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        if !entries.iter().any(|entry| entry.has_extensions) && (self.ext != "common" || !cls || json) {
            return Err(Error::usage(format!(
                "--ext, --cls and --meta: the records of {} have no components to choose",
                names()
            ))
            .help("they are for --format webdataset"));
        }
        let mut settings: BTreeMap<String, String> = self.settings.iter().cloned().collect();
        let named = [
            ("label_offset", self.label_offset.map(|number| number.to_string())),
            ("features", self.features.clone()),
            ("encoding", self.mds_encoding.clone()),
        ];
        settings.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        let has = |entry: &formats::Entry, name: &str| entry.settings.iter().any(|setting| setting.name == name);
        if let Some(name) = settings.keys().find(|name| !entries.iter().any(|entry| has(entry, name))) {
            return Err(Error::usage(format!("{} has no setting {name:?}", names())));
        }
        let choice = |entry: &&formats::Entry| {
            let own = settings.iter().filter(|(name, _)| has(entry, name));
            let settings = own.map(|(name, value)| (name.clone(), value.clone())).collect();
            match entry.has_extensions {
                true => Choice { cls, json, settings, ..Choice::new(entry.name) },
                false => Choice { settings, ..Choice::new(entry.name) },
            }
        };
        Ok(entries.iter().map(choice).collect())
    }
}

/// In which order the source is read.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ReadOrderArg {
    /// Chosen from the storage of the source
    Auto,
    /// Shard by shard, in the order of each shard
    Plan,
    /// By inode, in windows of shards that fit in --memory
    Physical,
}

impl ReadOrderArg {
    /// The choice for the packer.
    pub fn choice(self) -> Option<ReadOrderChoice> {
        match self {
            Self::Auto => None,
            Self::Plan => Some(ReadOrderChoice::Plan),
            Self::Physical => Some(ReadOrderChoice::Physical),
        }
    }
}

/// A quarter of the machine's memory, at most 4 GiB.
pub fn default_memory() -> u64 {
    (sys::memory_bytes() / 4).min(4 << 30)
}

/// Parses a size in bytes: `256MiB`, `1.5GB`, `4096`.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "kb" => 1e3,
        "m" | "mib" => 1048576.0,
        "mb" => 1e6,
        "g" | "gib" => 1073741824.0,
        "gb" => 1e9,
        "t" | "tib" => 1099511627776.0,
        "tb" => 1e12,
        _ => return Err(format!("unknown unit {unit:?}; write 256MiB, 1GB or a number of bytes")),
    };
    let bytes = number.parse::<f64>().map_err(|_| "write 256MiB, 1GB or a number of bytes".to_owned())? * factor;
    if (1.0..=u64::MAX as f64 / 2.0).contains(&bytes) { Ok(bytes as u64) } else { Err("out of range".to_owned()) }
}

/// As [`size`], but rejects a small number without a unit, because the unit was probably forgotten.
pub fn large_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        bytes if bytes < 1 << 20 && text.ends_with(|c: char| c.is_ascii_digit() || c == '.') => {
            Err(format!("{text} is {bytes} bytes: write {text}MiB, or {text}B where bytes are meant"))
        }
        bytes => Ok(bytes),
    }
}

/// The URL in an argument: the argument itself, or the value of an option.
pub fn url(argument: &std::ffi::OsStr) -> Option<&str> {
    let text = argument.to_str()?;
    let value = text.strip_prefix("--").and_then(|option| option.split_once('=')).map_or(text, |(_, value)| value);
    scheme(value).map(|_| value)
}

fn compression(text: &str) -> Result<Compression, String> {
    let level = match text.split_once(':') {
        None if text == "zstd" => Ok(3),
        Some(("zstd", level)) => level.parse().map_err(|_| ()),
        _ => Err(()),
    };
    match level {
        Ok(level) if (1..=22).contains(&level) => Ok(Compression::Zstd(level)),
        _ => Err("write zstd, or zstd:LEVEL with a level from 1 to 22".to_owned()),
    }
}

/// Parses the name of a dataset.
pub fn name(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match text.is_empty() || text.len() > 100 || !text.chars().all(fine) {
        true => Err("use up to 100 ASCII letters, digits, - and _".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn extension(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let taken = ["cls", "json"].contains(&text);
    match text.is_empty() || text.len() > 8 || !text.chars().all(fine) || taken {
        true => Err("use common, content, or up to 8 lower-case letters and digits other than cls and json".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// What is said of a store.
#[derive(Args, Clone, Debug, Default)]
pub struct StoreArgs {
    /// Object store setting, in addition to the environment: endpoint=URL, region=NAME, profile=NAME, anonymous=true,
    /// requester_pays=true, "header=NAME: VALUE", ca_file=FILE, proxy=URL, requests=N, retry_for=SECONDS, min_rate=BYTES. With
    /// two stores, src.NAME=VALUE is for the source and dst.NAME=VALUE for DST
    #[arg(long, value_name = "NAME=VALUE")]
    store: Vec<String>,
}

impl StoreArgs {
    /// All settings.
    pub fn settings(&self) -> Result<StoreSettings, Error> {
        StoreSettings::parse(&self.store)
    }

    /// The settings for the store of `place`, which may also be a local path.
    ///
    /// # Errors
    /// If there are settings and `place` is a local path.
    pub fn for_path(&self, place: &Path) -> Result<StoreSettings, Error> {
        let settings = self.settings()?;
        settings.refuse_for(place).map(|()| settings)
    }

    /// The settings for the source and for the destination; `places` are all paths that may be URLs.
    ///
    /// # Errors
    /// If there are settings and no path is a URL.
    pub fn of_both(&self, places: &[&Path]) -> Result<(StoreSettings, StoreSettings), Error> {
        self.settings()?.refuse_without_url(places)?;
        let of = |own: &str, other: &str| {
            let texts = self.store.iter().filter(|text| !text.starts_with(other));
            StoreSettings::parse(texts.map(|text| text.strip_prefix(own).unwrap_or(text)))
        };
        Ok((of("src.", "dst.")?, of("dst.", "src.")?))
    }
}

/// Fails if --work is given and `dst` is a folder.
///
/// # Errors
/// See above.
pub fn refuse_work(work: Option<&Path>, dst: &Path) -> Result<(), Error> {
    match work.and(Address::of(dst).local()) {
        None => Ok(()),
        Some(dst) => {
            let what = "--work is for a DST at a URL: a folder holds its own unfinished files";
            Err(Error::usage(what).in_file(dst))
        }
    }
}

/// A file or folder to look at.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// Dataset folder, manifest, or shards of any writer: files, folders, globs or brace patterns. Local, or at a URL: s3://,
    /// gs://, az://, abfss://, https://
    #[arg(required = true, value_name = "DST")]
    pub paths: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [("256MiB", 256 << 20), ("1.5GB", 1_500_000_000), ("4096", 4096), ("2k", 2048)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "0", "1XB", "1e9", "99999999TB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_small_number_without_a_unit_is_asked_about() {
        for (text, bytes) in [("256MiB", 256 << 20), ("256B", 256), ("1048576", 1 << 20), ("0.5k", 512)] {
            assert_eq!(large_size(text), Ok(bytes), "{text}");
        }
        for text in ["256", "1048575", "1.5"] {
            assert!(large_size(text).unwrap_err().contains(&format!("write {text}MiB, or {text}B")), "{text}");
        }
    }

    #[test]
    fn a_url_is_told_from_a_path() {
        for text in ["s3://bucket/x", "gs://x", "https://example.org/x.tar", "--root=s3://x", "file:///data", "S3://x"]
        {
            assert!(url(text.as_ref()).is_some(), "{text}");
        }
        for text in ["s3:/x", "./s3://x", "/a://b", "c:x", "--include=*://*", "a/b", "://x", ""] {
            assert_eq!(url(text.as_ref()), None, "{text}");
        }
    }

    #[test]
    fn compression_has_a_level() {
        assert_eq!(compression("zstd"), Ok(Compression::Zstd(3)));
        assert_eq!(compression("zstd:19"), Ok(Compression::Zstd(19)));
        for text in ["gzip", "zstd:0", "zstd:x", "zstd:23"] {
            assert!(compression(text).is_err(), "{text}");
        }
    }
}
