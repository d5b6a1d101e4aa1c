//! Where `pack` writes to: destinations that it refuses, replaces, resumes, or finds complete.

use std::{fs, os::unix::fs::symlink, path::Path};

use shardpack_testing::{Bench, Dataset, Ran, bad, contents, photo, sealed};

#[test]
fn the_same_command_on_a_sealed_folder_has_nothing_to_do() {
    let bench = Bench::with_source(30, 500);
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
fn a_sealed_folder_in_which_something_is_missing_or_short_is_not_called_done() {
    let (bench, _) = bad();
    let options = ["--shards", "2", "--on-bad", "skip"];
    bench.pack(&options).code(0);
    let files: Vec<_> = contents(&bench.dst()).into_iter().filter(|(_, hash)| !hash.is_empty()).collect();
    let before = contents(&bench.dst());
    assert!(files.len() >= 8, "{files:?}");
    for (file, _) in files.iter().filter(|(file, _)| !file.ends_with("manifest.json")) {
        let (path, kept) = (bench.dst().join(file), bench.at("kept"));
        for damage in ["missing", "short"] {
            fs::copy(&path, &kept).unwrap();
            match damage {
                "missing" => fs::remove_file(&path).unwrap(),
                _ => fs::write(&path, &fs::read(&kept).unwrap()[1..]).unwrap(),
            }
            let damaged = contents(&bench.dst());
            let ran = bench.pack(&options).code(1).clean_error().says("damaged now").says(file.to_str().unwrap());
            let mends = !file.ends_with("ledger.jsonl");
            assert_eq!(ran.stderr.contains("--repair SRC"), mends, "{}", ran.stderr);
            assert_eq!(contents(&bench.dst()), damaged);
            // The command in the help line repairs the dataset.
            if mends && damage == "missing" {
                let (dst, src) = (bench.dst(), bench.src());
                let args = ["verify", dst.to_str().unwrap(), "--repair", src.to_str().unwrap(), "--quiet"];
                shardpack_testing::run(&args).code(0);
                assert_eq!(contents(&bench.dst()), before);
            }
            fs::copy(&kept, &path).unwrap();
            bench.pack(&options).code(0).says("nothing to do");
        }
    }
    fs::remove_file(bench.dst().join("ledger.jsonl")).unwrap();
    bench.pack(&[&options[..], &["--force"]].concat()).code(0);
    assert_eq!(contents(&bench.dst()), before);
}

#[test]
fn an_image_that_was_replaced_by_one_of_the_same_length_is_told_by_its_time() {
    let bench = Bench::with_source(30, 500);
    bench.pack(&[]).code(0);
    bench.pack(&[]).code(0).says("names, lengths and options are unchanged").says_not("newer");
    let image = fs::read_dir(bench.src().join("class-1")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&image).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&image, bytes).unwrap();
    let name = image.file_name().unwrap().to_str().unwrap();
    bench.pack(&[]).code(0).says("1 file is newer than the dataset").says(name).says("--against SRC");
    assert_eq!(bench.pack(&["--json"]).code(0).json()["newer_files"], 1);
    let (dst, src) = (bench.dst(), bench.src());
    shardpack_testing::run(&["verify", dst.to_str().unwrap(), "--against", src.to_str().unwrap()])
        .code(1)
        .says("other bytes");
}

