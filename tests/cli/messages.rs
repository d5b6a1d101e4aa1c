//! Messages about one item use the singular. Foreign names neither begin a line nor control the terminal.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    process::Command,
};

use serde_json::Value;
use shardpack_format::text;
use shardpack_testing::{
    Bench, Ran, binary, photo, run,
    shards::{Feature, Tar, mds_index, mds_shard, parquet_file, tf_record},
};

/// Fails if a message uses the plural for one item.
fn singular(ran: Ran) -> Ran {
    let said = format!(" {}\n{}", ran.stdout, ran.stderr).replace('\n', " \n ");
    for noun in ["image", "sample", "shard", "file", "record", "duplicate", "problem", "row", "split", "byte"] {
        for wrong in [format!(" 1 {noun}s "), format!(" 1 {noun}s,"), format!(" 1 {noun}s;"), format!(" 1 {noun}s:")] {
            assert!(!said.contains(&wrong), "{wrong}:\n{said}");
        }
    }
    assert!(![" 1 classes", " 1 entries"].iter().any(|wrong| said.contains(wrong)), "{said}");
    ran
}

#[test]
fn what_is_said_of_one_thing_is_in_the_singular() {
    let bench = Bench::with(&["a/1.jpg"]);
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    let at = |name: &str| bench.at(name).to_str().unwrap().to_owned();
    let one = |args: &[&str]| singular(run(args));

    one(&["plan", src, dst]).code(0);
    one(&["pack", src, dst, "--exclude", "*/1.jpg"]).code(2).says("the one image is left out: a/1.jpg");
    one(&["pack", src, dst, "--min-side", "99999"]).code(2).says("the one image is left out");
    one(&["pack", src, dst]).code(0);
    one(&["pack", src, dst]).code(0);
    one(&["verify", dst]).code(0);
    one(&["verify", dst, "--against", src]).code(0);
    one(&["inspect", dst]).code(0);
    one(&["inspect", dst, "--samples"]).code(0);
    one(&["convert", dst, &at("b")]).code(0);
    one(&["pack", src, dst, "--shards", "2"]).code(2).says("there is 1 sample");
    one(&["verify", &format!("{dst}/shard-000000.tar")]).code(0).says("1 of 1 shard of a dataset");

    fs::create_dir(at("foreign")).unwrap();
    fs::copy(format!("{dst}/shard-000000.tar"), at("foreign/x.tar")).unwrap();
    one(&["verify", &at("foreign")]).code(0);
    one(&["inspect", &at("foreign")]).code(0);
    one(&["adopt", &at("foreign")]).code(0);
    fs::create_dir(at("text")).unwrap();
    fs::write(at("text/notes.txt"), "x").unwrap();
    one(&["convert", &at("text"), &at("c")]).code(2).says("the one file in here is no shard");

    fs::remove_file(format!("{dst}/shard-000000.tar")).unwrap();
    one(&["verify", dst]).code(1).says("missing, with its 1 sample");
    one(&["pack", src, dst]).code(1);

    bench.file("a/1.jpg", b"");
    one(&["pack", src, &at("d")]).code(1).says("1 image");
    one(&["inspect", &at("d")]).code(2);
    one(&["pack", src, &at("e"), "--on-bad", "skip"]).code(1).says("1 image");

    let flat = Bench::with(&["train/a/1.jpg", "val/2.jpg"]);
    let (src, dst) = (flat.src(), flat.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    one(&["pack", src, dst, "--splits", "train,val"]).code(2).says("split val has 1 image directly in it");
    let splits = Bench::with(&["train/a/1.jpg", "val/a/2.jpg"]);
    let (src, dst) = (splits.src(), splits.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    one(&["pack", src, dst]).code(0);
    fs::remove_dir_all(format!("{dst}/val")).unwrap();
    one(&["verify", dst]).code(1).says("names this split, of 1 sample");
    one(&["inspect", dst]).code(1);
}

/// A name that tries to deceive the reader: it ends its line, forges a line of shardpack, erases output and reverses letters.
const EVIL: &str = "e\u{1b}[2K\u{1b}]0;x\u{7}\nok      verified 7 samples\rok: verified\t\u{202e}gpj\u{2066}\u{200b}\u{feff}\u{85}\u{9b}2J\u{7f}";

/// The same name as bytes that are not UTF-8.
fn evil_bytes(end: &[u8]) -> OsString {
    OsString::from_vec([EVIL.as_bytes(), b"\xff\xfe", end].concat())
}

/// Fails if part of [`EVIL`] reaches the terminal unescaped, as text or in JSON. In JSON the escaped name keeps its value.
fn tame(args: &[&OsStr]) -> Ran {
    // Only shardpack's own colours control the terminal.
    let mut command = Command::new(binary());
    let ran = Ran::from(command.arg("--color=always").args(args).output().unwrap());
    for printed in [&ran.stdout, &ran.stderr] {
        let plain = anstream::adapter::strip_str(printed).to_string().replace('\n', "");
        assert!(!plain.contains(text::is_hidden), "{args:?}: {printed:?}");
        let is_ours = |code: &&str| {
            let end = code.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(code.len());
            code[end..].starts_with('m')
        };
        let foreign = printed.split("\u{1b}[").skip(1).find(|code| !is_ours(code));
        assert_eq!(foreign, None, "{args:?}: {printed:?}");
        let forged = |line: &&str| line.starts_with("ok: verified") || line.starts_with("ok      verified");
        assert_eq!(anstream::adapter::strip_str(printed).to_string().lines().find(forged), None, "{args:?}");
    }
    ran
}

/// Runs a command for text, and again for JSON. If `exact` is given, the JSON document contains this name unchanged.
fn both(args: &[&OsStr], exact: Option<&str>) -> Value {
    tame(args);
    let with_json: Vec<&OsStr> = args.iter().copied().chain([OsStr::new("--json")]).collect();
    let ran = tame(&with_json);
    let document = ran.json();
    if let Some(exact) = exact {
        assert!(has(&document, exact), "{args:?}: {}", ran.stdout);
    }
    document
}

/// Whether a text or a member name in `value` contains `text`.
fn has(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(all) => all.iter().any(|one| has(one, text)),
        Value::Object(all) => all.iter().any(|(name, one)| name.contains(text) || has(one, text)),
        _ => false,
    }
}

/// Words of a command line. `$0` and so on stand for the words in `names`.
fn words<'a>(line: &'a str, names: &'a [&OsStr]) -> Vec<&'a OsStr> {
    let word = |word: &'a str| match word.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()) {
        Some(number) => names[number],
        None => OsStr::new(word),
    };
    line.split(' ').map(word).collect()
}

