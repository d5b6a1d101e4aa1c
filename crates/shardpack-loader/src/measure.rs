//! Read speed and shuffle quality of a dataset on this machine, for `shardpack bench`.
//!
//! Holds at all times: each row runs for about the requested time, or once through all samples if that is shorter; rates count
//! only delivered data, and the bounds are measured in the same run.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use shardpack_format::{Error, Result, image_header::Header};
use shardpack_imaging::{
    Budget,
    crops::{Decoder, Rect, RegionRequest},
};
use shardpack_reader::{Access, Dataset, StoreSettings, Transfers};
use shardpack_runtime::{Instant, threads};

use crate::{
    Limits, Loader, OnBad, Options, Output, State,
    advice::{self, Bound, Facts, Finding},
    cold::Beginning,
    order::{Last, Shuffle},
    quality::{self, Deff, Figure, Times},
    training::{self, Cut, Resize, Size, Transform},
};
pub use crate::{cold::Cold, network::Network};

/// Number of waits to keep.
const MAX_WAITS: usize = 1000;
/// Number of samples to check for whether the samples are images.
const LOOKED_AT: usize = 16;
/// Bytes of images to decode for the bound.
const DECODED_BYTES: usize = 64 << 20;
/// Minimum bytes of one read of the bound.
const READ_BYTES: usize = 1 << 20;

/// Transform of the images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crops {
    /// As in training: `RandomResizedCrop`, then a flip with probability 1/2.
    #[default]
    Train,
    /// As in evaluation: `Resize` of the shorter side to 8/7 of the crop size, then `CenterCrop`; for example 256 and 224.
    Eval,
}

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct Request {
    /// Samples per batch.
    pub batch: u64,
    /// The transform.
    pub crops: Crops,
    /// Side of the crops in pixels, at least 1.
    pub size: u32,
    /// Seed of the order.
    pub seed: u64,
    /// Memory for the runs that are read ahead, in bytes; see [`Options::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// Threads that decode; 0 for the number of cores.
    pub threads: usize,
    /// Longest time of each row.
    pub row: Duration,
    /// Whether to drop the shards from memory before each of the rows [`Measured::plain`] and [`Measured::raw`]; files only.
    pub cold: bool,
    /// Settings of the store from which the dataset was opened.
    pub store: StoreSettings,
}

/// Amount and time of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rate {
    /// Samples; 0 for the plain reading of files.
    pub samples: u64,
    /// Bytes of shards or of records, or of payloads for rows that decode.
    pub bytes: u64,
    /// Milliseconds.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub elapsed_ms: f64,
    /// Milliseconds of CPU time of all threads of this process in the row, including kernel time.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub cpu_ms: f64,
}

impl Rate {
    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.elapsed_ms.max(1e-6) * 1e3
    }

    /// Samples per second.
    pub fn samples_per_s(&self) -> f64 {
        self.samples as f64 / self.elapsed_ms.max(1e-6) * 1e3
    }

    /// Milliseconds of CPU time per sample.
    pub fn cpu_ms_per_sample(&self) -> f64 {
        self.cpu_ms / self.samples.max(1) as f64
    }
}

