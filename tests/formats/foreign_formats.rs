//! `verify` and `inspect` on shards of every format without a manifest: alone, and with the index files next to them.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use shardpack_audit::{
    inspect::{self, Filter},
    verify,
};
use shardpack_format::formats;
use shardpack_source::{foreign::files::look, monitor::Silent};
use shardpack_testing::{Bench, Ran, pack, photos, run, sweep};

fn names() -> impl Iterator<Item = &'static str> {
    formats::ALL.iter().map(|entry| entry.name)
}

fn verify(paths: &[&Path], options: &[&str]) -> Ran {
    let paths = paths.iter().map(|path| path.to_str().unwrap());
    run(&[&["verify", "--quiet"], &paths.collect::<Vec<_>>()[..], options].concat())
}

fn inspect(paths: &[&Path], options: &[&str]) -> Ran {
    let paths = paths.iter().map(|path| path.to_str().unwrap());
    run(&[&["inspect"], &paths.collect::<Vec<_>>()[..], options].concat())
}

/// Removes all files that only shardpack writes, so that the shards look foreign.
fn forget(dst: &Path) -> PathBuf {
    for file in ["manifest.json", "BLAKE3SUMS"] {
        fs::remove_file(dst.join(file)).unwrap();
    }
    fs::remove_dir_all(dst.join("index")).unwrap();
    dst.to_path_buf()
}

/// Shards of a few small photographs in two classes.
fn small(bench: &Bench, format: &str, options: &[&str]) -> PathBuf {
    for (number, path) in ["ant/a.jpg", "ant/b.jpg", "bee/c.jpg", "bee/d.jpg", "bee/e.jpg"].into_iter().enumerate() {
        bench.file(path, &shardpack_testing::jpeg(number as u64, 5000 + 7 * number));
    }
    bench.pack(&[&["--format", format, "--quiet"], options].concat()).code(0);
    forget(&bench.dst())
}

/// The photographs of the README.
fn packed(bench: &Bench, format: &str, options: &[&str]) -> PathBuf {
    pack(&photos(), &bench.dst(), &[&["--format", format, "--shards", "3", "--quiet"], options].concat()).code(0);
    forget(&bench.dst())
}

/// The shards in a folder.
fn shards(folder: &Path) -> Vec<PathBuf> {
    let formats: Vec<_> = names().map(|name| formats::open(&formats::Choice::new(name)).unwrap()).collect();
    let ends = formats.iter().flat_map(|format| {
        [Some(""), format.zstd_extension()].into_iter().flatten().map(|end| format!("{}{end}", format.extension()))
    });
    let ends: Vec<_> = ends.filter(|end| !end.is_empty()).collect();
    let is_shard = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        ends.iter().any(|end| name.ends_with(end)) || name.contains("-of-") && !name.ends_with(".idx")
    };
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_shard).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no shards in {}", folder.display());
    paths
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn whole_shards_are_right_as_a_folder_as_files_and_as_patterns() {
    for format in names() {
        let bench = Bench::new();
        let folder = packed(&bench, format, &[]);
        verify(&[&folder], &[]).code(0).says("32 samples in 3 shards");
        verify(&[&folder], &["--decode", "--jobs", "1"]).code(0).says("32 samples in 3 shards");
        let files = shards(&folder);
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        verify(&files, &[]).code(0).says("32 samples in 3 shards");
        verify(&files[..1], &[]).code(0).says("in 1 shard");
        let name = files[0].file_name().unwrap().to_str().unwrap();
        let one = folder.join(name.replacen('0', "?", 1));
        verify(&[&one], &[]).code(0).says("in 1 shard,");
        let two = folder.join(name.replacen("0000", "{0000,none/../0000}", 1));
        verify(&[&two], &[]).code(2).clean_error().says("no such file");
        verify(&[files[0], files[0]], &[]).code(2).says("is given twice");
        let against = verify(&[&folder], &["--against", photos().to_str().unwrap()]);
        against.code(2).clean_error().says("without a manifest cannot be compared");
        verify(&[&folder], &["--json"]).code(0).says("\"samples\": 32");
    }
}

