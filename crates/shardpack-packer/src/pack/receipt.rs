//! The receipt of a part: the files that the part has written, as entries for the manifest.
//!
//! The receipt is written last, so a part without a receipt is not done. The same part of the same plan always
//! has the same receipt, byte for byte, on any machine: it has no time and no host name.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use shardpack_format::{
    Error, Result, hash,
    manifest::{self, Blake3},
};
use shardpack_storage::Storage;

use super::work_folder::{part_of_receipt, receipt_name, receipts_folder};
use crate::{
    copy::{Sealed, ShardHashes},
    ledger,
    parallel::each,
    part::Part,
    plan::Plan,
    transfer::{REQUESTS, remove_files},
};

const SCHEMA: &str = "shardpack-receipt/1";

/// Files written by a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Receipt {
    schema: String,
    /// Version of the program that packed the part.
    shardpack: String,
    part: String,
    /// Requested sidecars: the same for all parts.
    sidecars: Vec<String>,
    datasets: Vec<OfDataset>,
    /// BLAKE3 of the receipt with zeros in this field.
    blake3: Blake3,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfDataset {
    split: Option<String>,
    plan: Blake3,
    shards: BTreeMap<usize, OfShard>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfShard {
    entry: manifest::Shard,
    payload_bytes: u64,
    kinds: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    stray_samples: u64,
    /// Lines of a ledger.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    unpacked: String,
    /// Sidecars of this shard alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sidecars: Vec<manifest::File>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hashes: Option<ShardHashes>,
}

/// A shard in a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub sealed: Sealed,
    /// Sidecars of this shard alone.
    pub sidecars: Vec<manifest::File>,
}

impl Received {
    /// All its files, and their lengths in bytes.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        let manifest::Shard { file, bytes, index, .. } = &self.sealed.entry;
        let others = [index].into_iter().chain(&self.sidecars).map(|file| (file.file.as_str(), file.bytes));
        [(file.as_str(), *bytes)].into_iter().chain(others)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Receipt {
    /// The receipt for the shards that `part` of `plans` has sealed.
    pub fn new(part: Part, plans: &[Plan], sidecars: &[&str], shards: Vec<BTreeMap<usize, Received>>) -> Result<Self> {
        let of_shard = |(number, shard): (usize, Received)| {
            let Received { sealed, sidecars } = shard;
            let unpacked = String::from_utf8_lossy(&ledger::write(&sealed.unpacked)?).into_owned();
            let Sealed { entry, payload_bytes, kinds, stray_samples, hashes, .. } = sealed;
            Ok((number, OfShard { entry, payload_bytes, kinds, stray_samples, unpacked, sidecars, hashes }))
        };
        let of_dataset = |(plan, shards): (&Plan, BTreeMap<usize, Received>)| {
            let shards = shards.into_iter().map(of_shard).collect::<Result<_>>()?;
            Ok(OfDataset { split: plan.split.clone(), plan: Blake3(plan.hash()?), shards })
        };
        Ok(Self {
            schema: SCHEMA.to_owned(),
            shardpack: env!("CARGO_PKG_VERSION").to_owned(),
            part: part.to_string(),
            sidecars: sidecars.iter().map(|name| (*name).to_owned()).collect(),
            datasets: plans.iter().zip(shards).map(of_dataset).collect::<Result<_>>()?,
            blake3: Blake3::default(),
        })
    }

    /// Its bytes, with their hash.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let render = |blake3| {
            let mut bytes = serde_json::to_vec(&Self { blake3, ..self.clone() })
                .map_err(|error| Error::data(format!("cannot write json: {error}")))?;
            bytes.push(b'\n');
            Ok::<_, Error>(bytes)
        };
        render(Blake3(hash::file(&render(Blake3::default())?)))
    }

    /// Parses the receipt of `part` of these plans.
    fn read(bytes: &[u8], part: Part, plans: &[Plan]) -> Result<Self> {
        let receipt: Self =
            serde_json::from_slice(bytes).map_err(|error| Error::data(format!("not a receipt: {error}")))?;
        let own = env!("CARGO_PKG_VERSION");
        if receipt.schema != SCHEMA || receipt.shardpack != own {
            let what = format!("was packed by shardpack {}, this is {own}", receipt.shardpack);
            return Err(Error::usage(what).help(ONE_VERSION));
        }
        if receipt.to_bytes()? != bytes {
            return Err(Error::data("was changed after it was written: its hash differs").help(PACK_AGAIN));
        }
        if receipt.part != part.to_string() {
            return Err(Error::data(format!("is of part {}", receipt.part)).help(PACK_AGAIN));
        }
        let plans_are =
            plans.iter().map(|plan| Ok((plan.split.clone(), Blake3(plan.hash()?)))).collect::<Result<Vec<_>>>()?;
        if !receipt.datasets.iter().map(|of| (of.split.clone(), of.plan)).eq(plans_are) {
            return Err(Error::usage("is of another plan: of other options, another seed or another source")
                .help("remove it, and pack the part with the plan of the others"));
        }
        Ok(receipt)
    }

    /// The shards of each plan.
    fn shards(self, plans: &[Plan]) -> Result<Vec<BTreeMap<usize, Received>>> {
        let of_shard = |plan: &Plan, number: usize, of: OfShard| {
            let OfShard { entry, payload_bytes, kinds, stray_samples, unpacked, sidecars, hashes } = of;
            let unpacked = ledger::read(unpacked.as_bytes())?;
            let sealed = Sealed { entry, payload_bytes, kinds, strays: Vec::new(), stray_samples, unpacked, hashes };
            let classes = plan.listing.classes.len() as u64;
            let class_fits = |class: Option<u32>| class.is_none_or(|class| u64::from(class) < classes);
            let is_right = plan.shards.get(number).is_some_and(|shard| sealed.is_of(shard.samples))
                && sealed.entry.file == plan.shard_file(number)
                && sealed.entry.index.file == crate::copy::index_file(plan, number)
                && sealed.kinds.values().try_fold(0u64, |sum, of| sum.checked_add(*of)) == Some(sealed.entry.samples)
                && sealed.unpacked.iter().all(|sample| class_fits(sample.class))
                && sidecars.iter().all(|sidecar| stays_inside(&sidecar.file));
            match is_right {
                true => Ok((number, Received { sealed, sidecars })),
                false => Err(Error::data(format!("shard {number} is not in the plan")).help(PACK_AGAIN)),
            }
        };
        let of_dataset = |(plan, of): (&Plan, OfDataset)| {
            of.shards.into_iter().map(|(number, of)| of_shard(plan, number, of)).collect::<Result<_>>()
        };
        plans.iter().zip(self.datasets).map(of_dataset).collect()
    }
}

