//! Writes objects: whole, or in parts from memory, many at a time.
//!
//! Holds at all times: an object exists whole or not at all. Parts of an aborted upload are removed if the abort
//! request succeeds, else by the bucket's own rules for abandoned parts.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use object_store::multipart::PartId;
use shardpack_format::{Error, Result};

use crate::remote::{
    Store,
    objects::Objects,
    response::Failed,
    retry::{Asker, Refusal},
    runtime,
    service::{Notes, Use},
    shared::Shared,
};

/// A part may take one second for this many bytes, beyond the usual silence: a slow connection is not a dead one.
const SLOWEST_BYTES_A_SECOND: u64 = 64 << 10;

/// A multipart upload. Parts may come from many threads, in any order.
#[derive(Debug)]
pub struct Upload {
    store: Arc<Store>,
    name: String,
    id: String,
    parts: Mutex<Vec<Option<PartId>>>,
}

/// Result of a multipart upload.
#[derive(Debug)]
pub enum Completed {
    /// The object exists.
    Yes,
    /// A response was lost, and the server refused the retry: the caller has to check the object, and reports this
    /// error if it is missing or wrong.
    Perhaps(Error),
}

impl Store {
    /// Puts an object, or replaces it.
    ///
    /// # Errors
    /// When the server refuses it, or is a web server.
    pub fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<()> {
        let bytes = bytes.into();
        self.change(name, bytes.len() as u64, Refusal::Credentials, async |objects, key, notes| {
            objects.put(key, bytes.clone(), notes).await
        })
        .map_err(|(error, _)| error)
    }

    /// Removes an object; a missing object is fine.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn delete(&self, name: &str) -> Result<()> {
        let removed = self.change(name, 0, Refusal::Credentials, async |objects, key, notes| {
            match objects.delete(key, notes).await {
                Err(Failed::NotThere) => Ok(()),
                removed => removed,
            }
        });
        removed.map_err(|(error, _)| error)
    }

    /// Begins a multipart upload.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn upload(self: &Arc<Self>, name: &str) -> Result<Upload> {
        let begun =
            self.change(name, 0, Refusal::Credentials, async |objects, key, notes| objects.begin(key, notes).await);
        let id = begun.map_err(|(error, _)| error)?;
        Ok(Upload { store: Arc::clone(self), name: name.to_owned(), id, parts: Mutex::default() })
    }

    /// Aborts the upload `id` of the object `name`; an unknown upload is fine.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn abort(&self, name: &str, id: &str) -> Result<()> {
        let id = id.to_owned();
        let removed = self.change(name, 0, Refusal::DoneOrIdle, async |objects, key, notes| {
            match objects.abort(key, &id, notes).await {
                Err(Failed::NotThere) => Ok(()),
                removed => removed,
            }
        });
        removed.map_err(|(error, _)| error)
    }

    /// Makes one change to an object, with retries; an error comes with the number of earlier attempts without a
    /// response.
    fn change<T>(
        &self,
        name: &str,
        bytes: u64,
        refusal: Refusal,
        work: impl AsyncFn(&Objects, &str, &Notes) -> Result<T, Failed>,
    ) -> Result<T, (Error, u32)> {
        let of_object = |error: Error| error.in_file(self.object_url(name));
        let first = |error| (error, 0);
        let shared = self.shared().map_err(first)?;
        if shared.objects().is_none() {
            let error = Error::usage("a web server is only read from");
            return Err(first(of_object(error.help(shardpack_format::help::COPY_TO_WEB))));
        }
        let key = self.location().key(name).map_err(first)?;
        let asker = self.asker(&shared);
        let more = Duration::from_secs(bytes / SLOWEST_BYTES_A_SECOND);
        let asked = asker.ask(more, refusal, async || once(&asker, &shared, &key, bytes, &work).await);
        let (done, unanswered) = match runtime::wait(asked).map_err(first)? {
            Ok((done, unanswered)) => (done, unanswered),
            Err((error, unanswered)) => return Err((of_object(error), unanswered)),
        };
        done.ok_or_else(|| {
            (of_object(Error::usage("the object, or its unfinished upload, is no longer on the server")), unanswered)
        })
    }
}

async fn once<T>(
    asker: &Asker<'_>,
    shared: &Shared,
    key: &str,
    bytes: u64,
    work: &impl AsyncFn(&Objects, &str, &Notes) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let Some(objects) = shared.objects() else { return Err(Failed::NotThere) };
    let notes = Notes::new(Use::Change);
    let done = work(&objects, key, &notes).await;
    asker.counted(&notes);
    asker.sent(bytes);
    done
}

impl Upload {
    /// The id of the upload for [`Store::abort`].
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Puts part `number`, from 0. All parts but the last have the same length, at least 5 MiB.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn part(&self, number: usize, bytes: impl Into<Bytes>) -> Result<()> {
        let bytes = bytes.into();
        let put =
            self.store.change(&self.name, bytes.len() as u64, Refusal::Credentials, async |objects, key, notes| {
                objects.part(key, &self.id, number, bytes.clone(), notes).await
            });
        let part = put.map_err(|(error, _)| error)?;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.len() <= number {
            parts.resize(number + 1, None);
        }
        parts[number] = Some(part);
        Ok(())
    }

    /// Completes the object.
    ///
    /// # Errors
    /// When a part is missing, and as [`Store::put`].
    pub fn complete(&self) -> Result<Completed> {
        let parts: Option<Vec<PartId>> =
            self.parts.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        let missing = || Error::usage("a part is missing").in_file(self.store.object_url(&self.name));
        let parts = parts.filter(|parts| !parts.is_empty()).ok_or_else(missing)?;
        let made = self.store.change(&self.name, 0, Refusal::Done, async |objects, key, notes| {
            objects.complete(key, &self.id, parts.clone(), notes).await
        });
        match made {
            Ok(()) => Ok(Completed::Yes),
            Err((error, 1..)) => Ok(Completed::Perhaps(error)),
            Err((error, 0)) => Err(error),
        }
    }

    /// Aborts the upload.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn abort(&self) -> Result<()> {
        self.store.abort(&self.name, &self.id)
    }
}
