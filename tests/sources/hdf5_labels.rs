//! HDF5 files whose labels do not fit the images, or in which another dataset looks like the images or labels. `convert` prints a
//! question for each, the help line works, and no data is skipped silently.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, run};

/// Six images, with labels and other datasets that fit or do not fit.
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
write('number-other-a', labels=np.array([0, 1, 0, 1, 0, 1]), classes=np.array(['cat', 'dog'], 'S'))
write('number-other-b', labels=np.array([0, 1, 0, 1, 0, 1]), classes=np.array(['dog', 'cat'], 'S'))
with h5py.File(f'{out}/kept-back.h5', 'w') as file:
    for split, own in (('train', labels), ('test', np.full(6, -1))):
        file[f'{split}/images'], file[f'{split}/labels'] = images, own
with h5py.File(f'{out}/splits-differ.h5', 'w') as file:
    for split, names in (('train', dict(cat=0, dog=1)), ('test', dict(dog=0, cat=1))):
        file[f'{split}/images'] = images
        kind = h5py.enum_dtype(names, basetype='i1')
        file.create_dataset(f'{split}/labels', data=np.array([0, 1, 0, 1, 0, 1], 'i1'), dtype=kind)
write('weights', class_weights=np.ones(3, np.float32), num_classes=3, classes=np.array(['a', 'b'], 'S'))
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
    let out = bench.at("hdf5");
    shardpack_testing::python(WRITE, &out);
    out
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

/// Fails the test unless the dataset matches its source exactly.
fn same(dst: &Path, source: &Path) {
    run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", source.to_str().unwrap()]).code(0);
}

/// The labels of a dataset, in the order of the dataset.
fn labels(dst: &Path) -> Vec<Option<i64>> {
    let dataset = Dataset::open(dst).unwrap();
    (0..dataset.len()).map(|number| dataset.sample(number).unwrap().label()).collect()
}

const LABELS: [Option<i64>; 6] = [Some(2), Some(0), Some(1), Some(2), Some(0), Some(1)];
/// Options for the order of the source: by class, then by row.
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
    ];
    for (name, says) in rows {
        let (from, dst) = (source.join(format!("{name}.h5")), bench.at(name));
        convert(&from, &dst, &[]).code(2).says(says).says("--no-labels packs without labels").clean_error();
        assert!(!dst.join("manifest.json").exists(), "{name}");
        run(&["verify", from.to_str().unwrap()]).code(1).says(says);
        run(&["inspect", from.to_str().unwrap()]).says(says);
        // The option from the help line.
        convert(&from, &dst, &[&["--no-labels"], ORDERED].concat()).code(0);
        assert_eq!(labels(&dst), [None; 6], "{name}");
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        // Options that exclude each other.
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
    // A dataset with another name gives the images no labels.
    convert(&source.join("weights.h5"), &bench.at("weights"), ORDERED).code(1).says("no label");
    convert(&source.join("weights.h5"), &bench.at("weights"), &[&["--no-labels"], ORDERED].concat()).code(0);
}

