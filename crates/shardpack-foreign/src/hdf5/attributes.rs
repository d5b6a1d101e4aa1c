//! Reads attributes of groups and datasets that a user wrote, and their values.

use std::collections::{BTreeMap, BTreeSet};

use hdf5_reader::{Attribute, Dataset, Datatype, Hdf5File, group::Group};
use shardpack_format::{
    Result,
    component::Form,
    formats::foreign::{Label, Other},
};

use super::{
    super::tables::{
        components::number_text,
        item::Item,
        names::{CLASSES, is_called, label_rank},
        values::{self, Kind},
    },
    array::item,
    names::{Members, each_group},
    open,
};

/// Attributes that libraries write for themselves.
const OF_LIBRARIES: [&str; 22] = [
    "CLASS",
    "NAME",
    "TITLE",
    "VERSION",
    "FLAVOR",
    "PALETTE",
    "IMAGE_VERSION",
    "IMAGE_SUBCLASS",
    "IMAGE_COLORMODEL",
    "IMAGE_MINMAXRANGE",
    "IMAGE_WHITE_IS_ZERO",
    "INTERLACE_MODE",
    "DISPLAY_ORIGIN",
    "DIMENSION_LIST",
    "DIMENSION_LABELS",
    "REFERENCE_LIST",
    "_FillValue",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "MATLAB_class",
    "MATLAB_int_decode",
    "MATLAB_empty",
];

/// Content of a dataset or an attribute of a sample.
pub(super) enum FieldContent {
    /// Nothing.
    Absent,
    Is(Form, Vec<u8>),
    /// An unsupported type.
    Untold,
}

/// The user attributes of a dataset.
pub(super) fn own(dataset: &Dataset) -> Vec<Attribute> {
    let mut all = dataset.attributes();
    all.retain(|attribute| !OF_LIBRARIES.contains(&attribute.name.as_str()));
    all
}

/// Number of datasets at `paths` with each attribute, by its name among the left-out fields.
///
/// # Errors
/// If the file is corrupt.
pub(super) fn counted<'p>(file: &Hdf5File, paths: impl Iterator<Item = &'p str>) -> Result<BTreeMap<String, u64>> {
    let mut counted = BTreeMap::new();
    for path in paths {
        for attribute in own(&file.dataset(path).map_err(open::to_error)?) {
            counted.insert(left_out(&attribute.name, path), 1);
        }
    }
    Ok(counted)
}

/// Attributes of the root group, by their names among the left-out fields. `split`, and with `has_labels` the list of class names, are
/// in use and not included.
///
/// # Errors
/// If the file is corrupt.
pub(super) fn of_root(file: &Hdf5File, has_labels: bool) -> Result<BTreeMap<String, u64>> {
    let all = file.root_group().and_then(|root| root.attributes()).map_err(open::to_error)?;
    let is_used = |one: &Attribute| one.name == "split" || has_labels && class_names(one).is_some();
    let own = all.iter().filter(|one| !OF_LIBRARIES.contains(&one.name.as_str()) && !is_used(one));
    Ok(own.map(|one| (format!("attribute {} of the file", one.name), 1)).collect())
}

/// All attributes of the group at `path`; empty for the root group, whose libraries' attributes are not included.
///
/// # Errors
/// If the file is corrupt.
pub(super) fn of_group(file: &Hdf5File, path: &str) -> std::result::Result<Vec<Attribute>, hdf5_reader::error::Error> {
    if !path.is_empty() {
        return file.group(path).and_then(|group| group.attributes()).map_err(open::cause);
    }
    let mut all = file.root_group().and_then(|root| root.attributes()).map_err(open::cause)?;
    all.retain(|one| !OF_LIBRARIES.contains(&one.name.as_str()));
    Ok(all)
}

/// Number of groups below the root with each attribute, by its name among the left-out fields.
///
/// # Errors
/// If the file is corrupt.
pub(super) fn of_groups(file: &Hdf5File) -> Result<BTreeMap<String, u64>> {
    let mut counted = BTreeMap::new();
    each_group(file, &mut |path, group, _, _| match path.is_empty() {
        true => Ok(()),
        false => count(group, &mut counted),
    })?;
    Ok(counted)
}

/// As [`of_groups`], but only for groups that hold `samples`: attributes of a sample are its components.
///
/// # Errors
/// If the file is corrupt.
pub(super) fn of_groups_above(file: &Hdf5File, samples: &[Members]) -> Result<BTreeMap<String, u64>> {
    let mut above: BTreeSet<&str> = BTreeSet::new();
    for sample in samples {
        let mut rest = sample.group.as_str();
        while let Some((parent, _)) = rest.rsplit_once('/') {
            if !above.insert(parent) {
                break;
            }
            rest = parent;
        }
    }
    let mut counted = BTreeMap::new();
    above.iter().try_for_each(|path| count(&file.group(path).map_err(open::to_error)?, &mut counted))?;
    Ok(counted)
}

fn count(group: &Group, counted: &mut BTreeMap<String, u64>) -> Result<()> {
    let all = group.attributes().map_err(open::to_error)?;
    for attribute in all.iter().filter(|one| !OF_LIBRARIES.contains(&one.name.as_str())) {
        *counted.entry(format!("attribute {} of groups", attribute.name)).or_default() += 1;
    }
    Ok(())
}

