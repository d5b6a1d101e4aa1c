//! The kind of an image, detected from its first bytes.

use super::{be32, le32};

/// The kind of an image file, detected from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// None of the others.
    Unknown = 0,
    /// JPEG.
    Jpeg = 1,
    /// PNG.
    Png = 2,
    /// WebP: lossy, lossless or extended.
    Webp = 3,
    /// GIF, 87a or 89a.
    Gif = 4,
    /// Windows or OS/2 bitmap.
    Bmp = 5,
    /// TIFF or BigTIFF, and the camera raw files that are TIFF.
    Tiff = 6,
    /// Netpbm: P1 to P6.
    Pnm = 7,
    /// JPEG 2000: a JP2 file or a bare codestream.
    Jp2 = 8,
    /// JPEG XL: a container or a bare codestream.
    Jxl = 9,
    /// AVIF, still or sequence.
    Avif = 10,
    /// HEIF with HEVC inside (HEIC), or with a coding that its brands do not identify.
    Heif = 11,
    /// A numpy array: raw pixels.
    Npy = 12,
}

/// How many of the first bytes [`Kind::detect`] looks at, at most.
pub const SNIFF_BYTES: usize = 64;

impl Kind {
    /// Every kind, in the order of its code.
    pub const ALL: [Kind; 13] = [
        Kind::Unknown,
        Kind::Jpeg,
        Kind::Png,
        Kind::Webp,
        Kind::Gif,
        Kind::Bmp,
        Kind::Tiff,
        Kind::Pnm,
        Kind::Jp2,
        Kind::Jxl,
        Kind::Avif,
        Kind::Heif,
        Kind::Npy,
    ];

    /// The kind of the file that begins with `bytes`; the first [`SNIFF_BYTES`] suffice.
    ///
    /// Source: for the kinds whose headers are parsed, see their files. JPEG 2000: ISO/IEC 15444-1 I.5.1
    /// (signature box), A.4.1 and A.5.1 (codestream: SOC, SIZ). JPEG XL: ISO/IEC 18181-2 9.1 (signature box), ISO/IEC
    /// 18181-1 (signature of the codestream). Arrays: numpy 2, `lib/format.py`.
    pub fn detect(bytes: &[u8]) -> Kind {
        match bytes {
            [0xFF, 0xD8, 0xFF, ..] => Kind::Jpeg,
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Kind::Png,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Kind::Webp,
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Kind::Gif,
            // Text may begin with BM too, but not with the length of the second header behind it.
            [b'B', b'M', ..] if matches!(le32(bytes, 14), Some(12 | 16 | 40 | 52 | 56 | 64 | 108 | 124)) => Kind::Bmp,
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Kind::Tiff,
            [b'P', b'1'..=b'6', b' ' | b'\t' | b'\r' | b'\n' | b'#', ..] => Kind::Pnm,
            [0, 0, 0, 12, b'j', b'P', b' ', b' ', b'\r', b'\n', 0x87, b'\n', ..] => Kind::Jp2,
            [0xFF, 0x4F, 0xFF, 0x51, ..] => Kind::Jp2,
            [0, 0, 0, 12, b'J', b'X', b'L', b' ', b'\r', b'\n', 0x87, b'\n', ..] => Kind::Jxl,
            [0xFF, 0x0A, ..] => Kind::Jxl,
            [0x93, b'N', b'U', b'M', b'P', b'Y', 1..=3, ..] => Kind::Npy,
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => of_brands(bytes).unwrap_or(Kind::Unknown),
            _ => Kind::Unknown,
        }
    }

    /// The kind of image that files of this extension, in lower case, usually are.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "jpeg" | "jpe" | "jfif" => Some(Kind::Jpeg),
            "dib" => Some(Kind::Bmp),
            "tiff" => Some(Kind::Tiff),
            "pbm" | "pgm" | "pnm" => Some(Kind::Pnm),
            "j2k" | "jpx" => Some(Kind::Jp2),
            "heif" => Some(Kind::Heif),
            _ => Kind::ALL.into_iter().find(|kind| *kind != Kind::Unknown && kind.extension() == extension),
        }
    }

    /// The usual file name extension: lower case, no dot; "bin" for [`Kind::Unknown`], "ppm" for every [`Kind::Pnm`].
    pub fn extension(self) -> &'static str {
        match self {
            Kind::Unknown => "bin",
            Kind::Jpeg => "jpg",
            Kind::Tiff => "tif",
            Kind::Pnm => "ppm",
            Kind::Heif => "heic",
            _ => self.name(),
        }
    }

    /// The word for reports and JSON: lower case, "unknown" for [`Kind::Unknown`].
    pub fn name(self) -> &'static str {
        match self {
            Kind::Unknown => "unknown",
            Kind::Jpeg => "jpeg",
            Kind::Png => "png",
            Kind::Webp => "webp",
            Kind::Gif => "gif",
            Kind::Bmp => "bmp",
            Kind::Tiff => "tiff",
            Kind::Pnm => "pnm",
            Kind::Jp2 => "jp2",
            Kind::Jxl => "jxl",
            Kind::Avif => "avif",
            Kind::Heif => "heif",
            Kind::Npy => "npy",
        }
    }

    /// The kind whose number, `kind as u8`, is `code`.
    pub fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(code)).copied()
    }
}

