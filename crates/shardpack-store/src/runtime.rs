//! The one runtime of a process.

use std::sync::{Arc, Mutex, PoisonError};

use shardpack_format::{Error, Result};
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that speak with servers: bytes are moved, not looked at.
const THREADS: usize = 2;

/// The runtime, and the process that it is of.
static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

/// The runtime of this process. A process that was forked has none of the threads of the one that it came from, so it makes
/// its own; that of the other is never touched again.
pub(crate) fn handle() -> Result<(u32, Handle)> {
    let process = std::process::id();
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, runtime)) = &*runtime
        && *of == process
    {
        return Ok((process, runtime.handle().clone()));
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(THREADS).thread_name("shardpack-store").enable_all();
    let made = Arc::new(builder.build().map_err(|error| Error::io("cannot start threads", error))?);
    let handle = made.handle().clone();
    // To drop it would wait for threads that are not there.
    std::mem::forget(runtime.replace((process, made)));
    Ok((process, handle))
}
