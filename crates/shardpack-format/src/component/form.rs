//! Forms and types of components: files, text, numbers, arrays; for one sample (a form), and for all samples (a type).
//!
//! The content of a component, in every storage format:
//! - *bytes*: a file, or bytes that are opaque here;
//! - *text*: UTF-8; *json*: a JSON text; *int*, *float*: the JSON text of a whole number of 64 bits, or of a float64;
//! - *array*: a `.npy` file, version 1.0, in C order: dtype and shape determine its head.
//!
//! So each content has an extension that readers of webdataset can decode. Formats may store it in
//! another way ([`crate::formats::Format::encode`]) and return it to the byte.

use std::fmt;

use crate::{Error, Result, npy};

/// Most axes of an array; numpy 1 has no more.
pub const MAX_AXES: usize = 32;
/// The dtype of a whole number of 64 bits, as numpy writes it.
const INT64: &str = "<i8";
/// That of a float of 64 bits.
const FLOAT64: &str = "<f8";
/// The NaN that the word for it is read as.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

/// The form of one sample's component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// A file, or bytes.
    #[default]
    Bytes,
    /// Text in UTF-8.
    Text,
    /// JSON.
    Json,
    /// A whole number of 64 bits, as JSON.
    Int,
    /// A float64 as JSON, with the fewest digits that identify it.
    Float,
    /// An array of numbers or of strings of one length, as `.npy`.
    Array {
        /// Type of an item as numpy writes it: `<f4`.
        dtype: String,
        /// Length of each axis.
        shape: Vec<u64>,
    },
}

impl Form {
    /// An array.
    ///
    /// # Errors
    /// When it has too many axes, is too long, or its dtype is not plain: numbers, booleans, strings of one length.
    pub fn array(dtype: &str, shape: &[u64]) -> Result<Self> {
        let form = Self::Array { dtype: dtype.to_owned(), shape: shape.to_vec() };
        match (form.items_bytes(), shape.len() <= MAX_AXES) {
            (Some(_), true) => Ok(form),
            _ => Err(Error::data(format!("an array of {dtype:?} and shape {shape:?}"))),
        }
    }

    /// The array in a `.npy` file of `bytes` bytes that begins with `first`, at least [`npy::PLAIN_HEAD_BYTES`] or the whole file; `None`
    /// if its head is not the one that dtype and shape determine, or if the length of the items differs.
    pub fn of_npy(first: &[u8], bytes: u64) -> Option<Self> {
        let head = npy::read_head(first).ok().filter(|head| !head.is_fortran && head.check_length(bytes).is_ok())?;
        Self::array(head.dtype, &head.shape).ok().filter(|form| first.starts_with(&form.head()))
    }

    /// The form of a file with this name, by its last extension: text, JSON, or bytes. The extensions are those of webdataset 1.0.2,
    /// `autodecode.py`.
    pub fn of_file(name: &str) -> Self {
        match name.rsplit('.').next().unwrap_or_default() {
            "txt" | "text" | "transcript" => Self::Text,
            "json" | "jsn" => Self::Json,
            _ => Self::Bytes,
        }
    }

    /// Checks the content of a value of this form, apart from arrays: text is UTF-8, and so is JSON, which may have the numbers `NaN`
    /// and `Infinity`, as Python writes them.
    ///
    /// # Errors
    /// The problem in words.
    pub fn check(&self, content: &[u8]) -> std::result::Result<(), String> {
        let text = match self {
            Self::Text | Self::Json | Self::Int | Self::Float => str::from_utf8(content),
            Self::Bytes | Self::Array { .. } => return Ok(()),
        };
        let text = text.map_err(|error| format!("byte {} is not UTF-8", error.valid_up_to()))?;
        match *self == Self::Json && !text.contains("NaN") && !text.contains("Infinity") {
            true => serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(|error| error.to_string()),
            false => Ok(()),
        }
    }

