//! Packs trees in zip archives as the unpacked trees: the same bytes, for every writer of archives and every option.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_testing::{
    Bench, Ran, contents, jpeg,
    lists::{mend, verify},
    pack, png, run,
};

/// Names of the archives of a whole tree that `write_zips.py` writes, with the folder of the tree in them.
const GOOD: [(&str, &str); 11] = [
    ("stored", ""),
    ("deflated", ""),
    ("folders", "/"),
    ("streamed", ""),
    ("below", "/photos/./2024//"),
    ("comment", ""),
    ("zip64", ""),
    ("code-page", ""),
    ("behind-deflated", ""),
    ("behind-zip64", ""),
    ("behind-fixed", ""),
];

/// A tree with captions, deep folders, names that are not ASCII, and files that are ignored.
fn tree() -> Bench {
    let bench = Bench::with_source(30, 4000);
    bench.file("class-0/deep/er/é ü+%25&'.jpg", &jpeg(1000, 5300));
    bench.file("class-0/deep/er/é ü+%25&'.txt", b"a caption");
    bench.file("class-1/.hidden/a.jpg", &jpeg(1001, 5100));
    bench.file("class-2/notes.md", b"no image");
    bench.file("class-3/picture.png", &png());
    bench.file("outside.jpg", &jpeg(1003, 5100));
    bench.file("__MACOSX/class-0/._1", b"x");
    bench
}

/// Runs `write_zips.py` on the folder `tree` and returns the folder of the archives.
fn written(bench: &Bench, tree: &Path) -> PathBuf {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let out = bench.at("zips");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/write_zips.py");
    let ran = Command::new(python).arg(script).arg(tree).arg(&out).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    out
}

fn plain(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.zip"))
}

/// The JSON report of a pack, without what differs from run to run.
fn told(ran: Ran) -> serde_json::Value {
    let mut json = ran.code(0).json();
    let all = json.as_object_mut().unwrap();
    all.remove("elapsed_ms");
    json
}

#[test]
fn an_archive_is_packed_as_its_tree_whoever_wrote_it() {
    let bench = tree();
    let zips = written(&bench, &bench.src());
    let whole = told(pack(&bench.src(), &bench.at("whole"), &["--json"]));
    for (name, below) in GOOD {
        let (src, dst) = (format!("{}{below}", plain(&zips, name).display()), bench.at(name));
        let found = told(pack(Path::new(&src), &dst, &["--json"]));
        assert_eq!(contents(&bench.at("whole")), contents(&dst), "{name}");
        assert_eq!(found, whole, "{name}");
        verify(&dst, Path::new(&src), &[]);
    }
    mend(&bench.at("stored"), &plain(&zips, "streamed"));
    // One more image in the archive than in the dataset.
    run(&["verify", bench.at("stored").to_str().unwrap(), "--against", bench.src().to_str().unwrap()]).code(0);
    fs::remove_file(bench.src().join("class-3/picture.png")).unwrap();
    pack(&bench.src(), &bench.at("less"), &[]).code(0);
    let against = plain(&zips, "stored");
    run(&["verify", bench.at("less").to_str().unwrap(), "--against", against.to_str().unwrap()])
        .code(1)
        .says("class-3/picture.png");
}

#[test]
fn every_option_of_a_tree_is_one_of_an_archive() {
    let bench = tree();
    // Not those of a dataset.
    bench.file("manifest.json", b"{}");
    bench.file("splits.json", b"{\"train\": [1]}");
    let zips = written(&bench, &bench.src());
    let cases: [&[&str]; 6] = [
        &["--shards", "3", "--compress", "zstd"],
        &["--with", "txt", "--format", "mds"],
        &["--split-fraction", "val=0.3", "--format", "tfrecord"],
        &["--resize", "32", "--min-side", "8", "--dedup", "exact"],
        &["--no-labels", "--exclude", "class-1/**", "--order", "source"],
        &["--read-order", "physical", "--jobs", "1"],
    ];
    for (number, options) in cases.into_iter().enumerate() {
        let (of_tree, of_zip) = (bench.at(&format!("tree-{number}")), bench.at(&format!("zip-{number}")));
        pack(&bench.src(), &of_tree, options).code(0);
        pack(&plain(&zips, "deflated"), &of_zip, options).code(0);
        assert_eq!(contents(&of_tree), contents(&of_zip), "{options:?}");
    }
    verify(&bench.at("tree-1"), &plain(&zips, "zip64"), &[]);
    verify(&bench.at("tree-2"), &plain(&zips, "zip64"), &[]);
}

#[test]
fn splits_are_folders_in_an_archive_or_archives() {
    let bench = Bench::with(&["train/a/1.jpg", "train/a/2.jpg", "train/b/3.jpg", "val/a/4.jpg", "val/b/5.jpg"]);
    let zips = written(&bench, &bench.src());
    let (all, src) = (plain(&zips, "deflated"), bench.src());
    pack(&src, &bench.at("whole"), &[]).code(0);
    pack(&all, &bench.at("inside"), &[]).code(0);
    let splits = |train: String, val: String, dst: &str| {
        let words = ["pack", "--split", &format!("train={train}"), "--split", &format!("val={val}")].map(str::to_owned);
        run(&[&words[..], &[bench.at(dst).display().to_string()]].concat()).code(0);
    };
    splits(format!("{}/train", all.display()), format!("{}/val/", plain(&zips, "stored").display()), "two");
    splits(format!("{}/train", src.display()), format!("{}/val", src.display()), "folders");
    for dst in ["inside", "two", "folders"] {
        assert_eq!(contents(&bench.at("whole")), contents(&bench.at(dst)), "{dst}");
    }
    let against = ["train", "val"].map(|split| format!("{split}={}/{split}", all.display()));
    let dst = bench.at("two").display().to_string();
    run(&["verify", &dst, "--against", &against[0], "--against", &against[1]]).code(0);
    pack(&all.join("train"), &bench.at("train"), &[]).code(0).says("3 of 3 images");
    pack(&all.join("nothing"), &bench.at("none"), &[]).code(2).says("deflated.zip/nothing: the archive has no files");
    assert!(!bench.at("none").exists());
}

