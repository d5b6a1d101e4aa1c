//! Datasets whose layout no options pack: `pack FOLDER` prints a command, and the command packs images with their classes and files.

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, root, run};

use crate::{
    boxes::objects,
    known_layouts::{help, words},
    layout_table::{BOX, OBJECT},
    listed_layouts::{assert_packed, run_printed},
};

/// The refusal of a source, with this text.
fn refused(bench: &Bench, text: &str) -> Ran {
    bench.pack(&[]).code(2).clean_error().says(text)
}

#[test]
fn the_printed_command_packs_imagenet() {
    for above in ["", "imagenet-object-localization-challenge/"] {
        let images = [
            "train/n01440764/n01440764_1.JPEG",
            "train/n01443537/n01443537_2.JPEG",
            "train/n01443537/n01443537_3.JPEG",
            "val/ILSVRC2012_val_00000001.JPEG",
            "val/ILSVRC2012_val_00000002.JPEG",
            "test/ILSVRC2012_test_00000001.JPEG",
        ];
        let at = |image: &str| format!("{above}ILSVRC/Data/CLS-LOC/{image}");
        let bench = Bench::with(&images.map(at).each_ref().map(String::as_str));
        bench.file(format!("{above}ILSVRC/Annotations/CLS-LOC/val/ILSVRC2012_val_00000001.xml"), OBJECT.as_bytes());
        bench.file(
            format!("{above}LOC_val_solution.csv"),
            b"ImageId,PredictionString\nILSVRC2012_val_00000001,n01443537 1 1 5 5 n01443537 2 2 5 5 \nILSVRC2012_val_00000002,n01440764 1 1 5 5 \n",
        );
        let ran = refused(&bench, "a list of the classes of the images in val; it leaves out test");
        run_printed(&bench, &ran, " packs each image with its class");
        assert_packed(&bench, &[("train", 3), ("val", 2)], 2);
    }
}

#[test]
fn the_printed_command_packs_tiny_imagenet() {
    let bench = Bench::with(&[
        "train/n01443537/images/n01443537_0.JPEG",
        "train/n01629819/images/n01629819_0.JPEG",
        "val/images/val_0.JPEG",
        "val/images/val_1.JPEG",
        "test/images/test_0.JPEG",
    ]);
    bench.file("train/n01443537/n01443537_boxes.txt", b"n01443537_0.JPEG\t0\t10\t63\t58\n");
    bench.file("val/val_annotations.txt", b"val_0.JPEG\tn01629819\t0\t32\t44\t62\nval_1.JPEG\tn01443537\t0\t1\t4\t6\n");
    bench.file("wnids.txt", b"n01443537\nn01629819\n");
    let ran = refused(&bench, "a list of the classes of the images in val; it leaves out test");
    run_printed(&bench, &ran, " packs each image with its class");
    assert_packed(&bench, &[("train", 2), ("val", 2)], 2);
    let val = Dataset::open(bench.at("packed/val")).unwrap();
    let labels: Vec<_> = (0..2).map(|number| val.sample(number).unwrap().label()).collect();
    assert_ne!(labels[0], labels[1]);
}

#[test]
fn the_printed_command_packs_kitti_with_a_folder_for_each_archive() {
    let at = |path: &str| format!("data_object_image_2/{path}");
    let images = ["training/image_2/000000.png", "training/image_2/000001.png", "testing/image_2/000000.png"].map(at);
    let bench = Bench::with(&images.each_ref().map(String::as_str));
    let car = "Car 0.00 0 -1.58 1 1 5 5.5 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n";
    (0..2).for_each(|n| bench.file(format!("data_object_label_2/training/label_2/00000{n}.txt"), car.as_bytes()));
    bench.file("data_object_calib/training/calib/000000.txt", b"P0: 1");
    let ran = refused(&bench, "label files of KITTI in data_object_label_2; it leaves out data_object_calib");
    run_printed(&bench, &ran, " packs each image with its boxes");
    assert_packed(&bench, &[("training", 2), ("testing", 1)], 0);
    let boxes = objects(&bench.at("packed/training"));
    assert!(boxes.values().all(|boxes| *boxes == [([1.0, 1.0, 5.0, 5.5], 0)]), "{boxes:?}");
}

