//! Stores list exactly the objects that were put, with any name, and despite network faults.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use shardpack_format::{ErrorKind, Result};
use shardpack_storage::{
    Object, Odd,
    remote::{Settings, Store},
};
use shardpack_testing::{
    server::{Fault, Proxy},
    stores::{self, Kind, ObjectServer},
};

fn store(server: &ObjectServer, port: u16) -> Store {
    Store::new(&server.url(""), &Settings::from_pairs(server.settings(port))).unwrap()
}

/// The complete listing below a folder.
fn listed(store: &Store, below: &str) -> Result<(Vec<Object>, Vec<Odd>)> {
    let (mut objects, mut odd) = (Vec::new(), Vec::new());
    store.list(below, |page| {
        assert!(page.folders.is_empty());
        objects.extend(page.objects);
        odd.extend(page.odd);
        Ok(())
    })?;
    Ok((objects, odd))
}

/// Names and lengths; fails if a name is listed twice.
fn sizes(objects: &[Object]) -> BTreeMap<&str, u64> {
    let sizes: BTreeMap<_, _> = objects.iter().map(|object| (object.name.as_str(), object.bytes)).collect();
    assert_eq!(sizes.len(), objects.len());
    sizes
}

/// Names that are paths.
const PATHS: [&str; 17] = [
    "plain/a.jpg",
    "plain/a.jpg.txt",
    "plain-beside/a.jpg",
    "with space/b c  d.jpg",
    " begins and ends with a space ",
    "é/ü ß/日本語/😀.jpg",
    "e\u{301} is not \u{e9}.jpg",
    "100%/25%25/%2F/%2e%2E.jpg",
    "a+b&c=d?e#f;g,h:i@j.jpg",
    "'quoted' \"twice\" <tag> &amp; ]]>.jpg",
    "back\\slash.jpg",
    "[x]{y}|^`~!$()*",
    "..two/three.../.hidden/...",
    "-/--/_",
    "UPPER/lower.JPG",
    "upper/LOWER.jpg",
    "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20",
];

/// Names that are not paths, and whether an empty object of this name stands for a folder.
const ODD: [(&str, bool); 10] = [
    ("empty//part.jpg", false),
    ("/begins.jpg", false),
    ("up/../x.jpg", false),
    ("../out.jpg", false),
    ("dot/./x.jpg", false),
    ("ends/with/..", false),
    ("folder/", true),
    ("folder//", false),
    ("a/folder/in one/", true),
    ("line\nbreak.jpg", false),
];

/// Whether a server accepts the key and keeps it unchanged.
fn takes(kind: Kind, key: &str) -> bool {
    let is_odd = ODD.iter().any(|(odd, _)| *odd == key);
    let has_dots = key.split('/').any(|part| [".", ".."].contains(&part));
    match kind {
        Kind::S3 => !is_odd,
        Kind::Google => !is_odd && key.len() < 255,
        // The tests sign requests to these servers only for paths without dots.
        Kind::Garage => !has_dots && key.len() < 450,
        Kind::Azure => !has_dots && !key.contains('\\'),
        Kind::Moto => !key.contains('\n'),
    }
}

#[test]
fn all_that_was_put_is_listed_whatever_its_name_is() {
    stores::each(|server| {
        let store = store(server, server.port());
        let prefix = store.url().split_once("://bucket/").unwrap().1.len();
        // The longest possible key.
        let long = format!("long/{}", "0123456789/".repeat(100));
        let long = &long[..1024 - prefix];
        let long = &format!("{}x", &long[..long.len() - 1]);
        let mut expected = BTreeMap::new();
        for (number, key) in PATHS.into_iter().chain([long.as_str()]).enumerate() {
            if takes(server.kind, key) {
                server.put(key, &vec![b'x'; number]);
                expected.insert(key, number as u64);
            }
        }
        let mut odd = BTreeMap::new();
        for (number, (key, is_folder)) in ODD.into_iter().enumerate().filter(|(_, (key, _))| takes(server.kind, key)) {
            let bytes = if is_folder { 0 } else { number as u64 };
            server.put(key, &vec![b'x'; bytes as usize]);
            odd.insert(key, (bytes, is_folder));
        }
        let (objects, found) = listed(&store, "").unwrap();
        assert_eq!(sizes(&objects), expected, "{:?}", server.kind);
        let found = found.iter().map(|odd| (odd.name.as_str(), (odd.bytes, odd.is_folder())));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), odd, "{:?}", server.kind);
        for object in &objects {
            let mut bytes = vec![0; object.bytes as usize];
            store.read_listed(object, 0, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == b'x'), "{:?} {}", server.kind, object.name);
        }
        // Below the folder, and not below other names with the same beginning.
        let (objects, _) = listed(&store, "plain/").unwrap();
        assert_eq!(sizes(&objects).into_keys().collect::<Vec<_>>(), ["plain/a.jpg", "plain/a.jpg.txt"]);
        assert_eq!(listed(&store, "none/").unwrap(), (Vec::new(), Vec::new()));
        assert_eq!(listed(&store, "pla/").unwrap(), (Vec::new(), Vec::new()));
        // A listing by levels has the same objects.
        let (mut folders, mut by_levels) = (vec![String::new()], Vec::new());
        while let Some(below) = folders.pop() {
            let level = store.level(&below).unwrap();
            by_levels.extend(level.objects);
            folders.extend(level.folders.into_iter().map(|folder| folder + "/"));
        }
        assert_eq!(sizes(&by_levels), expected, "{:?}", server.kind);
        assert!(store.folder("none").unwrap().level("").unwrap() == Default::default());
    });
}

