//! Parses a value: one image or several, or raw pixels, each with its label.
//!
//! Supported codings are a plain image, a pickle, msgpack, Caffe's `Datum` and the output of `pyarrow.serialize`. A value
//! with many samples is a list of samples, a map of parallel lists or arrays, or one array of images.
//!
//! An unsupported sample is reported and skipped. Images are ranges in the value, not copies.

use std::{borrow::Cow, ops::Range, sync::Arc};

use shardpack_format::{
    component::Form,
    field_names::LABELS,
    formats::foreign::{FieldSelection, Label},
    hash,
    image_header::{Kind, SNIFF_BYTES},
};

use super::{
    super::{
        MissingImage,
        key_labels::FILENAMES,
        plain::{self, Array, EncodedRange, Value},
    },
    coding::Coding,
    fields::{self, Field},
    image_recipe::{ImageContent, held_by},
};

/// Names of the field, or of the database, that holds the image, the likeliest first.
pub(super) const IMAGES: [&str; 10] = ["image", "images", "img", "imgs", "jpg", "jpeg", "png", "data", "bytes", "x"];
/// Bytes of a value that a message shows.
pub(super) const SHOWN_BYTES: usize = 16;

impl Coding {
    /// Detects the coding of a value by its content: one of `known`, or of all codings if `known` is empty.
    pub fn detect(value: &[u8], known: &[Self]) -> Option<Self> {
        let holds_samples = |coding: Self| {
            let found = coding.samples(value, &FieldSelection::default());
            found.iter().any(|one| one.held.is_ok() || one.fields.iter().any(|field| field.form.is_ok()))
        };
        let is = |coding: &Self| match coding {
            Self::Image => Kind::detect(value) != Kind::Unknown,
            Self::Pickle => matches!(value, [0x80, 2..=5, ..]),
            Self::Datum => plain::datum(value).is_ok_and(|datum| {
                datum.encoded || datum.channels > 0 && (!datum.data.is_empty() || datum.float_data && datum.height > 0)
            }),
            // A byte or two begin as single values of msgpack by chance.
            Self::Msgpack => {
                let is_container = matches!(value, [0x80..=0x9f | 0xc4..=0xc9 | 0xd4..=0xd8 | 0xdc..=0xdf, ..]);
                is_container && holds_samples(*coding)
            }
            Self::Arrow => holds_samples(*coding),
        };
        let all = [Self::Image, Self::Pickle, Self::Datum, Self::Msgpack, Self::Arrow];
        all.into_iter().filter(|coding| known.is_empty() || known.contains(coding)).find(is)
    }

    /// The samples of a value of this making.
    pub fn samples(self, input: &[u8], wanted: &FieldSelection) -> Vec<ValueSample> {
        match self {
            Self::Image => vec![of_image(input, input.len() as u64)],
            Self::Datum => vec![of_datum(input)],
            Self::Pickle | Self::Msgpack | Self::Arrow => match self.decoded(input) {
                Ok(value) => samples_of(&value, input, wanted),
                Err(what) => vec![ValueSample::nothing(MissingImage::Damaged(what))],
            },
        }
    }
}

/// A sample in a value.
#[derive(Debug)]
pub(super) struct ValueSample {
    pub held: Result<ImageContent, MissingImage>,
    pub label: Label,
    pub filename: Option<Vec<u8>>,
    /// Other fields: name, and range in the value if the field is text or bytes stored unchanged.
    pub others: Vec<(String, Option<Range<usize>>)>,
    /// The fields, if the sample has no image; else the fields that are numbers, lists, maps and arrays, which `others`
    /// omits.
    pub fields: Vec<Field>,
    /// The number of the field that is the image, if the sample has fields.
    pub image_field: Option<usize>,
    /// The name of the label field, if the sample has no image.
    pub label_field: Option<String>,
}

impl ValueSample {
    pub fn nothing(why: MissingImage) -> Self {
        Self::from_image(Err(why))
    }

    fn from_image(held: Result<ImageContent, MissingImage>) -> Self {
        Self {
            held,
            label: Label::Missing,
            filename: None,
            others: Vec::new(),
            fields: Vec::new(),
            image_field: None,
            label_field: None,
        }
    }
}

