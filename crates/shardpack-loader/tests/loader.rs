//! The loader on real datasets: what is handed out is what the order says, whoever asks, however often it is interrupted.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../shardpack-reader/tests/support/mod.rs"]
mod support;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use shardpack_loader::{
    Batch, Dataset, Error, Loader, Memory, NO_LABEL, OnBad, Options, Output, Own, Part, Receipt, Result, Sample, State,
    Store, Subset, Times,
    order::{Last, Shuffle},
    training::{self, Cut, Dtype, Size, Transform},
};
use support::Packing;

/// Payloads that tell their number, of lengths between 4 and 200 bytes.
fn payloads(samples: u32) -> Vec<Vec<u8>> {
    (0..samples).map(|n| [&n.to_le_bytes()[..], &vec![n as u8; (n * 37 % 197) as usize]].concat()).collect()
}

fn packed(folder: &Path, samples: u32, zstd: Option<i32>) -> Vec<Vec<u8>> {
    let payloads = payloads(samples);
    Packing { shard_samples: 61, block_samples: 3, zstd, ..Packing::default() }.pack(folder, &payloads);
    payloads
}

fn loader(folder: &Path, options: Options) -> Loader {
    Loader::new(Dataset::open(folder).unwrap(), options).unwrap()
}

/// The samples of each batch of an epoch, and the receipt; payloads are compared on the way.
fn epoch_of(loader: &Loader, from: &State, payloads: &[Vec<u8>]) -> (Vec<Vec<u64>>, Receipt) {
    let mut batches = loader.batches(from).unwrap();
    let mut seen = Vec::new();
    while let Some(batch) = batches.next().unwrap() {
        let encoded = batch.encoded();
        assert_eq!((encoded.offsets.len(), batch.labels().len()), (batch.len() + 1, batch.len()));
        for (at, sample) in batch.samples().iter().enumerate() {
            let (start, end) = (encoded.offsets[at] as usize, encoded.offsets[at + 1] as usize);
            assert_eq!(encoded.bytes[start..end], payloads[*sample as usize], "sample {sample}");
            assert_eq!(batch.labels()[at], (*sample % 2) as i64);
        }
        seen.push(batch.samples().to_vec());
    }
    (seen, batches.receipt().clone())
}

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
                        memory_bytes: 1 << 20,
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
                    // Step by step, the ranks' samples in turn are the order.
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
            memory_bytes: 2 << 20,
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
            // What was made ahead was not handed out: it is in no receipt.
            join(batches.receipt());
            states.push(State::from_json(&batches.state().to_json()).unwrap());
        }
        assert!(states.iter().all(|state| *state == states[0]), "ranks stopped at the same place");
        let mut resumed = None;
        for rank in 0..worlds[1] {
            // Seed and lanes of these options are not those of the state, which decides.
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
    let options = Options { batch: 9, epochs: 3, memory_bytes: 1 << 20, ..Options::default() };
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

#[test]
fn subsets_have_their_samples_and_no_others_and_little_is_read_for_them() {
    for zstd in [None, Some(1)] {
        let folder = tempfile::tempdir().unwrap();
        let payloads = packed(folder.path(), 900, zstd);
        let part = |share| Subset::Part { share, seed: 5 };
        let mut parts = Vec::new();
        for (subset, expected) in [
            (Subset::Range(100..351), Some((100..351).collect::<Vec<u64>>())),
            (Subset::Classes(vec![1]), Some((1..900).step_by(2).collect())),
            (Subset::Samples(vec![899, 3, 4, 500]), Some(vec![3, 4, 500, 899])),
            (part(0.0..0.25), None),
            (part(0.25..1.0), None),
        ] {
            for shuffle in Shuffle::ALL {
                let options = |rank| Options {
                    batch: 8,
                    rank,
                    world: 2,
                    shuffle,
                    subset: subset.clone(),
                    epochs: 1,
                    memory_bytes: 1 << 20,
                    ..Options::default()
                };
                let mut seen = Vec::new();
                let mut all: Option<Receipt> = None;
                for rank in 0..2 {
                    let one = loader(folder.path(), options(rank));
                    let (batches, receipt) = epoch_of(&one, &one.beginning(), &payloads);
                    seen.extend(batches.concat());
                    match &mut all {
                        None => all = Some(receipt),
                        Some(all) => all.join(&receipt).unwrap(),
                    }
                    assert!(
                        Loader::resume(Dataset::open(folder.path()).unwrap(), options(rank), &one.beginning()).is_ok()
                    );
                    // The same run, but of all samples, is another one.
                    let whole = Options { subset: Subset::All, ..options(rank) };
                    let whole = Loader::resume(Dataset::open(folder.path()).unwrap(), whole, &one.beginning()).unwrap();
                    assert!(whole.batches(&one.beginning()).is_err());
                }
                let one = loader(folder.path(), options(0));
                assert!(all.unwrap().is_of(&one.expected(0).unwrap()), "{subset:?}");
                seen.sort_unstable();
                match &expected {
                    Some(expected) => assert_eq!(seen, *expected, "{subset:?}, {shuffle:?}"),
                    None if shuffle == Shuffle::Lanes => parts.push(seen),
                    None => assert!(parts.contains(&seen)),
                }
            }
        }
        assert_eq!(parts[0].len(), 225);
        let mut both = parts.concat();
        both.sort_unstable();
        assert_eq!(both, (0..900).collect::<Vec<_>>());
        let open = || Dataset::open(folder.path()).unwrap();
        for subset in [
            Subset::Range(0..901),
            Subset::Range(5..5),
            Subset::Classes(vec![2]),
            Subset::Classes(vec![]),
            Subset::Samples(vec![1, 1]),
            Subset::Samples(vec![900]),
            part(0.5..1.5),
            part(0.5..0.5),
        ] {
            assert!(
                Loader::new(open(), Options { subset: subset.clone(), ..Options::default() }).is_err(),
                "{subset:?}"
            );
        }
    }
    // Of samples that are far from each other, nothing between is read.
    let folder = tempfile::tempdir().unwrap();
    let large: Vec<_> = (0..40).map(|number| vec![number; 150_000]).collect();
    Packing::default().pack(folder.path(), &large);
    let subset = Subset::Samples(vec![3, 20, 39]);
    let one = loader(folder.path(), Options { subset, batch: 3, epochs: 1, ..Options::default() });
    let mut batches = one.batches(&one.beginning()).unwrap();
    assert_eq!(batches.next().unwrap().unwrap().len(), 3);
    assert!(batches.stats().read_bytes < 3 * 160_000, "{:?}", batches.stats());
}

#[test]
fn mixes_have_exact_counts_in_every_epoch_and_go_on_like_any_run() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let payloads = [packed(a.path(), 300, None), packed(b.path(), 130, Some(1))];
    let open = |folder: &Path| Part::new(Dataset::open(folder).unwrap());
    // All cats of a (even numbers) and every tenth dog.
    let uneven = || Subset::Samples((0..300).filter(|number| number % 2 == 0 || number % 20 == 1).collect());
    let by_weight = || Part::by_weight(vec![(open(a.path()), 1.0), (open(b.path()), 3.0)], 500).unwrap();
    let total = |part: Part, total| Part { times: Times::Total(total), ..part };
    type Parts<'p> = (&'p str, Box<dyn Fn() -> Vec<Part> + 'p>, [u64; 2]);
    let mixes: Vec<Parts<'_>> = vec![
        ("both once", Box::new(|| vec![open(a.path()), open(b.path())]), [300, 130]),
        ("by weight", Box::new(by_weight), [125, 375]),
        ("one of them often", Box::new(|| vec![open(a.path()), total(open(b.path()), 450)]), [300, 450]),
        ("a part of one", Box::new(|| vec![total(open(a.path()), 77)]), [77, 0]),
        (
            "classes",
            Box::new(|| vec![Part { subset: uneven(), times: Times::Classes(0.0), ..open(a.path()) }, open(b.path())]),
            [165, 130],
        ),
    ];
    for (name, parts, counts) in mixes {
        let samples: u64 = counts.iter().sum();
        let options = |rank, world, threads| Options {
            batch: 7,
            rank,
            world,
            threads,
            epochs: 3,
            seed: 2,
            memory_bytes: 1 << 20,
            ..Options::default()
        };
        let mut epochs: Vec<Vec<(usize, u64)>> = Vec::new();
        let run = |threads| {
            let mut all: Vec<Vec<Vec<(usize, u64)>>> = Vec::new();
            let mut receipts: Vec<Receipt> = Vec::new();
            for rank in 0..2 {
                let one = Loader::mix(parts(), options(rank, 2, threads)).unwrap();
                let mut batches = one.batches(&one.beginning()).unwrap();
                for epoch in 0..3 {
                    let mut seen = Vec::new();
                    while let Some(batch) = batches.next().unwrap() {
                        for (at, (source, sample)) in batch.sources().iter().zip(batch.samples()).enumerate() {
                            let range = batch.encoded().offsets[at] as usize..batch.encoded().offsets[at + 1] as usize;
                            assert_eq!(batch.encoded().bytes[range], payloads[*source][*sample as usize]);
                            seen.push((*source, *sample));
                        }
                    }
                    match receipts.get_mut(epoch) {
                        Some(receipt) => receipt.join(batches.receipt()).unwrap(),
                        None => receipts.push(batches.receipt().clone()),
                    }
                    if rank == 1 {
                        assert!(receipts[epoch].is_of(&one.expected(epoch as u64).unwrap()), "{name}, epoch {epoch}");
                    }
                    if all.len() == epoch {
                        all.push(Vec::new());
                    }
                    all[epoch].push(seen);
                }
            }
            all
        };
        let all = run(2);
        assert_eq!(run(7), all, "{name}: another number of threads");
        for ranks in &all {
            let mut seen = ranks.concat();
            seen.sort_unstable();
            for (source, count) in counts.iter().enumerate() {
                assert_eq!(seen.iter().filter(|(of, _)| *of == source).count() as u64, *count, "{name}");
            }
            epochs.push(seen);
        }
        // Each sample as often as any other of its part, give or take one.
        let times = |seen: &[(usize, u64)], sample| seen.iter().filter(|one| **one == sample).count();
        match name {
            "both once" => assert!(epochs[0] == epochs[1] && epochs[0].windows(2).all(|two| two[0] != two[1])),
            "by weight" | "one of them often" | "a part of one" => {
                assert_ne!(epochs[0], epochs[1], "others come once more in each epoch");
                for (source, of) in [(0, 300), (1, 130)] {
                    let all: Vec<_> = (0..of).map(|sample| times(&epochs[0], (source, sample))).collect();
                    assert!(all.iter().max().unwrap() - all.iter().min().unwrap() <= 1, "{name}: {all:?}");
                }
            }
            _ => {
                let dogs = epochs[0].iter().filter(|(source, sample)| *source == 0 && sample % 2 == 1).count();
                assert!((82..=83).contains(&dogs), "{dogs} of 165");
            }
        }
        // Killed in the second epoch, and gone on with one rank for two.
        let one = Loader::mix(parts(), options(0, 2, 1)).unwrap();
        let mut batches = one.batches(&one.beginning()).unwrap();
        while batches.state().epoch < 1 {
            batches.next().unwrap();
        }
        batches.next().unwrap().unwrap();
        let state = State::from_json(&batches.state().to_json()).unwrap();
        let resumed = Loader::resume_mix(parts(), options(0, 1, 3), &state).unwrap();
        let mut batches = resumed.batches(&state).unwrap();
        let mut rest = Vec::new();
        while let Some(batch) = batches.next().unwrap() {
            rest.extend(batch.sources().iter().copied().zip(batch.samples().iter().copied()));
        }
        let order = resumed.epoch(1).unwrap();
        let expected: Vec<_> =
            (14..samples).map(|position| resumed.place(1, order.sample_at(position)).unwrap()).collect();
        assert_eq!(rest, expected, "{name}");
        // Another mix is another run.
        let other = Loader::resume_mix(vec![total(open(a.path()), 78)], options(0, 1, 1), &state).unwrap();
        assert!(other.batches(&state).is_err(), "{name}");
    }
    let none = Options::default();
    assert!(Loader::mix(Vec::new(), none.clone()).is_err());
    assert!(Loader::mix(vec![open(a.path())], Options { subset: Subset::Range(0..5), ..none.clone() }).is_err());
    assert!(Loader::mix(vec![total(open(a.path()), 0)], none.clone()).is_err());
    assert!(Loader::mix(vec![total(open(a.path()), u64::MAX)], none.clone()).is_err());
    for power in [-0.1, 1.1, f64::NAN] {
        assert!(Loader::mix(vec![Part { times: Times::Classes(power), ..open(a.path()) }], none.clone()).is_err());
    }
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Part::by_weight(vec![(open(a.path()), weight)], 10).is_err());
    }
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
        [("\"version\":1", "\"version\":2"), ("\"position\":0", "\"position\":101"), ("lanes\",", "waves\",")]
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
fn options_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 100, None);
    let good = Options::default();
    for (options, said) in [
        (Options { rank: 1, ..good.clone() }, "ranks count from 0"),
        (Options { world: 0, ..good.clone() }, "rank 0 of 0"),
        (Options { batch: 0, ..good.clone() }, "0 samples"),
        (Options { lanes: Some(0), ..good.clone() }, "0 lanes"),
        (Options { memory_bytes: 100, ..good.clone() }, "too few"),
        (Options { components: vec!["cap".to_owned()], ..good.clone() }, "no component \"cap\""),
        (Options { batch: 101, last: Last::Drop, ..good.clone() }, "no batch"),
    ] {
        let error = Loader::new(Dataset::open(folder.path()).unwrap(), options).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    // What the help says of memory is enough, and so are fewer lanes.
    let least = Options { memory_bytes: 100, ..good.clone() };
    let error = Loader::new(Dataset::open(folder.path()).unwrap(), least).unwrap_err();
    let bytes = error.help_text().unwrap().split(' ').find_map(|word| word.parse().ok()).unwrap();
    for options in [
        Options { memory_bytes: bytes, ..good.clone() },
        Options { memory_bytes: bytes / 2, lanes: Some(8), ..good.clone() },
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

/// Damages one sample in one way each; what the policies make of it.
#[test]
fn what_is_not_right_is_an_error_skipped_or_replaced_and_named() {
    for zstd in [None, Some(3)] {
        let folder = tempfile::tempdir().unwrap();
        let payloads = packed(folder.path(), 300, zstd);
        let shard = Dataset::open(folder.path()).unwrap().shard(2).unwrap().path();
        let mut bytes = std::fs::read(&shard).unwrap();
        let at = match zstd {
            None => bytes.windows(38).position(|window| window == payloads[150]).unwrap() + 20,
            Some(_) => bytes.len() / 2,
        };
        bytes[at] ^= 1;
        std::fs::write(&shard, bytes).unwrap();
        let run = |on_bad| {
            let options = Options {
                batch: 10,
                on_bad,
                check_content: true,
                epochs: 1,
                memory_bytes: 1 << 20,
                ..Options::default()
            };
            let one = loader(folder.path(), options);
            let mut batches = one.batches(&one.beginning()).unwrap();
            let (mut samples, mut errors) = (Vec::new(), Vec::new());
            loop {
                match batches.next() {
                    Ok(None) => break,
                    Ok(Some(batch)) => samples.extend_from_slice(batch.samples()),
                    Err(error) => errors.push(error),
                }
            }
            let is_whole = batches.receipt().is_of(&one.expected(0).unwrap());
            (samples, errors, batches.receipt().clone(), is_whole, batches.stats())
        };
        let (samples, errors, receipt, is_whole, _) = run(OnBad::Error);
        assert!(!is_whole && !errors.is_empty() && samples.len() < 300 && receipt.skipped.is_empty());
        let error = &errors[0];
        assert!(error.location().file.is_some() && error.location().sample.is_some(), "{error}");
        let (samples, errors, receipt, is_whole, stats) = run(OnBad::Skip);
        assert!(errors.is_empty() && is_whole);
        let bad: Vec<_> = receipt.skipped.iter().map(|bad| bad.sample).collect();
        assert_eq!((samples.len() + bad.len(), stats.skipped), (300, bad.len() as u64));
        // Uncompressed, one; else those whose frame it is.
        assert!(if zstd.is_none() { bad == [150] } else { (1..=3).contains(&bad.len()) }, "{bad:?}");
        assert!(bad.iter().all(|bad| !samples.contains(bad)));
        assert!(receipt.skipped.iter().all(|bad| bad.by.is_none() && !bad.reason.is_empty()));
        let (samples, errors, receipt, is_whole, stats) = run(OnBad::Replace);
        assert!(errors.is_empty() && is_whole && samples.len() == 300);
        assert_eq!((receipt.replaced.len(), stats.replaced, receipt.skipped.len()), (bad.len(), bad.len() as u64, 0));
        for one in &receipt.replaced {
            let by = one.by.unwrap();
            assert!(bad.contains(&one.sample) && !bad.contains(&by) && by % 2 == one.sample % 2);
            assert!(samples.iter().filter(|sample| **sample == by).count() > 1);
        }
    }
}

#[test]
fn a_shard_that_is_cut_or_gone_in_mid_epoch_costs_its_samples_and_no_others() {
    for is_gone in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        packed(folder.path(), 3000, None);
        // Little memory, so that most is read after the damage.
        let options = Options {
            batch: 4,
            lanes: Some(4),
            on_bad: OnBad::Skip,
            epochs: 1,
            memory_bytes: 60_000,
            read_threads: 1,
            ..Options::default()
        };
        let one = loader(folder.path(), options);
        let mut batches = one.batches(&one.beginning()).unwrap();
        let mut samples = batches.next().unwrap().unwrap().samples().to_vec();
        let shard = one.dataset().shard(20).unwrap();
        if is_gone {
            std::fs::remove_file(shard.path()).unwrap();
        } else {
            std::fs::File::options().write(true).open(shard.path()).unwrap().set_len(2000).unwrap();
        }
        while let Some(batch) = batches.next().unwrap() {
            samples.extend_from_slice(batch.samples());
        }
        let receipt = batches.receipt();
        assert!(receipt.is_of(&one.expected(0).unwrap()));
        assert!(!receipt.skipped.is_empty());
        for bad in &receipt.skipped {
            assert!(shard.samples().contains(&bad.sample), "{bad:?}");
            assert!(bad.reason.contains(&shard.entry().file), "{bad:?}");
        }
        assert_eq!(samples.len() + receipt.skipped.len(), 3000);
    }
}

const PHOTOS: [&[u8]; 4] = [
    include_bytes!("../../../fixtures/photos/animals/cat-ear.jpg"),
    include_bytes!("../../../fixtures/photos/animals/cat-eye.jpg"),
    include_bytes!("../../../fixtures/photos/textures/fur.jpg"),
    include_bytes!("../../../fixtures/photos/textures/lawn.jpg"),
];

fn photos(folder: &Path, copies: usize) {
    let images: Vec<_> = PHOTOS.iter().cycle().take(4 * copies).map(|photo| photo.to_vec()).collect();
    Packing { shard_samples: 9, ..Packing::default() }.pack(folder, &images);
}

fn images(size: u32, dtype: Dtype) -> Output {
    let options =
        training::Options { flip: 0.5, dtype, ..training::Options::new(Cut::random_resized(Size::square(size))) };
    Output::Images(Box::new(Transform::new(options).unwrap()))
}

#[test]
fn pixels_do_not_depend_on_threads_and_differ_from_epoch_to_epoch() {
    let folder = tempfile::tempdir().unwrap();
    photos(folder.path(), 5);
    let run = |threads, seed| {
        let options = Options {
            batch: 8,
            threads,
            seed,
            output: images(32, Dtype::Float32),
            components: vec!["cls".to_owned(), "json".to_owned()],
            epochs: 2,
            ..Options::default()
        };
        let one = loader(folder.path(), options);
        let mut batches = one.batches(&one.beginning()).unwrap();
        // By epoch and sample: what was made of it.
        let mut made = BTreeMap::new();
        for _ in 0..2 {
            while let Some(batch) = batches.next().unwrap() {
                assert_eq!(batch.slots().len(), batch.len() * 3 * 32 * 32 * 4);
                assert_eq!(batch.columns().len(), 2);
                for (sample, slot) in batch.samples().iter().zip(batch.slots().chunks(3 * 32 * 32 * 4)) {
                    made.insert((batch.epoch(), *sample), slot.to_vec());
                }
            }
        }
        assert_eq!(batches.stats().decoded_whole + batches.stats().decoded_region, 40);
        made
    };
    let one = run(1, 3);
    assert_eq!(one.len(), 40);
    for threads in [2, 7] {
        assert_eq!(run(threads, 3), one, "{threads} threads");
    }
    assert_ne!(run(2, 4), one);
    for sample in 0..20 {
        assert_ne!(one[&(0, sample)], one[&(1, sample)], "another crop in another epoch");
        // The same photo, another sample: another crop.
        assert_ne!(one[&(0, sample)], one[&(0, (sample + 4) % 20)]);
    }
}

#[test]
fn what_is_no_image_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut all: Vec<_> = PHOTOS.iter().map(|photo| photo.to_vec()).collect();
    all.push(b"no image".to_vec());
    Packing::default().pack(folder.path(), &all);
    for (on_bad, expected) in [(OnBad::Skip, 4), (OnBad::Replace, 5)] {
        let options = Options { batch: 5, on_bad, output: images(16, Dtype::Uint8), epochs: 1, ..Options::default() };
        let one = loader(folder.path(), options);
        let mut batches = one.batches(&one.beginning()).unwrap();
        let batch = batches.next().unwrap().unwrap();
        assert_eq!((batch.len(), batch.slots().len()), (expected, expected * 3 * 16 * 16));
        // Those that are left stand side by side: none is of zeros.
        assert!(batch.slots().chunks(3 * 16 * 16).all(|slot| slot.iter().any(|level| *level > 0)));
        let receipt = batches.receipt();
        let bad = if on_bad == OnBad::Skip { &receipt.skipped } else { &receipt.replaced };
        assert_eq!((bad.len(), bad[0].sample), (1, 4));
        assert!(bad[0].reason.contains("no image"), "{bad:?}");
    }
}

