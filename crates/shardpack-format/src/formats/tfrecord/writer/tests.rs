use super::*;
use crate::{
    formats::{sidecars::tests::Memory, tests as shared},
    hash,
    image_header::Mode,
    index::Index,
    sample::Row,
};
use proptest::prelude::*;

pub(in super::super) fn format(settings: &[(&str, &str)]) -> TfRecord {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TfRecord::new(&Choice { settings, ..Choice::new("tfrecord") }).unwrap()
}

pub(in super::super) fn sample(payload: &[u8]) -> Sample<'_> {
    Sample {
        key: "00000042",
        label: Some(7),
        class: b"tench",
        path: b"tench/a.JPEG",
        payload_bytes: payload.len() as u32,
        components: &[],
        forms: Default::default(),
    }
}

pub(in super::super) fn record(format: &TfRecord, sample: &Sample<'_>, payload: &[u8], header: Header) -> Vec<u8> {
    shared::record(format, sample, payload, header).unwrap().0
}

pub(in super::super) const fn header(kind: Kind, width: u32, height: u32) -> Header {
    Header { kind, width, height, mode: Mode::Rgb, depth: 8 }
}

fn index(format: &TfRecord, sample: &Sample<'_>, image: Header, records: u64) -> Index<Vec<u8>> {
    let payload = vec![0; sample.payload_bytes as usize];
    let (_, row) = shared::record(format, sample, &payload, image).unwrap();
    let row = |number| Row { offset: number * u64::from(row.record_bytes), ..row.clone() };
    shared::index(format, &(0..records).map(row).collect::<Vec<_>>())
}

fn check(format: &TfRecord, sample: &Sample<'_>, image: Header, record: &[u8]) -> Result<()> {
    format.check(&index(format, sample, image, 1).row(0).unwrap(), record)
}

#[test]
fn a_record_has_these_bytes() {
    let payload = [0xff, 0xd8, 0xff, 9];
    let expected = b"\x0a\xc5\x01\
        \x0a\x1c\x0a\x11image/class/label\x12\x07\x1a\x05\x0a\x03\x80\x80\x01\
        \x0a\x1d\x0a\x10image/class/text\x12\x09\x0a\x07\x0a\x05tench\
        \x0a\x19\x0a\x0dimage/encoded\x12\x08\x0a\x06\x0a\x04\xff\xd8\xff\x09\
        \x0a\x1c\x0a\x0eimage/filename\x12\x0a\x0a\x08\x0a\x06a.JPEG\
        \x0a\x18\x0a\x0cimage/format\x12\x08\x0a\x06\x0a\x83\x00PNG\
        \x0a\x19\x0a\x0cimage/height\x12\x09\x1a\x07\x0a\x05\x81\x80\x80\x80\x00\
        \x0a\x18\x0a\x0bimage/width\x12\x09\x1a\x07\x0a\x05\xac\x82\x80\x80\x00";
    let sample = Sample { label: Some(16383), ..sample(&payload) };
    let bytes = record(&format(&[("label_offset", "1")]), &sample, &payload, header(Kind::Png, 300, 1));
    let data = &bytes[12..bytes.len() - 4];
    assert_eq!(data.escape_ascii().to_string(), expected.escape_ascii().to_string());
    assert_eq!(bytes[..12], [&200u64.to_le_bytes()[..], &masked_crc(&200u64.to_le_bytes()).to_le_bytes()].concat());
    assert_eq!(bytes[bytes.len() - 4..], masked_crc(data).to_le_bytes());
}

#[test]
fn no_image_and_no_size_changes_the_layout() {
    let format = format(&[]);
    let lengths: Vec<_> = Kind::ALL
        .iter()
        .flat_map(|kind| [0, 1, 300, u32::MAX].map(|size| header(*kind, size, size)))
        .map(|header| {
            let bytes = record(&format, &sample(b"abc"), b"abc", header);
            check(&format, &sample(b"abc"), header, &bytes).unwrap();
            bytes.len()
        })
        .collect();
    assert!(lengths.iter().all(|length| *length == lengths[0]));
}

#[test]
fn settings_lead_back_to_the_same_format_and_wrong_ones_are_refused() {
    let some = format(&[("label_offset", "1"), ("features", "image/width, image/class/label")]);
    assert_eq!(some.settings()["features"], "image/class/label,image/encoded,image/width");
    let again = TfRecord::new(&Choice { settings: some.settings(), ..Choice::new("tfrecord") }).unwrap();
    assert_eq!((&again.features, again.label_offset), (&some.features, 1));
    assert!(!some.needs_path() && format(&[]).needs_path());
    for (name, value) in [("label_offset", "-1"), ("label_offset", "x"), ("features", "image/colour")] {
        let settings = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert!(TfRecord::new(&Choice { settings, ..Choice::new("tfrecord") }).is_err(), "{name} {value}");
    }
    assert!(formats::open(&Choice::new("tf")).is_ok());
}

