//! Files next to the images as components (masks and captions), and images without labels.

use std::{fs, process::Command};

use shardpack_testing::{
    Bench, contents,
    lists::{list, mend, one, pack, samples, text, verify},
    run,
};

#[test]
fn images_without_labels_are_packed_wherever_they_lie() {
    let bench = Bench::with(&["1.jpg", "a/2.jpg", "a/b/3.jpg"]);
    pack(&bench.src(), &bench.at("classes"), &["--quiet"]).code(0);
    for format in ["webdataset", "tfrecord", "mds"] {
        let dst = bench.at(format);
        pack(&bench.src(), &dst, &["--no-labels", "--format", format]).code(0).says("3 images without labels");
        let samples = samples(&dst);
        assert_eq!(samples.keys().collect::<Vec<_>>(), ["1.jpg", "a/2.jpg", "a/b/3.jpg"]);
        assert!(samples.values().flatten().all(|sample| sample.0.is_none() && !sample.2.contains_key("cls")));
        verify(&dst, &bench.src(), &[]);
        mend(&dst, &bench.src());
        run(&["inspect", dst.to_str().unwrap(), "--samples"]).code(0);
        let back = bench.at(&format!("{format}-back"));
        run(&["convert", "--quiet", dst.to_str().unwrap(), back.to_str().unwrap()]).code(0);
        assert!(self::samples(&back).values().flatten().all(|sample| sample.0.is_none()));
    }
    pack(&bench.src(), &bench.at("rec"), &["--no-labels", "--format", "recordio"]).code(2).clean_error().says("label");
    fs::remove_dir_all(bench.src().join("a")).unwrap();
    pack(&bench.src(), &bench.at("top"), &[]).code(2).clean_error().says("--no-labels");
    let splits = Bench::with(&["train/1.jpg", "val/2.jpg"]);
    pack(&splits.src(), &splits.dst(), &["--no-labels", "--quiet"]).code(0);
    assert_eq!(samples(&splits.dst().join("val")).len(), 1);
}

#[test]
fn files_beside_images_are_components_of_their_samples() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg"]);
    let mask = shardpack_testing::png();
    for (path, bytes) in [
        ("a/1.txt", b"one".as_slice()),
        ("b/3.txt", b""),
        ("a/1_mask.png", &mask),
        ("a/2_mask.png", &mask),
        ("b/3_mask.png", &mask),
        ("a/stray.txt", b"stray"),
    ] {
        bench.file(path, bytes);
    }
    let options = ["--with", "txt,mask=*_mask.png"];
    for format in ["webdataset", "tfrecord", "mds"] {
        let dst = bench.at(format);
        let ran = pack(&bench.src(), &dst, &[&options[..], &["--format", format]].concat()).code(0);
        ran.says("3 images").says("1 of 3 images without txt beside them").says("1 txt without its image");
        let samples = samples(&dst);
        let get = |path: &str, name: &str| one(&samples, path).2.get(name).cloned();
        assert_eq!(get("a/1.jpg", "txt").unwrap(), b"one");
        assert_eq!(get("b/3.jpg", "txt").unwrap(), b"");
        assert_eq!(get("a/2.jpg", "txt"), if format == "webdataset" { None } else { Some(Vec::new()) });
        assert_eq!(get("a/2.jpg", "mask.png").unwrap(), mask);
        verify(&dst, &bench.src(), &[]);
        mend(&dst, &bench.src());
        let back = bench.at(&format!("{format}-back"));
        run(&["convert", "--quiet", dst.to_str().unwrap(), back.to_str().unwrap()]).code(0);
        assert_eq!(one(&self::samples(&back), "a/2.jpg").2["mask.png"], mask);
        verify(&back, &dst, &[]);
    }
    pack(&bench.src(), &bench.at("rec"), &[&options[..], &["--format", "recordio"]].concat())
        .code(2)
        .clean_error()
        .says("no place for txt");
    // Both read orders, both formats in one run, and a list as the source.
    let both = [&options[..], &["--format", "webdataset", "--format", "mds", "--read-order", "physical"]].concat();
    pack(&bench.src(), &bench.at("both"), &both).code(0);
    for format in ["webdataset", "mds"] {
        assert_eq!(contents(&bench.at("both").join(format)), contents(&bench.at(format)), "{format}");
    }
    let list = list(&bench, "list.csv", "path,score\na/1.jpg,1\na/2.jpg,2\n");
    pack(&list, &bench.at("list"), &options).code(0);
    let first = samples(&bench.at("list"));
    let first = one(&first, "a/1.jpg");
    assert_eq!(first.2.keys().collect::<Vec<_>>(), ["jpg", "json", "mask.png", "txt"]);
    verify(&bench.at("list"), &list, &[]);
    // A file next to an image changes: the dataset no longer matches the source.
    bench.file("a/1.txt", b"two");
    let dst = bench.at("webdataset");
    run(&["verify", dst.to_str().unwrap(), "--against", bench.src().to_str().unwrap()]).code(1).says("a/1.jpg");
}