/// The class names in an attribute of the root group, such as `classes`; empty if there is none.
///
/// # Errors
/// If the file is corrupt.
pub(super) fn classes_of_root(file: &Hdf5File) -> Result<Vec<Vec<u8>>> {
    let all = file.root_group().and_then(|root| root.attributes()).map_err(open::to_error)?;
    Ok(all.iter().find_map(class_names).unwrap_or_default())
}

fn class_names(attribute: &Attribute) -> Option<Vec<Vec<u8>>> {
    if !is_called(&attribute.name, &CLASSES) || attribute.shape.len() != 1 {
        return None;
    }
    match (&attribute.decoded_strings, &attribute.datatype) {
        (Some(texts), _) => Some(texts.iter().map(|text| text.clone().into_bytes()).collect()),
        (None, Datatype::String { .. }) if !item(&attribute.datatype).is_reference() => {
            let bytes = hdf5_reader::dtype_element_size(&attribute.datatype).ok().filter(|bytes| *bytes > 0)?;
            let text = |item: &[u8]| {
                let end = item.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                item[..end].to_vec()
            };
            Some(attribute.raw_data.chunks_exact(bytes).map(text).collect())
        }
        _ => None,
    }
}

/// Name of the attribute `name` of a dataset among the left-out fields.
pub(super) fn left_out(name: &str, dataset: &str) -> String {
    format!("attribute {name} of dataset {dataset}")
}

/// The one of `attributes` that is called as labels are, the likeliest first, and is one number or text.
pub(super) fn label(attributes: &[Attribute]) -> Option<&Attribute> {
    let is_one = |one: &&Attribute| {
        one.num_elements().is_ok_and(|items| items == 1)
            && matches!(Kind::from_type(&item(&one.datatype)), Kind::Byte | Kind::Whole | Kind::Text)
    };
    let ranked = attributes.iter().filter(is_one).filter_map(|one| Some((label_rank(&one.name)?, one)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, one)| one)
}

/// An attribute as a label.
pub(super) fn as_label(attribute: &Attribute) -> Label {
    match read_value(attribute) {
        FieldContent::Is(Form::Text, text) => Label::Text(text),
        // `h5py.Empty`.
        FieldContent::Is(_, items) if items.is_empty() => Label::Missing,
        FieldContent::Is(..) => values::whole_or_name(&item(&attribute.datatype), &attribute.raw_data),
        FieldContent::Absent | FieldContent::Untold => Label::Missing,
    }
}

/// The value of an attribute: numbers or one text. Other types are unsupported.
pub(super) fn read_value(attribute: &Attribute) -> FieldContent {
    let is_single = attribute.shape.is_empty();
    let item = item(&attribute.datatype);
    let text = || values::array_dtype(&item).filter(|_| !is_single);
    if let Some(dtype) = values::dtype(&item).or_else(text) {
        return array(&dtype, &attribute.shape, attribute.raw_data.clone()).unwrap_or(FieldContent::Untold);
    }
    let text = match (&attribute.decoded_strings, &attribute.datatype) {
        (Some(texts), _) if attribute.shape.is_empty() && texts.len() == 1 => texts[0].clone().into_bytes(),
        (None, Datatype::String { .. }) if attribute.shape.is_empty() && !item.is_reference() => {
            let end = attribute.raw_data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            attribute.raw_data[..end].to_vec()
        }
        _ => return FieldContent::Untold,
    };
    match str::from_utf8(&text) {
        Ok(_) => FieldContent::Is(Form::Text, text),
        Err(_) => FieldContent::Untold,
    }
}

/// An array of these items, if their number fits the axes.
///
/// # Errors
/// The reason why the items do not fit.
pub(super) fn array(dtype: &str, shape: &[u64], items: Vec<u8>) -> std::result::Result<FieldContent, String> {
    let form = Form::array(dtype, shape).map_err(|error| error.what())?;
    match form.items_bytes() {
        Some(bytes) if bytes == items.len() as u64 => Ok(FieldContent::Is(form, items)),
        // A dataset of no space.
        _ if items.is_empty() => Ok(FieldContent::Absent),
        bytes => Err(format!("{} bytes, expected {}", items.len(), bytes.unwrap_or_default())),
    }
}

/// Appends a field `name` to a record that begins at `at`, whose content so far is `out`. Beside an image, a single number of
/// type `item` becomes its text, and text has no form, as in files whose images are rows.
pub(super) fn add(
    (name, found, item): (&str, FieldContent, &Item),
    is_beside: bool,
    at: u64,
    (others, out): (&mut Vec<Other>, &mut Vec<u8>),
) {
    let (content, form) = match found {
        FieldContent::Absent => return,
        FieldContent::Untold => {
            return others.push(Other { name: name.to_owned(), bytes: 0, offset: None, recipe: 0, form: None });
        }
        FieldContent::Is(form, content) => match &form {
            Form::Text if is_beside => (content, None),
            _ if is_beside && form.items_bytes().is_some() && is_one(item, &content) => {
                match number_text(item, &content) {
                    Some(text) => (text, None),
                    None => (content, Some(form)),
                }
            }
            _ => (content, Some(form)),
        },
    };
    let head = form.as_ref().map_or(0, Form::head_bytes);
    let offset = Some(at + out.len() as u64);
    out.extend_from_slice(&content);
    others.push(Other { name: name.to_owned(), bytes: head + content.len() as u64, offset, recipe: 0, form });
}

fn is_one(item: &Item, content: &[u8]) -> bool {
    item.bytes() == Some(content.len())
}
