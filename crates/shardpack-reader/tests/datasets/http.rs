//! Datasets on a web server: despite network faults, a read returns the stored bytes, or an error that names the fault.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use shardpack_format::{hash, manifest, splits};
use shardpack_reader::{Dataset, ErrorKind};
use shardpack_testing::{
    Packing,
    server::{Fault, Nginx, Proxy},
};

fn images(number: usize) -> Vec<Vec<u8>> {
    (0..number).map(|n| (0..n * 137 % 9000 + 1).map(|i| (i * n + n) as u8).collect()).collect()
}

fn packing() -> Packing {
    Packing { shard_samples: 25, block_samples: 4, ..Packing::default() }
}

/// Reads all of the dataset in each way, and compares it with `images`.
fn compare(url: &str, images: &[Vec<u8>]) -> Dataset {
    let dataset = Dataset::open(url).unwrap();
    assert_eq!(dataset.len(), images.len() as u64, "{url}");
    let mut reader = dataset.reader(..).unwrap();
    let mut out = Vec::new();
    for (number, image) in images.iter().enumerate() {
        let sample = reader.next().unwrap().unwrap();
        assert!(sample.bytes() == image, "{url}: sample {number}");
        if number % 7 == 0 {
            assert!(dataset.sample(number as u64).unwrap().bytes() == image, "{url}: sample {number}");
            dataset.read(number as u64, &mut out).unwrap();
            assert!(out == *image, "{url}: sample {number}");
        }
    }
    assert!(reader.next().unwrap().is_none());
    assert_eq!(dataset.find(format!("{:08}", images.len() - 1)).unwrap(), Some(images.len() as u64 - 1));
    drop(reader);
    dataset
}

#[test]
fn a_dataset_on_a_web_server_is_the_one_that_was_copied_there() {
    let Some(nginx) = Nginx::start() else { return };
    let images = images(160);
    packing().pack(&nginx.data().join("plain"), &images);
    packing().pack(&nginx.data().join("with space é%20"), &images);
    let packed = Packing { zstd: Some(3), ..packing() };
    if cfg!(feature = "zstd") {
        packed.pack(&nginx.data().join("zstd"), &images);
        compare(&nginx.url("zstd"), &images);
    }
    let dataset = compare(&nginx.url("plain"), &images);
    // Requests for the manifest, indexes, and each megabyte or sample; no folder is listed.
    let transfers = dataset.transfers().unwrap();
    assert_eq!((transfers.again, transfers.too_many), (0, 0));
    assert!(transfers.requests < 1 + 7 + 7 + 2 * 30, "{transfers:?}");
    assert!(nginx.asked().iter().all(|line| !line.contains("/ HTTP")), "{:?}", nginx.asked());
    compare(&nginx.url("plain/"), &images);
    compare(&nginx.url("with%20space%20é%2520"), &images);
    for way in ["norange", "etagless", "gzip", "redirect"] {
        compare(&nginx.url(&format!("{way}/plain")), &images);
    }
    assert_eq!(Dataset::open_all(nginx.url("plain")).unwrap().len(), 1);
}

#[test]
fn splits_are_those_of_their_record() {
    let Some(nginx) = Nginx::start() else { return };
    let folder = nginx.data().join("both");
    for (name, number) in [("train", 40), ("val", 9)] {
        Packing { name: name.to_owned(), ..packing() }.pack(&folder.join(name), &images(number));
    }
    let url = nginx.url("both");
    let error = Dataset::open_all(&url).unwrap_err().to_string();
    assert!(error.contains("no dataset"), "{error}");
    let split = |name: &str| {
        let bytes = fs::read(folder.join(name).join(manifest::FILE)).unwrap();
        let manifest = manifest::Manifest::read(&bytes).unwrap();
        let (dataset, samples) = (manifest.id, manifest.samples);
        splits::Split { name: name.to_owned(), dataset, samples, manifest: manifest::Blake3(hash::file(&bytes)) }
    };
    let record = splits::Record::new(vec![split("train"), split("val")], Vec::new()).to_bytes().unwrap();
    fs::write(folder.join(splits::FILE), record).unwrap();
    let opened = Dataset::open_all(&url).unwrap();
    assert_eq!(opened.iter().map(|one| (one.name(), one.len())).collect::<Vec<_>>(), [("train", 40), ("val", 9)]);
    assert_eq!(opened[1].sample(8).unwrap().bytes(), images(9)[8]);
    let error = Dataset::open(&url).unwrap_err();
    assert_eq!(error.help_text(), Some(format!("open one dataset: {url}/train").as_str()));
    compare(error.help_text().unwrap().split_once(": ").unwrap().1, &images(40));
    fs::remove_file(folder.join("val").join(manifest::FILE)).unwrap();
    let error = Dataset::open_all(&url).unwrap_err().to_string();
    assert!(error.contains("both/val"), "{error}");
}

