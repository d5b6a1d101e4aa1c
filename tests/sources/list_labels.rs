//! Tests lists: no value of a list is misread or left out without a message.

use std::{fs, sync::Arc};

use parquet::{
    data_type::{ByteArray, ByteArrayType, DoubleType},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use shardpack_testing::{
    Bench, jpeg,
    lists::{list, one, pack, samples, text, verify},
    shards::{Tar, classes, convert},
};

fn bench() -> Bench {
    Bench::with(&["0.jpg", "1.jpg", "2.jpg"])
}

/// Writes these objects as JSON lines and as a JSON array.
fn written(bench: &Bench, name: &str, objects: [&str; 3]) -> [std::path::PathBuf; 2] {
    let array = format!("[{}]", objects.join(",\n"));
    [list(bench, &format!("{name}.jsonl"), &objects.join("\n")), list(bench, &format!("{name}.json"), &array)]
}

#[test]
fn the_members_of_all_objects_decide_what_they_are_for() {
    let bench = bench();
    let rest = [r#"{"path":"1.jpg","y":1,"label":"a"}"#, r#"{"path":"2.jpg","y":0,"label":"b"}"#];
    for (number, first) in [r#"{"path":"0.jpg","y":1}"#, r#"{"path":"0.jpg","y":1,"label":null}"#].iter().enumerate() {
        for path in written(&bench, &format!("label{number}"), [first, rest[0], rest[1]]) {
            let ran = pack(&path, &bench.at("bad"), &["--force"]).code(1).says("columns: path path; label label");
            ran.says("0.jpg: no label");
            pack(&path, &bench.dst(), &["--on-bad", "skip", "--quiet", "--force"]).code(0);
            assert_eq!(samples(&bench.dst()).keys().collect::<Vec<_>>(), ["1.jpg", "2.jpg"]);
        }
    }
    // Only the member that all objects have is the path.
    for path in written(
        &bench,
        "paths",
        [r#"{"image":"0.jpg"}"#, r#"{"image":"1.jpg","path":"x"}"#, r#"{"image":"2.jpg","more":1}"#],
    ) {
        pack(&path, &bench.dst(), &["--force"])
            .code(0)
            .says("columns: path image; no labels; in a component json: path, more");
        assert_eq!(text(one(&samples(&bench.dst()), "1.jpg"), "json").unwrap(), r#"{"path":"x"}"#);
    }
}

#[test]
fn a_split_that_the_first_object_lacks_is_a_split_that_is_missing() {
    let bench = bench();
    let rest = [r#"{"path":"1.jpg","split":"train"}"#, r#"{"path":"2.jpg","split":"test"}"#];
    for (number, first) in [r#"{"path":"0.jpg"}"#, r#"{"path":"0.jpg","split":null}"#].iter().enumerate() {
        for path in written(&bench, &format!("split{number}"), [first, rest[0], rest[1]]) {
            let ran = pack(&path, &bench.dst(), &["--force"]).code(0);
            ran.says("some lines have a split, but line 1 has none: all lines are one dataset");
            let ran = pack(&path, &bench.at("named"), &["--split-column", "split"]).code(2).clean_error();
            ran.says("line 1");
        }
    }
}

#[test]
fn a_label_that_spells_a_list_is_no_class_in_a_tar_and_bad_among_names() {
    let bench = Bench::new();
    let tar = |labels: [&str; 2]| {
        let image = |number| jpeg(number, 5000);
        let tar = Tar::new().sample("a", labels[0], &image(1)).sample("b", labels[1], &image(2));
        fs::write(bench.at("x.tar"), tar.bytes()).unwrap();
    };
    tar(["[3, 1]", "[2]"]);
    convert(&[&bench.at("x.tar")], &bench.dst(), &[]).code(0).says("labels are lists: a component, and no class");
    assert!(classes(&bench.dst()).is_empty());
    let found = fs::read(bench.dst().join("shard-000000.tar")).unwrap();
    let array = [3i64, 1].map(i64::to_le_bytes).concat();
    assert!(found.windows(array.len()).any(|items| items == array));
    let ran = convert(&[&bench.at("x.tar")], &bench.at("named"), &["--label-feature", "cls"]).code(2).clean_error();
    ran.says("labels are lists: a component, and no class").says("--no-labels packs samples without a class");
    for (labels, expected) in [(["cat", "[2]"], "cat"), (["0", "{'a': 1}"], "0")] {
        tar(labels);
        convert(&[&bench.at("x.tar")], &bench.at("mixed"), &[]).code(1).says("label: a list, and no class");
        convert(&[&bench.at("x.tar")], &bench.at("mixed"), &["--on-bad", "skip", "--quiet"]).code(0);
        assert_eq!(classes(&bench.at("mixed")), [expected]);
        fs::remove_dir_all(bench.at("mixed")).unwrap();
    }
    let listed = self::bench();
    let path = list(&listed, "mixed.csv", "path,label\n0.jpg,cat\n1.jpg,\"['cat', 'dog']\"\n2.jpg,[unknown]\n");
    pack(&path, &listed.dst(), &[]).code(1).says("label: a list, and no class");
    pack(&path, &listed.dst(), &["--on-bad", "skip", "--quiet"]).code(0);
    assert_eq!(classes(&listed.dst()), ["[unknown]", "cat"]);
}

#[test]
fn a_column_that_is_named_for_labels_and_holds_none_is_refused() {
    let bench = bench();
    let scores = list(&bench, "scores.csv", "path,score,tags\n0.jpg,0.5,[1]\n1.jpg,1.25,\"[1, 2]\"\n2.jpg,2,[0]\n");
    let bare = list(&bench, "bare.csv", "0.jpg,x\n1.jpg,y\n");
    let [tags, _] = written(
        &bench,
        "tags",
        [r#"{"path":"0.jpg","tags":["a"]}"#, r#"{"path":"1.jpg","tags":[]}"#, r#"{"path":"2.jpg"}"#],
    );
    for (path, column, what) in [
        (&scores, "score", "--label-column score: labels are numbers with fractions, and no classes"),
        (&scores, "tags", "--label-column tags: labels are lists, objects or truth values, and no classes"),
        (&tags, "tags", "--label-column tags: labels are lists, objects or truth values, and no classes"),
        (&scores, "Path", "--label-column path: this is the path column"),
        (&bare, "1", "--label-column 1: this is the path column"),
    ] {
        let ran = pack(path, &bench.dst(), &["--label-column", column]).code(2).clean_error();
        ran.says(what).says("--no-labels packs samples without a class");
        pack(path, &bench.dst(), &["--label-column", column, "--no-labels", "--quiet"]).code(0);
        fs::remove_dir_all(bench.dst()).unwrap();
    }
}

#[test]
fn numbers_that_json_has_no_word_for_stay_in_a_parquet_list() {
    let bench = bench();
    let path = bench.src().join("list.parquet");
    let schema = "message m { required binary path (UTF8); optional double a; required double label; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(fs::File::create(&path).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&["0.jpg", "1.jpg", "2.jpg"].map(ByteArray::from), None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<DoubleType>().write_batch(&[f64::NAN, f64::NEG_INFINITY], Some(&[1, 1, 0]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<DoubleType>().write_batch(&[1.0, 0.0, f64::NAN], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    pack(&path, &bench.at("bad"), &[]).code(1).says("2.jpg: no label");
    pack(&path, &bench.dst(), &["--no-labels", "--quiet"]).code(0);
    let found = samples(&bench.dst());
    let texts = ["0.jpg", "1.jpg", "2.jpg"].map(|path| text(one(&found, path), "json").unwrap());
    let expected = [r#"{"a":NaN,"label":1.0}"#, r#"{"a":-Infinity,"label":0.0}"#, r#"{"a":null,"label":NaN}"#];
    assert_eq!(texts, expected);
    // The names of the members are checked all the same.
    pack(&path, &bench.at("meta"), &["--no-labels", "--meta", "json"]).code(2).says("column \"label\" has the name");
}

#[test]
fn text_that_is_not_utf_8_is_refused_by_line_and_column_where_it_goes_into_json() {
    let bench = bench();
    let write = |name: &str, bytes: &[u8]| {
        bench.file(name, bytes);
        bench.src().join(name)
    };
    for (name, bytes, place) in [
        ("field.csv", &b"path,label,note\n0.jpg,a,x\n1.jpg,b,caf\xe9\n"[..], "line 3, column \"note\": not UTF-8"),
        ("name.csv", b"path,label,caf\xe9\n0.jpg,a,x\n", "line 1, column \"caf\u{fffd}\": a name that is not UTF-8"),
    ] {
        let path = write(name, bytes);
        let ran = pack(&path, &bench.dst(), &[]).code(1).clean_error();
        ran.says(place).says("iconv -f LATIN1 -t UTF-8 FILE");
        pack(&path, &bench.dst(), &["--meta", "none", "--quiet"]).code(0);
        fs::remove_dir_all(bench.dst()).unwrap();
    }
    // A label may be any bytes.
    let path = write("label.csv", b"path,label\n0.jpg,caf\xe9\n1.jpg,caf\xe8\n");
    pack(&path, &bench.dst(), &[]).code(0).says("2 classes");
}

#[test]
fn categories_of_one_id_are_refused_and_other_members_of_coco_are_counted() {
    let bench = bench();
    let coco = |name: &str, rest: &str| {
        let images = r#""images":[{"id":1,"file_name":"0.jpg","license":4}]"#;
        let annotations = r#""annotations":[{"id":1,"image_id":1,"category_id":1}]"#;
        list(&bench, name, &format!("{{{images},{annotations},{rest}}}"))
    };
    let twice = coco("twice.json", r#""categories":[{"id":1,"name":"cat"},{"id":1,"name":"dog"}]"#);
    pack(&twice, &bench.dst(), &[]).code(1).clean_error().says("two categories have the id 1");
    let same = coco("same.json", r#""categories":[{"id":1,"name":"cat"},{"id":1,"name":"cat"}]"#);
    pack(&same, &bench.dst(), &["--quiet"]).code(0);
    fs::remove_dir_all(bench.dst()).unwrap();
    let rest = r#""categories":[],"info":{"year":2017},"licenses":[{"id":4},{"id":5}],"videos":[],"tracks":[{"id":1}]"#;
    let tables = coco("tables.json", rest);
    let ran = pack(&tables, &bench.dst(), &["--json"]).code(0).json();
    let expected = serde_json::json!({
        "member info of the file": 1, "member licenses of the file": 2, "member tracks of the file": 1,
    });
    assert_eq!(ran["ignored_files"], expected);
    verify(&bench.dst(), &tables, &[]);
}

#[test]
fn folders_of_paths_are_labels_only_if_the_command_says_so() {
    let bench = Bench::with(&["images/cake/1.jpg", "images/cake/2.jpg", "images/soup/1.jpg", "images/soup/3.jpg"]);
    let root = bench.src().join("images");
    let root = ["--root", root.to_str().unwrap()];
    let by_folder = [&root[..], &["--label-column", "folder"]].concat();
    let lines = ["cake/1", "cake/2", "soup/1", "soup/3"];
    let path = list(&bench, "train.txt", &lines.join("\n"));
    let note = "the paths are in 2 folders, such as cake: --label-column folder makes them classes";
    pack(&path, &bench.at("none"), &root).code(0).says("no labels").says(note);
    assert_eq!(classes(&bench.at("none")), [""; 0]);
    let ran = pack(&path, &bench.dst(), &by_folder).code(0).says("labels are the folders of the paths");
    ran.says("images in 2 classes").says_not("makes them classes");
    assert_eq!(classes(&bench.dst()), ["cake", "soup"]);
    assert_eq!(one(&samples(&bench.dst()), "soup/3.jpg").0, Some(1));
    verify(&bench.dst(), &path, &by_folder);
    // In lists with names of columns, the other columns stay; --no-labels leaves the folders out.
    let rows: Vec<String> = lines.iter().map(|path| format!(r#"{{"path":"{path}.jpg","label":7}}"#)).collect();
    for path in [
        list(&bench, "rows.jsonl", &rows.join("\n")),
        list(&bench, "rows.csv", &format!("path,label\n{}", lines.map(|path| format!("{path}.jpg,7\n")).concat())),
    ] {
        pack(&path, &bench.dst(), &[&by_folder[..], &["--force"]].concat()).code(0);
        let samples = samples(&bench.dst());
        let cake = one(&samples, "cake/2.jpg");
        assert_eq!((cake.0, cake.1.as_deref()), (Some(0), Some("cake")));
        assert!(text(cake, "json").unwrap().starts_with(r#"{"label":"#));
        pack(&path, &bench.dst(), &[&by_folder[..], &["--force", "--no-labels"]].concat()).code(0).says("no labels");
    }
    // Folders are names of classes, also if they spell numbers, or a word for no value.
    for name in ["10", "20", "none"] {
        bench.file(format!("numbers/{name}/1.jpg"), &jpeg(1, 5000));
    }
    let path = list(&bench, "numbers.txt", "10/1.jpg\n20/1.jpg\nnone/1.jpg\n");
    let numbers = bench.src().join("numbers");
    pack(&path, &bench.dst(), &["--root", numbers.to_str().unwrap(), "--label-column", "folder", "--force"]).code(0);
    assert_eq!(classes(&bench.dst()), ["10", "20", "none"]);
    // A column of this name is the label.
    let path = list(&bench, "named.csv", "path,Folder\ncake/1.jpg,x\nsoup/1.jpg,y\n");
    pack(&path, &bench.dst(), &[&by_folder[..], &["--force"]].concat()).code(0).says("label Folder");
    assert_eq!(classes(&bench.dst()), ["x", "y"]);
    // Lines have columns, too, and one that they lack is refused.
    let path = list(&bench, "lines.txt", "cake/1.jpg 7\nsoup/1.jpg 7\n");
    pack(&path, &bench.dst(), &[&by_folder[..], &["--force"]].concat()).code(0);
    assert_eq!(text(one(&samples(&bench.dst()), "cake/1.jpg"), "json").unwrap(), r#"{"label":7}"#);
    for (option, name) in [("--label-column", "breed"), ("--path-column", "file"), ("--split-column", "split")] {
        let ran = pack(&path, &bench.dst(), &[&root[..], &[option, name, "--force"]].concat()).code(2).clean_error();
        ran.says(&format!("{option} {name}: no such column: it has path, label"));
    }
    let second = [&root[..], &["--label-column", "2", "--path-column", "1", "--force"]].concat();
    pack(&path, &bench.dst(), &second).code(0).says("label label");
    // A file in no folder has no label.
    bench.file("images/5.jpg", &jpeg(5, 5000));
    let path = list(&bench, "some.txt", "5.jpg\ncake/1.jpg\nsoup/1.jpg\n");
    pack(&path, &bench.at("some"), &by_folder).code(1).says("5.jpg: no label");
    // Folders that are all splits, and one folder, are no classes.
    for (name, text) in [("one.txt", "cake/1.jpg\ncake/2.jpg\n"), ("own.txt", "cake/1.jpg\nsoup/1.jpg\n")] {
        pack(&list(&bench, name, text), &bench.dst(), &[&root[..], &["--force"]].concat())
            .code(0)
            .says_not("makes them classes");
    }
}
