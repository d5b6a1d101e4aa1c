//! Benchmarks native augmentation of crops in memory against torchvision's v2, each on one thread.

use std::path::Path;

use super::{
    Scale,
    contest::{Contender, contest, median, spread},
};
use crate::{
    Result,
    command::{command, output},
    package, python,
};

const SCRIPT: &str = "benches/peers/augment.py";
const IMAGES: u64 = 1_024;

/// Each operation alone, and the operations of usual pipelines.
pub fn augment(scale: &Scale) -> Result<String> {
    let (own, torch) = (package::installed()?, python::streaming()?);
    let images = (IMAGES / scale.smaller).max(64);
    let mut text = format!(
        "Images of 224 × 224 pixels in memory, uint8, one after the other on one thread (`{SCRIPT}`, import time excluded): \
         the native part of the package with a copy of the pixels, and torchvision's v2 on tensors with \
         `torch.set_num_threads(1)`. Medians of {} rounds, least to most in parentheses (aim: 5 times).\n\n\
         | | shardpack, µs an image | torchvision, µs | rate, torchvision = 1 |\n|---|---:|---:|---:|\n",
        scale.rounds
    );
    for row in output(&mut command(&own, [SCRIPT, "rows"]))?.lines() {
        let by = |tool: &'static str, python: &Path| {
            let python = python.to_owned();
            let run = move || Ok(command(&python, [SCRIPT, tool, row, &images.to_string()]));
            Contender { counts_itself: true, ..Contender::new(tool, run) }
        };
        let results = contest(scale.rounds, &[by("shardpack", &own), by("torchvision", &torch)], || Ok(()))?;
        let [(_, ours), (_, theirs)] = &results.0[..] else {
            return Err("two contenders, and not two results".to_owned());
        };
        let micros = |usages: &[super::process::Usage]| {
            median(usages.iter().map(|usage| usage.seconds / images as f64 * 1e6).collect())
        };
        let rates = ours.iter().zip(theirs).map(|(ours, theirs)| theirs.seconds / ours.seconds).collect();
        text += &format!("| {row} | {:.0} | {:.0} | {} |\n", micros(ours), micros(theirs), spread(rates, 1));
    }
    Ok(text)
}
