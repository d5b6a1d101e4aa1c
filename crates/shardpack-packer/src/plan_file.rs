//! The plan as a file: written by `plan`, read by `pack --plan`, and compared by a resumed run.
//!
//! ```text
//! 0   magic "shardpln" | u32 version = 2
//! 12  for each dataset and shard: zstd of its samples (see `samples`)
//!     header: zstd of u64 length | JSON | for each shard of each dataset:
//!       u64 samples | u64 bytes of its records | u64 bytes of its samples here | 32 bytes: BLAKE3 of those
//! end u64 where the header starts | 32 bytes: BLAKE3 of the header
//! ```
//! The samples of a shard can be read without those of others. A file may consist of the header alone, which
//! then starts at 12: the common plan of parts on many machines.

mod difference;
mod samples;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Read, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    hash::{self, FileHash},
    regular,
};

use crate::{
    ledger::{self, Unpacked},
    listing::OwnOrder,
    own,
    part::Part,
    plan::{Options, Plan, Restored, Shard, Whole},
    source::{SharedSource, Source, SourceListing, restored, stored::Stored},
    sys,
};
pub(crate) use difference::components;
pub use difference::{difference, request_difference, sealed_difference};

const MAGIC: &[u8; 8] = b"shardpln";
const VERSION: u32 = 2;
/// Length in bytes of magic and version.
const START: u64 = 12;
/// Length in bytes of the end after the header.
const END: u64 = 8 + 32;
/// Length in bytes of the header's data for a shard, without JSON.
const SHARD_BYTES: usize = 3 * 8 + 32;
/// Fast: names compress tenfold at any level, numbers at none.
const LEVEL: i32 = 1;
/// Number of shards whose samples are compressed at a time.
const SHARDS_AT_A_TIME: usize = 64;

/// Plans of a source, from a file.
#[derive(Debug)]
pub struct PlanFile {
    /// The source as the user gave it.
    pub source: SharedSource,
    /// One plan for each dataset.
    pub plans: Vec<Plan>,
}

/// The header of a plan file: everything except the samples.
#[derive(Debug)]
pub struct Header {
    /// The source as the user gave it.
    pub source: SharedSource,
    /// Version of the program that wrote it.
    pub shardpack: String,
    /// Whether the samples are in the file.
    pub has_samples: bool,
    /// Its compressed bytes, for a file with only the header.
    bytes: Vec<u8>,
    datasets: Vec<Dataset>,
    /// Samples of the shards, for each dataset.
    blocks: Vec<Vec<Block>>,
}

/// Place of the samples of a shard in the file.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: u64,
    bytes: u64,
    blake3: FileHash,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    shardpack: String,
    source: Stored,
    datasets: Vec<Dataset>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dataset {
    split: Option<String>,
    options: Options,
    block_samples: u64,
    longest_record_bytes: u32,
    /// In hexadecimal.
    classes: Vec<String>,
    /// Lines of a ledger.
    unpacked: String,
    ignored: BTreeMap<String, u64>,
    whole: Whole,
    own_order: OwnOrder,
    #[serde(default, rename = "beside", skip_serializing_if = "Vec::is_empty")]
    components: Vec<Component>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Component>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    forms: Vec<String>,
    /// Number of shards; their data follows the JSON.
    shard_count: u64,
    #[serde(skip)]
    shards: Vec<Shard>,
}

/// Writes `plans` to `path`, through a temporary name beside it.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, source: &dyn Source, plans: &[Plan]) -> Result<()> {
    let temporary = own::Temporary::beside(path)?;
    write_into(&temporary.file, temporary.path(), source, plans)?;
    temporary.finish(path)
}

