//! Reads one object: resumes after failures, until the object is complete or the patience with its server ends.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{TryStreamExt, stream::BoxStream};
use object_store::{GetResult, GetResultPayload};
use reqwest::Response;
use shardpack_format::{Error, ErrorKind, Result, size};
use shardpack_runtime::Instant;

use crate::remote::{
    http1,
    location::Kind,
    objects,
    pace::Pace,
    request::{GetOutcome, GetRequest},
    response::{self, Body, Failed, Version},
    retry::Asker,
    service::Notes,
    web,
};

/// Error text: a later response came from another version of the object than an earlier one.
pub(crate) const CHANGED_WHILE_READ: &str = "was changed on the server while it was read";
/// Error text: the object is not the version that was listed.
const CHANGED: &str = "changed since it was planned";

/// See the module.
pub(crate) struct Reading<'a> {
    pub asker: Asker<'a>,
    pub versions: &'a Mutex<HashMap<String, Version>>,
    pub wanted: GetRequest,
}

/// Takes the bytes of an object, in their order.
pub(crate) trait Sink {
    fn take(&mut self, bytes: &[u8]);

    /// Memory for the next bytes; bytes written here are reported as a count and not passed to `take`. Empty if there
    /// is no such memory.
    fn room(&mut self) -> &mut [u8] {
        &mut []
    }

    fn came(&mut self, _bytes: usize) {}
}

impl<T: FnMut(&[u8])> Sink for T {
    fn take(&mut self, bytes: &[u8]) {
        self(bytes);
    }
}

/// Memory to fill; bytes that do not fit are dropped.
pub(crate) struct Filling<'a>(pub &'a mut [u8]);

impl Sink for Filling<'_> {
    fn take(&mut self, bytes: &[u8]) {
        self.0[..bytes.len()].copy_from_slice(bytes);
        self.came(bytes.len());
    }

    fn room(&mut self) -> &mut [u8] {
        self.0
    }

    fn came(&mut self, bytes: usize) {
        self.0 = &mut std::mem::take(&mut self.0)[bytes..];
    }
}

/// Bytes of a plain response received at a time, if the sink has no larger memory.
const PART_BYTES: usize = 64 << 10;

/// The body of a response.
enum Chunks<'a> {
    Web(Response),
    Objects(BoxStream<'static, object_store::Result<Bytes>>),
    Plain(http1::Answer<'a>),
}

/// The next part of a body.
enum Next {
    /// Number of bytes that were written into the memory of the sink.
    Put(usize),
    Bytes(Bytes),
    End,
}

impl Chunks<'_> {
    /// The next bytes, in `room` or in a buffer of their own.
    async fn next(&mut self, room: &mut [u8]) -> Result<Next, Failed> {
        let chunk = match self {
            Self::Web(answer) => answer.chunk().await.map_err(web::failed)?,
            Self::Objects(stream) => stream.try_next().await.map_err(|error| objects::cut(&error))?,
            Self::Plain(answer) if !room.is_empty() => return answer.read(room).map(Next::Put),
            Self::Plain(answer) => {
                let mut part = vec![0; PART_BYTES];
                let read = answer.read(&mut part)?;
                part.truncate(read);
                Some(part.into()).filter(|_| read > 0)
            }
        };
        Ok(chunk.map_or(Next::End, Next::Bytes))
    }
}

