//! Which datasets of a file hold images, and which their labels: by shape, type and name, or as a person says.
//!
//! Holds at all times: several that could be meant are named and not guessed from; what goes with images has as many rows
//! as they have; what a name says is the image or the label, and cannot be it, is a question and not passed over.

use std::{collections::BTreeSet, ops::Range};

use hdf5_reader::Hdf5File;
use shardpack_format::{
    Error, ErrorKind, Result,
    formats::foreign::Wanted,
    help,
    image_header::{self, SNIFF_BYTES},
};

use super::{
    components::Component,
    description::Seen,
    names::{self, CLASSES, FILENAMES, IMAGES, LABELS, Members, SHAPES, group_of, rank},
    open,
    rows::Rows,
    sample_groups::{self, Samples},
    value_rows,
    values::{self, Kind},
};

/// Datasets of a group that are looked at; one with more has a dataset for each image.
pub(super) const MOST_TABLES: usize = 64;
/// Groups whose datasets are looked at.
const MOST_GROUPS: usize = 64;
/// Rows that are looked at for the first image that is not empty.
const LOOKS: u64 = 16;
/// Most classes whose names are told.
const MOST_CLASSES: u64 = 1 << 16;
/// Datasets that a message names.
const TOLD: usize = 12;

/// How images are kept.
#[derive(Debug)]
pub(super) enum Layout {
    /// As rows of datasets.
    Rows(Vec<Table>),
    /// A dataset each, in groups that may be classes.
    ImageDatasets(Vec<Members>),
    /// Samples that are no images, a group each.
    SampleGroups(Samples),
}

/// A dataset of images, and what goes with it, by path.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub images: String,
    /// Datasets whose rows are samples that are no images, with their names as components; then `images` is the first.
    pub values: Vec<(String, String)>,
    pub labels: Option<String>,
    /// The same dataset, also where samples are to have no labels.
    of_labels: Option<String>,
    pub filenames: Option<String>,
    /// The axes of each image, where rows are pixels of any number.
    pub shapes: Option<String>,
    /// Datasets whose rows go with the images.
    pub beside: Vec<Component>,
    /// Datasets of the file that nothing is made of.
    pub unused: Vec<String>,
    pub rows: Range<u64>,
    /// Rows that no split names, where these are the first of those that are named.
    pub strays: Vec<Range<u64>>,
    pub split: Option<String>,
    /// What was understood, for a person.
    pub note: String,
}

impl Table {
    /// One of samples that are no images, whose rows are those of `values`: paths and names, of which `all` are told.
    pub fn of_values(
        values: Vec<(String, String)>,
        label: Option<&Seen>,
        rows: u64,
        split: Option<String>,
        all: &[&Seen],
    ) -> Self {
        let told: Vec<_> = all.iter().take(TOLD).map(|one| one.told()).collect();
        let mut note = format!("values {}", told.join(", "));
        if let Some(label) = label {
            note += &format!("; labels {}", label.told());
        }
        Self {
            images: values.first().map(|(path, _)| path.clone()).unwrap_or_default(),
            labels: label.map(|one| one.path.clone()),
            of_labels: None,
            filenames: None,
            shapes: None,
            beside: Vec::new(),
            unused: Vec::new(),
            rows: 0..rows,
            strays: Vec::new(),
            values,
            split,
            note,
        }
    }

    /// Whether something is made of the dataset at `path`.
    fn uses(&self, path: &str) -> bool {
        let own = [&self.labels, &self.of_labels, &self.filenames, &self.shapes];
        self.images == path
            || self.values.iter().any(|(value, _)| value == path)
            || own.into_iter().flatten().any(|used| used == path)
            || self.beside.iter().any(|one| one.is_at(path))
    }
}

