//! Parses the footer of a parquet file: schema, positions of column chunks, and metadata of the `datasets` library. Those of an Arrow file
//! look the same to all other modules.
//!
//! Every number by which the parquet crate allocates or recurses is checked before the crate is called.

use std::{borrow::Cow, collections::HashSet, ops::Range, sync::Arc};

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use serde_json::Value;
use shardpack_format::{Error, Result};

use super::super::Bytes;
use super::{
    arrow::{self, Messages},
    errors::{contained, failed},
    known::MAGIC,
    thrift::Thrift,
};

/// Replaces the magic if the footer is encrypted.
const MAGIC_ENCRYPTED: &[u8] = b"PARE";
/// The footer's length in 32 bits, and the magic.
const TAIL_BYTES: u64 = 8;
/// Longest footer that is read. One of 10,000 row groups of 10 columns takes some 20 MB.
const LIMIT_BYTES: u64 = 64 << 20;
/// Maximum number of columns and groups in a schema.
const SCHEMA_LIMIT: usize = 1 << 16;
/// Most groups within groups in a schema: the parquet crate recurses into them.
const DEPTH_LIMIT: usize = 100;
/// Maximum number of rows per byte of the file. Pages of nulls only are that small; a walk through them would practically not
/// end.
const ROWS_A_BYTE: u64 = 64;

/// Content of a footer.
pub(super) struct Footer {
    pub metadata: ParquetMetaData,
    pub chunks: Chunks,
    /// Features that `datasets` records for each column; null if another program wrote the file.
    features: Value,
}

/// Where the column chunks are.
pub(super) enum Chunks {
    /// In a parquet file, before this offset of its footer.
    Parquet(u64),
    /// In the record batches of an Arrow file.
    Arrow(Arc<Messages>),
}

impl Footer {
    pub fn read(file: &Bytes) -> Result<Self> {
        if arrow::is(file)? {
            let (metadata, messages) = contained(|| arrow::read(file))?;
            return Self::new(metadata, Chunks::Arrow(Arc::new(messages)));
        }
        Self::of_parquet(file)
    }

    fn of_parquet(file: &Bytes) -> Result<Self> {
        let cannot = |error| Error::io("cannot read", error);
        let total_bytes = file.count().map_err(cannot)?;
        let mut magic = [0; 4];
        let mut tail = [0; TAIL_BYTES as usize];
        if total_bytes < TAIL_BYTES + magic.len() as u64 {
            return Err(Error::data(format!("truncated: {total_bytes} bytes, a parquet file has at least 12")));
        }
        file.read_exact_at(&mut magic, 0).map_err(cannot)?;
        file.read_exact_at(&mut tail, total_bytes - TAIL_BYTES).map_err(cannot)?;
        let [length @ .., _, _, _, _] = tail;
        if magic == MAGIC_ENCRYPTED || tail.ends_with(MAGIC_ENCRYPTED) {
            return Err(Error::data("an encrypted parquet file, which is not supported"));
        }
        if magic != MAGIC {
            return Err(Error::data("no parquet file: it does not begin with PAR1").at_byte(0));
        }
        if !tail.ends_with(MAGIC) {
            let what = "truncated or damaged parquet file: it does not end with PAR1, so its footer is missing";
            return Err(Error::data(what).at_byte(total_bytes - MAGIC.len() as u64));
        }
        let footer_bytes = u64::from(u32::from_le_bytes(length));
        let room = total_bytes - TAIL_BYTES - magic.len() as u64;
        if footer_bytes > room.min(LIMIT_BYTES) {
            let most = room.min(LIMIT_BYTES);
            let what = format!("damaged parquet file: a footer of {footer_bytes} bytes, at most {most} are possible");
            return Err(Error::data(what).at_byte(total_bytes - TAIL_BYTES));
        }
        let start = total_bytes - TAIL_BYTES - footer_bytes;
        let mut footer = vec![0; footer_bytes as usize];
        file.read_exact_at(&mut footer, start).map_err(cannot)?;
        Self::parse(&footer, start, total_bytes).map_err(|error| error.at_byte(start))
    }

    fn parse(footer: &[u8], start: u64, total_bytes: u64) -> Result<Self> {
        check_schema(footer)?;
        let footer = with_text(footer);
        let metadata = contained(|| ParquetMetaDataReader::decode_metadata(&footer).map_err(failed))?;
        let damaged = |what: String| Error::data(format!("damaged parquet file: {what}"));
        let mut rows = 0u64;
        for (number, group) in metadata.row_groups().iter().enumerate() {
            let count = u64::try_from(group.num_rows()).ok();
            rows = count
                .and_then(|count| rows.checked_add(count))
                .ok_or_else(|| damaged(format!("row group {number} has {} rows", group.num_rows())))?;
            let expected = metadata.file_metadata().schema_descr().num_columns();
            if group.num_columns() != expected {
                let found = group.num_columns();
                return Err(damaged(format!("row group {number} has {found} columns, expected {expected}")));
            }
        }
        let told = metadata.file_metadata().num_rows();
        if u64::try_from(told) != Ok(rows) {
            return Err(damaged(format!("the file has {told} rows, its row groups {rows}")));
        }
        if rows > total_bytes.saturating_mul(ROWS_A_BYTE) {
            return Err(damaged(format!("{rows} rows in {total_bytes} bytes")));
        }
        Self::new(metadata, Chunks::Parquet(start))
    }

