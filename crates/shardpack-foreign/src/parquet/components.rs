//! Converts the columns beside image and label to components: cells become bytes.
//!
//! Bytes and text stay unchanged, a number or boolean becomes its text, lists and structures become JSON; `values.rs` decides
//! which lists are arrays instead. A null is omitted. Cells that JSON cannot represent in full are only reported by name:
//! bytes in lists that are no text, dates and decimals, and lists of more than [`Plain::MAX_VALUES`].
//!
//! Memory holds one page per column; unwanted columns are not read.

use std::{ops::Range, sync::Arc};

use parquet::{
    basic::{ConvertedType, LogicalType, Repetition, Type as Physical},
    schema::types::{SchemaDescriptor, Type},
};
use shardpack_format::{
    Error, Result,
    formats::foreign::{FieldSelection, Plain},
};

use super::super::Bytes;
use super::{
    cells::{Cells, Value, dtype, is_fixed_bytes, is_number},
    errors::in_place,
    footer::Footer,
    leaf::{open, rows as group_rows},
    pages::Pages,
};

/// Field name of the bytes of a file in a column.
pub(super) const BYTES: &str = "bytes";
/// Most leaves that are read: each has a page in memory.
const MAX_LEAVES: usize = 256;

/// A column, or the part of one that is a component by itself.
#[derive(Clone, Debug)]
pub(super) struct Component {
    pub name: String,
    /// Range of its leaves in the schema.
    pub leaves: Range<usize>,
    /// Nesting of the cells; `None` if they are not read.
    pub node: Option<Node>,
    /// Whether the values are floats of 32 bits, or truth values, for each leaf.
    kinds: Vec<Physical>,
    /// Whether a NaN with bits that JSON cannot represent makes its cell unrepresentable: true if the cell is the whole
    /// sample.
    is_exact: bool,
}

/// Kind of rows whose columns are read.
#[derive(Clone, Copy)]
pub(super) enum Rows<'w> {
    /// Images with the wanted fields beside them.
    Images(&'w FieldSelection),
    /// Samples that are no images.
    Values,
}

/// Nesting of values, with the levels that encode it.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// The values of a leaf, by its number in the column.
    Leaf(usize),
    /// Nothing below this definition level.
    Optional(i16, Box<Self>),
    /// Elements: none below this definition level; each begins at this repetition level.
    List(i16, i16, Box<Self>),
    Structure(Vec<(String, Self)>),
}

/// The levels of a list.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    /// Definition level that its elements have at least.
    pub definition: i16,
    /// Repetition level that elements but the first begin at.
    pub repetition: i16,
}

impl Node {
    /// The lists around the values of a single leaf, outermost first; `None` if the values have other parents.
    pub fn lists(&self) -> Option<Vec<Levels>> {
        match self {
            Self::Leaf(_) => Some(Vec::new()),
            Self::Optional(_, inner) => inner.lists(),
            Self::List(definition, repetition, inner) => {
                let mut lists = inner.lists()?;
                lists.insert(0, Levels { definition: *definition, repetition: *repetition });
                Some(lists)
            }
            Self::Structure(_) => None,
        }
    }

    /// The first of its leaves, and the one after the last.
    fn leaves(&self) -> Range<usize> {
        match self {
            Self::Leaf(leaf) => *leaf..*leaf + 1,
            Self::Optional(_, inner) | Self::List(.., inner) => inner.leaves(),
            Self::Structure(members) => {
                let ends = members.first().zip(members.last());
                ends.map_or(0..0, |((_, first), (_, last))| first.leaves().start..last.leaves().end)
            }
        }
    }
}

/// The cells of a column in a row group.
pub(super) struct Opened(pub Vec<Cells>);

/// Content of a column in a row.
pub(super) enum Content {
    /// Nothing.
    Absent,
    /// This.
    Is(Vec<u8>),
    /// Content that cannot be represented.
    Untold,
}

/// A row of a leaf: each value, or nothing, with its definition and repetition level.
type Row = Vec<(i16, i16, Option<Value>)>;

