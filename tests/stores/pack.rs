//! `pack` from and to URLs, on real servers: the output is byte for byte that of the same tree in a folder.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use shardpack_testing::{
    Bench, Ran,
    places::{FolderServer, begin, each, files_at, files_in, is_killed, run, same, settings},
    server::{Fault, Nginx, Proxy},
    stores::{self, Kind},
    sweep,
};

/// Runs `pack`; for a URL as the destination, with a separate work folder.
fn pack(bench: &Bench, from: &str, to: &str, settings: &[String], options: &[&str]) -> Ran {
    let work = work(bench, settings);
    let mut words: Vec<&str> = vec!["pack", from, to, "--seed", "3"];
    if to.contains("://") {
        words.extend(["--work", work.to_str().unwrap()]);
    }
    words.extend(settings.iter().map(String::as_str));
    run(&[&words[..], options].concat(), &[])
}

/// The work folder of a server.
fn work(bench: &Bench, settings: &[String]) -> PathBuf {
    let port: String = settings.first().map_or("", |endpoint| endpoint).chars().filter(char::is_ascii_digit).collect();
    bench.at(&format!("work-{port}"))
}

/// Fails the test unless the work folder is empty.
fn leaves_nothing(bench: &Bench, settings: &[String]) {
    let left = fs::read_dir(work(bench, settings)).map_or(0, Iterator::count);
    assert_eq!(left, 0, "work folder");
}

/// A tree with captions, enough classes for splits, and files that `pack` skips.
fn tree() -> Bench {
    let bench = Bench::with_source(90, 9000);
    for class in fs::read_dir(bench.src()).unwrap().map(|entry| entry.unwrap().path()) {
        for (number, image) in fs::read_dir(&class).unwrap().map(|entry| entry.unwrap().path()).enumerate() {
            if number % 3 > 0 {
                fs::write(image.with_extension("txt"), format!("a caption of {number}")).unwrap();
            }
        }
    }
    bench.file("class-0/deep/er/é ü+%25&'.jpg", &shardpack_testing::jpeg(1000, 5300));
    bench.file("class-1/.hidden/a.jpg", &shardpack_testing::jpeg(1001, 5100));
    bench.file("class-1/.hidden/b.jpg", &shardpack_testing::jpeg(1002, 5100));
    bench.file("class-2/notes.md", b"no image");
    bench.file("readme", b"no image either");
    bench.file("outside.jpg", &shardpack_testing::jpeg(1003, 5100));
    bench.file("class-3/picture.png", &shardpack_testing::png());
    bench
}

#[test]
fn what_is_packed_from_and_to_a_url_is_what_is_packed_from_the_folder() {
    let bench = tree();
    let cases: [&[&str]; 8] = [
        &["--shards", "3"],
        &["--shards", "2", "--compress", "zstd"],
        &["--with", "txt", "--format", "mds", "--shards", "2"],
        &["--split-fraction", "val=0.2", "--format", "tfrecord"],
        &["--no-labels", "--exclude", "class-1/**", "--order", "source", "--shard-samples", "20"],
        &["--resize", "32", "--min-side", "8", "--dedup", "exact"],
        &["--format", "webdataset", "--format", "recordio", "--meta", "json"],
        &["--format", "webdataset", "--format", "tfrecord", "--resize", "32"],
    ];
    let whole: Vec<_> = cases
        .iter()
        .enumerate()
        .map(|(number, options)| {
            let local = bench.at(&format!("local-{number}"));
            pack(&bench, bench.src().to_str().unwrap(), local.to_str().unwrap(), &[], options).code(0);
            files_in(&local)
        })
        .collect();
    each(|server| {
        let kind = format!("{:?}", server.kind);
        server.put_folder(&bench.src(), "a tree/src");
        let (from, settings) = (server.url("a tree/src"), settings(server, server.port()));
        for (number, options) in server.turns(&cases) {
            let what = format!("{kind} {options:?}");
            let whole = &whole[number];
            let here = bench.at(&format!("here-{number}-{kind}"));
            let said = pack(&bench, &from, here.to_str().unwrap(), &settings, options).code(0);
            said.says("network ").says("source  network (");
            same(whole, &files_in(&here), &format!("{what}, from"));
            let there = format!("packed-{number}");
            let to = server.url(&there);
            pack(&bench, &from, &to, &settings, options).code(0).says(" sent");
            same(whole, &files_at(server, &there), &format!("{what}, from and to"));
            leaves_nothing(&bench, &settings);
            if number < 2 {
                let target: Vec<&str> = [to.as_str()].into_iter().chain(settings.iter().map(String::as_str)).collect();
                run(&[&["verify"], &target[..]].concat(), &[]).code(0);
                pack(&bench, &from, &to, &settings, options).code(0).says("are packed here already, nothing to do");
                same(whole, &files_at(server, &there), &format!("{what}, again"));
            }
        }
        let to = server.url("from a folder");
        pack(&bench, bench.src().to_str().unwrap(), &to, &settings, cases[0]).code(0);
        same(&whole[0], &files_at(server, "from a folder"), &format!("{kind}, to"));
    });
}

