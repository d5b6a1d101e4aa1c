use std::fs::File;
use std::io::{Read, Seek};

use parquet::{
    basic::Encoding,
    file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData},
};
use shardpack_format::formats::foreign::{Label, Record};

use super::{
    super::{
        tests::{Leaf, all, file_of, properties, written},
        walk,
    },
    *,
};

const LIST: &str = "message schema {
    optional group x (LIST) { repeated group list { optional int32 element; } }
    required int32 y;
}";

/// Two rows of `LIST`: these elements, and none.
fn rows_of(elements: &[Option<i32>]) -> Vec<Leaf> {
    let values = elements.iter().flatten().copied().collect();
    let definitions = elements.iter().map(|element| 2 + i16::from(element.is_some())).chain([1]).collect();
    let repetitions = (0..elements.len()).map(|at| i16::from(at > 0)).chain([0]).collect();
    vec![Leaf::Short(values, definitions, repetitions), Leaf::Short(vec![0, 1], vec![], vec![])]
}

fn forms(record: &Record) -> Vec<String> {
    record.others.iter().filter_map(|other| Some(format!("{} {}", other.name, other.form.as_ref()?))).collect()
}

fn walked(file: File) -> (Vec<Record>, Option<Error>) {
    let (found, error) = all(&mut *walk(file, &FieldSelection::default(), &|| Ok(())).unwrap());
    (found.into_iter().map(|(record, _)| record).collect(), error)
}

#[test]
fn lists_are_arrays_where_none_has_a_null() {
    let file = |elements: &[Option<i32>]| file_of(LIST, vec![rows_of(elements)], properties().build());
    let (found, error) = walked(file(&[Some(1), Some(2)]));
    assert!(error.is_none());
    assert_eq!([forms(&found[0]), forms(&found[1])], [["x <i4[2]", "y <i4[]"], ["x <i4[0]", "y <i4[]"]]);
    assert_eq!((found[1].label.clone(), found[1].label_name.as_str()), (Label::Number(1), "y"));
    let (found, _) = walked(file(&[Some(1), None]));
    assert_eq!([forms(&found[0]), forms(&found[1])], [["x json", "y <i4[]"], ["x json", "y <i4[]"]]);

    // Contents lie end to end.
    let mut walk = walk(file(&[Some(1), Some(-2)]), &FieldSelection::default(), &|| Ok(())).unwrap();
    let mut content = Vec::new();
    let record = walk.next().unwrap().unwrap();
    walk.content(&mut content).unwrap();
    assert_eq!(content, [[1, 0, 0, 0], [0xfe, 0xff, 0xff, 0xff], [0; 4]].concat());
    assert_eq!((record.range, record.others[1].offset, record.others[0].bytes), (0..12, Some(8), 128 + 8));
    assert_eq!(walk.next().unwrap().unwrap().range, 12..16);
}

#[test]
fn who_stops_the_look_at_lists_stops_the_walk_beside_images_too() {
    let stop = || Err(Error::new(ErrorKind::Interrupted, "interrupted"));
    let file = || file_of(LIST, vec![rows_of(&[Some(1), None])], properties().build());
    let stopped = |wanted: &FieldSelection| walk(file(), wanted, &stop).err().map(|error| error.kind());
    assert_eq!(stopped(&FieldSelection::default()), Some(ErrorKind::Interrupted));
    let footer = Footer::read(&file().into()).unwrap();
    let root = footer.metadata.file_metadata().schema_descr().root_schema().get_fields()[0].clone();
    let mut leaves = Component::most_leaves();
    let lists =
        |leaves: &mut usize| Component::from_column(&footer, &root, Rows::Images(&FieldSelection::default()), leaves);
    let beside = Values::beside(&Arc::new(file().into()), &footer, lists(&mut leaves), &stop).err();
    assert_eq!(beside.map(|error| error.kind()), Some(ErrorKind::Interrupted));
    assert!(Values::beside(&Arc::new(file().into()), &footer, lists(&mut leaves), &|| Ok(())).is_ok());
}

#[test]
fn axes_are_those_that_all_lists_have() {
    let lists = [Levels { definition: 2, repetition: 1 }, Levels { definition: 4, repetition: 2 }].map(|levels| levels);
    let of = |levels: &[(i16, i16)]| {
        let (definitions, repetitions): (Vec<_>, Vec<_>) = levels.iter().copied().unzip();
        shape(&lists, &definitions, &repetitions, 5)
    };
    assert_eq!(of(&[(5, 0), (5, 2), (5, 1), (5, 2)]), Some(vec![2, 2]));
    assert_eq!(of(&[(5, 0), (5, 2), (5, 2)]), Some(vec![1, 3]));
    assert_eq!(of(&[(1, 0)]), Some(vec![0, 0]));
    assert_eq!(of(&[(3, 0), (3, 1)]), Some(vec![2, 0]));
    for (name, levels) in [
        ("ragged", &[(5, 0), (5, 1), (5, 2)][..]),
        ("a null", &[(5, 0), (4, 2)]),
        ("an inner list that is null", &[(5, 0), (2, 1)]),
        ("one that is empty", &[(5, 0), (3, 1)]),
        ("no list", &[(0, 0)]),
        ("nothing", &[]),
    ] {
        assert_eq!(of(levels), None, "{name}");
    }
}

