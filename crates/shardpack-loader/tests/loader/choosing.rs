//! Conditions, and subsets of several conditions.

use shardpack_loader::Condition;

use super::*;

fn condition(text: &str) -> Subset {
    Subset::Where(Condition::parse(text).unwrap())
}

fn chosen(folder: &Path, subset: Subset) -> Result<Vec<u64>> {
    let one = Loader::new(Dataset::open(folder)?, Options { subset, epochs: 1, ..Options::default() })?;
    Ok(one.selection(0).unwrap().numbers().collect())
}

/// Bytes of the payload of a sample.
fn bytes(number: u64) -> u64 {
    4 + number * 37 % 197
}

#[test]
fn a_condition_selects_the_samples_for_which_it_is_true() {
    for zstd in [None, Some(1)] {
        let folder = tempfile::tempdir().unwrap();
        let payloads = packed(folder.path(), 900, zstd);
        type Naive = fn(u64) -> bool;
        let rows: [(&str, Naive); 10] = [
            ("bytes >= 100", |n| bytes(n) >= 100),
            ("bytes > 50 and class = 'dogs'", |n| bytes(n) > 50 && n % 2 == 1),
            ("label in (0, 7) or bytes < 9", |n| n % 2 == 0 || bytes(n) < 9),
            ("key < '00000100'", |n| n < 100),
            ("path in ('cats/4.jpg', 'dogs/4.jpg', 'dogs/5.jpg')", |n| n == 4 || n == 5),
            ("width is missing and not height > 0", |_| false),
            ("width is missing and (height > 0 or not bytes < 150)", |n| bytes(n) >= 150),
            ("json.label = 1 and bytes < 60", |n| n % 2 == 1 && bytes(n) < 60),
            ("json.path != 'dogs/3.jpg'", |n| n != 3),
            ("json.none is missing and `json.label` is not missing and label = 0", |n| n % 2 == 0),
        ];
        for (text, naive) in rows {
            let expected: Vec<u64> = (0..900).filter(|number| naive(*number)).collect();
            match chosen(folder.path(), condition(text)) {
                Ok(found) => assert_eq!(found, expected, "{text}"),
                Err(error) => {
                    assert!(expected.is_empty() && error.to_string().contains("no samples"), "{text}: {error}")
                }
            }
        }
        // An epoch of all ranks has the samples, once each, and a loader of the same part takes them over.
        let subset = condition("bytes >= 100");
        let mut seen = Vec::new();
        for rank in 0..2 {
            let options = Options { rank, world: 2, subset: subset.clone(), epochs: 1, ..Options::default() };
            let one = loader(folder.path(), options.clone());
            seen.extend(epoch_of(&one, &one.beginning(), &payloads).0.concat());
            let selected = Subset::Selected(one.selection(0).unwrap().clone());
            let again = loader(folder.path(), Options { subset: selected, ..options });
            assert_eq!(again.beginning(), one.beginning());
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..900).filter(|number| bytes(*number) >= 100).collect::<Vec<_>>());
    }
}

#[test]
fn several_conditions_select_what_all_of_them_select() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 900, None);
    let chosen = |subset| chosen(folder.path(), subset).unwrap();
    let part = |share| Subset::Part { share, seed: 5 };
    let conditions = [condition("bytes < 150"), Subset::Classes(vec![1]), part(0.0..0.8), Subset::Range(100..700)];
    let each: Vec<Vec<u64>> = conditions.iter().map(|one| chosen(one.clone())).collect();
    let all: Vec<u64> = (0..900).filter(|number| each.iter().all(|one| one.contains(number))).collect();
    assert!(all.len() > 50);
    assert_eq!(chosen(Subset::Each(conditions.to_vec())), all);
    assert_eq!(chosen(Subset::Each(conditions.iter().rev().cloned().collect())), all);
    assert_eq!(chosen(Subset::Each(vec![])).len(), 900);
    // Parts with one seed stay disjoint, whatever else is chosen.
    let of = |share, label| chosen(Subset::Each(vec![part(share), Subset::Classes(vec![label])]));
    let (train, test) = (of(0.0..0.8, 1), of(0.8..1.0, 1));
    assert_eq!(train.len() + test.len(), 450);
    assert!(train.iter().all(|number| !test.contains(number)));
    let few = Subset::Samples(vec![4, 5, 800]);
    assert_eq!(chosen(Subset::Each(vec![few.clone(), Subset::Range(5..900)])), [5, 800]);
    let options = Options { subset: Subset::Each(vec![few, Subset::Range(10..20)]), ..Options::default() };
    let error = Loader::new(Dataset::open(folder.path()).unwrap(), options).unwrap_err();
    assert!(error.to_string().contains("no samples"), "{error}");
}

