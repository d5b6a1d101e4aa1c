//! Arrays whose rows are samples: `X_train.npy` and `y_train.npy`. As files, each would be one sample.

use shardpack_format::{Error, shell, size};

use super::{Files, Look};
use crate::{Result, foreign::numpy, layout::split_names::words};

/// Most files that are looked at.
const MAX_FILES: usize = 64;

/// Fails if the folder has such arrays.
///
/// # Errors
/// The error names the arrays and the number of rows.
pub(super) fn refuse(look: &Look<'_>) -> Result<()> {
    let files = look.files("");
    if let Some((name, of)) = numpy::known(&files.0) {
        let what = format!("{name} is of {of}, whose samples are rows of arrays");
        let help = help_convert(look);
        return Err(Error::usage(what).in_file(look.tree.root).help(help));
    }
    refuse_archive(look, &files)?;
    let arrays: Vec<&String> = files.0.iter().filter(|name| name.ends_with(".npy")).take(MAX_FILES).collect();
    let looked = arrays.iter().map(|name| {
        let words = words(name.strip_suffix(".npy").unwrap_or(name).as_bytes());
        (words.join("_"), look.start(name).to_vec())
    });
    let pair = numpy::pair(&looked.collect::<Vec<_>>());
    let Some(numpy::Pair { samples, labels, rows: Some((rows, of_labels)) }) = pair else { return Ok(()) };
    let (samples, labels) = (arrays[samples], arrays[labels]);
    let what = match rows == of_labels {
        true => format!(
            "{samples} and {labels} are arrays of {}: samples are their rows, and here each file would be a sample",
            size::counted(rows, "row")
        ),
        false => format!(
            "{samples} has {}, and {labels} has {of_labels}: samples are rows of arrays of one length, and here each file would be a \
             sample",
            size::counted(rows, "row")
        ),
    };
    Err(refused(look, what, "npy"))
}

/// Fails if an archive in the folder has such arrays. In a bucket or an archive, the arrays of such a file are components.
fn refuse_archive(look: &Look<'_>, files: &Files) -> Result<()> {
    let archives: Vec<&String> = files.0.iter().filter(|name| name.ends_with(".npz")).collect();
    let is_local = look.tree.listed.is_none();
    for name in archives.iter().filter(|_| is_local).take(MAX_FILES) {
        let path = look.tree.path(name.as_bytes());
        if let Some((samples, labels)) = numpy::table(&path, archives.len() == 1) {
            let what = format!(
                "{name} has {samples} and {labels}: samples are their rows, and here each file would be a sample"
            );
            return Err(refused(look, what, "npz"));
        }
    }
    Ok(())
}

fn refused(look: &Look<'_>, what: String, files: &str) -> Error {
    let help = format!("{}; --files {files} packs each file as a sample", help_convert(look));
    Error::usage(what).in_file(look.tree.root).help(help)
}

fn help_convert(look: &Look<'_>) -> String {
    format!("shardpack convert {} DST packs each row as a sample", shell::path(look.tree.root))
}
