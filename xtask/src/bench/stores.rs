//! Benchmarks packed shards on a web server: the loader against `curl` of the same objects and, behind a delay, against other loaders.
//!
//! All contenders of one table request the same samples from the same server, in turns. shardpack checks the hashes of every record; the
//! others check nothing.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    Scale,
    contest::{Contender, Results, contest, contest_of_peers, median, spread},
    far::Far,
    folder,
    nginx::Nginx,
    process::measure,
    rows::{PHOTO_BYTES, TINY_BYTES, clear, fresh, warm},
    training::packed,
    trees::Tree,
};
use crate::{
    Result,
    command::{cargo, command, output, run, target, write},
    package, python,
};

const SCRIPT: &str = "benches/peers/remote.py";
/// Shard size: the bound requests all shards at once, and each worker of a peer gets several.
const SHARD_SIZE: &str = "32MiB";
/// Epochs of the runs against `curl`: process start, opening and clearing memory happen once per run. First batches have their own table.
const EPOCHS: u64 = 16;
const DELAY: Duration = Duration::from_millis(30);
/// Delay for first batches, so that round trips dominate all other time.
const LONG_DELAY: Duration = Duration::from_millis(200);
/// Workers of a peer: one per core of the benchmark machine, and enough to hide delays.
const WORKERS: [usize; 2] = [2, 8];

/// A dataset on the server.
struct Data {
    tree: Tree,
    /// First folder of its URLs: the bucket in S3.
    bucket: &'static str,
    /// Names of its tar files.
    tars: Vec<String>,
}

/// Root folder of the server.
fn served() -> PathBuf {
    folder("out/served")
}

/// All tables; prints each when it is finished, because all together take long.
pub fn stores(scale: &Scale) -> Result<String> {
    // Built together with the program, whose dependencies are built already.
    run(&mut cargo(
        "build --release --package shardpack --package shardpack-loader --features shardpack-loader/cloud --example raw",
    ))?;
    let all = [
        Data::make("photos", Tree { files: 4_000 / scale.smaller, mean_bytes: PHOTO_BYTES })?,
        Data::make("tiny", Tree { files: 100_000 / scale.smaller, mean_bytes: TINY_BYTES })?,
    ];
    let nginx = Nginx::start(&served())?;
    let far = Far::new(nginx.port())?;
    let mut text = format!(
        "nginx {} on this machine serves files from the page cache over HTTP on loopback. Client and server share the \
         cores. shardpack verifies the hashes of every record; `curl` and the peers verify no data. {} interleaved \
         rounds.\n",
        Nginx::version()?,
        scale.rounds
    );
    let mut tell = |part: String| {
        println!("{part}");
        text += &part;
    };
    for data in &all {
        tell(near(scale, data, nginx.port())?);
        far.delay(DELAY);
        tell(behind_delay(scale, data, far.port())?);
    }
    let (ours, theirs) = (package::installed()?, python::streaming()?);
    let peers = peers(&ours, &theirs);
    for data in &all {
        far.delay(DELAY);
        tell(loops(scale, data, far.port(), &peers)?);
    }
    tell(versions(&theirs)?);
    tell(first_batches(scale, &all[0], &far, &peers)?);
    drop(nginx);
    clear().map(|()| text)
}

impl Data {
    fn make(bucket: &'static str, tree: Tree) -> Result<Self> {
        let path = tree.make()?;
        let folder = served().join(bucket);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let tar = packed(&path, &format!("served/{bucket}/tar"), &["--shard-size", SHARD_SIZE])?;
        let mds = ["--format", "mds", "--mds-encoding", "bytes", "--shard-size", SHARD_SIZE];
        packed(&path, &format!("served/{bucket}/mds"), &mds)?;
        let files = std::fs::read_dir(&tar).map_err(|error| format!("{}: {error}", tar.display()))?;
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        let mut tars: Vec<_> = names.filter(|name| name.ends_with(".tar")).collect();
        tars.sort();
        Ok(Self { tree, bucket, tars })
    }

    fn url(&self, port: u16) -> String {
        format!("http://127.0.0.1:{port}/{}/tar", self.bucket)
    }

    fn urls(&self, port: u16) -> Vec<String> {
        self.tars.iter().map(|name| format!("{}/{name}", self.url(port))).collect()
    }

    fn describe(&self) -> String {
        format!("{}, packed in {} shards", self.tree.describe(), self.tars.len())
    }
}

