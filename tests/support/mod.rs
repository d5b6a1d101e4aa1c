//! Trees to pack, runs of the binary, and looks at what came out, for the tests at the process boundary.
//!
//! What is looked at is read with the `tar` crate and compared with the tree itself, not with what the packer says.

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

/// Runs a script of Python that writes into the new folder `out`, its argument.
pub fn python(script: &str, out: &Path) {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    fs::create_dir(out).unwrap();
    let ran = Command::new(python).args(["-c", script]).arg(out).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// The real photographs of the README.
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

/// Numbers that look random, the same on every run: xorshift64*.
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
        // A segment of 0 to 3 bytes does not exist, so none may be left over.
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

/// A folder that goes away with it; holds the source at [`Bench::src`] and what is packed at [`Bench::dst`].
pub struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// With an empty source.
    pub fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(bench.src()).unwrap();
        bench
    }

    /// Whose source has these files; each is a photograph with bytes of its own.
    pub fn with(paths: &[&str]) -> Self {
        let bench = Self::new();
        for (number, path) in paths.iter().enumerate() {
            bench.file(path, &jpeg(number as u64, 5000 + 7 * number));
        }
        bench
    }

    /// Whose source has `files` photographs in 7 classes, of 5,000 to 5,000 + `spread` bytes.
    pub fn of(files: u64, spread: u64) -> Self {
        let bench = Self::new();
        let mut rng = Rng::new(files);
        for number in 0..files {
            let bytes = 5000 + rng.below(spread.max(1)) as usize;
            bench.file(format!("class-{}/{number:06}.jpg", rng.below(7)), &jpeg(number, bytes));
        }
        bench
    }

    /// The source.
    pub fn src(&self) -> PathBuf {
        self.at("src")
    }

    /// Where to pack to; is not there at first.
    pub fn dst(&self) -> PathBuf {
        self.at("dst")
    }

    /// Another path in the folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the source, and the folders above it.
    pub fn file(&self, path: impl AsRef<OsStr>, bytes: &[u8]) {
        let path = self.src().join(path.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Makes a folder of the source.
    pub fn folder(&self, path: impl AsRef<OsStr>) {
        fs::create_dir_all(self.src().join(path.as_ref())).unwrap();
    }

    /// Makes a symbolic link in the source.
    pub fn link(&self, path: &str, to: impl AsRef<Path>) {
        let path = self.src().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    /// Runs the binary with these words; `SRC`, `DST` and `@name` stand for paths of the bench.
    pub fn shardpack(&self, line: &str) -> Ran {
        run(&self.words(line))
    }

    /// The words of such a line.
    pub fn words(&self, line: &str) -> Vec<OsString> {
        let placed = |word: &str| match word {
            "SRC" => self.src().into(),
            "DST" => self.dst().into(),
            word => word.strip_prefix('@').map_or_else(|| word.into(), |name| self.at(name).into()),
        };
        line.split_whitespace().map(placed).collect()
    }

    /// Packs the source into [`Bench::dst`] with these options.
    pub fn pack(&self, options: &[&str]) -> Ran {
        self.pack_to(&self.dst(), options)
    }

    /// Packs the source into `dst` with these options.
    pub fn pack_to(&self, dst: &Path, options: &[&str]) -> Ran {
        pack(&self.src(), dst, options)
    }
}

/// Three good images and four that are not; what is said of them.
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

/// The sealed dataset in DST, compared with the source.
pub fn sealed(bench: &Bench) -> Dataset {
    let dataset = Dataset::read(&bench.dst());
    dataset.check_source(&bench.src());
    dataset
}

/// Bytes of a name as a path.
pub fn name(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// `shardpack pack src dst` with these options.
pub fn pack(src: &Path, dst: &Path, options: &[&str]) -> Ran {
    let mut args: Vec<&OsStr> = vec![OsStr::new("pack"), src.as_os_str(), dst.as_os_str()];
    args.extend(options.iter().map(OsStr::new));
    run(&args)
}

/// Label and bytes of every image, in order of both.
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

/// The binary, to be spawned and sent signals; or that of `SHARDPACK_PROGRAM`, as the Python package installs it.
pub fn binary() -> PathBuf {
    std::env::var_os("SHARDPACK_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_shardpack").into()).into()
}

/// A run of the binary: what it said, and how it ended.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; minus the number of the signal that ended it.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
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

    /// Fails the test unless stdout or stderr has this text in it.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        let said = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(said, "not said: {text}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test if stdout or stderr has this text in it.
    #[track_caller]
    pub fn says_not(self, text: &str) -> Self {
        let said = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(!said, "said: {text}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test unless stderr is an error as the project writes them: one line, perhaps a second with help.
    #[track_caller]
    pub fn clean_error(self) -> Self {
        let lines: Vec<&str> = self.stderr.lines().skip_while(|line| !line.starts_with("error: ")).collect();
        let fine = matches!(lines.as_slice(), [_] | [_, _]) && lines[1..].iter().all(|l| l.starts_with("  help: "));
        assert!(fine, "no clean error:\n{}", self.stderr);
        self
    }

    /// The one JSON document on stdout.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}:\n{}", self.stdout))
    }
}

/// Runs the binary to its end.
pub fn run(args: &[impl AsRef<OsStr>]) -> Ran {
    let output = assert_cmd::Command::new(binary()).args(args).output().unwrap();
    output.into()
}

/// Runs the binary from a shell that first runs `before`: limits, ignored signals.
pub fn run_after(before: &str, args: &[impl AsRef<OsStr>]) -> Ran {
    let script = format!("{before} && exec \"$0\" \"$@\"");
    Command::new("sh").arg("-c").arg(script).arg(binary()).args(args).output().unwrap().into()
}

/// Whether file systems can be mounted here: as root, in a mount namespace of their own.
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

/// Everything below a folder: for each file the BLAKE3 of its bytes, for each folder nothing. No link is followed.
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

/// One hash of [`contents`].
pub fn folder_hash(folder: &Path) -> String {
    let lines: Vec<u8> = contents(folder)
        .into_iter()
        .flat_map(|(path, hash)| [path.as_os_str().as_bytes(), b"\0", hash.as_bytes(), b"\n"].concat())
        .collect();
    hash::hex(&hash::file(&lines))
}

/// A sample as it lies in a shard.
#[derive(Debug)]
pub struct Packed {
    /// Key.
    pub key: String,
    /// Original path, from the index.
    pub path: Vec<u8>,
    /// Label, from the index.
    pub label: i64,
    /// Its members by their extension.
    pub components: BTreeMap<String, Vec<u8>>,
}

/// The members of a tar file, plain or `.zst`: names and bytes in order.
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

/// The bytes of a shard, unpacked if it is `.zst`.
pub fn plain(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    match path.extension().is_some_and(|extension| extension == "zst") {
        true => zstd::decode_all(bytes.as_slice()).unwrap(),
        false => bytes,
    }
}

/// A sealed dataset, read by the slow and obvious way; [`Dataset::read`] fails the test if anything in it is not right.
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
    /// Reads all of the dataset in `dst`, comparing manifest, shards, indexes, sums and ledger with each other.
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

    /// Discovered = packed + skipped + duplicates + filtered in each class, by counting samples and lines.
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

    /// Fails the test unless every sample is its file in `src`, to the byte, with the label of its class.
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

    /// The original paths that are packed, as text, sorted.
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> =
            self.samples.iter().map(|sample| String::from_utf8_lossy(&sample.path).into_owned()).collect();
        paths.sort();
        paths
    }

    /// The original paths in the ledger with why they are there, sorted by path.
    pub fn unpacked(&self) -> Vec<(String, Fate, String)> {
        let mut lines: Vec<_> = self
            .ledger
            .iter()
            .map(|line| (String::from_utf8_lossy(&line.path).into_owned(), line.fate, line.reason.to_string()))
            .collect();
        lines.sort_by(|a, b| a.0.cmp(&b.0));
        lines
    }

    /// Names of the classes in the order of their labels.
    pub fn classes(&self) -> Vec<&str> {
        self.manifest.classes.iter().map(|class| class.name.as_str()).collect()
    }
}

impl Packed {
    /// The image, whatever its extension.
    pub fn image(&self) -> &[u8] {
        let (_, bytes) = self.components.iter().find(|(name, _)| !["cls", "json"].contains(&name.as_str())).unwrap();
        bytes
    }
}

/// The samples of a shard: members grouped by key, and what its index says, which must agree.
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
