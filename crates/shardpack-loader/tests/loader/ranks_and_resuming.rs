//! Ranks follow the order, and a run resumes at any position.

use super::*;

#[test]
fn ranks_get_what_the_order_says_and_their_receipts_add_up() {
    for zstd in [None, Some(3)] {
        let folder = tempfile::tempdir().unwrap();
        let payloads = packed(folder.path(), 500, zstd);
        for shuffle in Shuffle::ALL {
            for last in Last::ALL {
                for (world, batch) in [(1, 7), (2, 16), (3, 50), (5, 1)] {
                    let options = |rank, threads| Options {
                        batch,
                        rank,
                        world,
                        threads,
                        seed: 9,
                        shuffle,
                        last,
                        epochs: 1,
                        memory_bytes: Some(1 << 20),
                        ..Options::default()
                    };
                    let mut all: Option<Receipt> = None;
                    let mut batches = Vec::new();
                    for rank in 0..world {
                        let one = loader(folder.path(), options(rank, 2));
                        let (seen, receipt) = epoch_of(&one, &one.beginning(), &payloads);
                        assert_eq!(
                            seen.len() as u64,
                            one.batches_of_epoch().unwrap(),
                            "{shuffle:?}, {last:?}, {world}"
                        );
                        assert!(receipt.skipped.is_empty() && receipt.replaced.is_empty());
                        match &mut all {
                            None => all = Some(receipt),
                            Some(all) => all.join(&receipt).unwrap(),
                        }
                        if rank == 0 {
                            for threads in [1, 7] {
                                let other = loader(folder.path(), options(rank, threads));
                                assert_eq!(
                                    epoch_of(&other, &other.beginning(), &payloads).0,
                                    seen,
                                    "{threads} threads"
                                );
                            }
                        }
                        batches.push(seen);
                    }
                    let one = loader(folder.path(), options(0, 1));
                    assert!(all.unwrap().is_of(&one.expected(0).unwrap()), "{shuffle:?}, {last:?}, {world} ranks");
                    // Step by step, the samples of the ranks in turn equal the order.
                    let epoch = one.epoch(0).unwrap();
                    for step in 0..batches[0].len() {
                        for at in 0..batches[0][step].len() {
                            for (rank, batches) in batches.iter().enumerate() {
                                let position = (step as u64 * batch + at as u64) * world + rank as u64;
                                let Some(found) = batches[step].get(at) else {
                                    assert!(position >= epoch.len());
                                    continue;
                                };
                                assert_eq!(*found, epoch.sample_at(position % epoch.len()));
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_run_that_is_interrupted_goes_on_with_other_ranks_and_misses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 777, None);
    let open = || Dataset::open(folder.path()).unwrap();
    for (stop_after, worlds) in [(0, [2, 3]), (1, [1, 2]), (5, [2, 3]), (9, [3, 5]), (1000, [2, 1])] {
        let options = |rank, world| Options {
            batch: 8,
            rank,
            world,
            seed: 4,
            epochs: 1,
            memory_bytes: Some(2 << 20),
            ..Options::default()
        };
        let mut all: Option<Receipt> = None;
        let mut join = |receipt: &Receipt| match &mut all {
            None => all = Some(receipt.clone()),
            Some(all) => all.join(receipt).unwrap(),
        };
        let mut states = Vec::new();
        for rank in 0..worlds[0] {
            let one = loader(folder.path(), options(rank, worlds[0]));
            let mut batches = one.batches(&one.beginning()).unwrap();
            for _ in 0..stop_after {
                if batches.next().unwrap().is_none() {
                    break;
                }
            }
            // Batches prepared ahead were not handed out: no receipt holds them.
            join(batches.receipt());
            states.push(State::from_json(&batches.state().to_json()).unwrap());
        }
        assert!(states.iter().all(|state| *state == states[0]), "ranks stopped at the same place");
        let mut resumed = None;
        for rank in 0..worlds[1] {
            // Seed and lanes differ from the state, and the state decides.
            let options = Options { seed: 77, lanes: Some(2), ..options(rank, worlds[1]) };
            let one = Loader::resume(open(), options, &states[0]).unwrap();
            let (_, receipt) = epoch_of(&one, &states[0], &payloads);
            if states[0].epoch == 0 {
                join(&receipt);
            }
            resumed = Some(one);
        }
        let one = resumed.unwrap();
        assert!(all.unwrap().is_of(&one.expected(0).unwrap()), "stopped after {stop_after}");
    }
}

#[test]
fn resuming_gives_the_same_batches_as_an_undisturbed_run() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 400, Some(1));
    let options = Options { batch: 9, epochs: 3, memory_bytes: Some(1 << 20), ..Options::default() };
    let one = loader(folder.path(), options);
    let mut batches = one.batches(&one.beginning()).unwrap();
    let mut undisturbed = Vec::new();
    let mut states = vec![one.beginning()];
    while batches.state().epoch < 3 {
        undisturbed.push(batches.next().unwrap().map(|batch| batch.samples().to_vec()));
        states.push(batches.state().clone());
    }
    assert!(batches.next().unwrap().is_none() && batches.next().unwrap().is_none());
    assert_eq!(states.last().unwrap().epoch, 3);
    for (at, state) in states.iter().enumerate().step_by(7) {
        let mut batches = one.batches(state).unwrap();
        for expected in &undisturbed[at..] {
            assert_eq!(batches.next().unwrap().map(|batch| batch.samples().to_vec()), *expected, "from {state:?}");
        }
    }
    let _ = payloads;
}

/// The order of docs/reference/order.md before runs were rotated; the eight samples are from its Python.
#[test]
fn a_state_of_version_1_resumes_without_rotation() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 400, None);
    let open = || Dataset::open(folder.path()).unwrap();
    let one = loader(folder.path(), Options { batch: 9, epochs: 1, ..Options::default() });
    let json = one.beginning().to_json().replace("\"version\":2", "\"version\":1");
    let state = State::from_json(&json.replace("\"position\":0", "\"position\":90")).unwrap();
    assert!(one.batches(&state).unwrap_err().to_string().contains("another order"));
    let old = Loader::resume(open(), Options { batch: 9, epochs: 1, ..Options::default() }, &state).unwrap();
    let epoch = old.epoch(0).unwrap();
    assert!((0..400).any(|position| epoch.sample_at(position) != one.epoch(0).unwrap().sample_at(position)));
    let first: Vec<u64> = (0..8).map(|position| epoch.sample_at(position)).collect();
    assert_eq!(first, [318, 325, 343, 358, 77, 96, 110, 121]);
    let mut batches = old.batches(&state).unwrap();
    let mut position = 90;
    while let Some(batch) = batches.next().unwrap() {
        batch.samples().iter().for_each(|sample| {
            assert_eq!(*sample, epoch.sample_at(position));
            position += 1;
        });
        // Later states keep the version of the order.
        assert!(batches.state().to_json().contains("\"version\":1"));
    }
    assert_eq!(position, 400);
}

#[test]
fn states_of_other_runs_are_refused() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    packed(folder.path(), 100, None);
    packed(other.path(), 101, None);
    let one = loader(folder.path(), Options::default());
    let state = loader(other.path(), Options::default()).beginning();
    assert!(one.batches(&state).unwrap_err().to_string().contains("another dataset"));
    assert!(Loader::resume(Dataset::open(folder.path()).unwrap(), Options::default(), &state).is_err());
    let seeded = loader(folder.path(), Options { seed: 1, ..Options::default() }).beginning();
    assert!(one.batches(&seeded).unwrap_err().to_string().contains("another order"));
    let json = one.beginning().to_json();
    for (from, to) in
        [("\"version\":2", "\"version\":3"), ("\"position\":0", "\"position\":101"), ("lanes\",", "waves\",")]
    {
        assert!(json.contains(from), "{json}");
        let state = State::from_json(&json.replace(from, to));
        assert!(state.and_then(|state| one.batches(&state)).is_err(), "{to}");
    }
    for text in ["", "{}", "null", &json.replace("seed", "seeds")] {
        assert!(State::from_json(text).is_err(), "{text}");
    }
}

#[test]
fn samples_come_one_by_one_in_the_order_of_the_rank() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 333, Some(1));
    let one = loader(folder.path(), Options { rank: 1, world: 2, batch: 5, epochs: 2, ..Options::default() });
    let mut samples = one.samples(&one.beginning()).unwrap();
    for epoch in 0..2 {
        let order = one.epoch(epoch).unwrap();
        let mut position = 1;
        while let Some(fetched) = samples.next().unwrap() {
            assert_eq!((fetched.number(), fetched.epoch()), (order.sample_at(position), epoch));
            assert_eq!(fetched.sample().unwrap().bytes(), payloads[fetched.number() as usize]);
            position += 2;
        }
        assert_eq!(position, 333);
    }
    assert!(samples.next().unwrap().is_none());
}

