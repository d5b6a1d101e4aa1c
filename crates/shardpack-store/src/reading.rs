//! One object that is being read: asked for again from where it was, until it is there or the patience with its server ends.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Mutex, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{TryStreamExt, stream::BoxStream};
use object_store::{GetResult, GetResultPayload};
use reqwest::Response;
use shardpack_format::{Error, ErrorKind, Result, size};

use crate::{
    answer::{self, Body, Failed, Version},
    objects,
    persistence::Asker,
    service::Notes,
    store::{Found, Wanted},
    web,
};

/// Of an object of which there is another version than was read of it before.
pub(crate) const CHANGED_WHILE_READ: &str = "was changed on the server while it was read";
/// What is said of an object that is not the one that was listed.
const CHANGED: &str = "changed since it was planned";

/// See the module.
pub(crate) struct Reading<'a> {
    pub asker: Asker<'a>,
    pub versions: &'a Mutex<HashMap<String, Version>>,
    pub wanted: Wanted,
}

/// The body of an answer.
enum Chunks {
    Web(Response),
    Objects(BoxStream<'static, object_store::Result<Bytes>>),
}

impl Chunks {
    async fn next(&mut self) -> Result<Option<Bytes>, Failed> {
        match self {
            Self::Web(answer) => answer.chunk().await.map_err(web::failed),
            Self::Objects(stream) => stream.try_next().await.map_err(|error| objects::cut(&error)),
        }
    }
}

impl Reading<'_> {
    /// Hands out its bytes in order.
    pub async fn run(self, mut take: impl FnMut(&[u8])) -> Result<Found> {
        let Asker { shared, location, .. } = self.asker;
        let mut persistence = self.asker.persistence();
        let mut done = 0;
        loop {
            let before = done;
            let failed = match self.attempt(&mut done, &mut take).await {
                Ok(object_bytes) => return Ok(Found { is_there: true, object_bytes }),
                Err(failed) => failed,
            };
            if done > before {
                persistence.progress();
            }
            match failed {
                Failed::NotThere => return Ok(Found::default()),
                // Of an empty object there is no first byte.
                Failed::Shorter(_) if self.wanted.object_bytes.is_none() => {
                    return Ok(Found { is_there: true, object_bytes: Some(0) });
                }
                Failed::Refused(_) if self.wanted.is_optional && shared.has_answered() => {
                    return Ok(Found::default());
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

    /// Sends one request; what is known of the answer before its bytes come.
    async fn ask(&self, rest: Option<&Range<u64>>) -> Result<(Body, Version, Chunks), Failed> {
        let Some(objects) = self.asker.shared.objects() else {
            let url = self.asker.location.web_object(&self.wanted.name).map_err(Failed::Never)?;
            let client = self.asker.shared.maker.client().map_err(Failed::Never)?;
            self.asker.counters.requests.fetch_add(1, Ordering::Relaxed);
            let answer =
                self.asker.heard(Duration::ZERO, web::get(&client, &self.asker.shared.headers, url, rest)).await?;
            let body = answer::read(answer.status(), answer.headers(), rest)?;
            return Ok((body, Version::of(answer.headers()), Chunks::Web(answer)));
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
        Ok((Body { skipped: 0, object_bytes: Some(meta.size) }, version, Chunks::Objects(stream)))
    }

    /// Asks once for what is missing behind the first `done` bytes; how long the object is.
    async fn attempt(&self, done: &mut u64, take: &mut impl FnMut(&[u8])) -> Result<Option<u64>, Failed> {
        let Wanted { name, range, object_bytes, most, .. } = &self.wanted;
        // An object whose length is not known is read from its beginning again.
        let rest = range.as_ref().map(|range| range.start + *done..range.end);
        let _running = self.asker.shared.limiter.enter().await;
        let asked = Instant::now();
        let (body, version, mut chunks) = self.ask(rest.as_ref()).await?;
        self.asker.shared.limiter.began(asked.elapsed());
        if let (Some(expected), Some(found)) = (object_bytes, body.object_bytes)
            && *expected != found
        {
            return Err(Failed::Never(match self.wanted.stamp {
                Some(_) => Error::data(format!("{CHANGED}: {found} bytes, the plan says {expected}")),
                None => Error::data(format!("{found} bytes, the manifest says {expected}"))
                    .help(shardpack_format::help::COPY_AGAIN),
            }));
        }
        self.asker.shared.answered();
        self.same_version(name, &version)?;
        // Where the beginning comes again, what is done of it is passed by.
        let (mut skipped, mut left) = match &rest {
            Some(rest) => (body.skipped, rest.end - rest.start),
            None => (*done, most.saturating_sub(*done)),
        };
        let mut came = 0;
        while let Some(chunk) = self.asker.heard(Duration::ZERO, chunks.next()).await? {
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
            take(taken);
            if rest.is_some() && left == 0 {
                break;
            }
        }
        let is_short = match &rest {
            // Whoever asks for the length of an empty object gets it from a server without ranges.
            Some(_) => left > 0 && body.object_bytes != Some(0),
            None => body.object_bytes.is_some_and(|bytes| came < bytes) || skipped > 0,
        };
        if is_short {
            return Err(Failed::again("the answer was cut short"));
        }
        self.asker.shared.limiter.well();
        Ok(body.object_bytes)
    }

    /// Fails where this is another version than was listed, or was read of the object before.
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
                return Err(Failed::Never(error.help("open the dataset again once it does not change any more")));
            }
        }
        Ok(())
    }
}
