//! Tars of others whose samples hold no image: each member is a component by its extension, to the byte, in every format.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "support/lists.rs"]
mod lists;
mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use lists::{mend, one, pack, samples, verify};
use shardpack_format::npy;
use shardpack_reader::Dataset;
use support::{Bench, Ran, Rng, run};

const FORMATS: [(&str, &str); 3] = [
    ("webdataset", "SHARDPACK_PYTHON"),
    ("mds", "SHARDPACK_PYTHON_STREAMING"),
    ("tfrecord", "SHARDPACK_PYTHON_TENSORFLOW"),
];

/// Bytes that are of no kind.
fn noise(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..900 + seed * 7).map(|_| rng.next() as u8).collect()
}

/// An array whose first axis is its own.
fn array(seed: u64) -> Vec<u8> {
    let mut bytes = npy::head("<f4", &[3 + seed, 5], false);
    (0..(3 + seed) * 5).for_each(|number| bytes.extend(((seed + number) as f32).to_le_bytes()));
    bytes
}

/// Six samples of several files in three classes.
fn groups(extensions: &[&str]) -> Bench {
    let bench = Bench::new();
    for number in 0..6u64 {
        for extension in extensions {
            let content = match *extension {
                "npy" => array(number),
                "txt" => format!("said {number}").into_bytes(),
                "json" => format!("{{\"n\": {number}}}").into_bytes(),
                _ => noise(number),
            };
            bench.file(format!("{}/{number}.{extension}", ["a", "b", "c"][number as usize % 3]), &content);
        }
    }
    bench
}

