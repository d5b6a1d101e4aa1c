//! Datasets in object stores: despite network faults, a read returns the stored bytes, or an error that names the fault.

use std::{
    thread,
    time::{Duration, Instant},
};

use shardpack_reader::{Dataset, ErrorKind, StoreSettings};
use shardpack_testing::{
    Packing,
    server::{Fault, Proxy},
    stores::{self, BUCKET, Kind, ObjectServer},
};

fn images(number: usize) -> Vec<Vec<u8>> {
    (0..number).map(|n| (0..n * 137 % 9000 + 1).map(|i| (i * n + n) as u8).collect()).collect()
}

fn put(server: &ObjectServer, prefix: &str, images: &[Vec<u8>]) {
    let folder = tempfile::tempdir().unwrap();
    Packing { shard_samples: 25, block_samples: 4, ..Packing::default() }.pack(folder.path(), images);
    server.put_folder(folder.path(), prefix);
}

fn open(server: &ObjectServer, prefix: &str, port: u16) -> Dataset {
    Dataset::open_with(server.url(prefix), &StoreSettings::new(server.settings(port))).unwrap()
}

/// Reads all of the dataset in each way, and compares it with `images`.
fn compare(dataset: &Dataset, images: &[Vec<u8>], what: &str) {
    assert_eq!(dataset.len(), images.len() as u64, "{what}");
    let mut reader = dataset.reader(..).unwrap();
    for (number, image) in images.iter().enumerate() {
        assert!(reader.next().unwrap().unwrap().bytes() == image, "{what}: sample {number}");
        if number % 9 == 0 {
            assert!(dataset.sample(number as u64).unwrap().bytes() == image, "{what}: sample {number}");
        }
    }
    assert!(reader.next().unwrap().is_none(), "{what}");
}

#[test]
fn a_dataset_in_a_bucket_is_the_one_that_was_copied_there() {
    stores::each(|server| {
        let images = images(120);
        for prefix in ["plain", "a b/é ü/100%25+&=~'()/x"] {
            put(server, prefix, &images);
            let dataset = open(server, prefix, server.port());
            compare(&dataset, &images, &server.url(prefix));
            let transfers = dataset.transfers().unwrap();
            assert_eq!((transfers.again, transfers.too_many), (0, 0), "{transfers:?}");
            assert!(transfers.requests < 1 + 5 + 5 + 2 * 14, "{transfers:?}");
        }
        assert_eq!(
            Dataset::open_all_with(server.url("plain/"), &StoreSettings::new(server.settings(server.port())))
                .unwrap()
                .len(),
            1
        );
    });
}

#[test]
fn requests_that_fail_in_any_way_are_sent_again_from_where_they_were() {
    let faults = [
        Fault::Status(503, true),
        Fault::Status(429, false),
        Fault::Status(500, false),
        Fault::Drop,
        Fault::Cut(0),
        Fault::Cut(1000),
        Fault::Flip(700),
        Fault::Delay(Duration::from_millis(50)),
    ];
    stores::each(|server| {
        let images = images(120);
        put(server, "plain", &images);
        let compare_with = |fault: Fault| {
            let proxy = Proxy::start(server.port());
            proxy.fail(5, fault);
            let dataset = open(server, "plain", proxy.port());
            let what = format!("{:?} {fault:?}", server.kind);
            compare(&dataset, &images, &what);
            let transfers = dataset.transfers().unwrap();
            assert!(proxy.faults() >= 3 && proxy.requests() == transfers.requests, "{what}: {transfers:?}");
            match fault {
                Fault::Flip(_) | Fault::Delay(_) => assert_eq!(transfers.again, 0, "{what}"),
                Fault::Status(503 | 429, _) => assert!(transfers.too_many >= 3, "{what} {transfers:?}"),
                _ => assert!(transfers.again >= 3, "{what} {transfers:?}"),
            }
        };
        let compare_with = &compare_with;
        thread::scope(|scope| faults.into_iter().for_each(|fault| drop(scope.spawn(move || compare_with(fault)))));
    });
}

#[test]
fn crop_tables_that_are_not_there_are_none_where_what_is_not_there_is_refused() {
    stores::each(|server| {
        let images = images(60);
        put(server, "plain", &images);
        let proxy = Proxy::start(server.port());
        proxy.fail(1, Fault::Forbid);
        let dataset = open(server, "plain", proxy.port());
        let start = Instant::now();
        for shard in dataset.shards() {
            assert!(shard.crops().unwrap().is_none(), "{:?}", server.kind);
        }
        compare(&dataset, &images, &format!("{:?}", server.kind));
        assert_eq!(dataset.transfers().unwrap().again, 0);
        assert!(start.elapsed() < Duration::from_secs(30));
    });
}

