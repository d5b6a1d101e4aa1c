//! Parses the coding of a JPEG from its headers: some codings have no decoder here, and some need another decoder.

use shardpack_format::image_header::Kind;

use crate::Refused;

/// Data from the headers before the first pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Channels of the image.
    channels: u8,
    /// Every block comes once and is not refined from scan to scan.
    is_sequential: bool,
    /// The first channel has fewer pixels than another.
    is_odd: bool,
    /// Channels of the first scan.
    of_first_scan: u8,
}

impl Frame {
    /// Parses the headers; `None` if they cannot be parsed, which the decoder then reports.
    ///
    /// # Errors
    /// Codings without a decoder here, by name.
    ///
    /// Source: ITU-T T.81, B.1.1 (markers, Table B.1), B.2.2 (frame header), B.2.3 (scan header).
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, Refused> {
        let refuse = |what: String| Err(Refused::Unsupported(Kind::Jpeg, what));
        let mut frame: Option<Self> = None;
        let mut rest = bytes.get(2..).unwrap_or_default();
        while let Some((marker, segment)) = next(rest) {
            let coding = match marker {
                0x01 | 0xD0..=0xD8 => {
                    rest = segment;
                    continue;
                }
                0xD9 => return Ok(None),
                0xDA => {
                    let Some(of_first_scan) = segment.get(2).copied() else { return Ok(None) };
                    return Ok(frame.map(|frame| Self { of_first_scan, ..frame }));
                }
                0xC0..=0xC2 => "",
                0xC3 => "lossless",
                0xC5..=0xC7 => "hierarchical",
                0xC9..=0xCB | 0xCD..=0xCF => "arithmetic",
                _ => {
                    let Some(after) = body(segment) else { return Ok(None) };
                    rest = &segment[after.len() + 2..];
                    continue;
                }
            };
            if !coding.is_empty() {
                return refuse(format!("{coding} coding is not decoded here"));
            }
            let Some(said) = body(segment) else { return Ok(None) };
            let Some((&[bits, high, low, _, _, channels], parts)) = said.split_first_chunk() else { return Ok(None) };
            // Values that no JPEG has are damage.
            let refuse_by = |is_known: bool, what: String| match is_known {
                true => Err(Refused::Unsupported(Kind::Jpeg, what)),
                false => Err(Refused::Damaged(Kind::Jpeg, what)),
            };
            if bits != 8 {
                return refuse_by(bits == 12, format!("{bits} bits a channel are not decoded here"));
            }
            if (high, low) == (0, 0) {
                return refuse("its height comes behind its pixels, which is not decoded here".to_owned());
            }
            if !matches!(channels, 1 | 3 | 4) {
                return refuse_by(channels == 2, format!("{channels} channels are not decoded here"));
            }
            let samplings = || parts.as_chunks::<3>().0.iter().map(|part| [part[1] >> 4, part[1] & 15]);
            let first = samplings().next().unwrap_or_default();
            let is_odd = samplings().any(|[across, down]| across > first[0] || down > first[1]);
            if channels > 1 && samplings().flatten().any(|factor| !matches!(factor, 1 | 2 | 4)) {
                return refuse("sampling by other factors than 1, 2 and 4 is not decoded here".to_owned());
            }
            frame = Some(Self { channels, is_sequential: marker != 0xC2, is_odd, of_first_scan: 0 });
            rest = &segment[said.len() + 2..];
        }
        Ok(None)
    }

    /// Whether coefficients are refined from scan to scan.
    pub(super) fn is_progressive(&self) -> bool {
        !self.is_sequential
    }

    /// Whether zune-jpeg 0.5 decodes it wrongly: with channels in separate scans, it misplaces rows of subsampled
    /// channels and data behind restart markers; if luma has fewer pixels than chroma, all pixels are wrong.
    pub(super) fn needs_shardpack_jpeg(&self) -> bool {
        self.is_odd || self.is_sequential && self.of_first_scan < self.channels
    }
}

/// The next marker, and the bytes behind it. Skips stray bytes before it.
fn next(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let at = bytes.windows(2).position(|pair| pair[0] == 0xFF && !matches!(pair[1], 0 | 0xFF))?;
    Some((bytes[at + 1], &bytes[at + 2..]))
}

/// Content of a segment behind its length.
fn body(segment: &[u8]) -> Option<&[u8]> {
    let length = usize::from(u16::from_be_bytes(*segment.first_chunk()?));
    segment.get(2..length)
}
