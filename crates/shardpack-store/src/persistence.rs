//! A request that is sent again until it is answered, or the patience with its server ends.

use std::{
    future::Future,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use shardpack_format::{Error, ErrorKind, Result, size};

use crate::{
    answer::Failed,
    location::Location,
    patience::Patience,
    service::Notes,
    settings::{Options, Settings},
    shared::Shared,
    store::Counters,
};

/// How long a server that refuses what it took before is asked again, with credentials that are looked for anew.
const REFUSED_PATIENCE: Duration = Duration::from_secs(60);

/// The same of what matters little: other requests find out that credentials have ended.
const BRIEF_PATIENCE: Duration = Duration::from_secs(2);

/// What a server that refuses a request may mean by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// That credentials have ended.
    Credentials,
    /// That, or that the request was carried out before, where it may have been: there are servers that refuse what they do not know any
    /// more.
    Done,
    /// The same, and it matters little: it is asked again for a moment alone.
    DoneOrIdle,
}

/// What all requests to a folder have in common.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub shared: &'a Shared,
    pub location: &'a Location,
    pub settings: &'a Settings,
    pub options: &'a Options,
    pub counters: &'a Counters,
}

impl<'a> Asker<'a> {
    /// All the patience that there is with one request.
    pub fn persistence(self) -> Persistence<'a> {
        let Options { patience, first_patience, .. } = self.options;
        let budget = if self.shared.has_answered() { *patience } else { *first_patience.min(patience) };
        Persistence {
            asker: self,
            patience: Patience::new(budget),
            refusals: Patience::new(budget.min(REFUSED_PATIENCE)),
        }
    }

    /// Counts what was noted of an attempt.
    pub fn counted(&self, notes: &Notes) {
        self.counters.requests.fetch_add(notes.requests(), Ordering::Relaxed);
        self.counters.bytes.fetch_add(notes.bytes(), Ordering::Relaxed);
    }

    /// Counts what was sent.
    pub fn sent(&self, bytes: u64) {
        self.counters.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits for a part of an answer, but not for a server that is silent for longer than usual and `more`.
    pub async fn heard<T>(&self, more: Duration, part: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
        let silence = self.options.silence + more;
        let heard = tokio::time::timeout(silence, part).await;
        heard.map_err(|_| Failed::again(format!("nothing came for {} s", silence.as_secs())))?
    }

    /// Sends a request until it is answered; its answer may take `more` than usual. `None` where there is no such object; the
    /// other number says how often it was sent before without an answer, though it may have been carried out.
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

/// What is left of the patience with one request.
pub(crate) struct Persistence<'a> {
    asker: Asker<'a>,
    patience: Patience,
    refusals: Patience,
}

impl Persistence<'_> {
    /// Something of use has come.
    pub fn progress(&mut self) {
        self.patience.progress();
        self.refusals.progress();
    }

    /// Waits until it is time to ask again after `failed`.
    ///
    /// # Errors
    /// When nothing is to be asked again.
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
                false => error.help("look at the credentials, and at what they allow"),
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
                let asked = wait.map_or_else(String::new, |wait| format!(", which asks to wait {} s", wait.as_secs()));
                let what = format!("{what}{asked}; asked {times} in {} s", self.patience.waited().as_secs());
                Error::new(ErrorKind::System, what).help("look whether the server is well, and try again")
            }
        })
    }

    /// What was right before may have ended: whether to ask again with credentials that were looked for anew.
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
