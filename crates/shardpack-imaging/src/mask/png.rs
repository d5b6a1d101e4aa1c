//! Moves PNG masks: levels stay what they are. A palette keeps its indices, 16 bits stay 16 bits, and no level is mixed.
//!
//! Holds at all times: a moved mask has the colour type, the bit depth, the palette and the transparency of the mask before; other chunks are
//! left out.

use std::{borrow::Cow, io::Cursor};

use png::{BitDepth, ColorType, Compression, Decoder, Encoder, Filter, Transformations};
use shardpack_format::image_header::{Header, Kind};

use crate::{Budget, Movement, Refused, catch_panic::contained, decode, error::plain};

/// Memory for chunks that unpack to any size, beside four times the length of the file.
const MAX_UNPACKED_BYTES: usize = 16 << 20;
/// Tables, rows and metadata.
const BESIDE_BYTES: u64 = 64 << 10;

/// A mask, decoded to one pixel after the other.
pub(super) struct PngMask {
    pub(super) colour: ColorType,
    depth: BitDepth,
    palette: Option<Vec<u8>>,
    transparency: Option<Vec<u8>>,
    /// `[height, width, pixel_bytes]`; levels of fewer than 8 bits take a byte each, and those of 16 bits are big-endian.
    pub(super) levels: Vec<u8>,
}

/// Width and height of the mask in `bytes`, in pixels, from its header.
///
/// # Errors
/// If it is no PNG, has several frames, or an Exif orientation of its own.
pub fn mask_size(bytes: &[u8], budget: &Budget) -> Result<(u32, u32), Refused> {
    contained(bytes, || {
        let header = Header::parse(bytes);
        if header.kind != Kind::Png {
            return Err(match header.kind {
                Kind::Unknown => Refused::NoDecoder(Kind::Unknown),
                kind => Refused::Unsupported(kind, "only masks in PNG are moved".to_owned()),
            });
        }
        let (width, height, orientation) = decode::look(bytes, &header, &budget.limits())?;
        if orientation != 1 {
            return Err(Refused::Unsupported(Kind::Png, "a mask with an orientation of its own".to_owned()));
        }
        if decode::pages::has_more(bytes, Kind::Png) {
            return Err(Refused::Unsupported(Kind::Png, "a mask of several frames".to_owned()));
        }
        Ok((width, height))
    })
}

/// The PNG with the mask in `bytes`, which has the size of the image, after `movement`.
///
/// # Errors
/// As [`mask_size`]; if the mask has another size, is damaged, or needs more memory than the budget.
pub fn move_mask(bytes: &[u8], movement: &Movement, budget: &Budget) -> Result<Vec<u8>, Refused> {
    contained(bytes, || {
        let size = mask_size(bytes, budget)?;
        if size != movement.from() {
            return Err(Refused::Unsupported(Kind::Png, "a mask of another size than its image".to_owned()));
        }
        let (width, height) = movement.to();
        budget.limits().admit(size.0, size.1, 8)?;
        budget.limits().admit(width, height, 8)?;
        // As decoded, one pixel after the other, moved, and packed: at most 8 bytes a pixel.
        let pixels = |(width, height): (u32, u32)| u64::from(width) * u64::from(height);
        let needed = 16 * (pixels(movement.from()) + pixels(movement.to())) + 4 * bytes.len() as u64 + BESIDE_BYTES;
        let _taken = budget.for_work(Some(needed))?;
        let mask = read(bytes)?;
        let levels = movement.levels(&mask.levels, mask.pixel_bytes());
        write(&PngMask { levels, ..mask }, (width, height))
    })
}

impl PngMask {
    /// Bytes of a level.
    pub(super) fn level_bytes(&self) -> usize {
        if self.depth == BitDepth::Sixteen { 2 } else { 1 }
    }

    fn pixel_bytes(&self) -> usize {
        self.colour.samples() * self.level_bytes()
    }
}

/// Bits of a level.
fn bits(depth: BitDepth) -> usize {
    depth as usize
}