#[test]
fn a_plan_of_an_archive_is_packed_whole_or_in_parts_unless_the_archive_changes() {
    let bench = tree();
    let zips = written(&bench, &bench.src());
    let (src, plan) = (plain(&zips, "below").join("photos/2024"), bench.at("x.plan"));
    pack(&bench.src(), &bench.at("whole"), &["--shards", "4"]).code(0);
    let words = |words: &[&str]| run(words);
    let (src, plan) = (src.to_str().unwrap().to_owned(), plan.to_str().unwrap().to_owned());
    words(&["plan", &src, "-o", &plan, "--shards", "4"]).code(0);
    let dst = bench.at("planned").display().to_string();
    words(&["pack", "--plan", &plan, &dst]).code(0);
    assert_eq!(contents(&bench.at("whole")), contents(&bench.at("planned")));
    let parts = bench.at("parts").display().to_string();
    for part in ["1/2", "2/2"] {
        words(&["pack", &src, &parts, "--shards", "4", "--part", part]).code(0);
    }
    words(&["merge", &parts]).code(0);
    assert_eq!(contents(&bench.at("whole")), contents(&bench.at("parts")));
    // The same images in an archive of another time.
    let archive = plain(&zips, "below");
    let bytes = fs::read(&archive).unwrap();
    fs::remove_file(&archive).unwrap();
    fs::write(&archive, &bytes).unwrap();
    let late = bench.at("late").display().to_string();
    words(&["pack", "--plan", &plan, &late])
        .code(1)
        .says("changed since it was planned: the archive has another version");
    let again = words(&["pack", &src, &parts, "--shards", "4", "--json"]).code(0).json();
    assert_eq!(again["newer_files"], 32, "{again}");
    fs::remove_file(&archive).unwrap();
    words(&["pack", "--plan", &plan, &bench.at("gone").display().to_string()])
        .code(2)
        .says("below.zip: no such archive");
}

#[test]
fn an_unfinished_pack_of_an_archive_resumes_unless_the_archive_changes() {
    let bench = tree();
    let zips = written(&bench, &bench.src());
    let (dst, archive) = (bench.at("dst"), zips.join("bad/data.zip"));
    pack(&archive, &dst, &["--shards", "3"]).code(1).says("class-0/").says("damaged: its CRC-32 is");
    pack(&archive, &dst, &["--shards", "3"]).code(1).says("damaged: its CRC-32 is");
    fs::copy(plain(&zips, "stored"), &archive).unwrap();
    pack(&archive, &dst, &["--shards", "3"]).code(2).says("was changed, and 31 more");
    pack(&archive, &dst, &["--shards", "3", "--force"]).code(0);
    pack(&bench.src(), &bench.at("whole"), &["--shards", "3"]).code(0);
    assert_eq!(contents(&bench.at("whole")), contents(&dst));
}

#[test]
fn what_cannot_be_read_in_an_archive_is_a_bad_image_or_refused_by_name() {
    let bench = tree();
    let zips = written(&bench, &bench.src());
    let bad = |name: &str| zips.join(format!("bad/{name}.zip"));
    for (name, what) in [
        ("encrypted", "is encrypted"),
        ("method", "is packed by method 12; 0 (stored) and 8 (deflate) are read"),
        ("data", "damaged: its CRC-32 is"),
        ("directory", "its header and the directory differ"),
        ("empty-part", "its name is no path"),
    ] {
        let dst = bench.at(name);
        pack(&bad(name), &dst, &[]).code(1).says("class-0/").says(what);
        pack(&bad(name), &dst, &["--on-bad", "skip"]).code(0);
        let ledger = fs::read_to_string(dst.join("ledger.jsonl")).unwrap();
        let skipped: Vec<_> = ledger.lines().filter(|line| line.contains("skipped")).collect();
        assert!(skipped.len() == 1 && skipped[0].contains(what), "{name}: {ledger}");
    }
    for (name, what) in [
        ("up", "member \"../x.jpg\": its name leads out of the file"),
        ("absolute", "member \"/x.jpg\": its name leads out of the file"),
        ("twice", " is there twice"),
        ("code-page", "in a code page that the archive does not name"),
        ("cut", "a zip file without a directory at its end"),
    ] {
        pack(&bad(name), &bench.at(name), &["--on-bad", "skip"]).code(1).says(&format!("{name}.zip: ")).says(what);
        assert!(!bench.at(name).exists(), "{name}");
    }
    pack(&bad("nested"), &bench.at("nested"), &[]).code(0).says("1 .zip");
    let inside = bad("nested").join("class-0/inner.zip");
    pack(&inside, &bench.at("inner"), &[]).code(2).says("inner.zip: the archive has no files in this folder");
    fs::write(bench.at("no.zip"), "no archive").unwrap();
    pack(&bench.at("no.zip"), &bench.at("no"), &[]).code(1).says("no.zip: no zip file");
    // A folder with the name of an archive is a folder.
    fs::rename(bench.src(), bench.at("tree.zip")).unwrap();
    pack(&bench.at("tree.zip"), &bench.at("of-folder"), &[]).code(0);
    let archive = plain(&zips, "stored");
    let before = fs::read(&archive).unwrap();
    pack(&archive, &archive, &["--force"]).code(2);
    assert!(fs::read(&archive).unwrap() == before);
}
