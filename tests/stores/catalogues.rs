//! README.md and croissant.json at URLs, on real servers: the bytes of a folder, found damage, and refused strangers.

use std::path::PathBuf;

use shardpack_testing::{
    Bench, Ran,
    places::{each, files_at, files_in, run, same, settings},
    stores::ObjectServer,
};

const CHOSEN: [&str; 6] = ["--sidecars", "auto,card,croissant", "--shard-samples", "2", "--seed", "3"];
const MINE: &[u8] = b"# My dataset\n";

fn tree() -> Bench {
    Bench::with(&["train/cat/1.jpg", "train/cat/2.jpg", "train/dog/3.jpg", "val/cat/4.jpg", "val/dog/5.jpg"])
}

fn work(bench: &Bench, server: &ObjectServer) -> PathBuf {
    bench.at(&format!("work-{:?}", server.kind))
}

/// Runs a command on the dataset at `prefix`.
fn at(bench: &Bench, server: &ObjectServer, command: &[&str], prefix: &str, options: &[&str]) -> Ran {
    let (url, work, settings) = (server.url(prefix), work(bench, server), settings(server, server.port()));
    let own = [url.as_str(), "--work", work.to_str().unwrap()];
    let settings = settings.iter().map(String::as_str);
    run(&[command, &own, options].concat().into_iter().chain(settings).collect::<Vec<_>>(), &[])
}

#[test]
fn a_url_gets_the_files_of_a_folder_and_keeps_those_of_others() {
    let bench = tree();
    let src = bench.src().display().to_string();
    bench.pack(&CHOSEN).code(0);
    let packed = files_in(&bench.dst());
    assert!(packed.contains_key("README.md") && packed.contains_key("val/croissant.json"));
    each(|server| {
        let kind = format!("{:?}", server.kind);
        let pack =
            |prefix: &str, options: &[&str]| at(&bench, server, &["pack", &src], prefix, &[options, &CHOSEN].concat());
        pack("whole", &[]).code(0);
        same(&packed, &files_at(server, "whole"), &kind);
        pack("whole", &[]).code(0).says("nothing to do");
        for part in ["1/2", "2/2"] {
            pack("parts", &["--part", part]).code(0);
        }
        at(&bench, server, &["merge"], "parts", &[]).code(0);
        same(&packed, &files_at(server, "parts"), &format!("{kind}, parts"));
        // Without the record the same command ends the pack.
        server.delete("parts/splits.json");
        server.delete("parts/README.md");
        pack("parts", &[]).code(0);
        same(&packed, &files_at(server, "parts"), &format!("{kind}, again"));

        server.delete("whole/croissant.json");
        pack("whole", &[]).code(1).says("croissant.json is missing");
        let mut card = packed["README.md"].clone();
        card[200] ^= 1;
        server.put("whole/README.md", &card);
        let verify = || {
            let (url, settings) = (server.url("whole"), settings(server, server.port()));
            let words = ["verify".to_owned(), url].into_iter().chain(settings);
            run(&words.collect::<Vec<_>>(), &[])
        };
        verify().code(1).says("README.md: BLAKE3 differs").says("croissant.json: missing");
        at(&bench, server, &["verify"], "whole", &["--repair", &src]).code(0);
        same(&packed, &files_at(server, "whole"), &format!("{kind}, repaired"));

        for name in ["README.md", "val/README.md"] {
            server.put(&format!("whole/{name}"), MINE);
            pack("whole", &["--force"]).code(2).says(name).says("was not written by shardpack");
            at(&bench, server, &["verify"], "whole", &["--repair", &src]).code(1).says(name);
            assert_eq!(server.get(&format!("whole/{name}")).unwrap(), MINE, "{kind}: {name}");
            server.put(&format!("whole/{name}"), &packed[name]);
        }
        // A dataset without them leaves none behind.
        at(&bench, server, &["pack", &src], "whole", &["--force", "--seed", "3"]).code(0);
        assert!(!files_at(server, "whole").keys().any(|name| name.ends_with("README.md")), "{kind}");
        verify().code(0);
    });
}
