//! Checks arrays with label names whose rows hold several classes, or none.
//!
//! If one row is no class, the whole array becomes a component, and a note names it.

use shardpack_format::{
    Result,
    formats::foreign::{Label, LabelTypes},
};

use super::{
    Arrays, BATCH_BYTES,
    seen::Seen,
    values::{self, Kind},
};

/// Advice if labels do not fit.
pub(crate) const OTHER_LABELS: &str = "--no-labels packs without labels; --label-feature PATH names another dataset";

/// Why rows that are lists are no classes, for a note.
pub(crate) fn of_lists(labels: &Seen) -> String {
    format!("; {} has lists of labels: a component, and no class", labels.describe())
}

/// The reason why the rows of `labels` are no classes, for a note; `None` if they are classes.
///
/// # Errors
/// If the array cannot be read.
pub(crate) fn no_class(file: &dyn Arrays, labels: &Seen) -> Result<Option<String>> {
    let are_several = matches!(labels.shape[..], [_, items] if items > 1) && labels.shape[0] != 1;
    if !are_several && !matches!(labels.kind, Kind::Real | Kind::Text) {
        return Ok(None);
    }
    let mut texts = LabelTypes::default();
    let mut rows = file.rows(&labels.path, BATCH_BYTES)?;
    for number in 0..labels.rows().unwrap_or(0) {
        // Corruption is reported when the row is read.
        let Ok(row) = rows.row(number)?.map(<[u8]>::to_vec) else { continue };
        let item_bytes = rows.array().item_bytes().max(1);
        let mut items = if are_several { row.chunks_exact(row.len().max(1)) } else { row.chunks_exact(item_bytes) };
        let is_unfit = |item: &[u8]| match values::label(rows.array(), item, 0) {
            Label::Unfit(_) => labels.kind != Kind::Text,
            Label::Text(text) => {
                texts.add(&text);
                false
            }
            _ => false,
        };
        if items.any(is_unfit) {
            let what = if are_several { "several labels a row" } else { "no whole numbers" };
            return Ok(Some(format!("; {} has {what}: a component, and no class", labels.describe())));
        }
    }
    Ok(match texts.no_classes() {
        None => None,
        Some(_) if texts.fractions == 0 => Some(of_lists(labels)),
        Some(_) => Some(format!("; {} has no whole numbers: a component, and no class", labels.describe())),
    })
}
