//! A plan of reading: datasets, the options of the order, and the share of a rank.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use shardpack_format::{Error, Result, formats::declared_types, manifest::Blake3, permutation::mix};
use shardpack_reader::{Dataset, Shard};

use crate::{
    bucket::Bucketing,
    columns::Wanted,
    condition::Lengths,
    mix::Quotas,
    order::{
        BucketReads, Bucketed, Buckets, Epoch, Identities, Last, Layout, Options, RankBatches, RankLanes, Selection,
        Share, Shuffle, Sum, of_all, of_groups, part_key,
    },
    roles::{self, CutKind, Role},
};

/// Longest run in bytes: beyond this, one read is not faster than two.
const MAX_RUN_BYTES: u64 = 8 << 20;

/// A dataset of a plan.
#[derive(Debug)]
pub(crate) struct PlanSource {
    pub dataset: Dataset,
    pub selection: Selection,
    pub quotas: Quotas,
    pub identities: Identities,
    /// For each extra component, its number in this dataset.
    pub columns: Vec<usize>,
    /// The labels of the chosen classes in this dataset, in the order of their new labels, if labels are renumbered.
    pub chosen: Option<Vec<i64>>,
    /// For each class, its label in the merged list of all datasets; `None` if the labels are unchanged.
    pub labels: Option<Box<[i64]>>,
    /// The lengths of its samples, if batches are by length.
    pub lengths: Option<Lengths>,
}

impl PlanSource {
    /// The label in a batch for a sample with the label `own` in this dataset.
    pub fn label(&self, own: Option<i64>) -> Option<i64> {
        let (Some(labels), Some(own)) = (&self.labels, own) else { return own };
        usize::try_from(own).ok().and_then(|own| labels.get(own)).copied()
    }
}

/// The `components` of all these datasets, with the types that all declare and their roles: all of them for the first view, then
/// those with a role for each further view.
///
/// # Errors
/// If a manifest declares an invalid type; as [`roles::resolve`].
pub(crate) fn wanted(
    sources: &[PlanSource],
    components: &[String],
    given: &BTreeMap<String, Option<Role>>,
    kind: CutKind,
    views: usize,
) -> Result<Vec<Wanted>> {
    let declared = sources.iter().map(|source| declared_types(&source.dataset.manifest().format.settings));
    let mut declared = declared.collect::<Result<Vec<_>>>()?;
    let types = components.iter().map(|name| {
        let types = declared.iter_mut().map(|types| types.remove(name));
        types.reduce(|one, other| one?.join(other?)).flatten()
    });
    let types: Vec<_> = types.collect();
    let roles = roles::resolve(given, components, &types, kind)?;
    let wanted = components.iter().zip(types).zip(roles).enumerate().map(|(component, ((name, declared), role))| {
        let declared = match role {
            Some(role) => role.moved_type(declared, kind == CutKind::Known),
            None => declared,
        };
        Wanted { name: name.clone(), component, view: 0, declared, role }
    });
    let first: Vec<_> = wanted.collect();
    let follows: Vec<_> = first.iter().filter(|wanted| wanted.role.is_some()).cloned().collect();
    let others = (1..views).flat_map(|view| follows.iter().cloned().map(move |wanted| Wanted { view, ..wanted }));
    Ok(first.into_iter().chain(others).collect())
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub sources: Arc<[PlanSource]>,
    /// Fingerprint of the samples and their counts; `None` if the plan has every sample of one dataset once.
    pub subset: Option<String>,
    pub order: Options,
    /// Batches by length; then all sources have lengths.
    pub bucketing: Option<Bucketing>,
    pub rank: u64,
    pub world: u64,
    pub batch: u64,
    pub last: Last,
    /// Whether to compare each payload with its content hash.
    pub check_content: bool,
    /// The latest content, with its epoch; the epoch is `None` if all epochs have the same content.
    latest: Arc<Mutex<Option<Latest>>>,
    /// A test holds this lock to block the creation of contents.
    #[cfg(test)]
    pub gate: Arc<Mutex<()>>,
}

