//! Objects below a URL, read whole or by range.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use shardpack_format::{Error, ErrorKind, Result};

use crate::{
    answer::Version,
    location::{Kind, Location},
    reading::Reading,
    runtime,
    settings::{Options, Settings, unknown},
    shared::Shared,
};

/// What reading has taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were sent.
    pub requests: u64,
    /// Bytes of bodies that came.
    pub bytes: u64,
    /// Requests that had to be sent again, from where they were.
    pub again: u64,
    /// Answers that said that requests were too many.
    pub too_many: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub requests: AtomicU64,
    pub bytes: AtomicU64,
    pub again: AtomicU64,
    pub too_many: AtomicU64,
}

/// A folder on a web server, or a prefix of a bucket.
///
/// `Send` and `Sync`; a process that was forked from one that has it may go on with it.
#[derive(Debug)]
pub struct Store {
    location: Location,
    settings: Settings,
    options: Options,
    /// Of this process: connections are not shared with a process that was forked.
    shared: Mutex<Option<(u32, Arc<Shared>)>>,
    /// The version of each object that was read first.
    versions: Mutex<HashMap<String, Version>>,
    counters: Counters,
}

/// One object, or a range of it, to be read.
pub(crate) struct Wanted {
    pub name: String,
    pub range: Option<Range<u64>>,
    /// Length of the object in bytes, where that is known.
    pub object_bytes: Option<u64>,
    /// Whether it may be missing: S3 refuses what is not there to those who may not list.
    pub is_optional: bool,
    /// As many are taken of an object whose length is not known.
    pub most: u64,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Whether there is such an object.
    pub is_there: bool,
    /// Its length, as far as the server says.
    pub object_bytes: Option<u64>,
}

impl Store {
    /// The folder at `url`. Nothing is asked of it yet.
    ///
    /// # Errors
    /// When this is no URL of a folder, or a setting is none of its kind of store.
    pub fn new(url: &str, settings: &Settings) -> Result<Self> {
        let location = Location::parse(url)?;
        let options = settings.options()?;
        if location.kind == Kind::Web
            && let Some((name, _)) = settings.of_client(Kind::Web).next()
        {
            return Err(unknown(Kind::Web, name));
        }
        let store = Self {
            location,
            settings: settings.clone(),
            options,
            shared: Mutex::default(),
            versions: Mutex::default(),
            counters: Counters::default(),
        };
        store.shared(std::process::id())?;
        Ok(store)
    }

    /// The folder `name` in it.
    ///
    /// # Errors
    /// When this is no name of one.
    pub fn folder(&self, name: &str) -> Result<Self> {
        Self::new(&format!("{}{name}", self.url()), &self.settings)
    }

    /// The URL, which ends with a slash.
    pub fn url(&self) -> &str {
        &self.location.shown
    }

    /// The URL of an object.
    pub fn object_url(&self, name: &str) -> String {
        self.location.shown(name)
    }

    /// What reading has taken so far.
    pub fn counts(&self) -> Counts {
        let Counters { requests, bytes, again, too_many } = &self.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { requests: of(requests), bytes: of(bytes), again: of(again), too_many: of(too_many) }
    }

    /// How many requests at a time help, as far as is known by now: fewer of a server that is near, or says that it is too much.
    pub fn in_flight(&self) -> u32 {
        self.shared(std::process::id()).map_or(1, |shared| shared.limiter.limit())
    }

    /// Reads all of the object `name`, a path below the folder; `None` where there is none.
    ///
    /// # Errors
    /// When it is longer than `most` bytes, or the server does not send it.
    pub fn read_all(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.read_whole(name, most, false)
    }

    /// As [`Store::read_all`] of an object that need not be there: one that is refused is taken for none, where the server has given others.
    /// S3 refuses whoever may not list what is not there.
    ///
    /// # Errors
    /// As [`Store::read_all`].
    pub fn read_optional(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.read_whole(name, most, true)
    }

    fn read_whole(&self, name: &str, most: u64, is_optional: bool) -> Result<Option<Vec<u8>>> {
        let mut all = Vec::new();
        let wanted = Wanted { name: name.to_owned(), range: None, object_bytes: None, is_optional, most };
        let found = self.run(wanted, |bytes| all.extend_from_slice(bytes))?;
        Ok(found.is_there.then_some(all))
    }

    /// Length of the object `name` in bytes; `None` where there is none.
    ///
    /// # Errors
    /// When the server does not answer, or not with a length.
    pub fn length(&self, name: &str) -> Result<Option<u64>> {
        // A range, since servers that know no HEAD, or compress their answers to it, tell another length or none.
        let (range, object_bytes) = (Some(0..1), None);
        let wanted = Wanted { name: name.to_owned(), range, object_bytes, is_optional: false, most: 1 };
        match self.run(wanted, |_| ())? {
            Found { is_there: false, .. } => Ok(None),
            Found { object_bytes: Some(bytes), .. } => Ok(Some(bytes)),
            Found { .. } => {
                Err(Error::new(ErrorKind::System, "the server does not say how long it is")
                    .in_file(self.object_url(name)))
            }
        }
    }

    /// Reads bytes of the object `name` from `offset` on, as many as `into` has room for. It is `object_bytes` long.
    ///
    /// # Errors
    /// When there is no such object, it is another one than before or has another length, or the server does not send it.
    pub fn read(&self, name: &str, object_bytes: u64, offset: u64, into: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(into.len() as u64).filter(|end| *end <= object_bytes);
        let end = end.ok_or_else(|| {
            Error::data(format!("is {object_bytes} bytes")).at_byte(offset).in_file(self.object_url(name))
        })?;
        if into.is_empty() {
            return Ok(());
        }
        let (range, object_bytes, most) = (Some(offset..end), Some(object_bytes), end - offset);
        let mut at = 0;
        let wanted = Wanted { name: name.to_owned(), range, object_bytes, is_optional: false, most };
        let found = self.run(wanted, |bytes| {
            // No more come than were asked for.
            into[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        })?;
        match found.is_there {
            true => Ok(()),
            false => {
                Err(Error::data("the manifest names this object, and it is not there").in_file(self.object_url(name)))
            }
        }
    }

    fn shared(&self, process: u32) -> Result<Arc<Shared>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, shared)) = &*shared
            && *of == process
        {
            return Ok(Arc::clone(shared));
        }
        let made = Shared::of(process, &self.location, &self.settings, &self.options)?;
        std::mem::forget(shared.replace((process, Arc::clone(&made))));
        Ok(made)
    }

    /// Reads what is wanted, and hands out its bytes in order.
    fn run(&self, wanted: Wanted, take: impl FnMut(&[u8])) -> Result<Found> {
        let shared = self.shared(std::process::id())?;
        let Self { location, settings, options, versions, counters, .. } = self;
        let reading = Reading { shared: &shared, location, settings, counters, versions, options, wanted };
        runtime::wait(reading.run(take))?
    }
}
