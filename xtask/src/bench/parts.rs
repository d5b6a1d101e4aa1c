//! Benchmarks `shardpack.decode` of parts of JPEGs in memory against the decoders that loops of others call, each on one thread.

use super::{
    Scale,
    contest::{Contender, contest_of_peers},
    photographs::{Kind, Photographs},
};
use crate::{Result, command::command, package, python};

const SCRIPT: &str = "benches/peers/parts.py";
const CROPS: u64 = 2_000;
const TOOLS: [&str; 6] = ["shardpack with tables", "shardpack", "simplejpeg", "PyTurboJPEG", "torchvision", "Pillow"];

/// Random crops as they are, and resized.
pub fn parts(scale: &Scale) -> Result<String> {
    let photographs = Photographs::new(Kind::Small, scale);
    let (tree, mean_bytes) = photographs.make()?;
    let own = package::installed()?;
    let (peers, packages) = python::with_packages("training-packages", "benches/training.txt")?;
    let crops = (CROPS / scale.smaller).max(200).to_string();
    let mut text = format!(
        "Random crops of JPEGs in memory, one after the other on one thread (`{SCRIPT}`, without imports, and without making \
         tables): `shardpack.decode(content, box=box, table=table, reduce=False)`, and tools that decode the whole image and cut it; simplejpeg \
         and PyTurboJPEG are libjpeg-turbo, their pixels are resized by Pillow. PyTurboJPEG needs libturbojpeg. {}; {crops} crops, \
         {} rounds.\n",
        photographs.describe(mean_bytes),
        scale.rounds
    );
    for (kind, what) in [("crop", "The pixels of the crop"), ("resized", "Resized to 224 × 224")] {
        let contenders = TOOLS.map(|tool| {
            let (tree, own, peers, packages, crops) = (&tree, &own, &peers, &packages, &crops);
            let run = move || {
                let is_own = tool.starts_with("shardpack");
                let mut run = command(if is_own { own } else { peers }, [SCRIPT, tool, kind]);
                run.arg(tree).arg(crops).env("PYTHONDONTWRITEBYTECODE", "1");
                if !is_own {
                    run.env("PYTHONPATH", packages);
                }
                Ok(run)
            };
            Contender { counts_itself: true, ..Contender::new(tool, run) }
        });
        let (results, missing) = contest_of_peers(scale.rounds, &contenders, || Ok(()))?;
        text += &format!("\n{what}:\n\n{}{missing}", results.table());
    }
    Ok(text)
}
