//! Labels in file names: `--label-pattern`, the refusals that propose a pattern, and all kinds of trees.

use std::{fs, path::Path};

use shardpack_testing::{Bench, Dataset, contents, jpeg, name, pack, python, run};

const PETS: [&str; 6] = [
    "Abyssinian_1.jpg",
    "Abyssinian_2.jpg",
    "american_pit_bull_1.jpg",
    "american_pit_bull_12.jpg",
    "Bengal_3.jpg",
    "Bengal_4.jpg",
];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The classes of a dataset, each with the number of its samples.
fn classes(dst: &Path) -> Vec<(String, u64)> {
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(dst.join("manifest.json")).unwrap()).unwrap();
    let of = |class: &serde_json::Value| {
        (class["name"].as_str().unwrap().to_owned(), class["counts"]["packed"].as_u64().unwrap())
    };
    manifest["classes"].as_array().unwrap().iter().map(of).collect()
}

fn verify(dst: &Path, src: &Path) -> shardpack_testing::Ran {
    run(&["verify", text(dst), "--against", text(src)])
}

#[test]
fn labels_are_read_from_names_in_any_folder() {
    let rows: [(&[&str], &str, &[(&str, u64)]); 6] = [
        (&PETS, "{label}_{n}", &[("Abyssinian", 2), ("Bengal", 2), ("american_pit_bull", 2)]),
        (&["cat.0.jpg", "cat.1.jpg", "dog.0.JPG", "dog.1.png"], "{label}.{n}", &[("cat", 2), ("dog", 2)]),
        (&["0001_c1s1_001051_00.jpg", "0002_c1s3_000151_00.jpg"], "{label}_*", &[("0001", 1), ("0002", 1)]),
        (&["a/b/cat-1.jpg", "c/cat-1.jpg", "dog-2.jpg"], "{label}-{n}", &[("cat", 2), ("dog", 1)]),
        (&["cat/dog_1.jpg", "dog/cat_1.jpg", "dog/cat_2.jpg"], "{label}_{n}", &[("cat", 2), ("dog", 1)]),
        (&["1_cat.jpg", "2_dog.jpg", "3_cat.jpg"], "*_{label}", &[("cat", 2), ("dog", 1)]),
    ];
    for (files, pattern, expected) in rows {
        let bench = Bench::with(files);
        bench.pack(&["--label-pattern", pattern]).code(0).says(&format!(
            "{} images in {}",
            files.len(),
            expected.len()
        ));
        let expected: Vec<_> = expected.iter().map(|(class, count)| ((*class).to_owned(), *count)).collect();
        assert_eq!(classes(&bench.dst()), expected, "{pattern}");
        verify(&bench.dst(), &bench.src()).code(0);
        let again = bench.pack(&["--label-pattern", pattern]).code(0);
        assert!(!again.stdout.contains("images in"), "packed again: {}", again.stdout);
    }
}

#[test]
fn a_label_has_the_samples_of_its_names() {
    let bench = Bench::new();
    for (number, file) in PETS.iter().enumerate() {
        bench.file(file, &jpeg(number as u64, 5000 + number));
        bench.file(file.replace(".jpg", ".txt"), file.as_bytes());
    }
    bench.pack(&["--label-pattern", "{label}_{n}", "--with", "txt", "--order", "source"]).code(0);
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(dataset.classes(), ["Abyssinian", "Bengal", "american_pit_bull"]);
    verify(&bench.dst(), &bench.src()).code(0);
    fs::write(bench.src().join("Bengal_3.txt"), "another name").unwrap();
    verify(&bench.dst(), &bench.src()).code(1).says("Bengal_3.jpg");
}

