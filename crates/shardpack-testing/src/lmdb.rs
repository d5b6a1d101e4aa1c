//! LMDB files that py-lmdb writes, in the layout of each common script.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_format::hash::Named;

use crate::{Bench, Ran, photos, run};

/// Names of all layouts for images with labels.
pub const WAYS: [&str; 20] = [
    "caffe",
    "folder2lmdb-2.lmdb",
    "folder2lmdb-3.lmdb",
    "folder2lmdb-4.lmdb",
    "folder2lmdb-5.lmdb",
    "numpy.lmdb",
    "dict",
    "tensorpack",
    "pyarrow.lmdb",
    "chunked.lmdb",
    "columns.lmdb",
    "objects.lmdb",
    "pairs.lmdb",
    "bytes.lmdb",
    "plain",
    "paths",
    "ocr",
    "lsun",
    "basicsr",
    "named",
];

/// Means no label, as in `write_lmdb.py`.
const NO_LABEL: i64 = -1;

/// Runs `write_lmdb.py`. Arguments: a tree of images, the output folder, and optionally the number of images and the layouts.
pub fn write(arguments: &[&str]) {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let script = crate::root().join("tests/peers/write_lmdb.py");
    let ran = Command::new(python).arg(script).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// The photographs in every layout, and files that are damaged, hostile or need options.
pub fn written(bench: &Bench) -> PathBuf {
    let out = bench.at("lmdb");
    write(&[photos().to_str().unwrap(), out.to_str().unwrap()]);
    out
}

/// Label and SHA-256 of each image that the script wrote in the layout `way`, sorted.
pub fn expected(source: &Path, way: &str) -> Vec<(i64, String)> {
    let text = fs::read_to_string(source.join(format!("{way}.list"))).unwrap();
    let line =
        |line: &str| line.split_once(' ').map(|(hash, label)| (label.parse().unwrap(), hash.to_owned())).unwrap();
    let mut expected: Vec<_> = text.lines().map(line).collect();
    expected.sort();
    expected
}

/// Label and SHA-256 of each image of a dataset, sorted.
pub fn hashed(dst: &Path) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    let dataset = shardpack_reader::Dataset::open(dst).unwrap();
    let mut reader = dataset.reader(..).unwrap().check_content(true);
    while let Some(sample) = reader.next().unwrap() {
        let mut hash = Named::new("sha256").unwrap();
        hash.update(sample.bytes());
        found.push((sample.label().unwrap_or(NO_LABEL), hash.finish()));
    }
    found.sort();
    found
}

/// Runs `convert`.
pub fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}
