//! Cost and gain of crop tables: time of the scan and of random parts, with and without tables, beside full decodes.
//!
//!     cargo run --release -p shardpack-imaging --features turbo --example crop_speed -- FOLDER [EVERY]

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, reason = "an example")]

use std::{num::NonZeroU16, path::PathBuf, time::Instant};

use shardpack_format::image_header::Header;
use shardpack_imaging::{
    Limits,
    crops::{Decoder, Rect, RegionRequest, scan},
};

/// The shortest of five calls, in nanoseconds: other load on the machine rarely affects all five.
fn time(mut call: impl FnMut()) -> u64 {
    let once = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        call();
        start.elapsed().as_nanos() as u64
    };
    (0..5).map(|_| once(&mut call)).min().unwrap()
}

fn files(folder: PathBuf, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(path, found) } else { found.push(path) }
    }
}

fn main() {
    let mut given = std::env::args().skip(1);
    let folder = given.next().unwrap_or("fixtures/photos".to_owned());
    let every = given.next().map_or(8, |every| every.parse().unwrap());
    let mut paths = Vec::new();
    files(folder.into(), &mut paths);
    paths.sort();
    let mut decoder = Decoder::new(Limits::default());
    let mut pixels = Vec::new();
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let (mut scanned, mut whole, mut parts, mut stock, mut table_bytes, mut bytes, mut count) = (0, 0, 0, 0, 0, 0, 0);
    let mut crops = 0;
    for path in paths {
        let image = std::fs::read(path).unwrap();
        let Ok(table) = scan(&image, NonZeroU16::new(every).unwrap()) else { continue };
        let Header { width, height, .. } = Header::parse(&image);
        let all = RegionRequest { rect: Rect { x: 0, y: 0, width, height }, reduce_by: 1, padded: true };
        scanned += time(|| drop(scan(&image, NonZeroU16::new(every).unwrap())));
        let once = time(|| drop(decoder.region(&image, None, &all, &mut pixels)));
        whole += once;
        (table_bytes, bytes, count) = (table_bytes + table.len(), bytes + image.len(), count + 1);
        for _ in 0..8 {
            // Area of 0.08 to 1, sides of 3:4 to 4:3, as RandomResizedCrop draws them.
            let area = f64::from(width) * f64::from(height) * (0.08 + 0.92 * random());
            let ratio = ((0.75_f64).ln() + (16.0_f64 / 9.0).ln() * random()).exp();
            let (w, h) = ((area * ratio).sqrt().round() as u32, (area / ratio).sqrt().round() as u32);
            let (w, h) = (w.clamp(1, width), h.clamp(1, height));
            let x = (random() * f64::from(width - w + 1)) as u32;
            let y = (random() * f64::from(height - h + 1)) as u32;
            let wanted = RegionRequest { rect: Rect { x, y, width: w, height: h }, ..all };
            parts += time(|| drop(decoder.region(&image, Some(&table), &wanted, &mut pixels)));
            stock += time(|| drop(decoder.region(&image, None, &wanted, &mut pixels)));
            crops += 1;
        }
    }
    let us = |sum: u64, of: usize| sum as f64 / of as f64 / 1e3;
    println!("{count} images, {} bytes each, tables {:.2} %", bytes / count, 100.0 * table_bytes as f64 / bytes as f64);
    let full = us(whole, count);
    for (what, time) in [
        ("full decode", full),
        ("scan", us(scanned, count)),
        ("part, without a table", us(stock, crops)),
        ("part, with a table", us(parts, crops)),
    ] {
        println!("{what:22} {time:8.1} us  {:.3} of a full decode", time / full);
    }
}
