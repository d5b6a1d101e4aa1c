//! Layouts of docs/how-to/layouts.md: each is recognised, and the options that `pack` prints pack what belongs together.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, contents, jpeg, root, run};

/// A layout: its files, the components of its samples, and the samples of each split (`""`: no split).
struct Layout {
    name: &'static str,
    images: &'static [&'static str],
    others: &'static [(&'static str, &'static str)],
    components: &'static [&'static str],
    splits: &'static [(&'static str, u64)],
}

const BOX: &str = "1 0.5 0.5 0.25 0.25";
const OBJECT: &str = "<?xml version=\"1.0\"?>\n<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object></annotation>";
const COCO: &str = r#"{"images": [{"id": 1, "file_name": "1.jpg"}, {"id": 2, "file_name": "2.jpg"}], "categories": [{"id": 0, "name": "cat"}], "annotations": [{"image_id": 1, "category_id": 0, "bbox": [1, 1, 5, 5]}]}"#;
const BOXES: &[&str] = &["boxes.npy", "box_labels.npy"];

const LAYOUTS: [Layout; 36] = [
    Layout {
        name: "YOLO, as Ultralytics has it",
        images: &["images/train/1.jpg", "images/train/2.jpg", "images/val/3.jpg", "images/test2017/4.jpg"],
        others: &[
            ("labels/train/1.txt", BOX),
            ("labels/train/2.txt", ""),
            ("labels/val/3.txt", BOX),
            ("data.yaml", "names: [a, b]"),
        ],
        components: BOXES,
        splits: &[("train", 2), ("val", 1), ("test2017", 1)],
    },
    Layout {
        name: "YOLO, as Roboflow exports it",
        images: &["train/images/1.jpg", "valid/images/2.jpg", "test/images/3.jpg"],
        others: &[
            ("train/labels/1.txt", BOX),
            ("valid/labels/2.txt", BOX),
            ("test/labels/3.txt", BOX),
            ("data.yaml", "names: [a, b]"),
            ("README.roboflow.txt", "text"),
        ],
        components: BOXES,
        splits: &[("train", 1), ("valid", 1), ("test", 1)],
    },
    Layout {
        name: "YOLO without splits, a background without a file",
        images: &["images/1.jpg", "images/2.jpg"],
        others: &[("labels/1.txt", BOX), ("labels/classes.txt", "a\nb")],
        components: BOXES,
        splits: &[("", 2)],
    },
    Layout {
        name: "YOLO with polygons",
        images: &["images/1.jpg"],
        others: &[("labels/1.txt", "0 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5")],
        components: BOXES,
        splits: &[("", 1)],
    },
    Layout {
        name: "Pascal VOC",
        images: &["JPEGImages/2007_1.jpg", "JPEGImages/2007_2.jpg"],
        others: &[
            ("Annotations/2007_1.xml", "<annotation/>"),
            ("Annotations/2007_2.xml", "<annotation/>"),
            ("SegmentationClass/2007_1.png", "mask"),
            ("SegmentationObject/2007_1.png", "mask"),
            ("ImageSets/Main/train.txt", "2007_1"),
        ],
        components: &["boxes.npy", "box_labels.npy", "mask.png"],
        splits: &[("", 2)],
    },
    Layout {
        name: "ADE20K",
        images: &["images/training/1.jpg", "images/validation/2.jpg"],
        others: &[("annotations/training/1.png", "mask"), ("annotations/validation/2.png", "mask")],
        components: &["annotation.png"],
        splits: &[("training", 1), ("validation", 1)],
    },
    Layout {
        name: "Cityscapes",
        images: &["leftImg8bit/train/bonn/b_0_leftImg8bit.jpg", "leftImg8bit/val/ulm/u_0_leftImg8bit.jpg"],
        others: &[
            ("gtFine/train/bonn/b_0_gtFine_labelIds.png", "mask"),
            ("gtFine/train/bonn/b_0_gtFine_color.png", "mask"),
            ("gtFine/val/ulm/u_0_gtFine_labelIds.png", "mask"),
        ],
        components: &["mask.png"],
        splits: &[("train", 1), ("val", 1)],
    },
    Layout {
        name: "CamVid",
        images: &["train/1.jpg", "test/2.jpg"],
        others: &[("trainannot/1.png", "mask"), ("testannot/2.png", "mask")],
        components: &["mask.png"],
        splits: &[("train", 1), ("test", 1)],
    },
    Layout {
        name: "images and masks",
        images: &["imgs/a.jpg", "imgs/b.jpg"],
        others: &[("masks/a.png", "mask"), ("masks/b.png", "mask")],
        components: &["mask.png"],
        splits: &[("", 2)],
    },
    Layout {
        name: "captions",
        images: &["1.jpg", "2.jpg"],
        others: &[("1.txt", "a cat"), ("2.txt", "a dog")],
        components: &["txt"],
        splits: &[("", 2)],
    },
    Layout {
        name: "LabelMe",
        images: &["1.jpg", "2.jpg"],
        others: &[("1.json", r#"{"version": "5.0.1", "flags": {}, "shapes": []}"#)],
        components: BOXES,
        splits: &[("", 2)],
    },
    Layout {
        name: "VOC in one folder",
        images: &["1.jpg"],
        others: &[("1.xml", "<annotation/>")],
        components: BOXES,
        splits: &[("", 1)],
    },
    Layout {
        name: "texts of other tools",
        images: &["1.jpg", "2.jpg"],
        others: &[("1.json", "{}")],
        components: &["json"],
        splits: &[("", 2)],
    },
    Layout {
        name: "Pascal VOC, as Roboflow exports it",
        images: &["train/1.jpg", "train/2.jpg", "valid/3.jpg"],
        others: &[
            ("train/1.xml", OBJECT),
            ("train/2.xml", "<annotation/>"),
            ("valid/3.xml", OBJECT),
            ("README.roboflow.txt", "text"),
        ],
        components: BOXES,
        splits: &[("train", 2), ("valid", 1)],
    },
    Layout {
        name: "COCO, as Roboflow exports it",
        images: &["train/1.jpg", "train/2.jpg", "test/3.jpg"],
        others: &[
            ("train/_annotations.coco.json", COCO),
            ("test/_annotations.coco.json", r#"{"images": [{"id": 1, "file_name": "3.jpg"}]}"#),
            ("README.dataset.txt", "text"),
        ],
        components: BOXES,
        splits: &[("train", 2), ("test", 1)],
    },
    Layout {
        name: "COCO, as cocodataset.org has it",
        images: &["train2017/1.jpg", "train2017/2.jpg", "val2017/3.jpg", "test2017/4.jpg"],
        others: &[
            ("annotations/instances_train2017.json", COCO),
            ("annotations/instances_val2017.json", r#"{"images": [{"id": 1, "file_name": "3.jpg"}]}"#),
            ("annotations/captions_val2017.json", "{}"),
        ],
        components: BOXES,
        splits: &[("train2017", 2), ("val2017", 1), ("test2017", 1)],
    },
    Layout {
        name: "COCO with folders of splits",
        images: &["images/train2017/1.jpg", "images/train2017/2.jpg"],
        others: &[("annotations/instances_train2017.json", COCO)],
        components: BOXES,
        splits: &[("train2017", 2)],
    },
    Layout {
        name: "masks, as Roboflow exports them",
        images: &["train/1.jpg", "valid/2.jpg"],
        others: &[
            ("train/1_mask.png", "mask"),
            ("train/_classes.csv", "Pixel Value, Class\n0, background\n1, cat\n"),
            ("valid/2_mask.png", "mask"),
            ("valid/_classes.csv", "Pixel Value, Class\n0, background\n1, cat\n"),
        ],
        components: &["mask.png"],
        splits: &[("train", 1), ("valid", 1)],
    },
    Layout {
        name: "images and masks of other names",
        images: &["imgs/1.jpg", "imgs/2.jpg", "imgs/3.jpg"],
        others: &[("masks/1_mask.gif", "mask"), ("masks/2_mask.gif", "mask"), ("masks/3_mask.gif", "mask")],
        components: &["mask.gif"],
        splits: &[("", 3)],
    },
    Layout {
        name: "splits in names of folders",
        images: &["train_images/1.jpg", "train_images/2.jpg", "test_images/3.jpg"],
        others: &[("train_masks/1.png", "mask"), ("train_masks/2.png", "mask")],
        components: &["mask.png"],
        splits: &[("train", 2), ("test", 1)],
    },
    Layout {
        name: "Carvana",
        images: &["train/a1_01.jpg", "train/a2_01.jpg", "test/b1_01.jpg"],
        others: &[("train_masks/a1_01_mask.gif", "mask"), ("train_masks/a2_01_mask.gif", "mask")],
        components: &["mask.gif"],
        splits: &[("train", 2), ("test", 1)],
    },
    Layout {
        name: "paired trees, as pix2pix has them",
        images: &["trainA/1.jpg", "trainA/2.jpg", "testA/3.jpg"],
        others: &[("trainB/1.jpg", "b"), ("trainB/2.jpg", "b"), ("testB/3.jpg", "b")],
        components: &["b.jpg"],
        splits: &[("train", 2), ("test", 1)],
    },
    Layout {
        name: "DIV2K",
        images: &["DIV2K_train_HR/0001.jpg", "DIV2K_train_HR/0002.jpg", "DIV2K_valid_HR/0801.jpg"],
        others: &[
            ("DIV2K_train_LR_bicubic/X4/0001x4.png", "low"),
            ("DIV2K_train_LR_bicubic/X4/0002x4.png", "low"),
            ("DIV2K_train_LR_bicubic/X2/0001x2.png", "low"),
            ("DIV2K_train_LR_bicubic/X2/0002x2.png", "low"),
            ("DIV2K_valid_LR_bicubic/X4/0801x4.png", "low"),
            ("DIV2K_valid_LR_bicubic/X2/0801x2.png", "low"),
        ],
        components: &["x2.png", "x4.png"],
        splits: &[("train", 2), ("valid", 1)],
    },
    Layout {
        name: "HR and LR",
        images: &["HR/0001.jpg", "HR/0002.jpg"],
        others: &[("LR/0001x4.png", "low"), ("LR/0002x4.png", "low")],
        components: &["lr.png"],
        splits: &[("", 2)],
    },
    Layout {
        name: "Oxford pets",
        images: &["images/boxer_1.jpg", "images/boxer_2.jpg"],
        others: &[
            ("annotations/trimaps/boxer_1.png", "mask"),
            ("annotations/trimaps/boxer_2.png", "mask"),
            ("annotations/xmls/boxer_1.xml", OBJECT),
            ("annotations/list.txt", "boxer_1 1 1 1"),
        ],
        components: &["boxes.npy", "box_labels.npy", "trimap.png"],
        splits: &[("", 2)],
    },
    Layout {
        name: "VOC in annotations",
        images: &["images/1.jpg", "images/2.jpg"],
        others: &[("annotations/1.xml", OBJECT), ("annotations/2.xml", "<annotation/>")],
        components: BOXES,
        splits: &[("", 2)],
    },
    Layout {
        name: "KITTI",
        images: &["training/image_2/1.jpg", "training/image_2/2.jpg", "testing/image_2/1.jpg"],
        others: &[
            ("training/label_2/1.txt", "Car"),
            ("training/label_2/2.txt", "Car"),
            ("training/calib/1.txt", "P0"),
            ("training/calib/2.txt", "P0"),
        ],
        components: &["calib.txt", "label_2.txt"],
        splits: &[("training", 2), ("testing", 1)],
    },
    Layout {
        name: "DAVIS",
        images: &["JPEGImages/480p/bear/00000.jpg", "JPEGImages/480p/dog/00000.jpg"],
        others: &[
            ("Annotations/480p/bear/00000.png", "mask"),
            ("Annotations/480p/dog/00000.png", "mask"),
            ("ImageSets/2017/train.txt", "bear"),
        ],
        components: &["annotation.png"],
        splits: &[("", 2)],
    },
    Layout {
        name: "pairs below splits",
        images: &["train/rgb/1.jpg", "train/rgb/2.jpg", "val/rgb/3.jpg"],
        others: &[("train/depth/1.png", "depth"), ("train/depth/2.png", "depth"), ("val/depth/3.png", "depth")],
        components: &["depth.png"],
        splits: &[("train", 2), ("val", 1)],
    },
    Layout {
        name: "BUSI",
        images: &["benign/b (1).jpg", "benign/b (2).jpg", "normal/n (1).jpg"],
        others: &[
            ("benign/b (1)_mask.png", "mask"),
            ("benign/b (1)_mask_1.png", "mask"),
            ("benign/b (2)_mask.png", "mask"),
            ("normal/n (1)_mask.png", "mask"),
        ],
        components: &["mask.png", "mask_1.png"],
        splits: &[("", 3)],
    },
    Layout {
        name: "DeepGlobe",
        images: &["train/1_sat.jpg", "train/2_sat.jpg", "valid/3_sat.jpg"],
        others: &[("train/1_mask.png", "mask"), ("train/2_mask.png", "mask")],
        components: &["mask.png"],
        splits: &[("train", 2), ("valid", 1)],
    },
    Layout {
        name: "images and masks in one folder",
        images: &["1.jpg", "2.jpg"],
        others: &[("1_mask.png", "mask"), ("2_mask.png", "mask")],
        components: &["mask.png"],
        splits: &[("", 2)],
    },
    Layout {
        name: "COCO with one list",
        images: &["images/1.jpg", "images/2.jpg"],
        others: &[("annotations/instances_default.json", COCO)],
        components: BOXES,
        splits: &[("", 2)],
    },
    Layout {
        name: "COCO in one folder",
        images: &["1.jpg", "2.jpg"],
        others: &[("labels.json", COCO)],
        components: BOXES,
        splits: &[("", 2)],
    },
    Layout {
        name: "key points of COCO",
        images: &["train2017/1.jpg", "train2017/2.jpg"],
        others: &[("annotations/person_keypoints_train2017.json", COCO), ("annotations/captions_train2017.json", "{}")],
        components: BOXES,
        splits: &[("train2017", 2)],
    },
    Layout {
        name: "panoptic masks of COCO",
        images: &["train2017/1.jpg", "val2017/2.jpg"],
        others: &[
            ("annotations/panoptic_train2017/1.png", "mask"),
            ("annotations/panoptic_val2017/2.png", "mask"),
            ("annotations/panoptic_val2017.json", "{}"),
        ],
        components: &["panoptic.png"],
        splits: &[("train2017", 1), ("val2017", 1)],
    },
];

/// The words of a shell command without escapes.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut is_quoted, mut word) = (Vec::new(), false, String::new());
    for letter in text.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
            letter => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The files of a layout in `folder` of the source.
fn tree(layout: &Layout, folder: &str) -> Bench {
    let bench = Bench::new();
    for (number, image) in layout.images.iter().enumerate() {
        bench.file(format!("{folder}{image}"), &jpeg(number as u64, 5000));
    }
    for (name, content) in layout.others {
        bench.file(format!("{folder}{name}"), content.as_bytes());
    }
    bench
}

/// The source of `bench` as an archive.
fn zip(bench: &Bench) -> PathBuf {
    let zip = bench.at("tree.zip");
    let script = "import shutil, sys; shutil.make_archive(sys.argv[2], 'zip', sys.argv[1])";
    let python = std::env::var_os("SHARDPACK_PYTHON").unwrap();
    let mut command = Command::new(python);
    command.args(["-c", script]).arg(bench.src()).arg(zip.with_extension(""));
    assert!(command.status().unwrap().success());
    zip
}

/// The help of a refused run, up to the options.
fn help(ran: Ran) -> String {
    let text = ran.code(2).stderr.clone();
    let help = text.lines().find_map(|line| line.trim().strip_prefix("help: ")).unwrap_or_else(|| panic!("{text}"));
    help.split(" packs each").next().unwrap().to_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs `pack SRC DST` with further words.
fn pack(src: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["pack", path(src), path(dst)][..], options].concat())
}

#[test]
fn layouts_in_archives_and_in_the_only_folder_are_packed_as_layouts_in_folders() {
    for (number, layout) in LAYOUTS.iter().enumerate() {
        let bench = tree(layout, "");
        let printed = words(&help(bench.pack(&[])));
        let options: Vec<&str> = printed.iter().map(String::as_str).collect();
        bench.pack(&options).code(0);
        let (archive, zipped) = (zip(&bench), bench.at("zipped"));
        assert_eq!(words(&help(pack(&archive, &zipped, &[]))), printed, "{}", layout.name);
        pack(&archive, &zipped, &options).code(0);
        assert!(contents(&zipped) == contents(&bench.dst()), "{}", layout.name);
        // In one folder, or in two; a folder of images with texts beside them may be a class.
        if !layout.images[0].contains('/') || layout.name == "images and masks" {
            continue;
        }
        let around = if number % 2 == 0 { "data/" } else { "VOCdevkit/VOC2012/" };
        let wrapped = tree(layout, around);
        let (archive, folder) = (zip(&wrapped), wrapped.src());
        for (at, source) in [archive, folder].into_iter().enumerate() {
            let dst = wrapped.at(&format!("wrapped{at}"));
            let help = help(pack(&source, &dst, &[]));
            let (give, own) = help.strip_prefix("give ").and_then(|help| help.split_once(": ")).unwrap();
            assert_eq!(words(own), printed, "{}", layout.name);
            pack(Path::new(give), &dst, &options).code(0);
            assert!(contents(&dst) == contents(&bench.dst()), "{}: {give}", layout.name);
        }
    }
}

#[test]
fn tables_with_a_column_for_each_class_are_packed_as_lists() {
    let layout = Layout {
        name: "several classes, as Roboflow exports them",
        images: &["train/1.jpg", "train/2.jpg", "valid/3.jpg"],
        others: &[
            ("train/_classes.csv", "filename, cat, dog\n1.jpg, 1, 0\n2.jpg, 1, 1\n"),
            ("valid/_classes.csv", "filename, cat, dog\n3.jpg, 0, 1\n"),
        ],
        components: &["json"],
        splits: &[("train", 2), ("valid", 1)],
    };
    let bench = tree(&layout, "");
    let printed = words(&help(bench.pack(&[])));
    let dst = bench.dst();
    let command: Vec<&str> = printed.iter().map(|word| if word == "DST" { path(&dst) } else { word }).collect();
    assert_eq!(command[0], "shardpack");
    run(&command[1..]).code(0);
    let train = Dataset::open(dst.join("train")).unwrap();
    let texts: BTreeSet<String> = (0..train.len())
        .map(|number| {
            String::from_utf8(train.sample(number).unwrap().content(1).unwrap().unwrap().into_owned()).unwrap()
        })
        .collect();
    assert_eq!(texts, [r#"{"cat":" 1","dog":" 0"}"#, r#"{"cat":" 1","dog":" 1"}"#].map(str::to_owned).into());
    assert_eq!(Dataset::open(dst.join("valid")).unwrap().len(), 1);
    pack(&zip(&bench), &bench.at("zipped"), &[])
        .code(2)
        .says("copy or unpack it there; then shardpack pack --split train=");
    let inside = tree(&layout, "data/");
    inside.pack(&[]).code(2).says("data has splits of images").says("/data/train/_classes.csv");
}

#[test]
fn each_layout_is_named_and_the_printed_options_pack_it() {
    for layout in &LAYOUTS {
        let bench = tree(layout, "");
        let options = words(&help(bench.pack(&[])));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        bench.pack(&options).code(0);
        let components: BTreeSet<&str> = layout.components.iter().copied().collect();
        for (split, samples) in layout.splits {
            let dst = bench.dst().join(split);
            let dataset = Dataset::open(&dst).unwrap();
            assert_eq!(dataset.len(), *samples, "{}: {split}", layout.name);
            let own: BTreeSet<&str> = dataset.manifest().components.iter().skip(1).map(String::as_str).collect();
            assert!(own.is_superset(&components), "{}: {own:?}", layout.name);
        }
        let (dst, src) = (bench.dst(), bench.src());
        run(&["verify", dst.to_str().unwrap(), "--against", src.to_str().unwrap()]).code(0);
        // The page has the options in its table, for the folders of its example.
        let page = fs::read_to_string(root().join("docs/how-to/layouts.md")).unwrap();
        let name = layout.name.split(',').next().unwrap();
        assert!(page.contains(name), "{name}");
    }
}

#[test]
fn class_folders_are_no_layout() {
    let bench = Bench::new();
    for name in ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg", "dog/3.jpg"] {
        bench.file(name, &jpeg(name.len() as u64, 5000));
    }
    bench.file("cat/1.txt", b"a text");
    bench.pack(&[]).code(0);
}

#[test]
fn poses_and_folders_of_classes_are_not_taken_for_boxes_and_splits() {
    let bench = Bench::new();
    for name in ["images/cat/1.jpg", "images/dog/2.jpg"] {
        bench.file(name, &jpeg(name.len() as u64, 5000));
    }
    bench.file("labels/cat/1.txt", BOX.as_bytes());
    bench.file("labels/dog/2.txt", BOX.as_bytes());
    bench.pack(&[]).code(2).says("--no-labels --include 'images/**' --with 'boxes=yolo:");
    bench.file("data.yaml", b"kpt_shape: [17, 3]");
    bench.pack(&[]).code(2).says_not("boxes=");
    // The answer to a question of splits is none to a question of pairs.
    let parted = Bench::new();
    for split in ["Train", "Val"] {
        parted.file(format!("{split}/images/1.jpg"), &jpeg(1, 5000));
        parted.file(format!("{split}/labels/1.txt"), BOX.as_bytes());
    }
    parted.pack(&["--splits", "Train,Val"]).code(2).says("--splits Train,Val --with 'boxes=yolo:../labels/*.txt'");
    // Labels in names of images, and masks of the same names.
    let named = Bench::new();
    for name in ["images/cat_1.jpg", "images/dog_2.jpg", "masks/cat_1.jpg", "masks/dog_2.jpg"] {
        named.file(name, &jpeg(name.len() as u64, 5000));
    }
    let pattern = ["--label-pattern", "{label}_{n}"];
    named.pack(&pattern).code(2).says("--include 'images/**' packs only these images");
    named.pack(&[&pattern[..], &["--include", "images/**"]].concat()).code(0);
}

#[test]
fn splits_without_images_are_left_out_by_the_printed_options() {
    let bench = Bench::new();
    for (split, number) in [("train", 1), ("valid", 2)] {
        bench.file(format!("{split}/images/{number}.jpg"), &jpeg(number, 5000));
        bench.file(format!("{split}/labels/{number}.txt"), BOX.as_bytes());
    }
    fs::create_dir_all(bench.src().join("test/images")).unwrap();
    let ran = bench.pack(&[]).code(2).says("no images are in test").says("--splits train,valid --with");
    let options = words(&help(ran));
    bench.pack(&options.iter().map(String::as_str).collect::<Vec<_>>()).code(0);
    run(&["verify", path(&bench.dst()), "--against", path(&bench.src())]).code(0);
}

#[test]
fn the_splits_of_voc_are_lists_in_a_printed_command() {
    let bench = Bench::new();
    for number in 1..=3 {
        bench.file(format!("JPEGImages/2007_{number}.jpg"), &jpeg(number, 5000));
        bench.file(format!("Annotations/2007_{number}.xml"), OBJECT.as_bytes());
    }
    bench.file("ImageSets/Main/train.txt", b"2007_1\n2007_2\n");
    bench.file("ImageSets/Main/val.txt", b"2007_3\n");
    let text = bench.pack(&[]).code(2).stderr.clone();
    let command = text.split("these files; shardpack ").nth(1).unwrap().split(" packs the splits").next().unwrap();
    let dst = bench.dst();
    let command = words(command);
    run(&command.iter().map(|word| if word == "DST" { path(&dst) } else { word }).collect::<Vec<_>>()).code(0);
    let of = |split: &str| Dataset::open(dst.join(split)).unwrap();
    assert_eq!((of("train").len(), of("val").len()), (2, 1));
    assert!(of("val").manifest().components.iter().any(|name| name == "boxes.npy"));
}

#[test]
fn texts_beside_images_of_classes_are_noted_with_the_option_that_packs_them() {
    let bench = Bench::new();
    for (number, name) in ["cat/1", "cat/2", "dog/3"].into_iter().enumerate() {
        bench.file(format!("{name}.jpg"), &jpeg(number as u64, 5000));
    }
    bench.pack(&[]).code(0).says_not("note");
    for name in ["cat/1", "cat/2"] {
        bench.file(format!("{name}.xml"), OBJECT.as_bytes());
    }
    let option = "--with 'boxes=voc:*.xml' --on-missing empty";
    let dst = bench.at("again");
    bench
        .pack_to(&dst, &[])
        .code(0)
        .says(&format!("2 .xml files are not packed, and have the names of images: {option}"));
    let options = words(option);
    bench.pack_to(&dst, &[&options.iter().map(String::as_str).collect::<Vec<_>>()[..], &["--force"]].concat()).code(0);
    let dataset = Dataset::open(&dst).unwrap();
    assert!(dataset.len() == 3 && !dataset.manifest().classes.is_empty());
    assert!(dataset.manifest().components.iter().any(|name| name == "boxes.npy"));
}

#[test]
fn sounds_and_their_texts_are_recognised() {
    let bench = Bench::new();
    for number in 1..=3 {
        bench.file(format!("wavs/{number}.wav"), b"RIFF....WAVEfmt ");
        bench.file(format!("txt/{number}.txt"), b"hello");
    }
    let options = words(&help(bench.pack(&[])));
    assert_eq!(options, ["--no-labels", "--files", "wav", "--with", "txt=../txt/*.txt"]);
    bench.pack(&options.iter().map(String::as_str).collect::<Vec<_>>()).code(0);
    let dataset = Dataset::open(bench.dst()).unwrap();
    assert_eq!((dataset.len(), dataset.manifest().components.len()), (3, 2));
    // LJSpeech has a list.
    let listed = Bench::new();
    for number in 1..=3 {
        listed.file(format!("wavs/LJ-{number}.wav"), b"RIFF....WAVEfmt ");
    }
    listed.file("metadata.csv", b"LJ-1|One, 1|one\nLJ-2|Two|two\nLJ-3|Three|three\n");
    let dst = listed.dst();
    let command = words(&help(listed.pack(&[])));
    run(&command[1..].iter().map(|word| if word == "DST" { path(&dst) } else { word }).collect::<Vec<_>>()).code(0);
    let dataset = Dataset::open(&dst).unwrap();
    assert!(dataset.len() == 3 && dataset.manifest().components.iter().any(|name| name == "json"));
}

#[test]
fn names_of_persons_below_splits_are_labels_by_the_printed_options() {
    let bench = Bench::new();
    for (number, split) in ["bounding_box_train", "bounding_box_test"].into_iter().enumerate() {
        for (person, camera) in [(2, 1), (2, 2), (7, 1), (7, 3)] {
            let name = format!("{split}/000{person}_c{camera}s1_00045{number}_01.jpg");
            bench.file(name, &jpeg(person * 10 + camera + number as u64, 5000));
        }
    }
    let text = bench.pack(&[]).code(2).stderr.clone();
    let options = text.split("help: ").nth(1).unwrap().split(" takes labels").next().unwrap();
    let options = words(options);
    assert_eq!(options[2..], ["--label-pattern", "{label}_c{n}s{n}_{n}_{n}"]);
    bench.pack(&options.iter().map(String::as_str).collect::<Vec<_>>()).code(0);
    let dataset = Dataset::open(bench.dst().join("bounding_box_train")).unwrap();
    assert_eq!((dataset.len(), dataset.manifest().classes.len()), (4, 2));
}