#[test]
fn a_tree_of_hostile_names_commands_no_terminal() {
    let bench = Bench::new();
    let class = evil_bytes(b"");
    let below = |name: &[u8]| [class.as_bytes(), b"/", EVIL.as_bytes(), name].concat();
    for name in [&b"1.jpg"[..], b"\xff2.jpg", b"3.jpg"] {
        bench.file(OsStr::from_bytes(&below(name)), &photo());
    }
    bench.file(format!("{EVIL}/1.jpg"), &photo());
    bench.file(OsStr::from_bytes(&below(b".txt")), b"x");
    let (src, dst, other) = (bench.src(), bench.at("out").join(evil_bytes(b"")), bench.at("other"));
    let table = bench.at("rows.csv");
    let names = [src.as_os_str(), dst.as_os_str(), other.as_os_str(), table.as_os_str()];
    let go = |line: &str, exact| both(&words(line, &names), exact);
    fs::create_dir_all(bench.at("out")).unwrap();

    go("plan $0 $1", Some(EVIL));
    go("pack $0 $1 --part 1/2 --shards 2", None);
    go("status $1", None);
    go("merge $1", None);
    go("pack $0 $1 --part 2/2 --shards 2", None);
    tame(&words("merge $1", &names)).code(0);
    go("merge $1", None);
    go("pack $0 $1 --shards 2", None);
    go("pack $0 $1 --seed 9", None);
    go("verify $1", None);
    go("verify $1 --against $0", None);
    go("inspect $1", Some(EVIL));
    go("inspect $1 --samples", Some(EVIL));
    go("inspect $1 --extract nobody -o $2", None);
    go("inspect $1 --table $3 --force", None);
    go("crops $1", None);
    tame(&words("bench $1 --seconds 1", &names));
    go("convert $1 $2", None);
    tame(&words("slurm $0 $2 --array 2", &names)).code(0);

    // Reports that name a damaged file.
    let index = fs::read_dir(dst.join("index")).unwrap().map(|entry| entry.unwrap().path()).next().unwrap();
    let shard = dst.join(format!("{}.tar", index.file_stem().unwrap().to_str().unwrap()));
    let mut bytes = fs::read(&shard).unwrap();
    bytes[3000] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    go("verify $1", Some(EVIL));
    go("verify $1 --decode", Some(EVIL));
    go("verify $1 --repair $0", None);
    for name in [&b"4.jpg"[..], b"\xff5.jpg"] {
        bench.file(OsStr::from_bytes(&below(name)), b"");
    }
    let third = bench.at("third");
    let names = [src.as_os_str(), third.as_os_str()];
    let go = |line: &str, exact| both(&words(line, &names), exact);
    go("plan $0", Some(EVIL));
    go("pack $0 $1", Some(EVIL));
    go("pack $0 $1 --on-bad skip", Some(EVIL));
    go("pack $0 $1 --include nothing", None);
    go("verify $1 --against $0", None);
}

