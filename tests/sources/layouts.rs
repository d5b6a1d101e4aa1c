//! Tests ambiguous trees and sources that are splits: each question, and that each answer works.

use std::{ffi::OsStr, fs, path::Path, process::Command};

use shardpack_testing::{Bench, Dataset, Ran, binary, contents, jpeg, run};

/// Runs the binary with these arguments in `folder`.
fn run_in(folder: &Path, args: &[&str]) -> Ran {
    Command::new(binary()).args(args).current_dir(folder).output().unwrap().into()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// ImageNet as downloaded, with three classes: the content of `ILSVRC/Data/CLS-LOC`.
fn imagenet() -> Bench {
    let bench = Bench::with(&[
        "train/n01440764/n01440764_1.JPEG",
        "train/n01440764/n01440764_2.JPEG",
        "train/n01443537/n01443537_1.JPEG",
        "train/n01484850/n01484850_1.JPEG",
    ]);
    for number in 1..=4u64 {
        bench.file(format!("val/ILSVRC2012_val_{number:08}.JPEG"), &jpeg(100 + number, 5100));
    }
    bench.file("test/ILSVRC2012_test_00000001.JPEG", &jpeg(200, 5200));
    bench
}

#[test]
fn splits_beside_what_is_none_are_a_question_and_each_answer_works() {
    // Name; files; expected question; answers, each with its splits (empty: one dataset).
    type Row<'r> = (&'r str, &'r [&'r str], &'r str, &'r [(&'r [&'r str], &'r [&'r str])]);
    let rows: [Row<'_>; 7] = [
        (
            "flat splits beside one of classes",
            &["train/a/1.jpg", "train/b/2.jpg", "val/3.jpg", "test/4.jpg"],
            "train looks like a split with class folders, test, val have none",
            &[(&["--splits", "train"], &["train"]), (&["--splits", "none"], &[])],
        ),
        (
            "a stray folder beside splits",
            &["train/a/1.jpg", "val/a/2.jpg", "meta/notes.jpg"],
            "train, val look like splits; meta does not",
            &[(&["--splits", "train,val"], &["train", "val"]), (&["--splits", "none"], &[])],
        ),
        (
            "flat splits alone",
            &["train/1.jpg", "val/2.jpg"],
            "train, val look like splits without classes",
            &[(&["--no-labels"], &["train", "val"]), (&["--splits", "none"], &[])],
        ),
        (
            "names in another case",
            &["Train/a/1.jpg", "Val/a/2.jpg"],
            "Train, Val look like splits",
            &[(&["--splits", "Train,Val"], &["Train", "Val"]), (&["--splits", "none"], &[])],
        ),
        (
            "one level too high",
            &["CLS-LOC/train/a/1.jpg", "CLS-LOC/val/a/2.jpg"],
            "all images would be of one class, CLS-LOC, and are in its subfolders, the first in CLS-LOC/train/a",
            &[(&["--splits", "none"], &[])],
        ),
        (
            "one level too high, beside folders without images",
            &["Annotations/a/1.xml", "Data/CLS-LOC/a/1.jpg", "Data/CLS-LOC/b/1.jpg", "ImageSets/x/train.txt"],
            "all images would be of one class, Data",
            &[(&["--splits", "none"], &[])],
        ),
        (
            "splits without labels beside another folder",
            &["train/x/1.jpg", "val/x/2.jpg", "extra/3.jpg"],
            "train, val look like splits; extra does not",
            &[(&["--splits", "train,val"], &["train", "val"]), (&["--splits", "none"], &[])],
        ),
    ];
    for (row, files, seen, answers) in rows {
        let bench = Bench::with(files);
        let asked: &[&str] = if row.contains("without labels") { &["--no-labels"] } else { &[] };
        let ran = bench.pack(asked).code(2).clean_error().says(seen).says(text(&bench.src()));
        assert!(!bench.dst().exists(), "{row}");
        // `plan` raises the same question.
        run(&["plan", text(&bench.src()), text(&bench.dst())].iter().chain(asked).collect::<Vec<_>>())
            .code(2)
            .says(seen);
        for (number, (answer, splits)) in answers.iter().enumerate() {
            assert!(ran.stderr.contains(answer[0]), "{row}: the help does not name {answer:?}:\n{}", ran.stderr);
            let dst = bench.at(&format!("dst-{number}"));
            let options: Vec<&str> = asked.iter().chain(*answer).copied().collect();
            bench.pack_to(&dst, &options).code(0);
            assert_eq!(dst.join("manifest.json").exists(), splits.is_empty(), "{row}: {answer:?}");
            for split in *splits {
                assert!(dst.join(split).join("manifest.json").exists(), "{row}: {answer:?}");
            }
            run(&["verify", text(&dst), "--quick"]).code(0);
        }
    }
    // `--splits` counts the folders that it leaves out.
    let bench = Bench::with(&["train/a/1.jpg", "val/a/2.jpg", "meta/notes.jpg"]);
    bench.pack(&["--splits", "train,val"]).code(0).says("1 folder that is not a split");
}

