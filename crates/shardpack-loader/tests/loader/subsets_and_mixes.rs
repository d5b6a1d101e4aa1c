//! Orders of subsets, of several datasets, and of repeated samples.

use shardpack_loader::order::{self, Epoch, Identities};

use super::*;

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
                    memory_bytes: Some(1 << 20),
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
                    // The same options with all samples are another run.
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
    // The bytes between distant samples are not read.
    let folder = tempfile::tempdir().unwrap();
    let large: Vec<_> = (0..40).map(|number| vec![number; 150_000]).collect();
    Packing::default().pack(folder.path(), &large);
    let subset = Subset::Samples(vec![3, 20, 39]);
    let one = loader(folder.path(), Options { subset, batch: 3, epochs: 1, ..Options::default() });
    let mut batches = one.batches(&one.beginning()).unwrap();
    assert_eq!(batches.next().unwrap().unwrap().len(), 3);
    assert!(batches.stats().read_bytes < 3 * 160_000, "{:?}", batches.stats());
}

/// Options of a rank that reads a mix.
fn options(rank: u64, world: u64, threads: usize) -> Options {
    let memory_bytes = Some(1 << 20);
    Options { batch: 7, rank, world, threads, epochs: 3, seed: 2, memory_bytes, ..Options::default() }
}

#[test]
fn mixes_have_exact_counts_in_every_epoch_and_go_on_like_any_run() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let payloads = [packed(a.path(), 300, None), packed(b.path(), 130, Some(1))];
    let open = |folder: &Path| MixPart::new(Dataset::open(folder).unwrap());
    // All cats of a (even numbers) and every tenth dog.
    let uneven = || Subset::Samples((0..300).filter(|number| number % 2 == 0 || number % 20 == 1).collect());
    let by_weight = || MixPart::by_weight(vec![(open(a.path()), 1.0), (open(b.path()), 3.0)], 500).unwrap();
    let total = |part: MixPart, total| MixPart { times: Times::Total(total), ..part };
    type Parts<'p> = (&'p str, Box<dyn Fn() -> Vec<MixPart> + 'p>, [u64; 2]);
    let mixes: Vec<Parts<'_>> = vec![
        ("both once", Box::new(|| vec![open(a.path()), open(b.path())]), [300, 130]),
        ("by weight", Box::new(by_weight), [125, 375]),
        ("one of them often", Box::new(|| vec![open(a.path()), total(open(b.path()), 450)]), [300, 450]),
        ("a part of one", Box::new(|| vec![total(open(a.path()), 77)]), [77, 0]),
        (
            "classes",
            Box::new(|| {
                vec![MixPart { subset: uneven(), times: Times::Classes(0.0), ..open(a.path()) }, open(b.path())]
            }),
            [165, 130],
        ),
    ];
    for (name, parts, counts) in mixes {
        let samples: u64 = counts.iter().sum();
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
                            assert_eq!(batch.payloads()[at][..], payloads[*source][*sample as usize]);
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
        // Within a part, the counts of two samples differ by at most one.
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
        // Stopped in the second epoch, and resumed with one rank instead of two.
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
}

#[test]
fn invalid_mixes_are_refused() {
    let a = tempfile::tempdir().unwrap();
    packed(a.path(), 300, None);
    let open = |folder: &Path| MixPart::new(Dataset::open(folder).unwrap());
    let total = |part: MixPart, total| MixPart { times: Times::Total(total), ..part };
    let none = Options::default();
    assert!(Loader::mix(Vec::new(), none.clone()).is_err());
    assert!(Loader::mix(vec![open(a.path())], Options { subset: Subset::Range(0..5), ..none.clone() }).is_err());
    assert!(Loader::mix(vec![total(open(a.path()), 0)], none.clone()).is_err());
    assert!(Loader::mix(vec![total(open(a.path()), u64::MAX)], none.clone()).is_err());
    for power in [-0.1, 1.1, f64::NAN] {
        assert!(Loader::mix(vec![MixPart { times: Times::Classes(power), ..open(a.path()) }], none.clone()).is_err());
    }
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(MixPart::by_weight(vec![(open(a.path()), weight)], 10).is_err());
    }
}

/// The lines of a block in docs/reference/order.md.
fn lines(name: &str) -> Vec<(&'static str, &'static str)> {
    let page = include_str!("../../../../docs/reference/order.md");
    let block = page.split_once(&format!("```{name}\n")).unwrap().1.split_once("```").unwrap().0;
    let lines: Vec<_> = block.lines().map(|line| line.split_once(": ").unwrap()).collect();
    assert!(lines.len() >= 4, "{name}");
    lines
}

fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
    text.split_whitespace().map(|number| number.parse().ok().unwrap()).collect()
}

/// The dataset of a line: samples of its shards, and `block_samples`.
fn dataset(folder: &Path, shards: &[u64], block_samples: usize) -> Dataset {
    let images: Vec<Vec<Vec<u8>>> = shards.iter().map(|samples| vec![vec![1]; *samples as usize]).collect();
    let packing = Packing { block_samples, ..Packing::default() };
    packing.pack_shards(folder, &images.iter().map(Vec::as_slice).collect::<Vec<_>>());
    Dataset::open(folder).unwrap()
}

fn subset(text: &str) -> Subset {
    let (which, bounds) = text.split_once(' ').unwrap_or((text, ""));
    match which {
        "all" => Subset::All,
        "range" => Subset::Range(numbers(bounds)[0]..numbers(bounds)[1]),
        "list" => Subset::Samples(numbers(bounds)),
        "part" => {
            let bounds: Vec<&str> = bounds.split(' ').collect();
            Subset::Part { share: numbers(bounds[0])[0]..numbers(bounds[1])[0], seed: numbers(bounds[2])[0] }
        }
        _ => panic!("{text}"),
    }
}

#[test]
fn parts_and_totals_are_those_of_the_page() {
    for (line, samples) in lines("parts") {
        let folder = tempfile::tempdir().unwrap();
        let (samples_of, part) = line.split_once(' ').unwrap();
        let dataset = dataset(folder.path(), &numbers(samples_of), 3);
        let one = Loader::new(dataset, Options { subset: subset(&format!("part {part}")), ..Options::default() });
        let one = one.unwrap();
        let len = one.epoch(0).unwrap().len();
        let found: Vec<u64> = (0..len).map(|index| one.place(0, index).unwrap().1).collect();
        assert_eq!(found, numbers::<u64>(samples), "{line}");
    }
    for (line, parts) in lines("totals") {
        let (total, weights) = line.split_once(' ').unwrap();
        assert_eq!(order::divide(total.parse().unwrap(), &numbers::<f64>(weights)), numbers::<u64>(parts), "{line}");
    }
}

#[test]
fn mixes_are_those_of_the_page_in_both_directions() {
    for (line, expected) in lines("mixes") {
        let (parts, options) = line.split_once("; ").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let parts = parts.split(" + ").enumerate().map(|(number, part)| {
            let [shards, block, which, times] = part.split(", ").collect::<Vec<_>>()[..] else { panic!("{line}") };
            let folder = folder.path().join(number.to_string());
            let times = match times.split_once(' ').unwrap_or((times, "")) {
                ("once", _) => Times::Once,
                ("total", total) => Times::Total(total.parse().unwrap()),
                ("classes", power) => Times::Classes(power.parse().unwrap()),
                _ => panic!("{line}"),
            };
            MixPart {
                dataset: dataset(&folder, &numbers(shards), block.parse().unwrap()),
                subset: subset(which),
                times,
            }
        });
        let (shuffle, options) = options.split_once(' ').unwrap();
        let [lanes, run_blocks, seed, epoch] = numbers::<u64>(options)[..] else { panic!("{line}") };
        let one = Loader::mix(parts.collect(), Options { seed, batch: 1, ..Options::default() }).unwrap();
        let options =
            order::Options { shuffle: Shuffle::parse(shuffle).unwrap(), seed, lanes, run_blocks, rotated: true };
        let order = Epoch::new(one.epoch(epoch).unwrap().layout(), &options, epoch).unwrap();
        let last = order.len() - 1;
        let place = |position| {
            let (part, sample) = one.place(epoch, order.sample_at(position)).unwrap();
            format!("{part}.{sample}")
        };
        let found: Vec<_> = (0..8.min(last)).chain([last]).map(place).collect();
        assert_eq!(found.join(" "), expected, "{line}");
        for position in 0..order.len() {
            assert_eq!(order.position_of(order.sample_at(position)), position, "{line}");
        }
    }
}

#[test]
fn identities_and_keys_of_random_choices_are_those_of_the_page() {
    for (line, expected) in lines("keys") {
        let (dataset, rest) = line.split_once("; ").unwrap();
        let bytes = std::array::from_fn(|at| u8::from_str_radix(&dataset[2 * at..2 * at + 2], 16).unwrap());
        let [sample, seed, epoch] = numbers::<u64>(rest)[..] else { panic!("{line}") };
        let identities = Identities::new(&bytes);
        let found = format!("{:032x} {}", identities.get(sample), identities.random_key(sample, seed, epoch));
        assert_eq!(found, expected, "{line}");
    }
}