/// How long a consumer without work of its own waited for each batch, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waits {
    /// Number of batches.
    pub batches: u64,
    /// Wait for the first batch, which includes opening and the first reads.
    pub first_ms: f64,
    /// Median of the other waits.
    pub median_ms: f64,
    /// 99th percentile of the other waits.
    pub p99_ms: f64,
    /// Longest of the other waits.
    pub longest_ms: f64,
}

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Lanes of the order, and blocks of a run.
    pub lanes: u64,
    /// See [`Measured::lanes`].
    pub run_blocks: u64,
    /// The shards, read one after the other by one thread, in pieces of 1 MiB; over a network in requests of 8 MiB.
    pub plain: Rate,
    /// Samples in the order of lanes, as stored.
    pub raw: Rate,
    /// Source of the bytes of these two rows, for [`Request::cold`].
    pub cold: Option<[Cold; 2]>,
    /// Peak memory of runs, in bytes.
    pub peak_run_bytes: u64,
    /// Whole images decoded by all threads, from memory; `None` if the samples are not images.
    pub decode: Option<Rate>,
    /// Batches of crops; `None` if the samples are not images.
    pub crops: Option<Rate>,
    /// Samples made for batches, including samples made ahead and not delivered in time.
    pub made: u64,
    /// Number of these samples that were decoded with a crop table.
    pub by_table: u64,
    /// JPEGs among these samples whose shard has no crop tables.
    pub without_tables: u64,
    /// Ways to make the row [`Measured::crops`] faster.
    pub findings: Vec<Finding>,
    /// Bad samples, which were skipped and are not in [`Measured::made`].
    pub skipped: u64,
    /// Waits for these batches, or for batches of encoded samples if the samples are not images.
    pub waits: Waits,
    /// Network use; `None` if all data was read from files.
    pub network: Option<Network>,
    /// R of two epochs; `None` if there are too few samples.
    pub r: Option<Figure>,
    /// DEFF of an epoch; `None` if there are too few samples or only one class.
    pub deff: Option<Figure>,
    /// Correlations of place in the run with time, and of times in two epochs; `None` if there are too few runs.
    pub times: Option<Times>,
    /// Number of delivered samples for R and DEFF.
    pub ordered: u64,
    /// Whether two whole epochs were delivered; if not, the order gives the positions in the second epoch. Over a network the
    /// second epoch is not read.
    pub is_whole: bool,
}

/// Measures `dataset`; calls `said` with a line of text at the start of each row.
///
/// # Errors
/// If the dataset is empty, an option is out of range, a read fails, or `cold` is set for a dataset at a URL.
pub fn measure(dataset: &Dataset, request: &Request, said: &dyn Fn(&str)) -> Result<Measured> {
    let watch = Watch { row: request.row };
    let Access { page_cache, .. } = dataset.access();
    if request.cold && !page_cache {
        let error =
            Error::usage("--cold: data at a URL is not in this machine's page cache, so nothing can be dropped");
        return Err(error.in_file(dataset.folder()));
    }
    let threads = match request.threads {
        0 => threads::cores(),
        threads => threads,
    };
    let options = |output, epochs| Options {
        batch: request.batch,
        seed: request.seed,
        memory_bytes: request.memory_bytes,
        threads,
        on_bad: OnBad::Skip,
        last: Last::Short,
        shuffle: Shuffle::Lanes,
        output,
        epochs,
        ..Options::default()
    };
    let open = || Dataset::open_with(dataset.folder(), &request.store);
    said("reading the shards one after the other");
    let beginning = || request.cold.then(|| Beginning::drop_cache(dataset)).transpose();
    let begun = beginning()?;
    let plain = read_plain(dataset, &watch)?;
    let plain_cold = begun.map(|begun| begun.end(plain.bytes));
    said("reading samples in the order of lanes");
    // One epoch each: otherwise reads ahead of the next epoch would slow down the measured one.
    let loader = Loader::new(open()?, options(Output::Encoded, 1))?;
    let begun = beginning()?;
    let Raw { rate: raw, numbers: first, peak_run_bytes, transfers } = read_raw(&loader, 0, &watch)?;
    let network = transfers.map(|row| Network::from_row(loader.dataset(), raw.samples, row));
    // The share of the shard files that this row has read; files may be compressed, so the share of samples stands for bytes.
    let share = raw.samples as f64 / dataset.len().max(1) as f64;
    let raw_cold = begun.map(|begun| begun.end((dataset.manifest().shard_bytes as f64 * share) as u64));
    // The second epoch does not justify downloading all its bytes.
    let second = match page_cache {
        false => Vec::new(),
        true => read_raw(&Loader::new(open()?, options(Output::Encoded, 2))?, 1, &watch)?.numbers,
    };
    let (r, deff, times) = mixed(&loader, request.batch, &first, &second)?;
    let images = images(&loader, &watch)?;
    let mut measured = Measured {
        lanes: loader.order().lanes,
        run_blocks: loader.order().run_blocks,
        plain,
        raw,
        cold: plain_cold.zip(raw_cold).map(<[Cold; 2]>::from),
        peak_run_bytes,
        decode: None,
        crops: None,
        made: 0,
        by_table: 0,
        without_tables: 0,
        findings: Vec::new(),
        skipped: 0,
        waits: Waits { batches: 0, first_ms: 0.0, median_ms: 0.0, p99_ms: 0.0, longest_ms: 0.0 },
        network,
        r,
        deff,
        times,
        ordered: first.len() as u64,
        is_whole: first.len() as u64 == dataset.len() && second.len() as u64 == dataset.len(),
    };
    if images.is_empty() {
        said("making batches of samples as they are");
        let (_, stats, waits, _) = batches(&loader, &watch)?;
        (measured.made, measured.skipped, measured.waits) = (stats.samples, stats.skipped, waits);
        measured.came(&[dataset, loader.dataset()]);
        return Ok(measured);
    }
    said("decoding whole images from memory");
    measured.decode = Some(decode_whole(&images, threads, &watch)?);
    said("making batches of crops");
    let transform = Transform::new(request.crops.training_options(request.size))
        .map_err(|error| Error::usage(error.to_string()))?;
    let crops = Loader::new(open()?, options(Output::images(transform), 1))?;
    let (rate, stats, waits, facts) = batches(&crops, &watch)?;
    (measured.crops, measured.waits) = (Some(rate), waits);
    measured.findings = advice::findings(&facts, Bound::Decode);
    (measured.made, measured.skipped) = (stats.samples, stats.skipped);
    (measured.by_table, measured.without_tables) = (stats.decoded_by_table, stats.without_tables);
    measured.came(&[dataset, loader.dataset(), crops.dataset()]);
    Ok(measured)
}

