//! What every storage does: the same calls on each give the same results.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    ops::ControlFlow,
    sync::Arc,
    thread,
};

use shardpack_format::{ErrorKind, Result, hash};
use shardpack_storage::{Call, Entry, Faulty, FileWriter, Local, Memory, Object, Page, Size, Storage};

/// Opens a new handle to the same folder.
type Open<'a> = &'a dyn Fn() -> Arc<dyn Storage>;

/// Names with contents; names need encoding in URLs, and contents have lengths around those of requests.
fn files() -> BTreeMap<&'static str, Vec<u8>> {
    let bytes = |length: usize| (0..length).map(|n| (n * n / 7) as u8).collect::<Vec<_>>();
    BTreeMap::from([
        ("empty", bytes(0)),
        ("one", bytes(1)),
        ("train/a b/é%25+&='()", bytes(1000)),
        ("train/shard.tar", bytes((3 << 20) + 17)),
        ("train.txt", bytes(10)),
    ])
}

fn entry(name: &str, is_folder: bool) -> Entry {
    Entry { name: name.to_owned(), is_folder }
}

/// Checks all reads of a storage that holds [`files`].
fn reads(storage: &dyn Storage) {
    for (name, content) in files() {
        let bytes = content.len() as u64;
        assert!(storage.path_of(name).starts_with(storage.root()), "{name}");
        assert!(storage.read(name, bytes).unwrap().as_ref() == Some(&content), "{name}");
        assert!(storage.read_optional(name, bytes).unwrap().as_ref() == Some(&content), "{name}");
        assert!(storage.is_still(name, &content).unwrap(), "{name}");
        assert!(!storage.is_still(name, b"other content").unwrap(), "{name}");
        assert!(bytes == 0 || storage.read(name, bytes - 1).is_err(), "{name}: longer than allowed");
        assert_eq!(storage.length(name).unwrap(), Some(bytes), "{name}");
        for file in [storage.open(name).unwrap().unwrap(), storage.open_listed(name, bytes).unwrap()] {
            assert_eq!(file.bytes(), bytes, "{name}");
            for (start, end) in [(0, bytes), (bytes / 3, bytes / 2), (bytes, bytes), (bytes.saturating_sub(1), bytes)] {
                let expected = &content[start as usize..end as usize];
                let mut into = vec![7; expected.len()];
                file.read_at(start, &mut into).unwrap();
                assert!(into == expected, "{name} {start}..{end}");
                let mut taken = Vec::new();
                file.read_range(start..end, &mut |part| taken.extend_from_slice(part)).unwrap();
                assert!(taken == expected, "{name} {start}..{end}");
            }
            let error = file.read_at(bytes / 2, &mut vec![0; bytes as usize + 1]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{name}: {error}");
            assert!(error.location().file.is_some(), "{error}");
            file.check_there().unwrap();
        }
        // A wrong length in a manifest is an error at once, or at the first read.
        if let Ok(file) = storage.open_listed(name, bytes + 1) {
            assert_eq!(file.read_at(0, &mut [0]).unwrap_err().kind(), ErrorKind::Data, "{name}");
        }
    }
    for name in ["none", "none/none", "train/none"] {
        let listed = storage.open_listed(name, 3).and_then(|file| file.check_there());
        assert_eq!(listed.unwrap_err().kind(), ErrorKind::Data, "{name}");
        assert!(storage.read(name, 10).unwrap().is_none() && storage.open(name).unwrap().is_none(), "{name}");
        assert_eq!(storage.length(name).unwrap(), None, "{name}");
        assert!(storage.read_optional(name, 10).unwrap().is_none() && !storage.is_still(name, b"").unwrap(), "{name}");
        let read = storage.open_listed(name, 5).and_then(|file| file.read_at(0, &mut [0]));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Data, "{name}");
    }
    versions(storage);
    let below = storage.folder("train").unwrap();
    assert_eq!(below.read("shard.tar", 4 << 20).unwrap(), files().remove("train/shard.tar"));
    let Some(all) = storage.list("").unwrap() else { return };
    let expected = [("empty", false), ("one", false), ("train", true), ("train.txt", false)];
    assert_eq!(all, expected.map(|(name, is_folder)| entry(name, is_folder)));
    let expected = vec![entry("a b", true), entry("shard.tar", false)];
    assert_eq!(storage.list("train").unwrap().unwrap(), expected);
    assert_eq!(storage.list("train/").unwrap().unwrap(), expected);
    assert_eq!(below.list("").unwrap().unwrap(), expected);
    assert_eq!(storage.list("none").unwrap(), Some(Vec::new()));
}

