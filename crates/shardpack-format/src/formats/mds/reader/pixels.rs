//! Converts raw pixels to a file with the same pixels: a PNM, or an array if no PNM can hold them.
//!
//! ```text
//! 0    u32 width | u32 height | u32 length of the mode
//! 12   the mode, a word of Pillow's
//! 12+n the pixels, row by row, nothing padded but bits to bytes
//! ```
//! Source: mosaicml-streaming 0.13.0, `streaming/base/format/mds/encodings.py`, `PIL`; Pillow, "Modes"; Netpbm, pbm(5),
//! pgm(5) and ppm(5).
//!
//! Modes that do not define their colours are refused: `P` lost its palette when it was stored, and neither PNM nor
//! array can express that colours are CMYK, YCbCr, LAB or HSV.

use std::borrow::Cow;

use super::super::layout::word;
use crate::{npy, text};

/// Recipe: the fetched bytes are the image file.
pub(super) const AS_IT_IS: u32 = 0;
/// Recipe: the fetched bytes are pixels, which [`Pixels`] converts to a file.
pub(super) const OF_PIXELS: u32 = 1;

/// Offset of the mode in a value, in bytes.
const MODE_START: usize = 12;
/// Number of bytes of an unsupported mode that a message shows.
const SHOWN_BYTES: usize = 16;

/// A value of encoding `pil`; the length of its pixels matches width, height and mode.
#[derive(Clone, Debug)]
pub(super) struct Pixels<'a> {
    /// The bytes of the file before the pixels.
    header: Vec<u8>,
    pixels: Cow<'a, [u8]>,
}

impl<'a> Pixels<'a> {
    /// Parses the value `bytes`; fails with the reason if it cannot be converted.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let words = (word(bytes, 0), word(bytes, 1), word(bytes, 2));
        let (Some(width), Some(height), Some(mode_bytes)) = words else {
            return Err(format!("raw pixels in {} bytes: too short for width, height and mode", bytes.len()));
        };
        let split = usize::try_from(mode_bytes).ok().and_then(|length| bytes[MODE_START..].split_at_checked(length));
        let (mode, pixels) = split.ok_or_else(|| {
            format!("raw pixels with a mode of {mode_bytes} bytes in a value of only {}", bytes.len())
        })?;
        let (width, height) = (u64::from(width), u64::from(height));
        let array = |dtype: &str, shape: &[u64]| npy::head(dtype, shape, false);
        // Rows of bits are padded to bytes.
        let (header, row_bytes) = match mode {
            b"1" => (format!("P4\n{width} {height}\n").into_bytes(), width.div_ceil(8)),
            b"L" => (format!("P5\n{width} {height}\n255\n").into_bytes(), width),
            b"RGB" => (format!("P6\n{width} {height}\n255\n").into_bytes(), 3 * width),
            b"LA" => (array("|u1", &[height, width, 2]), 2 * width),
            b"RGBA" => (array("|u1", &[height, width, 4]), 4 * width),
            b"I;16" => (array("<u2", &[height, width]), 2 * width),
            b"I" => (array("<i4", &[height, width]), 4 * width),
            b"F" => (array("<f4", &[height, width]), 4 * width),
            _ => {
                let shown = text::shown(&mode[..mode.len().min(SHOWN_BYTES)]);
                return Err(format!(
                    "raw pixels of mode {shown:?} are refused: the shard does not define their colours"
                ));
            }
        };
        if width == 0 || height == 0 || row_bytes.checked_mul(height) != Some(pixels.len() as u64) {
            let mode = text::shown(mode);
            return Err(format!("raw pixels: {} bytes do not make {width} x {height} of mode {mode}", pixels.len()));
        }
        let pixels = match mode {
            // Pillow's 1 is white, Netpbm's is black.
            b"1" => pixels.iter().map(|bits| !bits).collect(),
            _ => Cow::Borrowed(pixels),
        };
        Ok(Self { header, pixels })
    }

    /// Length of the file in bytes.
    pub fn file_bytes(&self) -> Result<u32, String> {
        let bytes = self.header.len() + self.pixels.len();
        u32::try_from(bytes).map_err(|_| format!("raw pixels that make a file of {bytes} bytes, 4 GiB or more"))
    }

    /// The file.
    pub fn file(&self) -> Vec<u8> {
        [self.header.as_slice(), &self.pixels].concat()
    }
}