#[test]
fn what_no_example_holds_is_refused() {
    let shifted = format(&[("label_offset", "1")]);
    assert!(shifted.layout(&Sample { label: None, ..sample(b"") }).is_err());
    assert!(shifted.layout(&Sample { label: Some(i64::MAX), ..sample(b"") }).is_err());
    assert!(shifted.layout(&Sample { payload_bytes: i32::MAX as u32 - 400, ..sample(b"") }).is_ok());
    let error = shifted.layout(&Sample { payload_bytes: i32::MAX as u32 - 100, ..sample(b"") }).unwrap_err();
    assert!(error.to_string().contains("below 2 GiB"), "{error}");
    assert!(shifted.layout(&Sample { payload_bytes: u32::MAX, ..sample(b"") }).is_err());
    let without = format(&[("features", "image/filename")]);
    assert!(without.layout(&Sample { label: None, ..sample(b"") }).is_ok());
    let mut short = vec![0; shifted.layout(&sample(b"abc")).unwrap().record_bytes as usize - 1];
    assert!(shifted.frame(&sample(b"abc"), &header(Kind::Jpeg, 1, 1), &mut short).is_err());
}

#[test]
fn a_row_that_says_something_else_is_noticed() {
    let (all, least) = (format(&[]), format(&[("features", "")]));
    let (of, image) = (sample(b"abc"), header(Kind::Jpeg, 3, 4));
    let bytes = record(&all, &of, b"abc", image);
    check(&all, &of, image, &bytes).unwrap();
    assert!(check(&all, &Sample { label: Some(8), ..of }, image, &bytes).is_err());
    assert!(check(&all, &Sample { path: b"tench/b.JPEG", ..of }, image, &bytes).is_err());
    assert!(check(&all, &of, header(Kind::Png, 3, 4), &bytes).is_err());
    assert!(check(&all, &of, header(Kind::Jpeg, 4, 4), &bytes).is_err());
    assert!(check(&least, &of, image, &bytes).is_err());
    let longer = Sample { class: b"tenches", path: b"tenches/a.JPEG", ..of };
    assert!(check(&all, &longer, image, &bytes).is_err(), "the image is elsewhere");
}

#[test]
fn the_index_for_dali_has_a_line_a_record() {
    let format = format(&[("features", "")]);
    let shards = [2, 1].map(|samples| crate::manifest::Shard {
        file: format.shard_file("train", 2 - samples, 2),
        samples,
        bytes: 0,
        blake3: crate::manifest::Blake3([0; 32]),
        index: crate::manifest::File { file: String::new(), bytes: 0, blake3: crate::manifest::Blake3([0; 32]) },
    });
    let open = |number: usize| Ok(index(&format, &sample(b"abc"), header(Kind::Jpeg, 1, 1), 2 - number as u64));
    let dataset = all_sidecars::Dataset {
        name: "train",
        shards: &shards,
        classes: &[],
        samples: 3,
        kinds: &BTreeMap::new(),
        components: format.components(),
        settings: &BTreeMap::new(),
        compression: "none",
        hashes: &[],
        unpacked: &[],
        index: &open,
    };
    let mut files = Memory::default();
    for (number, shard) in shards.iter().enumerate() {
        let index = open(number).unwrap();
        let of = all_sidecars::Sealed { shard, index: &index, components: format.components(), compression: "none" };
        format.shard_sidecar("dali", &of, &mut files).unwrap();
    }
    format.sidecar("dali", &dataset, &mut files).unwrap();
    let expected = [("train-00000-of-00002.idx", "0 44\n44 44\n"), ("train-00001-of-00002.idx", "0 44\n")];
    assert_eq!(files.text(), expected);
    assert!(format.sidecar("other", &dataset, &mut files).is_err());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let (format, image) = (format(&[]), header(Kind::Jpeg, 3, 4));
    let bytes = record(&format, &sample(b"abc"), b"abc", image);
    let index = index(&format, &sample(b"abc"), image, 1);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(format.check(&index.row(0).unwrap(), &flipped).is_err(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn the_layout_holds_what_is_written(
        length in prop_oneof![0usize..300, 16_200usize..16_500],
        label in prop_oneof![any::<i64>(), -2i64..300],
        class in prop::collection::vec(any::<u8>(), 0..200),
        name in prop::collection::vec(any::<u8>(), 0..200),
        in_class: bool,
        chosen in 0u8..128,
    ) {
        let is_chosen = |feature: &Feature| chosen >> *feature as u8 & 1 == 1;
        let keys: Vec<_> = Feature::ALL.into_iter().filter(is_chosen).map(Feature::key).collect();
        let format = format(&[("features", &keys.join(","))]);
        let payload: Vec<u8> = hash::file(&name).iter().copied().cycle().take(length).collect();
        let path = if in_class { [&class[..], b"/", &name].concat() } else { name };
        let sample = Sample { label: Some(label), class: &class, path: &path, ..sample(&payload) };
        let image = header(Kind::Tiff, 70_000, 1);
        let bytes = record(&format, &sample, &payload, image);
        prop_assert!(check(&format, &sample, image, &bytes).is_ok());
        prop_assert_eq!(format.layout(&sample).unwrap().components[0].slice(&bytes), Some(&payload[..]));
    }
}
