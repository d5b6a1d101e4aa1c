//! Stores, memory limits, and refused options.

use super::*;

#[test]
fn options_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 100, None);
    let good = Options::default();
    for (options, said) in [
        (Options { rank: 1, ..good.clone() }, "ranks count from 0"),
        (Options { world: 0, ..good.clone() }, "rank 0 of 0"),
        (Options { batch: 0, ..good.clone() }, "0 samples"),
        (Options { lanes: Some(0), ..good.clone() }, "0 lanes"),
        (Options { memory_bytes: Some(100), ..good.clone() }, "too few"),
        (Options { components: vec!["cap".to_owned()], ..good.clone() }, "no component \"cap\""),
        (Options { batch: 101, last: Last::Drop, ..good.clone() }, "no batch"),
    ] {
        let error = Loader::new(Dataset::open(folder.path()).unwrap(), options).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    // The size in the help text is enough, and fewer lanes need less.
    let least = Options { memory_bytes: Some(100), ..good.clone() };
    let error = Loader::new(Dataset::open(folder.path()).unwrap(), least).unwrap_err();
    let bytes = error.help_text().unwrap().split(' ').find_map(|word| word.parse().ok()).unwrap();
    for options in [
        Options { memory_bytes: Some(bytes), ..good.clone() },
        Options { memory_bytes: Some(bytes / 2), lanes: Some(8), ..good.clone() },
    ] {
        assert_eq!(
            epoch_of(
                &loader(folder.path(), options.clone()),
                &loader(folder.path(), options).beginning(),
                &payloads(100)
            )
            .0
            .concat()
            .len(),
            100
        );
    }
    let empty = tempfile::tempdir().unwrap();
    Packing::default().pack(empty.path(), &[]);
    assert!(Loader::new(Dataset::open(empty.path()).unwrap(), good).is_err());
}

#[test]
fn shards_come_from_any_storage_with_one_read_for_each_range_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 500, None);
    let dataset = Dataset::open(folder.path()).unwrap();
    let files: Vec<_> = dataset.shards().map(|shard| shard.path()).collect();
    let reads_of_storage = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&reads_of_storage);
    let storage = Faulty::new(Arc::new(storage::Memory::copy_of(folder.path()).unwrap()), move |call, name| {
        let is_of_shard = call == Call::ReadAt && name.ends_with(".tar");
        counter.fetch_add(u64::from(is_of_shard), Relaxed);
        Ok(())
    });
    files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let options = Options { batch: 6, lanes: Some(6), epochs: 1, memory_bytes: Some(200_000), ..Options::default() };
    let one = Loader::new(dataset.with_storage(Arc::new(storage)), options).unwrap();
    let mut batches = one.batches(&one.beginning()).unwrap();
    let mut samples = 0;
    while let Some(batch) = batches.next().unwrap() {
        samples += batch.len();
    }
    assert_eq!(samples, payloads.len());
    let epoch = one.epoch(0).unwrap();
    let segments: Vec<_> = (0..epoch.lanes()).flat_map(|lane| epoch.segments(lane, 0).collect::<Vec<_>>()).collect();
    let reads = segments.iter().map(|segment| segment.ranges().count() as u64).sum::<u64>();
    assert!(reads > segments.len() as u64, "no segment wraps around the end of its run");
    assert_eq!(reads_of_storage.load(Relaxed), reads);
    let bytes: u64 = one.dataset().shards().map(|shard| shard.span(0..shard.len()).unwrap().unwrap().end).sum();
    assert_eq!((batches.stats().reads, batches.stats().read_bytes), (reads, bytes), "no byte is read twice");
}

#[test]
fn memory_stays_within_the_budget_and_does_not_grow_with_epochs() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 2000, None);
    let budget = 600_000;
    let options = Options { batch: 8, epochs: 100, memory_bytes: Some(budget), ..Options::default() };
    let one = loader(folder.path(), options);
    let within = folder.path().canonicalize().unwrap();
    // Other tests open files of other folders at the same time.
    let descriptors = || {
        let all = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(&within))).count()
    };
    let mut batches = one.batches(&one.beginning()).unwrap();
    let mut early = 0;
    for epoch in 0..100 {
        let mut samples = 0;
        while let Some(batch) = batches.next().unwrap() {
            samples += batch.len();
        }
        assert_eq!(samples, 2000);
        assert!(batches.receipt().is_of(&one.expected(epoch).unwrap()));
        if epoch == 2 {
            early = descriptors();
        }
    }
    assert!(batches.stats().peak_run_bytes <= budget * 11 / 10, "{:?}", batches.stats());
    assert!(early > 0 && descriptors() < early + 10, "{early} descriptors became {}", descriptors());
}

/// The bytes read after the first epoch, all of whose batches were taken, once they stop growing or exceed `one`.
fn read_after_one_epoch(folder: &Path, epochs: u64, one: u64) -> (u64, u64) {
    let one_of = loader(folder, Options { batch: 8, epochs, memory_bytes: Some(4 << 20), ..Options::default() });
    let mut batches = one_of.batches(&one_of.beginning()).unwrap();
    while batches.next().unwrap().is_some() {}
    let since = std::time::Instant::now();
    let limit = std::time::Duration::from_millis(if epochs == 2 { 60_000 } else { 100 });
    while batches.stats().read_bytes <= one && since.elapsed() < limit {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let after_one = batches.stats().read_bytes;
    if epochs > 1 {
        while batches.next().unwrap().is_some() {}
        assert!(batches.receipt().is_of(&one_of.expected(1).unwrap()));
    }
    (after_one, batches.stats().read_bytes)
}

#[test]
fn without_a_number_of_epochs_the_next_is_read_when_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 500, None);
    let (one, _) = read_after_one_epoch(folder.path(), 1, 0);
    assert!(one > 0);
    // A known number of epochs: the second is read while the first batch of it is not yet requested.
    let (ahead, two) = read_after_one_epoch(folder.path(), 2, one);
    assert!(ahead > one && two > one, "{one} {ahead} {two}");
    let (after_one, after_two) = read_after_one_epoch(folder.path(), u64::MAX, one);
    assert_eq!((after_one, after_two), (one, two));
}

/// The child of a fork gets an error from the parent's batches, and can begin its own.
#[cfg(target_os = "linux")]
#[test]
#[allow(unsafe_code)]
fn a_fork_gets_an_error_and_can_begin_anew() {
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 200, None);
    let one = loader(folder.path(), Options { batch: 8, epochs: 1, ..Options::default() });
    let mut batches = one.batches(&one.beginning()).unwrap();
    batches.next().unwrap().unwrap();
    let shared = std::sync::Mutex::new((one, batches));
    let shared: &'static _ = Box::leak(Box::new(shared));
    let mut command = std::process::Command::new("true");
    // SAFETY: the closure runs in the child of a fork. It allocates and starts threads, which glibc allows there; the test
    // covers both.
    unsafe {
        command.pre_exec(|| {
            let mut shared = shared.lock().unwrap();
            let is_refused = shared.1.next().is_err_and(|error| error.to_string().contains("forked"));
            let mut anew = shared.0.batches(&shared.0.beginning()).map_err(std::io::Error::other)?;
            let mut samples = 0;
            while let Some(batch) = anew.next().map_err(std::io::Error::other)? {
                samples += batch.len();
            }
            if is_refused && samples == 200 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(1)) }
        });
    }
    assert!(command.status().unwrap().success());
    let mut rest = 0;
    while let Some(batch) = shared.lock().unwrap().1.next().unwrap() {
        rest += batch.len();
    }
    assert_eq!(rest, 192, "the parent goes on");
}