/// Fails if the entry at `path` is not a plan file. A plan may replace only an earlier plan.
///
/// # Errors
/// Names the entry.
pub fn check_replaceable(path: &Path) -> Result<()> {
    let begins = match regular::open(path) {
        Ok(file) => {
            let mut begins = Vec::new();
            file.take(MAGIC.len() as u64).read_to_end(&mut begins).map(|_| begins)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => return Ok(()),
        Err(error) => Err(error),
    };
    match begins.is_ok_and(|begins| begins == MAGIC) {
        true => Ok(()),
        false => Err(Error::usage("is there already, and is no plan file").in_file(path).help("name another file")),
    }
}

/// Writes `plans` directly to `path`.
pub(crate) fn write_to(path: &Path, source: &dyn Source, plans: &[Plan]) -> Result<File> {
    let file = own::create(path)?;
    write_into(&file, path, source, plans).map(|()| file)
}

fn write_into(file: &File, path: &Path, source: &dyn Source, plans: &[Plan]) -> Result<()> {
    let failed = |e| sys::io_error("cannot write", path, e);
    let mut out = BufWriter::new(file);
    out.write_all(MAGIC).and_then(|()| out.write_all(&VERSION.to_le_bytes())).map_err(failed)?;
    let (mut at, mut table) = (START, Vec::new());
    for plan in plans {
        for first in (0..plan.shards.len()).step_by(SHARDS_AT_A_TIME) {
            let shards = first..plan.shards.len().min(first + SHARDS_AT_A_TIME);
            let blocks: Vec<_> = shards.clone().into_par_iter().map(|shard| samples::packed(plan, shard)).collect();
            for (shard, block) in shards.zip(blocks) {
                let block = block.map_err(failed)?;
                out.write_all(&block).map_err(failed)?;
                at += block.len() as u64;
                let Shard { samples, records_bytes, .. } = plan.shards[shard];
                [samples, records_bytes, block.len() as u64]
                    .iter()
                    .for_each(|number| table.extend_from_slice(&number.to_le_bytes()));
                table.extend_from_slice(&hash::file(&block));
            }
        }
    }
    let header = packed_header(source, plans, &table)?;
    out.write_all(&header).and_then(|()| out.write_all(&end(at, &header))).map_err(failed)?;
    out.flush().map_err(failed)
}

/// The end of a file whose header starts at `start`.
fn end(start: u64, header: &[u8]) -> Vec<u8> {
    [&start.to_le_bytes()[..], &hash::file(header)].concat()
}

fn packed_header(source: &dyn Source, plans: &[Plan], table: &[u8]) -> Result<Vec<u8>> {
    let dataset = |plan: &Plan| {
        let components = plan.listing.components();
        Ok(Dataset {
            split: plan.split.clone(),
            options: plan.options.clone(),
            block_samples: plan.block_samples,
            longest_record_bytes: plan.longest_record_bytes,
            classes: plan.listing.classes.iter().map(|class| hash::hex(class)).collect(),
            unpacked: String::from_utf8_lossy(&ledger::write(&plan.unpacked)?).into_owned(),
            ignored: plan.ignored.clone(),
            whole: Whole::from_plan(plan)?,
            own_order: plan.listing.own_order(),
            components: components.kinds.clone(),
            payload: components.payload.clone(),
            forms: components.forms.iter().map(Form::to_string).collect(),
            shard_count: plan.shards.len() as u64,
            shards: Vec::new(),
        })
    };
    let json = Json {
        shardpack: env!("CARGO_PKG_VERSION").to_owned(),
        source: source.stored(),
        datasets: plans.iter().map(dataset).collect::<Result<_>>()?,
    };
    let json = serde_json::to_vec(&json).map_err(|error| Error::data(format!("cannot write json: {error}")))?;
    let whole = [&(json.len() as u64).to_le_bytes()[..], &json, table].concat();
    zstd::bulk::compress(&whole, LEVEL).map_err(|error| Error::io("cannot compress the plan", error))
}

/// Reads the header of a plan file and checks all its values.
///
/// # Errors
/// If it is corrupt, or has another version.
pub fn read_header(path: &Path) -> Result<Header> {
    read_header_of(&opened(path)?).map_err(|error| error.in_file(path))
}

fn opened(path: &Path) -> Result<File> {
    regular::open(path).map_err(|e| sys::io_error("cannot read", path, e))
}

fn read_header_of(file: &File) -> Result<Header> {
    let failed = |error| Error::io("cannot read", error);
    let length = file.metadata().map_err(failed)?.len();
    let end_at = end_of(length)?;
    let (mut start, mut end) = ([0; START as usize], [0; END as usize]);
    file.read_exact_at(&mut start, 0).map_err(failed)?;
    file.read_exact_at(&mut end, end_at).map_err(failed)?;
    let header_at = header_start(&start, &end, end_at)?;
    header(read_at(file, header_at, end_at - header_at)?, header_at, &end)
}

/// Parses the header of a plan file in memory.
///
/// # Errors
/// As [`read_header`].
pub(crate) fn header_in(bytes: &[u8]) -> Result<Header> {
    let (all, end) = bytes.split_at(end_of(bytes.len() as u64)? as usize);
    let header_at = header_start(all, end, all.len() as u64)?;
    header(all[header_at as usize..].to_vec(), header_at, end)
}

/// Parses `bytes` as the uncompressed contents of a header after correcting its hash, for fuzzing.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) -> Result<usize> {
    let packed = zstd::bulk::compress(bytes, LEVEL).map_err(|error| Error::io("cannot compress the plan", error))?;
    let end = end(START, &packed);
    let header = header(packed, START, &end)?;
    Ok(header.plans()?.iter().map(|plan| plan.shards.len()).sum())
}

