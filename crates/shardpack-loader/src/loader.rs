//! The loader: a dataset, what is made of its samples, and who gets which of them when.
//!
//! Holds at all times: it has no threads and opens nothing but the dataset, so it may be used on both sides of a fork; what
//! [`Loader::batches`] and [`Loader::samples`] begin has threads of its own.

use std::sync::Arc;

use shardpack_format::{Error, Result, formats::adopted};
use shardpack_imaging::{Budget, Limits};
use shardpack_reader::Dataset;

use crate::{
    Batches, Memory, OnBad, Output, Part, Samples, State, Subset, Times, classes,
    feed::Feed,
    making::Making,
    mix::Quotas,
    order::{self, Epoch, Identities, Last, Shuffle, Sum},
    plan::{Needs, Plan, Ranks, Source},
    receipt::Expected,
    ring::Ring,
    stats::Counters,
};

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
    /// Memory for the runs that are read ahead, in bytes; `None` for 256 MiB, or as much more as the lanes of large batches need, up to
    /// 2 GiB. Decoding has as much beside, and 1 GiB, or 128 MiB a thread, at least: an image that takes more is not right.
    pub memory_bytes: Option<u64>,
    /// Memory for finished batches, in bytes: beyond what four of them take, they are made ahead while training goes on.
    pub ahead_bytes: u64,
    /// Threads that read; 16 at least where a dataset is on a server, as each waits for one answer.
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
            memory_bytes: None,
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
    classes: Arc<[String]>,
}

/// Fails where a subset is told of a mix.
fn whole(options: &Options) -> Result<()> {
    match options.subset {
        Subset::All => Ok(()),
        _ => Err(Error::usage("a subset of a mix: each part has its own")),
    }
}

/// A part of a plan.
fn source(part: Part, components: &[String]) -> Result<Source> {
    let selection = part.subset.select(&part.dataset)?;
    let quotas = Quotas::new(&part, &selection)?;
    let Part { dataset, .. } = part;
    let names = &dataset.manifest().components;
    let columns = components.iter().map(|wanted| {
        names.iter().position(|name| name == wanted).ok_or_else(|| {
            let what = format!("no component {wanted:?}; there are {}", names.join(", "));
            let error = Error::usage(what).in_file(dataset.folder());
            // The index of adopted shards tells of images alone.
            match dataset.manifest().format.settings.contains_key(adopted::SETTING) {
                true => error.help("adopt takes images alone: shardpack convert SRC DST takes what is beside them"),
                false => error,
            }
        })
    });
    let columns = columns.collect::<Result<_>>()?;
    let identities = Identities::new(&dataset.manifest().id.0);
    Ok(Source { dataset, selection, quotas, identities, columns, labels: None })
}

impl Loader {
    /// A loader of `dataset`.
    ///
    /// # Errors
    /// When an option is out of range, there is no such component, too little memory for the lanes, or an epoch has no batch.
    pub fn new(dataset: Dataset, options: Options) -> Result<Self> {
        Self::of(vec![Part { dataset, subset: options.subset.clone(), times: Times::Once }], options, None)
    }

    /// A loader of a mix: all parts in one order, each as often as its [`Times`] say. Subsets are those of the parts, and have the labels of their
    /// datasets; in batches labels are those of [`Loader::classes`].
    ///
    /// # Errors
    /// As [`Loader::new`]; when there is no part, a part lacks a component, one numbers its classes and another names them, or [`Options::subset`]
    /// is set.
    pub fn mix(parts: Vec<Part>, options: Options) -> Result<Self> {
        whole(&options)?;
        Self::of(parts, options, None)
    }

    /// A loader that goes on with the run that `state` is of: seed, shuffle, lanes and runs are as they were, whatever
    /// `options` say of them; all else, the number of ranks too, may be another. Give `state` to [`Loader::batches`].
    ///
    /// # Errors
    /// As [`Loader::new`]; when the state is of another dataset.
    pub fn resume(dataset: Dataset, options: Options, state: &State) -> Result<Self> {
        Self::of(vec![Part { dataset, subset: options.subset.clone(), times: Times::Once }], options, Some(state))
    }

