//! Fields of records that are numbers and no classes: `convert --target` packs them as arrays, from files of every kind.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, contents, run};

fn at(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The files of `write_targets.py` in a new folder.
fn written() -> (Bench, PathBuf) {
    let bench = Bench::with(&[]);
    let folder = bench.at("written");
    fs::create_dir(&folder).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/write_targets.py");
    let python = std::env::var_os("SHARDPACK_PYTHON").expect("SHARDPACK_PYTHON: run `cargo xtask test`");
    let ran = Command::new(python).arg(script).arg(&folder).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    (bench, folder)
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", at(source), at(dst)], options].concat())
}

/// The type and the items of a component, by the length of the image.
fn items(dst: &Path, name: &str) -> BTreeMap<usize, (String, Vec<u8>)> {
    let dataset = Dataset::open(dst).unwrap();
    let components = &dataset.manifest().components;
    let at = components.iter().position(|component| component == name);
    let at = at.unwrap_or_else(|| panic!("no {name} in {components:?}"));
    let (mut reader, mut found) = (dataset.reader(..).unwrap(), BTreeMap::new());
    while let Some(sample) = reader.next().unwrap() {
        if let Some(items) = sample.items(at).unwrap() {
            found.insert(sample.bytes().len(), (sample.form(at).unwrap().to_string(), items.into_owned()));
        }
    }
    found
}

/// That all samples have a component of this type, with these items.
fn check<T: Copy, const N: usize>(dst: &Path, name: &str, form: &str, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
    let found = items(dst, name);
    let per_sample = values.len() / 4;
    let expected = values
        .chunks(per_sample)
        .map(|one| (form.to_owned(), one.iter().flat_map(|value| bytes(*value)).collect::<Vec<_>>()));
    assert_eq!(found.into_values().collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{name} of {}", dst.display());
}

const AGES: [f64; 4] = [1.5, 2.5, 3.5, 4.5];

#[test]
fn every_kind_of_file_gives_the_same_arrays_in_every_format() {
    let (bench, folder) = written();
    let vec = [0.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1.5, 1.0];
    for source in ["x.parquet", "x.lmdb", "x.h5", "x.tfrecord", "x.mds", "json.tar", "files.tar"] {
        for format in ["webdataset", "mds", "tfrecord"] {
            let (source, dst) = (folder.join(source), bench.at(&format!("{source}-{format}")));
            let target = ["--target", "age,n=count:uint8,vec:float32", "--format", format];
            convert(&source, &dst, &target).code(0).says("target  age: float64[]").says("target  n: uint8[]");
            check(&dst, "age.npy", "<f8[]", &AGES, f64::to_le_bytes);
            check(&dst, "n.npy", "|u1[]", &[7u8, 8, 9, 10], u8::to_le_bytes);
            check(&dst, "vec.npy", "<f4[2]", &vec.map(|one| one as f32), f32::to_le_bytes);
            run(&["verify", at(&dst), "--quiet", "--against", at(&source)]).code(0);
        }
    }
}

#[test]
fn targets_need_no_other_components_and_leave_out_what_nobody_wants() {
    let (bench, folder) = written();
    for source in ["x.parquet", "x.lmdb", "json.tar", "files.tar"] {
        for (options, others) in [(["--components", "none"], 0), (["--components", "text"], 1), (["--meta", "none"], 0)]
        {
            if others == 1 && source.ends_with("tar") {
                continue;
            }
            let dst = bench.at(&format!("{source}-{}", options[1]));
            let ran = convert(&folder.join(source), &dst, &[&options[..], &["--target", "age"]].concat()).code(0);
            ran.says("target  age: float64[]").says_not("none has one");
            check(&dst, "age.npy", "<f8[]", &AGES, f64::to_le_bytes);
            assert_eq!(Dataset::open(&dst).unwrap().manifest().components.len(), 2 + others, "{source} {options:?}");
            run(&["verify", at(&dst), "--quiet", "--against", at(&folder.join(source))]).code(0);
        }
    }
}

#[test]
fn a_target_that_is_missing_or_no_number_is_refused_by_name() {
    let (bench, folder) = written();
    for (source, target, what) in [
        ("x.parquet", "nope", "--target nope: no such field beside image and label: there are age, count, text, vec"),
        (
            "x.parquet",
            "text",
            "--target text: no row has a number or a list of numbers; 0.jpg: \"text 0\" is no number",
        ),
        ("x.parquet", "age:uint8", "1.5 does not fit uint8"),
        ("x.parquet", "a=age,a=count", "two components are called \"a.npy\""),
        ("json.tar", "nope", "--target nope: no row has a value"),
        ("x.h5", "age:int", "no dtype \"int\""),
    ] {
        convert(&folder.join(source), &bench.at("no"), &["--target", target]).code(2).clean_error().says(what);
    }
    let dataset = bench.at("dataset");
    convert(&folder.join("x.parquet"), &dataset, &["--quiet"]).code(0);
    let help = "give --target with the source of the dataset";
    convert(&dataset, &bench.at("no"), &["--target", "age"]).code(2).clean_error().says(help);
}

#[test]
fn a_sealed_dataset_that_was_read_as_shards_is_compared_as_such() {
    let (bench, folder) = written();
    let (first, own) = (bench.at("first"), bench.at("own"));
    convert(&folder.join("x.mds"), &first, &["--format", "tfrecord", "--target", "age"]).code(0);
    for target in ["age", "age:float32"] {
        for format in ["webdataset", "tfrecord", "mds"] {
            let options = ["--from", "tfrecord", "--target", target, "--format", format, "--force"];
            convert(&first, &own, &options).code(0);
            run(&["verify", at(&own), "--quiet", "--against", at(&first)]).code(0);
        }
    }
    // A value that changed is found.
    let other = ["--format", "tfrecord", "--components", "none", "--target", "age=count", "--force"];
    convert(&folder.join("x.mds"), &first, &other).code(0);
    run(&["verify", at(&own), "--quiet", "--against", at(&first)]).code(1);
}

#[test]
fn columns_that_no_array_takes_are_named_and_large_numbers_are_unsigned() {
    let (bench, folder) = written();
    let source = folder.join("odd.parquet");
    for column in ["dec", "time"] {
        let says = format!("--target {column}: the field is there, and is of a type that is not read as numbers");
        convert(&source, &bench.at("no"), &["--target", column]).code(2).clean_error().says(&says);
    }
    convert(&source, &bench.dst(), &["--target", "big"]).code(0).says("target  big: uint64[]");
    check(&bench.dst(), "big.npy", "<u8[]", &[7u64, 8, 9, 1 << 63], u64::to_le_bytes);
    let same = convert(&source, &bench.at("no"), &["--target", "n=count,n=big"]).code(2);
    same.says("two components are called \"n.npy\"").says("--target NAME=COLUMN");
    convert(&source, &bench.at("named"), &["--target", "other=count"]).code(0).says("target  other: int64[]");
}

#[test]
fn a_bad_value_is_a_bad_sample_and_a_missing_value_leaves_the_component_out() {
    let (bench, folder) = written();
    let source = folder.join("bad.tar");
    convert(&source, &bench.at("no"), &["--target", "age"]).code(1).says("field \"age\": \"old\" is no number");
    assert!(!bench.at("no").join("manifest.json").exists());
    let skip = ["--target", "age", "--on-bad", "skip"];
    convert(&source, &bench.dst(), &skip).code(0).says("packed  3 of 4").says("target  age: int64[]");
    assert_eq!(items(&bench.dst(), "age.npy").len(), 2);
    // A target is no class.
    convert(&source, &bench.at("label"), &["--target", "cls"]).code(0).says("4 images without labels");
    check(&bench.at("label"), "labels.npy", "<i8[]", &[0i64, 1, 0, 1], i64::to_le_bytes);
}

#[test]
fn parts_have_the_same_arrays() {
    let (bench, folder) = written();
    let (source, target) = (folder.join("json.tar"), ["--target", "age", "--shard-size", "6KiB"]);
    convert(&source, &bench.dst(), &target).code(0);
    for part in ["1/2", "2/2"] {
        convert(&source, &bench.at("parts"), &[&target[..], &["--part", part]].concat()).code(0);
    }
    run(&["merge", at(&bench.at("parts"))]).code(0);
    assert_eq!(contents(&bench.at("parts")), contents(&bench.dst()));
}

#[test]
fn labels_with_fractions_are_arrays_wherever_they_come_from() {
    let (bench, folder) = written();
    let labels = [1.5, 2.0, 2.5, 3.0];
    for source in ["labels.tar", "labels.parquet", "labels.h5", "labels.tfrecord", "labels.lmdb"] {
        for format in ["webdataset", "mds", "tfrecord"] {
            let (source, dst) = (folder.join(source), bench.at(&format!("{source}-{format}")));
            convert(&source, &dst, &["--format", format]).code(0).says("target  labels: float64[]");
            check(&dst, "labels.npy", "<f8[]", &labels, f64::to_le_bytes);
            run(&["verify", at(&dst), "--quiet", "--against", at(&source)]).code(0);
        }
    }
    let csv: String = (0..4).map(|n| format!("{n}.jpg,{}\n", labels[n])).collect();
    let images = Bench::with(&["0.jpg", "1.jpg", "2.jpg", "3.jpg"]);
    let list = shardpack_testing::lists::list(&images, "a.csv", &format!("path,label\n{csv}"));
    shardpack_testing::lists::pack(&list, &images.dst(), &[]).code(0).says("target  labels: float64[]");
    let dataset = Dataset::open(images.dst()).unwrap();
    assert_eq!(dataset.manifest().components, ["jpg", "labels.npy"]);
    shardpack_testing::lists::verify(&images.dst(), &list, &[]);
    // Compressed files are read once more, and nothing is unpacked for this.
    let tar = fs::read(folder.join("labels.tar")).unwrap();
    let packed = bench.at("labels.tar.gz");
    let mut writer = flate2::write::GzEncoder::new(fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    std::io::Write::write_all(&mut writer, &tar).unwrap();
    writer.finish().unwrap();
    convert(&packed, &bench.at("gz"), &[]).code(0).says("target  labels: float64[]");
    check(&bench.at("gz"), "labels.npy", "<f8[]", &labels, f64::to_le_bytes);
    // Words among them stay text.
    convert(&folder.join("labels.tar"), &bench.at("left"), &["--no-labels"]).code(0).says_not("target  ");
}

#[test]
fn targets_are_in_the_document_of_a_plan() {
    let (_bench, folder) = written();
    let source = folder.join("json.tar");
    let ran = convert(&source, &folder.join("none"), &["--target", "age,vec", "--dry-run", "--json"]).code(0);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let expected = serde_json::json!([
        { "name": "age", "dtype": "float64", "shape": [], "mean_length": null, "samples": 4 },
        { "name": "vec", "dtype": "float64", "shape": [2], "mean_length": null, "samples": 4 },
    ]);
    assert_eq!(document["datasets"][0]["targets"], expected);
}
