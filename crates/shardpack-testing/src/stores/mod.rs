//! Starts object stores on this machine for tests: s3s-fs, garage, moto, fake-gcs-server and Azurite, each with one bucket.
//!
//! `cargo xtask test` installs the stores below target/tools. A missing store is reported on stderr and skipped.
//! Holds at all times: a server ends with this process, even after a crash. Except with [`alone`], each server starts once, and each
//! [`ObjectServer`] has its own folder.
//!
//! Differences from the services: s3s-fs and fake-gcs-server store objects as files, so keys with `//` or `..` change, and a part of a key
//! has at most 255 bytes. garage with LMDB refuses keys over about 450 bytes and ignores create-only conditions. moto accepts any
//! credentials. fake-gcs-server needs no credentials and returns a list in one page. s3s-fs and fake-gcs-server ignore `If-Match`. Azurite
//! treats a backslash as a slash.

mod google_xml;
mod programs;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Child,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use google_xml::GoogleXml;
use object_store::{
    aws::{AwsAuthorizer, AwsCredential},
    azure::{AzureAccessKey, AzureAuthorizer, AzureCredential},
    client::{HttpRequest, HttpRequestBody},
};

pub use programs::Kind;
use programs::{REGION, Started, start};

use crate::{server::Message, sweep};

/// Name of the bucket or container.
pub const BUCKET: &str = "bucket";
/// Azurite's published test account.
const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A folder in the bucket of a running server.
pub struct ObjectServer {
    pub kind: Kind,
    running: &'static Running,
    within: String,
}

/// A running server.
struct Running {
    kind: Kind,
    port: u16,
    /// The proxy in front of fake-gcs-server.
    google: Option<GoogleXml>,
    folder: PathBuf,
    /// The server ends when the stdin of this shell is closed.
    _child: Child,
}

/// All installed servers, each with an empty folder.
pub fn all() -> Vec<ObjectServer> {
    thread::scope(|scope| {
        let starting = Kind::ALL.map(|kind| scope.spawn(move || ObjectServer::start(kind)));
        starting.into_iter().filter_map(|server| server.join().unwrap()).collect()
    })
}

/// All installed servers, each started for this caller only.
pub fn alone() -> Vec<ObjectServer> {
    let start = |kind| {
        // The server ends with the process.
        let running: &'static Running = Box::leak(Box::new(Running::start(kind)?));
        Some(ObjectServer { kind, running, within: String::new() })
    };
    Kind::ALL.into_iter().filter_map(start).collect()
}

/// Runs the function on all installed servers concurrently.
pub fn each(what: impl Fn(&ObjectServer) + Sync) {
    let (servers, what) = (all(), &what);
    thread::scope(|scope| servers.iter().for_each(|server| drop(scope.spawn(move || what(server)))));
}

impl ObjectServer {
    /// Starts the server unless it runs already. If it is not installed, returns `None` and prints the reason to stderr.
    pub fn start(kind: Kind) -> Option<Self> {
        static STARTED: [OnceLock<Option<Running>>; Kind::ALL.len()] = [const { OnceLock::new() }; Kind::ALL.len()];
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let running = STARTED[kind as usize].get_or_init(|| Running::start(kind)).as_ref()?;
        Some(Self { kind, running, within: format!("{:04}/", FOLDERS.fetch_add(1, Ordering::Relaxed)) })
    }

