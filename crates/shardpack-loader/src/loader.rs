//! The loader: a dataset, the output per sample, and the order in which each rank gets its samples.
//!
//! Holds at all times: a loader has no threads and keeps only the dataset open, so both sides of a fork can use it.
//! [`Loader::batches`] and [`Loader::samples`] start their own threads.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use shardpack_format::{Error, Result, formats::adopted};
use shardpack_imaging::{Budget, Limits, check_instructions, training::Transform};
use shardpack_reader::Dataset;
use shardpack_runtime::threads;

use crate::{
    Batches, Bucket, Lengths, Memory, MixPart, OnBad, Output, Samples, State, Subset, Times,
    bucket::{self, Bucketing},
    classes,
    columns::Wanted,
    feed::{Feed, UNKNOWN_EPOCHS},
    fill_slot::Making,
    mix::Quotas,
    order::{self, Epoch, Identities, Last, Shuffle, Sum},
    plan::{self, Needs, Plan, PlanSource, Ranks},
    receipt::Expected,
    ring::Ring,
    roles::{self, CutKind, Role},
    stats::Counters,
};

/// Options of a loader. [`Options::default`] is one rank with encoded payloads, 64 per batch, in the order of lanes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Samples per batch of one rank.
    pub batch: u64,
    /// Number of this rank, from 0.
    pub rank: u64,
    /// Number of ranks.
    pub world: u64,
    /// Seed of the order and of random transforms.
    pub seed: u64,
    /// The kind of shuffle.
    pub shuffle: Shuffle,
    /// Number of lanes of all ranks together; `None` for [`order::Options::lanes_for`].
    pub lanes: Option<u64>,
    /// Batches of samples of similar length; `None` for batches as the order has them.
    pub bucket: Option<Bucket>,
    /// Policy for the end of an epoch.
    pub last: Last,
    /// Which samples of the dataset to load.
    pub subset: Subset,
    /// Whether labels number the classes of [`Subset::Classes`] from 0, in the order of that list. All parts of a mix need such a subset.
    pub renumber: bool,
    /// The output per payload.
    pub output: Output,
    /// Extra components to load, by their names in the manifest.
    pub components: Vec<String>,
    /// Components that follow the cut of the image. Without [`Output::Images`], masks and images are decoded whole, and
    /// positions stay as stored.
    /// Boxes that `pack` made from annotations have their roles without an entry; `None` leaves a component as stored.
    pub roles: BTreeMap<String, Option<Role>>,
    /// Number of classes in [`Batch::mixed_labels`](crate::Batch::mixed_labels); 0 for those of [`Loader::classes`].
    pub mixed_classes: usize,
    /// Policy for bad samples.
    pub on_bad: OnBad,
    /// Whether to compare each payload with its content hash.
    pub check_content: bool,
    /// Limits on the size of images.
    pub limits: Limits,
    /// Memory for the runs that are read ahead, in bytes; `None` for 256 MiB, or up to 2 GiB if the lanes of large
    /// batches need
    /// more. Decoding may use the same amount in addition, at least 1 GiB and at least 128 MiB per thread. An image
    /// that needs
    /// more is a bad sample.
    pub memory_bytes: Option<u64>,
    /// Whether the files of components are text and JSON by their extensions ([`crate::Form::of_file`]), and invalid ones make a sample bad.
    pub parses_files: bool,
    /// Memory for finished batches, in bytes. Batches beyond the first four are made ahead while training runs.
    pub ahead_bytes: u64,
    /// Threads that read; at least 16 for a dataset on a server, because each thread waits for one response.
    pub read_threads: usize,
    /// Threads that make batches; 0 for the number of cores.
    pub threads: usize,
    /// Number of the last epoch, exclusive: later epochs are not read, and reading ahead does not pause between epochs.
    /// `u64::MAX` if it is unknown: then nothing of an epoch is read before the consumer asks for its first batch.
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
            bucket: None,
            last: Last::Short,
            subset: Subset::All,
            renumber: false,
            output: Output::Encoded,
            components: Vec::new(),
            roles: BTreeMap::new(),
            mixed_classes: 0,
            on_bad: OnBad::Error,
            check_content: false,
            limits: Limits::default(),
            memory_bytes: None,
            parses_files: false,
            ahead_bytes: 0,
            read_threads: 4,
            threads: 0,
            epochs: UNKNOWN_EPOCHS,
        }
    }
}

/// Fewest batches that exist at a time: the consumer has one, one is finished, and two are being made.
const FEWEST_BATCHES: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub struct Loader {
    plan: Plan,
    options: Options,
    classes: Arc<[String]>,
}

