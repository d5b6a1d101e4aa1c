//! Walks the images of a file and their records.
//!
//! A walk ends at an error that concerns the whole file. A panic of a crate that parses the file becomes an error.

use std::collections::BTreeMap;

use shardpack_format::{
    Error, Result,
    formats::foreign::{Image, Record, Walk},
    image_header::SNIFF_BYTES,
};

use super::super::{catch_panic, missing_image::MissingImage};

/// Iterator over the images of a file.
pub(crate) trait Images {
    /// The next image, as a record that begins at `at`. `out` receives its bytes and then the bytes of its fields; `None`
    /// after the last.
    fn next(&mut self, at: u64, out: &mut Vec<u8>) -> Result<Option<Record>>;

    /// Notes about how the file was interpreted.
    fn notes(&self) -> Vec<String>;

    /// Number of items of the file that are neither an image nor a field of an image, by kind.
    fn passed(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}

/// The record of an image with its length at `at`, or of a missing image.
pub(crate) fn record(at: u64, key: Vec<u8>, name: String, image: Result<usize, MissingImage>) -> Record {
    let image = image.and_then(|bytes| {
        let end = at
            .checked_add(bytes as u64)
            .ok_or_else(|| MissingImage::no_image("images of more than 64 bits of bytes"))?;
        let bytes = u32::try_from(bytes).map_err(|_| MissingImage::no_image("an image of 4 GiB or more"))?;
        Ok(Image { name, fetch: at..end, bytes, offset: at, in_parts: false, recipe: 0 })
    });
    let end = image.as_ref().map_or(at, |image| image.fetch.end);
    let is_damaged = matches!(image, Err(MissingImage::Damaged(_)));
    Record { key, is_damaged, image: image.map_err(MissingImage::what), ..Record::numbered(at..end, 0, String::new()) }
}

/// A walk that ends at the first error that concerns the whole file.
pub(crate) struct Contained {
    images: Box<dyn Images>,
    /// The kind of the file, for messages.
    what: &'static str,
    /// Offset of the next image in the virtual file.
    at: u64,
    /// Bytes of the image of the last record and of its fields.
    content: Vec<u8>,
    /// Length of the image, if there is one.
    image_bytes: Option<usize>,
    /// Whether `content` holds any bytes of the record.
    has_content: bool,
    has_ended: bool,
    /// Left-out parts of the file, and their counts.
    left_out: BTreeMap<String, u64>,
}

impl Contained {
    /// Walks the samples of `images` in a file of the kind `what`, and keeps the counts of `left_out`.
    pub fn new(what: &'static str, images: Box<dyn Images>, left_out: BTreeMap<String, u64>) -> Self {
        Self {
            images,
            what,
            at: 0,
            content: Vec::new(),
            image_bytes: None,
            has_content: false,
            has_ended: false,
            left_out,
        }
    }
}

impl Walk for Contained {
    fn next(&mut self) -> Result<Option<Record>> {
        (self.image_bytes, self.has_content) = (None, false);
        if self.has_ended {
            return Ok(None);
        }
        let step = catch_panic::contained(self.what, || {
            self.content.clear();
            self.images.next(self.at, &mut self.content)
        });
        match &step {
            Ok(Some(record)) => {
                let image = record.image.as_ref().ok();
                (self.at, self.image_bytes) = (record.range.end, image.map(|image| image.bytes as usize));
                self.has_content = record.has_content();
            }
            _ => self.has_ended = true,
        }
        step
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let bytes = self.image_bytes.ok_or_else(|| Error::data("the row has no image that can be read"))?;
        self.content(out)?;
        out.truncate(bytes);
        Ok(())
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.extend(self.content.iter().take(self.image_bytes.unwrap_or(0).min(SNIFF_BYTES)));
        Ok(())
    }

    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if !self.has_content {
            return Err(Error::data("the row has nothing that can be read"));
        }
        out.clear();
        out.extend_from_slice(&self.content);
        Ok(())
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        let mut passed = self.images.passed();
        passed.extend(self.left_out.clone());
        passed
    }

    fn notes(&self) -> Vec<String> {
        self.images.notes()
    }
}
