//! One record: where its image goes, then all that is written and noted once the image is there.

use shardpack_format::{Error, Result, formats::Layout, hash, sample::Row};

use crate::{
    listing::Listing,
    plan::{Plan, Scratch},
    source::{ReadError, Source},
};

/// Renders records one after the other and collects their rows.
pub(super) struct Renderer<'a> {
    plan: &'a Plan,
    scratch: Scratch,
    /// Rows of the records rendered so far; offsets count from the first of them.
    pub rows: Vec<Row>,
    at: u64,
}

/// Where a sample's record and its image go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub position: u64,
    /// Number in the listing.
    pub number: u64,
    pub layout: Layout,
    /// By how many bytes the record is longer than its layout.
    pub growth: u32,
}

impl Place {
    /// The image's part of the record.
    pub fn payload<'r>(&self, record: &'r mut [u8]) -> Result<&'r mut [u8]> {
        let image = self.layout.components[0];
        let (start, end) = (image.offset as usize, image.offset as usize + image.bytes as usize);
        record.get_mut(start..end).ok_or_else(|| Error::data("an image lies outside its record"))
    }

    /// Reads image and all that the sample has beside it from `source` into their places in the record.
    /// What it has beside are the pieces of `listing`, from component `first_beside` on.
    pub fn read(
        &self,
        source: &dyn Source,
        listing: &Listing,
        first_beside: usize,
        record: &mut [u8],
    ) -> Result<(), ReadError> {
        source.read(self.number, self.payload(record)?)?;
        let extents = self.layout.components.iter().skip(first_beside);
        let beside = listing.extra().pieces_of(self.number).iter().zip(extents).enumerate();
        for (which, (_, extent)) in beside.filter(|(_, (piece, _))| piece.length().is_some()) {
            let outside = || Error::data("a component lies outside its record");
            let place = record.get_mut(extent.offset as usize..).ok_or_else(outside)?;
            source.read_beside(self.number, which, place.get_mut(..extent.bytes as usize).ok_or_else(outside)?)?;
        }
        Ok(())
    }

    /// Length of the record in bytes.
    pub fn record_bytes(&self) -> u32 {
        self.layout.record_bytes + self.growth
    }

    /// Length of the image in bytes.
    pub fn payload_bytes(&self) -> u64 {
        self.layout.components[0].bytes.into()
    }
}

impl<'a> Renderer<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        Self { plan, scratch: Scratch::default(), rows: Vec::new(), at: 0 }
    }

    /// Where the sample at `position` goes, whose record is `growth` bytes longer than its layout.
    pub fn place(&mut self, position: u64, growth: u32) -> Result<Place> {
        let number = self.plan.sample_at(position);
        Ok(Place { position, number, layout: self.plan.layout_of(number, &mut self.scratch)?, growth })
    }

    /// Writes the framing around the image that is in its place, and notes the row. Records come in order.
    pub fn render(&mut self, place: &Place, record: &mut [u8]) -> Result<()> {
        let format = self.plan.format();
        let payload = place.payload(record)?;
        let (image, content_hash) = (self.plan.options.format.header_of(payload), hash::content(payload));
        let sample = self.plan.sample(place.position, &mut self.scratch);
        format.frame(&sample, &image, record)?;
        let (extent, in_parts) = (place.layout.components[0], place.growth > 0);
        let covered = if in_parts { 0..0 } else { extent.offset as usize..(extent.offset + extent.bytes) as usize };
        let frame_hash = hash::frame(record, covered.start, covered.end);
        self.rows.push(Row {
            key: sample.key.as_bytes().to_vec(),
            path: sample.path.to_vec(),
            label: sample.label,
            offset: self.at,
            record_bytes: place.record_bytes(),
            components: place.layout.components[..format.components().len()].to_vec(),
            content_hash,
            frame_hash,
            image,
            in_parts,
        });
        self.at += u64::from(place.record_bytes());
        Ok(())
    }
}
