use std::{collections::BTreeMap, fs, io::Write, os::unix::fs::FileExt};

use tempfile::NamedTempFile;

use super::*;

/// Bytes of a page in the environments that are written here; liblmdb takes it where the machine has such pages.
const PAGE: usize = 512;
const NONE: u64 = u64::MAX;

/// An environment, page by page, as liblmdb would write it.
struct Pages(Vec<Vec<u8>>);

/// A node: its flags, key, and what follows the key; and the number that it says instead of the length of that.
struct TestNode(u16, Vec<u8>, Vec<u8>, Option<u32>);

fn plain(key: &str, value: &[u8]) -> TestNode {
    TestNode(0, key.into(), value.to_vec(), None)
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    page[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A page of nodes with so many bytes.
fn nodes(bytes: usize, number: u64, flags: u16, nodes: &[TestNode]) -> Vec<u8> {
    let mut page = vec![0; bytes];
    let mut upper = bytes;
    for (index, TestNode(flags, key, data, said)) in nodes.iter().enumerate() {
        upper -= (8 + key.len() + data.len()).next_multiple_of(2);
        put(&mut page, 16 + 2 * index, &(upper as u16).to_le_bytes());
        put(&mut page, upper, &said.unwrap_or(data.len() as u32).to_le_bytes());
        put(&mut page, upper + 4, &flags.to_le_bytes());
        put(&mut page, upper + 6, &(key.len() as u16).to_le_bytes());
        put(&mut page, upper + 8, key);
        put(&mut page, upper + 8 + key.len(), data);
    }
    put(&mut page, 0, &number.to_le_bytes());
    put(&mut page, 10, &flags.to_le_bytes());
    put(&mut page, 12, &(16 + 2 * nodes.len() as u16).to_le_bytes());
    put(&mut page, 14, &(upper as u16).to_le_bytes());
    page
}

/// A page of items of one size with so many bytes.
fn items(bytes: usize, number: u64, flags: u16, items: &[&[u8]]) -> Vec<u8> {
    let mut page = nodes(bytes, number, flags | 0x20, &[]);
    put(&mut page, 8, &(items[0].len() as u16).to_le_bytes());
    put(&mut page, 12, &(16 + 2 * items.len() as u16).to_le_bytes());
    put(&mut page, 16, &items.concat());
    page
}

/// A record: item bytes, flags, depth, branch pages, leaf pages, overflow pages, entries, root.
fn record(item: u32, flags: u16, depth: u16, counts: [u64; 4], root: u64) -> Vec<u8> {
    let mut record = [&item.to_le_bytes()[..], &flags.to_le_bytes(), &depth.to_le_bytes()].concat();
    record.extend(counts.into_iter().chain([root]).flat_map(u64::to_le_bytes));
    record
}

impl Pages {
    fn new() -> Self {
        Self(vec![vec![0; PAGE]; 2])
    }

    fn next(&self) -> u64 {
        self.0.len() as u64
    }

    fn leaf(&mut self, given: &[TestNode]) -> u64 {
        let number = self.next();
        self.0.push(nodes(PAGE, number, 2, given));
        number
    }

    fn branch(&mut self, children: &[(&str, u64)]) -> u64 {
        let number = self.next();
        let given = children
            .iter()
            .map(|(key, child)| TestNode((child >> 32) as u16, (*key).into(), Vec::new(), Some(*child as u32)));
        self.0.push(nodes(PAGE, number, 1, &given.collect::<Vec<_>>()));
        number
    }

    /// A value on pages of its own, as a node.
    fn large(&mut self, key: &str, value: &[u8]) -> TestNode {
        let number = self.next();
        let count = (16 + value.len()).div_ceil(PAGE);
        let mut bytes = vec![0; count * PAGE];
        put(&mut bytes, 0, &number.to_le_bytes());
        put(&mut bytes, 10, &4u16.to_le_bytes());
        put(&mut bytes, 12, &(count as u32).to_le_bytes());
        put(&mut bytes, 16, value);
        self.0.extend(bytes.chunks(PAGE).map(<[u8]>::to_vec));
        TestNode(1, key.into(), number.to_le_bytes().to_vec(), Some(value.len() as u32))
    }

    /// Writes both metas: the one before, of nothing, and the one that counts.
    fn finish(mut self, main: &[u8]) -> Vec<u8> {
        let empty = record(0, 0, 0, [0; 4], NONE);
        for (number, main, last, transaction) in [(0, main, self.next() - 1, 6u64), (1, &empty, 1, 5)] {
            let page = &mut self.0[number as usize];
            put(page, 0, &u64::to_le_bytes(number));
            put(page, 10, &8u16.to_le_bytes());
            put(page, 16, &0xbeef_c0de_u32.to_le_bytes());
            put(page, 20, &1u32.to_le_bytes());
            put(page, 32, &(1u64 << 30).to_le_bytes());
            put(page, 40, &record(PAGE as u32, 8, 0, [0; 4], NONE));
            put(page, 88, main);
            put(page, 136, &last.to_le_bytes());
            put(page, 144, &transaction.to_le_bytes());
        }
        self.0.concat()
    }
}

/// Two leaves, the later keys in the earlier page, with values on overflow pages, and named databases: an empty one,
/// and two with duplicates of all kinds.
fn small() -> Vec<u8> {
    let mut pages = Pages::new();
    let later = pages.next();
    pages.0.push(Vec::new());
    let inner = nodes(60, 0, 0x52, &[plain("one", b""), plain("three", b"")]);
    let tree = pages.next();
    pages.0.push(nodes(PAGE, tree, 2, &[plain("u", b""), plain("v", b""), plain("w", b"")]));
    let many = pages.leaf(&[
        TestNode(4, b"inner".to_vec(), inner, None),
        plain("single", b"only"),
        TestNode(6, b"tree".to_vec(), record(0, 0, 1, [0, 1, 0, 3], tree), None),
    ]);
    let fixed = pages.next();
    pages.0.push(items(PAGE, fixed, 2, &[b"aa", b"bb"]));
    let inner = items(30, 0, 0x52, &[b"x1", b"x2", b"x3"]);
    let pairs = pages.leaf(&[
        TestNode(4, b"inner".to_vec(), inner, None),
        TestNode(6, b"tree".to_vec(), record(2, 0x10, 1, [0, 1, 0, 2], fixed), None),
    ]);
    let empty = record(0, 0, 0, [0; 4], NONE);
    let first = [
        pages.large("a", &[7; 1200]),
        plain("b", b""),
        plain("c", b"sea"),
        TestNode(2, b"empty".to_vec(), empty, None),
    ];
    let first = pages.leaf(&first);
    let last = [
        TestNode(2, b"many".to_vec(), record(0, 4, 1, [0, 1, 0, 6], many), None),
        TestNode(2, b"pairs".to_vec(), record(0, 0x14, 1, [0, 1, 0, 5], pairs), None),
        pages.large("z", &[9; PAGE - 16]),
    ];
    pages.0[later as usize] = nodes(PAGE, later, 2, &last);
    let root = pages.branch(&[("", first), ("many", later)]);
    pages.finish(&record(0, 0, 2, [1, 2, 4, 7], root))
}

fn file_of(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Keys and values of a walk.
fn pairs(database: &Database, mut walk: Walk) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::new();
    while let Some(Entry { key, value, .. }) = walk.next()? {
        let mut bytes = Vec::new();
        database.read(value, &mut bytes)?;
        pairs.push((key, bytes));
    }
    assert!(walk.next().unwrap().is_none());
    Ok(pairs)
}

/// All that can be asked of an environment; returns how many values there were.
fn ask(path: &Path) -> Result<usize> {
    let environment = Environment::open(path)?;
    let mut count = 0;
    for name in environment.names()?.iter().map(|name| Some(&name[..])).chain([None]) {
        let database = environment.database(name)?;
        let by_page = pairs(&database, database.walk()?)?;
        let by_key = pairs(&database, database.cursor()?)?;
        count += by_page.len();
        assert_eq!(BTreeMap::from_iter(by_page.clone()).len(), BTreeMap::from_iter(by_key).len());
        for (key, _) in by_page {
            database.get(&key)?;
        }
    }
    Ok(count)
}

fn refused(bytes: &[u8]) -> String {
    ask(file_of(bytes).path()).unwrap_err().to_string()
}

fn owned(pairs: &[(&str, &[u8])]) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.to_vec())).collect()
}

