//! Compares this checkout with an earlier build of shardpack (`bench --before PROGRAM`): the same commands by both, in turns.
//!
//! The examples `read_speed` and `raw` of the earlier build stand in the folder `examples` beside its program. Nothing is written to
//! docs/, because the result depends on the other build.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    Scale,
    cold::Cold,
    contest::{Contender, contest, spread},
    far::Far,
    folder,
    nginx::Nginx,
    rows::{clear, fresh, sync, trees, warm},
    training::packed,
    trees::Tree,
};
use crate::{
    Result,
    command::{cargo, command, remove, run, shardpack},
};

/// Formats of shards that both builds convert.
const FORMATS: [&str; 4] = ["webdataset", "tfrecord", "recordio", "mds"];
/// Delay of each request to the distant server.
const DELAY: Duration = Duration::from_millis(30);
/// Epochs that the loader reads from a server in one run.
const EPOCHS: u64 = 8;

/// Runs every row and prints one line for each: earlier time ÷ time of this checkout, by round.
pub fn before(scale: &Scale, earlier: &Path) -> Result<()> {
    run(&mut cargo(
        "build --release --package shardpack --package shardpack-reader --package shardpack-loader --features \
         shardpack-loader/cloud --bins --examples",
    ))?;
    let builds = Builds { scale, earlier: earlier.to_owned(), now: shardpack("release") };
    for tree in trees(scale) {
        let path = tree.make()?;
        println!("== {}", tree.describe());
        builds.packs(&path)?;
        builds.reads(&path)?;
    }
    builds.converts(&trees(scale)[0].make()?)?;
    builds.served(&trees(scale)[0])?;
    clear()
}

/// The two programs.
struct Builds<'a> {
    scale: &'a Scale,
    earlier: PathBuf,
    now: PathBuf,
}

impl Builds<'_> {
    /// Runs `made` for both programs in turns and prints the ratio of their times.
    fn row(
        &self,
        name: &str,
        made: impl Fn(&Path) -> Result<Command>,
        before_each: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let contenders = [Contender::new("earlier", || made(&self.earlier)), Contender::new("now", || made(&self.now))];
        let results = contest(self.scale.rounds, &contenders, before_each)?;
        let [(_, earlier), (_, now)] = &results.0[..] else { return Err(format!("{name}: not two contenders")) };
        let ratios = |of: fn(&super::process::Usage) -> f64| {
            spread(earlier.iter().zip(now).map(|(earlier, now)| of(earlier) / of(now)).collect(), 3)
        };
        println!(
            "{name}: earlier ÷ now, seconds {}, CPU seconds {}",
            ratios(|usage| usage.seconds),
            ratios(|usage| usage.cpu_seconds)
        );
        Ok(())
    }

    /// pack from the page cache and from the disk.
    fn packs(&self, tree: &Path) -> Result<()> {
        let pack = |program: &Path| {
            let mut pack = command(program, ["pack", "--quiet"]);
            pack.arg(tree).arg(fresh("shards")?);
            Ok(pack)
        };
        warm(tree)?;
        self.row("pack", pack, sync)?;
        let cold = Cold::best();
        self.row("cold", pack, || sync().and_then(|()| cold.forget(tree)))
    }

    /// All images of the shards, one thread, with and without hashes.
    fn reads(&self, tree: &Path) -> Result<()> {
        let shards = packed(tree, "shards", &[])?;
        warm(&shards)?;
        for (name, options) in [("read", &[][..]), ("read --check", &["--check"][..])] {
            let read = |program: &Path| {
                let mut read = command(example(program, "read_speed"), options);
                read.arg(&shards);
                Ok(read)
            };
            self.row(name, read, sync)?;
        }
        Ok(())
    }

    /// Shards without manifest and index, packed again.
    fn converts(&self, tree: &Path) -> Result<()> {
        for format in FORMATS {
            let source = packed(tree, &format!("from-{format}"), &["--format", format])?;
            for ours in ["manifest.json", "BLAKE3SUMS", "index"] {
                remove(&source.join(ours))?;
            }
            warm(&source)?;
            let convert = |program: &Path| {
                let mut convert = command(program, ["convert", "--quiet"]);
                convert.arg(&source).arg(fresh("shards")?);
                Ok(convert)
            };
            self.row(&format!("convert from {format}"), convert, sync)?;
            remove(&source)?;
        }
        Ok(())
    }

    /// The loader's samples from a web server, near and behind a delay.
    fn served(&self, tree: &Tree) -> Result<()> {
        let served = folder("out/served");
        packed(&tree.make()?, "served/photos", &["--shard-size", "32MiB"])?;
        let nginx = Nginx::start(&served)?;
        let far = Far::new(nginx.port())?;
        far.delay(DELAY);
        for (name, port) in [("stores, near", nginx.port()), ("stores, behind 30 ms", far.port())] {
            let raw = |program: &Path| {
                let url = format!("http://127.0.0.1:{port}/photos");
                Ok(command(example(program, "raw"), [&url, "0", "1", &EPOCHS.to_string(), "256"]))
            };
            self.row(name, raw, || warm(&served))?;
        }
        Ok(())
    }
}

/// An example of the build that `program` belongs to.
fn example(program: &Path, name: &str) -> PathBuf {
    program.with_file_name("examples").join(name)
}
