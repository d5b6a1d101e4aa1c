use super::{super::pixels::tests::value, *};

fn columns(list: &[(&str, &str, Option<u32>)], wanted: &FieldSelection) -> Result<Columns> {
    let names: Vec<_> = list.iter().map(|column| column.0).collect();
    let encodings: Vec<_> = list.iter().map(|column| column.1).collect();
    let sizes: Vec<_> = list.iter().map(|column| column.2).collect();
    let json = serde_json::json!({
        "column_encodings": encodings, "column_names": names, "column_sizes": sizes, "format": "mds"
    });
    Columns::parse(json.to_string().as_bytes(), wanted)
}

/// A sample with these values in columns of variable length.
fn sample(values: &[&[u8]]) -> Vec<u8> {
    let lengths = values.iter().flat_map(|value| (value.len() as u32).to_le_bytes());
    lengths.chain(values.concat()).collect()
}

#[test]
fn labels_are_read_from_every_encoding_that_can_say_one() {
    let number = |encoding: &str, bytes: &[u8]| label(encoding, bytes);
    assert_eq!(number("int", &(-2i64).to_le_bytes()), Label::Number(-2));
    assert_eq!(number("uint8", &[200]), Label::Number(200));
    assert_eq!(number("int8", &[200]), Label::Number(-56));
    assert_eq!(number("int16", &[0xfe, 0xff]), Label::Number(-2));
    assert_eq!(number("uint32", &[1, 0, 0, 0x80]), Label::Number(0x8000_0001));
    assert_eq!(number("uint64", &[1, 0, 0, 0, 0, 0, 0, 0]), Label::Number(1));
    assert!(matches!(number("uint64", &[0xff; 8]), Label::Unfit(_)));
    assert!(matches!(number("int", &[1, 2]), Label::Unfit(_)));
    assert_eq!(number("float32", &3f32.to_le_bytes()), Label::Number(3));
    assert_eq!(number("float64", &(-3f64).to_le_bytes()), Label::Number(-3));
    assert_eq!(number("float16", &0x4900u16.to_le_bytes()), Label::Number(10));
    assert_eq!(number("float16", &0xc000u16.to_le_bytes()), Label::Number(-2));
    for (encoding, bytes) in [("float32", &0.5f32.to_le_bytes()[..]), ("float64", &f64::NAN.to_le_bytes())] {
        assert!(matches!(number(encoding, bytes), Label::Unfit(_)), "{encoding}");
    }
    assert!(matches!(number("float16", &0x7c00u16.to_le_bytes()), Label::Unfit(_)));
    assert_eq!(number("str_int", b"-17"), Label::Number(-17));
    assert_eq!(number("str_float", b"4.0"), Label::Number(4));
    assert_eq!(number("json", b"4"), Label::Number(4));
    assert_eq!(number("json", b"\"cat\""), Label::Text(b"cat".to_vec()));
    assert_eq!(number("str", b"cat"), Label::Text(b"cat".to_vec()));
    assert!(matches!(number("pkl", b"\x80\x04N."), Label::Unfit(_)));
    assert!(matches!(number("ndarray:int64:1", &[0; 8]), Label::Unfit(_)));
}

#[test]
fn columns_are_found_by_encoding_name_and_content() {
    let wanted = FieldSelection::default();
    let jpeg = b"\xff\xd8\xff\xe0";
    let list = [("a", "bytes", None), ("b", "bytes", None), ("key", "str", None), ("Class_ID", "uint8", Some(1))];
    let mut found = columns(&list, &wanted).unwrap();
    let bytes = [sample(&[b"no image", jpeg, b"x/1.jpg"]), vec![9]].concat();
    let record = found.record(&bytes, 100, 3);
    let image = record.image.unwrap();
    assert_eq!((image.name.as_str(), image.offset, image.bytes), ("b", 100 + 12 + 8, 4));
    assert_eq!((record.label, record.labels), (Label::Number(9), 1));
    assert_eq!(record.filename.as_deref(), Some(&b"x/1.jpg"[..]));
    assert_eq!((record.key, record.key_is_unique), (b"3".to_vec(), false));
    assert_eq!(
        record.others,
        [Other { name: "a".to_owned(), bytes: 8, offset: Some(100 + 12), recipe: 0, form: None }]
    );
    let record = found.record(&bytes[..bytes.len() - 1], 100, 3);
    assert!(record.image.unwrap_err().contains("\"Class_ID\" reaches beyond the 31 bytes"));
    assert!(found.record(&[&bytes[..], b"x"].concat(), 0, 0).image.unwrap_err().contains("end at byte 32"));

    // An integer column with another name is no label, even if it is the only integer column.
    let other = list.map(|(name, encoding, size)| (if name == "Class_ID" { "width" } else { name }, encoding, size));
    let record = columns(&other, &wanted).unwrap().record(&bytes, 100, 3);
    assert_eq!((record.label, record.others.last().map(|other| other.name.as_str())), (Label::Missing, Some("width")));

    let wanted = FieldSelection { image: Some("a".to_owned()), label: Some("key".to_owned()), ..wanted };
    let record = columns(&list, &wanted).unwrap().record(&bytes, 0, 0);
    assert_eq!(record.image.unwrap().bytes, 8);
    assert_eq!((record.label, record.filename), (Label::Text(b"x/1.jpg".to_vec()), None));
    let error =
        columns(&list, &FieldSelection { image: Some("c".to_owned()), ..FieldSelection::default() }).err().unwrap();
    assert!(error.to_string().contains("a, b, key, Class_ID"), "{error}");
}

