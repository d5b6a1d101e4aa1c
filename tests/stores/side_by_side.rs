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

#[test]
fn files_that_a_column_names_come_from_a_url_as_from_a_folder() {
    let bench = Bench::new();
    let mut rows = "path,label,mask\n".to_owned();
    for number in 0..6u64 {
        bench.file(format!("images/{number}.jpg"), &jpeg(number, 5000));
        bench.file(format!("masks/m{}.png", 9 - number), format!("mask {number}").as_bytes());
        let name = if number == 4 { "gone".to_owned() } else { format!("m{}", 9 - number) };
        rows += &format!("images/{number}.jpg,{},masks/{name}.png\n", number % 2);
    }
    let list = bench.at("list.csv");
    fs::write(&list, rows).unwrap();
    let (tree, list) = (bench.src().to_str().unwrap().to_owned(), list.to_str().unwrap().to_owned());
    let ran = |root: &str, name: &str, more: &[&str], settings: &[String]| {
        let dst = bench.at(name);
        let words = [&["pack", &list, dst.to_str().unwrap(), "--root", root, "--shards", "2"], more].concat();
        let words: Vec<_> = words.into_iter().chain(settings.iter().map(String::as_str)).collect();
        (run(&words, &[]), dst)
    };
    let options = ["--file-column", "mask", "--on-bad", "skip"];
    let (packed, local) = ran(&tree, "local", &options, &[]);
    packed.code(0).says("its mask.png is missing: masks/gone.png");
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        let (url, settings) = (server.url("tree"), settings(server, server.port()));
        let kind = format!("{:?}", server.kind);
        let (asked, _) = ran(&url, &kind, &[], &settings);
        asked.code(2).says("column mask names files, such as masks/m9.png");
        let (packed, dst) = ran(&url, &kind, &options, &settings);
        packed.code(0);
        same(&files_in(&local), &files_in(&dst), &kind);
        let words = ["verify", dst.to_str().unwrap(), "--against", &list, "--root", &url];
        let words: Vec<_> = words.into_iter().chain(settings.iter().map(String::as_str)).collect();
        run(&words, &[]).code(0);
    });
}

#[test]
fn boxes_from_label_files_at_a_url_are_those_of_the_folder() {
    let bench = Bench::new();
    for number in 0..9u64 {
        let split = if number % 3 == 0 { "val" } else { "train" };
        bench.file(format!("images/{split}/{number}.jpg"), &jpeg(number, 5000));
        let object = format!("{number} 0.5 0.25 0.125 0.5\n");
        bench.file(format!("labels/{split}/{number}.txt"), object.repeat(number as usize % 4).as_bytes());
    }
    let options = [
        "--no-labels",
        "--splits",
        "images/{split}",
        "--with",
        "boxes=yolo:../../labels/{parent}/*.txt",
        "--shards",
        "2",
    ];
    let pack = |src: &str, name: &str, settings: &[String]| {
        let dst = bench.at(name);
        let words = [&["pack", src, dst.to_str().unwrap()], &options[..]].concat();
        let words: Vec<_> = words.into_iter().chain(settings.iter().map(String::as_str)).collect();
        run(&words, &[]).code(0).says("targets: boxes float32[n,4]");
        files_in(&dst)
    };
    let local = pack(bench.src().to_str().unwrap(), "local", &[]);
    each(|server| {
        server.put_folder(&bench.src(), "yolo");
        let (url, settings) = (server.url("yolo"), settings(server, server.port()));
        // A folder of images and labels is recognised there, too.
        let asked: Vec<_> = ["pack", &url, "nowhere"].into_iter().chain(settings.iter().map(String::as_str)).collect();
        run(&asked, &[]).code(2).says("a YOLO dataset").says("--splits 'images/{split}'");
        let kind = format!("{:?}", server.kind);
        same(&local, &pack(&url, &kind, &settings), &kind);
        let words: Vec<_> = ["verify", bench.at(&kind).to_str().unwrap(), "--against", &url]
            .into_iter()
            .map(str::to_owned)
            .chain(settings.iter().cloned())
            .collect();
        run(&words, &[]).code(0);
    });
}

#[test]
fn boxes_from_files_with_names_of_classes_at_a_url_are_those_of_the_folder() {
    const VOC: &str = "<annotation><object><name>NAME</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object></annotation>";
    let bench = Bench::new();
    let (mut images, mut annotations) = (Vec::new(), Vec::new());
    for number in 0..6u64 {
        bench.file(format!("voc/train/{number}.jpg"), &jpeg(number, 5000));
        bench.file(
            format!("voc/train/{number}.xml"),
            VOC.replace("NAME", ["dog", "cat"][number as usize % 2]).as_bytes(),
        );
        bench.file(format!("coco/train/{number}.jpg"), &jpeg(number, 5000));
        images.push(format!(r#"{{"id": {number}, "file_name": "{number}.jpg"}}"#));
        annotations.push(format!(r#"{{"image_id": {number}, "category_id": 7, "bbox": [1, 2, {number}, 4]}}"#));
    }
    let (images, annotations) = (images.join(","), annotations.join(","));
    let list = format!(
        r#"{{"images": [{images}], "annotations": [{annotations}], "categories": [{{"id": 7, "name": "a"}}]}}"#
    );
    bench.file("coco/train/_annotations.coco.json", list.as_bytes());
    for (layout, with) in [("voc", "boxes=voc:*.xml"), ("coco", "boxes=coco:_annotations.coco.json")] {
        let pack = |src: &str, name: &str, settings: &[String]| {
            let dst = bench.at(&format!("{layout}-{name}"));
            let words = ["pack", src, dst.to_str().unwrap(), "--no-labels", "--splits", "train", "--with", with];
            let words: Vec<_> = words.into_iter().chain(settings.iter().map(String::as_str)).collect();
            run(&words, &[]).code(0).says("6 objects in 6 images");
            files_in(&dst)
        };
        let local = pack(bench.src().join(layout).to_str().unwrap(), "local", &[]);
        each(|server| {
            server.put_folder(&bench.src().join(layout), layout);
            let (url, settings) = (server.url(layout), settings(server, server.port()));
            let asked: Vec<_> =
                ["pack", &url, "nowhere"].into_iter().chain(settings.iter().map(String::as_str)).collect();
            run(&asked, &[]).code(2).says(with.split_once(':').unwrap().0);
            let kind = format!("{:?}", server.kind);
            same(&local, &pack(&url, &kind, &settings), &kind);
            let dst = bench.at(&format!("{layout}-{kind}"));
            let words = ["verify", dst.to_str().unwrap(), "--against", &url].map(str::to_owned);
            run(&words.into_iter().chain(settings.iter().cloned()).collect::<Vec<_>>(), &[]).code(0);
        });
    }
}
