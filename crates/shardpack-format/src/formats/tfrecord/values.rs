//! Values in examples: how those of a type are stored, what is told of them beside, and how TensorFlow parses them.

use super::{
    example::{self, Example, List},
    layout::{HEAD_BYTES, TAG_FIRST, TAG_FLOATS, TAG_INTS, field_bytes},
};
use crate::{
    component::{self, Form, Type},
    formats::encoding::{self, Encoding},
    shell,
};

/// The dtype of numbers that lists of floats hold, as numpy writes it.
const FLOAT32: &str = "<f4";

/// How values of a type are stored, the tag of the list that they are in, and whether their dtype has to be told.
pub(super) fn stored(kind: &component::Kind) -> (Encoding, u8, bool) {
    match kind {
        component::Kind::Bytes | component::Kind::Text | component::Kind::Json => (Encoding::Content, TAG_FIRST, false),
        component::Kind::Int => (Encoding::Varints, TAG_INTS, false),
        // Lists of floats have 32 bits each.
        component::Kind::Float => (Encoding::Float, TAG_FIRST, true),
        component::Kind::Array { dtype, .. } => match dtype.as_deref() {
            Some(FLOAT32) => (Encoding::Items, TAG_FLOATS, false),
            Some(encoding::INT64) => (Encoding::Varints, TAG_INTS, false),
            _ => (Encoding::Items, TAG_FIRST, true),
        },
    }
}

/// How TensorFlow parses a value: with the shape that all have, or as a list of any length.
pub(super) fn parsed(name: &str, kind: &Type, tag: u8) -> String {
    let of = match tag {
        TAG_FLOATS => "tf.float32",
        TAG_INTS => "tf.int64",
        _ => "tf.string",
    };
    let shape = match &kind.kind {
        _ if kind.is_optional => None,
        component::Kind::Array { shape, .. } if tag != TAG_FIRST => {
            shape.as_ref().and_then(|shape| shape.iter().copied().collect::<Option<Vec<_>>>())
        }
        _ => Some(Vec::new()),
    };
    match shape {
        Some(shape) => format!("{}: tf.io.FixedLenFeature({shape:?}, {of})", shell::python(name)),
        None => format!("{}: tf.io.RaggedFeature({of})", shell::python(name)),
    }
}

/// What `NAME/dtype` says: as numpy's `dtype` takes it.
pub(super) fn dtype(form: &Form) -> &str {
    match form {
        Form::Array { dtype, .. } => component::numpy_name(dtype).unwrap_or(dtype),
        _ => "float64",
    }
}

/// What `NAME/shape` says.
pub(super) fn shape(form: &Form) -> &[u64] {
    match form {
        Form::Array { shape, .. } => shape,
        _ => &[],
    }
}

/// Whether the values of a list with this tag lie where they are told to, start and length in the record: in one field, which ends
/// the list.
pub(super) fn is_at(list: &List, tag: u8, (start, bytes): (usize, usize)) -> bool {
    let kind = match tag {
        TAG_FLOATS => example::Kind::Floats,
        TAG_INTS => example::Kind::Ints,
        _ => example::Kind::Bytes,
    };
    let range = list.range();
    list.kind == kind && range.end + HEAD_BYTES == start + bytes && range.len() as u64 == field_bytes(bytes as u64)
}

/// Whether a list says the dtype of this form.
pub(super) fn is_dtype(list: &List, form: &Form, example: &Example<'_>, data: &[u8]) -> bool {
    let found = example.only_bytes(list).and_then(|range| data.get(range));
    found == Some(dtype(form).as_bytes())
}

/// Whether a list says the shape of this form.
pub(super) fn is_shape(list: &List, form: &Form, example: &Example<'_>) -> bool {
    let axes = shape(form).iter().map(|axis| example::Value::Int(axis.cast_signed()));
    list.kind == example::Kind::Ints && example.values(list).into_iter().eq(axes)
}