/// Fails if the options of a mix have a subset.
fn whole(options: &Options) -> Result<()> {
    match options.subset {
        Subset::All => Ok(()),
        _ => Err(Error::usage("a subset of a mix: each part has its own")),
    }
}

/// Part `number` of a plan.
fn source(number: usize, part: MixPart, options: &Options) -> Result<PlanSource> {
    let chosen = if options.renumber {
        let unclear =
            || Error::usage("labels can be renumbered only if classes are chosen").in_file(part.dataset.folder());
        Some(part.subset.classes().ok_or_else(unclear)?)
    } else {
        None
    };
    let selection = part.subset.select(&part.dataset)?;
    let quotas = Quotas::new(&part, &selection)?;
    let MixPart { dataset, .. } = part;
    let names = &dataset.manifest().components;
    let columns = options.components.iter().map(|wanted| {
        names.iter().position(|name| name == wanted).ok_or_else(|| {
            let what = format!("no component {wanted:?}; there are {}", names.join(", "));
            let error = Error::usage(what).in_file(dataset.folder());
            // The index of adopted shards has only components that lie in them unchanged.
            match dataset.manifest().format.settings.contains_key(adopted::SETTING) {
                true => error.help("adopt indexes the components that lie in the shards unchanged: shardpack convert SRC DST keeps the others"),
                false => error,
            }
        })
    });
    let columns = columns.collect::<Result<_>>()?;
    let identities = Identities::new(&dataset.manifest().id.0);
    let mut source =
        PlanSource { dataset, selection, quotas, identities, columns, chosen, labels: None, lengths: None };
    source.lengths = bucket::lengths(options.bucket.as_ref(), number, &source)?;
    Ok(source)
}

/// The order of a new run, and its batches by length.
fn begun(sources: &[PlanSource], options: &Options) -> Result<(order::Options, Option<Bucketing>)> {
    let &Options { shuffle, seed, lanes, world, batch, memory_bytes, .. } = options;
    let lanes = lanes.unwrap_or_else(|| order::Options::lanes_for(world, batch));
    let needs = Needs::new(sources, shuffle, lanes, world);
    let (bucketing, run_blocks) = match &options.bucket {
        Some(bucket) => {
            let (bucketing, run_blocks) = Bucketing::new(bucket, &needs, batch, memory_bytes)?;
            (Some(bucketing), run_blocks)
        }
        None => (None, needs.run_blocks(memory_bytes)?),
    };
    Ok((order::Options { shuffle, seed, lanes, run_blocks, rotated: true }, bucketing))
}

/// Checks that images can be mixed. Returns the number of classes of their labels.
fn mixed_classes(options: &Options, classes: &[String]) -> Result<usize> {
    let Output::Images(views) = &options.output else { return Ok(0) };
    if views.iter().all(|view| view.mixing().is_empty()) {
        return Ok(0);
    }
    if views.len() > 1 {
        return Err(Error::usage("MixUp and CutMix mix images of one view, and there are several"));
    }
    let what = match (options.mixed_classes, classes.len()) {
        (0, 0) => "MixUp and CutMix mix labels, and the dataset has no names of classes".to_owned(),
        (0, known) => return Ok(known),
        (given, known) if given >= known => return Ok(given),
        (given, known) => format!("MixUp and CutMix mix {given} classes, and the dataset has {known}"),
    };
    Err(Error::usage(what).help("MixUp(num_classes=…) gives the number of classes"))
}

impl Loader {
    /// A loader of `dataset`.
    ///
    /// # Errors
    /// If an option is out of range, a component is missing, the memory is too small for the lanes, or an epoch has no
    /// batch.
    pub fn new(dataset: Dataset, options: Options) -> Result<Self> {
        Self::build(vec![MixPart { dataset, subset: options.subset.clone(), times: Times::Once }], options, None)
    }

    /// A loader of a mix: all parts in one order, each as often as its [`Times`]. Each part has its own subset, with
    /// the labels
    /// of its dataset; labels in batches index [`Loader::classes`].
    ///
    /// # Errors
    /// As [`Loader::new`]; if there is no part, a part lacks a component, one part numbers its classes and another
    /// names them,
    /// or [`Options::subset`] is set.
    pub fn mix(parts: Vec<MixPart>, options: Options) -> Result<Self> {
        whole(&options)?;
        Self::build(parts, options, None)
    }

