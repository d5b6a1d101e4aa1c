//! A file by FFCV's own writer, small files of each kind of field, and damage of every kind.

use std::{fs, io::Read, path::Path};

use shardpack_format::{
    ErrorKind,
    component::Form,
    formats::foreign::Label,
    image_header::{Header, Kind},
    npy,
};

use super::{layout::word, *};

const FLOAT: u8 = 0;
const INT: u8 = 1;
const IMAGE: u8 = 2;
const BYTES: u8 = 3;
const JSON: u8 = 5;
/// Place of the first name of a field.
const NAME: usize = 25;
const FIELD: usize = 1041;

/// The smallest bytes that are a JPEG by their start.
const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x02\0\0\x01\0\x01\0\0";

/// A value of a field.
enum Value {
    Number([u8; 8]),
    Jpeg(Vec<u8>),
    /// Height, width, and values of pixels.
    Pixels(u16, u16, Vec<u8>),
    Bytes(Vec<u8>),
}

fn int(number: i64) -> Value {
    Value::Number(number.to_le_bytes())
}

fn float(number: f64) -> Value {
    Value::Number(number.to_le_bytes())
}

/// A file of samples with a value for each field. The data follows the table of samples, without pages.
fn written(fields: &[(&str, u8)], samples: &[Vec<Value>]) -> Vec<u8> {
    let is_number = |kind: u8| kind == FLOAT || kind == INT;
    let mut sample_bytes = fields.iter().fold(0, |end: usize, (_, kind)| match *kind {
        kind if is_number(kind) => end.next_multiple_of(8) + 8,
        IMAGE => end + 13,
        _ => end + 16,
    });
    if fields.iter().any(|(_, kind)| is_number(*kind)) {
        sample_bytes = sample_bytes.next_multiple_of(8);
    }
    let data_start = 24 + fields.len() * FIELD + samples.len() * sample_bytes;
    let (mut table, mut data, mut allocations) = (Vec::new(), Vec::new(), Vec::new());
    for (number, sample) in samples.iter().enumerate() {
        let row = table.len();
        let mut place = |bytes: &[u8]| {
            let start = (data_start + data.len()) as u64;
            data.extend_from_slice(bytes);
            allocations.extend([number as u64, start, bytes.len() as u64].into_iter().flat_map(u64::to_le_bytes));
            start.to_le_bytes()
        };
        for value in sample {
            match value {
                Value::Number(bytes) => {
                    table.resize(row + (table.len() - row).next_multiple_of(8), 0);
                    table.extend_from_slice(bytes);
                }
                Value::Jpeg(bytes) => {
                    table.extend_from_slice(&[0, 1, 0, 1, 0]);
                    table.extend_from_slice(&place(bytes));
                }
                Value::Pixels(height, width, bytes) => {
                    table.push(1);
                    table.extend([*width, *height].into_iter().flat_map(u16::to_le_bytes));
                    table.extend_from_slice(&place(bytes));
                }
                Value::Bytes(bytes) => {
                    table.extend_from_slice(&place(bytes));
                    table.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                }
            }
        }
        table.resize(row + sample_bytes, 0);
    }
    let mut out = [2u16.to_le_bytes(), (fields.len() as u16).to_le_bytes()].concat();
    out.extend_from_slice(&(1u32 << 21).to_le_bytes());
    out.extend([samples.len(), data_start + data.len()].into_iter().flat_map(|word| (word as u64).to_le_bytes()));
    for (name, kind) in fields {
        let at = out.len();
        out.push(*kind);
        out.extend_from_slice(name.as_bytes());
        out.resize(at + FIELD, 0);
    }
    [out, table, data, allocations].concat()
}

/// Records with their contents.
type Walked = Vec<(Record, Vec<u8>)>;

fn of_file(path: &Path, wanted: &FieldSelection) -> Result<Walked> {
    let shard = ShardFile::of_kind(&path.into(), crate::Kind::parse("beton")?)?;
    let (mut walk, mut records) = (shard.walk_all(wanted, &|| Ok(()))?, Vec::new());
    let mut end = 0;
    while let Some(record) = walk.next()? {
        let mut content = Vec::new();
        assert_eq!(record.range.start, end);
        end = record.range.end;
        if record.has_content() {
            walk.content(&mut content)?;
        }
        records.push((record, content));
    }
    Ok(records)
}