    /// The extension that files of such content have.
    pub fn extension(&self) -> &'static str {
        match self {
            Self::Bytes => "bin",
            Self::Text => "txt",
            Self::Json | Self::Int | Self::Float => "json",
            Self::Array { .. } => "npy",
        }
    }

    /// The form of a float64: an array without axes for a NaN whose bits JSON cannot represent.
    pub fn of_float(number: f64) -> Self {
        match number.is_nan() && number.to_bits() != NAN_BITS {
            true => Self::Array { dtype: FLOAT64.to_owned(), shape: Vec::new() },
            false => Self::Float,
        }
    }

    /// The form of a single value if other values of its field are lists of any length, or floats that JSON cannot represent: a list of
    /// one, or an array without axes.
    pub fn wider(&self) -> Option<Self> {
        let array = |dtype: &str, shape: &[u64]| Some(Self::Array { dtype: dtype.to_owned(), shape: shape.to_vec() });
        match self {
            Self::Int => array(INT64, &[1]),
            Self::Float => array(FLOAT64, &[]),
            Self::Text => Some(Self::Json),
            Self::Array { dtype, shape } if shape.is_empty() => array(dtype, &[1]),
            Self::Bytes | Self::Json | Self::Array { .. } => None,
        }
    }

    /// Length in bytes of the items of an array; `None` for other forms and for lengths out of range.
    pub fn items_bytes(&self) -> Option<u64> {
        let Self::Array { dtype, shape } = self else { return None };
        let item = item_bytes(dtype)?;
        if shape.contains(&0) {
            return Some(0);
        }
        shape.iter().try_fold(item, |bytes, axis| bytes.checked_mul(*axis)).filter(|bytes| *bytes < 1 << 32)
    }

    /// The bytes before the items of an array in its content; empty for other forms.
    pub fn head(&self) -> Vec<u8> {
        match self {
            Self::Array { dtype, shape } => npy::head(dtype, shape, false),
            _ => Vec::new(),
        }
    }

    /// Appends the bytes of [`Form::head`] to `out`.
    pub fn write_head(&self, out: &mut Vec<u8>) {
        if let Self::Array { dtype, shape } = self {
            npy::write_head(dtype, shape, false, out);
        }
    }

    /// Length in bytes of [`Form::head`].
    pub fn head_bytes(&self) -> u64 {
        match self {
            Self::Array { dtype, shape } => npy::head_bytes(dtype, shape, false) as u64,
            _ => 0,
        }
    }

    /// The items of an array, from its content.
    pub fn items<'c>(&self, content: &'c [u8]) -> Option<&'c [u8]> {
        let items = usize::try_from(self.items_bytes()?).ok()?;
        content.get(content.len().checked_sub(items)?..)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => f.write_str("bytes"),
            Self::Text => f.write_str("text"),
            Self::Json => f.write_str("json"),
            Self::Int => f.write_str("int"),
            Self::Float => f.write_str("float"),
            Self::Array { dtype, shape } => {
                let axes: Vec<_> = shape.iter().map(u64::to_string).collect();
                write!(f, "{dtype}[{}]", axes.join("x"))
            }
        }
    }
}

impl std::str::FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse()? {
            Type { kind: Kind::Bytes, is_optional: false } => Ok(Self::Bytes),
            Type { kind: Kind::Text, is_optional: false } => Ok(Self::Text),
            Type { kind: Kind::Json, is_optional: false } => Ok(Self::Json),
            Type { kind: Kind::Int, is_optional: false } => Ok(Self::Int),
            Type { kind: Kind::Float, is_optional: false } => Ok(Self::Float),
            Type { kind: Kind::Array { dtype: Some(dtype), shape: Some(shape) }, is_optional: false } => {
                let shape = shape.into_iter().collect::<Option<Vec<_>>>();
                shape.map_or_else(|| Err(unknown(text)), |shape| Self::array(&dtype, &shape))
            }
            _ => Err(unknown(text)),
        }
    }
}

/// The type of a component over all samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Its kind in samples that have the component.
    pub kind: Kind,
    /// Whether there are samples without it.
    pub is_optional: bool,
}

