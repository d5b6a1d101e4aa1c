//! Reads RecordIO files of any writer, record by record.
//!
//! Holds at all times: the length of a part is checked against the rest of the file before the part is read. The parts of
//! a record come in order, and all but the last are multiples of four long. A record in several parts is in memory whole,
//! with a payload below 4 GiB. For a record in one part, only header and labels are read until the caller requests the
//! image, if the length of the file is known.

use std::borrow::Cow;

use super::{
    layout::{IMAGE_HEADER_BYTES, ImageHeader, LABEL_BYTES, PART_HEADER_BYTES, PartHeader, PartPosition},
    parts::{MAGIC, WORD_BYTES},
};
use crate::{
    Error, Result,
    component::Form,
    formats::foreign::{self, FieldSelection, Foreign, Image, Input, Label, Other, Record, Skip, Walk},
    image_header::SNIFF_BYTES,
    memory,
};

/// Component names: `boxes` for the labels of objects, `labels` for other lists of labels.
const BOXES: &str = "boxes";
const LABELS: &str = "labels";
/// Recipe of a component: all labels of the record as an array.
const OF_LABELS: u32 = 1;

/// RecordIO shards that other tools wrote.
pub(super) struct RecordIo;

impl Foreign for RecordIo {
    fn is(&self, first: &[u8], total_bytes: Option<u64>, _: &str) -> bool {
        let Some(part) = first.first_chunk().and_then(|head| PartHeader::read(head).ok()) else { return false };
        let end = PART_HEADER_BYTES as u64 + u64::from(part.padded_bytes());
        part.place.follows(None) && is_aligned(part) && total_bytes.is_none_or(|total| end <= total)
    }

    fn walk(&self, input: Input, wanted: &FieldSelection) -> Result<Box<dyn Walk>> {
        Ok(Box::new(Records::new(input.bytes, input.total_bytes, wanted)))
    }

    fn image<'r>(&self, fetched: &'r [u8], _: u32, wanted: &FieldSelection) -> Result<Cow<'r, [u8]>> {
        let mut records = Records::new(fetched, Some(fetched.len() as u64), wanted);
        let record = records.next()?.ok_or_else(|| Error::data("no record where one was").at_byte(0))?;
        if record.range.end != fetched.len() as u64 {
            let what = format!("the record ends here, not at {}", fetched.len());
            return Err(Error::data(what).at_byte(record.range.end));
        }
        let image = record.image.map_err(|why| Error::data(why).at_byte(0))?;
        if !image.in_parts {
            let whole = fetched.get(image.offset as usize..).and_then(|rest| rest.get(..image.bytes as usize));
            return whole.map(Cow::Borrowed).ok_or_else(|| cut(image.offset, u64::from(image.bytes)));
        }
        let mut out = Vec::new();
        records.image(&mut out)?;
        Ok(Cow::Owned(out))
    }

    fn component(&self, fetched: &[u8], _: u32) -> Result<Vec<u8>> {
        let mut records = Records::new(fetched, Some(fetched.len() as u64), &FieldSelection::default());
        records.next()?;
        let header = ImageHeader::read(&records.payload);
        let labels = header.map(|header| records.labels(&header));
        let form = labels.as_ref().and_then(|labels| Some((form(labels)?, labels)));
        let (form, labels) = form.ok_or_else(|| Error::data("the record has no labels").at_byte(0))?;
        let mut out = form.head();
        out.extend(labels.iter().flat_map(|label| label.to_le_bytes()));
        Ok(out)
    }
}

