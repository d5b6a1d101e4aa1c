//! Reads a packed folder at full speed, with one thread, and prints its rate.
//!
//! ```text
//! cargo run --release -p shardpack-reader --example read_speed -- FOLDER [--check] [--mmap] [--buffer BYTES]
//! ```
//! The bytes are really read: into the reader's buffer, or with `--mmap` by touching each page of the mapping. The rate
//! counts the bytes of the shards: compare it with the rate of `cat FOLDER/*.tar > /dev/null`.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

use std::{hint::black_box, process::ExitCode, time::Instant};

use shardpack_reader::{Dataset, Result};

#[derive(Default)]
struct Options {
    folder: String,
    check: bool,
    mmap: bool,
    buffer_bytes: Option<usize>,
}

#[derive(Default)]
struct Read {
    samples: u64,
    image_bytes: u64,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: read_speed FOLDER [--check] [--mmap] [--buffer BYTES]");
        return ExitCode::from(2);
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(help) = error.help_text() {
                eprintln!("  help: {help}");
            }
            ExitCode::FAILURE
        }
    }
}

fn options() -> Option<Options> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check" => options.check = true,
            "--mmap" => options.mmap = true,
            "--buffer" => options.buffer_bytes = Some(words.next()?.parse().ok()?),
            _ if word.starts_with('-') || !options.folder.is_empty() => return None,
            _ => options.folder = word,
        }
    }
    (!options.folder.is_empty()).then_some(options)
}

fn run(options: &Options) -> Result<()> {
    for dataset in Dataset::open_all(&options.folder)? {
        let dataset = dataset.check_content(options.check);
        let start = Instant::now();
        let read = if options.mmap { mapped(&dataset)? } else { buffered(&dataset, options.buffer_bytes)? };
        let seconds = start.elapsed().as_secs_f64();
        let shard_bytes = dataset.manifest().shard_bytes;
        println!(
            "{}: {} samples, {} bytes of images in {shard_bytes} of shards, {seconds:.3} s, {:.0} MB/s",
            dataset.name(),
            read.samples,
            read.image_bytes,
            shard_bytes as f64 / 1e6 / seconds
        );
    }
    Ok(())
}

fn buffered(dataset: &Dataset, buffer_bytes: Option<usize>) -> Result<Read> {
    let mut reader = dataset.reader(..)?;
    if let Some(bytes) = buffer_bytes {
        reader = reader.buffer_bytes(bytes);
    }
    let mut read = Read::default();
    while let Some(sample) = reader.next()? {
        read.samples += 1;
        read.image_bytes += black_box(sample.bytes()).len() as u64;
    }
    Ok(read)
}

fn mapped(dataset: &Dataset) -> Result<Read> {
    let mut read = Read::default();
    for number in 0..dataset.len() {
        let sample = dataset.sample(number)?;
        let touched: u64 = sample.bytes().iter().step_by(4096).map(|byte| u64::from(*byte)).sum();
        black_box(touched);
        read.samples += 1;
        read.image_bytes += sample.bytes().len() as u64;
    }
    Ok(read)
}