    /// A loader that resumes the run of `state`. Seed, shuffle, lanes and run length come from the state, and `options`
    /// cannot
    /// change them; everything else may change, including the number of ranks. Pass `state` to [`Loader::batches`].
    ///
    /// # Errors
    /// As [`Loader::new`]; if the state is of another dataset.
    pub fn resume(dataset: Dataset, options: Options, state: &State) -> Result<Self> {
        Self::build(vec![MixPart { dataset, subset: options.subset.clone(), times: Times::Once }], options, Some(state))
    }

    /// As [`Loader::resume`], for a mix of the same parts.
    ///
    /// # Errors
    /// As [`Loader::mix`]; if the state is of another first dataset.
    pub fn resume_mix(parts: Vec<MixPart>, options: Options, state: &State) -> Result<Self> {
        whole(&options)?;
        Self::build(parts, options, Some(state))
    }

    fn build(parts: Vec<MixPart>, options: Options, state: Option<&State>) -> Result<Self> {
        let Some(first) = parts.first() else { return Err(Error::usage("a mix of no datasets")) };
        check_instructions().map_err(Error::usage)?;
        options.bucket.as_ref().map_or(Ok(()), |bucket| bucket.check(options.on_bad))?;
        let given = state.map(|state| state.order(&first.dataset)).transpose()?;
        let sources = parts.into_iter().enumerate();
        let mut sources = sources.map(|(number, part)| source(number, part, &options)).collect::<Result<Vec<_>>>()?;
        let classes: Arc<[String]> = classes::merge(&mut sources)?.into();
        let (order, bucketing) = match (given, state) {
            (Some(order), Some(state)) => {
                let needs = Needs::new(&sources, order.shuffle, order.lanes, options.world);
                let bucket = options.bucket.as_ref();
                (
                    order,
                    Bucketing::resumed(
                        state.bucketing(),
                        bucket,
                        (&needs, order.run_blocks, options.batch),
                        options.memory_bytes,
                    )?,
                )
            }
            _ => begun(&sources, &options)?,
        };
        let options = Options { seed: order.seed, shuffle: order.shuffle, lanes: Some(order.lanes), ..options };
        let Options { rank, world, batch, last, check_content, .. } = options;
        let plan = Plan::new(sources, order, Ranks { bucketing, rank, world, batch, last, check_content });
        order.check()?;
        // Every epoch has the same number of samples.
        let samples = plan.content(0)?.layout.samples();
        for epoch in plan.sources.iter().flat_map(|source| source.quotas.changes()) {
            let other = plan.content(epoch)?.layout.samples();
            if other != samples {
                let what = format!("epoch 0 of the mix has {samples} samples, and epoch {epoch} has {other}");
                return Err(Error::usage(what));
            }
        }
        if plan.share(samples, 0)?.batches() == 0 {
            let what = format!("an epoch of {samples} samples has no batch of {batch} for {world} ranks");
            return Err(Error::usage(what).in_file(plan.sources[0].dataset.folder()));
        }
        let mixed_classes = mixed_classes(&options, &classes)?;
        for source in plan.sources.iter().filter(|_| mixed_classes > 0) {
            roles::check_mixed(&options.roles, &options.components, &source.dataset.manifest().format.settings)?;
        }
        let loader = Self { plan, options: Options { mixed_classes, ..options }, classes };
        loader.columns()?;
        Ok(loader)
    }

    /// The dataset; for a mix, the first one.
    pub fn dataset(&self) -> &Dataset {
        &self.plan.sources[0].dataset
    }

    /// The dataset with number `source` in a mix, from 0.
    pub fn part(&self, source: usize) -> Option<&Dataset> {
        self.plan.sources.get(source).map(|source| &source.dataset)
    }

    /// The samples of the part with number `source` in a mix, from 0: another loader of the same part takes them as
    /// [`Subset::Selected`], and need not evaluate a [`Subset::Where`] again.
    pub fn selection(&self, source: usize) -> Option<&order::Selection> {
        self.plan.sources.get(source).map(|source| &source.selection)
    }

    /// The lengths of the samples of each part, in its order, if batches are by length: another loader of the same parts takes them
    /// as [`Bucket::lengths`], and need not read them again.
    pub fn lengths(&self) -> Vec<Lengths> {
        self.plan.sources.iter().filter_map(|source| source.lengths.clone()).collect()
    }

    /// Class names in the order of the labels in batches. For a mix, the classes of all datasets, each once. Names that
    /// are not
    /// UTF-8 have replacement characters.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Largest number of samples in a batch: [`Options::batch`], or the share of a rank in an epoch if that is smaller.
    ///
    /// # Errors
    /// None beyond those of [`Loader::new`].
    pub fn most_in_batch(&self) -> Result<u64> {
        self.plan.most_in_batch()
    }

