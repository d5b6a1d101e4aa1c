//! How values are coded: as images, pickles, msgpack, `pyarrow.serialize` or Caffe's `Datum`.

use super::super::plain::{self, Value};

/// How values are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Image,
    Pickle,
    Msgpack,
    Arrow,
    Datum,
}

impl Coding {
    /// Name of the coding.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "images as they are",
            Self::Pickle => "pickles",
            Self::Msgpack => "msgpack",
            Self::Arrow => "of pyarrow.serialize",
            Self::Datum => "Caffe's Datum",
        }
    }

    /// The plain data that a value of this making is.
    pub fn decoded(self, input: &[u8]) -> Result<Value, String> {
        let value = match self {
            Self::Image | Self::Datum => Err("not plain data".to_owned()),
            Self::Pickle => plain::pickle(input),
            Self::Msgpack => plain::msgpack(input),
            Self::Arrow => plain::arrow(input),
        };
        value.map(in_order)
    }
}

/// A map whose keys are 0, 1, … is the list of its values.
pub(super) fn in_order(value: Value) -> Value {
    let is_place = |(place, (key, _)): (i64, &(Value, Value))| *key == Value::Int(place);
    match value {
        Value::Map(entries) if !entries.is_empty() && (0..).zip(&entries).all(is_place) => {
            Value::List(entries.into_iter().map(|(_, value)| value).collect())
        }
        value => value,
    }
}
