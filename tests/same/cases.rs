//! Cases of `commands.txt`: parses them, and runs their steps in a new folder with one program.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::masks::Masks;
use crate::{
    places,
    stores::{Kind, ObjectServer},
};

/// The link to the sources.
const INPUTS: &str = "in";
/// What commands keep between runs.
const CACHE: &str = ".cache";
/// Work folders of buckets.
const STATE: &str = ".state";

/// Where `AT` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Folder,
    Bucket,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Place::Folder => "folder",
            Place::Bucket => "bucket",
        }
    }
}

/// Steps that run in one folder.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    pub place: Place,
    steps: Vec<&'static str>,
}

/// All cases; one that names `AT` occurs for each place.
pub fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in include_str!("commands.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None => cases.push(Case { name: line, place: Place::Folder, steps: Vec::new() }),
            Some(step) => cases.last_mut().expect("a case begins with its name").steps.push(step),
        }
    }
    let at = |case: &Case| case.steps.iter().any(|step| step.contains("AT/"));
    let placed = |case: Case| {
        let bucket = at(&case).then(|| Case { place: Place::Bucket, ..case.clone() });
        [Some(case), bucket].into_iter().flatten()
    };
    cases.into_iter().flat_map(placed).collect()
}

impl Case {
    /// Runs all steps with `program`; commands have `--json` if `is_json`.
    ///
    /// Returns the command, exit code and masked output of each step, then name and hash of each file.
    pub fn run(&self, program: &Path, inputs: &Path, is_json: bool) -> Vec<String> {
        let run = Run::new(self, program, inputs);
        let mut outcome: Vec<String> = self.steps.iter().flat_map(|step| run.step(step, is_json)).collect();
        outcome.extend(run.files().into_iter().map(|(name, bytes)| {
            let hash = shardpack_format::hash::hex(&shardpack_format::hash::file(&bytes));
            format!("{name} {} {hash}", bytes.len())
        }));
        outcome
    }
}

/// A folder, and perhaps a bucket, with what the steps have written so far.
struct Run<'a> {
    program: &'a Path,
    folder: tempfile::TempDir,
    server: Option<ObjectServer>,
    masks: Masks,
}

impl<'a> Run<'a> {
    fn new(case: &Case, program: &'a Path, inputs: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(inputs, folder.path().join(INPUTS)).unwrap();
        let server =
            (case.place == Place::Bucket).then(|| ObjectServer::start(Kind::S3).expect("it was started before"));
        let mut masks = Masks::default();
        masks.path(folder.path().join(STATE).to_str().unwrap(), "STATE");
        masks.path(folder.path().to_str().unwrap(), "TMP");
        masks.path(env!("CARGO_MANIFEST_DIR"), "REPOSITORY");
        masks.path(inputs.parent().unwrap().to_str().unwrap(), "INPUTS");
        if let Some(server) = &server {
            masks.path(server.url("").trim_end_matches('/'), "BUCKET");
            masks.path(&format!("127.0.0.1:{}", server.port()), "SERVER");
        }
        Self { program, folder, server, masks }
    }

    /// A word of a step, with `AT/` replaced.
    fn word(&self, word: &str) -> String {
        match (word.strip_prefix("AT/"), &self.server) {
            (Some(name), None) => format!("out/{name}"),
            (Some(name), Some(server)) => server.url(name),
            _ => word.to_owned(),
        }
    }

    fn step(&self, step: &str, is_json: bool) -> Vec<String> {
        let words: Vec<&str> = step.split(' ').collect();
        match words[..] {
            ["cp", from, to] => self.copy(&self.folder.path().join(from), to),
            ["rm", path] => self.remove(path),
            ["write", path, word] => self.put(path, format!("{word}\n").as_bytes()),
            ["flip", path, offset] => {
                let mut bytes = self.get(path);
                let offset: isize = offset.parse().unwrap();
                let at = if offset < 0 { bytes.len().strict_sub(offset.unsigned_abs()) } else { offset as usize };
                bytes[at] ^= 1;
                self.put(path, &bytes);
            }
            _ => return self.command(step, &words, is_json),
        }
        Vec::new()
    }

