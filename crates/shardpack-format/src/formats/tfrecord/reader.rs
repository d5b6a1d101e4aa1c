//! Reads images, labels and values from TFRecord files of any writer, and trusts no length or offset in them.
//!
//! Holds at all times: one record is in memory, in a reused buffer that never exceeds the length of the file. A record
//! with corrupt data is returned as damaged; a corrupt length ends the walk.

mod fields;
mod values;

use std::{borrow::Cow, io, ops::Range};

use fields::{ImageFeature, describe, describe_values, image, lossy, lost_steps, no_image};

use super::{
    example::Example,
    layout::{self, FOOT_BYTES, FRAME_BYTES, HEAD_BYTES, MAX_DATA_BYTES},
};
use crate::{
    Error, Result,
    formats::foreign::{self, FieldSelection, Foreign, Image, Input, Record, Skip, Walk},
    image_header::SNIFF_BYTES,
    memory, size,
};

/// Recipe: the record contains the image file.
const AS_IT_IS: u32 = 0;
/// Recipe: the record contains pixels, and a `.npy` header is added.
const OF_PIXELS: u32 = 1;

/// TFRecord shards that other tools wrote.
pub(super) struct TfRecords;

impl Foreign for TfRecords {
    fn is(&self, first: &[u8], total_bytes: Option<u64>, _: &str) -> bool {
        let Some(head) = first.first_chunk() else { return false };
        layout::data_bytes(*head).is_ok_and(|bytes| {
            let end = bytes.checked_add(FRAME_BYTES as u64);
            end.is_some_and(|end| total_bytes.is_none_or(|total| end <= total))
        })
    }

    fn walk(&self, input: Input, wanted: &FieldSelection) -> Result<Box<dyn Walk>> {
        Ok(Box::new(Records {
            input: input.bytes,
            total_bytes: input.total_bytes,
            at: 0,
            number: 0,
            has_ended: false,
            record: Vec::new(),
            image: None,
            head: Vec::new(),
            of_pixels: 0,
            wider: Vec::new(),
            wanted: wanted.clone(),
        }))
    }

    fn image<'r>(&self, fetched: &'r [u8], _: u32, wanted: &FieldSelection) -> Result<Cow<'r, [u8]>> {
        let data = layout::data(fetched).map_err(|fault| Error::data(fault.what))?;
        let example = parse(data).map_err(Error::data)?;
        let found = image(&example, data, wanted).map_err(Error::data)?;
        let ImageFeature { head, place, .. } = found.ok_or_else(|| Error::data(no_image(&example)))?;
        Ok(match head.is_empty() {
            true => Cow::Borrowed(&data[place]),
            false => Cow::Owned([&head, &data[place]].concat()),
        })
    }

    fn component(&self, fetched: &[u8], recipe: u32) -> Result<Vec<u8>> {
        let data = layout::data(fetched).map_err(|fault| Error::data(fault.what))?;
        let example = parse(data).map_err(Error::data)?;
        if values::is_of_value(recipe) {
            let content = values::content(&example, data, recipe);
            return content.ok_or_else(|| Error::data(format!("it has no value of recipe {recipe}")));
        }
        let list = (recipe as usize).checked_sub(1).and_then(|number| example.iter().nth(number));
        let text = list.and_then(|(_, list)| example.text(list));
        text.ok_or_else(|| Error::data(format!("it has no feature number {recipe} that is text")))
    }
}

/// A walk through a file.
struct Records {
    input: Box<dyn Skip>,
    total_bytes: Option<u64>,
    /// Offset of the next record.
    at: u64,
    /// Number of the next record.
    number: u64,
    has_ended: bool,
    /// The last record read, whole.
    record: Vec<u8>,
    /// Range of the image file, or of the pixels, in `record`.
    image: Option<Range<usize>>,
    /// The `.npy` header of pixels; empty if the record contains the image file.
    head: Vec<u8>,
    /// Number of images made from pixels.
    of_pixels: u64,
    /// For each other field of the last record, see [`Walk::wider`].
    wider: Vec<Option<u32>>,
    wanted: FieldSelection,
}

