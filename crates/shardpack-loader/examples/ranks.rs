//! One rank of a training run that can be killed at any moment, and resumed with any number of ranks. It trains nothing: it
//! waits a little for each batch, and keeps a checkpoint.
//!
//! ```text
//! ranks train DATASET RUN RANK/WORLD FROM [--wait-ms N]    one rank, from position FROM of the epoch on
//! ranks position RUN                                       the position that all ranks have a checkpoint of
//! ranks prove DATASET RUN                                  adds up what all ranks saw
//! ```
//! A checkpoint is a file `RUN/FROM/RANK-of-WORLD/POSITION.json` with the state and the receipt after a batch. Killed ranks
//! stand at different batches, as in real runs. The run resumes from the last batch that all ranks have; later batches do
//! not count, because no weights remember them.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use shardpack_loader::{Dataset, Error, Loader, Options, Receipt, Result, State};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["train", dataset, run, ranks, from] => train(dataset, Path::new(run), ranks, from, "0"),
        ["train", dataset, run, ranks, from, "--wait-ms", wait_ms] => {
            train(dataset, Path::new(run), ranks, from, wait_ms)
        }
        ["position", run] => {
            println!("{}", position(Path::new(run))?);
            Ok(())
        }
        ["prove", dataset, run] => prove(dataset, Path::new(run)),
        _ => {
            Err(Error::usage("ranks train DATASET RUN RANK/WORLD FROM, ranks position RUN, or ranks prove DATASET RUN"))
        }
    }
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::usage(format!("{text:?} is no number")))
}

fn train(dataset: &str, run: &Path, ranks: &str, from: &str, wait_ms: &str) -> Result<()> {
    let (rank, world) = ranks.split_once('/').ok_or_else(|| Error::usage("a rank is written as 0/2"))?;
    let wait = Duration::from_millis(number(wait_ms)?);
    let options = Options {
        batch: 16,
        rank: number(rank)?,
        world: number(world)?,
        epochs: 1,
        memory_bytes: Some(64 << 20),
        ..Options::default()
    };
    let dataset = Dataset::open(dataset)?;
    let (loader, state) = match checkpoint_at(run, number(from)?)? {
        Some((state, _)) => (Loader::resume(dataset, options, &state)?, state),
        None => {
            let loader = Loader::new(dataset, options)?;
            let state = loader.beginning();
            (loader, state)
        }
    };
    let folder = run.join(from).join(format!("{rank}-of-{world}"));
    std::fs::create_dir_all(&folder).map_err(|error| Error::io("cannot create", error).in_file(&folder))?;
    let mut batches = loader.batches(&state)?;
    while let Some(batch) = batches.next()? {
        // Here a model would learn from `batch`.
        std::thread::sleep(wait);
        let file = folder.join(format!("{:012}.json", batch.state().position));
        let text = format!("{}\n{}\n", batch.state().to_json(), batches.receipt().to_json());
        // Atomic: the file is written whole or not at all.
        let beside = file.with_extension("tmp");
        let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &file));
        written.map_err(|error| Error::io("cannot write", error).in_file(&file))?;
    }
    Ok(())
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io("cannot list", error).in_file(folder))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_none_or(|end| end == "json"));
    paths.sort();
    Ok(paths)
}

/// The starts of a run: position, and the checkpoints of each rank by position.
fn starts(run: &Path) -> Result<BTreeMap<u64, Vec<BTreeMap<u64, PathBuf>>>> {
    let stem = |path: &Path| number(&path.file_stem().unwrap_or_default().to_string_lossy());
    let mut starts = BTreeMap::new();
    for start in list(run)? {
        let folders = list(&start)?;
        let ranks = folders.iter().map(|rank| {
            list(rank)?.into_iter().map(|file| Ok((stem(&file)?, file))).collect::<Result<BTreeMap<_, _>>>()
        });
        starts.insert(stem(&start)?, ranks.collect::<Result<Vec<_>>>()?);
    }
    Ok(starts)
}

/// The last position with a checkpoint of every rank in the last start; without one, the first position of the start.
fn position(run: &Path) -> Result<u64> {
    let starts = starts(run)?;
    let Some((start, ranks)) = starts.last_key_value() else { return Ok(0) };
    let common = ranks.iter().map(|rank| rank.keys().next_back().copied()).min().flatten();
    Ok(common.unwrap_or(*start))
}

fn read(file: &Path) -> Result<(State, Receipt)> {
    let text = std::fs::read_to_string(file).map_err(|error| Error::io("cannot read", error).in_file(file))?;
    let (state, receipt) = text.trim_end().split_once('\n').unwrap_or_default();
    Ok((State::from_json(state)?, Receipt::from_json(receipt)?))
}

/// A checkpoint at this position, of any rank.
fn checkpoint_at(run: &Path, position: u64) -> Result<Option<(State, Receipt)>> {
    if !run.exists() {
        return Ok(None);
    }
    let starts = starts(run)?;
    let mut files = starts.values().flatten().filter_map(|rank| rank.get(&position));
    files.next().map(|file| read(file)).transpose()
}

fn prove(dataset: &str, run: &Path) -> Result<()> {
    let loader = Loader::new(Dataset::open(dataset)?, Options::default())?;
    let starts = starts(run)?;
    let ends = starts.keys().skip(1).copied().chain([loader.dataset().len()]);
    let mut all: Option<Receipt> = None;
    for (ranks, end) in starts.values().zip(ends) {
        for file in ranks.iter().filter_map(|rank| rank.get(&end)) {
            let (_, receipt) = read(file)?;
            match &mut all {
                None => all = Some(receipt),
                Some(all) => all.join(&receipt)?,
            }
        }
    }
    let all = all.ok_or_else(|| Error::usage("no receipts").in_file(run))?;
    let expected = loader.expected(0)?;
    if !all.is_of(&expected) {
        let what =
            format!("{} samples were seen, {} are in the epoch, or others than these", all.samples, expected.samples);
        return Err(Error::data(what).in_file(run));
    }
    println!("every one of {} samples was seen exactly once, in {} starts", all.samples, starts.len());
    Ok(())
}
