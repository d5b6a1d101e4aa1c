//! Benchmarks reading for training: results of `shardpack bench`, with and without libjpeg-turbo and crop tables.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    Scale,
    contest::{median, spread},
    photographs::{Kind, Photographs},
    rows::{clear, fresh, warm},
};
use crate::{
    Result,
    command::{cargo, command, output, run, shardpack, target},
    tools,
};

/// Photographs, `--transform`, and the page's description, with the aims with tables and without.
const WORK: [(Kind, &str, &str); 3] = [
    (
        Kind::Small,
        "train",
        "Training: random crops resized to 224 × 224, half of the crops flipped (aims: 1.5 with tables, 1.15 without, \
         both with less CPU time per image than `decode`)",
    ),
    (
        Kind::Small,
        "eval",
        "Evaluation: shorter side resized to 256, centre crop of 224 × 224 (aims: 1.15 with tables, 1.0 without)",
    ),
    (Kind::Large, "train", "Training on images of 8 megapixels (aim: 2.5 with tables)"),
];

/// The builds that decode, with the name of their decoder.
pub fn builds() -> Result<[(&'static str, PathBuf); 2]> {
    let (turbo, tools) = (target("turbo"), tools::path()?);
    run(cargo("build --release --package shardpack --features turbo --target-dir").arg(&turbo).env("PATH", &tools))?;
    Ok([("libjpeg-turbo", turbo.join("release/shardpack")), ("zune-jpeg", shardpack("release"))])
}

/// Packs `tree` into `name`; the shards are in the page cache.
pub fn packed(tree: &Path, name: &str, options: &[&str]) -> Result<PathBuf> {
    let shards = fresh(name)?;
    run(command(shardpack("release"), ["pack", "--quiet"]).args(options).arg(tree).arg(&shards))?;
    warm(&shards)?;
    Ok(shards)
}

/// Batches of crops against whole images, decoded from memory.
pub fn training(scale: &Scale) -> Result<String> {
    let builds = builds()?;
    let mut text = format!(
        "Warm page cache: `shardpack bench DST`, uint8, batches of 64, two threads. `decode` is the rate of two \
         threads that decode the same images in full, from memory, by the first build. `own decode` is the same rate \
         with the decoder of the row. CPU time per image covers all threads and reading. Medians of {} interleaved \
         rounds, least to most in parentheses.\n",
        scale.rounds,
    );
    for (kind, transform, what) in WORK {
        let photographs = Photographs::new(kind, scale);
        let (tree, mean_bytes) = photographs.make()?;
        let dense = packed(&tree, "dense", &[])?;
        run(command(shardpack("release"), ["crops", "--quiet", "--every", "4"]).arg(&dense))?;
        let shards = [
            ("", packed(&tree, "shards", &[])?),
            (", crop tables", packed(&tree, "crops", &["--crops"])?),
            (", crop tables every 4 MCUs", dense),
        ];
        let mut measured: Vec<(String, Vec<(BenchResults, Rate)>)> = Vec::new();
        for (with, _) in &shards {
            measured.extend(builds.iter().map(|(name, _)| (format!("{name}{with}"), Vec::new())));
        }
        for _ in 0..scale.rounds {
            let mut turn = Vec::new();
            for (_, shards) in &shards {
                for (_, program) in &builds {
                    turn.push(once(scale, program, shards, transform)?);
                }
            }
            // turn[0] and turn[2] are the libjpeg-turbo build, which decodes the same images from each set of shards.
            let bound = Rate::between(turn[0].decode, turn[2].decode);
            for (found, (_, rounds)) in turn.into_iter().zip(&mut measured) {
                rounds.push((found, bound));
            }
        }
        let _ = write!(
            text,
            "\n{what}. {}; `decode` is {:.0} images/s:\n\n\
             | | images/s | ÷ decode | CPU ÷ decode's | ÷ own decode | wait for a batch: first, median, 99 %, longest |\n\
             |---|---:|---:|---:|---:|---:|\n",
            photographs.describe(mean_bytes),
            median(measured[0].1.iter().map(|(_, bound)| bound.rate).collect()),
        );
        for (name, found) in &measured {
            text += &row(name, found);
        }
    }
    clear().map(|()| text)
}

/// Results of one run of `shardpack bench`.
pub struct BenchResults {
    /// Rate of batches of crops.
    pub crops: Rate,
    /// Rate of decoding whole images.
    pub decode: Rate,
    /// Waits for a batch in milliseconds: the first; then median, 99th percentile and longest of the others.
    waits: [f64; 4],
}

/// Throughput and CPU cost.
#[derive(Clone, Copy)]
pub struct Rate {
    /// Images a second.
    pub rate: f64,
    /// CPU seconds per image, all threads.
    pub cpu_seconds: f64,
}

/// Runs `shardpack bench`.
pub fn once(scale: &Scale, program: &Path, shards: &Path, transform: &str) -> Result<BenchResults> {
    let options = ["bench", "--json", "--quiet", "--seconds", "8", "--jobs", "2", "--transform", transform];
    let said = output(scale.under(program, options).arg(shards))?;
    let found = BenchResults::read(&said)?;
    println!("   {}: {:.0} images/s, decode {:.0}", program.display(), found.crops.rate, found.decode.rate);
    Ok(found)
}

impl BenchResults {
    /// Seconds from opening the dataset to the first batch.
    pub fn first_seconds(&self) -> f64 {
        self.waits[0] / 1e3
    }

    fn read(json: &str) -> Result<Self> {
        let all: Value = serde_json::from_str(json).map_err(|error| format!("shardpack bench --json: {error}"))?;
        let found = &all["datasets"][0];
        let number = |row: &str, what: &str| {
            let number = found[row][what].as_f64();
            number.ok_or_else(|| format!("shardpack bench --json: no {row}.{what}"))
        };
        let rate = |row: &str| {
            let (samples, elapsed_ms, cpu_ms) =
                (number(row, "samples")?, number(row, "elapsed_ms")?, number(row, "cpu_ms")?);
            Ok::<_, String>(Rate { rate: samples / elapsed_ms * 1e3, cpu_seconds: cpu_ms / samples / 1e3 })
        };
        let wait = |what: &str| number("waits", what);
        let waits = [wait("first_ms")?, wait("median_ms")?, wait("p99_ms")?, wait("longest_ms")?];
        Ok(Self { crops: rate("crops")?, decode: rate("decode")?, waits })
    }
}

impl Rate {
    /// Mean of two measurements of the same rate.
    pub fn between(one: Self, other: Self) -> Self {
        Self { rate: (one.rate + other.rate) / 2.0, cpu_seconds: (one.cpu_seconds + other.cpu_seconds) / 2.0 }
    }
}

/// A row of the table, from each round's result and bound.
fn row(name: &str, found: &[(BenchResults, Rate)]) -> String {
    let numbers = |of: &dyn Fn(&(BenchResults, Rate)) -> f64| found.iter().map(of).collect::<Vec<_>>();
    let wait = |which: usize| median(numbers(&|(one, _)| one.waits[which]));
    format!(
        "| {name} | {:.0} | {} | {} | {} | {:.0}, {:.1}, {:.1}, {:.1} ms |\n",
        median(numbers(&|(one, _)| one.crops.rate)),
        spread(numbers(&|(one, bound)| one.crops.rate / bound.rate), 2),
        spread(numbers(&|(one, bound)| one.crops.cpu_seconds / bound.cpu_seconds), 2),
        spread(numbers(&|(one, _)| one.crops.rate / one.decode.rate), 2),
        wait(0),
        wait(1),
        wait(2),
        wait(3),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_json() {
        let json = r#"{"datasets": [{
            "crops": {"samples": 500, "bytes": 0, "elapsed_ms": 250, "cpu_ms": 400},
            "decode": {"samples": 100, "bytes": 0, "elapsed_ms": 100, "cpu_ms": 200},
            "waits": {"batches": 3, "first_ms": 9, "median_ms": 1, "p99_ms": 2, "longest_ms": 3}
        }]}"#;
        let found = BenchResults::read(json).unwrap();
        let bound = found.decode;
        assert_eq!(
            row("x", &[(found, bound)]),
            "| x | 2000 | 2.00 (2.00 to 2.00) | 0.40 (0.40 to 0.40) | 2.00 (2.00 to 2.00) | 9, 1.0, 2.0, 3.0 ms |\n"
        );
        assert!(BenchResults::read("{}").is_err_and(|error| error.contains("--json: no ")));
    }
}
