use std::{
    fs::File,
    io::{Seek, Write},
    os::unix::fs::FileExt,
};

use parquet::{
    basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel},
    column::writer::ColumnWriter,
    data_type::ByteArray,
    file::{
        metadata::KeyValue,
        properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion},
        writer::SerializedFileWriter,
    },
    schema::{parser::parse_message_type, types::ColumnPath},
};

use super::*;

pub(super) const JPEG: &[u8] = b"\xff\xd8\xff\xe0 not much of an image";
const HF: &str = "message schema {
    optional group image { optional binary bytes; optional binary path (UTF8); }
    optional int64 label;
    optional binary note (UTF8);
    required double weight;
}";
const FEATURES: &str = r#"{"info": {"features": {"image": {"_type": "Image"},
    "label": {"names": ["cat", "dog", "emu"], "_type": "ClassLabel"}}}}"#;

/// What a row of `HF` is made of: image (`None`: the structure is null), label, note.
type Row = (Option<(Option<Vec<u8>>, Option<String>)>, Option<i64>, Option<String>);

/// Values of a leaf with the levels of all its rows.
pub(super) enum Leaf {
    Bytes(Vec<&'static [u8]>, Vec<i16>, Vec<i16>),
    Long(Vec<i64>, Vec<i16>, Vec<i16>),
    Short(Vec<i32>, Vec<i16>, Vec<i16>),
    Real(Vec<f64>, Vec<i16>, Vec<i16>),
    Bool(Vec<bool>, Vec<i16>, Vec<i16>),
}

pub(super) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
}

fn noted(properties: WriterPropertiesBuilder) -> WriterProperties {
    let note = KeyValue::new("huggingface".to_owned(), FEATURES.to_owned());
    properties.set_key_value_metadata(Some(vec![note])).build()
}

