//! Non-image samples from parquet: columns of every type come back from every format byte for byte.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, folder_hash, run,
    values::{come_back, convert, verified, write},
};

/// Runs `write_parquet.py`, which writes with pyarrow, and returns its output folder.
fn written(bench: &Bench) -> PathBuf {
    let out = bench.at("parquet");
    fs::create_dir(&out).unwrap();
    assert!(write("SHARDPACK_PYTHON", "write_parquet.py", &[out.to_str().unwrap()]));
    out
}

/// The types of the components, from the manifest, the payload first.
fn types(dst: &Path) -> String {
    let settings = Dataset::open(dst).unwrap().manifest().format.settings.clone();
    let of = |name: &str| settings.get(name).cloned().unwrap_or_default();
    format!("{},{}", of("payload"), of("beside"))
}

#[test]
fn columns_of_every_type_come_back_through_the_readers_of_each_format() {
    let bench = Bench::new();
    let files = written(&bench);
    for name in ["types.parquet", "lists.parquet", "xy"] {
        for (format, dst) in come_back(&bench, &files.join(name)) {
            let (types, classes) = (types(&dst), Dataset::open(&dst).unwrap().classes().len());
            let expected = match name {
                "types.parquet" => vec!["int8.npy:|i1[],", "float16.npy:<f2[],", "yes.npy:|b1[]"],
                "lists.parquet" => vec![
                    "varying.npy:|u1[?]",
                    "maybe.npy:<i8[?]?,",
                    "some.npy:<i4[]?,",
                    "grid.npy:<i2[?x4]",
                    "fixed.bin:bytes,",
                    "holes.json:json,",
                    "ragged.json:json,",
                ],
                _ => vec!["x.npy:<f4[64]"],
            };
            for expected in expected {
                assert!(types.contains(expected), "{name} {format}: {expected} is not in {types}");
            }
            assert_eq!(classes, if name == "xy" { 9 } else { 0 }, "{name} {format}");
        }
    }
    // Columns of types that shardpack cannot store are counted by name.
    let ran = convert(&files.join("types.parquet"), &bench.at("counted"), &["--json"]).code(0).json();
    let ignored = &ran["ignored_files"];
    for name in ["money", "when"] {
        assert_eq!(ignored[format!("component {name}")], 30, "{ignored}");
    }
}

#[test]
fn features_of_hugging_face_come_back_with_names_of_classes_and_extensions_of_files() {
    let bench = Bench::new();
    let out = bench.at("hf");
    fs::create_dir(&out).unwrap();
    if !write("SHARDPACK_PYTHON_SIDECARS", "write_parquet.py", &[out.to_str().unwrap(), "datasets"]) {
        return;
    }
    let source = out.join("features.parquet");
    for (format, dst) in come_back(&bench, &source) {
        let dataset = Dataset::open(&dst).unwrap();
        let classes: Vec<_> = dataset.classes().iter().map(|class| class.name.to_string()).collect();
        assert_eq!(classes, ["ant", "bee", "cat"], "{format}");
        let types = types(&dst);
        for expected in
            ["grid.npy:<f4[3x4]", "cube.npy:|u1[?x2x2]", "embedding.npy:<f2[5]", "sound.wav:bytes", "note.txt:text?"]
        {
            assert!(types.contains(expected), "{format}: {expected} is not in {types}");
        }
    }
    run(&["inspect", source.to_str().unwrap()]).code(0).says("30 samples in 3 classes").says("sound.wav");
}

#[test]
fn a_table_of_values_that_looks_like_a_list_is_compared_as_values_and_without_the_tables_beside_it() {
    let bench = Bench::new();
    let (source, dst) = (written(&bench).join("paths.parquet"), bench.at("dst"));
    convert(&source, &dst, &[]).code(0);
    verified(&dst);
    run(&["verify", dst.to_str().unwrap(), "--against", source.to_str().unwrap()]).code(0);
    // As a split, too.
    let (split, dst) = (format!("train={}", source.to_str().unwrap()), bench.at("split"));
    run(&["convert", "--split", &split, dst.to_str().unwrap()]).code(0);
    run(&["verify", dst.to_str().unwrap(), "--against", &split]).code(0);
}

#[test]
fn every_codec_gives_the_same_dataset() {
    let bench = Bench::new();
    let files = written(&bench).join("codecs");
    let plain = bench.at("none");
    convert(&files.join("none"), &plain, &["--jobs", "1"]).code(0);
    verified(&plain);
    for codec in ["snappy", "gzip", "brotli", "zstd", "lz4"] {
        let dst = bench.at(codec);
        convert(&files.join(codec), &dst, &["--jobs", "3"]).code(0);
        assert_eq!(folder_hash(&dst), folder_hash(&plain), "{codec}");
        run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", files.join(codec).to_str().unwrap()]).code(0);
    }
}