#[test]
fn what_is_asked_of_files_beside_images_is_checked() {
    let bench = Bench::with(&["a/1.jpg"]);
    bench.file("a/1.json", b"{}");
    let with = |with: &[&str], said: &str| {
        let options: Vec<&str> = with.iter().flat_map(|with| ["--with", with]).collect();
        pack(&bench.src(), &bench.dst(), &options).code(2).clean_error().says(said);
    };
    with(&["a b"], "a component's name");
    with(&["x=mask.png"], "a pattern has one *");
    with(&["cls"], "the component cls is the label");
    with(&["txt", "txt"], "two components are called");
    let many: Vec<String> = (0..33).map(|number| format!("a{number}")).collect();
    with(&many.iter().map(String::as_str).collect::<Vec<_>>(), "at most 32");
    let json = pack(&bench.src(), &bench.dst(), &["--with", "json", "--meta", "json"]);
    json.code(2).clean_error().says("two components");
    pack(&bench.src(), &bench.dst(), &["--quiet", "--with", "json"]).code(0);
    assert_eq!(text(one(&samples(&bench.dst()), "a/1.jpg"), "json").unwrap(), "{}");
    verify(&bench.dst(), &bench.src(), &[]);
}

#[test]
fn what_a_dataset_has_beside_its_images_goes_along_or_is_left_behind() {
    let bench = Bench::with(&["1.jpg", "2.jpg"]);
    bench.file("1.txt", b"one");
    let list = list(&bench, "list.csv", "path,score\n1.jpg,0.10\n2.jpg,1e-7\n");
    for (name, options) in [("both", &["--with", "txt"][..]), ("txt", &["--with", "txt", "--meta", "none"])] {
        let dst = bench.at(name);
        pack(&list, &dst, &[&["--quiet"], options].concat()).code(0);
        verify(&dst, &list, &[]);
        for format in ["webdataset", "tfrecord", "mds"] {
            let back = bench.at(&format!("{name}-{format}"));
            let convert = ["convert", dst.to_str().unwrap(), back.to_str().unwrap(), "--format", format];
            run(&convert).code(0).says_not("left behind");
            verify(&back, &dst, &[]);
            assert_eq!(one(&samples(&back), "1.jpg").2["txt"], b"one");
            mend(&back, &dst);
        }
    }
    let (both, none) = (bench.at("both"), bench.at("none"));
    let convert = ["convert", both.to_str().unwrap(), none.to_str().unwrap(), "--meta", "none"];
    run(&convert).code(0).says("left behind: json, txt");
    assert_eq!(one(&samples(&none), "1.jpg").2.keys().collect::<Vec<_>>(), ["jpg"]);
    verify(&none, &both, &[]);
}

#[test]
fn webdataset_reads_masks_and_captions_with_their_images() {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    for name in ["a/1", "b/2"] {
        bench.file(format!("{name}_mask.png"), &shardpack_testing::png());
        bench.file(format!("{name}.txt"), name.as_bytes());
    }
    pack(&bench.src(), &bench.dst(), &["--quiet", "--with", "txt", "--with", "mask=*_mask.png"]).code(0);
    let script = "
import sys, webdataset
for sample in webdataset.WebDataset(sys.argv[1], shardshuffle=False).decode():
    assert sorted(key for key in sample if not key.startswith('__')) == ['cls', 'jpg', 'mask.png', 'txt'], sample.keys()
    print(sample['cls'], sample['txt'], sample['mask.png'][:4])
";
    let shard = bench.dst().join("shard-000000.tar");
    let out = Command::new(python).args(["-c", script]).arg(shard).output().unwrap();
    let mut lines: Vec<_> = String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    let expected = ["0 a/1 b'\\x89PNG'", "1 b/2 b'\\x89PNG'"];
    assert_eq!(lines, expected, "{}", String::from_utf8_lossy(&out.stderr));
}
