//! The samples of a shard as a plan file has them: columns in the order of the plan, as zstd frames of 1 MiB.
//!
//! ```text
//! u32 folders, for each: u32 number in the listing | u32 class | u32 length | path
//! for each sample: u32 folder, of those above
//! for each sample: u32 length of its name
//! for each sample: u32 bytes
//! for each sample: u64 place
//! for each sample: i64 stamp
//! names, end to end
//! where samples have components beside the payload, for each sample and component: u32 bytes | where there are forms u32 form | i64 stamp
//! where payloads are values, for each sample: u32 form
//! u64 length of texts | texts, end to end
//! where the source is a list, for each sample: u64 line
//! where the order is one that the source has, for each sample: u64 number in the listing
//! ```

use std::{
    collections::BTreeMap,
    io::{self, Read},
    sync::Arc,
};

use rayon::prelude::*;
use shardpack_format::{Error, Result, component::Component, permutation::Permutation, sample::Forms};

use super::{Dataset, LEVEL};
use crate::{
    component_table::{Cell, ComponentTable},
    listing::{Folder, Listing, OwnOrder, Unordered},
    plan::{Options, Order, Plan, ranked},
};

/// In place of the number of a class: no class.
const NO_CLASS: u32 = u32::MAX;

/// Bytes of a zstd frame before compression: the frames of a shard with many samples are compressed in parallel.
const FRAME_BYTES: usize = 1 << 20;

/// The samples of shard `shard` of `plan`, compressed.
pub(super) fn packed(plan: &Plan, shard: usize) -> io::Result<Vec<u8>> {
    let columns = columns(plan, shard);
    let frames = columns.par_chunks(FRAME_BYTES).map(|piece| zstd::bulk::compress(piece, LEVEL));
    Ok(frames.collect::<io::Result<Vec<_>>>()?.concat())
}

fn columns(plan: &Plan, shard: usize) -> Vec<u8> {
    let (listing, components) = (&plan.listing, plan.listing.components());
    let numbers: Vec<u64> = plan.shards[shard].positions().map(|position| plan.sample_at(position)).collect();
    let entry = |number: &u64| listing.entry(*number);
    let mut folders: Vec<u32> = numbers.iter().map(|number| entry(number).folder).collect();
    folders.sort_unstable();
    folders.dedup();
    let mut out = Vec::new();
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    put(&(folders.len() as u32).to_le_bytes());
    for number in &folders {
        let folder = &listing.folders()[*number as usize];
        put(&number.to_le_bytes());
        put(&folder.class.unwrap_or(NO_CLASS).to_le_bytes());
        put(&(folder.path.len() as u32).to_le_bytes());
        put(&folder.path);
    }
    for number in &numbers {
        let at = folders.partition_point(|folder| *folder < entry(number).folder);
        put(&(at as u32).to_le_bytes());
    }
    numbers.iter().for_each(|number| put(&(listing.name(*number).len() as u32).to_le_bytes()));
    numbers.iter().for_each(|number| put(&entry(number).bytes.to_le_bytes()));
    numbers.iter().for_each(|number| put(&entry(number).place.to_le_bytes()));
    numbers.iter().for_each(|number| put(&entry(number).stamp.to_le_bytes()));
    numbers.iter().for_each(|number| put(listing.name(*number)));
    let cells = numbers.iter().flat_map(|number| components.content_of(*number).zip(&components.kinds));
    for ((cell, text), kind) in cells {
        put(&cell.bytes.to_le_bytes());
        if !components.forms.is_empty() {
            put(&cell.form.to_le_bytes());
        }
        // The start of a text follows from the texts before it. A slot has its length, or 0 if a component before it has the slot.
        let slot_bytes = || text.map_or(0, |slot| slot.len() as i64);
        let stamp = match kind.has_slot() {
            true => slot_bytes(),
            false if kind.is_in_list() => 0,
            false => cell.stamp,
        };
        put(&stamp.to_le_bytes());
    }
    if components.payload.is_some() {
        numbers.iter().for_each(|number| put(&components.payload_form(*number).to_le_bytes()));
    }
    let texts = || numbers.iter().flat_map(|number| components.content_of(*number)).filter_map(|(_, text)| text);
    put(&texts().map(|text| text.len() as u64).sum::<u64>().to_le_bytes());
    texts().for_each(&mut put);
    if listing.own_order() == OwnOrder::Lines {
        numbers.iter().for_each(|number| put(&components.lines[*number as usize].to_le_bytes()));
    }
    if plan.stored_order().is_some() {
        numbers.iter().for_each(|number| put(&number.to_le_bytes()));
    }
    out
}

