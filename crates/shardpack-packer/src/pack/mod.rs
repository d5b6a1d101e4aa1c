//! Pack: source → plan → copy → seal.

mod checked;
mod destination;
mod making;
mod relay;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use shardpack_format::{
    Error, ErrorKind, Result, formats,
    image_header::Kind,
    manifest::{BY_KIND, Manifest},
};
use shardpack_imaging::Recipe;

use crate::{
    copy::{self, Copy, OnBad},
    ledger::{Fate, Unpacked},
    listing::Listing,
    monitor::{Monitor, Phase},
    plan::{self, Check, Compression, Plan},
    plan_file, seal, sidecars,
    source::{
        Found, Origin, ReadError, Refusal, Source, image_folder,
        medium::{self, Medium, ReadOrder, Sniffed},
    },
    survey, sys,
};
use checked::Checked;
use destination::{Destination, State};
pub use making::Place;
use relay::Relay;

/// The extension of images in the shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Extension {
    /// That of the most common kind, for all.
    #[default]
    MostCommon,
    /// Each its own kind's.
    Content,
    /// This one, for all.
    Fixed(String),
}

/// What a plan is made from, beside the source.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// How the source is walked.
    pub walk: image_folder::Options,
    /// What of it goes in.
    pub survey: survey::Choice,
    /// What decides the bytes; the extension in it is settled here by [`PlanOptions::extension`].
    pub bytes: plan::Options,
    /// See [`Extension`].
    pub extension: Extension,
    /// How images are changed before they are packed, if they are.
    pub recipe: Option<Recipe>,
}

/// How a pack is done; nothing of it changes the bytes, but which samples are in them.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that frame, hash and write.
    pub jobs: usize,
    /// Budget for images in flight, in bytes.
    pub memory_bytes: u64,
    /// What to do about bad samples.
    pub on_bad: OnBad,
    /// In which order the source is read; by what it lies on, if `None`.
    pub read_order: Option<ReadOrderChoice>,
    /// Replace what DST holds.
    pub force: bool,
    /// Which sidecars are written.
    pub sidecars: sidecars::Choice,
}

/// `--read-order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrderChoice {
    /// Each shard in its own order.
    Plan,
    /// By inode.
    Physical,
}

/// Plans of all datasets of a source, and what is known of the source.
#[derive(Debug)]
pub struct Planned {
    /// The source.
    pub source: Origin,
    /// One for each split, or one.
    pub plans: Vec<Plan>,
    /// What the source lies on.
    pub medium: Medium,
    /// Kinds of the images looked at; none where the plan came from a file.
    pub kinds: BTreeMap<Kind, u64>,
    /// Things a person should know before the work starts.
    pub notes: Vec<String>,
}

/// What became of a pack.
#[derive(Debug)]
pub struct Report {
    /// The datasets, if they were sealed.
    pub manifests: Vec<Manifest>,
    /// The same command had sealed this before: nothing was done.
    pub already_sealed: bool,
    /// It has other sidecars than those that were asked for now.
    pub other_sidecars: bool,
    /// Images that were found and are not in the shards, because they could not be packed.
    pub bad: Vec<Unpacked>,
    /// Whether the policy let the pack go on without them.
    pub sealed: bool,
    /// Shards that an earlier run had finished.
    pub resumed_shards: usize,
    /// All shards.
    pub shards: usize,
    /// Images whose kind is not that of the extension, the first few: path and kind.
    pub strays: Vec<(Vec<u8>, Kind)>,
    /// Number of all such images.
    pub stray_samples: u64,
    /// How long it took, walk and plan not included.
    pub elapsed: Duration,
}

