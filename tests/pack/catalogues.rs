//! README.md and croissant.json beside splits: when they are written, replaced, compared, repaired, and refused.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use shardpack_testing::{Bench, binary, contents, run};

const CHOSEN: [&str; 4] = ["--sidecars", "auto,card,croissant", "--shard-samples", "2"];
const MINE: &[u8] = b"# My dataset\n\nWritten by hand.\n";

fn tree() -> Bench {
    Bench::with(&["train/cat/1.jpg", "train/cat/2.jpg", "train/dog/3.jpg", "val/cat/4.jpg", "val/dog/5.jpg"])
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Changes a byte in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn only_who_names_them_gets_them_and_only_from_a_format_that_has_them() {
    let bench = tree();
    bench.pack(&[]).code(0);
    assert!(!bench.dst().join("README.md").exists() && !bench.dst().join("train/README.md").exists());
    for format in ["tfrecord", "mds", "recordio"] {
        let ran = bench.pack_to(&bench.at(format), &["--format", format, "--sidecars", "card"]);
        ran.code(2).clean_error().says("--sidecars card: ").says(format);
    }
    let ran = bench.pack_to(&bench.at("zstd"), &["--compress", "zstd", "--sidecars", "auto,croissant"]);
    ran.code(2).clean_error().says("sidecar croissant").says("compressed by zstd");
    assert!(!bench.at("zstd").exists());
    // The finished dataset has none: that is reported.
    bench.pack(&["--sidecars", "auto,card"]).code(0).says("the sidecars differ");
    assert!(!bench.dst().join("README.md").exists());
}

#[test]
fn a_license_is_in_the_manifest_and_in_both_files_and_survives_convert() {
    let bench = tree();
    let license = ["--set", "license=cc-by-4.0"];
    bench.pack(&[&license, &CHOSEN[..]].concat()).code(0);
    let copy = bench.at("copy");
    run(&[&["convert", text(&bench.dst()), text(&copy)], &CHOSEN[..2]].concat()).code(0);
    for dst in [bench.dst(), copy] {
        for folder in [dst.clone(), dst.join("val")] {
            let card = fs::read_to_string(folder.join("README.md")).unwrap();
            assert!(card.contains("\nlicense: \"cc-by-4.0\"\n"), "{card}");
            let json: serde_json::Value =
                serde_json::from_slice(&fs::read(folder.join("croissant.json")).unwrap()).unwrap();
            assert_eq!(json["license"], "cc-by-4.0", "{}", folder.display());
        }
    }
    bench.pack(&[&["--set", "license=mit"], &CHOSEN[..]].concat()).code(2).says("was cc-by-4.0, is now mit");
    let ran = bench.pack_to(&bench.at("wrong"), &["--set", "license=a\nb"]);
    ran.code(2).clean_error().says("license ");
    assert!(!bench.at("wrong").exists());
}

#[test]
fn parts_a_second_run_and_force_give_the_same_files() {
    let bench = tree();
    bench.pack(&CHOSEN).code(0);
    let packed = contents(&bench.dst());
    for name in ["README.md", "croissant.json", "train/README.md", "val/croissant.json"] {
        assert!(packed.contains_key(Path::new(name)), "{name}: {:?}", packed.keys());
    }
    bench.pack(&CHOSEN).code(0).says("nothing to do").says_not("the sidecars differ");
    let parts = bench.at("parts");
    for part in ["1/2", "2/2"] {
        bench.pack_to(&parts, &[&["--part", part], &CHOSEN[..]].concat()).code(0);
    }
    run(&["merge", text(&parts)]).code(0);
    assert_eq!(contents(&parts), packed);
    bench.pack(&[&["--force"], &CHOSEN[..]].concat()).code(0);
    assert_eq!(contents(&bench.dst()), packed);
    run(&["verify", text(&bench.dst()), "--against", text(&bench.src())]).code(0).says_not("note");
    let copy = bench.at("copy");
    run(&["convert", text(&bench.dst()), text(&copy), "--sidecars", "auto,card,croissant"])
        .code(0)
        .says_not("stranger");
    assert!(copy.join("README.md").exists());
    // A dataset without them leaves none behind.
    bench.pack(&["--force", "--shard-samples", "2"]).code(0);
    assert!(!bench.dst().join("README.md").exists() && !bench.dst().join("croissant.json").exists());
    run(&["verify", text(&bench.dst())]).code(0);
}

#[test]
fn a_changed_or_lost_file_is_found_and_made_again() {
    let bench = tree();
    bench.pack(&CHOSEN).code(0);
    let packed = contents(&bench.dst());
    let all = ["README.md", "croissant.json", "val/README.md", "val/croissant.json"];
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 2] = [("flipped", flip), ("lost", |path| fs::remove_file(path).unwrap())];
    for (damage, change) in damages {
        all.iter().for_each(|name| change(&bench.dst().join(name)));
        let ran = run(&["verify", text(&bench.dst())]).code(1);
        let says = if damage == "lost" { "missing" } else { "BLAKE3 differs" };
        let ran = all.iter().fold(ran, |ran, name| ran.says(&format!("{name}: {says}")));
        drop(ran);
        if damage == "lost" {
            bench.pack(&CHOSEN).code(1).says("README.md is missing");
        }
        run(&["verify", text(&bench.dst()), "--repair", text(&bench.src())]).code(0);
        assert_eq!(contents(&bench.dst()), packed, "{damage}");
    }
}

