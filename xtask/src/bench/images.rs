//! Benchmarks reading and changing images: one function per table.

use super::{
    Scale,
    contest::{Contender, contest},
    rows::{clear, fresh, pack_command, sync, trees, warm},
};
use crate::{
    Result,
    command::{cargo, command, output, run, target},
    python, tools,
};

/// Requested length of the shorter side.
const SHORT: &str = "256";

/// pack with options that read images, against pack without options.
pub fn selection(scale: &Scale) -> Result<String> {
    let options: [(&str, &[&str]); 6] = [
        ("pack", &[]),
        ("pack --dedup exact", &["--dedup", "exact"]),
        ("pack --min-side 16", &["--min-side", "16"]),
        ("pack --check entropy", &["--check", "entropy"]),
        ("pack --check full", &["--check", "full"]),
        ("pack --near-duplicates", &["--near-duplicates"]),
    ];
    let mut text = "Warm page cache, output in webdataset: `shardpack pack OPTIONS SRC DST`.\n".to_owned();
    // Decoding 200,000 images shows nothing that 10,000 do not.
    for (tree, options) in trees(scale).into_iter().zip([&options[..], &options[..3]]) {
        let path = tree.make()?;
        warm(&path)?;
        let contenders: Vec<_> = options
            .iter()
            .map(|(name, options)| Contender::new(name, || pack_command(&path, "shards", options)))
            .collect();
        let results = contest(scale.rounds, &contenders, sync)?;
        text += &format!("\n{}, {} rounds:\n\n{}", tree.describe(), scale.rounds, results.table());
    }
    clear().map(|()| text)
}

/// pack of smaller images, with and without libjpeg-turbo, against a pool of processes with Pillow; and one image against
/// bare libjpeg-turbo.
pub fn resize(scale: &Scale) -> Result<String> {
    let [tree, _] = trees(scale);
    let (path, python, tools) = (tree.make()?, python::peers()?, tools::path()?);
    let turbo = target("turbo");
    run(cargo("build --release --package shardpack --features turbo --target-dir").arg(&turbo).env("PATH", &tools))?;
    warm(&path)?;
    let by_pillow = || {
        let mut resize = command(&python, ["benches/peers/resize.py"]);
        resize.arg(&path).arg(fresh("resized")?).arg(SHORT);
        Ok(resize)
    };
    let with_turbo = || {
        let mut pack = command(turbo.join("release/shardpack"), ["pack", "--quiet", "--resize", SHORT]);
        pack.arg(&path).arg(fresh("shards")?);
        Ok(pack)
    };
    let contenders = [
        Contender::new("shardpack pack --resize 256", || pack_command(&path, "shards", &["--resize", SHORT])),
        Contender::new("the same command, built with --features turbo", with_turbo),
        Contender { counts_itself: true, ..Contender::new("Pillow, one process per core, files only", by_pillow) },
    ];
    let results = contest(scale.rounds, &contenders, sync)?;
    let mut example = cargo("build --release --package shardpack-imaging --features turbo --example resize_speed");
    run(example.arg("--target-dir").arg(&turbo).env("PATH", &tools))?;
    let rounds = (4 * scale.rounds).to_string();
    let example = turbo.join("release/examples/resize_speed");
    let bound = output(&mut command(example, ["fixtures/photos", "100", &rounds]))?;
    let text = format!(
        "Warm page cache, shorter side resized to 256, JPEG quality 90. `shardpack pack --resize 256 SRC DST` includes \
         shards, hashes and sync. `benches/peers/resize.py` writes files only and does not pack. {}, {} \
         rounds:\n\n{}\n\
         One image on one thread: the example `resize_speed` of shardpack-imaging on `fixtures/photos`. The first row \
         is the bound. Rounds are interleaved; the shortest time of each image counts.\n\n{bound}",
        tree.describe(),
        scale.rounds,
        results.table()
    );
    clear().map(|()| text)
}