    /// The cases of a sweep that this server takes, with their numbers. The servers take turns: about half of them take each case.
    pub fn turns<T>(&self, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = (usize, T)> {
        sweep::turns(cases, self.kind as usize)
    }

    pub fn port(&self) -> u16 {
        self.running.port
    }

    /// The URL of a prefix.
    pub fn url(&self, prefix: &str) -> String {
        let scheme = match self.kind {
            Kind::S3 | Kind::Garage | Kind::Moto => "s3",
            Kind::Google => "gs",
            Kind::Azure => "az",
        };
        format!("{scheme}://{BUCKET}/{}{prefix}", self.within)
    }

    /// Store settings for a client that connects to `port`, the port of this server or of a proxy in front.
    pub fn settings(&self, port: u16) -> Vec<(String, String)> {
        let endpoint = format!("http://127.0.0.1:{port}");
        let (key, secret) = self.kind.key();
        let pairs: &[(&str, &str)] = match self.kind {
            Kind::S3 | Kind::Garage | Kind::Moto => &[
                ("endpoint", &endpoint),
                ("region", REGION),
                ("aws_access_key_id", key),
                ("aws_secret_access_key", secret),
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

    /// The same settings for this server's own port, as environment variables.
    pub fn environment(&self) -> Vec<(String, String)> {
        let all = self.settings(self.port()).into_iter().collect::<BTreeMap<_, _>>();
        let of = |name: &str| all[name].clone();
        let pairs = match self.kind {
            Kind::Google => vec![("STORAGE_EMULATOR_HOST", of("endpoint"))],
            Kind::Azure => vec![
                ("AZURE_STORAGE_ACCOUNT_NAME", of("azure_storage_account_name")),
                ("AZURE_STORAGE_ACCOUNT_KEY", of("azure_storage_account_key")),
                ("AZURE_STORAGE_ENDPOINT", of("endpoint")),
            ],
            _ => vec![
                ("AWS_ENDPOINT_URL", of("endpoint")),
                ("AWS_REGION", of("region")),
                ("AWS_ACCESS_KEY_ID", of("aws_access_key_id")),
                ("AWS_SECRET_ACCESS_KEY", of("aws_secret_access_key")),
            ],
        };
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Puts all files of a folder, recursively, below `prefix`.
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

    /// Puts or replaces an object.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        self.running.put(&self.key(key), bytes);
    }

    /// The bytes of an object; `None` if it is missing.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.running.get(&self.key(key))
    }

    /// Deletes an object if it exists.
    pub fn delete(&self, key: &str) {
        self.running.delete(&self.key(key));
    }

    /// All keys that begin with `prefix`, sorted.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let keys = self.running.keys(&self.key(prefix)).into_iter();
        keys.map(|key| key[self.within.len()..].to_owned()).collect()
    }

    /// Number of multipart uploads on the server, from any test, that are neither complete nor aborted. Always 0 for Azure, which does not
    /// show uploads.
    pub fn unfinished(&self) -> usize {
        self.running.unfinished()
    }

    /// The file in which s3s-fs stores an object.
    pub fn file(&self, key: &str) -> PathBuf {
        assert_eq!(self.kind, Kind::S3);
        self.running.file(&self.key(key))
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.within)
    }
}

impl Running {
    fn start(kind: Kind) -> Option<Self> {
        let Started { port, folder, child } = start(kind)?;
        let mut server = Self { kind, port, google: None, folder, _child: child };
        server.make();
        if kind == Kind::Google {
            let google = GoogleXml::start(port);
            server.port = google.port();
            server.google = Some(google);
        }
        Some(server)
    }

    /// The file in which s3s-fs stores an object.
    fn file(&self, key: &str) -> PathBuf {
        self.folder.join("data").join(BUCKET).join(key)
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        match self.kind {
            Kind::S3 => {
                let path = self.file(key);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            Kind::Garage | Kind::Moto => drop(self.done("PUT", &s3_path(key), &[], bytes)),
            Kind::Google => {
                let path = format!("/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={}", escaped(key));
                self.done("POST", &path, &[], bytes);
            }
            Kind::Azure => {
                self.done("PUT", &azure_path(key), &[("x-ms-blob-type", "BlockBlob")], bytes);
            }
        }
    }

    fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = match self.kind {
            Kind::S3 => return fs::read(self.file(key)).ok(),
            Kind::Garage | Kind::Moto => s3_path(key),
            Kind::Google => format!("/storage/v1/b/{BUCKET}/o/{}?alt=media", escaped(key)),
            Kind::Azure => azure_path(key),
        };
        self.found("GET", &path).map(|answer| answer.body)
    }

    fn delete(&self, key: &str) {
        match self.kind {
            Kind::S3 => drop(fs::remove_file(self.file(key))),
            Kind::Garage | Kind::Moto => drop(self.found("DELETE", &s3_path(key))),
            Kind::Google => drop(self.found("DELETE", &format!("/storage/v1/b/{BUCKET}/o/{}", escaped(key)))),
            Kind::Azure => drop(self.found("DELETE", &azure_path(key))),
        }
    }

    fn keys(&self, prefix: &str) -> Vec<String> {
        let (path, name) = match self.kind {
            Kind::S3 => {
                let mut keys = Vec::new();
                files(&self.file(""), "", &mut keys);
                keys.retain(|key| key.starts_with(prefix));
                keys.sort();
                return keys;
            }
            Kind::Garage | Kind::Moto | Kind::Google => (format!("/{BUCKET}?prefix={}", escaped(prefix)), "Key"),
            Kind::Azure => {
                (format!("/{ACCOUNT}/{BUCKET}?restype=container&comp=list&prefix={}", escaped(prefix)), "Name")
            }
        };
        let list = String::from_utf8(self.done("GET", &path, &[], b"").body).unwrap();
        let is_whole = !list.contains("<IsTruncated>true") && !list.contains("<NextMarker>");
        assert!(is_whole, "more than one page of keys");
        let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
        let mut keys: Vec<_> =
            list.split(&begin).skip(1).map(|rest| rest.split(&end).next().unwrap()).map(unescaped).collect();
        keys.sort();
        keys
    }