#[test]
fn trees_of_splits_and_counts_are_those_of_the_folder() {
    let bench = Bench::with(&["train/a/c.1.jpg", "train/a/d.2.jpg", "train/b/c.3.jpg", "val/a/4.jpg", "val/b/.x.jpg"]);
    bench.file("val/b/empty.jpg", b"");
    bench.file("val/b/c.5.jpg", &shardpack_testing::jpeg(9, 5200));
    bench.file("other.txt", b"x");
    let told = |ran: Ran| {
        let mut json = ran.code(0).json();
        let all = json.as_object_mut().unwrap();
        let network = all.remove("network").unwrap();
        all.remove("elapsed_ms");
        (json, network)
    };
    let options = ["--json", "--on-bad", "skip", "--label-pattern", "{label}.{n}"];
    // With classes that are folders, and with labels in names, which one image has not.
    let runs = [("folders", &options[..3]), ("names", &options[..])].map(|(name, options)| {
        let dst = bench.at(name);
        let local = told(pack(&bench, bench.src().to_str().unwrap(), dst.to_str().unwrap(), &[], options));
        assert!(local.1.is_null());
        (name, options, local.0, files_in(&dst))
    });
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        let settings = settings(server, server.port());
        for (name, options, local, files) in &runs {
            let url = told(pack(&bench, &server.url("tree/"), &server.url(name), &settings, options));
            assert_eq!(*local, url.0, "{:?} {name}", server.kind);
            assert!(url.1["sent_bytes"].as_u64().unwrap() > 20_000, "{}", url.1);
            same(files, &files_at(server, name), name);
        }
    });
}

#[test]
fn small_classes_share_lists() {
    let names: Vec<_> = (0..400).map(|number| format!("train/class-{number:03}/a.jpg")).collect();
    let beside = [
        "train/class-0.jpg",
        "train/class-01.txt",
        "train/class-0/deep/a.jpg",
        "val/class-000/a.jpg",
        "val/Class/b.jpg",
    ];
    let bench = Bench::with(&names.iter().map(String::as_str).chain(beside).collect::<Vec<_>>());
    let told = |ran: Ran| {
        let mut json = ran.code(0).json();
        let network = json.as_object_mut().unwrap().remove("network");
        json.as_object_mut().unwrap().remove("elapsed_ms");
        (json, network)
    };
    let options = ["--json"];
    let (local, _) = told(pack(&bench, bench.src().to_str().unwrap(), bench.dst().to_str().unwrap(), &[], &options));
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        let (to, settings) = (bench.at(&format!("{:?}", server.kind)), settings(server, server.port()));
        let (url, network) = told(pack(&bench, &server.url("tree/"), to.to_str().unwrap(), &settings, &options));
        assert_eq!(local, url, "{:?}", server.kind);
        same(&files_in(&bench.dst()), &files_in(&to), "small classes");
        // One request for each image, and one more for the first bytes of some images. Classes are listed in tens.
        let requests = network.unwrap()["requests"].as_u64().unwrap();
        assert!(requests < 2 * 405 + 60, "{:?}: {requests}", server.kind);
    });
}

