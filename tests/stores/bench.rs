//! `bench` of datasets at URLs, on real servers: it reports network requests and bytes, and the epoch order equals that of the folder.

use std::{fs, path::Path, time::Duration};

use serde_json::Value;
use shardpack_testing::{
    Bench,
    places::{FolderServer, run, with},
    server::{Fault, Nginx, Proxy},
};

/// The JSON report on the only dataset, checked against the schema.
fn measured(target: &[String], options: &[&str]) -> Value {
    let ran = run(&with("bench", target, &[&["--json", "--quiet", "--crop", "24"], options].concat()), &[]);
    let json = ran.code(0).json();
    let schema: Value = serde_json::from_str(include_str!("../../docs/reference/json.schema.json")).unwrap();
    let mut of_bench = schema.clone();
    of_bench["anyOf"] = serde_json::json!([{ "$ref": "#/$defs/measured" }]);
    let errors: Vec<_> =
        jsonschema::validator_for(&of_bench).unwrap().iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}\n{json}");
    json["datasets"][0].clone()
}

fn number(json: &Value) -> u64 {
    json.as_u64().unwrap_or_else(|| panic!("{json} is no number"))
}

fn bytes_of(folder: &Path, end: &str) -> u64 {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    files
        .filter(|file| file.file_name().to_string_lossy().ends_with(end))
        .map(|file| file.metadata().unwrap().len())
        .sum()
}

#[test]
fn an_epoch_at_a_url_is_measured_in_requests_and_bytes_and_has_the_order_of_the_folder() {
    // Not images: on a slow server, a row that reads for up to 60 s would also decode for a quarter of its time.
    let (bench, mut rng) = (Bench::new(), shardpack_testing::Rng::new(1));
    for number in 0..300 {
        let bytes: Vec<u8> = (0..5000 + rng.below(9000)).map(|_| rng.below(200) as u8).collect();
        bench.file(format!("class-{}/{number}.bin", rng.below(7)), &bytes);
    }
    let options = ["--batch", "16", "--seconds", "60"];
    for (name, packing) in [("plain", &["--shards", "5"][..]), ("zstd", &["--shards", "3", "--compress", "zstd"])] {
        let dst = bench.at(name);
        shardpack_testing::pack(&bench.src(), &dst, &[&["--quiet", "--files", "bin"], packing].concat()).code(0);
        let local = measured(&[dst.display().to_string()], &options);
        assert!(local["network"].is_null() && local["epoch"].is_null(), "{local}");
        let end = if name == "zstd" { ".zst" } else { ".tar" };
        let (manifest, indexes, shards) =
            (bytes_of(&dst, "manifest.json"), bytes_of(&dst.join("index"), ""), bytes_of(&dst, end));
        assert!(manifest > 0 && indexes > 0 && shards > 0);
        for place in FolderServer::all() {
            place.copy(&dst, name);
            let found = measured(&place.url(name, place.port()), &options);
            for same in ["samples", "shard_bytes", "lanes", "run_blocks", "made", "skipped", "ordered", "r", "deff"] {
                assert_eq!(found[same], local[same], "{} {name} {same}", place.name());
            }
            assert_eq!(found["raw"]["samples"], 300);
            assert_eq!((&found["whole_epochs"], &found["cold"]), (&false.into(), &Value::Null));
            let (epoch, network) = (&found["epoch"], &found["network"]);
            // The epoch reads each byte of the shards once, except the end-of-archive blocks.
            // Threads that open one shard concurrently each fetch its index.
            let (least, received) = (manifest + indexes + shards * 9 / 10, number(&epoch["received_bytes"]));
            assert!(received >= least, "{} {name}: {received}", place.name());
            // A compressed block is fetched once for each run that ends in the block; the runs are short here.
            let most = manifest + indexes * 64 + shards;
            assert!(name == "zstd" || received <= most, "{} {name}: {received}", place.name());
            assert_eq!((&epoch["is_measured"], &epoch["requests_again"]), (&true.into(), &0.into()), "{found}");
            // The manifest, the indexes, and at least one request for each shard.
            let all = if name == "zstd" { 3 } else { 5 };
            assert!(number(&epoch["requests"]) > 2 * all, "{found}");
            assert!(number(&epoch["in_flight"]) > 1, "{found}");
            assert!(number(&network["requests"]) > number(&epoch["requests"]));
            assert!(number(&network["received_bytes"]) > received + shards);
            if !matches!(place, FolderServer::Web(_)) {
                continue;
            }
            let said = run(&with("bench", &place.url(name, place.port()), &options), &[]).code(0);
            let said = said.says("one request of 8 MiB at a time").says("in flight at most").says("\nnetwork ");
            said.says_not("; extrapolated from the part that was read");
        }
    }
}