#[test]
fn a_function_of_the_callers_fills_slots_and_its_panic_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 50, None);
    let own = |panics: bool| {
        Output::Own(Own::new(4, move |sample: &Sample<'_>, _, _, slot: &mut [u8]| -> Result<()> {
            assert!(!(panics && sample.number() == 7), "as it was asked to");
            slot.copy_from_slice(&sample.bytes()[..4]);
            Ok(())
        }))
    };
    for panics in [false, true] {
        let one = loader(folder.path(), Options { batch: 10, output: own(panics), epochs: 1, ..Options::default() });
        let mut batches = one.batches(&one.beginning()).unwrap();
        let (mut seen, mut errors) = (0, 0);
        loop {
            match batches.next() {
                Ok(None) => break,
                Ok(Some(batch)) => {
                    seen += batch.len();
                    for (sample, slot) in batch.samples().iter().zip(batch.slots().chunks(4)) {
                        assert_eq!(*slot, payloads[*sample as usize][..4]);
                    }
                }
                Err(error) => {
                    assert!(error.to_string().contains("panic"), "{error}");
                    errors += 1;
                }
            }
        }
        assert_eq!((seen, errors), if panics { (40, 1) } else { (50, 0) });
    }
}

/// A caller's memory, which tells when it is let go of.
struct Pinned(Box<[u8]>, Arc<AtomicU64>);

