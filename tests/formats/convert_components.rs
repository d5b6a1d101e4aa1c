//! Components of shards other than image and label are kept byte for byte: captions, texts, masks.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use shardpack_testing::{
    Bench, binary, contents, jpeg,
    lists::{self, mend, one, verify},
    run,
    shards::{Feature, Tar, convert, gzip, manifest, samples, tf_record},
    sweep,
};

const CAPTION: &[u8] = b"a cat, na\xc3\xafve\0\xff\n";

/// A tar with three samples: the first has all components, the second has no caption, the third an empty caption.
fn image_text(bench: &Bench) -> PathBuf {
    let tar = Tar::new()
        .sample("a/1", "0", &jpeg(1, 5001))
        .file("a/1.txt", CAPTION)
        .file("a/1.json", br#"{"url": "x", "n": 1.50}"#)
        .file("a/1.seg.npy", &[7; 1025])
        .sample("a/2", "1", &jpeg(2, 7000))
        .file("a/2.json", b"{}")
        .sample("a/3", "1", &jpeg(3, 8000))
        .file("a/3.json", b"no json at all")
        .file("a/3.txt", b"");
    let path = bench.at("x.tar");
    fs::write(&path, tar.bytes()).unwrap();
    path
}

/// Components, by name, of the sample whose image has `image_bytes` bytes.
fn components(dst: &Path, image_bytes: usize) -> BTreeMap<String, Vec<u8>> {
    let all = lists::samples(dst);
    let is_it = |components: &&BTreeMap<String, Vec<u8>>| components.values().any(|bytes| bytes.len() == image_bytes);
    all.values().flatten().map(|sample| &sample.2).find(is_it).unwrap().clone()
}

fn ignored(dst: &Path) -> Vec<(String, u64)> {
    manifest(dst).ignored_files.into_iter().collect()
}

#[test]
fn captions_come_back_byte_for_byte_whatever_the_formats() {
    let bench = Bench::new();
    let plain = image_text(&bench);
    let packed = bench.at("packed");
    fs::create_dir(&packed).unwrap();
    let (zst, gz) = (packed.join("x.tar.zst"), bench.at("y.tar.gz"));
    fs::write(&zst, zstd::encode_all(fs::File::open(&plain).unwrap(), 3).unwrap()).unwrap();
    fs::write(&gz, gzip(&fs::read(&plain).unwrap())).unwrap();
    for (source, format) in [(&plain, "webdataset"), (&zst, "mds"), (&gz, "tfrecord"), (&plain, "tfrecord")] {
        let dst = bench.at(&format!("{format}-{}", source.extension().unwrap().to_str().unwrap()));
        let ran = convert(&[source], &dst, &["--format", format]).code(0);
        ran.says("components txt, json, seg.npy").says("1 of 3 images without txt beside them").says_not("left out");
        let first = components(&dst, 5001);
        assert_eq!(first["txt"], CAPTION, "{format}");
        assert_eq!(first["json"], br#"{"url": "x", "n": 1.50}"#, "{format}");
        assert_eq!(first["seg.npy"], [7; 1025], "{format}");
        // A missing component stays missing if the format can record this; an empty component is present.
        let lacking = if format == "webdataset" { None } else { Some(Vec::new()) };
        assert_eq!(components(&dst, 7000).get("txt"), lacking.as_ref(), "{format}");
        assert_eq!(components(&dst, 8000)["txt"], b"", "{format}");
        assert_eq!(components(&dst, 8000)["json"], b"no json at all", "{format}");
        assert_eq!(ignored(&dst), [], "{format}");
        verify(&dst, source, &[]);
        mend(&dst, source);
        // And on from there: the output as a dataset and as foreign shards.
        let again = bench.at(&format!("again-{format}"));
        convert(&[&dst], &again, &["--quiet"]).code(0);
        assert_eq!(components(&again, 5001)["txt"], CAPTION);
        verify(&again, &dst, &[]);
        let shard = dst.join(&manifest(&dst).shards[0].file);
        let foreign = bench.at(&format!("foreign-{format}"));
        convert(&[&shard], &foreign, &["--quiet", "--force"]).code(0);
        assert_eq!(components(&foreign, 5001)["txt"], CAPTION, "{format}");
        assert_eq!(components(&foreign, 5001)["seg.npy"], [7; 1025], "{format}");
        fs::remove_dir_all(again).unwrap();
        fs::remove_dir_all(foreign).unwrap();
    }
}

/// A `.npy` file of float32 zeros with the axes `shape`, written as numpy writes it.
fn zeros(shape: &str, items: usize) -> Vec<u8> {
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend(format!("{head:<117}\n").bytes());
    file.resize(file.len() + 4 * items, 0);
    file
}

#[test]
fn arrays_beside_images_have_their_dtype_and_shape() {
    let bench = Bench::new();
    let (boxes, damaged) = (zeros("(2, 4)", 8), [&zeros("(3,)", 3)[..], b"x"].concat());
    let sample = |tar: Tar, key: &str, image: &[u8], third: &[u8]| {
        let tar = tar.sample(key, "0", image).file(&format!("{key}.score.npy"), &zeros("()", 1));
        tar.file(&format!("{key}.boxes.npy"), &boxes).file(&format!("{key}.third.npy"), third)
    };
    let tar = sample(Tar::new(), "a/1", &jpeg(1, 5001), &damaged);
    let tar = sample(tar, "a/2", &jpeg(2, 7000), &zeros("(3,)", 3));
    let path = bench.at("x.tar");
    fs::write(&path, tar.bytes()).unwrap();
    for format in ["webdataset", "mds", "tfrecord"] {
        let dst = bench.at(format);
        let ran = convert(&[&path], &dst, &["--format", format]).code(0);
        ran.says("note    component third.npy is files, not arrays: 1 of 2 have no header or are cut");
        assert_eq!(
            manifest(&dst).format.settings["beside"],
            "boxes.npy:<f4[2x4],score.npy:<f4[],third.npy=*.third.npy"
        );
        verify(&dst, &path, &[]);
    }
    assert_eq!(components(&bench.at("webdataset"), 5001)["third.npy"], damaged);
    assert_eq!(components(&bench.at("webdataset"), 5001)["boxes.npy"], boxes);
}

#[test]
fn which_components_go_along_can_be_chosen() {
    let bench = Bench::new();
    let tar = image_text(&bench);
    let (none, one, two) = (bench.at("none"), bench.at("one"), bench.at("two"));
    convert(&[&tar], &none, &["--components", "none"]).code(0).says("left out: txt, json, seg.npy");
    assert_eq!(components(&none, 5001).keys().collect::<Vec<_>>(), ["cls", "jpg"]);
    let all = [("component json".to_owned(), 3), ("component seg.npy".to_owned(), 1), ("component txt".to_owned(), 2)];
    assert_eq!(ignored(&none), all);
    verify(&none, &tar, &[]);
    let ran = convert(&[&tar], &one, &["--components", "txt"]).code(0);
    ran.says("components txt; left out: json, seg.npy");
    assert_eq!(components(&one, 5001).keys().collect::<Vec<_>>(), ["cls", "jpg", "txt"]);
    assert_eq!(ignored(&one), all[..2]);
    verify(&one, &tar, &[]);
    convert(&[&tar], &two, &["--components", "seg.npy,TXT", "--format", "mds"]).code(0);
    assert_eq!(manifest(&two).format.settings["beside"], "seg.npy=*.seg.npy,txt=*.txt");
    // The same with a dataset as the source.
    let again = bench.at("again");
    convert(&[&two], &again, &["--components", "txt"]).code(0).says("left behind: seg.npy");
    assert_eq!(components(&again, 5001).keys().collect::<Vec<_>>(), ["cls", "jpg", "txt"]);
    let refused = |sources: &[&Path], what: &str, said: &str| {
        let ran = convert(sources, &bench.at("refused"), &["--components", what]).code(2);
        ran.says(said);
        assert!(!bench.at("refused").exists());
    };
    refused(
        &[&tar],
        "caption",
        "no sample has a component \"caption\" that can be packed: they have json, seg.npy, txt",
    );
    refused(&[&two], "json", "no sample has a component \"json\"");
    refused(&[&tar], "cls", "the component cls is the label");
    refused(&[&tar], "txt,txt", "two components are called");
    refused(&[&tar], "mask=*_mask.png", "give only a name");
    refused(&[&tar], "", "a component's name");
}

#[test]
fn what_has_no_place_for_components_counts_them_and_refuses_those_named() {
    let bench = Bench::new();
    let tar = image_text(&bench);
    let all = [("component json".to_owned(), 3), ("component seg.npy".to_owned(), 1), ("component txt".to_owned(), 2)];
    let alone = bench.at("alone");
    convert(&[&tar], &alone, &["--format", "recordio"]).code(0).says("left out: txt, json, seg.npy");
    assert_eq!(ignored(&alone), all);
    assert_eq!(samples(&alone).len(), 3);
    verify(&alone, &tar, &[]);
    convert(&[&tar], &bench.dst(), &["--format", "recordio", "--components", "txt"])
        .code(2)
        .clean_error()
        .says("recordio has no place for txt beside the image");
    // Each of several formats equals its own single run, in any order of the formats.
    for formats in [["recordio", "mds"], ["mds", "recordio"]] {
        let both = bench.at(&formats.concat());
        convert(&[&tar], &both, &["--quiet", "--format", formats[0], "--format", formats[1]]).code(0);
        assert_eq!(contents(&both.join("recordio")), contents(&alone));
        assert_eq!(components(&both.join("mds"), 5001)["txt"], CAPTION);
        assert_eq!(ignored(&both.join("mds")), []);
    }
    // With `--ext png` the image takes the name png, so a component png has no place.
    let clash = Tar::new().sample("1", "0", &jpeg(1, 7700)).file("1.png", b"beside").bytes();
    fs::write(bench.at("clash.tar"), clash).unwrap();
    let options = ["--image-feature", "jpg", "--ext", "png"];
    convert(&[&bench.at("clash.tar")], &bench.at("png"), &options).code(0);
    assert_eq!(ignored(&bench.at("png")), [("component png".to_owned(), 1)]);
    convert(&[&bench.at("clash.tar")], &bench.at("jpg"), &["--image-feature", "jpg"]).code(0);
    assert_eq!(components(&bench.at("jpg"), 7700)["png"], b"beside");
    let named = [&options[..], &["--components", "png"]].concat();
    convert(&[&bench.at("clash.tar")], &bench.at("no"), &named).code(2).clean_error().says("\"png\"");
    // `--meta json` takes the name json in the same way.
    convert(&[&tar], &bench.at("meta"), &["--meta", "json"]).code(0);
    assert_eq!(ignored(&bench.at("meta")), all[..1]);
    assert!(components(&bench.at("meta"), 5001)["json"].starts_with(b"{\"class\""));
    assert_eq!(components(&bench.at("meta"), 5001)["txt"], CAPTION);
}

#[test]
fn components_that_cannot_go_along_are_counted_each() {
    let bench = Bench::new();
    let mut tar = Tar::new().sample("1", "0", &jpeg(1, 7700)).file("1.odd name", b"x").file("1.a..b", b"4");
    let long = "x".repeat(33);
    for name in ["a", "b", "odd-name", &long, "__c"] {
        tar = tar.file(&format!("1.{name}"), name.as_bytes());
    }
    fs::write(bench.at("x.tar"), tar.bytes()).unwrap();
    convert(&[&bench.at("x.tar")], &bench.dst(), &[]).code(0);
    let found = components(&bench.dst(), 7700);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "b", "cls", "jpg", "odd_name"]);
    // Two names map to `odd_name`; the first is kept.
    assert_eq!(found["odd_name"], b"x");
    let left = [("__c", 1), ("a..b", 1), ("odd-name", 1), (long.as_str(), 1)];
    assert_eq!(ignored(&bench.dst()), left.map(|(name, samples)| (format!("component {name}"), samples)));
}

