//! Objects are put, listed and removed on real servers; the tests also check the results without `Store`.

use std::{
    collections::BTreeSet,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use shardpack_format::ErrorKind;
use shardpack_storage::remote::{Completed, Settings, Store};
use shardpack_testing::{
    server::{Fault, Nginx, Proxy},
    stores::{self, Kind, ObjectServer},
};

const MIB: usize = 1 << 20;

fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn open_at(server: &ObjectServer, prefix: &str, port: u16, more: &[(&str, &str)]) -> Arc<Store> {
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let settings = Settings::from_pairs(server.settings(port).into_iter().chain(more));
    Arc::new(Store::new(&server.url(prefix), &settings).unwrap())
}

fn open(server: &ObjectServer, prefix: &str) -> Arc<Store> {
    open_at(server, prefix, server.port(), &[])
}

#[test]
fn what_is_put_is_there_and_read_back_and_replaced() {
    for server in stores::all() {
        let store = open(&server, "put/x");
        for (name, length) in [("empty", 0), ("one", 1), ("a b/é%25+&='()", 1000), ("large", 9 * MIB)] {
            let (first, second) = (bytes(length, 1), bytes(length.max(1), 2));
            let what = format!("{:?} {name}", server.kind);
            store.put(name, first.clone()).unwrap();
            assert!(server.get(&format!("put/x/{name}")).as_ref() == Some(&first), "{what}");
            assert!(store.read_all(name, 10 << 20).unwrap() == Some(first), "{what}");
            // A store expects the version that it has read first.
            let later = open(&server, "put/x");
            later.put(name, second.clone()).unwrap();
            assert!(server.get(&format!("put/x/{name}")).as_ref() == Some(&second), "{what}");
            assert!(later.read_all(name, 10 << 20).unwrap() == Some(second), "{what}");
            later.delete(name).unwrap();
            assert!(server.get(&format!("put/x/{name}")).is_none(), "{what}");
            assert!(later.read_all(name, 1).unwrap().is_none(), "{what}");
            later.delete(name).unwrap();
        }
        assert_eq!(
            (store.transfers().again, store.transfers().sent_bytes),
            (0, 1001 + 9 * MIB as u64),
            "{:?}",
            server.kind
        );
        assert_eq!(server.keys(""), Vec::<String>::new(), "{:?}", server.kind);
    }
}

#[test]
fn an_object_of_parts_is_there_once_it_is_complete_and_not_before() {
    for server in stores::alone() {
        let store = open(&server, "");
        for lengths in [&[5 * MIB, 5 * MIB, 5 * MIB, 777][..], &[5 * MIB, 5 * MIB], &[3]] {
            let parts: Vec<_> = lengths.iter().enumerate().map(|(n, length)| bytes(*length, n as u64)).collect();
            let what = format!("{:?} {lengths:?}", server.kind);
            let upload = store.upload("a b/of parts").unwrap();
            assert!(upload.complete().is_err(), "{what}: without parts");
            assert_eq!(server.unfinished(), usize::from(server.kind != Kind::Azure), "{what}");
            thread::scope(|scope| {
                // Parts are sent from the last to the first.
                for (number, part) in parts.iter().enumerate().rev() {
                    let upload = &upload;
                    scope.spawn(move || upload.part(number, part.clone()).unwrap());
                    thread::sleep(Duration::from_millis(5));
                }
            });
            assert_eq!(server.keys(""), Vec::<String>::new(), "{what}");
            let completed = upload.complete().unwrap();
            assert!(matches!(completed, Completed::Yes), "{what}");
            assert!(server.get("a b/of parts").unwrap() == parts.concat(), "{what}");
            assert_eq!((server.unfinished(), server.keys("")), (0, vec!["a b/of parts".to_owned()]), "{what}");
            server.delete("a b/of parts");
        }
    }
}

#[test]
fn what_is_given_up_leaves_nothing() {
    for server in stores::alone() {
        let store = open(&server, "x");
        let upload = store.upload("a").unwrap();
        upload.part(1, bytes(5 * MIB, 1)).unwrap();
        assert!(upload.complete().is_err(), "{:?}: a part is missing", server.kind);
        upload.abort().unwrap();
        assert_eq!((server.unfinished(), server.keys("")), (0, Vec::new()), "{:?}", server.kind);
        // Aborts again, and aborts an unknown upload. S3 itself does not know such uploads, which is fine; s3s-fs refuses.
        if server.kind != Kind::S3 {
            upload.abort().unwrap();
            store.abort("none", "11111111-2222-3333-4444-555555555555").unwrap();
        }
    }
}

/// Names and lengths of the listed objects.
fn listed(store: &Store, below: &str) -> BTreeSet<(String, u64)> {
    let mut all = BTreeSet::new();
    store
        .list(below, |page| {
            assert!(page.folders.is_empty());
            all.extend(page.objects.into_iter().map(|object| (object.name, object.bytes)));
            Ok(())
        })
        .unwrap();
    all
}

#[test]
fn all_that_lies_below_a_folder_is_listed_and_nothing_beside_it() {
    for server in stores::all() {
        let what = server.kind;
        let names = ["a", "b/c", "b/d/e", "ü x/%41+&='.bin", "b/d/f"];
        for (number, name) in names.iter().enumerate() {
            server.put(&format!("list/{name}"), &bytes(number, 1));
        }
        server.put("list2", b"x");
        server.put("lis", b"x");
        // Servers that store objects as files cannot have these keys.
        if server.kind == Kind::Azure {
            for key in ["list/", "list/m/", "list/b//odd", "list/b//odder"] {
                server.put(key, b"");
            }
        }
        let store = open(&server, "list");
        let all: BTreeSet<_> = names.iter().enumerate().map(|(n, name)| ((*name).to_owned(), n as u64)).collect();
        assert_eq!(listed(&store, ""), all, "{what:?}");
        let below: BTreeSet<_> = all.iter().filter(|(name, _)| name.starts_with("b/")).cloned().collect();
        assert_eq!(listed(&store, "b/"), below, "{what:?}");
        let level = |below: &str| {
            let page = store.level(below).unwrap();
            let mut objects: Vec<_> = page.objects.into_iter().map(|object| object.name).collect();
            let (mut folders, mut odd) = (page.folders, page.odd);
            objects.sort();
            folders.sort();
            odd.sort_by(|a, b| a.name.cmp(&b.name));
            let odd: Vec<_> = odd.into_iter().map(|odd| (odd.is_folder(), odd.name)).collect();
            (objects, folders, odd)
        };
        let of = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let (objects, mut folders, odd) = level("");
        // The object that stands for the folder `m` lies in it.
        folders.retain(|folder| folder != "m");
        assert_eq!((objects, folders), (of(&["a"]), of(&["b", "ü x"])), "{what:?}");
        let is_azure = server.kind == Kind::Azure;
        assert_eq!(odd, if is_azure { vec![(true, String::new())] } else { Vec::new() }, "{what:?}");
        let (objects, folders, odd) = level("b/");
        assert_eq!((objects, folders), (of(&["b/c"]), of(&["b/d"])), "{what:?}");
        // `b//` holds objects, and stands for no folder.
        assert_eq!(odd, if is_azure { vec![(false, "b//".to_owned())] } else { Vec::new() }, "{what:?}");
        let mut odd = Vec::new();
        store
            .list("", |page| {
                odd.extend(page.odd.into_iter().map(|odd| (odd.name.clone(), odd.is_folder())));
                Ok(())
            })
            .unwrap();
        odd.sort();
        let expected = [("", true), ("b//odd", false), ("b//odder", false), ("m/", true)];
        let expected = expected.map(|(name, is_folder)| (name.to_owned(), is_folder));
        assert_eq!(odd, if is_azure { expected.to_vec() } else { Vec::new() }, "{what:?}");
        for (prefix, is_empty) in [("list", false), ("list/b", false), ("li", true), ("none", true), ("", false)] {
            let page = open(&server, prefix).level("").unwrap();
            assert_eq!(page.objects.is_empty() && page.folders.is_empty(), is_empty, "{what:?} {prefix}");
        }
        if is_azure {
            server.put("marked/", b"");
            let page = open(&server, "marked").level("").unwrap();
            assert!(page.objects.is_empty() && page.odd.iter().all(|odd| odd.is_folder() && odd.name.is_empty()));
        }
    }
}

#[test]
fn more_keys_than_fit_on_a_page_are_all_listed() {
    for server in stores::all() {
        // Azurite has pages of 5,000 keys, and is slow for each object.
        if server.kind == Kind::Azure {
            continue;
        }
        let names: BTreeSet<_> = (0..1234).map(|number| (format!("{number:04}"), 1)).collect();
        names.iter().for_each(|(name, _)| server.put(&format!("many/{name}"), b"x"));
        let store = open(&server, "many");
        assert_eq!(listed(&store, ""), names, "{:?}", server.kind);
        assert_eq!(store.level("").unwrap().objects.len(), 1234, "{:?}", server.kind);
        assert!(server.kind != Kind::S3 || store.transfers().requests == 4, "{:?}", store.transfers());
    }
}

#[test]
fn an_object_that_was_replaced_is_not_the_one_that_was_listed() {
    for server in stores::all() {
        let store = open(&server, "stamp");
        let (first, second) = (bytes(1000, 1), bytes(1000, 2));
        store.put("a", first.clone()).unwrap();
        let object = store.level("").unwrap().objects.remove(0);
        let mut into = vec![0; 600];
        store.read_listed(&object, 400, &mut into).unwrap();
        assert!(into == first[400..], "{:?}", server.kind);
        // Some servers distinguish versions only by whole seconds.
        thread::sleep(Duration::from_millis(1100));
        store.put("a", second).unwrap();
        for store in [&store, &open(&server, "stamp")] {
            let error = store.read_listed(&object, 0, &mut into).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{:?}: {error}", server.kind);
        }
        store.delete("a").unwrap();
        let error = store.read_listed(&object, 0, &mut into).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data, "{:?}: {error}", server.kind);
    }
}

