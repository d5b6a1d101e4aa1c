//! `verify` and `inspect` of foreign shards and of single shardpack shards at URLs, on real servers: the reports equal those on the files
//! that were copied there.

use std::{fs, path::Path, time::Duration};

use serde_json::Value;
use shardpack_testing::{
    Bench,
    places::{FolderServer, run, urls},
    server::{Fault, Nginx, Proxy},
    sets::{made, names},
};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vectors");

/// Exit code and JSON report of a command, without the fields that only a URL has. File names are relative to `root`.
fn told(words: &[String], paths: &[String], settings: &[String], root: &str) -> (i32, Value) {
    let json = "--json".to_owned();
    let ran = run(&[words, paths, settings, &[json]].concat(), &[]);
    // The URL of a folder ends with a slash.
    let text = ran.stdout.replace(&format!("{root}/\""), "\"").replace(&format!("{root}/:"), ":").replace(root, "");
    let mut said: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{ran:?}"));
    let all = said.as_object_mut().unwrap();
    all.remove("elapsed_ms");
    for dataset in all.get_mut("datasets").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(path) = dataset.get_mut("path") {
            *path = path.as_str().unwrap().trim_end_matches('/').into();
        }
    }
    // The report of a failed run has no network section.
    if let Some(network) = all.remove("network") {
        assert_eq!(network.is_null(), !paths[0].contains("://"), "{network}");
        assert!(network.is_null() || network["requests"].as_u64().unwrap() > 0, "{network}");
    }
    (ran.code, said)
}

