//! Detects how a file stores its samples, from its datasets and groups or as the user chose.
//!
//! A file that has neither rows, nor images of one dataset each, nor groups of values is refused; the error lists its
//! content.

use hdf5_reader::Hdf5File;
use shardpack_format::{Error, ErrorKind, Result, formats::foreign::FieldSelection, image_header::SNIFF_BYTES};

use super::{
    super::tables::{
        Array as _, Arrays as _,
        choice::{self, NAME_BOTH},
        detect,
        names::{IMAGES, group_of, label_rank, own_words, rank, split},
        seen::{Seen, describe_all},
        table::Table,
        value_rows,
        values::{self, Kind},
    },
    array::StoredArray,
    attributes, image_datasets, known,
    layout::{Layout, Samples},
    names::{self, Members},
    open, sample_groups,
};

/// Datasets of a group that are looked at; one with more has a dataset for each image.
const MAX_TABLES: usize = 64;
/// Groups whose datasets are looked at.
const MAX_GROUPS: usize = 64;
/// With fewer groups, each of which may be a table, the groups are not samples.
const FEW_TABLES: usize = 16;

/// Detects how `file` stores its images.
///
/// # Errors
/// If the file has no images, has several candidates, or lacks a wanted dataset.
pub(super) fn layout(file: &Hdf5File, wanted: &FieldSelection) -> Result<Layout> {
    if known::are_samples(&wanted.entries) {
        return file_sample(file, wanted).map(Layout::SampleGroups);
    }
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
            let is_encoded = found.is_encoded() && (!found.is_padded() || choice::begins_like_image(file, &found)?);
            if !is_encoded && !found.has_axes_of_pixels() {
                return Err(Error::usage(format!("dataset {} holds no images", found.describe())));
            }
            vec![found]
        }
        None if let Some(samples) = image_samples(file, &groups, &empty, &seen)? => {
            return Ok(Layout::SampleGroups(samples));
        }
        None => choice::candidates(file, &seen)?,
    };
    if images.is_empty() {
        let samples = if wanted.image.is_none() { sample_groups(&groups, empty, &seen) } else { None };
        if let Some(samples) = samples
            && (seen.iter().any(Seen::is_number) || each(file, groups.clone(), &seen).is_err())
        {
            return Ok(Layout::SampleGroups(samples));
        }
        let values = if wanted.image.is_none() { value_rows::tables(file, &seen, wanted) } else { Ok(Vec::new()) };
        // Bytes beside as many labels, numbers or texts are rows of values, as other numbers are.
        if values.as_ref().is_ok_and(|tables| tables.iter().any(|table| detect::has_companion(table, &seen))) {
            return values.map(|tables| rows(tables, &seen));
        }
        return match (each(file, groups, &seen), values) {
            (Err(error), Ok(tables)) if error.kind() == ErrorKind::Data && !tables.is_empty() => {
                Ok(rows(tables, &seen))
            }
            (Err(error), Err(several)) if error.kind() == ErrorKind::Data => Err(several),
            (layout, _) => layout,
        };
    }
    let label = wanted.label.as_ref().map(trimmed).map(|path| named(file, &seen, &path)).transpose()?;
    Ok(rows(detect::of_images(file, &images, &seen, label.as_ref(), wanted)?, &seen))
}

/// The file as one sample: a group of all its datasets.
///
/// # Errors
/// If it has no datasets, or lacks the wanted image.
fn file_sample(file: &Hdf5File, wanted: &FieldSelection) -> Result<Samples> {
    let groups = names::list(file)?;
    let datasets: Vec<String> = groups.iter().flat_map(|one| one.datasets.iter().map(|name| one.path(name))).collect();
    if datasets.is_empty() {
        return Err(Error::data("no datasets in it"));
    }
    let all = Members { group: String::new(), datasets };
    let image = match wanted.image.as_ref().map(|path| path.trim_matches('/').to_owned()) {
        Some(path) if all.datasets.contains(&path) => Some(path),
        Some(path) => return Err(Error::data(format!("no dataset {path}: it has {}", all.datasets.join(", ")))),
        None => match &*likely_images(file, &all)? {
            [] => None,
            [(.., one)] => Some(one.clone()),
            [(first, rank, one), (second, other, _), ..] => ((first, rank) != (second, other)).then(|| one.clone()),
        },
    };
    Ok(Samples { groups: vec![all], image, unused: Vec::new() })
}

/// The datasets of a sample that may be its image, the likeliest first: whether it is of pixels, the rank of its name, its name.
fn likely_images(file: &Hdf5File, one: &Members) -> Result<Vec<(bool, usize, String)>> {
    let mut found = Vec::new();
    for name in &one.datasets {
        let dataset = StoredArray::new(file.dataset(&one.path(name)).map_err(open::to_error)?);
        let is_encoded = image_datasets::is_encoded(&dataset);
        let is_pixels = Seen::new(name.clone(), &dataset).is_one_image();
        if is_encoded || is_pixels {
            found.push((!is_encoded, rank(name, &IMAGES).unwrap_or(usize::MAX), name.clone()));
        }
    }
    found.sort();
    Ok(found)
}

