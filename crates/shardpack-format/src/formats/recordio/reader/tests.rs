use std::io::Cursor;

use super::*;
use crate::formats::foreign::Sequential;

/// A part, padded.
fn part(flag: u32, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x0a\x23\xd7\xce".to_vec();
    out.extend((flag << 29 | data.len() as u32).to_le_bytes());
    out.extend(data);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn payload(flag: u32, label: f32, id: u64, rest: &[u8]) -> Vec<u8> {
    let mut out = ImageHeader { flag, label, id, id2: 0 }.to_bytes().to_vec();
    out.extend(rest);
    out
}

/// All records with their images, and the error that ended the walk.
fn walk(bytes: &[u8], known: bool, label_number: impl Into<Option<usize>>) -> (Vec<(Record, Vec<u8>)>, Option<Error>) {
    let wanted = FieldSelection { label_number: label_number.into(), ..FieldSelection::default() };
    let input = match known {
        true => Input { bytes: Box::new(Cursor::new(bytes.to_vec())), total_bytes: Some(bytes.len() as u64) },
        false => Input { bytes: Box::new(Sequential(Cursor::new(bytes.to_vec()))), total_bytes: None },
    };
    let (mut walk, mut found) = (RecordIo.walk(input, &wanted).unwrap(), Vec::new());
    loop {
        match walk.next() {
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error)),
            Ok(Some(record)) => {
                let mut image = Vec::new();
                assert_eq!(walk.image(&mut image).is_ok(), record.image.is_ok());
                if let Ok(place) = &record.image {
                    assert_eq!(place.bytes as usize, image.len());
                    let fetched = &bytes[place.fetch.start as usize..place.fetch.end as usize];
                    assert_eq!(RecordIo.image(fetched, place.recipe, &wanted).unwrap(), image);
                }
                found.push((record, image));
            }
        }
    }
}

#[test]
fn each_kind_of_label_is_told() {
    let two = |first: f32, second: f32| [&first.to_le_bytes()[..], &second.to_le_bytes(), b"image"].concat();
    let unfit = |text: &str| Label::Unfit(text.to_owned());
    for (payload, number, label, labels) in [
        (payload(0, 3.0, 1, b"image"), None, Label::Number(3), 1),
        (payload(0, 0.5, 1, b"image"), None, Label::Text(b"0.5".to_vec()), 1),
        (payload(0, f32::NAN, 1, b"image"), None, unfit("NaN is no whole number"), 1),
        (payload(0, 1e30, 1, b"image"), None, unfit("1000000000000000000000000000000 is no whole number"), 1),
        (payload(2, 9.0, 1, &two(4.0, 5.0)), None, Label::Missing, 2),
        (payload(0, 3.0, 1, b"image"), Some(0), Label::Number(3), 1),
        (payload(0, -1.0, 1, b"image"), Some(0), Label::Number(-1), 1),
        (payload(0, 0.5, 1, b"image"), Some(0), unfit("0.5 is no whole number"), 1),
        (payload(0, f32::NAN, 1, b"image"), Some(0), unfit("NaN is no whole number"), 1),
        (payload(0, f32::INFINITY, 1, b"image"), Some(0), unfit("inf is no whole number"), 1),
        (payload(0, 3.0, 1, b"image"), Some(1), unfit("it has 1 labels, number 1 is wanted"), 1),
        (payload(2, 9.0, 1, &two(4.0, 5.0)), Some(0), Label::Number(4), 2),
        (payload(2, 9.0, 1, &two(4.0, 5.0)), Some(1), Label::Number(5), 2),
        (payload(2, 9.0, 1, &two(4.0, 5.0)), Some(2), unfit("it has 2 labels, number 2 is wanted"), 2),
    ] {
        for known in [true, false] {
            let (found, error) = walk(&part(0, &payload), known, number);
            assert!(error.is_none(), "{error:?}");
            let [(record, image)] = &found[..] else { panic!("{found:?}") };
            assert_eq!((&record.label, record.labels), (&label, labels));
            assert_eq!((&record.key[..], &image[..]), (&b"1"[..], &b"image"[..]));
        }
    }
}

#[test]
fn a_record_without_an_image_is_told_and_the_walk_goes_on() {
    let bytes = [
        part(0, b""),
        part(0, b"abc"),
        part(0, &payload(3, 0.0, 8, b"11112222")),
        part(0, &payload(u32::MAX, 0.0, 9, b"11112222")),
        part(0, &payload(0, 1.0, 10, b"")),
    ]
    .concat();
    for known in [true, false] {
        let (found, error) = walk(&bytes, known, 0);
        assert!(error.is_none(), "{error:?}");
        let told: Vec<_> =
            found.iter().map(|(record, _)| (std::str::from_utf8(&record.key).unwrap(), record.image.is_ok())).collect();
        assert_eq!(told, [("0", false), ("1", false), ("8", false), ("9", false), ("10", true)]);
    }
}

#[test]
fn an_image_behind_a_split_header_has_its_place() {
    // The magic is the label, half of the id, and the first word of the image.
    let magic = MAGIC.to_le_bytes();
    let parts = [part(1, &[0; 4]), part(2, b""), part(2, &[0; 12]), part(3, b"abcde")].concat();
    let (found, error) = walk(&parts, true, 0);
    assert!(error.is_none(), "{error:?}");
    let (record, image) = &found[0];
    assert_eq!(image, &[&magic[..], b"abcde"].concat());
    let place = record.image.as_ref().unwrap();
    assert_eq!(parts[place.offset as usize..][..4], magic);
    assert_eq!((place.offset, place.in_parts), (40, true));
    assert_eq!(record.key, MAGIC.to_string().into_bytes());
    assert_eq!(record.label, Label::Number(f32::from_bits(MAGIC) as i64));
}

