use std::borrow::Cow;

use proptest::prelude::*;

use super::*;
use crate::{
    formats::{
        foreign::{FieldSelection, Foreign, Input, Label},
        recordio::reader,
        tests as shared,
    },
    hash,
    image_header::{Kind, Mode},
    index::Index,
    sample::Row,
};

const IMAGE: Header = Header { kind: Kind::Jpeg, width: 0, height: 0, mode: Mode::Unknown, depth: 0 };

fn sample(image: &[u8]) -> Sample<'_> {
    Sample {
        key: "00000042",
        label: Some(7),
        class: b"tench",
        path: b"",
        payload_bytes: image.len() as u32,
        components: &[],
        forms: Default::default(),
    }
}

/// The record of `image`, and its row.
fn record(sample: &Sample<'_>, image: &[u8]) -> (Vec<u8>, Row) {
    shared::record(&RecordIo::default(), sample, image, IMAGE).unwrap()
}

fn index(row: Row) -> Index<Vec<u8>> {
    shared::index(&RecordIo::default(), &[row])
}

/// The obvious twin of the writer: reads the whole payload word by word and copies each part.
fn obvious(id: u64, label: f32, image: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend(0u32.to_le_bytes());
    payload.extend(label.to_le_bytes());
    payload.extend(id.to_le_bytes());
    payload.extend(0u64.to_le_bytes());
    payload.extend(image);
    obvious_parts(&payload)
}

