//! `shardpack bench`: measures read speed and shuffle quality of a dataset on this machine.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Serialize;
use shardpack_format::text;
use shardpack_loader::{
    advice::Finding,
    measure::{self, Cold, Crops, Measured, Network, Rate, Request, Waits},
    quality::{Figure, Times},
};
use shardpack_packer::Result;
use shardpack_reader::Dataset;

use crate::{
    Outcome,
    args::{self, StoreArgs, Talk},
    document,
    lines::Lines,
    report,
};

/// `--transform`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Way {
    /// Random resized crops; every other one is flipped
    Train,
    /// Resize the shorter side to 8/7 of the crop, then crop the centre
    Eval,
}

/// Options of `bench`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack bench packed/
  shardpack bench packed/ --batch 256 --memory 1GiB --seconds 60
  shardpack bench packed/ --cold
  shardpack bench s3://bucket/packed
  shardpack bench packed/ --json | jq .datasets[0].raw

The shards are read sequentially first, then in training order, both through the page cache. So a dataset that fits in memory \
measures the loader, and a larger dataset measures the disk. With --cold, both reads come from the disk, and each row reports \
whether it really did.

For URLs, all data is read over the network. The output has the requests and bytes of one epoch, and those of all rows, which may \
cost money; --seconds limits them. R needs a second epoch, which is derived from its order instead of read.")]
pub struct Args {
    /// Folder of a dataset, or of its splits; also at a URL: s3://, gs://, az://, abfss://, https://
    folder: PathBuf,
    /// Samples per batch
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    batch: u64,
    /// Transform to apply to images
    #[arg(long, default_value = "train", value_enum)]
    transform: Way,
    /// Side of the crops in pixels
    #[arg(long, value_name = "PIXELS", default_value = "224", value_parser = clap::value_parser!(u32).range(1..=8192))]
    crop: u32,
    /// Seed of the order
    #[arg(help_heading = crate::help::SHARDS, long, default_value = "0", value_name = "N")]
    seed: u64,
    /// Memory for read-ahead [default: 256MiB, more if the lanes of large batches need it]
    #[arg(long, value_name = "SIZE", value_parser = args::large_size)]
    memory: Option<u64>,
    /// Number of threads that decode [default: all cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Maximum time of each row, in seconds
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=86400))]
    seconds: u64,
    /// Drop the shards from the page cache before each read, sequential and in training order. Not for URLs
    #[arg(long)]
    cold: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    talk: Talk,
}

impl Args {
    /// Paths that may be URLs.
    pub fn urls(&self) -> Vec<&Path> {
        vec![&self.folder]
    }
}

/// Runs `bench`.
pub fn run(args: &Args) -> Result<Outcome> {
    let request = Request {
        batch: args.batch,
        crops: match args.transform {
            Way::Train => Crops::Train,
            Way::Eval => Crops::Eval,
        },
        size: args.crop,
        seed: args.seed,
        memory_bytes: args.memory,
        threads: args.jobs.map_or(0, usize::from),
        row: Duration::from_secs(args.seconds),
        cold: args.cold,
        store: args.store.settings()?,
    };
    // Nothing is written, so the default handling of Ctrl-C is fine.
    let mut all = Vec::new();
    for dataset in Dataset::open_all_with(&args.folder, &request.store)? {
        let name = dataset.name().to_owned();
        let said = |what: &str| {
            if !args.talk.quiet {
                report::say(&format!("{name}: {what}"));
            }
        };
        let measured = measure::measure(&dataset, &request, &said)?;
        if args.talk.json {
            all.push(MeasuredDataset::new(&dataset, &measured));
        } else {
            report::print(&text(&dataset, args, &measured))?;
        }
    }
    if args.talk.json {
        report::print_json(&Document { datasets: all })?;
    }
    Ok(Outcome::Done)
}

/// The document of `bench`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Measured"))]
pub struct Document {
    /// One dataset, or one for each split.
    datasets: Vec<MeasuredDataset>,
}