#[test]
fn splits_inside_of_classes_are_a_question_and_each_answer_works() {
    let whole = ["cat/train/1.jpg", "cat/train/2.jpg", "cat/test/3.jpg", "dog/train/4.jpg", "dog/test/5.jpg"];
    let rows: [(&str, &[&str], &str); 6] = [
        ("all", &whole, "test, train look like splits inside of classes: cat/test, cat/train, dog/test, dog/train"),
        (
            "one class without",
            &["cat/train/1.jpg", "cat/test/2.jpg", "dog/3.jpg"],
            "test, train look like splits inside of classes: cat/test, cat/train",
        ),
        (
            "one split a class",
            &["cat/train/1.jpg", "dog/test/2.jpg"],
            "test, train look like splits inside of classes: cat/train, dog/test",
        ),
        (
            "names in another case, deeper, with a third folder",
            &[
                "bottle/Train/good/1.png",
                "bottle/Test/broken/2.png",
                "bottle/ground_truth/broken/2.png",
                "cable/Train/good/3.png",
            ],
            "Test, Train look like splits inside of classes: bottle/Test, bottle/Train, cable/Train",
        ),
        (
            "a single class",
            &["cat/train/1.jpg", "cat/test/2.jpg", "cat/0.jpg"],
            "test, train look like splits inside of classes: cat/test, cat/train",
        ),
        (
            "beside what is a split by its name",
            &["test/1.jpg", "cat/val/1.jpg", "cat/train/2.jpg", "dog/3.jpg"],
            "train, val look like splits inside of classes",
        ),
    ];
    for (row, files, seen) in rows {
        let bench = Bench::with(files);
        let ran = bench.pack(&[]).code(2).clean_error().says(seen).says(text(&bench.src()));
        let ran = ran.says("--splits none").says("--include '*/").says("docs/how-to/recipes.md");
        assert!(!bench.dst().exists(), "{row}");
        run(&["plan", text(&bench.src()), text(&bench.dst())]).code(2).says(seen);
        bench.pack(&["--resize", "8"]).code(2).says(seen);
        // The pattern exactly as in the help.
        let (_, include) = ran.stderr.split_once("--include '").unwrap();
        let include = include.split('\'').next().unwrap();
        let name = include.trim_start_matches("*/").trim_end_matches("/**");
        let alone = bench.at("alone");
        bench.pack_to(&alone, &["--include", include]).code(0);
        let packed = Dataset::read(&alone);
        assert!(packed.paths().iter().all(|path| path.split('/').nth(1) == Some(name)), "{row}: {:?}", packed.paths());
        assert_eq!(packed.manifest.ledger.counts.discovered, files.len() as u64, "{row}: what is left out is counted");
        bench.pack(&["--splits", "none"]).code(0);
        Dataset::read(&bench.dst()).check_source(&bench.src());
        run(&["verify", text(&bench.dst()), "--against", text(&bench.src())]).code(0);
    }
    // The recipe exactly as written.
    let bench = Bench::with(&whole);
    bench.file("cat/test/with, comma.jpg", &jpeg(9, 5900));
    let recipes = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/recipes.md")).unwrap();
    let (_, section) = recipes.split_once("### Splits inside of classes").expect("a section about them");
    let script = section.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = bench.at("work");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(bench.src(), folder.join("SRC")).unwrap();
    let path = format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let script = format!("set -e\n{script}");
    let ran = Command::new("sh").arg("-c").arg(script).current_dir(&folder).env("PATH", &path).output().unwrap();
    Ran::from(ran).code(0).says("splits train, test");
    for (split, expected) in [
        ("train", &["cat/train/1.jpg", "cat/train/2.jpg", "dog/train/4.jpg"]),
        ("test", &["cat/test/3.jpg", "cat/test/with, comma.jpg", "dog/test/5.jpg"]),
    ] {
        let packed = Dataset::read(&folder.join("packed").join(split));
        let mut paths = packed.paths();
        paths.sort();
        assert_eq!((packed.classes(), paths), (vec!["cat", "dog"], expected.map(str::to_owned).to_vec()));
        for sample in &packed.samples {
            let path = String::from_utf8_lossy(&sample.path).into_owned();
            assert_eq!(sample.label, i64::from(path.starts_with("dog")), "{path}");
        }
    }
}

