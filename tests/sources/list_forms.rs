//! Tests the forms of published lists: separators, ids, leading slashes, lines at the top, pairs.

use std::{collections::BTreeSet, fs, path::Path};

use shardpack_testing::{
    Bench, jpeg,
    lists::{list, one, pack, samples, text},
    run,
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

#[test]
fn ids_get_the_extension_of_their_only_file() {
    let bench = bench();
    let root = bench.src();
    fs::rename(root.join("w3.jpg"), root.join("w3.JPEG")).unwrap();
    let id = "paths without an extension got one";
    let table = [
        ("ids.csv", rows("lesion,image_id,dx\n", "L#,w#,nv"), None, Some(r#"{"lesion":"L0","dx":"nv"}"#)),
        ("headless.csv", rows("", "L#,w#,nv"), Some("nv"), Some(r#"{"column_1":"L0"}"#)),
        ("ids.tsv", rows("", "w#\ta, b"), Some("a, b"), None),
        ("bars.csv", rows("", "w#|a, b|c"), Some("a, b"), Some(r#"{"column_3":"c"}"#)),
        ("ids.txt", rows("", "w#"), None, None),
        ("words.txt", rows("#Image CLASS ID\n#more\n", "w# x 1 2"), Some("x"), Some(r#"{"column_3":1,"column_4":2}"#)),
        ("slash.txt", rows("", "/w# x"), Some("x"), None),
    ];
    for (name, lines, label, json) in table {
        let said = packed(&bench, &list(&bench, name, &lines), &[]);
        assert!(said.contains(&format!("4 {id}: .JPEG (1), .jpg (3)")), "{name}: {said}");
        let found = samples(&bench.dst());
        assert_eq!(found.keys().collect::<Vec<_>>(), ["w0.jpg", "w1.jpg", "w2.jpg", "w3.JPEG"], "{name}");
        let first = one(&found, "w0.jpg");
        assert_eq!((first.1.as_deref(), text(first, "json").as_deref()), (label, json), "{name}");
    }
    let ids = root.join("ids.csv");
    let json = pack(&ids, &bench.at("json"), &["--json"]).code(0).json();
    assert!(json["notes"].to_string().contains(id), "{json}");
    // The second file of an id, wherever the id is in the list.
    bench.file("w2.png", b"x");
    let ran = pack(&ids, &bench.at("two"), &[]).code(2).clean_error();
    ran.says("line 4: path \"w2\" has two files: w2.jpg and w2.png");
}

#[test]
fn a_leading_slash_is_the_root_if_the_file_is_there() {
    let bench = Bench::with(&["img/w0.jpg", "img/w1.jpg", "img/w2.jpg", "img/w3.jpg"]);
    let lines = list(&bench, "slash.txt", &rows("", "/img/w#.jpg 0"));
    let table = list(&bench, "slash.csv", &rows("path,label\n", "/img/w#.jpg,a"));
    let elsewhere = bench.at("slash.txt");
    fs::copy(&lines, &elsewhere).unwrap();
    let root = bench.src();
    for (list, options) in [(&lines, &[][..]), (&table, &[]), (&elsewhere, &["--root", root.to_str().unwrap()])] {
        let said = packed(&bench, list, options);
        assert!(said.contains("paths begin with a slash: they are relative to"), "{said}");
        assert!(samples(&bench.dst()).contains_key("img/w0.jpg"));
    }
    // A path below the root is that path.
    let absolute = rows("path\n", &format!("{}/img/w#.jpg", root.display()));
    let said = packed(&bench, &list(&bench, "absolute.csv", &absolute), &[]);
    assert!(!said.contains("slash"), "{said}");
    // A column of files as they are spelled comes first.
    let second = list(&bench, "second.csv", &rows("", "/img/w#.jpg,img/w#.jpg"));
    assert!(packed(&bench, &second, &[]).contains("columns: path column_2"));
    let gone = list(&bench, "gone.txt", "/img/gone.jpg 0\n/img/w0.jpg 0\n");
    pack(&gone, &bench.at("gone"), &[]).code(2).clean_error().says("line 1: path \"/img/gone.jpg\" leads out of");
    let out = list(&bench, "out.txt", "/img/w0.jpg 0\n/../w0.jpg 0\n");
    pack(&out, &bench.at("out"), &[]).code(2).clean_error().says("line 2: path \"/../w0.jpg\" leads out of");
}

#[test]
fn lines_above_the_rows_are_left_out_and_named() {
    let bench = bench();
    let table = [
        ("comments.txt", rows("# path label\n#\n", "w#.jpg a"), Some("a"), None, "2 that begin with #"),
        ("comments.csv", rows("# made by x\npath,label\n", "w#.jpg,a"), Some("a"), None, "1 that begin with #"),
        (
            "attributes.txt",
            rows("4\nBig_Lips Male \n", "w#.jpg -1  1"),
            None,
            Some(r#"{"Big_Lips":-1,"Male":1}"#),
            "the number of rows, 4",
        ),
        (
            "boxes.txt",
            rows("5\nimage_id x_1 y_1\n", "w#.jpg    7   8"),
            None,
            Some(r#"{"x_1":7,"y_1":8}"#),
            "the number of rows, 5, which the list does not have: it has 4",
        ),
    ];
    for (name, lines, label, json, note) in table {
        let said = packed(&bench, &list(&bench, name, &lines), &[]);
        assert!(said.contains(&format!("lines above the rows are left out: {note}")), "{name}: {said}");
        let found = samples(&bench.dst());
        let first = one(&found, "w0.jpg");
        assert_eq!((first.1.as_deref(), text(first, "json").as_deref()), (label, json), "{name}");
    }
    // An error names the line of the file, and a file may begin with `#`.
    let short = list(&bench, "short.csv", "# x\npath,label\nw0.jpg,a\nw1.jpg,a\nw2.jpg,a\nw3.jpg\n");
    pack(&short, &bench.at("short"), &[]).code(1).clean_error().says("line 6: 1 fields");
    bench.file("#0.jpg", &fs::read(bench.src().join("w0.jpg")).unwrap());
    let hash = list(&bench, "hash.txt", "#0.jpg a\nw1.jpg a\nw2.jpg a\nw3.jpg a\n");
    assert!(!packed(&bench, &hash, &[]).contains("left out"));
}

#[test]
fn texts_in_quotes_after_a_comma_lose_their_quotes() {
    let bench = bench();
    let list = list(&bench, "gt.txt", &rows("\u{feff}", r#"w#.jpg, "a, \"b\" \\ #""#));
    packed(&bench, &list, &[]);
    assert_eq!(one(&samples(&bench.dst()), "w0.jpg").1.as_deref(), Some(r#"a, "b" \ 0"#));
    packed(&bench, &list, &["--no-labels"]);
    let json = text(one(&samples(&bench.dst()), "w0.jpg"), "json").unwrap();
    assert_eq!(json, r#"{"label":"a, \"b\" \\ 0"}"#);
    let broken = self::list(&bench, "broken.txt", &(rows("", r#"w#.jpg, "a""#) + "w0.jpg, a\n"));
    pack(&broken, &bench.at("broken"), &[]).code(1).clean_error().says("line 5: not path, \"text\"");
}

#[test]
fn rows_with_a_class_each_have_a_note() {
    let bench = bench();
    let own = "each of 4 rows is a class of its own: if labels are ids or texts, --no-labels";
    for (lines, is_own) in [("w#.jpg\tHello, #", true), ("w#.jpg\ta\tb#", false), ("#\tw#.jpg", true)] {
        let list = list(&bench, "own.txt", &rows("", lines));
        assert_eq!(packed(&bench, &list, &[]).contains(own), is_own, "{lines}");
        assert!(!packed(&bench, &list, &["--no-labels"]).contains(own), "{lines}");
    }
}

#[test]
fn a_number_above_ids_is_an_id_if_an_image_has_this_name() {
    let bench = Bench::with(&["139.jpg", "285_b.jpg", "632.jpg", "3.jpg"]);
    for lines in ["139\n285_b\n632\n", "139\r\n285_b\r\n632\r\n", "# ids\n139\n285_b\n632\n"] {
        let list = list(&bench, "ids.txt", lines);
        let dst = bench.at("ids");
        pack(&list, &dst, &[]).code(0).says("packed  3 of 3 images");
        fs::remove_dir_all(dst).unwrap();
    }
    // Above paths with extensions, it is the number of rows.
    let list = list(&bench, "paths.txt", "3\n139.jpg 1\n285_b.jpg 2\n632.jpg 1\n");
    pack(&list, &bench.at("paths"), &[]).code(0).says("packed  3 of 3 images").says("the number of rows, 3");
}

#[test]
fn lines_of_paths_and_labels_may_have_a_header() {
    let bench = Bench::with(&["1.jpg", "2.jpg"]);
    for (name, top) in [("deepfashion.txt", "2\nimage  category_label\n"), ("known.txt", "\n\r\nfilename label\n")] {
        let list = list(&bench, name, &format!("{top}1.jpg   3\n2.jpg   26\n"));
        let dst = bench.at(name);
        pack(&list, &dst, &[]).code(0).says("packed  2 of 2 images").says("the names of the columns");
        let labels: BTreeSet<Option<i64>> = samples(&dst).into_values().flatten().map(|sample| sample.0).collect();
        assert_eq!(labels, [Some(3), Some(26)].into(), "{name}");
        run(&["verify", dst.to_str().unwrap(), "--against", list.to_str().unwrap()]).code(0);
    }
    // A first line that is nothing of that is an image that is missing.
    let list = list(&bench, "gone.txt", "gone.jpg 1\n1.jpg 2\n");
    pack(&list, &bench.at("gone"), &[]).code(1).says("gone.jpg");
}

#[test]
fn a_first_row_whose_image_is_missing_is_no_header() {
    let bench = bench();
    for (name, row) in [("gone.csv", "w#.jpg,c#"), ("gone.tsv", "w#.jpg\tc#")] {
        let list = list(&bench, name, &rows(&(row.replace('#', "7").replace('w', "gone") + "\n"), row));
        let ran = pack(&list, &bench.at("dst"), &[]);
        ran.code(2).says("no column of paths: it has gone7.jpg").says("--path-column");
        // By its number, the column has a path in the first line, too.
        pack(&list, &bench.at("dst"), &["--path-column", "1"]).code(1).says("gone7.jpg");
    }
}

#[test]
fn a_text_after_the_first_comma_may_have_commas() {
    let bench = bench();
    let said = "fields are separated by the first comma of a line";
    for name in ["captions.txt", "captions.csv"] {
        let lines =
            rows("image,caption\n", "w#.jpg,A child , number # .") + "w0.jpg,\"A quoted, \"\"x\"\"\"\nw1.jpg,None\n";
        let captions = list(&bench, name, &lines);
        let dst = bench.at(&format!("{name}.out"));
        pack(&captions, &dst, &[]).code(0).says("packed  6 of 6 images").says(said).says("no labels");
        let found = samples(&dst);
        let texts: Vec<_> = found["w0.jpg"].iter().map(|sample| text(sample, "json").unwrap()).collect();
        assert!(texts.contains(&r#"{"caption":"A child , number 0 ."}"#.to_owned()), "{name}: {texts:?}");
        assert!(texts.contains(&r#"{"caption":"A quoted, \"x\""}"#.to_owned()), "{name}: {texts:?}");
        shardpack_testing::lists::verify(&dst, &captions, &[]);
    }
    // Three columns, or a path behind: a row has fields too many.
    for (name, lines) in [
        ("three.csv", rows("image,a,caption\n", "w#.jpg,1,A child , number #")),
        ("behind.csv", rows("caption,image\n", "A child , number #,w#.jpg")),
    ] {
        pack(&list(&bench, name, &lines), &bench.at(name), &[]).code(1).clean_error().says("line 2: ");
    }
}

#[test]
fn a_number_behind_a_path_is_left_out_if_the_file_is_there_without_it() {
    let bench = bench();
    let lines: String = (0..8).map(|n| format!("w{}.jpg#{}\tA child , number {n} .\n", n / 2, n % 2)).collect();
    let captions = list(&bench, "token.txt", &lines);
    let ran = pack(&captions, &bench.dst(), &[]).code(0).says("packed  8 of 8 images");
    ran.says("paths end in a number, which is left out: w0.jpg#0").says("no labels");
    let found = samples(&bench.dst());
    assert_eq!(found.keys().collect::<Vec<_>>(), ["w0.jpg", "w1.jpg", "w2.jpg", "w3.jpg"]);
    assert_eq!(text(&found["w3.jpg"][0], "json").unwrap(), r#"{"column_2":"A child , number 6 ."}"#);
    shardpack_testing::lists::verify(&bench.dst(), &captions, &[]);
    // A file may have such a name.
    bench.file("x.jpg#1", &fs::read(bench.src().join("w0.jpg")).unwrap());
    bench.file("x.jpg", &fs::read(bench.src().join("w1.jpg")).unwrap());
    let own = list(&bench, "own.csv", "path,label\nx.jpg#1,a\n");
    pack(&own, &bench.at("own"), &[]).code(0);
    assert_eq!(samples(&bench.at("own")).keys().collect::<Vec<_>>(), ["x.jpg#1"]);
}

#[test]
fn ids_of_sounds_get_their_extension() {
    let bench = Bench::new();
    for number in 0..4 {
        bench.file(format!("wavs/LJ-{number}.wav"), format!("RIFF {number}").as_bytes());
        bench.file(format!("wavs/LJ-{number}.txt"), b"no sound");
    }
    let speech = list(&bench, "metadata.csv", &rows("", "LJ-#|Text \"number\" #, of 1866|Text number #, of words"));
    let root = bench.src().join("wavs");
    let options = ["--root", root.to_str().unwrap(), "--no-labels"];
    let ran = pack(&speech, &bench.dst(), &options).code(0).says("packed  4 of 4 ");
    ran.says("4 paths without an extension got one: .wav (4)");
    // An image of the same name comes first, and two sounds are a question.
    let mixed = Bench::with(&["a.jpg", "b.jpg"]);
    mixed.file("a.wav", b"RIFF");
    let ids = list(&mixed, "ids.csv", "path,label\na,x\nb,y\n");
    pack(&ids, &mixed.dst(), &[]).code(0).says("got one: .jpg (2)");
    bench.file("wavs/LJ-2.flac", b"fLaC");
    let ran = pack(&speech, &bench.at("two"), &options).code(2).clean_error();
    ran.says("line 3: path \"LJ-2\" has two files: LJ-2.flac and LJ-2.wav")
        .says("write folder and extension of each path");
}

#[test]
fn a_column_of_folds_is_the_folder_of_the_files() {
    let bench = Bench::with(&["fold1/10-0.jpg", "fold2/11-1.jpg", "fold2/12-2.jpg"]);
    let lines = "slice_file_name,fsID,fold,classID,class\n10-0.jpg,10,1,2,siren\n11-1.jpg,11,2,0,drilling\n12-2.jpg,12,2,2,siren\n";
    let urban = list(&bench, "urban.csv", lines);
    let ran = pack(&urban, &bench.dst(), &[]).code(0).says("files are in folders of the column fold: fold1/10-0.jpg");
    ran.says("path slice_file_name; label classID; class class");
    let found = samples(&bench.dst());
    assert_eq!(found.keys().collect::<Vec<_>>(), ["fold1/10-0.jpg", "fold2/11-1.jpg", "fold2/12-2.jpg"]);
    let classes: Vec<_> = found.values().map(|samples| samples[0].1.clone().unwrap()).collect();
    assert_eq!(classes, ["siren", "drilling", "siren"]);
    shardpack_testing::lists::verify(&bench.dst(), &urban, &[]);
    // Files in the root, and a row whose file is missing in its folder.
    let flat = Bench::with(&["a.jpg", "fold1/a.jpg"]);
    let folds = list(&flat, "folds.csv", "filename,fold,label\na.jpg,1,x\n");
    pack(&folds, &flat.dst(), &[]).code(0);
    assert_eq!(samples(&flat.dst()).keys().collect::<Vec<_>>(), ["a.jpg"]);
    fs::remove_file(bench.src().join("fold2/12-2.jpg")).unwrap();
    pack(&urban, &bench.at("gone"), &[]).code(1).says("fold2/12-2.jpg: cannot be read");
}

#[test]
fn the_category_of_a_coco_image_is_its_label_on_request() {
    let bench = Bench::with(&["a/0.jpg", "a/1.jpg", "b/2.jpg"]);
    let coco = |annotations: &str, categories: &str| {
        let image =
            |number: usize| format!(r#"{{"id":{number},"file_name":"{}/{number}.jpg"}}"#, ["a", "a", "b"][number]);
        let images: Vec<String> = (0..3).map(image).collect();
        format!(r#"{{"images":[{}],"annotations":[{annotations}],"categories":[{categories}]}}"#, images.join(","))
    };
    let of = |pairs: &[(u32, u32)]| {
        let one = |(image, category): &(u32, u32)| format!(r#"{{"image_id":{image},"category_id":{category}}}"#);
        pairs.iter().map(one).collect::<Vec<_>>().join(",")
    };
    let categories = r#"{"id":0,"name":"Turdus"},{"id":1,"name":"7"},{"id":2,"name":"Corvus"}"#;
    let label = ["--label-column", "category_id"];
    let inat = list(&bench, "train.json", &coco(&of(&[(0, 2), (1, 1), (2, 2), (2, 2)]), categories));
    pack(&inat, &bench.dst(), &label).code(0).says("3 images in 3 classes").says("label category_id");
    let found = samples(&bench.dst());
    let classes: Vec<_> = found.values().map(|samples| samples[0].1.clone().unwrap()).collect();
    assert_eq!(classes, ["Corvus", "7", "Corvus"]);
    assert!(text(&found["a/0.jpg"][0], "json").unwrap().contains(r#""annotations":[{"image_id":0,"category_id":2}]"#));
    shardpack_testing::lists::verify(&bench.dst(), &inat, &label);
    pack(&inat, &bench.at("none"), &[]).code(0).says("without labels");
    for (name, annotations, categories, said) in [
        ("several", of(&[(0, 2), (0, 1)]), categories, "image a/0.jpg has several categories, 7 and Corvus"),
        ("none", of(&[(0, 2), (1, 1)]), categories, "b/2.jpg: no label"),
        ("unnamed", of(&[(0, 2)]), r#"{"id":2}"#, "category 0, counted from 0, has no name"),
        (
            "twice",
            of(&[(0, 2), (1, 2), (2, 2)]),
            r#"{"id":2,"name":"a"},{"id":3,"name":"a"}"#,
            "the name of two classes",
        ),
    ] {
        let list = list(&bench, &format!("{name}.json"), &coco(&annotations, categories));
        let ran = pack(&list, &bench.at(&format!("{name}.out")), &label);
        assert_ne!(ran.code, 0, "{name}");
        ran.says(said);
    }
    let ran = pack(&inat, &bench.at("other"), &["--label-column", "category"]).code(2);
    ran.says("COCO has no columns").says("--label-column category_id takes the category of each image");
}

#[test]
fn a_list_is_read_as_it_was_packed_when_files_are_gone() {
    let sounds = |bench: &Bench| (0..6).for_each(|number| bench.file(format!("wavs/LJ-{number}.wav"), b"RIFF"));
    let images = |bench: &Bench| (0..6).for_each(|number| bench.file(format!("{number}.x.jpg"), &jpeg(number, 5000)));
    let bare = |bench: &Bench| (0..6).for_each(|number| bench.file(format!("img {number}"), &jpeg(number, 5000)));
    type Files = fn(&Bench);
    let cases: [(&str, Files, &str, &str, &str, &[&str]); 6] = [
        ("ids between bars", sounds, "metadata.csv", "LJ-%|Text %, of|Text %", "wavs/LJ-%.wav", &["--no-labels"]),
        ("paths without a header", images, "a.csv", "%.x.jpg;class %", "%.x.jpg", &["--no-labels"]),
        ("paths with blanks", bare, "b.txt", "img % 1", "img %", &[]),
        ("names without a dot", bare, "c.csv", "img %\tx", "img %", &[]),
        ("paths with a slash", images, "d.txt", "/%.x.jpg x", "%.x.jpg", &[]),
        ("paths with a number", images, "e.txt", "%.x.jpg#0\ttext %", "%.x.jpg", &["--no-labels"]),
    ];
    for (name, files, list_name, line, file, options) in cases {
        let bench = Bench::new();
        files(&bench);
        let lines: String = (0..6).map(|number| line.replace('%', &number.to_string()) + "\n").collect();
        let path = list(&bench, list_name, &lines);
        let root = if line.starts_with("LJ") { bench.src().join("wavs") } else { bench.src() };
        let root = root.to_str().unwrap();
        let dst = bench.dst();
        let ran = pack(&path, &dst, &[&["--root", root][..], options].concat());
        ran.code(0).says("6 of 6");
        let (dst, path) = (dst.to_str().unwrap(), path.to_str().unwrap());
        let verify = |option: &str| run(&["verify", dst, option, path, "--root", root, "--json"]);
        assert_eq!(verify("--against").code(0).json()["problems"], serde_json::json!([]), "{name}");
        // The first lines, whose files decided the form, and one more.
        for number in [0, 1, 4] {
            fs::remove_file(bench.src().join(file.replace('%', &number.to_string()))).unwrap();
        }
        let document = verify("--against").code(1).json();
        let problems = document["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 3, "{name}: {document}");
    }
}
