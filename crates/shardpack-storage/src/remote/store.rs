//! Reads objects below a URL, whole or by range.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use shardpack_format::{Error, ErrorKind, Result};

use crate::remote::{
    location::{Kind, Location},
    reading::{CHANGED_WHILE_READ, Filling, Reading, Sink},
    request::{Counters, GetOutcome, GetRequest},
    response::Version,
    retry::Asker,
    runtime,
    settings::{Options, Settings, unknown},
    shared::Shared,
};
use crate::{Object, Transfers, storage::GONE};

/// A folder on a web server, or a prefix of a bucket.
///
/// `Send` and `Sync`; usable in a forked process.
#[derive(Debug)]
pub struct Store {
    location: Location,
    settings: Settings,
    options: Options,
    /// With the process id: a forked process does not share connections.
    shared: Mutex<Option<(u32, Arc<Shared>)>>,
    /// The version of each object at its first read.
    versions: Mutex<HashMap<String, Version>>,
    counters: Arc<Counters>,
}

/// How often an object that changes during the read is read again.
const MAX_RESTARTS: u32 = 10;

impl Store {
    /// Opens the folder at `url` without a request.
    ///
    /// # Errors
    /// When this is no URL of a folder, or the kind of store has no such setting.
    pub fn new(url: &str, settings: &Settings) -> Result<Self> {
        let store = Self::later(url, settings)?;
        store.shared()?;
        Ok(store)
    }

    /// As [`Store::new`], but credentials are looked up at the first request.
    ///
    /// # Errors
    /// When `url` is invalid, or there are no such settings.
    pub fn later(url: &str, settings: &Settings) -> Result<Self> {
        let location = Location::parse(url)?;
        let options = settings.options()?;
        if location.kind == Kind::Web
            && let Some((name, _)) = settings.of_client(Kind::Web).next()
        {
            return Err(unknown(Kind::Web, name));
        }
        Ok(Self {
            location,
            settings: settings.clone(),
            options,
            shared: Mutex::default(),
            versions: Mutex::default(),
            counters: Arc::default(),
        })
    }

    /// The subfolder `name`; [`Store::transfers`] of this folder counts its transfers too.
    ///
    /// # Errors
    /// When `name` is not a valid folder name.
    pub fn folder(&self, name: &str) -> Result<Self> {
        let folder = Self::new(&format!("{}{name}", self.url()), &self.settings)?;
        Ok(Self { counters: self.counters.of_folder(), ..folder })
    }

    /// The URL, which ends with a slash.
    pub fn url(&self) -> &str {
        &self.location.shown
    }

    /// Whether the store can neither be written nor listed: it is a folder on a web server.
    pub fn is_read_only(&self) -> bool {
        self.location.kind == Kind::Web
    }

    /// The URL of an object.
    pub fn object_url(&self, name: &str) -> String {
        self.location.shown(name)
    }

    /// Counters of requests and bytes so far.
    pub fn transfers(&self) -> Transfers {
        self.counters.transfers()
    }

    /// Whether the server has sent an HTML page in place of an object.
    pub fn sends_pages(&self) -> bool {
        self.counters.pages.load(Ordering::Relaxed) > 0
    }

    /// `error` for a missing object, with a note if the server has sent an HTML page instead.
    #[must_use]
    pub fn not_there(&self, error: Error) -> Error {
        match self.sends_pages() {
            false => error,
            true => {
                error.and("the server answers with a page of HTML, as some servers do for missing files or for a login")
            }
        }
    }

    /// How many requests in flight help, as far as is known: fewer for a near server, or after the server reported too
    /// many requests.
    pub fn short_concurrency(&self) -> u32 {
        self.shared().map_or(1, |shared| shared.limiter.limit())
    }

    /// As [`Store::short_concurrency`] for long reads: more of these than the initial limit do not use the network better.
    pub fn concurrency(&self) -> u32 {
        self.shared().map_or(1, |shared| shared.limiter.limit_of_first())
    }

