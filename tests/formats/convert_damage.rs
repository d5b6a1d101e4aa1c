//! Damaged shards as a source: each damage is counted and named with file and byte. With `--on-bad skip` the other samples
//! are packed; without it no output looks complete.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, jpeg, pack,
    shards::{
        BY_HAND, Feature, Sample, Tar, check_sealed, classes, convert, gzip, make_foreign, manifest, mds_shard, names,
        parquet_file, samples, skipped, sorted, tf_record, written_by_hand,
    },
};
use tar::EntryType;

/// A foreign shard made here: its path, its samples in order, and the byte range of each record.
struct Shard {
    file: PathBuf,
    name: String,
    bytes: Vec<u8>,
    samples: Vec<Sample>,
    records: Vec<std::ops::Range<usize>>,
}

/// One shard with 7 images of about 15 KB in 3 classes.
fn shard(bench: &Bench, format: &str) -> Shard {
    shard_of(bench, format, 15_000)
}

/// One shard with 7 images of `bytes` bytes or slightly more.
fn shard_of(bench: &Bench, format: &str, bytes: usize) -> Shard {
    for number in 0..7u64 {
        bench.file(format!("class-{}/{number}.jpg", number % 3), &jpeg(number, bytes + 4 * number as usize));
    }
    let folder = bench.at(&format!("shards-{format}"));
    pack(&bench.src(), &folder, &["--format", format, "--shards", "1"]).code(0);
    let samples = samples(&folder);
    let dataset = Dataset::open(&folder).unwrap();
    let records = (0..7).map(|number| {
        let row = dataset.row(number).unwrap();
        row.offset as usize..row.offset as usize + row.record_bytes as usize
    });
    let records = records.collect();
    let file = make_foreign(&folder).remove(0);
    // Without `index.json` the shard is used alone.
    let _ = fs::remove_file(folder.join("index.json"));
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    Shard { name, bytes: fs::read(&file).unwrap(), samples, records, file }
}

/// Converts a damaged file. By default, the conversion must fail and print all given texts. With `--on-bad skip`, the output has the
/// samples `rest`, and the ledger has `lines` lines with these texts.
fn damaged(what: &str, file: &Path, dst: &Path, rest: &[Sample], said: &[&str], lines: usize) {
    let ran = convert(&[file], dst, &[]);
    assert_eq!(ran.code, 1, "{what}: {}{}", ran.stdout, ran.stderr);
    said.iter().for_each(|text| assert!(ran.stdout.contains(text), "{what}: not said: {text}: {}", ran.stdout));
    assert!(ran.stdout.contains("nothing is sealed"), "{what}: {}", ran.stdout);
    assert!(!dst.join("manifest.json").exists() && !dst.join("BLAKE3SUMS").exists(), "{what}");
    let ran = convert(&[file], dst, &["--on-bad", "skip", "--format", "webdataset"]);
    assert_eq!(ran.code, 0, "{what}: {}{}", ran.stdout, ran.stderr);
    check_sealed(dst, what);
    assert_eq!(sorted(samples(dst)), sorted(rest.to_vec()), "{what}");
    let skipped = skipped(dst);
    assert_eq!(skipped.len(), lines, "{what}: {skipped:?}");
    for text in said {
        assert!(
            skipped.iter().any(|(path, why)| format!("{path}: {why}").contains(text)),
            "{what}: {text}: {skipped:?}"
        );
    }
    let counts = manifest(dst).ledger.counts;
    assert_eq!((counts.packed, counts.skipped), (rest.len() as u64, lines as u64), "{what}");
    assert_eq!(counts.discovered, counts.packed + counts.skipped, "{what}");
    fs::remove_dir_all(dst).unwrap();
}

#[test]
fn a_record_with_a_wrong_crc_is_left_out_alone_and_named() {
    let bench = Bench::new();
    let shard = shard(&bench, "tfrecord");
    for number in [0, 3, 6] {
        let record = shard.records[number].clone();
        // In the data, at both ends of the data, and in its CRC.
        for at in [record.start + 12, record.start + 1000, record.end - 5, record.end - 4, record.end - 1] {
            let mut wrong = shard.bytes.clone();
            wrong[at] ^= 0x40;
            fs::write(&shard.file, &wrong).unwrap();
            let mut rest = shard.samples.clone();
            rest.remove(number);
            let place = format!("({}, byte {})", shard.name, record.start);
            damaged(&format!("byte {at}"), &shard.file, &bench.dst(), &rest, &[&place, "CRC"], 1);
        }
    }
}