/// How the images of `file` are kept.
///
/// # Errors
/// When it has none, several that could be meant, or not what is wanted.
pub(super) fn layout(file: &Hdf5File, wanted: &Wanted) -> Result<Layout> {
    let (groups, empty): (Vec<_>, Vec<_>) = names::list(file)?.into_iter().partition(|one| !one.datasets.is_empty());
    let seen = look(file, &groups)?;
    let trimmed = |path: &String| path.trim_matches('/').to_owned();
    let images = match wanted.image.as_ref().map(trimmed) {
        Some(path) => {
            let within: Vec<_> = groups.iter().filter(|one| is_in(&one.group, &path)).cloned().collect();
            if !within.is_empty() {
                check_no_table(&seen, &path, wanted)?;
                return Ok(Layout::ImageDatasets(within));
            }
            vec![named(file, &seen, &path).and_then(|found| match found.is_encoded() || is_wanted_pixels(&found) {
                true => Ok(found),
                false => Err(Error::usage(format!("dataset {} holds no images", found.told()))),
            })?]
        }
        None => candidates(file, &seen)?,
    };
    if images.is_empty() {
        let samples = if wanted.image.is_none() { sample_groups::of(&groups, empty, &seen) } else { None };
        if let Some(samples) = samples
            && (seen.iter().any(Seen::is_number) || each(file, groups.clone(), &seen).is_err())
        {
            return Ok(Layout::SampleGroups(samples));
        }
        let values = if wanted.image.is_none() { value_rows::tables(&seen) } else { Ok(Vec::new()) };
        // Labels of a byte each are no image.
        if let (Ok(tables), Some(first)) = (&values, seen.first())
            && first.is_called_label()
            && tables.iter().any(|table| table.values.len() > 1)
            && seen.iter().any(Seen::is_number)
        {
            return rows(values?, &seen);
        }
        return match (each(file, groups, &seen), values) {
            (Err(error), Ok(tables)) if error.kind() == ErrorKind::Data && !tables.is_empty() => rows(tables, &seen),
            (Err(error), Err(several)) if error.kind() == ErrorKind::Data => Err(several),
            (layout, _) => layout,
        };
    }
    let label = wanted.label.as_ref().map(trimmed).map(|path| named(file, &seen, &path)).transpose()?;
    if let (Some(label), [_, _, ..]) = (&label, &*images) {
        let what = format!("labels {} for {} datasets of images: {}", label.path, images.len(), told(&images));
        return Err(Error::usage(what).help("--image-feature PATH names one of them"));
    }
    let table = |images| table(file, images, &seen, label.as_ref(), wanted);
    let tables: Result<Vec<_>> = images.iter().map(table).collect();
    rows(tables?, &seen)
}

/// Tables as a layout, with what nothing is made of.
fn rows(mut tables: Vec<Table>, seen: &[Seen]) -> Result<Layout> {
    let is_used = |path: &str| tables.iter().any(|table| table.uses(path));
    let is_of_classes = |one: &Seen| one.kind == Kind::Text && names::is_called(&one.path, &CLASSES);
    let unused = seen.iter().filter(|one| !is_used(&one.path) && !is_of_classes(one));
    let unused: Vec<_> = unused.map(|one| one.path.clone()).collect();
    tables.iter_mut().for_each(|table| table.unused.clone_from(&unused));
    if let [table] = &mut *tables {
        table.split = None;
    }
    Ok(Layout::Rows(tables))
}

/// Names of the classes in the order of labels, where a dataset beside the labels has them.
///
/// # Errors
/// When the file is damaged.
pub(super) fn classes(file: &Hdf5File, layout: &Layout) -> Result<Vec<Vec<u8>>> {
    let Layout::Rows(tables) = layout else { return Ok(Vec::new()) };
    let seen = look(file, &names::list(file)?)?;
    let is_used = |path: &String| {
        tables.iter().any(|table| [&table.labels, &table.filenames].into_iter().flatten().any(|used| used == path))
    };
    let is_names = |one: &&Seen| {
        one.kind == Kind::Text
            && one.shape.len() == 1
            && one.rows().is_some_and(|rows| rows <= MOST_CLASSES)
            && !is_used(&one.path)
    };
    let named = seen.iter().filter(is_names).filter_map(|one| Some((rank(&one.path, &CLASSES)?, one)));
    let Some((_, found)) = named.min_by_key(|(rank, _)| *rank) else { return Ok(Vec::new()) };
    let mut rows = Rows::open(file, &found.path)?;
    let item = |number| -> Result<Vec<u8>> {
        let row = rows.row(number)?.map(<[u8]>::to_vec).map_err(Error::data)?;
        values::text(rows.dataset(), &row)
            .map_err(|what| Error::data(format!("dataset {}, row {number}: {what}", found.path)))
    };
    (0..found.rows().unwrap_or(0)).map(item).collect()
}

/// The datasets of all groups that have a few.
fn look(file: &Hdf5File, groups: &[Members]) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    for one in groups.iter().filter(|one| one.datasets.len() <= MOST_TABLES).take(MOST_GROUPS) {
        for name in &one.datasets {
            let path = one.path(name);
            let dataset =
                file.dataset(&path).map_err(|error| open::told(error).in_sample(format!("dataset {path}")))?;
            seen.push(Seen::of(path, &dataset));
        }
    }
    Ok(seen)
}

/// The dataset that a person has named.
fn named(file: &Hdf5File, seen: &[Seen], path: &str) -> Result<Seen> {
    if let Some(found) = seen.iter().find(|one| one.path == path) {
        return Ok(found.clone());
    }
    match file.dataset(path) {
        Ok(dataset) => Ok(Seen::of(path.to_owned(), &dataset)),
        Err(error) => match open::cause(error) {
            hdf5_reader::error::Error::DatasetNotFound(_) | hdf5_reader::error::Error::GroupNotFound(_) => {
                Err(Error::usage(format!("no dataset {path}: it has {}", told(seen))))
            }
            error => Err(open::told(error)),
        },
    }
}