#[test]
fn files_that_number_their_classes_differently_are_joined_by_the_names() {
    let bench = Bench::new();
    let source = written(&bench);
    let names = ["a", "b"].map(|name| source.join(format!("number-other-{name}.h5")));
    let words = ["convert", names[0].to_str().unwrap(), names[1].to_str().unwrap(), bench.dst().to_str().unwrap()]
        .map(str::to_owned);
    let ran = run(&[&words[..], &["--order".to_owned(), "source".to_owned()]].concat()).code(0);
    ran.says("files number their classes differently: classes are joined by name");
    let unnamed = source.join("row.h5");
    let words = ["convert", names[0].to_str().unwrap(), names[1].to_str().unwrap(), unnamed.to_str().unwrap()];
    let ran = run(&[&words[..], &[bench.at("three").to_str().unwrap()]].concat()).code(2).clean_error();
    ran.says("no names of classes").says("convert these files by themselves");
    let from = source.join("splits-differ.h5");
    let ran = convert(&from, &bench.at("splits"), &[]).code(2).clean_error();
    ran.says("number their classes differently").says("--no-labels packs both splits without labels");
    convert(&from, &bench.at("splits"), &["--no-labels"]).code(0);
    // The test split comes first, and has no classes.
    fs::write(bench.at("map.txt"), "0 low\n1 low\n2 high\n").unwrap();
    let (from, dst) = (source.join("kept-back.h5"), bench.at("kept-back"));
    convert(&from, &dst, &["--class-map", bench.at("map.txt").to_str().unwrap()]).code(0);
    assert_eq!(labels(&dst.join("test")), [None; 6]);
    let mut found = labels(&dst.join("train"));
    found.sort_unstable();
    assert_eq!(found, [0, 0, 1, 1, 1, 1].map(Some));
    let found = labels(&bench.dst());
    assert_eq!(found.iter().filter(|label| **label == Some(0)).count(), 6);
    let dataset = Dataset::open(bench.dst()).unwrap();
    let names: Vec<&str> = dataset.manifest().classes.iter().map(|class| &*class.name).collect();
    assert_eq!(names, ["cat", "dog"]);
    for number in 0..dataset.len() {
        let sample = dataset.sample(number).unwrap();
        // In the first file the even rows are cats, in the second file the odd rows.
        let ends = |row: &u32| sample.bytes().ends_with(&[(row * 60 + 58) as u8, (row * 60 + 59) as u8]);
        let row = (0..6_u32).find(ends).unwrap();
        let is_first = String::from_utf8_lossy(sample.path()).contains("other-a");
        assert_eq!(sample.label(), Some(i64::from((row % 2 == 0) != is_first)), "{row} {is_first}");
    }
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
    ran.says("labels int64 70: each image is a dataset").says("--label-from FILE");
    convert(&from, &bench.dst(), &["--image-feature", "images", "--no-labels"]).code(0);
    assert_eq!(labels(&bench.dst()), [None; 70]);
    same(&bench.dst(), &from);
    // The names of the images in the list are those of the datasets, without the group.
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
    ran.says("row 0 is in none of the splits of attribute split").says("row 5 is in none");
    let ran = run(&["verify", from.to_str().unwrap()]).code(1);
    ran.says("row 0 is in none of the splits of attribute split").says("2 of 6 samples damaged");
    let dst = bench.dst();
    convert(&from, &dst, &["--on-bad", "skip", "--quiet"]).code(0);
    assert_eq!([labels(&dst.join("train")).len(), labels(&dst.join("test")).len()], [2, 2]);
    let ledger = fs::read_to_string(dst.join("train/ledger.jsonl")).unwrap();
    assert_eq!(ledger.lines().filter(|line| line.contains("is in none of the splits")).count(), 2, "{ledger}");
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

/// Files with links, enums, attributes, tables and groups of six samples, and labels that are no classes.
const WRITE_ODD: &str = "
import io, sys, h5py, numpy as np
from PIL import Image
out = sys.argv[1]
images = np.arange(6 * 4 * 5 * 3, dtype=np.uint8).reshape(6, 4, 5, 3)
labels = [2, 0, 1, 2, 0, 1]
def jpeg(number):
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), 20 * number, np.uint8)).save(file, 'JPEG')
    return np.frombuffer(file.getvalue(), np.uint8)
jpegs = [jpeg(number) for number in range(6)]
def write(name, **datasets):
    with h5py.File(f'{out}/{name}.h5', 'w') as file:
        for path, value in datasets.items():
            file[path.replace('__', '/')] = value
write('pixels', images=images, more=labels)
write('link', images=h5py.ExternalLink('pixels.h5', '/images'), labels=labels)
write('link-label', images=images, Labels=h5py.SoftLink('/gone'))
write('link-all', a=h5py.ExternalLink('pixels.h5', '/'), b=h5py.ExternalLink('pixels.h5', '/'))
write('link-more', images=images, labels=labels, more=h5py.ExternalLink('pixels.h5', '/more'), rest=h5py.SoftLink('/x'))
with h5py.File(f'{out}/link-dense.h5', 'w', libver='latest') as file:
    for number in range(20):
        file[f'more{number}'] = h5py.ExternalLink('pixels.h5', '/more')
    file['images'], file['labels'] = images, labels
