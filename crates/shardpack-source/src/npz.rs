//! Samples that are `.npz` files: each array in a file is a component.
//!
//! Holds at all times: the plan depends only on the directories of the files and the heads of their arrays; either all files of a
//! source are split into arrays, or none.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rayon::prelude::*;
use shardpack_format::{
    Result,
    component::{self, Component, Form, Type},
};

use super::{
    FolderReader, ObjectTree, ReadError, Refusal, SourceListing, missing_components::lacking, names,
    storage::NETWORK_READS,
};
use crate::{
    component_table::{Cell, ComponentTable, Interner},
    foreign::npz::{EXTENSION, Fault, Member, Npz, ReadAt},
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::{Monitor, Phase},
    parallel::each,
};

/// Samples between two progress reports.
const TELL: u64 = 256;

/// An array of a sample.
struct Array {
    component: String,
    form: Form,
    /// Length in bytes of the array's `.npy` file.
    bytes: u32,
    crc: u32,
}

/// A component over all samples.
struct ArrayComponent {
    name: String,
    kind: Type,
    samples: u64,
}

/// Location of the files of a split.
pub(super) enum SplitLocation<'p> {
    /// In a local folder.
    Folder(PathBuf),
    /// Below a URL or in an archive, in the folder of the split.
    Objects(&'p ObjectTree, Option<String>),
}

/// Replaces samples that are `.npz` files by their arrays, if all samples are such files; `place_of` returns the location of a split.
///
/// # Errors
/// If the arrays exceed the component limit, or the machine cannot read the files. Problems of one file are reported for that file.
pub(super) fn taken_apart<'p>(
    found: Vec<SourceListing>,
    place_of: &dyn Fn(Option<&str>) -> SplitLocation<'p>,
    monitor: &dyn Monitor,
) -> Result<Vec<SourceListing>> {
    let is_npz = |found: &SourceListing| {
        let listing = &found.listing;
        found.payload.as_ref().is_none_or(|payload| payload.name() == EXTENSION)
            && (0..listing.len()).all(|number| names::is_npz(listing.name(number)))
    };
    if found.iter().all(|found| found.listing.is_empty()) || !found.iter().all(is_npz) {
        return Ok(found);
    }
    let samples = found.iter().map(|found| found.listing.len()).sum();
    monitor.begin(Phase::Walking, samples, 0);
    let mut looked = Vec::new();
    for one in &found {
        looked.push(look(&one.listing, place_of(one.split.as_deref()), monitor)?);
    }
    let components = decide_components(looked.iter().flatten().filter_map(|arrays| arrays.as_ref().ok()));
    let all = found.into_iter().zip(looked).map(|(found, looked)| apart(found, looked, &components));
    let mut all = all.collect::<Result<Vec<_>>>()?;
    let told = components.iter().map(|component| format!("{} {}", component.name, component.kind));
    if let (Some(first), false) = (all.first_mut(), components.is_empty()) {
        first.notes.push(format!("each .npz is a sample of its arrays: {}", told.collect::<Vec<_>>().join(", ")));
    }
    Ok(all)
}

/// The arrays of each sample, or why they cannot be read. Files are read in the order of their location.
fn look(listing: &Listing, place: SplitLocation<'_>, monitor: &dyn Monitor) -> Result<Vec<Result<Vec<Array>, String>>> {
    let mut numbers: Vec<u64> = (0..listing.len()).collect();
    let told = |number: u64, arrays: &dyn Fn() -> Result<Vec<Array>, ReadError>| {
        if number.is_multiple_of(TELL) {
            monitor.check_cancelled()?;
            monitor.advance(TELL.min(listing.len() - number), 0);
        }
        match arrays() {
            Ok(arrays) => Ok((number, Ok(arrays))),
            Err(ReadError::Refused(Refusal(why))) => Ok((number, Err(why))),
            Err(ReadError::Fatal(error)) => Err(error),
        }
    };
    let mut looked = match place {
        SplitLocation::Folder(root) => {
            let reader = FolderReader::open(&root, listing)?;
            numbers.sort_unstable_by_key(|number| listing.entry(*number).place);
            let arrays = |number: &u64| told(*number, &|| reader.npz(*number, arrays_of));
            numbers.par_iter().map(arrays).collect::<Result<Vec<_>>>()?
        }
        SplitLocation::Objects(tree, split) => {
            let (reader, looked) = (tree.reader(split.as_deref(), listing)?, Mutex::new(Vec::new()));
            each(&numbers, NETWORK_READS, |number| {
                let arrays = told(*number, &|| reader.npz(*number, &arrays_of))?;
                looked.lock().unwrap_or_else(PoisonError::into_inner).push(arrays);
                Ok(())
            })?;
            looked.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    };
    looked.sort_unstable_by_key(|(number, _)| *number);
    Ok(looked.into_iter().map(|(_, looked)| looked).collect())
}

fn arrays_of<R: ReadAt + ?Sized>(npz: &Npz<'_, R>) -> Result<Vec<Array>, Fault> {
    npz.check_places()?;
    let array = |member: &Member| {
        let form = npz.array(member)?.form;
        Ok(Array { component: member.component.clone(), form, bytes: member.bytes(), crc: member.crc() })
    };
    npz.members().iter().map(array).collect()
}

/// The components of all samples. The payload comes first: the first component among those that occur in the most samples.
fn decide_components<'a>(samples: impl Iterator<Item = &'a Vec<Array>>) -> Vec<ArrayComponent> {
    let (mut all, mut count) = (Vec::<ArrayComponent>::new(), 0);
    for arrays in samples {
        count += 1;
        for array in arrays {
            let kind = Type::from_form(&array.form);
            match all.iter_mut().find(|known| known.name == array.component) {
                None => all.push(ArrayComponent { name: array.component.clone(), kind, samples: 1 }),
                Some(known) => {
                    known.samples += 1;
                    // A component that is not an array in one sample is not an array in any.
                    known.kind = known.kind.clone().join(kind).unwrap_or_else(|| Type::from_form(&Form::Bytes));
                }
            }
        }
    }
    let most = all.iter().map(|component| component.samples).max().unwrap_or(0);
    let payload = all.iter().position(|component| component.samples == most);
    let payload = payload.map(|at| all.remove(at));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    for component in &mut all {
        component.kind.is_optional = component.samples < count;
    }
    payload.into_iter().chain(all).collect()
}

