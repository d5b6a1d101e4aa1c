//! A pack to a URL that ends at any call of the storage, by a kill or an error: the same command then gives the same files as a run
//! without faults, with the old folder for unfinished files or without it.
//!
//! The storage is in memory, so that every call of a pack can be tried.

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use shardpack_format::{Error, ErrorKind, Result, component::Component, formats::Choice};
use shardpack_imaging::{Encode, Layout, Picture, Recipe, Resize, encode};
use shardpack_reader::StoreSettings;
use shardpack_storage::{Call, Faulty, Memory, Storage};
use shardpack_testing::sweep::turns;

use super::{
    Extension, Options, PartPlanning, PlanOptions, Planned, PlannedPart, PreprocessTarget, Site, merge, part, plan_all,
    planning::plan_part,
};
use crate::{
    copy::OnBad,
    monitor::Silent,
    part::Part,
    plan::{self, Check, Compression, Cut, Order},
    selection, sidecars,
    source::{SharedSource, options, resolve},
};

/// Budget of a pack, in bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// Files of a destination, by name.
type Files = BTreeMap<String, Vec<u8>>;

/// A tree of images, by path and a number for their content.
fn tree(root: &Path, images: &[(&str, u8)]) {
    for (path, number) in images {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [&b"P6 2 2 255\n"[..], &[*number; 12]].concat()).unwrap();
    }
}

/// A command: what is packed, and how.
#[derive(Clone)]
struct Command<'s> {
    src: &'s Path,
    format: &'s str,
    shards: u64,
    recipe: Option<Recipe>,
    /// `--with`.
    with: Option<&'s str>,
    force: bool,
    /// Packs in this number of parts, if it is not 0, and merges them.
    parts: u32,
}

impl<'s> Command<'s> {
    fn new(src: &'s tempfile::TempDir, format: &'s str, shards: u64) -> Self {
        Self { src: src.path(), format, shards, recipe: None, with: None, force: false, parts: 0 }
    }

    fn force(self) -> Self {
        Self { force: true, ..self }
    }

    /// Runs it with the storage of the destination, and the folder `work` for unfinished files.
    fn run(&self, storage: &Arc<dyn Storage>, work: &Path) -> Result<()> {
        let site = Site::at(storage, work.join("x"));
        let options = Options {
            jobs: 1,
            memory_bytes: MEMORY_BYTES,
            on_bad: OnBad::Error,
            read_order: None,
            force: self.force,
            sidecars: sidecars::Choice::Auto,
            store: StoreSettings::default(),
            work: None,
        };
        // Before all parts have changed their images, none can pack.
        for number in (1..=self.parts).chain(1..=if self.recipe.is_some() { self.parts } else { 0 }) {
            let part = Part::new(number, self.parts)?;
            let (source, plan_options, place) = self.to_plan(storage, work)?;
            let planned = match plan_part(source, &plan_options, part, &place, OnBad::Error, &Silent)? {
                PartPlanning::Planned(planned) => PlannedPart::of_walk(*planned, part)?,
                PartPlanning::Changed(changed) => {
                    assert!(changed.bad.is_empty());
                    continue;
                }
                PartPlanning::Sealed => continue,
            };
            let packed = part::pack_part_into(&planned, &site, &options, &Silent)?;
            assert_ne!(packed.ended, part::Ended::Bad);
        }
        if self.parts == 0 {
            assert!(site.pack(&self.planned(storage, work)?, &options, &Silent)?.sealed);
            return Ok(());
        }
        let options = merge::Options { verify: false, jobs: 1, store: StoreSettings::default(), work: None };
        assert!(merge::merge_into(&site, &options, &Silent)?.is_sealed());
        Ok(())
    }

    fn planned(&self, storage: &Arc<dyn Storage>, work: &Path) -> Result<Planned> {
        let (source, options, place) = self.to_plan(storage, work)?;
        let place = self.recipe.as_ref().map(|_| &place);
        Ok(plan_all(source, &[options], place, &Silent)?.remove(0))
    }

