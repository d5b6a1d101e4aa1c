//! Chooses the storage of a path or URL.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(not(feature = "cloud"))]
use shardpack_format::Error;
use shardpack_format::Result;

use crate::{Local, Storage, StoreSettings, disk::or_current, is_url, storage::check_writable};

/// The storage at `path`, a path or URL. `settings` are for URLs.
///
/// # Errors
/// If this build cannot read the URL, there are no such settings, or `path` is not a URL and has settings.
pub fn open(path: impl AsRef<Path>, settings: &StoreSettings) -> Result<Arc<dyn Storage>> {
    let path = path.as_ref();
    if !is_url(path) {
        settings.refuse_for(path)?;
        return Ok(Arc::new(Local::new(path)));
    }
    remote(path, settings, true)
}

/// As [`open`]; credentials of a URL are looked up at the first request, which may never come.
///
/// # Errors
/// As [`open`].
pub fn open_later(path: impl AsRef<Path>, settings: &StoreSettings) -> Result<Arc<dyn Storage>> {
    match is_url(path.as_ref()) {
        true => remote(path.as_ref(), settings, false),
        false => open(path, settings),
    }
}

fn remote(url: &Path, settings: &StoreSettings, is_now: bool) -> Result<Arc<dyn Storage>> {
    #[cfg(feature = "cloud")]
    return Ok(Arc::new(crate::remote::Remote::open(url, settings, is_now)?));
    #[cfg(not(feature = "cloud"))]
    let _ = (settings, is_now);
    #[cfg(not(feature = "cloud"))]
    Err(Error::usage("this build cannot read URLs (it lacks the feature cloud)")
        .in_file(url)
        .help("build the crate shardpack-reader with its feature `cloud`"))
}

/// As [`open`], for a storage that is written.
///
/// # Errors
/// As [`open`], and if files there cannot be written, as on a web server.
pub fn open_to_write(path: impl AsRef<Path>, settings: &StoreSettings) -> Result<Arc<dyn Storage>> {
    let storage = open(path, settings)?;
    check_writable(storage.as_ref()).map(|()| storage)
}

/// The folder above `folder`, a path or URL; `None` at the top of a store.
pub fn above(folder: &Path) -> Option<PathBuf> {
    match is_url(folder) {
        // Through `..` and not the text of the path: `train` and `.` have a parent folder too.
        false => Some(folder.join("..")),
        true => folder.parent().filter(|above| is_url(above)).map(Path::to_path_buf),
    }
}

/// The longest existing part of a path of this machine, with links resolved, and whether it is the whole path; `None` if no part can be
/// resolved. A URL is taken as it is.
pub fn existing(path: &Path) -> Option<(PathBuf, bool)> {
    if is_url(path) {
        return Some((path.to_path_buf(), true));
    }
    path.ancestors().find_map(|above| Some((or_current(above).canonicalize().ok()?, above == path)))
}

/// Whether processes with this work folder may have started files that [`Storage::abort_begun`] aborts.
pub fn has_begun(work: &Path) -> bool {
    #[cfg(feature = "cloud")]
    return crate::remote::has_record(work);
    #[cfg(not(feature = "cloud"))]
    return {
        let _ = work;
        false
    };
}