#[test]
fn datasets_of_flaws_side_by_side_are_packed_one_by_one() {
    let of = |name: &str| {
        ["train/good/000.png", "test/good/001.png", "test/cut/000.png"].map(|image| format!("{name}/{image}"))
    };
    let images = [of("bottle"), of("cable")].concat();
    let bench = Bench::with(&images.iter().map(String::as_str).collect::<Vec<_>>());
    ["bottle", "cable"].iter().for_each(|name| bench.file(format!("{name}/ground_truth/cut/000_mask.png"), b"mask"));
    let ran =
        refused(&bench, "2 datasets in folders, bottle the first").says("pack each other folder into a DST of its own");
    run_printed(&bench, &ran, "packs the first");
    assert_packed(&bench, &[("train", 1), ("test", 2)], 2);
}

#[test]
fn class_folders_with_files_in_folders_of_the_same_names_keep_their_classes() {
    // Stanford Dogs, whose annotations have no extension; Caltech-101.
    for (images, beside, file, content) in [
        ("Images", "Annotation", "n02085620_1{n}", OBJECT),
        ("101_ObjectCategories", "Annotations", "annotation_000{n}.mat", "mat"),
    ] {
        let image = file.replace("annotation", "image");
        let image = image.split('.').next().unwrap();
        let numbered = |name: &str, number: usize| name.replace("{n}", &number.to_string());
        let bench = Bench::new();
        for class in ["n02085620-Chihuahua", "n02085782-Japanese_spaniel"] {
            for number in 1..=2 {
                let name = format!("{images}/{class}/{}.jpg", numbered(image, number));
                bench.file(name, &shardpack_testing::jpeg(number as u64, 5000));
                bench.file(format!("{beside}/{class}/{}", numbered(file, number)), content.as_bytes());
            }
        }
        let ran = refused(&bench, "hold files of the same names: pairs, and no classes");
        let with_classes =
            ran.stderr.split("; shardpack pack").nth(1).map(|text| format!("help: shardpack pack{text}"));
        let ran = Ran { stderr: with_classes.unwrap(), ..ran };
        run_printed(&bench, &ran, " packs them with the folders as classes");
        assert_packed(&bench, &[("", 4)], 2);
        let packed = Dataset::open(bench.at("packed")).unwrap();
        let components = &packed.manifest().components;
        let expected = if content == OBJECT { "boxes.npy" } else { "annotation.mat" };
        assert!(components.iter().any(|component| component == expected), "{components:?}");
    }
}

#[test]
fn images_of_another_split_are_no_counterparts() {
    let bench = Bench::with(&[
        "ch4_test_images/img_1.jpg",
        "ch4_test_images/img_2.jpg",
        "ch4_training_images/img_1.jpg",
        "ch4_training_images/img_2.jpg",
    ]);
    (1..=2).for_each(|n| bench.file(format!("Challenge4_Test_Task1_GT/gt_img_{n}.txt"), b"1,1,5,1,5,5,1,5,a\n"));
    let ran = refused(&bench, "it leaves out ch4_training_images");
    assert!(!ran.stderr.contains("../ch4_training_images"), "{}", ran.stderr);
}

#[test]
fn a_question_with_splits_that_were_named_is_not_put_again() {
    let bench = Bench::with(&["train/n01/images/n01_0.JPEG", "train/n02/images/n02_0.JPEG", "val/images/val_0.JPEG"]);
    bench.file("val/val_annotations.txt", b"val_0.JPEG\tn01\t0\t32\t44\t62\n");
    bench.pack(&["--splits", "train"]).code(0);
    let classes = Bench::with(&["cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/2.jpg"]);
    // Of two images, three lines are no boxes of frames.
    ["cat", "dog"].iter().for_each(|name| classes.file(format!("{name}/groundtruth.txt"), b"1\n2\n3\n"));
    classes.pack(&[]).code(0);
}

