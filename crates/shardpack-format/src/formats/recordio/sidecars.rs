//! Writes the sidecars of RecordIO: indexes for MXNet and DALI, and the list of im2rec.

use std::io::Write;

use super::layout::{EXTENSION, id};
use crate::{
    Error, Result,
    formats::sidecars::{self, Dataset, Files, Kind, Sealed},
    index::Index,
};

/// Sidecar kind: an index of each shard.
const IDX: &str = "idx";
/// Sidecar kind: one index of all shards.
const DALI: &str = "dali";
/// Sidecar kind: a list of all samples.
const LST: &str = "lst";

const OF_DATASET: Kind = Kind { auto: true, ..sidecars::CLASSES };

/// All sidecar kinds of the format.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: IDX,
        about: "MXNet: NAME-000000.idx beside each shard, id and offset",
        files: &["{stem}.idx"],
        of_shards: true,
        ..OF_DATASET
    },
    Kind {
        name: DALI,
        about: "DALI: NAME-dali.idx, id and offset in all shards together",
        files: &["{name}-dali.idx"],
        ..OF_DATASET
    },
    Kind {
        name: LST,
        about: "im2rec: NAME.lst, id, label and path",
        files: &["{name}.lst"],
        path_fits: Some(path_fits),
        ..OF_DATASET
    },
    sidecars::CLASSES,
    sidecars::LABELS,
];

/// Writes the sidecar `kind` of one shard; nothing if `kind` has no file for each shard.
///
/// # Errors
/// If the index cannot be read, or `out` fails.
pub(super) fn write_of_shard(kind: &str, of: &Sealed<'_>, out: &mut dyn Files) -> Result<()> {
    if kind != IDX {
        return Ok(());
    }
    out.begin(&format!("{}.idx", of.shard.file.strip_suffix(EXTENSION).unwrap_or(&of.shard.file)))?;
    out.write(&offsets(of.index, 0)?)
}

/// Writes the sidecar `kind` of the whole dataset; nothing if `kind` has only files for each shard.
///
/// # Errors
/// If `kind` is unknown, an index cannot be read, a list cannot represent a path, or `out` fails.
pub(super) fn write(kind: &str, dataset: &Dataset<'_>, out: &mut dyn Files) -> Result<()> {
    match kind {
        IDX => Ok(()),
        DALI => one_index(dataset, out),
        LST => list(dataset, out),
        _ => sidecars::write(super::NAME, kind, dataset, out),
    }
}

fn one_index(dataset: &Dataset<'_>, out: &mut dyn Files) -> Result<()> {
    // No conflict with a shard's index: names of shards end in digits.
    out.begin(&format!("{}-dali.idx", dataset.name))?;
    let mut start = 0;
    for (number, shard) in dataset.shards.iter().enumerate() {
        out.write(&offsets(&(dataset.index)(number)?, start)?)?;
        start += shard.bytes;
    }
    Ok(())
}

/// Index lines for the shard of `index`; `start` is added to the offsets.
fn offsets(index: &Index<Vec<u8>>, start: u64) -> Result<Vec<u8>> {
    let mut lines = Vec::new();
    for row in index.iter() {
        let row = row?;
        line(&mut lines, format_args!("{}\t{}\n", id(row.key)?, start + row.offset))?;
    }
    Ok(lines)
}

fn list(dataset: &Dataset<'_>, out: &mut dyn Files) -> Result<()> {
    out.begin(&format!("{}.lst", dataset.name))?;
    for number in 0..dataset.shards.len() {
        let mut lines = Vec::new();
        for row in (dataset.index)(number)?.iter() {
            let row = row?;
            path_fits(row.path).map_err(|error| error.in_sample(row.name()))?;
            line(&mut lines, format_args!("{}\t{}.000000\t", id(row.key)?, row.label.unwrap_or(0)))?;
            lines.extend_from_slice(row.path);
            lines.push(b'\n');
        }
        out.write(&lines)?;
    }
    Ok(())
}

