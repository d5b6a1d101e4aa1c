//! Arrays beside images: columns, features and datasets from the libraries themselves come back from every format bit for bit.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, run,
    values::{READERS, Told, convert, expected, read, verified, write},
};

/// The output folder of the library `kind`; `None` if the library is not installed.
fn written(bench: &Bench, variable: &str, kind: &str) -> Option<PathBuf> {
    let out = bench.at(kind);
    fs::create_dir(&out).unwrap();
    write(variable, "write_beside.py", &[kind, out.to_str().unwrap()]).then_some(out)
}

/// The types of the components beside the images, from the manifest.
fn types(dst: &Path) -> String {
    Dataset::open(dst).unwrap().manifest().format.settings.get("beside").cloned().unwrap_or_default()
}

/// The distinct contents of the component `name`, as text.
fn texts(dst: &Path, name: &str) -> BTreeSet<String> {
    let dataset = Dataset::open(dst).unwrap();
    let (mut reader, mut found) = (dataset.reader(..).unwrap().check_content(true), BTreeSet::new());
    while let Some(sample) = reader.next().unwrap() {
        let component = sample.components().find(|(known, _)| *known == name);
        found.extend(component.map(|(_, bytes)| String::from_utf8(bytes.to_vec()).unwrap()));
    }
    found
}

/// Converts `source` to each format, and compares the arrays from the format's reader with the written arrays. Returns the datasets.
fn come_back(bench: &Bench, source: &Path) -> Vec<PathBuf> {
    let name = source.file_name().unwrap().to_str().unwrap();
    run(&["verify", source.to_str().unwrap()]).code(0);
    let expected = expected(source);
    let names: BTreeSet<_> = expected.iter().flat_map(|one| one.keys().cloned()).collect();
    let mut all = Vec::new();
    for (format, _) in READERS {
        let dst = bench.at(&format!("{name}-{format}"));
        convert(source, &dst, &["--format", format]).code(0);
        verified(&dst);
        run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
        if let Some(found) = read(format, &dst) {
            let of_arrays = |one: Told| one.into_iter().filter(|(name, _)| names.contains(name)).collect::<Told>();
            let mut found: Vec<_> = found.into_iter().map(of_arrays).collect();
            found.sort();
            assert_eq!(found, expected, "{name} {format}");
        }
        all.push(dst);
    }
    // A shardpack dataset keeps its types in the conversion to another format.
    let again = bench.at(&format!("{name}-again"));
    convert(&all[1], &again, &[]).code(0);
    assert_eq!(types(&again), types(&all[0]), "{name}");
    run(&["verify", again.to_str().unwrap(), "--quiet", "--against", all[1].to_str().unwrap()]).code(0);
    all
}

fn are_in(types: &str, expected: &[&str]) {
    expected.iter().for_each(|one| assert!(types.split(',').any(|known| known == *one), "{one} is not in {types}"));
}

#[test]
fn lists_of_numbers_in_parquet_are_arrays_and_single_numbers_are_text() {
    let bench = Bench::new();
    let out = written(&bench, "SHARDPACK_PYTHON", "parquet").unwrap();
    for dst in come_back(&bench, &out.join("x.parquet")) {
        are_in(
            &types(&dst),
            &[
                "embedding.npy:<f4[64]",
                "tokens.npy:<i8[?]",
                "boxes.npy:<f8[?x?]",
                "half.npy:<f2[]",
                "flags.npy:|b1[2]",
                "maybe.npy:<u2[?]?",
                "score=*.score",
                "caption=*.caption",
                "holes=*.holes",
                "ragged=*.ragged",
            ],
        );
        assert!(texts(&dst, "score").contains("0.3"));
        assert!(texts(&dst, "holes").contains("[2,null]"));
        assert!(texts(&dst, "ragged").contains("[[1.5],[2.0,7.0]]"));
    }
    // A row without its image is bad: the component beside the image does not make the row a sample.
    let lacking = out.join("no-image.parquet");
    convert(&lacking, &bench.at("no"), &[]).code(1).says("the row has no image");
    let told = convert(&lacking, &bench.at("skipped"), &["--on-bad", "skip", "--json"]).code(0).json();
    assert_eq!(told["ignored_files"]["component embedding"], 1, "{told}");
    // Lists of any length are packed, if each row fits in memory.
    let many = bench.at("many");
    convert(&out.join("many.parquet"), &many, &["--no-labels"]).code(0);
    assert_eq!(types(&many), "many.npy:|i1[1048576]");
    // `--components` selects a field by name, with any type.
    let chosen = bench.at("chosen");
    convert(&out.join("x.parquet"), &chosen, &["--components", "embedding,score"]).code(0);
    assert_eq!(types(&chosen), "embedding.npy:<f4[64],score=*.score");
    let none = bench.at("none");
    let told = convert(&out.join("x.parquet"), &none, &["--components", "none", "--json"]).code(0).json();
    assert_eq!(told["ignored_files"]["component embedding"], 20, "{told}");
    convert(&out.join("x.parquet"), &bench.at("rec"), &["--format", "recordio"]).code(0).says("left out: ");
}

