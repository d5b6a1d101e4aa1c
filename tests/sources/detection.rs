//! Boxes of objects are no class of an image: they become a component, for shards of every format.

use std::{fs, path::Path};

use shardpack_testing::{
    Bench, jpeg,
    lists::{self, verify},
    run,
    shards::{Feature, classes, convert, manifest, rec_record, samples, tf_record},
};

/// The bytes of a component of each sample, sorted by the length of the longest component, which is the image.
fn files(dst: &Path, component: &str) -> Vec<Option<Vec<u8>>> {
    let mut all: Vec<_> = lists::samples(dst).into_values().flatten().collect();
    all.sort_by_key(|sample| sample.2.values().map(Vec::len).max());
    all.iter().map(|sample| sample.2.get(component).cloned()).collect()
}

/// The values of a component that is an int64 array.
fn numbers(dst: &Path, component: &str) -> Vec<Option<Vec<i64>>> {
    let item = |item: &[u8]| i64::from_le_bytes(item.try_into().unwrap());
    let items = |file: Vec<u8>| file[128..].chunks_exact(8).map(item).collect();
    files(dst, component).into_iter().map(|file| file.map(items)).collect()
}

/// The values of a component that is a float32 array.
fn floats(dst: &Path, component: &str) -> Vec<Option<Vec<f32>>> {
    let item = |item: &[u8]| f32::from_le_bytes(item.try_into().unwrap());
    let items = |file: Vec<u8>| file[128..].chunks_exact(4).map(item).collect();
    files(dst, component).into_iter().map(|file| file.map(items)).collect()
}

#[test]
fn boxes_of_im2rec_are_a_component_and_no_label() {
    let bench = Bench::new();
    let labels: [&[f32]; 3] = [
        &[2.0, 5.0, 3.0, 0.1, 0.2, 0.5, 1.0],
        &[4.0, 6.0, 640.0, 480.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.0, 7.0, 0.5, 0.5, 1.0, 1.0, 1.0],
        &[2.0, 5.0, -1.0, -1.0, -1.0, -1.0, -1.0],
    ];
    let records = labels.iter().zip(0..).flat_map(|(labels, id)| rec_record(id, labels, &jpeg(id, 6000 + id as usize)));
    let file = bench.at("x.rec");
    fs::write(&file, records.collect::<Vec<_>>()).unwrap();
    let ran = convert(&[&file], &bench.dst(), &[]).code(0);
    ran.says("components boxes").says("3 samples with several labels: labels are a component, and no class");
    assert_eq!(classes(&bench.dst()), Vec::<String>::new());
    assert_eq!(floats(&bench.dst(), "boxes.npy"), labels.map(|labels| Some(labels.to_vec())));
    verify(&bench.dst(), &file, &[]);
    run(&["verify", file.to_str().unwrap()]).code(0);
    // The user may still choose one of the numbers as the label.
    let dst = bench.at("second");
    convert(&[&file], &dst, &["--quiet", "--label-index", "1"]).code(0);
    let mut found: Vec<_> = samples(&dst).into_iter().map(|(label, _)| label).collect();
    found.sort_unstable();
    assert_eq!(found, [5, 5, 6]);
}

#[test]
fn several_labels_that_are_no_boxes_are_a_component_and_no_class() {
    let bench = Bench::new();
    // Too few numbers for an object, a number that is no class, and lengths that do not fit.
    let labels: [&[f32]; 4] =
        [&[2.0, 5.0], &[2.0, 5.0, 0.5, 0.1, 0.2, 0.5, 1.0], &[1.0, 5.0, 3.0], &[2.0, 5.0, 1.0, 1.0]];
    let records = labels.iter().zip(0..).flat_map(|(labels, id)| rec_record(id, labels, &jpeg(id, 6000 + id as usize)));
    let file = bench.at("x.rec");
    fs::write(&file, records.collect::<Vec<_>>()).unwrap();
    let ran = convert(&[&file], &bench.dst(), &[]).code(0).says("components labels");
    ran.says("4 samples with several labels: labels are a component, and no class");
    assert_eq!(classes(&bench.dst()), Vec::<String>::new());
    let first = bench.at("first");
    convert(&[&file], &first, &["--label-index", "0", "--quiet"]).code(0);
    let mut found: Vec<_> = samples(&first).into_iter().map(|(label, image)| (image.len(), label)).collect();
    found.sort_unstable();
    assert_eq!(found, [(6000, 2), (6001, 2), (6002, 1), (6003, 2)]);
    assert_eq!(floats(&bench.dst(), "labels.npy"), labels.map(|labels| Some(labels.to_vec())));
    // A format without a place for the component counts it as left out.
    let dst = bench.at("rec");
    let ran = convert(&[&file], &dst, &["--format", "recordio"]).code(2).clean_error();
    ran.says("RecordIO has a label in every record");
    convert(&[&file], &dst, &["--format", "recordio", "--label-index", "0"]).code(0).says("left out: labels");
    assert_eq!(manifest(&dst).ignored_files["component labels"], 4);
}

