//! `--with` with a path at URLs, on real servers: the output is byte for byte that of the same tree in a folder.

use std::fs;

use shardpack_testing::{
    Bench, jpeg,
    places::{each, files_in, run, same, settings},
};

#[test]
fn files_of_other_folders_go_along_from_a_url_as_from_a_folder() {
    let bench = Bench::new();
    for number in 0..12u64 {
        bench.file(format!("images/{}/{number}.jpg", number % 2), &jpeg(number, 5000));
        if number != 7 {
            bench.file(format!("masks/{}/{number}.png", number % 2), format!("mask {number}").as_bytes());
        }
    }
    let list = bench.at("list.csv");
    let rows: String = (0..12).map(|number| format!("images/{}/{number}.jpg,{}\n", number % 2, number % 3)).collect();
    fs::write(&list, format!("path,label\n{rows}")).unwrap();
    let (tree, list) = (bench.src().to_str().unwrap().to_owned(), list.to_str().unwrap().to_owned());
    let with = ["--with", "mask=../../masks/{parent}/*.png", "--shards", "2"];
    let cases =
        [("skip", ["--on-missing", "skip"]), ("empty", ["--on-missing", "empty"]), ("bad", ["--on-bad", "skip"])];
    let pack = |src: &[&str], name: &str, missing: &[&str], settings: &[String]| {
        let dst = bench.at(name);
        let words = [&["pack"], src, &[dst.to_str().unwrap()], &with, missing, &["--json"]].concat();
        let words: Vec<_> = words.into_iter().chain(settings.iter().map(String::as_str)).collect();
        let report = run(&words, &[]).code(0).json();
        (report["ignored_files"].clone(), report["unpacked"].clone(), files_in(&dst))
    };
    let locals = cases.map(|(name, missing)| {
        let of_tree = pack(&[&tree, "--no-labels"], &format!("tree-{name}"), &missing, &[]);
        (of_tree, pack(&[&list, "--root", &tree], &format!("list-{name}"), &missing, &[]))
    });
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        let (url, settings) = (server.url("tree"), settings(server, server.port()));
        for (number, (name, missing)) in server.turns(cases) {
            let kind = format!("{:?}-{name}", server.kind);
            let (of_tree, of_list) = &locals[number];
            let found = pack(&[&url, "--no-labels"], &format!("tree-{kind}"), &missing, &settings);
            assert_eq!((&found.0, &found.1), (&of_tree.0, &of_tree.1), "{kind}");
            same(&of_tree.2, &found.2, &kind);
            let found = pack(&[&list, "--root", &url], &format!("list-{kind}"), &missing, &settings);
            assert_eq!((&found.0, &found.1), (&of_list.0, &of_list.1), "{kind}");
            same(&of_list.2, &found.2, &kind);
        }
    });
}
