//! Pixels are those of libjpeg-turbo, which wrote the checksums of `fixtures/jpegs/pixels`, at every level and by every way.

use std::{num::NonZeroU16, path::Path};

use shardpack_jpeg::{Damage, Decoder, Level, NoTable, Rect, Region, RegionRequest, Way, scan};

/// The tables of a JPEG with an entry for every so many MCUs; none for a type without tables.
fn tables(name: &str, jpeg: &[u8], every: &[u16]) -> Vec<Vec<u8>> {
    let table = |&every: &u16| match scan(jpeg, NonZeroU16::new(every).unwrap()) {
        Ok(table) => Some(table),
        Err(NoTable::Progressive | NoTable::SeveralScans | NoTable::Sampling) => None,
        Err(why) => panic!("{name}: {why}"),
    };
    every.iter().filter_map(table).collect()
}

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
    let frame = jpeg.windows(4).position(|bytes| matches!(bytes, [0xFF, 0xC0..=0xC2, 0, 11 | 17 | 20])).unwrap();
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
    assert!(all.len() > 700, "{}", all.len());
    let mut with_tables = 0;
    for (name, jpeg, by, sum) in all {
        let (width, height) = size(&jpeg);
        let whole = Rect { x: 0, y: 0, width, height };
        let tables = tables(&name, &jpeg, &[1, 5, u16::MAX]);
        with_tables += tables.len();
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
    assert!(with_tables > 900, "{with_tables}");
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
        let tables = tables(&name, &jpeg, &[3]);
        for number in 0..8 {
            let (x, y) = (below(width), below(height));
            let rect = Rect { x, y, width: 1 + below(width - x), height: 1 + below(height - y) };
            let table = tables.first().filter(|_| number % 2 == 0).map(Vec::as_slice);
            let (region, pixels) = region(level, &jpeg, table, rect, by).unwrap();
            let rows = (region.y..region.y + region.height).flat_map(|row| {
                let at = (row * width.div_ceil(by) + region.x) as usize * 3;
                &whole[at..at + region.width as usize * 3]
            });
            assert!(pixels.iter().eq(rows), "{name} by {by}: {region:?}");
        }
    }
}

/// A grey JPEG of MCUs in a row, whose codes are bytes of their own, with a restart marker after every `restart` of them, or
/// without (0). A DC code is `ssss` with a difference of that many bits. AC codes: `0` ends a block, `10` is 16 zeros, `110` is 14
/// zeros and one bit, `1110` is 15 zeros and one bit, `11110000000` is a value of 15 bits.
fn grey(restart: u8, mcus: u16, codes: &[&[u8]]) -> Vec<u8> {
    let quantiser = [&[0xFF, 0xDB, 0, 67, 0][..], &[1; 64]].concat();
    let width = (mcus * 8).to_be_bytes();
    let frame = [0xFF, 0xC0, 0, 11, 8, 0, 8, width[0], width[1], 1, 1, 0x11, 0];
    // DC sizes 0 to 11 have 4 bits.
    let mut dc = vec![0xFF, 0xC4, 0, 31, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    dc.extend(0..12);
    let ac =
        [&[0xFF, 0xC4, 0, 24, 0x10, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0][..], &[0, 0xF0, 0xE1, 0xF1, 15]];
    let ac = ac.concat();
    let scan = [0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0];
    let head = [&[0xFF, 0xD8, 0xFF, 0xDD, 0, 4, 0, restart][..], &quantiser, &frame, &dc, &ac, &scan].concat();
    let mut jpeg = head;
    for (number, codes) in codes.iter().enumerate() {
        if number > 0 {
            jpeg.extend([0xFF, 0xD0 + (number as u8 - 1) % 8]);
        }
        jpeg.extend(*codes);
    }
    jpeg.extend([0xFF, 0xD9]);
    jpeg
}

/// The bytes of bits, which end with ones.
fn bytes(bits: &str) -> Vec<u8> {
    let byte = |bits: &[u8]| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bits.get(at) != Some(&b'0')));
    bits.as_bytes().chunks(8).map(byte).collect()
}