/// Checks reads of listed versions in a storage that holds [`files`].
fn versions(storage: &dyn Storage) {
    for (name, content) in files() {
        let listed = storage.look(name).unwrap().unwrap();
        assert_eq!((listed.name.as_str(), listed.bytes), (name, content.len() as u64));
        assert!(storage.read_listed_whole(&listed, listed.bytes).unwrap() == content, "{name}");
        let half = content.len() / 2;
        let mut into = vec![7; content.len() - half];
        storage.read_listed(&listed, half as u64, &mut into).unwrap();
        assert!(into == content[half..], "{name}");
        if content.is_empty() {
            continue;
        }
        assert!(storage.read_listed_whole(&listed, listed.bytes - 1).is_err(), "{name}: longer than allowed");
        // Stamps of ETags are odd, those of times even.
        let other =
            [Object { stamp: listed.stamp + 2, ..listed.clone() }, Object { bytes: listed.bytes + 1, ..listed }];
        for wrong in other {
            let error = storage.read_listed(&wrong, 0, &mut [0]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{name}: {error}");
            assert!(error.location().file.is_some(), "{error}");
        }
    }
    assert_eq!(storage.look("train/none").unwrap(), None);
    let none = Object { name: "train/none".to_owned(), bytes: 5, stamp: 1 };
    assert_eq!(storage.read_listed(&none, 0, &mut [0]).unwrap_err().kind(), ErrorKind::Data);
    assert_eq!(storage.read_listed_whole(&none, 5).unwrap_err().kind(), ErrorKind::Data);
}

/// Checks lists with versions of a storage that holds [`files`].
fn lists(storage: &dyn Storage) {
    let names = |objects: &[Object]| objects.iter().map(|object| object.name.clone()).collect::<BTreeSet<_>>();
    let pages = |start: &str| {
        let mut all = Vec::new();
        let mut take = |page: Page| {
            assert!(page.folders.is_empty() && page.odd.is_empty(), "{page:?}");
            all.extend(page.objects);
            Ok(())
        };
        storage.pages(start, &mut take).unwrap();
        all
    };
    let all = pages("");
    for listed in &all {
        let mut into = vec![7; listed.bytes as usize];
        storage.read_listed(listed, 0, &mut into).unwrap();
        assert!(into == files()[listed.name.as_str()], "{listed:?}");
    }
    for start in ["", "train", "train/", "train/a", "on", "none", "none/x"] {
        let expected = files().into_keys().filter(|name| name.starts_with(start)).map(str::to_owned).collect();
        assert_eq!(names(&pages(start)), expected, "{start:?}");
    }
    let (first, has_more) = storage.first_page().unwrap();
    assert_eq!((names(&first.objects), has_more), (names(&all), false));
    let level = |below: &str| {
        let page = storage.level(below).unwrap();
        (names(&page.objects), page.folders)
    };
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(level(""), (of(&["empty", "one", "train.txt"]), vec!["train".to_owned()]));
    assert_eq!(level("train/"), (of(&["train/shard.tar"]), vec!["train/a b".to_owned()]));
    assert_eq!(level("none/"), (BTreeSet::new(), Vec::new()));
    let stop = || shardpack_format::Error::usage("enough");
    assert_eq!(storage.pages("", &mut |_| Err(stop())).unwrap_err().what(), "enough");
}

/// Checks files that are written while their bytes are made, in a storage that has [`files`].
fn writers(open: Open<'_>) {
    let storage = open();
    let content: Vec<u8> = (0..(20 << 20) + 5).map(|n: u32| (n ^ (n >> 9)) as u8).collect();
    let (jobs, memory) = storage.writers(2, 1 << 30);
    assert!(jobs >= 2 && memory >= 1 << 29, "{jobs} {memory}");
    for bytes in [0, 1, 1000, 8 << 20, (8 << 20) + 1, content.len()] {
        for size in [Size::Known(bytes as u64), Size::Content(bytes as u64 + 100)] {
            let (what, expected) = (format!("{size:?}"), &content[..bytes]);
            let file = storage.create("many/written", size).unwrap();
            let piece = 1_000_003;
            match size {
                // In any order, by several threads.
                Size::Known(_) => thread::scope(|scope| {
                    for thread in (0..3).rev() {
                        let (file, pieces) = (&file, expected.chunks(piece).enumerate());
                        scope.spawn(move || {
                            for (number, bytes) in pieces.filter(|(number, _)| number % 3 == thread) {
                                file.write_at(bytes, (number * piece) as u64).unwrap();
                            }
                        });
                    }
                }),
                Size::Content(_) => expected
                    .chunks(piece)
                    .enumerate()
                    .for_each(|(number, bytes)| file.write_at(bytes, (number * piece) as u64).unwrap()),
            }
            assert_eq!(storage.length("many/written").unwrap(), None, "{what}: not finished");
            if size == Size::Known(bytes as u64) {
                let error = file.write_at(&[1], bytes as u64).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Data, "{what}");
            }
            file.finish(bytes as u64, &hash::file(expected)).unwrap();
            assert_eq!(open().length("many/written").unwrap(), Some(bytes as u64), "{what}");
            let mut found = Vec::new();
            storage.reader("many/written", bytes as u64).unwrap().read_to_end(&mut found).unwrap();
            assert!(found == expected, "{what}");
            storage.remove("many/written").unwrap();
        }
    }
    storage.put("many/written", content.clone()).unwrap();
    // The old file stays if another is aborted, or is finished with a wrong length.
    let long = content.len() as u64;
    for written in [1000, 9 << 20] {
        let file = storage.create("many/written", Size::Known(long)).unwrap();
        file.write_at(&content[..written], 0).unwrap();
        assert_eq!(file.finish(long, &hash::file(&content)).unwrap_err().kind(), ErrorKind::Data);
        file.abort().unwrap();
        let file = storage.create("many/written", Size::Content(long)).unwrap();
        file.write_at(&content[..written], 0).unwrap();
        file.abort().unwrap();
        assert!(storage.read("many/written", long).unwrap().as_ref() == Some(&content));
    }
    storage.remove("many/written").unwrap();
    assert!(storage.abort_begun().unwrap().is_empty());
}

