//! Finds the chunks of LitData and the `index.json` beside them, which has their columns. A chunk has no first bytes of its own, so its
//! name decides.
//!
//! `shardpack_format::formats::mds::litdata` reads the samples: they are like those of MDS.
//!
//! # A chunk that is compressed in batches
//! ```text
//! 0   "LDFZ01", 0, 0; u16 version 1; u16 0; u32 samples n; u32 samples of a batch; u32 batches b
//! 24  u32 offset[n + 1]: of each sample in the content of all batches
//! …   b times: u32 first sample; u32 samples; u64 offset in the file; u32 compressed length; u32 length
//! …   a zstd frame for each batch, one behind the other
//! ```
//! Source: LitData 0.2.76, `streaming/framed_zstd.py`. Its content has the head of a chunk that is not compressed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    path::Path,
};

use shardpack_format::{
    Error, Result,
    formats::{
        self,
        foreign::{FieldSelection, Foreign, Walk},
        mds::{
            self,
            litdata::{Chunk, Index, unpacked_name},
        },
    },
    memory, size,
};

use super::{FileLocation, ShardFile, entry::Entry, mds_index::INDEX_JSON};

/// Longest `index.json` that is read: a chunk takes some hundred bytes.
const MAX_INDEX_BYTES: u64 = 256 << 20;
/// Lengths of the first table of a chunk in batches, and of the entry of a batch.
const PREFIX_BYTES: u64 = 24;
const BATCH_BYTES: u64 = 24;
/// The compression in the name of a chunk; LitData has no other.
const COMPRESSION: &str = ".zstd";

/// The line in the table of kinds.
pub(crate) static ENTRY: Entry = Entry {
    has_places: true,
    image: |fetched, recipe| as_mds()?.image(fetched, recipe, &FieldSelection::default()),
    component: |fetched, recipe| as_mds()?.component(fetched, recipe),
    component_bytes: |recipe| as_mds().ok()?.component_bytes(recipe),
    ..Entry::new("litdata", |_| false, |file, wanted, _| walk(file, wanted))
};

/// The reader of values, which are those of MDS.
fn as_mds() -> Result<&'static dyn Foreign> {
    formats::entry(mds::NAME).map(|entry| entry.foreign)
}

/// Whether LitData gives a chunk this name: `chunk-0-12.bin`, `chunk-0-12.zstd.bin`.
pub(crate) fn is_called(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix("chunk-").and_then(|rest| rest.strip_suffix(".bin"));
    let numbers = numbers.map(|rest| rest.strip_suffix(COMPRESSION).unwrap_or(rest));
    numbers.and_then(|rest| rest.split_once('-')).is_some_and(|(rank, chunk)| is_number(rank) && is_number(chunk))
}

/// Whether a file that begins with `first` is compressed in batches.
pub(crate) fn is_in_batches(first: &[u8]) -> bool {
    first.starts_with(b"LDFZ01")
}

