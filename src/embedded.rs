//! A command that runs inside another program: its output is captured, and its progress can be queried at any time.
//!
//! Holds at all times: a call touches neither stdout nor stderr nor signals; each call has its own output, even if many run at
//! the same time.

use std::{
    cell::RefCell,
    ffi::OsString,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use shardpack_format::text;
use shardpack_runtime::threads;

thread_local! {
    /// The host of the command that this thread runs.
    static HOST: RefCell<Option<Arc<Host>>> = const { RefCell::new(None) };
}

/// Receives output and progress instead of a terminal.
#[derive(Debug, Default)]
pub(crate) struct Host {
    printed: Mutex<Vec<u8>>,
    said: Mutex<Vec<String>>,
    progress: Mutex<Progress>,
    is_answered: AtomicBool,
    is_interrupted: AtomicBool,
}

/// Progress of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The current phase: a word such as `packing`; empty before the command begins.
    pub verb: &'static str,
    /// Samples done.
    pub samples: u64,
    /// Total samples, 0 if unknown.
    pub total_samples: u64,
    /// Bytes done.
    pub bytes: u64,
    /// Total bytes, 0 if unknown.
    pub total_bytes: u64,
}

/// A running command.
#[derive(Debug)]
pub struct Call {
    host: Arc<Host>,
    thread: JoinHandle<u8>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The exit code of the command.
    pub code: u8,
    /// The output for stdout: one JSON document, if requested.
    pub printed: Vec<u8>,
    /// The lines for stderr, without progress.
    pub said: Vec<String>,
}

impl Call {
    /// Runs `shardpack` with `arguments`, the first of which is the name of a command, in a new thread.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(arguments: Vec<OsString>) -> std::io::Result<Self> {
        let host = Arc::new(Host::default());
        let shared = Arc::clone(&host);
        let thread = threads::spawn(Some("shardpack-command".to_owned()), move || {
            HOST.set(Some(shared));
            crate::main(std::iter::once("shardpack".into()).chain(arguments))
        })?;
        Ok(Self { host, thread })
    }

    /// Whether [`Call::finish`] would return at once.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Current progress.
    pub fn progress(&self) -> Progress {
        *lock(&self.host.progress)
    }

    /// Cancels the command cleanly, as Ctrl-C does.
    pub fn interrupt(&self) {
        self.host.is_interrupted.store(true, Relaxed);
    }

    /// Waits for the command to end. `None` if it panicked.
    pub fn finish(self) -> Option<Answer> {
        let code = self.thread.join().ok()?;
        let printed = std::mem::take(&mut *lock(&self.host.printed));
        let said = std::mem::take(&mut *lock(&self.host.said));
        Some(Answer { code, printed, said })
    }
}

/// The host of the command that this thread runs.
pub(crate) fn host() -> Option<Arc<Host>> {
    HOST.with_borrow(Clone::clone)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Host {
    pub fn print(&self, bytes: &[u8]) {
        lock(&self.printed).extend_from_slice(bytes);
    }

    pub fn say(&self, line: &str) {
        lock(&self.said).push(text::line(line).into_owned());
    }

    pub fn is_at(&self, progress: Progress) {
        *lock(&self.progress) = progress;
    }

    pub fn is_answered(&self) -> &AtomicBool {
        &self.is_answered
    }

    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &[&str]) -> Answer {
        Call::start(arguments.iter().map(OsString::from).collect()).unwrap().finish().unwrap()
    }

    #[test]
    fn what_calls_print_is_their_own() {
        let answers: Vec<_> = ["fish", "bash", "zsh"]
            .map(|shell| Call::start(vec!["completions".into(), shell.into()]).unwrap())
            .into_iter()
            .map(|call| call.finish().unwrap())
            .collect();
        assert!(answers.iter().all(|answer| answer.code == 0 && answer.said.is_empty() && answer.printed.len() > 1000));
        assert!(answers[0].printed != answers[1].printed && answers[1].printed != answers[2].printed);
    }

    #[test]
    fn a_wrong_request_is_told_in_the_answer_alone() {
        let answer = call(&["verify", "no/such/folder", "--json"]);
        let document: serde_json::Value = serde_json::from_slice(&answer.printed).unwrap();
        assert_eq!((answer.code, &document["error"]["kind"]), (2, &"usage".into()), "{document}");
        assert!(answer.said[0].starts_with("error: "), "{:?}", answer.said);
        let answer = call(&["pack", "--no-such-option", "--json"]);
        let document: serde_json::Value = serde_json::from_slice(&answer.printed).unwrap();
        assert!(answer.code == 2 && document["error"]["message"].as_str().unwrap().contains("--no-such-option"));
        assert!(call(&["pack", "--help"]).printed.starts_with(b"Pack a tree"));
    }
}