/// Checks that all files, and those of a subfolder, are passed to the caller, until it ends the walk.
fn walks(storage: &dyn Storage) {
    let walk = |storage: &dyn Storage, below: &str| {
        let mut found = BTreeMap::new();
        let mut take = |name: &str, bytes| {
            found.insert(name.to_owned(), bytes);
            ControlFlow::Continue(())
        };
        storage.walk(below, &mut take).unwrap();
        found
    };
    let expected: Vec<_> = files().into_iter().map(|(name, content)| (name.to_owned(), content.len() as u64)).collect();
    assert_eq!(walk(storage, ""), expected.iter().cloned().collect());
    let train: BTreeMap<_, _> = expected.into_iter().filter(|(name, _)| name.starts_with("train/")).collect();
    assert_eq!(train.len(), 2);
    assert_eq!((walk(storage, "train"), walk(storage, "train/")), (train.clone(), train.clone()));
    let below = walk(storage.folder("train").unwrap().as_ref(), "");
    assert!(below.keys().map(|name| format!("train/{name}")).eq(train.into_keys()));
    assert!(walk(storage, "none").is_empty());
    let mut count = 0;
    let mut one = |_: &str, _| {
        count += 1;
        ControlFlow::Break(())
    };
    storage.walk("", &mut one).unwrap();
    assert_eq!(count, 1);
}