impl Records {
    /// Reads the record at `at`. Returns its length in bytes, and whether it is in memory: a record of 2 GiB or more is
    /// skipped. `None` at the end of the file.
    fn read(&mut self) -> Result<Option<(u64, bool)>> {
        let at = self.at;
        let left = self.total_bytes.map(|total| total.saturating_sub(at));
        let mut head = [0; HEAD_BYTES];
        let room = left.map_or(HEAD_BYTES, |left| usize::try_from(left).unwrap_or(HEAD_BYTES).min(HEAD_BYTES));
        let came = foreign::fill(&mut self.input, &mut head[..room]).map_err(|error| foreign::unreadable(error, at))?;
        match came {
            0 if left.is_none_or(|left| left == 0) => return Ok(None),
            HEAD_BYTES => {}
            _ => {
                let what = format!("cut header: the file ends after {came} bytes of a record, 12 begin one");
                return Err(Error::data(what).at_byte(at));
            }
        }
        let data_bytes = layout::data_bytes(head).map_err(|fault| Error::data(fault.what).at_byte(at))?;
        let rest_bytes = data_bytes.checked_add(FOOT_BYTES as u64).filter(|rest| {
            // The offset after the record must fit in 64 bits too.
            rest.checked_add(at).is_some_and(|end| end.checked_add(HEAD_BYTES as u64).is_some())
        });
        let cut = |came: u64| {
            Error::data(format!("truncated: a record of {data_bytes} bytes and its CRC, the file has {came} more"))
                .at_byte(at)
        };
        let left = left.map(|left| left.saturating_sub(HEAD_BYTES as u64));
        let rest_bytes = match (rest_bytes, left) {
            (Some(rest), Some(left)) if rest > left => return Err(cut(left)),
            (Some(rest), _) => rest,
            (None, _) => return Err(Error::data(format!("a record of {data_bytes} bytes")).at_byte(at)),
        };
        let record_bytes = HEAD_BYTES as u64 + rest_bytes;
        if data_bytes > MAX_DATA_BYTES {
            self.input.skip(rest_bytes).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    Error::data(format!("truncated: a record of {data_bytes} bytes")).at_byte(at)
                }
                _ => foreign::unreadable(error, at),
            })?;
            return Ok(Some((record_bytes, false)));
        }
        let came = match left {
            // The file is known to be long enough: one read into a buffer of the final length.
            Some(_) => {
                memory::resize(&mut self.record, record_bytes as usize).map_err(|error| error.at_byte(at))?;
                self.record[..HEAD_BYTES].copy_from_slice(&head);
                foreign::fill(&mut self.input, &mut self.record[HEAD_BYTES..]).map(|came| came as u64)
            }
            None => {
                memory::admit(record_bytes).map_err(|error| error.at_byte(at))?;
                self.record.clear();
                self.record.extend_from_slice(&head);
                foreign::append(&mut self.input, rest_bytes, &mut self.record)
            }
        };
        let came = came.map_err(|error| foreign::unreadable(error, at))?;
        if came == rest_bytes { Ok(Some((record_bytes, true))) } else { Err(cut(came)) }
    }

    fn step(&mut self) -> Result<Option<Record>> {
        self.image = None;
        self.wider.clear();
        let Some((record_bytes, is_read)) = self.read()? else { return Ok(None) };
        let range = self.at..self.at + record_bytes;
        let too_long = "a record of 2 GiB or more: protobuf messages must be below that".to_owned();
        let mut record = Record::numbered(range.clone(), self.number, too_long);
        self.at = range.end;
        self.number += 1;
        if !is_read {
            return Ok(Some(record));
        }
        let data = match layout::data(&self.record) {
            Ok(data) => data,
            // Corrupt data is not parsed.
            Err(fault) => {
                (record.image, record.is_damaged) = (Err(fault.what), true);
                return Ok(Some(record));
            }
        };
        match parse(data) {
            Ok(example) if let Some(what) = lost_steps(&example, data, &self.wanted) => record.image = Err(what),
            Ok(example) => match image(&example, data, &self.wanted) {
                Ok(Some(ImageFeature { key, place, head })) => {
                    describe(&mut record, &mut self.wider, &example, data, Some(key), &self.wanted);
                    let offset = HEAD_BYTES + place.start;
                    let recipe = if head.is_empty() { AS_IT_IS } else { OF_PIXELS };
                    record.image = match u32::try_from(head.len() + place.len()) {
                        Err(_) => Err("an image of 4 GiB or more".to_owned()),
                        Ok(bytes) => Ok(Image {
                            name: lossy(key),
                            fetch: range.clone(),
                            bytes,
                            offset: range.start + offset as u64,
                            in_parts: recipe != AS_IT_IS,
                            recipe,
                        }),
                    };
                    if record.image.is_ok() {
                        self.of_pixels += u64::from(recipe);
                        (self.image, self.head) = (Some(offset..offset + place.len()), head);
                    }
                }
                Ok(None) => {
                    if !describe_values(&mut record, &mut self.wider, &example, data, &self.wanted) {
                        describe(&mut record, &mut self.wider, &example, data, None, &self.wanted);
                    }
                    record.image = Err(no_image(&example));
                }
                Err(what) => {
                    describe(&mut record, &mut self.wider, &example, data, None, &self.wanted);
                    record.image = Err(what);
                }
            },
            Err(what) => record.image = Err(what),
        }
        Ok(Some(record))
    }
}

impl Walk for Records {
    fn next(&mut self) -> Result<Option<Record>> {
        if self.has_ended {
            return Ok(None);
        }
        let step = self.step();
        self.has_ended = !matches!(step, Ok(Some(_)));
        step
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let image = self.image.clone().and_then(|range| self.record.get(range));
        let image = image.ok_or_else(|| Error::data("the record has no image that can be had"))?;
        out.clear();
        out.extend_from_slice(&self.head);
        out.extend_from_slice(image);
        Ok(())
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let image = self.image.clone().and_then(|range| self.record.get(range)).unwrap_or_default();
        out.clear();
        out.extend(self.head.iter().chain(image).take(SNIFF_BYTES));
        Ok(())
    }

    fn wider(&self) -> &[Option<u32>] {
        &self.wider
    }

    fn notes(&self) -> Vec<String> {
        let pixels = (self.of_pixels > 0).then(|| {
            format!(
                "pixels without a file in {}: arrays, by the size beside them",
                size::counted(self.of_pixels, "record")
            )
        });
        pixels.into_iter().collect()
    }
}

fn parse(data: &[u8]) -> Result<Example<'_>, String> {
    Example::parse(data)
        .map_err(|fault| format!("not a tf.train.Example: byte {} of its data: {}", fault.at, fault.what))
}

#[cfg(test)]
mod tests;