/// Decodes a PNG; the caller has compared its size with the limits.
pub(super) fn read(bytes: &[u8]) -> Result<PngMask, Refused> {
    let damaged = |error: png::DecodingError| Refused::Damaged(Kind::Png, plain(&error.to_string()));
    decode::check_png(bytes)?;
    let mut decoder = Decoder::new_with_limits(
        Cursor::new(bytes),
        png::Limits { bytes: bytes.len().saturating_mul(4).saturating_add(MAX_UNPACKED_BYTES) },
    );
    decoder.set_transformations(Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let size = reader.output_buffer_size();
    let mut packed = vec![0; size.ok_or_else(|| Refused::Damaged(Kind::Png, "no size".to_owned()))?];
    let frame = reader.next_frame(&mut packed).map_err(damaged)?;
    reader.finish().map_err(damaged)?;
    let info = reader.info();
    let owned = |chunk: &Option<Cow<'_, [u8]>>| chunk.as_ref().map(|chunk| chunk.to_vec());
    let depth = info.bit_depth;
    let levels = match bits(depth) {
        8 | 16 => packed,
        bits => {
            let rows = packed.chunks_exact(frame.line_size.max(1)).take(info.height as usize);
            rows.flat_map(|row| (0..info.width as usize).map(move |x| level(row, x, bits))).collect()
        }
    };
    Ok(PngMask {
        colour: info.color_type,
        depth,
        palette: owned(&info.palette),
        transparency: owned(&info.trns),
        levels,
    })
}

/// The level at `x` in a row of levels of 1, 2 or 4 bits. Source: PNG third edition, 7.2: the leftmost in the high bits.
fn level(row: &[u8], x: usize, bits: usize) -> u8 {
    let at = x * bits;
    row[at / 8] >> (8 - bits - at % 8) & ((1 << bits) - 1) as u8
}

fn write(mask: &PngMask, (width, height): (u32, u32)) -> Result<Vec<u8>, Refused> {
    let failed = |error: png::EncodingError| Refused::Unwritable(Kind::Png, plain(&error.to_string()));
    let packed = match bits(mask.depth) {
        8 | 16 => Cow::Borrowed(&mask.levels[..]),
        bits => {
            let mut packed = Vec::new();
            for row in mask.levels.chunks_exact(width as usize) {
                packed.extend(row.chunks(8 / bits).map(|levels| {
                    let place = |(at, level): (usize, &u8)| level << (8 - bits - at * bits);
                    levels.iter().enumerate().map(place).fold(0, |all, one| all | one)
                }));
            }
            Cow::Owned(packed)
        }
    };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(mask.colour);
    encoder.set_depth(mask.depth);
    if let Some(palette) = &mask.palette {
        encoder.set_palette(palette);
    }
    if let Some(transparency) = &mask.transparency {
        encoder.set_trns(transparency);
    }
    // As images are: no other compressor has bytes that do not depend on the crates built beside this one.
    encoder.set_compression(Compression::Fast);
    encoder.set_filter(Filter::Adaptive);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&packed).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Recipe, Resize};

    /// A PNG of `packed` rows.
    fn png(size: (u32, u32), colour: ColorType, depth: BitDepth, packed: &[u8], palette: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, size.0, size.1);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        if let Some(palette) = palette {
            encoder.set_palette(palette);
            encoder.set_trns(&[0][..]);
        }
        encoder.write_header().unwrap().write_image_data(packed).unwrap();
        bytes
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    fn movement(size: (u32, u32), resize: Resize) -> Movement {
        let image = png(size, ColorType::Grayscale, BitDepth::Eight, &noise((size.0 * size.1) as usize), None);
        Movement::of(&image, &Recipe { resize: Some(resize), ..Recipe::default() }, &Limits::default()).unwrap()
    }

    #[test]
    fn every_kind_of_mask_keeps_its_levels_and_its_mode() {
        let palette: Vec<u8> = (0..48).collect();
        let budget = Budget::new(1 << 30);
        for (size, resize) in [((37, 22), Resize::Short(9)), ((9, 30), Resize::Exact { width: 21, height: 5 })] {
            let movement = movement(size, resize);
            for (colour, depth) in [
                (ColorType::Grayscale, BitDepth::One),
                (ColorType::Grayscale, BitDepth::Two),
                (ColorType::Grayscale, BitDepth::Four),
                (ColorType::Grayscale, BitDepth::Eight),
                (ColorType::Grayscale, BitDepth::Sixteen),
                (ColorType::Indexed, BitDepth::One),
                (ColorType::Indexed, BitDepth::Four),
                (ColorType::Indexed, BitDepth::Eight),
                (ColorType::GrayscaleAlpha, BitDepth::Eight),
                (ColorType::Rgb, BitDepth::Eight),
                (ColorType::Rgb, BitDepth::Sixteen),
                (ColorType::Rgba, BitDepth::Sixteen),
            ] {
                let row = (size.0 as usize * colour.samples() * bits(depth)).div_ceil(8);
                let mut packed = noise(row * size.1 as usize);
                if depth == BitDepth::Eight && colour == ColorType::Indexed {
                    packed.iter_mut().for_each(|level| *level %= 16);
                }
                let palette = (colour == ColorType::Indexed).then_some(&palette[..3 * (1 << bits(depth).min(4))]);
                let before = png(size, colour, depth, &packed, palette);
                let made = move_mask(&before, &movement, &budget).unwrap();
                assert_eq!(made, move_mask(&before, &movement, &budget).unwrap());
                let (old, new) = (read(&before).unwrap(), read(&made).unwrap());
                assert_eq!(
                    (new.colour, new.depth, &new.palette, &new.transparency),
                    (colour, depth, &old.palette, &old.transparency)
                );
                assert_eq!(old.palette.as_deref(), palette);
                assert_eq!(new.levels, movement.levels(&old.levels, old.pixel_bytes()), "{colour:?} {depth:?}");
                let header = Header::parse(&made);
                assert_eq!((header.width, header.height), movement.to());
                // The crate `image` reads the same file.
                crate::check(&made, &Limits::default()).unwrap();
            }
        }
    }

    #[test]
    fn other_masks_are_refused() {
        let (movement, budget) = (movement((8, 6), Resize::Short(3)), Budget::new(1 << 30));
        let mask = png((8, 6), ColorType::Grayscale, BitDepth::Eight, &noise(48), None);
        assert!(move_mask(&mask, &movement, &budget).is_ok());
        for at in 0..mask.len() {
            assert!(move_mask(&mask[..at], &movement, &budget).is_err(), "{at}");
            let mut wrong = mask.clone();
            wrong[at] ^= 1;
            assert!(move_mask(&wrong, &movement, &budget).is_err(), "{at}");
        }
        let other = png((6, 8), ColorType::Grayscale, BitDepth::Eight, &noise(48), None);
        let says = |bytes: &[u8]| move_mask(bytes, &movement, &budget).unwrap_err().to_string();
        assert_eq!(says(&other), "PNG: a mask of another size than its image");
        assert_eq!(says(b"\xff\xd8\xff\xe0 no jpeg"), "JPEG: only masks in PNG are moved");
        assert_eq!(says(b"no image"), "no image by its first bytes");
        let needed = Budget::new(1000);
        assert!(matches!(move_mask(&mask, &movement, &needed), Err(Refused::OverBudget { .. })));
    }
}