fn is_wanted_pixels(one: &Seen) -> bool {
    one.kind == Kind::Byte && matches!(one.shape.len(), 3 | 4)
}

/// What to do where nothing tells images and labels.
const NAME_BOTH: &str = "--image-feature PATH and --label-feature PATH say which are meant";

/// Datasets whose rows are images: one, or one for each split.
fn candidates(file: &Hdf5File, seen: &[Seen]) -> Result<Vec<Seen>> {
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
            let what = format!("several datasets that may hold the images: it has {}", told(seen));
            return Err(Error::usage(what).help(NAME_BOTH));
        }
        found = likeliest;
    }
    // Images by name and shape, of a type that is none.
    let odd = seen.iter().filter_map(|one| Some((one.odd_images()?, one))).min_by_key(|(rank, _)| *rank);
    let best = found.iter().filter_map(|one| rank(&one.path, &IMAGES)).min().unwrap_or(usize::MAX);
    match (odd, &*found) {
        (Some((rank, odd)), [first, ..]) if rank < best => {
            let why = if odd.shape.len() == 1 { "bytes that begin like no image" } else { "pixels that are not uint8" };
            let what = format!("images {}: {why}, which are not packed; {} could be", odd.told(), first.told());
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
fn begins_like_image(file: &Hdf5File, one: &Seen) -> Result<bool> {
    let mut rows = Rows::open(file, &one.path)?;
    for number in 0..one.rows().unwrap_or(0).min(LOOKS) {
        let Ok(row) = rows.row(number)?.map(<[u8]>::to_vec) else { continue };
        let bytes = match values::is_reference(rows.dataset().dtype()) {
            true => values::referred(rows.dataset(), &row).unwrap_or_default(),
            false => row,
        };
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(is_image(&bytes));
        }
    }
    Ok(false)
}

/// Whether bytes begin like an image.
pub(super) fn is_image(bytes: &[u8]) -> bool {
    image_header::Kind::of(&bytes[..bytes.len().min(SNIFF_BYTES)]) != image_header::Kind::Unknown
}

/// The images, and what goes with them.
fn table(file: &Hdf5File, images: &Seen, seen: &[Seen], label: Option<&Seen>, wanted: &Wanted) -> Result<Table> {
    let rows = images.rows().unwrap_or(0);
    // No more than one image a byte can be stored, however they are compressed.
    if rows > file.storage().len() {
        return Err(Error::data(format!(
            "images {}: more than its {} bytes can hold",
            images.told(),
            file.storage().len()
        )));
    }
    let labels = match label {
        Some(label) if !label.is_label(rows) => {
            let what = format!("labels {} do not go with images {}", label.told(), images.told());
            return Err(Error::usage(what));
        }
        Some(label) => Some(label),
        None if wanted.no_labels => None,
        None => {
            let found = beside(images, seen, &LABELS, |one| one.is_label(rows))?;
            check_labels(images, seen, found)?;
            found
        }
    };
    // Whether labels are wanted or not: what goes along is the same.
    let of_labels = match label {
        Some(label) => Some(label),
        None => beside(images, seen, &LABELS, |one| one.is_label(rows)).ok().flatten(),
    };
    let filenames = beside(images, seen, &FILENAMES, |one| {
        one.kind == Kind::Text && one.shape == [rows] && of_labels.is_none_or(|labels| labels.path != one.path)
    });
    let filenames = filenames.ok().flatten();
    let shapes = (images.kind == Kind::Bytes).then(|| shapes(images, rows, seen)).flatten();
    let used: Vec<&str> = [of_labels, filenames, shapes].into_iter().flatten().map(|one| one.path.as_str()).collect();
    let split = names::split(&images.path);
    let mut note = format!("images {}", images.told());
    match labels {
        Some(labels) => note += &format!("; labels {}", labels.told()),
        None => note += &format!("; no labels of {rows} rows"),
    }
    let path = |one: &Seen| one.path.clone();
    Ok(Table {
        images: images.path.clone(),
        values: Vec::new(),
        labels: labels.map(path),
        // Two that may be meant are none: samples have numbers, too.
        filenames: filenames.map(path),
        shapes: shapes.map(path),
        beside: super::components::of(images, seen, &used),
        unused: Vec::new(),
        of_labels: of_labels.map(path),
        rows: 0..rows,
        strays: Vec::new(),
        split,
        note,
    })
}

/// The dataset that goes with `images`, if one is called like one of `names` and is what it has to be.
fn beside<'s>(
    images: &Seen,
    seen: &'s [Seen],
    names: &[&str],
    is_fit: impl Fn(&Seen) -> bool,
) -> Result<Option<&'s Seen>> {
    let split = names::split(&images.path);
    let goes_with = |one: &&Seen| one.path != images.path && is_fit(one) && names::split(&one.path) == split;
    let ranked = |one: &'s Seen| Some(((group_of(&one.path) != group_of(&images.path), rank(&one.path, names)?), one));
    let mut found: Vec<_> = seen.iter().filter(goes_with).filter_map(ranked).collect();
    found.sort_by_key(|(rank, _)| *rank);
    match &*found {
        [(first, one), (second, two), ..] if first == second => {
            let what = format!("{} and {} both go with images {}", one.told(), two.told(), images.told());
            Err(Error::usage(what).help("--label-feature PATH says which is meant"))
        }
        found => Ok(found.first().map(|(_, one)| *one)),
    }
}

