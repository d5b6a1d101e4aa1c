//! Arrays of numpy as images: `uint8`, two or three axes.
//!
//! # Specification
//! numpy 2, `lib/format.py`: magic, version, length of the head (2 bytes in version 1, else 4), a Python dict, the items.

use shardpack_format::image_header::Kind;

use crate::{Layout, Limits, Picture, Refused, refused::plain};

/// An array as a picture.
pub(super) struct Shape {
    pub(super) width: u32,
    pub(super) height: u32,
    layout: Layout,
    /// `[C, H, W]`, not `[H, W, C]`.
    planes: bool,
}

struct Head<'a> {
    dtype: &'a str,
    is_fortran: bool,
    shape: Vec<u64>,
    items: &'a [u8],
}

fn damaged(what: impl Into<String>) -> Refused {
    Refused::Damaged(Kind::Npy, what.into())
}

fn head(bytes: &[u8]) -> Option<Head<'_>> {
    let (start, length) = match bytes.get(6)? {
        1 => (10, usize::from(u16::from_le_bytes(*bytes.get(8..)?.first_chunk()?))),
        _ => (12, u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?) as usize),
    };
    let end = length.checked_add(start)?;
    let text = str::from_utf8(bytes.get(start..end)?).ok()?;
    // The dict is written by `repr`, so each key and its value look one way.
    let value = |key: &str| text.split_once(key)?.1.split_once(':').map(|(_, value)| value.trim_start());
    let dtype = value("'descr'")?.strip_prefix('\'')?.split_once('\'')?.0;
    let is_fortran = value("'fortran_order'")?.starts_with("True");
    let shape = value("'shape'")?.strip_prefix('(')?.split_once(')')?.0;
    let axes = shape.split(',').map(str::trim).filter(|axis| !axis.is_empty());
    let shape = axes.map(|axis| axis.parse().ok()).collect::<Option<Vec<u64>>>()?;
    Some(Head { dtype, is_fortran, shape, items: &bytes[end..] })
}

/// Bytes an item: the digits behind the kind of its type. Objects have none that are in the file.
fn item_bytes(dtype: &str) -> Option<u64> {
    let kind = dtype.get(1..2)?;
    let count: u64 = dtype.get(2..)?.split('[').next()?.parse().ok()?;
    match kind {
        "b" | "i" | "u" | "f" | "c" | "m" | "M" | "S" | "V" => Some(count),
        "U" => count.checked_mul(4),
        _ => None,
    }
}

/// Whether all items are there.
pub(super) fn check(bytes: &[u8]) -> Result<(), Refused> {
    let head = head(bytes).ok_or_else(|| damaged("no head that can be read"))?;
    let item = item_bytes(head.dtype).ok_or_else(|| damaged(plain(&format!("items of type {}", head.dtype))))?;
    let needed = head.shape.iter().try_fold(item, |bytes, &axis| bytes.checked_mul(axis));
    match needed {
        Some(needed) if needed <= head.items.len() as u64 => Ok(()),
        _ => Err(damaged(format!("truncated: {:?} of {} bytes in {} bytes", head.shape, item, head.items.len()))),
    }
}

/// How an array is a picture.
pub(super) fn shape(bytes: &[u8]) -> Result<Shape, Refused> {
    check(bytes)?;
    let head = head(bytes).ok_or_else(|| damaged("no head that can be read"))?;
    let odd = || damaged(plain(&format!("{} of {:?} is no picture", head.dtype, head.shape)));
    if head.is_fortran || !matches!(head.dtype, "|u1" | "<u1" | ">u1" | "=u1") {
        return Err(odd());
    }
    let channels = |axis: u64| match axis {
        1 => Some(Layout::Gray8),
        3 => Some(Layout::Rgb8),
        4 => Some(Layout::Rgba8),
        _ => None,
    };
    let (height, width, layout, planes) = match head.shape[..] {
        [height, width] => (height, width, Some(Layout::Gray8), false),
        [first, height, width] if channels(first).is_some() && channels(width).is_none() => {
            (height, width, channels(first), true)
        }
        [height, width, last] => (height, width, channels(last), false),
        _ => return Err(odd()),
    };
    let side = |axis: u64| u32::try_from(axis).ok().filter(|&side| side > 0);
    match (side(width), side(height), layout) {
        (Some(width), Some(height), Some(layout)) => Ok(Shape { width, height, layout, planes }),
        _ => Err(odd()),
    }
}

/// An array as a picture.
pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, Refused> {
    let Shape { width, height, layout, planes } = shape(bytes)?;
    let channels = layout.channels();
    limits.admit(width, height, channels as u8)?;
    let items = head(bytes).map_or(&[][..], |head| head.items);
    let pixels = width as usize * height as usize;
    let items = items.get(..pixels * channels).unwrap_or_default();
    let pixels = match planes {
        true => (0..pixels).flat_map(|at| (0..channels).map(move |channel| items[channel * pixels + at])).collect(),
        false => items.to_vec(),
    };
    Picture::new(width, height, layout, pixels).ok_or_else(|| damaged("fewer items than its shape says"))
}

#[cfg(test)]
mod tests {
    use shardpack_format::npy;

    use super::*;

    fn array(dtype: &str, shape: &[u64], items: usize) -> Vec<u8> {
        let mut bytes = npy::head(dtype, shape, false);
        bytes.extend((0..items).map(|item| item as u8));
        bytes
    }

    #[test]
    fn axes_become_a_picture_or_are_refused() {
        let rows: [(&[u64], Option<(u32, u32, Layout)>); 10] = [
            (&[2, 5], Some((5, 2, Layout::Gray8))),
            (&[2, 5, 3], Some((5, 2, Layout::Rgb8))),
            (&[2, 5, 1], Some((5, 2, Layout::Gray8))),
            (&[3, 5, 4], Some((5, 3, Layout::Rgba8))),
            (&[3, 2, 5], Some((5, 2, Layout::Rgb8))),
            (&[4, 2, 5], Some((5, 2, Layout::Rgba8))),
            (&[2, 5, 7], None),
            (&[30], None),
            (&[0, 5], None),
            (&[1, 2, 5, 3], None),
        ];
        for (shape, expected) in rows {
            let items = shape.iter().product::<u64>() as usize;
            let found = decode(&array("|u1", shape, items), &Limits::default()).ok();
            let found = found.map(|picture| (picture.width(), picture.height(), picture.layout()));
            assert_eq!(found, expected, "{shape:?}");
            assert!(check(&array("|u1", shape, items)).is_ok());
        }
        assert!(decode(&array("<f4", &[2, 5], 40), &Limits::default()).is_err());
    }

    #[test]
    fn planes_are_woven_into_pixels() {
        let picture = decode(&array("|u1", &[3, 1, 2], 6), &Limits::default()).unwrap();
        assert_eq!(picture.pixels(), [0, 2, 4, 1, 3, 5]);
    }

    #[test]
    fn an_array_of_any_type_has_to_be_whole() {
        for (dtype, shape, bytes) in
            [("|u1", &[2, 3][..], 6), ("<f4", &[2, 3], 24), ("<U3", &[2], 24), ("<c16", &[], 16)]
        {
            assert!(check(&array(dtype, shape, bytes)).is_ok(), "{dtype}");
            assert!(check(&array(dtype, shape, bytes + 1)).is_ok(), "{dtype}");
            assert!(check(&array(dtype, shape, bytes - 1)).is_err(), "{dtype}");
        }
        assert!(check(&array("|O", &[1], 100)).is_err());
        assert!(check(&array("<u8", &[u64::MAX, u64::MAX], 100)).is_err());
    }
}
