//! Counts the crop tables of a dataset and the reasons why images have none.
//!
//! Holds at all times: only the rows of a crop file are read, not the tables, which are longer than all indexes together.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use shardpack_format::Result;
use shardpack_imaging::crops::NoTable;
use shardpack_reader::Shard;

/// The crop tables of some shards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CropTables {
    /// Shards with a crop file.
    pub shards: u64,
    /// Distinct spacings of table entries, in MCUs.
    pub every: BTreeSet<u32>,
    /// Total length of the crop files in bytes.
    pub bytes: u64,
    /// Samples in the shards with a crop file.
    pub samples: u64,
    /// Samples with a table.
    pub tables: u64,
    /// Samples in those shards without a table and without known damage, counted by reason.
    pub without: BTreeMap<String, u64>,
    /// Samples in those shards with a damaged image, counted by kind of damage.
    pub damaged: BTreeMap<String, u64>,
}

impl CropTables {
    /// Adds the tables of a shard, if it has a crop file; on an error adds none.
    pub(super) fn look_at(&mut self, shard: Shard<'_>) -> Result<()> {
        let Some(crops) = shard.crops()? else { return Ok(()) };
        let bytes = crops.file_bytes();
        let mut found = Self { shards: 1, bytes, samples: shard.len(), ..Self::default() };
        found.every.insert(crops.summary().every);
        for row in 0..shard.len() {
            let length = crops.length(row, shard.row(row)?.content_hash);
            match length.map_err(|error| error.in_file(shard.crops_path()))? {
                Ok(_) => found.tables += 1,
                Err(code) => {
                    let why = NoTable::of_code(code);
                    let of = if code >= 128 { &mut found.damaged } else { &mut found.without };
                    // A later version may have more reasons.
                    let name = why.map_or_else(|| format!("reason {code}"), |why| why.name().to_owned());
                    *of.entry(name).or_default() += 1;
                }
            }
        }
        self.merge(found);
        Ok(())
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: Self) {
        self.shards += other.shards;
        self.every.extend(other.every);
        self.bytes += other.bytes;
        self.samples += other.samples;
        self.tables += other.tables;
        for (mine, others) in [(&mut self.without, other.without), (&mut self.damaged, other.damaged)] {
            others.into_iter().for_each(|(why, samples)| *mine.entry(why).or_default() += samples);
        }
    }

    pub(super) fn if_any(self) -> Option<Self> {
        (self.shards > 0).then_some(self)
    }
}