#[test]
fn a_web_server_says_that_it_is_only_read_from() {
    let Some(nginx) = Nginx::start() else { return };
    let store = Arc::new(Store::new(&nginx.url(""), &Settings::default()).unwrap());
    let errors = [
        store.put("a", "x").unwrap_err(),
        store.delete("a").unwrap_err(),
        store.upload("a").unwrap_err(),
        store.list("", |_| Ok(())).unwrap_err(),
        store.level("").unwrap_err(),
    ];
    for error in errors {
        assert!(error.kind() == ErrorKind::Usage && error.help_text().is_some(), "{error}");
    }
    assert_eq!(nginx.asked(), Vec::<String>::new());
}

#[test]
fn requests_that_fail_in_any_way_do_in_the_end_what_they_are_for() {
    let faults = [Fault::Status(503, true), Fault::Status(500, false), Fault::Drop, Fault::Lost, Fault::Cut(0)];
    for server in stores::alone() {
        let proxy = Proxy::start(server.port());
        for fault in faults {
            let what = format!("{:?} {fault:?}", server.kind);
            let store = open_at(&server, "f", proxy.port(), &[("retry_for", "20")]);
            proxy.fail(3, fault);
            let names = ["a", "b", "c/d", "of parts"];
            for name in &names[..3] {
                store.put(name, bytes(1000, 1)).unwrap();
            }
            let upload = store.upload("of parts").unwrap();
            let parts = [bytes(5 * MIB, 1), bytes(7, 2)];
            for (number, part) in parts.iter().enumerate() {
                upload.part(number, part.clone()).unwrap();
            }
            // The object exists whichever variant is returned, because nothing else failed.
            upload.complete().unwrap();
            assert!(server.get("f/of parts").unwrap() == parts.concat(), "{what}");
            let given_up = store.upload("given up").unwrap();
            given_up.part(0, bytes(9, 3)).unwrap();
            // The upload is aborted, and this server refuses requests about uploads that it no longer knows.
            if let Err(error) = given_up.abort() {
                assert!(server.kind == Kind::S3 && matches!(fault, Fault::Lost | Fault::Cut(_)), "{what}: {error}");
                assert!(error.to_string().contains("refuses"), "{what}: {error}");
            }
            // An upload is left to the rules of the bucket if its first response is lost.
            let left = if matches!(fault, Fault::Lost | Fault::Cut(_)) { 2 } else { 0 };
            assert!(server.unfinished() <= left, "{what}: {}", server.unfinished());
            for _ in 0..3 {
                let found: Vec<_> = listed(&store, "").into_iter().map(|(name, _)| name).collect();
                assert_eq!(found, names, "{what}");
            }
            for name in names {
                assert!(server.get(&format!("f/{name}")).is_some(), "{what}");
                store.delete(name).unwrap();
            }
            assert_eq!(server.keys("f"), Vec::<String>::new(), "{what}");
            assert!(
                proxy.faults() >= 3 && store.transfers().requests == proxy.requests(),
                "{what}: {:?}",
                store.transfers()
            );
            assert!(
                matches!(fault, Fault::Cut(_)) || store.transfers().again >= proxy.faults(),
                "{what}: {:?}",
                store.transfers()
            );
        }
    }
}

