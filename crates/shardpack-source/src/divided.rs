//! Divides a source without splits into splits: at random, or by a folder of each path.
//!
//! Holds at all times: each sample is in one split, or reported as left out.

use std::{collections::BTreeSet, fmt, path::Path, sync::Arc};

use shardpack_format::{Error, Result, formats::Choice, splits, text};
use shardpack_storage::Transfers;

use super::{
    api::{SampleReader, SharedSource, SomeSamples, Source, SourceKind, SourceListing},
    folder_splits::FolderSplits,
    options::{Options, Splits, by_usual_order},
    random_split::Fractions,
    stored::Stored,
};
use crate::{
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::Monitor,
};

/// Reason of samples that the pattern of `--splits` does not match.
const IN_NO_SPLIT: &str = "is in no folder of --splits";

/// Returns the number of the split of a path, if it has one.
type SplitOf<'d> = Box<dyn Fn(&[u8]) -> Option<usize> + 'd>;

/// How samples are divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Division {
    /// At random.
    Fractions(Fractions),
    /// By a folder of their path.
    Folders(FolderSplits),
}

impl Division {
    /// Parses the text that `Display` writes.
    ///
    /// # Errors
    /// If the text is invalid.
    pub fn of_text(text: &str) -> Result<Self> {
        match FolderSplits::is_pattern(text) {
            true => FolderSplits::new(text).map(Self::Folders),
            false => Fractions::of_text(text).map(Self::Fractions),
        }
    }

    /// The division of a dataset; `None` if its source had splits of its own, or none.
    ///
    /// # Errors
    /// If the text in `choice` is invalid.
    pub fn of_choice(choice: &Choice) -> Result<Option<Self>> {
        choice.fractions.as_ref().or(choice.split_folders.as_ref()).map(|text| Self::of_text(text)).transpose()
    }

    /// The option of the command line.
    fn option(&self) -> &'static str {
        match self {
            Self::Fractions(_) => "--split-fraction",
            Self::Folders(_) => "--splits with a pattern",
        }
    }

    /// Fails if a folder that is a split has a name that no split can have.
    fn check_names(&self, found: &SourceListing) -> Result<()> {
        let Self::Folders(folders) = self else { return Ok(()) };
        let mut path = Vec::new();
        for number in 0..found.listing.len() {
            found.listing.path(number, &mut path);
            if let (Some(name), None) = (folders.name_of(&path), folders.split_of(&path)) {
                let name = text::shown(name).to_string();
                let why = splits::check_name(&name).err().map_or_else(|| "not UTF-8".to_owned(), |error| error.what());
                return Err(Error::usage(format!("--splits {folders}: {why}")).help(format!(
                    "rename the folder {}, or --exclude leaves its images out",
                    text::shown(&path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)])
                )));
            }
        }
        Ok(())
    }

    /// Names of the splits of these samples, and a function that returns the number of the split of a path, if it has one.
    fn chooser(&self, found: &SourceListing) -> (Vec<String>, SplitOf<'_>) {
        match self {
            Self::Fractions(fractions) => {
                let names: Vec<String> = fractions.names().into_iter().map(str::to_owned).collect();
                let (split_of, all) = (fractions.chooser(), names.clone());
                (names, Box::new(move |path| all.iter().position(|name| name == split_of(path))))
            }
            Self::Folders(folders) => {
                let (mut names, mut path) = (BTreeSet::new(), Vec::new());
                let mut add = |path: &[u8]| {
                    if let Some(split) = folders.split_of(path).filter(|split| !names.contains(*split)) {
                        names.insert(split.to_owned());
                    }
                };
                for number in 0..found.listing.len() {
                    found.listing.path(number, &mut path);
                    add(&path);
                }
                // A split whose images are all left out is left out.
                let others = found.unpacked.iter().filter(|unpacked| unpacked.fate != Fate::Filtered);
                others.for_each(|unpacked| add(&unpacked.path));
                let mut names: Vec<String> = names.into_iter().collect();
                names.sort_by_key(|name| by_usual_order(name));
                let all = names.clone();
                (names, Box::new(move |path| all.iter().position(|name| Some(name.as_str()) == folders.split_of(path))))
            }
        }
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fractions(fractions) => fractions.fmt(f),
            Self::Folders(folders) => folders.fmt(f),
        }
    }
}

/// A source without splits, divided into splits.
#[derive(Clone, Debug)]
pub struct Divided {
    source: SharedSource,
    division: Division,
}

impl Divided {
    /// Divides `source`.
    pub fn new(source: SharedSource, division: Division) -> Self {
        Self { source, division }
    }

    fn has_splits(&self, found: &[SourceListing]) -> Error {
        let names: Vec<_> = found.iter().filter_map(|found| found.split.as_deref()).collect();
        let option = self.division.option();
        Error::usage(format!("{option}: the source has splits of its own, {}", names.join(", ")))
            .in_file(self.source.path())
            .help(format!("leave out {option}, or give the folder of one split"))
    }

    fn has_classes(&self) -> Error {
        let what =
            format!("--splits {}: the classes of a tree are its folders, and so are these splits", self.division);
        Error::usage(what).in_file(self.source.path()).help(
            "--no-labels packs images without labels; if classes are below the splits, give the folder of the splits as the source",
        )
    }