#[test]
fn what_fails_and_what_is_too_much_is_counted_and_a_row_that_ends_early_is_told_as_such() {
    let Some(nginx) = Nginx::start() else { return };
    let place = FolderServer::Web(nginx);
    let bench = Bench::with_source(300, 9000);
    bench.pack(&["--quiet", "--shards", "4"]).code(0);
    place.copy(&bench.dst(), "packed");
    let proxy = Proxy::start(place.port());
    let url = place.url("packed", proxy.port());
    proxy.fail(4, Fault::Status(503, false));
    let found = measured(&url, &["--batch", "16", "--seconds", "20"]);
    assert_eq!((&found["raw"]["samples"], &found["crops"]["samples"]), (&300.into(), &300.into()));
    for part in ["epoch", "network"] {
        let [again, throttled] = ["requests_again", "throttled"].map(|name| number(&found[part][name]));
        assert!(again > 0 && throttled == again, "{found}");
    }
    assert!(number(&found["network"]["throttled"]) <= proxy.faults());
    proxy.fail(4, Fault::Status(503, false));
    let said = run(&with("bench", &url, &["--crop", "24"]), &[]).code(0).says("because of throttling");
    // `shardpack crops` writes tables to a bucket directly. For a web server, the user copies them.
    match url[0].starts_with("http") {
        true => said.says("makes tables in a folder; copy its index/*.crops here"),
        false => said.says(&format!("most of the decoding: shardpack crops {}", url[0])),
    };
    // An epoch of about 40 requests, one at a time.
    proxy.fail(1, Fault::Delay(Duration::from_millis(100)));
    let one = [&url[..], &["--store=requests=1".to_owned()]].concat();
    let found = measured(&one, &["--batch", "32", "--seconds", "1"]);
    let (samples, requests) = (number(&found["raw"]["samples"]), number(&found["epoch"]["requests"]));
    assert!(samples < 300 && found["epoch"]["is_measured"] == false, "{found}");
    assert!((20..200).contains(&requests), "{found}");
    let all = number(&found["shard_bytes"]);
    assert!((all..all * 11 / 10).contains(&number(&found["epoch"]["received_bytes"])), "{found}");
    // Four rows read at most all the shards each; a second epoch would be a fifth. How far a row comes in its time
    // depends on the load of the machine.
    assert!(number(&found["network"]["received_bytes"]) < 4 * (all * 11 / 10), "{found}");
}

#[test]
fn what_cannot_be_measured_at_a_url_is_refused_and_splits_are_told_apart() {
    let Some(nginx) = Nginx::start() else { return };
    let place = FolderServer::Web(nginx);
    let bench = Bench::with_source(40, 500);
    let dst = bench.dst();
    bench.pack(&["--quiet", "--split-fraction", "val=0.2"]).code(0);
    place.copy(&dst, "packed");
    let url = place.url("packed", place.port());
    let json = run(&with("bench", &url, &["--json", "--quiet"]), &[]).code(0).json();
    let named: Vec<_> =
        json["datasets"].as_array().unwrap().iter().map(|one| one["folder"].as_str().unwrap()).collect();
    assert_eq!(named.len(), 2);
    for split in ["train", "val"] {
        assert!(
            named.iter().any(|folder| folder.trim_end_matches('/').ends_with(&format!("packed/{split}"))),
            "{named:?}"
        );
    }
    let cold = run(&with("bench", &url, &["--cold"]), &[]).code(2);
    cold.says("--cold: data at a URL is not in this machine's page cache");
    run(&["bench", dst.to_str().unwrap(), "--store", "requests=3"], &[]).code(2).says("this is a folder");
    run(&with("bench", &place.url("none", place.port()), &[]), &[]).code(2).says("no dataset");
    run(&["bench", "ftp://host/x"], &[]).code(2).says("is a URL");
}
