//! Implements the orders of other loaders, each by the algorithm of its own source and with its own settings.
//!
//! Each comment names project, version and file. Algorithms are theirs; the code is written anew. If a loader has worker processes,
//! PyTorch's `DataLoader` takes batches from the workers in turns, and each batch comes from one worker.

use super::order::{Order, Ranks, Setting, interleaved, shards};
use crate::{Result, random::Random};

/// Bytes of a shard for writers without a default.
pub const SHARD_BYTES: u64 = 256 << 20;

/// All orders of this module.
pub fn all(setting: &Setting) -> Vec<Order> {
    vec![
        webdataset(1_000, setting),
        webdataset(5_000, setting),
        timm(setting),
        hugging_face(1_000, setting),
        hugging_face(10_000, setting),
        dali(1_024),
        litdata(),
        ffcv(setting),
        mosaicml(1 << 18),
        mosaicml(4_000_000),
    ]
}

fn order(name: String, held_samples: Option<u64>, epoch: impl Fn(&Setting, u64, u64) -> Ranks + 'static) -> Order {
    let epoch = move |setting: &Setting, seed, number| -> Result<Ranks> { Ok(epoch(setting, seed, number)) };
    Order { name, held_samples, is_ours: false, epoch: Box::new(epoch) }
}

/// Samples that `of` returns for each worker of each rank, in the order of the rank's `DataLoader`.
fn by_workers(setting: &Setting, mut of: impl FnMut(usize, usize) -> Vec<u32>) -> Ranks {
    let of_rank = |rank| {
        let workers: Vec<_> = (0..setting.workers).map(|worker| of(rank, worker)).collect();
        let batches: Vec<Vec<_>> = workers.iter().map(|samples| samples.chunks(setting.batch).collect()).collect();
        let turns = batches.iter().map(Vec::len).max().unwrap_or(0);
        (0..turns)
            .flat_map(|turn| batches.iter().filter_map(move |own| own.get(turn)))
            .map(|batch| batch.to_vec())
            .collect()
    };
    (0..setting.ranks).map(of_rank).collect()
}

/// webdataset 1.0.2, `filters.py`, `_shuffle`: a buffer that takes two samples a step until it is full. From
/// `initial` samples on, it yields one a step.
pub fn through_buffer<T>(
    mut data: impl Iterator<Item = T>,
    bufsize: usize,
    initial: usize,
    random: &mut Random,
) -> Vec<T> {
    let (mut buffer, mut out) = (Vec::new(), Vec::new());
    let initial = initial.min(bufsize);
    while let Some(sample) = data.next() {
        buffer.push(sample);
        if buffer.len() < bufsize {
            buffer.extend(data.next());
        }
        if buffer.len() >= initial {
            out.push(buffer.swap_remove(random.below(buffer.len())));
        }
    }
    while !buffer.is_empty() {
        out.push(buffer.swap_remove(random.below(buffer.len())));
    }
    out
}

/// webdataset 1.0.2, `compat.py`, `WebDataset(shardshuffle=100).shuffle(bufsize)`: shards are divided among ranks and workers first.
/// Their order uses the seed of the run, so it is the same in every epoch; `initial` is 100.
pub fn webdataset_buffer(
    setting: &Setting,
    shard_bytes: u64,
    bufsize: usize,
    initial: usize,
    seed: u64,
    epoch: u64,
) -> Ranks {
    let all = shards(setting, shard_bytes);
    by_workers(setting, |rank, worker| {
        let own = all.iter().skip(rank).step_by(setting.ranks).skip(worker).step_by(setting.workers);
        let own = through_buffer(own, 100, 100, &mut Random::from_seeds(&[seed]));
        let random = &mut Random::from_seeds(&[seed, epoch, rank as u64, worker as u64]);
        through_buffer(own.into_iter().flat_map(Clone::clone), bufsize, initial, random)
    })
}

fn webdataset(bufsize: usize, setting: &Setting) -> Order {
    let held = bufsize * setting.workers;
    order(format!("webdataset, shuffle({bufsize})"), Some(held as u64), move |setting, seed, epoch| {
        webdataset_buffer(setting, SHARD_BYTES, bufsize, 100, seed, epoch)
    })
}

