//! Seals a shard: its file is made durable under its final name, then its index. Also finds the shards that
//! earlier runs sealed.
//!
//! A shard is finished if its index has its final name, because the index is renamed last.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use shardpack_format::{
    Error, Result, hash,
    image_header::Kind,
    index::{self, Index, Summary},
    manifest::{self, Blake3},
};
use shardpack_storage::Storage;

use super::{Copy, Hashes, Shared, SpanResult, sink::Hashed};
use crate::{
    ledger::{self, Fate, Unpacked},
    plan::Plan,
    source::Refusal,
    sys,
    transfer::lengths,
};

/// Maximum number of strays that a report names.
const NAMED_STRAYS: usize = 20;

/// A shard whose spans are all written.
pub(super) struct Finished {
    pub shard: usize,
    pub output: Shared,
    /// Results of the spans, in order.
    pub parts: Vec<SpanResult>,
    /// Samples of the plan that the shard does not hold, by position.
    pub bad: BTreeMap<u64, Refusal>,
}

/// Summary of a sealed shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Entry for the manifest.
    pub entry: manifest::Shard,
    /// Length of all its images in bytes.
    pub payload_bytes: u64,
    /// Samples of each kind: [`shardpack_format::formats::Choice::kind_of`].
    pub kinds: BTreeMap<String, u64>,
    /// Path and kind of images whose kind differs from the dataset's extension; the first few.
    pub strays: Vec<(Vec<u8>, Kind)>,
    /// Number of all such images.
    pub stray_samples: u64,
    /// Images of the plan that the shard does not hold.
    pub unpacked: Vec<Unpacked>,
    /// Hashes that sidecars may want; `None` if they were not wanted when it was packed.
    pub hashes: Option<ShardHashes>,
}

/// Hashes of a shard by name, in lower-case hexadecimal: see [`shardpack_format::formats::Format::file_hashes`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardHashes {
    /// BLAKE3 of the shard.
    blake3: Blake3,
    /// Of the file.
    pub file: Hashes,
    /// Of its content before compression; empty if it is not compressed.
    pub content: Hashes,
}

impl Sealed {
    /// Whether packed and unpacked samples together are `samples`.
    pub(crate) fn is_of(&self, samples: u64) -> bool {
        self.entry.samples.checked_add(self.unpacked.len() as u64) == Some(samples)
    }
}

/// Makes a shard durable and renames it, then its index.
pub(super) fn seal(copy: &Copy<'_>, finished: Finished) -> Result<Sealed> {
    let Finished { shard, output, parts, bad } = finished;
    let plan = copy.plan;
    let samples = parts.iter().map(|part| part.rows.len() as u64).sum();
    let head_bytes = plan.format().head_bytes(samples);
    let (mut rows, mut spans, mut whole, mut end) = (Vec::with_capacity(parts.len()), Vec::new(), None, head_bytes);
    let mut content = Hashes::new();
    for SpanResult { rows: of_part, hashed } in parts {
        let records_bytes = of_part.end();
        rows.push((end, of_part));
        end += records_bytes;
        match hashed {
            Hashed::Part(span) => spans.push(span),
            Hashed::Whole(bytes, hash, of_content) => {
                (whole, content) = (Some((bytes, hash)), of_content);
            }
        }
    }
    let content_bytes = end + plan.format().tail_bytes(samples, end);
    let (shard_bytes, shard_blake3) = match whole {
        Some(whole) => whole,
        None => hash::join(spans, content_bytes)
            .map(|hash| (content_bytes, hash))
            .ok_or_else(|| Error::data("the parts of the shard do not make it whole").in_file(output.file.path()))?,
    };
    let summary = Summary {
        forms: plan.listing.components().forms.to_vec(),
        components: plan.format().components().to_vec(),
        content_bytes,
        shard_bytes,
        shard_blake3,
    };
    let index = index::write_parts(&summary, &rows)?;
    drop(rows);

    let unpacked: Vec<Unpacked> = bad
        .into_iter()
        .map(|(position, Refusal(reason))| {
            let number = plan.sample_at(position);
            let mut path = Vec::new();
            plan.listing.path(number, &mut path);
            Unpacked { path, class: plan.listing.class(number), fate: Fate::Skipped, reason: reason.into() }
        })
        .collect();
    let ledger_part = ledger_part(copy.shared, plan, shard);
    match unpacked.is_empty() {
        false => sys::write_durably(copy.work, &ledger_part, &ledger::write(&unpacked)?)?,
        // Another run may have had bad samples that this run did not.
        true => sys::remove_file(&ledger_part)?,
    }
    let hashes = match copy.hashes {
        [] => None,
        _ => output.hashes(shard_bytes).map(|file| ShardHashes { blake3: Blake3(shard_blake3), file, content }),
    };
    if let Some(hashes) = &hashes {
        let json = serde_json::to_vec(hashes).map_err(|error| Error::data(format!("cannot write json: {error}")))?;
        sys::write_durably(copy.work, &hashes_part(copy.shared, plan, shard), &json)?;
    }
    (copy.guard)()?;
    output.finish(shard_bytes, &shard_blake3)?;
    let index_file = index_file(plan, shard);
    if copy.storage.local().is_none() {
        copy.storage.put(&index_file, index.clone())?;
    }
    sys::write_durably(copy.work, &copy.dst.join(&index_file), &index)?;
    let opened = Index::open(index)?;
    Ok(Sealed { hashes, ..describe(plan, shard, &opened, unpacked)? })
}

