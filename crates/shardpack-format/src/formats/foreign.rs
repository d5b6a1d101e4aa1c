//! Shards by any writer: detected from their first bytes, walked record by record, trusting nothing.
//!
//! Holds at all times: a length is checked against the rest of the file before anything is allocated for it; each
//! step moves forward; names in a file are never opened; a problem in one record is reported in that record, and
//! the walk continues; an error ends the walk, because the start of the next record is then unknown.

mod input;
mod label_types;
mod literal;
mod plain;

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    component::{Component, Form},
};
pub use input::{Input, Sequential, Skip, append, fill, unreadable};
pub use label_types::LabelTypes;
pub use literal::is_list;
pub use plain::Plain;

/// The user's choices for records with named fields: features, columns, extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldSelection {
    /// Name of the field that holds the image; if `None`, the field is detected.
    pub image: Option<String>,
    /// Name of the field that holds the label; if `None`, the field is detected.
    pub label: Option<String>,
    /// Index of the label that is the class, from 0, if a record has several. If `None`, several labels are a component.
    pub label_number: Option<usize>,
    /// Samples have no labels: no label is looked for, and an invalid label in a record is no error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_labels: bool,
    /// Names of the wanted components, see [`Component::field`]; all, if `None`. The content of other fields is not
    /// needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<String>>,
    /// Fields whose values are arrays, as `COLUMN`, `COLUMN:DTYPE` or `NAME=COLUMN:DTYPE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// A `.npz` in a sample is one component, and not its arrays.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keeps_archives: bool,
    /// Renamed fields: the name of the field, then its new name, a component name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renames: Vec<(String, String)>,
    /// Choices for keys with values.
    #[serde(default, skip_serializing_if = "Entries::is_unsaid")]
    pub entries: Entries,
}

/// Names of the texts from [`FieldSelection::described`], the same as the command line options.
pub const SAID: [&str; 8] =
    ["fields", "image_feature", "label_feature", "label_index", "from", "label_from", "key_pattern", "skip_header"];

impl FieldSelection {
    /// Whether several labels of a record are a component instead of a class: neither option selects a label.
    pub fn takes_one_label(&self) -> bool {
        self.label.is_none() && self.label_number.is_none()
    }

    /// Whether the user chose nothing.
    pub fn is_unsaid(&self) -> bool {
        *self == Self::default()
    }

    /// The choices for fields, labels and keys as text for a manifest, each with its name from [`SAID`].
    pub fn described(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Entries { dialect, label_from, key_pattern, header_bytes } = &self.entries;
        let renames: Vec<_> = self.renames.iter().map(|(field, name)| format!("{field}:{name}")).collect();
        let renames = (!renames.is_empty()).then(|| renames.join(","));
        let number = self.label_number.map(|number| number.to_string());
        let header_bytes = header_bytes.map(|bytes| bytes.to_string());
        let said = [renames, self.image.clone(), self.label.clone(), number, dialect.clone(), label_from.clone()];
        let said = said.into_iter().chain([key_pattern.clone(), header_bytes]);
        SAID.into_iter().zip(said).filter_map(|(name, said)| Some((name, said?)))
    }

    /// Parses the choices that [`FieldSelection::described`] wrote; `take` returns the text for a name.
    ///
    /// # Errors
    /// If a text is invalid.
    pub fn of_said(take: impl FnMut(&str) -> Option<String>) -> Result<Self> {
        let [renames, image, label, number, dialect, label_from, key_pattern, header_bytes] = SAID.map(take);
        let rename = |one: &str| one.rsplit_once(':').map(|(field, name)| (field.to_owned(), name.to_owned()));
        let names = |text: String| {
            let all = text.split(',').map(rename).collect::<Option<Vec<_>>>();
            all.ok_or_else(|| Error::data(format!("{text:?} names no fields")))
        };
        let wrong = |text: &str| Error::data(format!("{text:?} is no number of labels or bytes"));
        let number = number.map(|text| text.parse().map_err(|_| wrong(&text))).transpose()?;
        let header_bytes = header_bytes.map(|text| text.parse().map_err(|_| wrong(&text))).transpose()?;
        Ok(Self {
            image,
            label,
            label_number: number,
            renames: renames.map(names).transpose()?.unwrap_or_default(),
            entries: Entries { dialect, label_from, key_pattern, header_bytes },
            ..Self::default()
        })
    }