#[test]
fn a_pack_with_every_fifth_request_failing_makes_the_same() {
    let faults = [
        ("503", Fault::Status(503, false)),
        ("429", Fault::Status(429, false)),
        ("500", Fault::Status(500, false)),
        ("drop", Fault::Drop),
        ("lost", Fault::Lost),
        ("cut", Fault::Cut(0)),
        ("cut later", Fault::Cut(1000)),
        ("late", Fault::Delay(Duration::from_millis(40))),
    ];
    let bench = Bench::with_source(60, 9000);
    let options = ["--shards", "2"];
    pack(&bench, bench.src().to_str().unwrap(), bench.dst().to_str().unwrap(), &[], &options).code(0);
    let whole = files_in(&bench.dst());
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        let proxy = Proxy::start(server.port());
        for (_, (name, fault)) in server.turns(faults) {
            let what = format!("{:?} {name}", server.kind);
            proxy.fail(5, fault);
            let settings = settings(server, proxy.port());
            let to = format!("packed {name}");
            pack(&bench, &server.url("tree"), &server.url(&to), &settings, &options).code(0);
            same(&whole, &files_at(server, &to), &what);
            assert!(proxy.faults() > 10, "{what}: {}", proxy.faults());
        }
    });
}

#[test]
fn a_pack_goes_on_once_credentials_that_have_ended_are_replaced() {
    let bench = Bench::with_source(120, 9000);
    let options = ["--shards", "3"];
    pack(&bench, bench.src().to_str().unwrap(), bench.dst().to_str().unwrap(), &[], &options).code(0);
    let whole = files_in(&bench.dst());
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        let proxy = Proxy::start(server.port());
        let settings = settings(server, proxy.port());
        // The server refuses requests during planning, during reading, and during writing.
        for (round, after) in [40, 180, 270].into_iter().enumerate() {
            proxy.fail(1, Fault::Delay(Duration::from_millis(3)));
            let to = format!("packed {round}");
            let packed = thread::scope(|scope| {
                let packed = scope.spawn(|| pack(&bench, &server.url("tree"), &server.url(&to), &settings, &options));
                while proxy.requests() < after && !packed.is_finished() {
                    thread::sleep(Duration::from_millis(1));
                }
                assert!(!packed.is_finished(), "{:?}: {}", server.kind, proxy.requests());
                proxy.fail(1, Fault::Status(403, false));
                thread::sleep(Duration::from_millis(1500));
                assert!(proxy.faults() > 0, "{:?}", server.kind);
                proxy.fail(1, Fault::Delay(Duration::ZERO));
                packed.join().unwrap()
            });
            packed.code(0);
            same(&whole, &files_at(server, &to), &format!("{:?}, {after} requests", server.kind));
        }
    });
}

#[test]
fn a_pack_that_is_killed_anywhere_goes_on_by_the_same_command() {
    // 24 MB in 2 shards: upload parts have 8 MiB, so that some are in flight when the process is killed.
    let bench = Bench::new();
    for number in 0..48u64 {
        bench.file(format!("class-{}/{number}.jpg", number % 5), &shardpack_testing::jpeg(number, 500_000));
    }
    let options = ["--shards", "2"];
    pack(&bench, bench.src().to_str().unwrap(), bench.dst().to_str().unwrap(), &[], &options).code(0);
    let whole = files_in(&bench.dst());
    for server in stores::alone().into_iter().filter(|server| ![Kind::Azure, Kind::Moto].contains(&server.kind)) {
        let proxy = Proxy::start(server.port());
        let (settings, to) = (settings(&server, proxy.port()), server.url("packed"));
        let (src, work) = (bench.src(), work(&bench, &settings));
        let mut words = vec!["pack", src.to_str().unwrap(), &to, "--seed", "3", "--work", work.to_str().unwrap()];
        words.extend(settings.iter().map(String::as_str));
        words.extend(options);
        let mut killed = 0;
        // Kills the process a few requests later each time, until one run finishes.
        for after in (2..).step_by(sweep::points(3, 6)) {
            if !is_killed(&words, &proxy, after) {
                break;
            }
            killed += 1usize;
            // A manifest exists only once the dataset is complete: no unfinished dataset looks finished.
            let keys = server.keys("packed/");
            if keys.iter().any(|key| key.ends_with("manifest.json")) {
                same(&whole, &files_at(&server, "packed"), "a manifest is there");
            }
            assert!(killed < 60, "it never ends");
        }
        assert!(killed > 3, "{:?}: {killed}", server.kind);
        run(&words, &[]).code(0);
        same(&whole, &files_at(&server, "packed"), &format!("{:?}", server.kind));
        // An upload stays unfinished if the process was killed before it received the upload's id.
        assert!(server.unfinished() < killed, "{:?}: {} of {killed}", server.kind, server.unfinished());
        leaves_nothing(&bench, &settings);
    }
}

