//! What an order follows from, beside the layout and the epoch.

use shardpack_format::{Error, Result};

/// How samples are put in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shuffle {
    /// Runs in random order, laid end to end and cut into lanes that are read at the same time; the samples of each run
    /// in random order. Large reads, and as good as a true shuffle.
    #[default]
    Lanes,
    /// Every sample for itself, in random order: a read for each.
    Full,
    /// The order in which they are stored.
    None,
}

impl Shuffle {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lanes, Self::Full, Self::None];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lanes => "lanes",
            Self::Full => "full",
            Self::None => "none",
        }
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shuffle| shuffle.name() == name)
    }
}

/// What an order follows from, beside the layout and the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How samples are put in order.
    pub shuffle: Shuffle,
    /// Chooses between orders.
    pub seed: u64,
    /// Lanes, K: at least as many as samples in a batch of all ranks together, so that no batch has two of one run.
    /// Of use with [`Shuffle::Lanes`] alone; otherwise there is one.
    pub lanes: u64,
    /// Blocks of a run, G. Of use with [`Shuffle::Lanes`] and [`Shuffle::None`].
    pub run_blocks: u64,
    /// Whether each run is rotated before it is laid into the sequence: it begins with a sample that epoch and run choose, and wraps
    /// around. Then the end of a lane, which cuts a run, separates samples at random; without, a sample's place in its run decides
    /// whether it comes early or late. `false` is the order of states of version 1.
    pub rotated: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { shuffle: Shuffle::Lanes, seed: 0, lanes: 264, run_blocks: 1, rotated: true }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self { lanes: 0, .. } => Err(Error::usage("an order of 0 lanes")),
            Self { run_blocks: 0, .. } => Err(Error::usage("runs of 0 blocks")),
            _ => Ok(()),
        }
    }

    /// The number of lanes for `world` ranks of `batch` samples: as many as samples in a batch of all ranks, rounded up so
    /// that 1, 2, 3, 4, 6, 8, 12 and 24 ranks can share them evenly, and `world`.
    pub fn lanes_for(world: u64, batch: u64) -> u64 {
        let (world, batch) = (world.max(1), batch.max(1));
        let step = world / gcd(world, 24) * 24;
        world.saturating_mul(batch).div_ceil(step).saturating_mul(step)
    }
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_shared_evenly_by_usual_numbers_of_ranks() {
        for (world, batch, lanes) in
            [(1, 1, 24), (1, 64, 72), (2, 64, 144), (8, 256, 2064), (7, 10, 168), (64, 32, 2112)]
        {
            assert_eq!(Options::lanes_for(world, batch), lanes, "{world} ranks of {batch}");
            for divisor in [world, 2, 3, 4, 8] {
                assert_eq!(lanes % divisor, 0);
            }
        }
    }

    #[test]
    fn names_come_back() {
        for shuffle in Shuffle::ALL {
            assert_eq!(Shuffle::parse(shuffle.name()), Some(shuffle));
        }
        assert_eq!(Shuffle::parse("Full"), None);
    }
}
