//! The report about a plan before packing: the source, the numbers of the plan, notes.

use std::{collections::BTreeMap, path::Path, slice};

use serde::Serialize;
use shardpack_packer::{
    Error, Result,
    pack::{self, Planned, Requests},
    plan::Plan,
    sidecars,
};
use shardpack_source::{
    ledger::{Fate, Unpacked},
    sys,
};
use shardpack_storage::Address;

use super::{
    advice::{self, Finding},
    planned_targets::PlannedTarget,
};
use crate::{
    args::Talk,
    document::{self, Counted, LeftOut},
    lines::Lines,
    price::{self, Priced, Prices},
    report,
};

/// Rows in the table of classes; --json has all.
const SHOWN_CLASSES: usize = 20;
const LARGEST: usize = 10;

/// Prints the numbers of the plans, one per format, for a pack with these sidecars into `dst`, if it is known. `has_crops`: whether
/// the pack makes crop tables.
pub fn print(
    all: &[Planned],
    dst: Option<&Path>,
    sidecars: &sidecars::Choice,
    prices: Option<&Prices>,
    has_crops: bool,
    talk: Talk,
) -> Result<()> {
    // The free space of a store is unknown.
    let on_disk = dst.and_then(|dst| Address::of(dst).local());
    let requests = |planned: &Planned| {
        let all = pack::requests(planned, dst, sidecars)?;
        Ok::<_, Error>(Some(all).filter(|all| *all != Requests::default()))
    };
    let space = |planned: &Planned| {
        Ok::<_, Error>((pack::needed_bytes(&planned.plans), on_disk.map(sys::free_bytes).transpose()?))
    };
    if talk.json {
        let document = |planned| {
            let requests = requests(planned)?.map(|requests| Priced::new(requests, prices));
            Ok(Document::new(planned, space(planned)?, requests, advice::of_pack(planned, has_crops)))
        };
        let formats = all.iter().map(document).collect::<Result<Vec<_>>>()?;
        return match formats.as_slice() {
            [document] => report::print_json(document),
            _ => report::print_json(&SeveralPlanned { formats }),
        };
    }
    for planned in all {
        let mut out: Lines = describe_source(planned).into_iter().collect();
        for plan in &planned.plans {
            dataset_text(&mut out, plan);
            bad_text(&mut out, plan);
        }
        let (needed, free) = space(planned)?;
        let verdict = free.map_or_else(String::new, |free| {
            let verdict = if needed > free { "NOT ENOUGH" } else { "enough" };
            format!(", {} free: {verdict}", report::bytes(free))
        });
        line!(out, "space   {} needed{verdict}", report::bytes(needed));
        if let Some(requests) = requests(planned)? {
            out += price::as_text(requests, prices);
        }
        report::print(&out)?;
        if !talk.quiet {
            say_notes(planned);
            for finding in advice::of_pack(planned, has_crops) {
                report::say(&format!("advice  {finding}"));
            }
        }
    }
    Ok(())
}

fn largest(plan: &Plan) -> Vec<(u32, Vec<u8>)> {
    let mut largest: Vec<(u32, u64)> = Vec::with_capacity(LARGEST + 1);
    for (number, entry) in plan.listing.entries().iter().enumerate() {
        if largest.len() < LARGEST || largest.last().is_some_and(|(bytes, _)| entry.bytes > *bytes) {
            let at = largest.partition_point(|(bytes, _)| *bytes >= entry.bytes);
            largest.insert(at, (entry.bytes, number as u64));
            largest.truncate(LARGEST);
        }
    }
    let path = |number| {
        let mut path = Vec::new();
        plan.listing.path(number, &mut path);
        path
    };
    largest.into_iter().map(|(bytes, number)| (bytes, path(number))).collect()
}

/// Images and bytes of each class.
fn per_class(plan: &Plan) -> Vec<(u64, u64)> {
    let mut classes = vec![(0, 0); plan.listing.classes.len()];
    for entry in plan.listing.entries() {
        let Some(class) = plan.listing.folders()[entry.folder as usize].class else { continue };
        let class = &mut classes[class as usize];
        *class = (class.0 + 1, class.1 + u64::from(entry.bytes));
    }
    classes
}

fn shard_spread(plan: &Plan) -> (u64, u64) {
    let bytes = || plan.shards.iter().map(|shard| plan.content_bytes(shard));
    (bytes().min().unwrap_or(0), bytes().max().unwrap_or(0))
}

