//! `convert` of foreign shards at URLs, on real servers: the output is byte for byte that of `convert` on the files that were copied
//! there.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use shardpack_testing::{
    Bench, contents, jpeg,
    places::{FolderServer, run, urls},
    server::{Fault, Nginx, Proxy},
    sets::{made, names},
    shards::Tar,
};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vectors");

/// Converts `sources` into `dst`. Returns the JSON report without the fields that only a URL has.
fn convert(sources: &[String], settings: &[String], dst: &Path, options: &[&str]) -> Value {
    let mut words = vec!["convert"];
    words.extend(sources.iter().map(String::as_str).chain([dst.to_str().unwrap()]));
    words.extend(settings.iter().map(String::as_str));
    words.extend(["--json"].iter().chain(options));
    let mut json = run(&words, &[]).code(0).json();
    let document = json.as_object_mut().unwrap();
    document.remove("elapsed_ms");
    let network = document.remove("network").unwrap();
    match sources[0].contains("://") {
        true => assert!(network["requests"].as_u64().unwrap() > 0, "{network}"),
        false => assert!(network.is_null(), "{network}"),
    }
    json
}

#[test]
fn what_others_wrote_is_the_same_at_a_url() {
    let expected: serde_json::Map<String, Value> =
        serde_json::from_slice(&fs::read(Path::new(VECTORS).join("expected.json")).unwrap()).unwrap();
    let bench = Bench::new();
    let cases: Vec<_> = expected
        .values()
        .map(|case| {
            let vector = case["vector"].as_str().unwrap();
            let options: Vec<_> = case["options"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
            let folder = Path::new(VECTORS).join(vector);
            let dst = bench.at(&format!("local-{vector}-{}", options.concat().replace('/', "")));
            let sources: Vec<_> = names(&folder).iter().map(|name| folder.join(name).display().to_string()).collect();
            let told = convert(&sources, &[], &dst, &options);
            (vector, options, folder, (told, contents(&dst)))
        })
        .collect();
    for place in FolderServer::all() {
        for (number, (vector, options, folder, (told, whole))) in place.turns(&cases) {
            place.copy(folder, vector);
            let (sources, settings) = urls(&place, vector, &names(folder), place.port());
            let dst = bench.at(&format!("{number}-{}", place.name()));
            assert_eq!(*told, convert(&sources, &settings, &dst, options), "{} {vector}", place.name());
            assert_eq!(*whole, contents(&dst), "{} {vector}", place.name());
        }
    }
}

#[test]
fn what_is_noted_of_a_file_is_noted_of_its_url() {
    let Some(nginx) = Nginx::start() else { return };
    let bench = Bench::new();
    let npz = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/npz/stored.npz")).unwrap();
    let sample = |tar: Tar, number: u64| {
        // Every archive is truncated, so all stay one component each, and a note reports them.
        tar.file(&format!("{number}.jpg"), &jpeg(number, 5000)).file(&format!("{number}.npz"), &npz[..npz.len() / 2])
    };
    let tar = (0..5).fold(Tar::new(), sample).bytes();
    fs::write(bench.at("0.tar"), &tar).unwrap();
    fs::write(nginx.data().join("0.tar"), &tar).unwrap();
    let (local, url) = (bench.at("0.tar").display().to_string(), nginx.url("0.tar"));
    let noted = [local, url].map(|source| {
        let dst = bench.at(if source.contains("://") { "there" } else { "here" });
        let ran = run(&["convert", &source, dst.to_str().unwrap()], &[]).code(0);
        let notes: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("note")).map(str::to_owned).collect();
        (notes, contents(&dst))
    });
    assert!(noted[0].0.iter().any(|note| note.contains(".npz")), "{:?}", noted[0].0);
    assert_eq!(noted[0], noted[1]);
}

#[test]
fn folders_globs_and_braces_at_urls_are_what_they_are_of_files() {
    let bench = Bench::new();
    let made = made(&bench);
    for place in FolderServer::all() {
        let is_web = matches!(place, FolderServer::Web(_));
        for (name, folder, options) in &made {
            place.copy(folder, name);
            let patterns: &[&str] = match *name {
                "tar" => &["set-{0000..0002}.tar", "*.tar", "set-000?.tar", ""],
                "tar-gz" => &["set-{0000..0002}.tar.gz", "*"],
                "tfrecord" => &["set-{00000..00002}-of-00003", "set-*"],
                "mds" => &["", "shard.{00000,00001,00002}.mds"],
                _ => &["set-{0,1,2}.parquet", ""],
            };
            // In a URL on a web server, `?` begins a query.
            for (number, pattern) in place.turns(patterns).filter(|(_, pattern)| !is_web || !pattern.contains('?')) {
                let (source, settings) = urls(&place, name, &[(*pattern).to_owned()], place.port());
                let dst = bench.at(&format!("{name}-{number}-{}", place.name()));
                if is_web && !pattern.contains('{') && *name != "mds" {
                    let words = [&["convert".to_owned()], &source[..], &[dst.display().to_string()]].concat();
                    run(&words, &[]).code(2).says("a web server has no listing").says("name the shards");
                    continue;
                }
                let local = bench.at(&format!("{name}-{number}-local-{}", place.name()));
                let told = convert(&[folder.join(pattern).display().to_string()], &[], &local, options);
                assert_eq!(told, convert(&source, &settings, &dst, options), "{} {name} {pattern}", place.name());
                assert_eq!(contents(&local), contents(&dst), "{} {name} {pattern}", place.name());
            }
        }
    }
}

