//! HDF5 files that are one sample each: an image with its mask, depth or volume. They are samples where nothing else fits, else a
//! question whose answer works; never rows.

use std::{fs, path::Path};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, python, run};

const WRITE: &str = "
import sys, os, h5py, numpy as np
out = sys.argv[1]
rng = np.random.default_rng(0)
def write(path, attributes={}, **sets):
    os.makedirs(os.path.dirname(f'{out}/{path}'), exist_ok=True)
    with h5py.File(f'{out}/{path}.h5', 'w') as f:
        for name, value in sets.items():
            f[name.replace('__', '/')] = value
        f.attrs.update(attributes)
    os.makedirs(f'{out}/expected/{path}', exist_ok=True)
    for name, value in sets.items():
        np.save(f'{out}/expected/{path}/{name}.npy', value)
def floats(*shape): return rng.random(shape).astype('f4')
def bytes(*shape): return rng.integers(0, 255, shape).astype('u1')
for n in range(3):
    write(f'slices/case{n}', image=floats(64, 48), label=bytes(64, 48))
    write(f'brats/case{n}', image=rng.random((60, 60, 4)), mask=bytes(60, 60, 3))
    write(f'depth/case{n}', rgb=bytes(3, 48, 64), depth=floats(48, 64))
    write(f'volumes/case{n}', image=floats(12, 32, 32), label=bytes(12, 32, 32))
    write(f'pairs/case{n}', x=floats(64, 48), y=floats(64, 48))
    write(f'photos/case{n}', image=bytes(60, 50, 3), mask=bytes(60, 50))
    write(f'classes/case{n}', image=floats(64, 48), label=np.int64(n % 2), spacing=floats(3))
    write(f'odd/case{n}', {'patient': 'p7'}, image=floats(64, 48), label=bytes(64, 48), meta__boxes=floats(5, 4))
    write(f'splits/{\"val\" if n else \"train\"}/case{n}', image=floats(64, 48), label=bytes(64, 48))
for name in ('train', 'test'):
    write(f'tables/{name}', image=floats(64, 48), label=bytes(64, 48))
# One value for the whole file: its rows are no samples of their own.
for n in range(3):
    write(f'features/case{n}', features=floats(7, 16), label=np.int64(n % 2))
    write(f'vectors/case{n}', x=rng.random(5), y=np.array([n % 2]))
    write(f'channels/case{n}', x=rng.random((3, 32, 32)), y=np.int64(n % 2))
    write(f'signals/case{n}', {'label': n % 2}, signal=rng.random((12, 1000)), fs=np.int64(500))
    write(f'pressure/case{n}', ecg=rng.random(1000), ppg=rng.random(1000), sbp=rng.random())
    write(f'deep/case{n}', data__x=rng.random(5), meta__label=np.int64(n % 2))
    write(f'frames/case{n}', images=bytes(6, 9, 8, 3), label=np.int64(n % 2))
    write(f'episodes/case{n}', observations__images__top=bytes(6, 9, 8, 3), observations__images__low=bytes(6, 9, 8, 3),
        observations__qpos=floats(6, 14), action=floats(6, 14))
    write(f'detection/case{n}', image=bytes(16, 16, 3), boxes=floats(n + 1, 4), label=b'cat')
    write(f'labelled/case{n}', x=floats(6, 5), y=np.arange(6) % 2, fs=np.int64(500))
    write(f'parts/case{n}', x_train=floats(6, 5), x_test=floats(4, 5), version=np.int64(1))
write('mixed/a', image=floats(64, 48), label=bytes(64, 48))
write('mixed/b', image=floats(64, 48))
write('grouped/a', image=floats(64, 48), label=bytes(64, 48))
write('grouped/b', image=floats(64, 48), more__label=bytes(64, 48))
write('rows/a', image=floats(64, 48), label=bytes(64, 48), y=np.arange(64))
write('rows/b', image=floats(64, 48), label=bytes(64, 48), y=np.arange(64))
";

