use std::io::Cursor;

use super::{
    super::texts::{TEXT_BYTES, label},
    *,
};
use crate::{
    formats::{Choice, Format as _, webdataset::WebDataset},
    image_header::{Header, Kind, Mode},
    sample::Sample,
};

/// A tar with these members, written by the tar crate.
fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, data) in members {
        let mut header = tar::Header::new_ustar();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        if name.ends_with(".link") {
            header.set_entry_type(tar::EntryType::Symlink);
        }
        // Put there by hand: the crate refuses names with `..`.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *data).unwrap();
    }
    builder.into_inner().unwrap()
}

type Walked = (Vec<(Record, Option<Vec<u8>>)>, Vec<String>, Option<String>);

/// All records with their images, then remarks, and the error that ended the walk.
fn walk(bytes: &[u8], wanted: &FieldSelection) -> Walked {
    walk_input(bytes, Some(bytes.len() as u64), wanted)
}

fn walk_input(bytes: &[u8], total_bytes: Option<u64>, wanted: &FieldSelection) -> Walked {
    let input = Input { bytes: Box::new(Cursor::new(bytes.to_vec())), total_bytes };
    let mut walk = Tar.walk(input, wanted).unwrap();
    let mut records = Vec::new();
    let error = loop {
        match walk.next() {
            Ok(Some(record)) => {
                let mut image = vec![1, 2, 3];
                let image = walk.image(&mut image).is_ok().then_some(image);
                records.push((record, image));
            }
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    assert!(matches!(walk.next(), Ok(None)));
    (records, walk.lost().iter().map(Error::to_string).collect(), error)
}

fn one(members: &[(&str, &[u8])], wanted: &FieldSelection) -> Record {
    let (mut records, ..) = walk(&tar(members), wanted);
    assert_eq!(records.len(), 1);
    records.remove(0).0
}

fn other(name: &str, bytes: u64, offset: u64) -> Other {
    Other { name: name.to_owned(), bytes, offset: Some(offset), recipe: 0, form: None }
}

#[test]
fn a_tar_is_told_by_the_checksum_of_its_first_header() {
    let mut bytes = tar(&[("a.jpg", b"x")]);
    assert!(Tar.is(&bytes, None, "x"));
    assert!(!Tar.is(&bytes[..511], None, "x.tar"));
    bytes[0] ^= 1;
    assert!(!Tar.is(&bytes, None, "x.tar"));
    for (name, expected) in [("a.tar", true), ("a.tar.zst", true), ("a.bin", false), ("tar", false)] {
        assert_eq!(Tar.is(&[0; 4096], None, name), expected, "{name}");
    }
    assert!(!Tar.is(&[0; 512], None, "a.tar"));
}

#[test]
fn every_sample_is_a_record_with_its_image() {
    let json = br#"{"class": "tench", "path": "tench/a.JPEG", "x": [1, {}]}"#;
    let bytes = tar(&[
        ("d/a.cls", b" 7\n"),
        ("d/a.JPG", b"first"),
        ("d/a.json", json),
        ("d/noext", b""),
        ("d/a.link", b""),
        ("__meta__/x.json", b"{}"),
        ("../b.left.png", &[3; 600]),
        ("../b.npy", b"12"),
        ("c.png", b""),
    ]);
    let (records, remarks, error) = walk(&bytes, &FieldSelection::default());
    assert_eq!(error, None);
    assert_eq!(records.len(), 3);
    let (a, image) = &records[0];
    assert_eq!(image.as_deref(), Some(&b"first"[..]));
    let expected = Record {
        range: 0..3072,
        key: b"d/a".to_vec(),
        key_is_unique: true,
        filename: Some(b"tench/a.JPEG".to_vec()),
        class: Some(b"tench".to_vec()),
        label_name: "cls".into(),
        label: Label::Text(b"7".to_vec()),
        labels: 1,
        image: Ok(Image { name: "jpg".into(), fetch: 1536..1541, bytes: 5, offset: 1536, in_parts: false, recipe: 0 }),
        is_damaged: false,
        others: vec![other("json", json.len() as u64, 2560)],
    };
    assert_eq!(*a, expected);
    let (b, image) = &records[1];
    assert_eq!((b.key.as_slice(), image.as_deref()), (&b"../b"[..], Some(&[3; 600][..])));
    assert_eq!((&b.label, b.labels, &b.others), (&Label::Missing, 0, &vec![other("npy", 2, 7168)]));
    assert_eq!(b.image.as_ref().unwrap().name, "left.png");
    let fetch = b.image.as_ref().unwrap().fetch.clone();
    assert_eq!(bytes[fetch.start as usize..fetch.end as usize], [3; 600]);
    let (c, image) = &records[2];
    assert_eq!((c.image.as_ref().unwrap().bytes, image.as_deref()), (0, Some(&b""[..])));
    assert_eq!(remarks, [""; 0]);
}

#[test]
fn of_several_images_one_has_to_be_chosen() {
    let members: [(&str, &[u8]); 4] = [("a.cls", b"1"), ("a.a.jpg", b"left"), ("a.b.png", b"right"), ("a.raw", b"r")];
    let wanted = |image: &str| FieldSelection { image: Some(image.to_owned()), ..FieldSelection::default() };
    let image = |wanted: &FieldSelection| one(&members, wanted).image;
    let two =
        "2 images: a.jpg and b.png; choose one with --image-feature; a key ends at the first dot of a file's name";
    assert_eq!(image(&FieldSelection::default()), Err(two.to_owned()));
    assert_eq!(image(&wanted("B.png")).unwrap().bytes, 5);
    assert_eq!(image(&wanted("raw")).unwrap().bytes, 1);
    assert_eq!(image(&wanted("x")), Err("no x, there is cls, a.jpg, b.png and raw".to_owned()));
    assert_eq!(one(&[("a.cls", b"1")], &FieldSelection::default()).image, Err("no image, there is cls".to_owned()));
    let (records, ..) = walk(&tar(&members), &wanted("b.png"));
    assert_eq!(records[0].1.as_deref(), Some(&b"right"[..]));
    assert_eq!(records[0].0.others, [other("a.jpg", 4, 1536), other("raw", 1, 3584)]);
    let (records, ..) = walk(&tar(&members), &FieldSelection::default());
    assert_eq!(records[0].1, None);
}

#[test]
fn labels_are_text_without_the_spaces_around_it() {
    let rows: [(&[u8], Option<&[u8]>); 6] = [
        (b"3", Some(b"3")),
        (b"3\n", Some(b"3")),
        (b" \x0b-07 ", Some(b"-07")),
        (b"", None),
        (b" \n", None),
        (b"\xff x\n", Some(b"\xff x")),
    ];
    assert_eq!(label(&13i64.to_le_bytes()), Label::Number(13));
    assert!(matches!(label(b"\x01\0x"), Label::Unfit(_)));
    for (bytes, expected) in rows {
        let expected = expected.map_or(Label::Missing, |text| Label::Text(text.to_vec()));
        assert_eq!(label(bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn the_label_is_in_cls_before_label_before_json_unless_one_is_wanted() {
    let members: [(&str, &[u8]); 4] =
        [("a.jpg", b""), ("a.json", b"{\"label\": 5}"), ("a.label", b"2"), ("a.cls", b"1")];
    let default = FieldSelection::default();
    let wanted = |label: &str| FieldSelection { label: Some(label.to_owned()), ..FieldSelection::default() };
    assert_eq!(one(&members, &default).label, Label::Text(b"1".to_vec()));
    assert_eq!(one(&members[..3], &default).label, Label::Text(b"2".to_vec()));
    assert_eq!(one(&members[..2], &default).label, Label::Number(5));
    assert_eq!(one(&members, &wanted("label")).label, Label::Text(b"2".to_vec()));
    let second = FieldSelection { label_number: Some(1), ..FieldSelection::default() };
    assert_eq!(one(&members, &second).label, Label::Unfit("a single label, there is no label 1".into()));
    let long = vec![b'1'; TEXT_BYTES as usize + 1];
    let long = one(&[("a.cls", &long), ("a.jpg", b"x")], &default);
    assert_eq!(long.label, Label::Unfit("cls of 1048577 bytes".into()));
    assert_eq!(long.others, []);
}

#[test]
fn metadata_that_is_none_is_passed_over() {
    for json in [&b"[]"[..], b"", b"{\"class\": 1, \"path\": null}", b"\xff", b"{\"class\": \"x\""] {
        let record = one(&[("a.jpg", b""), ("a.json", json)], &FieldSelection::default());
        assert_eq!((record.class, record.filename), (None, None), "{}", json.escape_ascii());
    }
    let json = br#"{"class": "?", "class_hex": "ff61", "filename": "a.jpg"}"#;
    let record = one(&[("a.jpg", b""), ("a.json", json)], &FieldSelection::default());
    assert_eq!((record.class.unwrap(), record.filename.unwrap()), (b"\xffa".to_vec(), b"a.jpg".to_vec()));
}

#[test]
fn own_records_are_walked_as_their_layout_says() {
    let format = WebDataset::new(Choice { extension: Some("jpg".into()), json: true, ..Choice::new("webdataset") });
    let payload = [5; 700];
    let path = b"t\xffench/a.jpg";
    let sample = Sample {
        key: "00000042",
        label: Some(7),
        class: b"t\xffench",
        path,
        payload_bytes: 700,
        components: &[],
        forms: Default::default(),
    };
    let layout = format.layout(&sample).unwrap();
    let mut record = vec![0; layout.record_bytes as usize];
    let place = layout.components[0];
    record[place.offset as usize..][..700].copy_from_slice(&payload);
    let header = Header { kind: Kind::Jpeg, width: 0, height: 0, mode: Mode::Unknown, depth: 0 };
    format.frame(&sample, &header, &mut record).unwrap();
    let (records, remarks, error) = walk(&record, &FieldSelection::default());
    assert_eq!((records.len(), error), (1, None));
    let (found, image) = &records[0];
    assert_eq!((&found.range, image.as_deref()), (&(0..record.len() as u64), Some(&payload[..])));
    assert_eq!(found.image.as_ref().unwrap().offset, u64::from(place.offset));
    assert_eq!(found.label, Label::Text(b"7".to_vec()));
    assert_eq!((found.class.as_deref(), found.filename.as_deref()), (Some(sample.class), Some(&path[..])));
    // A record alone is a tar without an end.
    let end = record.len();
    assert_eq!(remarks, [format!("byte {end}: no end marker: it was written without one, or cut behind a member")]);
}

#[test]
fn a_cut_file_gives_its_whole_samples_then_an_error() {
    let bytes = tar(&[("a.jpg", &[1; 10]), ("b.jpg", &[2; 10]), ("c.jpg", &[3; 10])]);
    for cut in 0..bytes.len() {
        for total_bytes in [Some(cut as u64), None] {
            let (records, remarks, error) = walk_input(&bytes[..cut], total_bytes, &FieldSelection::default());
            // One for each member whose data is there: 10 bytes behind each second block.
            let expected = (cut + 1024 - 522).div_euclid(1024).min(3);
            assert_eq!(records.len(), expected, "{cut}");
            assert!(records.iter().all(|(record, image)| record.image.is_ok() && image.is_some()), "{cut}");
            assert!(error.is_some() || !remarks.is_empty() || cut >= 3072 + 512, "{cut}");
        }
    }
    // Of a sample that breaks off, what is there.
    let pairs = tar(&[("a.cls", b"1"), ("a.jpg", &[1; 10]), ("b.cls", b"1"), ("b.jpg", &[2; 10])]);
    let (records, _, error) = walk(&pairs[..3590], &FieldSelection::default());
    assert_eq!(records[1].0.image, Err("no image, there is cls".to_owned()));
    assert_eq!((records.len(), error.is_some()), (2, true));
    let twice = [bytes.as_slice(), &bytes].concat();
    let (records, remarks, _) = walk(&twice, &FieldSelection::default());
    assert_eq!(records.len(), 3);
    let trailing = format!("byte {}: bytes behind the end marker at byte 3072, where no reader looks", bytes.len());
    assert_eq!(remarks, [trailing]);
}
