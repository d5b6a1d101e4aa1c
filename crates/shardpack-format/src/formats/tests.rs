use super::*;
use crate::{
    component::Type,
    hash,
    index::{self, Index, Summary},
    sample::{Detail, Forms, Row},
};

/// The record of a sample with this payload in `format`, and its row, as the first of its shard.
pub(crate) fn record(
    format: &dyn Format,
    sample: &Sample<'_>,
    payload: &[u8],
    image: Header,
) -> Result<(Vec<u8>, Row)> {
    let (layout, growth) = (format.layout(sample)?, format.growth(payload));
    // Dirt: every byte but the image must be written.
    let mut record = vec![0xaa; (layout.record_bytes + growth) as usize];
    record[layout.components[0].offset as usize..][..payload.len()].copy_from_slice(payload);
    format.frame(sample, &image, &mut record)?;
    let row = row(format, sample, &layout, &record, payload);
    Ok((record, Row { image, in_parts: growth > 0, ..row }))
}

/// The row of a record that is the first of its shard and holds `image` in one piece.
pub(crate) fn row(format: &dyn Format, sample: &Sample<'_>, layout: &Layout, record: &[u8], image: &[u8]) -> Row {
    Row {
        key: sample.key.into(),
        path: sample.path.into(),
        label: sample.label,
        offset: 0,
        record_bytes: record.len() as u32,
        components: layout.components[..format.components().len()].to_vec(),
        content_hash: hash::content(image),
        details: Vec::new(),
        frame_hash: 0,
        image: Header::parse(image),
        in_parts: false,
    }
}

#[test]
fn what_a_source_has_of_its_own_lies_where_the_layout_says() {
    let components =
        [Component::text(), Component::files("mask=*_mask.png").unwrap(), Component::files("txt").unwrap()];
    for entry in ALL {
        let choice =
            Choice { extension: Some("jpg".into()), components: components.to_vec(), ..Choice::new(entry.name) };
        let format = match open(&choice) {
            Ok(format) => format,
            Err(error) => {
                assert!(!entry.has_components && error.to_string().contains("json"), "{error}");
                continue;
            }
        };
        let (texts, image) = ([b"{}".as_slice(), b"", b"caption"], b"\xff\xd8\xff some image");
        let sample = Sample {
            key: "00000042",
            label: Some(7),
            class: b"c",
            path: b"c/1.jpg",
            payload_bytes: image.len() as u32,
            components: &[Some(2), None, Some(7)],
            forms: Default::default(),
        };
        let layout = format.layout(&sample).unwrap();
        let mut record = vec![0xaa; layout.record_bytes as usize];
        let mut put = |extent: Extent, bytes: &[u8]| {
            record[extent.offset as usize..][..extent.bytes as usize].copy_from_slice(bytes);
        };
        put(layout.components[0], image);
        let first = format.components().len() - components.len();
        for (extent, text) in layout.components[first..].iter().zip(texts).filter(|(e, _)| **e != Extent::ABSENT) {
            put(*extent, text);
        }
        format.frame(&sample, &Header::parse(image), &mut record).unwrap();
        let row = row(format.as_ref(), &sample, &layout, &record, image);
        let index = index(format.as_ref(), std::slice::from_ref(&row));
        format.check(&index.row(0).unwrap(), &record).unwrap();
        let mut elsewhere = row.clone();
        elsewhere.components[first + 2].offset -= 1;
        let moved = self::index(format.as_ref(), &[elsewhere]);
        assert!(format.check(&moved.row(0).unwrap(), &record).is_err(), "{}", entry.name);
        // The settings in a manifest restore the same choice.
        let mut again = Choice { settings: choice.stored(format.as_ref()), components: Vec::new(), ..choice.clone() };
        again.take_stored().unwrap();
        assert_eq!((&again.components, again.settings), (&choice.components, format.settings()), "{}", entry.name);
    }
    let clash = Choice {
        extension: Some("png".into()),
        components: vec![Component::files("png").unwrap()],
        ..Choice::new("tar")
    };
    assert!(open(&clash).is_err());
    assert!(open(&Choice { extension: None, ..clash }).is_err());
}

