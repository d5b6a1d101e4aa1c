//! Creates source trees, runs the binary and checks its output, for tests at the process boundary.
//!
//! The checks read shards with the `tar` crate and compare them with the source tree, not with reports of the packer.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs,
    io::Read,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use shardpack_format::{
    hash,
    index::Index,
    manifest::{self, Counts, Manifest},
};
use shardpack_packer::ledger::{self, Fate, Unpacked};

/// Runs a Python script; its argument is the new folder `out`.
pub fn python(script: &str, out: &Path) {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    fs::create_dir(out).unwrap();
    let ran = Command::new(python).args(["-c", script]).arg(out).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// The folder of the README's photographs.
pub fn photos() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/photos")
}

/// A small photograph.
pub fn photo() -> Vec<u8> {
    fs::read(photos().join("animals/cat-ear.jpg")).unwrap()
}

/// A small PNG.
pub fn png() -> Vec<u8> {
    fs::read(photos().join("things/spoon.png")).unwrap()
}

/// Pseudo-random numbers, the same in every run: xorshift64*.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Begins at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A JPEG of `bytes` bytes (at least 5,000): the small photograph, with comments that hold numbers drawn from `seed`.
pub fn jpeg(seed: u64, bytes: usize) -> Vec<u8> {
    let photo = photo();
    let mut rng = Rng::new(seed + 1);
    let mut left = bytes.checked_sub(photo.len()).expect("shorter than the photograph");
    let mut out = photo[..2].to_vec();
    while left > 0 {
        // A segment has at least 4 bytes, so a rest of 1 to 3 bytes must not occur.
        let segment = if left <= 65_000 { left } else { 60_000 };
        assert!(segment >= 4, "{bytes} bytes cannot be made");
        out.extend([0xff, 0xfe]);
        out.extend(((segment - 2) as u16).to_be_bytes());
        out.extend((0..segment - 4).map(|_| rng.next() as u8));
        left -= segment;
    }
    out.extend(&photo[2..]);
    out
}