#[test]
fn entries_come_in_the_order_of_pages_and_of_keys() {
    let file = file_of(&small());
    let environment = Environment::open(file.path()).unwrap();
    assert!(environment.damage().is_none() && environment.entries() == 7);
    assert_eq!(environment.names().unwrap(), [&b"empty"[..], b"many", b"pairs"]);
    let main = environment.database(None).unwrap();
    let all: [(&str, &[u8]); 4] = [("a", &[7; 1200]), ("b", b""), ("c", b"sea"), ("z", &[9; PAGE - 16])];
    assert_eq!(pairs(&main, main.cursor().unwrap()).unwrap(), owned(&all));
    let [a, b, c, z] = all;
    assert_eq!(pairs(&main, main.walk().unwrap()).unwrap(), owned(&[z, a, b, c]));
    let empty = environment.database(Some(b"empty")).unwrap();
    assert!(empty.get(b"a").unwrap().is_none() && pairs(&empty, empty.walk().unwrap()).unwrap().is_empty());
}

#[test]
fn each_duplicate_is_an_entry() {
    let file = file_of(&small());
    let environment = Environment::open(file.path()).unwrap();
    let many = environment.database(Some(b"many")).unwrap();
    let expected: [(&str, &[u8]); 6] =
        [("inner", b"one"), ("inner", b"three"), ("single", b"only"), ("tree", b"u"), ("tree", b"v"), ("tree", b"w")];
    assert_eq!(pairs(&many, many.walk().unwrap()).unwrap(), owned(&expected));
    let fixed = environment.database(Some(b"pairs")).unwrap();
    let expected: [(&str, &[u8]); 5] =
        [("inner", b"x1"), ("inner", b"x2"), ("inner", b"x3"), ("tree", b"aa"), ("tree", b"bb")];
    assert_eq!(pairs(&fixed, fixed.cursor().unwrap()).unwrap(), owned(&expected));
}

