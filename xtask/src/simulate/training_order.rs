//! Trains a small network on scikit-learn's digits with several orders (`training-order`).
//!
//! The orders are those of `shuffle-quality`, from the same code. A seed has the same network and test set in all orders. The task
//! writes every result to docs/explain/shuffle-quality.md, good or bad.

use std::{collections::BTreeMap, time::Instant};

use shardpack_loader::order::Options;

use crate::{
    Result,
    arguments::Arguments,
    bench::machine,
    command::{command, output, root, run, target, write},
    plot::{Lines, Series},
    python,
    random::Random,
    simulate::shuffle_quality::{
        order::{self, Order, Setting},
        page, peers,
    },
};

/// About four fifths of 1,797 images; the rest is the test set.
const SAMPLES: u32 = 1_437;
const BATCH: usize = 16;
const EPOCHS: u64 = 15;
const SEEDS: u64 = 20;
/// Samples of a shard.
const SHARD: u64 = 90;
const RUN: u64 = 5;
const PLOT: &str = "training-order.svg";

/// Task `training-order`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let seeds = arguments.number("--seeds")?.unwrap_or(SEEDS).clamp(2, 100);
    arguments.end()?;
    let began = Instant::now();
    let orders = orders();
    let folder = target("bench/training-order");
    let (digits, orders_file, stored_file) = (folder.join("digits.npz"), folder.join("orders"), folder.join("stored"));
    write(&orders_file, bytes(&orders, seeds)?)?;
    let mut shuffled: Vec<u32> = (0..SAMPLES).collect();
    Random::from_seeds(&[0]).shuffle(&mut shuffled);
    shuffled.extend(0..SAMPLES);
    write(&stored_file, shuffled.into_iter().flat_map(|sample| (sample as u16).to_le_bytes()).collect::<Vec<u8>>())?;
    let script = "benches/training_order.py";
    run(command(python::digits()?, [script, "--digits"]).arg(&digits))?;
    let mut train = command(python::streaming()?, [script]);
    train.args([&digits, &orders_file, &stored_file]);
    train.args([seeds, EPOCHS, BATCH as u64].map(|number| number.to_string()));
    let found = parse(&output(&mut train)?, orders.len(), seeds as usize)?;
    let text = report(&orders, &found, seeds, began.elapsed().as_secs());
    if seeds < SEEDS {
        println!("{text}");
        return Ok(());
    }
    let panel = |store: usize, what: &str| (what.to_owned(), found.iter().map(|of| of[store].clone()).collect());
    let lines = Lines {
        names: orders.iter().map(|order| order.name.clone()).collect(),
        panels: vec![panel(0, "globally shuffled shards"), panel(1, "shards sorted by class")],
        steps: "epoch",
    };
    write(&root().join("docs/explain").join(PLOT), lines.svg("Test accuracy, mean and 95 % confidence interval"))?;
    page::set("training", &text)
}

fn setting() -> Setting {
    Setting { samples: SAMPLES, classes: 10, ranks: 1, workers: 1, batch: BATCH, sample_bytes: 1 }
}

fn orders() -> Vec<Order> {
    let lanes = order::lanes(&setting(), RUN, SHARD);
    let as_much = lanes.held_samples.unwrap_or(0) as usize;
    // As small as shuffle(1000) is against the samples of one of 64 workers at ImageNet's size.
    let as_small = SAMPLES as usize / 20;
    let webdataset = |bufsize: usize, initial: usize| Order {
        name: format!("webdataset, shuffle({bufsize})"),
        held_samples: Some(bufsize as u64),
        is_ours: false,
        epoch: Box::new(move |setting, seed, epoch| {
            Ok(peers::webdataset_buffer(setting, SHARD, bufsize, initial, seed, epoch))
        }),
    };
    vec![
        order::reshuffled(),
        lanes,
        webdataset(as_much, as_much / 10),
        webdataset(as_small, as_small / 10),
        order::stored(),
    ]
}

/// The orders, encoded for the script.
fn bytes(orders: &[Order], seeds: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for order in orders {
        for seed in 0..seeds {
            for epoch in 0..EPOCHS {
                let start = bytes.len();
                let ranks = (order.epoch)(&setting(), seed, epoch)?;
                bytes.extend(ranks.iter().flatten().flatten().flat_map(|sample| (*sample as u16).to_le_bytes()));
                if bytes.len() - start != 2 * SAMPLES as usize {
                    return Err(format!("{}: gives {} samples", order.name, (bytes.len() - start) / 2));
                }
            }
        }
    }
    Ok(bytes)
}

