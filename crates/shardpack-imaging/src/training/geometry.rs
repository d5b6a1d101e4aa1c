//! Computes the cut of an image and its place in the slot: numbers only, with torchvision's rounding.
//!
//! Holds at all times: the window lies within the image and the region within the window; neither is empty; the placed
//! rectangle lies within the slot.

use super::{
    random::{self, Draws},
    rotate::Turn,
    shape::{Rect, Size},
    transform::{Cut, Filter, Options, Padding, Resize},
};
use crate::{Refused, crops};

/// A rectangle whose edges may lie within pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Pixels across, above 0.
    pub width: f64,
    /// Pixels down, above 0.
    pub height: f64,
}

/// The cut of an image, and its place in the slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// The pixels of the image that influence the result; no other pixel is read.
    pub window: Rect,
    /// The part of the window that becomes the pixels of `placed`, in pixels of the window. Filters read beyond it, up
    /// to the window's edges.
    pub region: Region,
    /// Its place in the slot, before any flip; the rest is black.
    pub placed: Rect,
    /// Whether the slot is flipped left to right.
    pub flip: bool,
    /// Whether the slot is flipped top to bottom.
    pub flip_vertical: bool,
    /// Size of the slot.
    pub size: Size,
    /// The whole pixels of the image that `placed` samples, across and down: nearest neighbours need integers.
    pub(super) steps: [Steps; 2],
    /// Width and height of the image as stored, and the turn to the image as seen.
    pub(super) stored: (u32, u32),
    pub(super) turn: Turn,
}

/// One axis of a resize: pixels `first .. first + source` of the image become `resized` pixels, and the pixels from
/// `begin` on are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) first: u32,
    pub(super) source: u32,
    pub(super) resized: u64,
    pub(super) begin: u64,
}

impl Geometry {
    /// The region in pixels of the image, turned upright if the transform turns it: left, top, right, bottom.
    pub fn edges(&self) -> [f64; 4] {
        let (left, top) =
            (f64::from(self.window.left) + self.region.left, f64::from(self.window.top) + self.region.top);
        [left, top, left + self.region.width, top + self.region.height]
    }
}

// Purposes of an image's random numbers.
const FLIP: u64 = 0;
/// The next number is for the aspect; try `n` uses numbers 2 n further.
const FIRST_AREA: u64 = 1;
const TOP: u64 = 21;
const LEFT: u64 = 22;
const FLIP_VERTICAL: u64 = 23;
const TRIES: u64 = 10;

pub(super) fn plan(options: &Options, log_ratio: (f64, f64), source: (u32, u32), draws: Draws) -> Geometry {
    let all = Rect { left: 0, top: 0, width: source.0, height: source.1 };
    let geometry = match options.cut {
        Cut::Whole { size } => whole(all, size),
        Cut::Box { rect, size } => whole(rect, size),
        Cut::RandomResized { size, scale, ratio } => {
            whole(random_resized(source, scale, ratio, log_ratio, draws), size)
        }
        Cut::Center { resize, size } => {
            let resized = resized(source, resize);
            let (across, down) = (centered(resized.0, size.width), centered(resized.1, size.height));
            cut(source, resized, (across, down), size, options.filter)
        }
        Cut::Random { resize, size, padding, pad_if_needed } => {
            let resized = resized(source, resize);
            let (before, after) = padded(resized, size, padding, pad_if_needed);
            let across = anywhere(resized.0, size.width, (before.0, after.0), draws, LEFT);
            let down = anywhere(resized.1, size.height, (before.1, after.1), draws, TOP);
            cut(source, resized, (across, down), size, options.filter)
        }
    };
    let (flip, flip_vertical) = (draws.unit(FLIP) < options.flip, draws.unit(FLIP_VERTICAL) < options.flip_vertical);
    Geometry { flip, flip_vertical, stored: source, ..geometry }
}

