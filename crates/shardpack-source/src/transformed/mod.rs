//! Serves transformed images as a source. The images that a recipe made are in a spool in the work folder until they
//! are packed.
//!
//! A plan needs the length of every image before the first copy. So all images are transformed once, before planning,
//! and the plan describes the results. Images that the recipe does not change are not copied but read from the original
//! source.

mod spool;

use std::{num::NonZeroU32, path::Path, sync::Arc};

use shardpack_format::{Error, Result, component::Component};
use shardpack_storage::{Access, Storage, Transfers};

use super::{
    api::{Look, ReadError, Refusal, SampleReader, SharedSource, Source, SourceKind, SourceListing},
    options::Options,
    stored::Stored,
};
use crate::{listing::Listing, monitor::Monitor};
pub use spool::{Record, Spool, SpoolReader, What};

/// A source with its transformed images.
#[derive(Clone, Debug)]
pub struct Transformed {
    /// The source of the original images.
    before: SharedSource,
    spools: Spools,
    splits: Vec<Split>,
}

/// Complete spools in a storage.
#[derive(Clone, Debug)]
pub struct Spools {
    /// Where they are: a folder, or a store.
    pub storage: Arc<dyn Storage>,
    /// Their names there; the first has number 1.
    pub names: Arc<Vec<String>>,
}

/// Position of a transformed image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolPosition {
    /// Position in the spool.
    pub place: u64,
    /// Number of the spool, from 1.
    pub spool: NonZeroU32,
}

/// The transformed images of one split.
#[derive(Clone, Debug)]
pub struct Split {
    /// Name of the split.
    pub name: Option<String>,
    /// The original images, in the same order.
    pub before: Arc<Listing>,
    /// Position of each transformed image; `None` for an image that the recipe does not change.
    pub places: Arc<Vec<Option<SpoolPosition>>>,
    /// Components that move with the images.
    pub moved: Vec<MovedComponent>,
}

/// A component that a transformation changes in some samples.
#[derive(Clone, Debug)]
pub struct MovedComponent {
    /// Its name.
    pub name: String,
    /// Position of the transformed component of each image; `None` if the original source has it, or no one.
    pub places: Arc<Vec<Option<SpoolPosition>>>,
}

impl Split {
    /// Whether the original source is still needed: for unchanged images, or for components. A component can be a file,
    /// a list's text, or part of a sealed dataset.
    fn leaves_any(&self) -> bool {
        self.places.iter().any(Option::is_none) || !self.before.components().kinds.is_empty()
    }
}

impl Transformed {
    /// Creates a source from `before` and spools.
    pub fn new(before: SharedSource, spools: Spools, splits: Vec<Split>) -> Self {
        Self { before, spools, splits }
    }

    /// Serves the images of `listing`, the listing of `split` after the transformation.
    ///
    /// # Errors
    /// If the source or a spool cannot be opened.
    fn reader<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<TransformedReader<'a>> {
        let none = || Error::usage("no image of this split was transformed").in_file(self.before.path());
        let of = self.splits.iter().find(|one| one.name.as_deref() == split).ok_or_else(none)?;
        let before = of.leaves_any().then(|| self.before.open(split, &of.before, work, monitor)).transpose()?;
        let (places, moved, kinds) = (&of.places, &of.moved, &of.before.components().kinds);
        let mut spools: Vec<_> = self.spools.names.iter().map(|_| None).collect();
        let all = std::iter::once(places).chain(moved.iter().map(|one| &one.places)).flat_map(|places| places.iter());
        for made in all.flatten() {
            let number = made.spool.get() as usize - 1;
            let (Some(name), Some(spool)) = (self.spools.names.get(number), spools.get_mut(number)) else {
                return Err(none());
            };
            if spool.is_none() {
                *spool = Some(SpoolReader::open(self.spools.storage.as_ref(), name)?);
            }
        }
        Ok(TransformedReader { listing, places, moved, kinds, spools, before })
    }
}

impl Source for Transformed {
    fn kind(&self) -> SourceKind {
        SourceKind::Transformed
    }

    fn leaves(&self) -> Vec<&dyn Source> {
        self.before.leaves()
    }

    fn leaf_of(&self, split: Option<&str>) -> Result<&dyn Source> {
        self.before.leaf_of(split)
    }

    fn roots(&self) -> Vec<&Path> {
        self.before.roots()
    }

    fn extra_folders(&self) -> Vec<&Path> {
        self.before.extra_folders()
    }

    fn transfers(&self) -> Option<Transfers> {
        // This process may have sent the spools.
        self.before.transfers().into_iter().chain(self.spools.storage.transfers()).reduce(Transfers::and)
    }

    fn access(&self) -> Access {
        // Images are read from the spools, wherever the source is.
        self.spools.storage.access()
    }

    fn read_at(&self) -> &Path {
        match self.spools.storage.local() {
            Some(_) => self.before.read_at(),
            None => self.spools.storage.root(),
        }
    }