/// A file with these row groups.
pub(super) fn file_of(schema: &str, groups: Vec<Vec<Leaf>>, properties: WriterProperties) -> File {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = tempfile::tempfile().unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for leaves in groups {
        let mut group = writer.next_row_group().unwrap();
        for leaf in leaves {
            let mut column = group.next_column().unwrap().unwrap();
            let written = match (leaf, column.untyped()) {
                (Leaf::Bytes(values, definitions, repetitions), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                    let values: Vec<_> = values.into_iter().map(ByteArray::from).collect();
                    writer.write_batch(&values, levels_opt(&definitions), levels_opt(&repetitions))
                }
                (Leaf::Long(values, definitions, repetitions), ColumnWriter::Int64ColumnWriter(writer)) => {
                    writer.write_batch(&values, levels_opt(&definitions), levels_opt(&repetitions))
                }
                (Leaf::Short(values, definitions, repetitions), ColumnWriter::Int32ColumnWriter(writer)) => {
                    writer.write_batch(&values, levels_opt(&definitions), levels_opt(&repetitions))
                }
                (Leaf::Real(values, definitions, repetitions), ColumnWriter::DoubleColumnWriter(writer)) => {
                    writer.write_batch(&values, levels_opt(&definitions), levels_opt(&repetitions))
                }
                (Leaf::Bool(values, definitions, repetitions), ColumnWriter::BoolColumnWriter(writer)) => {
                    writer.write_batch(&values, levels_opt(&definitions), levels_opt(&repetitions))
                }
                _ => panic!("a leaf of another type"),
            };
            written.unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

/// Levels, unless the column has none.
fn levels_opt(levels: &[i16]) -> Option<&[i16]> {
    (!levels.is_empty()).then_some(levels)
}

fn leaked(bytes: &[u8]) -> &'static [u8] {
    Box::leak(bytes.to_vec().into_boxed_slice())
}

/// A row group of `HF`.
fn group(rows: &[Row]) -> Vec<Leaf> {
    let mut leaves = (vec![], vec![], vec![], vec![], vec![], vec![], vec![], vec![]);
    for (image, label, note) in rows {
        let (bytes, path) = image.clone().unwrap_or_default();
        let level = |is_there: bool| i16::from(image.is_some()) + i16::from(is_there);
        leaves.1.push(level(bytes.is_some()));
        leaves.3.push(level(path.is_some()));
        leaves.0.extend(bytes.map(|bytes| leaked(&bytes)));
        leaves.2.extend(path.map(|path| leaked(path.as_bytes())));
        leaves.5.push(i16::from(label.is_some()));
        leaves.4.extend(*label);
        leaves.7.push(i16::from(note.is_some()));
        leaves.6.extend(note.as_ref().map(|note| leaked(note.as_bytes())));
    }
    vec![
        Leaf::Bytes(leaves.0, leaves.1, vec![]),
        Leaf::Bytes(leaves.2, leaves.3, vec![]),
        Leaf::Long(leaves.4, leaves.5, vec![]),
        Leaf::Bytes(leaves.6, leaves.7, vec![]),
        Leaf::Real(vec![0.5; rows.len()], vec![], vec![]),
    ]
}

fn some_rows(count: usize) -> Vec<Row> {
    let row = |number: usize| {
        let bytes = [JPEG, &vec![number as u8; number * 37 % 4000]].concat();
        let image = match number % 11 {
            3 => None,
            5 => Some((None, Some(format!("only/{number}.jpg")))),
            7 => Some((Some(bytes), None)),
            _ => Some((Some(bytes), Some(format!("{number}.jpg")))),
        };
        let label = (number % 5 != 4).then_some(number as i64 % 4 - 1);
        (image, label, (!number.is_multiple_of(3)).then(|| "x".repeat(number)))
    };
    (0..count).map(row).collect()
}

/// All records with their images, and the error that ended the walk.
pub(super) fn all(walk: &mut dyn Walk) -> (Vec<(Record, Vec<u8>)>, Option<Error>) {
    let mut records = Vec::new();
    loop {
        match walk.next() {
            Ok(Some(record)) => {
                let mut image = Vec::new();
                assert_eq!(walk.image(&mut image).is_ok(), record.image.is_ok());
                if let Ok(place) = &record.image {
                    assert_eq!(image.len(), place.bytes as usize);
                }
                records.push((record, image));
            }
            Ok(None) => return (records, None),
            Err(error) => {
                assert!(matches!(walk.next(), Ok(None)), "an error ends a walk");
                return (records, Some(error));
            }
        }
    }
}

pub(super) fn records(file: File, wanted: &FieldSelection) -> Vec<(Record, Vec<u8>)> {
    let (records, error) = all(&mut *walk(file, wanted, &|| Ok(())).unwrap());
    assert!(error.is_none(), "{error:?}");
    records
}

fn check(found: &[(Record, Vec<u8>)], rows: &[Row], what: &str) {
    assert_eq!(found.len(), rows.len(), "{what}");
    let mut at = 0;
    for (number, ((record, image), (expected, label, note))) in found.iter().zip(rows).enumerate() {
        let (bytes, path) = expected.clone().unwrap_or_default();
        let what = format!("{what}, row {number}");
        assert_eq!(record.key, number.to_string().as_bytes(), "{what}");
        assert!(!record.key_is_unique);
        assert_eq!(record.filename, path.clone().map(String::into_bytes), "{what}");
        assert_eq!(record.label, label.map_or(Label::Missing, Label::Number), "{what}");
        assert_eq!(record.labels, usize::from(label.is_some()));
        let class = label.and_then(|label| ["cat", "dog", "emu"].get(usize::try_from(label).ok()?).copied());
        assert_eq!(record.class.as_deref(), class.map(str::as_bytes), "{what}");
        let note = note.as_deref();
        let expected: Vec<_> =
            note.map(|note| ("note", note.len() as u64)).into_iter().chain([("weight", 3)]).collect();
        assert_eq!(others(record), expected, "{what}");
        let end = at + bytes.as_ref().map_or(0, Vec::len) as u64;
        let content_end =
            if bytes.is_some() { end + expected.iter().map(|(_, bytes)| bytes).sum::<u64>() } else { end };
        assert_eq!(record.range, at..content_end, "{what}");
        let mut offset = end;
        for other in &record.others {
            assert_eq!(other.offset, bytes.as_ref().map(|_| offset), "{what}");
            offset += other.bytes;
        }
        match (&record.image, bytes) {
            (Ok(place), Some(bytes)) => {
                assert_eq!((place.name.as_str(), place.offset, place.in_parts), ("image", at, false));
                assert_eq!(place.fetch, at..end);
                assert!(*image == bytes, "{what}");
            }
            (Err(why), None) => assert_eq!(why.contains("only a path"), path.is_some(), "{what}: {why}"),
            (found, _) => panic!("{what}: {found:?}"),
        }
        at = content_end;
    }
}

/// Names of the fields that are neither image nor label, and their lengths.
pub(super) fn others(record: &Record) -> Vec<(&str, u64)> {
    record.others.iter().map(|other| (other.name.as_str(), other.bytes)).collect()
}

#[test]
fn rows_become_records_whatever_codec_page_and_row_group_hold_them() {
    let rows = some_rows(120);
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
        Compression::BROTLI(BrotliLevel::default()),
    ];
    for codec in codecs {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for has_dictionary in [false, true] {
                for group_rows in [1, 7, 120] {
                    let properties = properties()
                        .set_compression(codec)
                        .set_writer_version(version)
                        .set_dictionary_enabled(has_dictionary)
                        .set_dictionary_page_size_limit(10_000)
                        .set_data_page_row_count_limit(5)
                        .set_write_batch_size(3)
                        // Version 2 would take DELTA_BYTE_ARRAY, which is not read.
                        .set_column_encoding(
                            ColumnPath::new(vec!["image".into(), "bytes".into()]),
                            parquet::basic::Encoding::PLAIN,
                        )
                        .set_column_encoding(
                            ColumnPath::new(vec!["image".into(), "path".into()]),
                            parquet::basic::Encoding::PLAIN,
                        )
                        .set_column_encoding("note".into(), parquet::basic::Encoding::PLAIN);
                    let file = file_of(HF, rows.chunks(group_rows).map(group).collect(), noted(properties));
                    let what = format!("{codec}, {version:?}, dictionary {has_dictionary}, {group_rows} a group");
                    check(&records(file, &FieldSelection::default()), &rows, &what);
                }
            }
        }
    }
}

