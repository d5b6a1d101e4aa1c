//! Extra information of sources is kept, counted or refused: numbers of classes with the same name, indexes and file names that
//! record how many records and shards exist, folders that name columns, class names and metadata without a use.

use std::{fs, path::Path};

use shardpack_testing::{
    Bench, jpeg, run,
    shards::{Feature, classes, convert, manifest, rec_record, samples, skipped, sorted, tf_record},
};

/// Files that only their own libraries can write.
const WRITE: &str = "
import io, json, os, sys, h5py, numpy as np, pyarrow as pa, pyarrow.parquet as pq
out = sys.argv[1]
from PIL import Image
def image(seed):
    into = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (24, 32, 3), dtype=np.uint8)).save(into, 'JPEG')
    return {'bytes': into.getvalue(), 'path': f'{seed}.jpg'}
images = [image(seed) for seed in range(4)]
def parquet(path, columns, features=None, **notes):
    os.makedirs(os.path.dirname(f'{out}/{path}'), exist_ok=True)
    if features:
        notes['huggingface'] = json.dumps({'info': {'features': features}})
    table = pa.table({'image': images} | columns)
    pq.write_table(table.replace_schema_metadata((table.schema.metadata or {}) | notes), f'{out}/{path}')
names = lambda *names: {'_type': 'ClassLabel', 'names': list(names)}
for name, column, folders in (
    ('differs', [0, 1, 0, 1], ('label=cat', 'label=dog')),
    ('agrees', ['cat'] * 4, ('label=cat',)),
    ('names', [1] * 4, ('label=cat',)),
):
    for folder in folders:
        parquet(f'{name}/{folder}/a.parquet', {'label': column}, {'label': names('dog', 'cat')} if name == 'names' else None)
parquet('month/month=03/label=1/a.parquet', {'month': [3] * 4, 'label': [1.0] * 4})
parquet('other-month/month=03/a.parquet', {'month': [3, 4, 3, 5], 'label': [0, 1, 0, 1]})
two = {'fine_label': [0, 1, 2, 0], 'coarse_label': [0, 1, 0, 1]}
parquet('two/a.parquet', two, {'fine_label': names('apple', 'baby', 'cat'), 'coarse_label': names('fruit', 'people')})
inner = {'objects': {'_type': 'Sequence', 'feature': {'category': names('coverall', 'mask')}}}
parquet('inner/a.parquet', {'objects': [{'category': [1]}] * 4, 'label': [0, 1, 0, 1]}, inner)
parquet('metadata/a.parquet', {'label': [0, 1, 0, 1]}, {'label': names('cat', 'dog')}, license='CC', pandas='{}')
with h5py.File(f'{out}/enum.h5', 'w') as file:
    file['images'], file['labels'] = np.zeros((4, 8, 8, 3), 'u1'), [0, 1, 0, 1]
    kind = h5py.enum_dtype({'good': 1, 'poor': 2}, basetype='i1')
    file.create_dataset('quality', data=np.array([1, 2, 1, 2], 'i1'), dtype=kind)
";

/// The records of six images in a file of this format, with its own index; the file holds the first `there` records.
fn indexed(folder: &Path, format: &str, there: usize) {
    fs::create_dir_all(folder).unwrap();
    let (mut all, mut index, mut end) = (Vec::new(), String::new(), 0);
    for number in 0..6u64 {
        let image = jpeg(number, 9000);
        let record = match format {
            "recordio" => rec_record(number, &[(number % 2) as f32], &image),
            _ => tf_record(&[("image", Feature::Bytes(&image)), ("label", Feature::Ints(&[(number % 2) as i64]))]),
        };
        index += &match format {
            "recordio" => format!("{number}\t{}\n", all.len()),
            _ => format!("{} {}\n", all.len(), record.len()),
        };
        all.extend(record);
        if number < there as u64 {
            end = all.len();
        }
    }
    let (name, of_index) = if format == "recordio" { ("t.rec", "t.idx") } else { ("t.tfrecord", "t.tfrecord.idx") };
    fs::write(folder.join(name), &all[..end]).unwrap();
    fs::write(folder.join(of_index), index).unwrap();
}

/// The entries that a conversion left out, with their counts.
fn ignored(dst: &Path) -> Vec<(String, u64)> {
    manifest(dst).ignored_files.into_iter().collect()
}