#[test]
fn what_is_no_dataset_or_not_to_be_had_is_an_error_that_says_so_at_once() {
    let Some(nginx) = Nginx::start() else { return };
    packing().pack(&nginx.data().join("plain"), &images(30));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rows = [
        (nginx.url("none"), ErrorKind::Usage, "give the URL of the folder that was the DST of pack", 5),
        (nginx.url("403/plain"), ErrorKind::Usage, "no credentials were sent", 5),
        (nginx.url("loop/plain"), ErrorKind::System, "too many redirects", 5),
        (nginx.url("elsewhere/plain"), ErrorKind::System, "the server answers 302 Found", 5),
        (nginx.url("packed-by-server/plain"), ErrorKind::System, "serve shards as they are, without compression", 5),
        (nginx.url("503/plain"), ErrorKind::System, "503 Service Unavailable, retry after 1 s; tried", 20),
        (nginx.url("drop/plain"), ErrorKind::System, "check that the server works, and try again", 20),
        (format!("http://127.0.0.1:{closed}/x"), ErrorKind::System, "tried", 20),
        ("http://user:secret@127.0.0.1/x".to_owned(), ErrorKind::Usage, "a URL with a password", 5),
        ("http://user:secret@[/x".to_owned(), ErrorKind::Usage, "no URL", 5),
        (nginx.url("plain?x=1"), ErrorKind::Usage, "a URL with ?", 5),
    ];
    thread::scope(|scope| {
        for (url, kind, said, seconds) in &rows {
            scope.spawn(move || {
                let start = Instant::now();
                let error = Dataset::open(url).unwrap_err();
                let told = format!("{error} {}", error.help_text().unwrap_or_default());
                assert!(error.kind() == *kind && told.contains(said), "{url}: {told}");
                assert!(!told.contains("secret"), "{told}");
                assert!(start.elapsed() < Duration::from_secs(*seconds), "{url}: {:?}", start.elapsed());
            });
        }
    });
}

#[test]
fn requests_that_fail_in_any_way_are_sent_again_from_where_they_were() {
    let Some(nginx) = Nginx::start() else { return };
    let images = images(120);
    packing().pack(&nginx.data().join("plain"), &images);
    let faults = [
        Fault::Status(503, true),
        Fault::Status(429, false),
        Fault::Status(500, false),
        Fault::Drop,
        Fault::Cut(0),
        Fault::Cut(1000),
        Fault::Flip(700),
        Fault::Delay(Duration::from_millis(100)),
    ];
    let begin = |every, fault| {
        let proxy = Proxy::start(nginx.port());
        proxy.fail(every, fault);
        proxy
    };
    let (images, begin) = (&images, &begin);
    thread::scope(|scope| {
        for fault in faults {
            scope.spawn(move || {
                let proxy = begin(5, fault);
                let dataset = compare(&proxy.url("plain"), images);
                let transfers = dataset.transfers().unwrap();
                assert!(proxy.faults() >= 3, "{fault:?}: {}", proxy.faults());
                match fault {
                    Fault::Flip(_) | Fault::Delay(_) => assert_eq!(transfers.again, 0, "{fault:?}"),
                    Fault::Status(503 | 429, _) => assert!(transfers.too_many >= 3, "{fault:?} {transfers:?}"),
                    _ => assert!(transfers.again >= 3, "{fault:?} {transfers:?}"),
                }
            });
        }
        // A server that cuts responses and sends no ETag, and a server without ranges.
        for way in ["etagless", "norange"] {
            scope.spawn(move || compare(&begin(4, Fault::Cut(2000)).url(&format!("{way}/plain")), images));
        }
    });
}