#[test]
fn a_file_without_rows_has_no_records_and_may_have_classes() {
    for groups in [vec![], vec![group(&[])]] {
        let file = file_of(HF, groups, noted(properties()));
        assert_eq!(classes(file.try_clone().unwrap(), &FieldSelection::default()).unwrap(), [b"cat", b"dog", b"emu"]);
        assert!(records(file, &FieldSelection::default()).is_empty());
    }
    let file = file_of(HF, vec![], properties().build());
    assert!(classes(file.try_clone().unwrap(), &FieldSelection::default()).unwrap().is_empty());
    let wanted = FieldSelection { label: Some("none".to_owned()), ..FieldSelection::default() };
    let error = classes(file.try_clone().unwrap(), &wanted).unwrap_err().to_string();
    assert_eq!(error, "no column \"none\": it has image, label, note, weight");
}

#[test]
fn a_column_of_bytes_is_found_by_its_content_and_text_by_its_name() {
    let schema = "message schema { required binary a; optional binary b; required binary c (UTF8);
        required binary file_name (UTF8); required binary class_name (UTF8); required int32 y (INTEGER(8, false)); }";
    let group = || {
        let text = |text: &'static [u8]| Leaf::Bytes(vec![text; 2], vec![], vec![]);
        let b = Leaf::Bytes(vec![JPEG], vec![0, 1], vec![]);
        vec![text(b"no"), b, text(JPEG), text(b"d/1.jpg"), text(b"cat"), Leaf::Short(vec![-1, 7], vec![], vec![])]
    };
    let properties = || properties().build();
    let found = records(file_of(schema, vec![group()], properties()), &FieldSelection::default());
    let image = found[1].0.image.clone().unwrap();
    assert_eq!((image.name.as_str(), image.offset, image.bytes), ("b", 0, JPEG.len() as u32));
    assert_eq!(found[0].0.image, Err("the row has no image".to_owned()));
    assert_eq!(found[0].0.filename.as_deref(), Some(&b"d/1.jpg"[..]));
    assert_eq!(found[0].0.class.as_deref(), Some(&b"cat"[..]));
    assert_eq!(found[0].0.label, Label::Number((-1i32 as u32).into()));
    assert_eq!(others(&found[0].0), [("a", 2), ("c", JPEG.len() as u64)]);

    let wanted =
        FieldSelection { image: Some("c".into()), label: Some("class_name".into()), ..FieldSelection::default() };
    let found = records(file_of(schema, vec![group()], properties()), &wanted);
    assert_eq!(found[0].1, JPEG);
    assert_eq!((&found[0].0.label, &found[0].0.class), (&Label::Text(b"cat".to_vec()), &None));

    let cases = [
        (Some("y"), None, "column \"y\" holds no images, but values of type INT32"),
        (Some("z"), None, "no column \"z\": it has a, b, c, file_name, class_name, y"),
        (None, Some("z"), "no column \"z\": it has a, b, c, file_name, class_name, y"),
    ];
    for (image, label, expected) in cases {
        let wanted = FieldSelection {
            image: image.map(str::to_owned),
            label: label.map(str::to_owned),
            ..FieldSelection::default()
        };
        let error = walk(file_of(schema, vec![group()], properties()), &wanted, &|| Ok(())).err().unwrap();
        assert_eq!((error.kind(), error.to_string().as_str()), (shardpack_format::ErrorKind::Usage, expected));
    }
    let none = "message schema { required binary a; }";
    let no = || vec![vec![Leaf::Bytes(vec![b"no"], vec![], vec![])]];
    let values = records(file_of(none, no(), properties()), &FieldSelection::default());
    assert!(values[0].0.has_values() && others(&values[0].0) == [("a", 2)]);
    let two = "message schema { required binary a; required binary b; }";
    let both = vec![(0..2).map(|_| Leaf::Bytes(vec![JPEG], vec![], vec![])).collect()];
    let error = walk(file_of(two, both, properties()), &FieldSelection::default(), &|| Ok(())).err().unwrap();
    assert!(error.to_string().contains("\"a\" and \"b\" both"), "{error}");
    let pixels = "message schema { required group image (LIST) { repeated group list { required double element; } }
        required binary thumb; }";
    let group = || {
        let image = Leaf::Real(vec![0.5, 0.25], vec![1, 1], vec![0, 1]);
        vec![vec![image, Leaf::Bytes(vec![JPEG], vec![], vec![])]]
    };
    let error = walk(file_of(pixels, group(), properties()), &FieldSelection::default(), &|| Ok(())).err().unwrap();
    assert!(error.to_string().contains("column \"thumb\" holds images"), "{error}");
    let wanted = FieldSelection { image: Some("thumb".to_owned()), ..FieldSelection::default() };
    assert_eq!(records(file_of(pixels, group(), properties()), &wanted)[0].1, JPEG);
}

