//! Planning: lists a source, chooses samples, preprocesses images, and plans the shards.

use std::{collections::BTreeMap, sync::Arc};

use shardpack_format::{
    Error, ErrorKind, Result, component::Component, formats, formats::webdataset::LICENSE, help, image_header::Kind,
};
use shardpack_imaging::Recipe;

use super::{
    Extension, PlanOptions, Planned, PreprocessTarget, geometry,
    part_spools::Request,
    plan_checks::{
        check_any, check_any_file, check_components_exist, check_folder, check_fraction, refuse_image_options,
        require_decode,
    },
    planned::{look, merge_sniffed},
    preprocess_part::{ChangedPart, PreprocessState, change_part},
    preprocess_target,
    roles::Roles,
    transformed, warnings,
};
use crate::{
    copy::{self, OnBad},
    monitor::Monitor,
    part::Part,
    plan::{self, Plan},
    selection,
    source::{
        Divided, Division, SharedSource, Source, SourceKind, SourceListing, boxes, npy,
        options::Components,
        sample_files, split_sources,
        storage::{self, Sniffed},
    },
};

/// Lists `source` and plans its packing with each of `options`, which differ in the format. If images are
/// preprocessed, that is done first, in the work folder of `place`.
///
/// # Errors
/// If the source cannot be read or has no samples, a format cannot hold it, or images are to be preprocessed
/// and there is no place for that.
pub fn plan_all(
    source: SharedSource,
    options: &[PlanOptions],
    place: Option<&PreprocessTarget>,
    monitor: &dyn Monitor,
) -> Result<Vec<Planned>> {
    let Some(surveyed) = Surveyed::survey(source, options, place.is_some(), monitor)? else { return Ok(Vec::new()) };
    let Some(recipe) = surveyed.recipe.clone() else { return surveyed.plan() };
    let place = place.ok_or_else(|| {
        Error::usage("the lengths of images are known only after the images are changed: there is no plan before that")
            .help("shardpack pack makes the plan and packs")
    })?;
    copy::fit_any(place.memory_bytes)?;
    let plans = surveyed.plans_before()?;
    let Some(prepared) = preprocess_target::prepare(place, surveyed.source.as_ref(), &plans)? else {
        let storage = storage::describe(surveyed.source.path(), &surveyed.sniffed);
        let of = |plans| Planned {
            source: surveyed.source.clone(),
            plans,
            storage: storage.clone(),
            kinds: surveyed.sniffed.kinds.clone(),
            notes: Vec::new(),
        };
        return Ok(plans.into_iter().map(of).collect());
    };
    let Surveyed { source, found, .. } = &surveyed;
    let changes = (&recipe, &surveyed.roles);
    let made = transformed::transform(source.clone(), found.clone(), changes, &prepared.work, place.jobs, monitor);
    let (source, found) = made.map_err(goes_on)?;
    surveyed.changed(source, found)?.plan()
}

fn goes_on(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Interrupted => error.help("the same command resumes and keeps the changed images"),
        _ => error,
    }
}

/// Result of planning a part of a source.
#[derive(Debug)]
pub enum PartPlanning {
    /// The plan of all parts.
    Planned(Box<Planned>),
    /// No plan yet: other parts have not preprocessed their images, or this part cannot.
    Changed(ChangedPart),
    /// All parts are merged.
    Sealed,
}

