//! Benchmarks samples that are more than an image: masks, several views, and arrays of different lengths.

use std::path::Path;

use super::{
    Scale,
    contest::{Contender, contest},
    photographs::{Kind, Photographs},
    rows::{clear, fresh, warm},
};
use crate::{
    Result,
    command::{command, run},
    package, python,
};

const SCRIPT: &str = "benches/peers/samples.py";
const TOKENS: u64 = 1_000_000;

/// Masks, views and tokens.
pub fn samples(scale: &Scale) -> Result<String> {
    let (own, peers) = (package::installed()?, python::streaming()?);
    let parts = [images(scale, &own, &peers)?, tokens(scale, &own)?];
    clear().map(|()| parts.join("\n"))
}

/// A process of the script, which counts its own time.
fn by<'a>(name: &str, python: &'a Path, words: &'a [&'a str], paths: &'a [&'a Path]) -> Contender<'a> {
    let made = move || {
        let mut read = command(python, [SCRIPT]);
        read.args(words.iter().take(1)).args(paths).args(words.iter().skip(1));
        Ok(read)
    };
    Contender { counts_itself: true, ..Contender::new(name, made) }
}

fn images(scale: &Scale, own: &Path, peers: &Path) -> Result<String> {
    let photographs = Photographs::new(Kind::Small, scale);
    let (tree, mean_bytes) = photographs.make()?;
    let count = (5_000 / scale.smaller).max(100).to_string();
    let dataset = fresh("masks")?;
    run(command(own, [SCRIPT, "make-masks"]).arg(&tree).arg(&count).arg(&dataset))?;
    let (packed, tree) = ([dataset.as_path()], [tree.as_path()]);
    let masks = [
        by("random crops of 224", own, &["image"], &packed),
        by("masks alone, decoded", own, &["masks"], &packed),
        by("random crops with their masks", own, &["image+mask"], &packed),
    ];
    let with_masks = contest(scale.rounds, &masks, || warm(&dataset))?;
    let words = ["views-torchvision", count.as_str()];
    let views = [
        by("`shardpack.Loader`", own, &["views"], &packed),
        by("torchvision v2, DataLoader, two workers", peers, &words, &tree),
    ];
    let with_views = contest(scale.rounds, &views, || warm(&dataset))?;
    Ok(format!(
        "Warm page cache, two threads or processes (`{SCRIPT}`, import time excluded). The first {count} of {}, with a PNG \
         mask of 21 classes each; {} rounds (aim: both together at most 1.25 times the sum of the first two rows):\n\n{}\n2 \
         crops of 224 and 8 of 96 of each image (aim: 3 times):\n\n{}",
        photographs.describe(mean_bytes),
        scale.rounds,
        with_masks.table(),
        with_views.table()
    ))
}

fn tokens(scale: &Scale, own: &Path) -> Result<String> {
    let samples = (TOKENS / scale.smaller).to_string();
    let (lmdb, dataset) = (fresh("tokens.lmdb")?, fresh("tokens")?);
    let (python, packages) = python::with_packages("training-packages", "benches/training.txt")?;
    let with_lmdb = |words: &[&str]| {
        let mut command = command(&python, [SCRIPT]);
        command.args(words).arg(&lmdb).env("PYTHONPATH", &packages);
        command
    };
    run(command(own, [SCRIPT, "make-tokens", &samples]).arg(&dataset))?;
    run(&mut with_lmdb(&["make-lmdb", &samples]))?;
    let packed = [dataset.as_path()];
    let pickles = "DataLoader over an LMDB of pickles, `pad_sequence`, two workers";
    let contenders = [
        by("`shardpack.Loader`, `Ragged.padded`", own, &["tokens"], &packed),
        Contender { counts_itself: true, ..Contender::new(pickles, || Ok(with_lmdb(&["tokens-lmdb"]))) },
    ];
    let results = contest(scale.rounds, &contenders, || warm(&dataset).and_then(|()| warm(&lmdb)))?;
    Ok(format!(
        "Warm page cache. {samples} rows of 8 to 120 int64, in batches of 1,024, padded, in random order; {} rounds (aim: 5 \
         times):\n\n{}",
        scale.rounds,
        results.table()
    ))
}