#[test]
fn lines_to_be_pasted_mean_the_names_that_are_told() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    let src = bench.src();
    let names = [evil_bytes(b""), "-n $(touch owned) `touch owned`".into(), "it's \"\n".into()];
    let paste = |script: &str| {
        let script = format!("shardpack() {{ \"$program\" \"$@\"; }}\n{script}");
        let mut bash = Command::new("bash");
        bash.args(["-e", "-c", &script]).env("program", binary()).current_dir(bench.at("")).output().unwrap().into()
    };
    for name in &names {
        let mut pack = Command::new(binary());
        pack.current_dir(bench.at("")).arg("pack").arg(&src).arg("--").arg(name);
        let packed: Ran = pack.output().unwrap().into();
        let packed = packed.code(0);
        let next = packed.stdout.lines().find_map(|line| line.strip_prefix("next    ")).unwrap();
        let verified: Ran = paste(next);
        verified.code(0).says("ok      2 samples");
        let wds = packed.stdout.lines().find_map(|line| line.trim_start().strip_prefix("webdataset: ")).unwrap();
        let python = "import os, sys; print(os.path.exists(eval(sys.argv[1].split('(', 1)[1][:-1])))";
        let there: Ran =
            Command::new("python3").args(["-c", python, wds]).current_dir(bench.at("")).output().unwrap().into();
        assert_eq!(there.code(0).stdout, "True\n", "{wds}");
    }
    assert!(!bench.at("owned").exists());
}

#[test]
fn a_secret_is_in_no_message() {
    let bench = Bench::with(&["a/1.jpg"]);
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    let lines: [&[&str]; 12] = [
        &["verify", "https://h.invalid/x.tar?sig=hunter2"],
        &["inspect", "https://h.invalid/x?X-Amz-Signature=hunter2&a=b"],
        &["convert", "https://me:hunter2@h.invalid/x.tar", dst],
        &["convert", "s3://KEY:hunter2@bucket/x.tar", dst],
        &["convert", "az://c/x.tar?sv=1&sig=hunter2", dst],
        &["pack", "https://h.invalid/?token=hunter2", dst],
        &["pack", src, "s3://b/x?X-Amz-Signature=hunter2"],
        &["pack", src, dst, "--against", "https://h.invalid/x?sig=hunter2"],
        &["bench", "https://h.invalid/x?hunter2"],
        &["verify", "s3://b/x", "--store", "hunter2"],
        &["verify", "s3://b/x", "--store", "Hunter2/k=="],
        &["verify", "s3://b/x", "--store=proxy=http://me:hunter2@:x"],
    ];
    for line in lines {
        for json in [&[][..], &["--json"]] {
            let ran = run(&[line, json].concat());
            assert_eq!(ran.code, 2, "{line:?}: {ran:?}");
            let said = format!("{}{}", ran.stdout, ran.stderr).to_lowercase();
            assert!(!said.contains("hunter2"), "{line:?}: {said}");
        }
    }
}

