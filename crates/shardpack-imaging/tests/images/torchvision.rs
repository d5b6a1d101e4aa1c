//! Compares boxes, pixels and numbers with torchvision's.
//!
//! Needs Python with torchvision (`SHARDPACK_PYTHON_STREAMING`); without Python, it prints a note and passes.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_format::{npy, permutation::mix};
use shardpack_imaging::{
    Limits,
    training::{Axes, Cut, Dtype, Filter, Normalise, Options, Resize, Size, Transform, Worker},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

type Ranges = ((f64, f64), (f64, f64));

const DEFAULT: Ranges = ((0.08, 1.0), (3.0 / 4.0, 4.0 / 3.0));

fn boxed((scale, ratio): Ranges, (width, height): (u32, u32), key: u64) -> [u32; 4] {
    let cut = Cut::RandomResized { size: Size::square(224), scale, ratio };
    let window = Transform::new(Options::new(cut)).unwrap().plan(width, height, key).window;
    [window.left, window.top, window.width, window.height]
}

/// Sizes, ranges and keys whose boxes torchvision finds with the same random numbers.
fn same_numbers() -> Vec<((u32, u32), Ranges, u64)> {
    let sizes = [(500, 375), (375, 500), (224, 224), (1, 1), (1, 1000), (1000, 1), (30, 2000), (7, 5), (4032, 3024)];
    let ranges = [DEFAULT, ((0.3, 0.3), (1.0, 1.0)), ((0.9, 1.0), (0.5, 0.6)), ((0.001, 0.01), (0.2, 5.0))];
    let mut rows = Vec::new();
    for (size, range) in sizes.iter().flat_map(|size| ranges.map(|range| (*size, range))) {
        let key = |number: u64| mix(number + 1000 * rows.len() as u64);
        let keys: Vec<u64> = (0..400).map(key).collect();
        rows.extend(keys.into_iter().map(|key| (size, range, key)));
    }
    rows
}

/// Sizes, and how many boxes of each are compared as distributions.
const MANY: [((u32, u32), usize); 6] = [
    ((500, 375), 100_000),
    ((333, 500), 20_000),
    ((1, 1), 100),
    ((1, 1000), 20_000),
    ((700, 400), 20_000),
    ((10, 9), 20_000),
];

/// Greatest distance of two empirical distributions; 1 is the distance that chance exceeds in one case of 10,000.
fn kolmogorov_smirnov(mut one: Vec<f64>, mut other: Vec<f64>) -> f64 {
    one.sort_by(f64::total_cmp);
    other.sort_by(f64::total_cmp);
    let below = |sorted: &[f64], value: f64| sorted.partition_point(|x| *x <= value) as f64 / sorted.len() as f64;
    let distances = one.iter().chain(&other).map(|value| (below(&one, *value) - below(&other, *value)).abs());
    // Source: the two-sample test; 2.22 = sqrt(-ln(0.0001 / 2) / 2).
    distances.fold(0.0, f64::max) / (2.22 * (2.0 / one.len() as f64).sqrt())
}

/// An image, a transform and a key, with the line for Python.
struct Case {
    image: usize,
    transform: Transform,
    key: u64,
    line: String,
}

/// Real photographs, and noise of ordinary and extreme sizes.
fn images(worker: &mut Worker) -> Vec<(String, Vec<u8>)> {
    let array = |width: u32, height: u32, pixels: &[u8]| {
        [npy::head("|u1", &[height.into(), width.into(), 3], false), pixels.to_vec()].concat()
    };
    let mut images = Vec::new();
    for name in ["animals/cat.jpg", "space/deep-field.jpg", "people/photographer.jpg", "things/cup.jpg"] {
        let bytes = fs::read(root().join("fixtures/photos").join(name)).unwrap();
        let (rgb, _) = worker.decode(&bytes, false).unwrap();
        images.push((name.replace('/', "-"), array(rgb.width, rgb.height, rgb.pixels)));
    }
    for (width, height) in [(97, 61), (256, 256), (224, 225), (1, 1), (1, 300), (300, 1), (2, 3), (640, 37)] {
        let pixels: Vec<u8> = (0..width * height * 3).map(|at| (mix(u64::from(at)) >> 56) as u8).collect();
        images.push((format!("noise-{width}x{height}"), array(width, height, &pixels)));
    }
    images
}

fn cases(images: &[(String, Vec<u8>)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (image, (name, bytes)) in images.iter().enumerate() {
        let shape = npy::read_head(bytes).unwrap().shape;
        let (height, width) = (shape[0] as u32, shape[1] as u32);
        for (filter, by) in [(Filter::Bilinear, "bilinear"), (Filter::Bicubic, "bicubic")] {
            let mut push = |cut: Cut, key: u64, words: &str| {
                let options = Options { filter, axes: Axes::Hwc, ..Options::new(cut) };
                let transform = Transform::new(options).unwrap();
                let Size { height, width } = cut.size();
                cases.push(Case { image, transform, key, line: format!("{name} {by} {height} {width} {words}") });
            };
            for size in [Size::square(224), Size { height: 32, width: 45 }] {
                push(Cut::Whole { size }, 0, "whole");
                for key in 0..4 {
                    let [left, top, across, down] = boxed(DEFAULT, (width, height), mix(key));
                    push(Cut::random_resized(size), mix(key), &format!("crop {top} {left} {down} {across}"));
                }
                let center = |resize| Cut::Center { resize, size };
                push(center(Resize::Not), 0, "center");
                for short in [256, 37, 20] {
                    // Long, narrow images become too large to be worth the time.
                    if width.max(height) / width.min(height) < 20 {
                        push(center(Resize::Short(short)), 0, &format!("center {short}"));
                    }
                }
                let exact = Size { height: 250, width: 31 };
                push(center(Resize::Exact(exact)), 0, "center 250 31");
            }
        }
    }
    cases
}

/// Differences between levels.
#[derive(Default)]
struct Differences {
    most: u8,
    sum: u64,
    above_one: u64,
    count: u64,
}

impl Differences {
    fn add(&mut self, one: &[u8], other: &[u8]) {
        assert_eq!(one.len(), other.len());
        for (one, other) in one.iter().zip(other) {
            let difference = one.abs_diff(*other);
            self.most = self.most.max(difference);
            self.sum += u64::from(difference);
            self.above_one += u64::from(difference > 1);
        }
        self.count += one.len() as u64;
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }

    fn part_above_one(&self) -> f64 {
        self.above_one as f64 / self.count as f64
    }
}

impl std::fmt::Display for Differences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let above_one = 1e6 * self.part_above_one();
        write!(f, "up to {}, {:.3} on average, {above_one:.0} of a million by more than 1", self.most, self.mean())
    }
}

