//! Warnings about a plan, for the user before the work starts.

use std::collections::BTreeMap;

use shardpack_format::{image_header::Kind, manifest::BY_KIND, size, text};

use crate::plan::{Compression, Plan};

/// Likely number of readers of a training job: 8 GPUs with 4 workers each.
const LIKELY_READERS: usize = 32;
const MANY_SHARDS: usize = 10_000;

/// Warnings about plans, for the user before the work starts.
pub(super) fn notes<'a>(plans: impl Iterator<Item = &'a Plan> + Clone, kinds: &BTreeMap<Kind, u64>) -> Vec<String> {
    // The largest split is the one with many readers.
    let most = plans.clone().map(|plan| plan.listing.len()).max();
    let mut notes = Vec::new();
    for note in plans.flat_map(|plan| of_plan(plan, kinds, most == Some(plan.listing.len()))) {
        // A warning that several splits share is printed once.
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

fn of_plan(plan: &Plan, kinds: &BTreeMap<Kind, u64>, is_largest: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let shards = plan.shards.len();
    let mean = plan.shard_bytes() / shards as u64;
    if is_largest && shards < LIKELY_READERS && plan.listing.len() >= 10 * LIKELY_READERS as u64 {
        let mebibytes = (plan.shard_bytes() / LIKELY_READERS as u64).max(1 << 20) >> 20;
        notes.push(format!(
            "{} for {LIKELY_READERS} readers, as 8 GPUs with 4 workers have: --shard-size {mebibytes}MiB gives each one",
            size::counted(shards as u64, "shard")
        ));
    }
    if shards > MANY_SHARDS {
        notes.push(format!(
            "{shards} shards of {}: more than {MANY_SHARDS} files are slow to list on network mounts and in buckets; \
             --shard-size {}MiB gives {MANY_SHARDS}",
            size::text(mean),
            ((plan.shard_bytes() / MANY_SHARDS as u64) >> 20) + 1
        ));
    }
    if plan.options.compression != Compression::None
        && plan.options.format.payload.is_none()
        && kinds.keys().all(|kind| *kind != Kind::Bmp && *kind != Kind::Pnm)
    {
        notes.push("photographs are compressed already: zstd makes them no smaller and reading slower".to_owned());
    }
    if plan.format().components().first().is_some_and(|name| name == BY_KIND) {
        notes.push(
            "--ext content: Hugging Face datasets drops images whose extension the first five samples do not have, and \
             timm reads only jpg, png and webp"
                .to_owned(),
        );
    }
    let empty: Vec<String> = plan
        .counts()
        .0
        .iter()
        .zip(plan.listing.classes.iter())
        .filter(|(counts, _)| counts.discovered == 0)
        .map(|(_, name)| text::shown(name).to_string())
        .collect();
    if !empty.is_empty() {
        let split = plan.split.as_ref().map_or_else(String::new, |split| format!(" in {split}"));
        notes.push(format!(
            "{} without images{split}, kept in the list of classes: {}",
            classes(empty.len()),
            some(&empty)
        ));
    }
    notes
}

fn classes(count: usize) -> String {
    if count == 1 { "1 class".to_owned() } else { format!("{count} classes") }
}

/// The first few of a list.
fn some(names: &[String]) -> String {
    const FEW: usize = 5;
    let mut text = names.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > FEW {
        text += &format!(", and {} more", names.len() - FEW);
    }
    text
}
