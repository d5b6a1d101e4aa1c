//! Converts from shards of any format, and from sealed datasets, to every format: no sample is lost or changed, and the bytes
//! depend only on the source and the options.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use shardpack_testing::{
    Bench, contents, jpeg, pack, run, run_after,
    shards::{
        BY_HAND, MAGIC, Sample, check_sealed, classes, convert, make_foreign, manifest, names, odd_images, samples,
        skipped, sorted, written_by_hand,
    },
};

/// A source of odd images, and the expected samples.
fn odd() -> (Bench, Vec<Sample>) {
    let bench = Bench::new();
    let expected = odd_images().into_iter().map(|(path, image)| {
        bench.file(&path, &image);
        (["ant", "bee", "cow"].iter().position(|class| path.starts_with(class)).unwrap() as i64, image)
    });
    let expected = expected.collect();
    (bench, expected)
}

fn against(dst: &Path, src: &Path, what: &str) {
    let ran = run(&["verify", dst.to_str().unwrap(), "--quiet", "--against", src.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{what}: {}{}", ran.stdout, ran.stderr);
}

#[test]
fn foreign_shards_of_each_format_become_each_format_and_nothing_changes() {
    let (bench, expected) = odd();
    let expected = sorted(expected);
    let zstd = ["webdataset", "mds"].map(|format| (format, &["--compress", "zstd"][..]));
    for (from, options) in names().map(|format| (format, &[][..])).chain(zstd) {
        let name = [&[from], options].concat().join("-");
        let foreign = bench.at(&name);
        pack(&bench.src(), &foreign, &[&["--format", from, "--shards", "3"], options].concat()).code(0);
        make_foreign(&foreign);
        let before = contents(&foreign);
        for to in names() {
            let (what, dst) = (format!("{name} to {to}"), bench.at(&format!("{name}-to-{to}")));
            convert(&[&foreign], &dst, &["--format", to, "--shards", "2"]).code(0).says(from);
            check_sealed(&dst, &what);
            assert_eq!(sorted(samples(&dst)), expected, "{what}");
            assert_eq!(skipped(&dst), [], "{what}");
            against(&dst, &foreign, &what);
        }
        assert_eq!(contents(&foreign), before, "{name} was changed");
    }
}

#[test]
fn a_sealed_dataset_becomes_what_packing_its_tree_would_have_made() {
    let (bench, expected) = odd();
    let expected = sorted(expected);
    let options = |format| ["--format", format, "--shards", "2", "--seed", "9"];
    let direct: BTreeMap<_, _> = names()
        .map(|format| {
            let dst = bench.at(&format!("direct-{format}"));
            pack(&bench.src(), &dst, &options(format)).code(0);
            (format, contents(&dst))
        })
        .collect();
    for from in names() {
        let sealed = bench.at(from);
        // The same samples in other shards and another order.
        pack(&bench.src(), &sealed, &["--format", from, "--shards", "5"]).code(0);
        for to in names() {
            let (what, dst) = (format!("{from} to {to}"), bench.at(&format!("{from}-to-{to}")));
            convert(&[&sealed], &dst, &options(to)).code(0).says("a sealed dataset");
            check_sealed(&dst, &what);
            assert_eq!(sorted(samples(&dst)), expected, "{what}");
            against(&dst, &sealed, &what);
            against(&dst, &bench.src(), &what);
            assert_eq!(contents(&dst), direct[to], "{what}");
        }
    }
}

/// First bytes of a JPEG; other first bytes are not accepted as an image. Four bytes, so that magics stay aligned.
const START: &[u8] = b"\xff\xd8\xff\xe0";

#[test]
fn an_image_of_5_mb_with_the_magic_at_its_ends_goes_through_every_pair() {
    let bench = Bench::new();
    let large = [START, &MAGIC, &vec![3; (5 << 20) + 3], &MAGIC].concat();
    let images = [(0, large), (0, START.to_vec())];
    for from in BY_HAND {
        let (name, bytes) = written_by_hand(from, &images);
        fs::write(bench.at(name), bytes).unwrap();
        for to in names() {
            let dst = bench.at(&format!("{from}-to-{to}"));
            convert(&[&bench.at(name)], &dst, &["--format", to]).code(0);
            assert!(sorted(samples(&dst)) == sorted(images.clone()), "{from} to {to}");
            fs::remove_dir_all(dst).unwrap();
        }
    }
}

/// An image of few bytes: arbitrary bytes, or bytes with the magic at any alignment, also cut at the end.
fn image() -> impl Strategy<Value = Vec<u8>> {
    let any = |most| prop::collection::vec(any::<u8>(), 0..=most);
    let magic = (any(5), 1usize..4, any(5), 0usize..4).prop_map(|(before, times, after, cut)| {
        [before.as_slice(), &MAGIC.repeat(times), &after, &MAGIC[..cut]].concat()
    });
    let image = prop_oneof![2 => any(3), 2 => any(40), 4 => magic];
    prop_oneof![1 => Just(Vec::new()), 8 => image.prop_map(|image| [START, &image].concat())]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn round_trips_of_all_pairs_keep_every_image_and_label(
        images in prop::collection::vec((0i64..4, image()), 0..14),
    ) {
        let bench = Bench::new();
        // One image with content, so that there is something to convert.
        let images = [&[(2, START.to_vec())], images.as_slice()].concat();
        let expected = sorted(images.iter().filter(|(_, image)| !image.is_empty()).cloned());
        let empty = images.len() - expected.len();
        for from in BY_HAND {
            let (name, bytes) = written_by_hand(from, &images);
            fs::write(bench.at(name), bytes).unwrap();
            for to in names() {
                let (what, dst) = (format!("{from} to {to}"), bench.at(&format!("{from}-to-{to}")));
                convert(&[&bench.at(name)], &dst, &["--format", to, "--on-bad", "skip"]).code(0);
                check_sealed(&dst, &what);
                prop_assert_eq!(&sorted(samples(&dst)), &expected, "{}", what);
                prop_assert_eq!(skipped(&dst).len(), empty, "{}", what);
                // And back: some sets as a sealed dataset, others as foreign shards.
                let back = bench.at("back");
                if images.len() % 2 == 0 {
                    make_foreign(&dst);
                }
                let format = if from == "parquet" { "webdataset" } else { from };
                convert(&[&dst], &back, &["--format", format]).code(0);
                prop_assert_eq!(&sorted(samples(&back)), &expected, "{} and back", what);
                fs::remove_dir_all(&back).unwrap();
            }
        }
    }
}

#[test]
fn order_source_is_that_of_files_as_given_and_records_as_stored() {
    let bench = Bench::with_source(40, 300);
    for (from, to) in [("webdataset", "mds"), ("tfrecord", "webdataset"), ("recordio", "tfrecord"), ("mds", "recordio")]
    {
        let foreign = bench.at(from);
        pack(&bench.src(), &foreign, &["--format", from, "--shards", "4", "--seed", "3"]).code(0);
        let stored = samples(&foreign);
        let files = make_foreign(&foreign);
        assert_eq!(files.len(), 4, "{from}");
        let order = [3, 0, 2, 1];
        let given: Vec<&Path> = order.iter().map(|number| files[*number].as_path()).collect();
        let expected: Vec<Sample> = order.iter().flat_map(|number| stored[number * 10..][..10].to_vec()).collect();
        let dst = bench.at(&format!("{from}-to-{to}"));
        convert(&given, &dst, &["--format", to, "--order", "source", "--shards", "3"]).code(0);
        assert!(samples(&dst) == expected, "{from} to {to}");
        check_sealed(&dst, from);
        // A folder means its shards in the order of their names.
        let dst = bench.at(&format!("folder-{from}-to-{to}"));
        convert(&[&foreign], &dst, &["--format", to, "--order", "source"]).code(0);
        assert!(samples(&dst) == stored, "folder of {from} to {to}");
        // Shuffled by default.
        let dst = bench.at(&format!("shuffled-{from}-to-{to}"));
        convert(&[&foreign], &dst, &["--format", to]).code(0).says("shuffled with seed 0");
        let shuffled = samples(&dst);
        assert!(shuffled != stored && sorted(shuffled) == sorted(stored), "{from} to {to}");
    }
}

#[test]
fn a_sealed_dataset_in_order_source_keeps_its_stored_order() {
    let bench = Bench::with_source(30, 300);
    bench.pack(&["--shards", "3", "--seed", "4"]).code(0);
    let dst = bench.at("converted");
    convert(&[&bench.dst()], &dst, &["--format", "tfrecord", "--order", "source", "--shards", "2"]).code(0);
    assert!(samples(&dst) == samples(&bench.dst()));
}

#[test]
fn globs_braces_and_several_sources_stand_for_files_in_their_order() {
    let bench = Bench::with_source(40, 300);
    let foreign = bench.at("shards");
    pack(&bench.src(), &foreign, &["--shards", "4"]).code(0);
    let stored = samples(&foreign);
    make_foreign(&foreign);
    let in_order = |numbers: &[usize]| numbers.iter().flat_map(|n| stored[n * 10..][..10].to_vec()).collect::<Vec<_>>();
    let at = |name: &str| foreign.join(name);
    let cases: [(&str, Vec<PathBuf>, &[usize]); 4] = [
        ("glob", vec![at("shard-*.tar")], &[0, 1, 2, 3]),
        ("braces", vec![at("shard-{000003..000001}.tar")], &[3, 2, 1]),
        ("list in braces", vec![at("shard-00000{2,0}.tar")], &[2, 0]),
        ("glob and file", vec![at("shard-*[23].tar"), at("shard-000000.tar")], &[2, 3, 0]),
    ];
    for (name, sources, expected) in cases {
        let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
        let dst = bench.at(name);
        convert(&sources, &dst, &["--order", "source"]).code(0);
        assert!(samples(&dst) == in_order(expected), "{name}");
    }
    let file = at("shard-000001.tar");
    let refused = [
        (vec![at("shard-*.tar"), file.clone()], "is given twice"),
        (vec![at("other-*.tar")], "no file matches this pattern"),
        (vec![at("shard-{000000..000009}.tar")], "no such file"),
        (vec![bench.at("nowhere")], "no such file"),
    ];
    for (sources, says) in refused {
        let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
        convert(&sources, &bench.dst(), &[]).code(2).clean_error().says(says);
        assert!(!bench.dst().exists());
    }
    convert(&[&bench.src()], &bench.dst(), &[]).code(2).clean_error().says("no shards in here").says("shardpack pack");
}

#[test]
fn the_bytes_depend_on_neither_threads_nor_order_of_reading() {
    let (bench, _) = odd();
    let foreign = |format: &str, options: &[&str]| {
        let foreign = bench.at(&[&["source", format], options].concat().join("-"));
        pack(&bench.src(), &foreign, &[&["--format", format, "--shards", "3"], options].concat()).code(0);
        make_foreign(&foreign);
        foreign
    };
    let mut sources: Vec<PathBuf> = names().map(|format| foreign(format, &[])).collect();
    sources.push(foreign("webdataset", &["--compress", "zstd"]));
    let sealed = bench.at("sealed");
    pack(&bench.src(), &sealed, &[]).code(0);
    sources.push(sealed);
    for source in &sources {
        let mut first = None;
        for (number, options) in [
            ["--jobs", "1", "--read-order", "plan"],
            ["--jobs", "4", "--read-order", "plan"],
            ["--jobs", "1", "--read-order", "physical"],
            ["--jobs", "4", "--read-order", "physical"],
        ]
        .iter()
        .enumerate()
        {
            let dst = bench.at(&format!("dst-{number}"));
            convert(&[source], &dst, &[&["--shards", "2", "--format", "tfrecord"], &options[..]].concat()).code(0);
            let found = contents(&dst);
            assert_eq!(first.get_or_insert_with(|| found.clone()), &found, "{} {options:?}", source.display());
            fs::remove_dir_all(dst).unwrap();
        }
    }
}

#[test]
fn what_was_recognised_and_three_samples_are_shown_before_the_work() {
    let bench = Bench::with(&["cat/1.jpg", "cat/2.jpg", "dog/3.jpg", "dog/4.jpg"]);
    let formats = [
        ("webdataset", &["fields  image jpg; label cls"][..]),
        ("tfrecord", &["image image/encoded", "label image/class/label", "(cat)", "(dog)"]),
        ("recordio", &[]),
        ("mds", &["image image", "label label"]),
    ];
    for (format, fields) in formats {
        let foreign = bench.at(format);
        pack(&bench.src(), &foreign, &["--format", format, "--order", "source"]).code(0);
        make_foreign(&foreign);
        let mut ran = convert(&[&foreign], &bench.dst(), &["--dry-run"]).code(0).says(&format!("1 file of {format}"));
        for field in fields {
            ran = ran.says(field);
        }
        assert_eq!(ran.stderr.matches(": label ").count(), 3, "{format}: {}", ran.stderr);
        assert!(!bench.dst().exists());
    }
}

#[test]
fn from_says_what_files_do_not_tell_and_leaves_out_what_is_something_else() {
    let bench = Bench::new();
    let folder = bench.at("mixed");
    fs::create_dir(&folder).unwrap();
    let images = [(0, jpeg(1, 5000)), (1, jpeg(2, 6000))];
    for format in BY_HAND {
        let (name, bytes) = written_by_hand(format, &images);
        // The format is detected from the content, not from the name.
        fs::write(folder.join(name).with_extension(format!("{format}-bin")), bytes).unwrap();
    }
    fs::write(folder.join("notes.bin"), b"nothing that is known").unwrap();
    for format in BY_HAND {
        let dst = bench.at(format);
        convert(&[&folder], &dst, &["--from", format]).code(0).says(&format!("1 file of {format}"));
        assert_eq!(sorted(samples(&dst)), sorted(images.clone()), "{format}");
    }
    let ran = convert(&[&folder], &bench.dst(), &[]).code(0);
    ran.says("5 files of 1 mds, 1 parquet, 1 recordio, 1 tfrecord, 1 webdataset").says("1 other file skipped");
    assert_eq!(manifest(&bench.dst()).samples, 10);
    assert_eq!(classes(&bench.dst()), ["0", "1"]);
    let notes = folder.join("notes.bin");
    convert(&[&notes], &bench.at("none"), &[]).code(1).clean_error().says("notes.bin").says("no format");
    assert!(!bench.at("none").exists());
}

#[test]
fn a_destination_among_the_shards_is_refused() {
    let bench = Bench::with(&["a/1.jpg"]);
    let foreign = bench.at("shards");
    pack(&bench.src(), &foreign, &[]).code(0);
    let sealed = contents(&foreign);
    convert(&[&foreign], &foreign.join("below"), &[]).code(2).clean_error().says("inside the source");
    convert(&[&foreign], &foreign, &["--force"]).code(2).clean_error().says("inside the source");
    assert_eq!(contents(&foreign), sealed);
    make_foreign(&foreign);
    let before = contents(&foreign);
    convert(&[&foreign], &foreign, &["--force"]).code(2).clean_error().says("inside the source");
    // The same with the folder given as `.`.
    let there = format!("cd '{}'", foreign.display());
    let args = ["convert", "shard-000000.tar", ".", "--force"];
    run_after(&there, &args).code(2).clean_error().says("inside the source");
    assert_eq!(contents(&foreign), before);
    run_after(&there, &["convert", "shard-000000.tar", "../beside"]).code(0);
    check_sealed(&bench.at("beside"), "beside");
}

#[test]
fn shards_that_give_no_sample_are_refused_and_leave_nothing() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg"]);
    let (foreign, empty) = (bench.at("shards"), bench.at("empty.tar"));
    pack(&bench.src(), &foreign, &[]).code(0);
    make_foreign(&foreign);
    fs::write(&empty, [0; 1024]).unwrap();
    convert(&[&empty], &bench.dst(), &[]).code(1).clean_error().says("empty.tar: no samples in here");
    let ran = convert(&[&foreign], &bench.dst(), &["--exclude", "**"]).code(2).clean_error();
    ran.says("--include and --exclude leave no samples");
    assert!(!bench.dst().exists());
    // An empty shard next to one with samples is accepted.
    convert(&[&empty, &foreign], &bench.dst(), &[]).code(0);
    assert_eq!(manifest(&bench.dst()).samples, 2);
}
