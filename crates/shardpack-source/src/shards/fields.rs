//! Collects the fields of a file's records, with their forms and locations.
//!
//! Holds at all times: each field of a sample is in [`Fields::found`], is not wanted, or is counted in [`Fields::missed`].

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shardpack_format::{
    component::{Component, Form},
    formats::foreign::Other,
    sample::Forms,
};

use super::shard_reader;
use crate::{
    component_table::{Cell, Interner},
    options::{Components, Options},
};

/// Extension of the label in a tar.
const LABEL: &str = "cls";
/// Component name for a `cls` member whose values are not valid classes.
const UNBELIEVED: &str = "cls.txt";

/// A field of some samples of a file.
pub(super) struct Field {
    pub name: String,
    /// The component for this field, with the type of the first sample that has a typed value.
    pub component: Component,
    /// Whether its values are single values, which may become the wider form.
    pub is_single: bool,
}

/// One field of one sample.
pub(super) struct FieldValue {
    /// Index into [`Fields::all`].
    pub field: u32,
    pub bytes: u32,
    /// Number of the value's form, or [`Forms::BYTES`].
    pub form: u32,
    /// Length in bytes of the value in its wider form, if it is a single value; otherwise 0.
    pub wider_bytes: u32,
    /// Location and decode recipe, see [`shard_reader::component_stamp`].
    pub stamp: i64,
}