impl Component {
    /// The components that the column `root` is.
    pub fn from_column(footer: &Footer, root: &Type, rows: Rows<'_>, leaves_left: &mut usize) -> Vec<Self> {
        let schema = footer.metadata.file_metadata().schema_descr();
        let name = root.name();
        let own = leaves_of(schema, name);
        let found = match file_members(root) {
            Some(members) => {
                let (level, mut start) = (i16::from(root.is_optional()), own.start);
                let member = |kind: &Arc<Type>| {
                    let mut leaves = 0;
                    let node = match node(kind, level, 0, &mut leaves, false) {
                        within if level == 0 || matches!(within, Node::Optional(..)) => within,
                        within => Node::Optional(level, Box::new(within)),
                    };
                    let own = start..start + leaves;
                    start = own.end;
                    let called = if kind.name() == BYTES { name.to_owned() } else { format!("{name}.{}", kind.name()) };
                    Self::new(footer, called, own, node, rows)
                };
                members.iter().map(member).collect()
            }
            None => vec![Self::new(footer, name.to_owned(), own, node(root, 0, 0, &mut 0, false), rows)],
        };
        let is_wanted = |name: &str| match rows {
            Rows::Images(wanted) => wanted.wants(name),
            // One column is the payload.
            Rows::Values => true,
        };
        let take = |one: Self| {
            let left = leaves_left.checked_sub(one.leaves.len()).filter(|_| is_wanted(&one.name));
            match left {
                Some(left) if one.node.is_some() => {
                    *leaves_left = left;
                    one
                }
                _ => Self { node: None, ..one },
            }
        };
        found.into_iter().map(take).collect()
    }

    /// How many leaves are read at most.
    pub fn most_leaves() -> usize {
        MAX_LEAVES
    }

    fn new(footer: &Footer, name: String, leaves: Range<usize>, node: Node, rows: Rows<'_>) -> Self {
        let are_values = matches!(rows, Rows::Values);
        let schema = footer.metadata.file_metadata().schema_descr();
        // Of an array, a row is not made text of.
        let is_array = node.lists().is_some() && dtype(&schema.column(leaves.start)).is_some();
        let is_read = |leaf: usize| {
            let column = schema.column(leaf);
            let is_of_bytes = column.physical_type() == Physical::BYTE_ARRAY && is_bytes_or_text(&column);
            let is_value = dtype(&column).is_some() || is_fixed_bytes(&column);
            let mut groups = (0..footer.metadata.num_row_groups()).filter(|group| group_rows(footer, *group) > 0);
            (is_number(&column) || is_of_bytes || is_value)
                && groups.all(|group| {
                    let are_few = || footer.values(group, leaf).is_none_or(|values| Pages::are_few(&column, values));
                    Pages::are_read(footer.metadata.row_group(group).column(leaf))
                        && (are_values || is_array || are_few())
                })
        };
        let is_read = !leaves.is_empty() && leaves.clone().all(is_read);
        let kinds = leaves.clone().map(|leaf| schema.column(leaf).physical_type()).collect();
        Self { name, leaves, node: is_read.then_some(node), kinds, is_exact: are_values }
    }

    /// Whether the cells of the column are read.
    pub fn is_read(&self) -> bool {
        self.node.is_some()
    }

    /// Its cells in a row group.
    pub fn open(&self, file: &Arc<Bytes>, footer: &Footer, group: usize) -> Result<Opened> {
        let leaves = if self.is_read() { self.leaves.clone() } else { 0..0 };
        leaves.map(|leaf| open(file, footer, group, leaf)).collect::<Result<_>>().map(Opened)
    }

    /// Content of the next row.
    pub fn next(&self, opened: &mut Opened, group: usize) -> Result<Content> {
        let Some(node) = &self.node else { return Ok(Content::Untold) };
        let row = |cells: &mut Cells| cells.next_levels().map_err(|error| in_place(error, group, &cells.name()));
        let rows: Vec<Row> = opened.0.iter_mut().map(row).collect::<Result<_>>()?;
        if rows.iter().map(Vec::len).sum::<usize>() > Plain::MAX_VALUES {
            return Ok(Content::Untold);
        }
        let mut at: Vec<Range<usize>> = rows.iter().map(|row| 0..row.len()).collect();
        let mut inner = node;
        while let Node::Optional(level, within) = inner {
            if first(node, &rows, &at)? < *level {
                return Ok(Content::Absent);
            }
            inner = within;
        }
        let mut out = Vec::new();
        if let Node::Leaf(leaf) = inner {
            match rows.get(*leaf).and_then(|row| row.first()).map(|(.., value)| value) {
                Some(Some(Value::Bytes(bytes))) => out.extend_from_slice(bytes.data()),
                Some(Some(value)) => match self.plain(value, *leaf) {
                    Some(plain) => plain.write(&mut out),
                    None => return Ok(Content::Untold),
                },
                _ => return Ok(Content::Absent),
            }
            return Ok(Content::Is(out));
        }
        Ok(if self.write(inner, &rows, &mut at, &mut out)? { Content::Is(out) } else { Content::Untold })
    }

