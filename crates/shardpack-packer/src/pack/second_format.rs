//! The second format of a run reads its images from the shards of the first format, which were packed just
//! before.
//!
//! Both plans have the same listing, so a sample is found by its position in the first plan. Images that the
//! first format could not pack are refused with the same reason, so that both ledgers are equal.

use std::{collections::HashMap, path::Path};

use shardpack_format::{Error, Result, component::Component, manifest};
use shardpack_reader::Dataset;

use crate::{
    ledger,
    plan::Plan,
    source::{Look, ReadError, Refusal, SampleReader, dataset_reader},
    sys,
};

/// Place of a sample that the first dataset does not have.
const NOWHERE: u64 = u64::MAX;

/// Reads the images of a listing from the dataset that it was packed into.
#[derive(Debug)]
pub(super) struct SecondFormat<'a> {
    plan: &'a Plan,
    /// Requested components beside images.
    kinds: &'a [Component],
    dataset: Dataset,
    /// Position in stored order by number in the listing, or [`NOWHERE`].
    places: Vec<u64>,
    /// Why a sample has no place, by path.
    refused: HashMap<Vec<u8>, String>,
}

impl<'a> SecondFormat<'a> {
    /// Serves the listing of `plan` from the dataset in `folder` that was packed with this plan; `kinds` are
    /// the requested components beside images, a subset of its own.
    ///
    /// # Errors
    /// If the dataset cannot be opened, or differs from `plan`.
    pub fn open(folder: &Path, plan: &'a Plan, kinds: &'a [Component]) -> Result<Self> {
        let dataset = Dataset::open(folder)?.check_content(true);
        let mut places = vec![NOWHERE; plan.listing.len() as usize];
        for stored in 0..dataset.len() {
            let row = dataset.row(stored)?;
            let position = std::str::from_utf8(row.key).ok().and_then(|key| key.parse().ok());
            let position = position.filter(|position| *position < plan.listing.len());
            let not_ours = || Error::data("not the dataset of this plan").in_file(folder).in_sample(row.name());
            places[plan.sample_at(position.ok_or_else(not_ours)?) as usize] = stored;
        }
        let lines = sys::read_opt(&folder.join(manifest::LEDGER_FILE))?.unwrap_or_default();
        let refused = ledger::read(&lines)?.into_iter().map(|line| (line.path, line.reason.to_string())).collect();
        Ok(Self { plan, kinds, dataset, places, refused })
    }

    fn place(&self, number: u64) -> Result<u64, ReadError> {
        match self.places[number as usize] {
            NOWHERE => {
                let mut path = Vec::new();
                self.plan.listing.path(number, &mut path);
                let reason = self.refused.get(&path).map_or("could not be packed before", String::as_str);
                Err(ReadError::Refused(Refusal(reason.to_owned())))
            }
            stored => Ok(stored),
        }
    }
}

impl SampleReader for SecondFormat<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        dataset_reader::read(&self.dataset, self.place(number)?, payload)
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        dataset_reader::read_component(&self.dataset, self.place(number)?, self.kinds, which, out)
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        dataset_reader::peek(&self.dataset, self.place(number)?, first, look)
    }
}
