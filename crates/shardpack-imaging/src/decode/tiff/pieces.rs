//! Unpacks the strips and tiles of a TIFF and assembles their samples.
//!
//! Holds at all times: a piece unpacks to at most its declared size; fewer bytes are an error.

use std::{borrow::Cow, io::Read};

use flate2::read::ZlibDecoder;
use shardpack_format::image_header::Kind;

use super::{Directory, fax, refuse, refuse_sort, tag};
use crate::{Limits, Picture, Refused, decode::jpeg};

/// Layout of the samples in the file.
pub(super) struct Plan {
    pub width: usize,
    pub height: usize,
    /// Samples a pixel.
    pub samples: usize,
    /// Bits a sample.
    pub bits: usize,
    pub photometric: u64,
    compression: u64,
    predictor: u64,
    /// Group 3 options: two-dimensional coding, uncompressed mode.
    group_3: u64,
    /// Each sample has its own plane.
    is_planar: bool,
    /// The lowest bit of each byte comes first.
    is_reversed: bool,
}

/// A piece: its position, its size in pixels, and its size within the image.
struct Piece<'a> {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
    packed: &'a [u8],
}

impl Plan {
    /// Parses the layout of the samples, and refuses unsupported layouts by name.
    pub(super) fn parse(directory: &Directory<'_>, limits: &Limits) -> Result<Self, Refused> {
        let (width, height) = size(directory)?;
        let samples = directory.first_of(tag::SAMPLES, 1);
        if !(1..=8).contains(&samples) {
            return Err(refuse(format!("{samples} samples a pixel are not decoded here")));
        }
        let all_bits = directory.numbers(tag::BITS);
        let bits = all_bits.first().copied().unwrap_or(1);
        if all_bits.iter().any(|other| *other != bits) {
            return Err(refuse_sort("samples of different lengths are"));
        }
        match directory.numbers(tag::FORMAT).iter().find(|format| !matches!(format, 1 | 4)) {
            Some(2) => return Err(refuse_sort("signed samples are")),
            // The white level of floating point pixels is undefined.
            Some(3) => return Err(refuse_sort("pixels of floating point are")),
            Some(other) => return Err(refuse(format!("samples of format {other} are not decoded here"))),
            None => {}
        }
        if !matches!(bits, 1 | 2 | 4 | 8 | 16) {
            return Err(match bits {
                6 | 10 | 12 | 14 | 24 | 32 | 64 => refuse_sort(format!("{bits} bits a sample are")),
                _ => refuse(format!("{bits} bits a sample are not decoded here")),
            });
        }
        // Samples are 16 bits during assembly.
        limits.admit(width, height, samples as u8)?;
        let plan = Self {
            width: width as usize,
            height: height as usize,
            samples: samples as usize,
            bits: bits as usize,
            photometric: directory.first_of(tag::PHOTOMETRIC, u64::MAX),
            compression: directory.first_of(tag::COMPRESSION, 1),
            predictor: directory.first_of(tag::PREDICTOR, 1),
            group_3: directory.first_of(tag::GROUP_3, 0),
            is_planar: directory.first_of(tag::PLANAR, 1) == 2 && samples > 1,
            is_reversed: directory.first_of(tag::FILL_ORDER, 1) == 2,
        };
        plan.refuse_others()?;
        Ok(plan)
    }

    /// Refuses unsupported compressions and predictors.
    ///
    /// Source: TIFF 6.0, sections 3 to 11, 14 and 22; TIFF Technical Note 2; libtiff 4.7, `tiff.h`, for the others.
    fn refuse_others(&self) -> Result<(), Refused> {
        let name = match self.compression {
            1 | 5 | 8 | 32_773 | 32_946 | 50_000 => "",
            4 if self.bits == 1 && self.samples == 1 => "",
            7 if self.bits == 8 && !self.is_planar && matches!(self.samples, 1 | 3) => "",
            2 if self.bits == 1 && self.samples == 1 => "",
            3 if self.bits == 1 && self.samples == 1 && self.group_3 & 3 == 0 => "",
            3 if self.bits == 1 && self.samples == 1 => "two-dimensional CCITT group 3 fax",
            2 | 3 => "CCITT group 3 fax of more than black and white",
            4 => "CCITT group 4 fax of more than black and white",
            6 => "JPEG of the old sort",
            7 => "JPEG of these samples",
            34_712 => "JPEG 2000",
            34_925 => "LZMA",
            50_001 => "WebP",
            50_002 => "JPEG XL",
            other => return Err(refuse(format!("compression {other} is not decoded here"))),
        };
        match self.predictor {
            _ if !name.is_empty() => Err(refuse_sort(format!("{name} in TIFF is"))),
            1 => Ok(()),
            2 if matches!(self.bits, 8 | 16) => Ok(()),
            // Only these compressions support predictors.
            _ if !matches!(self.compression, 5 | 8 | 32_946 | 50_000) => Ok(()),
            3 => Err(refuse_sort("the predictor of floating point is")),
            other => Err(refuse(format!("predictor {other} for {} bits is not decoded here", self.bits))),
        }
    }