/// Lists `source` and plans its packing with each of `options`, which differ in the format. Where images are to be changed
/// that is done first, in the work folder of `place`.
///
/// # Errors
/// When the source cannot be read or holds nothing to pack, a format cannot hold it, or images are to be changed and there
/// is no place for that.
pub fn plan_all(
    source: Origin,
    options: &[PlanOptions],
    place: Option<&Place>,
    monitor: &dyn Monitor,
) -> Result<Vec<Planned>> {
    let Some(first) = options.first() else { return Ok(Vec::new()) };
    let mut found = source.discover(&first.walk, monitor)?;
    survey::survey(&source, &mut found, &first.survey, monitor)?;
    let sniffed = look_all(&source, &found)?;
    let bytes = options.iter().map(|options| settled(options, &found, &sniffed.kinds)).collect::<Result<Vec<_>>>()?;
    let (source, mut found, sniffed) = match &first.recipe {
        None => (source, found, sniffed),
        Some(recipe) => {
            let place = place.ok_or_else(|| {
                Error::usage(
                    "how long images are is known only when they have been changed: there is no plan before that",
                )
                .help("shardpack pack makes it and packs")
            })?;
            let plans = |bytes: &plan::Options| {
                found.iter().map(|found| Plan::without_cuts(found.clone(), bytes.clone())).collect::<Result<Vec<_>>>()
            };
            let plans = bytes.iter().map(plans).collect::<Result<Vec<_>>>()?;
            let Some(prepared) = destination::prepare(&place.folders, &source, &plans, place.force)? else {
                let medium = medium::medium(source.path(), &sniffed);
                let (kinds, notes) = (sniffed.kinds, Vec::new());
                let of = |plans| Planned {
                    source: source.clone(),
                    plans,
                    medium: medium.clone(),
                    kinds: kinds.clone(),
                    notes: notes.clone(),
                };
                return Ok(plans.into_iter().map(of).collect());
            };
            let (source, found) = making::make(source, found, recipe, &prepared.work, place.jobs, monitor)?;
            let sniffed = Sniffed { kinds: sniffed.kinds, ..look_all(&source, &found)? };
            (source, found, sniffed)
        }
    };
    let medium = medium::medium(source.path(), &sniffed);
    let mut of_source: Vec<String> = found.iter_mut().flat_map(|found| std::mem::take(&mut found.notes)).collect();
    let mut all = Vec::new();
    for bytes in bytes {
        let plans = found.iter().map(|found| Plan::new(found.clone(), bytes.clone()));
        let plans = plans.collect::<Result<Vec<_>>>().map_err(|error| error.in_file(source.path()))?;
        let mut notes_of = std::mem::take(&mut of_source);
        notes_of.extend(plans.iter().flat_map(|plan| notes(plan, &sniffed.kinds)));
        let (source, medium, kinds) = (source.clone(), medium.clone(), sniffed.kinds.clone());
        all.push(Planned { source, plans, medium, kinds, notes: notes_of });
    }
    Ok(all)
}

/// What decides the bytes, with all that had to be looked for settled: the extension, what the source has beside images, and
/// the recipe in words.
fn settled(options: &PlanOptions, found: &[Found], kinds: &BTreeMap<Kind, u64>) -> Result<plan::Options> {
    let mut bytes = options.bytes.clone();
    bytes.format.beside = found.first().map(|found| found.listing.extra().kinds.clone()).unwrap_or_default();
    if bytes.format.has_text() {
        bytes.format.json = found.iter().any(|found| found.meta);
    }
    if found.iter().all(|found| found.listing.classes.is_empty()) {
        (formats::entry(&bytes.format.name)?.without_labels)(&mut bytes.format);
    }
    let becomes = |kind| options.recipe.as_ref().map_or(kind, |recipe| making::becomes(kind, recipe));
    bytes.format.extension = match &options.extension {
        _ if !formats::entry(&bytes.format.name)?.has_extensions => None,
        Extension::Content => None,
        Extension::Fixed(extension) => Some(extension.clone()),
        Extension::MostCommon => Some(becomes(most_common(kinds)).extension().to_owned()),
    };
    bytes.recipe = options.recipe.as_ref().map(making::words);
    Ok(bytes)
}

/// Looks at a few samples of each dataset where they lie.
fn look_all(source: &Origin, found: &[Found]) -> Result<Sniffed> {
    let look = |found: &Found| {
        let look = look(source, found.split.as_deref(), &found.listing)?;
        // What was looked into on the way is known better.
        let kinds = if found.kinds.is_empty() { look.kinds } else { found.kinds.clone() };
        Ok(Sniffed { kinds, ..look })
    };
    Ok(together(found.iter().map(look).collect::<Result<_>>()?))
}