#[test]
fn a_folder_that_holds_something_else_is_refused_and_stays_as_it_was() {
    let other = Bench::with(&["x/1.jpg"]);
    let split = Bench::with(&["train/x/1.jpg", "val/x/2.jpg"]);
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    let rows: [(&str, &dyn Fn(&Path), &str); 6] = [
        ("another dataset", &|dst| drop(other.pack_to(dst, &[]).code(0)), "holds another dataset"),
        ("other options", &|dst| drop(bench.pack_to(dst, &["--seed", "1"]).code(0)), "holds another dataset"),
        ("splits", &|dst| drop(split.pack_to(dst, &[]).code(0)), "holds another dataset"),
        (
            "a file",
            &|dst| fs::create_dir(dst).and_then(|()| fs::write(dst.join("thesis.tex"), b"x")).unwrap(),
            "thesis.tex",
        ),
        (
            "a manifest of another tool",
            &|dst| fs::create_dir(dst).and_then(|()| fs::write(dst.join("manifest.json"), b"{")).unwrap(),
            "\"manifest.json\", which is no part of a dataset",
        ),
        (
            "a broken manifest",
            &|dst| {
                other.pack_to(dst, &[]).code(0);
                fs::write(dst.join("manifest.json"), b"{").unwrap();
            },
            "holds another dataset: its manifest.json is damaged",
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
    let many = Bench::with_source(40, 100);
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
    // Replaces splits by a dataset without splits, and the reverse.
    let (dst, whole_split) = (bench.at("dst-split"), bench.at("whole-split"));
    split.pack_to(&whole_split, &[]).code(0);
    split.pack_to(&dst, &[]).code(0);
    bench.pack_to(&dst, &["--force"]).code(0);
    assert_eq!(contents(&dst), contents(&whole), "splits before");
    split.pack_to(&dst, &["--force"]).code(0);
    assert_eq!(contents(&dst), contents(&whole_split), "none before");
    // Files of other programs stay, and so does a dataset in its own subfolder.
    fs::write(dst.join("thesis.tex"), b"x").unwrap();
    bench.pack_to(&dst.join("train"), &["--force"]).code(0);
    split.pack_to(&bench.at("sets/one"), &["--splits", "none"]).code(0);
    bench.pack_to(&bench.at("sets"), &["--force"]).code(2).clean_error().says("holds \"one\"");
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
    refused(bench.pack(&["--shards", "3", "--seed", "5"]), "--seed: was 0, is now 5");
    refused(bench.pack(&["--shards", "2"]), "shards: was --shards 3, is now --shards 2");
    let with_json = "--meta: was none, is now json";
    refused(bench.pack(&["--shards", "3", "--meta", "json"]), with_json);
    refused(bench.pack(&["--shards", "3", "--compress", "zstd"]), "--compress: was none, is now zstd:3");
    refused(bench.pack(&["--shards", "3", "--order", "source"]), "--order: was shuffled, is now source");
    refused(bench.pack(&["--shards", "3", "--name", "x"]), "--name: was shard, is now x");
    bench.file("b/new.jpg", &photo());
    // A changed source is reported, and `pack` resumes if at least one finished shard stays valid.
    bench.file("b/new.jpg", &photo());
    bench.pack(&["--shards", "3"]).code(1).says("b/new.jpg is new since then");
    fs::remove_file(bench.src().join("b/new.jpg")).unwrap();
    bench.pack(&["--shards", "3"]).code(1).says("b/new.jpg is gone since then");
    let (path, kept) = (bench.src().join("b/2.jpg"), bench.at("kept"));
    fs::rename(&path, &kept).unwrap();
    let ran = bench.pack(&["--shards", "3"]).says("b/2.jpg is gone since then").says("finished shard");
    assert!([1, 2].contains(&ran.code));
    fs::rename(&kept, &path).unwrap();
    fs::remove_file(bench.src().join("a/empty.jpg")).unwrap();
    // Skipped images are not in the shards, so all finished shards stay.
    let ran = bench.pack(&["--shards", "3"]).code(1).says("could not be packed");
    ran.says("other images are left out since then: 3 of 3 finished shards stayed");
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
    // A folder next to the source is accepted, even if its name begins with the name of the source.
    bench.pack_to(&bench.at("src-packed"), &[]).code(0);
}

#[test]
fn a_destination_beside_a_source_that_is_a_file_is_fine_whatever_becomes_of_the_images() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    fs::create_dir(bench.at("in")).unwrap();
    bench.pack(&[]).code(0);
    fs::rename(bench.dst().join("shard-000000.tar"), bench.at("in/x.tar")).unwrap();
    fs::create_dir(bench.at("in/a")).unwrap();
    fs::copy(bench.src().join("a/1.jpg"), bench.at("in/a/1.jpg")).unwrap();
    fs::write(bench.at("in/list.csv"), b"path,label\na/1.jpg,0\n").unwrap();
    let at = |name: &str| bench.at(name).to_str().unwrap().to_owned();
    for (number, change) in [&[][..], &["--resize", "32"], &["--rotate"]].into_iter().enumerate() {
        for (command, source, samples) in [("convert", "in/x.tar", 2), ("pack", "in/list.csv", 1)] {
            let dst = at(&format!("in/{command}-{number}"));
            shardpack_testing::run(&[&[command, &at(source), &dst][..], change].concat()).code(0);
            assert_eq!(Dataset::read(Path::new(&dst)).samples.len(), samples);
            // The folder of the source files is refused before any image is changed.
            let before = contents(&bench.at("in"));
            let ran =
                shardpack_testing::run(&[&[command, &at(source), &at("in"), "--force"][..], change].concat()).code(2);
            ran.clean_error().says("lies inside the source");
            assert_eq!(contents(&bench.at("in")), before);
        }
    }
}

#[test]
fn a_destination_may_be_relative_and_deep() {
    let bench = Bench::with(&["a/1.jpg"]);
    let mut command = assert_cmd::Command::new(shardpack_testing::binary());
    let ran: Ran = command.current_dir(bench.at("")).args(["pack", "src", "x/y/packed"]).output().unwrap().into();
    ran.code(0).says("wds.WebDataset(\"x/y/packed/shard-000000.tar\")");
    Dataset::read(&bench.at("x/y/packed")).check_source(&bench.src());
}

// Messages.

#[test]
fn a_sealed_dataset_of_something_else_is_said_to_differ_in_what_it_does() {
    let bench = Bench::with(&["train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg"]);
    bench.pack(&["--shards", "1"]).code(0);
    let before = contents(&bench.dst());
    let rows: [(&[&str], &str); 8] = [
        (&["--seed", "5"], "--seed: was 0, is now 5"),
        (&["--order", "source"], "--order: was shuffled, is now source"),
        (&["--format", "mds"], "--format: was webdataset, is now mds"),
        (&["--compress", "zstd"], "--compress: was none, is now zstd:3"),
        (&["--meta", "json"], "parts of a sample (--ext, --cls, --meta): was jpg, cls, is now jpg, cls, json"),
        (&["--resize", "8"], "images (--resize, --encode, --fix, --rotate): was as they are, is now changed by "),
        (&["--splits", "none"], "splits: was train, val, is now none"),
        (&["--shards", "2"], "shards: was 1 of "),
    ];
    for (options, what) in rows {
        let options = if options[0] == "--shards" { options.to_vec() } else { [options, &["--shards", "1"]].concat() };
        let ran = bench.pack(&options).code(2).clean_error();
        ran.says(&format!("holds another dataset: {what}")).says("--force to replace it");
        assert_eq!(contents(&bench.dst()), before, "{options:?}");
    }
    bench.file("train/b/new.jpg", &photo());
    bench.pack(&["--shards", "1"]).code(2).says("images: was 2, is now 3");
}

// Changes between two runs.

#[test]
fn what_was_finished_stays_where_a_bad_image_was_mended() {
    let bench = Bench::with_source(60, 500);
    let image = fs::read_dir(bench.src().join("class-1")).unwrap().next().unwrap().unwrap().path();
    let good = fs::read(&image).unwrap();
    // With `--check full` the copy refuses half an image.
    let checked = ["--shards", "6", "--check", "full"];
    fs::write(&image, &good[..good.len() / 2]).unwrap();
    bench.pack(&checked).code(1).says("mend them and run the same command again").says("1 image could not be packed");
    assert_eq!(contents(&bench.dst().join("index")).len(), 5, "five of six shards are finished");
    fs::write(&image, &good).unwrap();
    let ran = bench.pack(&checked).code(0).says("was changed since then: 5 of 5 finished shards stayed");
    ran.says("5 of 6 shards were finished before");
    Dataset::read(&bench.dst()).check_source(&bench.src());
    let whole_checked = bench.at("whole-checked");
    bench.pack_to(&whole_checked, &checked).code(0);
    assert_eq!(contents(&bench.dst()), contents(&whole_checked));

    // One image fewer changes the order: no shard would stay, and `pack` reports this before anything is lost.
    let dst = bench.at("less");
    fs::write(&image, &good[..good.len() / 2]).unwrap();
    bench.pack_to(&dst, &checked).code(1);
    let before = contents(&dst);
    fs::remove_file(&image).unwrap();
    let ran = bench.pack_to(&dst, &checked).code(2).clean_error().says("is gone since then");
    ran.says("none of its 5 finished shards would stay").says("--force");
    assert_eq!(contents(&dst), before);
    bench.pack_to(&dst, &[&checked[..], &["--force"]].concat()).code(0);
    Dataset::read(&dst).check_source(&bench.src());
    // In source order, the shards before the change stay.
    let dst = bench.at("source");
    let ordered = [&checked[..], &["--order", "source"]].concat();
    let last = fs::read_dir(bench.src().join("class-6")).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    let good = fs::read(&last).unwrap();
    fs::write(&last, &good[..good.len() / 2]).unwrap();
    bench.pack_to(&dst, &ordered).code(1);
    fs::remove_file(&last).unwrap();
    bench.pack_to(&dst, &ordered).code(0).says("is gone since then").says(" stayed, the others");
    Dataset::read(&dst).check_source(&bench.src());
}

#[test]
fn a_source_that_changes_anyhow_between_two_runs_gives_what_one_run_gives() {
    let mut rng = shardpack_testing::Rng::new(31);
    let mut stayed = 0;
    for round in 0..12 {
        let bench = Bench::with_source(40, 400);
        let options: &[&str] = match round % 4 {
            0 => &["--shards", "8", "--check", "full"],
            1 => &["--shards", "8", "--check", "full", "--order", "source"],
            2 => &["--shard-size", "60KiB", "--check", "full", "--compress", "zstd"],
            _ => &["--shards", "5", "--check", "full", "--format", "mds", "--compress", "zstd"],
        };
        let mut files: Vec<_> = contents(&bench.src()).into_keys().filter(|path| path.extension().is_some()).collect();
        files.sort();
        let pick = |rng: &mut shardpack_testing::Rng| bench.src().join(&files[rng.below(files.len() as u64) as usize]);
        let bad = pick(&mut rng);
        let good = fs::read(&bad).unwrap();
        fs::write(&bad, &good[..good.len() / 2]).unwrap();
        bench.pack(options).code(1);
        // The bad image is repaired, and up to two others change: same length, another length, or removed.
        fs::write(&bad, &good).unwrap();
        for _ in 0..rng.below(3) {
            let other = pick(&mut rng);
            let mut bytes = fs::read(&other).unwrap();
            match rng.below(3) {
                0 => bytes[30] ^= 1,
                1 => bytes.extend([0; 9]),
                _ => {
                    let _ = fs::rename(&other, other.with_extension("jpeg"));
                    continue;
                }
            }
            if other.exists() {
                fs::write(&other, bytes).unwrap();
            }
        }
        let ran = bench.pack(options);
        if ran.code == 2 {
            ran.clean_error().says("would stay");
            bench.pack(&[options, &["--force"]].concat()).code(0);
        } else if ran.code == 0 {
            stayed += usize::from(ran.stdout.contains(" stayed, the others"));
        }
        let whole = bench.at("whole");
        let one = bench.pack_to(&whole, options);
        if one.code == 0 {
            assert_eq!(contents(&bench.dst()), contents(&whole), "round {round}");
        }
    }
    assert!(stayed >= 4, "{stayed} of 12");
}

/// A folder of another user, which must not change.
fn strangers(bench: &Bench) -> std::path::PathBuf {
    for (path, bytes) in [("keep/me.txt", "mine"), ("lock", ""), ("plan", "mine"), ("train/shard-000000.tar", "mine")] {
        bench.file(bench.at("strangers").join(path), bytes.as_bytes());
    }
    bench.at("strangers")
}

#[test]
fn nothing_is_written_moved_or_removed_where_a_link_in_the_place_of_our_own_folders_leads() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    bench.file(bench.at("tree/train/a/1.jpg"), &photo());
    bench.file(bench.at("tree/val/a/1.jpg"), &photo());
    bench.shardpack("pack SRC @sealed").code(0);
    let strangers = strangers(&bench);
    let before = contents(&strangers);
    let rows = [
        ("pack SRC DST", ""),
        ("pack SRC DST --force", ""),
        ("pack SRC DST --resize 8", ""),
        ("pack SRC DST --format webdataset --format mds", "webdataset"),
        ("pack SRC DST --format webdataset --format mds --resize 8", "webdataset"),
        ("pack @tree DST", ""),
        ("pack SRC DST --part 1/2", ""),
        ("pack SRC DST --resize 8 --part 1/2", ""),
        ("convert @sealed DST", ""),
        ("merge DST", ""),
    ];
    for (command, below) in rows {
        let dst = bench.dst().join(below);
        fs::create_dir_all(&dst).unwrap();
        let work = dst.join(".shardpack");
        symlink(&strangers, &work).unwrap();
        let ran = bench.shardpack(command).code(2).clean_error();
        assert!(ran.stderr.contains(&format!("{}: is a symbolic link", work.display())), "{command}: {}", ran.stderr);
        assert_eq!(contents(&strangers), before, "{command}");
        fs::remove_file(&work).unwrap();
        // The same with a real work folder that contains links.
        if !["pack SRC DST", "pack SRC DST --resize 8", "pack SRC DST --part 1/2", "merge DST"].contains(&command) {
            fs::remove_dir_all(bench.dst()).unwrap();
            continue;
        }
        for name in ["lock", "plan", "made", "replaced", "replaced.part", "discarded", "splits", "runs", "spools"] {
            fs::create_dir(&work).unwrap();
            symlink(strangers.join(if name == "lock" { "lock" } else { "" }), work.join(name)).unwrap();
            bench.shardpack(command).code(2).clean_error();
            assert_eq!(contents(&strangers), before, "{command}: {name}");
            fs::remove_dir_all(&work).unwrap();
        }
        fs::remove_dir_all(bench.dst()).unwrap();
    }
}

