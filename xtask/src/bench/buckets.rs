//! Packing small objects of a bucket behind a delay: against the delays that there are, and against boto3 and webdataset's writer.
//!
//! Holds at all times: all read the same bucket of the same server, in turns. Ours hashes, writes index and manifest, and syncs.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    Scale,
    contest::{Contender, contest, spread},
    far::Far,
    folder,
    nginx::{free_port, listens},
    process::measure,
    rows::{TINY_BYTES, clear, fresh},
    trees::Tree,
};
use crate::{
    Result,
    command::{command, remove, run, shardpack},
    python, servers,
};

const SCRIPT: &str = "benches/peers/bucket.py";
const DELAY: Duration = Duration::from_millis(30);
/// Most requests that are under way at a time, by docs/object-stores.md, and threads of the pool.
const AT_A_TIME: u64 = 64;
const KEY: &str = "AKIATEST";
const SECRET: &str = "secretsecretsecret";
const SHARD_SIZE: &str = "32MiB";

/// s3s-fs over a folder, each folder of which is a bucket.
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
        // Its end is not of interest, only that it is there.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Where the bucket is, and who asks.
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

fn theirs(python: &Path, port: u16) -> Result<Command> {
    let mut pack = command(python, [SCRIPT, &AT_A_TIME.to_string(), "bucket", "tree"]);
    pack.arg(fresh("far-theirs")?);
    Ok(asks(pack, port))
}

/// The table.
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

    let (_, told) = measure(&mut ours(far.port())?)?;
    let told: serde_json::Value = serde_json::from_str(&told).map_err(|error| format!("{told}: {error}"))?;
    let requests = told["network"]["requests"].as_u64().ok_or("no requests are told")?;
    let bound = requests as f64 * DELAY.as_secs_f64() / AT_A_TIME as f64;
    let contenders = [
        Contender::new("`shardpack pack s3://bucket/tree DST`", || ours(far.port())),
        Contender::new("boto3 and `webdataset.ShardWriter`, 64 threads", || theirs(&python, far.port())),
    ];
    let results = contest(scale.rounds, &contenders, || Ok(()))?;
    let ratios = results.0[0].1.iter().map(|usage| usage.seconds / bound).collect();
    let text = format!(
        "{} in a bucket of s3s-fs on this machine, behind a proxy that makes each connection and each request wait {} ms, to a folder. Ours shuffles, \
         hashes and syncs, and writes index and manifest (aim: five times as fast), {} rounds in turns:\n\n{}\n{requests} requests × {} ms ÷ {AT_A_TIME} at a \
         time = {bound:.2} s; time ÷ that: {} (aim: 1.2). Server, proxy and who asks have the same cores.\n",
        tree.describe(),
        DELAY.as_millis(),
        scale.rounds,
        results.table(),
        DELAY.as_millis(),
        spread(ratios, 2),
    );
    drop(server);
    clear().map(|()| text)
}
