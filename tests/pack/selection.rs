//! Tests the selection: kinds, sizes, duplicates, leaks, classes and samples per class, alone and together.
//!
//! The way in which the tree was made determines the expected fate of each image.

use std::{collections::BTreeMap, fs, path::Path};

use proptest::prelude::*;
use shardpack_source::ledger::Fate;
use shardpack_testing::{Bench, Dataset, Ran, contents, jpeg, photos, png, run};

fn verify(bench: &Bench, options: &[&str]) -> Ran {
    run(&[&["verify", bench.dst().to_str().unwrap()][..], options].concat())
}

/// Paths and reasons of the ledger lines with one fate.
fn lines(dataset: &Dataset, fate: Fate) -> Vec<(String, String)> {
    let lines = dataset.unpacked().into_iter().filter(|line| line.1 == fate);
    lines.map(|(path, _, reason)| (path, reason)).collect()
}

fn pair(path: &str, reason: &str) -> (String, String) {
    (path.to_owned(), reason.to_owned())
}

/// A tree with a GIF, a PNG and JPEGs of two sizes.
fn kinds() -> Bench {
    let bench = Bench::new();
    bench.file("a/photo.jpg", &jpeg(0, 5000));
    bench.file("a/spoon.png", &png());
    bench.file("b/named.jpg", &png()[..]);
    bench.file("b/large.jpg", &fs::read(photos().join("space/deep-field-left.jpg")).unwrap());
    bench.file("b/text.jpg", b"this is no image at all");
    bench.file("b/late.jpg", &late());
    bench
}

/// A photograph whose size comes after the bytes that are read first.
fn late() -> Vec<u8> {
    let photo = jpeg(7, 5000);
    let comment = |bytes: usize| [&[0xff, 0xfe][..], &((bytes + 2) as u16).to_be_bytes(), &vec![b'x'; bytes]].concat();
    [&photo[..2], &comment(60_000), &photo[2..]].concat()
}

#[test]
fn only_the_kinds_that_are_named_go_in_whatever_the_files_are_called() {
    let bench = kinds();
    bench.pack(&["--formats", "jpg"]).code(0);
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(dataset.paths(), ["a/photo.jpg", "b/large.jpg", "b/late.jpg"]);
    assert_eq!(
        lines(&dataset, Fate::Filtered),
        [
            pair("a/spoon.png", "a png; --formats names others"),
            pair("b/named.jpg", "a png; --formats names others"),
            pair("b/text.jpg", "no image by its first bytes; --formats names others"),
        ]
    );
    verify(&bench, &["--against", bench.src().to_str().unwrap()]).code(0);
}

#[test]
fn sizes_are_read_from_headers_wherever_they_are_in_the_file() {
    let bench = kinds();
    let small = shardpack_format::image_header::Header::parse(&jpeg(0, 5000));
    let side = small.width.min(small.height);
    bench.pack(&["--min-side", &(side + 1).to_string()]).code(0);
    let dataset = Dataset::read(&bench.dst());
    let filtered = lines(&dataset, Fate::Filtered);
    let reason = format!("{}×{} pixels, --min-side is {}", small.width, small.height, side + 1);
    assert!(filtered.contains(&pair("a/photo.jpg", &reason)), "{filtered:?}");
    assert!(filtered.contains(&pair("b/late.jpg", &reason)), "{filtered:?}");
    let unknown = "its headers have no size, and --min-side or --max-pixels needs one";
    assert!(filtered.contains(&pair("b/text.jpg", unknown)), "{filtered:?}");
    assert!(dataset.paths().contains(&"b/large.jpg".to_owned()));

    let pixels = (u64::from(small.width) * u64::from(small.height)).to_string();
    bench.pack_to(&bench.at("few"), &["--max-pixels", &pixels, "--formats", "jpeg"]).code(0);
    assert_eq!(Dataset::read(&bench.at("few")).paths(), ["a/photo.jpg", "b/late.jpg"]);
}

#[test]
fn what_leaves_nothing_is_said_before_anything_is_written() {
    let bench = kinds();
    bench.pack(&["--min-side", "100000"]).code(2).says("all 6 images are left out, the first: ").clean_error();
    assert!(!bench.dst().exists());
    bench.pack(&["--formats", "jpeg,word"]).code(2).says("one of jpeg, png");
}

