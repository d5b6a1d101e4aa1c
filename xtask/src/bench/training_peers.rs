//! Compares the same training batches of shardpack and of other loaders, with the scripts in benches/peers/training.
//!
//! A round runs every contender once, and measures the bound that divides all its results. A peer that does not install or run on this
//! machine is named with the reason.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    Scale,
    contest::{median, spread},
    photographs::{Kind, Photographs},
    rows::{clear, fresh, warm},
    training::{Rate, once, packed, whole},
};
use crate::{
    Result,
    command::{output, root, shardpack, write},
    package,
    plot::Bars,
    python,
};

const PLOT: &str = "training-speed.svg";

/// Source of a peer's data.
#[derive(Clone, Copy)]
enum Data {
    /// The original files.
    Files,
    /// Output of `shardpack pack --format`.
    Shards(&'static str),
    /// Output of `shardpack pack`, with `--crops` or without.
    Packed { crops: bool },
    /// Written by the peer's own program.
    Own,
}

/// An interpreter, and a folder to put before its packages.
type Python = (PathBuf, Option<PathBuf>);

struct Peer {
    name: &'static str,
    /// NAME in with_NAME.py.
    program: &'static str,
    data: Data,
    python: fn() -> Result<Python>,
}

const PEERS: [Peer; 13] = [
    Peer {
        name: "shardpack from Python, crop tables",
        program: "shardpack",
        data: Data::Packed { crops: true },
        python: package,
    },
    Peer { name: "shardpack from Python", program: "shardpack", data: Data::Packed { crops: false }, python: package },
    Peer { name: "FFCV, its own JPEGs", program: "ffcv", data: Data::Own, python: ffcv },
    Peer { name: "tf.data, TFRecord", program: "tensorflow", data: Data::Shards("tfrecord"), python: tensorflow },
    Peer { name: "torchvision.io, files", program: "torchvision_io", data: Data::Files, python: torch },
    Peer { name: "DALI on the CPU, files", program: "dali", data: Data::Files, python: dali },
    Peer { name: "torchvision and Pillow, files", program: "pillow", data: Data::Files, python: torch },
    Peer { name: "LitData and Pillow", program: "litdata", data: Data::Own, python: overlaid },
    Peer { name: "MosaicML Streaming and Pillow", program: "streaming", data: Data::Shards("mds"), python: torch },
    Peer { name: "webdataset and Pillow", program: "webdataset", data: Data::Shards("webdataset"), python: torch },
    Peer { name: "LMDB and Pillow", program: "lmdb", data: Data::Own, python: overlaid },
    Peer { name: "Hugging Face datasets and Pillow", program: "huggingface", data: Data::Own, python: huggingface },
    Peer { name: "SPDL, files", program: "spdl", data: Data::Files, python: overlaid },
];

fn package() -> Result<Python> {
    package::installed().map(|python| (python, None))
}

fn torch() -> Result<Python> {
    Ok((python::streaming()?, None))
}

fn overlaid() -> Result<Python> {
    python::with_packages("training-packages", "benches/training.txt")
        .map(|(python, packages)| (python, Some(packages)))
}

fn ffcv() -> Result<Python> {
    python::with_packages("ffcv-packages", "benches/ffcv.txt").map(|(python, packages)| (python, Some(packages)))
}

fn huggingface() -> Result<Python> {
    Ok((python::streaming()?, Some(python::packages_of(&python::sidecars()?)?)))
}

fn dali() -> Result<Python> {
    Ok((python::dali()?, None))
}

fn tensorflow() -> Result<Python> {
    Ok((python::tensorflow()?, None))
}

/// A peer that is ready to run.
struct Ready<'a> {
    peer: &'a Peer,
    python: Python,
    data: PathBuf,
}

/// Results of one epoch of a peer.
pub struct Epoch {
    pub rate: Rate,
    /// Seconds from the end of imports to the first batch.
    first_seconds: f64,
    versions: String,
}