    fn plain<'v>(&self, value: &'v Value, leaf: usize) -> Option<Plain<'v>> {
        let is_untold =
            self.is_exact && matches!(value, Value::Real(real) if real.is_nan() && real.to_bits() != NAN_BITS);
        if is_untold { None } else { plain(value, self.kinds[leaf]) }
    }

    /// Appends the elements of a list of `inner`, as [`Self::write`].
    fn write_items(
        &self,
        inner: &Node,
        repetition: i16,
        rows: &[Row],
        at: &mut [Range<usize>],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let leaves = inner.leaves();
        let whole: Vec<Range<usize>> = at[leaves.clone()].to_vec();
        let mut ends: Vec<usize> = whole.iter().map(|range| range.start).collect();
        let mut number = 0;
        while ends.iter().zip(&whole).any(|(end, whole)| *end < whole.end) {
            for ((leaf, end), whole) in leaves.clone().zip(&mut ends).zip(&whole) {
                let start = *end;
                // The first begins where the list does.
                let is_next = |(_, level, _): &(i16, i16, Option<Value>)| *level <= repetition;
                let rest = rows[leaf].get(start + 1..whole.end).unwrap_or_default();
                *end = rest.iter().position(is_next).map_or(whole.end, |next| start + 1 + next);
                if start >= whole.end {
                    return Err(Error::data("lists of a structure have different numbers of elements"));
                }
                at[leaf] = start..*end;
            }
            if number > 0 {
                out.push(b',');
            }
            number += 1;
            if !self.write(inner, rows, at, out)? {
                return Ok(false);
            }
        }
        at[leaves].clone_from_slice(&whole);
        Ok(true)
    }

    /// Appends the rows in `at` to `out`; returns `false` if they cannot be represented.
    fn write(&self, node: &Node, rows: &[Row], at: &mut [Range<usize>], out: &mut Vec<u8>) -> Result<bool> {
        match node {
            Node::Leaf(leaf) => {
                let value =
                    rows.get(*leaf).and_then(|row| row.get(at[*leaf].start)).and_then(|(.., value)| value.as_ref());
                let plain = value.map_or(Some(Plain::Null), |value| self.plain(value, *leaf));
                plain.inspect(|plain| plain.write(out)).map_or(Ok(false), |_| Ok(true))
            }
            Node::Optional(level, inner) => match first(inner, rows, at)? < *level {
                true => {
                    Plain::Null.write(out);
                    Ok(true)
                }
                false => self.write(inner, rows, at, out),
            },
            Node::Structure(members) => {
                out.push(b'{');
                for (number, (name, inner)) in members.iter().enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    Plain::Text(name).write(out);
                    out.push(b':');
                    if !self.write(inner, rows, at, out)? {
                        return Ok(false);
                    }
                }
                out.push(b'}');
                Ok(true)
            }
            Node::List(definition, repetition, inner) => {
                out.push(b'[');
                let is_written =
                    first(inner, rows, at)? < *definition || self.write_items(inner, *repetition, rows, at, out)?;
                if !is_written {
                    return Ok(false);
                }
                out.push(b']');
                Ok(true)
            }
        }
    }
}

/// The first definition level in the content of `node`.
fn first(node: &Node, rows: &[Row], at: &[Range<usize>]) -> Result<i16> {
    let leaf = node.leaves().start;
    let first = rows.get(leaf).and_then(|row| row.get(at.get(leaf)?.start));
    first.map(|(level, ..)| *level).ok_or_else(|| Error::data("a row without values"))
}

