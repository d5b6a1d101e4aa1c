//! Class names of objects: from `data.yaml` into the manifest, and through every command that makes a dataset of another.

use std::{fs, path::Path};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, jpeg, run};

const WITH: [&str; 3] = ["--no-labels", "--with", "boxes=yolo:../labels/*.txt"];

/// Images with label files, and this description.
fn tree(description: &str) -> Bench {
    let bench = Bench::new();
    for number in 0..12 {
        bench.file(format!("images/{number}.jpg"), &jpeg(number, 5000));
        bench.file(format!("labels/{number}.txt"), format!("{} 0.5 0.5 0.5 0.25\n", number % 3).as_bytes());
    }
    bench.file("data.yaml", description.as_bytes());
    bench
}

/// The class names in the manifest at `dst`.
fn names(dst: &Path) -> Option<serde_json::Value> {
    let settings = Dataset::open(dst).unwrap().manifest().format.settings.clone();
    settings.get("component_classes").map(|classes| serde_json::from_str(classes).unwrap())
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn names_are_packed_printed_converted_and_compared() {
    let bench = tree("names: [cat, 'a, b', c]");
    let expected = Some(serde_json::json!({ "box_labels.npy": ["cat", "a, b", "c"] }));
    bench.pack(&WITH).code(0);
    let (dst, src) = (bench.dst(), bench.src());
    assert_eq!(names(&dst), expected);
    run(&["inspect", path(&dst)]).code(0).says("3 classes of box_labels.npy: cat, a, b, c");
    let inspected = run(&["inspect", path(&dst), "--json"]).code(0).json();
    assert!(inspected.to_string().contains(r#""classes":["cat","a, b","c"]"#), "{inspected}");
    run(&["verify", path(&dst), "--against", path(&src)]).code(0);
    for (name, options) in [
        ("mds", &["--format", "mds"][..]),
        ("resized", &["--resize", "32"]),
        ("fractions", &["--split-fraction", "val=0.5"]),
    ] {
        bench.pack_to(&bench.at(name), &[&WITH[..], options].concat()).code(0);
        let at = if name == "fractions" { bench.at(name).join("val") } else { bench.at(name) };
        assert_eq!(names(&at), expected, "{name}");
    }
    let parts = bench.at("parts");
    for part in ["1/2", "2/2"] {
        bench.pack_to(&parts, &[&WITH[..], &["--part", part]].concat()).code(0);
    }
    run(&["merge", path(&parts)]).code(0);
    assert_eq!(names(&parts), expected);
    let converted = bench.at("converted");
    run(&["convert", path(&dst), path(&bench.at("mds")), path(&converted), "--format", "mds"]).code(0);
    assert_eq!(names(&converted), expected);
    let boxes = bench.at("boxes");
    run(&["convert", path(&dst), path(&boxes), "--components", "boxes"]).code(0);
    assert_eq!(names(&boxes), None);
    // Another name in the source is a difference.
    bench.file("data.yaml", b"names: [cat, a, c]");
    let changed = run(&["verify", path(&dst), "--against", path(&src)]).code(1);
    changed.says("box_labels.npy: the name of class 1 is a, b, a in the source");
    let other = bench.at("other");
    bench.pack_to(&other, &WITH).code(0);
    let both = bench.at("both");
    run(&["convert", path(&dst), path(&other), path(&both)]).code(2).says("the class names of box_labels.npy differ");
    // The same command does not take the names for unchanged.
    bench.pack(&WITH).code(2).says("class names of objects");
}

#[test]
fn names_that_cannot_be_read_are_a_note_and_numbers_without_name_are_bad() {
    for (number, (description, why)) in [
        ("names: [a, b", "box_labels has no class names: data.yaml: while parsing a flow sequence"),
        ("nc: 3", "box_labels has no class names: no data.yaml in the source names them"),
        ("nc: 4\nnames: [a, b, c]", "nc is 4, and names has 3"),
        ("names: \u{0}", "box_labels has no class names"),
    ]
    .into_iter()
    .enumerate()
    {
        let bench = tree(description);
        let dst = bench.at(&number.to_string());
        bench.pack_to(&dst, &WITH).code(0).says(why);
        assert_eq!(names(&dst), None, "{description}");
    }
    let bench = tree("names: [a, b]");
    bench.pack(&WITH).code(1).says("images/2.jpg: labels/2.txt: line 1: class 2, and the source names 2 classes");
    bench.pack(&[&WITH[..], &["--on-bad", "skip"]].concat()).code(0).says("images/2.jpg");
    run(&["verify", path(&bench.dst()), "--against", path(&bench.src())]).code(0);
    // A link to a description is followed like every other link.
    fs::rename(bench.src().join("data.yaml"), bench.at("names.yaml")).unwrap();
    bench.link("data.yaml", bench.at("names.yaml"));
    let linked = bench.at("linked");
    bench.pack_to(&linked, &[&WITH[..], &["--on-bad", "skip"]].concat()).code(0);
    assert!(names(&linked).is_some());
    let unfollowed = [&WITH[..], &["--no-follow"]].concat();
    bench.pack_to(&bench.at("unfollowed"), &unfollowed).code(0).says("--no-follow does not follow");
}

#[test]
fn names_come_from_lists_in_the_source_or_beside_the_label_files() {
    let list = b"cat\na dog\nc\n";
    let expected = Some(serde_json::json!({ "box_labels.npy": ["cat", "a dog", "c"] }));
    // In the order in which they count: right in the source, then in the folder of the label files.
    for files in
        [&["classes.txt", "labels/classes.txt"][..], &["obj.names", "labels/classes.txt"], &["labels/classes.txt"]]
    {
        let bench = tree("nc: 3");
        bench.file(files[0], list);
        files[1..].iter().for_each(|other| bench.file(other, b"1\n2\n3\n"));
        bench.pack(&WITH).code(0);
        assert_eq!(names(&bench.dst()), expected, "{files:?}");
        run(&["verify", path(&bench.dst()), "--against", path(&bench.src())]).code(0);
    }
    // Two lists of darknet, and lists of splits that differ.
    let bench = tree("nc: 3");
    bench.file("a.names", list);
    bench.file("b.names", list);
    bench.pack(&WITH).code(0).says("no data.yaml in the source names them, and no classes.txt");
    let splits = Bench::new();
    for (split, list) in [("train", &b"a\nb\n"[..]), ("val", b"b\na\n")] {
        splits.file(format!("{split}/1.jpg"), &jpeg(1, 5000));
        splits.file(format!("{split}/1.txt"), b"1 0.5 0.5 0.5 0.25\n");
        splits.file(format!("{split}/classes.txt"), list);
    }
    let options = ["--no-labels", "--splits", "train,val", "--with", "boxes=yolo:*.txt"];
    splits.pack(&options).code(0).says("train/classes.txt and val/classes.txt have different names");
}
