//! Bytes as a JPEG: decodes a crop with its own table, compares it with the whole image, and tries a corrupt table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_format::image_header::Header;
use shardpack_fuzz::within;
use shardpack_imaging::{
    Limits,
    crops::{Decoder, Rect, Region, RegionRequest, Way, scan},
};

const LIMITS: Limits = Limits { pixels: 1 << 16, bytes: 1 << 20 };

/// The bytes of the requested pixels.
fn part(region: &Region, pixels: &[u8]) -> Vec<u8> {
    let rows = pixels.chunks_exact(region.row_pixels as usize * 3);
    rows.flat_map(|row| row[region.left as usize * 3..][..region.width as usize * 3].to_vec()).collect()
}

/// The bytes of a part of a whole image.
fn cut(whole: &Region, rect: &Rect, pixels: &[u8]) -> Vec<u8> {
    let rows = pixels.chunks_exact(whole.row_pixels as usize * 3).skip(rect.y as usize).take(rect.height as usize);
    rows.flat_map(|row| row[(whole.left + rect.x) as usize * 3..][..rect.width as usize * 3].to_vec()).collect()
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
        let Ok(mut table) = scan(jpeg, u16::from(every).try_into().unwrap_or(std::num::NonZeroU16::MAX)) else {
            // The first bytes of the input serve as the table.
            let _ = decoder.region(jpeg, Some(&input[..input.len().min(300)]), &wanted, &mut pixels);
            return;
        };
        let by_table = decoder.region(jpeg, Some(&table), &wanted, &mut pixels);
        let found = by_table.as_ref().ok().map(|region| (region.way, part(region, &pixels)));
        let header = Header::parse(jpeg);
        let all = Rect { x: 0, y: 0, width: header.width, height: header.height };
        let whole = decoder.region(jpeg, None, &RegionRequest { rect: all, ..wanted }, &mut pixels);
        match (found, whole) {
            (Some((way, found)), Ok(region)) => {
                assert!(region.way == Way::Whole, "the whole by {:?}", region.way);
                assert!(found == cut(&region, &rect, &pixels), "other pixels by {way:?}");
                assert!(cfg!(feature = "turbo") || way != Way::Stock, "no region decoder is in here");
                assert!(way != Way::Table || !region.has_warned, "a table of what C warns of");
            }
            (Some((Way::Table, _)), Err(refused)) => panic!("a part of what is refused: {refused}"),
            _ => {}
        }
        let at = usize::from(flip) % table.len();
        table[at] ^= 1 << (flip % 8);
        if let Ok(region) = decoder.region(jpeg, Some(&table), &wanted, &mut pixels) {
            part(&region, &pixels);
        }
    });
});
