//! Tests `shardpack pack`: files that a source yields, packed samples, and allowed contents of DST.

use std::{collections::BTreeMap, fs, path::Path};

use shardpack_source::ledger::Fate;
use shardpack_testing::{Bench, Dataset, bad, contents, jpeg, name, pack, photo, photos, plain, png, run, sealed};

// Contents of a source.

#[test]
fn the_photographs_are_packed_as_they_are() {
    let bench = Bench::new();
    let ran = pack(&photos(), &bench.dst(), &["--shards", "4"]).code(0);
    let ran =
        ran.says("found   32 images in 5 classes").says("packed  32 of 32 images").says("next    shardpack verify");
    ran.says("animals/cat-nose.jpg is a PNG (kept; the component stays .jpg)").says("shard-{000000..000003}.tar");
    let dataset = Dataset::read(&bench.dst());
    dataset.check_source(&photos());
    assert_eq!(dataset.classes(), ["animals", "people", "space", "textures", "things"]);
    assert_eq!(dataset.manifest.kinds, BTreeMap::from([("jpeg".to_owned(), 30), ("png".to_owned(), 2)]));
    assert_eq!(dataset.manifest.shards.len(), 4);
    assert!(dataset.paths().contains(&"space/galaxies/blue.jpg".to_owned()));
    assert!(dataset.paths().contains(&"things/SAUCER.JPG".to_owned()));
}

#[test]
fn keys_ascend_over_all_shards_and_are_plain_numbers() {
    let bench = Bench::with_source(50, 100);
    bench.pack(&["--shards", "6"]).code(0);
    let keys: Vec<String> = sealed(&bench).samples.into_iter().map(|sample| sample.key).collect();
    let expected: Vec<String> = (0..50).map(|number| format!("{number:08}")).collect();
    assert_eq!(keys, expected);
}

#[test]
fn classes_are_numbered_as_torchvision_does() {
    // sorted(["b", "a", "B", "10", "9", "é", "_", "a b", "ａ"]) of Python: by code point.
    let bench = Bench::with(&[
        "b/1.jpg",
        "a/1.jpg",
        "B/1.jpg",
        "10/1.jpg",
        "9/1.jpg",
        "é/1.jpg",
        "_/1.jpg",
        "a b/1.jpg",
        "ａ/1.jpg",
    ]);
    bench.pack(&[]).code(0);
    assert_eq!(sealed(&bench).classes(), ["10", "9", "B", "_", "a", "a b", "b", "é", "ａ"]);
}

#[test]
fn folders_may_nest_and_the_class_is_the_first() {
    let bench = Bench::with(&["a/1.jpg", "a/b/2.jpg", "a/b/c/d/e/3.jpg", "b/a/4.jpg"]);
    bench.pack(&["--order", "source"]).code(0);
    let dataset = sealed(&bench);
    assert_eq!(dataset.classes(), ["a", "b"]);
    let order: Vec<_> =
        dataset.samples.iter().map(|sample| (String::from_utf8_lossy(&sample.path), sample.label)).collect();
    let expected = [("a/1.jpg", 0), ("a/b/2.jpg", 0), ("a/b/c/d/e/3.jpg", 0), ("b/a/4.jpg", 1)];
    assert_eq!(order, expected.map(|(path, label)| (path.into(), label)));
}

#[test]
fn the_nine_extensions_of_torchvision_count_in_any_case_and_no_other() {
    let known =
        ["jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", "JPG", "Jpeg", "PNG", "WebP", "tIFF"];
    let bench = Bench::new();
    for (number, extension) in known.iter().enumerate() {
        bench.file(format!("a/{number}.{extension}"), &photo());
    }
    for other in ["a.gif", "b.txt", "c.TXT", "jpg", "d.jpg.part", "e.jpgx", "f", "g.", "h.jpg~"] {
        bench.file(format!("a/{other}"), b"other");
    }
    bench.pack(&[]).code(0).says("found   14 images");
    let dataset = sealed(&bench);
    assert_eq!(dataset.samples.len(), 14);
    let ignored: u64 = dataset.manifest.ignored_files.values().sum();
    assert_eq!(ignored, 9);
    assert_eq!(dataset.manifest.ignored_files.get("extension .gif"), Some(&1));
    assert_eq!(dataset.manifest.ignored_files.get("extension .txt"), Some(&2), "{:?}", dataset.manifest.ignored_files);
    assert!(dataset.ledger.is_empty(), "files that are no images by their names are counted, not named");
}

