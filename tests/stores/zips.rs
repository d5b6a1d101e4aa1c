//! Trees in zip archives at URLs, on real servers: the output is byte for byte that of the unpacked tree in a folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use shardpack_testing::{
    Bench, Ran,
    places::{FolderServer, files_in, run, same},
    server::{Fault, Nginx, Proxy},
    stores::{self, Kind},
};

/// Images in three classes and two splits, of which the first is an archive by itself too.
fn tree() -> (Bench, PathBuf) {
    let bench = Bench::new();
    for number in 0..40 {
        let (split, class) = (["train", "val"][number / 30], ["cat", "dog", "e é+%25"][number % 3]);
        bench.file(
            format!("{split}/{class}/{number:02}.jpg"),
            &shardpack_testing::jpeg(number as u64, 5000 + number * 90),
        );
    }
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let out = bench.at("zips");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/write_zips.py");
    let ran = Command::new(python).arg(script).arg(bench.src()).arg(&out).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    (bench, out)
}

/// Runs the function on every installed server, moto too, concurrently.
fn each(what: impl Fn(&FolderServer) + Sync) {
    let places: Vec<_> =
        stores::all().into_iter().map(FolderServer::Objects).chain(Nginx::start().map(FolderServer::Web)).collect();
    let what = &what;
    thread::scope(|scope| places.iter().for_each(|place| drop(scope.spawn(move || what(place)))));
}

/// Runs `command`, the words of an archive at a URL with its settings, and more.
fn ran(command: &[&str], at: &[String], more: &[&str]) -> Ran {
    let words = command.iter().copied().chain(at.iter().map(String::as_str)).chain(more.iter().copied());
    run(&words.collect::<Vec<_>>(), &[])
}

/// Packs the archive into `dst`.
fn pack(at: &[String], dst: &Path, options: &[&str]) -> Ran {
    ran(&["pack"], &[at, &[dst.display().to_string()]].concat(), options)
}

#[test]
fn an_archive_at_a_url_is_packed_as_its_tree() {
    let (bench, zips) = tree();
    let cases: [(&str, &[&str]); 4] = [
        ("", &["--shards", "3"]),
        ("train", &["--format", "mds", "--split-fraction", "val=0.3"]),
        ("train", &["--resize", "32"]),
        ("val", &["--read-order", "physical", "--compress", "zstd"]),
    ];
    let whole: Vec<_> = (0..)
        .zip(cases)
        .map(|(number, (below, options))| {
            let local = bench.at(&format!("local-{number}"));
            shardpack_testing::pack(&bench.src().join(below), &local, options).code(0);
            files_in(&local)
        })
        .collect();
    each(|place| {
        place.copy(&zips, "zips");
        for (number, (below, options)) in cases.into_iter().enumerate() {
            let archive = ["stored.zip", "streamed.zip", "zip64.zip", "comment.zip"][number];
            let dst = bench.at(&format!("{}-{number}", place.name()));
            let said = pack(&place.url(&format!("zips/{archive}/{below}"), place.port()), &dst, options).code(0);
            said.says("network ").says("source  network (");
            same(&whole[number], &files_in(&dst), &format!("{} {archive} {options:?}", place.name()));
        }
        // In a folder of the archive, beside other files.
        let dst = bench.at(&format!("{}-below", place.name()));
        let below = place.url("zips/below.zip/photos/2024", place.port());
        let json = pack(&below, &dst, &["--shards", "3", "--json"]).code(0).json();
        same(&whole[0], &files_in(&dst), &place.name());
        // Where the archive is, and its directory: a few; one for each image, and one more for its first bytes.
        let requests = json["network"]["requests"].as_u64().unwrap();
        assert!((80..=88).contains(&requests), "{}: {requests}", place.name());
        let dst = dst.to_str().unwrap();
        ran(&["verify", dst, "--against"], &below, &[]).code(0);
        let shard = Path::new(dst).join("train/train-000000.tar");
        let mut bytes = fs::read(&shard).unwrap();
        bytes[3000] ^= 1;
        fs::write(&shard, bytes).unwrap();
        ran(&["verify", dst, "--repair"], &below, &[]).code(0);
        same(&whole[0], &files_in(Path::new(dst)), &place.name());
    });
}

