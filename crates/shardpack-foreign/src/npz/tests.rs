use super::*;
use crate::zip::{archive::END_BYTES, written::zip};

fn array(items: u64) -> Vec<u8> {
    let mut bytes = npy::head("<u2", &[items], false);
    (0..items).for_each(|number| bytes.extend((number as u16).to_le_bytes()));
    bytes
}

/// The contents of all components, as far as they can be had; or what is wrong.
fn read_all(bytes: &[u8]) -> std::result::Result<Vec<(String, Vec<u8>)>, String> {
    let failed = |fault| match fault {
        Fault::Data(what) => what,
        Fault::Io(error) => panic!("{error}"),
    };
    let npz = Npz::open(bytes, bytes.len() as u64).map_err(failed)?;
    npz.check_places().map_err(failed)?;
    let content = |member: &Member| {
        let form = npz.array(member).map_err(failed)?.form;
        let length = form.items_bytes().map_or(member.bytes() as usize, |items| items as usize + form.head().len());
        assert!(length <= 1 << 20, "{length}");
        let mut out = vec![0; length];
        npz.read(&member.component, &form, &mut out).map_err(failed)?;
        Ok((member.component.clone(), out))
    };
    npz.members().iter().map(content).collect()
}

fn two() -> Vec<u8> {
    zip(&[("x.npy", array(30), false), ("y.npy", array(300), true)])
}

#[test]
fn members_are_components() {
    let expected = [("x.npy".to_owned(), array(30)), ("y.npy".to_owned(), array(300))];
    assert_eq!(read_all(&two()).unwrap(), expected);
    let mut with_comment = two();
    let last = with_comment.len() - 2;
    with_comment[last] = 3;
    with_comment.extend(b"abc");
    assert_eq!(read_all(&with_comment).unwrap(), expected);
    assert_eq!(read_all(&zip(&[])).unwrap(), []);
}

#[test]
fn what_numpy_writes_is_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/npz");
    for (name, components) in [("stored", &["x.npy", "y.npy"][..]), ("deflated", &["x.npy", "y.npy", "long.npy"])] {
        let found = read_all(&std::fs::read(format!("{folder}/{name}.npz")).unwrap()).unwrap();
        assert_eq!(found.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), components);
        let x: Vec<u8> = (0..6).flat_map(|number| (number as f32).to_le_bytes()).collect();
        assert_eq!(found[0].1, [npy::head("<f4", &[2, 3], false), x].concat());
        assert_eq!(found[1].1, [npy::head("<i8", &[], false), (-7i64).to_le_bytes().to_vec()].concat());
    }
}

#[test]
fn heads_that_are_longer_or_of_another_order_are_read() {
    let fortran = [npy::head("<u2", &[2, 3], true), vec![1; 12]].concat();
    let dates = [npy::head("<M8[ns]", &[1], false), vec![1; 8]].concat();
    // Blanks behind a dict, as a writer may leave them to make room for it to grow.
    let dict = "{'descr': '<u2', 'fortran_order': False, 'shape': (1,), }";
    let long = [format!("\x02\0\u{0}\u{8}\0\0{dict:2047}\n").into_bytes(), vec![7, 0]].concat();
    let long = [&b"\x93NUMPY"[..], &long].concat();
    let members = [("a.npy", fortran.clone(), true), ("b.npy", dates.clone(), false), ("c.npy", long, true)];
    let found = read_all(&zip(&members)).unwrap();
    assert_eq!((&found[0].1, &found[1].1), (&fortran, &dates));
    assert_eq!(found[2].1, [npy::head("<u2", &[1], false), vec![7, 0]].concat());
}

#[test]
fn every_cut_and_every_flipped_bit_is_an_error_or_harmless() {
    let (good, expected) = (two(), read_all(&two()).unwrap());
    for end in 0..good.len() {
        assert!(read_all(&good[..end]).is_err(), "cut at {end}");
    }
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        // Times, versions and names are nobody's business but a reader's of those.
        if let Ok(found) = read_all(&bad) {
            let contents =
                |all: &[(String, Vec<u8>)]| all.iter().map(|(_, content)| content.clone()).collect::<Vec<_>>();
            assert_eq!(contents(&found), contents(&expected), "bit {bit}");
        }
    }
}