impl Reading<'_> {
    /// Hands out the bytes in order.
    pub async fn run(self, mut sink: impl Sink) -> Result<GetOutcome> {
        let Asker { shared, location, .. } = self.asker;
        let mut persistence = self.asker.persistence();
        let (mut done, mut pace) = (0, Pace::new(self.asker.options));
        loop {
            let before = done;
            let failed = match self.attempt(&mut done, &mut pace, &mut sink).await {
                Ok(object_bytes) => return Ok(GetOutcome { is_there: true, object_bytes }),
                Err(failed) => failed,
            };
            // A trickle is no progress; otherwise the retries would never end.
            if done > before && !pace.is_slow() {
                persistence.progress();
            }
            match failed {
                Failed::NotThere => return Ok(GetOutcome::default()),
                // An empty object has no first byte.
                Failed::Shorter(_) if self.wanted.object_bytes.is_none() => {
                    return Ok(GetOutcome { is_there: true, object_bytes: Some(0) });
                }
                Failed::Refused(_) if self.wanted.is_optional && shared.has_answered() => {
                    return Ok(GetOutcome::default());
                }
                failed => persistence.after(failed).await.map_err(|error| {
                    let error = error.in_file(location.shown(&self.wanted.name));
                    match self.wanted.range.as_ref() {
                        Some(range) => error.at_byte(range.start + done),
                        None => error,
                    }
                })?,
            }
        }
    }

    /// Sends one request; returns the parsed head of the response.
    async fn ask(&self, rest: Option<&Range<u64>>) -> Result<(Body, Version, Chunks<'_>), Failed> {
        let shared = self.asker.shared;
        let Some(objects) = shared.objects() else {
            let url = self.asker.location.web_object(&self.wanted.name).map_err(Failed::Never)?;
            let requests = &self.asker.counters.requests;
            if let Some(plain) = &shared.plain
                && let Some(answer) = plain.get(&url, &shared.headers, rest, self.asker.options.silence, requests)?
            {
                let body = response::read(answer.status, &answer.headers, rest)?;
                return Ok((body, Version::from_headers(&answer.headers), Chunks::Plain(answer)));
            }
            let client = shared.maker.client().map_err(Failed::Never)?;
            requests.fetch_add(1, Ordering::Relaxed);
            let answer = self.asker.heard(Duration::ZERO, web::get(&client, &shared.headers, url, rest)).await?;
            let body = response::read(answer.status(), answer.headers(), rest)?;
            return Ok((body, Version::from_headers(answer.headers()), Chunks::Web(answer)));
        };
        let key = self.asker.location.key(&self.wanted.name).map_err(Failed::Never)?;
        let notes = Notes::default();
        let found = self.asker.heard(Duration::ZERO, objects.get(&key, rest, &notes)).await;
        self.asker.counters.requests.fetch_add(notes.requests(), Ordering::Relaxed);
        let GetResult { payload, meta, .. } = found?;
        let GetResultPayload::Stream(stream) = payload;
        let version = Version {
            etag: meta.e_tag.map(String::into_bytes),
            modified: Some(meta.last_modified.to_rfc3339().into_bytes()),
            modified_s: Some(meta.last_modified.timestamp()),
        };
        Ok((Body { skipped: 0, object_bytes: Some(meta.size), is_html: false }, version, Chunks::Objects(stream)))
    }

    /// One attempt to read the bytes after the first `done`; returns the length of the object.
    async fn attempt(&self, done: &mut u64, pace: &mut Pace, sink: &mut impl Sink) -> Result<Option<u64>, Failed> {
        let GetRequest { name, range, object_bytes, most, .. } = &self.wanted;
        // An object of unknown length is read from its beginning again.
        let rest = range.as_ref().map(|range| range.start + *done..range.end);
        let _running = self.asker.shared.limiter.enter().await;
        let asked = Instant::now();
        let (body, version, mut chunks) = self.ask(rest.as_ref()).await?;
        self.asker.shared.limiter.began(asked.elapsed());
        pace.begin(Instant::now());
        if let (Some(expected), Some(found)) = (object_bytes, body.object_bytes)
            && *expected != found
        {
            if body.is_html && self.is_page(b"<", true) {
                return Err(self.page());
            }
            return Err(Failed::Never(match self.wanted.stamp {
                Some(_) => Error::data(format!("{CHANGED}: {found} bytes, {expected} in the plan")),
                None => Error::data(format!("{found} bytes, {expected} in the manifest"))
                    .help(shardpack_format::help::COPY_AGAIN),
            }));
        }
        self.asker.shared.answered();
        self.same_version(name, &version)?;
        // If the response starts at the beginning again, the bytes that are done are skipped.
        let (mut skipped, mut left) = match &rest {
            Some(rest) => (body.skipped, rest.end - rest.start),
            None => (*done, most.saturating_sub(*done)),
        };
        // The response includes the beginning of the object.
        let mut is_first = body.skipped > 0 || rest.as_ref().is_none_or(|rest| rest.start == 0);
        let mut came = 0;
        loop {
            let fit = if skipped == 0 { usize::try_from(left).unwrap_or(usize::MAX) } else { 0 };
            let room = sink.room();
            let fit = fit.min(room.len());
            let chunk = match self.asker.heard(Duration::ZERO, chunks.next(&mut room[..fit])).await? {
                Next::End => break,
                Next::Bytes(chunk) => chunk,
                Next::Put(bytes) => {
                    if std::mem::take(&mut is_first) && self.is_page(&room[..bytes], body.is_html) {
                        return Err(self.page());
                    }
                    self.asker.counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    sink.came(bytes);
                    came += bytes as u64;
                    left -= bytes as u64;
                    *done += bytes as u64;
                    if left == 0 {
                        break;
                    }
                    pace.came(bytes, Instant::now())?;
                    continue;
                }
            };
            if std::mem::take(&mut is_first) && self.is_page(&chunk, body.is_html) {
                return Err(self.page());
            }
            self.asker.counters.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            came += chunk.len() as u64;
            let skip = skipped.min(chunk.len() as u64);
            skipped -= skip;
            let chunk = &chunk[skip as usize..];
            if chunk.len() as u64 > left && rest.is_none() {
                return Err(Failed::Never(Error::data(format!("is longer than {}", size::text(*most)))));
            }
            let taken = &chunk[..chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            left -= taken.len() as u64;
            *done += taken.len() as u64;
            sink.take(taken);
            if rest.is_some() && left == 0 {
                break;
            }
            pace.came(chunk.len(), Instant::now())?;
        }
        let is_short = match &rest {
            // A server without ranges answers a request for the length of an empty object with an empty body.
            Some(_) => left > 0 && body.object_bytes != Some(0),
            None => body.object_bytes.is_some_and(|bytes| came < bytes) || skipped > 0,
        };
        if is_short {
            return Err(Failed::retry("the answer was cut short"));
        }
        if let Chunks::Plain(answer) = chunks {
            answer.end();
        }
        self.asker.shared.limiter.well();
        Ok(body.object_bytes)
    }

    /// Whether a web server sent an HTML page in place of the object, judged by its first bytes. Some servers send a
    /// page for missing objects.
    fn is_page(&self, bytes: &[u8], is_html: bool) -> bool {
        let may_be = self.asker.location.kind == Kind::Web && !response::is_named_as_page(&self.wanted.name);
        may_be && response::is_page(bytes, is_html)
    }

    /// The server sent an HTML page in place of the object.
    fn page(&self) -> Failed {
        self.asker.counters.pages.fetch_add(1, Ordering::Relaxed);
        Failed::NotThere
    }

    /// Fails if this version differs from the listed version, or from the version read before.
    fn same_version(&self, name: &str, found: &Version) -> Result<(), Failed> {
        if let Some(listed) = self.wanted.stamp {
            return if found.is_listed(listed) { Ok(()) } else { Err(Failed::Never(Error::data(CHANGED))) };
        }
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        match versions.get(name) {
            None => drop(versions.insert(name.to_owned(), found.clone())),
            Some(before) if before.agrees(found) => {}
            Some(_) => {
                let error = Error::new(ErrorKind::System, CHANGED_WHILE_READ);
                return Err(Failed::Never(error.help("open the dataset again when it no longer changes")));
            }
        }
        Ok(())
    }
}