#[test]
fn a_key_is_found_by_its_tree() {
    let file = file_of(&small());
    let environment = Environment::open(file.path()).unwrap();
    let cases: [(Option<&str>, &str, Option<&[u8]>); 13] = [
        (None, "a", Some(&[7; 1200])),
        (None, "b", Some(b"")),
        (None, "c", Some(b"sea")),
        (None, "z", Some(&[9; PAGE - 16])),
        (None, "many", None),
        (None, "", None),
        (None, "bb", None),
        (None, "zz", None),
        (Some("many"), "inner", Some(b"one")),
        (Some("many"), "single", Some(b"only")),
        (Some("many"), "tree", Some(b"u")),
        (Some("pairs"), "inner", Some(b"x1")),
        (Some("pairs"), "tree", Some(b"aa")),
    ];
    for (name, key, expected) in cases {
        let database = environment.database(name.map(str::as_bytes)).unwrap();
        let mut bytes = Vec::new();
        let found = database.get(key.as_bytes()).unwrap().map(|value| database.read(value, &mut bytes).unwrap());
        assert_eq!(found.map(|()| &bytes[..]), expected, "{name:?} {key:?}");
    }
    for name in ["a", "nothing"] {
        let error = environment.database(Some(name.as_bytes())).unwrap_err();
        assert!(error.to_string().ends_with(&format!("there is no database named {name}")), "{error}");
    }
}

#[test]
fn keys_are_compared_as_the_flags_say() {
    for (flags, keys) in [(0x02, ["ba", "ab", "b"]), (0x08, ["ba", "ab", "bb"])] {
        let mut pages = Pages::new();
        let mut sorted = keys;
        sorted.sort_by_key(|key| key.bytes().rev().collect::<Vec<_>>());
        let root = pages.leaf(&sorted.map(|key| plain(key, key.as_bytes())));
        let file = file_of(&pages.finish(&record(0, flags, 1, [0, 1, 0, 3], root)));
        let environment = Environment::open(file.path()).unwrap();
        let main = environment.database(None).unwrap();
        assert!(keys.iter().all(|key| main.get(key.as_bytes()).unwrap().is_some()), "{flags:#x}");
    }
}

