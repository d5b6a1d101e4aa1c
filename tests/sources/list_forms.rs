//! Tests the forms of published lists: separators, ids, leading slashes, lines at the top, pairs.

use std::{fs, path::Path};

use shardpack_testing::{
    Bench,
    lists::{list, one, pack, samples, text},
};

fn bench() -> Bench {
    Bench::with(&["w0.jpg", "w1.jpg", "w2.jpg", "w3.jpg"])
}

/// The list with `row` once for each image, with its number in the place of `#`.
fn rows(header: &str, row: &str) -> String {
    let rows = (0..4).map(|number| row.replace('#', &number.to_string()) + "\n");
    header.to_owned() + &rows.collect::<String>()
}

/// Packs a list and returns its output.
fn packed(bench: &Bench, list: &Path, options: &[&str]) -> String {
    if bench.dst().exists() {
        fs::remove_dir_all(bench.dst()).unwrap();
    }
    let ran = pack(list, &bench.dst(), options).code(0).says("packed  4 of 4 images");
    format!("{}{}", ran.stdout, ran.stderr)
}

#[test]
fn the_separator_is_one_that_gives_a_file() {
    let bench = bench();
    // Name, lines, label of the first image, its text.
    let table = [
        ("one.txt", rows("", "w#.jpg\tHello, #"), Some("Hello, 0"), None),
        ("one.tsv", rows("", "w#.jpg\tHello, #"), Some("Hello, 0"), None),
        ("two.tsv", rows("", "w#.jpg\tA, b, c #"), Some("A, b, c 0"), None),
        ("semi.txt", rows("", "w#.jpg\ta; b#"), Some("a; b0"), None),
        ("header.tsv", rows("path\ttext, as read\n", "w#.jpg\tA, b #"), None, Some(r#"{"text, as read":"A, b 0"}"#)),
        ("header.csv", rows("path\ttext, as, read\n", "w#.jpg\tA b #"), None, Some(r#"{"text, as, read":"A b 0"}"#)),
        ("last.tsv", rows("", "A, b #\tw#.jpg"), Some("A, b 0"), None),
        ("comma.csv", rows("", "w#.jpg,a; b; c#"), Some("a; b; c0"), None),
        ("semicolon.csv", rows("", "w#.jpg;a, b, c#"), Some("a, b, c0"), None),
        ("comma.txt", rows("image,label\n", "w#.jpg,a b"), Some("a b"), None),
        ("bar.csv", rows("", "w#.jpg|a \"b\", c#"), Some("a \"b\", c0"), None),
        ("bar.txt", rows("", "w#.jpg|\"a b|c#"), Some("\"a b"), Some(r#"{"column_3":"c0"}"#)),
        ("blank.csv", rows("", "w#.jpg a"), Some("a"), None),
    ];
    for (name, lines, label, json) in table {
        let list = list(&bench, name, &lines);
        packed(&bench, &list, &[]);
        let found = samples(&bench.dst());
        let first = one(&found, "w0.jpg");
        assert_eq!((first.1.as_deref(), text(first, "json").as_deref()), (label, json), "{name}");
    }
}

#[test]
fn the_separator_of_the_first_line_stays_if_it_gives_a_file_or_if_none_does() {
    let bench = bench();
    bench.file("a,b.jpg", &fs::read(bench.src().join("w0.jpg")).unwrap());
    // Commas are no separators here: no field between them is a file.
    pack(&list(&bench, "name.csv", "a,b.jpg\n"), &bench.at("name"), &["--quiet"]).code(0);
    assert_eq!(samples(&bench.at("name")).keys().collect::<Vec<_>>(), ["a,b.jpg"]);
    for (name, lines, said) in [
        ("gone.csv", "gone.jpg\tA, b\n", "no column of paths: it has gone.jpg"),
        ("tabs.tsv", "gone.jpg\tw0.jpg, b\n", "no column of paths: it has gone.jpg, w0.jpg, b"),
        ("gone.txt", "gone.jpg;x y\n", "can be packed: gone.jpg;x: cannot be read"),
    ] {
        let ran = pack(&list(&bench, name, lines), &bench.at(name), &[]).clean_error();
        ran.says(said);
    }
    // The result names a separator that the first line does not suggest.
    let tabs = list(&bench, "tabs.txt", &rows("", "w#.jpg\tHello, #"));
    let ran = pack(&tabs, &bench.at("json"), &["--json"]).code(0).json();
    let note = "fields are separated by tabs: a field of the first lines is a file then";
    assert!(ran["notes"].as_array().unwrap().iter().any(|found| found == note), "{ran}");
    // The first line decides, if a field is a file by either.
    let both = list(&bench, "both.csv", &rows("", "w#.jpg,x;w1.jpg;w2.jpg,y"));
    packed(&bench, &both, &[]);
    assert_eq!(one(&samples(&bench.dst()), "w0.jpg").1.as_deref(), Some("x;w1.jpg;w2.jpg"));
}
