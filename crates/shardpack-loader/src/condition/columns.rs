//! The columns of a condition: data of the index, and single values of components.
//!
//! Holds at all times: a value is read from the shard only if the index does not have it. Values that a network or disk may have
//! damaged are compared with their hashes.

use std::{borrow::Cow, collections::BTreeMap};

use shardpack_format::{
    Error, Result,
    component::{Form, Kind, Number, Type},
    formats::declared_types,
    hash, image_header,
    index::RowRef,
};
use shardpack_reader::{Dataset, Scratch, Shard, Window};

use super::{Name, compare::Value, parse::read_number};

/// A column of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Width,
    Height,
    Bytes,
    Label,
    Class,
    Key,
    Path,
    Kind,
    /// A component, or a member of JSON in it.
    Component {
        /// Its number in the manifest.
        number: usize,
        name: String,
        /// The names of members, from the outermost.
        members: Vec<String>,
        /// Whether all values are text, or none is; `None` if that is not known.
        is_text: Option<bool>,
    },
    /// The length of a component, or of a member of JSON in it.
    Length {
        /// As for a component.
        number: usize,
        name: String,
        members: Vec<String>,
    },
}

/// The columns that every dataset has.
const COLUMNS: [(&str, Column); 8] = [
    ("width", Column::Width),
    ("height", Column::Height),
    ("bytes", Column::Bytes),
    ("label", Column::Label),
    ("class", Column::Class),
    ("key", Column::Key),
    ("path", Column::Path),
    ("kind", Column::Kind),
];

/// Where a dataset has a column.
pub(super) enum Found {
    Own(Column),
    /// The number of a component, and the names of members of JSON in it, from the outermost.
    Component(usize, Vec<String>),
}

impl Found {
    /// Column `name` of `dataset`, as `option` names it.
    ///
    /// # Errors
    /// If there is none, or several components could be meant.
    pub fn find(option: &str, name: &Name, dataset: &Dataset) -> Result<Self> {
        let own = COLUMNS.iter().find(|(known, _)| *known == name.text && !name.is_component);
        if let Some((_, column)) = own {
            return Ok(Self::Own(column.clone()));
        }
        let components = &dataset.manifest().components;
        // `json.score`: the longest part that is a component, then its members.
        let ends = name.text.match_indices('.').map(|(end, _)| end).rev();
        for end in std::iter::once(name.text.len()).chain(ends) {
            let found = matching(&name.text[..end], components);
            if let [number] = found[..] {
                return Ok(Self::Component(number, name.text[end..].split('.').skip(1).map(str::to_owned).collect()));
            }
            if !found.is_empty() {
                let names: Vec<_> = found.iter().map(|number| components[*number].as_str()).collect();
                return Err(Error::usage(format!("{option}: {:?} may be {}", name.text, names.join(" or ")))
                    .in_file(dataset.folder()));
            }
        }
        let own = COLUMNS.map(|(known, _)| known).join(", ");
        let what = format!(
            "{option}: no column {:?}; there are {own}, and the components {}",
            name.text,
            components.join(", ")
        );
        Err(Error::usage(what).in_file(dataset.folder()))
    }
}

impl Column {
    /// Column `name` of `dataset`.
    ///
    /// # Errors
    /// If there is none, several components could be meant, or the component has no single numbers or texts.
    pub fn find(name: &Name, dataset: &Dataset) -> Result<Self> {
        match Found::find("where", name, dataset)? {
            Found::Own(column) if name.is_length => {
                let what = format!("where: len({}): a single value has no length", column.name());
                Err(Error::usage(what).in_file(dataset.folder()))
            }
            Found::Own(column) => Ok(column),
            Found::Component(number, members) if name.is_length => {
                Ok(Self::Length { number, name: dataset.manifest().components[number].clone(), members })
            }
            Found::Component(number, members) => Self::component(number, members, dataset),
        }
    }

