//! Boxes of objects from YOLO's label files, and splits by a folder inside the source.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use shardpack_format::image_header::Header;
use shardpack_reader::Dataset;
use shardpack_testing::{Bench, contents, jpeg, run};

/// Label files by the name of the image.
const LABELS: [(&str, &str); 5] = [
    ("train/1", "0 0.5 0.5 0.5 0.25\n7 0.25 0.25 0.5 0.5\n"),
    ("train/2", ""),
    ("train/3", "2 1 1 0 0"),
    ("val/4", "3.0\t0.5 0.5 1.0 1.0\r\n"),
    ("val/5", "1 0.1 0.2 0.1 0.1\n1 0.1 0.2 0.1 0.1\n0 0.9 0.9 0.1 0.1"),
];
const WITH: [&str; 4] = ["--no-labels", "--with", "boxes=yolo:../../labels/{parent}/*.txt", "--splits=images/{split}"];

/// Names of the classes, as `data.yaml` of Ultralytics has them.
const DESCRIPTION: &[u8] = b"path: . # root\nnc: 8\nnames:\n  0: person\n  1: traffic light\n  2: c\n  3: d\n  4: e\n  5: f\n  6: g\n  7: 'h: #1'\n";
const NAMES: [&str; 8] = ["person", "traffic light", "c", "d", "e", "f", "g", "h: #1"];

/// `images/{train,val}` and `labels/{train,val}`, as Ultralytics has them.
fn tree() -> Bench {
    let bench = Bench::new();
    for (number, (name, text)) in LABELS.iter().enumerate() {
        bench.file(format!("images/{name}.jpg"), &jpeg(number as u64, 5000));
        bench.file(format!("labels/{name}.txt"), text.as_bytes());
    }
    bench.file("data.yaml", DESCRIPTION);
    bench
}

/// Boxes and labels by the path of the image, from `npy` files in the components.
pub(super) fn objects(dst: &Path) -> BTreeMap<String, Vec<([f32; 4], i64)>> {
    let dataset = Dataset::open(dst).unwrap();
    let mut found = BTreeMap::new();
    for number in 0..dataset.len() {
        let sample = dataset.sample(number).unwrap();
        let column = |name: &str| {
            let at = dataset.manifest().components.iter().position(|one| one == name).unwrap();
            sample.content(at).unwrap().unwrap().into_owned()
        };
        let (boxes, labels) = (column("boxes.npy"), column("box_labels.npy"));
        let count = (labels.len() - 128) / 8;
        let items = &boxes[boxes.len() - 16 * count..];
        let header = String::from_utf8_lossy(&boxes[..128]).into_owned();
        assert!(header.contains(&format!("'<f4', 'fortran_order': False, 'shape': ({count}, 4)")), "{header}");
        let edges = items.chunks(16).map(|row| {
            let edge = |at: usize| f32::from_le_bytes(row[4 * at..4 * at + 4].try_into().unwrap());
            [edge(0), edge(1), edge(2), edge(3)]
        });
        let classes =
            labels[labels.len() - 8 * count..].chunks(8).map(|item| i64::from_le_bytes(item.try_into().unwrap()));
        let path = String::from_utf8(dataset.row(number).unwrap().path.to_vec()).unwrap();
        found.insert(path, edges.zip(classes).collect());
    }
    found
}

/// The objects of the images of `split`, computed from [`LABELS`] and the size of each image.
fn expected(bench: &Bench, split: &str) -> BTreeMap<String, Vec<([f32; 4], i64)>> {
    expected_of(split, &|path| fs::read(bench.src().join(path)).unwrap())
}

/// As [`expected`], for the images that `image` returns.
fn expected_of(split: &str, image: &dyn Fn(&str) -> Vec<u8>) -> BTreeMap<String, Vec<([f32; 4], i64)>> {
    let of = |(name, text): &(&str, &str)| {
        let path = format!("images/{name}.jpg");
        let header = Header::parse(&image(&path));
        let (width, height) = (f64::from(header.width), f64::from(header.height));
        let objects = text.lines().map(|line| {
            let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
            let [class, x, y, w, h] = numbers[..] else { panic!("{line}") };
            let edges = [(x - w / 2.0) * width, (y - h / 2.0) * height, (x + w / 2.0) * width, (y + h / 2.0) * height];
            (edges.map(|edge| edge as f32), class as i64)
        });
        (path, objects.collect())
    };
    LABELS.iter().filter(|(name, _)| name.starts_with(split)).map(of).collect()
}

