//! Several sources, each a split, with one class list.
//!
//! Each source is listed and read as if it were alone; only its class numbers are changed to the shared list.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use shardpack_format::{
    Error, Result,
    component::{self, Component, Type},
    help, splits, text,
};
use shardpack_storage::{Access, Transfers};

use super::{
    api::{ReadTable, SampleReader, SharedSource, SomeSamples, Source, SourceKind, SourceListing},
    merge_classes::{self, Named},
    missing_components::lacking,
    object_classes,
    options::{Options, Splits},
    stored::Stored,
};
use crate::{listing::Listing, monitor::Monitor};

/// A source that is a split.
#[derive(Clone, Debug)]
pub struct SplitSource {
    /// Name of the split.
    pub split: String,
    /// The source.
    pub source: SharedSource,
}

/// Several sources, each a split.
#[derive(Clone, Debug)]
pub struct SplitSources {
    parts: Vec<SplitSource>,
}

impl SplitSources {
    /// Combines the parts.
    ///
    /// # Errors
    /// If two parts have one name, or a name is not a valid split name.
    pub fn new(parts: Vec<SplitSource>) -> Result<Self> {
        let mut names = BTreeSet::new();
        for SplitSource { split, .. } in &parts {
            splits::check_name(split)?;
            if !names.insert(split) {
                return Err(Error::usage(format!("split {split:?} is given twice"))
                    .help("a list can name files of several folders: set their common folder with --root"));
            }
        }
        Ok(Self { parts })
    }

    /// The parts, in the given order.
    pub fn parts(&self) -> &[SplitSource] {
        &self.parts
    }

    /// The source of `split`.
    ///
    /// # Errors
    /// If there is no such split.
    fn source_of(&self, split: Option<&str>) -> Result<&SharedSource> {
        let part = self.parts.iter().find(|part| Some(part.split.as_str()) == split);
        part.map(|part| &part.source).ok_or_else(|| {
            Error::usage(match split {
                Some(split) => format!("no source of a split {split:?}"),
                None => "several sources, and none for a dataset without splits".to_owned(),
            })
        })
    }

    /// Lists each source by itself.
    fn discover_parts(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        let mut all = Vec::with_capacity(self.parts.len());
        for SplitSource { split, source } in &self.parts {
            let clues = options.list_clues.get(split).map(|clues| (split.clone(), clues.clone()));
            let options = Options { list_clues: clues.into_iter().collect(), ..options.clone() };
            let found = source.discover(&options, monitor)?;
            let own: Vec<_> = found.iter().filter_map(|one| one.split.clone()).collect();
            if let Some(first) = own.first() {
                return Err(Error::usage(format!("split {split} has splits of its own: {}", own.join(", ")))
                    .in_file(source.path())
                    .help(format!("give the folder of one split, as {first}; --splits none packs all as one split")));
            }
            let one = found.into_iter().next().unwrap_or_default();
            all.push(SourceListing { split: Some(split.clone()), ..one });
        }
        Ok(all)
    }
}

impl Source for SplitSources {
    fn kind(&self) -> SourceKind {
        SourceKind::Several
    }

    fn leaves(&self) -> Vec<&dyn Source> {
        self.parts.iter().flat_map(|part| part.source.leaves()).collect()
    }

    fn leaf_of(&self, split: Option<&str>) -> Result<&dyn Source> {
        self.source_of(split)?.leaf_of(None)
    }

    fn roots(&self) -> Vec<&Path> {
        self.parts.iter().flat_map(|part| part.source.roots()).collect()
    }

    fn transfers(&self) -> Option<Transfers> {
        self.parts.iter().filter_map(|part| part.source.transfers()).reduce(Transfers::and)
    }

    fn access(&self) -> Access {
        Access::of_all(self.parts.iter().map(|part| part.source.access()))
    }

    fn stored(&self) -> Stored {
        Stored::Several(self.parts.iter().map(|part| (part.split.clone(), part.source.stored())).collect())
    }

