//! The cells of one column in one row group, row after row.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parquet::{
    basic::{ConvertedType, LogicalType, Type as Physical},
    column::{
        page::PageReader,
        reader::{ColumnReader, ColumnReaderImpl, get_column_reader},
    },
    data_type::{ByteArray, DataType, DoubleType, FloatType, Int32Type, Int64Type},
    errors::{ParquetError, Result},
    schema::types::ColumnDescriptor,
};

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

/// Content of a column in a row: one value or null, or a list of values.
pub(super) type Cell = Vec<Option<Value>>;

/// Reads a column that is no list, or one of values.
pub(super) struct Cells {
    reader: ColumnReader,
    levels: Levels,
    column: Arc<ColumnDescriptor>,
    sign: Sign,
    /// Number of values in the pages of the row, if they are counted; set to 0 where a row begins.
    listed: Option<Arc<AtomicU64>>,
}

/// Definition and repetition levels, which mark the nulls in a row.
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

/// The dtype of a column's values in numpy's notation; `None` if they are no numbers.
pub(super) fn dtype(column: &ColumnDescriptor) -> Option<&'static str> {
    Some(match (column.physical_type(), sign(column)) {
        (Physical::BOOLEAN, _) => "|b1",
        (Physical::FLOAT, _) => "<f4",
        (Physical::DOUBLE, _) => "<f8",
        (Physical::INT32 | Physical::INT64, Sign::Signed) => match integer_bytes(column) {
            1 => "|i1",
            2 => "<i2",
            4 => "<i4",
            _ => "<i8",
        },
        (Physical::INT32 | Physical::INT64, Sign::Unsigned) => match integer_bytes(column) {
            1 => "|u1",
            2 => "<u2",
            4 => "<u4",
            _ => "<u8",
        },
        (Physical::FIXED_LEN_BYTE_ARRAY, _)
            if column.type_length() == 2 && matches!(column.logical_type_ref(), Some(LogicalType::Float16)) =>
        {
            "<f2"
        }
        _ => return None,
    })
}

/// Whether a column holds plain bytes, all of one length.
pub(super) fn is_fixed_bytes(column: &ColumnDescriptor) -> bool {
    column.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY
        && match column.logical_type_ref() {
            Some(kind) => matches!(kind, LogicalType::Uuid),
            None => column.converted_type() == ConvertedType::NONE,
        }
}

/// How many bytes a whole number of the column takes.
fn integer_bytes(column: &ColumnDescriptor) -> usize {
    use ConvertedType as C;
    let is_long = column.physical_type() == Physical::INT64;
    match (column.logical_type_ref(), column.converted_type()) {
        _ if is_long => 8,
        (Some(LogicalType::Integer(integer)), _) if matches!(integer.bit_width, 8 | 16) => {
            integer.bit_width as usize / 8
        }
        (None, C::INT_8 | C::UINT_8) => 1,
        (None, C::INT_16 | C::UINT_16) => 2,
        _ => 4,
    }
}