/// A measured dataset.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MeasuredDataset {
    /// Folder or URL of the dataset.
    folder: String,
    /// Name of the dataset.
    name: String,
    /// Number of samples.
    samples: u64,
    /// Length of the shards in bytes.
    shard_bytes: u64,
    /// Lanes of the order.
    lanes: u64,
    /// Blocks of a run.
    run_blocks: u64,
    /// Peak memory of runs in bytes.
    peak_run_bytes: u64,
    /// The shards, read one after the other.
    plain: Rate,
    /// Samples in training order, as stored.
    raw: Rate,
    /// Source of the bytes of the rows `plain` and `raw`; null without `--cold`.
    cold: Option<ColdRows>,
    /// Whole images decoded from memory; null if the samples are not images.
    decode: Option<Rate>,
    /// Batches of crops; null if the samples are not images.
    crops: Option<Rate>,
    /// Samples made for batches, including samples that were not delivered in time.
    made: u64,
    /// Ways to make the row `crops` faster.
    findings: Vec<Finding>,
    /// Number of these samples that were decoded with a crop table.
    by_table: u64,
    /// JPEGs among these samples whose shard has no crop tables.
    without_tables: u64,
    /// Samples with invalid data, which are not in `made`.
    skipped: u64,
    waits: Waits,
    /// Requests of the first epoch of a run, manifest and indexes included; null if all data was read from files.
    epoch: Option<EpochRequests>,
    /// Requests of all rows; null if all data was read from files.
    network: Option<document::Network>,
    /// R; null if there are too few samples.
    r: Option<Figure>,
    /// DEFF; null if there are too few samples or only one class.
    deff: Option<Figure>,
    /// Correlation of place in the run and time: 0 is a true shuffle; null if there are too few runs.
    place_and_time: Option<Figure>,
    /// Correlation of the times in two epochs: 0 is a true shuffle; null if there are too few runs.
    times_of_two_epochs: Option<Figure>,
    /// Delivered samples for these figures.
    ordered: u64,
    /// Whether two whole epochs were delivered.
    whole_epochs: bool,
}

/// Source of the bytes of two rows.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ColdRows {
    plain: Cold,
    raw: Cold,
}

/// Requests of an epoch.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EpochRequests {
    /// Requests that were sent.
    requests: u64,
    /// Bytes received.
    received_bytes: u64,
    /// Requests that were sent again because they failed or were cut.
    requests_again: u64,
    /// Responses that reported too many requests.
    throttled: u64,
    /// Whether the row `raw` read the whole epoch; if not, the rest is extrapolated from the part that was read.
    is_measured: bool,
    /// Limit of requests in flight at the end of the row.
    in_flight: usize,
}

impl MeasuredDataset {
    fn new(dataset: &Dataset, measured: &Measured) -> Self {
        let epoch = |network: Network| EpochRequests {
            requests: network.epoch.requests,
            received_bytes: network.epoch.bytes,
            requests_again: network.epoch.again,
            throttled: network.epoch.too_many,
            is_measured: network.is_whole,
            in_flight: network.in_flight,
        };
        Self {
            folder: text::path(dataset.folder()).to_string(),
            name: dataset.name().to_owned(),
            samples: dataset.len(),
            shard_bytes: dataset.manifest().shard_bytes,
            lanes: measured.lanes,
            run_blocks: measured.run_blocks,
            peak_run_bytes: measured.peak_run_bytes,
            plain: measured.plain,
            raw: measured.raw,
            cold: measured.cold.map(|[plain, raw]| ColdRows { plain, raw }),
            decode: measured.decode,
            crops: measured.crops,
            made: measured.made,
            findings: measured.findings.clone(),
            by_table: measured.by_table,
            without_tables: measured.without_tables,
            skipped: measured.skipped,
            waits: measured.waits,
            epoch: measured.network.map(epoch),
            network: measured.network.map(|network| network.all.into()),
            r: measured.r,
            deff: measured.deff,
            place_and_time: measured.times.map(|times| times.place),
            times_of_two_epochs: measured.times.map(|times| times.epochs),
            ordered: measured.ordered,
            whole_epochs: measured.is_whole,
        }
    }
}

/// Whether a row that was requested cold was cold.
fn from_where(cold: Cold) -> String {
    let Cold { device_bytes, needed_bytes, is_cold } = cold;
    match device_bytes {
        Some(_) if is_cold => "; cold: from the disk".to_owned(),
        Some(bytes) => {
            format!("; not cold: {} of {} from the disk", report::bytes(bytes), report::bytes(needed_bytes))
        }
        None => "; not known to be cold: this system does not count disk reads".to_owned(),
    }
}

