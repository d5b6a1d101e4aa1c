//! Finds image, label, class and file name among the features of an example, and describes the others.
//!
//! Holds at all times: content identifies an image, and names choose among several. An ambiguous image is an error with text.

use std::ops::Range;

use super::{
    super::{
        example::{Example, Kind as ListKind, List, Value},
        layout::HEAD_BYTES,
        pixels,
    },
    values,
};
use crate::{
    component::Form,
    field_names,
    formats::foreign::{FieldSelection, Label, Other, Record},
    image_header::{Kind, SNIFF_BYTES},
};

/// Keys of the image, in the order of preference. All other lists of bytes come after.
const IMAGES: &[&str] = &["image/encoded", "image", "image_raw", "jpeg", "png"];
/// Keys of the label that come before the label names of all sources. Our writer uses the second for samples without an image.
const LABEL_FIRST: [&str; 2] = ["image/class/label", "class/label"];
/// Key of the label that comes after the label names of all sources.
const LABEL_LAST: &str = "image/label";
/// Keys of label, class name and file name that our writer uses for samples without an image.
const PLAIN: [&str; 3] = ["class/label", "class/text", "filename"];
/// Component name of several labels.
const LABELS_NAME: &str = "labels";
/// Keys of the class name, in the order of preference.
const CLASSES: &[&str] = &["image/class/text", "image/class/synset"];
/// Keys of the image's file name, in the order of preference.
const FILENAMES: &[&str] = &["image/filename", "filename"];

/// The image of an example.
pub(super) struct ImageFeature<'a> {
    pub key: &'a [u8],
    /// Range of the image file, or of the pixels, in the data.
    pub place: Range<usize>,
    /// The `.npy` header of pixels; empty if the data contains the image file.
    pub head: Vec<u8>,
}

/// The image of an example, detected from its content; names choose among several. `None` if no feature is an image.
///
/// # Errors
/// If the image is ambiguous, or the chosen feature is missing or does not hold one value of bytes; the text has the reason.
pub(super) fn image<'a>(
    example: &Example<'a>,
    data: &[u8],
    wanted: &FieldSelection,
) -> Result<Option<ImageFeature<'a>>, String> {
    // A list in steps is not an image.
    let named = |name: &str| example.iter().find(|(key, list)| *key == name.as_bytes() && list.steps.is_none());
    let is_file = |place: &Range<usize>| {
        let bytes = data.get(place.clone()).unwrap_or_default();
        Kind::detect(&bytes[..bytes.len().min(SNIFF_BYTES)]) != Kind::Unknown
    };
    let head = |key: &[u8], place: &Range<usize>| match is_file(place) {
        true => None,
        false => pixels::head(example, data, key, data.get(place.clone()).unwrap_or_default()),
    };
    let found = |(key, list): (&'a [u8], &List)| {
        let place = example.only_bytes(list).ok_or_else(|| match list.kind {
            ListKind::Bytes => format!("feature {:?} has {} values, not one", lossy(key), list.values),
            _ => format!("feature {:?} holds no bytes", lossy(key)),
        })?;
        Ok(Some(ImageFeature { key, head: head(key, &place).unwrap_or_default(), place }))
    };
    if let Some(name) = &wanted.image {
        return found(named(name).ok_or_else(|| format!("no feature {name:?}: {}", keys(example)))?);
    }
    let named: Vec<_> = IMAGES.iter().filter_map(|name| named(name)).collect();
    let bytes = named.iter().filter(|(_, list)| is_bytes(list));
    let is_image = |(key, list): &&(&[u8], &List)| {
        list.values > 1 || example.only_bytes(list).is_some_and(|place| is_file(&place) || head(key, &place).is_some())
    };
    // The items of a declared array may begin like an image file.
    let is_array = |key: &[u8]| values::is_declared(example, data, key);
    if let Some(one) = bytes.clone().find(is_image) {
        return found(*one);
    }
    let is_like =
        |(key, list): &(&[u8], &List)| example.only_bytes(list).is_some_and(|place| is_file(&place)) && !is_array(key);
    let mut like = example.iter().filter(is_like);
    // A feature with an image name that may hold pixels. A single number is an id.
    let odd = named.iter().find(|(_, list)| is_bytes(list) || list.values > 1);
    match (like.next(), like.next()) {
        (Some((like, _)), None) if let Some((odd, _)) = odd => Err(format!(
            "feature {:?} holds no image, and {:?} looks like one: choose one with --image-feature",
            lossy(odd),
            lossy(like)
        )),
        (Some(one), None) => found(one),
        (Some((one, _)), Some((two, _))) => {
            Err(format!("features {:?} and {:?} both look like the image", lossy(one), lossy(two)))
        }
        // The bytes may be an image of an unknown kind: the user decides.
        (None, _) if let Some(one) = bytes.clone().find(|(key, _)| !is_array(key)) => found(*one),
        (None, _) => {
            let is_pixels = |(key, list): &(&[u8], &List)| {
                example.only_bytes(list).is_some_and(|place| head(key, &place).is_some()) && !is_array(key)
            };
            let mut like = example.iter().filter(is_pixels);
            match (like.next(), like.next()) {
                (Some(one), None) => found(one),
                (Some((one, _)), Some((two, _))) => {
                    Err(format!("features {:?} and {:?} both look like pixels", lossy(one), lossy(two)))
                }
                (None, _) => Ok(None),
            }
        }
    }
}

