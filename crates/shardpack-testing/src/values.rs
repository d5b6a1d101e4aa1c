//! Writes samples of values with other libraries, converts the samples, and reads them with the reader of each format.
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Bench, Ran, run};

/// Formats that hold values, and the variable that names the Python for the format's reader.
pub const READERS: [(&str, &str); 3] = [
    ("webdataset", "SHARDPACK_PYTHON"),
    ("mds", "SHARDPACK_PYTHON_STREAMING"),
    ("tfrecord", "SHARDPACK_PYTHON_TENSORFLOW"),
];

/// The fields of a sample by name, as text of `read_values.py`.
pub type Told = BTreeMap<String, String>;

fn script(name: &str) -> PathBuf {
    crate::root().join("tests/peers").join(name)
}

fn sorted(json: &[u8]) -> Vec<Told> {
    let mut told: Vec<Told> = serde_json::from_slice(json).unwrap();
    told.sort();
    told
}

/// The samples that were written to `source`.
pub fn expected(source: &Path) -> Vec<Told> {
    sorted(&fs::read(format!("{}.json", source.display())).unwrap())
}

/// Reads a dataset in two shards with the peer of `format`; `None` if the peer is not installed.
pub fn read(format: &str, folder: &Path) -> Option<Vec<Told>> {
    read_all(format, &[folder]).and_then(|mut all| all.pop())
}

/// Reads several datasets in one run of the peer.
pub fn read_all(format: &str, folders: &[impl AsRef<Path>]) -> Option<Vec<Vec<Told>>> {
    let (_, variable) = READERS.iter().find(|(name, _)| *name == format).unwrap();
    let Some(python) = std::env::var_os(variable) else {
        assert_ne!(*variable, "SHARDPACK_PYTHON", "not set: run `cargo xtask test`");
        eprintln!("{variable} is not set: {format} is not read");
        return None;
    };
    let folders = folders.iter().map(|folder| folder.as_ref().as_os_str());
    let ran = Command::new(python).arg(script("read_values.py")).args([format, "2"]).args(folders).output().unwrap();
    assert!(ran.status.success(), "{format}: {}", String::from_utf8_lossy(&ran.stderr));
    Some(ran.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(sorted).collect())
}

pub fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap(), "--shards", "2"], options].concat())
}

pub fn verified(dst: &Path) {
    run(&["verify", dst.to_str().unwrap(), "--quiet"]).code(0);
}

/// Converts `source` to each format, and compares the values from the format's reader with the written values. Returns the datasets.
pub fn come_back(bench: &Bench, source: &Path) -> Vec<(&'static str, PathBuf)> {
    let name = source.file_name().unwrap().to_str().unwrap();
    run(&["verify", source.to_str().unwrap()]).code(0);
    run(&["inspect", source.to_str().unwrap()]).code(0);
    let mut of_formats = Vec::new();
    for (format, _) in READERS {
        let dst = bench.at(&format!("{name}-{format}"));
        convert(source, &dst, &["--format", format]).code(0);
        verified(&dst);
        if let Some(found) = read(format, &dst) {
            let expected = expected(source);
            assert_eq!(found.len(), expected.len(), "{name} {format}");
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "{name} {format}");
            }
        }
        run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
        of_formats.push((format, dst));
    }
    of_formats
}

/// Runs a script of `tests/peers` with the Python that `variable` names; `false` if that Python is not installed.
pub fn write(variable: &str, name: &str, arguments: &[&str]) -> bool {
    let Some(python) = std::env::var_os(variable) else {
        assert_ne!(variable, "SHARDPACK_PYTHON", "not set: run `cargo xtask test`, which sets up Python");
        eprintln!("{variable} is not set: {name} {arguments:?} is not run");
        return false;
    };
    let ran = Command::new(python).arg(script(name)).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    true
}