/// Whether labels are objects in the layout of `im2rec --pack-label`.
///
/// The first value is the length of the label header, 2 or more. The second value is the length of an object, 5 or more. Both count values,
/// and belong to the label header. At least one object follows; each begins with its class number and a box.
fn are_boxes(labels: &[f32]) -> bool {
    let [first, each, ..] = *labels else { return false };
    let whole = |value: f32, least: f32| {
        (value.fract() == 0.0 && value >= least && value <= labels.len() as f32).then_some(value as usize)
    };
    let (Some(first), Some(each)) = (whole(first, 2.0), whole(each, 5.0)) else { return false };
    let objects = labels.get(first..).unwrap_or_default();
    !objects.is_empty()
        && objects.len().is_multiple_of(each)
        && objects.chunks_exact(each).all(|object| {
            // -1 means no class.
            object[0].fract() == 0.0 && object[0] >= -1.0 && object[1..5].iter().all(|place| place.is_finite())
        })
}

/// Form of labels as a component; `None` if they are too many for an array.
fn form(labels: &[f32]) -> Option<Form> {
    Form::array("<f4", &[labels.len() as u64]).ok()
}

/// Key and offset of each record, from the bytes of an index.
///
/// # Errors
/// If a line is not `key TAB offset`; the error has the byte where the line begins. MXNet refuses such an index too.
pub fn read_idx(bytes: &[u8]) -> Result<Vec<(u64, u64)>> {
    let (mut entries, mut at) = (Vec::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = std::str::from_utf8(line).ok().and_then(|line| line.trim_end_matches(['\r', '\n']).split_once('\t'));
        let numbers = text.and_then(|(key, offset)| Some((number(key)?, number(offset)?)));
        entries.push(numbers.ok_or_else(|| {
            let shown: String = String::from_utf8_lossy(line).trim_end().chars().take(40).collect();
            Error::data(format!("a line of an index is a number, a tab, an offset; here is {shown:?}")).at_byte(at)
        })?);
        at += line.len() as u64;
    }
    Ok(entries)
}