/// See [`Plan::latest`].
type Latest = (Option<u64>, Arc<Content>);

/// The samples of an epoch: the copies of each dataset, one after the other. Orders number them from 0.
#[derive(Debug)]
pub(crate) struct Content {
    pub layout: Layout,
    copies: Box<[Copy]>,
    /// For each shard of the layout: its copy, and its number in the dataset.
    shards: Box<[(u32, u32)]>,
}

#[derive(Debug)]
pub(crate) struct Copy {
    /// Number of the dataset in the plan.
    pub source: usize,
    pub selection: Selection,
    /// Number of the first sample in the content.
    pub start: u64,
}

impl Copy {
    /// The number in the dataset of sample `index` of the content. The sample must be in this copy.
    pub fn number(&self, index: u64) -> u64 {
        self.selection.number(index - self.start)
    }
}

impl Content {
    fn new(plan: &Plan, epoch: u64) -> Result<Self> {
        let (mut copies, mut shards, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let mut start = 0_u64;
        for (number, source) in plan.sources.iter().enumerate() {
            let samples = source.dataset.len();
            let key = part_key(plan.order.seed, epoch, number as u64);
            let selections = match &source.quotas {
                Quotas::Groups(groups) => of_groups(groups, samples, key)?,
                quotas => quotas.of_all(epoch).map_or_else(Vec::new, |quota| {
                    of_all(&source.selection, quota, source.dataset.manifest().block_samples, key)
                }),
            };
            for selection in selections {
                for shard in source.dataset.shards() {
                    counts.push(selection.within(shard.samples()));
                    // Both counts are bounded by data in memory: the entries of manifests, and the copies.
                    shards.push((copies.len() as u32, shard.number() as u32));
                }
                let next = start.checked_add(selection.len());
                copies.push(Copy { source: number, selection, start });
                start = next.ok_or_else(|| Error::usage("2^64 samples or more in an epoch"))?;
            }
        }
        let blocks = plan.sources.iter().map(|source| source.dataset.manifest().block_samples.max(1));
        let layout = Layout::new(counts, blocks.min().unwrap_or(1))?;
        Ok(Self { layout, copies: copies.into(), shards: shards.into() })
    }

    /// The copy that has shard `number` of the layout, and the number of the shard in the dataset.
    pub fn shard(&self, number: usize) -> (&Copy, usize) {
        let (copy, shard) = self.shards[number];
        (&self.copies[copy as usize], shard as usize)
    }

    /// The dataset of sample `index`, and the number of the sample in the dataset. `index` must be in range.
    pub fn place(&self, index: u64) -> (usize, u64) {
        let copy = self.copies.partition_point(|copy| copy.start <= index).saturating_sub(1);
        let copy = &self.copies[copy];
        (copy.source, copy.number(index))
    }
}

/// Options of a plan in addition to its sources.
pub(crate) struct Ranks {
    pub bucketing: Option<Bucketing>,
    pub rank: u64,
    pub world: u64,
    pub batch: u64,
    pub last: Last,
    pub check_content: bool,
}

impl Plan {
    pub fn new(sources: Vec<PlanSource>, order: Options, ranks: Ranks) -> Self {
        let subset = fingerprint(&sources);
        let Ranks { bucketing, rank, world, batch, last, check_content } = ranks;
        let sources = sources.into();
        Self {
            sources,
            subset,
            order,
            bucketing,
            rank,
            world,
            batch,
            last,
            check_content,
            latest: Arc::default(),
            #[cfg(test)]
            gate: Arc::default(),
        }
    }

    /// The id of the first dataset.
    pub fn id(&self) -> Blake3 {
        self.sources.first().map(|source| source.dataset.manifest().id).unwrap_or_default()
    }