/// Flips a bit at every `step` bytes, and returns the result of `verify` for each.
fn flipped(folder: &Path, shard: &Path, step: usize) -> Vec<(usize, Ran)> {
    let whole = fs::read(shard).unwrap();
    let ran = (0..whole.len()).step_by(step).map(|at| {
        let mut wrong = whole.clone();
        wrong[at] ^= 0x10;
        fs::write(shard, &wrong).unwrap();
        (at, verify(&[folder], &[]))
    });
    let ran = ran.collect();
    fs::write(shard, &whole).unwrap();
    ran
}

#[test]
fn a_changed_byte_is_found_where_the_format_has_checksums() {
    let bench = Bench::new();
    let folder = small(&bench, "tfrecord", &["--shards", "1"]);
    let shard = &shards(&folder)[0];
    for (at, ran) in flipped(&folder, shard, 997) {
        let ran = ran.code(1).says("shard-00000-of-00001: ");
        // If the header of a record is wrong, the end of the record is unknown.
        if at % 5000 > 200 {
            ran.says("sample ").says("CRC");
        }
    }
    // The hashes of index.json cover every byte of MDS.
    let bench = Bench::new();
    let folder = small(&bench, "mds", &["--shards", "1"]);
    let shard = &shards(&folder)[0];
    for (_, ran) in flipped(&folder, shard, 997) {
        ran.code(1).says("shard.00000.mds: its xxh64 is ");
    }
    verify(&[&folder], &[]).code(0);
}

#[test]
fn changed_framing_is_found_in_every_format() {
    for format in ["webdataset", "recordio"] {
        let bench = Bench::new();
        let folder = small(&bench, format, &["--shards", "1", "--order", "source"]);
        let shard = &shards(&folder)[0];
        let whole = fs::read(shard).unwrap();
        for at in [0, 5] {
            let mut wrong = whole.clone();
            wrong[at] ^= 0x10;
            fs::write(shard, &wrong).unwrap();
            verify(&[&folder], &[]).code(1).says(shard.file_name().unwrap().to_str().unwrap());
            // The search of the folder above still finds the damaged shard; the shard alone fails too.
            verify(&[shard], &[]).code(1);
        }
    }
}

#[test]
fn a_damaged_image_is_found_by_decoding_it() {
    for format in names().filter(|format| *format != "tfrecord" && *format != "mds") {
        let bench = Bench::new();
        let folder = small(&bench, format, &["--shards", "1", "--order", "source"]);
        let shard = &shards(&folder)[0];
        let mut bytes = fs::read(shard).unwrap();
        let photo = shardpack_testing::photo();
        let end = photo.len() - 200;
        let at = bytes.windows(100).position(|window| window == &photo[end..end + 100]).unwrap();
        bytes[at..at + 100].fill(0xff);
        fs::write(shard, &bytes).unwrap();
        verify(&[&folder], &[]).code(0);
        verify(&[&folder], &["--decode"]).code(1).says("JPEG does not decode");
    }
}

#[test]
fn a_cut_shard_is_found_at_every_cut() {
    for format in names() {
        let bench = Bench::new();
        let folder = small(&bench, format, &["--shards", "1"]);
        let shard = &shards(&folder)[0];
        // Alone, so that only the framing of the shard can detect the cut.
        let alone = bench.at("alone");
        fs::create_dir(&alone).unwrap();
        let copy = alone.join(shard.file_name().unwrap());
        let whole = fs::read(shard).unwrap();
        let starts = match format {
            // A file that ends after a complete record is valid.
            "tfrecord" | "recordio" => record_starts(&folder, shard),
            _ => Vec::new(),
        };
        // Only the first two blocks of the zeros at the end of a tar file are required.
        let last = whole.iter().rposition(|byte| *byte != 0).unwrap();
        let end = if format == "webdataset" { last.next_multiple_of(512) + 1024 } else { whole.len() };
        for cut in (0..end)
            .step_by(sweep::points(911, 2729))
            .chain([end - 1])
            .chain(starts.iter().copied().map(|start| start - 1))
        {
            if starts.contains(&cut) {
                continue;
            }
            fs::write(&copy, &whole[..cut]).unwrap();
            verify(&[&alone], &[]).code(1).says(shard.file_name().unwrap().to_str().unwrap());
        }
        // With the index, `verify` also detects a file that ends after a complete record.
        for start in starts {
            fs::write(shard, &whole[..start]).unwrap();
            verify(&[&folder], &[]).code(1).says(".idx: 5 entries").says("no record begins at byte");
        }
    }
}

