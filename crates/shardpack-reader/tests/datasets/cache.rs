//! The cache of datasets at URLs. No process fetches cached data again, the cache keeps its limit, corrupt data is not handed
//! out, and foreign files are not touched.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use shardpack_reader::{CacheUse, Dataset, ErrorKind, StoreSettings, storage::Memory};
use shardpack_testing::{
    Packing,
    server::{Fault, Nginx, Proxy},
    stores,
};

const MIB: u64 = 1 << 20;
const MARK: &str = "shardpack-cache-1";
/// Bytes of the smallest fetch.
const BLOCK: u64 = 64 * 1024;

/// `number` images, together about 3.6 MB for 120.
fn images(number: usize, salt: usize) -> Vec<Vec<u8>> {
    let bytes = |n: usize| (n * 7919 + salt * 31) % 60_000 + 1;
    (0..number).map(|n| (0..bytes(n)).map(|i| (i * n + i / 251 + n + salt) as u8).collect()).collect()
}

fn packing(name: &str) -> Packing {
    Packing { shard_samples: 25, block_samples: 4, name: name.to_owned(), ..Packing::default() }
}

fn cached(url: &str, folder: &Path, bytes: u64) -> Dataset {
    Dataset::open_with(url, &StoreSettings::default().with_cache(folder, bytes)).unwrap()
}

/// Reads all of the dataset, some samples alone and some twice, and compares it with `images`.
fn compare(dataset: &Dataset, images: &[Vec<u8>]) -> CacheUse {
    assert_eq!(dataset.len(), images.len() as u64);
    let mut reader = dataset.reader(..).unwrap().buffer_bytes(2 * BLOCK as usize);
    for (number, image) in images.iter().enumerate() {
        assert!(reader.next().unwrap().unwrap().bytes() == image, "sample {number}");
    }
    assert!(reader.next().unwrap().is_none());
    let mut out = Vec::new();
    for (number, image) in images.iter().enumerate().rev().step_by(7) {
        assert!(dataset.sample(number as u64).unwrap().bytes() == image, "sample {number}");
        dataset.read(number as u64, &mut out).unwrap();
        assert!(out == *image, "sample {number}");
    }
    dataset.cache().unwrap()
}

fn requests(dataset: &Dataset) -> u64 {
    dataset.transfers().unwrap().requests
}

fn stored_bytes(dataset: &Dataset) -> u64 {
    dataset.manifest().shards.iter().map(|shard| shard.bytes + shard.index.bytes).sum()
}

/// Files in a folder and its subfolders, with their disk space in bytes.
fn on_disk(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let Ok(meta) = fs::symlink_metadata(entry.path()) else { continue };
        match meta.is_dir() {
            true => found.append(&mut on_disk(&entry.path())),
            false => drop(found.insert(entry.path(), meta.blocks() * 512)),
        }
    }
    found
}

/// Disk space of the cached data in bytes, without the mark and the lock files.
fn cached_bytes(folder: &Path) -> u64 {
    on_disk(folder).iter().filter(|(path, _)| path.extension().is_some()).map(|(_, bytes)| bytes).sum()
}

fn objects(folder: &Path) -> Vec<PathBuf> {
    on_disk(folder).into_keys().filter(|path| path.extension().is_some_and(|end| end == "blocks")).collect()
}

const OTHER: &str = "SHARDPACK_TEST_CACHE";

