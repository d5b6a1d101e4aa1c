//! Benchmarks reading for training: results of `shardpack bench`, with and without crop tables, against libjpeg-turbo.

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
    training_peers::Epoch,
};
use crate::{
    Result,
    command::{command, output, root, run, shardpack},
    python,
};

/// Photographs, options of `pack`, `--transform`, and the page's description, with the aims with tables and without.
const WORK: [(Kind, &[&str], &str, &str); 4] = [
    (
        Kind::Small,
        &[],
        "train",
        "Training: random crops resized to 224 × 224, half of the crops flipped (aims: 2.0 with tables, 1.3 without)",
    ),
    (
        Kind::Small,
        &[],
        "eval",
        "Evaluation: shorter side resized to 256, centre crop of 224 × 224 (aims: 1.5 with tables, 1.1 without)",
    ),
    (Kind::Large, &[], "train", "Training on images of 8 megapixels (aim: 4.0 with tables)"),
    (Kind::Small, &["--resize", "256"], "train", "Training on images that `pack --resize 256` has made"),
];

/// The rate of libjpeg-turbo, which decodes whole images of a folder from memory in two processes.
pub fn whole(scale: &Scale, folder: &Path) -> Result<Rate> {
    let (python, packages) = python::with_packages("training-packages", "benches/training.txt")?;
    let program = root().join("benches/peers/training/whole.py");
    let mut command = scale.under(&python, [&program]);
    command.arg(folder).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", packages);
    let said = output(&mut command)?;
    let epoch = Epoch::read(said.lines().last().unwrap_or_default())?;
    println!("   libjpeg-turbo, whole images: {:.0} images/s", epoch.rate.rate);
    Ok(epoch.rate)
}

/// Packs `tree` into `name`; the shards are in the page cache.
pub fn packed(tree: &Path, name: &str, options: &[&str]) -> Result<PathBuf> {
    let shards = fresh(name)?;
    run(command(shardpack("release"), ["pack", "--quiet"]).args(options).arg(tree).arg(&shards))?;
    warm(&shards)?;
    Ok(shards)
}

/// The images of tar shards, in a folder.
fn unpacked(shards: &Path) -> Result<PathBuf> {
    let images = fresh("images")?;
    let unwritable = |error| format!("{}: {error}", images.display());
    std::fs::create_dir_all(&images).map_err(unwritable)?;
    for entry in std::fs::read_dir(shards).map_err(|error| format!("{}: {error}", shards.display()))?.flatten() {
        if entry.path().extension().is_some_and(|end| end == "tar") {
            run(command("tar", ["-xf"]).arg(entry.path()).arg("-C").arg(&images))?;
        }
    }
    Ok(images)
}

/// Batches of crops against whole images, decoded from memory.
pub fn training(scale: &Scale) -> Result<String> {
    let mut text = format!(
        "Warm page cache: `shardpack bench DST`, uint8, batches of 64, two threads. `decode` is the rate of \
         libjpeg-turbo, which decodes whole images from memory in two processes (`benches/peers/training/whole.py`); \
         `own decode` is that of shardpack in two threads. CPU time per image covers all threads and reading. Medians of \
         {} interleaved rounds, least to most in parentheses.\n",
        scale.rounds,
    );
    for (kind, options, transform, what) in WORK {
        let photographs = Photographs::new(kind, scale);
        let (tree, mean_bytes) = photographs.make()?;
        let dense = packed(&tree, "dense", options)?;
        run(command(shardpack("release"), ["crops", "--quiet", "--every", "4"]).arg(&dense))?;
        let shards = [
            ("without crop tables", packed(&tree, "shards", options)?),
            ("crop tables", packed(&tree, "crops", &[options, &["--crops"]].concat())?),
            ("crop tables every 4 MCUs", dense),
        ];
        let images = unpacked(&shards[0].1)?;
        let mut measured = shards.each_ref().map(|_| Vec::new());
        for _ in 0..scale.rounds {
            let bound = whole(scale, &images)?;
            for ((_, shards), rounds) in shards.iter().zip(&mut measured) {
                rounds.push((once(scale, &shardpack("release"), shards, transform)?, bound));
            }
        }
        let _ = write!(
            text,
            "\n{what}. {}{}; `decode` is {:.0} images/s:\n\n\
             | | images/s | ÷ decode | CPU ÷ decode's | ÷ own decode | wait for a batch: first, median, 99 %, longest |\n\
             |---|---:|---:|---:|---:|---:|\n",
            photographs.describe(mean_bytes),
            if options.is_empty() { "" } else { ", before they are resized" },
            median(measured[0].iter().map(|(_, bound)| bound.rate).collect()),
        );
        for ((name, _), found) in shards.iter().zip(&measured) {
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
