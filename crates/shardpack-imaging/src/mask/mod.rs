//! Decodes files whose pixels are numbers and not colours: masks of classes, palette indices, depths.
//!
//! Holds at all times: the numbers are those of the file. Palettes stay indices, and 16 bits stay 16 bits, where
//! [`decode`](crate::decode) makes colours of 8 bits.

mod png;

use shardpack_format::image_header::{Header, Kind, Mode};

pub use png::{mask_size, move_mask};

use crate::{Limits, Refused, catch_panic::contained, decode};

/// The numbers of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// Pixels across, as stored.
    pub width: u32,
    /// Pixels down, as stored.
    pub height: u32,
    /// Numbers of a pixel, 1 to 4; more than one for masks whose classes are colours.
    pub channels: u32,
    /// Bytes of a number, 1 or 2.
    pub bytes: u32,
    /// `[height, width, channels] uint8` or `uint16`, little-endian, C order.
    pub items: Vec<u8>,
}

impl Mask {
    /// Decodes a whole file. PNG may have 1 to 16 bits a number; other kinds have 8, without a palette.
    ///
    /// # Errors
    /// Files that [`decode`](crate::decode) refuses, and kinds whose numbers the decoder here would change.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, Refused> {
        let header = Header::parse(bytes);
        match header.kind {
            Kind::Png => contained(bytes, || of_png(bytes, &header, limits)),
            // Netpbm is scaled from its greatest number to 255.
            kind if header.depth > 8 || header.mode == Mode::Palette || matches!(kind, Kind::Gif | Kind::Pnm) => {
                Err(Refused::Unsupported(kind, "decoders change the numbers of such a mask: PNG keeps them".to_owned()))
            }
            _ => {
                let picture = decode(bytes, limits)?;
                let channels = picture.layout().channels() as u32;
                let (width, height) = (picture.width(), picture.height());
                Ok(Self { width, height, channels, bytes: 1, items: picture.pixels().to_vec() })
            }
        }
    }

    /// Bytes of a pixel.
    pub fn pixel_bytes(&self) -> usize {
        (self.channels * self.bytes) as usize
    }
}

/// Source: PNG third edition, 7.1: numbers are big-endian.
fn of_png(bytes: &[u8], header: &Header, limits: &Limits) -> Result<Mask, Refused> {
    // At most four numbers of two bytes.
    limits.admit(header.width, header.height, 8)?;
    let mut mask = png::read(bytes)?;
    let (channels, bytes) = (mask.colour.samples() as u32, mask.level_bytes() as u32);
    if bytes == 2 {
        mask.levels.as_chunks_mut::<2>().0.iter_mut().for_each(|number| number.reverse());
    }
    Ok(Mask { width: header.width, height: header.height, channels, bytes, items: mask.levels })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use ::png;

    use super::*;

    fn encoded(colour: png::ColorType, depth: png::BitDepth, (width, height): (u32, u32), rows: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        if colour == png::ColorType::Indexed {
            encoder.set_palette([9, 8, 7].repeat(4));
        }
        encoder.write_header().unwrap().write_image_data(rows).unwrap();
        bytes
    }

    #[test]
    fn the_numbers_are_those_of_the_file() {
        use png::{BitDepth::*, ColorType::*};
        let rows: [(_, _, (u32, u32), &[u8], (u32, u32), &[u8]); 6] = [
            (Indexed, Two, (3, 2), &[0b00_01_10_00, 0b11_00_01_00], (1, 1), &[0, 1, 2, 3, 0, 1]),
            (Grayscale, One, (9, 1), &[0b1010_0110, 0b1000_0000], (1, 1), &[1, 0, 1, 0, 0, 1, 1, 0, 1]),
            (Grayscale, Four, (2, 1), &[0xF3], (1, 1), &[15, 3]),
            (Grayscale, Eight, (2, 2), &[0, 1, 254, 255], (1, 1), &[0, 1, 254, 255]),
            (Grayscale, Sixteen, (2, 1), &[1, 2, 3, 4], (1, 2), &[2, 1, 4, 3]),
            (Rgb, Eight, (1, 1), &[1, 2, 3], (3, 1), &[1, 2, 3]),
        ];
        for (colour, depth, (width, height), packed, (channels, bytes), items) in rows {
            let file = encoded(colour, depth, (width, height), packed);
            let found = Mask::decode(&file, &Limits::default()).unwrap();
            assert_eq!(found, Mask { width, height, channels, bytes, items: items.to_vec() }, "{colour:?} {depth:?}");
            for cut in 0..file.len() {
                assert!(Mask::decode(&file[..cut], &Limits::default()).is_err(), "{colour:?} {depth:?} cut at {cut}");
            }
            for bit in 0..file.len() * 8 {
                let mut flipped = file.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let flipped = Mask::decode(&flipped, &Limits::default());
                assert!(flipped.is_err(), "{colour:?} {depth:?}: bit {bit} gives {flipped:?}");
            }
        }
        let limits = Limits { pixels: 3, ..Limits::default() };
        let file = encoded(Grayscale, Eight, (2, 2), &[0, 1, 254, 255]);
        assert_eq!(Mask::decode(&file, &limits), Err(Refused::TooLarge { width: 2, height: 2 }));
    }

    #[test]
    fn kinds_that_would_lose_numbers_are_refused() {
        let mut file = Vec::new();
        let pixels = image::ImageBuffer::<image::Luma<u16>, _>::from_raw(2, 1, vec![1_u16, 2]).unwrap();
        let tiff = image::DynamicImage::from(pixels);
        tiff.write_to(&mut Cursor::new(&mut file), image::ImageFormat::Tiff).unwrap();
        let refused = Mask::decode(&file, &Limits::default()).unwrap_err();
        assert!(refused.to_string().contains("PNG keeps them"), "{refused}");
        let array = [shardpack_format::npy::head("|u1", &[1, 2], false), vec![7, 8]].concat();
        assert_eq!(Mask::decode(&array, &Limits::default()).unwrap().items, [7, 8]);
    }
}
