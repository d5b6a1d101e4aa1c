//! Folders as classes inside files: tar files of a tree, and stacks of images in HDF5.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_testing::{
    Bench, jpeg,
    lists::{self, verify},
    run,
    shards::{Tar, classes, convert, manifest, samples},
};

/// A tar of images with these names. The first image has 6,000 bytes, each next image one byte more.
fn tar(bench: &Bench, names: &[&str]) -> PathBuf {
    let path = bench.at("x.tar");
    let tar = names
        .iter()
        .zip(0..)
        .fold(Tar::new(), |tar, (name, number)| tar.file(name, &jpeg(number, 6000 + number as usize)));
    fs::write(&path, tar.bytes()).unwrap();
    path
}

fn labels(bench: &Bench, name: &str) -> Vec<i64> {
    let mut found = samples(&bench.at(name));
    found.sort_by_key(|(_, image)| image.len());
    found.into_iter().map(|(label, _)| label).collect()
}

const CALTECH: [&str; 4] = [
    "101_ObjectCategories/wrench/image_0001.jpg",
    "101_ObjectCategories/accordion/image_0001.jpg",
    "101_ObjectCategories/accordion/image_0002.jpg",
    "101_ObjectCategories/accordion/image_0003.jpg",
];

#[test]
fn a_tar_of_a_class_tree_has_its_folders_as_classes() {
    let bench = Bench::new();
    let tar = tar(&bench, &CALTECH);
    let ran = convert(&[&tar], &bench.at("guessed"), &[]).code(0);
    ran.says("the last folder of each name is its class, 2 in all; --no-labels leaves it out");
    assert_eq!(classes(&bench.at("guessed")), ["accordion", "wrench"]);
    assert_eq!(labels(&bench, "guessed"), [1, 0, 0, 0]);
    let mut paths: Vec<_> = lists::samples(&bench.at("guessed")).into_keys().collect();
    paths.sort();
    let mut names = CALTECH;
    names.sort_unstable();
    assert_eq!(paths, names);
    verify(&bench.at("guessed"), &tar, &[]);
    run(&["verify", tar.to_str().unwrap()]).code(0);
    convert(&[&tar], &bench.at("said"), &["--quiet", "--label-from", "key"]).code(0);
    assert_eq!((classes(&bench.at("said")), labels(&bench, "said")), (classes(&bench.at("guessed")), vec![1, 0, 0, 0]));
    convert(&[&tar], &bench.at("pattern"), &["--quiet", "--key-pattern", "{class}-{id}"]).code(2);
    let pattern = ["--quiet", "--force", "--key-pattern", "*/{class}/image_{number}.jpg"];
    convert(&[&tar], &bench.at("pattern"), &pattern).code(0);
    assert_eq!(classes(&bench.at("pattern")), ["accordion", "wrench"]);
    convert(&[&tar], &bench.at("none"), &["--no-labels"]).code(0).says_not("last folder");
    assert_eq!(manifest(&bench.at("none")).classes.len(), 0);
}

#[test]
fn folders_that_may_be_something_else_are_no_classes_unless_a_person_says_so() {
    for names in [
        // Splits, parts, one folder, one folder for each image, an image without a folder, and files next to the images.
        &["train/1.jpg", "train/2.jpg", "val/3.jpg"][..],
        &["00000/1.jpg", "00000/2.jpg", "00001/3.jpg"],
        &["images/1.jpg", "images/2.jpg"],
        &["a/1.jpg", "b/1.jpg", "c/1.jpg"],
        &["a/1.jpg", "a/2.jpg", "b/1.jpg", "3.jpg"],
        &["a/1.jpg", "a/1.txt", "a/2.jpg", "b/1.jpg"],
    ] {
        let bench = Bench::new();
        let tar = tar(&bench, names);
        let ran = convert(&[&tar], &bench.dst(), &[]).code(0);
        ran.says("no record has a label: samples have none")
            .says("--label-from key takes the last folder of each name");
        assert_eq!(classes(&bench.dst()), Vec::<String>::new(), "{names:?}");
        let said = convert(&[&tar], &bench.at("said"), &["--label-from", "key"]);
        match names.contains(&"3.jpg") {
            true => drop(said.code(1).says("the key has no folder; set the place of the label with --key-pattern")),
            false => drop(said.code(0)),
        }
    }
}

