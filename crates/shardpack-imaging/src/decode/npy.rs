//! Decodes NumPy arrays as images: `uint8`, two or three axes.
//!
//! [`shardpack_format::npy`] parses the header.

use shardpack_format::{
    image_header::Kind,
    npy::{self, Head},
};

use crate::{Layout, Limits, Picture, Refused, error::plain};

/// Shape of an array as a picture.
pub(super) struct Shape {
    pub(super) width: u32,
    pub(super) height: u32,
    layout: Layout,
    /// `[C, H, W]`, not `[H, W, C]`.
    planes: bool,
}

fn damaged(what: impl Into<String>) -> Refused {
    Refused::Damaged(Kind::Npy, what.into())
}

fn head(bytes: &[u8]) -> Result<Head<'_>, Refused> {
    npy::read_head(bytes).map_err(|error| damaged(plain(&error.what())))
}

/// Checks that all items are present. More data may follow: `np.save` can write several arrays into one file.
pub(super) fn check(bytes: &[u8]) -> Result<(), Refused> {
    let head = head(bytes)?;
    let items = (bytes.len() - head.data_offset) as u64;
    match head.data_bytes <= items {
        true => Ok(()),
        false => head.check_length(bytes.len() as u64).map_err(|error| damaged(plain(&error.what()))),
    }
}

/// The shape of the array as a picture.
pub(super) fn shape(bytes: &[u8]) -> Result<Shape, Refused> {
    check(bytes)?;
    let head = head(bytes)?;
    let odd = || damaged(plain(&format!("{} of shape {:?} is not a picture", head.dtype, head.shape)));
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

/// Decodes an array as a picture.
pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, Refused> {
    let Shape { width, height, layout, planes } = shape(bytes)?;
    let channels = layout.channels();
    limits.admit(width, height, channels as u8)?;
    let items = &bytes[head(bytes)?.data_offset..];
    let pixels = width as usize * height as usize;
    let items = items.get(..pixels * channels).unwrap_or_default();
    let pixels = match planes {
        true => (0..pixels).flat_map(|at| (0..channels).map(move |channel| items[channel * pixels + at])).collect(),
        false => items.to_vec(),
    };
    Picture::new(width, height, layout, pixels).ok_or_else(|| damaged("fewer items than its shape needs"))
}

#[cfg(test)]
mod tests {
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