/// Fails where the name of a dataset says that it is the labels of `images`, and it does not go with them; unless one that
/// does, `found`, is called so at least as clearly.
fn check_labels(images: &Seen, seen: &[Seen], found: Option<&Seen>) -> Result<()> {
    let split = names::split(&images.path);
    let place = |one: &Seen| (group_of(&one.path) != group_of(&images.path), rank(&one.path, &LABELS));
    let rows = images.rows().unwrap_or(0);
    let is_unfit = |one: &&Seen| {
        one.path != images.path
            && one.is_called_label()
            && !one.is_label(rows)
            && (split.is_none() || names::split(&one.path) == split)
            && found.is_none_or(|found| place(one) < place(found))
    };
    let Some(unfit) = seen.iter().filter(is_unfit).min_by_key(|one| place(one)) else { return Ok(()) };
    let what = format!("labels {} do not go with images {}", unfit.told(), images.told());
    Err(Error::usage(what).help(match found {
        Some(found) => format!("--label-feature {} takes that one; --no-labels packs without labels", found.path),
        None => "--no-labels packs without labels; --label-feature PATH names another dataset".to_owned(),
    }))
}

/// Fails where the images below `path` have a dataset each and there is one beside whose name says that it is the labels of
/// all of them.
fn check_no_table(seen: &[Seen], path: &str, wanted: &Wanted) -> Result<()> {
    if wanted.no_labels || !wanted.entries.is_unsaid() {
        return Ok(());
    }
    let is_labels = |one: &&Seen| one.shape.len() == 1 && one.is_called_label() && !is_in(group_of(&one.path), path);
    let Some(labels) = seen.iter().find(is_labels) else { return Ok(()) };
    let what = format!("labels {}: images have a dataset each, and rows do not say which is whose", labels.told());
    Err(Error::usage(what).help("--no-labels packs without labels; --label-from FILE has them by the images' names"))
}

/// The dataset of the axes of each of `images`.
fn shapes<'s>(images: &Seen, rows: u64, seen: &'s [Seen]) -> Option<&'s Seen> {
    let is_fit =
        |one: &Seen| matches!(one.kind, Kind::Byte | Kind::Whole) && matches!(one.shape[..], [of, 2 | 3] if of == rows);
    beside(images, seen, &SHAPES, is_fit).ok().flatten()
}

/// A file whose images have a dataset each.
fn each(file: &Hdf5File, groups: Vec<Members>, seen: &[Seen]) -> Result<Layout> {
    let first = groups.first().and_then(|one| Some(one.path(one.datasets.first()?)));
    let Some(path) = first else { return Err(Error::data("no datasets in it")) };
    let dataset = file.dataset(&path).map_err(open::told)?;
    let is_one = match Kind::of(dataset.dtype()) {
        Kind::Byte => (1..=3).contains(&dataset.ndim()),
        Kind::Bytes | Kind::Opaque | Kind::Text => dataset.num_elements().is_ok_and(|items| items == 1),
        _ => false,
    };
    let bytes = dataset.num_elements().unwrap_or(0);
    // A file of numbers and no images.
    if !is_one || dataset.ndim() == 1 && Kind::of(dataset.dtype()) == Kind::Byte && bytes < SNIFF_BYTES as u64 {
        let what = match seen.is_empty() {
            true => format!("no dataset that holds images, the first is {}", Seen::of(path, &dataset).told()),
            false => format!("no dataset that holds images: it has {}", told(seen)),
        };
        return Err(Error::data(what).help(NAME_BOTH));
    }
    Ok(Layout::ImageDatasets(groups))
}

/// Whether a group is `path` or in it.
fn is_in(group: &str, path: &str) -> bool {
    path.is_empty() || group.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn told(seen: &[Seen]) -> String {
    let all: Vec<_> = seen.iter().take(TOLD).map(Seen::told).collect();
    match seen.len() {
        0 => "none that could be looked at".to_owned(),
        count if count > TOLD => format!("{} and {} more", all.join(", "), count - TOLD),
        _ => all.join(", "),
    }
}