#[test]
fn hidden_and_system_files_are_counted_and_left_alone() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    for hidden in ["a/.hidden.jpg", "a/._1.jpg", "a/.DS_Store", ".DS_Store", ".git/x/1.jpg", "b/.cache/1.jpg"] {
        bench.file(hidden, &photo());
    }
    for system in ["a/Thumbs.db", "b/thumbs.db", "b/desktop.ini", "Thumbs.db"] {
        bench.file(system, b"x");
    }
    bench.file("README.md", b"x");
    bench.file("stray.jpg", &photo());
    let ran = bench.pack(&[]).code(0);
    ran.says("12 other files skipped")
        .says("6 hidden")
        .says("4 system")
        .says("1 .md")
        .says("1 image outside a class folder");
    let dataset = sealed(&bench);
    assert_eq!(
        (dataset.paths(), dataset.classes()),
        (vec!["a/1.jpg".to_owned(), "b/2.jpg".to_owned()], vec!["a", "b"])
    );
    let ignored: Vec<(&str, u64)> = dataset.manifest.ignored_files.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    assert_eq!(ignored, [("extension .md", 1), ("hidden", 6), ("image outside a class folder", 1), ("system", 4)]);
}

#[test]
fn an_empty_class_keeps_its_label_and_is_noted() {
    let bench = Bench::with(&["a/1.jpg", "c/2.jpg"]);
    bench.folder("b");
    bench.file("d/notes.txt", b"x");
    bench.pack(&[]).code(0).says("note    2 classes without images, kept in the list of classes: b, d");
    let dataset = sealed(&bench);
    assert_eq!(dataset.classes(), ["a", "b", "c", "d"]);
    assert_eq!(dataset.manifest.classes.iter().map(|class| class.counts.packed).collect::<Vec<_>>(), [1, 0, 1, 0]);
}

#[test]
fn a_source_without_images_or_classes_is_refused_and_nothing_is_left() {
    let rows: [(&str, &[&str], &[&str], &str); 4] = [
        ("empty", &[], &[], "no class folders in here"),
        ("files only", &[], &["1.jpg"], "no class folders in here"),
        ("empty classes", &["a", "b"], &[], "no images found"),
        ("no image by name", &[], &["a/1.txt"], "no images found"),
    ];
    for (row, folders, files, says) in rows {
        let bench = Bench::with(files);
        folders.iter().for_each(|folder| bench.folder(folder));
        bench.pack(&[]).code(2).clean_error().says(says).says(bench.src().to_str().unwrap());
        assert!(!bench.dst().exists(), "{row}");
    }
    let bench = Bench::new();
    pack(&bench.at("missing"), &bench.dst(), &[]).code(2).clean_error().says("missing: cannot open folder");
    pack(&bench.at("missing"), &bench.dst(), &["--json"]).code(2);
}

#[test]
fn links_to_files_and_folders_are_followed() {
    let bench = Bench::with(&["a/1.jpg"]);
    fs::create_dir_all(bench.at("elsewhere/deep")).unwrap();
    fs::write(bench.at("elsewhere/x.jpg"), jpeg(8, 6000)).unwrap();
    fs::write(bench.at("elsewhere/deep/y.png"), png()).unwrap();
    bench.link("a/2.jpg", bench.at("elsewhere/x.jpg"));
    bench.link("a/relative.jpg", "1.jpg");
    bench.link("b", bench.at("elsewhere"));
    bench.link("c/more", "../../elsewhere/deep");
    // A folder with the name of an image is still a folder.
    bench.link("c/folder.jpg", bench.at("elsewhere/deep"));
    bench.pack(&[]).code(0);
    let expected =
        ["a/1.jpg", "a/2.jpg", "a/relative.jpg", "b/deep/y.png", "b/x.jpg", "c/folder.jpg/y.png", "c/more/y.png"];
    assert_eq!(sealed(&bench).paths(), expected);
}

