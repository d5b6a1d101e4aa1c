//! Measures decoding, resizing to a shorter side of 256, and encoding of one JPEG at a time, on one thread.
//!
//!     cargo run --release -p shardpack-imaging --example resize_speed [--features turbo] -- FOLDER [IMAGES [ROUNDS]]
//!
//! With the feature `turbo`, one process compares [`apply`] and the pure Rust way with the bound: a bare loop over
//! libjpeg-turbo, fast_image_resize and libjpeg-turbo.
//! Contenders take turns with each image; the shortest round of an image counts.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a program for people at a terminal"
)]

use std::{hint::black_box, path::PathBuf, time::Instant};

#[cfg(feature = "turbo")]
use shardpack_format::image_header::Mode;
use shardpack_format::image_header::{Header, Kind};
use shardpack_imaging::{Limits, Outcome, Recipe, Resize, apply, check, decode};

#[cfg(feature = "turbo")]
#[allow(unsafe_code, dead_code, reason = "libjpeg-turbo is C")]
#[path = "../src/turbo.rs"]
mod turbo;

const SHORT: u32 = 256;

type Contender = (&'static str, Box<dyn FnMut(&[u8]) -> usize>);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("FOLDER");
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (images, rounds) = (number(250), number(5));
    let mut files = Vec::new();
    list(folder.into(), &mut files);
    files.sort();
    let files: Vec<_> = files
        .into_iter()
        .filter_map(|path| std::fs::read(path).ok())
        .filter(|bytes| {
            Header::parse(bytes).kind == Kind::Jpeg
                && Header::parse(bytes).width.min(Header::parse(bytes).height) > SHORT
        })
        .filter(|bytes| check(bytes, &Limits::default()).is_ok())
        .take(images)
        .collect();
    println!(
        "{} JPEGs, {} bytes each, {rounds} rounds",
        files.len(),
        files.iter().map(Vec::len).sum::<usize>() / files.len()
    );

    let mut contenders = contenders();
    let mut times = vec![Vec::new(); contenders.len()];
    for bytes in &files {
        let mut best = vec![f64::INFINITY; contenders.len()];
        for _ in 0..rounds {
            for ((_, work), best) in contenders.iter_mut().zip(&mut best) {
                let start = Instant::now();
                black_box(work(black_box(bytes)));
                *best = best.min(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        times.iter_mut().zip(best).for_each(|(times, best)| times.push(best));
    }
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let median = |times: &[f64]| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    println!("\n| | mean µs | median µs | mean ÷ first | median of the ratios |\n|---|---:|---:|---:|---:|");
    for ((name, _), all) in contenders.iter().zip(&times) {
        let ratios: Vec<_> = all.iter().zip(&times[0]).map(|(time, first)| time / first).collect();
        let ratio = mean(all) / mean(&times[0]);
        println!("| {name} | {:.0} | {:.0} | {ratio:.3} | {:.3} |", mean(all), median(all), median(&ratios));
    }
}

fn list(folder: PathBuf, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() { list(entry.path(), files) } else { files.push(entry.path()) }
    }
}

fn recipe() -> Recipe {
    Recipe { resize: Some(Resize::Short(SHORT)), ..Recipe::default() }
}

fn by_apply(bytes: &[u8]) -> usize {
    match apply(bytes, &recipe(), &Limits::default()).unwrap() {
        Outcome::Untouched => 0,
        Outcome::Made { bytes, .. } => bytes.len(),
    }
}

fn pure_decode(bytes: &[u8]) -> usize {
    decode(bytes, &Limits::default()).unwrap().pixels().len()
}

#[cfg(not(feature = "turbo"))]
fn contenders() -> Vec<Contender> {
    vec![("apply, pure Rust", Box::new(by_apply)), ("  its decoding alone", Box::new(pure_decode))]
}

#[cfg(feature = "turbo")]
fn contenders() -> Vec<Contender> {
    let (mut decoder, mut encoder, mut resizer) =
        (turbo::Decoder::new().unwrap(), turbo::Encoder::new().unwrap(), fast_image_resize::Resizer::new());
    let bare = move |bytes: &[u8]| {
        let channels = if Header::parse(bytes).mode == Mode::Gray { 1 } else { 3 };
        let Some((width, height, pixels)) = decoder.decode(bytes, channels, (u32::MAX, u32::MAX), u64::MAX) else {
            return 0;
        };
        let (size, pixels) = reduce(&mut resizer, (width, height), channels, &pixels);
        encoder.encode(&pixels, size, channels, 90).unwrap().len()
    };
    // The steps of `apply` without the feature.
    let pure = |bytes: &[u8]| {
        use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
        let picture = decode(bytes, &Limits::default()).unwrap();
        let channels = picture.layout().channels();
        let mut resizer = fast_image_resize::Resizer::new();
        let ((width, height), pixels) =
            reduce(&mut resizer, (picture.width(), picture.height()), channels, picture.pixels());
        let mut made = Vec::new();
        let mut encoder = Encoder::new(&mut made, 90);
        encoder.set_sampling_factor(SamplingFactor::F_2_2);
        let color = if channels == 1 { ColorType::Luma } else { ColorType::Rgb };
        encoder.encode(&pixels, width, height, color).unwrap();
        made.len()
    };
    vec![
        ("bare libjpeg-turbo, resize, libjpeg-turbo", Box::new(bare)),
        ("apply, turbo", Box::new(by_apply)),
        ("apply, pure Rust (by hand)", Box::new(pure)),
        ("  its decoding alone", Box::new(pure_decode)),
    ]
}

#[cfg(feature = "turbo")]
fn reduce(
    resizer: &mut fast_image_resize::Resizer,
    (width, height): (u32, u32),
    channels: usize,
    pixels: &[u8],
) -> ((u16, u16), Vec<u8>) {
    use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, images};
    let other = SHORT * width.max(height) / width.min(height);
    let (to_width, to_height) = if width <= height { (SHORT, other) } else { (other, SHORT) };
    let pixel = if channels == 1 { PixelType::U8 } else { PixelType::U8x3 };
    let source = images::ImageRef::new(width, height, pixels, pixel).unwrap();
    let mut resized = images::Image::new(to_width, to_height, pixel);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom));
    resizer.resize(&source, &mut resized, &options).unwrap();
    ((to_width as u16, to_height as u16), resized.into_vec())
}