#[test]
fn what_is_fetched_of_an_array_is_it_and_a_flipped_bit_is_an_error_or_harmless() {
    let good = two();
    let npz = Npz::open(&good[..], good.len() as u64).unwrap();
    for (member, expected) in npz.members().iter().zip([array(30), array(300)]) {
        let place = npz.archive.alone(&member.entry).unwrap();
        let (start, end) = (place.start as usize, place.end as usize);
        // What follows is another member, or the directory.
        assert!(end + fetched_bytes(1) <= good.len());
        let fetched = &good[start..end + fetched_bytes(1)];
        assert_eq!(component(fetched).unwrap(), expected);
        for cut in 0..end - start {
            assert!(component(&fetched[..cut]).is_err(), "cut at {cut}");
        }
        for bit in 0..fetched.len() * 8 {
            let mut bad = fetched.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(component(&bad).is_ok_and(|found| found == expected) || component(&bad).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn what_a_directory_cannot_say_is_named() {
    let said = |bytes: &[u8]| read_all(bytes).unwrap_err();
    let of = |name: &str| said(&zip(&[(name, array(1), false)]));
    assert!(of("/x.npy").contains("leads out") && of("a/../x.npy").contains("leads out"));
    assert!(of("x.txt").contains("\"x.txt\": is no array") && of(".npy").contains("is no array"));
    assert!(of(&format!("{}.npy", "n".repeat(40))).contains("no component can be called so"));
    let twice = |a, b| said(&zip(&[(a, array(1), false), (b, array(1), false)]));
    assert_eq!(twice("x.npy", "x.npy"), "member \"x.npy\" is there twice");
    assert!(twice("x.npy", "X.npy").contains("would be one component, x.npy"));
    let many: Vec<_> = (0..40).map(|number| format!("{number}.npy")).collect();
    let many: Vec<_> = many.iter().map(|name| (&**name, array(1), false)).collect();
    assert!(said(&zip(&many)).contains("40 members, a sample has room for 33"));
    assert!(said(b"PK\x03\x04 and nothing that is a directory").contains("without a directory"));
    assert!(said(b"\x89PNG, and what else there is of it").contains("no zip file"));
    let objects = [npy::head("|O", &[1], false), vec![0; 8]].concat();
    assert!(said(&zip(&[("o.npy", objects, true)])).contains("\"o.npy\": items are Python objects"));
    let short = array(3)[..130].to_vec();
    assert!(said(&zip(&[("s.npy", short, true)])).contains("\"s.npy\": truncated"));
    let flipped = {
        let mut bytes = two();
        let at = bytes.windows(8).position(|eight| eight == [1, 0, 2, 0, 3, 0, 4, 0]).unwrap();
        bytes[at] ^= 1;
        said(&bytes)
    };
    assert!(flipped.contains("\"x.npy\": damaged: its CRC-32 is"), "{flipped}");
    // Claims of a directory: flags, method, lengths, place.
    let directory = two().windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = two();
        file[directory + at..directory + at + bytes.len()].copy_from_slice(bytes);
        said(&file)
    };
    assert!(patched(8, &[1]).contains("\"x.npy\": is encrypted"));
    assert!(patched(10, &[12]).contains("method 12"));
    assert!(patched(24, &[0xff; 4]).contains("zip64 lengths are missing"));
    assert!(patched(24, &[0xf0; 4]).contains("is stored in"));
    let second = 51;
    assert!(patched(second + 24, &[0xfe, 0xff, 0xff, 0xff]).contains("more than deflate can pack"));
    assert!(patched(second + 42, &[0; 4]).contains("differ"));
    assert!(patched(20, &[0, 0, 0, 0x70]).contains("the directory begins at byte"));
}

#[test]
fn members_in_each_other_are_refused() {
    // One local header in the data of another, as bombs have them.
    let inner = zip(&[("y.npy", array(1), false)]);
    let inner = inner[..inner.windows(4).position(|four| four == b"PK\x01\x02").unwrap()].to_vec();
    let bytes = npy::head("|u1", &[inner.len() as u64], false);
    let outer = zip(&[("x.npy", [bytes, inner.clone()].concat(), false)]);
    let at = outer.windows(inner.len()).position(|part| part == inner).unwrap() as u32;
    let directory = outer.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    let own = zip(&[("y.npy", array(1), false)]);
    let of_own = own.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    let mut entry = own[of_own..own.len() - END_BYTES].to_vec();
    entry[42..46].copy_from_slice(&at.to_le_bytes());
    let mut all = outer[..outer.len() - END_BYTES].to_vec();
    all.extend(entry);
    let bytes = (all.len() - directory) as u32;
    all.extend(b"PK\x05\x06\0\0\0\0\x02\0\x02\0");
    [bytes, directory as u32].iter().for_each(|said| all.extend(said.to_le_bytes()));
    all.extend([0, 0]);
    assert_eq!(read_all(&all).unwrap_err(), "members \"x.npy\" and \"y.npy\" lie in each other");
}
