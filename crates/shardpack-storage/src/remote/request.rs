//! Requests for objects, their results, and counters of both.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::Transfers;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub requests: AtomicU64,
    pub bytes: AtomicU64,
    pub again: AtomicU64,
    pub too_many: AtomicU64,
    pub sent_bytes: AtomicU64,
    /// HTML pages that came in place of objects.
    pub pages: AtomicU64,
    /// Counters of the subfolders that were opened from this folder.
    folders: Mutex<Vec<Arc<Self>>>,
}

impl Counters {
    /// New counters for a subfolder, which count for this folder too.
    pub fn of_folder(&self) -> Arc<Self> {
        let counters = Arc::new(Self::default());
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counters));
        counters
    }

    /// The transfers of this folder and its subfolders so far.
    pub fn transfers(&self) -> Transfers {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let own = Transfers {
            requests: of(&self.requests),
            bytes: of(&self.bytes),
            again: of(&self.again),
            too_many: of(&self.too_many),
            sent_bytes: of(&self.sent_bytes),
        };
        let folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        folders.iter().map(|folder| folder.transfers()).fold(own, Transfers::and)
    }
}

/// An object, or a byte range, to read.
pub(crate) struct GetRequest {
    pub name: String,
    pub range: Option<Range<u64>>,
    /// Length of the object in bytes, if known.
    pub object_bytes: Option<u64>,
    /// The listed version, if known: [`Version::stamp`].
    pub stamp: Option<i64>,
    /// Whether the object may be missing: S3 refuses requests for missing objects to callers that may not list.
    pub is_optional: bool,
    /// Maximum bytes to read from an object of unknown length.
    pub most: u64,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GetOutcome {
    /// Whether the object exists.
    pub is_there: bool,
    /// Its length in bytes, if the server sends it.
    pub object_bytes: Option<u64>,
}
