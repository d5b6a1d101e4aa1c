//! Batches by length: each sample once, the same for any number of threads and after any interruption, with little padding.

use super::*;

fn by_bytes(batch: u64, batches: u64) -> Options {
    let bucket = Bucket { batches: Some(batches), ..Bucket::by("bytes") };
    Options { batch, bucket: Some(bucket), seed: 9, epochs: 1, ..Options::default() }
}

/// Items that padding adds, through the items of all samples.
fn padding(batches: &[Vec<u64>], payloads: &[Vec<u8>]) -> f64 {
    let len = |sample: &u64| payloads[*sample as usize].len() as f64;
    let of = |batch: &Vec<u64>| {
        let most = batch.iter().map(len).fold(0.0, f64::max);
        batch.iter().map(|sample| most - len(sample)).sum::<f64>()
    };
    batches.iter().map(of).sum::<f64>() / batches.iter().flatten().map(len).sum::<f64>()
}

#[test]
fn ranks_get_each_sample_once_in_batches_of_similar_length() {
    for zstd in [None, Some(3)] {
        let folder = tempfile::tempdir().unwrap();
        let payloads = packed(folder.path(), 1000, zstd);
        for shuffle in Shuffle::ALL {
            for last in Last::ALL {
                for (world, batch) in [(1, 7), (2, 16), (3, 50), (5, 1)] {
                    let options = |rank, threads| Options { rank, world, threads, shuffle, last, ..by_bytes(batch, 6) };
                    let place = format!("{shuffle:?}, {last:?}, {world} ranks of {batch}");
                    let mut all: Option<Receipt> = None;
                    let mut lens = Vec::new();
                    for rank in 0..world {
                        let one = loader(folder.path(), options(rank, 2));
                        let (seen, receipt) = epoch_of(&one, &one.beginning(), &payloads);
                        assert_eq!(seen.len() as u64, one.batches_of_epoch().unwrap(), "{place}");
                        if rank == 0 {
                            for threads in [1, 4] {
                                let other = loader(folder.path(), options(rank, threads));
                                assert_eq!(epoch_of(&other, &other.beginning(), &payloads).0, seen, "{place}");
                            }
                            let plain = loader(folder.path(), Options { bucket: None, ..options(rank, 2) });
                            let (plain, _) = epoch_of(&plain, &plain.beginning(), &payloads);
                            let [is, was] = [&seen, &plain].map(|batches| padding(batches, &payloads));
                            assert!(batch == 1 || is < was / 2.0, "{place}: {is:.3} and {was:.3}");
                        }
                        lens.push(seen.iter().map(Vec::len).collect::<Vec<_>>());
                        match &mut all {
                            None => all = Some(receipt),
                            Some(all) => all.join(&receipt).unwrap(),
                        }
                    }
                    assert!(lens.iter().all(|of_rank| of_rank.len() == lens[0].len()), "{place}");
                    let one = loader(folder.path(), options(0, 1));
                    assert!(all.unwrap().is_of(&one.expected(0).unwrap()), "{place}");
                    // The samples of an epoch are those without the option, also those that are dropped.
                    let plain = loader(folder.path(), Options { bucket: None, ..options(0, 1) });
                    assert_eq!(one.expected(0).unwrap(), plain.expected(0).unwrap(), "{place}");
                }
            }
        }
    }
}

/// At each step, the batches of all ranks are of similar length.
#[test]
fn ranks_have_similar_lengths_at_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 3000, None);
    let of_rank = |rank| {
        let one = loader(folder.path(), Options { rank, world: 2, ..by_bytes(16, 32) });
        let (seen, _) = epoch_of(&one, &one.beginning(), &payloads);
        let mean = |batch: &Vec<u64>| {
            batch.iter().map(|sample| payloads[*sample as usize].len()).sum::<usize>() as f64 / batch.len() as f64
        };
        seen.iter().map(mean).collect::<Vec<_>>()
    };
    let (one, two) = (of_rank(0), of_rank(1));
    let whole = one.len() - 1;
    assert!(one[..whole].iter().zip(&two).all(|(one, two)| (one - two).abs() < 25.0), "{one:?} {two:?}");
    // In random order, not ascending.
    assert!(one.windows(2).filter(|two| two[0] > two[1]).count() > whole / 3);
}