    /// Bytes of the views of a batch, one after the other: [`Views`](crate::Views) has their places.
    ///
    /// # Errors
    /// None beyond those of [`Loader::new`].
    pub fn batch_bytes(&self) -> Result<usize> {
        let most = usize::try_from(self.most_in_batch()?).unwrap_or(usize::MAX);
        Ok(self.options.output.views().bytes(most).unwrap_or(usize::MAX))
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Memory for the runs that are read ahead, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.options.memory_bytes.unwrap_or_else(|| {
            let Plan { sources, order, bucketing, .. } = &self.plan;
            let needs = Needs::new(sources, order.shuffle, order.lanes, self.options.world);
            let buckets = bucketing.as_ref().and_then(|one| one.buckets().ok());
            let needs = match buckets {
                Some(buckets) => needs.in_windows(&buckets, order.run_blocks),
                None => needs,
            };
            needs.usual_bytes()
        })
    }

    /// Memory for decoding with `threads` threads, in bytes, in addition to that for runs: the memory for runs, 1 GiB,
    /// or
    /// 128 MiB per thread, whichever is largest, so that photographs do not wait. An image that needs more is a bad
    /// sample.
    fn decoding_bytes(&self, threads: usize) -> u64 {
        const OF_ALL: u64 = 1 << 30;
        const OF_THREAD: u64 = 128 << 20;
        self.memory_bytes().max(OF_ALL).max(OF_THREAD.saturating_mul(threads as u64))
    }

    /// The options of the order.
    pub fn order(&self) -> &order::Options {
        &self.plan.order
    }

    /// The order of epoch `epoch`; [`Options::bucket`] changes it inside windows. For a subset or a mix, [`Loader::place`] maps its numbers to samples.
    ///
    /// # Errors
    /// None beyond those of [`Loader::new`].
    pub fn epoch(&self, epoch: u64) -> Result<Epoch> {
        Epoch::new(&self.plan.content(epoch)?.layout, &self.plan.order, epoch)
    }

    /// The dataset, from 0, and the number in it, of the sample with number `index` in the order of epoch `epoch`.
    ///
    /// # Errors
    /// If `index` is out of range.
    pub fn place(&self, epoch: u64, index: u64) -> Result<(usize, u64)> {
        let content = self.plan.content(epoch)?;
        let samples = content.layout.samples();
        let is_there = index < samples;
        is_there.then(|| content.place(index)).ok_or_else(|| Error::usage(format!("sample {index} of {samples}")))
    }

    /// Batches of this rank in a whole epoch: the same number for all ranks. With [`Bucket::tokens`], of epoch 0.
    ///
    /// # Errors
    /// None beyond those of [`Loader::new`].
    pub fn batches_of_epoch(&self) -> Result<u64> {
        self.batches_of(0)
    }

    /// Batches of this rank in epoch `epoch`: the same number for all ranks. With [`Bucket::tokens`], it takes about a microsecond
    /// per sample, and differs by epoch.
    ///
    /// # Errors
    /// None beyond those of [`Loader::new`].
    pub fn batches_of(&self, epoch: u64) -> Result<u64> {
        // Otherwise all epochs have the same number.
        self.plan.count_batches(if self.plan.has_tokens() { epoch } else { 0 }, 0)
    }

    /// Batches of this rank in the rest of the epoch of `state`: the same number for all ranks, 0 at the end of the
    /// epoch.
    ///
    /// # Errors
    /// If the state is of another run.
    pub fn batches_left(&self, state: &State) -> Result<u64> {
        self.check(state)?;
        self.plan.count_batches(state.epoch, state.position)
    }

    /// Number of ranks that read each byte: 1 if the number of lanes is a multiple of the number of ranks.
    ///
    /// # Errors
    /// None beyond those of [`Loader::new`].
    pub fn readers(&self) -> Result<u64> {
        let readers = self.plan.lanes(0, 0)?.1.readers();
        let Some(bucketing) = &self.plan.bucketing else { return Ok(readers) };
        let lanes = if self.plan.order.shuffle == Shuffle::Lanes { self.plan.order.lanes } else { 1 };
        Ok(self.plan.world / bucketing.buckets()?.classes(lanes, self.plan.world))
    }

    /// The state at the start of a run.
    pub fn beginning(&self) -> State {
        State::new(&self.plan, 0, 0)
    }

