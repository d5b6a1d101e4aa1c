//! Tests folders of a tree that may not be classes: each question, and that each answer works.

use std::{fs, path::Path};

use shardpack_format::manifest::Manifest;
use shardpack_testing::{Bench, Dataset, jpeg, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A source of these folders, each with this number of files of an extension, numbered from 0. Each file has bytes of its own.
fn numbered(folders: &[(&str, u64, &str)]) -> Bench {
    let bench = Bench::new();
    for (seed, (folder, files, extension)) in (0u64..).zip(folders) {
        for number in 0..*files {
            let bytes = match *extension {
                "txt" | "xml" | "py" | "npy" => b"x = 1\n".to_vec(),
                _ => jpeg(1000 * seed + number, 5000),
            };
            bench.file(Path::new(folder).join(format!("{number}.{extension}")), &bytes);
        }
    }
    bench
}

fn manifest(folder: &Path) -> Manifest {
    Manifest::read(&fs::read(folder.join("manifest.json")).unwrap()).unwrap()
}

/// Packs a tree that raises a question, then once with the options of each answer, which the help must contain. Each answer has its
/// splits (empty: one dataset) and its classes.
fn asks(row: &str, bench: &Bench, seen: &str, answers: &[(&[&str], &[&str], &[&str])]) {
    let ran = bench.pack(&[]).code(2).clean_error().says(seen);
    assert!(!bench.dst().exists(), "{row}");
    for (number, (options, splits, classes)) in answers.iter().enumerate() {
        let said = options.join(" ").replace("SRC", text(&bench.src()));
        assert!(ran.stderr.replace('\'', "").contains(&said), "{row}: the help does not have {said}:\n{}", ran.stderr);
        let dst = bench.at(&format!("answer-{number}"));
        let options: Vec<String> = options.iter().map(|word| word.replace("SRC", text(&bench.src()))).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        match options.contains(&"--split") {
            true => run(&[&["pack", text(&dst)], options.as_slice()].concat()).code(0),
            false => bench.pack_to(&dst, &options).code(0),
        };
        let folders: Vec<_> = match splits {
            [] => vec![dst.clone()],
            splits => splits.iter().map(|split| dst.join(split)).collect(),
        };
        for folder in folders {
            let packed = manifest(&folder);
            let named: Vec<_> = packed.classes.iter().map(|class| class.name.as_str()).collect();
            assert_eq!(named, *classes, "{row}: {options:?}");
        }
    }
}

#[test]
fn splits_by_other_names_are_a_question_and_each_answer_works() {
    let bench = numbered(&[
        ("training_set/cats", 2, "jpg"),
        ("training_set/dogs", 2, "jpg"),
        ("test_set/cats", 2, "jpg"),
        ("test_set/dogs", 2, "jpg"),
    ]);
    let (splits, named) = (["test_set", "training_set"], ["--splits", "test_set,training_set"]);
    asks(
        "sets of classes",
        &bench,
        "test_set, training_set look like splits",
        &[(&named, &splits, &["cats", "dogs"]), (&["--splits", "none"], &[], &splits)],
    );
    // Each split is in a folder of its own name, as archives unpack.
    let bench = numbered(&[
        ("seg_train/seg_train/sea", 2, "jpg"),
        ("seg_train/seg_train/forest", 2, "jpg"),
        ("seg_test/seg_test/sea", 2, "jpg"),
        ("seg_test/seg_test/forest", 1, "jpg"),
    ]);
    let test = "seg_test=SRC/seg_test/seg_test";
    let answer = ["--split", test, "--split", "seg_train=SRC/seg_train/seg_train"];
    asks(
        "folders in folders",
        &bench,
        "look like splits",
        &[(&answer, &["seg_train", "seg_test"], &["forest", "sea"])],
    );
    let ran = bench.pack(&["--splits", "seg_train,seg_test"]).code(2).clean_error();
    ran.says("split seg_test shares no class with split seg_train").says(&test.replace("SRC", text(&bench.src())));
    let bench = numbered(&[("train/train/a", 2, "jpg"), ("train/train/b", 2, "jpg"), ("test/test/a", 2, "jpg")]);
    let answer = ["--split", "train=SRC/train/train", "--split", "test=SRC/test/test"];
    asks(
        "the same under names of splits",
        &bench,
        "\"train\" there, \"test\" here",
        &[(&answer, &["train"], &["a", "b"])],
    );
    // Without classes.
    let bench = numbered(&[("test/test", 2, "jpg"), ("train/train", 2, "jpg")]);
    asks(
        "archives of images",
        &bench,
        "look like splits without classes",
        &[(&["--no-labels"], &["test", "train"], &[])],
    );
    for tops in
        [["testA", "trainA"], ["train2017", "val2017"], ["train", "trainannot"], ["Test Images", "Train Images"]]
    {
        let bench = numbered(&tops.map(|top| (top, 3, "jpg")));
        let seen = format!("{}, {} look like splits without classes", tops[0], tops[1]);
        let named = tops.join(",");
        let answers: [(&[&str], &[&str], &[&str]); 2] =
            [(&["--no-labels", "--splits", &named], &tops, &[]), (&["--splits", "none"], &[], &tops)];
        asks("without classes", &bench, &seen, if named.contains(' ') { &answers[1..] } else { &answers });
    }
    let bench = numbered(&[("fold1/a", 1, "jpg"), ("fold2/a", 1, "jpg")]);
    asks("folds", &bench, "fold1, fold2", &[(&["--splits", "fold1,fold2"], &["fold1", "fold2"], &["a"])]);
    let bench = numbered(&[("train_images", 2, "jpg"), ("sketches", 2, "jpg"), ("depth", 0, "jpg")]);
    asks(
        "one, and others",
        &bench,
        "train_images looks like a split",
        &[(&["--splits", "none"], &[], &["sketches", "train_images"])],
    );
    // Splits with folders that are not classes, as in Tiny ImageNet.
    let bench = numbered(&[("train/n1/images", 2, "jpg"), ("train/n2/images", 2, "jpg"), ("val/images", 3, "jpg")]);
    let answers: [(&[&str], &[&str], &[&str]); 2] =
        [(&["--splits", "train"], &["train"], &["n1", "n2"]), (&["--no-labels"], &["train", "val"], &[])];
    asks(
        "images of a split",
        &bench,
        "split val shares no class with split train: \"n1\" there, \"images\" here",
        &answers,
    );
    // Few-shot sets have other classes in each split.
    let bench = numbered(&["train/a", "train/b", "test/c", "test/d"].map(|folder| (folder, 1, "jpg")));
    bench.pack(&[]).code(2).clean_error();
    bench.pack(&["--splits", "train,test"]).code(0).says("4 images in 4 classes");
}

#[test]
fn what_has_a_word_of_a_split_by_chance_is_a_class() {
    for tops in [
        &["bullet_train", "car"][..],
        &["train", "car", "plane"],
        &["steam train", "bullet train", "car"],
        &["test_tube", "cup", "bullet_train", "a", "b", "c", "d", "e", "f", "g", "h"],
        &["with_mask", "without_mask"],
    ] {
        let bench = numbered(&tops.iter().map(|top| (*top, 3, "jpg")).collect::<Vec<_>>());
        bench.pack(&[]).code(0);
        Dataset::read(&bench.dst()).check_source(&bench.src());
    }
}

#[test]
fn folders_of_pairs_are_a_question_and_each_answer_works() {
    for (row, tops, with) in [
        ("images and masks", [("imgs", 3, "jpg"), ("masks", 3, "png")], "mask=../masks/*.png"),
        ("large and small", [("HR", 3, "png"), ("LR", 3, "png")], "lr=../LR/*.png"),
        ("boxes", [("images", 3, "jpg"), ("labels", 3, "txt")], "label=../labels/*.txt"),
        ("objects", [("JPEGImages", 3, "jpg"), ("outlines/xmls", 3, "xml")], ""),
        ("outlines deeper, and first", [("images", 3, "jpg"), ("annotations/trimaps", 3, "png")], ""),
    ] {
        let bench = numbered(&tops);
        let first = format!("{}/**", tops[0].0);
        let mut classes: Vec<_> = tops.iter().map(|(top, ..)| top.split('/').next().unwrap()).collect();
        classes.sort_unstable();
        let answers: [(&[&str], &[&str], &[&str]); 2] =
            [(&["--no-labels", "--include", &first], &[], &[]), (&["--splits", "none"], &[], &classes)];
        asks(row, &bench, "hold files of the same names: pairs, and no classes", &answers);
        assert_eq!(manifest(&bench.at("answer-0")).samples, 3, "{row}");
        if !with.is_empty() {
            fs::remove_dir_all(bench.at("answer-0")).unwrap();
            asks(row, &bench, "pairs", &[(&["--no-labels", "--with", with], &[], &[])]);
            let packed = manifest(&bench.at("answer-0"));
            assert_eq!((packed.samples, packed.components.len()), (3, 2), "{row}");
        }
    }
    let bench = numbered(&[
        ("train/images", 2, "jpg"),
        ("train/labels", 2, "txt"),
        ("valid/images", 2, "jpg"),
        ("valid/labels", 2, "txt"),
    ]);
    let (splits, images) = (["train", "valid"], ["--no-labels", "--include", "images/**"]);
    let answers: [(&[&str], &[&str], &[&str]); 2] =
        [(&images, &splits, &[]), (&["--splits", "train,valid"], &splits, &["images", "labels"])];
    asks("in splits", &bench, "images, labels hold files of the same names", &answers);
    run(&["verify", text(&bench.at("answer-1")), "--against", text(&bench.src())]).code(0);
}

#[test]
fn folders_that_only_hold_files_are_a_question_and_each_answer_works() {
    for (seen, tops) in [
        ("all images would be of one class, img_align", &["img_align"][..]),
        ("images_part_1, images_part_2 are numbered parts", &["images_part_1", "images_part_2"]),
        ("2024-01-30, 2024-01-31 are dates", &["2024-01-30", "2024-01-31"]),
    ] {
        let bench = numbered(&tops.iter().map(|top| (*top, 2, "jpg")).collect::<Vec<_>>());
        let answers: [(&[&str], &[&str], &[&str]); 2] =
            [(&["--no-labels"], &[], &[]), (&["--splits", "none"], &[], tops)];
        asks(seen, &bench, seen, &answers);
        assert_eq!(manifest(&bench.at("answer-0")).samples, 2 * tops.len() as u64, "{seen}");
    }
}

#[test]
fn folders_with_the_same_folders_in_them_are_a_question_and_each_answer_works() {
    let bench = numbered(&["north/cat", "north/dog", "south/cat", "south/dog"].map(|folder| (folder, 2, "jpg")));
    let answers: [(&[&str], &[&str], &[&str]); 2] = [
        (&["--splits", "north,south"], &["north", "south"], &["cat", "dog"]),
        (&["--splits", "none"], &[], &["north", "south"]),
    ];
    asks("domains", &bench, "north, south have the same folders in them: cat, dog", &answers);
    // As in Office-31.
    let bench = numbered(
        &["amazon/images/bike", "amazon/images/mug", "dslr/images/bike", "dslr/images/mug"]
            .map(|folder| (folder, 2, "jpg")),
    );
    let answer = ["--split", "amazon=SRC/amazon/images", "--split", "dslr=SRC/dslr/images"];
    asks("deeper", &bench, "have the same folders", &[(&answer, &["amazon", "dslr"], &["bike", "mug"])]);
    // As in Omniglot: the numbered folders have the same names, and their number differs.
    let folders =
        ["greek/c1", "greek/c2", "greek/c3", "latin/c1", "latin/c2", "tagalog/c1", "tagalog/c2", "tagalog/c3"];
    let bench = numbered(&folders.map(|folder| (folder, 1, "jpg")));
    let answer: (&[&str], &[&str], &[&str]) = (&["--splits", "none"], &[], &["greek", "latin", "tagalog"]);
    asks("numbered", &bench, "greek, latin, tagalog have the same folders in them: c1, c2", &[answer]);
    // A copy of the tree inside the tree.
    let bench =
        numbered(&["corn", "oak", "pine", "plants/corn", "plants/oak", "plants/pine"].map(|folder| (folder, 1, "jpg")));
    let answers: [(&[&str], &[&str], &[&str]); 2] = [
        (&["--exclude", "plants/**"], &[], &["corn", "oak", "pine", "plants"]),
        (&["--splits", "none"], &[], &["corn", "oak", "pine", "plants"]),
    ];
    asks("a copy", &bench, "plants has subfolders with the names of the folders beside it: corn, oak, pine", &answers);
    // Folders that are not classes are reported.
    let bench =
        numbered(&["birds/finch", "birds/hawk", "fungi/bolete", "fungi/morel"].map(|folder| (folder, 1, "jpg")));
    bench.pack(&[]).code(0).says("classes are the first-level folders; the 4 folders in them are not classes");
    // As in Places.
    let bench = numbered(&["a/abbey", "a/airport", "b/bakery"].map(|folder| (folder, 1, "jpg")));
    let answer: (&[&str], &[&str], &[&str]) = (&["--splits", "none"], &[], &["a", "b"]);
    asks("letters", &bench, "a, b are first letters of the folders in them: abbey, airport, bakery", &[answer]);
    // The source of each split is one folder too high.
    let bench = numbered(&["train/data/x", "train/data/y", "val/data/x"].map(|folder| (folder, 1, "jpg")));
    let answer = ["--split", "train=SRC/train/data", "--split", "val=SRC/val/data"];
    asks("deeper in splits", &bench, "would be of one class, data", &[(&answer, &["train", "val"], &["x", "y"])]);
    for folders in
        [&["a/x", "b/x"][..], &["a/x", "a/y", "b/x", "b/z"], &["a/x", "a/y", "b"], &["a/x/1", "a/x/2", "b/y/1"]]
    {
        let bench = numbered(&folders.iter().map(|folder| (*folder, 2, "jpg")).collect::<Vec<_>>());
        bench.pack(&[]).code(0);
    }
}

#[test]
fn images_right_in_a_source_are_never_passed_over_for_what_is_in_its_folders() {
    for folder in [("scripts", 2, "py"), ("features", 1, "npy"), ("xml", 2, "xml"), ("thumbs", 2, "jpg")] {
        let bench = numbered(&[("", 18, "jpg"), folder]);
        let images = if folder.0 == "thumbs" { 20 } else { 18 };
        bench.pack(&[]).code(2).clean_error().says("18 images directly in this folder").says("--no-labels packs");
        bench.pack(&["--no-labels"]).code(0).says(&format!("{images} images"));
    }
    // A few images outside class folders are only counted.
    let bench = numbered(&[("", 1, "jpg"), ("cat", 2, "jpg")]);
    bench.pack(&[]).code(0).says("1 image outside a class folder");
}

#[test]
fn what_systems_leave_beside_classes_is_none_and_is_counted() {
    let bench =
        Bench::with(&["cat/1.jpg", "dog/2.jpg", "@eaDir/cat/thumb.jpg", "dog/@eaDir/2.jpg", "lost+found/3.jpg"]);
    bench.file("__MACOSX/cat/._1.jpg", b"\0\x05\x16\x07");
    bench.file(".ipynb_checkpoints/1.jpg", b"x");
    bench.file("dog/Thumbs.db", b"x");
    bench.pack(&[]).code(0).says("2 images in 2 classes").says("5 system").says("1 hidden");
    assert_eq!(Dataset::read(&bench.dst()).classes(), ["cat", "dog"]);
    run(&["verify", text(&bench.dst()), "--against", text(&bench.src())]).code(0);
}
