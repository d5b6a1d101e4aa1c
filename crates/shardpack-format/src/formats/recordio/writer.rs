//! Frames samples as records: each has the length of its layout, plus one word for each magic in the image.

use std::path::Path;

use super::{
    layout::{
        EXTENSION, IMAGE_HEADER_BYTES, IMAGE_OFFSET, ImageHeader, PART_HEADER_BYTES, PART_LIMIT_BYTES, PartHeader,
        PartPosition, id,
    },
    parts::{MAGIC, WORD_BYTES, join, magics},
    sidecars,
};
use crate::{
    Error, Result,
    component::Component,
    formats::{self, Choice, Format, Layout, sidecars::Dataset, sidecars::Files, sidecars::Sealed},
    image_header::Header,
    index::RowRef,
    sample::{Extent, Sample},
    shell,
};

/// Name of the only component, if it is an image.
const IMAGE: &str = "image";
/// 2^24: f32 represents every whole number up to this exactly.
const MAX_LABEL: u64 = 1 << f32::MANTISSA_DIGITS;

/// The RecordIO format; it has no settings.
#[derive(Clone, Debug)]
pub struct RecordIo {
    components: Vec<String>,
}

impl RecordIo {
    /// The format with one component: the payload of `choice`, or the image.
    pub fn new(choice: &Choice) -> Self {
        let payload = choice.payload.as_ref().map_or(IMAGE, Component::name);
        Self { components: vec![payload.to_owned()] }
    }
}

impl Default for RecordIo {
    fn default() -> Self {
        Self::new(&Choice::new(super::NAME))
    }
}

impl Format for RecordIo {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn components(&self) -> &[String] {
        &self.components
    }

    fn needs_path(&self) -> bool {
        false
    }

    fn layout(&self, sample: &Sample<'_>) -> Result<Layout> {
        id(sample.key.as_bytes())?;
        label(sample.label).map_err(|error| error.in_sample(sample.key))?;
        let payload_bytes = u64::from(sample.payload_bytes) + IMAGE_HEADER_BYTES as u64;
        if payload_bytes >= u64::from(PART_LIMIT_BYTES) {
            return Err(Error::usage(format!(
                "image of {} bytes: RecordIO stores lengths in 29 bits, so image and header must be below 512 MiB",
                sample.payload_bytes
            ))
            .in_sample(sample.key));
        }
        let mut components = [Extent::ABSENT; formats::MAX_WRITTEN];
        components[0] = Extent { offset: IMAGE_OFFSET as u32, bytes: sample.payload_bytes };
        let record_bytes = IMAGE_OFFSET as u32 + sample.payload_bytes.next_multiple_of(WORD_BYTES as u32);
        Ok(Layout { record_bytes, components })
    }

    fn growth(&self, image: &[u8]) -> u32 {
        // The image begins at a multiple of four in the payload. The growth is at most the length of the image, which is below 2^29.
        (magics(image).count() * WORD_BYTES) as u32
    }

    fn join(&self, _: u64, image: Extent, record: &[u8]) -> Option<Vec<u8>> {
        join(record.get(image.offset as usize..)?, image.bytes as usize)
    }

    fn frame(&self, sample: &Sample<'_>, _: &Header, record: &mut [u8]) -> Result<()> {
        let id = id(sample.key.as_bytes())?;
        if [id as u32, (id >> 32) as u32].contains(&MAGIC) {
            return Err(Error::usage(format!(
                "id {id} holds the magic {MAGIC:#010x}, which splits the header of its record, and DALI misreads that"
            ))
            .in_sample(sample.key));
        }
        let label = label(sample.label).map_err(|error| error.in_sample(sample.key))?;
        let short = || Error::data("the record is not as long as its layout").in_sample(sample.key);
        let layout_bytes = self.layout(sample)?.record_bytes as usize;
        let growth_bytes = record.len().checked_sub(layout_bytes).ok_or_else(short)?;
        let (head, body) = record.split_at_mut_checked(IMAGE_OFFSET).ok_or_else(short)?;
        let image_bytes = sample.payload_bytes as usize;
        let (place, first_bytes) = match growth_bytes {
            0 => (PartPosition::Whole, image_bytes),
            _ if growth_bytes.is_multiple_of(WORD_BYTES) => {
                (PartPosition::First, escape(body, image_bytes, growth_bytes / WORD_BYTES).ok_or_else(short)?)
            }
            _ => return Err(short()),
        };
        body[image_bytes + growth_bytes..].fill(0);
        let part = PartHeader { place, bytes: (IMAGE_HEADER_BYTES + first_bytes) as u32 };
        head[..PART_HEADER_BYTES].copy_from_slice(&part.to_bytes());
        head[PART_HEADER_BYTES..].copy_from_slice(&ImageHeader { flag: 0, label, id, id2: 0 }.to_bytes());
        Ok(())
    }