/// Field name, extension of the value's form if it has one, and whether the value is a single one.
type Key = (String, Option<&'static str>, bool);

/// The fields of a file's samples that may become components.
#[derive(Default)]
pub(super) struct Fields {
    /// Field names are file extensions; a field whose content has no other type is a file.
    pub are_files: bool,
    /// The fields belong to samples with an image. Single values are then stored as text unless other values of the field are lists.
    pub are_beside: bool,
    pub all: Vec<Field>,
    /// Field numbers by key; `None` for a field that cannot or should not become a component.
    known: HashMap<Key, Option<u32>>,
    /// Keys and numbers of the previous sample's fields in order. Most samples have the same fields in the same order.
    last: Vec<(Key, Option<u32>)>,
    /// Form numbers of the previous sample's fields, by position.
    last_forms: Vec<u32>,
    /// Fields of all samples, concatenated.
    pub found: Vec<FieldValue>,
    pub forms: Interner,
    /// For each field name: the number of samples that have the field but whose value cannot be read as stored.
    pub missed: BTreeMap<String, u64>,
}

impl Fields {
    /// Adds the fields of a sample and returns the total number of fields added so far.
    ///
    /// `wider` is the value of [`shardpack_format::formats::foreign::Walk::wider`] for this record.
    pub fn take(&mut self, others: &[Other], wider: &[Option<u32>], options: &Options) -> u64 {
        let first = self.found.len();
        for (at, other) in others.iter().enumerate() {
            let wider_bytes = wider.get(at).copied().flatten();
            let Some(field) = self.number(at, other, wider_bytes.is_some(), options) else { continue };
            let bytes = u32::try_from(other.bytes).ok().filter(|bytes| *bytes != Cell::ABSENT.bytes);
            let stamp = other.offset.and_then(|offset| shard_reader::component_stamp(offset, other.recipe));
            match (stamp, bytes) {
                (Some(stamp), Some(bytes)) if self.found[first..].iter().all(|known| known.field != field) => {
                    let form =
                        value_form(other, self.are_files).map_or(Forms::BYTES, |form| self.form_number(at, form));
                    self.found.push(FieldValue { field, bytes, form, wider_bytes: wider_bytes.unwrap_or(0), stamp });
                }
                _ => *self.missed.entry(other.name.clone()).or_default() += 1,
            }
        }
        self.found.len() as u64
    }

    /// Number of the form of a field that is at position `at` of its sample.
    fn form_number(&mut self, at: usize, form: &Form) -> u32 {
        let last = self.last_forms.get(at).copied().filter(|last| self.forms.forms().get(*last as usize) == Some(form));
        if let Some(last) = last {
            return last;
        }
        let number = self.forms.number(form);
        if self.last_forms.len() <= at {
            self.last_forms.resize(at + 1, Forms::BYTES);
        }
        self.last_forms[at] = number;
        number
    }

    /// The forms of each field, [`Forms::BYTES`] among them: numbers of field and form.
    pub fn forms_of_fields(&self) -> BTreeSet<(u32, u32)> {
        // Most values of a field have the form of the value before.
        let mut last = vec![None; self.all.len()];
        let is_new = |found: &&FieldValue| last[found.field as usize].replace(found.form) != Some(found.form);
        self.found.iter().filter(is_new).map(|found| (found.field, found.form)).collect()
    }

    /// Number of a field that is at position `at` of its sample.
    fn number(&mut self, at: usize, other: &Other, is_single: bool, options: &Options) -> Option<u32> {
        let is_text = is_single && self.are_beside;
        let extension = value_form(other, self.are_files).filter(|_| !is_text).map(Form::extension);
        if let Some((key, number)) = self.last.get(at)
            && (&*key.0, key.1, key.2) == (&*other.name, extension, is_single)
        {
            return *number;
        }
        let key = (other.name.clone(), extension, is_single);
        let number = match self.known.get(&key) {
            Some(known) => *known,
            None => self.new_number(&key, other, options),
        };
        self.last.truncate(at);
        self.last.push((key, number));
        number
    }

    /// Number of a field that was not seen before.
    fn new_number(&mut self, key: &Key, other: &Other, options: &Options) -> Option<u32> {
        let is_single = key.2;
        let component = match is_single && self.are_beside {
            true => Component::field(&other.name).ok(),
            false => component(other, self.are_files),
        };
        let is_wanted = |one: &Component| match &options.components {
            // A sample of values needs a payload even with `--components none`.
            Components::None => other.form.is_some(),
            Components::All => options.components.wants_field(&other.name),
            components => {
                // A single value may become a component with another name than its own form gives.
                let form = other.form.as_ref().filter(|_| is_single);
                let taken = form.into_iter().flat_map(|form| Conversion::ALL.map(|taken| taken.form(form)));
                let mut values = taken.filter_map(|form| Component::value(&other.name, &form).ok());
                // An array in a `.npz` is a file in the archive and can also be named without its extension.
                components.wants_field(&other.name)
                    || [one.name(), one.column()].iter().any(|name| components.wants(name))
                    || values.any(|one| components.wants(one.name()))
            }
        };
        let number = component.filter(is_wanted).map(|component| {
            self.all.push(Field { name: other.name.clone(), component, is_single });
            self.all.len() as u32 - 1
        });
        self.known.insert(key.clone(), number);
        number
    }
}

/// The form of a field's value; `None` if the value is bytes or is one of the files of a sample.
fn value_form(field: &Other, are_files: bool) -> Option<&Form> {
    field.form.as_ref().filter(|form| !are_files || **form != Form::Bytes)
}

/// The component for a field; if `are_files`, the field name is a file extension. `None` if the name is not a valid component name.
pub(super) fn component(field: &Other, are_files: bool) -> Option<Component> {
    match value_form(field, are_files) {
        // A `cls` member that is not used as the label gets another name: `cls` is reserved for the label.
        None if are_files && field.name == LABEL => Component::field(UNBELIEVED),
        None => Component::field(&field.name),
        Some(form) => Component::value(&field.name, form),
    }
    .ok()
}

/// Conversion applied to a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    /// No conversion.
    Itself,
    /// To the wider form: other values of the field have that type.
    Wider,
    /// Text to bytes: other values of the field are not text.
    Bytes,
    /// To plain text without a form: a single value next to an image, as are the other values of the field.
    Told,
}

impl Conversion {
    const ALL: [Self; 3] = [Self::Itself, Self::Wider, Self::Bytes];

    /// Conversion of single values of `form`, if `others` are the extensions of the field's other values.
    ///
    /// `is_text` is true if single values of the field are stored as text.
    pub fn for_form(form: &Form, others: Option<&BTreeSet<&'static str>>, is_text: bool) -> Self {
        let have = |form: &Form| others.is_some_and(|others| others.contains(form.extension()));
        match form.wider() {
            Some(wider) if have(&wider) => Self::Wider,
            _ if is_text => Self::Told,
            Some(_) if *form == Form::Text && have(&Form::Bytes) => Self::Bytes,
            _ => Self::Itself,
        }
    }

    /// The form after conversion.
    pub fn form(self, form: &Form) -> Form {
        match self {
            Self::Wider => form.wider().unwrap_or_default(),
            Self::Bytes => Form::Bytes,
            Self::Itself | Self::Told => form.clone(),
        }
    }
}