/// As [`plan_all`], for one format and for `part` of several. If images are preprocessed, each part does its
/// own first, in the work folder of `place`, and the plan exists once all parts are done.
///
/// # Errors
/// As [`plan_all`]; and if `place` holds something else.
pub fn plan_part(
    source: SharedSource,
    options: &PlanOptions,
    part: Part,
    place: &PreprocessTarget,
    on_bad: OnBad,
    monitor: &dyn Monitor,
) -> Result<PartPlanning> {
    let none = || Error::usage("there is nothing to plan");
    let site = place.sites.first().ok_or_else(none)?;
    let surveyed = Surveyed::survey(source, std::slice::from_ref(options), false, monitor)?.ok_or_else(none)?;
    let Some(recipe) = surveyed.recipe.clone() else {
        return surveyed.plan_one().map(Box::new).map(PartPlanning::Planned);
    };
    copy::fit_any(place.memory_bytes)?;
    let plans = surveyed.plans_before()?.pop().ok_or_else(none)?;
    let Surveyed { source, found, roles, .. } = &surveyed;
    let request = Request { source: source.as_ref(), found, recipe: &recipe, roles, plans: &plans };
    match change_part(&request, part, site, place.jobs, on_bad, monitor).map_err(goes_on)? {
        PreprocessState::Sealed => Ok(PartPlanning::Sealed),
        PreprocessState::Some(changed) => Ok(PartPlanning::Changed(changed)),
        PreprocessState::All(outcomes, spools) => {
            let (source, found) = outcomes.into_source(surveyed.source.clone(), surveyed.found.clone(), spools);
            surveyed.changed(source, found)?.plan_one().map(Box::new).map(PartPlanning::Planned)
        }
    }
}

/// A listed source with its chosen samples.
struct Surveyed {
    source: SharedSource,
    found: Vec<SourceListing>,
    sniffed: Sniffed,
    /// Options that decide the bytes, for each format.
    bytes: Vec<plan::Options>,
    /// Preprocessing of images, until it is done.
    recipe: Option<Recipe>,
    /// Roles of the components that are preprocessed too, or kept.
    roles: Roles,
}

impl Surveyed {
    /// `None` if there are no options; `is_copied` if the images are read next.
    fn survey(
        source: SharedSource,
        options: &[PlanOptions],
        is_copied: bool,
        monitor: &dyn Monitor,
    ) -> Result<Option<Self>> {
        let Some(first) = options.first() else { return Ok(None) };
        let source = match Division::of_choice(&first.bytes.format)? {
            Some(division) => Arc::new(Divided::new(source, division)),
            None => source,
        };
        options.iter().try_for_each(require_decode)?;
        let mut found = source.discover(&first.walk, monitor)?;
        found.iter().try_for_each(|found| check_fraction(found, first))?;
        check_any_file(source.as_ref(), &found, &first.walk)?;
        refuse_image_options(options, &found)?;
        selection::survey(source.as_ref(), &mut found, &first.survey, &first.walk.with, monitor)?;
        found.iter().try_for_each(check_folder)?;
        // Labels in names of files are often persons or animals, and each split has its own.
        if first.walk.label_pattern.is_none() {
            split_sources::check_shared(source.as_ref(), &found)?;
        }
        found.iter().try_for_each(|found| check_any(source.as_ref(), found))?;
        let sniffed = look_all(source.as_ref(), &found, is_copied)?;
        check_components_exist(&first.walk.components, &first.bytes.format.wanted.renames, &found)
            .map_err(|error| error.in_file(source.path()))?;
        decide_payload(source.as_ref(), &mut found, &sniffed.kinds, first.recipe.is_some())?;
        refuse_image_options(options, &found)?;
        let roles = geometry::decide(source.as_ref(), &found, first.recipe.as_ref(), &first.roles)?;
        if let Some(recipe) = &first.recipe {
            roles.set_types(&mut found, recipe);
        }
        // A fixed extension means that samples are files of that kind.
        if first.recipe.is_none() && !options.iter().any(|options| matches!(options.extension, Extension::Fixed(_))) {
            npy::decide_forms(source.as_ref(), &mut found, monitor)?;
        }
        let is_resized = first.recipe.as_ref().is_some_and(|recipe| recipe.resize.is_some());
        boxes::take(source.as_ref(), &mut found, &first.walk, is_resized, monitor)?;
        let is_of_shards = source.is_of_shards();
        let settle = |options| decide_options(options, &roles, &found, &sniffed.kinds, is_of_shards);
        let bytes = options.iter().map(settle).collect::<Result<Vec<_>>>()?;
        if let (Some(_), [first, others @ ..]) = (&first.recipe, bytes.as_slice())
            && let Some(other) = others.iter().find(|other| !first.format.components_cover(&other.format))
        {
            // Preprocessed images exist only until the first dataset is sealed.
            let (first, other) = (&first.format.name, &other.format.name);
            return Err(Error::usage(format!(
                "{other} is made from the shards of {first}, which cannot hold all components"
            ))
            .help(format!("give --format {other} before --format {first}, or pack each in a run of its own")));
        }
        Ok(Some(Self { source, found, sniffed, bytes, recipe: first.recipe.clone(), roles }))
    }