#[test]
fn a_run_resumes_at_each_batch_and_with_other_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 400, Some(1));
    let options = Options { epochs: 2, ..by_bytes(9, 8) };
    let one = loader(folder.path(), options.clone());
    let mut batches = one.batches(&one.beginning()).unwrap();
    let (mut undisturbed, mut states, mut receipts) = (Vec::new(), vec![one.beginning()], Vec::new());
    while batches.state().epoch < 2 {
        receipts.push(batches.receipt().clone());
        undisturbed.push(batches.next().unwrap().map(|batch| batch.samples().to_vec()));
        states.push(State::from_json(&batches.state().to_json()).unwrap());
    }
    for (at, state) in states.iter().enumerate().take(undisturbed.len()) {
        let resumed = Loader::resume(Dataset::open(folder.path()).unwrap(), options.clone(), state).unwrap();
        let mut batches = resumed.batches(state).unwrap();
        for expected in &undisturbed[at..] {
            assert_eq!(batches.next().unwrap().map(|batch| batch.samples().to_vec()), *expected, "from {state:?}");
        }
    }
    for (world, batch, at) in [(2, 9, 3), (3, 3, 13), (5, 4, 20), (7, 1, 44)] {
        let (state, mut all) = (&states[at], receipts[at].clone());
        let mut seen: Vec<u64> = undisturbed[..at].iter().flatten().flatten().copied().collect();
        let mut one = None;
        for rank in 0..world {
            let options = Options { rank, world, batch, epochs: 1, ..options.clone() };
            let resumed = Loader::resume(Dataset::open(folder.path()).unwrap(), options, state).unwrap();
            let (rest, receipt) = epoch_of(&resumed, state, &payloads);
            all.join(&receipt).unwrap();
            seen.extend(rest.concat());
            one = Some(resumed);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 400, "{world} ranks");
        assert!(all.is_of(&one.unwrap().expected(0).unwrap()), "{world} ranks");
    }
}

/// Of at most `tokens` bytes with padding.
fn by_tokens(batch: u64, batches: u64, tokens: u64) -> Options {
    let bucket = Bucket { batches: Some(batches), tokens: Some(tokens), ..Bucket::by("bytes") };
    Options { bucket: Some(bucket), ..by_bytes(batch, batches) }
}

#[test]
fn batches_by_tokens_are_within_the_limit_and_resume() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 1000, None);
    for (shuffle, last) in Shuffle::ALL.into_iter().flat_map(|one| Last::ALL.map(|last| (one, last))) {
        for (world, batch, tokens) in [(1, 40, 1500), (3, 16, 700), (2, 9, 100), (4, 50, 1 << 40)] {
            let options =
                |rank, threads| Options { rank, world, threads, shuffle, last, ..by_tokens(batch, 5, tokens) };
            let place = format!("{shuffle:?}, {last:?}, {world} ranks of {batch}");
            let (mut all, mut lens): (Option<Receipt>, _) = (None, Vec::new());
            for rank in 0..world {
                let one = loader(folder.path(), options(rank, 2));
                let (seen, receipt) = epoch_of(&one, &one.beginning(), &payloads);
                assert_eq!(seen.len() as u64, one.batches_of_epoch().unwrap(), "{place}");
                for batch in &seen {
                    let longest = batch.iter().map(|sample| payloads[*sample as usize].len()).max().unwrap();
                    assert!(batch.len() == 1 || (longest * batch.len()) as u64 <= tokens, "{place}");
                }
                if rank == 0 {
                    let other = loader(folder.path(), options(rank, 5));
                    assert_eq!(epoch_of(&other, &other.beginning(), &payloads).0, seen, "{place}");
                }
                lens.push(seen.iter().map(Vec::len).collect::<Vec<_>>());
                match &mut all {
                    None => all = Some(receipt),
                    Some(all) => all.join(&receipt).unwrap(),
                }
            }
            assert!(lens.iter().all(|of_rank| *of_rank == lens[0]), "{place}");
            let one = loader(folder.path(), options(0, 1));
            assert!(all.unwrap().is_of(&one.expected(0).unwrap()), "{place}");
        }
    }
}

