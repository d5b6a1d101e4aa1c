//! Compares two programs: files, exit codes, JSON and text of the commands in `commands.txt`.
//!
//! `SHARDPACK_BEFORE` is the path of the second program, usually a build of the previous commit. By default, the test compares with the hashes
//! in `fixtures/same.json`; `SHARDPACK_RECORD=1` updates them. Times, rates, network traffic and temporary paths are masked.

mod cases;
mod inputs;
mod masks;

use std::{collections::BTreeMap, fs, path::Path, thread};

use cases::{Case, CaseLocation};
use shardpack_format::hash;
use shardpack_testing::stores::{Kind, ObjectServer};

/// Expected hashes, by case.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/same.json");

/// The output of a case, and one line per file.
type Outcome = Vec<String>;

/// Runs all cases with `program`; cases in a bucket only if there is a `server`.
fn outcomes(program: &Path, inputs: &Path, server: bool) -> Vec<(String, Outcome)> {
    let cases = cases::all().into_iter().filter(|case| server || case.place == CaseLocation::Folder);
    let all: Vec<_> = cases.flat_map(|case| [(case.clone(), false), (case, true)]).collect();
    let workers = thread::available_parallelism().map_or(1, |cores| cores.get());
    let each = |(case, is_json): &(Case, bool)| {
        let kind = if *is_json { "JSON" } else { "text" };
        (format!("{}, {}, {kind}", case.name, case.place.name()), case.run(program, inputs, *is_json))
    };
    thread::scope(|scope| {
        let running: Vec<_> = all
            .chunks(all.len().div_ceil(workers))
            .map(|some| scope.spawn(move || some.iter().map(each).collect::<Vec<_>>()))
            .collect();
        running.into_iter().flat_map(|some| some.join().unwrap()).collect()
    })
}

/// The first line that differs.
fn difference(before: &Outcome, after: &Outcome) -> String {
    let lines = before.len().max(after.len());
    let line = |outcome: &Outcome, number| outcome.get(number).map_or("(nothing)", String::as_str).to_owned();
    let first = (0..lines).find(|&number| before.get(number) != after.get(number)).unwrap();
    format!("before: {}\nafter:  {}", line(before, first), line(after, first))
}

#[test]
fn nothing_changes_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    inputs::write(&folder.path().join("in"));
    let server = ObjectServer::start(Kind::S3).is_some();
    let after = outcomes(&shardpack_testing::binary(), &folder.path().join("in"), server);
    let mut differences = Vec::new();
    let (before, record) = (std::env::var_os("SHARDPACK_BEFORE"), std::env::var_os("SHARDPACK_RECORD").is_some());
    assert!(before.is_none() || !record, "SHARDPACK_BEFORE and SHARDPACK_RECORD exclude each other");
    match before {
        Some(program) => {
            let before = outcomes(Path::new(&program), &folder.path().join("in"), server);
            for ((name, before), (_, after)) in before.iter().zip(&after).filter(|(before, after)| before != after) {
                differences.push(format!("{name}\n{}", difference(before, after)));
            }
        }
        None => {
            let hashed = |outcome: &Outcome| hash::hex(&hash::file(outcome.join("\n").as_bytes()));
            let found: BTreeMap<_, _> = after.iter().map(|(name, outcome)| (name.clone(), hashed(outcome))).collect();
            if record {
                assert!(server, "s3s-fs is not installed: cargo xtask test --full installs it");
                fs::write(RECORDED, serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
            }
            let recorded: BTreeMap<String, String> = serde_json::from_slice(&fs::read(RECORDED).unwrap()).unwrap();
            for (name, outcome) in &after {
                if recorded.get(name) != Some(&found[name]) {
                    differences.push(format!("{name}\n{}", outcome.join("\n")));
                }
            }
            let gone = recorded.keys().filter(|name| server && !found.contains_key(*name));
            differences.extend(gone.map(|name| format!("{name}: no such case")));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} differ. SHARDPACK_BEFORE=PATH shows the difference to a build of the previous commit; SHARDPACK_RECORD=1 accepts it.\n{}",
        differences.len(),
        after.len(),
        differences.join("\n\n")
    );
}
