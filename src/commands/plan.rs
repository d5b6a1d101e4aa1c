//! `shardpack plan`: what pack would do, in numbers, and the plan as a file.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use serde_json::json;
use shardpack_packer::{
    Error, Result,
    pack::{self, Planned},
    plan::Plan,
    plan_file, sys,
};

use super::pack::{self as pack_command, describe_source, say_notes};
use crate::{
    Outcome,
    args::{Machine, PlanArgs, Talk},
    progress::{self, Progress},
    report,
    source_args::SourceArgs,
};

/// Rows of the table of classes that are shown; all with --json.
const SHOWN_CLASSES: usize = 20;
const LARGEST: usize = 10;

/// Options of `plan`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack plan photos/ packed/
  shardpack plan photos/ packed/ --shard-size 128MiB -o photos.plan
  shardpack pack --plan photos.plan packed/")]
pub struct Args {
    /// ImageFolder: SRC/<class>/<image>, or SRC/<split>/<class>/<image>; or a list; not with --split
    #[arg(value_name = "SRC")]
    first: PathBuf,
    /// Folder that pack would write to
    #[arg(value_name = "DST", required_unless_present = "parts")]
    second: Option<PathBuf>,
    /// Write the plan file that pack --plan takes
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    talk: Talk,
    // Last: its headings hold for all that follows.
    #[command(flatten)]
    plan: PlanArgs,
}

/// Runs `plan`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.talk.quiet);
    let (src, dst) = args.source.paths(&args.first, args.second.as_deref())?;
    let mut options = args.plan.options(args.machine.jobs())?;
    args.source.put(&mut options)?;
    let all = pack::plan_all(args.source.origin(src)?, &options, None, &monitor)?;
    monitor.finish();
    if let Some(output) = &args.output {
        let [planned] = all.as_slice() else {
            return Err(Error::usage("a plan file is of one format").help("give --format once, or leave --output out"));
        };
        let folder = match output.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        plan_file::write(output, folder, &planned.source.resolved()?, &planned.plans)?;
    }
    print(&all, dst, args.talk)?;
    if let (Some(output), false) = (&args.output, args.talk.quiet) {
        report::say(&format!("next    shardpack pack --plan {} {}", output.display(), dst.display()));
    }
    Ok(Outcome::Done)
}

/// Prints the numbers of plans, one for each format, that would be packed into `dst`.
pub fn print(all: &[Planned], dst: &Path, talk: Talk) -> Result<()> {
    let space = |planned: &Planned| Ok::<_, Error>((pack::needed_bytes(&planned.plans), sys::free_bytes(dst)?));
    if talk.json {
        let document = |planned: &Planned| {
            let datasets: Vec<_> = planned.plans.iter().map(dataset_json).collect();
            let (needed, free) = space(planned)?;
            Ok(json!({
                "datasets": datasets, "needed_bytes": needed, "free_bytes": free, "notes": planned.notes,
                "source": planned.storage.name,
            }))
        };
        let documents = all.iter().map(document).collect::<Result<Vec<_>>>()?;
        return report::print_json(&pack_command::one_or_all(documents));
    }
    for planned in all {
        let mut out = String::new();
        for line in describe_source(planned) {
            out += &(line + "\n");
        }
        for plan in &planned.plans {
            dataset_text(&mut out, plan);
        }
        let (needed, free) = space(planned)?;
        let verdict = if needed > free { "NOT ENOUGH" } else { "enough" };
        let _ = writeln!(out, "space   {} needed, {} free: {verdict}", report::bytes(needed), report::bytes(free));
        report::print(&out)?;
        if !talk.quiet {
            say_notes(planned);
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

fn dataset_text(out: &mut String, plan: &Plan) {
    let (payload, shard_bytes) = (plan.payload_bytes(), plan.shard_bytes());
    let (smallest, biggest) = shard_spread(plan);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{:<7} {} in {} of {} to {}, {} ({:+.1} % for {})",
        if plan.split.is_some() { &plan.name } else { "plan" },
        report::counted(plan.listing.len(), "image"),
        report::counted(plan.shards.len() as u64, "shard"),
        report::bytes(smallest),
        report::bytes(biggest),
        report::bytes(shard_bytes),
        (shard_bytes as f64 / payload as f64 - 1.0) * 100.0,
        plan.format().name(),
    );
    if !plan.listing.classes.is_empty() {
        let _ = writeln!(out, "\n  label  class                              images       bytes");
    }
    let classes = per_class(plan);
    for (label, (images, bytes)) in classes.iter().enumerate().take(SHOWN_CLASSES) {
        let name = report::path(&plan.listing.classes[label]);
        let _ = writeln!(out, "  {label:>5}  {name:<30} {:>10}  {:>10}", report::count(*images), report::bytes(*bytes));
    }
    if classes.len() > SHOWN_CLASSES {
        let _ = writeln!(
            out,
            "         … and {} (--json has all)",
            report::counted((classes.len() - SHOWN_CLASSES) as u64, "class")
        );
    }
    let _ = writeln!(out, "\n  largest files");
    for (bytes, path) in largest(plan) {
        let _ = writeln!(out, "  {:>10}  {}", report::bytes(bytes.into()), report::path(&path));
    }
    out.push('\n');
}

fn dataset_json(plan: &Plan) -> serde_json::Value {
    let classes: Vec<_> = per_class(plan)
        .into_iter()
        .zip(plan.listing.classes.iter())
        .map(|((images, bytes), name)| json!({"name": report::path(name), "images": images, "bytes": bytes}))
        .collect();
    let largest: Vec<_> =
        largest(plan).into_iter().map(|(bytes, path)| json!({"path": report::path(&path), "bytes": bytes})).collect();
    let (smallest, biggest) = shard_spread(plan);
    json!({
        "name": plan.name, "images": plan.listing.len(), "payload_bytes": plan.payload_bytes(),
        "shards": plan.shards.len(), "shard_bytes": plan.shard_bytes(), "index_bytes": plan.index_bytes(),
        "smallest_shard_bytes": smallest, "largest_shard_bytes": biggest, "block_samples": plan.block_samples,
        "components": plan.format().components(), "order": plan.order_algorithm(), "seed": plan.options.seed,
        "classes": classes, "largest": largest, "unpacked": plan.unpacked.len(), "ignored_files": plan.ignored,
    })
}
