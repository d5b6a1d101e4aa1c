//! The schema of an Arrow file, as the parquet schema that the same table has, and the way from a row to the values of each leaf.
//!
//! Holds at all times: every column is in the parquet schema, and takes the nodes and buffers of record batches that Arrow prescribes for its
//! type, whether or not its values are read.
//!
//! Specification: <https://arrow.apache.org/docs/format/Columnar.html>, 1.5, and `Schema.fbs`. The parquet types are those that pyarrow 26
//! writes.

use std::sync::Arc;

use parquet::{
    basic::{LogicalType, Repetition, Type as Physical},
    file::metadata::KeyValue,
    schema::types::Type,
};

use crate::flat::Table;

/// Most fields within fields.
const DEPTH_LIMIT: usize = 48;
/// Maximum number of fields.
const FIELDS_LIMIT: usize = 1 << 14;

/// What the fields of a schema are.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// The columns.
    pub roots: Vec<Arc<Type>>,
    /// The leaves, in the order of the parquet schema.
    pub leaves: Vec<Leaf>,
    /// Metadata of the file.
    pub notes: Vec<KeyValue>,
    /// Nodes and buffers of a record batch, without the further buffers of views.
    pub nodes: usize,
    pub buffers: usize,
    /// Fields with views.
    pub views: usize,
    fields: usize,
    /// Bytes of names and metadata that the schema can still have: its flatbuffer may repeat one text for all fields.
    text_left: usize,
}

/// The fields from a column to the values of a leaf.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub steps: Vec<Step>,
    /// Why the values are not read.
    pub unread: Option<&'static str>,
}

impl Leaf {
    /// Id and layout of the dictionary that has the values.
    pub fn dictionary(&self) -> Option<(i64, Values)> {
        match self.steps.last()?.kind {
            Kind::Dictionary { id, values, .. } => Some((id, values)),
            _ => None,
        }
    }

    /// Whether values are in lists.
    pub fn is_list(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.kind, Kind::List { .. } | Kind::Fixed(_)))
    }
}

/// A field on the way to a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Number of its node in a record batch.
    pub node: usize,
    /// Number of its first buffer, without the further buffers of views.
    pub buffer: usize,
    /// Number of fields with views before it.
    pub views: usize,
    pub kind: Kind,
}

/// Layout of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Struct,
    /// With offsets of 64 bits, else 32.
    List {
        is_wide: bool,
    },
    /// Lists of this length.
    Fixed(u64),
    Values(Values),
    /// Numbers of values in a dictionary.
    Dictionary {
        id: i64,
        index: Values,
        values: Values,
    },
}

/// Layout of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Values {
    Null,
    Bool,
    /// Bytes of this length; parquet stores whole numbers of less than 32 bits in 32.
    Plain(u64),
    Narrow {
        bytes: u64,
        is_signed: bool,
    },
    /// Bytes or text, with offsets of 64 bits or 32.
    Bytes {
        is_wide: bool,
    },
    Views,
}

/// A type of the schema.
enum Layout {
    Values(Values, Physical, Option<LogicalType>),
    Struct,
    List {
        is_wide: bool,
    },
    Fixed(u64),
    /// Not read: its name, whether it has a buffer that marks nulls, and its further buffers.
    Unread {
        name: &'static str,
        has_validity: bool,
        buffers: usize,
    },
}

impl Schema {
    /// Reads the table `Schema` of a message of metadata version `version`, counted from 0.
    ///
    /// # Errors
    /// If it is corrupt, or a type is unknown.
    pub fn read(schema: &Table<'_>, version: u16, metadata_bytes: usize) -> Result<Self, String> {
        if schema.u16(0)? != 0 {
            return Err("numbers are big-endian, which is not supported".to_owned());
        }
        let mut new = Self { text_left: metadata_bytes, ..Self::default() };
        for field in schema.tables(1)? {
            let (kind, leaves) = new.field(&field?, version, 0, None)?;
            new.roots.push(kind);
            new.leaves.extend(leaves);
        }
        new.add_notes(schema, 2)?;
        Ok(new)
    }

