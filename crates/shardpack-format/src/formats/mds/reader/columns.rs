//! Columns of a shard by any writer: detects the image and label columns, and reads values.
//!
//! A problem inside a sample is reported in its record; the next record begins at its offset in the table.

use std::ops::Range;

use serde::Deserialize;

use super::{
    super::layout::word,
    numbers::{integer, number_recipe, text},
    pixels::{AS_IT_IS, OF_PIXELS, Pixels},
    values,
};
use crate::{
    Error, Result,
    component::half,
    field_names::{self, CLASSES, LABELS},
    formats::foreign::{FieldSelection, Image, Label, Other, Record},
    help,
    image_header::Kind,
};

/// First bytes of a config: its keys are in alphabetical order.
pub(super) const CONFIG_START: &[u8] = b"{\"column_";

/// Names of image columns, the likeliest first.
const IMAGES: [&str; 6] = ["image", "img", "jpg", "jpeg", "png", "webp"];
/// Names of text columns with the name of the image file, the likeliest first.
const FILENAMES: [&str; 8] = ["filename", "file_name", "filepath", "file_path", "path", "image_path", "key", "__key__"];

/// Encodings of columns whose bytes are meaningful without their encoding: text, image files, or opaque bytes.
const AS_THEY_ARE: [&str; 8] = ["str", "bytes", "json", "jpeg", "png", "str_int", "str_float", "str_decimal"];

/// Maximum length of a column name in bytes. This limit, and the refusal of columns of 0 bytes, bound the cost of a sample by its
/// length.
const NAME_LIMIT_BYTES: usize = 255;

/// The fields of a shard's config that the reader needs.
#[derive(Deserialize)]
struct Config {
    column_names: Vec<String>,
    column_encodings: Vec<String>,
    column_sizes: Vec<Option<u32>>,
    format: String,
}

/// A column of a shard.
pub(super) struct Column {
    name: String,
    encoding: String,
    fixed_bytes: Option<u32>,
}

/// The columns and their roles.
pub(super) struct Columns {
    columns: Vec<Column>,
    /// Number of columns with a length in each sample.
    variable: usize,
    /// If no encoding identifies the column: `None` until a column of bytes begins like an image.
    image: Option<usize>,
    label: Option<usize>,
    /// Whether the user chose the label column.
    is_label_said: bool,
    class: Option<usize>,
    filename: Option<usize>,
    /// The label of samples without an image.
    value_label: Option<usize>,
    /// For each other column of the last record, see [`Walk::wider`](crate::formats::foreign::Walk::wider).
    wider: Vec<Option<u32>>,
}

impl Columns {
    pub fn parse(config: &[u8], wanted: &FieldSelection) -> Result<Self> {
        if !config.starts_with(CONFIG_START) {
            return Err(Error::data("no config of an MDS shard"));
        }
        let config: Config = serde_json::from_slice(config)
            .map_err(|error| Error::data(format!("the config cannot be read: {error}")))?;
        let Config { column_names, column_encodings, column_sizes, format } = config;
        if format != "mds" {
            return Err(Error::data(format!("shards of format {format:?}, expected \"mds\"")));
        }
        if column_names.len() != column_encodings.len() || column_names.len() != column_sizes.len() {
            return Err(Error::data(format!(
                "{} names, {} encodings and {} sizes of columns",
                column_names.len(),
                column_encodings.len(),
                column_sizes.len()
            )));
        }
        let columns = column_names.into_iter().zip(column_encodings).zip(column_sizes);
        let columns = columns.map(|((name, encoding), fixed_bytes)| Column { name, encoding, fixed_bytes });
        Self::new(columns.collect(), wanted)
    }

