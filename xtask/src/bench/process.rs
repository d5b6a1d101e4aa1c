//! Measures a process with wait4.

use std::{
    fs::{self, File},
    io::Read,
    process::{Command, Stdio},
    time::Instant,
};

use super::folder;
use crate::{
    Result,
    command::{read, typed},
};

/// Resources used by a process and the children it waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Elapsed time from start to end.
    pub seconds: f64,
    /// CPU time of all threads, in user space and in the kernel.
    pub cpu_seconds: f64,
    /// Largest resident set of a single process, pages of mapped files included. At least some MB: before exec, the child is a copy of
    /// this process.
    pub peak_bytes: u64,
}

/// Runs `command` to its end; returns its usage and its output.
pub fn measure(command: &mut Command) -> Result<(Usage, String)> {
    let name = typed(command);
    let failed = |what: &str, error: std::io::Error| format!("{name}: {what}: {error}");
    let log = folder("stderr.txt");
    let made = fs::create_dir_all(folder(""));
    let stderr = made.and_then(|()| File::create(&log)).map_err(|error| failed("cannot keep its messages", error))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);

    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| failed("cannot run", error))?;
    let mut printed = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut printed).map_err(|error| failed("cannot read what it prints", error))?;
    }
    let mut status = 0;
    // SAFETY: rusage is a struct of integers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let id = child.id().cast_signed();
    // SAFETY: both pointers are to live values of the right types. The child has not been waited for, so the number is
    // still its own; `child` is not waited for after this.
    let waited = unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) };
    let seconds = start.elapsed().as_secs_f64();
    if waited != id {
        return Err(failed("cannot wait for it", std::io::Error::last_os_error()));
    }
    if status != 0 {
        return Err(format!("{name}: status {status:#x}\n{}{printed}", read(&log).unwrap_or_default()));
    }
    let time = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    // Linux counts in KiB.
    let peak_bytes = usage.ru_maxrss as u64 * 1024;
    Ok((Usage { seconds, cpu_seconds: time(usage.ru_utime) + time(usage.ru_stime), peak_bytes }, printed))
}
