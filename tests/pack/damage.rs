//! Damage: `verify` finds every change to a dataset and names the sample; all repairable damage is repaired.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use serde_json::Value;
use shardpack_format::{index::Index, manifest::Manifest};
use shardpack_testing::{Bench, Ran, Rng, contents, photos, run, sweep};

fn verify(dst: &Path, options: &[&str]) -> Ran {
    let mut args = vec!["verify", dst.to_str().unwrap()];
    args.extend(options);
    run(&args)
}

fn problems(dst: &Path) -> Vec<Value> {
    let json = verify(dst, &["--json", "--quiet"]).code(1).json();
    assert_eq!(json["ok"], false);
    json["problems"].as_array().unwrap().clone()
}

/// A dataset with a ledger and several shards, small enough for a thousand runs of `verify`.
fn dataset() -> Bench {
    let bench = Bench::with_source(120, 3000);
    bench.file("class-1/empty.jpg", b"");
    bench.pack(&["--shards", "5", "--meta", "json", "--on-bad", "skip"]).code(0);
    verify(&bench.dst(), &[]).code(0).says("120 samples in 5 shards");
    bench
}

/// Key, start and end offset of each sample in the shard `file`, from its index. The end is exclusive.
fn places(dst: &Path, file: &str) -> Vec<(String, u64, u64)> {
    let manifest = Manifest::read(&fs::read(dst.join("manifest.json")).unwrap()).unwrap();
    let shard = manifest.shards.iter().find(|shard| shard.file == file).unwrap();
    let index = Index::open(fs::read(dst.join(&shard.index.file)).unwrap()).unwrap();
    let rows = index.iter().map(|row| row.unwrap().to_row());
    rows.map(|row| (String::from_utf8(row.key).unwrap(), row.offset, row.offset + u64::from(row.record_bytes)))
        .collect()
}

fn flip(path: &Path, offset: u64, bit: u8) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << bit], offset).unwrap();
}

#[test]
fn each_flipped_bit_is_found_and_its_sample_named() {
    let bench = dataset();
    let dst = bench.dst();
    let files: Vec<PathBuf> =
        contents(&dst).into_iter().filter(|(_, hash)| !hash.is_empty()).map(|(path, _)| path).collect();
    let lengths: Vec<u64> = files.iter().map(|file| fs::metadata(dst.join(file)).unwrap().len()).collect();
    let total: u64 = lengths.iter().sum();
    let mut rng = Rng::new(1);
    let mut in_samples = 0;
    let flips = sweep::points(1000, 250);
    for flipped in 0..flips {
        // Every tenth flip falls in a file chosen by number, because a choice by bytes rarely selects the small files.
        let mut at = rng.below(total);
        let mut number =
            lengths.iter().position(|length| at.checked_sub(*length).map(|rest| at = rest).is_none()).unwrap();
        if flipped % 10 == 0 {
            number = rng.below(files.len() as u64) as usize;
            at = rng.below(lengths[number]);
        }
        let (file, bit) = (&files[number], rng.below(8) as u8);
        let name = file.to_str().unwrap();
        let owner = name.ends_with(".tar").then(|| {
            places(&dst, name).into_iter().find(|(_, start, end)| (*start..*end).contains(&at)).map(|(key, ..)| key)
        });
        flip(&dst.join(file), at, bit);
        let found = problems(&dst);
        let hit = found.iter().filter(|problem| problem["file"] == name).collect::<Vec<_>>();
        assert!(!hit.is_empty(), "bit {bit} of byte {at} of {name}: {found:?}");
        match owner {
            Some(Some(key)) => {
                in_samples += 1;
                assert_eq!(
                    (found.len(), hit[0]["key"].as_str()),
                    (1, Some(key.as_str())),
                    "byte {at} of {name}: {found:?}"
                );
                assert!(hit[0]["path"].as_str().unwrap().starts_with("class-"));
                let range = hit[0]["start"].as_u64().unwrap()..hit[0]["end"].as_u64().unwrap();
                assert!(range.contains(&at), "{range:?} does not hold {at}");
            }
            Some(None) => assert!(hit[0]["start"].as_u64().unwrap() <= at),
            None => {}
        }
        flip(&dst.join(file), at, bit);
    }
    assert!(in_samples > flips * 7 / 10, "{in_samples}");
    verify(&dst, &[]).code(0);
}

