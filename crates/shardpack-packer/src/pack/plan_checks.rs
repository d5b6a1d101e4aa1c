//! Checks options and a listed source before there is a plan: options that its samples do not have, and splits or samples that are missing.

use std::collections::BTreeSet;

use shardpack_format::{Error, Result, component::Component, help, manifest::INDEX_FOLDER, sample, size, text};

use super::{Extension, PlanOptions};
use crate::{
    decoding,
    ledger::{Fate, Unpacked},
    plan,
    source::{
        COMPONENT, Source, SourceKind, SourceListing,
        options::{self, Components},
    },
};

/// Fails if a fraction of the samples is empty.
pub(super) fn check_fraction(found: &SourceListing, options: &PlanOptions) -> Result<()> {
    if options.bytes.format.fractions.is_none() || !found.listing.is_empty() || !found.unpacked.is_empty() {
        return Ok(());
    }
    let split = found.split.as_deref().unwrap_or_default();
    Err(Error::usage(format!("--split-fraction: no sample falls into {split}; the path of a sample decides its split"))
        .help("another --seed, or a larger fraction"))
}

/// Fails if `--with` or `--file-column` names files that not one image has: the pattern is wrong, whatever `--on-missing` says.
pub(super) fn check_any_file(source: &dyn Source, found: &[SourceListing], walk: &options::Options) -> Result<()> {
    if found.iter().all(|one| one.listing.is_empty()) {
        return Ok(());
    }
    let of_columns = found.iter().flat_map(|one| &one.listing.components().kinds);
    let of_columns = of_columns.filter(|kind| kind.file_column().is_some());
    let is_file = |kind: &&Component| !kind.is_of_list() && (kind.is_path() || kind.conversion().is_some());
    for wanted in walk.with.iter().filter(is_file).chain(of_columns) {
        let has_file = |one: &SourceListing| {
            let table = one.listing.components();
            let which = table.kinds.iter().position(|kind| kind.name() == wanted.name());
            let mut cells =
                which.into_iter().flat_map(|which| table.cells.iter().skip(which).step_by(table.kinds.len()));
            cells.any(|cell| cell.length().is_some())
        };
        if !found.iter().any(has_file) {
            if let Some(column) = wanted.file_column() {
                let what = format!("--file-column {column}: not one row names a file that exists");
                return Err(Error::usage(what).in_file(source.path()));
            }
            let what = format!("--with {}: not one image has this file", wanted.with_value());
            let first = found.iter().find(|one| !one.listing.is_empty());
            let expected = first.map(|one| (one, wanted.path_of(&one.listing.folder(0).path, one.listing.name(0))));
            let what = match expected {
                Some((one, Some(path))) => {
                    format!("{what}, the first would be {}{}", one.prefix_of(wanted), text::shown(&path))
                }
                Some((_, None)) => {
                    let error = Error::usage(format!("{what}: the pattern leads out of the source"));
                    return Err(error.in_file(source.path()).help(help::OUT_OF_SOURCE));
                }
                None => what,
            };
            return Err(Error::usage(what).in_file(source.path()));
        }
    }
    Ok(())
}

/// Fails if the folder of a split has a name that every dataset uses.
pub(super) fn check_folder(found: &SourceListing) -> Result<()> {
    match found.split.as_deref() {
        Some(INDEX_FOLDER) => {
            Err(Error::usage(format!("split {INDEX_FOLDER:?}: DST/{INDEX_FOLDER} is where indexes are"))
                .help("give the split another name"))
        }
        _ => Ok(()),
    }
}

/// Fails if samples were found but none was chosen: names the first, and why it is left out.
pub(super) fn check_any(source: &dyn Source, found: &SourceListing) -> Result<()> {
    let left_out = || found.unpacked.iter().filter(|unpacked| unpacked.fate != Fate::Kept);
    if !found.listing.is_empty() || left_out().next().is_none() {
        return Ok(());
    }
    let noun = if found.payload.is_none() { "image" } else { "sample" };
    let split = found.split.as_ref().map_or_else(String::new, |split| format!(" of split {split}"));
    let said = |all: u64, first: &Unpacked| {
        size::first_of(all, &format!("{}: {}", sample::name(&first.path, b""), first.reason))
    };
    let leaf = source.leaf_of(found.split.as_deref())?;
    let error = match left_out().find(|unpacked| unpacked.fate == Fate::Skipped) {
        Some(first) => {
            let count = left_out().count() as u64;
            let error = Error::data(format!(
                "none of {}{split} can be packed{}",
                size::counted(count, noun),
                said(count, first)
            ));
            match leaf.kind() == SourceKind::List {
                true if first.reason.starts_with("no label") => error.help(help::NO_LABELS),
                true => match &found.help {
                    Some(help) => error.help(help),
                    None => error.help("set the folder of relative paths in a list with --root FOLDER"),
                },
                false => error,
            }
        }
        None => {
            let count = left_out().count() as u64;
            let first = left_out().next().map_or_else(String::new, |first| said(count, first));
            Error::usage(format!("{}{split}{first}", size::all_are(count, noun, "left out")))
        }
    };
    Err(error.in_file(leaf.path()))
}

