//! Files that decoders failed on: each decodes to its pixels, or is refused with the reason in one line of plain words.

use std::io::Write;

use crate::samples::{HEIGHT, WIDTH};
use image::{DynamicImage, ImageFormat};
use shardpack_format::image_header::{Header, Kind, Mode};
use shardpack_imaging::{Encode, Layout, Limits, Outcome, Recipe, Resize, apply, check, decode};

const LIMITS: Limits = Limits { pixels: 1 << 20, bytes: 1 << 23 };

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/jpegs").join(name)).unwrap()
}

fn sample(name: &str) -> Vec<u8> {
    crate::samples::all().into_iter().find(|(found, ..)| *found == name).unwrap().2
}

#[test]
fn jpegs_in_several_scans_have_the_pixels_of_those_in_one() {
    for name in ["410", "420", "422", "440", "444", "chroma"] {
        let one = decode(&fixture(&format!("{name}.jpg")), &LIMITS).unwrap();
        let several = fixture(&format!("{name}-scans.jpg"));
        let found = decode(&several, &LIMITS).unwrap();
        let most = one.pixels().iter().zip(found.pixels()).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        // The two decoders round differently.
        assert!(most <= 8, "{name}: {most}");
        for cut in [several.len() / 2, several.len() - 40, several.len() - 2] {
            assert!(check(&several[..cut], &LIMITS).is_err(), "{name}: cut at {cut}");
        }
        let small = Recipe { resize: Some(Resize::Exact { width: 5, height: 4 }), ..Recipe::default() };
        assert!(apply(&several, &small, &LIMITS).is_ok(), "{name}");
    }
}

#[test]
fn jpegs_of_a_coding_without_a_decoder_are_refused_by_what_it_is() {
    let jpeg = sample("jpeg");
    let frame = jpeg.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    let rows: [(usize, u8, &str); 9] = [
        (1, 0xC3, "lossless coding is not decoded here"),
        (1, 0xC5, "hierarchical coding is not decoded here"),
        (1, 0xC7, "hierarchical coding is not decoded here"),
        (1, 0xC9, "arithmetic coding is not decoded here"),
        (1, 0xCA, "arithmetic coding is not decoded here"),
        (1, 0xCB, "arithmetic coding is not decoded here"),
        (4, 12, "12 bits a channel are not decoded here"),
        (9, 2, "2 channels are not decoded here"),
        (6, 0, "its height comes behind its pixels, which is not decoded here"),
    ];
    for (at, value, what) in rows {
        let mut bytes = jpeg.clone();
        bytes[frame + at] = value;
        if at == 6 {
            bytes[frame + 5] = 0;
        }
        let expected = format!("JPEG: {what}");
        assert_eq!(check(&bytes, &LIMITS).unwrap_err().to_string(), expected);
        let resize = Recipe { resize: Some(Resize::Short(9)), ..Recipe::default() };
        assert_eq!(apply(&bytes, &resize, &LIMITS).unwrap_err().to_string(), expected);
    }
}