#[test]
fn a_truncated_shard_names_the_samples_that_are_cut_off() {
    let bench = dataset();
    let shard = bench.dst().join("shard-000001.tar");
    let samples = places(&bench.dst(), "shard-000001.tar");
    let cut = samples[samples.len() - 3].1 + 700;
    fs::OpenOptions::new().write(true).open(&shard).unwrap().set_len(cut).unwrap();
    let found = problems(&bench.dst());
    let keys: Vec<&str> = found.iter().filter_map(|problem| problem["key"].as_str()).collect();
    let expected: Vec<&str> = samples[samples.len() - 3..].iter().map(|(key, ..)| key.as_str()).collect();
    assert_eq!(keys, expected);
    verify(&bench.dst(), &["--quick"]).code(1).says("shard-000001.tar");
}

#[test]
fn swapped_renamed_missing_and_extra_files_are_named() {
    type Change = fn(&Path);
    let changes: [(&str, Change, &str); 7] = [
        (
            "swapped shards",
            |dst| {
                fs::rename(dst.join("shard-000000.tar"), dst.join("x")).unwrap();
                fs::rename(dst.join("shard-000001.tar"), dst.join("shard-000000.tar")).unwrap();
                fs::rename(dst.join("x"), dst.join("shard-000001.tar")).unwrap();
            },
            "shard-000000.tar: holds the bytes of shard-000001.tar",
        ),
        (
            "renamed shard",
            |dst| fs::rename(dst.join("shard-000000.tar"), dst.join("shard-000009.tar")).unwrap(),
            "shard-000009.tar: a stranger",
        ),
        (
            "missing shard",
            |dst| fs::remove_file(dst.join("shard-000002.tar")).unwrap(),
            "shard-000002.tar: missing, with its 24 samples",
        ),
        (
            "missing index",
            |dst| fs::remove_file(dst.join("index/shard-000002.index")).unwrap(),
            "index/shard-000002.index: missing",
        ),
        (
            "extra shard",
            |dst| assert!(fs::copy(dst.join("shard-000000.tar"), dst.join("shard-000005.tar")).is_ok()),
            "shard-000005.tar: a stranger",
        ),
        ("extra index", |dst| fs::write(dst.join("index/y"), b"").unwrap(), "index/y: a stranger"),
        ("missing ledger", |dst| fs::remove_file(dst.join("ledger.jsonl")).unwrap(), "ledger.jsonl: missing"),
    ];
    for (name, change, says) in changes {
        let bench = dataset();
        change(&bench.dst());
        let ran = verify(&bench.dst(), &["--quiet"]).code(1);
        assert!(ran.stdout.contains(says), "{name}:\n{}", ran.stdout);
    }
}

/// Only an attacker edits a manifest and recomputes its id.
#[test]
fn an_edited_manifest_is_a_clear_error_whether_or_not_its_id_fits() {
    let edits: [(&str, &str, &str); 11] = [
        ("wrong count of samples", "\"samples\": 120", "\"samples\": 121"),
        ("absurd count", "\"samples\": 24", "\"samples\": 18446744073709551615"),
        ("parent folder", "\"file\": \"shard-000000.tar\"", "\"file\": \"../shard-000000.tar\""),
        ("absolute path", "\"file\": \"shard-000000.tar\"", "\"file\": \"/etc/passwd\""),
        ("index elsewhere", "index/shard-000000.index", "index/../../secret"),
        ("unknown format", "\"name\": \"webdataset\"", "\"name\": \"webdatasex\""),
        ("unknown key", "\"schema\"", "\"more\": 1, \"schema\""),
        ("seed", "\"seed\": 0", "\"seed\": 1"),
        ("no number", "\"block_samples\": ", "\"block_samples\": -"),
        ("bytes of images", "\"payload_bytes\": ", "\"payload_bytes\": 1"),
        ("kinds", "\"jpeg\": 120", "\"png\": 120"),
    ];
    let bench = dataset();
    let path = bench.dst().join("manifest.json");
    let original = fs::read_to_string(&path).unwrap();
    for (name, from, to) in edits {
        assert!(original.contains(from), "{name}: {from}");
        let edited = original.replacen(from, to, 1);
        fs::write(&path, &edited).unwrap();
        verify(&bench.dst(), &["--quiet"]).code(1).says("manifest.json");
        if let Ok(manifest) = serde_json::from_str::<Manifest>(&edited) {
            fs::write(&path, manifest.to_bytes().unwrap().0).unwrap();
            let ran = verify(&bench.dst(), &["--quiet"]);
            // A wrong seed changes nothing that can be checked against the shards.
            assert_eq!(ran.code, i32::from(name != "seed"), "{name}:\n{}{}", ran.stdout, ran.stderr);
        }
    }
}