/// A temporary folder with the source at [`Bench::src`] and the output at [`Bench::dst`]; deleted on drop.
pub struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// With an empty source folder.
    pub fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(bench.src()).unwrap();
        bench
    }

    /// With a source of these files; each is a photograph with unique bytes.
    pub fn with(paths: &[&str]) -> Self {
        let bench = Self::new();
        for (number, path) in paths.iter().enumerate() {
            bench.file(path, &jpeg(number as u64, 5000 + 7 * number));
        }
        bench
    }

    /// With a source of `files` photographs in 7 classes; each has 5,000 to 5,000 + `spread` bytes.
    pub fn of(files: u64, spread: u64) -> Self {
        let bench = Self::new();
        let mut rng = Rng::new(files);
        for number in 0..files {
            let bytes = 5000 + rng.below(spread.max(1)) as usize;
            bench.file(format!("class-{}/{number:06}.jpg", rng.below(7)), &jpeg(number, bytes));
        }
        bench
    }

    /// The source folder.
    pub fn src(&self) -> PathBuf {
        self.at("src")
    }

    /// The destination folder; does not exist at first.
    pub fn dst(&self) -> PathBuf {
        self.at("dst")
    }

    /// Another path in the folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file below the source, and creates its parent folders.
    pub fn file(&self, path: impl AsRef<OsStr>, bytes: &[u8]) {
        let path = self.src().join(path.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Creates a folder below the source.
    pub fn folder(&self, path: impl AsRef<OsStr>) {
        fs::create_dir_all(self.src().join(path.as_ref())).unwrap();
    }

    /// Creates a symbolic link below the source.
    pub fn link(&self, path: &str, to: impl AsRef<Path>) {
        let path = self.src().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    /// Runs the binary with the words of `line`; `SRC`, `DST` and `@name` stand for paths of the bench.
    pub fn shardpack(&self, line: &str) -> Ran {
        run(&self.words(line))
    }

    /// The words of `line`, with `SRC`, `DST` and `@name` replaced.
    pub fn words(&self, line: &str) -> Vec<OsString> {
        let placed = |word: &str| match word {
            "SRC" => self.src().into(),
            "DST" => self.dst().into(),
            word => word.strip_prefix('@').map_or_else(|| word.into(), |name| self.at(name).into()),
        };
        line.split_whitespace().map(placed).collect()
    }

    /// Packs the source into [`Bench::dst`].
    pub fn pack(&self, options: &[&str]) -> Ran {
        self.pack_to(&self.dst(), options)
    }

    /// Packs the source into `dst`.
    pub fn pack_to(&self, dst: &Path, options: &[&str]) -> Ran {
        pack(&self.src(), dst, options)
    }
}

/// A source with three good images and four bad files, and path and reason of each bad file.
pub fn bad() -> (Bench, [(&'static str, &'static str); 4]) {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg", "b/3.jpg"]);
    bench.file("a/empty.jpg", b"");
    bench.link("a/dangling.jpg", "nowhere");
    bench.link("b/device.png", "/dev/null");
    assert!(Command::new("mkfifo").arg(bench.src().join("b/pipe.jpg")).status().unwrap().success());
    bench.folder("b/folder.jpg");
    let said = [
        ("a/dangling.jpg", "cannot be read: No such file or directory"),
        ("a/empty.jpg", "empty file"),
        ("b/device.png", "not a regular file"),
        ("b/pipe.jpg", "not a regular file"),
    ];
    (bench, said)
}

/// The sealed dataset in DST, after it was compared with the source.
pub fn sealed(bench: &Bench) -> Dataset {
    let dataset = Dataset::read(&bench.dst());
    dataset.check_source(&bench.src());
    dataset
}

/// Converts the bytes of a name to a path.
pub fn name(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Runs `shardpack pack src dst` with these options.
pub fn pack(src: &Path, dst: &Path, options: &[&str]) -> Ran {
    let mut args: Vec<&OsStr> = vec![OsStr::new("pack"), src.as_os_str(), dst.as_os_str()];
    args.extend(options.iter().map(OsStr::new));
    run(&args)
}

/// Label and bytes of every image, sorted.
pub fn images(folder: &Path) -> Vec<(i64, Vec<u8>)> {
    let dataset = shardpack_reader::Dataset::open(folder).unwrap();
    let mut reader = dataset.reader(..).unwrap().check_content(true);
    let mut images = Vec::new();
    while let Some(sample) = reader.next().unwrap() {
        images.push((sample.label().unwrap(), sample.bytes().to_vec()));
    }
    images.sort();
    images
}

/// Path of the binary; `SHARDPACK_PROGRAM` replaces it, for example with the program of the Python package.
pub fn binary() -> PathBuf {
    std::env::var_os("SHARDPACK_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_shardpack").into()).into()
}

/// Output and exit code of a finished process.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; the negative signal number if a signal ended the process.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or_else(|| -output.status.signal().unwrap()),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Fails the test unless the exit code is `code`.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test unless stdout or stderr contains `text`.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        let said = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(said, "not said: {text}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test if stdout or stderr contains `text`.
    #[track_caller]
    pub fn says_not(self, text: &str) -> Self {
        let said = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(!said, "said: {text}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test unless stderr has the project's error form: one line, and at most one line of help.
    #[track_caller]
    pub fn clean_error(self) -> Self {
        let lines: Vec<&str> = self.stderr.lines().skip_while(|line| !line.starts_with("error: ")).collect();
        let fine = matches!(lines.as_slice(), [_] | [_, _]) && lines[1..].iter().all(|l| l.starts_with("  help: "));
        assert!(fine, "no clean error:\n{}", self.stderr);
        self
    }

    /// Parses stdout as one JSON document.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}:\n{}", self.stdout))
    }
}

/// Runs the binary and waits for its end.
pub fn run(args: &[impl AsRef<OsStr>]) -> Ran {
    let output = assert_cmd::Command::new(binary()).args(args).output().unwrap();
    output.into()
}

/// Runs the binary from a shell that first runs `before`, for example to set limits or to ignore signals.
pub fn run_after(before: &str, args: &[impl AsRef<OsStr>]) -> Ran {
    let script = format!("{before} && exec \"$0\" \"$@\"");
    Command::new("sh").arg("-c").arg(script).arg(binary()).args(args).output().unwrap().into()
}

/// Returns true if the process may mount file systems (as root, in a separate mount namespace).
pub fn mounts_work() -> bool {
    let folder = tempfile::tempdir().unwrap();
    Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "none"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// All entries below `folder`: the BLAKE3 hash for a file, an empty string for a folder. Does not follow links.
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(folder).unwrap().to_path_buf();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                out.insert(relative, String::new());
                todo.push(path);
            } else {
                out.insert(relative, hash::hex(&hash::file(&fs::read(&path).unwrap())));
            }
        }
    }
    out
}

