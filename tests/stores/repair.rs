//! `verify --repair` of datasets at URLs, on real servers: each object is byte for byte the packed object, or unchanged.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use shardpack_testing::{
    Bench, Ran,
    places::{begin, each, files_at, files_in, is_killed, put, run, same, settings},
    server::{Fault, Proxy},
    stores::{self, Kind, ObjectServer},
};

type Files = BTreeMap<String, Vec<u8>>;

fn work(bench: &Bench, server: &ObjectServer) -> PathBuf {
    bench.at(&format!("work-{:?}", server.kind))
}

/// The words of a repair of `prefix` from `source`, with requests to `port`.
fn words(bench: &Bench, server: &ObjectServer, port: u16, prefix: &str, source: &str) -> Vec<String> {
    let work = work(bench, server).display().to_string();
    let words = ["verify", &server.url(prefix), "--repair", source, "--work", &work].map(str::to_owned);
    words.into_iter().chain(settings(server, port)).collect()
}

fn repair(bench: &Bench, server: &ObjectServer, prefix: &str, source: &str) -> Ran {
    let mut words = words(bench, server, server.port(), prefix, source);
    words.push("--json".to_owned());
    run(&words, &[])
}

fn pack(bench: &Bench, name: &str, options: &[&str]) -> Files {
    let (src, dst) = (bench.src(), bench.at(name));
    let words = ["pack", src.to_str().unwrap(), dst.to_str().unwrap(), "--quiet", "--seed", "3"];
    shardpack_testing::run(&[&words[..], options].concat()).code(0);
    files_in(&dst)
}