#[test]
fn a_pack_from_a_url_that_is_killed_goes_on_with_what_is_said_of_its_store() {
    let bench = Bench::with_source(80, 9000);
    let options = ["--shards", "6"];
    pack(&bench, bench.src().to_str().unwrap(), bench.dst().to_str().unwrap(), &[], &options).code(0);
    let whole = files_in(&bench.dst());
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        let proxy = Proxy::start(server.port());
        let (from, settings) = (server.url("tree"), settings(server, proxy.port()));
        let to = bench.at(&format!("{:?}", server.kind));
        let mut words = vec!["pack", &from, to.to_str().unwrap(), "--seed", "3"];
        words.extend(settings.iter().map(String::as_str));
        words.extend(options);
        // The process is killed once the plan exists. The plan names the source, but not its store settings.
        let mut killed = 0;
        for after in (90..).step_by(20) {
            if !is_killed(&words, &proxy, after) {
                break;
            }
            killed += usize::from(to.join(".shardpack/plan").exists());
        }
        assert!(killed > 0, "{:?}", server.kind);
        run(&words, &[]).code(0);
        same(&whole, &files_in(&to), &format!("{:?}", server.kind));
    });
}

#[test]
fn what_lies_there_is_never_written_over_unless_it_is_asked_for() {
    let bench = Bench::with_source(40, 3000);
    let src = bench.src();
    let src = src.to_str().unwrap();
    each(|server| {
        let settings = settings(server, server.port());
        let go = |to: &str, options: &[&str]| pack(&bench, src, &server.url(to), &settings, options);
        server.put("others/notes.txt", b"somebody's");
        let said = go("others", &[]).code(2).says("holds \"notes.txt\", which is no part of this pack");
        said.says("choose another prefix: files that no manifest names are never removed");
        go("others", &["--dry-run"]).code(2).says("holds \"notes.txt\", which is no part of this pack");
        go("others", &["--force"]).code(2).says("notes.txt");
        assert_eq!(server.keys("others/"), ["others/notes.txt"], "{:?}", server.kind);
        go("packed", &["--shards", "5"]).code(0);
        let before = files_at(server, "packed");
        go("packed", &["--shards", "2"]).code(2).says("another prefix, or --force to replace it");
        go("packed", &["--shards", "2", "--dry-run"]).code(2).says("holds another dataset: ");
        go("packed", &["--shards", "2", "--dry-run", "--force"]).code(0);
        go("packed", &["--shards", "5", "--dry-run"]).code(0);
        server.put("packed/notes.txt", b"somebody's");
        for options in [&["--shards", "5", "--force"][..], &["--shards", "5", "--force", "--dry-run"]] {
            go("packed", options).code(2).says("holds \"notes.txt\", which is no part of this pack");
        }
        server.delete("packed/notes.txt");
        same(&before, &files_at(server, "packed"), "a refusal");
        go("packed", &["--shards", "2", "--force"]).code(0);
        let local = bench.at(&format!("local-{:?}", server.kind));
        pack(&bench, src, local.to_str().unwrap(), &[], &["--shards", "2"]).code(0);
        let splits = ["--split-fraction", "val=0.3"];
        go("splits//", &[&splits[..], &["--format", "mds", "--format", "tfrecord"]].concat()).code(0);
        let record = server.get("splits/mds/splits.json").unwrap();
        server.put("splits/mds/splits.json", &record[..record.len() / 2]);
        for options in [&["--dry-run"][..], &[]] {
            let said = go("splits/mds", &[&splits[..], &["--format", "mds"], options].concat()).code(2);
            said.says("holds another dataset: its splits.json is damaged").says("--force to replace it");
        }
        go("splits/mds", &[&splits[..], &["--format", "mds", "--force"]].concat()).code(0);
        assert_eq!(server.get("splits/mds/splits.json").unwrap(), record);
        // An unfinished pack of this machine does not permit the removal of files that others wrote later.
        let (work, url) = (work(&bench, &settings), server.url("since"));
        let words = ["pack", src, &url, "--seed", "3", "--work", work.to_str().unwrap()];
        let mut child = begin(&words.into_iter().chain(settings.iter().map(String::as_str)).collect::<Vec<_>>());
        let start = Instant::now();
        let is_begun = || {
            fs::read_dir(&work)
                .is_ok_and(|mut all| all.any(|at| at.unwrap().path().join("dataset/.shardpack/plan").exists()))
        };
        while !is_begun() && child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(100));
            thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        child.wait().unwrap();
        // Requests that the killed process had sent may still create objects.
        let is_empty = || {
            server.keys("since/").iter().for_each(|key| server.delete(key));
            thread::sleep(Duration::from_millis(500));
            server.keys("since/").is_empty()
        };
        while !is_empty() {
            assert!(start.elapsed() < Duration::from_secs(100));
        }
        for (name, bytes) in &before {
            server.put(&format!("since/{name}"), bytes);
        }
        go("since", &[]).code(2).says("holds another dataset: ");
        same(&before, &files_at(server, "since"), "what came since");
        drop(fs::remove_dir_all(&work));
        // One split that another pack wrote, without `splits.json`.
        for (name, bytes) in &before {
            server.put(&format!("one/train/{name}"), bytes);
        }
        go("one", &["--split-fraction", "val=0.3"]).code(2).says("holds another dataset: ");
        same(&before, &files_at(server, "one/train"), "one split");
        // The files that only the earlier dataset had are deleted.
        same(&files_in(&local), &files_at(server, "packed"), "replaced");
        for shard in files_in(&local).into_keys().filter(|name| name.ends_with(".tar")) {
            server.delete(&format!("packed/{shard}"));
        }
        let ran = go("packed", &["--shards", "2"]).code(1).says("shard-000000.tar is missing, and 1 more");
        ran.says("--repair SRC mends it, --force packs it anew");
        leaves_nothing(&bench, &settings);
    });
}