impl ArrayComponent {
    fn declared(&self) -> Result<Component> {
        let field = self.name.strip_suffix(".npy").unwrap_or(&self.name);
        Ok(Component::value(field, &Form::array("|u1", &[])?)?.with_kind(self.kind.clone()))
    }
}

/// Replaces the samples of `found` by the arrays in `looked`.
fn apart(
    found: SourceListing,
    looked: Vec<Result<Vec<Array>, String>>,
    components: &[ArrayComponent],
) -> Result<SourceListing> {
    let listing = &found.listing;
    let [payload, others @ ..] = components else {
        return without(found, looked);
    };
    let own = listing.components();
    let mut kinds = own.kinds.clone();
    kinds.extend(others.iter().map(ArrayComponent::declared).collect::<Result<Vec<_>>>()?);
    component::check(&kinds)?;
    let (mut forms, mut unpacked) = (Interner::default(), found.unpacked.clone());
    let mut refuse = |number: u64, reason: String| {
        let mut path = Vec::new();
        listing.path(number, &mut path);
        let class = listing.class(number);
        unpacked.push(Unpacked { path, class, fate: Fate::Skipped, reason: reason.into() });
    };
    // For each kept sample: payload length, payload form, and the cells.
    let mut kept = BTreeMap::<u64, (u32, u32, Vec<Cell>)>::new();
    for (number, looked) in (0..).zip(looked) {
        let arrays = match looked {
            Ok(arrays) => arrays,
            Err(why) => {
                refuse(number, why);
                continue;
            }
        };
        let mut cell = |component: &ArrayComponent| {
            let Some(array) = arrays.iter().find(|array| array.component == component.name) else {
                return Cell::ABSENT;
            };
            let items = array.form.items_bytes().filter(|_| component.kind.takes(&array.form));
            let bytes = items.map_or(array.bytes.into(), |items| items + array.form.head_bytes());
            let form = if items.is_some() { &array.form } else { &Form::Bytes };
            // Array and head are shorter than 4 GiB, as the file is; heads differ by a few bytes.
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX - 1);
            Cell { form: forms.number(form), ..Cell::file(bytes, array.crc.into()) }
        };
        let first = cell(payload);
        let Some(bytes) = first.length() else {
            refuse(number, format!("has no {}, which others have", payload.name));
            continue;
        };
        let mut cells = own.cells_of(number).to_vec();
        cells.extend(others.iter().map(cell));
        kept.insert(number, (bytes, first.form, cells));
    }
    let lines = if own.lines.is_empty() { Vec::new() } else { kept.keys().map(|at| own.lines[*at as usize]).collect() };
    let components = ComponentTable {
        kinds,
        cells: kept.values().flat_map(|(_, _, cells)| cells.iter().copied()).collect(),
        payload: Some(payload.declared()?),
        payload_forms: kept.values().map(|(_, form, _)| *form).collect(),
        forms: forms.finish(),
        texts: Arc::clone(&own.texts),
        lines,
    };
    let bytes: Vec<u32> = kept.values().map(|(bytes, ..)| *bytes).collect();
    let whole = listing.chosen(&listing.classes, Some, |number| kept.contains_key(&number));
    let listing = whole.with_values(&bytes, components);
    unpacked.sort_unstable_by(order);
    let mut found = SourceListing { payload: listing.components().payload.clone(), unpacked, ..found };
    found.notes.extend(lacking(&listing, "sample"));
    found.listing = Arc::new(listing);
    Ok(found)
}

/// `found` if no file can be read: all samples are skipped.
fn without(found: SourceListing, looked: Vec<Result<Vec<Array>, String>>) -> Result<SourceListing> {
    let mut unpacked = found.unpacked.clone();
    for (number, looked) in (0..).zip(looked) {
        let mut path = Vec::new();
        found.listing.path(number, &mut path);
        let reason = looked.err().unwrap_or_else(|| "holds no array".to_owned()).into();
        unpacked.push(Unpacked { path, class: found.listing.class(number), fate: Fate::Skipped, reason });
    }
    unpacked.sort_unstable_by(order);
    let listing = Arc::new(found.listing.chosen(&found.listing.classes, Some, |_| false));
    Ok(SourceListing { unpacked, listing, payload: Some(Component::field(EXTENSION)?), ..found })
}
