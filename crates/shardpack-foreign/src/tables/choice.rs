//! Selects the arrays that hold images as rows and the arrays that accompany them: by shape, type and name, or as the
//! user chose.
//!
//! If several datasets are candidates, the error names them; the code never guesses. Accompanying datasets have as many rows
//! as the images. A dataset that is named like the image or the label and cannot be it is an error and is not skipped.

use std::collections::BTreeSet;

use shardpack_format::{Error, Result, formats::foreign::FieldSelection, help};

use super::{
    Arrays, BATCH_BYTES, components, labels,
    names::{self, FILENAMES, IMAGES, SHAPES, group_of, label_rank, rank},
    seen::{Seen, describe_all},
    table::Table,
    values::{self, Kind, is_image},
};

/// Rows that are looked at for the first image that is not empty.
const LOOKS: u64 = 16;
/// Advice if the images and labels cannot be detected.
pub(crate) const NAME_BOTH: &str = "choose the datasets with --image-feature PATH and --label-feature PATH";

/// Datasets whose rows are images: one, or one for each split.
pub(crate) fn candidates(file: &dyn Arrays, seen: &[Seen]) -> Result<Vec<Seen>> {
    let mut found = Vec::new();
    for one in seen.iter().filter(|one| one.rows().is_some_and(|rows| rows > 0)) {
        if one.is_pixels() || one.is_encoded() && (begins_like_image(file, one)? || has_shapes(one, seen)) {
            found.push(one.clone());
        }
    }
    if found.is_empty() {
        found.extend(seen.iter().filter(|one| one.is_stack()).cloned());
    }
    if found.iter().any(|one| rank(&one.path, &IMAGES).is_some()) {
        found.retain(|one| rank(&one.path, &IMAGES).is_some());
    }
    if found.len() > 1 && !are_splits(&found) {
        let best = found.iter().filter_map(|one| rank(&one.path, &IMAGES)).min();
        let is_best = |one: &&Seen| rank(&one.path, &IMAGES) == best;
        let likeliest: Vec<_> = found.iter().filter(is_best).cloned().collect();
        if likeliest.len() > 1 && !are_splits(&likeliest) {
            let what = format!("several {}s that may hold the images: it has {}", file.noun(), describe_all(seen));
            return Err(Error::usage(what).help(NAME_BOTH));
        }
        found = likeliest;
    }
    // Datasets with the name and shape of images and an unsupported type.
    let odd = seen.iter().filter_map(|one| Some((one.odd_images()?, one))).min_by_key(|(rank, _)| *rank);
    let best = found.iter().filter_map(|one| rank(&one.path, &IMAGES)).min().unwrap_or(usize::MAX);
    match (odd, &*found) {
        (Some((rank, odd)), [first, ..]) if rank < best => {
            let why = if odd.shape.len() == 1 { "bytes that begin like no image" } else { "pixels that are not uint8" };
            let what = format!("images {}: {why}, which are not packed; {} could be", odd.describe(), first.describe());
            Err(Error::usage(what).help(help::this_image(&first.path)))
        }
        _ => Ok(found),
    }
}

/// Whether each is of a split of its own.
fn are_splits(found: &[Seen]) -> bool {
    let splits: BTreeSet<_> = found.iter().filter_map(|one| names::split(&one.path)).collect();
    splits.len() == found.len()
}

fn has_shapes(one: &Seen, seen: &[Seen]) -> bool {
    one.kind == Kind::Bytes && one.rows().is_some_and(|rows| shapes(one, rows, seen).is_some())
}

/// Whether the first row that is not empty begins like an image.
pub(crate) fn begins_like_image(file: &dyn Arrays, one: &Seen) -> Result<bool> {
    let mut rows = file.rows(&one.path, BATCH_BYTES)?;
    for number in 0..one.rows().unwrap_or(0).min(LOOKS) {
        let Ok(row) = rows.row(number)?.map(<[u8]>::to_vec) else { continue };
        let bytes = match rows.array().item().is_reference() {
            true => values::referred(rows.array(), &row).unwrap_or_default(),
            false => row,
        };
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(is_image(&bytes));
        }
    }
    Ok(false)
}

