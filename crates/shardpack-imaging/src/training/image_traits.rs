//! Detects unusual properties of an image from its headers, for statistics.

use image::metadata::Orientation;
use shardpack_format::image_header::{Header, Kind, Mode};

use crate::decode::orientation_in_xmp;

/// An unusual property that training code often fails on, and that is handled here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Oddity {
    /// No colours: its channel is copied to three.
    Gray,
    /// Four inks: converted to RGB.
    Cmyk,
    /// Four inks, stored as luma, chroma and black: converted to RGB.
    Ycck,
    /// 16 bits a channel: rounded to 8.
    SixteenBit,
    /// A colour table: looked up.
    Palette,
    /// An alpha channel: dropped, so colours under transparency become visible.
    Alpha,
    /// More than one frame: only the first is used.
    Animated,
    /// An Exif orientation other than 1, whether [`super::Options::upright`] applies it or not.
    Turned,
}

impl Oddity {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Gray,
        Self::Cmyk,
        Self::Ycck,
        Self::SixteenBit,
        Self::Palette,
        Self::Alpha,
        Self::Animated,
        Self::Turned,
    ];

    /// The word for reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gray => "gray",
            Self::Cmyk => "cmyk",
            Self::Ycck => "ycck",
            Self::SixteenBit => "16-bit",
            Self::Palette => "palette",
            Self::Alpha => "alpha",
            Self::Animated => "animated",
            Self::Turned => "turned",
        }
    }
}

/// A set of [`Oddity`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities(u8);

impl Oddities {
    /// Whether the set has `oddity`.
    pub fn has(self, oddity: Oddity) -> bool {
        self.0 >> oddity as u8 & 1 == 1
    }

    /// The members, in the order of [`Oddity::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Oddity> {
        Oddity::ALL.into_iter().filter(move |oddity| self.has(*oddity))
    }

    pub(super) fn set(&mut self, oddity: Oddity, is_there: bool) {
        self.0 |= u8::from(is_there) << oddity as u8;
    }

    /// Properties in the headers of an image. Alpha, and orientations outside JPEG, are known only to the decoder.
    pub(super) fn detect(bytes: &[u8], header: &Header, jpeg: Option<Jpeg>) -> Self {
        let mut oddities = Self::default();
        let is_ycck = jpeg.is_some_and(|jpeg| jpeg.is_ycck);
        oddities.set(Oddity::Gray, matches!(header.mode, Mode::Gray | Mode::GrayAlpha));
        oddities.set(Oddity::Cmyk, header.mode == Mode::Cmyk && !is_ycck);
        oddities.set(Oddity::Ycck, header.mode == Mode::Cmyk && is_ycck);
        oddities.set(Oddity::SixteenBit, header.depth == 16);
        oddities.set(Oddity::Palette, header.mode == Mode::Palette);
        oddities.set(Oddity::Animated, is_animated(bytes, header.kind));
        oddities.set(Oddity::Turned, jpeg.is_some_and(|jpeg| jpeg.orientation != 1));
        oddities
    }
}

/// Data besides the size in the segments of a JPEG before its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jpeg {
    /// From Exif, or from XMP if Exif has none; 1 to 8.
    pub(super) orientation: u8,
    /// Adobe's marker declares four channels as YCCK.
    pub(super) is_ycck: bool,
}

impl Jpeg {
    /// Source: ITU-T T.81, B.1.1; CIPA DC-008, 4.7.2 (APP1); Adobe Technical Note 5116, 18 (APP14).
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let (mut of_exif, mut of_xmp, mut is_ycck) = (None, None, false);
        let mut rest = bytes.get(2..).unwrap_or_default();
        while let Some(at) = rest.windows(2).position(|pair| pair[0] == 0xFF && !matches!(pair[1], 0 | 0xFF)) {
            let (marker, behind) = (rest[at + 1], &rest[at + 2..]);
            if let 0x01 | 0xD0..=0xD8 = marker {
                rest = behind;
                continue;
            }
            let length = behind.first_chunk().map_or(0, |length| usize::from(u16::from_be_bytes(*length)));
            let (false, Some(body)) = (matches!(marker, 0xD9 | 0xDA), behind.get(2..length)) else { break };
            if let (0xE1, Some(exif)) = (marker, body.strip_prefix(b"Exif\0\0")) {
                of_exif = of_exif.or_else(|| Orientation::from_exif_chunk(exif).map(Orientation::to_exif));
            } else if let (0xE1, Some(xmp)) = (marker, body.strip_prefix(b"http://ns.adobe.com/xap/1.0/\0")) {
                of_xmp = of_xmp.or_else(|| orientation_in_xmp(xmp));
            } else if let (0xEE, Some(adobe)) = (marker, body.strip_prefix(b"Adobe")) {
                // Version, two words of flags, then the transform.
                is_ycck = adobe.get(6) == Some(&2);
            }
            rest = &behind[length..];
        }
        Self { orientation: of_exif.or(of_xmp).unwrap_or(1), is_ycck }
    }
}

/// Whether there is more than one frame.
fn is_animated(bytes: &[u8], kind: Kind) -> bool {
    match kind {
        Kind::Png => has_animation_control(bytes),
        // Source: RFC 9649, 2.7: the flag of animation in an extended file.
        Kind::Webp => bytes.get(12..16) == Some(b"VP8X") && bytes.get(20).is_some_and(|flags| flags & 2 != 0),
        Kind::Gif => has_two_images(bytes).unwrap_or(false),
        _ => false,
    }
}

