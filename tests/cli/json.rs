//! `--json` prints one document to stdout however a command ends. Each document fits `docs/reference/json.schema.json`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use shardpack_testing::{Bench, Dataset, Ran, bad, binary, photos, run};

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/json.schema.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The schema of one definition.
fn validator(definition: &str) -> jsonschema::Validator {
    let mut schema = schema();
    assert!(jsonschema::meta::is_valid(&schema), "the schema itself is not valid");
    let root = schema.as_object_mut().unwrap();
    assert!(root["$defs"].get(definition).is_some(), "{definition}");
    root.remove("anyOf");
    root.insert("$ref".to_owned(), Value::from(format!("#/$defs/{definition}")));
    jsonschema::validator_for(&schema).unwrap()
}

/// Fails the test unless `document` fits `definition`.
#[track_caller]
fn fits(document: &Value, definition: &str) {
    let errors: Vec<_> = validator(definition).iter_errors(document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{definition}: {errors:?}\n{document:#}");
}

/// Runs with `--json`. Fails the test unless the exit code is `code` and the document fits `definition` and the schema of the
/// command.
#[track_caller]
fn tell(args: &[&str], code: i32, definition: &str) -> Ran {
    let ran = run(&[args, &["--json"]].concat()).code(code);
    let document = ran.json();
    fits(&document, definition);
    fits(&document, args[0]);
    ran
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn packed(bench: &Bench, name: &str, options: &[&str]) -> PathBuf {
    let dst = bench.at(name);
    shardpack_testing::pack(&photos(), &dst, &[options, &["--quiet"]].concat()).code(0);
    dst
}

#[test]
fn pack_and_plan_print_what_the_schema_says() {
    let (bench, said) = bad();
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (text(&src), text(&dst));
    let failed = tell(&["pack", src, dst], 1, "packed").json();
    assert_eq!(failed["bad"].as_array().unwrap().len(), said.len());
    assert_eq!(failed["sealed"], false);
    tell(&["pack", src, dst, "--on-bad", "skip"], 0, "packed");
    let again = tell(&["pack", src, dst, "--on-bad", "skip"], 0, "packed").json();
    assert_eq!(again["already_sealed"], true);
    let with = tell(&["pack", src, dst, "--on-bad", "skip", "--crops"], 0, "packed").json();
    assert_eq!(with["crops"]["shards"], 1);
    tell(&["plan", src, dst], 0, "planned");
    assert_eq!(tell(&["plan", src], 0, "planned").json()["free_bytes"], Value::Null);
    tell(&["plan", src, dst, "--format", "mds", "--format", "tfrecord"], 0, "several_planned");
    // A dry run reports the same bad images as the run.
    let dry = ["pack", src, dst, "--dry-run"];
    let formats = ["--format", "mds", "--format", "tfrecord"];
    let bad = tell(&dry, 1, "planned").json()["datasets"][0]["bad"].clone();
    let first = bad[0]["path"].as_str().unwrap_or_else(|| panic!("{bad}"));
    run(&dry).code(1).says(&format!("bad     {} image", bad.as_array().unwrap().len())).says(first);
    tell(&[&dry[..], &["--on-bad", "skip"]].concat(), 0, "planned");
    tell(&[&dry[..], &formats].concat(), 1, "several_planned");
    tell(&[&dry[..], &formats, &["--on-bad", "skip"]].concat(), 0, "several_planned");
    let several = bench.at("several");
    let both = ["--format", "mds", "--format", "tfrecord", "--on-bad", "skip"];
    tell(&[&["pack", src, text(&several)][..], &both].concat(), 0, "several_packed");
    let splits = Bench::with(&["train/a/1.jpg", "val/a/2.jpg"]);
    splits.file("train/a/notes.txt", b"words");
    tell(&["pack", text(&splits.src()), text(&splits.dst())], 0, "packed");
}

#[test]
fn parts_merge_and_status_print_what_the_schema_says() {
    let (bench, said) = bad();
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (text(&src), text(&dst));
    tell(&["merge", dst], 2, "failed");
    tell(&["status", dst], 2, "failed");
    let failed = tell(&["pack", src, dst, "--part", "1/2", "--shards", "3"], 1, "part").json();
    assert_eq!((failed["bad"].as_array().unwrap().len(), &failed["done"]), (said.len(), &Value::from(false)));
    let part = |part: &str| ["pack", src, dst, "--shards", "3", "--on-bad", "skip", "--part", part].map(str::to_owned);
    let tell_part = |of: &str| tell(&part(of).each_ref().map(String::as_str), 0, "part").json();
    assert_eq!(tell_part("2/2")["part"], 2);
    assert_eq!(tell(&["status", dst], 0, "unfinished").json()["complete"], false);
    let missing = tell(&["merge", dst], 1, "merged").json();
    assert_eq!(missing["missing"]["parts"], serde_json::json!(["1/2"]));
    tell_part("1/2");
    let shard = bench.dst().join("shard-000000.tar");
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, b"short").unwrap();
    let wrong = tell(&["merge", dst], 1, "merged").json();
    assert_eq!(wrong["problems"][0]["file"], "shard-000000.tar");
    fs::write(&shard, bytes).unwrap();
    let merged = tell(&["merge", dst], 0, "merged").json();
    assert_eq!(merged["unpacked"].as_array().unwrap().len(), said.len());
    assert_eq!(tell(&["merge", dst], 0, "merged").json()["already_sealed"], true);
    assert_eq!(tell_part("1/2")["already_sealed"], true);
    tell(&["status", dst], 0, "finished");
}

#[test]
fn parts_that_change_images_print_what_the_schema_says() {
    let (bench, said) = bad();
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (text(&src), text(&dst));
    let part = |part: &str, rest: &[&str], code: i32, schema: &str| {
        let options = ["pack", src, dst, "--shards", "3", "--resize", "16", "--part", part];
        tell(&[&options[..], rest].concat(), code, schema).json()
    };
    let failed = part("1/2", &[], 1, "changed_part");
    assert!(!failed["bad"].as_array().unwrap().is_empty() && failed["changed"] == false, "{failed}");
    let first = part("1/2", &["--on-bad", "skip"], 0, "changed_part");
    assert_eq!((&first["changed"], &first["missing"]), (&Value::from(true), &serde_json::json!(["2/2"])));
    let status = tell(&["status", dst], 0, "changing").json();
    assert_eq!((&status["complete"], &status["parts"]["done"]), (&Value::from(false), &serde_json::json!(["1/2"])));
    let second = part("2/2", &["--on-bad", "skip"], 0, "part");
    assert_eq!((&second["done"], second["bad"].as_array().unwrap().len()), (&Value::from(true), said.len()));
    part("1/2", &["--on-bad", "skip"], 0, "part");
    tell(&["merge", dst], 0, "merged");
    assert_eq!(part("1/2", &["--on-bad", "skip"], 0, "part")["already_sealed"], true);
}

#[test]
fn convert_and_adopt_print_what_the_schema_says() {
    let bench = Bench::new();
    let dst = packed(&bench, "ours", &["--shards", "2"]);
    tell(&["convert", text(&dst), text(&bench.at("anew"))], 0, "packed");
    let foreign = bench.at("foreign");
    fs::create_dir(&foreign).unwrap();
    for shard in ["shard-000000.tar", "shard-000001.tar"] {
        fs::copy(dst.join(shard), foreign.join(shard)).unwrap();
    }
    let found = tell(&["convert", text(&foreign), text(&bench.at("theirs"))], 0, "packed").json();
    assert_eq!(found["recognised"]["files"], 2);
    tell(&["convert", text(&foreign), text(&bench.at("none")), "--dry-run"], 0, "planned");
    let bad = foreign.join("shard-000001.tar");
    fs::write(&bad, &fs::read(&bad).unwrap()[..700]).unwrap();
    tell(&["convert", text(&foreign), text(&bench.at("cut"))], 1, "convert");
    tell(&["adopt", text(&foreign)], 1, "adopt");
    fs::remove_file(bad).unwrap();
    tell(&["adopt", text(&foreign)], 0, "adopted");
    tell(&["adopt", text(&foreign)], 2, "failed");
}

#[test]
fn crops_print_what_the_schema_says() {
    let bench = Bench::new();
    let dst = packed(&bench, "packed", &["--shards", "2"]);
    tell(&["crops", text(&dst)], 0, "cropped");
    tell(&["crops", text(&bench.at("nothing"))], 2, "failed");
    let shard = dst.join("shard-000000.tar");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[3000] ^= 1;
    fs::write(&shard, bytes).unwrap();
    tell(&["crops", text(&dst), "--force"], 1, "cropped");
}

#[test]
fn verify_and_inspect_print_what_the_schema_says() {
    let bench = Bench::new();
    let dst = packed(&bench, "packed", &["--shards", "2", "--meta", "json"]);
    let (dst, photos) = (text(&dst), photos());
    let file = |name: &str| bench.at(name).to_str().unwrap().to_owned();
    for options in [&[][..], &["--quick"], &["--decode"], &["--against", text(&photos)]] {
        tell(&[&["verify", dst], options].concat(), 0, "verified");
    }
    tell(&["inspect", dst], 0, "inspected");
    tell(&["bench", dst, "--seconds", "1", "--crop", "32"], 0, "measured");
    tell(&["bench", dst, "--memory", "1B"], 2, "failed");
    tell(&["inspect", dst, "--samples"], 0, "listed");
    tell(&["inspect", dst, "--samples", "--kind", "gif"], 0, "listed");
    tell(&["inspect", dst, "--extract", "00000003", "-o", &file("one.jpg")], 0, "extracted");
    tell(&["inspect", dst, "--table", &file("table.csv")], 0, "table");
    tell(&["inspect", dst, "--extract", "00000003", "-o", "-"], 2, "failed");
    tell(&["inspect", dst, "--extract", "nobody", "-o", &file("nobody.jpg")], 2, "failed");

    let shard = Path::new(dst).join("shard-000000.tar");
    tell(&["inspect", text(&shard)], 0, "inspected");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[3000] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let report = tell(&["verify", dst], 1, "verified").json();
    assert_eq!(report["problems"].as_array().unwrap().len(), 1);
    tell(&["verify", dst, "--repair", text(&photos)], 0, "verified");
    let index = Path::new(dst).join(&Dataset::read(Path::new(dst)).manifest.shards[0].index.file);
    fs::write(index, b"no index").unwrap();
    tell(&["verify", dst], 1, "verified");
    tell(&["inspect", dst], 1, "inspected");
    tell(&["inspect", dst, "--samples"], 1, "listed");

    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vectors");
    for vector in ["webdataset", "tfrecord-int64", "recordio", "mds-str", "parquet"] {
        let folder = vectors.join(vector);
        tell(&["verify", text(&folder)], 0, "verified");
        tell(&["inspect", text(&folder)], 0, "inspected");
        tell(&["inspect", text(&folder), "--samples"], 0, "listed");
    }
}

/// Kind, exit code and a word of the message for each failure before any work is done.
#[test]
fn an_error_is_a_document_too() {
    let bench = Bench::with(&["a/1.jpg"]);
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (text(&src), text(&dst));
    let (missing, inside) = (bench.at("missing"), bench.src().join("inside"));
    let (missing, inside) = (text(&missing), text(&inside));
    let empty = bench.at("empty");
    fs::create_dir(&empty).unwrap();
    let rows: [(&[&str], i32, &str, &str); 12] = [
        (&["pack", missing, dst], 2, "system", "No such file"),
        (&["pack", src, inside], 2, "usage", "inside the source"),
        (&["pack", src], 2, "usage", "required arguments"),
        (&["pack", src, dst, "--no-such-option"], 2, "usage", "unexpected argument"),
        (&["pack", src, dst, "--shard-size", "many"], 2, "usage", "--shard-size"),
        (&["pack", src, dst, "--json=yes"], 2, "usage", "--json"),
        (&["plan", src, dst, "-o", "/nowhere/x.plan"], 2, "system", "No such file"),
        (&["convert", missing, dst], 2, "", ""),
        (&["verify", missing], 2, "", ""),
        (&["verify"], 2, "usage", "required arguments"),
        (&["inspect", missing], 2, "", ""),
        (&["inspect", src, "--samples", "--class", "dogs"], 2, "", ""),
    ];
    for (args, code, kind, word) in rows {
        let ran = tell(args, code, "failed");
        let error = &ran.json()["error"];
        assert!(kind.is_empty() || error["kind"] == kind, "{args:?}: {error}");
        assert!(error["message"].as_str().unwrap().contains(word) || error["file"] == missing, "{args:?}: {error}");
        assert!(ran.stderr.contains("error: "), "{args:?}: {}", ran.stderr);
        assert!(!ran.stdout.contains('\u{1b}'), "{args:?}: {}", ran.stdout);
    }
    let without = run(&["pack", src, dst, "--no-such-option"]).code(2);
    assert_eq!(without.stdout, "");
    let ended = run(&["verify", missing, "--", "--json"]).code(2);
    assert_eq!(ended.stdout, "", "behind -- it is a path");
}

#[test]
fn an_interruption_is_a_document_too() {
    let bench = Bench::with_source(600, 4000);
    for attempt in 0..20 {
        let dst = bench.at(&format!("dst-{attempt}"));
        let mut pack = Command::new(binary());
        pack.args(["pack", "--json", "--shards", "300", "--jobs", "1"]).arg(bench.src()).arg(&dst);
        let mut child = pack.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let finished = || fs::read_dir(dst.join("index")).map_or(0, Iterator::count);
        while finished() < 3 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let id = rustix::process::Pid::from_child(&child);
        // The process may have ended.
        let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
        let ran = Ran::from(child.wait_with_output().unwrap());
        if ran.code == 0 {
            continue;
        }
        let ran = ran.code(130);
        let document = ran.json();
        fits(&document, "failed");
        assert_eq!(document["error"]["kind"], "interrupted");
        let help = document["error"]["help"].as_str().unwrap();
        assert!(help.starts_with("the same command resumes; ") && help.contains("of 300 shards kept in"), "{help}");
        return;
    }
    panic!("it was never interrupted");
}