/// Reads the tables of a chunk of `bytes` bytes in batches, up to its first zstd frame. Returns the head of the same chunk without
/// compression.
///
/// # Errors
/// If the tables are damaged, or do not end before the first frame.
pub(crate) fn plain_head(file: &mut impl Read, bytes: u64) -> Result<Vec<u8>> {
    let damaged = |what: String| Error::data(format!("a chunk in batches: {what}")).at_byte(0);
    let mut read = |length: u64| {
        memory::admit(length).map_err(|error| error.at_byte(0))?;
        let mut out = Vec::new();
        file.by_ref().take(length).read_to_end(&mut out).map_err(|e| Error::io("cannot read", e))?;
        if out.len() as u64 == length { Ok(out) } else { Err(damaged(format!("its tables end after {bytes} bytes"))) }
    };
    let number = |bytes: &[u8], at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let prefix = read(PREFIX_BYTES)?;
    let (version, samples, batches) = (number(&prefix, 8), number(&prefix, 12), number(&prefix, 20));
    let (Some(1), Some(samples), Some(batches)) = (version, samples, batches) else {
        return Err(damaged(format!("version {}", version.unwrap_or(0))));
    };
    let offsets_bytes = 4 * (u64::from(samples) + 1);
    let tables_bytes = offsets_bytes + BATCH_BYTES * u64::from(batches);
    if PREFIX_BYTES + tables_bytes > bytes {
        return Err(damaged(format!("{samples} samples in {batches} batches, in {bytes} bytes")));
    }
    let (offsets, table) = (read(offsets_bytes)?, read(BATCH_BYTES * u64::from(batches))?);
    let mut at = PREFIX_BYTES + tables_bytes;
    for batch in table.chunks_exact(BATCH_BYTES as usize) {
        let place = u64::from(number(batch, 8).unwrap_or(0)) | u64::from(number(batch, 12).unwrap_or(0)) << 32;
        if place != at {
            return Err(damaged(format!("a batch at byte {place}, the one before ends at byte {at}")));
        }
        at += u64::from(number(batch, 16).unwrap_or(0));
    }
    let beyond = || damaged("samples beyond 4 GiB".to_owned());
    let start = u32::try_from(4 + offsets_bytes).map_err(|_| beyond())?;
    let mut head = samples.to_le_bytes().to_vec();
    for offset in offsets.as_chunks::<4>().0 {
        let offset = u32::from_le_bytes(*offset).checked_add(start);
        let offset = offset.ok_or_else(beyond)?;
        head.extend_from_slice(&offset.to_le_bytes());
    }
    Ok(head)
}

fn walk(file: &ShardFile, wanted: &FieldSelection) -> Result<Box<dyn Walk>> {
    let index = index_beside(&file.location())?;
    let name = file_name(&file.path);
    let chunk = index.chunk(&name).ok_or_else(|| Error::data(format!("{INDEX_JSON} does not name it")))?;
    index.walk(chunk, file.input()?, wanted)
}

fn index_beside(place: &FileLocation) -> Result<Index> {
    let missing = || Error::data(format!("a chunk of LitData without {INDEX_JSON} beside it, which has its columns"));
    let (path, bytes) = place.read_beside(INDEX_JSON, MAX_INDEX_BYTES)?.ok_or_else(missing)?;
    Index::parse(&bytes).map_err(|error| error.in_file(path))
}

/// Sorts the chunks among the shards of one folder by its `index.json`. Removes and returns the compressed chunks that are there
/// without compression too. Also returns an error for each chunk in the index that is missing.
pub(crate) fn sort(shards: &mut Vec<ShardFile>) -> (Vec<ShardFile>, Vec<Error>) {
    let Some(first) = shards.iter().find(|shard| shard.kind.name() == ENTRY.name) else { return Default::default() };
    let place = first.location();
    // The walk of each chunk reports an index that cannot be read.
    let Ok(index) = index_beside(&place) else { return Default::default() };
    let plain: BTreeSet<String> = shards.iter().map(|shard| file_name(&shard.path)).collect();
    let is_twice = |shard: &mut ShardFile| {
        let name = file_name(&shard.path);
        let unpacked = unpacked_name(&name);
        shard.kind.name() == ENTRY.name && unpacked != name && plain.contains(&unpacked)
    };
    let twice = shards.extract_if(.., is_twice).collect();
    let names = index.chunks.iter().map(|chunk| unpacked_name(&chunk.filename));
    let order: BTreeMap<String, usize> = names.zip(0..).collect();
    let called = |shard: &ShardFile| unpacked_name(&file_name(&shard.path));
    shards.sort_by_key(|shard| order.get(&called(shard)).copied());
    let there: BTreeSet<String> = shards.iter().map(called).collect();
    let missing = index.chunks.iter().filter(|chunk| !there.contains(&unpacked_name(&chunk.filename)));
    let report = |chunk: &Chunk| {
        let what = format!("is missing: {INDEX_JSON} names it, with {}", size::counted(chunk.samples, "sample"));
        Error::data(what).in_file(place.path().with_file_name(&chunk.filename))
    };
    (twice, missing.map(report).collect())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
