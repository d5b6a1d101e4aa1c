//! Maps types of values to their encoding in examples, to `NAME/dtype` and `NAME/shape`, and to TensorFlow's parsers.

use super::{
    example::{self, Example, List},
    layout::{HEAD_BYTES, TAG_FIRST, TAG_FLOATS, TAG_INTS, field_bytes},
};
use crate::{
    component::{self, Form, Type},
    formats::encoding::{self, Encoding},
    shell,
};

/// The dtype of the numbers in lists of floats, as numpy writes it.
const FLOAT32: &str = "<f4";

/// Encoding of a type's values, the tag of their list, and whether they need `NAME/dtype`.
pub(super) fn stored(kind: &component::Kind) -> (Encoding, u8, bool) {
    match kind {
        component::Kind::Bytes | component::Kind::Text | component::Kind::Json => (Encoding::Content, TAG_FIRST, false),
        component::Kind::Int => (Encoding::Varints, TAG_INTS, false),
        // Lists of floats hold float32 only.
        component::Kind::Float => (Encoding::Float, TAG_FIRST, true),
        component::Kind::Array { dtype, .. } => match dtype.as_deref() {
            Some(FLOAT32) => (Encoding::Items, TAG_FLOATS, false),
            Some(encoding::INT64) => (Encoding::Varints, TAG_INTS, false),
            _ => (Encoding::Items, TAG_FIRST, true),
        },
    }
}

/// Python code of TensorFlow's parser for a value: a fixed shape if all values have one, otherwise a list of any length.
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

/// Content of `NAME/dtype`, as numpy's `dtype` accepts it.
pub(super) fn dtype(form: &Form) -> &str {
    match form {
        Form::Array { dtype, .. } => component::numpy_name(dtype).unwrap_or(dtype),
        _ => "float64",
    }
}

/// Content of `NAME/shape`: the length of each axis.
pub(super) fn shape(form: &Form) -> &[u64] {
    match form {
        Form::Array { shape, .. } => shape,
        _ => &[],
    }
}

/// Whether the values of a list with this tag are in one field that ends the list, at this offset and length in bytes in the record.
pub(super) fn is_at(list: &List, tag: u8, (start, bytes): (usize, usize)) -> bool {
    let kind = match tag {
        TAG_FLOATS => example::Kind::Floats,
        TAG_INTS => example::Kind::Ints,
        _ => example::Kind::Bytes,
    };
    let range = list.range();
    list.kind == kind && range.end + HEAD_BYTES == start + bytes && range.len() as u64 == field_bytes(bytes as u64)
}

/// Whether a list holds the dtype of this form.
pub(super) fn is_dtype(list: &List, form: &Form, example: &Example<'_>, data: &[u8]) -> bool {
    let found = example.only_bytes(list).and_then(|range| data.get(range));
    found == Some(dtype(form).as_bytes())
}

/// Whether a list holds the shape of this form.
pub(super) fn is_shape(list: &List, form: &Form, example: &Example<'_>) -> bool {
    let axes = shape(form).iter().map(|axis| example::Value::Int(axis.cast_signed()));
    list.kind == example::Kind::Ints && example.values(list).into_iter().eq(axes)
}