impl Measured {
    /// Sums the transfers of these datasets.
    fn came(&mut self, datasets: &[&Dataset]) {
        if let Some(network) = &mut self.network {
            network.all =
                datasets.iter().filter_map(|dataset| dataset.transfers()).fold(Transfers::default(), Transfers::and);
        }
    }
}

impl Crops {
    fn training_options(self, side: u32) -> training::Options {
        let size = Size::square(side);
        match self {
            Self::Train => training::Options { flip: 0.5, ..training::Options::new(Cut::random_resized(size)) },
            Self::Eval => {
                let short = u32::try_from(u64::from(side) * 8 / 7).unwrap_or(side);
                training::Options::new(Cut::Center { resize: Resize::Short(short), size })
            }
        }
    }
}

/// Start of a row, in wall time and in CPU time of this process.
struct Began {
    at: Instant,
    cpu: Duration,
}

impl Began {
    fn now() -> Self {
        Self { at: Instant::now(), cpu: cpu() }
    }

    fn rate(&self, samples: u64, bytes: u64) -> Rate {
        let cpu_ms = cpu().saturating_sub(self.cpu).as_secs_f64() * 1e3;
        Rate { samples, bytes, elapsed_ms: elapsed_ms(self.at), cpu_ms }
    }
}

/// CPU time of all threads of this process so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Time limit of a row.
struct Watch {
    row: Duration,
}

impl Watch {
    /// Whether a row that began at `since` has used up its time.
    fn is_over(&self, since: Instant) -> bool {
        since.elapsed() >= self.row
    }
}

fn elapsed_ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn read_plain(dataset: &Dataset, watch: &Watch) -> Result<Rate> {
    let piece_bytes = READ_BYTES.max(dataset.access().sequence_bytes as usize);
    let (began, mut bytes, mut buffer) = (Began::now(), 0, vec![0; piece_bytes]);
    'shards: for shard in dataset.shards() {
        let end = shard.entry().bytes;
        let mut at = 0;
        while at < end {
            let piece = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            shard.read_stored(at, &mut buffer[..piece])?;
            at += piece as u64;
            bytes += piece as u64;
            if watch.is_over(began.at) {
                break 'shards;
            }
        }
    }
    Ok(began.rate(0, bytes))
}