write('alias', raw__images=images, images=h5py.SoftLink('/raw/images'), labels=labels)
layout = h5py.VirtualLayout((6, 4, 5, 3), dtype='u1')
layout[:] = h5py.VirtualSource('pixels.h5', 'images', shape=(6, 4, 5, 3))
with h5py.File(f'{out}/virtual.h5', 'w') as file:
    file.create_virtual_dataset('images', layout)
    file['labels'] = labels
kind = lambda **names: h5py.enum_dtype(names, basetype='i1')
with h5py.File(f'{out}/enum.h5', 'w') as file:
    file['images'] = images
    file.create_dataset('labels', data=np.array(labels, 'i1'), dtype=kind(dog=0, cat=1, emu=2))
with h5py.File(f'{out}/enum-from-1.h5', 'w') as file:
    file['images'] = images
    file.create_dataset('labels', data=np.array(labels, 'i1') + 1, dtype=kind(dog=1, cat=2, emu=3))
with h5py.File(f'{out}/attributes.h5', 'w') as file:
    for number in range(6):
        file[f'img{number}'] = images[number]
        file[f'img{number}'].attrs.update({'label': labels[number], 'caption': f'no {number}'})
with h5py.File(f'{out}/attribute-of-rows.h5', 'w') as file:
    file['images'], file['labels'] = images, labels
    file['images'].attrs['camera'] = 'x'
with h5py.File(f'{out}/attributes-of-groups.h5', 'w') as file:
    for number in range(6):
        file[f'c{labels[number]}/img{number}'] = images[number]
    for name in ('c0', 'c1'):
        file[name].attrs['scale'] = 0.5
with h5py.File(f'{out}/attribute-above.h5', 'w') as file:
    for number in range(6):
        file[f'all/s{number}/image'], file[f'all/s{number}/label'] = images[number], labels[number]
        file[f'all/s{number}'].attrs['scale'] = number
    file['all'].attrs['unit'] = 'mm'
for name, of in (('groups', lambda n: images[n]), ('groups-encoded', lambda n: jpegs[n])):
    with h5py.File(f'{out}/{name}.h5', 'w') as file:
        for number in range(6):
            file[f's{number}/image'], file[f's{number}/label'] = of(number), labels[number]
for name, names in (('root-names', np.array(['cat', 'dog', 'emu'], 'S')), ('root-texts', ['cat', 'dog', 'emu'])):
    with h5py.File(f'{out}/{name}.h5', 'w') as file:
        file['images'], file['labels'], file.attrs['classes'], file.attrs['license'] = images, labels, names, 'x'
with h5py.File(f'{out}/empty-attribute.h5', 'w') as file:
    for number in range(6):
        file[f'img{number}'] = images[number]
        file[f'img{number}'].attrs['label'] = h5py.Empty('i4') if number == 3 else labels[number]
write('hot-table', x=np.arange(6 * 3, dtype='u1').reshape(6, 3), label=np.eye(3, dtype='u1')[labels])
write('noise', images=images, label_noise=labels)
write('table', x=np.arange(6 * 70, dtype='u1').reshape(6, 70), y=labels)
write('table-alone', bits=np.zeros((6, 2048), 'u1'), smiles=[f'n{number}' for number in range(6)])
padded = np.zeros((6, max(map(len, jpegs)) + 9), 'u1')
for number, one in enumerate(jpegs):
    padded[number, :len(one)] = one
write('padded', image=padded, label=labels)
with h5py.File(f'{out}/column.h5', 'w') as file:
    column = file.create_dataset('image', (6, 1), h5py.vlen_dtype(np.uint8))
    for number, one in enumerate(jpegs):
        column[number, 0] = one
    file['label'] = labels