    /// Plans without cuts for each format, with the facts known before preprocessing.
    fn plans_before(&self) -> Result<Vec<Vec<Plan>>> {
        let plans = |bytes: &plan::Options| {
            let plan = |found: &SourceListing| {
                Plan::without_cuts(found.with_kinds(&bytes.format.components), of_split(bytes, found)?)
            };
            self.found.iter().map(plan).collect::<Result<Vec<_>>>()
        };
        self.bytes.iter().map(plans).collect()
    }

    /// The same after preprocessing.
    fn changed(self, source: SharedSource, found: Vec<SourceListing>) -> Result<Self> {
        found.iter().try_for_each(|found| check_any(source.as_ref(), found))?;
        let sniffed = Sniffed { kinds: self.sniffed.kinds, ..look_all(source.as_ref(), &found, true)? };
        Ok(Self { source, found, sniffed, recipe: None, ..self })
    }

    /// Plans of one format.
    fn plan_one(self) -> Result<Planned> {
        self.plan()?.pop().ok_or_else(|| Error::usage("there is nothing to plan"))
    }

    /// Plans of each format.
    fn plan(self) -> Result<Vec<Planned>> {
        let Self { source, mut found, sniffed, bytes, .. } = self;
        let storage = storage::describe(source.read_at(), &sniffed);
        let mut of_source: Vec<String> = found.iter_mut().flat_map(|found| std::mem::take(&mut found.notes)).collect();
        let mut all = Vec::new();
        for bytes in bytes {
            let plan =
                |found: &SourceListing| Plan::new(found.with_kinds(&bytes.format.components), of_split(&bytes, found)?);
            let plans = found.iter().map(plan);
            let plans = plans.collect::<Result<Vec<_>>>().map_err(|error| error.in_file(source.path()))?;
            let mut notes_of = std::mem::take(&mut of_source);
            notes_of.extend(warnings::notes(plans.iter(), &sniffed.kinds));
            notes_of.extend(describe_unstorable(&found, &bytes.format));
            let (source, storage, kinds) = (source.clone(), storage.clone(), sniffed.kinds.clone());
            all.push(Planned { source, plans, storage, kinds, notes: notes_of });
        }
        Ok(all)
    }
}

/// Sets the kind of samples, and fails if splits differ. For a list without images, the extensions of its files
/// decide. Arrays count as images if `changes` turns them into images.
fn decide_payload(
    source: &dyn Source,
    found: &mut [SourceListing],
    kinds: &BTreeMap<Kind, u64>,
    changes: bool,
) -> Result<()> {
    let is_other = |kind: &Kind| *kind == Kind::Unknown || (*kind == Kind::Npy && !changes);
    let is_told = found.iter().any(|found| found.payload.is_some());
    if !is_told && source.is_all(&[SourceKind::List]) && !kinds.is_empty() && kinds.keys().all(is_other) {
        let payload = sample_files::of_names(found)?;
        found.iter_mut().for_each(|found| found.payload.clone_from(&payload));
    }
    decide_types(found);
    let Some(first) = found.first() else { return Ok(()) };
    match found.iter().find(|other| other.payload != first.payload) {
        None => Ok(()),
        Some(other) => {
            let called = |found: &SourceListing| found.payload.as_ref().map_or("image", Component::name).to_owned();
            let split = |found: &SourceListing| found.split.clone().unwrap_or_default();
            let what = format!(
                "samples of split {} are {}s, those of split {} {}s",
                split(first),
                called(first),
                split(other),
                called(other)
            );
            Err(Error::usage(what).in_file(source.path()).help(help::ONE_KIND))
        }
    }
}