#[test]
fn classes_that_happen_to_be_called_like_splits_are_classes() {
    let rows: [&[&str]; 7] = [
        &["cat/test/1.jpg", "dog/2.jpg"],
        &["cat/test/1.jpg", "dog/test/2.jpg"],
        &["vehicles/train/1.jpg", "vehicles/car/1.jpg", "exams/test/2.jpg"],
        &["test/1.jpg", "cat/2.jpg", "dog/3.jpg"],
        &["cat/1.jpg"],
        &["cat/1.jpg", "cat/deep/2.jpg"],
        &["cat/deep/1.jpg", "dog/2.jpg"],
    ];
    for files in rows {
        let bench = Bench::with(files);
        bench.pack(&[]).code(0);
        Dataset::read(&bench.dst()).check_source(&bench.src());
    }
}

#[test]
fn a_split_without_class_folders_is_refused_with_what_helps() {
    let bench = imagenet();
    let ran = bench.pack(&["--splits", "train,val"]).code(2).clean_error();
    ran.says("split val has 4 images directly in it and no class folders").says("--split val=LIST");
}

#[test]
fn a_packed_dataset_is_no_tree_of_images() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    for path in ["train/a/1.jpg", "val/a/1.jpg"] {
        bench.file(bench.at("tree").join(path), &jpeg(1, 5100));
    }
    bench.shardpack("pack SRC @sealed").code(0);
    bench.shardpack("pack @tree @splits").code(0);
    bench.shardpack("pack SRC @formats --format webdataset --format mds").code(0);
    for name in ["lost", "adopted"] {
        fs::create_dir(bench.at(name)).unwrap();
        fs::copy(bench.at("sealed/shard-000000.tar"), bench.at(name).join("x.tar")).unwrap();
    }
    bench.shardpack("adopt @adopted").code(0);
    bench.shardpack("pack SRC @lost/below").code(0);
    fs::remove_file(bench.at("lost/below/manifest.json")).unwrap();
    fs::rename(bench.at("lost/below"), bench.at("manifest-lost")).unwrap();
    let unfinished = Bench::with(&["a/1.jpg"]);
    unfinished.file("a/2.jpg", b"");
    unfinished.pack_to(&bench.at("unfinished"), &[]).code(1);
    for source in ["sealed", "splits", "formats", "adopted", "manifest-lost", "unfinished"] {
        let rows = [
            "pack",
            "plan",
            "pack --files index",
            "pack --files tar --no-labels",
            "pack --no-labels",
            "pack --dry-run",
        ];
        for row in rows {
            let ran = bench.shardpack(&format!("{row} @{source} @out")).code(2).clean_error();
            ran.says("is a packed dataset, and no tree of images").says("shardpack convert packs it anew");
            assert!(!bench.at("out").exists(), "{row} {source}");
        }
    }
    bench.shardpack("slurm @sealed @out --array 4").code(2).says("shardpack convert packs it anew");
    // Trees of images may have files with these names, too.
    fs::create_dir_all(bench.src().join("index")).unwrap();
    for name in ["manifest.json", "splits.json", "index/3.jpg"] {
        let bytes = if name.ends_with("jpg") { jpeg(3, 5100) } else { b"{}".to_vec() };
        bench.file(name, &bytes);
    }
    bench.shardpack("pack SRC @out").code(0);
}