#[test]
fn features_go_along_whatever_they_are() {
    let bench = Bench::new();
    let (first, second) = (jpeg(1, 7700), jpeg(2, 7800));
    let record = |image, caption, tags| {
        tf_record(&[
            ("image", Feature::Bytes(image)),
            ("label", Feature::Ints(&[1])),
            ("caption", Feature::Bytes(caption)),
            ("tags", tags),
            ("width", Feature::Ints(&[-20])),
            ("image/width", Feature::Ints(&[20])),
        ])
    };
    let records = [record(&first, CAPTION, Feature::Bytes(b"only")), record(&second, b"dog", Feature::Ints(&[1, 2]))];
    let records = records.concat();
    let file = bench.at("x.tfrecord");
    fs::write(&file, records).unwrap();
    for format in ["webdataset", "mds"] {
        let dst = bench.at(format);
        convert(&[&file], &dst, &["--format", format]).code(0);
        assert_eq!(components(&dst, 7700)["caption"], CAPTION);
        assert_eq!(components(&dst, 7700)["tags"], b"only");
        // A text in one record and a list of numbers in another are two components.
        assert!(components(&dst, 7800)["tags.npy"].ends_with(&[1i64, 2].map(i64::to_le_bytes).concat()), "{format}");
        assert_eq!(components(&dst, 7800)["width"], b"-20");
        // The image itself has its width.
        assert_eq!(ignored(&dst), [("component image/width".to_owned(), 2)], "{format}");
        verify(&dst, &file, &[]);
        mend(&dst, &file);
    }
}

