//! Compares columns that both the folders and the file have, such as `label=cat/x.parquet` with a column `label`. The file's
//! own value is used. A row that differs from the folder is counted; if the column is the label, the row is lost.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use shardpack_format::{Error, Result, formats::foreign::FieldSelection, text};

use super::super::Bytes;
use super::{
    cells::{Cells, Value, bytes_of, is_number, is_readable, is_text},
    columns::{Columns, flat},
    errors::in_place,
    footer::Footer,
    leaf::open,
    pages::Pages,
    partition::Partition,
};

impl Partition {
    /// The selection for the file of this footer, without the label if a folder alone gives it.
    pub(super) fn rest<'w>(&self, footer: &Footer, wanted: &'w FieldSelection) -> Cow<'w, FieldSelection> {
        match &wanted.label {
            Some(label) if !footer.has_column(label) && self.0.iter().any(|(name, _)| name == label) => {
                Cow::Owned(FieldSelection { label: None, ..wanted.clone() })
            }
            _ => Cow::Borrowed(wanted),
        }
    }
}

/// The columns.
#[derive(Default)]
pub(super) struct Shadowed(Vec<Column>);

struct Column {
    name: String,
    /// Value in the folder name.
    value: Vec<u8>,
    /// `None` if the file's values cannot be compared.
    leaf: Option<usize>,
    /// Class names, if the file has class numbers.
    names: Option<Vec<Vec<u8>>>,
    /// Whether rows have their class from it.
    is_label: bool,
    differing: u64,
    /// The first row that differs, and its value.
    first: Option<(u64, String)>,
}

impl Shadowed {
    pub fn detect(partition: &Partition, footer: &Footer, columns: &Columns, wanted: &FieldSelection) -> Self {
        let schema = footer.metadata.file_metadata().schema_descr();
        let is_read = |leaf: &usize| {
            let column = schema.column(*leaf);
            let mut groups = footer.metadata.row_groups().iter().filter(|group| group.num_rows() > 0);
            is_readable(&column)
                && (is_number(&column) || is_text(&column))
                && groups.all(|group| Pages::are_read(group.column(*leaf)))
        };
        let own = partition.0.iter().filter(|(name, _)| footer.has_column(name));
        let column = |(name, value): &(String, Vec<u8>)| {
            let leaf = flat(schema, name).filter(is_read);
            let is_class = columns.label.as_ref().is_some_and(|label| label.name == *name)
                || columns.class.is_some() && columns.class == leaf;
            Column {
                name: name.clone(),
                value: value.clone(),
                leaf,
                names: footer.names(name),
                is_label: is_class && !wanted.no_labels,
                differing: 0,
                first: None,
            }
        };
        Self(own.map(column).collect())
    }

    /// Their cells in a row group.
    pub fn open(&self, file: &Arc<Bytes>, footer: &Footer, group: usize) -> Result<Vec<Option<Cells>>> {
        self.0.iter().map(|column| column.leaf.map(|leaf| open(file, footer, group, leaf)).transpose()).collect()
    }

    /// Compares the next row of row group `group`, which is row `number` of the file.
    pub fn row(&mut self, cells: &mut [Option<Cells>], group: usize, number: u64) -> Result<()> {
        for (column, cells) in self.0.iter_mut().zip(cells) {
            let value = match cells {
                Some(cells) => cells.next_one().map_err(|error| in_place(error, group, &cells.name()))?,
                None => None,
            };
            if !value.as_ref().is_some_and(|value| column.says(value)) {
                column.differing += 1;
                column
                    .first
                    .get_or_insert_with(|| (number, value.as_ref().map_or_else(|| "nothing".to_owned(), shown)));
            }
        }
        Ok(())
    }

    /// The errors for labels that differ from the folder names.
    pub fn lost(&self) -> Vec<Error> {
        let lost = self.0.iter().filter(|column| column.is_label).filter_map(|column| {
            let (row, says) = column.first.as_ref()?;
            let Column { name, value, differing, .. } = column;
            Some(Error::data(format!(
                "column {name:?} is {says} in row {row}, but its folder is {name}={}: {differing} rows differ; \
                 rename the column or the folder",
                text::shown(value)
            )))
        });
        lost.collect()
    }

    /// The others, with the number of rows that say otherwise.
    pub fn passed(&self) -> BTreeMap<String, u64> {
        let others = self.0.iter().filter(|column| !column.is_label && column.differing > 0);
        others
            .map(|column| (format!("column {} of a folder, which the file has too", column.name), column.differing))
            .collect()
    }
}

impl Column {
    /// Whether `own`, from the file, equals the value of the folder.
    fn says(&self, own: &Value) -> bool {
        let told = str::from_utf8(&self.value).unwrap_or_default();
        let is_name = |number: i64| {
            let name = self.names.as_ref().and_then(|names| names.get(usize::try_from(number).ok()?));
            name.is_some_and(|name| *name == self.value)
        };
        match own {
            Value::Number(own) => {
                let number = match told.to_lowercase().as_str() {
                    "true" => Some(1),
                    "false" => Some(0),
                    told => told.parse().ok(),
                };
                number == Some(*own) || is_name(*own)
            }
            Value::Large(own) => told.parse() == Ok(*own),
            // The folder name was formatted from a float of 32 or 64 bits.
            Value::Real(own) => told.parse().is_ok_and(|told: f64| told == *own || f64::from(told as f32) == *own),
            Value::Bytes(_) => bytes_of(own) == Some(&self.value),
            Value::Other => false,
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Large(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Bytes(bytes) => format!("{:?}", text::shown(bytes.data()).to_string()),
        Value::Other => "another value".to_owned(),
    }
}
