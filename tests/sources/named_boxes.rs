//! Boxes from label files that name their classes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, contents, run};

use super::{
    box_files::{CLASSES, IMAGES, KINDS, Kind, Objects, image, size_of},
    boxes::objects,
};

/// A tree with the label files of `kind`.
fn tree(kind: &Kind) -> Bench {
    let bench = Bench::new();
    for (name, _) in IMAGES {
        bench.file(format!("{name}.jpg"), &image(name));
    }
    (kind.write)(&bench);
    bench
}

/// The options that pack the tree.
fn options(kind: &Kind) -> Vec<&'static str> {
    vec!["--no-labels", "--splits", "train,valid", "--with", kind.with]
}

/// The objects of `split` as they are packed.
fn expected(split: &str, classes: &[&str]) -> BTreeMap<String, Vec<([f32; 4], i64)>> {
    let of = |(name, objects): &(&str, Objects)| {
        let number = |class: &str| classes.iter().position(|known| *known == class).unwrap() as i64;
        let objects = objects.iter().map(|(class, edges)| (*edges, number(class))).collect();
        (format!("{}.jpg", &name[6..]), objects)
    };
    IMAGES.iter().filter(|(name, _)| name.starts_with(split)).map(of).collect()
}

/// Class names in the manifest.
fn names(dst: &Path) -> Vec<String> {
    let settings = Dataset::open(dst).unwrap().manifest().format.settings.clone();
    let names: BTreeMap<String, Vec<String>> = serde_json::from_str(&settings["component_classes"]).unwrap();
    names["box_labels.npy"].clone()
}

