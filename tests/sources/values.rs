//! Non-image samples: arrays, numbers, text and bytes in LMDB and HDF5 come back from every format byte for byte.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::json;
use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, binary, folder_hash, run,
    values::{READERS, Told, come_back, convert, expected, read, verified, write},
};

/// Runs `write_values.py` and returns its output folder.
fn written(bench: &Bench) -> PathBuf {
    let out = bench.at("values");
    fs::create_dir(&out).unwrap();
    assert!(write("SHARDPACK_PYTHON", "write_values.py", &[out.to_str().unwrap()]));
    out
}

/// Fails the test unless conversions between all formats give the same bytes as conversions from the source.
fn formats_agree(bench: &Bench, name: &str, of_formats: &[(&str, PathBuf)]) {
    for (from, source) in of_formats {
        for (to, same) in of_formats {
            let dst = bench.at(&format!("{name}-{from}-{to}"));
            convert(source, &dst, &["--format", to]).code(0);
            assert_eq!(folder_hash(&dst), folder_hash(same), "{name}: {from} to {to}");
            fs::remove_dir_all(dst).unwrap();
        }
    }
}

#[test]
fn every_value_comes_back_through_the_readers_of_each_format() {
    let bench = Bench::new();
    let values = written(&bench);
    for name in ["dicts", "tuples.lmdb", "odd.lmdb", "msgpack.lmdb", "tensors.lmdb", "table.h5"] {
        let of_formats = come_back(&bench, &values.join(name));
        formats_agree(&bench, name, &of_formats);
    }
}

#[test]
fn the_bytes_do_not_depend_on_threads_and_the_second_format_is_as_if_it_were_alone() {
    let bench = Bench::new();
    let source = written(&bench).join("odd.lmdb");
    let alone = bench.at("alone");
    convert(&source, &alone, &["--format", "mds", "--jobs", "1"]).code(0);
    let both = bench.at("both");
    convert(&source, &both, &["--format", "tfrecord", "--format", "mds", "--jobs", "3", "--read-order", "physical"])
        .code(0);
    assert_eq!(folder_hash(&both.join("mds")), folder_hash(&alone));
    // A second run of the same command does nothing.
    convert(&source, &alone, &["--format", "mds"]).code(0).says("nothing to do");
    // A dry run writes nothing.
    let (plan, planned) = (bench.at("of.plan"), bench.at("planned"));
    let columns = ["--format", "mds", "--shards", "2"];
    run(&[&["convert", source.to_str().unwrap(), planned.to_str().unwrap(), "--dry-run"][..], &columns].concat())
        .code(0);
    assert!(!planned.exists() && !plan.exists());
}

#[test]
fn a_flipped_bit_is_of_a_sample_and_of_a_component() {
    let bench = Bench::new();
    let values = written(&bench);
    for (format, _) in READERS {
        let dst = bench.at(format);
        convert(&values.join("dicts"), &dst, &["--format", format]).code(0);
        let (rows, file) = {
            let dataset = Dataset::open(&dst).unwrap();
            let names = dataset.manifest().components.clone();
            let row = dataset.row(3).unwrap();
            let places = (0..names.len()).filter_map(|number| {
                let extent = row.component(number)?;
                Some((names[number].clone(), row.offset + u64::from(extent.offset)))
            });
            let key = String::from_utf8(row.key.to_vec()).unwrap();
            ((key, places.collect::<Vec<_>>()), dataset.shard_of(3).unwrap().path())
        };
        let (key, places) = rows;
        assert_eq!(places.len(), 5, "{format}: {places:?}");
        let good = fs::read(&file).unwrap();
        for (number, (name, at)) in places.iter().enumerate() {
            let mut bad = good.clone();
            bad[*at as usize] ^= 1;
            fs::write(&file, &bad).unwrap();
            let ran = run(&["verify", dst.to_str().unwrap()]).code(1).says(&key);
            match number {
                0 => ran.says("content hash differs"),
                _ => ran.says(&format!("hash of component {name} differs")),
            };
        }
        // `--repair` restores the file from the source.
        let source = values.join("dicts");
        let ran = run(&["verify", dst.to_str().unwrap(), "--repair", source.to_str().unwrap()]);
        assert!(ran.code == 0, "{format}: {}", ran.stderr);
        assert!(fs::read(&file).unwrap() == good, "{format}");
    }
}