#[test]
fn folders_of_splits_and_of_pairs_in_a_tar_are_a_question_and_its_answers_work() {
    for (names, what, answers) in [
        (
            ["d/train/a/1.jpg", "d/train/b/2.jpg", "d/test/a/3.jpg", "d/test/a/4.jpg"],
            "folders in it are splits: test, train",
            [vec!["--include", "*test/*"], vec!["--label-from", "key"]],
        ),
        (
            ["d/image/1.jpg", "d/image/2.jpg", "d/mask/1.jpg", "d/mask/2.jpg"],
            "named like images and their counterparts, not like classes: image, mask",
            [vec!["--include", "*image/*", "--no-labels"], vec!["--label-from", "key"]],
        ),
        (
            ["d/training_set/a/1.jpg", "d/training_set/b/2.jpg", "d/test set/a/3.jpg", "d/test set/a/4.jpg"],
            "folders in it are splits: test set, training_set",
            [vec!["--include", "*test set/*"], vec!["--label-from", "key"]],
        ),
        (
            ["d/HR/1.jpg", "d/HR/2.jpg", "d/LR/1.jpg", "d/LR/2.jpg"],
            "named like images and their counterparts, not like classes: HR, LR",
            [vec!["--include", "*HR/*", "--no-labels"], vec!["--label-from", "key"]],
        ),
    ] {
        let bench = Bench::new();
        let tar = tar(&bench, &names);
        convert(&[&tar], &bench.dst(), &[]).code(2).says(what).says("/*'").says("packs one");
        for (options, count) in answers.iter().zip([2, 4]) {
            convert(&[&tar], &bench.dst(), &[&options[..], &["--force"]].concat()).code(0);
            assert_eq!(images(&bench.dst()), count, "{names:?} {options:?}");
        }
    }
}

#[test]
fn a_text_beside_folders_of_splits_does_not_answer_the_question() {
    let bench = Bench::new();
    let tar = tar(&bench, &["d/train/a/1.jpg", "d/train/b/2.jpg", "d/test/a/3.jpg", "d/README.txt"]);
    convert(&[&tar], &bench.dst(), &["--on-bad", "skip"]).code(2).says("folders in it are splits: test, train");
    convert(&[&tar], &bench.dst(), &["--on-bad", "skip", "--no-labels"]).code(0);
    assert_eq!(images(&bench.dst()), 3);
}

#[test]
fn folders_of_samples_of_several_files_are_no_question() {
    let bench = Bench::new();
    for names in [
        &["train2017/1.jpg", "train2017/1.txt", "train2017/2.jpg", "train2017/2.txt"][..],
        &["cam_left/1.jpg", "cam_left/1.txt", "cam_right/1.jpg", "cam_right/1.txt"],
        &["train/a/1.jpg", "train/a/1.txt", "val/a/2.jpg", "val/a/2.txt"],
    ] {
        let tar = tar(&bench, names);
        convert(&[&tar], &bench.dst(), &["--force"]).code(0).says("samples have none, and there are no classes");
    }
}

