//! Makes connections to one server for each thread.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use reqwest::Client;
use rustls::ClientConfig;
use shardpack_format::Result;

use crate::remote::{
    location::Kind,
    runtime,
    settings::{Options, Settings},
    web,
};

/// Makes connections for each thread.
#[derive(Debug)]
pub(crate) struct Maker {
    /// Identifies a server with its settings.
    number: u64,
    kind: Kind,
    settings: Settings,
    options: Options,
    tls: ClientConfig,
}

/// Number of the next server.
static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Maker {
    pub fn new(kind: Kind, settings: &Settings, options: &Options, tls: ClientConfig) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { number, kind, settings: settings.clone(), options: options.clone(), tls }
    }

    /// The connections of this thread.
    pub fn client(&self) -> Result<Client> {
        runtime::client(self.number, || web::client(self.kind, &self.settings, &self.options, self.tls.clone()))
    }

    pub fn silence(&self) -> Duration {
        self.options.silence
    }
}