#[test]
fn label_files_become_boxes_and_labels_in_every_format() {
    let bench = tree();
    let src = bench.src();
    let mut first = BTreeMap::new();
    for format in ["webdataset", "tfrecord", "mds", "recordio"] {
        let dst = bench.at(format);
        let ran = bench.pack_to(&dst, &[&WITH[..], &["--format", format]].concat());
        if format == "recordio" {
            // RecordIO has no place for arrays beside the image.
            ran.code(2).says("recordio");
            continue;
        }
        ran.code(0).says("7 objects in 5 images, none in 1").says("boxes float32[n,4]");
        for split in ["train", "val"] {
            assert_eq!(objects(&dst.join(split)), expected(&bench, split), "{format}");
        }
        let settings = Dataset::open(dst.join("val")).unwrap().manifest().format.settings.clone();
        let names: BTreeMap<String, Vec<String>> = serde_json::from_str(&settings["component_classes"]).unwrap();
        assert_eq!(names["box_labels.npy"], NAMES, "{format}");
        let (at, source) = (dst.to_str().unwrap(), src.to_str().unwrap());
        run(&["verify", at, "--against", source]).code(0);
        first = if first.is_empty() { contents(&dst) } else { first };
    }
    // Repair makes the same bytes from the label files.
    let dst = bench.at("webdataset");
    fs::write(dst.join("train/train-000000.tar"), b"gone").unwrap();
    run(&["verify", dst.to_str().unwrap(), "--repair", src.to_str().unwrap()]).code(0);
    assert!(contents(&dst) == first);
    // As a source of other shards, the dataset has arrays.
    let other = bench.at("converted");
    let (from, to) = (dst.join("val"), other.to_str().unwrap());
    run(&["convert", from.to_str().unwrap(), to, "--format", "mds"]).code(0);
    assert_eq!(objects(&other), expected(&bench, "val"));
    run(&["verify", to, "--against", from.to_str().unwrap()]).code(0);
}

#[test]
fn parts_plans_archives_and_several_formats_give_the_same_bytes() {
    let bench = tree();
    bench.pack(&WITH).code(0);
    let whole = contents(&bench.dst());
    let parts = bench.at("parts");
    for part in ["2/2", "1/2"] {
        bench.pack_to(&parts, &[&WITH[..], &["--part", part]].concat()).code(0);
    }
    run(&["merge", parts.to_str().unwrap()]).code(0);
    assert!(contents(&parts) == whole);
    // From a plan file.
    let (plan, planned) = (bench.at("x.plan"), bench.at("planned"));
    let (plan, src) = (plan.to_str().unwrap(), bench.src());
    run(&[&["plan", src.to_str().unwrap(), "-o", plan][..], &WITH].concat()).code(0);
    run(&["pack", "--plan", plan, planned.to_str().unwrap()]).code(0);
    assert!(contents(&planned) == whole);
    // From an archive.
    let (zip, zipped) = (bench.at("tree.zip"), bench.at("zipped"));
    let script = "import shutil, sys; shutil.make_archive(sys.argv[2], 'zip', sys.argv[1])";
    let python = std::env::var_os("SHARDPACK_PYTHON").unwrap();
    let made = Command::new(python).args(["-c", script]).arg(&src).arg(zip.with_extension("")).status().unwrap();
    assert!(made.success());
    run(&[&["pack", zip.to_str().unwrap(), zipped.to_str().unwrap()][..], &WITH].concat()).code(0);
    assert!(contents(&zipped) == whole);
    // The second format is made from the shards of the first.
    let both = bench.at("both");
    bench.pack_to(&both, &[&WITH[..], &["--format", "webdataset", "--format", "mds"]].concat()).code(0);
    assert_eq!(objects(&both.join("mds/train")), expected(&bench, "train"));
}

