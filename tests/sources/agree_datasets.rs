//! Checks that `convert`, `verify` and `inspect` agree on sealed datasets: on whole datasets, on some shards, and on stray files
//! in their folders.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_testing::{Bench, Ran, faults, run};

/// A change to a dataset of twelve images in three shards, the paths given to the commands, and the expected result.
struct Row {
    name: &'static str,
    change: fn(&Path),
    given: &'static [&'static str],
    /// Exit code of all commands.
    code: i32,
    /// Number of samples that can be packed, and number that `convert --on-bad skip` names; `None` if it refuses as well.
    lax: Option<(u64, u64)>,
    /// Text in the output of all commands.
    says: &'static str,
}

const SHARD: &str = "dst/shard-000000.tar";
const STRANGER: &str = "a stranger: the manifest does not name this file";

fn copy(from: &str, to: &str) -> impl Fn(&Path) {
    let (from, to) = (from.to_owned(), to.to_owned());
    move |dst| assert!(fs::copy(dst.join(&from), dst.join(&to)).is_ok())
}

fn rows() -> Vec<Row> {
    let row = |name, given, change| Row { name, change, given, code: 0, lax: Some((12, 0)), says: "" };
    let nothing: fn(&Path) = |_| {};
    let stranger: fn(&Path) = |dst| copy("shard-000000.tar", "shard-000099.tar")(dst);
    let strange = |name, given, lax| Row { code: 1, lax, says: STRANGER, ..row(name, given, stranger) };
    vec![
        row("whole", &["dst"], nothing),
        row("by its manifest", &["dst/manifest.json"], nothing),
        row("all that is in it", &["dst/*"], nothing),
        row("all shards", &["dst/*.tar"], nothing),
        Row { lax: Some((4, 0)), says: "1 of 3 shards", ..row("one shard", &[SHARD], nothing) },
        Row {
            lax: Some((8, 0)),
            says: "2 of 3 shards",
            ..row("two shards", &["dst/shard-{000000..000001}.tar"], nothing)
        },
        strange("a shard more", &["dst"], Some((12, 1))),
        strange("a shard more, and all named", &["dst/*.tar"], Some((12, 1))),
        strange("a shard more alone", &["dst/shard-000099.tar"], None),
        row("a shard more, and another named", &["dst/shard-{000000..000002}.tar"], stranger),
        Row {
            code: 1,
            lax: None,
            says: "manifest.json is missing",
            ..row("without its manifest", &["dst"], |dst| fs::remove_file(dst.join("manifest.json")).unwrap())
        },
        Row {
            code: 1,
            lax: None,
            says: "manifest.json",
            ..row("a shard beside half a manifest", &[SHARD], |dst| {
                let manifest = fs::read(dst.join("manifest.json")).unwrap();
                fs::write(dst.join("manifest.json"), &manifest[..manifest.len() / 2]).unwrap();
            })
        },
        Row { code: 2, lax: None, says: "is given twice", ..row("a shard twice", &[SHARD, SHARD], nothing) },
        Row { code: 2, lax: None, says: "not a shard", ..row("what lies beside shards", &["dst/wids.json"], nothing) },
    ]
}

fn command(name: &str, given: &[PathBuf], rest: &[&str]) -> Ran {
    let given = given.iter().map(|path| path.to_str().unwrap());
    run(&[&[name], &given.collect::<Vec<_>>()[..], rest].concat())
}

