//! Extra fields of records in databases and tables are kept as components: columns, features and datasets that the original
//! libraries wrote, with numbers and lists as text; and several splits, each with its own components.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use shardpack_testing::{
    Bench, contents, jpeg,
    lists::{self, mend, verify},
    run,
    shards::{self, Feature, Tar, convert, manifest, tf_record},
};

/// Components by name, for each image by its length.
type Expected = BTreeMap<u64, BTreeMap<String, Vec<u8>>>;

const FILES: [&str; 5] = ["x.parquet", "x.tfrecord", "x.h5", "pickle.lmdb", "msgpack.lmdb"];

fn python() -> OsString {
    std::env::var_os("SHARDPACK_PYTHON").unwrap_or_else(|| {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    })
}

fn script(arguments: [&str; 2]) -> Vec<u8> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/write_components.py");
    let ran = Command::new(python()).arg(script).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

fn expected(json: &Value) -> Expected {
    let bytes = |value: &Value| base64(value.as_str().unwrap());
    let components =
        |all: &Value| all.as_object().unwrap().iter().map(|(name, is)| (name.clone(), bytes(is))).collect();
    json.as_object().unwrap().iter().map(|(image, all)| (image.parse().unwrap(), components(all))).collect()
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for digit in text.bytes().filter(|byte| *byte != b'=') {
        bits = bits << 6 | DIGITS.iter().position(|known| *known == digit).unwrap() as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

/// The files that the libraries wrote, and the expected components of each file.
fn written(bench: &Bench) -> (PathBuf, BTreeMap<String, Expected>) {
    let folder = bench.src();
    script(["write", folder.to_str().unwrap()]);
    let json = fs::read(folder.join("expected.json")).unwrap();
    fs::remove_file(folder.join("expected.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    (folder, json.as_object().unwrap().iter().map(|(file, all)| (file.clone(), expected(all))).collect())
}

/// The components of a dataset other than image and label.
fn found(dst: &Path) -> Expected {
    let first = manifest(dst).components[0].clone();
    let not_beside = |name: &str| ["cls", &first].contains(&name) || name.starts_with("image/") || name == "label";
    let samples = lists::samples(dst);
    let sample = |sample: &lists::Sample| {
        let beside = sample.2.iter().filter(|(name, _)| !not_beside(name));
        (sample.2[&first].len() as u64, beside.map(|(name, bytes)| (name.clone(), bytes.clone())).collect())
    };
    samples.values().flatten().map(sample).collect()
}

fn ignored(dst: &Path) -> Vec<(String, u64)> {
    manifest(dst).ignored_files.into_iter().collect()
}

fn left(names: &[(&str, u64)]) -> Vec<(String, u64)> {
    names.iter().map(|(name, samples)| ((*name).to_owned(), *samples)).collect()
}

#[test]
fn columns_features_and_datasets_go_along_as_the_libraries_wrote_them() {
    let bench = Bench::new();
    let (folder, all) = written(&bench);
    let not_told = [
        left(&[("component __index_level_0__", 5), ("component blobs", 5), ("component day", 5)]),
        left(&[("component captions", 1), ("component image/height", 5)]),
        left(&[("component wide", 5), ("dataset huge", 1), ("dataset mean", 1), ("dataset points", 1)]),
        left(&[]),
        left(&[]),
    ];
    for (file, not_told) in FILES.into_iter().zip(not_told) {
        let (source, expected) = (folder.join(file), &all[file]);
        for format in ["webdataset", "mds", "tfrecord"] {
            let dst = bench.at(&format!("{file}-{format}"));
            convert(&[&source], &dst, &["--format", format]).code(0);
            let mut expected = expected.clone();
            if format != "webdataset" {
                // A missing component is empty in formats that cannot record its absence.
                let names: Vec<_> = expected.values().flat_map(BTreeMap::keys).cloned().collect();
                for components in expected.values_mut() {
                    for name in &names {
                        components.entry(name.clone()).or_default();
                    }
                }
            }
            let mut found = found(&dst);
            if format != "webdataset" {
                // These components keep their type; tests/sources/values.rs and tests/sources/values_beside.rs check them.
                let is_text = |name: &String| !name.ends_with(".json") && !name.ends_with(".npy");
                found.values_mut().chain(expected.values_mut()).for_each(|one| one.retain(|name, _| is_text(name)));
            }
            assert_eq!(found, expected, "{file}, {format}");
            assert_eq!(ignored(&dst), not_told, "{file}, {format}");
            verify(&dst, &source, &[]);
            if format == "webdataset" {
                mend(&dst, &source);
                let shard = dst.join(&manifest(&dst).shards[0].file);
                let read = script(["read", shard.to_str().unwrap()]);
                assert!(
                    self::expected(&serde_json::from_slice(&read).unwrap()) == expected,
                    "{file}: webdataset reads others"
                );
            }
        }
    }
}

#[test]
fn which_columns_go_along_can_be_chosen_and_the_others_are_counted() {
    let bench = Bench::new();
    let (folder, all) = written(&bench);
    let chosen = [("x.parquet", "caption,meta"), ("x.tfrecord", "score,image/height"), ("x.h5", "tags,box")];
    for (file, names) in chosen {
        let source = folder.join(file);
        let (none, some) = (bench.at(&format!("none-{file}")), bench.at(&format!("some-{file}")));
        convert(&[&source], &none, &["--components", "none"]).code(0);
        assert!(found(&none).values().all(BTreeMap::is_empty), "{file}");
        verify(&none, &source, &[]);
        convert(&[&source], &some, &["--components", names]).code(0);
        let names: Vec<String> = names.split(',').map(|name| name.replace('/', "_")).collect();
        for (image, components) in found(&some) {
            let mut expected = all[file][&image].clone();
            expected.retain(|name, _| names.contains(&name.replace(".npy", "")));
            if file == "x.tfrecord" {
                expected.insert("image_height".to_owned(), b"2".to_vec());
            }
            assert_eq!(components, expected, "{file}");
        }
        // Every component that is left out is reported.
        let told: Vec<String> = ignored(&none).into_iter().map(|(what, _)| what.replace('/', "_")).collect();
        for name in all[file].values().flat_map(BTreeMap::keys) {
            // The reader of pixels gives them this name.
            let name = if name == "mask.npy" { name } else { name.trim_end_matches(".npy") };
            let name = if name == "clip_score" { "Clip-Score" } else { name };
            assert!(told.contains(&format!("component {name}")), "{file}: {name}: {told:?}");
        }
        verify(&some, &source, &[]);
        mend(&some, &source);
        let ran = convert(&[&source], &bench.at("refused"), &["--components", "nothing"]).code(2);
        ran.says("no sample has a component \"nothing\"").says(&names[0]);
        let all_at_once = bench.at(&format!("threads-{file}"));
        convert(&[&source], &all_at_once, &["--quiet", "--jobs", "2", "--resize", "8", "--on-bad", "skip"]);
    }
}

#[test]
fn what_has_no_place_is_counted_by_the_name_of_its_field_and_nothing_else_is() {
    let bench = Bench::new();
    let (image, source) = (jpeg(1, 7700), bench.at("x.tfrecord"));
    let fields = ["jpg", "A/B", "a b", "c/d", "txt"];
    let mut features: Vec<(&str, Feature<'_>)> =
        vec![("image", Feature::Bytes(&image)), ("label", Feature::Ints(&[1]))];
    features.extend(fields.iter().map(|name| (*name, Feature::Bytes(name.as_bytes()))));
    fs::write(&source, tf_record(&features)).unwrap();
    let ran = convert(&[&source], &bench.dst(), &[]).code(0);
    ran.says("left out, as webdataset has no place for it beside the image: jpg");
    let told = |names: [(&str, &str); 3]| BTreeMap::from(names.map(|(name, is)| (name.to_owned(), is.into())));
    assert_eq!(found(&bench.dst())[&7700], told([("a_b", "A/B"), ("c_d", "c/d"), ("txt", "txt")]));
    assert_eq!(ignored(&bench.dst()), left(&[("component a b", 1), ("component jpg", 1)]));
    let dst = bench.at("rec");
    convert(&[&source], &dst, &["--format", "recordio"]).code(0).says("left out: A/B, a b, c/d, jpg, txt");
    let all = ["A/B", "a b", "c/d", "jpg", "txt"].map(|name| format!("component {name}"));
    assert_eq!(ignored(&dst), left(&all.each_ref().map(|name| (name.as_str(), 1))));
}

#[test]
fn more_components_than_have_room_are_a_question_that_names_them() {
    let bench = Bench::new();
    let names: Vec<String> = (0..33).map(|number| format!("field{number:02}")).collect();
    let image = jpeg(1, 7700);
    let mut features: Vec<(&str, Feature<'_>)> =
        vec![("image", Feature::Bytes(&image)), ("label", Feature::Ints(&[1]))];
    features.extend(names.iter().map(|name| (name.as_str(), Feature::Ints(&[-7]))));
    let (many, fits) = (bench.at("many.tfrecord"), bench.at("fits.tfrecord"));
    fs::write(&many, tf_record(&features)).unwrap();
    fs::write(&fits, tf_record(&features[..34])).unwrap();
    let ran = convert(&[&many], &bench.dst(), &[]).code(2).clean_error();
    ran.says("33 components beside the images").says("field00, field01").says("field32").says("--components NAMES");
    assert!(!bench.dst().exists());
    convert(&[&many], &bench.dst(), &["--components", &names[1..].join(",")]).code(0);
    assert_eq!(found(&bench.dst())[&7700].len(), 32);
    assert_eq!(ignored(&bench.dst()), left(&[("component field00", 1)]));
    convert(&[&many], &bench.at("none"), &["--components", "none"]).code(0);
    convert(&[&fits], &bench.at("fits"), &[]).code(0);
    assert_eq!(found(&bench.at("fits"))[&7700].len(), 32);
    verify(&bench.at("fits"), &fits, &[]);
    // Without components, the limit on their number does not apply.
    convert(&[&many], &bench.at("rec"), &["--format", "recordio"]).code(0);
    assert_eq!(ignored(&bench.at("rec")).len(), 33);
}

#[test]
fn splits_have_the_components_of_all_and_none_that_they_lack() {
    let bench = Bench::new();
    let of = |name: &str, seed: u64, component: &str, text: &[u8]| {
        let path = bench.at(&format!("{name}.tar"));
        let tar =
            Tar::new().sample("1", "0", &jpeg(seed, 7700)).file(&format!("1.{component}"), text).file("1.both", b"b");
        fs::write(&path, tar.bytes()).unwrap();
        path
    };
    let (train, val) = (of("train", 1, "txt", b"caption"), of("val", 2, "json", b"{}"));
    let plain = bench.at("test.tar");
    fs::write(&plain, Tar::new().sample("1", "0", &jpeg(3, 7700)).bytes()).unwrap();
    let split = |name: &str, path: &Path| format!("--split={name}={}", path.display());
    let splits = [split("train", &train), split("val", &val), split("test", &plain)];
    let args = |dst: &Path, format: &str| {
        let mut args = vec!["convert".to_owned()];
        args.extend(splits.iter().cloned());
        args.extend([dst.to_str().unwrap().to_owned(), "--format".to_owned(), format.to_owned()]);
        args
    };
    for format in ["webdataset", "tfrecord"] {
        let dst = bench.at(format);
        let ran = run(&args(&dst, format)).code(0);
        ran.says("1 of 1 images without txt beside them");
        let lacking = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec).or((format != "webdataset").then(Vec::new));
        let rows = [
            ("train", Some(&b"caption"[..]), None, Some(&b"b"[..])),
            ("val", None, Some(&b"{}"[..]), Some(&b"b"[..])),
            ("test", None, None, None),
        ];
        for (split, txt, json, both) in rows {
            let components = found(&dst.join(split)).remove(&7700).unwrap();
            for (name, bytes) in [("txt", txt), ("json", json), ("both", both)] {
                assert_eq!(components.get(name), lacking(bytes).as_ref(), "{format}: {split}: {name}");
            }
        }
        for (split, source) in [("train", &train), ("val", &val), ("test", &plain)] {
            verify(&dst.join(split), source, &[]);
            mend(&dst.join(split), source);
        }
        run(&["verify", dst.to_str().unwrap()]).code(0);
        let again = contents(&dst);
        run(&args(&dst, format)).code(0).says("nothing to do");
        assert_eq!(contents(&dst), again);
    }
}

/// Writes parquet files with four images: a duplicate column, several class names for one label, typed lists of labels, and a
/// test split
/// without labels.
const WRITE: &str = "
import io, json, os, sys, pyarrow as pa, pyarrow.parquet as pq
from PIL import Image
out = sys.argv[1]
def image(number):
    file = io.BytesIO()
    Image.new('RGB', (8, 8), (20 * number, 0, 0)).save(file, 'JPEG')
    return file.getvalue()
images = pa.array([{'bytes': image(number), 'path': None} for number in range(4)])
def write(name, labels, kind=None, **others):
    os.makedirs(os.path.dirname(f'{out}/{name}'), exist_ok=True)
    table = pa.table({'image': images, 'label': labels, **others})
    if kind:
        features = {'image': {'_type': 'Image'}, 'label': kind}
        table = table.replace_schema_metadata({'huggingface': json.dumps({'info': {'features': features}})})
    pq.write_table(table, f'{out}/{name}.parquet')
twice = pa.Table.from_arrays([images, pa.array([0, 1] * 2), pa.array([7, 8] * 2)], names=['image', 'label', 'label'])
pq.write_table(twice, f'{out}/twice.parquet')
of = {'names': ['cat', 'dog'], '_type': 'ClassLabel'}
write('named', [0, 1, 0, 1], class_name=['cat', 'dog', 'kitten', 'dog'])
write('worded', ['pet', 'pet', 'toy', 'toy'], class_name=['cat', 'dog', 'toy', 'toy'])
write('lists', [[0], [0, 1], [], [1]], {'feature': of, '_type': 'Sequence'})
write('mixed/a', [[0], [0, 1], [], [1]])
write('mixed/b', [0, 1, 0, 1])
for split, labels in (('train', [0, 1, 0, 1]), ('test', [-1] * 4)):
    write(f'kept-back/{split}-0', labels, of)
for split, labels in (('train', ['a', 'b', 'a', 'b']), ('test', ['-1'] * 4)):
    write(f'words/{split}-0', labels)
";

#[test]
fn labels_of_columns_that_are_no_single_class_are_refused_counted_or_a_component() {
    let bench = Bench::new();
    let out = bench.at("out");
    shardpack_testing::python(WRITE, &out);
    let to = |name: &str, options: &[&str]| convert(&[&out.join(name)], &bench.at(&format!("{name}.dst")), options);
    to("twice.parquet", &[]).code(1).says("column \"label\" stands twice");
    for (name, classes, lost) in [("named", ["0", "dog"], 2), ("worded", ["pet", "toy"], 2)] {
        let name = format!("{name}.parquet");
        to(&name, &[]).code(0);
        let dst = bench.at(&format!("{name}.dst"));
        assert_eq!(shards::classes(&dst), classes, "{name}");
        assert_eq!(manifest(&dst).ignored_files["name of a class"], lost, "{name}");
    }
    let ran = to("lists.parquet", &[]).code(0);
    ran.says("1 sample with several labels: labels are a component, and no class; the names of 2 classes are left out");
    let dst = bench.at("lists.parquet.dst");
    assert_eq!(shards::classes(&dst), Vec::<String>::new());
    assert_eq!(manifest(&dst).components.len(), 2);
    // A single label next to lists, or one that `--no-labels` drops, is counted.
    to("mixed", &[]).code(0).says("1 sample with several labels");
    assert_eq!(manifest(&bench.at("mixed.dst")).ignored_files["component label"], 4);
    to("named.parquet", &["--no-labels", "--force"]).code(0);
    let ignored = manifest(&bench.at("named.parquet.dst")).ignored_files;
    assert_eq!((ignored["component label"], ignored["name of a class"]), (4, 4));
    // A split with withheld labels has none, and can be converted again.
    for (name, classes) in [("kept-back", ["cat", "dog"]), ("words", ["a", "b"])] {
        to(name, &[]).code(0);
        let (dst, again) = (bench.at(&format!("{name}.dst")), bench.at(&format!("{name}.again")));
        convert(&[&dst], &again, &["--format", "mds"]).code(0);
        for found in [&dst, &again] {
            assert_eq!(shards::classes(&found.join("train")), classes, "{name}");
            assert_eq!(shards::classes(&found.join("test")), Vec::<String>::new(), "{name}");
        }
    }
}

#[test]
fn a_text_that_is_made_here_and_one_of_the_shards_are_not_both_called_json() {
    let bench = Bench::new();
    let path = bench.at("x.tar");
    fs::write(&path, Tar::new().sample("1", "0", &jpeg(1, 7700)).file("1.json", b"{}").bytes()).unwrap();
    let ran = convert(&[&path], &bench.dst(), &["--meta", "json", "--components", "json"]).code(2).clean_error();
    ran.says("json");
    assert!(!bench.dst().exists());
    convert(&[&path], &bench.dst(), &["--meta", "json"]).code(0);
    assert_eq!(ignored(&bench.dst()), left(&[("component json", 1)]));
}

#[test]
fn fields_of_several_files_that_would_be_one_component_do_not_share_it() {
    let bench = Bench::new();
    let record = |field: &str, text: &str, seed: u64| {
        tf_record(&[
            ("image/encoded", Feature::Bytes(&jpeg(seed, 9000 + seed as usize))),
            (field, Feature::Bytes(text.as_bytes())),
        ])
    };
    bench.file("1.tfrecord", &[record("A/B", "one", 1), record("A/B", "two", 2)].concat());
    bench.file("2.tfrecord", &[record("a b", "three", 3), record("A/B", "four", 4)].concat());
    convert(&[&bench.src()], &bench.dst(), &[]).code(0);
    let texts: Vec<_> = found(&bench.dst()).into_values().flat_map(BTreeMap::into_values).collect();
    assert_eq!(texts.iter().filter(|text| *text != b"three").count(), texts.len(), "{texts:?}");
    assert_eq!(ignored(&bench.dst()), left(&[("component a b", 1)]));
}
