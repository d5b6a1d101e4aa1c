//! One record: the place of its image, then the framing and the index row once the image is there.

use std::{cell::RefCell, ops::Range};

use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    formats::{Format, Layout},
    hash,
    image_header::Header,
    index::Rows,
    sample::{Detail, Extent, Row},
};

use super::boxes::ImageSize;
use crate::{
    listing::Listing,
    plan::{Plan, Scratch},
    source::{ReadError, Refusal, SampleReader},
};

/// Renders records in order and collects their rows.
pub(super) struct Renderer<'a> {
    plan: &'a Plan,
    scratch: Scratch,
    /// Rows of the records rendered so far; offsets count from the first record.
    pub rows: Rows,
    /// The last row; its memory is reused for the next.
    row: Row,
    /// Ranges of a record that have hashes of their own; its memory is reused.
    covered: Vec<Range<usize>>,
    /// Whether rows have details of components beside their position.
    is_detailed: bool,
}

/// Place of a sample's record and image.
#[derive(Clone, Copy, Debug)]
pub struct RecordSpan {
    /// Position in the plan.
    pub position: u64,
    /// Offset of the record in the shard.
    pub offset: u64,
    /// Number in the listing.
    pub number: u64,
    /// Layout of the record without block headers.
    pub layout: Layout,
    /// [`Format::growth`] of the image.
    pub growth: u32,
    /// Length in bytes of the block headers in the record.
    pub header_bytes: u32,
}

impl RecordSpan {
    /// Place of sample `number` of the listing, for a record at `offset` whose image has this growth.
    pub fn new(format: &dyn Format, (position, number): (u64, u64), offset: u64, layout: Layout, growth: u32) -> Self {
        let plain_bytes = layout.record_bytes + growth;
        let header_bytes = format.block_headers().map_or(0, |headers| headers.added_bytes(offset, plain_bytes) as u32);
        Self { position, offset, number, layout, growth, header_bytes }
    }

    /// The image's part of the record.
    pub fn payload<'r>(&self, record: &'r mut [u8]) -> Result<&'r mut [u8]> {
        let image = self.layout.components[0];
        let (start, end) = (image.offset as usize, image.offset as usize + image.bytes as usize);
        record.get_mut(start..end).ok_or_else(|| Error::data("an image lies outside its record"))
    }

    /// Reads all components of the sample from `source` into their places in the record, as `format` stores
    /// them. Components beside the payload are the cells of `listing`, the last ones of the format's
    /// components.
    pub fn read(
        &self,
        source: &dyn SampleReader,
        listing: &Listing,
        format: &dyn Format,
        record: &mut [u8],
    ) -> Result<(), ReadError> {
        let components = listing.components();
        let form = components.form(components.payload_form(self.number));
        // One request may fetch image and components.
        let cells = components.cells_of(self.number);
        let together = if cells.is_empty() { None } else { source.read_batch(&[self.number]) };
        let source = together.as_deref().unwrap_or(source);
        let place = Stored { format, component: 0, form, content_bytes: listing.entry(self.number).bytes };
        place.fill(self.payload(record)?, |content| source.read(self.number, content))?;
        let is_converted = |kind: &Component| kind.conversion().is_some();
        let size = components.kinds.iter().any(is_converted).then(|| ImageSize::parse(self.payload(record)?));
        let size = size.transpose()?;
        let first_component = format.components().len().saturating_sub(cells.len());
        for (which, cell) in cells.iter().enumerate() {
            let Some(content_bytes) = cell.length() else { continue };
            let component = first_component + which;
            let extent = self.layout.components.get(component).copied().unwrap_or(Extent::ABSENT);
            let outside = || Error::data("a component lies outside its record");
            let stored = record.get_mut(extent.offset as usize..).ok_or_else(outside)?;
            let stored = stored.get_mut(..extent.bytes as usize).ok_or_else(outside)?;
            let place = Stored { format, component, form: components.form(cell.form), content_bytes };
            place.fill(stored, |content| match components.kinds[which].conversion().zip(size) {
                Some((conversion, size)) => size.fill(conversion, components.made_from(*cell), content),
                None => source.read_component(self.number, which, content),
            })?;
        }
        Ok(())
    }

    /// Length of the record in bytes.
    pub fn record_bytes(&self) -> u32 {
        (self.layout.record_bytes + self.growth).saturating_add(self.header_bytes)
    }

    /// Length of the image in bytes.
    pub fn payload_bytes(&self) -> u64 {
        self.layout.components[0].bytes.into()
    }
}