/// A field that is neither image nor label; `None` if it is empty.
fn other(name: String, value: &Value) -> Option<(String, Option<Range<usize>>)> {
    match value {
        Value::None => None,
        Value::Text(part) | Value::Bytes(part) => Some((name, part.range())),
        _ => Some((name, None)),
    }
}

/// The fields of a map that are not in `used`, with their names.
fn further<'v>(value: &'v Value, input: &[u8], used: &[Option<&Value>]) -> Vec<(String, &'v Value)> {
    let is_used = |value: &Value| used.iter().flatten().any(|used| std::ptr::eq(*used, value));
    let name = |key: &Value| match key {
        Value::Int(number) => number.to_string(),
        key => key.as_text(input).map_or_else(|| key.kind().to_owned(), Cow::into_owned),
    };
    let entries = value.entries().unwrap_or_default().iter();
    entries.filter(|(_, value)| !is_used(value)).map(|(key, value)| (name(key), value)).collect()
}

/// A value of `bytes` bytes that is an image itself and begins with `first`.
pub(super) fn of_image(first: &[u8], bytes: u64) -> ValueSample {
    match (Kind::detect(first), usize::try_from(bytes)) {
        (Kind::Unknown, _) | (_, Err(_)) => {
            let shown = hash::hex(&first[..first.len().min(SHOWN_BYTES)]);
            ValueSample::nothing(MissingImage::NoImage(format!("{bytes} bytes that are no image, the first {shown}")))
        }
        (_, Ok(bytes)) => ValueSample::from_image(Ok(ImageContent::Bytes(EncodedRange::Plain(0..bytes)))),
    }
}

fn of_datum(input: &[u8]) -> ValueSample {
    let datum = match plain::datum(input) {
        Ok(datum) => datum,
        Err(what) => return ValueSample::nothing(MissingImage::Damaged(what)),
    };
    let shape = [datum.channels, datum.height, datum.width].map(u64::from);
    let pixels = shape.iter().try_fold(1u64, |product, axis| product.checked_mul(*axis));
    let is_image = Kind::detect(input.get(datum.data.clone()).unwrap_or_default()) != Kind::Unknown;
    let data = EncodedRange::Plain(datum.data.clone());
    let held = match datum.encoded || is_image {
        true => Ok(ImageContent::Bytes(data)),
        false if datum.float_data => {
            let shape = plain::by(&shape);
            Err(MissingImage::NoImage(format!("a Datum of floating-point numbers (float_data), {shape}: no image")))
        }
        false if pixels == Some(data.len() as u64) => {
            let array = Array { dtype: "|u1".to_owned(), shape: shape.to_vec(), is_fortran: false, data };
            // As Caffe's tools write colours, for OpenCV reads them so.
            Ok(if datum.channels == 3 {
                ImageContent::BluePlanes(Arc::new(array))
            } else {
                ImageContent::Array(Arc::new(array))
            })
        }
        false => {
            let [channels, height, width] = shape;
            Err(MissingImage::Damaged(format!(
                "{} bytes of pixels, its size is {channels}×{height}×{width}",
                data.len()
            )))
        }
    };
    ValueSample { label: datum.label.map_or(Label::Missing, Label::Number), ..ValueSample::from_image(held) }
}

/// The samples that a value is made of.
fn samples_of(value: &Value, input: &[u8], wanted: &FieldSelection) -> Vec<ValueSample> {
    if let Some(many) = beside_each_other(value, input, wanted) {
        return many.unwrap_or_else(|what| vec![ValueSample::nothing(MissingImage::Damaged(what))]);
    }
    match value.items() {
        // Images alone, and not one with a label that is bytes.
        Some(items) if items.len() > 1 && items.iter().all(|item| is_image(item, input)) => {
            items.iter().map(|item| ValueSample::from_image(held_by(item, input))).collect()
        }
        _ => {
            let of = |sample: &Value| match or_fields(sample, input, wanted) {
                found if found.held.is_ok() => with_fields(found, sample, input, wanted),
                found => found,
            };
            fields::samples(value).iter().map(of).collect()
        }
    }
}