    fn component(number: usize, members: Vec<String>, dataset: &Dataset) -> Result<Self> {
        let manifest = dataset.manifest();
        let name = manifest.components[number].clone();
        let mut types: BTreeMap<String, Type> = declared_types(&manifest.format.settings)?;
        let declared = types.remove(&name).map(|declared| declared.kind);
        let refused = |what: String| {
            Err(Error::usage(format!("where: {name} is {what}, and a condition compares single numbers and texts"))
                .in_file(dataset.folder()))
        };
        let is_text = match (&declared, Form::of_file(&name)) {
            (Some(Kind::Text), _) => Some(true),
            (Some(Kind::Int | Kind::Float), _) => Some(false),
            (Some(Kind::Array { shape: Some(shape), .. }), _) => {
                if shape.iter().any(|axis| axis.is_some_and(|axis| axis != 1)) {
                    return refused("an array of several values".to_owned());
                }
                Some(false)
            }
            (Some(Kind::Array { .. }), _) => Some(false),
            (Some(Kind::Json), _) => None,
            (_, Form::Text) => Some(true),
            (_, Form::Json) => None,
            _ if extension(&name) == "npy" => Some(false),
            // The manifest does not declare the type of each component, but the rows have its form.
            (None, _) if number > 0 || !has_images(dataset)? => None,
            _ => return refused("a file".to_owned()),
        };
        if !members.is_empty() && is_text.is_some() {
            return refused("no JSON with members".to_owned());
        }
        Ok(Self::Component { number, name, members, is_text })
    }

    /// Whether all values are text, or none is; `None` if that is not known.
    pub fn is_text(&self) -> Option<bool> {
        match self {
            Self::Width | Self::Height | Self::Bytes | Self::Label | Self::Length { .. } => Some(false),
            Self::Class | Self::Key | Self::Path | Self::Kind => Some(true),
            Self::Component { is_text, .. } => *is_text,
        }
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Component { name, .. } | Self::Length { name, .. } => name,
            own => COLUMNS.iter().find(|(_, column)| column == own).map_or("", |(name, _)| name),
        }
    }

    /// Whether text in this column may be compared with numbers.
    pub fn is_component(&self) -> bool {
        matches!(self, Self::Component { .. })
    }
}

pub(super) fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, extension)| extension)
}

/// Whether the first sample has an image as its payload.
fn has_images(dataset: &Dataset) -> Result<bool> {
    let kind = if dataset.is_empty() { image_header::Kind::Unknown } else { dataset.row(0)?.image.kind };
    Ok(!matches!(kind, image_header::Kind::Unknown | image_header::Kind::Npy))
}

/// The components that are called `name`, or, if there is none, `name` with the extension of a value.
fn matching(name: &str, components: &[String]) -> Vec<usize> {
    let find = |is_it: &dyn Fn(&str) -> bool| -> Vec<usize> {
        components.iter().enumerate().filter(|(_, one)| is_it(one)).map(|(number, _)| number).collect()
    };
    let exact = find(&|one| one == name);
    if !exact.is_empty() {
        return exact;
    }
    let is_value = |extension: &str| extension == "npy" || Form::of_file(extension) != Form::Bytes;
    find(&|one| one.rsplit_once('.').is_some_and(|(stem, extension)| stem == name && is_value(extension)))
}

/// Buffers to read components.
#[derive(Default)]
pub(super) struct Buffers {
    window: Window,
    scratch: Scratch,
    /// The shard of the bytes in the window.
    shard: Option<usize>,
}

/// The content of a component.
pub(super) enum Content<'r> {
    Array {
        dtype: Cow<'r, str>,
        shape: Cow<'r, [u64]>,
        items: Vec<u8>,
    },
    Text(String),
    /// A number as text.
    Number(Number),
    /// JSON, or a member of it; `None` if there is no such member.
    Json(Option<serde_json::Value>),
    /// A file of another kind.
    File,
}

/// The values of a sample.
pub(super) struct Row<'d> {
    pub shard: Shard<'d>,
    /// Its number in the shard.
    pub number: u64,
    pub row: RowRef<'d>,
}