    fn has_predictor(&self) -> bool {
        self.predictor == 2 && matches!(self.compression, 5 | 8 | 32_946 | 50_000)
    }

    /// `[height, width, samples]`, unchanged from the file.
    pub(super) fn samples(&self, directory: &Directory<'_>, limits: &Limits) -> Result<Vec<u16>, Refused> {
        let mut out = vec![0; self.width * self.height * self.samples];
        let (planes, of_piece) = if self.is_planar { (self.samples, 1) } else { (1, self.samples) };
        let pieces = self.pieces(directory, planes)?;
        let of_plane = pieces.len() / planes;
        for (number, piece) in pieces.iter().enumerate() {
            let plane = number / of_plane;
            let row_bytes = (piece.width * of_piece * self.bits).div_ceil(8);
            let rows = piece.height.min(self.height - piece.y);
            let columns = piece.width.min(self.width - piece.x);
            limits.admit(piece.width as u32, rows as u32, of_piece as u8)?;
            let (unpacked, row_bytes) = match self.compression {
                7 => self.jpeg(directory, piece, rows, limits)?,
                _ => (self.unpack(piece, row_bytes, rows)?, row_bytes),
            };
            let mut row = Vec::with_capacity(piece.width * of_piece);
            for y in 0..rows {
                let bytes = unpacked.get(y * row_bytes..(y + 1) * row_bytes).ok_or_else(truncated)?;
                row.clear();
                self.split(
                    directory,
                    bytes,
                    piece.width.min(row_bytes * 8 / self.bits / of_piece) * of_piece,
                    &mut row,
                );
                if self.has_predictor() {
                    self.undo_predictor(&mut row, of_piece);
                }
                let start = ((piece.y + y) * self.width + piece.x) * self.samples + plane;
                let row = row.get(..columns * of_piece).ok_or_else(truncated)?;
                match self.is_planar {
                    false => out[start..start + row.len()].copy_from_slice(row),
                    true => out[start..].iter_mut().step_by(self.samples).zip(row).for_each(|(to, from)| *to = *from),
                }
            }
        }
        Ok(out)
    }

    /// Width and height of strips or tiles.
    fn size_of_piece(&self, directory: &Directory<'_>, is_tiled: bool) -> (usize, usize) {
        let side = |side: u64, most: usize| usize::try_from(side).unwrap_or(usize::MAX).min(most);
        match is_tiled {
            // A tile that is larger than the image is unpacked to more than the used part.
            true => (
                side(directory.first_of(tag::TILE_WIDTH, 0), 1 << 16),
                side(directory.first_of(tag::TILE_HEIGHT, 0), 1 << 16),
            ),
            false => (self.width, side(directory.first_of(tag::ROWS, u64::MAX), self.height)),
        }
    }

    /// Bytes needed to decode the picture, besides the file: its samples, one piece, and the pixels.
    pub(super) fn need(&self, directory: &Directory<'_>) -> u64 {
        let is_tiled = !directory.numbers(tag::TILE_OFFSETS).is_empty();
        let (width, height) = self.size_of_piece(directory, is_tiled);
        let area = |width: usize, height: usize| (width as u64).saturating_mul(height as u64);
        let (whole, piece) = (area(self.width, self.height), area(width, height.min(self.height)));
        let of_piece = match self.compression {
            // Used in place.
            1 => 0,
            7 => piece.saturating_mul(9),
            _ => piece.saturating_mul((self.samples * self.bits) as u64) / 8,
        };
        // Samples are words of two bytes; pixels have at most four.
        whole.saturating_mul(2 * self.samples as u64 + 4).saturating_add(of_piece)
    }