/// Refuses an image that is smaller than a random crop, or has no such part.
pub(super) fn admit(cut: &Cut, source: (u32, u32)) -> Result<(), Refused> {
    if let &Cut::Box { rect: Rect { left, top, width, height }, .. } = cut {
        let is_within = crops::Rect { x: left, y: top, width, height }.is_within(source.0, source.1);
        return if is_within { Ok(()) } else { Err(Refused::OutsideImage { width: source.0, height: source.1 }) };
    }
    let &Cut::Random { resize, size, padding, pad_if_needed } = cut else { return Ok(()) };
    let resized = resized(source, resize);
    let (before, after) = padded(resized, size, padding, pad_if_needed);
    let (width, height) = (resized.0 + before.0 + after.0, resized.1 + before.1 + after.1);
    if width < size.width.into() || height < size.height.into() {
        return Err(Refused::SmallerThanCrop { width, height });
    }
    Ok(())
}

/// Pixels (across, down) that are padded before and behind an image. Source: torchvision 0.29, `RandomCrop.make_params`.
fn padded(
    resized: (u64, u64),
    size: Size,
    Padding { left, top, right, bottom }: Padding,
    pad_if_needed: bool,
) -> ((u64, u64), (u64, u64)) {
    let axis = |resized: u64, wanted: u32, before: u32, after: u32| {
        let (before, after) = (u64::from(before), u64::from(after));
        let missing = u64::from(wanted).saturating_sub(resized + before + after);
        let more = if pad_if_needed { missing } else { 0 };
        (before + more, after + more)
    };
    let (across, down) = (axis(resized.0, size.width, left, right), axis(resized.1, size.height, top, bottom));
    ((across.0, down.0), (across.1, down.1))
}

/// Makes a geometry without flips from the parts of both axes of the `resized` image.
fn cut(source: (u32, u32), resized: (u64, u64), (across, down): (Part, Part), size: Size, filter: Filter) -> Geometry {
    let support = match filter {
        Filter::Bilinear => 1.0,
        Filter::Bicubic => 2.0,
    };
    let (across, down) = (axis(source.0, resized.0, across, support), axis(source.1, resized.1, down, support));
    Geometry {
        window: Rect { left: across.first, top: down.first, width: across.count, height: down.count },
        region: Region { left: across.from, top: down.from, width: across.length, height: down.length },
        placed: Rect { left: across.at, top: down.at, width: across.pixels, height: down.pixels },
        flip: false,
        flip_vertical: false,
        size,
        steps: [across.steps, down.steps],
        stored: source,
        turn: Turn::NONE,
    }
}

/// The whole `window` becomes the whole slot, and its surroundings have no influence, as after a separate crop.
fn whole(window: Rect, size: Size) -> Geometry {
    let region = Region { left: 0.0, top: 0.0, width: window.width.into(), height: window.height.into() };
    let placed = Rect { left: 0, top: 0, width: size.width, height: size.height };
    let steps = |first, source, resized: u32| Steps { first, source, resized: resized.into(), begin: 0 };
    let steps = [steps(window.left, window.width, size.width), steps(window.top, window.height, size.height)];
    // The caller knows the whole image.
    let stored = (window.width, window.height);
    Geometry { window, region, placed, flip: false, flip_vertical: false, size, steps, stored, turn: Turn::NONE }
}

/// Source: torchvision 0.29, `RandomResizedCrop.get_params`: ten tries, then the center with the nearest allowed
/// aspect.
fn random_resized(
    (width, height): (u32, u32),
    scale: (f64, f64),
    ratio: (f64, f64),
    log_ratio: (f64, f64),
    draws: Draws,
) -> Rect {
    // Below 2^64; a double as in Python.
    let area = (u64::from(width) * u64::from(height)) as f64;
    for attempt in 0..TRIES {
        let number = FIRST_AREA + 2 * attempt;
        let wanted = area * draws.between(number, scale);
        let aspect = random::exp(draws.between(number + 1, log_ratio));
        // Python rounds halves to the even number.
        let across = (wanted * aspect).sqrt().round_ties_even();
        let down = (wanted / aspect).sqrt().round_ties_even();
        if 0.0 < across && across <= f64::from(width) && 0.0 < down && down <= f64::from(height) {
            let (across, down) = (across as u32, down as u32);
            let top = draws.below(TOP, height - down + 1);
            let left = draws.below(LEFT, width - across + 1);
            return Rect { left, top, width: across, height: down };
        }
    }
    let (across, down) = (f64::from(width), f64::from(height));
    // In an image of few pixels, an aspect far from 1 may need less than one pixel.
    let side = |wanted: f64, most: u32| (wanted.round_ties_even() as u32).clamp(1, most);
    let (across, down) = match across / down {
        aspect if aspect < ratio.0 => (width, side(across / ratio.0, height)),
        aspect if aspect > ratio.1 => (side(down * ratio.1, width), height),
        _ => (width, height),
    };
    Rect { left: (width - across) / 2, top: (height - down) / 2, width: across, height: down }
}