fn obvious_parts(payload: &[u8]) -> Vec<u8> {
    let (mut parts, mut part, mut at) = (Vec::new(), Vec::new(), 0);
    while at < payload.len() {
        let word = &payload[at..(at + 4).min(payload.len())];
        at += word.len();
        match word == b"\x0a\x23\xd7\xce" {
            true => parts.push(std::mem::take(&mut part)),
            false => part.extend(word),
        }
    }
    parts.push(part);
    let (mut out, last) = (Vec::new(), parts.len() - 1);
    for (number, part) in parts.iter().enumerate() {
        let flag = match number {
            0 if last == 0 => 0,
            0 => 1,
            _ if number == last => 3,
            _ => 2,
        };
        out.extend(b"\x0a\x23\xd7\xce");
        out.extend((flag << 29 | part.len() as u32).to_le_bytes());
        out.extend(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

/// An image with magics planted in it.
fn image() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..9),
        3 => Just(MAGIC.to_le_bytes().to_vec()),
        1 => Just(MAGIC.to_le_bytes()[..3].to_vec()),
        1 => Just(vec![0; 4]),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

#[test]
fn payloads_are_framed_as_dmlc_does() {
    let magic = MAGIC.to_le_bytes();
    let bytes: [&[u8]; 4] = [
        b"\x0a\x23\xd7\xce\0\0\0\0",
        b"\x0a\x23\xd7\xce\x03\0\0\0abc\0",
        b"\x0a\x23\xd7\xce\0\0\0\x20\x0a\x23\xd7\xce\0\0\0\x60",
        b"\x0a\x23\xd7\xce\x04\0\0\x20abcd\x0a\x23\xd7\xce\x02\0\0\x60ef\0\0",
    ];
    let payloads: [Vec<u8>; 4] = [vec![], b"abc".to_vec(), magic.to_vec(), [b"abcd", &magic[..], b"ef"].concat()];
    for (payload, bytes) in payloads.iter().zip(bytes) {
        assert_eq!(obvious_parts(payload), bytes);
        // As an image, the bytes after the header are the same; only the length of the first part differs.
        let (record, _) = record(&sample(payload), payload);
        let length = 24 + bytes[4];
        assert_eq!(record[..8], [&magic[..], &[length], &bytes[5..8]].concat());
        assert_eq!(record[8..32], *b"\0\0\0\0\0\0\xe0\x40\x2a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(record[32..], bytes[8..]);
    }
}

#[test]
fn a_magic_counts_where_it_is_aligned() {
    let magic = MAGIC.to_le_bytes();
    for before in 0..9 {
        for after in 0..9 {
            for count in 0..4 {
                let image = [&vec![b'x'; before][..], &magic.repeat(count), &vec![b'y'; after]].concat();
                let hits = if before % 4 == 0 { count } else { 0 };
                assert_eq!(RecordIo::default().growth(&image), 4 * hits as u32, "{before} {count} {after}");
                let (bytes, row) = record(&sample(&image), &image);
                assert_eq!(bytes, obvious(42, 7.0, &image), "{before} {count} {after}");
                let index = index(row);
                let row = index.row(0).unwrap();
                RecordIo::default().check(&row, &bytes).unwrap();
                assert_eq!(
                    formats::whole(&RecordIo::default(), &row, &bytes).unwrap(),
                    image,
                    "{before} {count} {after}"
                );
            }
        }
    }
}

#[test]
fn recipes_name_the_files_that_are_written() {
    let format = RecordIo::default();
    let recipes = format.recipes(Path::new("data/x"), "train", 1, false);
    assert!(recipes[0].1.contains("path_imgrec=\"data/x/train-000000.rec\", data_shape"), "{recipes:?}");
    assert_eq!(
        recipes[1].1,
        "fn.readers.mxnet(path=[\"data/x/train-000000.rec\"], index_path=[\"data/x/train-dali.idx\"])"
    );
    let many = &format.recipes(Path::new("data/x"), "train", 12, false)[0].1;
    let all = "path_imgrec=\";\".join(f\"data/x/train-{i:06}.rec\" for i in range(12)), data_shape";
    assert!(many.contains(all) && !many.contains("path_imgidx"), "{many}");
    let many = &format.recipes(Path::new("data/x"), "train", 12, false)[1].1;
    assert!(many.contains("path=[f\"data/x/train-{i:06}.rec\" for i in range(12)]"), "{many}");
    assert_eq!(format.shard_file("train", 11, 12), "train-000011.rec");
}

#[test]
fn a_sample_that_mxnet_would_misread_is_refused() {
    let format = RecordIo::default();
    let sample = sample(b"");
    for (key, fits) in [
        ("0", true),
        ("18446744073709551615", true),
        ("00000000000000000000000042", true),
        ("18446744073709551616", false),
        ("", false),
        ("+1", false),
        ("n01440764", false),
    ] {
        assert_eq!(format.layout(&Sample { key, ..sample }).is_ok(), fits, "{key}");
    }
    for (label, fits) in [
        (Some(1 << 24), true),
        (Some(-(1 << 24)), true),
        (Some((1 << 24) + 1), false),
        (Some(i64::MIN), false),
        (None, false),
    ] {
        assert_eq!(format.layout(&Sample { label, ..sample }).is_ok(), fits, "{label:?}");
    }
    for (payload_bytes, fits) in [((1 << 29) - 25, true), ((1 << 29) - 24, false), (u32::MAX, false)] {
        assert_eq!(format.layout(&Sample { payload_bytes, ..sample }).is_ok(), fits, "{payload_bytes}");
    }
    let magic = u64::from(MAGIC);
    for (id, fits) in [(magic, false), (magic << 32, false), (magic << 32 | 5, false), (magic << 8, true)] {
        let key = id.to_string();
        assert_eq!(format.frame(&Sample { key: &key, ..sample }, &IMAGE, &mut [0; 32]).is_ok(), fits, "{id}");
    }
}

#[test]
fn a_record_of_another_length_than_its_layout_is_not_framed() {
    let image = [b"abcd", &MAGIC.to_le_bytes()[..], b"ef"].concat();
    for bytes in (0..64).filter(|bytes| ![44, 48].contains(bytes)) {
        let mut record = vec![0xaa; bytes];
        let room = bytes.saturating_sub(IMAGE_OFFSET).min(image.len());
        record[bytes.min(IMAGE_OFFSET)..][..room].copy_from_slice(&image[..room]);
        assert!(RecordIo::default().frame(&sample(&image), &IMAGE, &mut record).is_err(), "{bytes}");
    }
}

#[test]
fn every_flipped_bit_is_found_by_the_framing_or_by_the_image() {
    let magic = MAGIC.to_le_bytes();
    for image in [b"abcde".to_vec(), vec![], [b"abcd", &magic[..], &magic, b"ef"].concat()] {
        let (bytes, row) = record(&sample(&image), &image);
        let index = index(row);
        let row = index.row(0).unwrap();
        RecordIo::default().check(&row, &bytes).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let framed = RecordIo::default().check(&row, &damaged).is_ok();
            let same = formats::whole(&RecordIo::default(), &row, &damaged)
                .is_some_and(|image| hash::content(&image) == row.content_hash);
            assert!(!framed || !same, "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(RecordIo::default().check(&row, &bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(RecordIo::default().check(&row, &[&bytes[..], &[0; 4]].concat()).is_err());
    }
}

#[test]
fn a_record_that_contradicts_its_row_is_found() {
    let (bytes, row) = record(&sample(b"abc"), b"abc");
    let extent = |offset, bytes| vec![Extent { offset, bytes }];
    for (what, row, fits) in [
        ("the row", row.clone(), true),
        ("key", Row { key: b"00000043".to_vec(), ..row.clone() }, false),
        ("key as text", Row { key: b"n42".to_vec(), ..row.clone() }, false),
        ("label", Row { label: Some(8), ..row.clone() }, false),
        ("no label", Row { label: None, ..row.clone() }, false),
        ("in parts", Row { in_parts: true, ..row.clone() }, false),
        ("offset", Row { components: extent(31, 3), ..row.clone() }, false),
        ("length", Row { components: extent(32, 4), ..row.clone() }, false),
        ("no image", Row { components: vec![Extent::ABSENT], ..row.clone() }, false),
    ] {
        let index = index(row);
        assert_eq!(RecordIo::default().check(&index.row(0).unwrap(), &bytes).is_ok(), fits, "{what}");
    }
}

proptest! {
    #[test]
    fn an_image_comes_back_from_its_parts(image in image(), id: u32, label in -(1i64 << 24)..=1 << 24) {
        let key = format!("{id:010}");
        let sample = Sample { key: &key, label: Some(label), ..sample(&image) };
        let (bytes, row) = record(&sample, &image);
        prop_assert_eq!(&bytes, &obvious(id.into(), label as f32, &image));
        let index = index(row);
        let row = index.row(0).unwrap();
        RecordIo::default().check(&row, &bytes).unwrap();
        let whole = formats::whole(&RecordIo::default(), &row, &bytes).unwrap();
        prop_assert_eq!(&whole[..], &image[..]);
        prop_assert_eq!(matches!(whole, Cow::Owned(_)), row.in_parts);

        // After another record, so that offsets are not 0.
        let shard = [&bytes[..], &bytes].concat();
        let total_bytes = Some(shard.len() as u64);
        let input = Input { bytes: Box::new(std::io::Cursor::new(shard.clone())), total_bytes };
        let mut walk = reader::RecordIo.walk(input, &FieldSelection::default()).unwrap();
        walk.next().unwrap().unwrap();
        let found = walk.next().unwrap().unwrap();
        prop_assert_eq!(found.range, bytes.len() as u64..shard.len() as u64);
        prop_assert_eq!((found.key, found.label), (id.to_string().into_bytes(), Label::Number(label)));
        let place = found.image.unwrap();
        prop_assert_eq!((place.offset, place.bytes), (bytes.len() as u64 + 32, image.len() as u32));
        prop_assert_eq!(place.in_parts, row.in_parts);
        let mut read = Vec::new();
        walk.image(&mut read).unwrap();
        prop_assert_eq!(&read, &image);
        prop_assert!(walk.next().unwrap().is_none());
        let fetched = &shard[place.fetch.start as usize..place.fetch.end as usize];
        prop_assert_eq!(&reader::RecordIo.image(fetched, place.recipe, &FieldSelection::default()).unwrap()[..], &image[..]);
    }
}
