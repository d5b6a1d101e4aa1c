//! What a source holds is what is packed and what is not, and what is not is named: in the ledger, and in `--json`.
//!
//! The numbers come from how the files were made, and from readers of others.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;
use shardpack_packer::ledger::{self, Fate};
use support::Bench;

/// Path, fate and reason of all that is not in the shards of a dataset, as its ledger has them.
fn in_ledger(dst: &Path) -> BTreeSet<(String, Fate, String)> {
    let lines = ledger::read(&fs::read(dst.join("ledger.jsonl")).unwrap_or_default()).unwrap().into_iter();
    let lines = lines.filter(|line| line.fate != Fate::Kept);
    lines.map(|line| (String::from_utf8(line.path).unwrap(), line.fate, line.reason.to_string())).collect()
}

/// The same as `--json` has them.
fn in_json(document: &Value) -> BTreeSet<(String, Fate, String)> {
    let entries = document["unpacked"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let fate = |entry: &Value| serde_json::from_value(entry["fate"].clone()).unwrap();
    entries.map(|entry| (text(&entry["path"]), fate(entry), text(&entry["reason"]))).collect()
}

#[test]
fn json_names_all_that_is_not_packed_whatever_became_of_it() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg", "b/left-out.jpg"]);
    bench.file("a/empty.jpg", b"");
    bench.file("b/notes.txt", b"text");
    fs::copy(bench.src().join("a/1.jpg"), bench.src().join("b/twice.jpg")).unwrap();
    let options = ["--exclude", "**/left-*", "--dedup", "exact", "--on-bad", "skip", "--json"];
    let expected = [Fate::Skipped, Fate::Filtered, Fate::Duplicate].map(Some);
    // The second time there is nothing to do, and the answer is the same.
    for _ in 0..2 {
        let document = bench.pack(&options).code(0).json();
        let unpacked = in_json(&document);
        assert_eq!(unpacked, in_ledger(&bench.dst()));
        let fates: BTreeSet<_> = unpacked.iter().map(|(_, fate, _)| Some(*fate)).collect();
        assert_eq!(fates, expected.into());
        assert_eq!(document["ignored_files"], serde_json::json!({"extension .txt": 1}));
    }
    // Where nothing is sealed, too.
    fs::remove_dir_all(bench.dst()).unwrap();
    let document = bench.pack(&["--exclude", "**/left-*", "--json"]).code(1).json();
    let fates: Vec<Fate> = in_json(&document).into_iter().map(|(_, fate, _)| fate).collect();
    assert_eq!(fates, [Fate::Skipped, Fate::Filtered]);
}