#[test]
fn labels_of_every_type_are_read() {
    let of = |column: &str, leaf: Leaf, label_number: usize| {
        let schema = format!("message schema {{ required binary image; {column} }}");
        let file = file_of(&schema, vec![vec![Leaf::Bytes(vec![JPEG], vec![], vec![]), leaf]], properties().build());
        let wanted = FieldSelection {
            label: Some("of".to_owned()),
            label_number: Some(label_number),
            ..FieldSelection::default()
        };
        let record = records(file, &wanted).remove(0).0;
        (record.label, record.labels)
    };
    let long = |value| Leaf::Long(vec![value], vec![], vec![]);
    assert_eq!(of("required int64 of;", long(-3), 0), (Label::Number(-3), 1));
    assert!(matches!(of("required int64 of;", long(3), 1), (Label::Unfit(why), 1) if why.contains("number 1 of 1")));
    assert!(matches!(of("required int64 of (INTEGER(64, false));", long(-3), 0).0, Label::Unfit(_)));
    assert!(matches!(of("required int64 of (TIMESTAMP(MILLIS, true));", long(3), 0).0, Label::Unfit(_)));
    let short = Leaf::Short(vec![-3], vec![], vec![]);
    assert_eq!(of("required int32 of (INTEGER(8, true));", short, 0).0, Label::Number(-3));
    assert_eq!(of("required boolean of;", Leaf::Bool(vec![true], vec![], vec![]), 0).0, Label::Number(1));
    let real = |value| Leaf::Real(vec![value], vec![], vec![]);
    assert_eq!(of("required double of;", real(3.0), 0).0, Label::Number(3));
    assert!(matches!(of("required double of;", real(0.5), 0).0, Label::Unfit(_)));
    assert_eq!(of("optional int64 of;", Leaf::Long(vec![], vec![0], vec![]), 0), (Label::Missing, 0));
    let text = Leaf::Bytes(vec![b"cat"], vec![], vec![]);
    assert_eq!(of("required binary of (UTF8);", text, 0).0, Label::Text(b"cat".to_vec()));

    let list = "optional group of (LIST) { repeated group list { optional int64 element; } }";
    let three = || Leaf::Long(vec![5, 6], vec![3, 2, 3], vec![0, 1, 1]);
    assert_eq!(of(list, three(), 0), (Label::Number(5), 3));
    assert_eq!(of(list, three(), 1), (Label::Missing, 3));
    assert_eq!(of(list, three(), 2), (Label::Number(6), 3));
    assert!(matches!(of(list, three(), 3).0, Label::Unfit(_)));
    for level in [0, 1] {
        assert_eq!(of(list, Leaf::Long(vec![], vec![level], vec![0]), 0), (Label::Missing, 0));
    }
}