/// Offsets of the records except the first, from the index next to the shard.
fn record_starts(folder: &Path, shard: &Path) -> Vec<usize> {
    let appended = PathBuf::from(format!("{}.idx", shard.display()));
    let (path, column) = match appended.exists() {
        true => (appended, 0),
        false => (shard.with_extension("idx"), 1),
    };
    assert!(path.starts_with(folder));
    let lines = fs::read_to_string(path).unwrap();
    let numbers = lines.lines().map(|line| line.split(['\t', ' ']).nth(column).unwrap().parse().unwrap());
    numbers.skip(1).collect()
}

#[test]
fn an_index_with_a_wrong_offset_is_named() {
    let bench = Bench::new();
    let folder = small(&bench, "recordio", &["--shards", "1"]);
    let idx = shards(&folder)[0].with_extension("idx");
    let right = fs::read_to_string(&idx).unwrap();
    let lines: Vec<&str> = right.lines().collect();
    let cases = [
        (right.replacen("\t0\n", "\t4\n", 1), "line 1: no record begins at byte 4"),
        (lines[1..].join("\n") + "\n", "4 entries, "),
        (format!("{right}{}\n", lines[2]), "line 6: the record at byte "),
        ("nonsense\n".to_owned(), "byte 0: a line of an index is a number, a tab, an offset"),
        ("0\t0\n".repeat(500), "longer than an index of 5 records can be"),
    ];
    for (wrong, says) in cases {
        fs::write(&idx, wrong).unwrap();
        verify(&[&folder], &[]).code(1).says("shard-000000.idx: ").says(says);
    }
    // The writer may number the records freely.
    fs::write(&idx, right.replacen("0\t", "77\t", 1)).unwrap();
    verify(&[&folder], &[]).code(0);

    let bench = Bench::new();
    let folder = small(&bench, "tfrecord", &["--shards", "1"]);
    let idx = folder.join("shard-00000-of-00001.idx");
    let idx = if idx.exists() { idx } else { folder.join("shard-00000-of-00001").with_extension("idx") };
    let right = fs::read_to_string(&idx).unwrap();
    let length = right.lines().next().unwrap().split(' ').nth(1).unwrap().to_owned();
    fs::write(&idx, right.replacen(&length, "17", 1)).unwrap();
    verify(&[&folder], &[]).code(1).says(&format!("line 1: 17 bytes, the record at byte 0 has {length}"));
}

#[test]
fn an_index_json_that_is_wrong_is_named() {
    let bench = Bench::new();
    let folder = small(&bench, "mds", &["--shards", "2", "--set", "hashes=sha1,xxh64"]);
    let path = folder.join("index.json");
    let right: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut index = right.clone();
        change(&mut index["shards"][1]);
        fs::write(&path, index.to_string()).unwrap();
        verify(&[&folder], &[])
    };
    let shard = "shard.00001.mds: ";
    wrong(&|_| {}).code(0).says("5 samples in 2 shards");
    wrong(&|entry| entry["samples"] = json!(7)).code(1).says(shard).says("samples, 7 in index.json");
    wrong(&|entry| entry["raw_data"]["bytes"] = json!(7)).code(1).says(shard).says("bytes, 7 in index.json");
    wrong(&|entry| entry["raw_data"]["hashes"]["sha1"] = json!("ab")).code(1).says(shard).says("its sha1 is ");
    wrong(&|entry| entry["raw_data"]["basename"] = json!("gone.mds"))
        .code(1)
        .says("gone.mds: is missing: index.json names it");
    wrong(&|entry| entry["raw_data"]["basename"] = json!("gone.mds")).says(shard).says("does not name it");
    wrong(&|entry| entry["raw_data"]["hashes"] = json!({"blake2b": "ab"})).code(0).says_not("blake2b");
    let loud = run(&["verify", folder.to_str().unwrap()]).code(0);
    loud.says("hash blake2b in index.json is not known here and was not checked");
    assert_eq!(verify(&[&folder], &["--json"]).json()["notes"].as_array().unwrap().len(), 1);
    // `verify` on a single file reports the same.
    wrong(&|entry| entry["samples"] = json!(7)).code(1);
    verify(&[&folder.join("shard.00001.mds")], &[]).code(1).says("7 in index.json");
    verify(&[&folder.join("shard.00000.mds")], &[]).code(0);
    fs::write(&path, b"{").unwrap();
    verify(&[&folder], &[]).code(1).says("index.json: not an index.json of streaming");

    let bench = Bench::new();
    let folder = small(&bench, "mds", &["--shards", "1", "--compress", "zstd", "--set", "hashes=sha1"]);
    verify(&[&folder], &["--decode"]).code(0).says("5 samples in 1 shard");
    let path = folder.join("index.json");
    let right = fs::read_to_string(&path).unwrap();
    let index: Value = serde_json::from_str(&right).unwrap();
    for (file, says) in [("raw_data", "its sha1 unpacked is "), ("zip_data", "its sha1 is ")] {
        let hash = index["shards"][0][file]["hashes"]["sha1"].as_str().unwrap();
        fs::write(&path, right.replace(hash, "0123")).unwrap();
        verify(&[&folder], &[]).code(1).says("shard.00000.mds.zstd: ").says(says);
    }
}