#[cfg(test)]
pub(in super::super) mod tests {
    use super::*;
    use crate::image_header::{Header, Kind, Mode};

    /// The value that streaming stores for an image.
    pub fn value(width: u32, height: u32, mode: &str, pixels: &[u8]) -> Vec<u8> {
        let words = [width, height, mode.len() as u32].map(u32::to_le_bytes);
        [words.as_flattened(), mode.as_bytes(), pixels].concat()
    }

    #[test]
    fn the_file_holds_the_same_pixels() {
        let pixels: Vec<u8> = (0..18).collect();
        for (width, height, mode, magic, header) in
            [(3, 2, "RGB", "P6\n3 2\n255\n", Mode::Rgb), (18, 1, "L", "P5\n18 1\n255\n", Mode::Gray)]
        {
            let value = value(width, height, mode, &pixels);
            let read = Pixels::parse(&value).unwrap();
            let file = read.file();
            assert_eq!(file, [magic.as_bytes(), &pixels].concat());
            assert_eq!(read.file_bytes(), Ok(file.len() as u32));
            assert_eq!(Header::parse(&file), Header { kind: Kind::Pnm, width, height, mode: header, depth: 8 });
        }
    }

    #[test]
    fn bits_are_turned_and_what_no_pnm_holds_is_an_array() {
        let bits = Pixels::parse(&value(9, 2, "1", &[0xff, 0x80, 0x00, 0x00])).unwrap().file();
        assert_eq!(bits, b"P4\n9 2\n\x00\x7f\xff\xff");
        assert_eq!((Header::parse(&bits).width, Header::parse(&bits).height, Header::parse(&bits).depth), (9, 2, 1));
        let pixels: Vec<u8> = (0..24).collect();
        let cases: [(&str, (u32, u32), &str, &[u64]); 5] = [
            ("LA", (4, 3), "|u1", &[3, 4, 2]),
            ("RGBA", (3, 2), "|u1", &[2, 3, 4]),
            ("I;16", (4, 3), "<u2", &[3, 4]),
            ("I", (3, 2), "<i4", &[2, 3]),
            ("F", (2, 3), "<f4", &[3, 2]),
        ];
        for (mode, (width, height), dtype, shape) in cases {
            let file = Pixels::parse(&value(width, height, mode, &pixels)).unwrap().file();
            assert_eq!(file, [npy::head(dtype, shape, false), pixels.clone()].concat(), "{mode}");
            assert_eq!(Header::parse(&file).kind, Kind::Npy);
        }
    }

    #[test]
    fn what_is_no_such_image_says_why() {
        let mode_of = |length: u32| [&[0; 8][..], &length.to_le_bytes(), b"L"].concat();
        let cases: [(&str, Vec<u8>, &str); 15] = [
            ("nothing", vec![], "in 0 bytes"),
            ("cut before the mode", vec![0; 11], "in 11 bytes"),
            ("mode beyond the end", mode_of(2), "mode of 2 bytes"),
            ("mode beyond all", mode_of(u32::MAX), "mode of 4294967295 bytes"),
            ("bits, one row too few", value(9, 2, "1", &[0xff; 2]), "2 bytes do not make 9 x 2 of mode 1"),
            ("no palette", value(1, 1, "P", &[0]), "mode \"P\""),
            ("inks", value(1, 1, "CMYK", &[0; 4]), "mode \"CMYK\""),
            ("no mode", value(1, 1, "", &[0]), "mode \"\""),
            ("a long mode", value(1, 1, &"x".repeat(99), &[0]), "mode \"xxxxxxxxxxxxxxxx\" are"),
            ("one too few", value(2, 2, "L", &[0; 3]), "3 bytes do not make 2 x 2 of mode L"),
            ("one too many", value(2, 2, "L", &[0; 5]), "5 bytes"),
            ("gray for colours", value(2, 2, "RGB", &[0; 4]), "of mode RGB"),
            ("no pixels", value(0, 5, "RGB", b""), "0 x 5"),
            ("the largest", value(u32::MAX, u32::MAX, "RGB", &[0; 3]), "do not make"),
            // 2^64 + 26 bytes.
            ("a product that wraps", value(2_154_230_017, 2_854_344_542, "RGB", &[0; 26]), "do not make"),
        ];
        for (name, value, reason) in cases {
            let found = Pixels::parse(&value).unwrap_err();
            assert!(found.contains(reason), "{name}: {found}");
        }
    }
}