    /// Detects the roles of `columns`.
    pub fn new(columns: Vec<Column>, wanted: &FieldSelection) -> Result<Self> {
        if let Some(Column { name, .. }) = columns.iter().find(|column| column.name.len() > NAME_LIMIT_BYTES) {
            let limit = format!("a column's name of {} bytes, at most {NAME_LIMIT_BYTES} are read", name.len());
            return Err(Error::data(limit));
        }
        if columns.iter().any(|column| column.fixed_bytes == Some(0)) {
            return Err(Error::data("a column whose every value is 0 bytes long"));
        }
        let find = |name: &str| columns.iter().position(|column| column.name == name);
        let called = |names: &[&str]| -> Vec<usize> {
            let found = field_names::ranked(columns.iter().map(|column| column.name.as_str()), names);
            found.into_iter().map(|(at, _)| at).collect()
        };
        let asked = |name: &String| {
            find(name).ok_or_else(|| {
                let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
                Error::usage(format!("no column {name:?}, the shard has {}", names.join(", ")))
            })
        };
        let image = match &wanted.image {
            Some(name) => Some(asked(name)?),
            None => image_of(&columns)?,
        };
        let label = match &wanted.label {
            Some(name) => Some(asked(name)?),
            None => {
                // A text column with class names is the label only if there is no other label column.
                let names_class = |at: &usize| columns[*at].encoding == "str" && called(&CLASSES).contains(at);
                let mut likely = called(&LABELS);
                likely.sort_by_key(names_class);
                likely.into_iter().find(|found| is_label(&columns[*found].encoding))
            }
        };
        let value_label = match &wanted.label {
            Some(_) => label,
            None => called(&LABELS).into_iter().find(|found| {
                let Column { name, encoding, .. } = &columns[*found];
                is_value_label(encoding, name)
            }),
        };
        let text = |names: &[&str]| {
            called(names)
                .into_iter()
                .find(|found| columns[*found].encoding == "str" && Some(*found) != label && Some(*found) != image)
        };
        let (class, filename) = (text(&CLASSES), text(&FILENAMES));
        // Without labels, both are ordinary columns.
        let (label, class) = if wanted.no_labels { (None, None) } else { (label, class) };
        let is_label_said = wanted.label.is_some();
        let variable = columns.iter().filter(|column| column.fixed_bytes.is_none()).count();
        Ok(Self { variable, image, label, is_label_said, class, filename, value_label, wider: Vec::new(), columns })
    }

    /// See [`Walk::wider`](crate::formats::foreign::Walk::wider).
    pub fn wider(&self) -> &[Option<u32>] {
        &self.wider
    }

    /// Fills in the values of a sample without an image. Returns whether the sample has more than a label, or is damaged because a value
    /// does not match its encoding.
    fn describe_values(&mut self, record: &mut Record, bytes: &[u8], places: &[Range<usize>]) -> bool {
        let of = |number: usize| bytes.get(places[number].clone()).unwrap_or_default();
        let start = record.range.start;
        let (mut others, mut has_value) = (Vec::new(), false);
        for (number, Column { name, encoding, .. }) in self.columns.iter().enumerate() {
            // The shardpack writer adds this column to every sample; it is no value of the source.
            if Some(number) == self.filename && name == FILENAMES[0] {
                continue;
            }
            let found = match values::value(encoding, of(number)) {
                Ok(found) => found,
                Err(what) => {
                    self.wider.clear();
                    (record.image, record.is_damaged) = (Err(format!("column {name:?}: {what}")), true);
                    return true;
                }
            };
            has_value |= found.is_some() && Some(number) != self.value_label;
            let place = start + places[number].start as u64;
            let (other, wider) = match found {
                None => {
                    let bytes = of(number).len() as u64;
                    (Other { name: name.clone(), bytes, offset: None, recipe: 0, form: None }, None)
                }
                Some(values::Value { form, bytes, wider_bytes, start, recipe }) => {
                    let offset = Some(place + start as u64);
                    (Other { name: name.clone(), bytes, offset, recipe, form: Some(form) }, wider_bytes)
                }
            };
            others.push(other);
            self.wider.push(wider);
        }
        if !has_value {
            self.wider.clear();
            return false;
        }
        if let Some(number) = self.value_label {
            record.label = label(&self.columns[number].encoding, of(number));
            record.label_name = self.columns[number].name.clone();
            record.labels = 1;
        }
        record.class = self.class.filter(|class| Some(*class) != self.value_label).map(|number| of(number).to_vec());
        record.filename = self.filename.map(|number| of(number).to_vec());
        record.others = others;
        true
    }