    /// The samples of epoch `epoch`.
    pub fn content(&self, epoch: u64) -> Result<Arc<Content>> {
        // Never block here: another process may have been forked while the lock was held.
        if let Ok(latest) = self.latest.try_lock()
            && let Some((of, content)) = &*latest
            && of.is_none_or(|of| of == epoch)
        {
            return Ok(Arc::clone(content));
        }
        #[cfg(test)]
        let _gate = self.gate.lock();
        let content = Arc::new(Content::new(self, epoch)?);
        let is_fixed = self.sources.iter().all(|source| source.quotas.is_fixed());
        if let Ok(mut latest) = self.latest.try_lock() {
            *latest = Some(((!is_fixed).then_some(epoch), Arc::clone(&content)));
        }
        Ok(content)
    }

    /// Whether batches differ in length: their tokens are limited.
    pub fn has_tokens(&self) -> bool {
        self.bucketing.as_ref().is_some_and(Bucketing::has_tokens)
    }

    /// The share of this rank in an epoch of `samples`, from position `start`. If batches differ in length, [`Plan::batches`] has
    /// them, and those of the share have one sample.
    pub fn share(&self, samples: u64, start: u64) -> Result<Share> {
        let batch = if self.has_tokens() { 1 } else { self.batch };
        Share::new(samples, start, (self.rank, self.world), batch, self.last)
    }

    /// Largest number of samples in a batch.
    pub fn most_in_batch(&self) -> Result<u64> {
        let samples = self.content(0)?.layout.samples();
        Ok(Share::new(samples, 0, (self.rank, self.world), self.batch, Last::Pad)?.most_in_batch())
    }

    /// The batches of the share of `lanes`.
    pub fn batches(&self, content: &Arc<Content>, lanes: &RankLanes) -> RankBatches {
        let bucketed = self.bucketed(content, lanes).filter(|_| self.has_tokens());
        RankBatches::new(*lanes.share(), bucketed)
    }

    /// Whether a batch begins at `position` or the epoch ends there. Any position will do unless batches differ in length.
    pub fn is_between_batches(&self, epoch: u64, position: u64) -> Result<bool> {
        if !self.has_tokens() || position == 0 {
            return Ok(true);
        }
        let (content, lanes) = self.lanes(epoch, 0)?;
        let of_rank = position / self.world;
        let start = self.bucketed(&content, &lanes).map_or(of_rank, |mut bucketed| bucketed.batch_of(of_rank).0);
        Ok(position == content.layout.samples() || start.saturating_mul(self.world) == position)
    }

    /// Number of batches of this rank in epoch `epoch`, from position `start` on. Takes about a microsecond per sample if batches
    /// differ in length.
    pub fn count_batches(&self, epoch: u64, start: u64) -> Result<u64> {
        if !self.has_tokens() {
            return Ok(self.share(self.content(epoch)?.layout.samples(), start)?.batches());
        }
        let (content, lanes) = self.lanes(epoch, start)?;
        let whole = self.bucketed(&content, &lanes).map_or(0, |mut bucketed| bucketed.batches_from(start));
        // The samples of an incomplete last step are a batch.
        let left = lanes.share().samples() % self.world;
        let is_batch = left > 0 && self.last != Last::Drop && start < lanes.share().samples();
        Ok(whole + u64::from(is_batch))
    }

    /// The samples of epoch `epoch`, and the lanes of this rank from position `start`.
    pub fn lanes(&self, epoch: u64, start: u64) -> Result<(Arc<Content>, RankLanes)> {
        let content = self.content(epoch)?;
        let epoch = Arc::new(Epoch::new(&content.layout, &self.order, epoch)?);
        let share = self.share(epoch.len(), start)?;
        Ok((content, RankLanes::new(epoch, share)))
    }

    /// The positions of an epoch by length, if batches are by length.
    pub fn bucketed(&self, content: &Arc<Content>, lanes: &RankLanes) -> Option<Bucketed> {
        // Valid: the loader has checked the numbers.
        let buckets = self.bucketing.as_ref()?.buckets().ok()?;
        let (sources, content) = (Arc::clone(&self.sources), Arc::clone(content));
        let length_of = move |index| {
            let (source, number) = content.place(index);
            sources[source].lengths.as_ref().map_or(0, |lengths| lengths.of(number))
        };
        Some(Bucketed::new(lanes.shared_epoch(), buckets, Arc::new(length_of)))
    }

