//! Object stores and a web server that hold copies of datasets, and runs of the binary on their URLs.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;

use crate::{
    Ran,
    server::{Fault, Nginx, Proxy},
    stores::{self, Kind, ObjectServer},
    sweep,
};

/// Runs the function on all servers except moto, which behaves like s3s-fs, but slower.
pub fn each(what: impl Fn(&ObjectServer) + Sync) {
    stores::each(|server| {
        if server.kind != Kind::Moto {
            what(server);
        }
    });
}

/// Replaces all objects below `prefix` with `files`.
pub fn put(server: &ObjectServer, prefix: &str, files: &BTreeMap<String, Vec<u8>>) {
    server.keys(&format!("{prefix}/")).iter().for_each(|key| server.delete(key));
    files.iter().for_each(|(name, bytes)| server.put(&format!("{prefix}/{name}"), bytes));
}

/// The JSON report without the fields that depend on the location.
pub fn said(mut json: Value) -> Value {
    let all = json.as_object_mut().unwrap();
    for name in ["network", "elapsed_ms", "notes"] {
        all.remove(name);
    }
    for one in all.get_mut("datasets").and_then(Value::as_array_mut).into_iter().flatten() {
        one.as_object_mut().unwrap().remove("path");
    }
    if let Some(shard) = all.get_mut("shard") {
        *shard = shard.as_str().unwrap().rsplit('/').next().unwrap().into();
    }
    json
}

/// A server with a copy of a folder.
pub enum FolderServer {
    Objects(ObjectServer),
    Web(Nginx),
}

impl FolderServer {
    /// All installed servers except moto, which behaves like s3s-fs, but slower.
    pub fn all() -> Vec<Self> {
        let stores = stores::all().into_iter().filter(|server| server.kind != Kind::Moto);
        stores.map(Self::Objects).chain(Nginx::start().map(Self::Web)).collect()
    }

    /// Runs the function on all servers concurrently.
    pub fn each(what: impl Fn(&Self) + Sync) {
        let (places, what) = (Self::all(), &what);
        thread::scope(|scope| places.iter().for_each(|place| drop(scope.spawn(move || what(place)))));
    }

    /// As [`ObjectServer::turns`].
    pub fn turns<T>(&self, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = (usize, T)> {
        match self {
            Self::Objects(server) => sweep::turns(cases, server.kind as usize),
            Self::Web(_) => sweep::turns(cases, 1),
        }
    }

    pub fn name(&self) -> String {
        match self {
            Self::Objects(server) => format!("{:?}", server.kind),
            Self::Web(_) => "web".to_owned(),
        }
    }

    pub fn port(&self) -> u16 {
        match self {
            Self::Objects(server) => server.port(),
            Self::Web(nginx) => nginx.port(),
        }
    }

    pub fn copy(&self, folder: &Path, prefix: &str) {
        match self {
            Self::Objects(server) => server.put_folder(folder, prefix),
            Self::Web(nginx) => {
                let done = Command::new("cp").arg("-rT").arg(folder).arg(nginx.data().join(prefix)).status().unwrap();
                assert!(done.success());
            }
        }
    }

    pub fn put(&self, key: &str, bytes: &[u8]) {
        match self {
            Self::Objects(server) => server.put(key, bytes),
            Self::Web(nginx) => {
                let path = nginx.data().join(key);
                let before = fs::metadata(&path).and_then(|of| of.modified()).ok();
                fs::write(&path, bytes).unwrap();
                // nginx tells versions of a file apart by its length and the second of its change.
                if let Some(before) = before {
                    let changed = SystemTime::now().max(before + Duration::from_secs(1));
                    fs::File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
                }
            }
        }
    }

    /// The URL of a prefix, followed by the store options for requests to `port`.
    pub fn url(&self, prefix: &str, port: u16) -> Vec<String> {
        match self {
            Self::Objects(server) => {
                let settings = server.settings(port).into_iter().map(|(name, value)| format!("--store={name}={value}"));
                [server.url(prefix)].into_iter().chain(settings).collect()
            }
            Self::Web(_) => vec![format!("http://127.0.0.1:{port}/{prefix}")],
        }
    }
}

/// URLs of `names` below `prefix`, and the store options for requests to `port`.
pub fn urls(place: &FolderServer, prefix: &str, names: &[String], port: u16) -> (Vec<String>, Vec<String>) {
    let at = |name: &String| place.url(&format!("{prefix}/{name}"), port).remove(0);
    (names.iter().map(at).collect(), place.url(prefix, port).split_off(1))
}

/// A command without the caller's store settings in the environment.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars() {
        if ["AWS_", "GOOGLE_", "AZURE_", "STORAGE_"].iter().any(|start| name.starts_with(start)) {
            command.env_remove(name);
        }
    }
    // Ignores the AWS profiles of the user who runs the tests.
    command.env("AWS_CONFIG_FILE", "/nothing").env("AWS_SHARED_CREDENTIALS_FILE", "/nothing");
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// Waits for the end of the command, at most two minutes.
pub fn ended(command: Command) -> Ran {
    assert_cmd::Command::from_std(command).timeout(Duration::from_secs(120)).output().unwrap().into()
}

/// Runs the binary without the caller's store settings in the environment.
pub fn run<S: AsRef<std::ffi::OsStr>>(args: &[S], environment: &[(&str, &str)]) -> Ran {
    let mut command = command(&crate::binary());
    command.envs(environment.iter().copied()).args(args);
    ended(command)
}

/// Starts the command with `--quiet` and without output.
pub fn begin<S: AsRef<std::ffi::OsStr>>(words: &[S]) -> Child {
    let mut command = Command::new(crate::binary());
    command.args(words).arg("--quiet").env("AWS_EC2_METADATA_DISABLED", "true");
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the command after the proxy received `after` requests. Returns false if the command had already finished.
pub fn is_killed<S: AsRef<std::ffi::OsStr>>(words: &[S], proxy: &Proxy, after: u64) -> bool {
    proxy.fail(1, Fault::Delay(Duration::from_millis(5)));
    let mut child = begin(words);
    let start = Instant::now();
    while proxy.requests() < after && child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(100));
        thread::sleep(Duration::from_millis(1));
    }
    let is_at_work = child.try_wait().unwrap().is_none();
    if is_at_work {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    is_at_work
}

/// A command line: the command, its target and its options.
pub fn with<'a>(command: &'a str, target: &'a [String], options: &[&'a str]) -> Vec<&'a str> {
    [command].into_iter().chain(target.iter().map(String::as_str)).chain(options.iter().copied()).collect()
}

/// All files below `folder`: name and bytes.
pub fn files_in(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut files, mut todo) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(at) = todo.pop() {
        for path in fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => todo.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                    drop(files.insert(name, fs::read(&path).unwrap()));
                }
            }
        }
    }
    files
}

pub fn files_at(server: &ObjectServer, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let keys = server.keys(&format!("{prefix}/"));
    let named = keys.iter().map(|key| (key[prefix.len() + 1..].to_owned(), server.get(key).unwrap()));
    named.collect()
}

#[track_caller]
pub fn same(one: &BTreeMap<String, Vec<u8>>, other: &BTreeMap<String, Vec<u8>>, what: &str) {
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(one), names(other), "{what}");
    let differs: Vec<_> = one.iter().filter(|(name, bytes)| other[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(differs.is_empty(), "{what}: {differs:?}");
}

/// Store options of `server` for requests to `port`.
pub fn settings(server: &ObjectServer, port: u16) -> Vec<String> {
    server.settings(port).into_iter().map(|(name, value)| format!("--store={name}={value}")).collect()
}