    /// The reason why a sample has no image.
    fn no_image(&self) -> String {
        let pickle = self.columns.iter().find(|column| column.encoding == "pkl");
        let pickle = pickle.map(|column| format!("; {}", pickled(&column.name)));
        format!("no column has the encoding of an image, or bytes that begin like one{}", pickle.unwrap_or_default())
    }

    /// The record of the sample `bytes`, which begins at `start`.
    pub fn record(&mut self, bytes: &[u8], start: u64, number: usize) -> Record {
        let mut record = Record::numbered(start..start + bytes.len() as u64, number as u64, String::new());
        let places = match self.places(bytes) {
            Ok(places) => places,
            Err(reason) => {
                record.label = Label::Unfit(reason.clone());
                (record.image, record.is_damaged) = (Err(reason), true);
                return record;
            }
        };
        self.wider.clear();
        let of = |number: usize| bytes.get(places[number].clone()).unwrap_or_default();
        if self.image.is_none() {
            let mut numbers = 0..self.columns.len();
            self.image = numbers
                .find(|number| self.columns[*number].encoding == "bytes" && Kind::detect(of(*number)) != Kind::Unknown);
        }
        if self.image.is_none() {
            record.image = Err(self.no_image());
            if self.describe_values(&mut record, bytes, &places) {
                return record;
            }
        }
        record.image = match self.image {
            None => Err(self.no_image()),
            Some(number) => self.columns[number].image(of(number)).map(|ImageValue { place, bytes, recipe }| {
                let offset = start + (places[number].start + place.start) as u64;
                Image {
                    name: self.columns[number].name.clone(),
                    fetch: offset..offset + place.len() as u64,
                    bytes,
                    offset,
                    in_parts: recipe == OF_PIXELS,
                    recipe,
                }
            }),
        };
        let said = self.label.map(|number| (number, label(&self.columns[number].encoding, of(number))));
        // A value that cannot be a class, such as a fraction, is a component beside the image, unless the user chose its column.
        let said = said.filter(|(_, label)| self.is_label_said || !matches!(label, Label::Unfit(_)));
        let label_at = said.as_ref().map(|(number, _)| *number);
        if let Some((number, label)) = said {
            record.label = label;
            record.label_name = self.columns[number].name.clone();
            record.labels = 1;
        }
        record.class = self.class.map(|number| of(number).to_vec());
        record.filename = self.filename.map(|number| of(number).to_vec());
        let told = [self.image, label_at, self.class, self.filename];
        let others = self.columns.iter().zip(&places).enumerate().filter(|(number, _)| !told.contains(&Some(*number)));
        let mut damage = None;
        let other = |(number, (column, place)): (usize, (&Column, &Range<usize>))| {
            let at = start + place.start as u64;
            let name = column.name.clone();
            if values::is_array(&column.encoding) {
                return match values::value(&column.encoding, of(number)) {
                    Ok(Some(values::Value { form, bytes, start, recipe, .. })) => {
                        Other { name, bytes, offset: Some(at + start as u64), recipe, form: Some(form) }
                    }
                    found => {
                        damage = damage.take().or(found.err().map(|what| format!("column {name:?}: {what}")));
                        Other { name, bytes: place.len() as u64, offset: None, recipe: 0, form: None }
                    }
                };
            }
            let recipe = number_recipe(&column.encoding);
            let text_of_number = recipe.and_then(|recipe| text(of(number), recipe).ok().map(|text| (text, recipe)));
            let (bytes, offset, recipe) = match text_of_number {
                _ if AS_THEY_ARE.contains(&column.encoding.as_str()) => (place.len(), Some(at), 0),
                Some((text, recipe)) => (text.len(), Some(at), recipe),
                None => (place.len(), None, 0),
            };
            Other { name, bytes: bytes as u64, offset, recipe, form: None }
        };
        record.others = others.map(other).collect();
        if let Some(what) = damage {
            (record.image, record.is_damaged) = (Err(what), true);
        }
        if record.image.is_err() {
            // Without its image, the other fields are no sample.
            record.others.iter_mut().for_each(|other| other.form = None);
        }
        record
    }