fn text(dataset: &Dataset, args: &Args, measured: &Measured) -> Lines {
    let Measured { plain, raw, waits, .. } = measured;
    let mut rows = Vec::new();
    rows.push((
        "found",
        format!(
            "{} in {}, {}",
            report::counted(dataset.len(), "sample"),
            report::counted(dataset.manifest().shards.len() as u64, "shard"),
            report::bytes(dataset.manifest().shard_bytes)
        ),
    ));
    let per_s = |rate: &Rate| format!("{}/s", report::bytes(rate.bytes_per_s() as u64));
    let [plain_cold, raw_cold] = measured.cold.map_or(["".to_owned(), "".to_owned()], |rows| rows.map(from_where));
    let requests = if measured.network.is_some() { ", one request of 8 MiB at a time" } else { "" };
    rows.push(("plain", format!("{}, the shards one after the other{requests}{plain_cold}", per_s(plain))));
    rows.push((
        "raw",
        format!(
            "{}, {} samples/s in {} lanes: {:.2} of plain{raw_cold}",
            per_s(raw),
            report::count(raw.samples_per_s() as u64),
            measured.lanes,
            raw.bytes_per_s() / plain.bytes_per_s()
        ),
    ));
    if let Some(network) = &measured.network {
        rows.push(("epoch", epoch(network)));
    }
    match (&measured.decode, &measured.crops) {
        (Some(decode), Some(crops)) => {
            let images = |rate: &Rate| format!("{} images/s", report::count(rate.samples_per_s() as u64));
            rows.push(("decode", format!("{}, whole images from memory by all threads", images(decode))));
            let with = match measured.by_table {
                0 => String::new(),
                images => format!(", {} of {} by crop tables", report::count(images), report::count(measured.made)),
            };
            rows.push((
                "crops",
                format!(
                    "{}, {} {} × {} in batches of {}{with}: {:.2} of decode, {:.2} of its CPU time",
                    images(crops),
                    match args.transform {
                        Way::Train => "random",
                        Way::Eval => "the middle",
                    },
                    args.crop,
                    args.crop,
                    args.batch,
                    crops.samples_per_s() / decode.samples_per_s(),
                    crops.cpu_ms_per_sample() / decode.cpu_ms_per_sample(),
                ),
            ));
            rows.extend(measured.findings.iter().map(|finding| ("advice", finding.to_string())));
        }
        _ => rows.push(("decode", "not measured: the first samples are no images".to_owned())),
    }
    if measured.skipped > 0 {
        let skipped = report::counted(measured.skipped, "sample");
        rows.push(("skipped", format!("{skipped} with invalid data: verify --decode names them")));
    }
    rows.push((
        "waits",
        format!(
            "for {} {}: first {:.0} ms, then half up to {:.1} ms, 99 % up to {:.1} ms, longest {:.1} ms",
            report::count(waits.batches),
            if waits.batches == 1 { "batch" } else { "batches" },
            waits.first_ms,
            waits.median_ms,
            waits.p99_ms,
            waits.longest_ms
        ),
    ));
    let figure = |name: &str, figure: Option<Figure>| match figure {
        Some(Figure { value, spread }) => format!("{name} {value:.2} (± {spread:.2})"),
        None => format!("{name} unknown (too few samples)"),
    };
    let ordered = match measured.is_whole {
        true => "two epochs that were delivered".to_owned(),
        false => format!("{} that were delivered", report::counted(measured.ordered, "sample")),
    };
    rows.push((
        "order",
        format!("{}, {}, of {ordered}; 1 is a true shuffle", figure("R", measured.r), figure("DEFF", measured.deff)),
    ));
    rows.push((
        "times",
        match measured.times {
            Some(Times { place, epochs }) => format!(
                "correlation {:+.2} of place in run and time, {:+.2} of two epochs (± {:.2}); 0 is a true shuffle",
                place.value, epochs.value, place.spread
            ),
            None => "unknown: too few runs".to_owned(),
        },
    ));
    rows.push(("memory", format!("{} at most for read-ahead", report::bytes(measured.peak_run_bytes))));
    let network = measured.network.map(|network| report::network(network.all));
    let mut out: Lines = rows.into_iter().map(|(name, value)| format!("{name:<8}{value}")).collect();
    out.extend(network);
    out
}

/// Network use of an epoch.
fn epoch(network: &Network) -> String {
    let Network { epoch, is_whole, in_flight, .. } = network;
    let mut line = format!(
        "{} of {} each, {}; {} in flight at most",
        report::counted(epoch.requests, "request"),
        report::bytes(epoch.bytes / epoch.requests.max(1)),
        report::bytes(epoch.bytes),
        report::count(*in_flight as u64),
    );
    if epoch.again > 0 {
        let (again, too_many) = (report::count(epoch.again), report::count(epoch.too_many));
        line += &format!("; {again} sent again, {too_many} because of throttling");
    }
    if !is_whole {
        line += "; extrapolated from the part that was read";
    }
    line
}