/// Source: PNG third edition, 11.3.6.1: acTL comes before the first IDAT.
fn has_animation_control(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let Some((length, name)) = rest.first_chunk().zip(rest.get(4..8)) {
        if matches!(name, b"IDAT" | b"acTL") {
            return name == b"acTL";
        }
        let Some(end) = usize::try_from(u32::from_be_bytes(*length)).ok().and_then(|length| length.checked_add(12))
        else {
            return false;
        };
        rest = rest.get(end..).unwrap_or_default();
    }
    false
}

/// Walks from block to block until there are two images; `None` if the file ends. Source: GIF89a, sections 17 to 27.
fn has_two_images(bytes: &[u8]) -> Option<bool> {
    let colours = |packed: u8| if packed & 0x80 != 0 { 3 << ((packed & 7) + 1) } else { 0 };
    let mut rest = bytes.get(13 + colours(*bytes.get(10)?)..)?;
    let mut images = 0;
    loop {
        let behind = match rest.first()? {
            0x2C => {
                images += 1;
                // A descriptor, its colours, the code size.
                rest.get(11 + colours(*rest.get(9)?)..)?
            }
            0x21 => rest.get(2..)?,
            0x00 => {
                rest = &rest[1..];
                continue;
            }
            _ => return Some(false),
        };
        if images == 2 {
            return Some(true);
        }
        rest = behind;
        loop {
            let length = usize::from(*rest.first()?);
            rest = rest.get(1 + length..)?;
            if length == 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(marker: u8, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        [&[0xFF, marker][..], &(body.len() as u16 + 2).to_be_bytes(), &body].concat()
    }

    #[test]
    fn segments_of_a_jpeg_tell_orientation_and_inks() {
        let exif = |orientation: u8| {
            let tiff = [b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", &[orientation][..], &[0; 6]].concat();
            segment(0xE1, &[b"Exif\0\0", &tiff])
        };
        let xmp = segment(0xE1, &[b"http://ns.adobe.com/xap/1.0/\0", b"<x tiff:Orientation=\"8\"/>"]);
        let adobe = |transform: u8| segment(0xEE, &[b"Adobe\0\x64\0\0\0\0", &[transform]]);
        let start = vec![0xFF, 0xD8];
        let scan = segment(0xDA, &[&[0; 6]]);
        let rows = [
            ("nothing", vec![start.clone()], (1, false)),
            ("Exif", vec![start.clone(), exif(6)], (6, false)),
            ("Exif before XMP", vec![start.clone(), xmp.clone(), exif(3)], (3, false)),
            ("XMP alone", vec![start.clone(), xmp, exif(9)], (8, false)),
            ("YCCK", vec![start.clone(), adobe(2), exif(1)], (1, true)),
            ("CMYK", vec![start.clone(), adobe(0)], (1, false)),
            ("strays before a marker", vec![start.clone(), vec![1, 2, 0xFF, 0, 0xFF], exif(5)], (5, false)),
            ("behind the scan", vec![start.clone(), scan, exif(6), adobe(2)], (1, false)),
        ];
        for (name, parts, (orientation, is_ycck)) in rows {
            let bytes = parts.concat();
            assert_eq!(Jpeg::parse(&bytes), Jpeg { orientation, is_ycck }, "{name}");
            for cut in 0..bytes.len() {
                Jpeg::parse(&bytes[..cut]);
            }
        }
    }

    #[test]
    fn frames_are_told_without_their_pixels() {
        let gif = |images: usize| {
            let image = b"\x2C\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";
            [&b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xFF\xFF\xFF\x21\xF9\x04\0\0\0\0\0"[..], &image.repeat(images), b"\x3B"]
                .concat()
        };
        let png = |chunks: &[&[u8]]| [b"\x89PNG\r\n\x1A\n", chunks.concat().as_slice()].concat();
        let rows = [
            ("a GIF of one", Kind::Gif, gif(1), false),
            ("a GIF of two", Kind::Gif, gif(2), true),
            ("a PNG", Kind::Png, png(&[b"\0\0\0\0tEXt....", b"\0\0\0\0IDAT....", b"\0\0\0\0acTL...."]), false),
            ("an APNG", Kind::Png, png(&[b"\0\0\0\0tEXt....", b"\0\0\0\0acTL....", b"\0\0\0\0IDAT...."]), true),
            ("a PNG whose chunk has no end", Kind::Png, png(&[b"\xFF\xFF\xFF\xFFtEXt...."]), false),
            ("a WebP", Kind::Webp, b"RIFF....WEBPVP8X\x0A\0\0\0\x10\0\0\0".to_vec(), false),
            ("an animated WebP", Kind::Webp, b"RIFF....WEBPVP8X\x0A\0\0\0\x02\0\0\0".to_vec(), true),
        ];
        for (name, kind, bytes, expected) in rows {
            assert_eq!(is_animated(&bytes, kind), expected, "{name}");
            for cut in 0..bytes.len() {
                is_animated(&bytes[..cut], kind);
            }
        }
    }

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let mut set = Oddities::default();
        set.set(Oddity::Ycck, true);
        set.set(Oddity::Turned, true);
        set.set(Oddity::Gray, false);
        assert_eq!(set.iter().map(Oddity::name).collect::<Vec<_>>(), ["ycck", "turned"]);
        let names: std::collections::BTreeSet<_> = Oddity::ALL.map(Oddity::name).into();
        assert_eq!(names.len(), 8);
        assert!(Oddity::ALL.iter().enumerate().all(|(number, oddity)| *oddity as usize == number));
    }
}