impl Drop for Pinned {
    fn drop(&mut self) {
        self.1.fetch_add(1, Relaxed);
    }
}

// SAFETY: the boxed slice is on the heap, belongs to this alone, and is never exchanged.
#[allow(unsafe_code)]
unsafe impl Memory for Pinned {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[test]
fn batches_are_made_in_the_callers_memory() {
    let folder = tempfile::tempdir().unwrap();
    photos(folder.path(), 3);
    let one =
        loader(folder.path(), Options { batch: 4, output: images(8, Dtype::Uint8), epochs: 1, ..Options::default() });
    let dropped = Arc::new(AtomicU64::new(0));
    let memories = |bytes: usize| -> Vec<Box<dyn Memory>> {
        (0..3).map(|_| Box::new(Pinned(vec![0; bytes].into(), Arc::clone(&dropped))) as Box<dyn Memory>).collect()
    };
    let needed = 4 * 3 * 8 * 8;
    let all = memories(needed);
    let mut batches = one.batches_in(&one.beginning(), all).unwrap();
    let kept: Vec<Batch> = std::iter::from_fn(|| batches.next().unwrap()).collect::<Vec<_>>();
    assert_eq!(kept.len(), 3);
    drop(batches);
    assert_eq!(dropped.load(Relaxed), 0, "batches outlive what made them");
    drop(kept);
    assert_eq!(dropped.load(Relaxed), 3);
    assert!(one.batches_in(&one.beginning(), memories(needed - 1)).is_err());
}

/// Bytes of shards from somewhere else: here from memory.
struct InMemory(Vec<Vec<u8>>, AtomicU64);

impl Store for InMemory {
    fn open(&self, _shard: usize) -> Result<()> {
        Ok(())
    }

