//! Compares how well the orders of shardpack and of other loaders mix (`shuffle-quality`), by simulation with each loader's settings.
//!
//! Every order is measured in the same way on the same setting. The task writes docs/explain/shuffle-quality.md between its marks, and
//! its plot.

mod measure;
pub mod order;
pub mod page;
pub mod peers;
mod times;

use measure::{Quality, quality};
use order::{Order, Setting};
use shardpack_loader::order::Options;

use crate::{
    Result,
    arguments::Arguments,
    bench::machine,
    command::{root, target, write},
    plot::Dots,
    random::Random,
};

/// Runs of the lanes, in samples.
const RUNS: [u64; 4] = [36, 18, 9, 5];
const PLOT: &str = "shuffle-quality.svg";

/// Task `shuffle-quality`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let mut number = |name: &str, usual: u64| Ok::<_, String>(arguments.number(name)?.unwrap_or(usual));
    let setting = Setting {
        samples: number("--samples", 1_281_167)?.clamp(1, u64::from(u32::MAX)) as u32,
        classes: number("--classes", 1_000)?.clamp(1, 1 << 20) as u32,
        ranks: number("--ranks", 8)?.clamp(1, 1 << 12) as usize,
        workers: number("--workers", 8)?.clamp(1, 1 << 12) as usize,
        batch: number("--batch", 256)?.clamp(1, 1 << 16) as usize,
        sample_bytes: number("--sample-bytes", 115_573)?.max(1),
    };
    let seed = number("--seed", 0)?;
    let epochs = number("--epochs", 40)?.max(1);
    let keep = arguments.flag("--keep");
    arguments.end()?;
    let place = times::report(epochs)?;
    println!("{place}");
    if !keep {
        page::set("place", &place)?;
    }
    let mut measured = Vec::new();
    for order in orders(&setting) {
        let found = measure(&setting, &order, seed)?;
        println!("{:<36} R {:.2}, DEFF sorted {:.2?}", order.name, found.r, found.deff_sorted);
        measured.push((order, found));
    }
    let text = report(&setting, &measured);
    if keep {
        println!("{text}");
        return Ok(());
    }
    let dots = Dots {
        panels: vec!["R: 1 is a true reshuffle", "DEFF of all ranks, shards sorted by class"],
        rows: measured
            .iter()
            .map(|(order, found)| (order.name.clone(), vec![found.r, found.deff_sorted[1]], order.is_ours))
            .collect(),
    };
    write(&root().join("docs/explain").join(PLOT), dots.svg("How well epochs are shuffled, by loader"))?;
    page::set("orders", &text)
}

/// All compared orders.
fn orders(setting: &Setting) -> Vec<Order> {
    let mut all = vec![order::reshuffled()];
    all.extend(RUNS.map(|run| order::lanes(setting, run, peers::SHARD_BYTES)));
    all.extend(peers::all(setting));
    all.push(order::stored());
    all
}

fn measure(setting: &Setting, order: &Order, seed: u64) -> Result<Quality> {
    let epochs = [(order.epoch)(setting, seed, 0)?, (order.epoch)(setting, seed, 1)?];
    let sorted: Vec<u32> = (0..u64::from(setting.samples))
        .map(|sample| (sample * u64::from(setting.classes) / u64::from(setting.samples)) as u32)
        .collect();
    let mut shuffled = sorted.clone();
    Random::from_seeds(&[seed, u64::MAX]).shuffle(&mut shuffled);
    Ok(quality(setting, [&epochs[0], &epochs[1]], &shuffled, &sorted))
}