/// A little-endian TIFF of these tags and these strips or tiles; numbers have 16 bits, offsets and lengths 32.
fn tiff(tags: &[(u16, Vec<u16>)], pieces: &[Vec<u8>], beside: &[(u16, &[u8])]) -> Vec<u8> {
    let is_tiled = tags.iter().any(|(tag, _)| *tag == 322);
    let (offsets, lengths) = if is_tiled { (324, 325) } else { (273, 279) };
    let count = tags.len() + beside.len() + 2;
    let mut at = 8 + 2 + 12 * count + 4;
    let mut place = |bytes: &[u8]| {
        let start = at;
        at += bytes.len();
        start as u32
    };
    let (mut entries, mut outside) = (Vec::new(), Vec::new());
    let mut add = |tag: u16, kind: u16, count: usize, bytes: &[u8], place: &mut dyn FnMut(&[u8]) -> u32| {
        let here = match bytes.len() {
            ..=4 => [bytes, &[0; 4][bytes.len()..]].concat(),
            _ => {
                outside.extend_from_slice(bytes);
                place(bytes).to_le_bytes().to_vec()
            }
        };
        let head = [&tag.to_le_bytes()[..], &kind.to_le_bytes(), &(count as u32).to_le_bytes()].concat();
        entries.push((tag, [head, here].concat()));
    };
    for (tag, values) in tags {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        add(*tag, 3, values.len(), &bytes, &mut place);
    }
    for (tag, bytes) in beside {
        add(*tag, 7, bytes.len(), bytes, &mut place);
    }
    let starts: Vec<u32> = pieces.iter().map(|piece| place(piece)).collect();
    let of = |numbers: &mut dyn Iterator<Item = u32>| numbers.flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let lengths_bytes = of(&mut pieces.iter().map(|piece| piece.len() as u32));
    let starts_bytes = of(&mut starts.into_iter());
    // Behind the pieces, because their offsets had to be known.
    let mut behind = Vec::new();
    let mut far = |bytes: &[u8]| {
        let start = at + behind.len();
        behind.extend_from_slice(bytes);
        start as u32
    };
    add(offsets, 4, pieces.len(), &starts_bytes, &mut |bytes| far(bytes));
    let starts_outside = if starts_bytes.len() > 4 { starts_bytes.len() } else { 0 };
    add(lengths, 4, pieces.len(), &lengths_bytes, &mut |bytes| far(bytes));
    let lengths_outside = if lengths_bytes.len() > 4 { lengths_bytes.len() } else { 0 };
    let kept = outside.len() - starts_outside - lengths_outside;
    outside.truncate(kept);
    entries.sort_by_key(|(tag, _)| *tag);
    let mut out = [b"II\x2A\0\x08\0\0\0", &(count as u16).to_le_bytes()[..]].concat();
    entries.iter().for_each(|(_, entry)| out.extend_from_slice(entry));
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&outside);
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    out.extend_from_slice(&behind);
    out
}

/// The tags of an image of `samples` and `bits`.
fn tags(samples: u16, bits: u16, photometric: u16, more: &[(u16, Vec<u16>)]) -> Vec<(u16, Vec<u16>)> {
    let basic = [(256, vec![WIDTH as u16]), (257, vec![HEIGHT as u16]), (258, vec![bits; samples.into()])];
    let rest = [(259, vec![1]), (262, vec![photometric]), (277, vec![samples])];
    basic.into_iter().chain(rest).chain(more.iter().cloned()).collect()
}

/// The RGB of the samples, plane by plane, in tiles of 16 × 16; neither side is a multiple of 16.
fn planar_tiles() -> Vec<u8> {
    let rgb = crate::samples::rgb();
    let mut tiles = Vec::new();
    for plane in 0..3 {
        for x in [0, 16] {
            let level = |at: usize| {
                let (x, y) = (x + at % 16, at / 16);
                let is_inside = x < WIDTH as usize && y < HEIGHT as usize;
                if is_inside { rgb[(y * WIDTH as usize + x) * 3 + plane] } else { 0 }
            };
            tiles.push((0..256).map(level).collect());
        }
    }
    tiff(&tags(3, 8, 2, &[(284, vec![2]), (322, vec![16]), (323, vec![16])]), &tiles, &[])
}

#[test]
fn tiles_by_plane_that_no_side_is_a_multiple_of_are_decoded() {
    let bytes = planar_tiles();
    assert_eq!(decode(&bytes, &LIMITS).unwrap().pixels(), crate::samples::rgb());
    for length in 0..bytes.len() {
        // The lengths of the tiles are at the end.
        assert!(check(&bytes[..length], &LIMITS).is_err(), "cut at {length}");
    }
}

