//! LMDBs as py-lmdb writes them, in the way of each script of the field, as sources.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_packer::foreign::lmdb::{Environment, Walk};
use shardpack_reader::Dataset;
use support::{Bench, Ran, Rng, images, pack, photos, run};

/// Environments of the photographs, each in a way of its own.
fn written(bench: &Bench) -> PathBuf {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/write_lmdb.py");
    let out = bench.at("lmdb");
    let ran = Command::new(python).arg(script).arg(photos()).arg(&out).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    out
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

#[test]
fn environments_of_every_script_are_converted_without_an_option() {
    let bench = Bench::new();
    let source = written(&bench);
    pack(&photos(), &bench.at("tree"), &["--quiet"]).code(0);
    let expected = images(&bench.at("tree"));
    let ways = [
        "caffe",
        "folder2lmdb-2.lmdb",
        "folder2lmdb-3.lmdb",
        "folder2lmdb-4.lmdb",
        "folder2lmdb-5.lmdb",
        "numpy.lmdb",
        "dict",
        "tensorpack",
        "chunked.lmdb",
        "paths",
        "ocr",
        "lsun",
        "named",
    ];
    for way in ways {
        let (from, dst) = (source.join(way), bench.at(&format!("out-{way}")));
        convert(&from, &dst, &["--jobs", "2"]).code(0).says("of lmdb");
        assert!(images(&dst) == expected, "{way}: images or labels differ");
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        run(&["verify", "--quiet", from.to_str().unwrap()]).code(0);
        let same = bench.at(&format!("same-{way}"));
        convert(&from, &same, &["--jobs", "1", "--quiet", "--read-order", "physical"]).code(0);
        assert_eq!(support::contents(&same), support::contents(&dst), "{way}: the bytes depend on how they are read");
    }
    // The order of the tree, though `10` stands before `2` in the file.
    let ordered = bench.at("ordered");
    convert(&source.join("folder2lmdb-5.lmdb"), &ordered, &["--order", "source", "--quiet"]).code(0);
    let tree = bench.at("tree-ordered");
    pack(&photos(), &tree, &["--order", "source", "--quiet"]).code(0);
    let bytes = |folder: &Path| {
        let dataset = Dataset::open(folder).unwrap();
        (0..dataset.len()).map(|number| dataset.sample(number).unwrap().bytes().to_vec()).collect::<Vec<_>>()
    };
    assert!(bytes(&ordered) == bytes(&tree), "another order than that of the keys' numbers");
    // Names of classes, where keys or folders tell them.
    for way in ["paths", "lsun", "dict"] {
        let classes: Vec<_> =
            Dataset::open(bench.at(&format!("out-{way}"))).unwrap().classes().iter().map(|c| c.name.clone()).collect();
        assert_eq!(classes, ["animals", "people", "space", "textures", "things"], "{way}");
    }
}

#[test]
fn raw_pixels_become_the_npy_files_that_numpy_would_write() {
    let bench = Bench::new();
    let source = written(&bench);
    for way in ["raw-caffe", "raw-numpy"] {
        let dst = bench.at(way);
        convert(&source.join(way), &dst, &[]).code(0);
        let mut expected: Vec<_> =
            (0..6).map(|n| (n % 3, fs::read(source.join(format!("expected/{way}-{n}.npy"))).unwrap())).collect();
        expected.sort();
        assert!(images(&dst) == expected, "{way}: other bytes than numpy's");
        assert_eq!(Dataset::open(&dst).unwrap().manifest().kinds["npy"], 6);
        run(&["verify", "--quiet", "--decode", dst.to_str().unwrap()]).code(0);
    }
}

#[test]
fn a_pickle_that_asks_for_a_command_is_refused_by_name_and_nothing_is_run() {
    let bench = Bench::new();
    let source = written(&bench);
    let ran = convert(&source.join("evil.lmdb"), &bench.dst(), &[]).code(1);
    assert!(ran.stdout.contains("posix.system") && ran.stdout.contains("evil"), "{}", ran.stdout);
    convert(&source.join("evil.lmdb"), &bench.dst(), &["--on-bad", "skip"]).code(0);
    assert_eq!(images(&bench.dst()).len(), 32);
    assert!(!source.join("ran").exists(), "it was run");
}

#[test]
fn values_of_no_known_making_are_shown() {
    let bench = Bench::new();
    let source = written(&bench);
    let ran = convert(&source.join("strange"), &bench.dst(), &[]).code(1);
    ran.says("\"0\": 24 bytes, 7f6e6f7468696e67").says("known");
}

#[test]
fn cuts_and_flips_give_errors_or_a_dataset_and_never_a_signal() {
    let bench = Bench::new();
    let source = written(&bench);
    let bytes = fs::read(source.join("folder2lmdb-4.lmdb")).unwrap();
    let path = bench.at("damaged.lmdb");
    let dst = bench.dst();
    for end in (0..bytes.len()).step_by(4096 * 5).chain([1, 4095, 4097, bytes.len() - 1]) {
        fs::write(&path, &bytes[..end]).unwrap();
        let ran = convert(&path, &dst, &["--quiet"]);
        assert!(matches!(ran.code, 1 | 2), "cut at {end}: {}", ran.code);
        assert!(!dst.join("manifest.json").exists());
    }
    let mut rng = Rng::new(7);
    for _ in 0..150 {
        let mut wrong = bytes.clone();
        for _ in 0..1 + rng.below(3) {
            // Most in the pages of the tree, where they matter.
            let page = rng.below(bytes.len() as u64 / 4096) * 4096;
            let at = page + if rng.below(3) == 0 { rng.below(4096) } else { rng.below(64) };
            wrong[at as usize] ^= 1 << rng.below(8);
        }
        fs::write(&path, wrong).unwrap();
        let ran = convert(&path, &dst, &["--quiet", "--on-bad", "skip", "--force"]);
        assert!(matches!(ran.code, 0..=2), "{}: {}", ran.code, ran.stderr);
        if ran.code == 0 {
            run(&["verify", "--quiet", dst.to_str().unwrap()]).code(0);
        }
        let _ = fs::remove_dir_all(&dst);
    }
}

/// An entry as the script lists it: length and key, length and value.
fn listed(database: &shardpack_packer::foreign::lmdb::Database, mut walk: Walk) -> Vec<Vec<u8>> {
    let (mut entries, mut value) = (Vec::new(), Vec::new());
    while let Some(entry) = walk.next().unwrap() {
        database.read(entry.value, &mut value).unwrap();
        let lengths = [entry.key.len() as u64, value.len() as u64].map(u64::to_le_bytes);
        entries.push([&lengths[0], entry.key.as_slice(), &lengths[1], value.as_slice()].concat());
    }
    entries
}

#[test]
fn every_entry_is_read_as_liblmdb_reads_it() {
    let bench = Bench::new();
    let source = written(&bench);
    let environment = Environment::open(&source.join("pages")).unwrap();
    let mut names = environment.names().unwrap();
    names.sort();
    assert_eq!(names, [b"duplicates".as_slice(), b"fixed", b"small", b"values"]);
    for name in names {
        let shown = String::from_utf8(name.clone()).unwrap();
        let expected = fs::read(source.join(format!("expected/pages-{shown}"))).unwrap();
        let database = environment.database(Some(&name)).unwrap();
        let by_key = listed(&database, database.cursor().unwrap());
        assert!(by_key.concat() == expected, "{shown}: other entries, or another order of keys");
        let mut by_page = listed(&database, database.walk().unwrap());
        let mut by_key_sorted = by_key.clone();
        by_page.sort();
        by_key_sorted.sort();
        assert!(by_page == by_key_sorted, "{shown}: a walk by pages meets other entries");
        assert_eq!(by_key.len() as u64, database.entries(), "{shown}");
    }
    let values = environment.database(Some(b"values")).unwrap();
    assert!(values.get(b"value-1048576").unwrap().is_some_and(|place| place.end - place.start == 1 << 20));
    assert_eq!(values.get(b"value-3").unwrap(), None);
}
