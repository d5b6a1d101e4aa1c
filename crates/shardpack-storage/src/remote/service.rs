//! HTTP layer for object store clients: uses the connections of this crate and notes the result of each request.
//!
//! Holds at all times: a response that is not an object is read up to [`MAX_TEXT_BYTES`], a list page up to
//! [`MAX_PAGE_BYTES`].

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use object_store::{
    ClientOptions,
    client::{HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService},
};

use reqwest::{
    StatusCode,
    header::{AUTHORIZATION, CONTENT_RANGE},
};

use crate::remote::{
    maker::Maker,
    pages::{Odd, without_odd},
    response::{self, Failed},
};

/// Longest error or credentials response that is read.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Longest list page that is accepted: 1,000 keys take less than 10 MB, and some servers list everything in one page.
const MAX_PAGE_BYTES: usize = 64 << 20;

/// Makes clients that use the connections of the calling thread.
#[derive(Clone, Debug)]
pub(crate) struct Connector(pub Arc<Maker>);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(Arc::clone(&self.0))))
    }
}

/// How a response is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Use {
    /// The body is passed on as it arrives.
    #[default]
    Body,
    /// The body is a page of a list.
    Page,
    /// The body reports the result of a change.
    Change,
}

/// Results of the requests of one attempt. Requests carry their notes; credential requests have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    of: Use,
    noted: Arc<Mutex<Noted>>,
}

#[derive(Debug, Default)]
struct Noted {
    requests: u64,
    bytes: u64,
    failed: Option<Failed>,
    odd: Vec<Odd>,
}

tokio::task_local! {
    /// The key that is being changed, with its notes: some requests cannot carry notes.
    static CHANGED: (String, Notes);
}

impl Notes {
    /// Notes for requests whose responses are used as `of`.
    pub fn new(of: Use) -> Self {
        Self { of, noted: Arc::default() }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests that were sent.
    pub fn requests(&self) -> u64 {
        self.noted().requests
    }

    /// Bytes of response bodies that were read here.
    pub fn bytes(&self) -> u64 {
        self.noted().bytes
    }

    /// The failure of the last request, if it failed.
    pub fn failed(&self) -> Option<Failed> {
        self.noted().failed.take()
    }

    /// Elements that were removed from a list page.
    pub fn odd(&self) -> Vec<Odd> {
        std::mem::take(&mut self.noted().odd)
    }

    /// Runs `work`, which changes the object `key`, with notes of its requests.
    pub async fn with<T>(&self, key: &str, work: impl Future<Output = T>) -> T {
        CHANGED.scope((key.to_owned(), self.clone()), work).await
    }

    /// The notes of `request`, if it has any.
    fn of_request(request: &HttpRequest) -> Option<Self> {
        if let Some(notes) = request.extensions().get::<Self>() {
            return Some(notes.clone());
        }
        let uri = request.uri();
        let path = percent_encoding::percent_decode_str(uri.path()).decode_utf8_lossy();
        let is_batch = uri.query().is_some_and(|query| query.contains("comp=batch"));
        let of_change = CHANGED.try_with(|(key, notes)| (is_batch || path.ends_with(key)).then(|| notes.clone()));
        of_change.ok().flatten()
    }

    fn fail(&self, failed: Failed) {
        self.noted().failed = Some(failed);
    }
}

#[derive(Debug)]
struct Service(Arc<Maker>);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let notes = Notes::of_request(&request);
        if request.headers().get(AUTHORIZATION).is_some_and(|value| value.as_bytes().trim_ascii() == b"Bearer") {
            request.headers_mut().remove(AUTHORIZATION);
        }
        if let Some(notes) = &notes {
            notes.noted().requests += 1;
        }
        let note = |failed| {
            if let Some(notes) = &notes {
                notes.fail(failed);
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
                note(response::failed_way(&error, false));
                return Err(error);
            }
        };
        let of = notes.as_ref().map(|notes| notes.of);
        if answer.status().is_success() && of == Some(Use::Body) {
            // Azurite's response to a range request for an empty object.
            if answer.headers().get(CONTENT_RANGE).is_some_and(|range| range == "bytes 0--1/0") {
                note(response::refused(StatusCode::RANGE_NOT_SATISFIABLE, answer.headers(), ""));
            }
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let is_page = of == Some(Use::Page) && head.status.is_success();
        let most = if is_page { MAX_PAGE_BYTES } else { MAX_TEXT_BYTES };
        let mut text = match text(body, most, self.0.silence()).await {
            Ok(text) => text,
            Err(error) => {
                note(match error.kind() {
                    HttpErrorKind::Timeout => {
                        Failed::retry(format!("nothing came for {} s", self.0.silence().as_secs()))
                    }
                    _ => Failed::retry(format!("the answer was cut short: {}", response::causes(&error))),
                });
                return Err(error);
            }
        };
        if let Some(notes) = &notes {
            notes.noted().bytes += text.len() as u64;
        }
        if is_page && text.len() > most {
            note(Failed::of_server("a page of a list that is longer than 64 MiB"));
        } else if is_page {
            let (page, odd) = without_odd(&String::from_utf8_lossy(&text));
            text = page.into_bytes();
            notes.iter().for_each(|notes| notes.noted().odd.extend_from_slice(&odd));
        } else if !head.status.is_success() {
            note(response::refused(head.status, &head.headers, &String::from_utf8_lossy(&text)));
        } else if of == Some(Use::Change) {
            let text = String::from_utf8_lossy(&text);
            inner_failure(&text).into_iter().for_each(|status| note(response::refused(status, &head.headers, &text)));
        }
        Ok(HttpResponse::from_parts(head, text.into()))
    }
}

/// The failure status inside the body of a response with a success status.
fn inner_failure(text: &str) -> Option<StatusCode> {
    match text.split_once("\r\nHTTP/1.1 ") {
        // Azure deletes objects in batches and returns a status for each.
        Some((_, answer)) => answer.get(..3)?.parse().ok().filter(|status: &StatusCode| !status.is_success()),
        // S3 starts its response before the result is known.
        None => text.contains("<Error>").then_some(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// Reads a body, at most `most` bytes plus one chunk.
async fn text(
    body: object_store::client::HttpResponseBody,
    most: usize,
    silence: Duration,
) -> Result<Vec<u8>, HttpError> {
    use futures_util::TryStreamExt;

    let mut body = body.bytes_stream();
    let mut text = Vec::new();
    loop {
        let chunk = tokio::time::timeout(silence, body.try_next()).await;
        let silent = |_| HttpError::new(HttpErrorKind::Timeout, std::io::Error::from(std::io::ErrorKind::TimedOut));
        let Some(chunk) = chunk.map_err(silent)?? else { return Ok(text) };
        text.extend_from_slice(&chunk);
        if text.len() > most {
            return Ok(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_the_body_of_a_success_tells_are_found() {
        let batch =
            |status: &str| format!("--b\r\nContent-ID: 0\r\n\r\nHTTP/1.1 {status}\r\n\r\n<Error></Error>\r\n--b--");
        for (text, status) in [
            (batch("404 The specified blob does not exist."), Some(404)),
            (batch("503 Server Busy"), Some(503)),
            (batch("202 Accepted"), None),
            ("<?xml?>\n<Error><Code>InternalError</Code></Error>".to_owned(), Some(500)),
            ("<CompleteMultipartUploadResult/>".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(inner_failure(&text).map(|status| status.as_u16()), status, "{text}");
        }
    }
}
