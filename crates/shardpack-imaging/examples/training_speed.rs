//! Time to fill a slot of a training batch from a JPEG, on one thread, relative to decoding the whole JPEG.
//!
//!     cargo run --release -p shardpack-imaging --example training_speed -- FOLDER [IMAGES [ROUNDS [CROPS]]]
//!
//! The first row is the divisor of the others: the whole image is decoded to RGB. Contenders take turns with each image; the
//! shortest round of an image counts.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a program for people at a terminal"
)]

use std::{hint::black_box, num::NonZeroU16, path::PathBuf, time::Instant};

use fast_image_resize::{
    FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer,
    images::{TypedCroppedImage, TypedImage, TypedImageRef},
    pixels::{U8x3, U8x4},
};
use shardpack_format::{
    image_header::{Header, Kind},
    permutation::mix,
};
use shardpack_imaging::{
    Limits, check,
    crops::scan,
    training::{Axes, Cut, Dtype, Normalise, Options, Rect, Resize, Size, Transform, Worker},
};

const SIZE: Size = Size::square(224);

/// An image with its crop table and its size.
struct Image {
    bytes: Vec<u8>,
    table: Option<Vec<u8>>,
    /// The whole image, RGB.
    pixels: Vec<u8>,
    width: u32,
    height: u32,
}

/// A timed function of an image and a key.
type Work = Box<dyn FnMut(&Image, u64)>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("FOLDER");
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (images, rounds, crops) = (number(250), number(3), number(4));
    let mut files = Vec::new();
    list(folder.into(), &mut files);
    files.sort();
    let images: Vec<Image> = files.iter().filter_map(|path| image(std::fs::read(path).ok()?)).take(images).collect();
    let pixels: usize = images.iter().map(|image| image.pixels.len() / 3).sum();
    println!("{} JPEGs of {:.2} megapixels, {rounds} rounds", images.len(), pixels as f64 / 1e6 / images.len() as f64);

    let mut contenders = contenders();
    let mut sums = vec![0.0; contenders.len()];
    let mut ratios = vec![Vec::new(); contenders.len()];
    for image in &images {
        for key in 0..crops as u64 {
            let mut best = vec![f64::INFINITY; contenders.len()];
            for _ in 0..rounds {
                for ((_, work), best) in contenders.iter_mut().zip(&mut best) {
                    let start = Instant::now();
                    work(black_box(image), mix(key));
                    *best = best.min(start.elapsed().as_secs_f64() * 1e6);
                }
            }
            for (at, time) in best.iter().enumerate() {
                sums[at] += time;
                ratios[at].push(time / best[0]);
            }
        }
    }
    println!("\n| | µs | ÷ first | median of the ratios | rate, first = 1 |\n|---|---:|---:|---:|---:|");
    for (at, (name, _)) in contenders.iter().enumerate() {
        ratios[at].sort_by(f64::total_cmp);
        let (mean, ratio, median) =
            (sums[at] / ratios[at].len() as f64, sums[at] / sums[0], ratios[at][ratios[at].len() / 2]);
        println!("| {name} | {mean:.0} | {ratio:.3} | {median:.3} | {:.2} |", 1.0 / ratio);
    }
}

fn list(folder: PathBuf, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() { list(entry.path(), files) } else { files.push(entry.path()) }
    }
}

fn image(bytes: Vec<u8>) -> Option<Image> {
    check(&bytes, &Limits::default()).ok().filter(|_| Header::parse(&bytes).kind == Kind::Jpeg)?;
    let mut worker = Worker::new(Limits::default());
    let (rgb, _) = worker.decode(&bytes, false).ok()?;
    let (width, height, pixels) = (rgb.width, rgb.height, rgb.pixels.to_vec());
    let table = scan(&bytes, NonZeroU16::new(8)?).ok();
    Some(Image { table, bytes, pixels, width, height })
}

fn options(cut: Cut) -> Options {
    Options { flip: 0.5, ..Options::new(cut) }
}

fn evaluation() -> Options {
    Options::new(Cut::Center { resize: Resize::Short(256), size: SIZE })
}

/// A worker with a slot; `with_table` passes it crop tables.
fn by_worker(options: Options, with_table: bool) -> Work {
    let transform = Transform::new(options).unwrap();
    let mut worker = Worker::new(Limits::default());
    let mut slot = vec![0; transform.slot_bytes()];
    Box::new(move |image, key| {
        let table = image.table.as_deref().filter(|_| with_table);
        worker.run(&transform, &image.bytes, table, key, &mut slot).unwrap();
        black_box(&mut slot);
    })
}

/// Resizing alone, of the pixels of a random box.
fn resizing<P: PixelTrait>(channels: usize) -> Work {
    let transform = Transform::new(options(Cut::random_resized(SIZE))).unwrap();
    let (mut resizer, mut resized) = (Resizer::new(), vec![0; 224 * 224 * channels]);
    let mut pixels = Vec::new();
    Box::new(move |image, key| {
        let length = image.width as usize * image.height as usize * channels;
        pixels.resize(length, 128);
        let Rect { left, top, width, height } = transform.plan(image.width, image.height, key).window;
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).use_alpha(false);
        let source = TypedImageRef::<P>::from_buffer(image.width, image.height, &pixels).unwrap();
        let source = TypedCroppedImage::from_ref(&source, left, top, width, height).unwrap();
        let mut to = TypedImage::<P>::from_buffer(224, 224, &mut resized).unwrap();
        resizer.resize_typed(&source, &mut to, &options).unwrap();
    })
}

/// Writing a slot alone, plus a copy: the image is an array as large as the slot.
fn writing(options: Options) -> Work {
    let bytes = [shardpack_format::npy::head("|u1", &[224, 224, 3], false), vec![77; 224 * 224 * 3]].concat();
    let array = Image { bytes, table: None, pixels: Vec::new(), width: 224, height: 224 };
    let mut work = by_worker(Options { cut: Cut::Whole { size: SIZE }, ..options }, false);
    Box::new(move |_, key| work(&array, key))
}

fn contenders() -> Vec<(&'static str, Work)> {
    let random = options(Cut::random_resized(SIZE));
    let floats = Options { dtype: Dtype::Float32, normalise: Some(Normalise::IMAGENET), ..random };
    let halves = Options { dtype: Dtype::Float16, ..floats };
    vec![
        ("the whole image", whole()),
        (
            "its scan for a table",
            Box::new(|image, _| drop(black_box(scan(&image.bytes, NonZeroU16::MIN.saturating_add(7))))),
        ),
        ("RandomResizedCrop 224, flip, without tables", by_worker(random, false)),
        ("  with tables", by_worker(random, true)),
        ("  with tables, never reduced", by_worker(Options { reduce: false, ..random }, true)),
        ("  with tables, normalised float32", by_worker(floats, true)),
        ("Resize 256, CenterCrop 224, without tables", by_worker(evaluation(), false)),
        ("  with tables", by_worker(evaluation(), true)),
        ("its resizing alone, three bytes a pixel", resizing::<U8x3>(3)),
        ("  four bytes a pixel", resizing::<U8x4>(4)),
        ("an array as image, uint8 [H, W, 3]", writing(Options { axes: Axes::Hwc, ..random })),
        ("  uint8 [3, H, W]", writing(random)),
        ("  float32", writing(floats)),
        ("  float16", writing(halves)),
    ]
}

fn whole() -> Work {
    let mut worker = Worker::new(Limits::default());
    Box::new(move |image, _| {
        black_box(worker.decode(&image.bytes, false).unwrap());
    })
}