#[test]
fn a_file_of_the_same_name_by_somebody_else_stays_and_is_refused() {
    for name in ["README.md", "val/README.md", "croissant.json", "train/croissant.json"] {
        let bench = tree();
        bench.file("train/dog/empty.jpg", b"");
        // Shards are finished, and nothing is sealed.
        bench.pack(&CHOSEN).code(1).says("nothing is sealed");
        bench.file("train/dog/empty.jpg", &shardpack_testing::jpeg(77, 5000));
        let path = bench.dst().join(name);
        fs::write(&path, MINE).unwrap();
        bench.pack(&CHOSEN).code(2).clean_error().says(name).says("was not written by shardpack");
        bench.pack(&[&["--force"], &CHOSEN[..]].concat()).code(2).clean_error().says(name).says("no part of a dataset");
        assert_eq!(fs::read(&path).unwrap(), MINE, "{name}");
        // Without these sidecars the pack ends; verify names the stranger.
        bench.pack(&["--shard-samples", "2"]).code(0);
        assert_eq!(fs::read(&path).unwrap(), MINE, "{name}");
        run(&["verify", text(&bench.dst())]).code(1).says(name).says("a stranger");
    }
}

#[test]
fn a_card_that_somebody_replaced_is_neither_repaired_nor_forced_away() {
    let bench = tree();
    bench.pack(&CHOSEN).code(0);
    for name in ["README.md", "val/README.md"] {
        let path = bench.dst().join(name);
        let ours = fs::read(&path).unwrap();
        fs::write(&path, MINE).unwrap();
        run(&["verify", text(&bench.dst()), "--repair", text(&bench.src())]).code(1).says(name);
        assert_eq!(fs::read(&path).unwrap(), MINE, "{name}");
        bench.pack(&[&["--force"], &CHOSEN[..]].concat()).code(2).clean_error().says(name);
        assert_eq!(fs::read(&path).unwrap(), MINE, "{name}");
        fs::write(&path, ours).unwrap();
    }
    run(&["verify", text(&bench.dst())]).code(0);
}

#[test]
fn a_killed_pack_resumes_to_the_same_files() {
    let bench = Bench::with_source(300, 4000);
    fs::create_dir(bench.at("whole")).unwrap();
    let options = ["--split-fraction", "val=0.5", "--sidecars", "card,croissant", "--shard-samples", "5"];
    bench.pack_to(&bench.at("whole"), &options).code(0);
    let whole = contents(&bench.at("whole"));
    // When the first file of each kind exists, and at the end of the work.
    for name in ["train/train-000003.tar", "train/README.md", "val/croissant.json", "README.md", "splits.json"] {
        let dst = bench.at(&name.replace('/', "-"));
        let mut command = Command::new(binary());
        command.args(["pack", text(&bench.src()), text(&dst)]).args(options);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while !dst.join(name).exists() && child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "{name}");
            thread::sleep(Duration::from_micros(200));
        }
        let _ = child.kill();
        child.wait().unwrap();
        bench.pack_to(&dst, &options).code(0);
        assert_eq!(contents(&dst), whole, "{name}");
    }
}
