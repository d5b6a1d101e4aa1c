//! Summarises image headers in constant memory.

use std::collections::BTreeMap;

use serde::Serialize;
use shardpack_format::{
    component::Component,
    image_header::{Header, Kind, Mode},
};

use super::histogram::{Histogram, Spread};

/// Kinds and dimensions of images.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Images {
    /// Images per kind, detected from the first bytes.
    pub kinds: BTreeMap<String, u64>,
    /// Images per colour mode.
    pub modes: BTreeMap<String, u64>,
    /// Images per bit depth of a channel; 0 for unknown.
    pub depths: BTreeMap<u8, u64>,
    /// Widths in pixels, of images with a known size.
    pub width: Option<Spread>,
    /// Heights in pixels, of images with a known size.
    pub height: Option<Spread>,
    /// Images without a size in their headers.
    pub without_size: u64,
    /// Images whose kind does not match the extension of their component.
    pub strays: u64,
}

/// Counts images.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    kinds: BTreeMap<Kind, u64>,
    /// Samples that are not images, counted by kind.
    others: BTreeMap<String, u64>,
    modes: BTreeMap<Mode, u64>,
    depths: BTreeMap<u8, u64>,
    widths: Histogram,
    heights: Histogram,
    without_size: u64,
    strays: u64,
}

impl Counter {
    /// Counts an image; `extension` is the extension of its component, `None` if each image has the extension of its own kind.
    pub fn add(&mut self, image: &Header, extension: Option<&str>) {
        *self.kinds.entry(image.kind).or_default() += 1;
        self.strays += u64::from(is_stray(image.kind, extension));
        // An array without pixels is no image.
        if image.kind == Kind::Npy && image.width == 0 {
            return;
        }
        *self.modes.entry(image.mode).or_default() += 1;
        *self.depths.entry(image.depth).or_default() += 1;
        if image.width == 0 {
            self.without_size += 1;
        } else {
            self.widths.add(image.width);
            self.heights.add(image.height);
        }
    }

    /// Counts a sample of another kind than an image.
    pub fn add_other(&mut self, kind: &str, payload: &Component, image: &Header, extension: Option<&str>) {
        match self.others.get_mut(kind) {
            Some(samples) => *samples += 1,
            None => drop(self.others.insert(kind.to_owned(), 1)),
        }
        self.strays += u64::from(payload.is_stray(image.kind, extension));
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: Self) {
        other.others.into_iter().for_each(|(kind, count)| *self.others.entry(kind).or_default() += count);
        other.kinds.into_iter().for_each(|(kind, count)| *self.kinds.entry(kind).or_default() += count);
        other.modes.into_iter().for_each(|(mode, count)| *self.modes.entry(mode).or_default() += count);
        other.depths.into_iter().for_each(|(depth, count)| *self.depths.entry(depth).or_default() += count);
        self.widths.merge(other.widths);
        self.heights.merge(other.heights);
        self.without_size += other.without_size;
        self.strays += other.strays;
    }

    /// The totals.
    pub fn finish(self) -> Images {
        Images {
            kinds: self
                .kinds
                .into_iter()
                .map(|(kind, count)| (kind.name().to_owned(), count))
                .chain(self.others)
                .collect(),
            modes: self.modes.into_iter().map(|(mode, count)| (mode.name().to_owned(), count)).collect(),
            depths: self.depths,
            width: self.widths.spread(),
            height: self.heights.spread(),
            without_size: self.without_size,
            strays: self.strays,
        }
    }
}

/// Whether an image's kind does not match the extension of its component.
pub fn is_stray(kind: Kind, extension: Option<&str>) -> bool {
    extension.is_some_and(|extension| Kind::of_extension(extension) != Some(kind) && extension != kind.extension())
}

/// The kind with this name or extension, such as `jpeg`.
pub fn kind_of_name(name: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.name() == name).or_else(|| Kind::of_extension(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_stray_when_its_extension_means_another_kind() {
        let rows = [
            (Kind::Jpeg, Some("jpg"), false),
            (Kind::Jpeg, Some("jpeg"), false),
            (Kind::Png, Some("jpg"), true),
            (Kind::Unknown, Some("jpg"), true),
            (Kind::Unknown, Some("bin"), false),
            (Kind::Jpeg, Some("img"), true),
            (Kind::Pnm, Some("pgm"), false),
            (Kind::Png, None, false),
        ];
        for (kind, extension, stray) in rows {
            assert_eq!(is_stray(kind, extension), stray, "{kind:?} {extension:?}");
        }
        assert_eq!(kind_of_name("jpeg"), Some(Kind::Jpeg));
        assert_eq!(kind_of_name("jpg"), Some(Kind::Jpeg));
        assert_eq!(kind_of_name("unknown"), Some(Kind::Unknown));
        assert_eq!(kind_of_name("mp4"), None);
    }

    #[test]
    fn counts_of_parts_add_up() {
        let image = |kind, width, mode| Header { kind, width, height: width / 2, mode, depth: 8 };
        let (mut first, mut second) = (Counter::default(), Counter::default());
        first.add(&image(Kind::Jpeg, 100, Mode::Rgb), Some("jpg"));
        second.add(&image(Kind::Png, 300, Mode::Gray), Some("jpg"));
        second.add(&image(Kind::Jpeg, 0, Mode::Unknown), Some("jpg"));
        first.merge(second);
        let images = first.finish();
        assert_eq!(images.kinds, BTreeMap::from([("jpeg".to_owned(), 2), ("png".to_owned(), 1)]));
        assert_eq!(images.width, Some(Spread { smallest: 100, median: 100, largest: 300 }));
        assert_eq!(images.height, Some(Spread { smallest: 50, median: 50, largest: 150 }));
        assert_eq!((images.without_size, images.strays), (1, 1));
    }
}
