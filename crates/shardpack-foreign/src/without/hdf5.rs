//! Stands for the reader of HDF5 in a build without the feature `hdf5`: files are recognised and refused.

use shardpack_format::{Error, ErrorKind, Result};

use super::{ShardFile, entry::Entry};
use known::takes;
pub use known::{FILE, are_samples, is};

#[path = "../hdf5/known.rs"]
mod known;

/// The line in the table of kinds.
pub(crate) static ENTRY: Entry = Entry {
    extensions: &["h5", "he5"],
    takes,
    splits: |file, _| refused(file),
    ..Entry::new("hdf5", is, |file, _, _| refused(file))
};

fn refused<T>(file: &ShardFile) -> Result<T> {
    // Not damage of the file: `verify` must not report it as such.
    Err(Error::new(ErrorKind::System, "this build cannot read HDF5 (it lacks the feature hdf5)").in_file(&file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_recognised_and_refused_by_name() {
        let mut bytes = vec![0; 1024];
        bytes[512..520].copy_from_slice(b"\x89HDF\r\n\x1a\n");
        assert!(is(&bytes[512..]) && is(&bytes) && !is(&bytes[..512]));
        let path = std::env::temp_dir().join(format!("shardpack-{}.h5", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let file = ShardFile::recognise(&(&path).into()).unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        let error = file.splits(&Default::default()).unwrap_err();
        let what = "this build cannot read HDF5 (it lacks the feature hdf5)";
        assert_eq!(error.to_string(), format!("{}: {what}", path.display()));
        assert_eq!(error.kind(), ErrorKind::System);
    }
}
