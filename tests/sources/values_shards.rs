//! TFRecord and MDS shards of non-image samples, written by TensorFlow and streaming: every value comes back from every format with its
//! dtype, shape and bits.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, folder_hash, photo, run,
    shards::{self, Feature, convert, make_foreign, skipped, tf_record},
    values::{self, READERS, come_back, expected, read, write},
};

/// Runs `write_value_shards.py` for `format` and returns its output folder; `None` if the format's own writer is not installed.
fn written(bench: &Bench, format: &str) -> Option<PathBuf> {
    let (_, variable) = READERS.iter().find(|(name, _)| *name == format).unwrap();
    let out = bench.at("values");
    fs::create_dir(&out).unwrap();
    write(variable, "write_value_shards.py", &[format, out.to_str().unwrap()]).then_some(out)
}

/// Converts `source` to each format, and each result to all formats; compares the values from readers with the written values.
fn comes_back(bench: &Bench, source: &Path) {
    let name = source.file_name().unwrap().to_str().unwrap();
    let told = run(&["inspect", source.to_str().unwrap()]).code(0);
    assert!(told.stdout.contains("40 samples") && !told.stdout.contains("image"), "{}", told.stdout);
    let of_formats = come_back(bench, source);
    for (to, same) in &of_formats {
        // This output and `same` may differ only in the counts of files beside the source's shards.
        let hashes = of_formats.iter().map(|(from, source)| {
            let dst = bench.at("again");
            values::convert(source, &dst, &["--format", to]).code(0);
            for shard in shards::manifest(same).shards {
                assert_eq!(
                    fs::read(dst.join(&shard.file)).unwrap(),
                    fs::read(same.join(&shard.file)).unwrap(),
                    "{from}"
                );
            }
            let hash = folder_hash(&dst);
            fs::remove_dir_all(dst).unwrap();
            hash
        });
        let hashes: Vec<_> = hashes.collect();
        assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{name}: to {to}");
    }
}

#[test]
fn features_of_tensorflow_come_back_through_the_readers_of_each_format() {
    let bench = Bench::new();
    let Some(written) = written(&bench, "tfrecord") else { return };
    comes_back(&bench, &written.join("tfrecord"));
    comes_back(&bench, &written.join("packed.tfrecord.gz"));
}

#[test]
fn columns_of_streaming_come_back_through_the_readers_of_each_format() {
    let bench = Bench::new();
    let Some(written) = written(&bench, "mds") else { return };
    comes_back(&bench, &written.join("mds"));
    comes_back(&bench, &written.join("mds-zstd"));
    // Pickles are programs: they are reported and counted, and never run.
    let (source, dst) = (written.join("mds-pkl"), bench.at("pkl"));
    let told = run(&["convert", source.to_str().unwrap(), dst.to_str().unwrap(), "--json"]).code(0).json();
    assert_eq!(told["ignored_files"]["component b"], 5, "{told}");
    let source = written.join("mds-pkl-alone");
    run(&["convert", source.to_str().unwrap(), bench.at("no").to_str().unwrap()])
        .code(1)
        .says("column \"b\" is a pickle (pkl), which is a program and is never run");
}

/// Names and types of the components of a dataset.
fn components(dst: &Path) -> Vec<String> {
    let settings = Dataset::open(dst).unwrap().manifest().format.settings.clone();
    let listed = [settings.get("payload"), settings.get("beside")];
    let mut all: Vec<String> =
        listed.into_iter().flatten().flat_map(|list| list.split(',').map(str::to_owned)).collect();
    all.sort();
    all
}

/// For each sample, in source order, the content of the component whose name begins with `name`.
fn contents(dst: &Path, name: &str) -> Vec<Vec<u8>> {
    let dataset = Dataset::open(dst).unwrap().check_content(true);
    let which = dataset.manifest().components.iter().position(|one| one.starts_with(name)).unwrap();
    let mut reader = dataset.reader(..).unwrap();
    let mut contents = Vec::new();
    while let Some(sample) = reader.next().unwrap() {
        contents.push(sample.content(which).unwrap().unwrap_or_default().into_owned());
    }
    contents
}

