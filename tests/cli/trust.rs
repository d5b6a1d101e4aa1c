//! Files outside the destination stay untouched, other files are not samples, and an unfinished pack is not a dataset.

use std::{fs, os::unix::fs::symlink, process::Command};

use shardpack_testing::{
    Bench, jpeg,
    shards::{self, Tar, classes, convert},
};

#[test]
fn a_plan_replaces_a_plan_and_nothing_else() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    bench.pack(&[]).code(0);
    for (name, path) in [("photograph", bench.src().join("a/1.jpg")), ("manifest", bench.dst().join("manifest.json"))] {
        let before = fs::read(&path).unwrap();
        bench.shardpack(&format!("plan SRC -o {}", path.display())).code(2).says("is no plan file").clean_error();
        assert_eq!(fs::read(&path).unwrap(), before, "{name}");
    }
    bench.shardpack("plan SRC -o @x.plan").code(0);
    bench.shardpack("plan SRC -o @x.plan --seed 1").code(0);
    symlink("nothing", bench.at("link")).unwrap();
    bench.shardpack("plan SRC -o @link").code(2).says("is no plan file");
}

#[test]
fn a_sample_is_not_written_through_a_link_and_replaces_a_file_alone() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    bench.pack(&[]).code(0);
    fs::write(bench.at("other"), "other").unwrap();
    symlink("other", bench.at("link.jpg")).unwrap();
    bench.shardpack("inspect DST --extract a/1.jpg -o @link.jpg").code(2).says("is there already");
    bench.shardpack("inspect DST --extract a/1.jpg -o @link.jpg --force").code(0);
    assert_eq!(fs::read(bench.at("other")).unwrap(), b"other");
    assert!(!bench.at("link.jpg").is_symlink());
    bench.folder("folder.csv");
    assert!(Command::new("mkfifo").arg(bench.src().join("pipe.csv")).status().unwrap().success());
    for name in ["folder.csv", "pipe.csv"] {
        let there = bench.src().join(name);
        let kind = || fs::symlink_metadata(&there).unwrap().file_type();
        let before = kind();
        for line in ["inspect DST --extract a/1.jpg -o", "inspect DST --table"] {
            let ran = bench.shardpack(&format!("{line} {} --force", there.display())).code(2).clean_error();
            ran.says("which no file replaces");
        }
        assert_eq!(kind(), before, "{name}");
    }
    assert_eq!(fs::read(bench.at("link.jpg")).unwrap(), fs::read(bench.src().join("a/1.jpg")).unwrap());
}

#[test]
fn a_split_that_is_a_link_gets_no_crop_tables_and_is_not_mended() {
    let bench = Bench::with(&["train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg"]);
    bench.pack(&[]).code(0);
    fs::rename(bench.dst().join("val"), bench.at("victim")).unwrap();
    symlink(bench.at("victim"), bench.dst().join("val")).unwrap();
    let before = shardpack_testing::contents(&bench.at("victim"));
    bench.shardpack("crops DST").code(2).says("is a symbolic link").clean_error();
    let shard = before.keys().find(|path| path.extension().is_some_and(|extension| extension == "tar")).unwrap();
    let shard = bench.at("victim").join(shard);
    let whole = fs::read(&shard).unwrap();
    fs::write(&shard, &whole[1..]).unwrap();
    bench.shardpack("verify DST --repair SRC").code(2).says("is a symbolic link").clean_error();
    assert_eq!(fs::read(&shard).unwrap(), whole[1..]);
    fs::write(&shard, &whole).unwrap();
    assert_eq!(shardpack_testing::contents(&bench.at("victim")), before);
}

