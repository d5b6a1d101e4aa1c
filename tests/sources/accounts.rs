//! Checks that every entry of a source is either packed or named in the ledger and in `--json`.
//!
//! The expected numbers come from how the files were made, and from the readers of other projects.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use shardpack_source::ledger::{self, Fate};
use shardpack_testing::{
    Bench, jpeg,
    shards::{self, Feature, Sample, Tar, convert, mds_index, mds_shard, parquet_file, rec_record, tf_record},
};
use tar::EntryType;

/// Path, fate and reason of every line in the ledger of a dataset.
fn in_ledger(dst: &Path) -> BTreeSet<(String, Fate, String)> {
    let lines = ledger::read(&fs::read(dst.join("ledger.jsonl")).unwrap_or_default()).unwrap().into_iter();
    let lines = lines.filter(|line| line.fate != Fate::Kept);
    lines.map(|line| (String::from_utf8(line.path).unwrap(), line.fate, line.reason.to_string())).collect()
}

/// The same triples from the `--json` document.
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
    fs::copy(bench.src().join("a/1.jpg"), bench.src().join("a/twice.jpg")).unwrap();
    let options = ["--exclude", "**/left-*", "--dedup", "exact", "--on-bad", "skip", "--json"];
    let expected = [Fate::Skipped, Fate::Filtered, Fate::Duplicate].map(Some);
    // The second run has nothing to do and gives the same answer.
    for _ in 0..2 {
        let document = bench.pack(&options).code(0).json();
        let unpacked = in_json(&document);
        assert_eq!(unpacked, in_ledger(&bench.dst()));
        let fates: BTreeSet<_> = unpacked.iter().map(|(_, fate, _)| Some(*fate)).collect();
        assert_eq!(fates, expected.into());
        assert_eq!(document["ignored_files"], serde_json::json!({"extension .txt": 1}));
    }
    // A run that seals nothing reports the same entries.
    fs::remove_dir_all(bench.dst()).unwrap();
    let document = bench.pack(&["--exclude", "**/left-*", "--json"]).code(1).json();
    let fates: Vec<Fate> = in_json(&document).into_iter().map(|(_, fate, _)| fate).collect();
    assert_eq!(fates, [Fate::Skipped, Fate::Filtered]);
}

/// The variable that names the Python of a reader, and the name of this reader in `tests/peers/count_records.py`.
type Reader = (&'static str, &'static str);

/// Number of records that the other reader counts in a file; `None` if its environment is missing.
fn counted((variable, how): Reader, file: &Path) -> Option<u64> {
    let Some(python) = std::env::var_os(variable) else {
        assert_ne!(variable, "SHARDPACK_PYTHON", "not set: run `cargo xtask test`, which makes the environment");
        eprintln!("{variable} is not set: {how} was NOT asked");
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/count_records.py");
    let Output { stdout, stderr, .. } = Command::new(python).arg(script).arg(how).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&stdout).trim().to_owned();
    Some(text.parse().unwrap_or_else(|_| panic!("{how}: {text}{}", String::from_utf8_lossy(&stderr))))
}

/// A file with good and odd records, and the readers for it.
struct Nasty {
    readers: Vec<Reader>,
    file: &'static str,
    bytes: Vec<u8>,
    /// Number of good records.
    sound: u64,
}

const PYTHON: &str = "SHARDPACK_PYTHON";