fn walked_as(bytes: &[u8], wanted: &FieldSelection) -> Result<Walked> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    of_file(file.path(), wanted)
}

fn walked(bytes: &[u8]) -> Result<Walked> {
    walked_as(bytes, &FieldSelection::default())
}

fn image((record, content): &(Record, Vec<u8>)) -> &[u8] {
    &content[..record.image.as_ref().map_or(0, |image| image.bytes as usize)]
}

/// Name and content of each component.
fn others((record, content): &(Record, Vec<u8>)) -> Vec<(String, Vec<u8>)> {
    let of = |other: &shardpack_format::formats::foreign::Other| {
        let start = other.offset.map_or(0, |offset| offset - record.range.start) as usize;
        let bytes = other.bytes - other.form.as_ref().map_or(0, Form::head_bytes);
        (other.name.clone(), content[start..start + bytes as usize].to_vec())
    };
    record.others.iter().map(of).collect()
}

/// The file by FFCV's writer.
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/beton/ffcv.beton.gz");

fn fixture() -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(FIXTURE).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Three samples of all kinds of fields that are read.
fn small() -> Vec<u8> {
    let fields = [("caption", BYTES), ("image", IMAGE), ("age", FLOAT), ("meta", JSON), ("label", INT)];
    let sample = |number: u8| {
        vec![
            Value::Bytes(vec![b'a' + number; 3]),
            Value::Jpeg([JPEG, &[number]].concat()),
            float(f64::from(number) + 0.5),
            Value::Bytes(format!("{{\"n\": {number}}}\0").into_bytes()),
            int(i64::from(number) - 1),
        ]
    };
    written(&fields, &(0..3).map(sample).collect::<Vec<_>>())
}

#[test]
fn a_file_of_ffcv_has_its_images_and_labels() {
    let lengths = [1514, 1859, 2200, 2152, 3236, 1553, 1941, 2974, 2197, 2725, 1711, 1797];
    let bytes = fixture();
    assert!(layout::is(&bytes[..4096]));
    let found = walked(&bytes).unwrap();
    assert_eq!(found.iter().map(|one| image(one).len()).collect::<Vec<_>>(), lengths);
    for (number, one) in found.iter().enumerate() {
        assert_eq!(one.0.label, Label::Number(number as i64 / 4));
        let comment = format!("sample {number} ");
        assert!(image(one)[6..].starts_with(comment.as_bytes()) && image(one).ends_with(b"\xff\xd9"));
        assert!(Header::parse(image(one)).kind == Kind::Jpeg && one.0.others.is_empty());
    }
}

#[test]
fn fields_are_labels_and_components_in_any_order() {
    let found = walked(&small()).unwrap();
    let labels: Vec<_> = found.iter().map(|(record, _)| record.label.clone()).collect();
    assert_eq!(labels, [Label::Number(-1), Label::Number(0), Label::Number(1)]);
    assert_eq!(image(&found[2]), [JPEG, &[2]].concat());
    let expected = [("caption", "ccc"), ("age", "2.5"), ("meta.json", "{\"n\": 2}")];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    assert_eq!(others(&found[2]), expected);
    assert_eq!(found[2].0.label_name, "label");
}

#[test]
fn pixels_are_an_array_and_each_row_has_its_axes() {
    let pixels = |height: u16, width: u16| {
        let bytes = (0..height * width * 3).map(|number| number as u8).collect();
        vec![int(1), Value::Pixels(height, width, bytes)]
    };
    let mixed = vec![int(0), Value::Jpeg(JPEG.to_vec())];
    let found = walked(&written(&[("y", INT), ("photo", IMAGE)], &[pixels(2, 3), mixed, pixels(5, 1)])).unwrap();
    let expected = [npy::head("|u1", &[2, 3, 3], false), (0..18).collect()].concat();
    assert_eq!(image(&found[0]), expected);
    assert_eq!(image(&found[1]), JPEG);
    assert!(image(&found[2]).starts_with(&npy::head("|u1", &[5, 1, 3], false)));
}

