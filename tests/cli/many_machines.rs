//! Runs docs/how-to/many-machines.md as written: recipes with the programs that start parts, manifests by the commands that they start.
//!
//! Always holds: whatever starts the parts, the merged dataset equals the dataset of one process, to the byte. Stand-ins replace `ssh`,
//! `kubectl` and `aws`: they do the same work on this machine, or record their arguments.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use serde_json::Value;
use shardpack_testing::{Bench, Ran, binary, photos};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/how-to/many-machines.md");
const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/manifests.py");
const PART_AUTO: &str = include_str!("../../crates/shardpack-packer/src/part_auto.rs");
const SHARDS: &str = "12";

/// The block in this language that contains `line`, with `folder` in place of /data.
fn block(language: &str, line: &str, folder: &Path) -> String {
    let page = fs::read_to_string(PAGE).unwrap();
    let blocks = page.split("\n```").filter_map(|block| block.strip_prefix(&format!("{language}\n")));
    let found: Vec<_> = blocks.filter(|block| block.contains(line)).collect();
    assert_eq!(found.len(), 1, "{line}");
    found[0].replace("/data", folder.to_str().unwrap())
}

/// A folder with `photos`, a PATH with this program and `programs` (name and text), and `reference`, packed by one process.
fn bench(programs: &[(&str, &str)]) -> Bench {
    let bench = Bench::new();
    fs::create_dir(bench.at("tools")).unwrap();
    std::os::unix::fs::symlink(binary(), bench.at("tools/shardpack")).unwrap();
    std::os::unix::fs::symlink(photos(), bench.at("photos")).unwrap();
    for (name, text) in programs {
        let path = bench.at("tools").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(shell(&bench, &format!("shardpack pack photos reference --shards {SHARDS} --quiet")).code, 0);
    bench
}

fn path(bench: &Bench) -> std::ffi::OsString {
    let mut path = vec![bench.at("tools")];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    std::env::join_paths(path).unwrap()
}

fn shell(bench: &Bench, script: &str) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(bench.at("")).env("PATH", path(bench)).env("HOME", bench.at(""));
    command.output().unwrap().into()
}

fn good(bench: &Bench, script: &str) -> Ran {
    let ran = shell(bench, script);
    assert_eq!(ran.code, 0, "{script}\n{}{}", ran.stdout, ran.stderr);
    ran
}

/// Compares the merged dataset with the dataset that one process packs.
fn same(bench: &Bench) {
    good(bench, "diff -r reference packed && shardpack verify packed --quiet");
}

const PLAN: &str = "shardpack plan photos --shards 12 --output photos.plan --quiet";

#[test]
fn parts_by_xargs_are_one_dataset() {
    let bench = bench(&[]);
    let recipe = block("sh", "photos.plan packed --part {}/8", &bench.at(""));
    good(&bench, &recipe);
    same(&bench);
    // A second run has nothing to do.
    good(&bench, &recipe);
    same(&bench);
}

#[test]
fn images_are_changed_by_parts_in_two_passes() {
    let bench = bench(&[]);
    good(&bench, &block("sh", "for pass in 1 2", &bench.at("")));
    good(&bench, "rm -r reference; shardpack pack photos reference --resize 64 --shards 12 --quiet");
    same(&bench);
}

#[test]
fn a_part_ends_with_the_codes_that_engines_are_told() {
    let bench = bench(&[]);
    good(&bench, PLAN);
    let codes = |command: &str| shell(&bench, command).code;
    let part = "shardpack pack --plan photos.plan packed --quiet --part";
    let rows = [
        ("a part", format!("{part} 1/2"), 0),
        ("the same again", format!("{part} 1/2"), 0),
        ("too early", "shardpack merge packed".to_owned(), 1),
        ("another plan", "shardpack pack photos packed --shards 12 --seed 1 --quiet --part 2/2".to_owned(), 2),
        ("no part", format!("{part} 3/2"), 2),
        ("nobody says which", format!("env -i \"$(command -v shardpack)\" {} auto", &part["shardpack ".len()..]), 2),
        ("the other one", format!("{part} 2/2"), 0),
        ("merge", "shardpack merge packed".to_owned(), 0),
        ("merge again", "shardpack merge packed".to_owned(), 0),
        ("a part after that", format!("{part} 1/2"), 0),
        // One image of the copies is longer than planned.
        (
            "a bad sample",
            "cp -rL photos copies && shardpack plan copies -o bad.plan --quiet && chmod u+w copies/things/spoon.png \
             && echo >> copies/things/spoon.png && shardpack pack --plan bad.plan bad --part 1/1 --quiet"
                .to_owned(),
            1,
        ),
    ];
    for (name, command, code) in rows {
        assert_eq!(codes(&command), code, "{name}");
    }
    same(&bench);
}

#[test]
fn parts_by_ssh_are_one_dataset() {
    // The stand-in for ssh runs the command in a shell of its own, as another machine does.
    let ssh = "#!/bin/sh\n[ \"$1\" != -n ] || shift\necho \"$1\" >> asked\nshift\ncd / && exec sh -c \"$*\"\n";
    let bench = bench(&[("ssh", ssh)]);
    fs::write(bench.at("hosts"), "one\ntwo.example.org\nthree\n").unwrap();
    good(&bench, PLAN);
    good(&bench, &block("sh", "nl hosts", &bench.at("")));
    same(&bench);
    let mut asked: Vec<_> = fs::read_to_string(bench.at("asked")).unwrap().lines().map(str::to_owned).collect();
    asked.sort();
    assert_eq!(asked, ["one", "one", "three", "two.example.org"]);
}

