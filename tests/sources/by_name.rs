//! Lists that name files without their folders: `--root 'FOLDER/**'`.

use std::{fs, process::Command};

use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, binary, contents,
    lists::{list, one, pack, samples, text, verify},
    run,
};

fn bench() -> Bench {
    Bench::with(&["a/1.jpg", "a/b/2.jpg", "c/3.jpg", "c/4.jpg", "d/4.jpg"])
}

#[test]
fn names_are_found_in_any_folder_and_a_name_of_two_files_is_refused() {
    let bench = bench();
    let (root, anywhere) = (bench.src(), bench.src().join("**"));
    let (root, anywhere) = (["--root", root.to_str().unwrap()], ["--root", anywhere.to_str().unwrap()]);
    let path = list(&bench, "list.csv", "Image Index,label\n2.jpg,dog\n1.jpg,cat\nc/4.jpg,dog\n");
    // Without the option, the help has it, with a file that is found so.
    let ran = pack(&path, &bench.dst(), &root).code(2).clean_error();
    ran.says("no column of paths").says("/**' finds files by name in any folder, such as a/b/2.jpg");
    pack(&path, &bench.dst(), &anywhere).code(0).says("path Image Index; label label");
    let found = samples(&bench.dst());
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a/1.jpg", "a/b/2.jpg", "c/4.jpg"]);
    assert_eq!(one(&found, "a/b/2.jpg").2["jpg"], fs::read(bench.src().join("a/b/2.jpg")).unwrap());
    verify(&bench.dst(), &path, &anywhere);
    // From its plan, and with ids, the bytes are the same.
    let plan = bench.at("list.plan");
    let plan = plan.to_str().unwrap();
    run(&[&["plan", path.to_str().unwrap(), "dst", "--quiet", "-o", plan], &anywhere[..]].concat()).code(0);
    run(&["pack", "--quiet", "--plan", plan, bench.at("planned").to_str().unwrap()]).code(0);
    assert_eq!(contents(&bench.at("planned")), contents(&bench.dst()));
    let ids = list(&bench, "ids.csv", "id,label\n1,cat\n2,dog\nc/4,dog\n");
    pack(&ids, &bench.at("ids"), &anywhere).code(0).says("3 paths without an extension got one: .jpg (3)");
    assert_eq!(samples(&bench.at("ids")), found);
    // Two files of a name, a missing file, and a folder elsewhere.
    for (name, first, row) in [("twice.csv", "1.jpg", "./4.jpg"), ("ids-twice.csv", "1", "4")] {
        let path = list(&bench, name, &format!("path,label\n{first},cat\n{row},dog\n"));
        let ran = pack(&path, &bench.at("bad"), &anywhere).code(2).clean_error();
        ran.says(&format!("line 3: path \"{row}\" has two files: c/4.jpg and d/4.jpg"));
    }
    let gone = list(&bench, "gone.csv", "path,label\n1.jpg,cat\n9.jpg,cat\nb/1.jpg,cat\n../1.jpg,cat\n");
    pack(&gone, &bench.at("gone"), &anywhere).code(2).says("line 5").says("leads out of");
    let gone = list(&bench, "gone.csv", "path,label\n1.jpg,cat\n9.jpg,cat\nb/1.jpg,cat\n");
    let ran = pack(&gone, &bench.at("gone"), &anywhere).code(1);
    ran.says("9.jpg: cannot be read").says("b/1.jpg: cannot be read");
    // A file in the root is one of two, an absolute path has its folder, and a stray file without an extension is no image.
    bench.file("3.jpg", &fs::read(bench.src().join("c/3.jpg")).unwrap());
    bench.file("d/1", b"stray");
    let third = list(&bench, "third.csv", "path,label\n3.jpg,cat\n");
    pack(&third, &bench.at("third"), &anywhere).code(2).says("has two files: 3.jpg and c/3.jpg");
    let gone = list(&bench, "gone.csv", &format!("path,label\n1.jpg,cat\n{}/2.jpg,cat\n", bench.src().display()));
    pack(&gone, &bench.at("gone"), &anywhere).code(1).says("2.jpg: cannot be read");
    pack(&ids, &bench.at("ids"), &[&anywhere[..], &["--force"]].concat()).code(0);
    assert_eq!(samples(&bench.at("ids")), found);
    // Not below a URL.
    let ran = pack(&path, &bench.at("url"), &["--root", "s3://bucket/images/**"]).code(2).clean_error();
    ran.says("files are found by name in folders only");
}