    fn stored(&self) -> Stored {
        // A plan cannot name spools.
        self.before.stored()
    }

    fn resolved(&self) -> Result<SharedSource> {
        Ok(Arc::new(Self { before: self.before.resolved()?, ..self.clone() }))
    }

    fn discover(&self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        self.before.discover(options, monitor)
    }

    fn open<'a>(
        &'a self,
        split: Option<&str>,
        listing: &'a Listing,
        work: Option<&Path>,
        monitor: &dyn Monitor,
    ) -> Result<Box<dyn SampleReader + 'a>> {
        Ok(Box::new(self.reader(split, listing, work, monitor)?))
    }

    fn unpacked_bytes(&self, _: Option<&str>, _: &Listing) -> Result<u64> {
        let of_split = self.splits.iter().filter(|split| split.leaves_any());
        let bytes = of_split.map(|split| self.before.unpacked_bytes(split.name.as_deref(), &split.before));
        let bytes = bytes.collect::<Result<Vec<_>>>()?;
        Ok(bytes.into_iter().max().unwrap_or(0))
    }

    fn can_peek(&self, _: Option<&str>) -> Result<bool> {
        Ok(self.before.is_plain())
    }

    fn subset(&self, numbers: &dyn Fn() -> Vec<Vec<u64>>) -> Option<SharedSource> {
        let of_split = |(split, numbers): (&Split, &Vec<u64>)| Split {
            name: split.name.clone(),
            before: Arc::new(split.before.subset(numbers)),
            places: chosen(&split.places, numbers),
            moved: split.moved.iter().map(|one| one.chosen(numbers)).collect(),
        };
        let splits = self.splits.iter().zip(&numbers()).map(of_split).collect();
        Some(Arc::new(Self { splits, ..self.clone() }))
    }
}

/// The places of the images with these numbers.
fn chosen(places: &[Option<SpoolPosition>], numbers: &[u64]) -> Arc<Vec<Option<SpoolPosition>>> {
    Arc::new(numbers.iter().map(|number| places[*number as usize]).collect())
}

impl MovedComponent {
    /// The component of the images with these numbers.
    fn chosen(&self, numbers: &[u64]) -> Self {
        Self { name: self.name.clone(), places: chosen(&self.places, numbers) }
    }
}

/// Reads transformed images from spools, and unchanged images from the original source.
pub struct TransformedReader<'a> {
    listing: &'a Listing,
    places: &'a [Option<SpoolPosition>],
    moved: &'a [MovedComponent],
    /// Open spools; `None` for a spool without images of this split.
    spools: Vec<Option<SpoolReader>>,
    /// Components of the original source.
    kinds: &'a [Component],
    /// The original source, if it is still needed.
    before: Option<Box<dyn SampleReader + 'a>>,
}

/// Location of an image.
enum ImageLocation<'a> {
    Spool(&'a SpoolReader, u64),
    Before(&'a dyn SampleReader),
}

impl TransformedReader<'_> {
    /// The spool with what is at `made`.
    fn spool(&self, made: SpoolPosition) -> Option<&SpoolReader> {
        self.spools.get(made.spool.get() as usize - 1).and_then(Option::as_ref)
    }

    fn place(&self, number: u64) -> Result<ImageLocation<'_>> {
        let place = match self.places.get(number as usize) {
            Some(Some(made)) => self.spool(*made).map(|spool| ImageLocation::Spool(spool, made.place)),
            _ => self.before.as_deref().map(ImageLocation::Before),
        };
        place.ok_or_else(|| Error::data("an image that was not transformed"))
    }
}

impl SampleReader for TransformedReader<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        match self.place(number)? {
            ImageLocation::Spool(spool, place) => Ok(spool.read(place, payload)?),
            ImageLocation::Before(source) => source.read(number, payload),
        }
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        // The source may have components that the output format cannot store.
        let kinds = &self.listing.components().kinds;
        let kind = kinds.get(which);
        let moved = kind.and_then(|kind| self.moved.iter().find(|one| one.name == kind.name()));
        if let Some(made) = moved.and_then(|one| *one.places.get(number as usize)?) {
            let spool = self.spool(made).ok_or_else(|| Error::data("a component that was not transformed"))?;
            return Ok(spool.read(made.place, out)?);
        }
        let of_source = kind.and_then(|kind| self.kinds.iter().position(|one| one.name() == kind.name()));
        match (&self.before, of_source) {
            (Some(before), Some(which)) => before.read_component(number, which, out),
            _ => Err(ReadError::Refused(Refusal("has no components".to_owned()))),
        }
    }

    fn unchanged(&self) -> Result<()> {
        self.before.as_ref().map_or(Ok(()), |before| before.unchanged())
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        let (spool, place) = match self.place(number)? {
            ImageLocation::Spool(spool, place) => (spool, place),
            ImageLocation::Before(source) => return source.peek(number, first, look),
        };
        let most = first.len().min(self.listing.entry(number).bytes as usize);
        Ok(spool.peek(place, &mut first[..most], look)?)
    }
}