    /// Whether the content of the field `field` is wanted as a component.
    pub fn wants(&self, field: &str) -> bool {
        self.components.as_ref().is_none_or(|names| {
            Component::field(&self.called(field)).is_ok_and(|kind| names.iter().any(|name| name == kind.name()))
        })
    }

    /// The name of the field `field` after renames. If another field is renamed to the component name of `field`, then ` of the source`
    /// is appended, so that the names differ.
    pub fn called<'f>(&'f self, field: &'f str) -> Cow<'f, str> {
        if let Some((_, name)) = self.renames.iter().find(|(from, _)| from == field) {
            return name.into();
        }
        let own = Component::field(field).ok();
        let is_given = own.is_some_and(|own| self.renames.iter().any(|(_, name)| name == own.name()));
        if is_given { format!("{field} of the source").into() } else { field.into() }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The user's choices for databases of keys and values; the database reader interprets the words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Entries {
    /// Writer convention of the values, which also sets the default location of labels.
    pub dialect: Option<String>,
    /// Location of labels.
    pub label_from: Option<String>,
    /// Pattern of the keys.
    pub key_pattern: Option<String>,
    /// Bytes at the beginning of each value that come before the image.
    pub header_bytes: Option<u64>,
}

impl Entries {
    /// Whether the user chose nothing.
    pub fn is_unsaid(&self) -> bool {
        *self == Self::default()
    }
}

/// A record's information about the class of its sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// Nothing.
    Missing,
    /// A whole number.
    Number(i64),
    /// Text. The labels of all samples decide together whether texts are numbers or words.
    Text(Vec<u8>),
    /// A class name, even if it spells a number.
    Name(Vec<u8>),
    /// Something else, described for a message.
    Unfit(String),
}

impl Label {
    /// The label in `bytes`: text, or else an integer of 4 or 8 bytes, as numpy's `tobytes` writes it. Control characters alone are no
    /// class name.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let is_blank = |byte: &u8| matches!(byte, b' ' | 0x09..=0x0d);
        if !bytes.contains(&0) && (bytes.iter().all(is_blank) || !bytes.iter().all(u8::is_ascii_control)) {
            return Self::Text(bytes.to_vec());
        }
        let number = match bytes.len() {
            4 => bytes.as_array().map(|bytes| i64::from(i32::from_le_bytes(*bytes))),
            8 => bytes.as_array().map(|bytes| i64::from_le_bytes(*bytes)),
            _ => None,
        };
        match number {
            // A larger number is no class, and the bytes are probably no number.
            Some(number) if (0..1 << 24).contains(&number) => Self::Number(number),
            _ => Self::Unfit(format!("a label of {} bytes that are neither text nor a small number", bytes.len())),
        }
    }

    /// The integer, or the integer that the text spells.
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => whole(text),
            Self::Missing | Self::Name(_) | Self::Unfit(_) => None,
        }
    }
}

/// The integer in `text`, in canonical form only: `7`, `-1`; not `007`, `+7`, `7.0` or ` 7`. So two different texts are never the
/// same number.
pub fn whole(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    str::from_utf8(text).ok().filter(|_| is_canonical)?.parse().ok()
}

/// An image in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Name of its feature, column or extension; empty if fields have no names.
    pub name: String,
    /// Byte range of the unpacked file from which [`Foreign::image`] makes the image.
    pub fetch: Range<u64>,
    /// Length of the image in bytes.
    pub bytes: u32,
    /// Offset of its first byte in the unpacked file, or of the first byte that it is made from.
    pub offset: u64,
    /// Whether the file does not hold the image unchanged in one piece.
    pub in_parts: bool,
    /// How the format makes the image from the fetched bytes. Only that format knows the meaning. Below 2^31; 0 if there is only
    /// one way.
    pub recipe: u32,
}

