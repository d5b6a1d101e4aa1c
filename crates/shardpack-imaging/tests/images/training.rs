//! Slots of training batches: every kind of image, hostile ones, orientations, reduced and partly decoded JPEGs.

use std::num::NonZeroU16;

use proptest::prelude::*;
use shardpack_imaging::{
    Limits, Refused, crops, decode,
    training::{Axes, Cut, Dtype, Filter, Normalise, Oddity, Options, Outcome, Rect, Resize, Size, Transform, Worker},
};

const SMALL: Limits = Limits { pixels: 1 << 20, bytes: 1 << 23 };

fn run(options: Options, bytes: &[u8], key: u64) -> Result<(Vec<u8>, Outcome), Refused> {
    let transform = Transform::new(options).unwrap();
    let mut slot = vec![0; transform.slot_bytes()];
    Worker::new(Limits::default()).run(&transform, bytes, None, key, &mut slot).map(|outcome| (slot, outcome))
}

fn as_it_is(height: u32, width: u32) -> Options {
    Options { axes: Axes::Hwc, ..Options::new(Cut::Whole { size: Size { height, width } }) }
}

/// Greatest and mean difference.
fn differences(one: &[u8], other: &[u8]) -> (u8, f64) {
    assert_eq!(one.len(), other.len());
    let pairs = || one.iter().zip(other).map(|(one, other)| one.abs_diff(*other));
    (pairs().max().unwrap(), pairs().map(f64::from).sum::<f64>() / one.len() as f64)
}

#[test]
fn every_kind_becomes_three_channels_and_its_oddities_are_told() {
    let expected = |name: &str| -> Vec<Oddity> {
        let rows = [
            ("grey", Oddity::Gray),
            ("pgm", Oddity::Gray),
            ("cmyk", Oddity::Cmyk),
            ("ycck", Oddity::Ycck),
            ("16 bits", Oddity::SixteenBit),
            ("palette", Oddity::Palette),
            ("gif", Oddity::Palette),
            ("alpha", Oddity::Alpha),
            ("png, palette", Oddity::Alpha),
            ("two frames", Oddity::Animated),
        ];
        rows.iter().filter(|(part, _)| name.contains(part)).map(|(_, oddity)| *oddity).collect()
    };
    for (name, _, bytes) in crate::samples::all() {
        let picture = decode(&bytes, &SMALL).unwrap();
        let channels = picture.layout().channels();
        let colours = |pixel: &[u8]| if channels < 3 { [pixel[0]; 3] } else { [pixel[0], pixel[1], pixel[2]] };
        let pixels: Vec<u8> = picture.pixels().chunks_exact(channels).flat_map(colours).collect();
        let mut worker = Worker::new(SMALL);
        let (rgb, whole) = worker.decode(&bytes, false).unwrap();
        assert_eq!((rgb.width, rgb.height), (crate::samples::WIDTH, crate::samples::HEIGHT), "{name}");
        let rgb = rgb.pixels.to_vec();
        let (slot, outcome) = run(as_it_is(crate::samples::HEIGHT, crate::samples::WIDTH), &bytes, 0).unwrap();
        assert!(slot == rgb, "{name}");
        assert!(rgb == pixels, "{name}");
        for outcome in [whole, outcome] {
            let found: std::collections::BTreeSet<_> = outcome.oddities.iter().map(Oddity::name).collect();
            // The encoder of the GIFs gives them an alpha channel.
            let found: Vec<_> = found.into_iter().filter(|word| !name.contains("gif") || *word != "alpha").collect();
            let mut words: Vec<_> = expected(name).into_iter().map(Oddity::name).collect();
            words.sort_unstable();
            assert_eq!(found, words, "{name}");
        }
    }
}

