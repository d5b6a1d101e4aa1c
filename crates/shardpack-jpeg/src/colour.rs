//! Pixels from the samples of all channels.
//!
//! Holds at all times: RGB of YCbCr is that of libjpeg's tables of 16 bits. CMYK becomes RGB as each colour times black, of
//! Adobe's inverted values.
//!
//! Source: JFIF 1.02 (YCbCr); libjpeg's jdcolor.c (rounding) and jdapimin.c (which colours a file has).

use crate::{
    head::Head,
    simd::{Vector, by_level},
};

/// The channels of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    Grey,
    Ycc,
    Rgb,
    Cmyk,
    Ycck,
}

impl Colours {
    pub(crate) fn new(head: &Head) -> Self {
        let transform = head.adobe.map(|adobe| adobe[11]);
        match (head.channels(), transform) {
            ([_], _) => Self::Grey,
            ([_, _, _], _) if head.is_jfif => Self::Ycc,
            ([_, _, _], Some(0)) => Self::Rgb,
            ([r, g, b], None) if [r.id, g.id, b.id] == *b"RGB" => Self::Rgb,
            ([_, _, _, _], None | Some(0)) => Self::Cmyk,
            ([_, _, _, _], Some(_)) => Self::Ycck,
            _ => Self::Ycc,
        }
    }
}

/// Samples of a row, of each channel.
pub(crate) type Rows<'a> = [&'a [u8]; 4];

by_level! {
    /// Writes a row of pixels: RGB and 255 in four bytes each if `is_padded`, else RGB. `spare` has 4 bytes a pixel, unless
    /// `is_padded`.
    pub(crate) fn row(colours: Colours, rows: &Rows<'_>, is_padded: bool, spare: &mut [u8], pixels: &mut [u8]) = row_all
}

#[inline(always)]
fn row_all<V: Vector>(colours: Colours, rows: &Rows<'_>, is_padded: bool, spare: &mut [u8], pixels: &mut [u8]) {
    if is_padded {
        return padded(colours, rows, pixels);
    }
    if colours == Colours::Grey {
        for (pixel, &sample) in pixels.as_chunks_mut::<3>().0.iter_mut().zip(rows[0]) {
            *pixel = [sample; 3];
        }
        return;
    }
    padded(colours, rows, spare);
    for (pixel, &[red, green, blue, _]) in pixels.as_chunks_mut::<3>().0.iter_mut().zip(spare.as_chunks::<4>().0) {
        *pixel = [red, green, blue];
    }
}

#[inline(always)]
fn padded(colours: Colours, &[one, two, three, four]: &Rows, pixels: &mut [u8]) {
    let pixels = pixels.as_chunks_mut::<4>().0;
    let triples = one.iter().zip(two).zip(three);
    let colour = |[red, green, blue]: [u8; 3]| [red, green, blue, 255];
    match colours {
        Colours::Grey => {
            for (pixel, &sample) in pixels.iter_mut().zip(one) {
                *pixel = colour([sample; 3]);
            }
        }
        Colours::Ycc => {
            for (pixel, ((&y, &cb), &cr)) in pixels.iter_mut().zip(triples) {
                *pixel = packed(y, cb, cr).to_le_bytes();
            }
        }
        Colours::Rgb => {
            for (pixel, ((&red, &green), &blue)) in pixels.iter_mut().zip(triples) {
                *pixel = colour([red, green, blue]);
            }
        }
        Colours::Cmyk => {
            for (pixel, (((&cyan, &magenta), &yellow), &black)) in pixels.iter_mut().zip(triples.zip(four)) {
                *pixel = colour([cyan, magenta, yellow].map(|ink| product(ink, black)));
            }
        }
        Colours::Ycck => {
            for (pixel, (((&y, &cb), &cr), &black)) in pixels.iter_mut().zip(triples.zip(four)) {
                *pixel = colour(rgb(y, cb, cr).map(|ink| product(255 - ink, black)));
            }
        }
    }
}

/// RGB and 255, from the lowest byte on: code that a compiler makes vectors of.
#[inline(always)]
fn packed(y: u8, cb: u8, cr: u8) -> u32 {
    let [red, green, blue] = rgb(y, cb, cr).map(u32::from);
    red | green << 8 | blue << 16 | 0xFF00_0000
}

/// RGB of a pixel. The numbers are 1.402, 0.34414, 0.71414 and 1.772, times 2^16.
#[inline(always)]
fn rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let red = y + ((91_881 * cr + HALF) >> 16);
    let green = y + ((-22_554 * cb - 46_802 * cr + HALF) >> 16);
    let blue = y + ((116_130 * cb + HALF) >> 16);
    [red, green, blue].map(|number| number.clamp(0, 255) as u8)
}

/// Rounded quotient of a product and 255: J. F. Blinn, "Three Wrongs Make a Right".
#[inline(always)]
fn product(ink: u8, black: u8) -> u8 {
    let product = u32::from(ink) * u32::from(black) + 128;
    ((product + (product >> 8)) >> 8) as u8
}
