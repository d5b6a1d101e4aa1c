//! Reads Arrow files, as `datasets.save_to_disk` and Feather write them, as parquet: the metadata that a parquet file with the same table
//! has, and pages of its leaves. So the rules for columns, labels and values are those of parquet.
//!
//! All record batches are one row group. Nulls and lists are levels, values are in the encoding PLAIN.
//!
//! Supported: streams and files with metadata of version 4 and 5 in little-endian order, buffers compressed with LZ4 and zstd, dictionaries
//! of flat values, views of bytes and text. A column of another type is not read, and counted.
//!
//! Specification: <https://arrow.apache.org/docs/format/Columnar.html>, 1.5. Written by: `datasets` 5.2, pyarrow 26, polars 1.

mod buffers;
mod messages;
mod pages;
mod schema;
mod values;

use std::sync::Arc;

use parquet::{
    basic::{Compression, Encoding},
    file::metadata::{ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData},
    schema::types::{SchemaDescriptor, Type},
};
use shardpack_format::{Error, Result};

use super::{
    super::Bytes,
    known::{ARROW_BYTES, is_arrow},
};

pub(super) use messages::Messages;
pub(super) use pages::{InBatch, Pages};

/// Whether a file begins as an Arrow file or stream does.
///
/// # Errors
/// If it cannot be read.
pub(super) fn is(file: &Bytes) -> Result<bool> {
    let cannot = |error| Error::io("cannot read", error);
    let mut first = [0; ARROW_BYTES];
    let filled = file.count().map_err(cannot)?.min(ARROW_BYTES as u64) as usize;
    file.read_exact_at(&mut first[..filled], 0).map_err(cannot)?;
    Ok(is_arrow(&first[..filled]))
}

/// Fails if a file does not begin as an Arrow file or stream does.
///
/// # Errors
/// Also if it cannot be read.
pub(super) fn check(file: &Bytes) -> Result<()> {
    match is(file)? {
        true => Ok(()),
        false => Err(Error::data("no Arrow file: it begins neither with ARROW1 nor with a schema").at_byte(0)),
    }
}

/// The metadata of a file as of parquet, and its messages.
///
/// # Errors
/// If it is corrupt, truncated, or its schema is not supported.
pub(super) fn read(file: &Bytes) -> Result<(ParquetMetaData, Messages)> {
    let mut messages = Messages::read(file)?;
    let damaged = |error: parquet::errors::ParquetError| Error::data(format!("damaged Arrow file: {error}"));
    let roots = std::mem::take(&mut messages.schema.roots);
    let schema = Type::group_type_builder("schema").with_fields(roots).build().map_err(damaged)?;
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(schema)));
    let rows = i64::try_from(messages.rows()).map_err(|_| Error::data("more rows than 63 bits can count"))?;
    let notes = Some(std::mem::take(&mut messages.schema.notes));
    let chunk = |leaf: usize| {
        let chunk = ColumnChunkMetaData::builder(schema.column(leaf)).set_num_values(rows);
        chunk.set_encodings(vec![Encoding::PLAIN]).set_compression(Compression::UNCOMPRESSED).build()
    };
    let chunks = (0..schema.num_columns()).map(chunk).collect::<Result<Vec<_>, _>>().map_err(damaged)?;
    let group = RowGroupMetaData::builder(Arc::clone(&schema)).set_num_rows(rows).set_column_metadata(chunks);
    let group = group.build().map_err(damaged)?;
    let metadata = FileMetaData::new(1, rows, None, notes, schema, None);
    Ok((ParquetMetaDataBuilder::new(metadata).add_row_group(group).build(), messages))
}

#[cfg(test)]
mod tests;