#[test]
fn damage_is_an_error_or_other_records_but_no_panic() {
    for (codec, has_dictionary) in [
        (Compression::UNCOMPRESSED, false),
        (Compression::SNAPPY, true),
        (Compression::ZSTD(ZstdLevel::default()), true),
        (Compression::LZ4_RAW, false),
    ] {
        let properties = properties()
            .set_compression(codec)
            .set_dictionary_enabled(has_dictionary)
            .set_data_page_row_count_limit(4)
            .set_write_batch_size(2);
        let rows = some_rows(20);
        let file = file_of(HF, rows.chunks(10).map(group).collect(), noted(properties));
        let bytes = footer_and_all(&file);
        let go = |damaged: &[u8]| match walk(written(damaged), &FieldSelection::default(), &|| Ok(())) {
            Ok(mut walk) => {
                let (records, error) = all(&mut *walk);
                assert!(records.len() <= rows.len());
                assert!(error.is_some() || records.len() == rows.len());
                error
            }
            Err(error) => Some(error),
        };
        assert!(go(&bytes).is_none());
        let footer = bytes.len() - 8 - u32::from_le_bytes(*bytes[..bytes.len() - 4].last_chunk().unwrap()) as usize;
        let places = (0..footer).step_by(101).chain((footer..bytes.len()).step_by(3));
        for (place, mask) in places.flat_map(|place| [0x01, 0x10, 0x80, 0xff].map(|mask| (place, mask))) {
            let mut damaged = bytes.clone();
            damaged[place] ^= mask;
            go(&damaged);
        }
        for cut in (0..bytes.len()).step_by(97).chain(bytes.len() - 12..bytes.len()) {
            let error = go(&bytes[..cut]).unwrap();
            assert!(error.to_string().contains("truncated"), "{cut}: {error}");
        }
        // A piece is missing, and the footer is there.
        for cut in (5..footer).step_by(211) {
            go(&[&bytes[..cut - 1], &bytes[cut..]].concat());
        }
    }
}

