//! Measures how long a training waits for each of 1,000 batches, from the page cache and from a slow disk, for the package and others.
//!
//! The training is a sleep after each batch, so only data can make it wait. Programs are loaded before the disk becomes slow for them.
//! Needs root for the slow disk.

use std::path::Path;

use serde_json::Value;

use super::{
    Scale,
    cold::Cold,
    contest::median,
    photographs::{Kind, Photographs},
    process::measure,
    rows::{clear, sync, warm},
    slow::{HARD_DISK, Slow, SlowDisk},
    training::packed,
};
use crate::{
    Result,
    command::{command, root, write},
    package,
    plot::Points,
    python,
};

const PLOT: &str = "waits.svg";
/// The same number as in meter.py.
const STEPS: u64 = 1_000;
const BATCH: u64 = 16;
/// Step of a model that takes 400 images a second.
const STEP_SECONDS: f64 = 0.04;

/// Name, program, threads or processes, and whether the reader reads files.
const READERS: [(&str, &str, usize, bool); 4] = [
    ("ImageFolder, DataLoader with 2 workers", "pillow", 2, true),
    ("shardpack.Loader, 2 threads", "shardpack", 2, false),
    ("webdataset, 2 workers", "webdataset", 2, false),
    ("ImageFolder, DataLoader with 8 workers", "pillow", 8, true),
];

/// Seconds waited for each batch.
struct Waits(Vec<f64>);

/// The table and the plot.
pub fn waits(scale: &Scale) -> Result<String> {
    let photographs = Photographs { files: STEPS * BATCH, kind: Kind::Small, given: scale.photos.clone() };
    let (tree, mean_bytes) = photographs.make()?;
    let (ours, theirs) = (package::installed()?, python::streaming()?);
    let shards = packed(&tree, "waits", &["--crops"])?;
    let place = |is_files: bool| if is_files { &tree } else { &shards };
    let mut panels = Vec::new();
    let mut text = format!(
        "A Python loop simulates training: it sleeps {:.0} ms for each batch of {BATCH}. The tables show its waiting \
         time for {STEPS} batches of random crops of 224, with flips, in random order (`benches/peers/training`). {}; \
         shardpack and webdataset read the same shards. One run each.\n",
        STEP_SECONDS * 1e3,
        photographs.describe(mean_bytes)
    );
    for slow in [false, true] {
        let what = match slow {
            false => "files in the page cache".to_owned(),
            true => format!("a disk of {}", HARD_DISK.describe()),
        };
        if slow && matches!(Cold::best(), Cold::Advise) {
            text += "\nThrottled disk: not measured, because the page cache cannot be dropped here.\n";
            continue;
        }
        let mut found = Vec::new();
        for (number, (name, program, workers, is_files)) in READERS.into_iter().enumerate() {
            let data = place(is_files);
            let disk = match slow {
                false => warm(data).map(|()| None)?,
                true => {
                    sync().and_then(|()| Cold::DropCaches.forget(data))?;
                    Some(SlowDisk::new(data, &format!("waits-{number}"), Slow::Reads, HARD_DISK)?)
                }
            };
            let python = if program == "shardpack" { &ours } else { &theirs };
            let waits = Waits::measure(python, program, workers, data, disk.as_ref())?;
            println!("   {what}, {name}: waits {:.1} s", waits.0.iter().sum::<f64>());
            found.push((name, waits));
        }
        text += &format!("\n{}{}:\n\n{}", what[..1].to_uppercase(), &what[1..], table(&found));
        panels.push((what, found.into_iter().map(|(_, waits)| waits.0).collect()));
    }
    clear()?;
    if scale.is_for_the_page() {
        let names = READERS.map(|reader| reader.0.to_owned()).to_vec();
        let ticks =
            vec![(1e-4, "0.1 ms"), (1e-3, "1 ms"), (1e-2, "10 ms"), (0.1, "100 ms"), (1.0, "1 s"), (10.0, "10 s")];
        let points = Points { names, panels, steps: "batch", ticks };
        write(
            &root().join("docs/explain").join(PLOT),
            points.svg("Waiting time of training for each of 1,000 batches"),
        )?;
    }
    Ok(format!("{text}\n![Waiting time of training for each of 1,000 batches]({PLOT})\n"))
}

impl Waits {
    fn measure(python: &Path, program: &str, workers: usize, data: &Path, disk: Option<&SlowDisk>) -> Result<Self> {
        let program = root().join(format!("benches/peers/training/with_{program}.py"));
        let mut train = command(python, [program.as_path(), "read".as_ref(), data]);
        train.env("PYTHONDONTWRITEBYTECODE", "1").env("BATCH", BATCH.to_string()).env("WORKERS", workers.to_string());
        train.env("STEP_SECONDS", STEP_SECONDS.to_string()).envs(disk.map(|disk| ("GROUP", disk.processes())));
        let (_, printed) = measure(&mut train)?;
        Self::read(printed.lines().last().unwrap_or_default())
    }

    fn read(json: &str) -> Result<Self> {
        let found: Value = serde_json::from_str(json).map_err(|error| format!("printed {json:?}: {error}"))?;
        let waits = found["waits"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect::<Vec<_>>();
        if waits.len() as u64 != STEPS {
            Err(format!("printed {} waits, not {STEPS}", waits.len()))
        } else {
            Ok(Self(waits))
        }
    }

    /// The `part` quantile of all waits except the first.
    fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0[1..].to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * part) as usize]
    }
}

fn table(found: &[(&str, Waits)]) -> String {
    let mut table = "| | waits, in all | of the time | first batch | median | 99 % | longest |\n|---|---:|---:|---:|---:|---:|---:|\n".to_owned();
    for (name, waits) in found {
        let all: f64 = waits.0.iter().sum();
        let part = all / (all + STEP_SECONDS * STEPS as f64) * 100.0;
        table += &format!(
            "| {name} | {all:.1} s | {part:.0} % | {:.2} s | {:.2} ms | {:.0} ms | {:.0} ms |\n",
            waits.0[0],
            median(waits.0[1..].to_vec()) * 1e3,
            waits.quantile(0.99) * 1e3,
            waits.quantile(1.0) * 1e3,
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_json() {
        let seconds: Vec<f64> = (0..STEPS).map(|number| number as f64 / 1e3).collect();
        let waits = Waits::read(&serde_json::json!({ "waits": seconds }).to_string()).unwrap();
        assert_eq!((waits.quantile(0.0), waits.quantile(1.0)), (0.001, 0.999));
        assert!(table(&[("x", waits)]).ends_with("| x | 499.5 s | 93 % | 0.00 s | 500.00 ms | 989 ms | 999 ms |\n"));
        assert!(Waits::read(r#"{"waits": [1.0]}"#).is_err_and(|error| error.contains("1 waits")));
    }
}