#[test]
fn archives_and_indexes_in_folders_of_classes_are_no_samples_unless_it_is_said() {
    for (name, says) in [
        ("all.zip", "archives"),
        ("all.tar", "archives"),
        ("x.tar.gz", "archives"),
        ("t10k-images-idx3-ubyte.gz", "archives"),
        ("a.index", "indexes"),
        ("train-00000-of-00001.parquet", "files that hold many samples each"),
        ("train.tfrecord", "shardpack convert reads the samples in them"),
        ("x.h5", "--files h5 packs each file as a sample"),
    ] {
        let bench = Bench::new();
        bench.file(format!("cat/{name}"), b"PK");
        bench.file(format!("dog/{name}"), b"PK");
        bench.pack(&[]).code(2).says(says).clean_error();
        let extension = name.rsplit_once('.').unwrap().1;
        bench.pack(&["--files", extension]).code(0);
    }
    // Medical volumes with the extension `.nii.gz` are samples, not archives.
    let bench = Bench::new();
    bench.file("cat/1.nii.gz", b"x");
    bench.file("dog/2.nii.gz", b"y");
    bench.pack(&[]).code(0);
    // Those of a patient are no samples of a class.
    let bench = Bench::new();
    for name in ["p1/p1_flair.nii.gz", "p1/p1_seg.nii.gz", "p2/p2_flair.nii.gz", "p2/p2_seg.nii.gz"] {
        bench.file(name, name.as_bytes());
    }
    bench.pack(&[]).code(2).says("several medical volumes of a patient").says("--files '*_NAME.nii.gz'");
    let options = ["--no-labels", "--files", "*_flair.nii.gz", "--with", "seg={stem-_flair.nii}_seg.nii.gz"];
    bench.pack(&options).code(0).says("2 of 2 samples");
}

#[test]
fn what_a_system_has_put_into_a_tar_is_counted_and_no_sample() {
    let bench = Bench::new();
    let image = jpeg(1, 5500);
    let tar =
        ["cat/1.jpg", "cat/2.jpg", "cat/@eaDir/1.jpg/SYNOPHOTO_THUMB.jpg", "dog/3.jpg", "dog/4.jpg", "#recycle/9.jpg"]
            .iter()
            .fold(Tar::new(), |tar, name| tar.file(name, &image));
    fs::write(bench.at("x.tar"), tar.bytes()).unwrap();
    convert(&[&bench.at("x.tar")], &bench.dst(), &[]).code(0);
    assert_eq!(classes(&bench.dst()), ["cat", "dog"]);
    let manifest = shards::manifest(&bench.dst());
    assert_eq!((manifest.samples, manifest.ignored_files["system"]), (4, 2));
}

#[test]
fn a_split_of_an_unfinished_pack_is_named_as_one_by_every_command() {
    let bench = Bench::with(&["train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg"]);
    bench.pack(&["--shards", "2", "--part", "1/2"]).code(0);
    let train = bench.dst().join("train");
    bench.shardpack("status @dst/train").code(2).says("is a split of an unfinished pack").says("shows the whole pack");
    bench.shardpack("status DST").code(0);
    for line in ["verify @dst/train", "convert @dst/train @out", "convert @dst/train @out --from webdataset"] {
        bench.shardpack(line).code(1).says("unfinished pack").says("run the same pack command again").clean_error();
    }
    let shards = format!("{}/*.tar", train.display());
    convert(&[std::path::Path::new(&shards)], &bench.at("out"), &["--from", "webdataset"])
        .code(1)
        .says("unfinished pack");
    bench.pack(&["--shards", "2", "--part", "2/2"]).code(0);
    bench.shardpack("merge DST").code(0);
    bench.shardpack("verify @dst/train").code(0);
}

#[test]
fn a_dry_run_refuses_what_the_run_refuses() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    let agree = |name: &str, line: &str, code: i32| {
        let there = || bench.dst().exists().then(|| shardpack_testing::contents(&bench.dst()));
        let before = there();
        bench.shardpack(&format!("{line} --dry-run")).code(code);
        assert_eq!(there(), before, "{name}");
        bench.shardpack(line).code(code);
    };
    agree("new", "pack SRC DST", 0);
    agree("the same again", "pack SRC DST", 0);
    agree("another dataset", "pack SRC DST --seed 1", 2);
    agree("another in its place", "pack SRC DST --seed 1 --force", 0);
    fs::create_dir(bench.at("garbage")).unwrap();
    fs::write(bench.at("garbage/manifest.json"), "x").unwrap();
    agree("a manifest that is none", "pack SRC @garbage", 2);
    symlink("nowhere", bench.at("dangling")).unwrap();
    agree("a link to nothing", "pack SRC @dangling", 2);
    bench.file("b/3.jpg", b"no image");
    bench.file("b/4.jpg", b"");
    agree("an empty image", "pack SRC @bad", 1);
}
