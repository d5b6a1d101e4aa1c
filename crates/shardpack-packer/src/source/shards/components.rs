//! Which fields of records go along as components, and where they lie.
//!
//! Holds at all times: a field that a record has goes along with its sample, or is counted among what was left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shardpack_format::{
    Error, Result,
    formats::{
        Beside,
        beside::{MOST, TEXT},
        foreign::Other,
    },
};

use super::{Scanned, open};
use crate::{
    extra::Piece,
    source::{
        COMPONENT,
        image_folder::{Components, Options},
    },
};

/// Names that a message tells.
const TOLD: usize = 64;
/// Fields of the samples of a file that may go along.
#[derive(Default)]
pub(super) struct Fields {
    /// Names of components.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// What fields are called here; `None` for those that cannot go along, or should not.
    known: HashMap<String, Option<u32>>,
    /// Those of all samples end to end: which, its length, where and how it is fetched.
    found: Vec<(u32, u32, i64)>,
    /// Of how many samples a field is there and cannot be had as it is, or has the name of another.
    missed: BTreeMap<String, u64>,
}

impl Fields {
    /// Takes those of a sample, and says how many there are now.
    pub fn take(&mut self, others: &[Other], options: &Options) -> u64 {
        let first = self.found.len();
        for other in others {
            let Some(number) = self.number(&other.name, options) else { continue };
            let bytes = u32::try_from(other.bytes).ok().filter(|bytes| *bytes != Piece::ABSENT.bytes);
            let stamp = other.offset.and_then(|offset| open::component_stamp(offset, other.recipe));
            match (stamp, bytes) {
                (Some(stamp), Some(bytes)) if self.found[first..].iter().all(|(known, ..)| *known != number) => {
                    self.found.push((number, bytes, stamp));
                }
                _ => match self.missed.get_mut(&other.name) {
                    Some(samples) => *samples += 1,
                    None => drop(self.missed.insert(other.name.clone(), 1)),
                },
            }
        }
        self.found.len() as u64
    }

    fn number(&mut self, field: &str, options: &Options) -> Option<u32> {
        if let Some(known) = self.known.get(field) {
            return *known;
        }
        let name = component(field).filter(|_| options.components.wants_field(field));
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
            piece.map_or(Piece::ABSENT, |(_, bytes, stamp)| Piece { bytes: *bytes, stamp: *stamp })
        })
    }
}

/// The component that a field of this name is; `None` where no component can be called so.
pub(super) fn component(field: &str) -> Option<Beside> {
    Beside::field(field).ok()
}

/// The components that samples have.
///
/// # Errors
/// When there are more than a sample has room for: which of them matter, a person knows.
pub(super) fn kinds(scanned: &[Scanned], options: &Options) -> Result<Vec<Beside>> {
    match &options.components {
        Components::None => return Ok(Vec::new()),
        Components::Named(kinds) => return Ok(kinds.clone()),
        Components::All if options.no_text => return Ok(Vec::new()),
        Components::All => {}
    }
    let mut names = BTreeSet::<&str>::new();
    for fields in scanned.iter().map(|file| &file.fields) {
        let mut is_there = vec![false; fields.names.len()];
        fields.found.iter().for_each(|(number, ..)| is_there[*number as usize] = true);
        names
            .extend(fields.names.iter().zip(is_there).filter(|(_, is_there)| *is_there).map(|(name, _)| name.as_str()));
    }
    if options.meta {
        // That is made here.
        names.remove(TEXT);
    }
    if names.len() > MOST {
        let told: Vec<_> = names.iter().take(TOLD).copied().collect();
        let more = if names.len() > TOLD { format!(" and {} more", names.len() - TOLD) } else { String::new() };
        let what = format!("{} components beside the images, a sample has room for {MOST}: ", names.len());
        return Err(Error::usage(format!("{what}{}{more}", told.join(", ")))
            .help("--components NAMES takes some of them, with commas between; --components none leaves all"));
    }
    Ok(names.into_iter().filter_map(component).collect())
}

/// What became of the fields of a file, where samples have `kinds`: adds to what is left out, by name, and to what goes along.
pub(super) fn count(
    scanned: &Scanned,
    kinds: &[Beside],
    options: &Options,
    ignored: &mut BTreeMap<String, u64>,
    carried: &mut BTreeMap<String, u64>,
) {
    let is_kind = |field: &str| component(field).is_some_and(|one| kinds.iter().any(|kind| kind.name() == one.name()));
    for (field, samples) in &scanned.others {
        let counts =
            if is_kind(field) && options.components.wants_field(field) { &mut *carried } else { &mut *ignored };
        *counts.entry(format!("{COMPONENT}{field}")).or_default() += samples;
    }
    for (field, samples) in scanned.fields.missed.iter().filter(|(field, _)| is_kind(field)) {
        *ignored.entry(format!("{COMPONENT}{field}")).or_default() += samples;
    }
}
