//! Checks that `convert`, `adopt`, `verify` and `inspect` agree on foreign files: the same counts and the same verdict.
//!
//! One table of files; the expected result of each row follows from how it was made.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use shardpack_testing::{
    Bench, Ran, contents, faults, jpeg, run,
    shards::{
        BY_HAND, Feature, Sample, Tar, convert, mds_index, mds_shard, parquet_file, sha1, tf_record, written_by_hand,
    },
};
use tar::EntryType;

/// Files of another writer, and the expected result.
struct Row {
    name: String,
    /// Paths relative to the source folder, with their bytes.
    files: Vec<(String, Vec<u8>)>,
    /// Symbolic links: path and target.
    links: Vec<(&'static str, &'static str)>,
    /// Number of samples that can be packed.
    samples: u64,
    /// Number of samples that `convert --on-bad skip` names as not packed.
    named: u64,
    /// Exit code of all commands without `--on-bad skip`.
    code: i32,
    /// True if only a read of every byte finds the damage; `inspect` then misses it.
    is_deep: bool,
    /// True if `adopt` can take the folder.
    adoptable: bool,
}

impl Row {
    fn new(name: impl Into<String>, files: Vec<(&str, Vec<u8>)>) -> Self {
        let files = files.into_iter().map(|(path, bytes)| (path.to_owned(), bytes)).collect();
        Self {
            name: name.into(),
            files,
            links: Vec::new(),
            samples: 0,
            named: 0,
            code: 0,
            is_deep: false,
            adoptable: true,
        }
    }

    /// The files have no fault.
    fn sound(self, samples: u64) -> Self {
        Self { samples, ..self }
    }

    /// `samples` can be packed, and `named` cannot and are named.
    fn wrong(self, samples: u64, named: u64) -> Self {
        Self { samples, named, code: 1, ..self }
    }

    /// `inspect` does not find the fault.
    fn deep(self) -> Self {
        Self { is_deep: true, ..self }
    }

    /// `adopt` refuses the folder for its own reasons.
    fn not_to_adopt(self) -> Self {
        Self { adoptable: false, ..self }
    }

    fn link(mut self, path: &'static str, to: &'static str) -> Self {
        self.links.push((path, to));
        self
    }

    /// Writes the row into the source of `bench`.
    fn make(&self, bench: &Bench) -> PathBuf {
        self.files.iter().for_each(|(path, bytes)| bench.file(path, bytes));
        self.links.iter().for_each(|(path, to)| bench.link(path, to));
        bench.src()
    }
}

/// Samples in two classes.
fn samples(number: u64) -> Vec<Sample> {
    (0..number).map(|number| ((number % 2) as i64, jpeg(number, 5000 + 3 * number as usize))).collect()
}

/// Two MDS shards with an index, which `change` edits.
fn mds(name: &str, change: impl Fn(&mut Value)) -> Row {
    let (one, two) = (mds_shard(&samples(3)), mds_shard(&samples(5)));
    let hashes = |bytes: &[u8]| [("sha1", sha1(bytes))];
    let index = mds_index(&[("0.mds", &one, 3, &hashes(&one)), ("1.mds", &two, 5, &hashes(&two))]);
    let mut index = serde_json::from_slice(&index).unwrap();
    change(&mut index);
    let index = index.to_string().into_bytes();
    Row::new(format!("mds: {name}"), vec![("0.mds", one), ("1.mds", two), ("index.json", index)])
}