/// One hash over [`contents`].
pub fn folder_hash(folder: &Path) -> String {
    let lines: Vec<u8> = contents(folder)
        .into_iter()
        .flat_map(|(path, hash)| [path.as_os_str().as_bytes(), b"\0", hash.as_bytes(), b"\n"].concat())
        .collect();
    hash::hex(&hash::file(&lines))
}

/// A sample in a shard.
#[derive(Debug)]
pub struct Packed {
    /// Key.
    pub key: String,
    /// Original path, from the index.
    pub path: Vec<u8>,
    /// Label, from the index.
    pub label: i64,
    /// Members by extension.
    pub components: BTreeMap<String, Vec<u8>>,
}

/// Names and bytes of the members of a tar file, plain or `.zst`, in order.
pub fn members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = plain(path);
    let mut archive = tar::Archive::new(bytes.as_slice());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()), (0, 0, 0));
        assert_eq!(header.mode().unwrap(), 0o644);
        assert!(header.entry_type().is_file());
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    });
    entries.collect()
}

/// The bytes of a shard, decompressed if it is `.zst`.
pub fn plain(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    match path.extension().is_some_and(|extension| extension == "zst") {
        true => zstd::decode_all(bytes.as_slice()).unwrap(),
        false => bytes,
    }
}

/// A sealed dataset, read in a slow and simple way. [`Dataset::read`] fails the test if any part is inconsistent.
#[derive(Debug)]
pub struct Dataset {
    /// Its manifest.
    pub manifest: Manifest,
    /// Its samples in order.
    pub samples: Vec<Packed>,
    /// Its ledger.
    pub ledger: Vec<Unpacked>,
}

impl Dataset {
    /// Reads the whole dataset in `dst` and compares manifest, shards, indexes, sums and ledger with each other.
    pub fn read(dst: &Path) -> Self {
        let bytes = fs::read(dst.join(manifest::FILE)).unwrap();
        let manifest = Manifest::read(&bytes).unwrap();
        manifest.check_id(&bytes).unwrap();
        assert_eq!(fs::read_to_string(dst.join(manifest::SUMS_FILE)).unwrap(), manifest.sums());
        let mut expected =
            BTreeSet::from([manifest::FILE, manifest::SUMS_FILE, manifest::INDEX_FOLDER].map(str::to_owned));
        for sidecar in &manifest.sidecars {
            let found = fs::read(dst.join(&sidecar.file)).unwrap();
            assert_eq!((sidecar.bytes, sidecar.blake3.0), (found.len() as u64, hash::file(&found)), "{}", sidecar.file);
            expected.insert(sidecar.file.clone());
            expected.extend(sidecar.file.split_once('/').map(|(folder, _)| folder.to_owned()));
        }
        let mut samples = Vec::new();
        for shard in &manifest.shards {
            expected.extend([shard.file.clone(), shard.index.file.clone()]);
            let (file, index) =
                (fs::read(dst.join(&shard.file)).unwrap(), fs::read(dst.join(&shard.index.file)).unwrap());
            assert_eq!((shard.bytes, shard.blake3.0), (file.len() as u64, hash::file(&file)), "{}", shard.file);
            assert_eq!((shard.index.bytes, shard.index.blake3.0), (index.len() as u64, hash::file(&index)));
            let read = read_shard(&dst.join(&shard.file), index);
            assert_eq!(read.len() as u64, shard.samples, "{}", shard.file);
            samples.extend(read);
        }
        let ledger = match &manifest.ledger.file {
            None => Vec::new(),
            Some(file) => {
                expected.insert(file.file.clone());
                let bytes = fs::read(dst.join(&file.file)).unwrap();
                assert_eq!((file.bytes, file.blake3.0), (bytes.len() as u64, hash::file(&bytes)));
                ledger::read(&bytes).unwrap()
            }
        };
        let found: BTreeSet<String> = contents(dst).into_keys().map(|path| path.to_str().unwrap().to_owned()).collect();
        assert_eq!(found, expected, "strangers in {}, or files that are missing", dst.display());
        let dataset = Self { manifest, samples, ledger };
        dataset.check_conservation();
        dataset
    }

