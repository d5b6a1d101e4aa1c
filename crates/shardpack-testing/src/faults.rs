//! Runs the binary under `faults.c`, which makes chosen system calls fail.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{Ran, binary, built, root};

/// Error numbers, the same on every Linux platform of these tests.
pub const ENOENT: i32 = 2;
pub const EIO: i32 = 5;
pub const EACCES: i32 = 13;
pub const ENOSPC: i32 = 28;
pub const ESTALE: i32 = 116;
/// Not an error: kills the program before the call.
pub const KILL: i32 = 0;

/// Exit code of the `faults.c` program if faults cannot be injected.
const UNAVAILABLE: i32 = 125;

/// The program that makes calls fail; `None` if it cannot be built or if the kernel has no seccomp notifications.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let source = root().join("crates/shardpack-testing/src/faults.c");
        let program = built(&format!("faults-{}", std::process::id()));
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built = Command::new(compiler).args(["-O1", "-o"]).arg(&program).arg(source).status();
        let works = |program: &Path| Command::new(program).args(["stat:5:1:nowhere", "--", "/bin/true"]).status();
        (built.is_ok_and(|status| status.success()) && works(&program).is_ok_and(|status| status.success()))
            .then_some(program)
    };
    let program = BUILT.get_or_init(build).as_deref();
    if program.is_none() {
        eprintln!("no C compiler, or no seccomp notifications: what faults would show is not tried");
    }
    program
}

/// A fault in the syntax of `faults.c`, `CALL:ERRNO:WHEN:PATH`: call number `when` (from 1; 0 for every call) of `call` (stat, open, list,
/// read, write, sync, rename, unlink, change) fails with `errno`. Only calls on paths that contain `path` count.
pub fn fault(call: &str, errno: i32, when: u32, path: &str) -> String {
    format!("{call}:{errno}:{when}:{path}")
}

/// Runs the binary with these faults; `None` if faults cannot be injected.
pub fn run(faults: &[String], args: &[impl AsRef<OsStr>]) -> Option<Ran> {
    let ran = Command::new(program()?).args(faults).arg("--").arg(binary()).args(args).output().unwrap();
    let ran = Ran::from(ran);
    assert_ne!(ran.code, UNAVAILABLE, "{}", ran.stderr);
    Some(ran)
}
