//! Ranks in several processes are killed in mid-epoch, and other ranks resume: their receipts show every sample exactly once.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The example `ranks`, which cargo builds with the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap().join("examples/ranks");
    assert!(built.exists(), "{} is built by `cargo test` of the whole crate", built.display());
    built
}

fn ranks(arguments: &[&str]) -> Command {
    let mut command = Command::new(example());
    command.args(arguments).stdin(Stdio::null());
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Starts `world` ranks at `from`.
fn start(dataset: &Path, run: &Path, world: u64, from: &str, wait_ms: &str) -> Vec<Child> {
    (0..world)
        .map(|rank| {
            let rank = format!("{rank}/{world}");
            ranks(&["train", text(dataset), text(run), &rank, from, "--wait-ms", wait_ms]).spawn().unwrap()
        })
        .collect()
}

fn said(arguments: &[&str]) -> Result<String, String> {
    let out = ranks(arguments).output().unwrap();
    match out.status.success() {
        true => Ok(String::from_utf8(out.stdout).unwrap().trim().to_owned()),
        false => Err(String::from_utf8(out.stderr).unwrap()),
    }
}

#[test]
fn ranks_that_are_killed_and_go_on_in_another_number_see_every_sample_once() {
    let folder = tempfile::tempdir().unwrap();
    let (dataset, run) = (folder.path().join("packed"), folder.path().join("run"));
    let payloads: Vec<Vec<u8>> = (0..3000_u32).map(|number| number.to_le_bytes().repeat(9)).collect();
    shardpack_testing::Packing { shard_samples: 400, ..shardpack_testing::Packing::default() }
        .pack(&dataset, &payloads);

    let mut from = "0".to_owned();
    for world in [2, 3, 2] {
        // All ranks are killed as soon as each has some checkpoints.
        let mut children = start(&dataset, &run, world, &from, "7");
        let began = Instant::now();
        let files = |rank: u64| {
            let folder = run.join(&from).join(format!("{rank}-of-{world}"));
            std::fs::read_dir(folder).map_or(0, Iterator::count)
        };
        while (0..world).any(|rank| files(rank) < 5) {
            assert!(began.elapsed() < Duration::from_secs(60), "{world} ranks make no progress");
            std::thread::sleep(Duration::from_millis(3));
        }
        for child in &mut children {
            child.kill().unwrap();
            assert!(!child.wait().unwrap().success());
        }
        assert!(said(&["prove", text(&dataset), text(&run)]).is_err(), "the epoch is not over");
        let next = said(&["position", text(&run)]).unwrap();
        assert!(next.parse::<u64>().unwrap() > from.parse::<u64>().unwrap());
        from = next;
    }
    for mut child in start(&dataset, &run, 3, &from, "0") {
        assert!(child.wait().unwrap().success());
    }
    let proof = said(&["prove", text(&dataset), text(&run)]).unwrap();
    assert_eq!(proof, "every one of 3000 samples was seen exactly once, in 4 starts");

    // Counter-check: without one checkpoint of one rank, the proof fails.
    let last = run.join(&from).join("1-of-3");
    let file = std::fs::read_dir(last).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(said(&["prove", text(&dataset), text(&run)]).unwrap_err().contains("in the epoch"));
}