    /// The error if no sample is in a split.
    fn has_none(&self, first: Option<&[u8]>) -> Error {
        let first =
            first.map_or_else(|| "there are none".to_owned(), |first| format!("the first is {}", text::shown(first)));
        Error::usage(format!("--splits {}: no image is in such a folder, {first}", self.division))
            .in_file(self.source.path())
    }

    /// The samples of split `at`, called `name`; `split_of` returns the number of the split of a path, `numbers` has that of each sample.
    fn split(
        one: &SourceListing,
        (at, name): (usize, &str),
        numbers: &[Option<usize>],
        split_of: &dyn Fn(&[u8]) -> Option<usize>,
    ) -> SourceListing {
        let is_of = |number: u64| numbers[number as usize] == Some(at);
        // Whatever is wrong with an image outside the splits, it is left out.
        let outside = |entry: &Unpacked| Unpacked { fate: Fate::Filtered, reason: IN_NO_SPLIT.into(), ..entry.clone() };
        let entries = one.unpacked.iter().map(|entry| (split_of(&entry.path), entry));
        let of_split = |(split, entry): (Option<usize>, &Unpacked)| match split {
            Some(split) => (split == at).then(|| entry.clone()),
            None if entry.fate == Fate::Filtered => (at == 0).then(|| entry.clone()),
            None => (at == 0).then(|| outside(entry)),
        };
        let mut unpacked: Vec<Unpacked> = entries.filter_map(of_split).collect();
        let mut found = SourceListing {
            split: Some(name.to_owned()),
            listing: one.listing.chosen(&one.listing.classes, Some, is_of).into(),
            meta: one.meta,
            is_numbered: one.is_numbered,
            payload: one.payload.clone(),
            files: one.files.clone(),
            kinds: one.kinds.clone(),
            ..SourceListing::default()
        };
        if at == 0 {
            // Counts for the whole source are reported once.
            found.ignored.clone_from(&one.ignored);
            found.carried.clone_from(&one.carried);
            found.notes.clone_from(&one.notes);
            let mut path = Vec::new();
            for number in (0..one.listing.len()).filter(|number| numbers[*number as usize].is_none()) {
                one.listing.path(number, &mut path);
                let class = one.listing.class(number);
                unpacked.push(Unpacked { path: path.clone(), class, fate: Fate::Filtered, reason: IN_NO_SPLIT.into() });
            }
            unpacked.sort_unstable_by(order);
        }
        found.unpacked = unpacked;
        found
    }
}

impl Source for Divided {
    fn kind(&self) -> SourceKind {
        SourceKind::Parted
    }

    fn leaves(&self) -> Vec<&dyn Source> {
        self.source.leaves()
    }

    fn leaf_of(&self, _: Option<&str>) -> Result<&dyn Source> {
        self.source.leaf_of(None)
    }

    fn roots(&self) -> Vec<&Path> {
        self.source.roots()
    }

    fn transfers(&self) -> Option<Transfers> {
        self.source.transfers()
    }

    fn stored(&self) -> Stored {
        Stored::Parted(Box::new(self.source.stored()), self.division.to_string())
    }

    fn resolved(&self) -> Result<SharedSource> {
        Ok(Arc::new(Self::new(self.source.resolved()?, self.division.clone())))
    }

    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        let splits = match &options.splits {
            // These splits come from the division; the source has none.
            Splits::Compared(_) => Splits::None,
            splits => splits.clone(),
        };
        if matches!(self.division, Division::Folders(_))
            && !options.no_labels
            && options.label_pattern.is_none()
            && self.source.is_all(&[SourceKind::Tree])
        {
            return Err(self.has_classes());
        }
        let found = self.source.discover(&Options { splits, ..options.clone() }, monitor)?;
        let one = match <[SourceListing; 1]>::try_from(found) {
            Ok([one]) if one.split.is_none() => one,
            Ok([one]) => return Err(self.has_splits(&[one])),
            Err(found) => return Err(self.has_splits(&found)),
        };
        self.division.check_names(&one).map_err(|error| error.in_file(self.source.path()))?;
        let (names, split_of) = self.division.chooser(&one);
        let mut path = Vec::new();
        let numbers: Vec<Option<usize>> = (0..one.listing.len())
            .map(|number| {
                one.listing.path(number, &mut path);
                split_of(&path)
            })
            .collect();
        if names.is_empty() {
            let first = match one.unpacked.first() {
                Some(unpacked) if one.listing.is_empty() => Some(unpacked.path.as_slice()),
                _ if one.listing.is_empty() => None,
                _ => {
                    one.listing.path(0, &mut path);
                    Some(path.as_slice())
                }
            };
            return Err(self.has_none(first));
        }
        Ok(names.iter().enumerate().map(|(at, name)| Self::split(&one, (at, name), &numbers, &*split_of)).collect())
    }

    fn open<'a>(
        &'a self,
        _: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        self.source.open(None, listing, work, monitor)
    }

    fn unpacked_bytes(&self, _: Option<&str>, listing: &Listing) -> Result<u64> {
        self.source.unpacked_bytes(None, listing)
    }

    fn is_plain(&self) -> bool {
        self.source.is_plain()
    }

    fn can_peek(&self, _: Option<&str>) -> Result<bool> {
        self.source.can_peek(None)
    }

    fn first<'a>(&'a self, _: Option<&str>, listing: &'a Listing, most: usize) -> Result<Option<SomeSamples<'a>>> {
        self.source.first(None, listing, most)
    }
}