/// timm (main, `data/readers/reader_wds.py`): shards through a buffer of 500 by seed and epoch, every n-th to a worker; samples
/// through a buffer of 8,192, from 2,048 on. Each worker stops at its rounded-up share of all samples, and restarts if it ends before.
fn timm(setting: &Setting) -> Order {
    const SAMPLES: usize = 8_192;
    order("timm, wds".to_owned(), Some((SAMPLES * setting.workers) as u64), |setting, seed, epoch| {
        let all =
            through_buffer(shards(setting, SHARD_BYTES).into_iter(), 500, 100, &mut Random::from_seeds(&[seed, epoch]));
        let workers = setting.ranks * setting.workers;
        let share = (setting.samples as usize).div_ceil(workers).next_multiple_of(setting.batch);
        by_workers(setting, |rank, worker| {
            let number = rank * setting.workers + worker;
            let random = &mut Random::from_seeds(&[seed, epoch, number as u64]);
            let own = || all.iter().skip(number).step_by(workers).flat_map(Clone::clone);
            let mut out = Vec::new();
            while out.len() < share && own().next().is_some() {
                out.extend(through_buffer(own(), SAMPLES, 2_048, random));
            }
            out.truncate(share);
            out
        })
    })
}

/// Hugging Face datasets 5.2.0, `iterable_dataset.py`: shards in an order of the epoch, every n-th to a rank and a worker. A full
/// buffer is shuffled and yields half of its samples.
fn hugging_face(buffer_size: usize, setting: &Setting) -> Order {
    let held = buffer_size * setting.workers;
    order(format!("Hugging Face, buffer_size={buffer_size}"), Some(held as u64), move |setting, seed, epoch| {
        let mut all = shards(setting, SHARD_BYTES);
        Random::from_seeds(&[seed, epoch]).shuffle(&mut all);
        by_workers(setting, |rank, worker| {
            let random = &mut Random::from_seeds(&[seed, epoch, rank as u64, worker as u64]);
            let own = all.iter().skip(rank).step_by(setting.ranks).skip(worker).step_by(setting.workers);
            let (mut buffer, mut out) = (Vec::new(), Vec::new());
            for sample in own.flat_map(Clone::clone) {
                buffer.push(sample);
                if buffer.len() >= buffer_size {
                    random.shuffle(&mut buffer);
                    out.extend(buffer.drain(buffer_size / 2..));
                }
            }
            random.shuffle(&mut buffer);
            out.extend(buffer);
            out
        })
    })
}

/// NVIDIA DALI (main, `operators/reader/loader/loader.h`), `random_shuffle=True`: a rank reads its part in stored order, another part in
/// each epoch, and picks one of the last `initial_fill` samples read.
fn dali(initial_fill: usize) -> Order {
    order(format!("DALI, initial_fill={initial_fill}"), Some(initial_fill as u64), move |setting, seed, epoch| {
        let of_rank = |rank: usize| {
            let part = (rank as u64 + epoch) % setting.ranks as u64;
            let bound = |part: u64| (u64::from(setting.samples) * part / setting.ranks as u64) as u32;
            let random = &mut Random::from_seeds(&[seed, epoch, rank as u64]);
            let mut data = bound(part)..bound(part + 1);
            let mut buffer: Vec<u32> = data.by_ref().take(initial_fill).collect();
            let mut out = Vec::new();
            while !buffer.is_empty() {
                let at = random.below(buffer.len());
                match data.next() {
                    Some(next) => out.push(std::mem::replace(&mut buffer[at], next)),
                    None => out.push(buffer.swap_remove(at)),
                }
            }
            out.chunks(setting.batch).map(<[u32]>::to_vec).collect()
        };
        (0..setting.ranks).map(of_rank).collect()
    })
}

