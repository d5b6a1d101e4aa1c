use std::collections::BTreeMap;

use shardpack_format::ErrorKind;
use shardpack_storage::Memory;

use super::*;
use crate::zip::{archive::END_BYTES, written::zip};

fn stored(bytes: &[u8]) -> Arc<dyn Storage> {
    let memory = Memory::new("there");
    memory.put("all.zip", bytes.to_vec()).unwrap();
    Arc::new(memory)
}

fn opened(bytes: &[u8]) -> Result<ZipFolder> {
    ZipFolder::open(stored(bytes), "all.zip").map(Option::unwrap)
}

/// What is wrong with an archive, or with its only problem among the files.
fn said(bytes: &[u8]) -> String {
    match opened(bytes) {
        Err(error) => error.to_string(),
        Ok(folder) => files(&folder).into_values().find_map(std::result::Result::err).unwrap(),
    }
}

/// The files that are listed, with their content or what is wrong with it.
fn files(folder: &ZipFolder) -> BTreeMap<String, std::result::Result<Vec<u8>, String>> {
    let (page, has_more) = folder.first_page().unwrap();
    assert!(!has_more);
    let read = |object: Object| {
        let mut content = vec![0; object.bytes as usize];
        let read = folder.read_listed(&object, 0, &mut content).map(|()| content);
        (object.name, read.map_err(|error| error.to_string()))
    };
    page.objects.into_iter().map(read).collect()
}

fn text(number: usize) -> Vec<u8> {
    format!("the content of file {number} ").repeat(2 + number).into_bytes()
}

fn some() -> Vec<u8> {
    let members = [
        ("cat/1.jpg", text(1), false),
        ("dog/", Vec::new(), false),
        ("cat/é ü.jpg", text(2), true),
        ("cat.jpg", text(3), true),
        ("dog/deep/4.jpg", text(4), false),
        ("none", Vec::new(), false),
    ];
    zip(&members)
}

