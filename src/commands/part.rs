//! `--part`: packs one of several parts.

use std::path::Path;

use serde::Serialize;
use shardpack_format::shell;
use shardpack_packer::{
    Error, ErrorKind, Result,
    pack::{self, ChangedPart, Ended, PartPlanning, PartReport, PlanOptions, PlannedPart},
    part::Part,
    part_auto::part_auto,
};
use shardpack_reader::{StoreSettings, Transfers};
use shardpack_source::{SharedSource, Source, shards::Preview};

use super::{
    pack::{RunArgs, place},
    pack_text::strays_as_text,
};
use crate::{
    Outcome, args,
    document::{self, LeftOut, Network, PartName, Stray},
    lines::Lines,
    progress::Progress,
    report,
};

/// `--part`.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    /// The part from the environment.
    Auto,
    /// An explicit part.
    One(Part),
}

/// Parses `--part`.
pub fn which(text: &str) -> Result<Which, String> {
    match text {
        "auto" => Ok(Which::Auto),
        text => text.parse().map(Which::One).map_err(|error: Error| error.what()),
    }
}

impl Which {
    /// The selected part.
    ///
    /// # Errors
    /// If the environment does not define a part.
    pub fn part(self) -> Result<Part> {
        match self {
            Self::One(part) => Ok(part),
            Self::Auto => {
                let (number, of) = part_auto(|name| std::env::var(name).ok())?;
                Part::new(number, of)
            }
        }
    }
}

/// Packs a part of a plan file.
pub fn of_file(file: &Path, dst: &Path, which: Which, run: &RunArgs, monitor: &Progress) -> Result<Outcome> {
    args::refuse_work(run.work.as_deref(), dst)?;
    let planned = PlannedPart::of_file(file, which.part()?)?;
    let store = run.store.of_both(&[planned.planned.source.path(), dst])?.1;
    go(&planned, (dst, &store), run, monitor, None)
}

/// Packs a part of `source`. If images are changed, packing starts after all parts have changed theirs.
pub fn of_walk(
    source: SharedSource,
    options: &[PlanOptions],
    (dst, store): (&Path, &StoreSettings),
    which: Which,
    run: &RunArgs,
    monitor: &Progress,
    recognised: Option<Preview>,
) -> Result<Outcome> {
    let part = which.part()?;
    let place = &place(options, (dst, store), run)?;
    let [options] = options else { return Err(one_format()) };
    let planned = pack::plan_part(source.clone(), options, part, place, run.options(store.clone()).on_bad, monitor)?;
    monitor.finish();
    match planned {
        PartPlanning::Planned(planned) => {
            go(&PlannedPart::of_walk(*planned, part)?, (dst, store), run, monitor, recognised)
        }
        PartPlanning::Sealed => say(&PartReport::sealed(), part, None, source.as_ref(), dst, run, recognised),
        PartPlanning::Changed(changed) => {
            let network = source.transfers().into_iter().chain(changed.transfers).reduce(Transfers::and);
            match run.talk.json {
                true => report::print_json(&PartChanged::new(&changed, network))?,
                false => {
                    let lines = network.map(report::network).unwrap_or_default();
                    report::print(&(changed_as_text(&changed, dst, run.talk.quiet) + lines))?;
                }
            }
            Ok(if changed.bad.is_empty() { Outcome::Done } else { Outcome::Wrong })
        }
    }
}

/// The error for several formats: parts belong to one plan.
pub fn one_format() -> Error {
    Error::usage("--part packs one format").help("one --format after the other, each into its own folder")
}