#[test]
fn paths_that_differ_by_case_or_unicode_form_alone_are_all_packed() {
    // An é as one code point and as two.
    let paths = ["a/x.jpg", "a/X.jpg", "a/x.JPG", "a/caf\u{e9}.jpg", "a/cafe\u{301}.jpg", "A/x.jpg"];
    let bench = Bench::with(&paths);
    if contents(&bench.src()).len() != paths.len() + 2 {
        println!("this file system takes some of these names for one: not tried");
        return;
    }
    bench.pack(&["--meta", "json"]).code(0);
    let mut expected = paths.map(str::to_owned);
    expected.sort();
    assert_eq!(sealed(&bench).paths(), expected);
}

#[test]
fn names_that_are_no_utf_8_are_packed_and_kept_to_the_byte() {
    let bench = Bench::with(&["a/1.jpg"]);
    bench.file(name(b"a/\xff\xfe.jpg"), &jpeg(1, 6000));
    bench.file(name(b"caf\xe9/\x80\n\t\".jpg"), &jpeg(2, 6000));
    bench.file(name(b"caf\xe9/empty-\xf0.jpg"), b"");
    bench.pack(&["--on-bad", "skip", "--meta", "json"]).code(0);
    let dataset = sealed(&bench);
    let mut paths: Vec<&[u8]> = dataset.samples.iter().map(|sample| sample.path.as_slice()).collect();
    paths.sort();
    assert_eq!(paths, [b"a/1.jpg".as_slice(), b"a/\xff\xfe.jpg", b"caf\xe9/\x80\n\t\".jpg"]);
    assert_eq!(dataset.ledger[0].path, b"caf\xe9/empty-\xf0.jpg");
    assert_eq!(dataset.manifest.classes[1].name_bytes(), b"caf\xe9");
    let text = fs::read_to_string(bench.dst().join("ledger.jsonl")).unwrap();
    assert!(text.contains("path_hex"), "{text}");
    // DST and SRC may have such names, too.
    let (src, dst) = (bench.at("x").with_file_name(name(b"src-\xff")), bench.at("x").with_file_name(name(b"dst-\xff")));
    fs::rename(bench.src(), &src).unwrap();
    pack(&src, &dst, &["--on-bad", "skip", "--meta", "json"]).code(0);
    assert_eq!(contents(&dst), contents(&bench.dst()));
}

#[test]
fn splits_become_datasets_that_share_one_list_of_classes() {
    let bench = Bench::with(&["train/b/1.jpg", "train/a/2.jpg", "val/b/3.jpg", "val/c/4.jpg", "test/a/5.jpg"]);
    bench.file("train/notes.txt", b"x");
    let ran = bench.pack(&[]).code(0).says("found   5 images in 3 classes").says("splits train, val, test");
    ran.says("1 class without images in train, kept in the list of classes: c").says("train-000000.tar");
    for (split, paths) in
        [("train", vec!["a/2.jpg", "b/1.jpg"]), ("val", vec!["b/3.jpg", "c/4.jpg"]), ("test", vec!["a/5.jpg"])]
    {
        let dataset = Dataset::read(&bench.dst().join(split));
        dataset.check_source(&bench.src().join(split));
        assert_eq!((dataset.classes(), dataset.manifest.name.as_str()), (vec!["a", "b", "c"], split));
        assert_eq!(dataset.paths(), paths);
        assert!(dataset.manifest.shards[0].file.starts_with(split));
    }
    let mut left: Vec<_> = fs::read_dir(bench.dst()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["splits.json", "test", "train", "val"]);
    bench.pack(&[]).code(0).says("nothing to do");
}

