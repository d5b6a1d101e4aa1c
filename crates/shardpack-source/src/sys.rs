//! Paths and URLs as a source names them, and the files of [`shardpack_storage`].

use std::path::{Path, PathBuf};

use shardpack_format::{Error, Result};
pub use shardpack_storage::{
    lock::Lock,
    machine::{check_writable, free_bytes, memory_bytes, raise_open_files},
    own::write_durably,
    sys::{
        MORE_FILES, exists, finish_durably, io_error, is_file, is_folder, is_of_machine, is_out_of_files, metadata_opt,
        missing, read_opt, remove_file, sync_folder,
    },
};

/// Error for a URL in place of a path.
pub fn not_a_path(url: &str) -> Error {
    let error = Error::usage(format!("{url} is a URL: only files are read and written here"));
    match url.split_once("://") {
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("file") => {
            error.help(format!("give the path alone: {path}"))
        }
        _ => error.help("give the path of a file or folder: one that is mounted, or a copy"),
    }
}

/// The absolute path of `path`, with links resolved.
///
/// # Errors
/// If the path does not exist.
pub fn resolved(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| io_error("cannot resolve", path, e))
}
