//! Non-image samples in groups of an HDF5 file, one group each: datasets and attributes come back from every format byte for byte.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, python, run,
    values::{come_back, convert, verified, write},
};

/// Runs `write_groups.py` and returns its output folder.
fn written(bench: &Bench) -> PathBuf {
    let out = bench.at("groups");
    fs::create_dir(&out).unwrap();
    assert!(write("SHARDPACK_PYTHON", "write_groups.py", &[out.to_str().unwrap()]));
    out
}

fn keys(dst: &Path) -> Vec<String> {
    let dataset = Dataset::open(dst).unwrap();
    let mut keys: Vec<_> =
        (0..dataset.len()).map(|row| String::from_utf8(dataset.row(row).unwrap().key.to_vec()).unwrap()).collect();
    keys.sort();
    keys
}

#[test]
fn datasets_and_attributes_of_each_group_come_back_through_the_readers_of_each_format() {
    let bench = Bench::new();
    let files = written(&bench);
    for (format, dst) in come_back(&bench, &files.join("groups.h5")) {
        let dataset = Dataset::open(&dst).unwrap();
        assert_eq!((dataset.len(), dataset.classes().len()), (30, 3), "{format}");
        assert!(keys(&dst)[7].contains("000007"), "{format}: {:?}", keys(&dst));
    }
    let source = files.join("latest.h5");
    let dst = bench.at("latest");
    convert(&source, &dst, &[]).code(0).says("30 samples, a group each, of big, compact");
    verified(&dst);
    run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
}

#[test]
fn groups_of_splits_are_splits_and_groups_of_tables_are_rows() {
    let bench = Bench::new();
    let files = written(&bench);
    let dst = bench.at("splits");
    run(&["convert", files.join("splits.h5").to_str().unwrap(), dst.to_str().unwrap()]).code(0);
    let samples = |name: &str| Dataset::open(dst.join(name)).unwrap().len();
    assert_eq!((samples("train"), samples("test")), (5, 3));
    // Numbered groups are samples even if all datasets have the same number of rows. In other groups, each row is a sample.
    let dst = bench.at("alike");
    convert(&files.join("alike.h5"), &dst, &[]).code(0);
    assert_eq!(Dataset::open(&dst).unwrap().len(), 20);
    let dst = bench.at("tables");
    convert(&files.join("tables.h5"), &dst, &[]).code(0);
    assert_eq!(Dataset::open(&dst).unwrap().len(), 9);
    convert(&files.join("folds.h5"), &bench.at("no"), &[]).code(2).says("datasets of different numbers of rows");
}

#[test]
fn rows_are_chosen_by_the_names_of_their_arrays() {
    let bench = Bench::new();
    let write = "
import sys, h5py, numpy as np
with h5py.File(sys.argv[1] + '.h5', 'w') as f: f['x'], f['z'] = np.ones((5, 2)), np.ones(3)";
    python(write, &bench.at("two"));
    let file = bench.at("two.h5");
    let help = "--components NAMES takes those of one number of rows";
    convert(&file, &bench.at("no"), &[]).code(2).says("datasets of different numbers of rows").says(help);
    for (name, rows) in [("x", 5), ("z", 3)] {
        let dst = bench.at(name);
        convert(&file, &dst, &["--components", name]).code(0);
        assert_eq!(Dataset::open(&dst).unwrap().len(), rows);
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", file.to_str().unwrap()]).code(0);
    }
}

#[test]
fn a_damaged_dataset_is_of_its_group_alone() {
    let bench = Bench::new();
    let source = written(&bench).join("groups.h5");
    let mut bytes = fs::read(&source).unwrap();
    // A compressed chunk; the first is the chunk of `x` in the second group.
    let at = bytes.windows(2).position(|bytes| bytes == b"\x78\x5e" || bytes == b"\x78\x9c").unwrap();
    bytes[at + 5] ^= 0xff;
    fs::write(&source, bytes).unwrap();
    let ran = convert(&source, &bench.at("no"), &[]).code(1);
    ran.says("group 0000").says("dataset 0000");
    let dst = bench.at("skipped");
    let ran = convert(&source, &dst, &["--on-bad", "skip", "--json"]).code(0).json();
    assert_eq!(ran["unpacked"].as_array().unwrap().len(), 1, "{ran}");
    assert_eq!(Dataset::open(&dst).unwrap().len(), 29);
    run(&["verify", source.to_str().unwrap()]).code(1).says("group 0000");
}

#[test]
fn a_group_without_datasets_is_a_sample_that_lacks_them() {
    let bench = Bench::new();
    let source = bench.at("x.h5");
    let script = "import sys, h5py
with h5py.File(sys.argv[1], 'w') as file:
    for n in range(20):
        group = file.create_group(f'{n:03}')
        if n not in (0, 7):
            group['x'], group['e'] = [[n, 0.5]] * (n % 4), float(n)
    file['007'].attrs['why'] = 'nothing came of it'";
    let python = std::env::var_os("SHARDPACK_PYTHON").unwrap();
    assert!(Command::new(python).args(["-c", script]).arg(&source).status().unwrap().success());
    convert(&source, &bench.at("no"), &[]).code(1);
    let ran = convert(&source, &bench.at("dst"), &["--on-bad", "skip", "--json"]).code(0).json();
    let unpacked: Vec<_> = ran["unpacked"].as_array().unwrap().iter().map(|one| one["path"].to_string()).collect();
    assert!(unpacked.len() == 2 && unpacked[0].contains("000") && unpacked[1].contains("007"), "{ran}");
    assert_eq!(Dataset::open(bench.at("dst")).unwrap().len(), 18);
}