#[test]
fn boxes_pixels_and_numbers_are_torchvisions() {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON_STREAMING") else {
        eprintln!("SHARDPACK_PYTHON_STREAMING is not set: nothing was compared with torchvision");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("torchvision-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut worker = Worker::new(Limits::default());
    let images = images(&mut worker);
    let (cases, rows) = (cases(&images), same_numbers());

    let (mut boxes, mut many, mut pixels) = (String::new(), String::new(), String::new());
    for ((width, height), (scale, ratio), key) in &rows {
        writeln!(boxes, "{width} {height} {} {} {} {} {key}", scale.0, scale.1, ratio.0, ratio.1).unwrap();
    }
    MANY.iter().for_each(|((width, height), count)| writeln!(many, "{width} {height} {count}").unwrap());
    cases.iter().for_each(|case| writeln!(pixels, "{}", case.line).unwrap());
    for (name, text) in [("boxes.txt", boxes), ("many.txt", many), ("pixels.txt", pixels)] {
        fs::write(folder.join(name), text).unwrap();
    }
    images.iter().for_each(|(name, bytes)| fs::write(folder.join(name), bytes).unwrap());
    let ran = Command::new(python)
        .args(["-W", "ignore"])
        .arg(root().join("tests/peers/transforms.py"))
        .arg(root().join("docs/reference/transforms.md"))
        .arg("torchvision")
        .arg(&folder)
        .status();
    assert!(ran.unwrap().success());

    let found = fs::read_to_string(folder.join("boxes.out")).unwrap();
    assert_eq!(found.lines().count(), rows.len());
    for ((size, ranges, key), line) in rows.iter().zip(found.lines()) {
        let expected: Vec<u32> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        assert_eq!(boxed(*ranges, *size, *key).as_slice(), expected, "{size:?} {ranges:?} {key}");
    }
    MANY.iter().for_each(|(size, count)| distributions_agree(&folder, *size, *count));
    pixels_agree(&folder, &images, &cases, &mut worker);
    numbers_agree(&folder, &mut worker);
    fs::remove_dir_all(&folder).unwrap();
}

fn distributions_agree(folder: &Path, (width, height): (u32, u32), count: usize) {
    let bytes = fs::read(folder.join(format!("{width}x{height}.many"))).unwrap();
    let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let theirs: Vec<[u32; 4]> = words.collect::<Vec<_>>().as_chunks::<4>().0.to_vec();
    let ours: Vec<[u32; 4]> = (0..count as u64).map(|key| boxed(DEFAULT, (width, height), mix(key))).collect();
    assert_eq!(theirs.len(), ours.len());
    let free = |all: u32, taken: u32, at: u32| f64::from(at) / f64::from((all - taken).max(1));
    type Property<'a> = Box<dyn Fn(&[u32; 4]) -> f64 + 'a>;
    let properties: [(&str, Property<'_>); 4] = [
        ("area", Box::new(|[_, _, across, down]| f64::from(across * down))),
        ("aspect", Box::new(|[_, _, across, down]| f64::from(*across) / f64::from(*down))),
        ("left", Box::new(|[left, _, across, _]| free(width, *across, *left))),
        ("top", Box::new(|[_, top, _, down]| free(height, *down, *top))),
    ];
    for (name, property) in properties {
        let values = |boxes: &[[u32; 4]]| boxes.iter().map(&property).collect::<Vec<_>>();
        let distance = kolmogorov_smirnov(values(&ours), values(&theirs));
        eprintln!("{width} × {height}: {name}: {distance:.2} of what chance allows");
        assert!(distance < 1.0, "{name} of {width} × {height}: {distance}");
    }
    // The most common box is the fallback in the middle, if there is one: it counts how often no random box fits.
    let most_common = |boxes: &[[u32; 4]]| {
        let mut counts = std::collections::BTreeMap::new();
        boxes.iter().for_each(|found| *counts.entry(*found).or_insert(0_u32) += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).unwrap()
    };
    let (middle, times) = most_common(&theirs);
    let ours = ours.iter().filter(|found| **found == middle).count() as f64;
    let expected = f64::from(times);
    eprintln!("{width} × {height}: {middle:?} {ours} and {expected} times of {count}");
    assert!((ours - expected).abs() <= 4.0 * (2.0 * expected).sqrt(), "{middle:?}: {ours} and {expected}");
}

fn pixels_agree(folder: &Path, images: &[(String, Vec<u8>)], cases: &[Case], worker: &mut Worker) {
    // If bicubic weights overshoot 0 or 255, the clipped amount depends on whether rows or columns come first.
    let rows = [
        ("photographs", "bilinear", 1),
        ("photographs", "bicubic", 12),
        ("noise", "bilinear", 1),
        ("noise", "bicubic", 30),
    ];
    for suffix in ["pillow", "tensor"] {
        for (kind, filter, most_allowed) in rows {
            let mut all = Differences::default();
            let is_of = |line: &str| line.contains(filter) && line.starts_with("noise") == (kind == "noise");
            for (number, case) in cases.iter().enumerate().filter(|(_, case)| is_of(&case.line)) {
                let mut slot = vec![0; case.transform.slot_bytes()];
                worker.run(&case.transform, &images[case.image].1, None, case.key, &mut slot).unwrap();
                all.add(&slot, &fs::read(folder.join(format!("{number}.{suffix}"))).unwrap());
            }
            eprintln!("{suffix}, {kind}, {filter}: {all}");
            assert!(all.most <= most_allowed && all.mean() < 0.2, "{suffix}, {kind}, {filter}: {all}");
            assert!(kind == "noise" || all.part_above_one() < 2e-4, "{suffix}, {kind}, {filter}: {all}");
        }
    }
}

/// All levels, in every type.
fn numbers_agree(folder: &Path, worker: &mut Worker) {
    let pixels: Vec<u8> = (0..=255).flat_map(|level| [level; 3]).collect();
    let image = [npy::head("|u1", &[16, 16, 3], false), pixels].concat();
    for (name, dtype) in [("float32", Dtype::Float32), ("float16", Dtype::Float16), ("bfloat16", Dtype::Bfloat16)] {
        for (suffix, normalise) in [("plain", None), ("normalised", Some(Normalise::IMAGENET))] {
            let options = Options { dtype, normalise, ..Options::new(Cut::Whole { size: Size::square(16) }) };
            let transform = Transform::new(options).unwrap();
            let mut slot = vec![0; transform.slot_bytes()];
            worker.run(&transform, &image, None, 0, &mut slot).unwrap();
            assert!(slot == fs::read(folder.join(format!("{name}.{suffix}"))).unwrap(), "{name}, {suffix}");
        }
    }
}