fn dataset_text(out: &mut Lines, plan: &Plan) {
    let (payload, shard_bytes) = (plan.payload_bytes(), plan.shard_bytes());
    let (smallest, biggest) = shard_spread(plan);
    line!(
        out,
        "{:<7} {} in {} of {} to {}, {} ({:+.1} % for {})",
        if plan.split.is_some() { &plan.name } else { "plan" },
        report::counted(plan.listing.len(), plan.noun()),
        report::counted(plan.shards.len() as u64, "shard"),
        report::bytes(smallest),
        report::bytes(biggest),
        report::bytes(shard_bytes),
        (shard_bytes as f64 / payload as f64 - 1.0) * 100.0,
        plan.format().name(),
    );
    if !plan.listing.classes.is_empty() {
        out.gap();
        line!(out, "  label  class                              {}s       bytes", plan.noun());
    }
    let classes = per_class(plan);
    for (label, (images, bytes)) in classes.iter().enumerate().take(SHOWN_CLASSES) {
        let name = report::path(&plan.listing.classes[label]);
        line!(out, "  {label:>5}  {name:<30} {:>10}  {:>10}", report::count(*images), report::bytes(*bytes));
    }
    if classes.len() > SHOWN_CLASSES {
        line!(
            out,
            "         … and {} (--json has all)",
            report::counted((classes.len() - SHOWN_CLASSES) as u64, "class")
        );
    }
    out.gap();
    line!(out, "  largest files");
    for (bytes, path) in largest(plan) {
        line!(out, "  {:>10}  {}", report::bytes(bytes.into()), report::path(&path));
    }
    out.gap();
}

fn bad_text(out: &mut Lines, plan: &Plan) {
    let bad = pack::known_bad(slice::from_ref(plan));
    if !bad.is_empty() {
        line!(out, "bad     {} cannot be packed", report::counted(bad.len() as u64, plan.noun()));
        *out += report::list_left_out(&bad, "--json names all");
    }
}

/// The document of `plan`, and of `pack` and `convert` with `--dry-run`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Planned"))]
pub struct Document<'a> {
    /// One dataset, or one for each split.
    datasets: Vec<PlannedDataset<'a>>,
    /// Length in bytes of the datasets on disk, indexes included.
    needed_bytes: u64,
    /// Free bytes at DST; null if there is no DST, or DST is a URL.
    free_bytes: Option<u64>,
    /// Warnings.
    notes: &'a [String],
    /// Kind of storage of SRC.
    source: &'a str,
    /// Requests of a pack to stores; null if SRC and DST are files.
    requests: Option<Priced>,
    /// Options that make training on the dataset faster, the greatest known gain first.
    advice: Vec<Finding>,
}

/// The document for several formats, in their order.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SeveralPlanned<'a> {
    /// One document for each format.
    formats: Vec<Document<'a>>,
}

/// A dataset that would be packed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlannedDataset<'a> {
    /// Name of the dataset.
    name: &'a str,
    /// Number of samples.
    images: u64,
    /// Length of the images in bytes.
    payload_bytes: u64,
    /// Number of shards.
    shards: usize,
    /// Length of the shards in bytes.
    shard_bytes: u64,
    /// Length of the indexes in bytes.
    index_bytes: u64,
    /// Length of the smallest shard in bytes.
    smallest_shard_bytes: u64,
    /// Length of the largest shard in bytes.
    largest_shard_bytes: u64,
    /// Samples of a block.
    block_samples: u64,
    /// Components of the samples; the image is first.
    components: &'a [String],
    /// Components that are arrays, with dtype and shape; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    targets: Vec<PlannedTarget>,
    /// Algorithm of the order, or `source`.
    order: &'a str,
    /// Seed of the order.
    seed: u64,
    /// All classes, by label.
    classes: Vec<PlannedClass>,
    /// The largest images, the largest first.
    largest: Vec<PlannedImage>,
    /// Number of images that are left out.
    unpacked: usize,
    /// Images among them that cannot be packed: `pack` fails, or skips them with `--on-bad skip`.
    bad: Vec<LeftOut>,
    /// Files of the source that are not samples, counted by reason.
    ignored_files: &'a Counted,
}

/// A class of a plan.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlannedClass {
    /// Name of the class.
    name: String,
    /// Number of its images.
    images: u64,
    /// Length of its images in bytes.
    bytes: u64,
}

/// An image of a plan.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlannedImage {
    /// Path in the source.
    path: String,
    /// Length in bytes.
    bytes: u32,
}

impl<'a> Document<'a> {
    fn new(
        planned: &'a Planned,
        (needed_bytes, free_bytes): (u64, Option<u64>),
        requests: Option<Priced>,
        advice: Vec<Finding>,
    ) -> Self {
        Self {
            datasets: planned.plans.iter().map(PlannedDataset::from).collect(),
            needed_bytes,
            free_bytes,
            notes: &planned.notes,
            source: &planned.storage.name,
            requests,
            advice,
        }
    }
}

