//! Which fields of records go along as components, and where they lie.
//!
//! Holds at all times: a field that a record has goes along with its sample, or is counted among what was left out.

use std::collections::{BTreeMap, HashMap};

use shardpack_format::formats::{
    Beside,
    beside::{MOST, TEXT},
    foreign::Other,
};

use super::Scanned;
use crate::{
    extra::Piece,
    source::{
        COMPONENT,
        image_folder::{Components, Options},
    },
};

/// Fields of the samples of a file that may go along.
#[derive(Default)]
pub(super) struct Fields {
    /// Names of components.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// What fields are called here; `None` for those that cannot go along, or should not.
    known: HashMap<String, Option<u32>>,
    /// Those of all samples end to end: which, its length, where it lies in the unpacked file.
    found: Vec<(u32, u32, u64)>,
    /// Of how many samples a component is there and cannot be had as it is.
    missed: BTreeMap<u32, u64>,
}

impl Fields {
    /// Takes those of a sample, and says how many there are now.
    pub fn take(&mut self, others: &[Other], options: &Options) -> u64 {
        let first = self.found.len();
        for other in others {
            let Some(number) = self.number(&other.name, options) else { continue };
            let bytes = u32::try_from(other.bytes).ok().filter(|bytes| *bytes != Piece::ABSENT.bytes);
            match (other.offset, bytes) {
                (Some(offset), Some(bytes)) if self.found[first..].iter().all(|(known, ..)| *known != number) => {
                    self.found.push((number, bytes, offset));
                }
                _ => *self.missed.entry(number).or_default() += 1,
            }
        }
        self.found.len() as u64
    }

    fn number(&mut self, field: &str, options: &Options) -> Option<u32> {
        if let Some(known) = self.known.get(field) {
            return *known;
        }
        let name = component(field).filter(|kind| options.components.wants(kind.name()));
        let number = name.map(|kind| {
            *self.numbers.entry(kind.name().to_owned()).or_insert_with_key(|name| {
                self.names.push(name.clone());
                self.names.len() as u32 - 1
            })
        });
        self.known.insert(field.to_owned(), number);
        number
    }

    /// The pieces of a sample for `kinds`, whose fields begin at `start` and end at `end`.
    pub fn pieces<'f>(&'f self, start: u64, end: u64, kinds: &'f [Beside]) -> impl Iterator<Item = Piece> + 'f {
        let found = &self.found[start as usize..end as usize];
        kinds.iter().map(move |kind| {
            let number = self.numbers.get(kind.name());
            let piece = found.iter().find(|(known, ..)| Some(known) == number);
            // Files are shorter than 2^63 bytes.
            piece.map_or(Piece::ABSENT, |(_, bytes, offset)| Piece { bytes: *bytes, stamp: offset.cast_signed() })
        })
    }
}

/// The component that a field of this name is; `None` where no component can be called so.
pub(super) fn component(field: &str) -> Option<Beside> {
    let name = field.to_ascii_lowercase();
    Beside::files(&name).ok().filter(|kind| kind.name() == name)
}

/// The components that samples have.
pub(super) fn kinds(scanned: &[Scanned], options: &Options) -> Vec<Beside> {
    match &options.components {
        Components::None => return Vec::new(),
        Components::Named(kinds) => return kinds.clone(),
        Components::All if options.no_text => return Vec::new(),
        Components::All => {}
    }
    let mut samples = BTreeMap::<&str, u64>::new();
    for fields in scanned.iter().map(|file| &file.fields) {
        for (number, ..) in &fields.found {
            *samples.entry(&fields.names[*number as usize]).or_default() += 1;
        }
    }
    // That is made here.
    let is_made = |name: &str| options.meta && name == TEXT;
    let mut names: Vec<(&str, u64)> = samples.into_iter().filter(|(name, _)| !is_made(name)).collect();
    // A sample has room for a few: those that most samples have.
    names.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    names.truncate(MOST);
    names.sort_unstable();
    names.into_iter().filter_map(|(name, _)| component(name)).collect()
}

/// What became of the fields of a file, where samples have `kinds`: adds to what is left out, by name, and to what goes along.
pub(super) fn count(
    scanned: &Scanned,
    kinds: &[Beside],
    ignored: &mut BTreeMap<String, u64>,
    carried: &mut BTreeMap<String, u64>,
) {
    let is_kind = |field: &str| component(field).is_some_and(|one| kinds.iter().any(|kind| kind.name() == one.name()));
    for (field, samples) in &scanned.others {
        let counts = if is_kind(field) { &mut *carried } else { &mut *ignored };
        *counts.entry(format!("{COMPONENT}{field}")).or_default() += samples;
    }
    for (number, samples) in &scanned.fields.missed {
        let name = &scanned.fields.names[*number as usize];
        if is_kind(name) {
            *ignored.entry(format!("{COMPONENT}{name}")).or_default() += samples;
        }
    }
}