write('multi-hot', images=images, labels=np.eye(6, dtype='u1') + np.eye(6, k=1, dtype='u1'))
write('fractions', images=images, y=np.linspace(0, 1, 6))
with h5py.File(f'{out}/many.h5', 'w') as file:
    file['images'] = images
    many = file.create_dataset('labels', (6,), h5py.vlen_dtype(np.int64))
    for number in range(6):
        many[number] = [number] * (number % 3)
write('kept-back', x_train=images, y_train=labels, x_test=images, y_test=[-1] * 6)
write('some-kept-back', images=images, labels=[-1, 0, 1, 2, 0, 1])
write('matlab', images=images, labels=labels, **{'#refs#__a': np.zeros((6, 4, 5, 3), 'u1'), '#refs#__b': np.zeros((6, 4, 5, 3), 'u1')})
write('column_x', x=images)
write('column_y', y=np.array(labels, 'u1').reshape(6, 1, 1, 1))
for number in range(3):
    write(f'one-{number}', image=np.zeros((60, 60, 3), 'u1'), mask=np.zeros((60, 60), 'u1'))
";

fn odd(bench: &Bench) -> PathBuf {
    let out = bench.at("odd");
    shardpack_testing::python(WRITE_ODD, &out);
    out
}

/// The components of a dataset other than image and label, and its class names.
fn beside(dst: &Path) -> (String, Vec<String>) {
    let dataset = Dataset::open(dst).unwrap();
    let beside = dataset.manifest().format.settings.get("beside").cloned().unwrap_or_default();
    (beside, dataset.classes().iter().map(|class| class.name.clone()).collect())
}

#[test]
fn links_out_of_a_file_are_refused_or_counted_and_never_passed_over() {
    let bench = Bench::new();
    let source = odd(&bench);
    let rows = [
        ("link", "images is an external link to /images of pixels.h5, and other files are not read"),
        ("link-label", "Labels is a link to /gone, which is not in the file"),
        ("link-all", "no datasets in it; a is an external link to / of pixels.h5"),
        ("virtual", "dataset images: a virtual dataset: its data lies in other datasets or files"),
    ];
    for (name, says) in rows {
        let from = source.join(format!("{name}.h5"));
        convert(&from, &bench.at(name), &[]).code(1).says(says).clean_error();
        run(&["verify", from.to_str().unwrap()]).code(1).says(says);
    }
    // The same if an option requests the link.
    let ran = convert(&source.join("link.h5"), &bench.at("named"), &["--image-feature", "images"]);
    ran.code(2).says("external link");
    for (name, says) in [
        ("link-more", "1 broken link rest, 1 external link more"),
        ("link-dense", "20 external link"),
        ("attribute-of-rows", "1 attribute camera of dataset images"),
        ("alias", "images images uint8 6×4×5×3; labels labels"),
        ("matlab", "images images uint8 6×4×5×3; labels labels"),
    ] {
        let (from, dst) = (source.join(format!("{name}.h5")), bench.at(name));
        convert(&from, &dst, &["--order", "source"]).code(0).says(says);
        assert_eq!(labels(&dst), LABELS, "{name}");
        same(&dst, &from);
    }
}

#[test]
fn labels_are_told_by_whole_names_enums_and_attributes_and_what_is_no_class_is_a_component() {
    let bench = Bench::new();
    let source = odd(&bench);
    let numbers = ["0", "1", "2"].as_slice();
    for (name, components, classes) in [
        ("enum", "", ["dog", "cat", "emu"].as_slice()),
        ("enum-from-1", "", ["dog", "cat", "emu"].as_slice()),
        ("attributes", "caption", numbers),
        ("groups", "", numbers),
        ("groups-encoded", "", numbers),
        ("padded", "", numbers),
        ("column", "", numbers),
        ("root-names", "", &["cat", "dog", "emu"]),
        ("root-texts", "", &["cat", "dog", "emu"]),
        ("hot-table", "", numbers),
        ("noise", "label_noise", &[]),
        ("table", "", numbers),
        ("table-alone", "smiles", &[]),
        ("multi-hot", "labels.npy", &[]),
        ("fractions", "y", &[]),
        ("many", "labels.npy", &[]),
    ] {
        let (from, dst) = (source.join(format!("{name}.h5")), bench.at(name));
        convert(&from, &dst, &[]).code(0);
        let (beside, found) = beside(&dst);
        assert_eq!(found, classes, "{name}");
        assert!(
            beside.contains(components) && (beside.is_empty() || !components.is_empty() || name == "table"),
            "{name}: {beside}"
        );
        assert_eq!(Dataset::open(&dst).unwrap().len(), 6, "{name}");
        let is_encoded = ["groups-encoded", "padded", "column"].contains(&name);
        assert_eq!(Dataset::open(&dst).unwrap().manifest().kinds.contains_key("jpeg"), is_encoded, "{name}");
        same(&dst, &from);
        convert(&from, &bench.at(&format!("{name}-no")), &["--no-labels", "--quiet"]).code(0);
    }
}