#[test]
fn sources_that_are_splits_share_one_list_of_classes() {
    let bench = imagenet();
    fs::write(
        bench.at("val.csv"),
        "path,label\nILSVRC2012_val_00000001.JPEG,n01484850\nILSVRC2012_val_00000002.JPEG,n01440764\n\
         ILSVRC2012_val_00000003.JPEG,n01484850\nILSVRC2012_val_00000004.JPEG,n01443537\n",
    )
    .unwrap();
    let (train, val) =
        (format!("train={}", text(&bench.src().join("train"))), format!("val={}", text(&bench.at("val.csv"))));
    let (root, dst) = (bench.src().join("val"), bench.dst());
    let sources = ["--split", &train, "--split", &val, "--root", text(&root)];
    let pack = |dst: &Path, more: &[&str]| {
        let args = [&["pack", text(dst)], sources.as_slice(), more].concat();
        run(&args)
    };
    pack(&bench.dst(), &[]).code(0).says("found   8 images in 3 classes").says("splits train, val");
    let (of_train, of_val) = (Dataset::read(&bench.dst().join("train")), Dataset::read(&bench.dst().join("val")));
    let classes = ["n01440764", "n01443537", "n01484850"];
    assert_eq!((of_train.classes(), of_val.classes()), (classes.to_vec(), classes.to_vec()));
    of_train.check_source(&bench.src().join("train"));
    let labels: Vec<_> = {
        let mut labels: Vec<_> =
            of_val.samples.iter().map(|one| (String::from_utf8_lossy(&one.path), one.label)).collect();
        labels.sort();
        labels.into_iter().map(|(_, label)| label).collect()
    };
    assert_eq!(labels, [2, 0, 2, 1]);
    for sample in &of_val.samples {
        assert_eq!(fs::read(root.join(OsStr::new(&*String::from_utf8_lossy(&sample.path)))).unwrap(), sample.image());
    }

    // The same command again, through a plan, in several formats, and with `--resize`.
    pack(&bench.dst(), &[]).code(0).says("nothing to do");
    let plan = bench.at("x.plan");
    let args = [&["plan", text(&dst), "-o", text(&plan)], sources.as_slice()].concat();
    run(&args).code(0).says("splits train, val");
    run(&["pack", "--plan", text(&plan), text(&bench.at("by-plan"))]).code(0);
    assert_eq!(contents(&bench.at("by-plan")), contents(&bench.dst()));
    pack(&bench.at("both"), &["--format", "mds", "--format", "webdataset"]).code(0);
    assert_eq!(contents(&bench.at("both/webdataset")), contents(&bench.dst()));
    pack(&bench.at("small"), &["--resize", "16"]).code(0);
    run(&["verify", text(&bench.at("small"))]).code(0);

    // Compared with all of the sources, and repaired from them.
    let against = |what: &str| {
        let args = ["verify", text(&dst), what, &train, what, &val, "--root", text(&root)];
        run(&args)
    };
    against("--against").code(0).says("8 samples");
    let shard = bench.dst().join("val/val-000000.tar");
    let whole = fs::read(&shard).unwrap();
    let mut bytes = whole.clone();
    bytes[3000] ^= 1;
    fs::write(&shard, bytes).unwrap();
    against("--against").code(1);
    against("--repair").code(0).says("mended  val/val-000000.tar");
    assert_eq!(fs::read(&shard).unwrap(), whole);
    bench.file("train/n01443537/new.jpg", &jpeg(900, 5000));
    against("--against").code(1).says("n01443537/new.jpg").says("in the source and not in the shards");
}

