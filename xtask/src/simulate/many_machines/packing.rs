//! Simulates as flows how many machines pack parts from one store into one store: seconds of each phase, and its limit.
//!
//! The result is a function of the setting. A machine packs one part after another, at the rate of its slowest own limit. The store's
//! rate is divided evenly; the share that a slower machine leaves goes to the others. Reading, computing and writing overlap, as in
//! `pack`.

use std::collections::VecDeque;

use super::setting::{Costs, Machine, Samples, Store};

/// A limit of one machine or of all machines together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Cores of a machine.
    Cores,
    /// Network of a machine.
    Network,
    /// Rate of the store for one machine.
    OneClient,
    /// Files in flight of a machine: latency of the store for one file.
    Waiting,
    /// Files a second that the store opens.
    Opens,
    /// Bytes a second that the store reads.
    Read,
    /// Bytes a second that the store writes.
    Write,
}

impl Limit {
    /// Name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Network => "network of a machine",
            Self::OneClient => "store, for one machine",
            Self::Waiting => "files in flight",
            Self::Opens => "store: files",
            Self::Read => "store: reading",
            Self::Write => "store: writing",
        }
    }
}

/// Samples a second that each limit allows one machine, while all `machines` pack.
pub fn rates(samples: &Samples, costs: &Costs, machine: &Machine, store: &Store, machines: u64) -> [(Limit, f64); 7] {
    let (bytes, machines) = (samples.bytes as f64, machines as f64);
    let cpu_seconds = costs.sample_us / 1e6 + costs.byte_ns / 1e9 * bytes;
    [
        (Limit::Cores, machine.cores / cpu_seconds),
        (Limit::Network, machine.network / bytes),
        (Limit::OneClient, store.of_one / bytes),
        (Limit::Waiting, machine.in_flight / store.open_seconds),
        (Limit::Opens, store.opens / machines),
        (Limit::Read, store.read / bytes / machines),
        (Limit::Write, store.write / bytes / machines),
    ]
}

/// Number of leading entries of [`rates`] that limit a machine alone.
const OWN: usize = 4;

/// The slowest of these limits.
pub fn slowest(rates: &[(Limit, f64)]) -> (Limit, f64) {
    let first = (Limit::Cores, f64::INFINITY);
    rates.iter().fold(first, |least, rate| if rate.1 < least.1 { *rate } else { least })
}

/// A machine that fails during the pack.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Number of the machine, from 0.
    pub machine: usize,
    /// Time of the failure, in seconds.
    pub at: f64,
    /// Seconds from the failure until the part is assigned to another machine.
    pub noticed: f64,
    /// Samples of incomplete shards, which are packed again.
    pub again: f64,
}

/// Machines with their rates, and their work.
pub struct Flow<'a> {
    /// Samples a second of each machine alone.
    pub own: &'a [f64],
    /// Samples a second of the store, for all machines together.
    pub shared: f64,
    /// Samples of each part, in order of assignment.
    pub parts: &'a [f64],
    /// Seconds before the first sample of each part.
    pub start: f64,
    /// The machine that fails, if any.
    pub lost: Option<Lost>,
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    Nothing,
    Starting { until: f64, left: f64 },
    Packing { left: f64 },
    Gone,
}

impl Doing {
    /// What a machine does at `next` that packs at `rate` from `now`.
    fn later(self, now: f64, next: f64, rate: f64) -> Self {
        match self {
            // Floating-point sums: a machine within a billionth of its end is done.
            Self::Packing { left } if now + left / rate <= next * (1.0 + 1e-9) => Self::Nothing,
            Self::Packing { left } => Self::Packing { left: left - rate * (next - now) },
            other => other,
        }
    }
}