/// A sample with an image, or with the fields that it has instead.
fn or_fields(sample: &Value, input: &[u8], wanted: &FieldSelection) -> ValueSample {
    // The name of a field does not make it an image.
    let no_image = match held_of(sample, input, wanted) {
        Err(MissingImage::NoImage(what)) => what,
        Ok(ImageContent::Bytes(part)) if Kind::detect(&part.first(input, SNIFF_BYTES)) == Kind::Unknown => {
            let first = part.first(input, SHOWN_BYTES);
            format!("{} bytes that are no image, the first {}", part.len(), hash::hex(&first))
        }
        Ok(_) | Err(MissingImage::Damaged(_)) => return sample_of(sample, input, wanted),
    };
    let named = fields::named(sample, input);
    let told = fields::label(sample, &named, input, wanted.label.as_deref(), wanted.label_number.unwrap_or(0));
    let (label, label_field) = told.map_or((Label::Missing, None), |(label, name)| (label, Some(name)));
    let fields = fields::fields(named, input);
    // If no field is available, the reason of the first failure is reported.
    let no_image = match fields.first() {
        Some(Field { form: Err(what), .. }) if fields.iter().all(|field| field.form.is_err()) => what.clone(),
        _ => no_image,
    };
    ValueSample { fields, label, label_field, ..ValueSample::nothing(MissingImage::NoImage(no_image)) }
}

/// A sample with an image, and the fields beside it that are no text or bytes: these go along as they are.
fn with_fields(mut found: ValueSample, sample: &Value, input: &[u8], wanted: &FieldSelection) -> ValueSample {
    let image = match sample.items() {
        Some(items) => image_of(items).map(|place| &items[place]),
        None => image_field(sample, input, wanted),
    };
    found.image_field = image.and_then(|image| fields::number_of(sample, input, image));
    if found.image_field.is_some() {
        let is_left = |name: &str| found.others.iter().any(|(other, place)| other == name && place.is_none());
        let is_value = |field: &Field| !matches!(field.form, Ok((Form::Text | Form::Bytes, _)) | Err(_));
        let is_meant = |field: &Field| is_value(field) && is_left(&field.name) && wanted.wants(&field.name);
        found.fields = fields::fields(fields::named(sample, input), input).into_iter().filter(is_meant).collect();
        found.others.retain(|(name, place)| place.is_some() || !found.fields.iter().any(|field| field.name == *name));
    }
    found
}

/// Which item of a list is the image, if the list is a sample.
fn image_of(items: &[Value]) -> Option<usize> {
    items.iter().position(|item| matches!(item, Value::Bytes(_)) || item.has_axes())
}

