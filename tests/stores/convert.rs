//! `convert` of datasets at URLs, on real servers: the output is byte for byte that of `convert` on the folder that was copied there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use shardpack_testing::{
    Bench, contents,
    places::{FolderServer, run, with},
    server::{Fault, Nginx, Proxy},
};

/// Packs the source of `bench` in several ways: plain, compressed, with splits, with captions.
fn packed(bench: &Bench) -> Vec<(&'static str, PathBuf)> {
    for class in fs::read_dir(bench.src()).unwrap().map(|entry| entry.unwrap().path()) {
        for image in fs::read_dir(class).unwrap().map(|entry| entry.unwrap().path()) {
            fs::write(image.with_extension("txt"), format!("a caption of {}", image.display())).unwrap();
        }
    }
    let pack = |name: &'static str, options: &[&str]| {
        let dst = bench.at(name);
        bench.pack_to(&dst, &[&["--quiet", "--seed", "3"], options].concat()).code(0);
        (name, dst)
    };
    vec![
        pack("plain", &["--shards", "5"]),
        pack("zstd", &["--shards", "3", "--compress", "zstd"]),
        pack("splits", &["--shards", "2", "--split-fraction", "val=0.2"]),
        pack("captions", &["--shards", "4", "--with", "txt"]),
    ]
}

/// Converts `target`, with its store settings, into `dst`. Returns the JSON report without the fields that only a URL has.
fn convert(target: &[String], dst: &Path, options: &[&str]) -> Value {
    let (source, settings) = target.split_first().unwrap();
    let settings = settings.iter().map(String::as_str);
    let all: Vec<_> = ["convert", source, dst.to_str().unwrap(), "--json"].into_iter().chain(settings).collect();
    let mut json = run(&[&all[..], options].concat(), &[]).code(0).json();
    let documents = match json.get_mut("formats") {
        Some(formats) => formats.as_array_mut().unwrap().iter_mut().collect(),
        None => vec![&mut json],
    };
    for (number, document) in documents.into_iter().enumerate() {
        let document = document.as_object_mut().unwrap();
        document.remove("elapsed_ms");
        let notes = document["notes"].as_array_mut().unwrap();
        notes.retain(|note| !(is_url(target) && note.as_str().unwrap().contains("not looked for")));
        let network = document.remove("network").unwrap();
        match is_url(target) {
            // Further formats are converted from the first output, without network requests.
            true => assert_eq!(network["requests"].as_u64().unwrap() > 1, number == 0, "{network}"),
            false => assert!(network.is_null(), "{network}"),
        }
    }
    json
}

fn is_url(target: &[String]) -> bool {
    target[0].contains("://")
}

fn local(folder: &Path) -> Vec<String> {
    vec![folder.display().to_string()]
}

