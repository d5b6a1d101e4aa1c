//! How fast a dataset can be read here, and how well it is shuffled: what `shardpack bench` tells.
//!
//! Holds at all times: each row runs for about the time that it was given or once through all samples, whichever is sooner;
//! rates are of what was really delivered, with the bounds measured in the same run.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use shardpack_format::{Error, Result, image_header::Header, threads};
use shardpack_imaging::{
    Budget,
    crops::{Decoder, Rect, Wanted},
};
use shardpack_reader::{Dataset, StoreSettings, Transfers};

use crate::{
    Limits, Loader, OnBad, Options, Output, State,
    cold::Beginning,
    order::{Last, Shuffle},
    quality::{self, Deff, Figure, Times},
    training::{self, Cut, Resize, Size, Transform},
};
pub use crate::{cold::Cold, network::Network};

/// Waits that are kept.
const MOST_WAITS: usize = 1000;
/// So many samples tell whether all are images.
const LOOKED_AT: usize = 16;
/// Images that are decoded for the bound, in bytes.
const DECODED_BYTES: usize = 64 << 20;
/// Bytes of one read of the bound, from a file and over a network, where each is a request.
const READ_BYTES: usize = 1 << 20;
const REQUEST_BYTES: usize = 8 << 20;

/// What is made of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crops {
    /// As one trains: `RandomResizedCrop`, then a flip of every other one.
    #[default]
    Train,
    /// As one evaluates: `Resize` of the shorter side to 8/7 of the crop's, then `CenterCrop`; 256 and 224, say.
    Eval,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Request {
    /// Samples of a batch.
    pub batch: u64,
    /// Which crops.
    pub crops: Crops,
    /// Side of the crops in pixels: at least 1.
    pub size: u32,
    /// Chooses the order.
    pub seed: u64,
    /// Memory for the runs that are read ahead; see [`Options::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// Threads that decode; 0 for all cores.
    pub threads: usize,
    /// How long each row takes at most.
    pub row: Duration,
    /// Whether the shards are dropped from memory before the rows [`Measured::plain`] and [`Measured::raw`] each; of files alone.
    pub cold: bool,
    /// What is said of the store that the dataset was opened from.
    pub store: StoreSettings,
}

/// How much was done in what time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rate {
    /// Samples; of the plain reading of files: 0.
    pub samples: u64,
    /// Bytes of shards, of records, or of payloads where they are decoded.
    pub bytes: u64,
    /// Milliseconds.
    pub elapsed_ms: f64,
    /// Milliseconds of CPU that all threads of this process took meanwhile, in the kernel too.
    pub cpu_ms: f64,
}

impl Rate {
    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.elapsed_ms.max(1e-6) * 1e3
    }

    /// Samples a second.
    pub fn samples_per_s(&self) -> f64 {
        self.samples as f64 / self.elapsed_ms.max(1e-6) * 1e3
    }

    /// Milliseconds of CPU that a sample took.
    pub fn cpu_ms_per_sample(&self) -> f64 {
        self.cpu_ms / self.samples.max(1) as f64
    }
}

/// How long a consumer that does nothing waited for each batch, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waits {
    /// Batches that were waited for.
    pub batches: u64,
    /// The first, which has everything to be opened and read before it.
    pub first_ms: f64,
    /// Half of the others waited no longer.
    pub median_ms: f64,
    /// 99 of 100 of the others waited no longer.
    pub p99_ms: f64,
    /// The longest of the others.
    pub longest_ms: f64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Lanes of the order, and blocks of a run.
    pub lanes: u64,
    /// See [`Measured::lanes`].
    pub run_blocks: u64,
    /// The shards read one after the other, by one thread, in pieces of 1 MiB; over a network in requests of 8 MiB.
    pub plain: Rate,
    /// Samples in the order of lanes, as they are stored.
    pub raw: Rate,
    /// Where the bytes of these two rows came from, if they were to be cold.
    pub cold: Option<[Cold; 2]>,
    /// Most memory that runs took.
    pub peak_run_bytes: u64,
    /// Whole images decoded by all threads, from memory; `None` where samples are no images.
    pub decode: Option<Rate>,
    /// Batches of crops; `None` as above.
    pub crops: Option<Rate>,
    /// Samples that were made for batches, those that were made ahead and not delivered in the time included.
    pub made: u64,
    /// How many of these were decoded with a crop table.
    pub by_table: u64,
    /// JPEGs among these whose shard has no crop tables.
    pub without_tables: u64,
    /// Samples that are not right and were left out, beside these.
    pub skipped: u64,
    /// The waits for these batches, or, without images, for those of encoded samples.
    pub waits: Waits,
    /// What came over a network; `None` where all was read from files.
    pub network: Option<Network>,
    /// R of two epochs; `None` where there are too few samples.
    pub r: Option<Figure>,
    /// DEFF of an epoch; `None` as above, or for one class.
    pub deff: Option<Figure>,
    /// Of place in the run and time, and of times in two epochs; `None` where there are too few runs.
    pub times: Option<Times>,
    /// Samples that R and DEFF were measured on: delivered ones.
    pub ordered: u64,
    /// Whether these are two whole epochs; if not, places in the second are told by its order. Over a network the second is not read.
    pub is_whole: bool,
}

