//! Benchmarks samples that are not images: small values of an LMDB, against plain loops over py-lmdb and the writers of their formats.

use std::path::Path;

use super::{
    Scale,
    contest::{Contender, contest},
    rows::{clear, fresh, sync},
};
use crate::{
    Result,
    command::{command, output, run, shardpack},
    python,
};

const SCRIPT: &str = "benches/peers/values.py";
const SAMPLES: u64 = 200_000;

/// Converts an LMDB of pickled dicts to webdataset and to MDS.
pub fn values(scale: &Scale) -> Result<String> {
    let samples = SAMPLES / scale.smaller;
    let (peers, streaming) = (python::peers()?, python::streaming()?);
    let source = fresh("values.lmdb")?;
    run(command(&peers, [SCRIPT, "make", &samples.to_string()]).arg(&source))?;
    run(command("sh", ["-c", "cat \"$0\" > /dev/null"]).arg(&source))?;
    // The environment with MosaicML's writer has no LMDB.
    let packages = output(&mut command(
        &peers,
        ["-c", "import lmdb, os; print(os.path.dirname(os.path.dirname(lmdb.__file__)))"],
    ))?;
    let mut text = format!(
        "Warm page cache. The source is an LMDB of {samples} pickles `{{\"x\": float32[40], \"a\": float, \"b\": \
         int}}`: `shardpack convert --format FORMAT LMDB DST`, and a plain loop over py-lmdb, pickle and the writer of \
         the format (`{SCRIPT}`, import time excluded, no shuffle).\n"
    );
    for (format, peer, python, packages) in [
        ("webdataset", "webdataset 1.0.2 ShardWriter", &peers, None),
        ("mds", "mosaicml-streaming 0.13.0 MDSWriter", &streaming, Some(packages.trim())),
    ] {
        let convert = || {
            let mut convert = command(shardpack("release"), ["convert", "--quiet", "--format", format]);
            convert.arg(&source).arg(fresh("shards")?);
            Ok(convert)
        };
        let by_loop = || {
            let mut write = command(python, [Path::new(SCRIPT), Path::new(format)]);
            write.arg(&source).arg(fresh("by-loop")?).args(packages);
            Ok(write)
        };
        let contenders = [
            Contender::new(&format!("shardpack convert --format {format}"), convert),
            Contender { counts_itself: true, ..Contender::new(peer, by_loop) },
        ];
        let results = contest(scale.rounds, &contenders, sync)?;
        text += &format!("\nOutput in {format}, {} rounds:\n\n{}", scale.rounds, results.table());
    }
    clear().map(|()| text)
}