/// Gives the values of all splits their common types.
fn decide_types(found: &mut [SourceListing]) {
    let joined = |own: &Component, of: &dyn Fn(&SourceListing) -> Option<Component>| {
        let all = found.iter().filter_map(of).filter(|other| own.join(other).is_some());
        all.fold(own.clone(), |all, other| all.join(&other).unwrap_or(all))
    };
    let settled: Vec<_> = found
        .iter()
        .map(|one| {
            let components = one.listing.components();
            let same = |name: &str, other: &SourceListing| {
                other.listing.components().kinds.iter().find(|kind| kind.name() == name).cloned()
            };
            let kinds: Vec<_> =
                components.kinds.iter().map(|own| joined(own, &|other| same(own.name(), other))).collect();
            let payload =
                components.payload.as_ref().map(|own| joined(own, &|other| other.listing.components().payload.clone()));
            (kinds, payload)
        })
        .collect();
    for (one, (kinds, payload)) in found.iter_mut().zip(settled) {
        let components = one.listing.components();
        if components.kinds != kinds || components.payload != payload {
            one.listing = Arc::new(one.listing.with_types(kinds, payload.clone()));
            one.payload = payload.or_else(|| one.payload.clone());
        }
    }
}

/// Options that decide the bytes, completed by detection: the extension, the components of the source beside
/// images, and the recipe as text.
fn decide_options(
    options: &PlanOptions,
    roles: &Roles,
    found: &[SourceListing],
    kinds: &BTreeMap<Kind, u64>,
    is_of_shards: bool,
) -> Result<plan::Options> {
    let mut bytes = options.bytes.clone();
    bytes.format.components = found.first().map(|found| found.listing.components().kinds.clone()).unwrap_or_default();
    if bytes.format.has_text() {
        bytes.format.json = found.iter().any(|found| found.meta);
    }
    let becomes = |kind| options.recipe.as_ref().map_or(kind, |recipe| transformed::becomes(kind, recipe));
    let values = found.iter().find_map(|found| found.listing.components().payload.clone());
    bytes.format.payload = values.or_else(|| found.iter().find_map(|found| found.payload.clone()));
    if let Some(one) = found.first() {
        bytes.format.files.clone_from(&one.files);
    }
    if let (Some(payload), Extension::Fixed(name)) = (&mut bytes.format.payload, &options.extension) {
        if payload.kind().is_some() {
            return Err(Error::usage(format!("--ext {name}: samples are values, not files with an extension")));
        }
        if is_of_shards {
            return Err(Error::usage(format!("--ext {name}: files of samples keep their names in shards")));
        }
        *payload = Component::field(name)?;
    }
    let payload = bytes.format.payload.as_ref().map(|payload| payload.name().to_owned());
    bytes.format.extension = match &options.extension {
        _ if payload.is_some() => payload,
        _ if !formats::entry(&bytes.format.name)?.has_extensions => None,
        Extension::Content => None,
        Extension::Fixed(extension) => Some(extension.clone()),
        Extension::MostCommon => Some(becomes(most_common(kinds)).extension().to_owned()),
    };
    bytes.recipe = options.recipe.as_ref().map(|recipe| transformed::words(recipe, roles));
    if is_of_shards && options.walk.components == Components::All {
        // The user did not name these components.
        let all = std::mem::take(&mut bytes.format.components);
        bytes.format.components = all.into_iter().filter(|kind| formats::has_place_for(&bytes.format, kind)).collect();
    }
    keep_origin(&mut bytes.format, options, found);
    if let Some(one) = found.first() {
        let is_kept = |name: &String| bytes.format.components.iter().any(|kind| kind.name() == name);
        let classes = one.component_classes.iter().filter(|(name, _)| is_kept(name));
        bytes.format.component_classes = classes.map(|(name, names)| (name.clone(), names.clone())).collect();
    }
    Ok(bytes)
}

