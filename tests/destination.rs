//! Where `pack` writes to: what it refuses, replaces, goes on with, or finds done.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{fs, os::unix::fs::symlink, path::Path};

use support::{Bench, Dataset, Ran, bad, contents, photo, sealed};

#[test]
fn the_same_command_on_a_sealed_folder_has_nothing_to_do() {
    let bench = Bench::of(30, 500);
    bench.pack(&["--shards", "3"]).code(0);
    let before = contents(&bench.dst());
    let times = |path: &Path| fs::metadata(path.join("manifest.json")).unwrap().modified().unwrap();
    let time = times(&bench.dst());
    bench
        .pack(&["--shards", "3", "--jobs", "1"])
        .code(0)
        .says("30 images are packed here already")
        .says("nothing to do");
    let json = bench.pack(&["--shards", "3", "--json"]).code(0).json();
    assert_eq!((json["already_sealed"].as_bool(), json["datasets"][0]["samples"].as_u64()), (Some(true), Some(30)));
    assert_eq!((contents(&bench.dst()), times(&bench.dst())), (before, time));
}

#[test]
fn a_folder_that_holds_something_else_is_refused_and_stays_as_it_was() {
    let other = Bench::with(&["x/1.jpg"]);
    let split = Bench::with(&["train/x/1.jpg", "val/x/2.jpg"]);
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    let rows: [(&str, &dyn Fn(&Path), &str); 5] = [
        ("another dataset", &|dst| drop(other.pack_to(dst, &[]).code(0)), "holds another dataset"),
        ("other options", &|dst| drop(bench.pack_to(dst, &["--seed", "1"]).code(0)), "holds another dataset"),
        ("splits", &|dst| drop(split.pack_to(dst, &[]).code(0)), "holds another dataset"),
        (
            "a file",
            &|dst| fs::create_dir(dst).and_then(|()| fs::write(dst.join("thesis.tex"), b"x")).unwrap(),
            "thesis.tex",
        ),
        (
            "a broken manifest",
            &|dst| fs::create_dir(dst).and_then(|()| fs::write(dst.join("manifest.json"), b"{")).unwrap(),
            "holds another dataset",
        ),
    ];
    for (number, (row, prepare, says)) in rows.into_iter().enumerate() {
        let dst = bench.at(&format!("dst-{number}"));
        prepare(&dst);
        let before = contents(&dst);
        bench.pack_to(&dst, &[]).code(2).clean_error().says(says).says("--force").says(dst.to_str().unwrap());
        assert_eq!(contents(&dst), before, "{row}");
    }
}

#[test]
fn force_replaces_a_dataset_and_leaves_no_strangers() {
    let many = Bench::of(40, 100);
    let split = Bench::with(&["train/x/1.jpg", "val/x/2.jpg"]);
    let (bad, _) = bad();
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    let whole = bench.at("whole");
    bench.pack_to(&whole, &[]).code(0);
    let rows: [(&str, &dyn Fn(&Path)); 5] = [
        ("more shards", &|dst| drop(many.pack_to(dst, &["--shards", "20"]).code(0))),
        ("another name", &|dst| drop(many.pack_to(dst, &["--name", "other"]).code(0))),
        ("compressed", &|dst| drop(many.pack_to(dst, &["--compress", "zstd"]).code(0))),
        ("a ledger", &|dst| drop(bad.pack_to(dst, &["--on-bad", "skip"]).code(0))),
        ("unfinished", &|dst| drop(bad.pack_to(dst, &["--shards", "3"]).code(1))),
    ];
    for (number, (row, prepare)) in rows.into_iter().enumerate() {
        let dst = bench.at(&format!("dst-{number}"));
        prepare(&dst);
        bench.pack_to(&dst, &["--force"]).code(0);
        assert_eq!(contents(&dst), contents(&whole), "{row}");
    }
    // Splits by none, and none by splits.
    let (dst, whole_split) = (bench.at("dst-split"), bench.at("whole-split"));
    split.pack_to(&whole_split, &[]).code(0);
    split.pack_to(&dst, &[]).code(0);
    bench.pack_to(&dst, &["--force"]).code(0);
    assert_eq!(contents(&dst), contents(&whole), "splits before");
    split.pack_to(&dst, &["--force"]).code(0);
    assert_eq!(contents(&dst), contents(&whole_split), "none before");
    // What is no dataset stays, whatever is packed beside it.
    fs::write(dst.join("thesis.tex"), b"x").unwrap();
    bench.pack_to(&dst.join("train"), &["--force"]).code(0);
    split.pack_to(&bench.at("sets/one"), &["--splits", "none"]).code(0);
    bench.pack_to(&bench.at("sets"), &["--force"]).code(0);
    Dataset::read(&bench.at("sets/one"));
    assert_eq!(fs::read(dst.join("thesis.tex")).unwrap(), b"x");
}

