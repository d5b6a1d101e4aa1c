//! Decompresses our shards with foreign decompressors: thousands of samples in many shards of many blocks. Covers each version of
//! the package that mosaicml-streaming uses, because the versions differ on several frames.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use shardpack_testing::Bench;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/unpack_zstd.py");
const SAMPLES: u64 = 2500;

/// The Pythons in `SHARDPACK_PYTHON_ZSTD`, separated as in PATH.
fn pythons() -> Vec<PathBuf> {
    let Some(named) = std::env::var_os("SHARDPACK_PYTHON_ZSTD") else {
        eprintln!("SHARDPACK_PYTHON_ZSTD is not set: the package zstd was NOT asked");
        return Vec::new();
    };
    std::env::split_paths(&named).collect()
}

fn read_with(how: &str, bench: &Bench) -> bool {
    let mut asked = false;
    for python in pythons() {
        let has = Command::new(&python).args(["-c", &format!("import {how}")]).stderr(Stdio::null()).status();
        if !has.unwrap().success() {
            continue;
        }
        asked = true;
        let read = Command::new(&python).args([SCRIPT, how]).arg(bench.dst()).output().unwrap();
        let text = String::from_utf8_lossy(&read.stdout).trim().to_owned();
        let said = String::from_utf8_lossy(&read.stderr);
        assert_eq!(text, SAMPLES.to_string(), "{how} of {}: {said}", python.display());
    }
    asked
}

#[test]
fn every_version_of_zstd_unpacks_every_mds_shard_whole() {
    let bench = Bench::with_source(SAMPLES, 4000);
    // Shards of one sample, of part of a block, of slightly more than one block, and of many blocks.
    for shards in ["2500", "200", "17", "5", "1"] {
        let bench_of = ["--format", "mds", "--compress", "zstd", "--set", "hashes=sha1", "--force", "--shards", shards];
        bench.pack(&bench_of).code(0);
        if !read_with("zstd", &bench) {
            return;
        }
        assert!(read_with("zstandard", &bench), "no environment has zstandard");
    }
}

#[test]
fn streaming_reads_every_sample_of_many_compressed_shards() {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON_STREAMING") else {
        eprintln!("SHARDPACK_PYTHON_STREAMING is not set: streaming was NOT asked");
        return;
    };
    let bench = Bench::with_source(SAMPLES, 4000);
    bench.pack(&["--format", "mds", "--compress", "zstd", "--shards", "17"]).code(0);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/read_records.py");
    let read = Command::new(python).args([script, "streaming"]).args([bench.src(), bench.dst()]).output().unwrap();
    let said = String::from_utf8_lossy(&read.stderr);
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), SAMPLES.to_string(), "{said}");
}

#[test]
fn every_block_of_a_compressed_tar_is_unpacked() {
    let bench = Bench::with_source(SAMPLES, 4000);
    for shards in ["200", "17", "1"] {
        bench.pack(&["--compress", "zstd", "--force", "--shards", shards]).code(0);
        if !read_with("zstandard", &bench) {
            return;
        }
    }
}