/// The samples read from an epoch.
struct Raw {
    rate: Rate,
    /// In delivered order.
    numbers: Vec<u64>,
    peak_run_bytes: u64,
    /// Transfers of the dataset since it was opened.
    transfers: Option<Transfers>,
}

fn read_raw(loader: &Loader, epoch: u64, watch: &Watch) -> Result<Raw> {
    let mut from = loader.beginning();
    from.epoch = epoch;
    // Threads read ahead from the start.
    let (began, mut numbers, mut bytes) = (Began::now(), Vec::new(), 0);
    let mut samples = loader.samples(&from)?;
    let Access { page_cache, .. } = loader.dataset().access();
    while let Some(fetched) = samples.next()? {
        // A bad sample delivers no bytes; the batches below count bad samples.
        bytes += fetched.sample().map_or(0, |sample| u64::from(sample.row().record_bytes));
        numbers.push(fetched.number());
        // From memory, checking the clock for every sample would cost too much.
        if (!page_cache || numbers.len() % 64 == 0) && watch.is_over(began.at) {
            break;
        }
    }
    let rate = began.rate(numbers.len() as u64, bytes);
    let transfers = loader.dataset().transfers();
    Ok(Raw { rate, numbers, peak_run_bytes: samples.stats().peak_run_bytes, transfers })
}

/// R, DEFF and correlations.
type Mixed = (Option<Figure>, Option<Figure>, Option<Times>);

/// R, DEFF and correlations of the delivered samples, for one rank.
fn mixed(loader: &Loader, batch: u64, first: &[u64], second: &[u64]) -> Result<Mixed> {
    let samples = loader.dataset().len();
    let batches = |numbers: &[u64]| -> Vec<Vec<u64>> {
        numbers.chunks(usize::try_from(batch).unwrap_or(usize::MAX)).map(<[u64]>::to_vec).collect()
    };
    let delivered: HashMap<u64, u64> =
        second.iter().enumerate().map(|(position, sample)| (*sample, position as u64)).collect();
    let order = loader.epoch(1)?;
    let is_whole = delivered.len() as u64 == samples;
    let position_of = |sample| match delivered.get(&sample) {
        Some(position) => Some(*position),
        None if is_whole => None,
        None => Some(order.position_of(sample)),
    };
    let both = first.iter().enumerate();
    let both = both.filter_map(|(position, sample)| Some((*sample, position as u64, position_of(*sample)?)));
    let times = Times::measure(&loader.epoch(0)?, both);
    let first = batches(first);
    let r = quality::repeated_pairs(&first, samples, batch, |sample| Some(position_of(sample)? / batch));
    Ok((r, deff(loader.dataset(), &first)?, times))
}

/// DEFF of batches of the length of the first one, drawn from the whole dataset.
fn deff(dataset: &Dataset, batches: &[Vec<u64>]) -> Result<Option<Figure>> {
    let classes = dataset.classes();
    let mut counts: Vec<u64> = classes.iter().map(|class| class.counts.packed).collect();
    // Samples without a class form one class.
    counts.push(dataset.len().saturating_sub(counts.iter().sum()));
    let mut deff = Deff::new(&counts, batches.first().map_or(1, |batch| batch.len() as u64));
    for batch in batches {
        let class = |sample: &u64| -> Result<usize> {
            let label = dataset.row(*sample)?.label.and_then(|label| usize::try_from(label).ok());
            Ok(label.map_or(classes.len(), |label| label.min(classes.len())))
        };
        deff.add(batch.iter().map(class).collect::<Result<Vec<_>>>()?.into_iter());
    }
    Ok(deff.figure())
}

