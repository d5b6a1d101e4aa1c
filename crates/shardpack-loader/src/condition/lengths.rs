//! Lengths of samples, to put similar ones into a batch: of arrays, files and numbers, or the aspect of images.
//!
//! Holds at all times: lengths compare as the numbers behind them, rounded to float32; a sample without a length comes before
//! all others. The length of an array is in the index; other components are read. Memory: 4 bytes a sample.

use std::sync::Arc;

use shardpack_format::{
    Error, Result,
    component::{Form, Number},
};
use shardpack_reader::Dataset;

use super::{
    Name,
    columns::{Buffers, Column, Content, Found, Row, extension},
    compare::Value,
    parse::read_number,
    scan::of_shards,
};
use crate::order::{Selection, length_key};

/// The lengths of the samples of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths(Arc<[u32]>);

/// The option, in messages.
const OPTION: &str = "bucket_by";

/// The kinds of length.
enum Measure {
    /// Width through height, as stored.
    Aspect,
    Column(Column),
    Component {
        number: usize,
        name: String,
        members: Vec<String>,
    },
}

impl Lengths {
    /// The lengths by `name` of the samples of `of`, a selection of `dataset`; of other samples there are none.
    ///
    /// # Errors
    /// If `name` is no column, or has neither numbers nor lengths; if a component cannot be read, or no sample has a length.
    pub(crate) fn find(name: &str, dataset: &Dataset, of: &Selection) -> Result<Self> {
        let measure = Measure::find(name, dataset)?;
        let found = of_shards(dataset, |shard, buffers| {
            let samples = shard.samples();
            let mut keys = vec![0; usize::try_from(shard.len()).unwrap_or(usize::MAX)];
            for selected in of.before(samples.start)..of.before(samples.end) {
                let number = of.number(selected) - samples.start;
                let row = Row { shard, number, row: shard.row(number)? };
                let length = measure.of(&row, buffers);
                let length = length.map_err(|error| error.in_file(shard.path()).in_sample(row.row.name()))?;
                keys[number as usize] = length.map_or(0, length_key);
            }
            Ok(keys)
        })?;
        let keys = found.concat();
        match keys.iter().any(|key| *key > 0) || of.is_empty() {
            true => Ok(Self(keys.into())),
            false => Err(Error::usage(format!("{OPTION}: no sample has {name:?}")).in_file(dataset.folder())),
        }
    }

    /// Number of samples of the dataset.
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Whether a length is below 0.
    pub(crate) fn has_negative(&self) -> bool {
        self.0.iter().any(|key| (1..length_key(-0.0)).contains(key))
    }

    /// A number that compares as the length of sample `number` does, which is in the dataset.
    pub(crate) fn of(&self, number: u64) -> u32 {
        self.0[number as usize]
    }
}

fn single(number: Number) -> f32 {
    match number {
        Number::Whole(whole) => whole as f32,
        Number::Single(single) => single,
        Number::Double(double) => double as f32,
    }
}

impl Measure {
    fn find(name: &str, dataset: &Dataset) -> Result<Self> {
        if name == "aspect" {
            return Ok(Self::Aspect);
        }
        let component = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        let name =
            Name { text: component.unwrap_or(name).to_owned(), is_component: component.is_some(), is_length: false };
        match Found::find(OPTION, &name, dataset)? {
            Found::Own(column) if column.is_text() == Some(true) => {
                Err(Error::usage(format!("{OPTION}: {} is text, and batches are ordered by numbers", column.name()))
                    .in_file(dataset.folder()))
            }
            Found::Own(column) => Ok(Self::Column(column)),
            Found::Component(number, members) => {
                Ok(Self::Component { number, name: dataset.manifest().components[number].clone(), members })
            }
        }
    }

    /// The length of a sample; `None` if it has none.
    fn of(&self, row: &Row<'_>, buffers: &mut Buffers) -> Result<Option<f32>> {
        match self {
            Self::Aspect => {
                let image = &row.row.image;
                Ok((image.width > 0 && image.height > 0).then(|| image.width as f32 / image.height as f32))
            }
            Self::Column(column) => Ok(match row.value(column, buffers)? {
                Some(Value::Number(number)) => Some(single(number)),
                _ => None,
            }),
            Self::Component { number, name, members } => of_component(row, *number, name, members, buffers),
        }
    }
}

/// Items of an array, bytes of text or of a file, a number, or members of a list in JSON.
fn of_component(
    row: &Row<'_>,
    number: usize,
    name: &str,
    members: &[String],
    buffers: &mut Buffers,
) -> Result<Option<f32>> {
    let Some(form) = row.row.form(number) else { return Ok(None) };
    let form_of_name = if *form == Form::Bytes { Form::of_file(name) } else { form.clone() };
    if !members.is_empty() && form_of_name != Form::Json {
        return Err(Error::usage(format!("{OPTION}: {name} is no JSON with members")));
    }
    match form_of_name {
        // The index has the shape.
        Form::Array { shape, .. } if !shape.is_empty() => return Ok(Some(items(&shape))),
        Form::Text | Form::Bytes if extension(name) != "npy" => {
            return Ok(row.row.content_bytes(number).map(|bytes| bytes as f32));
        }
        _ => {}
    }
    let wrong = || Error::data(format!("component {name:?}: no number"));
    use serde_json::Value as Json;
    match row.read(number, name, members, buffers)? {
        Some(Content::Array { dtype, shape, items: content }) => match &shape[..] {
            [] => Number::of_item(&dtype, &content).map(|item| Some(single(item))).ok_or_else(wrong),
            shape => Ok(Some(items(shape))),
        },
        Some(Content::Number(number)) => Ok(Some(single(number))),
        None | Some(Content::Json(None | Some(Json::Null))) => Ok(None),
        Some(Content::Json(Some(Json::Array(items)))) => Ok(Some(items.len() as f32)),
        Some(Content::Json(Some(Json::Number(number)))) => {
            read_number(&number.to_string()).map(|number| Some(single(number))).ok_or_else(wrong)
        }
        Some(Content::Json(_) | Content::Text(_) | Content::File) => {
            Err(Error::usage(format!("{OPTION}: {name} has neither a number nor a list here")))
        }
    }
}

fn items(shape: &[u64]) -> f32 {
    shape.iter().fold(1, |all: u64, axis| all.saturating_mul(*axis)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_shapes_are_lengths() {
        assert_eq!(single(Number::Whole(1 << 20)), 1_048_576.0);
        assert_eq!((items(&[3, 4]), items(&[0]), items(&[u64::MAX, 2])), (12.0, 0.0, u64::MAX as f32));
    }
}