#[test]
fn what_is_a_split_is_recognised_or_said() {
    let rows: [(&str, &[&str], &str, Option<&[&str]>); 4] = [
        ("all known names", &["training/a/1.jpg", "validation/a/2.jpg"], "auto", Some(&["training", "validation"])),
        ("classes by decree", &["train/a/1.jpg", "val/a/2.jpg"], "none", None),
        ("names by decree", &["one/a/1.jpg", "two/a/2.jpg", "rest/a/3.jpg"], "one,two", Some(&["one", "two"])),
        ("one alone", &["train/a/1.jpg"], "auto", Some(&["train"])),
    ];
    for (row, files, splits, expected) in rows {
        let bench = Bench::with(files);
        bench.pack(&["--splits", splits]).code(0);
        match expected {
            None => drop(sealed(&bench)),
            Some(names) => names.iter().for_each(|split| {
                Dataset::read(&bench.dst().join(split)).check_source(&bench.src().join(split));
            }),
        }
        assert_eq!(bench.dst().join("manifest.json").exists(), expected.is_none(), "{row}");
    }
    let bench = Bench::with(&["train/a/1.jpg"]);
    bench.pack(&["--splits", "train,dev"]).code(2).clean_error().says("no folder \"dev\", which --splits names");
}

#[test]
fn include_and_exclude_leave_images_out_and_the_ledger_names_them() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "a/deep/3.jpg", "b/1.jpg", "b/4.jpg"]);
    bench.pack(&["--include", "**/[1-3].jpg", "--exclude", "a/2*", "--exclude", "**/deep/*"]).code(0);
    let dataset = sealed(&bench);
    assert_eq!(dataset.paths(), ["a/1.jpg", "b/1.jpg"]);
    let left_out: Vec<_> = dataset.unpacked().into_iter().map(|(path, fate, _)| (path, fate)).collect();
    let expected = ["a/2.jpg", "a/deep/3.jpg", "b/4.jpg"].map(|path| (path.to_owned(), Fate::Filtered));
    assert_eq!(left_out, expected);
    bench.pack(&["--include", "[", "--force"]).code(2).clean_error().says("--include");
    // A refusal leaves the existing dataset unchanged.
    sealed(&bench);
    let left_out = "all 5 images are left out, the first: a/1.jpg: left out by --include or --exclude";
    bench.pack(&["--exclude", "**", "--force"]).code(2).clean_error().says(left_out);
    sealed(&bench);
}

// Images that cannot be packed.

#[test]
fn bad_images_are_all_named_the_others_finished_and_nothing_sealed() {
    let (bench, said) = bad();
    let mut ran =
        bench.pack(&["--shards", "3"]).code(1).says("failed  4 images could not be packed, nothing is sealed");
    for (path, reason) in said {
        ran = ran.says(&format!("{path}: {reason}"));
    }
    ran.says("help: mend them and run the same command again");
    assert!(!bench.dst().join("manifest.json").exists());
    assert!(bench.dst().join("shard-000002.tar").exists());
    let ran = bench.pack(&["--shards", "3", "--json"]).code(1);
    let json = ran.json();
    assert_eq!((json["sealed"].as_bool(), json["resumed_shards"].as_u64()), (Some(false), Some(3)));
    assert_eq!(json["bad"].as_array().unwrap().len(), 4);

    // The finished shards are the shards of a pack without the bad images.
    bench.pack(&["--shards", "3", "--on-bad", "skip"]).code(0).says("3 of 3 shards were finished before");
    sealed(&bench);
}