impl Flow<'_> {
    /// Seconds until all parts are packed; infinite if no machine can pack them.
    pub fn seconds(&self) -> f64 {
        let mut queue: VecDeque<f64> = self.parts.iter().copied().collect();
        let mut machines = vec![Doing::Nothing; self.own.len()];
        // Parts of lost machines: time of reassignment, and samples.
        let mut returned: Vec<(f64, f64)> = Vec::new();
        let mut lost = self.lost;
        let mut now = 0.0;
        loop {
            for machine in &mut machines {
                if matches!(machine, Doing::Nothing)
                    && let Some(left) = queue.pop_front()
                {
                    *machine = Doing::Starting { until: now + self.start, left };
                }
            }
            for machine in &mut machines {
                if let Doing::Starting { until, left } = *machine
                    && until <= now
                {
                    *machine = Doing::Packing { left };
                }
            }
            let is_done = machines.iter().all(|machine| matches!(machine, Doing::Nothing | Doing::Gone));
            if is_done && queue.is_empty() && returned.is_empty() {
                return now;
            }
            let rates = self.divided(&machines);
            let next = machines.iter().zip(&rates).map(|(machine, rate)| match machine {
                Doing::Starting { until, .. } => *until,
                Doing::Packing { left } => now + left / rate,
                Doing::Nothing | Doing::Gone => f64::INFINITY,
            });
            let next = next.chain(returned.iter().map(|part| part.0)).chain(lost.map(|lost| lost.at.max(now)));
            let next = next.fold(f64::INFINITY, f64::min);
            if next == f64::INFINITY {
                return next;
            }
            for (machine, rate) in machines.iter_mut().zip(&rates) {
                *machine = machine.later(now, next, *rate);
            }
            now = next;
            if let Some(gone) = lost.filter(|lost| lost.at <= now) {
                match std::mem::replace(&mut machines[gone.machine], Doing::Gone) {
                    Doing::Starting { left, .. } => returned.push((now + gone.noticed, left)),
                    Doing::Packing { left } => returned.push((now + gone.noticed, left + gone.again)),
                    Doing::Nothing | Doing::Gone => {}
                }
                lost = None;
            }
            queue.extend(returned.extract_if(.., |part| part.0 <= now).map(|part| part.1));
        }
    }

    /// Samples a second of each machine: its own rate, or an even share of the store's rate that slower machines leave.
    fn divided(&self, machines: &[Doing]) -> Vec<f64> {
        let mut rates = vec![0.0; machines.len()];
        let mut active: Vec<usize> =
            (0..machines.len()).filter(|at| matches!(machines[*at], Doing::Packing { .. })).collect();
        active.sort_by(|a, b| self.own[*a].total_cmp(&self.own[*b]));
        let mut left = self.shared;
        for (done, at) in active.iter().enumerate() {
            rates[*at] = self.own[*at].min(left / (active.len() - done) as f64);
            left -= rates[*at];
        }
        rates
    }
}

/// The phases of a pack, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// Listing and plan by one machine.
    pub plan: f64,
    /// Listing and plan by all machines at the same time.
    pub plan_by_each: f64,
    /// All parts, four per machine.
    pub pack: f64,
    /// Checks of the shards, and the manifest.
    pub merge: f64,
}

impl Phases {
    /// Total with one plan.
    pub fn once(&self) -> f64 {
        self.plan + self.pack + self.merge
    }

    /// Total if each machine walks the source.
    pub fn by_each(&self) -> f64 {
        self.plan_by_each + self.pack + self.merge
    }
}

/// Lengths in samples of `parts` parts of whole shards, as even as possible.
pub fn parts(samples: &Samples, parts: u64) -> Vec<f64> {
    let shards = samples.shards();
    let of_shard = samples.count as f64 / shards as f64;
    let end = |part: u64| (u128::from(part) * u128::from(shards) / u128::from(parts)) as u64;
    (0..parts).map(|part| (end(part + 1) - end(part)) as f64 * of_shard).filter(|part| *part > 0.0).collect()
}

/// Parts per machine in [`phases`].
pub const PARTS: u64 = 4;

/// Seconds of each phase with `machines` machines.
pub fn phases(samples: &Samples, costs: &Costs, machine: &Machine, store: &Store, machines: u64) -> Phases {
    let looked =
        |looks: f64, seconds: f64, at_once: f64| looks / (machine.walkers / seconds).min(store.looks / at_once);
    let (count, shards) = (samples.count as f64, samples.shards() as f64);
    let listed = |at_once| looked(count * store.looks_a_sample, store.look_seconds, at_once);
    let plan_of = |at_once: f64| listed(at_once) + count * costs.plan_us / 1e6;
    let all = rates(samples, costs, machine, store, 1);
    let own = vec![slowest(&all[..OWN]).1; machines as usize];
    let parts = parts(samples, (PARTS * machines).min(samples.shards()));
    let flow = Flow { own: &own, shared: slowest(&all[OWN..]).1, parts: &parts, start: machine.start, lost: None };
    Phases {
        plan: plan_of(1.0),
        plan_by_each: plan_of(machines as f64),
        pack: flow.seconds(),
        merge: looked(shards, store.shard_look_seconds, 1.0) + shards * costs.merge_us / 1e6,
    }
}

