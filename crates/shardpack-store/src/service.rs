//! How clients of object stores speak HTTP: over connections that we make, with notes of what became of each request.
//!
//! Holds at all times: of an answer that is no object, no more than [`MOST_TEXT_BYTES`] are read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use object_store::{
    ClientOptions,
    client::{HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService},
};

use crate::{
    answer::{self, Failed},
    shared::Maker,
};

/// Of an error, or an answer of who gives credentials, so much is read.
const MOST_TEXT_BYTES: usize = 1 << 20;

/// Makes clients that have the connections of whichever thread uses them.
#[derive(Clone, Debug)]
pub(crate) struct Connector(pub Arc<Maker>);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(Arc::clone(&self.0))))
    }
}

/// What became of the requests of one attempt. It goes with them; requests of credentials have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    requests: u64,
    failed: Option<Failed>,
}

impl Notes {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests that were sent.
    pub fn requests(&self) -> u64 {
        self.noted().requests
    }

    /// Why the last one failed, if it did.
    pub fn failed(&self) -> Option<Failed> {
        self.noted().failed.take()
    }
}

#[derive(Debug)]
struct Service(Arc<Maker>);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let notes = request.extensions().get::<Notes>().cloned();
        if let Some(notes) = &notes {
            notes.noted().requests += 1;
        }
        let note = |failed| {
            if let Some(notes) = &notes {
                notes.noted().failed = Some(failed);
            }
        };
        let client = self.0.client().map_err(|error| {
            let other = std::io::Error::other(error.what());
            note(Failed::Never(error));
            HttpError::new(HttpErrorKind::Unknown, other)
        })?;
        let answer = match HttpService::call(&client, request).await {
            Ok(answer) => answer,
            Err(error) => {
                note(answer::failed_way(&error, false));
                return Err(error);
            }
        };
        if answer.status().is_success() && notes.is_some() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let text = tokio::time::timeout(self.0.silence(), text(body)).await;
        let text = text.map_err(|_| {
            let silent = std::io::Error::from(std::io::ErrorKind::TimedOut);
            note(Failed::again(format!("nothing came for {} s", self.0.silence().as_secs())));
            HttpError::new(HttpErrorKind::Timeout, silent)
        })??;
        if !head.status.is_success() {
            note(answer::refused(head.status, &head.headers, &String::from_utf8_lossy(&text)));
        }
        Ok(HttpResponse::from_parts(head, text.into()))
    }
}

async fn text(body: object_store::client::HttpResponseBody) -> Result<Vec<u8>, HttpError> {
    use futures_util::TryStreamExt;

    let mut body = body.bytes_stream();
    let mut text = Vec::new();
    while let Some(chunk) = body.try_next().await? {
        text.extend_from_slice(&chunk[..chunk.len().min(MOST_TEXT_BYTES - text.len())]);
        if text.len() == MOST_TEXT_BYTES {
            break;
        }
    }
    Ok(text)
}