#[test]
fn where_the_next_record_is_unknown_all_before_is_kept_and_the_byte_named() {
    // Format, and the byte of the record's framing with the flipped bit, counted from the start of the record.
    let cases = [("webdataset", 10), ("tfrecord", 3), ("tfrecord", 9), ("recordio", 0), ("recordio", 7)];
    for (format, flip) in cases {
        let bench = Bench::new();
        let shard = shard(&bench, format);
        for number in [1, 4, 6] {
            let start = shard.records[number].start;
            let mut wrong = shard.bytes.clone();
            wrong[start + flip] ^= 0x80;
            fs::write(&shard.file, &wrong).unwrap();
            let place = format!("({}, byte {start})", shard.name);
            let said = [place.as_str(), "cannot be read from here on"];
            let what = format!("{format}, record {number}");
            damaged(&what, &shard.file, &bench.dst(), &shard.samples[..number], &said, 1);
        }
    }
}

#[test]
fn a_shard_that_is_cut_short_gives_its_whole_records_and_the_byte_is_named() {
    for format in names() {
        let bench = Bench::new();
        let shard = shard(&bench, format);
        for (number, record) in shard.records.iter().enumerate().skip(1).step_by(2) {
            for cut in [record.start + 1, record.start + 300, record.end - 3000, record.end - 5, record.end - 1] {
                fs::write(&shard.file, &shard.bytes[..cut]).unwrap();
                let what = format!("{format}, record {number}, cut at {cut} of {}", shard.bytes.len());
                // A tar record ends in padding: if only the padding is cut, the image is complete.
                let whole = number + usize::from(format == "webdataset" && cut >= record.end - 5);
                // If the tar ends inside an image, the label before the image is complete and is left out too.
                let lines = 1 + usize::from(format == "webdataset" && cut == record.end - 3000);
                let place = match format {
                    "webdataset" | "recordio" => format!("({}, byte ", shard.name),
                    _ => format!("({}, byte {})", shard.name, record.start),
                };
                let said = [place.as_str(), "cannot be read from here on"];
                damaged(&what, &shard.file, &bench.dst(), &shard.samples[..whole], &said, lines);
            }
        }
    }
}

#[test]
fn packed_shards_that_are_cut_give_what_can_be_unpacked() {
    for format in names() {
        let bench = Bench::new();
        // Longer than a zstd block: a decompressor outputs a block as a whole or not at all.
        let shard = shard_of(&bench, format, 60_000);
        for packed in ["gz", "zst"] {
            let bytes = match packed {
                "gz" => gzip(&shard.bytes),
                _ => zstd::encode_all(&*shard.bytes, 1).unwrap(),
            };
            let file = bench.at(&format!("x.{packed}"));
            fs::write(&file, &bytes[..bytes.len() * 2 / 3]).unwrap();
            let (what, dst) = (format!("{format}, {packed}"), bench.dst());
            let ran = convert(&[&file], &dst, &[]).code(1);
            ran.says("cannot be read from here on").says(&format!("(x.{packed}, byte ")).says("nothing is sealed");
            convert(&[&file], &dst, &["--on-bad", "skip"]).code(0);
            check_sealed(&dst, &what);
            let found = samples(&dst);
            assert!(!found.is_empty() && found.len() < 7, "{what}: {}", found.len());
            let known = sorted(shard.samples.clone());
            assert!(sorted(found).iter().all(|sample| known.contains(sample)), "{what}");
            // The unreadable rest, and in a tar the label before the truncated image.
            let reasons: Vec<String> = skipped(&dst).into_iter().map(|(_, reason)| reason).collect();
            let is_known =
                |reason: &String| reason.starts_with("cannot be read from") || reason.starts_with("no image");
            assert!(!reasons.is_empty() && reasons.iter().all(is_known), "{what}: {reasons:?}");
            fs::remove_dir_all(&dst).unwrap();
        }
    }
}

