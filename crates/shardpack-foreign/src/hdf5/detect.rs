//! Detects how a file stores its samples, from its datasets and groups or as the user chose.
//!
//! A file that has neither rows, nor images of one dataset each, nor groups of values is refused; the error lists its
//! content.

use hdf5_reader::Hdf5File;
use shardpack_format::{Error, ErrorKind, Result, formats::foreign::FieldSelection, image_header::SNIFF_BYTES};

use super::{
    attributes,
    description::{MAX_TABLES, Seen, describe_all, look},
    image_datasets,
    layout::{Layout, Samples, Table},
    names::{self, CLASSES, IMAGES, Members, group_of, label_rank, own_words, rank},
    open,
    rows::Rows,
    sample_groups,
    tables::{self, NAME_BOTH},
    value_rows,
    values::{self, Kind},
};

/// Maximum number of classes whose names are read.
const MAX_CLASSES: u64 = 1 << 16;
/// With fewer groups, each of which may be a table, the groups are not samples.
const FEW_TABLES: usize = 16;

/// Detects how `file` stores its images.
///
/// # Errors
/// If the file has no images, has several candidates, or lacks a wanted dataset.
pub(super) fn layout(file: &Hdf5File, wanted: &FieldSelection) -> Result<Layout> {
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
            if let Some(samples) = sample_groups(&groups, empty.clone(), &seen)
                && samples.groups.iter().any(|one| one.datasets.contains(&path))
            {
                return Ok(Layout::SampleGroups(Samples { image: Some(path), ..samples }));
            }
            let found = named(file, &seen, &path)?;
            let is_encoded = found.is_encoded() && (!found.is_padded() || tables::begins_like_image(file, &found)?);
            if !is_encoded && !is_wanted_pixels(&found) {
                return Err(Error::usage(format!("dataset {} holds no images", found.describe())));
            }
            vec![found]
        }
        None if let Some(samples) = image_samples(file, &groups, &empty, &seen)? => {
            return Ok(Layout::SampleGroups(samples));
        }
        None => tables::candidates(file, &seen)?,
    };
    if images.is_empty() {
        let samples = if wanted.image.is_none() { sample_groups(&groups, empty, &seen) } else { None };
        if let Some(samples) = samples
            && (seen.iter().any(Seen::is_number) || each(file, groups.clone(), &seen).is_err())
        {
            return Ok(Layout::SampleGroups(samples));
        }
        let values = if wanted.image.is_none() { value_rows::tables(&seen) } else { Ok(Vec::new()) };
        // Bytes beside as many labels, numbers or texts are rows of values, as other numbers are.
        if values.as_ref().is_ok_and(|tables| tables.iter().any(|table| has_companion(table, &seen))) {
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
        let what = format!("labels {} for {} datasets of images: {}", label.path, images.len(), describe_all(&images));
        return Err(Error::usage(what).help("choose one with --image-feature PATH"));
    }
    let table = |images| tables::table(file, images, &seen, label.as_ref(), wanted);
    let tables: Result<Vec<_>> = images.iter().map(table).collect();
    rows(tables?, &seen)
}

/// Whether a table of values has several datasets, one of them unable to be an image by itself.
fn has_companion(table: &Table, seen: &[Seen]) -> bool {
    let is_of_table = |one: &&Seen| table.values.iter().any(|(path, _)| *path == one.path);
    let is_no_image = |one: &Seen| {
        one.is_number() || one.kind == Kind::Text || one.shape.len() <= 2 && label_rank(&one.path).is_some()
    };
    table.rows.end > 1 && table.values.len() > 1 && seen.iter().filter(is_of_table).any(is_no_image)
}