/// Checks all calls of a storage that can be written and is empty.
fn writes(open: Open<'_>) {
    let storage = open();
    assert_eq!(storage.list("").unwrap(), Some(Vec::new()));
    storage.remove("none").unwrap();
    for (name, content) in files() {
        storage.put(name, content).unwrap();
    }
    storage.sync("train").unwrap();
    reads(storage.as_ref());
    reads(open().as_ref());
    walks(open().as_ref());
    lists(open().as_ref());
    let (other, below) = (open(), storage.folder("train").unwrap());
    // Another handle replaces a file: the next read of a whole file gives it.
    other.put("one", b"another".to_vec()).unwrap();
    assert!(!storage.is_still("one", &files()["one"]).unwrap());
    assert_eq!(storage.read("one", 10).unwrap().as_deref(), Some(&b"another"[..]));
    assert!(storage.is_still("one", b"another").unwrap());
    below.put("new/x", b"below".to_vec()).unwrap();
    assert_eq!(other.read("train/new/x", 10).unwrap().as_deref(), Some(&b"below"[..]));
    storage.remove("train/new/x").unwrap();
    assert_eq!(below.read("new/x", 10).unwrap(), None);
    let name = |number: usize| format!("many/{number}");
    thread::scope(|scope| {
        for number in 0..8 {
            let storage = &storage;
            scope.spawn(move || {
                storage.put(&name(number), vec![number as u8; 1000]).unwrap();
                assert_eq!(storage.read(&name(number), 1000).unwrap().unwrap()[999], number as u8);
            });
        }
    });
    let all = other.list("many").unwrap().unwrap();
    assert_eq!(all, (0..8).map(|number| entry(&number.to_string(), false)).collect::<Vec<_>>());
    writers(open);
}

#[test]
fn a_folder_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("not/there/yet");
    assert!(Local::new(&root).list("").unwrap().unwrap().is_empty());
    writes(&|| Arc::new(Local::new(&root)));
    assert!(Local::new(&root).local() == Some(&root) && Local::new(&root).transfers().is_none());
    let file = Local::new(&root).open("one").unwrap().unwrap();
    assert_eq!(file.local().unwrap().metadata().unwrap().len(), 7);
    // A name may be long, and the same in several subfolders.
    let (work, long) = (tempfile::tempdir().unwrap(), "s".repeat(200));
    let below = Local::new(folder.path().join("long")).with_work(work.path()).folder(&long).unwrap();
    let file = below.create(&long, Size::Known(1)).unwrap();
    file.write_at(&[1], 0).unwrap();
    file.finish(1, &hash::file(&[1])).unwrap();
    assert_eq!(below.read(&long, 1).unwrap(), Some(vec![1]));
    // Nothing else remains: no temporary file.
    let names = |folder: &str| -> Vec<String> {
        Local::new(&root).list(folder).unwrap().unwrap().into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(names(""), ["empty", "many", "one", "train", "train.txt"]);
    assert!(names("many").iter().all(|name| !name.contains('.')));
}

#[test]
fn what_is_no_regular_file_is_an_error_and_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero")).unwrap();
    let storage = Local::new(folder.path());
    for name in ["folder", "zero"] {
        assert_eq!(storage.read(name, 10).unwrap_err().kind(), ErrorKind::Data, "{name}");
        assert_eq!(storage.open(name).unwrap_err().kind(), ErrorKind::Data, "{name}");
        assert_eq!(storage.open_listed(name, 0).unwrap_err().kind(), ErrorKind::Data, "{name}");
    }
    // A link out of the folder is not followed by writes.
    let other = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(other.path(), folder.path().join("link")).unwrap();
    assert!(storage.put("link/x", vec![1]).is_err());
    assert_eq!(other.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_file_that_is_cut_while_it_is_open_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x"), [1; 100]).unwrap();
    let file = Local::new(folder.path()).open_listed("x", 100).unwrap();
    std::fs::write(folder.path().join("x"), [1; 10]).unwrap();
    let error = file.read_at(5, &mut [0; 50]).unwrap_err();
    assert_eq!((error.kind(), error.what().as_str()), (ErrorKind::Data, "cut short since it was opened"));
}

