//! Shares connections, request limit and credentials between all readers of one server in one process.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::header::HeaderMap;
use shardpack_format::Result;
use shardpack_runtime::Instant;

use crate::remote::{
    http1::Plain,
    limiter::Limiter,
    location::{Kind, Location},
    maker::Maker,
    objects::Objects,
    service::Connector,
    settings::{Options, Settings},
    web,
};

/// Shortest time between two renewals of the credentials.
const RENEWED: Duration = Duration::from_secs(1);

/// One server, as one process sees it.
#[derive(Debug)]
pub(crate) struct Shared {
    /// How connections to it are made.
    pub maker: Arc<Maker>,
    pub headers: HeaderMap,
    /// Connections without TLS, for web servers only.
    pub plain: Option<Plain>,
    pub limiter: Limiter,
    objects: Mutex<Option<(Arc<Objects>, Instant)>>,
    answers: AtomicU64,
}

/// Servers by process, name and settings.
type Servers = HashMap<(u32, String, String), Weak<Shared>>;
static SERVERS: Mutex<Option<Servers>> = Mutex::new(None);

impl Shared {
    /// The shared state of the server of `location`: one for all callers with the same server and settings.
    pub fn for_location(
        process: u32,
        location: &Location,
        settings: &Settings,
        options: &Options,
    ) -> Result<Arc<Self>> {
        let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
        let servers = servers.get_or_insert_default();
        let key = (process, location.server.clone(), settings.key());
        if let Some(shared) = servers.get(&key).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        let tls = web::tls(location.kind, settings)?;
        let maker = Maker::new(location.kind, settings, options, tls);
        // Invalid settings are reported before the first request.
        maker.client()?;
        let made = Arc::new(Self {
            maker: Arc::new(maker),
            headers: if location.kind == Kind::Web { web::headers(settings)? } else { HeaderMap::new() },
            plain: location.web.as_ref().and_then(|url| Plain::for_url(url, settings)),
            limiter: Limiter::new(options.first_requests, options.most_requests),
            objects: Mutex::default(),
            answers: AtomicU64::default(),
        });
        if location.kind != Kind::Web {
            made.make(location, settings)?;
        }
        servers.retain(|(of, ..), shared| *of != process || shared.strong_count() > 0);
        servers.insert(key, Arc::downgrade(&made));
        Ok(made)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Arc<Objects>, Instant)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, location: &Location, settings: &Settings) -> Result<()> {
        let made = Objects::new(location, settings, Connector(Arc::clone(&self.maker)))?;
        *self.lock() = Some((Arc::new(made), Instant::now()));
        Ok(())
    }

    /// The bucket, if this server has buckets.
    pub fn objects(&self) -> Option<Arc<Objects>> {
        self.lock().as_ref().map(|(objects, _)| Arc::clone(objects))
    }

    /// Renews credentials that were refused; returns whether there is a source of credentials.
    pub fn renew(&self, location: &Location, settings: &Settings) -> Result<bool> {
        let made = self.lock().as_ref().map(|(_, made)| *made);
        match made {
            None => Ok(false),
            Some(made) if made.elapsed() < RENEWED => Ok(true),
            Some(_) => self.make(location, settings).map(|()| true),
        }
    }

    /// Whether the server has ever sent a useful response.
    pub fn has_answered(&self) -> bool {
        self.answers.load(Ordering::Relaxed) > 0
    }

    pub fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }
}
