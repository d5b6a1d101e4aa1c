//! Fields of records as arrays: `--target age` packs the numbers of a field, or of a member of the component json, as `age.npy`.
//!
//! The fields are listed as components first. Then their values are read, and the listing holds the arrays.
//!
//! Holds at all times: a sample with a bad value is not listed, and has a reason. A component that was listed only to be read is left out.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use shardpack_format::{
    Error, Result,
    component::{self, Component, Form, Kind, MAX_DATASET_COMPONENTS, Type, numpy_name},
    field_names,
    formats::foreign::FieldSelection,
};

use super::{Shards, discover::refused, shard_reader};
use crate::{
    COMPONENT, ReadError, Refusal, SampleReader, SourceListing,
    component_table::{Cell, ComponentTable},
    ledger::{Fate, order},
    list::json,
    listing::Listing,
    missing_components::lacking,
    monitor::{Monitor, Phase},
    options::{Components, Options},
    parallel::each,
    retry::Retrying,
    storage::NETWORK_READS,
    target_values::{Arrays, EXTENSIONS, Target, array_text, stem},
};

/// Advice if a target has the name of another component.
const OTHER_NAME: &str = "--target NAME=COLUMN gives the values of COLUMN another name";
/// Component whose members may be targets.
const JSON: &str = "json";
/// Names of label fields, which readers list as `labels`.
const LABELS: [&str; 2] = ["label", "cls"];
const LABEL: &str = "labels";
/// Longest value of a target in bytes.
const VALUE_BYTES: u32 = 64 << 20;
/// Samples between two progress reports.
const TELL: u64 = 256;

/// Where the values of a target are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// They are this component.
    Component(usize),
    /// They are a member of this component.
    Member(usize),
}

impl Place {
    fn which(self) -> usize {
        match self {
            Self::Component(which) | Self::Member(which) => which,
        }
    }
}

/// The value of a target in a sample: text, empty if there is none, or the reason why it cannot be read.
type Value = Result<String, String>;

impl Shards {
    /// As [`Shards::list`], with the targets that the user or a dataset names.
    ///
    /// # Errors
    /// As [`Shards::list`]; also if no sample has a target, or no value of a target is a number or a list of numbers.
    pub(super) fn list_with_targets(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        let mut targets = said(&self.wanted, options)?;
        if targets.is_empty() {
            let found = self.list(options, monitor)?;
            // Labels that the user leaves out stay as they are.
            let is_left_out = options.no_labels || self.wanted.no_labels;
            return if is_left_out { Ok(found) } else { self.with_measured_labels(found, monitor) };
        }
        let (walked, extra) = walked(&self.wanted, &targets, options);
        let list = |options: &Options| {
            self.list(options, monitor).map(|mut found| {
                drop_ghosts(&mut found, &extra);
                found
            })
        };
        let mut found = list(&walked)?;
        let mut places = self.places(&mut targets, &found);
        if places.is_err() && !walked.no_labels && !self.wanted.no_labels {
            // A target is no class.
            found = list(&Options { no_labels: true, ..walked.clone() })?;
            places = self.places(&mut targets, &found);
        }
        let places = places.map_err(|error| error.in_file(&self.files[0].shard.path))?;
        let is_array = |(target, place): &(&Target, &Place)| is_array(target, **place, &found);
        let are_done: Vec<bool> = targets.iter().zip(&places).map(|both| is_array(&both)).collect();
        let kinds = found.first().map(|one| one.listing.components().kinds.clone()).unwrap_or_default();
        let done = places.iter().zip(&are_done).filter(|(_, is_done)| **is_done);
        let done: Vec<Component> = done.filter_map(|(place, _)| kinds.get(place.which()).cloned()).collect();
        let mut are_done = are_done.into_iter();
        let todo: Vec<_> = targets.into_iter().zip(places).filter(|_| are_done.next() == Some(false)).collect();
        let (mut todo, places): (Vec<Target>, Vec<Place>) = todo.into_iter().unzip();
        let bad = self.read(&found, &mut todo, &places, monitor)?;
        self.replace(&mut found, &todo, &places, bad)?;
        found.iter_mut().for_each(|one| drop_extra(one, &extra, &done));
        Ok(found)
    }