/// The groups that are a sample each: an image and its components.
///
/// # Errors
/// If several of their datasets may be the image.
fn image_samples(file: &Hdf5File, groups: &[Members], empty: &[Members], seen: &[Seen]) -> Result<Option<Samples>> {
    let Some(samples) = sample_groups(groups, empty.to_vec(), seen) else { return Ok(None) };
    let Some(first) = samples.groups.iter().find(|one| one.datasets.len() > 1) else { return Ok(None) };
    let mut found = Vec::new();
    for name in &first.datasets {
        let dataset = file.dataset(&first.path(name)).map_err(open::to_error)?;
        let is_encoded = image_datasets::is_encoded(&dataset);
        let is_pixels = Seen::new(name.clone(), &dataset).is_one_image();
        if is_encoded || is_pixels {
            found.push((!is_encoded, rank(name, &IMAGES).unwrap_or(usize::MAX), name));
        }
    }
    found.sort();
    match &found[..] {
        // Groups of images may be classes.
        found if found.len() == first.datasets.len() => Ok(None),
        [] => Ok(None),
        [(.., one)] => Ok(Some(Samples { image: Some((*one).clone()), ..samples })),
        [(first, rank, one), (second, other, two), ..] => match (first, rank) == (second, other) {
            false => Ok(Some(Samples { image: Some((*one).clone()), ..samples })),
            true => {
                let what = format!("datasets {one} and {two} of each group both hold an image");
                Err(Error::usage(what).help(NAME_BOTH))
            }
        },
    }
}

/// A layout from tables, with the unused datasets.
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

/// The groups among `groups` that are samples: of one depth, with datasets of the same names. `None` if they are tables (see
/// [`Seen::rows`]), splits or classes. Groups in `empty` of the same depth are samples without any field.
fn sample_groups(groups: &[Members], empty: Vec<Members>, seen: &[Seen]) -> Option<Samples> {
    let (samples, others): (Vec<&Members>, Vec<_>) = groups.iter().partition(|one| !one.group.is_empty());
    let (first, _) = (samples.first()?, samples.get(1)?);
    let depth = |one: &Members| one.group.split('/').count();
    let last = |one: &Members| one.group.rsplit('/').next().unwrap_or_default().to_owned();
    let is_alike = |one: &&Members| {
        depth(one) == depth(first) && one.datasets == first.datasets && !own_words(&last(one)).is_empty()
    };
    let are_fields = first.datasets.iter().any(|name| name.chars().any(char::is_alphabetic));
    if first.datasets.len() > MAX_TABLES || !are_fields || !samples.iter().all(is_alike) {
        return None;
    }
    // A group may be a table of as many rows as each of its datasets has. A few such are tables, of folds or persons; and so are those
    // that have as many rows in all, unless their groups are numbered.
    let own: Vec<&Seen> = seen.iter().filter(|one| one.path.contains('/')).collect();
    let rows_of = |group: &str| own.iter().find(|one| group_of(&one.path) == group).and_then(|one| one.rows());
    let are_tables = own.iter().all(|one| one.rows().is_some() && one.rows() == rows_of(group_of(&one.path)));
    let bare = |one: &Members| last(one).replace(|c: char| c.is_ascii_digit(), "");
    let are_numbered = samples.iter().all(|one| bare(one) == bare(first) && bare(one) != last(one));
    let are_of_one_length = own.iter().all(|one| one.rows() == own[0].rows());
    let are_rows = are_tables && (samples.len() < FEW_TABLES || are_of_one_length && !are_numbered);
    if are_rows || !own.iter().any(|one| one.is_plain) {
        return None;
    }
    let lacking = empty.into_iter().filter(|one| depth(one) == depth(first));
    let mut all: Vec<Members> = samples.into_iter().cloned().chain(lacking).collect();
    all.sort_by(|a, b| a.group.split('/').cmp(b.group.split('/')));
    Some(Samples {
        groups: all,
        image: None,
        unused: others.into_iter().flat_map(|one| one.datasets.clone()).collect(),
    })
}