/// Starts a process that reads the dataset at `url` `times` times; the environment variable `OTHER` holds its arguments.
fn other(url: &str, folder: &Path, bytes: u64, times: u32) -> Child {
    let told = format!("{url}\n{}\n{bytes}\n{times}", folder.display());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cache::is_the_other_process", "--nocapture"]).env(OTHER, told);
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// Does nothing by itself: other tests start it.
#[test]
fn is_the_other_process() {
    let Ok(told) = std::env::var(OTHER) else { return };
    let told: Vec<_> = told.lines().collect();
    let dataset = cached(told[0], Path::new(told[1]), told[2].parse().unwrap());
    let salt = dataset.name().parse().unwrap();
    let images = images(dataset.len() as usize, salt);
    for _ in 0..told[3].parse().unwrap() {
        compare(&dataset, &images);
    }
}

#[test]
fn what_was_read_once_is_not_asked_for_again() {
    for server in stores::all() {
        let (images, folder, cache) = (images(120, 0), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        packing("0").pack(folder.path(), &images);
        server.put_folder(folder.path(), "plain");
        let open = || {
            let settings =
                StoreSettings::new(server.settings(server.port())).with_cache(cache.path().join("made/here"), 64 * MIB);
            Dataset::open_with(server.url("plain"), &settings).unwrap()
        };
        let first = open();
        let used = compare(&first, &images);
        let all = stored_bytes(&first);
        assert!(used.added_bytes >= all - 5 * 1024 && used.added_bytes <= all, "{used:?} {all}");
        assert_eq!((used.left_out_bytes, used.damaged_blocks, used.trouble), (0, 0, None));
        // No block is fetched twice, and all fetched bytes but the manifest are added to the cache.
        let manifest_bytes = fs::metadata(folder.path().join("manifest.json")).unwrap().len();
        assert_eq!(first.transfers().unwrap().bytes, used.added_bytes + manifest_bytes);
        let before = requests(&first);
        compare(&first, &images);
        assert_eq!(requests(&first), before);
        let second = open();
        let used = compare(&second, &images);
        assert_eq!((requests(&second), used.added_bytes, used.left_out_bytes), (1, 0, 0), "{used:?}");
        assert!(used.bytes > all && used.reads > 40, "{used:?}");
        assert!(used.held_bytes >= cached_bytes(cache.path()) && used.held_bytes < 64 * MIB, "{used:?}");
    }
}

#[test]
fn compressed_shards_are_cached_as_they_are_stored() {
    let Some(nginx) = Nginx::start() else { return };
    if !cfg!(feature = "zstd") {
        return;
    }
    let (images, cache) = (images(120, 0), tempfile::tempdir().unwrap());
    Packing { zstd: Some(1), ..packing("0") }.pack(&nginx.data().join("x"), &images);
    let proxy = Proxy::start(nginx.port());
    // A response that is corrupted in transfer does not stay in the cache.
    proxy.fail(3, Fault::Flip(700));
    compare(&cached(&proxy.url("x"), cache.path(), 64 * MIB), &images);
    assert!(proxy.faults() > 3);
    compare(&cached(&nginx.url("x"), cache.path(), 64 * MIB), &images);
    let second = cached(&nginx.url("x"), cache.path(), 64 * MIB);
    let used = compare(&second, &images);
    assert_eq!((requests(&second), used.damaged_blocks), (1, 0), "{used:?}");
}

#[test]
fn a_read_fetches_whole_blocks_and_no_more() {
    let Some(nginx) = Nginx::start() else { return };
    let (images, cache) = (images(120, 0), tempfile::tempdir().unwrap());
    packing("0").pack(&nginx.data().join("x"), &images);
    let dataset = cached(&nginx.url("x"), cache.path(), 64 * MIB);
    let shard = dataset.shard(1).unwrap();
    shard.index().unwrap();
    let (twin, mut out) = (Dataset::open(nginx.data().join("x")).unwrap(), Vec::new());
    let whole = fs::read(twin.shard(1).unwrap().path()).unwrap();
    let all = whole.len() as u64;
    // Ranges at and beside every block boundary, with the cache empty or partly filled.
    let mut ranges = vec![0..1, 0..all, all - 1..all, 5..5];
    for edge in [BLOCK, 2 * BLOCK, 3 * BLOCK, all / BLOCK * BLOCK] {
        for (before, after) in [(1, 0), (0, 1), (1, 1), (0, 0), (BLOCK, 0), (BLOCK + 1, 1), (BLOCK - 1, BLOCK + 3)] {
            ranges.push(edge.saturating_sub(before)..(edge + after).min(all));
        }
    }
    for range in &ranges {
        let (before, was_added) = (dataset.transfers().unwrap().bytes, dataset.cache().unwrap().added_bytes);
        for path in objects(cache.path()) {
            // Marks the first block of the range as missing.
            let file = File::options().write(true).open(&path).unwrap();
            if file.metadata().unwrap().len() > all {
                file.write_all_at(&[0; 8], 8 + 8 * (range.start / BLOCK)).unwrap();
            }
        }
        shard.read(range.clone(), &mut out).unwrap();
        let (start, end) = (range.start as usize, range.end as usize);
        assert!(out == whole[start..end], "{range:?}");
        let came = dataset.transfers().unwrap().bytes - before;
        let most = (range.end - range.start) + 2 * (BLOCK - 1);
        assert!(came <= most && came == dataset.cache().unwrap().added_bytes - was_added, "{range:?}: {came}");
        shard.read(range.clone(), &mut out).unwrap();
        assert!(out == whole[start..end], "{range:?}");
        assert_eq!(dataset.transfers().unwrap().bytes - before, came, "{range:?}");
    }
}

#[test]
fn processes_at_once_share_a_cache_and_keep_its_limit() {
    let Some(nginx) = Nginx::start() else { return };
    for salt in 0..3 {
        packing(&salt.to_string()).pack(&nginx.data().join(salt.to_string()), &images(120, salt));
    }
    let cache = tempfile::tempdir().unwrap();
    for (limit, parts) in [(5 * MIB, 3), (8 * MIB, 2), (3 * MIB, 2)] {
        let url = |number: u32| nginx.url(&(number % parts).to_string());
        let mut others: Vec<_> = (0..6).map(|number| other(&url(number), cache.path(), limit, 2)).collect();
        let mut most = 0;
        while others.iter_mut().any(|other| other.try_wait().unwrap().is_none()) {
            most = most.max(cached_bytes(cache.path()));
            thread::sleep(Duration::from_millis(5));
        }
        assert!(others.iter_mut().all(|other| other.wait().unwrap().success()));
        // Data of the round before may exceed the limit at first: no process removes a dataset in use.
        let held = cached_bytes(cache.path());
        assert!(held <= limit && held + MIB > limit.min(MIB * 4 * u64::from(parts)), "{held} of {limit}");
        assert!(limit < 8 * MIB || most <= limit, "{most} of {limit}");
    }
}

#[test]
fn a_process_that_is_killed_at_any_moment_leaves_a_cache_that_can_be_used() {
    let Some(nginx) = Nginx::start() else { return };
    let (images, cache) = (images(120, 7), tempfile::tempdir().unwrap());
    packing("7").pack(&nginx.data().join("x"), &images);
    let limit = 16 * MIB;
    // The delay is long enough to kill most processes before they finish.
    let proxy = Proxy::start(nginx.port());
    proxy.fail(1, Fault::Delay(Duration::from_millis(15)));
    let (mut in_the_midst, all) = (0, stored_bytes(&Dataset::open(nginx.url("x")).unwrap()));
    for round in 0..30 {
        if round % 10 == 0 {
            objects(cache.path()).into_iter().for_each(|path| fs::remove_file(path).unwrap());
        }
        let mut others: Vec<_> = (0..2).map(|_| other(&proxy.url("x"), cache.path(), limit, 1)).collect();
        while cached_bytes(cache.path()) < all * (round % 10 + 1) / 10
            && others.iter_mut().any(|other| other.try_wait().unwrap().is_none())
        {
            thread::sleep(Duration::from_micros(300));
        }
        for other in &mut others {
            other.kill().unwrap();
            other.wait().unwrap();
        }
        in_the_midst += u32::from(cached_bytes(cache.path()) < all);
    }
    assert!(in_the_midst >= 10, "{in_the_midst}");
    let start = Instant::now();
    let used = compare(&cached(&nginx.url("x"), cache.path(), limit), &images);
    assert!(used.damaged_blocks == 0 && used.left_out_bytes == 0 && used.trouble.is_none(), "{used:?}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let second = cached(&nginx.url("x"), cache.path(), limit);
    compare(&second, &images);
    assert_eq!(requests(&second), 1);
    // Nothing is left over.
    let others: Vec<_> = on_disk(cache.path()).into_keys().filter(|path| path.extension().is_none()).collect();
    let names: Vec<_> = others.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(names, ["in-use", MARK]);
}

#[test]
fn what_is_damaged_in_the_cache_is_fetched_again_once() {
    let Some(nginx) = Nginx::start() else { return };
    let (images, cache) = (images(120, 0), tempfile::tempdir().unwrap());
    packing("0").pack(&nginx.data().join("x"), &images);
    let (url, limit) = (nginx.url("x"), 64 * MIB);
    compare(&cached(&url, cache.path(), limit), &images);
    let length = |file: &File| file.metadata().unwrap().len();
    let damages: [(&str, fn(&File, u64)); 6] = [
        ("a bit of the bytes", |file, length| {
            let mut byte = [0];
            file.read_exact_at(&mut byte, length - 9).unwrap();
            file.write_all_at(&[byte[0] ^ 16], length - 9).unwrap();
        }),
        ("a page of others' bytes", |file, length| file.write_all_at(&[0xAA; 1000], length - 1000).unwrap()),
        ("an entry", |file, _| file.write_all_at(&[9; 8], 8).unwrap()),
        ("the length of the object", |file, _| file.write_all_at(&[9; 8], 0).unwrap()),
        ("cut", |file, length| file.set_len(length / 2).unwrap()),
        ("empty", |file, _| file.set_len(0).unwrap()),
    ];
    for (what, damage) in damages {
        for path in objects(cache.path()) {
            let file = File::options().read(true).write(true).open(path).unwrap();
            damage(&file, length(&file));
        }
        let dataset = cached(&url, cache.path(), limit);
        let used = compare(&dataset, &images);
        // One for each of 5 shards and 5 indexes.
        assert!(used.damaged_blocks == if what == "empty" { 0 } else { 10 }, "{what}: {used:?}");
        assert!(used.added_bytes > 0 && requests(&dataset) > 1, "{what}: {used:?}");
        let dataset = cached(&url, cache.path(), limit);
        let used = compare(&dataset, &images);
        assert_eq!((requests(&dataset), used.damaged_blocks), (1, 0), "{what}: {used:?}");
    }
}

#[test]
fn what_is_wrong_on_the_way_does_not_stay_in_the_cache() {
    let Some(nginx) = Nginx::start() else { return };
    let images = images(120, 0);
    packing("0").pack(&nginx.data().join("x"), &images);
    for fault in [Fault::Flip(700), Fault::Cut(30_000), Fault::Status(503, false), Fault::Drop] {
        let (proxy, cache) = (Proxy::start(nginx.port()), tempfile::tempdir().unwrap());
        proxy.fail(3, fault);
        let used = compare(&cached(&proxy.url("x"), cache.path(), 64 * MIB), &images);
        assert!(proxy.faults() > 3 && used.damaged_blocks == 0, "{fault:?} {used:?}");
        // A flipped bit in bytes that no reader has used yet is detected at their first use.
        compare(&cached(&nginx.url("x"), cache.path(), 64 * MIB), &images);
        let dataset = cached(&nginx.url("x"), cache.path(), 64 * MIB);
        compare(&dataset, &images);
        assert_eq!(requests(&dataset), 1, "{fault:?}");
    }
    // If the data on the server is corrupt, it is requested again, and the error names the server's file.
    let (file, cache) = (nginx.data().join("x").join("0-000000.tar"), tempfile::tempdir().unwrap());
    let file = File::options().read(true).write(true).open(&file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 600).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 600).unwrap();
    for _ in 0..2 {
        let dataset = cached(&nginx.url("x"), cache.path(), 64 * MIB);
        let error = (0..25).find_map(|number| dataset.sample(number).err()).unwrap();
        assert!(error.kind() == ErrorKind::Data && error.to_string().contains("x/0-000000.tar"), "{error}");
        assert!(requests(&dataset) > 1);
    }
}

#[test]
fn room_is_made_of_datasets_that_nobody_has_open() {
    let Some(nginx) = Nginx::start() else { return };
    let cache = tempfile::tempdir().unwrap();
    let all: Vec<_> = (0..3).map(|salt| images(120, salt)).collect();
    for (salt, images) in all.iter().enumerate() {
        packing(&salt.to_string()).pack(&nginx.data().join(salt.to_string()), images);
    }
    // Room for two datasets, not for three.
    let limit = 9 * MIB;
    let open = |salt: usize| cached(&nginx.url(&salt.to_string()), cache.path(), limit);
    for (salt, images) in all.iter().enumerate().take(2) {
        let used = compare(&open(salt), images);
        assert_eq!((used.evicted_bytes, used.left_out_bytes), (0, 0), "{used:?}");
    }
    // The first dataset was opened longest ago, but is in use.
    let first = open(0);
    let used = compare(&open(2), &all[2]);
    assert!(used.evicted_bytes > 0 && used.left_out_bytes == 0, "{used:?}");
    compare(&first, &all[0]);
    assert_eq!(requests(&first), 1);
    let second = open(1);
    let third = open(2);
    let used = compare(&second, &all[1]);
    assert!(requests(&second) > 1 && used.evicted_bytes == 0, "{used:?}");
    // All three are open: data without room in the cache is read all the same.
    assert!(used.left_out_bytes > MIB && used.trouble.is_none() && used.held_bytes <= limit, "{used:?}");
    drop((first, second, third));
    // Opening with a smaller limit removes data at once.
    let smaller = cached(&nginx.url("0"), cache.path(), 2 * MIB);
    assert!(cached_bytes(cache.path()) <= 2 * MIB);
    assert!(smaller.cache().unwrap().evicted_bytes > 4 * MIB);
    compare(&smaller, &all[0]);
    assert!(cached_bytes(cache.path()) <= 2 * MIB);
    drop(smaller);
    // A dataset whose only shard is longer than the limit is removed whole, and cached anew.
    Packing { shard_samples: 120, ..packing("0") }.pack(&nginx.data().join("whole"), &all[0]);
    let open = |limit| cached(&nginx.url("whole"), cache.path(), limit);
    compare(&open(limit), &all[0]);
    let smaller = open(MIB);
    assert!(cached_bytes(cache.path()) < MIB / 2, "{:?}", on_disk(cache.path()));
    let used = compare(&smaller, &all[0]);
    assert!(used.trouble.is_none() && used.added_bytes > MIB / 2 && cached_bytes(cache.path()) <= MIB, "{used:?}");
}

#[test]
fn what_is_not_its_own_is_never_touched() {
    let Some(nginx) = Nginx::start() else { return };
    for salt in 0..2 {
        packing(&salt.to_string()).pack(&nginx.data().join(salt.to_string()), &images(120, salt));
    }
    let folder = tempfile::tempdir().unwrap();
    let (cache, outside) = (folder.path().join("cache"), folder.path().join("outside"));
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("only-copy"), b"x").unwrap();
    let error = Dataset::open_with(nginx.url("0"), &StoreSettings::default().with_cache(&outside, MIB)).unwrap_err();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("not empty"), "{error}");
    assert_eq!(on_disk(&outside).len(), 1);
    compare(&cached(&nginx.url("0"), &cache, 5 * MIB), &images(120, 0));
    let dataset = fs::read_dir(&cache).unwrap().flatten().find(|entry| entry.path().is_dir()).unwrap().path();
    let (name, other) = ("0123456789abcdef".repeat(4), "f".repeat(64));
    let foreign = [
        cache.join("notes.txt"),
        cache.join(&name).with_extension("txt"),
        cache.join(name.to_uppercase()).join(&name).with_extension("blocks"),
        cache.join(&name[1..]).join(&name).with_extension("blocks"),
        dataset.join("model.pt"),
        dataset.join(&name),
        dataset.join(&name[1..]).with_extension("blocks"),
        dataset.join(&other).with_extension("blocks").join("x.blocks"),
        // Behind a link in place of the dataset that was opened longest ago: a folder with names like the cache's.
        outside.join(&other).with_extension("blocks"),
    ];
    for path in &foreign {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [7; 4000]).unwrap();
    }
    symlink(&outside, cache.join(&name)).unwrap();
    symlink(outside.join("only-copy"), dataset.join(&name).with_extension("blocks")).unwrap();
    let used = compare(&cached(&nginx.url("1"), &cache, 5 * MIB), &images(120, 1));
    assert!(used.evicted_bytes > 2 * MIB, "{used:?}");
    let smaller = cached(&nginx.url("1"), &cache, MIB);
    assert!(cached_bytes(&dataset) < MIB / 8, "{:?}", on_disk(&dataset));
    for path in &foreign {
        assert_eq!(fs::read(path).unwrap(), [7; 4000], "{}", path.display());
    }
    assert!(fs::symlink_metadata(cache.join(&name)).unwrap().is_symlink());
    drop(smaller);
    // The cache does not write through a link in place of a file.
    let at = Dataset::open(nginx.data().join("0")).unwrap();
    let shard = shardpack_format::hash::hex(&at.manifest().shards[0].blake3.0);
    symlink(outside.join("only-copy"), dataset.join(shard).with_extension("blocks")).unwrap();
    let used = compare(&cached(&nginx.url("0"), &cache, 5 * MIB), &images(120, 0));
    assert!(used.trouble.is_some() && used.left_out_bytes > 0, "{used:?}");
    assert_eq!(fs::read(outside.join("only-copy")).unwrap(), b"x");
}