    /// Adds metadata, a list of keys and values in this field of a table.
    ///
    /// # Errors
    /// If it is corrupt.
    pub fn add_notes(&mut self, table: &Table<'_>, number: usize) -> Result<(), String> {
        for note in table.tables(number)? {
            let note = note?;
            let mut text =
                |number: usize| if note.has(number) { self.text(note.bytes(number)?) } else { Ok(String::new()) };
            let (key, value) = (text(0)?, text(1)?);
            if !self.notes.iter().any(|known| known.key == key) {
                self.notes.push(KeyValue::new(key, value));
            }
        }
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) -> Result<String, String> {
        let left = self.text_left.checked_sub(bytes.len());
        self.text_left = left.ok_or_else(|| "a damaged flatbuffer".to_owned())?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The parquet type and the leaves of a field; a list calls its only child `name`.
    fn field(
        &mut self,
        field: &Table<'_>,
        version: u16,
        depth: usize,
        name: Option<&str>,
    ) -> Result<(Arc<Type>, Vec<Leaf>), String> {
        self.fields += 1;
        if depth > DEPTH_LIMIT || self.fields > FIELDS_LIMIT {
            return Err(format!("more than {FIELDS_LIMIT} fields, or more than {DEPTH_LIMIT} within one another"));
        }
        let own = if field.has(0) { self.text(field.bytes(0)?)? } else { String::new() };
        let name = name.map_or(own, str::to_owned);
        let layout = layout(field, version).map_err(|what| format!("field {name:?}: {what}"))?;
        let mut step =
            Step { node: self.nodes, buffer: self.buffers, views: self.views, kind: Kind::Values(Values::Null) };
        self.nodes += 1;
        if let Some(encoding) = field.table_opt(4)? {
            return self.dictionary(&encoding, layout, step, &name);
        }
        let children =
            matches!(layout, Layout::Struct | Layout::List { .. } | Layout::Fixed(_) | Layout::Unread { .. });
        self.buffers += match layout {
            Layout::Values(Values::Null, ..) => 0,
            Layout::Values(Values::Bytes { .. }, ..) => 3,
            Layout::Values(..) | Layout::List { .. } => 2,
            Layout::Struct | Layout::Fixed(_) => 1,
            Layout::Unread { has_validity, buffers, .. } => usize::from(has_validity) + buffers,
        };
        if matches!(layout, Layout::Values(Values::Views, ..)) {
            self.views += 1;
        }
        let of_list = matches!(layout, Layout::List { .. } | Layout::Fixed(_)).then_some("element");
        let mut inner = Vec::new();
        for child in field.tables(5)?.take_while(|_| children) {
            inner.push(self.field(&child?, version, depth + 1, of_list)?);
        }
        step.kind = match layout {
            Layout::Values(values, physical, logical) => {
                step.kind = Kind::Values(values);
                return Ok((leaf(&name, physical, logical, values)?, vec![Leaf { steps: vec![step], unread: None }]));
            }
            Layout::Unread { name: what, .. } => return unread(&name, step, what),
            Layout::Struct if inner.is_empty() => return unread(&name, step, "a structure without fields"),
            Layout::Struct => Kind::Struct,
            Layout::List { is_wide } => Kind::List { is_wide },
            Layout::Fixed(items) => Kind::Fixed(items),
        };
        let (kinds, leaves): (Vec<_>, Vec<Vec<Leaf>>) = inner.into_iter().unzip();
        if of_list.is_some() && kinds.len() != 1 {
            return Err(format!("field {name:?}: a list of {} fields", kinds.len()));
        }
        let mut leaves: Vec<Leaf> = leaves.into_iter().flatten().collect();
        leaves.iter_mut().for_each(|leaf| leaf.steps.insert(0, step));
        Ok((group(&name, kinds, of_list.is_some())?, leaves))
    }

    /// A column whose batches hold numbers of values in a dictionary.
    fn dictionary(
        &mut self,
        encoding: &Table<'_>,
        layout: Layout,
        mut step: Step,
        name: &str,
    ) -> Result<(Arc<Type>, Vec<Leaf>), String> {
        self.buffers += 2;
        let index = match encoding.table_opt(1)? {
            Some(index) => int(&index)?,
            None => (4, true),
        };
        let index = match index {
            (bytes @ (1 | 2), is_signed) => Values::Narrow { bytes, is_signed },
            (bytes, _) => Values::Plain(bytes),
        };
        match layout {
            Layout::Values(values, physical, logical)
                if !matches!(values, Values::Null | Values::Bool | Values::Views) =>
            {
                step.kind = Kind::Dictionary { id: encoding.u64(0)?.cast_signed(), index, values };
                Ok((leaf(name, physical, logical, values)?, vec![Leaf { steps: vec![step], unread: None }]))
            }
            _ => unread(name, step, "a dictionary of structures, lists or views"),
        }
    }
}

/// A column that is only counted.
fn unread(name: &str, step: Step, what: &'static str) -> Result<(Arc<Type>, Vec<Leaf>), String> {
    // A type whose values nobody reads.
    let kind = Type::primitive_type_builder(name, Physical::INT96).with_repetition(Repetition::OPTIONAL).build();
    let leaf = Leaf { steps: vec![step], unread: Some(what) };
    Ok((Arc::new(kind.map_err(|error| error.to_string())?), vec![leaf]))
}

fn leaf(name: &str, physical: Physical, logical: Option<LogicalType>, values: Values) -> Result<Arc<Type>, String> {
    let length = match (physical, values) {
        (Physical::FIXED_LEN_BYTE_ARRAY, Values::Plain(bytes)) => {
            i32::try_from(bytes).map_err(|_| "a length beyond 31 bits")?
        }
        _ => -1,
    };
    let kind = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    let kind = kind.with_logical_type(logical).with_length(length).build();
    kind.map(Arc::new).map_err(|error| error.to_string())
}

/// A structure of `fields`, or a list of the one field.
fn group(name: &str, fields: Vec<Arc<Type>>, is_list: bool) -> Result<Arc<Type>, String> {
    let built =
        |kind: Result<Type, parquet::errors::ParquetError>| kind.map(Arc::new).map_err(|error| error.to_string());
    let kind = Type::group_type_builder(name).with_repetition(Repetition::OPTIONAL);
    if !is_list {
        return built(kind.with_fields(fields).build());
    }
    let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED).with_fields(fields).build();
    built(kind.with_logical_type(Some(LogicalType::List)).with_fields(vec![built(list)?]).build())
}