    fn to_plan(
        &self,
        storage: &Arc<dyn Storage>,
        work: &Path,
    ) -> Result<(SharedSource, PlanOptions, PreprocessTarget)> {
        let source = resolve(self.src, &Default::default(), &Default::default(), &StoreSettings::default())?;
        let with = self.with.map(Component::with).transpose()?.unwrap_or_default();
        let options = PlanOptions {
            walk: options::Options { threads: 1, with, ..Default::default() },
            survey: selection::Choice::default(),
            bytes: plan::Options {
                name: "shard".to_owned(),
                order: Order::Shuffled,
                seed: 3,
                cut: Cut::Shards(self.shards),
                format: Choice::new(self.format),
                compression: Compression::None,
                check: Check::Header,
                recipe: None,
            },
            extension: Extension::MostCommon,
            recipe: self.recipe.clone(),
            roles: Vec::new(),
        };
        let sites = vec![Site::at(storage, work.join("x"))];
        let place = PreprocessTarget { sites, force: self.force, memory_bytes: MEMORY_BYTES, jobs: 1 };
        Ok((source, options, place))
    }
}

fn files(memory: &Memory) -> Files {
    let mut names = Vec::new();
    memory
        .walk("", &mut |name, _| {
            names.push(name.to_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
    names.into_iter().map(|name| (name.clone(), memory.read(&name, u64::MAX).unwrap().unwrap())).collect()
}

/// A folder for unfinished files, in memory if the machine has such a file system: a sweep syncs thousands of files.
fn work_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// How calls fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// This call and all later ones: the process was killed.
    Kill,
    /// This call alone.
    Once,
    /// The call is done, and all later ones fail: the process was killed before it had the answer.
    KillAfter,
}

/// A storage whose call number `at` fails; also counts calls.
fn faulty(memory: &Memory, at: usize, fault: Fault) -> (Arc<dyn Storage>, Arc<AtomicUsize>, Arc<Mutex<String>>) {
    let (calls, where_at) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
    let (counted, named) = (Arc::clone(&calls), Arc::clone(&where_at));
    let storage = Faulty::new(Arc::new(memory.clone()), move |call, name| {
        // Not for its hashes either, which the index of MDS needs.
        assert!(call != Call::ReadAt || !name.ends_with(".mds"), "a shard is read again: {name}");
        let number = counted.fetch_add(1, Ordering::Relaxed);
        let fails = match fault {
            Fault::Kill => number >= at,
            Fault::Once => number == at,
            Fault::KillAfter => number > at,
        };
        if number == at {
            *named.lock().unwrap() = format!("{call:?} {name}");
        }
        if fails { Err(Error::new(ErrorKind::System, "the storage is gone")) } else { Ok(()) }
    });
    (Arc::new(storage), calls, where_at)
}

fn copy(of: &Memory) -> Memory {
    let copy = Memory::new("memory:");
    files(of).into_iter().for_each(|(name, bytes)| copy.put(&name, bytes).unwrap());
    copy
}

/// Files after `command` without faults, and its number of calls.
fn without_faults(command: &Command<'_>, before: &Memory) -> (Files, usize) {
    let (memory, work) = (copy(before), work_folder());
    let (storage, calls, _) = faulty(&memory, usize::MAX, Fault::Once);
    command.run(&storage, work.path()).unwrap();
    let files = files(&memory);
    assert!(files.keys().all(|name| !name.starts_with(".shardpack")), "{:?}", files.keys());
    (files, calls.load(Ordering::Relaxed))
}

/// Runs `command` in `memory` with a fault at call `at`, whose result is right if there is one; returns what was done.
fn with_fault(
    command: &Command<'_>,
    memory: &Memory,
    work: &Path,
    (at, fault): (usize, Fault),
    expected: &Files,
) -> String {
    let (storage, _, where_at) = faulty(memory, at, fault);
    let result = command.run(&storage, work);
    let what = format!("{fault:?} {at} {}: {:?}", where_at.lock().unwrap(), result.as_ref().err());
    if result.is_ok() {
        let found = files(memory);
        assert!(found == *expected, "{what}: exit 0 with {:?}", found.keys());
    }
    what
}

/// Runs `command` again, without faults; it has to give the files `expected`.
fn goes_on(command: &Command<'_>, memory: &Memory, work: &Path, expected: &Files, what: &str) {
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let again = command.run(&storage, work);
    let found = files(memory);
    assert!(again.is_ok(), "{what}, then {again:?}\n{:#?}", found.keys());
    assert!(found == *expected, "{what}: {:?}, not {:?}", found.keys(), expected.keys());
    assert_eq!(work.read_dir().unwrap().count(), 0, "{what}: unfinished files are left");
}

/// Runs `command` in a copy of `before` with a fault at each call; then the same command, and at random places a second fault before it.
fn sweep(command: &Command<'_>, before: &Memory) {
    let (expected, calls) = without_faults(command, before);
    let mut random = 7usize;
    for at in 0..calls {
        // The other faults with each kind of work folder at every second call: a sweep takes a third less.
        let is_even = at % 2 == 0;
        let faults = [(Fault::Kill, true), (Fault::Kill, false), (Fault::Once, is_even), (Fault::KillAfter, !is_even)];
        for (_, (fault, keeps_work)) in turns(faults, at) {
            let (memory, work, other) = (copy(before), work_folder(), work_folder());
            let mut what = with_fault(command, &memory, work.path(), (at, fault), &expected);
            let work = if keeps_work { &work } else { &other };
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if random >> 62 == 0 {
                let second = ((random >> 32) % calls, Fault::Kill);
                what += " and ";
                what += &with_fault(command, &memory, work.path(), second, &expected);
            }
            what += if keeps_work { ", same work folder" } else { ", another work folder" };
            goes_on(command, &memory, work.path(), &expected, &what);
        }
    }
}

/// Runs `command`; before its call number `at`, `other` runs from its start to its end, as on another machine. Also returns the number
/// of shards that `command` wrote.
fn with_another(command: &Command<'_>, other: &Command<'_>, memory: &Memory, at: usize) -> ([Result<()>; 2], usize) {
    let shards = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        let (call, called) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let ended = Mutex::new(ended);
        let inside = scope.spawn(move || {
            called.recv().ok()?;
            let storage: Arc<dyn Storage> = Arc::new(memory.clone());
            let result = other.run(&storage, work_folder().path());
            let _ = end.send(());
            Some(result)
        });
        let (calls, counted) = (AtomicUsize::new(0), Arc::clone(&shards));
        let storage: Arc<dyn Storage> = Arc::new(Faulty::new(Arc::new(memory.clone()), move |of, _| {
            counted.fetch_add(usize::from(of == Call::Create), Ordering::Relaxed);
            if calls.fetch_add(1, Ordering::Relaxed) == at {
                call.send(()).unwrap();
                ended.lock().unwrap().recv().unwrap();
            }
            Ok(())
        }));
        let result = command.run(&storage, work_folder().path());
        drop(storage);
        ([result, inside.join().unwrap().unwrap()], shards.load(Ordering::Relaxed))
    })
}