#[test]
fn a_cache_that_cannot_be_made_is_an_error_and_one_that_goes_away_is_not() {
    let Some(nginx) = Nginx::start() else { return };
    let images = images(120, 0);
    packing("0").pack(&nginx.data().join("x"), &images);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"").unwrap();
    fs::create_dir_all(folder.path().join("odd").join(MARK)).unwrap();
    for (path, bytes, kind, said) in [
        (folder.path().join("x"), 1000, ErrorKind::Usage, "a cache of 1000 bytes"),
        (folder.path().join("file"), MIB, ErrorKind::System, "cannot make the folder of a cache"),
        (folder.path().join("file/below"), MIB, ErrorKind::System, "cannot make the folder of a cache"),
        (folder.path().join("odd"), MIB, ErrorKind::Usage, "not empty"),
    ] {
        let error = Dataset::open_with(nginx.url("x"), &StoreSettings::default().with_cache(&path, bytes)).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(said), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    // The action in the help text removes the error.
    let help = |path: &str, bytes| {
        let settings = StoreSettings::default().with_cache(folder.path().join(path), bytes);
        Dataset::open_with(nginx.url("x"), &settings).map(drop).map_err(|error| error.help_text().map(str::to_owned))
    };
    assert_eq!(help("x", MIB - 1), Err(Some("its limit is in bytes, and at least 1 MiB".to_owned())));
    assert_eq!(help("odd", MIB), Err(Some("name an empty folder, or one that is not there yet".to_owned())));
    fs::create_dir(folder.path().join("empty")).unwrap();
    for path in ["empty", "not/there/yet", "empty"] {
        assert_eq!(help(path, MIB), Ok(()));
    }
    let settings = StoreSettings::default().with_cache(folder.path().join("x"), MIB);
    let error = Dataset::open_with(nginx.data().join("x"), &settings).unwrap_err();
    assert!(error.to_string().contains("a cache is given, and this is a folder"), "{error}");
    assert!(Dataset::open(nginx.url("x")).unwrap().cache().is_none());

    let cache = folder.path().join("gone");
    let dataset = cached(&nginx.url("x"), &cache, 64 * MIB);
    dataset.sample(0).unwrap();
    fs::remove_dir_all(&cache).unwrap();
    let used = compare(&dataset, &images);
    assert!(used.left_out_bytes > 0 && used.trouble.is_some(), "{used:?}");
    assert!(!cache.exists());
}

