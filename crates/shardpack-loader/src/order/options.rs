//! Options of an order, in addition to the layout and the epoch.

use shardpack_format::{Error, Result};

/// The kind of shuffle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shuffle {
    /// Runs in random order form one sequence, which is cut into lanes that are read at the same time; the samples of each run
    /// are in random order. Reads are large, and mixing is as good as a true shuffle.
    #[default]
    Lanes,
    /// All samples in random order: one read per sample.
    Full,
    /// Stored order.
    None,
}

impl Shuffle {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Lanes, Self::Full, Self::None];

    /// The name in options and states.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lanes => "lanes",
            Self::Full => "full",
            Self::None => "none",
        }
    }

    /// The kind with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shuffle| shuffle.name() == name)
    }
}

/// Options of an order, in addition to the layout and the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The kind of shuffle.
    pub shuffle: Shuffle,
    /// Seed of the random choices.
    pub seed: u64,
    /// Lanes, K: at least the number of samples in a batch of all ranks together, so that no batch has two samples of one run.
    /// Only [`Shuffle::Lanes`] uses them; the other kinds have one lane.
    pub lanes: u64,
    /// Blocks per run, G. Only [`Shuffle::Lanes`] and [`Shuffle::None`] use them.
    pub run_blocks: u64,
    /// Whether each run is rotated before it is placed in the sequence: it begins with a sample that depends on epoch and run, and
    /// wraps around. Then a lane end that cuts a run separates samples at random; without rotation, the place of a sample in its
    /// run decides whether it comes early or late. `false` is the order of states of version 1.
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

    /// The number of lanes for `world` ranks of `batch` samples: the number of samples in a batch of all ranks, rounded up so
    /// that 1, 2, 3, 4, 6, 8, 12, 24 or `world` ranks can share the lanes evenly.
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