#[test]
fn a_label_that_is_missing_where_others_have_one_is_named() {
    let bench = Bench::new();
    let folder = small(&bench, "tfrecord", &["--shards", "1"]);
    let other = Bench::new();
    let features = "image/encoded,image/format";
    other.file("cow/x.jpg", &shardpack_testing::photo());
    other.pack(&["--format", "tfrecord", "--features", features, "--quiet"]).code(0);
    let unlabelled = fs::read(&shards(&other.dst())[0]).unwrap();
    let path = folder.join("more-00000-of-00001");
    fs::write(&path, unlabelled).unwrap();
    let ran = verify(&[&folder], &[]).code(1);
    ran.says("more-00000-of-00001: ").says("no label").says("1 of ");
}

#[test]
fn inspect_finds_in_the_shards_what_the_manifest_said() {
    for format in names() {
        let bench = Bench::new();
        pack(&photos(), &bench.dst(), &["--format", format, "--shards", "3", "--quiet"]).code(0);
        let own = inspect(&[&bench.dst()], &["--json"]).code(0).json()["datasets"][0].clone();
        let folder = forget(&bench.dst());
        let found = inspect(&[&folder], &["--json"]).code(0).json();
        assert_eq!(found["problems"], json!([]), "{format}");
        let [found] = &found["datasets"].as_array().unwrap()[..] else { panic!("{found}") };
        for field in ["format", "samples", "payload_bytes", "shards", "compression", "mix"] {
            assert_eq!(found[field], own[field], "{format}: {field}");
        }
        for field in ["kinds", "modes", "depths", "width", "height"] {
            assert_eq!(found["images"][field], own["images"][field], "{format}: {field}");
        }
        assert_eq!(found["what"], "foreign");
        assert_eq!(found["tar"].is_null(), format != "webdataset", "{format}");
        let counts = |found: &Value| {
            let list = found["classes"]["list"].as_array().unwrap().clone();
            list.into_iter().map(|class| (class["label"].clone(), class["samples"].clone())).collect::<Vec<_>>()
        };
        assert_eq!(counts(found), counts(&own), "{format}");
        let images: Vec<_> = found["components"].as_array().unwrap().iter().collect();
        assert!(images.iter().any(|component| component["samples"] == 32), "{format}: {images:?}");
        let text = inspect(&[&folder], &[]).code(0).says(&format!("format  {format}; not compressed"));
        text.says("foreign ").says("no manifest").says("jpeg 30 (93.8 %)");
    }
}