fn mended(json: &Value) -> Vec<&str> {
    json["mended"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect()
}

/// Changes one byte of the file `name` in `files`.
fn flip(files: &mut Files, name: &str) {
    let bytes = files.get_mut(name).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 8;
}

fn unfinished_work(bench: &Bench, server: &ObjectServer) -> usize {
    fs::read_dir(work(bench, server)).map_or(0, Iterator::count)
}

#[test]
fn whatever_is_damaged_is_mended_to_the_byte_from_a_folder_and_from_a_prefix() {
    let bench = Bench::with_source(90, 9000);
    let plain = pack(&bench, "plain", &["--shards", "6"]);
    let mut damaged = plain.clone();
    flip(&mut damaged, "shard-000000.tar");
    let length = plain["shard-000001.tar"].len();
    damaged.get_mut("shard-000001.tar").unwrap().truncate(length / 3);
    damaged.remove("shard-000002.tar");
    flip(&mut damaged, "index/shard-000003.index");
    damaged.get_mut("shard-000004.tar").unwrap().extend([7; 1000]);
    damaged.get_mut("BLAKE3SUMS").unwrap().truncate(20);
    damaged.remove("wids.json");
    flip(&mut damaged, "shard-000005.idx");
    let of_plain = [
        "BLAKE3SUMS",
        "shard-000000.tar",
        "shard-000001.tar",
        "shard-000002.tar",
        "index/shard-000003.index",
        "shard-000004.tar",
        "shard-000005.idx",
        "wids.json",
    ];
    let packed = pack(&bench, "zstd", &["--shards", "3", "--compress", "zstd"]);
    let mut of_zstd = packed.clone();
    flip(&mut of_zstd, "shard-000000.tar.zst");
    of_zstd.remove("index/shard-000001.index");
    of_zstd.remove("shard-000002.tar.zst");
    let splits = pack(&bench, "splits", &["--shards", "2", "--split-fraction", "val=0.2"]);
    let mut of_splits = splits.clone();
    flip(&mut of_splits, "train/train-000001.tar");
    of_splits.remove("val/val-000000.tar");
    of_splits.remove("val/BLAKE3SUMS");
    let cases = [
        ("plain", &plain, &damaged, &of_plain[..]),
        ("zstd", &packed, &of_zstd, &["shard-000000.tar.zst", "index/shard-000001.index", "shard-000002.tar.zst"]),
        ("splits", &splits, &of_splits, &["train/train-000001.tar", "val/BLAKE3SUMS", "val/val-000000.tar"]),
    ];
    each(|server| {
        server.put_folder(&bench.src(), "a tree/src");
        for source in [bench.src().to_str().unwrap().to_owned(), server.url("a tree/src")] {
            for (name, whole, damaged, names) in cases {
                let what = format!("{:?} {name} {source}", server.kind);
                put(server, name, damaged);
                let json = repair(&bench, server, name, &source).code(0).json();
                same(whole, &files_at(server, name), &what);
                assert_eq!(mended(&json), names, "{what}");
                assert!(json["ok"] == true && json["not_mended"] == serde_json::json!([]), "{what}: {json}");
                assert_eq!(json["left_uploads"], serde_json::json!([]), "{what}");
                // Only the damaged files are uploaded, each once.
                let sent: usize = names.iter().map(|name| whole[*name].len()).sum();
                assert_eq!(json["network"]["sent_bytes"], sent, "{what}");
                assert_eq!(unfinished_work(&bench, server), 0, "{what}");
            }
        }
        // The dataset is intact: nothing is uploaded.
        let json = repair(&bench, server, "plain", &server.url("a tree/src")).code(0).json();
        assert!(mended(&json).is_empty() && json["network"]["sent_bytes"] == 0, "{json}");
    });
}

#[test]
fn a_dataset_and_shards_at_urls_are_sources_and_are_compared_with() {
    let bench = Bench::with_source(40, 5000);
    let first = pack(&bench, "first", &["--shards", "2"]);
    let convert = |name: &str, from: &[&str]| {
        let (src, dst) = (bench.at("first"), bench.at(name));
        let words = ["convert", src.to_str().unwrap(), dst.to_str().unwrap(), "--quiet", "--shards", "3"];
        shardpack_testing::run(&[&words[..], from].concat()).code(0);
        files_in(&dst)
    };
    let cases = [
        ("second", convert("second", &[]), "first"),
        ("of shards", convert("of shards", &["--from", "webdataset"]), "tars/shard-{000000..000001}.tar"),
    ];
    each(|server| {
        put(server, "first", &first);
        put(server, "tars", &first.clone().into_iter().filter(|(name, _)| name.ends_with(".tar")).collect());
        for (name, whole, source) in &cases {
            let what = format!("{:?} {name}", server.kind);
            let mut damaged = whole.clone();
            flip(&mut damaged, "shard-000001.tar");
            put(server, name, &damaged);
            let json = repair(&bench, server, name, &server.url(source)).code(0).json();
            assert_eq!(mended(&json), ["shard-000001.tar"], "{what}");
            same(whole, &files_at(server, name), &what);
            let target: Vec<String> = settings(server, server.port());
            let against = ["verify", &server.url(name), "--against", &server.url(source)].map(str::to_owned);
            run(&[&against[..], &target].concat(), &[]).code(0);
        }
    });
}

#[test]
fn a_folder_is_compared_with_a_prefix_and_mended_from_it() {
    let bench = Bench::with_source(40, 5000);
    let whole = pack(&bench, "packed", &["--shards", "2"]);
    each(|server| {
        let what = format!("{:?}", server.kind);
        server.put_folder(&bench.src(), "src");
        let here = bench.at(&what);
        for (name, bytes) in &whole {
            fs::create_dir_all(here.join(name).parent().unwrap()).unwrap();
            fs::write(here.join(name), bytes).unwrap();
        }
        fs::remove_file(here.join("shard-000001.tar")).unwrap();
        // The prefix `src.` limits a setting to the source.
        let settings: Vec<_> =
            settings(server, server.port()).iter().map(|text| text.replacen("=", "=src.", 1)).collect();
        let words = |option: &str| {
            let words = ["verify", here.to_str().unwrap(), option, &server.url("src"), "--json"].map(str::to_owned);
            [&words[..], &settings].concat()
        };
        let json = run(&words("--repair"), &[]).code(0).json();
        assert_eq!(mended(&json), ["shard-000001.tar"], "{what}");
        assert!(json["network"]["received_bytes"].as_u64().unwrap() > 90_000, "{what}: {json}");
        same(&whole, &files_in(&here), &what);
        run(&words("--against"), &[]).code(0);
        let key = &server.keys("src/")[3];
        let mut bytes = server.get(key).unwrap();
        bytes[4000] ^= 1;
        server.put(key, &bytes);
        let json = run(&words("--against"), &[]).code(1).json();
        assert_eq!(json["problems"].as_array().unwrap().len(), 1, "{what}: {json}");
        assert_eq!(json["problems"][0]["path"], key["src/".len()..], "{what}");
    });
}

#[test]
fn tables_of_crops_are_made_anew_of_the_shards_that_are_there() {
    let bench = Bench::new();
    let (src, dst) = (concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/photos"), bench.at("packed"));
    shardpack_testing::run(&["pack", src, dst.to_str().unwrap(), "--quiet", "--crops", "--shards", "2"]).code(0);
    let whole = files_in(&dst);
    let mut damaged = whole.clone();
    flip(&mut damaged, "index/shard-000000.crops");
    flip(&mut damaged, "shard-000000.tar");
    each(|server| {
        put(server, "packed", &damaged);
        let json = repair(&bench, server, "packed", src).code(0).json();
        assert_eq!(mended(&json), ["shard-000000.tar", "index/shard-000000.crops"], "{:?}", server.kind);
        same(&whole, &files_at(server, "packed"), &format!("{:?}", server.kind));
    });
}

#[test]
fn a_source_that_has_changed_mends_nothing_and_nothing_is_written_over() {
    let bench = Bench::with_source(30, 3000);
    let whole = pack(&bench, "packed", &["--shards", "3"]);
    let mut damaged = whole.clone();
    flip(&mut damaged, "shard-000000.tar");
    damaged.remove("index/shard-000001.index");
    damaged.remove("shard-000002.tar");
    let dst = bench.at("packed");
    // Every image of the first and second shard is replaced by another image of the same length.
    for shard in ["shard-000000.tar", "shard-000001.tar"] {
        let told =
            shardpack_testing::run(&["inspect", dst.to_str().unwrap(), "--samples", "--limit", "0", "--json"]).json();
        let of_shard = |sample: &&Value| sample["shard"].as_str().unwrap().ends_with(shard);
        for sample in told["samples"].as_array().unwrap().iter().filter(of_shard) {
            let path = bench.src().join(sample["path"].as_str().unwrap());
            let mut bytes = fs::read(&path).unwrap();
            let at = bytes.len() - 5;
            bytes[at] ^= 1;
            fs::write(path, bytes).unwrap();
        }
    }
    each(|server| {
        server.put_folder(&bench.src(), "src");
        for source in [bench.src().to_str().unwrap().to_owned(), server.url("src")] {
            let what = format!("{:?} {source}", server.kind);
            put(server, "packed", &damaged);
            let json = repair(&bench, server, "packed", &source).code(1).json();
            let failed: Vec<_> = json["not_mended"].as_array().unwrap().iter().collect();
            let names: Vec<_> = failed.iter().map(|failed| failed["file"].as_str().unwrap()).collect();
            assert_eq!(names, ["shard-000000.tar", "index/shard-000001.index"], "{what}");
            for failed in failed {
                let why = failed["why"].as_str().unwrap();
                let says = ["other bytes now", "its BLAKE3 differs"].iter().any(|says| why.contains(says));
                assert!(says, "{what}: {why}");
            }
            assert_eq!(mended(&json), ["shard-000002.tar"], "{what}");
            let mut expected = damaged.clone();
            expected.insert("shard-000002.tar".to_owned(), whole["shard-000002.tar"].clone());
            same(&expected, &files_at(server, "packed"), &what);
            assert_eq!(unfinished_work(&bench, server), 0, "{what}");
        }
        // If the manifest itself is damaged, repair writes nothing.
        let mut wrong = damaged.clone();
        let manifest = String::from_utf8(whole["manifest.json"].clone()).unwrap();
        wrong.insert("manifest.json".to_owned(), manifest.replacen("\"seed\": 3", "\"seed\": 4", 1).into_bytes());
        put(server, "packed", &wrong);
        let json = repair(&bench, server, "packed", bench.src().to_str().unwrap()).code(1).json();
        assert_eq!(json["not_mended"][0]["file"], "manifest.json", "{json}");
        same(&wrong, &files_at(server, "packed"), "a damaged manifest");
    });
}

/// 24 MB in 2 shards, so that each is uploaded in parts of 8 MiB. Returns the intact files, and the files with one byte changed and one
/// shard missing.
fn large(bench: &Bench) -> (Files, Files) {
    for number in 0..48u64 {
        bench.file(format!("class-{}/{number}.jpg", number % 5), &shardpack_testing::jpeg(number, 500_000));
    }
    let whole = pack(bench, "packed", &["--shards", "2"]);
    let mut damaged = whole.clone();
    flip(&mut damaged, "shard-000000.tar");
    damaged.remove("shard-000001.tar");
    damaged.remove("BLAKE3SUMS");
    (whole, damaged)
}

#[test]
fn a_repair_with_every_fifth_request_failing_makes_the_same() {
    let faults = [
        ("503", Fault::Status(503, false)),
        ("drop", Fault::Drop),
        ("lost", Fault::Lost),
        ("cut", Fault::Cut(1000)),
        ("late", Fault::Delay(Duration::from_millis(40))),
    ];
    let bench = Bench::new();
    let (whole, damaged) = large(&bench);
    each(|server| {
        server.put_folder(&bench.src(), "src");
        let proxy = Proxy::start(server.port());
        for (_, (name, fault)) in server.turns(faults) {
            put(server, "packed", &damaged);
            proxy.fail(5, fault);
            let words = words(&bench, server, proxy.port(), "packed", &server.url("src"));
            run(&words, &[]).code(0).says("mended  shard-000000.tar").says("mended  shard-000001.tar").says(" sent");
            same(&whole, &files_at(server, "packed"), &format!("{:?} {name}", server.kind));
            assert!(proxy.faults() > 5, "{name}: {}", proxy.faults());
        }
    });
}

#[test]
fn an_end_of_an_upload_whose_answer_is_lost_is_looked_up() {
    let bench = Bench::new();
    let (whole, damaged) = large(&bench);
    for server in stores::all().into_iter().filter(|server| [Kind::S3, Kind::Google].contains(&server.kind)) {
        put(&server, "packed", &damaged);
        let proxy = Proxy::start(server.port());
        // An upload takes two POST requests: the first begins it, the second completes it.
        proxy.fail_of("POST", 2, Fault::Lost);
        let source = bench.src().display().to_string();
        let words = words(&bench, &server, proxy.port(), "packed", &source);
        run(&words, &[]).code(0).says("mended  shard-000001.tar");
        assert!(proxy.faults() > 0);
        same(&whole, &files_at(&server, "packed"), &format!("{:?}", server.kind));
    }
}

#[test]
fn a_repair_that_is_killed_anywhere_leaves_whole_objects_and_the_next_one_ends_it() {
    let bench = Bench::new();
    let (whole, damaged) = large(&bench);
    let source = bench.src().display().to_string();
    for server in stores::alone().into_iter().filter(|server| ![Kind::Azure, Kind::Moto].contains(&server.kind)) {
        let what = format!("{:?}", server.kind);
        let proxy = Proxy::start(server.port());
        let words = words(&bench, &server, proxy.port(), "packed", &source);
        put(&server, "packed", &damaged);
        let mut killed = 0;
        // Kills the process a few requests later each time, until one run finishes.
        for after in (2..).step_by(4) {
            if !is_killed(&words, &proxy, after) {
                break;
            }
            killed += 1usize;
            for (name, bytes) in files_at(&server, "packed") {
                let is_one = [&damaged, &whole].iter().any(|files| files.get(&name) == Some(&bytes));
                assert!(is_one, "{what}: {name} after {killed}: {} bytes", bytes.len());
            }
            assert!(killed < 60, "it never ends");
        }
        assert!(killed > 3, "{what}: {killed}");
        run(&words, &[]).code(0);
        same(&whole, &files_at(&server, "packed"), &what);
        // An upload stays unfinished if the process was killed before it received the upload's id.
        assert!(server.unfinished() < killed, "{what}: {} of {killed}", server.unfinished());
        assert_eq!(unfinished_work(&bench, &server), 0, "{what}");
    }
}

#[test]
fn parts_that_an_earlier_repair_left_are_given_up_or_named() {
    let bench = Bench::new();
    let (whole, mut damaged) = large(&bench);
    // The shards are the first objects to be uploaded.
    damaged.insert("BLAKE3SUMS".to_owned(), whole["BLAKE3SUMS"].clone());
    let source = bench.src().display().to_string();
    for server in stores::alone().into_iter().filter(|server| server.kind == Kind::S3) {
        for is_refused in [false, true] {
            let proxy = Proxy::start(server.port());
            put(&server, "packed", &damaged);
            let mut words = words(&bench, &server, proxy.port(), "packed", &source);
            // No part finishes, so the upload is in flight and its id is recorded.
            proxy.fail_of("PUT", 1, Fault::Delay(Duration::from_secs(30)));
            let mut child = begin(&words);
            let start = Instant::now();
            let is_noted = || {
                let mut all = fs::read_dir(work(&bench, &server)).into_iter().flatten();
                all.any(|at| fs::read(at.unwrap().path().join("uploads")).is_ok_and(|lines| !lines.is_empty()))
            };
            while !is_noted() {
                assert!(start.elapsed() < Duration::from_secs(100) && child.try_wait().unwrap().is_none());
                thread::sleep(Duration::from_millis(1));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(server.unfinished(), 1);
            // Status 301 is a refusal that does not make the client wait for new credentials.
            proxy.fail_of("DELETE", if is_refused { 1 } else { u64::MAX }, Fault::Status(301, false));
            if is_refused {
                let json = run(&[&words[..], &["--json".to_owned()]].concat(), &[]).code(0).json();
                assert_eq!(json["left_uploads"], serde_json::json!(["shard-000000.tar"]), "{json}");
                assert_eq!(server.unfinished(), 1);
            } else {
                words.push("--quiet".to_owned());
                run(&words, &[]).code(0).says_not("may have left parts");
                assert_eq!(server.unfinished(), 0);
            }
            same(&whole, &files_at(&server, "packed"), "after a kill");
        }
    }
}

#[test]
fn nothing_is_put_once_the_dataset_is_another() {
    let bench = Bench::new();
    let (whole, mut damaged) = large(&bench);
    damaged.insert("BLAKE3SUMS".to_owned(), whole["BLAKE3SUMS"].clone());
    let source = bench.src().display().to_string();
    for server in stores::all().into_iter().filter(|server| [Kind::S3, Kind::Azure].contains(&server.kind)) {
        let what = format!("{:?}", server.kind);
        put(&server, "packed", &damaged);
        let proxy = Proxy::start(server.port());
        // Delays the download of the damaged shard, so that the manifest is deleted meanwhile.
        proxy.fail_of("GET", 1, Fault::Delay(Duration::from_millis(300)));
        let mut child = begin(&words(&bench, &server, proxy.port(), "packed", &source));
        let start = Instant::now();
        let is_begun = || {
            let mut all = fs::read_dir(work(&bench, &server)).into_iter().flatten();
            all.any(|at| at.unwrap().path().join("made").exists())
        };
        while !is_begun() {
            assert!(start.elapsed() < Duration::from_secs(100) && child.try_wait().unwrap().is_none(), "{what}");
            thread::sleep(Duration::from_millis(1));
        }
        server.delete("packed/manifest.json");
        assert_eq!(child.wait().unwrap().code(), Some(2), "{what}");
        damaged.remove("manifest.json");
        same(&damaged, &files_at(&server, "packed"), &what);
        damaged.insert("manifest.json".to_owned(), whole["manifest.json"].clone());
    }
}