#[test]
fn a_shard_of_which_nothing_can_be_read_does_not_keep_others_from_being_packed() {
    let bench = Bench::new();
    let images = [(0, jpeg(1, 5000)), (1, jpeg(2, 5001))];
    for format in BY_HAND {
        let folder = bench.at(format);
        fs::create_dir(&folder).unwrap();
        let (name, bytes) = written_by_hand(format, &images);
        fs::write(folder.join(name), &bytes).unwrap();
        let mut broken = bytes;
        // The bytes that identify the format stay.
        let keep = if format == "mds" { 200 } else { 12 };
        broken[keep..].fill(0xaa);
        let broken_file = folder.join(format!("broken-{name}"));
        fs::write(&broken_file, broken).unwrap();
        let dst = bench.at(&format!("dst-{format}"));
        let files = [folder.join(name), broken_file.clone()];
        let files = [files[0].as_path(), files[1].as_path()];
        let from = ["--from", format];
        // Rows of parquet have no byte offsets.
        let place = if format == "parquet" { ")" } else { ", byte " };
        convert(&files, &dst, &from).code(1).says(&format!("(broken-{name}{place}"));
        assert!(!dst.join("manifest.json").exists());
        convert(&files, &dst, &[&from[..], &["--on-bad", "skip"]].concat()).code(0);
        check_sealed(&dst, format);
        assert_eq!(sorted(samples(&dst)), sorted(images.clone()), "{format}");
        assert!(!skipped(&dst).is_empty(), "{format}");
        // The broken file alone leaves nothing to pack, and the error names the file.
        let ran = convert(&[&broken_file], &bench.at("none"), &[&from[..], &["--on-bad", "skip"]].concat()).code(1);
        ran.clean_error().says(&format!("broken-{name}"));
        assert!(!bench.at("none").exists());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_bit_anywhere_is_refused_or_gives_a_dataset_that_adds_up(
        format in prop::sample::select(BY_HAND.to_vec()),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        cut in any::<bool>(),
    ) {
        let bench = Bench::new();
        let images: Vec<Sample> = (0..3).map(|number| (number, vec![b'a' + number as u8; 60])).collect();
        let (name, mut bytes) = written_by_hand(format, &images);
        // Small images, so that most bits are framing; the zeros of a tar are left out.
        let at = at.index(bytes.len().min(4096));
        bytes[at] ^= 1 << bit;
        if cut {
            bytes.truncate(at + 1);
        }
        let file = bench.at(name);
        fs::write(&file, &bytes).unwrap();
        let what = format!("{format}, byte {at}, bit {bit}, cut {cut}");
        let whole = sorted(images);
        let ran = convert(&[&file], &bench.dst(), &["--from", format]);
        prop_assert!(matches!(ran.code, 0..=2), "{}: {} {}", what, ran.code, ran.stderr);
        prop_assert_eq!(ran.code == 0, bench.dst().join("manifest.json").exists(), "{}", &what);
        let silent = ran.code == 0;
        if ran.code == 1 {
            prop_assert!(format!("{}{}", ran.stdout, ran.stderr).contains(name), "{}: {}{}", what, ran.stdout, ran.stderr);
        }
        if silent && format == "tfrecord" {
            // A CRC covers every byte: only a cut between two records goes undetected.
            prop_assert!(cut && sorted(samples(&bench.dst())).iter().all(|sample| whole.contains(sample)), "{}", &what);
        }
        let ran = convert(&[&file], &bench.dst(), &["--from", format, "--on-bad", "skip"]);
        prop_assert!(matches!(ran.code, 0..=2), "{}: {} {}", what, ran.code, ran.stderr);
        if ran.code == 0 {
            check_sealed(&bench.dst(), &what);
            prop_assert_eq!(silent, skipped(&bench.dst()).is_empty(), "{}", &what);
        }
    }
}

#[test]
fn flips_in_the_data_of_a_tar_are_not_seen_for_it_has_no_checksum() {
    let bench = Bench::new();
    let shard = shard(&bench, "webdataset");
    let mut wrong = shard.bytes.clone();
    let image = shard.records[2].end - 1024;
    wrong[image] ^= 1;
    fs::write(&shard.file, &wrong).unwrap();
    convert(&[&shard.file], &bench.dst(), &[]).code(0);
    check_sealed(&bench.dst(), "tar");
    assert_eq!(samples(&bench.dst()).len(), 7);
}

#[test]
fn what_is_wrong_with_single_samples_is_named_and_counted() {
    let image = |seed| jpeg(seed, 5000);
    let good: [Sample; 2] = [(0, image(1)), (2, image(2))];
    let tar = || Tar::new().sample("a", "0", &image(1)).sample("b", "2", &image(2));
    let record = |features: &[(&str, Feature<'_>)]| {
        let good = good
            .iter()
            .map(|(label, image)| tf_record(&[("image", Feature::Bytes(image)), ("label", Feature::Ints(&[*label]))]));
        good.chain([tf_record(features)]).collect::<Vec<_>>().concat()
    };
    let extra = image(9);
    let (bytes, no_bytes) = (Feature::Bytes(&extra), Feature::Bytes(b""));
    // Two samples come before: each `cls` takes 1,024 bytes, each image 5,632.
    let cases: Vec<(&str, &str, Vec<u8>, Vec<&str>)> = vec![
        (
            "a repeated key",
            "x.tar",
            tar().sample("a", "1", &image(3)).bytes(),
            vec![
                "x.tar/a.jpg: its key stands at byte 0 already: tar --sort=name puts files of one key together (x.tar, byte 13312)",
            ],
        ),
        ("no label", "x.tar", tar().file("c.jpg", &image(3)).bytes(), vec!["x.tar/c.jpg: no label (x.tar, byte "]),
        ("an empty label", "x.tar", tar().sample("c", " ", &image(3)).bytes(), vec!["x.tar/c.jpg: no label"]),
        ("a negative label", "x.tar", tar().sample("c", "-1", &image(3)).bytes(), vec!["x.tar/c.jpg: label -1"]),
        (
            "a word among numbers",
            "x.tfrecord",
            record(&[("image", Feature::Bytes(&extra)), ("label", Feature::Bytes(b"cat"))]),
            vec!["label \"cat\" is not a number"],
        ),
        (
            "a huge label",
            "x.tfrecord",
            record(&[("image", Feature::Bytes(&extra)), ("label", Feature::Ints(&[99_999_999_999]))]),
            vec!["label 99999999999: too large"],
        ),
        ("no image", "x.tar", tar().file("c.cls", b"0").bytes(), vec!["x.tar/c: no image, there is cls"]),
        (
            "an empty image",
            "x.tar",
            tar().sample("c", "0", b"").bytes(),
            vec!["x.tar/c.jpg: empty image (x.tar, byte 13312)"],
        ),
        (
            "a link for an image",
            "x.tar",
            tar().file("c.cls", b"0").member(EntryType::Symlink, "c.jpg", "a.jpg", b"").bytes(),
            vec!["x.tar/c: no image, there is cls (x.tar, byte 13312)"],
        ),
        (
            "no label",
            "x.tfrecord",
            record(&[("image", bytes.clone())]),
            vec!["x.tfrecord/2: no label (x.tfrecord, byte "],
        ),
        (
            "no image",
            "x.tfrecord",
            record(&[("label", Feature::Ints(&[1]))]),
            vec!["no feature holds an image: it has label"],
        ),
        (
            "an empty image",
            "x.tfrecord",
            record(&[("image", no_bytes), ("label", Feature::Ints(&[1]))]),
            vec!["empty image (x.tfrecord, byte "],
        ),
        (
            "a negative label",
            "x.tfrecord",
            record(&[("image", bytes), ("label", Feature::Ints(&[-1]))]),
            vec!["label -1: no class has a number below 0 (x.tfrecord, byte "],
        ),
        (
            "a negative label",
            "x.mds",
            mds_shard(&[good[0].clone(), (-1, image(3)), good[1].clone()]),
            vec!["x.mds/1: label -1", "(x.mds, byte "],
        ),
        (
            "no label",
            "x.parquet",
            parquet_file(&[], &[(Some(0), image(1), None), (None, image(3), None), (Some(2), image(2), None)]),
            vec!["x.parquet/1: no label (x.parquet)"],
        ),
    ];
    for (name, file, bytes, said) in cases {
        let bench = Bench::new();
        let path = bench.at(file);
        fs::write(&path, bytes).unwrap();
        damaged(&format!("{name} in {file}"), &path, &bench.dst(), &good, &said, 1);
    }
}

#[test]
fn a_key_that_stands_in_two_files_is_two_samples() {
    let bench = Bench::new();
    let folder = bench.at("shards");
    fs::create_dir(&folder).unwrap();
    for number in 0..2 {
        let tar = Tar::new().sample("a", "0", &jpeg(number, 5000)).sample("b", "1", &jpeg(5 + number, 5000));
        fs::write(folder.join(format!("{number}.tar")), tar.bytes()).unwrap();
    }
    convert(&[&folder], &bench.dst(), &[]).code(0);
    check_sealed(&bench.dst(), "two files");
    let expected = [(0, 0), (0, 1), (1, 5), (1, 6)].map(|(label, seed)| (label, jpeg(seed, 5000)));
    assert_eq!(sorted(samples(&bench.dst())), sorted(expected));
}

#[test]
fn what_is_left_out_counts_for_its_class_and_the_rest_is_unclassified() {
    let bench = Bench::new();
    let tar = Tar::new()
        .sample("a", "0", &jpeg(1, 5000))
        .sample("b", "1", &jpeg(2, 5000))
        .sample("c", "1", b"")
        .sample("d", "", &jpeg(3, 5000))
        .sample("e", "0", &jpeg(4, 5000));
    let file = bench.at("x.tar");
    let bytes = tar.bytes();
    // Cut after the last sample.
    fs::write(&file, &bytes[..bytes.len() - 1024 - 1]).unwrap();
    convert(&[&file], &bench.dst(), &["--on-bad", "skip", "--exclude", "**/e.jpg"]).code(0);
    check_sealed(&bench.dst(), "counts");
    let manifest = manifest(&bench.dst());
    let count = |counts: shardpack_format::manifest::Counts| {
        (counts.discovered, counts.packed, counts.skipped, counts.filtered)
    };
    assert_eq!(classes(&bench.dst()), ["0", "1"]);
    assert_eq!(count(manifest.classes[0].counts), (2, 1, 0, 1));
    assert_eq!(count(manifest.classes[1].counts), (2, 1, 1, 0));
    assert_eq!(count(manifest.ledger.unclassified), (2, 0, 2, 0));
    assert_eq!(count(manifest.ledger.counts), (6, 2, 3, 1));
}

#[test]
fn a_damaged_image_of_a_sealed_dataset_is_named_and_left_out() {
    for format in names() {
        let bench = Bench::with_source(12, 500);
        let source = bench.at("sealed");
        pack(&bench.src(), &source, &["--format", format, "--shards", "2"]).code(0);
        let before = samples(&source);
        let dataset = Dataset::open(&source).unwrap();
        let row = dataset.row(3).unwrap();
        let (at, path) = (row.payload().0 as usize + 4000, String::from_utf8(row.path.to_vec()).unwrap());
        let file = source.join(&dataset.manifest().shards[0].file);
        let mut bytes = fs::read(&file).unwrap();
        bytes[at] ^= 1;
        fs::write(&file, bytes).unwrap();
        let to = if format == "mds" { "tfrecord" } else { "mds" };
        convert(&[&source], &bench.dst(), &["--format", to]).code(1).says(&path).says("hash").says("nothing is sealed");
        convert(&[&source], &bench.dst(), &["--format", to, "--on-bad", "skip"]).code(0);
        check_sealed(&bench.dst(), format);
        let rest = before.into_iter().enumerate().filter(|(number, _)| *number != 3).map(|(_, sample)| sample);
        assert_eq!(sorted(samples(&bench.dst())), sorted(rest), "{format}");
        let [(left_out, reason)] = &skipped(&bench.dst())[..] else { panic!("{format}") };
        assert!(*left_out == path && reason.contains("hash"), "{format}: {left_out}: {reason}");
    }
}
