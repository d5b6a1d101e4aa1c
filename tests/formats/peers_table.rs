//! Reads the tables of `inspect --table` with pyarrow and polars.

use std::{fs, process::Command};

use shardpack_testing::{Bench, name, run};

#[test]
fn peers_open_the_table() {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let bench =
        Bench::with(&["train/cat/a.jpg", "train/dog, \"big\"/b.jpg", "train/dog, \"big\"/c d.jpg", "val/cat/e.jpg"]);
    bench.file("train/cat/two\nlines.jpg", &shardpack_testing::png());
    bench.file(name(b"val/cat/\xff.jpg"), &shardpack_testing::photo());
    bench.file("val/cat/no image.jpg", b"\xff\xd8\xffno image at all");
    bench.pack(&["--shards", "2", "--on-bad", "skip", "--quiet"]).code(0);

    let dst = bench.dst();
    let [parquet, csv, samples] = ["table.parquet", "table.csv", "samples.json"].map(|name| bench.at(name));
    for table in [&parquet, &csv] {
        run(&["inspect".as_ref(), dst.as_os_str(), "--table".as_ref(), table.as_os_str()]).code(0).says("rows");
    }
    let listed = run(&[
        "inspect".as_ref(),
        dst.as_os_str(),
        "--samples".as_ref(),
        "--limit".as_ref(),
        "0".as_ref(),
        "--json".as_ref(),
    ]);
    fs::write(&samples, listed.code(0).stdout).unwrap();

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/table.py");
    let out = Command::new(python).arg(script).args([&parquet, &csv, &samples]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{stdout}{stderr}");
    assert_eq!(stdout, "7 rows\n");
}
