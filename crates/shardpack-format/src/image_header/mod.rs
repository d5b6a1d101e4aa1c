//! Image headers: the kind of an image, detected from its first bytes, and its size, colour mode and depth.
//!
//! Names are never looked at and pixels never decoded. No input makes these functions panic, allocate, or look at a
//! byte more than a few times.

mod bmp;
mod gif;
mod jpeg;
mod kind;
mod png;
mod pnm;
mod tiff;
mod webp;

pub use kind::{Kind, SNIFF_BYTES};

/// Colour mode of the stored pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Not found, or none of the others.
    Unknown = 0,
    /// One channel of grey, black-and-white images too.
    Gray = 1,
    /// Grey and alpha.
    GrayAlpha = 2,
    /// Red, green, blue; YCbCr counts as this, since decoders deliver it so.
    Rgb = 3,
    /// Red, green, blue, alpha.
    Rgba = 4,
    /// Indices into a colour table.
    Palette = 5,
    /// Cyan, magenta, yellow, black; YCCK counts as this.
    Cmyk = 6,
}

impl Mode {
    const ALL: [Mode; 7] =
        [Mode::Unknown, Mode::Gray, Mode::GrayAlpha, Mode::Rgb, Mode::Rgba, Mode::Palette, Mode::Cmyk];

    /// The word for reports and JSON: lower case, "unknown" for [`Mode::Unknown`].
    pub fn name(self) -> &'static str {
        match self {
            Mode::Unknown => "unknown",
            Mode::Gray => "gray",
            Mode::GrayAlpha => "gray-alpha",
            Mode::Rgb => "rgb",
            Mode::Rgba => "rgba",
            Mode::Palette => "palette",
            Mode::Cmyk => "cmyk",
        }
    }

    /// The mode whose number, `mode as u8`, is `code`.
    pub fn from_code(code: u8) -> Option<Mode> {
        Mode::ALL.get(usize::from(code)).copied()
    }
}

/// The parsed headers of an image; the pixels are not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the file.
    pub kind: Kind,
    /// Pixels across, as stored (an Exif orientation is not applied); 0 exactly when `height` is.
    pub width: u32,
    /// Pixels down, as stored; 0 when not found.
    pub height: u32,
    /// Colour mode.
    pub mode: Mode,
    /// Bits a channel, of an index when `mode` is [`Mode::Palette`], of red where channels differ; 0 unknown.
    pub depth: u8,
}

impl Header {
    /// For data that is no image, or an image whose headers have no facts.
    pub const NONE: Self = Self { kind: Kind::Unknown, width: 0, height: 0, mode: Mode::Unknown, depth: 0 };

    /// Parses the headers in `bytes`, a whole file; fields that cannot be parsed are 0 or `Unknown`.
    ///
    /// For JPEG 2000, JPEG XL, AVIF, HEIF and arrays only the kind is returned.
    pub fn parse(bytes: &[u8]) -> Header {
        let kind = Kind::detect(bytes);
        let found = match kind {
            Kind::Jpeg => jpeg::header(bytes),
            Kind::Png => png::header(bytes),
            Kind::Webp => webp::header(bytes),
            Kind::Gif => gif::header(bytes),
            Kind::Bmp => bmp::header(bytes),
            Kind::Tiff => tiff::header(bytes),
            Kind::Pnm => pnm::header(bytes),
            Kind::Unknown | Kind::Jp2 | Kind::Jxl | Kind::Avif | Kind::Heif | Kind::Npy => None,
        };
        let header = found.unwrap_or(Header { kind, width: 0, height: 0, mode: Mode::Unknown, depth: 0 });
        if header.width == 0 || header.height == 0 { Header { width: 0, height: 0, ..header } } else { header }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An image that a kind's own file keeps for its tests: name, bytes, (width, height, mode, depth).
    pub(super) type Row = (&'static str, &'static [u8], (u32, u32, Mode, u8));

    fn rows() -> Vec<(&'static str, &'static [u8], Header)> {
        let with_header = [
            (Kind::Jpeg, jpeg::tests::ROWS),
            (Kind::Png, png::tests::ROWS),
            (Kind::Webp, webp::tests::ROWS),
            (Kind::Gif, gif::tests::ROWS),
            (Kind::Bmp, bmp::tests::ROWS),
            (Kind::Tiff, tiff::tests::ROWS),
            (Kind::Pnm, pnm::tests::ROWS),
        ];
        let with_header = with_header.iter().flat_map(|&(kind, rows)| {
            rows.iter().map(move |&(name, bytes, (width, height, mode, depth))| {
                (name, bytes, Header { kind, width, height, mode, depth })
            })
        });
        let kind_only = kind::tests::ROWS.iter().map(|&(name, bytes, kind)| {
            (name, bytes, Header { kind, width: 0, height: 0, mode: Mode::Unknown, depth: 0 })
        });
        with_header.chain(kind_only).collect()
    }

    #[test]
    fn every_header_reads_as_its_row_says() {
        for (name, bytes, expected) in rows() {
            assert_eq!(Header::parse(bytes), expected, "{name}");
            assert_eq!(Header::parse(&[bytes, &[0xFF; 100]].concat()), expected, "{name}, with pixels behind it");
        }
    }

    #[test]
    fn a_header_cut_at_any_byte_says_less_and_nothing_else() {
        for (name, bytes, whole) in rows() {
            for cut in 0..bytes.len() {
                let part = Header::parse(&bytes[..cut]);
                let size = (part.width, part.height);
                assert!([Kind::Unknown, whole.kind].contains(&part.kind), "{name}, cut at {cut}: {part:?}");
                assert!([(0, 0), (whole.width, whole.height)].contains(&size), "{name}, cut at {cut}: {part:?}");
                assert!([Mode::Unknown, whole.mode].contains(&part.mode), "{name}, cut at {cut}: {part:?}");
                assert!([0, whole.depth].contains(&part.depth), "{name}, cut at {cut}: {part:?}");
            }
        }
    }

    #[test]
    fn codes_lead_back_and_names_differ() {
        let kinds: Vec<_> = (0..=255).filter_map(Kind::from_code).collect();
        assert_eq!(kinds, Kind::ALL);
        assert!(kinds.iter().enumerate().all(|(code, &kind)| code == kind as usize));
        let modes: Vec<_> = (0..=255).filter_map(Mode::from_code).collect();
        assert_eq!(modes, Mode::ALL);
        assert!(modes.iter().enumerate().all(|(code, &mode)| code == mode as usize));
        for names in [Kind::ALL.map(Kind::name).as_slice(), &Kind::ALL.map(Kind::extension), &Mode::ALL.map(Mode::name)]
        {
            let different: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(different.len(), names.len(), "{names:?}");
        }
    }

    fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
        let header = Header::parse(bytes);
        prop_assert_eq!(header.width == 0, header.height == 0);
        prop_assert_eq!(header.kind, Kind::detect(&bytes[..bytes.len().min(SNIFF_BYTES)]));
        Ok(())
    }

    proptest! {
        #[test]
        fn random_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            check(&bytes)?;
        }

        #[test]
        fn random_bytes_behind_a_real_start_are_read_without_harm(
            row in prop::sample::select(rows()),
            keep in 0..40_usize,
            tail in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(0xFF), Just(b'#')], 0..600),
        ) {
            check(&[&row.1[..keep.min(row.1.len())], &tail].concat())?;
        }

        #[test]
        fn changed_and_cut_headers_are_read_without_harm(
            row in prop::sample::select(rows()),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = row.1.to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            check(&bytes)?;
            check(&bytes[..cut.index(bytes.len())])?;
        }
    }
}