/// Tar files with odd members.
fn tars() -> Vec<Row> {
    let image = |number: u64| jpeg(number, 5000);
    let tar = || Tar::new().sample("a", "0", &image(1)).sample("b", "1", &image(2));
    let row = |what: &str, tar: Tar| Row::new(format!("tar: {what}"), vec![("x.tar", tar.bytes())]);
    let sparse = |tar: Tar, name| {
        tar.member(EntryType::XHeader, "PaxHeaders/0", "", b"22 GNU.sparse.major=1\n").file(name, &[0; 512])
    };
    let mut rows = vec![
        row(
            "an image of the same extension in other case",
            tar().file("c.cls", b"0").file("c.jpg", &image(3)).file("c.JPG", &image(4)),
        )
        .wrong(2, 2),
        row("a second image", tar().file("b.jpg", &image(3)).sample("c", "1", &image(4))).wrong(2, 2),
        row("a second label", tar().file("b.cls", b"0").sample("c", "1", &image(4))).wrong(2, 2),
        row("an image without extension", tar().file("c", &image(3)).sample("d", "0", &image(4))).wrong(3, 1),
        row("a text without extension", tar().file("README", b"text").sample("d", "0", &image(4))).sound(3),
        row("an image under __meta__", tar().file("__meta__/c.jpg", &image(3)).sample("d", "0", &image(4))).wrong(3, 1),
        row("a text under __meta__", tar().file("__meta__/c.json", b"{}").sample("d", "0", &image(4))).sound(3),
        row(
            "AppleDouble",
            tar().file("._b.jpg", b"\0\x05\x16\x07").file("c/._b.jpg", &image(3)).file(".DS_Store", b"x"),
        )
        .sound(2),
        row("./ before names", Tar::new().sample("./a", "0", &image(1)).sample("../b", "1", &image(2))).sound(2),
        row("a hidden folder", tar().sample(".thumbs/a", "0", &image(3))).sound(2),
        row("a link to an image", tar().member(EntryType::Symlink, "c.jpg", "a.jpg", b"").sample("d", "0", &image(4)))
            .wrong(3, 1),
        row(
            "a link to something",
            tar().member(EntryType::Symlink, "latest", "a.jpg", b"").sample("d", "0", &image(4)),
        )
        .sound(3),
        row("a sparse member in PAX", sparse(tar(), "c.jpg").sample("d", "0", &image(4))).wrong(3, 1),
        row(
            "a sparse member of GNU tar",
            tar().member(EntryType::GNUSparse, "c.jpg", "", &[0; 700]).sample("d", "0", &image(4)),
        )
        .wrong(3, 1),
        row("no members", Tar::new()).wrong(0, 0),
        row("samples without an image", tar().file("c.txt", b"text").file("d.txt", b"text")).wrong(2, 2),
        row("none with an image", Tar::new().file("c.txt", b"text").file("d.txt", b"text")).sound(2).not_to_adopt(),
    ];
    let whole = tar().bytes();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap().next_multiple_of(512);
    let of_bytes = |what: &str, bytes: Vec<u8>| Row::new(format!("tar: {what}"), vec![("x.tar", bytes)]);
    let of_one = |what: &str, extension: &str| {
        let tar = tar().file("c.cls", b"1").file("c.jpg", &image(3)).file(&format!("c.{extension}"), &image(4));
        row(what, tar).wrong(2, 1)
    };
    rows.push(of_one("a sample with a mask", "seg.png"));
    rows.push(of_one("a sample with two images", "png"));
    let masks = ["a", "b"].iter().fold(Tar::new(), |tar, key| {
        let tar = tar.file(&format!("{key}.cls"), b"0").file(&format!("{key}.jpg"), &image(1));
        tar.file(&format!("{key}.seg.png"), &image(2))
    });
    rows.push(row("all samples with masks", masks).wrong(0, 2));
    let labelled = |label: &[u8]| tar().file("c.cls", label).file("c.jpg", &image(3));
    for (what, label) in [("below 0", b"-1".as_slice()), ("that is empty", b" ")] {
        rows.push(row(&format!("a label {what}"), labelled(label)).wrong(2, 1).deep());
    }
    for (what, label) in
        [("that is a word", b"cat".as_slice()), ("with a zero before it", b"01"), ("too long", &[b'9'; 23])]
    {
        rows.push(row(&format!("a label {what} among numbers"), labelled(label)).sound(3));
    }
    rows.push(row("a sample without a label", tar().file("c.jpg", &image(3))).wrong(2, 1).deep());
    rows.push(row("a label in json", tar().file("c.jpg", &image(3)).file("c.json", b"{\"label\": 1}")).sound(3));
    rows.push(
        row("a label below 0 in json", tar().file("c.jpg", &image(3)).file("c.json", b"{\"label\": -1}"))
            .wrong(2, 1)
            .deep(),
    );
    let without = Tar::new().file("a.jpg", &image(1)).file("b.jpg", &image(2));
    rows.push(row("no labels", without).sound(2));
    rows.push(of_bytes("no end", whole[..end].to_vec()).wrong(2, 1).not_to_adopt());
    rows.push(of_bytes("half an end", whole[..end + 512].to_vec()).wrong(2, 1).not_to_adopt());
    rows.push(of_bytes("one behind the other", [whole.clone(), whole].concat()).wrong(2, 1).not_to_adopt());
    rows
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for format in BY_HAND {
        let (name, bytes) = written_by_hand(format, &samples(4));
        let is_written = format != "parquet";
        let row = |what: &str, files| {
            let row = Row::new(format!("{format}: {what}"), files);
            if is_written { row } else { row.not_to_adopt() }
        };
        rows.push(row("sound", vec![(name, bytes.clone())]).sound(4));
        let beside = vec![(name, bytes.clone()), ("notes.txt", b"text".to_vec()), ("README", b"text".to_vec())];
        rows.push(row("other files beside", beside).sound(4));
        rows.push(
            row("a link that leads nowhere", vec![(name, bytes)]).wrong(4, 1).link("1", "nowhere").not_to_adopt(),
        );
    }
    for (format, whole, named) in
        [("webdataset", 2, 2), ("tfrecord", 2, 1), ("recordio", 2, 1), ("mds", 2, 1), ("parquet", 0, 1)]
    {
        let (name, bytes) = written_by_hand(format, &samples(4));
        // The cut is in the third image.
        let cut = bytes[..bytes.len() * 5 / 8].to_vec();
        rows.push(Row::new(format!("{format}: cut"), vec![(name, cut)]).wrong(whole, named).not_to_adopt());
        rows.push(Row::new(format!("{format}: empty"), vec![(name, Vec::new())]).wrong(0, 0).not_to_adopt());
        let empty = [samples(2), vec![(1, Vec::new())]].concat();
        let (name, bytes) = written_by_hand(format, &empty);
        rows.push(Row::new(format!("{format}: an empty image"), vec![(name, bytes)]).wrong(2, 1).not_to_adopt());
    }
    for (format, name, empty, is_whole) in [
        ("webdataset", "e.tar", Vec::new(), false),
        ("webdataset", "e.tar", Tar::new().bytes(), true),
        ("tfrecord", "e.tfrecord", Vec::new(), true),
        ("tfrecord", "e.tfrecord.gz", Vec::new(), false),
        ("recordio", "e.rec", Vec::new(), true),
        ("mds", "e.mds", Vec::new(), false),
        ("mds", "e.mds", mds_shard(&[]), true),
        ("parquet", "e.parquet", Vec::new(), false),
        ("parquet", "e.parquet", parquet_file(&["a", "b"], &[]), true),
    ] {
        let (good, bytes) = written_by_hand(format, &samples(4));
        let what = format!("{format}: {} bytes without a sample", empty.len());
        // `adopt` needs at least one sample in each shard.
        let row = |files| Row::new(what.clone(), files).not_to_adopt();
        // A file without samples alone is an error, even if the file itself is valid.
        rows.push(Row { name: format!("{what}, alone"), ..row(vec![(name, empty.clone())]) }.wrong(0, 0));
        let beside = row(vec![(good, bytes), (name, empty)]);
        rows.push(if is_whole { beside.sound(4) } else { beside.wrong(4, 1) });
    }
    for format in BY_HAND {
        let bad = [samples(3), vec![(-1, jpeg(3, 5000))]].concat();
        let (name, bytes) = written_by_hand(format, &bad);
        rows.push(
            Row::new(format!("{format}: a label below 0"), vec![(name, bytes)]).wrong(3, 1).deep().not_to_adopt(),
        );
    }
    rows.extend(tars());
    let example = |features: &[(&str, Feature)]| tf_record(features);
    let image = jpeg(1, 5000);
    let sound = example(&[("image/encoded", Feature::Bytes(&image)), ("label", Feature::Ints(&[1]))]);
    let text = example(&[("text", Feature::Bytes(b"no image")), ("label", Feature::Ints(&[1]))]);
    let mut flipped = sound.clone();
    flipped[200] ^= 1;
    let name = "x.tfrecord";
    let row = |what: &str, records: &[&[u8]]| Row::new(format!("tfrecord: {what}"), vec![(name, records.concat())]);
    rows.push(row("records without an image", &[&sound, &text, &text]).wrong(1, 2));
    rows.push(row("none with an image", &[&text, &text, &text]).sound(3).not_to_adopt());
    rows.push(row("a record that is flipped", &[&sound, &flipped, &sound]).wrong(2, 1));
    rows.push(mds("an index that is right", |_| {}).sound(8));
    rows.push(mds("other samples", |index| index["shards"][1]["samples"] = 4.into()).wrong(3, 5));
    rows.push(mds("another length", |index| index["shards"][1]["raw_data"]["bytes"] = 7.into()).wrong(3, 5));
    rows.push(
        mds("another hash", |index| index["shards"][1]["raw_data"]["hashes"]["sha1"] = "ab".into()).wrong(3, 5).deep(),
    );
    rows.push(
        mds("a shard that is not named", |index| drop(index["shards"].as_array_mut().unwrap().pop())).wrong(3, 1),
    );
    let missing = mds("a shard that is missing", |_| {});
    let files = missing.files.iter().filter(|(path, _)| path != "1.mds").cloned().collect();
    rows.push(Row { files, ..missing }.wrong(3, 1));
    let outside = |index: &mut Value| index["shards"][1]["raw_data"]["basename"] = "../1.mds".into();
    rows.push(mds("a name that leads out", outside).wrong(8, 1));
    rows.push(mds("a shard named twice", |index| index["shards"][1] = index["shards"][0].clone()).wrong(3, 2));
    let mut cut = mds("an index that is cut", |_| {});
    cut.files[2].1.pop();
    rows.push(cut.wrong(8, 1));
    rows
}