#[test]
fn lines_of_an_id_and_a_text_are_split_at_the_first_blank() {
    let bench = Bench::new();
    for name in ["84/1/84-1-0000.flac", "84/1/84-1-0001.flac", "84/2/84-2-0000.flac"] {
        bench.file(name, name.as_bytes());
    }
    let texts = "84-1-0000 GO DO YOU HEAR\n84-1-0001 BUT IN LESS\n84-2-0000 AT THIS  MOMENT THE\n";
    let path = list(&bench, "dev.txt", texts);
    let (root, anywhere) = (bench.src(), bench.src().join("**"));
    let ran = pack(&path, &bench.dst(), &["--root", root.to_str().unwrap()]).code(1).clean_error();
    ran.says("none of 3 images can be packed").says("finds files by name in any folder, such as 84/1/84-1-0000.flac");
    let options = ["--root", anywhere.to_str().unwrap(), "--no-labels"];
    pack(&path, &bench.dst(), &options).code(0).says("fields are separated by the first blank");
    // A text of one word, lines of blanks, and an id without a text are as good; tables of words keep their errors.
    for (name, texts, options, code, says) in [
        ("one.txt", "84-1-0000 GO\n84-1-0001 BUT IN LESS\n \n84-2-0000\n", &["--no-labels"][..], 0, "the first blank"),
        ("first.txt", "9-9-9 GO ON\n84-1-0001 BUT IN LESS\n84-2-0000 AT THIS\n", &["--no-labels"], 1, "none of 3 "),
        ("table.txt", "84-1-0000 1 2 3\n84-1-0001 1 2\n84-2-0000 1 2 3\n", &["--no-labels"], 1, "none of 3 "),
    ] {
        let path = list(&bench, name, texts);
        pack(&path, &bench.at(name), &[&["--root", anywhere.to_str().unwrap()], options].concat())
            .code(code)
            .says(says);
    }
    let found = samples(&bench.dst());
    let third = one(&found, "84/2/84-2-0000.flac");
    assert_eq!(text(third, "json").unwrap(), r#"{"column_2":"AT THIS  MOMENT THE"}"#);
    verify(&bench.dst(), &path, &options[..2]);
}

#[test]
fn the_printed_command_packs_librispeech() {
    let bench = Bench::new();
    for (split, speakers) in [("dev-clean", ["84", "174"]), ("train-other-500", ["19", "26"])] {
        for speaker in speakers {
            let mut texts = String::new();
            for number in 0..3 {
                let id = format!("{speaker}-7-000{number}");
                bench.file(format!("LibriSpeech/{split}/{speaker}/7/{id}.flac"), id.as_bytes());
                texts += &format!("{id} SOME WORDS{}\n", " OR MORE".repeat(number));
            }
            // A file may lack its last line end, and a folder its sounds.
            texts.pop();
            fs::create_dir_all(bench.src().join(format!("LibriSpeech/{split}/0"))).unwrap();
            bench.file(format!("LibriSpeech/{split}/{speaker}/7/{speaker}-7.trans.txt"), texts.as_bytes());
        }
    }
    bench.file("LibriSpeech/SPEAKERS.TXT", b"; ID");
    fs::create_dir(bench.src().join("LibriSpeech/extras")).unwrap();
    let whole = bench.pack(&[]).code(2).clean_error();
    whole.says("LibriSpeech has sounds, and the texts of each folder in a file *.trans.txt; none are in extras");
    for (inside, splits) in
        [("LibriSpeech", &[("dev-clean", 6), ("train-other-500", 6)][..]), ("LibriSpeech/dev-clean", &[("", 6)])]
    {
        let (folder, dst) = (bench.src().join(inside), bench.at("out").join(inside));
        fs::create_dir_all(&dst).unwrap();
        let ran = run(&["pack", folder.to_str().unwrap(), dst.join("x").to_str().unwrap()]).code(2).clean_error();
        let help = ran.stderr.split("help: ").nth(1).unwrap();
        let command = help.split(" packs each sound with its text").next().unwrap();
        let typed = command.replace("shardpack", binary().to_str().unwrap()).replace(" DST ", " packed ");
        let made = Command::new("sh").args(["-c", &typed]).current_dir(&dst).output().unwrap();
        assert!(made.status.success(), "{typed}: {}", String::from_utf8_lossy(&made.stderr));
        for (split, count) in splits {
            let dataset = Dataset::open(dst.join("packed").join(split)).unwrap();
            assert_eq!(
                (dataset.len(), dataset.manifest().components.clone()),
                (*count, vec!["flac".to_owned(), "json".to_owned()])
            );
        }
    }
}
