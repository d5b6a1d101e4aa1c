use proptest::prelude::*;

use super::*;
use crate::sample::{Detail, Extent, Row};

fn row(number: u32) -> Row {
    Row {
        key: format!("{number:08}").into_bytes(),
        path: vec![b'p', 0xff, number as u8],
        label: (!number.is_multiple_of(3)).then_some(i64::from(number)),
        offset: u64::from(number) * 2048,
        record_bytes: 2048,
        components: vec![Extent { offset: 1536, bytes: 500 }, Extent { offset: 512, bytes: 1 }],
        details: Vec::new(),
        content_hash: u128::MAX - u128::from(number),
        frame_hash: u64::from(number) << 32,
        image: Header { kind: Kind::Jpeg, width: 10, height: number, mode: Mode::Rgb, depth: 8 },
        in_parts: number % 5 == 3,
    }
}

fn summary(rows: u64) -> Summary {
    Summary {
        forms: Vec::new(),
        components: vec!["jpg".into(), "cls".into()],
        content_bytes: rows * 2048,
        shard_bytes: rows * 2048,
        shard_blake3: [7; 32],
    }
}

fn sample_index(rows: u32) -> Vec<u8> {
    write(&summary(rows.into()), &(0..rows).map(row).collect::<Vec<_>>()).unwrap()
}

#[test]
fn rows_come_back_as_they_were() {
    for rows in [0u32, 1, 2, 3000] {
        let index = Index::open(sample_index(rows)).unwrap();
        assert_eq!(index.len(), u64::from(rows));
        assert_eq!(index.summary(), &summary(rows.into()));
        for (number, found) in index.iter().enumerate() {
            let found = found.unwrap();
            let end = found.offset + u64::from(found.record_bytes);
            assert_eq!(index.record_hint(number as u64), Some(found.offset..end));
            assert_eq!(found.to_row(), row(number as u32));
        }
        assert_eq!(index.find(b"00000001").unwrap(), (rows > 1).then_some(1));
        assert_eq!(index.find(b"x").unwrap(), None);
        assert!(index.row(rows.into()).is_err());
    }
}

#[test]
fn keys_that_do_not_ascend_are_found_too() {
    let rows = [row(5), row(2), row(9)];
    let index = Index::open(write(&summary(10), &rows).unwrap()).unwrap();
    assert_eq!(index.find(b"00000009").unwrap(), Some(2));
    assert_eq!(index.find(b"00000003").unwrap(), None);
}

#[test]
fn every_flipped_bit_and_every_cut_is_an_error() {
    let bytes = sample_index(20);
    let reads = |bytes: Vec<u8>| Index::open(bytes).and_then(|index| index.iter().try_for_each(|row| row.map(|_| ())));
    assert!(reads(bytes.clone()).is_ok());
    for at in 0..bytes.len() {
        assert!(reads(bytes[..at].to_vec()).is_err(), "cut at {at}");
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            assert!(reads(bytes).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_row_that_points_outside_is_refused_though_its_checksum_is_right() {
    type Change = fn(&mut Row);
    let changes: [(&str, Change); 4] = [
        ("offset beyond the shard", |row| row.offset = u64::MAX - 10),
        ("record beyond the shard", |row| row.record_bytes = 4096),
        ("component beyond the record", |row| row.components[1] = Extent { offset: 2000, bytes: 49 }),
        ("component that wraps", |row| row.components[0] = Extent { offset: u32::MAX, bytes: 2 }),
    ];
    for (name, change) in changes {
        let mut wrong = row(0);
        change(&mut wrong);
        let index = Index::open(write(&summary(1), &[wrong]).unwrap()).unwrap();
        assert!(index.row(0).is_err(), "{name}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic: bool) {
        if magic && bytes.len() >= 12 {
            bytes[..8].copy_from_slice(MAGIC);
            bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        }
        if let Ok(index) = Index::open(bytes) {
            index.iter().for_each(drop);
        }
    }
}

#[test]
fn rows_that_were_collected_in_parts_are_those_of_the_whole() {
    let forms = ["<f4[3]", "int", "<f4[2]"].map(|form| form.parse().unwrap()).to_vec();
    let detailed = |number: u32| {
        let (form, hash) = (if number % 4 == 3 { u32::MAX } else { number % 3 }, number.is_multiple_of(2).then_some(7));
        let detail = Detail { form, content_bytes: number, hash };
        Row { details: vec![detail, Detail::plain(1)], ..row(number) }
    };
    for make in [row as fn(u32) -> Row, detailed] {
        let rows: Vec<_> = (0..100).map(make).collect();
        let summary = Summary { forms: Vec::clone(&forms), ..summary(100) };
        let whole = write(&summary, &rows).unwrap();
        assert_eq!(Index::open(&whole[..]).unwrap().row(99).unwrap().to_row(), rows[99].clone());
        let mut parts = Vec::new();
        for (start, end) in [(0, 1), (1, 1), (1, 70), (70, 100)] {
            let is_detailed = !rows[0].details.is_empty();
            let mut part = Rows::new(2, is_detailed);
            for row in &rows[start..end] {
                part.push(&Row { offset: row.offset - start as u64 * 2048, ..row.clone() }).unwrap();
            }
            assert_eq!((part.len(), part.end()), (end - start, (end - start) as u64 * 2048));
            parts.push((start as u64 * 2048, part));
        }
        assert_eq!(write_parts(&summary, &parts).unwrap(), whole);
        assert!(parts[0].1.push(&Row { components: Vec::new(), ..make(0) }).is_err());
    }
}