    fn check(&self, row: &RowRef<'_>, record: &[u8]) -> Result<()> {
        let wrong = |at: usize, what: String| Err(Error::data(what).at_byte(at as u64));
        let (mut at, mut before, mut payload_bytes) = (0, None, 0);
        while !before.is_some_and(PartPosition::ends) {
            let head = record.get(at..).and_then(<[u8]>::first_chunk);
            let Some(head) = head else { return wrong(at, "the record ends before its last part".to_owned()) };
            let part = PartHeader::read(head).map_err(|what| Error::data(what).at_byte(at as u64))?;
            if !part.place.follows(before) {
                return wrong(at, format!("parts out of order: a part of flag {}", part.place as u32));
            }
            let (start, bytes) = (at + PART_HEADER_BYTES, part.bytes as usize);
            // The writer never splits the header: no word of it is the magic.
            if before.is_none() && bytes < IMAGE_HEADER_BYTES {
                return wrong(at, format!("a part of {bytes} bytes has no room for the header of an image"));
            }
            let padded = record.get(start..).and_then(|rest| rest.get(..part.padded_bytes() as usize));
            let Some((data, padding)) = padded.and_then(|padded| padded.split_at_checked(bytes)) else {
                return wrong(at, format!("a part of {bytes} bytes ends beyond its record of {}", record.len()));
            };
            if !part.place.ends() && !padding.is_empty() {
                return wrong(at, format!("a part of {bytes} bytes is followed by others, but is not a multiple of 4"));
            }
            if padding.iter().any(|byte| *byte != 0) {
                return wrong(start + bytes, "its padding is not zero".to_owned());
            }
            if let Some(hit) = magics(data).next() {
                return wrong(start + hit, format!("the magic {MAGIC:#010x} stands in a part"));
            }
            // Between two parts, the payload has a magic that neither part contains.
            payload_bytes += bytes + if before.is_some() { WORD_BYTES } else { 0 };
            at = start + part.padded_bytes() as usize;
            before = Some(part.place);
        }
        if at != record.len() {
            return wrong(at, format!("its parts end at {at}, the record at {}", record.len()));
        }
        if row.in_parts != (before == Some(PartPosition::Last)) {
            let (found, told) = if row.in_parts { ("in one part", "in several") } else { ("in parts", "in one") };
            return wrong(0, format!("the image is stored {found}, {told} in the index"));
        }
        let image_bytes = payload_bytes - IMAGE_HEADER_BYTES;
        let (id, label) = (id(row.key)?, label(row.label)?);
        let expected = ImageHeader { flag: 0, label, id, id2: 0 }.to_bytes();
        // Compared as bytes, because 0.0 equals -0.0.
        if record[PART_HEADER_BYTES..IMAGE_OFFSET] != expected {
            let found = ImageHeader::read(&record[PART_HEADER_BYTES..]);
            let found = found.map_or_else(String::new, |found| {
                format!("flag {}, label {}, id {}, id2 {}", found.flag, found.label, found.id, found.id2)
            });
            let what = format!("its header has {found}; expected flag 0, label {label}, id {id}, id2 0");
            return wrong(PART_HEADER_BYTES, what);
        }
        let extent = row.component(0).unwrap_or(Extent::ABSENT);
        if (extent.offset as usize, extent.bytes as usize) != (IMAGE_OFFSET, image_bytes) {
            return wrong(
                IMAGE_OFFSET,
                format!(
                    "an image of {image_bytes} bytes at {IMAGE_OFFSET}, {} at {} in the index",
                    extent.bytes, extent.offset
                ),
            );
        }
        Ok(())
    }