/// Class names in the order of labels, if the type of the labels or a dataset beside them has names.
///
/// # Errors
/// If the file is corrupt.
pub(super) fn classes(file: &Hdf5File, layout: &Layout, wanted: &FieldSelection) -> Result<Vec<Vec<u8>>> {
    let told = |path: &str| -> Result<Option<Vec<Vec<u8>>>> {
        Ok(values::class_names(file.dataset(path).map_err(open::to_error)?.dtype()))
    };
    let tables = match layout {
        Layout::Rows(tables) => tables,
        Layout::SampleGroups(samples) => {
            let path = sample_groups::label_path(file, samples, wanted)?;
            return Ok(path.map(|path| told(&path)).transpose()?.flatten().unwrap_or_default());
        }
        Layout::ImageDatasets(_) => return Ok(Vec::new()),
    };
    // Labels that became components are no classes, so names are dropped. Names without any labels stay, and each row lacks a label.
    let has_no_class = |table: &Table| {
        table.labels.is_none() && table.beside.iter().any(|component| label_rank(component.path()).is_some())
    };
    if tables.iter().any(has_no_class) && tables.iter().all(|table| table.labels.is_none()) {
        return Ok(Vec::new());
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
        return Ok(names);
    }
    let seen = look(file, &names::list(file)?)?;
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
        return if of_labels.is_empty() { Ok(Vec::new()) } else { attributes::classes_of_root(file) };
    };
    let mut rows = Rows::open(file, &found.path)?;
    let item = |number| -> Result<Vec<u8>> {
        let row = rows.row(number)?.map(<[u8]>::to_vec).map_err(Error::data)?;
        values::text(rows.dataset(), &row)
            .map_err(|what| Error::data(format!("dataset {}, row {number}: {what}", found.path)))
    };
    (0..found.rows().unwrap_or(0)).map(item).collect()
}

/// The dataset that the user named.
fn named(file: &Hdf5File, seen: &[Seen], path: &str) -> Result<Seen> {
    if let Some(found) = seen.iter().find(|one| one.path == path) {
        return Ok(found.clone());
    }
    match file.dataset(path) {
        Ok(dataset) => Ok(Seen::new(path.to_owned(), &dataset)),
        Err(error) => match open::cause(error) {
            hdf5_reader::error::Error::DatasetNotFound(_) | hdf5_reader::error::Error::GroupNotFound(_) => {
                Err(Error::usage(format!("no dataset {path}: it has {}", describe_all(seen))))
            }
            error => Err(open::to_error(error)),
        },
    }
}

fn is_wanted_pixels(one: &Seen) -> bool {
    one.kind == Kind::Byte && matches!(one.shape.len(), 3 | 4)
}

/// Fails if the images below `path` have a dataset each and a dataset beside them is named like the labels of all.
fn check_no_table(seen: &[Seen], path: &str, wanted: &FieldSelection) -> Result<()> {
    if wanted.no_labels || !wanted.entries.is_unsaid() {
        return Ok(());
    }
    let is_labels = |one: &&Seen| one.shape.len() == 1 && one.is_called_label() && !is_in(group_of(&one.path), path);
    let Some(labels) = seen.iter().find(is_labels) else { return Ok(()) };
    let what = format!("labels {}: each image is a dataset, so no row belongs to an image", labels.describe());
    Err(Error::usage(what).help("--no-labels packs without labels; --label-from FILE reads labels by image name"))
}

/// A file whose images have a dataset each.
fn each(file: &Hdf5File, groups: Vec<Members>, seen: &[Seen]) -> Result<Layout> {
    let first = groups.first().and_then(|one| Some(one.path(one.datasets.first()?)));
    let Some(path) = first else { return Err(Error::data("no datasets in it")) };
    let dataset = file.dataset(&path).map_err(open::to_error)?;
    let is_one = match Kind::from_type(dataset.dtype()) {
        Kind::Byte => (1..=3).contains(&dataset.ndim()),
        Kind::Bytes | Kind::Opaque | Kind::Text => dataset.num_elements().is_ok_and(|items| items == 1),
        _ => false,
    };
    let bytes = dataset.num_elements().unwrap_or(0);
    // A file of numbers and no images.
    if !is_one || dataset.ndim() == 1 && Kind::from_type(dataset.dtype()) == Kind::Byte && bytes < SNIFF_BYTES as u64 {
        let what = match seen.is_empty() {
            true => format!("no dataset that holds images, the first is {}", Seen::new(path, &dataset).describe()),
            false => format!("no dataset that holds images: it has {}", describe_all(seen)),
        };
        return Err(Error::data(what).help(NAME_BOTH));
    }
    Ok(Layout::ImageDatasets(groups))
}

/// Whether a group is `path` or in it.
fn is_in(group: &str, path: &str) -> bool {
    path.is_empty() || group.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