/// Offset of the end in a plan file of this length.
fn end_of(length: u64) -> Result<u64> {
    let too_short = || Error::data("not a plan file: too short");
    length.checked_sub(END).filter(|end| *end >= START).ok_or_else(too_short)
}

/// Offset of the header in a file with this start and this end, which is at `end_at`.
fn header_start(start: &[u8], end: &[u8], end_at: u64) -> Result<u64> {
    match (start.starts_with(MAGIC), u32::from_le_bytes(crate::listing::take(&start[8..]).0)) {
        (true, VERSION) => {}
        (true, _) => return Err(Error::data("not a plan file of this version")),
        (false, _) => return Err(Error::data("not a plan file")),
    }
    let header_at = u64::from_le_bytes(crate::listing::take(end).0);
    if header_at < START || header_at > end_at { Err(damaged()) } else { Ok(header_at) }
}

fn damaged() -> Error {
    Error::data("damaged plan file: the hash of its header differs")
}

/// `length` bytes at offset `at`; allocates only as much as the file really has.
fn read_at(file: &File, at: u64, length: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut piece = vec![0; length.min(1 << 20) as usize];
    while (out.len() as u64) < length {
        let wanted = (length - out.len() as u64).min(piece.len() as u64) as usize;
        file.read_exact_at(&mut piece[..wanted], at + out.len() as u64).map_err(samples::ends_early)?;
        out.extend_from_slice(&piece[..wanted]);
    }
    Ok(out)
}

/// A header from its compressed bytes, which are at `header_at` in a file with this end.
fn header(bytes: Vec<u8>, header_at: u64, end: &[u8]) -> Result<Header> {
    if hash::file(&bytes)[..] != *crate::listing::take::<8>(end).1 {
        return Err(damaged());
    }
    let mut input = zstd::Decoder::new(bytes.as_slice()).map_err(samples::ends_early)?;
    let json = u64::from_le_bytes(samples::array(&mut input)?);
    let Json { shardpack, source, mut datasets } = serde_json::from_slice(&samples::bytes(&mut input, json)?)
        .map_err(|error| Error::data(format!("header of the plan: {error}")))?;
    let has_samples = header_at != START || datasets.iter().all(|dataset| dataset.shard_count == 0);
    let (mut blocks, mut at) = (Vec::new(), START);
    for dataset in &mut datasets {
        let mut of_dataset = Vec::new();
        let mut first = 0u64;
        for _ in 0..dataset.shard_count {
            let row: [u8; SHARD_BYTES] = samples::array(&mut input)?;
            let (samples, rest) = crate::listing::take(&row);
            let (records_bytes, rest) = crate::listing::take(rest);
            let (bytes, blake3) = crate::listing::take(rest);
            let [samples, records_bytes, bytes] = [samples, records_bytes, bytes].map(u64::from_le_bytes);
            let (blake3, _) = crate::listing::take(blake3);
            dataset.shards.push(Shard { first, samples, records_bytes });
            of_dataset.push(Block { start: at, bytes, blake3 });
            let overlong = || Error::data("shards of the plan do not hold its samples");
            first = first.checked_add(samples).filter(|_| samples > 0).ok_or_else(overlong)?;
            at = at.checked_add(bytes).ok_or_else(overlong)?;
        }
        if first != dataset.whole.samples || dataset.block_samples == 0 {
            return Err(Error::data("shards of the plan do not hold its samples"));
        }
        if dataset.whole.counts.len() != dataset.classes.len() {
            return Err(Error::data("counts of the plan are not those of its classes"));
        }
        blocks.push(of_dataset);
    }
    if has_samples && at != header_at {
        return Err(Error::data("samples of the plan do not end where its header starts"));
    }
    Ok(Header { source: restored(source)?, shardpack, has_samples, bytes, datasets, blocks })
}

impl Header {
    /// Writes a plan file with only this header directly to `path`.
    pub(crate) fn write_to(&self, path: &Path) -> Result<File> {
        let all = self.to_bytes();
        let mut file = own::create(path)?;
        file.write_all(&all).map_err(|e| sys::io_error("cannot write", path, e))?;
        Ok(file)
    }