#[test]
fn what_is_damaged_on_the_server_is_named() {
    let Some(nginx) = Nginx::start() else { return };
    let images = images(100);
    let folder = nginx.data().join("plain");
    packing().pack(&folder, &images);
    let shard = folder.join("shard-000001.tar");
    let right = fs::read(&shard).unwrap();
    let local = Dataset::open(&folder).unwrap();
    let row = local.row(30).unwrap();
    let at = row.offset as usize + 600;
    let mut wrong = right.clone();
    wrong[at] ^= 4;
    fs::write(&shard, &wrong).unwrap();
    let dataset = Dataset::open(nginx.url("plain")).unwrap();
    assert_eq!(dataset.sample(29).unwrap().bytes(), images[29]);
    let error = dataset.sample(30).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    let told = error.to_string();
    assert!(told.contains("shard-000001.tar") && told.contains("00000030") && told.contains("http://"), "{told}");
    // A shorter shard, a missing shard, another version.
    let same = || Dataset::open(nginx.url("plain")).unwrap();
    fs::write(&shard, &right[..right.len() - 512]).unwrap();
    assert!(same().sample(30).unwrap_err().to_string().contains("in the manifest"));
    fs::remove_file(&shard).unwrap();
    let error = same().sample(30).unwrap_err().to_string();
    assert!(error.contains("it is not there") && error.contains("shard-000001.tar"), "{error}");
    fs::write(&shard, &right).unwrap();
    let dataset = same();
    dataset.sample(30).unwrap();
    thread::sleep(Duration::from_millis(1100));
    fs::write(&shard, &right).unwrap();
    let error = dataset.sample(31).unwrap_err();
    assert!(error.to_string().contains("was changed on the server"), "{error}");
    // Not a data error, for which a loader might skip the sample.
    assert_eq!(error.kind(), ErrorKind::System);
    assert_eq!(error.help_text(), Some("open the dataset again when it no longer changes"));
    assert_eq!(same().sample(31).unwrap().bytes(), images[31]);
    let index = folder.join("index/shard-000002.index");
    let mut bytes = fs::read(&index).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&index, bytes).unwrap();
    let error = same().sample(60).unwrap_err().to_string();
    assert!(error.contains("shard-000002.index") && error.contains("hash differs"), "{error}");
}

#[test]
fn a_hostile_server_takes_neither_memory_nor_time_without_bound() {
    // Name, response, and whether the response never ends.
    let answers: [(&str, &[u8], bool); 4] = [
        ("an endless head", b"HTTP/1.1 200 OK\r\nX: ", true),
        ("an endless body", b"HTTP/1.1 200 OK\r\n\r\n", true),
        (
            "another range",
            b"HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\nContent-Range: bytes 9-12/20\r\n\r\nabcd",
            false,
        ),
        ("no HTTP", b"220 welcome\r\n", false),
    ];
    let ask = |name: &str, answer: &[u8], goes_on: bool| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://127.0.0.1:{}/x", listener.local_addr().unwrap().port());
        let answer = answer.to_vec();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let answer = answer.clone();
                thread::spawn(move || {
                    let mut client = client;
                    let _ = client.read(&mut [0; 4096]);
                    let _ = client.write_all(&answer);
                    while goes_on && client.write_all(&[b'x'; 1 << 16]).is_ok() {}
                });
            }
        });
        let start = Instant::now();
        let error = Dataset::open(&url).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(60), "{name}: {:?}", start.elapsed());
        assert!(error.to_string().contains("http://127.0.0.1"), "{name}: {error}");
    };
    thread::scope(|scope| {
        answers.into_iter().for_each(|(name, answer, goes_on)| drop(scope.spawn(move || ask(name, answer, goes_on))));
    });
}