/// One file of odd records for each reader.
fn nasty() -> Vec<Nasty> {
    let image = |number: u64| jpeg(number, 5000 + number as usize);
    let sound = |number: u64| (number as i64 % 2, image(number));
    let members = Tar::new()
        .sample("a", "0", &image(1))
        .file("b.cls", b"1")
        .file("b.jpg", &image(2))
        .file("b.JPG", &image(3))
        .sample("c", "1", &image(4))
        .file("noext", &image(5))
        .file("README", b"text")
        .file("__meta__/x.jpg", &image(6))
        .file("._a.jpg", b"\0\x05\x16\x07")
        .member(EntryType::Symlink, "link.jpg", "a.jpg", b"")
        .sample("d/e", "0", &image(7))
        .sample("empty", "0", b"");
    let samples = Tar::new()
        .sample("a", "0", &image(1))
        .file("b.txt", b"no image")
        .file("c.jpg", &image(2))
        .file("d.cls", b"1")
        .file("d.jpg", &image(3))
        .file("e.cls", b"x y")
        .file("e.jpg", &image(5))
        // The key exists already.
        .sample("a", "1", &image(4))
        .file("f.cls", b"99999999999")
        .file("f.jpg", &image(6));
    let encoded = |image: &[u8], label: i64| {
        tf_record(&[("image/encoded", Feature::Bytes(image)), ("image/class/label", Feature::Ints(&[label]))])
    };
    let whole = [
        encoded(&image(1), 0),
        encoded(&image(2), -1),
        encoded(b"", 0),
        tf_record(&[("text", Feature::Bytes(b"no image"))]),
        tf_record(&[("image/encoded", Feature::Bytes(&image(3)))]),
        tf_record(&[]),
        encoded(&image(4), 1),
    ]
    .concat();
    let mut flipped = encoded(&image(5), 1);
    flipped[100] ^= 1;
    let mut promises = rec_record(9, &[1.0], b"x");
    promises[8] = 200;
    let records = [
        rec_record(0, &[0.0], &image(1)),
        rec_record(1, &[f32::NAN], &image(2)),
        rec_record(2, &[-1.0], &image(3)),
        rec_record(3, &[1.0], b""),
        rec_record(4, &[1.0], &[&image(4)[..], &shards::MAGIC, &shards::MAGIC].concat()),
        promises,
    ]
    .concat();
    let rows: Vec<Sample> = vec![sound(1), (-7, image(2)), (0, Vec::new()), sound(3), (i64::MAX, image(4))];
    let table = [
        (Some(0), image(1), Some("a.jpg")),
        (None, image(2), None),
        (Some(1), Vec::new(), None),
        (Some(-3), image(3), None),
        (Some(1), image(4), Some("b.jpg")),
    ];
    let of = |readers: &[Reader], file, bytes, sound| Nasty { readers: readers.to_vec(), file, bytes, sound };
    vec![
        of(&[(PYTHON, "tarfile")], "members.tar", members.bytes(), 3),
        of(&[(PYTHON, "webdataset")], "samples.tar", samples.bytes(), 4),
        of(&[(PYTHON, "tfrecord"), ("SHARDPACK_PYTHON_TENSORFLOW", "tensorflow")], "x.tfrecord", whole.clone(), 2),
        of(&[(PYTHON, "tfrecord")], "flipped.tfrecord", [flipped, whole].concat(), 2),
        of(&[(PYTHON, "recordio"), ("SHARDPACK_PYTHON_MXNET", "mxnet")], "x.rec", records, 2),
        of(&[(PYTHON, "mds"), ("SHARDPACK_PYTHON_STREAMING", "streaming")], "x.mds", mds_shard(&rows), 2),
        of(&[("SHARDPACK_PYTHON_SIDECARS", "parquet")], "x.parquet", parquet_file(&["ant", "bee"], &table), 2),
    ]
}

#[test]
fn all_that_readers_of_others_count_is_packed_or_named() {
    for Nasty { readers, file, bytes, sound } in nasty() {
        let bench = Bench::new();
        bench.file(file, &bytes);
        if file.ends_with(".mds") {
            // Streaming reads through `index.json`, so the comparison includes it.
            let samples = u32::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
            bench.file("index.json", &mds_index(&[(file, &bytes, samples, &[])]));
        }
        let path = bench.src().join(file);
        let document = convert(&[&path], &bench.dst(), &["--on-bad", "skip", "--json"]).code(0).json();
        shards::check_sealed(&bench.dst(), file);
        let (named, dataset) = (in_json(&document), &document["datasets"][0]);
        assert_eq!(named, in_ledger(&bench.dst()), "{file}");
        assert_eq!(dataset["samples"], sound, "{file}: {named:#?}");
        let counts = &dataset["ledger"];
        let count = |name: &str| counts[name].as_u64().unwrap();
        assert_eq!(count("discovered"), sound + named.len() as u64, "{file}: {counts} {named:#?}");
        for reader in readers {
            let Some(theirs) = counted(reader, &path) else { continue };
            assert_eq!(count("discovered"), theirs, "{file} by {}: {counts} {named:#?}", reader.1);
        }
    }
}