    fn unfinished(&self) -> usize {
        match self.kind {
            Kind::S3 => {
                let names = fs::read_dir(self.folder.join("data")).unwrap();
                let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
                names.filter(|name| name.starts_with(".upload")).count()
            }
            Kind::Garage | Kind::Moto => {
                let list = self.done("GET", &format!("/{BUCKET}?uploads="), &[], b"").body;
                String::from_utf8(list).unwrap().matches("<UploadId>").count()
            }
            Kind::Google => self.google.as_ref().unwrap().unfinished(),
            Kind::Azure => 0,
        }
    }

    /// Creates the bucket.
    fn make(&self) {
        match self.kind {
            Kind::S3 => fs::create_dir_all(self.file("")).unwrap(),
            // Garage creates the bucket at start.
            Kind::Garage => {}
            Kind::Moto => drop(self.done("PUT", &format!("/{BUCKET}"), &[], b"")),
            Kind::Google => {
                let name = format!("{{\"name\":\"{BUCKET}\"}}");
                let headers = [("Content-Type", "application/json")];
                self.done("POST", "/storage/v1/b?project=p", &headers, name.as_bytes());
            }
            Kind::Azure => drop(self.done("PUT", &format!("/{ACCOUNT}/{BUCKET}?restype=container"), &[], b"")),
        }
    }

    /// The headers of a request, signed with the access key.
    fn signed(
        &self,
        method: &str,
        path: &str,
        headers: &[(&'static str, &str)],
        bytes: &[u8],
    ) -> Vec<(String, String)> {
        let mut request = HttpRequest::new(HttpRequestBody::from(bytes.to_vec()));
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = format!("http://127.0.0.1:{}{path}", self.port).parse().unwrap();
        request.headers_mut().insert("content-length", bytes.len().into());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        if self.kind == Kind::Azure {
            let credential = AzureCredential::AccessKey(AzureAccessKey::try_new(ACCOUNT_KEY).unwrap());
            AzureAuthorizer::new(&credential, ACCOUNT).try_authorize(&mut request).unwrap();
        } else {
            let (key, secret) = self.kind.key();
            let credential = AwsCredential { key_id: key.to_owned(), secret_key: secret.to_owned(), token: None };
            AwsAuthorizer::new(&credential, "s3", REGION).try_authorize(&mut request, None).unwrap();
        }
        let headers = request.headers().iter();
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
    }

    fn send(&self, method: &str, path: &str, headers: &[(&'static str, &str)], bytes: &[u8]) -> Message {
        let headers = match self.kind {
            Kind::Garage | Kind::Moto | Kind::Azure => self.signed(method, path, headers, bytes),
            Kind::S3 | Kind::Google => {
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
            }
        };
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\n", self.port);
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let answer = Message { head, body: bytes.to_vec() }.ask(self.port).unwrap();
        Message::read(&answer[..]).unwrap().unwrap()
    }

    /// The response to a request that must succeed.
    fn done(&self, method: &str, path: &str, headers: &[(&'static str, &str)], bytes: &[u8]) -> Message {
        let answer = self.send(method, path, headers, bytes);
        assert!(answer.second().starts_with("20"), "{path}: {} {}", answer.head, String::from_utf8_lossy(&answer.body));
        answer
    }

    /// The response to a request for an object; `None` if the object is missing.
    fn found(&self, method: &str, path: &str) -> Option<Message> {
        let answer = self.send(method, path, &[], b"");
        assert!(answer.second().starts_with("20") || answer.second() == "404", "{path}: {}", answer.head);
        (answer.second() != "404").then_some(answer)
    }
}

fn escaped(part: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    part.bytes().map(one).collect()
}

/// Replaces XML entities with their characters.
fn unescaped(text: &str) -> String {
    let all = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&apos;", "'"),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    all.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The URL path of an S3 object.
fn s3_path(key: &str) -> String {
    format!("/{BUCKET}/{}", key.split('/').map(escaped).collect::<Vec<_>>().join("/"))
}

/// The URL path of an Azure blob.
fn azure_path(key: &str) -> String {
    format!("/{ACCOUNT}{}", s3_path(key))
}

/// Adds the keys of all files below a folder.
fn files(folder: &Path, below: &str, keys: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let key = format!("{below}{}", path.file_name().unwrap().to_str().unwrap());
        match path.is_dir() {
            true => files(&path, &format!("{key}/"), keys),
            false => keys.push(key),
        }
    }
}