#[test]
fn what_is_converted_from_a_url_is_what_is_converted_from_the_folder() {
    let bench = Bench::with_source(120, 9000);
    let datasets = packed(&bench);
    let cases: [(usize, &[&str]); 7] = [
        (0, &["--format", "mds", "--shards", "3"]),
        (1, &["--format", "tfrecord", "--seed", "8"]),
        (2, &["--format", "webdataset", "--shards", "4"]),
        (2, &["--splits", "none", "--read-order", "plan"]),
        (3, &["--format", "mds", "--format", "webdataset", "--compress", "zstd"]),
        (0, &["--resize", "32", "--min-side", "8", "--dedup", "exact", "--on-bad", "skip"]),
        (3, &["--order", "source", "--meta", "none", "--check", "full", "--include", "class-1/*"]),
    ];
    let of_folders = cases.map(|(dataset, options)| {
        let dst = bench.at(&format!("local-{dataset}-{}", options.concat().replace('/', "")));
        (convert(&local(&datasets[dataset].1), &dst, options), contents(&dst))
    });
    FolderServer::each(|place| {
        for (name, folder) in &datasets {
            place.copy(folder, name);
        }
        for (number, ((dataset, options), (told, whole))) in place.turns(cases.iter().zip(&of_folders)) {
            let (name, dst) = (datasets[*dataset].0, bench.at(&format!("{number}-{}", place.name())));
            let of_url = convert(&place.url(name, place.port()), &dst, options);
            assert_eq!(*told, of_url, "{} {name} {options:?}", place.name());
            assert_eq!(*whole, contents(&dst), "{} {name} {options:?}", place.name());
        }
        let url = place.url("plain", place.port());
        let (dst, part) = (bench.at(&format!("text-{}", place.name())), bench.at(&format!("parts-{}", place.name())));
        let said = run(&with("convert", &url, &[]).into_iter().chain([dst.to_str().unwrap()]).collect::<Vec<_>>(), &[]);
        // DST is the last path argument, regardless of the position of options.
        let said = said.code(0).says("a sealed dataset").says("source  network (").says("64 reads in flight");
        let said = said.says("network ");
        // Only a web server has no list.
        match place {
            FolderServer::Web(_) => said.says("stray files at the URL were not looked for"),
            _ => said.says_not("not looked for"),
        };
        // One request reads neighbouring samples, including the captions beside the images.
        let captions = place.url("captions", place.port());
        for (order, most) in [("auto", 40), ("plan", 130)] {
            let dst = bench.at(&format!("{order}-{}", place.name()));
            let words = [dst.to_str().unwrap(), "--format", "mds", "--read-order", order, "--json"];
            let told = run(&with("convert", &captions, &words), &[]).code(0).json();
            assert!(told["network"]["requests"].as_u64().unwrap() < most, "{order}: {told}");
        }
        for number in ["1/2", "2/2"] {
            let words = [part.to_str().unwrap(), "--part", number, "--json"];
            let told =
                run(&with("convert", &url, &[]).into_iter().chain(words).collect::<Vec<_>>(), &[]).code(0).json();
            assert!(told["network"]["requests"].as_u64().unwrap() > 1, "{told}");
        }
        shardpack_testing::run(&["merge", part.to_str().unwrap()]).code(0);
        assert_eq!(contents(&dst), contents(&part));
    });
}

#[test]
fn several_urls_are_taken_together_as_folders_are() {
    let bench = Bench::with_source(60, 3000);
    let datasets = packed(&bench);
    let cases: [(&str, &[&str], bool); 3] = [
        ("two", &["plain", "zstd"], false),
        ("given", &["splits/train", "splits/val"], false),
        ("named", &["plain", "zstd"], true),
    ];
    let made = |sources: Vec<String>, is_named: bool, name: &str, settings: &[String]| {
        let dst = bench.at(&format!("made-{name}"));
        let of_split = |(source, split)| format!("--split={split}={source}");
        let sources = match is_named {
            true => sources.iter().zip(["train", "test"]).map(of_split).collect(),
            false => sources,
        };
        let words: [&[String]; 4] = [&["convert".to_owned()], &sources, &[dst.display().to_string()], settings];
        run(&words.concat(), &[]).code(0);
        contents(&dst)
    };
    let of_folders = cases.map(|(case, names, is_named)| {
        let folders = names.iter().map(|name| bench.at(name).display().to_string()).collect();
        made(folders, is_named, case, &[])
    });
    FolderServer::each(|place| {
        for (name, folder) in &datasets {
            place.copy(folder, name);
        }
        let at = |name: &str| place.url(name, place.port());
        let settings = at("plain").split_off(1);
        for ((case, names, is_named), of_folders) in cases.iter().zip(&of_folders) {
            let urls = names.iter().map(|name| at(name).remove(0)).collect();
            let made = made(urls, *is_named, &format!("{case}-{}", place.name()), &settings);
            assert_eq!(*of_folders, made, "{} {case}", place.name());
        }
    });
}