    fn resolved(&self) -> Result<SharedSource> {
        let part = |part: &SplitSource| Ok(SplitSource { split: part.split.clone(), source: part.source.resolved()? });
        Ok(Arc::new(Self { parts: self.parts.iter().map(part).collect::<Result<_>>()? }))
    }

    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        let splits = match options.splits {
            Splits::Auto => Splits::Auto,
            Splits::None | Splits::Compared(_) => Splits::None,
            Splits::Names(_) => {
                return Err(Error::usage("--splits NAMES and --split: each source is a split already"));
            }
        };
        let mut options = Options { splits, ..options.clone() };
        let mut all = self.discover_parts(&options, monitor)?;
        // A single value in one source is a list in another.
        if is_torn(&all) {
            for (field, own) in all.iter().flat_map(|one| &one.extensions) {
                options.extensions.entry(field.clone()).or_default().extend(own);
            }
            all = self.discover_parts(&options, monitor)?;
        }
        let lists: Vec<_> = all
            .iter()
            .map(|one| Named {
                who: one.split.clone().unwrap_or_default(),
                names: &one.listing.classes,
                is_numbered: one.is_numbered,
            })
            .collect();
        let classes = Arc::new(merge_classes::merge(&lists)?);
        let kinds = join_components(&all)?;
        object_classes::join_splits(&mut all)?;
        for one in all.iter_mut().filter(|one| one.listing.components().kinds != kinds) {
            let noun = if one.payload.is_none() { "image" } else { "sample" };
            let before: Vec<_> = lacking(&one.listing, noun);
            one.listing = Arc::new(one.listing.with_more_kinds(&kinds));
            one.notes.extend(lacking(&one.listing, noun).into_iter().filter(|note| !before.contains(note)));
        }
        for one in &mut all {
            if one.listing.classes != classes {
                let numbers = merge_classes::numbers(&one.listing.classes, &classes);
                let class_of = |class: u32| numbers.get(class as usize).copied().flatten();
                one.listing = Arc::new(one.listing.chosen(&classes, class_of, |_| true));
                one.unpacked.iter_mut().for_each(|unpacked| unpacked.class = unpacked.class.and_then(class_of));
                one.unpacked.sort_by(crate::ledger::order);
            }
        }
        Ok(all)
    }

    fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        self.source_of(split)?.open(None, listing, work, monitor)
    }

    fn unpacked_bytes(&self, split: Option<&str>, listing: &Listing) -> Result<u64> {
        self.source_of(split)?.unpacked_bytes(None, listing)
    }

    fn can_peek(&self, split: Option<&str>) -> Result<bool> {
        self.source_of(split)?.can_peek(None)
    }

    fn first<'a>(&'a self, split: Option<&str>, listing: &'a Listing, most: usize) -> Result<Option<SomeSamples<'a>>> {
        self.source_of(split)?.first(None, listing, most)
    }

    fn with_tables(&self, component: &str, read: &ReadTable<'_>) -> Result<Option<SharedSource>> {
        let mut is_changed = false;
        let part = |part: &SplitSource| {
            let made = part.source.with_tables(component, read)?;
            is_changed |= made.is_some();
            Ok(SplitSource { split: part.split.clone(), source: made.unwrap_or_else(|| part.source.clone()) })
        };
        let parts = self.parts.iter().map(part).collect::<Result<_>>()?;
        Ok(is_changed.then(|| Arc::new(Self { parts }) as SharedSource))
    }
}

/// Whether one field, by its name without extension, became different components in different sources.
fn is_torn(all: &[SourceListing]) -> bool {
    let mut names = BTreeMap::<&str, &str>::new();
    all.iter()
        .flat_map(|one| one.listing.components().kinds.iter().chain(&one.payload))
        .any(|kind| *names.entry(kind.column()).or_insert(kind.name()) != kind.name())
}