    fn read(&self, shard: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        self.1.fetch_add(1, Relaxed);
        let part = self.0[shard].get(offset as usize..offset as usize + into.len());
        into.copy_from_slice(part.ok_or_else(|| Error::data("beyond its end"))?);
        Ok(())
    }
}

#[test]
fn shards_come_from_any_store_with_one_read_for_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 500, None);
    let dataset = Dataset::open(folder.path()).unwrap();
    let files: Vec<_> = dataset.shards().map(|shard| shard.path()).collect();
    let store = Arc::new(InMemory(files.iter().map(|path| std::fs::read(path).unwrap()).collect(), AtomicU64::new(0)));
    files.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let options = Options { batch: 6, lanes: Some(6), epochs: 1, memory_bytes: 200_000, ..Options::default() };
    let one = Loader::new(dataset.with_store(Arc::clone(&store) as Arc<dyn Store>), options).unwrap();
    let mut batches = one.batches(&one.beginning()).unwrap();
    let mut samples = 0;
    while let Some(batch) = batches.next().unwrap() {
        samples += batch.len();
    }
    assert_eq!(samples, payloads.len());
    let epoch = one.epoch(0).unwrap();
    let runs: usize = (0..epoch.lanes()).map(|lane| epoch.segments(lane, 0).count()).sum();
    assert_eq!(store.1.load(Relaxed), runs as u64);
    let bytes: u64 = one.dataset().shards().map(|shard| shard.span(0..shard.len()).unwrap().unwrap().end).sum();
    assert_eq!((batches.stats().reads, batches.stats().read_bytes), (runs as u64, bytes), "no byte is read twice");
}