/// `jpeg` with an Exif orientation.
fn turned(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let tiff = [b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", &[orientation][..], &[0; 6]].concat();
    let body = [b"Exif\0\0", tiff.as_slice()].concat();
    [&jpeg[..2], &[0xFF, 0xE1], &(body.len() as u16 + 2).to_be_bytes(), &body, &jpeg[2..]].concat()
}

#[test]
fn a_turned_image_is_cut_as_if_it_had_been_stored_so() {
    let photo = crate::samples::photo("animals/cat.jpg");
    for orientation in 1..=8 {
        let bytes = turned(&photo, orientation);
        let mut worker = Worker::new(Limits::default());
        let (rgb, outcome) = worker.decode(&bytes, true).unwrap();
        assert_eq!(outcome.oddities.has(Oddity::Turned), orientation != 1);
        let head = shardpack_format::npy::head("|u1", &[rgb.height.into(), rgb.width.into(), 3], false);
        let upright = [head, rgb.pixels.to_vec()].concat();
        for cut in [
            Cut::random_resized(Size::square(64)),
            Cut::Center { resize: Resize::Short(72), size: Size { height: 60, width: 80 } },
            Cut::Whole { size: Size { height: 50, width: 30 } },
        ] {
            for key in 0..4 {
                let options = Options { reduce: false, flip: 0.5, ..Options::new(cut) };
                let (expected, _) = run(options, &upright, key).unwrap();
                let (found, _) = run(Options { upright: true, ..options }, &bytes, key).unwrap();
                assert!(found == expected, "{orientation} {cut:?} {key}");
                // By default, orientations are ignored.
                let (found, outcome) = run(options, &bytes, key).unwrap();
                assert!(found == run(options, &photo, key).unwrap().0, "{orientation} {cut:?} {key}");
                assert_eq!(outcome.oddities.has(Oddity::Turned), orientation != 1);
                // Reduced or not, turned or not: the same place.
                let reduced = Options { upright: true, reduce: true, ..options };
                let small = Options { cut: Cut::random_resized(Size::square(20)), ..reduced };
                let (one, _) = run(small, &bytes, key).unwrap();
                let (other, _) = run(Options { reduce: false, ..small }, &bytes, key).unwrap();
                let (_, mean) = differences(&one, &other);
                assert!(mean < 3.0, "{orientation} {key}: {mean}");
            }
        }
    }
}

#[test]
fn tables_change_no_pixel_and_workers_have_no_memory_of_what_was() {
    let mut worker = Worker::new(Limits::default());
    let cuts = [
        Cut::random_resized(Size::square(224)),
        Cut::random_resized(Size { height: 30, width: 40 }),
        Cut::Center { resize: Resize::Short(256), size: Size::square(224) },
        Cut::Center { resize: Resize::Not, size: Size::square(300) },
    ];
    let mut by_table = 0;
    for (name, bytes) in crate::samples::photos() {
        let table = crops::scan(&bytes, NonZeroU16::new(8).unwrap()).ok();
        for (cut, reduce) in cuts.into_iter().flat_map(|cut| [(cut, false), (cut, true)]) {
            let transform = Transform::new(Options { flip: 0.5, reduce, ..Options::new(cut) }).unwrap();
            for key in 0..3 {
                let mut slots = [vec![0; transform.slot_bytes()], vec![255; transform.slot_bytes()]];
                let outcome = worker.run(&transform, &bytes, table.as_deref(), key, &mut slots[0]).unwrap();
                by_table += u32::from(outcome.way == crops::Way::Table);
                Worker::new(Limits::default()).run(&transform, &bytes, None, key, &mut slots[1]).unwrap();
                assert!(slots[0] == slots[1], "{name} {cut:?} {key}: {outcome:?}");
            }
        }
    }
    assert!(by_table > 300, "{by_table}");
}

#[test]
fn a_box_has_the_pixels_of_the_whole_and_nothing_beside_it() {
    for (name, _, bytes) in crate::samples::all() {
        let mut worker = Worker::new(SMALL);
        let (width, whole) = worker.decode(&bytes, false).map(|(rgb, _)| (rgb.width, rgb.pixels.to_vec())).unwrap();
        let rect = Rect { left: 3, top: 2, width: 7, height: 5 };
        let at = |rect, size| Options { axes: Axes::Hwc, ..Options::new(Cut::Box { rect, size }) };
        let (slot, _) = run(at(rect, Size { height: 5, width: 7 }), &bytes, 0).unwrap();
        let rows = (2..7).flat_map(|y| &whole[(y * width + 3) as usize * 3..][..7 * 3]).copied();
        assert!(slot.iter().copied().eq(rows), "{name}");
        for wrong in [Rect { left: u32::MAX, ..rect }, Rect { width: width - 2, ..rect }, Rect { height: 9999, ..rect }]
        {
            let refused = run(at(wrong, Size::square(4)), &bytes, 0).unwrap_err();
            assert!(matches!(refused, Refused::OutsideImage { .. }), "{name}: {refused}");
        }
        let empty = Transform::new(at(Rect { height: 0, ..rect }, Size::square(4)));
        assert_eq!(empty.unwrap_err().to_string(), "box: it is empty");
    }
}

#[test]
fn a_flip_exchanges_left_and_right_and_nothing_else() {
    let bytes = crate::samples::photo("people/astronaut.jpg");
    for (axes, dtype) in [(Axes::Hwc, Dtype::Uint8), (Axes::Chw, Dtype::Float32)] {
        let options = Options { axes, dtype, ..Options::new(Cut::random_resized(Size { height: 20, width: 31 })) };
        let (plain, _) = run(options, &bytes, 5).unwrap();
        let (flipped, _) = run(Options { flip: 1.0, ..options }, &bytes, 5).unwrap();
        let item = if axes == Axes::Hwc { 3 } else { dtype.bytes() };
        let row = 31 * item;
        let turned: Vec<u8> =
            plain.chunks(row).flat_map(|row| row.chunks(item).rev().flatten().copied().collect::<Vec<_>>()).collect();
        assert!(flipped == turned && flipped != plain);
    }
}

#[test]
fn reduced_photographs_are_nearly_those_of_the_whole_size() {
    let (mut most, mut sum, mut count) = (0, 0.0, 0);
    for (_, bytes) in crate::samples::photos() {
        for (key, filter) in [(0, Filter::Bilinear), (1, Filter::Bilinear), (2, Filter::Bicubic)] {
            let options = Options { filter, ..Options::new(Cut::random_resized(Size::square(48))) };
            let (one, outcome) = run(options, &bytes, key).unwrap();
            let (other, _) = run(Options { reduce: false, ..options }, &bytes, key).unwrap();
            let (greatest, mean) = differences(&one, &other);
            if outcome.reduced_by == 1 {
                assert_eq!(greatest, 0);
                continue;
            }
            (most, sum, count) = (most.max(greatest), sum + mean, count + 1);
        }
    }
    println!("up to {most}, {:.2} on average, {count} times", sum / f64::from(count.max(1)));
    assert!(count > 0 && sum / f64::from(count) < 2.0 && most < 80, "{most}, {sum}, {count}");
}

#[test]
fn what_is_too_large_or_no_image_is_refused() {
    let transform = Transform::new(as_it_is(8, 8)).unwrap();
    let mut slot = vec![0; transform.slot_bytes()];
    let tiny = Limits { pixels: 100, bytes: 1 << 20 };
    for (name, _, bytes) in crate::samples::all() {
        let refused = Worker::new(tiny).run(&transform, &bytes, None, 0, &mut slot);
        assert_eq!(refused, Err(Refused::TooLarge { width: 20, height: 14 }), "{name}");
        assert!(Worker::new(tiny).decode(&bytes, false).is_err(), "{name}");
    }
    for bytes in [&b""[..], b"\xFF\xD8\xFF", b"RIFF", b"\xFF\xD8\xFF\xD9", b"no image at all"] {
        assert!(Worker::new(SMALL).run(&transform, bytes, None, 0, &mut slot).is_err());
    }
}

fn harmless(bytes: &[u8], table: Option<&[u8]>, key: u64) {
    let mut worker = Worker::new(SMALL);
    for cut in [
        Cut::Whole { size: Size { height: 5, width: 3 } },
        Cut::Center { resize: Resize::Short(9), size: Size::square(16) },
        Cut::Center { resize: Resize::Not, size: Size::square(8) },
        Cut::random_resized(Size::square(4)),
    ] {
        for upright in [false, true] {
            let options =
                Options { upright, dtype: Dtype::Float16, normalise: Some(Normalise::IMAGENET), ..Options::new(cut) };
            let transform = Transform::new(options).unwrap();
            let mut slot = vec![0; transform.slot_bytes()];
            let first = worker.run(&transform, bytes, table, key, &mut slot);
            if first.is_ok() {
                // A used worker makes the same slot as a new worker.
                let mut again = vec![1; slot.len()];
                assert_eq!(Worker::new(SMALL).run(&transform, bytes, table, key, &mut again), first);
                assert!(again == slot);
            }
            let _ = worker.decode(bytes, upright);
        }
    }
    // The worker still decodes the next image.
    let photo = crate::samples::photo("animals/cat-ear.jpg");
    assert!(worker.decode(&photo, false).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn changed_and_cut_images_do_no_harm(
        sample in prop::sample::select(crate::samples::all()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        orientation in 0..10_u8,
        key: u64,
    ) {
        let table = crops::scan(&sample.2, NonZeroU16::new(1).unwrap()).ok();
        let mut bytes = sample.2;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        harmless(&bytes, table.as_deref(), key);
        harmless(&bytes[..cut.index(bytes.len())], table.as_deref(), key);
        if bytes.len() > 2 {
            harmless(&turned(&bytes, orientation), table.as_deref(), key);
        }
    }
}