/// A list cannot represent every path: im2rec takes the last column and strips white space.
fn path_fits(path: &[u8]) -> Result<()> {
    match path.iter().any(|byte| matches!(byte, b'\t' | b'\n' | b'\r')) {
        true => Err(Error::data("its path holds a tab or a line break, which a .lst file cannot represent")
            .help("--sidecars idx,dali writes the indexes without the list")),
        false => Ok(()),
    }
}

fn line(lines: &mut Vec<u8>, text: std::fmt::Arguments<'_>) -> Result<()> {
    lines.write_fmt(text).map_err(|error| Error::io("cannot write", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        formats::{
            recordio::read_idx,
            sidecars::tests::{Memory, NO_KINDS, NO_SETTINGS},
        },
        image_header::{Header, Kind, Mode},
        index::{Summary, write as write_index},
        manifest::Shard,
        sample::{Extent, Row},
    };

    fn row(number: u64, offset: u64, path: &[u8]) -> Row {
        Row {
            key: format!("{number:08}").into(),
            path: path.to_vec(),
            label: Some(number as i64 * 10),
            offset,
            record_bytes: 40,
            components: vec![Extent { offset: 32, bytes: 5 }],
            content_hash: 0,
            details: Vec::new(),
            frame_hash: 0,
            image: Header { kind: Kind::Jpeg, width: 0, height: 0, mode: Mode::Unknown, depth: 0 },
            in_parts: false,
        }
    }

    /// Sidecar files of two shards: the first has two samples, the second has one, with path `last`.
    fn written(kind: &str, last: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
        let shard = |number, samples, bytes| Shard {
            file: format!("train-{number:06}.rec"),
            samples,
            bytes,
            blake3: Default::default(),
            index: Default::default(),
        };
        let index = |number: usize| {
            let rows = [vec![row(0, 0, b"a/0.jpg"), row(1, 40, b"a/1.jpg")], vec![row(2, 0, last)]];
            let (components, shard_blake3) = (vec!["image".to_owned()], [0; 32]);
            let summary = Summary { components, forms: Vec::new(), content_bytes: 80, shard_bytes: 80, shard_blake3 };
            Index::open(write_index(&summary, &rows[number])?)
        };
        let dataset = Dataset {
            name: "train",
            shards: &[shard(0, 2, 80), shard(1, 1, 40)],
            classes: &[],
            samples: 3,
            kinds: &NO_KINDS,
            settings: &NO_SETTINGS,
            components: &["image".to_owned()],
            compression: "none",
            hashes: &[],
            unpacked: &[],
            index: &index,
        };
        let mut out = Memory::default();
        for (number, shard) in dataset.shards.iter().enumerate() {
            let (index, components) = (&index(number)?, dataset.components);
            write_of_shard(kind, &Sealed { shard, index, components, compression: "none" }, &mut out)?;
        }
        write(kind, &dataset, &mut out)?;
        Ok(out.0)
    }

    #[test]
    fn each_reader_finds_what_it_looks_for() {
        let file = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
        let indexes = [file("train-000000.idx", b"0\t0\n1\t40\n"), file("train-000001.idx", b"2\t0\n")];
        assert_eq!(written("idx", b"b/2.jpg").unwrap(), indexes);
        let one = written("dali", b"b/2.jpg").unwrap();
        assert_eq!(one, [file("train-dali.idx", b"0\t0\n1\t40\n2\t80\n")]);
        assert_eq!(read_idx(&one[0].1).unwrap(), [(0, 0), (1, 40), (2, 80)]);
        let list = b"0\t0.000000\ta/0.jpg\n1\t10.000000\ta/1.jpg\n2\t20.000000\tb/\xff 2.jpg\n";
        assert_eq!(written("lst", b"b/\xff 2.jpg").unwrap(), [file("train.lst", list)]);
        assert!(written("other", b"b/2.jpg").is_err());
    }

    #[test]
    fn a_path_that_would_break_the_list_is_refused() {
        for path in [b"b/\t2.jpg", b"b/\n2.jpg", b"b/\r2.jpg"] {
            assert!(written("lst", path).is_err());
            assert!(written("idx", path).is_ok());
        }
    }
}
