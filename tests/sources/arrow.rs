//! Arrow files: those of `datasets.save_to_disk`, with what `load_from_disk` returns, and others, with the values of the same tables in
//! parquet. Repositories of Hugging Face, by their README.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use shardpack_reader::Dataset as Sealed;
use shardpack_testing::{
    Bench, contents, members, run,
    values::{come_back, convert, verified, write},
};

/// The folder of saved datasets; `None` without `datasets`.
fn saved(bench: &Bench) -> Option<PathBuf> {
    let out = bench.at("saved");
    fs::create_dir(&out).unwrap();
    write("SHARDPACK_PYTHON_SIDECARS", "write_arrow.py", &[out.to_str().unwrap()]).then_some(out)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Names of the classes, in label order.
fn classes(dst: &Path) -> Vec<String> {
    Sealed::open(dst).unwrap().classes().iter().map(|class| class.name.to_string()).collect()
}

/// Image, class and caption of each sample of a dataset in tar shards, in order.
fn samples(dst: &Path) -> Vec<(Vec<u8>, Option<String>, String)> {
    let names = classes(dst);
    let shards = contents(dst).into_keys().filter(|path| path.extension().is_some_and(|extension| extension == "tar"));
    let members = shards.flat_map(|shard| members(&dst.join(shard)));
    let mut samples: Vec<(String, BTreeMap<String, Vec<u8>>)> = Vec::new();
    for (name, bytes) in members {
        let (key, extension) = name.split_once('.').unwrap();
        if samples.last().is_none_or(|(last, _)| last != key) {
            samples.push((key.to_owned(), BTreeMap::new()));
        }
        samples.last_mut().unwrap().1.insert(extension.to_owned(), bytes);
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let sample = |(_, members): (String, BTreeMap<String, Vec<u8>>)| {
        let class = members.get("cls").map(|label| names[text(label).parse::<usize>().unwrap()].clone());
        (members["png"].clone(), class, text(&members["caption"]))
    };
    samples.into_iter().map(sample).collect()
}

/// Checks that a dataset has the images, classes and captions that `datasets` lists in `expected`.
fn check(dst: &Path, expected: &Value) {
    let mut found = samples(dst);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let byte = |value: &Value| u8::try_from(value.as_u64().unwrap()).unwrap();
    let row = |row: &Value| {
        let image: Vec<u8> = row["image"].as_array().unwrap().iter().map(byte).collect();
        (image, text(&row["class"]), text(&row["caption"]).unwrap())
    };
    let mut expected: Vec<_> = expected.as_array().unwrap().iter().map(row).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn saved_images_come_back_with_names_of_classes_and_splits() {
    let bench = Bench::new();
    let Some(saved) = saved(&bench) else { return };
    let of = |name: &str| saved.join(name).to_str().unwrap().to_owned();
    let (source, dst) = (of("saved"), bench.at("one"));
    run(&["convert", &source, dst.to_str().unwrap()]).code(0).says("3 files of arrow");
    verified(&dst);
    check(&dst, &json(&saved.join("saved.json")));
    assert_eq!(classes(&dst), ["wasp", "ant", "bee"]);
    run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", &source]).code(0);
    run(&["inspect", &source]).code(0).says("20 samples in 3 classes");
    run(&["verify", &source]).code(0);
    // The order of the files is that of the names, and rows keep their order.
    let order = bench.at("order");
    run(&["convert", &source, order.to_str().unwrap(), "--order", "source", "--no-labels"]).code(0);
    let captions: Vec<_> = samples(&order).into_iter().map(|(_, _, caption)| caption).collect();
    let rows = json(&saved.join("saved.json"));
    let expected: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["caption"].as_str().unwrap()).collect();
    assert_eq!(captions, expected);

    // Of a DatasetDict, also splits with a name of their own.
    let (source, dst) = (of("splits"), bench.at("splits"));
    run(&["convert", &source, dst.to_str().unwrap()]).code(0).says("splits train, held_out");
    let rows = json(&saved.join("splits.json"));
    for split in ["train", "held_out"] {
        check(&dst.join(split), &rows[split]);
    }
    run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", &source]).code(0);
    let dst = bench.at("merged");
    let merged = run(&["convert", &source, dst.to_str().unwrap(), "--splits", "none", "--json"]).code(0).json();
    assert_eq!(merged["datasets"][0]["samples"], 26, "{merged}");
    let dst = bench.at("train");
    run(&["convert", &source, dst.to_str().unwrap(), "--splits", "train"]).code(0);
    check(&dst.join("train"), &rows["train"]);
    run(&["convert", &source, bench.at("no").to_str().unwrap(), "--splits", "val"]).code(2).says("no split \"val\"");
    fs::remove_dir_all(saved.join("splits/held_out")).unwrap();
    run(&["convert", &source, bench.at("no").to_str().unwrap()]).code(2).says("held_out");

    // Labels that are withheld are no class.
    let dst = bench.at("hidden");
    run(&["convert", &of("hidden"), dst.to_str().unwrap()]).code(0).says("every label is -1");
    check(&dst, &json(&saved.join("hidden.json")));
    assert!(classes(&dst).is_empty());
}

#[test]
fn saved_values_come_back_through_the_readers_of_each_format() {
    let bench = Bench::new();
    let Some(saved) = saved(&bench) else { return };
    for (format, dst) in come_back(&bench, &saved.join("values")) {
        let settings = Sealed::open(&dst).unwrap().manifest().format.settings.clone();
        let types = format!("{:?} {:?}", settings.get("payload"), settings.get("beside"));
        for expected in
            ["number.npy:<i2[]", "vector.npy:<f4[?]", "fixed.npy:<i8[3]", "grid.npy:|u1[2x3]", "text.txt:text?"]
        {
            assert!(types.contains(expected), "{format}: {expected} is not in {types}");
        }
    }
}

#[test]
fn a_saved_dataset_with_a_missing_file_or_an_order_of_rows_is_refused() {
    let bench = Bench::new();
    let Some(saved) = saved(&bench) else { return };
    let source = saved.join("saved");
    let state = source.join("state.json");
    let good = fs::read_to_string(&state).unwrap();
    let with = "\"_indices_files\": [{\"filename\": \"indices.arrow\"}], \"_data_files\"";
    fs::write(&state, good.replacen("\"_data_files\"", with, 1)).unwrap();
    run(&["convert", source.to_str().unwrap(), bench.at("no").to_str().unwrap()])
        .code(2)
        .says("are a selection")
        .says("save_to_disk(OTHER)");
    fs::write(&state, good).unwrap();
    fs::remove_file(source.join("data-00001-of-00003.arrow")).unwrap();
    run(&["convert", source.to_str().unwrap(), bench.at("no").to_str().unwrap()]).code(1).says("1 of 3");
}

#[test]
fn files_have_the_values_of_the_same_tables_in_parquet() {
    let bench = Bench::new();
    let (tables, files) = (bench.at("parquet"), bench.at("arrow"));
    fs::create_dir(&tables).unwrap();
    assert!(write("SHARDPACK_PYTHON", "write_parquet.py", &[tables.to_str().unwrap()]));
    assert!(write("SHARDPACK_PYTHON", "write_arrow.py", &[tables.to_str().unwrap(), files.to_str().unwrap()]));
    for name in ["types.arrow", "lists.arrow", "xy"] {
        come_back(&bench, &files.join(name));
    }
    let ran = convert(&files.join("types.arrow"), &bench.at("counted"), &["--json"]).code(0).json();
    for name in ["money", "when"] {
        assert_eq!(ran["ignored_files"][format!("component {name}")], 30, "{ran}");
    }
    convert(&files.join("images.arrow"), &bench.at("no"), &[]).code(2).says("holds lists of files");
    convert(&files.join("partly.arrow"), &bench.at("partly"), &[]).code(0).says("29 of 30 samples have it");
}

#[test]
fn the_only_configuration_of_a_repository_gives_the_splits() {
    let bench = Bench::new();
    let files = bench.at("tables");
    fs::create_dir(&files).unwrap();
    assert!(write("SHARDPACK_PYTHON", "write_parquet.py", &[files.to_str().unwrap()]));
    let repo = bench.at("repo");
    fs::create_dir_all(repo.join("data")).unwrap();
    for (from, to) in [("1", "train-00000-of-00001"), ("2", "extra-00000-of-00001")] {
        fs::copy(files.join(format!("xy/{from}.parquet")), repo.join(format!("data/{to}.parquet"))).unwrap();
    }
    fs::write(repo.join(".gitattributes"), "*.parquet filter=lfs\n").unwrap();
    let readme =
        |configs: &str| fs::write(repo.join("README.md"), format!("---\nconfigs:\n{configs}---\n# x\n")).unwrap();
    let one = "- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: extra\n    path: data/extra-*\n";
    readme(one);
    let (source, dst) = (repo.to_str().unwrap(), bench.at("dst"));
    let ran = run(&["convert", source, dst.to_str().unwrap(), "--json"]).code(0).json();
    // Only files that are no shards are left out.
    assert_eq!(ran["ignored_files"], serde_json::json!({"extension .md": 1, "hidden": 1}), "{ran}");
    for split in ["train", "extra"] {
        assert_eq!(Sealed::open(dst.join(split)).unwrap().len(), 30, "{split}");
    }
    run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source]).code(0);

    let no = bench.at("no");
    let fails = |text: &str| run(&["convert", source, no.to_str().unwrap()]).code(2).clean_error().says(text);
    readme(&one.replace("extra-*", "test-*"));
    fails("no file matches this pattern");
    readme(&format!("{one}- config_name: second\n  data_files: data/extra-*\n"));
    fails("describes 2 datasets: default, second").says("--split 'train=");
    readme("- !t {a: b}\n");
    fails("the tag !t, a type of another program");
    // Shards in the folder that the configuration does not name are counted.
    readme(one);
    fs::copy(files.join("xy/1.parquet"), repo.join("more.parquet")).unwrap();
    let dst = bench.at("more");
    let ran = run(&["convert", source, dst.to_str().unwrap(), "--json"]).code(0).json();
    assert_eq!(ran["ignored_files"]["shard that README.md does not name"], 1, "{ran}");
}

#[test]
fn files_that_state_json_does_not_name_are_no_samples() {
    let bench = Bench::new();
    let Some(saved) = saved(&bench) else { return };
    let (source, dst) = (saved.join("saved"), bench.at("one"));
    // Where `Dataset.map` keeps its results.
    let data = source.join("data-00000-of-00003.arrow");
    fs::copy(&data, source.join("cache-0123456789abcdef.arrow")).unwrap();
    let line = [source.to_str().unwrap(), dst.to_str().unwrap()];
    run(&["convert", line[0], line[1]])
        .code(0)
        .says("3 files of arrow")
        .says("Arrow file that state.json does not name");
    check(&dst, &json(&saved.join("saved.json")));
    fs::remove_file(&data).unwrap();
    run(&["convert", line[0], line[1], "--force"])
        .code(1)
        .says("data-00000-of-00003.arrow: is missing: state.json names it");
}