#[test]
fn two_classes_of_one_name_stay_two_when_their_dataset_is_converted_again() {
    let bench = Bench::new();
    let src = bench.src();
    (0..6).for_each(|number| bench.file(format!("{number}.jpg"), &jpeg(number, 9000)));
    let list = |name: &str, names: &str| {
        let rows: Vec<String> =
            (0..6).map(|at| format!(r#"{{"img_path": "{at}.jpg", "gt_label": {}}}"#, at % 3)).collect();
        let text = format!(r#"{{"metainfo": {{"classes": {names}}}, "data_list": [{}]}}"#, rows.join(","));
        fs::write(src.join(name), text).unwrap();
        let dst = bench.at(name);
        shardpack_testing::pack(&src.join(name), &dst, &["--order", "source"]).code(0);
        dst
    };
    let cranes = list("cranes.json", r#"["crane", "dog", "crane"]"#);
    let again = bench.at("again");
    convert(&[&cranes], &again, &[]).code(0);
    assert_eq!(sorted(samples(&again)), sorted(samples(&cranes)));
    assert_eq!(classes(&again), ["crane", "dog", "crane"]);
    run(&["verify", "--quiet", again.to_str().unwrap(), "--against", cranes.to_str().unwrap()]).code(0);
    // The name `crane` is ambiguous: two classes have it.
    let others = list("others.json", r#"["ant", "crane", "dog"]"#);
    let ran = convert(&[&cranes, &others], &bench.at("both"), &[]);
    ran.code(2).says("classes 0 and 2 of").says("are both called \"crane\"").says("convert it by itself").clean_error();
    let map = bench.at("map.txt");
    fs::write(&map, "crane bird\n").unwrap();
    let ran = convert(&[&cranes], &bench.at("mapped"), &["--class-map", map.to_str().unwrap()]);
    ran.code(2).says("classes 0 and 2 of the source are both called").clean_error();
}

#[test]
fn a_class_name_that_is_the_number_of_another_class_is_no_name() {
    let bench = Bench::new();
    (0..4).for_each(|number| bench.file(format!("{number}.jpg"), &jpeg(number, 9000)));
    bench.file("l.csv", b"path,label,class_name\n0.jpg,0,1\n1.jpg,1,x\n2.jpg,1,y\n3.jpg,0,1\n");
    let (packed, again) = (bench.at("packed"), bench.at("again"));
    shardpack_testing::pack(&bench.src().join("l.csv"), &packed, &[]).code(0);
    assert_eq!(classes(&packed), ["0", "1"]);
    convert(&[&packed], &again, &[]).code(0);
    assert_eq!(sorted(samples(&again)), sorted(samples(&packed)));
}

#[test]
fn records_that_an_index_names_and_a_file_lacks_are_refused_as_verify_says_it() {
    let bench = Bench::new();
    for format in ["recordio", "tfrecord"] {
        let (whole, cut) = (bench.at(&format!("{format}-whole")), bench.at(&format!("{format}-cut")));
        indexed(&whole, format, 6);
        indexed(&cut, format, 3);
        convert(&[&whole], &bench.at(&format!("{format}-6")), &[]).code(0);
        let dst = bench.at(&format!("{format}-3"));
        let says = "6 entries, ";
        run(&["verify", cut.to_str().unwrap()]).code(1).says(says).says("line 4: no record begins at byte");
        convert(&[&cut], &dst, &[]).code(1).says(says).says("line 4: no record begins at byte");
        convert(&[&cut], &dst, &["--on-bad", "skip"]).code(0);
        assert_eq!((samples(&dst).len(), skipped(&dst).len()), (3, 4), "{format}");
    }
}

#[test]
fn a_folder_that_lacks_shards_which_names_tell_is_refused_and_files_by_name_are_noted() {
    let bench = Bench::new();
    let folder = bench.at("n");
    fs::create_dir_all(&folder).unwrap();
    for number in [0, 2] {
        let image = jpeg(number, 9000);
        let record = tf_record(&[("image", Feature::Bytes(&image)), ("label", Feature::Ints(&[1]))]);
        fs::write(folder.join(format!("train-{number:05}-of-00004")), record).unwrap();
    }
    let says = "train-*-of-00004: 2 of 4 shards are missing: 00001, 00003";
    convert(&[&folder], &bench.at("whole"), &[]).code(1).says(says).says("takes those that are there");
    run(&["verify", folder.to_str().unwrap()]).code(1).says(says);
    let pattern = folder.join("train-*-of-00004");
    convert(&[&pattern], &bench.at("some"), &[]).code(0).says(says).says("among the files given");
    run(&["verify", pattern.to_str().unwrap()]).code(0).says(says);
    assert_eq!(samples(&bench.at("some")).len(), 2);
}

#[test]
fn a_folder_that_says_another_label_than_its_file_is_refused_and_another_column_is_counted() {
    let bench = Bench::new();
    let src = bench.at("written");
    shardpack_testing::python(WRITE, &src);
    let ran = convert(&[&src.join("differs")], &bench.at("differs"), &[]);
    ran.code(1).says("column \"label\" is 0 in row 0, but its folder is label=cat: 4 rows differ");
    run(&["verify", src.join("differs").to_str().unwrap()]).code(1).says("its folder is label=dog");
    for (name, left_out) in [
        ("agrees", None),
        ("names", None),
        ("month", None),
        ("other-month", Some(("column month of a folder, which the file has too", 2))),
    ] {
        let dst = bench.at(name);
        convert(&[&src.join(name)], &dst, &[]).code(0);
        let expected: Vec<_> = left_out.into_iter().map(|(what, rows)| (what.to_owned(), rows)).collect();
        assert_eq!((ignored(&dst), samples(&dst).len()), (expected, 4), "{name}");
    }
}

#[test]
fn names_of_classes_and_metadata_that_nothing_is_made_of_are_counted() {
    let bench = Bench::new();
    let src = bench.at("written");
    shardpack_testing::python(WRITE, &src);
    let rows: [(&str, &[&str]); 4] = [
        ("two/a.parquet", &["class names of coarse_label", "class names of fine_label"]),
        ("inner/a.parquet", &["class names of objects.category"]),
        ("metadata/a.parquet", &["metadata license of the file"]),
        ("enum.h5", &["class names of quality"]),
    ];
    for (name, expected) in rows {
        let dst = bench.at(&name.replace('/', "-"));
        let ran = convert(&[&src.join(name)], &dst, &[]).code(0);
        expected.iter().fold(ran, |ran, what| ran.says(what));
        let expected: Vec<_> = expected.iter().map(|what| ((*what).to_owned(), 1)).collect();
        assert_eq!(ignored(&dst), expected, "{name}");
    }
    let ran = convert(&[&src.join("two/a.parquet")], &bench.at("fine"), &["--label-feature", "fine_label"]).code(0);
    ran.says("class names of coarse_label").says_not("class names of fine_label");
    assert_eq!(classes(&bench.at("fine")), ["apple", "baby", "cat"]);
}