#[test]
fn a_foreign_shard_of_hostile_names_commands_no_terminal() {
    let bench = Bench::new();
    let tar = |name: &str| {
        Tar::new()
            .pax_file(&format!("{name}a.jpg"), &photo())
            .pax_file(&format!("{name}a.cls"), EVIL.as_bytes())
            .pax_file(&format!("{name}b.jpg"), b"")
            .pax_file(&format!("{name}c.{name}"), b"x")
            .bytes()
    };
    let short = EVIL.replace(['\n', '.'], "");
    let record = tf_record(&[
        ("image/encoded", Feature::Bytes(&photo())),
        ("image/class/label", Feature::Ints(&[1])),
        ("image/class/text", Feature::Bytes(EVIL.as_bytes())),
        (EVIL, Feature::Bytes(EVIL.as_bytes())),
    ]);
    let rows = [(Some(0), photo(), Some(EVIL)), (Some(1), b"no image".to_vec(), Some("b")), (Some(7), photo(), None)];
    let mds = mds_shard(&[(1, photo())]);
    let config = b"column_names";
    let at = mds.windows(config.len()).position(|part| part == config).unwrap();
    let odd_mds = [&mds[..at], b"column\x1b[2K\"", &mds[at + 14..]].concat();
    let index = mds_index(&[(EVIL, &mds, 1, &[])]);
    let files: [(&str, Vec<u8>); 8] = [
        ("x.tar", tar(EVIL)),
        ("y.tar", tar(&short)),
        ("x.tfrecord", [record.clone(), record].concat()),
        ("x.parquet", parquet_file(&[EVIL, "other"], &rows)),
        ("x.mds", odd_mds),
        ("index.json", index),
        ("x.rec", EVIL.as_bytes().to_vec()),
        ("x.h5", EVIL.as_bytes().to_vec()),
    ];
    for (name, bytes) in &files {
        // In a folder with a hostile name: `index.json` under its own name, the other files under hostile names.
        let folder = bench.at(name).join(evil_bytes(b""));
        fs::create_dir_all(&folder).unwrap();
        let own = if *name == "index.json" { (*name).to_owned() } else { format!("{EVIL}{name}") };
        fs::write(folder.join(own), bytes).unwrap();
        let dst = bench.at("dst");
        let names = [folder.as_os_str(), dst.as_os_str()];
        for line in ["verify $0", "inspect $0", "inspect $0 --samples", "inspect $0 --extract x -o $1"] {
            both(&words(line, &names), None);
        }
        for line in [
            "convert $0 $1 --on-bad skip",
            "convert $0 $1 --image-feature nothing",
            "adopt $0 --on-bad skip",
            "adopt $0",
        ] {
            both(&words(line, &names), None);
            let _ = fs::remove_dir_all(&dst);
        }
    }
}

#[test]
fn a_manifest_and_a_list_of_hostile_names_command_no_terminal() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    let dst = bench.dst();
    let (src, other) = (bench.src(), bench.at("other"));
    bench.pack(&[]).code(0);
    let manifest = fs::read_to_string(dst.join("manifest.json")).unwrap();
    let quoted = serde_json::to_string(EVIL).unwrap();
    for (from, to) in [
        ("\"name\": \"shard\"", format!("\"name\": {quoted}")),
        ("\"shard-000000.tar\"", quoted.clone()),
        ("\"webdataset\"", quoted.clone()),
        ("\"a\"", quoted.clone()),
    ] {
        assert!(manifest.contains(from), "{from}: {manifest}");
        fs::write(dst.join("manifest.json"), manifest.replace(from, &to)).unwrap();
        let names = [dst.as_os_str(), src.as_os_str(), other.as_os_str()];
        for line in [
            "verify $0",
            "verify $0 --repair $1",
            "inspect $0",
            "inspect $0 --samples",
            "crops $0",
            "convert $0 $2",
            "pack $1 $0",
            "merge $0",
            "status $0",
        ] {
            both(&words(line, &names), None);
        }
    }
    let lists = [
        ("l.csv", format!("path,label,split\n\"{EVIL}\",\"{EVIL}\",train\na/1.jpg,x,\"{EVIL}\"\n")),
        ("m.csv", format!("path,\"{EVIL}\"\na/1.jpg,x\n")),
        ("l.jsonl", format!("{{\"path\": {quoted}, \"label\": {quoted}}}\n")),
    ];
    for (name, text) in &lists {
        let list = bench.at(name);
        fs::write(&list, text).unwrap();
        let names = [list.as_os_str(), other.as_os_str(), src.as_os_str(), OsStr::new(EVIL)];
        for line in
            ["pack $0 $1 --root $2", "pack $0 $1 --root $2 --on-bad skip", "plan $0 --root $2 --label-column $3"]
        {
            both(&words(line, &names), None);
        }
    }
    // Arguments of the command line may come from names, too.
    let long = format!("--{EVIL}");
    for line in [
        &["pack", &long][..],
        &[EVIL],
        &["verify", EVIL],
        &["pack", "a", "b", "--format", EVIL],
        &["pack", "a", "b", "--seed", EVIL],
        &["man", EVIL],
        &["pack", "a", EVIL, "--set", EVIL],
    ] {
        let line: Vec<&OsStr> = line.iter().map(OsStr::new).collect();
        assert_eq!(tame(&line).code, 2, "{line:?}");
    }
}
