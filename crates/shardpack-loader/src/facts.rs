//! Collects the facts of a run for [`advice`](crate::advice).

use shardpack_format::shell;
use shardpack_imaging::training::{Cut, Transform};
use shardpack_runtime::threads;

use crate::{
    Output,
    advice::{Facts, ImageFacts},
    fill_slot::Making,
    plan::PlanSource,
    stats::Stats,
};

/// Most samples whose size is read from the index.
const MAX_SIZES: u64 = 1000;

/// The facts of a run with these counts and this number of threads.
pub(crate) fn collect(making: &Making, stats: &Stats, threads: usize) -> Facts {
    let Some(source) = making.plan.sources.first() else { return Facts::default() };
    let images = match &making.output {
        Output::Images(views) => Some(ImageFacts {
            pixels: *making.mean_pixels.get_or_init(|| mean_pixels(source)),
            side: views.iter().map(side).max().unwrap_or(0),
            is_cropped: !views.iter().any(|view| matches!(view.options().cut, Cut::Whole { .. })),
            without_tables: stats.without_tables,
        }),
        _ => None,
    };
    Facts {
        dataset: shell::path(source.dataset.folder()),
        elapsed_ms: stats.elapsed_ms,
        wait_ms: stats.consumer_wait_ms,
        data_wait_ms: stats.disk_wait_ms,
        samples: stats.samples,
        sample_bytes: stats.sample_bytes,
        threads,
        cores: threads::cores(),
        is_remote: !source.dataset.access().page_cache,
        has_cache: stats.cache_reads.is_some(),
        is_tar: source.dataset.manifest().format.name == "webdataset",
        images,
        has_function: false,
    }
}

/// The longer side of a view.
fn side(view: &Transform) -> u32 {
    let size = view.options().cut.size();
    size.width.max(size.height)
}

/// Mean of width × height in the index, over samples that are evenly spread; 0 if no size is known.
fn mean_pixels(source: &PlanSource) -> f64 {
    let samples = source.dataset.len();
    let step = samples.div_ceil(MAX_SIZES).max(1);
    let rows = (0..samples).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let sizes = rows.filter_map(|number| source.dataset.row(number).ok()).map(|row| row.image);
    let pixels = sizes.map(|image| f64::from(image.width) * f64::from(image.height)).filter(|pixels| *pixels > 0.0);
    let (sum, count) = pixels.fold((0.0, 0.0), |(sum, count), pixels| (sum + pixels, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
