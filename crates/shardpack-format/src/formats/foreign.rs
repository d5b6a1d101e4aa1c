//! Shards by any writer: detected from their first bytes, walked record by record, trusting nothing.
//!
//! Holds at all times: a length is checked against the rest of the file before anything is allocated for it; each
//! step goes forward; names in a file are names and never opened; a problem in one record is reported in that record, and
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
pub struct Wanted {
    /// Name of the field that holds the image; found by looking, if `None`.
    pub image: Option<String>,
    /// Name of the field that holds the label; found by looking, if `None`.
    pub label: Option<String>,
    /// Index of the label that is the class, from 0, if a record has several. If `None`, several labels are a component.
    pub label_number: Option<usize>,
    /// Samples have no labels, whatever the records contain: no label is looked for, and an invalid label is no reason to refuse.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_labels: bool,
    /// Names of the wanted components, see [`Component::field`]; all, if `None`. Nobody needs the content of the
    /// others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<String>>,
    /// Fields that get other names, and these: names of components.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renames: Vec<(String, String)>,
    /// Of keys with values.
    #[serde(default, skip_serializing_if = "Entries::is_unsaid")]
    pub entries: Entries,
}

/// Names of the texts from [`Wanted::said`], the same as the command line options.
pub const SAID: [&str; 8] =
    ["fields", "image_feature", "label_feature", "label_index", "from", "label_from", "key_pattern", "skip_header"];

impl Wanted {
    /// Whether several labels of a record are a component, and no class: neither option names one.
    pub fn takes_one_label(&self) -> bool {
        self.label.is_none() && self.label_number.is_none()
    }

    /// Whether the user chose nothing.
    pub fn is_unsaid(&self) -> bool {
        *self == Self::default()
    }

    /// The choices for fields, labels and keys, as text, each with its name, as a manifest stores them.
    pub fn said(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Entries { dialect, label_from, key_pattern, header_bytes } = &self.entries;
        let renames: Vec<_> = self.renames.iter().map(|(field, name)| format!("{field}:{name}")).collect();
        let renames = (!renames.is_empty()).then(|| renames.join(","));
        let number = self.label_number.map(|number| number.to_string());
        let header_bytes = header_bytes.map(|bytes| bytes.to_string());
        let said = [renames, self.image.clone(), self.label.clone(), number, dialect.clone(), label_from.clone()];
        let said = said.into_iter().chain([key_pattern.clone(), header_bytes]);
        SAID.into_iter().zip(said).filter_map(|(name, said)| Some((name, said?)))
    }

    /// Parses the choices that [`Wanted::said`] wrote; `take` returns the text for a name.
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

    /// Whether the content of the field `field` is, as a component.
    pub fn wants(&self, field: &str) -> bool {
        self.components.as_ref().is_none_or(|names| {
            Component::field(&self.called(field)).is_ok_and(|kind| names.iter().any(|name| name == kind.name()))
        })
    }

    /// The component name of the field `field`. If another field gets that name, the name is marked as the source's.
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

/// The user's choices for keys with values, as databases have them; their reader interprets the words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Entries {
    /// How values are made, and where labels usually are then.
    pub dialect: Option<String>,
    /// Where labels are.
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
    /// Text: the labels of all samples decide whether it spells a number or is a word.
    Text(Vec<u8>),
    /// A word, even if it spells a number: the name of a class.
    Name(Vec<u8>),
    /// Something else, described for a message.
    Unfit(String),
}

impl Label {
    /// The label that bytes are: text, or where they are none, a whole number of 4 or 8 bytes, as numpy's `tobytes` writes one; no
    /// class is called by control characters.
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
            // A larger one is no class, and more likely no number.
            Some(number) if (0..1 << 24).contains(&number) => Self::Number(number),
            _ => Self::Unfit(format!("a label of {} bytes that are neither text nor a small number", bytes.len())),
        }
    }

    /// The number that it is, or spells.
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => whole(text),
            Self::Missing | Self::Name(_) | Self::Unfit(_) => None,
        }
    }
}

/// The number that `text` spells in the one way in which a program writes it: `7`, `-1`; not `007`, `+7`, `7.0` or ` 7`, so that two
/// texts are never one number.
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
    /// Name of its field: feature, column or extension; empty where fields have no names.
    pub name: String,
    /// The bytes of the unpacked file that [`Foreign::image`] makes the image of.
    pub fetch: Range<u64>,
    /// Length of the image in bytes.
    pub bytes: u32,
    /// Offset of its first byte in the unpacked file, or of the first byte that it is made from.
    pub offset: u64,
    /// Whether it does not lie there in one piece, as it is.
    pub in_parts: bool,
    /// How the format makes the image from the fetched bytes; meaningful to that format alone; 0 if there is only one
    /// way; below 2^31.
    pub recipe: u32,
}

/// A field of a record that is neither its image nor its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its name: feature, column or extension.
    pub name: String,
    /// Length of its content in bytes.
    pub bytes: u64,
    /// Offset of the content, or of the bytes that it is made from, in the unpacked file; `None` if it cannot be read as bytes or text that
    /// mean something by themselves.
    pub offset: Option<u64>,
    /// How the format makes the content from the bytes there, see [`Foreign::component`]; 0 if the content, or the
    /// items of an array, are stored unchanged; below [`Other::RECIPES`].
    pub recipe: u32,
    /// The form of the field, if it is a value of a kind; `None` if only its reader knows.
    pub form: Option<Form>,
}