    /// Reads the whole object `name`, a path below the folder; `None` if it does not exist.
    ///
    /// # Errors
    /// When it is longer than `most` bytes, or the server does not send it.
    pub fn read_all(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.read_whole(name, most, false)
    }

    /// As [`Store::read_all`] for an object that other writers may change at any time: ignores the version of earlier
    /// reads, and starts again if the object changes during the read.
    ///
    /// # Errors
    /// As [`Store::read_all`].
    pub fn read_now(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        for _ in 0..MAX_RESTARTS {
            self.forget(name);
            match self.read_all(name, most) {
                Err(error) if error.what() == CHANGED_WHILE_READ => {}
                read => return read,
            }
        }
        self.forget(name);
        self.read_all(name, most)
    }

    /// Whether the object `name`, which was read before, still has the content `bytes`; reads it again only if its
    /// version changed.
    ///
    /// # Errors
    /// As [`Store::read_all`].
    pub fn is_still(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        let length = Some(bytes.len() as u64);
        match self.length(name) {
            Err(error) if error.what() == CHANGED_WHILE_READ => {
                self.forget(name);
                let is_as_long = self.length(name)? == length;
                Ok(is_as_long && self.read_now(name, bytes.len() as u64)?.is_some_and(|found| found == bytes))
            }
            found => Ok(found? == length),
        }
    }

    /// Forgets the version of `name`: the next read accepts any version.
    pub fn forget(&self, name: &str) {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// As [`Store::read_all`] for an optional object: a refused object counts as missing if the server has sent other
    /// objects. S3 refuses requests for missing objects to callers that may not list.
    ///
    /// # Errors
    /// As [`Store::read_all`].
    pub fn read_optional(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.read_whole(name, most, true)
    }

    fn read_whole(&self, name: &str, most: u64, is_optional: bool) -> Result<Option<Vec<u8>>> {
        let mut all = Vec::new();
        let wanted =
            GetRequest { name: name.to_owned(), range: None, object_bytes: None, stamp: None, is_optional, most };
        let found = self.run(wanted, |bytes: &[u8]| all.extend_from_slice(bytes))?;
        Ok(found.is_there.then_some(all))
    }

    /// Length of the object `name` in bytes; `None` if it does not exist.
    ///
    /// # Errors
    /// When the server does not answer, or its response has no length.
    pub fn length(&self, name: &str) -> Result<Option<u64>> {
        // A range request, because servers that do not support HEAD, or compress responses to it, send a wrong length
        // or none.
        let (range, object_bytes) = (Some(0..1), None);
        let wanted =
            GetRequest { name: name.to_owned(), range, object_bytes, stamp: None, is_optional: false, most: 1 };
        match self.run(wanted, |_: &[u8]| ())? {
            GetOutcome { is_there: false, .. } => Ok(None),
            GetOutcome { object_bytes: Some(bytes), .. } => Ok(Some(bytes)),
            GetOutcome { .. } => {
                Err(Error::new(ErrorKind::System, "the server sends no length").in_file(self.object_url(name)))
            }
        }
    }

    /// Fills `into` with bytes of the object `name` from `offset` on. The object is `object_bytes` long.
    ///
    /// # Errors
    /// When the object does not exist, its version or length changed, or the server does not send it.
    pub fn read(&self, name: &str, object_bytes: u64, offset: u64, into: &mut [u8]) -> Result<()> {
        self.read_known(name, object_bytes, offset..offset.saturating_add(into.len() as u64), Filling(into))
    }

    /// As [`Store::read`] for the bytes `range`, which are handed out in order as they arrive.
    ///
    /// # Errors
    /// As [`Store::read`]; bytes that were handed out before the error match the server's headers.
    pub fn read_range(&self, name: &str, object_bytes: u64, range: Range<u64>, take: impl FnMut(&[u8])) -> Result<()> {
        self.read_known(name, object_bytes, range, take)
    }

    /// As [`Store::read_range`], into `sink`.
    fn read_known(&self, name: &str, object_bytes: u64, range: Range<u64>, sink: impl Sink) -> Result<()> {
        match self.range(name, object_bytes, None, range, sink)? {
            true => Ok(()),
            false => {
                let error = Error::data("the manifest names this object, and it is not there");
                Err(self.not_there(error).in_file(self.object_url(name)))
            }
        }
    }

    /// As [`Store::read`] for an object from a list or from [`Store::look`].
    ///
    /// # Errors
    /// As [`Store::read`]; of kind [`ErrorKind::Data`] when the object does not exist any more, or is not the listed
    /// version.
    pub fn read_listed(&self, listed: &Object, offset: u64, into: &mut [u8]) -> Result<()> {
        let Object { name, bytes, stamp } = listed;
        // Versions are compared by the stamp alone and not stored for each of millions of objects.
        let range = offset..offset.saturating_add(into.len() as u64);
        match self.range(name, *bytes, Some(*stamp), range, Filling(into))? {
            true => Ok(()),
            false => Err(self.not_there(Error::data(GONE)).in_file(self.object_url(name))),
        }
    }

    /// The whole object that was listed with this stamp, of any length.
    ///
    /// # Errors
    /// As [`Store::read_listed`]; also when it is longer than `most` bytes.
    pub fn read_listed_whole(&self, name: &str, stamp: i64, most: u64) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        let (name, stamp) = (name.to_owned(), Some(stamp));
        let url = self.object_url(&name);
        let wanted = GetRequest { name, range: None, object_bytes: None, stamp, is_optional: false, most };
        match self.run(wanted, |bytes: &[u8]| all.extend_from_slice(bytes))?.is_there {
            true => Ok(all),
            false => Err(self.not_there(Error::data(GONE)).in_file(url)),
        }
    }

