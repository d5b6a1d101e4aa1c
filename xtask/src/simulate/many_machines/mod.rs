//! Simulates packing on 1 to 1,024 machines and training on as many ranks, at stated rates (`many-machines`).
//!
//! The same setting gives the same text. The task writes docs/how-to/many-machines.md between its marks, and its plot.

mod packing;
mod setting;
mod training;

use packing::{Flow, Limit, Lost, Phases, enough, phases, rates, slowest};
use setting::{Costs, MACHINE, Machine, Samples, Store, stores};
use training::Training;

use crate::{
    Result,
    arguments::Arguments,
    command::{root, write},
    plot::Curves,
    simulate::shuffle_quality::page,
};

const PAGE: &str = "docs/how-to/many-machines.md";
const PLOT: &str = "many-machines.svg";
const MAX_MACHINES: u64 = 1_024;

/// 20 TB, in samples of two lengths.
const SAMPLES: [Samples; 2] = [
    Samples { count: 100_000_000, bytes: 200_000, shard_bytes: 256 << 20 },
    Samples { count: 20_000_000, bytes: 1_000_000, shard_bytes: 256 << 20 },
];

/// Task `many-machines`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let keep = arguments.flag("--keep");
    let own = own(&mut arguments)?;
    arguments.end()?;
    let costs = Costs::measured()?;
    if let Some((samples, machine, store)) = own {
        println!("{}", table(&samples, &costs, &machine, &store));
        return Ok(());
    }
    let (packing, training) = (report(&costs), trained()?);
    if keep {
        println!("{packing}\n{training}");
        return Ok(());
    }
    write(&root().join("docs/explain").join(PLOT), curves(&costs).svg("How long a pack of 20 TB takes, by machines"))?;
    page::set_in(PAGE, "packing", &packing)?;
    page::set_in(PAGE, "training", &training)
}

/// The setting of the command line, if any; missing options default to the parallel file system.
fn own(arguments: &mut Arguments) -> Result<Option<(Samples, Machine, Store)>> {
    let mut is_given = false;
    let mut number = |name: &str, usual: f64| -> Result<f64> {
        let Some(text) = arguments.value(name)? else { return Ok(usual) };
        is_given = true;
        let number = text.parse().ok().filter(|number| f64::is_finite(*number) && *number > 0.0);
        number.ok_or_else(|| format!("{name} {text}: not a number above 0"))
    };
    let [usual, _] = SAMPLES;
    let samples = Samples {
        count: (number("--samples", usual.count as f64)? as u64).clamp(1, 1 << 40),
        bytes: (number("--sample-bytes", usual.bytes as f64)? as u64).clamp(1, 1 << 20),
        shard_bytes: (number("--shard-bytes", usual.shard_bytes as f64)? as u64).clamp(1 << 20, 1 << 40),
    };
    let machine = Machine {
        cores: number("--cores", MACHINE.cores)?,
        network: number("--network", MACHINE.network)?,
        in_flight: number("--in-flight", MACHINE.in_flight)?,
        walkers: number("--walkers", MACHINE.walkers)?,
        start: number("--start", MACHINE.start)?,
    };
    let [_, flash, _] = stores();
    let store = Store {
        name: "as given",
        read: number("--read", flash.read)?,
        write: number("--write", flash.write)?,
        of_one: number("--of-one", flash.of_one)?,
        opens: number("--opens", flash.opens)?,
        open_seconds: number("--open-seconds", flash.open_seconds)?,
        looks: number("--looks", flash.looks)?,
        look_seconds: number("--look-seconds", flash.look_seconds)?,
        looks_a_sample: number("--looks-a-sample", flash.looks_a_sample)?,
        shard_look_seconds: number("--shard-look-seconds", flash.shard_look_seconds)?,
    };
    Ok(is_given.then_some((samples, machine, store)))
}

/// Formats seconds for people.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 360_000.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// Formats a rate in bytes a second.
fn bytes(rate: f64) -> String {
    match rate {
        rate if rate < 1e9 => format!("{:.0} MB/s", rate / 1e6),
        rate if rate < 1e10 => format!("{:.1} GB/s", rate / 1e9),
        rate => format!("{:.0} GB/s", rate / 1e9),
    }
}

/// Formats a count with commas.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let ends = (1..=digits.len()).rev().map(|left| (left, &digits[digits.len() - left..][..1]));
    ends.map(|(left, digit)| if left % 3 == 1 && left > 1 { format!("{digit},") } else { digit.to_owned() }).collect()
}