    /// Range of each column in a sample.
    fn places(&self, bytes: &[u8]) -> Result<Vec<Range<usize>>, String> {
        let mut at = 4 * self.variable;
        let mut lengths = (0..self.variable).map(|number| word(bytes, number));
        let mut places = Vec::new();
        for Column { name, fixed_bytes, .. } in &self.columns {
            let length = fixed_bytes.or_else(|| lengths.next().flatten());
            let end = length.and_then(|length| at.checked_add(usize::try_from(length).ok()?));
            let Some(end) = end.filter(|end| *end <= bytes.len()) else {
                return Err(format!("column {name:?} reaches beyond the {} bytes of its sample", bytes.len()));
            };
            places.push(at..end);
            at = end;
        }
        if at == bytes.len() {
            Ok(places)
        } else {
            Err(format!("the columns end at byte {at} of a sample of {}", bytes.len()))
        }
    }
}

/// Detects the image column by encodings and names; `None` if no encoding identifies it.
fn image_of(columns: &[Column]) -> Result<Option<usize>> {
    let of_images = |column: &Column| is_image(&column.encoding) || holds_images(&column.encoding);
    let found: Vec<usize> = (0..columns.len()).filter(|number| of_images(&columns[*number])).collect();
    let called = |name: &&str| columns.iter().position(|column| column.name == **name);
    let ask = |what: String, one: usize| Err(Error::usage(what).help(help::this_image(&columns[one].name)));
    match (IMAGES.iter().find_map(called), &*found) {
        (Some(named), _) if of_images(&columns[named]) => Ok(Some(named)),
        // The encoding does not define the content; the samples show it.
        (Some(named), _) if columns[named].encoding == "bytes" => Ok(Some(named)),
        // A `str` column is a path, and an integer column an id; neither is an error.
        (Some(named), [one, ..]) if columns[named].encoding != "str" && integer(&columns[named].encoding).is_none() => {
            let Column { name, encoding, .. } = &columns[named];
            ask(
                format!("column {name:?} of encoding {encoding:?} is no image, column {:?} is", columns[*one].name),
                *one,
            )
        }
        (_, []) => Ok(None),
        (_, [one]) => Ok(Some(*one)),
        (_, [one, two, ..]) => {
            ask(format!("columns {:?} and {:?} both hold images", columns[*one].name, columns[*two].name), *one)
        }
    }
}

/// An image in a value.
struct ImageValue {
    /// Range in the value from which the image is made.
    place: Range<usize>,
    /// Length of the image file in bytes.
    bytes: u32,
    recipe: u32,
}

impl Column {
    /// A column whose values have the length `fixed_bytes`, or a length in each sample.
    pub fn new(name: &str, encoding: &str, fixed_bytes: Option<u32>) -> Self {
        Self { name: name.to_owned(), encoding: encoding.to_owned(), fixed_bytes }
    }

    /// The image in the value `bytes`, or the reason why there is none.
    fn image(&self, bytes: &[u8]) -> Result<ImageValue, String> {
        let Self { name, encoding, .. } = self;
        // A record is shorter than 4 GiB, because offsets have 32 bits.
        let file = |place: Range<usize>| ImageValue { bytes: place.len() as u32, place, recipe: AS_IT_IS };
        let pixels = |place: Range<usize>| {
            let pixels = Pixels::parse(bytes.get(place.clone()).unwrap_or_default())?;
            Ok(ImageValue { place, bytes: pixels.file_bytes()?, recipe: OF_PIXELS })
        };
        match encoding.as_str() {
            encoding if is_image(encoding) || encoding == "bytes" => Ok(file(0..bytes.len())),
            "jpeg_array" | "jpegarray" => only(bytes, 0).map(file),
            "list[jpeg]" | "list[png]" => only(bytes, 4).map(file),
            "pil" => pixels(0..bytes.len()),
            "list[pil]" => only(bytes, 4).and_then(pixels),
            "pkl" => Err(pickled(name)),
            _ => Err(format!("column {name:?} of encoding {encoding:?} is no image")),
        }
    }
}

