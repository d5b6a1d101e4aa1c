//! Reads the samples of one rank undecoded, for `cargo xtask bench raw`, which runs each rank in its own process.
//!
//! ```text
//! cargo run --release -p shardpack-loader --example raw -- packed [RANK WORLD [EPOCHS [MEMORY_MIB [NAME=VALUE...]]]]
//! ```
//! With the feature `cloud`, `packed` may be a URL, and the settings are those of its store.
//!
//! Prints one line of JSON: samples, payload bytes, and milliseconds from opening to the last sample, of waiting for the disk,
//! and to sample 256.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used, reason = "an example")]

use std::time::Instant;

use shardpack_loader::{Dataset, Loader, Options, StoreSettings};

/// Samples of the first batch.
const FIRST: u64 = 256;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| arguments.get(at).map_or(usual, |text| text.parse().unwrap());
    let since = Instant::now();
    let options = Options {
        rank: number(1, 0),
        world: number(2, 1),
        epochs: number(3, 1),
        memory_bytes: Some(number(4, 256) << 20),
        seed: 1,
        ..Options::default()
    };
    let epochs = options.epochs;
    let settings = StoreSettings::parse(arguments.iter().skip(5)).unwrap();
    let loader = Loader::new(Dataset::open_with(&arguments[0], &settings).unwrap(), options).unwrap();
    let mut samples = loader.samples(&loader.beginning()).unwrap();
    let (mut bytes, mut count, mut first_ms) = (0, 0_u64, 0.0);
    for _ in 0..epochs {
        while let Some(fetched) = samples.next().unwrap() {
            bytes += fetched.sample().unwrap().bytes().len();
            count += 1;
            if count == FIRST {
                first_ms = since.elapsed().as_secs_f64() * 1e3;
            }
        }
    }
    let (elapsed_ms, waited_ms) = (since.elapsed().as_secs_f64() * 1e3, samples.stats().disk_wait_ms);
    println!(
        r#"{{"samples": {count}, "bytes": {bytes}, "elapsed_ms": {elapsed_ms:.1}, "disk_wait_ms": {waited_ms:.1}, "first_ms": {first_ms:.1}}}"#
    );
}
