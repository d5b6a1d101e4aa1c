//! Filters images by their headers: `--formats`, `--min-side`, `--max-pixels`.

use std::collections::BTreeMap;

use shardpack_format::{
    Result,
    image_header::{Header, Kind},
};

use super::{Choice, Fates, parallel_reads::ImageReader};
use crate::{
    ledger::Fate,
    monitor::{Monitor, Phase},
    source::{Source, SourceListing},
};

/// Number of bytes that are read first; the metadata of cameras before the size can be longer.
const HEAD_BYTES: usize = 16 << 10;

/// Reads the header of every image: returns the images that are left out with the reason, and the kinds of the
/// others.
pub(super) fn filter(
    source: &dyn Source,
    found: &SourceListing,
    choice: &Choice,
    monitor: &dyn Monitor,
) -> Result<(Fates, BTreeMap<Kind, u64>)> {
    let reader = ImageReader::open(source, found.split.as_deref(), &found.listing, monitor)?;
    let needs_size = choice.min_side.is_some() || choice.max_pixels.is_some();
    let looks = reader.each(
        Phase::Looking,
        (0..found.listing.len()).collect(),
        choice.threads,
        monitor,
        |number, buffer| {
            if reader.head(number, HEAD_BYTES, buffer)?.is_none() {
                return Ok(None);
            }
            let mut header = Header::parse(buffer);
            let is_part = buffer.len() < found.listing.entry(number).bytes as usize;
            if header.width == 0 && needs_size && is_part && reader.whole(number, buffer)?.is_some() {
                header = Header::parse(buffer);
            }
            Ok(Some((header.kind, refusal(&header, choice))))
        },
    )?;
    let (mut fates, mut kinds) = (super::bad(reader.into_unread()), BTreeMap::new());
    for (number, (kind, refusal)) in looks {
        match refusal {
            Some(reason) => {
                fates.insert(number, (Fate::Filtered, reason));
            }
            None => *kinds.entry(kind).or_default() += 1,
        }
    }
    Ok((fates, kinds))
}

/// Why an image with this header is left out; `None` if it is kept.
fn refusal(header: &Header, choice: &Choice) -> Option<String> {
    let Header { kind, width, height, .. } = *header;
    if !choice.kinds.is_empty() && !choice.kinds.contains(&kind) {
        return Some(match kind {
            Kind::Unknown => "no image by its first bytes; --formats names others".to_owned(),
            kind => format!("a {}; --formats names others", kind.name()),
        });
    }
    let is_unknown = width == 0 && (choice.min_side.is_some() || choice.max_pixels.is_some());
    if is_unknown {
        return Some("its headers have no size, and --min-side or --max-pixels needs one".to_owned());
    }
    match (choice.min_side, choice.max_pixels) {
        (Some(least), _) if width.min(height) < least => {
            Some(format!("{width}×{height} pixels, --min-side is {least}"))
        }
        (_, Some(most)) if u64::from(width) * u64::from(height) > most => {
            Some(format!("{width}×{height} pixels, --max-pixels is {most}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::image_header::Mode;

    #[test]
    fn bounds_themselves_are_within() {
        let header = |kind, width, height| Header { kind, width, height, mode: Mode::Rgb, depth: 8 };
        let choice = Choice {
            kinds: vec![Kind::Jpeg, Kind::Png],
            min_side: Some(10),
            max_pixels: Some(200),
            ..Choice::default()
        };
        let rows = [
            (header(Kind::Jpeg, 10, 20), None),
            (header(Kind::Png, 20, 10), None),
            (header(Kind::Jpeg, 9, 20), Some("9×20 pixels, --min-side is 10")),
            (header(Kind::Jpeg, 21, 10), Some("21×10 pixels, --max-pixels is 200")),
            (header(Kind::Gif, 10, 10), Some("a gif; --formats names others")),
            (header(Kind::Unknown, 0, 0), Some("no image by its first bytes; --formats names others")),
            (header(Kind::Jpeg, 0, 0), Some("its headers have no size, and --min-side or --max-pixels needs one")),
        ];
        for (header, expected) in rows {
            assert_eq!(refusal(&header, &choice).as_deref(), expected, "{header:?}");
        }
    }
}