#[test]
fn a_name_that_does_not_match_is_a_bad_image() {
    let bench = Bench::with(&["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "logo.jpg", ".hidden.jpg"]);
    bench.file("_.jpg", &jpeg(9, 5000));
    bench.file("notes", b"no extension");
    bench.file(name(b"\xff.0.jpg"), &jpeg(10, 5000));
    let reason = "its name does not match --label-pattern {label}.{n}";
    let of = |options: &[&'static str]| [&["--label-pattern", "{label}.{n}"], options].concat();
    bench
        .pack(&of(&[]))
        .code(1)
        .says("2 names do not match --label-pattern {label}.{n}, the first: _.jpg")
        .says("2 cannot be packed")
        .says(&format!("logo.jpg: {reason}"))
        .says("nothing is sealed");
    assert!(!bench.dst().join("manifest.json").exists());
    bench.pack(&of(&["--dry-run"])).code(1).says(&format!("logo.jpg: {reason}"));
    bench.pack_to(&bench.at("skipped"), &of(&["--on-bad", "skip"])).code(0).says("2 not packed");
    let ledger = fs::read_to_string(bench.at("skipped/ledger.jsonl")).unwrap();
    assert_eq!(ledger.matches(reason).count(), 2, "{ledger}");
    assert_eq!(Dataset::read(&bench.at("skipped")).classes().len(), 3);
    verify(&bench.at("skipped"), &bench.src()).code(0);
    bench.pack_to(&bench.at("excluded"), &of(&["--exclude", "{logo,_}.jpg"])).code(0).says("2 left out by filters");
    verify(&bench.at("excluded"), &bench.src()).code(0);
    // None matches.
    bench
        .pack_to(&bench.at("none"), &["--label-pattern", "{label}-{n}"])
        .code(1)
        .says("none of 6 images can be packed")
        .says("does not match --label-pattern {label}-{n}");
    assert!(!bench.at("none").exists());
}

#[test]
fn numbers_of_classes_do_not_depend_on_filters() {
    let bench = Bench::with(&PETS);
    bench.file("Cat_1.jpg", b"");
    bench.pack(&["--label-pattern", "{label}_{n}", "--include", "Bengal*"]).code(0).says("left out by filters");
    let expected = [("Abyssinian", 0), ("Bengal", 2), ("Cat", 0), ("american_pit_bull", 0)];
    assert_eq!(classes(&bench.dst()), expected.map(|(class, count)| (class.to_owned(), count)));
}

#[test]
fn splits_share_the_labels_of_names() {
    let files = ["train/cat.0.jpg", "train/cat.1.jpg", "train/dog.0.jpg", "train/dog.1.jpg", "test/cat.2.jpg"];
    let bench = Bench::with(&files);
    bench.file("test/bird.1.jpg", &jpeg(77, 5000));
    bench.file("test/bird.2.jpg", &jpeg(78, 5000));
    let help = "--label-pattern '{label}.{n}' takes labels from names (bird.1.jpg: bird)";
    bench.pack(&[]).code(2).says("test, train look like splits without classes").says(help);
    bench.pack(&["--label-pattern", "{label}.{n}"]).code(0).says("splits train, test");
    for split in ["train", "test"] {
        assert_eq!(Dataset::read(&bench.dst().join(split)).classes(), ["bird", "cat", "dog"]);
    }
    verify(&bench.dst(), &bench.src()).code(0);
    let parts =
        [format!("train={}", text(&bench.src().join("train"))), format!("val={}", text(&bench.src().join("test")))];
    let dst = bench.at("parts");
    let command = ["pack", "--split", &parts[0], "--split", &parts[1], text(&dst), "--label-pattern", "{label}.{n}"];
    run(&command).code(0);
    assert_eq!(Dataset::read(&dst.join("val")).classes(), ["bird", "cat", "dog"]);
    // Random splits.
    let dst = bench.at("random");
    let options = ["--label-pattern", "{label}.{n}", "--splits", "none", "--split-fraction", "val=0.4"];
    bench.pack_to(&dst, &options).code(0).says("splits");
    verify(&dst, &bench.src()).code(0);
}

#[test]
fn another_pattern_is_another_plan() {
    let bench = Bench::with(&["a_b_1.jpg", "a_c_2.jpg", "d_b_3.jpg"]);
    bench.pack(&["--label-pattern", "{label}_{n}"]).code(0);
    let said = "--label-pattern: was {label}_{n}, is now {label}_*";
    bench.pack(&["--label-pattern", "{label}_*"]).code(2).says(said);
    bench.pack(&["--no-labels"]).code(2).says("--label-pattern: was {label}_{n}, is now none");
    // An unfinished pack.
    let bench = Bench::with(&["a_b_1.jpg", "a_c_2.jpg", "d_b_3.jpg"]);
    bench.file("a_x_9.jpg", b"");
    bench.pack(&["--label-pattern", "{label}_{n}"]).code(1);
    bench.pack(&["--label-pattern", "{label}_*"]).code(2).says(said);
    let plan = bench.at("plan");
    run(&["plan", text(&bench.src()), "--label-pattern", "{label}_*", "-o", text(&plan)]).code(0);
    run(&["pack", "--plan", text(&plan), text(&bench.dst())]).code(2).says(said);
    run(&["pack", "--plan", text(&plan), text(&bench.at("new")), "--on-bad", "skip"]).code(0);
    assert_eq!(Dataset::read(&bench.at("new")).classes(), ["a", "d"]);
    verify(&bench.at("new"), &bench.src()).code(0);
}

#[test]
fn verify_finds_a_file_with_another_label() {
    let bench = Bench::with(&PETS);
    bench.pack(&["--label-pattern", "{label}_{n}"]).code(0);
    fs::rename(bench.src().join("Bengal_3.jpg"), bench.src().join("Birman_3.jpg")).unwrap();
    verify(&bench.dst(), &bench.src())
        .code(1)
        .says("Bengal_3.jpg")
        .says("Birman_3.jpg: in the source and not in the shards");
    fs::rename(bench.src().join("Birman_3.jpg"), bench.src().join("Bengal.jpg")).unwrap();
    verify(&bench.dst(), &bench.src())
        .code(1)
        .says("Bengal.jpg: in the source and not in the shards: its name does not");
}

#[test]
fn a_refusal_proposes_a_pattern_that_works() {
    let mut nearly: Vec<String> =
        (0..20).map(|number| format!("{}_{number}.jpg", ["cat", "dog"][number % 2])).collect();
    nearly.push("logo.jpg".to_owned());
    let nearly: Vec<&str> = nearly.iter().map(String::as_str).collect();
    let rows: [(&[&str], &[&str]); 5] = [
        (&["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"], &["--label-pattern", "{label}.{n}"]),
        (&PETS, &["--label-pattern", "{label}_{n}"]),
        (&["a-1.jpg", "a-2.jpg", "b-1.jpg", "b-2.jpg"], &["--label-pattern", "{label}-{n}"]),
        (&["a_1.jpg", "a_2.jpg", "b_1.jpg", "b_2.jpg", "old/a_3.jpg"], &["--label-pattern", "{label}_{n}"]),
        (&nearly, &["--label-pattern", "{label}_{n}", "--on-bad", "skip"]),
    ];
    for (files, options) in rows {
        let bench = Bench::with(files);
        let said = options.join(" ").replace("{label}", "'{label}").replace("{n}", "{n}'");
        bench.pack(&[]).code(2).clean_error().says(&said).says("takes labels from names");
        bench.pack(options).code(0);
        verify(&bench.dst(), &bench.src()).code(0);
    }
    for files in [
        &["img_1.jpg", "img_2.jpg", "img_3.jpg", "img_4.jpg"][..],
        &["a_1.jpg", "b_2.jpg", "c_3.jpg", "d_4.jpg"],
        &["0001_c1s1_001051_00.jpg", "0002_c1s3_000151_00.jpg"],
    ] {
        let ran = Bench::with(files).pack(&[]).code(2);
        ran.says("--label-pattern PATTERN, such as '{label}_{n}', takes labels from names");
    }
    for files in [&["1.jpg", "2.jpg", "3.jpg", "4.jpg"][..], &["a_1.jpg", "a_2.jpg", "b_1.jpg", "b_2.jpg", "old/x.jpg"]]
    {
        let ran = Bench::with(files).pack(&[]).code(2);
        assert!(!ran.stderr.contains("--label-pattern"), "{files:?}: {}", ran.stderr);
    }
}

#[test]
fn a_pattern_that_finds_one_label_or_a_label_for_each_name_is_noted() {
    let files: Vec<String> = (0..9).map(|number| format!("img{number}_{number}.jpg")).collect();
    let bench = Bench::with(&files.iter().map(String::as_str).collect::<Vec<_>>());
    let all = "all 9 samples have one label, img";
    bench.pack_to(&bench.at("one"), &["--label-pattern", "{label}{n}_*"]).code(0).says(all);
    let own = "each of 9 samples has a label of its own";
    bench.pack_to(&bench.at("own"), &["--label-pattern", "{label}_{n}"]).code(0).says(own);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let bench = Bench::with(&PETS);
    bench.pack(&["--label-pattern", "{label}_{n}", "--no-labels"]).code(2).says("cannot be used with");
    for (pattern, why) in
        [("{label}", "a class of its own"), ("{n}", "must be in it once"), ("{label}*", "must be text")]
    {
        bench.pack(&["--label-pattern", pattern]).code(2).clean_error().says(why);
    }
    bench
        .pack(&["--label-pattern", "{label}_{n}.jpg"])
        .code(2)
        .says("without their extension")
        .says("--label-pattern '{label}_{n}' leaves");
    let list = bench.src().join("list.csv");
    fs::write(&list, "path,label\nBengal_3.jpg,0\n").unwrap();
    run(&["pack", text(&list), text(&bench.dst()), "--label-pattern", "{label}_{n}"])
        .code(2)
        .says("--label-pattern is for trees: a list has its own labels");
    assert!(!bench.dst().exists());
}

#[test]
fn samples_that_are_no_images_have_labels_in_their_names() {
    let bench = Bench::new();
    for file in ["0_jackson_0", "0_jackson_1", "1_nicolas_0"] {
        bench.file(format!("{file}.wav"), file.as_bytes());
        bench.file(format!("{file}.txt"), b"said");
    }
    bench.pack(&["--label-pattern", "{label}_*", "--files", "wav", "--group", "stem"]).code(0);
    assert_eq!(classes(&bench.dst()), [("0".to_owned(), 2), ("1".to_owned(), 1)]);
    verify(&bench.dst(), &bench.src()).code(0);
}

#[test]
fn an_archive_is_packed_as_its_tree() {
    let bench = Bench::with(&["train/cat.0.jpg", "train/cat.1.jpg", "train/dog.0.jpg", "train/dog.1.jpg"]);
    let script = "import os, sys, zipfile\nout = sys.argv[1]\nsrc = os.path.dirname(out) + '/src'\n\
                  z = zipfile.ZipFile(out + '/x.zip', 'w')\n\
                  for d, _, names in os.walk(src):\n  for n in names: z.write(f'{d}/{n}', os.path.relpath(f'{d}/{n}', src))\n\
                  z.close()";
    python(script, &bench.at("zip"));
    let archive = bench.at("zip/x.zip");
    pack(&archive.join("train"), &bench.at("refused"), &[]).code(2).says("--label-pattern '{label}.{n}' takes");
    pack(&archive.join("train"), &bench.at("a"), &["--label-pattern", "{label}.{n}"]).code(0);
    pack(&bench.src().join("train"), &bench.at("b"), &["--label-pattern", "{label}.{n}"]).code(0);
    assert_eq!(contents(&bench.at("a")), contents(&bench.at("b")));
    verify(&bench.at("a"), &bench.src().join("train")).code(0);
    verify(&bench.at("b"), &archive.join("train")).code(0);
}
