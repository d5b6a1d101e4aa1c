//! Verifies some shards of a dataset, several datasets, and mixed inputs: the manifest beside a shard applies, with any spelling of the
//! path.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_testing::{Bench, Ran, run};

fn verify(paths: &[&Path], options: &[&str]) -> Ran {
    let paths = paths.iter().map(|path| path.to_str().unwrap());
    run(&[&["verify"], &paths.collect::<Vec<_>>()[..], options].concat())
}

/// Packs a dataset of three shards and returns the paths of the shards.
fn packed(bench: &Bench, format: &str) -> Vec<PathBuf> {
    bench.pack(&["--format", format, "--shards", "3", "--quiet"]).code(0);
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.dst().join("manifest.json")).unwrap()).unwrap();
    let shards = manifest["shards"].as_array().unwrap().iter();
    shards.map(|shard| bench.dst().join(shard["file"].as_str().unwrap())).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn shards_of_a_dataset_are_verified_by_its_manifest_however_they_are_named() {
    for format in ["webdataset", "recordio"] {
        let bench = Bench::with_source(12, 300);
        let shards = packed(&bench, format);
        let extension = shards[0].extension().unwrap().to_str().unwrap();
        let glob = bench.dst().join(format!("*.{extension}"));
        let files: Vec<&Path> = shards.iter().map(PathBuf::as_path).collect();
        let one = verify(&files[..1], &[]).code(0).says("4 samples in 1 shard");
        one.says("1 of 3 shards of a dataset, by its manifest");
        for paths in [vec![glob.as_path()], files.clone()] {
            verify(&paths, &["--decode"]).code(0).says("12 samples in 3 shards");
        }
        // The byte is in an image; only TFRecord has a checksum there.
        flip(files[1], 3000);
        for paths in [vec![glob.as_path()], files.clone(), vec![files[1]]] {
            let ran = verify(&paths, &["--json"]).code(1);
            let problem = &ran.json()["problems"][0];
            assert!(problem["what"].as_str().unwrap().contains("content hash differs"), "{format}: {}", ran.stdout);
            assert_eq!(problem["file"], files[1].to_str().unwrap());
        }
        verify(&[files[0], files[2]], &[]).code(0).says("8 samples in 2 shards");
        verify(&[files[0], files[0]], &[]).code(2).says("is given twice");
        verify(&files[1..2], &["--against", bench.src().to_str().unwrap()]).code(2).clean_error().says("whole dataset");
    }
}

#[test]
fn a_manifest_or_index_that_is_wrong_is_told_of_a_single_shard() {
    let bench = Bench::with_source(6, 300);
    let shards = packed(&bench, "webdataset");
    let index = bench.dst().join("index").join(shards[0].with_extension("index").file_name().unwrap());
    let index = if index.exists() { index } else { bench.dst().join("index/shard-000000.index") };
    flip(&index, 200);
    verify(&[&shards[0]], &[]).code(1).says("index");
    flip(&index, 200);
    verify(&[&shards[0]], &[]).code(0);
    let manifest = bench.dst().join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"payload_bytes\": ", "\"payload_bytes\":  ")).unwrap();
    verify(&[&shards[0]], &[]).code(1).says("manifest.json");
    fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    verify(&[&shards[0]], &[]).code(1).says("manifest.json");
}

#[test]
fn several_datasets_and_foreign_shards_are_verified_each_by_what_is_known() {
    let bench = Bench::with_source(6, 300);
    let shards = packed(&bench, "webdataset");
    let (other, foreign) = (bench.at("other"), bench.at("foreign.tar"));
    bench.pack_to(&other, &["--format", "mds", "--quiet"]).code(0);
    fs::copy(&shards[0], &foreign).unwrap();
    verify(&[&bench.dst(), &other, &foreign], &[]).code(0).says("14 samples in 5 shards");
    // If the paths include the manifest, the whole dataset is verified.
    verify(&[&bench.dst().join("*")], &[]).code(0).says("6 samples in 3 shards");
    fs::write(bench.dst().join("BLAKE3SUMS"), "").unwrap();
    verify(&[&bench.dst().join("*")], &[]).code(1).says("BLAKE3SUMS");
    let ran = verify(&[&bench.dst(), &other, &foreign], &[]).code(1);
    ran.says(bench.dst().join("BLAKE3SUMS").to_str().unwrap());
}
