//! Fuel's attribute `split`: which rows of a dataset are of which split.
//!
//! # Specification
//! Fuel 0.2, `H5PYDataset.create_split_array`: an array of structures with `split`, `source`, `start`, `stop`, `indices`,
//! `available`, `comment`, on the root.

use std::ops::Range;

use hdf5_reader::{Attribute, CompoundField, Datatype, Hdf5File, error::Error as Hdf5Error};
use shardpack_format::{Error, Result, formats::foreign::Label};

use super::{open, tables::Table, values};

/// The splits of a dataset with their rows, in their order; none where no attribute says them, or where they are rows one
/// by one.
///
/// # Errors
/// When the attribute is damaged, or its rows are none of the dataset.
pub(super) fn ranges(file: &Hdf5File, table: &Table) -> Result<Vec<(String, Range<u64>)>> {
    let attribute = file.root_group().and_then(|root| root.attribute("split"));
    let attribute = match attribute.map_err(open::cause) {
        Ok(attribute) => attribute,
        Err(Hdf5Error::AttributeNotFound(_)) => return Ok(Vec::new()),
        Err(error) => return Err(open::told(error)),
    };
    let Attribute { datatype: Datatype::Compound { size, fields }, raw_data, .. } = attribute else {
        return Ok(Vec::new());
    };
    let name = table.images.rsplit('/').next().unwrap_or_default();
    let mut found: Vec<(String, Range<u64>)> = Vec::new();
    for entry in raw_data.chunks_exact((size as usize).max(1)) {
        let entry = Entry { fields: &fields, bytes: entry };
        if entry.text("source").as_deref() != Some(name) || entry.number("available") == Some(0) {
            continue;
        }
        let (Some(split), Some(start), Some(stop)) = (entry.text("split"), entry.number("start"), entry.number("stop"))
        else {
            return Ok(Vec::new());
        };
        // A reference to the numbers of rows, which is all zeros where there is none.
        if entry.field("indices").is_some_and(|(bytes, _)| bytes.iter().any(|byte| *byte != 0)) {
            return Ok(Vec::new());
        }
        let rows = u64::try_from(start).ok().zip(u64::try_from(stop).ok());
        let rows = rows.filter(|(start, stop)| start <= stop && *stop <= table.rows.end);
        let Some((start, stop)) = rows else {
            let what =
                format!("attribute split: rows {start} to {stop} of {}, which has {}", table.images, table.rows.end);
            return Err(Error::data(what));
        };
        if found.iter().any(|(known, _)| *known == split) {
            return Ok(Vec::new());
        }
        found.push((split, start..stop));
    }
    Ok(found)
}

/// Those of `rows` that are in none of `ranges`.
pub(super) fn strays(ranges: &[(String, Range<u64>)], rows: &Range<u64>) -> Vec<Range<u64>> {
    let mut named: Vec<_> = ranges.iter().map(|(_, range)| range.clone()).collect();
    named.sort_unstable_by_key(|range| (range.start, range.end));
    let (mut strays, mut next) = (Vec::new(), rows.start);
    for range in named.into_iter().chain(std::iter::once(rows.end..rows.end)) {
        if range.start > next {
            strays.push(next..range.start);
        }
        next = next.max(range.end);
    }
    strays
}

/// A structure.
struct Entry<'a> {
    fields: &'a [CompoundField],
    bytes: &'a [u8],
}

impl Entry<'_> {
    fn field(&self, name: &str) -> Option<(&[u8], &Datatype)> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        let start = field.byte_offset as usize;
        let bytes = hdf5_reader::dtype_element_size(&field.datatype).ok()?;
        Some((self.bytes.get(start..start.checked_add(bytes)?)?, &field.datatype))
    }

    fn number(&self, name: &str) -> Option<i64> {
        let (bytes, kind) = self.field(name)?;
        match values::whole(kind, bytes) {
            Label::Number(number) => Some(number),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        let (bytes, _) = self.field(name)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_no_split_names_are_strays() {
        let of = |ranges: &[Range<u64>]| {
            let ranges: Vec<_> = ranges.iter().map(|range| (String::new(), range.clone())).collect();
            strays(&ranges, &(0..10))
        };
        assert_eq!(of(&[0..6, 6..10]), []);
        assert_eq!(of(&[7..9, 1..6, 2..3]), [0..1, 6..7, 9..10]);
        assert_eq!(of(&[5..5, 5..6]), [0..5, 6..10]);
    }
}
