//! Compares each adjustment with a slow one that follows the definition, and the CPU's ways with each other.

#[cfg(target_arch = "x86_64")]
use super::wide::{MOST, Width};
use super::{Adjustment as A, *};

/// Sizes around those of blocks and vectors.
const SIZES: [(u32, u32); 5] = [(1, 1), (3, 3), (7, 33), (32, 16), (41, 50)];

const ALL: [A; 33] = [
    A::Brightness(0.0),
    A::Brightness(0.7),
    A::Brightness(1.0),
    A::Brightness(3.3),
    A::Contrast(0.0),
    A::Contrast(0.6),
    A::Contrast(1.9),
    A::Saturation(0.0),
    A::Saturation(0.5),
    A::Saturation(1.7),
    A::Hue(-0.5),
    A::Hue(-0.07),
    A::Hue(0.2),
    A::Hue(0.5),
    A::Grayscale,
    A::GaussianBlur { kernel: (1, 1), sigma: 1.0 },
    A::Sharpness(0.0),
    A::Sharpness(1.9),
    A::Solarize(0.0),
    A::Solarize(100.5),
    A::Solarize(255.0),
    A::Posterize(0),
    A::Posterize(3),
    A::Posterize(8),
    A::Invert,
    A::Autocontrast,
    A::Equalize,
    A::ShearX(0.37),
    A::ShearY(-0.91),
    A::TranslateX(-5),
    A::TranslateY(2),
    A::Rotate(29.0),
    A::Rotate(-130.0),
];

fn noise(size: Size, seed: u64) -> Vec<u8> {
    let mix = shardpack_format::permutation::mix;
    // A narrow range, so that autocontrast and equalize have something to do.
    (0..u64::from(size.width * size.height * 4)).map(|at| 40 + (mix(at + seed * 7919) % 150) as u8).collect()
}

fn adjusted(adjustment: A, size: Size, pixels: &[u8]) -> Vec<u8> {
    assert_eq!(adjustment.check(size), Ok(()));
    let mut pixels = pixels.to_vec();
    let operations = [Operation::Random(adjustment, 1.0)];
    assert_eq!(Augmenter::default().run(&operations, size, 9, &mut pixels), [adjustment]);
    pixels
}