/// The images and the datasets that accompany them.
pub(crate) fn table(
    file: &dyn Arrays,
    images: &Seen,
    seen: &[Seen],
    label: Option<&Seen>,
    wanted: &FieldSelection,
) -> Result<Table> {
    let rows = images.rows().unwrap_or(0);
    // No more than one image a byte can be stored, however they are compressed.
    let most = file.most_rows();
    if rows > most {
        return Err(Error::data(format!("images {}: more than its {most} bytes can hold", images.describe())));
    }
    let labels = match label {
        Some(label) if !label.is_label(rows) => {
            let what = format!("labels {} do not go with images {}", label.describe(), images.describe());
            return Err(Error::usage(what));
        }
        Some(label) => Some(label),
        None if wanted.no_labels => None,
        None => {
            let found = beside(images, seen, label_rank, |one| one.is_label(rows))?;
            check_labels(images, seen, found)?;
            found
        }
    };
    // The unpacked file is equal with and without labels.
    let of_labels = match label {
        Some(label) => Some(label),
        None => beside(images, seen, label_rank, |one| one.is_label(rows)).ok().flatten(),
    };
    let no_class = match of_labels.filter(|_| label.is_none() && wanted.label_number.is_none()) {
        Some(found) => labels::no_class(file, found)?,
        None => None,
    };
    let is_class = |_: &&Seen| no_class.is_none();
    let (labels, of_labels) = (labels.filter(is_class), of_labels.filter(is_class));
    let filenames = beside(
        images,
        seen,
        |path| rank(path, &FILENAMES),
        |one| one.kind == Kind::Text && one.shape == [rows] && of_labels.is_none_or(|labels| labels.path != one.path),
    );
    let filenames = filenames.ok().flatten();
    let shapes = (images.kind == Kind::Bytes).then(|| shapes(images, rows, seen)).flatten();
    let used: Vec<&str> = [of_labels, filenames, shapes].into_iter().flatten().map(|one| one.path.as_str()).collect();
    let split = names::split(&images.path);
    let mut note = format!("images {}", images.describe());
    match labels {
        Some(labels) => note += &format!("; labels {}", labels.describe()),
        None => {
            let is_list = |one: &&Seen| label_rank(&one.path).is_some() && one.rows() == Some(rows) && one.is_list();
            let lists = || seen.iter().find(is_list).map(labels::of_lists);
            note += &no_class.or_else(lists).unwrap_or_else(|| format!("; no labels of {rows} rows"));
            let may_be = |one: &&Seen| one.path != images.path && one.is_label(rows) && one.ends_in_label();
            if let Some(one) = seen.iter().find(may_be).filter(|_| !wanted.no_labels) {
                note += &format!("; {} may be: --label-feature {}", one.describe(), one.path);
            }
        }
    }
    let path = |one: &Seen| one.path.clone();
    Ok(Table {
        images: images.path.clone(),
        values: Vec::new(),
        labels: labels.or(of_labels).map(path),
        // Two that may be meant are none: samples have numbers, too.
        filenames: filenames.map(path),
        shapes: shapes.map(path),
        beside: components::find(images, seen, &used),
        unused: Vec::new(),
        rows: 0..rows,
        strays: Vec::new(),
        split,
        note,
    })
}

/// The dataset that accompanies `images`: named like one of `names` and of a valid type and shape.
fn beside<'s>(
    images: &Seen,
    seen: &'s [Seen],
    place: impl Fn(&str) -> Option<usize>,
    is_fit: impl Fn(&Seen) -> bool,
) -> Result<Option<&'s Seen>> {
    let split = names::split(&images.path);
    let goes_with = |one: &&Seen| one.path != images.path && is_fit(one) && names::split(&one.path) == split;
    let ranked = |one: &'s Seen| Some(((group_of(&one.path) != group_of(&images.path), place(&one.path)?), one));
    let mut found: Vec<_> = seen.iter().filter(goes_with).filter_map(ranked).collect();
    found.sort_by_key(|(rank, _)| *rank);
    match &*found {
        [(first, one), (second, two), ..] if first == second => {
            let what = format!("{} and {} both go with images {}", one.describe(), two.describe(), images.describe());
            Err(Error::usage(what).help("choose one with --label-feature PATH"))
        }
        found => Ok(found.first().map(|(_, one)| *one)),
    }
}

/// Fails if a dataset is named like the labels of `images` and does not fit them, unless the dataset `found` fits and has a
/// name at least as clear.
fn check_labels(images: &Seen, seen: &[Seen], found: Option<&Seen>) -> Result<()> {
    let split = names::split(&images.path);
    let place = |one: &Seen| (group_of(&one.path) != group_of(&images.path), label_rank(&one.path));
    let rows = images.rows().unwrap_or(0);
    let is_unfit = |one: &&Seen| {
        one.path != images.path
            && one.is_called_label()
            && !one.is_label(rows)
            && !(one.rows() == Some(rows) && one.is_list())
            && (split.is_none() || names::split(&one.path) == split)
            && found.is_none_or(|found| place(one) < place(found))
    };
    let Some(unfit) = seen.iter().filter(is_unfit).min_by_key(|one| place(one)) else { return Ok(()) };
    let what = format!("labels {} do not go with images {}", unfit.describe(), images.describe());
    Err(Error::usage(what).help(match found {
        Some(found) => format!("--label-feature {} takes that one; --no-labels packs without labels", found.path),
        None => labels::OTHER_LABELS.to_owned(),
    }))
}

/// The dataset of the axes of each of `images`.
fn shapes<'s>(images: &Seen, rows: u64, seen: &'s [Seen]) -> Option<&'s Seen> {
    let is_fit =
        |one: &Seen| matches!(one.kind, Kind::Byte | Kind::Whole) && matches!(one.shape[..], [of, 2 | 3] if of == rows);
    beside(images, seen, |path| rank(path, &SHAPES), is_fit).ok().flatten()
}