fn described(samples: &Samples) -> String {
    let (count, shards) = (count(samples.count), count(samples.shards()));
    format!("{count} samples of {:.0} KB, {shards} shards of 256 MiB", samples.bytes as f64 / 1e3)
}

/// Total seconds by number of machines: with a plan made once, and with a walk by each machine.
fn totals(samples: &Samples, costs: &Costs, machine: &Machine, store: &Store) -> [impl Fn(u64) -> f64; 2] {
    let of = |total: fn(&Phases) -> f64| {
        let (samples, costs, machine, store) = (*samples, *costs, *machine, store.clone());
        move |machines| total(&phases(&samples, &costs, &machine, &store, machines))
    };
    [of(Phases::once), of(Phases::by_each)]
}

/// The times of one store, by number of machines.
fn table(samples: &Samples, costs: &Costs, machine: &Machine, store: &Store) -> String {
    let mut text = "| machines | plan once | pack | merge | in all | a walk by each | pack waits for | cores | network | store: files | reading | writing |\n\
                    |---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for machines in [1, 4, 16, 64, 256, MAX_MACHINES] {
        let found = phases(samples, costs, machine, store, machines);
        let limits = rates(samples, costs, machine, store, machines);
        let (limit, rate) = slowest(&limits);
        let used = [Limit::Cores, Limit::Network, Limit::Opens, Limit::Read, Limit::Write].map(|used| {
            let most = limits.iter().find(|limit| limit.0 == used).map_or(f64::INFINITY, |limit| limit.1);
            format!(" {:.0} % |", 100.0 * rate / most)
        });
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} |{}\n",
            count(machines),
            time(found.plan),
            time(found.pack),
            time(found.merge),
            time(found.once()),
            time(found.by_each()),
            limit.name(),
            used.concat(),
        );
    }
    let [once, by_each] = totals(samples, costs, machine, store).map(|total| enough(total, MAX_MACHINES));
    let said = |found: Option<u64>| found.map_or(format!("more than {}", count(MAX_MACHINES)), count);
    text + &format!(
        "\nTwice as many machines save less than a tenth of the time from {} on; where each walks, from {} on.\n",
        said(once),
        said(by_each)
    )
}

/// The section on packing.
fn report(costs: &Costs) -> String {
    let Machine { cores, network, in_flight, walkers, start } = MACHINE;
    let (cpu_of, small) = (|bytes: f64| costs.sample_us + costs.byte_ns / 1e3 * bytes, 200_000.0);
    let mut text = format!(
        "`cargo xtask many-machines`. Measured, in [performance](../explain/performance.md#pack), row `pack`: {:.1} µs of a core for each sample (list, plan, \
         open, frame, index) and {:.2} ns for each byte (read, hash, write, sync), which is {:.0} µs for a sample of 200 KB; in the rows `read` and `verify`, \
         `cat` takes {:.2} ns to read a byte and `b3sum` {:.2} ns to hash one; [above](#what-plan-and-merge-cost), {:.1} µs a sample to plan and {:.0} µs a shard to merge. Cores are those of the machine there. Assumed, all the rest: machines of {cores} cores with {} of network in each direction, {in_flight} files \
         in flight and {walkers} looks at a time, {start} s to start a part, four parts a machine.\n\n\
         | store | reads | writes | one machine | files a second | one file | looks a second | one look | looks a sample |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        costs.sample_us,
        costs.byte_ns,
        cpu_of(small),
        costs.read_ns,
        costs.hash_ns,
        bytes(network),
        costs.plan_us,
        costs.merge_us,
    );
    for store in stores() {
        text += &format!(
            "| {} | {} | {} | {} | {} | {:.0} ms | {} | {:.1} ms | {} |\n",
            store.name,
            bytes(store.read),
            bytes(store.write),
            bytes(store.of_one),
            count(store.opens as u64),
            store.open_seconds * 1e3,
            count(store.looks as u64),
            store.look_seconds * 1e3,
            store.looks_a_sample,
        );
    }
    for samples in &SAMPLES {
        for store in stores() {
            text +=
                &format!("\n{}; {}:\n\n{}", described(samples), store.name, table(samples, costs, &MACHINE, &store));
        }
    }
    text += &format!("\n![Hours by machines, for each store and both ways to plan](../explain/{PLOT})\n\n");
    text + &uneven(costs)
}

