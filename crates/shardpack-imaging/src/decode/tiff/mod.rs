//! Decodes the first picture of a TIFF or BigTIFF.
//!
//! Supports gray, RGB, palettes and CMYK of 1, 2, 4, 8 and 16 bits, and Lab of 8, in strips or tiles, by pixel or by
//! plane; uncompressed, or with LZW, deflate, PackBits, zstd, CCITT group 4 or the one-dimensional group 3, or JPEG.
//! Other files are refused with the name of the feature.
//!
//! # Specification
//! TIFF revision 6.0 (1992); TIFF Technical Note 2 (JPEG); BigTIFF.

mod directory;
mod fax;
mod lab;
mod pieces;

use directory::Directory;
use image::metadata::Orientation;
use pieces::Plan;
use shardpack_format::image_header::Kind;

use super::{image_crate::to_8_bits, xmp};
use crate::{Layout, Limits, Picture, Refused};

/// Numbers of tags. Source: TIFF 6.0, appendix A; ICC.1:2022, annex B.
mod tag {
    pub const WIDTH: u16 = 256;
    pub const HEIGHT: u16 = 257;
    pub const BITS: u16 = 258;
    pub const COMPRESSION: u16 = 259;
    pub const PHOTOMETRIC: u16 = 262;
    pub const FILL_ORDER: u16 = 266;
    pub const STRIP_OFFSETS: u16 = 273;
    pub const ORIENTATION: u16 = 274;
    pub const SAMPLES: u16 = 277;
    pub const ROWS: u16 = 278;
    pub const STRIP_LENGTHS: u16 = 279;
    pub const PLANAR: u16 = 284;
    pub const GROUP_3: u16 = 292;
    pub const PREDICTOR: u16 = 317;
    pub const COLOURS: u16 = 320;
    pub const TILE_WIDTH: u16 = 322;
    pub const TILE_HEIGHT: u16 = 323;
    pub const TILE_OFFSETS: u16 = 324;
    pub const TILE_LENGTHS: u16 = 325;
    pub const INKS: u16 = 332;
    pub const EXTRA: u16 = 338;
    pub const FORMAT: u16 = 339;
    pub const JPEG_TABLES: u16 = 347;
    pub const XMP: u16 = 700;
    pub const ICC: u16 = 34_675;

    /// Tags that the pixels depend on.
    pub const OF_PIXELS: [u16; 22] = [
        WIDTH,
        HEIGHT,
        BITS,
        COMPRESSION,
        PHOTOMETRIC,
        FILL_ORDER,
        STRIP_OFFSETS,
        SAMPLES,
        ROWS,
        STRIP_LENGTHS,
        PLANAR,
        GROUP_3,
        PREDICTOR,
        COLOURS,
        TILE_WIDTH,
        TILE_HEIGHT,
        TILE_OFFSETS,
        TILE_LENGTHS,
        INKS,
        EXTRA,
        FORMAT,
        JPEG_TABLES,
    ];
}

fn refuse(what: impl Into<String>) -> Refused {
    Refused::Damaged(Kind::Tiff, what.into())
}

/// Refuses a TIFF feature that has no decoder here.
fn refuse_sort(what: impl Into<String>) -> Refused {
    Refused::Unsupported(Kind::Tiff, format!("{} not decoded here", what.into()))
}

fn open(bytes: &[u8]) -> Result<Directory<'_>, Refused> {
    Directory::first(bytes).ok_or_else(|| refuse("truncated: its directory or the tags of its pixels are incomplete"))
}

/// Bytes needed to decode the first picture, besides the file; `None` if unknown, and decoding will refuse it.
pub(crate) fn need(bytes: &[u8]) -> Option<u64> {
    let directory = open(bytes).ok()?;
    Plan::parse(&directory, &Limits { pixels: u64::MAX, bytes: u64::MAX }).ok().map(|plan| plan.need(&directory))
}

/// Width, height and orientation.
pub(super) fn look(bytes: &[u8]) -> Result<(u32, u32, u8), Refused> {
    let directory = open(bytes)?;
    let (width, height) = pieces::size(&directory)?;
    Ok((width, height, orientation_of(&directory)))
}