#[test]
fn samples_of_few_bits_palettes_and_alpha_become_their_pixels() {
    let count = (WIDTH * HEIGHT) as usize;
    let level = |at: usize| (at * 7 % 256) as u8;
    let row = WIDTH as usize;
    for bits in [1, 2, 4_usize] {
        let most = (1 << bits) - 1;
        let levels: Vec<u8> = (0..count).map(|at| level(at) >> (8 - bits)).collect();
        let pack = |row: &[u8]| -> Vec<u8> {
            let byte = |part: &[u8]| {
                let byte = part.iter().fold(0, |byte: u32, level| byte << bits | u32::from(*level));
                (byte << (bits * (8 / bits - part.len()))) as u8
            };
            row.chunks(8 / bits).map(byte).collect()
        };
        let packed: Vec<u8> = levels.chunks(row).flat_map(pack).collect();
        let reversed: Vec<u8> = packed.iter().map(|byte| byte.reverse_bits()).collect();
        let expected: Vec<u8> = levels.iter().map(|level| (usize::from(*level) * 255 / most) as u8).collect();
        let found = decode(&tiff(&tags(1, bits as u16, 1, &[]), std::slice::from_ref(&packed), &[]), &LIMITS).unwrap();
        assert_eq!((found.layout(), found.pixels()), (Layout::Gray8, &expected[..]), "{bits} bits");
        let fill = [(266, vec![2])];
        let found = decode(&tiff(&tags(1, bits as u16, 1, &fill), &[reversed], &[]), &LIMITS).unwrap();
        assert_eq!(found.pixels(), expected, "{bits} bits, reversed");
        let colours: Vec<u16> = (0..3 << bits).map(|at: u16| at * 20 % 256 * 257).collect();
        let found = decode(&tiff(&tags(1, bits as u16, 3, &[(320, colours)]), &[packed], &[]), &LIMITS).unwrap();
        let expected: Vec<u8> =
            levels.iter().flat_map(|n| [0, 1, 2].map(|c| ((usize::from(*n) + (c << bits)) * 20 % 256) as u8)).collect();
        assert_eq!((found.layout(), found.pixels()), (Layout::Rgb8, &expected[..]), "palette of {bits} bits");
    }
    let pixels: Vec<u8> = (0..count).flat_map(|_| [50, 100, 0, 100]).collect();
    for (extra, expected) in [(1, vec![128, 255, 0, 100]), (2, vec![50, 100, 0, 100]), (0, vec![50, 100, 0])] {
        let found =
            decode(&tiff(&tags(4, 8, 2, &[(338, vec![extra])]), std::slice::from_ref(&pixels), &[]), &LIMITS).unwrap();
        assert_eq!(found.pixels()[..expected.len()], expected, "extra samples {extra}");
        assert_eq!(found.layout().channels(), expected.len());
    }
}

#[test]
fn compressed_strips_are_unpacked_and_others_are_named() {
    let plain = crate::samples::rgb();
    let mut deflated = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    deflated.write_all(&plain).unwrap();
    let packed_bits: Vec<u8> = plain.chunks(100).flat_map(|run| [&[run.len() as u8 - 1], run].concat()).collect();
    let lzw = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(&plain).unwrap();
    let rows = [
        (8, deflated.finish().unwrap()),
        (32_773, packed_bits),
        (5, lzw),
        (50_000, zstd::bulk::compress(&plain, 3).unwrap()),
    ];
    for (compression, packed) in rows {
        let mut tags = tags(3, 8, 2, &[]);
        tags[3].1 = vec![compression];
        let found = decode(&tiff(&tags, std::slice::from_ref(&packed), &[]), &LIMITS).unwrap();
        assert_eq!(found.pixels(), plain, "compression {compression}");
        let cut = packed[..packed.len() / 2].to_vec();
        assert!(decode(&tiff(&tags, &[cut], &[]), &LIMITS).is_err(), "compression {compression}, cut");
    }
    for (compression, photometric, format, what) in [
        (34_925, 2, 1, "LZMA in TIFF is not decoded here"),
        (3, 2, 1, "CCITT group 3 fax of more than black and white in TIFF is not decoded here"),
        (6, 6, 1, "JPEG of the old sort in TIFF is not decoded here"),
        (1, 9, 1, "ICC Lab TIFF is not decoded here"),
        (1, 10, 1, "ITU Lab TIFF is not decoded here"),
        (1, 6, 1, "YCbCr, without JPEG, TIFF is not decoded here"),
        (1, 2, 2, "signed samples are not decoded here"),
        (1, 2, 3, "pixels of floating point are not decoded here"),
    ] {
        let mut tags = tags(3, 8, photometric, &[(339, vec![format; 3])]);
        tags[3].1 = vec![compression];
        let refused = decode(&tiff(&tags, std::slice::from_ref(&plain), &[]), &LIMITS).unwrap_err();
        assert_eq!(refused.to_string(), format!("TIFF: {what}"));
        // `fix` refuses an image that it cannot fix, and does not keep the file.
        assert!(
            apply(&tiff(&tags, std::slice::from_ref(&plain), &[]), &Recipe { fix: true, ..Recipe::default() }, &LIMITS)
                .is_err()
        );
    }
}