/// The kind of a component in the samples that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of all [`Form::Bytes`].
    Bytes,
    /// Of all [`Form::Text`].
    Text,
    /// JSON, whole numbers and others among it.
    Json,
    /// Of all [`Form::Int`].
    Int,
    /// Of all [`Form::Float`].
    Float,
    /// Arrays.
    Array {
        /// That of all, if they have one.
        dtype: Option<String>,
        /// Lengths of axes, where all have as many: those that all have in common.
        shape: Option<Vec<Option<u64>>>,
    },
}

impl Type {
    /// That of a single sample.
    pub fn from_form(form: &Form) -> Self {
        let kind = match form {
            Form::Bytes => Kind::Bytes,
            Form::Text => Kind::Text,
            Form::Json => Kind::Json,
            Form::Int => Kind::Int,
            Form::Float => Kind::Float,
            Form::Array { dtype, shape } => {
                Kind::Array { dtype: Some(dtype.clone()), shape: Some(shape.iter().copied().map(Some).collect()) }
            }
        };
        Self { kind, is_optional: false }
    }

    /// The common type of both; `None` if their contents have different extensions.
    pub fn join(self, other: Self) -> Option<Self> {
        let is_optional = self.is_optional || other.is_optional;
        let kind = match (self.kind, other.kind) {
            (a, b) if a == b => a,
            (Kind::Array { dtype: a, shape: p }, Kind::Array { dtype: b, shape: q }) => Kind::Array {
                dtype: a.filter(|a| Some(a) == b.as_ref()),
                shape: p
                    .zip(q)
                    .filter(|(p, q)| p.len() == q.len())
                    .map(|(p, q)| p.into_iter().zip(q).map(|(a, b)| a.filter(|a| Some(*a) == b)).collect()),
            },
            (Kind::Json | Kind::Int | Kind::Float, Kind::Json | Kind::Int | Kind::Float) => Kind::Json,
            _ => return None,
        };
        Some(Self { kind, is_optional })
    }

    /// Whether a component of this form is of this type.
    pub fn takes(&self, form: &Form) -> bool {
        self.clone().join(Self::from_form(form)).as_ref() == Some(self)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Bytes => f.write_str("bytes")?,
            Kind::Text => f.write_str("text")?,
            Kind::Json => f.write_str("json")?,
            Kind::Int => f.write_str("int")?,
            Kind::Float => f.write_str("float")?,
            Kind::Array { dtype, shape } => {
                f.write_str(dtype.as_deref().unwrap_or(ANY_DTYPE))?;
                if let Some(shape) = shape {
                    let axis = |axis: &Option<u64>| axis.map_or_else(|| "?".to_owned(), |axis| axis.to_string());
                    write!(f, "[{}]", shape.iter().map(axis).collect::<Vec<_>>().join("x"))?;
                }
            }
        }
        if self.is_optional { f.write_str(OPTIONAL) } else { Ok(()) }
    }
}

/// Stands for the dtype where arrays have several.
const ANY_DTYPE: &str = "array";
/// Ends a type where samples may lack the component.
const OPTIONAL: &str = "?";

impl std::str::FromStr for Type {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, is_optional) = text.strip_suffix(OPTIONAL).map_or((text, false), |name| (name, true));
        let kind = match name {
            "bytes" => Kind::Bytes,
            "text" => Kind::Text,
            "json" => Kind::Json,
            "int" => Kind::Int,
            "float" => Kind::Float,
            name => {
                let (dtype, shape) = match name.split_once('[') {
                    None => (name, None),
                    Some((dtype, rest)) => {
                        let axes = rest.strip_suffix(']').ok_or_else(|| unknown(text))?;
                        let axis = |axis: &str| match axis {
                            "?" => Ok(None),
                            axis => axis.parse().map(Some).map_err(|_| unknown(text)),
                        };
                        let axes = axes.split('x').filter(|_| !axes.is_empty());
                        (dtype, Some(axes.map(axis).collect::<Result<Vec<_>>>()?))
                    }
                };
                if shape.as_ref().is_some_and(|shape| shape.len() > MAX_AXES) {
                    return Err(unknown(text));
                }
                let dtype = (dtype != ANY_DTYPE).then(|| dtype.to_owned());
                if dtype.as_deref().is_some_and(|dtype| item_bytes(dtype).is_none()) {
                    return Err(unknown(text));
                }
                Kind::Array { dtype, shape }
            }
        };
        Ok(Self { kind, is_optional })
    }
}