/// Whether a value of this encoding is an image file.
fn is_image(encoding: &str) -> bool {
    matches!(encoding, "jpeg" | "png")
}

/// Whether a value of this encoding contains pixels or image files.
fn holds_images(encoding: &str) -> bool {
    matches!(encoding, "jpeg_array" | "jpegarray" | "pil" | "list[jpeg]" | "list[png]" | "list[pil]")
}

/// Whether a column with a label's name may be the label.
fn is_label(encoding: &str) -> bool {
    !is_image(encoding) && !holds_images(encoding) && encoding != "bytes"
}

/// Whether the column `name` may be the label of samples without an image: integers, or words in a column whose name is used for
/// classes only.
fn is_value_label(encoding: &str, name: &str) -> bool {
    integer(encoding).is_some() || encoding == "str_int" || encoding == "str" && field_names::is_class_in_words(name)
}

fn pickled(name: &str) -> String {
    format!("column {name:?} is a pickle (pkl), which is a program and is never run")
}

/// The label in a value.
fn label(encoding: &str, bytes: &[u8]) -> Label {
    let unfit = || Label::Unfit(format!("{} bytes of encoding {encoding:?}", bytes.len()));
    let whole = |number: f64| {
        // A float64 up to 2^53 represents every integer exactly.
        let fits = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
        if fits { Label::Number(number as i64) } else { Label::Unfit(format!("{number} is no whole number")) }
    };
    let text = || std::str::from_utf8(bytes).map(str::trim).ok();
    if let Some((width, signed)) = integer(encoding) {
        if bytes.len() != width {
            return unfit();
        }
        let negative = signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..width].copy_from_slice(bytes);
        return match i64::from_le_bytes(wide) {
            number if !signed && number < 0 => Label::Unfit(format!("{} is beyond 63 bits", number as u64)),
            number => Label::Number(number),
        };
    }
    match encoding {
        "float16" => {
            <[u8; 2]>::try_from(bytes).map_or_else(|_| unfit(), |bytes| whole(half(u16::from_le_bytes(bytes))))
        }
        "float32" => {
            <[u8; 4]>::try_from(bytes).map_or_else(|_| unfit(), |bytes| whole(f32::from_le_bytes(bytes).into()))
        }
        "float64" => <[u8; 8]>::try_from(bytes).map_or_else(|_| unfit(), |bytes| whole(f64::from_le_bytes(bytes))),
        "str_int" => text().and_then(|text| text.parse().ok()).map_or_else(unfit, Label::Number),
        "str_float" | "str_decimal" => text().and_then(|text| text.parse().ok()).map_or_else(unfit, whole),
        "str" => Label::Text(bytes.to_vec()),
        "json" => match serde_json::from_slice(bytes) {
            Ok(serde_json::Value::Number(number)) => number.as_i64().map_or_else(unfit, Label::Number),
            Ok(serde_json::Value::String(text)) => Label::Text(text.into_bytes()),
            _ => unfit(),
        },
        _ => unfit(),
    }
}

/// Range of the only image in a list, which starts at byte `at`: number of images, length of each, then all images.
fn only(bytes: &[u8], at: usize) -> Result<Range<usize>, String> {
    let list = bytes.get(at..).unwrap_or_default();
    match (word(list, 0), word(list, 1)) {
        (Some(1), Some(length)) => {
            let start = at + 8;
            let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
            let end = end.filter(|end| *end <= bytes.len());
            end.map(|end| start..end).ok_or_else(|| "the image of a list reaches beyond its column".to_owned())
        }
        (Some(1) | None, _) => Err("a list of images that ends early".to_owned()),
        (Some(images), _) => Err(format!("a list of {images} images, expected one")),
    }
}

#[cfg(test)]
mod tests;