    /// The object `name` as in a list; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`Store::length`].
    pub fn look(&self, name: &str) -> Result<Option<Object>> {
        let Some(bytes) = self.length(name)? else { return Ok(None) };
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = versions.get(name).map_or(0, Version::stamp);
        Ok(Some(Object { name: name.to_owned(), bytes, stamp }))
    }

    /// Time of the last change of the object `name`, which was read before, in seconds since 1970; `None` if the server does not
    /// send it. Sends no request.
    pub fn changed_at(&self, name: &str) -> Option<i64> {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        versions.get(name).and_then(Version::seconds)
    }

    /// As [`Store::read_range`]; returns whether the object exists.
    fn range(
        &self,
        name: &str,
        object_bytes: u64,
        stamp: Option<i64>,
        range: Range<u64>,
        sink: impl Sink,
    ) -> Result<bool> {
        if range.end > object_bytes || range.start > range.end {
            let error = Error::data(format!("is {object_bytes} bytes")).at_byte(range.start);
            return Err(error.in_file(self.object_url(name)));
        }
        if range.is_empty() {
            return Ok(true);
        }
        let (most, object_bytes) = (range.end - range.start, Some(object_bytes));
        let (name, range) = (name.to_owned(), Some(range));
        let found = self.run(GetRequest { name, range, object_bytes, stamp, is_optional: false, most }, sink)?;
        Ok(found.is_there)
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    pub(crate) fn shared(&self) -> Result<Arc<Shared>> {
        self.shared_by(shardpack_runtime::process_id())
    }

    /// Shared state of the requests, with `shared`.
    pub(crate) fn asker<'a>(&'a self, shared: &'a Shared) -> Asker<'a> {
        let Self { location, settings, options, counters, .. } = self;
        Asker { shared, location, settings, options, counters }
    }

    fn shared_by(&self, process: u32) -> Result<Arc<Shared>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, shared)) = &*shared
            && *of == process
        {
            return Ok(Arc::clone(shared));
        }
        let made = Shared::for_location(process, &self.location, &self.settings, &self.options)?;
        std::mem::forget(shared.replace((process, Arc::clone(&made))));
        Ok(made)
    }

    /// Reads `wanted` and hands out its bytes in order.
    fn run(&self, wanted: GetRequest, sink: impl Sink) -> Result<GetOutcome> {
        let shared = self.shared()?;
        let reading = Reading { asker: self.asker(&shared), versions: &self.versions, wanted };
        runtime::wait(reading.run(sink))?
    }
}