    /// The reads of a rank, if batches are by length.
    pub fn bucket_reads(&self, content: &Arc<Content>, lanes: &RankLanes) -> Option<BucketReads> {
        Some(BucketReads::new(lanes.clone(), self.bucketed(content, lanes)?))
    }

    /// The identity of a sample of a dataset.
    pub fn identity(&self, (source, number): (usize, u64)) -> u128 {
        self.sources[source].identities.get(number)
    }
}

/// Fingerprint of the samples, their counts, and the classes behind renumbered labels; `None` for every sample of one dataset, once.
fn fingerprint(sources: &[PlanSource]) -> Option<String> {
    if let [PlanSource { selection: Selection::All(_), quotas: Quotas::All(quota), chosen: None, .. }] = sources
        && (quota.rounds, quota.rest) == (1, 0)
    {
        return None;
    }
    let mut sums = [0_u64; 2];
    let mut add = |number: u64| sums = [mix(sums[0] ^ number), mix(sums[1].wrapping_add(number) ^ sums[0])];
    for PlanSource { selection, quotas, identities, chosen, .. } in sources {
        let sum: Sum = match selection {
            // The dataset and its length identify the samples.
            Selection::All(samples) => Sum { samples: *samples, identities: identities.get(0) },
            _ => (0..selection.len()).map(|selected| identities.get(selection.number(selected))).collect(),
        };
        add(sum.samples);
        add(sum.identities as u64);
        add((sum.identities >> 64) as u64);
        quotas.numbers().into_iter().for_each(&mut add);
        chosen.iter().flatten().for_each(|label| add(label.cast_unsigned()));
    }
    Some(format!("{:016x}{:016x}", sums[0], sums[1]))
}

/// The shard with number `number` in the dataset of `copy`.
pub(crate) fn shard<'s>(sources: &'s [PlanSource], copy: &Copy, number: usize) -> Result<Shard<'s>> {
    sources[copy.source].dataset.shard(number)
}

/// Memory needs of a rank.
#[derive(Clone)]
pub(crate) struct Needs {
    shuffle: Shuffle,
    lanes: u64,
    world: u64,
    /// Open runs of a rank at a time.
    open: u64,
    /// Bytes of a sample, for the dataset with the longest ones.
    sample_bytes: u64,
    block_samples: u64,
    /// Bytes of all shards.
    all_bytes: u64,
    /// Whether no sample comes twice in an epoch.
    are_once: bool,
    /// Bytes of the samples of a window that are in memory at a time; 0 if batches are not by length.
    window_bytes: u64,
}

/// Default memory.
const USUAL_BYTES: u64 = 256 << 20;
/// Default memory for large batches.
const MAX_USUAL_BYTES: u64 = 2 << 30;
/// Least memory of a read.
const LEAST_READ_BYTES: u64 = 4 << 10;

impl Needs {
    pub fn new(sources: &[PlanSource], shuffle: Shuffle, lanes: u64, world: u64) -> Self {
        let manifests = || sources.iter().map(|source| source.dataset.manifest());
        let all_bytes: u64 = manifests().map(|manifest| manifest.shard_bytes).fold(0, u64::saturating_add);
        let block_samples = manifests().map(|manifest| manifest.block_samples.max(1)).min().unwrap_or(1);
        let sample_bytes = manifests().map(|manifest| manifest.shard_bytes.div_ceil(manifest.samples.max(1))).max();
        // Stored order has one lane, and several of its runs are read at a time.
        let open = if shuffle == Shuffle::Lanes { lanes.div_ceil(world.max(1)).max(1) } else { 8 };
        let sample_bytes = sample_bytes.unwrap_or(0);
        let are_once = sources.iter().all(|source| source.quotas.are_once());
        Self { shuffle, lanes, world, open, sample_bytes, block_samples, all_bytes, are_once, window_bytes: 0 }
    }

