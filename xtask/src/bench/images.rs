//! Benchmarks reading and changing images: one function per table.

use super::{
    Scale,
    contest::{Contender, contest},
    rows::{clear, fresh, pack_command, sync, trees, warm},
};
use crate::{Result, command::command, python};

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

/// pack of smaller images against a pool of processes with Pillow.
pub fn resize(scale: &Scale) -> Result<String> {
    let [tree, _] = trees(scale);
    let (path, python) = (tree.make()?, python::peers()?);
    warm(&path)?;
    let by_pillow = || {
        let mut resize = command(&python, ["benches/peers/resize.py"]);
        resize.arg(&path).arg(fresh("resized")?).arg(SHORT);
        Ok(resize)
    };
    let contenders = [
        Contender::new("shardpack pack --resize 256", || pack_command(&path, "shards", &["--resize", SHORT])),
        Contender { counts_itself: true, ..Contender::new("Pillow, one process per core, files only", by_pillow) },
    ];
    let results = contest(scale.rounds, &contenders, sync)?;
    let text = format!(
        "Warm page cache, shorter side resized to 256, JPEG quality 90. `shardpack pack --resize 256 SRC DST` includes \
         shards, hashes and sync. `benches/peers/resize.py` writes files only and does not pack. {}, {} \
         rounds:\n\n{}",
        tree.describe(),
        scale.rounds,
        results.table()
    );
    clear().map(|()| text)
}
