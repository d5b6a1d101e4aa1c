//! What is read, by whom and in which order: a dataset, the options of the order, and a rank's share of it.

use std::sync::Arc;

use shardpack_format::{Error, Result};
use shardpack_reader::Dataset;

use crate::order::{Epoch, Identities, Last, Layout, Options, RankLanes, Selection, Share, Shuffle};

/// Longest run in bytes: beyond it, one read is as fast as two.
const MOST_RUN_BYTES: u64 = 8 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub dataset: Arc<Dataset>,
    /// The samples that the order is of, whose numbers among them are those of the layout.
    pub selection: Selection,
    /// The sum of their identities, where they are not all.
    pub subset: Option<String>,
    pub layout: Layout,
    pub order: Options,
    pub identities: Identities,
    pub rank: u64,
    pub world: u64,
    pub batch: u64,
    pub last: Last,
    /// Whether each payload is compared with its content hash.
    pub check_content: bool,
}

impl Plan {
    /// The order of epoch `epoch`, and this rank's lanes in it from position `start` on.
    pub fn lanes(&self, epoch: u64, start: u64) -> Result<RankLanes> {
        let epoch = Arc::new(Epoch::new(&self.layout, &self.order, epoch)?);
        let share = Share::new(epoch.len(), start, (self.rank, self.world), self.batch, self.last)?;
        Ok(RankLanes::new(epoch, share))
    }
}

/// The layout of the selected samples of a dataset.
pub(crate) fn layout(dataset: &Dataset, selection: &Selection) -> Result<Layout> {
    let shards = dataset.shards().map(|shard| selection.within(shard.samples()));
    Layout::new(shards, dataset.manifest().block_samples.max(1))
}

/// The blocks of a run, so that two runs of each of a rank's lanes take `memory_bytes`.
///
/// # Errors
/// When one block for each lane and one more take more than that.
pub(crate) fn run_blocks(
    dataset: &Dataset,
    shuffle: Shuffle,
    lanes: u64,
    world: u64,
    memory_bytes: u64,
) -> Result<u64> {
    let manifest = dataset.manifest();
    let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
    let block_bytes =
        (u128::from(bytes) * u128::from(manifest.block_samples) / u128::from(dataset.len().max(1))).max(1);
    let block_bytes = u64::try_from(block_bytes).unwrap_or(u64::MAX);
    // In stored order there is one lane, and several runs of it are read at a time.
    let of_rank = if shuffle == Shuffle::Lanes { lanes.div_ceil(world.max(1)).max(1) } else { 8 };
    // No more than all of it is ever in memory.
    let least = (of_rank + 1).saturating_mul(block_bytes).min(bytes);
    if shuffle == Shuffle::Lanes && least > memory_bytes {
        let what = format!(
            "{memory_bytes} bytes of memory are too few for {of_rank} lanes of a rank with runs of {block_bytes} bytes"
        );
        let help = format!("give it {least} bytes or more, or fewer lanes, which mixes less well");
        return Err(Error::usage(what).help(help));
    }
    Ok((memory_bytes / (2 * of_rank)).min(MOST_RUN_BYTES).checked_div(block_bytes).unwrap_or(1).max(1))
}
