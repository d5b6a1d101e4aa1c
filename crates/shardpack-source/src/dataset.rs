//! Lists sealed datasets as a source, from their manifests and indexes alone.
//!
//! Several datasets are joined by split and by class name.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    formats::{Choice, adopted},
    help,
    index::RowRef,
    size, text,
};
use shardpack_reader::{Dataset, Shard};

use super::{
    COMPONENT, DatasetLocation, SourceListing,
    api::Origin,
    classes::Collector,
    filter::{LEFT_OUT, PathFilter},
    merge_classes, object_classes,
    options::{Options, SPLITS, Splits},
    strangers::{self, STRANGER, STRANGER_BESIDE},
};
use crate::{
    component_table::{Cell, ComponentTable, Interner},
    ledger::{Fate, Unpacked, order},
    monitor::{Monitor, Phase},
};

/// Low bits of a place: the sample's number in stored order. The high bits are the dataset's number.
pub(super) const NUMBER_BITS: u32 = 40;

/// One of the source datasets.
pub(super) struct Member<'r> {
    pub dataset: Arc<Dataset>,
    /// The split that the dataset is.
    pub split: Option<String>,
    /// Unique name among the datasets.
    name: String,
    /// Location of the dataset, and its selected shards.
    root: &'r DatasetLocation,
}

impl Member<'_> {
    /// The selected shards.
    fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        let is_meant = |name: &String| self.root.only.as_ref().is_none_or(|only| only.contains(name));
        self.dataset.shards().filter(move |shard| is_meant(&shard.entry().file))
    }

    /// Names of files that do not belong to the dataset: files beside its shards, or files that the user named.
    ///
    /// `None` if the storage has no list, or allows none.
    fn strangers(&self) -> Result<Option<Vec<String>>> {
        let manifest = self.dataset.manifest();
        match &self.root.only {
            None => strangers::strangers(self.dataset.storage(), manifest),
            Some(only) => {
                let is_shard = |name: &&String| manifest.shards.iter().any(|shard| shard.file == **name);
                Ok(Some(only.iter().filter(|name| !is_shard(name)).cloned().collect()))
            }
        }
    }
}

/// Opens the datasets in `roots` and in the folders of their splits.
pub(super) fn members<'r>(roots: &'r [DatasetLocation], monitor: &dyn Monitor) -> Result<Vec<Member<'r>>> {
    let mut members = Vec::new();
    let mut seen = BTreeSet::new();
    for root in roots {
        for dataset in root.datasets(monitor)? {
            let folder = dataset.storage().resolved()?;
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !seen.insert(folder) {
                return Err(Error::usage("is given twice").in_file(dataset.folder()));
            }
            let split = (dataset.folder() != root.folder).then(|| name.clone());
            members.push(Member { dataset, split, name, root });
        }
    }
    // Splits that were given separately.
    let is_split = |member: &Member<'_>| {
        let is_named = member.split.is_none() && member.name == member.dataset.name();
        Ok(is_named && (SPLITS.contains(&member.name.as_str()) || is_recorded(member)?))
    };
    let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    if names.len() > 1
        && members.iter().map(is_split).try_fold(true, |all, one: Result<bool>| Ok::<_, Error>(all && one?))?
    {
        members.iter_mut().for_each(|member| member.split = Some(member.name.clone()));
    }
    // Datasets of the same name get a number.
    let mut count = BTreeMap::<(Option<String>, String), u64>::new();
    for member in &mut members {
        let times = count.entry((member.split.clone(), member.name.clone())).or_default();
        *times += 1;
        if *times > 1 {
            member.name += &format!("-{times}");
        }
    }
    Ok(members)
}

/// Whether the folder above `member` has a splits record that names it.
fn is_recorded(member: &Member<'_>) -> Result<bool> {
    let record = member.root.record_above(member.dataset.folder())?;
    Ok(record.is_some_and(|record| record.splits.iter().any(|split| split.name == member.name)))
}