#[test]
fn credentials_that_end_are_looked_for_again() {
    stores::each(|server| {
        let images = images(60);
        put(server, "plain", &images);
        let proxy = Proxy::start(server.port());
        let dataset = open(server, "plain", proxy.port());
        dataset.sample(0).unwrap();
        // All requests are refused for a while.
        proxy.fail(1, Fault::Status(403, false));
        thread::scope(|scope| {
            let first = scope.spawn(|| dataset.sample(30).unwrap().bytes().to_vec());
            let start = Instant::now();
            while proxy.faults() < 2 && start.elapsed() < Duration::from_secs(30) {
                thread::sleep(Duration::from_millis(5));
            }
            proxy.fail(u64::MAX, Fault::Drop);
            assert!(first.join().unwrap() == images[30], "{:?}", server.kind);
        });
        assert!(dataset.transfers().unwrap().again > 0);
        // If no request was accepted before, a refusal fails at once.
        proxy.fail(1, Fault::Status(403, false));
        let mut settings = server.settings(proxy.port());
        settings.push(("requests".to_owned(), "7".to_owned()));
        let start = Instant::now();
        let error = Dataset::open_with(server.url("plain"), &StoreSettings::new(settings)).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("403"), "{error}");
    });
}

/// Kind of the error, and its text with the help.
fn open_error(url: &str, settings: Vec<(String, String)>) -> (ErrorKind, String) {
    let start = Instant::now();
    let error = Dataset::open_with(url, &StoreSettings::new(settings)).map(drop).expect_err(url);
    assert!(start.elapsed() < Duration::from_secs(15), "{url}: {:?}", start.elapsed());
    (error.kind(), format!("{error}\n{}", error.help_text().unwrap_or_default()))
}

#[test]
fn what_is_wrong_with_a_url_or_a_setting_is_said() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    stores::each(|server| {
        put(server, "plain", &images(5));
        let with = |more: &[(&str, &str)]| {
            let mut settings = server.settings(server.port());
            settings.extend(more.iter().map(|(name, value)| pair(name, value)));
            settings
        };
        let nothing_there = open_error(&server.url("none"), with(&[]));
        assert!(nothing_there.0 == ErrorKind::Usage && nothing_there.1.contains("no dataset"), "{nothing_there:?}");
        for name in ["bucket", "timeout", "aws_timeout", "nonsense", "header"] {
            let (kind, said) = open_error(&server.url("plain"), with(&[(name, "1")]));
            let is_named = said.contains(&format!("has no setting {name}")) && said.contains("endpoint");
            assert!(kind == ErrorKind::Usage && is_named, "{said}");
        }
        for (name, value) in [("anonymous", "maybe"), ("requests", "0"), ("ca_file", "/nothing/here"), ("proxy", "://")]
        {
            let (kind, said) = open_error(&server.url("plain"), with(&[(name, value)]));
            assert!(kind == ErrorKind::Usage && !said.contains("secretsecret"), "{name}: {said}");
        }
        // Nothing listens there.
        let (kind, said) = open_error(&server.url("plain"), server.settings(1));
        assert!(kind == ErrorKind::System && said.contains("tried"), "{said}");
        if server.kind == Kind::S3 {
            let (kind, said) = open_error(&server.url("plain"), with(&[("aws_secret_access_key", "wrong")]));
            assert!(kind == ErrorKind::Usage && said.contains("SignatureDoesNotMatch"), "{said}");
            assert!(!said.contains("wrong"), "{said}");
            let (kind, said) = open_error(&server.url("plain"), with(&[("profile", "none-such")]));
            assert!(kind == ErrorKind::Usage && said.contains("profile none-such"), "{said}");
        }
        if server.kind == Kind::Azure {
            let (kind, said) = open_error(&server.url("plain").replace(BUCKET, "other"), with(&[]));
            assert!(kind == ErrorKind::Usage && said.contains("no such bucket"), "{said}");
            let account =
                server.url("plain").replace("az://bucket", "abfss://bucket@devstoreaccount1.dfs.core.windows.net");
            let endpoint = server.settings(server.port()).remove(0);
            let key = server.settings(server.port()).remove(2);
            let dataset = Dataset::open_with(&account, &StoreSettings::new([endpoint, key])).unwrap();
            assert_eq!(dataset.len(), 5);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let (_, said) = open_error(folder.path().to_str().unwrap(), vec![pair("region", "x")]);
    assert!(said.contains("this is a folder"), "{said}");
}