    /// Labels that are no classes, but numbers or lists of numbers in all samples, as arrays.
    fn with_measured_labels(&self, mut found: Vec<SourceListing>, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        // Classes come from elsewhere, and samples of values have their own types.
        let is_other =
            |one: &SourceListing| !one.listing.classes.is_empty() || one.listing.components().payload.is_some();
        if found.iter().any(is_other) {
            return Ok(found);
        }
        let kinds = found.first().map(|one| one.listing.components().kinds.clone()).unwrap_or_default();
        let is_text = |kind: &Component| {
            kind.kind().is_none_or(|of| matches!(of.kind, Kind::Json | Kind::Int | Kind::Float | Kind::Text))
        };
        let rank = |kind: &&Component| field_names::rank(kind.column(), &field_names::LABELS);
        let labels = kinds.iter().filter(|kind| rank(kind).is_some()).min_by_key(rank);
        let Some(kind) = labels.filter(|kind| is_text(kind) || of_one_label(kind).is_some()) else { return Ok(found) };
        let dtype = of_one_label(kind).map(|dtype| format!(":{dtype}")).unwrap_or_default();
        let mut targets = vec![Target::parse(&format!("{}{dtype}", kind.column()))?];
        let Ok(places) = self.places(&mut targets, &found) else { return Ok(found) };
        let bad = self.read(&found, &mut targets, &places, monitor)?;
        if bad.is_empty() && targets.iter().all(Target::are_arrays) {
            self.replace(&mut found, &targets, &places, bad)?;
        }
        Ok(found)
    }

    /// Reads the values of the targets in all samples; returns why some cannot be read, by number of the sample.
    fn read(
        &self,
        found: &[SourceListing],
        targets: &mut [Target],
        places: &[Place],
        monitor: &dyn Monitor,
    ) -> Result<BTreeMap<usize, String>> {
        let mut bad = BTreeMap::new();
        let mut rows = 0..;
        for one in found {
            let values = self.values(one, targets, places, monitor)?.into_iter().zip(&mut rows);
            bad.extend(values.filter_map(|(values, row)| Some((row, push_all(targets, values)?))));
        }
        Ok(bad)
    }

    /// Where the values of each target are.
    ///
    /// # Errors
    /// If no sample has them.
    fn places(&self, targets: &mut [Target], found: &[SourceListing]) -> Result<Vec<Place>> {
        let Some(first) = found.first() else { return Ok(Vec::new()) };
        let table = first.listing.components();
        let named = |name: &str| {
            let ways: [&dyn Fn(&Component) -> bool; 3] =
                [&|one| one.name() == name, &|one| one.column() == name, &|one| stem(one.name()) == name];
            let is =
                |which: &usize, is: &dyn Fn(&Component) -> bool| is(&table.kinds[*which]) && is_there(found, *which);
            ways.iter().find_map(|way| (0..table.kinds.len()).find(|which| is(which, way)))
        };
        let mut places = Vec::with_capacity(targets.len());
        for target in targets {
            let field = self.wanted.called(&target.column).into_owned();
            let is_label = LABELS.contains(&&*field.to_lowercase()) || self.wanted.label.as_deref() == Some(&field);
            let name = Component::field(&field).map_or_else(|_| field.to_lowercase(), |one| one.name().to_owned());
            let own = named(&name).or_else(|| named(LABEL).filter(|_| is_label)).map(Place::Component);
            let has_no_member = || {
                let names: Vec<_> = table.kinds.iter().map(Component::column).collect();
                let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let what = match table.payload.as_ref().is_some_and(|payload| payload.column() == name) {
                    true => "it is the payload of the samples".to_owned(),
                    false if first.ignored.contains_key(&format!("{COMPONENT}{field}")) => {
                        "the field is there, and is of a type that is not read as numbers, such as decimals and times"
                            .to_owned()
                    }
                    false => format!("no such field beside image and label: there are {there}"),
                };
                Error::usage(format!("--target {}: {what}", target.column))
            };
            let place = own.or_else(|| named(JSON).map(Place::Member)).ok_or_else(has_no_member)?;
            target.member = if own.is_some() && is_label { LABEL.to_owned() } else { field };
            places.push(place);
        }
        Ok(places)
    }

