//! Rows as a Parquet file: column chunks compressed with zstd, row groups of 65,536 rows.

use std::{fs::File, sync::Arc};

use parquet::{
    basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel},
    data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type as Schema,
};
use shardpack_format::{Error, ErrorKind, Result};

use super::{COLUMNS, Cell, Row, Sink, Type};

/// Rows of a row group.
const GROUP_ROWS: usize = 64 << 10;

/// Writes rows to a file.
pub(super) struct Writer {
    out: SerializedFileWriter<File>,
    columns: Vec<Column>,
    /// Number of rows in the present row group, which is written when it is full.
    rows: usize,
    group_rows: usize,
}

/// The values of a column in the present row group, and for each row whether it has a value (1) or not (0); a
/// column that always has values does not use the latter.
struct Column {
    values: Values,
    levels: Option<Vec<i16>>,
}

enum Values {
    Text(Vec<ByteArray>),
    Long(Vec<i64>),
    Short(Vec<i32>),
}

impl Writer {
    /// Starts the file.
    pub fn new(file: File) -> Result<Self> {
        Self::with_groups_of(GROUP_ROWS, file)
    }

    fn with_groups_of(group_rows: usize, file: File) -> Result<Self> {
        let fields = COLUMNS.iter().map(|(name, kind)| field(name, *kind).map(Arc::new)).collect::<Result<_>>()?;
        let schema = Schema::group_type_builder("schema").with_fields(fields).build().map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("shardpack ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let out = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(failed)?;
        Ok(Self { out, columns: COLUMNS.iter().map(|(_, kind)| Column::new(*kind)).collect(), rows: 0, group_rows })
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.out.next_row_group().map_err(failed)?;
        for column in &mut self.columns {
            let mut writer = group
                .next_column()
                .map_err(failed)?
                .ok_or_else(|| Error::new(ErrorKind::System, "parquet: a column too many"))?;
            let levels = column.levels.as_deref();
            let written = match &column.values {
                Values::Text(values) => writer.typed::<ByteArrayType>().write_batch(values, levels, None),
                Values::Long(values) => writer.typed::<Int64Type>().write_batch(values, levels, None),
                Values::Short(values) => writer.typed::<Int32Type>().write_batch(values, levels, None),
            };
            written.and_then(|_| writer.close()).map_err(failed)?;
            column.clear();
        }
        group.close().map(drop).map_err(failed)
    }
}

impl Sink for Writer {
    fn add(&mut self, row: &Row<'_>) -> Result<()> {
        self.columns.iter_mut().zip(row).for_each(|(column, cell)| column.add(cell));
        self.rows += 1;
        if self.rows == self.group_rows { self.flush() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<File> {
        self.flush()?;
        self.out.into_inner().map_err(failed)
    }
}

impl Column {
    fn new(kind: Type) -> Self {
        let values = match kind {
            Type::Text | Type::TextOrNull => Values::Text(Vec::new()),
            Type::U64 | Type::I64OrNull => Values::Long(Vec::new()),
            Type::U32 | Type::U8 => Values::Short(Vec::new()),
        };
        Self { values, levels: is_optional(kind).then(Vec::new) }
    }

    fn add(&mut self, cell: &Cell<'_>) {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(*cell != Cell::Null));
            if *cell == Cell::Null {
                return;
            }
        }
        match (&mut self.values, cell) {
            (Values::Text(values), Cell::Text(text)) => values.push(ByteArray::from(text.as_ref())),
            // Parquet stores unsigned numbers in the bits of signed numbers.
            (Values::Long(values), Cell::Unsigned(number)) => values.push(*number as i64),
            (Values::Long(values), Cell::Signed(number)) => values.push(*number),
            (Values::Short(values), Cell::Unsigned(number)) => values.push(*number as u32 as i32),
            (values, cell) => debug_assert!(false, "{cell:?} in a column of {}", values.name()),
        }
    }

    fn clear(&mut self) {
        match &mut self.values {
            Values::Text(values) => values.clear(),
            Values::Long(values) => values.clear(),
            Values::Short(values) => values.clear(),
        }
        self.levels.iter_mut().for_each(Vec::clear);
    }
}

impl Values {
    fn name(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Long(_) => "64 bits",
            Self::Short(_) => "32 bits",
        }
    }
}

fn is_optional(kind: Type) -> bool {
    matches!(kind, Type::TextOrNull | Type::I64OrNull)
}

fn field(name: &str, kind: Type) -> Result<Schema> {
    let integer = |bit_width, is_signed| Some(LogicalType::integer(bit_width, is_signed));
    let (physical, logical) = match kind {
        Type::Text | Type::TextOrNull => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Type::U64 => (Physical::INT64, integer(64, false)),
        Type::I64OrNull => (Physical::INT64, integer(64, true)),
        Type::U32 => (Physical::INT32, integer(32, false)),
        Type::U8 => (Physical::INT32, integer(8, false)),
    };
    let repetition = if is_optional(kind) { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Schema::primitive_type_builder(name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
        .map_err(failed)
}

/// Passes on an I/O error; any other error would be a bug in this file.
fn failed(error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => Error::io("cannot write", *error),
            Err(other) => Error::new(ErrorKind::System, format!("parquet: {other}")),
        },
        other => Error::new(ErrorKind::System, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::RowAccessor,
    };

    use super::*;

    fn row(number: u64) -> Row<'static> {
        let mut number_column = COLUMNS.iter();
        COLUMNS.map(|_| match number_column.next().map(|(_, kind)| *kind) {
            Some(Type::TextOrNull | Type::I64OrNull) if number.is_multiple_of(3) => Cell::Null,
            Some(Type::Text | Type::TextOrNull) => Cell::Text(format!("text {number}").into()),
            Some(Type::I64OrNull) => Cell::Signed(-(number as i64)),
            Some(Type::U8) => Cell::Unsigned(number % 256),
            Some(Type::U32) => Cell::Unsigned(u64::from(u32::MAX) - number),
            _ => Cell::Unsigned(u64::MAX - number),
        })
    }

    #[test]
    fn rows_come_back_as_they_were_at_the_ends_of_row_groups() {
        const GROUP: usize = 300;
        for rows in [0, 1, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP, 5 * GROUP + 1] {
            let mut writer = Box::new(Writer::with_groups_of(GROUP, tempfile::tempfile().unwrap()).unwrap());
            (0..rows).for_each(|number| writer.add(&row(number as u64)).unwrap());
            let reader = SerializedFileReader::new(writer.finish().unwrap()).unwrap();
            assert_eq!(reader.metadata().num_row_groups(), rows.div_ceil(GROUP));
            assert_eq!(reader.metadata().file_metadata().num_rows(), rows as i64);
            for (number, found) in reader.get_row_iter(None).unwrap().enumerate() {
                let found = found.unwrap();
                let has_null = number % 3 == 0;
                assert_eq!(found.get_string(0).unwrap(), &format!("text {number}"));
                assert_eq!(found.get_ulong(2).unwrap(), u64::MAX - number as u64);
                assert_eq!(found.get_uint(9).unwrap(), u32::MAX - number as u32);
                assert_eq!(found.get_ubyte(17).unwrap(), number as u8);
                assert_eq!(found.get_long(6).ok(), (!has_null).then_some(-(number as i64)));
                assert_eq!(found.get_string(7).is_ok(), !has_null);
            }
        }
    }
}