/// The label file of `train/1.jpg`.
fn first_label_file(bench: &Bench) -> PathBuf {
    let files = fs::read_dir(bench.src().join("train")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().unwrap() != "jpg").min().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn label_files_with_names_become_boxes_and_numbers_of_all_splits() {
    for kind in &KINDS {
        let bench = tree(kind);
        let src = bench.src();
        for format in ["webdataset", "tfrecord", "mds"] {
            let dst = bench.at(format);
            let ran = bench.pack_to(&dst, &[&options(kind)[..], &["--format", format]].concat()).code(0);
            ran.says("5 objects in 4 images, none in 1").says_not("no class names");
            for split in ["train", "valid"] {
                assert_eq!(objects(&dst.join(split)), expected(split, &CLASSES), "{} {format}", kind.name);
                assert_eq!(names(&dst.join(split)), CLASSES, "{} {format}", kind.name);
                // One split by itself, whose files name fewer classes.
                run(&["verify", path(&dst.join(split)), "--against", path(&src.join(split))]).code(0);
            }
            run(&["verify", path(&dst), "--against", path(&src)]).code(0);
        }
        // Parts, a plan and an archive give the same bytes.
        let first = contents(&bench.at("webdataset"));
        let parts = bench.at("parts");
        for part in ["2/2", "1/2"] {
            bench.pack_to(&parts, &[&options(kind)[..], &["--part", part]].concat()).code(0);
        }
        run(&["merge", path(&parts)]).code(0);
        assert!(contents(&parts) == first, "{}", kind.name);
        let (plan, planned) = (bench.at("x.plan"), bench.at("planned"));
        run(&[&["plan", path(&src), "-o", path(&plan)][..], &options(kind)].concat()).code(0);
        run(&["pack", "--plan", path(&plan), path(&planned)]).code(0);
        assert!(contents(&planned) == first, "{}", kind.name);
        let (zip, zipped) = (bench.at("tree.zip"), bench.at("zipped"));
        let script = "import shutil, sys; shutil.make_archive(sys.argv[2], 'zip', sys.argv[1])";
        let python = std::env::var_os("SHARDPACK_PYTHON").unwrap();
        let made = Command::new(python).args(["-c", script]).arg(&src).arg(zip.with_extension("")).status().unwrap();
        assert!(made.success());
        run(&[&["pack", path(&zip), path(&zipped)][..], &options(kind)].concat()).code(0);
        assert!(contents(&zipped) == first, "{}", kind.name);
        // Repair makes the same bytes.
        let dst = bench.at("webdataset");
        fs::write(dst.join("train/train-000000.tar"), b"gone").unwrap();
        run(&["verify", path(&dst), "--repair", path(&src)]).code(0);
        assert!(contents(&dst) == first, "{}", kind.name);
    }
}

#[test]
fn resized_images_have_resized_boxes() {
    for kind in &KINDS {
        let bench = tree(kind);
        let resized = [&options(kind)[..], &["--resize", "40x10"]].concat();
        if kind.name == "via" {
            // Its files have no sizes of images.
            bench.pack(&resized).code(1).says("which --resize needs; pack without it, and let convert resize");
            let whole = bench.at("whole");
            bench.pack_to(&whole, &options(kind)).code(0);
            run(&["convert", path(&whole), path(&bench.dst()), "--resize", "40x10", "--force"]).code(0);
        } else {
            bench.pack(&resized).code(0);
        }
        let found = objects(&bench.dst().join("train"));
        let (width, height) = size_of("train/1");
        let scale = |edge: f32, at: usize| edge / [width, height][at % 2] as f32 * [40.0, 10.0][at % 2];
        for (found, expected) in found["1.jpg"].iter().zip(&expected("train", &CLASSES)["1.jpg"]) {
            for at in 0..4 {
                assert!((found.0[at] - scale(expected.0[at], at)).abs() < 1e-3, "{}: {found:?}", kind.name);
            }
        }
    }
}

#[test]
fn each_changed_byte_of_a_label_file_that_changes_an_object_is_found() {
    for kind in &KINDS {
        let bench = tree(kind);
        bench.pack(&options(kind)).code(0);
        let (dst, src) = (bench.dst(), bench.src());
        let file = first_label_file(&bench);
        let before = fs::read_to_string(&file).unwrap();
        // An edge, the name of a class, and the structure.
        for (from, to) in
            [("10", "11"), ("dog", "dxg"), ("traffic", "traffix"), ("}", "]"), ("/annotation", "/annotatiom")]
        {
            if !before.contains(from) {
                continue;
            }
            fs::write(&file, before.replacen(from, to, 1)).unwrap();
            let ran = run(&["verify", path(&dst), "--against", path(&src)]).code(1);
            ran.says("1.jpg");
        }
        fs::write(&file, before).unwrap();
        run(&["verify", path(&dst), "--against", path(&src)]).code(0);
    }
}

#[test]
fn images_of_another_size_than_their_label_files_say_are_bad() {
    // VGG Image Annotator saves no sizes.
    for kind in KINDS.iter().filter(|kind| kind.name != "via") {
        let bench = tree(kind);
        let (width, _) = size_of("train/1");
        let file = first_label_file(&bench);
        let text = fs::read_to_string(&file).unwrap();
        // Each row of CSV has the size.
        let members = [("<width>", 1), ("imageWidth\": ", 1), ("\"width\":", 1), ("width=\"", 1), ("1.jpg,", 2)];
        let (before, times) = members.into_iter().find(|(before, _)| text.contains(before)).unwrap();
        fs::write(&file, text.replacen(&format!("{before}{width}"), &format!("{before}{}", width + 1), times)).unwrap();
        bench.pack(&options(kind)).code(1).says("1.jpg").says("its label file is of an image of");
        let resized = bench.at("resized");
        bench
            .pack_to(&resized, &[&options(kind)[..], &["--resize", "40x10"]].concat())
            .code(1)
            .says("is of an image of");
        let skipped = bench.at("skipped");
        bench.pack_to(&skipped, &[&options(kind)[..], &["--on-bad", "skip"]].concat()).code(0).says("1.jpg");
        assert_eq!(objects(&skipped.join("train")).len(), 1);
    }
}

#[test]
fn names_of_a_description_keep_their_order_and_others_are_bad() {
    let coco = &KINDS[2];
    for kind in KINDS.iter().filter(|kind| kind.name != coco.name) {
        let bench = tree(kind);
        bench.file("classes.txt", b"traffic light\nzebra\nant\ndog\n");
        bench.pack(&options(kind)).code(0);
        let order = ["traffic light", "zebra", "ant", "dog"];
        assert_eq!(names(&bench.dst().join("valid")), order);
        assert_eq!(objects(&bench.dst().join("valid")), expected("valid", &order), "{}", kind.name);
        bench.file("classes.txt", b"traffic light\ndog\n");
        let bad = bench.at("bad");
        bench
            .pack_to(&bad, &options(kind))
            .code(1)
            .says("3.jpg")
            .says("class \"ant\", and the source names 2 classes without it");
    }
    // A file of COCO lists its classes.
    let bench = tree(coco);
    bench.file("classes.txt", b"x\n");
    bench.pack(&options(coco)).code(0);
    assert_eq!(names(&bench.dst().join("train")), CLASSES);
}

#[test]
fn objects_that_are_marked_or_left_out_are_counted() {
    let [voc, labelme, coco, csv, ..] = &KINDS;
    tree(voc).pack(&options(voc)).code(0).says("objects marked difficult, packed as the others: 1");
    let bench = tree(labelme);
    let point = r#"{"shapes": [{"label": "x", "points": [[1, 1]], "shape_type": "point"}]}"#;
    bench.file("train/2.json", point.as_bytes());
    bench.pack(&options(labelme)).code(0).says("shapes of type point, left out because they have no area: 1");
    assert_eq!(names(&bench.dst().join("train")), CLASSES);
    let bench = tree(coco);
    let file = bench.src().join("train/_annotations.coco.json");
    let text = fs::read_to_string(&file).unwrap().replacen("\"iscrowd\":0", "\"iscrowd\":1", 1);
    fs::write(&file, text.replacen("\"2.jpg\"", "\"5.jpg\"", 1)).unwrap();
    bench.pack(&options(coco)).code(1).says("2.jpg").says("is not among the images of train/_annotations.coco.json");
    let empty = bench.at("empty");
    let ran = bench.pack_to(&empty, &[&options(coco)[..], &["--on-missing", "empty"]].concat()).code(0);
    ran.says("annotations of crowds, left out: 1")
        .says("images that are not packed, in train/_annotations.coco.json: 1");
    assert_eq!(objects(&empty.join("train"))["2.jpg"], []);
    let bench_of_csv = tree(csv);
    let rows = "image,xmin,ymin,xmax,ymax\n1.jpg,0,0,0.5,0.25\n9.jpg,0,0,1,1\n";
    bench_of_csv.file("train/_annotations.csv", rows.as_bytes());
    bench_of_csv
        .pack(&[&options(csv)[..], &["--on-missing", "empty"]].concat())
        .code(0)
        .says("boxes without a class, which have the class object, in train/_annotations.csv: 2")
        .says("boxes in fractions of the image, in train/_annotations.csv: 2")
        .says("images that are not packed, in train/_annotations.csv: 1");
    let (width, height) = size_of("train/1");
    let edges = [0.0, 0.0, width as f32 / 2.0, height as f32 / 4.0];
    assert_eq!(objects(&bench_of_csv.dst().join("train"))["1.jpg"], [(edges, 2)]);
    assert_eq!(names(&bench_of_csv.dst().join("train")), ["ant", "dog", "object"]);
    let skip = bench.at("skip");
    bench.pack_to(&skip, &[&options(coco)[..], &["--on-missing", "skip"]].concat()).code(0);
    assert_eq!(objects(&skip.join("train")).len(), 1);
}

#[test]
fn lists_of_coco_have_boxes_too() {
    let coco = &KINDS[2];
    let bench = tree(coco);
    let split = |name: &str| format!("{name}={}", path(&bench.src().join(name).join("_annotations.coco.json")));
    let (train, valid) = (split("train"), split("valid"));
    let dst = bench.at("lists");
    let ran =
        run(&["pack", "--split", &train, "--split", &valid, path(&dst), "--with", "boxes=coco", "--meta", "none"]);
    ran.code(0).says("5 objects in 4 images");
    for split in ["train", "valid"] {
        assert_eq!(objects(&dst.join(split)), expected(split, &CLASSES));
        assert_eq!(names(&dst.join(split)), CLASSES);
        let list = bench.src().join(split).join("_annotations.coco.json");
        run(&["verify", path(&dst.join(split)), "--against", path(&list)]).code(0);
    }
    // Beside the text of the annotations.
    let (list, text) = (bench.src().join("train/_annotations.coco.json"), bench.at("text"));
    run(&["pack", path(&list), path(&text), "--with", "boxes=coco"]).code(0);
    let components = Dataset::open(&text).unwrap().manifest().components.clone();
    assert!(["json", "boxes.npy", "box_labels.npy"].iter().all(|name| components.iter().any(|one| one == name)));
    fs::write(&list, fs::read_to_string(&list).unwrap().replacen("20.0", "19.0", 1)).unwrap();
    run(&["verify", path(&text), "--against", path(&list)]).code(1).says("1.jpg");
    // Other sources have no such list, and captions no boxes.
    bench
        .pack(&["--no-labels", "--with", "boxes=coco"])
        .code(2)
        .says("the source is no list with the annotations of COCO");
    fs::write(
        &list,
        r#"{"images": [{"id": 1, "file_name": "1.jpg"}], "annotations": [{"image_id": 1, "caption": "a"}]}"#,
    )
    .unwrap();
    run(&["pack", path(&list), path(&bench.at("captions")), "--with", "boxes=coco"])
        .code(1)
        .says("no annotation has a bbox");
}

#[test]
fn a_list_of_boxes_is_named_as_one() {
    let csv = &KINDS[3];
    let bench = tree(csv);
    let list = bench.src().join("train/_annotations.csv");
    let text = fs::read_to_string(&list).unwrap();
    // The first image has two boxes.
    let ran = run(&["pack", path(&list), path(&bench.at("rows")), "--no-labels"]).code(0);
    ran.says("each row is packed as an image").says("--no-labels --with boxes=csv:LIST packs each image once");
    assert_eq!(Dataset::open(bench.at("rows")).unwrap().len(), 3);
    let one_each: Vec<&str> = text.lines().enumerate().filter(|(at, _)| *at != 2).map(|(_, line)| line).collect();
    fs::write(&list, one_each.join("\n")).unwrap();
    run(&["pack", path(&list), path(&bench.at("images")), "--no-labels"]).code(0).says_not("boxes=csv");
}

#[test]
fn class_numbers_of_csv_are_the_same_in_all_splits() {
    let csv = &KINDS[3];
    let bench = tree(csv);
    let rows = |images: [&str; 2], classes: &[&str]| {
        let row = |class: &&str| format!("{}.jpg,1,2,3,4,{class}\n", images[0]);
        classes.iter().map(row).collect::<String>() + &format!("{}.jpg,,,,,\n", images[1])
    };
    for (train, valid, order) in [
        (&["10", "9", "A"][..], &["9", "10"][..], &["10", "9", "A"][..]),
        (&["10", "9", "11"], &["9", "2"], &["2", "9", "10", "11"]),
        (&["1.0", "2.0"], &["2"], &["1", "2"]),
    ] {
        bench.file("train/_annotations.csv", rows(["1", "2"], train).as_bytes());
        bench.file("valid/_annotations.csv", rows(["3", "4"], valid).as_bytes());
        bench.pack(&[&options(csv)[..], &["--force"]].concat()).code(0);
        for (split, image, classes) in [("train", "1.jpg", train), ("valid", "3.jpg", valid)] {
            let number =
                |class: &&str| order.iter().position(|one| *one == class.trim_end_matches(".0")).unwrap() as i64;
            let expected: Vec<_> = classes.iter().map(|class| ([1.0, 2.0, 3.0, 4.0], number(class))).collect();
            assert_eq!(objects(&bench.dst().join(split))[image], expected, "{order:?}");
            assert_eq!(names(&bench.dst().join(split)), order);
        }
    }
    // Numbers are indexes of names that are known.
    bench.file("classes.txt", b"a\nb\nc\n");
    bench.pack(&[&options(csv)[..], &["--force"]].concat()).code(0);
    assert_eq!(names(&bench.dst().join("train")), ["a", "b", "c"]);
    assert_eq!(objects(&bench.dst().join("valid"))["3.jpg"], [([1.0, 2.0, 3.0, 4.0], 2)]);
}

#[test]
fn files_of_other_images_are_refused_and_so_are_boxes_outside_of_images() {
    let csv = &KINDS[3];
    let bench = tree(csv);
    for split in ["train", "valid"] {
        let text = fs::read_to_string(bench.src().join(split).join("_annotations.csv")).unwrap();
        bench.file(format!("{split}/_annotations.csv"), text.replace(".jpg", ".png").as_bytes());
    }
    bench
        .pack(&[&options(csv)[..], &["--on-missing", "empty"]].concat())
        .code(1)
        .says("no image of the source is in train/_annotations.csv: it names 1.png, and the source has train/1.jpg");
    // Without the size of images in the file.
    let bench = tree(csv);
    let (width, height) = size_of("train/1");
    let row = format!("image,xmin,ymin,xmax,ymax\n1.jpg,1,1,{},{height}\n2.jpg,,,,\n", width + 9);
    bench.file("train/_annotations.csv", row.as_bytes());
    bench.pack(&options(csv)).code(1).says("1.jpg").says("its label file has a box from").says("leaves the image of");
}

#[test]
fn splits_share_a_file_and_components_have_classes_of_their_own() {
    let csv = &KINDS[3];
    let bench = tree(csv);
    let header = "image,xmin,ymin,xmax,ymax,label\n";
    bench.file("all.csv", format!("{header}1.jpg,1,1,3,3,cat\n3.jpg,1,1,3,3,dog\n").as_bytes());
    bench.file("faces.csv", format!("{header}2.jpg,1,1,3,3,face\n").as_bytes());
    let with = ["--with", "boxes=csv:../all.csv", "--with", "face_boxes=csv:../faces.csv", "--on-missing", "empty"];
    let options = [&["--no-labels", "--splits", "{split}"][..], &with].concat();
    bench.pack(&options).code(0).says_not("images that are not packed");
    let settings = Dataset::open(bench.dst().join("valid")).unwrap().manifest().format.settings.clone();
    let names: BTreeMap<String, Vec<String>> = serde_json::from_str(&settings["component_classes"]).unwrap();
    assert_eq!(
        (&names["box_labels.npy"][..], &names["face_box_labels.npy"][..]),
        (&["cat", "dog"].map(str::to_owned)[..], &["face".to_owned()][..])
    );
    // One name of two samples.
    bench.file("valid/1.jpg", &image("valid/3"));
    let twice = bench.at("twice");
    bench.pack_to(&twice, &options).code(1).says("2 images of the source have the name of one image in it");
}