    /// The values of the targets in each sample, in the order of the listing.
    fn values(
        &self,
        found: &SourceListing,
        targets: &[Target],
        places: &[Place],
        monitor: &dyn Monitor,
    ) -> Result<Vec<Vec<Value>>> {
        let listing = &*found.listing;
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        monitor.begin(Phase::Walking, listing.len(), 0);
        let read = Mutex::new(Vec::with_capacity(listing.len() as usize));
        let take = |number: u64, reader: &dyn SampleReader| {
            if number.is_multiple_of(TELL) {
                monitor.check_cancelled()?;
                monitor.advance(TELL.min(listing.len() - number), 0);
            }
            let value = |(target, place): (&Target, &Place)| match content(reader, listing, number, place.which())? {
                Ok(text) if matches!(place, Place::Member(_)) => Ok(member(&text, &target.column)),
                other => Ok(other),
            };
            let values = targets.iter().zip(places).map(value).collect::<Result<Vec<_>>>()?;
            read.lock().unwrap_or_else(PoisonError::into_inner).push((number, values));
            Ok(())
        };
        match self.files.iter().all(|file| file.shard.is_plain()) {
            true => {
                let reader = Retrying(self.reader(listing, None, monitor)?);
                let mut numbers: Vec<u64> = (0..listing.len()).collect();
                numbers.sort_unstable_by_key(|number| listing.entry(*number).place);
                let threads = if self.urls.is_some() { NETWORK_READS } else { shardpack_runtime::threads::cores() };
                each(&numbers, threads, |number| take(*number, &reader))?;
            }
            // Nothing is unpacked to disk only for this.
            false => {
                let which: Vec<usize> = places.iter().map(|place| place.which()).collect();
                self.pass(listing, &which, monitor, take)?;
            }
        }
        let mut read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
        read.sort_unstable_by_key(|(number, _)| *number);
        Ok(read.into_iter().map(|(_, values)| values).collect())
    }

