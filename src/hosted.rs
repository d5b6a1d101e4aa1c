//! A command that runs inside another program: what it would print is kept, and how far it is can be asked at any time.
//!
//! Holds at all times: a call touches neither stdout nor stderr nor signals, and what it prints is its own, however many run
//! side by side.

use std::{
    cell::RefCell,
    ffi::OsString,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use shardpack_format::text;

thread_local! {
    /// Of the thread that runs a command.
    static HOST: RefCell<Option<Arc<Host>>> = const { RefCell::new(None) };
}

/// Who is told instead of a terminal.
#[derive(Debug, Default)]
pub(crate) struct Host {
    printed: Mutex<Vec<u8>>,
    said: Mutex<Vec<String>>,
    progress: Mutex<Progress>,
    is_answered: AtomicBool,
    is_interrupted: AtomicBool,
}

/// How far a command is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What it does: a word such as `packing`; empty before it begins.
    pub verb: &'static str,
    /// Samples that are done.
    pub samples: u64,
    /// Samples in all, 0 where that is not known.
    pub total_samples: u64,
    /// Bytes that are done.
    pub bytes: u64,
    /// Bytes in all, 0 where that is not known.
    pub total_bytes: u64,
}

/// A command under way.
#[derive(Debug)]
pub struct Call {
    host: Arc<Host>,
    thread: JoinHandle<u8>,
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The exit code that it would have had.
    pub code: u8,
    /// What it would have printed to stdout: one JSON document, if it was asked for.
    pub printed: Vec<u8>,
    /// The lines that it would have printed to stderr, progress left out.
    pub said: Vec<String>,
}

impl Call {
    /// Runs `shardpack` with `arguments`, the first of which is the name of a command, in a thread of its own.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(arguments: Vec<OsString>) -> std::io::Result<Self> {
        let host = Arc::new(Host::default());
        let shared = Arc::clone(&host);
        let thread = thread::Builder::new().name("shardpack-command".to_owned()).spawn(move || {
            HOST.set(Some(shared));
            crate::main(std::iter::once("shardpack".into()).chain(arguments))
        })?;
        Ok(Self { host, thread })
    }

    /// Whether [`Call::finish`] has nothing to wait for.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        *lock(&self.host.progress)
    }

    /// Makes it end soon and in good order, as Ctrl-C does.
    pub fn interrupt(&self) {
        self.host.is_interrupted.store(true, Relaxed);
    }

    /// Waits for its end. `None` when it panicked.
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