#[test]
fn an_object_that_is_changed_or_gone_is_one_bad_sample() {
    let bench = Bench::with_source(30, 3000);
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        let settings = settings(server, server.port());
        let (url, plan) = (server.url("tree"), bench.at(&format!("{:?}.plan", server.kind)));
        let words = ["plan", &url, "-o", plan.to_str().unwrap()].into_iter();
        run(&words.chain(settings.iter().map(String::as_str)).collect::<Vec<_>>(), &[]).code(0);
        let keys = server.keys("tree/");
        let mut bytes = server.get(&keys[3]).unwrap();
        // Same length as before. Servers whose lists have no ETag distinguish versions by modification time, in seconds.
        thread::sleep(Duration::from_millis(1100));
        bytes[4000] ^= 1;
        server.put(&keys[3], &bytes);
        server.put(&keys[7], &[&bytes[..], b"longer"].concat());
        server.delete(&keys[11]);
        let dst = bench.at(&format!("{:?}", server.kind));
        // A plan file does not record store settings.
        let environment: Vec<(String, String)> = server.environment();
        let environment: Vec<(&str, &str)> = environment.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let words = ["pack", "--plan", plan.to_str().unwrap(), dst.to_str().unwrap(), "--json", "--on-bad", "skip"];
        let told = run(&words, &environment).code(0).json();
        let bad: Vec<_> = told["bad"].as_array().unwrap().iter().map(|bad| bad.to_string()).collect();
        assert_eq!(bad.len(), 3, "{bad:?}");
        for (key, why) in [(3, "changed since it was planned"), (7, "in the plan"), (11, "not there any more")] {
            let name = keys[key].strip_prefix("tree/").unwrap();
            assert!(bad.iter().any(|bad| bad.contains(name) && bad.contains(why)), "{name} {why}: {bad:?}");
        }
        run(&["verify", dst.to_str().unwrap()], &[]).code(0);
    });
}