    /// Replaces the components of the targets by arrays. Samples with a bad value are left out.
    fn replace(
        &self,
        found: &mut [SourceListing],
        targets: &[Target],
        places: &[Place],
        mut bad: BTreeMap<usize, String>,
    ) -> Result<()> {
        let Some(table) = found.first().map(|first| first.listing.components()) else { return Ok(()) };
        let (mut kinds, mut forms, mut texts) = (table.kinds.clone(), table.forms.to_vec(), table.texts.to_vec());
        let mut columns: Vec<(usize, Arrays)> = Vec::new();
        for (target, place) in targets.iter().zip(places) {
            let mut arrays = target.arrays(&mut texts, forms.len() as u32, |number| shown(found, number))?;
            forms.append(&mut arrays.forms);
            for (number, what) in &arrays.bad {
                bad.entry(*number).or_insert_with(|| format!("field {:?}: {what}", target.column));
            }
            let is_lacking = |(number, cell): (usize, &Cell)| cell.length().is_none() && !bad.contains_key(&number);
            let is_optional = arrays.cells.iter().enumerate().any(is_lacking);
            let kind = arrays.component.kind().cloned().map(|kind| Type { is_optional, ..kind });
            let component = kind.iter().fold(arrays.component.clone(), |one, kind| one.with_kind(kind.clone()));
            let at = match place {
                Place::Component(which) if columns.iter().all(|(at, _)| at != which) => *which,
                _ => {
                    kinds.push(component.clone());
                    kinds.len() - 1
                }
            };
            kinds[at] = component;
            columns.push((at, arrays));
        }
        let is_of_names = kinds.len() <= MAX_DATASET_COMPONENTS;
        component::check(&kinds).map_err(|error| if is_of_names { error.help(OTHER_NAME) } else { error })?;
        let (forms, texts) = (Arc::new(forms), Arc::new(texts));
        let mut start = 0;
        for one in found {
            let (old, samples) = (one.listing.components(), one.listing.len());
            let mut cells = Vec::with_capacity(kinds.len() * samples as usize);
            for number in 0..samples {
                let mut of_sample = old.cells_of(number).to_vec();
                of_sample.resize(kinds.len(), Cell::ABSENT);
                for (at, arrays) in &columns {
                    of_sample[*at] = arrays.cells.get(start + number as usize).copied().unwrap_or(Cell::ABSENT);
                }
                cells.extend(of_sample);
            }
            let (kinds, forms, texts) = (kinds.clone(), Arc::clone(&forms), Arc::clone(&texts));
            let table = ComponentTable { kinds, cells, forms, texts, ..old.clone() };
            let listing = one.listing.with_values(&[], table);
            let kept: Vec<u64> = (0..samples).filter(|number| !bad.contains_key(&(start + *number as usize))).collect();
            for number in (0..samples).filter(|number| bad.contains_key(&(start + *number as usize))) {
                let (file, offset) = shard_reader::of_place(listing.entry(number).place);
                let (file, mut path) = (&self.files[file], Vec::new());
                listing.path(number, &mut path);
                let reason = format!("{} ({})", bad[&(start + number as usize)], file.shard.place(&file.name, offset));
                one.unpacked.push(refused(file, listing.folder(number).class, &path, Fate::Skipped, reason));
            }
            one.unpacked.sort_unstable_by(order);
            let listing = if kept.len() as u64 == samples { listing } else { listing.subset(&kept) };
            // Components of the source have their notes already.
            let of_members: Vec<_> = listing.components().kinds.iter().skip(old.kinds.len()).cloned().collect();
            one.notes.extend(lacking(&listing.with_kinds(&of_members), "image"));
            one.listing = Arc::new(listing);
            start += samples as usize;
        }
        Ok(())
    }
}

/// Adds the values of a sample to the targets; returns why one cannot be read.
fn push_all(targets: &mut [Target], values: Vec<Value>) -> Option<String> {
    let mut bad = None;
    for (target, value) in targets.iter_mut().zip(values) {
        target.push(value.as_deref().unwrap_or_default());
        bad = bad.or(value.err().map(|why| format!("field {:?}: {why}", target.column)));
    }
    bad
}

/// The targets that the user names, or those of a dataset that is compared with the shards.
fn said(wanted: &FieldSelection, options: &Options) -> Result<Vec<Target>> {
    let of_dataset = match &options.components {
        Components::Named(kinds) => kinds.iter().filter_map(Component::listed).map(str::to_owned).collect(),
        Components::All | Components::None => Vec::new(),
    };
    let said = if wanted.targets.is_empty() { of_dataset } else { wanted.targets.clone() };
    said.iter().map(|said| Target::parse(said)).collect()
}

