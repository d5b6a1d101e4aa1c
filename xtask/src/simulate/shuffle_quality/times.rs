//! Tests whether the position of a sample in its run predicts its time of delivery. Reports correlations for runs shorter and longer
//! than a lane, with and without rotation.

use shardpack_loader::{
    order::{Epoch, Layout, Options},
    quality::{self, Times},
};

use crate::Result;

const SAMPLES: u64 = 50_000;
const BATCH: u64 = 128;
const RANKS: [u64; 2] = [1, 8];
/// Length of a run ÷ length of a lane.
const RATIOS: [f64; 7] = [0.05, 0.2, 0.5, 0.7, 1.3, 2.0, 5.0];

/// Means over epochs.
#[derive(Clone, Copy, Debug, Default)]
struct Means {
    place: f64,
    epochs: f64,
    r: f64,
}

/// The position of each sample, indexed by sample number.
fn positions(epoch: &Epoch) -> Vec<u64> {
    let mut all = vec![0; epoch.len() as usize];
    for lane in 0..epoch.lanes() {
        for segment in epoch.segments(lane, 0) {
            for at in 0..segment.len() {
                all[segment.sample(at) as usize] = (segment.start + at) * epoch.lanes() + lane;
            }
        }
    }
    all
}

fn measure(ranks: u64, ratio: f64, rotated: bool, epochs: u64) -> Result<Means> {
    let said = |error: shardpack_loader::Error| error.to_string();
    let layout = Layout::new([SAMPLES], 1).map_err(said)?;
    let lanes = Options::lanes_for(ranks, BATCH);
    let run_blocks = ((SAMPLES as f64 / lanes as f64 * ratio) as u64).max(1);
    let options = Options { lanes, run_blocks, rotated, ..Options::default() };
    let batch = ranks * BATCH;
    let (mut sum, mut before): (Means, Option<Vec<u64>>) = (Means::default(), None);
    for number in 0..=epochs {
        let epoch = Epoch::new(&layout, &options, number).map_err(said)?;
        let now = positions(&epoch);
        if let Some(before) = &before {
            let all = (0..SAMPLES).zip(&now).zip(before).map(|((sample, at), other)| (sample, *at, *other));
            let times = Times::measure(&epoch, all).ok_or("too few runs")?;
            let mut batches = vec![Vec::new(); SAMPLES.div_ceil(batch) as usize];
            (0..SAMPLES).for_each(|sample| batches[(now[sample as usize] / batch) as usize].push(sample));
            let r = quality::repeated_pairs(&batches, SAMPLES, batch, |sample| Some(before[sample as usize] / batch));
            sum.place += times.place.value;
            sum.epochs += times.epochs.value;
            sum.r += r.map_or(f64::NAN, |r| r.value);
        }
        before = Some(now);
    }
    let mean = |sum: f64| sum / epochs as f64;
    Ok(Means { place: mean(sum.place), epochs: mean(sum.epochs), r: mean(sum.r) })
}

/// The table of the page.
pub fn report(epochs: u64) -> Result<String> {
    let mut text = format!(
        "`cargo xtask shuffle-quality`: {SAMPLES} samples in one shard, batches of {BATCH}, the loader's default \
         number of lanes; means over {epochs} epochs.\n\n\
         | ranks | run ÷ lane | place and time | two epochs | R | not rotated: place and time | two epochs | R |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for ranks in RANKS {
        for ratio in RATIOS {
            let [ours, old] = [true, false].map(|rotated| measure(ranks, ratio, rotated, epochs));
            let columns = |Means { place, epochs, r }: Means| format!("{place:+.3} | {epochs:+.3} | {r:.3}");
            text += &format!("| {ranks} | {ratio} | {} | {} |\n", columns(ours?), columns(old?));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_takes_the_correlation_away() {
        let [ours, old] = [true, false].map(|rotated| measure(8, 0.7, rotated, 4).unwrap());
        assert!(ours.place.abs() < 0.05 && ours.epochs.abs() < 0.05, "{ours:?}");
        assert!(old.place < -0.2 && old.epochs > 0.1, "{old:?}");
    }
}
