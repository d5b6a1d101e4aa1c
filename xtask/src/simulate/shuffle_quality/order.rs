//! Describes an order of delivery: batches of ranks, epoch by epoch, of samples by their position in the stored order.
//!
//! An order is a function of setting, seed and epoch. All orders use the same random generator, so only their algorithms differ.

use shardpack_loader::order::{Epoch, Last, Layout, Options, Share, Shuffle};

use crate::{Result, random::Random};

/// Dataset and ranks of a training.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Number of samples.
    pub samples: u32,
    /// Number of classes, about equally large.
    pub classes: u32,
    /// Number of ranks, all on one node.
    pub ranks: usize,
    /// Loader processes of a rank, for loaders with worker processes.
    pub workers: usize,
    /// Samples in a batch of one rank.
    pub batch: usize,
    /// Mean length of a sample in bytes.
    pub sample_bytes: u64,
}

impl Setting {
    /// Samples in `bytes`, at least 1.
    pub fn samples_of(&self, bytes: u64) -> u32 {
        u32::try_from((bytes + self.sample_bytes / 2) / self.sample_bytes).unwrap_or(u32::MAX).clamp(1, self.samples)
    }
}

/// The batches of each rank in one epoch.
pub type Ranks = Vec<Vec<Vec<u32>>>;

/// A named order of delivery.
pub struct Order {
    /// Name in the table.
    pub name: String,
    /// Samples that a rank buffers in memory; `None` if the order needs no buffer.
    pub held_samples: Option<u64>,
    /// Whether this is an order of shardpack.
    pub is_ours: bool,
    /// Computes an epoch from setting, seed and number of the epoch.
    pub epoch: Box<dyn Fn(&Setting, u64, u64) -> Result<Ranks>>,
}

/// Batches of ranks: of W ranks, rank r takes every W-th of `samples`, starting at sample r.
pub fn interleaved(samples: &[u32], setting: &Setting) -> Ranks {
    let of_rank = |rank| {
        let own: Vec<u32> = samples.iter().skip(rank).step_by(setting.ranks).copied().collect();
        own.chunks(setting.batch).map(<[u32]>::to_vec).collect()
    };
    (0..setting.ranks).map(of_rank).collect()
}

/// A new uniform shuffle of all samples in each epoch.
pub fn reshuffled() -> Order {
    let epoch = |setting: &Setting, seed, epoch| {
        let mut all: Vec<u32> = (0..setting.samples).collect();
        Random::from_seeds(&[seed, epoch]).shuffle(&mut all);
        Ok(interleaved(&all, setting))
    };
    Order { name: "true reshuffle".to_owned(), held_samples: None, is_ours: false, epoch: Box::new(epoch) }
}

/// shardpack's lanes, as many as its loader uses for this setting, with runs of `run_samples` and shards of `shard_bytes`.
pub fn lanes(setting: &Setting, run_samples: u64, shard_bytes: u64) -> Order {
    let lanes = Options::lanes_for(setting.ranks as u64, setting.batch as u64);
    Order {
        name: format!("shardpack, lanes, runs of {run_samples}"),
        held_samples: Some(lanes / setting.ranks as u64 * 2 * run_samples),
        is_ours: true,
        epoch: Box::new(move |setting, seed, epoch| {
            let options =
                Options { shuffle: Shuffle::Lanes, seed, lanes, run_blocks: run_samples, ..Options::default() };
            ours(setting, &options, shard_bytes, epoch)
        }),
    }
}

/// The order in which the samples are stored.
pub fn stored() -> Order {
    let epoch = |setting: &Setting, seed, epoch| {
        let options = Options { shuffle: Shuffle::None, seed, lanes: 1, run_blocks: 1, ..Options::default() };
        ours(setting, &options, u64::from(u32::MAX), epoch)
    };
    Order { name: "no shuffle".to_owned(), held_samples: None, is_ours: false, epoch: Box::new(epoch) }
}

fn ours(setting: &Setting, options: &Options, shard_bytes: u64, epoch: u64) -> Result<Ranks> {
    let said = |error: shardpack_loader::Error| error.to_string();
    let shards = shards(setting, shard_bytes).into_iter().map(|shard| u64::from(shard.end - shard.start));
    // Blocks of one sample, so that runs are counted in samples.
    let layout = Layout::new(shards, 1).map_err(said)?;
    let epoch = Epoch::new(&layout, options, epoch).map_err(said)?;
    let of_rank = |rank| {
        let (world, batch) = (setting.ranks as u64, setting.batch as u64);
        let share = Share::new(epoch.len(), 0, (rank, world), batch, Last::Short).map_err(said)?;
        let all: Vec<u32> = (0..share.len()).map(|number| epoch.sample_at(share.position(number)) as u32).collect();
        Ok(all.chunks(setting.batch).map(<[u32]>::to_vec).collect())
    };
    (0..setting.ranks as u64).map(of_rank).collect()
}

/// Shards of `bytes`; the last shard holds the rest.
pub fn shards(setting: &Setting, bytes: u64) -> Vec<std::ops::Range<u32>> {
    let each = setting.samples_of(bytes);
    let starts = (0..setting.samples).step_by(each as usize);
    starts.map(|start| start..start.saturating_add(each).min(setting.samples)).collect()
}