/// The size after `resize`. Source: torchvision 0.29, `_compute_resized_output_size`.
fn resized((width, height): (u32, u32), resize: Resize) -> (u64, u64) {
    match resize {
        Resize::Not => (width.into(), height.into()),
        Resize::Exact(size) => (size.width.into(), size.height.into()),
        Resize::Short(side) => {
            let (short, long) = (width.min(height), width.max(height));
            // Divided as doubles, as Python does; both are exact.
            let other = ((u64::from(side) * u64::from(long)) as f64 / f64::from(short)) as u64;
            if width <= height { (side.into(), other) } else { (other, side.into()) }
        }
    }
}

/// One axis of a crop, in pixels of the resized image.
#[derive(Clone, Copy)]
struct Part {
    /// First pixel.
    begin: u64,
    /// The first pixel of the slot that is filled.
    at: u32,
    /// Number of filled pixels.
    pixels: u32,
}

/// The center `wanted` pixels of `resized`; all of them if there are fewer.
///
/// Source: torchvision 0.29, `center_crop`: the smaller margin is on the left; a half is rounded to the even number.
fn centered(resized: u64, wanted: u32) -> Part {
    let pixels = resized.min(wanted.into()) as u32;
    // Below 2^49: exact as a double, and when halved.
    let begin = ((resized - u64::from(pixels)) as f64 / 2.0).round_ties_even() as u64;
    Part { begin, at: (wanted - pixels) / 2, pixels }
}

/// Any `wanted` pixels of `resized` with its padding, which is less than `wanted` on each side.
fn anywhere(resized: u64, wanted: u32, (before, after): (u64, u64), draws: Draws, number: u64) -> Part {
    // Below 2^32 for images in memory; of more places, not all are reached.
    let places = (resized + before + after).saturating_sub(wanted.into()) + 1;
    let first = u64::from(draws.below(number, u32::try_from(places).unwrap_or(u32::MAX)));
    let (begin, at) = (first.saturating_sub(before), before.saturating_sub(first));
    // At least 1, because the padding is less than `wanted`.
    let pixels = (resized - begin).min(u64::from(wanted).saturating_sub(at)).max(1) as u32;
    // Less than `wanted`.
    Part { begin, at: at as u32, pixels }
}

/// One axis of a cut.
struct Axis {
    /// First pixel of the window.
    first: u32,
    /// Pixels of the window.
    count: u32,
    /// Start of the region, from the window's edge.
    from: f64,
    /// Length of the region.
    length: f64,
    /// The first pixel of the slot that is filled.
    at: u32,
    /// Number of filled pixels.
    pixels: u32,
    steps: Steps,
}

/// One axis of a cut that a filter of `support` makes from `source` pixels.
fn axis(source: u32, resized: u64, Part { begin, at, pixels }: Part, support: f64) -> Axis {
    let steps = Steps { first: 0, source, resized, begin };
    let scale = f64::from(source) / resized as f64;
    if u64::from(source) == resized {
        let (first, count) = (begin as u32, pixels);
        return Axis { first, count, from: 0.0, length: f64::from(pixels), at, pixels, steps };
    }
    let (from, length) = (begin as f64 * scale, f64::from(pixels) * scale);
    // From the first pixel's centre to the last one's, and as far as the filter reaches beyond.
    let beyond = support * scale.max(1.0) - 0.5 * scale;
    let first = (from - beyond).floor().max(0.0) as u32;
    let end = ((from + length + beyond).ceil().min(source.into()) as u32).max(first + 1);
    let from = from - f64::from(first);
    let count = end - first;
    Axis { first, count, from, length: length.min(f64::from(count) - from), at, pixels, steps }
}