/// Writes a file of examples with the feature `x` and a number.
fn examples(bench: &Bench, name: &str, features: &[Feature<'_>]) -> PathBuf {
    let path = bench.at(name);
    let record = |feature: &Feature<'_>| tf_record(&[("id", Feature::Ints(&[1])), ("x", feature.clone())]);
    fs::write(&path, features.iter().flat_map(record).collect::<Vec<u8>>()).unwrap();
    path
}

#[test]
fn a_feature_is_one_component_whatever_its_lists_have() {
    let bench = Bench::new();
    let cases: [(&str, &[Feature<'_>], &str); 6] = [
        ("number", &[Feature::Ints(&[5]), Feature::Ints(&[-7])], "x.json:int"),
        ("list", &[Feature::Ints(&[5]), Feature::Ints(&[1, 2]), Feature::Ints(&[])], "x.npy:<i8[?]"),
        ("lists", &[Feature::Ints(&[5, 6]), Feature::Ints(&[1, 2])], "x.npy:<i8[2]"),
        ("text", &[Feature::Bytes(b"a"), Feature::Bytes("\u{e9}\n".as_bytes()), Feature::Bytes(b"")], "x.txt:text"),
        ("bytes", &[Feature::Bytes(b"a"), Feature::Bytes(b"\xff\0"), Feature::Bytes(b"")], "x.bin:bytes"),
        ("control", &[Feature::Bytes(b"a"), Feature::Bytes(b"\x08\x01")], "x.bin:bytes"),
    ];
    for (name, features, expected) in cases {
        let source = examples(&bench, &format!("{name}.tfrecord"), features);
        for (format, _) in READERS {
            let dst = bench.at(&format!("{name}-{format}"));
            convert(&[&source], &dst, &["--format", format, "--order", "source"]).code(0);
            run(&["verify", dst.to_str().unwrap(), "--quiet"]).code(0);
            assert_eq!(components(&dst), ["id.json:int", expected], "{name}");
            for (content, feature) in contents(&dst, "x.").iter().zip(features) {
                match feature {
                    Feature::Bytes(bytes) => assert_eq!(content, bytes, "{name}"),
                    Feature::Ints([one]) if name == "number" => assert_eq!(content, one.to_string().as_bytes()),
                    Feature::Ints(numbers) => {
                        let items: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                        assert_eq!(content[128..], items, "{name}");
                        let shape = format!("'shape': ({},)", numbers.len());
                        assert!(content.windows(shape.len()).any(|part| part == shape.as_bytes()), "{name}");
                    }
                }
            }
        }
    }
    // The same if one file has only single values.
    let (one, two) = (cases[0].1, cases[2].1);
    let (one, two) = (examples(&bench, "one.tfrecord", one), examples(&bench, "two.tfrecord", two));
    let dst = bench.at("both");
    convert(&[&one, &two], &dst, &[]).code(0);
    run(&["verify", dst.to_str().unwrap(), "--quiet"]).code(0);
    assert_eq!(components(&dst), ["id.json:int", "x.npy:<i8[?]"]);
    // The same if the files are splits; each split is also compared alone. Beside an image, a single value is otherwise text.
    let photo = photo();
    let beside = |name: &str, numbers: &[i64]| {
        let path = bench.at(name);
        let record = tf_record(&[
            ("image", Feature::Bytes(&photo)),
            ("label", Feature::Ints(&[0])),
            ("x", Feature::Ints(numbers)),
        ]);
        fs::write(&path, record).unwrap();
        path
    };
    let (image, images) = (beside("image.tfrecord", &[5]), beside("images.tfrecord", &[5, 6]));
    for (name, one, two, all) in [
        ("splits", &one, &two, &["id.json:int", "x.npy:<i8[?]"][..]),
        ("swapped", &two, &one, &["id.json:int", "x.npy:<i8[?]"]),
        ("images", &image, &images, &["x.npy:<i8[?]"]),
    ] {
        let (dst, split) = (bench.at(name), |name: &str, source: &Path| format!("{name}={}", source.display()));
        let parts = [split("train", one), split("val", two)];
        let at = dst.to_str().unwrap();
        run(&["convert", "--split", &parts[0], "--split", &parts[1], at]).code(0);
        run(&["verify", at, "--quiet", "--against", &parts[0], "--against", &parts[1]]).code(0);
        for (part, source) in [("train", one), ("val", two)] {
            assert_eq!(components(&dst.join(part)), all, "{name} {part}");
            let part = dst.join(part);
            run(&["verify", part.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
        }
    }
}

#[test]
fn what_was_written_here_is_the_same_without_its_manifest() {
    let bench = Bench::new();
    let source = bench.at("values");
    fs::create_dir(&source).unwrap();
    assert!(write("SHARDPACK_PYTHON", "write_values.py", &[source.to_str().unwrap()]));
    let source = source.join("dicts");
    for format in ["tfrecord", "mds"] {
        let (dst, again) = (bench.at(format), bench.at(&format!("{format}-again")));
        convert(&[&source], &dst, &["--format", format]).code(0);
        let all = components(&dst);
        make_foreign(&dst);
        convert(&[&dst], &again, &["--from", format, "--shards", "2"]).code(0);
        assert_eq!(components(&again), all, "{format}");
        assert_eq!(read("webdataset", &again).unwrap(), expected(&source), "{format}");
    }
}

#[test]
fn a_label_is_one_where_all_have_it_and_it_can_be_a_class() {
    let bench = Bench::new();
    let of = |name: &str, labels: &[Feature<'_>]| {
        let path = bench.at(name);
        let record = |label: &Feature<'_>| tf_record(&[("label", label.clone()), ("x", Feature::Ints(&[1, 2]))]);
        fs::write(&path, labels.iter().flat_map(record).collect::<Vec<u8>>()).unwrap();
        let dst = bench.at(&format!("{name}-dst"));
        convert(&[&path], &dst, &[]).code(0);
        (components(&dst), shards::classes(&dst))
    };
    let x = "x.npy:<i8[2]".to_owned();
    let words = [Feature::Bytes(b"cat"), Feature::Bytes(b"dog")];
    assert_eq!(of("words", &words), (vec![x.clone()], vec!["cat".to_owned(), "dog".to_owned()]));
    let numbers = [Feature::Ints(&[1]), Feature::Ints(&[0])];
    assert_eq!(of("numbers", &numbers), (vec![x.clone()], vec!["0".to_owned(), "1".to_owned()]));
    let below = [Feature::Ints(&[-1]), Feature::Ints(&[0])];
    assert_eq!(of("below", &below), (vec!["label.json:int".to_owned(), x.clone()], vec![]));
    // One label per token.
    let lists = [Feature::Ints(&[1, 0]), Feature::Ints(&[0])];
    assert_eq!(of("lists", &lists), (vec!["label.npy:<i8[?]".to_owned(), x], vec![]));
}

#[test]
fn what_has_no_image_is_refused_where_others_have_one() {
    let bench = Bench::new();
    let photo = photo();
    let value = tf_record(&[("x", Feature::Ints(&[1, 2])), ("label", Feature::Ints(&[1]))]);
    let image = tf_record(&[("image", Feature::Bytes(&photo)), ("label", Feature::Ints(&[1]))]);
    let label = tf_record(&[("label", Feature::Ints(&[1]))]);
    let source = bench.at("mixed.tfrecord");
    fs::write(&source, [value.as_slice(), &image, &label].concat()).unwrap();
    let dst = bench.at("mixed");
    convert(&[&source], &dst, &[]).code(1).says("no feature holds an image: it has label, x");
    run(&["verify", source.to_str().unwrap()]).code(1).says("no feature holds an image: it has label, x");
    fs::remove_dir_all(&dst).unwrap();
    convert(&[&source], &dst, &["--on-bad", "skip"]).code(0);
    let left: Vec<_> = skipped(&dst).into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["mixed.tfrecord/0", "mixed.tfrecord/2"]);
    // A label alone is not a sample.
    fs::write(&source, [value, label].concat()).unwrap();
    convert(&[&source], &bench.at("no"), &[]).code(1).says("no feature holds an image: it has label");
}

#[test]
fn a_flipped_byte_is_of_a_record() {
    let bench = Bench::new();
    let record = tf_record(&[("x", Feature::Ints(&[1, 2])), ("y", Feature::Bytes(b"text"))]);
    let mut bytes = record.repeat(5);
    bytes[2 * record.len() + 20] ^= 1;
    let source = bench.at("bad.tfrecord");
    fs::write(&source, &bytes).unwrap();
    let ran = run(&["verify", source.to_str().unwrap()]).code(1);
    assert!(ran.stdout.contains('2') || ran.stderr.contains('2'), "{}{}", ran.stdout, ran.stderr);
    let dst = bench.at("dst");
    convert(&[&source], &dst, &["--on-bad", "skip"]).code(0);
    let [(name, reason)] = &skipped(&dst)[..] else { panic!("one record is damaged") };
    assert_eq!(name, "bad.tfrecord/2");
    assert!(reason.contains("CRC"), "{reason}");
    assert_eq!(Dataset::open(&dst).unwrap().len(), 4);
    // The reverse: a dataset was packed from an intact file, and is compared with the damaged file.
    fs::write(&source, record.repeat(5)).unwrap();
    let dst = bench.at("whole");
    convert(&[&source], &dst, &[]).code(0);
    fs::write(&source, &bytes).unwrap();
    run(&["verify", dst.to_str().unwrap(), "--against", source.to_str().unwrap()]).code(1).says("bad.tfrecord/2");
}

#[test]
fn a_damaged_value_of_streaming_is_named_with_its_sample_and_column() {
    let bench = Bench::new();
    let Some(written) = written(&bench, "mds") else { return };
    let shard = written.join("mds/shard.00000.mds");
    let mut bytes = fs::read(&shard).unwrap();
    let first = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    // A sample has the lengths of its variable columns first, then the columns by name. The first column is `any`; it begins with a dtype.
    let variable = 9;
    assert_eq!(bytes[first + 4 * variable], 8, "uint8");
    bytes[first + 4 * variable] = 7;
    let alone = bench.at("alone.mds");
    fs::write(&alone, &bytes).unwrap();
    let dst = bench.at("dst");
    convert(&[&alone], &dst, &[]).code(1).says("alone.mds/0").says("column \"any\": 4 bytes that are no ndarray");
    convert(&[&alone], &dst, &["--on-bad", "skip"]).code(0);
    assert_eq!(skipped(&dst).len(), 1);
}