#[test]
fn imagenet_with_classes_in_val_has_no_command_that_needs_images_there() {
    let at = |image: &str| format!("ILSVRC/Data/CLS-LOC/{image}");
    let images = ["train/n01/1.JPEG", "train/n02/2.JPEG", "val/n01/3.JPEG", "val/n02/4.JPEG"].map(at);
    let bench = Bench::with(&images.each_ref().map(String::as_str));
    bench.file("LOC_val_solution.csv", b"ImageId,PredictionString\n3,n01 1 1 5 5 \n4,n02 1 1 5 5 \n");
    let ran = bench.pack(&[]).code(2);
    assert!(!ran.stderr.contains("awk"), "{}", ran.stderr);
}

#[test]
fn each_layout_that_is_called_after_a_dataset_has_a_row_in_the_table() {
    let page = std::fs::read_to_string(root().join("docs/how-to/layouts.md")).unwrap();
    for name in ["ImageNet", "Tiny ImageNet", "Stanford Dogs", "Food-101", "FGVC-Aircraft", "CUB"] {
        assert!(page.contains(&format!("| {name}")) || page.contains(&format!(", {name}")), "{name}");
    }
    for layout in &crate::published_table::PUBLISHED {
        assert!(page.contains(layout.name), "{}", layout.name);
    }
}

/// The files of the component `name` by the paths of their images.
fn companions(bench: &Bench, name: &str) -> Vec<(String, String)> {
    let dataset = Dataset::open(bench.dst()).unwrap();
    let component = dataset.manifest().components.iter().position(|one| one == name).unwrap();
    let of = |number| {
        let sample = dataset.sample(number).unwrap();
        let file = sample.content(component).unwrap().unwrap_or_default();
        (String::from_utf8_lossy(sample.row().path).into_owned(), String::from_utf8(file.into_owned()).unwrap())
    };
    let mut all: Vec<_> = (0..dataset.len()).map(of).collect();
    all.sort();
    all
}