#[test]
fn a_folder_is_opened_by_its_data_file_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data.mdb"), small()).unwrap();
    assert_eq!(ask(folder.path()).unwrap(), 15);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_damaged_meta_is_read_from_its_twin_and_said() {
    let mut good = small();
    // The second is the older one; with the first's pages it serves as well.
    let (first, second) = good.split_at_mut(PAGE);
    second[16..144].copy_from_slice(&first[16..144]);
    for (page, at, byte, why) in [
        (0, 16, 0, "it does not hold 0xbeefc0de but 0xbeefc000"),
        (0, 20, 9, "version 9 of the format, expected 1"),
        (0, 10, 2, "its header has page number 0 and the flags 0x2"),
        (0, 41, 4, "its page size is 1024 bytes"),
        (0, 40, 1, "pages of 513 bytes, a power of 2 from 512 to 32768 is possible"),
        (0, 135, 1, "a tree begins at page 72057594037927948, pages are 2 to 12"),
        (1, 0, 3, "its header has page number 3 and the flags 0x8"),
        (1, 94, 40, "a tree of 40 levels, 1 to 32 are possible"),
    ] {
        let mut bytes = good.clone();
        bytes[page * PAGE + at] = byte;
        let file = file_of(&bytes);
        let environment = Environment::open(file.path()).unwrap();
        let (twin, of) = (1 - page, 5 + page);
        let expected = format!(
            "meta page {page} is damaged: {why}; read from its twin, page {twin}, as of transaction {of}: any later \
             write is missing"
        );
        assert_eq!(environment.damage().map(|damage| damage.what()).unwrap_or_default(), expected);
        assert_eq!(ask(file.path()).unwrap(), 15);
        assert!(Environment::is(&bytes[..4096]));
    }
    let (first, second) = (good[16] ^ 1, good[PAGE + 16] ^ 1);
    (good[16], good[PAGE + 16]) = (first, second);
    assert!(refused(&good).ends_with("and there is no good second meta page"));
    assert!(!Environment::is(&good));
}

#[test]
fn other_machines_and_versions_are_refused_with_words() {
    let magic = 0xbeef_c0de_u32;
    for (at, magic, why) in [
        (12, magic.to_le_bytes(), "a 32-bit machine wrote it"),
        (16, magic.to_be_bytes(), "a big-endian machine wrote it"),
        (24, magic.to_le_bytes(), "LMDB 1.0 wrote it, in another format"),
    ] {
        let mut bytes = vec![0; 8192];
        put(&mut bytes, at, &magic);
        assert!(Environment::is(&bytes));
        assert!(refused(&bytes).ends_with(&format!("byte 0: an LMDB file that cannot be read here: {why}")));
    }
    for bytes in [&b""[..], b"PAR1", &[0; 4096]] {
        assert!(!Environment::is(bytes));
        assert!(refused(bytes).contains("page 0"));
    }
}

/// Changes bytes of the small environment and expects an error.
#[test]
fn what_is_wrong_in_a_tree_is_said_with_its_page() {
    let good = small();
    let pages = good.len() / PAGE;
    let at = |page: usize, byte: usize| page * PAGE + byte;
    let (later, first, root) = (2, pages - 3, pages - 1);
    // The nodes of a branch page lie at its end, the first last.
    let (child, other) = (at(root, PAGE - 8), at(root, PAGE - 20));
    let large = at(later, usize::from(good[at(later, 20)]) + 256 * usize::from(good[at(later, 21)]));
    let cases: [(&str, usize, &[u8], &str); 13] = [
        ("a page twice", child, &[2], "page 2: it is in the tree twice"),
        ("a cycle", child, &[root as u8], "expected a leaf page, found a branch page"),
        ("a page beyond", other, &[200], "page 200 is below it, pages are 2 to"),
        ("a meta in the tree", other, &[1], "page 1 is below it, pages are 2 to"),
        ("too deep", at(0, 94), &[3], "expected a branch page, found a leaf page"),
        ("other pages", at(0, 104), &[3], "page 0: a tree of 1 branch and 3 leaf pages, it has 1 and 2"),
        ("other entries", at(0, 120), &[8], "page 0: a database of 8 entries has 7"),
        ("another page", at(first, 0), &[1], "its header has page number 1"),
        ("lower above upper", at(first, 13), &[2], "its free room is from"),
        ("a far node", at(first, 16), &[0xff, 0x7f], "node 0 is at 32767"),
        ("nodes on one another", at(first, 16), &[good[at(first, 18)], good[at(first, 19)]], "two nodes overlap"),
        ("a far value", large + 9, &[99], "its value is on page 99"),
        ("a value of no pages", large, &[0, 2], "1 pages of 512 bytes for a value of 512"),
    ];
    for (name, at, bytes, expected) in cases {
        let mut damaged = good.clone();
        put(&mut damaged, at, bytes);
        let error = refused(&damaged);
        assert!(error.contains("byte ") && error.contains(expected), "{name}: {error}");
    }
}