#[test]
fn memory_is_a_storage_too() {
    let memory = Memory::new("/memory");
    writes(&|| Arc::new(memory.clone()));
    let folder = tempfile::tempdir().unwrap();
    writes(&|| Arc::new(Local::new(folder.path())));
    let copy = Memory::copy_of(folder.path()).unwrap();
    assert_eq!(copy.list("train").unwrap(), memory.list("train").unwrap());
}

/// A storage that fails at the `n`th call, for all `n`: each failure is an error of that call and no other call, and a write that
/// failed has written nothing.
#[test]
fn each_call_of_a_faulty_storage_can_fail() {
    let memory = Memory::new("/memory");
    writes(&|| Arc::new(Faulty::new(Arc::new(memory.clone()), |_, _| Ok(()))));
    let all = [Call::Open, Call::ReadAt, Call::Read, Call::Length, Call::List, Call::Put, Call::Create];
    for wrong in all.into_iter().chain([Call::WriteAt, Call::Finish, Call::Abort, Call::Remove, Call::Sync]) {
        let storage =
            Faulty::new(Arc::new(memory.clone()), move |call, name| match call == wrong && name == "train/x" {
                true => Err(shardpack_format::Error::new(ErrorKind::System, "broken")),
                false => Ok(()),
            });
        let below = storage.folder("train").unwrap();
        memory.put("train/x", vec![1]).unwrap();
        let file = storage.open("train/x").and_then(|file| file.unwrap().read_at(0, &mut [0]));
        let listed = below.open_listed("x", 1).and_then(|file| file.read_range(0..1, &mut |_| ()));
        let written = |end: &dyn Fn(&dyn FileWriter) -> Result<()>| {
            let file = below.create("x", Size::Known(1))?;
            file.write_at(&[1], 0).and_then(|()| end(file.as_ref()))
        };
        let is_of = |calls: &[Call]| calls.contains(&wrong);
        let results = [
            (written(&|file| file.finish(1, &hash::file(&[1]))), is_of(&[Call::Create, Call::WriteAt, Call::Finish])),
            (written(&|file| file.abort()), is_of(&[Call::Create, Call::WriteAt, Call::Abort])),
            (storage.length("train/x").map(drop), wrong == Call::Length),
            (below.walk("x", &mut |_, _| ControlFlow::Continue(())), wrong == Call::List),
            (file, [Call::Open, Call::ReadAt].contains(&wrong)),
            (listed, [Call::Open, Call::ReadAt].contains(&wrong)),
            (below.read("x", 1).map(drop), wrong == Call::Read),
            (storage.is_still("train/x", &[1]).map(drop), wrong == Call::Read),
            (below.list("x").map(drop), wrong == Call::List),
            (below.put("x", vec![2]), wrong == Call::Put),
            (below.put("y", vec![2]), false),
            (storage.sync("train/x"), wrong == Call::Sync),
        ];
        for (number, (result, fails)) in results.into_iter().enumerate() {
            assert_eq!(result.is_err(), fails, "{wrong:?} {number}");
            if let Err(error) = result {
                assert_eq!(error.location().file.as_deref(), Some("/memory/train/x"), "{error}");
            }
        }
        let written = if wrong == Call::Put { 1 } else { 2 };
        assert_eq!(memory.read("train/x", 1).unwrap(), Some(vec![written]), "{wrong:?}");
        assert_eq!(storage.remove("train/x").is_err(), wrong == Call::Remove);
    }
}