/// Keeps the license of a dataset, and how its source was listed, which comparisons with the source need. The splits must have kept
/// their names.
fn keep_origin(format: &mut formats::Choice, options: &PlanOptions, found: &[SourceListing]) {
    let Some(first) = found.first() else { return };
    let pattern = &first.origin.label_pattern;
    if format.label_pattern.is_none()
        && !options.walk.no_labels
        && found.iter().all(|one| one.origin.label_pattern == *pattern)
    {
        format.label_pattern.clone_from(pattern);
    }
    let license = &first.origin.license;
    let has_license =
        formats::entry(&format.name).is_ok_and(|entry| entry.settings.iter().any(|one| one.name == LICENSE));
    if has_license && found.iter().all(|one| one.origin.license == *license) {
        let license = license.iter().map(|license| (LICENSE.to_owned(), license.clone()));
        format.settings = license.chain(std::mem::take(&mut format.settings)).collect();
    }
    let division = |one: &SourceListing| {
        let (fractions, folders, name) = one.origin.division.clone()?;
        (one.split.as_ref().unwrap_or(&options.bytes.name) == &name).then_some((fractions, folders))
    };
    let Some((fractions, folders)) =
        division(first).filter(|own| found.iter().all(|one| division(one).as_ref() == Some(own)))
    else {
        return;
    };
    if format.fractions.is_none() && format.split_folders.is_none() {
        (format.fractions, format.split_folders) = (fractions, folders);
    }
}

/// The options for one split: without labels, shards have no label fields.
fn of_split(bytes: &plan::Options, found: &SourceListing) -> Result<plan::Options> {
    let mut bytes = bytes.clone();
    bytes.format.list_clues.clone_from(&found.list_clues);
    if found.listing.classes.is_empty() {
        (formats::entry(&bytes.format.name)?.without_labels)(&mut bytes.format);
    }
    Ok(bytes)
}

/// Describes components that `format` cannot store, and counts the samples that have them.
fn describe_unstorable(found: &[SourceListing], format: &formats::Choice) -> Option<String> {
    let kinds = found.first().map_or(&[][..], |found| &found.listing.components().kinds);
    let names: Vec<_> = kinds.iter().filter(|kind| !format.components.contains(kind)).map(Component::name).collect();
    let what = format!("left out, as {} has no place for it beside the image", format.name);
    (!names.is_empty()).then(|| format!("component {what}: {}", names.join(", ")))
}

/// Inspects a few samples of each dataset in storage; `is_copied` if the images are read next.
fn look_all(source: &dyn Source, found: &[SourceListing], is_copied: bool) -> Result<Sniffed> {
    let look = |found: &SourceListing| {
        let look = look(source, found.split.as_deref(), &found.listing, is_copied)?;
        // Kinds from the selection are more accurate.
        let kinds = if found.kinds.is_empty() { look.kinds } else { found.kinds.clone() };
        Ok(Sniffed { kinds, ..look })
    };
    Ok(merge_sniffed(found.iter().map(look).collect::<Result<_>>()?))
}

fn most_common(kinds: &BTreeMap<Kind, u64>) -> Kind {
    let known = kinds.iter().filter(|(kind, _)| **kind != Kind::Unknown);
    // Of equal counts, the kind that is first in the list of kinds.
    known.rev().max_by_key(|(_, samples)| **samples).map_or(Kind::Jpeg, |(kind, _)| *kind)
}
