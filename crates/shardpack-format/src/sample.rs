//! A sample as every format carries it: key, label, class, original path, and the place of its components.

use crate::{component::Form, image_header, text};

/// Most components that a sample can have in an index.
pub const MAX_COMPONENTS: usize = 255;

/// The facts of a sample before its payload is read; they decide the length of its record.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Key: ASCII, unique in the dataset.
    pub key: &'a str,
    /// Number of the class, from 0; `None` for a sample without one.
    pub label: Option<i64>,
    /// Name of the class: the folder's name, in the bytes that the file system gave.
    pub class: &'a [u8],
    /// Original path, relative to the source, with `/` between folders, in the bytes that the file system gave.
    pub path: &'a [u8],
    /// Length in bytes of the payload: the first component, the image file where it is one.
    pub payload_bytes: u32,
    /// Length in bytes of each of [`crate::formats::Choice::components`], `None` where the sample lacks it. Shorter is as
    /// good as filled up with `None`.
    pub components: &'a [Option<u32>],
    /// Types of payload and components, if they have types.
    pub forms: Forms<'a>,
}

/// The forms of the components of a sample, as numbers in a list of forms that samples share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forms<'a> {
    /// The forms of all samples.
    pub all: &'a [Form],
    /// That of the payload; beyond the list, it is [`Form::Bytes`].
    pub payload: u32,
    /// Those of [`Sample::components`], likewise.
    pub components: &'a [u32],
}

impl<'a> Forms<'a> {
    /// Stands for [`Form::Bytes`].
    pub const BYTES: u32 = u32::MAX;

    fn get(&self, number: Option<u32>) -> &'a Form {
        number.and_then(|number| self.all.get(number as usize)).unwrap_or(&Form::Bytes)
    }

    /// That of the payload.
    pub fn payload(&self) -> &'a Form {
        self.get(Some(self.payload))
    }

    /// That of further component `number`.
    pub fn component(&self, number: usize) -> &'a Form {
        self.get(self.components.get(number).copied())
    }
}

impl Sample<'_> {
    /// Length of the content in bytes and form of component `number`, 0 being the payload; `None` where the sample lacks it.
    pub fn content(&self, number: usize) -> Option<(u32, &Form)> {
        match number.checked_sub(1) {
            None => Some((self.payload_bytes, self.forms.payload())),
            Some(number) => Some((self.component(number)?, self.forms.component(number))),
        }
    }

    /// Length in bytes of further component `number`; `None` where the sample lacks it.
    pub fn component(&self, number: usize) -> Option<u32> {
        self.components.get(number).copied().flatten()
    }
}

/// Part of a record: offset from the record's start and length, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the start of the record.
    pub offset: u32,
    /// Length in bytes.
    pub bytes: u32,
}

impl Extent {
    /// Stands for a component that a sample does not have.
    pub const ABSENT: Extent = Extent { offset: u32::MAX, bytes: u32::MAX };

    /// The bytes of `record` that this is; `None` where it reaches beyond, or stands for an absent component.
    pub fn slice<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset as usize..)?.get(..self.bytes as usize)
    }
}

/// Facts of a component in an index of version 2, in addition to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Number of its form in the index's list of forms; [`Forms::BYTES`] where it is bytes.
    pub form: u32,
    /// Length of its content in bytes, however it is stored.
    pub content_bytes: u32,
    /// [`crate::hash::component`] of its stored bytes, which the frame hash then leaves out.
    pub hash: Option<u64>,
}

impl Detail {
    /// Of a component of bytes that another hash covers, or none.
    pub const fn plain(content_bytes: u32) -> Self {
        Self { form: Forms::BYTES, content_bytes, hash: None }
    }
}

/// One sample of a shard, from its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Key.
    pub key: Vec<u8>,
    /// Original path; see [`Sample::path`].
    pub path: Vec<u8>,
    /// Number of the class, if it has one.
    pub label: Option<i64>,
    /// Where the record starts: bytes from the start of the shard (of the unpacked shard, where it is compressed).
    pub offset: u64,
    /// Length of the record in bytes, framing and padding included.
    pub record_bytes: u32,
    /// Where each component lies in the record, in the order of the index's component names; the image is the first.
    pub components: Vec<Extent>,
    /// Further facts of each component; empty if there are none, as in an index of version 1.
    pub details: Vec<Detail>,
    /// [`crate::hash::content`] of the stored bytes of the first component.
    pub content_hash: u128,
    /// [`crate::hash::frame`] of the rest of the record.
    pub frame_hash: u64,
    /// The parsed headers of the image.
    pub image: image_header::Header,
    /// The image is stored in parts, which reach to the end of the record: [`crate::formats::whole`] joins them. Its
    /// extent is the length of the image, and [`Row::frame_hash`] covers the whole record.
    pub in_parts: bool,
}

impl Row {
    /// The first component's place in its shard: offset and length in bytes.
    pub fn payload(&self) -> (u64, u32) {
        self.components.first().map_or((self.offset, 0), |image| (self.offset + u64::from(image.offset), image.bytes))
    }

    /// Key and original path, as messages name a sample.
    pub fn name(&self) -> String {
        name(&self.key, &self.path)
    }
}

/// Key and original path, as messages name a sample.
pub fn name(key: &[u8], path: &[u8]) -> String {
    let key = text::shown(key);
    match path {
        [] => key.to_string(),
        _ => format!("{key} ({})", text::shown(path)),
    }
}
