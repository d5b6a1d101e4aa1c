//! Bad samples fail, are skipped or are replaced, and are named.

use super::*;

/// Damages a shard at one byte, and checks every policy.
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
                memory_bytes: Some(1 << 20),
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
        // One sample if uncompressed, else the samples of the damaged frame.
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
        // Little memory, so that most samples are read after the damage.
        let options = Options {
            batch: 4,
            lanes: Some(4),
            on_bad: OnBad::Skip,
            epochs: 1,
            memory_bytes: Some(60_000),
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

#[test]
fn what_is_no_image_or_takes_too_much_memory_is_named() {
    let large = b"P6 12000 12000 255\n".as_slice();
    for (payload, why) in [(b"no image".as_slice(), "no image"), (large, "the memory of the loader")] {
        named(payload, why);
    }
}

fn named(payload: &[u8], why: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut all: Vec<_> = PHOTOS.iter().map(|photo| photo.to_vec()).collect();
    all.push(payload.to_vec());
    Packing::default().pack(folder.path(), &all);
    for (on_bad, expected) in [(OnBad::Skip, 4), (OnBad::Replace, 5)] {
        let (output, threads) = (images(16, Dtype::Uint8), 2);
        let options = Options { batch: 5, on_bad, output, threads, epochs: 1, ..Options::default() };
        let one = loader(folder.path(), options);
        let mut batches = one.batches(&one.beginning()).unwrap();
        let batch = batches.next().unwrap().unwrap();
        assert_eq!((batch.len(), batch.slots().len()), (expected, expected * 3 * 16 * 16));
        // The remaining slots are contiguous: no slot is all zeros.
        assert!(batch.slots().chunks(3 * 16 * 16).all(|slot| slot.iter().any(|level| *level > 0)));
        let receipt = batches.receipt();
        let bad = if on_bad == OnBad::Skip { &receipt.skipped } else { &receipt.replaced };
        assert_eq!((bad.len(), bad[0].sample), (1, 4));
        assert!(bad[0].reason.contains(why), "{bad:?}");
    }
}

/// A mix of a plain dataset without one shard, and a compressed dataset without one index.
#[test]
fn a_mix_accounts_for_what_is_gone_from_each_of_its_datasets() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    packed(a.path(), 300, None);
    packed(b.path(), 200, Some(1));
    let gone = [Dataset::open(a.path()).unwrap(), Dataset::open(b.path()).unwrap()];
    std::fs::remove_file(gone[0].shard(1).unwrap().path()).unwrap();
    std::fs::remove_file(gone[1].shard(2).unwrap().index_path()).unwrap();
    for on_bad in [OnBad::Skip, OnBad::Replace] {
        let part = |folder: &Path| MixPart::new(Dataset::open(folder).unwrap());
        let parts = vec![part(a.path()), MixPart { times: Times::Total(300), ..part(b.path()) }];
        let options = Options { batch: 9, on_bad, epochs: 1, check_content: true, ..Options::default() };
        let one = Loader::mix(parts, options).unwrap();
        let mut batches = one.batches(&one.beginning()).unwrap();
        let mut seen = 0;
        while let Some(batch) = batches.next().unwrap() {
            seen += batch.len();
            for (source, sample) in batch.sources().iter().zip(batch.samples()) {
                let shard = gone[*source].shard_of(*sample).unwrap().number();
                assert!((*source, shard) != (0, 1) && (*source, shard) != (1, 2));
            }
        }
        let receipt = batches.receipt();
        assert!(receipt.is_of(&one.expected(0).unwrap()));
        assert_eq!(seen + receipt.skipped.len(), 600, "{on_bad:?}");
        let of = |text: &str, bad: &[Bad]| bad.iter().filter(|bad| bad.reason.contains(text)).count();
        // Without the index, the class of a sample is unknown: both policies skip the sample.
        assert!(of(".index", &receipt.skipped) > 60);
        match on_bad {
            OnBad::Replace => assert_eq!((receipt.replaced.len(), of(".tar", &receipt.replaced)), (61, 61)),
            _ => assert_eq!((receipt.replaced.len(), of("000001.tar", &receipt.skipped)), (0, 61)),
        }
    }
}

#[test]
fn a_storage_that_goes_away_is_an_error_and_no_verdict_on_samples() {
    let folder = tempfile::tempdir().unwrap();
    packed(folder.path(), 500, None);
    for (on_bad, threads) in [(OnBad::Skip, 1), (OnBad::Replace, 4)] {
        let dataset = Dataset::open(folder.path()).unwrap();
        let reads_left = AtomicU64::new(20);
        // Like a server that goes away.
        let storage = Faulty::new(Arc::new(storage::Memory::copy_of(folder.path()).unwrap()), move |call, _| {
            let is_left = || reads_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
            match call == Call::ReadAt && !is_left() {
                true => Err(Error::io("cannot read", std::io::Error::other("gone"))),
                false => Ok(()),
            }
        });
        let options = Options {
            batch: 8,
            lanes: Some(8),
            on_bad,
            threads,
            epochs: 1,
            memory_bytes: Some(100_000),
            ..Options::default()
        };
        let one = Loader::new(dataset.with_storage(Arc::new(storage)), options).unwrap();
        let mut batches = one.batches(&one.beginning()).unwrap();
        let (mut seen, mut errors) = (0, Vec::new());
        loop {
            match batches.next() {
                Ok(None) => break,
                Ok(Some(batch)) => seen += batch.len(),
                Err(error) => errors.push(error),
            }
        }
        assert!(seen > 0 && seen < 500 && !errors.is_empty(), "{seen}");
        assert!(errors.iter().all(|error| error.kind() == shardpack_loader::ErrorKind::System), "{errors:?}");
        let receipt = batches.receipt();
        assert!(receipt.skipped.is_empty() && receipt.replaced.is_empty() && receipt.samples == seen as u64);
        assert!(!receipt.is_of(&one.expected(0).unwrap()), "an epoch with errors is not whole");
    }
}