#[test]
fn bad_images_are_skipped_on_request_and_the_ledger_says_why() {
    let (bench, said) = bad();
    let mut ran =
        bench.pack(&["--on-bad", "skip"]).code(0).says("packed  3 of 7 images").says("4 not packed, see ledger.jsonl");
    for (path, reason) in said {
        ran = ran.says(&format!("{path}: {reason}"));
    }
    let dataset = sealed(&bench);
    assert_eq!(dataset.paths(), ["a/1.jpg", "b/2.jpg", "b/3.jpg"]);
    for ((path, fate, reason), (expected, why)) in dataset.unpacked().iter().zip(said) {
        assert_eq!((path.as_str(), *fate), (expected, Fate::Skipped));
        assert!(reason.starts_with(why), "{reason}");
    }
    let counts: Vec<_> =
        dataset.manifest.classes.iter().map(|class| (class.counts.packed, class.counts.skipped)).collect();
    assert_eq!(counts, [(1, 2), (2, 2)]);
}

/// A tree and its plan file. The tree has changed since the plan.
fn changed_under_its_plan() -> (Bench, String) {
    let bench = Bench::with_source(40, 500);
    for path in ["a/gone.jpg", "a/longer.jpg", "a/shorter.jpg", "a/link.jpg", "b/folder.jpg"] {
        bench.file(path, &jpeg(3, 6000));
    }
    let plan = bench.at("tree.plan").to_str().unwrap().to_owned();
    let (src, dst) = (bench.src(), bench.dst());
    run(&["plan", src.to_str().unwrap(), dst.to_str().unwrap(), "--shards", "9", "-o", &plan]).code(0);
    let remove = |path| fs::remove_file(bench.src().join(path)).unwrap();
    remove("a/gone.jpg");
    bench.file("a/longer.jpg", &jpeg(3, 6100));
    bench.file("a/shorter.jpg", &jpeg(3, 5900));
    remove("a/link.jpg");
    bench.link("a/link.jpg", "nowhere");
    remove("b/folder.jpg");
    bench.folder("b/folder.jpg");
    (bench, plan)
}

#[test]
fn images_that_vanish_or_change_after_the_plan_are_bad() {
    let (bench, plan) = changed_under_its_plan();
    let dst = bench.dst();
    let args = ["pack", "--plan", &plan, dst.to_str().unwrap()];
    let mut ran = run(&args).code(1).says("failed  5 images could not be packed, nothing is sealed");
    for said in [
        "a/gone.jpg: cannot be read: No such file",
        "a/link.jpg: cannot be read: No such file",
        "a/longer.jpg: changed since it was planned: more bytes, 6000 in the plan",
        "a/shorter.jpg: changed since it was planned: 5900 bytes, 6000 in the plan",
        "b/folder.jpg: cannot be read: Is a directory",
    ] {
        ran = ran.says(said);
    }
    assert!(!dst.join("manifest.json").exists());
    run(&[&args[..], &["--on-bad", "skip"]].concat()).code(0).says("packed  40 of 45 images");
    let dataset = sealed(&bench);
    assert_eq!((dataset.samples.len(), dataset.ledger.len()), (40, 5));
    // A single run writes the same bytes.
    let other = bench.at("other");
    run(&["pack", "--plan", &plan, other.to_str().unwrap(), "--on-bad", "skip"]).code(0);
    assert_eq!(contents(&other), contents(&dst));
}

#[test]
fn a_shard_of_which_no_image_is_left_is_still_sealed() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg"]);
    let plan = bench.at("tree.plan").to_str().unwrap().to_owned();
    let (src, dst) = (bench.src(), bench.dst());
    let cut = ["--shard-samples", "2", "--order", "source"];
    run(&[&["plan", src.to_str().unwrap(), "x", "-o", &plan][..], &cut].concat()).code(0);
    for path in ["b/3.jpg", "b/4.jpg"] {
        fs::remove_file(src.join(path)).unwrap();
    }
    for order in ["plan", "physical"] {
        run(&["pack", "--plan", &plan, dst.to_str().unwrap(), "--on-bad", "skip", "--read-order", order]).code(0);
        let dataset = sealed(&bench);
        assert_eq!((dataset.samples.len(), dataset.ledger.len(), dataset.manifest.shards.len()), (2, 2, 2));
        fs::remove_dir_all(&dst).unwrap();
    }
}

