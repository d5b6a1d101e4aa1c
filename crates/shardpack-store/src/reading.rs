//! One object that is being read: asked for again from where it was, until it is there or the patience with its server ends.

use std::{
    collections::HashMap,
    future::Future,
    ops::Range,
    sync::{Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{TryStreamExt, stream::BoxStream};
use object_store::{GetResult, GetResultPayload};
use reqwest::Response;
use shardpack_format::{Error, ErrorKind, Result, size};

use crate::{
    answer::{self, Body, Failed, Version},
    location::Location,
    objects,
    patience::Patience,
    service::Notes,
    settings::{Options, Settings},
    shared::Shared,
    store::{Counters, Found, Wanted},
    web,
};

/// How long a server that refuses what it took before is asked again, with credentials that are looked for anew.
const REFUSED_PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Reading<'a> {
    pub shared: &'a Shared,
    pub location: &'a Location,
    pub settings: &'a Settings,
    pub counters: &'a Counters,
    pub versions: &'a Mutex<HashMap<String, Version>>,
    pub options: &'a Options,
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
        let Options { patience, first_patience, .. } = self.options;
        let budget = if self.shared.has_answered() { *patience } else { *first_patience.min(patience) };
        let (mut patience, mut refusals) = (Patience::new(budget), Patience::new(budget.min(REFUSED_PATIENCE)));
        let mut done = 0;
        loop {
            let before = done;
            let failed = match self.attempt(&mut done, &mut take).await {
                Ok(object_bytes) => return Ok(Found { is_there: true, object_bytes }),
                Err(failed) => failed,
            };
            if done > before {
                patience.progress();
                refusals.progress();
            }
            let error = match failed {
                Failed::NotThere => return Ok(Found::default()),
                // Of an empty object there is no first byte.
                Failed::Shorter(_) if self.wanted.object_bytes.is_none() => {
                    return Ok(Found { is_there: true, object_bytes: Some(0) });
                }
                Failed::Shorter(error) => error,
                Failed::Never(error) => error,
                Failed::Refused(error) => match self.renewed(&mut refusals).await? {
                    true => continue,
                    false if self.shared.objects().is_none() && self.settings.get("header").is_none() => {
                        error.help("no credentials were sent; --store \"header=Authorization: …\" sends some")
                    }
                    false => error.help("look at the credentials, and at what they allow"),
                },
                Failed::Again { what, wait, too_many } => {
                    if too_many {
                        self.counters.too_many.fetch_add(1, Ordering::Relaxed);
                        self.shared.limiter.too_many();
                    }
                    if let Some(wait) = patience.wait(wait) {
                        self.counters.again.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(wait).await;
                        continue;
                    }
                    let times = size::counted(u64::from(patience.failed), "time");
                    let asked =
                        wait.map_or_else(String::new, |wait| format!(", which asks to wait {} s", wait.as_secs()));
                    let what = format!("{what}{asked}; asked {times} in {} s", patience.waited().as_secs());
                    Error::new(ErrorKind::System, what).help("look whether the server is well, and try again")
                }
            };
            let error = error.in_file(self.location.shown(&self.wanted.name));
            return Err(match self.wanted.range.as_ref() {
                Some(range) => error.at_byte(range.start + done),
                None => error,
            });
        }
    }

    /// What was right before may have ended: whether to ask again with credentials that were looked for anew.
    async fn renewed(&self, refusals: &mut Patience) -> Result<bool> {
        if !self.shared.has_answered() || !self.shared.renew(self.location, self.settings, self.options)? {
            return Ok(false);
        }
        let Some(wait) = refusals.wait(None) else { return Ok(false) };
        self.counters.again.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(wait).await;
        Ok(true)
    }

    /// Waits for a part of an answer, but not for a server that is silent.
    async fn heard<T>(&self, part: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
        let silence = self.options.silence;
        let heard = tokio::time::timeout(silence, part).await;
        heard.map_err(|_| Failed::again(format!("nothing came for {} s", silence.as_secs())))?
    }

    /// Sends one request; what is known of the answer before its bytes come.
    async fn ask(&self, rest: Option<&Range<u64>>) -> Result<(Body, Version, Chunks), Failed> {
        let Some(objects) = self.shared.objects() else {
            let url = self.location.web_object(&self.wanted.name).map_err(Failed::Never)?;
            self.counters.requests.fetch_add(1, Ordering::Relaxed);
            let answer = self.heard(web::get(&self.shared.client, &self.shared.headers, url, rest)).await?;
            let body = answer::read(answer.status(), answer.headers(), rest)?;
            return Ok((body, Version::of(answer.headers()), Chunks::Web(answer)));
        };
        let key = self.location.key(&self.wanted.name).map_err(Failed::Never)?;
        let notes = Notes::default();
        let found = self.heard(objects.get(&key, rest, &notes)).await;
        self.counters.requests.fetch_add(notes.requests(), Ordering::Relaxed);
        let GetResult { payload, meta, .. } = found?;
        let GetResultPayload::Stream(stream) = payload;
        let version = Version {
            etag: meta.e_tag.map(String::into_bytes),
            modified: Some(meta.last_modified.to_rfc3339().into_bytes()),
        };
        Ok((Body { skipped: 0, object_bytes: Some(meta.size) }, version, Chunks::Objects(stream)))
    }

    /// Asks once for what is missing behind the first `done` bytes; how long the object is.
    async fn attempt(&self, done: &mut u64, take: &mut impl FnMut(&[u8])) -> Result<Option<u64>, Failed> {
        let Wanted { name, range, object_bytes, most } = &self.wanted;
        // An object whose length is not known is read from its beginning again.
        let rest = range.as_ref().map(|range| range.start + *done..range.end);
        let _running = self.shared.limiter.enter().await;
        let (body, version, mut chunks) = self.ask(rest.as_ref()).await?;
        if let (Some(expected), Some(found)) = (object_bytes, body.object_bytes)
            && *expected != found
        {
            let what = format!("{found} bytes, the manifest says {expected}");
            return Err(Failed::Never(Error::data(what).help(shardpack_format::help::COPY_AGAIN)));
        }
        self.shared.answered();
        self.same_version(name, &version)?;
        // Where the beginning comes again, what is done of it is passed by.
        let (mut skipped, mut left) = match &rest {
            Some(rest) => (body.skipped, rest.end - rest.start),
            None => (*done, most.saturating_sub(*done)),
        };
        let mut came = 0;
        while let Some(chunk) = self.heard(chunks.next()).await? {
            self.counters.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
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
        self.shared.limiter.well();
        Ok(body.object_bytes)
    }

    /// Fails where this is another version than was read of the object before.
    fn same_version(&self, name: &str, found: &Version) -> Result<(), Failed> {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        match versions.get(name) {
            None => drop(versions.insert(name.to_owned(), found.clone())),
            Some(before) if before.agrees(found) => {}
            Some(_) => {
                let error = Error::new(ErrorKind::System, "was changed on the server while it was read");
                return Err(Failed::Never(error.help("open the dataset again once it does not change any more")));
            }
        }
        Ok(())
    }
}