#[test]
fn the_files_of_an_archive_are_those_of_a_storage() {
    let folder = opened(&some()).unwrap();
    let expected = [("cat/1.jpg", 1), ("cat/é ü.jpg", 2), ("cat.jpg", 3), ("dog/deep/4.jpg", 4)];
    let mut expected: BTreeMap<_, _> =
        expected.into_iter().map(|(name, number)| (name.to_owned(), Ok(text(number)))).collect();
    expected.insert("none".to_owned(), Ok(Vec::new()));
    assert_eq!(files(&folder), expected);
    assert_eq!(folder.first_page().unwrap().0.folders, ["dog"]);
    let listed = |folder: &dyn Storage, below: &str| -> Vec<String> {
        let entries = folder.list(below).unwrap().unwrap();
        entries.into_iter().map(|entry| entry.name + if entry.is_folder { "/" } else { "" }).collect()
    };
    assert_eq!(listed(&folder, ""), ["cat/", "cat.jpg", "dog/", "none"]);
    assert_eq!(listed(&folder, "cat"), ["1.jpg", "é ü.jpg"]);
    assert_eq!(listed(&folder, "cat/"), ["1.jpg", "é ü.jpg"]);
    let mut walked = Vec::new();
    let mut take = |name: &str, bytes: u64| {
        walked.push((name.to_owned(), bytes));
        ControlFlow::Continue(())
    };
    folder.walk("dog", &mut take).unwrap();
    assert_eq!(walked, [("dog/deep/4.jpg".to_owned(), text(4).len() as u64)]);
    assert_eq!(
        (folder.length("cat/1.jpg").unwrap(), folder.length("cat").unwrap()),
        (Some(text(1).len() as u64), None)
    );

    let below = folder.folder("dog").unwrap().folder("deep").unwrap();
    assert_eq!(below.root(), Path::new("there/all.zip/dog/deep"));
    assert_eq!(listed(below.as_ref(), ""), ["4.jpg"]);
    assert_eq!(below.read("4.jpg", 1 << 20).unwrap().unwrap(), text(4));
    assert!(below.read("4.jpg", 7).unwrap_err().to_string().contains("such a file has at most 7"));
    assert!(below.read("1.jpg", 1 << 20).unwrap().is_none());
    assert!(ZipFolder::open(stored(&some()), "other.zip").unwrap().is_none());
    assert_eq!(below.put("x", Vec::new()).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn parts_of_a_file_are_those_of_its_content() {
    let folder = opened(&some()).unwrap();
    for (name, number) in [("cat/1.jpg", 1), ("cat.jpg", 3)] {
        let (file, content) = (folder.open(name).unwrap().unwrap(), text(number));
        for (start, end) in [(0, 0), (0, 1), (0, content.len()), (1, 30), (content.len() - 1, content.len())] {
            let mut part = vec![0; end - start];
            file.read_at(start as u64, &mut part).unwrap();
            assert_eq!(part, content[start..end], "{name} {start}..{end}");
            let mut taken = Vec::new();
            file.read_range(start as u64..end as u64, &mut |bytes| taken.extend_from_slice(bytes)).unwrap();
            assert_eq!(taken, part);
        }
        let beyond = file.read_at(1, &mut vec![0; content.len()]).unwrap_err();
        assert!(beyond.to_string().ends_with(&format!("{name}: is {} bytes", content.len())), "{beyond}");
    }
}

#[test]
fn every_cut_is_an_error_and_every_flipped_bit_an_error_a_bad_file_or_harmless() {
    let (good, expected) = (some(), files(&opened(&some()).unwrap()));
    for end in 0..good.len() {
        assert!(opened(&good[..end]).is_err(), "cut at {end}");
    }
    let mut harmless = 0;
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let Ok(folder) = opened(&bad) else { continue };
        let found = files(&folder);
        harmless += usize::from(found == expected);
        for (name, content) in found.into_iter().filter(|(name, content)| content.is_ok() && name != "none") {
            // An empty file has no byte that a header could protect: its name may be another.
            assert!(content == Ok(Vec::new()) || expected.get(&name) == Some(&content), "bit {bit}: {name}");
        }
    }
    assert!(harmless < good.len() * 4, "most bits matter: {harmless}");
}

#[test]
fn a_file_that_cannot_be_read_is_one_bad_file() {
    let good = zip(&[("a/1.jpg", text(1), false), ("a/2.jpg", text(2), false)]);
    let directory = good.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    let cases: [(&str, usize, &[u8], &str); 5] = [
        ("encrypted", directory + 8, &[1], "is encrypted"),
        ("method", directory + 10, &[12], "is packed by method 12; 0 (stored) and 8 (deflate) are read"),
        ("link", directory + 38, &[0, 0, 0xff, 0xa1], "is a symbolic link"),
        ("data", 60, b"X", "damaged: its CRC-32 is "),
        ("header", 30, b"X", "its header and the directory differ"),
    ];
    for (name, at, bytes, what) in cases {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        // Made by Unix.
        bad[directory + 5] = 3;
        let mut found = files(&opened(&bad).unwrap());
        assert_eq!(found.remove("a/2.jpg"), Some(Ok(text(2))), "{name}");
        let said = found.remove("a/1.jpg").unwrap().unwrap_err();
        assert!(said.starts_with("there/all.zip/a/1.jpg: ") && said.contains(what), "{name}: {said}");
    }
}

#[test]
fn members_that_are_counted_in_16_bits_are_all_there() {
    let names: Vec<_> = (0..65_540).map(|number| number.to_string()).collect();
    let members: Vec<_> = names.iter().map(|name| (name.as_str(), Vec::new(), false)).collect();
    let mut bytes = zip(&members);
    assert_eq!(opened(&bytes).unwrap().first_page().unwrap().0.objects.len(), names.len());
    let count = bytes.len() - END_BYTES + 8;
    (bytes[count], bytes[count + 2]) = (5, 5);
    assert!(opened(&bytes).unwrap_err().to_string().ends_with("its directory ends within a member"));
}

#[test]
fn names_that_mislead_are_refused_with_their_archive() {
    let of = |names: &[&str]| {
        let members: Vec<_> = names.iter().map(|name| (*name, text(1), false)).collect();
        said(&zip(&members))
    };
    let backslash = of(&["b/1.jpg", "a\\x.jpg"]);
    assert!(backslash.starts_with("there/all.zip: member \"a\\\\x.jpg\": its name has a backslash"), "{backslash}");
    for name in ["../x.jpg", "a/../x.jpg", "/x.jpg"] {
        assert_eq!(of(&["b/1.jpg", name]), format!("there/all.zip: member {name:?}: its name leads out of the file"));
    }
    assert_eq!(of(&["a/1.jpg", "b", "a/1.jpg"]), "there/all.zip: member \"a/1.jpg\" is there twice");
    let clash = "there/all.zip: member \"a/b\" is a file, and a folder of other members";
    assert_eq!(of(&["a/b/c", "a/b-", "a/b.", "a/b"]), clash);
    let mut bytes = zip(&[("a/1.jpg", text(1), false)]);
    let at = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap() + 46;
    bytes[at] = 0xff;
    assert!(
        said(&bytes).starts_with("there/all.zip: member \"\\xff/1.jpg\": a name that is not UTF-8, in a code page")
    );
    // A store would have no objects of these names either.
    let folder = opened(&zip(&[("a//1.jpg", text(1), false), ("./2.jpg", text(2), false), ("b/", text(3), false)]));
    let (page, _) = folder.unwrap().first_page().unwrap();
    assert_eq!(page.odd.iter().map(|odd| odd.name.as_str()).collect::<Vec<_>>(), ["./2.jpg", "a//1.jpg", "b/"]);
    assert!(page.objects.is_empty() && page.odd.iter().all(|odd| !odd.is_folder()));
}

#[test]
fn an_end_of_zip64_that_is_not_needed_says_the_same_as_the_other() {
    let good = some();
    let (before, end) = good.split_at(good.len() - END_BYTES);
    let number = |at: usize, bytes: usize| -> [u8; 8] {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&end[at..at + bytes]);
        number
    };
    let [members, bytes, offset] = [number(10, 2), number(12, 4), number(16, 4)];
    let fixed = [&b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0"[..], &members, &members].concat();
    let locator = [&b"PK\x06\x07\0\0\0\0"[..], &(before.len() as u64).to_le_bytes(), &[1, 0, 0, 0]].concat();
    let with = |offset: [u8; 8]| [before, &fixed, &bytes, &offset, &locator, end].concat();
    assert_eq!(files(&opened(&with(offset)).unwrap()), files(&opened(&good).unwrap()));
    let other = (u64::from_le_bytes(offset) + 1).to_le_bytes();
    assert!(said(&with(other)).contains("which should end at byte "), "{}", said(&with(other)));
}

#[test]
fn a_file_of_another_version_of_the_archive_is_refused() {
    let folder = opened(&some()).unwrap();
    let listed = folder.look("cat/1.jpg").unwrap().unwrap();
    let others = [
        Object { stamp: listed.stamp + 1, ..listed.clone() },
        Object { bytes: listed.bytes - 1, ..listed.clone() },
        Object { name: "cat/2.jpg".to_owned(), ..listed.clone() },
    ];
    for other in others {
        let mut content = vec![0; other.bytes as usize];
        let error = folder.read_listed(&other, 0, &mut content).unwrap_err();
        assert!(error.kind() == ErrorKind::Data && error.what() == CHANGED, "{error}");
    }
    assert_eq!(folder.read_listed_whole(&listed, 1 << 20).unwrap(), text(1));
    let other = Object { stamp: listed.stamp + 1, ..listed };
    assert_eq!(folder.read_listed_whole(&other, 1 << 20).unwrap_err().what(), CHANGED);
}

#[test]
fn bytes_that_were_read_ahead_are_those_of_the_file() {
    let bytes: Vec<u8> = (0..200).collect();
    let file = stored(&bytes).open("all.zip").unwrap().unwrap();
    for range in [0..200, 0..0, 50..150, 190..500] {
        let ahead = Ahead::open(file.as_ref(), true, range.clone()).unwrap();
        assert_eq!(ahead.bytes.len() as u64, range.end.min(200) - range.start);
        for (start, end) in [(0, 200), (50, 150), (49, 60), (60, 151), (199, 200), (20, 20)] {
            let mut part = vec![0; end - start];
            ahead.read_at(start as u64, &mut part).unwrap();
            assert_eq!(part, bytes[start..end]);
        }
        assert!(ahead.read_at(150, &mut [0; 51]).is_err());
    }
    assert!(Ahead::open(file.as_ref(), false, 0..200).unwrap().bytes.is_empty());
}

#[test]
fn an_archive_behind_a_program_is_read_and_every_cut_and_flip_of_it_is_found() {
    let good = some();
    let program = b"#!/bin/sh\nexit 0\n".as_slice();
    let bytes = [program, &good].concat();
    assert_eq!(files(&opened(&bytes).unwrap()), files(&opened(&good).unwrap()));
    for end in 0..bytes.len() {
        assert!(opened(&bytes[..end]).is_err(), "cut at {end}");
    }
    // Any file may come first, but the directory has to lead to a member.
    assert!(opened(&good[1..]).is_err());
    assert!(opened(&[program, &good[..4], &good].concat()).is_ok());
    let first = good.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    for at in first + 42..first + 46 {
        let mut wrong = bytes.clone();
        wrong[program.len() + at] ^= 1;
        assert!(opened(&wrong).is_err(), "{at}");
    }
    let whole = files(&opened(&bytes).unwrap());
    for at in program.len()..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 4;
        // Times and attributes are not read.
        let found = opened(&wrong).map(|folder| files(&folder));
        let is_other_content = |found: &BTreeMap<String, Result<Vec<u8>, String>>| {
            found.iter().any(|(name, content)| content.is_ok() && whole.get(name).is_some_and(|own| own != content))
        };
        assert!(!found.is_ok_and(|found| is_other_content(&found)), "{at}");
    }
}

#[test]
fn a_member_of_an_archive_of_this_machine_has_a_place_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = some();
    std::fs::write(folder.path().join("all.zip"), &bytes).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(shardpack_storage::Local::new(folder.path()));
    let zip = ZipFolder::open(storage, "all.zip").unwrap().unwrap();
    for object in zip.first_page().unwrap().0.objects {
        let (file, offset) = zip.place(&object).unwrap();
        assert_eq!(file.metadata().unwrap().len(), bytes.len() as u64);
        let (header, name) = bytes[offset as usize..].split_at(30);
        assert!(header.starts_with(b"PK\x03\x04") && name.starts_with(object.name.as_bytes()), "{}", object.name);
        assert!(zip.place(&Object { stamp: object.stamp + 1, ..object }).is_none());
    }
    let remote = opened(&bytes).unwrap();
    assert!(remote.place(&remote.look("none").unwrap().unwrap()).is_none());
}