#[test]
fn commands_agree_on_datasets_and_their_shards() {
    let mut wrong = Vec::new();
    for row in rows() {
        let bench = Bench::with_source(12, 300);
        bench.pack(&["--shards", "3", "--quiet"]).code(0);
        (row.change)(&bench.dst());
        let given: Vec<PathBuf> = row.given.iter().map(|path| bench.at(path)).collect();
        let to = |name: &str| bench.at(name).to_str().unwrap().to_owned();
        let strict = command("convert", &given, &[&to("strict")]);
        let lax = command("convert", &given, &[&to("lax"), "--json", "--on-bad", "skip"]);
        let verified = command("verify", &given, &[]);
        let mut ran = vec![("convert", &strict), ("verify", &verified)];
        // `inspect` differs for code 2: it shows a repeated path once, and reports paths that are no shards.
        let inspected = command("inspect", &given, &[]);
        if row.code != 2 {
            ran.push(("inspect", &inspected));
        }
        for (what, ran) in ran {
            // `inspect` does not report a number of shards.
            let says =
                what == "inspect" && row.code == 0 || ran.stdout.contains(row.says) || ran.stderr.contains(row.says);
            if ran.code != row.code || !says {
                wrong.push(format!("{}: {what}: {}, {}{}", row.name, ran.code, ran.stdout, ran.stderr));
            }
        }
        match row.lax {
            None if lax.code != row.code => wrong.push(format!("{}: lax: {}", row.name, lax.code)),
            None => {}
            Some((samples, named)) => {
                let document = lax.code(0).json();
                let found =
                    (document["datasets"][0]["samples"].as_u64(), document["unpacked"].as_array().map(Vec::len));
                if found != (Some(samples), Some(named as usize)) {
                    wrong.push(format!("{}: {found:?}", row.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn shards_of_a_dataset_keep_classes_names_and_hashes() {
    let bench = Bench::with(&["ant/1.jpg", "ant/2.jpg", "bee/3.jpg", "cat/4.jpg"]);
    for format in ["webdataset", "recordio"] {
        let (dst, back, some) =
            (bench.at(format), bench.at(&format!("{format}-all")), bench.at(&format!("{format}-one")));
        bench.pack_to(&dst, &["--shards", "2", "--quiet", "--format", format]).code(0);
        let sealed = shardpack_reader::Dataset::open(&dst).unwrap();
        let shards: Vec<PathBuf> = sealed.shards().map(|shard| shard.path()).collect();
        command("convert", &shards, &[back.to_str().unwrap(), "--quiet"]).code(0);
        command("verify", &[back], &["--quiet", "--against", bench.src().to_str().unwrap()]).code(0);
        let ran = command("convert", &shards[..1], &[some.to_str().unwrap(), "--meta", "json"]).code(0);
        ran.says("1 of 2 shards of a dataset, as given");
        let packed = shardpack_reader::Dataset::open(&some).unwrap();
        let names = |dataset: &shardpack_reader::Dataset| {
            dataset.classes().iter().map(|class| class.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&packed), ["ant", "bee", "cat"], "{format}");
        assert_eq!(packed.len(), sealed.shard(0).unwrap().len());
        let paths = |dataset: &shardpack_reader::Dataset, numbers: std::ops::Range<u64>| {
            let mut paths: Vec<_> = numbers.map(|number| dataset.row(number).unwrap().path.to_vec()).collect();
            paths.sort();
            paths
        };
        assert_eq!(paths(&packed, 0..packed.len()), paths(&sealed, 0..packed.len()), "{format}");
        // Only TFRecord has a checksum for each image.
        let mut bytes = fs::read(&shards[0]).unwrap();
        bytes[3000] ^= 0x10;
        fs::write(&shards[0], bytes).unwrap();
        let to = bench.at(&format!("{format}-flipped"));
        command("convert", &shards[..1], &[to.to_str().unwrap(), "--json"]).code(1).says("hash");
        // A resumed conversion of some of the shards uses its plan unchanged.
        command("convert", &shards[1..], &[to.to_str().unwrap(), "--quiet"]).code(0);
        command("convert", &shards[1..], &[to.to_str().unwrap()]).code(0).says("nothing to do");
    }
}

#[test]
fn what_stands_beside_splits_is_told_by_all() {
    let bench = Bench::with(&["train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg"]);
    bench.pack(&["--quiet"]).code(0);
    let (dst, to) = (bench.dst(), bench.at("to"));
    copy("val/val-000000.tar", "val-000000.tar")(&dst);
    fs::write(dst.join("README"), b"text").unwrap();
    let given = [dst];
    for (name, rest) in [("verify", &[][..]), ("inspect", &[]), ("convert", &[to.to_str().unwrap()])] {
        command(name, &given, rest).code(1).says("val-000000.tar: a stranger beside the splits");
    }
    let ran = command("convert", &given, &[bench.at("lax").to_str().unwrap(), "--on-bad", "skip", "--json"]).code(0);
    let document = ran.json();
    assert_eq!(document["unpacked"].as_array().unwrap().len(), 1);
    assert_eq!(document["ignored_files"], serde_json::json!({"a stranger beside the splits": 1}));
    // With several sources, a folder of splits is not taken for an empty folder.
    fs::remove_file(bench.dst().join("val-000000.tar")).unwrap();
    bench.pack_to(&bench.at("other"), &["--splits", "none", "--quiet"]);
    let both = [bench.dst(), bench.at("foreign.tar")];
    fs::copy(bench.dst().join("val/val-000000.tar"), &both[1]).unwrap();
    command("verify", &both, &[]).code(1).says("README").says("of 6 samples");
}

#[test]
fn a_manifest_that_cannot_be_looked_at_is_not_one_that_is_missing() {
    let bench = Bench::with_source(6, 300);
    bench.pack(&["--quiet"]).code(0);
    let at = |path: &str| bench.at(path).to_str().unwrap().to_owned();
    let (dst, shard, to, source) = (at("dst"), at(SHARD), at("to"), at("src"));
    for errno in [faults::EIO, faults::EACCES, faults::ESTALE] {
        for call in ["stat", "open"] {
            let fault = [faults::fault(call, errno, 0, "dst/manifest.json")];
            for args in [
                &["convert", &dst, &to][..],
                &["convert", &shard, &to],
                &["verify", &dst],
                &["verify", &shard],
                &["inspect", &dst],
                &["inspect", &shard],
                &["verify", &dst, "--against", &source],
            ] {
                // A file that is given itself is opened without a `stat`.
                if call == "stat" && args.contains(&shard.as_str()) {
                    continue;
                }
                let Some(ran) = faults::run(&fault, args) else { return };
                let said = format!("{} {args:?}: {}{}", fault[0], ran.stdout, ran.stderr);
                assert_eq!(ran.code, 2, "{said}");
                assert!(said.contains("manifest.json: cannot"), "{said}");
                assert!(!bench.at("to").exists(), "{said}");
            }
        }
    }
    // If `stat` fails on an unfinished pack, the command fails and does not treat the pack as absent.
    for path in ["dst/.shardpack", "dst/train"] {
        let fault = [faults::fault("stat", faults::EIO, 0, path)];
        fs::remove_file(bench.dst().join("manifest.json")).unwrap_or_default();
        let Some(ran) = faults::run(&fault, &["convert", &dst, &to]) else { return };
        assert_eq!(ran.code, 2, "{path}: {}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn labels_and_columns_that_are_others_in_the_source_are_problems() {
    let bench = Bench::with_source(4, 300);
    let mut names: Vec<String> = shardpack_testing::Dataset::read(&{
        bench.pack(&["--quiet"]).code(0);
        bench.dst()
    })
    .paths();
    names.sort();
    let list = |name: &str, head: &str, row: &dyn Fn(usize) -> String| {
        let rows: String = names.iter().enumerate().map(|(at, path)| format!("{path},{}\n", row(at))).collect();
        bench.file(name, format!("path,{head}\n{rows}").as_bytes());
        bench.src().join(name).to_str().unwrap().to_owned()
    };
    let class = |at: usize| if at.is_multiple_of(2) { "cat" } else { "dog" };
    let same = list("same.csv", "label,cap", &|at| format!("{},c{at}", class(at)));
    let swapped = list("swapped.csv", "label,cap", &|at| format!("{},c{at}", class(at + 1)));
    let renamed =
        list("renamed.csv", "label,cap", &|at| format!("{},c{at}", if at % 2 == 0 { "felis" } else { "canis" }));
    let mixed = list("mixed.csv", "label,cap", &|at| format!("{},c{at}", if at < 2 { "felis" } else { "canis" }));
    let no_label = list("no_label.csv", "cap", &|at| format!("c{at}"));
    let no_cap = list("no_cap.csv", "label", &|at| class(at).to_owned());
    let at = |name: &str| bench.at(name).to_str().unwrap().to_owned();
    run(&["pack", &same, &at("one"), "--quiet"]).code(0);
    run(&["pack", &swapped, &at("two"), "--quiet"]).code(0);
    let rows = [
        (&same, 0, 0, ""),
        (&at("one"), 0, 0, ""),
        (&swapped, 1, 4, "its class is cat, dog in the source"),
        (&at("two"), 1, 4, "its class is dog, cat in the source"),
        // A rename of a whole class is accepted; a rename of a part is not.
        (&renamed, 0, 0, ""),
        (&mixed, 1, 2, ", felis in the source"),
        (&no_label, 1, 1, "4 samples with labels, and the source has none"),
        (&no_cap, 1, 1, "the source does not have the component json any more"),
    ];
    for (source, code, problems, says) in rows {
        let ran = run(&["verify", &at("one"), "--against", source, "--json"]);
        let said = ran.json();
        assert_eq!((ran.code, said["problems"].as_array().unwrap().len()), (code, problems), "{source}: {said}");
        assert!(said["problems"].to_string().contains(says), "{source}: {said}");
    }
}