#[test]
fn attributes_of_the_file_are_counted_and_one_without_a_value_is_no_label() {
    let bench = Bench::new();
    let source = odd(&bench);
    convert(&source.join("root-names.h5"), &bench.dst(), &[]).code(0);
    let of = |dst: &Path| Dataset::open(dst).unwrap().manifest().ignored_files.clone();
    let ignored = of(&bench.dst());
    assert_eq!(ignored.get("attribute license of the file"), Some(&1));
    assert!(!ignored.contains_key("attribute classes of the file"), "{ignored:?}");
    let without = bench.at("without");
    convert(&source.join("root-names.h5"), &without, &["--no-labels"]).code(0);
    assert!(Dataset::open(&without).unwrap().classes().is_empty());
    assert_eq!(of(&without).get("component labels"), Some(&6));
    for (name, attribute, groups, component) in
        [("attributes-of-groups", "scale", 2, None), ("attribute-above", "unit", 1, Some("scale"))]
    {
        let dst = bench.at(name);
        convert(&source.join(format!("{name}.h5")), &dst, &[])
            .code(0)
            .says(&format!("{groups} attribute {attribute} of groups"));
        assert_eq!(of(&dst).get(&format!("attribute {attribute} of groups")), Some(&groups), "{name}");
        assert_eq!(of(&dst).len(), 1, "{name}");
        assert!(component.is_none_or(|component| beside(&dst).0.contains(component)), "{name}");
    }
    convert(&source.join("empty-attribute.h5"), &bench.at("empty"), &[]).code(1).says("img3: no label");
}

#[test]
fn labels_of_minus_1_are_none_where_all_of_a_split_are() {
    let bench = Bench::new();
    let source = odd(&bench);
    let dst = bench.at("kept-back");
    convert(&source.join("kept-back.h5"), &dst, &[]).code(0).says("every label is -1: samples have no labels");
    assert_eq!(beside(&dst.join("train")).1, ["0", "1", "2"]);
    assert_eq!((labels(&dst.join("test")), beside(&dst.join("test")).1.len()), (vec![None; 6], 0));
    same(&dst, &source.join("kept-back.h5"));
    let some = source.join("some-kept-back.h5");
    convert(&some, &bench.at("some"), &[]).code(1).says("label -1: no class has a number below 0");
    run(&["verify", some.to_str().unwrap()]).code(1).says("label -1");
}

#[test]
fn files_of_one_column_each_are_a_question() {
    let bench = Bench::new();
    let source = odd(&bench);
    // Files of a sample each are rows if an option names a dataset.
    let from = source.join("one-*.h5");
    convert(&from, &bench.dst(), &["--images", "image", "--quiet"]).code(0);
    assert_eq!(Dataset::open(bench.dst()).unwrap().len(), 180);
    // The layout of PatchCamelyon: each file holds one column of the table.
    let ran = convert(&source.join("column_*.h5"), &bench.at("columns"), &[]).code(2);
    ran.says("it has only dataset x, and column_y.h5 has only dataset y").clean_error();
    convert(&source.join("column_*.h5"), &bench.at("columns"), &["--images", "x", "--quiet"])
        .code(2)
        .says("column_y.h5: no dataset x");
}
