//! Cuts the order into shards, by number of samples or by bytes, as the options require.
//!
//! No shard is empty, and none is longer than the format can hold.

use rayon::prelude::*;
use shardpack_format::{Error, Result};

use super::{Cut, Plan, Shard};

/// Number of positions whose lengths are looked up at a time.
const POSITIONS_AT_A_TIME: u64 = 1 << 20;
/// Maximum number of shards, unless the option gives the number of shards itself.
pub(super) const MAX_SHARDS: u64 = 100_000;

/// Fails if a size makes so many shards that it is probably a mistake; `fits` returns a size that makes a given
/// number.
fn not_absurd(shards: u64, fits: impl Fn(u64) -> String) -> Result<u64> {
    match shards <= MAX_SHARDS {
        true => Ok(shards),
        false => Err(Error::usage(format!("{shards} shards, and as many indexes")).help(format!(
            "{} makes {MAX_SHARDS} at most; --shards {shards} where so many are meant",
            fits(MAX_SHARDS)
        ))),
    }
}

impl Plan {
    /// Number of shards and their ends: as positions, or as shares of the bytes.
    fn ends(&self, total: u64, longest: u32) -> Result<Ends> {
        let samples = self.listing.len();
        let even = |shards: u64| Ends::Positions(shards.clamp(1, samples));
        match self.options.cut {
            Cut::Shards(0) | Cut::ShardSamples(0) | Cut::ShardSize(0) => {
                Err(Error::usage("a shard holds at least one sample"))
            }
            Cut::Shards(shards) if shards > samples => Err(Error::usage(format!(
                "--shards {shards}, and there {}: some shards would be empty",
                if samples == 1 { "is 1 sample".to_owned() } else { format!("are {samples} samples") }
            ))),
            Cut::Shards(shards) => Ok(even(shards)),
            Cut::ShardSamples(most) => {
                not_absurd(samples.div_ceil(most), |shards| format!("--shard-samples {}", samples.div_ceil(shards)))
                    .map(even)
            }
            Cut::ShardSize(most) => {
                // Cuts are at the sample nearest to an even share, so a shard is at most one record over its
                // share.
                let format = self.format();
                let heads = format.head_bytes(samples) - format.head_bytes(0);
                let heads = heads + format.tail_bytes(samples, 0).saturating_sub(format.tail_bytes(0, 0));
                let room = format.room_bytes(most).saturating_sub(format.head_bytes(0) + u64::from(longest)).max(1);
                let room = if u64::from(longest) * 4 > most { most } else { room };
                let shards = (total + heads).div_ceil(room).clamp(1, samples);
                let fits = |shards| (total + heads) / shards + format.head_bytes(0) + u64::from(longest);
                not_absurd(shards, |shards| format!("--shard-size {}MiB", (fits(shards) >> 20) + 1))?;
                Ok(Ends::Bytes { shards, total })
            }
        }
    }

    /// Cuts the order into shards in one pass. All records have `total` bytes, the longest has `longest`.
    pub(super) fn cut(&mut self, total: u64, longest: u32) -> Result<()> {
        let ends = &self.ends(total, longest)?;
        let samples = self.listing.len();
        let all = self.record_bytes()?;
        let mut shards = Vec::with_capacity(ends.shards() as usize);
        let mut shard = Shard { first: 0, samples: 0, records_bytes: 0 };
        let mut before = 0u64;
        let starts = (0..samples).step_by(POSITIONS_AT_A_TIME as usize);
        // Lengths are at random places in memory: threads wait for them in parallel. The cuts depend on one
        // another.
        let in_order = starts.flat_map(|start| {
            let positions = start..samples.min(start + POSITIONS_AT_A_TIME);
            let lengths = positions.clone().into_par_iter().map(|position| all[self.sample_at(position) as usize]);
            positions.zip(lengths.collect::<Vec<_>>())
        });
        for (position, record_bytes) in in_order {
            let record_bytes = u64::from(record_bytes);
            let number = shards.len() as u64;
            let full = match ends {
                Ends::Positions(count) => position == even_share(samples, number + 1, *count),
                // Nearest cut: a record goes to the next shard if more than half of the record is beyond the share.
                Ends::Bytes { shards, total } => before + record_bytes / 2 >= even_share(*total, number + 1, *shards),
            };
            // No shard may be empty: neither this one nor the following ones.
            let left = samples - position;
            let wanted = ends.shards() - number - 1;
            if wanted > 0 && shard.samples > 0 && (full || left <= wanted) {
                shards.push(shard);
                shard = Shard { first: position, samples: 0, records_bytes: 0 };
            }
            shard.samples += 1;
            shard.records_bytes += record_bytes;
            before += record_bytes;
        }
        shards.push(shard);
        if self.format.0.block_headers().is_some() {
            // The length of the head, and so the offset of each record, follows from the number of samples in the shard.
            for shard in &mut shards {
                let plain = shard.positions().map(|position| all[self.sample_at(position) as usize]);
                shard.records_bytes = self.placed(shard.samples, plain).map(u64::from).sum();
            }
        }
        self.shards = shards;
        let most = self.format.0.most_shard_bytes();
        match self.shards.iter().map(|shard| self.content_bytes(shard)).find(|bytes| *bytes > most) {
            Some(bytes) => Err(Error::usage(format!(
                "a shard of {bytes} bytes: {} holds at most {most} in one",
                self.format.0.name()
            ))
            .help("choose smaller shards with --shard-size")),
            None => Ok(()),
        }
    }
}

/// Rule for the ends of shards.
enum Ends {
    /// This number of shards with equal numbers of samples.
    Positions(u64),
    /// This number of shards with equal bytes.
    Bytes { shards: u64, total: u64 },
}

impl Ends {
    fn shards(&self) -> u64 {
        match self {
            Self::Positions(shards) | Self::Bytes { shards, .. } => *shards,
        }
    }
}

/// The first `parts` of `of` equal shares of `total`.
fn even_share(total: u64, parts: u64, of: u64) -> u64 {
    // At most `total`, since `parts` is at most `of`.
    (u128::from(total) * u128::from(parts) / u128::from(of)) as u64
}