impl Other {
    /// Recipes are numbers below this.
    pub const RECIPES: u32 = 1 << 23;
    /// Added to the recipe of a single value to make the wider form of [`Form::wider`], see [`Walk::wider`].
    pub const WIDER: u32 = 1;
}

/// A record of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it lies in the unpacked file, framing and padding included.
    pub range: Range<u64>,
    /// Its name in its format: key, id, or the record's number in its file, from 0.
    pub key: Vec<u8>,
    /// Whether `key` should be unique in a dataset.
    pub key_is_unique: bool,
    /// Name of the image file that it was made from, if the record has it.
    pub filename: Option<Vec<u8>>,
    /// Name of its class, if the record has it.
    pub class: Option<Vec<u8>>,
    /// Name of the field that holds its label; empty where fields have no names, or there is none.
    pub label_name: String,
    /// Its label.
    pub label: Label,
    /// How many labels it has, where a record may have several.
    pub labels: usize,
    /// Its image, or why it has none that can be had: it is damaged, or of another kind.
    pub image: Result<Image, String>,
    /// Whether the record differs from the writer's output; otherwise a record without an image holds none.
    pub is_damaged: bool,
    /// Other fields.
    pub others: Vec<Other>,
}

impl Record {
    /// Whether there is anything in it that can be had: an image, or values.
    pub fn has_content(&self) -> bool {
        self.image.is_ok() || self.has_values()
    }

    /// Whether it is a sample of values alone.
    pub fn has_values(&self) -> bool {
        self.image.is_err() && !self.is_damaged && self.others.iter().any(|other| other.form.is_some())
    }

    /// Removes the forms of values beside an image, which become text; `wider` comes from [`Walk::wider`].
    pub fn tell_numbers(&mut self, wider: &[Option<u32>]) {
        let is_text = |(_, wider): &(&mut Other, &Option<u32>)| self.image.is_ok() && wider.is_some();
        self.others.iter_mut().zip(wider).filter(is_text).for_each(|(other, _)| other.form = None);
    }

    /// The record at `range`, number `number` of its file; so far only the reason why it has no image is known.
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

/// Walks the records of a shard in the order in which they lie.
pub trait Walk {
    /// The next record, its checksums compared; `None` behind the last.
    ///
    /// # Errors
    /// If the rest of the file cannot be parsed; the message has the byte.
    fn next(&mut self) -> Result<Option<Record>>;

    /// The image of the record that [`Walk::next`] gave last; it replaces what `out` holds.
    ///
    /// # Errors
    /// When it cannot be read.
    fn image(&mut self, out: &mut Vec<u8>) -> Result<()>;

    /// First bytes of that image, [`crate::image_header::SNIFF_BYTES`] if it has so many; they replace what `out` holds.
    ///
    /// # Errors
    /// As [`Walk::image`].
    fn first(&mut self, out: &mut Vec<u8>) -> Result<()>;

    /// All data of the last record in the unpacked file, if the file consists of records: the image, and the fields beside
    /// it.
    ///
    /// # Errors
    /// As [`Walk::image`].
    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.image(out)
    }

    /// For each other field of the record that [`Walk::next`] returned last: its encoded length in bytes as [`Form::wider`]. Only a
    /// single value has one, if its field may be a list, or if its form is detected from its content, in other records.
    /// Beside an image, the content of such a value is its text, and its form comes from the wider form.
    fn wider(&self) -> &[Option<u32>] {
        &[]
    }

    /// How the file was understood where it does not say so itself, in a few words each.
    fn understood(&self) -> Vec<String> {
        Vec::new()
    }

    /// Problems of the file as a whole, after the last record: each with the byte where it begins.
    fn remarks(&mut self) -> Vec<Error> {
        Vec::new()
    }

    /// Parts of the file that are unreadable or missing and that no record reports; complete after the last record, or when the walk
    /// has failed. Each counts as a damaged record.
    fn lost(&mut self) -> Vec<Error> {
        Vec::new()
    }

    /// Contents of the file that are no records, by kind, with their number: known after the last record.
    fn passed(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Facts about the file that no record has, a line each, for a person.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A format, as far as shards of others are concerned.
pub trait Foreign: Send + Sync {
    /// Whether a file may be of this format, by its first bytes (4 KiB, or all it has, unpacked), its length where it is
    /// not compressed, and its name in lower case. Sure signs only: a checksum or magic, not the name alone.
    fn is(&self, first: &[u8], total_bytes: Option<u64>, name: &str) -> bool;

    /// Begins to walk a file.
    ///
    /// # Errors
    /// When its first bytes cannot be read, or are none of this format.
    fn walk(&self, input: Input, wanted: &Wanted) -> Result<Box<dyn Walk>>;

    /// The image that [`Image::recipe`] makes of the bytes of [`Image::fetch`]; the record's own checksum, if it has
    /// one, is compared.
    ///
    /// # Errors
    /// If the bytes are damaged; the message has the reason.
    fn image<'r>(&self, fetched: &'r [u8], recipe: u32, wanted: &Wanted) -> Result<Cow<'r, [u8]>>;

    /// How many bytes [`Foreign::component`] makes a component of, from [`Other::offset`] on: `None` for as many as the image of
    /// the record is made of.
    fn component_bytes(&self, _recipe: u32) -> Option<usize> {
        None
    }

    /// The component that [`Other::recipe`] makes of the fetched bytes.
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