impl<'a> From<&'a Plan> for PlannedDataset<'a> {
    fn from(plan: &'a Plan) -> Self {
        let classes = per_class(plan).into_iter().zip(plan.listing.classes.iter());
        let classes = classes.map(|((images, bytes), name)| PlannedClass { name: report::path(name), images, bytes });
        let largest = largest(plan).into_iter();
        let (smallest_shard_bytes, largest_shard_bytes) = shard_spread(plan);
        Self {
            name: &plan.name,
            images: plan.listing.len(),
            payload_bytes: plan.payload_bytes(),
            shards: plan.shards.len(),
            shard_bytes: plan.shard_bytes(),
            index_bytes: plan.index_bytes(),
            smallest_shard_bytes,
            largest_shard_bytes,
            block_samples: plan.block_samples,
            components: plan.format().components(),
            targets: PlannedTarget::all(plan),
            order: plan.order_algorithm(),
            seed: plan.options.seed,
            classes: classes.collect(),
            largest: largest.map(|(bytes, path)| PlannedImage { path: report::path(&path), bytes }).collect(),
            unpacked: plan.unpacked.len(),
            bad: document::left_out(&pack::known_bad(slice::from_ref(plan))),
            ignored_files: &plan.ignored,
        }
    }
}

/// Whether a skipped entry is, for example, a folder with an unknown number of images. An image has a class if `has_classes`, as all
/// have in class folders; otherwise its name has an extension. The reason of an image without a label is its label.
fn is_place(entry: &Unpacked, has_classes: bool) -> bool {
    let name = entry.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let lacks_label = entry.reason.starts_with("no label") || entry.reason.starts_with("label");
    entry.class.is_none() && !lacks_label && (has_classes || !name.contains(&b'.'))
}

/// The source, the plan, and a line for each target of the first dataset.
pub fn describe_source(planned: &Planned) -> Vec<String> {
    let plans = &planned.plans;
    let images: u64 = plans.iter().map(|plan| plan.listing.len()).sum();
    let payload: u64 = plans.iter().map(|plan| plan.payload_bytes()).sum();
    let classes = plans.first().map_or(0, |plan| plan.listing.classes.len() as u64);
    let splits: Vec<_> = plans.iter().filter_map(|plan| plan.split.clone()).collect();
    // Images that are already known to be left out.
    let has_classes = classes > 0 && plans.iter().all(|plan| plan.options.format.label_pattern.is_none());
    let (mut left_out, mut places) = (BTreeMap::<&str, u64>::new(), 0);
    for entry in plans.iter().flat_map(|plan| &plan.unpacked) {
        let fate = match entry.fate {
            Fate::Kept => continue,
            Fate::Skipped if is_place(entry, has_classes) => {
                places += 1;
                continue;
            }
            Fate::Skipped => "cannot be packed",
            Fate::Filtered => "left out by filters",
            Fate::Duplicate => "duplicates",
        };
        *left_out.entry(fate).or_default() += 1;
    }
    let mut ignored = BTreeMap::<&str, u64>::new();
    // Fields of left-out records are not files and were already shown; neither are extra entries of a database.
    let files = |(reason, _): &(&String, &u64)| !reason.starts_with("component ") && !reason.starts_with("entry ");
    for (reason, files) in plans.iter().flat_map(|plan| &plan.ignored).filter(files) {
        *ignored.entry(reason.strip_prefix("extension ").unwrap_or(reason)).or_default() += files;
    }
    let mut found = format!(
        "found   {} {}, {}",
        report::counted(images + left_out.values().sum::<u64>(), planned.noun()),
        match classes {
            0 => "without labels".to_owned(),
            _ => format!("in {}", report::counted(classes, "class")),
        },
        report::bytes(payload)
    );
    for (fate, images) in &left_out {
        found += &format!(", {} {fate}", report::count(*images));
    }
    if places > 0 {
        found += &format!(", {} cannot be read", report::counted(places, "place"));
    }
    if !splits.is_empty() {
        found += &format!("; splits {}", splits.join(", "));
    }
    if !ignored.is_empty() {
        let total: u64 = ignored.values().sum();
        let reasons: Vec<_> =
            ignored.iter().map(|(reason, files)| format!("{} {reason}", report::count(*files))).collect();
        found += &format!(" ({} skipped: {})", report::counted(total, "other file"), reasons.join(", "));
    }
    let shards: u64 = plans.iter().map(|plan| plan.shards.len() as u64).sum();
    if shards == 0 {
        // A sealed dataset needs no plan line.
        return vec![found];
    }
    let bytes: u64 = plans.iter().map(|plan| plan.shard_bytes()).sum();
    let order = plans.first().map_or_else(String::new, |plan| match plan.order_algorithm() {
        "source" => "in source order".to_owned(),
        _ => format!("shuffled with seed {}", plan.options.seed),
    });
    let plan = format!(
        "plan    {} of {}, {order}, {} ({:+.1} % for {})",
        report::counted(shards, "shard"),
        report::bytes(bytes / shards.max(1)),
        report::bytes(bytes),
        (bytes as f64 / payload.max(1) as f64 - 1.0) * 100.0,
        plans.first().map_or("", |plan| plan.format().name()),
    );
    let targets = plans.first().map(PlannedTarget::all).unwrap_or_default();
    [found, plan].into_iter().chain(targets.iter().map(PlannedTarget::line)).collect()
}

/// Prints the notes about a plan.
pub fn say_notes(planned: &Planned) {
    for note in &planned.notes {
        report::say(&format!("note    {note}"));
    }
}
