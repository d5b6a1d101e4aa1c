//! Benchmarks raw samples in training order against plain reads of the same shards, with the example `raw` of shardpack-loader.
//!
//! All ranks of an epoch together read as many bytes as `cat`. Each row measures a process, or one process per rank, from start to end.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Scale,
    cold::Cold,
    contest::{Contender, contest},
    rows::{PHOTO_BYTES, clear, sync, trees, warm},
    slow::{HARD_DISK, Slow, SlowDisk, Speed, VOLUME},
    training::packed,
    trees::Tree,
};
use crate::{
    Result,
    command::{cargo, command, run, target},
};

/// Epochs of the long run. The kernel clears memory on first use, which is a large part of a short run.
const EPOCHS: u64 = 5;

const CAT: &str = "for epoch in $(seq \"$1\"); do cat \"$0\"/*.tar; done > /dev/null";
/// Reads the files as a DataLoader with two workers does.
const FILES: &str = "find \"$0\" -type f -print0 | shuf -z | xargs -0 -P 2 -n 64 cat > /dev/null";
/// Each rank has a quarter of the usual memory per rank, because each rank has as many lanes as a single rank.
const EIGHT: &str = "for rank in 0 1 2 3 4 5 6 7; do \"$2\" \"$0\" $rank 8 \"$1\" 64 > /dev/null & ids=\"$ids $!\"; done; \
                     for id in $ids; do wait $id || exit 1; done";

fn shell(script: &str, path: &Path, epochs: u64) -> Command {
    let mut shell = command("sh", ["-c", script]);
    shell.arg(path).arg(epochs.to_string()).arg(program());
    shell
}

fn program() -> PathBuf {
    target("release/examples/raw")
}

fn one_rank(shards: &Path, epochs: u64) -> Command {
    let mut raw = command(program(), [shards]);
    raw.args(["0", "1", &epochs.to_string()]);
    raw
}

/// Ranks that read a dataset, and `cat` for comparison.
fn ranks(shards: &Path, epochs: u64) -> [(&'static str, Command); 3] {
    [
        ("`cat` of the shards", shell(CAT, shards, epochs)),
        ("one rank, 256 MiB", one_rank(shards, epochs)),
        ("eight ranks in eight processes, 64 MiB each", shell(EIGHT, shards, epochs)),
    ]
}

/// As [`ranks`], plus reading each file by itself.
fn ranks_and_files(shards: &Path, tree: &Path) -> Vec<(&'static str, Command)> {
    let files = ("the files in a random order, two readers", shell(FILES, tree, 1));
    ranks(shards, 1).into_iter().chain([files]).collect()
}

/// The table: from the page cache, from the disk, and from slow disks.
pub fn raw(scale: &Scale) -> Result<String> {
    run(&mut cargo("build --release --package shardpack-loader --example raw"))?;
    let [tree, _] = trees(scale);
    let path = tree.make()?;
    let shards = packed(&path, "shards", &[])?;
    let mut text = format!(
        "Each run reads all samples of an epoch and decodes none. The ranks read in lane order. {}, packed.\n",
        tree.describe()
    );
    for epochs in [EPOCHS, 1] {
        let commands = ranks(&shards, epochs);
        let contenders: Vec<_> = commands
            .iter()
            .map(|(name, inner)| Contender::new(name, || Ok(command(inner.get_program(), inner.get_args()))))
            .collect();
        let results = contest(scale.rounds, &contenders, || warm(&shards))?;
        text +=
            &format!("\nWarm page cache, epochs per run: {epochs}; {} rounds:\n\n{}", scale.rounds, results.table());
    }
    let (cold, commands) = (Cold::best(), ranks_and_files(&shards, &path));
    let contenders: Vec<_> = commands
        .iter()
        .map(|(name, inner)| Contender::new(name, || Ok(command(inner.get_program(), inner.get_args()))))
        .collect();
    let forget = || sync().and_then(|()| cold.forget(&shards)).and_then(|()| cold.forget(&path));
    let results = contest(scale.rounds, &contenders, forget)?;
    text += &format!("\nCold page cache, {}; {} rounds:\n\n{}", cold.describe(), scale.rounds, results.table());
    text += &slow(scale)?;
    clear().map(|()| text)
}

/// The rows for disks that the kernel slows down.
fn slow(scale: &Scale) -> Result<String> {
    let tree = Tree { files: (2_000 / scale.smaller).max(100), mean_bytes: PHOTO_BYTES };
    let path = tree.make()?;
    if let Err(why) = SlowDisk::new(&path, "try", Slow::Reads, HARD_DISK) {
        return Ok(format!("\nThrottled disk: not measured, because the disk cannot be throttled here: {why}.\n"));
    }
    if matches!(Cold::best(), Cold::Advise) {
        return Ok("\nThrottled disk: not measured, because the page cache cannot be dropped here.\n".to_owned());
    }
    let shards = packed(&path, "few", &[])?;
    let mut text = String::new();
    for speed in [HARD_DISK, VOLUME] {
        text += &slowed(scale, &tree, &path, &shards, speed)?;
    }
    Ok(text)
}

fn slowed(scale: &Scale, tree: &Tree, path: &Path, shards: &Path, speed: Speed) -> Result<String> {
    let commands = ranks_and_files(shards, path);
    // One control group per command, to count its requests.
    let disk = |number: usize| SlowDisk::new(path, &format!("raw-{number}"), Slow::Reads, speed);
    let disks = (0..commands.len()).map(disk).collect::<Result<Vec<_>>>()?;
    let contenders: Vec<_> = commands
        .iter()
        .zip(&disks)
        .map(|((name, command), disk)| Contender::new(name, || Ok(disk.enter(command))))
        .collect();
    let results = contest(scale.rounds, &contenders, || sync().and_then(|()| Cold::DropCaches.forget(path)))?;
    let images = (scale.rounds as u64 * tree.files) as f64;
    let counts =
        commands.iter().zip(&disks).map(|((name, _), disk)| Ok(format!("{name} {:.2}", disk.reads()? as f64 / images)));
    let counts = counts.collect::<Result<Vec<_>>>()?.join("; ");
    Ok(format!(
        "\nThe kernel limits the disk reads of a control group to {}. Each run starts with a cold page cache; program \
         files are evicted too. {}, packed; {} rounds:\n\n{}\nRead requests per image: {counts}.\n",
        speed.describe(),
        tree.describe(),
        scale.rounds,
        results.table()
    ))
}
