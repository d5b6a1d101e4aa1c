//! Every kind decodes to its source pixels; truncated, damaged or too large files are refused, and nothing panics.

use crate::samples::{HEIGHT, WIDTH};
use proptest::prelude::*;
use shardpack_format::{image_header::Kind, npy};
use shardpack_imaging::{Budget, Layout, Limits, Picture, Refused, check, decode};

/// Enough for every sample.
const SMALL: Limits = Limits { pixels: 1 << 20, bytes: 1 << 23 };

fn mean_difference(one: &[u8], other: &[u8]) -> f64 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| f64::from(one.abs_diff(*other))).sum::<f64>() / one.len() as f64
}

fn in_rgb(picture: &Picture) -> Vec<u8> {
    let pixels = picture.pixels().chunks(picture.layout().channels());
    match picture.layout() {
        Layout::Gray8 | Layout::GrayA8 => pixels.flat_map(|pixel| [pixel[0]; 3]).collect(),
        Layout::Rgb8 | Layout::Rgba8 => pixels.flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
    }
}

#[test]
fn every_kind_decodes_to_what_was_put_in() {
    let colours = crate::samples::rgb();
    let greys: Vec<u8> = colours
        .chunks(3)
        .flat_map(|p| {
            let level = (2126 * u32::from(p[0]) + 7152 * u32::from(p[1]) + 722 * u32::from(p[2])) / 10_000;
            [level as u8; 3]
        })
        .collect();
    for (name, kind, bytes) in crate::samples::all() {
        let picture = decode(&bytes, &SMALL).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((picture.width(), picture.height(), picture.orientation()), (WIDTH, HEIGHT, 1), "{name}");
        let header = check(&bytes, &SMALL).unwrap();
        assert_eq!(header.kind, kind, "{name}");
        let is_grey = matches!(picture.layout(), Layout::Gray8 | Layout::GrayA8);
        assert_eq!(is_grey, name.contains("grey") || name.contains("plain"), "{name}: {:?}", picture.layout());
        assert_eq!(
            picture.layout().has_alpha(),
            ["alpha", "palette", "gif"].iter().any(|word| name.contains(word)),
            "{name}"
        );
        let exact =
            !name.contains("jpeg") && !name.contains("lossy") && !name.contains("gif") && !name.contains("palette");
        let difference = mean_difference(&in_rgb(&picture), if is_grey { &greys } else { &colours });
        let most = match name {
            // Another picture, in few colours.
            "png, palette" | "webp, lossy" => 60.0,
            _ if exact => 1.0,
            _ => 10.0,
        };
        assert!(difference <= most, "{name}: {difference}");
    }
}

#[test]
fn a_cut_file_is_refused_wherever_it_is_cut() {
    for (name, _, bytes) in crate::samples::all() {
        for length in 0..bytes.len() {
            let result = check(&bytes[..length], &SMALL);
            // A number stays valid without its last digits.
            let is_a_number = name == "pgm, plain" && length + 4 > bytes.len();
            assert!(result.is_err() || is_a_number, "{name}: cut at {length} of {} bytes", bytes.len());
        }
        assert!(check(&[&bytes[..], b"more"].concat(), &SMALL).is_ok(), "{name}: with something behind it");
    }
}

#[test]
fn a_cut_photograph_is_refused_wherever_it_is_cut() {
    for (name, bytes) in crate::samples::photos() {
        assert!(check(&bytes, &Limits::default()).is_ok(), "{name}");
        let cuts = (0..24).map(|part| bytes.len() * part / 24).chain(bytes.len() - 40..bytes.len());
        for length in cuts {
            assert!(check(&bytes[..length], &Limits::default()).is_err(), "{name}: cut at {length}");
        }
    }
}

#[test]
fn strays_between_the_segments_of_a_jpeg_are_passed_over() {
    let bytes = crate::samples::photo("things/clock.jpg");
    let plain = decode(&bytes, &SMALL).unwrap();
    // Behind SOI and the first segment, which is JFIF and 16 bytes long.
    let strays = [&bytes[..20], &b"left by a writer \xFF\xD0\xFF\xFF"[..], &bytes[20..]].concat();
    assert_eq!(decode(&strays, &SMALL).unwrap(), plain);
    for length in strays.len() - 300..strays.len() {
        assert!(check(&strays[..length], &SMALL).is_err(), "cut at {length}");
    }
}

#[test]
fn the_inks_of_a_photograph_become_its_colours() {
    let cup = decode(&crate::samples::photo("things/cup.jpg"), &SMALL).unwrap();
    assert_eq!((cup.width(), cup.height(), cup.layout()), (300, 300, Layout::Rgb8));
    // The same photograph at 480 of 600 pixels wide; the cup is the part from x 160 and y 10 on.
    let coffee = decode(&crate::samples::photo("things/coffee.jpg"), &SMALL).unwrap();
    let pixel = |picture: &Picture, x: usize, y: usize| {
        let at = (y * picture.width() as usize + x) * 3;
        [0, 1, 2].map(|channel| i32::from(picture.pixels()[at + channel]))
    };
    let mut difference = 0;
    for y in (0..300).step_by(10) {
        for x in (0..300).step_by(10) {
            let (one, other) = (pixel(&cup, x, y), pixel(&coffee, (x + 160) * 4 / 5, (y + 10) * 4 / 5));
            difference += one.iter().zip(other).map(|(one, other)| (one - other).abs()).sum::<i32>();
        }
    }
    assert!(difference / (30 * 30 * 3) < 12, "{difference}");
}