#[test]
fn splits_threads_and_changed_images_keep_components_with_their_samples() {
    let bench = Bench::new();
    let photo = shardpack_testing::photo();
    for (split, count) in [("train", 40), ("val", 3)] {
        let folder = bench.src().join(split);
        fs::create_dir_all(&folder).unwrap();
        let mut tar = Tar::new();
        for number in 0..count {
            tar = tar.sample(&format!("{split}{number}"), "0", &photo);
            if number % 3 > 0 {
                tar = tar.file(&format!("{split}{number}.txt"), format!("caption of {split}{number}").as_bytes());
            }
        }
        fs::write(folder.join("x.tar"), tar.bytes()).unwrap();
    }
    let check = |dst: &Path| {
        for split in ["train", "val"] {
            for (path, all) in lists::samples(&dst.join(split)) {
                let key = path.trim_start_matches("0/").trim_end_matches(".jpg");
                let number: u64 = key[split.len()..].parse().unwrap();
                let expected = (!number.is_multiple_of(3)).then(|| format!("caption of {key}"));
                assert_eq!(lists::text(&all[0], "txt"), expected, "{path}");
            }
        }
    };
    for (name, options) in [("plain", &[][..]), ("small", &["--resize", "32"])] {
        let mut first = None;
        for jobs in ["1", "2"] {
            let dst = bench.at(&format!("{name}{jobs}"));
            convert(&[&bench.src()], &dst, &[&["--quiet", "--shards", "2", "--jobs", jobs], options].concat()).code(0);
            check(&dst);
            assert_eq!(first.get_or_insert_with(|| contents(&dst)), &contents(&dst), "{name}");
        }
    }
    verify(&bench.at("plain1"), &bench.src(), &[]);
    assert_eq!(one(&lists::samples(&bench.at("small1").join("val")), "0/val1.jpg").2["txt"], b"caption of val1");
}

