//! Columns of lists that name files: `--file-column mask` packs the files, and a list with such a column is refused without an answer.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use parquet::{
    data_type::{ByteArray, ByteArrayType, Int64Type},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use shardpack_testing::{
    Bench, contents,
    lists::{list, mend, one, pack, samples, text, verify},
    run,
};

/// Four images, a mask for each that is called otherwise, and two more files.
fn bench() -> Bench {
    let bench = Bench::with(&["img/0.jpg", "img/1.jpg", "img/2.jpg", "img/3.jpg"]);
    for number in 0..4 {
        bench.file(format!("msk/m{}.png", 9 - number), format!("mask {number}").as_bytes());
    }
    bench.file("snd/x.wav", b"sound");
    bench.file("snd/y.flac", b"other sound");
    bench
}

/// `header` and `row` for each image: `#` is its number, `%` that of its mask.
fn rows(header: &str, row: &str) -> String {
    let row = |number: u8| row.replace('#', &number.to_string()).replace('%', &(9 - number).to_string());
    header.to_owned() + &(0..4).map(row).collect::<String>()
}

fn parquet(bench: &Bench) -> PathBuf {
    let path = bench.src().join("list.parquet");
    let schema = "message m { required binary path (UTF8); required int64 label; optional binary mask (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(fs::File::create(&path).unwrap(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let texts = |of: &dyn Fn(u8) -> String| (0..4).map(|n| ByteArray::from(of(n).as_str())).collect::<Vec<_>>();
    let mut column = group.next_column().unwrap().unwrap();
    let paths = texts(&|number| format!("img/{number}.jpg"));
    column.typed::<ByteArrayType>().write_batch(&paths, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[0, 1, 0, 1], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let masks = texts(&|number| format!("msk/m{}.png", 9 - number));
    column.typed::<ByteArrayType>().write_batch(&masks, Some(&[1; 4]), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    path
}

/// The component of each image, in the order of the images.
fn found(dst: &Path, component: &str) -> Vec<Option<String>> {
    let samples = samples(dst);
    (0..4).map(|number| text(one(&samples, &format!("img/{number}.jpg")), component)).collect()
}

fn masks() -> Vec<Option<String>> {
    (0..4).map(|number| Some(format!("mask {number}"))).collect()
}

fn at(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_kind_of_list_packs_the_files_and_refuses_to_pack_their_paths_unasked() {
    let bench = bench();
    let json = r##"{"path":"img/#.jpg","label":1,"mask":"msk/m%.png"}"##;
    let array = format!(
        "[{}]",
        [0, 1, 2, 3].map(|n: u8| rows("", json).split('}').nth(n.into()).unwrap().to_owned() + "}").join(",")
    );
    let write = |name: &str, text: String| list(&bench, name, &text);
    let mmlab = format!(r#"{{"metainfo":{{}},"data_list":{}}}"#, array.replace("\"path\"", "\"img_path\""));
    let lists = [
        (write("a.csv", rows("path,label,mask\n", "img/#.jpg,a,msk/m%.png\n")), "mask", "mask"),
        (write("a.tsv", rows("image\tmask\n", "img/#.jpg\tmsk/m%.png\n")), "mask", "mask"),
        (write("bare.csv", rows("", "img/#.jpg,msk/m%.png\n")), "msk=column_2", "mask=2"),
        (write("pairs.txt", rows("", "img/#.jpg msk/m%.png\n")), "msk=label", "mask=2"),
        (write("label.csv", rows("path,label\n", "img/#.jpg,msk/m%.png\n")), "msk=label", "mask=label"),
        (write("a.jsonl", rows("", &format!("{json}\n"))), "mask", "mask"),
        (write("array.json", array), "mask", "mask"),
        (write("mmlab.json", mmlab), "mask", "mask"),
        (parquet(&bench), "mask", "mask"),
    ];
    for (number, (path, help, option)) in lists.iter().enumerate() {
        let dst = bench.at(&number.to_string());
        let help =
            format!("--file-column {help} packs the files as components; --file-column none packs the paths as text");
        let column = help.split([' ', '=']).find(|word| ["mask", "column_2", "label"].contains(word)).unwrap();
        let what = format!("column {column} names files, such as msk/m9.png: is their content part of a sample?");
        for command in ["pack", "plan"] {
            run(&[command, at(path), at(&dst)]).code(2).clean_error().says(&what).says(&help);
        }
        pack(path, &dst, &["--file-column", option]).code(0).says("packed  4 of 4 images").says("; files ");
        assert_eq!(found(&dst, "mask.png"), masks(), "{option}");
        verify(&dst, path, &[]);
        mend(&dst, path);
        let as_text = bench.at(&format!("text-{number}"));
        pack(path, &as_text, &["--file-column", "none"]).code(0).says_not("names files");
        assert!(found(&as_text, "json")[0].as_ref().unwrap().contains("msk/m9.png"), "{option}");
        verify(&as_text, path, &[]);
    }
}

#[test]
fn files_of_columns_go_through_plans_parts_formats_and_convert() {
    let bench = bench();
    let path = list(&bench, "a.csv", &rows("path,label,mask,note\n", "img/#.jpg,a,msk/m%.png,n#\n"));
    let options = ["--file-column", "mask", "--shards", "2"];
    let whole = bench.at("whole");
    pack(&path, &whole, &options).code(0);
    let plan = bench.at("a.plan");
    run(&[&["plan", at(&path), "-o", at(&plan)][..], &options].concat()).code(0);
    let planned = bench.at("planned");
    run(&["pack", "--plan", at(&plan), at(&planned)]).code(0);
    let parts = bench.at("parts");
    for part in ["2/2", "1/2"] {
        pack(&path, &parts, &[&options[..], &["--part", part]].concat()).code(0);
    }
    run(&["merge", at(&parts)]).code(0);
    assert!(contents(&planned) == contents(&whole) && contents(&parts) == contents(&whole));
    for format in ["tfrecord", "mds"] {
        let dst = bench.at(format);
        pack(&path, &dst, &[&options[..], &["--format", format]].concat()).code(0);
        assert_eq!(found(&dst, "mask.png"), masks(), "{format}");
        verify(&dst, &path, &[]);
    }
    let converted = bench.at("converted");
    run(&["convert", at(&whole), at(&converted), "--format", "tfrecord"]).code(0);
    assert_eq!(found(&converted, "mask.png"), masks());
    verify(&converted, &whole, &[]);
    verify(&whole, &converted, &[]);
    verify(&converted, &path, &["--file-column", "mask"]);
    // A date is not part of a dataset.
    fs::File::open(bench.src().join("msk/m9.png")).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let touched = bench.at("touched");
    pack(&path, &touched, &options).code(0);
    assert!(contents(&touched) == contents(&whole));
    // A mask that changed is found by all.
    bench.file("msk/m9.png", b"another mask");
    let ran = run(&["verify", at(&whole), "--against", at(&path)]).code(1);
    ran.says("img/0.jpg").says("the source has other components beside this image now");
    run(&["pack", "--plan", at(&plan), at(&bench.at("late"))]).code(1).says("msk/m9.png: changed since it was planned");
    bench.file("msk/m9.png", b"mask xyz");
    let again = pack(&path, &whole, &options).code(2);
    again.says("--force");
    let later = bench.at("later");
    pack(&path, &later, &[&options[..], &["--part", "1/2"]].concat()).code(0);
    bench.file("msk/m8.png", b"longer mask");
    pack(&path, &later, &[&options[..], &["--part", "2/2"]].concat()).code(2).says("was changed");
}

#[test]
fn a_file_that_is_missing_is_decided_by_on_missing() {
    let bench = bench();
    let text = "path,mask\nimg/0.jpg,msk/m9.png\nimg/1.jpg,msk/gone.png\nimg/2.jpg,\nimg/3.jpg,msk/m6.png\n";
    let path = list(&bench, "a.csv", text);
    let option = ["--file-column", "mask"];
    let packed = |dst: &str, more: &[&str]| pack(&path, &bench.at(dst), &[&option[..], more].concat());
    let ran = packed("error", &[]).code(1);
    ran.says("img/1.jpg: its mask.png is missing: msk/gone.png")
        .says("img/2.jpg: its mask.png is missing: column mask is empty");
    packed("skip", &["--on-missing", "skip"]).code(0).says("packed  2 of 4 images");
    packed("empty", &["--on-missing", "empty"]).code(0).says("2 of 4 images without mask.png");
    assert_eq!(
        found(&bench.at("empty"), "mask.png"),
        [Some("mask 0".to_owned()), None, None, Some("mask 3".to_owned())]
    );
    verify(&bench.at("empty"), &path, &[]);
    bench.file("msk/gone.png", b"came back");
    run(&["verify", at(&bench.at("empty")), "--against", at(&path)]).code(1).says("img/1.jpg");
    fs::remove_file(bench.src().join("msk/gone.png")).unwrap();
    for name in ["m9", "m6"] {
        fs::remove_file(bench.src().join(format!("msk/{name}.png"))).unwrap();
    }
    let none = "--file-column mask: not one row names a file that exists";
    packed("none", &["--on-missing", "empty"]).code(2).clean_error().says(none);
    // Some values are files: that is said, and nothing is refused.
    bench.file("msk/m9.png", b"mask");
    let ran = pack(&path, &bench.at("text"), &["--no-labels"]).code(0);
    ran.says(
        "column mask names files, such as msk/m9.png (1 of the first 3 values): --file-column mask packs their content",
    );
    bench.link("msk/link.png", "m9.png");
    let linked = list(&bench, "linked.csv", "path,mask\nimg/0.jpg,msk/link.png\n");
    let options = [&option[..], &["--no-follow"]].concat();
    pack(&linked, &bench.at("link"), &options).code(1).says("msk/link.png is a symbolic link");
}

#[test]
fn columns_have_names_extensions_and_no_second_role() {
    let bench = bench();
    let header = "path,label,split,mask,Sound File,same\n";
    let row = |number: u8, split: &str, sound: &str| {
        format!("img/{number}.jpg,a,{split},msk/m{}.png,snd/{sound},img/{number}.jpg\n", 9 - number)
    };
    let rows = [row(0, "train", "x.wav"), row(1, "train", "y.flac"), row(2, "val", "x.wav"), row(3, "val", "x.wav")];
    let path = list(&bench, "a.csv", &(header.to_owned() + &rows.concat()));
    let ran = pack(&path, &bench.at("asked"), &["--file-column", "mask"]).code(2);
    ran.says("column Sound File names files")
        .says("--file-column 'mask,Sound File' packs")
        .says("--file-column mask,none packs");
    let options = ["--file-column", "m=mask,Sound File", "--file-column", "none"];
    pack(&path, &bench.dst(), &options).code(0);
    let train = samples(&bench.dst().join("train"));
    assert_eq!(text(one(&train, "img/1.jpg"), "sound_file").unwrap(), "other sound");
    assert_eq!(text(one(&train, "img/1.jpg"), "m.png").unwrap(), "mask 1");
    assert_eq!(text(one(&train, "img/1.jpg"), "json").unwrap(), r#"{"same":"img/1.jpg"}"#);
    verify(&bench.dst(), &path, &[]);
    for (option, what) in [
        ("depth", "--file-column depth: no such column: it has path, label, split, mask, Sound File, same"),
        ("path", "--file-column path: this is the column of the images"),
        ("split", "--file-column split: this is the column of the splits"),
        ("mask,mask", "--file-column names column \"mask\" twice"),
        ("json.json=mask,json.json=same,none", "two components are called \"json.json\""),
        ("cls=mask", "the component cls is the label"),
    ] {
        pack(&path, &bench.at("bad"), &["--file-column", option]).code(2).clean_error().says(what);
    }
    let labelled = ["--file-column", "mask", "--label-column", "mask"];
    pack(&path, &bench.at("bad"), &labelled).code(2).clean_error().says("that --label-column names");
    let out = list(&bench, "out.csv", "path,mask\nimg/0.jpg,../x.png\n");
    let ran = pack(&out, &bench.at("bad"), &["--file-column", "mask"]).code(2).clean_error();
    ran.says("line 2: path \"../x.png\" leads out of");
    let number = list(&bench, "number.jsonl", "{\"path\":\"img/0.jpg\",\"mask\":[1]}\n");
    let ran = pack(&number, &bench.at("bad"), &["--file-column", "mask"]).code(1).clean_error();
    ran.says("line 1: \"mask\" is no path, and --file-column names it");
    let tree = Bench::with(&["a/0.jpg"]);
    tree.pack(&["--file-column", "mask"])
        .code(2)
        .clean_error()
        .says("--file-column, --multi-label and --target are for lists");
    let coco = r#"{"images":[{"id":1,"file_name":"img/0.jpg"}],"annotations":[]}"#;
    let coco = list(&bench, "coco.json", coco);
    pack(&coco, &bench.at("bad"), &["--file-column", "mask"]).code(2).clean_error().says("COCO has no columns");
}

#[test]
fn rows_that_differ_in_their_files_are_samples_of_their_own() {
    let bench = bench();
    let text = "path,mask\nimg/0.jpg,msk/m9.png\nimg/0.jpg,msk/m8.png\nimg/0.jpg,msk/m9.png\n";
    let path = list(&bench, "a.csv", text);
    pack(&path, &bench.dst(), &["--file-column", "mask"]).code(0).says("packed  2 of 3 images");
    let found = samples(&bench.dst());
    let masks: Vec<_> =
        found["img/0.jpg"].iter().map(|sample| shardpack_testing::lists::text(sample, "mask.png")).collect();
    assert_eq!(masks, [Some("mask 0".to_owned()), Some("mask 1".to_owned())]);
    verify(&bench.dst(), &path, &[]);
    // Masks are recognised as those of --with, and move with their images.
    let ran = pack(&path, &bench.at("resized"), &["--file-column", "mask", "--resize", "12"]).code(1);
    ran.says("mask.png: no image by its first bytes");
    // With files of --with, the column is noted.
    let ran = pack(&path, &bench.at("with"), &["--with", "txt"]).code(0);
    ran.says("column mask names files, such as msk/m9.png: --file-column mask packs their content");
}
