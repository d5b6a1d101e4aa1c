//! Compares the class and the components of images with the same bytes.
//!
//! Holds at all times: two samples are equal only if all components are equal byte by byte; no sample is left out because of a hash alone.

use std::collections::HashMap;

use shardpack_format::{Result, hash};

use super::{ImageReader, duplicates::Image};
use crate::source::{Source, SourceKind, SourceListing};

/// Members of the text of a dataset that identify the sample and are no content.
const OF_THE_SAMPLE: [&str; 3] = ["class", "label", "path"];

/// How a sample relates to the samples before it that have the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// The same class and components as this image.
    Equal(Image),
    /// Another class than this image, or another component: its name.
    Conflict(Image, Option<String>),
}

/// Compares the samples of one listing.
pub(super) struct Samples<'a> {
    found: &'a SourceListing,
    reader: &'a ImageReader<'a>,
    /// Texts have members that identify the sample.
    is_named: bool,
}

impl<'a> Samples<'a> {
    /// Of `found`, which `reader` reads.
    pub fn new(source: &dyn Source, found: &'a SourceListing, reader: &'a ImageReader<'a>) -> Result<Self> {
        let is_dataset = source.leaf_of(found.split.as_deref())?.kind() == SourceKind::Dataset;
        Ok(Self { found, reader, is_named: found.meta && is_dataset })
    }

    /// The relations of `images`, which have the same bytes, in their order; `None` for a sample that is the first of its kind, or that
    /// cannot be read.
    pub fn relations(&self, images: &[Image]) -> Result<Vec<Option<Relation>>> {
        let mut firsts: HashMap<(Option<u32>, u128), Image> = HashMap::new();
        let (mut relations, mut content, mut other) = (Vec::with_capacity(images.len()), Vec::new(), Vec::new());
        for image in images {
            let Some(mark) = self.mark(image.1, &mut content)? else {
                relations.push(None);
                continue;
            };
            let key = (self.found.listing.class(image.1), mark);
            let relation = match firsts.get(&key) {
                Some(first) => Some(match self.difference(first.1, image.1, &mut content, &mut other)? {
                    None => Relation::Equal(*first),
                    Some(what) => Relation::Conflict(*first, what),
                }),
                None => match firsts.values().min().copied() {
                    None => None,
                    Some(first) => {
                        let what = self.difference(first.1, image.1, &mut content, &mut other)?;
                        Some(Relation::Conflict(first, what.flatten()))
                    }
                },
            };
            firsts.entry(key).or_insert(*image);
            relations.push(relation);
        }
        Ok(relations)
    }

    fn kinds(&self) -> usize {
        self.found.listing.components().kinds.len()
    }

    /// A hash of all components; `None` if one cannot be read.
    fn mark(&self, number: u64, content: &mut Vec<u8>) -> Result<Option<u128>> {
        let mut marks = Vec::with_capacity(self.kinds() * 17);
        for which in 0..self.kinds() {
            let Some(is_there) = self.component(number, which, content)? else { return Ok(None) };
            marks.push(u8::from(is_there));
            marks.extend(hash::content(content).to_le_bytes());
        }
        Ok(Some(hash::content(&marks)))
    }

    /// The first difference between two samples: the class, or the name of a component; `None` if they are equal.
    fn difference(
        &self,
        first: u64,
        second: u64,
        content: &mut Vec<u8>,
        other: &mut Vec<u8>,
    ) -> Result<Option<Option<String>>> {
        let listing = &self.found.listing;
        if listing.class(first) != listing.class(second) {
            return Ok(Some(None));
        }
        for (which, kind) in listing.components().kinds.iter().enumerate() {
            let there = (self.component(first, which, content)?, self.component(second, which, other)?);
            if there.0.is_none() || there.0 != there.1 || content != other {
                return Ok(Some(Some(kind.name().to_owned())));
            }
        }
        Ok(None)
    }

    /// Reads a component, as [`ImageReader::component`], without the members that identify the sample.
    fn component(&self, number: u64, which: usize, content: &mut Vec<u8>) -> Result<Option<bool>> {
        let read = self.reader.component(number, which, content)?;
        let is_text = self.found.listing.components().kinds[which].is_text();
        if is_text
            && self.is_named
            && let Ok(serde_json::Value::Object(mut members)) = serde_json::from_slice(content)
        {
            members.retain(|name, _| !OF_THE_SAMPLE.contains(&name.as_str()));
            *content = serde_json::Value::Object(members).to_string().into_bytes();
        }
        Ok(read)
    }
}