#[test]
fn splits_at_urls_are_told_by_their_folders_and_names() {
    let bench = Bench::new();
    let made = made(&bench);
    let (tar, splits) = (&made[0].1, bench.at("splits"));
    for (split, numbers) in [("train", 0..2), ("val", 2..3)] {
        fs::create_dir_all(splits.join(split)).unwrap();
        for number in numbers {
            let name = format!("set-{number:04}.tar");
            fs::copy(tar.join(&name), splits.join(split).join(&name)).unwrap();
        }
    }
    // The same shards in folders, and in files, that a declaration of Hugging Face names.
    let (dict, repository) = (bench.at("dict"), bench.at("repository"));
    fs::create_dir_all(repository.join("data")).unwrap();
    for (split, from) in [("train", "train/set-0000.tar"), ("held_out", "val/set-0002.tar")] {
        fs::create_dir_all(dict.join(split)).unwrap();
        fs::copy(splits.join(from), dict.join(split).join("set.tar")).unwrap();
        fs::copy(splits.join(from), repository.join(format!("data/{split}-0.tar"))).unwrap();
    }
    fs::write(dict.join("dataset_dict.json"), r#"{"splits": ["train", "held_out"]}"#).unwrap();
    let file = |split: &str| format!("  - split: {split}\n    path: data/{split}-*\n");
    let configs = format!("- config_name: x\n  data_files:\n{}{}", file("train"), file("held_out"));
    fs::write(repository.join("README.md"), format!("---\nconfigs:\n{configs}---\n")).unwrap();
    let places: Vec<_> = FolderServer::all();
    for (name, folder, split) in
        [("splits", &splits, "val"), ("dict", &dict, "held_out"), ("repository", &repository, "held_out")]
    {
        let dst = bench.at(&format!("{name}-local"));
        convert(&[folder.display().to_string()], &[], &dst, &[]);
        for place in places.iter().filter(|place| !matches!(place, FolderServer::Web(_))) {
            place.copy(folder, name);
            let (source, settings) = urls(place, name, &[String::new()], place.port());
            let of_url = bench.at(&format!("{name}-{}", place.name()));
            convert(&source, &settings, &of_url, &[]);
            assert_eq!(contents(&dst), contents(&of_url), "{name} {}", place.name());
            assert!(of_url.join(split).join("manifest.json").exists());
        }
    }
}

#[test]
fn convert_makes_the_same_where_requests_fail() {
    let bench = Bench::new();
    let made = made(&bench);
    let faults = [
        Fault::Status(503, false),
        Fault::Status(500, false),
        Fault::Drop,
        Fault::Cut(700),
        Fault::Delay(Duration::from_millis(30)),
        Fault::Flip(300),
    ];
    for place in FolderServer::all() {
        let proxy = Proxy::start(place.port());
        for (number, fault) in place.turns(faults) {
            // The reader retries a flipped bit only in data with checksums.
            let (name, folder, options) = &made[if matches!(fault, Fault::Flip(_)) { 2 } else { number % made.len() }];
            let local = bench.at(&format!("local-{name}"));
            if !local.exists() {
                let files: Vec<_> = names(folder).iter().map(|name| folder.join(name).display().to_string()).collect();
                convert(&files, &[], &local, options);
            }
            place.copy(folder, name);
            let (sources, settings) = urls(&place, name, &names(folder), proxy.port());
            // The first bytes identify the format and have no checksum.
            proxy.fail(if matches!(fault, Fault::Flip(_)) { 19 } else { 5 }, fault);
            let dst = bench.at(&format!("{number}-{}", place.name()));
            let one: &[&str] = if matches!(fault, Fault::Flip(_)) {
                &["--read-order", "plan", "--store", "requests=1", "--jobs", "1"]
            } else {
                &[]
            };
            convert(&sources, &settings, &dst, &[&options[..], one].concat());
            assert!(proxy.faults() > 0);
            assert_eq!(contents(&dst), contents(&local), "{} {name} {fault:?}", place.name());
        }
    }
}

#[test]
fn a_convert_that_is_killed_goes_on_by_the_same_command() {
    let bench = Bench::new();
    let (_, folder, _) = made(&bench).remove(0);
    let options = ["--shards", "15", "--memory", "1MiB"];
    let whole = bench.at("whole");
    convert(&[folder.display().to_string()], &[], &whole, &options);
    for place in FolderServer::all() {
        place.copy(&folder, "tar");
        let proxy = Proxy::start(place.port());
        let (sources, settings) = urls(&place, "tar", &names(&folder), proxy.port());
        let dst = bench.at(&format!("dst-{}", place.name()));
        let words = [
            &["convert".to_owned()],
            &sources[..],
            &[dst.display().to_string()],
            &settings,
            &options.map(str::to_owned),
        ]
        .concat();
        proxy.fail(1, Fault::Delay(Duration::from_millis(100)));
        let mut child = Command::new(shardpack_testing::binary());
        let mut child = child.args(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        let finished = || fs::read_dir(dst.join("index")).map_or(0, Iterator::count);
        while finished() < 2 && child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "nothing happened for a minute");
            thread::sleep(Duration::from_micros(500));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        proxy.fail(1, Fault::Delay(Duration::ZERO));
        let told = run(&[&words[..], &["--json".to_owned()]].concat(), &[]).code(0).json();
        assert!(told["resumed_shards"].as_u64().unwrap() >= 2, "{told}");
        assert_eq!(contents(&dst), contents(&whole), "{}", place.name());
    }
}

#[test]
fn an_object_that_changes_meanwhile_ends_the_run() {
    let bench = Bench::new();
    let (_, folder, _) = made(&bench).remove(0);
    let (first, other) =
        (fs::read(folder.join("set-0000.tar")).unwrap(), fs::read(folder.join("set-0001.tar")).unwrap());
    for place in FolderServer::all() {
        let changes = [("length", &other[..]), ("version", &[&first[..1000], &[1], &first[1001..]].concat())];
        for (_, (case, bytes)) in place.turns(changes) {
            place.copy(&folder, case);
            let proxy = Proxy::start(place.port());
            proxy.fail(1, Fault::Delay(Duration::from_millis(150)));
            let (sources, settings) = urls(&place, case, &names(&folder), proxy.port());
            let dst = bench.at(&format!("{case}-{}", place.name()));
            let end = ["--on-bad", "skip", "--memory", "1MiB", "--store=requests=2"].map(str::to_owned);
            let words = [&["convert".to_owned()], &sources[..], &[dst.display().to_string()], &settings, &end].concat();
            let child = Command::new(shardpack_testing::binary())
                .args(&words)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn();
            let child = child.unwrap();
            // The plan exists once the source was scanned.
            let start = Instant::now();
            while !dst.join(".shardpack").exists() && start.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(5));
            }
            // Modification times have a resolution of one second on some servers.
            thread::sleep(Duration::from_millis(1100));
            place.put(&format!("{case}/set-0000.tar"), bytes);
            let ran = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(ran.status.code(), Some(2), "{} {case}: {said}", place.name());
            assert!(said.contains("set-0000.tar") && said.contains("changed"), "{} {case}: {said}", place.name());
            assert!(!dst.join("manifest.json").exists());
        }
    }
}

