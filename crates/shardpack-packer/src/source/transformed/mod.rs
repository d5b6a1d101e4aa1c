//! Transformed images as a source: what a recipe has made of images lies in a spool in the work folder until it is packed.
//!
//! A plan wants the length of every image before the first is copied, so images are made before anything is planned, once,
//! and the plan is of what came out. What the recipe leaves alone is not copied: it is read where it was.

mod spool;

use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Result, component::Component};

use super::{Look, Origin, ReadError, Refusal, Source};
use crate::{listing::Listing, monitor::Monitor, sys};
pub use spool::{Record, Spool, What};

/// A source, and what was made of its images.
#[derive(Clone, Debug)]
pub struct Transformed {
    origin: Box<Origin>,
    spools: Arc<Vec<PathBuf>>,
    splits: Vec<Split>,
}

/// Where an image lies that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// The place in the spool.
    pub place: u64,
    /// Which of the spools, counted from 1.
    pub spool: NonZeroU32,
}

/// What was made of the images of one split.
#[derive(Clone, Debug)]
pub struct Split {
    /// Its name.
    pub name: Option<String>,
    /// The images that it was made of, in the same order.
    pub before: Arc<Listing>,
    /// Where each image lies that was made; `None` where the recipe asks nothing of it.
    pub places: Arc<Vec<Option<Made>>>,
}

impl Split {
    /// Whether the source is still to be read: there is an image of which the recipe asks nothing, or something beside one,
    /// which the source alone can tell: a file, a text of a list, a component of a sealed dataset.
    fn leaves_any(&self) -> bool {
        self.places.iter().any(Option::is_none) || !self.before.components().kinds.is_empty()
    }
}

impl Transformed {
    /// What was made of `origin`, in the spools at these paths.
    pub fn new(origin: Origin, spools: Vec<PathBuf>, splits: Vec<Split>) -> Self {
        Self { origin: Box::new(origin), spools: Arc::new(spools), splits }
    }

    /// The same with some of the images of each split: those with these numbers, which ascend.
    pub fn subset(&self, numbers: &[Vec<u64>]) -> Self {
        let of_split = |(split, numbers): (&Split, &Vec<u64>)| Split {
            name: split.name.clone(),
            before: Arc::new(split.before.subset(numbers)),
            places: Arc::new(numbers.iter().map(|number| split.places[*number as usize]).collect()),
        };
        let splits = self.splits.iter().zip(numbers).map(of_split).collect();
        Self { origin: self.origin.clone(), spools: Arc::clone(&self.spools), splits }
    }

    /// The source that it was made of.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The same with another path of the source.
    pub(super) fn of(&self, origin: Origin) -> Self {
        Self { origin: Box::new(origin), ..self.clone() }
    }

    /// Room in bytes that [`Transformed::open`] takes in the work folder.
    ///
    /// # Errors
    /// When a listing is of something else.
    pub fn unpacked_bytes(&self) -> Result<u64> {
        let of_split = self.splits.iter().filter(|split| split.leaves_any());
        let bytes = of_split.map(|split| self.origin.unpacked_bytes(split.name.as_deref(), &split.before));
        let bytes = bytes.collect::<Result<Vec<_>>>()?;
        Ok(bytes.into_iter().max().unwrap_or(0))
    }

    /// Serves the images of `listing`, which is that of `split` after they were made.
    ///
    /// # Errors
    /// When source or spool cannot be opened.
    pub fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<TransformedReader<'a>> {
        let none = || shardpack_format::Error::usage("nothing was made of this split").in_file(self.origin.path());
        let of = self.splits.iter().find(|one| one.name.as_deref() == split).ok_or_else(none)?;
        let before = of.leaves_any().then(|| self.origin.open(split, &of.before, work, monitor)).transpose()?;
        let (places, kinds) = (&of.places, &of.before.components().kinds);
        let mut spools: Vec<_> = self.spools.iter().map(|_| None).collect();
        for made in places.iter().flatten() {
            let number = made.spool.get() as usize - 1;
            let (Some(path), Some(spool)) = (self.spools.get(number), spools.get_mut(number)) else {
                return Err(none());
            };
            if spool.is_none() {
                *spool = Some(Spool::reader(path)?);
            }
        }
        Ok(TransformedReader { listing, places, kinds, spools, before })
    }
}

/// Hands out what was made, and what was left alone.
pub struct TransformedReader<'a> {
    listing: &'a Listing,
    places: &'a [Option<Made>],
    /// Those that there is something in.
    spools: Vec<Option<Spool>>,
    /// What the source has beside images.
    kinds: &'a [Component],
    /// The source, where there is something in it that is still to be read.
    before: Option<Box<dyn Source + 'a>>,
}

/// Where an image is.
enum Place<'a> {
    Spool(&'a Spool, u64),
    Before(&'a dyn Source),
}

impl TransformedReader<'_> {
    fn place(&self, number: u64) -> Result<Place<'_>> {
        let place = match self.places.get(number as usize) {
            Some(Some(made)) => {
                let spool = self.spools.get(made.spool.get() as usize - 1).and_then(Option::as_ref);
                spool.map(|spool| Place::Spool(spool, made.place))
            }
            _ => self.before.as_deref().map(Place::Before),
        };
        place.ok_or_else(|| shardpack_format::Error::data("an image that was not made"))
    }
}

impl Source for TransformedReader<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        match self.place(number)? {
            Place::Spool(spool, place) => Ok(spool.read(place, payload)?),
            Place::Before(source) => source.read(number, payload),
        }
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        // The source may have kinds that the format has no place for.
        let kinds = &self.listing.components().kinds;
        let of_source = kinds.get(which).and_then(|kind| self.kinds.iter().position(|one| one == kind));
        match (&self.before, of_source) {
            (Some(before), Some(which)) => before.read_component(number, which, out),
            _ => Err(ReadError::Refused(Refusal("has nothing beside its image".to_owned()))),
        }
    }

    fn unchanged(&self) -> Result<()> {
        self.before.as_ref().map_or(Ok(()), |before| before.unchanged())
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        let (spool, place) = match self.place(number)? {
            Place::Spool(spool, place) => (spool, place),
            Place::Before(source) => return source.peek(number, first, look),
        };
        let most = first.len().min(self.listing.entry(number).bytes as usize);
        let read = super::storage::peek(spool.file(), place, &mut first[..most], look);
        read.map_err(|error| ReadError::Fatal(sys::io_error("cannot read", spool.path(), error)))
    }
}
