//! Crop tables of datasets at URLs, on real servers: each table is byte for byte that of the folder, or absent.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use shardpack_testing::{
    Bench, Ran, photos,
    places::{self, begin, each, files_at, files_in, is_killed, put, run, same, settings},
    server::{Fault, Nginx, Proxy},
    stores::{self, Kind, ObjectServer},
};

type Files = BTreeMap<String, Vec<u8>>;

/// The words of a command at `url`, sent to `port`.
fn words(command: &[&str], url: &str, server: &ObjectServer, port: u16) -> Vec<String> {
    let words = command.iter().map(|word| (*word).to_owned()).chain([url.to_owned()]);
    words.chain(settings(server, port)).collect()
}

fn crops(server: &ObjectServer, port: u16, prefix: &str, options: &[&str]) -> Ran {
    run(&words(&[&["crops"], options].concat(), &server.url(prefix), server, port), &[])
}

/// Photographs in three shards, packed with `options`.
fn packed(folder: &Path, options: &[&str]) -> Files {
    let (photos, folder_text) = (photos(), folder.to_str().unwrap());
    let words = ["pack", photos.to_str().unwrap(), folder_text, "--quiet", "--shards", "3"];
    shardpack_testing::run(&[&words[..], options].concat()).code(0);
    files_in(folder)
}

/// `files` without the crop tables.
fn without_tables(files: &Files) -> Files {
    files
        .iter()
        .filter(|(name, _)| !name.ends_with(".crops"))
        .map(|(name, bytes)| (name.clone(), bytes.clone()))
        .collect()
}

#[test]
fn tables_at_a_url_are_those_of_the_folder() {
    let bench = Bench::new();
    let whole = packed(&bench.at("whole"), &["--crops"]);
    let splits = packed(&bench.at("splits"), &["--crops", "--split-fraction", "val=0.3"]);
    each(|server| {
        let what = format!("{:?}", server.kind);
        put(server, "packed", &without_tables(&whole));
        let made = crops(server, server.port(), "packed", &["--json"]).code(0).json();
        same(&whole, &files_at(server, "packed"), &what);
        assert_eq!((made["shards"].as_u64(), made["kept_shards"].as_u64()), (Some(3), Some(0)), "{made}");
        assert!(made["network"]["sent_bytes"].as_u64() >= made["table_bytes"].as_u64(), "{made}");
        assert!(made["network"]["received_bytes"].as_u64() >= made["payload_bytes"].as_u64(), "{made}");
        let kept = crops(server, server.port(), "packed", &["--json"]).code(0).json();
        assert_eq!((&kept["kept_shards"], &kept["network"]["sent_bytes"]), (&3.into(), &0.into()), "{kept}");
        assert_eq!(kept["tables"], made["tables"]);
        // Recreates the tables part by part after one table was damaged.
        let mut damaged = whole.clone();
        damaged.get_mut("index/shard-000001.crops").unwrap()[200] ^= 1;
        put(server, "packed", &damaged);
        for part in ["1/2", "2/2"] {
            crops(server, server.port(), "packed", &["--part", part]).code(0).says("the tables of ").says("network ");
        }
        same(&whole, &files_at(server, "packed"), &what);
        put(server, "splits", &without_tables(&splits));
        crops(server, server.port(), "splits", &["--quiet"]).code(0);
        same(&splits, &files_at(server, "splits"), &what);
        // A shard that differs from its seal is reported with its split, and gets no table.
        let mut damaged = without_tables(&splits);
        let name = damaged.keys().find(|name| name.starts_with("val/") && name.ends_with(".tar")).unwrap().clone();
        let shard = damaged.get_mut(&name).unwrap();
        let middle = shard.len() / 2;
        shard[middle] ^= 1;
        put(server, "splits", &damaged);
        let json = crops(server, server.port(), "splits", &["--json"]).code(1).json();
        assert_eq!(json["failed"][0]["shard"].as_str(), Some(name.as_str()), "{json}");
        let tables = name.replace("val/", "val/index/").replace(".tar", ".crops");
        assert!(splits.contains_key(&tables) && !files_at(server, "splits").contains_key(&tables), "{what}: {tables}");
    });
}

#[test]
fn a_pack_to_a_url_makes_them_too() {
    let bench = Bench::new();
    let whole = packed(&bench.at("whole"), &["--crops"]);
    each(|server| {
        let work = bench.at(&format!("work-{:?}", server.kind)).display().to_string();
        let options = ["pack", photos().to_str().unwrap(), "--crops", "--shards", "3", "--json", "--work", &work]
            .map(str::to_owned);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let json = run(&words(&options, &server.url("new"), server, server.port()), &[]).code(0).json();
        assert_eq!(json["crops"]["shards"], 3, "{json}");
        same(&whole, &files_at(server, "new"), &format!("{:?}", server.kind));
    });
}

