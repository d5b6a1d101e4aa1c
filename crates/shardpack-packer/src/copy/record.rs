//! One record: where its image goes, then all that is written and noted once the image is there.

use std::cell::RefCell;

use shardpack_format::{
    Error, Result,
    component::Form,
    formats::{Format, Layout},
    hash,
    sample::{Detail, Extent, Row},
};

use crate::{
    listing::Listing,
    plan::{Plan, Scratch},
    source::{ReadError, Refusal, Source},
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

    /// Reads all components of the sample from `source` into their places in the record, as `format` stores them. Those beside
    /// the payload are the cells of `listing`, the last of the format's components.
    pub fn read(
        &self,
        source: &dyn Source,
        listing: &Listing,
        format: &dyn Format,
        record: &mut [u8],
    ) -> Result<(), ReadError> {
        let components = listing.components();
        let form = components.form(components.payload_form(self.number));
        let place = Stored { format, component: 0, form, content_bytes: listing.entry(self.number).bytes };
        place.fill(self.payload(record)?, |content| source.read(self.number, content))?;
        let cells = components.cells_of(self.number);
        let first_component = format.components().len().saturating_sub(cells.len());
        for (which, cell) in cells.iter().enumerate() {
            let Some(content_bytes) = cell.length() else { continue };
            let component = first_component + which;
            let extent = self.layout.components.get(component).copied().unwrap_or(Extent::ABSENT);
            let outside = || Error::data("a component lies outside its record");
            let stored = record.get_mut(extent.offset as usize..).ok_or_else(outside)?;
            let stored = stored.get_mut(..extent.bytes as usize).ok_or_else(outside)?;
            let place = Stored { format, component, form: components.form(cell.form), content_bytes };
            place.fill(stored, |content| source.read_component(self.number, which, content))?;
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

/// Where a component is stored, and what it is.
struct Stored<'f> {
    format: &'f dyn Format,
    component: usize,
    form: &'f Form,
    content_bytes: u32,
}

thread_local! {
    /// The content of a component that is stored in another way; memory that is there already is faster.
    static CONTENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Stored<'_> {
    /// Fills `stored` with what `read` gives.
    fn fill(&self, stored: &mut [u8], read: impl FnOnce(&mut [u8]) -> Result<(), ReadError>) -> Result<(), ReadError> {
        if !self.format.is_encoded(self.component) {
            return read(stored);
        }
        // Taken and not borrowed: the source may have a component of its own to decode on the way.
        let mut content = CONTENT.take();
        content.resize(self.content_bytes as usize, 0);
        let done = read(&mut content).and_then(|()| {
            let encoded = self.format.encode(self.component, self.form, &content, stored);
            encoded.map_err(|error| ReadError::Refused(Refusal(error.what())))
        });
        CONTENT.set(content);
        done
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
        let details = details(self.plan, place, record)?;
        let hashed = details.iter().zip(&place.layout.components).filter(|(detail, _)| detail.hash.is_some());
        let hashed = hashed.map(|(_, at)| at.offset as usize..at.offset as usize + at.bytes as usize);
        let frame_hash = match details.is_empty() {
            true => hash::frame(record, &mut [covered]),
            false => hash::frame(record, &mut std::iter::once(covered).chain(hashed).collect::<Vec<_>>()),
        };
        self.rows.push(Row {
            key: sample.key.as_bytes().to_vec(),
            path: sample.path.to_vec(),
            label: sample.label,
            offset: self.at,
            record_bytes: place.record_bytes(),
            components: place.layout.components[..format.components().len()].to_vec(),
            details,
            content_hash,
            frame_hash,
            image,
            in_parts,
        });
        self.at += u64::from(place.record_bytes());
        Ok(())
    }
}

/// Forms and hashes of the components of a sample; nothing where the source has none of its own.
fn details(plan: &Plan, place: &Place, record: &[u8]) -> Result<Vec<Detail>> {
    let components = plan.listing.components();
    if components.kinds.is_empty() && components.payload.is_none() {
        return Ok(Vec::new());
    }
    let mut details: Vec<_> = place.layout.components.iter().map(|at| Detail::plain(at.bytes)).collect();
    details.truncate(plan.format().components().len());
    let first_component = details.len().saturating_sub(components.kinds.len());
    let cells = components.cells_of(place.number);
    for ((detail, extent), cell) in details.iter_mut().zip(&place.layout.components).skip(first_component).zip(cells) {
        if *extent != Extent::ABSENT {
            let stored = extent.of(record).ok_or_else(|| Error::data("a component lies outside its record"))?;
            // A format that knows no absent files has them empty.
            let content_bytes = cell.length().unwrap_or(0);
            *detail = Detail { form: cell.form, content_bytes, hash: Some(hash::component(stored)) };
        }
    }
    if let Some(payload) = details.first_mut() {
        payload.form = components.payload_form(place.number);
        payload.content_bytes = plan.listing.entry(place.number).bytes;
    }
    Ok(details)
}