#[test]
fn a_table_whose_segments_end_before_they_begin_is_ignored() {
    // Each MCU is `0000 0`: no difference, the end of the block.
    let jpeg = grey(1, 4, &[&[0x07][..]; 4]);
    let whole = Rect { x: 0, y: 0, width: 32, height: 8 };
    let table = scan(&jpeg, NonZeroU16::new(4).unwrap()).unwrap();
    for level in Level::all() {
        let (good, pixels) = region(level, &jpeg, Some(&table), whole, 1).unwrap();
        assert_eq!((good.way, pixels), (Way::Table, vec![128; 32 * 8 * 3]));
        for at in 1..table.len() {
            for value in 0..=255 {
                let mut lie = table.clone();
                lie[at] = value;
                let (found, pixels) = region(level, &jpeg, Some(&lie), whole, 1).unwrap();
                assert!(found.way == Way::Whole || lie == table, "byte {at} is {value}");
                assert_eq!(pixels, vec![128; 32 * 8 * 3], "byte {at} is {value}");
            }
        }
    }
}

#[test]
fn a_dc_value_that_8_bits_cannot_give_is_refused_by_every_way() {
    // `1011` and 11 bits: 1024 to 2047; then the end of the block.
    let (large, none) = ([0b1011_1000, 0b0000_0000], [0x07]);
    for (restart, codes) in [(0, vec![&large[..]]), (1, vec![&large[..], &none[..]])] {
        let jpeg = grey(restart, codes.len() as u16, &codes);
        let whole = Rect { x: 0, y: 0, width: 8 * codes.len() as u32, height: 8 };
        assert_eq!(scan(&jpeg, NonZeroU16::MIN), Err(NoTable::Predictor), "{restart}");
        for level in Level::all() {
            assert!(region(level, &jpeg, None, whole, 1).is_err(), "{restart}");
        }
    }
}