#[test]
fn invalid_and_missing_label_files_are_named_and_nothing_is_sealed() {
    let bench = tree();
    bench.file("labels/val/4.txt", b"0 320 240 10 10");
    bench.pack(&WITH).code(1).says("images/val/4.jpg: labels/val/4.txt: line 1: leaves the image");
    assert!(!bench.dst().join("val/manifest.json").exists());
    bench.file("labels/val/4.txt", b"0 0.1 0.1 0.5 0.1 0.3 0.9");
    bench
        .pack_to(&bench.at("polygon"), &WITH)
        .code(1)
        .says("6 numbers after the class, and a box has 4; yolo-seg reads polygons");
    fs::remove_file(bench.src().join("labels/val/4.txt")).unwrap();
    bench
        .pack_to(&bench.at("missing"), &WITH)
        .code(1)
        .says("images/val/4.jpg: its boxes.npy is missing: labels/val/4.txt");
    let empty = bench.at("empty");
    bench
        .pack_to(&empty, &[&WITH[..], &["--on-missing", "empty"]].concat())
        .code(0)
        .says("6 objects in 5 images, none in 2, 1 of them without a label file");
    run(&["verify", empty.to_str().unwrap(), "--against", bench.src().to_str().unwrap()]).code(0);
    // A changed label file is found, and its image named.
    bench.file("labels/val/5.txt", b"1 0.1 0.2 0.1 0.1\n1 0.1 0.2 0.1 0.1\n0 0.9 0.9 0.1 0.2");
    run(&["verify", empty.to_str().unwrap(), "--against", bench.src().to_str().unwrap()])
        .code(1)
        .says("images/val/5.jpg");
    // An unknown kind of files, and a name that says nothing of boxes.
    let wrong = |with: &str, why: &str| {
        drop(bench.pack_to(&bench.at("wrong"), &["--no-labels", "--with", with]).code(2).says(why))
    };
    wrong(
        "boxes=YOLO:../labels/*.txt",
        "is no kind of label files; yolo, yolo-seg, voc, labelme, coco, csv, kitti, wider,",
    );
    wrong("gt=yolo:../labels/*.txt", "the name of boxes ends with boxes");
}

#[test]
fn boxes_follow_the_pixels_of_changed_images_and_so_do_sealed_boxes() {
    let bench = tree();
    let dst = bench.at("resized");
    bench.pack_to(&dst, &[&WITH[..], &["--resize", "32"]].concat()).code(0);
    for split in ["train", "val"] {
        let dataset = Dataset::open(dst.join(split)).unwrap();
        let image = |path: &str| {
            let mut numbers = 0..dataset.len();
            let number = numbers.find(|number| dataset.row(*number).unwrap().path == path.as_bytes()).unwrap();
            dataset.sample(number).unwrap().bytes().to_vec()
        };
        assert_eq!(objects(&dst.join(split)), expected_of(split, &image));
    }
    // Boxes of a sealed dataset are arrays, and move as arrays.
    let (from, to) = (dst.join("val"), bench.at("smaller"));
    let options = ["convert", from.to_str().unwrap(), to.to_str().unwrap(), "--resize", "16"];
    run(&options).code(0).says("component boxes.npy as xyxy: moved in 2 of 2 samples");
    let dataset = Dataset::open(&to).unwrap();
    let image = |path: &str| {
        let mut numbers = 0..dataset.len();
        let number = numbers.find(|number| dataset.row(*number).unwrap().path.ends_with(path.as_bytes())).unwrap();
        dataset.sample(number).unwrap().bytes().to_vec()
    };
    for ((path, found), (other, expected)) in objects(&to).iter().zip(&expected_of("val", &image)) {
        assert_eq!((path, found.len()), (other, expected.len()));
        for ((edges, class), (of_label, class_of_label)) in found.iter().zip(expected) {
            assert_eq!(class, class_of_label);
            // Rounded to float32 once more.
            assert!(edges.iter().zip(of_label).all(|(a, b)| (a - b).abs() < 1e-5), "{edges:?} {of_label:?}");
        }
    }
    fs::remove_dir_all(&to).unwrap();
    let chosen = ["convert", from.to_str().unwrap(), to.to_str().unwrap(), "--components", "boxes"];
    run(&chosen).code(0);
    let components = Dataset::open(&to).unwrap().manifest().components.clone();
    assert!(components.contains(&"boxes.npy".to_owned()) && !components.contains(&"box_labels.npy".to_owned()));
}

#[test]
fn polygons_have_boxes_and_lists_have_label_files() {
    let bench = Bench::new();
    bench.file("images/1.jpg", &jpeg(1, 5000));
    bench.file("labels/1.txt", b"4 0.25 0.5 0.75 0.25 0.5 1");
    let list = bench.at("list.csv");
    fs::write(&list, "path\nimages/1.jpg\n").unwrap();
    let (src, dst) = (bench.src(), bench.at("listed"));
    let root = ["--root", src.to_str().unwrap(), "--with", "boxes=yolo-seg:../labels/*.txt"];
    run(&[&["pack", list.to_str().unwrap(), dst.to_str().unwrap()][..], &root].concat()).code(0);
    let header = Header::parse(&jpeg(1, 5000));
    let (width, height) = (header.width as f32, header.height as f32);
    let edges = [0.25 * width, 0.25 * height, 0.75 * width, height];
    assert_eq!(objects(&dst)["images/1.jpg"], [(edges, 4)]);
}