/// The reason if an example cannot be packed whole: a wanted feature list that cannot be a component.
pub(super) fn lost_steps(example: &Example<'_>, data: &[u8], wanted: &FieldSelection) -> Option<String> {
    let lists = || example.iter().filter(|(_, list)| list.steps.is_some());
    lists().next()?;
    let found = values::features(example, data);
    let lost = found
        .iter()
        .filter_map(|one| one.as_ref().err())
        .find(|(key, _)| lists().any(|(known, _)| known == *key) && wanted.wants(&lossy(key)));
    lost.map(|(key, _)| {
        let key = lossy(key);
        format!(
            "a SequenceExample whose feature_lists {key:?} has steps of bytes that are not text and differ in length; \
             select other components with --components"
        )
    })
}

pub(super) fn no_image(example: &Example<'_>) -> String {
    format!("no feature holds an image: {}", keys(example))
}

/// Fills `record` and `wider` from an example without an image. Returns `false`, with both unchanged, if the example has no value beside
/// its label.
pub(super) fn describe_values(
    record: &mut Record,
    wider: &mut Vec<Option<u32>>,
    example: &Example<'_>,
    data: &[u8],
    wanted: &FieldSelection,
) -> bool {
    let [plain_label, plain_class, plain_filename] = PLAIN;
    let label = match &wanted.label {
        Some(name) => example.list(name.as_bytes()).map(|list| (name.as_str(), list)),
        // A list or a float is a value, not a label.
        None => labels(example).into_iter().find(|(name, list)| {
            let is_class = match example.value(list, 0) {
                Some(Value::Int(_)) => true,
                Some(Value::Bytes(place)) => {
                    let is_word = LABEL_FIRST.contains(name) || field_names::is_class_in_words(name);
                    is_word
                        && (values::is_text(&data[place.clone()])
                            || matches!(Label::of_bytes(&data[place]), Label::Number(_)))
                }
                Some(Value::Float(_)) | None => false,
            };
            list.values == 1 && is_class
        }),
    };
    let text = |first: &[&str], names: &[&str]| {
        let place = first.iter().chain(names).find_map(|name| {
            let place = example.list(name.as_bytes()).and_then(|list| example.only_bytes(list))?;
            (!place.is_empty()).then_some(place)
        })?;
        Some(data[place].to_vec())
    };
    // The class name and file name that our writer adds to each sample are not values.
    let is_told = |key: &[u8]| {
        let is_class = key == plain_class.as_bytes() && example.list(plain_label.as_bytes()).is_some();
        is_class
            || key == plain_filename.as_bytes()
                && example.list(key).is_some_and(|list| example.only_bytes(list).is_some())
    };
    let start = record.range.start;
    let (mut others, mut lengths) = (Vec::new(), Vec::new());
    for one in values::features(example, data) {
        let (key, other, wider) = match one {
            Err((key, bytes)) => (key, Other { name: lossy(key), bytes, offset: None, recipe: 0, form: None }, None),
            Ok(values::Feature { key, form, bytes, wider_bytes, place, recipe, .. }) => {
                let (at, recipe) = place.map_or((0, recipe), |place| ((HEAD_BYTES + place.start) as u64, 0));
                let wider = wider_bytes.and_then(|bytes| u32::try_from(bytes).ok());
                (key, Other { name: lossy(key), bytes, offset: Some(start + at), recipe, form: Some(form) }, wider)
            }
        };
        if !is_told(key) {
            others.push(other);
            lengths.push(wider);
        }
    }
    let is_value = |other: &Other| other.form.is_some() && label.is_none_or(|(name, _)| other.name != name);
    if !others.iter().any(is_value) {
        return false;
    }
    if let Some((name, list)) = label {
        record.labels = list.values;
        record.label = label_of(example, data, list, wanted.label_number.unwrap_or(0));
        record.label_name = name.to_owned();
    }
    record.class = text(&[plain_class], CLASSES);
    record.filename = text(&[], FILENAMES);
    record.others = others;
    *wider = lengths;
    true
}