/// The first brand that names a coding decides, the major one before the compatible ones.
///
/// Source: ISO/IEC 14496-12 4.3 (box `ftyp`); AV1 Image File Format 1.1.0, "AVIF image brand" and "AVIF image sequence
/// brand"; ISO/IEC 23008-12 10.2 (`mif1`, `msf1`: any coding) and Annex B (HEVC).
fn of_brands(bytes: &[u8]) -> Option<Kind> {
    let box_bytes = usize::try_from(be32(bytes, 0)?).ok()?;
    let brands = bytes.get(8..box_bytes.min(SNIFF_BYTES))?.as_chunks::<4>().0;
    let [major, _minor_version, compatible @ ..] = brands else { return None };
    let mut any_coding = None;
    for brand in std::iter::once(major).chain(compatible) {
        match brand {
            b"avif" | b"avis" => return Some(Kind::Avif),
            b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" | b"hevm" | b"hevs" => return Some(Kind::Heif),
            b"mif1" | b"msf1" => any_coding = Some(Kind::Heif),
            _ => {}
        }
    }
    any_coding
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const ROWS: &[(&str, &[u8], Kind)] = &[
        ("jp2 file", b"\0\0\0\x0CjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 ", Kind::Jp2),
        ("jp2 codestream", b"\xFF\x4F\xFF\x51\0\x2F\0\0", Kind::Jp2),
        ("jxl container", b"\0\0\0\x0CJXL \r\n\x87\n\0\0\0\x14ftypjxl \0\0\0\0jxl ", Kind::Jxl),
        ("jxl codestream", b"\xFF\x0A\x7A\x1F", Kind::Jxl),
        ("avif", b"\0\0\0\x20ftypavif\0\0\0\0avifmif1miafMA1B", Kind::Avif),
        ("avif sequence", b"\0\0\0\x1Cftypavis\0\0\0\0msf1avismiaf", Kind::Avif),
        ("avif by a compatible brand", b"\0\0\0\x1Cftypmif1\0\0\0\0miafmif1avif", Kind::Avif),
        ("heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", Kind::Heif),
        ("heic by a compatible brand", b"\0\0\0\x1Cftypmif1\0\0\0\0mif1heicavif", Kind::Heif),
        ("heif of an unknown coding", b"\0\0\0\x14ftypmif1\0\0\0\0mif1", Kind::Heif),
        ("array", b"\x93NUMPY\x01\0\x76\0{'descr': '|u1'", Kind::Npy),
        ("video", b"\0\0\0\x18ftypisom\0\0\x02\0isommp41", Kind::Unknown),
        ("minor version that looks like a brand", b"\0\0\0\x14ftypisomavifisom", Kind::Unknown),
        ("brands behind the box", b"\0\0\0\x14ftypisom\0\0\0\0isomavif", Kind::Unknown),
        ("box shorter than its own head", b"\0\0\0\x01ftypavif\0\0\0\0avif", Kind::Unknown),
        ("text like a bitmap", b"BMW: four cylinders in line, 1972", Kind::Unknown),
        ("text like a pixmap", b"P10 is not a magic number", Kind::Unknown),
        ("sound", b"RIFF\x24\0\0\0WAVEfmt ", Kind::Unknown),
        ("web page", b"<!DOCTYPE html>", Kind::Unknown),
    ];

    #[test]
    fn a_brand_counts_while_it_lies_within_the_sniffed_bytes() {
        for (fillers, expected) in [(11, Kind::Avif), (12, Kind::Unknown)] {
            let bytes =
                [b"\0\0\0\xF0ftypisom\0\0\0\0", b"fill".repeat(fillers).as_slice(), b"avif", &[0; 200]].concat();
            assert_eq!(Kind::detect(&bytes), expected, "{fillers} other brands");
        }
    }
}