#[test]
fn a_tar_for_each_class_is_a_class_and_a_tar_of_tars_says_what_to_do() {
    let of = |stem: &str, number: u64| {
        let names = [1, 2].map(|image| format!("{stem}_{image}.JPEG"));
        Tar::new().file(&names[0], &jpeg(number, 6000)).file(&names[1], &jpeg(number + 1, 6001)).bytes()
    };
    for (stems, are_classes) in [
        (["n01440764", "n01443537"], true),
        (["cats", "dogs"], true),
        (["images", "masks"], false),
        (["part-0001", "part-0002"], false),
        (["00000", "00001"], false),
    ] {
        let bench = Bench::new();
        let folder = bench.at("tars");
        fs::create_dir(&folder).unwrap();
        for (number, stem) in (0..).zip(stems) {
            let inside = if stem.starts_with('n') { stem.to_owned() } else { format!("x{number}") };
            fs::write(folder.join(format!("{stem}.tar")), of(&inside, 2 * number)).unwrap();
        }
        let ran = convert(&[&folder], &bench.dst(), &[]).code(0);
        let expected = if are_classes { stems.map(str::to_owned).to_vec() } else { Vec::new() };
        assert_eq!(classes(&bench.dst()), expected, "{stems:?}");
        if are_classes {
            ran.says("the name of each file is its class, 2 in all; --no-labels leaves it out");
            verify(&bench.dst(), &folder, &[]);
            convert(&[&folder], &bench.at("none"), &["--no-labels"]).code(0);
            assert_eq!(classes(&bench.at("none")), Vec::<String>::new());
        }
    }
    let bench = Bench::new();
    let outer = bench.at("train.tar");
    fs::write(&outer, Tar::new().file("n01.tar", &of("n01", 0)).file("n02.tar", &of("n02", 2)).bytes()).unwrap();
    convert(&[&outer], &bench.dst(), &[])
        .code(2)
        .says("its samples are archives themselves, the first n01")
        .says("unpack it into a folder, tar -xf FILE -C FOLDER, and convert that folder");
}

#[test]
fn labels_of_a_tar_come_before_its_folders() {
    let bench = Bench::new();
    let tar = CALTECH
        .iter()
        .fold(Tar::new(), |tar, name| tar.sample(name.strip_suffix(".jpg").unwrap(), "3", &jpeg(1, 6000)));
    let path = bench.at("x.tar");
    fs::write(&path, tar.bytes()).unwrap();
    convert(&[&path], &bench.dst(), &[]).code(0).says_not("last folder");
    assert_eq!(labels(&bench, "dst"), [3; 4]);
}

fn images(dst: &Path) -> usize {
    lists::samples(dst).values().map(Vec::len).sum()
}

#[test]
fn a_stack_of_pixels_in_hdf5_is_as_many_images() {
    let bench = Bench::new();
    let python = std::env::var_os("SHARDPACK_PYTHON").expect("run `cargo xtask test`, which sets up Python");
    let write = "
import sys, h5py, numpy as np
out = sys.argv[1]
stack = lambda n: np.arange(n * 6 * 8, dtype=np.uint8).reshape(n, 6, 8)
with h5py.File(f'{out}/one.h5', 'w') as file:
    file['train/dt'] = stack(10)
with h5py.File(f'{out}/labels.h5', 'w') as file:
    file['dt'], file['label'] = stack(10), np.arange(10) % 3
with h5py.File(f'{out}/splits.h5', 'w') as file:
    file['train/dt'], file['test/dt'] = stack(10), stack(5)
with h5py.File(f'{out}/two.h5', 'w') as file:
    file['dt'], file['gt'] = stack(10), stack(10)
with h5py.File(f'{out}/picture.h5', 'w') as file:
    file['cat/one'] = stack(6).reshape(6, 16, 3)
";
    assert!(Command::new(python).args(["-c", write]).arg(bench.at("")).status().unwrap().success());
    convert(&[&bench.at("one.h5")], &bench.at("one"), &["--quiet"]).code(0);
    assert_eq!(images(&bench.at("one")), 10);
    run(&["verify", bench.at("one").to_str().unwrap(), "--decode"]).code(0);
    convert(&[&bench.at("labels.h5")], &bench.at("labels"), &["--quiet"]).code(0);
    assert_eq!(classes(&bench.at("labels")), ["0", "1", "2"]);
    convert(&[&bench.at("splits.h5")], &bench.at("splits"), &["--quiet"]).code(0);
    assert_eq!(["train", "test"].map(|split| images(&bench.at("splits").join(split))), [10, 5]);
    convert(&[&bench.at("two.h5")], &bench.at("two"), &[]).code(2).says("several datasets that may hold the images");
    convert(&[&bench.at("two.h5")], &bench.at("two"), &["--quiet", "--image-feature", "gt"]).code(0);
    assert_eq!(images(&bench.at("two")), 10);
    convert(&[&bench.at("picture.h5")], &bench.at("picture"), &["--quiet"]).code(0);
    assert_eq!(classes(&bench.at("picture")), ["cat"]);
}