/// A component as stored: its place and its form.
struct Stored<'f> {
    format: &'f dyn Format,
    component: usize,
    form: &'f Form,
    content_bytes: u32,
}

thread_local! {
    /// Content of a component that is stored in another encoding. Reusing the memory is faster.
    static CONTENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Stored<'_> {
    /// Fills `stored` with the bytes that `read` gives.
    fn fill(&self, stored: &mut [u8], read: impl FnOnce(&mut [u8]) -> Result<(), ReadError>) -> Result<(), ReadError> {
        if !self.format.is_encoded(self.component) {
            return read(stored);
        }
        // Taken, not borrowed: the source may decode a component in the meantime.
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
        let components = plan.listing.components();
        let is_detailed = !components.kinds.is_empty() || components.payload.is_some();
        let row = Row {
            key: Vec::new(),
            path: Vec::new(),
            label: None,
            offset: 0,
            record_bytes: 0,
            components: Vec::new(),
            details: Vec::new(),
            content_hash: 0,
            frame_hash: 0,
            image: Header::NONE,
            in_parts: false,
        };
        let rows = Rows::new(plan.format().components().len(), is_detailed);
        Self { plan, scratch: Scratch::default(), rows, row, covered: Vec::new(), is_detailed }
    }

    /// Place of the sample at `position`, whose record is at `offset` of the shard, and its image has this growth.
    pub fn place(&mut self, position: u64, offset: u64, growth: u32) -> Result<RecordSpan> {
        let number = self.plan.sample_at(position);
        let layout = self.plan.layout_of(number, &mut self.scratch)?;
        Ok(RecordSpan::new(self.plan.format(), (position, number), offset, layout, growth))
    }

    /// Writes the framing around the image in its place, and adds the row. Records must come in order.
    pub fn render(&mut self, place: &RecordSpan, record: &mut [u8]) -> Result<()> {
        let Self { plan, scratch, rows, row, covered, is_detailed } = self;
        let format = plan.format();
        let payload = place.payload(record)?;
        (row.image, row.content_hash) = (plan.options.format.header_of(payload), hash::content(payload));
        let sample = plan.sample(place.position, scratch);
        format.render(place.offset, &sample, &row.image, record)?;
        row.key.clear();
        row.key.extend_from_slice(sample.key.as_bytes());
        row.path.clear();
        row.path.extend_from_slice(sample.path);
        row.label = sample.label;
        row.components.clear();
        row.components.extend_from_slice(&place.layout.components[..format.components().len()]);
        if *is_detailed {
            details(plan, place, record, &row.components, &mut row.details)?;
        }
        let range = |extent: &Extent| extent.offset as usize..extent.offset as usize + extent.bytes as usize;
        row.in_parts = place.growth + place.header_bytes > 0;
        covered.clear();
        covered.push(if row.in_parts { 0..0 } else { range(&place.layout.components[0]) });
        let hashed = row.details.iter().zip(&row.components).filter(|(detail, _)| detail.hash.is_some());
        covered.extend(hashed.map(|(_, at)| range(at)));
        row.frame_hash = hash::frame(record, covered);
        row.record_bytes = place.record_bytes();
        rows.push(row)?;
        row.offset += u64::from(row.record_bytes);
        Ok(())
    }
}

/// Writes forms and hashes of a sample's components, which lie in `extents` of its record, into `details`.
fn details(
    plan: &Plan,
    place: &RecordSpan,
    record: &[u8],
    extents: &[Extent],
    details: &mut Vec<Detail>,
) -> Result<()> {
    let components = plan.listing.components();
    details.clear();
    details.extend(extents.iter().map(|at| Detail::plain(at.bytes)));
    let first_component = details.len().saturating_sub(components.kinds.len());
    let cells = components.cells_of(place.number);
    for ((detail, extent), cell) in details.iter_mut().zip(extents).skip(first_component).zip(cells) {
        if *extent != Extent::ABSENT {
            let stored = extent.slice(record).ok_or_else(|| Error::data("a component lies outside its record"))?;
            // A format that cannot mark a file as missing stores an empty one.
            let content_bytes = cell.length().unwrap_or(0);
            *detail = Detail { form: cell.form, content_bytes, hash: Some(hash::component(stored)) };
        }
    }
    if let Some(payload) = details.first_mut() {
        payload.form = components.payload_form(place.number);
        payload.content_bytes = plan.listing.entry(place.number).bytes;
    }
    Ok(())
}
