//! What a listing and a plan of very many samples cost: memory beside the names, and time.
//!
//! ```text
//! cargo run --release -p shardpack-packer --example listing_scale -- [SAMPLES [CLASSES]]
//! ```
//! The default is 100 million in 1,000. Nothing is read from a disk: names and sizes are made up as ImageNet has them.
//! Memory is the peak that the kernel counts for the process (`VmHWM`), less the bytes of the names.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{fmt::Write, sync::Arc, time::Instant};

use shardpack_format::{Error, Result, formats::Choice, permutation::Permutation};
use shardpack_packer::plan::{Check, Compression, Cut, Options, Order, Plan};
use shardpack_source::{
    SourceListing,
    listing::{Builder, Folder, FolderSamples, Listing},
};

fn main() -> Result<()> {
    let (samples, classes) = (argument(1, 100_000_000)?, argument(2, 1_000)?);
    let start = Instant::now();
    let listing = listing(samples, classes);
    let listed = start.elapsed();
    let name_bytes = listing.name_bytes();
    let listing_peak = peak_bytes()?;

    let start = Instant::now();
    let found = SourceListing { listing: Arc::new(listing), ..SourceListing::default() };
    let options = Options {
        name: "train".to_owned(),
        order: Order::Shuffled,
        seed: 0,
        cut: Cut::ShardSize(256 << 20),
        format: Choice { extension: Some("jpg".to_owned()), ..Choice::new("webdataset") },
        compression: Compression::None,
        check: Check::Header,
        recipe: None,
    };
    let plan = Plan::new(found, options)?;
    let planned = start.elapsed();
    let plan_peak = peak_bytes()?;

    let beside = |peak: u64| peak.saturating_sub(name_bytes) as f64 / samples as f64;
    println!(
        "{samples} samples in {classes} classes: {:.1} bytes of memory a sample beside its name ({:.1} of listing), names {:.1}; \
         listed in {:.1} s, planned {} shards in {:.1} s",
        beside(plan_peak),
        beside(listing_peak),
        name_bytes as f64 / samples as f64,
        listed.as_secs_f64(),
        plan.shards.len(),
        planned.as_secs_f64(),
    );
    Ok(())
}

/// Argument `number`, or `default` where it is not given.
fn argument(number: usize, default: u64) -> Result<u64> {
    let Some(text) = std::env::args().nth(number) else { return Ok(default) };
    text.parse()
        .ok()
        .filter(|given| *given > 0)
        .ok_or_else(|| Error::usage(format!("{text:?} is not a number of them")))
}

/// A listing as a walk makes it: folder by folder, each joined once it is whole.
fn listing(samples: u64, classes: u64) -> Listing {
    let names: Vec<Box<[u8]>> = (0..classes).map(|class| class_name(class).into()).collect();
    let mut builder = Builder::default();
    let mut name = String::new();
    // A walk meets folders in no order.
    let order = Permutation::new(classes, 0);
    for class in (0..classes).map(|position| order.sample_at(position)) {
        let mut files = FolderSamples::default();
        for number in class * samples / classes..(class + 1) * samples / classes {
            name.clear();
            // Writing to a String cannot fail.
            let _ = write!(name, "n{class:08}_{number:09}.JPEG");
            // Spread over 50 to 170 KB.
            let bytes = 50_000 + (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 % 120_000;
            files.push(name.as_bytes(), bytes, number, 0);
        }
        builder.add(Folder { path: class_name(class).into(), class: Some(class as u32) }, &files);
    }
    builder.finish(Arc::new(names))
}

fn class_name(class: u64) -> Vec<u8> {
    format!("n{class:08}").into_bytes()
}

/// The most memory that this process has had.
fn peak_bytes() -> Result<u64> {
    let status =
        std::fs::read_to_string("/proc/self/status").map_err(|error| Error::io("cannot read status", error))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Error::usage("the kernel does not say how much memory this takes"))
}