#[test]
fn what_cannot_be_packed_from_or_to_a_url_is_said() {
    let bench = Bench::with_source(12, 500);
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    for (args, said) in [
        (vec!["pack", "ftp://host/x", dst], "is a URL: only files"),
        (vec!["pack", src, dst, "--store", "region=x"], "settings of a store are given, and this is a folder"),
        (vec!["pack", src, dst, "--work", "x"], "--work is for a DST at a URL"),
        (vec!["pack", src, "https://127.0.0.1:1/x"], "copy it to where the web server has its files"),
        (vec!["pack", src, dst, "--part", "1/2", "--work", "x"], "--work is for a DST at a URL"),
        (vec!["merge", dst, "--work", "x"], "--work is for a DST at a URL"),
        (vec!["merge", dst, "--store", "region=x"], "settings of a store are given, and this is a folder"),
        (vec!["status", dst, "--store", "region=x"], "settings of a store are given, and this is a folder"),
        (vec!["status", "https://127.0.0.1:1/x"], "a web server is only read from"),
        (
            vec!["pack", src, "s3://b/x", "--crops", "--dry-run", "--store=anonymous=true"],
            "leave --crops out; crop tables need a second read of all shards",
        ),
    ] {
        run(&args, &[("HOME", "/nothing")]).code(2).says(said);
        assert!(!Path::new(dst).exists(), "{args:?}");
    }
    let nowhere = [("HOME", ""), ("XDG_STATE_HOME", "")];
    run(&["pack", src, "s3://b/x", "--store=anonymous=true"], &nowhere).code(2).says("choose one with --work DIR");
    let Some(nginx) = Nginx::start() else { return };
    let said = run(&["pack", &nginx.url("tree"), dst], &[]).code(2).says("a web server has no listing");
    said.says("give a list of paths as the source, or use a bucket (s3://, gs://, az://)");
    for server in stores::all().into_iter().filter(|server| server.kind != Kind::Moto) {
        server.put("nothing/else", b"x");
        let settings = settings(&server, server.port());
        pack(&bench, &server.url("none"), dst, &settings, &[]).code(2).says("nothing lies below this URL");
        bench.pack_to(&bench.at("sealed"), &["--force"]).code(0);
        server.put_folder(&bench.at("sealed"), "sealed");
        let said = pack(&bench, &server.url("sealed"), dst, &settings, &[]).code(2);
        said.says("is a packed dataset").says("shardpack convert packs it anew");
        server.put("tree/a/1.jpg", &shardpack_testing::jpeg(1, 5100));
        for to in ["tree", "tree/a", "tree/packed/deep"] {
            let said = pack(&bench, &server.url("tree/"), &server.url(to), &settings, &[]).code(2);
            said.says("lies inside the source").says("choose a place beside the source");
        }
        assert_eq!(server.keys("tree/"), ["tree/a/1.jpg"], "{:?}", server.kind);
        // Of shards, only these files are read.
        server.put("shards/x.tar", &fs::read(bench.at("sealed/shard-000000.tar")).unwrap());
        let (from, to, work) = (server.url("shards"), server.url("shards/packed"), work(&bench, &settings));
        let words = ["convert", &from, &to, "--work", work.to_str().unwrap()];
        let words: Vec<&str> = words.into_iter().chain(settings.iter().map(String::as_str)).collect();
        run(&words, &[]).code(0).says("shardpack verify");
        run(&words, &[]).code(0).says("nothing to do");
        pack(&bench, &server.url("tree"), &server.url("tree-packed"), &settings, &[]).code(0);
        let missing = server.url("x").replacen("bucket", "no-such-bucket", 1);
        pack(&bench, &missing, dst, &settings, &[]).code(2);
        pack(&bench, src, &missing, &settings, &[]).code(2);
        assert!(!Path::new(dst).exists());
        leaves_nothing(&bench, &settings);
    }
}

#[test]
fn what_is_converted_goes_to_a_url_as_it_goes_to_a_folder() {
    let bench = Bench::with_source(60, 3000);
    bench.pack(&[]).code(0);
    let local = bench.at("local");
    let options = ["--format", "tfrecord", "--shards", "3", "--seed", "8"];
    let words = |dst: &str| -> Vec<String> {
        let words = ["convert", bench.dst().to_str().unwrap(), dst].map(str::to_owned);
        words.into_iter().chain(options.map(str::to_owned)).collect()
    };
    run(&words(local.to_str().unwrap()), &[]).code(0);
    for place in FolderServer::all() {
        let FolderServer::Objects(server) = &place else { continue };
        place.copy(&bench.dst(), "source");
        let work = work(&bench, &settings(server, server.port()));
        let mut args = words(&server.url("converted"));
        args.extend(settings(server, server.port()));
        args.extend(["--work".to_owned(), work.display().to_string()]);
        run(&args, &[]).code(0);
        same(&files_in(&local), &files_at(server, "converted"), &place.name());
        args[1] = server.url("source");
        args[2] = server.url("converted too");
        run(&args, &[]).code(0);
        same(&files_in(&local), &files_at(server, "converted too"), &place.name());
    }
}