fn words(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

/// The reports of these commands on `names` in `folder`.
fn local(asked: &[&str], folder: &Path, names: &[String]) -> Vec<(i32, Value)> {
    let paths: Vec<_> = names.iter().map(|name| folder.join(name).display().to_string()).collect();
    asked.iter().map(|asked| told(&words(asked), &paths, &[], folder.to_str().unwrap())).collect()
}

/// The same reports on the copy of the folder below `prefix`.
fn there(asked: &[&str], place: &FolderServer, port: u16, prefix: &str, names: &[String]) -> Vec<(i32, Value)> {
    let (paths, settings) = urls(place, prefix, names, port);
    let root = place.url(prefix, port).remove(0);
    asked.iter().map(|asked| told(&words(asked), &paths, &settings, &root)).collect()
}

const ASKED: [&str; 4] = ["verify --quick", "verify --decode", "inspect", "inspect --samples --limit 7"];

#[test]
fn what_is_said_of_shards_of_others_is_said_of_their_urls() {
    let vectors: Vec<_> =
        fs::read_dir(VECTORS).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    let said: Vec<_> = vectors.iter().map(|folder| local(&ASKED, folder, &names(folder))).collect();
    assert!(said.iter().flatten().any(|(code, _)| *code == 0) && vectors.len() > 5);
    FolderServer::each(|place| {
        for (folder, said) in vectors.iter().zip(&said) {
            let prefix = folder.file_name().unwrap().to_str().unwrap();
            place.copy(folder, prefix);
            let of_urls = there(&ASKED, place, place.port(), prefix, &names(folder));
            assert_eq!(*said, of_urls, "{} {prefix}", place.name());
        }
    });
}

#[test]
fn a_folder_with_a_dataset_in_each_format_is_one_at_a_url_too() {
    let bench = Bench::new();
    let (photos, folder) = (concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/photos"), bench.dst());
    run(&["pack", photos, folder.to_str().unwrap(), "-q", "--format", "mds", "--format", "tfrecord"], &[]).code(0);
    let (asked, whole) = (["verify", "inspect"], [String::new()]);
    let said = local(&asked, &folder, &whole);
    assert!(said.iter().all(|(code, _)| *code == 0), "{said:?}");
    let plan = bench.at("plan");
    fs::create_dir_all(plan.join("mds/.shardpack")).unwrap();
    fs::write(plan.join("mds/.shardpack/plan"), "a plan").unwrap();
    FolderServer::each(|place| {
        place.copy(&folder, "both");
        if matches!(place, FolderServer::Web(_)) {
            let (url, _) = urls(place, "both", &whole, place.port());
            asked.iter().for_each(|asked| drop(run(&[*asked, url[0].as_str()], &[]).code(2)));
            return;
        }
        assert_eq!(said, there(&asked, place, place.port(), "both", &whole), "{}", place.name());
        // Nothing is unfinished here; but a plan in a folder of a format is a pack.
        let status = [&["status".to_owned()][..], &place.url("both", place.port())].concat();
        run(&status, &[]).code(0).says("nothing is unfinished here");
        place.copy(&plan, "both");
        run(&status, &[]).code(2).says("holds several packs; unfinished: mds").says("shardpack status ");
    });
}

#[test]
fn folders_and_patterns_are_what_they_are_of_files() {
    let bench = Bench::new();
    let made = made(&bench);
    let asked = ["verify", "inspect"];
    let patterns = |name: &str| match name {
        "tar" => ["", "*.tar", "set-{0000..0002}.tar"],
        "tar-gz" => ["", "set-000?.tar.gz", "set-{0000..0002}.tar.gz"],
        "tfrecord" => ["", "set-*", "set-{00000..00002}-of-00003"],
        "mds" => ["", "shard.*.mds", "shard.{00000,00002}.mds"],
        _ => ["", "*.parquet", "set-{0,1,2}.parquet"],
    };
    let said: Vec<_> = made
        .iter()
        .flat_map(|(name, folder, _)| patterns(name).map(|pattern| local(&asked, folder, &[pattern.to_owned()])))
        .collect();
    assert!(said.iter().flatten().all(|(code, _)| *code == 0), "{said:?}");
    FolderServer::each(|place| {
        let is_web = matches!(place, FolderServer::Web(_));
        let mut said = said.iter();
        for (name, folder, _) in &made {
            place.copy(folder, name);
            for pattern in patterns(name) {
                let said = said.next().unwrap();
                if is_web && pattern.contains('?') {
                    // A web server parses `?` as the start of a query.
                    continue;
                }
                // A web server has no listing; an MDS folder has `index.json`.
                if is_web && !(pattern.contains('{') || *name == "mds" && pattern.is_empty()) {
                    let (url, _) = urls(place, name, &[pattern.to_owned()], place.port());
                    for asked in asked {
                        run(&[asked, &url[0]], &[]).code(2).says("a web server has no listing");
                    }
                    continue;
                }
                let of_url = there(&asked, place, place.port(), name, &[pattern.to_owned()]);
                assert_eq!(*said, of_url, "{} {name} {pattern}", place.name());
                if pattern.is_empty() && !is_web {
                    // The URL of a folder without a slash at the end.
                    let words = [&["verify".to_owned()], &place.url(name, place.port())[..]].concat();
                    run(&words, &[]).code(0).says("90 samples in 3 shards");
                }
            }
        }
    });
}

#[test]
fn the_same_is_said_where_requests_fail() {
    let bench = Bench::new();
    let made = made(&bench);
    let asked = ["verify", "verify --decode", "inspect", "inspect --samples --limit 0"];
    let faults = [
        Fault::Status(503, true),
        Fault::Status(500, false),
        Fault::Drop,
        Fault::Lost,
        Fault::Cut(700),
        Fault::Delay(Duration::from_millis(30)),
    ];
    let said: Vec<_> = made.iter().map(|(_, folder, _)| local(&asked, folder, &names(folder))).collect();
    FolderServer::each(|place| {
        let proxy = Proxy::start(place.port());
        for (number, fault) in place.turns(faults) {
            let (name, folder, _) = &made[number % made.len()];
            place.copy(folder, name);
            proxy.fail(5, fault);
            let of_urls = there(&asked, place, proxy.port(), name, &names(folder));
            assert_eq!(said[number % made.len()], of_urls, "{} {name} {fault:?}", place.name());
        }
        assert!(proxy.faults() > faults.len() as u64);
    });
}

#[test]
fn damage_is_told_from_what_a_line_has_changed() {
    let bench = Bench::new();
    let (_, folder, _) = made(&bench).into_iter().find(|(name, ..)| *name == "tfrecord").unwrap();
    let names = names(&folder);
    let right = local(&["verify"], &folder, &names);
    FolderServer::each(|place| {
        let proxy = Proxy::start(place.port());
        place.copy(&folder, "sound");
        let (paths, settings) = urls(place, "sound", &names, proxy.port());
        // One file after the other is read, block by block. The first bytes, which identify the format, stay correct.
        let asked = ["verify --jobs 1 --store=requests=1"].map(str::to_owned);
        proxy.fail(13, Fault::Flip(400_000));
        let (code, mut said) = told(&words(&asked[0]), &paths, &settings, &place.url("sound", 0).remove(0));
        let faults = proxy.faults();
        let notes = said["notes"].as_array_mut().unwrap();
        assert!(faults > 0 && !notes.is_empty(), "{} {faults} {notes:?}", place.name());
        assert!(notes.iter().all(|note| note.as_str().unwrap().contains("bytes differed when")), "{notes:?}");
        notes.clear();
        assert_eq!((code, &said), (right[0].0, &right[0].1), "{}", place.name());
    });
    let (damaged, name) = (bench.at("damaged"), &names[1]);
    fs::create_dir(&damaged).unwrap();
    for name in &names {
        fs::copy(folder.join(name), damaged.join(name)).unwrap();
    }
    let mut bytes = fs::read(folder.join(name)).unwrap();
    bytes[500_000] ^= 4;
    fs::write(damaged.join(name), bytes).unwrap();
    let wrong = local(&ASKED, &damaged, &names);
    assert!(wrong[0].0 == 1 && wrong[0].1["damaged_samples"] == 1, "{wrong:?}");
    FolderServer::each(|place| {
        place.copy(&damaged, "damaged");
        assert_eq!(wrong, there(&ASKED, place, place.port(), "damaged", &names), "{}", place.name());
    });
}

#[test]
fn shards_of_ours_are_known_by_the_manifest_beside_them() {
    let bench = Bench::with_source(60, 2000);
    bench.pack(&["--shards", "4"]).code(0);
    let mut shards = names(&bench.dst());
    shards.retain(|name| name.ends_with(".tar"));
    let asked = ["verify", "inspect", "inspect --samples --limit 0"];
    // Some shards; then all shards and the manifest.
    let cases = [shards[1..3].to_vec(), [&shards[..], &["manifest.json".to_owned()]].concat()];
    let said: Vec<_> = cases.iter().map(|names| local(&asked, &bench.dst(), names)).collect();
    assert!(said.iter().flatten().all(|(code, _)| *code == 0), "{said:?}");
    let converted = bench.at("converted");
    let shard = bench.dst().join(&shards[2]).display().to_string();
    run(&["convert", &shard, converted.to_str().unwrap()], &[]).code(0);
    FolderServer::each(|place| {
        place.copy(&bench.dst(), "packed");
        for (names, said) in cases.iter().zip(&said) {
            let mut of_url = there(&asked, place, place.port(), "packed", names);
            for (_, said) in &mut of_url {
                // A listing of the files beside the shards is not available.
                if let Some(notes) = said.get_mut("notes").and_then(Value::as_array_mut) {
                    notes.retain(|note| !note.as_str().unwrap().contains("not looked for"));
                }
            }
            assert_eq!(*said, of_url, "{} {names:?}", place.name());
        }
        let (url, settings) = urls(place, "packed", &shards[2..3], place.port());
        let dst = bench.at(&format!("converted-{}", place.name()));
        let words = [&["convert".to_owned()], &url[..], &[dst.display().to_string()], &settings].concat();
        run(&words, &[]).code(0);
        assert_eq!(shardpack_testing::contents(&converted), shardpack_testing::contents(&dst), "{}", place.name());
        if !matches!(place, FolderServer::Web(_)) {
            // A pattern that matches the whole dataset.
            let (url, settings) = urls(place, "packed", &["*".to_owned()], place.port());
            run(&[&["verify".to_owned()], &url[..], &settings].concat(), &[]).code(0).says("60 samples in 4 shards");
        }
        // A pattern that matches part of the dataset and a file without a manifest.
        place.put("x.tar", &fs::read(bench.dst().join(&shards[0])).unwrap());
        let pattern = place.url(&format!("{{packed/{},x}}.tar", shards[0].trim_end_matches(".tar")), place.port());
        for asked in ["verify", "inspect"] {
            let words = [&[asked.to_owned()], &pattern[..]].concat();
            run(&words, &[]).code(2).says("which has no manifest").says("name them one by one");
        }
        // A file that does not belong to the dataset.
        place.put("packed/stranger.tar", b"");
        let (urls, settings) = urls(place, "packed", &["stranger.tar".to_owned(), shards[0].clone()], place.port());
        for asked in ["verify", "inspect"] {
            let words = [&[asked.to_owned()], &urls[..], &settings].concat();
            run(&words, &[]).code(1).says("stranger.tar").says("the manifest does not name this file");
        }
    });
}

#[test]
fn a_split_that_is_missing_at_a_url_is_named_as_in_a_folder() {
    let bench = Bench::with_source(60, 2000);
    bench.pack(&["--split-fraction", "val=0.3"]).code(0);
    fs::remove_dir_all(bench.dst().join("val")).unwrap();
    let (out, folder) = (bench.at("out"), bench.dst().display().to_string());
    let convert = |words: &[String]| {
        let words = [&["convert".to_owned(), words[0].clone(), out.display().to_string()][..], &words[1..]].concat();
        run(&words, &[]).code(1).says("val").says("missing");
        assert!(!out.exists());
    };
    let inspect = |words: &[String]| {
        let json = run(&[&["inspect".to_owned(), "--json".to_owned()], words].concat(), &[]).code(1).json();
        let problem = json["problems"][0]["what"].as_str().unwrap().to_owned();
        assert_eq!((json["datasets"].as_array().unwrap().len(), json["problems"].as_array().unwrap().len()), (1, 1));
        problem
    };
    convert(std::slice::from_ref(&folder));
    let said = inspect(&[folder]);
    FolderServer::each(|place| {
        place.copy(&bench.dst(), "packed");
        let url = place.url("packed", place.port());
        convert(&url);
        assert_eq!(inspect(&url), said, "{}", place.name());
    });
}

#[test]
fn stray_files_are_found_at_urls_as_in_folders() {
    let bench = Bench::with_source(60, 2000);
    bench.pack(&["--shards", "2"]).code(0);
    let splits = bench.at("splits");
    bench.pack_to(&splits, &["--shards", "2", "--split-fraction", "val=0.3"]).code(0);
    let shard = fs::read(bench.dst().join("shard-000000.tar")).unwrap();
    let strays = ["notes.txt", "stray.tar", "index/stray.index", "folder/below.txt", "index/folder/below.txt"];
    for name in strays {
        // An index beside splits would be that of a lost dataset.
        let beside = (!name.starts_with("index/")).then(|| splits.clone());
        for folder in [bench.dst(), splits.join("val")].into_iter().chain(beside) {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            fs::write(folder.join(name), if name.ends_with(".tar") { &shard } else { &b"stray"[..] }).unwrap();
        }
    }
    let asked = ["verify", "verify --quick", "inspect"];
    let datasets = [("whole", bench.dst()), ("splits", splits)];
    let said: Vec<_> = datasets.iter().map(|(_, folder)| local(&asked, folder, &[String::new()])).collect();
    let problems = |(_, said): &(i32, Value)| said["problems"].as_array().unwrap().len();
    assert_eq!((problems(&said[0][0]), problems(&said[1][0])), (5, 8), "{said:?}");
    let convert = |url: &[String], dst: &Path| {
        let words = [&["convert".to_owned(), url[0].clone(), dst.display().to_string()][..], &url[1..]].concat();
        let skip = ["--json", "--on-bad", "skip"].map(str::to_owned);
        let json = run(&[&words[..], &skip].concat(), &[]).code(0).json();
        ["bad", "ignored_files", "unpacked"].map(|field| json[field].clone())
    };
    let of_folders: Vec<_> = datasets
        .iter()
        .map(|(name, folder)| convert(&[folder.display().to_string()], &bench.at(&format!("converted-{name}"))))
        .collect();
    FolderServer::each(|place| {
        for (((name, folder), said), converted) in datasets.iter().zip(&said).zip(&of_folders) {
            place.copy(folder, name);
            let mut found = there(&asked, place, place.port(), name, &[String::new()]);
            let url = place.url(name, place.port());
            if let FolderServer::Web(_) = place {
                // A web server has no list, which each command says.
                for (_, said) in &found {
                    let notes = said["notes"].as_array().unwrap();
                    assert!(notes.iter().any(|note| note == "stray files at the URL were not looked for"), "{notes:?}");
                }
                let text = run(&[&["inspect".to_owned()], &url[..]].concat(), &[]);
                text.code(0).says("note    stray files at the URL were not looked for");
                assert!(found.iter().all(|(code, _)| *code == 0), "{found:?}");
                continue;
            }
            let strays = |(code, said): &(i32, Value)| (*code, said["problems"].clone(), said["ignored_files"].clone());
            for ((asked, said), found) in asked.iter().zip(said).zip(&found) {
                assert_eq!(strays(said), strays(found), "{} {name} {asked}", place.name());
            }
            let text = run(&[&["inspect".to_owned()], &url[..]].concat(), &[]).code(1);
            text.says("ignored ").says(" a stranger: the manifest does not name this file");
            let dst = bench.at(&format!("{}-{name}", place.name()));
            assert_eq!(*converted, convert(&url, &dst), "{} {name}", place.name());
            // The plan of a pack beside a sealed dataset is no stray file.
            place.put(&format!("{name}/.shardpack/plan"), b"plan");
            found = there(&asked[..1], place, place.port(), name, &[String::new()]);
            let notes = found[0].1["notes"].as_array().unwrap();
            assert!(notes.iter().any(|note| note.as_str().unwrap().contains("a pack was begun here")), "{notes:?}");
            assert_eq!(found[0].1["problems"], said[0].1["problems"], "{} {name}", place.name());
        }
    });
}

#[test]
fn what_is_left_of_a_dataset_or_will_be_one_is_no_shards_of_others() {
    let bench = Bench::with_source(60, 2000);
    bench.pack(&["--shards", "4"]).code(0);
    let splits = bench.at("splits");
    bench.pack_to(&splits, &["--shards", "2", "--split-fraction", "val=0.3"]).code(0);
    fs::remove_file(bench.dst().join("manifest.json")).unwrap();
    fs::remove_file(splits.join("splits.json")).unwrap();
    let commands = |url: &[String], dst: &Path| {
        let to = [url[0].clone(), dst.display().to_string()];
        let convert = [&["convert".to_owned()], &to[..], &url[1..]].concat();
        [[&["verify".to_owned()], url].concat(), [&["inspect".to_owned()], url].concat(), convert]
    };
    FolderServer::each(|place| {
        place.copy(&bench.dst(), "lost");
        let dst = bench.at(&format!("dst-{}", place.name()));
        for words in commands(&place.url("lost", place.port()), &dst) {
            let ran = run(&words, &[]);
            assert_ne!(ran.code, 0, "{} {words:?} {ran:?}", place.name());
            ran.says("manifest.json is missing, but other files of the dataset are here");
        }
        if matches!(place, FolderServer::Web(_)) {
            return;
        }
        place.copy(&splits, "splits");
        let [_, _, convert] = commands(&place.url("splits", place.port()), &dst);
        run(&convert, &[]).code(1).says("the folder above it has no splits.json");
        // The state of an unfinished pack: a shard and the plan exist.
        let shard = names(&bench.dst()).into_iter().find(|name| name.ends_with(".tar")).unwrap();
        place.put(&format!("begun/{shard}"), &fs::read(bench.dst().join(&shard)).unwrap());
        place.put("begun/.shardpack/plan", b"a plan");
        for words in commands(&place.url("begun", place.port()), &dst) {
            let ran = run(&words, &[]);
            assert_ne!(ran.code, 0, "{} {words:?} {ran:?}", place.name());
            ran.says("an unfinished pack");
        }
        assert!(!dst.exists());
    });
}

#[test]
fn one_image_of_a_shard_of_others_is_extracted_by_its_key() {
    let bench = Bench::new();
    for (name, folder, _) in made(&bench) {
        let Some(nginx) = Nginx::start() else { return };
        let first = names(&folder).remove(0);
        fs::copy(folder.join(&first), nginx.data().join(&first)).unwrap();
        let path = folder.join(&first).display().to_string();
        let samples = run(&["inspect", &path, "--samples", "--limit", "30", "--json"], &[]).code(0).json();
        let key = samples["samples"][20]["key"].as_str().unwrap().to_owned();
        let extract = |source: &str| {
            let to = bench.at("image");
            let to = to.to_str().unwrap();
            run(&["inspect", source, "--extract", &key, "-o", to, "--force", "--json"], &[]).code(0);
            fs::read(to).unwrap()
        };
        assert_eq!(extract(&path), extract(&nginx.url(&first)), "{name}");
    }
}