/// Takes a plan that was computed before.
///
/// # Errors
/// When the file is damaged, or the source is not there.
pub fn planned(file: &Path) -> Result<Planned> {
    let plan_file::PlanFile { source, plans } = plan_file::read(file)?;
    let sniffed = plans.iter().map(|plan| look(&source, plan.split.as_deref(), &plan.listing));
    let sniffed = together(sniffed.collect::<Result<_>>()?);
    let medium = medium::medium(source.path(), &sniffed);
    let notes = plans.iter().flat_map(|plan| notes(plan, &sniffed.kinds)).collect();
    Ok(Planned { source, plans, medium, kinds: sniffed.kinds, notes })
}

/// Looks at a few samples where they lie.
fn look(source: &Origin, split: Option<&str>, listing: &Listing) -> Result<Sniffed> {
    source.peeker(split, listing)?.map_or_else(
        || Ok(Sniffed { kinds: BTreeMap::new(), cached: 0.0, latency: None }),
        |reader| medium::sniff(reader.as_ref(), listing).map_err(fatal),
    )
}

fn fatal(error: ReadError) -> Error {
    match error {
        ReadError::Fatal(error) => error,
        ReadError::Refused(Refusal(reason)) => Error::data(reason),
    }
}

fn together(looks: Vec<Sniffed>) -> Sniffed {
    let mut all = Sniffed { kinds: BTreeMap::new(), cached: 1.0, latency: None };
    for look in looks {
        for (kind, samples) in look.kinds {
            *all.kinds.entry(kind).or_default() += samples;
        }
        all.cached = all.cached.min(look.cached);
        all.latency = all.latency.max(look.latency);
    }
    all
}

fn most_common(kinds: &BTreeMap<Kind, u64>) -> Kind {
    let known = kinds.iter().filter(|(kind, _)| **kind != Kind::Unknown);
    // The first of equals: the one that the list of kinds has first.
    known.rev().max_by_key(|(_, samples)| **samples).map_or(Kind::Jpeg, |(kind, _)| *kind)
}

/// Readers that a training job is likely to have: 8 GPUs with 4 workers each.
const LIKELY_READERS: usize = 32;
const MANY_SHARDS: usize = 10_000;