#[test]
fn an_image_is_taken_by_its_name_and_not_guessed_from_several() {
    let of = |list: [(&str, &str); 2]| {
        let list = list.map(|(name, encoding)| (name, encoding, None));
        columns(&list, &FieldSelection::default()).map(|columns| columns.image).map_err(|error| error.to_string())
    };
    assert_eq!(of([("depth", "png"), ("image", "jpeg")]), Ok(Some(1)));
    assert_eq!(of([("image", "pil"), ("thumb", "jpeg")]), Ok(Some(0)));
    assert_eq!(of([("image", "bytes"), ("thumb", "jpeg")]), Ok(Some(0)));
    assert_eq!(of([("image", "str"), ("thumb", "jpeg")]), Ok(Some(1)));
    assert_eq!(of([("image", "int"), ("thumb", "jpeg")]), Ok(Some(1)));
    assert!(of([("left", "jpeg"), ("right", "png")]).unwrap_err().contains("\"left\" and \"right\" both hold"));
    assert!(of([("image", "ndarray"), ("thumb", "jpeg")]).unwrap_err().contains("\"ndarray\" is no image"));
}

#[test]
fn pixels_are_found_and_their_file_is_promised() {
    let pixels = value(2, 1, "RGB", b"abcdef");
    let list = [&[0, 0, 0, 0, 1, 0, 0, 0][..], &(pixels.len() as u32).to_le_bytes(), &pixels].concat();
    for (encoding, value, inner) in [("pil", &pixels, 0), ("list[pil]", &list, 12)] {
        let columns = columns(&[("key", "str", None), ("x", encoding, None)], &FieldSelection::default());
        let image = columns.unwrap().record(&sample(&[b"k", value]), 100, 0).image.unwrap();
        let start = 100 + 8 + 1 + inner;
        assert_eq!((image.offset, image.fetch.clone()), (start, start..start + pixels.len() as u64), "{encoding}");
        assert_eq!((image.in_parts, image.recipe, image.bytes), (true, OF_PIXELS, 11 + 6), "{encoding}");
    }
}

#[test]
fn lists_of_one_image_give_it_and_what_is_no_file_says_so() {
    let word = |number: u32| number.to_le_bytes();
    let one = [&word(1)[..], &word(3), b"abc"].concat();
    let list = [&word(0)[..], &one].concat();
    let two = [&word(2)[..], &word(1), &word(1), b"ab"].concat();
    let two_behind = [&word(0)[..], &two].concat();
    let cases: [(&str, &[u8], Result<u64, &str>); 10] = [
        ("jpeg_array", &one, Ok(8)),
        ("list[jpeg]", &list, Ok(12)),
        ("list[png]", &list[..list.len() - 1], Err("beyond its column")),
        ("list[png]", b"", Err("ends early")),
        ("jpegarray", &two, Err("2 images")),
        ("pil", &list, Err("mode \"abc\"")),
        ("list[pil]", &list, Err("raw pixels in 3 bytes")),
        ("list[pil]", &two_behind, Err("2 images")),
        ("pkl", b"\x80\x04N.", Err("never run")),
        ("str", b"text", Err("no image")),
    ];
    for (encoding, value, expected) in cases {
        let wanted = FieldSelection { image: Some("image".to_owned()), ..FieldSelection::default() };
        let mut columns = columns(&[("image", encoding, None)], &wanted).unwrap();
        let found = columns.record(&sample(&[value]), 0, 0).image;
        match expected {
            Ok(offset) => assert_eq!(found.unwrap().fetch, 4 + offset..4 + offset + 3, "{encoding}"),
            Err(reason) => assert!(found.unwrap_err().contains(reason), "{encoding}"),
        }
    }
}

#[test]
fn a_config_that_contradicts_itself_is_refused() {
    let wanted = FieldSelection::default();
    for config in [
        &b"{\"format\": \"mds\"}"[..],
        br#"{"column_encodings": ["int"], "column_names": [], "column_sizes": [], "format": "mds"}"#,
        br#"{"column_encodings": [], "column_names": [], "column_sizes": [], "format": "csv"}"#,
        br#"{"column_encodings": [1], "column_names": [], "column_sizes": [], "format": "mds"}"#,
        br#"{"column_encodings": ["int"], "column_names": ["a"], "column_sizes": [0], "format": "mds"}"#,
        br#"{"column_encodings"#,
    ] {
        assert!(Columns::parse(config, &wanted).is_err(), "{}", String::from_utf8_lossy(config));
    }
}

#[test]
fn labels_that_no_class_can_be_and_those_that_nobody_wants_are_columns_as_others_are() {
    let list = [("image", "jpeg", None), ("label", "float64", Some(8)), ("class_name", "str", None)];
    let of = |label: f64, no_labels: bool| {
        let mut found = columns(&list, &FieldSelection { no_labels, ..FieldSelection::default() }).unwrap();
        let (image, word) = (b"\xff\xd8\xff\xe0", b"cat");
        let sizes = [image.len() as u32, word.len() as u32].map(u32::to_le_bytes).concat();
        let record = found.record(&[&sizes[..], image, &label.to_le_bytes(), word].concat(), 0, 0);
        let names: Vec<_> = record.others.iter().map(|other| other.name.clone()).collect();
        (record.label, record.class.is_some(), names.join(" "))
    };
    assert_eq!(of(2.0, false), (Label::Number(2), true, String::new()));
    assert_eq!(of(0.5, false), (Label::Missing, true, "label".to_owned()));
    assert_eq!(of(2.0, true), (Label::Missing, false, "label class_name".to_owned()));
}