#[test]
fn folders_of_a_dataset_that_are_links_are_not_written_to() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    let strangers = strangers(&bench);
    let before = contents(&strangers);
    let dst = bench.dst();
    // Folders of an unfinished pack.
    bench.file(bench.src().join("b/3.jpg"), b"");
    bench.pack(&[]).code(1);
    fs::remove_file(bench.src().join("b/3.jpg")).unwrap();
    fs::remove_dir_all(dst.join("index")).unwrap();
    symlink(&strangers, dst.join("index")).unwrap();
    bench.pack(&[]).code(2);
    bench.pack(&["--force"]).code(2);
    assert_eq!(contents(&strangers), before);
    fs::remove_dir_all(&dst).unwrap();
    // Folders of a dataset under repair, or of one that gets crop tables.
    bench.pack(&[]).code(0);
    fs::rename(dst.join("index"), bench.at("index")).unwrap();
    symlink(bench.at("index"), dst.join("index")).unwrap();
    let index = bench.at("index/shard-000000.index");
    let mut bytes = fs::read(&index).unwrap();
    bytes[100] ^= 1;
    let (whole, bytes) = (fs::read(&index).unwrap(), bytes);
    fs::write(&index, bytes).unwrap();
    let damaged = contents(&bench.at("index"));
    bench.shardpack("verify DST --repair SRC").code(2).clean_error().says("index: is a symbolic link");
    assert_eq!(contents(&bench.at("index")), damaged);
    fs::write(&index, whole).unwrap();
    let before_crops = contents(&bench.at("index"));
    bench.shardpack("crops DST").code(2).clean_error().says("index: is a symbolic link");
    assert_eq!(contents(&bench.at("index")), before_crops);
    fs::remove_file(dst.join("index")).unwrap();
    fs::rename(bench.at("index"), dst.join("index")).unwrap();
    symlink(&strangers, dst.join(".shardpack-repair")).unwrap();
    let shard = dst.join("shard-000000.tar");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[600] ^= 1;
    fs::write(&shard, bytes).unwrap();
    bench.shardpack("verify DST --repair SRC").code(2).clean_error().says(".shardpack-repair: is a symbolic link");
    assert_eq!(contents(&strangers), before);
    fs::remove_file(dst.join(".shardpack-repair")).unwrap();
    bench.shardpack("verify DST --repair SRC").code(0);
    // Folders of a format.
    fs::create_dir(bench.at("formats")).unwrap();
    symlink(&dst, bench.at("formats/mds")).unwrap();
    let packed = contents(&dst);
    let ran = bench.shardpack("pack SRC @formats --format webdataset --format mds --force").code(2).clean_error();
    ran.says("mds: is a symbolic link");
    assert_eq!(contents(&dst), packed);
    // Folders of adopted shards.
    fs::create_dir(bench.at("adopted")).unwrap();
    fs::copy(&shard, bench.at("adopted/x.tar")).unwrap();
    for name in ["index", ".shardpack"] {
        symlink(&strangers, bench.at("adopted").join(name)).unwrap();
        bench.shardpack("adopt @adopted").code(2).clean_error();
        fs::remove_file(bench.at("adopted").join(name)).unwrap();
    }
    assert_eq!(contents(&strangers), before);
    bench.shardpack("adopt @adopted").code(0);
}

