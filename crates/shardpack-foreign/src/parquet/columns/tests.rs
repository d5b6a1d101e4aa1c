use std::{fs::File, os::unix::fs::FileExt};

use shardpack_format::formats::foreign::{FieldSelection, Label};

use super::super::{
    Partition,
    tests::{JPEG, Leaf, all, file_of, others, properties, records, written},
    walk, walk_part,
};

const LIST: &str = "message schema {
    required group image { required binary bytes; optional binary path (UTF8); optional int32 width; }
    optional group labels (LIST) { repeated group list { required int64 element; } }
}";

/// Two images with their widths, and these labels.
fn with_lists(values: Vec<i64>, definitions: Vec<i16>, repetitions: Vec<i16>) -> Vec<Vec<Leaf>> {
    let path = Leaf::Bytes(vec![], vec![0, 0], vec![]);
    let width = Leaf::Short(vec![32, 33], vec![1, 1], vec![]);
    let bytes = Leaf::Bytes(vec![JPEG, JPEG], vec![], vec![]);
    vec![vec![bytes, path, width, Leaf::Long(values, definitions, repetitions)]]
}

#[test]
fn further_members_of_an_image_and_lists_of_labels_go_along() {
    let lists = || with_lists(vec![0, 2, 1], vec![2, 2, 2], vec![0, 1, 0]);
    for no_labels in [false, true] {
        let wanted = FieldSelection { no_labels, ..FieldSelection::default() };
        let mut walk = walk(file_of(LIST, lists(), properties().build()), &wanted, &|| Ok(())).unwrap();
        let (found, error) = all(&mut *walk);
        assert!(error.is_none());
        assert_eq!(found[0].0.label, Label::Missing, "none of several is the class");
        let names: Vec<_> = found[0].0.others.iter().map(|other| other.name.as_str()).collect();
        assert_eq!(names, ["labels", "image.width"]);
        assert_eq!(found[0].0.others[1].bytes, 2, "the text of a number");
        assert!(walk.notes().is_empty());
    }
    // One label a row is a label alone.
    let one = with_lists(vec![1, 2], vec![2, 2], vec![0, 0]);
    let found = records(file_of(LIST, one, properties().build()), &FieldSelection::default());
    assert_eq!((&found[1].0.label, found[1].0.others.len()), (&Label::Number(2), 1));
}

#[test]
fn a_row_that_begins_inside_of_another_is_damage() {
    let file = file_of(LIST, with_lists(vec![0, 2, 1], vec![2, 2, 2], vec![0, 1, 0]), properties().build());
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    // Their length, a run of eight packed levels, and these: 0, 1, 0.
    let at = bytes.windows(6).position(|levels| levels == [2, 0, 0, 0, 3, 0b010]).unwrap();
    bytes[at + 5] = 0b001;
    let (found, error) = all(&mut *walk(written(&bytes), &FieldSelection::default(), &|| Ok(())).unwrap());
    assert!(found.is_empty());
    assert!(error.unwrap().to_string().contains("continues a row without a start"));
}

#[test]
fn bytes_of_images_in_lists_are_images_and_fractions_are_no_classes() {
    let schema = "message schema {
        optional group picture (LIST) { repeated group list { required int32 element (INTEGER(8,false)); } }
        required double label;
    }";
    let rows = |labels: Vec<f64>| {
        let bytes: Vec<i32> = [JPEG, JPEG].concat().iter().map(|byte| i32::from(*byte)).collect();
        let starts = (0..bytes.len()).map(|at| i16::from(at % JPEG.len() > 0)).collect();
        let levels = vec![2; bytes.len()];
        vec![vec![Leaf::Short(bytes, levels, starts), Leaf::Real(labels, vec![], vec![])]]
    };
    let found = records(file_of(schema, rows(vec![0.0, 1.0]), properties().build()), &FieldSelection::default());
    assert!(found.iter().all(|(_, image)| image == JPEG));
    assert_eq!((&found[1].0.label, found[1].0.others.len()), (&Label::Number(1), 0));
    let file = file_of(schema, rows(vec![0.25, 1.0]), properties().build());
    let mut walk = walk(file, &FieldSelection::default(), &|| Ok(())).unwrap();
    let (found, _) = all(&mut *walk);
    assert_eq!((&found[1].0.label, others(&found[1].0)), (&Label::Missing, vec![("label", 3)]));
    assert!(walk.notes()[0].contains("no whole numbers"));
}

#[test]
fn what_folders_tell_is_a_label_or_a_component_of_each_row() {
    let schema = "message schema { required binary image; }";
    let file = || file_of(schema, vec![vec![Leaf::Bytes(vec![JPEG], vec![], vec![])]], properties().build());
    let partition = Partition::from_path(std::path::Path::new("set/kind=a/Label=cat/x.parquet"));
    for no_labels in [false, true] {
        let wanted = FieldSelection { no_labels, ..FieldSelection::default() };
        let mut walk = walk_part(file(), partition.clone(), &wanted, &|| Ok(())).unwrap();
        let record = walk.next().unwrap().unwrap();
        assert_eq!((&record.label, &*record.label_name), (&Label::Text(b"cat".to_vec()), "Label"));
        assert_eq!(others(&record), [("kind", 1)]);
        let mut content = Vec::new();
        walk.content(&mut content).unwrap();
        assert_eq!(content, [JPEG, b"a"].concat());
    }
    let wanted = FieldSelection { label: Some("kind".to_owned()), ..FieldSelection::default() };
    let mut walk = walk_part(file(), partition, &wanted, &|| Ok(())).unwrap();
    assert_eq!(walk.next().unwrap().unwrap().label, Label::Text(b"a".to_vec()));
}

#[test]
fn folders_of_parts_are_read_without_what_lies_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, file: File| {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let part = || {
        file_of(
            "message schema { required int64 key; }",
            vec![vec![Leaf::Long(vec![1], vec![], vec![])]],
            properties().build(),
        )
    };
    for path in [
        "hive/kind=b/n=1/x.parquet",
        "hive/kind=a/n=1/x.parquet",
        "dask/part.0.parquet",
        "dask/_metadata",
        "dask/_common_metadata",
        "img/0.parquet",
        "img/1.parquet",
    ] {
        put(path, part());
    }
    put("img/0.tar", written(&[0; 1024]));
    for (name, names, left) in [
        ("hive", ["kind=a/n=1/x.parquet", "kind=b/n=1/x.parquet"].as_slice(), 0),
        ("hive/*/*/*.parquet", &["kind=a/n=1/x.parquet", "kind=b/n=1/x.parquet"], 0),
        ("dask", &["part.0.parquet"], 2),
        ("dask/*", &["part.0.parquet"], 2),
        ("img", &["0.tar", "1.parquet"], 1),
        ("img/*", &["0.tar", "1.parquet"], 1),
    ] {
        let found = crate::files::find(&folder.path().join(name), None).unwrap();
        let base = folder.path().join(name.split('/').next().unwrap());
        let paths: Vec<_> =
            found.shards.iter().map(|shard| shard.path.strip_prefix(&base).unwrap().to_str().unwrap()).collect();
        assert_eq!((paths.as_slice(), found.ignored.values().sum::<u64>()), (names, left), "{name}");
    }
}
