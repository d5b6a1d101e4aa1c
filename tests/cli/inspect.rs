//! Tests `shardpack inspect` as a process: reports on datasets, parts of datasets and foreign tar files.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use shardpack_testing::{Bench, Dataset, Ran, name, run};

fn inspect(paths: &[impl AsRef<Path>], options: &[&str]) -> Ran {
    let mut args = vec![OsStr::new("inspect")];
    args.extend(paths.iter().map(|path| path.as_ref().as_os_str()));
    args.extend(options.iter().map(OsStr::new));
    run(&args)
}

fn json(path: &Path, options: &[&str]) -> Value {
    inspect(&[path], &[options, &["--json"]].concat()).code(0).json()
}

/// The photographs of the README, packed.
fn photos(options: &[&str]) -> Bench {
    let bench = Bench::new();
    let all = [&["--quiet", "--seed", "7"], options].concat();
    shardpack_testing::pack(&shardpack_testing::photos(), &bench.dst(), &all).code(0);
    bench
}

fn extract(paths: &[impl AsRef<Path>], wanted: impl AsRef<OsStr>, output: &Path, options: &[&str]) -> Ran {
    let mut args = vec![OsStr::new("inspect")];
    args.extend(paths.iter().map(|path| path.as_ref().as_os_str()));
    args.extend([OsStr::new("--extract"), wanted.as_ref(), OsStr::new("-o"), output.as_os_str()]);
    args.extend(options.iter().map(OsStr::new));
    run(&args)
}