#[test]
fn archives_at_urls_are_planned_and_an_archive_that_changes_is_found() {
    let (bench, zips) = tree();
    let whole = bench.at("whole");
    shardpack_testing::pack(&bench.src(), &whole, &[]).code(0);
    each(|place| {
        place.copy(&zips, "zips");
        let url = |name: &str| place.url(&format!("zips/{name}"), place.port());
        let (all, name) = (url("deflated.zip"), place.name());
        let at = |what: &str| bench.at(&format!("{name}-{what}"));
        // Each split is a folder in another archive.
        let splits = [
            format!("--split=train={}", url("stored.zip/train")[0]),
            format!("--split=val={}", all[0].clone() + "/val"),
        ];
        ran(&["pack", &splits[0], &splits[1], at("two").to_str().unwrap()], &all[1..], &[]).code(0);
        same(&files_in(&whole), &files_in(&at("two")), &name);
        // A plan has no settings of stores.
        if let FolderServer::Web(_) = place {
            let (plan, dst) = (at("plan").display().to_string(), at("planned").display().to_string());
            ran(&["plan", "-o", &plan], &all, &[]).code(0);
            run(&["pack", "--plan", &plan, &dst], &[]).code(0);
            same(&files_in(&whole), &files_in(&at("planned")), &name);
            place.put("zips/deflated.zip", &fs::read(zips.join("stored.zip")).unwrap());
            let late = at("late").display().to_string();
            run(&["pack", "--plan", &plan, &late], &[]).code(1).says("changed since it was planned");
        }
        pack(&url("bad/data.zip"), &at("bad"), &["--shards", "3"]).code(1).says("damaged: its CRC-32 is");
        place.put("zips/bad/data.zip", &fs::read(zips.join("stored.zip")).unwrap());
        pack(&url("bad/data.zip"), &at("bad"), &["--shards", "3"]).code(2).says(" was changed, and 29 more");
        pack(&url("bad/encrypted.zip"), &at("encrypted"), &[]).code(1).says("is encrypted");
        pack(&url("bad/twice.zip"), &at("twice"), &[]).code(1).says("twice.zip: member ").says(" is there twice");
        pack(&url("stored.zip/none"), &at("none"), &[]).code(2).says("the archive has no files in this folder");
        // s3s-fs is a folder, and takes the prefix for an object.
        if let FolderServer::Objects(server) = place
            && server.kind != Kind::S3
        {
            // A folder with the name of an archive is a folder.
            server.put_folder(&bench.src(), "folder.zip");
            pack(&place.url("folder.zip", place.port()), &at("folder"), &[]).code(0);
            same(&files_in(&whole), &files_in(&at("folder")), &name);
        }
    });
}

#[test]
fn what_a_network_does_to_an_archive_changes_nothing() {
    let (bench, zips) = tree();
    let whole = bench.at("whole");
    shardpack_testing::pack(&bench.src(), &whole, &[]).code(0);
    let whole = files_in(&whole);
    let faults = [
        Fault::Status(503, false),
        Fault::Drop,
        Fault::Cut(100),
        Fault::Lost,
        Fault::Delay(Duration::from_millis(9)),
        // Read once more, the member is right.
        Fault::Flip(300),
    ];
    each(|place| {
        place.copy(&zips, "zips");
        let proxy = Proxy::start(place.port());
        for (number, fault) in faults.into_iter().enumerate() {
            match fault {
                // If many requests are wrong, so is the second one for the same member sometimes.
                Fault::Flip(_) => proxy.fail_one(70, fault),
                _ => proxy.fail(7, fault),
            }
            let dst = bench.at(&format!("{}-{number}", place.name()));
            let mut url = place.url("zips/streamed.zip", proxy.port());
            url.push("--store=requests=1".to_owned());
            pack(&url, &dst, &[]).code(0);
            same(&whole, &files_in(&dst), &format!("{} {fault:?}", place.name()));
            assert!(proxy.faults() > 0, "{} {fault:?}", place.name());
        }
    });
}