#[test]
fn a_link_under_a_name_that_a_file_has_until_it_is_finished_leads_nowhere() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    fs::write(bench.at("victim"), "mine").unwrap();
    bench.pack(&[]).code(0);
    let dst = bench.dst();
    let (crops, table) = (dst.join("index/shard-000000.crops.part"), bench.at("t.csv"));
    let rows = [
        ("plan SRC DST -o @p", bench.at("p.part"), bench.at("p")),
        ("crops DST", crops, dst.join("index/shard-000000.crops")),
        ("inspect DST --table @t.csv", bench.at("t.csv.tmp"), table),
    ];
    for (command, link, made) in rows {
        symlink(bench.at("victim"), &link).unwrap();
        bench.shardpack(command).code(0);
        assert!(made.metadata().unwrap().len() > 4 && !made.is_symlink(), "{command}");
        assert_eq!(fs::read(bench.at("victim")).unwrap(), b"mine", "{command}");
        let _ = fs::remove_file(link);
    }
}

#[test]
fn a_destination_is_looked_at_before_the_source_is_listed() {
    let bench = Bench::with(&["a/1.jpg"]);
    let strange = |name: &str| {
        fs::create_dir(bench.at(name)).unwrap();
        fs::write(bench.at(name).join("thesis.tex"), "").unwrap();
    };
    strange("strange");
    fs::create_dir(bench.at("formats")).unwrap();
    strange("formats/mds");
    fs::write(bench.at("file"), "").unwrap();
    bench.shardpack("pack SRC @sealed").code(0);
    // The folder is empty: if it were listed first, its error would come first.
    fs::create_dir(bench.at("empty")).unwrap();
    for source in ["pack @empty", "pack @empty --dry-run", "pack @empty --part 1/2", "convert @sealed"] {
        bench.shardpack(&format!("{source} @strange")).code(2).clean_error().says("thesis.tex");
        for dst in ["@file", "@file/below", "@file/far/below"] {
            bench.shardpack(&format!("{source} {dst}")).code(2).clean_error().says("file: is a file, not a folder");
        }
    }
    let formats = "--format webdataset --format mds";
    bench.shardpack(&format!("pack @empty @formats {formats}")).code(2).says("thesis.tex");
    bench.shardpack(&format!("convert @sealed @formats {formats}")).code(2).says("thesis.tex");
    assert!(!bench.at("formats/webdataset").exists());
}