fn flip(path: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

/// The shards alone, in a folder without a manifest.
fn without_manifest(bench: &Bench) -> Vec<PathBuf> {
    let folder = bench.at("foreign");
    fs::create_dir(&folder).unwrap();
    let shards = shardpack_testing::contents(&bench.dst()).into_keys().filter(|path| {
        let name = path.to_string_lossy();
        name.contains(".tar") && !name.ends_with(".idx")
    });
    let copy = |path: PathBuf| {
        let copy = folder.join(path.file_name().unwrap());
        fs::copy(bench.dst().join(path), &copy).unwrap();
        copy
    };
    shards.map(copy).collect()
}

#[test]
fn a_dataset_reads_well_in_80_columns() {
    let bench = photos(&["--shards", "3"]);
    let out = inspect(&[bench.dst()], &[]).code(0);
    let id = Dataset::read(&bench.dst()).manifest.id;
    let text = out.stdout.replace(bench.dst().to_str().unwrap(), "packed");
    let text = text.replace(&shardpack_format::hash::hex(&id.0), "ID");
    let expected = "\
dataset shard in packed
id      ID
holds   32 samples in 5 classes; 758.6 KiB of images, 23.7 KiB on average
shards  3 shards of 220.0 KiB to 330.0 KiB, median 280.0 KiB; 830.0 KiB in all;
        10 to 11 samples each, median 11
format  webdataset; not compressed; shuffled with seed 7 (feistel-8);
        21 samples a block
";
    assert!(text.starts_with(expected), "{text}");
    let expected = "
  label  class                              samples    share
      2  space                                    8   25.0 %  ━━━━━━━━━━━━━━━━━━
      4  things                                   8   25.0 %  ━━━━━━━━━━━━━━━━━━
      0  animals                                  6   18.8 %  ━━━━━━━━━━━━━━
      1  people                                   6   18.8 %  ━━━━━━━━━━━━━━
      3  textures                                 4   12.5 %  ━━━━━━━━━

next    shardpack verify packed
";
    assert!(text.ends_with(expected), "{text}");
    for part in [
        "kinds   jpeg 30 (93.8 %); png 2 (6.2 %); 2 strays (--samples --strays)\n",
        "size    width 128 to 500 px, median 256; height 80 to 480 px, median 300\n",
        "mix     not known: fewer than 2,048 samples\n",
        "ledger  32 images found: 32 packed\n",
        "classes 5; the largest has 2.0 times the samples of the smallest\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(out.stderr, "");
    inspect(&[bench.dst()], &["--quiet"]).code(0).says_not("next");
}

#[test]
fn json_says_what_a_slow_reader_counts() {
    let bench = photos(&["--shards", "3", "--meta", "json"]);
    let dataset = Dataset::read(&bench.dst());
    let (mut bytes, mut classes) = (BTreeMap::<String, u64>::new(), BTreeMap::<i64, u64>::new());
    for sample in &dataset.samples {
        *classes.entry(sample.label).or_default() += 1;
        for (extension, component) in &sample.components {
            *bytes.entry(extension.clone()).or_default() += component.len() as u64;
        }
    }
    let found = json(&bench.dst(), &[]);
    assert_eq!(found["problems"], json!([]));
    let [found] = &found["datasets"].as_array().unwrap()[..] else { panic!("{found}") };
    let manifest = &dataset.manifest;
    assert_eq!((&found["what"], &found["name"], &found["samples"]), (&json!("dataset"), &json!("shard"), &json!(32)));
    assert_eq!(found["order"], json!(manifest.order));
    assert_eq!(found["payload_bytes"], manifest.payload_bytes);
    assert_eq!(found["images"]["kinds"], json!(manifest.kinds));
    assert_eq!((&found["shards"]["count"], &found["shards"]["bytes"]), (&json!(3), &json!(manifest.shard_bytes)));
    for component in found["components"].as_array().unwrap() {
        assert_eq!(component["bytes"], bytes[component["name"].as_str().unwrap()], "{component}");
        assert_eq!(component["samples"], 32);
    }
    let counts = found["classes"]["list"].as_array().unwrap();
    assert_eq!(
        counts.iter().map(|class| class["samples"].clone()).collect::<Vec<_>>(),
        classes.into_values().map(|n| json!(n)).collect::<Vec<_>>()
    );
    let components: u64 = bytes.values().sum();
    assert_eq!(found["overhead"]["framing_bytes"], manifest.shard_bytes - components);
    assert_eq!(found["overhead"]["other_bytes"], components - manifest.payload_bytes);
    let share = manifest.shard_bytes as f64 / manifest.payload_bytes as f64 - 1.0;
    assert!((found["overhead"]["share"].as_f64().unwrap() - share).abs() < 1e-9);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let bench = photos(&["--shards", "8"]);
    let one = json(&bench.dst(), &["--jobs", "1"]);
    assert_eq!(one, json(&bench.dst(), &["--jobs", "2"]));
    assert_eq!(one, json(&bench.dst(), &["--jobs", "7"]));
}

#[test]
fn a_folder_of_splits_a_manifest_and_a_shard_are_understood() {
    let bench = Bench::with(&["train/cat/a.jpg", "train/dog/b.jpg", "train/dog/c.jpg", "val/dog/d.jpg"]);
    bench.pack(&["--shards", "1", "--quiet"]).code(0);
    let names = |found: &Value| {
        let all = found["datasets"].as_array().unwrap();
        all.iter().map(|d| format!("{} {} {}", d["what"], d["name"], d["samples"]).replace('"', "")).collect::<Vec<_>>()
    };
    let dst = bench.dst();
    assert_eq!(names(&json(&dst, &[])), ["dataset train 3", "dataset val 1"]);
    assert_eq!(names(&json(&dst.join("val"), &[])), ["dataset val 1"]);
    assert_eq!(names(&json(&dst.join("train/manifest.json"), &[])), ["dataset train 3"]);
    inspect(&[&dst.join("val")], &[]).code(0).says("dataset val in ").says("1 empty");

    let bench = photos(&["--shards", "4"]);
    let shard = |n: usize| bench.dst().join(format!("shard-{n:06}.tar"));
    let samples = |n: usize| Dataset::read(&bench.dst()).manifest.shards[n].samples;
    assert_eq!(names(&json(&shard(2), &[])), [format!("shards shard {}", samples(2))]);
    let both = inspect(&[shard(3), shard(1)], &["--json"]).code(0).json();
    assert_eq!(names(&both), [format!("shards shard {}", samples(1) + samples(3))], "shards of one dataset are one");
    let all: Vec<_> = (0..4).map(shard).collect();
    assert_eq!(names(&inspect(&all, &["--json"]).code(0).json()), ["dataset shard 32"]);
}

#[test]
fn samples_are_listed_in_order_and_as_the_filters_say() {
    let bench = photos(&["--shards", "3"]);
    let dataset = Dataset::read(&bench.dst());
    let all = json(&bench.dst(), &["--samples", "--limit", "0"]);
    let all = all["samples"].as_array().unwrap();
    assert_eq!(all.len(), 32);
    for ((number, sample), found) in dataset.samples.iter().enumerate().zip(all) {
        assert_eq!(found["number"], number);
        assert_eq!(found["key"], sample.key);
        assert_eq!(found["path"].as_str().unwrap().as_bytes(), sample.path);
        assert_eq!(found["label"], sample.label);
        assert_eq!(found["bytes"], sample.image().len());
    }
    let paths = |options: &[&str]| {
        let found = json(&bench.dst(), &[&["--samples"], options].concat());
        let paths = found["samples"].as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap().to_owned());
        let mut paths: Vec<String> = paths.collect();
        paths.sort();
        paths
    };
    assert_eq!(paths(&[]).len(), 20);
    assert_eq!(paths(&["--strays"]), ["animals/cat-nose.jpg", "things/spoon.png"]);
    assert_eq!(paths(&["--kind", "png"]), ["animals/cat-nose.jpg", "things/spoon.png"]);
    assert_eq!(paths(&["--kind", "png", "--class", "things"]), ["things/spoon.png"]);
    assert_eq!(paths(&["--class", "textures"]), paths(&["--class", "3"]));
    assert_eq!(paths(&["--class", "textures"]).len(), 4);
    assert_eq!(paths(&["--kind", "gif"]), [""; 0]);

    let table = inspect(&[bench.dst()], &["--samples", "--class", "things", "--kind", "png"]).code(0);
    let (number, row) = all.iter().enumerate().find(|(_, row)| row["path"] == "things/spoon.png").unwrap();
    let expected = format!(
        "number  key       class   kind     size   bytes  path\n{number:>6}  {}  things  png   128x128  30,702  things/spoon.png\n",
        row["key"].as_str().unwrap()
    );
    assert_eq!(table.stdout, expected);
    inspect(&[bench.dst()], &["--samples", "--limit", "31"]).code(0).says("there are more than 31");
    inspect(&[bench.dst()], &["--samples", "--limit", "32"]).code(0).says_not("there are more");
    let none = inspect(&[bench.dst()], &["--samples", "--class", "dogs"]).code(2).clean_error();
    none.says("no class \"dogs\"").says("the classes are animals, people, space, textures, things");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let bench = photos(&[]);
    for options in [
        &["--limit", "3"][..],
        &["--class", "things"],
        &["--strays"],
        &["--extract", "00000000"],
        &["-o", "x"],
        &["--samples", "--table", "x.csv"],
        &["--samples", "--kind", "mp4"],
        &["--table", "x.xlsx"],
    ] {
        inspect(&[bench.dst()], options).code(2);
    }
}

#[test]
fn every_image_is_extracted_by_key_and_by_path_from_plain_and_compressed_shards() {
    for options in [&["--shards", "3"][..], &["--shards", "2", "--compress", "zstd"]] {
        let bench = photos(options);
        let output = bench.at("out");
        for sample in Dataset::read(&bench.dst()).samples.iter().step_by(5) {
            for wanted in [name(sample.key.as_bytes()), name(&sample.path)] {
                extract(&[bench.dst()], &wanted, &output, &["--force"]).code(0).says("wrote");
                assert!(fs::read(&output).unwrap() == sample.image(), "{wanted:?}");
            }
        }
        let last = Dataset::read(&bench.dst()).samples.pop().unwrap();
        let shard = bench.dst().join(&Dataset::read(&bench.dst()).manifest.shards[0].file);
        extract(&[shard], &last.key, &output, &["--force"]).code(2).says("no sample with the key or the path");
    }
}

#[test]
fn extract_writes_what_it_was_told_to_and_nothing_else() {
    let bench = photos(&[]);
    let (dst, output) = (bench.dst(), bench.at("image.jpg"));
    fs::write(&output, b"mine").unwrap();
    extract(&[&dst], "00000003", &output, &[]).code(2).clean_error().says("--force replaces it");
    assert_eq!(fs::read(&output).unwrap(), b"mine");
    let none = extract(&[&dst], "00000099", &bench.at("none"), &[]).code(2).clean_error();
    none.says("no sample with the key or the path \"00000099\"").says("--samples");
    assert!(!bench.at("none").exists());
    let args = [
        "inspect".as_ref(),
        dst.as_os_str(),
        "--extract".as_ref(),
        "things/spoon.png".as_ref(),
        "-o".as_ref(),
        "-".as_ref(),
    ];
    let out = assert_cmd::Command::new(shardpack_testing::binary()).args(args).output().unwrap();
    assert!(out.stdout == shardpack_testing::png() && out.status.success());

    // If two splits have the key, `--extract` does not choose one.
    let bench = Bench::with(&["train/cat/a.jpg", "val/cat/b.jpg"]);
    bench.pack(&["--quiet"]).code(0);
    extract(&[bench.dst()], "00000000", &output, &["--force"]).code(2).says("is in train and in val").says("dst/train");
    extract(&[bench.dst()], "val/cat/b.jpg", &output, &["--force"]).code(0).says("00000000 (cat/b.jpg)");
    assert!(fs::read(&output).unwrap() == fs::read(bench.src().join("val/cat/b.jpg")).unwrap());
}

#[test]
fn a_name_that_is_no_text_is_kept() {
    let bench = Bench::with(&["cat/a.jpg"]);
    bench.file(name(b"cat/\xff\n.jpg"), &shardpack_testing::photo());
    bench.pack(&["--order", "source", "--quiet"]).code(0);
    let listed = json(&bench.dst(), &["--samples"]);
    let hex = listed["samples"].as_array().unwrap().iter().find_map(|row| row["path_hex"].as_str()).unwrap();
    assert_eq!(hex, shardpack_format::hash::hex(b"cat/\xff\n.jpg"));
    let table = inspect(&[bench.dst()], &["--samples"]).code(0);
    assert_eq!(table.stdout.lines().count(), 3, "{}", table.stdout);
    let output = bench.at("out");
    extract(&[bench.dst()], name(b"cat/\xff\n.jpg"), &output, &[]).code(0);
    assert!(fs::read(output).unwrap() == shardpack_testing::photo());
}

#[test]
fn damage_is_named_and_the_rest_is_looked_at() {
    let bench = photos(&["--shards", "4"]);
    let manifest = Dataset::read(&bench.dst()).manifest;
    let index = bench.dst().join(&manifest.shards[1].index.file);
    flip(&index, 200);
    fs::remove_file(bench.dst().join(&manifest.shards[2].file)).unwrap();
    let found = inspect(&[bench.dst()], &["--json"]).code(1).json();
    let problems = found["problems"].as_array().unwrap();
    let files: Vec<_> = problems.iter().map(|p| Path::new(p["file"].as_str().unwrap()).file_name().unwrap()).collect();
    assert_eq!(files, ["shard-000001.index", "shard-000002.tar"], "{problems:?}");
    let seen: u64 =
        found["datasets"][0]["images"]["kinds"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(seen, 32 - manifest.shards[1].samples);
    assert_eq!(found["datasets"][0]["shards"]["unread"], 1);
    let text = inspect(&[bench.dst()], &[]).code(1).says("holds   32 samples");
    let text = text.says("unread  1 of 4 shards").says("classes, kinds and components lack their samples");
    assert_eq!(text.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 2, "{}", text.stderr);
    let table = bench.at("table.csv");
    inspect(&[bench.dst()], &["--table", table.to_str().unwrap()]).code(1).clean_error();
    assert!(!table.exists(), "half a table");
    let listed = inspect(&[bench.dst()], &["--samples", "--limit", "0", "--json"]).code(1).json();
    assert_eq!(listed["samples"].as_array().unwrap().len() as u64, 32 - manifest.shards[1].samples);
    let files: Vec<_> = listed["problems"].as_array().unwrap().iter().map(|problem| &problem["file"]).collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn a_damaged_image_is_not_extracted() {
    for options in [&[][..], &["--compress", "zstd"]] {
        let bench = photos(options);
        let shard = bench.dst().join(&Dataset::read(&bench.dst()).manifest.shards[0].file);
        flip(&shard, 3000);
        let output = bench.at("out");
        extract(&[bench.dst()], "00000000", &output, &[]).code(1).clean_error().says("00000000");
        assert!(!output.exists());
    }
}

#[test]
fn an_unfinished_pack_is_said_to_be_one() {
    let bench = photos(&["--shards", "3"]);
    fs::remove_file(bench.dst().join("manifest.json")).unwrap();
    fs::create_dir(bench.dst().join(".shardpack")).unwrap();
    let out = inspect(&[bench.dst()], &[]).code(2).clean_error();
    out.says("an unfinished pack; shards that are finished: 3").says("run the same pack command again");
    inspect(&[bench.at("none")], &[]).code(2).clean_error().says("no such file or folder");
    inspect(&[bench.src()], &[]).code(2).clean_error().says("no shards");
}

#[test]
fn a_folder_in_a_dataset_is_inspected_if_both_are_named() {
    let bench = photos(&["--shards", "2"]);
    let extra = bench.dst().join("extra");
    fs::create_dir(&extra).unwrap();
    fs::copy(bench.dst().join("shard-000000.tar"), extra.join("x.tar")).unwrap();
    let found = inspect(&[bench.dst(), extra.clone()], &["--json"]).code(0).json();
    let what: Vec<_> = found["datasets"].as_array().unwrap().iter().map(|one| one["what"].clone()).collect();
    assert_eq!(what, ["dataset", "foreign"]);
    let found = inspect(&[bench.dst().join("manifest.json"), extra], &["--json"]).code(0).json();
    assert_eq!(found["datasets"].as_array().unwrap().len(), 1);
    let again = bench.dst().join("again");
    fs::rename(photos(&[]).dst(), &again).unwrap();
    let found = inspect(&[bench.dst(), again], &["--json"]).code(0).json();
    let what: Vec<_> = found["datasets"].as_array().unwrap().iter().map(|one| one["what"].clone()).collect();
    assert_eq!(what, ["dataset", "dataset"]);
}

#[test]
fn without_the_manifest_the_same_is_found_in_the_shards() {
    for options in [&["--shards", "3"][..], &["--shards", "2", "--compress", "zstd"]] {
        let bench = photos(options);
        let shards = without_manifest(&bench);
        let (own, foreign) = (json(&bench.dst(), &[]), json(&bench.at("foreign"), &[]));
        let (own, foreign) = (&own["datasets"][0], &foreign["datasets"][0]);
        assert_eq!((&foreign["what"], &foreign["order"]), (&json!("foreign"), &Value::Null));
        for field in ["samples", "payload_bytes", "images", "mix"] {
            assert_eq!(foreign[field], own[field], "{field}");
        }
        assert_eq!(foreign["shards"], own["shards"]);
        let counts = |found: &Value| {
            found["classes"]["list"].as_array().unwrap().iter().map(|c| c["samples"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(counts(foreign), counts(own));
        assert_eq!((&foreign["tar"]["members"], &foreign["tar"]["plain_members"]), (&json!(64), &json!(64)));
        let given = inspect(&shards, &["--json"]).code(0).json();
        assert_eq!(&given["datasets"][0], foreign, "a folder of tar files is its tar files");

        let sample = Dataset::read(&bench.dst()).samples.pop().unwrap();
        let output = bench.at("out");
        for wanted in [sample.key.clone(), format!("{}.jpg", sample.key)] {
            extract(&shards, &wanted, &output, &["--force"]).code(0);
            assert!(fs::read(&output).unwrap() == sample.image(), "{wanted}");
        }
        extract(&shards, format!("{}.cls", sample.key), &output, &["--force"]).code(0);
        assert_eq!(fs::read(&output).unwrap(), sample.label.to_string().as_bytes());
        let rows = inspect(&shards, &["--samples", "--limit", "0", "--json"]).code(0).json()["samples"].clone();
        let own = json(&bench.dst(), &["--samples", "--limit", "0"])["samples"].clone();
        for (row, own) in rows.as_array().unwrap().iter().zip(own.as_array().unwrap()) {
            for field in ["number", "key", "label", "kind", "width", "height", "mode", "depth", "bytes", "shard"] {
                assert_eq!(row[field], own[field], "{field}");
            }
        }
    }
}

/// A tar file as other tools write it.
fn tar(path: &Path, members: &[(&str, &[u8])]) {
    let mut builder = tar::Builder::new(fs::File::create(path).unwrap());
    for (name, data) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        // By hand: the crate refuses `..`.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *data).unwrap();
    }
    builder.finish().unwrap();
}

#[test]
fn a_foreign_tar_file_is_described_as_webdataset_reads_it() {
    let bench = Bench::new();
    let path = bench.at("x.tar");
    let (photo, png) = (shardpack_testing::photo(), shardpack_testing::png());
    let members: &[(&str, &[u8])] = &[
        ("a/1.cls", b" 7\n"),
        ("a/1.jpg", &photo),
        ("a/2.cls", b"-3"),
        ("a/2.seg.png", &png),
        ("a/2.jpg", &png),
        ("noext", b"x"),
        ("../../evil.cls", b"seven"),
        ("../../evil.jpeg", b"no image"),
        ("__meta__", b"x"),
        ("text.txt", b"no image at all"),
    ];
    tar(&path, members);
    let found = inspect(&[&path], &["--json"]).code(1).says("holds no image").json();
    let found = &found["datasets"][0];
    assert_eq!(found["samples"], 4);
    assert_eq!(found["images"]["kinds"], json!({"jpeg": 1, "png": 2, "unknown": 1}));
    assert_eq!((&found["images"]["strays"], &found["images"]["without_size"]), (&json!(2), &json!(1)));
    let classes = json!([{"label": -3, "name": null, "samples": 1}, {"label": 7, "name": null, "samples": 1}]);
    assert_eq!((&found["classes"]["list"], &found["classes"]["unlabelled_samples"]), (&classes, &json!(2)));
    let names: Vec<_> = found["components"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cls", "jpeg", "jpg", "seg.png", "txt"]);
    assert_eq!((&found["tar"]["members"], &found["tar"]["plain_members"]), (&json!(10), &json!(0)));
    assert_eq!(
        found["tar"]["dropped"],
        json!({"no extension, so webdataset drops it": 1, "its name begins with __…__, so webdataset drops it": 1})
    );
    let text = inspect(&[&path], &[]).code(1);
    text.says("10 with PAX or GNU headers").says("1 member: no extension").says("order unknown").says("no manifest");

    let output = bench.at("out");
    extract(&[&path], "../../evil", &output, &[]).code(0);
    assert_eq!(fs::read(&output).unwrap(), b"no image");
    assert!(!bench.at("evil.jpeg").exists() && !bench.at("../evil.jpeg").exists());
}

#[test]
fn a_foreign_file_that_ends_early_is_described_up_to_there() {
    let bench = photos(&["--shards", "2"]);
    let shards = without_manifest(&bench);
    let length = fs::metadata(&shards[1]).unwrap().len();
    fs::File::options().write(true).open(&shards[1]).unwrap().set_len(length / 2).unwrap();
    let found = inspect(&shards, &["--json"]).code(1).json();
    let problems = found["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(Path::new(problems[0]["file"].as_str().unwrap()), shards[1]);
    assert_eq!(found["datasets"][0]["tar"]["unreadable_files"], 1);
    assert_eq!(found["datasets"][0]["shards"]["unread"], 1);
    let samples = found["datasets"][0]["samples"].as_u64().unwrap();
    assert!((17..32).contains(&samples), "{samples}");
}

#[test]
fn what_is_no_tar_file_is_refused() {
    let bench = Bench::new();
    let rows: [(&str, &[u8], i32, &str); 5] = [
        ("text.tar", &[b'x'; 1024], 1, "named as a tar file, but does not begin as one"),
        ("short.tar", b"x", 1, "truncated header"),
        ("packed.tar.gz", b"\x1f\x8b\x08\0\0\0\0\0", 1, "cannot read"),
        ("packed.tar.xz", b"\xfd7zXZ\0", 2, "xz -dk"),
        ("bad.tar.zst", b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff", 1, "cannot read"),
    ];
    for (name, bytes, code, text) in rows {
        let path = bench.at(name);
        fs::write(&path, bytes).unwrap();
        inspect(&[path], &[]).code(code).clean_error().says(text);
    }
    let empty = bench.at("empty.tar");
    fs::write(&empty, [0; 10240]).unwrap();
    inspect(&[empty], &[]).code(1).clean_error().says("no sample in it");
}

#[test]
fn a_shuffled_pack_is_well_mixed_and_one_in_source_order_is_not() {
    let bench = Bench::with_source(2100, 1);
    let deffs = |order: &str| {
        let dst = bench.at(order);
        bench.pack_to(&dst, &["--order", order, "--quiet", "--shards", "3"]).code(0);
        let found = json(&dst, &[]);
        let mix = found["datasets"][0]["mix"].as_array().unwrap().clone();
        (
            inspect(&[&dst], &[]).code(0),
            mix.into_iter().map(|mix| (mix["deff"].as_f64().unwrap(), mix["spread"].as_f64().unwrap())),
        )
    };
    let (text, shuffled) = deffs("shuffled");
    assert!(
        text.stdout.lines().all(|line| line.chars().count() <= 80 || line.starts_with("dataset ")),
        "{}",
        text.stdout
    );
    text.says("well shuffled: DEFF ");
    for (deff, spread) in shuffled {
        assert!((deff - 1.0).abs() < 4.0 * spread && spread < 0.3, "{deff} ± {spread}");
    }
    let (text, mut sorted) = deffs("source");
    text.says("poorly shuffled: DEFF ");
    assert!(sorted.next().unwrap().0 > 50.0);
}

#[test]
fn a_table_is_replaced_only_when_told() {
    let bench = photos(&[]);
    let table = bench.at("index.csv");
    let write = |options: &[&str]| inspect(&[bench.dst()], &[&["--table", table.to_str().unwrap()], options].concat());
    write(&[]).code(0).says("32 rows");
    let text = fs::read_to_string(&table).unwrap();
    assert_eq!(text.lines().count(), 33);
    fs::write(&table, b"mine").unwrap();
    write(&[]).code(2).clean_error().says("--force");
    assert_eq!(fs::read(&table).unwrap(), b"mine");
    assert_eq!(write(&["--force", "--json"]).code(0).json()["rows"], 32);
    assert_eq!(fs::read_to_string(&table).unwrap(), text);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let bench = photos(&[]);
    let script = "\"$0\" inspect \"$1\" --samples --limit 0 --json | head -c 1 >/dev/null; echo ${PIPESTATUS[0]}";
    let out = assert_cmd::Command::new("bash")
        .args(["-c", script])
        .arg(shardpack_testing::binary())
        .arg(bench.dst())
        .output();
    assert_eq!(Ran::from(out.unwrap()).stdout, "0\n");
}

#[test]
fn splits_are_one_table_in_the_order_of_their_use() {
    let bench = Bench::with(&[
        "extra/cat/a.jpg",
        "test/cat/a.jpg",
        "test/dog/b.jpg",
        "train/cat/a.jpg",
        "train/cat/c.jpg",
        "train/dog/b.jpg",
        "val/dog/a.jpg",
    ]);
    bench.pack(&["--shards", "1", "--quiet", "--splits", "extra,test,train,val"]).code(0);
    let dst = bench.dst();
    let names = |found: &Value| {
        found["datasets"].as_array().unwrap().iter().map(|d| d["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&json(&dst, &[])), ["train", "val", "test", "extra"]);
    let text = inspect(&[&dst], &[]).code(0).says("splits  train, val, test, extra in ").says("7 samples in 2 classes");
    let rows: Vec<Vec<&str>> = text.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |first: &str, column: usize| {
        rows.iter().find(|row| row.get(column) == Some(&first)).unwrap_or_else(|| panic!("{first}\n{}", text.stdout))
    };
    assert_eq!(row("extra", 0)[1], "1");
    assert_eq!(row("train", 0)[1..4], ["3", "42.9", "%"]);
    assert_eq!(row("cat", 1)[2..], ["2", "0", "1", "1"]);
    assert_eq!(row("dog", 1)[2..], ["1", "1", "1", "0"]);
    assert!(text.stdout.lines().all(|line| line.chars().count() <= 80 || line.contains('/')), "{}", text.stdout);
    text.says("next    shardpack verify ").says("shardpack inspect ");
}

#[test]
fn datasets_of_two_formats_are_no_splits() {
    let bench = photos(&["--format", "mds", "--format", "webdataset"]);
    let text = inspect(&[bench.dst()], &[]).code(0).says("/dst/mds\n").says("/dst/webdataset\n");
    assert!(!text.stdout.contains("splits"), "{}", text.stdout);
}

#[test]
fn a_tree_of_images_is_one_for_plan() {
    let bench = Bench::with(&["train/cat/a.jpg"]);
    inspect(&[bench.src()], &[]).code(2).clean_error().says("it holds images: `shardpack plan ");
    let bench = Bench::new();
    bench.file("notes.txt", b"words");
    inspect(&[bench.src()], &[]).code(2).clean_error().says_not("shardpack plan").says("shardpack pack");
}