/// Runs `is_a_process_whose_disk_is_full` in a shell after `before`; returns whether `before` succeeded.
fn run_after(before: &str, wrap: &[&str], url: &str, folder: &Path) -> bool {
    let script = format!("{before} || exit 77; exec \"$0\" --exact cache::is_a_process_whose_disk_is_full --nocapture");
    let mut command = Command::new(wrap[0]);
    command.args(&wrap[1..]).args(["sh", "-c", &script]).arg(std::env::current_exe().unwrap());
    match command.env(OTHER, format!("{url}\n{}", folder.display())).output() {
        Ok(output) if output.status.success() => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the test did not run: {output:?}");
            true
        }
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        }
        other => {
            eprintln!("nothing is tried with {before}: {other:?}");
            false
        }
    }
}

#[test]
fn a_disk_that_is_full_is_no_error() {
    let Some(nginx) = Nginx::start() else { return };
    packing("0").pack(&nginx.data().join("x"), &images(120, 0));
    let (url, folder) = (nginx.url("x"), tempfile::tempdir().unwrap());
    // A separate file system, which ends with the process.
    let is_root = fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
    let wrap: &[&str] =
        if is_root { &["unshare", "--mount"] } else { &["unshare", "--user", "--map-root-user", "--mount"] };
    run_after(&format!("mount -t tmpfs -o size=2m none {}", folder.path().display()), wrap, &url, folder.path());
    // Here the limit of file sizes is below the length of a shard.
    let folder = tempfile::tempdir().unwrap();
    assert!(run_after("trap '' XFSZ; ulimit -f 600", &["env"], &url, folder.path()));
}