    /// The pieces, plane by plane.
    fn pieces<'a>(&self, directory: &Directory<'a>, planes: usize) -> Result<Vec<Piece<'a>>, Refused> {
        let is_tiled = !directory.numbers(tag::TILE_OFFSETS).is_empty();
        let (offsets, lengths) = match is_tiled {
            true => (directory.numbers(tag::TILE_OFFSETS), directory.numbers(tag::TILE_LENGTHS)),
            false => (directory.numbers(tag::STRIP_OFFSETS), directory.numbers(tag::STRIP_LENGTHS)),
        };
        let (width, height) = self.size_of_piece(directory, is_tiled);
        if width == 0 || height == 0 {
            return Err(refuse("strips or tiles without a size"));
        }
        let (across, down) = (self.width.div_ceil(width), self.height.div_ceil(height));
        let needed = across.saturating_mul(down).saturating_mul(planes);
        if offsets.len() < needed {
            return Err(refuse(format!("truncated: {} of {needed} strips or tiles", offsets.len())));
        }
        // Some writers leave lengths out if there is one uncompressed strip.
        let row_bytes = (width * self.samples / planes * self.bits).div_ceil(8);
        let whole = |number: usize| match self.compression {
            1 if !is_tiled => Some((row_bytes * height.min(self.height - number % (across * down) * height)) as u64),
            _ => None,
        };
        let piece = |number: usize| {
            let place = number % (across * down);
            let length = lengths.get(number).copied().filter(|length| *length > 0).or_else(|| whole(number));
            let length = usize::try_from(length.unwrap_or(0)).unwrap_or(usize::MAX);
            let packed = directory.at(offsets[number], length).ok_or_else(truncated)?;
            Ok(Piece { x: place % across * width, y: place / across * height, width, height, packed })
        };
        (0..needed).map(piece).collect()
    }

    /// Unpacks `rows` rows of a piece.
    fn unpack<'a>(&self, piece: &Piece<'a>, row_bytes: usize, rows: usize) -> Result<Cow<'a, [u8]>, Refused> {
        let packed = match self.is_reversed {
            true => Cow::Owned(piece.packed.iter().map(|byte| byte.reverse_bits()).collect()),
            false => Cow::Borrowed(piece.packed),
        };
        if self.compression == 1 {
            return Ok(packed);
        }
        let mut out = vec![0; row_bytes.checked_mul(rows).ok_or_else(truncated)?];
        let is_whole = match self.compression {
            2 => fax::runs(&packed, fax::Lines::OfBytes, piece.width, &mut out),
            3 => fax::runs(&packed, fax::Lines::Marked, piece.width, &mut out),
            4 => fax::group_4(&packed, piece.width, &mut out),
            5 => lzw(&packed, &mut out),
            32_773 => pack_bits(&packed, &mut out),
            50_000 => zstd_frame(&packed, &mut out).is_ok(),
            _ => ZlibDecoder::new(&packed[..]).read_exact(&mut out).is_ok(),
        };
        is_whole.then_some(Cow::Owned(out)).ok_or_else(|| refuse("a strip or tile is damaged or truncated"))
    }

    /// Decodes a JPEG piece; returns it with the length of its rows: red, green, blue, whatever the colours of the
    /// JPEG, or gray.
    ///
    /// Tables that many pieces share are in a tag. The TIFF declares the colours, so an Adobe marker is added for the
    /// decoder. Source: TIFF Technical Note 2.
    fn jpeg<'a>(
        &self,
        directory: &Directory<'_>,
        piece: &Piece<'a>,
        rows: usize,
        limits: &Limits,
    ) -> Result<(Cow<'a, [u8]>, usize), Refused> {
        const ADOBE: &[u8] = b"\xFF\xEE\0\x0EAdobe\0\x64\0\0\0\0";
        let transform = [u8::from(self.photometric == 6)];
        let marker = if self.samples == 3 { [ADOBE, &transform].concat() } else { Vec::new() };
        let tables = directory.bytes_of(tag::JPEG_TABLES);
        let tables = tables.and_then(|tables| tables.strip_prefix(b"\xFF\xD8")).unwrap_or_default();
        let tables = tables.strip_suffix(b"\xFF\xD9").unwrap_or(tables);
        let scan = piece.packed.strip_prefix(b"\xFF\xD8").ok_or_else(|| refuse("a JPEG in it does not begin"))?;
        let whole = [b"\xFF\xD8", &marker[..], tables, scan].concat();
        // It may be slightly larger than its piece, but not another picture.
        let pixels = (piece.width as u64 * piece.height as u64 * 2).max(1 << 16).min(limits.pixels);
        let picture: Picture =
            jpeg::decode(&whole, &Limits { pixels, ..*limits }).map_err(|refused| match refused {
                Refused::Damaged(_, what) => Refused::Damaged(Kind::Tiff, format!("a JPEG in it: {what}")),
                Refused::Unsupported(_, what) => Refused::Unsupported(Kind::Tiff, format!("a JPEG in it: {what}")),
                other => other,
            })?;
        let is_as_said = picture.layout.channels() == self.samples && picture.height as usize >= rows;
        if !is_as_said || (picture.width as usize) < piece.width.min(self.width - piece.x) {
            return Err(refuse("a JPEG in it has another size than its strip or tile"));
        }
        let row_bytes = picture.width as usize * self.samples;
        Ok((Cow::Owned(picture.pixels), row_bytes))
    }

    /// Adds the first `count` samples of a row to `out`.
    fn split(&self, directory: &Directory<'_>, bytes: &[u8], count: usize, out: &mut Vec<u16>) {
        match self.bits {
            16 => out.extend(bytes.as_chunks::<2>().0.iter().take(count).map(|pair| directory.word(*pair))),
            8 => out.extend(bytes.iter().take(count).map(|byte| u16::from(*byte))),
            bits => {
                let shifts = (1..=8 / bits).map(move |place| 8 - place * bits);
                let of_byte = |byte: &u8| {
                    let byte = *byte;
                    shifts.clone().map(move |shift| u16::from(byte >> shift) & ((1 << bits) - 1))
                };
                out.extend(bytes.iter().flat_map(of_byte).take(count));
            }
        }
    }

    /// Each sample is stored as the difference to the previous pixel. Source: TIFF 6.0, section 14.
    fn undo_predictor(&self, row: &mut [u16], samples: usize) {
        let most = if self.bits == 16 { u16::MAX } else { 0xFF };
        for at in samples..row.len() {
            row[at] = row[at].wrapping_add(row[at - samples]) & most;
        }
    }
}

