//! Nothing is lost: in any tree, discovered = packed + skipped + duplicates + filtered for each class, and each image that is
//! not packed is in the ledger exactly once.
//!
//! The expected fate of each file comes from how the tree was made, not from the packer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use proptest::prelude::*;
use shardpack_source::ledger::Fate;
use shardpack_testing::{Bench, Dataset, jpeg, png, run};

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    Good,
    PngNamedJpg,
    Empty,
    Dangling,
    LinkToGood,
    Directory,
    Text,
    Hidden,
    /// Present for the plan, missing for the pack.
    Vanishes,
    /// One byte longer for the pack than for the plan.
    Grows,
}

/// The fate of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Expected {
    Packed,
    Skipped,
    Filtered,
    /// Its name is no image name: counted among the other files.
    Ignored,
    /// A folder.
    Nothing,
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        8 => Just(Entry::Good),
        1 => Just(Entry::PngNamedJpg),
        1 => Just(Entry::Empty),
        1 => Just(Entry::Dangling),
        1 => Just(Entry::LinkToGood),
        1 => Just(Entry::Directory),
        1 => Just(Entry::Text),
        1 => Just(Entry::Hidden),
        1 => Just(Entry::Vanishes),
        1 => Just(Entry::Grows),
    ]
}

/// Class, folder below it, entry.
type Tree = Vec<(u8, u8, Entry)>;

/// `--include` and `--exclude`, with the entries that they keep, by number of the entry and of its class.
#[derive(Clone, Copy, Debug)]
enum Globs {
    None,
    /// `--exclude '**/*7.jpg'`
    NotSevens,
    /// `--include 'class-0/**'`
    ClassZero,
    /// `--include '**/*[0-4].jpg' --exclude 'class-1/**'`
    Both,
}

impl Globs {
    fn options(self) -> &'static [&'static str] {
        match self {
            Globs::None => &[],
            Globs::NotSevens => &["--exclude", "**/*7.jpg"],
            Globs::ClassZero => &["--include", "class-0/**"],
            Globs::Both => &["--include", "**/*[0-4].jpg", "--exclude", "class-1/**"],
        }
    }

    fn keep(self, number: usize, class: u8) -> bool {
        match self {
            Globs::None => true,
            Globs::NotSevens => number % 10 != 7,
            Globs::ClassZero => class == 0,
            Globs::Both => number % 10 < 5 && class != 1,
        }
    }
}

/// Writes entry `number` and returns its path.
fn make(bench: &Bench, number: usize, (class, folder, entry): (u8, u8, Entry)) -> String {
    let folder = ["", "x/", "x/y/"][folder as usize % 3];
    let name = match entry {
        Entry::Text => format!("{number}.txt"),
        Entry::Hidden => format!(".{number}.jpg"),
        _ => format!("{number}.jpg"),
    };
    let path = format!("class-{class}/{folder}{name}");
    match entry {
        Entry::Empty => bench.file(&path, b""),
        Entry::Dangling => bench.link(&path, "nowhere"),
        Entry::LinkToGood => bench.link(&path, bench.at("elsewhere.jpg")),
        Entry::Directory => bench.folder(&path),
        Entry::PngNamedJpg => bench.file(&path, &png()),
        _ => bench.file(&path, &jpeg(number as u64, 5000 + 11 * number)),
    }
    path
}

fn expected(number: usize, (class, _, entry): (u8, u8, Entry), globs: Globs) -> Expected {
    match entry {
        Entry::Directory => Expected::Nothing,
        Entry::Text | Entry::Hidden => Expected::Ignored,
        _ if !globs.keep(number, class) => Expected::Filtered,
        Entry::Good | Entry::PngNamedJpg | Entry::LinkToGood => Expected::Packed,
        Entry::Empty | Entry::Dangling | Entry::Vanishes | Entry::Grows => Expected::Skipped,
    }
}

