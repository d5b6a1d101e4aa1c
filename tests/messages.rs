//! What is said of one thing is in the singular, whatever says it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fs;

use support::{Bench, Ran, run};

/// Fails where one thing is said to be several.
fn singular(ran: Ran) -> Ran {
    let said = format!(" {}\n{}", ran.stdout, ran.stderr).replace('\n', " \n ");
    for noun in ["image", "sample", "shard", "file", "record", "duplicate", "problem", "row", "split", "byte"] {
        for wrong in [format!(" 1 {noun}s "), format!(" 1 {noun}s,"), format!(" 1 {noun}s;"), format!(" 1 {noun}s:")] {
            assert!(!said.contains(&wrong), "{wrong}:\n{said}");
        }
    }
    assert!(![" 1 classes", " 1 entries"].iter().any(|wrong| said.contains(wrong)), "{said}");
    ran
}

#[test]
fn what_is_said_of_one_thing_is_in_the_singular() {
    let bench = Bench::with(&["a/1.jpg"]);
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    let at = |name: &str| bench.at(name).to_str().unwrap().to_owned();
    let one = |args: &[&str]| singular(run(args));

    one(&["plan", src, dst]).code(0);
    one(&["pack", src, dst, "--exclude", "*/1.jpg"]).code(2).says("the one image is left out: a/1.jpg");
    one(&["pack", src, dst, "--min-side", "99999"]).code(2).says("the one image is left out");
    one(&["pack", src, dst]).code(0);
    one(&["pack", src, dst]).code(0);
    one(&["verify", dst]).code(0);
    one(&["verify", dst, "--against", src]).code(0);
    one(&["inspect", dst]).code(0);
    one(&["inspect", dst, "--samples"]).code(0);
    one(&["convert", dst, &at("b")]).code(0);
    one(&["pack", src, dst, "--shards", "2"]).code(2).says("there is 1 sample");
    one(&["verify", &format!("{dst}/shard-000000.tar")]).code(0).says("1 of 1 shard of a dataset");

    fs::create_dir(at("foreign")).unwrap();
    fs::copy(format!("{dst}/shard-000000.tar"), at("foreign/x.tar")).unwrap();
    one(&["verify", &at("foreign")]).code(0);
    one(&["inspect", &at("foreign")]).code(0);
    one(&["adopt", &at("foreign")]).code(0);
    fs::create_dir(at("text")).unwrap();
    fs::write(at("text/notes.txt"), "x").unwrap();
    one(&["convert", &at("text"), &at("c")]).code(2).says("the one file in here is no shard");

    fs::remove_file(format!("{dst}/shard-000000.tar")).unwrap();
    one(&["verify", dst]).code(1).says("missing, with its 1 sample");
    one(&["pack", src, dst]).code(1);

    bench.file("a/1.jpg", b"");
    one(&["pack", src, &at("d")]).code(1).says("1 image");
    one(&["inspect", &at("d")]).code(2);
    one(&["pack", src, &at("e"), "--on-bad", "skip"]).code(1).says("1 image");

    let flat = Bench::with(&["train/a/1.jpg", "val/2.jpg"]);
    let (src, dst) = (flat.src(), flat.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    one(&["pack", src, dst, "--splits", "train,val"]).code(2).says("split val has 1 image right in it");
    let splits = Bench::with(&["train/a/1.jpg", "val/a/2.jpg"]);
    let (src, dst) = (splits.src(), splits.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    one(&["pack", src, dst]).code(0);
    fs::remove_dir_all(format!("{dst}/val")).unwrap();
    one(&["verify", dst]).code(1).says("names this split, of 1 sample");
    one(&["inspect", dst]).code(1);
}