#[test]
fn memory_stays_within_the_budget_and_does_not_grow_with_epochs() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 2000, None);
    let budget = 600_000;
    let options = Options { batch: 8, epochs: 100, memory_bytes: budget, ..Options::default() };
    let one = loader(folder.path(), options);
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
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
    // Other tests open files meanwhile.
    assert!(descriptors() < early + 60, "{early} descriptors became {}", descriptors());
}

#[test]
fn dropping_in_mid_epoch_ends_at_once_and_labels_may_be_absent() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 1000, None);
    let one = loader(folder.path(), Options { batch: 4, ..Options::default() });
    for taken in 0..6 {
        let mut batches = one.batches(&one.beginning()).unwrap();
        let kept: Vec<_> = (0..taken).map(|_| batches.next().unwrap().unwrap()).collect();
        drop(batches);
        assert!(kept.iter().all(|batch| batch.labels().iter().all(|label| *label != NO_LABEL)));
        let mut samples = one.samples(&one.beginning()).unwrap();
        for _ in 0..taken {
            assert!(samples.next().unwrap().unwrap().sample().unwrap().key().len() == 8);
        }
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

/// The child of a fork gets an error from what the parent began, and can begin its own.
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
    // SAFETY: the closure runs in the child of a fork. It allocates and starts threads, which glibc allows there; that is what
    // is tested.
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