/// What a person should know of a plan before the work starts.
fn notes(plan: &Plan, kinds: &BTreeMap<Kind, u64>) -> Vec<String> {
    let mut notes = Vec::new();
    let shards = plan.shards.len();
    let mean = plan.shard_bytes() / shards as u64;
    if shards < LIKELY_READERS && plan.listing.len() >= 10 * LIKELY_READERS as u64 {
        let size = (plan.shard_bytes() / LIKELY_READERS as u64).max(1 << 20) >> 20;
        notes.push(format!(
            "{shards} shards: a job of 8 GPUs with 4 workers each has {LIKELY_READERS} readers, and readers that share out \
             whole shards leave {} idle; --shard-size {size}MiB gives each one",
            LIKELY_READERS - shards
        ));
    }
    if shards > MANY_SHARDS {
        notes.push(format!(
            "{shards} shards of {} MiB: more than {MANY_SHARDS} files are slow to list on network mounts and in buckets; \
             --shard-size {}MiB gives {MANY_SHARDS}",
            mean >> 20,
            ((plan.shard_bytes() / MANY_SHARDS as u64) >> 20) + 1
        ));
    }
    if plan.options.compression != Compression::None
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
        .map(|(_, name)| String::from_utf8_lossy(name).into_owned())
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

/// Folder below `root` of the dataset that `plan` is of.
fn dataset_folder(root: &Path, plan: &Plan) -> PathBuf {
    plan.split.as_ref().map_or_else(|| root.to_path_buf(), |split| root.join(split))
}

/// Length in bytes that a pack will take on the disk, indexes included.
pub fn needed_bytes(plans: &[Plan]) -> u64 {
    plans.iter().map(|plan| plan.shard_bytes() + plan.index_bytes()).sum()
}

fn check_space(dst: &Path, needed: u64) -> Result<()> {
    let free = sys::free_bytes(dst)?;
    if needed > free {
        return Err(Error::new(ErrorKind::System, format!("needs {needed} bytes, {free} are free"))
            .in_file(dst)
            .help("free space, or choose another disk"));
    }
    Ok(())
}

/// Packs what was planned into `dst`, or goes on with it. With `relay`, images are read from what was packed into that
/// folder by a plan of the same source, so that the source is read once for several formats.
///
/// # Errors
/// When the machine is not right, or `dst` holds something else. Bad samples are in the report.
pub fn pack(
    planned: &Planned,
    relay: Option<(&Planned, &Path)>,
    dst: &Path,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Report> {
    let start = Instant::now();
    let plans = &planned.plans;
    // What cannot be done is said before anything is written.
    plans.iter().try_for_each(|plan| sidecars::check(&options.sidecars, plan))?;
    let (destination, state) = Destination::open(dst, &planned.source, plans, options.force)?;
    if let State::Sealed(manifests) = state {
        let other_sidecars = other_sidecars(&manifests, plans, &options.sidecars)?;
        return Ok(Report { other_sidecars, ..report(manifests, true, Vec::new(), &[], plans, 0, start) });
    }
    let mut recalled = Vec::new();
    for plan in plans {
        recalled.push(copy::recall(plan, &dataset_folder(dst, plan), &destination.work(plan)?)?);
    }
    let resumed_shards = recalled.iter().map(BTreeMap::len).sum();
    let have: u64 = recalled.iter().flat_map(BTreeMap::values).map(|shard| shard.entry.bytes).sum();
    // One after the other: what is unpacked of one split is gone before the next.
    let unpacked = plans.iter().map(|plan| match relay {
        Some(_) => Ok(0),
        None => planned.source.unpacked_bytes(&plan.listing),
    });
    let unpacked = unpacked.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0);
    if let Err(error) = check_space(dst, needed_bytes(plans).saturating_sub(have) + unpacked) {
        destination.abandon(dst, plans);
        return Err(error);
    }
    let total = |of: &dyn Fn(&Plan) -> u64| plans.iter().map(of).sum::<u64>();
    monitor.begin(Phase::Packing, total(&|plan| plan.listing.len()), total(&Plan::payload_bytes));
    for shard in recalled.iter().flat_map(BTreeMap::values) {
        monitor.advance(shard.entry.samples, shard.payload_bytes);
    }

    let mut outcomes = Vec::new();
    for (number, (plan, sealed)) in plans.iter().zip(recalled).enumerate() {
        let work = destination.work(plan)?;
        let source: Box<dyn Source> = match relay {
            Some((first, folder)) => Box::new(Relay::open(&dataset_folder(folder, plan), &first.plans[number])?),
            None => planned.source.open(plan.split.as_deref(), &plan.listing, Some(&work), monitor)?,
        };
        let source: Box<dyn Source> = match plan.options.check {
            Check::Full if relay.is_none() => Box::new(Checked(source)),
            _ => source,
        };
        let copy = Copy {
            plan,
            source: source.as_ref(),
            dst: &dataset_folder(dst, plan),
            work: &work,
            // What was just written is in the page cache, or lies in this order.
            read_order: if relay.is_some() { ReadOrder::Plan } else { read_order(options.read_order, planned) },
            jobs: options.jobs,
            memory_bytes: options.memory_bytes,
            on_bad: options.on_bad,
            monitor,
        };
        outcomes.push(copy.run(sealed)?);
    }

    let mut bad: Vec<Unpacked> = Vec::new();
    for (plan, outcome) in plans.iter().zip(&outcomes) {
        let prefix = split_prefix(plan);
        let known = plan.unpacked.iter().filter(|entry| entry.fate == Fate::Skipped).cloned();
        let recalled = outcome.shards.values().flat_map(|shard| &shard.unpacked).cloned();
        let found = outcome.bad.iter().map(|(number, Refusal(reason))| {
            let mut path = Vec::new();
            plan.listing.path(*number, &mut path);
            Unpacked { path, class: plan.listing.class(*number), fate: Fate::Skipped, reason: reason.clone() }
        });
        let mut of_plan: Vec<Unpacked> = known.chain(recalled).chain(found).collect();
        of_plan.sort_by(image_folder::order);
        of_plan.dedup_by(|a, b| a.path == b.path);
        bad.extend(
            of_plan.into_iter().map(|entry| Unpacked { path: [prefix.as_bytes(), &entry.path].concat(), ..entry }),
        );
    }
    if !bad.is_empty() && options.on_bad == OnBad::Error {
        return Ok(report(Vec::new(), false, bad, &outcomes, plans, resumed_shards, start));
    }
    // A dataset of nothing would look like one.
    if let Some((plan, _)) = plans.iter().zip(&outcomes).find(|(_, outcome)| samples_of(outcome) == 0) {
        let reason = bad.first().map_or_else(String::new, |first| format!(", the first: {}", first.reason));
        let what = format!("none of {} images could be packed{reason}", plan.listing.len());
        return Err(Error::data(what).in_file(dataset_folder(dst, plan)));
    }
    let mut manifests = Vec::new();
    for (plan, outcome) in plans.iter().zip(&outcomes) {
        let sidecars = options.sidecars.names(plan.format().name())?;
        let (folder, work) = (dataset_folder(dst, plan), destination.work(plan)?);
        manifests.push(seal::seal(plan, &outcome.shards, &sidecars, &folder, &work)?);
    }
    destination.close(dst)?;
    Ok(report(manifests, false, bad, &outcomes, plans, resumed_shards, start))
}

fn samples_of(outcome: &copy::Outcome) -> u64 {
    outcome.shards.values().map(|shard| shard.entry.samples).sum()
}

/// Whether sealed datasets have sidecars where none are wanted now, or lack some that are named.
fn other_sidecars(manifests: &[Manifest], plans: &[Plan], choice: &sidecars::Choice) -> Result<bool> {
    let other = |(manifest, plan): (&Manifest, &Plan)| {
        let wanted = choice.names(plan.format().name())?;
        Ok(wanted.is_empty() != manifest.sidecars.is_empty())
    };
    manifests.iter().zip(plans).map(other).try_fold(false, |any, one: Result<bool>| Ok(any | one?))
}

/// The order in which the source will be read.
pub fn read_order(choice: Option<ReadOrderChoice>, planned: &Planned) -> ReadOrder {
    match choice {
        None => planned.medium.read_order,
        Some(ReadOrderChoice::Plan) => ReadOrder::Plan,
        Some(ReadOrderChoice::Physical) => medium::physical(planned.source.path()),
    }
}

/// The images that a shard of `plan` names as strays, by their paths from the source.
fn strays(plan: &Plan, outcome: &copy::Outcome) -> Vec<(Vec<u8>, Kind)> {
    let prefix = split_prefix(plan);
    let strays = outcome.shards.values().flat_map(|shard| &shard.strays);
    strays.map(|(path, kind)| ([prefix.as_bytes(), path].concat(), *kind)).collect()
}

/// How paths of a dataset begin as seen from the source: empty, or `train/`.
fn split_prefix(plan: &Plan) -> String {
    plan.split.as_ref().map_or_else(String::new, |split| format!("{split}/"))
}

fn report(
    manifests: Vec<Manifest>,
    already_sealed: bool,
    bad: Vec<Unpacked>,
    outcomes: &[copy::Outcome],
    plans: &[Plan],
    resumed_shards: usize,
    start: Instant,
) -> Report {
    let shards = || outcomes.iter().flat_map(|outcome| outcome.shards.values());
    let extension = plans.first().and_then(|plan| plan.options.format.extension.clone());
    let stray_samples = shards()
        .flat_map(|shard| &shard.kinds)
        .filter(|(kind, _)| extension.as_ref().is_some_and(|extension| extension != kind.extension()))
        .map(|(_, samples)| samples)
        .sum();
    Report {
        sealed: !manifests.is_empty(),
        manifests,
        already_sealed,
        other_sidecars: false,
        bad,
        resumed_shards,
        shards: plans.iter().map(|plan| plan.shards.len()).sum(),
        strays: plans.iter().zip(outcomes).flat_map(|(plan, outcome)| strays(plan, outcome)).collect(),
        stray_samples,
        elapsed: start.elapsed(),
    }
}