    fn shard_file(&self, name: &str, number: u64, _: u64) -> String {
        format!("{name}-{number:06}{EXTENSION}")
    }

    fn extension(&self) -> &'static str {
        EXTENSION
    }

    fn shard_sidecar(&self, name: &str, of: &Sealed<'_>, out: &mut dyn Files) -> Result<()> {
        sidecars::write_of_shard(name, of, out)
    }

    fn sidecar(&self, name: &str, dataset: &Dataset<'_>, out: &mut dyn Files) -> Result<()> {
        sidecars::write(name, dataset, out)
    }

    fn recipes(&self, folder: &Path, name: &str, shards: u64, _: bool) -> Vec<(&'static str, String)> {
        let file = |end: &str| shell::python(folder.join(format!("{name}{end}")));
        let first = file("-000000.rec");
        let files = match shards {
            0 | 1 => first.clone(),
            // The path is in a Python f-string, so its braces are doubled.
            _ => {
                let plain = shell::python(folder).replace('{', "{{").replace('}', "}}");
                let plain = plain.trim_end_matches('"').trim_end_matches('/');
                format!("f{plain}/{name}-{{i:06}}.rec\" for i in range({shards})")
            }
        };
        // MXNet takes several files as one string with `;` between them, and then no index (dmlc-core, indexed_recordio_split.cc:
        // "does not support multiple index files"). With one file, only `shuffle` needs an index.
        let records = match shards {
            0 | 1 => files.clone(),
            _ => format!("\";\".join({files})"),
        };
        if self.components[0] != IMAGE {
            return vec![(
                "MXNet",
                format!("mx.recordio.unpack(mx.recordio.MXRecordIO({first}, \"r\").read())  # header, bytes"),
            )];
        }
        let mxnet = format!("mx.io.ImageRecordIter(path_imgrec={records}, data_shape=(3, 224, 224), batch_size=256)");
        let dali = format!("fn.readers.mxnet(path=[{files}], index_path=[{}])", file("-dali.idx"));
        vec![("MXNet", mxnet), ("DALI", dali)]
    }
}

/// The label as stored.
///
/// # Errors
/// If the sample has no label, or f32 cannot represent the label exactly.
fn label(label: Option<i64>) -> Result<f32> {
    match label {
        None => Err(Error::usage("RecordIO has a label in every record, and the sample has none")),
        Some(label) if label.unsigned_abs() > MAX_LABEL => Err(Error::usage(format!(
            "label {label}: RecordIO stores labels as f32, which is exact to {MAX_LABEL} only"
        ))),
        Some(label) => Ok(label as f32),
    }
}

/// Splits the image in the first `image_bytes` bytes of `body` into parts, in place. Returns the length in bytes of the
/// first part; `None` if the image does not contain exactly `count` magics, or `count` is 0.
///
/// Works from the back: each piece moves by one word for every magic before it, over bytes that have already moved.
fn escape(body: &mut [u8], image_bytes: usize, count: usize) -> Option<usize> {
    let (mut left, mut end, mut place) = (count, image_bytes, PartPosition::Last);
    for at in (0..image_bytes / WORD_BYTES).rev().map(|word| word * WORD_BYTES) {
        if body.get(at..at + WORD_BYTES)? != MAGIC.to_le_bytes() {
            continue;
        }
        let from = at + WORD_BYTES;
        let to = from + left * WORD_BYTES;
        left = left.checked_sub(1)?;
        body.get(..to + (end - from))?;
        body.copy_within(from..end, to);
        let part = PartHeader { place, bytes: (end - from) as u32 };
        body[to - PART_HEADER_BYTES..to].copy_from_slice(&part.to_bytes());
        (end, place) = (at, PartPosition::Middle);
    }
    (left == 0 && count > 0).then_some(end)
}

#[cfg(test)]
mod tests;
