//! Objects below a URL, read over HTTP: whole, or by range.

use std::{
    collections::HashMap,
    error::Error as _,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{
    Client, Url,
    header::{ACCEPT_ENCODING, HeaderValue, RANGE},
    redirect,
};
use shardpack_format::{Error, ErrorKind, Result, size};

use crate::{
    answer::{self, Failed, Version},
    limiter::Limiter,
    patience::Patience,
    runtime,
};

/// Redirects that are followed for one request.
const MOST_REDIRECTS: usize = 5;
const USER_AGENT: &str = concat!("shardpack/", env!("CARGO_PKG_VERSION"));

/// How servers are asked.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a server that answers nothing that is of use is asked again.
    pub patience: Duration,
    /// The same of one that has never answered: a name may be wrong.
    pub first_patience: Duration,
    /// How long nothing may come of an answer before it is asked for again from there.
    pub silence: Duration,
    /// Most requests at a time.
    pub most_requests: u32,
}

impl Default for Options {
    fn default() -> Self {
        let (patience, first_patience) = (Duration::from_secs(300), Duration::from_secs(10));
        Self { patience, first_patience, silence: Duration::from_secs(30), most_requests: 64 }
    }
}

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
struct Counters {
    requests: AtomicU64,
    bytes: AtomicU64,
    again: AtomicU64,
    too_many: AtomicU64,
    /// Requests that were answered.
    answers: AtomicU64,
}

/// A folder on an HTTP server.
///
/// `Send` and `Sync`; a process that was forked from one that has it may go on with it.
#[derive(Debug)]
pub struct Http {
    base: Url,
    options: Options,
    /// Of this process: connections are not shared with a process that was forked.
    shared: Mutex<Option<(u32, Arc<Shared>)>>,
    /// The version of each object that was read first.
    versions: Mutex<HashMap<String, Version>>,
    counters: Counters,
}

/// What all requests of one process have in common.
#[derive(Debug)]
struct Shared {
    client: Client,
    limiter: Limiter,
}

/// One object, or a range of it, to be read.
struct Wanted {
    url: Url,
    name: String,
    range: Option<Range<u64>>,
    /// Length of the object in bytes, where that is known.
    object_bytes: Option<u64>,
    /// As many are taken of an object whose length is not known.
    most: u64,
}

impl Http {
    /// The folder at `url`.
    ///
    /// # Errors
    /// When this is no URL of a folder.
    pub fn new(url: &str, options: Options) -> Result<Self> {
        let wrong = |what: &str| Error::usage(format!("{what}: {}", without_secrets(url)));
        let mut base = Url::parse(url).map_err(|error| wrong(&format!("no URL ({error})")))?;
        if !["http", "https"].contains(&base.scheme()) || base.host_str().is_none() {
            return Err(wrong("no URL of a web server"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong("a URL with a password, which would be in every message"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(wrong("a URL with ? or #, which is of one object and of no folder"));
        }
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        Ok(Self { base, options, shared: Mutex::default(), versions: Mutex::default(), counters: Counters::default() })
    }

    /// The URL, which ends with a slash.
    pub fn url(&self) -> &str {
        self.base.as_str()
    }

    /// What reading has taken so far.
    pub fn counts(&self) -> Counts {
        let Counters { requests, bytes, again, too_many, .. } = &self.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { requests: of(requests), bytes: of(bytes), again: of(again), too_many: of(too_many) }
    }

    /// Reads all of the object `name`, a path below the folder; `None` where there is none.
    ///
    /// # Errors
    /// When it is longer than `most` bytes, or the server does not send it.
    pub fn read_all(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let mut all = Vec::new();
        let wanted = Wanted { url: self.object(name)?, name: name.to_owned(), range: None, object_bytes: None, most };
        let is_there = self.run(wanted, |bytes| all.extend_from_slice(bytes))?;
        Ok(is_there.then_some(all))
    }

    /// Reads bytes of the object `name` from `offset` on, as many as `into` has room for. It is `object_bytes` long.
    ///
    /// # Errors
    /// When there is no such object, it is another one than before or has another length, or the server does not send it.
    pub fn read(&self, name: &str, object_bytes: u64, offset: u64, into: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(into.len() as u64).filter(|end| *end <= object_bytes);
        let (url, name) = (self.object(name)?, name.to_owned());
        let end =
            end.ok_or_else(|| Error::data(format!("is {object_bytes} bytes")).at_byte(offset).in_file(url.as_str()))?;
        if into.is_empty() {
            return Ok(());
        }
        let shown = url.to_string();
        let wanted =
            Wanted { url, name, range: Some(offset..end), object_bytes: Some(object_bytes), most: end - offset };
        let mut at = 0;
        let is_there = self.run(wanted, |bytes| {
            // No more come than were asked for.
            into[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        })?;
        match is_there {
            true => Ok(()),
            false => Err(Error::data("the manifest names this object, and it is not there").in_file(shown)),
        }
    }

    fn object(&self, name: &str) -> Result<Url> {
        let mut url = self.base.clone();
        let wrong = || Error::data(format!("{name:?} is no name below a URL")).in_file(self.base.as_str());
        {
            let mut path = url.path_segments_mut().map_err(|()| wrong())?;
            path.pop_if_empty();
            for part in name.split('/') {
                if ["", ".", ".."].contains(&part) {
                    return Err(wrong());
                }
                path.push(part);
            }
        }
        Ok(url)
    }

    fn shared(&self, process: u32) -> Result<Arc<Shared>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, shared)) = &*shared
            && *of == process
        {
            return Ok(Arc::clone(shared));
        }
        let made =
            Arc::new(Shared { client: client(&self.options)?, limiter: Limiter::new(self.options.most_requests) });
        std::mem::forget(shared.replace((process, Arc::clone(&made))));
        Ok(made)
    }

    /// Reads what is wanted, and hands out its bytes in order; whether there is such an object.
    fn run(&self, wanted: Wanted, take: impl FnMut(&[u8])) -> Result<bool> {
        let (process, handle) = runtime::handle()?;
        let shared = self.shared(process)?;
        let Self { options, versions, counters, .. } = self;
        let reading = Reading { shared: &shared, counters, versions, options, wanted };
        // Connections are served by the threads of the runtime; this one takes the bytes from them.
        handle.block_on(reading.run(take))
    }
}

/// A URL as it may be shown.
fn without_secrets(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => url.to_owned(),
    }
}