fn number(text: &str) -> Option<u64> {
    // `parse` alone would accept a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A walk through a file.
struct Records<R> {
    inner: R,
    total_bytes: Option<u64>,
    /// Offset of `inner` in the file.
    at: u64,
    /// Number of records returned so far.
    given: u64,
    label_number: Option<usize>,
    no_labels: bool,
    /// The payload bytes read so far of the last returned record.
    payload: Vec<u8>,
    /// Numbers of unread bytes: in that payload, and in the padding after it.
    unread: (u32, u32),
    /// Offset of the image in `payload`; `None` if the record has no image.
    image_at: Option<usize>,
}

impl<R: Skip> Records<R> {
    fn new(inner: R, total_bytes: Option<u64>, wanted: &FieldSelection) -> Self {
        let (label_number, no_labels) = (wanted.label_number, wanted.no_labels);
        let (payload, unread, image_at) = (Vec::new(), (0, 0), None);
        Self { inner, total_bytes, at: 0, given: 0, label_number, no_labels, payload, unread, image_at }
    }

    /// Reads the header of the part after a part of place `before`. Returns `None` at the end of the file.
    ///
    /// # Errors
    /// If the header is invalid, the part may not follow `before`, or the file ends inside a record.
    fn part(&mut self, before: Option<PartPosition>) -> Result<Option<PartHeader>> {
        let start = self.at;
        let left = self.total_bytes.map_or(u64::MAX, |total| total.saturating_sub(start));
        let mut head = [0; PART_HEADER_BYTES];
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(head.len());
        let filled = foreign::fill(&mut self.inner, &mut head[..room]);
        let filled = filled.map_err(|error| foreign::unreadable(error, start))?;
        self.at += filled as u64;
        if filled == 0 && before.is_none() && room != 0 && self.total_bytes.is_some() {
            return Err(cut(start, left));
        }
        match filled {
            0 if before.is_none() => return Ok(None),
            PART_HEADER_BYTES => {}
            _ => return Err(cut(start, PART_HEADER_BYTES as u64)),
        }
        let part = PartHeader::read(&head).map_err(|what| Error::data(what).at_byte(start))?;
        if !part.place.follows(before) {
            let flag = part.place as u32;
            let expected =
                if before.is_some() { "2 or 3 to go on with the record" } else { "0 or 1 to begin a record" };
            return Err(Error::data(format!("a part of flag {flag}, expected {expected}")).at_byte(start));
        }
        if !is_aligned(part) {
            let what = format!("a part of {} bytes is followed by others, but is not a multiple of 4", part.bytes);
            return Err(Error::data(what).at_byte(start));
        }
        if u64::from(part.padded_bytes()) > left.saturating_sub(PART_HEADER_BYTES as u64) {
            return Err(cut(start, u64::from(part.padded_bytes()) + PART_HEADER_BYTES as u64));
        }
        Ok(Some(part))
    }

    /// Reads until `payload` has `bytes` bytes, or is complete.
    fn read_until(&mut self, bytes: usize) -> Result<()> {
        let wanted = bytes.saturating_sub(self.payload.len()).min(self.unread.0 as usize);
        memory::admit((self.payload.len() + wanted) as u64).map_err(|error| error.at_byte(self.at))?;
        let read = foreign::append(&mut self.inner, wanted as u64, &mut self.payload);
        let read = read.map_err(|error| foreign::unreadable(error, self.at))?;
        self.at += read;
        // `read` is at most `unread.0`.
        self.unread.0 -= read as u32;
        if read == wanted as u64 { Ok(()) } else { Err(cut(self.at, wanted as u64 - read)) }
    }

    /// Skips the unread bytes of the record.
    fn pass(&mut self) -> Result<()> {
        let bytes = u64::from(self.unread.0) + u64::from(self.unread.1);
        self.unread = (0, 0);
        if bytes > 0 {
            self.inner.skip(bytes).map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => cut(self.at, bytes),
                _ => foreign::unreadable(error, self.at),
            })?;
            self.at += bytes;
        }
        Ok(())
    }

    /// Reads the data of `part`, the first of several, and of all following parts. Returns the number of part headers
    /// between the header of `part` and the image.
    fn join(&mut self, mut part: PartHeader) -> Result<u64> {
        let (start, mut before_image) = (self.at, 0);
        loop {
            self.unread = (part.bytes, part.padded_bytes() - part.bytes);
            if u32::try_from(self.payload.len() as u64 + u64::from(part.bytes)).is_err() {
                return Err(Error::data("a record of 4 GiB or more").at_byte(start));
            }
            self.read_until(usize::MAX)?;
            self.pass()?;
            if part.place.ends() {
                return Ok(before_image);
            }
            let next = self.part(Some(part.place))?;
            part = next.ok_or_else(|| cut(self.at, PART_HEADER_BYTES as u64))?;
            self.payload.extend_from_slice(&MAGIC.to_le_bytes());
            if self.payload.len() as u64 <= image_at(&self.payload) {
                before_image += 1;
            }
        }
    }

    /// The labels between header and image; the label of the header if it has no list.
    fn labels(&self, header: &ImageHeader) -> Vec<f32> {
        if header.flag == 0 {
            return vec![header.label];
        }
        let end = IMAGE_HEADER_BYTES + header.flag as usize * LABEL_BYTES;
        let bytes = self.payload.get(IMAGE_HEADER_BYTES..end).unwrap_or_default();
        bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    fn label(&self, labels: &[f32]) -> Label {
        let value = match (self.label_number, labels) {
            (None, [value]) => value,
            (None, _) => return Label::Missing,
            (Some(number), _) => match labels.get(number) {
                Some(value) => value,
                None => {
                    return Label::Unfit(format!("it has {} labels, number {number} is wanted", labels.len()));
                }
            },
        };
        // A label is an i64, so a number beyond 2^63 is no label.
        match value.fract() == 0.0 && value.abs() < i64::MAX as f32 {
            true => Label::Number(*value as i64),
            // A fraction: `LabelTypes` decides whether the labels are classes.
            false if value.fract() != 0.0 && value.is_finite() && self.label_number.is_none() => {
                Label::Text(value.to_string().into_bytes())
            }
            false => Label::Unfit(format!("{value} is no whole number")),
        }
    }
}

