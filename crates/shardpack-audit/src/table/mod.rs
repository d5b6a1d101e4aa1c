//! Table writes the indexes of datasets as one file for queries: Parquet or CSV, one row a sample in stored
//! order. Foreign shards have no index: their records are read.
//!
//! Holds at all times: at most a row group of 65,536 rows is in memory; the file gets its name only when it is
//! complete; if an index or foreign shard cannot be read, there is no table.
//!
//! | column | type | |
//! |---|---|---|
//! | dataset, shard | text | name of the dataset or split (empty for foreign shards), of the shard file |
//! | number | u64 | of the sample in its dataset, from 0 |
//! | key, path | text | path with replacement characters if it is not UTF-8 |
//! | path_hex | text or null | the bytes of the path in hexadecimal, if it is not UTF-8 |
//! | label, class | i64, text or null | |
//! | offset, record_bytes | u64, u32 | the record in the (decompressed) shard |
//! | image_offset, image_bytes | u64, u32 | the image in the (decompressed) shard |
//! | content_hash | text | XXH3-128 of the image, 32 hexadecimal digits |
//! | kind, width, height, mode, depth | text, u32, u32, text, u8 | from the image's headers; 0: not known |
//!
//! A foreign record without an image has `image_bytes` 0 and an empty `content_hash`.

mod csv;
mod foreign;
#[cfg_attr(not(feature = "parquet"), path = "without_parquet.rs")]
mod parquet_file;

use std::{borrow::Cow, fs::File, io::BufWriter, path::Path};

use shardpack_format::{Error, Result, formats::Choice, hash, index::RowRef};
use shardpack_reader::Shard;

use crate::{
    inspect::{Target, View},
    monitor::{Monitor, Phase},
    own, sys,
};

/// Number of rows between two checks for cancellation.
const ROWS_AT_ONCE: u64 = 4096;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Text,
    /// Text or null.
    TextOrNull,
    U64,
    U32,
    U8,
    /// A signed number or null.
    I64OrNull,
}

/// The columns in order.
const COLUMNS: [(&str, Type); 18] = [
    ("dataset", Type::Text),
    ("shard", Type::Text),
    ("number", Type::U64),
    ("key", Type::Text),
    ("path", Type::Text),
    ("path_hex", Type::TextOrNull),
    ("label", Type::I64OrNull),
    ("class", Type::TextOrNull),
    ("offset", Type::U64),
    ("record_bytes", Type::U32),
    ("image_offset", Type::U64),
    ("image_bytes", Type::U32),
    ("content_hash", Type::Text),
    ("kind", Type::Text),
    ("width", Type::U32),
    ("height", Type::U32),
    ("mode", Type::Text),
    ("depth", Type::U8),
];

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell<'a> {
    Text(Cow<'a, str>),
    Unsigned(u64),
    Signed(i64),
    Null,
}

/// One row: a cell for each of [`COLUMNS`].
type Row<'a> = [Cell<'a>; COLUMNS.len()];

/// Writer of a table.
trait Sink {
    /// Adds a row.
    fn add(&mut self, row: &Row<'_>) -> Result<()>;

    /// Writes the rest, and returns the file.
    fn finish(self: Box<Self>) -> Result<File>;
}

/// The kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Apache Parquet, compressed with zstd.
    Parquet,
    /// Comma-separated values in UTF-8, quoted as in RFC 4180; lines end in LF, and an unknown value is empty.
    Csv,
}

impl Kind {
    /// The kind for the extension of `path`.
    ///
    /// # Errors
    /// If it is neither `.parquet` nor `.csv`.
    pub fn from_path(path: &Path) -> Result<Self> {
        match path.extension().map(|extension| extension.to_ascii_lowercase()) {
            Some(extension) if extension == "parquet" => Ok(Self::Parquet),
            Some(extension) if extension == "csv" => Ok(Self::Csv),
            _ => Err(Error::usage("the name of a table ends in .parquet or .csv").in_file(path)),
        }
    }
}