/// The orientation from its tag, or from XMP if the tag is missing.
fn orientation_of(directory: &Directory<'_>) -> u8 {
    let of_tag = directory.numbers(tag::ORIENTATION).first().and_then(|number| u8::try_from(*number).ok());
    let of_tag = of_tag.and_then(Orientation::from_exif).map(Orientation::to_exif);
    of_tag.or_else(|| xmp::orientation(directory.bytes_of(tag::XMP)?)).unwrap_or(1)
}

/// Decodes the whole first picture.
pub(super) fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture, Refused> {
    let directory = open(bytes)?;
    let plan = Plan::parse(&directory, limits)?;
    let colours = Colours::parse(&directory, &plan)?;
    let samples = plan.samples(&directory, limits)?;
    let pixels = colours.pixels(samples, &plan);
    let picture = Picture::new(plan.width as u32, plan.height as u32, colours.layout(), pixels);
    let picture = picture.ok_or_else(|| refuse("no pixels"))?;
    // The profile describes Lab samples and does not apply to the RGB pixels.
    let icc = directory.bytes_of(tag::ICC).filter(|_| !matches!(colours, Colours::Lab)).map(<[u8]>::to_vec);
    Ok(Picture { icc, orientation: orientation_of(&directory), ..picture })
}

/// Meaning of the samples.
enum Colours {
    /// Gray, or red, green and blue; then the meaning of the first extra sample.
    Light { is_inverted: bool, channels: usize, alpha: Option<Alpha> },
    /// Indexes into colours of red, green and blue.
    Palette(Vec<[u8; 3]>),
    /// Cyan, magenta, yellow, black.
    Inks,
    /// Lightness and two colour differences.
    Lab,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Alpha {
    /// Colours are not multiplied by alpha.
    Straight,
    /// Colours are multiplied by alpha.
    Premultiplied,
}

impl Colours {
    /// Source: TIFF 6.0, sections 3 to 6, 16 (CMYK) and 18 (ExtraSamples).
    fn parse(directory: &Directory<'_>, plan: &Plan) -> Result<Self, Refused> {
        let is_jpeg = directory.first_of(tag::COMPRESSION, 1) == 7;
        let refuse_inks = |name: &str| Err(refuse_sort(format!("{name} TIFF is")));
        let channels = match plan.photometric {
            0 | 1 => 1,
            2 => 3,
            3 if plan.samples == 1 && plan.bits <= 8 => return palette(directory, plan.bits),
            5 if directory.first_of(tag::INKS, 1) != 1 => return refuse_inks("multi-ink"),
            5 if plan.bits < 8 => return refuse_inks("CMYK of few bits"),
            5 if plan.samples == 4 => return Ok(Self::Inks),
            6 if is_jpeg => 3,
            3 => return refuse_inks("palette of more than one sample"),
            4 => return refuse_inks("mask"),
            5 => return refuse_inks("CMYK and alpha"),
            6 => return refuse_inks("YCbCr, without JPEG,"),
            8 if plan.bits == 8 && plan.samples == 3 => return Ok(Self::Lab),
            8 => return refuse_inks("Lab of other samples than three of 8 bits"),
            9 => return refuse_inks("ICC Lab"),
            10 => return refuse_inks("ITU Lab"),
            32_803 | 34_892 => return refuse_inks("camera raw"),
            32_844 | 32_845 => return refuse_inks("LogLuv"),
            u64::MAX => return Err(refuse("the tag of the photometric interpretation is missing")),
            other => return Err(refuse(format!("photometric {other} TIFF is not decoded here"))),
        };
        let extra = directory.numbers(tag::EXTRA);
        let alpha = match (plan.samples.checked_sub(channels), extra.first()) {
            (None, _) => return Err(refuse(format!("{} samples a pixel, {channels} are needed", plan.samples))),
            (Some(0), _) | (_, Some(0)) => None,
            (_, Some(1)) => Some(Alpha::Premultiplied),
            // Decoders treat an undeclared fourth sample as alpha.
            (Some(1), None) | (_, Some(_)) => Some(Alpha::Straight),
            _ => return Err(refuse(format!("{} samples a pixel, and no tag describes the extra ones", plan.samples))),
        };
        Ok(Self::Light { is_inverted: plan.photometric == 0, channels, alpha })
    }

