//! Columns of lists with several classes a row: `--multi-label` packs them as the array `multi_hot`.

use std::{fs, path::Path};

use serde_json::json;
use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, contents,
    lists::{list, mend, one, pack, samples, verify},
    run,
};

/// Four images, and rows with these values.
fn rows(header: &str, values: [&str; 4], row: &dyn Fn(usize, &str) -> String) -> String {
    let rows: String = values.iter().enumerate().map(|(number, value)| row(number, value) + "\n").collect();
    header.to_owned() + &rows
}

fn bench() -> Bench {
    Bench::with(&["0.jpg", "1.jpg", "2.jpg", "3.jpg"])
}

fn at(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The items of the array of image `number`, without the head of numpy.
fn hot(dst: &Path, number: usize) -> Vec<u8> {
    let found = samples(dst);
    let content = &one(&found, &format!("{number}.jpg")).2["multi_hot.npy"];
    let classes = names(dst).len();
    content[content.len() - classes..].to_vec()
}

fn names(dst: &Path) -> Vec<String> {
    let settings = Dataset::open(dst).unwrap().manifest().format.settings.clone();
    let classes: serde_json::Value = serde_json::from_str(&settings["component_classes"]).unwrap();
    serde_json::from_value(classes["multi_hot.npy"].clone()).unwrap()
}

const EXPECTED: [[u8; 3]; 4] = [[0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 1, 1]];

#[test]
fn every_kind_of_list_gives_the_same_arrays() {
    let bench = bench();
    let bars = ["dog|cat", "", "bird", "cat|dog"];
    let lists = ["[\"dog\",\"cat\"]", "[]", "[\"bird\"]", "[\"cat\",\"dog\"]"];
    let python = ["['dog', 'cat']", "[]", "['bird']", "['cat', 'dog']"];
    let write = |name: &str, text: String| list(&bench, name, &text);
    let csv = |number: usize, value: &str| format!("{number}.jpg,\"{value}\",n{number}");
    let text = |number: usize, value: &str| format!("{number}.jpg {}", if value.is_empty() { "|" } else { value });
    let object = |number: usize, value: &str| format!("{{\"path\":\"{number}.jpg\",\"tags\":{value},\"n\":{number}}}");
    let array = format!("[{}]", rows("", lists, &object).trim_end().replace('\n', ","));
    let sources = [
        (write("bars.csv", rows("path,tags,n\n", bars, &csv)), "tags:|"),
        (write("python.csv", rows("path,tags,n\n", python, &csv)), "tags"),
        (write("label.csv", rows("path,label,n\n", bars, &csv)), "label:|"),
        (write("bare.csv", rows("", bars, &csv)), "2:|"),
        (write("pairs.txt", rows("", bars, &text)), "label:|"),
        (write("tags.jsonl", rows("", lists, &object)), "tags"),
        (write("tags.json", array), "tags"),
    ];
    for (number, (path, option)) in sources.iter().enumerate() {
        let dst = bench.at(&number.to_string());
        let ran = pack(path, &dst, &["--multi-label", option]).code(0).says("packed  4 of 4 images");
        ran.says("targets: multi_hot uint8[3], a 1 for each class; 1.2 classes on average in 4 rows, none in 1");
        assert_eq!(names(&dst), ["bird", "cat", "dog"], "{option}");
        assert_eq!([0, 1, 2, 3].map(|number| hot(&dst, number)), EXPECTED.map(Vec::from), "{option}");
        verify(&dst, path, &[]);
        mend(&dst, path);
        run(&["inspect", at(&dst)]).code(0).says("3 classes of multi_hot.npy: bird, cat, dog");
    }
}

#[test]
fn arrays_go_through_plans_parts_formats_splits_and_convert() {
    let bench = bench();
    let row =
        |number: usize, value: &str| format!("{number}.jpg,{value},a,{}", if number < 3 { "train" } else { "val" });
    let path = list(&bench, "a.csv", &rows("path,tags,label,split\n", ["dog|cat", "", "bird", "cat|dog"], &row));
    let options = ["--multi-label", "tags:|", "--shards", "2", "--splits", "none"];
    let whole = bench.at("whole");
    pack(&path, &whole, &options).code(0).says("1 class");
    let plan = bench.at("a.plan");
    run(&[&["plan", at(&path), "-o", at(&plan)][..], &options].concat()).code(0);
    run(&["pack", "--plan", at(&plan), at(&bench.at("planned"))]).code(0);
    for part in ["2/2", "1/2"] {
        pack(&path, &bench.at("parts"), &[&options[..], &["--part", part]].concat()).code(0);
    }
    run(&["merge", at(&bench.at("parts"))]).code(0);
    for same in ["planned", "parts"] {
        assert!(contents(&bench.at(same)) == contents(&whole), "{same}");
    }
    for format in ["tfrecord", "mds"] {
        let dst = bench.at(format);
        pack(&path, &dst, &[&options[..], &["--format", format]].concat()).code(0);
        assert_eq!([0, 1, 2, 3].map(|number| hot(&dst, number)), EXPECTED.map(Vec::from), "{format}");
        verify(&dst, &path, &[]);
    }
    let converted = bench.at("converted");
    run(&["convert", at(&whole), at(&converted), "--format", "mds"]).code(0);
    assert_eq!((hot(&converted, 0), names(&converted)), (EXPECTED[0].to_vec(), names(&whole)));
    verify(&converted, &whole, &[]);
    verify(&converted, &path, &["--multi-label", "tags:|"]);
    // All splits have the same classes, also those that one of them lacks.
    let parted = bench.at("parted");
    pack(&path, &parted, &["--multi-label", "tags:|"]).code(0);
    assert_eq!(names(&parted.join("val")), ["bird", "cat", "dog"]);
    assert_eq!(hot(&parted.join("val"), 3), EXPECTED[3]);
    verify(&parted, &path, &[]);
    // A label that changed is found.
    list(&bench, "a.csv", &rows("path,tags,label,split\n", ["dog", "", "bird", "cat|dog"], &row));
    run(&["verify", at(&whole), "--against", at(&path)]).code(1).says("0.jpg");
    list(&bench, "a.csv", &rows("path,tags,label,split\n", ["dog|ape", "", "bird", "cat|dog"], &row));
    run(&["verify", at(&whole), "--against", at(&path)])
        .code(1)
        .says("multi_hot.npy: the name of class 0 is bird, ape in the source");
    pack(&path, &whole, &options).code(2).says("is now json,multi_hot.npy=list:|u1[4]:tags:|");
}

#[test]
fn columns_of_zeros_and_ones_are_classes_in_their_order() {
    let bench = bench();
    let row = |number: usize, value: &str| format!("{number}.jpg,{value},7");
    let values = ["0,1,1.0", "0,0,0", "1,0,0", "0,1,1"];
    let path = list(&bench, "a.csv", &rows("filename,wolf,dog,cat,n\n", values, &row));
    let object = |number: usize, value: &str| {
        let [a, b, c] = value.split(',').collect::<Vec<_>>()[..] else { panic!("{value}") };
        let b = if b == "1" { "true" } else { b };
        format!("{{\"path\":\"{number}.jpg\",\"wolf\":{a},\"dog\":{b},\"cat\":{c},\"n\":7}}")
    };
    let objects = list(&bench, "a.jsonl", &rows("", values, &object));
    let ran = pack(&path, &bench.at("noted"), &[]).code(0);
    ran.says("3 columns hold 0 and 1, wolf to cat: --multi-label wolf..cat packs them as multi_hot");
    for (path, dst) in [(&path, "csv"), (&objects, "jsonl")] {
        let dst = bench.at(dst);
        pack(path, &dst, &["--multi-label", "wolf..cat"])
            .code(0)
            .says("a class each wolf to cat; no labels; in a component json: n");
        assert_eq!(names(&dst), ["wolf", "dog", "cat"]);
        assert_eq!([0, 1, 2, 3].map(|number| hot(&dst, number)), EXPECTED.map(Vec::from));
        verify(&dst, path, &[]);
        mend(&dst, path);
    }
    for (option, code, what) in [
        ("wolf..n", 1, "line 2, column \"n\": \"7\" is neither 0 nor 1"),
        ("cat..wolf", 2, "--multi-label cat..wolf: the second column is not behind the first"),
        ("filename..cat", 2, "column \"filename\" has another role"),
        ("wolf..bird", 2, "--multi-label bird: no such column"),
    ] {
        pack(&path, &bench.at("wrong"), &["--multi-label", option]).code(code).clean_error().says(what);
    }
    // Labels, or other values, are no reason for a note.
    let labelled = list(&bench, "label.csv", &rows("filename,label,dog,cat,n\n", values, &row));
    pack(&labelled, &bench.at("labelled"), &[]).code(0).says_not("hold 0 and 1");
}

#[test]
fn class_numbers_keep_their_number_and_other_values_are_refused() {
    let bench = bench();
    let json = |values: [&str; 4]| {
        rows("", values, &|number, value| format!("{{\"path\":\"{number}.jpg\",\"tags\":{value}}}"))
    };
    let path = list(&bench, "numbers.jsonl", &json(["[3,0]", "[]", "null", "[0]"]));
    pack(&path, &bench.dst(), &["--multi-label", "tags"]).code(0).says("none in 2");
    assert_eq!(
        (names(&bench.dst()), hot(&bench.dst(), 0)),
        (["0", "1", "2", "3"].map(str::to_owned).to_vec(), vec![1, 0, 0, 1])
    );
    verify(&bench.dst(), &path, &[]);
    let refused = |values: [&str; 4], option: &str, code: i32, what: &str| {
        let path = list(&bench, "wrong.jsonl", &json(values));
        pack(&path, &bench.at("wrong"), &["--multi-label", option]).code(code).clean_error().says(what);
    };
    let multi_hot = "takes lists of classes, not lists with 0 or 1 for each class";
    refused(["[1,0,1]", "[0,0,0]", "[1,1,0]", "[0,1,0]"], "tags", 1, multi_hot);
    refused(["[1,0]", "[0,1]", "[1,0]", "[0,1]"], "tags", 2, multi_hot);
    refused(["[\"a\"]", "\"a b\"", "[]", "[]"], "tags", 2, "line 2, column \"tags\": a b is no list");
    refused(
        ["[\"a\"]", "[0.5]", "[]", "[]"],
        "tags",
        1,
        "line 2, column \"tags\": [0.5] is no list of names or whole numbers",
    );
    refused(["{}", "[]", "[]", "[]"], "tags", 2, "{} is no list");
    refused(["[]", "[]", "[]", "null"], "tags", 2, "--multi-label tags: no row has a class");
    refused(["[]", "[]", "[]", "[]"], "tag", 2, "--multi-label tag: no such column: it has path, tags");
    refused(["[]", "[]", "[]", "[]"], "path", 2, "--multi-label path: column \"path\" has another role");
    refused(["[]", "[]", "[]", "[]"], "tags:ab", 2, "a separator is one character, comma, space or tab");
    // Without the option, a note names it.
    let label = list(&bench, "label.jsonl", "{\"path\":\"0.jpg\",\"label\":[\"a\",\"b\"]}\n");
    pack(&label, &bench.at("text"), &[]).code(0).says("--multi-label COLUMN packs lists of classes as multi_hot");
    let tree = Bench::with(&["a/0.jpg"]);
    tree.pack(&["--multi-label", "tags"]).code(2).clean_error().says("--multi-label and --target are for lists");
    // Rows that differ in their classes are samples of their own.
    let twice = list(&bench, "twice.csv", "path,tags\n0.jpg,a\n0.jpg,b\n0.jpg,a\n");
    let report = pack(&twice, &bench.at("twice"), &["--multi-label", "tags:|", "--json"]).code(0).json();
    assert_eq!(report["datasets"][0]["samples"], json!(2), "{report}");
    fs::remove_dir_all(bench.at("twice")).unwrap();
}