/// The first power of two of machines for which twice as many save less than a tenth of the time.
pub fn enough(total: impl Fn(u64) -> f64, most: u64) -> Option<u64> {
    std::iter::successors(Some(1_u64), |machines| machines.checked_mul(2))
        .take_while(|machines| *machines <= most)
        .find(|machines| total(2 * machines) > 0.9 * total(*machines))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million samples of 1 MB in shards of 100; all other costs are negligible.
    const SAMPLES: Samples = Samples { count: 1_000_000, bytes: 1_000_000, shard_bytes: 100_000_000 };
    const COSTS: Costs =
        Costs { sample_us: 0.0, byte_ns: 0.0, read_ns: 0.0, hash_ns: 0.0, plan_us: 0.0, merge_us: 0.0 };
    const MACHINE: Machine = Machine { cores: 1.0, network: 1e30, in_flight: 1e30, walkers: 1e30, start: 0.0 };
    const STORE: Store = Store {
        name: "none",
        read: 1e30,
        write: 1e30,
        of_one: 1e30,
        opens: 1e30,
        open_seconds: 1.0,
        looks: 1e30,
        look_seconds: 1.0,
        looks_a_sample: 1.0,
        shard_look_seconds: 1.0,
    };

    fn is(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= expected * 1e-6
    }

    #[test]
    fn each_limit_is_what_a_hand_computes() {
        let costs = Costs { sample_us: 100.0, byte_ns: 0.9, ..COSTS };
        let cores = Machine { cores: 10.0, ..MACHINE };
        let network = Machine { network: 1e9, ..MACHINE };
        let few = Machine { in_flight: 20.0, ..MACHINE };
        let slow = Store { open_seconds: 0.01, ..STORE };
        let (opens, read) = (Store { opens: 5_000.0, ..STORE }, Store { read: 4e9, ..STORE });
        let (write, one) = (Store { write: 2e9, ..STORE }, Store { of_one: 5e8, ..STORE });
        // A million samples: 1 ms each on 10 cores; 1 GB/s; 20 at a time of 10 ms; 5,000 a second in all; 4 and 2 GB/s in all.
        let rows: [(&str, &Costs, &Machine, &Store, u64, Limit, f64); 12] = [
            ("cores of one", &costs, &cores, &STORE, 1, Limit::Cores, 100.0),
            ("cores of four", &costs, &cores, &STORE, 4, Limit::Cores, 25.0),
            ("network of one", &COSTS, &network, &STORE, 1, Limit::Network, 1000.0),
            ("network of five", &COSTS, &network, &STORE, 5, Limit::Network, 200.0),
            ("files in flight of one", &COSTS, &few, &slow, 1, Limit::Waiting, 500.0),
            ("files in flight of two", &COSTS, &few, &slow, 2, Limit::Waiting, 250.0),
            ("files of the store, one", &COSTS, &MACHINE, &opens, 1, Limit::Opens, 200.0),
            ("files of the store, a hundred", &COSTS, &MACHINE, &opens, 100, Limit::Opens, 200.0),
            ("reading", &COSTS, &MACHINE, &read, 16, Limit::Read, 250.0),
            ("writing", &COSTS, &MACHINE, &write, 16, Limit::Write, 500.0),
            ("one client", &COSTS, &MACHINE, &one, 1, Limit::OneClient, 2000.0),
            ("ten clients", &COSTS, &MACHINE, &one, 10, Limit::OneClient, 200.0),
        ];
        for (name, costs, machine, store, machines, limit, seconds) in rows {
            let found = phases(&SAMPLES, costs, machine, store, machines);
            assert!(is(found.pack, seconds), "{name}: {found:?}");
            assert_eq!(slowest(&rates(&SAMPLES, costs, machine, store, machines)).0, limit, "{name}");
        }
    }

    #[test]
    fn listing_is_once_or_by_each_and_all_of_them_ask_the_same_store() {
        // 10,000 looks a second: a million takes 100 s, or 1,000 s by ten machines at once. One alone has 8 of 1 ms in flight: 125 s.
        let store = Store { looks: 10_000.0, look_seconds: 1e-3, shard_look_seconds: 1e-3, ..STORE };
        let (many, few) = (Machine { walkers: 1e9, ..MACHINE }, Machine { walkers: 8.0, ..MACHINE });
        let costs = Costs { plan_us: 20.0, merge_us: 1_000.0, ..COSTS };
        let found = phases(&SAMPLES, &costs, &many, &store, 10);
        // 20 µs to plan each sample add 20 s. The looks at 10,000 shards take 1 s, and merging 10 s.
        assert!(is(found.plan, 120.0) && is(found.plan_by_each, 1020.0) && is(found.merge, 11.0), "{found:?}");
        let found = phases(&SAMPLES, &costs, &few, &store, 1);
        assert!(is(found.plan, 145.0) && is(found.plan_by_each, 145.0) && is(found.merge, 11.25), "{found:?}");
        // If one response lists 1,000 samples, all take a tenth of a second.
        let listed = Store { looks_a_sample: 1e-3, ..store };
        assert!(is(phases(&SAMPLES, &COSTS, &many, &listed, 1).plan, 0.1));
    }

    #[test]
    fn parts_are_given_out_one_by_one_and_slow_machines_take_fewer() {
        let flow = |own: &[f64], shared: f64, parts: &[f64], start: f64, lost: Option<Lost>| {
            Flow { own, shared, parts, start, lost }.seconds()
        };
        let lost = |at| Some(Lost { machine: 1, at, noticed: 30.0, again: 10.0 });
        let rows = [
            ("one part on one machine", flow(&[1.0], 9.0, &[100.0], 5.0, None), 105.0),
            ("three parts on two machines", flow(&[1.0, 1.0], 9.0, &[100.0; 3], 0.0, None), 200.0),
            // The fast machine packs three parts of 10 s while the slow one packs its part of 30 s.
            ("a fast and a slow machine", flow(&[10.0, 3.0], 99.0, &[100.0, 90.0, 100.0, 100.0], 0.0, None), 30.0),
            ("no part", flow(&[1.0], 1.0, &[], 5.0, None), 0.0),
            ("no machine", flow(&[], 1.0, &[1.0], 5.0, None), f64::INFINITY),
            // Both get 5 a second. When one ends, the other gets all 10: 100 s, then 100 samples at 10.
            ("a store for two", flow(&[99.0, 99.0], 10.0, &[500.0, 600.0], 0.0, None), 110.0),
            // The slow machine takes 2 of 10 and leaves 8: 100 samples in 50 s, 400 in 50 s.
            ("what one leaves", flow(&[2.0, 99.0], 10.0, &[100.0, 400.0], 0.0, None), 50.0),
            // Lost at 40 s with 60 samples left; returned at 70 s. The other machine takes it at 100 s: 60 and 10 more.
            ("a lost machine", flow(&[1.0, 1.0], 9.0, &[100.0, 100.0], 0.0, lost(40.0)), 170.0),
            // Lost after its end: no effect.
            ("a machine that had nothing left", flow(&[1.0, 2.0], 9.0, &[100.0, 100.0], 0.0, lost(60.0)), 100.0),
            // Noticed 20 s after the other machine is done, which restarts at 50 + 30.
            ("noticed late", flow(&[2.0, 1.0], 9.0, &[100.0, 100.0], 0.0, lost(50.0)), 110.0),
        ];
        for (name, found, expected) in rows {
            assert!(found == expected || is(found, expected), "{name}: {found}, not {expected}");
        }
    }

    #[test]
    fn parts_are_whole_shards_and_all_of_them() {
        for count in [1, 3, 7, 9_999, 10_000, 20_000] {
            let parts = parts(&SAMPLES, count);
            assert!(is(parts.iter().sum(), 1e6), "{count}");
            assert!(parts.iter().all(|part| is((part / 100.0).round() * 100.0, *part)), "{count}");
            let ends = parts.iter().fold((f64::INFINITY, 0.0_f64), |ends, part| (ends.0.min(*part), ends.1.max(*part)));
            assert!(ends.1 - ends.0 <= 100.1, "{count}: {ends:?}");
        }
    }

    #[test]
    fn enough_is_where_twice_as_many_save_less_than_a_tenth() {
        // 1,000 s of parallel work and 100 s of serial work: 8 take 225 s, 16 162, 32 131, 64 116, 128 108, 256 104.
        let total = |machines: u64| 1000.0 / machines as f64 + 100.0;
        assert_eq!(enough(total, 1 << 20), Some(64));
        assert_eq!(enough(total, 32), None);
        assert_eq!(enough(|_| 1.0, 8), Some(1));
    }
}