#[test]
fn numbers_beyond_their_type_are_errors() {
    let of = |kind: &str, value: i32| {
        let schema = format!("message schema {{ required int32 a ({kind}); }}");
        let file = file_of(&schema, vec![vec![Leaf::Short(vec![value], vec![], vec![])]], properties().build());
        let (found, error) = walked(file);
        found.first().map(|record| forms(record).concat()).ok_or_else(|| error.unwrap().to_string())
    };
    for (kind, value, form) in [
        ("INTEGER(8, true)", -128, "a |i1[]"),
        ("INTEGER(8, false)", 255, "a |u1[]"),
        ("INTEGER(16, true)", 32767, "a <i2[]"),
        ("INTEGER(16, false)", 65535, "a <u2[]"),
        ("INTEGER(32, true)", i32::MIN, "a <i4[]"),
        ("INTEGER(32, false)", -1, "a <u4[]"),
    ] {
        assert_eq!(of(kind, value).as_deref(), Ok(form));
    }
    for (kind, value) in [("INTEGER(8, true)", 128), ("INTEGER(8, false)", -1), ("INTEGER(16, false)", 65536)] {
        let error = of(kind, value).unwrap_err();
        assert!(error.contains(&format!("row group 0, column \"a\": {value} is no number of")), "{error}");
    }
}

/// The file whose footer claims so many values in its first column.
fn claiming(file: File, values: i64) -> File {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let claim = |group: &RowGroupMetaData| {
        let mut columns = group.columns().to_vec();
        columns[0] = columns[0].clone().into_builder().set_num_values(values).build().unwrap();
        group.clone().into_builder().set_column_metadata(columns).build().unwrap()
    };
    let groups = metadata.row_groups().iter().map(claim).collect();
    let metadata = metadata.clone().into_builder().set_row_groups(groups).build();
    let mut bytes = Vec::new();
    (&file).rewind().unwrap();
    (&file).read_to_end(&mut bytes).unwrap();
    let footer = u32::from_le_bytes(*bytes[..bytes.len() - 4].last_chunk().unwrap()) as usize;
    bytes.truncate(bytes.len() - 8 - footer);
    ParquetMetaDataWriter::new(&mut bytes, &metadata).finish().unwrap();
    written(&bytes)
}

#[test]
fn claims_of_too_many_values_are_errors() {
    let file = || file_of(LIST, vec![rows_of(&[Some(1), Some(2)])], properties().build());
    // Only those that are there are read.
    assert_eq!(walked(claiming(file(), 1 << 60)).0.len(), 2);
    for values in [-1, i64::MIN] {
        let error = walked(claiming(file(), values)).1.unwrap().to_string();
        assert!(error.contains(&format!("column \"x.list.element\": {values} values")), "{error}");
    }
    let one = "message schema { required int32 a; }";
    let file = file_of(one, vec![vec![Leaf::Short(vec![1], vec![], vec![])]], properties().build());
    let error = walked(claiming(file, 1 << 60)).1.unwrap().to_string();
    assert!(error.contains("column \"a\": 1152921504606846976 values, expected 1"), "{error}");
}

#[test]
fn a_list_of_more_values_than_are_read_is_an_error() {
    // Nulls take no room in the file.
    let count = (1 << 24) + 1;
    let list = Leaf::Short(vec![], vec![2; count], [vec![0], vec![1; count - 1]].concat());
    let leaves = vec![list, Leaf::Short(vec![0], vec![], vec![])];
    let (found, error) = walked(file_of(LIST, vec![leaves], properties().build()));
    let error = error.unwrap().to_string();
    assert!(found.is_empty() && error.contains("a list of more than 16777216 values"), "{error}");
}

#[test]
fn damaged_values_are_errors_or_other_values_but_no_panic() {
    let elements: Vec<_> = (0..20).map(Some).collect();
    for encoding in [Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED] {
        let properties = properties().set_dictionary_enabled(false).set_encoding(encoding);
        let mut file = file_of(LIST, vec![rows_of(&elements), rows_of(&[None])], properties.build());
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        for (place, mask) in (0..bytes.len()).flat_map(|place| [0x01, 0x80, 0xff].map(|mask| (place, mask))) {
            let mut damaged = bytes.clone();
            damaged[place] ^= mask;
            if let Ok(mut walk) = walk(written(&damaged), &FieldSelection::default(), &|| Ok(())) {
                let mut content = Vec::new();
                while let Ok(Some(_)) = walk.next() {
                    walk.content(&mut content).unwrap();
                }
            }
        }
    }
}
