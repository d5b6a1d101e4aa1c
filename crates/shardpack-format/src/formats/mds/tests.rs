//! Written shards can be read back, have the promised length, and show each change.

use std::io::Cursor;

use proptest::prelude::*;

use super::{NAME, reader};
use crate::{
    Result,
    formats::{
        self, Choice, Format,
        foreign::{FieldSelection, Foreign, Input, Label, Record, Sequential, Skip},
        tests as shared,
    },
    hash,
    image_header::{Header, Kind, Mode},
    sample::{Row, Sample},
};

const CONFIG: &str = concat!(
    r#"{"column_encodings": ["str", "jpeg", "int"], "column_names": ["filename", "image", "label"], "#,
    r#""column_sizes": [null, null, 8], "compression": null, "format": "mds", "hashes": [], "size_limit": null, "#,
    r#""version": 2}"#
);
const IMAGE: Header = Header { kind: Kind::Jpeg, width: 0, height: 0, mode: Mode::Unknown, depth: 0 };

fn format(settings: &[(&str, &str)]) -> Result<Box<dyn Format>> {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    formats::open(&Choice { settings, ..Choice::new(NAME) })
}

/// A sample: label, path, image.
type Plain<'a> = (Option<i64>, &'a [u8], &'a [u8]);

/// The shard of these samples in `format`, and the rows of its index.
fn shard(format: &dyn Format, samples: &[Plain<'_>]) -> Result<(Vec<u8>, Vec<Row>)> {
    let (mut records, mut rows): (Vec<Vec<u8>>, Vec<Row>) = (Vec::new(), Vec::new());
    let mut offset = format.head_bytes(samples.len() as u64);
    for (number, &(label, path, image)) in samples.iter().enumerate() {
        let key = format!("{number:08}");
        let sample = Sample {
            key: &key,
            label,
            class: b"",
            path,
            payload_bytes: image.len() as u32,
            components: &[],
            forms: Default::default(),
        };
        let (record, row) = shared::record(format, &sample, image, IMAGE)?;
        rows.push(Row { offset, ..row });
        offset += record.len() as u64;
        records.push(record);
    }
    let mut bytes = vec![0xaa; format.head_bytes(samples.len() as u64) as usize];
    format.head(&mut records.iter().map(|record| record.len() as u32), &mut bytes)?;
    bytes.extend(records.concat());
    Ok((bytes, rows))
}

fn check(format: &dyn Format, row: &Row, record: &[u8]) -> Result<()> {
    format.check(&shared::index(format, std::slice::from_ref(row)).row(0)?, record)
}

/// All records with their images, and the lost parts of the file.
type Walked = (Vec<(Record, Vec<u8>)>, Vec<String>);

fn walk(bytes: &[u8], known: bool) -> Result<Walked> {
    let total_bytes = known.then_some(bytes.len() as u64);
    let cursor = Cursor::new(bytes.to_vec());
    let inner: Box<dyn Skip> = if known { Box::new(cursor) } else { Box::new(Sequential(cursor)) };
    let mut walk = reader::Mds.walk(Input { bytes: inner, total_bytes }, &FieldSelection::default())?;
    let mut records = Vec::new();
    while let Some(record) = walk.next()? {
        let mut image = b"dirt".to_vec();
        match &record.image {
            Ok(place) => {
                walk.image(&mut image)?;
                let fetched = &bytes[place.fetch.start as usize..place.fetch.end as usize];
                assert_eq!(reader::Mds.image(fetched, place.recipe, &FieldSelection::default())?, image);
                assert_eq!(image.len(), place.bytes as usize);
            }
            Err(_) => assert!(walk.image(&mut image).is_err()),
        }
        records.push((record, image));
    }
    assert!(walk.next()?.is_none(), "after the end is the end");
    Ok((records, walk.lost().iter().map(ToString::to_string).collect()))
}

/// Two samples, byte by byte.
fn literal() -> Vec<u8> {
    let start = 16 + CONFIG.len() as u32;
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    [
        &words(&[2, start, start + 24, start + 48])[..],
        CONFIG.as_bytes(),
        &words(&[5, 3]),
        b"a.jpg\xff\xd8\xff\x07\0\0\0\0\0\0\0",
        &words(&[4, 4]),
        "é.x".as_bytes(),
        b"\xff\xd8\xff\xe0\xfe\xff\xff\xff\xff\xff\xff\xff",
    ]
    .concat()
}

const SAMPLES: [Plain<'static>; 2] =
    [(Some(7), b"a.jpg", b"\xff\xd8\xff"), (Some(-2), "é.x".as_bytes(), b"\xff\xd8\xff\xe0")];

#[test]
fn two_samples_are_these_bytes_and_are_read_back() {
    let (bytes, rows) = shard(&*format(&[("hashes", "")]).unwrap(), &SAMPLES).unwrap();
    assert_eq!(bytes, literal());
    assert!(reader::Mds.is(&bytes, Some(bytes.len() as u64), ""));
    for known in [true, false] {
        let (records, remarks) = walk(&bytes, known).unwrap();
        assert_eq!((records.len(), remarks), (2, Vec::new()));
        for (((record, image), row), (label, path, bytes)) in records.iter().zip(&rows).zip(SAMPLES) {
            assert_eq!(record.range, row.offset..row.offset + u64::from(row.record_bytes));
            let found = record.image.as_ref().unwrap();
            assert_eq!((found.offset, found.bytes), row.payload());
            assert_eq!(found.fetch, found.offset..found.offset + u64::from(found.bytes));
            assert_eq!((image.as_slice(), record.filename.as_deref()), (bytes, Some(path)));
            assert_eq!(record.label, Label::Number(label.unwrap()));
        }
        assert_eq!(records[1].0.key, b"1");
    }
}

/// A shard with one column `x` of this encoding and these values.
fn column(encoding: &str, values: &[&[u8]]) -> Vec<u8> {
    let config = format!(
        r#"{{"column_encodings": ["{encoding}"], "column_names": ["x"], "column_sizes": [null], "format": "mds"}}"#
    );
    let mut table = vec![values.len() as u32, (4 * (values.len() + 2) + config.len()) as u32];
    for value in values {
        table.push(table[table.len() - 1] + 4 + value.len() as u32);
    }
    let samples = values.iter().flat_map(|value| [&(value.len() as u32).to_le_bytes()[..], value].concat());
    table.iter().flat_map(|word| word.to_le_bytes()).chain(config.into_bytes()).chain(samples).collect()
}

#[test]
fn raw_pixels_come_back_as_a_file() {
    // Output of streaming 0.13.0 for `Image.new(mode, (2, 1), 7)`.
    let rgb = b"\x02\0\0\0\x01\0\0\0\x03\0\0\0RGB\x07\0\0\x07\0\0";
    let gray = b"\x02\0\0\0\x01\0\0\0\x01\0\0\0L\x07\x07";
    let bits = b"\x02\0\0\0\x01\0\0\0\x01\0\0\x001\xc0";
    let (rgb_file, gray_file) = (b"P6\n2 1\n255\n\x07\0\0\x07\0\0".to_vec(), b"P5\n2 1\n255\n\x07\x07".to_vec());
    // White is 0 in Netpbm.
    let bits_file = b"P4\n2 1\n\x3f".to_vec();
    let values: [&[u8]; 4] = [rgb, bits, gray, &gray[..14]];
    let bytes = column("pil", &values);
    assert!(reader::Mds.is(&bytes, None, ""));
    for known in [true, false] {
        let (records, remarks) = walk(&bytes, known).unwrap();
        assert!(remarks.is_empty());
        let [rgb, bits, gray, cut] = &records[..] else { panic!() };
        assert_eq!((&rgb.1, &bits.1, &gray.1), (&rgb_file, &bits_file, &gray_file));
        assert!(cut.0.image.as_ref().unwrap_err().contains("1 bytes do not make 2 x 1 of mode L"));
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match (walk(&flipped, true), walk(&flipped, false)) {
            (Ok(known), Ok(unknown)) => assert_eq!(known, unknown, "bit {bit}"),
            (known, unknown) => assert_eq!(known.is_err(), unknown.is_err(), "bit {bit}"),
        }
    }
    let listed = |value: &[u8]| [&[0, 0, 0, 0, 1, 0, 0, 0][..], &(value.len() as u32).to_le_bytes(), value].concat();
    let (records, _) = walk(&column("list[pil]", &[&listed(gray), &listed(rgb)]), true).unwrap();
    assert_eq!((&records[0].1, &records[1].1), (&gray_file, &rgb_file));
    assert!(reader::Mds.image(rgb, 2, &FieldSelection::default()).is_err());
    assert!(
        reader::Mds
            .image(&gray[..14], records[0].0.image.as_ref().unwrap().recipe, &FieldSelection::default())
            .is_err()
    );
}

#[test]
fn the_head_says_how_many_and_where_and_fails_beyond_32_bits() {
    let format = format(&[]).unwrap();
    let (bytes, _) = shard(&*format, &[]).unwrap();
    assert_eq!(bytes.len() as u64, format.head_bytes(0));
    assert_eq!(walk(&bytes, true).unwrap().0.len(), 0);
    let mut head = vec![0; format.head_bytes(2) as usize];
    assert!(format.head(&mut [1u32, 2].into_iter(), &mut head).is_ok());
    for lengths in [&[1u32][..], &[1, 2, 3], &[u32::MAX - 100, 1], &[u32::MAX, u32::MAX]] {
        assert!(format.head(&mut lengths.iter().copied(), &mut head).is_err(), "{lengths:?}");
    }
    assert!(format.head(&mut std::iter::empty(), &mut []).is_err());
}

#[test]
fn settings_choose_the_columns_and_come_back_spelled_out() {
    let columns =
        [("image_column", "png"), ("label_column", "class"), ("encoding", "png"), ("hashes", "sha1, md5,sha1")];
    let chosen = format(&columns).unwrap();
    assert_eq!(chosen.file_hashes(), ["md5", "sha1"]);
    assert_eq!(chosen.components(), ["png"]);
    let settings = chosen.settings();
    assert_eq!(settings["filename_column"], "filename");
    assert_eq!(settings["hashes"], "md5,sha1");
    let again = formats::open(&Choice { settings, ..Choice::new(NAME) }).unwrap();
    assert_eq!(shard(&*again, &SAMPLES).unwrap(), shard(&*chosen, &SAMPLES).unwrap());
    let text = String::from_utf8_lossy(&shard(&*chosen, &SAMPLES).unwrap().0).into_owned();
    assert!(
        text.contains(r#"{"column_encodings": ["int", "str", "png"], "column_names": ["class", "filename", "png"]"#)
    );

    let bare = format(&[("filename_column", ""), ("label_column", "")]).unwrap();
    assert!(!bare.needs_path());
    let (bytes, rows) = shard(&*bare, &[(None, b"p", b"\xff\xd8\xff")]).unwrap();
    assert_eq!(rows[0].record_bytes, 7);
    assert_eq!(walk(&bytes, true).unwrap().0[0].0.label, Label::Missing);

    let refused: [&[(&str, &str)]; 6] = [
        &[("image_column", "label")],
        &[("filename_column", "image")],
        &[("image_column", "")],
        &[("encoding", "webp")],
        &[("hashes", "crc32")],
        &[("column", "x")],
    ];
    for settings in refused {
        assert!(format(settings).is_err(), "{settings:?}");
    }
    assert!(shard(&*format(&[]).unwrap(), &[(None, b"p", b"")]).unwrap_err().help_text().is_some());
    let sample = Sample {
        key: "0",
        label: Some(1),
        class: b"",
        path: b"p",
        payload_bytes: u32::MAX - 17,
        components: &[],
        forms: Default::default(),
    };
    let format = format(&[]).unwrap();
    assert!(format.layout(&sample).is_ok_and(|layout| layout.record_bytes == u32::MAX));
    assert!(format.layout(&Sample { payload_bytes: u32::MAX - 16, ..sample }).is_err());
}

#[test]
fn a_path_that_is_not_utf8_is_written_as_text() {
    let format = format(&[]).unwrap();
    let (bytes, rows) = shard(&*format, &[(Some(1), b"a\xff.jpg", b"\xff\xd8\xff")]).unwrap();
    let (records, _) = walk(&bytes, true).unwrap();
    assert_eq!(records[0].0.filename.as_deref(), Some("a\u{fffd}.jpg".as_bytes()));
    check(&*format, &rows[0], &bytes[rows[0].offset as usize..]).unwrap();
}

#[test]
fn a_flipped_bit_outside_the_image_fails_the_check_and_one_inside_the_hash() {
    let format = format(&[]).unwrap();
    let (bytes, rows) = shard(&*format, &SAMPLES).unwrap();
    for row in &rows {
        let record = &bytes[row.offset as usize..][..row.record_bytes as usize];
        check(&*format, row, record).unwrap();
        assert!(check(&*format, row, &record[1..]).is_err());
        let image = row.components[0];
        let covered = image.offset as usize..(image.offset + image.bytes) as usize;
        for bit in 0..record.len() * 8 {
            let mut flipped = record.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let checked = check(&*format, row, &flipped);
            if covered.contains(&(bit / 8)) {
                assert_ne!(hash::content(&flipped[covered.clone()]), row.content_hash);
            } else {
                assert!(checked.is_err(), "bit {bit}");
            }
        }
    }
}

#[test]
fn a_shard_cut_anywhere_gives_the_whole_samples_before_the_cut_and_an_error() {
    let whole = literal();
    for cut in 0..whole.len() {
        for known in [true, false] {
            assert!(walk(&whole[..cut], known).is_err(), "{cut}");
        }
        let _ = reader::Mds.is(&whole[..cut], Some(cut as u64), "");
    }
    let input = Input { bytes: Box::new(Cursor::new(whole[..whole.len() - 1].to_vec())), total_bytes: None };
    let mut walk = reader::Mds.walk(input, &FieldSelection::default()).unwrap();
    assert!(walk.next().unwrap().is_some());
    assert!(walk.next().unwrap_err().to_string().contains("sample 1 of 24 bytes"));
}

#[test]
fn offsets_that_go_back_end_the_walk_and_bytes_behind_it_are_a_remark() {
    let mut bytes = literal();
    bytes.push(0);
    for known in [true, false] {
        let (records, remarks) = walk(&bytes, known).unwrap();
        assert_eq!((records.len(), remarks.len()), (2, 1));
        assert!(remarks[0].starts_with(&format!("byte {}: ", bytes.len() - 1)), "{remarks:?}");
    }
    bytes.pop();
    bytes[8..12].copy_from_slice(&3u32.to_le_bytes());
    assert!(!reader::Mds.is(&bytes, None, ""));
    assert_eq!(walk(&bytes, true).unwrap_err().location().byte, Some(8));
    let mut many = literal();
    many[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(walk(&many, true).is_err() && walk(&many, false).is_err());
}

#[test]
fn a_shard_is_told_by_its_table_where_its_config_is_far_away() {
    let samples = vec![SAMPLES[0]; 5000];
    let (bytes, _) = shard(&*format(&[]).unwrap(), &samples).unwrap();
    assert!(reader::Mds.is(&bytes[..4096], Some(bytes.len() as u64), ""));
    assert!(!reader::Mds.is(&bytes[..4095], None, ""));
    for samples in 890..1030 {
        let (bytes, _) = shard(&*format(&[]).unwrap(), &vec![SAMPLES[0]; samples]).unwrap();
        assert!(reader::Mds.is(&bytes[..4096], Some(bytes.len() as u64), ""), "{samples}");
    }
    for other in [&[0u8; 4096][..], &[0xff; 4096], b"", b"abc", b"\xff\xd8\xff\xe0 some image of a camera"] {
        assert!(!reader::Mds.is(other, Some(other.len() as u64), "x.mds"));
    }
}

proptest! {
    #[test]
    fn whatever_is_written_is_as_long_as_promised_and_comes_back(
        samples in prop::collection::vec(
            (-i64::MAX..=i64::MAX, prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..700)), 0..20),
        filename: bool,
    ) {
        let format = format(if filename { &[] } else { &[("filename_column", "")] }).unwrap();
        let plain: Vec<Plain<'_>> = samples.iter().map(|(label, path, image)| (Some(*label), &path[..], &image[..])).collect();
        let (bytes, rows) = shard(&*format, &plain).unwrap();
        let promised = format.head_bytes(rows.len() as u64) + rows.iter().map(|row| u64::from(row.record_bytes)).sum::<u64>();
        prop_assert_eq!(bytes.len() as u64, promised);
        let (records, remarks) = walk(&bytes, true).unwrap();
        prop_assert!(remarks.is_empty());
        prop_assert_eq!(&records, &walk(&bytes, false).unwrap().0);
        prop_assert_eq!(records.len(), samples.len());
        for (((record, found), row), (label, path, image)) in records.iter().zip(&rows).zip(&samples) {
            prop_assert_eq!(found, image);
            prop_assert_eq!(&record.label, &Label::Number(*label));
            let path = String::from_utf8_lossy(path).into_owned().into_bytes();
            prop_assert_eq!(record.filename.as_ref(), filename.then_some(&path));
            let range = record.range.start as usize..record.range.end as usize;
            prop_assert!(check(&*format, row, &bytes[range]).is_ok());
        }
    }

    #[test]
    fn damage_anywhere_neither_panics_nor_differs_with_the_length_unknown(
        at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
    ) {
        let mut bytes = literal();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut.index(30));
        let _ = reader::Mds.is(&bytes, None, "");
        match (walk(&bytes, true), walk(&bytes, false)) {
            (Ok(known), Ok(unknown)) => prop_assert_eq!(known, unknown),
            (known, unknown) => prop_assert_eq!(known.is_err(), unknown.is_err()),
        }
    }
}