/// A field of a record that is neither its image nor its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Name of the feature, column or extension.
    pub name: String,
    /// Length of its content in bytes.
    pub bytes: u64,
    /// Offset of the content, or of the bytes that it is made from, in the unpacked file. `None` if the field cannot be read as
    /// bytes or text that mean something by themselves.
    pub offset: Option<u64>,
    /// How the format makes the content from the bytes there, see [`Foreign::component`]; 0 if the content, or the
    /// items of an array, are stored unchanged. Below [`Other::RECIPES`].
    pub recipe: u32,
    /// The form of the field if it is a typed value; `None` if only its reader can interpret it.
    pub form: Option<Form>,
}

impl Other {
    /// Upper limit of recipes, exclusive.
    pub const RECIPES: u32 = 1 << 23;
    /// Bit in the recipe of a single value that selects the form from [`Form::wider`], see [`Walk::wider`].
    pub const WIDER: u32 = 1;
}

/// A record of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Byte range in the unpacked file, framing and padding included.
    pub range: Range<u64>,
    /// Its name in its format: key, id, or the record's number in its file, from 0.
    pub key: Vec<u8>,
    /// Whether `key` should be unique in a dataset.
    pub key_is_unique: bool,
    /// Name of the original image file, if the record has it.
    pub filename: Option<Vec<u8>>,
    /// Name of its class, if the record has it.
    pub class: Option<Vec<u8>>,
    /// Name of the field that holds its label; empty if fields have no names, or the record has no label.
    pub label_name: String,
    /// Its label.
    pub label: Label,
    /// Number of labels, if a record may have several.
    pub labels: usize,
    /// The image, or the reason why it cannot be read: it is damaged, or of another kind.
    pub image: Result<Image, String>,
    /// Whether the record differs from its writer's output. An undamaged record without an image holds none.
    pub is_damaged: bool,
    /// Other fields.
    pub others: Vec<Other>,
}

impl Record {
    /// Whether the record has an image or values that can be read.
    pub fn has_content(&self) -> bool {
        self.image.is_ok() || self.has_values()
    }

    /// Whether the record is a sample of values without an image.
    pub fn has_values(&self) -> bool {
        self.image.is_err() && !self.is_damaged && self.others.iter().any(|other| other.form.is_some())
    }

    /// Removes the form of each single value beside an image, because it becomes text; `wider` comes from [`Walk::wider`].
    pub fn tell_numbers(&mut self, wider: &[Option<u32>]) {
        let is_text = |(_, wider): &(&mut Other, &Option<u32>)| self.image.is_ok() && wider.is_some();
        self.others.iter_mut().zip(wider).filter(is_text).for_each(|(other, _)| other.form = None);
    }

    /// The record at `range`, number `number` of its file. All that is known so far is the reason why it has no image.
    pub fn numbered(range: Range<u64>, number: u64, no_image: String) -> Self {
        Self {
            range,
            key: number.to_string().into_bytes(),
            key_is_unique: false,
            filename: None,
            class: None,
            label_name: String::new(),
            label: Label::Missing,
            labels: 0,
            image: Err(no_image),
            is_damaged: false,
            others: Vec::new(),
        }
    }
}

/// Walks the records of a shard in file order.
pub trait Walk {
    /// The next record, with its checksums compared; `None` after the last.
    ///
    /// # Errors
    /// If the rest of the file cannot be parsed; the message has the byte.
    fn next(&mut self) -> Result<Option<Record>>;

    /// Replaces the content of `out` with the image of the record that [`Walk::next`] returned last.
    ///
    /// # Errors
    /// If the image cannot be read.
    fn image(&mut self, out: &mut Vec<u8>) -> Result<()>;