/// Width and height.
pub(super) fn size(directory: &Directory<'_>) -> Result<(u32, u32), Refused> {
    let side = |tag: u16| u32::try_from(directory.first_of(tag, 0)).ok().filter(|side| *side > 0);
    side(tag::WIDTH).zip(side(tag::HEIGHT)).ok_or_else(|| refuse("no size"))
}

fn truncated() -> Refused {
    refuse("truncated")
}

/// Decodes a zstd frame with a bounded window, enough for a usual strip or tile.
fn zstd_frame(packed: &[u8], out: &mut [u8]) -> std::io::Result<()> {
    const LOG_OF_WINDOW: u32 = 24;
    let mut decoder = zstd::stream::read::Decoder::new(packed)?;
    decoder.window_log_max(LOG_OF_WINDOW)?;
    decoder.read_exact(out)
}

/// Decodes PackBits. Source: TIFF 6.0, section 9.
fn pack_bits(packed: &[u8], out: &mut [u8]) -> bool {
    let (mut from, mut at) = (packed, 0);
    while at < out.len() {
        let Some((&count, rest)) = from.split_first() else { return false };
        let (run, taken) = match count {
            0..=127 => (usize::from(count) + 1, usize::from(count) + 1),
            128 => (0, 0),
            _ => (257 - usize::from(count), 1),
        };
        let Some((bytes, rest)) = rest.split_at_checked(taken) else { return false };
        let end = (at + run).min(out.len());
        match count {
            0..=127 => out[at..end].copy_from_slice(&bytes[..end - at]),
            _ => out[at..end].fill(bytes.first().copied().unwrap_or(0)),
        }
        (from, at) = (rest, end);
    }
    true
}

/// Decodes LZW of TIFF 6.0, section 13, and the LZW of old writers with the lowest bit first, as libtiff detects it.
fn lzw(packed: &[u8], out: &mut [u8]) -> bool {
    let is_old = matches!(packed, [0, second, ..] if second & 1 == 1);
    let mut decoder = match is_old {
        true => weezl::decode::Decoder::new(weezl::BitOrder::Lsb, 8),
        false => weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8),
    };
    let (mut from, mut at) = (packed, 0);
    while at < out.len() {
        let step = decoder.decode_bytes(from, &mut out[at..]);
        from = &from[step.consumed_in..];
        at += step.consumed_out;
        match step.status {
            Ok(weezl::LzwStatus::Ok) if step.consumed_in + step.consumed_out > 0 => {}
            _ => break,
        }
    }
    at == out.len()
}
