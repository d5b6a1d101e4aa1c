use std::io::Cursor;

use super::*;
use crate::{
    formats::{
        Format,
        foreign::{Label, Other, Sequential},
        tfrecord::{
            layout::{field_bytes, masked_crc, varint_bytes},
            writer::tests as writer,
        },
    },
    image_header::Kind,
};
use proptest::prelude::*;

const JPEG: &[u8] = b"\xff\xd8\xff\xe0 not much of an image";

fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length).to_le_bytes(), data, &masked_crc(data).to_le_bytes()].concat()
}

fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let (mut left, bytes) = (content.len(), varint_bytes(content.len() as u64));
    for _ in 1..bytes {
        out.push(left as u8 & 0x7f | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
    out.extend_from_slice(content);
    assert_eq!(out.len() as u64, field_bytes(content.len() as u64));
    out
}

fn text(value: &[u8]) -> Vec<u8> {
    field(0x0a, &field(0x0a, value))
}

fn small(values: &[u8]) -> Vec<u8> {
    field(0x1a, &field(0x0a, values))
}

fn float(value: f32) -> Vec<u8> {
    field(0x12, &field(0x0a, &value.to_le_bytes()))
}

fn example(features: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<u8> = features
        .iter()
        .flat_map(|(key, feature)| field(0x0a, &[field(0x0a, key.as_bytes()), field(0x12, feature)].concat()))
        .collect();
    framed(&field(0x0a, &entries))
}

/// Makes all values of a record, also in their wider form, and compares their lengths with the record.
fn check_values(file: &[u8], record: &Record, wider: &[Option<u32>]) {
    let whole = &file[record.range.start as usize..record.range.end as usize];
    for (number, other) in record.others.iter().enumerate() {
        let (Some(form), Some(offset)) = (&other.form, other.offset) else { continue };
        let content = match other.recipe {
            0 => {
                let head = form.head();
                let items = &file[offset as usize..][..other.bytes as usize - head.len()];
                [head.as_slice(), items].concat()
            }
            recipe => TfRecords.component(whole, recipe).unwrap(),
        };
        assert_eq!(content.len() as u64, other.bytes, "{form}");
        // Beside an image a single number is text.
        let is_text = wider[number].is_some() && record.image.is_ok();
        assert!(form.items_bytes().is_none() || is_text || content.starts_with(&form.head()));
        if let Some(bytes) = wider[number] {
            let content = TfRecords.component(whole, other.recipe | Other::WIDER).unwrap();
            assert_eq!(content.len() as u64, u64::from(bytes), "{form}");
            assert!(content.starts_with(&form.wider().unwrap().head()));
        }
    }
}

/// All records with their images, and the error that ended the walk.
fn walk(file: &[u8], is_known: bool, wanted: &FieldSelection) -> (Vec<(Record, Vec<u8>)>, Option<Error>) {
    let bytes: Box<dyn Skip> = match is_known {
        true => Box::new(Cursor::new(file.to_vec())),
        false => Box::new(Sequential(Cursor::new(file.to_vec()))),
    };
    let input = Input { bytes, total_bytes: is_known.then_some(file.len() as u64) };
    let mut walk = TfRecords.walk(input, wanted).unwrap();
    let mut records = Vec::new();
    loop {
        match walk.next() {
            Ok(Some(record)) => {
                check_values(file, &record, walk.wider());
                let mut image = Vec::new();
                assert_eq!(walk.image(&mut image).is_ok(), record.image.is_ok());
                if let Ok(place) = &record.image {
                    let pixels = if place.in_parts { 0 } else { place.bytes as usize };
                    assert_eq!(file[place.offset as usize..][..pixels], image[..pixels]);
                    let fetched = &file[place.fetch.start as usize..place.fetch.end as usize];
                    assert_eq!(TfRecords.image(fetched, place.recipe, wanted).unwrap(), image);
                }
                records.push((record, image));
            }
            Ok(None) => return (records, None),
            Err(error) => {
                assert!(walk.next().unwrap().is_none(), "an error ends the walk");
                return (records, Some(error));
            }
        }
    }
}

fn both(file: &[u8]) -> (Vec<(Record, Vec<u8>)>, Option<Error>) {
    let (known, error) = walk(file, true, &FieldSelection::default());
    let (unknown, other) = walk(file, false, &FieldSelection::default());
    assert_eq!(known, unknown);
    assert_eq!(error.is_some(), other.is_some());
    (known, error)
}

fn one(features: &[(&str, Vec<u8>)], wanted: &FieldSelection) -> Record {
    let (mut records, error) = walk(&example(features), true, wanted);
    assert!(error.is_none() && records.len() == 1);
    records.remove(0).0
}

#[test]
fn a_head_that_tensorflow_wrote_is_known() {
    // TensorFlow 2.21, TFRecordWriter: the first bytes of a record of 1793.
    let head = b"\x01\x07\x00\x00\x00\x00\x00\x00\xba\x9c\xcc\xa0";
    assert!(TfRecords.is(head, Some(1809), "train"));
    assert!(TfRecords.is(head, None, "train"));
    assert!(!TfRecords.is(head, Some(1808), "train"));
    assert!(!TfRecords.is(&head[..11], None, "train"));
    assert!(!TfRecords.is(&[0; 12], None, "train.tfrecord"));
}

#[test]
fn what_the_writer_wrote_is_read() {
    let format = writer::format(&[("label_offset", "1")]);
    let header = writer::header(Kind::Jpeg, 640, 480);
    let images = [JPEG.to_vec(), vec![], vec![7; 70_000]];
    let file: Vec<u8> =
        images.iter().flat_map(|image| writer::record(&format, &writer::sample(image), image, header)).collect();
    let (records, error) = both(&file);
    assert!(error.is_none());
    assert_eq!(records.iter().map(|(_, image)| image.clone()).collect::<Vec<_>>(), images);
    let (record, _) = &records[2];
    assert_eq!((record.key.as_slice(), record.key_is_unique), (&b"2"[..], false));
    assert_eq!((&record.label, record.labels), (&Label::Number(8), 1));
    assert_eq!((record.class.as_deref(), record.filename.as_deref()), (Some(&b"tench"[..]), Some(&b"a.JPEG"[..])));
    assert_eq!(record.image.as_ref().unwrap().name, "image/encoded");
    let others = ["image/format", "image/height", "image/width"].into_iter().zip([4, 3, 3]);
    let found: Vec<_> = record.others.iter().map(|other| (other.name.as_str(), other.bytes)).collect();
    assert_eq!(found, others.collect::<Vec<_>>());
    // Text is stored unchanged; numbers become text.
    let format = record.others[0].offset.unwrap() as usize;
    assert_eq!(&file[format..format + 4], b"JPEG");
    assert_eq!(record.others[0].recipe, 0);
    for (other, expected) in record.others[1..].iter().zip(["480", "640"]) {
        assert_eq!(other.offset, Some(record.range.start));
        let fetched = &file[record.range.start as usize..record.range.end as usize];
        assert_eq!(TfRecords.component(fetched, other.recipe).unwrap(), expected.as_bytes());
    }
    assert!(TfRecords.component(&file[..record.range.start as usize], 0).is_err());
    assert_eq!(record.range.end, file.len() as u64);
}

#[test]
fn labels_of_every_kind_are_told() {
    let rows = [
        ("integer", small(&[9]), Label::Number(9)),
        ("whole float", float(9.0), Label::Number(9)),
        // Fractions are values beside the image.
        ("broken float", float(9.5), Label::Missing),
        ("no number", float(f32::NAN), Label::Missing),
        ("text", text(b"cat"), Label::Text(b"cat".to_vec())),
        ("empty list", small(&[]), Label::Missing),
        ("no list", Vec::new(), Label::Missing),
    ];
    for (name, feature, expected) in rows {
        let record = one(&[("label", feature), ("image", text(JPEG))], &FieldSelection::default());
        assert_eq!(record.label, expected, "{name}");
    }
    let two = [("target", small(&[5])), ("class", small(&[3, 4])), ("x", text(JPEG))];
    assert_eq!(one(&two, &FieldSelection::default()).label, Label::Missing, "none of several is the class");
    for (names, expected) in
        [(["Category", "image/label"], 0), (["label_noise", "image/label"], 1), (["y", "Label"], 1)]
    {
        let both = [(names[0], small(&[0])), (names[1], small(&[1])), ("x", text(JPEG))];
        assert_eq!(one(&both, &FieldSelection::default()).label, Label::Number(expected), "{names:?}");
    }
    let wanted = |label: &str, label_number| FieldSelection {
        label: Some(label.to_owned()),
        label_number: Some(label_number),
        ..FieldSelection::default()
    };
    assert_eq!(one(&two, &wanted("target", 0)).label, Label::Number(5));
    assert_eq!(one(&two, &wanted("class", 1)).label, Label::Number(4));
    assert_eq!(one(&two, &wanted("class", 1)).labels, 2);
    assert!(matches!(one(&two, &wanted("class", 2)).label, Label::Unfit(_)));
    assert_eq!(one(&two, &wanted("other", 0)).label, Label::Missing);
}

#[test]
fn images_are_found_by_name_or_by_their_first_bytes() {
    let found = |features: &[(&str, Vec<u8>)], wanted: Option<&str>| {
        let wanted = FieldSelection { image: wanted.map(str::to_owned), ..FieldSelection::default() };
        one(features, &wanted).image.map(|image| image.name)
    };
    let some = [("a", text(b"words")), ("b", text(JPEG)), ("image", small(&[3])), ("z", text(b"GIF89a"))];
    assert_eq!(found(&some[..3], None).unwrap(), "b");
    assert!(found(&some, None).unwrap_err().contains("\"b\" and \"z\" both"));
    assert_eq!(found(&some, Some("a")).unwrap(), "a");
    assert_eq!(found(&some, Some("other")).unwrap_err(), "no feature \"other\": it has a, b, image, z");
    assert_eq!(found(&some, Some("image")).unwrap_err(), "feature \"image\" holds no bytes");
    assert!(found(&some[..1], None).is_err() && found(&[], None).is_err());
    let pixels = [("image", small(&[3, 4])), ("thumb", text(JPEG))];
    assert!(found(&pixels, None).unwrap_err().contains("\"thumb\" looks like one: choose one with --image-feature"));
    assert_eq!(found(&pixels, Some("thumb")).unwrap(), "thumb");
    let frames = field(0x0a, &[field(0x0a, JPEG), field(0x0a, JPEG)].concat());
    assert_eq!(found(&[("jpeg", frames)], None).unwrap_err(), "feature \"jpeg\" has 2 values, not one");
    let many: Vec<_> = "abcdefghijklmnop".split("").map(|key| (key, small(&[1]))).collect();
    assert!(found(&many, None).unwrap_err().ends_with(", k and 5 more"), "{:?}", found(&many, None));
}

#[test]
fn a_file_cut_at_any_byte_gives_its_whole_records_and_an_error() {
    let records = [example(&[("image", text(JPEG))]), framed(b""), example(&[("label", small(&[1]))])];
    let ends: Vec<_> = (0..=3).map(|count| records[..count].concat().len()).collect();
    let file = records.concat();
    for cut in 0..=file.len() {
        let (found, error) = both(&file[..cut]);
        assert_eq!(found.len(), ends.iter().filter(|end| **end <= cut).count() - 1, "cut at {cut}");
        assert_eq!(error.is_none(), ends.contains(&cut), "cut at {cut}");
        let start = ends.iter().rfind(|end| **end <= cut).unwrap();
        assert!(error.is_none_or(|error| error.location().byte == Some(*start as u64)));
    }
}

#[test]
fn every_flipped_bit_is_noticed_and_one_in_the_data_spares_the_next_record() {
    let (first, second) = (example(&[("image", text(JPEG))]), example(&[("image", text(b"BM"))]));
    for bit in 0..first.len() * 8 {
        let mut file = [&first[..], &second].concat();
        file[bit / 8] ^= 1 << (bit % 8);
        let (found, error) = both(&file);
        if bit / 8 < HEAD_BYTES {
            assert!(found.is_empty() && error.is_some(), "bit {bit}");
        } else {
            assert!(found[0].0.image.as_ref().unwrap_err().starts_with("data CRC differs: "), "bit {bit}");
            assert!(found[1].0.image.is_ok() && error.is_none(), "bit {bit}");
        }
    }
    let mut stray = first.clone();
    stray.extend([0; 11]);
    assert!(both(&stray).1.unwrap().to_string().contains("cut header"));
}

#[test]
fn a_promised_length_is_not_believed() {
    for length in [1u64 << 31, 1 << 40, u64::MAX - 20, u64::MAX] {
        let mut file = length.to_le_bytes().to_vec();
        file.extend(masked_crc(&file.clone()).to_le_bytes());
        file.extend([0; 100]);
        assert!(!TfRecords.is(&file, Some(file.len() as u64), ""));
        let (found, error) = both(&file);
        assert!(found.is_empty() && error.is_some(), "{length}");
    }
}

#[test]
fn what_is_no_example_is_a_record_without_an_image() {
    let (found, error) = both(&[framed(b"words"), framed(b""), example(&[("image", text(JPEG))])].concat());
    assert!(error.is_none());
    assert!(found[0].0.image.as_ref().unwrap_err().starts_with("not a tf.train.Example: byte "));
    assert_eq!(found[1].0.image.as_ref().unwrap_err(), "no feature holds an image: it has none");
    assert!(found[2].0.image.is_ok());
}

/// Name and form of each feature; the form is empty if the feature is no value.
fn forms(features: &[(&str, Vec<u8>)]) -> Vec<(String, String)> {
    let told = |other: &Other| other.form.as_ref().map_or_else(String::new, ToString::to_string);
    one(features, &FieldSelection::default()).others.iter().map(|other| (other.name.clone(), told(other))).collect()
}

#[test]
fn features_without_an_image_are_values_of_their_kind() {
    let of = |feature: Vec<u8>| forms(&[("x", feature)])[0].1.clone();
    let floats = |count: usize| field(0x12, &field(0x0a, &vec![0; 4 * count]));
    // Unpacked, which readers accept too.
    let apart = field(0x12, &[0x0d, 0, 0, 0, 0, 0x0d, 0, 0, 0, 0]);
    assert_eq!([of(small(&[5])), of(small(&[5, 6])), of(small(&[]))], ["int", "<i8[2]", "<i8[0]"]);
    assert_eq!([of(float(1.5)), of(floats(3)), of(floats(0)), of(apart)], ["<f4[]", "<f4[3]", "<f4[0]", "<f4[2]"]);
    assert_eq!(
        [of(text(b"a\n")), of(text(b"")), of(text(b"\0")), of(text(&[0xff]))],
        ["text", "text", "bytes", "bytes"]
    );
    let several = |first: &[u8]| field(0x0a, &[field(0x0a, first), field(0x0a, b"b")].concat());
    assert_eq!([of(several(b"a")), of(several(&[0xff])), of(field(0x0a, b""))], ["json", "", "json"]);
    // A feature without a list is omitted.
    assert_eq!(forms(&[("x", vec![]), ("z", small(&[1]))]).len(), 1);
}

#[test]
fn shape_and_dtype_beside_a_feature_count_where_they_are_its_own() {
    let eight = || text(&[0; 8]);
    let of = |all: &[(&str, Vec<u8>)]| {
        let told: Vec<_> = forms(all).into_iter().map(|(name, form)| format!("{name} {form}")).collect();
        told.join(", ")
    };
    let (f8, i4) = (("x/dtype", text(b"float64")), ("x/dtype", text(b"<i4")));
    let shape = |axes: &[u8]| ("x/shape", small(axes));
    assert_eq!(of(&[("x", small(&[1, 2])), shape(&[2, 1])]), "x <i8[2x1]");
    assert_eq!(of(&[("x", small(&[1])), shape(&[])]), "x <i8[]");
    assert_eq!(of(&[("x", small(&[])), shape(&[0, 5])]), "x <i8[0x5]");
    assert_eq!(of(&[("x", small(&[1, 2])), shape(&[3])]), "x <i8[2], x/shape int");
    assert_eq!(of(&[("x", eight()), f8.clone()]), "x float");
    assert_eq!(of(&[("x", eight()), f8.clone(), shape(&[1, 1])]), "x <f8[1x1]");
    assert_eq!(of(&[("x", eight()), i4.clone(), shape(&[2])]), "x <i4[2]");
    assert_eq!(of(&[("x", eight()), i4, shape(&[3])]), "x bytes, x/dtype text, x/shape int");
    assert_eq!(of(&[("x", eight()), ("x/dtype", text(b"O"))]), "x bytes, x/dtype text");
    // Declared arrays are not pixels, and the shape of one feature is not used for another.
    let bytes = || (text(&[200; 6]), text(b"uint8"), small(&[2, 3]));
    let ((a, a_dtype, a_shape), (b, _, _)) = (bytes(), bytes());
    let declared = [("a", a), ("a/dtype", a_dtype), ("a/shape", a_shape.clone())];
    assert_eq!(of(&declared), "a |u1[2x3]");
    let floats = ("x", field(0x12, &field(0x0a, &[0; 24])));
    assert_eq!(of(&[("b", b.clone()), floats, shape(&[2, 3])]), "b bytes, x <f4[2x3]");
    assert!(one(&[("b", b), ("b/shape", a_shape)], &FieldSelection::default()).image.is_ok());
    let nan = text(&f64::from_bits(0x7ff8_0000_0000_0001).to_le_bytes());
    assert_eq!(of(&[("x", nan), f8]), "x <f8[]");
}

proptest! {
    #[test]
    fn whatever_is_written_is_read(
        images in prop::collection::vec((0usize..400, any::<u8>(), any::<i32>()), 0..6),
        class in "[a-z]{0,12}",
    ) {
        let format = writer::format(&[]);
        let mut file = Vec::new();
        for (length, byte, label) in &images {
            let image = vec![*byte; *length];
            let sample = crate::sample::Sample {
                label: Some((*label).into()),
                class: class.as_bytes(),
                ..writer::sample(&image)
            };
            let record = writer::record(&format, &sample, &image, writer::header(Kind::Unknown, 0, 0));
            prop_assert_eq!(record.len(), format.layout(&sample).unwrap().record_bytes as usize);
            file.extend(record);
        }
        let (found, error) = both(&file);
        prop_assert!(error.is_none());
        prop_assert_eq!(found.len(), images.len());
        for ((record, image), (length, byte, label)) in found.iter().zip(&images) {
            prop_assert_eq!(image, &vec![*byte; *length]);
            prop_assert_eq!(&record.label, &Label::Number((*label).into()));
        }
    }

    #[test]
    fn values_of_any_example_are_as_long_as_told(
        lists in prop::collection::vec((0u8..4, prop::collection::vec(prop_oneof![any::<u8>(), 32u8..127], 0..12)), 1..5),
    ) {
        let keys = ["a", "a/shape", "a/dtype", "b", "c"];
        let feature = |(kind, bytes): &(u8, Vec<u8>)| match kind {
            0 => text(bytes),
            1 => small(&bytes.iter().map(|byte| byte & 7).collect::<Vec<_>>()),
            2 => field(0x12, &field(0x0a, &bytes[..bytes.len() / 4 * 4])),
            _ => field(0x0a, &bytes.chunks(3).flat_map(|part| field(0x0a, part)).collect::<Vec<_>>()),
        };
        let features: Vec<_> = keys.into_iter().zip(lists.iter().map(feature)).collect();
        prop_assert!(both(&example(&features)).1.is_none());
    }

    #[test]
    fn random_examples_are_walked_without_harm(
        data in prop::collection::vec(prop_oneof![any::<u8>(), Just(0x0a), Just(0x12), 0u8..16], 0..60),
    ) {
        prop_assert!(both(&framed(&data)).1.is_none());
    }
}

/// A `SequenceExample`: features of its context, and the steps of each of its feature lists.
fn sequence(context: &[(&str, Vec<u8>)], lists: &[(&str, Vec<Vec<u8>>)]) -> Vec<u8> {
    let entry = |key: &str, value: &[u8]| field(0x0a, &[field(0x0a, key.as_bytes()), field(0x12, value)].concat());
    let context: Vec<u8> = context.iter().flat_map(|(key, feature)| entry(key, feature)).collect();
    let steps = |steps: &[Vec<u8>]| steps.iter().flat_map(|step| field(0x0a, step)).collect::<Vec<u8>>();
    let lists: Vec<u8> = lists.iter().flat_map(|(key, list)| entry(key, &steps(list))).collect();
    framed(&[field(0x0a, &context), field(0x12, &lists)].concat())
}

#[test]
fn feature_lists_of_a_sequence_are_values_by_their_steps() {
    let two = field(0x0a, &[field(0x0a, b"a"), field(0x0a, b"b")].concat());
    let lists = [
        ("ids", vec![small(&[1]), small(&[5])]),
        ("pairs", vec![small(&[1, 2]), small(&[3, 4])]),
        ("real", vec![float(0.5), float(1.5), float(2.0)]),
        ("ragged", vec![small(&[1]), small(&[]), small(&[2, 3])]),
        ("raw", vec![text(b"\0\x01"), text(b"\x02\x03"), text(b"\xff\0")]),
        ("words", vec![text(b"a"), text(b"cat")]),
        ("lists", vec![two, text(b"c")]),
    ];
    let contents = [
        ("ids", "<i8[2]", ""),
        ("lists", "json", "[[\"a\",\"b\"],[\"c\"]]"),
        ("pairs", "<i8[2x2]", ""),
        ("ragged", "json", "[[1],[],[2,3]]"),
        ("raw", "|u1[3x2]", ""),
        ("real", "<f4[3]", ""),
        ("words", "json", "[\"a\",\"cat\"]"),
    ];
    for context in [vec![("label", small(&[1]))], vec![], vec![("image", text(JPEG)), ("label", small(&[1]))]] {
        let (has_image, file) = (context.len() == 2, sequence(&context, &lists));
        let (found, error) = both(&file);
        let (record, _) = &found[0];
        assert!(error.is_none() && record.image.is_ok() == has_image, "{:?}", record.image);
        assert_eq!(record.label, if context.is_empty() { Label::Missing } else { Label::Number(1) });
        for (name, form, content) in contents {
            let other = record.others.iter().find(|other| other.name == name).unwrap();
            // Beside an image, a list that is not an array is text.
            let told = other.form.as_ref().map_or_else(|| "json".to_owned(), ToString::to_string);
            assert_eq!(told, form, "{name}");
            let made = TfRecords.component(&file, other.recipe).unwrap();
            assert_eq!(made.len() as u64, other.bytes, "{name}");
            assert!(content.is_empty() || made == content.as_bytes(), "{name}");
        }
    }
    let raw = both(&sequence(&[], &lists[4..5])).0[0].0.others[0].clone();
    assert!(TfRecords.component(&sequence(&[], &lists[4..5]), raw.recipe).unwrap().ends_with(b"\0\x01\x02\x03\xff\0"));
}

#[test]
fn a_sequence_that_cannot_be_had_whole_is_no_sample() {
    let frames = [("frames", vec![text(JPEG), text(&[JPEG, b"\0"].concat())])];
    let of = |file: &[u8]| both(file).0[0].0.image.clone().unwrap_err();
    let what = of(&sequence(&[("image", text(JPEG))], &frames));
    assert!(what.starts_with("a SequenceExample whose feature_lists \"frames\" has steps of bytes"), "{what}");
    let what = of(&sequence(&[("x", small(&[1]))], &[("x", vec![small(&[1])])]));
    assert!(what.contains("\"x\" is in the context and in the feature_lists"), "{what}");
    let what = of(&sequence(&[], &[("x", vec![small(&[1]), float(1.0)])]));
    assert!(what.contains("steps of several types"), "{what}");
}

#[test]
fn labels_that_no_class_can_be_go_along_beside_the_image() {
    let of = |feature: Vec<u8>, no_labels: bool| {
        let wanted = FieldSelection { no_labels, ..FieldSelection::default() };
        one(&[("image", text(JPEG)), ("label", feature)], &wanted)
    };
    let record = of(float(0.5), false);
    assert_eq!((record.label, record.others[0].name.as_str()), (Label::Missing, "label"));
    assert_eq!(of(text(&300u64.to_le_bytes()), false).label, Label::Number(300));
    assert_eq!(of(text(&7u32.to_le_bytes()), false).label, Label::Number(7));
    assert_eq!(of(text(b"\x01\x02"), false).others.len(), 1);
    assert_eq!((of(small(&[1]), true).label, of(small(&[1]), true).others.len()), (Label::Missing, 1));
}