#[cfg(feature = "cloud")]
mod at_urls {
    use shardpack_storage::StoreSettings;
    use shardpack_testing::{server::Nginx, stores};

    use super::*;

    #[test]
    fn a_prefix_of_a_bucket() {
        stores::each(|server| {
            let settings = StoreSettings::new(server.settings(server.port()));
            let url = server.url("some/prefix");
            writes(&|| shardpack_storage::open(&url, &settings).unwrap());
            let storage = shardpack_storage::open(&url, &settings).unwrap();
            assert!(storage.local().is_none() && !storage.is_read_only() && storage.concurrency().is_some());
            assert_eq!(storage.transfers().unwrap().requests, 0);
            let before = files().len() as u64;
            files().keys().for_each(|name| drop(storage.open_listed(name, 1).unwrap()));
            assert_eq!(storage.transfers().unwrap().requests, 0, "{before} files were opened without a request");
            storage.folder("train").unwrap().folder("a b").unwrap().list("").unwrap();
            assert_eq!(storage.transfers().unwrap().requests, 1, "those of subfolders count");
        });
    }

    #[test]
    fn uploads_of_a_process_that_was_stopped_are_aborted_by_the_next_with_its_work_folder() {
        stores::each(|server| {
            let work = tempfile::tempdir().unwrap();
            let settings = StoreSettings::new(server.settings(server.port()));
            let open = || {
                let storage = shardpack_storage::open_to_write(server.url("stopped"), &settings).unwrap();
                storage.with_work(work.path())
            };
            let parts = vec![1; 9 << 20];
            for folder in ["train", "val"] {
                let file = open().folder(folder).unwrap().create("x", Size::Known(20 << 20)).unwrap();
                file.write_at(&parts, 0).unwrap();
                assert!(shardpack_storage::has_begun(work.path()));
            }
            let left = open().abort_begun().unwrap();
            assert!(left.is_empty() && !shardpack_storage::has_begun(work.path()), "{left:?}");
            assert_eq!(open().list("").unwrap(), Some(Vec::new()));
            // Azure drops the parts of an upload by itself.
            let file = open().folder("train").unwrap().create("x", Size::Known(9 << 20)).unwrap();
            file.write_at(&parts, 0).unwrap();
            file.finish(9 << 20, &hash::file(&parts)).unwrap();
            assert!(open().abort_begun().unwrap().is_empty(), "a finished upload is not aborted");
            assert_eq!(open().length("train/x").unwrap(), Some(9 << 20));
        });
    }

    #[test]
    fn a_folder_on_a_web_server() {
        let Some(server) = Nginx::start() else { return };
        let local = Local::new(server.data());
        files().into_iter().for_each(|(name, content)| local.put(name, content).unwrap());
        let storage = shardpack_storage::open(server.url(""), &StoreSettings::default()).unwrap();
        reads(storage.as_ref());
        assert!(storage.is_read_only() && storage.list("").unwrap().is_none());
        assert_eq!(storage.put("x", vec![1]).unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(storage.create("x", Size::Known(1)).unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(storage.walk("", &mut |_, _| ControlFlow::Continue(())).unwrap_err().kind(), ErrorKind::Usage);
        let written = shardpack_storage::open_to_write(server.url(""), &StoreSettings::default());
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Usage);
    }
}

#[cfg(not(feature = "cloud"))]
#[test]
fn without_the_feature_urls_are_refused_as_such() {
    for url in ["s3://bucket/x", "https://example.org/x", "ftp://host/x"] {
        let error = shardpack_storage::open(url, &shardpack_storage::StoreSettings::default()).unwrap_err();
        assert!(error.to_string().contains("cannot read URLs"), "{error}");
        assert!(error.help_text().is_some_and(|help| help.contains("`cloud`")), "{error}");
    }
    assert!(!shardpack_storage::is_url("a/b:/c") && !shardpack_storage::is_url("://x"));
    assert!(shardpack_storage::open("a", &Default::default()).is_ok());
}