/// The section on the number of parts: for machines of different speed, and for a lost machine.
fn uneven(costs: &Costs) -> String {
    const MACHINES: u64 = 16;
    let [samples, _] = SAMPLES;
    let [_, store, _] = stores();
    let all = rates(&samples, costs, &MACHINE, &store, 1);
    let rate = slowest(&all).1;
    // Evenly from 0.8 to 1.2 of the rate.
    let own: Vec<f64> = (0..MACHINES).map(|at| rate * (0.8 + 0.4 * at as f64 / (MACHINES - 1) as f64)).collect();
    let shared = [Limit::Opens, Limit::Read, Limit::Write];
    let shared =
        all.iter().filter(|limit| shared.contains(&limit.0)).map(|limit| limit.1).fold(f64::INFINITY, f64::min);
    let best = samples.count as f64 / shared.min(own.iter().sum());
    let lost =
        Lost { machine: 0, at: best / 2.0, noticed: 60.0, again: 2.0 * samples.count as f64 / samples.shards() as f64 };
    let mut text = format!(
        "How many parts: {MACHINES} machines, the slowest with 0.8 and the fastest with 1.2 times the network above, the parallel file system, the \
         samples of 200 KB; a part begins {} s after it is assigned. The second column loses a machine in the middle; the loss is \
         noticed after 60 s, another machine resumes its part, and finished shards stay. The lower bound is {}.\n\n\
         | parts | time | with a lost machine |\n|---:|---:|---:|\n",
        MACHINE.start,
        time(best),
    );
    for parts in [16, 32, 64, 256, 1024, 4096] {
        let lengths = packing::parts(&samples, parts);
        let of = |lost| Flow { own: &own, shared, parts: &lengths, start: MACHINE.start, lost }.seconds();
        let over = |seconds: f64| format!("{:.0} s (+{:.0} %)", seconds, 100.0 * (seconds / best - 1.0));
        text += &format!("| {} | {} | {} |\n", count(parts), over(of(None)), over(of(Some(lost))));
    }
    text
}

/// Hours by number of machines, for all stores and both ways to plan.
fn curves(costs: &Costs) -> Curves {
    let machines: Vec<u64> = (0..=10).map(|power| 1 << power).collect();
    let names = stores().iter().map(|store| store.name.to_owned()).collect();
    let panel = |samples: &Samples| {
        let mut lines: [Vec<Vec<(f64, f64)>>; 2] = [Vec::new(), Vec::new()];
        for store in stores() {
            for (lines, total) in lines.iter_mut().zip(totals(samples, costs, &MACHINE, &store)) {
                lines.push(machines.iter().map(|machines| (*machines as f64, total(*machines) / 3600.0)).collect());
            }
        }
        (described(samples), lines.concat())
    };
    Curves {
        names,
        dashed: "dashed: each part walks the source",
        panels: SAMPLES.iter().map(panel).collect(),
        across: "machines",
        up: "hours",
    }
}

/// The section on training.
fn trained() -> Result<String> {
    let [samples, _] = SAMPLES;
    let usual = Training {
        samples: samples.count,
        sample_bytes: samples.bytes,
        shard_samples: samples.count.div_ceil(samples.shards()),
        ranks: 8,
        batch: 256,
        memory_bytes: 512 << 20,
        rate: 1_000,
    };
    let mut text = format!(
        "`cargo xtask many-machines`, by the loader's own order: {}; batches of {} a rank, {} samples a second a rank. Requests and bytes are those \
         of a minute behind the first second; of 64 ranks and more, of 16 of them. *At once*: lanes that begin in the same shard, at most.\n\n\
         | ranks | memory a rank | lanes | a run | runs a lane | requests a second, a rank | its busiest second | all ranks | bytes a second, all ranks | read before the first batch, all ranks | at once |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        described(&samples),
        usual.batch,
        count(usual.rate),
    );
    for (ranks, memory_bytes) in
        [(8, 512 << 20), (8, 4 << 30), (64, 512 << 20), (64, 4 << 30), (1024, 512 << 20), (1024, 4 << 30)]
    {
        let one = Training { ranks, memory_bytes, ..usual };
        let load = one.load(60, 16)?;
        let lanes = one.lanes();
        text += &format!(
            "| {} | {} MiB | {} | {:.1} MB | {} | {:.0} | {} | {} | {} | {} GB | {} |\n",
            count(ranks),
            count(memory_bytes >> 20),
            count(lanes),
            one.run_bytes() as f64 / 1e6,
            count(samples.count * samples.bytes / lanes / one.run_bytes()),
            load.requests,
            load.busiest,
            count((load.requests * ranks as f64) as u64),
            bytes(load.bytes * ranks as f64),
            count((lanes * one.run_bytes()).div_ceil(1_000_000_000)),
            load.most_on_a_shard,
        );
    }
    Ok(text + &shared_out()? + &readers(&usual)?)
}