/// Measures `dataset`; `said` is told what begins.
///
/// # Errors
/// When the dataset is empty, an option is out of range, something cannot be read, or what is at a URL is to be cold.
pub fn measure(dataset: &Dataset, request: &Request, said: &dyn Fn(&str)) -> Result<Measured> {
    let watch = Watch { row: request.row };
    let is_remote = dataset.transfers().is_some();
    if request.cold && is_remote {
        let error =
            Error::usage("--cold: of what is at a URL nothing is in this machine's memory that could be dropped");
        return Err(error.in_file(dataset.folder()));
    }
    let threads = match request.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
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
    let beginning = || request.cold.then(|| Beginning::of(dataset)).transpose();
    let begun = beginning()?;
    let plain = read_plain(dataset, &watch)?;
    let plain_cold = begun.map(|begun| begun.end(plain.bytes));
    said("reading samples in the order of lanes");
    // Each of one epoch: what is read ahead of the next one would be paid by the one that is measured.
    let loader = Loader::new(open()?, options(Output::Encoded, 1))?;
    let begun = beginning()?;
    let Raw { rate: raw, numbers: first, peak_run_bytes, transfers } = read_raw(&loader, 0, &watch)?;
    let network = transfers.map(|row| Network::of(loader.dataset(), raw.samples, row));
    // What it has read, of files that may be compressed: as much of them as of the samples.
    let share = raw.samples as f64 / dataset.len().max(1) as f64;
    let raw_cold = begun.map(|begun| begun.end((dataset.manifest().shard_bytes as f64 * share) as u64));
    // What it would add is not worth the bytes of a whole epoch.
    let second = match is_remote {
        true => Vec::new(),
        false => read_raw(&Loader::new(open()?, options(Output::Encoded, 2))?, 1, &watch)?.numbers,
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
        let (_, stats, waits) = batches(&loader, &watch)?;
        (measured.made, measured.skipped, measured.waits) = (stats.samples, stats.skipped, waits);
        measured.came(&[dataset, loader.dataset()]);
        return Ok(measured);
    }
    said("decoding whole images from memory");
    measured.decode = Some(decode_whole(&images, threads, &watch)?);
    said("making batches of crops");
    let transform = Transform::new(request.crops.of(request.size)).map_err(|error| Error::usage(error.to_string()))?;
    let crops = Loader::new(open()?, options(Output::Images(Box::new(transform)), 1))?;
    let (rate, stats, waits) = batches(&crops, &watch)?;
    (measured.crops, measured.waits) = (Some(rate), waits);
    (measured.made, measured.skipped) = (stats.samples, stats.skipped);
    (measured.by_table, measured.without_tables) = (stats.decoded_by_table, stats.without_tables);
    measured.came(&[dataset, loader.dataset(), crops.dataset()]);
    Ok(measured)
}

impl Measured {
    /// All that came for the rows, which read from these.
    fn came(&mut self, datasets: &[&Dataset]) {
        if let Some(network) = &mut self.network {
            network.all =
                datasets.iter().filter_map(|dataset| dataset.transfers()).fold(Transfers::default(), Transfers::and);
        }
    }
}