/// Puts `count` objects; the length of an object is its number modulo 100.
fn put_many(server: &ObjectServer, count: usize) -> BTreeMap<String, u64> {
    let all: BTreeMap<_, _> = (0..count).map(|n| (format!("many/{:02}/{n:06}.jpg", n % 7), n as u64 % 100)).collect();
    let pairs: Vec<_> = all.iter().collect();
    thread::scope(|scope| {
        for part in pairs.chunks(count.div_ceil(16)) {
            let put = move || part.iter().for_each(|(key, bytes)| server.put(key, &vec![b'x'; **bytes as usize]));
            scope.spawn(put);
        }
    });
    all
}

/// Compares the listing with the objects of [`put_many`].
fn compare(store: &Store, all: &BTreeMap<String, u64>, what: &str) {
    let (objects, odd) = listed(store, "many/").unwrap();
    assert!(odd.is_empty(), "{what}: {odd:?}");
    let all = all.iter().map(|(key, bytes)| (key.as_str(), *bytes)).collect();
    assert_eq!(sizes(&objects), all, "{what}");
}

#[test]
fn a_list_of_several_pages_is_whole_where_requests_fail() {
    let faults = [
        Fault::Status(503, true),
        Fault::Status(503, false),
        Fault::Status(429, false),
        Fault::Status(500, false),
        Fault::Drop,
        Fault::Cut(0),
        Fault::Cut(5000),
        Fault::Stall(5000, Duration::from_millis(200)),
        Fault::Delay(Duration::from_millis(30)),
    ];
    thread::scope(|scope| {
        // The servers of Google and Azure send one page; moto is slow.
        for server in [Kind::S3, Kind::Garage].into_iter().filter_map(ObjectServer::start) {
            scope.spawn(move || {
                let all = put_many(&server, 2500);
                let direct = store(&server, server.port());
                compare(&direct, &all, &format!("{:?}", server.kind));
                assert_eq!(direct.transfers().requests, 3);
                let proxy = Proxy::start(server.port());
                for fault in faults {
                    let store = store(&server, proxy.port());
                    proxy.fail(2, fault);
                    let what = format!("{:?} {fault:?}", server.kind);
                    compare(&store, &all, &what);
                    let counts = store.transfers();
                    assert!(proxy.faults() >= 1 && proxy.requests() == counts.requests, "{what}: {counts:?}");
                    match fault {
                        Fault::Delay(_) => assert_eq!(counts.again, 0, "{what}"),
                        Fault::Status(503 | 429, _) => assert!(counts.too_many >= 1, "{what} {counts:?}"),
                        _ => assert!(counts.again >= 1, "{what} {counts:?}"),
                    }
                }
            });
        }
    });
}

#[test]
fn lists_are_whole_where_every_fifth_request_fails() {
    let faults = [Fault::Status(503, false), Fault::Drop, Fault::Cut(40), Fault::Stall(40, Duration::from_millis(100))];
    stores::each(|server| {
        let all: Vec<_> = (0..11).map(|folder| (format!("{folder:02}/"), folder % 4 + 1)).collect();
        for (folder, count) in &all {
            (0..*count).for_each(|number| server.put(&format!("{folder}{number}"), b"x"));
        }
        let proxy = Proxy::start(server.port());
        for fault in faults {
            let store = store(server, proxy.port());
            proxy.fail(5, fault);
            for (folder, count) in &all {
                let (objects, odd) = listed(&store, folder).unwrap();
                assert_eq!((objects.len(), odd.len()), (*count, 0), "{:?} {fault:?} {folder}", server.kind);
            }
            assert!(proxy.faults() >= 2, "{:?} {fault:?}", server.kind);
        }
    });
}

#[test]
fn a_hundred_thousand_objects_are_listed() {
    let Some(server) = ObjectServer::start(Kind::Garage) else { return };
    let all = put_many(&server, 100_000);
    let store = store(&server, server.port());
    compare(&store, &all, "garage");
    assert_eq!(store.transfers().requests, 100);
}

