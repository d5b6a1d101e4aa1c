//! Source trees in a temporary folder, photographs, and Python scripts that write sources.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Ran, pack, root, run};

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
    root().join("fixtures/photos")
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
    pub fn with_source(files: u64, spread: u64) -> Self {
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

/// Converts the bytes of a name to a path.
pub fn name(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}