    fn layout(&self) -> Layout {
        match self {
            Self::Light { channels: 1, alpha: None, .. } => Layout::Gray8,
            Self::Light { channels: 1, .. } => Layout::GrayA8,
            Self::Light { alpha: Some(_), .. } => Layout::Rgba8,
            _ => Layout::Rgb8,
        }
    }

    /// Pixels of 8 bits.
    fn pixels(&self, mut samples: Vec<u16>, plan: &Plan) -> Vec<u8> {
        let most = ((1_u32 << plan.bits) - 1) as u16;
        match self {
            Self::Palette(colours) => samples.iter().flat_map(|number| colours[usize::from(*number)]).collect(),
            Self::Inks => samples.as_chunks::<4>().0.iter().flat_map(|inks| to_rgb(*inks, plan.bits)).collect(),
            Self::Lab => {
                let levels = lab::levels();
                let of_8_bits = |pixel: &[u16; 3]| pixel.map(|level| level as u8);
                let pixels = samples.as_chunks::<3>().0.iter().map(of_8_bits);
                pixels.flat_map(|pixel| lab::to_rgb(pixel, &levels)).collect()
            }
            Self::Light { is_inverted, channels, alpha } => {
                for pixel in samples.chunks_exact_mut(plan.samples) {
                    if *is_inverted {
                        pixel[..*channels].iter_mut().for_each(|level| *level = most - *level);
                    }
                    let opacity = pixel.get(*channels).copied().filter(|_| *alpha == Some(Alpha::Premultiplied));
                    if let Some(opacity @ 1..) = opacity {
                        pixel[..*channels].iter_mut().for_each(|level| *level = straight(*level, most, opacity));
                    }
                }
                let kept = channels + usize::from(alpha.is_some());
                if kept < plan.samples {
                    let pixels = samples.chunks_exact(plan.samples);
                    samples = pixels.flat_map(|pixel| &pixel[..kept]).copied().collect();
                }
                match plan.bits {
                    16 => to_8_bits(&samples),
                    // 1, 3, 15 and 255 divide 255.
                    _ => samples.iter().map(|level| (level * (255 / most)) as u8).collect(),
                }
            }
        }
    }
}

/// Red, green and blue of each index: 16 bits; some writers fill only the lower 8 bits, as libtiff detects.
fn palette(directory: &Directory<'_>, bits: usize) -> Result<Colours, Refused> {
    let (levels, count) = (directory.numbers(tag::COLOURS), 1 << bits);
    if levels.len() < 3 * count {
        return Err(refuse(format!("a palette of {} instead of {} numbers", levels.len(), 3 * count)));
    }
    let shift = if levels.iter().all(|level| *level < 256) { 0 } else { 8 };
    let level = |at: usize| (levels[at] >> shift) as u8;
    Ok(Colours::Palette((0..count).map(|at| [level(at), level(count + at), level(2 * count + at)]).collect()))
}

/// Four inks without a profile, as in the crate `image`.
fn to_rgb([cyan, magenta, yellow, black]: [u16; 4], bits: usize) -> [u8; 3] {
    let most = if bits == 16 { 65_535.0 } else { 255.0_f32 };
    let left = 1.0 - f32::from(black) / most;
    [cyan, magenta, yellow].map(|ink| {
        let level = ((most - f32::from(ink)) * left) as u16;
        if bits == 16 { ((u32::from(level) + 128) / 257) as u8 } else { level as u8 }
    })
}
/// A level that was multiplied by `opacity`, of at most `most`, before that.
fn straight(level: u16, most: u16, opacity: u16) -> u16 {
    let (level, whole, by) = (u32::from(level), u32::from(most), u32::from(opacity));
    ((level * whole + by / 2) / by).min(whole) as u16
}
