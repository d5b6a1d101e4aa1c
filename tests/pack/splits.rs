//! Tests the record of splits: lost, added, swapped, renamed and doubled splits are detected. Each split stays a dataset of its own.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use shardpack_testing::{
    Bench, contents, folder_hash, run,
    shards::{self, convert, manifest, samples, sorted},
};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn tree() -> Bench {
    Bench::with(&[
        "train/cat/1.jpg",
        "train/cat/2.jpg",
        "train/dog/3.jpg",
        "val/cat/4.jpg",
        "val/dog/5.jpg",
        "test/dog/6.jpg",
    ])
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

fn schema() -> jsonschema::Validator {
    let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/splits.schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&text).unwrap();
    assert!(jsonschema::meta::is_valid(&schema), "the schema itself is not valid");
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn the_record_fits_its_schema_and_names_what_is_there() {
    let bench = tree();
    bench.pack(&["--format", "mds", "--format", "webdataset"]).code(0);
    for format in ["mds", "webdataset"] {
        let dst = bench.dst().join(format);
        let bytes = fs::read(dst.join("splits.json")).unwrap();
        let record: Value = serde_json::from_slice(&bytes).unwrap();
        let errors: Vec<_> = schema().iter_errors(&record).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        for split in record["splits"].as_array().unwrap() {
            let file = fs::read(dst.join(split["name"].as_str().unwrap()).join("manifest.json")).unwrap();
            let manifest: Value = serde_json::from_slice(&file).unwrap();
            assert_eq!(split["manifest"], blake3::hash(&file).to_hex().to_string());
            assert_eq!((&split["dataset"], &split["samples"]), (&manifest["id"], &manifest["samples"]));
        }
        run(&["verify", text(&dst)]).code(0).says("6 samples").says_not("note");
    }
    // The schema refuses the same records as the reader.
    let whole: Value = serde_json::from_slice(&fs::read(bench.dst().join("mds/splits.json")).unwrap()).unwrap();
    for (pointer, value) in [
        ("/schema", Value::from("shardpack-splits/2")),
        ("/splits", Value::Array(Vec::new())),
        ("/splits/0/name", Value::from("../x")),
        ("/splits/0/name", Value::from(".x")),
        ("/splits/0/manifest", Value::from("00")),
        ("/splits/0/samples", Value::from(-1)),
        ("/splits/0/extra", Value::from(1)),
        ("/files", Value::Array(Vec::new())),
        ("/files", serde_json::json!([{ "file": "../x", "bytes": 1, "blake3": "0".repeat(64) }])),
    ] {
        let mut record = whole.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        record.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(key.to_owned(), value);
        assert!(!schema().is_valid(&record), "{pointer}");
        assert!(shardpack_format::splits::Record::read(&serde_json::to_vec(&record).unwrap()).is_err(), "{pointer}");
    }
}

#[test]
fn the_record_names_the_files_beside_the_splits() {
    let bench = tree();
    bench.pack(&["--sidecars", "card,croissant"]).code(0);
    let record: Value = serde_json::from_slice(&fs::read(bench.dst().join("splits.json")).unwrap()).unwrap();
    assert!(schema().is_valid(&record), "{record}");
    let files: Vec<_> = record["files"].as_array().unwrap().iter().collect();
    assert_eq!(files.len(), 2);
    for (file, name) in files.into_iter().zip(["README.md", "croissant.json"]) {
        let bytes = fs::read(bench.dst().join(name)).unwrap();
        assert_eq!((&file["file"], &file["bytes"]), (&Value::from(name), &Value::from(bytes.len())));
        assert_eq!(file["blake3"], blake3::hash(&bytes).to_hex().to_string());
    }
}

#[test]
fn what_became_of_splits_is_told_by_every_command_in_the_same_words() {
    type Change = fn(&Path);
    let rows: [(&str, Change, &[&str]); 8] = [
        (
            "lost",
            |dst| fs::remove_dir_all(dst.join("val")).unwrap(),
            &["val: missing: splits.json names this split, of 2 samples"],
        ),
        (
            "all lost",
            |dst| ["train", "val", "test"].iter().for_each(|split| fs::remove_dir_all(dst.join(split)).unwrap()),
            &["val: missing", "train: missing", "test: missing"],
        ),
        (
            "renamed",
            |dst| fs::rename(dst.join("val"), dst.join("validation")).unwrap(),
            &["validation: is the split val"],
        ),
        ("doubled", |dst| copy(&dst.join("val"), &dst.join("val2")), &["val2: is the split val a second time"]),
        (
            "swapped",
            |dst| {
                fs::rename(dst.join("val"), dst.join("x")).unwrap();
                fs::rename(dst.join("train"), dst.join("val")).unwrap();
                fs::rename(dst.join("x"), dst.join("train")).unwrap();
            },
            &["train: holds the split val", "val: holds the split train"],
        ),
        (
            "exchanged for one of another pack",
            |dst| {
                let bench = Bench::with(&["train/cat/1.jpg", "val/dog/9.jpg"]);
                bench.pack(&[]).code(0);
                fs::remove_dir_all(dst.join("val")).unwrap();
                copy(&bench.dst().join("val"), &dst.join("val"));
            },
            &["val: is another dataset than the one that splits.json names"],
        ),
        (
            "added",
            |dst| {
                let bench = Bench::with(&["dev/cat/1.jpg"]);
                bench.pack(&[]).code(0);
                copy(&bench.dst().join("dev"), &dst.join("dev"));
            },
            &["dev: a stranger: splits.json names no such split"],
        ),
        (
            "the record damaged",
            |dst| {
                let mut bytes = fs::read(dst.join("splits.json")).unwrap();
                let at = bytes.windows(7).position(|window| window == b"samples").unwrap() + 10;
                bytes[at] ^= 1;
                fs::write(dst.join("splits.json"), bytes).unwrap();
            },
            &["splits.json: its id is not that of its content"],
        ),
    ];
    let packed = tree();
    packed.pack(&[]).code(0);
    for (row, change, says) in rows {
        let bench = Bench::new();
        copy(&packed.dst(), &bench.dst());
        change(&bench.dst());
        let dst = bench.dst();
        for options in [&["--quick"][..], &[]] {
            let args = [&["verify", text(&dst)], options].concat();
            let mut ran = run(&args).code(1);
            for says in says {
                // The message names the file and the position of a flipped byte.
                let (file, what) = says.split_once(": ").unwrap();
                ran = ran.says(file).says(what);
            }
            assert!(ran.stdout.contains("  help: ") && !ran.stdout.contains("--repair"), "{row}: {}", ran.stdout);
        }
        let report = run(&["verify", text(&dst), "--json"]).code(1).json();
        assert_eq!(report["problems"].as_array().unwrap().len(), says.len(), "{row}: {report}");
        let what = says[0].split_once(": ").unwrap().1;
        convert(&[&dst], &bench.at("converted"), &[]).code(1).clean_error().says(what);
        assert!(!bench.at("converted").exists(), "{row}");
        if !row.starts_with("all") {
            run(&["inspect", text(&dst)]).code(1).says(what);
        }
        run(&["verify", text(&packed.dst()), "--against", text(&dst)]).code(1).says(what);
    }
}

#[test]
fn each_split_is_a_dataset_of_its_own_wherever_it_is_moved() {
    let bench = tree();
    bench.pack(&[]).code(0);
    let (dst, away) = (bench.dst(), bench.at("elsewhere"));
    copy(&dst.join("val"), &away);
    for folder in [dst.join("val"), away] {
        run(&["verify", text(&folder)]).code(0).says("2 samples");
        run(&["verify", text(&folder), "--against", text(&bench.src().join("val"))]).code(0);
        run(&["inspect", text(&folder)]).code(0).says("2 samples");
        shardpack_reader::Dataset::open(&folder).unwrap();
    }
}

#[test]
fn a_split_renamed_on_purpose_is_written_under_its_new_name() {
    let bench = tree();
    bench.pack(&[]).code(0);
    let dst = bench.dst();
    fs::rename(dst.join("val"), dst.join("validation")).unwrap();
    run(&["verify", text(&dst)]).code(1).says("mv validation val puts it back").says("--split validation=FOLDER");
    // The second action of the help, then the first.
    let part = |split: &str| format!("{split}={}", text(&dst.join(split)));
    let (train, validation, test) = (part("train"), part("validation"), part("test"));
    let new = bench.at("new");
    run(&["convert", "--split", &train, "--split", &validation, "--split", &test, text(&new)]).code(0);
    run(&["verify", text(&new)]).code(0).says("6 samples");
    assert_eq!(manifest(&new.join("validation")).name, "validation");
    assert_eq!(sorted(samples(&new.join("validation"))), sorted(samples(&dst.join("validation"))));
    run(&["verify", text(&new), "--against", &train, "--against", &validation, "--against", &test]).code(0);
    fs::rename(dst.join("validation"), dst.join("val")).unwrap();
    run(&["verify", text(&dst)]).code(0);
    convert(&[&dst], &bench.at("back"), &[]).code(0);
    assert_eq!(contents(&bench.at("back")), contents(&dst));
}

#[test]
fn a_dataset_from_before_the_record_verifies_and_says_so() {
    let bench = tree();
    bench.pack(&[]).code(0);
    let (dst, whole) = (bench.dst(), folder_hash(&bench.dst()));
    fs::remove_file(dst.join("splits.json")).unwrap();
    run(&["verify", text(&dst)])
        .code(0)
        .says("note    splits.json: missing: whether a split is lost cannot be determined");
    let report = run(&["verify", text(&dst), "--json"]).code(0).json();
    assert_eq!((report["ok"].as_bool(), report["notes"].as_array().unwrap().len()), (Some(true), 1));
    convert(&[&dst], &bench.at("converted"), &["--format", "mds"]).code(0).says("splits train, val, test");
    run(&["verify", text(&dst), "--against", text(&bench.src())]).code(0);
    // Without the record, a missing split is not detected, but a renamed split is.
    fs::rename(dst.join("val"), dst.join("validation")).unwrap();
    let what = "is the split val by its manifest";
    run(&["verify", text(&dst)]).code(1).says("validation: ").says(what);
    convert(&[&dst], &bench.at("other"), &[]).code(1).clean_error().says(what);
    fs::rename(dst.join("validation"), dst.join("val")).unwrap();
    // The same command writes the record again.
    bench.pack(&[]).code(0).says("nothing to do");
    assert_eq!(folder_hash(&dst), whole);
    // Independent datasets side by side are not splits.
    let others = bench.at("others");
    for name in ["a", "b"] {
        bench.pack_to(&others.join(name), &["--splits", "none"]).code(0);
    }
    run(&["verify", text(&others)]).code(0).says_not("splits.json");
}

#[test]
fn a_pack_of_other_splits_is_another_dataset_and_force_replaces_all_of_them() {
    let bench = tree();
    bench.pack(&[]).code(0);
    bench.pack(&["--splits", "train,val"]).code(2).clean_error();
    bench.pack(&["--splits", "train,val", "--force"]).code(0);
    run(&["verify", text(&bench.dst())]).code(0).says("5 samples");
    assert!(!bench.dst().join("test").exists());
    bench.pack(&["--splits", "none", "--force"]).code(0);
    assert!(!bench.dst().join("splits.json").exists());
    run(&["verify", text(&bench.dst())]).code(0);
    bench.pack(&["--force"]).code(0);
    run(&["verify", text(&bench.dst())]).code(0).says("6 samples");
}

#[test]
fn splits_of_the_source_that_are_gone_or_new_are_found_by_a_comparison() {
    let bench = tree();
    bench.pack(&[]).code(0);
    let against = |source: &Path| run(&["verify", text(&bench.dst()), "--against", text(source)]);
    against(&bench.src()).code(0);
    bench.file("dev/cat/9.jpg", &shardpack_testing::jpeg(9, 5000));
    against(&bench.src()).code(1).says("dev: this split of the source is not here; it has 1 image");
    fs::remove_dir_all(bench.src().join("dev")).unwrap();
    fs::remove_dir_all(bench.src().join("val")).unwrap();
    against(&bench.src()).code(1).says("val/manifest.json: this split is not in the source");
    // Splits of a list, and of a sealed dataset.
    let list = Bench::with(&["1.jpg", "2.jpg", "3.jpg"]);
    let write = |rows: &[&str]| {
        fs::write(list.src().join("x.csv"), format!("path,label,split\n{}\n", rows.join("\n"))).unwrap()
    };
    let source = list.src().join("x.csv");
    write(&["1.jpg,a,train", "2.jpg,b,val"]);
    run(&["pack", text(&source), text(&list.dst())]).code(0);
    let against = |source: &Path| run(&["verify", text(&list.dst()), "--against", text(source)]);
    against(&source).code(0);
    list.pack_to(&list.at("x"), &[]).code(2);
    run(&["pack", text(&source), text(&list.at("same"))]).code(0);
    against(&list.at("same")).code(0);
    write(&["1.jpg,a,train", "2.jpg,b,val", "3.jpg,a,test"]);
    against(&source).code(1).says("test: this split of the source is not here");
    run(&["pack", text(&source), text(&list.at("more"))]).code(0);
    against(&list.at("more")).code(1).says("test: this split of the source is not here");
    write(&["1.jpg,a,train", "3.jpg,b,train"]);
    against(&source).code(1).says("val/manifest.json: this split is not in the source");
}

#[test]
fn datasets_are_taken_together_by_the_names_of_their_classes() {
    let (a, b) = (Bench::with(&["cat/1.jpg", "dog/2.jpg"]), Bench::with(&["ant/1.jpg", "cat/3.jpg", "cat/1.jpg"]));
    // Other bytes than in `a`, under the same name.
    b.file("cat/1.jpg", &shardpack_testing::jpeg(77, 5300));
    a.pack(&[]).code(0);
    b.pack(&["--format", "mds"]).code(0);
    let both = a.at("both");
    convert(&[&a.dst(), &b.dst()], &both, &[]).code(0).says("found   5 images in 3 classes");
    let dataset = shardpack_testing::Dataset::read(&both);
    assert_eq!(dataset.classes(), ["ant", "cat", "dog"]);
    let mut paths = dataset.paths();
    paths.sort();
    // A path that both datasets have gets the name of its dataset.
    assert_eq!(
        paths,
        ["ant/1.jpg", "cat/dst-2/1.jpg", "cat/dst/1.jpg", "cat/3.jpg", "dog/2.jpg"]
            .map(str::to_owned)
            .into_iter()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    let mut images: Vec<_> = samples(&a.dst()).into_iter().chain(samples(&b.dst())).map(|(_, bytes)| bytes).collect();
    let mut merged: Vec<_> = dataset.samples.iter().map(|sample| sample.image().to_vec()).collect();
    images.sort();
    merged.sort();
    assert_eq!(images, merged);
    for sample in &dataset.samples {
        assert!(sample.path.starts_with(dataset.classes()[sample.label as usize].as_bytes()));
    }
    run(&["verify", text(&both), "--against", text(&a.dst()), "--against", text(&b.dst())]).code(0);
    run(&["verify", text(&both), "--against", text(&a.dst())]).code(1).says("not in the source");
    convert(&[&a.dst(), &b.dst()], &both, &[]).code(0).says("nothing to do");
    convert(&[&a.dst(), &a.dst()], &a.at("twice"), &[]).code(2).clean_error().says("is given twice");
}

#[test]
fn splits_given_one_by_one_are_splits_and_those_of_one_name_are_one() {
    let bench = tree();
    bench.pack(&[]).code(0);
    let dst = bench.dst();
    let split = |name: &str| dst.join(name);
    convert(&[&split("train"), &split("val"), &split("test")], &bench.at("same"), &[]).code(0);
    assert_eq!(contents(&bench.at("same")), contents(&dst));
    convert(&[&split("train"), &split("val")], &bench.at("one"), &["--splits", "none"]).code(0);
    assert_eq!(manifest(&bench.at("one")).samples, 5);
    assert_eq!(shardpack_testing::Dataset::read(&bench.at("one")).classes(), ["cat", "dog"]);
    // Two datasets of splits: train joins train, val joins val.
    let other = Bench::with(&["train/emu/1.jpg", "val/cat/2.jpg"]);
    other.pack(&[]).code(0);
    let both = bench.at("both");
    convert(&[&dst, &other.dst()], &both, &[]).code(0).says("splits train, val, test");
    let counts = ["train", "val", "test"].map(|split| manifest(&both.join(split)).samples);
    assert_eq!(counts, [4, 3, 1]);
    for split in ["train", "val", "test"] {
        assert_eq!(shardpack_testing::Dataset::read(&both.join(split)).classes(), ["cat", "dog", "emu"]);
    }
    run(&["verify", text(&both), "--against", text(&dst), "--against", text(&other.dst())]).code(0);
    let whole = Bench::with(&["cat/1.jpg"]);
    whole.pack(&[]).code(0);
    convert(&[&dst, &whole.dst()], &bench.at("mixed"), &[]).code(2).clean_error().says("--splits none");
    convert(&[&dst, &whole.dst()], &bench.at("mixed"), &["--splits", "none"]).code(0);
    assert_eq!(manifest(&bench.at("mixed")).samples, 7);
}

#[test]
fn datasets_whose_classes_cannot_be_one_list_are_refused() {
    let named = Bench::with(&["cat/1.jpg", "dog/2.jpg"]);
    named.pack(&[]).code(0);
    let numbered = Bench::with(&["1.jpg", "2.jpg"]);
    fs::write(numbered.at("src/x.csv"), "path,label\n1.jpg,1\n2.jpg,0\n").unwrap();
    run(&["pack", text(&numbered.at("src/x.csv")), text(&numbered.dst())]).code(0);
    let without = Bench::with(&["1.jpg"]);
    without.pack(&["--no-labels"]).code(0);
    let dst = named.at("both");
    let refused = convert(&[&named.dst(), &numbered.dst()], &dst, &[]).code(2).clean_error();
    refused.says("numbers its classes").says("--class-map");
    // The advice of the help works.
    fs::write(named.at("map"), "0 dog\n1 cat\n").unwrap();
    convert(&[&numbered.dst()], &named.at("renamed"), &["--class-map", text(&named.at("map"))]).code(0);
    convert(&[&named.dst(), &named.at("renamed")], &dst, &[]).code(0);
    assert_eq!(shardpack_testing::Dataset::read(&dst).classes(), ["cat", "dog"]);
    fs::remove_dir_all(&dst).unwrap();
    convert(&[&named.dst(), &without.dst()], &dst, &[]).code(2).clean_error().says("has labels and");
    // Together with foreign shards, which store their classes differently.
    let foreign = named.at("foreign");
    named.pack_to(&foreign, &[]).code(0);
    shards::make_foreign(&foreign);
    convert(&[&named.dst(), &foreign], &dst, &[]).code(2).clean_error().says("is a sealed dataset, but");
    assert!(!dst.exists());
}

#[test]
fn a_split_may_be_called_as_what_lies_in_the_work_folder_and_not_as_the_folder_of_indexes() {
    let bench = tree();
    let (dst, val) = (bench.dst(), format!("val={}", text(&bench.src().join("val"))));
    let pack = |name: &str, options: &[&str]| {
        let train = format!("{name}={}", text(&bench.src().join("train")));
        run(&[&["pack", "--split", &train, "--split", &val, text(&dst)][..], options].concat())
    };
    for name in ["plan", "lock", "spool", "replaced", "discarded", "splits", "unpacked"] {
        pack(name, &[]).code(0);
        let before = contents(&dst);
        // Refused after the work folder was taken, then replaced, then resumed.
        pack(name, &["--seed", "1"]).code(2);
        assert_eq!(contents(&dst), before, "{name}");
        pack(name, &["--seed", "1", "--force", "--resize", "8"]).code(0);
        run(&["verify", text(&dst)]).code(0).says("5 samples");
        fs::remove_dir_all(&dst).unwrap();
    }
    pack("index", &[]).code(2).clean_error().says("DST/index is where indexes are");
    assert!(!dst.exists());
    fs::rename(bench.src().join("test"), bench.src().join("index")).unwrap();
    bench.pack(&["--splits", "train,index"]).code(2).clean_error().says("DST/index is where indexes are");
    assert!(!dst.exists());
}
