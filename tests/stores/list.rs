//! `pack` of lists whose images are in buckets and on web servers: the output is byte for byte that of the same list and files in a
//! folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_testing::{
    Bench, Ran, contents,
    server::{Fault, Nginx, Proxy},
    stores::{self, Kind, ObjectServer},
};

const NAMES: [&str; 6] =
    ["a/1.jpg", "a/2 with space.jpg", "b/é+%25&'.jpg", "b/deep/er/3.jpg", "c.jpg", "#hash?query.jpg"];

/// A tree with a caption beside one image, and an empty image.
fn tree() -> Bench {
    let bench = Bench::with(&NAMES);
    bench.file("a/1.txt", b"a caption");
    bench.file("empty.jpg", b"");
    bench
}

/// Writes a list of all images, an empty file and a missing file. Each path is `before` followed by the name in the spelling of `spell`.
fn list(bench: &Bench, name: &str, before: &str, spell: impl Fn(&str) -> String) -> PathBuf {
    let mut text = String::from("path,label,score\n");
    for (number, name) in NAMES.iter().chain(&["empty.jpg", "gone.jpg"]).enumerate() {
        text += &format!("\"{before}{}\",{},{}.50\n", spell(name), number % 3, number);
    }
    let path = bench.at(name);
    fs::write(&path, text).unwrap();
    path
}

fn pack(bench: &Bench, list: &Path, root: &str, to: &str, more: &[String]) -> Ran {
    let (list, to) = (list.display().to_string(), bench.at(to).display().to_string());
    let words = ["pack", &list, &to, "--root", root, "--with", "txt", "--shards", "2", "--on-bad", "skip", "--json"];
    let words: Vec<&str> = words.into_iter().chain(more.iter().map(String::as_str)).collect();
    shardpack_testing::run(&words)
}

fn settings(server: &ObjectServer, port: u16) -> Vec<String> {
    server.settings(port).into_iter().map(|(name, value)| format!("--store={name}={value}")).collect()
}

/// The JSON report of `pack` without time and network, and the number of requests.
fn told(ran: Ran) -> (serde_json::Value, Option<u64>) {
    let mut json = ran.code(0).json();
    let all = json.as_object_mut().unwrap();
    let requests = all.remove("network").and_then(|network| network["requests"].as_u64());
    all.remove("elapsed_ms");
    (json, requests)
}

#[test]
fn lists_of_objects_are_packed_as_lists_of_files() {
    let bench = tree();
    let root = bench.src().display().to_string();
    let (local, none) = told(pack(&bench, &list(&bench, "local.csv", "", str::to_owned), &root, "local", &[]));
    assert_eq!((local["datasets"][0]["samples"].as_u64(), none), (Some(6), None), "{local}");
    stores::each(|server| {
        // Moto behaves like s3s-fs, but slower.
        if server.kind == Kind::Moto {
            return;
        }
        let kind = format!("{:?}", server.kind);
        server.put_folder(&bench.src(), "tree");
        let (root, settings) = (server.url("tree"), settings(server, server.port()));
        let lists = [("", ""), ("-urls", &*format!("{root}/")), ("-dots", "./")];
        for (name, before) in lists {
            let name = format!("{kind}{name}");
            let list = list(&bench, &format!("{name}.csv"), before, str::to_owned);
            let (found, requests) = told(pack(&bench, &list, &root, &name, &settings));
            assert_eq!(found["datasets"], local["datasets"], "{name}: {found}");
            assert_eq!(contents(&bench.at("local")), contents(&bench.at(&name)), "{name}");
            // Versions of objects are no times.
            let (again, _) = told(pack(&bench, &list, &root, &name, &settings));
            assert_eq!(again["newer_files"], 0, "{name}: {again}");
            let (dst, list) = (bench.at(&name).display().to_string(), list.display().to_string());
            let words = ["verify", &dst, "--against", &list, "--root", &root, "--json"].into_iter();
            let verified =
                shardpack_testing::run(&words.chain(settings.iter().map(String::as_str)).collect::<Vec<_>>()).code(0);
            assert_eq!(verified.json()["ok"], true, "{}", verified.stdout);
            // Requests: metadata of 8 images and of the files beside them; the first bytes, then the whole, of 6 images; one caption.
            assert!(requests.unwrap() <= 2 * 8 + 2 * 6 + 1 + 4, "{name}: {requests:?}");
        }
        server.put("tree/c.jpg", &shardpack_testing::jpeg(7, 5000));
        let (dst, list_of_all) =
            (bench.at(&kind).display().to_string(), bench.at(&format!("{kind}.csv")).display().to_string());
        let words = ["verify", &dst, "--against", &list_of_all, "--root", &root].into_iter();
        let words: Vec<_> = words.chain(settings.iter().map(String::as_str)).collect();
        shardpack_testing::run(&words).code(1).says("c.jpg");
        let outside = list(&bench, &format!("{kind}-out.csv"), "s3://another/", str::to_owned);
        pack(&bench, &outside, &root, "none", &settings).code(2).says("line 2: ").says("leads out of");
        let urls = list(&bench, &format!("{kind}-no-root.csv"), &format!("{root}/"), str::to_owned);
        let no_root = ["pack".to_owned(), urls.display().to_string(), bench.at("none").display().to_string()];
        shardpack_testing::run(&no_root).code(2).says("is a URL, and the root is a folder").says("--root");
        assert!(!bench.at("none").exists());
    });
}