fn report(setting: &Setting, measured: &[(Order, Quality)]) -> String {
    let Setting { samples, classes, ranks, workers, batch, sample_bytes } = setting;
    let mut text = format!(
        "`cargo xtask shuffle-quality`: {samples} samples of {sample_bytes} bytes in {classes} classes, {ranks} ranks \
         on one node, batches of {batch}, {workers} worker processes per rank for loaders that use workers, {} lanes. \
         Shards have 256 MiB, unless the writer has its own size. {}.\n\n\
         | order | held a rank | R | DEFF, 1 rank | DEFF, {ranks} ranks | sorted: DEFF, 1 rank | sorted: DEFF, {ranks} ranks | repeated | dropped |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        Options::lanes_for(*ranks as u64, *batch as u64),
        machine::describe(&target("")),
    );
    for (order, found) in measured {
        let held =
            order.held_samples.map_or("—".to_owned(), |held| format!("{:.2} GB", (held * sample_bytes) as f64 / 1e9));
        let [one, all] = found.deff_shuffled.map(number);
        let [sorted_one, sorted_all] = found.deff_sorted.map(number);
        let (name, repeated, dropped) = (&order.name, found.repeated, found.dropped);
        let r = number(found.r);
        text += &format!(
            "| {name} | {held} | {r} | {one} | {all} | {sorted_one} | {sorted_all} | {repeated} | {dropped} |\n"
        );
    }
    text + &format!("\n![R and DEFF of each order]({PLOT})\n")
}

/// Formats a number with its significant digits.
fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Setting =
        Setting { samples: 40_003, classes: 20, ranks: 2, workers: 2, batch: 32, sample_bytes: 2_000_000 };

    fn found(order: &Order) -> Quality {
        measure(&SMALL, order, 7).unwrap()
    }

    #[test]
    fn a_true_reshuffle_is_one_by_every_measure_and_no_shuffle_is_as_bad_as_can_be() {
        let good = found(&order::reshuffled());
        let measures = [&[good.r][..], &good.deff_shuffled, &good.deff_sorted].concat();
        assert!(measures.iter().all(|measure| (0.9..1.1).contains(measure)), "{good:?}");
        assert_eq!((good.repeated, good.dropped), (0, 0));
        let bad = found(&order::stored());
        // Every pair repeats: the chance ratio is the number of batches of all ranks.
        assert!((bad.r / (f64::from(SMALL.samples) / 63.0) - 1.0).abs() < 0.05, "{bad:?}");
        assert!(bad.deff_sorted[0] > 25.0 && bad.deff_shuffled[0] < 1.1, "{bad:?}");
    }

    #[test]
    fn lanes_are_as_good_as_a_true_reshuffle_and_take_every_sample_once() {
        for run in [2, 5] {
            let found = found(&order::lanes(&SMALL, run, 256 << 20));
            assert!((0.9..1.15).contains(&found.r), "{found:?}");
            assert!(found.deff_sorted.iter().all(|deff| *deff < 1.15), "{found:?}");
            assert_eq!((found.repeated, found.dropped), (0, 0));
        }
    }

    #[test]
    fn no_order_invents_samples_and_each_says_what_it_leaves_out() {
        for order in orders(&SMALL) {
            let ranks = (order.epoch)(&SMALL, 3, 1).unwrap();
            assert_eq!(ranks.len(), SMALL.ranks, "{}", order.name);
            let samples = || ranks.iter().flatten().flatten();
            assert!(samples().all(|sample| *sample < SMALL.samples), "{}", order.name);
            let there: std::collections::HashSet<_> = samples().collect();
            // Repeats or drops by design: timm's shares, LitData's whole batches.
            let cuts = ["timm, wds", "LitData, shuffle=True"].contains(&order.name.as_str());
            assert!(cuts || there.len() == SMALL.samples as usize, "{}: {}", order.name, there.len());
            assert!(there.len() > SMALL.samples as usize * 3 / 4, "{}: {}", order.name, there.len());
        }
    }

    #[test]
    fn a_buffer_gives_all_that_it_takes_and_never_holds_more_than_it_may() {
        for (bufsize, initial) in [(1, 1), (2, 100), (10, 1), (10, 10), (50, 3), (2_000, 100)] {
            let random = &mut Random::from_seeds(&[1]);
            let out = peers::through_buffer(0..1_000usize, bufsize, initial, random);
            let mut sorted = out.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..1_000).collect::<Vec<_>>());
            // A sample can arrive early by at most the size of the buffer.
            assert!(
                out.iter().enumerate().all(|(at, sample)| *sample <= at + bufsize.max(1) + 1),
                "{bufsize} {initial}"
            );
        }
    }
}
