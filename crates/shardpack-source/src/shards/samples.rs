//! Detects files that hold one sample or one column each, where the reader expects tables of rows.
//!
//! The rows of such files are not samples. Files whose datasets allow no other reading are one sample each; others are an error.

use shardpack_format::{
    Error, Result,
    formats::foreign::{Entries, FieldSelection},
    splits,
};

use crate::foreign::{Kind, ShardFile, hdf5, tables::known::Outline};

/// The options for files that may be samples or rows.
const ANSWERS: &str =
    "--from hdf5:file packs each file as a sample; --images PATH or --components NAMES packs the rows of its datasets";
/// Files that are looked at, beside the last one.
const LOOKS: usize = 8;

/// Checks that files are no samples; files that can be nothing but a sample each are chosen as such in `wanted`, and the result is a note.
///
/// # Errors
/// If some of them look like one sample each or have a value for the whole file, or the first and the last like different columns of one table. Unreadable files pass
/// the check.
pub(super) fn check(files: &[&ShardFile], wanted: &mut FieldSelection) -> Result<Option<String>> {
    // Explicit options override the check.
    let is_said = wanted.image.is_some() || wanted.label.is_some() || wanted.components.is_some();
    if is_said || !wanted.entries.is_unsaid() {
        return Ok(None);
    }
    // The walk reports damaged files.
    let step = files.len().div_ceil(LOOKS).max(1);
    let last = files.last().filter(|_| !(files.len() - 1).is_multiple_of(step));
    let looked: Vec<_> =
        files.iter().step_by(step).chain(last).filter_map(|file| Some((*file, file.outline(wanted).ok()?))).collect();
    let known: Vec<_> = looked.iter().filter_map(|(file, found)| Some((*file, found.as_ref()?))).collect();
    let are_flat = known.len() == looked.len() && known.iter().all(|(_, found)| found.is_flat);
    let (Some((first, one)), Some((last, other))) = (known.first(), known.last()) else { return Ok(None) };
    if let (true, [own], [theirs]) =
        (one.is_flat && other.is_flat && one.names != other.names, &one.names[..], &other.names[..])
    {
        return Err(columns(first, own, last, theirs));
    }
    // Files of numpy that look like a sample each are rows only if an option says so.
    if !Kind::parse(hdf5::FILE).is_ok_and(|kind| files.iter().all(|file| file.kind == kind)) {
        return Ok(None);
    }
    let are_sure = are_flat && known.iter().all(|(_, found)| found.is_surely_sample && found.names == one.names);
    let is_split = |file: &&ShardFile| file.path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_of_split);
    if are_sure && files.len() > 1 && !files.iter().any(is_split) {
        wanted.entries = file_samples();
        let note = "each file is one sample: its datasets have the axes of one image; --images PATH or --components NAMES packs rows";
        return Ok(Some(note.to_owned()));
    }
    let is_any_sure = known.iter().any(|(_, found)| found.is_surely_sample);
    let are_likely = are_flat && files.len() > 1 && one.is_sample && other.is_sample;
    if is_any_sure || are_likely {
        let what = match files.len() {
            1 => format!("a file that looks like one sample, and not like a table of rows: it has {}", one.told),
            count => format!(
                "{count} files that look like a sample each, and not like tables of rows: the first has {}",
                one.told
            ),
        };
        return Err(Error::usage(what).in_file(&first.path).help(ANSWERS));
    }
    if files.len() > 1 { of_whole_files(&known, files.len()).map(|()| None) } else { Ok(None) }
}

/// Checks that no row of the `known` files, of `count` in all, lacks a value that is one for the whole file, and that their rows can be
/// read.
///
/// # Errors
/// If one has such a value, or its rows are unclear: the file may be a sample.
fn of_whole_files(known: &[(&ShardFile, &Outline)], count: usize) -> Result<()> {
    for (file, found) in known {
        if let Some(value) = &found.value_of_file {
            let what = format!(
                "{count} files that may be a sample each: {value} is one value for a whole file, which rows would leave out; it has {}",
                found.told
            );
            return Err(Error::usage(what).in_file(&file.path).help(ANSWERS));
        }
    }
    let Some((file, error)) = known.iter().find_map(|(file, found)| Some((file, found.refusal.as_ref()?))) else {
        return Ok(());
    };
    let other = error.help_text().map(|help| format!("; {help}")).unwrap_or_default();
    let help = format!("--from hdf5:file packs each file as a sample{other}");
    Err(Error::usage(error.what()).in_file(&file.path).help(help))
}

/// The choice of files that are a sample each.
fn file_samples() -> Entries {
    Entries { dialect: Some(hdf5::FILE.to_owned()), ..Entries::default() }
}

/// Whether a file of this name holds the samples of a split.
fn is_of_split(stem: &str) -> bool {
    stem.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|word| splits::KNOWN.contains(&word))
}

/// The error for files with one dataset each under different names: images in one, labels in the other. Rows are never joined across files.
fn columns(first: &ShardFile, own: &str, last: &ShardFile, theirs: &str) -> Error {
    let last = last.path.file_name().unwrap_or_default().display();
    Error::usage(format!("it has only dataset {own}, and {last} has only dataset {theirs}: columns of one table"))
        .in_file(&first.path)
        .help(
            "write the columns of each split as datasets of one file; --images PATH or --components NAMES packs the rows of each file all \
             the same",
        )
}