fn footer_and_all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub(super) fn written(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

#[test]
fn a_footer_that_would_cost_too_much_is_refused_before_it_is_read() {
    // version 1; a schema of elements; each: name "a", then its number of children.
    let footer = |children: &[u8]| {
        let mut out = vec![0x15, 2, 0x19, 0xfc, children.len() as u8];
        for count in children {
            out.extend([0x48, 1, b'a', 0x15, 2 * count, 0]);
        }
        out.extend([0x16, 0, 0x19, 0x0c, 0]);
        [b"PAR1", &out[..], &(out.len() as u32).to_le_bytes(), b"PAR1"].concat()
    };
    let error = |children: &[u8]| {
        walk(written(&footer(children)), &FieldSelection::default(), &|| Ok(())).err().unwrap().to_string()
    };
    assert!(error(&[3, 0]).contains("its schema has no such columns"), "{}", error(&[3, 0]));
    assert!(error(&[1; 103]).contains("groups in one another"), "{}", error(&[1; 103]));
    assert!(error(&[0]).contains("no column holds images"), "{}", error(&[0]));
    for (bytes, expected) in [
        (&b"PAR1"[..], "truncated: 4 bytes"),
        (b"PAR1\xff\xff\xff\xffPAR1", "a footer of 4294967295 bytes, at most 0"),
        (b"PAR1\0\0\0\0PARE", "encrypted"),
        (b"no parquet, at all", "does not begin with PAR1"),
        (b"PAR1\x15\x02\x19\xfc\xff\xff\xff\xff\x07\x09\0\0\0PAR1", "the footer cannot be read"),
    ] {
        let error = walk(written(bytes), &FieldSelection::default(), &|| Ok(())).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_not_supported_says_so() {
    let rows = some_rows(3);
    let properties = properties().set_dictionary_enabled(false);
    let properties = properties.set_column_encoding("note".into(), parquet::basic::Encoding::DELTA_BYTE_ARRAY);
    let file = file_of(HF, vec![group(&rows)], noted(properties));
    // It costs no image.
    for (record, _) in records(file, &FieldSelection::default()) {
        assert_eq!(record.others[0].name, "note");
        assert_eq!((record.others[0].offset, record.others[1].offset.is_some()), (None, record.image.is_ok()));
    }
    let path = ColumnPath::new(vec!["image".into(), "bytes".into()]);
    let properties = self::properties().set_dictionary_enabled(false);
    let properties = properties.set_column_encoding(path, parquet::basic::Encoding::DELTA_BYTE_ARRAY);
    let file = file_of(HF, vec![group(&rows)], noted(properties));
    let (records, error) = all(&mut *walk(file, &FieldSelection::default(), &|| Ok(())).unwrap());
    assert!(records.is_empty());
    let error = error.unwrap().to_string();
    assert!(error.contains("row group 0, column \"image.bytes\": page at byte "), "{error}");
    assert!(error.ends_with("the encoding DELTA_BYTE_ARRAY is not supported"), "{error}");
}

#[test]
fn a_panic_becomes_an_error_and_says_why() {
    let error = contained::<()>(|| panic!("column start and length should not be negative")).unwrap_err();
    assert_eq!(error.to_string(), "damaged parquet file: column start and length should not be negative");
}

#[test]
fn notes_that_are_no_text_keep_no_row_from_being_read() {
    let rows = some_rows(5);
    let note = KeyValue::new("pickled".to_owned(), "secret".to_owned());
    let names = KeyValue::new("huggingface".to_owned(), FEATURES.to_owned());
    let properties = properties().set_key_value_metadata(Some(vec![note, names])).build();
    let file = file_of(HF, vec![group(&rows)], properties);
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(6).rposition(|text| text == b"secret").unwrap();
    bytes[at] = 0x80;
    check(&records(written(&bytes), &FieldSelection::default()), &rows, "a pickle as a note");
}