fn check(tree: &Tree, globs: Globs, shards: usize, order: &str) {
    let bench = Bench::new();
    fs::write(bench.at("elsewhere.jpg"), jpeg(999, 5000)).unwrap();
    // One good entry, so that there is always something to pack.
    let tree: Tree = [&[(0, 0, Entry::Good)], tree.as_slice()].concat();
    let fates: BTreeMap<String, Expected> = tree
        .iter()
        .enumerate()
        .map(|(number, entry)| (make(&bench, number, *entry), expected(number, *entry, globs)))
        .collect();
    let with = |fate: Expected| -> Vec<&String> {
        fates.iter().filter(|(_, found)| **found == fate).map(|(path, _)| path).collect()
    };
    let plan = bench.at("tree.plan");
    let plan = plan.to_str().unwrap();
    let (src, dst) = (bench.src(), bench.dst());
    // At most as many shards as the plan has samples.
    let planned = tree.iter().enumerate().filter(|(number, entry)| {
        expected(*number, **entry, globs) == Expected::Packed
            || expected(*number, **entry, globs) == Expected::Skipped
                && matches!(entry.2, Entry::Vanishes | Entry::Grows)
    });
    let shards = shards.min(planned.count()).to_string();
    let options = [globs.options(), &["--shards", &shards, "-o", plan]].concat();
    run(&[&["plan", src.to_str().unwrap(), dst.to_str().unwrap()][..], &options].concat()).code(0);
    for (number, entry) in tree.iter().enumerate() {
        match entry.2 {
            Entry::Vanishes => fs::remove_file(src.join(make(&bench, number, *entry))).unwrap(),
            Entry::Grows => bench.file(make(&bench, number, *entry), &jpeg(number as u64, 5004 + 11 * number)),
            _ => {}
        }
    }

    // First without `--on-bad`: all bad entries are named, nothing is sealed.
    let args = ["pack", "--plan", plan, dst.to_str().unwrap(), "--read-order", order, "--json"];
    let skipped = with(Expected::Skipped);
    let ran = run(&args).code(i32::from(!skipped.is_empty()));
    let json = ran.json();
    let named: BTreeSet<&str> =
        json["bad"].as_array().unwrap().iter().map(|bad| bad["path"].as_str().unwrap()).collect();
    assert_eq!(named, skipped.iter().map(|path| path.as_str()).collect());
    assert_eq!(json["bad"].as_array().unwrap().len(), skipped.len());
    assert_eq!(dst.join("manifest.json").exists(), skipped.is_empty());

    // Then with `--on-bad skip`; `Dataset::read` compares shards and ledger with the manifest.
    run(&[&args[..], &["--on-bad", "skip"]].concat()).code(0);
    let dataset = Dataset::read(&dst);
    dataset.check_source(&src);
    assert_eq!(dataset.paths().iter().collect::<Vec<_>>(), with(Expected::Packed));
    let unpacked = dataset.unpacked();
    let of = |fate: Fate| unpacked.iter().filter(|line| line.1 == fate).map(|line| &line.0).collect::<Vec<_>>();
    assert_eq!(of(Fate::Skipped), skipped);
    assert_eq!(of(Fate::Filtered), with(Expected::Filtered));
    assert_eq!(dataset.manifest.ignored_files.values().sum::<u64>(), with(Expected::Ignored).len() as u64);
    let images = fates.values().filter(|fate| !matches!(fate, Expected::Ignored | Expected::Nothing)).count();
    assert_eq!(dataset.manifest.ledger.counts.discovered, images as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_image_of_a_random_tree_is_packed_or_in_the_ledger_once(
        tree in prop::collection::vec((0u8..4, 0u8..3, entry()), 0..60),
        globs in prop::sample::select(vec![Globs::None, Globs::None, Globs::NotSevens, Globs::ClassZero, Globs::Both]),
        shards in 1usize..9,
        order in prop::sample::select(vec!["plan", "physical"]),
    ) {
        check(&tree, globs, shards, order);
    }
}

#[test]
fn every_kind_of_entry_is_accounted_for_under_every_glob() {
    use Entry::{Dangling, Directory, Empty, Good, Grows, Hidden, LinkToGood, PngNamedJpg, Text, Vanishes};
    let kinds = [Good, PngNamedJpg, Empty, Dangling, LinkToGood, Directory, Text, Hidden, Vanishes, Grows];
    let tree: Tree = (0..3).flat_map(|class| kinds.map(|entry| (class, class, entry))).collect();
    for globs in [Globs::None, Globs::NotSevens, Globs::ClassZero, Globs::Both] {
        check(&tree, globs, 3, "plan");
    }
}