/// Fills `record` and `wider` with the features beside the image. `image` is the key of the image, or `None` if the example has no
/// usable image.
pub(super) fn describe(
    record: &mut Record,
    wider: &mut Vec<Option<u32>>,
    example: &Example<'_>,
    data: &[u8],
    image: Option<&[u8]>,
    wanted: &FieldSelection,
) {
    let mut used: Vec<&[u8]> = image.into_iter().collect();
    let mut several = None;
    let label = match &wanted.label {
        _ if wanted.no_labels => None,
        Some(name) => example.list(name.as_bytes()).map(|list| (name.as_str(), list)),
        // A label that cannot be a class, such as a fraction, is a value beside the image.
        None => labels(example).into_iter().find(|(_, list)| {
            let is_first = wanted.label_number.is_none_or(|number| number == 0);
            list.values > 0 && !(is_first && matches!(label_of(example, data, list, 0), Label::Unfit(_)))
        }),
    };
    if let Some((name, list)) = label {
        record.labels = list.values;
        // Several labels are no class without --label-feature or --label-index.
        if list.values <= 1 || !wanted.takes_one_label() {
            record.label = label_of(example, data, list, wanted.label_number.unwrap_or(0));
            record.label_name = name.to_owned();
        }
        if list.values <= 1 {
            used.push(name.as_bytes());
        } else {
            several = Some(name.as_bytes());
        }
    }
    let mut text = |names: &[&'static str]| {
        let (name, place) = names.iter().find_map(|name| {
            let place = example.list(name.as_bytes()).and_then(|list| example.only_bytes(list))?;
            (!place.is_empty()).then_some((name, place))
        })?;
        used.push(name.as_bytes());
        Some(data[place].to_vec())
    };
    if !wanted.no_labels {
        record.class = text(CLASSES);
    }
    record.filename = text(FILENAMES);
    let start = record.range.start;
    let name = |key: &[u8]| match lossy(key) {
        // Readers would parse a component called `label` or `cls` as a single label.
        name if several == Some(key) && ["label", "cls"].contains(&&*name.to_lowercase()) => LABELS_NAME.to_owned(),
        name => name,
    };
    for one in values::features(example, data) {
        let (key, value) = match one {
            Ok(value) => (value.key, Some(value)),
            Err((key, _)) => (key, None),
        };
        let Some(list) = example.list(key).filter(|_| !used.contains(&key)) else { continue };
        let is_number = matches!(list.kind, ListKind::Floats | ListKind::Ints);
        let (bytes, offset, recipe, form, wider_bytes) = match value {
            // An array. A single number, below, is text unless other examples have a list in this feature.
            Some(values::Feature {
                form: form @ Form::Array { .. }, bytes, wider_bytes: None, place, recipe, ..
            }) => {
                let (at, recipe) = place.map_or((0, recipe), |place| (HEAD_BYTES + place.start, 0));
                (bytes, Some(start + at as u64), recipe, Some(form), None)
            }
            Some(values::Feature { form: form @ Form::Float, bytes, wider_bytes, recipe, .. }) => {
                (bytes, Some(start), recipe, Some(form), wider_bytes)
            }
            Some(value) if is_number && let Some(text) = example.text(list) => {
                let recipe = value.number_text();
                (text.len() as u64, Some(start), recipe, Some(value.form), value.wider_bytes)
            }
            value => match (example.only_bytes(list), example.text(list).zip(value)) {
                (Some(place), _) => (list.bytes, Some(start + (HEAD_BYTES + place.start) as u64), 0, None, None),
                // The recipe is the number of the feature, from 1. The record's checksum protects against another order.
                (None, Some((text, value))) => (text.len() as u64, Some(start), value.number() as u32 + 1, None, None),
                (None, None) => (list.bytes, None, 0, None, None),
            },
        };
        wider.push(wider_bytes.and_then(|bytes| u32::try_from(bytes).ok()));
        // Without an image, the features beside it are not a sample.
        let form = form.filter(|_| image.is_some());
        record.others.push(Other { name: name(key), bytes, offset, recipe, form });
    }
}