#[test]
fn parts_out_of_order_end_the_walk_where_they_are() {
    let whole = part(0, &payload(0, 1.0, 1, b"image"));
    let first = part(1, &payload(0, 1.0, 1, b"abcd"));
    for (what, bytes, at) in [
        ("a lone last part", [&whole[..], &part(3, b"abc")].concat(), whole.len()),
        ("a lone middle part", [&whole[..], &part(2, b"abcd")].concat(), whole.len()),
        ("a first part, then a whole one", [&whole[..], &first, &whole].concat(), whole.len() + first.len()),
        ("two first parts", [&whole[..], &first, &first].concat(), whole.len() + first.len()),
        ("a first part alone", [&whole[..], &first].concat(), whole.len() + first.len()),
        ("an unknown flag", [&whole[..], &part(7, b"abc")].concat(), whole.len()),
        ("a first part that is padded", [&whole[..], &part(1, b"abc"), &part(3, b"")].concat(), whole.len()),
        ("zeros", [&whole[..], &[0; 8]].concat(), whole.len()),
        ("a line", [&whole[..], b"\n"].concat(), whole.len()),
    ] {
        for known in [true, false] {
            let (found, error) = walk(&bytes, known, 0);
            assert_eq!(found.len(), 1, "{what}");
            assert_eq!(error.unwrap().location().byte, Some(at as u64), "{what}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_records_and_an_error() {
    let records = [
        part(0, &payload(0, 1.0, 1, b"image")),
        [part(1, &payload(0, 2.0, 2, b"abcd")), part(2, b""), part(3, b"efg")].concat(),
        part(0, b"abc"),
        part(0, &payload(1, 0.0, 3, b"1111image")),
    ];
    let bytes = records.concat();
    let ends: Vec<_> =
        records.iter().scan(0, |end, record| Some(std::mem::replace(end, *end + record.len()))).collect();
    for end in 0..bytes.len() {
        let before = ends.iter().filter(|start| **start <= end).count() - 1;
        for known in [true, false] {
            let (found, error) = walk(&bytes[..end], known, 0);
            assert_eq!(found.len(), before, "cut at {end}");
            assert_eq!(error.is_none(), ends.contains(&end), "cut at {end}");
        }
        // A file that is shorter than `total_bytes`.
        let input =
            Input { bytes: Box::new(Cursor::new(bytes[..end].to_vec())), total_bytes: Some(bytes.len() as u64) };
        let mut walk = RecordIo.walk(input, &FieldSelection::default()).unwrap();
        let mut image = Vec::new();
        while let Ok(record) = walk.next() {
            assert!(record.is_some(), "cut at {end}");
            let _ = walk.image(&mut image);
        }
        let _ = RecordIo.image(&bytes[..end], 0, &FieldSelection::default());
    }
}

#[test]
fn bytes_that_are_flipped_never_panic() {
    let bytes =
        [part(1, &payload(2, 2.0, 2, b"11112222abcd")), part(3, b"efg"), part(0, &payload(1, 1.0, 1, b"1111image"))]
            .concat();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (known, error) = walk(&damaged, true, 1);
        let (streamed, also) = walk(&damaged, false, 1);
        assert_eq!((known, error.is_some()), (streamed, also.is_some()), "bit {bit}");
    }
}

#[test]
fn a_recordio_file_is_told_by_its_first_part() {
    for (what, bytes, total, is) in [
        ("a whole record", part(0, b"abc"), Some(12), true),
        ("a first part", part(1, b"abcd"), Some(100), true),
        ("of unknown length", part(0, b"abc"), None, true),
        ("a last part", part(3, b"abc"), Some(12), false),
        ("a first part that is padded", part(1, b"abc"), Some(100), false),
        ("longer than the file", part(0, b"abcde"), Some(12), false),
        ("nothing", vec![], Some(0), false),
        ("another word", vec![0; 12], Some(12), false),
    ] {
        assert_eq!(RecordIo.is(&bytes, total, "x.rec"), is, "{what}");
    }
}

#[test]
fn what_is_fetched_must_be_the_record() {
    let one = part(0, &payload(0, 1.0, 1, b"image"));
    assert!(matches!(RecordIo.image(&one, 0, &FieldSelection::default()), Ok(Cow::Borrowed(b"image"))));
    assert!(RecordIo.image(&[&one[..], &one].concat(), 0, &FieldSelection::default()).is_err());
    assert!(RecordIo.image(b"", 0, &FieldSelection::default()).is_err());
    assert!(RecordIo.image(&part(0, b"abc"), 0, &FieldSelection::default()).is_err());
}

#[test]
fn an_index_is_read_as_mxnet_reads_it() {
    assert_eq!(read_idx(b"").unwrap(), []);
    assert_eq!(read_idx(b"0\t0\n7\t1548\n3\t18446744073709551615").unwrap(), [(0, 0), (7, 1548), (3, u64::MAX)]);
    assert_eq!(read_idx(b"0\t0\r\n").unwrap(), [(0, 0)]);
    for (bytes, at) in [
        (&b"0\t0\n\n1\t4\n"[..], 4),
        (b"0\t0\n1 4\n", 4),
        (b"\n", 0),
        (b"0\t-1\n", 0),
        (b"0\t\n", 0),
        (b"0\t18446744073709551616\n", 0),
        (b"0\t0\t0\n", 0),
        (b"0\t0\n\xff\t4\n", 4),
    ] {
        let error = read_idx(bytes).unwrap_err();
        assert_eq!(error.location().byte, Some(at), "{error}");
    }
}
