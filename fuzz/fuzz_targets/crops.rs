//! Bytes as a JPEG: decodes a crop with its own table, compares it with the whole image, and tries a corrupt table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_format::image_header::Header;
use shardpack_fuzz::within;
use shardpack_imaging::{
    Limits,
    crops::{Decoder, NoTable, Rect, Region, RegionRequest, Way, scan},
};

const LIMITS: Limits = Limits { pixels: 1 << 16, bytes: 1 << 20 };

/// The bytes of a part of a whole image.
fn cut(whole: &Region, rect: &Rect, pixels: &[u8]) -> Vec<u8> {
    let rows = pixels.chunks_exact(whole.width as usize * 3).skip(rect.y as usize).take(rect.height as usize);
    rows.flat_map(|row| row[rect.x as usize * 3..][..rect.width as usize * 3].to_vec()).collect()
}

fuzz_target!(|input: &[u8]| {
    let Some((&[every, flip, x, y, width, height], jpeg)) = input.split_first_chunk() else { return };
    // Twice the limit of `imaging`, and a table of eight times the length of its JPEG.
    within(64 << 20, 160, input, || {
        let [x, y, width, height] = [x, y, width, height].map(u32::from);
        let rect = Rect { x, y, width: width + 1, height: height + 1 };
        let wanted = RegionRequest { rect, reduce_by: 1, padded: false };
        let mut decoder = Decoder::new(LIMITS);
        let mut pixels = Vec::new();
        let made = scan(jpeg, u16::from(every).try_into().unwrap_or(std::num::NonZeroU16::MAX));
        let part = decoder.region(jpeg, made.as_deref().ok(), &wanted, &mut pixels);
        let part = part.map(|region| (region.way, pixels.clone()));
        let header = Header::parse(jpeg);
        let all = Rect { x: 0, y: 0, width: header.width, height: header.height };
        let whole = decoder.region(jpeg, None, &RegionRequest { rect: all, ..wanted }, &mut pixels);
        match (part, whole) {
            (Ok((way, part)), Ok(region)) => {
                assert!(region.way == Way::Whole, "the whole by {:?}", region.way);
                // Damage of one scan, behind the part, leaves the whole to another decoder.
                let is_one_scan =
                    !matches!(made, Err(NoTable::Progressive | NoTable::SeveralScans | NoTable::Sampling));
                let is_excused = is_one_scan && made.is_err();
                assert!(is_excused || part == cut(&region, &rect, &pixels), "other pixels by {way:?}");
            }
            (Ok((Way::Table, _)), Err(refused)) => panic!("a part of what is refused: {refused}"),
            _ => {}
        }
        let Ok(mut table) = made else {
            // The first bytes of the input serve as the table.
            let _ = decoder.region(jpeg, Some(&input[..input.len().min(300)]), &wanted, &mut pixels);
            return;
        };
        let at = usize::from(flip) % table.len();
        table[at] ^= 1 << (flip % 8);
        let _ = decoder.region(jpeg, Some(&table), &wanted, &mut pixels);
    });
});
