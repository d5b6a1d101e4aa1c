//! Divides a source without splits into splits: at random, or by a folder of each path.
//!
//! Holds at all times: each sample is in one split, or reported as left out.

use std::{collections::BTreeSet, fmt, path::Path, sync::Arc};

use shardpack_format::{Error, Result, formats::Choice, splits, text};
use shardpack_storage::{Access, Transfers};

use super::{
    api::{SampleReader, SharedSource, SomeSamples, Source, SourceKind, SourceListing},
    folder_splits::FolderSplits,
    missing_components::lacking,
    names,
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

    /// Names of the splits of these samples, in their usual order.
    ///
    /// # Errors
    /// If a folder that is a split has a name that no split can have.
    fn names(&self, found: &SourceListing) -> Result<Vec<String>> {
        let folders = match self {
            Self::Fractions(fractions) => return Ok(fractions.names().into_iter().map(str::to_owned).collect()),
            Self::Folders(folders) => folders,
        };
        let mut names = BTreeSet::new();
        let used = found.listing.folders().iter().zip(found.listing.samples_by_folder());
        for (folder, _) in used.filter(|(_, samples)| !samples.is_empty()) {
            let Some(name) = folders.name_in(&folder.path) else { continue };
            let shown = text::shown(name).to_string();
            let invalid = std::str::from_utf8(name).map_or_else(
                |_| Some("not UTF-8".to_owned()),
                |name| splits::check_name(name).err().map(|error| error.what()),
            );
            if let Some(why) = invalid {
                return Err(Error::usage(format!("--splits {folders}: {why}")).help(format!(
                    "rename the folder {}, or --exclude leaves its images out",
                    text::shown(&folder.path)
                )));
            }
            names.insert(shown);
        }
        // A split whose images are all left out is left out.
        let others = found.unpacked.iter().filter(|unpacked| unpacked.fate != Fate::Filtered);
        names.extend(others.filter_map(|unpacked| folders.split_of(&unpacked.path)).map(str::to_owned));
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_by_key(|name| by_usual_order(name));
        Ok(names)
    }

    /// A function that returns the number of the split of a path among `names`, if it has one.
    fn chooser<'d>(&'d self, names: &'d [String]) -> SplitOf<'d> {
        let number = |split: &str| names.iter().position(|name| name == split);
        match self {
            Self::Fractions(fractions) => {
                let split_of = fractions.chooser();
                Box::new(move |path| number(split_of(path)))
            }
            Self::Folders(folders) => Box::new(move |path| folders.split_of(path).and_then(number)),
        }
    }

    /// The entry of a file or folder in no split. An image is left out, whatever is wrong with it; a folder that may hold splits is not.
    fn outside(&self, entry: &Unpacked) -> Unpacked {
        let Self::Folders(folders) = self else { return entry.clone() };
        let is_kept =
            entry.fate == Fate::Filtered || (folders.may_hold_splits(&entry.path) && !names::is_image(&entry.path));
        match is_kept {
            true => entry.clone(),
            false => Unpacked { fate: Fate::Filtered, reason: IN_NO_SPLIT.into(), ..entry.clone() },
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
    fn has_none(&self, first: &[u8]) -> Error {
        let first = match first {
            b"" => "there are none".to_owned(),
            first => format!("the first is {}", text::shown(first)),
        };
        let what = format!("--splits {}: no image is in such a folder, {first}", self.division);
        Error::usage(what).in_file(self.source.path())
    }

    /// The samples of split `at`, called `name`; `split_of` returns the number of the split of a path, `numbers` has that of each sample.
    fn split(
        &self,
        one: &SourceListing,
        (at, name): (usize, &str),
        numbers: &[Option<usize>],
        split_of: &dyn Fn(&[u8]) -> Option<usize>,
    ) -> SourceListing {
        let is_of = |number: u64| numbers[number as usize] == Some(at);
        let entries = one.unpacked.iter().map(|entry| (split_of(&entry.path), entry));
        let of_split = |(split, entry): (Option<usize>, &Unpacked)| match split {
            Some(split) => (split == at).then(|| entry.clone()),
            None => (at == 0).then(|| self.division.outside(entry)),
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
            component_classes: one.component_classes.clone(),
            origin: one.origin.clone(),
            list_clues: one.list_clues.clone(),
            is_divided: true,
            ..SourceListing::default()
        };
        if at == 0 {
            // Counts for the whole source are reported once.
            found.ignored.clone_from(&one.ignored);
            found.carried.clone_from(&one.carried);
            found.notes = notes(one, numbers);
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

/// The notes of a source whose samples have these splits: samples in no split do not count.
fn notes(one: &SourceListing, numbers: &[Option<usize>]) -> Vec<String> {
    let noun = if one.payload.is_none() { "image" } else { "sample" };
    let of_all = if numbers.contains(&None) { lacking(&one.listing, noun) } else { Vec::new() };
    let (counts, mut notes): (Vec<String>, Vec<String>) =
        one.notes.iter().cloned().partition(|note| of_all.contains(note));
    if !counts.is_empty() {
        let is_used = |number: u64| numbers[number as usize].is_some();
        notes.extend(lacking(&one.listing.chosen(&one.listing.classes, Some, is_used), noun));
    }
    notes
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

    fn extra_folders(&self) -> Vec<&Path> {
        self.source.extra_folders()
    }

    fn transfers(&self) -> Option<Transfers> {
        self.source.transfers()
    }

    fn access(&self) -> Access {
        self.source.access()
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
        let names = self.division.names(&one).map_err(|error| error.in_file(self.source.path()))?;
        let mut path = Vec::new();
        if names.is_empty() {
            match one.listing.is_empty() {
                true => path.extend(one.unpacked.iter().take(1).flat_map(|unpacked| &unpacked.path)),
                false => one.listing.path(0, &mut path),
            }
            return Err(self.has_none(&path));
        }
        let split_of = self.division.chooser(&names);
        let numbers: Vec<Option<usize>> = (0..one.listing.len())
            .map(|number| {
                one.listing.path(number, &mut path);
                split_of(&path)
            })
            .collect();
        let split = |named: (usize, &String)| self.split(&one, (named.0, named.1), &numbers, &*split_of);
        Ok(names.iter().enumerate().map(split).collect())
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
