//! HDF5 files in which the labels do not fit the images, or something else is called as the images are: each is a question, whose
//! help works, and nothing is passed over.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_reader::Dataset;
use support::{Bench, Ran, run};

/// Six images, and what goes with them or does not.
const WRITE: &str = "
import sys, h5py, numpy as np
out = sys.argv[1]
images = np.arange(6 * 4 * 5 * 3, dtype=np.uint8).reshape(6, 4, 5, 3)
labels = np.array([2, 0, 1, 2, 0, 1])
def write(name, images_are='images', **datasets):
    with h5py.File(f'{out}/{name}.h5', 'w') as file:
        file[images_are] = images
        for path, value in datasets.items():
            file[path.replace('__', '/')] = value
write('one-less', labels=labels[:5])
write('one-more', targets=np.append(labels, 0))
write('one-less-in-a-group', 'x/images', x__y=labels[:5])
write('row', labels=labels[None])
write('column', y=labels[:, None])
write('of-another-split', labels_train=labels[:5])
write('second-best', labels=labels[:5], y=labels)
write('scalar', label=3)
write('last-word', image_labels=labels[:5])
write('masks', y=images[..., 0])
write('weights', class_weights=np.ones(3, np.float32), num_classes=3, classes=np.array(['a', 'b'], 'S'))
with h5py.File(f'{out}/many.h5', 'w') as file:
    file['images'] = images
    many = file.create_dataset('labels', (6,), h5py.vlen_dtype(np.int64))
    for number in range(6):
        many[number] = [number, 1]
with h5py.File(f'{out}/float.h5', 'w') as file:
    file['images'], file['thumbs'], file['labels'] = images.astype(np.float32), images[:, :2], labels
with h5py.File(f'{out}/each.h5', 'w') as file:
    for number in range(70):
        file[f'images/{number:03d}'] = images[number % 6]
    file['labels'] = np.arange(70)
kind = [('split', 'S5'), ('source', 'S14'), ('start', np.int64), ('stop', np.int64)]
kind += [('indices', h5py.ref_dtype), ('available', bool), ('comment', 'S1')]
for name, splits in (('fuel', ((b'train', 1, 3), (b'test', 3, 5))), ('shared', ((b'train', 0, 5), (b'test', 4, 6)))):
    with h5py.File(f'{out}/{name}.h5', 'w') as file:
        file['image_features'], file['targets'] = images, labels[:, None].astype(np.uint8)
        rows = [(split, source, start, stop, h5py.Reference(), True, b'.') for split, start, stop in splits
                for source in (b'image_features', b'targets')]
        file.attrs['split'] = np.array(rows, dtype=np.dtype(kind))
";