#[test]
fn an_object_whose_completion_was_not_heard_of_is_there() {
    for server in stores::all() {
        let proxy = Proxy::start(server.port());
        let store = open_at(&server, "", proxy.port(), &[("retry_for", "2")]);
        let upload = store.upload("a").unwrap();
        upload.part(0, bytes(100, 1)).unwrap();
        proxy.fail_next(1, Fault::Lost);
        let completed = upload.complete().unwrap();
        assert!(proxy.faults() == 1 && server.get("a").unwrap() == bytes(100, 1), "{:?}: {completed:?}", server.kind);
        // If the upload was never completed, the result is an error, or `Perhaps`.
        let upload = store.upload("b").unwrap();
        upload.part(0, bytes(100, 1)).unwrap();
        proxy.fail(1, Fault::Drop);
        let is_not = matches!(upload.complete(), Err(_) | Ok(Completed::Perhaps(_)));
        assert!(is_not && server.get("b").is_none(), "{:?}", server.kind);
    }
}

#[test]
fn a_silent_server_is_waited_for_only_so_long() {
    let Some(server) = ObjectServer::start(Kind::S3) else { return };
    server.put("a", b"x");
    let proxy = Proxy::start(server.port());
    proxy.fail(1, Fault::Stall(0, Duration::from_secs(300)));
    let store = open_at(&server, "", proxy.port(), &[("retry_for", "1")]);
    let start = Instant::now();
    let error = store.level("").unwrap_err();
    assert!(error.kind() == ErrorKind::System && error.help_text().is_some(), "{error}");
    assert!(start.elapsed() < Duration::from_secs(60), "{error}: {:?}", start.elapsed());
}
