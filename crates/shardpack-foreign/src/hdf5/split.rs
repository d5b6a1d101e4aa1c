//! Reads the splits of a file: from the names of its datasets and groups, or from Fuel's attribute `split`, which assigns
//! rows to splits.
//!
//! # Specification
//! Fuel 0.2, `H5PYDataset.create_split_array`: an array of structures with `split`, `source`, `start`, `stop`, `indices`,
//! `available`, `comment`, on the root.

use std::ops::Range;

use hdf5_reader::{Attribute, CompoundField, Datatype, Hdf5File, error::Error as Hdf5Error};
use shardpack_format::{Error, Result, formats::foreign::Label};

use super::{
    super::tables::{
        known::OddSplits,
        names,
        table::{self, Table, no_split},
        values,
    },
    array::item,
    layout::{Layout, Samples},
    names::Members,
    open,
};

impl Layout {
    /// Names of the splits; empty if there are none.
    ///
    /// # Errors
    /// If the file is corrupt.
    pub fn splits(&self, file: &Hdf5File) -> Result<Vec<String>> {
        let all: Option<Vec<String>> = match self {
            Self::Rows(tables) => match &**tables {
                [table] => return Ok(ranges(file, table)?.into_iter().map(|(name, _)| name).collect()),
                tables => return Ok(table::splits(tables)),
            },
            Self::ImageDatasets(groups) | Self::SampleGroups(Samples { groups, .. }) => {
                groups.iter().map(|one| one.group.split('/').next().and_then(names::split)).collect()
            }
        };
        let mut splits = all.unwrap_or_default();
        splits.sort_unstable();
        splits.dedup();
        Ok(splits)
    }

    /// Warnings about the splits of the layout.
    ///
    /// # Errors
    /// If the file is corrupt.
    pub fn split_warnings(&self, file: &Hdf5File) -> Result<OddSplits> {
        let Self::Rows(tables) = self else { return Ok(OddSplits::default()) };
        let [table] = &**tables else { return Ok(OddSplits::default()) };
        let ranges = ranges(file, table)?;
        let strays = if ranges.is_empty() { Vec::new() } else { strays(&ranges, &table.rows) };
        Ok(OddSplits { strays, shared: shared(&ranges) })
    }

    /// The part of the layout in the split `part`; all if `None`.
    ///
    /// # Errors
    /// If the split does not exist.
    pub fn of_split(self, file: &Hdf5File, part: Option<&str>) -> Result<Self> {
        let Some(part) = part else { return self.told_splits(file) };
        let none = || no_split(part);
        match self {
            Self::Rows(tables) if tables.len() == 1 => {
                let ranges = ranges(file, &tables[0])?;
                // Each is reported once.
                let is_first = ranges.first().is_some_and(|(name, _)| name == part);
                let strays = if is_first { strays(&ranges, &tables[0].rows) } else { Vec::new() };
                let (_, rows) = ranges.into_iter().find(|(name, _)| name == part).ok_or_else(none)?;
                let of_part = |mut table: Table| {
                    table.note += &format!("; rows {} to {} by attribute split", rows.start, rows.end);
                    (table.rows, table.strays) = (rows.clone(), strays.clone());
                    table
                };
                Ok(Self::Rows(tables.into_iter().map(of_part).collect()))
            }
            Self::Rows(tables) => Ok(Self::Rows(table::of_split(tables, part)?)),
            Self::ImageDatasets(mut groups) => {
                groups.retain(|one| one.group.split('/').next().and_then(names::split).as_deref() == Some(part));
                if groups.is_empty() { Err(none()) } else { Ok(Self::ImageDatasets(groups)) }
            }
            Self::SampleGroups(mut samples) => {
                let is_own =
                    |one: &Members| one.group.split('/').next().and_then(names::split).as_deref() == Some(part);
                samples.groups.retain(is_own);
                if samples.groups.is_empty() { Err(none()) } else { Ok(Self::SampleGroups(samples)) }
            }
        }
    }

    /// The same layout, with notes about splits that are not followed.
    fn told_splits(mut self, file: &Hdf5File) -> Result<Self> {
        if let Self::Rows(tables) = &mut self
            && let [table] = &mut **tables
        {
            let ranges = ranges(file, table)?;
            let told: Vec<_> =
                ranges.iter().map(|(name, rows)| format!("{name} {} to {}", rows.start, rows.end)).collect();
            if !told.is_empty() {
                table.note += &format!("; attribute split is not followed: {}", told.join(", "));
            }
        }
        Ok(self)
    }
}

/// The splits of a dataset with their rows, in order; empty if no attribute defines them, or if it lists single rows.
///
/// # Errors
/// If the attribute is corrupt, or its rows are outside the dataset.
pub(super) fn ranges(file: &Hdf5File, table: &Table) -> Result<Vec<(String, Range<u64>)>> {
    let attribute = file.root_group().and_then(|root| root.attribute("split"));
    let attribute = match attribute.map_err(open::cause) {
        Ok(attribute) => attribute,
        Err(Hdf5Error::AttributeNotFound(_)) => return Ok(Vec::new()),
        Err(error) => return Err(open::to_error(error)),
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
        // A reference to row numbers; all zeros if unused.
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

/// The parts of `rows` outside all `ranges`.
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

/// Two splits that share rows, and which, in words.
pub(super) fn shared(ranges: &[(String, Range<u64>)]) -> Option<String> {
    let mut named: Vec<_> = ranges.iter().filter(|(_, rows)| !rows.is_empty()).collect();
    named.sort_by_key(|(_, rows)| (rows.start, rows.end));
    // If any two ranges overlap, two neighbours overlap.
    let (one, other) = named.windows(2).map(|two| (two[0], two[1])).find(|(one, other)| other.1.start < one.1.end)?;
    let rows = other.1.start..one.1.end.min(other.1.end);
    Some(format!("splits {} and {} share rows {} to {} by attribute split", one.0, other.0, rows.start, rows.end))
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
        match values::whole(&item(kind), bytes) {
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

    #[test]
    fn rows_of_two_splits_are_shared() {
        let of = |ranges: &[Range<u64>]| {
            let ranges: Vec<_> = "abc".chars().map(String::from).zip(ranges.iter().cloned()).collect();
            shared(&ranges)
        };
        for apart in [&[0..6, 6..10][..], &[6..10, 0..6, 6..6]] {
            assert_eq!(of(apart), None, "{apart:?}");
        }
        let told = |one: &str, rows: &str| Some(format!("splits {one} share rows {rows} by attribute split"));
        assert_eq!(of(&[0..6, 5..10]), told("a and b", "5 to 6"));
        assert_eq!(of(&[8..9, 0..4, 2..3]), told("b and c", "2 to 3"));
    }
}
