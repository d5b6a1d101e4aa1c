//! Requests and bytes that an epoch needs from a server.
//!
//! Holds at all times: counts are reported unchanged; if a row ended before its epoch did, the rest is extrapolated
//! from the part that was read.

use shardpack_reader::{Dataset, Transfers};

/// The cost of reading over a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// All rows together, including the opening of their datasets.
    pub all: Transfers,
    /// The first epoch of a run, including manifest and indexes: the cost of the row
    /// [`raw`](crate::measure::Measured::raw). If
    /// that row ended early, its cost is scaled up to the bytes of the whole epoch.
    pub epoch: Transfers,
    /// Whether the row read the whole epoch.
    pub is_whole: bool,
    /// Limit of requests in flight at the end of the row.
    pub in_flight: usize,
}

impl Network {
    /// From a row that delivered `samples` of `dataset` at the cost `row`; [`Network::all`] is still empty.
    pub(crate) fn from_row(dataset: &Dataset, samples: u64, row: Transfers) -> Self {
        let manifest = dataset.manifest();
        let indexes = manifest.shards.iter().fold(0_u64, |sum, shard| sum.saturating_add(shard.index.bytes));
        let is_whole = samples == dataset.len();
        let epoch = if is_whole { row } else { scaled(row, manifest.shard_bytes.saturating_add(indexes)) };
        Self { all: Transfers::default(), epoch, is_whole, in_flight: dataset.concurrency().unwrap_or(1) }
    }
}

/// Scales all counts of `row` up to `bytes`.
fn scaled(row: Transfers, bytes: u64) -> Transfers {
    // Both byte counts include data that was read ahead of the delivered samples.
    let scaled = |count: u64| {
        let more = (u128::from(count) * u128::from(bytes)).div_ceil(u128::from(row.bytes.max(1)));
        u64::try_from(more).unwrap_or(u64::MAX).max(count)
    };
    Transfers {
        requests: scaled(row.requests),
        bytes: scaled(row.bytes),
        again: scaled(row.again),
        too_many: scaled(row.too_many),
        sent_bytes: row.sent_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_an_epoch_is_taken_to_be_as_what_was_read() {
        let row = Transfers { requests: 10, bytes: 1000, again: 3, too_many: 0, sent_bytes: 0 };
        for (name, row, bytes, expected) in [
            ("four times", row, 4000, Transfers { requests: 40, bytes: 4000, again: 12, too_many: 0, sent_bytes: 0 }),
            (
                "a part of a request is one",
                row,
                1001,
                Transfers { requests: 11, bytes: 1001, again: 4, too_many: 0, sent_bytes: 0 },
            ),
            ("never less than was seen", row, 10, row),
            ("nothing came", Transfers::default(), 10, Transfers::default()),
            (
                "numbers near the limit",
                Transfers { requests: u64::MAX, bytes: 1, again: 0, too_many: 0, sent_bytes: 0 },
                u64::MAX,
                { Transfers { requests: u64::MAX, bytes: u64::MAX, again: 0, too_many: 0, sent_bytes: 0 } },
            ),
        ] {
            assert_eq!(scaled(row, bytes), expected, "{name}");
        }
    }
}