#[test]
fn a_run_by_tokens_resumes_at_each_batch_of_its_ranks_only() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 301, None);
    let open = || Dataset::open(folder.path()).unwrap();
    let options = Options { world: 2, epochs: 3, ..by_tokens(20, 6, 900) };
    let one = loader(folder.path(), options.clone());
    let mut batches = one.batches(&one.beginning()).unwrap();
    let (mut undisturbed, mut states) = (Vec::new(), vec![one.beginning()]);
    while batches.state().epoch < 3 {
        undisturbed.push(batches.next().unwrap().map(|batch| batch.samples().to_vec()));
        states.push(State::from_json(&batches.state().to_json()).unwrap());
    }
    let mut ends = undisturbed.iter().zip(1..).filter(|(batch, _)| batch.is_none());
    let counts: Vec<u64> = (0..3).map(|epoch| one.batches_of(epoch).unwrap()).collect();
    let mut before = 0;
    assert!(counts.iter().all(|count| {
        let end = ends.next().unwrap().1;
        let is = end - before - 1 == *count;
        before = end;
        is
    }));
    for (at, state) in states.iter().enumerate().take(undisturbed.len()) {
        let resumed = Loader::resume(open(), options.clone(), state).unwrap();
        let left = undisturbed[at..].iter().take_while(|batch| batch.is_some()).count() as u64;
        assert_eq!(resumed.batches_left(state).unwrap(), left, "{state:?}");
        let mut batches = resumed.batches(state).unwrap();
        for expected in &undisturbed[at..] {
            assert_eq!(batches.next().unwrap().map(|batch| batch.samples().to_vec()), *expected, "from {state:?}");
        }
    }
    let state = &states[7];
    for (other, said) in [
        (Options { world: 1, ..options.clone() }, "the state is of 2 ranks with batch_size=20, and the loader has 1"),
        (Options { batch: 10, ..options.clone() }, "batch_size=20, and the loader has 2 ranks and 10"),
        (Options { world: 2, ..by_tokens(20, 6, 901) }, "batch_tokens of the state: 900, and of the loader: 901"),
        (Options { world: 2, ..by_bytes(20, 6) }, "batch_tokens of the state: 900, and of the loader: none"),
    ] {
        let error = Loader::resume(open(), other, state).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let within = state.to_json().replace(&format!("\"position\":{}", state.position), "\"position\":3");
    let error = one.batches(&State::from_json(&within).unwrap()).unwrap_err().to_string();
    assert!(error.contains("within a batch"), "{error}");
    for (by, tokens, said) in [("bytes", 0, "batch_tokens=0"), ("aspect", 5, "batch_tokens is a limit for lengths")] {
        let bucket = Bucket { tokens: Some(tokens), ..Bucket::by(by) };
        let error = Loader::new(open(), Options { bucket: Some(bucket), ..Options::default() }).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn states_and_options_that_differ_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 300, None);
    let open = || Dataset::open(folder.path()).unwrap();
    let (with, without) = (by_bytes(8, 4), Options { bucket: None, ..by_bytes(8, 4) });
    let [of_with, of_without] = [&with, &without].map(|options| loader(folder.path(), options.clone()).beginning());
    for (options, state) in [
        (&with, &of_without),
        (&without, &of_with),
        (&Options { bucket: Some(Bucket::by("label")), ..with.clone() }, &of_with),
    ] {
        let error = Loader::resume(open(), options.clone(), state).unwrap_err().to_string();
        assert!(error.contains("the state is of a run with"), "{error}");
        let error = loader(folder.path(), options.clone()).batches(state).unwrap_err().to_string();
        assert!(error.contains("another order"), "{error}");
    }
    // The windows are those of the state.
    let any = Options { bucket: Some(Bucket::by("bytes")), ..with.clone() };
    assert_eq!(Loader::resume(open(), any, &of_with).unwrap().beginning(), of_with);
    let error = Loader::resume(open(), by_bytes(8, 9), &of_with).unwrap_err().to_string();
    assert!(error.contains("bucket_batches of the state: 4, and of the loader: 9"), "{error}");
    for (bucket, said) in [
        (Bucket::by("nothing"), "bucket_by: no column \"nothing\""),
        (Bucket::by("key"), "bucket_by: key is text"),
        (Bucket::by("aspect"), "bucket_by: no sample has \"aspect\""),
        (Bucket { batches: Some(1), ..Bucket::by("bytes") }, "bucket_batches=1"),
        (Bucket { batches: Some(u64::MAX), ..Bucket::by("bytes") }, "windows of"),
    ] {
        let error = Loader::new(open(), Options { bucket: Some(bucket), ..Options::default() }).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn memory_is_within_its_limit_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let payloads: Vec<Vec<u8>> = (0..2000_u32).map(|n| vec![n as u8; 2000 + (n * 37 % 4000) as usize]).collect();
    Packing { shard_samples: 250, block_samples: 4, ..Packing::default() }.pack(folder.path(), &payloads);
    for (shuffle, world) in [(Shuffle::Lanes, 1), (Shuffle::Lanes, 2), (Shuffle::Full, 1), (Shuffle::None, 1)] {
        let options = |memory_bytes| Options {
            memory_bytes: Some(memory_bytes),
            shuffle,
            world,
            output: Output::Own(Own::new(0, |_, _, _, _| Ok(()))),
            ..by_bytes(8, 16)
        };
        let open = || Dataset::open(folder.path()).unwrap();
        let error = Loader::new(open(), options(1 << 16)).unwrap_err();
        let help = error.help_text().unwrap().to_owned();
        let least: u64 = help.split(' ').find_map(|word| word.parse().ok()).unwrap();
        assert!(Loader::new(open(), options(least - 1)).is_err(), "{help}");
        let one = Loader::new(open(), options(least)).unwrap();
        let mut batches = one.batches(&one.beginning()).unwrap();
        while batches.next().unwrap().is_some() {}
        let peak = batches.stats().peak_run_bytes;
        assert!(peak <= least, "{shuffle:?}, {world} ranks: {peak} of {least} bytes");
    }
    // A run of one rank that has all lanes of two, and runs of a larger memory.
    let options = |world, memory_bytes| Options { world, memory_bytes, ..by_bytes(8, 16) };
    let state = loader(folder.path(), options(2, Some(64 << 20))).beginning();
    let resumed =
        |memory_bytes| Loader::resume(Dataset::open(folder.path()).unwrap(), options(1, Some(memory_bytes)), &state);
    let help = resumed(1 << 20).unwrap_err().help_text().unwrap().to_owned();
    let least: u64 = help.split(' ').find_map(|word| word.parse().ok()).unwrap();
    let mut batches = resumed(least).unwrap().batches(&state).unwrap();
    while batches.next().unwrap().is_some() {}
    assert!(batches.stats().peak_run_bytes <= least);
    // Windows without an option are as large as the memory allows.
    let usual = |memory_bytes| Options { bucket: Some(Bucket::by("bytes")), memory_bytes, ..by_bytes(8, 2) };
    let batches = |memory_bytes| loader(folder.path(), usual(memory_bytes)).beginning().to_json();
    assert!(batches(None).contains("\"batches\":64"));
    assert!(batches(Some(3 << 20)).contains("\"batches\":16"), "{}", batches(Some(3 << 20)));
}

#[test]
fn parts_of_a_mix_and_subsets_have_lengths_of_their_own() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    packed(folders[0].path(), 300, None);
    packed(folders[1].path(), 500, Some(3));
    let part = |number: usize, subset, times| {
        let folder: &tempfile::TempDir = &folders[number];
        MixPart { dataset: Dataset::open(folder.path()).unwrap(), subset, times }
    };
    let parts = || {
        vec![
            part(0, Subset::Range(20..260), Times::Total(700)),
            part(1, Subset::Samples((0..500).step_by(3).collect()), Times::Classes(0.5)),
        ]
    };
    let one = Loader::mix(parts(), by_bytes(10, 12)).unwrap();
    let (mut counts, mut batches) = (BTreeMap::new(), one.batches(&one.beginning()).unwrap());
    let (mut spread, mut whole) = (0, 0);
    while let Some(batch) = batches.next().unwrap() {
        let lens: Vec<usize> = batch.payloads().iter().map(|payload| payload.len()).collect();
        spread += lens.iter().max().unwrap() - lens.iter().min().unwrap();
        whole += 1;
        for (source, sample) in batch.sources().iter().zip(batch.samples()) {
            *counts.entry((*source, *sample)).or_insert(0) += 1;
        }
    }
    assert!(batches.receipt().is_of(&one.expected(0).unwrap()));
    let of_first = counts.iter().filter(|((source, _), _)| *source == 0);
    assert!(of_first.clone().count() == 240 && of_first.map(|(_, times)| times).sum::<i32>() == 700);
    assert!(spread / whole < 60, "{spread} in {whole} batches");
    let bucket = Bucket { lengths: one.lengths().into_iter().rev().collect(), ..Bucket::by("bytes") };
    let error = Loader::mix(parts(), Options { bucket: Some(bucket), ..by_bytes(10, 12) }).unwrap_err();
    assert!(error.to_string().contains("lengths of another dataset"), "{error}");
    // The lengths of a loader are those of another one with the same parts.
    let bucket = Bucket { lengths: one.lengths(), ..Bucket::by("bytes") };
    let options = Options { bucket: Some(Bucket { batches: Some(12), ..bucket }), ..by_bytes(10, 12) };
    assert_eq!(Loader::mix(parts(), options).unwrap().beginning(), one.beginning());
}
