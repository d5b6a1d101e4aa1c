//! Reads a parquet file as a table: columns of numbers, text and booleans, and lists of these, row by row.

use std::{collections::BTreeMap, sync::Arc};

use parquet::{basic::Type as Physical, schema::types::ColumnDescriptor};
use shardpack_format::{Result, formats::foreign::Plain};

use super::super::Bytes;
use super::{
    Datum,
    cells::{Cells, Value, is_number, is_readable, is_text},
    errors::contained,
    footer::Footer,
    leaf::{in_column, open, rows},
};

/// Most columns that are read: each has a page in memory.
const MAX_COLUMNS: usize = 256;

/// A column that is read.
struct Column {
    name: String,
    leaf: usize,
    is_list: bool,
    is_bool: bool,
    is_single: bool,
    /// Names of the classes, if it is one of labels.
    classes: Option<Vec<Vec<u8>>>,
}

/// A file that is read row by row.
pub struct Table {
    file: Arc<Bytes>,
    footer: Footer,
    columns: Vec<Column>,
    left_out: Vec<String>,
    /// Number of the next row group.
    group: usize,
    rows_left: u64,
    cells: Vec<Cells>,
}

impl Table {
    /// Begins to read a file.
    ///
    /// # Errors
    /// If its footer is corrupt.
    pub fn open(file: impl Into<Bytes>) -> Result<Self> {
        let file = file.into();
        let footer = Footer::read(&file)?;
        let (columns, left_out) = contained(|| {
            let schema = footer.metadata.file_metadata().schema_descr();
            let mut leaves: BTreeMap<String, usize> = BTreeMap::new();
            for column in schema.columns() {
                *leaves.entry(root(column)).or_default() += 1;
            }
            let (mut columns, mut left_out): (Vec<Column>, Vec<String>) = (Vec::new(), Vec::new());
            for (leaf, column) in schema.columns().iter().enumerate() {
                let (name, depth) = (root(column), column.path().parts().len());
                let (is_flat, is_list) = (depth == 1 && column.max_rep_level() == 0, column.max_rep_level() == 1);
                let is_readable = is_readable(column) && (is_flat || is_list) && leaves.get(&name) == Some(&1);
                if is_readable && (is_number(column) || is_text(column)) && columns.len() < MAX_COLUMNS {
                    let classes = footer.names(&name);
                    let is_bool = column.physical_type() == Physical::BOOLEAN;
                    let is_single = column.physical_type() == Physical::FLOAT;
                    columns.push(Column { name, leaf, is_list, is_bool, is_single, classes });
                } else if left_out.last() != Some(&name) {
                    left_out.push(name);
                }
            }
            Ok((columns, left_out))
        })?;
        Ok(Self { file: Arc::new(file), footer, columns, left_out, group: 0, rows_left: 0, cells: Vec::new() })
    }

    /// Names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// Names of columns that are not read.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Class names of a column of labels, if the file has them.
    pub fn classes(&self, name: &str) -> Option<&[Vec<u8>]> {
        self.columns.iter().find(|column| column.name == name)?.classes.as_deref()
    }

    /// The cells of the next row, one for each column.
    ///
    /// # Errors
    /// If the file is corrupt.
    pub fn next_row(&mut self) -> Result<Option<Vec<Datum>>> {
        contained(|| self.step())
    }

    fn step(&mut self) -> Result<Option<Vec<Datum>>> {
        while self.rows_left == 0 {
            if self.group == self.footer.metadata.num_row_groups() {
                return Ok(None);
            }
            self.cells.clear();
            self.rows_left = rows(&self.footer, self.group);
            if self.rows_left > 0 {
                let cells = self.columns.iter().map(|column| open(&self.file, &self.footer, self.group, column.leaf));
                self.cells = cells.collect::<Result<_>>()?;
            }
            self.group += 1;
        }
        self.rows_left -= 1;
        let group = self.group - 1;
        let row = self.columns.iter().zip(&mut self.cells).map(|(column, cells)| {
            let cell = cells.next().map_err(|error| in_column(error, group, cells))?;
            let mut values = cell.into_iter().map(|value| value.map_or(Datum::Null, |value| datum(value, column)));
            Ok(match column.is_list {
                true => Datum::List(values.collect()),
                false => values.next().unwrap_or(Datum::Null),
            })
        });
        row.collect::<Result<_>>().map(Some)
    }
}

/// Name of the column that a leaf is of.
fn root(column: &ColumnDescriptor) -> String {
    column.path().parts().first().cloned().unwrap_or_default()
}

fn datum(value: Value, column: &Column) -> Datum {
    match value {
        Value::Number(number) if column.is_bool => Datum::Bool(number != 0),
        Value::Number(number) => Datum::Number(number.into()),
        Value::Large(number) => Datum::Number(number.into()),
        // The shortest digits that identify the number at its width.
        Value::Real(number) if column.is_single => real(Plain::Single(number as f32)),
        Value::Real(number) => real(Plain::Double(number)),
        Value::Other => Datum::Null,
        Value::Bytes(text) => Datum::Text(text.data().to_vec()),
    }
}

/// A number as `convert` spells it, also one that JSON has no word for: `NaN`, `Infinity`.
fn real(number: Plain<'_>) -> Datum {
    let mut spelled = Vec::new();
    number.write(&mut spelled);
    Datum::Real(String::from_utf8_lossy(&spelled).into_owned())
}