    /// The sum of the receipts of all ranks after epoch `epoch`. Takes a few nanoseconds per sample.
    ///
    /// # Errors
    /// None beyond those of [`Loader::new`].
    pub fn expected(&self, epoch: u64) -> Result<Expected> {
        let (content, lanes) = self.plan.lanes(epoch, 0)?;
        let identity = |index| self.plan.identity(content.place(index));
        let sum: Sum = if self.plan.last == Last::Drop {
            let end = lanes.share().position_after(lanes.share().batches());
            let mut bucketed = self.plan.bucketed(&content, &lanes);
            let position = |place| bucketed.as_mut().map_or(place, |bucketed| bucketed.position(place));
            (0..end).map(position).map(|position| identity(lanes.epoch().sample_at(position))).collect()
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
            true if !self.plan.is_between_batches(state.epoch, state.position)? => {
                Err(Error::data(format!("a state at position {}, within a batch", state.position)))
            }
            true => Ok(()),
            false => Err(Error::usage("the state belongs to a run with another order or other samples")
                .help("resume with the datasets, subsets and shares of the run that saved the state")),
        }
    }

    fn feed(&self, from: &State, counters: &Arc<Counters>) -> Result<Feed> {
        self.check(from)?;
        let memory_bytes = usize::try_from(self.memory_bytes()).unwrap_or(usize::MAX);
        let epochs = (from.epoch, from.position, self.options.epochs);
        let in_flight = self.plan.sources.iter().filter_map(|source| source.dataset.concurrency()).max();
        let read_threads = self.options.read_threads.max(in_flight.unwrap_or(1));
        Feed::start(self.plan.clone(), epochs, memory_bytes, read_threads, Arc::clone(counters))
    }

    /// The components to load.
    fn columns(&self) -> Result<Vec<Wanted>> {
        let Options { components, roles, output, .. } = &self.options;
        let kind = match output {
            Output::Images(views) if views.iter().any(Transform::moves) => CutKind::Moved,
            Output::Images(views) if views.iter().any(|view| !view.mixing().is_empty()) => CutKind::Mixed,
            Output::Images(_) => CutKind::Known,
            _ => CutKind::None,
        };
        let views = if let Output::Images(views) = output { views.len() } else { 1 };
        plan::wanted(&self.plan.sources, components, roles, kind, views)
    }

    /// The role of each component, in the order of [`Options::components`].
    ///
    /// # Errors
    /// If a manifest declares an invalid type.
    pub fn roles(&self) -> Result<Vec<Option<Role>>> {
        Ok(self.columns()?.into_iter().filter(|wanted| wanted.view == 0).map(|wanted| wanted.role).collect())
    }

    /// Starts to make batches at `from`.
    ///
    /// # Errors
    /// If the state is of another run, or a thread cannot be started.
    pub fn batches(&self, from: &State) -> Result<Batches> {
        self.batches_in(from, Vec::new())
    }

    /// As [`Loader::batches`], in memory of the caller. The number of `memories` limits the number of batches that
    /// exist at a
    /// time. Each memory has at least [`Loader::batch_bytes`].
    ///
    /// # Errors
    /// As [`Loader::batches`]; if a memory is too short.
    pub fn batches_in(&self, from: &State, memories: Vec<Box<dyn Memory>>) -> Result<Batches> {
        let batch = usize::try_from(self.most_in_batch()?).unwrap_or(usize::MAX);
        let views = self.options.output.views();
        let ahead = usize::try_from(self.options.ahead_bytes).unwrap_or(usize::MAX) / self.batch_bytes()?.max(1);
        let ring = Ring::new(batch, views, ahead.max(FEWEST_BATCHES), memories)?;
        let counters = Arc::new(Counters::default());
        let threads = match self.options.threads {
            0 => threads::cores(),
            threads => threads,
        };
        let making = Making {
            plan: self.plan.clone(),
            output: self.options.output.clone(),
            on_bad: self.options.on_bad,
            parses_files: self.options.parses_files,
            limits: self.options.limits,
            mean_pixels: OnceLock::new(),
            mixed_classes: self.options.mixed_classes,
            decoding: Arc::new(Budget::new(self.decoding_bytes(threads))),
            columns: self.columns()?,
            counters: Arc::clone(&counters),
        };
        let feed = self.feed(from, &counters)?;
        Batches::start(making, feed, ring, from.clone(), threads)
    }

    /// Starts to read samples one by one at `from`, without decoding or copying.
    ///
    /// # Errors
    /// As [`Loader::batches`].
    pub fn samples(&self, from: &State) -> Result<Samples> {
        let counters = Arc::new(Counters::default());
        Ok(Samples::new(self.feed(from, &counters)?, counters))
    }
}
