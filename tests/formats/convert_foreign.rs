//! Converts files of other writers: every kind of tar name and member, other features and columns, several labels,
//! compressed files, parquet. The shards are made here from the specifications of the formats.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_testing::{
    Bench, contents, jpeg, png,
    shards::{
        Feature, Sample, Tar, check_sealed, classes, convert, gzip, manifest, mds_index, mds_shard, names, odd_images,
        parquet_file, rec_record, samples, sha1, skipped, sorted, tf_record, written_by_hand, zlib,
    },
};
use tar::EntryType;

/// Writes a file next to source and destination.
fn written(bench: &Bench, name: &str, bytes: &[u8]) -> PathBuf {
    let path = bench.at(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

/// Converts a file with exactly these samples and no fault to every format; a compressed file to one format only.
fn good(what: &str, bench: &Bench, file: &Path, options: &[&str], expected: &[Sample]) {
    let is_packed = ["gz", "tgz", "zst", "zstd"].iter().any(|end| file.extension().is_some_and(|found| found == *end));
    for to in names().take(if is_packed { 1 } else { usize::MAX }) {
        let (dst, what) = (bench.at("good"), format!("{what}, {} to {to}", file.display()));
        let ran = convert(&[file], &dst, &[&["--format", to], options].concat());
        assert_eq!(ran.code, 0, "{what}: {}{}", ran.stdout, ran.stderr);
        check_sealed(&dst, &what);
        assert_eq!(sorted(samples(&dst)), sorted(expected.to_vec()), "{what}");
        assert_eq!(skipped(&dst), [], "{what}");
        fs::remove_dir_all(&dst).unwrap();
    }
}

#[test]
fn tar_files_of_every_writer_are_converted_packed_or_not() {
    let (one, two) = (jpeg(1, 5003), png());
    let long = |end: &str| format!("{}/{}{end}", "folder-".repeat(12), "name-".repeat(30));
    let long = (long("-a.cls"), long("-a.jpg"), long("-b.cls"), long("-b.png"));
    let cases: [(&str, Tar); 9] = [
        ("USTAR", Tar::new().sample("a", "0", &one).file("b.cls", b"1").file("b.png", &two)),
        ("GNU long names", Tar::new().file(&long.0, b"0").file(&long.1, &one).file(&long.2, b"1").file(&long.3, &two)),
        (
            "PAX",
            Tar::new().pax_file(&long.0, b"0").pax_file(&long.1, &one).pax_file("ü.cls", b"1").pax_file("ü.png", &two),
        ),
        (
            "PAX for the whole file",
            Tar::new()
                .member(EntryType::XGlobalHeader, "pax_global_header", "", b"18 comment=a hash\n")
                .sample("a", "0", &one)
                .sample("b", "1", &two),
        ),
        (
            "./ before all names, and folders",
            Tar::new()
                .member(EntryType::Directory, "./", "", b"")
                .member(EntryType::Directory, "./x/", "", b"")
                .sample("./x/a", "0", &one)
                .sample("./b", "1", &two),
        ),
        (
            "dots in names",
            Tar::new().sample("v1.2/a", "0", &one).file("v1.3/b.cls", b"1").file("v1.3/b.small.PNG", &two),
        ),
        (
            "several components",
            Tar::new()
                .sample("a", "0", &one)
                .file("a.txt", b"a cat")
                .file("a.json", b"{\"caption\": \"a cat\"}")
                .file("b.json", b"{}")
                .file("b.txt", b"a dog")
                .file("b.jpg", &two)
                .file("b.cls", b" 1\n"),
        ),
        (
            "members that webdataset passes over",
            Tar::new()
                .file("__meta__/x.jpg", b"no sample")
                .sample("a", "0", &one)
                .file("README", b"no extension")
                .sample("b", "1", &two),
        ),
        (
            "no label but in json",
            Tar::new().sample("a", "0", &one).file("b.json", b"{\"label\": 1}").file("b.jpg", &two),
        ),
    ];
    let expected = [(0, one), (1, two)];
    for (what, tar) in cases {
        let bench = Bench::new();
        let bytes = tar.bytes();
        good(what, &bench, &written(&bench, "x.tar", &bytes), &[], &expected);
        good(what, &bench, &written(&bench, "x.tar.gz", &gzip(&bytes)), &[], &expected);
        good(what, &bench, &written(&bench, "x.tar.zst", &zstd::encode_all(&*bytes, 3).unwrap()), &[], &expected);
        // Several members of gzip, one after the other, are one file.
        let (first, rest) = bytes.split_at(700);
        let two_members = [gzip(first), gzip(rest)].concat();
        good(what, &bench, &written(&bench, "two.tgz", &two_members), &[], &expected);
    }
}

#[test]
fn names_that_a_terminal_would_obey_are_shown_without_that() {
    let bench = Bench::new();
    let tar = Tar::new().sample("a\u{1b}[2J\nfields  none", "\u{1b}]0;title\u{7}", &jpeg(1, 5000));
    let file = written(&bench, "x.tar", &tar.file("a\u{1b}[2J\nfields  none.t\rt", b"x").bytes());
    let ran = convert(&[&file], &bench.dst(), &["--json"]).code(0);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{7}', '\r']), "{:?}", ran.stderr);
    assert!(!ran.stderr.lines().any(|line| line.starts_with("fields  none")), "{:?}", ran.stderr);
    check_sealed(&bench.dst(), "names");
}

#[test]
fn components_that_are_left_out_are_shown_and_others_can_be_chosen() {
    let (small, large) = (jpeg(1, 5003), jpeg(2, 6001));
    let bench = Bench::new();
    let tar = Tar::new()
        .file("a.seg.png", &small)
        .file("a.jpg", &large)
        .file("a.cls", b"3")
        .file("a.fine.cls", b"1")
        .file("a.txt", b"a cat");
    let file = written(&bench, "x.tar", &tar.bytes());
    let ran = convert(&[&file], &bench.dst(), &["--quiet"]).code(1).clean_error();
    ran.says("2 images: seg.png and jpg; choose one with --image-feature (x.tar, byte 0)");
    let ran =
        convert(&[&file], &bench.dst(), &["--image-feature", "jpg", "--label-feature", "no"]).code(2).clean_error();
    ran.says("no record has a label \"no\": they have cls, fine.cls, jpg, seg.png, txt").says("x.tar");
    let ran = convert(&[&file], &bench.dst(), &["--image-feature", "no", "--quiet"]).code(2).clean_error();
    ran.says("no no, there is seg.png, jpg, cls, fine.cls and 1 more (x.tar, byte 0)");
    let options = ["--image-feature", "jpg", "--dry-run"];
    convert(&[&file], &bench.dst(), &options).code(0).says("components seg.png, fine.cls, txt");
    good("the large one", &bench, &file, &["--image-feature", "jpg"], &[(3, large)]);
    let options = ["--image-feature", "seg.png", "--label-feature", "fine.cls"];
    good("the small one", &bench, &file, &options, &[(1, small)]);
}

#[test]
fn members_out_of_order_are_samples_of_their_own_and_named() {
    let bench = Bench::new();
    let tar = Tar::new()
        .sample("whole", "1", &jpeg(1, 5000))
        .file("a.jpg", &jpeg(2, 5000))
        .file("b.jpg", &jpeg(3, 5000))
        .file("a.cls", b"0")
        .file("b.cls", b"1");
    let file = written(&bench, "x.tar", &tar.bytes());
    let ran = convert(&[&file], &bench.dst(), &[]).code(1);
    ran.says("a.jpg: no label (x.tar, byte 7168)").says("b.jpg: no label (x.tar, byte 12800)").says("failed  4 images");
    assert!(!bench.dst().join("manifest.json").exists());
    convert(&[&file], &bench.dst(), &["--on-bad", "skip"]).code(0);
    check_sealed(&bench.dst(), "out of order");
    assert_eq!(sorted(samples(&bench.dst())), sorted([(1, jpeg(1, 5000))]));
    let skipped = skipped(&bench.dst());
    let said: Vec<_> = skipped.iter().map(|(path, reason)| format!("{path}: {reason}")).collect();
    let expected = [
        "x.tar/a.jpg: no label (x.tar, byte 7168)",
        "x.tar/a: no image, there is cls (x.tar, byte 17920)",
        "x.tar/b.jpg: no label (x.tar, byte 12800)",
        "x.tar/b: no image, there is cls (x.tar, byte 18944)",
    ];
    expected.iter().for_each(|line| assert!(said.iter().any(|said| said == line), "{line}: {said:?}"));
    assert_eq!(said.len(), 4);
}

#[test]
fn names_that_lead_elsewhere_and_links_are_never_followed_or_written() {
    let image = jpeg(1, 5000);
    let (outside, secret) = ("/tmp/shardpack-must-not-be-here.jpg", b"a secret");
    for packed in [false, true] {
        let bench = Bench::new();
        let secret_file = written(&bench, "secret.jpg", secret);
        let secret_name = secret_file.to_str().unwrap();
        let evil = Tar::new()
            .member(EntryType::Symlink, "link", bench.at("").to_str().unwrap(), b"")
            .sample("../up", "0", &image)
            .sample("../../../../../../../../tmp/shardpack-must-not-be-here", "1", &jpeg(2, 5001))
            .sample("/tmp/shardpack-must-not-be-here", "0", &jpeg(3, 5002))
            .sample("link/through", "1", &jpeg(4, 5003))
            .file("soft.cls", b"0")
            .member(EntryType::Symlink, "soft.jpg", secret_name, b"")
            .file("hard.cls", b"0")
            .member(EntryType::Link, "hard.jpg", secret_name, b"")
            .file("null.cls", b"0")
            .member(EntryType::Char, "null.jpg", "", b"")
            .file("block.cls", b"1")
            .member(EntryType::Block, "block.jpg", "", b"")
            .file("pipe.cls", b"1")
            .member(EntryType::Fifo, "pipe.jpg", "", b"")
            .member(EntryType::Directory, "folder.jpg/", "", b"")
            .sample("last", "1", &jpeg(5, 5004));
        let bytes = if packed { gzip(&evil.bytes()) } else { evil.bytes() };
        let file = written(&bench, "in/x.tar", &bytes);
        let before = contents(&bench.at(""));
        for to in names() {
            let dst = bench.at("out");
            convert(&[&file], &dst, &["--format", to]).code(1).says("soft").says("hard").says("null").says("pipe");
            convert(&[&file], &dst, &["--format", to, "--on-bad", "skip"]).code(0);
            check_sealed(&dst, to);
            let expected = (0..5).map(|n| ([0, 1, 0, 1, 1][n], jpeg(n as u64 + 1, 5000 + n)));
            assert_eq!(sorted(samples(&dst)), sorted(expected), "{to}");
            assert_eq!(skipped(&dst).len(), 5, "{to}: {:?}", skipped(&dst));
            for (path, _) in contents(&dst) {
                let found = fs::read(dst.join(&path)).unwrap_or_default();
                assert!(!found.windows(secret.len()).any(|window| window == secret), "{to}: {}", path.display());
            }
            fs::remove_dir_all(&dst).unwrap();
            assert_eq!(contents(&bench.at("")), before, "{to}: something was written beside the destination");
            assert!(!Path::new(outside).exists());
        }
    }
}

#[test]
fn sparse_members_are_refused_by_name_and_what_stands_around_them_is_packed() {
    let bench = Bench::new();
    let sparse = [
        (
            "GNU",
            "x.tar, byte 6656",
            Tar::new().sample("a", "0", &jpeg(1, 5000)).member(EntryType::GNUSparse, "b.jpg", "", &[0; 512]).sample(
                "c",
                "1",
                &jpeg(2, 5000),
            ),
        ),
        (
            "PAX",
            "x.tar, byte 6656",
            Tar::new()
                .sample("a", "0", &jpeg(1, 5000))
                .member(EntryType::XHeader, "PaxHeaders/0", "", b"22 GNU.sparse.major=1\n")
                .file("b.jpg", &[0; 512])
                .sample("c", "1", &jpeg(2, 5000)),
        ),
    ];
    for (what, place, tar) in sparse {
        let (file, dst) = (written(&bench, "x.tar", &tar.bytes()), bench.at(what));
        convert(&[&file], &dst, &[]).code(1).says("sparse").says(place);
        convert(&[&file], &dst, &["--on-bad", "skip"]).code(0);
        check_sealed(&dst, what);
        assert_eq!(sorted(samples(&dst)), sorted([(0, jpeg(1, 5000)), (1, jpeg(2, 5000))]), "{what}");
    }
}

#[test]
fn features_of_any_name_are_found_or_chosen_in_tfrecord_packed_or_not() {
    let (one, two) = (jpeg(1, 5003), png());
    let file = |image: &str, label: &str| {
        let record = |bytes: &[u8], number: i64| {
            let label = (label, Feature::Ints(&[number, 7]));
            tf_record(&[(image, Feature::Bytes(bytes)), label, ("caption", Feature::Bytes(b"a cat"))])
        };
        [record(&one, 4), record(&two, 2)].concat()
    };
    let expected = [(4, one.clone()), (2, two.clone())];
    let cases: [(&str, &str, &[&str]); 5] = [
        ("image/encoded", "image/class/label", &["--label-index", "0"]),
        ("image", "label", &["--label-index", "0"]),
        ("jpg_bytes", "label", &["--label-index", "0"]),
        ("my/picture", "my/number", &["--image-feature", "my/picture", "--label-feature", "my/number"]),
        ("image", "my/number", &["--label-feature", "my/number"]),
    ];
    for (image, label, options) in cases {
        let bench = Bench::new();
        let bytes = file(image, label);
        good(&format!("{image}, {label}"), &bench, &written(&bench, "x.tfrecord", &bytes), options, &expected);
        good(
            &format!("{image}, {label}"),
            &bench,
            &written(&bench, "x.tfrecord.gz", &gzip(&bytes)),
            options,
            &expected,
        );
    }
    let bench = Bench::new();
    let path = written(&bench, "x.tfrecord", &zlib(&file("image", "label")));
    good("zlib", &bench, &path, &["--label-index", "0"], &expected);
    let bench = Bench::new();
    let path = written(&bench, "x.tfrecord", &file("image", "label"));
    good("the other label", &bench, &path, &["--label-index", "1"], &[(7, one), (7, two)]);
    for option in ["--image-feature", "--label-feature"] {
        let ran = convert(&[&path], &bench.dst(), &[option, "nowhere", "--quiet"]).code(2).clean_error();
        ran.says("\"nowhere\"").says("caption, image, label").says("x.tfrecord");
        assert!(!bench.dst().exists());
    }
}

#[test]
fn text_labels_and_class_names_of_tfrecord_name_the_classes() {
    let record = |image: &[u8], label: &[i64], text: &[u8]| {
        let class = if text.is_empty() { b"" } else { text };
        tf_record(&[
            ("image/encoded", Feature::Bytes(image)),
            ("image/class/label", Feature::Ints(label)),
            ("image/class/text", Feature::Bytes(class)),
        ])
    };
    let bench = Bench::new();
    let bytes = [record(&jpeg(1, 5000), &[2], b"dog"), record(&jpeg(2, 5000), &[0], b"cat")].concat();
    convert(&[&written(&bench, "x.tfrecord", &bytes)], &bench.dst(), &[]).code(0);
    assert_eq!(classes(&bench.dst()), ["cat", "1", "dog"]);
    let dst = bench.at("texts");
    let bytes = [record(&jpeg(1, 5000), &[], b"dog"), record(&jpeg(2, 5000), &[], b"cat")].concat();
    convert(&[&written(&bench, "x.tfrecord", &bytes)], &dst, &[]).code(0);
    assert_eq!(classes(&dst), ["cat", "dog"]);
    assert_eq!(sorted(samples(&dst)), sorted([(1, jpeg(1, 5000)), (0, jpeg(2, 5000))]));
}

#[test]
fn recordio_with_and_without_idx_and_with_several_labels() {
    let bench = Bench::new();
    let images: Vec<Vec<u8>> = odd_images().into_iter().map(|(_, image)| image).collect();
    let (mut bytes, mut idx) = (Vec::new(), String::new());
    for (number, image) in images.iter().enumerate() {
        idx += &format!("{number}\t{}\n", bytes.len());
        bytes.extend(rec_record(number as u64, &[number as f32, 1.0, 0.5], image));
    }
    let file = written(&bench, "x.rec", &bytes);
    let labelled = |label: &dyn Fn(usize) -> i64| -> Vec<Sample> {
        images.iter().enumerate().map(|(number, image)| (label(number), image.clone())).collect()
    };
    for with_idx in [false, true] {
        if with_idx {
            written(&bench, "x.idx", idx.as_bytes());
        }
        let what = if with_idx { "with idx" } else { "without idx" };
        good(what, &bench, &file, &["--label-index", "0"], &labelled(&|number| number as i64));
        good(what, &bench, &file, &["--label-index", "1"], &labelled(&|_| 1));
        // A neighbouring `.idx` does not count as a shard.
        let folder = file.parent().unwrap();
        convert(&[folder], &bench.at("all/of"), &["--dry-run"]).code(0).says("1 file of recordio");
    }
    let zipped = written(&bench, "x.rec.gz", &gzip(&bytes));
    good("gzip", &bench, &zipped, &["--label-index", "0"], &labelled(&|number| number as i64));
    let ran = convert(&[&file], &bench.dst(), &["--label-feature", "label"]).code(2).clean_error();
    ran.says("no record has a label \"label\": they have labels");
    for (index, says) in [("2", "0.5 is no whole number"), ("3", "it has 3 labels, number 3 is wanted")] {
        let ran = convert(&[&file], &bench.dst(), &["--label-index", index, "--quiet"]).code(2).clean_error();
        ran.says(says);
    }
}

#[test]
fn mds_is_read_alone_compressed_and_by_its_index_whose_hashes_count() {
    let bench = Bench::new();
    let all: Vec<Sample> =
        odd_images().into_iter().enumerate().map(|(number, (_, image))| (number as i64 % 3, image)).collect();
    let (first, second) = all.split_at(7);
    let shards = [mds_shard(first), mds_shard(second)];
    good("alone", &bench, &written(&bench, "x.mds", &shards[0]), &[], first);
    good("gzip", &bench, &written(&bench, "x.mds.gz", &gzip(&shards[0])), &[], first);
    good("zstd", &bench, &written(&bench, "x.mds.zstd", &zstd::encode_all(&*shards[0], 3).unwrap()), &[], first);

    let hashes = shards.each_ref().map(|shard| [("sha1", sha1(shard))]);
    // The index lists its shards in its own order.
    let index =
        mds_index(&[("b.mds", &shards[0], first.len(), &hashes[0]), ("a.mds", &shards[1], second.len(), &hashes[1])]);
    written(&bench, "with-index/index.json", &index);
    written(&bench, "with-index/b.mds", &shards[0]);
    written(&bench, "with-index/a.mds", &shards[1]);
    let folder = bench.at("with-index");
    good("with hashes", &bench, &folder, &[], &all);
    let dst = bench.at("in-order");
    convert(&[&folder], &dst, &["--order", "source"]).code(0);
    assert!(samples(&dst) == all);
    // streaming would not read this file, and `convert` cannot decide whether it belongs to the dataset.
    written(&bench, "with-index/stranger.mds", &shards[1]);
    convert(&[&folder], &bench.dst(), &[]).code(1).says("stranger.mds: index.json does not name it");
    convert(&[&folder], &bench.dst(), &["--on-bad", "skip"]).code(0);
    assert_eq!(sorted(samples(&bench.dst())), sorted(all));
    check_sealed(&bench.dst(), "a stranger");
}

#[test]
fn a_shard_whose_hash_in_index_json_is_another_is_refused_whole() {
    let bench = Bench::new();
    let all = [(0, jpeg(1, 5000)), (1, jpeg(2, 5001)), (1, jpeg(3, 5002)), (0, jpeg(4, 5003))];
    let shards = [mds_shard(&all[..2]), mds_shard(&all[2..])];
    let hashes = shards.each_ref().map(|shard| [("sha1", sha1(shard))]);
    let index = mds_index(&[("a.mds", &shards[0], 2, &hashes[0]), ("b.mds", &shards[1], 2, &hashes[1])]);
    let mut wrong = shards[1].clone();
    let middle = wrong.len() / 2;
    wrong[middle] ^= 1;
    written(&bench, "mds/index.json", &index);
    written(&bench, "mds/a.mds", &shards[0]);
    written(&bench, "mds/b.mds", &wrong);
    let (folder, dst) = (bench.at("mds"), bench.dst());
    convert(&[&folder], &dst, &[]).code(1).says("b.mds").says("sha1").says("failed  2 images");
    assert!(!dst.join("manifest.json").exists());
    convert(&[&folder], &dst, &["--on-bad", "skip"]).code(0);
    check_sealed(&dst, "hash");
    assert_eq!(sorted(samples(&dst)), sorted(all[..2].to_vec()));
    assert_eq!(manifest(&dst).ledger.counts.skipped, 2);
}

#[test]
fn parquet_of_hugging_face_is_converted_with_the_names_of_its_classes() {
    let bench = Bench::new();
    let images: Vec<Vec<u8>> = odd_images().into_iter().map(|(_, image)| image).collect();
    let row = |number: usize, image: &Vec<u8>| {
        (Some(number as i64 % 2), image.clone(), if number == 3 { Some("cat_3.jpg") } else { None })
    };
    let rows: Vec<_> = images.iter().enumerate().map(|(number, image)| row(number, image)).collect();
    let file = written(&bench, "train.parquet", &parquet_file(&["cat", "dog", "emu"], &rows));
    let expected: Vec<Sample> = rows.iter().map(|(label, image, _)| (label.unwrap(), image.clone())).collect();
    good("parquet", &bench, &file, &[], &expected);
    let dst = bench.dst();
    let ran = convert(&[&file], &dst, &["--order", "source"]).code(0);
    ran.says("image image; label label").says("(cat)").says("1 file of parquet");
    assert_eq!(classes(&dst), ["cat", "dog", "emu"]);
    assert!(samples(&dst) == expected);
    for (option, says) in
        [("--image-column", "no column \"nowhere\": it has image, label"), ("--label-column", "nowhere")]
    {
        convert(&[&file], &bench.at("none"), &[option, "nowhere"]).code(2).clean_error().says(says);
    }
    // Rows without a label, and a row whose label is beyond the class names.
    let rows = [(Some(0), jpeg(1, 5000), None), (None, jpeg(2, 5000), None), (Some(-1), jpeg(3, 5000), None)];
    let file = written(&bench, "gaps.parquet", &parquet_file(&["cat", "dog"], &rows));
    let dst = bench.at("gaps");
    convert(&[&file], &dst, &[])
        .code(1)
        .says("no label")
        .says("label -1")
        .says("(gaps.parquet)")
        .says_not("gaps.parquet, byte");
    convert(&[&file], &dst, &["--on-bad", "skip"]).code(0);
    check_sealed(&dst, "gaps");
    assert_eq!((manifest(&dst).samples, skipped(&dst).len()), (1, 2));
}

#[test]
fn labels_that_are_numbers_stay_and_words_are_sorted() {
    let bench = Bench::new();
    let image = |seed| jpeg(seed, 5000);
    let (name, bytes) = written_by_hand("webdataset", &[(5, image(1)), (0, image(2))]);
    let dst = bench.at("numbers");
    convert(&[&written(&bench, name, &bytes)], &dst, &[]).code(0);
    assert_eq!(classes(&dst), ["0", "1", "2", "3", "4", "5"]);
    assert_eq!(sorted(samples(&dst)), sorted([(5, image(1)), (0, image(2))]));
    check_sealed(&dst, "numbers");

    let tar = Tar::new().sample("a", "dog", &image(1)).sample("b", "cat", &image(2)).sample("c", "ant", &image(3));
    let dst = bench.at("words");
    convert(&[&written(&bench, "words.tar", &tar.bytes())], &dst, &[]).code(0);
    assert_eq!(classes(&dst), ["ant", "cat", "dog"]);
    assert_eq!(sorted(samples(&dst)), sorted([(2, image(1)), (1, image(2)), (0, image(3))]));

    let tar = Tar::new().file("a.jpg", &image(1)).file("b.jpg", &image(2));
    let dst = bench.at("none");
    convert(&[&written(&bench, "none.tar", &tar.bytes())], &dst, &[]).code(0).says("no record has a label");
    assert_eq!(classes(&dst), [""; 0]);
    assert_eq!((manifest(&dst).samples, manifest(&dst).ledger.unclassified.packed), (2, 2));
}
