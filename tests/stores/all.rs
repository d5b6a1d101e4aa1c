//! Runs every command on URLs with 3,000 small objects while one request in five fails; the results equal those of the folder.
//!
//! The test takes minutes. `cargo test` ignores it; `cargo xtask test --full` runs it as a separate step:
//!
//! ```text
//! cargo test --release --test stores all:: -- --ignored --nocapture
//! ```

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;
use shardpack_loader::{Dataset, Loader, Options, StoreSettings};
use shardpack_testing::{
    Bench,
    places::{self, FolderServer, files_at, files_in, run, said, same, with},
    server::{Fault, Proxy},
};

const OBJECTS: u64 = 3_000;

/// The JSON report of `command` on a dataset, without the fields that only a URL has.
fn told(command: &str, target: &[String]) -> Value {
    said(run(&with(command, target, &["--json"]), &[]).code(0).json())
}

/// Number and bytes of each sample of one epoch, in the order in which the loader returns them.
fn epoch(target: &[String]) -> Vec<(u64, Vec<u8>)> {
    let settings = target[1..].iter().map(|text| text.strip_prefix("--store=").unwrap());
    let dataset = Dataset::open_with(&target[0], &StoreSettings::parse(settings).unwrap()).unwrap();
    let loader = Loader::new(dataset, Options { seed: 1, epochs: 1, ..Options::default() }).unwrap();
    let mut samples = loader.samples(&loader.beginning()).unwrap();
    let mut all = Vec::new();
    while let Some(fetched) = samples.next().unwrap() {
        all.push((fetched.number(), fetched.sample().unwrap().bytes().to_vec()));
    }
    all
}

/// Converts a dataset to MDS in the folder `dst`.
fn converted(target: &[String], dst: &Path) {
    let words = with("convert", &target[..1], &[dst.to_str().unwrap(), "--format", "mds", "--quiet"]);
    run(&[&words[..], &target[1..].iter().map(String::as_str).collect::<Vec<_>>()].concat(), &[]).code(0);
}

#[test]
#[ignore = "a step of its own of `cargo xtask test --full`"]
fn three_thousand_objects_with_one_request_in_five_failing_are_those_of_the_folder() {
    let faults = [
        ("503 with Retry-After", Fault::Status(503, true)),
        ("429", Fault::Status(429, false)),
        ("500", Fault::Status(500, false)),
        ("reset", Fault::Drop),
        ("lost", Fault::Lost),
        ("cut", Fault::Cut(0)),
        ("short", Fault::Cut(400)),
        ("late", Fault::Delay(Duration::from_millis(30))),
    ];
    let bench = Bench::with_source(OBJECTS, 900);
    let (src, whole) = (bench.src(), bench.at("whole"));
    let options = ["--seed", "3", "--shards", "4", "--quiet"];
    let words = ["pack", src.to_str().unwrap(), whole.to_str().unwrap()];
    shardpack_testing::run(&[&words[..], &options].concat()).code(0);
    let local = [whole.display().to_string()];
    let (files, samples) = (files_in(&whole), epoch(&local));
    let commands = ["verify", "inspect"].map(|command| (command, told(command, &local)));
    converted(&local, &bench.at("mds"));
    let mds = files_in(&bench.at("mds"));
    FolderServer::each(|place| {
        place.copy(&src, "tree");
        place.copy(&whole, "packed");
        let proxy = Proxy::start(place.port());
        for (name, fault) in faults {
            let (what, start) = (format!("{}, {name}", place.name()), Instant::now());
            let mut failed = 0;
            let mut again = || {
                failed += proxy.faults();
                proxy.fail(5, fault);
            };
            if let FolderServer::Objects(server) = place {
                again();
                let (to, work) = (format!("new {name}"), bench.at(&format!("work {what}")).display().to_string());
                let settings = places::settings(server, proxy.port());
                let words = ["pack", &server.url("tree"), &server.url(&to), "--work", &work].map(str::to_owned);
                let words: Vec<_> = words.into_iter().chain(options.map(str::to_owned)).chain(settings).collect();
                run(&words, &[]).code(0);
                assert!(proxy.faults() > OBJECTS / 5, "{what}: {}", proxy.faults());
                same(&files, &files_at(server, &to), &what);
            }
            let url = place.url("packed", proxy.port());
            for (command, expected) in &commands {
                again();
                assert_eq!(told(command, &url), *expected, "{what}: {command}");
            }
            again();
            let dst = bench.at(&format!("mds {what}"));
            converted(&url, &dst);
            same(&mds, &files_in(&dst), &what);
            again();
            assert!(epoch(&url) == samples, "{what}: loader");
            again();
            println!("{what}: {failed} requests failed, {:.1} s", start.elapsed().as_secs_f64());
        }
    });
}