impl<'d> Row<'d> {
    /// The value in `column`; `None` if it is missing.
    ///
    /// # Errors
    /// If it cannot be read, or is no single number or text.
    pub fn value(&self, column: &Column, buffers: &mut Buffers) -> Result<Option<Value<'d>>> {
        let row = &self.row;
        let whole = |whole: i128| Some(Value::Number(Number::Whole(whole)));
        let text = |bytes: &'d [u8]| Some(Value::Text(String::from_utf8_lossy(bytes)));
        Ok(match column {
            Column::Width => whole(row.image.width.into()).filter(|_| row.image.width > 0),
            Column::Height => whole(row.image.height.into()).filter(|_| row.image.height > 0),
            Column::Bytes => row.component(0).and_then(|payload| whole(payload.bytes.into())),
            Column::Label => row.label.and_then(|label| whole(label.into())),
            Column::Class => {
                row.label.and_then(|label| self.shard.dataset().class_name(label)).map(|name| Value::Text(name.into()))
            }
            Column::Key => text(row.key),
            Column::Path => text(row.path),
            Column::Kind if row.image.kind == image_header::Kind::Unknown => None,
            Column::Kind => Some(Value::Text(row.image.kind.name().into())),
            Column::Component { number, name, members, .. } => {
                let located = |error: Error| error.in_file(self.shard.path()).in_sample(row.name());
                self.component(*number, name, members, buffers).map_err(located)?
            }
            Column::Length { number, name, members } => {
                let located = |error: Error| error.in_file(self.shard.path()).in_sample(row.name());
                let length = self.length(*number, name, members, buffers).map_err(located)?;
                length.and_then(|length| whole(length.into()))
            }
        })
    }

    /// Rows of an array, items of a list in JSON; `None` if the sample has none.
    fn length(&self, number: usize, name: &str, members: &[String], buffers: &mut Buffers) -> Result<Option<u64>> {
        use serde_json::Value as Json;
        // The index has the shape.
        if let Some(Form::Array { shape, .. }) = self.row.form(number)
            && let Some(rows) = shape.first()
        {
            return Ok(Some(*rows));
        }
        match self.read(number, name, members, buffers)? {
            None | Some(Content::Json(None | Some(Json::Null))) => Ok(None),
            Some(Content::Array { shape, .. }) if !shape.is_empty() => Ok(Some(shape[0])),
            Some(Content::Json(Some(Json::Array(items)))) => Ok(Some(items.len() as u64)),
            _ => Err(Error::usage(format!("where: len({name}): neither an array nor a list"))),
        }
    }

    fn component(
        &self,
        number: usize,
        name: &str,
        members: &[String],
        buffers: &mut Buffers,
    ) -> Result<Option<Value<'d>>> {
        match self.read(number, name, members, buffers)? {
            None | Some(Content::Json(None)) => Ok(None),
            Some(Content::Array { dtype, items, .. }) => single(name, &dtype, &items).map(Some),
            Some(Content::Text(text)) => Ok(Some(Value::Text(Cow::Owned(text)))),
            Some(Content::Number(number)) => Ok(Some(Value::Number(number))),
            Some(Content::Json(Some(member))) => of_json(name, &member),
            Some(Content::File) => {
                Err(Error::usage(format!("where: {name} is a file, and a condition compares single numbers and texts")))
            }
        }
    }

    /// Reads component `number`, which has this name; `None` if the sample lacks it.
    pub fn read(
        &self,
        number: usize,
        name: &str,
        members: &[String],
        buffers: &mut Buffers,
    ) -> Result<Option<Content<'_>>> {
        let Some(form) = self.row.form(number) else { return Ok(None) };
        let stored = self.stored(number, buffers)?;
        let format = self.shard.dataset().format()?;
        let wrong = |what: &str| Error::data(format!("component {name:?}: {what}"));
        if let Form::Array { dtype, shape } = form {
            let items = format.items(number, form, &stored)?.ok_or_else(|| wrong("shorter than its items"))?;
            let (dtype, shape) = (Cow::Borrowed(&dtype[..]), Cow::Borrowed(&shape[..]));
            return Ok(Some(Content::Array { dtype, shape, items: items.into_owned() }));
        }
        let content = format.decode(number, form, &stored)?;
        if *form == Form::Bytes && extension(name) == "npy" {
            let array = Form::of_npy(&content, content.len() as u64);
            let items = array.as_ref().and_then(|array| array.items(&content)).map(<[u8]>::to_vec);
            return match (array, items) {
                (Some(Form::Array { dtype, shape }), Some(items)) => {
                    Ok(Some(Content::Array { dtype: dtype.into(), shape: shape.into(), items }))
                }
                _ => Err(wrong("no array of numpy in C order")),
            };
        }
        let text = || str::from_utf8(&content).map_err(|_| wrong("not UTF-8"));
        let form = if *form == Form::Bytes { Form::of_file(name) } else { form.clone() };
        Ok(Some(match form {
            Form::Text => Content::Text(text()?.to_owned()),
            // JSON has no word for NaN.
            Form::Int | Form::Float => Content::Number(read_number(text()?).ok_or_else(|| wrong("no number"))?),
            Form::Json => {
                let mut all: serde_json::Value =
                    serde_json::from_slice(&content).map_err(|error| wrong(&error.to_string()))?;
                let member = members.iter().try_fold(&mut all, |all, name| all.get_mut(name));
                Content::Json(member.map(serde_json::Value::take))
            }
            Form::Bytes | Form::Array { .. } => Content::File,
        }))
    }

    /// The stored bytes of component `number`, which the sample has.
    fn stored(&self, number: usize, buffers: &mut Buffers) -> Result<Vec<u8>> {
        let (row, shard) = (&self.row, &self.shard);
        let extent = row.component(number).unwrap_or_default();
        let expected = row.component_hash(number);
        let may_damage = shard.dataset().access().may_damage;
        // A payload may be stored in parts. A component without a hash of its own is compared with its whole record.
        if number > 0 && (expected.is_some() || !may_damage) {
            let start = row.offset + u64::from(extent.offset);
            let range = start..start + u64::from(extent.bytes);
            if buffers.shard.replace(shard.number()) != Some(shard.number())
                || buffers.window.get(range.clone()).is_none()
            {
                shard.fill(&mut buffers.window, &mut buffers.scratch, range.clone())?;
            }
            let bytes = buffers.window.get(range).unwrap_or_default();
            if expected.is_none_or(|expected| hash::component(bytes) == expected) {
                return Ok(bytes.to_vec());
            }
        }
        let sample = shard.sample_alone(self.number)?;
        let sample = shard.accept(sample, may_damage)?;
        sample.check_frame()?;
        Ok(if number == 0 { sample.bytes() } else { extent.slice(sample.record()).unwrap_or_default() }.to_vec())
    }
}

/// The only item of an array.
fn single<'v>(name: &str, dtype: &str, items: &[u8]) -> Result<Value<'v>> {
    Number::of_item(dtype, items).map(Value::Number).ok_or_else(|| {
        let what =
            format!("where: {name} has {} bytes of {dtype}, and a condition compares single numbers", items.len());
        Error::usage(what)
    })
}

fn of_json<'v>(name: &str, value: &serde_json::Value) -> Result<Option<Value<'v>>> {
    use serde_json::Value as Json;
    let number = match value {
        Json::Null => return Ok(None),
        Json::String(text) => return Ok(Some(Value::Text(text.clone().into()))),
        Json::Bool(one) => Some(Number::Whole((*one).into())),
        Json::Number(number) => read_number(&number.to_string()),
        Json::Array(_) | Json::Object(_) => None,
    };
    let unlike =
        || Error::usage(format!("where: {name} has lists or members here, and a condition compares single values"));
    number.map(|number| Some(Value::Number(number))).ok_or_else(unlike)
}