/// Names and paths of entries beside the split folders in `roots` that are not splits, and whether all these folders could be
/// listed.
fn beside_splits(roots: &[DatasetLocation], members: &[Member<'_>]) -> Result<(Vec<(String, PathBuf)>, bool)> {
    let (mut found, mut are_listed) = (Vec::new(), true);
    for root in roots {
        let folder = &root.folder;
        let splits: Vec<_> =
            members.iter().filter_map(|member| member.dataset.folder().strip_prefix(folder).ok()).collect();
        if splits.iter().any(|split| split.as_os_str().is_empty()) {
            continue;
        }
        let strange = strangers::beside_splits(root.storage(), |name| splits.contains(&Path::new(name)))?;
        are_listed &= strange.is_some();
        found.extend(strange.into_iter().flatten().map(|name| (name.clone(), folder.join(name))));
    }
    Ok((found, are_listed))
}

/// Adds a file that does not belong to the dataset. Shards are reported as skipped, because they would be lost; other
/// files are counted.
fn add_stranger(
    (name, path): (String, &Path),
    reason: &'static str,
    unpacked: &mut Vec<Unpacked>,
    ignored: &mut BTreeMap<String, u64>,
) -> Result<()> {
    match strangers::is_shard(path)? {
        true => {
            unpacked.push(Unpacked { path: name.into(), class: None, fate: Fate::Skipped, reason: reason.into() });
        }
        false => *ignored.entry(reason.to_owned()).or_default() += 1,
    }
    Ok(())
}

/// Lists the datasets in `roots` or in their splits. Datasets of the same split are joined, and so are datasets without
/// a split.
pub(super) fn discover(
    roots: &[DatasetLocation],
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Vec<SourceListing>> {
    let keep = PathFilter::new(options)?;
    monitor.begin(Phase::Walking, 0, 0);
    let mut members = members(roots, monitor)?;
    let (components, are_listed) = beside_splits(roots, &members)?;
    let root = || roots.first().map_or(Path::new("."), |root| &root.folder);
    match &options.splits {
        Splits::None => members.iter_mut().for_each(|member| {
            if let Some(split) = member.split.take() {
                member.name = split;
            }
        }),
        Splits::Names(names) => {
            let is_there = |name: &&String| members.iter().any(|member| member.split.as_ref() == Some(name));
            if let Some(missing) = names.iter().find(|name| !is_there(name)) {
                return Err(Error::usage(format!("no split {missing:?}, which --splits names")).in_file(root()));
            }
            members.retain(|member| member.split.as_ref().is_some_and(|split| names.contains(split)));
        }
        Splits::Auto | Splits::Compared(_) => {
            let parted = members.iter().find(|member| member.split.is_some());
            let whole = members.iter().find(|member| member.split.is_none());
            if let (Some(parted), Some(whole)) = (parted, whole) {
                let what = format!("has no splits, but {} is a split", text::path(&parted.dataset.folder()));
                return Err(Error::usage(what)
                    .in_file(whole.dataset.folder())
                    .help("--splits none packs all as one dataset; --split NAME=SRC names the split of each source"));
            }
        }
    }
    let lists: Vec<Vec<merge_classes::Name>> = members.iter().map(|member| names_of(member, options)).collect();
    let who = |member: &Member<'_>| text::path(&member.dataset.folder()).to_string();
    // A whole split may lack labels, as test splits do; a part of a split may not.
    let with_labels = members.iter().zip(&lists).filter(|(_, names)| !names.is_empty());
    let with_labels: BTreeSet<&Option<String>> = with_labels.map(|(member, _)| &member.split).collect();
    let lists = members.iter().zip(&lists).filter(|(member, _)| with_labels.contains(&member.split));
    let lists = lists.map(|(member, names)| merge_classes::Named { who: who(member), names, is_numbered: false });
    let classes = Arc::new(merge_classes::merge(&lists.collect::<Vec<_>>())?);
    let mut names: Vec<Option<String>> = members.iter().map(|member| member.split.clone()).collect();
    names.sort_by_key(|split| {
        let known = split.as_ref().and_then(|split| SPLITS.iter().position(|known| known == split));
        (known.unwrap_or(SPLITS.len()), split.clone())
    });
    names.dedup();
    let of_split = |split: &Option<String>| {
        let members: Vec<&Member<'_>> = members.iter().filter(|member| member.split == *split).collect();
        let classes = if with_labels.contains(split) { Arc::clone(&classes) } else { Arc::default() };
        of_members(&members, &classes, &keep, options, monitor)
            .map(|found| SourceListing { split: split.clone(), ..found })
    };
    let mut found: Vec<SourceListing> = names.iter().map(of_split).collect::<Result<_>>()?;
    object_classes::join_splits(&mut found)?;
    let mut is_noted = false;
    for one in &mut found {
        // Once is enough.
        one.notes.retain(|note| note != strangers::NOT_LISTED || !std::mem::replace(&mut is_noted, true));
    }
    // These files belong to no known split, so all are reported with the first.
    if let Some(first) = found.first_mut() {
        if !are_listed && !is_noted {
            first.notes.push(strangers::NOT_LISTED.to_owned());
        }
        for (name, path) in &components {
            add_stranger((name.clone(), path), STRANGER_BESIDE, &mut first.unpacked, &mut first.ignored)?;
        }
        first.unpacked.sort_unstable_by(order);
    }
    Ok(found)
}

/// Class names of `member` in the order of labels; empty if labels are disabled.
fn names_of(member: &Member<'_>, options: &Options) -> Vec<merge_classes::Name> {
    let classes = if options.no_labels { &[] } else { member.dataset.classes() };
    classes.iter().map(|class| class.name_bytes().into()).collect()
}

/// The requested components of `dataset` with their component numbers, and the names of the other components.
fn wanted_components(dataset: &Dataset, choice: &Choice, options: &Options) -> (Vec<(Component, usize)>, Vec<String>) {
    // The chosen components are the last in the manifest.
    let first = dataset.manifest().components.len().saturating_sub(choice.components.len());
    let own = choice.components.iter().map(Component::stored).zip(first..);
    let (kept, left): (Vec<_>, Vec<_>) = own.partition(|(kind, _)| {
        let is_wanted = [kind.name(), kind.column()].iter().any(|name| options.components.wants(name));
        is_wanted && (!options.no_text || options.with.contains(kind))
    });
    (kept, left.iter().map(|(kind, _)| kind.name().to_owned()).collect())
}

/// Fields in the shards of an adopted dataset that its index lacks, with the number of samples that have the field.
fn unindexed(dataset: &Dataset) -> BTreeMap<String, u64> {
    let manifest = dataset.manifest();
    if !manifest.format.settings.contains_key(adopted::SETTING) {
        return BTreeMap::new();
    }
    let fields = manifest.ignored_files.iter().filter(|(reason, _)| reason.starts_with(COMPONENT));
    fields.map(|(reason, samples)| (reason.clone(), *samples)).collect()
}

/// Components and payload for datasets that are listed as one. Names must be equal; each type is the common type of
/// all.
fn join_components(members: &[&Member<'_>], options: &Options) -> Result<(Vec<Component>, Option<Component>)> {
    let mut all: Option<(Vec<Component>, Option<Component>)> = None;
    for member in members {
        let choice = Choice::of_manifest(member.dataset.manifest())?;
        let own: Vec<_> =
            wanted_components(&member.dataset, &choice, options).0.into_iter().map(|(kind, _)| kind).collect();
        let Some((kinds, payload)) = &mut all else {
            all = Some((own, choice.payload));
            continue;
        };
        let payloads = match (&payload, &choice.payload) {
            (None, None) => Some(None),
            (Some(a), Some(b)) => a.join(b).map(Some),
            _ => None,
        };
        let Some(payloads) = payloads else {
            let say = |payload: &Option<Component>| payload.as_ref().map_or("image", Component::name).to_owned();
            let what = format!("its samples are {}s, those of other datasets {}s", say(&choice.payload), say(payload));
            return Err(Error::usage(what).in_file(member.dataset.folder()).help(help::ONE_KIND));
        };
        let joined: Option<Vec<_>> = match own.len() == kinds.len() {
            true => kinds.iter().zip(&own).map(|(a, b)| a.join(b)).collect(),
            false => None,
        };
        let Some(joined) = joined else {
            let say = |kinds: &[Component]| match kinds {
                [] => "nothing".to_owned(),
                kinds => kinds.iter().map(Component::name).collect::<Vec<_>>().join(", "),
            };
            let what = format!("has {} beside its images, other datasets have {}", say(&own), say(kinds));
            return Err(Error::usage(what).in_file(member.dataset.folder()).help("--meta none leaves them out"));
        };
        all = Some((joined, payloads));
    }
    Ok(all.unwrap_or_default())
}

/// Notes about components of `member` that are not taken.
fn left_behind(member: &Member<'_>, left: &[String], unindexed: &BTreeMap<String, u64>) -> Vec<String> {
    let mut notes = Vec::new();
    if !left.is_empty() {
        notes.push(format!("left behind: {}", left.join(", ")));
    }
    if !unindexed.is_empty() {
        let names: Vec<_> = unindexed.keys().filter_map(|reason| reason.strip_prefix(COMPONENT)).collect();
        // The note includes the way to keep the fields.
        let from = format!("convert --from {} takes the shards with them", member.dataset.manifest().format.name);
        notes.push(format!("left behind: {}, which adopt left out of its index; {from}", names.join(", ")));
    }
    notes
}

/// Notes about shards of `member` that were not given, and about images that it does not hold.
fn not_in_dataset(member: &Member<'_>) -> Vec<String> {
    let (mut notes, manifest) = (Vec::new(), member.dataset.manifest());
    if member.root.only.is_some() {
        let (named, all) = (member.shards().count(), manifest.shards.len());
        notes.push(format!("{named} of {all} shards of a dataset, as given"));
    }
    let counts = manifest.ledger.counts;
    let left_out = counts.discovered - counts.packed;
    if left_out > 0 {
        let images = size::counted(left_out, "image");
        notes.push(format!("left out when this dataset was packed: {images}; in its ledger.jsonl"));
    }
    notes
}

/// The class of a sample with this label in its own dataset; `numbers` has the classes of its labels.
fn class_of(label: Option<i64>, numbers: &[Option<u32>]) -> std::result::Result<u32, String> {
    let label = label.ok_or("no label")?;
    let class = usize::try_from(label).ok().and_then(|label| numbers.get(label).copied().flatten());
    class.ok_or_else(|| format!("label {label}: there is no such class"))
}

/// The cell of a kept component of `row`, and its number in the dataset.
fn cell_of(row: &RowRef<'_>, (kind, at): &(Component, usize), forms: &mut Interner) -> Cell {
    match (row.content_bytes(*at), row.form(*at)) {
        (Some(bytes), Some(form)) if kind.kind().is_some() => Cell { form: forms.number(form), ..Cell::file(bytes, 0) },
        (bytes, _) => bytes.map_or(Cell::ABSENT, |bytes| Cell::file(bytes, 0)),
    }
}

/// Lists these datasets as one.
fn of_members(
    members: &[&Member<'_>],
    classes: &Arc<Vec<merge_classes::Name>>,
    keep: &PathFilter,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<SourceListing> {
    let is_alone = members.len() == 1;
    let mut notes = Vec::new();
    let mut note = |member: &Member<'_>, note: String| match is_alone {
        true => notes.push(note),
        false => notes.push(format!("{}: {note}", member.name)),
    };
    let (mut unpacked, mut kinds, mut ignored) = (Vec::new(), BTreeMap::new(), BTreeMap::<String, u64>::new());
    let (kinds_of_all, payload) = join_components(members, options)?;
    let values = payload.clone().filter(|payload| payload.kind().is_some());
    let table = ComponentTable { payload: values.clone(), ..ComponentTable::new(kinds_of_all) };
    let (mut collector, mut forms) = (Collector::with(classes, table), Interner::default());
    let (mut meta, mut is_listed, mut named, mut origin) = (false, true, Vec::new(), None::<Origin>);
    let mut list_clues = None::<Option<String>>;
    let mut files: Vec<String> = Vec::new();
    for (at, member) in members.iter().enumerate() {
        let dataset = &member.dataset;
        let choice = Choice::of_manifest(dataset.manifest())?;
        files.extend(choice.files.iter().filter(|one| !files.contains(one)).cloned().collect::<Vec<_>>());
        let (kept, left) = wanted_components(dataset, &choice, options);
        let unindexed = unindexed(dataset);
        left_behind(member, &left, &unindexed).into_iter().for_each(|text| note(member, text));
        unindexed.into_iter().for_each(|(reason, samples)| *ignored.entry(reason).or_default() += samples);
        let component_kinds: Vec<Component> = kept.iter().map(|(kind, _)| kind.clone()).collect();
        let is_other = list_clues.as_ref().is_some_and(|clues| *clues != choice.list_clues);
        list_clues = Some(choice.list_clues.clone().filter(|_| !is_other));
        let own = Origin::new(&choice, dataset.name());
        origin = Some(origin.map_or(own.clone(), |origin| origin.common(&own)));
        named.push((member.name.as_str(), component_kinds.clone(), choice.component_classes.clone()));
        if options.meta && !choice.json && component_kinds.iter().any(Component::is_text) {
            note(member, "the component json stays as it is: --meta json adds nothing to it".to_owned());
        }
        meta |= !component_kinds.is_empty() && choice.json;
        let own = names_of(member, options);
        let numbers = merge_classes::numbers(&own, classes);
        for (place, number) in member.shards().flat_map(|shard| shard.samples()).enumerate() {
            if place % 4096 == 0 {
                monitor.check_cancelled()?;
            }
            let row = dataset.row(number)?;
            let bytes = row.content_bytes(0).unwrap_or(0);
            let mut refuse = |class, fate, reason: String| {
                let path = match is_alone {
                    true => row.path.to_vec(),
                    false => [member.name.as_bytes(), b"/", row.path].concat(),
                };
                unpacked.push(Unpacked { path, class, fate, reason: reason.into() });
            };
            match if own.is_empty() { Ok(None) } else { class_of(row.label, &numbers).map(Some) } {
                Err(reason) => refuse(None, Fate::Skipped, reason),
                Ok(class) if !keep.wants(row.path) => refuse(class, Fate::Filtered, LEFT_OUT.to_owned()),
                Ok(class) => {
                    if payload.is_none() {
                        *kinds.entry(row.image.kind).or_default() += 1;
                    }
                    collector.add_path(class, row.path, bytes, (at as u64) << NUMBER_BITS | number, 0)?;
                    if !kept.is_empty() {
                        let cells = kept.iter().map(|kept| cell_of(&row, kept, &mut forms));
                        collector.add_components(&cells.collect::<Vec<_>>(), None);
                    }
                    if values.is_some() {
                        collector.add_payload_form(forms.number(row.form(0).unwrap_or(&Form::Bytes)));
                    }
                    monitor.advance(1, bytes.into());
                }
            }
        }
        let strangers = member.strangers()?;
        is_listed &= strangers.is_some();
        for name in strangers.into_iter().flatten() {
            let path = dataset.folder().join(&name);
            let name = if is_alone { name } else { format!("{}/{name}", member.name) };
            add_stranger((name, &path), STRANGER, &mut unpacked, &mut ignored)?;
        }
        not_in_dataset(member).into_iter().for_each(|text| note(member, text));
    }
    if !is_listed {
        notes.push(strangers::NOT_LISTED.to_owned());
    }
    unpacked.sort_unstable_by(order);
    collector.set_forms(forms.finish());
    let mut listing = collector.finish();
    if !is_alone {
        listing.disambiguate_keys(|place, name| {
            [members[(place >> NUMBER_BITS) as usize].name.as_bytes(), b"/", name].concat()
        })?;
    }
    let of_number = |place: u64| place & ((1 << NUMBER_BITS) - 1);
    listing.disambiguate_keys(|place, name| [format!("{}/", of_number(place)).as_bytes(), name].concat())?;
    let listing = Arc::new(listing);
    let parts: Vec<_> = named.iter().map(|(who, kinds, classes)| (*who, kinds.as_slice(), classes)).collect();
    let (component_classes, of_classes) = object_classes::join(&parts)?;
    notes.extend(of_classes);
    let found =
        SourceListing { listing, unpacked, ignored, kinds, notes, meta, payload, files, ..SourceListing::default() };
    Ok(SourceListing {
        component_classes,
        origin: origin.unwrap_or_default(),
        list_clues: list_clues.flatten(),
        ..found
    })
}