#[test]
fn every_fifth_request_failing_makes_the_same() {
    let bench = Bench::new();
    let whole = packed(&bench.at("whole"), &["--crops"]);
    let faults = [
        Fault::Status(503, false),
        Fault::Drop,
        Fault::Lost,
        Fault::Cut(1000),
        Fault::Delay(Duration::from_millis(40)),
    ];
    each(|server| {
        let proxy = Proxy::start(server.port());
        for (number, fault) in server.turns(faults) {
            put(server, "packed", &without_tables(&whole));
            proxy.fail(5, fault);
            crops(server, proxy.port(), "packed", &["--quiet"]).code(0);
            same(&whole, &files_at(server, "packed"), &format!("{:?}, fault {number}", server.kind));
            assert!(proxy.faults() > 2, "{number}: {}", proxy.faults());
        }
    });
}

#[test]
fn whenever_it_is_killed_a_table_is_whole_or_absent_and_the_next_run_ends_it() {
    let bench = Bench::new();
    let whole = packed(&bench.at("whole"), &["--crops"]);
    for server in stores::all().into_iter().filter(|server| [Kind::S3, Kind::Google].contains(&server.kind)) {
        let what = format!("{:?}", server.kind);
        let proxy = Proxy::start(server.port());
        put(&server, "packed", &without_tables(&whole));
        let words = words(&["crops"], &server.url("packed"), &server, proxy.port());
        let mut killed = 0;
        for after in (1..).step_by(2) {
            if !is_killed(&words, &proxy, after) {
                break;
            }
            killed += 1;
            let found = files_at(&server, "packed");
            assert!(found.iter().all(|(name, bytes)| whole.get(name) == Some(bytes)), "{what}: after {after}");
            assert!(killed < 60, "it never ends");
        }
        assert!(killed > 3, "{what}: {killed}");
        same(&whole, &files_at(&server, "packed"), &what);
    }
}

#[test]
fn nothing_is_put_beside_another_dataset_nor_to_a_web_server() {
    let bench = Bench::new();
    let whole = packed(&bench.at("whole"), &["--crops"]);
    let plain = without_tables(&whole);
    for server in stores::all().into_iter().filter(|server| [Kind::S3, Kind::Azure].contains(&server.kind)) {
        // The manifest is deleted, replaced by another manifest of the same length, or written again unchanged.
        let same = &plain["manifest.json"];
        let other = String::from_utf8(same.clone()).unwrap().replace("\"seed\": 0", "\"seed\": 1").into_bytes();
        assert!(other != *same && other.len() == same.len());
        for (_, (then, code)) in server.turns([(None, 2), (Some(&other), 2), (Some(same), 0)]) {
            let what = format!("{:?} {code} {}", server.kind, then.is_some());
            put(&server, "packed", &plain);
            let proxy = Proxy::start(server.port());
            proxy.fail_of("GET", 1, Fault::Delay(Duration::from_millis(300)));
            let mut child = begin(&words(&["crops"], &server.url("packed"), &server, proxy.port()));
            let start = Instant::now();
            // Two requests for the manifest. The index and the images follow, then the manifest again.
            while proxy.requests() < 4 {
                assert!(start.elapsed() < Duration::from_secs(100) && child.try_wait().unwrap().is_none(), "{what}");
                thread::sleep(Duration::from_millis(1));
            }
            match then {
                None => server.delete("packed/manifest.json"),
                Some(bytes) => server.put("packed/manifest.json", bytes),
            }
            assert_eq!(child.wait().unwrap().code(), Some(code), "{what}");
            let mut expected = if code == 0 { whole.clone() } else { plain.clone() };
            expected.remove("manifest.json");
            let mut found = files_at(&server, "packed");
            assert_eq!(found.remove("manifest.json").as_ref(), then, "{what}");
            places::same(&expected, &found, &what);
        }
    }
    let Some(nginx) = Nginx::start() else { return };
    let copied = Command::new("cp").arg("-r").arg(bench.at("whole")).arg(nginx.data().join("packed")).status().unwrap();
    assert!(copied.success());
    let said = run(&["crops", &nginx.url("packed")], &[]).code(2).says("a web server is only read from");
    said.says("make them in a folder, and copy index/*.crops to the web server");
}
