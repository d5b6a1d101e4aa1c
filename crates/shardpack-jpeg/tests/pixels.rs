//! Pixels are those of libjpeg-turbo, which wrote the checksums of `fixtures/jpegs/pixels`, at every level and by every way.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::{num::NonZeroU16, path::Path};

use shardpack_jpeg::{Decoder, Level, NoTable, Rect, Region, RegionRequest, Way, scan};

/// CRC-32 of ISO 3309.
fn crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256_u32)
        .map(|byte| (0..8).fold(byte, |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 }))
        .collect();
    !bytes.iter().fold(!0, |sum, byte| sum >> 8 ^ table[usize::from(sum as u8 ^ byte)])
}

/// File names, contents, reductions and checksums.
fn all() -> Vec<(String, Vec<u8>, u32, u32)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let lines = std::fs::read_to_string(fixtures.join("jpegs/pixels/pixels.txt")).unwrap();
    let all = lines.lines().map(|line| {
        let [name, by, sum] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let bytes = std::fs::read(fixtures.join(name)).unwrap();
        (name.to_owned(), bytes, by.parse().unwrap(), u32::from_str_radix(sum, 16).unwrap())
    });
    all.collect()
}

/// The size, which a refusal does not tell: of the only frame.
fn size(jpeg: &[u8]) -> (u32, u32) {
    let frame = jpeg.windows(4).position(|bytes| matches!(bytes, [0xFF, 0xC0 | 0xC1, 0, 11 | 17 | 20])).unwrap();
    let side = |at: usize| u32::from(u16::from_be_bytes([jpeg[at], jpeg[at + 1]]));
    (side(frame + 7), side(frame + 5))
}

fn region(level: Level, jpeg: &[u8], table: Option<&[u8]>, rect: Rect, by: u32) -> Result<(Region, Vec<u8>), NoTable> {
    let wanted = RegionRequest { rect, reduce_by: by, padded: false };
    let mut pixels = vec![7; 5];
    let region = Decoder::new(level).region(jpeg, table, &wanted, 1 << 20, &mut pixels)?;
    Ok((region, pixels))
}

#[test]
fn pixels_are_those_of_libjpeg_turbo_at_every_level_and_by_every_way() {
    let all = all();
    assert!(all.len() > 300, "{}", all.len());
    for (name, jpeg, by, sum) in all {
        let (width, height) = size(&jpeg);
        let whole = Rect { x: 0, y: 0, width, height };
        let tables = [1, 5, u16::MAX].map(|every| scan(&jpeg, NonZeroU16::new(every).unwrap()).expect(&name));
        for level in Level::all() {
            for table in tables.iter().map(|table| Some(table.as_slice())).chain([None]) {
                let (region, pixels) = region(level, &jpeg, table, whole, by).expect(&name);
                let what = format!("{name} by {by}, {}, {region:?}", level.name());
                assert_eq!((region.width, region.height), (width.div_ceil(by), height.div_ceil(by)), "{what}");
                assert_eq!(crc32(&pixels), sum, "{what}");
                assert_eq!(region.way, if table.is_some() { Way::Table } else { Way::Whole }, "{what}");
            }
        }
    }
}

#[test]
fn a_part_is_that_of_the_whole() {
    let mut state = 3_u64;
    let mut below = |end: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(end)) as u32
    };
    let level = *Level::all().last().unwrap();
    for (name, jpeg, by, _) in all() {
        let (width, height) = size(&jpeg);
        let (_, whole) = region(level, &jpeg, None, Rect { x: 0, y: 0, width, height }, by).unwrap();
        let table = scan(&jpeg, NonZeroU16::new(3).unwrap()).unwrap();
        for number in 0..8 {
            let (x, y) = (below(width), below(height));
            let rect = Rect { x, y, width: 1 + below(width - x), height: 1 + below(height - y) };
            let (region, pixels) =
                region(level, &jpeg, Some(&table[..]).filter(|_| number % 2 == 0), rect, by).unwrap();
            let rows = (region.y..region.y + region.height).flat_map(|row| {
                let at = (row * width.div_ceil(by) + region.x) as usize * 3;
                &whole[at..at + region.width as usize * 3]
            });
            assert!(pixels.iter().eq(rows), "{name} by {by}: {region:?}");
        }
    }
}

#[test]
fn damage_is_an_error_and_never_pixels_or_a_panic() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/jpegs/pixels");
    for name in ["420-33x17.jpg", "444-restart-3B.jpg", "grey.jpg"] {
        let jpeg = std::fs::read(fixtures.join(name)).unwrap();
        let (width, height) = size(&jpeg);
        let whole = Rect { x: 0, y: 0, width, height };
        let table = scan(&jpeg, NonZeroU16::new(2).unwrap()).unwrap();
        let level = *Level::all().last().unwrap();
        for end in 0..jpeg.len() {
            // The last two bytes are the end marker.
            assert!(region(level, &jpeg[..end], None, whole, 1).is_err(), "{name} cut at {end}");
            assert!(scan(&jpeg[..end], NonZeroU16::MIN).is_err(), "{name} cut at {end}");
        }
        // Some bits, so that the test is short: the fuzz target has all.
        for bit in (0..jpeg.len() * 8).step_by(5) {
            let mut damaged = jpeg.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            for table in [None, Some(&table[..])] {
                // A changed value of the same length is another image, which only a hash finds.
                if let Ok((found, pixels)) = region(level, &damaged, table, whole, 1) {
                    assert_eq!(pixels.len(), (found.width * found.height * 3) as usize, "{name} bit {bit}");
                }
                let slow = region(Level::SCALAR, &damaged, table, whole, 1);
                assert!(
                    slow == region(level, &damaged, table, whole, 1),
                    "{name} bit {bit}: not the same at each level"
                );
            }
        }
    }
}