    /// Replaces the content of `out` with the first bytes of that image: [`crate::image_header::SNIFF_BYTES`], or the whole image.
    ///
    /// # Errors
    /// As [`Walk::image`].
    fn first(&mut self, out: &mut Vec<u8>) -> Result<()>;

    /// Replaces the content of `out` with all data of the last record in the unpacked file: the image, and the fields beside it. Only
    /// for files that consist of records.
    ///
    /// # Errors
    /// As [`Walk::image`].
    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.image(out)
    }

    /// For each other field of the record that [`Walk::next`] returned last: the length in bytes of its content in the form
    /// [`Form::wider`]. Only a single value has this length, and only if other records may have a list in its field, or a form that
    /// is detected from content. Beside an image, the content of such a value is its text, and [`Other::form`] is the form before
    /// widening.
    fn wider(&self) -> &[Option<u32>] {
        &[]
    }

    /// Interpretations that the file itself does not define, in a few words each.
    fn understood(&self) -> Vec<String> {
        Vec::new()
    }

    /// Problems of the file as a whole, each with the byte where it begins; complete after the last record.
    fn remarks(&mut self) -> Vec<Error> {
        Vec::new()
    }

    /// Unreadable or missing parts of the file that no record reports; complete after the last record, or after the walk
    /// has failed. Each counts as a damaged record, or as many as [`Walk::lost_records`] has.
    fn lost(&mut self) -> Vec<Error> {
        Vec::new()
    }

    /// Numbers of records that the errors of [`Walk::lost`] stand for, in their order, after that call; one each, if empty.
    fn lost_records(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Number of entries that are no records, by kind; known after the last record.
    fn passed(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Facts about the whole file, for the user, one line each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Detects and reads shards of a format, whoever wrote them.
pub trait Foreign: Send + Sync {
    /// Whether a file may have this format. `first` has its first 4 KiB, or the whole file, unpacked. `total_bytes` is its length, if
    /// it is not compressed. `name` is in lower case. A match needs a reliable sign, such as a checksum or magic; the name alone
    /// is not enough.
    fn is(&self, first: &[u8], total_bytes: Option<u64>, name: &str) -> bool;

    /// Begins to walk a file.
    ///
    /// # Errors
    /// If the first bytes cannot be read, or do not have this format.
    fn walk(&self, input: Input, wanted: &FieldSelection) -> Result<Box<dyn Walk>>;

    /// Makes the image from `fetched`, the bytes of [`Image::fetch`], as [`Image::recipe`] describes; compares the record's own
    /// checksum, if it has one.
    ///
    /// # Errors
    /// If the bytes are damaged; the message has the reason.
    fn image<'r>(&self, fetched: &'r [u8], recipe: u32, wanted: &FieldSelection) -> Result<Cow<'r, [u8]>>;

    /// Number of bytes from [`Other::offset`] on that [`Foreign::component`] needs for this recipe; `None`: as many as the image of
    /// the record needs.
    fn component_bytes(&self, _recipe: u32) -> Option<usize> {
        None
    }

    /// Makes the component from the fetched bytes, as [`Other::recipe`] describes.
    ///
    /// # Errors
    /// If the bytes are damaged; the message has the reason.
    fn component(&self, _fetched: &[u8], recipe: u32) -> Result<Vec<u8>> {
        Err(Error::data(format!("no component is made by recipe {recipe}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_spells_a_number_in_one_way() {
        for (text, number) in [("0", 0), ("7", 7), ("-1", -1), ("100", 100), ("9223372036854775807", i64::MAX)] {
            assert_eq!(whole(text.as_bytes()), Some(number), "{text}");
        }
        for text in [
            "",
            "-",
            "007",
            "00",
            "-0",
            "-07",
            "+7",
            "7.0",
            " 7",
            "7 ",
            "1_000",
            "9223372036854775808",
            "0x7",
            "\u{661}",
        ] {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
    }
}