#[test]
fn channels_may_share_one_huffman_table_and_not_the_other() {
    const MCUS: u32 = 9;
    // Y has tables 0 and 0; Cb 0 and 1; Cr 1 and 0.
    let tables = [
        // Sizes 0 to 11 in 4 bits, and in 5.
        [&[0xFF, 0xC4, 0, 31, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &(0..12).collect::<Vec<_>>()]
            .concat(),
        [&[0xFF, 0xC4, 0, 31, 1, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &(0..12).collect::<Vec<_>>()]
            .concat(),
        // `0` ends a block; `0` is a value of 5 bits, and `10` ends a block.
        vec![0xFF, 0xC4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        vec![0xFF, 0xC4, 0, 21, 0x11, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0],
    ];
    let mcu = ["0011", "111", "0", "0000", "0", "11111", "10", "00000", "0"].concat();
    let jpeg = [
        &[&[0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0][..], &[1; 64]].concat()[..],
        &[0xFF, 0xC0, 0, 17, 8, 0, 8, 0, 8 * MCUS as u8, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0],
        &tables.concat(),
        &[0xFF, 0xDA, 0, 12, 3, 1, 0x00, 2, 0x01, 3, 0x10, 0, 63, 0],
        &bytes(&mcu.repeat(MCUS as usize)),
        &[0xFF, 0xD9],
    ]
    .concat();
    let whole = Rect { x: 0, y: 0, width: 8 * MCUS, height: 8 };
    let table = scan(&jpeg, NonZeroU16::new(2).unwrap()).unwrap();
    let means: Vec<u8> = (1..=MCUS as u8).flat_map(|number| [128 + (7 * number + 4) / 8; 3]).collect();
    for level in Level::all() {
        assert_eq!(region(level, &jpeg, Some(&table), whole, 8).unwrap().1, means);
        assert_eq!(region(level, &jpeg, None, whole, 8).unwrap().1, means);
        let (found, pixels) = region(level, &jpeg, Some(&table), whole, 1).unwrap();
        assert_eq!((found.way, &pixels), (Way::Table, &region(level, &jpeg, None, whole, 1).unwrap().1));
        assert!(pixels.chunks(3).any(|pixel| pixel[0] != pixel[2]));
    }
}

#[test]
fn a_block_with_too_many_coefficients_is_refused_by_every_way() {
    let zeros = "10".repeat(3);
    // 1, 48 and 15, 16 or 16 coefficients.
    let rows =
        [("110".to_owned() + "1" + "0", true), ("1110".to_owned() + "1" + "0", false), ("10".to_owned() + "0", false)];
    for (last, is_good) in rows {
        // Without the end of a block behind its last coefficient.
        let last = if is_good { &last[..4] } else { &last };
        let codes = bytes(&["0000", &zeros, last].concat());
        let none = bytes("00000");
        for (restart, codes) in [(0, vec![&codes[..]]), (1, vec![&codes[..], &none, &none, &none])] {
            let jpeg = grey(restart, codes.len() as u16, &codes);
            let whole = Rect { x: 0, y: 0, width: 8 * codes.len() as u32, height: 8 };
            assert_eq!(scan(&jpeg, NonZeroU16::MIN).is_ok(), is_good, "{last} {restart}");
            for (level, by) in Level::all().into_iter().flat_map(|level| [(level, 1), (level, 8)]) {
                assert_eq!(region(level, &jpeg, None, whole, by).is_ok(), is_good, "{last} {restart} by {by}");
            }
        }
    }
}

#[test]
fn codes_and_values_may_be_as_long_as_they_can_be() {
    const MCUS: u16 = 8;
    let mcu = ["0011", "101", &("11110000000".to_owned() + "101010101010101").repeat(9), "0"].concat();
    let jpeg = grey(0, MCUS, &[&bytes(&mcu.repeat(MCUS.into()))]);
    let whole = Rect { x: 0, y: 0, width: 8 * u32::from(MCUS), height: 8 };
    let table = scan(&jpeg, NonZeroU16::MIN).unwrap();
    let means: Vec<u8> = (1..=MCUS as u8).flat_map(|number| [128 + (5 * number + 4) / 8; 3]).collect();
    for level in Level::all() {
        let (found, pixels) = region(level, &jpeg, Some(&table), whole, 8).unwrap();
        assert_eq!((found.way, &pixels), (Way::Table, &means), "{}", level.name());
        assert_eq!(region(level, &jpeg, None, whole, 8).unwrap().1, means, "{}", level.name());
        let (found, pixels) = region(level, &jpeg, Some(&table), whole, 1).unwrap();
        assert_eq!((found.way, pixels), (Way::Table, region(level, &jpeg, None, whole, 1).unwrap().1));
    }
}

#[test]
fn a_table_that_lies_changes_no_mean_of_a_block() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/jpegs/pixels");
    let level = *Level::all().last().unwrap();
    for name in ["420-33x17.jpg", "444-restart-3B.jpg", "410-100.jpg", "grey.jpg"] {
        let jpeg = std::fs::read(fixtures.join(name)).unwrap();
        let (width, height) = size(&jpeg);
        // Of a part, all predictors may be wrong by the same number: only the checksums of the file of tables find that.
        let whole = Rect { x: 0, y: 0, width, height };
        let table = scan(&jpeg, NonZeroU16::new(2).unwrap()).unwrap();
        let (_, expected) = region(level, &jpeg, None, whole, 8).unwrap();
        for bit in (0..table.len() * 8).step_by(3) {
            let mut lie = table.clone();
            lie[bit / 8] ^= 1 << (bit % 8);
            let (_, pixels) = region(level, &jpeg, Some(&lie), whole, 8).unwrap();
            assert!(pixels == expected, "{name} bit {bit}");
        }
    }
}

/// The offsets of the scans' headers, and of the end marker.
fn scans(jpeg: &[u8]) -> Vec<usize> {
    let markers = jpeg.windows(2).enumerate().filter(|(_, pair)| matches!(pair, [0xFF, 0xC4 | 0xDA | 0xD9]));
    let mut found: Vec<usize> = Vec::new();
    let mut start = 0;
    for (at, pair) in markers {
        match pair[1] {
            // Tables stand before their scan.
            0xC4 if start == 0 => start = at,
            0xC4 => {}
            _ => {
                found.push(if start == 0 { at } else { start });
                start = 0;
            }
        }
    }
    found
}

#[test]
fn scans_that_lack_bits_come_twice_or_contradict_the_others_are_refused() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/jpegs/pixels");
    for name in ["420-bits.jpg", "420-progressive-60.jpg", "420-apart.jpg", "420-pair.jpg", "grey-progressive.jpg"] {
        let jpeg = std::fs::read(fixtures.join(name)).unwrap();
        let (width, height) = size(&jpeg);
        let whole = Rect { x: 0, y: 0, width, height };
        let refused = |jpeg: &[u8]| region(Level::SCALAR, jpeg, None, whole, 1).map(drop).unwrap_err();
        let at = scans(&jpeg);
        assert!(at.len() > 2, "{name}: {at:?}");
        let part = |scan: usize| &jpeg[at[scan]..at[scan + 1]];
        for missing in 0..at.len() - 1 {
            let without = [&jpeg[..at[missing]], &jpeg[at[missing + 1]..]].concat();
            // Tables of a scan serve the later ones, too.
            let why = refused(&without);
            let is_expected = why == NoTable::Scans
                || matches!(why, NoTable::Damaged { what: Damage::HuffmanTable, .. })
                || matches!(why, NoTable::Damaged { what: Damage::Code | Damage::Block, .. });
            assert!(is_expected, "{name} without scan {missing}: {why}");
        }
        for scan in 0..at.len() - 1 {
            let twice = [&jpeg[..at[scan + 1]], part(scan), &jpeg[at[scan + 1]..]].concat();
            assert_eq!(refused(&twice), NoTable::Scans, "{name} with scan {scan} twice");
        }
        let stray = [&jpeg[..at[1]], &[7], &jpeg[at[1]..]].concat();
        assert_eq!(refused(&stray), NoTable::Headers, "{name} with a byte between scans");
    }
}

#[test]
fn headers_that_libjpeg_skips_change_no_pixel_of_several_scans() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/jpegs/pixels");
    let jpeg = std::fs::read(fixtures.join("444-apart.jpg")).unwrap();
    let (width, height) = size(&jpeg);
    let whole = Rect { x: 0, y: 0, width, height };
    let expected = region(Level::SCALAR, &jpeg, None, whole, 1).unwrap();
    let second = scans(&jpeg)[1];
    let lines = [&[0xFF, 0xDC, 0, 4][..], &(height as u16).to_be_bytes()].concat();
    let adobe = [&[0xFF, 0xEE, 0, 14][..], b"Adobe\0\x64\0\0\0\0", &[0]].concat();
    let frame = jpeg.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    // Three channels of 2 x 2 blocks: more than an MCU of them has, which no scan has here.
    let mut doubled = jpeg.clone();
    [11, 14, 17].into_iter().for_each(|at| doubled[frame + at] = 0x22);
    let with = |segment: &[u8]| [&jpeg[..second], segment, &jpeg[second..]].concat();
    let twice = [&jpeg[..2], &adobe, &adobe, &jpeg[2..]].concat();
    let rows = [("lines", with(&lines)), ("adobe", with(&adobe)), ("two adobes", twice), ("factors", doubled)];
    for (name, jpeg) in rows {
        assert!(region(Level::SCALAR, &jpeg, None, whole, 1) == Ok(expected.clone()), "{name}");
    }
    let others = with(&[0xFF, 0xDC, 0, 4, 0, 7]);
    assert_eq!(region(Level::SCALAR, &others, None, whole, 1).map(drop), Err(NoTable::Headers));
}