fn client(options: &Options) -> Result<Client> {
    // Fails where it was installed before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let follow = redirect::Policy::custom(|attempt| {
        let from_https = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
        if attempt.previous().len() > MOST_REDIRECTS {
            attempt.error("too many redirects")
        } else if !["http", "https"].contains(&attempt.url().scheme()) {
            attempt.error("a redirect to what is no web server")
        } else if from_https && attempt.url().scheme() != "https" {
            attempt.error("a redirect from https to http")
        } else {
            attempt.follow()
        }
    });
    let client = Client::builder().user_agent(USER_AGENT).redirect(follow).connect_timeout(options.silence);
    let client = client.pool_max_idle_per_host(options.most_requests as usize).build();
    client.map_err(|error| Error::new(ErrorKind::System, format!("cannot speak HTTP: {}", causes(&error))))
}

/// One object that is being read.
struct Reading<'a> {
    shared: &'a Shared,
    counters: &'a Counters,
    versions: &'a Mutex<HashMap<String, Version>>,
    options: &'a Options,
    wanted: Wanted,
}

impl Reading<'_> {
    async fn run(self, mut take: impl FnMut(&[u8])) -> Result<bool> {
        let budget = match self.counters.answers.load(Ordering::Relaxed) {
            0 => self.options.first_patience.min(self.options.patience),
            _ => self.options.patience,
        };
        let (mut patience, mut done) = (Patience::new(budget), 0);
        loop {
            let before = done;
            let failed = match self.attempt(&mut done, &mut take).await {
                Ok(()) => return Ok(true),
                Err(failed) => failed,
            };
            if done > before {
                patience.progress();
            }
            let error = match failed {
                Failed::NotThere => return Ok(false),
                Failed::Never(error) => error,
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
            let error = error.in_file(self.wanted.url.as_str());
            return Err(match self.wanted.range.as_ref() {
                Some(range) => error.at_byte(range.start + done),
                None => error,
            });
        }
    }

    /// Asks once for what is missing behind the first `done` bytes.
    async fn attempt(&self, done: &mut u64, take: &mut impl FnMut(&[u8])) -> Result<(), Failed> {
        let Wanted { url, name, range, object_bytes, most } = &self.wanted;
        // An object whose length is not known is read from its beginning again.
        let rest = range.as_ref().map(|range| range.start + *done..range.end);
        let _running = self.shared.limiter.enter().await;
        let mut request = self.shared.client.get(url.clone());
        request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(rest) = &rest {
            request = request.header(RANGE, format!("bytes={}-{}", rest.start, rest.end - 1));
        }
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let silent = || Failed::again(format!("nothing came for {} s", self.options.silence.as_secs()));
        let answer = tokio::time::timeout(self.options.silence, request.send()).await.map_err(|_| silent())?;
        let mut answer = answer.map_err(failed)?;
        let body = answer::read(answer.status(), answer.headers(), rest.as_ref())?;
        if let (Some(expected), Some(found)) = (object_bytes, body.object_bytes)
            && *expected != found
        {
            let what = format!("{found} bytes, the manifest says {expected}");
            return Err(Failed::Never(Error::data(what).help(shardpack_format::help::COPY_AGAIN)));
        }
        self.counters.answers.fetch_add(1, Ordering::Relaxed);
        self.same_version(name, &Version::of(answer.headers()))?;
        // Where the beginning comes again, what is done of it is passed by.
        let (mut skipped, mut left) = match &rest {
            Some(rest) => (body.skipped, rest.end - rest.start),
            None => (*done, most.saturating_sub(*done)),
        };
        let mut came = 0;
        loop {
            let chunk = tokio::time::timeout(self.options.silence, answer.chunk()).await.map_err(|_| silent())?;
            let Some(chunk) = chunk.map_err(failed)? else { break };
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
            Some(_) => left > 0,
            None => body.object_bytes.is_some_and(|bytes| came < bytes) || skipped > 0,
        };
        if is_short {
            return Err(Failed::again("the answer was cut short"));
        }
        self.shared.limiter.well();
        Ok(())
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

/// What is the matter with the way to the server: what will be so the next time is told at once.
fn failed(error: reqwest::Error) -> Failed {
    let what = causes(&error);
    let is_trust = ["certificate", "UnknownIssuer", "invalid peer"].iter().any(|word| what.contains(word));
    let what = match what {
        what if what.is_empty() => error.to_string(),
        what => what,
    };
    if error.is_redirect() {
        return Failed::of_server(format!("refused: {what}"));
    }
    if is_trust {
        let error = Error::new(ErrorKind::System, format!("the server is not trusted: {what}"));
        return Failed::Never(error.help("SSL_CERT_FILE=ca.pem names authorities of one's own"));
    }
    Failed::again(what)
}

/// The innermost causes of an error: its own words name the URL again.
fn causes(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    // Each names those below it or adds something.
    causes.dedup_by(|later, earlier| earlier.ends_with(later.as_str()));
    causes.join(": ")
}
