//! Random crops with padding, vertical flips, operations and erasing in slots, from arrays as images.

use shardpack_format::npy;
use shardpack_imaging::{
    Limits, Refused,
    training::{
        Adjustment, Axes, Cut, Dtype, Erasing, Normalise, Operation, Options, Padding, Resize, Size, Transform, Worker,
    },
};

const WIDTH: usize = 9;
const HEIGHT: usize = 7;

/// An image of levels 1 to 189, each once.
fn image() -> Vec<u8> {
    let levels = (1..=(WIDTH * HEIGHT * 3) as u8).collect();
    [npy::head("|u1", &[HEIGHT as u64, WIDTH as u64, 3], false), levels].concat()
}

fn run(transform: &Transform, key: u64) -> Result<Vec<u8>, Refused> {
    let mut slot = vec![0xAA; transform.slot_bytes()];
    Worker::new(Limits::default()).run(transform, &image(), None, key, &mut slot).map(|_| slot)
}

fn random_crop(size: Size, padding: Padding, pad_if_needed: bool) -> Options {
    let cut = Cut::Random { resize: Resize::Not, size, padding, pad_if_needed };
    Options { axes: Axes::Hwc, ..Options::new(cut) }
}

/// A pixel of the image, or black.
fn pixel(x: i64, y: i64) -> [u8; 3] {
    let (x, y) = (usize::try_from(x).unwrap_or(WIDTH), usize::try_from(y).unwrap_or(HEIGHT));
    let first = (y * WIDTH + x) * 3 + 1;
    if x < WIDTH && y < HEIGHT { [first as u8, first as u8 + 1, first as u8 + 2] } else { [0; 3] }
}

#[test]
fn random_crops_are_parts_of_the_padded_image_and_reach_all_places() {
    let padding = Padding { left: 2, top: 1, right: 4, bottom: 3 };
    let size = Size { height: 5, width: 6 };
    let mut places = std::collections::BTreeSet::new();
    for key in 0..5000 {
        let options = Options { flip: 0.5, flip_vertical: 0.5, ..random_crop(size, padding, false) };
        let transform = Transform::new(options).unwrap();
        let (slot, geometry) = (run(&transform, key).unwrap(), transform.plan(WIDTH as u32, HEIGHT as u32, key));
        let (window, placed) = (geometry.window, geometry.placed);
        let left = i64::from(window.left) - i64::from(placed.left);
        let top = i64::from(window.top) - i64::from(placed.top);
        let expected = (0..5).flat_map(|y| (0..6).map(move |x| (x, y))).flat_map(|(x, y)| {
            let (x, y) = (if geometry.flip { 5 - x } else { x }, if geometry.flip_vertical { 4 - y } else { y });
            pixel(left + x, top + y)
        });
        assert!(slot.iter().copied().eq(expected), "{key}: {geometry:?}");
        places.insert((left, top, geometry.flip, geometry.flip_vertical));
    }
    // 9 + 2 + 4 - 6 + 1 places across, 7 + 1 + 3 - 5 + 1 down, and 4 ways to flip.
    assert_eq!(places.len(), 10 * 7 * 4);
    assert_eq!(places.iter().map(|place| (place.0, place.1)).min(), Some((-2, -1)));
}

#[test]
fn images_smaller_than_a_random_crop_are_refused_or_padded() {
    let size = Size { height: 8, width: 12 };
    let one = Padding { left: 1, top: 1, right: 1, bottom: 1 };
    let refused = run(&Transform::new(random_crop(size, one, false)).unwrap(), 0).unwrap_err();
    assert_eq!(refused, Refused::SmallerThanCrop { width: 11, height: 9 });
    assert!(refused.to_string().contains("11 × 9 pixels, padding included"), "{refused}");
    let transform = Transform::new(random_crop(size, one, true)).unwrap();
    let lefts: std::collections::BTreeSet<u32> =
        (0..200).map(|key| transform.plan(WIDTH as u32, HEIGHT as u32, key).placed.left).collect();
    // What is missing is added on both sides.
    assert_eq!(lefts, [1, 2].into());
    assert!((0..200).all(|key| run(&transform, key).is_ok()));
}

#[test]
fn operations_see_the_whole_slot_after_the_flips() {
    let cut = Cut::Center { resize: Resize::Not, size: Size { height: 11, width: 12 } };
    let plain = Options { flip: 1.0, flip_vertical: 1.0, axes: Axes::Hwc, ..Options::new(cut) };
    let invert = vec![Operation::Random(Adjustment::Invert, 1.0)];
    let transform = Transform::new(plain).unwrap();
    let inverted = transform.clone().augmented(invert, None).unwrap();
    let expected: Vec<u8> = run(&transform, 1).unwrap().iter().map(|level| !level).collect();
    assert!(run(&inverted, 1).unwrap() == expected);
    // The upper edge stays where it is in the slot, not in the image: the middle of the first row moves by half of 2.
    let shear = vec![Operation::Random(Adjustment::ShearX(2.0), 1.0)];
    let sheared = transform.clone().augmented(shear, None).unwrap();
    let (before, after) = (run(&transform, 1).unwrap(), run(&sheared, 1).unwrap());
    for (y, (before, after)) in before.chunks(36).zip(after.chunks(36)).enumerate() {
        let moved = (3 * (2 * y + 1)).min(36);
        assert_eq!(after[..36 - moved], before[moved..], "{y}");
        assert!(after[36 - moved..].iter().all(|&level| level == 0), "{y}");
    }
}