/// Mean and 95 % interval after each epoch, by order and by way of storing.
fn parse(text: &str, orders: usize, seeds: usize) -> Result<Vec<[Series; 2]>> {
    let mut shares: BTreeMap<(usize, usize), Vec<Vec<f64>>> = BTreeMap::new();
    for line in text.lines() {
        let numbers: Option<Vec<f64>> = line.split(' ').map(|word| word.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() == 3 + EPOCHS as usize);
        let numbers = numbers.ok_or_else(|| format!("training_order.py printed {line:?}"))?;
        shares.entry((numbers[0] as usize, numbers[1] as usize)).or_default().push(numbers[3..].to_vec());
    }
    let series = |order: usize, store: usize| -> Result<Series> {
        let runs = shares.get(&(order, store)).filter(|runs| runs.len() == seeds);
        let runs = runs.ok_or_else(|| format!("training_order.py left out order {order}"))?;
        Ok((0..EPOCHS as usize).map(|epoch| interval(&runs.iter().map(|run| run[epoch]).collect::<Vec<_>>())).collect())
    };
    (0..orders).map(|order| Ok([series(order, 0)?, series(order, 1)?])).collect()
}

/// Mean, and half of the 95 % interval by Student's t.
fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let freedom = n - 1.0;
    // Cornish-Fisher series for the quantile 0.975; gives 2.093 at 19 degrees of freedom, as in tables.
    let z: f64 = 1.959_964;
    let t = z
        + (z.powi(3) + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom * freedom);
    (mean, t * (variance / n).sqrt())
}

fn report(orders: &[Order], found: &[[Series; 2]], seeds: u64, seconds: u64) -> String {
    let lanes = Options::lanes_for(1, BATCH as u64);
    let mut text = format!(
        "`cargo xtask training-order`: a network of two convolutions on scikit-learn's digits, {SAMPLES} of 1797 for \
         training and the rest for testing. Batch {BATCH}, {EPOCHS} epochs, {seeds} seeds, one reader, shards of \
         {SHARD} samples. Values are test accuracy in percent, mean and 95 % confidence interval. {lanes} lanes with \
         runs of {RUN} hold {} samples, and so does one webdataset buffer. The other buffer holds the same share of \
         the samples as shuffle(1000) holds of one worker's samples at ImageNet's size. {}; {seconds} s.\n\n",
        orders[1].held_samples.unwrap_or(0),
        machine::describe(&target("")),
    );
    let epochs = [1, 2, 3, 5, 10, EPOCHS as usize];
    for (store, what) in ["Globally shuffled shards", "Shards sorted by class"].into_iter().enumerate() {
        text += &format!("{what}:\n\n| after epoch |");
        text.extend(epochs.iter().map(|epoch| format!(" {epoch} |")));
        text += &format!("\n|---|{}\n", "---:|".repeat(epochs.len()));
        for (order, found) in orders.iter().zip(found) {
            text += &format!("| {} |", order.name);
            let cell = |epoch: &usize| {
                let (mean, off) = found[store][epoch - 1];
                format!(" {:.1} ± {:.1} |", mean * 100.0, off * 100.0)
            };
            text.extend(epochs.iter().map(cell));
            text += "\n";
        }
        text += "\n";
    }
    text + &format!("![Test accuracy after each epoch]({PLOT})\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_gives_every_sample_once_an_epoch() {
        let orders = orders();
        let bytes = bytes(&orders, 2).unwrap();
        for epoch in bytes.chunks(2 * SAMPLES as usize) {
            let mut samples: Vec<u16> = epoch.chunks(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
            samples.sort_unstable();
            assert!(samples.iter().enumerate().all(|(at, sample)| at == usize::from(*sample)));
        }
        assert_eq!(bytes.len(), orders.len() * 2 * EPOCHS as usize * 2 * SAMPLES as usize);
    }

    #[test]
    fn intervals_are_those_of_the_tables() {
        let (mean, half) = interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        // t of 4 degrees of freedom is 2.776.
        assert!((mean - 3.0).abs() < 1e-12 && (half / (2.776 * (2.5f64 / 5.0).sqrt()) - 1.0).abs() < 0.02, "{half}");
        let (_, half) = interval(&(0..20).map(f64::from).collect::<Vec<_>>());
        assert!((half / (2.093 * (35.0f64 / 20.0).sqrt()) - 1.0).abs() < 0.001, "{half}");
    }

    #[test]
    fn what_the_script_prints_is_read_and_what_it_leaves_out_is_told() {
        let line = |order: usize, store: usize, seed: usize| {
            format!("{order} {store} {seed}{}\n", " 0.5".repeat(EPOCHS as usize))
        };
        let all: String = (0..2).flat_map(|store| (0..2).map(move |seed| line(0, store, seed))).collect();
        assert_eq!(parse(&all, 1, 2).unwrap()[0][1][0], (0.5, 0.0));
        assert!(parse(&all, 2, 2).unwrap_err().contains("left out order 1"));
        assert!(parse("0 0 nan", 1, 2).is_err());
    }
}