#[test]
fn every_damage_that_the_source_can_mend_is_mended_to_the_byte() {
    let option_sets: [&[&str]; 3] =
        [&["--shards", "4"], &["--shards", "4", "--compress", "zstd"], &["--shards", "4", "--exclude", "class-2/*"]];
    for options in option_sets {
        let bench = Bench::with_source(60, 3000);
        bench.pack(options).code(0);
        let (dst, src) = (bench.dst(), bench.src());
        let before = contents(&dst);
        let suffix = if options.contains(&"zstd") { "tar.zst" } else { "tar" };
        let shard = |number: u64| dst.join(format!("shard-{number:06}.{suffix}"));
        flip(&shard(0), 9_000, 3);
        flip(&shard(0), 20_000, 1);
        fs::OpenOptions::new().write(true).open(shard(1)).unwrap().set_len(30_000).unwrap();
        fs::remove_file(shard(2)).unwrap();
        flip(&dst.join("index/shard-000003.index"), 500, 0);
        fs::remove_file(dst.join("BLAKE3SUMS")).unwrap();
        let ran = verify(&dst, &["--repair", src.to_str().unwrap(), "--quiet"]).code(0);
        assert!(ran.stdout.contains("mended  BLAKE3SUMS"), "{}", ran.stdout);
        assert_eq!(contents(&dst), before);
    }
}

#[test]
fn a_manifest_with_any_bit_flipped_mends_nothing_and_no_other_file_changes() {
    use shardpack_audit::verify;
    use shardpack_source::{LocalTree, monitor::Silent, shared};
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg", "b/3.jpg"]);
    let source = shared(LocalTree(bench.src()));
    bench.pack(&["--shards", "2"]).code(0);
    let (dst, path) = (bench.dst(), bench.dst().join("manifest.json"));
    let (before, manifest) = (contents(&dst), fs::read(&path).unwrap());
    let options = verify::Options { jobs: 1, ..verify::Options::default() };
    // One bit of every second byte, or of fewer, at each of the eight positions in turn.
    let step = sweep::points(2, 7);
    for at in (0..manifest.len()).step_by(step) {
        let mut flipped = manifest.clone();
        flipped[at] ^= 1 << (at / step % 8);
        fs::write(&path, &flipped).unwrap();
        let (report, repaired) = verify::repair(&dst, &source, &options, &Silent).unwrap();
        assert!(report.problems.iter().any(|problem| problem.file == "manifest.json"), "byte {at}");
        assert!(repaired.files.is_empty(), "byte {at}: {:?}", repaired.files);
        fs::write(&path, &manifest).unwrap();
        assert_eq!(contents(&dst), before, "byte {at}");
    }
    // The same through the binary, with an edit that would change the bytes of a repaired shard.
    fs::write(&path, String::from_utf8(manifest).unwrap().replacen("\"seed\": 0", "\"seed\": 1", 1)).unwrap();
    flip(&dst.join("shard-000000.tar"), 3_000, 2);
    let damaged = contents(&dst);
    let ran = verify(&dst, &["--repair", bench.src().to_str().unwrap(), "--quiet"]).code(1);
    ran.says("cannot mend manifest.json").says("--force");
    assert_eq!(contents(&dst), damaged);
}

