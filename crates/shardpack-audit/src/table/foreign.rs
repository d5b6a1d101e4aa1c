//! Rows of foreign shards, which have no index: their records are read and their images hashed.

use std::borrow::Cow;

use shardpack_format::{
    Result,
    formats::foreign::Record,
    hash,
    image_header::{Header, Kind, Mode},
};

use super::{Cell, Row, Sink};
use crate::{foreign::ShardFile, monitor::Monitor};

/// Maximum number of bytes of an image that are parsed for its headers.
const HEAD_BYTES: usize = 64 << 10;
/// Header of a record without an image.
const NO_IMAGE: Header = Header { kind: Kind::Unknown, width: 0, height: 0, mode: Mode::Unknown, depth: 0 };

/// Adds a row for each record of `files`, and returns the number of rows.
pub(super) fn add(files: &[ShardFile], sink: &mut dyn Sink, monitor: &dyn Monitor) -> Result<u64> {
    let (mut number, mut bytes) = (0, Vec::new());
    for file in files {
        let in_file = |error: shardpack_format::Error| error.in_file(&file.path);
        let shard = file.path.file_name().unwrap_or_default().to_string_lossy();
        let mut walk = file.walk(&file.own_selection(), &|| monitor.check_cancelled())?;
        while let Some(record) = walk.next().map_err(in_file)? {
            monitor.check_cancelled()?;
            let image = match &record.image {
                Ok(image) => {
                    walk.image(&mut bytes).map_err(in_file)?;
                    let header = Header::parse(&bytes[..bytes.len().min(HEAD_BYTES)]);
                    Some((image.offset, image.bytes, format!("{:032x}", hash::content(&bytes)), header))
                }
                Err(_) => None,
            };
            sink.add(&cells(&shard, number, &record, image))?;
            number += 1;
        }
        monitor.advance(0, file.bytes);
    }
    Ok(number)
}

fn cells<'a>(shard: &'a str, number: u64, record: &'a Record, image: Option<(u64, u32, String, Header)>) -> Row<'a> {
    let text = |text: &'a str| Cell::Text(Cow::Borrowed(text));
    let path = record.filename.as_deref().unwrap_or_default();
    let (offset, bytes, content_hash, header) = image.unwrap_or((record.range.start, 0, String::new(), NO_IMAGE));
    // The column has 32 bits; the length of a longer tar sample is cut to the maximum.
    let record_bytes = u32::try_from(record.range.end - record.range.start).unwrap_or(u32::MAX);
    [
        text(""),
        text(shard),
        Cell::Unsigned(number),
        Cell::Text(String::from_utf8_lossy(&record.key)),
        Cell::Text(String::from_utf8_lossy(path)),
        std::str::from_utf8(path).map_or_else(|_| Cell::Text(hash::hex(path).into()), |_| Cell::Null),
        record.label.number().map_or(Cell::Null, Cell::Signed),
        record.class.as_deref().map_or(Cell::Null, |class| Cell::Text(String::from_utf8_lossy(class))),
        Cell::Unsigned(record.range.start),
        Cell::Unsigned(record_bytes.into()),
        Cell::Unsigned(offset),
        Cell::Unsigned(bytes.into()),
        Cell::Text(content_hash.into()),
        text(header.kind.name()),
        Cell::Unsigned(header.width.into()),
        Cell::Unsigned(header.height.into()),
        text(header.mode.name()),
        Cell::Unsigned(header.depth.into()),
    ]
}
