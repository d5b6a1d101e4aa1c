//! What it costs to look at images and to change them: one function a table.

use super::{
    Scale,
    contest::{Contender, contest},
    rows::{clear, fresh, pack_command, settle, trees, warm},
};
use crate::{
    Result,
    command::{cargo, command, output, run, target},
    python, tools,
};

/// What is asked of the shorter side.
const SHORT: &str = "256";

/// pack with what has to look at images, against pack without.
pub fn selection(scale: &Scale) -> Result<String> {
    let options: [(&str, &[&str]); 6] = [
        ("pack", &[]),
        ("pack --dedup exact", &["--dedup", "exact"]),
        ("pack --min-side 16", &["--min-side", "16"]),
        ("pack --check entropy", &["--check", "entropy"]),
        ("pack --check full", &["--check", "full"]),
        ("pack --near-duplicates", &["--near-duplicates"]),
    ];
    let mut text = "From the page cache, to webdataset: `shardpack pack OPTIONS SRC DST`.\n".to_owned();
    // Decoding 200,000 images tells nothing that 10,000 do not.
    for (tree, options) in trees(scale).into_iter().zip([&options[..], &options[..3]]) {
        let path = tree.make()?;
        warm(&path)?;
        let contenders: Vec<_> = options
            .iter()
            .map(|(name, options)| Contender::new(name, || pack_command(&path, "shards", options)))
            .collect();
        let results = contest(scale.rounds, &contenders, settle)?;
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
        Contender::new("the same, built with --features turbo", with_turbo),
        Contender { counts_itself: true, ..Contender::new("Pillow, a process a core, files alone", by_pillow) },
    ];
    let results = contest(scale.rounds, &contenders, settle)?;
    let mut example = cargo("build --release --package shardpack-imaging --features turbo --example resize_speed");
    run(example.arg("--target-dir").arg(&turbo).env("PATH", &tools))?;
    let rounds = (4 * scale.rounds).to_string();
    let example = turbo.join("release/examples/resize_speed");
    let bound = output(&mut command(example, ["fixtures/photos", "100", &rounds]))?;
    let text = format!(
        "From the page cache, the shorter side to 256, JPEG quality 90: `shardpack pack --resize 256 SRC DST`, shards, hashes and \
         sync included; and `benches/peers/resize.py`, which writes files and packs nothing. {}, {} rounds:\n\n{}\n\
         The bound, one image on one thread: the example `resize_speed` of shardpack-imaging on `fixtures/photos`, in turns; the \
         shortest of the rounds counts.\n\n{bound}",
        tree.describe(),
        scale.rounds,
        results.table()
    );
    clear().map(|()| text)
}