fn plain(value: &Value, kind: Physical) -> Option<Plain<'_>> {
    Some(match value {
        Value::Number(number) if kind == Physical::BOOLEAN => Plain::Bool(*number != 0),
        Value::Number(number) => Plain::Whole((*number).into()),
        Value::Large(number) => Plain::Whole((*number).into()),
        // It was one.
        Value::Real(number) if kind == Physical::FLOAT => Plain::Single(*number as f32),
        Value::Real(number) => Plain::Double(*number),
        Value::Bytes(bytes) => Plain::Text(str::from_utf8(bytes.data()).ok()?),
        Value::Other => return None,
    })
}

/// The NaN that is made of the word for it.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

/// Whether bytes are bytes or text, and not an amount of money or the like.
fn is_bytes_or_text(column: &parquet::schema::types::ColumnDescriptor) -> bool {
    use ConvertedType as C;
    use LogicalType as L;
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(kind), _) => matches!(kind, L::String | L::Enum | L::Json | L::Bson),
        (None, kind) => matches!(kind, C::NONE | C::UTF8 | C::ENUM | C::JSON | C::BSON),
    }
}

/// The members of a file column as `datasets` writes it: a struct of bytes, path and further fields.
fn file_members(root: &Type) -> Option<&[Arc<Type>]> {
    let Type::GroupType { fields, .. } = root else { return None };
    let info = root.get_basic_info();
    let is_repeated = info.has_repetition() && info.repetition() == Repetition::REPEATED;
    let is_bytes = |kind: &Arc<Type>| {
        kind.name() == BYTES && kind.is_primitive() && kind.get_physical_type() == Physical::BYTE_ARRAY
    };
    (!is_repeated && fields.len() > 1 && fields.iter().any(is_bytes)).then_some(fields)
}

/// The leaves of the column `name`, which stand beside each other.
fn leaves_of(schema: &SchemaDescriptor, name: &str) -> Range<usize> {
    let is_own = |leaf: &usize| schema.column(*leaf).path().parts().first().is_some_and(|root| root == name);
    let start = (0..schema.num_columns()).find(is_own).unwrap_or(0);
    start..start + (start..schema.num_columns()).take_while(is_own).count()
}

/// The node for a type whose parents have these levels; `is_list` if the type is the repeated part of a list.
fn node(kind: &Type, definition: i16, repetition: i16, leaves: &mut usize, is_list: bool) -> Node {
    let info = kind.get_basic_info();
    let repeats = if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED };
    match repeats {
        Repetition::REQUIRED => inner(kind, definition, repetition, leaves),
        Repetition::OPTIONAL => {
            Node::Optional(definition + 1, Box::new(inner(kind, definition + 1, repetition, leaves)))
        }
        Repetition::REPEATED => {
            let (definition, repetition) = (definition + 1, repetition + 1);
            // `list` of `element`; in the form of before, the group is the element itself.
            let is_old = kind.name() == "array" || kind.name().ends_with("_tuple");
            let element = match kind {
                Type::GroupType { fields, .. } if is_list && !is_old && fields.len() == 1 => {
                    node(&fields[0], definition, repetition, leaves, false)
                }
                kind => inner(kind, definition, repetition, leaves),
            };
            Node::List(definition, repetition, Box::new(element))
        }
    }
}

fn inner(kind: &Type, definition: i16, repetition: i16, leaves: &mut usize) -> Node {
    let Type::GroupType { fields, .. } = kind else {
        *leaves += 1;
        return Node::Leaf(*leaves - 1);
    };
    let is_repeated = |field: &Type| {
        let info = field.get_basic_info();
        info.has_repetition() && info.repetition() == Repetition::REPEATED
    };
    match &**fields {
        [one] if is_repeated(one) => {
            let info = kind.get_basic_info();
            let is_list = info.converted_type() == ConvertedType::LIST
                || matches!(info.logical_type_ref(), Some(LogicalType::List));
            node(one, definition, repetition, leaves, is_list)
        }
        fields => Node::Structure(
            fields
                .iter()
                .map(|field| (field.name().to_owned(), node(field, definition, repetition, leaves, false)))
                .collect(),
        ),
    }
}