fn go(
    planned: &PlannedPart,
    (dst, store): (&Path, &StoreSettings),
    run: &RunArgs,
    monitor: &Progress,
    recognised: Option<Preview>,
) -> Result<Outcome> {
    let (shards, bytes) = planned.extent();
    if !run.talk.quiet {
        let all: u64 = planned.planned.plans.iter().map(|plan| plan.shards.len() as u64).sum();
        report::say(&format!(
            "part    {}: {} of {}, {}",
            planned.part,
            report::count(shards as u64),
            report::counted(all, "shard"),
            report::bytes(bytes)
        ));
        super::planned::say_notes(&planned.planned);
    }
    let packed = pack::pack_part(planned, dst, &run.options(store.clone()), monitor);
    monitor.finish();
    let packed = packed.map_err(|error| match error.kind() {
        ErrorKind::Interrupted => error.help("the same command resumes"),
        _ => error,
    })?;
    say(&packed, planned.part, Some(planned), planned.planned.source.as_ref(), dst, run, recognised)
}

/// Reports the result of a part.
fn say(
    packed: &PartReport,
    part: Part,
    planned: Option<&PlannedPart>,
    source: &dyn Source,
    dst: &Path,
    run: &RunArgs,
    recognised: Option<Preview>,
) -> Result<Outcome> {
    let network = source.transfers().into_iter().chain(packed.transfers).reduce(Transfers::and);
    if run.talk.json {
        report::print_json(&PartPacked { recognised, ..PartPacked::new(packed, part, network) })?;
    } else {
        let lines = network.map(report::network).unwrap_or_default();
        report::print(&(as_text(packed, planned, dst, run.talk.quiet) + lines))?;
    }
    Ok(match packed.ended {
        Ended::Bad => Outcome::Wrong,
        Ended::Done | Ended::Sealed => Outcome::Done,
    })
}

/// `planned` is `None` if all parts are merged.
fn as_text(packed: &PartReport, planned: Option<&PlannedPart>, dst: &Path, quiet: bool) -> Lines {
    let mut out = Lines::default();
    let (Some(planned), Ended::Done | Ended::Bad) = (planned, packed.ended) else {
        return Lines::one("sealed  all parts are merged here already, nothing to do");
    };
    let noun = planned.planned.noun();
    match packed.ended {
        Ended::Bad => {
            let bad = report::counted(packed.bad.len() as u64, noun);
            line!(out, "failed  {bad} could not be packed, part {} is not done", planned.part);
            out += report::list_left_out(&packed.bad, "--json names all");
            line!(
                out,
                "  help: --on-bad skip leaves them out and names them in the ledger; or mend them, plan again, and pack"
            );
            line!(out, "        all parts into another folder: a plan is valid only for unchanged samples");
            return out;
        }
        Ended::Done | Ended::Sealed => {}
    }
    line!(
        out,
        "packed  part {}: {} in {}, in {}, {}",
        planned.part,
        report::counted(packed.samples, noun),
        report::counted(packed.shards as u64, "shard"),
        report::duration(packed.elapsed),
        report::rate(packed.payload_bytes, packed.elapsed)
    );
    if packed.resumed_shards > 0 {
        let were = if packed.resumed_shards == 1 { "was" } else { "were" };
        line!(out, "        {} of these shards {were} finished before", packed.resumed_shards);
    }
    out += report::left_uploads(&packed.left_uploads);
    if !packed.bad.is_empty() {
        line!(out, "        {} not packed", report::counted(packed.bad.len() as u64, noun));
        out += report::list_left_out(&packed.bad, "ledger.jsonl will name all");
    }
    out += strays_as_text(&packed.strays, packed.stray_samples, &planned.planned, dst);
    if !quiet {
        line!(out, "next    when all parts are packed: shardpack merge {}", shell::path(dst));
    }
    out
}

/// Number of parts to name.
const NAMED: usize = 20;