    /// Checks discovered = packed + skipped + duplicates + filtered for each class, with counts of samples and ledger lines.
    fn check_conservation(&self) {
        let mut counted = vec![Counts::default(); self.manifest.classes.len()];
        let (mut paths, mut unclassified) = (BTreeSet::new(), Counts::default());
        for sample in &self.samples {
            assert!(paths.insert(&sample.path), "packed twice: {}", String::from_utf8_lossy(&sample.path));
            counted[sample.label as usize].packed += 1;
        }
        for line in &self.ledger {
            assert!(!line.reason.is_empty());
            if line.fate == Fate::Kept {
                assert!(self.samples.iter().any(|sample| sample.path == line.path), "{line:?} is not packed");
                continue;
            }
            assert!(paths.insert(&line.path), "twice: {}", String::from_utf8_lossy(&line.path));
            let class = line.class.map_or(&mut unclassified, |class| &mut counted[class as usize]);
            match line.fate {
                Fate::Skipped => class.skipped += 1,
                Fate::Filtered => class.filtered += 1,
                Fate::Duplicate => class.duplicates += 1,
                Fate::Kept => unreachable!("passed over"),
            }
        }
        unclassified.discovered = unclassified.skipped + unclassified.filtered;
        assert_eq!(self.manifest.ledger.unclassified, unclassified);
        let mut total = unclassified;
        for (class, mut counts) in self.manifest.classes.iter().zip(counted) {
            counts.discovered = counts.packed + counts.skipped + counts.duplicates + counts.filtered;
            assert_eq!(class.counts, counts, "class {}", class.name);
            total.add(&counts);
        }
        assert_eq!(self.manifest.ledger.counts, total);
        assert_eq!(self.manifest.samples, total.packed);
        let payload: usize = self.samples.iter().map(|sample| sample.image().len()).sum();
        assert_eq!(self.manifest.payload_bytes, payload as u64);
    }

    /// Fails the test unless every sample equals its file in `src`, byte for byte, and has the label of its class.
    pub fn check_source(&self, src: &Path) {
        let names: Vec<Vec<u8>> = self.manifest.classes.iter().map(manifest::Class::name_bytes).collect();
        assert!(names.is_sorted());
        for sample in &self.samples {
            let path = name(&sample.path);
            let same = fs::read(src.join(&path)).unwrap() == sample.image();
            assert!(same, "{path:?} is not what was packed");
            let class = sample.path.split(|byte| *byte == b'/').next().unwrap();
            assert_eq!(names[sample.label as usize], class, "{path:?}");
            if let Some(cls) = sample.components.get("cls") {
                assert_eq!(cls, sample.label.to_string().as_bytes());
            }
        }
    }

    /// The original paths of all packed samples, as text, sorted.
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> =
            self.samples.iter().map(|sample| String::from_utf8_lossy(&sample.path).into_owned()).collect();
        paths.sort();
        paths
    }

    /// Original path, fate and reason of each ledger line, sorted by path.
    pub fn unpacked(&self) -> Vec<(String, Fate, String)> {
        let mut lines: Vec<_> = self
            .ledger
            .iter()
            .map(|line| (String::from_utf8_lossy(&line.path).into_owned(), line.fate, line.reason.to_string()))
            .collect();
        lines.sort_by(|a, b| a.0.cmp(&b.0));
        lines
    }

    /// Names of the classes, in label order.
    pub fn classes(&self) -> Vec<&str> {
        self.manifest.classes.iter().map(|class| class.name.as_str()).collect()
    }
}

impl Packed {
    /// The image, with any extension.
    pub fn image(&self) -> &[u8] {
        let (_, bytes) = self.components.iter().find(|(name, _)| !["cls", "json"].contains(&name.as_str())).unwrap();
        bytes
    }
}

/// Reads the samples of a shard, grouped by key, and fails the test unless the index agrees.
fn read_shard(path: &Path, index: Vec<u8>) -> Vec<Packed> {
    let index = Index::open(index).unwrap();
    let bytes = plain(path);
    assert_eq!(index.summary().content_bytes, bytes.len() as u64);
    let mut samples: Vec<Packed> = Vec::new();
    for (name, bytes) in members(path) {
        let (key, extension) = name.split_once('.').unwrap();
        if samples.last().is_none_or(|sample| sample.key != key) {
            let row = index.row(samples.len() as u64).unwrap();
            assert_eq!(row.key, key.as_bytes());
            let (path, label) = (row.path.to_vec(), row.label.unwrap());
            samples.push(Packed { key: key.to_owned(), path, label, components: BTreeMap::new() });
        }
        assert!(samples.last_mut().unwrap().components.insert(extension.to_owned(), bytes).is_none(), "{name} twice");
    }
    assert_eq!(index.len(), samples.len() as u64);
    for (number, sample) in samples.iter().enumerate() {
        let row = index.row(number as u64).unwrap();
        let (offset, length) = row.payload();
        assert_eq!(&bytes[offset as usize..][..length as usize], sample.image());
        assert_eq!(row.content_hash, hash::content(sample.image()));
    }
    samples
}