/// Samples whose images, labels and names are in parallel lists or arrays; `None` if the value has another layout.
fn beside_each_other(value: &Value, input: &[u8], wanted: &FieldSelection) -> Option<Result<Vec<ValueSample>, String>> {
    let may_be_several = |images: &&Value| match images {
        Value::List(_) => true,
        Value::Array(array) => array.dtype == "|u1" && matches!(array.shape.len(), 3 | 4),
        _ => false,
    };
    let (images, labels, filenames) = match value {
        Value::Array(_) => (value, None, None),
        Value::List(items) => match &items[..] {
            [images, labels] if wanted.label.is_none() => (images, Some(labels), None),
            _ => return None,
        },
        Value::Map(_) => {
            let images = field(value, input, &wanted.image, &IMAGES).filter(may_be_several)?;
            (images, field(value, input, &wanted.label, &LABELS), field(value, input, &None, &FILENAMES))
        }
        _ => return None,
    };
    let column = |value: &Value| match value {
        Value::List(items) => Some(items.clone()),
        Value::Array(array) => array.numbers(input),
        _ => None,
    };
    let label_list = labels.and_then(column);
    let images_of = images;
    let rows = |array: &Array| {
        let rows = array.rows(input)?;
        Ok(rows.into_iter().map(|row| Value::Array(Arc::new(row))).collect::<Vec<_>>())
    };
    let images = match images {
        Value::List(items) if matches!(value, Value::List(_)) => {
            // A list of two is two samples, unless the second holds only labels.
            let is_label =
                |label: &Value| !matches!(label, Value::Bytes(_) | Value::List(_) | Value::Map(_)) && !label.has_axes();
            let is_labels = label_list.as_ref().is_some_and(|labels| labels.iter().all(is_label));
            let holds = |item: &Value| matches!(item, Value::Bytes(_)) || item.has_axes();
            (is_labels && !items.is_empty() && items.iter().all(holds)).then(|| Ok(items.clone()))?
        }
        Value::List(items) => Ok(items.clone()),
        Value::Array(array)
            if array.dtype == "|u1" && array.shape.len() == 4 && label_list.is_some() == labels.is_some() =>
        {
            rows(array)
        }
        // Of gray images, if there is a label for each.
        Value::Array(array) if array.dtype == "|u1" && array.shape.len() == 3 => {
            let is_each = label_list.as_ref().is_some_and(|labels| labels.len() as u64 == array.shape[0]);
            is_each.then(|| rows(array))?
        }
        _ => return None,
    };
    // With --no-labels, the label is one more field.
    let (labels, label_list, of_pair) = match wanted.no_labels {
        true => (None, None, labels.filter(|_| value.entries().is_none())),
        false => (labels, label_list, None),
    };
    let used = [Some(images_of), labels, filenames];
    // Lists with one item per sample; other fields are reported by name only.
    let beside = further(value, input, &used).into_iter().chain(of_pair.map(|labels| ("labels".to_owned(), labels)));
    let beside: Vec<_> = beside.map(|(name, value)| (name, column(value))).collect();
    let filenames = filenames.and_then(column);
    Some(images.and_then(|images| {
        for (list, what) in [(&label_list, "labels"), (&filenames, "names")] {
            if let Some(list) = list
                && list.len() != images.len()
            {
                return Err(format!("{} images and {} {what}", images.len(), list.len()));
            }
        }
        let found = |(number, image): (usize, &Value)| {
            let label = match (&label_list, labels) {
                (Some(list), _) => label_of(&list[number], input),
                // One for all.
                (None, Some(label)) => label_of(label, input),
                (None, None) => Label::Missing,
            };
            let name = filenames.as_ref().and_then(|names| names[number].as_text(input));
            let filename = name.map(|name| name.into_owned().into_bytes());
            let others = beside.iter().filter_map(|(name, list)| {
                let list = list.as_ref().filter(|list| list.len() == images.len());
                list.map_or(Some((name.clone(), None)), |list| other(name.clone(), &list[number]))
            });
            ValueSample { label, filename, others: others.collect(), ..ValueSample::from_image(held_by(image, input)) }
        };
        Ok(images.iter().enumerate().map(found).collect())
    }))
}

fn field<'v>(value: &'v Value, input: &[u8], wanted: &Option<String>, likely: &[&str]) -> Option<&'v Value> {
    match wanted {
        Some(name) => value.get(input, name),
        None => value.called(input, likely),
    }
}

/// The field of a map that holds the image: the field that the user chose or that has the name of an image, else the only
/// bytes field that begins like an image.
fn image_field<'v>(value: &'v Value, input: &[u8], wanted: &FieldSelection) -> Option<&'v Value> {
    let begins = |value: &&Value| match held_by(value, input) {
        Ok(ImageContent::Bytes(part)) => Kind::detect(&part.first(input, SNIFF_BYTES)) != Kind::Unknown,
        _ => false,
    };
    field(value, input, &wanted.image, &IMAGES).or_else(|| {
        let mut found = value.entries()?.iter().map(|(_, value)| value).filter(begins);
        found.next().filter(|_| wanted.image.is_none() && found.next().is_none())
    })
}

/// The label in `value`, unless labels are disabled. `None` if no class can have this value, such as a list or a fraction,
/// and the user did not choose it as the label: it is then an ordinary field.
fn label_in(value: Option<&Value>, input: &[u8], wanted: &FieldSelection) -> Option<Label> {
    let label = label_of(value.filter(|_| !wanted.no_labels)?, input);
    (wanted.label.is_some() || wanted.label_number.is_some() || !matches!(label, Label::Unfit(_))).then_some(label)
}