#[test]
fn without_images_rows_are_values_and_bytes_may_be_images() {
    let rows: Vec<_> = (0..3u8).map(|number| vec![float(0.25), int(3), Value::Bytes(vec![number; 4])]).collect();
    let found = walked(&written(&[("age", FLOAT), ("count", INT), ("tokens", BYTES)], &rows)).unwrap();
    assert!(found[1].0.has_values());
    let expected = [
        ("age".to_owned(), 0.25f64.to_le_bytes().to_vec()),
        ("count".to_owned(), 3i64.to_le_bytes().to_vec()),
        ("tokens".to_owned(), vec![1; 4]),
    ];
    assert_eq!(others(&found[1]), expected);
    let rows: Vec<_> = (0..3).map(|number| vec![Value::Bytes(JPEG.to_vec()), int(number)]).collect();
    let found = walked(&written(&[("jpeg", BYTES), ("label", INT)], &rows)).unwrap();
    assert_eq!((image(&found[2]), &found[2].0.label), (JPEG, &Label::Number(2)));
}

#[test]
fn empty_bytes_may_have_any_place() {
    let rows = [vec![Value::Bytes(Vec::new()), Value::Jpeg(JPEG.to_vec())]];
    let mut bytes = written(&[("caption", BYTES), ("image", IMAGE)], &rows);
    let table = 24 + 2 * FIELD;
    bytes[table..table + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    let found = walked(&bytes).unwrap();
    assert_eq!((image(&found[0]), others(&found[0])), (JPEG, vec![("caption".to_owned(), Vec::new())]));
}

#[test]
fn a_sample_whose_data_is_elsewhere_is_bad_and_the_others_are_read() {
    let rows: Vec<_> = (0..3).map(|number| vec![Value::Jpeg([JPEG, &[number]].concat())]).collect();
    let whole = written(&[("image", IMAGE)], &rows);
    let second = 24 + FIELD + 13;
    let place = word(&whole, second + 5);
    let damaged: [(usize, u64, &str); 4] = [
        (second + 5, place - 21, "the file has no data of it at byte"),
        (second + 5, whole.len() as u64 + 8, "the file has no data of it at byte"),
        (second, word(&whole, second) | 1, "21 bytes of pixels, its axes are 1×1×3"),
        (second, word(&whole, second) | 9, "an image of unknown mode 9"),
    ];
    for (at, number, what) in damaged {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        let found = walked(&bytes).unwrap();
        assert_eq!(image(&found[2]), [JPEG, &[2]].concat());
        assert!(found[1].0.is_damaged && found[0].0.image.is_ok());
        let why = found[1].0.image.clone().unwrap_err();
        assert!(why.contains("field image, row 1") && why.contains(what), "{why}");
    }
    // The length of one value of bytes differs from that of its data.
    let mut bytes = written(
        &[("image", IMAGE), ("caption", BYTES)],
        &[vec![Value::Jpeg(JPEG.to_vec()), Value::Bytes(vec![b'a'; 4])]],
    );
    bytes[24 + 2 * FIELD + 13 + 8] = 3;
    let why = walked(&bytes).unwrap()[0].0.image.clone().unwrap_err();
    assert!(why.contains("field caption, row 0: 3 bytes, the file has 4 at byte"), "{why}");
}

#[test]
fn fields_that_are_not_read_are_refused_by_name() {
    for (kind, what) in [
        (4, "field covariate is of type NDArrayField, which is not read: images,"),
        (6, "field covariate is of type TorchTensorField, which is not read"),
        (255, "field covariate is of a type of its own"),
        (9, "field covariate is of unknown type 9"),
    ] {
        let mut bytes = written(&[("image", IMAGE), ("covariate", INT)], &[vec![Value::Jpeg(JPEG.to_vec()), int(0)]]);
        bytes[24 + FIELD] = kind;
        let error = walked(&bytes).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains(what), "{error}");
    }
    let images = || vec![Value::Jpeg(JPEG.to_vec()), Value::Jpeg(JPEG.to_vec())];
    let error = walked(&written(&[("same", IMAGE), ("same", IMAGE)], &[images()])).unwrap_err();
    assert!(error.to_string().contains("two fields are called same"), "{error}");
    let two = written(&[("left", IMAGE), ("right", IMAGE)], &[images()]);
    let error = walked(&two).unwrap_err();
    assert!(error.to_string().contains("several fields that may hold the images"), "{error}");
    let wanted = FieldSelection { image: Some("right".to_owned()), ..FieldSelection::default() };
    let found = walked_as(&two, &wanted).unwrap();
    assert_eq!(others(&found[0]), [("left".to_owned(), JPEG.to_vec())]);
    let wanted = FieldSelection { image: Some("up".to_owned()), ..FieldSelection::default() };
    assert!(walked_as(&two, &wanted).unwrap_err().to_string().contains("no field up: it has left"));
}

