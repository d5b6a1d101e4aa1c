//! Checks that the counts of a tree, a list or a COCO file match those of other tools, and that each image is packed or named.
//!
//! Python counts: `os.walk` with torchvision's rule, `csv`, `json`, pyarrow.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::{Value, json};
use shardpack_source::ledger::{self, Fate};
use shardpack_testing::{Bench, jpeg, run};

/// The counts of Python.
fn counted(kind: &str, path: &Path) -> Value {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/count_images.py");
    let out = Command::new(python).arg(script).arg(kind).arg(path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Packs `source`, compares the result with the counts of Python, and returns the counts of the ledger.
fn check(kind: &str, source: &Path, dst: &Path, options: &[&str]) -> Value {
    let args = [&["pack", source.to_str().unwrap(), dst.to_str().unwrap(), "--json"], options].concat();
    let ran = run(&args).code(0).json();
    let python = counted(kind, source);
    let (mut in_ledger, mut in_json) = (Vec::new(), BTreeSet::new());
    let mut sum = [0u64; 5];
    for dataset in ran["datasets"].as_array().unwrap() {
        let counts = &dataset["ledger"];
        let numbers =
            ["discovered", "packed", "skipped", "duplicates", "filtered"].map(|name| counts[name].as_u64().unwrap());
        assert_eq!(numbers[0], numbers[1..].iter().sum::<u64>(), "{kind}: {counts}");
        assert_eq!(numbers[1], dataset["samples"].as_u64().unwrap());
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        let split = dst.join(dataset["name"].as_str().unwrap());
        let folder = if split.exists() { split } else { dst.to_path_buf() };
        let prefix = if folder == dst { String::new() } else { format!("{}/", dataset["name"].as_str().unwrap()) };
        let lines = ledger::read(&fs::read(folder.join("ledger.jsonl")).unwrap_or_default()).unwrap();
        in_ledger.extend(
            lines
                .into_iter()
                .filter(|line| line.fate != Fate::Kept)
                .map(|line| (format!("{prefix}{}", String::from_utf8_lossy(&line.path)), line.reason.to_string())),
        );
    }
    for entry in ran["unpacked"].as_array().unwrap() {
        in_json.insert((entry["path"].as_str().unwrap().to_owned(), entry["reason"].as_str().unwrap().to_owned()));
    }
    assert_eq!(sum[0], python["images"].as_u64().unwrap(), "{kind}: {ran}");
    // Each image that is not packed has a ledger line, and each ledger line is in the document.
    assert_eq!(in_ledger.len() as u64, sum[0] - sum[1], "{kind}: {in_ledger:?}");
    assert_eq!(in_ledger.into_iter().collect::<BTreeSet<_>>(), in_json, "{kind}");
    run(&["verify", dst.to_str().unwrap(), "--against", source.to_str().unwrap()]).code(0);
    json!(sum)
}

/// A tree with the usual oddities.
fn tree() -> Bench {
    let bench = Bench::with(&["cat/1.jpg", "cat/deep/2.JPEG", "dog/3.png", "dog/left-1.jpg", "dog/v1.2/4.jpg"]);
    bench.file("cat/empty.jpg", b"");
    bench.file("cat/twice.jpg", &fs::read(bench.src().join("cat/1.jpg")).unwrap());
    bench.file("dog/notes.txt", b"x");
    bench.file("dog/._3.jpg", b"x");
    bench.file("README.md", b"x");
    bench.link("dog/gone.jpg", "nowhere");
    bench.link("dog/self.jpg", "self.jpg");
    bench.link("cat/linked", "../dog/v1.2");
    bench.folder("cat/folder.jpg");
    bench
}

#[test]
fn a_tree_holds_what_torchvision_finds_in_it() {
    let bench = tree();
    let options = ["--on-bad", "skip", "--exclude", "**/left-*", "--dedup", "exact"];
    let sum = check("tree", &bench.src(), &bench.dst(), &options);
    // Two paths lead to 4.jpg in two classes, and both are packed; the copy of 1.jpg is left out as a duplicate.
    assert_eq!(sum, json!([10, 5, 3, 1, 1]));
}

#[test]
fn a_list_holds_as_many_images_as_it_has_rows() {
    let bench = Bench::with(&["1.jpg", "2.jpg", "3.jpg", "4.jpg", "left-5.jpg"]);
    bench.file("empty.jpg", b"");
    bench.file("same.jpg", &fs::read(bench.src().join("1.jpg")).unwrap());
    // Path, label, caption. One row is repeated, one differs in its caption, one names a missing file.
    let rows = [
        ("1.jpg", "a", "one"),
        ("2.jpg", "b", "two"),
        ("2.jpg", "b", "two"),
        ("2.jpg", "b", "two, again"),
        ("3.jpg", "a", "three"),
        ("4.jpg", "b", "four"),
        ("left-5.jpg", "b", "five"),
        ("empty.jpg", "a", "none"),
        ("gone.jpg", "a", "none"),
        ("same.jpg", "a", "one"),
    ];
    let write = |name: &str, text: String| {
        let path = bench.src().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let csv: String = rows.iter().map(|(path, label, caption)| format!("{path},{label},\"{caption}\"\n")).collect();
    let csv = write("x.csv", format!("path,label,caption\n{csv}"));
    let jsonl = rows.iter().map(|(path, label, caption)| json!({"path": path, "label": label, "caption": caption}));
    let jsonl = write("x.jsonl", jsonl.map(|row| format!("{row}\n")).collect());
    let text = write("x.txt", rows.iter().map(|(path, label, _)| format!("{path} {label}\n")).collect());
    let parquet = bench.src().join("x.parquet");
    let python = std::env::var_os("SHARDPACK_PYTHON").expect("SHARDPACK_PYTHON is set by `cargo xtask test`");
    let script =
        "import sys, pyarrow.csv, pyarrow.parquet as p; p.write_table(pyarrow.csv.read_csv(sys.argv[1]), sys.argv[2])";
    assert!(Command::new(python).args(["-c", script]).arg(&csv).arg(&parquet).status().unwrap().success());
    let options = ["--on-bad", "skip", "--exclude", "left-*"];
    for (kind, path) in [("csv", &csv), ("jsonl", &jsonl), ("parquet", &parquet), ("text", &text)] {
        let sum = check(kind, path, &bench.at(kind), &options);
        // A text list has no captions, so rows that differ only in the caption are duplicates.
        let expected = if kind == "text" { json!([10, 5, 2, 2, 1]) } else { json!([10, 6, 2, 1, 1]) };
        assert_eq!(sum, expected, "{kind}");
        check(
            kind,
            path,
            &bench.at(&format!("{kind}-dedup")),
            &[&options[..], &["--dedup", "exact", "--meta", "none"]].concat(),
        );
    }
    // A repeated line does not prevent a repair of the packed samples.
    for kind in ["csv", "text"] {
        let shard = bench.at(kind).join("shard-000000.tar");
        let whole = fs::read(&shard).unwrap();
        for damage in [|path: &Path| fs::remove_file(path), |path: &Path| fs::write(path, b"x")] {
            damage(shard.as_path()).unwrap();
            let source = if kind == "csv" { &csv } else { &text };
            let args =
                ["verify", bench.at(kind).to_str().unwrap(), "--repair", source.to_str().unwrap()].map(str::to_owned);
            run(&args).code(0).says("mended");
            assert_eq!(fs::read(&shard).unwrap(), whole);
        }
        fs::remove_file(bench.at(kind).join("index/shard-000000.index")).unwrap();
        let source = if kind == "csv" { &csv } else { &text };
        run(&["verify", bench.at(kind).to_str().unwrap(), "--repair", source.to_str().unwrap()]).code(0).says("mended");
    }
    // The same with splits.
    let splits: String = rows
        .iter()
        .enumerate()
        .map(|(n, (path, label, _))| format!("{path},{label},{}\n", if n % 2 == 0 { "train" } else { "val" }))
        .collect();
    let splits = write("splits.csv", format!("path,label,split\n{splits}"));
    check("csv", &splits, &bench.at("splits"), &options);
}

#[test]
fn a_coco_file_holds_the_images_that_it_lists() {
    let bench = Bench::new();
    for number in 1..=4u64 {
        bench.file(format!("{number}.jpg"), &jpeg(number, 5000));
    }
    bench.file("empty.jpg", b"");
    let names = ["1.jpg", "2.jpg", "3.jpg", "4.jpg", "empty.jpg", "gone.jpg", "2.jpg"];
    let images: Vec<_> = names.iter().enumerate().map(|(id, name)| json!({"id": id, "file_name": name})).collect();
    let annotations = json!([{"image_id": 0, "id": 1}, {"image_id": 99, "id": 2}, {"image_id": 98, "id": 3}]);
    let path = bench.src().join("x.json");
    fs::write(&path, json!({"images": images, "annotations": annotations}).to_string()).unwrap();
    let sum = check("coco", &path, &bench.dst(), &["--on-bad", "skip", "--exclude", "3.jpg"]);
    assert_eq!(sum, json!([7, 4, 2, 0, 1]));
    let ran = run(&[
        "pack",
        path.to_str().unwrap(),
        bench.dst().to_str().unwrap(),
        "--on-bad",
        "skip",
        "--exclude",
        "3.jpg",
        "--json",
    ]);
    assert_eq!(ran.json()["ignored_files"], json!({"annotation of an image that the file does not list": 2}));
}