/// The data that holds the image of a sample.
fn held_of(value: &Value, input: &[u8], wanted: &FieldSelection) -> Result<ImageContent, MissingImage> {
    if value.entries().is_some() {
        let image = image_field(value, input, wanted).ok_or_else(|| MissingImage::no_image("a map without an image"));
        return image.and_then(|image| held_by(image, input));
    }
    let Some(items) = value.items() else { return held_by(value, input) };
    image_of(items)
        .map_or_else(|| Err(MissingImage::no_image("a list without bytes")), |image| held_by(&items[image], input))
}

fn sample_of(value: &Value, input: &[u8], wanted: &FieldSelection) -> ValueSample {
    let held = held_of(value, input, wanted);
    let field = |wanted: &Option<String>, likely: &[&str]| field(value, input, wanted, likely);
    if value.entries().is_some() {
        let image = image_field(value, input, wanted);
        let said = field(&wanted.label, &LABELS).filter(|said| image.is_none_or(|image| !std::ptr::eq(*said, image)));
        let label = label_in(said, input, wanted);
        let said = said.filter(|_| label.is_some());
        let name = field(&None, &FILENAMES);
        let filename = name.and_then(|name| name.as_text(input));
        let name = name.filter(|_| filename.is_some());
        let others = further(value, input, &[image, said, name]).into_iter();
        let others = others.filter_map(|(name, value)| other(name, value));
        return ValueSample {
            held,
            label: label.unwrap_or(Label::Missing),
            filename: filename.map(|name| name.into_owned().into_bytes()),
            others: others.collect(),
            ..ValueSample::nothing(MissingImage::no_image(""))
        };
    }
    let Some(items) = value.items() else {
        return ValueSample::from_image(held);
    };
    // (image, label), in either order.
    let image = image_of(items);
    let others = items.iter().enumerate().filter(|(number, _)| Some(*number) != image);
    let labels: Vec<_> = others.clone().map(|(_, item)| label_in(Some(item), input, wanted)).collect();
    // Unnamed fields are named by index, from 0.
    // A text beside a number is a name.
    let is_number = |label: &Option<Label>| matches!(label, Some(Label::Number(_)));
    let number = wanted.label_number.or_else(|| labels.iter().position(is_number)).unwrap_or(0);
    let is_label = |place: &usize| *place == number && labels.get(*place).is_some_and(Option::is_some);
    let others = others.enumerate().filter(|(place, _)| wanted.label.is_some() || !is_label(place));
    let others = others.filter_map(|(_, (place, item))| other(format!("x{place}"), item));
    ValueSample {
        others: others.collect(),
        held,
        label: match labels.get(number) {
            // Items of a list have no names.
            _ if wanted.label.is_some() => Label::Missing,
            Some(label) => label.clone().unwrap_or(Label::Missing),
            None if number == 0 => Label::Missing,
            None => Label::Unfit(format!("it has {} labels, number {number} is wanted", labels.len())),
        },
        ..ValueSample::nothing(MissingImage::no_image(""))
    }
}

/// Whether a value is an image by its first bytes, or by its axes.
fn is_image(value: &Value, input: &[u8]) -> bool {
    match held_by(value, input) {
        Ok(ImageContent::Array(_) | ImageContent::BluePlanes(_)) => true,
        Ok(ImageContent::Bytes(part)) => Kind::detect(&part.first(input, SNIFF_BYTES)) != Kind::Unknown,
        Err(_) => false,
    }
}

fn label_of(value: &Value, input: &[u8]) -> Label {
    match value {
        Value::Int(number) => Label::Number(*number),
        Value::None => Label::Missing,
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Label::Number(*number as i64),
        Value::Text(part) | Value::Bytes(part) => match Label::of_bytes(&part.read(input)) {
            Label::Text(text) if str::from_utf8(&text).is_err() => Label::Unfit("bytes that are no text".to_owned()),
            label => label,
        },
        // A number in an array of its own.
        Value::Array(array) if array.shape.iter().all(|axis| *axis == 1) => {
            let one = Array { shape: vec![1], ..Array::clone(array) };
            match one.numbers(input).as_deref() {
                Some([number]) => label_of(number, input),
                _ => Label::Unfit(value.kind().to_owned()),
            }
        }
        _ => Label::Unfit(value.kind().to_owned()),
    }
}

#[cfg(test)]
mod tests;