impl<R: Skip> Walk for Records<R> {
    fn next(&mut self) -> Result<Option<Record>> {
        self.pass()?;
        self.payload.clear();
        self.image_at = None;
        let start = self.at;
        let Some(part) = self.part(None)? else { return Ok(None) };
        let in_parts = !part.place.ends();
        let parts_before_image = match in_parts {
            true => self.join(part)?,
            false => {
                self.unread = (part.bytes, part.padded_bytes() - part.bytes);
                // With an unknown file length, only reading detects the end, and a truncated record must not be returned.
                self.read_until(if self.total_bytes.is_some() { IMAGE_HEADER_BYTES } else { usize::MAX })?;
                if self.total_bytes.is_none() {
                    self.pass()?;
                }
                0
            }
        };
        let payload_bytes = self.payload.len() as u64 + u64::from(self.unread.0);
        let range = start..self.at + u64::from(self.unread.0) + u64::from(self.unread.1);
        let no_room = format!("a record of {payload_bytes} bytes has no room for a header of {IMAGE_HEADER_BYTES}");
        let mut record = Record::numbered(range, self.given, no_room);
        self.given += 1;
        let Some(header) = ImageHeader::read(&self.payload) else {
            record.is_damaged = true;
            return Ok(Some(record));
        };
        record.key = header.id.to_string().into_bytes();
        let image_at = image_at(&self.payload);
        let Some(image_bytes) = payload_bytes.checked_sub(image_at) else {
            let left = payload_bytes - IMAGE_HEADER_BYTES as u64;
            record.image = Err(format!("its header promises {} labels, {left} bytes follow", header.flag));
            record.is_damaged = true;
            return Ok(Some(record));
        };
        // `image_at` and `image_bytes` are at most the payload's length, which has 32 bits.
        self.image_at = Some(image_at as usize);
        self.read_until(image_at as usize)?;
        let labels = self.labels(&header);
        record.label = self.label(&labels);
        record.labels = labels.len();
        if labels.len() > 1 || self.no_labels {
            let form = form(&labels);
            record.others.push(Other {
                name: if are_boxes(&labels) { BOXES } else { LABELS }.to_owned(),
                bytes: form.as_ref().map_or(0, Form::head_bytes) + (labels.len() * LABEL_BYTES) as u64,
                offset: form.is_some().then_some(start),
                recipe: OF_LABELS,
                form,
            });
        }
        record.image = Ok(Image {
            name: String::new(),
            fetch: record.range.clone(),
            bytes: image_bytes as u32,
            offset: start + PART_HEADER_BYTES as u64 + image_at + parts_before_image * WORD_BYTES as u64,
            in_parts,
            recipe: 0,
        });
        Ok(Some(record))
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.read_until(usize::MAX)?;
        let image = self.image_at.and_then(|at| self.payload.get(at..));
        let image = image.ok_or_else(|| Error::data("the record has no image").at_byte(self.at))?;
        out.clear();
        out.extend_from_slice(image);
        Ok(())
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let at = self.image_at.unwrap_or(0);
        self.read_until(at + SNIFF_BYTES)?;
        out.clear();
        out.extend(self.payload.get(at..).unwrap_or_default().iter().take(SNIFF_BYTES));
        Ok(())
    }
}

/// Offset of the image, after header and labels, in a payload that begins with these bytes.
fn image_at(payload: &[u8]) -> u64 {
    let flag = payload.first_chunk().map_or(0, |flag| u32::from_le_bytes(*flag));
    IMAGE_HEADER_BYTES as u64 + u64::from(flag) * LABEL_BYTES as u64
}

/// Whether the length of `part` is valid: only the last part of a record may have padding, because an omitted magic follows the others.
fn is_aligned(part: PartHeader) -> bool {
    part.place.ends() || part.bytes == part.padded_bytes()
}

fn cut(at: u64, bytes: u64) -> Error {
    Error::data(format!("the file ends within these {bytes} bytes")).at_byte(at)
}

#[cfg(test)]
mod tests;