/// Name of the index of shard `number`, relative to the dataset's folder.
pub(crate) fn index_file(plan: &Plan, number: usize) -> String {
    format!("{}/{}", manifest::INDEX_FOLDER, plan.index_file(number))
}

/// Path in the work folder of the ledger of one shard, until the dataset is sealed.
pub(crate) fn ledger_part(work: &Path, plan: &Plan, shard: usize) -> PathBuf {
    work.join(plan.shard_file(shard) + ".ledger")
}

/// Path in the work folder of the [`ShardHashes`] of one shard, until the dataset is sealed.
fn hashes_part(work: &Path, plan: &Plan, shard: usize) -> PathBuf {
    work.join(plan.shard_file(shard) + ".hashes")
}

/// Summary of a shard from its index.
fn describe(plan: &Plan, shard: usize, index: &Index<Vec<u8>>, unpacked: Vec<Unpacked>) -> Result<Sealed> {
    let (mut payload_bytes, mut kinds, mut strays, mut stray_samples) = (0, BTreeMap::new(), Vec::new(), 0);
    let format = &plan.options.format;
    for row in index.iter() {
        let row = row?;
        payload_bytes += u64::from(row.content_bytes(0).unwrap_or(0));
        let kind = format.kind_of(&row.image, row.path);
        match kinds.get_mut(&*kind) {
            Some(samples) => *samples += 1,
            None => drop(kinds.insert(kind.into_owned(), 1)),
        }
        let is_stray = match (format.extension.as_deref(), &format.payload) {
            (extension, Some(payload)) => payload.is_stray(row.image.kind, extension),
            (extension, None) => extension.is_some_and(|extension| extension != row.image.kind.extension()),
        };
        if is_stray {
            stray_samples += 1;
            if strays.len() < NAMED_STRAYS {
                strays.push((row.path.to_vec(), row.image.kind));
            }
        }
    }
    let bytes = index.bytes();
    let summary = index.summary();
    Ok(Sealed {
        entry: manifest::Shard {
            file: plan.shard_file(shard),
            samples: index.len(),
            bytes: summary.shard_bytes,
            blake3: Blake3(summary.shard_blake3),
            index: manifest::File {
                file: index_file(plan, shard),
                bytes: bytes.len() as u64,
                blake3: Blake3(hash::file(bytes)),
            },
        },
        payload_bytes,
        kinds,
        strays,
        stray_samples,
        unpacked,
        hashes: None,
    })
}

/// Shards of the plan that earlier runs of the same plan have sealed, by number; `shared` is [`Copy::shared`],
/// `storage` is [`Copy::storage`].
///
/// The check is cheap. The index has valid checksums. The shard exists and has the length in its index. Both
/// hold the samples of the plan except those in a ledger. A shard that fails the check is packed again.
pub fn recall(plan: &Plan, dst: &Path, shared: &Path, storage: &dyn Storage) -> Result<BTreeMap<usize, Sealed>> {
    let mut sealed = BTreeMap::new();
    for number in plan.held.clone() {
        let index = dst.join(index_file(plan, number));
        let found = match sys::read_opt(&index)? {
            Some(bytes) => recall_one(plan, number, bytes, shared)?,
            None => None,
        };
        let planned = plan.shards[number].samples;
        sealed.extend(found.filter(|found| found.is_of(planned)).map(|found| (number, found)));
    }
    let files: Vec<&str> = sealed.values().map(|shard| shard.entry.file.as_str()).collect();
    let there = lengths(storage, &files)?.into_iter().map(|(file, bytes)| (file.to_owned(), bytes));
    let there: BTreeMap<String, u64> = there.collect();
    sealed.retain(|_, shard| there.get(&shard.entry.file) == Some(&shard.entry.bytes));
    Ok(sealed)
}

/// Removes files of shards that are not in `sealed`, to free their space: they are packed again. No other
/// process may pack into `dst`.
pub fn clear(plan: &Plan, dst: &Path, sealed: &BTreeMap<usize, Sealed>) -> Result<()> {
    for number in plan.held.clone() {
        if !sealed.contains_key(&number) {
            sys::remove_file(&dst.join(index_file(plan, number)))?;
            sys::remove_file(&dst.join(plan.shard_file(number)))?;
        }
    }
    Ok(())
}

/// A shard from its index and its part of the ledger; `None` if one of the two is invalid.
fn recall_one(plan: &Plan, number: usize, index: Vec<u8>, shared: &Path) -> Result<Option<Sealed>> {
    let lines = sys::read_opt(&ledger_part(shared, plan, number))?.unwrap_or_default();
    let unpacked = ledger::read(&lines).ok();
    let described =
        unpacked.zip(Index::open(index).ok()).map(|(unpacked, index)| describe(plan, number, &index, unpacked));
    let Some(sealed) = described.and_then(Result::ok) else { return Ok(None) };
    let hashes = sys::read_opt(&hashes_part(shared, plan, number))?.unwrap_or_default();
    let hashes = serde_json::from_slice::<ShardHashes>(&hashes).ok();
    Ok(Some(Sealed { hashes: hashes.filter(|hashes| hashes.blake3 == sealed.entry.blake3), ..sealed }))
}