#[test]
fn a_condition_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 300, None);
    for (text, said) in [
        ("aesthetic > 5", "no column \"aesthetic\"; there are width, height"),
        ("`width` > 5", "no column \"width\""),
        ("bytes > 'a'", "\"a\" is text, and bytes is a number"),
        ("class = 1", "class is text, and 1 is a number"),
        ("class > width", "class is text, and width is a number"),
        ("jpg = 'x'", "jpg is a file"),
        ("json = 1", "lists or members"),
        ("json.path = 1", "\"cats/0.jpg\" is no number"),
        ("bytes > 10000", "no samples"),
    ] {
        let error = chosen(folder.path(), condition(text)).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn chosen_classes_are_numbered_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 90, None);
    let subset = Subset::Each(vec![Subset::Range(0..50), Subset::Classes(vec![1, 0, 1])]);
    let options = Options { subset, renumber: true, epochs: 1, ..Options::default() };
    let one = loader(folder.path(), options.clone());
    assert_eq!(one.classes(), ["dogs", "cats"]);
    let mut batches = one.batches(&one.beginning()).unwrap();
    let mut samples = 0;
    while let Some(batch) = batches.next().unwrap() {
        samples += batch.len();
        let labels = batch.samples().iter().map(|number| 1 - (*number % 2) as i64);
        assert_eq!(batch.labels(), labels.collect::<Vec<_>>());
    }
    assert_eq!(samples, 50);
    let one = loader(folder.path(), Options { subset: Subset::Classes(vec![1]), ..options.clone() });
    assert_eq!(one.classes(), ["dogs"]);
    let whole = Options { subset: Subset::Range(0..50), ..options };
    assert!(Loader::new(Dataset::open(folder.path()).unwrap(), whole).is_err());
}

#[test]
fn weights_change_with_the_epoch() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    packed(a.path(), 300, None);
    packed(b.path(), 90, None);
    let part = |folder: &Path| MixPart::new(Dataset::open(folder).unwrap());
    let parts = |of_b: Vec<(u64, f64)>| {
        MixPart::by_weights(vec![(part(a.path()), vec![(0, 1.0)]), (part(b.path()), of_b)], 200)
    };
    let schedule = vec![(0, 0.0), (1, 1.0), (3, 3.0)];
    let options = Options { batch: 9, epochs: 5, seed: 2, ..Options::default() };
    let one = Loader::mix(parts(schedule.clone()).unwrap(), options.clone()).unwrap();
    let mut batches = one.batches(&one.beginning()).unwrap();
    let (mut state, mut seen) = (None, Vec::new());
    for epoch in 0..5 {
        let mut of_b: BTreeMap<u64, u64> = BTreeMap::new();
        let mut samples = Vec::new();
        while let Some(batch) = batches.next().unwrap() {
            let all = batch.sources().iter().copied().zip(batch.samples().iter().copied());
            samples.extend(all.clone());
            all.filter(|(source, _)| *source == 1).for_each(|(_, number)| *of_b.entry(number).or_default() += 1);
            if epoch == 3 && batch.number() == 2 {
                state = Some(batch.state().clone());
            }
        }
        let total: u64 = of_b.values().sum();
        assert_eq!((samples.len(), total), (200, [0, 100, 100, 150, 150][epoch as usize]), "epoch {epoch}");
        assert!(of_b.values().all(|times| (total / 90..=total / 90 + 1).contains(times)));
        assert!(batches.receipt().is_of(&one.expected(epoch).unwrap()));
        seen.push(samples);
    }
    // A run resumes with the same weights only.
    let state = state.unwrap();
    let again = Loader::resume_mix(parts(schedule).unwrap(), options.clone(), &state).unwrap();
    let mut batches = again.batches(&state).unwrap();
    let mut rest = Vec::new();
    while let Some(batch) = batches.next().unwrap() {
        rest.extend(batch.sources().iter().copied().zip(batch.samples().iter().copied()));
    }
    assert_eq!(rest, seen[3][27..]);
    let other =
        Loader::resume_mix(parts(vec![(0, 0.0), (1, 1.0), (4, 3.0)]).unwrap(), options.clone(), &state).unwrap();
    assert!(other.batches(&state).is_err());
    for wrong in
        [vec![], vec![(1, 1.0)], vec![(0, 1.0), (0, 2.0)], vec![(0, 0.0)], vec![(0, -1.0)], vec![(0, f64::NAN)]]
    {
        assert!(parts(wrong.clone()).is_err(), "{wrong:?}");
    }
    let uneven = MixPart { times: Times::Totals(vec![(0, 10), (2, 11)]), ..part(a.path()) };
    let error = Loader::mix(vec![uneven], options).unwrap_err();
    assert!(error.to_string().contains("epoch 2 has 11"), "{error}");
}
