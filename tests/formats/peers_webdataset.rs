//! Reads our shards and sidecars with foreign readers: webdataset, Python's tarfile, GNU tar and b3sum. wids, Hugging Face
//! datasets and NVIDIA DALI run if their environments exist.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const PHOTOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/photos");
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");

fn python() -> PathBuf {
    let python = std::env::var_os("SHARDPACK_PYTHON");
    python.expect("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which makes the environment it names").into()
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    output
}

fn pack(src: &Path, options: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut pack = Command::new(shardpack_testing::built("shardpack"));
    succeed(pack.args(["pack", "--quiet"]).args(options).arg(src).arg(folder.path()));
    folder
}

fn shards(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_shard =
        |path: &PathBuf| path.to_string_lossy().ends_with(".tar") || path.extension().unwrap_or_default() == "zst";
    let mut shards: Vec<_> = paths.filter(is_shard).collect();
    shards.sort();
    assert!(!shards.is_empty());
    shards
}

/// Reads `paths` with `how` and compares with `src`; returns the number of samples.
fn read(how: &str, src: &Path, paths: &[PathBuf]) -> u64 {
    read_with(&python(), how, src, paths)
}

fn read_with(python: &Path, how: &str, src: &Path, paths: &[PathBuf]) -> u64 {
    let script = Path::new(SCRIPTS).join("read_shards.py");
    let output = succeed(Command::new(python).arg(script).arg(how).arg(src).args(paths));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Extracts `shards` with GNU tar, all into one folder.
fn extract(shards: &[PathBuf]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for shard in shards {
        let mut tar = Command::new("tar");
        if shard.extension().unwrap() == "zst" {
            tar.arg("-I").arg(format!("{} {SCRIPTS}/unzstd.py", python().display()));
        }
        succeed(tar.arg("-C").arg(folder.path()).arg("-xf").arg(shard));
    }
    folder
}

/// Fails unless every line of BLAKE3SUMS is right and every file of the dataset has a line.
fn check_sums(folder: &Path) {
    let sums = fs::read_to_string(folder.join("BLAKE3SUMS")).unwrap();
    let mut named = 0;
    for line in sums.lines() {
        let (digits, file) = line.split_once("  ").unwrap();
        assert_eq!(digits, blake3::hash(&fs::read(folder.join(file)).unwrap()).to_hex().as_str(), "{file}");
        named += 1;
    }
    let manifest = fs::read(folder.join("manifest.json")).unwrap();
    let sidecars = shardpack_format::manifest::Manifest::read(&manifest).unwrap().sidecars.len();
    assert_eq!(named, 2 * shards(folder).len() + sidecars, "each shard, its index, and each sidecar");
    match Command::new("b3sum").args(["--check", "--quiet", "BLAKE3SUMS"]).current_dir(folder).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(_) => eprintln!("b3sum is not installed: only the crate blake3 was asked"),
    }
}

fn read_by_all(src: &Path, folder: &Path, samples: u64) {
    let shards = shards(folder);
    for how in ["webdataset", "tarfile"] {
        assert_eq!(read(how, src, &shards), samples, "{how}");
    }
    let extracted = extract(&shards);
    assert_eq!(read("tree", src, &[extracted.path().to_path_buf()]), samples, "GNU tar");
    check_sums(folder);
}

#[test]
fn webdataset_tarfile_and_gnu_tar_read_every_sample_as_it_was() {
    let rows: [(&str, &[&str]); 5] = [
        ("plain", &[]),
        ("metadata", &["--meta", "json", "--shard-samples", "5"]),
        ("in order of the source", &["--order", "source", "--shards", "3", "--meta", "json"]),
        ("zstd", &["--compress", "zstd", "--shards", "2", "--meta", "json"]),
        ("each image its own extension", &["--ext", "content", "--seed", "7", "--meta", "json"]),
    ];
    for (name, options) in rows {
        eprintln!("{name}");
        let packed = pack(Path::new(PHOTOS), options);
        read_by_all(Path::new(PHOTOS), packed.path(), 32);
    }
}

#[test]
fn splits_are_datasets_of_their_own_with_one_list_of_classes() {
    let source = tempfile::tempdir().unwrap();
    // Class `people` is in one split only, and the labels of the other classes must not move.
    for (split, classes) in [("train", &["animals", "people", "things"][..]), ("val", &["animals", "things"])] {
        for class in ["animals", "people", "things"] {
            let to = source.path().join(split).join(class);
            fs::create_dir_all(&to).unwrap();
            let from = Path::new(PHOTOS).join(class);
            for entry in fs::read_dir(from).unwrap().filter(|_| classes.contains(&class)) {
                let entry = entry.unwrap();
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
    let packed = pack(source.path(), &["--meta", "json"]);
    for (split, samples) in [("train", 20), ("val", 14)] {
        // A path in the metadata is relative to the split.
        read_by_all(&source.path().join(split), &packed.path().join(split), samples);
    }
}

/// The Python of the environment variable `variable`, if it is set.
fn other_python(variable: &str) -> Option<PathBuf> {
    let python = std::env::var_os(variable).map(PathBuf::from);
    if python.is_none() {
        eprintln!("{variable} is not set: its readers were NOT asked");
    }
    python
}

#[test]
fn wids_reads_every_sample_by_its_number() {
    let Some(python) = other_python("SHARDPACK_PYTHON_SIDECARS") else { return };
    for options in [&["--shards", "1"][..], &["--shards", "3", "--meta", "json", "--name", "photos"]] {
        let packed = pack(Path::new(PHOTOS), options);
        let list = [packed.path().join("wids.json")];
        assert_eq!(read_with(&python, "wids", Path::new(PHOTOS), &list), 32, "{options:?}");
    }
}

#[test]
fn hugging_face_datasets_reads_every_sample() {
    let Some(python) = other_python("SHARDPACK_PYTHON_SIDECARS") else { return };
    let packed = pack(Path::new(PHOTOS), &["--shards", "3"]);
    assert_eq!(read_with(&python, "datasets", Path::new(PHOTOS), &shards(packed.path())), 32);
}

#[test]
fn dali_reads_every_sample_by_the_indexes() {
    let Some(python) = other_python("SHARDPACK_PYTHON_DALI") else { return };
    for options in [&["--shards", "1"][..], &["--shards", "3", "--meta", "json"]] {
        let packed = pack(Path::new(PHOTOS), options);
        assert_eq!(read_with(&python, "dali", Path::new(PHOTOS), &shards(packed.path())), 32, "{options:?}");
    }
}