/// Does nothing by itself: another test starts it.
#[test]
fn is_a_process_whose_disk_is_full() {
    let Ok(told) = std::env::var(OTHER) else { return };
    let (url, folder) = told.split_once('\n').unwrap();
    let (images, folder) = (images(120, 0), Path::new(folder));
    for _ in 0..2 {
        let used = compare(&cached(url, &folder.join("cache"), 64 * MIB), &images);
        assert!(used.left_out_bytes > 0 && used.trouble.is_some(), "{used:?}");
    }
    // Fills the disk: there is no room even for the mark.
    if let Ok(file) = File::create(folder.join("all")) {
        let mut at = 0;
        while file.write_all_at(&[1; 4096], at).is_ok() {
            at += 4096;
        }
    }
    let used = compare(&cached(url, &folder.join("another"), 64 * MIB), &images);
    assert!(used.left_out_bytes > 0 && used.trouble.is_some(), "{used:?}");
}

/// A dataset has no cache in a storage of the caller.
#[test]
fn a_storage_of_the_caller_has_no_cache() {
    let folder = tempfile::tempdir().unwrap();
    Packing::default().pack(folder.path(), &images(3, 0));
    let storage = Memory::copy_of(folder.path()).unwrap();
    let dataset = Dataset::open(folder.path()).unwrap().with_storage(std::sync::Arc::new(storage));
    assert!(dataset.cache().is_none() && dataset.transfers().is_none());
    assert_eq!(dataset.sample(1).unwrap().bytes(), images(3, 0)[1]);
}