/// Duplicates in one class and in two classes, and files of two lengths with the same beginning.
fn twins() -> Bench {
    let bench = Bench::new();
    let (one, other) = (jpeg(1, 6000), jpeg(2, 6000));
    bench.file("a/1.jpg", &one);
    bench.file("a/2.jpg", &other);
    bench.file("a/3.jpg", &one);
    bench.file("b/4.jpg", &one);
    bench.file("b/5.jpg", &[&one[..], b"more"].concat());
    // The same length and the same first 4 KiB, other bytes after that.
    let mut late = one.clone();
    *late.last_mut().unwrap() ^= 1;
    bench.file("b/6.jpg", &late);
    bench
}

#[test]
fn of_images_with_the_same_bytes_the_first_stays() {
    let bench = twins();
    bench
        .pack(&["--dedup", "exact"])
        .code(0)
        .says("1 duplicate of another image is left out")
        .says("1 image has the bytes of another with another class or component, and is packed");
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(dataset.paths(), ["a/1.jpg", "a/2.jpg", "b/4.jpg", "b/5.jpg", "b/6.jpg"]);
    assert_eq!(lines(&dataset, Fate::Duplicate), [pair("a/3.jpg", "the same bytes as a/1.jpg")]);
    assert_eq!(lines(&dataset, Fate::Kept), [pair("b/4.jpg", "the same bytes as a/1.jpg, with another class")]);
    assert_eq!(dataset.manifest.ledger.counts.duplicates, 1);
    verify(&bench, &["--against", bench.src().to_str().unwrap()]).code(0);
    run(&["inspect", bench.dst().to_str().unwrap()]).code(0).says("1 duplicates");
}

#[test]
fn a_duplicate_has_the_same_components() {
    let bench = Bench::new();
    let (one, mask) = (jpeg(1, 6000), [1; 40]);
    for (name, mask) in [("1", Some(mask)), ("2", Some(mask)), ("3", Some([2; 40])), ("4", None), ("5", Some([2; 40]))]
    {
        bench.file(format!("x/{name}.jpg"), &one);
        if let Some(mask) = mask {
            bench.file(format!("masks/{name}.png"), &mask);
        }
    }
    let options = ["--with", "mask=../masks/*.png", "--on-missing", "empty", "--dedup", "exact"];
    bench.pack(&options).code(0).says("2 duplicates").says("2 images have the bytes of others with another class");
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(dataset.paths(), ["x/1.jpg", "x/3.jpg", "x/4.jpg"]);
    let duplicates = [pair("x/2.jpg", "the same bytes as x/1.jpg"), pair("x/5.jpg", "the same bytes as x/3.jpg")];
    assert_eq!(lines(&dataset, Fate::Duplicate), duplicates);
    let other = "the same bytes as x/1.jpg, with another mask.png";
    assert_eq!(lines(&dataset, Fate::Kept), [pair("x/3.jpg", other), pair("x/4.jpg", other)]);
    verify(&bench, &["--against", bench.src().to_str().unwrap()]).code(0);
    // The text of a dataset has the path of each sample, and that is no difference.
    let list = bench.at("list.csv");
    fs::write(&list, "path,width\nx/1.jpg,7\nx/2.jpg,7\nx/3.jpg,8\n").unwrap();
    let (listed, converted) = (bench.at("listed"), bench.at("converted"));
    let src = bench.src();
    let [list, listed, converted, src] = [&list, &listed, &converted, &src].map(|path| path.to_str().unwrap());
    run(&["pack", list, listed, "--root", src, "--meta", "json"]).code(0);
    run(&["convert", listed, converted, "--dedup", "exact"]).code(0).says("1 duplicate of another").says("1 image has");
}

#[test]
fn an_image_in_two_classes_or_splits_is_named_and_stays() {
    let bench = twins();
    bench.pack(&["--leaks"]).code(0).says("3 images are in two splits or two classes; the ledger names them");
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(dataset.samples.len(), 6);
    let elsewhere = |path| pair(path, "the same image is in another class: b/4.jpg");
    assert_eq!(
        lines(&dataset, Fate::Kept),
        [elsewhere("a/1.jpg"), elsewhere("a/3.jpg"), pair("b/4.jpg", "the same image is in another class: a/1.jpg"),]
    );
    verify(&bench, &["--against", bench.src().to_str().unwrap()]).code(0);

    let splits = Bench::new();
    for (path, seed) in [("train/a/1.jpg", 1), ("train/a/2.jpg", 2), ("val/a/x.jpg", 1), ("val/a/y.jpg", 3)] {
        splits.file(path, &jpeg(seed, 6000));
    }
    splits.pack(&["--leaks", "--dedup", "exact"]).code(0);
    let train = Dataset::read(&splits.dst().join("train"));
    assert_eq!(lines(&train, Fate::Kept), [pair("a/1.jpg", "the same image is in another split: val/a/x.jpg")]);
    let val = Dataset::read(&splits.dst().join("val"));
    assert_eq!(lines(&val, Fate::Kept), [pair("a/x.jpg", "the same image is in another split: train/a/1.jpg")]);
    splits
        .pack_to(&splits.at("quiet"), &["--dedup", "exact"])
        .code(0)
        .says("1 image is in more than one split; --leaks names it");
}