/// A black-and-white TIFF from these fax lines.
fn fax(compression: u16, width: u16, height: u16, options: u16, packed: &[u8]) -> Vec<u8> {
    let rows =
        [(256, width), (257, height), (258, 1), (259, compression), (262, 0), (277, 1), (278, height), (292, options)];
    tiff(&rows.map(|(tag, value)| (tag, vec![value])), &[packed.to_vec()], &[])
}

#[test]
fn fax_of_group_3_has_its_lines_with_marks_and_without_and_every_cut_of_it_is_refused() {
    // White 3, black 2, white 3: 1000, 11, 1000. White 8: 10011. A mark: eleven zeros and a one.
    let (line, white, mark) = ("1000111000", "10011", "000000000001");
    let bits = |text: String| {
        let text = format!("{text}{}", "0".repeat(text.len().next_multiple_of(8) - text.len()));
        text.as_bytes()
            .chunks(8)
            .map(|byte| u8::from_str_radix(str::from_utf8(byte).unwrap(), 2).unwrap())
            .collect::<Vec<_>>()
    };
    let byte = |line: &str| format!("{line}{}", "0".repeat(line.len().next_multiple_of(8) - line.len()));
    let rows = [
        ("marks", 3, 0, bits(format!("{mark}{line}{mark}{white}{mark}{line}"))),
        ("marks, and six at the end", 3, 0, bits(format!("{mark}{line}{mark}{white}{mark}{line}{}", mark.repeat(6)))),
        ("marks that end with a byte", 3, 4, bits(format!("0000{mark}{line}000000{mark}{white}0000000{mark}{line}"))),
        ("no marks", 3, 0, bits(format!("{line}{white}{line}"))),
        ("lines that begin with a byte", 2, 0, bits(format!("{}{}{line}", byte(line), byte(white)))),
    ];
    for (row, compression, options, packed) in &rows {
        let found = decode(&fax(*compression, 8, 3, *options, packed), &LIMITS).unwrap();
        let black = [255, 255, 255, 0, 0, 255, 255, 255];
        assert_eq!(found.pixels(), [black, [255; 8], black].concat(), "{row}");
        // Fewer bytes than the lines take: 61 bits with marks.
        for cut in 0..packed.len() - 1 {
            let is_end = row.contains("at the end") && cut >= 8;
            assert_eq!(
                decode(&fax(*compression, 8, 3, *options, &packed[..cut]), &LIMITS).is_ok(),
                is_end,
                "{row}: {cut}"
            );
        }
        // Other widths than the lines have.
        for width in [7, 9, 4000] {
            assert!(decode(&fax(*compression, width, 3, *options, packed), &LIMITS).is_err(), "{row}: {width}");
        }
    }
    for options in [1, 2, 5] {
        let refused = decode(&fax(3, 8, 3, options, &rows[0].3), &LIMITS).unwrap_err().to_string();
        assert_eq!(refused, "TIFF: two-dimensional CCITT group 3 fax in TIFF is not decoded here");
    }
    // Decoding of random bits ends and does not panic.
    let mut seed = 7_u32;
    for length in (0..4000).step_by(37) {
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        let bytes: Vec<u8> = (0..length).map(|_| next()).collect();
        for compression in [2, 3] {
            let _ = decode(&fax(compression, 1728, 200, 0, &bytes), &LIMITS);
            let _ = decode(&fax(compression, 65_535, 9, 0, &vec![next(); length]), &LIMITS);
        }
    }
}

