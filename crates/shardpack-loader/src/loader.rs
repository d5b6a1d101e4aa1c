//! The loader: a dataset, what is made of its samples, and who gets which of them when.
//!
//! Holds at all times: it has no threads and opens nothing but the dataset, so it may be used on both sides of a fork; what
//! [`Loader::batches`] and [`Loader::samples`] begin has threads of its own.

use std::{fmt, sync::Arc};

use shardpack_format::{Error, Result};
use shardpack_imaging::{
    Limits,
    training::{Transform, Worker},
};
use shardpack_reader::{Dataset, Sample};

use crate::{
    Batches, Memory, Samples, State, Subset,
    batches::Making,
    feed::Feed,
    order::{self, Epoch, Identities, Last, Selection, Shuffle, Sum},
    plan::{self, Plan},
    ring::Ring,
    stats::Counters,
};

/// What is made of the payload of each sample.
#[derive(Clone, Debug, Default)]
pub enum Output {
    /// The bytes as they are stored, one payload behind the other: for decoders on a GPU.
    #[default]
    Encoded,
    /// Images, decoded and transformed.
    Images(Box<Transform>),
    /// What a function of the caller's makes of them.
    Own(Own),
}

/// What a caller makes of a sample: [`Own::make`] is given the sample, a decoder, the random key of seed, epoch and sample,
/// and a slot to fill wholly.
type Function = dyn Fn(&Sample<'_>, &mut Worker, u64, &mut [u8]) -> Result<()> + Send + Sync;

/// A function of the caller's own, called by many threads at once.
#[derive(Clone)]
pub struct Own {
    slot_bytes: usize,
    function: Arc<Function>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").field("slot_bytes", &self.slot_bytes).finish_non_exhaustive()
    }
}

impl Own {
    /// `function` fills slots of `slot_bytes`. An error of the kind [`Data`](shardpack_format::ErrorKind::Data) means that the
    /// sample is not right.
    pub fn new(
        slot_bytes: usize,
        function: impl Fn(&Sample<'_>, &mut Worker, u64, &mut [u8]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { slot_bytes, function: Arc::new(function) }
    }

    pub(crate) fn make(&self, sample: &Sample<'_>, worker: &mut Worker, key: u64, slot: &mut [u8]) -> Result<()> {
        (self.function)(sample, worker, key, slot)
    }
}

impl Output {
    /// Bytes of a slot: 0 where there are none.
    pub fn slot_bytes(&self) -> usize {
        match self {
            Self::Encoded => 0,
            Self::Images(transform) => transform.slot_bytes(),
            Self::Own(own) => own.slot_bytes,
        }
    }
}

/// What becomes of a sample that is not right: damaged, too large, of a kind that cannot be decoded.
///
/// That the system cannot read it is an error, always: a disk that fails says nothing of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBad {
    /// An error instead of the batch.
    #[default]
    Error,
    /// It is left out of its batch, which is shorter, and named in the receipt.
    Skip,
    /// The next sample of its class that is right comes in its place, and both are named in the receipt.
    Replace,
}

/// What a loader does. [`Options::default`] is one rank that gets encoded payloads, 64 a batch, in the order of lanes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Samples of a batch of one rank.
    pub batch: u64,
    /// Which of the ranks this is, from 0.
    pub rank: u64,
    /// Number of ranks.
    pub world: u64,
    /// Chooses order and random transforms.
    pub seed: u64,
    /// How samples are put in order.
    pub shuffle: Shuffle,
    /// Number of lanes of all ranks together; `None` for what [`order::Options::lanes_for`] says.
    pub lanes: Option<u64>,
    /// What becomes of the end of an epoch.
    pub last: Last,
    /// Which samples of the dataset.
    pub subset: Subset,
    /// What is made of payloads.
    pub output: Output,
    /// The components that go along, by their names in the manifest.
    pub components: Vec<String>,
    /// What becomes of samples that are not right.
    pub on_bad: OnBad,
    /// Whether each payload is compared with its content hash.
    pub check_content: bool,
    /// How large images may be.
    pub limits: Limits,
    /// Memory for the runs that are read ahead, in bytes.
    pub memory_bytes: u64,
    /// Memory for finished batches, in bytes: beyond what four of them take, they are made ahead while training goes on.
    pub ahead_bytes: u64,
    /// Threads that read.
    pub read_threads: usize,
    /// Threads that make batches; 0 for as many as the machine has cores.
    pub threads: usize,
    /// Number of the last epoch, exclusive: nothing is read for later ones.
    pub epochs: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            batch: 64,
            rank: 0,
            world: 1,
            seed: 0,
            shuffle: Shuffle::Lanes,
            lanes: None,
            last: Last::Short,
            subset: Subset::All,
            output: Output::Encoded,
            components: Vec::new(),
            on_bad: OnBad::Error,
            check_content: false,
            limits: Limits::default(),
            memory_bytes: 256 << 20,
            ahead_bytes: 0,
            read_threads: 4,
            threads: 0,
            epochs: u64::MAX,
        }
    }
}