#[test]
fn a_sample_of_each_class_is_the_same_on_every_run_and_another_with_another_seed() {
    let bench = Bench::with_source(60, 3000);
    let few = |name: &str, seed: &str| {
        bench.pack_to(&bench.at(name), &["--sample-per-class", "3", "--seed", seed, "--jobs", "1"]).code(0);
        Dataset::read(&bench.at(name)).paths()
    };
    let first = few("first", "0");
    assert_eq!(first, few("again", "0"));
    assert_ne!(first, few("other", "1"));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    first.iter().for_each(|path| *counts.entry(path.split_once('/').unwrap().0).or_default() += 1);
    assert!(counts.len() == 7 && counts.values().all(|count| *count == 3), "{counts:?}");
    // One more image in a class replaces at most one image of the sample.
    bench.file("class-0/new.jpg", &jpeg(500, 5000));
    let more = few("more", "0");
    assert!(first.iter().filter(|path| !more.contains(path)).count() <= 1);
}

#[test]
fn a_list_of_classes_orders_them_and_leaves_the_others_out() {
    let bench = Bench::with(&["cat/1.jpg", "dog/2.jpg", "emu/3.jpg", "dog/4.jpg"]);
    let list = bench.at("classes.txt");
    fs::write(&list, "emu\ngnu\ncat\n").unwrap();
    bench.pack(&["--classes", list.to_str().unwrap()]).code(0).says("gnu");
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(dataset.classes(), ["emu", "gnu", "cat"]);
    assert_eq!(dataset.samples.iter().map(|sample| sample.label).max(), Some(2));
    assert_eq!(dataset.paths(), ["cat/1.jpg", "emu/3.jpg"]);
    let reason = "class dog is not in --classes";
    assert_eq!(lines(&dataset, Fate::Filtered), [pair("dog/2.jpg", reason), pair("dog/4.jpg", reason)]);
    assert_eq!(dataset.manifest.ledger.unclassified.filtered, 2);
    verify(&bench, &["--against", bench.src().to_str().unwrap()]).code(0);

    fs::write(&list, "ox\nyak\n").unwrap();
    let args = ["--classes", list.to_str().unwrap()];
    bench.pack_to(&bench.at("none"), &args).code(2).says("--classes has none of the 3 classes").clean_error();
}

#[test]
fn classes_that_get_one_name_become_one() {
    let bench = Bench::with(&["cat/1.jpg", "dog/2.jpg", "kitten/1.jpg", "puppy/9.jpg"]);
    let map = bench.at("map.csv");
    fs::write(&map, "kitten,cat\npuppy,dog\nfoal,horse\n").unwrap();
    bench.pack(&["--class-map", map.to_str().unwrap()]).code(0).says("1 of its 3 classes are not in the source");
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(dataset.classes(), ["cat", "dog"]);
    let label = |path: &str| dataset.samples.iter().find(|sample| sample.path == path.as_bytes()).unwrap().label;
    assert_eq!(["cat/1.jpg", "kitten/1.jpg", "dog/2.jpg", "puppy/9.jpg"].map(label), [0, 0, 1, 1]);
    verify(&bench, &["--against", bench.src().to_str().unwrap()]).code(0);
    // Repair takes a damaged image from the source, whatever the name of its class there.
    let shard = bench.dst().join("shard-000000.tar");
    let mut bytes = fs::read(&shard).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    verify(&bench, &[]).code(1);
    verify(&bench, &["--repair", bench.src().to_str().unwrap()]).code(0);
}