#[test]
fn samples_are_listed_and_extracted_as_they_were() {
    for format in names() {
        let bench = Bench::new();
        pack(&photos(), &bench.dst(), &["--format", format, "--shards", "1", "--quiet"]).code(0);
        let own = inspect(&[&bench.dst()], &["--samples", "--limit", "0", "--json"]).code(0).json()["samples"].clone();
        let folder = forget(&bench.dst());
        let found = inspect(&[&folder], &["--samples", "--limit", "0", "--json"]).code(0).json()["samples"].clone();
        let (own, found) = (own.as_array().unwrap(), found.as_array().unwrap());
        assert_eq!((own.len(), found.len()), (32, 32), "{format}");
        let output = bench.at("out");
        for (number, (own, found)) in own.iter().zip(found).enumerate() {
            for field in ["number", "label", "kind", "width", "height", "mode", "depth", "bytes", "shard"] {
                assert_eq!(found[field], own[field], "{format}: {field}");
            }
            if number % 9 == 0 {
                let key = found["key"].as_str().unwrap();
                let options = ["--extract", key, "-o", output.to_str().unwrap(), "--force"];
                inspect(&[&folder], &options).code(0);
                let expected = fs::read(photos().join(own["path"].as_str().unwrap())).unwrap();
                assert!(fs::read(&output).unwrap() == expected, "{format}: {key}");
            }
        }
        inspect(&[&folder], &["--samples", "--limit", "3"]).code(0).says("there are more than 3");
        let of_class = inspect(&[&folder], &["--samples", "--class", "3", "--json"]).code(0).json()["samples"].clone();
        assert_eq!(of_class.as_array().unwrap().len(), 4, "{format}");
        if format == "tfrecord" {
            let named = inspect(&[&folder], &["--samples", "--class", "textures", "--json"]).code(0).json();
            let named = named["samples"].clone();
            assert_eq!(named, of_class);
        }
        let none = inspect(&[&folder], &["--extract", "nobody", "-o", output.to_str().unwrap(), "--force"]);
        none.code(2).clean_error().says("no sample with the key");
    }
}