/// Packs `bench` with the options that `pack` prints.
fn pack_printed(bench: &Bench, text: &str) -> Ran {
    let options = words(&help(refused(bench, text)));
    bench.pack(&options.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn images_of_other_cases_are_no_counterparts() {
    let images = ["case1_1", "case1_2", "case2_1", "case2_2"].map(|stem| format!("images/{stem}.png"));
    let tests = ["test/case9_1.png", "test/case9_2.png"];
    let names: Vec<&str> = images.iter().map(String::as_str).chain(tests).collect();
    let bench = Bench::with(&names);
    images.iter().for_each(|image| bench.file(image.replace("images", "masks"), image.as_bytes()));
    pack_printed(&bench, "it leaves out test").code(0);
    assert_eq!(companions(&bench, "mask.png"), images.map(|image| (image.clone(), image)));
    assert_eq!(Dataset::open(bench.dst()).unwrap().manifest().components.len(), 2);
}

#[test]
fn files_of_no_image_are_counted_and_are_no_images() {
    // Below splits, masks would be images of the split.
    let images = ["train/images/1.png", "train/images/2.png", "val/images/3.png"];
    let bench = Bench::with(&images);
    for (mask, split) in [("1_1", "train"), ("1_2", "train"), ("2_1", "train"), ("3_1", "val"), ("3_2", "val")] {
        bench.file(format!("{split}/masks/{mask}.png"), mask.as_bytes());
    }
    pack_printed(&bench, "it leaves out 2 files of masks").code(0);
    assert_packed_splits(&bench, &[("train", 2), ("val", 1)]);
    // Several inputs of a target: one of each is packed, and the others are counted.
    let bench = Bench::with(&["clear/1.png", "clear/2.png"]);
    for input in ["1_1", "1_2", "2_1", "2_2"] {
        bench.file(format!("hazy/{input}_0.9.png"), input.as_bytes());
    }
    pack_printed(&bench, "it leaves out 2 files of hazy").code(0);
    assert_eq!(companions(&bench, "hazy.png").len(), 2);
}

/// Asserts that each split has so many samples.
fn assert_packed_splits(bench: &Bench, splits: &[(&str, u64)]) {
    for (split, samples) in splits {
        assert_eq!(Dataset::open(bench.dst().join(split)).unwrap().len(), *samples, "{split}");
    }
}

#[test]
fn class_folders_with_lists_of_splits_have_a_note() {
    let names = ["a/a1.jpg", "a/a2.jpg", "b/b1.jpg", "b/b2.jpg"];
    let bench = Bench::with(&names);
    bench.file("train.csv", b",Filename,Label\n0,a/a1.jpg,0\n1,b/b1.jpg,1\n");
    bench.pack(&[]).code(0).says_not("lists of their splits");
    bench.file("test.csv", b",Filename,Label\n2,a/a2.jpg,0\n3,b/b2.jpg,1\n");
    let note = "images, and lists of their splits in test.csv, train.csv, and all are packed as one dataset: ";
    let noted = bench.pack_to(&bench.at("noted"), &[]).code(0);
    noted.says(note).says("shardpack pack --split test=");
    let src = bench.src();
    let list = |split: &str| format!("{split}={}/{split}.csv", src.to_str().unwrap());
    let dst = bench.at("splits");
    run(&["pack", "--split", &list("test"), "--split", &list("train"), dst.to_str().unwrap()]).code(0);
    assert_eq!(Dataset::open(dst.join("test")).unwrap().len(), 2);
}

#[test]
fn json_that_is_no_list_says_so() {
    let bench = Bench::with(&["1.jpg"]);
    for text in [r#"{"train": [["1.jpg", 0, "cat"]]}"#, r#"{"data": [{"image": "1.jpg"}]}"#] {
        bench.file("list.json", text.as_bytes());
        let list = bench.src().join("list.json");
        let ran = run(&["pack", list.to_str().unwrap(), bench.dst().to_str().unwrap()]);
        ran.code(1).says("neither a list of objects nor COCO").says_not("its images");
    }
}

#[test]
fn class_folders_that_look_like_a_layout_are_classes() {
    let numbered = |folders: &[&str], name: &dyn Fn(&str, usize) -> String| -> Vec<String> {
        let of = |folder: &&str| (1..=4).map(|number| format!("{folder}/{}", name(folder, number))).collect::<Vec<_>>();
        folders.iter().flat_map(of).collect()
    };
    let plain = |_: &str, number: usize| format!("{number}.jpg");
    let own = |folder: &str, number: usize| format!("{}{number}.jpg", folder.rsplit('/').next().unwrap());
    let splits = ["train/left", "train/right", "train/straight", "val/left", "val/right", "val/straight"];
    for (images, list, classes) in [
        (numbered(&["Normal", "Polyp", "Low-grade IN", "High-grade IN"], &plain), "", 4),
        (numbered(&["low", "medium", "high"], &plain), "", 3),
        (numbered(&["mask", "helmet", "vest"], &own), "", 3),
        (numbered(&splits, &own), "", 3),
        (numbered(&["cat", "dog"], &own), r#"{"annotations": [{"image_id": 1, "category_id": 3, "score": 0.4}]}"#, 2),
        (
            numbered(&["cat", "dog"], &own),
            r#"{"images": [{"id": 1, "file_name": "cat/cat1.jpg"}], "annotations": [{"id": 1, "image_id": 1, "category_id": 3}], "categories": [{"id": 3, "name": "x"}]}"#,
            2,
        ),
    ] {
        let bench = Bench::with(&images.iter().map(String::as_str).collect::<Vec<_>>());
        if !list.is_empty() {
            bench.file("list.json", list.as_bytes());
        }
        bench.pack(&[]).code(0).says(&format!("{} images in {classes} classes", images.len()));
    }
}

#[test]
fn questions_fit_what_is_there() {
    let boxes = |bench: &Bench, text: &str| bench.pack(&[]).code(2).clean_error().says(text);
    // Vectors and texts are no boxes, and a list of names hides no kind of label files.
    let bench = Bench::with(&["0.jpg", "1.jpg"]);
    bench.file("0.txt", b"1 0 0 0 0");
    bench.file("1.txt", b"0 1 0 0 0");
    boxes(&bench, "--no-labels --with txt packs");
    bench.file("0.txt", b"0 .5 .5 .1 .1");
    bench.file("1.txt", b"a text");
    boxes(&bench, "--no-labels --with txt packs");
    let kitti = b"Car 0.00 0 -1.58 1 1 5 5.5 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n";
    ["0.txt", "1.txt"].iter().for_each(|name| bench.file(name, kitti));
    bench.file("classes.txt", b"Car\n");
    boxes(&bench, "--no-labels --with 'boxes=kitti:*.txt' packs");
    // Frames of videos, as CVAT exports them.
    let bench = Bench::with(&["obj_train_data/a/1.jpg", "obj_train_data/b/1.jpg"]);
    ["a/1.txt", "b/1.txt"].iter().for_each(|name| bench.file(format!("obj_train_data/{name}"), BOX.as_bytes()));
    bench.file("obj.names", b"cat\ndog\n");
    pack_printed(&bench, "images in obj_train_data, with label files").code(0).says_not("no class names");
    // Sequences in a folder that is called as a split are no splits of their masks.
    let bench = Bench::with(&["training/a/0.jpg", "training/b/0.jpg"]);
    ["a", "b"].iter().for_each(|folder| bench.file(format!("GT/{folder}/0_mask.png"), b"mask"));
    pack_printed(&bench, "training, GT hold files of the same names").code(0);
    assert_eq!(companions(&bench, "gt.png").len(), 2);
    // A camera has fewer images than the other.
    let left = (0..10).map(|number| format!("left/cam0_{number:04}.png"));
    let right = (0..8).map(|number| format!("right/cam1_{number:04}.png"));
    let names: Vec<String> = left.chain(right).collect();
    let bench = Bench::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let ran = pack_printed(&bench, "left, right hold files of the same names").code(0);
    ran.says("2 of 10 images without right.png");
    // A case without a channel.
    let volumes = ["imagesTr/a_0000.nii.gz", "imagesTr/a_0001.nii.gz", "imagesTr/b_0000.nii.gz"];
    let bench = Bench::new();
    volumes
        .iter()
        .chain(&["labelsTr/a.nii.gz", "labelsTr/b.nii.gz"])
        .for_each(|name| bench.file(name, name.as_bytes()));
    pack_printed(&bench, "volumes in imagesTr, and their labels in labelsTr").code(0);
    assert_eq!(companions(&bench, "channel1.gz")[1], ("imagesTr/b_0000.nii.gz".to_owned(), String::new()));
}

#[test]
fn lists_of_splits_whose_files_share_a_name_are_not_joined() {
    let bench = Bench::with(&["train/a.jpg", "train/same.jpg", "test/b.jpg", "test/same.jpg"]);
    bench.file("train.csv", b"image,label\na.jpg,x\nsame.jpg,x\n");
    bench.file("test.csv", b"image,label\nb.jpg,x\nsame.jpg,x\n");
    refused(&bench, "a list of them in train.csv, which does not name those of test");
    let bench = Bench::with(&["train/a.jpg", "train/c.jpg", "test/b.jpg", "test/d.jpg"]);
    bench.file("train.csv", b"image,label\na.jpg,x\nc.jpg,x\n");
    bench.file("test.csv", b"image,label\nb.jpg,x\nd.jpg,x\n");
    let ran = refused(&bench, "lists of their splits in test.csv, train.csv");
    run_printed(&bench, &ran, " packs each image with its class");
    assert_packed(&bench, &[("train", 2), ("test", 2)], 1);
}

#[test]
fn a_list_with_several_categories_an_image_is_packed_without_classes() {
    let bench = Bench::with(&["train/1.jpg", "train/2.jpg"]);
    bench.file(
        "list.json",
        br#"{"images": [{"id": 0, "file_name": "1.jpg"}, {"id": 1, "file_name": "2.jpg"}], "annotations": [{"id": 0, "image_id": 0, "category_id": 0}, {"id": 1, "image_id": 0, "category_id": 1}, {"id": 2, "image_id": 1, "category_id": 1}], "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}]}"#,
    );
    let ran = refused(&bench, "images, and their categories in list.json");
    run_printed(&bench, &ran, " packs each image with its annotations");
    assert_packed(&bench, &[("", 2)], 0);
}