#[test]
fn what_cannot_be_converted_from_a_url_is_said() {
    let Some(nginx) = Nginx::start() else { return };
    let bench = Bench::with_source(12, 500);
    bench.pack(&[]).code(0);
    assert!(Command::new("cp").arg("-r").arg(bench.dst()).arg(nginx.data().join("packed")).status().unwrap().success());
    let tar = Tar::new().sample("a", "0", &jpeg(1, 20_000)).bytes();
    fs::write(nginx.data().join("a b.tar"), &tar).unwrap();
    fs::write(nginx.data().join("text.tar"), b"no tar").unwrap();
    let (to, ours) = (bench.at("to"), names(&bench.dst()));
    let ours = ours.iter().find(|name| name.ends_with(".tar")).unwrap();
    let to = to.to_str().unwrap();
    for (args, code, said) in [
        (vec![nginx.url("gone.tar")], 2, "a web server has no listing"),
        (vec![nginx.url("gone-{0..3}.tar")], 2, "no such object"),
        (vec![nginx.url("a%20b.tar?sig=secret")], 2, "a URL with ? or #"),
        (vec![nginx.url("*.tar")], 2, "name the shards"),
        (vec![nginx.url("a%20b.tar"), nginx.url("a%20b.tar")], 2, "is given twice"),
        (vec![nginx.url("a%20b.tar"), nginx.url("packed")], 2, "is a sealed dataset, but "),
        (vec![nginx.url(&format!("packed/{ours}")), nginx.url("a%20b.tar")], 2, "is a sealed dataset, but "),
        (vec![nginx.url("text.tar")], 1, "text.tar"),
        (vec![nginx.url("a%20b.tar"), "--from".to_owned(), "nothing".to_owned()], 2, "nothing"),
        (vec![nginx.url("a%20b.tar"), bench.dst().display().to_string()], 2, "is a URL, but "),
    ] {
        let words = [&["convert".to_owned()], &args[..], &[to.to_owned()]].concat();
        run(&words, &[]).code(code).says(said);
        assert!(!Path::new(to).exists(), "{args:?}");
    }
    // A percent-encoded name, and a shardpack shard that is read as a foreign shard.
    for url in [nginx.url("a%20b.tar"), nginx.url(&format!("packed/{ours}"))] {
        run(&["convert", &url, to, "--from", "webdataset", "--quiet"], &[]).code(0);
        fs::remove_dir_all(to).unwrap();
    }
}
