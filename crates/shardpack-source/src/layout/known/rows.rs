//! Arrays whose rows are samples: `X_train.npy` and `y_train.npy`. As files, each would be one sample.

use shardpack_format::{Error, npy, size};

use super::Look;
use crate::{Result, layout::split_names::words};

/// Words for arrays of samples, and for arrays of their labels.
const SAMPLES: [&str; 8] = ["x", "data", "features", "images", "image", "imgs", "inputs", "input"];
const LABELS: [&str; 6] = ["y", "labels", "label", "targets", "target", "classes"];
/// Most files that are looked at.
const MAX_FILES: usize = 64;

/// An array in the folder: its name, the other words of its name, and the length of its first axis.
struct Array {
    name: String,
    others: Vec<String>,
    is_of_labels: bool,
    rows: u64,
}

/// Fails if the folder has such arrays.
///
/// # Errors
/// The error names the arrays and the number of rows.
pub(super) fn refuse(look: &Look<'_>) -> Result<()> {
    let files = look.files("");
    let arrays: Vec<Array> = files
        .0
        .iter()
        .filter(|name| name.ends_with(".npy"))
        .take(MAX_FILES)
        .filter_map(|name| array(look, name))
        .collect();
    let pair = arrays.iter().filter(|one| !one.is_of_labels).find_map(|samples| {
        let is_its = |one: &&Array| one.is_of_labels && one.others == samples.others && one.rows == samples.rows;
        Some((samples, arrays.iter().find(is_its)?))
    });
    let Some((samples, labels)) = pair.filter(|(samples, _)| samples.rows > 1) else { return Ok(()) };
    Err(Error::usage(format!(
        "{} and {} are arrays of {}: samples are their rows, and here each file would be a sample",
        samples.name,
        labels.name,
        size::counted(samples.rows, "row")
    ))
    .in_file(look.tree.root)
    .help("shardpack convert reads them as datasets of an HDF5 file, written by h5py; --files npy packs each file as a sample"))
}

fn array(look: &Look<'_>, name: &str) -> Option<Array> {
    let mut others = words(name.strip_suffix(".npy")?.as_bytes());
    let role = |known: &[&str], others: &[String]| others.iter().position(|word| known.contains(&word.as_str()));
    let (at, is_of_labels) = match (role(&SAMPLES, &others), role(&LABELS, &others)) {
        (_, Some(at)) => (at, true),
        (Some(at), None) => (at, false),
        (None, None) => return None,
    };
    others.remove(at);
    let start = look.start(name);
    let rows = *npy::read_head(&start).ok()?.shape.first()?;
    Some(Array { name: name.to_owned(), others, is_of_labels, rows })
}