/// Fewest batches that exist at a time: one is the consumer's, one is finished, two are made.
const FEWEST_BATCHES: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub struct Loader {
    plan: Plan,
    options: Options,
    columns: Vec<(usize, String)>,
}

impl Loader {
    /// A loader of `dataset`.
    ///
    /// # Errors
    /// When an option is out of range, there is no such component, too little memory for the lanes, or an epoch has no batch.
    pub fn new(dataset: Dataset, options: Options) -> Result<Self> {
        let lanes = options.lanes.unwrap_or_else(|| order::Options::lanes_for(options.world, options.batch));
        let blocks = plan::run_blocks(&dataset, options.shuffle, lanes, options.world, options.memory_bytes)?;
        let order = order::Options { shuffle: options.shuffle, seed: options.seed, lanes, run_blocks: blocks };
        Self::with_order(dataset, options, order)
    }

    /// A loader that goes on with the run that `state` is of: seed, shuffle, lanes and runs are as they were, whatever
    /// `options` say of them; all else, the number of ranks too, may be another. Give `state` to [`Loader::batches`].
    ///
    /// # Errors
    /// As [`Loader::new`]; when the state is of another dataset.
    pub fn resume(dataset: Dataset, options: Options, state: &State) -> Result<Self> {
        let order = state.order(&dataset)?;
        let options = Options { seed: order.seed, shuffle: order.shuffle, lanes: Some(order.lanes), ..options };
        Self::with_order(dataset, options, order)
    }

    fn with_order(dataset: Dataset, options: Options, order: order::Options) -> Result<Self> {
        let names = &dataset.manifest().components;
        let columns = options.components.iter().map(|wanted| {
            let number = names.iter().position(|name| name == wanted);
            let number = number.ok_or_else(|| {
                let what = format!("no component {wanted:?}; there are {}", names.join(", "));
                Error::usage(what).in_file(dataset.folder())
            })?;
            Ok((number, wanted.clone()))
        });
        let columns = columns.collect::<Result<_>>()?;
        let selection = options.subset.select(&dataset)?;
        let identities = Identities::new(&dataset.manifest().id.0);
        let subset = match selection {
            Selection::All(_) => None,
            Selection::Some(_) => {
                let sum: Sum = (0..selection.len()).map(|selected| identities.of(selection.number(selected))).collect();
                Some(format!("{:032x}", sum.identities))
            }
        };
        let plan = Plan {
            layout: plan::layout(&dataset, &selection)?,
            selection,
            subset,
            identities,
            dataset: Arc::new(dataset),
            order,
            rank: options.rank,
            world: options.world,
            batch: options.batch,
            last: options.last,
            check_content: options.check_content,
        };
        if plan.lanes(0, 0)?.share().batches() == 0 {
            let (batch, world) = (options.batch, options.world);
            let what =
                format!("an epoch of {} samples has no batch of {batch} for {world} ranks", plan.layout.samples());
            return Err(Error::usage(what).in_file(plan.dataset.folder()));
        }
        Ok(Self { plan, options, columns })
    }