#[test]
fn shards_are_chosen_from_as_trees_are() {
    let bench = twins();
    bench.pack_to(&bench.at("all"), &[]).code(0);
    let convert = |name: &str, source: &Path| {
        let dst = bench.at(name);
        run(&["convert", source.to_str().unwrap(), dst.to_str().unwrap(), "--dedup", "exact", "--min-side", "2"])
            .code(0);
        Dataset::read(&dst).manifest.ledger.counts
    };
    let sealed = convert("sealed", &bench.at("all"));
    let shards = convert("shards", &bench.at("all/shard-000000.tar"));
    assert_eq!((sealed.packed, sealed.duplicates), (5, 1));
    assert_eq!(shards, sealed);
}

/// The options of one case. The tree is a list of class and image number.
#[derive(Clone, Debug)]
struct Asked {
    formats: bool,
    min_side: bool,
    dedup: bool,
    leaks: bool,
    near: bool,
    per_class: Option<usize>,
    classes: bool,
    /// Files that pass the filters but are not images cannot be packed.
    check: bool,
    resize: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    let flags = any::<[bool; 8]>();
    (flags, prop::option::of(1usize..4)).prop_map(|(flags, per_class)| {
        let [formats, min_side, dedup, leaks, near, classes, check, resize] = flags;
        Asked { formats, min_side, dedup, leaks, near, per_class, classes, check, resize }
    })
}

/// Images by number: JPEGs of one size, a larger JPEG, a PNG, text. Returns the bytes, whether JPEG, and whether large.
fn image(which: u8) -> (Vec<u8>, bool, bool) {
    let large = || fs::read(photos().join("space/deep-field-left.jpg")).unwrap();
    match which {
        0..=3 => (jpeg(which.into(), 6000), true, false),
        4 => (large(), true, true),
        5 => (png(), false, false),
        _ => (b"no image".to_vec(), false, false),
    }
}

/// Expected number of images per fate, computed the slow and obvious way.
fn expected(tree: &[(u8, u8)], asked: &Asked) -> [usize; 3] {
    let mut paths: Vec<(String, u8, u8)> = tree
        .iter()
        .enumerate()
        .map(|(number, (class, which))| (format!("c{class}/{number:03}.jpg"), *class, *which))
        .collect();
    // The first duplicate stays: by class, in the order that `--classes` gives, then by path.
    let place = |class: u8| if asked.classes && class < 9 { 2 - class } else { class };
    paths.sort_by_key(|(path, class, _)| (place(*class), path.clone()));
    let (mut filtered, mut duplicates, mut seen, mut counts) = (0, 0, Vec::new(), BTreeMap::<u8, usize>::new());
    for (_, class, which) in paths {
        let (_, is_jpeg, is_large) = image(which);
        if asked.classes && class == 1 || asked.formats && !is_jpeg || asked.min_side && !is_large {
            filtered += 1;
        } else if asked.dedup && seen.contains(&(class, which)) {
            duplicates += 1;
        } else {
            seen.push((class, which));
            *counts.entry(class).or_default() += 1;
        }
    }
    let most = asked.per_class.unwrap_or(usize::MAX);
    let packed = counts.values().map(|count| (*count).min(most)).sum();
    filtered += counts.values().sum::<usize>() - packed;
    [packed, filtered, duplicates]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_image_is_accounted_for_whatever_is_asked_for(
        tree in prop::collection::vec((0u8..3, 0u8..7), 1..30),
        asked in asked(),
    ) {
        let bench = Bench::new();
        // One image that is always packed, in a class of its own.
        let tree = [&[(9, 4)], tree.as_slice()].concat();
        for (number, (class, which)) in tree.iter().enumerate() {
            bench.file(format!("c{class}/{number:03}.jpg"), &image(*which).0);
        }
        let list = bench.at("classes");
        fs::write(&list, "c2\nc0\nc9\n").unwrap();
        let per_class = asked.per_class.map(|most| most.to_string());
        let mut options: Vec<&str> = Vec::new();
        for (is_asked, words) in [
            (asked.formats, &["--formats", "jpeg"][..]),
            (asked.min_side, &["--min-side", "150"]),
            (asked.dedup, &["--dedup", "exact"]),
            (asked.leaks, &["--leaks"]),
            (asked.near, &["--near-duplicates"]),
            (asked.classes, &["--classes", list.to_str().unwrap()]),
            (asked.check, &["--check", "full"]),
            (asked.resize, &["--resize", "40"]),
            (per_class.is_some(), &["--sample-per-class", per_class.as_deref().unwrap_or("")]),
        ] {
            if is_asked {
                options.extend(words);
            }
        }
        options.extend(["--on-bad", "skip"]);
        bench.pack(&options).code(0);
        let dataset = Dataset::read(&bench.dst());
        let counts = dataset.manifest.ledger.counts;
        let found = [counts.packed + counts.skipped, counts.filtered, counts.duplicates];
        prop_assert_eq!(found, expected(&tree, &asked).map(|count| count as u64), "{:?}", asked);
        prop_assert_eq!(counts.discovered, tree.len() as u64);
        let is_text = |path: &str| tree[path[3..6].parse::<usize>().unwrap()].1 == 6;
        prop_assert!(lines(&dataset, Fate::Skipped).iter().all(|(path, _)| is_text(path)));
        if asked.check || asked.resize {
            prop_assert!(!dataset.paths().iter().any(|path| is_text(path)), "{:?}", asked);
        }
        verify(&bench, &[]).code(0);
        if !asked.resize {
            verify(&bench, &["--against", bench.src().to_str().unwrap()]).code(0);
        }
        // The same for any number of threads.
        bench.pack_to(&bench.at("again"), &[&options[..], &["--jobs", "1"]].concat()).code(0);
        prop_assert_eq!(contents(&bench.at("again")), contents(&bench.dst()));
    }
}