#[test]
fn a_tree_that_grows_as_a_power_ends() {
    // Every branch page has the next one below it 20 times, 30 levels deep.
    let mut pages = Pages::new();
    let leaf = pages.leaf(&[plain("a", b"a")]);
    let mut below = leaf;
    for _ in 1..30 {
        below = pages.branch(&[("k", below); 20]);
    }
    let error = refused(&pages.finish(&record(0, 0, 30, [29, 1, 0, 1], below)));
    assert!(error.contains("the tree has more pages than the file"), "{error}");
}

#[test]
fn a_value_that_many_entries_share_ends() {
    let mut pages = Pages::new();
    let TestNode(flags, _, data, said) = pages.large("a", &[1; 5000]);
    let same = |key: u8| TestNode(flags, vec![key], data.clone(), said);
    let root = pages.leaf(&[same(b'a'), same(b'b')]);
    let error = refused(&pages.finish(&record(0, 0, 1, [0, 1, 10, 2], root)));
    assert!(error.contains("the tree has more pages than the file"), "{error}");
}

#[test]
fn a_file_may_lack_pages_that_are_free() {
    let mut pages = Pages::new();
    let root = pages.leaf(&[plain("a", b"a")]);
    let list: Vec<u8> = [2u64, 5, 4].into_iter().flat_map(u64::to_le_bytes).collect();
    let free = pages.leaf(&[TestNode(0, 3u64.to_le_bytes().to_vec(), list, None)]);
    let mut bytes = pages.finish(&record(0, 0, 1, [0, 1, 0, 1], root));
    put(&mut bytes, 40, &record(PAGE as u32, 8, 1, [0, 1, 0, 1], free));
    for (last, is_whole) in [(3u8, true), (4, true), (5, true), (6, false)] {
        bytes[136] = last;
        // At 4, page 5 of the list is beyond the last and does not count.
        assert_eq!(ask(file_of(&bytes).path()).is_ok(), is_whole, "last page {last}");
    }
    let expected =
        "byte 2048: truncated LMDB file: 2048 bytes; its last page is 6, with pages of 512 bytes it has 3584";
    assert!(refused(&bytes).ends_with(expected));
}

#[test]
fn every_flipped_bit_and_every_cut_is_an_error_or_entries() {
    let good = small();
    let file = file_of(&good);
    assert_eq!(ask(file.path()).unwrap(), 15);
    for (at, byte) in good.iter().enumerate() {
        // Free room and the middle of values are never looked at.
        if good[at.saturating_sub(8)..(at + 9).min(good.len())].iter().all(|near| near == byte) {
            continue;
        }
        for bit in 0..8 {
            file.as_file().write_all_at(&[byte ^ 1 << bit], at as u64).unwrap();
            let _ = ask(file.path());
        }
        file.as_file().write_all_at(&[*byte], at as u64).unwrap();
    }
    assert_eq!(ask(file.path()).unwrap(), 15);
    for bytes in (0..good.len()).rev() {
        file.as_file().set_len(bytes as u64).unwrap();
        let _ = ask(file.path()).unwrap_err();
    }
}

#[test]
fn the_seed_of_the_fuzz_target_is_the_small_environment() {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/lmdb/small.mdb");
    if std::env::var_os("SHARDPACK_WRITE_SEED").is_some() {
        fs::create_dir_all(seed.parent().unwrap()).unwrap();
        fs::write(&seed, small()).unwrap();
    }
    assert!(fs::read(&seed).unwrap() == small(), "run this test with SHARDPACK_WRITE_SEED=1");
}
