//! Objects that are written: whole, or in parts from memory, many at a time.
//!
//! Holds at all times: an object is there whole or not at all; parts of one that was given up are removed where the server is asked to,
//! and else by what the bucket's own rules say of parts that were left.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use object_store::multipart::PartId;
use shardpack_format::{Error, Result};

use crate::{
    Store,
    answer::Failed,
    objects::Objects,
    persistence::{Asker, Refusal},
    runtime,
    service::{Notes, Use},
    shared::Shared,
};

/// A part may take a second for so many bytes beyond the silence that any answer may take: a slow line is not a dead one.
const SLOWEST_BYTES_A_SECOND: u64 = 64 << 10;

/// An object that is put in parts. Parts may come from many threads, in any order.
#[derive(Debug)]
pub struct Upload {
    store: Arc<Store>,
    name: String,
    id: String,
    parts: Mutex<Vec<Option<PartId>>>,
}

/// How an object that was put in parts ended.
#[derive(Debug)]
pub enum Completed {
    /// It is there.
    Yes,
    /// An answer was lost, and asked again the server says otherwise: whether it is there and right is to be looked at; the error if not.
    Perhaps(Error),
}

impl Store {
    /// Puts an object, or replaces it.
    ///
    /// # Errors
    /// When the server does not take it, or this is a web server.
    pub fn put(&self, name: &str, bytes: impl Into<Bytes>) -> Result<()> {
        let bytes = bytes.into();
        self.change(name, bytes.len() as u64, Refusal::Credentials, async |objects, key, notes| {
            objects.put(key, bytes.clone(), notes).await
        })
        .map_err(|(error, _)| error)
    }

    /// Removes an object; one that is not there is fine.
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

    /// Begins to put an object in parts.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn upload(self: &Arc<Self>, name: &str) -> Result<Upload> {
        let begun =
            self.change(name, 0, Refusal::Credentials, async |objects, key, notes| objects.begin(key, notes).await);
        let id = begun.map_err(|(error, _)| error)?;
        Ok(Upload { store: Arc::clone(self), name: name.to_owned(), id, parts: Mutex::default() })
    }

    /// Gives up what was begun as `id` of the object `name`; what is not known any more is fine.
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

    /// Does one thing to an object until it is done; with an error, how often it was tried before without an answer.
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
            (of_object(Error::usage("the server does not know it, or what was begun of it, any more")), unanswered)
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
    let notes = Notes::of(Use::Change);
    let done = work(&objects, key, &notes).await;
    asker.counted(&notes);
    asker.sent(bytes);
    done
}

impl Upload {
    /// What stands for it, to be given up by: [`Store::abort`].
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Puts part number `number`, from 0. All but the last are of one length, 5 MiB at least.
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

    /// Makes an object of the parts.
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

    /// Gives up its parts.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn abort(&self) -> Result<()> {
        self.store.abort(&self.name, &self.id)
    }
}