    /// As [`Loader::resume`], for a mix of the same parts.
    ///
    /// # Errors
    /// As [`Loader::mix`]; when the state is of another first dataset.
    pub fn resume_mix(parts: Vec<Part>, options: Options, state: &State) -> Result<Self> {
        whole(&options)?;
        Self::of(parts, options, Some(state))
    }

    fn of(parts: Vec<Part>, options: Options, state: Option<&State>) -> Result<Self> {
        let Some(first) = parts.first() else { return Err(Error::usage("a mix of no datasets")) };
        let given = state.map(|state| state.order(&first.dataset)).transpose()?;
        let mut sources =
            parts.into_iter().map(|part| source(part, &options.components)).collect::<Result<Vec<_>>>()?;
        let classes = classes::merge(&mut sources)?.into();
        let order = match given {
            Some(order) => order,
            None => {
                let Options { shuffle, seed, lanes, world, batch, memory_bytes, .. } = options;
                let lanes = lanes.unwrap_or_else(|| order::Options::lanes_for(world, batch));
                let run_blocks = Needs::new(&sources, shuffle, lanes, world).run_blocks(memory_bytes)?;
                order::Options { shuffle, seed, lanes, run_blocks, rotated: true }
            }
        };
        let options = Options { seed: order.seed, shuffle: order.shuffle, lanes: Some(order.lanes), ..options };
        let Options { rank, world, batch, last, check_content, .. } = options;
        let plan = Plan::new(sources, order, &Ranks { rank, world, batch, last, check_content });
        order.check()?;
        // As many in every epoch.
        let samples = plan.content(0)?.layout.samples();
        if plan.share(samples, 0)?.batches() == 0 {
            let what = format!("an epoch of {samples} samples has no batch of {batch} for {world} ranks");
            return Err(Error::usage(what).in_file(plan.sources[0].dataset.folder()));
        }
        Ok(Self { plan, options, classes })
    }

    /// The dataset; of a mix, the first.
    pub fn dataset(&self) -> &Dataset {
        &self.plan.sources[0].dataset
    }

    /// Names of the classes in the order of the labels that batches have: those of the dataset, or of a mix those of all its datasets, each once;
    /// with replacement characters where a name is not UTF-8.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Most samples of a batch: [`Options::batch`], or a rank's share of an epoch where that is less.
    ///
    /// # Errors
    /// None that [`Loader::new`] did not find.
    pub fn most_in_batch(&self) -> Result<u64> {
        Ok(self.plan.share(self.plan.content(0)?.layout.samples(), 0)?.most_in_batch())
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Memory for the runs that are read ahead, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let order = &self.plan.order;
        let needs = || Needs::new(&self.plan.sources, order.shuffle, order.lanes, self.options.world);
        self.options.memory_bytes.unwrap_or_else(|| needs().usual_bytes())
    }

    /// Memory that so many threads decode in, in bytes, beside that for runs: no less than that, than 1 GiB, and than 128 MiB for each
    /// thread, so that photographs do not wait. An image that takes more than all of it is not right.
    fn decoding_bytes(&self, threads: usize) -> u64 {
        const OF_ALL: u64 = 1 << 30;
        const OF_THREAD: u64 = 128 << 20;
        self.memory_bytes().max(OF_ALL).max(OF_THREAD.saturating_mul(threads as u64))
    }

    /// What the order follows from.
    pub fn order(&self) -> &order::Options {
        &self.plan.order
    }

    /// The order of epoch `epoch`. Of a subset or a mix it has numbers that [`Loader::place`] tells the samples of.
    ///
    /// # Errors
    /// None that [`Loader::new`] did not find.
    pub fn epoch(&self, epoch: u64) -> Result<Epoch> {
        Epoch::new(&self.plan.content(epoch)?.layout, &self.plan.order, epoch)
    }

    /// The dataset, from 0, and the number in it of the sample that the order of epoch `epoch` has as `index`.
    ///
    /// # Errors
    /// When there is no such index.
    pub fn place(&self, epoch: u64, index: u64) -> Result<(usize, u64)> {
        let content = self.plan.content(epoch)?;
        let samples = content.layout.samples();
        let is_there = index < samples;
        is_there.then(|| content.place(index)).ok_or_else(|| Error::usage(format!("sample {index} of {samples}")))
    }