/// `curl` of all shards, once per epoch, with `streams` parallel streams.
fn curl(data: &Data, port: u16, streams: usize) -> Result<Command> {
    let list: String = data.urls(port).iter().map(|url| format!("url = \"{url}\"\noutput = \"/dev/null\"\n")).collect();
    let path = folder(&format!("out/curl-{}-{port}-{streams}.txt", data.bucket));
    write(&path, list.repeat(EPOCHS as usize))?;
    let mut curl = command("curl", ["--silent", "--show-error", "--fail", "--config"]);
    curl.arg(&path);
    if streams > 1 {
        curl.args(["--parallel", "--parallel-immediate", "--parallel-max", &streams.to_string()]);
    }
    Ok(curl)
}

/// The loader's raw samples, with at most `requests` requests in flight, or with automatic concurrency.
fn raw(data: &Data, port: u16, requests: Option<usize>) -> Command {
    let mut raw = command(target("release/examples/raw"), [data.url(port)]);
    raw.args(["0", "1", &EPOCHS.to_string(), "256"]);
    raw.args(requests.map(|requests| format!("requests={requests}")));
    raw
}

fn by_curl<'a>(data: &'a Data, port: u16, streams: usize, name: &str) -> Contender<'a> {
    Contender::new(name, move || curl(data, port, streams))
}

fn by_raw<'a>(data: &'a Data, port: u16, requests: Option<usize>, name: &str) -> Contender<'a> {
    Contender::new(name, move || Ok(raw(data, port, requests)))
}

fn near(scale: &Scale, data: &Data, port: u16) -> Result<String> {
    let contenders = [
        by_curl(data, port, 1, "`curl`, one stream"),
        by_curl(data, port, 4, "`curl`, four streams"),
        by_raw(data, port, Some(1), "loader, one request at a time"),
        by_raw(data, port, Some(4), "loader, four requests at a time"),
        by_raw(data, port, None, "loader, automatic concurrency"),
    ];
    let results = contest(scale.rounds, &contenders, || warm(&served()))?;
    Ok(format!(
        "\n{}. No delay, {EPOCHS} epochs, whole processes; the loader has 256 MiB:\n\n{}\n\
         Throughput ÷ `curl` with the same number of streams: one {} (aim: 0.9), four {} (aim: 1.0). Throughput with \
         automatic concurrency ÷ `curl` with one stream: {}.\n",
        data.describe(),
        results.table(),
        speed(&results, 2, 0),
        speed(&results, 3, 1),
        speed(&results, 4, 0),
    ))
}

fn behind_delay(scale: &Scale, data: &Data, port: u16) -> Result<String> {
    let contenders = [
        by_curl(data, port, 64, "`curl`, up to 64 streams"),
        by_curl(data, port, 1, "`curl`, one stream"),
        by_raw(data, port, Some(16), "loader, 16 requests at a time"),
        by_raw(data, port, None, "loader, automatic concurrency"),
    ];
    let results = contest(scale.rounds, &contenders, || warm(&served()))?;
    Ok(format!(
        "\n{}. A proxy delays each connection and each request by {} ms; {EPOCHS} epochs, whole processes. The first \
         row is the bound. It requests all shards at once, so only the first delay counts; server, proxy and cores \
         limit its throughput:\n\n{}\nThroughput with automatic concurrency ÷ the bound: {} (aim: 0.9).\n",
        data.describe(),
        DELAY.as_millis(),
        results.table(),
        speed(&results, 3, 0),
    ))
}

/// Speed of `one` ÷ speed of `other`, by round.
fn speed(results: &Results, one: usize, other: usize) -> String {
    let (one, other) = (&results.0[one].1, &results.0[other].1);
    spread(one.iter().zip(other).map(|(one, other)| other.seconds / one.seconds).collect(), 2)
}

/// A peer, its word for remote.py, and its Python.
#[derive(Clone, Copy)]
struct Peer<'a> {
    name: &'static str,
    word: &'static str,
    workers: usize,
    python: &'a Path,
}

impl Peer<'_> {
    fn command(&self, what: &str, data: &Data, port: u16) -> Result<Command> {
        let mut read = command(self.python, [SCRIPT, what, self.word, &self.workers.to_string()]);
        match self.word {
            "shardpack" => read.arg(data.url(port)),
            "webdataset" => read.args(data.urls(port)),
            _ => {
                // Its cache starts empty.
                let local = fresh("local")?;
                let endpoint = format!("http://127.0.0.1:{port}");
                // The server ignores signatures, but the client needs keys to sign.
                read.env("S3_ENDPOINT_URL", endpoint).env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "x");
                read.env("AWS_DEFAULT_REGION", "us-east-1").arg(format!("s3://{}/mds", data.bucket)).arg(local)
            }
        };
        read.env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(read)
    }
}

