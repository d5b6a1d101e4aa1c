//! Opens the files that a manifest names: regular files of the listed length; an error names the file.

use std::{
    fs::{File, Metadata},
    io,
    path::Path,
};

use shardpack_format::{Error, Result, help, regular};

/// Longest manifest that is read: enough for some millions of shards.
pub(crate) const MOST_MANIFEST_BYTES: u64 = 1 << 30;

/// Opens `path`, with a length of `bytes` in the manifest.
///
/// # Errors
/// When it is missing, cannot be opened, is not a regular file, or has another length.
pub(crate) fn open(path: &Path, bytes: u64) -> Result<File> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::data("the manifest names this file, and it is not there").help(help::COPY_AGAIN)
        }
        _ => io_error("cannot open", error),
    };
    let open = || {
        let file = regular::open(path).map_err(failed)?;
        match file.metadata().map_err(|error| io_error("cannot look at", error))?.len() {
            found if found == bytes => Ok(file),
            found => Err(Error::data(format!("{found} bytes, {bytes} in the manifest")).help(help::COPY_AGAIN)),
        }
    };
    open().map_err(|error| error.in_file(path))
}

/// Metadata of the file at `path`; `None` if it does not exist.
///
/// # Errors
/// When the system cannot report whether it exists.
pub(crate) fn metadata_if_there(path: &Path) -> Result<Option<Metadata>> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(io_error("cannot look at", error).in_file(path)),
    }
}

/// `error` of the system, with a help text if there is one.
pub(crate) fn io_error(what: &str, error: io::Error) -> Error {
    if regular::is_other(&error) {
        return Error::data(error.to_string());
    }
    // EMFILE and ENFILE have no name of their own in std; their numbers are the same on every Unix.
    let too_many_files = matches!(error.raw_os_error(), Some(23 | 24));
    let error = Error::io(what, error);
    if too_many_files { error.help("raise the limit of open files: ulimit -n") } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::ErrorKind;

    #[test]
    fn only_a_regular_file_of_the_right_length_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"12345").unwrap();
        assert!(open(&path, 5).is_ok());
        let cases = [
            ("too long", path.clone(), 4, "5 bytes, 4 in the manifest"),
            ("too short", path.clone(), 6, "5 bytes, 6 in the manifest"),
            ("missing", folder.path().join("other"), 5, "it is not there"),
            ("folder", folder.path().to_path_buf(), 5, "not a regular file"),
            ("device", "/dev/null".into(), 0, "not a regular file"),
        ];
        for (name, path, bytes, message) in cases {
            let error = open(&path, bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{name}");
            assert!(error.to_string().ends_with(message), "{name}: {error}");
            assert_eq!(error.location().file.as_deref(), path.to_str(), "{name}");
        }
    }
}