/// Whether a column holds JSON.
pub(super) fn is_json(column: &ColumnDescriptor) -> bool {
    matches!(column.logical_type_ref(), Some(LogicalType::Json)) || column.converted_type() == ConvertedType::JSON
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
    /// The cells of `column`, which is readable, in `pages`, which count the values of a row in `listed`.
    pub fn new(column: Arc<ColumnDescriptor>, pages: Box<dyn PageReader>, listed: Option<Arc<AtomicU64>>) -> Self {
        let levels = Levels {
            most: column.max_def_level(),
            element: (column.max_rep_level() > 0).then(|| column.repeated_ancestor_def_level()),
            definitions: Vec::new(),
            repetitions: Vec::new(),
        };
        let sign = sign(&column);
        Self { reader: get_column_reader(Arc::clone(&column), pages), levels, column, sign, listed }
    }

    /// The column's path in the schema.
    pub fn name(&self) -> String {
        self.column.path().string()
    }

    /// The cell of the next row.
    ///
    /// # Errors
    /// Also if there is no next row.
    pub fn next(&mut self) -> Result<Cell> {
        let Self { reader, levels, sign, listed, .. } = self;
        let sign = *sign;
        if let Some(listed) = listed {
            listed.store(0, Ordering::Relaxed);
        }
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
        // All non-null values; the levels mark the nulls.
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

    /// The next row as items of an array: appends the non-null items to `out`, each in the column's [`dtype`], or as stored
    /// if the column has no dtype; [`Cells::levels`] returns their levels.
    ///
    /// # Errors
    /// As [`Cells::next`], and for a number that its type cannot hold.
    pub fn next_items(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let Self { reader, levels, column, sign, listed } = self;
        if let Some(listed) = listed {
            listed.store(0, Ordering::Relaxed);
        }
        match reader {
            ColumnReader::BoolColumnReader(reader) => levels.items(reader, |value, out| out.push(value.into()), out),
            ColumnReader::Int32ColumnReader(reader) => {
                let (bytes, is_signed) = (integer_bytes(column), *sign == Sign::Signed);
                let (mut beyond, spare) = (None, 32 - 8 * bytes as u32);
                let write = |value: i32, out: &mut Vec<u8>| {
                    let kept =
                        if is_signed { value << spare >> spare } else { ((value as u32) << spare >> spare) as i32 };
                    if kept != value {
                        beyond = Some(value);
                    }
                    out.extend_from_slice(&value.to_le_bytes()[..bytes]);
                };
                levels.items::<Int32Type>(reader, write, out)?;
                match beyond {
                    None => Ok(()),
                    Some(value) => Err(ParquetError::General(format!("{value} is no number of {} bits", 8 * bytes))),
                }
            }
            ColumnReader::Int64ColumnReader(reader) => {
                levels.items::<Int64Type>(reader, |value, out| out.extend_from_slice(&value.to_le_bytes()), out)
            }
            ColumnReader::FloatColumnReader(reader) => {
                levels.items::<FloatType>(reader, |value, out| out.extend_from_slice(&value.to_le_bytes()), out)
            }
            ColumnReader::DoubleColumnReader(reader) => {
                levels.items::<DoubleType>(reader, |value, out| out.extend_from_slice(&value.to_le_bytes()), out)
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                levels.items(reader, |value, out| out.extend_from_slice(value.data()), out)
            }
            ColumnReader::Int96ColumnReader(reader) => levels.items(reader, |_, _| {}, out),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                levels.items(reader, |value, out| out.extend_from_slice(value.data()), out)
            }
        }
    }

    /// The next row of a list column of bytes, as one value; `None` if the row is empty or contains nulls.
    ///
    /// # Errors
    /// As [`Cells::next_items`].
    pub fn next_bytes(&mut self) -> Result<Option<Value>> {
        let mut bytes = Vec::new();
        self.next_items(&mut bytes)?;
        let are_all = self.levels.definitions.iter().all(|level| *level == self.levels.most);
        Ok((are_all && !bytes.is_empty()).then(|| Value::Bytes(bytes.into())))
    }

    /// Whether the column is a list.
    pub fn is_list(&self) -> bool {
        self.levels.element.is_some()
    }

    /// Definition and repetition levels of the row that was read last; empty where the column has none.
    pub fn levels(&self) -> (&[i16], &[i16]) {
        (&self.levels.definitions, &self.levels.repetitions)
    }

    /// Definition level of a value that is there.
    pub fn most(&self) -> i16 {
        self.levels.most
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
    /// The values of the next row.
    fn read<T: DataType>(&mut self, reader: &mut ColumnReaderImpl<T>) -> Result<Vec<T::T>> {
        let Self { definitions, repetitions, .. } = self;
        definitions.clear();
        repetitions.clear();
        let mut values = Vec::new();
        // One at a time: values of more rows would keep more than one page in memory.
        let (rows, ..) = reader.read_records(1, Some(definitions), Some(repetitions), &mut values)?;
        if rows != 1 {
            return Err(ParquetError::General("it ends before its row group does".to_owned()));
        }
        if repetitions.first().is_some_and(|level| *level != 0) {
            return Err(ParquetError::General("its first value continues a row without a start".to_owned()));
        }
        Ok(values)
    }

    fn items<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        mut write: impl FnMut(T::T, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.read(reader)?.into_iter().for_each(|value| write(value, out));
        Ok(())
    }

    fn row<T: DataType>(&mut self, reader: &mut ColumnReaderImpl<T>, value: impl Fn(T::T) -> Value) -> Result<Cell> {
        let mut values = self.read(reader)?.into_iter().map(value);
        let Some(element) = self.element else { return Ok(vec![values.next()]) };
        let elements = self.definitions.iter().filter(|level| **level >= element);
        Ok(elements.map(|level| if *level == self.most { values.next() } else { None }).collect())
    }
}

pub(super) fn bytes_of(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bytes(bytes) => Some(bytes.data()),
        _ => None,
    }
}