fn peers<'a>(ours: &'a Path, theirs: &'a Path) -> Vec<Peer<'a>> {
    let mut all = vec![Peer { name: "`shardpack.Loader`", word: "shardpack", workers: 0, python: ours }];
    for workers in WORKERS {
        for (name, word) in [("webdataset", "webdataset"), ("MosaicML Streaming", "streaming")] {
            all.push(Peer { name, word, workers, python: theirs });
        }
    }
    all
}

impl std::fmt::Display for Peer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.workers {
            0 => f.write_str(self.name),
            workers => write!(f, "{}, {workers} workers", self.name),
        }
    }
}

fn by_peer<'a>(peer: Peer<'a>, data: &'a Data, port: u16) -> Contender<'a> {
    let made = move || peer.command("epoch", data, port);
    Contender { counts_itself: true, ..Contender::new(&peer.to_string(), made) }
}

fn loops(scale: &Scale, data: &Data, port: u16, peers: &[Peer<'_>]) -> Result<String> {
    let contenders: Vec<_> = peers.iter().map(|peer| by_peer(*peer, data, port)).collect();
    let (results, missing) = contest_of_peers(scale.rounds, &contenders, || warm(&served()))?;
    Ok(format!(
        "\n{}. Behind the same proxy, a Python loop reads one epoch of stored payloads, in batches of 64, in random \
         order (`{SCRIPT}`; import time excluded, opening included). Aim: five times as fast:\n\n{}{missing}",
        data.describe(),
        results.table()
    ))
}

/// Versions of the peers' libraries.
fn versions(python: &Path) -> Result<String> {
    let script = "import sys; from importlib.metadata import version; print(sys.argv[1], version(sys.argv[1]))";
    let version = |package| output(&mut command(python, ["-c", script, package])).map(|told| told.trim().to_owned());
    Ok(format!(
        "\n{}: URLs of tar files, its own opener (`curl`), shuffled shards, a buffer of 1,000 samples. {}: \
         `remote=\"s3://…\"` of MDS files with the same number of bytes (`--mds-encoding bytes`) on the same nginx, an \
         empty `local`, default shuffle and `predownload`.\n",
        version("webdataset")?,
        version("mosaicml-streaming")?
    ))
}

/// The table on the time from the constructor to the first batch, in round trips.
fn first_batches(scale: &Scale, data: &Data, far: &Far, peers: &[Peer<'_>]) -> Result<String> {
    let delays = [Duration::ZERO, LONG_DELAY];
    let peers: Vec<_> = peers.iter().filter(|peer| peer.workers <= WORKERS[0]).collect();
    let mut found = vec![[Vec::new(), Vec::new()]; peers.len()];
    for _ in 0..scale.rounds {
        for (peer, found) in peers.iter().zip(&mut found) {
            for (delay, found) in delays.into_iter().zip(found) {
                far.delay(delay);
                // A peer that fails has fewer results than rounds.
                match measure(&mut peer.command("first", data, far.port())?) {
                    Ok((_, printed)) => found.extend(printed.trim().parse::<f64>()),
                    Err(why) => println!("{peer}: {why}"),
                }
            }
        }
    }
    let mut table = format!(
        "\n{1}. Time to first batch of 64, opening included, with no delay and with a delay of {0} ms for each \
         connection and request. Round trips: the difference in units of {0} ms (aim: 10 at most):\n\n\
         | | no delay | {0} ms | round trips, median (least to most) |\n|---|---:|---:|---:|\n",
        LONG_DELAY.as_millis(),
        data.describe()
    );
    for (peer, [near, far]) in peers.iter().zip(found) {
        if near.len() < scale.rounds || far.len() < scale.rounds {
            table += &format!("| {peer} | not measured because it failed | | |\n");
            continue;
        }
        let trips = near.iter().zip(&far).map(|(near, far)| (far - near) / LONG_DELAY.as_secs_f64()).collect();
        table += &format!("| {peer} | {:.2} s | {:.2} s | {} |\n", median(near.clone()), median(far), spread(trips, 1));
    }
    Ok(table)
}
