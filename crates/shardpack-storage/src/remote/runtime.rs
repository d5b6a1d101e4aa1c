//! Gives each reading thread its own runtime and connections: the thread that receives the bytes copies them to their
//! destination while they are in the cache of its core, and no thread wakes another. A new thread takes over the
//! runtime and connections of a thread that ended: connections stay open, and certificates are not read again.
//!
//! Holds at all times: a forked process neither uses nor drops the connections of its parent, because dropping would
//! close connections that belong to the parent.

use std::{cell::RefCell, collections::HashMap, future::Future, rc::Rc, sync::Mutex};

use reqwest::Client;
use shardpack_format::{Error, ErrorKind, Result, catch_panic};
use tokio::runtime::{Builder, Handle, Runtime};

/// Maximum number of idle sets: each holds open connections.
const MAX_IDLE: usize = 128;

thread_local! {
    static OF_THREAD: RefCell<ThreadSlot> = const { RefCell::new(ThreadSlot(None)) };
}

/// The sets of threads that have ended.
static LEFT: Mutex<Vec<OfThread>> = Mutex::new(Vec::new());

/// The set of a running thread; other threads may take it after the thread ends.
struct ThreadSlot(Option<Rc<OfThread>>);

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        let Some(of_thread) = self.0.take() else { return };
        if of_thread.process != shardpack_runtime::process_id() {
            return std::mem::forget(of_thread);
        }
        if let (Ok(mut left), Some(of_thread)) = (LEFT.try_lock(), Rc::into_inner(of_thread))
            && left.len() < MAX_IDLE
        {
            left.push(of_thread);
        }
    }
}

/// Runtime and connections of a thread.
struct OfThread {
    process: u32,
    runtime: Runtime,
    /// Clients by server number.
    clients: RefCell<HashMap<u64, Client>>,
}

fn of_thread() -> Result<Rc<OfThread>> {
    let process = shardpack_runtime::process_id();
    OF_THREAD.with_borrow_mut(|held| {
        if let Some(of_thread) = &held.0
            && of_thread.process == process
        {
            return Ok(Rc::clone(of_thread));
        }
        // Does not wait for the lock: a fork may have happened while another thread held it.
        let left = LEFT.try_lock().ok().and_then(|mut left| left.pop());
        match left {
            Some(left) if left.process == process => {
                let left = Rc::new(left);
                std::mem::forget(held.0.replace(Rc::clone(&left)));
                return Ok(left);
            }
            left => std::mem::forget(left),
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::io("cannot wait for servers", error))?;
        let made = Rc::new(OfThread { process, runtime, clients: RefCell::default() });
        std::mem::forget(held.0.replace(Rc::clone(&made)));
        Ok(made)
    })
}

/// Waits for `work`, which may use [`client`].
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    if Handle::try_current().is_ok() {
        let error = Error::usage("a thread of an asynchronous runtime cannot wait for a server");
        return Err(error.help("tokio::task::spawn_blocking has threads that can"));
    }
    let of_thread = of_thread()?;
    catch_panic::caught(|| of_thread.runtime.block_on(work)).map_err(|panic| {
        // The work that panicked is dropped.
        OF_THREAD.with_borrow_mut(|held| held.0 = None);
        let what = catch_panic::message(&*panic).unwrap_or("it does not say why");
        Error::new(ErrorKind::System, format!("the client of the store gives up: {what}"))
            .help("look at the settings of the store, and at `ulimit -u`")
    })
}

/// This thread's connections to server number `server`; `make` opens them at the first call.
pub(crate) fn client(server: u64, make: impl FnOnce() -> Result<Client>) -> Result<Client> {
    let of_thread = of_thread()?;
    let mut clients = of_thread.clients.borrow_mut();
    if let Some(client) = clients.get(&server) {
        return Ok(client.clone());
    }
    let made = make()?;
    clients.insert(server, made.clone());
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_leaves_the_next_one_takes() {
        let address = || std::thread::spawn(|| Rc::as_ptr(&of_thread().unwrap()) as usize).join();
        assert!(address().is_ok() && address().is_ok());
        let left = LEFT.lock().unwrap().len();
        std::thread::spawn(|| wait(async { 1 }).unwrap()).join().unwrap();
        // Other tests may have taken some in the meantime, but sets are reused.
        assert!(left >= 1 && LEFT.lock().unwrap().len() <= left + 1);
    }

    #[test]
    fn a_client_that_panics_gives_an_error_and_the_next_request_is_as_ever() {
        let error = wait::<()>(async { panic!("request valid: {}", "InvalidUri") }).unwrap_err();
        assert_eq!(error.to_string(), "the client of the store gives up: request valid: InvalidUri");
        assert!(error.help_text().is_some_and(|help| help.starts_with("look at the settings of the store")));
        assert_eq!(wait(async { 1 }).unwrap(), 1);
    }

    #[test]
    fn a_thread_of_a_runtime_is_told_where_it_can_wait() {
        assert_eq!(wait(async { 1 }).unwrap(), 1);
        let runtime = Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(async { wait(async { 1 }) }).unwrap_err();
        assert_eq!(error.help_text(), Some("tokio::task::spawn_blocking has threads that can"));
        assert_eq!(wait(async { 2 }).unwrap(), 2);
    }
}