#[test]
fn an_unfinished_pack_is_refused_to_other_options_and_another_source_with_what_changed() {
    let (bench, _) = bad();
    bench.file("a/4.jpg", &photo());
    bench.pack(&["--shards", "3"]).code(1);
    let before = contents(&bench.dst());
    let refused = |ran: Ran, what: &str| {
        ran.code(2).clean_error().says("holds an unfinished pack of something else").says(what).says("--force");
        assert_eq!(contents(&bench.dst()), before);
    };
    refused(bench.pack(&["--shards", "3", "--seed", "5"]), "seed was 0, is now 5");
    refused(bench.pack(&["--shards", "2"]), "cut was Shards(3), is now Shards(2)");
    refused(bench.pack(&["--shards", "3", "--meta", "json"]), "components");
    refused(bench.pack(&["--shards", "3", "--compress", "zstd"]), "compression was none, is now zstd:3");
    refused(bench.pack(&["--shards", "3", "--order", "source"]), "order");
    refused(bench.pack(&["--shards", "3", "--name", "x"]), "datasets");
    bench.file("b/new.jpg", &photo());
    refused(bench.pack(&["--shards", "3"]), "b/new.jpg is new");
    fs::remove_file(bench.src().join("b/new.jpg")).unwrap();
    let (changed, kept) = (bench.src().join("b/2.jpg"), bench.at("kept"));
    fs::rename(&changed, &kept).unwrap();
    refused(bench.pack(&["--shards", "3"]), "b/2.jpg is gone");
    bench.file("b/2.jpg", &photo());
    refused(bench.pack(&["--shards", "3"]), "b/2.jpg was changed");
    fs::rename(&kept, &changed).unwrap();
    fs::remove_file(bench.src().join("a/empty.jpg")).unwrap();
    refused(bench.pack(&["--shards", "3"]), "other images are left out");
    bench.pack(&["--shards", "3", "--on-bad", "skip", "--force"]).code(0);
    sealed(&bench);
}

#[test]
fn a_destination_inside_the_source_is_refused() {
    let bench = Bench::with(&["a/1.jpg"]);
    symlink(bench.src(), bench.at("link")).unwrap();
    let before = contents(&bench.src());
    for dst in [
        bench.src().join("packed"),
        bench.src(),
        bench.src().join("a"),
        bench.src().join("x/y/z"),
        bench.at("link/packed"),
    ] {
        let ran = bench.pack_to(&dst, &[]).code(2).clean_error().says("lies inside the source");
        ran.says(dst.to_str().unwrap());
        bench.pack_to(&dst, &["--force"]).code(2).clean_error();
        assert_eq!(contents(&bench.src()), before);
    }
    // Beside it, and with a name that begins like it, is fine.
    bench.pack_to(&bench.at("src-packed"), &[]).code(0);
}

#[test]
fn a_destination_may_be_relative_and_deep() {
    let bench = Bench::with(&["a/1.jpg"]);
    let mut command = assert_cmd::Command::new(support::binary());
    let ran: Ran = command.current_dir(bench.at("")).args(["pack", "src", "x/y/packed"]).output().unwrap().into();
    ran.code(0).says("wds.WebDataset(\"x/y/packed/shard-000000.tar\")");
    Dataset::read(&bench.at("x/y/packed")).check_source(&bench.src());
}

// What it says.
