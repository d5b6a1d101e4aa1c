//! A row of an index: the facts of a sample and of each of its components, read in place.

use std::ops::Range;

use super::{COMPONENT_BYTES, FLAG_HASH, FORM_BITS};
use crate::{
    component::Form,
    hash,
    image_header::Header,
    sample::{Detail, Extent, Forms, Row},
};

/// A row as it lies in the index, without copies.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// Key.
    pub key: &'a [u8],
    /// Original path; see [`crate::sample::Sample::path`].
    pub path: &'a [u8],
    /// Number of the class, if it has one.
    pub label: Option<i64>,
    /// Where the record starts: bytes from the start of the (unpacked) shard.
    pub offset: u64,
    /// Length of the record in bytes.
    pub record_bytes: u32,
    /// XXH3-128 of the image.
    pub content_hash: u128,
    /// XXH3-64 of the record without the image.
    pub frame_hash: u64,
    /// The parsed headers of the image.
    pub image: Header,
    /// See [`Row::in_parts`].
    pub in_parts: bool,
    /// [`COMPONENT_BYTES`] for each component.
    pub(super) extents: &'a [u8],
    pub(super) component_bytes: usize,
    pub(super) forms: &'a [Form],
}

impl<'a> RowRef<'a> {
    fn component_row(&self, number: usize) -> Option<&'a [u8]> {
        let at = number.checked_mul(self.component_bytes)?;
        self.extents.get(at..at.checked_add(self.component_bytes)?)
    }

    /// Number of components that samples of its shard may have.
    pub fn components(&self) -> usize {
        self.extents.len() / self.component_bytes
    }

    /// The facts of component `number` in addition to its place.
    fn detail(&self, number: usize) -> Detail {
        let told = self.component_row(number).and_then(|bytes| bytes.get(8..24)).map(|bytes| {
            let (form, content_bytes) = (u32_at(bytes, 0), u32_at(bytes, 4));
            let hash = (form & FLAG_HASH != 0).then(|| u64_at(bytes, 8));
            let form = Some(form & FORM_BITS).filter(|form| *form != FORM_BITS).unwrap_or(Forms::BYTES);
            Detail { form, content_bytes, hash }
        });
        told.unwrap_or(Detail::plain(0))
    }

    /// The form of component `number`; `None` if the sample does not have it.
    pub fn form(&self, number: usize) -> Option<&'a Form> {
        self.component(number)?;
        Some(self.forms.get(self.detail(number).form as usize).unwrap_or(&Form::Bytes))
    }

    /// Length in bytes of the content of component `number`, however it is stored; `None` where the sample lacks it.
    pub fn content_bytes(&self, number: usize) -> Option<u32> {
        let extent = self.component(number)?;
        Some(if self.component_bytes == COMPONENT_BYTES[0] { extent.bytes } else { self.detail(number).content_bytes })
    }

    /// The hash of component `number`, if it has one of its own.
    pub fn component_hash(&self, number: usize) -> Option<u64> {
        self.detail(number).hash
    }

    /// The components that have hashes of their own: number, place, hash.
    pub fn hashed(&self) -> impl Iterator<Item = (usize, Extent, u64)> {
        (0..self.components())
            .filter_map(|number| Some((number, self.component(number)?, self.component_hash(number)?)))
    }

    /// The frame hash of `record`, which should be that of the row.
    pub fn frame_hash_of(&self, record: &[u8]) -> u64 {
        let covered = self.covered();
        if self.component_bytes == COMPONENT_BYTES[0] {
            return hash::frame(record, &mut [covered]);
        }
        let own = self.hashed().map(|(_, at, _)| at.offset as usize..at.offset as usize + at.bytes as usize);
        hash::frame(record, &mut std::iter::once(covered).chain(own).collect::<Vec<_>>())
    }

    /// Place of component `number` in the record; `None` where the sample does not have it.
    pub fn component(&self, number: usize) -> Option<Extent> {
        let bytes = self.component_row(number)?;
        let extent = Extent { offset: u32_at(bytes, 0), bytes: u32_at(bytes, 4) };
        (extent != Extent::ABSENT).then_some(extent)
    }

    /// The image's place in its shard: offset and length in bytes.
    pub fn payload(&self) -> (u64, u32) {
        self.component(0).map_or((self.offset, 0), |image| (self.offset + u64::from(image.offset), image.bytes))
    }

    /// The bytes of the record that the content hash covers; the frame hash covers the others. Empty if the
    /// image is stored in parts.
    pub fn covered(&self) -> Range<usize> {
        match self.component(0) {
            Some(image) if !self.in_parts => image.offset as usize..(image.offset + image.bytes) as usize,
            _ => 0..0,
        }
    }

    /// Key and original path, as messages name a sample.
    pub fn name(&self) -> String {
        crate::sample::name(self.key, self.path)
    }

    /// A copy that stands on its own.
    pub fn to_row(&self) -> Row {
        Row {
            key: self.key.to_vec(),
            path: self.path.to_vec(),
            label: self.label,
            offset: self.offset,
            record_bytes: self.record_bytes,
            components: (0..self.components()).map(|n| self.component(n).unwrap_or(Extent::ABSENT)).collect(),
            details: match self.component_bytes == COMPONENT_BYTES[0] {
                true => Vec::new(),
                false => (0..self.components()).map(|n| self.detail(n)).collect(),
            },
            content_hash: self.content_hash,
            frame_hash: self.frame_hash,
            image: self.image,
            in_parts: self.in_parts,
        }
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