#[test]
fn convert_makes_the_same_where_requests_fail() {
    let bench = Bench::with_source(90, 9000);
    let datasets = packed(&bench);
    let faults = [
        Fault::Status(503, false),
        Fault::Status(500, false),
        Fault::Drop,
        Fault::Cut(700),
        Fault::Flip(300),
        Fault::Delay(Duration::from_millis(30)),
    ];
    let wholes: Vec<_> = datasets
        .iter()
        .map(|(name, folder)| {
            let dst = bench.at(&format!("whole-{name}"));
            convert(&local(folder), &dst, &["--format", "mds"]);
            contents(&dst)
        })
        .collect();
    FolderServer::each(|place| {
        let proxy = Proxy::start(place.port());
        for (name, folder) in &datasets {
            place.copy(folder, name);
        }
        for (number, fault) in place.turns(faults) {
            let name = datasets[number % 4].0;
            // The reader retries after a flipped bit. The interval must be long enough that the retry is not flipped as well.
            proxy.fail(if matches!(fault, Fault::Flip(_)) { 23 } else { 5 }, fault);
            let dst = bench.at(&format!("{number}-{}", place.name()));
            let words = ["--format", "mds", "--quiet"];
            let url = place.url(name, proxy.port());
            // One request at a time, so that the position of the retry is known.
            let one = if matches!(fault, Fault::Flip(_)) {
                vec!["--read-order", "plan", "--store", "requests=1"]
            } else {
                vec![]
            };
            convert(&url, &dst, &[&words[..], &one].concat());
            assert!(proxy.faults() > 0);
            assert_eq!(contents(&dst), wholes[number % 4], "{} {fault:?}", place.name());
        }
    });
}

#[test]
fn a_convert_that_is_killed_goes_on_by_the_same_command() {
    let bench = Bench::with_source(150, 9000);
    let dataset = packed(&bench).remove(3);
    let options = ["--format", "webdataset", "--shards", "15", "--memory", "1MiB"];
    let whole = bench.at("whole");
    convert(&local(&dataset.1), &whole, &options);
    FolderServer::each(|place| {
        place.copy(&dataset.1, dataset.0);
        let proxy = Proxy::start(place.port());
        proxy.fail(1, Fault::Delay(Duration::from_millis(100)));
        let (url, dst) = (place.url(dataset.0, proxy.port()), bench.at(&format!("dst-{}", place.name())));
        let words = [&with("convert", &url, &[dst.to_str().unwrap()])[..], &options].concat();
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
        assert!((2..15).contains(&finished()), "{} shards were finished", finished());
        // Files do not record store settings.
        if url.len() > 1 {
            run(&["convert", &url[0], dst.to_str().unwrap()], &[]).code(2);
        }
        proxy.fail(1, Fault::Delay(Duration::ZERO));
        let told = run(&[&words[..], &["--json"]].concat(), &[]).code(0).json();
        assert!(told["resumed_shards"].as_u64().unwrap() >= 2, "{told}");
        assert_eq!(contents(&dst), contents(&whole), "{}", place.name());
        run(&words, &[]).code(0).says("are packed here already");
    });
}