#[test]
fn folders_inside_the_source_are_splits() {
    let bench = tree();
    bench.file("images/notes/readme.md", b"text");
    bench.file("other/9.jpg", &jpeg(9, 5000));
    let pattern = ["--no-labels", "--splits", "images/{split}"];
    let report = bench.pack(&[&pattern[..], &["--json"]].concat()).code(0).json();
    let splits: Vec<_> = report["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].clone(), one["samples"].clone()))
        .collect();
    assert_eq!(splits, [("train".into(), 3.into()), ("val".into(), 2.into())], "{report}");
    let ledger = fs::read_to_string(bench.dst().join("train/ledger.jsonl")).unwrap();
    assert!(ledger.contains("other/9.jpg") && ledger.contains("is in no folder of --splits"), "{ledger}");
    run(&["verify", bench.dst().to_str().unwrap(), "--against", bench.src().to_str().unwrap()]).code(0);
    // A split can be left out; the name of a folder must be one that a split can have.
    let left_out = [&pattern[..], &["--exclude", "images/val/**", "--json"]].concat();
    let report = bench.pack_to(&bench.at("one"), &left_out).code(0).json();
    assert_eq!(report["datasets"].as_array().unwrap().len(), 1, "{report}");
    bench.file("images/my val/8.jpg", &jpeg(8, 5000));
    bench.pack_to(&bench.at("two"), &pattern).code(2).says("rename the folder images/my val");
    fs::remove_dir_all(bench.src().join("images/my val")).unwrap();
    // A split that cannot be read is no folder outside the splits.
    bench.link("images/gone", bench.at("nowhere"));
    bench.pack_to(&bench.at("three"), &pattern).code(1).says("images/gone: cannot be read").says("nothing is sealed");
    bench.pack_to(&bench.at("three"), &[&pattern[..], &["--on-bad", "skip"]].concat()).code(0).says("images/gone");
    fs::remove_file(bench.src().join("images/gone")).unwrap();
    // The same command goes on; another pattern is another plan.
    bench.pack(&pattern).code(0);
    bench.pack(&["--no-labels", "--splits", "*/{split}"]).code(2).says("--splits");
    let refused = |options: &[&str], why: &str| drop(bench.pack_to(&bench.at("refused"), options).code(2).says(why));
    refused(&["--splits", "images/{split}"], "--no-labels");
    refused(&["--no-labels", "--splits", "nothing/{split}"], "no image is in such a folder");
    refused(&["--no-labels", "--splits", "images/{split}/x"], "the last folder of a pattern");
    refused(&["--no-labels", "--splits", "images/{split}", "--split-fraction", "val=0.5"], "both given");
}

#[test]
fn a_pattern_that_no_image_has_a_file_for_is_refused_whatever_is_missing() {
    let bench = Bench::new();
    bench.file("images/1.jpg", &jpeg(1, 5000));
    bench.file("labels/1.txt", b"0 0.5 0.5 0.5 0.5");
    let refused = |with: &str, why: &str| {
        let options = ["--no-labels", "--on-missing", "empty", "--with", with];
        bench.pack(&options).code(2).says("not one image has this file").says(why);
        assert!(!bench.dst().exists());
    };
    refused("boxes=yolo:../../labels/*.txt", "the pattern leads out of the source");
    refused("boxes=yolo:../label/*.txt", "the first would be label/1.txt");
    refused("boxes=yolo:*.txt", "the first would be images/1.txt");
    refused("mask=../masks/*.png", "the first would be masks/1.png");
    bench.pack(&["--no-labels", "--on-missing", "empty", "--with", "boxes=yolo:../labels/*.txt"]).code(0);
}

#[test]
fn paths_of_bad_images_in_splits_inside_the_source_are_those_of_the_source() {
    let bench = tree();
    bench.file("images/val/6.jpg", b"");
    bench.file("images/val/7.jpg", b"no image");
    let options = ["--no-labels", "--splits", "images/{split}", "--on-bad", "skip", "--check", "full", "--json"];
    // The second run reads the ledgers.
    for _ in 0..2 {
        let document = bench.pack(&options).code(0).json();
        let paths: Vec<_> = document["unpacked"].as_array().unwrap().iter().map(|one| one["path"].clone()).collect();
        assert_eq!(paths, ["images/val/6.jpg", "images/val/7.jpg"], "{document}");
    }
    let parts = bench.at("parts");
    for part in ["1/2", "2/2"] {
        bench.pack_to(&parts, &[&options[..], &["--part", part]].concat()).code(0);
    }
    let merged = run(&["merge", parts.to_str().unwrap(), "--json"]).code(0).json();
    assert_eq!(merged["unpacked"][0]["path"], "images/val/6.jpg", "{merged}");
}
