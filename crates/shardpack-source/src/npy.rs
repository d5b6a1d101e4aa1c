//! Samples that are `.npy` files: arrays with the dtype and shape in their heads.
//!
//! Holds at all times: a file is stored byte for byte; the samples of a dataset are all arrays or all files; only the head of a file is
//! read here.

use std::sync::Arc;

use rayon::prelude::*;
use shardpack_format::{
    Result,
    component::{Component, Form, Type},
    image_header::Kind,
    npy,
    sample::Forms,
};

use super::api::{Look, ReadError, Refusal, Source, SourceListing};
use crate::{
    component_table::{ComponentTable, Interner},
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::{Monitor, Phase},
};

/// Number of heads read between two progress reports.
const HEADS: usize = 1 << 14;

/// Parsed heads of the files, by sample number.
struct Heads {
    /// Form number, [`Forms::BYTES`] if the file is not an array, or the reason why the file cannot be read.
    of: Vec<Result<u32, String>>,
    /// In the order of reading, which depends on the files' location.
    forms: Interner,
}

/// Whether the samples of `found` are files of `source` with the extension `.npy` and no known type.
fn is_npy_dataset(source: &dyn Source, found: &SourceListing) -> bool {
    let is_npy = |payload: &Component| payload.kind().is_none() && payload.name() == Kind::Npy.extension();
    let is_file = found.listing.components().payload.is_none();
    source.is_of_files() && is_file && found.payload.as_ref().is_some_and(is_npy)
}

/// Gives samples that are `.npy` files the forms of their arrays, if all of them are arrays that a component can hold, and adds a note.
///
/// An unreadable file is not a sample and is added to the skipped files.
///
/// # Errors
/// If the machine cannot read the files.
pub fn decide_forms(source: &dyn Source, found: &mut [SourceListing], monitor: &dyn Monitor) -> Result<()> {
    if !found.iter().all(|found| is_npy_dataset(source, found)) {
        return Ok(());
    }
    let heads = found.iter().map(|found| look(source, found, monitor)).collect::<Result<Vec<_>>>()?;
    // All are arrays, so they join.
    let types = heads.iter().flat_map(|heads| heads.forms.forms()).map(Type::from_form);
    let kind = types.map(Some).reduce(|all, one| all?.join(one?)).flatten();
    let all = || heads.iter().flat_map(|heads| &heads.of).flatten();
    let (files, samples) = (all().filter(|form| **form == Forms::BYTES).count(), all().count());
    let Some(kind) = kind else { return Ok(()) };
    let name = Kind::Npy.extension();
    let note = match files {
        0 => format!("each .{name} is an array: {kind}"),
        _ => format!("component {name} is files, not arrays: {files} of {samples} have no header or are cut"),
    };
    found[0].notes.push(note);
    if files > 0 {
        return Ok(());
    }
    for (one, heads) in found.iter_mut().zip(heads) {
        let payload = Component::value(name, &Form::array("|u1", &[])?)?.with_kind(kind.clone());
        put(one, payload, heads);
    }
    Ok(())
}

/// As [`decide_forms`], if samples are known to be values of `payload`.
///
/// # Errors
/// As [`decide_forms`].
pub fn take(
    source: &dyn Source,
    found: &mut [SourceListing],
    payload: &Component,
    monitor: &dyn Monitor,
) -> Result<()> {
    let name = Kind::Npy.extension();
    for one in found.iter_mut().filter(|_| payload.name() == name && source.is_of_files()) {
        // A list has no type for its files.
        one.payload.get_or_insert(Component::field(name)?);
        if is_npy_dataset(source, one) {
            let heads = look(source, one, monitor)?;
            put(one, payload.clone(), heads);
        }
    }
    Ok(())
}

/// Reads the heads of all samples, in the order of their location.
fn look(source: &dyn Source, found: &SourceListing, monitor: &dyn Monitor) -> Result<Heads> {
    let listing: &Listing = &found.listing;
    monitor.begin(Phase::Walking, listing.len(), 0);
    let reader = source.open(found.split.as_deref(), listing, None, monitor)?;
    let mut numbers: Vec<u64> = (0..listing.len()).collect();
    numbers.sort_unstable_by_key(|number| listing.entry(*number).place);
    let head = |number: &u64| {
        let mut first = [0; npy::PLAIN_HEAD_BYTES];
        match reader.peek(*number, &mut first, Look::Start) {
            Ok(read) => {
                let first = &first[..read.unwrap_or(0)];
                Ok(Ok(Form::of_npy(first, listing.entry(*number).bytes.into())))
            }
            Err(ReadError::Refused(Refusal(why))) => Ok(Err(why)),
            Err(ReadError::Fatal(error)) => Err(error),
        }
    };
    let mut heads = Heads { of: vec![Ok(Forms::BYTES); numbers.len()], forms: Interner::default() };
    for numbers in numbers.chunks(HEADS) {
        monitor.check_cancelled()?;
        let read = numbers.par_iter().map(head).collect::<Result<Vec<_>>>()?;
        for (number, head) in numbers.iter().zip(read) {
            heads.of[*number as usize] = head.map(|form| form.map_or(Forms::BYTES, |form| heads.forms.number(&form)));
        }
        monitor.advance(numbers.len() as u64, 0);
    }
    Ok(heads)
}

/// Turns the samples of `found` into values of `payload`, with the forms in `heads`.
fn put(found: &mut SourceListing, payload: Component, heads: Heads) {
    let mut listing = Arc::clone(&found.listing);
    let mut path = Vec::new();
    for (number, head) in (0..).zip(&heads.of) {
        if let Err(why) = head {
            listing.path(number, &mut path);
            let class = listing.class(number);
            let reason = why.as_str().into();
            found.unpacked.push(Unpacked { path: path.clone(), class, fate: Fate::Skipped, reason });
        }
    }
    if heads.of.iter().any(Result::is_err) {
        found.unpacked.sort_unstable_by(order);
        listing = Arc::new(listing.chosen(&listing.classes, Some, |number| heads.of[number as usize].is_ok()));
    }
    // Numbers follow the listing order, independent of file location. A file that is no longer an array is reported when it is copied.
    let mut forms = Interner::default();
    let number = |met: u32| heads.forms.forms().get(met as usize).map_or(Forms::BYTES, |form| forms.number(form));
    let payload_forms = heads.of.into_iter().flatten().map(number).collect();
    let components = ComponentTable {
        payload: Some(payload.clone()),
        payload_forms,
        forms: forms.finish(),
        ..listing.components().clone()
    };
    found.listing = Arc::new(listing.with_values(&[], components));
    found.payload = Some(payload);
}