/// Features with the name of a label, the likeliest first.
fn labels<'e>(example: &'e Example<'_>) -> Vec<(&'e str, &'e List)> {
    let rank = |name: &str| match LABEL_FIRST.iter().position(|first| *first == name) {
        Some(place) => Some((0, place)),
        None if name == LABEL_LAST => Some((2, 0)),
        None => field_names::rank(name, &field_names::LABELS).map(|place| (1, place)),
    };
    let found = example.iter().filter(|(_, list)| list.steps.is_none()).filter_map(|(key, list)| {
        let name = str::from_utf8(key).ok()?;
        Some((rank(name)?, name, list))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(rank, name, _)| (*rank, *name));
    found.into_iter().map(|(_, name, list)| (name, list)).collect()
}

fn label_of(example: &Example<'_>, data: &[u8], list: &List, number: usize) -> Label {
    match example.value(list, number) {
        None if list.values == 0 => Label::Missing,
        None => Label::Unfit(format!("label number {number} of {}, counted from 0", list.values)),
        Some(Value::Int(label)) => Label::Number(label),
        Some(Value::Bytes(place)) => Label::of_bytes(&data[place]),
        // f32 represents 2^63, the first number that is too large, exactly.
        Some(Value::Float(label)) if label.fract() == 0.0 && label.abs() < i64::MAX as f32 => {
            Label::Number(label as i64)
        }
        Some(Value::Float(label)) => Label::Unfit(format!("label {label} is not a whole number")),
    }
}

fn is_bytes(list: &List) -> bool {
    list.kind == ListKind::Bytes && list.values > 0
}

/// The keys of an example, for a message.
fn keys(example: &Example<'_>) -> String {
    const TOLD: usize = 12;
    let count = example.iter().count();
    let told: Vec<_> = example.iter().take(TOLD).map(|(key, _)| lossy(key)).collect();
    match count {
        0 => "it has none".to_owned(),
        _ if count > TOLD => format!("it has {} and {} more", told.join(", "), count - TOLD),
        _ => format!("it has {}", told.join(", ")),
    }
}

pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
