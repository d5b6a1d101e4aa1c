//! Content of batches, and the memory that holds it.

use super::*;

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
        // Slots by epoch and sample.
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

/// Memory of the caller, which counts its drops.
struct Pinned(Box<[u8]>, Arc<AtomicU64>);

impl Drop for Pinned {
    fn drop(&mut self) {
        self.1.fetch_add(1, Relaxed);
    }
}

// SAFETY: the boxed slice is on the heap, has no other owner, and is never exchanged.
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

/// Two memories of the caller, and a function that refuses some samples: the remaining slots move together.
#[test]
fn what_is_left_of_a_batch_stands_together_in_the_callers_memory() {
    let folder = tempfile::tempdir().unwrap();
    let payloads = packed(folder.path(), 90, None);
    let own = Own::new(4, |sample: &Sample<'_>, _, _, slot: &mut [u8]| -> Result<()> {
        if sample.number() % 4 == 1 {
            return Err(Error::data("not wanted"));
        }
        slot.copy_from_slice(&sample.bytes()[..4]);
        Ok(())
    });
    let options = Options { batch: 7, output: Output::Own(own), on_bad: OnBad::Skip, epochs: 1, ..Options::default() };
    let one = loader(folder.path(), options);
    let dropped = Arc::new(AtomicU64::new(0));
    let memories = (0..2).map(|_| Box::new(Pinned(vec![0; 28].into(), Arc::clone(&dropped))) as Box<dyn Memory>);
    let mut batches = one.batches_in(&one.beginning(), memories.collect()).unwrap();
    let mut seen = 0;
    while let Some(batch) = batches.next().unwrap() {
        seen += batch.len();
        assert_eq!(batch.slots().len(), batch.len() * 4);
        for (sample, slot) in batch.samples().iter().zip(batch.slots().chunks(4)) {
            assert_eq!(*slot, payloads[*sample as usize][..4]);
        }
    }
    let skipped: Vec<_> = batches.receipt().skipped.iter().map(|bad| bad.sample % 4).collect();
    assert_eq!((seen + skipped.len(), skipped), (90, vec![1; 23]));
    // Both memories are kept, and a third is needed: an error, and no endless wait.
    let memories = (0..2).map(|_| Box::new(Pinned(vec![0; 28].into(), Arc::clone(&dropped))) as Box<dyn Memory>);
    let mut batches = one.batches_in(&one.beginning(), memories.collect()).unwrap();
    let _kept = (batches.next().unwrap(), batches.next().unwrap());
    assert!(batches.next().unwrap_err().to_string().contains("all 2 memories"));
    // Later calls fail too, and do not end the epoch.
    for _ in 0..2 {
        assert!(batches.next().unwrap_err().to_string().contains("ended the batches"));
    }
}