    /// The dataset.
    pub fn dataset(&self) -> &Dataset {
        &self.plan.dataset
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What the order follows from.
    pub fn order(&self) -> &order::Options {
        &self.plan.order
    }

    /// The order of epoch `epoch`. Of a subset it has the numbers among its samples: see [`Loader::selection`].
    ///
    /// # Errors
    /// None that [`Loader::new`] did not find.
    pub fn epoch(&self, epoch: u64) -> Result<Epoch> {
        Epoch::new(&self.plan.layout, &self.plan.order, epoch)
    }

    /// The samples that the order is of.
    pub fn selection(&self) -> &Selection {
        &self.plan.selection
    }

    /// Batches of this rank in a whole epoch: the same number for all ranks.
    ///
    /// # Errors
    /// None that [`Loader::new`] did not find.
    pub fn batches_of_epoch(&self) -> Result<u64> {
        Ok(self.plan.lanes(0, 0)?.share().batches())
    }

    /// How many ranks read each byte: 1 where the number of lanes is a multiple of that of ranks.
    ///
    /// # Errors
    /// None that [`Loader::new`] did not find.
    pub fn readers(&self) -> Result<u64> {
        Ok(self.plan.lanes(0, 0)?.readers())
    }

    /// The state of a run that has not begun.
    pub fn beginning(&self) -> State {
        State::new(&self.plan, 0, 0)
    }

    /// What the receipts of all ranks add up to after epoch `epoch`. Takes a few nanoseconds a sample.
    ///
    /// # Errors
    /// None that [`Loader::new`] did not find.
    pub fn expected(&self, epoch: u64) -> Result<Sum> {
        let Plan { identities, selection, .. } = &self.plan;
        if self.plan.last != Last::Drop {
            return Ok((0..selection.len()).map(|selected| identities.of(selection.number(selected))).collect());
        }
        let order = self.epoch(epoch)?;
        let end = self.plan.lanes(epoch, 0)?.share().position_after(self.batches_of_epoch()?);
        Ok((0..end).map(|position| identities.of(selection.number(order.sample_at(position)))).collect())
    }

    fn feed(&self, from: &State, counters: &Arc<Counters>) -> Result<Feed> {
        if !from.is_of(&self.plan)? {
            return Err(Error::usage("the state is of a run in another order, or of other samples")
                .help("Loader::resume makes a loader that goes on in the order of a state"));
        }
        let memory_bytes = usize::try_from(self.options.memory_bytes).unwrap_or(usize::MAX);
        let epochs = (from.epoch, from.position, self.options.epochs);
        Feed::start(self.plan.clone(), epochs, memory_bytes, self.options.read_threads, Arc::clone(counters))
    }

    /// Begins to make batches, from `from` on.
    ///
    /// # Errors
    /// When the state is of another run, or threads cannot be started.
    pub fn batches(&self, from: &State) -> Result<Batches> {
        self.batches_in(from, Vec::new())
    }

    /// As [`Loader::batches`], in memory of the caller's: as many batches exist at a time as there are `memories`, each of at
    /// least [`Options::batch`] times [`Output::slot_bytes`] bytes.
    ///
    /// # Errors
    /// As [`Loader::batches`]; when a memory is too short.
    pub fn batches_in(&self, from: &State, memories: Vec<Box<dyn Memory>>) -> Result<Batches> {
        let batch = usize::try_from(self.options.batch).unwrap_or(usize::MAX);
        let slot_bytes = self.options.output.slot_bytes();
        let batch_bytes = batch.saturating_mul(slot_bytes).max(1);
        let ahead = usize::try_from(self.options.ahead_bytes).unwrap_or(usize::MAX) / batch_bytes;
        let ring = Ring::new(batch, slot_bytes, ahead.max(FEWEST_BATCHES), memories)?;
        let counters = Arc::new(Counters::default());
        let making = Making {
            plan: self.plan.clone(),
            output: self.options.output.clone(),
            on_bad: self.options.on_bad,
            limits: self.options.limits,
            columns: self.columns.clone(),
            counters: Arc::clone(&counters),
        };
        let feed = self.feed(from, &counters)?;
        let threads = match self.options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        Batches::start(making, feed, ring, from.clone(), threads)
    }

    /// Begins to read samples one by one, from `from` on: nothing is decoded or copied.
    ///
    /// # Errors
    /// As [`Loader::batches`].
    pub fn samples(&self, from: &State) -> Result<Samples> {
        let counters = Arc::new(Counters::default());
        Ok(Samples::new(self.feed(from, &counters)?, counters))
    }
}