#[test]
fn features_of_hugging_face_beside_an_image_keep_dtype_and_shape() {
    let bench = Bench::new();
    let Some(out) = written(&bench, "SHARDPACK_PYTHON_SIDECARS", "datasets") else { return };
    for dst in come_back(&bench, &out.join("hf.parquet")) {
        are_in(&types(&dst), &["embedding.npy:<f4[64]", "grid.npy:<f4[3x4]", "tokens.npy:<i8[?]", "score=*.score"]);
        assert_eq!(Dataset::open(&dst).unwrap().classes().len(), 3);
    }
}

#[test]
fn datasets_beside_images_in_hdf5_are_arrays_of_their_dtype() {
    let bench = Bench::new();
    let out = written(&bench, "SHARDPACK_PYTHON", "hdf5").unwrap();
    for dst in come_back(&bench, &out.join("x.h5")) {
        are_in(
            &types(&dst),
            &[
                "embedding.npy:<f4[64]",
                "depth.npy:>f8[3x5]",
                "mask.npy:|u1[4x4]",
                "bytes_of.npy:|u1[7]",
                "flags.npy:|b1[2]",
                "half.npy:<f2[]",
                "tokens.npy:<i8[?]",
                "score=*.score",
            ],
        );
        assert!(texts(&dst, "score").contains("0.3"));
    }
}

#[test]
fn features_of_tensorflow_beside_an_image_are_arrays_where_any_record_has_several_numbers() {
    let bench = Bench::new();
    let Some(out) = written(&bench, "SHARDPACK_PYTHON_TENSORFLOW", "tfrecord") else { return };
    for dst in come_back(&bench, &out.join("x.tfrecord")) {
        let types = types(&dst);
        are_in(
            &types,
            &[
                "embedding.npy:<f4[64]",
                "tokens.npy:<i8[?]",
                "image_object_bbox_xmin.npy:<f4[?]",
                "image_object_class_label.npy:<i8[?]",
                "double.npy:<f8[3x2]",
                "grid.npy:<f4[2x?]",
                "score=*.score",
                "count=*.count",
                "real=*.real",
            ],
        );
        assert!(!types.contains("nothing") && !types.contains("shape"), "{types}");
        assert!(texts(&dst, "score").contains("0.3") && texts(&dst, "count").contains("19"));
        assert!(texts(&dst, "real").contains("0.3333333333333333"));
    }
    run(&["inspect", out.join("x.tfrecord").to_str().unwrap()]).code(0).says("embedding");
    convert(&out.join("no-image.tfrecord"), &bench.at("no"), &[]).code(1).says("begin like no image");
}

#[test]
fn arrays_of_streaming_beside_an_image_go_along() {
    let bench = Bench::new();
    let Some(out) = written(&bench, "SHARDPACK_PYTHON_STREAMING", "mds") else { return };
    for dst in come_back(&bench, &out.join("mds")) {
        are_in(
            &types(&dst),
            &["embedding.npy:<f4[64]", "tokens.npy:<i8[?]", "any.npy:array[1x?]", "score=*.score", "caption=*.caption"],
        );
        assert!(texts(&dst, "score").contains("0.3"));
    }
    // An array that is shorter than its type is damage, and its sample is reported.
    let shard = out.join("mds/shard.00000.mds");
    let mut bytes = fs::read(&shard).unwrap();
    let says = b"ndarray:float32:64";
    let at = bytes.windows(says.len()).position(|window| window == says).unwrap();
    bytes[at + says.len() - 1] = b'5';
    fs::write(&shard, bytes).unwrap();
    let damaged = "column \"embedding\": 256 bytes that are no ndarray:float32:65";
    convert(&out.join("mds"), &bench.at("no"), &[]).code(1).says(damaged);
    run(&["verify", shard.to_str().unwrap()]).code(1).says(damaged);
}

#[test]
fn verify_reads_a_source_by_the_fields_that_the_manifest_says() {
    let bench = Bench::new();
    let out = written(&bench, "SHARDPACK_PYTHON", "parquet").unwrap();
    let source = out.join("fields.parquet");
    for (name, options) in [
        ("label", &["--label-feature", "quality"][..]),
        ("image", &["--image-feature", "second", "--label-feature", "quality"]),
        ("index", &["--label-feature", "several", "--label-index", "1"]),
        ("renamed", &["--label-feature", "quality", "--fields", "embedding:e"]),
    ] {
        let dst = bench.at(name);
        convert(&source, &dst, options).code(0);
        let (dst, source) = (dst.to_str().unwrap(), source.to_str().unwrap());
        run(&["verify", dst, "--quiet", "--against", source]).code(0);
        run(&[&["convert", source, dst, "--shards", "2"], options].concat()).code(0).says("nothing to do");
        fs::remove_file(bench.at(name).join("shard-000001.tar")).unwrap();
        run(&["verify", dst, "--repair", source]).code(0);
        run(&["verify", dst, "--quiet"]).code(0);
    }
    let settings = Dataset::open(bench.at("index")).unwrap().manifest().format.settings.clone();
    assert_eq!((settings["label_feature"].as_str(), settings["label_index"].as_str()), ("several", "1"));
}