#[test]
fn damaged_headers_are_named() {
    let whole = small();
    let with = |at: usize, bytes: &[u8]| {
        let mut damaged = whole.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        walked(&damaged).unwrap_err().to_string()
    };
    for (at, bytes, what) in [
        (0, &[1, 0][..], "version 1 of the format, only 2 is read"),
        (2, &[0, 0], "no fields"),
        (2, &[255, 255], "65535 fields and lengths of data at byte"),
        (4, &[0, 0, 32, 1], "pages of"),
        (8, &[255; 8], "samples, more than the file holds"),
        (16, &[0; 8], "an unfinished file: its writer was stopped"),
        (16, &[255; 8], "lengths of data at byte"),
        (NAME, &[0; 16], "field 0, counted from 0, has a name that is no ASCII text"),
        (NAME, &[200], "field 0, counted from 0, has a name that is no ASCII text"),
    ] {
        let error = with(at, bytes);
        assert!(error.contains(what), "{error}");
    }
    let count = word(&whole, 16) + 1;
    assert!(with(16, &count.to_le_bytes()).contains("the file is cut"));
    // Two samples with the data of one.
    let all = whole.len() - 24 * 9;
    assert!(with(all + 16, &(word(&whole, 16) - word(&whole, all + 8)).to_le_bytes()).contains("lengths are damaged"));
    let file = tempfile::Builder::new().suffix(".beton.gz").tempfile().unwrap();
    fs::copy(FIXTURE, file.path()).unwrap();
    let error = of_file(file.path(), &FieldSelection::default()).unwrap_err().to_string();
    assert!(error.contains("a beton file compressed with gzip: unpack it first"), "{error}");
}

/// Whether a byte of [`small`] is an argument of a field, which no field that is read has.
fn is_argument(at: usize) -> bool {
    (24..24 + 5 * FIELD).contains(&at) && (at - 24) % FIELD > 16
}

#[test]
fn a_changed_byte_gives_no_other_image_and_no_panic() {
    let whole = small();
    let images: Vec<_> = (0..3u8).map(|number| [JPEG, &[number]].concat()).collect();
    let data = 24 + 5 * FIELD + 3 * 64..whole.len() - 24 * 9;
    for at in (0..whole.len()).filter(|at| !is_argument(*at) && !data.contains(at)) {
        for bits in [1, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= bits;
            let Ok(found) = walked(&damaged) else { continue };
            for (number, one) in found.iter().enumerate().filter(|(_, one)| one.0.image.is_ok()) {
                // A shorter length is a cut image, as it is in FFCV.
                assert!(images[number].starts_with(image(one)) || at >= data.end, "byte {at}, sample {number}");
            }
        }
    }
}

#[test]
fn every_cut_is_refused_or_loses_samples() {
    let whole = small();
    for end in (0..whole.len()).filter(|at| !is_argument(*at)) {
        if let Ok(found) = walked(&whole[..end]) {
            assert!(found.iter().any(|(record, _)| record.is_damaged), "cut at {end}");
        }
    }
    assert!(!layout::is(&whole[..30]) && layout::is(&whole[..41]) && !layout::is(b""));
}