/// Some of the images in memory, in training order; empty if no sample can be decoded.
fn images(loader: &Loader, watch: &Watch) -> Result<Vec<Vec<u8>>> {
    let began = Instant::now();
    let mut samples = loader.samples(&loader.beginning())?;
    let (mut decoder, budget) = (Decoder::new(Limits::default()), Budget::new(DECODING_BYTES));
    let (mut images, mut bytes, mut pixels) = (Vec::new(), 0, Vec::new());
    let (mut looked, mut found) = (0_usize, 0_usize);
    while let Some(fetched) = samples.next()? {
        let Ok(sample) = fetched.sample() else { continue };
        looked += 1;
        // The first samples are decoded to detect whether the samples are images; some may be damaged.
        let is_image = looked > LOOKED_AT || decoded(&mut decoder, &budget, sample.bytes(), &mut pixels);
        found += usize::from(is_image);
        if looked == LOOKED_AT && found == 0 {
            break;
        }
        bytes += sample.bytes().len();
        if is_image {
            images.push(sample.bytes().to_vec());
        }
        if bytes > DECODED_BYTES || looked >= LOOKED_AT && watch.is_over(began) {
            break;
        }
    }
    Ok(images)
}

/// Memory for decoding whole images, enough for many threads or for one huge image.
const DECODING_BYTES: u64 = 4 << 30;

/// Decodes a whole image, and returns whether that succeeded.
fn decoded(decoder: &mut Decoder, budget: &Budget, image: &[u8], pixels: &mut Vec<u8>) -> bool {
    let Ok(_taken) = budget.for_decode(image) else { return false };
    let header = Header::parse(image);
    let rect = Rect { x: 0, y: 0, width: header.width, height: header.height };
    decoder.region(image, None, &RegionRequest { rect, reduce_by: 1, padded: false }, pixels).is_ok()
}

fn decode_whole(images: &[Vec<u8>], jobs: usize, watch: &Watch) -> Result<Rate> {
    let (began, next, bytes) = (Began::now(), AtomicU64::new(0), AtomicU64::new(0));
    // One pass may take a fraction of a second, and a thread that starts late would distort the rate.
    let least = Duration::from_secs(1).min(watch.row / 4);
    let budget = Budget::new(DECODING_BYTES);
    let work = || {
        let (mut decoder, mut pixels, mut done) = (Decoder::new(Limits::default()), Vec::new(), 0);
        loop {
            let number = next.fetch_add(1, Relaxed) as usize;
            let is_enough = number >= images.len().max(64) && began.at.elapsed() >= least;
            if is_enough || watch.is_over(began.at) {
                return done;
            }
            let image = &images[number % images.len()];
            if decoded(&mut decoder, &budget, image, &mut pixels) {
                done += 1;
                bytes.fetch_add(image.len() as u64, Relaxed);
            }
        }
    };
    let samples: u64 = threads::gather(jobs, work).into_iter().sum();
    Ok(began.rate(samples, bytes.load(Relaxed)))
}

fn batches(loader: &Loader, watch: &Watch) -> Result<(Rate, crate::Stats, Waits, Facts)> {
    let from: State = loader.beginning();
    let began = Began::now();
    let mut batches = loader.batches(&from)?;
    let (mut waits, mut numbers) = (Vec::new(), Vec::new());
    loop {
        let asked = Instant::now();
        let Some(batch) = batches.next()? else { break };
        if waits.len() < MAX_WAITS {
            waits.push(elapsed_ms(asked));
        }
        numbers.extend_from_slice(batch.samples());
        if watch.is_over(began.at) {
            break;
        }
    }
    let mut rate = began.rate(numbers.len() as u64, 0);
    let (stats, facts) = (batches.stats(), batches.facts());
    // Counts delivered samples only: the statistics include samples made ahead.
    for number in numbers {
        rate.bytes += u64::from(loader.dataset().row(number)?.payload().1);
    }
    let first_ms = waits.first().copied().unwrap_or(0.0);
    let mut others = waits.get(1..).unwrap_or_default().to_vec();
    others.sort_by(f64::total_cmp);
    let at = |share: f64| others.get((others.len() as f64 * share) as usize).or(others.last()).copied().unwrap_or(0.0);
    let waits = Waits {
        batches: waits.len() as u64,
        first_ms,
        median_ms: at(0.5),
        p99_ms: at(0.99),
        longest_ms: others.last().copied().unwrap_or(0.0),
    };
    Ok((rate, stats, waits, facts))
}
