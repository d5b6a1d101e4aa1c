//! Benchmarks the package in Python loops: payloads against `cat` of the shards, crops by one rank and by two, arrays against a
//! DataLoader over an LMDB of pickles and against MosaicML's, and first batches.

use std::path::Path;

use super::{
    Scale,
    contest::{Contender, contest, spread},
    photographs::{Kind, Photographs},
    process::measure,
    rows::{clear, fresh, trees, warm},
    training::packed,
};
use crate::{
    Result,
    command::{cargo, command, run, shardpack, target},
    package, python,
};

const SCRIPT: &str = "benches/peers/loops.py";
const ARRAYS: u64 = 1_000_000;

/// Samples per shard in the example `first_batch`.
const SHARD_SAMPLES: u64 = 10_000;

/// Payloads of photographs, crops of them, small arrays, and first batches.
pub fn loops(scale: &Scale) -> Result<String> {
    let ours = package::installed()?;
    let parts = [
        payloads(scale, &ours, 1)?,
        payloads(scale, &ours, 5)?,
        images(scale, &ours)?,
        arrays(scale, &ours)?,
        first(scale, &ours)?,
    ];
    clear().map(|()| parts.join("\n"))
}

/// A loop of the package: its word for the script, the dataset, and the numbers of ranks and epochs.
fn by_loop<'a>(name: &str, ours: &'a Path, word: &'a str, shards: &'a Path, numbers: &[usize]) -> Contender<'a> {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    let made = move || {
        let mut read = command(ours, [SCRIPT, word]);
        read.arg(shards).args(&numbers);
        Ok(read)
    };
    Contender { counts_itself: true, ..Contender::new(name, made) }
}

fn payloads(scale: &Scale, ours: &Path, epochs: usize) -> Result<String> {
    let [tree, _] = trees(scale);
    let shards = packed(&tree.make()?, "shards", &[])?;
    let cat = || {
        let mut cat = command("sh", ["-c", "for epoch in $(seq \"$1\"); do cat \"$0\"/*.tar > /dev/null; done"]);
        cat.arg(&shards).arg(epochs.to_string());
        Ok(cat)
    };
    let rank = |ranks, what: &str| {
        by_loop(&format!("`shardpack.Loader`, {what}"), ours, "payloads", &shards, &[ranks, epochs])
    };
    let contenders = [
        Contender::new("`cat` of the shards, once per epoch", cat),
        rank(1, "one rank"),
        rank(2, "two ranks in two processes"),
    ];
    let results = contest(scale.rounds, &contenders, || warm(&shards))?;
    let what = if epochs == 1 { "one epoch".to_owned() } else { format!("{epochs} successive epochs") };
    Ok(format!(
        "Warm page cache. A Python loop reads the payloads of {what}, in batches of 64 (`{SCRIPT}`, import time \
         excluded). {}, packed; {} rounds (aim: at most 1.5):\n\n{}",
        tree.describe(),
        scale.rounds,
        results.table()
    ))
}

fn images(scale: &Scale, ours: &Path) -> Result<String> {
    let photographs = Photographs::new(Kind::Small, scale);
    let (tree, mean_bytes) = photographs.make()?;
    let shards = packed(&tree, "crops", &["--crops"])?;
    let rank = |ranks, what: &str| by_loop(what, ours, "images", &shards, &[ranks]);
    let contenders = [rank(1, "one rank, two threads"), rank(2, "two ranks in two processes, one thread each")];
    let results = contest(scale.rounds, &contenders, || warm(&shards))?;
    Ok(format!(
        "The same loop over batches of random crops of 224, with flips, from crop tables. {}; {} rounds:\n\n{}",
        photographs.describe(mean_bytes),
        scale.rounds,
        results.table()
    ))
}

/// The table on the time from the constructor to the first batch.
fn first(scale: &Scale, ours: &Path) -> Result<String> {
    const EXAMPLE: &str = "build --release --package shardpack-loader --example first_batch";
    run(&mut cargo(EXAMPLE))?;
    let mut text = "Time to first batch from `Loader(…)` on, by number of samples, at the start of an epoch and when \
                    resuming mid-epoch (aim: 0.2 s). Peak memory includes Python and numpy:\n\n\
                    | samples | first batch | in mid-epoch | peak memory |\n|---:|---:|---:|---:|\n"
        .to_owned();
    for shards in [1, 1_000, 10_000] {
        let shards = (shards / scale.smaller).max(1);
        let folder = fresh("first")?;
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        run(command(target("release/examples/first_batch"), [&folder]).arg(shards.to_string()))?;
        let (mut from_start, mut resumed, mut peak) = (Vec::new(), Vec::new(), 0);
        for _ in 0..scale.rounds {
            let (usage, printed) = measure(command(ours, [SCRIPT, "first"]).arg(&folder))?;
            let numbers: Vec<f64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let [one, other] = numbers[..] else { return Err(format!("printed {printed:?}, not two numbers")) };
            (peak, from_start, resumed) = (
                peak.max(usage.peak_bytes),
                [from_start, vec![one * 1e3]].concat(),
                [resumed, vec![other * 1e3]].concat(),
            );
        }
        let samples = shards * SHARD_SAMPLES;
        text += &format!(
            "| {samples} | {} ms | {} ms | {} MB |\n",
            spread(from_start, 0),
            spread(resumed, 0),
            peak / 1_000_000
        );
    }
    Ok(text)
}

fn arrays(scale: &Scale, ours: &Path) -> Result<String> {
    let samples = ARRAYS / scale.smaller;
    let (python, packages) = python::with_packages("training-packages", "benches/training.txt")?;
    let with = |python: &Path, words: &[&str], paths: &[&Path]| {
        let mut loops = command(python, [SCRIPT]);
        loops.args(words).args(paths).env("PYTHONPATH", &packages);
        loops
    };
    let (lmdb, shards, mds) = (fresh("arrays.lmdb")?, fresh("arrays")?, fresh("arrays-mds")?);
    run(&mut with(&python, &["make", &samples.to_string()], &[&lmdb]))?;
    run(command(shardpack("release"), ["convert", "--quiet", "--format", "mds"]).arg(&lmdb).arg(&shards))?;
    run(&mut with(&python, &["mds"], &[&lmdb, &mds]))?;
    let all = [&lmdb, &shards, &mds];
    let contenders = [
        Contender::new("`shardpack.Loader`", || {
            let mut read = command(ours, [SCRIPT, "arrays"]);
            read.arg(&shards);
            Ok(read)
        }),
        Contender::new("DataLoader over an LMDB of pickles, two workers", || Ok(with(&python, &["lmdb"], &[&lmdb]))),
        Contender::new("MosaicML Streaming 0.13.0, DataLoader, two workers", || {
            Ok(with(&python, &["streaming"], &[&mds]))
        }),
    ]
    .map(|one| Contender { counts_itself: true, ..one });
    let results = contest(scale.rounds, &contenders, || all.into_iter().try_for_each(|path| warm(path)))?;
    Ok(format!(
        "Warm page cache. {samples} samples of a float32[64] and a number, in batches of 1,024, in random order. \
         shardpack reads a dataset packed with `--format mds`. {} rounds (aim: ten times as fast as either \
         peer):\n\n{}",
        scale.rounds,
        results.table()
    ))
}
