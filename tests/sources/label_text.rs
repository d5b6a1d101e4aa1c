//! Text labels become numbers only if every label is a number in canonical form. This rule holds in every source.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use shardpack_testing::{
    Bench, jpeg, run,
    shards::{Feature, Tar, classes, convert, samples, tf_record},
};

/// Writes images `N.jpg` with the labels, given as JSON, as LMDB, Parquet and HDF5.
const WRITE: &str = "
import json, pickle, sys, h5py, lmdb, numpy as np, pyarrow as pa, pyarrow.parquet as pq
out, labels = sys.argv[1], json.loads(sys.argv[2])
images = [open(f'{out}/{n}.jpg', 'rb').read() for n in range(len(labels))]
rows = list(enumerate(zip(images, labels)))
def environment(name, pairs):
    with lmdb.open(f'{out}/{name}.lmdb', subdir=False, map_size=1 << 24) as env, env.begin(write=True) as transaction:
        for key, value in pairs:
            transaction.put(key.encode(), value)
environment('pickle', ((f'{n}', pickle.dumps({'image': i, 'label': l})) for n, (i, l) in rows))
environment('key', ((f'{l}-{n}', i) for n, (i, l) in rows))
environment('ocr', [pair for n, (i, l) in rows for pair in
                    ((f'image-{n + 1:09d}', i), (f'label-{n + 1:09d}', l.encode()))] + [('num-samples', b'%d' % len(rows))])
pq.write_table(pa.table({'image': images, 'label': labels}), f'{out}/x.parquet')
with h5py.File(f'{out}/x.h5', 'w') as file:
    data = file.create_dataset('images', (len(rows),), h5py.vlen_dtype(np.uint8))
    for n, (image, _) in rows:
        data[n] = np.frombuffer(image, np.uint8)
    file['labels'] = labels
";

/// An MDS shard with a text column `label`.
fn mds(images: &[Vec<u8>], labels: &[&str]) -> Vec<u8> {
    let config = json!({
        "column_encodings": ["jpeg", "str"], "column_names": ["image", "label"], "column_sizes": [null, null],
        "compression": null, "format": "mds", "hashes": [], "size_limit": 67_108_864, "version": 2,
    });
    let config = config.to_string().replace(':', ": ").replace(',', ", ");
    let records = images.iter().zip(labels).map(|(image, label)| {
        [&(image.len() as u32).to_le_bytes()[..], &(label.len() as u32).to_le_bytes(), image, label.as_bytes()].concat()
    });
    let mut at = 4 * (images.len() + 2) + config.len();
    let mut table = [(images.len() as u32).to_le_bytes(), (at as u32).to_le_bytes()].concat();
    let records: Vec<Vec<u8>> = records.collect();
    for record in &records {
        at += record.len();
        table.extend((at as u32).to_le_bytes());
    }
    [table, config.into_bytes(), records.concat()].concat()
}

