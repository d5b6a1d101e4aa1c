//! HDF5 without its library: the first bytes of a file, and the options for one. A build without the feature `hdf5` has only
//! these.

use shardpack_format::formats::foreign::Entries;

use crate::lmdb;

/// The first bytes of a file, or the bytes after a user block of 512, 1024, 2048, … bytes.
const MAGIC: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Whether a file begins as HDF5 does; a block of the user's own is seen as far as `first` goes.
pub fn is(first: &[u8]) -> bool {
    let places = std::iter::successors(Some(512), |at: &usize| at.checked_mul(2)).take_while(|at| *at < first.len());
    std::iter::once(0).chain(places).any(|at| first[at.min(first.len())..].starts_with(MAGIC))
}

/// Value of `--from` for files that are one sample each.
pub const FILE: &str = "hdf5:file";

/// Whether each file is one sample, as the user chose or as the files show.
pub fn are_samples(said: &Entries) -> bool {
    said.dialect.as_deref() == Some(FILE)
}

/// Whether a file can have the labels that the user chose: image datasets have names, which a file of labels can name.
pub(super) fn takes(said: &Entries) -> bool {
    if are_samples(said) {
        return Entries { dialect: None, ..said.clone() }.is_unsaid();
    }
    lmdb::label_file(said).is_some() && Entries { label_from: None, ..said.clone() }.is_unsaid()
}
