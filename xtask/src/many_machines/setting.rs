//! What the simulations are told: samples, machines, stores, and what a sample costs.
//!
//! Holds at all times: rates of stores and machines are assumptions, made here and nowhere else, and printed with every result;
//! costs of a sample are measured ones, read from docs/explain/performance.md.

use crate::{
    Result,
    command::{read, root},
};

/// What is packed.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    /// How many.
    pub count: u64,
    /// Length of each in bytes.
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

/// CPU time, of one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Of each sample, in microseconds: listing, plan, opening, framing, its row of the index.
    pub sample_us: f64,
    /// Of each byte, in nanoseconds: reading, both hashes, writing.
    pub byte_ns: f64,
    /// What `cat` takes for each byte, in nanoseconds: it only reads.
    pub read_ns: f64,
    /// What `b3sum` takes for each byte, in nanoseconds: it maps and hashes.
    pub hash_ns: f64,
    /// Of each sample, in microseconds, for who makes the plan: docs/how-to/many-machines.md, "What plan and merge cost".
    pub plan_us: f64,
    /// Of each shard, in microseconds, for who merges, beside looks at its files: the same.
    pub merge_us: f64,
}

impl Costs {
    /// Those that docs/explain/performance.md has.
    pub fn measured() -> Result<Self> {
        Self::of_page(&read(&root().join("docs/explain/performance.md"))?)
    }

    /// A line through the two trees of the row `pack`: so much for each file, so much for each byte.
    fn of_page(page: &str) -> Result<Self> {
        // CPU seconds of a program, of the large samples and of the small ones.
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

/// One of the machines.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Cores, each as fast as the one that was measured.
    pub cores: f64,
    /// Bytes a second that its network takes, and as many that it gives at the same time.
    pub network: f64,
    /// Files that are read at a time: what `pack` has for network file systems.
    pub in_flight: f64,
    /// Files that are looked at at a time while a source is listed: threads of a walk, two for each core.
    pub walkers: f64,
    /// Seconds from the start of a part until it reads its first sample.
    pub start: f64,
}

/// The usual one of the page.
pub const MACHINE: Machine = Machine { cores: 16.0, network: 25e9 / 8.0, in_flight: 64.0, walkers: 32.0, start: 2.0 };

/// Where source and destination lie. All rates are a second.
#[derive(Clone, Debug)]
pub struct Store {
    /// What the tables call it.
    pub name: &'static str,
    /// Bytes that all machines together read.
    pub read: f64,
    /// Bytes that all machines together write.
    pub write: f64,
    /// Bytes that one machine reads, and as many that it writes.
    pub of_one: f64,
    /// Files that all machines together read.
    pub opens: f64,
    /// Seconds that one file takes when nothing else is asked for.
    pub open_seconds: f64,
    /// Looks at a file, for its length, that all machines together make.
    pub looks: f64,
    /// Seconds that one look takes.
    pub look_seconds: f64,
    /// Looks for each sample that is listed: below 1 where one answer tells of many.
    pub looks_a_sample: f64,
    /// Seconds that a look at a finished shard takes.
    pub shard_look_seconds: f64,
}

/// The stores of the page.
pub fn stores() -> [Store; 3] {
    [
        // 60 disks of what the row `slow` of docs/explain/performance.md lets a disk do; two of each ten hold parity.
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
        // What is packed lies on the file system above it: a bucket has no rename and no locks.
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
