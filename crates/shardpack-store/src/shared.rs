//! What all who read from one server in one process have in common: connections, the limit of requests, credentials.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::{Client, header::HeaderMap};
use shardpack_format::Result;

use crate::{
    limiter::Limiter,
    location::{Kind, Location},
    objects::Objects,
    plain::Plain,
    runtime,
    service::Connector,
    settings::{Options, Settings},
    web,
};

/// Credentials are made anew no more often than this.
const RENEWED: Duration = Duration::from_secs(1);

/// One server, as one process sees it.
#[derive(Debug)]
pub(crate) struct Shared {
    /// How connections to it are made.
    pub maker: Arc<Maker>,
    pub headers: HeaderMap,
    /// Connections without TLS, of a web server alone.
    pub plain: Option<Plain>,
    pub limiter: Limiter,
    objects: Mutex<Option<(Arc<Objects>, Instant)>>,
    answers: AtomicU64,
}

/// Makes connections, for each thread its own.
#[derive(Debug)]
pub(crate) struct Maker {
    /// Tells servers apart, and those of one name with other settings.
    number: u64,
    kind: Kind,
    settings: Settings,
    options: Options,
}

/// Number of the next server.
static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Maker {
    /// The connections of this thread.
    pub fn client(&self) -> Result<Client> {
        runtime::client(self.number, || web::client(self.kind, &self.settings, &self.options))
    }

    pub fn silence(&self) -> Duration {
        self.options.silence
    }
}

/// Servers by process, name and settings.
type Servers = HashMap<(u32, String, String), Weak<Shared>>;
static SERVERS: Mutex<Option<Servers>> = Mutex::new(None);

impl Shared {
    /// That of the server of `location`: the same for all who say the same of it.
    pub fn of(process: u32, location: &Location, settings: &Settings, options: &Options) -> Result<Arc<Self>> {
        let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
        let servers = servers.get_or_insert_default();
        let key = (process, location.server.clone(), settings.key());
        if let Some(shared) = servers.get(&key).and_then(Weak::upgrade) {
            return Ok(shared);
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (settings_of, options_of) = (settings.clone(), options.clone());
        let maker = Maker { number, kind: location.kind, settings: settings_of, options: options_of };
        // What is wrong with the settings is said before anything is asked.
        maker.client()?;
        let made = Arc::new(Self {
            maker: Arc::new(maker),
            headers: if location.kind == Kind::Web { web::headers(settings)? } else { HeaderMap::new() },
            plain: location.web.as_ref().and_then(|url| Plain::of(url, settings)),
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

    /// The bucket, where this is one.
    pub fn objects(&self) -> Option<Arc<Objects>> {
        self.lock().as_ref().map(|(objects, _)| Arc::clone(objects))
    }

    /// Looks for credentials again, since those that were sent are refused; whether there are any to look for.
    pub fn renew(&self, location: &Location, settings: &Settings) -> Result<bool> {
        let made = self.lock().as_ref().map(|(_, made)| *made);
        match made {
            None => Ok(false),
            Some(made) if made.elapsed() < RENEWED => Ok(true),
            Some(_) => self.make(location, settings).map(|()| true),
        }
    }

    /// Whether it has ever answered with what was of use.
    pub fn has_answered(&self) -> bool {
        self.answers.load(Ordering::Relaxed) > 0
    }

    pub fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }
}