fn photos(count: u8, salt: u8) -> Vec<(String, u8)> {
    (0..count).map(|number| (format!("c{}/{number}.ppm", number % 2), number.wrapping_add(salt))).collect()
}

fn source(images: &[(String, u8)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let images: Vec<_> = images.iter().map(|(path, number)| (path.as_str(), *number)).collect();
    tree(root.path(), &images);
    root
}

/// A dataset of `old` in memory, with a crop table.
fn sealed(old: &tempfile::TempDir) -> Memory {
    let memory = Memory::new("memory:");
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    Command::new(old, "webdataset", 3).run(&storage, work_folder().path()).unwrap();
    memory.put("index/shard-000001.crops", vec![1]).unwrap();
    memory
}

#[test]
fn a_first_pack_goes_on_after_a_fault_at_any_call() {
    let src = source(&photos(6, 0));
    for format in ["webdataset", "mds"] {
        sweep(&Command::new(&src, format, 2), &Memory::new("memory:"));
    }
}

#[test]
fn splits_go_on_after_a_fault_at_any_call() {
    let images = photos(4, 0).into_iter().flat_map(|(path, number)| {
        ["train", "val"].map(|split| (format!("{split}/{path}"), number.wrapping_add(split.len() as u8)))
    });
    let src = source(&images.collect::<Vec<_>>());
    sweep(&Command::new(&src, "tfrecord", 2), &Memory::new("memory:"));
}

#[test]
fn changed_images_go_on_after_a_fault_at_any_call() {
    let src = source(&photos(4, 0));
    let recipe = Some(Recipe { fix: true, ..Recipe::default() });
    sweep(&Command { recipe, ..Command::new(&src, "recordio", 2) }, &Memory::new("memory:"));
}

/// As [`source`], with a mask beside each image.
fn masked(images: &[(String, u8)]) -> tempfile::TempDir {
    let root = source(images);
    for (path, number) in images {
        let levels = (0..4).map(|at| number.wrapping_mul(4) + at).collect();
        let mask = encode(&Picture::new(2, 2, Layout::Gray8, levels).unwrap(), Encode::Png, 90).unwrap();
        fs::write(root.path().join(path.replace(".ppm", "_mask.png")), mask).unwrap();
    }
    root
}

#[test]
fn masks_that_move_go_on_after_a_fault_at_any_call() {
    let images = photos(3, 0);
    let src = masked(&images);
    let recipe = Some(Recipe { resize: Some(Resize::Exact { width: 3, height: 1 }), ..Recipe::default() });
    let with = Some("mask=*_mask.png");
    let whole = Command { recipe, with, ..Command::new(&src, "webdataset", 2) };
    sweep(&whole, &Memory::new("memory:"));
    sweep(&Command { parts: 2, ..whole }, &Memory::new("memory:"));
}

#[test]
fn images_are_changed_for_no_destination_that_is_sealed_or_holds_something_else() {
    let src = source(&photos(4, 0));
    let recipe = Some(Recipe { fix: true, ..Recipe::default() });
    let command = Command { recipe, ..Command::new(&src, "recordio", 2) };
    let memory = Memory::new("memory:");
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    command.run(&storage, work_folder().path()).unwrap();
    let sealed = files(&memory);
    // Images that are read now are bad.
    for (path, _) in photos(4, 0) {
        let path = src.path().join(path);
        let stat = fs::metadata(&path).unwrap();
        fs::write(&path, vec![0; stat.len() as usize]).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(stat.modified().unwrap()).unwrap();
    }
    command.run(&storage, work_folder().path()).unwrap();
    assert_eq!(files(&memory), sealed);
    let other = Command { shards: 1, ..command };
    let error = other.run(&storage, work_folder().path()).unwrap_err();
    assert!(error.what().starts_with("holds another dataset: "), "{error}");
    assert_eq!(files(&memory), sealed);
}

#[test]
fn parts_go_on_after_a_fault_at_any_call() {
    let src = source(&photos(6, 0));
    sweep(&Command { parts: 2, ..Command::new(&src, "mds", 2) }, &Memory::new("memory:"));
}

#[test]
fn parts_that_change_images_go_on_after_a_fault_at_any_call() {
    let src = source(&photos(4, 0));
    let recipe = Some(Recipe { fix: true, ..Recipe::default() });
    sweep(&Command { parts: 2, recipe, ..Command::new(&src, "webdataset", 2) }, &Memory::new("memory:"));
}

#[test]
fn parts_that_change_images_make_the_files_of_one_process() {
    let src = source(&photos(6, 0));
    let recipe = Some(Recipe { fix: true, ..Recipe::default() });
    let empty = Memory::new("memory:");
    let whole = Command { recipe, ..Command::new(&src, "webdataset", 3) };
    let (expected, _) = without_faults(&whole, &empty);
    let (of_parts, _) = without_faults(&Command { parts: 2, ..whole }, &empty);
    assert!(of_parts == expected, "{:?}, not {:?}", of_parts.keys(), expected.keys());
}

/// A dataset with crop tables is replaced by another: of fewer shards, or of another format.
#[test]
fn a_replacement_goes_on_after_a_fault_at_any_call() {
    let (old, new) = (source(&photos(9, 0)), source(&photos(4, 50)));
    let memory = sealed(&old);
    for format in ["webdataset", "mds"] {
        sweep(&Command::new(&new, format, 2).force(), &memory);
    }
}

/// Files without manifest and plan may be of any dataset: only --force replaces them.
#[test]
fn a_dataset_that_has_lost_its_manifest_is_replaced_by_force_alone() {
    let (old, new) = (source(&photos(9, 0)), source(&photos(4, 50)));
    let memory = sealed(&old);
    memory.remove("manifest.json").unwrap();
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    for src in [&old, &new] {
        let before = files(&memory);
        let command = Command::new(src, "webdataset", 3);
        let refused = command.run(&storage, work_folder().path()).unwrap_err();
        assert!(refused.to_string().contains("no part of this pack"), "{refused}");
        assert!(files(&memory) == before);
    }
    let command = Command::new(&new, "mds", 2).force();
    let (expected, _) = without_faults(&command, &Memory::new("memory:"));
    goes_on(&command, &memory, work_folder().path(), &expected, "a lost manifest");
}

#[test]
fn a_corrupt_plan_is_replaced_by_force() {
    let src = source(&photos(6, 0));
    let command = Command::new(&src, "webdataset", 3);
    let (expected, calls) = without_faults(&command, &Memory::new("memory:"));
    let memory = Memory::new("memory:");
    with_fault(&command, &memory, work_folder().path(), (calls - 8, Fault::Kill), &expected);
    let name = ".shardpack/plan";
    let plan = memory.read(name, u64::MAX).unwrap().unwrap();
    for at in [5, plan.len() / 2, plan.len() - 20] {
        let memory = copy(&memory);
        let mut plan = plan.clone();
        plan[at] ^= 255;
        memory.put(name, plan).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(memory.clone());
        let refused = command.run(&storage, work_folder().path()).unwrap_err();
        assert!(refused.help_text().is_some_and(|help| help.contains("--force")), "{at}: {refused:?}");
        goes_on(&command.clone().force(), &memory, work_folder().path(), &expected, "a corrupt plan");
    }
}

#[test]
fn a_dataset_that_a_stopped_replacement_left_is_replaced_by_force_alone() {
    let (old, new) = (source(&photos(9, 0)), source(&photos(4, 50)));
    let (before, command) = (sealed(&old), Command::new(&new, "mds", 2));
    let (expected, calls) = without_faults(&command.clone().force(), &before);
    for at in 0..calls {
        let (memory, work) = (copy(&before), work_folder());
        with_fault(&command.clone().force(), &memory, work.path(), (at, Fault::Kill), &expected);
        // Without --force, it goes on only if the plan at the prefix is its own.
        let storage: Arc<dyn Storage> = Arc::new(memory.clone());
        match command.run(&storage, work_folder().path()) {
            Ok(_) => assert!(files(&memory) == expected, "{at}"),
            Err(error) => {
                assert!(error.help_text().is_some_and(|help| help.contains("--force")), "{at}: {error:?}");
                goes_on(&command.clone().force(), &memory, work_folder().path(), &expected, &format!("{at}"));
            }
        }
    }
}

#[test]
fn a_stray_file_with_a_name_of_ours_is_neither_a_dataset_nor_replaced() {
    let src = source(&photos(4, 0));
    for name in ["manifest.json", "splits.json", "notes.txt"] {
        let memory = Memory::new("memory:");
        memory.put(name, b"{\"name\": \"an app\"}".to_vec()).unwrap();
        let before = files(&memory);
        let storage: Arc<dyn Storage> = Arc::new(memory.clone());
        for force in [false, true] {
            let error =
                Command { force, ..Command::new(&src, "mds", 2) }.run(&storage, work_folder().path()).unwrap_err();
            assert_eq!(error.what(), format!("holds {name:?}, which is no part of this pack"), "{force}");
            assert!(error.help_text().is_some_and(|help| help.starts_with("choose another prefix: ")), "{error:?}");
        }
        assert!(files(&memory) == before, "{name}");
    }
}

#[test]
fn an_unfinished_pack_is_named_by_its_url_and_not_by_the_folder_for_unfinished_files() {
    let (src, other) = (source(&photos(6, 0)), source(&photos(4, 50)));
    let (command, other) = (Command::new(&src, "mds", 2), Command::new(&other, "mds", 3));
    let (expected, calls) = without_faults(&command, &Memory::new("memory:"));
    let mut refused = 0;
    for at in 0..calls {
        let (memory, work) = (Memory::new("memory:"), work_folder());
        with_fault(&command, &memory, work.path(), (at, Fault::Kill), &expected);
        // The store may have lost the plan, or never had it.
        memory.remove(".shardpack/plan").unwrap();
        let storage: Arc<dyn Storage> = Arc::new(memory);
        if let Err(error) = other.run(&storage, work.path()) {
            assert_eq!(error.location().file.as_deref(), Some("memory:"), "{at}: {error}");
            refused += usize::from(error.what().contains("unfinished"));
        }
    }
    assert!(refused > 0);
}

#[test]
fn two_of_the_same_command_seal_one_dataset_wherever_the_second_begins() {
    let src = source(&photos(6, 0));
    let empty = Memory::new("memory:");
    for parts in [0, 2] {
        let command = Command { parts, ..Command::new(&src, "mds", 2) };
        let (expected, calls) = without_faults(&command, &empty);
        let mut written = Vec::new();
        for at in 0..calls {
            let memory = copy(&empty);
            let (results, shards) = with_another(&command, &command, &memory, at);
            written.push(shards);
            assert!(results.iter().all(Result::is_ok), "{at} of {calls}, {parts} parts: {results:?}");
            assert!(files(&memory) == expected, "{at} of {calls}: {:?}", files(&memory).keys());
        }
        if parts == 0 {
            // A dataset that is sealed before the plan is put is not packed again.
            let plan = (0..calls).find(|at| {
                let (storage, _, where_at) = faulty(&copy(&empty), *at, Fault::Kill);
                let _ = command.run(&storage, work_folder().path());
                *where_at.lock().unwrap() == "Put .shardpack/plan"
            });
            assert!(written[..=plan.unwrap()].iter().all(|shards| *shards == 0), "{plan:?}: {written:?}");
        }
    }
}

#[test]
fn of_two_packs_one_is_sealed_at_most_wherever_the_second_begins() {
    let src = source(&photos(6, 0));
    let empty = Memory::new("memory:");
    for parts in [[0, 0], [2, 0], [0, 2], [2, 2]] {
        let command = Command { parts: parts[0], ..Command::new(&src, "webdataset", 2) };
        let other = Command { parts: parts[1], ..Command::new(&src, "webdataset", 3) };
        let (expected, calls) = without_faults(&command, &empty);
        let (of_other, _) = without_faults(&other, &empty);
        for at in 0..calls {
            let memory = copy(&empty);
            let (results, _) = with_another(&command, &other, &memory, at);
            let found = files(&memory);
            let what = format!("{at} of {calls}, parts {parts:?}: {results:?}");
            let sealed = match &results {
                [Ok(()), Err(_)] => &expected,
                [Err(_), Ok(())] => &of_other,
                _ => panic!("{what}"),
            };
            // Objects of the other may remain.
            assert!(sealed.iter().all(|(name, bytes)| found.get(name) == Some(bytes)), "{what}");
        }
    }
}