#[test]
fn what_cannot_be_listed_is_said() {
    let web = Store::new("http://127.0.0.1:1/x", &Settings::default()).unwrap();
    let error = listed(&web, "").unwrap_err();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("a web server has no listing"), "{error}");
    stores::each(|server| {
        server.put("a", b"x");
        // The function that takes pages can end the listing.
        let store = store(server, server.port());
        let error = store.list("", |_| Err(shardpack_format::Error::usage("enough"))).unwrap_err();
        assert_eq!(error.to_string(), "enough");
        // fake-gcs-server and s3s-fs return no error for a missing bucket.
        if [Kind::Garage, Kind::Moto, Kind::Azure].contains(&server.kind) {
            let other = store.url().replace(stores::BUCKET, "other-bucket");
            let error = listed(&Store::new(&other, &Settings::from_pairs(server.settings(server.port()))).unwrap(), "");
            let error = error.unwrap_err();
            assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("bucket"), "{error}");
        }
    });
}

/// A server that answers each request with `answer(number, head)`, and then with endless bytes if `is_endless`.
fn hostile(answer: impl Fn(usize, &str) -> Vec<u8> + Send + 'static, is_endless: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // Ends with the process.
    thread::spawn(move || {
        for (number, mut client) in listener.incoming().flatten().enumerate() {
            let mut head = [0; 8192];
            let bytes = client.read(&mut head).unwrap_or(0);
            let answer = answer(number, &String::from_utf8_lossy(&head[..bytes]));
            thread::spawn(move || {
                let _ = client.write_all(&answer);
                while is_endless && client.write_all(&[b'x'; 1 << 16]).is_ok() {}
            });
        }
    });
    port
}

/// A page of an S3 listing.
fn page(content: &str) -> Vec<u8> {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>bucket</Name><MaxKeys>1000</MaxKeys>\
         {content}</ListBucketResult>"
    );
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    (head + &body).into_bytes()
}

fn object(key: &str) -> String {
    format!("<Contents><Key>{key}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>")
}

fn more(token: &str) -> String {
    format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>")
}

#[test]
fn a_hostile_server_takes_neither_memory_nor_time_without_bound() {
    type Answer = Box<dyn Fn(usize, &str) -> Vec<u8> + Send>;
    let always = |answer: Vec<u8>| -> Answer { Box::new(move |_, _| answer.clone()) };
    let text = |text: &str| text.as_bytes().to_vec();
    let rows: [(&str, Answer, bool, &str); 11] = [
        ("an endless head", always(text("HTTP/1.1 200 OK\r\nX: ")), true, ""),
        ("an endless body", always(text("HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>")), true, "longer than 64 MiB"),
        ("no HTTP", always(text("220 welcome\r\n")), false, ""),
        ("nothing", always(text("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")), false, ""),
        ("no XML", always(text("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{\"a\":")), false, ""),
        ("no end", always(text("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListBucketResult><Contents>")), false, ""),
        ("no size", always(page(&object("p/a").replace("<Size>1", "<Size>-1"))), false, ""),
        ("what is elsewhere", always(page(&object("q/a"))), false, "does not begin as it should"),
        ("one token", always(page(&(object("p/a") + &more("t")))), false, "again and again"),
        (
            "two tokens in turn",
            Box::new(|number, _| page(&(object("p/a") + &more(&(number % 2).to_string())))),
            false,
            "again and again",
        ),
        ("new tokens and nothing else", Box::new(|number, _| page(&more(&number.to_string()))), false, "lists nothing"),
    ];
    thread::scope(|scope| {
        for (name, answer, is_endless, said) in rows {
            scope.spawn(move || {
                let port = hostile(answer, is_endless);
                let endpoint = format!("http://127.0.0.1:{port}");
                let pairs = [("endpoint", &*endpoint), ("region", "x"), ("anonymous", "true"), ("retry_for", "2")];
                let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
                let store = Store::new("s3://bucket/p", &Settings::from_pairs(pairs)).unwrap();
                let (start, mut pages) = (Instant::now(), 0);
                let listed = store.list("", |_| {
                    pages += 1;
                    match pages < 10_000 && start.elapsed() < Duration::from_secs(60) {
                        true => Ok(()),
                        false => panic!("{name}: {pages} pages in {:?}", start.elapsed()),
                    }
                });
                let error = listed.expect_err(name).to_string();
                assert!(error.contains("s3://bucket/p") && error.contains(said), "{name}: {error}");
                assert!(start.elapsed() < Duration::from_secs(60), "{name}: {:?}", start.elapsed());
            });
        }
    });
}