/// Writes the indexes of `targets` to `path`, and returns the number of rows. An existing file at `path` is
/// replaced only with `force`.
///
/// # Errors
/// If an index or a foreign shard cannot be read, or the file cannot be written; `path` is unchanged then.
pub fn write(targets: &[Target], path: &Path, force: bool, monitor: &dyn Monitor) -> Result<u64> {
    let kind = Kind::from_path(path)?;
    own::check_replaceable(path, force)?;
    let temporary = own::Temporary::beside(path)?;
    let file = temporary.file.try_clone().map_err(|e| sys::io_error("cannot write", temporary.path(), e))?;
    let mut sink: Box<dyn Sink> = match kind {
        Kind::Parquet => Box::new(parquet_file::Writer::new(file)?),
        Kind::Csv => Box::new(csv::Writer::new(BufWriter::with_capacity(1 << 20, file))?),
    };
    let (mut rows, mut bytes) = (0, 0);
    for target in targets {
        match target {
            Target::Dataset(view) => {
                rows += view.samples();
                bytes += view.shards().map(|shard| shard.entry().index.bytes).sum::<u64>();
            }
            Target::Foreign(files) => bytes += files.iter().map(|file| file.bytes).sum::<u64>(),
        }
    }
    monitor.begin(Phase::Verifying, rows, bytes);
    let written = || {
        for target in targets {
            match target {
                Target::Dataset(view) => {
                    for shard in view.shards() {
                        add_shard(view, shard, sink.as_mut(), monitor)?;
                    }
                }
                Target::Foreign(files) => rows += foreign::add(files, sink.as_mut(), monitor)?,
            }
        }
        sink.finish()
    };
    written().map_err(|error: Error| error.in_file(path))?;
    temporary.finish(path)?;
    Ok(rows)
}

fn add_shard(view: &View, shard: Shard<'_>, sink: &mut dyn Sink, monitor: &dyn Monitor) -> Result<()> {
    let choice = Choice::of_manifest(view.dataset.manifest())?;
    for number in 0..shard.len() {
        if number.is_multiple_of(ROWS_AT_ONCE) {
            monitor.check_cancelled()?;
            monitor.advance(ROWS_AT_ONCE.min(shard.len() - number), 0);
        }
        sink.add(&cells(view, &choice, shard, shard.samples().start + number, &shard.row(number)?))?;
    }
    monitor.advance(0, shard.entry().index.bytes);
    Ok(())
}

fn cells<'a>(view: &'a View, choice: &Choice, shard: Shard<'a>, number: u64, row: &RowRef<'a>) -> Row<'a> {
    let text = |text: &'a str| Cell::Text(Cow::Borrowed(text));
    let (image_offset, image_bytes) = row.payload();
    let class = row.label.and_then(|label| view.dataset.class_name(label));
    [
        text(view.dataset.name()),
        text(&shard.entry().file),
        Cell::Unsigned(number),
        Cell::Text(String::from_utf8_lossy(row.key)),
        Cell::Text(String::from_utf8_lossy(row.path)),
        std::str::from_utf8(row.path).map_or_else(|_| Cell::Text(hash::hex(row.path).into()), |_| Cell::Null),
        row.label.map_or(Cell::Null, Cell::Signed),
        class.map_or(Cell::Null, text),
        Cell::Unsigned(row.offset),
        Cell::Unsigned(row.record_bytes.into()),
        Cell::Unsigned(image_offset),
        Cell::Unsigned(image_bytes.into()),
        Cell::Text(format!("{:032x}", row.content_hash).into()),
        Cell::Text(choice.kind_of(&row.image, row.path)),
        Cell::Unsigned(row.image.width.into()),
        Cell::Unsigned(row.image.height.into()),
        text(row.image.mode.name()),
        Cell::Unsigned(row.image.depth.into()),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_extension_decides_the_kind() {
        for (name, kind) in [("a.parquet", Kind::Parquet), ("x/b.CSV", Kind::Csv)] {
            assert_eq!(Kind::from_path(Path::new(name)).unwrap(), kind, "{name}");
        }
        for name in ["a", "a.tsv", "parquet", ".csv"] {
            assert!(Kind::from_path(Path::new(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let shard = folder.path().join("x.tar");
        fs::write(&shard, [b'x'; 512]).unwrap();
        let kind = crate::foreign::Kind::parse("webdataset").unwrap();
        let targets = [Target::Foreign(vec![crate::foreign::ShardFile::of_kind(&(&shard).into(), kind).unwrap()])];
        let path = folder.path().join("a.parquet");
        assert!(write(&targets, &path, false, &crate::monitor::Silent).is_err());
        fs::write(&path, b"mine").unwrap();
        let error = write(&[], &path, false, &crate::monitor::Silent).unwrap_err();
        assert_eq!(error.help_text(), Some(shardpack_format::help::REPLACE));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert_eq!(write(&[], &path, true, &crate::monitor::Silent).unwrap(), 0);
        assert!(fs::read(&path).unwrap().ends_with(b"PAR1"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
    }
}
