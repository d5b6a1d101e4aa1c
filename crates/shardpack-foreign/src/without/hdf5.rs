//! Stands for the reader of HDF5 in a build without the feature `hdf5`: files are recognised and refused.

use shardpack_format::{
    Error, ErrorKind, Result,
    formats::foreign::{Walk, Wanted},
};

use super::Place;
pub use known::{OddSplits, Outline, is, stray};

#[path = "../hdf5/known.rs"]
mod known;

fn refused<T>(place: &Place) -> Result<T> {
    // Not damage of the file: `verify` must not report it as such.
    Err(Error::new(ErrorKind::System, "this build cannot read HDF5 (it lacks the feature hdf5)").in_file(place.path()))
}

/// The walk of a file.
///
/// # Errors
/// Always.
pub fn walk(file: Place, _: &Wanted, _: Option<&str>) -> Result<Box<dyn Walk>> {
    refused(&file)
}

/// Class names in the order of labels.
///
/// # Errors
/// Always.
pub fn classes(file: Place, _: &Wanted) -> Result<Vec<Vec<u8>>> {
    refused(&file)
}

/// Names of the splits.
///
/// # Errors
/// Always.
pub fn splits(file: Place, _: &Wanted) -> Result<Vec<String>> {
    refused(&file)
}

/// The datasets of a file, if all are in the root group.
///
/// # Errors
/// Always.
pub fn outline(file: Place) -> Result<Option<Outline>> {
    refused(&file)
}

/// Warnings about the splits in the file.
///
/// # Errors
/// Always.
pub fn odd_splits(file: Place, _: &Wanted) -> Result<OddSplits> {
    refused(&file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_recognised_and_refused_by_name() {
        let mut bytes = vec![0; 1024];
        bytes[512..520].copy_from_slice(b"\x89HDF\r\n\x1a\n");
        assert!(is(&bytes[512..]) && is(&bytes) && !is(&bytes[..512]));
        let place = || Place::Local("a.h5".into());
        for error in [outline(place()).unwrap_err(), splits(place(), &Wanted::default()).unwrap_err()] {
            assert_eq!(error.to_string(), "a.h5: this build cannot read HDF5 (it lacks the feature hdf5)");
            assert_eq!(error.kind(), ErrorKind::System);
        }
    }
}