/// Every source that stores labels as text, with the options that it needs.
fn written(bench: &Bench, labels: &[&str]) -> Vec<(PathBuf, Vec<&'static str>)> {
    let images: Vec<_> = (0..labels.len()).map(image).collect();
    for (number, image) in images.iter().enumerate() {
        bench.file(bench.at(&format!("{number}.jpg")), image);
    }
    let rows = || images.iter().zip(labels).enumerate();
    let python = std::env::var_os("SHARDPACK_PYTHON").expect("run `cargo xtask test`, which sets up Python");
    let out = bench.at("");
    let ran = Command::new(python).args(["-c", WRITE]).arg(&out).arg(json!(labels).to_string()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let tar = rows().fold(Tar::new(), |tar, (number, (image, label))| {
        // The folder in the path is not a class, because the labels are words.
        let path = json!({"path": format!("folder/{number}.jpg")}).to_string();
        tar.sample(&format!("{number}"), &format!(" {label}\n"), image).file(&format!("{number}.json"), path.as_bytes())
    });
    fs::write(bench.at("x.tar"), tar.bytes()).unwrap();
    let text = rows().fold(Tar::new(), |tar, (number, (image, label))| {
        tar.file(&format!("{number}.jpg"), image).file(&format!("{number}.txt"), label.as_bytes())
    });
    fs::write(bench.at("text.tar"), text.bytes()).unwrap();
    let records = rows().flat_map(|(_, (image, label))| {
        tf_record(&[("image/encoded", Feature::Bytes(image)), ("label", Feature::Bytes(label.as_bytes()))])
    });
    fs::write(bench.at("x.tfrecord"), records.collect::<Vec<_>>()).unwrap();
    fs::write(bench.at("x.mds"), mds(&images, labels)).unwrap();
    let list = rows().map(|(number, (_, label))| format!("{number}.jpg,{label}\n"));
    fs::write(bench.at("list.csv"), format!("path,label\n{}", list.collect::<String>())).unwrap();
    let file = rows().map(|(number, (_, label))| format!("{number},{label}\n"));
    fs::write(bench.at("labels.csv"), format!("key,label\n{}", file.collect::<String>())).unwrap();
    let mut sources: Vec<_> =
        ["x.tar", "x.tfrecord", "x.mds", "list.csv", "pickle.lmdb", "ocr.lmdb", "x.parquet", "x.h5"]
            .map(|name| (bench.at(name), Vec::new()))
            .into();
    sources.push((bench.at("text.tar"), vec!["--label-feature", "txt"]));
    sources.push((bench.at("key.lmdb"), vec!["--key-pattern", "{label}-{id}"]));
    sources
}

fn image(number: usize) -> Vec<u8> {
    jpeg(number as u64 + 1, 5500 + number)
}

/// Packs, and compares with the source.
fn packed_right(source: &Path, dst: &Path, options: &[&str]) {
    let ran = match source.extension().is_some_and(|extension| extension == "csv") {
        true => run(&[&["pack", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat()),
        false => convert(&[source], dst, options),
    };
    ran.code(0);
    run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", source.to_str().unwrap()]).code(0);
}

/// Class names of the samples, in the order of their images.
fn packed(source: &Path, dst: &Path, options: &[&str]) -> Vec<String> {
    packed_right(source, dst, options);
    let mut samples = samples(dst);
    samples.sort_by_key(|(_, image)| image.len());
    let names = classes(dst);
    samples.into_iter().map(|(label, _)| names[usize::try_from(label).unwrap()].clone()).collect()
}

#[test]
fn words_stay_words_in_every_source_though_some_spell_numbers() {
    for labels in [
        ["hello", "2019", "007", "7", "hello"],
        ["07", "7", "1_0", "+7", "7"],
        ["10", "2", "123456789012345678901", "2", "10"],
        ["1", "20190405", "3", "0", "1"],
    ] {
        let bench = Bench::new();
        let mut names = labels.to_vec();
        names.sort_unstable();
        names.dedup();
        for (source, options) in written(&bench, &labels) {
            assert_eq!(packed(&source, &bench.dst(), &options), labels, "{}", source.display());
            assert_eq!(classes(&bench.dst()), names, "{}", source.display());
            fs::remove_dir_all(bench.dst()).unwrap();
        }
    }
}

#[test]
fn text_that_is_all_numbers_is_numbers_but_for_the_text_in_a_picture() {
    let (bench, labels) = (Bench::new(), ["10", "2", "0", "2", "10"]);
    for (source, options) in written(&bench, &labels) {
        packed(&source, &bench.dst(), &options);
        let is_ocr = source.ends_with("ocr.lmdb");
        let mut found: Vec<_> = samples(&bench.dst());
        found.sort_by_key(|(_, image)| image.len());
        let numbers: Vec<i64> = found.into_iter().map(|(label, _)| label).collect();
        let expected = if is_ocr { [1, 2, 0, 2, 1] } else { [10, 2, 0, 2, 10] };
        assert_eq!(numbers, expected, "{}", source.display());
        assert_eq!(classes(&bench.dst()).len(), if is_ocr { 3 } else { 11 }, "{}", source.display());
        fs::remove_dir_all(bench.dst()).unwrap();
    }
}

#[test]
fn numbers_with_fractions_are_no_classes_in_any_source_but_for_the_text_in_a_picture() {
    let (bench, labels) = (Bench::new(), ["0.5", "1.25", "3", "0.03", "7.5"]);
    for (source, options) in written(&bench, &labels) {
        let (name, dst) = (source.display(), bench.dst());
        if !options.is_empty() {
            let ran = convert(&[&source], &dst, &options).code(2).clean_error();
            ran.says("are numbers with fractions: a component, and no class")
                .says("--no-labels packs samples without a class");
            convert(&[&source], &dst, &["--no-labels"]).code(0);
            fs::remove_dir_all(&dst).unwrap();
            continue;
        }
        packed_right(&source, &dst, &[]);
        if source.ends_with("ocr.lmdb") {
            assert_eq!(classes(&dst).len(), labels.len(), "{name}");
            fs::remove_dir_all(&dst).unwrap();
            continue;
        }
        assert!(classes(&dst).is_empty(), "{name}");
        fs::write(bench.at("classes.txt"), "low\nhigh\n").unwrap();
        let verb = if source.ends_with("list.csv") { "pack" } else { "convert" };
        let ran = bench.shardpack(&format!("{verb} {name} @renamed --classes {}", bench.at("classes.txt").display()));
        ran.code(2).says("the source has no classes").clean_error();
        let found = fs::read(dst.join("shard-000000.tar")).unwrap();
        for label in labels {
            let number: f64 = label.parse().unwrap();
            let has = |bytes: &[u8]| found.windows(bytes.len()).any(|part| part == bytes);
            let is_there = has(&number.to_le_bytes()) || has(&(number as f32).to_le_bytes());
            assert!(is_there, "{name}: {label}");
        }
        fs::remove_dir_all(&dst).unwrap();
    }
}

#[test]
fn a_label_below_0_is_refused_among_numbers_and_said_where_words_are_told() {
    let bench = Bench::new();
    let tar = |labels: [&str; 2]| {
        let tar = Tar::new().sample("a", labels[0], &image(0)).sample("b", labels[1], &image(1));
        fs::write(bench.at("x.tar"), tar.bytes()).unwrap();
    };
    tar(["3", "-1"]);
    convert(&[&bench.at("x.tar")], &bench.dst(), &[]).code(1).says("label -1: no class has a number below 0");
    tar(["3", "unknown"]);
    convert(&[&bench.at("x.tar")], &bench.dst(), &["--quiet", "--force"]).code(0);
    assert_eq!(classes(&bench.dst()), ["3", "unknown"]);
    let ran = convert(&[&bench.at("x.tar")], &bench.at("again"), &[]).code(0);
    ran.says("labels are words, also the 1 of 2 that spell numbers: \"unknown\" is not a class number");
}

#[test]
fn text_beside_records_whose_labels_are_numbers_is_refused() {
    let bench = Bench::new();
    let records = [tf_record(&[("image", Feature::Bytes(&image(0))), ("label", Feature::Ints(&[3]))]), {
        tf_record(&[("image", Feature::Bytes(&image(1))), ("label", Feature::Bytes(b"007"))])
    }];
    fs::write(bench.at("x.tfrecord"), records.concat()).unwrap();
    let ran = convert(&[&bench.at("x.tfrecord")], &bench.dst(), &[]).code(1);
    ran.says("label \"007\" is not a number, but other labels are");
}
