//! The package in a loop of Python, without decoding: payloads against `cat` of the shards, arrays against a DataLoader over an LMDB of
//! pickles and against MosaicML's.

use std::path::Path;

use super::{
    Scale,
    contest::{Contender, contest},
    rows::{clear, fresh, trees, warm},
    training::packed,
};
use crate::{
    Result,
    command::{command, run, shardpack},
    package, python,
};

const SCRIPT: &str = "benches/peers/loops.py";
const ARRAYS: u64 = 1_000_000;

/// Payloads of photographs, and small arrays.
pub fn loops(scale: &Scale) -> Result<String> {
    let ours = package::installed()?;
    let text = payloads(scale, &ours)?;
    let text = format!("{text}\n{}", arrays(scale, &ours)?);
    clear().map(|()| text)
}

fn payloads(scale: &Scale, ours: &Path) -> Result<String> {
    let [tree, _] = trees(scale);
    let shards = packed(&tree.make()?, "shards", &[])?;
    let cat = || {
        let mut cat = command("sh", ["-c", "cat \"$0\"/*.tar > /dev/null"]);
        cat.arg(&shards);
        Ok(cat)
    };
    let by_loop = || {
        let mut read = command(ours, [SCRIPT, "payloads"]);
        read.arg(&shards);
        Ok(read)
    };
    let contenders = [
        Contender::new("`cat` of the shards", cat),
        Contender { counts_itself: true, ..Contender::new("`shardpack.Loader`, payloads, 64 a batch", by_loop) },
    ];
    let results = contest(scale.rounds, &contenders, || warm(&shards))?;
    Ok(format!(
        "A loop of Python over an epoch, from the page cache (`{SCRIPT}`; imports are not counted). {}, packed; {} rounds (aim: at most 1.5):\n\n{}",
        tree.describe(),
        scale.rounds,
        results.table()
    ))
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
    run(command(shardpack("release"), ["convert", "--quiet"]).arg(&lmdb).arg(&shards))?;
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
        "{samples} samples of a float32[64] and a number, 1,024 a batch, in a random order, {} rounds (aim: ten times as fast as either):\n\n{}",
        scale.rounds,
        results.table()
    ))
}