#[test]
fn a_scan_for_each_bit_is_refused_before_it_takes_long() {
    let table = |class: u8, symbols: &[u8]| {
        let mut lengths = [0; 16];
        lengths[..symbols.len()].fill(1);
        [&[0xFF, 0xC4, 0, 19 + symbols.len() as u8, class][..], &lengths, symbols].concat()
    };
    let scan = |first: u8, last: u8, bits: u8, codes: &[u8]| {
        [&[0xFF, 0xDA, 0, 8, 1, 1, 0, first, last, bits][..], codes].concat()
    };
    let quantiser = [&[0xFF, 0xDB, 0, 67, 0][..], &[1; 64]].concat();
    let frame = [0xFF, 0xC2, 0, 11, 8, 0x02, 0, 0x02, 0, 1, 1, 0x11, 0];
    // 64 x 64 blocks: a DC code of one bit for each, and an end of 4,096 blocks for the others, whose code is the second.
    let mut jpeg = [&[0xFF, 0xD8][..], &quantiser, &frame, &table(0, &[0]), &table(0x10, &[0, 0xC0])].concat();
    jpeg.extend(scan(0, 0, 0, &[0; 512]));
    for coefficient in 1..64 {
        for after in (0..=3).rev() {
            let bits = if after == 3 { 3 } else { (after + 1) << 4 | after };
            jpeg.extend(scan(coefficient, coefficient, bits, &[0b1000_0000, 0]));
        }
    }
    jpeg.extend([0xFF, 0xD9]);
    let whole = Rect { x: 0, y: 0, width: 512, height: 512 };
    assert_eq!(region(Level::SCALAR, &jpeg, None, whole, 1).map(drop), Err(NoTable::Scans));
}