#[test]
fn components_are_chosen_by_the_names_of_fields() {
    let bench = Bench::new();
    let source = written(&bench).join("dicts");
    let components = |dst: &Path| Dataset::open(dst).unwrap().manifest().components.clone();
    let all = bench.at("all");
    convert(&source, &all, &[]).code(0).says("components fingerprint <f4");
    assert_eq!(components(&all), ["fingerprint.npy", "atoms.npy", "energy.json", "forces.npy", "name.txt"]);
    let some = bench.at("some");
    convert(&source, &some, &["--components", "energy,fingerprint"]).code(0);
    assert_eq!(components(&some), ["fingerprint.npy", "energy.json"]);
    let none = bench.at("none");
    convert(&source, &none, &["--components", "none"]).code(0);
    assert_eq!(components(&none), ["fingerprint.npy"]);
    convert(&source, &bench.at("no"), &["--components", "nothing"]).code(2).says("nothing").says("energy");
    // RecordIO stores one payload per sample, so `convert` refuses more components before any work.
    let ran = convert(&source, &bench.at("rec"), &["--format", "recordio", "--components", "energy,atoms"]);
    ran.code(2).says("recordio has no place for");
    let rec = bench.at("rec");
    convert(&source, &rec, &["--format", "recordio", "--components", "none"]).code(2).says("a label in every record");
    convert(&source.with_file_name("tuples.lmdb"), &rec, &["--format", "recordio"]).code(0);
    verified(&rec);
}

#[test]
fn values_beside_an_image_go_along() {
    let bench = Bench::new();
    let values = written(&bench);
    let names = |told: &[Told]| told.iter().flat_map(|one| one.keys().cloned()).collect::<BTreeSet<_>>();
    for (name, components) in [
        ("pictures.lmdb", &["boxes.json", "caption", "cls", "embedding.npy", "jpg", "points.npy", "score.npy"][..]),
        ("pictures-pairs.lmdb", &["cls", "jpg", "x2.npy"]),
        // Several samples in one value.
        ("pictures-lists.lmdb", &["boxes.json", "caption", "cls", "embedding.npy", "jpg", "points.npy", "score.npy"]),
        ("pictures-long.lmdb", &["caption", "cls", "embedding.npy", "jpg", "points.npy", "score.npy"]),
    ] {
        let source = values.join(name);
        run(&["verify", source.to_str().unwrap()]).code(0);
        let expected = expected(&source);
        let mut of_formats = Vec::new();
        for (format, _) in READERS {
            let dst = bench.at(&format!("{name}-{format}"));
            convert(&source, &dst, &["--format", format]).code(0);
            verified(&dst);
            run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
            if let Some(mut found) = read(format, &dst) {
                let wanted = names(&expected);
                found.iter_mut().for_each(|one| one.retain(|name, _| wanted.contains(name) && name != "caption"));
                let mut expected = expected.clone();
                expected.iter_mut().for_each(|one| drop(one.remove("caption")));
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "{name} {format}");
            }
            of_formats.push((format, dst));
        }
        let dataset = Dataset::open(&of_formats[0].1).unwrap();
        let mut known = dataset.manifest().components.clone();
        known.sort();
        assert_eq!((known, dataset.classes().len()), (components.iter().map(ToString::to_string).collect(), 3));
        // Manifests count components that were omitted from the source, so conversions of the datasets differ.
        if name != "pictures-long.lmdb" {
            formats_agree(&bench, name, &of_formats);
        }
    }
    let told = convert(&values.join("pictures-long.lmdb"), &bench.at("long"), &["--json"]).code(0).json();
    assert_eq!(told["ignored_files"], json!({"component boxes": 20}), "{told}");
    // Changed images keep their components. With `--components none`, only the image is read.
    let source = values.join("pictures.lmdb");
    let small = bench.at("small");
    let change = ["--resize", "16", "--encode", "png"];
    convert(&source, &small, &change).code(2).says("not their component boxes.json");
    convert(&source, &small, &[&change[..], &["--components", "caption,score,embedding"]].concat()).code(0);
    verified(&small);
    let none = bench.at("none");
    let told = convert(&source, &none, &["--components", "none", "--json"]).code(0).json();
    assert_eq!(told["ignored_files"]["component boxes"], 30, "{told}");
    run(&["verify", none.to_str().unwrap(), "--quiet", "--against", source.to_str().unwrap()]).code(0);
}