    fn new(metadata: ParquetMetaData, chunks: Chunks) -> Result<Self> {
        let roots = metadata.file_metadata().schema_descr().root_schema().get_fields();
        let mut names = HashSet::with_capacity(roots.len());
        if let Some(twice) = roots.iter().find(|root| !names.insert(root.name())) {
            return Err(Error::data(format!("column {:?} stands twice", twice.name())));
        }
        let notes = metadata.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
        let note = notes.iter().find(|note| note.key == "huggingface").and_then(|note| note.value.as_deref());
        // Unreadable metadata is no reason to refuse the rows: other programs ignore it.
        let mut note: Value = note.and_then(|note| serde_json::from_str(note).ok()).unwrap_or_default();
        let features = note.pointer_mut("/info/features").map(Value::take).unwrap_or_default();
        Ok(Self { metadata, chunks, features })
    }

    /// Number of nulls in a leaf of a row group, if it is known.
    pub fn nulls(&self, group: usize, leaf: usize) -> Option<u64> {
        match &self.chunks {
            Chunks::Parquet(_) => self.metadata.row_group(group).column(leaf).statistics()?.null_count_opt(),
            Chunks::Arrow(messages) => messages.nulls(leaf),
        }
    }

    /// Number of values, nulls included, in a leaf of a row group, if it is known.
    pub fn values(&self, group: usize, leaf: usize) -> Option<u64> {
        let chunk = self.metadata.row_group(group).column(leaf);
        match &self.chunks {
            Chunks::Arrow(_) if chunk.column_descr().max_rep_level() > 0 => None,
            _ => u64::try_from(chunk.num_values()).ok(),
        }
    }

    /// The feature that `datasets` records for a column.
    pub fn feature(&self, column: &str) -> Option<&Value> {
        self.features.get(column)
    }

    /// The features that `datasets` records, by column.
    pub fn each_feature(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.features.as_object().into_iter().flatten().map(|(column, feature)| (column.as_str(), feature))
    }

    /// Whether the file has a column of this name.
    pub fn has_column(&self, name: &str) -> bool {
        let schema = self.metadata.file_metadata().schema_descr();
        schema.root_schema().get_fields().iter().any(|root| root.name() == name)
    }

    /// Whether `datasets` records this type for a column.
    pub fn is_of_type(&self, column: &str, kind: &str) -> bool {
        let feature = self.feature(column).and_then(|feature| feature.get("_type"));
        feature.and_then(Value::as_str) == Some(kind)
    }

    /// Class names in a column of labels, or of lists of labels, in the order of their numbers.
    pub fn names(&self, column: &str) -> Option<Vec<Vec<u8>>> {
        let mut feature = self.feature(column)?;
        // A list of a feature is written `[feature]`, or as `{"feature": …, "_type": "List" or "Sequence"}`.
        while let Some(inner) = feature.get("feature").or_else(|| feature.get(0)) {
            feature = inner;
        }
        if feature.get("_type").and_then(Value::as_str) != Some("ClassLabel") {
            return None;
        }
        let names = feature.get("names")?.as_array()?.iter();
        names.map(|name| name.as_str().map(|name| name.as_bytes().to_vec())).collect()
    }
}

/// The footer with its metadata values as valid UTF-8: other programs write bytes in metadata, for which the parquet
/// crate refuses the whole file. In an invalid value, each byte beyond ASCII is replaced. The field numbers are those in
/// `FileMetaData` and `KeyValue`.
fn with_text(footer: &[u8]) -> Cow<'_, [u8]> {
    let mut wrong: Vec<Range<usize>> = Vec::new();
    let mut text = |thrift: &mut Thrift<'_>, kind| {
        let bytes = thrift.bytes(kind)?;
        let end = footer.len() - thrift.left();
        if let Some(bytes) = bytes.filter(|bytes| str::from_utf8(bytes).is_err()) {
            wrong.push(end - bytes.len()..end);
        }
        Some(())
    };
    let read = Thrift::new(footer).fields(|thrift, field, kind| match field {
        5 => thrift.structures(kind, |thrift| thrift.fields(|thrift, _, kind| text(thrift, kind))),
        // The program that wrote the file.
        6 => text(thrift, kind),
        _ => thrift.skip(kind),
    });
    if read.is_none() || wrong.is_empty() {
        return Cow::Borrowed(footer);
    }
    let mut footer = footer.to_vec();
    let bytes = wrong.into_iter().flatten();
    bytes.for_each(|at| footer[at] = if footer[at].is_ascii() { footer[at] } else { b'?' });
    Cow::Owned(footer)
}

/// Checks that the groups of the schema have no more children than there are, and are not nested too deep. The fields'
/// numbers are those of `parquet.thrift`, of `FileMetaData` and `SchemaElement`.
fn check_schema(footer: &[u8]) -> Result<()> {
    let mut children: Vec<i64> = Vec::new();
    let read = Thrift::new(footer).fields(|thrift, field, kind| {
        if field != 2 {
            return thrift.skip(kind);
        }
        thrift.structures(kind, |thrift| {
            let mut own = 0;
            thrift.fields(|thrift, field, kind| {
                let value = thrift.value(kind)?;
                if field == 5 {
                    own = value?;
                }
                Some(())
            })?;
            children.push(own);
            Some(())
        })
    });
    read.ok_or_else(|| Error::data("damaged parquet file: the footer cannot be read"))?;
    let elements = children.len();
    if elements > SCHEMA_LIMIT {
        return Err(Error::data(format!("a schema of {elements} columns and groups, at most {SCHEMA_LIMIT} are read")));
    }
    // For each group that is open, how many of its children are to come.
    let mut open: Vec<u64> = Vec::new();
    for count in children {
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        let count = u64::try_from(count).ok().filter(|count| *count < elements as u64);
        open.push(count.ok_or_else(|| Error::data("damaged parquet file: its schema has no such columns"))?);
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.len() > DEPTH_LIMIT {
            return Err(Error::data(format!("a schema with more than {DEPTH_LIMIT} groups in one another")));
        }
    }
    Ok(())
}