/// Label and named components of each sample, by path.
fn beside(folder: &Path, names: &[&str]) -> BTreeMap<String, (i64, Vec<String>)> {
    let dataset = shardpack_reader::Dataset::open(folder).unwrap();
    let mut reader = dataset.reader(..).unwrap();
    let mut samples = BTreeMap::new();
    while let Some(sample) = reader.next().unwrap() {
        let components: BTreeMap<_, _> = sample.components().collect();
        let texts = names.iter().map(|name| String::from_utf8(components[*name].to_vec()).unwrap()).collect();
        samples.insert(String::from_utf8(sample.path().to_vec()).unwrap(), (sample.label().unwrap(), texts));
    }
    samples
}

#[test]
fn what_is_beside_an_image_stays_with_it_whatever_is_chosen_renamed_or_changed() {
    let bench = Bench::new();
    let mut lines = "path,label,number\n".to_owned();
    for number in 0..24 {
        // Six samples are the same as another one.
        let same = number % 18;
        let class = ["ox", "cat", "kitten", "dog"][same % 4];
        bench.file(format!("f{}/{number}.jpg", number % 3), &jpeg(same as u64, 6000));
        bench.file(format!("f{}/{number}.txt", number % 3), format!("caption {same}").as_bytes());
        lines += &format!("f{}/{number}.jpg,{class},{same}\n", number % 3);
    }
    bench.file("list.csv", lines.as_bytes());
    let (list, map, classes) = (bench.src().join("list.csv"), bench.at("map"), bench.at("classes"));
    fs::write(&map, "kitten cat\n").unwrap();
    fs::write(&classes, "ox\ncat\n").unwrap();
    let choice = ["--class-map", map.to_str().unwrap(), "--classes", classes.to_str().unwrap(), "--dedup", "exact"];
    let changes = ["--with", "txt", "--resize", "40", "--check", "full"];
    for (name, options) in [("chosen", &choice[..]), ("changed", &[&choice[..], &changes].concat())] {
        let dst = bench.at(name);
        shardpack_testing::pack(&list, &dst, options).code(0);
        let names: &[&str] = if name == "changed" { &["json", "txt"] } else { &["json"] };
        let samples = beside(&dst, names);
        // 18 to 23 are the same as 0 to 5. Dogs are left out.
        assert_eq!(samples.len(), (0..18).filter(|number| number % 4 != 3).count(), "{:?}", samples.keys());
        for (path, (label, texts)) in &samples {
            let number = path.split(['/', '.']).nth(1).unwrap().parse::<usize>().unwrap() % 18;
            assert_eq!(*label, i64::from(!number.is_multiple_of(4)), "{path}");
            assert_eq!(texts[0], format!("{{\"number\":{number}}}"), "{path}");
            if name == "changed" {
                assert_eq!(texts[1], format!("caption {number}"), "{path}");
            }
        }
        run(&["verify", dst.to_str().unwrap()]).code(0);
    }
    let chosen = bench.at("chosen");
    run(&["verify", chosen.to_str().unwrap(), "--against", list.to_str().unwrap()]).code(0);
}