#[test]
fn a_header_that_asks_for_too_much_is_refused_before_anything_is_allocated() {
    let large = |side: u32| {
        let [a, b, c, d] = side.to_le_bytes();
        let be = side.to_be_bytes();
        let mut png = crate::samples::all().into_iter().find(|(name, ..)| *name == "png").unwrap().2;
        png[16..20].copy_from_slice(&be);
        png[20..24].copy_from_slice(&be);
        let checksum = crc32(&png[12..29]);
        png[29..33].copy_from_slice(&checksum.to_be_bytes());
        let mut bmp = crate::samples::all().into_iter().find(|(name, ..)| *name == "bmp").unwrap().2;
        bmp[18..26].copy_from_slice(&[a, b, c, d, a, b, c, d]);
        let mut jpeg = crate::samples::all().remove(0).2;
        let frame = jpeg.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
        jpeg[frame + 5..frame + 9].copy_from_slice(&[be[2], be[3], be[2], be[3]]);
        let mut gif = crate::samples::all().into_iter().find(|(name, ..)| *name == "gif").unwrap().2;
        gif[6..10].copy_from_slice(&[a, b, a, b]);
        let pnm = format!("P6 {side} {side} 255\n").into_bytes();
        [png, bmp, jpeg, gif, pnm]
    };
    for bytes in large(60_000) {
        let kind = Kind::detect(&bytes);
        let refused = decode(&bytes, &Limits::default()).unwrap_err();
        assert_eq!(refused, Refused::TooLarge { width: 60_000, height: 60_000 }, "{kind:?}");
        assert_eq!(refused.to_string(), "60000 × 60000 pixels are more than is allowed");
    }
    // Within the limit of pixels, but not within the budget of all decoding.
    for bytes in large(10_000) {
        match Budget::new(64 << 20).for_decode(&bytes) {
            Err(Refused::OverBudget { needed, allowed }) => {
                assert!((250 << 20..1000 << 20).contains(&needed) && allowed == 64 << 20, "{:?}", Kind::detect(&bytes));
            }
            other => panic!("{:?}: {other:?}", Kind::detect(&bytes)),
        }
        assert!(Budget::new(1 << 30).for_decode(&bytes).is_ok(), "{:?}", Kind::detect(&bytes));
    }
    let picture = crate::samples::all().remove(0).2;
    let pixels = u64::from(WIDTH * HEIGHT);
    assert!(decode(&picture, &Limits { pixels, ..SMALL }).is_ok());
    assert!(decode(&picture, &Limits { pixels: pixels - 1, ..SMALL }).is_err());
    assert!(decode(&picture, &Limits { bytes: 3 * pixels, ..SMALL }).is_ok());
    assert!(decode(&picture, &Limits { bytes: 3 * pixels - 1, ..SMALL }).is_err());
}

/// CRC-32 of PNG. Source: PNG third edition, annex D.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 })
    })
}

#[test]
fn what_nobody_decodes_here_is_named() {
    let rows = [
        (&b"\0\0\0\x20ftypavif\0\0\0\0avifmif1miafMA1B"[..], "AVIF cannot be decoded here"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIF cannot be decoded here"),
        (b"\xFF\x0A\x7A\x1F", "JXL cannot be decoded here"),
        (b"<!DOCTYPE html>", "no image by its first bytes"),
        (b"", "no image by its first bytes"),
    ];
    for (bytes, expected) in rows {
        assert_eq!(check(bytes, &SMALL).unwrap_err().to_string(), expected);
    }
}

#[test]
fn an_array_of_floats_is_whole_and_no_picture() {
    let array = [npy::head("<f4", &[4, 5], false), vec![0; 80]].concat();
    assert_eq!(check(&array, &SMALL).unwrap().kind, Kind::Npy);
    assert!(decode(&array, &SMALL).is_err());
    assert!(check(&array[..array.len() - 1], &SMALL).is_err());
}

fn harmless(bytes: &[u8]) {
    if let Ok(picture) = decode(bytes, &SMALL) {
        let pixels = picture.width() as usize * picture.height() as usize;
        assert_eq!(picture.pixels().len(), pixels * picture.layout().channels());
        assert!(check(bytes, &SMALL).is_ok());
    }
}

proptest! {
    #[test]
    fn random_bytes_behind_a_real_start_do_no_harm(
        sample in prop::sample::select(crate::samples::all()),
        keep in 0..120_usize,
        tail in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        harmless(&[&sample.2[..keep.min(sample.2.len())], &tail].concat());
    }

    #[test]
    fn changed_and_cut_images_do_no_harm(
        sample in prop::sample::select(crate::samples::all()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = sample.2;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        harmless(&bytes);
        harmless(&bytes[..cut.index(bytes.len())]);
    }
}