#[test]
fn a_flipped_byte_is_of_a_column_of_a_row_group_or_of_a_component() {
    let bench = Bench::new();
    let files = written(&bench).join("codecs");
    let source = files.join("none/x.parquet");
    let good = fs::read(&source).unwrap();
    // The text value that one row in four has.
    let at = good.windows(9).rposition(|bytes| bytes == b"\x05\0\0\0plain").unwrap() + 4;
    let mut bad = good.clone();
    bad[at] ^= 1;
    fs::write(&source, &bad).unwrap();
    let named = "row group 3, column \"text\"";
    convert(&source, &bench.at("no"), &[]).code(1).says(named).says("CRC");
    run(&["verify", source.to_str().unwrap()]).code(1).says(named);
    run(&["inspect", source.to_str().unwrap()]).code(1).says(named);
    let dst = bench.at("skipped");
    let ran = convert(&source, &dst, &["--on-bad", "skip", "--json"]).code(0).json();
    assert!(ran["unpacked"][0]["reason"].as_str().unwrap().contains(named), "{ran}");
    let kept = Dataset::open(&dst).unwrap().len();
    assert!((1..30).contains(&kept), "{kept}");

    fs::write(&source, &good).unwrap();
    let dst = bench.at("dst");
    convert(&source, &dst, &[]).code(0);
    let (key, name, at, file) = {
        let dataset = Dataset::open(&dst).unwrap();
        let names = dataset.manifest().components.clone();
        let number = names.iter().position(|name| name == "text.txt").unwrap();
        let row = (0..30).map(|row| dataset.row(row).unwrap()).zip(0..);
        let mut rows = row.filter_map(|(row, number_of)| {
            let extent = row.component(number).filter(|extent| extent.bytes > 0)?;
            Some((String::from_utf8(row.key.to_vec()).unwrap(), row.offset + u64::from(extent.offset), number_of))
        });
        let (key, at, row) = rows.next().unwrap();
        (key, names[number].clone(), at, dataset.shard_of(row).unwrap().path())
    };
    let mut bad = fs::read(&file).unwrap();
    bad[at as usize] ^= 1;
    fs::write(&file, &bad).unwrap();
    run(&["verify", dst.to_str().unwrap()]).code(1).says(&key).says(&format!("hash of component {name} differs"));
    run(&["verify", dst.to_str().unwrap(), "--repair", source.to_str().unwrap()]).code(0);
    verified(&dst);
}

#[test]
fn a_label_of_named_classes_that_a_row_lacks_is_a_component() {
    let bench = Bench::new();
    let source = written(&bench).join("partly.parquet");
    let dst = bench.at("component");
    convert(&source, &dst, &[])
        .code(0)
        .says("field \"label\" is a component, not a label, because 29 of 30 samples have it");
    let dataset = Dataset::open(&dst).unwrap();
    assert_eq!((dataset.len(), dataset.classes().len()), (30, 0));
    assert_eq!(types(&dst), "x.npy:<f4[8],label.npy:<i8[]?");
    let asked = ["--label-feature", "label"];
    convert(&source, &bench.at("asked"), &asked).code(1).says("no label");
    let dst = bench.at("skipped");
    convert(&source, &dst, &[&asked[..], &["--on-bad", "skip"]].concat()).code(0);
    let dataset = Dataset::open(&dst).unwrap();
    assert_eq!((dataset.len(), dataset.classes().len()), (29, 3));
    let dst = bench.at("none");
    convert(&source, &dst, &["--no-labels"]).code(0).says_not("is a component");
    assert_eq!(types(&dst), "x.npy:<f4[8],label.npy:<i8[]?");
}

#[test]
fn lists_of_images_are_refused_unless_other_columns_are_chosen() {
    let bench = Bench::new();
    let source = written(&bench).join("images.parquet");
    convert(&source, &bench.at("no"), &[])
        .code(2)
        .clean_error()
        .says("column \"images\" holds lists of files")
        .says("--components");
    let dst = bench.at("text");
    convert(&source, &dst, &["--components", "text"]).code(0);
    let dataset = Dataset::open(&dst).unwrap();
    assert_eq!((dataset.len(), dataset.manifest().components.clone()), (3, vec!["text.txt".to_owned()]));
}

#[test]
fn rows_of_values_beside_images_are_refused_by_name() {
    let bench = Bench::new();
    let files = written(&bench).join("both");
    fs::create_dir(&files).unwrap();
    fs::copy(bench.at("parquet/xy/1.parquet"), files.join("1.parquet")).unwrap();
    bench.file("ant/1.jpg", &shardpack_testing::photo());
    let packed = bench.at("packed");
    bench.pack_to(&packed, &["--format", "tfrecord"]).code(0);
    let shard = fs::read_dir(&packed).unwrap().map(|entry| entry.unwrap().path());
    let shard = shard.filter(|path| path.to_str().unwrap().contains("shard-")).min().unwrap();
    fs::copy(shard, files.join("x.tfrecord")).unwrap();
    let (from, no, skipped) = (files.to_str().unwrap(), bench.at("no"), bench.at("skipped"));
    run(&["convert", from, no.to_str().unwrap()]).code(1).says("1.parquet/0: a row of values, no image");
    let ran = run(&["convert", from, skipped.to_str().unwrap(), "--on-bad", "skip", "--json"]).code(0).json();
    assert_eq!((ran["datasets"][0]["samples"].as_u64(), ran["unpacked"].as_array().unwrap().len()), (Some(1), 30));
}

#[test]
fn a_table_of_values_with_a_column_of_paths_is_compared_as_it_was_read() {
    let bench = Bench::new();
    let source = bench.at("x.parquet");
    let script = "import sys, pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({'path': [f'{n}.wav' for n in range(9)], 'x': [[n, 0.5] for n in range(9)]}), sys.argv[1])";
    let python = std::env::var_os("SHARDPACK_PYTHON").unwrap();
    assert!(Command::new(python).args(["-c", script]).arg(&source).status().unwrap().success());
    let dst = bench.at("dst");
    convert(&source, &dst, &[]).code(0);
    run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
}