/// A sealed dataset is seen in a bucket as in a folder: source files that were changed later are reported, and a lost record of splits
/// is written again without the shards.
#[test]
fn newer_files_and_a_lost_record_of_splits_are_seen_in_a_bucket_as_in_a_folder() {
    let bench = Bench::with_source(60, 3000);
    let options = ["--shards", "2", "--split-fraction", "val=0.3", "--json"];
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    let touch = |time| {
        let class = bench.src().join("class-2");
        let image = fs::read_dir(class).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
        fs::File::options().write(true).open(image).unwrap().set_modified(time).unwrap();
    };
    let src = bench.src();
    let again = |to: &str, settings: &[String]| {
        let json = pack(&bench, src.to_str().unwrap(), to, settings, &options).code(0).json();
        (json["already_sealed"].as_bool().unwrap(), json["newer_files"].as_u64().unwrap(), json)
    };
    let check =
        |to: &str, settings: &[String], remove: &dyn Fn() -> Vec<u8>, record: &dyn Fn() -> Vec<u8>, what: &str| {
            touch(old);
            assert_eq!((again(to, settings).0, again(to, settings).0), (false, true), "{what}");
            let (is_sealed, newer, _) = again(to, settings);
            assert_eq!((is_sealed, newer), (true, 0), "{what}");
            touch(std::time::SystemTime::now() + Duration::from_secs(3600));
            let (is_sealed, newer, _) = again(to, settings);
            assert_eq!((is_sealed, newer), (true, 1), "{what}");
            let before = remove();
            let (is_sealed, newer, json) = again(to, settings);
            assert_eq!((is_sealed, newer), (true, 1), "{what}");
            assert!(record() == before, "{what}");
            let sent = &json["network"]["sent_bytes"];
            assert!(sent.is_null() || sent.as_u64() == Some(before.len() as u64), "{what}: {json}");
        };
    let dst = bench.at("packed");
    let file = dst.join("splits.json");
    let remove = || {
        let before = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        before
    };
    check(dst.to_str().unwrap(), &[], &remove, &|| fs::read(&file).unwrap(), "folder");
    // One after the other: they share the tree.
    for server in stores::all() {
        let settings = settings(&server, server.port());
        let record = || server.get("packed/splits.json").unwrap();
        let remove = || {
            let before = record();
            server.delete("packed/splits.json");
            before
        };
        check(&server.url("packed"), &settings, &remove, &record, &format!("{:?}", server.kind));
        leaves_nothing(&bench, &settings);
    }
}

/// The hashes in the `index.json` of MDS are computed while a shard is written. The plan and the pack agree about the received bytes.
#[test]
fn no_shard_is_fetched_back_for_its_hashes() {
    let bench = Bench::with_source(60, 5000);
    let src = bench.src();
    each(|server| {
        let settings = settings(server, server.port());
        for (name, options) in [
            ("tar", &["--format", "webdataset"][..]),
            ("mds", &["--format", "mds"]),
            ("zstd", &["--format", "mds", "--compress", "zstd", "--set", "hashes=sha1,xxh64"]),
        ] {
            let to = server.url(name);
            let options = [options, &["--shards", "3", "--json"]].concat();
            let json = pack(&bench, src.to_str().unwrap(), &to, &settings, &options).code(0).json();
            let received = json["network"]["received_bytes"].as_u64().unwrap();
            let plan = ["plan", src.to_str().unwrap(), &to, "--seed", "3"].map(str::to_owned);
            let words =
                [&plan[..], &options.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &settings].concat();
            let planned = run(&words, &[]).code(0).json()["requests"]["received_bytes"].as_u64().unwrap();
            let what = format!("{:?} {name}: {planned} planned, {received} received", server.kind);
            // Manifests, plan and lists.
            assert!(planned == 0 && received < 50_000, "{what}");
        }
    });
}