/// Samples of consecutive shards of a dataset, in the order of the plan.
pub(super) struct Samples<'h> {
    dataset: &'h Dataset,
    /// Position of the first sample.
    first: u64,
    samples: Unordered,
    texts: Vec<u8>,
    /// Folders: number here by number in the listing.
    folders: BTreeMap<u32, u32>,
    /// Numbers in the listing, if the source has an own order.
    stored: Vec<u64>,
}

impl<'h> Samples<'h> {
    /// Without samples.
    pub fn new(dataset: &'h Dataset) -> Self {
        let samples = Unordered::new(ComponentTable::new(dataset.components.clone()));
        Self { dataset, first: 0, samples, texts: Vec::new(), folders: BTreeMap::new(), stored: Vec::new() }
    }

    /// The same, with `first` as the position of the first sample.
    pub fn from(self, first: u64) -> Self {
        Self { first, ..self }
    }

    fn has_stored_order(&self) -> bool {
        self.dataset.options.order == Order::Source && self.dataset.own_order != OwnOrder::Canonical
    }

    /// Adds the compressed samples of a shard.
    pub fn add(&mut self, block: &[u8], samples: u64) -> Result<()> {
        let mut input = zstd::Decoder::new(block).map_err(ends_early)?;
        self.add_columns(&mut input, samples)?;
        match input.read(&mut [0]).map_err(ends_early)? {
            0 => Ok(()),
            _ => Err(Error::data("a shard of the plan has data after its last sample")),
        }
    }

    fn add_columns(&mut self, input: &mut impl Read, samples: u64) -> Result<()> {
        let mut folders = Vec::new();
        for _ in 0..u32::from_le_bytes(array(input)?) {
            let [number, class, length] = [array(input)?, array(input)?, array(input)?].map(u32::from_le_bytes);
            let folder =
                Folder { path: bytes(input, length.into())?.into(), class: (class != NO_CLASS).then_some(class) };
            let all = &mut self.samples.folders;
            let here = *self.folders.entry(number).or_insert_with(|| {
                all.push(folder.clone());
                all.len() as u32 - 1
            });
            if all[here as usize] != folder {
                return Err(Error::data("a folder of the plan has two names"));
            }
            folders.push(here);
        }
        let of_samples = column::<4>(input, samples)?.map(u32::from_le_bytes);
        let lengths: Vec<u32> = column(input, samples)?.map(u32::from_le_bytes).collect();
        let sizes = column(input, samples)?.map(u32::from_le_bytes);
        let places = column(input, samples)?.map(u64::from_le_bytes);
        let stamps = column(input, samples)?.map(i64::from_le_bytes);
        let names = bytes(input, lengths.iter().map(|length| u64::from(*length)).sum())?;
        let mut name_at = 0;
        for ((((folder, length), bytes), place), stamp) in of_samples.zip(&lengths).zip(sizes).zip(places).zip(stamps) {
            let folder =
                *folders.get(folder as usize).ok_or_else(|| Error::data("a folder of the plan that is not there"))?;
            let name = &names[name_at..name_at + *length as usize];
            name_at += name.len();
            let too_long = || Error::data(format!("a name of {} bytes", name.len()));
            self.samples.push(folder, name, bytes, place, stamp).ok_or_else(too_long)?;
        }
        self.add_components(input, samples)?;
        if self.has_stored_order() {
            self.stored.extend(column(input, samples)?.map(u64::from_le_bytes));
        }
        Ok(())
    }

    fn add_components(&mut self, input: &mut impl Read, samples: u64) -> Result<()> {
        let dataset = self.dataset;
        let components = &mut self.samples.components;
        let mut text_end = self.texts.len() as u64;
        let mut slot = 0;
        if !dataset.components.is_empty() {
            for kind in (0..samples).flat_map(|_| &dataset.components) {
                components.cells.push(cell(input, kind, !dataset.forms.is_empty(), &mut text_end, &mut slot)?);
            }
        }
        if dataset.payload.is_some() {
            components.payload_forms.extend(column(input, samples)?.map(u32::from_le_bytes));
        }
        let texts = u64::from_le_bytes(array(input)?);
        self.texts.extend_from_slice(&bytes(input, texts)?);
        if text_end != self.texts.len() as u64 {
            return Err(Error::data("texts of the plan are not those of its samples"));
        }
        if dataset.own_order == OwnOrder::Lines {
            components.lines.extend(column(input, samples)?.map(u64::from_le_bytes));
        }
        Ok(())
    }

