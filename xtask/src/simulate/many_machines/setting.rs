//! Defines the inputs of the simulations: samples, machines, stores, and the costs of a sample.
//!
//! Rates of stores and machines are assumptions; they are defined only here and printed with every result. Costs of a sample are
//! measured, and read from docs/explain/performance.md.

use crate::{
    Result,
    command::{read, root},
};

/// Samples to pack.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    /// Number of samples.
    pub count: u64,
    /// Length of each sample in bytes.
    pub bytes: u64,
    /// Length of a shard in bytes.
    pub shard_bytes: u64,
}

impl Samples {
    /// Number of shards.
    pub fn shards(&self) -> u64 {
        (self.count * self.bytes).div_ceil(self.shard_bytes).max(1)
    }
}

/// CPU time on one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Per sample, in microseconds: listing, plan, opening, framing, and the sample's row of the index.
    pub sample_us: f64,
    /// Per byte, in nanoseconds: reading, both hashes, writing.
    pub byte_ns: f64,
    /// Time of `cat` per byte, in nanoseconds: reading only.
    pub read_ns: f64,
    /// Time of `b3sum` per byte, in nanoseconds: mapping and hashing.
    pub hash_ns: f64,
    /// Per sample, in microseconds, for the machine that plans: docs/how-to/many-machines.md, "What plan and merge cost".
    pub plan_us: f64,
    /// Per shard, in microseconds, for the machine that merges, without looking at the files: from the same section.
    pub merge_us: f64,
}

impl Costs {
    /// The costs in docs/explain/performance.md.
    pub fn measured() -> Result<Self> {
        Self::of_page(&read(&root().join("docs/explain/performance.md"))?)
    }

    /// Fits a line through the two trees of the row `pack`: a cost per file and a cost per byte.
    fn of_page(page: &str) -> Result<Self> {
        // CPU seconds of a program for the large samples and for the small samples.
        let seconds = |row: &str, program: &str| -> Result<[f64; 2]> {
            let section = page.split("\n### ").find(|section| section.starts_with(&format!("{row}\n")));
            let lines = section.unwrap_or_default().lines().filter(|line| line.starts_with(&format!("| {program}")));
            let seconds: Vec<f64> = lines.filter_map(|line| line.split('|').nth(3)?.trim().parse().ok()).collect();
            seconds.try_into().map_err(|_| format!("docs/explain/performance.md has no rows of {program} in `{row}`"))
        };
        let [large, small] = seconds("pack", "shardpack pack |")?;
        let ([read, _], [hash, _]) = (seconds("read", "cat |")?, seconds("verify", "b3sum ")?);
        let (large_us, small_us) = (large * 1e6 / 10_000.0, small * 1e6 / 200_000.0);
        let byte_us = (large_us - small_us) / (110_000.0 - 3_000.0);
        let of_byte = |seconds: f64| seconds * 1e9 / (10_000.0 * 110_000.0);
        Ok(Self {
            sample_us: small_us - byte_us * 3_000.0,
            byte_ns: byte_us * 1e3,
            read_ns: of_byte(read),
            hash_ns: of_byte(hash),
            plan_us: 0.5,
            merge_us: 20.0,
        })
    }
}

/// A machine of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Number of cores, each as fast as the measured core.
    pub cores: f64,
    /// Bytes a second that its network receives, and as many that it sends at the same time.
    pub network: f64,
    /// Files read at a time: `pack`'s limit for network file systems.
    pub in_flight: f64,
    /// Files looked at concurrently while a source is listed: threads of a walk, two for each core.
    pub walkers: f64,
    /// Seconds from the start of a part to its first sample.
    pub start: f64,
}

/// The default machine of the page.
pub const MACHINE: Machine = Machine { cores: 16.0, network: 25e9 / 8.0, in_flight: 64.0, walkers: 32.0, start: 2.0 };

/// Store of source and destination. All rates are per second.
#[derive(Clone, Debug)]
pub struct Store {
    /// Name in the tables.
    pub name: &'static str,
    /// Bytes read by all machines together.
    pub read: f64,
    /// Bytes written by all machines together.
    pub write: f64,
    /// Bytes read by one machine, and as many written.
    pub of_one: f64,
    /// Files opened by all machines together.
    pub opens: f64,
    /// Seconds to open a file on an idle store.
    pub open_seconds: f64,
    /// Looks at a file, for its length, by all machines together.
    pub looks: f64,
    /// Seconds for one look.
    pub look_seconds: f64,
    /// Looks per listed sample: below 1 if one response lists several.
    pub looks_a_sample: f64,
    /// Seconds for one look at a finished shard.
    pub shard_look_seconds: f64,
}

/// The stores of the page.
pub fn stores() -> [Store; 3] {
    [
        // 60 disks at the limits of the row `slow` of docs/explain/performance.md; two disks in ten hold parity.
        Store {
            name: "file server, 60 hard disks",
            read: 60.0 * 150e6,
            write: 48.0 * 150e6 / 2.0,
            of_one: 1.25e9,
            opens: 60.0 * 150.0 / 1.1,
            open_seconds: 0.01,
            looks: 20_000.0,
            look_seconds: 0.002,
            looks_a_sample: 1.0,
            shard_look_seconds: 0.002,
        },
        Store {
            name: "parallel file system on flash",
            read: 100e9,
            write: 60e9,
            of_one: 5e9,
            opens: 300_000.0,
            open_seconds: 0.001,
            looks: 500_000.0,
            look_seconds: 0.0003,
            looks_a_sample: 1.0,
            shard_look_seconds: 0.0003,
        },
        // The packed output lies on the file system above: a bucket has no rename and no locks.
        Store {
            name: "mounted bucket, packed to flash",
            read: 50e9,
            write: 60e9,
            of_one: 2.5e9,
            opens: 55_000.0,
            open_seconds: 0.03,
            looks: 3_500.0,
            look_seconds: 0.1,
            looks_a_sample: 0.001,
            shard_look_seconds: 0.0003,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_page() {
        let page = "\n### pack\n\n| shardpack pack | 0.55 (0.52 to 0.68) | 1.11 | 15 MB | 1 |\n| tar | 1 | 9 | 4 MB | 2 |\n\n\
                    | shardpack pack | 1.27 (1.21 to 1.33) | 0.80 | 65 MB | 1 |\n\n### peers\n\n| shardpack pack | 3 | 3 | 1 | 1 |\n\n### verify\n\n| b3sum 1.8.7 | 1 | 0.33 | 1 | 1 |\n\
                    | b3sum 1.8.7 | 1 | 9 | 1 | 1 |\n\n### read\n\n| cat | 1 | 0.11 | 1 | 1 |\n| cat | 1 | 9 | 1 | 1 |\n";
        // 111 and 4 µs a file: 107 µs for 107,000 bytes, so 1 ns a byte and 1 µs a file.
        let costs = Costs::of_page(page).unwrap();
        assert!((costs.byte_ns - 1.0).abs() < 1e-9 && (costs.sample_us - 1.0).abs() < 1e-9, "{costs:?}");
        assert!((costs.read_ns - 0.1).abs() < 1e-9 && (costs.hash_ns - 0.3).abs() < 1e-9, "{costs:?}");
        assert!(Costs::of_page("").is_err());
        assert!(Costs::of_page("\n### pack\n\n| shardpack pack | 1 | 1 | 1 | 1 |\n").is_err());
    }

    #[test]
    fn the_page_of_this_repository_has_costs() {
        let costs = Costs::measured().unwrap();
        assert!(costs.sample_us > 1.0 && costs.byte_ns > 0.1, "{costs:?}");
    }
}