#[test]
fn a_payload_that_is_no_image_is_called_what_it_is_and_nothing_is_said_of_pixels() {
    // A bitmap may begin with the same bytes.
    let payload = b"P5 is a word in this text";
    for entry in ALL {
        let choice = Choice {
            extension: Some("txt".into()),
            payload: Some(Component::files("txt").unwrap()),
            files: vec!["txt".into(), "*_x.md".into()],
            fractions: Some("val=0.1;seed=0".into()),
            split_folders: Some("a/{split}".into()),
            label_pattern: Some("{label}_{n}".into()),
            list_clues: Some("{}".into()),
            component_classes: [("box_labels.npy".to_owned(), vec!["a, \"b\"".to_owned(), "é".to_owned()])].into(),
            ..Choice::new(entry.name)
        };
        let format = open(&choice).unwrap();
        assert_eq!(format.components()[0], "txt", "{}", entry.name);
        let header = choice.header_of(payload);
        assert_eq!((header, Header::parse(payload).kind), (Header::NONE, Kind::Pnm));
        assert_eq!(choice.kind_of(&header, b"c/1.TXT"), "txt");
        let (bytes, label) = (payload.len() as u32, Some(7));
        let sample = Sample {
            key: "00000042",
            label,
            class: b"c",
            path: b"c/1.TXT",
            payload_bytes: bytes,
            components: &[],
            forms: Forms::default(),
        };
        let (bytes, row) = record(format.as_ref(), &sample, payload, header).unwrap();
        format.check(&index(format.as_ref(), &[row]).row(0).unwrap(), &bytes).unwrap();
        assert!(!bytes.windows(5).any(|window| window == b"image"), "{}", entry.name);
        let mut again = Choice {
            settings: choice.stored(format.as_ref()),
            payload: None,
            files: Vec::new(),
            fractions: None,
            split_folders: None,
            label_pattern: None,
            list_clues: None,
            component_classes: BTreeMap::new(),
            ..choice.clone()
        };
        again.take_stored().unwrap();
        assert_eq!((&again.component_classes, &again.list_clues), (&choice.component_classes, &choice.list_clues));
        assert_eq!(
            (&again.payload, &again.files, &again.fractions, &again.split_folders, &again.label_pattern),
            (&choice.payload, &choice.files, &choice.fractions, &choice.split_folders, &choice.label_pattern)
        );
        assert_eq!(again.settings, format.settings(), "{}", entry.name);
        assert_eq!(open(&again).unwrap().components(), format.components());
    }
}

/// A content for `form`.
fn content(form: &Form) -> Vec<u8> {
    match form {
        Form::Bytes => b"\x00any\xff".to_vec(),
        Form::Text => "text \u{e9}".into(),
        Form::Json => b"{\"a\":[1,null]}".to_vec(),
        Form::Int => b"-7".to_vec(),
        Form::Float => b"0.1".to_vec(),
        Form::Array { .. } => {
            let items = (0..form.items_bytes().unwrap()).map(|n| n as u8);
            form.head().into_iter().chain(items).collect()
        }
    }
}