#[test]
fn sources_that_cannot_share_their_classes_are_refused() {
    let bench = imagenet();
    let train = format!("train={}", text(&bench.src().join("train")));
    let list = |name: &str, labels: [&str; 2]| {
        let path = bench.at(name);
        let rows = labels.iter().enumerate();
        let rows: String = rows.map(|(n, label)| format!("ILSVRC2012_val_0000000{}.JPEG {label}\n", n + 1)).collect();
        fs::write(&path, rows).unwrap();
        format!("val={}", text(&path))
    };
    let (dst, root) = (bench.dst(), bench.src().join("val"));
    let pack = |parts: &[&str], more: &[&str]| {
        let parts = parts.iter().flat_map(|part| ["--split", part]);
        run(&["pack", text(&dst)].into_iter().chain(parts).chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let at_root = ["--root", text(&root)];
    let numbered = list("numbered.txt", ["2", "0"]);
    pack(&[&train, &numbered], &at_root)
        .code(2)
        .clean_error()
        .says("val numbers its classes")
        .says("docs/how-to/recipes.md");
    let others = list("others.txt", ["cat", "dog"]);
    let ran = pack(&[&train, &others], &at_root).code(2).clean_error();
    ran.says("split val shares no class with split train").says("--class-map");
    // The advice of the help works.
    let map = bench.at("map.txt");
    fs::write(&map, "cat\tn01440764\ndog\tn01443537\n").unwrap();
    let mapped = [at_root.as_slice(), &["--class-map", text(&map)]].concat();
    pack(&[&train, &others], &mapped).code(0);
    run(&["verify", text(&dst)]).code(0);
    fs::remove_dir_all(&dst).unwrap();

    pack(&[&train, &train], &[]).code(2).clean_error().says("\"train\" is given twice");
    pack(&["train"], &[]).code(2).clean_error().says("NAME=SRC");
    pack(&["a/b=x"], &[]).code(2).clean_error().says("up to 100 ASCII letters");
    pack(&[&train], &["--splits", "train"]).code(2).clean_error().says("--splits NAMES and --split");
    pack(&[&train], &["--root", text(&root)]).code(2).clean_error().says("are for lists");
    let high = format!("all={}", text(&bench.src()));
    pack(&[&high], &[]).code(2).clean_error();
    let parted = Bench::with(&["train/a/1.jpg", "val/a/2.jpg"]);
    let high = format!("all={}", text(&parted.src()));
    pack(&[&high], &[]).code(2).clean_error().says("splits of its own: train, val");
    run(&["pack", text(&bench.src()), text(&dst), "--split", &train])
        .code(2)
        .clean_error()
        .says("--split already names the sources: give only DST");
    assert!(!dst.exists());
}

#[test]
fn a_split_may_have_more_beside_its_images_than_another() {
    let bench = imagenet();
    let (dst, root) = (bench.dst(), bench.src().join("val"));
    let train = format!("train={}", text(&bench.src().join("train")));
    fs::write(bench.at("more.csv"), "path,label,score\nILSVRC2012_val_00000001.JPEG,n01440764,0.5\n").unwrap();
    let more = format!("val={}", text(&bench.at("more.csv")));
    let told = |split: &str| {
        let dataset = shardpack_reader::Dataset::open(dst.join(split)).unwrap();
        let json = |number| dataset.sample(number).unwrap().component("json").map(<[u8]>::to_vec);
        (0..dataset.len()).map(json).collect::<Vec<_>>()
    };
    let pack = |options: &[&str]| {
        let line = ["pack", "--split", &train, "--split", &more, "--root", text(&root), text(&dst)];
        run(&[&line[..], options].concat()).code(0);
        run(&["verify", text(&dst)]).code(0);
    };
    pack(&[]);
    assert!(told("train").iter().all(Option::is_none));
    assert_eq!(told("val"), [Some(b"{\"score\":0.5}".to_vec())]);
    pack(&["--meta", "none", "--force"]);
    assert_eq!(told("val"), [None]);
}

#[test]
fn the_recipes_for_imagenet_work_as_they_are_written() {
    let recipes = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/recipes.md")).unwrap();
    let (_, section) = recipes.split_once("### ImageNet").expect("a section about ImageNet");
    let section = section.split("\n#").next().unwrap();
    let blocks: Vec<&str> = section.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 4, "three lists and a pack");
    let (lists, pack) = (&blocks[..3], blocks[3]);
    let mut made = Vec::new();
    for list in lists {
        let bench = imagenet();
        let folder = bench.at("work");
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(bench.src(), folder.join("CLS-LOC")).unwrap();
        // As Kaggle, the development kit and Caffe write it, with several boxes in one line.
        fs::write(
            folder.join("LOC_val_solution.csv"),
            "ImageId,PredictionString\nILSVRC2012_val_00000001,n01484850 1 2 3 4 n01484850 5 6 7 8 \n\
             ILSVRC2012_val_00000002,n01440764 1 2 3 4 \nILSVRC2012_val_00000003,n01484850 1 2 3 4 \n\
             ILSVRC2012_val_00000004,n01443537 9 9 9 9 \n",
        )
        .unwrap();
        fs::write(folder.join("map_clsloc.txt"), "n01484850 1 great_white\nn01443537 2 goldfish\nn01440764 3 tench\n")
            .unwrap();
        fs::write(folder.join("ILSVRC2012_validation_ground_truth.txt"), "1\n3\n1\n2\n").unwrap();
        let numbered: String =
            [2, 0, 2, 1].iter().zip(1..).map(|(label, n)| format!("ILSVRC2012_val_{n:08}.JPEG {label}\n")).collect();
        fs::write(folder.join("caffe_val.txt"), numbered).unwrap();
        let path = format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
        for script in [list, pack] {
            let script = format!("set -e\n{script}");
            let ran =
                Command::new("sh").arg("-c").arg(script).current_dir(&folder).env("PATH", &path).output().unwrap();
            Ran::from(ran).code(0);
        }
        let verify = run_in(
            &folder,
            &[
                "verify",
                "packed",
                "--against",
                "train=CLS-LOC/train",
                "--against",
                "val=val.txt",
                "--root",
                "CLS-LOC/val",
            ],
        );
        verify.code(0).says("8 samples");
        made.push(contents(&folder.join("packed")));
    }
    assert!(made.windows(2).all(|two| two[0] == two[1]));
}