impl Peer {
    /// Installs the peer and writes its data.
    fn prepare(&self, scale: &Scale, tree: &Path) -> Result<Ready<'_>> {
        let python = (self.python)()?;
        let data = match self.data {
            Data::Files => tree.to_owned(),
            Data::Shards(format) => packed(tree, format, &["--format", format, "--shard-size", "64MiB"])?,
            Data::Packed { crops: true } => packed(tree, "python-crops", &["--crops"])?,
            Data::Packed { crops: false } => packed(tree, "python-plain", &[])?,
            Data::Own => fresh(self.program)?,
        };
        let ready = Ready { peer: self, python, data };
        if matches!(self.data, Data::Own) {
            ready.run(scale, &["write".as_ref(), tree, &ready.data])?;
            warm(&ready.data)?;
        }
        Ok(ready)
    }
}

impl Ready<'_> {
    fn run(&self, scale: &Scale, words: &[&Path]) -> Result<String> {
        let (python, packages) = &self.python;
        let program = root().join(format!("benches/peers/training/with_{}.py", self.peer.program));
        let mut command = scale.under(python, [&program]);
        command.args(words).env("PYTHONDONTWRITEBYTECODE", "1").envs(packages.iter().map(|path| ("PYTHONPATH", path)));
        output(&mut command)
    }

    fn epoch(&self, scale: &Scale) -> Result<Epoch> {
        let said = self.run(scale, &["read".as_ref(), &self.data])?;
        let epoch = Epoch::read(said.lines().last().unwrap_or_default())?;
        println!("   {}: {:.0} images/s", self.peer.name, epoch.rate.rate);
        Ok(epoch)
    }
}

impl Epoch {
    /// Reads the line that a program prints.
    pub fn read(json: &str) -> Result<Self> {
        let found: Value = serde_json::from_str(json).map_err(|error| format!("printed {json:?}: {error}"))?;
        let number = |what: &str| found[what].as_f64().ok_or_else(|| format!("printed {json:?}, without {what}"));
        let (images, seconds, cpu_seconds) = (number("images")?, number("seconds")?, number("cpu_seconds")?);
        let versions = found["versions"].as_object().into_iter().flatten();
        let versions: Vec<_> =
            versions.map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or("?"))).collect();
        Ok(Self {
            rate: Rate { rate: images / seconds, cpu_seconds: cpu_seconds / images },
            first_seconds: number("first_seconds")?,
            versions: versions.join(", "),
        })
    }
}

/// Name and versions of a contender; per round: rate, rate of the bound, and seconds to the first batch.
struct Line {
    name: String,
    versions: String,
    rounds: Vec<(Rate, Rate, f64)>,
}

/// Prints the reason and returns the text for the page.
fn left_out(peer: &Peer, why: &str) -> String {
    println!("{}: {why}", peer.name);
    format!("\n{}: not measured because it does not install or run here.\n", peer.name)
}

