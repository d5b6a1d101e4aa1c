//! Files of components in folders outside the source: `--extra-root NAME=FOLDER`.

use std::{fs, path::Path};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, contents, jpeg, run};

const IMAGES: [&str; 3] = ["cat/1", "cat/2", "dog/1"];
const BOX: &str = "<annotation><object><name>eye</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object></annotation>";

/// Images in classes; masks and label files outside.
fn bench(masks: &[&str]) -> Bench {
    let bench = Bench::new();
    for (number, name) in IMAGES.into_iter().enumerate() {
        bench.file(format!("{name}.jpg"), &jpeg(number as u64, 5000));
    }
    for name in masks {
        write(&bench.at(&format!("masks/{name}.png")), &format!("mask {name}"));
        write(&bench.at(&format!("boxes/all/{name}.xml")), BOX);
    }
    bench
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// For each path, the bytes of the component `mask.png`.
fn masks(dst: &Path) -> Vec<(String, Option<String>)> {
    let dataset = Dataset::open(dst).unwrap();
    let of = |number| {
        let sample = dataset.sample(number).unwrap();
        let path = String::from_utf8(dataset.row(number).unwrap().path.to_vec()).unwrap();
        (path, sample.component("mask.png").map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
    };
    let mut found: Vec<_> = (0..dataset.len()).map(of).collect();
    found.sort();
    found
}

#[test]
fn files_in_folders_outside_are_packed_verified_and_repaired() {
    let bench = bench(&IMAGES);
    let (dst, src) = (bench.dst(), bench.src());
    let (at, source) = (dst.to_str().unwrap(), src.to_str().unwrap());
    let root = |name: &str| format!("{name}={}", bench.at(name).display());
    let roots = [root("masks"), root("boxes")];
    let given = ["--extra-root", &roots[0], "--extra-root", &roots[1]];
    let with = ["--with", "mask={masks}/{parent}/*.png", "--with", "boxes=voc:{boxes}/all/{dir}/*.xml"];
    write(&bench.at("masks/cat/3.png"), "of no image");
    write(&bench.at("masks/readme.md"), "text");
    let options = [&given[..], &with[..]].concat();
    bench.pack(&options).code(0).says("1 mask.png without its image").says("1 other file in {masks}");
    let expected = IMAGES.map(|name| (format!("{name}.jpg"), Some(format!("mask {name}"))));
    assert_eq!(masks(&dst), expected);
    let manifest = fs::read_to_string(dst.join("manifest.json")).unwrap();
    assert!(manifest.contains("{masks}/{parent}") && !manifest.contains(bench.at("masks").to_str().unwrap()));
    run(&["verify", at, "--against", source])
        .code(2)
        .says("no folder is called masks")
        .says("--extra-root masks=FOLDER");
    run(&[&["verify", at, "--against", source][..], &given].concat()).code(0);
    run(&[&["verify", at][..], &given].concat()).code(2).says("use it with --against or --repair");
    let whole = contents(&dst);
    let shard = dst.join(&Dataset::open(&dst).unwrap().manifest().shards[0].file);
    fs::write(&shard, b"gone").unwrap();
    run(&[&["verify", at, "--repair", source][..], &given].concat()).code(0);
    assert!(contents(&dst) == whole);
    // By a plan, which knows the folders.
    let (plan, by_plan) = (bench.at("a.plan"), bench.at("by-plan"));
    let (plan, by_plan) = (plan.to_str().unwrap(), by_plan.to_str().unwrap());
    run(&[&["plan", source, by_plan, "--output", plan][..], &options].concat()).code(0);
    run(&["pack", "--plan", plan, by_plan]).code(0);
    assert!(contents(Path::new(by_plan)) == whole);
    // A file that changes is found.
    write(&bench.at("masks/cat/1.png"), "mask cat/X");
    run(&[&["verify", at, "--against", source][..], &given].concat()).code(1).says("cat/1.jpg");
}

#[test]
fn a_missing_file_is_decided_by_on_missing() {
    let bench = bench(&IMAGES[..2]);
    let root = format!("masks={}", bench.at("masks").display());
    let options = ["--extra-root", &root, "--with", "mask={masks}/{parent}/*.png"];
    bench.pack(&options).code(1).says("dog/1.jpg: its mask.png is missing: {masks}/dog/1.png");
    let of = |policy: &str| {
        let dst = bench.at(policy);
        bench.pack_to(&dst, &[&options[..], &["--on-missing", policy]].concat()).code(0);
        masks(&dst).into_iter().map(|(path, mask)| (path, mask.is_some())).collect::<Vec<_>>()
    };
    let has = |name: &str, has: bool| (format!("{name}.jpg"), has);
    assert_eq!(of("skip"), [has("cat/1", true), has("cat/2", true)]);
    assert_eq!(of("empty"), [has("cat/1", true), has("cat/2", true), has("dog/1", false)]);
    let empty = bench.at("noted");
    bench.pack_to(&empty, &[&options[..], &["--on-missing", "empty"]].concat()).says("1 of 3 images without mask.png");
}

#[test]
fn folders_that_cannot_be_meant_are_refused() {
    let bench = bench(&IMAGES);
    let (masks, with) = (bench.at("masks"), ["--with", "mask={masks}/{parent}/*.png"]);
    let value = |name: &str, path: &Path| format!("{name}={}", path.display());
    for (root, message) in [
        (value("masks", &bench.src().join("cat")), "is in the source"),
        (value("masks", &bench.at("nothing")), "cannot open folder"),
        (value("stem", &masks), "no placeholder of patterns"),
        (value("other", &masks), "no component has its files there"),
        (value("masks", Path::new("s3://bucket/masks")), "only a folder of this machine"),
        ("masks".to_owned(), "written NAME=FOLDER"),
    ] {
        bench.pack(&[&with[..], &["--extra-root", &root]].concat()).code(2).says(message);
    }
    // A dataset is not written into the masks.
    let root = value("masks", &masks);
    bench
        .pack_to(&masks.join("packed"), &[&with[..], &["--extra-root", &root]].concat())
        .code(2)
        .says("inside the source");
}