    fn command(&self, step: &str, words: &[&str], is_json: bool) -> Vec<String> {
        let mut command = Command::new(self.program);
        // Messages about options contain the name of the program.
        command.arg0("shardpack");
        for (name, _) in std::env::vars().filter(|(name, _)| places::is_of_a_store(name)) {
            command.env_remove(name);
        }
        command.env("AWS_CONFIG_FILE", "/nothing").env("AWS_SHARED_CREDENTIALS_FILE", "/nothing");
        command.env("AWS_EC2_METADATA_DISABLED", "true").env("XDG_CACHE_HOME", self.folder.path().join(CACHE));
        command.env("XDG_STATE_HOME", self.folder.path().join(STATE));
        command.envs(self.server.iter().flat_map(ObjectServer::environment));
        command.current_dir(self.folder.path()).args(words.iter().map(|word| self.word(word)));
        command.args(is_json.then_some("--json"));
        let ran = command.output().unwrap();
        let (stdout, stderr) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
        let mut said = vec![format!("$ {step}"), format!("exit code {:?}", ran.status.code())];
        match serde_json::from_str::<Value>(&stdout) {
            Ok(json) if is_json => {
                let text = serde_json::to_string_pretty(&self.masks.json(json)).unwrap();
                said.extend(text.lines().map(|line| self.masks.paths(line)));
            }
            // `status` has a rate if shards were finished lately.
            _ => {
                said.extend(stdout.lines().map(|line| self.masks.line(line)).filter(|line| !line.starts_with("rate ")))
            }
        }
        // A line of progress has a rate; a slow command prints one every ten seconds.
        let lines = stderr.lines().map(|line| self.masks.line(line)).filter(|line| !line.contains("RATE"));
        said.extend(lines.map(|line| format!("! {line}")));
        said
    }

    /// The place of a path that begins with `AT/` in a bucket.
    fn key<'p>(&self, path: &'p str) -> Option<(&ObjectServer, &'p str)> {
        Some((self.server.as_ref()?, path.strip_prefix("AT/")?))
    }

    fn local(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.replace("AT/", "out/"))
    }

    fn copy(&self, from: &Path, to: &str) {
        if !from.is_dir() {
            return self.put(to, &fs::read(from).unwrap());
        }
        for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
            self.copy(&entry.path(), &format!("{to}/{}", entry.file_name().to_str().unwrap()));
        }
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        if let Some((server, key)) = self.key(path) {
            return server.put(key, bytes);
        }
        let path = self.local(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn get(&self, path: &str) -> Vec<u8> {
        match self.key(path) {
            Some((server, key)) => server.get(key).unwrap(),
            None => fs::read(self.local(path)).unwrap_or_else(|error| panic!("{path}: {error}")),
        }
    }

    fn remove(&self, path: &str) {
        match self.key(path) {
            Some((server, key)) => server.delete(key),
            None => fs::remove_file(self.local(path)).unwrap_or_else(|error| panic!("{path}: {error}")),
        }
    }

    /// All files that the steps have written, except work folders of buckets. A work folder at the destination and a plan hold inodes, so their
    /// files count by their names only.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = places::files_in(self.folder.path());
        files.retain(|name, _| ![INPUTS, CACHE, STATE].iter().any(|folder| name.starts_with(folder)));
        if let Some(server) = &self.server {
            let objects = server.keys("").into_iter();
            files.extend(objects.map(|key| (format!("BUCKET/{key}"), server.get(&key).unwrap())));
        }
        for (name, bytes) in &mut files {
            if name.contains(".shardpack") || name == "plan.json" {
                bytes.clear();
            }
        }
        files
    }
}