#[test]
fn lists_are_the_same_where_every_fifth_request_fails() {
    let bench = tree();
    let root = bench.src().display().to_string();
    told(pack(&bench, &list(&bench, "local.csv", "", str::to_owned), &root, "local", &[]));
    stores::each(|server| {
        if server.kind == Kind::Moto {
            return;
        }
        server.put_folder(&bench.src(), "tree");
        for (number, fault) in [Fault::Status(503, false), Fault::Drop, Fault::Cut(100)].into_iter().enumerate() {
            let (proxy, name) = (Proxy::start(server.port()), format!("{:?}-{number}", server.kind));
            proxy.fail(5, fault);
            let list = list(&bench, &format!("{name}.csv"), "", str::to_owned);
            told(pack(&bench, &list, &server.url("tree/"), &name, &settings(server, proxy.port())));
            assert!(proxy.faults() > 3);
            assert_eq!(contents(&bench.at("local")), contents(&bench.at(&name)), "{name}");
        }
    });
}

#[test]
fn lists_of_pages_of_a_web_server_are_packed_too() {
    let Some(nginx) = Nginx::start() else { return };
    let bench = tree();
    let local = bench.src().display().to_string();
    told(pack(&bench, &list(&bench, "local.csv", "", str::to_owned), &local, "local", &[]));
    let data = nginx.data().join("tree of images");
    for name in NAMES.iter().chain(&["a/1.txt", "empty.jpg"]) {
        fs::create_dir_all(data.join(name).parent().unwrap()).unwrap();
        fs::copy(bench.src().join(name), data.join(name)).unwrap();
    }
    let root = nginx.url("tree%20of%20images/");
    // Relative paths are plain names. URLs are percent-encoded.
    let spelt = |name: &str| {
        let byte = |byte: u8| match byte {
            b'/' | b'.' | b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        };
        name.bytes().map(byte).collect::<String>()
    };
    for (name, list) in
        [("web", list(&bench, "web.csv", "", str::to_owned)), ("web-urls", list(&bench, "web-urls.csv", &root, spelt))]
    {
        told(pack(&bench, &list, &root, name, &[]));
        assert_eq!(contents(&bench.at("local")), contents(&bench.at(name)), "{name}");
    }
}

#[test]
fn an_object_that_was_changed_since_it_was_planned_is_one_bad_sample() {
    let bench = tree();
    stores::each(|server| {
        if server.kind != Kind::S3 {
            return;
        }
        server.put_folder(&bench.src(), "tree");
        let list = list(&bench, "planned.csv", "", str::to_owned);
        let run = |words: &[&str]| {
            let mut command = std::process::Command::new(shardpack_testing::binary());
            Ran::from(command.args(words).envs(server.environment()).output().unwrap())
        };
        let (list, plan, to) = (list.display().to_string(), bench.at("a plan").display().to_string(), bench.at("late"));
        let root = server.url("tree/");
        let price = |list: &[&str], more: &[&str]| {
            run(&[&["plan"], list, &["-o", &plan, "--price", "get=1"], more].concat()).code(0)
        };
        price(&[&list, "--root", &root], &["--split-fraction", "val=0.5"]).says("network about 29 GET");
        price(&[&list, "--root", &root], &[]).says("network about 29 GET");
        server.put("tree/c.jpg", &shardpack_testing::jpeg(7, 5000));
        let to = to.display().to_string();
        run(&["pack", "--plan", &plan, &to, "--on-bad", "skip"]).code(0).says("5 of 8");
        let late = shardpack_testing::Dataset::read(&bench.at("late")).unpacked();
        assert!(
            late.iter().any(|(path, _, why)| path == "c.jpg" && why.contains("changed since it was planned")),
            "{late:?}"
        );
    });
}
