//! Images and their files in folders side by side: `--with` with a path.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::json;
use shardpack_reader::Dataset;
use shardpack_testing::{Bench, contents, jpeg, run};

/// Pairs in `images/` and `masks/`, in two subfolders each.
fn pairs(masks: &[&str]) -> Bench {
    let bench = Bench::new();
    for (number, name) in ["a/1", "a/2", "b/1", "b/3"].into_iter().enumerate() {
        bench.file(format!("images/{name}.jpg"), &jpeg(number as u64, 5000));
    }
    for name in masks {
        bench.file(format!("masks/{name}.png"), format!("mask {name}").as_bytes());
    }
    bench
}

const ALL: [&str; 4] = ["a/1", "a/2", "b/1", "b/3"];
const WITH: &str = "mask=../../masks/{parent}/*.png";

/// For each path, the bytes of the component `mask.png`.
fn masks(dst: &Path) -> Vec<(String, Option<String>)> {
    let dataset = Dataset::open(dst).unwrap();
    let mut found: Vec<_> = (0..dataset.len())
        .map(|number| {
            let sample = dataset.sample(number).unwrap();
            let path = String::from_utf8(dataset.row(number).unwrap().path.to_vec()).unwrap();
            (path, sample.component("mask.png").map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
        })
        .collect();
    found.sort();
    found
}

fn expected(lacking: &[&str]) -> Vec<(String, Option<String>)> {
    let mask = |name: &&str| (!lacking.contains(name)).then(|| format!("mask {name}"));
    ALL.iter().map(|name| (format!("images/{name}.jpg"), mask(name))).collect()
}

#[test]
fn each_image_has_the_file_of_its_name_in_every_format_and_kind_of_tree() {
    let bench = pairs(&ALL);
    let src = bench.src();
    for format in ["webdataset", "tfrecord", "mds"] {
        let dst = bench.at(format);
        let options = ["--no-labels", "--with", WITH, "--format", format, "--shards", "2"];
        bench.pack_to(&dst, &options).code(0).says_not("skipped");
        assert_eq!(masks(&dst), expected(&[]), "{format}");
        let (at, source) = (dst.to_str().unwrap(), src.to_str().unwrap());
        run(&["verify", at, "--against", source]).code(0);
        // Repair reads the masks again.
        let whole = contents(&dst);
        let shard = dst.join(&Dataset::open(&dst).unwrap().manifest().shards[0].file);
        fs::write(&shard, b"gone").unwrap();
        run(&["verify", at, "--repair", source]).code(0);
        assert!(contents(&dst) == whole, "{format}");
        if format != "webdataset" {
            continue;
        }
        // In parts, and from an archive of the tree.
        let parts = bench.at("parts");
        for part in ["2/2", "1/2"] {
            bench.pack_to(&parts, &[&options[..], &["--part", part]].concat()).code(0);
        }
        run(&["merge", parts.to_str().unwrap()]).code(0);
        assert!(contents(&parts) == whole);
        let zip = bench.at("pairs.zip");
        let script = "import shutil, sys; shutil.make_archive(sys.argv[2], 'zip', sys.argv[1])";
        let python = std::env::var_os("SHARDPACK_PYTHON").unwrap();
        let zipped = Command::new(python).args(["-c", script]).arg(&src).arg(zip.with_extension("")).status().unwrap();
        assert!(zipped.success());
        let from_zip = bench.at("from-zip");
        let words = ["pack", zip.to_str().unwrap(), from_zip.to_str().unwrap()];
        run(&[&words[..], &options].concat()).code(0);
        assert!(contents(&from_zip) == whole);
    }
}

#[test]
fn a_folder_of_masks_is_no_class_beside_classes() {
    let bench = Bench::new();
    for (number, class) in ["cat", "dog", "cat"].into_iter().enumerate() {
        bench.file(format!("{class}/{number}.jpg"), &jpeg(number as u64, 5000));
        bench.file(format!("masks/{class}/{number}.png"), b"mask");
    }
    bench.file("masks/cat/9.png", b"of no image");
    bench.file("masks/notes.md", b"text");
    let report = bench.pack(&["--with", "mask=../masks/{parent}/{stem}.png", "--json"]).code(0).json();
    let classes =
        Dataset::open(bench.dst()).unwrap().classes().iter().map(|class| class.name.clone()).collect::<Vec<_>>();
    assert_eq!(classes, ["cat", "dog"]);
    let ignored = &report["ignored_files"];
    assert_eq!((&ignored["mask.png without its image"], &ignored["extension .md"]), (&1.into(), &1.into()), "{report}");
    // An image there that the pattern does not match would silently be no sample.
    bench.file("masks/cat/7.jpg", &jpeg(7, 5000));
    let ran = bench.pack_to(&bench.at("second"), &["--with", "mask=../masks/{parent}/{stem}.png"]).code(2);
    ran.says("masks/cat/7.jpg").says("belongs to no image by the pattern of --with").says("--exclude leaves them out");
    let left_out = ["--with", "mask=../masks/{parent}/{stem}.png", "--exclude", "masks/cat/7.jpg"];
    bench.pack_to(&bench.at("second"), &left_out).code(0).says("1 left out");
    let without = ["--no-labels", "--with", "mask=../masks/{parent}/{stem}.png", "--on-missing", "empty"];
    let report = bench.pack_to(&bench.at("third"), &[&without[..], &["--json"]].concat()).code(0).json();
    assert_eq!(report["datasets"][0]["samples"], 4, "{report}");
}

#[test]
fn what_is_missing_is_bad_left_out_or_absent() {
    let bench = pairs(&["a/1", "b/1", "b/3", "b/8"]);
    let options = ["--no-labels", "--with", WITH];
    let pack = |dst: &str, more: &[&str]| bench.pack_to(&bench.at(dst), &[&options[..], more].concat());
    pack("error", &[]).code(1).says("images/a/2.jpg: its mask.png is missing: masks/a/2.png");
    assert!(!bench.at("error/manifest.json").exists());
    for (dst, more, fate) in [("bad", ["--on-bad", "skip"], "skipped"), ("skip", ["--on-missing", "skip"], "filtered")]
    {
        let report = pack(dst, &[&more[..], &["--json"]].concat()).code(0).json();
        assert_eq!(report["ignored_files"]["mask.png without its image"], 1, "{report}");
        assert_eq!(report["datasets"][0]["samples"], 3, "{report}");
        let ledger = fs::read_to_string(bench.at(dst).join("ledger.jsonl")).unwrap();
        assert!(ledger.contains(&format!("\"fate\":\"{fate}\"")) && ledger.contains("masks/a/2.png"), "{ledger}");
    }
    pack("empty", &["--on-missing", "empty"]).code(0).says("1 of 4 images without mask.png");
    assert_eq!(masks(&bench.at("empty")), expected(&["a/2"]));
    run(&["verify", bench.at("empty").to_str().unwrap(), "--against", bench.src().to_str().unwrap()]).code(0);
    // The policy holds for files beside images, too.
    let beside = ["--no-labels", "--with", "txt", "--include", "images/**"];
    bench
        .pack_to(&bench.at("txt"), &[&beside[..], &["--on-missing", "error"]].concat())
        .code(1)
        .says("its txt is missing");
    bench.pack(&["--on-missing", "skip"]).code(2).says("--on-missing is for the files of --with");
    let out = ["--no-labels", "--with", "mask=../../../masks/*.png"];
    bench.pack_to(&bench.at("out"), &out).code(1).says("gives no file in the source");
}

#[test]
fn a_list_names_the_images_and_the_pattern_their_files() {
    let bench = pairs(&["a/1", "a/2", "b/1"]);
    let list = bench.at("list.csv");
    fs::write(&list, "path,label\nimages/a/1.jpg,x\nimages/a/2.jpg,y\nimages/b/3.jpg,x\n").unwrap();
    let (list, src) = (list.to_str().unwrap().to_owned(), bench.src().to_str().unwrap().to_owned());
    let dst = |name: &str| bench.at(name).to_str().unwrap().to_owned();
    let words = ["pack", &list, &dst("l"), "--root", &src, "--with", WITH];
    run(&words).code(1).says("images/b/3.jpg: its mask.png is missing: masks/b/3.png");
    run(&[&words[..], &["--on-missing", "skip"]].concat()).code(0);
    // A mask in the list is no image.
    let both = bench.at("both.csv");
    fs::write(&both, "path,label\nimages/a/1.jpg,x\nmasks/a/1.png,y\n").unwrap();
    let both = ["pack", both.to_str().unwrap(), &dst("both"), "--root", &src, "--with", WITH];
    run(&both).code(1).says("masks/a/1.png: is a file of mask.png");
    let found = masks(&bench.at("l"));
    assert_eq!(found, expected(&[])[..2]);
}

#[test]
fn a_pattern_takes_no_image_from_other_folders() {
    // Images and masks of the same extension, in folders that differ by a name, by a suffix, or by the class.
    for (images, masks, with) in [
        (["images/0.png", "images/1.png"], ["masks/images/0.png", "masks/images/1.png"], "mask=../masks/{dir}/*.png"),
        (["cat/0.png", "dog/1.png"], ["masks/cat/0.png", "masks/dog/1.png"], "mask=../masks/{parent}/*.png"),
        (["cat/0.png", "dog/1.png"], ["masks/cat/0.png", "masks/dog/1.png"], "mask=../masks/{dir}/*.png"),
        (["x/0.png", "y/0.png"], ["x_masks/0.png", "y_masks/0.png"], "mask=../{parent}_masks/*.png"),
        (["x/images/0.png", "x/images/1.png"], ["x/masks/0/m.png", "x/masks/1/m.png"], "mask=../masks/{stem}/m.png"),
    ] {
        let bench = Bench::new();
        for (number, path) in images.iter().chain(&masks).enumerate() {
            bench.file(path, &jpeg(number as u64, 5000));
        }
        let options: &[&str] = if images[0].contains("images") { &["--no-labels"] } else { &[] };
        let report = bench.pack(&[options, &["--with", with, "--json"]].concat()).code(0).json();
        assert_eq!((&report["datasets"][0]["samples"], &report["ignored_files"]), (&2.into(), &json!({})), "{with}");
        let dataset = Dataset::open(bench.dst()).unwrap();
        for number in 0..2 {
            let sample = dataset.sample(number).unwrap();
            let path = String::from_utf8(dataset.row(number).unwrap().path.to_vec()).unwrap();
            let at = images.iter().position(|image| *image == path).unwrap();
            assert!(sample.component("mask.png").unwrap() == jpeg(2 + at as u64, 5000), "{with}: {path}");
        }
        let folders: BTreeSet<_> = images.iter().map(|path| path.split('/').next().unwrap()).collect();
        let classes = if options.is_empty() { folders.len() } else { 0 };
        assert_eq!(dataset.classes().len(), classes, "{with}");
        let other = ["--with", with, "--exclude", images[0], "--json"];
        let report = bench.pack_to(&bench.at("less"), &[options, &other].concat()).code(0).json();
        assert_eq!(report["ignored_files"], json!({}), "{with}");
    }
}

#[test]
fn links_are_followed_unless_they_are_refused() {
    let bench = pairs(&["a/1", "a/2", "b/1"]);
    bench.link("masks/b/3.png", "1.png");
    let options = ["--no-labels", "--with", WITH];
    bench.pack(&options).code(0);
    assert_eq!(masks(&bench.dst())[3].1.as_deref(), Some("mask b/1"));
    let strict = [&options[..], &["--no-follow", "--on-bad", "skip"]].concat();
    bench.pack_to(&bench.at("strict"), &strict).code(0).says("masks/b/3.png is a symbolic link");
}
