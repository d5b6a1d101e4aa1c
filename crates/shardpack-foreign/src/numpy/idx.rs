//! The files of MNIST: `train-images-idx3-ubyte` beside `train-labels-idx1-ubyte`, compressed by gzip or not.
//!
//! # Bytes
//! `00 00 type axes`, the length of each axis in 4 bytes, and the items; all numbers are big-endian.
//!
//! # Specification
//! Y. LeCun, C. Cortes, C. Burges: "The MNIST database of handwritten digits", file formats. Fashion-MNIST, KMNIST and EMNIST have the same.

use std::{io::Read, path::Path, sync::Arc};

use shardpack_format::{Error, Result};

use super::{read::Content, stored::Stored};
use crate::{
    FileLocation,
    plain::by,
    tables::item::{Item, Order},
};

/// End of the names, after the number of axes.
const END: &str = "-ubyte";
/// The name of the test images among the words of a name.
const TEST: (&str, &str) = ("t10k", "test");
/// Most axes of an array.
const MAX_AXES: usize = 8;
const GZIP: &[u8] = b"\x1f\x8b";

/// The name of the array in a file, `train-images`, if a file of this name is one.
pub(super) fn array_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let bare = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(END)?;
    let (name, axes) = bare.rsplit_once(['-', '.'])?;
    let is_idx = axes.strip_prefix("idx").is_some_and(|axes| matches!(axes.parse(), Ok(1..=MAX_AXES)));
    let words: Vec<&str> = name.split('-').map(|word| if word == TEST.0 { TEST.1 } else { word }).collect();
    // The words before these are the name of the dataset: `emnist-balanced-train-images`.
    let own = words.len().saturating_sub(2);
    is_idx.then(|| words[own..].join("-")).filter(|name| !name.is_empty())
}

/// Reads the head of the file at `place`.
///
/// # Errors
/// If the file is corrupt.
pub(super) fn open(name: String, place: &FileLocation) -> Result<Stored> {
    let wrong = |what: String| Error::data(format!("array {name}: {what}")).in_file(place.path());
    let file = Arc::new(place.open()?);
    let stored = file.count().map_err(|error| Error::io("cannot read", error))?;
    let mut first = [0; 2];
    let is_gzip = stored >= 2 && file.read_exact_at(&mut first, 0).is_ok() && first == GZIP;
    let content = Content { file, range: 0..stored, is_deflated: false, is_gzip, bytes: stored };
    let mut head = [0; 4 + 4 * MAX_AXES];
    let mut reader = content.from(0).map_err(|error| Error::io("cannot read", error))?;
    let mut read = |head: &mut [u8]| {
        reader.read_exact(head).map_err(|error| match error.raw_os_error() {
            Some(_) => Error::io("cannot read", error),
            None => wrong(format!("damaged: {error}")),
        })
    };
    read(&mut head[..4])?;
    let [0, 0, kind, axes] = head[..4] else { return Err(wrong("no idx file by its first bytes".to_owned())) };
    let axes = usize::from(axes);
    if !(1..=MAX_AXES).contains(&axes) {
        return Err(wrong(format!("{axes} axes")));
    }
    let whole = |size: u8, is_signed: bool| Item::Whole { size, is_signed, order: Order::Big };
    let item = match kind {
        0x08 => whole(1, false),
        0x09 => whole(1, true),
        0x0b => whole(2, true),
        0x0c => whole(4, true),
        0x0d => Item::Real { size: 4, order: Order::Big },
        0x0e => Item::Real { size: 8, order: Order::Big },
        kind => return Err(wrong(format!("items of type {kind:#04x}, which idx does not have"))),
    };
    read(&mut head[4..4 + 4 * axes])?;
    let (lengths, _) = head[4..4 + 4 * axes].as_chunks::<4>();
    let shape: Vec<u64> = lengths.iter().map(|length| u32::from_be_bytes(*length).into()).collect();
    let item_bytes = item.bytes().unwrap_or(1);
    let (head_bytes, item_count) =
        (4 + 4 * axes as u64, shape.iter().try_fold(1u64, |all, axis| all.checked_mul(*axis)));
    let data_bytes = item_count.and_then(|count| count.checked_mul(item_bytes as u64));
    let expected = data_bytes.and_then(|bytes| bytes.checked_add(head_bytes));
    // The most that gzip can make of these bytes; the length itself is compared when the file is read whole.
    let most = if is_gzip { stored.saturating_mul(MAX_RATIO) } else { stored };
    let (Some(data_bytes), Some(expected)) = (data_bytes, expected.filter(|bytes| *bytes <= most)) else {
        return Err(wrong(format!("truncated: {} items in a file of {stored} bytes", by(&shape))));
    };
    if !is_gzip && expected != stored {
        return Err(wrong(format!("{stored} bytes, {expected} in its head: {} items", by(&shape))));
    }
    let content = Content { bytes: expected, ..content };
    Ok(Stored { name, content, item, item_bytes, shape, is_fortran: false, head_bytes, data_bytes })
}

/// No stream of deflate makes more bytes of one (RFC 1951: 258 of two codes of a bit).
const MAX_RATIO: u64 = 1032;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_split_and_images_or_labels() {
        for (name, expected) in [
            ("train-images-idx3-ubyte", Some("train-images")),
            ("t10k-labels-idx1-ubyte.gz", Some("test-labels")),
            ("train-labels.idx1-ubyte", Some("train-labels")),
            ("emnist-balanced-test-images-idx3-ubyte.gz", Some("test-images")),
            ("images-idx3-ubyte", Some("images")),
            ("train.idx", None),
            ("idx3-ubyte", None),
            ("train-images-idx99-ubyte", None),
            ("train-images-ubyte", None),
        ] {
            assert_eq!(array_name(Path::new(name)).as_deref(), expected, "{name}");
        }
    }
}