#[test]
fn a_dry_run_refuses_what_the_run_refuses() {
    let bench = Bench::with(&["a/1.jpg"]);
    for options in [&["--sidecars", "x"][..], &["--sidecars", "dali", "--format", "mds"], &["--memory", "1KiB"]] {
        let said = bench.pack(options).code(2).stderr;
        let ran = bench.pack(&[options, &["--dry-run"]].concat()).code(2).clean_error();
        assert!(ran.stdout.is_empty() && said.ends_with(&ran.stderr), "{said}\n{}", ran.stderr);
    }
}

#[test]
fn shards_of_what_is_not_finished_are_half_of_a_dataset() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg"]);
    bench.file("b/5.jpg", b"");
    for path in ["train/a/1.jpg", "val/a/1.jpg"] {
        bench.file(bench.at("tree").join(path), &photo());
    }
    bench.file(bench.at("tree/val/a/2.jpg"), b"");
    bench.pack(&["--format", "mds", "--shards", "4"]).code(1);
    bench.shardpack("pack @tree @splits --format mds").code(1);
    for folder in [bench.dst(), bench.at("splits/train")] {
        let shards = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let shards: Vec<_> = shards.filter(|path| path.extension().is_some_and(|end| end == "mds")).collect();
        assert!(!shards.is_empty());
        let with = |before: &[&str], after: &[&Path]| {
            let words =
                before.iter().map(Path::new).chain(shards.iter().map(|shard| &**shard)).chain(after.iter().copied());
            shardpack_testing::run(&words.collect::<Vec<_>>()).clean_error().says("an unfinished pack")
        };
        with(&["verify"], &[]).code(1);
        with(&["convert"], &[&bench.at("out")]).code(1);
        with(&["inspect"], &[]).code(2);
        assert!(!bench.at("out").exists());
    }
    fs::remove_file(bench.src().join("b/5.jpg")).unwrap();
    bench.pack(&["--format", "mds", "--shards", "4"]).code(0);
}