#[test]
fn lab_becomes_srgb_and_its_profile_goes() {
    let mut bytes = tags(3, 8, 8, &[]);
    let pixels: Vec<u8> = crate::samples::rgb().as_chunks::<3>().0.iter().flat_map(|[l, ..]| [*l, 0, 0]).collect();
    let found = decode(&tiff(&bytes, std::slice::from_ref(&pixels), &[(34_675, &profile(b"Lab "))]), &LIMITS).unwrap();
    assert_eq!((found.layout(), found.icc()), (Layout::Rgb8, None));
    for ([red, green, blue], lab) in found.pixels().as_chunks::<3>().0.iter().zip(pixels.as_chunks::<3>().0) {
        assert!(red == green && green == blue, "{lab:?}: {red} {green} {blue}");
    }
    bytes[2].1 = vec![16; 3];
    let refused = decode(&tiff(&bytes, &[pixels], &[]), &LIMITS).unwrap_err().to_string();
    assert_eq!(refused, "TIFF: Lab of other samples than three of 8 bits TIFF is not decoded here");
}

fn profile(space: &[u8; 4]) -> Vec<u8> {
    [&[0; 16][..], space, &[7; 108]].concat()
}

#[test]
fn a_small_tiff_keeps_its_profile_and_one_for_gray_is_not_put_into_colours() {
    let small = tiff(&tags(3, 8, 2, &[]), &[crate::samples::rgb()], &[(34_675, &profile(b"RGB "))]);
    assert_eq!(decode(&small, &LIMITS).unwrap().icc(), Some(&profile(b"RGB ")[..]));
    let gray: Vec<u8> = crate::samples::rgb().into_iter().step_by(3).collect();
    let gray = tiff(&tags(1, 8, 1, &[]), &[gray], &[(34_675, &profile(b"GRAY"))]);
    for (encode, kept) in [(Encode::Png, true), (Encode::Jpeg, true), (Encode::Webp, false)] {
        let recipe = Recipe { encode: Some(encode), ..Recipe::default() };
        let Outcome::Made { bytes, .. } = apply(&gray, &recipe, &LIMITS).unwrap() else { panic!("{encode:?}") };
        assert_eq!(decode(&bytes, &LIMITS).unwrap().icc().is_some(), kept, "{encode:?}");
    }
}

/// `png` with a chunk behind its header.
fn with_chunk(png: &[u8], name: &[u8; 4], held: &[u8]) -> Vec<u8> {
    let covered = [&name[..], held].concat();
    let mut sum = flate2::Crc::new();
    sum.update(&covered);
    [&png[..33], &(held.len() as u32).to_be_bytes(), &covered, &sum.sum().to_be_bytes(), &png[33..]].concat()
}

#[test]
fn a_wrong_checksum_of_any_chunk_of_a_png_is_found() {
    let png = sample("png");
    for name in [b"iCCP", b"iTXt", b"zTXt", b"sPLT", b"tEXt", b"prVt"] {
        let whole = with_chunk(&png, name, b"name\0\0text");
        let mut wrong = whole.clone();
        wrong[33 + 8 + 3] ^= 1;
        let name = str::from_utf8(name).unwrap();
        assert!(check(&whole, &LIMITS).is_ok() || name != "prVt", "{name}");
        let refused = check(&wrong, &LIMITS).unwrap_err().to_string();
        assert_eq!(refused, format!("PNG does not decode: the checksum of chunk {name} at byte 33 is wrong"));
    }
}

#[test]
fn an_orientation_is_seen_wherever_readers_look_for_it() {
    let exif = b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let hex: String = [b"Exif\0\0", &exif[..]].concat().iter().map(|byte| format!("{byte:02x}")).collect();
    let raw = format!("\nexif\n      {}\n{}\n{}\n", exif.len() + 6, &hex[..40], &hex[40..]);
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(raw.as_bytes()).unwrap();
    let zipped = [b"Raw profile type exif\0\0", &packed.finish().unwrap()[..]].concat();
    let plain = [b"Raw profile type APP1\0", raw.as_bytes()].concat();
    let packet = b"<x:xmpmeta><rdf:Description tiff:Orientation=\"6\"/></x:xmpmeta>";
    let xmp = [b"XML:com.adobe.xmp\0\0\0\0\0", &packet[..]].concat();
    let (png, jpeg) = (sample("png"), sample("jpeg"));
    let app1 = [b"http://ns.adobe.com/xap/1.0/\0", &packet[..]].concat();
    let length = (app1.len() as u16 + 2).to_be_bytes();
    let rows = [
        ("zTXt", with_chunk(&png, b"zTXt", &zipped)),
        ("tEXt", with_chunk(&png, b"tEXt", &plain)),
        ("XMP in PNG", with_chunk(&png, b"iTXt", &xmp)),
        ("XMP in JPEG", [&jpeg[..2], b"\xFF\xE1", &length, &app1, &jpeg[2..]].concat()),
        ("XMP in TIFF", tiff(&tags(3, 8, 2, &[]), &[crate::samples::rgb()], &[(700, packet)])),
    ];
    for (name, bytes) in rows {
        assert_eq!(decode(&bytes, &LIMITS).unwrap().orientation(), 6, "{name}");
        let rotate = Recipe { rotate: true, ..Recipe::default() };
        let Outcome::Made { bytes, .. } = apply(&bytes, &rotate, &LIMITS).unwrap() else { panic!("{name}") };
        let header = Header::parse(&bytes);
        assert_eq!((header.width, header.height), (HEIGHT, WIDTH), "{name}");
    }
}

