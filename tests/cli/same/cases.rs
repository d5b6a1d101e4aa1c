//! Parses the cases of `commands.txt`, and runs their steps in a new folder with one program.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
};

use serde_json::Value;
use shardpack_format::hash;

use super::masks::Masks;
use shardpack_testing::{
    places,
    stores::{Kind, ObjectServer},
};

/// Link to the sources.
const INPUTS: &str = "in";
/// Cache of the commands.
const CACHE: &str = ".cache";
/// Work folders for buckets.
const STATE: &str = ".state";

/// Replacement of `AT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseLocation {
    Folder,
    Bucket,
}

impl CaseLocation {
    pub fn name(self) -> &'static str {
        match self {
            CaseLocation::Folder => "folder",
            CaseLocation::Bucket => "bucket",
        }
    }
}

/// A name and steps, which share a folder.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    pub place: CaseLocation,
    steps: Vec<&'static str>,
}

/// Parses all cases; a case with `AT` occurs once for each place.
pub fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in include_str!("commands.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None => cases.push(Case { name: line, place: CaseLocation::Folder, steps: Vec::new() }),
            Some(step) => cases.last_mut().expect("a case begins with its name").steps.push(step),
        }
    }
    let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "two cases have the same name");
    let at = |case: &Case| case.steps.iter().any(|step| step.contains("AT/"));
    let placed = |case: Case| {
        let bucket = at(&case).then(|| Case { place: CaseLocation::Bucket, ..case.clone() });
        [Some(case), bucket].into_iter().flatten()
    };
    cases.into_iter().flat_map(placed).collect()
}

impl Case {
    /// Runs all steps with `program`, and adds `--json` if `is_json`.
    ///
    /// Returns each command with its exit code and masked output, then the name and hash of each file.
    pub fn run(&self, program: &Path, inputs: &Path, is_json: bool) -> Vec<String> {
        let run = RunningCase::new(self, program, inputs);
        let mut outcome: Vec<String> = self.steps.iter().flat_map(|step| run.step(step, is_json)).collect();
        outcome.extend(run.files());
        outcome
    }
}

/// A running case: its folder, and its bucket if it has one.
struct RunningCase<'a> {
    program: &'a Path,
    folder: tempfile::TempDir,
    server: Option<ObjectServer>,
    masks: Masks,
}

impl<'a> RunningCase<'a> {
    fn new(case: &Case, program: &'a Path, inputs: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        symlink(inputs, folder.path().join(INPUTS)).unwrap();
        let server =
            (case.place == CaseLocation::Bucket).then(|| ObjectServer::start(Kind::S3).expect("it was started before"));
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

    /// Replaces `AT/` in an argument.
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
            ["flip", path, offset] => {
                let mut bytes = self.get(path);
                bytes[offset.parse::<usize>().unwrap()] ^= 1;
                self.put(path, &bytes);
            }
            _ => return self.command(step, &words, is_json),
        }
        Vec::new()
    }

    fn command(&self, step: &str, words: &[&str], is_json: bool) -> Vec<String> {
        let mut command = places::command(self.program);
        // clap prints the name of the program.
        command.arg0("shardpack");
        for (name, folder) in [("XDG_CACHE_HOME", CACHE), ("XDG_STATE_HOME", STATE)] {
            command.env(name, self.folder.path().join(folder));
        }
        command.envs(self.server.iter().flat_map(ObjectServer::environment));
        command.current_dir(self.folder.path()).args(words.iter().map(|word| self.word(word)));
        command.args(is_json.then_some("--json"));
        let ran = places::ended(command);
        let mut said = vec![format!("$ {step}"), format!("exit code {}", ran.code)];
        match serde_json::from_str::<Value>(&ran.stdout) {
            Ok(json) if is_json => {
                let text = serde_json::to_string_pretty(&self.masks.json(json)).unwrap();
                said.extend(text.lines().map(|line| self.masks.paths(line)));
            }
            // `status` prints a rate only if a shard was finished recently.
            _ => said
                .extend(ran.stdout.lines().map(|line| self.masks.line(line)).filter(|line| !line.starts_with("rate "))),
        }
        // Lines with a rate are progress, which a slow command prints every ten seconds.
        let lines = ran.stderr.lines().map(|line| self.masks.line(line)).filter(|line| !line.contains("RATE"));
        said.extend(lines.map(|line| format!("! {line}")));
        said
    }

    /// Server and key of an object; `None` for a file.
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
            Some((server, key)) => server.get(key).unwrap_or_else(|| panic!("{path}: no such object")),
            None => fs::read(self.local(path)).unwrap_or_else(|error| panic!("{path}: {error}")),
        }
    }

    fn remove(&self, path: &str) {
        match self.key(path) {
            Some((server, key)) => {
                assert!(server.get(key).is_some(), "{path}: no such object");
                server.delete(key);
            }
            None => fs::remove_file(self.local(path)).unwrap_or_else(|error| panic!("{path}: {error}")),
        }
    }

    /// Name and hash of each file and object. Work folders and plans contain inodes, so only the names of their files are compared; work
    /// folders for buckets are not compared.
    fn files(&self) -> Vec<String> {
        // `contents` reads links.
        fs::remove_file(self.folder.path().join(INPUTS)).unwrap();
        let mut files = shardpack_testing::contents(self.folder.path());
        files.retain(|path, _| !path.starts_with(CACHE) && !path.starts_with(STATE));
        if let Some(server) = &self.server {
            for key in server.keys("") {
                let hash = hash::hex(&hash::file(&server.get(&key).unwrap()));
                files.insert(Path::new("BUCKET").join(key), hash);
            }
        }
        let line = |(path, hash): (PathBuf, String)| {
            let name = path.display();
            match path.ends_with("plan.json") || name.to_string().contains(".shardpack") {
                true => name.to_string(),
                false => format!("{name} {hash}"),
            }
        };
        files.into_iter().map(line).collect()
    }
}
