//! Benchmarks packing small objects of a bucket behind a delay: against the lower bound from the delays, and against boto3 with
//! webdataset's writer.
//!
//! All contenders read the same bucket of the same server, in turns. shardpack also hashes, writes index and manifest, and syncs. The
//! server shares the cores; a web server with the same objects, at a small part of the cost, shows the difference.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    Scale,
    contest::{Contender, contest, spread},
    far::Far,
    folder,
    nginx::{Nginx, free_port, listens},
    process::measure,
    rows::{TINY_BYTES, clear, fresh},
    trees::Tree,
};
use crate::{
    Result,
    command::{command, output, remove, run, shardpack, write},
    python, servers,
};

const SCRIPT: &str = "benches/peers/bucket.py";
const DELAY: Duration = Duration::from_millis(30);
/// Requests in flight before the packer measures whether more help (docs/how-to/object-stores.md), and threads of the script's pool.
const AT_A_TIME: u64 = 64;
const KEY: &str = "AKIATEST";
const SECRET: &str = "secretsecretsecret";
const SHARD_SIZE: &str = "32MiB";

/// s3s-fs over a folder; each subfolder is a bucket.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(data: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| format!("s3s-fs: {error}");
        let port = free_port().map_err(failed)?;
        let mut server = command(servers::fast_s3s_fs()?, ["--host", "127.0.0.1", "--port"]);
        server.arg(port.to_string()).args(["--access-key", KEY, "--secret-key", SECRET]).arg(data);
        let child = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(failed)?;
        let mut server = Self { child, port };
        match listens(&mut server.child, port) {
            true => Ok(server),
            false => Err("s3s-fs does not start".to_owned()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The exit status does not matter.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Adds endpoint and credentials of the server to a command.
fn asks(mut command: Command, port: u16) -> Command {
    command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")).env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET).env("AWS_DEFAULT_REGION", "us-east-1");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn ours(port: u16) -> Result<Command> {
    let mut pack = command(shardpack("release"), ["pack", "s3://bucket/tree"]);
    pack.arg(fresh("far-ours")?).args(["--shard-size", SHARD_SIZE, "--json"]);
    Ok(asks(pack, port))
}

/// Packs the same objects by a list, from a web server.
fn listed(list: &Path, port: u16) -> Result<Command> {
    let mut pack = command(shardpack("release"), ["pack"]);
    pack.arg(list).arg(fresh("far-listed")?).arg("--root").arg(format!("http://127.0.0.1:{port}/bucket/tree/"));
    pack.args(["--shard-size", SHARD_SIZE, "--json"]);
    Ok(pack)
}

/// Writes a list of all files of a tree, with their classes.
fn list(tree: &Path) -> Result<PathBuf> {
    let path = folder("out/far.csv");
    let files = output(command("find", ["-type", "f", "-printf", "%P\n"]).current_dir(tree))?;
    let mut lines: Vec<_> =
        files.lines().filter_map(|file| Some(format!("{file},{}\n", file.split_once('/')?.0))).collect();
    lines.sort();
    write(&path, format!("path,class\n{}", lines.concat()))?;
    Ok(path)
}

/// Number of requests of a pack, the seconds that their delays take at [`AT_A_TIME`] in flight, and the seconds spent on listing.
fn bound(pack: &mut Command) -> Result<(u64, f64, f64)> {
    let (usage, told) = measure(pack)?;
    let told: serde_json::Value = serde_json::from_str(&told).map_err(|error| format!("{told}: {error}"))?;
    let requests = told["network"]["requests"].as_u64().ok_or("no requests are told")?;
    let packed_ms = told["elapsed_ms"].as_f64().ok_or("no time is told")?;
    Ok((requests, requests as f64 * DELAY.as_secs_f64() / AT_A_TIME as f64, usage.seconds - packed_ms / 1e3))
}

fn theirs(python: &Path, port: u16) -> Result<Command> {
    let mut pack = command(python, [SCRIPT, &AT_A_TIME.to_string(), "bucket", "tree"]);
    pack.arg(fresh("far-theirs")?);
    Ok(asks(pack, port))
}

/// The table on buckets.
pub fn buckets(scale: &Scale) -> Result<String> {
    let tree = Tree { files: 10_000 / scale.smaller, mean_bytes: TINY_BYTES };
    let path = tree.make()?;
    let data = folder("out/buckets");
    remove(&data)?;
    std::fs::create_dir_all(data.join("bucket")).map_err(|error| format!("{}: {error}", data.display()))?;
    run(command("cp", ["-r"]).arg(&path).arg(data.join("bucket/tree")))?;
    let server = Server::start(&data)?;
    let far = Far::new(server.port)?;
    far.delay(DELAY);
    let python = python::streaming()?;

    let nginx = Nginx::start(&data)?;
    let far_web = Far::new(nginx.port())?;
    far_web.delay(DELAY);
    let list = list(&path)?;
    let (requests, least, found) = bound(&mut ours(far.port())?)?;
    let (web_requests, web_least, _) = bound(&mut listed(&list, far_web.port())?)?;
    let contenders = [
        Contender::new("`shardpack pack s3://bucket/tree DST`", || ours(far.port())),
        Contender::new("boto3 and `webdataset.ShardWriter`, 64 threads", || theirs(&python, far.port())),
        Contender::new("`shardpack pack LIST DST --root http://…`", || listed(&list, far_web.port())),
    ];
    let results = contest(scale.rounds, &contenders, || Ok(()))?;
    let ratios = |of: usize, least: f64| spread(results.0[of].1.iter().map(|usage| usage.seconds / least).collect(), 2);
    let text = format!(
        "{} in a bucket of s3s-fs on this machine, packed to a folder. A proxy delays each connection and each request \
         by {ms} ms. shardpack shuffles, hashes and syncs, and writes index and manifest (aim: five times as fast); {} \
         interleaved rounds. In the last row, nginx serves the same objects behind the same proxy:\n\n{}\n\
         shardpack starts with {AT_A_TIME} requests in flight and adds requests while throughput grows. Estimate: \
         {requests} requests × {ms} ms ÷ {AT_A_TIME} in flight = {least:.2} s. Time ÷ estimate: {} (aim: 1.2); listing \
         took {found:.1} s. nginx: {web_requests} requests, estimate {web_least:.2} s, time ÷ estimate {}. Server, \
         proxy and client share the cores.\n",
        tree.describe(),
        scale.rounds,
        results.table(),
        ratios(0, least),
        ratios(2, web_least),
        ms = DELAY.as_millis(),
    );
    drop(nginx);
    drop(server);
    clear().map(|()| text)
}