impl Crops {
    fn of(self, side: u32) -> training::Options {
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

/// When something began, by the clock and by the CPU time of this process.
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

/// What all threads of this process have taken so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// How long a row may go on.
struct Watch {
    row: Duration,
}

impl Watch {
    /// Whether a row that began then is over.
    fn is_over(&self, since: Instant) -> bool {
        since.elapsed() >= self.row
    }
}

fn elapsed_ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn read_plain(dataset: &Dataset, watch: &Watch) -> Result<Rate> {
    let piece_bytes = if dataset.transfers().is_some() { REQUEST_BYTES } else { READ_BYTES };
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

/// Samples of an epoch that were read.
struct Raw {
    rate: Rate,
    /// In the order in which they came.
    numbers: Vec<u64>,
    peak_run_bytes: u64,
    /// Of the dataset since it was opened.
    transfers: Option<Transfers>,
}

fn read_raw(loader: &Loader, epoch: u64, watch: &Watch) -> Result<Raw> {
    let mut from = loader.beginning();
    from.epoch = epoch;
    // Threads read ahead from the first moment on.
    let (began, mut numbers, mut bytes) = (Began::now(), Vec::new(), 0);
    let mut samples = loader.samples(&from)?;
    let is_remote = loader.dataset().transfers().is_some();
    while let Some(fetched) = samples.next()? {
        // Of what is not right nothing is delivered; the batches below count it.
        bytes += fetched.sample().map_or(0, |sample| u64::from(sample.row().record_bytes));
        numbers.push(fetched.number());
        // From memory it would be looked at as often as there are microseconds.
        if (is_remote || numbers.len() % 64 == 0) && watch.is_over(began.at) {
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
    let times = Times::of(&loader.epoch(0)?, both);
    let first = batches(first);
    let r = quality::again(&first, samples, batch, |sample| Some(position_of(sample)? / batch));
    Ok((r, deff(loader.dataset(), &first)?, times))
}

/// DEFF of batches, each of the length of the first, out of the whole dataset.
fn deff(dataset: &Dataset, batches: &[Vec<u64>]) -> Result<Option<Figure>> {
    let classes = dataset.classes();
    let mut counts: Vec<u64> = classes.iter().map(|class| class.counts.packed).collect();
    // Samples without a class are one.
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

/// Some of the images in memory, in the order in which they are trained on; none where samples are none that decode.
fn images(loader: &Loader, watch: &Watch) -> Result<Vec<Vec<u8>>> {
    let began = Instant::now();
    let mut samples = loader.samples(&loader.beginning())?;
    let (mut decoder, budget) = (Decoder::new(Limits::default()), Budget::new(DECODING_BYTES));
    let (mut images, mut bytes, mut pixels) = (Vec::new(), 0, Vec::new());
    let (mut looked, mut found) = (0_usize, 0_usize);
    while let Some(fetched) = samples.next()? {
        let Ok(sample) = fetched.sample() else { continue };
        looked += 1;
        // The first ones are decoded, to know whether these are images; damaged ones may be among them.
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

/// Memory for whole images: those of many threads, or a huge one.
const DECODING_BYTES: u64 = 4 << 30;

/// Decodes the whole of an image.
fn decoded(decoder: &mut Decoder, budget: &Budget, image: &[u8], pixels: &mut Vec<u8>) -> bool {
    let Ok(_taken) = budget.for_decode(image) else { return false };
    let header = Header::of(image);
    let rect = Rect { x: 0, y: 0, width: header.width, height: header.height };
    decoder.region(image, None, &Wanted { rect, reduce_by: 1, padded: false }, pixels).is_ok()
}

fn decode_whole(images: &[Vec<u8>], jobs: usize, watch: &Watch) -> Result<Rate> {
    let (began, next, bytes) = (Began::now(), AtomicU64::new(0), AtomicU64::new(0));
    // Once through them is a fraction of a second, in which a thread that starts late would count.
    let least = watch.row / 4;
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

fn batches(loader: &Loader, watch: &Watch) -> Result<(Rate, crate::Stats, Waits)> {
    let from: State = loader.beginning();
    let began = Began::now();
    let mut batches = loader.batches(&from)?;
    let (mut waits, mut numbers) = (Vec::new(), Vec::new());
    loop {
        let asked = Instant::now();
        let Some(batch) = batches.next()? else { break };
        if waits.len() < MOST_WAITS {
            waits.push(elapsed_ms(asked));
        }
        numbers.extend_from_slice(batch.samples());
        if watch.is_over(began.at) {
            break;
        }
    }
    let mut rate = began.rate(numbers.len() as u64, 0);
    let stats = batches.stats();
    // Of what was delivered: the statistics have what was made ahead, too.
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
    Ok((rate, stats, waits))
}