/// The options for listing the fields of the targets, and the components that the user does not want otherwise. The fields are in the
/// places of the arrays of a dataset that is compared with the shards.
fn walked(wanted: &FieldSelection, targets: &[Target], options: &Options) -> (Options, Vec<Component>) {
    let kinds = match &options.components {
        Components::All if !options.no_text => return (options.clone(), Vec::new()),
        Components::All | Components::None => &[][..],
        Components::Named(kinds) => kinds,
    };
    let is_label = |field: &str| LABELS.contains(&field) || wanted.label.as_deref() == Some(field);
    let fields = |target: &Target| {
        let field = wanted.called(&target.column).into_owned();
        let label = is_label(&field.to_lowercase()).then(|| LABEL.to_owned());
        // The user may leave out the extension of a member of a tar.
        let files = EXTENSIONS.map(|extension| format!("{field}{extension}"));
        [field].into_iter().chain(label).chain(files)
    };
    let is_named = |field: &Component| kinds.iter().any(|one| one.listed().is_none() && one.name() == field.name());
    let (mut named, mut extra) = (Vec::<Component>::new(), Vec::<Component>::new());
    let of_kinds = kinds.iter().flat_map(|kind| match kind.listed() {
        None => vec![Ok(kind.clone())],
        Some(said) => targets.iter().filter(|one| one.is_said(said)).flat_map(fields).map(Err).collect(),
    });
    let of_targets = targets.iter().flat_map(fields).chain([JSON.to_owned()]).map(Err);
    for one in of_kinds.chain(of_targets) {
        match one {
            Ok(kind) => named.push(kind),
            Err(field) => {
                let field = Component::field(&field).ok().filter(|field| !is_named(field));
                if let Some(field) = field.filter(|field| extra.iter().all(|one| one.name() != field.name())) {
                    named.push(field.clone());
                    extra.push(field);
                }
            }
        }
    }
    (Options { components: Components::Named(named), ..options.clone() }, extra)
}

/// Whether the values of a target are arrays already, with the dtype that the user wants.
fn is_array(target: &Target, place: Place, found: &[SourceListing]) -> bool {
    let kind = |one: &SourceListing| one.listing.components().kinds.get(place.which())?.kind().cloned();
    let dtype = |one: &SourceListing| match kind(one)?.kind {
        Kind::Array { dtype, .. } => dtype,
        _ => None,
    };
    let is = matches!(place, Place::Component(_)) && !target.has_name();
    let is_one_label = found.first().and_then(|one| one.listing.components().kinds.get(place.which()));
    is && is_one_label.and_then(of_one_label).is_none() && found.iter().all(|one| target.takes(dtype(one).as_deref()))
}

/// The dtype of labels that are arrays of one number each, which are single numbers.
fn of_one_label(kind: &Component) -> Option<&'static str> {
    match &kind.kind().filter(|_| kind.column() == LABEL)?.kind {
        Kind::Array { dtype: Some(dtype), shape: Some(shape) } if *shape == [Some(1)] => numpy_name(dtype),
        _ => None,
    }
}

/// Leaves out the components that no sample has and that the user did not name, with the notes on them.
fn drop_ghosts(found: &mut [SourceListing], extra: &[Component]) {
    let kinds = found.first().map(|one| one.listing.components().kinds.clone()).unwrap_or_default();
    let is_ghost = |(which, kind): &(usize, &Component)| extra.contains(kind) && !is_there(found, *which);
    let (ghosts, kept): (Vec<_>, Vec<_>) = kinds.iter().enumerate().partition(is_ghost);
    let [ghosts, kept] = [ghosts, kept].map(|all| all.into_iter().map(|(_, kind)| kind.clone()).collect::<Vec<_>>());
    if ghosts.is_empty() {
        return;
    }
    for one in found {
        let of_ghosts = one.listing.with_kinds(&ghosts);
        let notes = ["image", "sample"].map(|noun| lacking(&of_ghosts, noun)).concat();
        one.notes.retain(|note| !notes.contains(note));
        one.listing = Arc::new(one.listing.with_kinds(&kept));
    }
}

/// Whether any sample has component `which`.
fn is_there(found: &[SourceListing], which: usize) -> bool {
    found.iter().any(|one| {
        let table = one.listing.components();
        table.cells.iter().skip(which).step_by(table.kinds.len().max(1)).any(|cell| cell.length().is_some())
    })
}

