//! Values of any dtype and shape, from LMDB and HDF5, compressed or not, come back through the readers of each format.

use std::{fs, path::PathBuf};

use shardpack_testing::{
    Bench,
    values::{READERS, convert, expected, read_all, verified, write},
};

/// Number of sources: a third each of dicts, tuples and rows.
const CASES: usize = 12;
/// Environment variable for another seed, which gives other values.
const SEED: &str = "SHARDPACK_TEST_SEED";

#[test]
fn values_of_any_type_and_shape_come_back_from_each_format_compressed_or_not() {
    let seed = std::env::var(SEED).unwrap_or_else(|_| "1".to_owned());
    eprintln!("{SEED}={seed}");
    let bench = Bench::new();
    let out = bench.at("random");
    fs::create_dir(&out).unwrap();
    let arguments = [out.to_str().unwrap(), &seed, &CASES.to_string()];
    assert!(write("SHARDPACK_PYTHON", "write_random_values.py", &arguments));
    let source = |case: usize| out.join(format!("{case}.{}", if case % 3 == 2 { "h5" } else { "lmdb" }));
    for (which, (format, _)) in READERS.iter().enumerate() {
        let mut folders: Vec<PathBuf> = Vec::new();
        for case in 0..CASES {
            let dst = bench.at(&format!("{format}-{case}"));
            // TensorFlow does not read zstd.
            let is_compressed = *format != "tfrecord" && (case + which) % 2 == 0;
            let compress: &[&str] = if is_compressed { &["--compress", "zstd"] } else { &[] };
            convert(&source(case), &dst, &[&["--format", format], compress].concat()).code(0);
            verified(&dst);
            folders.push(dst);
        }
        let Some(found) = read_all(format, &folders) else { continue };
        for (case, found) in found.into_iter().enumerate() {
            assert_eq!(found, expected(&source(case)), "{format} case {case} {SEED}={seed}");
        }
    }
}