#[test]
fn a_damaged_sample_at_a_url_is_named_as_in_a_folder() {
    let bench = Bench::with_source(90, 9000);
    let datasets = packed(&bench);
    let policies = [("error", 1), ("skip", 0)];
    let told = |target: &[String], name: &str, (policy, code)| {
        let dst = bench.at(&format!("{name}-{policy}"));
        let words = [dst.to_str().unwrap(), "--on-bad", policy, "--format", "mds", "--json"];
        let told = run(&with("convert", target, &words), &[]).code(code).json();
        assert!(!told["bad"].as_array().unwrap().is_empty(), "{told}");
        let folder = target[0].trim_end_matches('/');
        (told["bad"].to_string().replace(&format!("{folder}/"), ""), told["stray_samples"].clone())
    };
    let damaged = [0, 1, 3].map(|number| {
        let (name, folder) = &datasets[number];
        let at = bench.at(&format!("damaged-{name}"));
        assert!(Command::new("cp").arg("-r").arg(folder).arg(&at).status().unwrap().success());
        let files = fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path());
        let shard = files.filter(|path| path.to_string_lossy().contains(".tar")).min().unwrap();
        let mut bytes = fs::read(&shard).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 8;
        fs::write(&shard, &bytes).unwrap();
        let of_folder = policies.map(|policy| told(&local(&at), &format!("local-{name}"), policy));
        (*name, at, of_folder)
    });
    FolderServer::each(|place| {
        for (_, (name, at, of_folder)) in place.turns(&damaged) {
            place.copy(at, name);
            let url = place.url(name, place.port());
            for (policy, of_folder) in policies.into_iter().zip(of_folder) {
                let of_url = told(&url, &format!("{name}-{}", place.name()), policy);
                assert_eq!(*of_folder, of_url, "{} {name} {policy:?}", place.name());
            }
        }
    });
}

#[test]
fn what_cannot_be_converted_from_a_url_is_said() {
    let Some(nginx) = Nginx::start() else { return };
    let bench = Bench::with_source(12, 500);
    bench.pack(&[]).code(0);
    assert!(Command::new("cp").arg("-r").arg(bench.dst()).arg(nginx.data().join("packed")).status().unwrap().success());
    let shard = fs::read_dir(bench.dst()).unwrap().map(|entry| entry.unwrap().path());
    let shard = shard.filter(|path| path.extension().is_some_and(|end| end == "tar")).min().unwrap();
    fs::create_dir(nginx.data().join("foreign")).unwrap();
    fs::copy(&shard, nginx.data().join("foreign/0.tar")).unwrap();
    let (url, foreign, dst, to) = (nginx.url("packed"), nginx.url("foreign"), bench.dst(), bench.at("to"));
    let (dst, to) = (dst.to_str().unwrap(), to.to_str().unwrap());
    let (by_name, of_folder) = (format!("train={url}"), format!("test={dst}"));
    for (args, said) in [
        (vec!["convert", &url, dst, to], "is a URL, but "),
        (vec!["convert", "--split", &by_name, "--split", &of_folder, to], "is a URL, but "),
        (vec!["convert", &url, &url, to], "is given twice"),
        (vec!["convert", &nginx.url("foreign/{0..3}.tar"), to], "no such object"),
        (vec!["convert", &url, "--from", "webdataset", to], "a web server has no listing"),
        (vec!["convert", &url, "--image-feature", "jpg", to], "its index defines image and label"),
        (vec!["convert", &url, "--fields", "a:b", to], "its components already have names"),
        (vec!["convert", &foreign, to], "a folder of MDS is read by its index.json"),
        (
            vec!["convert", &nginx.url("foreign/0.tar?token=1"), "--from", "webdataset", to],
            "sends credentials to the server",
        ),
        (vec!["convert", dst, to, "--store", "requests=3"], "this is a folder"),
        (vec!["convert", &url, to, "--store", "region=x"], "has no setting region"),
        (vec!["convert", &url, &url], "lies inside the source"),
        (vec!["convert", &url, &nginx.url("to")], "a web server is only read from"),
        (vec!["convert", dst, &url], "a web server is only read from"),
        (vec!["pack", &url, to], "a web server has no listing"),
    ] {
        run(&args, &[]).code(2).says(said);
        assert!(!Path::new(to).exists(), "{args:?}");
    }
    // A dry run writes nothing and requests only manifests and indexes.
    let asked = nginx.asked().len();
    run(&["convert", &url, to, "--dry-run", "--json"], &[]).code(0).says("network (http)");
    assert!(!Path::new(to).exists());
    assert!(nginx.asked()[asked..].iter().all(|line| !line.contains(".tar ")), "{:?}", &nginx.asked()[asked..]);
}