/// Parses `bytes` as a receipt after correcting its hash, for fuzzing.
pub(super) fn fuzz(bytes: &[u8]) -> Result<()> {
    let receipt: Receipt = serde_json::from_slice(bytes).map_err(|error| Error::data(error.to_string()))?;
    let bytes = receipt.to_bytes()?;
    let again = Receipt::read(&bytes, Part::new(1, 1)?, &[])?;
    again.datasets.iter().flat_map(|of| of.shards.values()).try_for_each(|of| {
        of.sidecars.iter().all(|sidecar| stays_inside(&sidecar.file));
        ledger::read(of.unpacked.as_bytes()).map(drop)
    })?;
    again.shards(&[]).map(drop)
}

/// Whether a name stays inside its folder.
fn stays_inside(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

pub(super) const ONE_VERSION: &str = "use one version for all parts";
const PACK_AGAIN: &str = "remove it, and pack that part again";

/// An existing receipt and its part.
pub(super) struct PartReceipt {
    pub part: Part,
    pub sidecars: Vec<String>,
    /// Shards of each plan.
    pub shards: Vec<BTreeMap<usize, Received>>,
}

/// The parts that have a receipt at a destination, in order.
///
/// # Errors
/// If the storage fails, or there are other files among the receipts.
pub(super) fn parts(storage: &dyn Storage) -> Result<Vec<Part>> {
    let listed = storage.list(&receipts_folder())?.unwrap_or_default();
    let names = listed.into_iter().map(|entry| receipts_folder() + &entry.name);
    let of = |name: String| {
        part_of_receipt(&name)
            .ok_or_else(|| Error::data("is no receipt of a part").in_file(storage.path_of(&name)).help("remove it"))
    };
    let mut parts = names.map(of).collect::<Result<Vec<_>>>()?;
    parts.sort_by_key(|part| (part.of, part.number));
    Ok(parts)
}

/// Puts the receipt of `part`, after all files that it lists.
///
/// # Errors
/// If the storage fails.
pub(super) fn put(storage: &dyn Storage, part: Part, receipt: &Receipt) -> Result<()> {
    storage.put(&receipt_name(part), receipt.to_bytes()?)?;
    storage.sync(&receipts_folder())
}

/// Removes the receipts of all parts.
///
/// # Errors
/// If the storage fails.
pub(super) fn remove_all(storage: &dyn Storage) -> Result<()> {
    remove_files(storage, &parts(storage)?.into_iter().map(receipt_name).collect::<Vec<_>>())
}

/// The receipt of `part` of these plans; `None` if it is missing or invalid.
///
/// # Errors
/// If the storage fails.
pub(super) fn valid(storage: &dyn Storage, part: Part, plans: &[Plan]) -> Result<Option<PartReceipt>> {
    Ok(storage.read_small(&receipt_name(part))?.and_then(|bytes| read(&bytes, part, plans).ok()))
}

/// Parses the receipt of `part` of these plans.
fn read(bytes: &[u8], part: Part, plans: &[Plan]) -> Result<PartReceipt> {
    let receipt = Receipt::read(bytes, part, plans)?;
    Ok(PartReceipt { part, sidecars: receipt.sidecars.clone(), shards: receipt.shards(plans)? })
}

/// All receipts at a destination, which must be of parts of `plans`.
///
/// # Errors
/// Names the first invalid receipt.
pub(super) fn all(storage: &dyn Storage, plans: &[Plan]) -> Result<Vec<PartReceipt>> {
    let (parts, read_bytes) = (parts(storage)?, Mutex::new(BTreeMap::new()));
    each(&parts, REQUESTS, |part| {
        let bytes = storage.read_small(&receipt_name(*part))?.unwrap_or_default();
        read_bytes.lock().unwrap_or_else(PoisonError::into_inner).insert((part.of, part.number), bytes);
        Ok(())
    })?;
    let mut read_bytes = read_bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let of = |part: Part| {
        let bytes = read_bytes.remove(&(part.of, part.number)).unwrap_or_default();
        read(&bytes, part, plans).map_err(|error| error.in_file(storage.path_of(&receipt_name(part))))
    };
    parts.into_iter().map(of).collect()
}