#[test]
fn what_the_source_no_longer_has_is_not_mended_and_nothing_gets_worse() {
    let bench = Bench::with_source(30, 3000);
    bench.pack(&["--shards", "2"]).code(0);
    let shard = bench.dst().join("shard-000000.tar");
    flip(&shard, 5_000, 0);
    let damaged = contents(&bench.dst());
    let path = problems(&bench.dst())[0]["path"].as_str().unwrap().to_owned();
    bench.file(&path, b"another image");
    let ran = verify(&bench.dst(), &["--repair", bench.src().to_str().unwrap(), "--quiet"]).code(1);
    assert!(ran.stdout.contains("cannot mend shard-000000.tar"), "{}", ran.stdout);
    assert_eq!(contents(&bench.dst()), damaged);
}

#[test]
fn against_the_source_both_ways() {
    let bench = Bench::with_source(30, 3000);
    bench.pack(&[]).code(0);
    let against = |bench: &Bench| verify(&bench.dst(), &["--against", bench.src().to_str().unwrap(), "--quiet"]);
    against(&bench).code(0);
    let first = shardpack_testing::Dataset::read(&bench.dst()).samples;
    let path = |number: usize| String::from_utf8(first[number].path.clone()).unwrap();
    fs::remove_file(bench.src().join(path(0))).unwrap();
    bench.file(path(1), b"shorter");
    let mut other = first[2].image().to_vec();
    *other.last_mut().unwrap() ^= 1;
    bench.file(path(2), &other);
    bench.file("class-1/new.jpg", b"new");
    let ran = against(&bench).code(1);
    for (file, what) in [
        (path(0), "not in the source"),
        (path(1), "the source has 7"),
        (path(2), "the source has other bytes"),
        ("class-1/new.jpg".to_owned(), "in the source and not in the shards"),
    ] {
        assert!(
            ran.stdout.lines().any(|line| line.contains(&file) && line.contains(what)),
            "{file} {what}:\n{}",
            ran.stdout
        );
    }
}

#[test]
fn decode_reports_truncated_and_corrupt_images_and_passes_every_photograph() {
    let bench = Bench::new();
    let dst = bench.dst();
    run(&["pack", photos().to_str().unwrap(), dst.to_str().unwrap(), "--quiet"]).code(0);
    verify(&dst, &["--decode"]).code(0);

    let photo = shardpack_testing::photo();
    let png = shardpack_testing::png();
    bench.file("a/cut.jpg", &photo[..photo.len() / 2]);
    bench.file("a/right.jpg", &photo);
    bench.file("a/cut.png", &png[..png.len() / 2]);
    bench.file("a/text.jpg", b"\xff\xd8\xffthis is no image");
    let dst = bench.at("bad");
    bench.pack_to(&dst, &[]).code(0);
    verify(&dst, &[]).code(0);
    let ran = verify(&dst, &["--decode", "--quiet"]).code(1);
    for name in ["a/cut.jpg", "a/cut.png", "a/text.jpg"] {
        assert!(ran.stdout.contains(name), "{name}:\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("a/right.jpg"), "{}", ran.stdout);
}

#[test]
fn a_dataset_that_lost_its_manifest_is_not_taken_for_foreign_shards() {
    let bench = dataset();
    fs::remove_file(bench.dst().join("manifest.json")).unwrap();
    verify(&bench.dst(), &[]).code(1).clean_error().says("manifest.json is missing");
}

#[test]
fn an_unfinished_pack_is_no_dataset() {
    let bench = dataset();
    for begun in ["plan", "replaced/", "replaced.part/"] {
        let path = bench.dst().join(".shardpack").join(begun);
        match begun.ends_with('/') {
            true => fs::create_dir_all(&path).unwrap(),
            false => fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(&path, b"")).unwrap(),
        }
        verify(&bench.dst(), &[]).code(1).clean_error().says("unfinished");
        fs::remove_dir_all(bench.dst().join(".shardpack")).unwrap();
    }
    // With an empty work folder, and without a dataset to replace.
    fs::create_dir(bench.dst().join(".shardpack")).unwrap();
    fs::remove_file(bench.dst().join("manifest.json")).unwrap();
    verify(&bench.dst(), &[]).code(1).clean_error().says("unfinished");
}