#[test]
fn a_machine_that_ssh_cannot_reach_leaves_its_part_alone_undone() {
    let ssh =
        "#!/bin/sh\n[ \"$1\" != -n ] || shift\n[ \"$1\" != two ] || exit 255\nshift\nsleep 0.2\nexec sh -c \"$*\"\n";
    let bench = bench(&[("ssh", ssh)]);
    fs::write(bench.at("hosts"), "one\ntwo\nthree\n").unwrap();
    good(&bench, PLAN);
    let recipe = block("sh", "nl hosts", &bench.at(""));
    let (parts, merge) = recipe.split_once('\n').unwrap();
    assert_eq!(shell(&bench, parts).code, 123);
    let merged = shell(&bench, merge);
    assert!(
        merged.code == 1 && merged.stdout.contains("part 2/3") && !merged.stdout.contains("part 1/3"),
        "{}",
        merged.stdout
    );
    // Another host packs the part.
    fs::write(bench.at("hosts"), "one\nfour\nthree\n").unwrap();
    good(&bench, &recipe);
    same(&bench);
}

#[test]
fn parts_by_gnu_parallel_are_one_dataset() {
    let is_there = Command::new("parallel").arg("--version").output();
    if !is_there.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("GNU")) {
        eprintln!("GNU parallel is not here: its recipes were NOT run");
        return;
    }
    for line in ["seq 16 | parallel", "seq 64 | parallel"] {
        let bench = bench(&[]);
        fs::write(bench.at("hosts"), ":\n").unwrap();
        good(&bench, PLAN);
        good(&bench, &block("sh", line, &bench.at("")));
        good(&bench, "shardpack merge packed --quiet");
        same(&bench);
    }
}

#[test]
fn jobs_are_started_in_their_order() {
    let say = "#!/bin/sh\necho \"$*\" >> asked\n";
    let aws = format!("{say}case \"$*\" in *plan.json*) echo p-1;; *parts.json*) echo a-2;; esac\n");
    let bench = bench(&[("kubectl", say), ("aws", &aws)]);
    good(&bench, &block("sh", "kubectl apply", &bench.at("")));
    let jobs = ["plan", "parts", "merge"];
    let asked = fs::read_to_string(bench.at("asked")).unwrap();
    let lines: Vec<_> = asked.lines().collect();
    assert_eq!(lines.len(), 6);
    for (number, job) in jobs.into_iter().enumerate() {
        assert_eq!(lines[2 * number], format!("apply -f {job}.yaml"));
        let waits = lines[2 * number + 1];
        assert!(waits.starts_with("wait --for=condition=complete") && waits.ends_with(&format!("job/photos-{job}")));
    }
    fs::remove_file(bench.at("asked")).unwrap();
    good(&bench, &block("sh", "aws batch register", &bench.at("")));
    let asked = fs::read_to_string(bench.at("asked")).unwrap();
    let waits =
        ["definition.json", "plan.json", "parts.json --depends-on jobId=p-1", "merge.json --depends-on jobId=a-2"];
    assert_eq!(asked.lines().count(), waits.len());
    assert!(asked.lines().zip(waits).all(|(line, waits)| line.contains(waits)), "{asked}");
}

/// The commands that the manifests start. `None` if no Python with the schemas is set up.
fn manifests() -> Option<Value> {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON_MANIFESTS") else {
        eprintln!("SHARDPACK_PYTHON_MANIFESTS is not set: the manifests were NOT checked");
        return None;
    };
    let ran: Ran = Command::new(python).args([MANIFESTS, PAGE]).output().unwrap().into();
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    Some(serde_json::from_str(&ran.stdout).unwrap())
}

#[test]
fn manifests_are_what_the_published_schemas_allow_and_no_field_may_be_misspelt() {
    let Some(found) = manifests() else { return };
    let names: Vec<_> = found["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["photos-plan", "photos-parts", "photos-merge"].repeat(2));
    assert!(found["misspelt"].as_u64().unwrap() > 100, "{found}");
    assert!(found["versions"].as_array().unwrap().len() > 5, "{found}");
}

#[test]
fn what_the_manifests_start_makes_one_dataset() {
    let Some(found) = manifests() else { return };
    for jobs in found["jobs"].as_array().unwrap().chunks(3) {
        let bench = bench(&[]);
        for job in jobs {
            let count = job["parts"].as_u64();
            // Last index first: an engine may start the jobs in any order.
            for index in (0..count.unwrap_or(1)).rev() {
                let mut command = Command::new(binary());
                for argument in job["args"].as_array().unwrap() {
                    command.arg(argument.as_str().unwrap().replace("/data", bench.at("").to_str().unwrap()));
                }
                if job["args"][0] == "plan" {
                    command.args(["--shards", SHARDS]);
                }
                for (name, value) in job["env"].as_object().unwrap() {
                    command.env(name, value.as_str().unwrap());
                }
                if count.is_some() {
                    command.env(job["index"].as_str().unwrap(), index.to_string());
                }
                let ran: Ran = command.arg("--quiet").output().unwrap().into();
                assert_eq!(ran.code, 0, "{job}, {index}: {}{}", ran.stdout, ran.stderr);
            }
        }
        same(&bench);
    }
}

#[test]
fn the_page_names_each_variable_that_says_a_part() {
    let page = fs::read_to_string(PAGE).unwrap();
    let table = PART_AUTO.split_once("const ROWS").unwrap().1.split_once("\n];").unwrap().0;
    let known = table.split('"').skip(1).step_by(2).chain(["SLURM_ARRAY_TASK_ID", "SLURM_PROCID"]);
    let is_variable = |text: &&str| {
        (text.contains("_") || *text == "RANK")
            && text.bytes().all(|b| b.is_ascii_uppercase() || b"_0123456789".contains(&b))
    };
    let names: Vec<_> = known.filter(is_variable).collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in the page");
    }
}