fn written(bench: &Bench) -> PathBuf {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let out = bench.at("hdf5");
    fs::create_dir(&out).unwrap();
    let ran = Command::new(python).args(["-c", WRITE]).arg(&out).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    out
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

/// Passes where the dataset has all of its source, and nothing else.
fn same(dst: &Path, source: &Path) {
    run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", source.to_str().unwrap()]).code(0);
}

/// The labels of a dataset in the order of its source.
fn labels(dst: &Path) -> Vec<Option<i64>> {
    let dataset = Dataset::open(dst).unwrap();
    (0..dataset.len()).map(|number| dataset.sample(number).unwrap().label()).collect()
}

const LABELS: [Option<i64>; 6] = [Some(2), Some(0), Some(1), Some(2), Some(0), Some(1)];
/// In the order of classes, then rows, as an ordered conversion has them.
const ORDERED: &[&str] = &["--order", "source", "--quiet"];

#[test]
fn labels_that_do_not_fit_are_a_question_and_not_left_out() {
    let bench = Bench::new();
    let source = written(&bench);
    let rows = [
        ("one-less", "labels labels int64 5 do not go with images images uint8 6×4×5×3"),
        ("one-more", "labels targets int64 7 do not go with"),
        ("one-less-in-a-group", "labels x/y int64 5 do not go with images x/images"),
        ("of-another-split", "labels labels_train int64 5 do not go with"),
        ("scalar", "labels label int64 of one item do not go with"),
        ("last-word", "labels image_labels int64 5 do not go with"),
        ("masks", "labels y uint8 6×4×5 do not go with"),
        ("many", "labels labels int64 of any length 6 do not go with"),
    ];
    for (name, says) in rows {
        let (from, dst) = (source.join(format!("{name}.h5")), bench.at(name));
        convert(&from, &dst, &[]).code(2).says(says).says("--no-labels packs without labels").clean_error();
        assert!(!dst.join("manifest.json").exists(), "{name}");
        run(&["verify", from.to_str().unwrap()]).code(1).says(says);
        run(&["inspect", from.to_str().unwrap()]).says(says);
        // What the help says, done.
        convert(&from, &dst, &[&["--no-labels"], ORDERED].concat()).code(0);
        assert_eq!(labels(&dst), [None; 6], "{name}");
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        // Pairs of options that cannot both be meant.
        convert(&from, &bench.at("both"), &["--no-labels", "--label-feature", "y"]).code(2);
    }
    let from = source.join("second-best.h5");
    let ran = convert(&from, &bench.at("best"), &[]).code(2).says("labels labels int64 5 do not go with");
    ran.says("--label-feature y takes that one").clean_error();
    convert(&from, &bench.at("best"), &[&["--label-feature", "y"], ORDERED].concat()).code(0);
    assert_eq!(labels(&bench.at("best")), LABELS);
    same(&bench.at("best"), &from);
}

#[test]
fn labels_in_a_row_or_a_column_are_labels() {
    let bench = Bench::new();
    let source = written(&bench);
    for name in ["row", "column"] {
        let dst = bench.at(name);
        convert(&source.join(format!("{name}.h5")), &dst, ORDERED).code(0);
        assert_eq!(labels(&dst), LABELS, "{name}");
    }
    // What is called otherwise says nothing of the images.
    convert(&source.join("weights.h5"), &bench.at("weights"), ORDERED).code(1).says("no label");
    convert(&source.join("weights.h5"), &bench.at("weights"), &[&["--no-labels"], ORDERED].concat()).code(0);
}

#[test]
fn what_is_called_images_and_cannot_be_packed_is_not_passed_over_for_something_else() {
    let bench = Bench::new();
    let source = written(&bench);
    let from = source.join("float.h5");
    let ran = convert(&from, &bench.dst(), &[]).code(2).clean_error();
    ran.says("images float32 6×4×5×3").says("thumbs uint8 6×2×5×3 could be").says("--image-feature thumbs");
    convert(&from, &bench.dst(), &[&["--image-feature", "thumbs"], ORDERED].concat()).code(0);
    assert_eq!(labels(&bench.dst()), LABELS);
    same(&bench.dst(), &from);
}

#[test]
fn labels_of_images_that_have_a_dataset_each_are_asked_for() {
    let bench = Bench::new();
    let source = written(&bench);
    let from = source.join("each.h5");
    let ran = convert(&from, &bench.dst(), &["--image-feature", "images"]).code(2).clean_error();
    ran.says("labels int64 70: images have a dataset each").says("--label-from FILE");
    convert(&from, &bench.dst(), &["--image-feature", "images", "--no-labels"]).code(0);
    assert_eq!(labels(&bench.dst()), [None; 70]);
    same(&bench.dst(), &from);
    // Names are those of the datasets alone, as lists beside have them.
    let list = |line: &dyn Fn(usize) -> String| {
        fs::write(bench.at("labels.csv"), (0..70).map(line).collect::<String>()).unwrap();
        bench.at("labels.csv")
    };
    let said = |list: &Path| ["--image-feature", "images", "--label-from", list.to_str().unwrap()].map(str::to_owned);
    let others = said(&list(&|number| format!("images/{number:03},{}\n", number % 3)));
    let others = others.each_ref().map(String::as_str);
    convert(&from, &bench.at("others"), &others).code(2).says("labels.csv has no label for it");
    let names = said(&list(&|number| format!("{number:03},{}\n", number % 3)));
    let dst = bench.at("list");
    convert(&from, &dst, &names.each_ref().map(String::as_str)).code(0);
    assert!(labels(&dst).iter().all(Option::is_some));
    let (packed, source, list) = (dst.to_str().unwrap(), from.to_str().unwrap(), bench.at("labels.csv"));
    run(&["verify", packed, "--against", source, "--label-from", list.to_str().unwrap()]).code(0);
}

#[test]
fn rows_that_no_split_names_are_refused_or_named() {
    let bench = Bench::new();
    let source = written(&bench);
    let from = source.join("fuel.h5");
    let ran = convert(&from, &bench.at("refused"), &[]).code(1);
    ran.says("row 0 is of none of the splits that attribute split names").says("row 5 is of none");
    let ran = run(&["verify", from.to_str().unwrap()]).code(1);
    ran.says("row 0 is of none of the splits that attribute split names").says("2 of 6 samples damaged");
    let dst = bench.dst();
    convert(&from, &dst, &["--on-bad", "skip", "--quiet"]).code(0);
    assert_eq!([labels(&dst.join("train")).len(), labels(&dst.join("test")).len()], [2, 2]);
    let ledger = fs::read_to_string(dst.join("train/ledger.jsonl")).unwrap();
    assert_eq!(ledger.lines().filter(|line| line.contains("is of none of the splits")).count(), 2, "{ledger}");
    run(&["verify", "--quiet", dst.to_str().unwrap()]).code(0);
    convert(&from, &bench.at("all"), &["--splits", "none", "--quiet"]).code(0);
    assert_eq!(labels(&bench.at("all")).len(), 6);
}

#[test]
fn rows_that_two_splits_share_are_a_question() {
    let bench = Bench::new();
    let from = written(&bench).join("shared.h5");
    let shared = "splits train and test share rows 4 to 5 by attribute split";
    let ran = convert(&from, &bench.dst(), &[]).code(2);
    ran.says(shared).says("--splits train,test packs such a row in each of its splits, --splits none each row once");
    run(&["verify", from.to_str().unwrap()]).code(1).says(shared);
    convert(&from, &bench.dst(), &["--splits", "train,test"]).code(0);
    assert_eq!(["train", "test"].map(|split| labels(&bench.dst().join(split)).len()), [5, 2]);
    convert(&from, &bench.at("all"), &["--splits", "none"]).code(0);
    assert_eq!(labels(&bench.at("all")).len(), 6);
}
