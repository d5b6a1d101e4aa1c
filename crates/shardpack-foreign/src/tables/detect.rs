//! Detects the tables of a file from its arrays.

use shardpack_format::{Error, Result, formats::foreign::FieldSelection};

use super::{
    Arrays, BATCH_BYTES, choice,
    names::{self, CLASSES, label_rank, rank},
    seen::{Seen, describe_all},
    table::Table,
    values::{self, Kind},
};

/// Maximum number of classes whose names are read.
const MAX_CLASSES: u64 = 1 << 16;

/// The tables of `images`, one for each; `label` is the array of labels that the user named.
///
/// # Errors
/// If the labels do not go with the images, or there are several candidates.
pub(crate) fn of_images(
    file: &dyn Arrays,
    images: &[Seen],
    seen: &[Seen],
    label: Option<&Seen>,
    wanted: &FieldSelection,
) -> Result<Vec<Table>> {
    if let (Some(label), [_, _, ..]) = (label, images) {
        let nouns = file.noun();
        let what = format!("labels {} for {} {nouns}s of images: {}", label.path, images.len(), describe_all(images));
        return Err(Error::usage(what).help("choose one with --image-feature PATH"));
    }
    images.iter().map(|images| choice::table(file, images, seen, label, wanted)).collect()
}

/// The tables, and the arrays that no table uses. A table alone is of no split.
pub(crate) fn with_unused(mut tables: Vec<Table>, seen: &[Seen]) -> Vec<Table> {
    let is_used = |path: &str| tables.iter().any(|table| table.uses(path));
    let is_of_classes = |one: &Seen| one.kind == Kind::Text && names::is_called(&one.path, &CLASSES);
    let unused = seen.iter().filter(|one| !is_used(&one.path) && !is_of_classes(one));
    let unused: Vec<_> = unused.map(|one| one.path.clone()).collect();
    tables.iter_mut().for_each(|table| table.unused.clone_from(&unused));
    if let [table] = &mut *tables {
        table.split = None;
    }
    tables
}

/// Whether a table of values has several arrays, and at least one array can be no image by itself.
pub(crate) fn has_companion(table: &Table, seen: &[Seen]) -> bool {
    let is_of_table = |one: &&Seen| table.values.iter().any(|(path, _)| *path == one.path);
    let is_no_image = |one: &Seen| {
        one.is_number() || one.kind == Kind::Text || one.shape.len() <= 2 && label_rank(&one.path).is_some()
    };
    table.rows.end > 1 && table.values.len() > 1 && seen.iter().filter(is_of_table).any(is_no_image)
}

/// Class names in the order of labels, if the type of the labels or an array beside them has names; `None` if there are labels
/// without names. `seen` lists the arrays.
///
/// # Errors
/// If the file is corrupt.
pub(crate) fn classes(
    file: &dyn Arrays,
    tables: &[Table],
    seen: impl FnOnce() -> Result<Vec<Seen>>,
) -> Result<Option<Vec<Vec<u8>>>> {
    let told = |path: &str| -> Result<Option<Vec<Vec<u8>>>> { Ok(values::class_names(&file.item(path)?)) };
    // Labels that became components are no classes, so names are dropped. Names without any labels stay, and each row lacks a label.
    let has_no_class = |table: &Table| {
        table.labels.is_none() && table.beside.iter().any(|component| label_rank(component.path()).is_some())
    };
    if tables.iter().any(has_no_class) && tables.iter().all(|table| table.labels.is_none()) {
        return Ok(Some(Vec::new()));
    }
    let of_labels: Vec<_> = tables.iter().filter_map(|table| table.labels.as_ref()).collect();
    if let Some((first, others)) = of_labels.split_first()
        && let Some(mut names) = told(first)?
    {
        for other in others {
            let own = told(other)?.unwrap_or_default();
            if own.len() > names.len() && own.starts_with(&names) {
                names = own;
            } else if own.is_empty() || !names.starts_with(&own) {
                let what = format!("labels {first} and {other} number their classes differently");
                return Err(Error::usage(what).help("--no-labels packs both splits without labels"));
            }
        }
        return Ok(Some(names));
    }
    let seen = seen()?;
    let is_used = |path: &String| {
        tables.iter().any(|table| [&table.labels, &table.filenames].into_iter().flatten().any(|used| used == path))
    };
    let is_names = |one: &&Seen| {
        one.kind == Kind::Text
            && one.shape.len() == 1
            && one.rows().is_some_and(|rows| rows <= MAX_CLASSES)
            && !is_used(&one.path)
    };
    let named = seen.iter().filter(is_names).filter_map(|one| Some((rank(&one.path, &CLASSES)?, one)));
    let Some((_, found)) = named.min_by_key(|(rank, _)| *rank) else {
        return Ok(of_labels.is_empty().then(Vec::new));
    };
    let mut rows = file.rows(&found.path, BATCH_BYTES)?;
    let item = |number| -> Result<Vec<u8>> {
        let row = rows.row(number)?.map(<[u8]>::to_vec).map_err(Error::data)?;
        values::text(rows.array(), &row)
            .map_err(|what| Error::data(format!("{} {}, row {number}: {what}", file.noun(), found.path)))
    };
    (0..found.rows().unwrap_or(0)).map(item).collect::<Result<_>>().map(Some)
}
