//! The cells of one column in one row group, row after row.

use std::sync::Arc;

use parquet::{
    basic::{ConvertedType, LogicalType, Type as Physical},
    column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader},
    data_type::{ByteArray, DataType, Int32Type, Int64Type},
    errors::{ParquetError, Result},
    schema::types::ColumnDescriptor,
};

use super::pages::Pages;

/// A value in a cell.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A whole number, or a truth value.
    Number(i64),
    /// A whole number beyond 63 bits.
    Large(u64),
    /// A number.
    Real(f64),
    /// Text or bytes.
    Bytes(ByteArray),
    /// Anything else.
    Other,
}

/// What a column holds in a row: one value or null, or a list of them.
pub(super) type Cell = Vec<Option<Value>>;

/// Reads a column that is no list, or one of values.
pub(super) struct Cells {
    reader: ColumnReader,
    levels: Levels,
    column: Arc<ColumnDescriptor>,
    sign: Sign,
}

/// Where the values of a row are null, as parquet tells it.
struct Levels {
    /// Level of a value that is there.
    most: i16,
    /// Least level of an element of a list; `None` if it is no list.
    element: Option<i16>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

/// How whole numbers are to be understood.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Signed,
    Unsigned,
    /// As a date, an amount of money or the like.
    Other,
}

/// Whether a column's cells can be read: it has no lists within lists.
pub(super) fn is_readable(column: &ColumnDescriptor) -> bool {
    column.max_rep_level() <= 1
}

/// Whether a column holds numbers or truth values.
pub(super) fn is_number(column: &ColumnDescriptor) -> bool {
    match column.physical_type() {
        Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE => true,
        Physical::INT32 | Physical::INT64 => sign(column) != Sign::Other,
        _ => false,
    }
}

/// Whether a column holds text.
pub(super) fn is_text(column: &ColumnDescriptor) -> bool {
    column.physical_type() == Physical::BYTE_ARRAY
        && (matches!(column.logical_type_ref(), Some(LogicalType::String | LogicalType::Enum))
            || matches!(column.converted_type(), ConvertedType::UTF8 | ConvertedType::ENUM))
}

fn sign(column: &ColumnDescriptor) -> Sign {
    use ConvertedType as C;
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) if integer.is_signed => Sign::Signed,
        (Some(LogicalType::Integer(_)), _) => Sign::Unsigned,
        (Some(_), _) => Sign::Other,
        (None, C::NONE | C::INT_8 | C::INT_16 | C::INT_32 | C::INT_64) => Sign::Signed,
        (None, C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64) => Sign::Unsigned,
        (None, _) => Sign::Other,
    }
}

impl Cells {
    /// The cells of `column`, which is readable, in `pages`.
    pub fn new(column: Arc<ColumnDescriptor>, pages: Pages) -> Self {
        let levels = Levels {
            most: column.max_def_level(),
            element: (column.max_rep_level() > 0).then(|| column.repeated_ancestor_def_level()),
            definitions: Vec::new(),
            repetitions: Vec::new(),
        };
        let sign = sign(&column);
        Self { reader: get_column_reader(Arc::clone(&column), Box::new(pages)), levels, column, sign }
    }

    /// The column's path in the schema.
    pub fn name(&self) -> String {
        self.column.path().string()
    }

    /// The cell of the next row.
    ///
    /// # Errors
    /// When there is none, too.
    pub fn next(&mut self) -> Result<Cell> {
        let Self { reader, levels, sign, .. } = self;
        let sign = *sign;
        match reader {
            ColumnReader::BoolColumnReader(reader) => levels.row(reader, |value| Value::Number(value.into())),
            ColumnReader::Int32ColumnReader(reader) => levels.row::<Int32Type>(reader, |value| match sign {
                Sign::Signed => Value::Number(value.into()),
                Sign::Unsigned => Value::Number((value as u32).into()),
                Sign::Other => Value::Other,
            }),
            ColumnReader::Int64ColumnReader(reader) => levels.row::<Int64Type>(reader, |value| match sign {
                Sign::Unsigned if value < 0 => Value::Large(value as u64),
                Sign::Signed | Sign::Unsigned => Value::Number(value),
                Sign::Other => Value::Other,
            }),
            ColumnReader::FloatColumnReader(reader) => levels.row(reader, |value| Value::Real(value.into())),
            ColumnReader::DoubleColumnReader(reader) => levels.row(reader, Value::Real),
            ColumnReader::ByteArrayColumnReader(reader) => levels.row(reader, Value::Bytes),
            ColumnReader::Int96ColumnReader(reader) => levels.row(reader, |_| Value::Other),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => levels.row(reader, |_| Value::Other),
        }
    }

    /// The next row as it is stored: each value, or nothing, with its definition and repetition level.
    ///
    /// # Errors
    /// As [`Cells::next`].
    pub fn next_levels(&mut self) -> Result<Vec<(i16, i16, Option<Value>)>> {
        // All values, and nothing for what is not there: that is told by the levels.
        let (most, element) = (self.levels.most, self.levels.element);
        // A column without levels has none written.
        self.levels.element = (most > 0).then_some(0);
        let cell = self.next();
        self.levels.element = element;
        let Levels { definitions, repetitions, .. } = &self.levels;
        let level = |levels: &[i16], at: usize, absent| levels.get(at).copied().unwrap_or(absent);
        let row = cell?.into_iter().enumerate();
        Ok(row.map(|(at, value)| (level(definitions, at, most), level(repetitions, at, 0), value)).collect())
    }

    /// The value of the next row of a column that is no list.
    ///
    /// # Errors
    /// As [`Cells::next`].
    pub fn next_one(&mut self) -> Result<Option<Value>> {
        Ok(self.next()?.pop().flatten())
    }
}

impl Levels {
    fn row<T: DataType>(&mut self, reader: &mut ColumnReaderImpl<T>, value: impl Fn(T::T) -> Value) -> Result<Cell> {
        let Self { definitions, repetitions, .. } = self;
        definitions.clear();
        repetitions.clear();
        let mut values = Vec::new();
        // One at a time: values of more rows would keep more than one page in memory.
        let (rows, ..) = reader.read_records(1, Some(definitions), Some(repetitions), &mut values)?;
        if rows != 1 {
            return Err(ParquetError::General("it ends before its row group does".to_owned()));
        }
        let mut values = values.into_iter().map(value);
        let Some(element) = self.element else { return Ok(vec![values.next()]) };
        let elements = self.definitions.iter().filter(|level| **level >= element);
        Ok(elements.map(|level| if *level == self.most { values.next() } else { None }).collect())
    }
}