    /// Batches of this rank in a whole epoch: the same number for all ranks.
    ///
    /// # Errors
    /// None that [`Loader::new`] did not find.
    pub fn batches_of_epoch(&self) -> Result<u64> {
        Ok(self.plan.share(self.plan.content(0)?.layout.samples(), 0)?.batches())
    }

    /// Batches of this rank in the rest of the epoch that `state` is in: the same number for all ranks, 0 at its end.
    ///
    /// # Errors
    /// When the state is of another run.
    pub fn batches_left(&self, state: &State) -> Result<u64> {
        self.check(state)?;
        let samples = self.plan.content(state.epoch)?.layout.samples();
        Ok(self.plan.share(samples, state.position)?.batches())
    }

    /// How many ranks read each byte: 1 where the number of lanes is a multiple of that of ranks.
    ///
    /// # Errors
    /// None that [`Loader::new`] did not find.
    pub fn readers(&self) -> Result<u64> {
        Ok(self.plan.lanes(0, 0)?.1.readers())
    }

    /// The state of a run that has not begun.
    pub fn beginning(&self) -> State {
        State::new(&self.plan, 0, 0)
    }

    /// What the receipts of all ranks add up to after epoch `epoch`. Takes a few nanoseconds a sample.
    ///
    /// # Errors
    /// None that [`Loader::new`] did not find.
    pub fn expected(&self, epoch: u64) -> Result<Expected> {
        let (content, lanes) = self.plan.lanes(epoch, 0)?;
        let identity = |index| self.plan.identity(content.place(index));
        let sum: Sum = if self.plan.last == Last::Drop {
            let end = lanes.share().position_after(lanes.share().batches());
            (0..end).map(|position| identity(lanes.epoch().sample_at(position))).collect()
        } else {
            (0..content.layout.samples()).map(identity).collect()
        };
        Ok(Expected { epoch, samples: sum.samples, identities: sum.identities })
    }

    #[cfg(test)]
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    fn check(&self, state: &State) -> Result<()> {
        match state.is_of(&self.plan)? {
            true => Ok(()),
            false => Err(Error::usage("the state is of a run in another order, or of other samples")
                .help("resume with the same datasets, subsets and shares as the run that the state is of")),
        }
    }

    fn feed(&self, from: &State, counters: &Arc<Counters>) -> Result<Feed> {
        self.check(from)?;
        let memory_bytes = usize::try_from(self.memory_bytes()).unwrap_or(usize::MAX);
        let epochs = (from.epoch, from.position, self.options.epochs);
        let in_flight = self.plan.sources.iter().filter_map(|source| source.dataset.in_flight()).max();
        let read_threads = self.options.read_threads.max(in_flight.unwrap_or(1));
        Feed::start(self.plan.clone(), epochs, memory_bytes, read_threads, Arc::clone(counters))
    }

    /// Begins to make batches, from `from` on.
    ///
    /// # Errors
    /// When the state is of another run, or threads cannot be started.
    pub fn batches(&self, from: &State) -> Result<Batches> {
        self.batches_in(from, Vec::new())
    }

    /// As [`Loader::batches`], in memory of the caller's: as many batches exist at a time as there are `memories`, each of at
    /// least [`Loader::most_in_batch`] times [`Output::slot_bytes`] bytes.
    ///
    /// # Errors
    /// As [`Loader::batches`]; when a memory is too short.
    pub fn batches_in(&self, from: &State, memories: Vec<Box<dyn Memory>>) -> Result<Batches> {
        let batch = usize::try_from(self.most_in_batch()?).unwrap_or(usize::MAX);
        let slot_bytes = self.options.output.slot_bytes();
        let batch_bytes = batch.saturating_mul(slot_bytes).max(1);
        let ahead = usize::try_from(self.options.ahead_bytes).unwrap_or(usize::MAX) / batch_bytes;
        let ring = Ring::new(batch, slot_bytes, ahead.max(FEWEST_BATCHES), memories)?;
        let counters = Arc::new(Counters::default());
        let threads = match self.options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let making = Making {
            plan: self.plan.clone(),
            output: self.options.output.clone(),
            on_bad: self.options.on_bad,
            limits: self.options.limits,
            decoding: Arc::new(Budget::new(self.decoding_bytes(threads))),
            columns: self.options.components.clone(),
            counters: Arc::clone(&counters),
        };
        let feed = self.feed(from, &counters)?;
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