#[test]
fn geometry_is_left_out_if_operations_move_pixels() {
    let transform = Transform::new(Options::new(Cut::Whole { size: Size::square(8) })).unwrap();
    let rand = Operation::RandAugment { num_ops: 1, magnitude: 3, num_magnitude_bins: 31 };
    let gray = Operation::Random(Adjustment::Grayscale, 0.5);
    for (operation, has) in [(gray.clone(), true), (Operation::RandomApply(vec![gray, rand], 0.1), false)] {
        let transform = transform.clone().augmented(vec![operation], None).unwrap();
        let mut slot = vec![0; transform.slot_bytes()];
        let outcome = Worker::new(Limits::default()).run(&transform, &image(), None, 0, &mut slot).unwrap();
        assert_eq!(outcome.geometry.is_some(), has);
    }
}

#[test]
fn erased_boxes_have_the_shares_and_aspects_that_were_asked_for() {
    let size = Size { height: 40, width: 60 };
    let erasing = Erasing { p: 0.7, scale: (0.1, 0.2), ratio: (0.5, 2.0), value: Some([201.0, 202.0, 203.0]) };
    let mut erased = 0;
    for (number, dtype) in [Dtype::Uint8, Dtype::Float32, Dtype::Float16, Dtype::Bfloat16].into_iter().enumerate() {
        for (axes, key) in [Axes::Hwc, Axes::Chw].into_iter().flat_map(|axes| (0..60).map(move |key| (axes, key))) {
            let normalise = (dtype == Dtype::Float32).then_some(Normalise::IMAGENET);
            let options = Options { axes, dtype, normalise, ..Options::new(Cut::Whole { size }) };
            let transform = Transform::new(options).unwrap();
            let (before, after) = (run(&transform, key).unwrap(), {
                run(&transform.clone().augmented(vec![], Some(erasing)).unwrap(), key).unwrap()
            });
            // Larger than the levels of the image.
            let values: [[u8; 4]; 3] = [201.0_f32, 202.0, 203.0].map(|value| match dtype {
                Dtype::Uint8 => [value as u8, 0, 0, 0],
                Dtype::Float32 => value.to_ne_bytes(),
                Dtype::Bfloat16 => [value.to_be_bytes()[1], value.to_be_bytes()[0], 0, 0],
                // 201 in binary16 is 0x5A48, and 8 more for each number.
                Dtype::Float16 => [0x48 + 8 * (value as u8 - 201), 0x5A, 0, 0],
            });
            let bytes = dtype.bytes();
            let number_at = |slot: &[u8], x: usize, y: usize, channel: usize| {
                let at = if axes == Axes::Hwc { (y * 60 + x) * 3 + channel } else { (channel * 40 + y) * 60 + x };
                slot[at * bytes..][..bytes].to_vec()
            };
            let is_erased = |x, y| (0..3).all(|channel| number_at(&after, x, y, channel) == values[channel][..bytes]);
            let places: Vec<_> = (0..40).flat_map(|y| (0..60).map(move |x| (x, y))).collect();
            let inside: Vec<_> = places.iter().filter(|&&(x, y)| is_erased(x, y)).collect();
            let stays =
                |x, y| (0..3).all(|channel| number_at(&after, x, y, channel) == number_at(&before, x, y, channel));
            assert!(places.iter().all(|&(x, y)| is_erased(x, y) || stays(x, y)), "{dtype:?} {axes:?} {key}");
            let Some(&&(left, top)) = inside.first() else { continue };
            let &&(right, bottom) = inside.last().unwrap();
            let (width, height) = (right - left + 1, bottom - top + 1);
            assert_eq!(inside.len(), width * height);
            let (share, aspect) = (inside.len() as f64 / 2400.0, height as f64 / width as f64);
            assert!((0.09..0.22).contains(&share) && (0.45..2.2).contains(&aspect), "{share} {aspect}");
            erased += usize::from(number == 0);
        }
    }
    assert!((65..105).contains(&erased), "{erased} of 120");
}

#[test]
fn erasing_outside_its_ranges_is_refused() {
    let good = Erasing::DEFAULT;
    let with = |dtype, erasing| {
        let options = Options { dtype, ..Options::new(Cut::Whole { size: Size::square(8) }) };
        let augmented = Transform::new(options).unwrap().augmented(vec![], Some(erasing));
        augmented.map_or_else(|unusable| unusable.to_string(), |_| String::new())
    };
    for (dtype, erasing, expected) in [
        (Dtype::Uint8, good, ""),
        (Dtype::Float32, Erasing { value: Some([-2.5, 0.0, 0.0]), ..good }, ""),
        (Dtype::Uint8, Erasing { value: Some([0.0, 0.5, 0.0]), ..good }, "the value 0.5"),
        (Dtype::Uint8, Erasing { value: Some([256.0, 0.0, 0.0]), ..good }, "the value 256"),
        (Dtype::Float16, Erasing { value: Some([f32::NAN, 0.0, 0.0]), ..good }, "the value NaN"),
        (Dtype::Float32, Erasing { value: None, ..good }, ""),
        (Dtype::Uint8, Erasing { value: None, ..good }, "random numbers need floats"),
        (Dtype::Uint8, Erasing { p: 2.0, ..good }, "2 is no probability"),
        (Dtype::Uint8, Erasing { scale: (0.5, 0.1), ..good }, "scale: 0.5 to 0.1"),
        (Dtype::Uint8, Erasing { ratio: (0.0, 1.0), ..good }, "ratio: 0 to 1"),
    ] {
        let said = with(dtype, erasing);
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
    }
}