// Contents of a sample.

#[test]
fn an_image_of_another_kind_keeps_the_common_extension_and_is_named() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg"]);
    bench.file("b/png-inside.jpg", &png());
    bench.pack(&[]).code(0).says("b/png-inside.jpg is a PNG (kept; the component stays .jpg)");
    let dataset = sealed(&bench);
    assert!(dataset.samples.iter().all(|sample| sample.components.keys().eq(["cls", "jpg"])));
    assert_eq!(dataset.manifest.kinds["png"], 1);
    let json = bench.pack(&["--json", "--force"]).code(0).json();
    assert_eq!(json["stray_samples"], 1);
    assert_eq!(json["strays"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_called_as_an_image_and_begins_as_none_is_a_bad_image() {
    for (name, bytes) in [
        ("b/text.jpg", &b"no image at all"[..]),
        ("b/page.PNG", b"<!DOCTYPE html><html>"),
        ("b/zeros.tif", &[0; 4096]),
        ("b/array.webp", b"\x93NUMPY\x01\0v\0{'descr': '|u1'"),
    ] {
        let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg"]);
        bench.file(name, bytes);
        let list = bench.src().join("list.csv");
        fs::write(&list, format!("path,label\na/1.jpg,x\n{name},y\n")).unwrap();
        let why = format!("{name}: no image by its first bytes");
        bench.pack(&[]).code(1).says(&why);
        run(&["pack", list.to_str().unwrap(), bench.at("list").to_str().unwrap()]).code(1).says(&why);
        bench.pack(&["--on-bad", "skip"]).code(0).says(&why);
        let dataset = sealed(&bench);
        assert_eq!((dataset.samples.len(), dataset.ledger.len()), (3, 1), "{name}");
        run(&["verify", bench.dst().to_str().unwrap(), "--against", bench.src().to_str().unwrap()]).code(0);
    }
}

#[test]
fn images_behind_links_out_of_the_source_are_told_and_refused_where_no_link_is_followed() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg"]);
    let outside = Bench::with(&["raw/7.jpg", "raw/8.jpg", "raw/9.jpg", "raw/9.txt"]);
    let raw = outside.src().join("raw");
    bench.link("b/own.jpg", "../a/1.jpg");
    bench.pack(&["--force"]).code(0).says_not("symbolic link");
    bench.link("b/one.jpg", raw.join("7.jpg").to_str().unwrap());
    bench
        .pack(&["--force"])
        .code(0)
        .says(&format!("1 image is behind symbolic links out of the source, to {}", raw.display()));
    bench.link("c", raw.to_str().unwrap());
    let json = bench.pack(&["--force", "--json"]).code(0).json();
    assert!(json["notes"].to_string().contains("4 images are behind symbolic links"), "{json}");
    let manifest = fs::read_to_string(bench.dst().join("manifest.json")).unwrap();
    assert!(!manifest.contains("raw"), "{manifest}");
    let mut ran = bench.pack(&["--force", "--no-follow", "--on-bad", "skip"]).code(0);
    for name in ["b/own.jpg", "b/one.jpg", "c"] {
        ran = ran.says(&format!("{name}: a symbolic link, and --no-follow"));
    }
    assert_eq!(sealed(&bench).samples.len(), 3);
    bench.pack(&["--force", "--no-follow"]).code(1);
    bench.pack(&["--force", "--no-labels", "--no-follow", "--on-bad", "skip"]).code(0).says("3 of ");
    // Symbolic links beside images, and in lists.
    bench.link("a/1.txt", raw.join("9.txt").to_str().unwrap());
    let with = ["--force", "--with", "txt", "--exclude", "{b/o*,c/**}"];
    bench.pack(&with).code(0);
    bench.pack(&[&with[..], &["--no-follow"]].concat()).code(1).says("1.txt beside it is a symbolic link");
    let list = bench.src().join("list.txt");
    fs::write(&list, "a/2.jpg x\nb/own.jpg y\nc/8.jpg y\n").unwrap();
    let (list, dst) = (list.to_str().unwrap(), bench.at("listed"));
    run(&["pack", list, dst.to_str().unwrap()]).code(0);
    let ran = run(&["pack", list, dst.to_str().unwrap(), "--no-follow", "--force", "--on-bad", "skip"]).code(0);
    ran.says("b/own.jpg: a symbolic link").says("c/8.jpg: a symbolic link");
    // The folder of a split is a symbolic link.
    let parted = Bench::with(&["train/a/1.jpg"]);
    parted.link("val", outside.src().to_str().unwrap());
    parted.pack(&["--no-labels", "--no-follow"]).code(1).says("val: a symbolic link, and --no-follow");
}

#[test]
fn the_common_extension_is_that_of_the_most_images() {
    let bench = Bench::with(&["a/1.jpg"]);
    bench.file("a/2.png", &png());
    bench.file("a/3.jpg", &png());
    bench.pack(&[]).code(0).says("a/1.jpg is a JPEG (kept; the component stays .png)");
    assert!(sealed(&bench).samples.iter().all(|sample| sample.components.contains_key("png")));
    bench.pack(&["--ext", "jpg", "--force"]).code(0);
    assert!(sealed(&bench).samples.iter().all(|sample| sample.components.contains_key("jpg")));
}

#[test]
fn options_decide_the_components() {
    let rows: [(&str, &[&str], &[&str]); 5] = [
        ("common", &[], &["cls", "jpg"]),
        ("no label", &["--cls", "none"], &["jpg"]),
        ("json", &["--meta", "json"], &["cls", "jpg", "json"]),
        ("json alone", &["--meta", "json", "--cls", "none"], &["jpg", "json"]),
        ("fixed", &["--ext", "jpeg"], &["cls", "jpeg"]),
    ];
    let bench = Bench::with(&["a/1.jpg", "b/\u{e9} \"x\"/2.jpg"]);
    bench.file("b/3.jpg", &png());
    for (row, options, expected) in rows {
        bench.pack(&[options, &["--force"]].concat()).code(0);
        for sample in sealed(&bench).samples {
            assert_eq!(sample.components.keys().collect::<Vec<_>>(), expected, "{row}");
            if let Some(bytes) = sample.components.get("json") {
                let json: serde_json::Value = serde_json::from_slice(bytes).unwrap();
                assert_eq!(json["path"].as_str().unwrap().as_bytes(), sample.path);
                assert_eq!(json["label"].as_i64(), Some(sample.label));
                assert_eq!(json["class"], ["a", "b"][sample.label as usize]);
            }
        }
    }
    bench.pack(&["--ext", "content", "--force"]).code(0).says("note    --ext content");
    for sample in sealed(&bench).samples {
        let expected = if sample.path == b"b/3.jpg" { "png" } else { "jpg" };
        assert!(sample.components.contains_key(expected));
    }
}

#[test]
fn shards_come_out_even_and_within_the_size() {
    let bench = Bench::with_source(200, 30_000);
    for size in [60_000u64, 200_000, 1_000_000, 5_000_000] {
        bench.pack(&["--shard-size", &format!("{size}B"), "--force"]).code(0);
        let dataset = sealed(&bench);
        let bytes: Vec<u64> = dataset.manifest.shards.iter().map(|shard| shard.bytes).collect();
        let (least, most) = (*bytes.iter().min().unwrap(), *bytes.iter().max().unwrap());
        // A sample takes up to 36 KB. If a shard has no room for four samples, it may be longer by one sample.
        assert!(most <= size + if size < 150_000 { 60_000 } else { 0 }, "{size}: {bytes:?}");
        assert!(most - least <= 80_000, "{size}: {bytes:?}");
    }
    bench.pack(&["--shard-samples", "64", "--force"]).code(0);
    assert_eq!(sealed(&bench).manifest.shards.iter().map(|shard| shard.samples).collect::<Vec<_>>(), [50; 4]);
    bench.pack(&["--shards", "200", "--force"]).code(0);
    assert_eq!(sealed(&bench).manifest.shards.len(), 200);
    bench.pack(&["--shards", "201", "--force"]).code(2).clean_error().says("--shards 201, and there are 200 samples");
    bench.pack(&["--shards", "0", "--force"]).code(2).clean_error().says("at least one sample");
    bench.pack(&["--shards", "2", "--shard-size", "1MiB", "--force"]).code(2);
    sealed(&bench);
}

// Allowed contents of DST.

#[test]
fn results_go_to_stdout_and_all_else_to_stderr() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    let ran = bench.pack(&[]).code(0);
    assert!(ran.stdout.starts_with("packed  2 of 2 images"), "{}", ran.stdout);
    assert!(ran.stderr.starts_with("found   2 images"), "{}", ran.stderr);
    let ran = bench.pack(&["--force", "--quiet"]).code(0);
    assert_eq!((ran.stderr.as_str(), ran.stdout.lines().count()), ("", 1));
    let ran = bench.pack(&["--force", "--json", "--quiet"]).code(0);
    let json = ran.json();
    assert_eq!(ran.stderr, "");
    let dataset = sealed(&bench);
    assert_eq!(json["datasets"][0]["id"], shardpack_format::hash::hex(&dataset.manifest.id.0));
    assert_eq!(json["datasets"][0]["samples"], 2);
    assert_eq!(json["sealed"], true);
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    bench.pack(&["--dry-run"]).code(0).says("found   2 images").says("largest files").says("space ");
    assert!(!bench.dst().exists());
    assert_eq!(bench.pack(&["--dry-run", "--json"]).code(0).json()["datasets"][0]["images"], 2);
}