#[test]
fn a_table_of_foreign_shards_has_the_hashes_of_the_index() {
    for format in names() {
        let bench = Bench::new();
        pack(&photos(), &bench.dst(), &["--format", format, "--shards", "2", "--quiet"]).code(0);
        let table = |name: &str| {
            let path = bench.at(name);
            inspect(&[&bench.dst()], &["--table", path.to_str().unwrap()]).code(0).says("32 rows");
            let text = fs::read_to_string(path).unwrap();
            text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let own = table("own.csv");
        forget(&bench.dst());
        let found = table("foreign.csv");
        assert_eq!((own.len(), found.len()), (33, 33), "{format}");
        for column in ["shard", "number", "label", "offset", "image_offset", "image_bytes", "content_hash", "width"] {
            let at = own[0].iter().position(|name| name == column).unwrap();
            let values = |table: &[Vec<String>]| table.iter().map(|row| row[at].clone()).collect::<Vec<_>>();
            assert_eq!(values(&own), values(&found), "{format}: {column}");
        }
        let shard = &shards(&bench.dst())[1];
        fs::write(shard, &fs::read(shard).unwrap()[..9000]).unwrap();
        let path = bench.at("none.csv");
        inspect(&[&bench.dst()], &["--table", path.to_str().unwrap()]).code(1).clean_error();
        assert!(!path.exists(), "{format}");
    }
}

#[test]
fn a_number_that_several_files_have_is_not_chosen_from() {
    let bench = Bench::new();
    let folder = packed(&bench, "tfrecord", &[]);
    let output = bench.at("out");
    let options = ["--extract", "0", "-o", output.to_str().unwrap()];
    inspect(&[&folder], &options).code(2).clean_error().says("is in ").says("give one path only");
    assert!(!output.exists());
    inspect(&[&shards(&folder)[1]], &options).code(0).says("wrote");
}

#[test]
fn compressed_files_are_looked_at_like_plain_ones() {
    for format in ["webdataset", "tfrecord"] {
        let bench = Bench::new();
        let folder = small(&bench, format, &["--shards", "1", "--order", "source"]);
        let shard = &shards(&folder)[0];
        let plain = fs::read(shard).unwrap();
        let name = shard.file_name().unwrap().to_str().unwrap();
        let ways: [(&str, &str, Vec<u8>); 2] =
            [("gzip", "gz", gzip(&plain)), ("zstd", "zst", zstd::encode_all(plain.as_slice(), 3).unwrap())];
        for (compression, extension, bytes) in ways {
            let alone = bench.at(compression);
            fs::create_dir(&alone).unwrap();
            let path = alone.join(format!("{name}.{extension}"));
            fs::write(&path, &bytes).unwrap();
            verify(&[&alone], &["--decode"]).code(0).says("5 samples in 1 shard");
            let found = inspect(&[&alone], &["--json"]).code(0).json();
            let found = &found["datasets"][0];
            assert_eq!((&found["format"], &found["compression"]), (&json!(format), &json!(compression)));
            assert_eq!((&found["samples"], &found["images"]["kinds"]), (&json!(5), &json!({"jpeg": 5})));
            for cut in [bytes.len() / 3, bytes.len() - 1] {
                fs::write(&path, &bytes[..cut]).unwrap();
                verify(&[&alone], &[]).code(1).says(name);
            }
            // Damage in the first bytes does not hide a file from the search.
            fs::write(&path, [&bytes[..12], &[0xff; 40]].concat()).unwrap();
            verify(&[&alone], &[]).code(1).says(name);
        }
    }
}

#[test]
fn files_of_several_formats_are_told_apart() {
    let benches: Vec<_> = names().map(|format| (format, Bench::new())).collect();
    let folders: Vec<PathBuf> = benches.iter().map(|(format, bench)| packed(bench, format, &[])).collect();
    let mut files: Vec<PathBuf> = (0..2)
        .flat_map(|number| folders.iter().map(move |folder| (number, folder)))
        .map(|(number, folder)| shards(folder)[number].clone())
        .collect();
    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    verify(&paths, &[]).code(0).says("in 8 shards");
    let found = inspect(&paths, &["--json"]).code(0).json();
    let groups: BTreeMap<_, _> = found["datasets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| (group["format"].as_str().unwrap(), group["shards"]["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(groups, names().map(|format| (format, 2)).collect());
    // A file that is no shard is named, and the other files are checked.
    files.insert(1, benches[0].1.at("notes"));
    fs::write(&files[1], b"text").unwrap();
    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    verify(&paths, &[]).code(1).says("notes: of no format").says("of 8 shards");
    inspect(&paths, &[]).code(1).says("notes: of no format");
    verify(&[&files[1]], &[]).code(1).clean_error().says("tfrecord");
    inspect(&[&files[1]], &["--json"]).code(1).clean_error();
}

/// Everything that `verify` and `inspect` do with the files of a folder, in this process; returns whether `verify` found no
/// fault.
fn look_at_all(folder: &Path, decode: bool) -> bool {
    let sources = [folder.to_path_buf()];
    let Ok(looked) = look(&sources).and_then(|looked| looked.some(&sources)) else { return false };
    let options = verify::Options { decode, jobs: 1, ..verify::Options::default() };
    let report = verify::foreign::verify(looked.into(), &options, &Silent).unwrap();
    if let Ok(resolved) = inspect::resolve(&sources, &Default::default()) {
        let _ = inspect::inspect(&resolved.targets, 1, &Silent);
        let _ = inspect::samples(&resolved.targets, &Filter::default(), &Silent, &mut |_| Ok(()));
        let _ = inspect::extract(&resolved.targets, b"00000001", 1, &Silent);
    }
    report.problems.is_empty()
}

#[test]
fn no_damage_to_a_shard_or_to_what_lies_beside_makes_it_panic() {
    for format in names() {
        let bench = Bench::new();
        let jpeg = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0\xff\xd9";
        bench.file("ant/a.jpg", jpeg);
        bench.file("bee/b.jpg", &[jpeg.as_slice(), &[7; 30]].concat());
        bench.pack(&["--format", format, "--shards", "1", "--quiet"]).code(0);
        let folder = forget(&bench.dst());
        let mut files = shards(&folder);
        let beside = [files[0].with_extension("idx"), PathBuf::from(format!("{}.idx", files[0].display()))];
        let is_read = |path: &PathBuf| path.exists() && format != "webdataset";
        files.extend(beside.into_iter().chain([folder.join("index.json")]).filter(is_read));
        assert!(look_at_all(&folder, false), "{format}");
        if format == "tfrecord" {
            let packed = folder.join("more-00000-of-00001.gz");
            fs::write(&packed, gzip(&fs::read(&files[0]).unwrap())).unwrap();
            files.push(packed);
        }
        for file in &files {
            let whole = fs::read(file).unwrap();
            // A tar file ends in many zeros after its members.
            let end = whole.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
            // A prime step covers all fields.
            for at in (0..end).step_by(sweep::points(7, 23)) {
                let mut wrong = whole.clone();
                wrong[at] ^= if at % 2 == 0 { 0x80 } else { 0x01 };
                fs::write(file, &wrong).unwrap();
                look_at_all(&folder, true);
                fs::write(file, &whole[..at]).unwrap();
                assert!(!look_at_all(&folder, false), "{}: cut at {at}", file.display());
            }
            fs::write(file, &whole).unwrap();
        }
    }
}