/// The red, green and blue of the definition, rounded down.
fn slowly(adjustment: A, size: Size, pixels: &[u8]) -> Vec<[f64; 3]> {
    let (width, height) = (i64::from(size.width), i64::from(size.height));
    let colours: Vec<[f64; 3]> = pixels.chunks(4).map(|one| [one[0], one[1], one[2]].map(f64::from)).collect();
    let at = |x: i64, y: i64| colours[(y * width + x) as usize];
    let places = || (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    let each = |change: &dyn Fn([f64; 3]) -> [f64; 3]| colours.iter().map(|&one| change(one)).collect::<Vec<_>>();
    let level = |number: f64| number.clamp(0.0, 255.0).floor();
    let grey = |one: [f64; 3]| (one[0] * 0.2989 + one[1] * 0.587 + one[2] * 0.114 + 1e-9).floor();
    let channel = |number: usize| colours.iter().map(move |one| one[number]);
    // From the middle of the image.
    let moved = |source: &dyn Fn(f64, f64) -> (f64, f64)| {
        let middle = ((width - 1) as f64 / 2.0, (height - 1) as f64 / 2.0);
        let from = |(x, y): (i64, i64)| {
            let (x, y) = source(x as f64 - middle.0, y as f64 - middle.1);
            let (x, y) = ((x + middle.0).round_ties_even() as i64, (y + middle.1).round_ties_even() as i64);
            if (0..width).contains(&x) && (0..height).contains(&y) { at(x, y) } else { [0.0; 3] }
        };
        places().map(from).collect::<Vec<_>>()
    };
    match adjustment {
        A::Brightness(factor) => each(&|one| one.map(|number| level(number * factor + 1e-6))),
        A::Contrast(factor) => {
            let mean = colours.iter().map(|&one| grey(one)).sum::<f64>() / colours.len() as f64;
            each(&|one| one.map(|number| level(number * factor + mean * (1.0 - factor) + 1e-6)))
        }
        A::Saturation(factor) => {
            each(&|one| one.map(|number| level(number * factor + grey(one) * (1.0 - factor) + 1e-6)))
        }
        A::Hue(turn) => each(&|one| hue(one, turn)),
        A::Grayscale => each(&|one| [grey(one); 3]),
        A::Solarize(threshold) => {
            each(&|one| one.map(|number| if number as f32 >= threshold as f32 { 255.0 - number } else { number }))
        }
        A::Posterize(bits) => {
            let step = 2_f64.powi(8 - i32::from(bits));
            each(&|one| one.map(|number| (number / step).floor() * step))
        }
        A::Invert => each(&|one| one.map(|number| 255.0 - number)),
        A::Autocontrast => {
            let least = [0, 1, 2].map(|number| channel(number).fold(255.0, f64::min));
            let most = [0, 1, 2].map(|number| channel(number).fold(0.0, f64::max));
            let stretched = |number: f64, least: f64, most: f64| match least == most {
                true => number,
                // In single precision, as torchvision: many quotients are whole numbers.
                false => level(f64::from((number - least) as f32 / ((most - least) as f32 * (1.0 / 255.0)))),
            };
            each(&|one| [0, 1, 2].map(|number| stretched(one[number], least[number], most[number])))
        }
        A::Equalize => {
            let equal = |number: usize, level: f64| {
                let most = channel(number).fold(0.0, f64::max);
                let others = channel(number).filter(|&other| other < most).count();
                let below = channel(number).filter(|&other| other < level).count();
                let step = others / 255;
                (below + step / 2).checked_div(step).map_or(level, |found| found.min(255) as f64)
            };
            each(&|one| [0, 1, 2].map(|number| equal(number, one[number])))
        }
        A::Sharpness(factor) => {
            let is_inner = |x, y| x > 0 && y > 0 && x < width - 1 && y < height - 1;
            let one = |(x, y): (i64, i64)| match is_inner(x, y) {
                false => at(x, y),
                true => [0, 1, 2].map(|number| {
                    let near = (-1..=1).flat_map(|down| (-1..=1).map(move |right| (right, down)));
                    let sum: f64 = near.map(|(right, down)| at(x + right, y + down)[number]).sum();
                    let number = at(x, y)[number];
                    level(number * factor + ((sum + 4.0 * number) / 13.0).round() * (1.0 - factor) + 1e-6)
                }),
            };
            places().map(one).collect()
        }
        A::GaussianBlur { kernel, sigma } => {
            let reach = (i64::from(kernel.0 / 2), i64::from(kernel.1 / 2));
            let reflected = |at: i64, side: i64| if at < 0 { -at } else { side - 1 - (side - 1 - at).abs() };
            let weight =
                |right: i64, down: i64| (-((right * right + down * down) as f64) / (2.0 * sigma * sigma)).exp();
            let near = || (-reach.1..=reach.1).flat_map(|down| (-reach.0..=reach.0).map(move |right| (right, down)));
            let all: f64 = near().map(|(right, down)| weight(right, down)).sum();
            let one = |(x, y): (i64, i64)| {
                [0, 1, 2].map(|number| {
                    let part = |(right, down): (i64, i64)| {
                        weight(right, down) * at(reflected(x + right, width), reflected(y + down, height))[number]
                    };
                    (near().map(part).sum::<f64>() / all).round_ties_even()
                })
            };
            places().map(one).collect()
        }
        A::ShearX(slope) => moved(&|x, y| (x + slope * (y + height as f64 / 2.0), y)),
        A::ShearY(slope) => moved(&|x, y| (x, y + slope * (x + width as f64 / 2.0))),
        A::TranslateX(by) => moved(&|x, y| (x - f64::from(by), y)),
        A::TranslateY(by) => moved(&|x, y| (x, y - f64::from(by))),
        A::Rotate(degrees) => {
            let (sin, cos) = (-degrees).to_radians().sin_cos();
            moved(&|x, y| (x * cos + y * sin, y * cos - x * sin))
        }
    }
}

/// By way of HSV.
fn hue([red, green, blue]: [f64; 3], turn: f64) -> [f64; 3] {
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    let range = (most - least).max(1e-9);
    let sixths = match () {
        () if most == red => (green - blue) / range,
        () if most == green => 2.0 + (blue - red) / range,
        () => 4.0 + (red - green) / range,
    };
    let sixths = (sixths + 6.0 * turn).rem_euclid(6.0);
    let between = |from: f64| {
        let place = (from + sixths).rem_euclid(6.0);
        most - (most - least) * place.min(4.0 - place).clamp(0.0, 1.0)
    };
    [5.0, 3.0, 1.0].map(|from| (between(from) * 255.999 / 255.0 + 1e-6).floor())
}

#[test]
fn every_adjustment_is_that_of_its_definition() {
    let blurs = [((3, 3), 0.1), ((3, 5), 0.8), ((5, 1), 2.0), ((23, 23), 1.5), ((1, 9), 30.0)];
    let blurs = blurs.map(|(kernel, sigma)| A::GaussianBlur { kernel, sigma });
    for (number, adjustment) in ALL.into_iter().chain(blurs).enumerate() {
        for (height, width) in SIZES {
            let size = Size { height, width };
            // The definition of `equalize` takes time.
            if adjustment.check(size).is_err() || (adjustment == A::Equalize && width > 40) {
                continue;
            }
            let pixels = noise(size, number as u64);
            let found = adjusted(adjustment, size, &pixels);
            let expected = slowly(adjustment, size, &pixels);
            let far = found.chunks(4).zip(&expected).map(|(found, expected)| {
                [0, 1, 2].map(|channel| (f64::from(found[channel]) - expected[channel]).abs())
            });
            let far: Vec<f64> = far.flatten().collect();
            let differing = far.iter().filter(|&&far| far > 0.0).count();
            assert!(far.iter().all(|&far| far <= 1.0), "{adjustment:?} {size:?}: {far:?}");
            assert!(differing <= far.len() / 200, "{adjustment:?} {size:?}: {differing} of {}", far.len());
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn pixels_do_not_depend_on_the_cpu() {
    let blurs = [((3, 3), 0.4), ((13, 5), 2.0)].map(|(kernel, sigma)| A::GaussianBlur { kernel, sigma });
    let size = Size { height: 37, width: 53 };
    for adjustment in ALL.into_iter().chain(blurs) {
        let pixels = noise(size, 3);
        let levels = |pixels: Vec<u8>| pixels.chunks(4).flat_map(|one| [one[0], one[1], one[2]]).collect::<Vec<_>>();
        let wide = levels(adjusted(adjustment, size, &pixels));
        for most in [Width::Usual, Width::Avx2] {
            MOST.set(most);
            assert!(wide == levels(adjusted(adjustment, size, &pixels)), "{adjustment:?} {most:?}");
        }
        MOST.set(Width::Avx512);
    }
}

fn drawn(operations: &[Operation], key: u64) -> Vec<A> {
    let mut into = Vec::new();
    draw(operations, 0, Size::square(224), Draws(key), &mut into);
    into
}

#[test]
fn policies_draw_each_kind_and_the_magnitudes_of_torchvision() {
    let rand = [Operation::RandAugment { num_ops: 2, magnitude: 9, num_magnitude_bins: 31 }];
    let trivial = [Operation::TrivialAugmentWide { num_magnitude_bins: 31 }];
    let count = |operations: &[Operation], wanted: fn(&A) -> bool| {
        (0..7000).flat_map(|key| drawn(operations, key)).filter(wanted).count()
    };
    for (operations, each) in [(&rand, 1000), (&trivial, 500)] {
        let around = |count: usize| count.abs_diff(each) < each / 5;
        assert!(around(count(operations, |one| matches!(one, A::Equalize))));
        assert!(around(count(operations, |one| matches!(one, A::Rotate(_)))));
        assert!(around(2 * count(operations, |one| matches!(one, A::ShearX(slope) if *slope < 0.0))));
        // One of 14 is the identity.
        assert!(around(count(operations, |_| true) / 13));
    }
    let all: Vec<A> = (0..500).flat_map(|key| drawn(&rand, key)).collect();
    // `torch.linspace(0.0, 30.0, 31)[9]`, and so on.
    let single = |number: f32| f64::from(number);
    for expected in [
        A::Rotate(9.0),
        A::Rotate(-9.0),
        A::ShearY(single(0.09)),
        A::TranslateX(-30),
        A::Posterize(7),
        A::Solarize(255.0 * single(0.7)),
        A::Brightness(1.0 + single(0.269_999_98)),
    ] {
        assert!(all.contains(&expected), "{expected:?} of {all:?}");
    }
    assert_eq!(count(&[Operation::RandAugment { num_ops: 0, magnitude: 0, num_magnitude_bins: 2 }], |_| true), 0);
}

#[test]
fn a_probability_decides_about_all_steps_and_later_draws_stay() {
    let jitter = |hue| Operation::ColorJitter {
        brightness: Some((0.5, 1.5)),
        contrast: None,
        saturation: Some((0.0, 2.0)),
        hue,
    };
    let blur = || Operation::GaussianBlur { kernel: (3, 3), sigma: (0.1, 2.0) };
    let steps = |p, hue| [Operation::RandomApply(vec![jitter(hue), Operation::Random(A::Invert, 1.0)], p), blur()];
    let applied = (0..1000).filter(|&key| drawn(&steps(0.3, None), key).len() > 1).count();
    assert!((250..350).contains(&applied), "{applied}");
    for key in 0..50 {
        let (all, none) = (drawn(&steps(1.0, Some((-0.1, 0.1))), key), drawn(&steps(0.0, None), key));
        assert_eq!((all.len(), none.len()), (5, 1));
        assert_eq!(all.last(), none.last());
        let without: Vec<A> = all.into_iter().filter(|one| !matches!(one, A::Hue(_))).collect();
        assert_eq!(without, drawn(&steps(1.0, None), key));
    }
    let first = |wanted: fn(&A) -> bool| (0..3000).filter(|&key| wanted(&drawn(&steps(1.0, None), key)[0])).count();
    assert!((1350..1650).contains(&first(|one| matches!(one, A::Saturation(_)))));
}

#[test]
fn parameters_out_of_range_are_named() {
    let size = Size { height: 10, width: 20 };
    let random = |adjustment| Operation::Random(adjustment, 0.5);
    let blur = |kernel, sigma| Operation::GaussianBlur { kernel, sigma };
    let rand =
        |num_ops, magnitude, num_magnitude_bins| Operation::RandAugment { num_ops, magnitude, num_magnitude_bins };
    let jitter = |brightness, hue| Operation::ColorJitter { brightness, contrast: None, saturation: None, hue };
    for (operation, expected) in [
        (random(A::Posterize(9)), "posterize: bits: 9 to 9 is no range of 0 to 8"),
        (random(A::Solarize(255.5)), "solarize: 255.5"),
        (random(A::Sharpness(-1.0)), "Sharpness(-1.0)"),
        (random(A::Rotate(f64::NAN)), "rotate: NaN"),
        (Operation::Random(A::Invert, 1.5), "1.5 is no probability"),
        (Operation::RandomApply(vec![random(A::Hue(0.6))], 0.5), "hue: 0.6"),
        (Operation::RandomApply(vec![], -0.5), "random apply: -0.5"),
        (blur((4, 3), (1.0, 2.0)), "a kernel of 4 × 3"),
        (blur((3, 21), (1.0, 2.0)), "a kernel of 3 × 21"),
        (blur((3, 3), (0.0, 2.0)), "gaussian blur: sigma: 0 to 2"),
        (rand(2, 31, 31), "magnitude 31 is not below 31"),
        (rand(101, 9, 31), "101 adjustments"),
        (rand(1, 0, 1), "1 bins"),
        (Operation::TrivialAugmentWide { num_magnitude_bins: 2000 }, "2000 bins"),
        (jitter(Some((-0.1, 1.0)), None), "brightness: -0.1 to 1"),
        (jitter(None, Some((0.2, 0.1))), "hue: 0.2 to 0.1"),
    ] {
        let said = operation.check(size).unwrap_err();
        assert!(said.contains(expected), "{operation:?}: {said}");
    }
    for operation in [blur((39, 19), (0.01, 1000.0)), jitter(None, None), rand(0, 0, 2), random(A::Posterize(0))] {
        assert_eq!(operation.check(size), Ok(()));
    }
}