#[test]
fn wrong_usage_is_refused_with_2() {
    let bench = Bench::with(&["a/1.jpg"]);
    let src = bench.src();
    let src = src.to_str().unwrap();
    let rows: [(&str, &[&str], &str); 8] = [
        ("no destination", &["pack", src], "DST"),
        ("unknown format", &["pack", src, "x", "--format", "zip"], "webdataset"),
        ("a size without sense", &["pack", src, "x", "--shard-size", "big"], "--shard-size"),
        ("no threads", &["pack", src, "x", "--jobs", "0"], "--jobs"),
        ("an extension that is taken", &["pack", src, "x", "--ext", "cls"], "--ext"),
        ("a name with a slash", &["pack", src, "x", "--name", "a/b"], "--name"),
        ("a plan and a source", &["pack", "--plan", "f", src, "x"], "--plan FILE names the source already"),
        ("a plan that is not there", &["pack", "--plan", "missing.plan", "x"], "missing.plan"),
    ];
    for (row, args, says) in rows {
        run(args).code(2).says(says);
        assert!(!Path::new("x").exists(), "{row}");
    }
}

#[test]
fn what_is_unpacked_from_a_plain_shard_is_what_tar_unpacks() {
    let bench = Bench::with_source(20, 3000);
    bench.pack(&["--shards", "1", "--meta", "json"]).code(0);
    let shard = bench.dst().join("shard-000000.tar");
    assert_eq!(plain(&shard).len() % 10_240, 0);
    let out = bench.at("out");
    fs::create_dir(&out).unwrap();
    let tar = std::process::Command::new("tar").arg("-xf").arg(&shard).arg("-C").arg(&out).status();
    let Ok(status) = tar else { return println!("no tar command here: only the tar crate was asked") };
    assert!(status.success());
    for (name, bytes) in shardpack_testing::members(&shard) {
        assert!(fs::read(out.join(&name)).unwrap() == bytes, "{name}");
    }
}