    /// The numbers in the listing of all added samples, if the source has an own order.
    pub fn stored_order(&self) -> Option<&[u64]> {
        self.has_stored_order().then_some(&self.stored[..])
    }

    /// The numbers in the listing of these samples in order, and the rank of each by position; the dataset has
    /// `all` samples.
    pub fn ranked(&self, all: u64, options: &Options) -> Result<(Vec<u64>, Vec<u32>)> {
        let positions = self.first..self.first + self.samples.count() as u64;
        let numbers: Vec<u64> = match (options.order, self.stored_order()) {
            (Order::Shuffled, _) => {
                let order = Permutation::new(all, options.seed);
                positions.map(|position| order.sample_at(position)).collect()
            }
            (Order::Source, Some(stored)) => stored.to_vec(),
            (Order::Source, None) => positions.collect(),
        };
        if numbers.iter().any(|number| *number >= all) {
            return Err(Error::data("a sample of the plan has no place in its listing"));
        }
        ranked(&numbers)
    }

    /// The listing of these samples, with ranks `order`.
    pub fn listing(mut self, classes: &[Vec<u8>], order: &[u32]) -> Result<Listing> {
        let dataset = self.dataset;
        self.samples.components.payload.clone_from(&dataset.payload);
        self.samples.components.forms = Arc::new(dataset.forms.iter().map(|form| form.parse()).collect::<Result<_>>()?);
        self.samples.components.texts = Arc::new(self.texts);
        let (folders, names, entries, components) = self.samples.into_parts();
        let classes = Arc::new(classes.iter().map(|class| class.as_slice().into()).collect());
        let listing = Listing::from_parts(classes, folders, names, entries, dataset.own_order, components)?;
        let mut by_rank = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(rank, at)| by_rank[*rank as usize] = at);
        Ok(listing.reordered(&by_rank))
    }
}

/// Parses a cell. `text_end` is the end of the texts so far, `slot` the start of the last slot among them.
fn cell(input: &mut impl Read, kind: &Component, has_forms: bool, text_end: &mut u64, slot: &mut i64) -> Result<Cell> {
    let bytes = u32::from_le_bytes(array(input)?);
    let form = if has_forms { u32::from_le_bytes(array(input)?) } else { Forms::BYTES };
    let mut cell = Cell { bytes, form, stamp: i64::from_le_bytes(array(input)?) };
    if kind.is_in_list() {
        cell.stamp = text_end.cast_signed();
        *text_end = text_end.saturating_add(cell.length().unwrap_or(0).into());
    }
    if kind.has_slot() {
        if cell.stamp != 0 {
            *slot = text_end.cast_signed();
            *text_end = text_end.saturating_add(cell.stamp.cast_unsigned());
        }
        cell.stamp = *slot;
    }
    Ok(cell)
}

/// Reads a number of `N` bytes for each sample.
fn column<const N: usize>(input: &mut dyn Read, samples: u64) -> Result<impl Iterator<Item = [u8; N]> + use<N>> {
    let length = samples.checked_mul(N as u64).ok_or_else(|| Error::data("more than 2^64 bytes of samples"))?;
    let bytes = bytes(input, length)?;
    let numbers: Vec<[u8; N]> = bytes.chunks_exact(N).map(|chunk| crate::listing::take(chunk).0).collect();
    Ok(numbers.into_iter())
}

pub(super) fn ends_early(error: io::Error) -> Error {
    Error::data(format!("the plan ends early: {error}"))
}

pub(super) fn array<const N: usize>(input: &mut impl Read) -> Result<[u8; N]> {
    let mut out = [0; N];
    input.read_exact(&mut out).map_err(ends_early)?;
    Ok(out)
}

/// Reads `length` bytes; allocates only as much as the input really has.
pub(super) fn bytes(input: &mut dyn Read, length: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    input.take(length).read_to_end(&mut out).map_err(ends_early)?;
    if out.len() as u64 != length {
        return Err(Error::data(format!("the plan ends early: {} of {length} bytes", out.len())));
    }
    Ok(out)
}