fn unknown(text: &str) -> Error {
    Error::data(format!("{text:?} is no type of a component"))
}

/// Length in bytes of an item of a dtype as numpy writes it; `None` for dtypes that are not plain: objects, dates,
/// structures.
pub fn item_bytes(dtype: &str) -> Option<u64> {
    let mut letters = dtype.chars();
    let (order, kind) = (letters.next()?, letters.next()?);
    let digits = letters.as_str();
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    let is_known = match kind {
        'b' => count == 1,
        'i' | 'u' => [1, 2, 4, 8].contains(&count),
        'f' => [2, 4, 8, 12, 16].contains(&count),
        'c' => [8, 16, 24, 32].contains(&count),
        'S' | 'U' => true,
        _ => false,
    };
    let has_order = kind == 'U' || (kind != 'S' && count > 1);
    let is_spelled = if has_order { order == '<' || order == '>' } else { order == '|' };
    (is_known && is_spelled).then_some(if kind == 'U' { 4 * count } else { count })
}

/// Dtypes of numbers in the order of bytes of all machines of today, and the names that numpy has for them.
const NUMPY_NAMES: [(&str, &str); 14] = [
    ("|b1", "bool"),
    ("|i1", "int8"),
    ("|u1", "uint8"),
    ("<i2", "int16"),
    ("<u2", "uint16"),
    ("<i4", "int32"),
    ("<u4", "uint32"),
    ("<i8", "int64"),
    ("<u8", "uint64"),
    ("<f2", "float16"),
    ("<f4", "float32"),
    ("<f8", "float64"),
    ("<c8", "complex64"),
    ("<c16", "complex128"),
];

/// The name that numpy has for a dtype of numbers in the order of bytes of all machines of today: `float32` for `<f4`;
/// `None` for all others.
pub fn numpy_name(dtype: &str) -> Option<&'static str> {
    NUMPY_NAMES.iter().find(|(known, _)| *known == dtype).map(|(_, name)| *name)
}