#[test]
fn what_is_beside_an_image_that_cannot_be_had_is_no_sample() {
    let bench = Bench::new();
    let source = written(&bench).join("empty-images.lmdb");
    convert(&source, &bench.at("no"), &[]).code(1).says("pixels of shape 2×0×3");
    convert(&source, &bench.at("no"), &["--on-bad", "skip"]).code(1);
    run(&["verify", source.to_str().unwrap()]).code(1);
}

#[test]
fn inspect_tells_the_type_of_each_component() {
    let bench = Bench::new();
    let source = written(&bench).join("dicts");
    let dst = bench.at("dst");
    convert(&source, &dst, &[]).code(0);
    run(&["inspect", dst.to_str().unwrap()])
        .code(0)
        .says("of values")
        .says("fingerprint.npy <f4[?x64]")
        .says("name.txt text")
        .says("120 samples found");
    run(&["inspect", source.to_str().unwrap()]).code(0).says("of values").says("atoms <i8[?]");
    let of = |path: &Path| run(&["inspect", path.to_str().unwrap(), "--json"]).code(0).json();
    let bytes = |told: &serde_json::Value| {
        let components = told["datasets"][0]["components"].as_array().unwrap();
        components.iter().map(|one| one["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    let (ours, theirs) = (of(&dst), of(&source));
    assert_eq!(bytes(&ours), bytes(&theirs));
    assert_eq!(ours["datasets"][0]["components"][2]["type"], "float");
}

#[test]
fn a_conversion_of_values_that_is_killed_goes_on_to_the_same_bytes() {
    let bench = Bench::new();
    let source = written(&bench).join("dicts");
    let finished = |dst: &Path| {
        let indexes = ["index", "train/index", "val/index"].map(|folder| fs::read_dir(dst.join(folder)));
        indexes.into_iter().flatten().map(Iterator::count).sum::<usize>()
    };
    let mut killed = 0;
    for (number, options) in [
        &["--format", "webdataset"][..],
        &["--format", "mds", "--compress", "zstd"],
        &["--format", "tfrecord"],
        &["--split-fraction", "val=0.4"],
    ]
    .into_iter()
    .enumerate()
    {
        let command = |dst: &Path| {
            let mut command = Command::new(binary());
            command.arg("convert").args([&source, dst]).args(["--shards", "20"]).args(options);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let whole = bench.at(&format!("{number}-whole"));
        assert!(command(&whole).status().unwrap().success());
        for shards in [1, 6, 15] {
            let dst = bench.at(&format!("{number}-{shards}"));
            let mut child = command(&dst).spawn().unwrap();
            while finished(&dst) < shards && child.try_wait().unwrap().is_none() {}
            child.kill().unwrap();
            child.wait().unwrap();
            killed += usize::from(finished(&dst) < finished(&whole));
            assert!(command(&dst).status().unwrap().success(), "{options:?} {shards}");
            assert_eq!(folder_hash(&dst), folder_hash(&whole), "{options:?} {shards}");
        }
    }
    assert!(killed > 3, "{killed} of 12 conversions were killed before their end");
}

#[test]
fn fields_get_other_names() {
    let bench = Bench::new();
    let source = written(&bench).join("dicts");
    let manifest = |dst: &Path| Dataset::open(dst).unwrap().manifest().clone();
    let dst = bench.at("dst");
    convert(&source, &dst, &["--fields", "fingerprint:FP,energy"]).code(0);
    assert_eq!(manifest(&dst).components, ["fp.npy", "energy.json"]);
    assert_eq!(manifest(&dst).format.settings["fields"], "fingerprint:fp");
    // `verify --against` applies the recorded names to the source.
    let against = ["verify", dst.to_str().unwrap(), "--against", source.to_str().unwrap(), "--quiet"];
    run(&against).code(0);
    let shard = dst.join("shard-000000.tar");
    let good = fs::read(&shard).unwrap();
    fs::write(&shard, [&good[..700], &[!good[700]], &good[701..]].concat()).unwrap();
    run(&["verify", dst.to_str().unwrap(), "--repair", source.to_str().unwrap()]).code(0);
    assert!(fs::read(&shard).unwrap() == good);
    convert(&source, &dst, &["--fields", "fingerprint,energy:fp"])
        .code(2)
        .says("--fields): was energy.json:float, is now fp.json:float");
    // Two fields exchange their names.
    let swapped = bench.at("swapped");
    convert(&source, &swapped, &["--fields", "energy:name,name:energy,atoms"]).code(0);
    assert_eq!(manifest(&swapped).components, ["atoms.npy", "name.json", "energy.txt"]);
    let found = read("webdataset", &swapped).unwrap();
    let mut expected = expected(&source);
    for sample in &mut expected {
        sample.retain(|name, _| ["energy", "name", "atoms"].contains(&name.as_str()));
        let (energy, name) = (sample.remove("energy").unwrap(), sample.remove("name").unwrap());
        sample.extend([("energy".to_owned(), name), ("name".to_owned(), energy)]);
    }
    expected.sort();
    assert_eq!(found, expected);
    // The field that had the name before is omitted and counted.
    let told = convert(&source, &bench.at("one"), &["--fields", "energy:name,atoms", "--json"]).code(0).json();
    assert_eq!(manifest(&bench.at("one")).components, ["atoms.npy", "name.json"]);
    assert_eq!(told["ignored_files"]["component name of the source"], 120, "{told}");
    let no = bench.at("no");
    convert(&source, &no, &["--fields", "nothing:x"]).code(2).says("nothing");
    convert(&source, &no, &["--fields", "energy:x,name:x"]).code(2).says("two components are called \"x\"");
    convert(&source, &no, &["--fields", "energy", "--components", "name"]).code(2);
    // The components of a shardpack dataset already have names.
    convert(&dst, &no, &["--fields", "fp:x"]).code(2).says("its components already have names");
    convert(&dst, &no, &["--fields", "fp"]).code(0);
}

#[test]
fn what_needs_pixels_is_refused_where_there_are_none() {
    let bench = Bench::new();
    let source = written(&bench).join("tuples.lmdb");
    let options =
        [["--resize", "32"], ["--min-side", "3"], ["--formats", "jpeg"], ["--ext", "jpg"], ["--dedup", "exact"]];
    for option in options {
        let ran = convert(&source, &bench.at("no"), &option);
        assert_eq!(ran.code, 2, "{option:?}: {}", ran.stderr);
        ran.says("samples are values");
    }
    let dst = bench.at("decoded");
    convert(&source, &dst, &[]).code(0);
    run(&["verify", dst.to_str().unwrap(), "--decode", "--quiet"]).code(0);
    let told = run(&["inspect", dst.to_str().unwrap(), "--json"]).code(0).json();
    assert_eq!(told["datasets"][0]["images"]["kinds"]["values"], 60, "{told}");
}

#[test]
fn splits_of_values_have_the_types_of_all() {
    let bench = Bench::new();
    let dicts = written(&bench).join("dicts");
    let split = |name: &str, file: &str| format!("{name}={}", dicts.join(file).display());
    let settings = |dst: &Path| Dataset::open(dst).unwrap().manifest().format.settings.clone();
    for (format, _) in READERS {
        let dst = bench.at(format);
        let parts = [split("train", "1.lmdb"), split("val", "2.lmdb")];
        let arguments =
            ["convert", "--split", &parts[0], "--split", &parts[1], dst.to_str().unwrap(), "--format", format];
        run(&arguments).code(0);
        verified(&dst);
        assert_eq!(settings(&dst.join("train")), settings(&dst.join("val")));
        // Datasets that were packed separately, with arrays of other shapes, become splits of one dataset.
        let (one, two) = (bench.at(&format!("{format}-1")), bench.at(&format!("{format}-2")));
        convert(&dicts.join("1.lmdb"), &one, &["--format", format]).code(0);
        convert(&dicts.join("2.lmdb"), &two, &["--format", format, "--components", "energy,fingerprint,name"]).code(0);
        let (train, val) = (format!("train={}", one.display()), format!("val={}", two.display()));
        let again = bench.at(&format!("{format}-again"));
        let arguments = ["convert", "--split", &train, "--split", &val, again.to_str().unwrap(), "--format", format];
        run(&arguments).code(0);
        verified(&again);
        let lacking = settings(&again.join("val"))["beside"].clone();
        assert!(lacking.contains("atoms.npy:<i8[?]?"), "{lacking}");
    }
}

#[test]
fn a_label_that_some_lack_is_a_component_unless_it_is_asked_for() {
    let bench = Bench::new();
    let source = written(&bench).join("partly.lmdb");
    let dst = bench.at("component");
    convert(&source, &dst, &[])
        .code(0)
        .says("field \"label\" is a component, not a label, because 19 of 20 samples have it");
    assert_eq!(Dataset::open(&dst).unwrap().manifest().components, ["x.npy", "label.json"]);
    let asked = ["--label-feature", "label"];
    convert(&source, &bench.at("asked"), &asked).code(1).says("no label");
    let dst = bench.at("skipped");
    let ran = convert(&source, &dst, &[&asked[..], &["--on-bad", "skip", "--json"]].concat()).code(0);
    assert_eq!(ran.json()["unpacked"].as_array().unwrap().len(), 1);
    let dataset = Dataset::open(&dst).unwrap();
    assert_eq!((dataset.len(), dataset.classes().len()), (19, 3));
}

#[test]
fn more_samples_in_a_value_than_are_read_are_named_with_the_reason() {
    let bench = Bench::new();
    let source = written(&bench).join("many.lmdb");
    let dst = bench.at("dst");
    let ran = convert(&source, &dst, &["--on-bad", "skip", "--json"]).code(0).json();
    let reasons: Vec<_> = ran["unpacked"].as_array().unwrap().iter().map(|one| one["reason"].to_string()).collect();
    assert_eq!((ran["datasets"][0]["samples"].as_u64(), reasons.len()), (Some(4096), 904));
    assert!(
        reasons.iter().all(|reason| reason.contains("more than 4096 samples of values in one entry")),
        "{}",
        reasons[0]
    );
}

#[test]
fn small_values_that_threads_take_apart_together_stay_in_order_and_each_with_its_key() {
    let bench = Bench::new();
    let source = written(&bench).join("small.lmdb");
    let [one, four] = ["1", "4"].map(|jobs| {
        let dst = bench.at(jobs);
        let ran = convert(&source, &dst, &["--on-bad", "skip", "--json", "--jobs", jobs]).code(0).json();
        let unpacked = ran["unpacked"].as_array().unwrap();
        let paths: Vec<_> = unpacked.iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect();
        assert_eq!(paths, ["0", "4095", "4096", "8999"].map(|key| format!("small.lmdb/{key}")));
        assert!(unpacked.iter().all(|one| one["reason"].as_str().unwrap().contains("pickle, byte")), "{unpacked:?}");
        dst
    });
    assert_eq!(folder_hash(&one), folder_hash(&four));
    let dataset = Dataset::open(&one).unwrap();
    assert_eq!(dataset.len(), 8996);
    for number in 0..dataset.len() {
        let sample = dataset.sample(number).unwrap();
        assert_eq!(sample.component("b.json").unwrap(), sample.path(), "{number}");
    }
}