/// The source of `bench` as `tar` writes it, by name.
fn tarred(bench: &Bench, name: &str, options: &[&str]) -> PathBuf {
    let path = bench.at(name);
    let mut command = Command::new("tar");
    command.args(options).args(["--sort=name", "-cf"]).arg(&path).arg("-C").arg(bench.src()).arg(".");
    assert!(command.status().unwrap().success());
    path
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

/// Contents of components by path, whatever is said of labels.
fn components(dst: &Path) -> BTreeMap<String, BTreeMap<String, Vec<u8>>> {
    let dataset = Dataset::open(dst).unwrap();
    let names = &dataset.manifest().components;
    let (mut reader, mut all) = (dataset.reader(..).unwrap(), BTreeMap::new());
    while let Some(sample) = reader.next().unwrap() {
        let path = String::from_utf8(sample.path().to_vec()).unwrap();
        let contents = names.iter().enumerate().filter(|(_, name)| *name != "cls").filter_map(|(number, name)| {
            let content = sample.content(number).unwrap()?;
            Some((name.clone(), content.into_owned()))
        });
        assert!(all.insert(path.trim_start_matches("./").to_owned(), contents.collect()).is_none());
    }
    all
}

fn settings(dst: &Path) -> BTreeMap<String, String> {
    Dataset::open(dst).unwrap().manifest().format.settings.clone()
}

#[test]
fn a_tar_of_a_tree_becomes_what_the_tree_becomes() {
    for extensions in [&["flac"][..], &["wav", "txt", "json"], &["mp4", "flac", "json"], &["xyz"], &["json", "txt"]] {
        let bench = groups(extensions);
        let tar = tarred(&bench, "all.tar", &[]);
        for format in FORMATS.map(|(format, _)| format) {
            let (of_tree, of_tar) = (bench.at(&format!("{format}-tree")), bench.at(&format!("{format}-tar")));
            pack(&bench.src(), &of_tree, &["--quiet", "--group", "stem", "--format", format]).code(0);
            convert(&tar, &of_tar, &["--format", format]).code(0).says("6 samples").says_not("image");
            assert_eq!(components(&of_tar), components(&of_tree), "{extensions:?} {format}");
            for setting in ["payload", "beside"] {
                assert_eq!(settings(&of_tar).get(setting), settings(&of_tree).get(setting), "{extensions:?} {format}");
            }
            verify(&of_tar, &tar, &[]);
            mend(&of_tar, &tar);
        }
        // Recordio has one payload, and one file is one.
        if extensions.len() == 1 {
            let dst = bench.at("rec");
            convert(&tar, &dst, &["--quiet", "--format", "recordio"]).code(0);
            assert_eq!(components(&dst), components(&bench.at("mds-tree")));
            // Folders are classes, as those of images.
            let classes: Vec<_> =
                Dataset::open(&dst).unwrap().classes().iter().map(|class| class.name.clone()).collect();
            assert_eq!(format!("{classes:?}"), r#"["a", "b", "c"]"#);
        }
        run(&["verify", "--quiet", tar.to_str().unwrap()]).code(0);
        run(&["inspect", tar.to_str().unwrap()]).code(0).says(" of files, ").says_not("holds no image");
    }
}

#[test]
fn arrays_have_types_and_every_byte() {
    let bench = groups(&["npy", "json"]);
    let tar = tarred(&bench, "all.tar", &[]);
    for (format, _) in FORMATS {
        let dst = bench.at(format);
        convert(&tar, &dst, &["--format", format]).code(0);
        assert_eq!(settings(&dst)["payload"], "npy:<f4[?x5]", "{format}");
        let found = components(&dst);
        for number in 0..6u64 {
            let of =
                found.values().find(|sample| sample["json"] == format!("{{\"n\": {number}}}").into_bytes()).unwrap();
            assert_eq!(of["npy"], array(number), "{format}");
        }
        verify(&dst, &tar, &[]);
        mend(&dst, &tar);
    }
    // From one format to each other, and from our tar without what says what it is.
    let foreign = bench.at("foreign");
    fs::create_dir(&foreign).unwrap();
    for entry in fs::read_dir(bench.at("webdataset")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "tar") {
            fs::copy(&path, foreign.join(path.file_name().unwrap())).unwrap();
        }
    }
    for (format, _) in FORMATS {
        let dst = bench.at(&format!("foreign-{format}"));
        convert(&foreign, &dst, &["--quiet", "--format", format]).code(0);
        assert_eq!(settings(&dst)["payload"], "npy:<f4[?x5]", "{format}");
        let content = |dst: &Path| {
            let mut all: Vec<_> = components(dst).into_values().collect();
            all.sort();
            all
        };
        assert_eq!(content(&dst), content(&bench.at(format)), "{format}");
    }
}

#[test]
fn arrays_of_which_one_is_none_are_files_in_all() {
    let fortran = [npy::head("<f4", &[2, 2], true), vec![0; 16]].concat();
    let mut second = npy::head("<f4", &[2, 2], false);
    second[6] = 2;
    let odd = [
        ("cut", array(1)[..150].to_vec()),
        ("longer", [array(1), vec![0]].concat()),
        ("fortran", fortran),
        ("objects", npy::head("|O", &[1], false)),
        ("second", [second, vec![0; 16]].concat()),
        ("none", b"1 2 3".to_vec()),
    ];
    for (what, content) in odd {
        for payload in ["npy", "flac"] {
            let bench = groups(if payload == "npy" { &["npy"] } else { &["npy", "flac"] });
            bench.file("b/4.npy", &content);
            let tar = tarred(&bench, "all.tar", &[]);
            let dst = bench.at("dst");
            let ran = convert(&tar, &dst, &["--format", "mds"]).code(0);
            ran.says("component npy is files, and no arrays: 1 of 6 begin as none, or are cut");
            let found = components(&dst);
            assert_eq!(found[&format!("b/4.{payload}")]["npy"], content, "{what}");
            for number in [0, 1, 2, 3, 5] {
                let path = format!("{}/{number}.{payload}", ["a", "b", "c"][number as usize % 3]);
                assert_eq!(found[&path]["npy"], array(number), "{what}");
            }
            assert_eq!(settings(&dst)["payload"], format!("{payload}=*.{payload}"));
            verify(&dst, &tar, &[]);
        }
    }
}

#[test]
fn what_webdataset_writes_comes_back_through_the_readers_of_each_format() {
    let python = |variable: &str| {
        let found = std::env::var_os(variable);
        assert!(found.is_some() || variable != "SHARDPACK_PYTHON", "not set: run `cargo xtask test`");
        found
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/tar_values.py");
    let bench = Bench::new();
    let shards = bench.at("shards");
    fs::create_dir(&shards).unwrap();
    let wrote =
        Command::new(python("SHARDPACK_PYTHON").unwrap()).args([script, "write"]).arg(&shards).output().unwrap();
    assert!(wrote.status.success(), "{}", String::from_utf8_lossy(&wrote.stderr));
    let sorted = |json: &[u8]| {
        let mut all: Vec<_> = serde_json::from_slice::<Vec<serde_json::Value>>(json).unwrap();
        all.sort_by_key(serde_json::Value::to_string);
        all
    };
    let expected = sorted(&fs::read(shards.join("expected.json")).unwrap());
    fs::remove_file(shards.join("expected.json")).unwrap();
    for (format, variable) in FORMATS {
        let dst = bench.at(format);
        convert(&shards, &dst, &["--format", format, "--shards", "2"]).code(0).says("24 samples in 3 classes");
        let Some(python) = python(variable) else {
            eprintln!("{variable} is not set: {format} was NOT read");
            continue;
        };
        let read = Command::new(python).args([script, format]).arg(&dst).output().unwrap();
        assert!(read.status.success(), "{format}: {}", String::from_utf8_lossy(&read.stderr));
        assert!(sorted(&read.stdout) == expected, "{format}: {}", String::from_utf8_lossy(&read.stdout));
    }
}

#[test]
fn a_compressed_tar_is_the_same() {
    let bench = groups(&["npy", "json"]);
    let plain = bench.at("plain");
    convert(&tarred(&bench, "all.tar", &[]), &plain, &["--quiet", "--format", "mds"]).code(0);
    for (name, option) in [("all.tar.gz", "--gzip"), ("all.tar.zst", "--zstd")] {
        let tar = tarred(&bench, name, &[option]);
        let dst = bench.at(&format!("{name}-dst"));
        convert(&tar, &dst, &["--quiet", "--format", "mds"]).code(0);
        assert_eq!(samples(&dst), samples(&plain), "{name}");
        run(&["verify", "--quiet", tar.to_str().unwrap()]).code(0);
    }
}

#[test]
fn samples_may_lack_a_component_and_those_of_nothing_are_refused() {
    let bench = groups(&["wav", "txt"]);
    fs::remove_file(bench.src().join("a/0.txt")).unwrap();
    let tar = tarred(&bench, "all.tar", &[]);
    convert(&tar, &bench.dst(), &[]).code(0).says("1 of 6 samples without txt beside them");
    let found = components(&bench.dst());
    assert!(!found["a/0.wav"].contains_key("txt") && found["a/3.wav"].contains_key("txt"));
    // Where some lack what others have most of, what all have stands for the sample.
    fs::remove_file(bench.src().join("a/3.wav")).unwrap();
    fs::write(bench.src().join("a/0.txt"), "back").unwrap();
    let tar = tarred(&bench, "lacking.tar", &[]);
    convert(&tar, &bench.at("lacking"), &[]).code(0).says("1 of 6 samples without wav");
    assert_eq!(components(&bench.at("lacking"))["a/3.txt"].len(), 1);
    // Nothing but a label is no sample.
    let bench = groups(&["cls"]);
    convert(&tarred(&bench, "labels.tar", &[]), &bench.dst(), &[]).code(1).says("no image, there is cls");
    // An empty file is named.
    let bench = groups(&["flac"]);
    bench.file("a/0.flac", b"");
    let tar = tarred(&bench, "empty.tar", &[]);
    convert(&tar, &bench.dst(), &[]).code(1).says("empty flac");
    convert(&tar, &bench.dst(), &["--on-bad", "skip"]).code(0).says("5 of 6 samples");
}

#[test]
fn beside_samples_with_images_those_without_are_refused() {
    let bench = groups(&["flac"]);
    bench.file("b/picture.jpg", &support::photo());
    let tar = tarred(&bench, "mixed.tar", &[]);
    convert(&tar, &bench.dst(), &[]).code(1).says("no image, there is flac");
    run(&["verify", tar.to_str().unwrap()]).code(1).says("6 samples that hold no image");
    convert(&tar, &bench.dst(), &["--on-bad", "skip"]).code(0).says("1 of 7");
    // An image that is asked for is no other file.
    let bench = groups(&["flac"]);
    let tar = tarred(&bench, "all.tar", &[]);
    convert(&tar, &bench.dst(), &["--image-feature", "jpg"]).code(2).says("no jpg");
    // Two files of one extension are of no sample.
    let bench = groups(&["flac"]);
    bench.file("b/4.FLAC", b"which");
    convert(&tarred(&bench, "two.tar", &[]), &bench.dst(), &[]).code(1).says("two components flac");
}

#[test]
fn labels_are_those_that_all_have() {
    let bench = groups(&["flac", "cls"]);
    for number in 0..6 {
        bench.file(format!("{}/{number}.cls", ["a", "b", "c"][number % 3]), (number % 2).to_string().as_bytes());
    }
    let tar = tarred(&bench, "all.tar", &[]);
    convert(&tar, &bench.dst(), &["--format", "mds"]).code(0).says("6 samples in 2 classes");
    assert_eq!(one(&samples(&bench.dst()), "1/./b/1.flac").0, Some(1));
    fs::remove_file(bench.src().join("a/0.cls")).unwrap();
    let tar = tarred(&bench, "lacking.tar", &[]);
    let dst = bench.at("lacking");
    convert(&tar, &dst, &[]).code(0).says("field \"cls\" is a component, and no label, for 5 of 6 samples");
    let found = components(&dst);
    assert_eq!((&found["b/1.flac"]["cls.txt"][..], found["a/0.flac"].get("cls.txt")), (&b"1"[..], None));
    // Of a json only what all tell is a label.
    let bench = groups(&["flac", "json"]);
    bench.file("a/0.json", b"{\"label\": 3}");
    let tar = tarred(&bench, "json.tar", &[]);
    convert(&tar, &bench.dst(), &[]).code(0).says("1 of 6 samples tell a label").says("6 samples");
}