fn written() -> Bench {
    let bench = Bench::new();
    python(WRITE, &bench.at("h5"));
    bench
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

/// Compares each sample of `dst` with the arrays that numpy saved for its file in `way`.
fn check(bench: &Bench, way: &str, dst: &Path, names: &[&str]) {
    let dataset = Dataset::open(dst).unwrap();
    let mut keys = Vec::new();
    for number in 0..dataset.len() {
        let sample = dataset.sample(number).unwrap();
        let key = String::from_utf8_lossy(sample.path()).into_owned();
        let key = key.rsplit('/').next().unwrap().split('.').next().unwrap().to_owned();
        for name in names {
            let expected = fs::read(bench.at(&format!("h5/expected/{way}/{key}/{name}.npy"))).unwrap();
            let at = dataset.manifest().components.iter().position(|own| *own == format!("{name}.npy"));
            let found = at.and_then(|at| sample.content(at).unwrap());
            // The image of a sample has no component.
            let found = found.map_or_else(|| sample.bytes().to_vec(), |found| found.to_vec());
            assert!(found == expected, "{way}: {name} of {key}");
        }
        keys.push(key);
    }
    keys.sort();
    assert_eq!(keys, ["case0", "case1", "case2"], "{way}");
}

#[test]
fn files_of_one_image_each_are_samples_with_their_datasets_as_components() {
    let bench = written();
    for (way, names) in [
        ("slices", &["image", "label"][..]),
        ("brats", &["image", "mask"]),
        ("depth", &["rgb", "depth"]),
        ("photos", &["image", "mask"]),
        ("classes", &["image", "spacing"]),
        ("detection", &["image", "boxes"]),
    ] {
        let (from, dst) = (bench.at(&format!("h5/{way}")), bench.at(way));
        convert(&from, &dst, &[]).code(0).says("each file is one sample");
        check(&bench, way, &dst, names);
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        run(&["verify", from.to_str().unwrap()]).code(0).says("3 samples in 3 shards");
        run(&["inspect", from.to_str().unwrap()]).code(0).says("3 samples");
    }
    let classes = Dataset::open(bench.at("classes")).unwrap();
    assert_eq!(classes.classes().len(), 2);
}

#[test]
fn folders_of_splits_hold_files_that_are_samples() {
    let bench = written();
    let dst = bench.at("splits");
    convert(&bench.at("h5/splits"), &dst, &[]).code(0).says("splits train, val").says("each file is one sample");
    let samples = ["train", "val"].map(|split| Dataset::open(dst.join(split)).unwrap().len());
    assert_eq!(samples, [1, 2]);
}

#[test]
fn files_that_may_be_rows_or_samples_are_a_question_and_each_answer_works() {
    let bench = written();
    for (way, says) in [
        ("volumes", "3 files that look like a sample each"),
        ("pairs", "3 files that look like a sample each"),
        ("tables", "2 files that look like a sample each"),
        ("mixed", "2 files that look like a sample each"),
        ("grouped", "2 files that look like a sample each"),
    ] {
        let from = bench.at(&format!("h5/{way}"));
        convert(&from, &bench.at(way), &[]).code(2).says(says).says("--from hdf5:file").clean_error();
    }
    let one = bench.at("h5/slices/case0.h5");
    convert(&one, &bench.at("one"), &[]).code(2).says("a file that looks like one sample").clean_error();
    for (way, names) in [("volumes", ["image", "label"]), ("pairs", ["x", "y"])] {
        let (from, dst) = (bench.at(&format!("h5/{way}")), bench.at(way));
        convert(&from, &dst, &["--from", "hdf5:file"]).code(0);
        check(&bench, way, &dst, &names);
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
    }
    let rows = bench.at("rows-of-pairs");
    convert(&bench.at("h5/pairs"), &rows, &["--components", "x,y"]).code(0);
    assert_eq!(Dataset::open(&rows).unwrap().len(), 3 * 64);
    // A dataset with a value for each row makes a table.
    convert(&bench.at("h5/rows"), &bench.at("rows"), &[]).code(0);
    assert_eq!(Dataset::open(bench.at("rows")).unwrap().len(), 2 * 64);
}

#[test]
fn a_value_of_the_whole_file_beside_rows_is_a_question_and_each_answer_works() {
    let bench = written();
    for (way, value, names, components, rows) in [
        ("features", "label", &["features"][..], "features", 7),
        ("vectors", "y", &["x"], "x", 5),
        ("channels", "y", &["x"], "x", 3),
        ("signals", "attribute label", &["signal", "fs"], "signal", 12),
        ("pressure", "sbp", &["ecg", "ppg", "sbp"], "ecg,ppg", 1000),
        ("deep", "meta/label", &["data__x"], "x", 5),
        ("frames", "label", &["images"], "", 6),
    ] {
        let (from, dst) = (bench.at(&format!("h5/{way}")), bench.at(way));
        let says = format!("3 files that may be a sample each: {value} is one value for a whole file");
        convert(&from, &dst, &[]).code(2).says(&says).says("--from hdf5:file").clean_error();
        convert(&from, &dst, &["--from", "hdf5:file"]).code(0);
        if way != "deep" {
            check(&bench, way, &dst, names);
        }
        let dataset = Dataset::open(&dst).unwrap();
        let labelled = (0..3).filter(|number| dataset.sample(*number).unwrap().label().is_some()).count();
        assert_eq!(labelled, if way == "pressure" { 0 } else { 3 }, "{way}");
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        let answer = if components.is_empty() { ["--no-labels", "--quiet"] } else { ["--components", components] };
        let dst = bench.at(&format!("rows-of-{way}"));
        convert(&from, &dst, &answer).code(0);
        assert_eq!(Dataset::open(&dst).unwrap().len(), 3 * rows, "{way}");
        if way != "frames" {
            run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        }
    }
    let episodes = bench.at("h5/episodes");
    let ran = convert(&episodes, &bench.at("episodes"), &[]).code(2);
    ran.says("several datasets that may hold the images").says("--from hdf5:file packs each file as a sample; choose");
    convert(&episodes, &bench.at("episodes"), &["--from", "hdf5:file"]).code(0);
    assert_eq!(Dataset::open(bench.at("episodes")).unwrap().len(), 3);
    // A label or a split for each row makes a table.
    for (way, rows) in [("labelled", 18), ("parts", 30)] {
        convert(&bench.at(&format!("h5/{way}")), &bench.at(way), &["--splits", "none"]).code(0);
        assert_eq!(Dataset::open(bench.at(way)).unwrap().len(), rows, "{way}");
    }
}

#[test]
fn datasets_in_groups_and_attributes_of_the_file_are_components_too() {
    let bench = written();
    let dst = bench.at("odd");
    convert(&bench.at("h5/odd"), &dst, &["--from", "hdf5:file"]).code(0);
    check(&bench, "odd", &dst, &["image", "label"]);
    let dataset = Dataset::open(&dst).unwrap();
    let names = &dataset.manifest().components;
    assert_eq!(names[..], ["image.npy", "label.npy", "meta_boxes.npy", "patient.txt"]);
}

#[test]
fn a_damaged_file_is_one_bad_sample() {
    let bench = written();
    let path = bench.at("h5/slices/case1.h5");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    let ran = convert(&bench.at("h5/slices"), &bench.dst(), &[]);
    ran.code(1).says("case1.h5").says("truncated HDF5 file");
    convert(&bench.at("h5/slices"), &bench.dst(), &["--on-bad", "skip", "--force"]).code(0);
    assert_eq!(Dataset::open(bench.dst()).unwrap().len(), 2);
}