fn look(command: &str, source: &Path) -> Ran {
    run(&[command, source.to_str().unwrap(), "--json"])
}

/// Sum of a count over several documents.
fn total(documents: &Value, count: impl Fn(&Value) -> &Value) -> u64 {
    documents.as_array().unwrap().iter().map(|document| count(document).as_u64().unwrap()).sum()
}

#[test]
fn commands_agree_on_counts_and_verdict_of_foreign_files() {
    let mut wrong = Vec::new();
    for row in rows() {
        let bench = Bench::new();
        let source = row.make(&bench);
        let before = row.links.is_empty().then(|| contents(&source));
        let mut check = |what: &str, found: String, expected: String| {
            if found != expected {
                wrong.push(format!("{}: {what}: {found}, expected {expected}", row.name));
            }
        };
        let strict = convert(&[&source], &bench.dst(), &["--json"]);
        check("convert exits with", strict.code.to_string(), row.code.to_string());
        let lax = convert(&[&source], &bench.at("lax"), &["--json", "--on-bad", "skip"]);
        let code = if row.samples == 0 { row.code } else { 0 };
        check("convert --on-bad skip exits with", lax.code.to_string(), code.to_string());
        if lax.code == 0 {
            let document = lax.json();
            let packed = total(&document["datasets"], |dataset| &dataset["samples"]);
            check("convert packs", packed.to_string(), row.samples.to_string());
            let named = document["unpacked"].as_array().unwrap().len() as u64;
            let all = &document["unpacked"];
            check("convert names", format!("{named}: {all}"), format!("{}: {all}", row.named));
            let lines = fs::read_to_string(bench.at("lax").join("ledger.jsonl")).unwrap_or_default();
            check("the ledger names", lines.lines().count().to_string(), named.to_string());
        }
        let verified = look("verify", &source);
        check("verify exits with", verified.code.to_string(), row.code.to_string());
        let inspected = look("inspect", &source);
        if !row.is_deep {
            check("inspect exits with", inspected.code.to_string(), row.code.to_string());
        }
        check(
            "the source is as it was",
            before.is_none_or(|before| contents(&source) == before).to_string(),
            "true".to_owned(),
        );
        if row.adoptable {
            let adopted = run(&["adopt", source.to_str().unwrap(), "--json"]);
            check("adopt exits with", adopted.code.to_string(), row.code.to_string());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_the_machine_does_not_show_is_never_passed_over() {
    let bench = Bench::new();
    let (name, bytes) = written_by_hand("webdataset", &samples(3));
    bench.file(format!("a/{name}"), &bytes);
    bench.file("a/y.tar", &bytes);
    bench.folder("b");
    bench.file(format!("b/{name}"), &bytes);
    let at = |path: &str| bench.at(path).to_str().unwrap().to_owned();
    let dst = at("dst");
    let (folder, glob) = (at("src/a"), at("src/*/*.tar"));
    // System call, the path that fails, and the source argument.
    let cases = [
        ("stat", "y.tar", &folder),
        ("open", "y.tar", &folder),
        ("read", "y.tar", &folder),
        ("stat", "y.tar", &glob),
        ("list", "src/b", &glob),
        ("open", "src/b", &glob),
    ];
    for (call, path, source) in cases {
        for errno in [faults::EIO, faults::EACCES, faults::ESTALE] {
            if call == "read" && errno == faults::EACCES {
                continue;
            }
            let fault = [faults::fault(call, errno, 0, path)];
            for args in [
                &["convert", source, &dst][..],
                &["convert", source, &dst, "--on-bad", "skip"],
                &["verify", source],
                &["inspect", source],
            ] {
                let Some(ran) = faults::run(&fault, args) else { return };
                let said = format!("{} {errno} {args:?}: {}{}", fault[0], ran.stdout, ran.stderr);
                assert_eq!(ran.code, 2, "{said}");
                assert!(ran.stderr.contains(path) || ran.stdout.contains(path), "{said}");
                assert!(!bench.dst().join("manifest.json").exists(), "{said}");
            }
        }
    }
}