/// The groups that are a sample each: an image and its components.
///
/// # Errors
/// If several of their datasets may be the image.
fn image_samples(file: &Hdf5File, groups: &[Members], empty: &[Members], seen: &[Seen]) -> Result<Option<Samples>> {
    let Some(samples) = sample_groups(groups, empty.to_vec(), seen) else { return Ok(None) };
    let Some(first) = samples.groups.iter().find(|one| one.datasets.len() > 1) else { return Ok(None) };
    let found = likely_images(file, first)?;
    match &found[..] {
        // Groups of images may be classes.
        found if found.len() == first.datasets.len() => Ok(None),
        [] => Ok(None),
        [(.., one)] => Ok(Some(Samples { image: Some(one.clone()), ..samples })),
        [(first, rank, one), (second, other, two), ..] => match (first, rank) == (second, other) {
            false => Ok(Some(Samples { image: Some(one.clone()), ..samples })),
            true => {
                let what = format!("datasets {one} and {two} of each group both hold an image");
                Err(Error::usage(what).help(NAME_BOTH))
            }
        },
    }
}

/// A value of the whole file that its rows would leave out, for the user: a dataset or an attribute with a label name, or any single
/// item beside rows of values. Rows with labels, and rows of splits, are a table in any case.
///
/// # Errors
/// If the file is corrupt.
pub(super) fn value_of_file(
    file: &Hdf5File,
    layout: &Result<Layout>,
    seen: &[Seen],
    wanted: &FieldSelection,
) -> Result<Option<String>> {
    let tables = match layout {
        Ok(Layout::Rows(tables)) => &tables[..],
        Ok(_) => return Ok(None),
        Err(_) => &[],
    };
    let are_images = tables.iter().any(|table| table.values.is_empty());
    if tables.iter().any(|table| table.labels.is_some() || table.split.is_some()) || are_images && wanted.no_labels {
        return Ok(None);
    }
    let is_left_out = |one: &&Seen| one.is_one_item() && !tables.iter().any(|table| table.uses(&one.path));
    let is_label = |one: &&Seen| is_left_out(one) && label_rank(&one.path).is_some();
    if let Some(label) = seen.iter().find(is_label) {
        return Ok(Some(label.path.clone()));
    }
    let attributes = attributes::of_group(file, "").map_err(open::to_error)?;
    if let Some(label) = attributes::label(&attributes) {
        return Ok(Some(format!("attribute {}", label.name)));
    }
    let are_values = !tables.is_empty() && !are_images;
    Ok(seen.iter().filter(|_| are_values).find(is_left_out).map(|one| one.path.clone()))
}

/// A layout from tables, with the unused datasets.
fn rows(tables: Vec<Table>, seen: &[Seen]) -> Layout {
    Layout::Rows(detect::with_unused(tables, seen))
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
    let tables = match layout {
        Layout::Rows(tables) => tables,
        Layout::SampleGroups(samples) => {
            let path = sample_groups::label_path(file, samples, wanted)?;
            let own = path.map(|path| Ok::<_, Error>(values::class_names(&file.item(&path)?))).transpose()?;
            return Ok(own.flatten().unwrap_or_default());
        }
        Layout::ImageDatasets(_) => return Ok(Vec::new()),
    };
    match detect::classes(file, tables, || look(file, &names::list(file)?))? {
        Some(classes) => Ok(classes),
        None => attributes::classes_of_root(file),
    }
}

/// The dataset that the user named.
fn named(file: &Hdf5File, seen: &[Seen], path: &str) -> Result<Seen> {
    if let Some(found) = seen.iter().find(|one| one.path == path) {
        return Ok(found.clone());
    }
    match file.dataset(path) {
        Ok(dataset) => Ok(Seen::new(path.to_owned(), &StoredArray::new(dataset))),
        Err(error) => match open::cause(error) {
            hdf5_reader::error::Error::DatasetNotFound(_) | hdf5_reader::error::Error::GroupNotFound(_) => {
                Err(Error::usage(format!("no dataset {path}: it has {}", describe_all(seen))))
            }
            error => Err(open::to_error(error)),
        },
    }
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
    let dataset = StoredArray::new(file.dataset(&path).map_err(open::to_error)?);
    let (kind, axes) = (Kind::from_type(dataset.item()), dataset.shape().len());
    let bytes = dataset.dataset.num_elements().unwrap_or(0);
    let is_one = match kind {
        Kind::Byte => (1..=3).contains(&axes),
        Kind::Bytes | Kind::Opaque | Kind::Text => bytes == 1,
        _ => false,
    };
    // A file of numbers and no images.
    if !is_one || axes == 1 && kind == Kind::Byte && bytes < SNIFF_BYTES as u64 {
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

/// The datasets of all groups that have a few.
pub(super) fn look(file: &Hdf5File, groups: &[Members]) -> Result<Vec<Seen>> {
    let (mut seen, mut places): (Vec<Seen>, Vec<(u64, Option<String>)>) = Default::default();
    for one in groups.iter().filter(|one| one.datasets.len() <= MAX_TABLES).take(MAX_GROUPS) {
        for name in &one.datasets {
            let path = one.path(name);
            let dataset =
                file.dataset(&path).map_err(|error| open::to_error(error).in_sample(format!("dataset {path}")))?;
            // Links lead to the same dataset by other names.
            let place = (dataset.address(), split(&path));
            if !places.contains(&place) {
                places.push(place);
                seen.push(Seen::new(path, &StoredArray::new(dataset)));
            }
        }
    }
    Ok(seen)
}