/// The path of sample `number` of all listings, for a message.
fn shown(found: &[SourceListing], mut number: usize) -> String {
    for one in found {
        match number.checked_sub(one.listing.len() as usize) {
            Some(rest) => number = rest,
            None => return one.listing.shown(number as u64),
        }
    }
    String::new()
}

/// Leaves out the components that were listed only to be read.
fn drop_extra(found: &mut SourceListing, extra: &[Component], done: &[Component]) {
    let is_extra = |kind: &Component| {
        kind.listed().is_none()
            && !done.contains(kind)
            && extra.iter().any(|one| [kind.name(), kind.column()].contains(&one.name()))
    };
    let kinds = &found.listing.components().kinds;
    let kept: Vec<Component> = kinds.iter().filter(|kind| !is_extra(kind)).cloned().collect();
    for kind in kinds.iter().filter(|kind| is_extra(kind)) {
        let what = format!("{COMPONENT}{}", kind.column());
        if let Some(samples) = found.carried.remove(&what) {
            *found.ignored.entry(what).or_default() += samples;
        }
    }
    if kept.len() < kinds.len() {
        found.listing = Arc::new(found.listing.with_kinds(&kept));
    }
}

/// Component `which` of sample `number` as text.
fn content(reader: &dyn SampleReader, listing: &Listing, number: u64, which: usize) -> Result<Value> {
    let components = listing.components();
    let cell = components.cells_of(number).get(which).copied().unwrap_or(Cell::ABSENT);
    let Some(bytes) = cell.length() else { return Ok(Ok(String::new())) };
    if bytes > VALUE_BYTES {
        return Ok(Err(format!("a value of {bytes} bytes")));
    }
    let mut content = vec![0; bytes as usize];
    match reader.read_component(number, which, &mut content) {
        Err(ReadError::Fatal(error)) => return Err(error),
        Err(ReadError::Refused(Refusal(why))) => return Ok(Err(why)),
        Ok(()) => {}
    }
    // A file beside the image may be an array.
    let form = match components.form(cell.form) {
        Form::Bytes => Form::of_npy(&content, u64::from(bytes)).unwrap_or_default(),
        form => form.clone(),
    };
    let is_one_label = components.kinds.get(which).and_then(of_one_label).is_some();
    let form = match form {
        Form::Array { dtype, .. } if is_one_label => Form::Array { dtype, shape: Vec::new() },
        form => form,
    };
    Ok(match form.items(&content) {
        Some(items) => {
            array_text(&form, items).ok_or_else(|| format!("{form} is no array of numbers that can be converted"))
        }
        None => String::from_utf8(content).map_err(|_| "not UTF-8, and no array".to_owned()),
    })
}

/// A member of a JSON object, the last one of the name, as JSON readers take it; empty if there is none.
fn member(object: &str, name: &str) -> Value {
    let mut compact = Vec::with_capacity(object.len());
    json::compact(object, &mut compact);
    let members = str::from_utf8(&compact).ok().and_then(json::members);
    let members = members.ok_or_else(|| "the component json is no JSON object".to_owned())?;
    Ok(members.into_iter().rfind(|(own, _)| own == name).map_or_else(String::new, |(_, raw)| raw.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_json_are_values() {
        for (object, name, expected) in [
            ("{\"a\": [1, 2], \"b\": NaN}", "a", Ok("[1,2]")),
            ("{\"a\": [1, 2], \"b\": NaN}", "b", Ok("NaN")),
            ("{\"a\": 1, \"b\": 3, \"a\": 2}", "a", Ok("2")),
            ("{}", "a", Ok("")),
            ("[1]", "a", Err(())),
            ("{\"a\":", "a", Err(())),
        ] {
            assert_eq!(member(object, name).as_deref().map_err(|_| ()), expected, "{object}");
        }
    }
}
