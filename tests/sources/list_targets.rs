//! Columns of numbers that are no classes: `--target` packs them as arrays.

use std::{collections::BTreeMap, fs, path::Path};

use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, contents,
    lists::{list, mend, pack, verify},
    run,
};

fn at(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn bench() -> Bench {
    Bench::with(&["0.jpg", "1.jpg", "2.jpg"])
}

/// By path of the sample: the type and the items of a component.
fn items(dst: &Path, name: &str) -> BTreeMap<String, (String, Vec<u8>)> {
    let dataset = Dataset::open(dst).unwrap();
    let at = dataset.manifest().components.iter().position(|component| component == name).unwrap();
    let (mut reader, mut found) = (dataset.reader(..).unwrap(), BTreeMap::new());
    while let Some(sample) = reader.next().unwrap() {
        if let Some(items) = sample.items(at).unwrap() {
            let path = String::from_utf8(sample.path().to_vec()).unwrap();
            found.insert(path, (sample.form(at).unwrap().to_string(), items.into_owned()));
        }
    }
    found
}

fn floats(dst: &Path, name: &str) -> Vec<f64> {
    let value = |(form, items): &(String, Vec<u8>)| {
        assert_eq!(form, "<f8[]");
        f64::from_le_bytes(items.as_slice().try_into().unwrap())
    };
    items(dst, name).values().map(value).collect()
}

#[test]
fn every_kind_of_list_gives_the_same_arrays_in_every_format() {
    let bench = bench();
    let sources = [
        list(&bench, "a.csv", "path,age,name\n0.jpg,1,a\n1.jpg,0.5,b\n2.jpg,-3e2,c\n"),
        list(&bench, "label.tsv", "path\tlabel\tname\n0.jpg\t1\ta\n1.jpg\t0.5\tb\n2.jpg\t-300.0\tc\n"),
        list(&bench, "pairs.txt", "0.jpg 1\n1.jpg 0.5\n2.jpg -300\n"),
        list(&bench, "bare.csv", "0.jpg,1\n1.jpg,0.5\n2.jpg,-300\n"),
        list(
            &bench,
            "a.jsonl",
            "{\"path\":\"0.jpg\",\"age\":1}\n{\"path\":\"1.jpg\",\"age\":0.5}\n{\"path\":\"2.jpg\",\"age\":\"-300\"}\n",
        ),
        list(
            &bench,
            "a.json",
            "[{\"path\":\"0.jpg\",\"age\":1},{\"path\":\"1.jpg\",\"age\":0.5},{\"path\":\"2.jpg\",\"age\":-300}]",
        ),
    ];
    let columns = ["age", "label", "label", "2", "age", "age"];
    for (source, column) in sources.iter().zip(columns) {
        for format in ["webdataset", "mds", "tfrecord"] {
            let dst = bench.at(&format!("{}-{format}", source.file_name().unwrap().display()));
            pack(source, &dst, &["--target", column, "--format", format]).code(0).says("target  ").says(": float64[]");
            let name = match column {
                "label" => "labels.npy",
                "2" => Dataset::open(&dst).unwrap().manifest().components.last().unwrap().clone().leak(),
                _ => "age.npy",
            };
            assert_eq!(floats(&dst, name), [1.0, 0.5, -300.0], "{} {format}", source.display());
            verify(&dst, source, &[]);
        }
    }
}

#[test]
fn lists_and_dtypes() {
    let bench = bench();
    let source = list(
        &bench,
        "a.jsonl",
        "{\"path\":\"0.jpg\",\"box\":[[1,2,3,4]],\"n\":7}\n{\"path\":\"1.jpg\",\"box\":[],\"n\":8}\n\
         {\"path\":\"2.jpg\",\"box\":[[1,2,3,4],[5,6,7,8]],\"n\":9}\n",
    );
    pack(&source, &bench.dst(), &["--target", "box:float32,n:uint8"]).code(0);
    let boxes = items(&bench.dst(), "box.npy");
    let forms: Vec<_> = boxes.values().map(|(form, _)| form.as_str()).collect();
    assert_eq!(forms, ["<f4[1x4]", "<f4[0]", "<f4[2x4]"]);
    assert_eq!(boxes["0.jpg"].1, [1f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat());
    assert_eq!(items(&bench.dst(), "n.npy")["2.jpg"], ("|u1[]".to_owned(), vec![9]));
    // Nothing is left for the component json.
    assert!(!Dataset::open(bench.dst()).unwrap().manifest().components.iter().any(|component| component == "json"));
    verify(&bench.dst(), &source, &[]);
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("\"n\":9", "\"n\":6")).unwrap();
    run(&["verify", at(&bench.dst()), "--against", at(&source)])
        .code(1)
        .says("2.jpg")
        .says("the source has another value of component n.npy now");
    fs::write(&source, text).unwrap();
    mend(&bench.dst(), &source);
}

#[test]
fn a_row_without_a_value_is_decided_by_on_missing() {
    let bench = bench();
    let source = list(&bench, "a.csv", "path,age\n0.jpg,1\n1.jpg,\n2.jpg,3\n");
    pack(&source, &bench.at("no"), &["--target", "age"]).code(1).says("line 3: no value in column \"age\"");
    pack(&source, &bench.at("skip"), &["--target", "age", "--on-missing", "skip"]).code(0).says("packed  2 of 3");
    pack(&source, &bench.at("empty"), &["--target", "age", "--on-missing", "empty"]).code(0).says("packed  3 of 3");
    assert_eq!(items(&bench.at("empty"), "age.npy").len(), 2);
    let blank = list(&bench, "blank.csv", "path,age\n0.jpg,1\n1.jpg, \n2.jpg,3\n");
    pack(&blank, &bench.at("blank"), &["--target", "age"]).code(1).says("line 3: no value in column \"age\"");
    for format in ["mds", "tfrecord"] {
        let dst = bench.at(format);
        pack(&blank, &dst, &["--target", "age", "--on-missing", "empty", "--format", format]).code(0);
        run(&["verify", at(&dst), "--quiet", "--against", at(&blank)]).code(0);
    }
    verify(&bench.at("empty"), &source, &[]);
}

#[test]
fn a_row_with_a_bad_value_is_a_bad_sample() {
    let bench = bench();
    let source = list(&bench, "b.csv", "path,age\n0.jpg,1\n1.jpg,x\n2.jpg,3\n");
    let why = "line 3, column \"age\": \"x\" is no number";
    pack(&source, &bench.at("x"), &["--target", "age"]).code(1).says(why);
    assert!(!bench.at("x").join("manifest.json").exists());
    let skip = ["--target", "age", "--on-bad", "skip"];
    pack(&source, &bench.dst(), &skip).code(0).says("packed  2 of 3").says(why);
    let form = |value: i64| ("<i8[]".to_owned(), value.to_le_bytes().to_vec());
    assert_eq!(items(&bench.dst(), "age.npy"), [("0.jpg".to_owned(), form(1)), ("2.jpg".to_owned(), form(3))].into());
    let words = list(&bench, "c.csv", "path,age\n0.jpg,a\n1.jpg,b\n");
    let what = "--target age: no row has a number or a list of numbers; line 2, column \"age\": \"a\" is no number";
    pack(&words, &bench.at("words"), &skip).code(2).clean_error().says(what);
}

#[test]
fn a_target_may_have_another_name_than_its_column() {
    let bench = bench();
    let source = list(&bench, "a.csv", "path,age\n0.jpg,1\n1.jpg,0.5\n2.jpg,-300\n");
    pack(&source, &bench.dst(), &["--target", "years=age:float32"]).code(0).says("target  years: float32[]");
    assert_eq!(items(&bench.dst(), "years.npy")["1.jpg"], ("<f4[]".to_owned(), 0.5f32.to_le_bytes().to_vec()));
    verify(&bench.dst(), &source, &[]);
    for (target, what) in [("=age", "--target =age"), ("cls=age", "the component cls is the label")] {
        pack(&source, &bench.at("no"), &["--target", target]).code(2).clean_error().says(what);
    }
}

#[test]
fn parts_plans_and_splits_have_the_same_arrays() {
    let bench = bench();
    let source = list(&bench, "a.csv", "path,age,split\n0.jpg,1,train\n1.jpg,2,val\n2.jpg,3.5,train\n");
    pack(&source, &bench.dst(), &["--target", "age"]).code(0);
    assert_eq!(floats(&bench.dst().join("val"), "age.npy"), [2.0]);
    let plan = bench.at("plan");
    run(&[
        "plan",
        at(&source),
        at(&bench.at("planned")),
        "--root",
        at(&bench.src()),
        "--target",
        "age",
        "--output",
        at(&plan),
    ])
    .code(0);
    run(&["pack", "--plan", at(&plan), at(&bench.at("planned"))]).code(0);
    assert_eq!(contents(&bench.at("planned")), contents(&bench.dst()));
}

#[test]
fn lists_of_splits_have_one_dtype() {
    let bench = bench();
    let a = list(&bench, "a.csv", "path,age\n0.jpg,1\n");
    let b = list(&bench, "b.csv", "path,age\n1.jpg,2.5\n");
    let splits = [format!("a={}", at(&a)), format!("b={}", at(&b))];
    let both = |target: &str| {
        run(&["pack", "--split", &splits[0], "--split", &splits[1], at(&bench.dst()), "--target", target])
    };
    both("age").code(2).says("the numbers of age.npy have another dtype in one split");
    both("age:float32").code(0);
    assert_eq!(items(&bench.dst().join("a"), "age.npy")["0.jpg"], ("<f4[]".to_owned(), 1f32.to_le_bytes().to_vec()));
}