/// The table on batches of random crops, for all contenders.
pub fn training_peers(scale: &Scale) -> Result<String> {
    let photographs = Photographs::new(Kind::Small, scale);
    let (tree, mean_bytes) = photographs.make()?;
    let (plain, crops) = (packed(&tree, "plain", &[])?, packed(&tree, "crops", &["--crops"])?);
    let ours = [("shardpack, crop tables", &crops), ("shardpack", &plain)];
    let (mut peers, mut missing) = (Vec::new(), String::new());
    for peer in &PEERS {
        println!("   getting ready: {}", peer.name);
        match peer.prepare(scale, &tree) {
            Ok(ready) => peers.push(ready),
            Err(why) => missing += &left_out(peer, &why),
        }
    }
    warm(&tree)?;
    let line = |name: &str| Line { name: name.to_owned(), versions: String::new(), rounds: Vec::new() };
    let mut lines: Vec<_> =
        ours.iter().map(|one| line(one.0)).chain(peers.iter().map(|one| line(one.peer.name))).collect();
    for round in 0..scale.rounds {
        println!("   round {}", round + 1);
        let mut found = Vec::new();
        for (_, shards) in ours {
            found.push(once(scale, &shardpack("release"), shards, "train")?);
        }
        let bound = whole(scale, &tree)?;
        for (line, found) in lines.iter_mut().zip(found) {
            line.rounds.push((found.crops, bound, found.first_seconds()));
        }
        for (line, ready) in lines[ours.len()..].iter_mut().zip(&peers) {
            // A peer that has failed is not run again.
            if line.rounds.len() < round {
                continue;
            }
            match ready.epoch(scale) {
                Ok(epoch) => {
                    line.rounds.push((epoch.rate, bound, epoch.first_seconds));
                    line.versions = epoch.versions;
                }
                Err(why) => missing += &left_out(ready.peer, &why),
            }
        }
    }
    lines.retain(|line| line.rounds.len() == scale.rounds);
    lines.sort_by(|one, other| other.speed().total_cmp(&one.speed()));
    if scale.is_for_the_page() {
        write(&root().join("docs/explain").join(PLOT), plot(&lines))?;
    }
    clear()?;
    let bounds = lines.first().map_or(&[][..], |line| &line.rounds);
    let bound = |of: &dyn Fn(&Rate) -> f64| median(bounds.iter().map(|(_, bound, _)| of(bound)).collect());
    Ok(format!(
        "Warm page cache. All loaders make the same kind of batch: random crops resized to 224 × 224, half of the \
         crops flipped, uint8, batches of 64, in random order. Each peer uses two threads or two processes, whichever \
         is its best setup (`benches/peers/training`, one program per peer). {}; {} interleaved rounds. `decode` is \
         the rate of libjpeg-turbo, which decodes the same images in full, from memory, in two processes, in the same \
         round: {:.0} images/s, {:.2} ms of CPU time per image. CPU time covers all threads and processes. Each peer \
         has a warm-up of ten batches and is then measured for 7 seconds. shardpack is measured from opening the \
         dataset, for 8 seconds or one epoch. The time to first batch excludes imports.\n\n\
         | | images/s | ÷ decode | CPU ÷ decode's | first batch | versions |\n|---|---:|---:|---:|---:|---|\n{}{missing}\n\
         ![Images per second and CPU time, relative to a full decode]({PLOT})\n",
        photographs.describe(mean_bytes),
        scale.rounds,
        bound(&|bound| bound.rate),
        bound(&|bound| bound.cpu_seconds * 1e3),
        lines.iter().map(Line::row).collect::<String>(),
    ))
}

impl Line {
    fn numbers(&self, of: impl Fn(&(Rate, Rate, f64)) -> f64) -> Vec<f64> {
        self.rounds.iter().map(of).collect()
    }

    fn speed(&self) -> f64 {
        median(self.numbers(|(rate, bound, _)| rate.rate / bound.rate))
    }

    fn cpu(&self) -> Vec<f64> {
        self.numbers(|(rate, bound, _)| rate.cpu_seconds / bound.cpu_seconds)
    }

    fn row(&self) -> String {
        format!(
            "| {} | {:.0} | {} | {} | {:.2} s | {} |\n",
            self.name,
            median(self.numbers(|(rate, ..)| rate.rate)),
            spread(self.numbers(|(rate, bound, _)| rate.rate / bound.rate), 2),
            spread(self.cpu(), 2),
            median(self.numbers(|(.., first)| *first)),
            self.versions,
        )
    }
}

fn plot(lines: &[Line]) -> String {
    let row =
        |line: &Line| (line.name.clone(), vec![line.speed(), median(line.cpu())], line.name.starts_with("shardpack"));
    let bars = Bars {
        panels: vec!["images/s ÷ decode (higher is better)", "CPU time ÷ decode's (lower is better)"],
        rows: lines.iter().map(row).collect(),
    };
    bars.svg("Training batches: speed and CPU time relative to a full decode by libjpeg-turbo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_is_read() {
        let line = r#"{"images": 100, "seconds": 2.0, "cpu_seconds": 4.0, "first_seconds": 0.5, "versions": {"a": "1", "b": "2"}}"#;
        let epoch = Epoch::read(line).unwrap();
        assert_eq!((epoch.rate.rate, epoch.rate.cpu_seconds, epoch.first_seconds), (50.0, 0.04, 0.5));
        assert_eq!(epoch.versions, "a 1, b 2");
        assert!(Epoch::read("{}").is_err_and(|error| error.contains("images")));
        assert!(Epoch::read("").is_err());
    }

    #[test]
    fn each_peer_has_its_program() {
        for peer in &PEERS {
            let path = root().join(format!("benches/peers/training/with_{}.py", peer.program));
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.contains("run(read, write)"), matches!(peer.data, Data::Own), "{}", path.display());
        }
    }
}