#[test]
fn a_caption_that_is_another_now_is_found_and_mended() {
    let bench = Bench::new();
    let tar = image_text(&bench);
    convert(&[&tar], &bench.dst(), &["--quiet"]).code(0);
    let shard = bench.dst().join(&manifest(&bench.dst()).shards[0].file);
    let whole = fs::read(&shard).unwrap();
    let at = whole.windows(CAPTION.len()).position(|bytes| bytes == CAPTION).unwrap();
    let mut damaged = whole.clone();
    damaged[at] ^= 1;
    fs::write(&shard, &damaged).unwrap();
    let dst = bench.dst();
    run(&["verify", dst.to_str().unwrap(), "--repair", tar.to_str().unwrap()]).code(0);
    assert_eq!(fs::read(&shard).unwrap(), whole);
    // The source has changed since the pack.
    let mut source = fs::read(&tar).unwrap();
    let at = source.windows(CAPTION.len()).position(|bytes| bytes == CAPTION).unwrap();
    source[at] = b'A';
    fs::write(&tar, &source).unwrap();
    let ran = run(&["verify", dst.to_str().unwrap(), "--against", tar.to_str().unwrap()]).code(1);
    ran.says("1.jpg");
}

#[test]
fn a_conversion_that_was_killed_goes_on_with_its_components() {
    let bench = Bench::new();
    let mut tar = Tar::new();
    for number in 0..400 {
        tar = tar.sample(&number.to_string(), "0", &jpeg(number, 30_000));
        tar = tar.file(&format!("{number}.txt"), format!("caption {number}").as_bytes());
    }
    let source = bench.at("x.tar.gz");
    fs::write(&source, gzip(&tar.bytes())).unwrap();
    let whole = bench.at("whole");
    let options = ["--shards", "20", "--jobs", "1", "--json"];
    let expected = convert(&[&source], &whole, &options).code(0).json();
    let mut resumed = 0;
    // Kills once this many shards are finished; 0 kills at once.
    for finished in sweep::points(vec![0, 1, 3, 6, 10], vec![1, 6]) {
        let dst = bench.at(&format!("killed{finished}"));
        let mut child = Command::new(binary())
            .args(["convert".as_ref(), source.as_os_str(), dst.as_os_str()])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let indexes = || fs::read_dir(dst.join("index")).map_or(0, |entries| entries.count());
        while indexes() < finished && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut found = convert(&[&source], &dst, &options).code(0).json();
        resumed += u64::from(found["resumed_shards"].as_u64().is_some_and(|shards| (1..20).contains(&shards)));
        assert_eq!(contents(&dst), contents(&whole), "{finished} finished");
        let mut expected = expected.clone();
        for document in [&mut found, &mut expected] {
            let fields = document.as_object_mut().unwrap();
            for of_run in ["resumed_shards", "elapsed_ms", "already_sealed"] {
                fields.remove(of_run);
            }
        }
        assert_eq!(found, expected, "{finished} finished");
    }
    assert_eq!(lists::text(one(&lists::samples(&whole), "0/7.jpg"), "txt").unwrap(), "caption 7");
    assert!(resumed > 0, "no kill left some shards finished and others not");
}