#[test]
fn of_two_formats_one_is_no_dataset_of_both() {
    let bench = Bench::with(&["a/1.jpg"]);
    bench.pack(&["--format", "webdataset", "--format", "mds"]).code(0);
    bench.shardpack("verify DST").code(0);
    // The state of the second format while the first is packed.
    fs::remove_dir_all(bench.dst().join("mds")).unwrap();
    fs::create_dir_all(bench.dst().join("mds/.shardpack")).unwrap();
    bench.shardpack("verify DST").code(1).says("mds").says("an unfinished pack");
    bench.shardpack("status DST").code(2).says("unfinished: mds").says("shardpack status ");
    bench.shardpack(&format!("status {}", bench.dst().join("mds").display())).code(0).says("not planned yet");
    bench.pack(&["--format", "webdataset", "--format", "mds"]).code(0);
    bench.shardpack("verify DST").code(0);
    bench.shardpack("status DST").code(0).says("nothing is unfinished here");
    // If the first format is refused, the second leaves no files.
    let refused = Bench::with(&["a/1.jpg"]);
    refused.pack(&["--format", "webdataset", "--format", "mds", "--sidecars", "x"]).code(2);
    assert!(!refused.dst().exists());
}

#[test]
fn images_that_are_changed_are_something_unfinished() {
    let bench = Bench::with(&["a/1.jpg"]);
    let work = bench.dst().join(".shardpack");
    fs::create_dir_all(&work).unwrap();
    bench.shardpack("status DST").code(0).says("shards  are not planned yet");
    fs::write(work.join("made"), "").unwrap();
    bench.shardpack("status DST").code(0).says("images  are changed first: shards are planned when all are changed");
    let json = bench.shardpack("status DST --json").code(0).json();
    assert_eq!((json["unfinished"].as_bool(), json["changing"].as_bool()), (Some(true), Some(true)));
    bench.pack(&["--resize", "8"]).code(0);
    bench.shardpack("status DST").code(0).says("nothing is unfinished here");
}