/// The dtype that numpy has this name for, see [`numpy_name`]; `None` for all others.
pub fn of_numpy_name(name: &str) -> Option<&'static str> {
    NUMPY_NAMES.iter().find(|(_, known)| *known == name).map(|(dtype, _)| *dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dtype: &str, shape: &[u64]) -> Form {
        Form::array(dtype, shape).unwrap()
    }

    #[test]
    fn forms_and_types_come_back_from_their_text() {
        for form in [
            Form::Bytes,
            Form::Text,
            Form::Json,
            Form::Int,
            Form::Float,
            array("<f4", &[37, 64]),
            array("|b1", &[]),
            array(">U5", &[0, 3]),
        ] {
            assert_eq!(form.to_string().parse::<Form>().unwrap(), form);
            assert_eq!(Type::from_form(&form).to_string(), form.to_string());
        }
        for text in ["array", "<f4", "<f4[?x64]", "array[]", "array[?]?", "int?", "bytes?"] {
            assert_eq!(text.parse::<Type>().unwrap().to_string(), text);
            assert!(text.parse::<Form>().is_err(), "{text}");
        }
        for text in ["", "?", "f4", "<O8", "<f4[", "<f4[1", "<f4[1,2]", "<f4[-1]", "<f4[1x]", "|V4", "<b1", "<M8"] {
            assert!(text.parse::<Type>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_type_is_what_all_forms_have_in_common() {
        let join = |forms: &[Form]| {
            let mut types = forms.iter().map(Type::from_form);
            let first = types.next().unwrap();
            types.try_fold(first, Type::join).map(|all| all.to_string())
        };
        let says = |forms: &[Form], text: &str| assert_eq!(join(forms).as_deref(), Some(text));
        says(&[array("<f4", &[37, 64]), array("<f4", &[12, 64])], "<f4[?x64]");
        says(&[array("<f4", &[37, 64]), array("<f4", &[64])], "<f4");
        says(&[array("<f4", &[2]), array("<f8", &[2])], "array[2]");
        says(&[Form::Int, Form::Float], "json");
        says(&[Form::Int, Form::Json, Form::Int], "json");
        assert_eq!(join(&[Form::Text, Form::Json]), None);
        assert_eq!(join(&[Form::Bytes, array("<f4", &[])]), None);
        let of = |text: &str| text.parse::<Type>().unwrap();
        assert!(of("<f4[?x64]").takes(&array("<f4", &[1, 64])) && !of("<f4[?x64]").takes(&array("<f4", &[1, 63])));
        assert!(of("json?").takes(&Form::Int) && !of("int").takes(&Form::Float));
    }

    #[test]
    fn single_values_are_wider_where_others_are_lists() {
        let wider = |form: Form| form.wider().map(|form| form.to_string());
        assert_eq!(wider(Form::Int).as_deref(), Some("<i8[1]"));
        assert_eq!(wider(array("<f4", &[])).as_deref(), Some("<f4[1]"));
        assert_eq!(wider(Form::Text).as_deref(), Some("json"));
        assert_eq!(Form::of_float(1.0).wider().unwrap(), Form::of_float(f64::from_bits(NAN_BITS | 5)));
        assert_eq!(Form::of_float(f64::from_bits(NAN_BITS)), Form::Float);
        assert_eq!((wider(array("<f4", &[1])), wider(Form::Bytes)), (None, None));
        assert_eq!((of_numpy_name("float16"), of_numpy_name("<f2")), (Some("<f2"), None));
    }

    #[test]
    fn files_are_text_or_json_by_their_names_and_checked() {
        for (name, form) in [
            ("txt", Form::Text),
            ("a.transcript", Form::Text),
            ("json", Form::Json),
            ("x.json", Form::Json),
            ("mask.png", Form::Bytes),
            ("txt.gz", Form::Bytes),
        ] {
            assert_eq!(Form::of_file(name), form, "{name}");
        }
        let says = |form: Form, content: &[u8]| form.check(content).err().unwrap_or_default();
        assert_eq!(says(Form::Text, b"a\xff"), "byte 1 is not UTF-8");
        assert_eq!((says(Form::Bytes, b"\xff"), says(Form::Text, "ü".as_bytes())), (String::new(), String::new()));
        assert_eq!(says(Form::Json, br#"{"a": [1, 2.5, null], "b": NaN}"#), "");
        assert!(says(Form::Json, b"{\"a\": }").contains("line 1 column 7"));
        assert!(says(Form::Json, b"").contains("EOF"));
    }

    #[test]
    fn lengths_are_those_of_all_items() {
        assert_eq!(array("<f4", &[37, 64]).items_bytes(), Some(37 * 64 * 4));
        assert_eq!(array("<U5", &[2]).items_bytes(), Some(40));
        assert_eq!(array("<f8", &[]).items_bytes(), Some(8));
        assert_eq!(array("<f8", &[1 << 60, 0]).items_bytes(), Some(0));
        for (dtype, shape) in [("<f4", vec![1 << 31]), ("<f4", vec![1 << 40, 1 << 40]), ("<f4", vec![1; 33])] {
            assert!(Form::array(dtype, &shape).is_err(), "{dtype} {shape:?}");
        }
        let content = [array("<i2", &[2]).head(), vec![1, 0, 2, 0]].concat();
        assert_eq!(array("<i2", &[2]).items(&content), Some(&[1, 0, 2, 0][..]));
    }
}