fn changed_as_text(changed: &ChangedPart, dst: &Path, quiet: bool) -> Lines {
    let (mut out, dst) = (Lines::default(), shell::path(dst));
    if !changed.bad.is_empty() {
        let bad = report::counted(changed.bad.len() as u64, "image");
        line!(out, "failed  {bad} could not be packed, part {} has not changed its images", changed.part);
        out += report::list_left_out(&changed.bad, "--json names all");
        line!(out, "  help: --on-bad skip leaves them out and names them in the ledger; or mend them");
        return out;
    }
    line!(
        out,
        "changed part {}: {}, in {}; nothing is packed yet",
        changed.part,
        report::counted(changed.images, "image"),
        report::duration(changed.elapsed)
    );
    let missing = changed.missing.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let more = changed.missing.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more (--json has all)") } else { String::new() };
    line!(out, "missing {missing}{more}: there is no plan before all parts have changed their images");
    if !quiet {
        line!(out, "next    run the same command again when shardpack status {dst} shows no missing part");
    }
    out
}

/// The document of `--part` if images are changed first and not all parts have changed theirs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ChangedPart"))]
pub struct PartChanged {
    /// The part, counted from 1.
    part: u32,
    /// Number of parts.
    parts: u32,
    /// Nothing is packed yet.
    #[cfg_attr(test, schemars(extend("const" = false)))]
    done: bool,
    /// Whether the images of this part are changed.
    changed: bool,
    /// Images of this part.
    images: u64,
    /// Parts whose images are not changed.
    missing: Vec<PartName>,
    /// Images that cannot be packed.
    bad: Vec<LeftOut>,
    /// Duration of this run in milliseconds.
    elapsed_ms: u64,
    /// Null if all data was read from and written to files.
    network: Option<Network>,
}

impl PartChanged {
    fn new(changed: &ChangedPart, network: Option<Transfers>) -> Self {
        Self {
            part: changed.part.number,
            parts: changed.part.of,
            done: false,
            changed: changed.bad.is_empty(),
            images: changed.images,
            missing: changed.missing.iter().map(PartName::from).collect(),
            bad: document::left_out(&changed.bad),
            elapsed_ms: document::milliseconds(changed.elapsed),
            network: network.map(Network::from),
        }
    }
}

/// The document of `--part`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Part"))]
pub struct PartPacked {
    /// The part, counted from 1.
    part: u32,
    /// Number of parts.
    parts: u32,
    /// Whether the part has a receipt, or all parts are merged.
    done: bool,
    /// Whether all parts were merged before: nothing was done.
    already_sealed: bool,
    /// Shards of this part.
    shards: usize,
    /// Shards of this part that an earlier run had finished.
    resumed_shards: usize,
    /// Samples in these shards.
    samples: u64,
    /// Length of their images in bytes.
    payload_bytes: u64,
    /// Images that cannot be packed. If the plan lists some, includes those of all parts.
    bad: Vec<LeftOut>,
    /// The first images whose content does not match their extension.
    strays: Vec<Stray>,
    /// Number of all such images.
    stray_samples: u64,
    /// Objects with parts that an earlier run had sent and that the store refuses to delete.
    left_uploads: Vec<String>,
    /// Only of `convert`, and not for sealed datasets of shardpack.
    #[serde(skip_serializing_if = "Option::is_none")]
    recognised: Option<Preview>,
    /// Duration in milliseconds, without listing and planning.
    elapsed_ms: u64,
    /// Null if all data was read from and written to files.
    network: Option<Network>,
}

impl PartPacked {
    fn new(packed: &PartReport, part: Part, network: Option<Transfers>) -> Self {
        Self {
            part: part.number,
            parts: part.of,
            done: packed.ended != Ended::Bad,
            already_sealed: packed.ended == Ended::Sealed,
            shards: packed.shards,
            resumed_shards: packed.resumed_shards,
            samples: packed.samples,
            payload_bytes: packed.payload_bytes,
            bad: document::left_out(&packed.bad),
            strays: document::strays(&packed.strays),
            stray_samples: packed.stray_samples,
            left_uploads: packed.left_uploads.clone(),
            recognised: None,
            elapsed_ms: document::milliseconds(packed.elapsed),
            network: network.map(Network::from),
        }
    }
}
