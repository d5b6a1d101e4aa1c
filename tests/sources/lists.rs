//! Packs lists: CSV, JSONL, Parquet, lines of text and COCO.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use parquet::{
    data_type::{ByteArray, ByteArrayType, FloatType, Int64Type},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, binary, contents, jpeg,
    lists::{list, mend, one, pack, samples, text, verify},
    photos, run,
};

const CSV: &str = "File,Label,score,caption,id\n\
    a/1.jpg,dog,0.50,\"say \"\"hi\"\", é\",007\n\
    b/2.jpg,cat,1e-7,\"two\nlines\",-0\n\
    ./b/../b/3.jpg,dog,,x,12345678901234567890\n";

fn bench() -> Bench {
    Bench::with(&["a/1.jpg", "b/2.jpg", "b/3.jpg"])
}

fn tree() -> Bench {
    Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg"])
}

#[test]
fn a_csv_is_packed_by_its_columns_and_the_others_become_json() {
    let bench = bench();
    let list = list(&bench, "list.csv", CSV);
    pack(&list, &bench.dst(), &[])
        .code(0)
        .says("columns: path File; label Label; in a component json: score, caption, id");
    let samples = samples(&bench.dst());
    let first = one(&samples, "a/1.jpg");
    assert_eq!((first.0, first.1.as_deref()), (Some(1), Some("dog")));
    assert_eq!(first.2["jpg"], fs::read(bench.src().join("a/1.jpg")).unwrap());
    assert_eq!(first.2["cls"], b"1");
    assert_eq!(text(first, "json").unwrap(), r#"{"score":0.50,"caption":"say \"hi\", é","id":"007"}"#);
    let second = one(&samples, "b/2.jpg");
    assert_eq!(text(second, "json").unwrap(), r#"{"score":1e-7,"caption":"two\nlines","id":-0}"#);
    let third = one(&samples, "b/3.jpg");
    assert_eq!(text(third, "json").unwrap(), r#"{"score":"","caption":"x","id":12345678901234567890}"#);
    verify(&bench.dst(), &list, &[]);
    // Another kind of list gives the same samples, and so does every format that can hold them.
    let jsonl = CSV_AS_JSONL.to_owned();
    let jsonl = self::list(&bench, "list.jsonl", &jsonl);
    let array = self::list(&bench, "list.json", &format!("[\n{}]", CSV_AS_JSONL.trim_end().replace("}\n", "},\n")));
    for (name, source) in [("jsonl", jsonl), ("array", array)] {
        pack(&source, &bench.at(name), &["--quiet"]).code(0);
        assert_eq!(self::samples(&bench.at(name)), samples, "{name}");
        verify(&bench.at(name), &source, &[]);
    }
    for format in ["tfrecord", "mds"] {
        let dst = bench.at(format);
        pack(&list, &dst, &["--quiet", "--format", format]).code(0);
        let found = self::samples(&dst);
        for (path, expected) in &samples {
            let (found, expected) = (one(&found, path), &expected[0]);
            assert_eq!((found.0, found.2.get("json")), (expected.0, expected.2.get("json")), "{format} {path}");
        }
        verify(&dst, &list, &[]);
        // A conversion keeps the text.
        let back = bench.at(&format!("{format}-back"));
        run(&["convert", "--quiet", dst.to_str().unwrap(), back.to_str().unwrap()]).code(0);
        let back = self::samples(&back);
        samples.keys().for_each(|path| assert_eq!(one(&back, path), one(&samples, path), "{format}"));
    }
    pack(&list, &bench.at("rec"), &["--format", "recordio"])
        .code(2)
        .clean_error()
        .says("no place for json")
        .says("--format webdataset, tfrecord, mds, or --meta none");
    pack(&list, &bench.at("rec"), &["--quiet", "--format", "recordio", "--meta", "none"]).code(0);
    verify(&bench.at("rec"), &list, &[]);
}

const CSV_AS_JSONL: &str = "\
    {\"File\": \"a/1.jpg\", \"Label\": \"dog\", \"score\": 0.50, \"caption\": \"say \\\"hi\\\", é\", \"id\": \"007\"}\n\
    {\"score\": 1e-7, \"File\": \"b/2.jpg\", \"caption\": \"two\\nlines\", \"Label\": \"cat\", \"id\": -0}\n\
    {\"score\": \"\", \"File\": \"b/3.jpg\", \"Label\": \"dog\", \"caption\": \"x\", \"id\": 12345678901234567890}\n";

#[test]
fn with_meta_json_class_label_and_path_come_first() {
    let bench = bench();
    let list = list(&bench, "list.csv", CSV);
    pack(&list, &bench.dst(), &["--quiet", "--meta", "json"]).code(0);
    let json = text(one(&samples(&bench.dst()), "b/2.jpg"), "json").unwrap();
    assert_eq!(json, r#"{"class":"cat","label":0,"path":"b/2.jpg","score":1e-7,"caption":"two\nlines","id":-0}"#);
    verify(&bench.dst(), &list, &[]);
    let clash = self::list(&bench, "clash.csv", "file,path\na/1.jpg,x\n");
    pack(&clash, &bench.at("clash"), &["--path-column", "file", "--meta", "json"])
        .code(2)
        .clean_error()
        .says("line 2: column \"path\"");
}

#[test]
fn labels_that_are_numbers_stay_and_names_are_taken_from_a_column_of_classes() {
    let bench = bench();
    let list =
        list(&bench, "list.tsv", "path\tlabel\tclass_name\na/1.jpg\t3\tcat\nb/2.jpg\t1.0\tdog\nb/3.jpg\t\tdog\n");
    pack(&list, &bench.dst(), &[]).code(1).says("b/3.jpg: no label");
    pack(&list, &bench.dst(), &["--on-bad", "skip"]).code(0).says("2 of 3 images");
    let samples = samples(&bench.dst());
    assert_eq!((one(&samples, "a/1.jpg").0, one(&samples, "a/1.jpg").1.as_deref()), (Some(3), Some("cat")));
    assert_eq!((one(&samples, "b/2.jpg").0, one(&samples, "b/2.jpg").1.as_deref()), (Some(1), Some("dog")));
    verify(&bench.dst(), &list, &[]);
}

#[test]
fn lines_of_text_are_path_and_label_as_in_val_txt() {
    let bench = Bench::with(&["x y.jpg", "2.jpg"]);
    let with = list(&bench, "val.txt", "x y.jpg 5\r\n\n2.jpg\t 7\n");
    // A tab in the first line would make the file a table.
    pack(&with, &bench.dst(), &["--quiet"]).code(0);
    let found = samples(&bench.dst());
    assert_eq!((one(&found, "x y.jpg").0, one(&found, "2.jpg").0), (Some(5), Some(7)));
    assert_eq!(one(&found, "2.jpg").2.keys().collect::<Vec<_>>(), ["cls", "jpg"]);
    let without = list(&bench, "paths.lst", "x y.jpg\n2.jpg\n");
    pack(&without, &bench.at("paths"), &["--quiet"]).code(0);
    assert_eq!(one(&samples(&bench.at("paths")), "x y.jpg").0, None);
    verify(&bench.at("paths"), &without, &[]);
    // As im2rec of MXNet writes it: number, label, path.
    let lst = list(&bench, "im2rec.lst", "0\t1.000000\tx y.jpg\n1\t0.000000\t2.jpg\n");
    pack(&lst, &bench.at("lst"), &["--quiet", "--meta", "none"]).code(0);
    assert_eq!(one(&samples(&bench.at("lst")), "x y.jpg").0, Some(1));
}

#[test]
fn a_list_without_a_line_of_names_is_known_by_its_first_file() {
    let bench = bench();
    let list = list(&bench, "list.csv", "7;a/1.jpg;dog\n8;b/2.jpg;cat\n");
    pack(&list, &bench.dst(), &["--quiet"]).code(0);
    let found = samples(&bench.dst());
    assert_eq!(one(&found, "a/1.jpg").1.as_deref(), Some("dog"));
    assert_eq!(text(one(&found, "a/1.jpg"), "json").unwrap(), r#"{"column_1":7}"#);
    let odd = self::list(&bench, "odd.csv", "what,is it\na/1.jpg,dog\n");
    pack(&odd, &bench.at("odd"), &["--quiet", "--label-column", "is it"]).code(0);
    assert_eq!(one(&samples(&bench.at("odd")), "a/1.jpg").1.as_deref(), Some("dog"));
}

#[test]
fn a_parquet_file_of_paths_is_a_list() {
    let bench = bench();
    let path = bench.src().join("list.parquet");
    let schema = "message m { required binary file_name (UTF8); optional int64 label; required float score; \
                  optional group box (LIST) { repeated group list { optional float element; } } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(fs::File::create(&path).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let names = ["a/1.jpg", "b/2.jpg", "b/3.jpg"].map(ByteArray::from);
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&names, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[2, 0, 2], Some(&[1, 1, 1]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<FloatType>().write_batch(&[0.1, 2.0, -1e-7], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let values = [0.5, 1.5];
    column.typed::<FloatType>().write_batch(&values, Some(&[3, 3, 0, 1]), Some(&[0, 1, 0, 0])).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    pack(&path, &bench.dst(), &["--quiet"]).code(0);
    let found = samples(&bench.dst());
    assert_eq!(one(&found, "a/1.jpg").0, Some(2));
    assert_eq!(text(one(&found, "a/1.jpg"), "json").unwrap(), r#"{"score":0.1,"box":[0.5,1.5]}"#);
    assert!(text(one(&found, "b/3.jpg"), "json").unwrap().starts_with(r#"{"score":-1e-7"#));
    verify(&bench.dst(), &path, &[]);
}

#[test]
fn a_column_of_splits_makes_datasets_with_one_list_of_classes() {
    let bench = bench();
    let list = list(&bench, "list.csv", "split,path,label\nval,a/1.jpg,dog\ntrain,b/2.jpg,cat\ntrain,b/3.jpg,dog\n");
    pack(&list, &bench.dst(), &[]).code(0).says("splits train, val");
    let (train, val) = (samples(&bench.dst().join("train")), samples(&bench.dst().join("val")));
    assert_eq!((train.len(), val.len(), one(&val, "a/1.jpg").0), (2, 1, Some(1)));
    verify(&bench.dst(), &list, &[]);
    pack(&list, &bench.at("one"), &["--quiet", "--splits", "none"]).code(0);
    assert_eq!(text(one(&samples(&bench.at("one")), "a/1.jpg"), "json").unwrap(), r#"{"split":"val"}"#);
    verify(&bench.at("one"), &list, &[]);
    pack(&list, &bench.at("val"), &["--splits", "val"]).code(0).says("2 split train");
    let json = pack(&list, &bench.at("val"), &["--splits", "val", "--force", "--json"]).code(0).json();
    assert_eq!(json["ignored_files"]["split train"], 2);
    assert_eq!(json["unpacked"].as_array().map(Vec::len), Some(0));
    assert!(!bench.at("val/val/ledger.jsonl").exists());
    // A column `split` with other values is an ordinary column.
    let other = self::list(&bench, "other.csv", "split,path,fold\n1,a/1.jpg,x\n2,b/2.jpg,y\n");
    pack(&other, &bench.at("other"), &["--quiet"]).code(0);
    assert_eq!(text(one(&samples(&bench.at("other")), "a/1.jpg"), "json").unwrap(), r#"{"split":1,"fold":"x"}"#);
    pack(&other, &bench.at("folds"), &["--quiet", "--split-column", "fold"]).code(0);
    assert!(bench.at("folds/x/manifest.json").exists() && bench.at("folds/y/manifest.json").exists());
}

#[test]
fn one_file_may_be_in_a_list_more_than_once() {
    let bench = bench();
    let text_of = "file,caption\na/1.jpg,one\na/1.jpg,two\nb/2.jpg,x\nb/2.jpg,x\n";
    let list = list(&bench, "captions.csv", text_of);
    pack(&list, &bench.dst(), &["--shards", "1"]).code(0).says("packed  3 of 4 images").says("1 not packed");
    let ledger = fs::read_to_string(bench.dst().join("ledger.jsonl")).unwrap();
    let line = r#"{"path":"b/2.jpg","fate":"duplicate","reason":"line 5 says the same as line 4"}"#;
    assert_eq!(ledger.trim_end(), line);
    let found = samples(&bench.dst());
    let texts: Vec<_> = found["a/1.jpg"].iter().map(|sample| text(sample, "json").unwrap()).collect();
    assert_eq!(texts, [r#"{"caption":"one"}"#, r#"{"caption":"two"}"#]);
    assert_eq!(found["b/2.jpg"].len(), 1);
    verify(&bench.dst(), &list, &[]);
    mend(&bench.dst(), &list);
    let two = self::list(&bench, "two.csv", "file,label\na/1.jpg,cat\na/1.jpg,dog\n");
    pack(&two, &bench.at("two"), &["--quiet"]).code(0);
    let labels: Vec<_> = samples(&bench.at("two"))["a/1.jpg"].iter().map(|sample| sample.0.unwrap()).collect();
    assert_eq!(labels, [0, 1]);
    verify(&bench.at("two"), &two, &[]);
}

#[test]
fn what_cannot_be_packed_is_in_the_ledger_and_what_is_wrong_names_its_line() {
    let bench = bench();
    bench.file("empty.jpg", b"");
    let bad = list(&bench, "bad.csv", "path,label\na/1.jpg,x\ngone.jpg,x\nempty.jpg,y\na,y\n");
    pack(&bad, &bench.dst(), &[]).code(1).says("gone.jpg: cannot be read: No such file");
    pack(&bad, &bench.dst(), &["--on-bad", "skip"]).code(0).says("1 of 4 images");
    let ledger = fs::read_to_string(bench.dst().join("ledger.jsonl")).unwrap();
    for reason in ["No such file", "empty file", "not a regular file"] {
        assert!(ledger.contains(reason), "{ledger}");
    }
    run(&["verify", bench.dst().to_str().unwrap(), "--quiet"]).code(0);
    let rows = [
        ("out.csv", "path\na/1.jpg\n../secret.jpg\n", "line 3: path \"../secret.jpg\" leads out of"),
        ("abs.csv", "path\na/1.jpg\n/etc/passwd\n", "line 3: path \"/etc/passwd\" leads out of"),
        ("few.csv", "path,label\na/1.jpg,x\nb/2.jpg\n", "line 3: 1 fields, the first line has 2"),
        ("open.csv", "path,label\na/1.jpg,\"x\n", "line 2: a quote is not closed"),
        ("none.csv", "x,y\n1,2\n", "no column of paths: it has x, y"),
        ("empty.csv", "", "an empty list"),
        ("keras.txt", "a/1.jpg 1,2,3,4,0\nb/2.jpg 5,6,7,8,1\n", "the words behind a path are boxes, and no label"),
        ("keras2.txt", "a/1.jpg 1,2,3,4,0 1,2,3,4,1\nb/2.jpg 5,6,7,8,1 1,2,3,4,1\n", "are boxes, and no label"),
        ("boxes.csv", "a/1.jpg,5,5,60,70,1\n", "no header, and 5 numbers beside the path in column 1"),
        (
            "boxes.txt",
            "a/1.jpg 1 2 300 200.5\nb/2.jpg 1 2 3 4\n",
            "no header, and 4 numbers beside the path in column 1",
        ),
        ("bad.jsonl", "{\"path\": \"a/1.jpg\"}\n{\"path\": 7}\n", "line 2: no path"),
        ("twice.jsonl", "{\"path\": \"a/1.jpg\", \"x\": 1, \"x\": 2}\n", "line 1: member \"x\" stands twice"),
        ("cut.jsonl", "{\"path\": \"a/1.jpg\"", "line 1: not an object"),
        (
            "coco.json",
            "{\"images\": [{\"id\": 1, \"file_name\": \"a/1.jpg\"}, {\"id\": 1, \"file_name\": \"b\"}]}",
            "two images",
        ),
        ("not.json", "{\"file_name\": \"a/1.jpg\"}", "neither a list of objects nor COCO"),
    ];
    for (name, text, said) in rows {
        let list = list(&bench, name, text);
        let ran = pack(&list, &bench.at(name), &[]);
        assert!(ran.code > 0, "{name}");
        ran.clean_error().says(said).says(name);
    }
    // Of several classes, the option gives the reason.
    let several = list(&bench, "several.csv", "a/1.jpg;0,1,0,1\nb/2.jpg;1,0,0,1\n");
    pack(&several, &bench.at("several"), &["--multi-label", "column_2"]).code(2).says("is no list");
    // A word behind the path is the label, whatever numbers follow.
    let words = list(&bench, "words.csv", "a/1.jpg,cat,1,2,3,4\nb/2.jpg,dog,1,2,3,4\n");
    pack(&words, &bench.at("words"), &[]).code(0).says("2 images in 2 classes");
    let list = list(&bench, "abs.csv", &format!("path\n{}\n", bench.src().join("a/1.jpg").display()));
    pack(&list, &bench.at("abs"), &["--quiet"]).code(0);
    pack(&list, &bench.at("root"), &["--quiet", "--root", "/"]).code(0);
    verify(&bench.at("root"), &list, &["--root", "/"]);
    pack(&list, &bench.at("column"), &["--path-column", "x"]).code(2).clean_error().says("it has path");
    pack(&bench.src(), &bench.at("tree"), &["--path-column", "x"]).code(2).clean_error().says("are for lists");
    pack(&bench.src().join("a/1.jpg"), &bench.at("image"), &[]).code(2).clean_error().says("a list ends in .csv");
}

fn coco() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/coco/annotations/instances_photos.json")
}

#[test]
fn coco_becomes_images_and_their_annotations_to_the_letter() {
    let (bench, root) = (Bench::new(), photos());
    let root = ["--root", root.to_str().unwrap()];
    pack(&coco(), &bench.dst(), &[&root[..], &["--quiet"]].concat()).code(0);
    let samples = samples(&bench.dst());
    assert_eq!(samples.len(), 32);
    let file = fs::read_to_string(coco()).unwrap();
    let (mut boxes, mut spelled) = (0, 0);
    for (path, sample) in &samples {
        let [sample] = sample.as_slice() else { panic!("{path}") };
        assert_eq!(sample.2["jpg"], fs::read(photos().join(path)).unwrap());
        assert_eq!((sample.0, sample.2.keys().map(String::as_str).collect::<Vec<_>>()), (None, vec!["jpg", "json"]));
        let text = text(sample, "json").unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["image"]["file_name"], path.as_str());
        let annotations = json["annotations"].as_array().unwrap();
        boxes += annotations.len();
        let named: Vec<_> = json["categories"].as_array().into_iter().flatten().map(|c| &c["id"]).collect();
        for annotation in annotations {
            assert_eq!(annotation["image_id"], json["image"]["id"]);
            assert!(named.contains(&&annotation["category_id"]), "{text}");
            // The text has the line of the file unchanged, without its blanks.
            let id = format!("\"id\": {}}}", annotation["id"]);
            let line =
                file.lines().find(|line| line.contains("segmentation") && line.trim_end_matches(',').ends_with(&id));
            let line = line.unwrap().trim_end_matches(',').replace(' ', "");
            assert!(text.contains(&line), "{line}\n{text}");
            spelled += ["0.1", "1e-7", "12.345678901234567890", "2E+2"].iter().filter(|n| line.contains(**n)).count();
        }
    }
    assert!(boxes == 48 && spelled > 30, "{boxes} {spelled}");
    verify(&bench.dst(), &coco(), &root);
    // shardpack finds the images in their usual folder.
    let tree = bench.at("coco");
    fs::create_dir_all(tree.join("annotations")).unwrap();
    fs::copy(coco(), tree.join("annotations/instances_photos.json")).unwrap();
    std::os::unix::fs::symlink(photos(), tree.join("photos")).unwrap();
    let list = tree.join("annotations/instances_photos.json");
    pack(&list, &bench.at("found"), &["--quiet"]).code(0);
    assert_eq!(contents(&bench.at("found")), contents(&bench.dst()));
    fs::remove_file(tree.join("photos")).unwrap();
    pack(&list, &bench.at("lost"), &[]).code(2).clean_error().says("--root FOLDER");
}

#[test]
fn a_list_gives_the_same_bytes_with_any_number_of_threads_and_from_its_plan() {
    let (bench, root) = (Bench::new(), photos());
    let options = ["--root", root.to_str().unwrap(), "--shards", "3"];
    let hashes: Vec<_> = [("1", "plan"), ("2", "plan"), ("2", "physical")]
        .into_iter()
        .map(|(jobs, order)| {
            let dst = bench.at(&format!("{jobs}-{order}"));
            pack(&coco(), &dst, &[&options[..], &["--quiet", "--jobs", jobs, "--read-order", order]].concat()).code(0);
            contents(&dst)
        })
        .collect();
    assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]));
    let plan = bench.at("coco.plan");
    let plan = plan.to_str().unwrap();
    let coco = coco();
    run(&[&["plan", coco.to_str().unwrap(), "dst", "--quiet", "-o", plan], &options[..]].concat()).code(0);
    run(&["pack", "--quiet", "--plan", plan, bench.dst().to_str().unwrap()]).code(0);
    assert_eq!(contents(&bench.dst()), hashes[0]);
    // In the order of the list.
    let order = [&options[..], &["--quiet", "--order", "source"]].concat();
    pack(&coco, &bench.at("lines"), &order).code(0);
    let dataset = Dataset::open(bench.at("lines")).unwrap();
    let ids: Vec<i64> = (0..dataset.len())
        .map(|number| {
            let sample = dataset.sample(number).unwrap();
            let json: serde_json::Value = serde_json::from_slice(sample.component("json").unwrap()).unwrap();
            json["image"]["id"].as_i64().unwrap()
        })
        .collect();
    assert_eq!(ids, (969..=1000).rev().collect::<Vec<_>>());
}

#[test]
fn a_pack_of_a_list_that_was_killed_goes_on_to_the_same_bytes() {
    let bench = Bench::with_source(600, 8000);
    let mut rows = "path,note\n".to_owned();
    for path in contents(&bench.src()).into_iter().filter(|(_, hash)| !hash.is_empty()).map(|(path, _)| path) {
        rows += &format!("{},note of {}\n", path.display(), path.display());
    }
    let list = list(&bench, "list.csv", &rows);
    let options = ["--quiet", "--shards", "12", "--jobs", "1"];
    pack(&list, &bench.at("whole"), &options).code(0);
    let mut resumed = 0;
    for finished in [0, 1, 3, 6, 9] {
        let dst = bench.at(&format!("cut-{finished}"));
        let mut command = Command::new(binary());
        command.arg("pack").arg(&list).arg(&dst).args(options).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // Killed once it has finished this number of shards.
        let indexes = || fs::read_dir(dst.join("index")).map_or(0, Iterator::count);
        let has_plan = || dst.join(".shardpack/plan").exists();
        while !(has_plan() && indexes() >= finished) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        resumed += usize::from(has_plan());
        pack(&list, &dst, &options).code(0);
        assert_eq!(contents(&dst), contents(&bench.at("whole")));
    }
    assert!(resumed > 0, "no kill came in time");
    // A changed text makes another plan.
    let dst = bench.at("changed");
    fs::create_dir_all(dst.join(".shardpack")).unwrap();
    let plan = bench.at("plan");
    run(&["plan", list.to_str().unwrap(), "dst", "--quiet", "--shards", "12", "-o", plan.to_str().unwrap()]).code(0);
    fs::copy(&plan, dst.join(".shardpack/plan")).unwrap();
    fs::write(&list, rows.replacen("note of", "NOTE of", 1)).unwrap();
    let options = ["--shards", "12", "--jobs", "1"];
    pack(&list, &dst, &options).code(0).says("was changed since then, and no shard was finished");
}

#[test]
fn python_reads_what_was_packed_of_a_list() {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    // Compares the rows that Python's csv reads with the members that its tarfile and json find.
    let script = "
import csv, glob, json, sys, tarfile
rows = {r['file']: r for r in csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8'))}
found = {}
for path in glob.glob(sys.argv[2] + '/*.tar'):
    with tarfile.open(path) as tar:
        for member in tar:
            key, name = member.name.split('.', 1)
            found.setdefault(key, {})[name] = tar.extractfile(member).read()
assert len(found) == len(rows), (len(found), len(rows))
for sample in found.values():
    said = json.loads(sample['json'])
    row = rows[said['path']]
    assert said['class'] == row['label'] and said['a,\"b'] == row['a,\"b'], (said, row)
    assert said['n'] == float(row['n']), (said, row)
print(len(found))
";
    let bench = Bench::new();
    let mut rng = shardpack_testing::Rng::new(5);
    let mut rows = "file;label;\"a,\"\"b\";n\r\n".to_owned();
    for number in 0..60 {
        bench.file(format!("{number}.jpg"), &jpeg(number, 5000));
        let letters = ["x", "\"\"", ";", "\n", "\r\n", "é", " ", ",", "\t"];
        let field: String = (0..rng.below(6)).map(|_| letters[rng.below(9) as usize]).collect();
        rows += &format!("{number}.jpg;c{};\"x{field}\";{}.50\r\n", rng.below(3), rng.below(100));
    }
    let list = list(&bench, "list.csv", &rows);
    pack(&list, &bench.dst(), &["--quiet", "--meta", "json"]).code(0);
    let script = script.replace("newline='', encoding='utf-8')", "newline='', encoding='utf-8'), delimiter=';'");
    let out = Command::new(python).args(["-c", &script]).arg(&list).arg(bench.dst()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "60", "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn labels_that_are_no_classes_go_along_in_the_text_and_that_is_said() {
    let bench = tree();
    let rows: [(&str, &str, &[&str], &str); 7] = [
        ("pairs.txt", "a/1.jpg a/2.jpg\nb/3.jpg a/2.jpg\n", &["--file-column", "none"], r#"{"label":"a/2.jpg"}"#),
        ("spelled.csv", "path,label\na/1.jpg,\"[0, 2]\"\na/2.jpg,[1]\n", &[], r#"{"label":"[0, 2]"}"#),
        ("spelled.txt", "a/1.jpg ['cat']\na/2.jpg ['cat','dog']\n", &[], r#"{"label":"['cat']"}"#),
        ("labels.csv", "path,label\na/1.jpg,0.5\na/2.jpg,\nb/3.jpg,2\n", &[], r#"{"label":0.5}"#),
        ("lines.txt", "a/1.jpg 0.5\na/2.jpg 0.25\nb/3.jpg 1\n", &[], r#"{"label":0.5}"#),
        (
            "tags.jsonl",
            "{\"path\":\"a/1.jpg\",\"label\":[0, 2]}\n{\"path\":\"a/2.jpg\",\"label\":[1]}\n{\"path\":\"b/3.jpg\",\"label\":null}\n",
            &[],
            r#"{"label":[0,2]}"#,
        ),
        (
            "objects.json",
            r#"[{"path":"a/1.jpg","label":{"x": 1.50}},{"path":"a/2.jpg","label":{}}]"#,
            &[],
            r#"{"label":{"x":1.50}}"#,
        ),
    ];
    for (name, content, options, expected) in rows {
        let path = list(&bench, name, content);
        for (number, more) in [&[][..], &["--no-labels"]].into_iter().enumerate() {
            let dst = bench.at(&format!("{name}-{number}"));
            let ran = pack(&path, &dst, &[options, more].concat()).code(0);
            let packed = samples(&dst);
            if number == 0 && expected == r#"{"label":0.5}"# {
                ran.says("and no classes: they are packed as an array");
                assert!(one(&packed, "a/1.jpg").2["labels.npy"].ends_with(&0.5f64.to_le_bytes()), "{name}");
                assert!(!one(&packed, "a/1.jpg").2.contains_key("json"), "{name}");
                continue;
            }
            if number == 0 {
                ran.says("and no classes: they are packed in the component json");
            }
            assert_eq!(text(one(&packed, "a/1.jpg"), "json").unwrap(), expected, "{name} {more:?}");
            assert_eq!(one(&packed, "a/1.jpg").0, None, "{name} {more:?}");
        }
        run(&["verify", bench.at(&format!("{name}-0")).to_str().unwrap(), "--against", path.to_str().unwrap()]).code(0);
    }
    // Numbers among words are words.
    let path = list(&bench, "words.csv", "path,label\na/1.jpg,0.5\na/2.jpg,cat\n");
    pack(&path, &bench.at("words"), &[]).code(0).says("2 classes");
}

#[test]
fn a_column_that_stands_twice_is_refused_by_name() {
    let bench = tree();
    let path = list(&bench, "twice.csv", "path,label,score,score\na/1.jpg,a,1,2\n");
    pack(&path, &bench.at("x"), &[]).code(1).clean_error().says("line 1: column \"score\" stands twice");
}

#[test]
fn paths_without_an_extension_get_that_of_their_files() {
    let bench = tree();
    let path = list(&bench, "ids.csv", "id,breed\na/1,boston\nb/3,dingo\ngone,dingo\n");
    let options = ["--path-column", "id", "--label-column", "breed", "--on-bad", "skip"];
    let ran = pack(&path, &bench.at("x"), &options).code(0).says("3 paths without an extension got one: .jpg (3)");
    ran.says("gone.jpg: cannot be read");
    assert_eq!(samples(&bench.at("x")).keys().collect::<Vec<_>>(), ["a/1.jpg", "b/3.jpg"]);
    // If two files have this stem, the user must choose.
    bench.file("a/1.png", b"x");
    pack(&path, &bench.at("y"), &options)
        .code(2)
        .clean_error()
        .says("line 2: path \"a/1\" has two files: a/1.jpg and a/1.png");
}

#[test]
fn panoptic_segments_name_their_categories_and_lvis_its_files_by_url() {
    let bench = tree();
    let coco = r#"{"images":[{"id":1,"file_name":"a/1.jpg"}],
        "annotations":[{"image_id":1,"file_name":"1.png","segments_info":[{"id":7,"category_id":2},{"id":9,"category_id":5}]}],
        "categories":[{"id":1,"name":"x"},{"id":2,"name":"y"},{"id":5,"name":"z"}]}"#;
    pack(&list(&bench, "panoptic.json", coco), &bench.at("panoptic"), &[]).code(0);
    let found = samples(&bench.at("panoptic"));
    let text_of = text(one(&found, "a/1.jpg"), "json").unwrap().to_owned();
    assert!(text_of.ends_with(r#""categories":[{"id":2,"name":"y"},{"id":5,"name":"z"}]}"#), "{text_of}");
    for (name, url, path) in
        [("set", "http://h/x/a/1.jpg", "a/1.jpg"), ("flat", "http://h/train2017/top.jpg", "top.jpg")]
    {
        bench.file("top.jpg", &jpeg(77, 5100));
        let lvis = format!(r#"{{"images":[{{"id":1,"coco_url":"{url}"}}],"annotations":[],"categories":[]}}"#);
        pack(&list(&bench, "lvis.json", &lvis), &bench.at(name), &[]).code(0);
        assert_eq!(samples(&bench.at(name)).keys().collect::<Vec<_>>(), [path]);
    }
    let neither = r#"{"images":[{"id":1}],"annotations":[],"categories":[]}"#;
    let neither = list(&bench, "neither.json", neither);
    let root = bench.src();
    pack(&neither, &bench.at("neither"), &["--root", root.to_str().unwrap()])
        .code(1)
        .says("neither file_name nor coco_url");
}

#[test]
fn changes_that_move_pixels_are_refused_where_something_beside_an_image_tells_where_things_are() {
    let bench = tree();
    bench.file("a/1_mask.png", &shardpack_testing::png());
    bench.file("a/1.xml", b"<annotation><object><bndbox><xmin>1</xmin></bndbox></object></annotation>");
    bench.file("a/1.txt", b"a box of masks");
    let coco = r#"{"images":[{"id":1,"file_name":"a/1.jpg"}],"annotations":[{"image_id":1,"bbox":[1,2,3,4]}]}"#;
    let captions = r#"{"images":[{"id":1,"file_name":"a/1.jpg"}],"annotations":[{"image_id":1,"caption":"a box"}]}"#;
    let (coco, captions) = (list(&bench, "coco.json", coco), list(&bench, "captions.json", captions));
    let src = bench.src();
    let dst = bench.at("x");
    for change in [&["--resize", "8"][..], &["--rotate"]] {
        let refused = |path: &Path, options: &[&str], what: &str| {
            pack(path, &dst, &[change, options].concat()).code(2).clean_error().says(what).says(change[0]);
            assert!(!dst.exists());
        };
        let works = |path: &Path, options: &[&str]| {
            pack(path, &dst, &[change, options, &["--force"]].concat()).code(0);
            fs::remove_dir_all(&dst).unwrap();
        };
        refused(&coco, &[], "their component json, which holds positions");
        works(&coco, &["--meta", "none"]);
        works(&captions, &[]);
        works(&coco, &["--role", "json=keep"]);
        refused(&src, &["--with", "other=*_mask.png"], "their component other.png, which is an image too");
        works(&src, &["--with", "other=*_mask.png", "--role", "other=keep"]);
        // A mask moves with its image, and must have its size.
        let mask = [change, &["--with", "mask=*_mask.png"]].concat();
        pack(&src, &dst, &mask).code(1).says("a/1.jpg: mask.png: is ").says(" pixels, and its image is ");
        fs::remove_dir_all(&dst).unwrap();
        refused(&src, &["--with", "xml"], "their component xml, which holds positions");
        works(&src, &["--with", "txt"]);
        works(&src, &[]);
    }
    pack(&src, &bench.at("masked"), &["--with", "other=*_mask.png"]).code(0);
    let convert = |options: &[&str]| {
        run(&[&["convert", bench.at("masked").to_str().unwrap(), dst.to_str().unwrap(), "--resize", "8"], options]
            .concat())
    };
    convert(&[]).code(2).clean_error().says("--components takes those that it names, or none");
    convert(&["--components", "none"]).code(0);
    convert(&["--role", "other=keep", "--force"]).code(0);
}