/// The record of a sample of values without an image, and its row: the payload first.
fn record_of_values(format: &dyn Format, forms: &[Form], there: &[bool]) -> (Vec<u8>, Row) {
    let contents: Vec<_> = forms.iter().map(content).collect();
    let lengths: Vec<_> =
        contents[1..].iter().zip(there).map(|(content, there)| there.then_some(content.len() as u32)).collect();
    let numbers: Vec<u32> = (1..forms.len() as u32).collect();
    let sample = Sample {
        key: "00000042",
        label: Some(7),
        class: b"c",
        path: b"c/1",
        payload_bytes: contents[0].len() as u32,
        components: &lengths,
        forms: Forms { all: forms, payload: 0, components: &numbers },
    };
    let layout = format.layout(&sample).unwrap();
    let mut record = vec![0xaa; layout.record_bytes as usize];
    let first = format.components().len() - (forms.len() - 1);
    let mut details: Vec<_> = layout.components.iter().map(|at| Detail::plain(at.bytes)).collect();
    details.truncate(format.components().len());
    for (number, content) in contents.iter().enumerate() {
        // `cls` comes after the payload.
        let component = if number == 0 { 0 } else { first + number - 1 };
        let extent = layout.components[component];
        assert_eq!(extent != Extent::ABSENT, number == 0 || there[number - 1], "{}: {number}", format.name());
        if extent != Extent::ABSENT {
            let stored = &mut record[extent.offset as usize..][..extent.bytes as usize];
            format.encode(component, &forms[number], content, stored).unwrap();
            assert_eq!(format.decode(component, &forms[number], stored).unwrap(), &content[..]);
            details[component] = Detail {
                form: number as u32,
                content_bytes: content.len() as u32,
                hash: Some(hash::component(stored)),
            };
        }
    }
    format.frame(&sample, &Header::parse(b""), &mut record).unwrap();
    let payload = layout.components[0].slice(&record).unwrap().to_vec();
    let row = row(format, &sample, &layout, &record, &payload);
    (record, Row { details, ..row })
}

#[test]
fn values_of_all_forms_come_back_from_all_formats() {
    let forms: Vec<Form> =
        ["<f4[2x3]", "<f4[1x3]", "<i8[2]", "<i8[0]", "<f8[]", "|b1[3]", "<c16[1]", "<U2[2]", "int", "float", "json"]
            .iter()
            .chain(&["text", "bytes", "<f4[2]", ">f4[2]"])
            .map(|form| form.parse().unwrap())
            .collect();
    let components: Vec<_> =
        forms.iter().enumerate().map(|(number, form)| Component::value(&format!("x{number}"), form).unwrap()).collect();
    for entry in ALL.iter().filter(|entry| entry.has_components) {
        for is_optional in [false, true] {
            let typed = |one: &Component| {
                let kind = one.kind().unwrap().clone();
                one.clone().with_kind(Type { is_optional, ..kind })
            };
            let components: Vec<_> = components[1..].iter().map(typed).collect();
            let payload = Some(Component::value("x0", &forms[0]).unwrap());
            let extension = Some("x0.npy".to_owned());
            let choice = Choice { payload, extension, components, ..Choice::new(entry.name) };
            let format = open(&choice).unwrap();
            let there: Vec<_> = (1..forms.len()).map(|number| !is_optional || number % 2 == 0).collect();
            let (record, row) = record_of_values(format.as_ref(), &forms, &there);
            let components = format.components().to_vec();
            let summary = Summary {
                components,
                forms: forms.clone(),
                content_bytes: u64::MAX,
                shard_bytes: 0,
                shard_blake3: [0; 32],
            };
            let index = Index::open(index::write(&summary, &[row]).unwrap()).unwrap();
            let row = index.row(0).unwrap();
            format.check(&row, &record).unwrap();
            assert_eq!(row.form(0).unwrap(), &forms[0]);
            for (number, extent, told) in row.hashed() {
                assert_eq!(hash::component(extent.slice(&record).unwrap()), told, "{number}");
            }
            let mut again = Choice {
                settings: choice.stored(format.as_ref()),
                components: Vec::new(),
                payload: None,
                ..choice.clone()
            };
            again.take_stored().unwrap();
            assert_eq!((&again.components, &again.payload), (&choice.components, &choice.payload), "{}", entry.name);
        }
    }
}

/// An index of these rows without information about the shard.
pub(crate) fn index(format: &dyn Format, rows: &[Row]) -> Index<Vec<u8>> {
    let components = format.components().to_vec();
    let summary =
        Summary { components, forms: Vec::new(), content_bytes: u64::MAX, shard_bytes: 0, shard_blake3: [0; 32] };
    Index::open(index::write(&summary, rows).unwrap()).unwrap()
}