    /// The same with batches by length in these windows, and runs of `run_blocks`. A run is in memory from the first sample of its
    /// window to the last one of the window in which it ends.
    pub fn in_windows(self, buckets: &Buckets, run_blocks: u64) -> Self {
        // Windows of the budget are up to an eighth larger than their runs.
        let bytes = |samples: u64, each: u64| samples.saturating_mul(each.saturating_add(each / 8));
        if self.shuffle == Shuffle::Full {
            // A run has one sample.
            let samples = buckets.samples().div_ceil(self.world.max(1));
            return Self { window_bytes: bytes(samples, self.sample_bytes.max(LEAST_READ_BYTES)), ..self };
        }
        let lanes = if self.shuffle == Shuffle::Lanes { self.lanes } else { 1 };
        // Other lanes belong to other ranks.
        let classes = buckets.classes(lanes, self.world);
        let window_bytes = bytes(buckets.samples() / classes, self.sample_bytes);
        let block_samples = self.block_samples.saturating_mul(run_blocks);
        Self { open: lanes / classes, window_bytes, block_samples, ..self }
    }

    pub fn world(&self) -> u64 {
        self.world
    }

    fn block_bytes(&self) -> u64 {
        self.sample_bytes.saturating_mul(self.block_samples).max(1)
    }

    /// Default memory: enough for two blocks per lane and two windows, up to a limit.
    pub fn usual_bytes(&self) -> u64 {
        let two_each = self.block_bytes().saturating_mul(2).saturating_mul(self.open);
        let bytes = two_each.saturating_add(self.window_bytes.saturating_mul(2));
        // Memory never holds more than all shards.
        bytes.min(self.all_bytes).clamp(USUAL_BYTES, MAX_USUAL_BYTES)
    }

    /// Blocks per run, so that two runs for each lane of the rank fit in `memory_bytes`, with a window if batches are by length.
    ///
    /// # Errors
    /// If one block per lane plus one more block need more memory; by length, a window and two blocks per lane.
    pub fn run_blocks(&self, memory_bytes: Option<u64>) -> Result<u64> {
        let memory_bytes = memory_bytes.unwrap_or_else(|| self.usual_bytes());
        let &Self { shuffle, open, all_bytes, window_bytes, .. } = self;
        let block_bytes = self.block_bytes();
        if window_bytes > 0 {
            return self.run_blocks_in_windows(memory_bytes);
        }
        let least = (open + 1).saturating_mul(block_bytes).min(all_bytes);
        if shuffle == Shuffle::Lanes && least > memory_bytes {
            let what = format!(
                "{memory_bytes} bytes of memory are too few for {open} lanes of a rank with runs of {block_bytes} bytes"
            );
            return Err(Error::usage(what).help(format!("give it {least} bytes or more")));
        }
        Ok((memory_bytes / (2 * open)).min(MAX_RUN_BYTES).checked_div(block_bytes).unwrap_or(1).max(1))
    }

    fn run_blocks_in_windows(&self, memory_bytes: u64) -> Result<u64> {
        let &Self { open, window_bytes, .. } = self;
        let block_bytes = self.block_bytes();
        // The runs at both ends of a window are in other windows too.
        let ends = if self.shuffle == Shuffle::Full { 0 } else { 2 * open + 1 };
        let least = window_bytes.saturating_add(ends.saturating_mul(block_bytes));
        let least = if self.are_once { least.min(self.all_bytes.saturating_add(self.all_bytes / 8)) } else { least };
        if least > memory_bytes {
            let what =
                format!("{memory_bytes} bytes of memory are too few: bucket_by has windows of {window_bytes} bytes");
            return Err(Error::usage(what)
                .help(format!("give it {least} bytes or more; a new run can have fewer bucket_batches")));
        }
        // Half of the rest is for the next window.
        let run_bytes = memory_bytes.saturating_sub(window_bytes) / (4 * open).max(1);
        Ok((run_bytes.min(MAX_RUN_BYTES) / block_bytes).max(1))
    }
}