/// The union of the components; a sample of a source without a component lacks it.
fn join_components(all: &[SourceListing]) -> Result<Vec<Component>> {
    let mut kinds: Vec<Component> = Vec::new();
    for one in all {
        for kind in &one.listing.components().kinds {
            let known = kinds.iter_mut().find(|known| known.name() == kind.name());
            match known.map(|known| (known.join(kind), known)) {
                Some((Some(joined), known)) => *known = joined,
                None => kinds.push(kind.clone()),
                Some((None, _)) => {
                    let what =
                        format!("component {:?} of split {} differs", kind.name(), one.split.as_deref().unwrap_or(""));
                    return Err(Error::usage(format!(
                        "{what} from that of earlier splits: one is text, the other is a file"
                    ))
                    .help("--meta none leaves out all list columns except path and label"));
                }
            }
        }
    }
    // A value component that a split lacks is optional.
    for kind in &mut kinds {
        let is_lacking =
            |one: &SourceListing| !one.listing.components().kinds.iter().any(|own| own.name() == kind.name());
        if let Some(of) = kind.kind().filter(|_| all.iter().any(is_lacking)) {
            *kind = kind.clone().with_kind(Type { is_optional: true, ..of.clone() });
        }
    }
    refuse_two_names(&kinds)?;
    refuse_two_dtypes(&kinds)?;
    // The text comes first, as in a single source.
    kinds.sort_by_key(|kind| !kind.is_text());
    component::check(&kinds).map_err(|error| {
        let names: Vec<_> = kinds.iter().map(Component::name).collect();
        Error::usage(format!("the splits together: {}: {}", error.what(), names.join(", ")))
            .help("--components takes those that it names, or none")
    })?;
    Ok(kinds)
}

/// Fails if the numbers of one column of lists have two dtypes: each list decided for itself.
fn refuse_two_dtypes(kinds: &[Component]) -> Result<()> {
    let is_torn = |kind: &&Component| {
        let of = kind.kind().map(|of| &of.kind);
        kind.listed().is_some() && matches!(of, Some(component::Kind::Array { dtype: None, .. }))
    };
    match kinds.iter().find(is_torn) {
        None => Ok(()),
        Some(kind) => Err(Error::usage(format!(
            "the numbers of {} have another dtype in one split than in the others: --target COLUMN:DTYPE gives all the same",
            kind.name()
        ))),
    }
}

/// Fails if the files of one column have two names, because their extensions differ by split.
fn refuse_two_names(kinds: &[Component]) -> Result<()> {
    for (at, kind) in kinds.iter().enumerate() {
        let Some(column) = kind.file_column() else { continue };
        if let Some(other) = kinds[..at].iter().find(|other| other.file_column() == Some(column)) {
            let (one, two) = (other.name(), kind.name());
            let what = format!("the files of column {column} would be {one} in a split and {two} in another");
            return Err(
                Error::usage(what).help(format!("--file-column {one}={column} gives the files of all splits one name"))
            );
        }
    }
    Ok(())
}

/// Fails if a split shares no class with the first split: the class names then have other meanings.
///
/// # Errors
/// The message names both splits and a class of each.
pub fn check_shared(source: &dyn Source, found: &[SourceListing]) -> Result<()> {
    if source.kind() != SourceKind::Several {
        return Ok(());
    }
    let used = |one: &SourceListing| -> BTreeSet<u32> {
        one.listing.folders().iter().filter_map(|folder| folder.class).collect()
    };
    let Some(first) = found.first() else { return Ok(()) };
    let of_first = used(first);
    for one in &found[1..] {
        let own = used(one);
        let name = |classes: &BTreeSet<u32>| {
            let name = classes.first().and_then(|class| one.listing.classes.get(*class as usize));
            name.map_or_else(String::new, |name| text::shown(name).to_string())
        };
        if !own.is_empty() && !of_first.is_empty() && own.is_disjoint(&of_first) {
            let split = |one: &SourceListing| one.split.clone().unwrap_or_default();
            return Err(Error::usage(format!(
                "split {} shares no class with split {}: {:?} there, {:?} here",
                split(one),
                split(first),
                name(&of_first),
                name(&own)
            ))
            .in_file(source.leaf_of(one.split.as_deref())?.path())
            .help(help::MAP_CLASSES));
        }
    }
    Ok(())
}