/// Fails if an option needs pixels, in a build that cannot decode images.
pub(super) fn require_decode(options: &PlanOptions) -> Result<()> {
    let asked = [
        (options.recipe.is_some(), "changed images"),
        (options.survey.near, "--near-duplicates"),
        (options.bytes.check == plan::Check::Full, "--check full"),
        (options.bytes.check == plan::Check::Entropy, "--check entropy"),
        (options.walk.with.iter().any(|kind| kind.conversion().is_some()), "boxes in pixels"),
    ];
    let needed = asked.into_iter().filter(|(is_asked, _)| *is_asked);
    needed.map(|(_, option)| option).try_for_each(decoding::require_decode)
}

/// Fails if an option for images is used, but samples are not images.
pub(super) fn refuse_image_options(options: &[PlanOptions], found: &[SourceListing]) -> Result<()> {
    match found.iter().find_map(|found| found.payload.as_ref()) {
        None => Ok(()),
        Some(payload) => options.iter().try_for_each(|options| refuse_of_images(options, payload)),
    }
}

fn refuse_of_images(options: &PlanOptions, payload: &Component) -> Result<()> {
    let survey = &options.survey;
    let settings = &options.bytes.format.settings;
    let has_values = payload.kind().is_some();
    let asked = [
        (options.recipe.is_some(), "--fix, --rotate, --resize and --encode change"),
        (!survey.kinds.is_empty(), "--formats chooses among"),
        (survey.min_side.is_some(), "--min-side looks at"),
        (survey.max_pixels.is_some(), "--max-pixels looks at"),
        (survey.near, "--near-duplicates compares"),
        // Samples with one array may differ in everything else.
        (has_values && survey.dedup, "--dedup compares"),
        (has_values && survey.leaks, "--leaks compares"),
        (options.bytes.check == plan::Check::Full, "--check full decodes"),
        (options.bytes.check == plan::Check::Entropy, "--check entropy reads the codes of"),
        (options.extension == Extension::Content, "--ext content detects the kinds of"),
        (settings.get("encoding").is_some_and(|encoding| encoding != "bytes"), "--mds-encoding is for"),
        (settings.contains_key("image_column"), "--set image_column names the column of"),
    ];
    match asked.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, what)) => {
            let are = match has_values {
                false => format!(".{} files", payload.name()),
                true => "values".to_owned(),
            };
            Err(Error::usage(format!("{what} images, and these samples are {are}"))
                .help("without it, files of any kind are packed as they are"))
        }
    }
}

/// Fails if no sample has a requested component.
pub(super) fn check_components_exist(
    components: &Components,
    renames: &[(String, String)],
    found: &[SourceListing],
) -> Result<()> {
    let Components::Named(wanted) = components else { return Ok(()) };
    let has = |kind: &Component| {
        found.iter().any(|found| {
            let components = found.listing.components();
            let is = |one: &Component| [one.name(), one.column()].contains(&kind.name());
            if components.payload.as_ref().is_some_and(is) {
                return true;
            }
            let which = components.kinds.iter().position(is);
            let cells = |which| components.cells.iter().skip(which).step_by(components.kinds.len());
            which.is_some_and(|which| cells(which).any(|cell| cell.length().is_some()))
        })
    };
    let Some(missing) = wanted.iter().find(|kind| !has(kind)) else { return Ok(()) };
    let left_out = found.iter().flat_map(|found| found.ignored.keys()).filter_map(|what| what.strip_prefix(COMPONENT));
    let kept =
        found.iter().flat_map(|found| &found.listing.components().kinds).filter(|kind| has(kind)).map(Component::name);
    let names: BTreeSet<&str> = left_out.chain(kept).collect();
    let there = match names.is_empty() {
        true => "they have none".to_owned(),
        false => format!("they have {}", names.into_iter().collect::<Vec<_>>().join(", ")),
    };
    let renamed =
        renames.iter().find(|(_, name)| Component::field(name).is_ok_and(|kind| kind.name() == missing.name()));
    let missing = renamed.map_or(missing.name(), |(field, _)| field);
    Err(Error::usage(format!("no sample has a component {missing:?} that can be packed: {there}")))
}