/// Another number of ranks, another batch size and padding at the end, all at once in mid-epoch.
#[test]
fn a_run_goes_on_with_other_batches_and_padding_and_counts_what_it_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 500, None);
    let options = |rank, world, batch, last| Options { batch, rank, world, last, epochs: 1, ..Options::default() };
    let first = loader(folder.path(), options(0, 1, 37, Last::Drop));
    let mut batches = first.batches(&first.beginning()).unwrap();
    (0..4).for_each(|_| drop(batches.next().unwrap().unwrap()));
    let state = batches.state().clone();
    let mut all = batches.receipt().clone();
    let (mut repeated, mut lengths) = (0, Vec::new());
    for rank in 0..7 {
        let dataset = Dataset::open(folder.path()).unwrap();
        let one = Loader::resume(dataset, options(rank, 7, 4, Last::Pad), &state).unwrap();
        let (seen, receipt) = epoch_of(&one, &state, &payloads);
        repeated += receipt.repeated;
        lengths.push(seen.concat().len());
        all.join(&receipt).unwrap();
    }
    // 352 samples are left: 51 for each of seven ranks, five repeated.
    assert_eq!((lengths, repeated, all.repeated), (vec![51; 7], 5, 5));
    let expected = loader(folder.path(), options(0, 1, 1, Last::Short)).expected(0).unwrap();
    assert!(all.is_of(&expected));
}