    /// A plan file with only this header.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [&MAGIC[..], &VERSION.to_le_bytes(), &self.bytes, &end(START, &self.bytes)].concat()
    }

    /// Its plans without any sample.
    ///
    /// # Errors
    /// If the header is inconsistent.
    pub fn plans(&self) -> Result<Vec<Plan>> {
        let plan = |dataset: &Dataset| {
            let (found, restored) = dataset.split_up()?;
            let listing = samples::Samples::new(dataset).listing(&found.1, &[])?;
            Plan::of_part(SourceListing { listing: Arc::new(listing), ..found.0 }, restored, 0..0, Vec::new())
        };
        self.datasets.iter().map(plan).collect()
    }

    /// Reads the samples of these shards of dataset `number` from `file`, in plan order.
    fn samples(&self, file: &File, number: usize, shards: Range<usize>) -> Result<samples::Samples<'_>> {
        let dataset = &self.datasets[number];
        let read =
            |shard: usize| {
                let block = self.blocks[number][shard];
                let bytes = read_at(file, block.start, block.bytes)?;
                match hash::file(&bytes) == block.blake3 {
                    true => Ok(bytes),
                    false => Err(Error::data("damaged plan file: the hash of the samples of a shard differs")
                        .at_byte(block.start)),
                }
            };
        let mut all = samples::Samples::new(dataset);
        for shard in shards {
            all.add(&read(shard)?, dataset.shards[shard].samples)?;
        }
        Ok(all)
    }
}

impl Dataset {
    /// All data for a plan except the samples.
    #[allow(clippy::type_complexity)]
    fn split_up(&self) -> Result<((SourceListing, Vec<Vec<u8>>), Restored)> {
        let unhex = |text: &String| hash::unhex(text).ok_or_else(|| Error::data("not hexadecimal"));
        let classes = self.classes.iter().map(unhex).collect::<Result<Vec<_>>>()?;
        let unpacked: Vec<Unpacked> = ledger::read(self.unpacked.as_bytes())?;
        if unpacked.iter().filter_map(|entry| entry.class).any(|class| class as usize >= classes.len()) {
            return Err(Error::data("an image of a class that there is not"));
        }
        let found = SourceListing {
            split: self.split.clone(),
            unpacked,
            ignored: self.ignored.clone(),
            ..SourceListing::default()
        };
        let restored = Restored {
            options: self.options.clone(),
            shards: self.shards.clone(),
            block_samples: self.block_samples,
            longest_record_bytes: self.longest_record_bytes,
            whole: self.whole.clone(),
        };
        Ok(((found, classes), restored))
    }
}

fn with_samples(header: &Header) -> Result<()> {
    match header.has_samples {
        true => Ok(()),
        false => Err(Error::data("a plan file without its samples").help("give the one that `shardpack plan` wrote")),
    }
}

/// Reads a plan file with all samples and checks all its values.
///
/// # Errors
/// If it is corrupt, or has another version.
pub fn read(path: &Path) -> Result<PlanFile> {
    let file = opened(path)?;
    let all = || {
        let header = read_header_of(&file)?;
        with_samples(&header)?;
        let plan = |(number, dataset): (usize, &Dataset)| {
            let ((found, classes), restored) = dataset.split_up()?;
            let samples = header.samples(&file, number, 0..dataset.shards.len())?;
            let stored = samples.stored_order().map(<[u64]>::to_vec);
            let (sorted, order) = samples.ranked(restored.whole.samples, &restored.options)?;
            if sorted.last().is_some_and(|last| *last != sorted.len() as u64 - 1) {
                return Err(Error::data("shards of the plan do not hold its samples"));
            }
            let listing = Arc::new(samples.listing(&classes, &order)?);
            Plan::of_all(SourceListing { listing, ..found }, restored, stored)
        };
        let plans = header.datasets.iter().enumerate().map(plan).collect::<Result<_>>()?;
        Ok(PlanFile { source: header.source, plans })
    };
    all().map_err(|error: Error| error.in_file(path))
}

/// Reads one part of a plan file: its plans have only the samples of the part.
///
/// # Errors
/// As [`read`].
pub fn read_part(path: &Path, part: Part) -> Result<(Header, Vec<Plan>)> {
    let file = opened(path)?;
    let all = || {
        let header = read_header_of(&file)?;
        with_samples(&header)?;
        let shards = part.shards(&header.plans()?);
        let plan = |(number, dataset): (usize, &Dataset)| {
            let ((found, classes), restored) = dataset.split_up()?;
            let shards = shards[number].clone();
            let first = dataset.shards.get(shards.start).map_or(0, |shard| shard.first);
            let samples = header.samples(&file, number, shards.clone())?.from(first);
            let (_, order) = samples.ranked(restored.whole.samples, &restored.options)?;
            let listing = Arc::new(samples.listing(&classes, &order)?);
            Plan::of_part(SourceListing { listing, ..found }, restored, shards, order)
        };
        let plans = header.datasets.iter().enumerate().map(plan).collect::<Result<_>>()?;
        Ok((header, plans))
    };
    all().map_err(|error: Error| error.in_file(path))
}

#[cfg(test)]
mod tests;
