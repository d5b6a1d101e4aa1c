//! The part of an image that is decoded, and the pixels of each cut in it: numbers only.
//!
//! Holds at all times: a decoded part has every pixel that the windows of its cuts overlap.

use super::{
    geometry::{Geometry, Region},
    random::view_key,
    rotate::Turn,
    shape::Rect,
    transform::Transform,
};
use crate::{Refused, crops};

/// The pixels in the buffer: `covered` is their place in the image, in pixels of `by` times `by`.
pub(super) struct DecodedPart {
    pub(super) covered: Rect,
    pub(super) by: u32,
}

/// Position of the pixels of one cut in the buffer, with the region.
pub(super) struct DecodedWindow {
    pub(super) top: u32,
    pub(super) row_pixels: u32,
    pub(super) left: u32,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) region: Region,
}

impl DecodedPart {
    /// The pixels of a cut: exactly those that overlap its window, so that its neighbours have no influence.
    pub(super) fn window(&self, geometry: &Geometry) -> DecodedWindow {
        let Self { covered, by } = *self;
        let turn = geometry.turn;
        let stored = turn.stored(geometry.window, geometry.stored);
        let whole = crops::Rect { x: stored.left, y: stored.top, width: stored.width, height: stored.height };
        let part = whole.reduced(by, geometry.stored);
        let inner = Rect { left: part.x, top: part.y, width: part.width, height: part.height };
        let (across, down) = turn.beside(stored, inner, by);
        let (width, height) = (inner.width, inner.height);
        let region = within(reduced(geometry.region, (across, down), by), turn.size((width, height)));
        let (left, top) = (inner.left - covered.left, inner.top - covered.top);
        DecodedWindow { top, row_pixels: covered.width, left, width, height, region }
    }
}

/// The cut of each view of an image that is stored with this size and orientation.
pub(super) fn cuts(
    views: &[Transform],
    orientation: u8,
    stored: (u32, u32),
    random_key: u64,
) -> Result<Vec<Geometry>, Refused> {
    let cut = |(view, transform): (u64, &Transform)| {
        let turn = if transform.options().upright { Turn::from_exif(orientation) } else { Turn::NONE };
        let (width, height) = turn.size(stored);
        transform.admit(width, height)?;
        Ok(Geometry { turn, stored, ..transform.plan(width, height, view_key(random_key, view)) })
    };
    (0..).zip(views).map(cut).collect()
}

/// The smallest rectangle of the stored image with the windows of all cuts.
pub(super) fn enclosing(cuts: &[Geometry]) -> Rect {
    let windows = cuts.iter().map(|cut| cut.turn.stored(cut.window, cut.stored));
    let both = |one: Rect, other: Rect| {
        let (left, top) = (one.left.min(other.left), one.top.min(other.top));
        let right = (one.left + one.width).max(other.left + other.width);
        let bottom = (one.top + one.height).max(other.top + other.height);
        Rect { left, top, width: right - left, height: bottom - top }
    };
    windows.reduce(both).unwrap_or(Rect { left: 0, top: 0, width: 1, height: 1 })
}

/// The largest of 8, 4, 2 and 1 by which the region can be divided and still be at least as large as its place in the
/// slot.
pub(super) fn reduction(geometry: &Geometry) -> u32 {
    let Geometry { region, placed, .. } = geometry;
    let enough = |by: &u32| {
        let least = |pixels: u32| f64::from(pixels) * f64::from(*by);
        region.width >= least(placed.width) && region.height >= least(placed.height)
    };
    [8, 4, 2].into_iter().find(enough).unwrap_or(1)
}

/// A region in pixels of `by` times `by`; the first such pixel begins `left` and `top` before the window.
fn reduced(region: Region, (left, top): (f64, f64), by: u32) -> Region {
    let by = f64::from(by);
    Region {
        left: (region.left + left) / by,
        top: (region.top + top) / by,
        width: region.width / by,
        height: region.height / by,
    }
}

/// Clips a region to this size: rounding may have moved its end slightly beyond.
fn within(region: Region, (width, height): (u32, u32)) -> Region {
    Region {
        width: region.width.min(f64::from(width) - region.left),
        height: region.height.min(f64::from(height) - region.top),
        ..region
    }
}