/// LitData (main, `streaming/shuffle.py`, `FullShuffle`), several ranks on one node: chunks of 64 MB in an order of the epoch,
/// concatenated and cut into equal parts of whole batches for the workers; the samples of a chunk in an order of the epoch.
fn litdata() -> Order {
    order("LitData, shuffle=True".to_owned(), None, |setting, seed, epoch| {
        let mut chunks = shards(setting, 64_000_000);
        Random::from_seeds(&[seed, epoch]).shuffle(&mut chunks);
        let workers = setting.ranks * setting.workers;
        let share = setting.samples as usize / workers / setting.batch * setting.batch;
        let mut pieces = chunks.into_iter();
        let mut left = 0..0;
        by_workers(setting, |rank, worker| {
            let (number, mut own) = (rank * setting.workers + worker, Vec::new());
            while own.len() < share {
                left = if left.is_empty() { pieces.next().unwrap_or_default() } else { left.clone() };
                if left.is_empty() {
                    break;
                }
                let end = left.end.min(left.start.saturating_add((share - own.len()) as u32));
                let mut piece: Vec<u32> = (left.start..end).collect();
                Random::from_seeds(&[seed, epoch, number as u64, u64::from(left.start)]).shuffle(&mut piece);
                own.extend(piece);
                left.start = end;
            }
            own
        })
    })
}

/// FFCV (main, `traversal_order/quasi_random.py`): pages of 8 MiB in an order of the epoch, twice as many open as a batch has samples.
/// Each sample is the next, in the page's random order, of a random open page; ranks get consecutive pieces of the whole.
fn ffcv(setting: &Setting) -> Order {
    const PAGE_BYTES: u64 = 8 << 20;
    let open = 2 * setting.batch;
    let held = open as u64 * u64::from(setting.samples_of(PAGE_BYTES));
    order("FFCV, quasi-random".to_owned(), Some(held), move |setting, seed, epoch| {
        let random = &mut Random::from_seeds(&[seed, epoch]);
        let mut pages: Vec<Vec<u32>> = shards(setting, PAGE_BYTES).into_iter().map(Iterator::collect).collect();
        pages.iter_mut().for_each(|page| random.shuffle(page));
        random.shuffle(&mut pages);
        let (mut next, mut current, mut all) = (pages.into_iter(), Vec::new(), Vec::new());
        loop {
            while current.len() < open {
                let Some(page) = next.next() else { break };
                current.push(page);
            }
            if current.is_empty() {
                break;
            }
            let at = random.below(current.len());
            all.extend(current[at].pop());
            if current[at].is_empty() {
                current.swap_remove(at);
            }
        }
        let (each, more) = (all.len() / setting.ranks, all.len() % setting.ranks);
        let of_rank = |rank: usize| {
            let start = rank * each + rank.min(more);
            let end = start + each + usize::from(rank < more);
            // The last rank repeats some samples of the rank before it.
            let start = if more > 0 && rank == setting.ranks - 1 { start.saturating_sub(more) } else { start };
            all[start..end].chunks(setting.batch).map(<[u32]>::to_vec).collect()
        };
        (0..setting.ranks).map(of_rank).collect()
    })
}

/// MosaicML streaming 0.13.0 (`base/shuffle/py1e.py`, `base/partition/orig.py`), one node, shards of 64 MiB: shards in an order of the
/// epoch, their samples shuffled, each moved by up to half of a block drawn for its shard; ranks take turns.
fn mosaicml(block_samples: u64) -> Order {
    order(format!("MosaicML, py1e, block {block_samples}"), None, move |setting, seed, epoch| {
        let mut spans = shards(setting, 64 << 20);
        Random::from_seeds(&[seed]).shuffle(&mut spans);
        let random = &mut Random::from_seeds(&[seed, epoch]);
        random.shuffle(&mut spans);
        let (total, mut offset) = (f64::from(setting.samples), 0.0);
        let mut places: Vec<(f64, u32)> = Vec::new();
        for span in spans {
            let size = f64::from(span.end - span.start);
            let mut samples: Vec<u32> = span.collect();
            random.shuffle(&mut samples);
            let block = block_samples as f64 * (0.75 + 0.5 * random.unit());
            let cutoff = ((block - size) / 2.0).max(0.0);
            let (low, high) = ((-cutoff).max(-offset), cutoff.min(total - offset - size));
            let place = |(at, sample)| (offset + at as f64 + low + (high - low) * random.unit(), sample);
            places.extend(samples.into_iter().enumerate().map(place));
            offset += size;
        }
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut all: Vec<u32> = places.into_iter().map(|(_, sample)| sample).collect();
        // Ranks get equally many samples: some samples before the last repeat.
        let lacking = (setting.ranks - all.len() % setting.ranks) % setting.ranks;
        let end = (all.len() + 1).saturating_sub(setting.ranks);
        all.extend_from_within(end.saturating_sub(lacking)..end);
        interleaved(&all, setting)
    })
}