#[test]
fn labels_of_objects_in_tfrecord_are_no_class_of_the_image() {
    use Feature::{Bytes, Ints};
    let bench = Bench::new();
    let record = |id: u64, labels: &[i64], boxes: &[i64], key: &str| {
        let image = jpeg(id, 6000 + id as usize);
        tf_record(&[("image/encoded", Bytes(&image)), (key, Ints(labels)), ("image/object/bbox/xmin", Ints(boxes))])
    };
    for (key, component) in [
        ("label", "labels.npy"),
        ("image/object/class/label", "image_object_class_label.npy"),
        ("image/class/label", "image_class_label.npy"),
    ] {
        let file = bench.at("x.tfrecord");
        fs::write(&file, [record(1, &[3, 7], &[1, 2], key), record(2, &[7, 7, 1], &[1, 2, 3], key)].concat()).unwrap();
        let what = if key.contains("object") { "no record has a label" } else { "2 samples with several labels" };
        convert(&[&file], &bench.dst(), &["--force"]).code(0).says(what);
        assert_eq!(classes(&bench.dst()), Vec::<String>::new(), "{key}");
        assert_eq!(numbers(&bench.dst(), component), [Some(vec![3, 7]), Some(vec![7, 7, 1])], "{key}");
        // The same dataset, read as foreign shards, gives the same result.
        let again = bench.at("again");
        convert(&[&bench.dst()], &again, &["--force", "--from", "webdataset", "--quiet"]).code(0);
        assert_eq!(classes(&again), Vec::<String>::new(), "{key}");
        // The user may choose this feature as the label.
        convert(&[&file], &bench.at("said"), &["--quiet", "--force", "--label-feature", key]).code(0);
        assert_eq!(samples(&bench.at("said")).iter().map(|(label, _)| *label).max(), Some(7), "{key}");
    }
}

#[test]
fn several_labels_in_tfrecord_are_a_component_for_all_if_one_record_has_them() {
    use Feature::{Bytes, Ints};
    let bench = Bench::new();
    let file = bench.at("x.tfrecord");
    let (image, one) = (jpeg(1, 6000), jpeg(2, 6001));
    let record = |image: &[u8], labels: &[i64]| tf_record(&[("image", Bytes(image)), ("labels", Ints(labels))]);
    fs::write(&file, [record(&image, &[3, 7]), record(&one, &[5])].concat()).unwrap();
    let ran = convert(&[&file], &bench.dst(), &[]).code(0).says("components labels");
    ran.says("1 sample with several labels: labels are a component, and no class");
    assert_eq!(classes(&bench.dst()), Vec::<String>::new());
    assert_eq!(numbers(&bench.dst(), "labels.npy"), [Some(vec![3, 7]), Some(vec![5])]);
    let first = bench.at("first");
    convert(&[&file], &first, &["--label-index", "0"]).code(0);
    assert_eq!(samples(&first).iter().map(|(label, _)| *label).max(), Some(5));
}

#[test]
fn fractions_in_recordio_are_a_component_for_all_and_so_are_labels_that_are_not_wanted() {
    let bench = Bench::new();
    let file = bench.at("x.rec");
    let of = |labels: [f32; 3], options: &[&str]| {
        let records = labels.iter().zip(0..).flat_map(|(label, id)| rec_record(id, &[*label], &jpeg(id, 6000)));
        fs::write(&file, records.collect::<Vec<_>>()).unwrap();
        convert(&[&file], &bench.dst(), &[&["--force"], options].concat()).code(0);
        assert_eq!(classes(&bench.dst()), Vec::<String>::new());
        assert_eq!(floats(&bench.dst(), "labels.npy"), labels.map(|label| Some(vec![label])));
    };
    of([0.0, 1.5, 3.0], &[]);
    of([0.0, 1.0, 3.0], &["--no-labels"]);
}