#[test]
fn a_bmp_whose_pixels_begin_inside_its_header_is_refused() {
    let mut bmp = sample("bmp");
    let begins = bmp[10];
    for (offset, is_right) in [(0, false), (begins - 1, begins > 54), (begins, true)] {
        bmp[10] = offset;
        let checked = check(&bmp, &LIMITS);
        assert!(checked.is_ok() == is_right || offset + 1 == begins, "{offset}: {checked:?}");
        if offset == 0 {
            let expected = "BMP does not decode: its pixels begin at byte 0, inside its header";
            assert_eq!(checked.unwrap_err().to_string(), expected);
        }
    }
}

#[test]
fn a_bigtiff_has_a_size_and_is_decoded() {
    let mut bytes = b"II\x2B\0\x08\0\0\0\x10\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0".to_vec();
    let at = bytes.len() as u64 + 8 * 20 + 8;
    let gray: Vec<u8> = crate::samples::rgb().into_iter().step_by(3).collect();
    for (tag, value) in [
        (256, WIDTH.into()),
        (257, HEIGHT.into()),
        (258, 8),
        (259, 1),
        (262, 1),
        (273, at),
        (277, 1),
        (279, gray.len() as u64),
    ] {
        bytes.extend_from_slice(&u16::to_le_bytes(tag));
        bytes.extend_from_slice(b"\x10\0\x01\0\0\0\0\0\0\0");
        bytes.extend_from_slice(&u64::to_le_bytes(value));
    }
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&gray);
    let header = Header::parse(&bytes);
    assert_eq!((header.width, header.height, header.mode, header.depth), (WIDTH, HEIGHT, Mode::Gray, 8));
    assert_eq!(decode(&bytes, &LIMITS).unwrap().pixels(), gray);
}

#[test]
fn what_is_said_of_a_damaged_image_is_one_line_of_plain_words() {
    let tiff = crate::samples::by_image(&DynamicImage::ImageRgb8(image::RgbImage::new(9, 9)), ImageFormat::Tiff);
    let more = ["410-scans.jpg", "chroma.jpg"].map(|name| ("fixture", Kind::Jpeg, fixture(name)));
    let all = crate::samples::all().into_iter().chain(more).chain([("tiff", Kind::Tiff, tiff)]);
    let mut said = std::collections::BTreeSet::new();
    for (name, _, bytes) in all {
        for at in (0..bytes.len()).step_by(3) {
            for change in [1, 0x80, 0xFF] {
                let mut wrong = bytes.clone();
                wrong[at] ^= change;
                for damaged in [&wrong[..], &bytes[..at]] {
                    let Err(refused) = check(damaged, &LIMITS) else { continue };
                    said.insert((name, refused.to_string()));
                }
            }
        }
    }
    let is_odd = |text: &str| {
        let is_camel = |word: &str| {
            let bytes = word.as_bytes();
            bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
                && bytes.windows(2).any(|pair| pair[0].is_ascii_uppercase() && pair[1].is_ascii_lowercase())
        };
        text.contains(['\n', '\r', '{', '}', '"', '`']) || text.contains("::") || text.split(' ').any(is_camel)
    };
    let odd: Vec<_> = said.iter().filter(|(_, text)| is_odd(text) || text.len() > 160).collect();
    assert!(said.len() > 60 && odd.is_empty(), "{} are said, of which {odd:#?}", said.len());
}