#[test]
fn a_header_claims_no_memory_that_its_codes_cannot_fill() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/jpegs/pixels");
    let mut jpeg = std::fs::read(fixtures.join("420-progressive-60.jpg")).unwrap();
    let frame = jpeg.windows(2).position(|pair| pair == [0xFF, 0xC2]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0x60, 0, 0x60, 0]);
    let rect = Rect { x: 0, y: 0, width: 1, height: 1 };
    let wanted = RegionRequest { rect, reduce_by: 1, padded: false };
    let found = Decoder::new(Level::SCALAR).region(&jpeg, None, &wanted, u64::MAX, &mut Vec::new());
    assert_eq!(found, Err(NoTable::Damaged { at: jpeg.len() as u64, what: Damage::Truncated }));
}

#[test]
fn damage_is_an_error_and_never_pixels_or_a_panic() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/jpegs/pixels");
    for name in [
        "420-33x17.jpg",
        "444-restart-3B.jpg",
        "grey.jpg",
        "420-progressive-33x17.jpg",
        "440-bits.jpg",
        "422-apart.jpg",
    ] {
        let jpeg = std::fs::read(fixtures.join(name)).unwrap();
        let (width, height) = size(&jpeg);
        let whole = Rect { x: 0, y: 0, width, height };
        let tables = tables(name, &jpeg, &[2]);
        let level = *Level::all().last().unwrap();
        let codes = jpeg.windows(2).position(|pair| pair == [0xFF, 0xDA]).unwrap();
        for end in 0..jpeg.len() {
            // The last two bytes are the end marker.
            assert!(region(level, &jpeg[..end], None, whole, 1).is_err(), "{name} cut at {end}");
            assert!(scan(&jpeg[..end], NonZeroU16::MIN).is_err(), "{name} cut at {end}");
        }
        // Some bits, so that the test is short: the fuzz target has all.
        for bit in (0..jpeg.len() * 8).step_by(5) {
            let mut damaged = jpeg.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            for table in tables.iter().map(|table| Some(table.as_slice())).chain([None]) {
                // A changed value of the same length is another image, which only a hash finds.
                if let Ok((found, pixels)) = region(level, &damaged, table, whole, 1) {
                    assert_eq!(pixels.len(), (found.width * found.height * 3) as usize, "{name} bit {bit}");
                }
                // The mean of a block is its first coefficient, and all codes are read nevertheless. Another frame has other parts.
                let way = |by: u32| region(level, &damaged, table, whole, by).map(|(region, _)| region.way).ok();
                assert!(bit / 8 < codes || way(8) == way(1), "{name} bit {bit}: by 8 and by 1");
                let slow = region(Level::SCALAR, &damaged, table, whole, 1);
                assert!(
                    slow == region(level, &damaged, table, whole, 1),
                    "{name} bit {bit}: not the same at each level"
                );
            }
        }
    }
}
