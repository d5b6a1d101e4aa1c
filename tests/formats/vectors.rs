//! Shards that other libraries wrote: `convert` reads every image and label unchanged.
//!
//! `fixtures/vectors/make_vectors.py` wrote the shards; `expected.json` in that folder lists their contents.

use std::{collections::BTreeMap, fs, path::Path};

use shardpack_testing::{Bench, Dataset, run};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vectors");

fn expected() -> serde_json::Map<String, serde_json::Value> {
    let text = fs::read(Path::new(VECTORS).join("expected.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn texts(value: &serde_json::Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn convert_takes_every_image_and_label_of_shards_that_others_wrote() {
    for (name, case) in expected() {
        let bench = Bench::new();
        let vector = Path::new(VECTORS).join(case["vector"].as_str().unwrap());
        let (vector, dst) = (vector.to_str().unwrap().to_owned(), bench.dst().to_str().unwrap().to_owned());
        let options = [&["convert", &vector, &dst, "--format", "webdataset", "--quiet"], &texts(&case["options"])[..]];
        run(&options.concat()).code(0);
        run(&["verify", &dst, "--decode", "--quiet"]).code(0);

        let dataset = Dataset::read(&bench.dst());
        let mut left: Vec<(&str, i64, Vec<u8>)> = Vec::new();
        for (file, label) in case["samples"].as_object().unwrap() {
            left.push((file, label.as_i64().unwrap(), fs::read(Path::new(VECTORS).join("images").join(file)).unwrap()));
        }
        for sample in &dataset.samples {
            let same =
                |(_, label, image): &(&str, i64, Vec<u8>)| (*label, &image[..]) == (sample.label, sample.image());
            let found = left.iter().position(same).unwrap_or_else(|| {
                let path = String::from_utf8_lossy(&sample.path);
                panic!("{name}: {path} with label {}: other bytes or label than were put in, or twice", sample.label)
            });
            left.remove(found);
        }
        let missing: BTreeMap<_, _> = left.iter().map(|(file, label, _)| (file, label)).collect();
        assert!(missing.is_empty(), "{name}: missing, with their labels: {missing:?}");
        assert!(dataset.ledger.is_empty(), "{name}: {:?}", dataset.ledger);
        let classes = texts(&case["classes"]);
        assert!(classes.is_empty() || dataset.classes() == classes, "{name}: classes {:?}", dataset.classes());
    }
}

#[test]
fn every_vector_is_read() {
    let read: Vec<_> = expected().values().map(|case| case["vector"].as_str().unwrap().to_owned()).collect();
    for entry in fs::read_dir(VECTORS).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        assert!(name == "images" || !entry.path().is_dir() || read.contains(&name), "{name} is in no expectation");
    }
}