/// The table on few shards for many ranks.
fn shared_out() -> Result<String> {
    const RANKS: u64 = 8;
    const SHARD: u64 = 1_342;
    let mut text = format!(
        "\nShards of {} samples of 200 KB, {RANKS} ranks, batches of 64: what a rank has of an epoch, by lanes and where whole shards are dealt \
         out, divided by an even share.\n\n\
         | shards | most by lanes | least | bytes read twice | shards that a rank reads of | most by whole shards | least |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n",
        count(SHARD),
    );
    for shards in [4, 8, 9, 12, 20, 100] {
        let one = Training {
            samples: shards * SHARD,
            sample_bytes: 200_000,
            shard_samples: SHARD,
            ranks: RANKS,
            batch: 64,
            memory_bytes: 256 << 20,
            rate: 1_000,
        };
        let shares = one.shares()?;
        let even = one.samples as f64 / RANKS as f64;
        let samples = || shares.iter().map(|share| share.samples);
        let (most, least) = (samples().max().unwrap_or(0), samples().min().unwrap_or(0));
        let twice: u64 = shares.iter().map(|share| share.read - share.samples).sum();
        let of = || shares.iter().map(|share| share.shards);
        let (few, many) = (of().min().unwrap_or(0), of().max().unwrap_or(0));
        let dealt = |number: u64| number as f64 * RANKS as f64 / shards as f64;
        text += &format!(
            "| {shards} | {:.4} | {:.4} | {twice} | {few} to {many} | {:.2} | {:.2} |\n",
            most as f64 / even,
            least as f64 / even,
            dealt(shards.div_ceil(RANKS)),
            dealt(shards / RANKS),
        );
    }
    Ok(text)
}

/// The table on resuming with other numbers of ranks.
fn readers(usual: &Training) -> Result<String> {
    let began = Training { ranks: 64, ..*usual };
    let ranks = [1, 8, 16, 32, 48, 56, 60, 63, 96, 128, 192];
    let cells: Vec<String> =
        ranks.iter().map(|ranks| began.readers(*ranks).map(|readers| readers.to_string())).collect::<Result<_>>()?;
    Ok(format!(
        "\nA run that 64 ranks with batches of {} began has {} lanes. How many ranks read each byte where others go on with it:\n\n\
         | ranks | {} |\n|---|{}\n| readers | {} |\n",
        usual.batch,
        count(began.lanes()),
        ranks.map(|ranks| ranks.to_string()).join(" | "),
        "---:|".repeat(ranks.len()),
        cells.join(" | "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_rates_and_counts_are_written_as_people_say_them() {
        let times = [0.02, 9.94, 61.0, 119.0, 120.0, 7199.0, 7200.0, 1e6].map(time);
        assert_eq!(times, ["0.0 s", "9.9 s", "61 s", "119 s", "2 min", "120 min", "2.0 h", "12 days"]);
        assert_eq!([3.125e9, 6e10, 1.5e8].map(bytes), ["3.1 GB/s", "60 GB/s", "150 MB/s"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn the_page_has_what_is_computed_from_the_costs_that_it_names() {
        let page = crate::command::read(&root().join(PAGE)).unwrap();
        let part = |name: &str| {
            let (_, part) = page.split_once(&format!("<!-- {name}:begin -->\n")).unwrap();
            part.split_once(&format!("\n<!-- {name}:end -->")).unwrap().0.to_owned()
        };
        let help = "cargo xtask many-machines writes it anew";
        assert!(part("training") == trained().unwrap().trim_end(), "{help}");
        let (found, made) = (part("packing"), report(&Costs::measured().unwrap()));
        // A new measurement must not fail the test: the page names the measurement it used.
        let is_of_these_costs = found.lines().next() == made.lines().next();
        assert!(!is_of_these_costs || found == made.trim_end(), "{help}");
    }

    #[test]
    fn the_same_setting_gives_the_same_text_and_more_machines_are_never_slower_but_where_each_walks() {
        let costs = Costs::measured().unwrap();
        assert_eq!(report(&costs), report(&costs));
        for samples in &SAMPLES {
            for store in stores() {
                let [once, _] = totals(samples, &costs, &MACHINE, &store);
                for machines in (0..10).map(|power| 1 << power) {
                    let (few, many) = (once(machines), once(2 * machines));
                    assert!(many <= few * 1.01, "{}: {machines}: {few} {many}", store.name);
                }
            }
        }
    }
}