/// Bytes and sign of a whole number.
fn int(kind: &Table<'_>) -> Result<(u64, bool), String> {
    match kind.u32(0)? {
        bits @ (8 | 16 | 32 | 64) => Ok((u64::from(bits) / 8, kind.u8(1)? != 0)),
        bits => Err(format!("a whole number of {bits} bits")),
    }
}

/// Type of a field. The numbers are those of `Schema.fbs`.
fn layout(field: &Table<'_>, version: u16) -> Result<Layout, String> {
    use Values as V;
    let kind = || field.table(3);
    let unread = |name, buffers| Ok(Layout::Unread { name, has_validity: true, buffers });
    let bytes = |is_wide| Layout::Values(V::Bytes { is_wide }, Physical::BYTE_ARRAY, None);
    let text = |values| Layout::Values(values, Physical::BYTE_ARRAY, Some(LogicalType::String));
    Ok(match field.u8(2)? {
        1 => Layout::Values(V::Null, Physical::INT32, Some(LogicalType::Unknown)),
        2 => {
            let (bytes, is_signed) = int(&kind()?)?;
            let values = if bytes < 4 { V::Narrow { bytes, is_signed } } else { V::Plain(bytes) };
            let physical = if bytes == 8 { Physical::INT64 } else { Physical::INT32 };
            Layout::Values(values, physical, Some(LogicalType::integer(8 * bytes as i8, is_signed)))
        }
        3 => match kind()?.u16(0)? {
            0 => Layout::Values(V::Plain(2), Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16)),
            1 => Layout::Values(V::Plain(4), Physical::FLOAT, None),
            2 => Layout::Values(V::Plain(8), Physical::DOUBLE, None),
            other => return Err(format!("a float of precision {other}")),
        },
        4 => bytes(false),
        5 => text(V::Bytes { is_wide: false }),
        6 => Layout::Values(V::Bool, Physical::BOOLEAN, None),
        7 => return unread("a decimal", 1),
        8 => return unread("a date", 1),
        9 => return unread("a time", 1),
        10 => return unread("a timestamp", 1),
        11 => return unread("an interval", 1),
        12 => Layout::List { is_wide: false },
        13 => Layout::Struct,
        14 => {
            // Before version 5, unions had a buffer for nulls. A dense one has offsets, too.
            let buffers = if kind()?.u16(0)? == 0 { 1 } else { 2 };
            return Ok(Layout::Unread { name: "a union", has_validity: version < VERSION_5, buffers });
        }
        15 => match kind()?.u32(0)? {
            0 => return unread("values without bytes", 1),
            bytes => Layout::Values(V::Plain(bytes.into()), Physical::FIXED_LEN_BYTE_ARRAY, None),
        },
        16 => Layout::Fixed(kind()?.u32(0)?.into()),
        // Lists of structures of key and value.
        17 => Layout::List { is_wide: false },
        // pyarrow stores it in parquet so, too.
        18 => Layout::Values(V::Plain(8), Physical::INT64, None),
        19 => bytes(true),
        20 => text(V::Bytes { is_wide: true }),
        21 => Layout::List { is_wide: true },
        22 => return Ok(Layout::Unread { name: "runs of equal values", has_validity: false, buffers: 0 }),
        23 => Layout::Values(V::Views, Physical::BYTE_ARRAY, None),
        24 => text(V::Views),
        25 | 26 => return unread("a view of lists", 2),
        other => return Err(format!("the type with the number {other} is not supported")),
    })
}

/// Metadata version 5, counted from 0.
const VERSION_5: u16 = 4;
