//! Retries a request until it succeeds or the patience with its server ends.

use std::{future::Future, sync::atomic::Ordering, time::Duration};

use shardpack_format::{Error, ErrorKind, Result, size};
use shardpack_runtime::Instant;

use crate::remote::{
    location::Location,
    request::Counters,
    response::Failed,
    retry_budget::Patience,
    service::Notes,
    settings::{Options, Settings},
    shared::Shared,
};

/// How long requests are retried, with renewed credentials, at a server that accepted credentials before and now
/// refuses them.
const REFUSED_PATIENCE: Duration = Duration::from_secs(60);

/// The same for requests that matter little: other requests detect expired credentials.
const BRIEF_PATIENCE: Duration = Duration::from_secs(2);

/// Possible meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The credentials have expired.
    Credentials,
    /// The credentials have expired; or, if an earlier attempt was sent, that attempt succeeded: some servers refuse
    /// requests about uploads that they no longer know.
    Done,
    /// As `Done` for a request that matters little: it is retried only briefly.
    DoneOrIdle,
}

/// Shared state of all requests to a folder.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub shared: &'a Shared,
    pub location: &'a Location,
    pub settings: &'a Settings,
    pub options: &'a Options,
    pub counters: &'a Counters,
}

impl<'a> Asker<'a> {
    /// The full patience of one request.
    pub fn persistence(self) -> Persistence<'a> {
        let Options { patience, first_patience, .. } = self.options;
        let budget = if self.shared.has_answered() { *patience } else { *first_patience.min(patience) };
        Persistence {
            asker: self,
            patience: Patience::new(budget),
            refusals: Patience::new(budget.min(REFUSED_PATIENCE)),
        }
    }

    /// Adds the notes of an attempt to the counters.
    pub fn counted(&self, notes: &Notes) {
        self.counters.requests.fetch_add(notes.requests(), Ordering::Relaxed);
        self.counters.bytes.fetch_add(notes.bytes(), Ordering::Relaxed);
    }

    /// Counts bytes that were sent.
    pub fn sent(&self, bytes: u64) {
        self.counters.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits for a part of a response, at most the usual silence plus `more`.
    pub async fn heard<T>(&self, more: Duration, part: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
        let silence = self.options.silence + more;
        let heard = tokio::time::timeout(silence, part).await;
        heard.map_err(|_| Failed::retry(format!("nothing came for {} s", silence.as_secs())))?
    }

    /// Sends a request until it succeeds; its response may take `more` than usual. Returns `None` if the object does
    /// not exist; the number counts earlier attempts without a response, which the server may have carried out.
    pub async fn ask<T>(
        self,
        more: Duration,
        refusal: Refusal,
        mut attempt: impl AsyncFnMut() -> Result<T, Failed>,
    ) -> Result<(Option<T>, u32), (Error, u32)> {
        let (mut persistence, mut unanswered) = (self.persistence(), 0);
        if refusal == Refusal::DoneOrIdle {
            persistence.refusals = Patience::new(BRIEF_PATIENCE);
        }
        loop {
            let failed = {
                let _running = self.shared.limiter.enter().await;
                let asked = Instant::now();
                match self.heard(more, attempt()).await {
                    Ok(answer) => {
                        self.shared.limiter.began(asked.elapsed());
                        self.shared.limiter.well();
                        self.shared.answered();
                        return Ok((Some(answer), unanswered));
                    }
                    Err(failed) => failed,
                }
            };
            match failed {
                Failed::NotThere => return Ok((None, unanswered)),
                Failed::Refused(error) if refusal != Refusal::Credentials && unanswered > 0 => {
                    return Err((error, unanswered));
                }
                failed => {
                    unanswered += u32::from(matches!(failed, Failed::Again { .. }));
                    persistence.after(failed).await.map_err(|error| (error, unanswered))?;
                }
            }
        }
    }
}

/// The remaining patience of one request.
pub(crate) struct Persistence<'a> {
    asker: Asker<'a>,
    patience: Patience,
    refusals: Patience,
}

impl Persistence<'_> {
    /// Records that useful data arrived.
    pub fn progress(&mut self) {
        self.patience.progress();
        self.refusals.progress();
    }

    /// Waits until the request may be retried after `failed`.
    ///
    /// # Errors
    /// When the request must not be retried.
    pub async fn after(&mut self, failed: Failed) -> Result<()> {
        let Asker { shared, settings, counters, .. } = self.asker;
        Err(match failed {
            Failed::NotThere => Error::data("is not there"),
            Failed::Shorter(error) | Failed::Never(error) => error,
            Failed::Refused(error) => match self.renewed().await? {
                true => return Ok(()),
                false if shared.objects().is_none() && settings.get("header").is_none() => {
                    error.help("no credentials were sent; --store \"header=Authorization: …\" sends some")
                }
                false if error.help_text().is_some() => error,
                false => error.help("check the credentials and their permissions"),
            },
            Failed::Again { what, wait, too_many } => {
                if too_many {
                    counters.too_many.fetch_add(1, Ordering::Relaxed);
                    shared.limiter.too_many();
                }
                if let Some(wait) = self.patience.wait(wait) {
                    counters.again.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(wait).await;
                    return Ok(());
                }
                let times = size::counted(u64::from(self.patience.failed), "time");
                let asked = wait.map_or_else(String::new, |wait| format!(", retry after {} s", wait.as_secs()));
                let what = format!("{what}{asked}; tried {times} in {} s", self.patience.waited().as_secs());
                Error::new(ErrorKind::System, what).help("check that the server works, and try again")
            }
        })
    }

    /// Credentials may have expired: renews them and returns whether to retry.
    async fn renewed(&mut self) -> Result<bool> {
        let Asker { shared, location, settings, counters, .. } = self.asker;
        if !shared.has_answered() || !shared.renew(location, settings)? {
            return Ok(false);
        }
        let Some(wait) = self.refusals.wait(None) else { return Ok(false) };
        counters.again.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(wait).await;
        Ok(true)
    }
}
