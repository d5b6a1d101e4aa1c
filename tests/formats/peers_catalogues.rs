//! Reads whole folders by README.md with Hugging Face datasets, and by croissant.json with mlcroissant: rows, images, names of classes.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_testing::{Bench, jpeg, photos};

const CHOSEN: [&str; 2] = ["--sidecars", "auto,card,croissant"];
/// Names of classes that YAML or JSON would change without quotes and escapes.
const ODD: [&[u8]; 5] = [b"---", b"a: \"b\" # c", b"null", "ü\u{2028}😀".as_bytes(), b"\xff\n- x\\"];

/// Reads `folder` with `how`, and compares it with `trees` by split. `None` if no Python has the libraries, else the exit code
/// and the output.
fn read(how: &str, folder: &Path, trees: &[(&str, &Path)]) -> Option<(i32, String)> {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON_SIDECARS") else {
        eprintln!("SHARDPACK_PYTHON_SIDECARS is not set: datasets and mlcroissant were NOT asked");
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/read_catalogues.py");
    let mut command = Command::new(python);
    command.arg(&script).arg(how).arg(folder);
    command.args(trees.iter().map(|(split, tree)| format!("{split}={}", tree.display())));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Some((output.status.code().unwrap(), text))
}

/// Fails unless `how` reads `rows` rows, which are those of `trees`.
fn check(how: &str, folder: &Path, trees: &[(&str, &Path)], rows: u64) {
    if let Some((code, text)) = read(how, folder, trees) {
        assert_eq!((code, text.lines().next()), (0, Some(rows.to_string().as_str())), "{how}: {text}");
    }
}

/// A source with these splits of three photographs for each class; the classes have odd names.
fn with_splits(names: &[&str]) -> Bench {
    let bench = Bench::new();
    let mut classes: Vec<_> = fs::read_dir(photos()).unwrap().map(|entry| entry.unwrap().path()).collect();
    classes.retain(|path| path.is_dir());
    classes.sort();
    assert_eq!(classes.len(), ODD.len());
    for (class, odd) in classes.iter().zip(ODD) {
        let mut files: Vec<PathBuf> = fs::read_dir(class).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for (number, name) in names.iter().enumerate() {
            for file in files.iter().cycle().skip(number).take(3) {
                let path = Path::new(name).join(OsStr::from_bytes(odd)).join(file.file_name().unwrap());
                bench.file(path, &fs::read(file).unwrap());
            }
        }
    }
    bench
}

#[test]
fn both_read_a_dataset_without_splits() {
    for (options, name) in [
        (&["--shards", "3"][..], "shard"),
        // Five samples with one extension do not hide another.
        (&["--ext", "content", "--meta", "json", "--name", "photos", "--order", "source"], "photos"),
    ] {
        let bench = Bench::new();
        shardpack_testing::pack(&photos(), &bench.dst(), &[options, &CHOSEN].concat()).code(0);
        check("card", &bench.dst(), &[("train", &photos())], 32);
        check("croissant", &bench.dst(), &[(name, &photos())], 32);
    }
}

#[test]
fn both_read_all_splits_and_one_split_with_odd_names_of_classes() {
    let bench = with_splits(&["train", "val", "test"]);
    bench.pack(&[&["--shard-samples", "4"], &CHOSEN[..]].concat()).code(0);
    let trees = ["train", "val", "test"].map(|split| (split, bench.src().join(split)));
    let trees: Vec<_> = trees.iter().map(|(split, tree)| (*split, tree.as_path())).collect();
    for how in ["card", "croissant"] {
        check(how, &bench.dst(), &trees, 45);
        check(how, &bench.dst().join("val"), &trees[1..2], 15);
    }
}

#[test]
fn splits_with_names_that_the_hub_has_not_are_renamed_and_stay_apart() {
    let bench = with_splits(&["a-b", "a_b", "all"]);
    bench.pack(&[&["--splits", "a-b,a_b,all"], &CHOSEN[..]].concat()).code(0);
    let [first, second, third] = ["a-b", "a_b", "all"].map(|split| bench.src().join(split));
    check("card", &bench.dst(), &[("a_b", &first), ("a_b_", &second), ("all_", &third)], 45);
    check("croissant", &bench.dst(), &[("a-b", &first), ("a_b", &second), ("all", &third)], 45);
}

#[test]
fn a_lost_shard_is_an_error_of_both() {
    let bench = with_splits(&["train", "val"]);
    bench.pack(&[&["--shard-samples", "4"], &CHOSEN[..]].concat()).code(0);
    fs::remove_file(bench.dst().join("val/val-000001.tar")).unwrap();
    let (train, val) = (bench.src().join("train"), bench.src().join("val"));
    for (how, says) in [("card", "NonMatchingSplitsSizesError"), ("croissant", "val-000001.tar")] {
        if let Some((code, text)) = read(how, &bench.dst(), &[("train", &train), ("val", &val)]) {
            assert!(code == 1 && text.contains(says), "{how}: {text}");
        }
    }
}

#[test]
fn arrays_that_the_first_samples_lack_are_columns_of_the_card() {
    let bench = Bench::new();
    let mut list = "path,age,pose\n".to_owned();
    for number in 0..9 {
        bench.file(format!("{number}.jpg"), &jpeg(number, 5000));
        list +=
            &format!("{number}.jpg,{}\n", if number < 7 { ",".to_owned() } else { format!("{number}.5,\"[1, 2]\"") });
    }
    bench.file("list.csv", list.as_bytes());
    let options = ["--target", "age:float32,pose:int64", "--on-missing", "empty", "--order", "source"];
    shardpack_testing::pack(&bench.src().join("list.csv"), &bench.dst(), &[&options, &CHOSEN[..]].concat()).code(0);
    let Some((code, text)) = read("rows", &bench.dst(), &[]) else { return };
    assert_eq!(code, 0, "{text}");
    let read: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(read[1]["age.npy"], "Value('float32')", "{text}");
    assert_eq!(read[1]["pose.npy"], "List(Value('int64'))", "{text}");
    let values: Vec<_> = read[2].as_object().unwrap().values().map(|row| (&row["age.npy"], &row["pose.npy"])).collect();
    assert_eq!(values.iter().filter(|(age, pose)| age.is_null() && pose.is_null()).count(), 7, "{text}");
    let last = (serde_json::json!(8.5), serde_json::json!([1, 2]));
    assert!(values.contains(&(&last.0, &last.1)), "{text}");
}
