//! Benchmarks rows of a Python loop: `shardpack.Writer`, and the writers of webdataset and MosaicML.

use std::path::{Path, PathBuf};

use super::{
    Scale,
    contest::{Contender, contest},
    rows::{clear, fresh, sync},
};
use crate::{Result, command::command, package, python};

const SCRIPT: &str = "benches/peers/rows.py";
/// Name of the rows in the script, their values, and their number.
const KINDS: [(&str, &str, u64); 2] = [
    ("photographs", "110 KB of bytes that begin as a JPEG, and a label", 20_000),
    ("small", "a label, a float and a text of 10 bytes", 200_000),
];

/// Writes rows of both kinds with each writer.
pub fn python_rows(scale: &Scale) -> Result<String> {
    let (own, peers) = (package::installed()?, python::streaming()?);
    let mut text = format!(
        "One Python process a writer (`{SCRIPT}`), import time excluded, every file synced. `shardpack.Writer` also \
         shuffles, hashes and writes an index; it writes each row twice, first to the spool.\n"
    );
    for (kind, about, rows) in KINDS {
        let rows = rows / scale.smaller;
        let by = |tool: &'static str, python: &PathBuf| {
            let python = python.clone();
            move || {
                let mut write = command(&python, [Path::new(SCRIPT), Path::new(tool), Path::new(kind)]);
                write.arg(rows.to_string()).arg(fresh("rows")?);
                Ok(write)
            }
        };
        let contender = |name, write| Contender { counts_itself: true, ..Contender::new(name, write) };
        let contenders = [
            contender("shardpack.Writer", by("shardpack", &own)),
            contender("webdataset 1.0.2 ShardWriter", by("webdataset", &peers)),
            contender("shardpack.Writer, format mds", by("shardpack-mds", &own)),
            contender("mosaicml-streaming 0.13.0 MDSWriter", by("mds", &peers)),
        ];
        let results = contest(scale.rounds, &contenders, sync)?;
        text += &format!("\n{rows} rows of {about}, {} rounds:\n\n{}", scale.rounds, results.table());
    }
    clear().map(|()| text)
}
