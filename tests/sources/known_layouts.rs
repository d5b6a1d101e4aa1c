//! Layouts of docs/how-to/layouts.md: each is recognised, and the options that `pack` prints pack what belongs together.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, contents, jpeg, root, run};

use crate::{
    layout_table::{BOX, LAYOUTS, Layout, OBJECT},
    published_table::PUBLISHED,
};

/// The words of a shell command without escapes.
pub fn words(text: &str) -> Vec<String> {
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
pub fn help(ran: Ran) -> String {
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
    for (number, layout) in LAYOUTS.iter().chain(&PUBLISHED).enumerate() {
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
            let (give, own) = help.strip_prefix("shardpack pack ").and_then(|help| help.split_once(" DST ")).unwrap();
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
fn masks_of_flaws_go_to_the_images_of_the_test_split() {
    let bench = tree(
        &Layout {
            name: "MVTec AD",
            images: &["train/good/000.png", "test/good/000.png", "test/cut/000.png", "test/cut/001.png"],
            others: &[("ground_truth/cut/000_mask.png", "zero"), ("ground_truth/cut/001_mask.png", "one")],
            components: &[],
            splits: &[],
        },
        "",
    );
    let printed = words(&help(bench.pack(&[])));
    let dst = bench.dst();
    let command: Vec<&str> = printed.iter().map(|word| if word == "DST" { path(&dst) } else { word }).collect();
    run(&command[1..]).code(0);
    let masks = |split: &str| -> BTreeSet<(String, Option<String>)> {
        let dataset = Dataset::open(dst.join(split)).unwrap();
        let mask = dataset.manifest().components.iter().position(|name| name == "mask.png").unwrap();
        let of = |number| {
            let sample = dataset.sample(number).unwrap();
            let mask = sample.content(mask).unwrap().map(|mask| String::from_utf8(mask.into_owned()).unwrap());
            (String::from_utf8_lossy(sample.row().path).into_owned(), mask)
        };
        (0..dataset.len()).map(of).collect()
    };
    let of = |path: &str, mask: Option<&str>| (path.to_owned(), mask.map(str::to_owned));
    assert_eq!(masks("train"), [of("good/000.png", None)].into());
    assert_eq!(
        masks("test"),
        [of("good/000.png", None), of("cut/000.png", Some("zero")), of("cut/001.png", Some("one"))].into()
    );
}

#[test]
fn each_layout_is_named_and_the_printed_options_pack_it() {
    for layout in LAYOUTS.iter().chain(&PUBLISHED) {
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
fn folders_in_classes_whose_files_have_other_names_are_no_pairs() {
    // A class without the counterparts of the others, which are boxes.
    let boxes = Bench::with(&["a/images/1.jpg", "b/images/2.jpg", "flat/3.jpg"]);
    for name in ["a/annotations/1.xml", "b/annotations/2.xml"] {
        boxes.file(name, OBJECT.as_bytes());
    }
    let options = words(&help(boxes.pack(&[])));
    boxes.pack(&options.iter().map(String::as_str).collect::<Vec<_>>()).code(0).says("3 images in 3 classes");
    // Numbers that match by chance; pairs of a class alone; classes that are called as one split.
    for (files, says) in [
        (
            &["cat/images/c_1.jpg", "cat/masks/c_5.jpg", "dog/images/c_1.jpg", "dog/masks/c_5.jpg"][..],
            "the same folders in them",
        ),
        (&["a/Images/1.jpg", "a/Masks/1.jpg", "b/images/2.jpg", "b/masks/2.jpg"], "pairs in each folder"),
        (
            &[
                "bullet_train/images/1.jpg",
                "bullet_train/masks/1.jpg",
                "steam_train/images/1.jpg",
                "steam_train/masks/1.jpg",
            ],
            "--include '*/images/**'",
        ),
    ] {
        Bench::with(files).pack(&[]).code(2).says(says);
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
fn lists_of_voc_that_are_empty_or_name_no_images_are_named() {
    let bench = Bench::new();
    let object = OBJECT.replace("<name>", "<difficult>False</difficult><name>");
    for number in 1..=3 {
        bench.file(format!("JPEGImages/{number}.jpg"), &jpeg(number, 5000));
        bench.file(format!("Annotations/{number}.xml"), object.as_bytes());
    }
    bench.file("ImageSets/Main/train.txt", b"1\n9\n2\n");
    bench.file("ImageSets/Main/val.txt", b"");
    bench.file("ImageSets/Main/test.txt", b"3\n");
    let text = bench.pack(&[]).code(2).stderr.clone();
    let (_, command) = text.split_once("these files; shardpack ").unwrap();
    let (command, notes) = command.split_once(" packs the splits of ImageSets/Main").unwrap();
    assert!(
        notes.starts_with(", without val.txt, which names no image of JPEGImages, without 1 id that has no image;"),
        "{notes}"
    );
    let (dst, command) = (bench.dst(), words(command));
    let command: Vec<&str> = command.iter().map(|word| if word == "DST" { path(&dst) } else { word }).collect();
    run(&command).code(0).says_not("difficult");
    let of = |split: &str| Dataset::open(dst.join(split)).unwrap().len();
    assert_eq!((of("train"), of("test")), (2, 1));
    for id in ["a b", "a.1", "a,1"] {
        bench.file(format!("JPEGImages/{id}.jpg"), &jpeg(8, 5000));
        bench.file("ImageSets/Main/val.txt", id.as_bytes());
        bench.pack(&[]).code(2).says(&format!("ImageSets/Main has the id {id}: ")).says_not("--split ");
    }
}

#[test]
fn splits_without_files_are_left_out_by_the_printed_option() {
    let bench = Bench::new();
    for (number, name) in ["train/x/1.jpg", "train/y/2.jpg", "valid/x/3.jpg", "valid/y/4.jpg"].iter().enumerate() {
        bench.file(name, &jpeg(number as u64, 5000));
    }
    for class in ["x", "y"] {
        fs::create_dir_all(bench.src().join("test").join(class)).unwrap();
    }
    let ran = bench.pack(&[]).code(2).says("no images in split test").says("--splits train,valid packs the others");
    assert!(ran.stderr.lines().count() == 2, "{}", ran.stderr);
    bench.pack(&["--splits", "train,valid"]).code(0);
    assert_eq!(Dataset::open(bench.dst().join("valid")).unwrap().len(), 2);
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
    // By speaker, of whom one lacks a text.
    let vctk = Bench::new();
    for (speaker, number) in [("p225", 1), ("p225", 2), ("p226", 1), ("p226", 2)] {
        vctk.file(format!("wav48/{speaker}/{speaker}_00{number}.wav"), b"RIFF....WAVEfmt ");
        vctk.file(format!("txt/{speaker}/{speaker}_00{number}.txt"), b"hello");
    }
    vctk.file("wav48/p227/p227_001.wav", b"RIFF....WAVEfmt ");
    let options = words(&help(vctk.pack(&[])));
    let with = ["--with", "txt=../../txt/{parent}/*.txt", "--on-missing", "empty"];
    assert_eq!(options, [&["--no-labels", "--files", "wav"][..], &with].concat());
    vctk.pack(&options.iter().map(String::as_str).collect::<Vec<_>>()).code(0);
    let dataset = Dataset::open(vctk.dst()).unwrap();
    assert_eq!((dataset.len(), dataset.manifest().components.len()), (5, 2));
    // Two microphones, and one text for both; noise by kind beside sounds.
    for (files, expected, samples) in [
        (
            &[
                "wav48/p1/p1_001_mic1.flac",
                "wav48/p1/p1_001_mic2.flac",
                "wav48/p1/p1_002_mic1.flac",
                "wav48/p1/p1_002_mic2.flac",
                "txt/p1/p1_001.txt",
                "txt/p1/p1_002.txt",
            ][..],
            &[
                "--no-labels",
                "--files",
                "flac",
                "--include",
                "**/*_mic2.flac",
                "--with",
                "txt=../../txt/{parent}/{stem-_mic2}.txt",
            ][..],
            2,
        ),
        (
            &["noise/babble/1.wav", "txt/1.txt", "wavs/1.wav"],
            &["--no-labels", "--files", "wav", "--include", "wavs/**", "--with", "txt=../txt/*.txt"],
            1,
        ),
    ] {
        let bench = Bench::new();
        files.iter().for_each(|name| bench.file(name, name.as_bytes()));
        let options = words(&help(bench.pack(&[])));
        assert_eq!(options, expected);
        bench.pack(&options.iter().map(String::as_str).collect::<Vec<_>>()).code(0);
        assert_eq!(Dataset::open(bench.dst()).unwrap().len(), samples);
    }
}

#[test]
fn images_of_the_same_names_as_jpegs_are_no_images_of_a_class() {
    let bench = Bench::with(&["basement/1.jpg", "basement/2.jpg", "attic/1.jpg", "attic/2.jpg"]);
    ["basement/1.png", "basement/2.png", "attic/1.png"].iter().for_each(|name| bench.file(name, name.as_bytes()));
    let options = words(&help(bench.pack(&[])));
    assert_eq!(options, ["--with", "png", "--on-missing", "empty"]);
    bench.pack(&options.iter().map(String::as_str).collect::<Vec<_>>()).code(0);
    let dataset = Dataset::open(bench.dst()).unwrap();
    assert_eq!(
        (dataset.len(), dataset.manifest().components.clone()),
        (4, ["jpg", "cls", "png"].map(str::to_owned).to_vec())
    );
    // Numbers of few images match by chance.
    let chance = Bench::with(&["cat/label_1.jpg", "cat/label_2.jpg", "cat/1.jpg", "cat/2.jpg", "cat/3.jpg"]);
    (1..=9).for_each(|number| chance.file(format!("dog/{number}.jpg"), &jpeg(number, 5000)));
    chance.pack(&[]).code(0).says("14 images in 2 classes");
}

#[test]
fn letters_of_globs_in_names_of_folders_are_escaped_in_printed_options() {
    let bench = Bench::with(&["images [raw]/1.jpg", "images [raw]/2.jpg", "thumbs/9.jpg"]);
    for number in 1..=2 {
        bench.file(format!("masks/{number}_mask.gif"), b"mask");
    }
    let options = words(&help(bench.pack(&[])));
    assert!(options.contains(&"images [[]raw[]]/**".to_owned()), "{options:?}");
    bench.pack(&options.iter().map(String::as_str).collect::<Vec<_>>()).code(0);
    assert_eq!(Dataset::open(bench.dst()).unwrap().len(), 2);
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

#[test]
fn masks_beside_images_of_classes_are_no_images_of_the_classes() {
    let normal = ["normal/1.jpg", "normal/2.jpg", "normal/3.jpg", "normal/4.jpg", "normal/5.jpg"];
    for (images, masks, splits, options) in [
        // Below splits.
        (
            &["train/benign/1.jpg", "train/cancer/2.jpg", "val/benign/3.jpg", "val/cancer/4.jpg"][..],
            &["train/benign/1_mask.png", "train/cancer/2_mask.png", "val/benign/3_mask.png", "val/cancer/4_mask.png"][..],
            &[("train", 2), ("val", 2)][..],
            "--with 'mask=*_mask.png'",
        ),
        // A split without masks, in folders of classes, and a mask without its image.
        (
            &["train/benign/a/1.jpg", "train/benign/a/2.jpg", "train/cancer/3.jpg", "val/benign/4.jpg"],
            &["train/benign/a/1_mask.png", "train/benign/a/2_mask.png", "train/cancer/9_mask.png"],
            &[("train", 3), ("val", 1)],
            "--with 'mask=*_mask.png' --on-missing empty",
        ),
        // A class without masks, and few masks.
        (
            &[&["benign/1.jpg", "benign/2.jpg", "benign/3.jpg"][..], &normal].concat(),
            &["benign/1_mask.png", "benign/2_mask.png"],
            &[("", 8)],
            "--with 'mask=*_mask.png' --on-missing empty",
        ),
        // Two kinds of masks, and an end of the names of images.
        (
            &["train/a/1_img.jpg", "val/a/2_img.jpg"],
            &["train/a/1_mask.png", "train/a/1_seg.png", "val/a/2_mask.png", "val/a/2_seg.png"],
            &[("train", 1), ("val", 1)],
            "--with 'mask={stem-_img}_mask.png' --with 'seg={stem-_img}_seg.png'",
        ),
    ] {
        let bench = Bench::new();
        for (number, name) in images.iter().chain(masks).enumerate() {
            bench.file(name, &jpeg(number as u64, 5000));
        }
        let printed = help(bench.pack(&[]));
        assert_eq!(printed, options, "{images:?}");
        let count = |options: &[&str], dst: &str| -> Vec<(u64, usize)> {
            let dst = bench.at(dst);
            bench.pack_to(&dst, options).code(0);
            let of = |(split, _): &(&str, u64)| Dataset::open(dst.join(split)).unwrap();
            splits.iter().map(of).map(|one| (one.len(), one.manifest().classes.len())).collect()
        };
        let words = words(&printed);
        let packed = count(&words.iter().map(String::as_str).collect::<Vec<_>>(), "packed");
        let expected: Vec<u64> = splits.iter().map(|(_, samples)| *samples).collect();
        assert_eq!(packed.iter().map(|(samples, _)| *samples).collect::<Vec<_>>(), expected, "{images:?}");
        assert!(packed.iter().all(|(_, classes)| *classes == 2 || !images[0].contains("benign")), "{packed:?}");
        let all = count(&["--include", "**"], "all").iter().map(|(samples, _)| *samples).sum::<u64>();
        assert_eq!(all, (images.len() + masks.len()) as u64, "{images:?}");
    }
}

#[test]
fn images_in_no_split_do_not_count_as_images_without_a_file() {
    let bench = Bench::new();
    let images = ["train/1.jpg", "train/2.jpg", "train_hq/1.jpg", "train_hq/2.jpg", "test/3.jpg", "test_hq/3.jpg"];
    for (number, name) in images.iter().chain(&["train_masks/1_mask.png", "train_masks/2_mask.png"]).enumerate() {
        bench.file(name, &jpeg(number as u64, 5000));
    }
    let printed = words(&help(bench.pack(&[])));
    let options: Vec<&str> = printed.iter().map(String::as_str).collect();
    assert_eq!(options[..3], ["--no-labels", "--splits", "{split}_hq"]);
    bench.pack(&options).code(0).says("1 of 3 images without mask.png");
}

#[test]
fn ends_of_names_that_are_no_masks_are_no_question() {
    let bench = Bench::new();
    for (number, name) in
        ["cat/1.jpg", "cat/1_1.jpg", "cat/2.jpg", "cat/2_copy.jpg", "cat/9_mask.png", "dog/1.jpg", "dog/3_label.jpg"]
            .iter()
            .enumerate()
    {
        bench.file(name, &jpeg(number as u64, 5000));
    }
    bench.pack(&[]).code(0);
    assert_eq!(Dataset::open(bench.dst()).unwrap().len(), 7);
}
