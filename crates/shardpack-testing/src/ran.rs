//! Runs the program and checks its exit code and messages.

use std::{
    ffi::OsStr,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::built;

/// Path of the binary; `SHARDPACK_PROGRAM` replaces it, for example with the program of the Python package.
pub fn binary() -> PathBuf {
    std::env::var_os("SHARDPACK_PROGRAM").unwrap_or_else(|| built("shardpack").into()).into()
}

/// Output and exit code of a finished process.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; the negative signal number if a signal ended the process.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or_else(|| -output.status.signal().unwrap()),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Fails the test unless the exit code is `code`.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test unless stdout or stderr contains `text`.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        let said = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(said, "not said: {text}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test if stdout or stderr contains `text`.
    #[track_caller]
    pub fn says_not(self, text: &str) -> Self {
        let said = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(!said, "said: {text}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test unless stderr has the project's error form: one line, and at most one line of help.
    #[track_caller]
    pub fn clean_error(self) -> Self {
        let lines: Vec<&str> = self.stderr.lines().skip_while(|line| !line.starts_with("error: ")).collect();
        let fine = matches!(lines.as_slice(), [_] | [_, _]) && lines[1..].iter().all(|l| l.starts_with("  help: "));
        assert!(fine, "no clean error:\n{}", self.stderr);
        self
    }

    /// Parses stdout as one JSON document.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}:\n{}", self.stdout))
    }
}

/// Runs the binary and waits for its end.
pub fn run(args: &[impl AsRef<OsStr>]) -> Ran {
    let output = assert_cmd::Command::new(binary()).args(args).output().unwrap();
    output.into()
}

/// Runs the binary from a shell that first runs `before`, for example to set limits or to ignore signals.
pub fn run_after(before: &str, args: &[impl AsRef<OsStr>]) -> Ran {
    let script = format!("{before} && exec \"$0\" \"$@\"");
    Command::new("sh").arg("-c").arg(script).arg(binary()).args(args).output().unwrap().into()
}

/// Returns true if the process may mount file systems (as root, in a separate mount namespace).
pub fn mounts_work() -> bool {
    let folder = tempfile::tempdir().unwrap();
    Command::new("unshare")
        .args(["-m", "mount", "-t", "tmpfs", "none"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs `shardpack pack src dst` with these options.
pub fn pack(src: &Path, dst: &Path, options: &[&str]) -> Ran {
    let mut args: Vec<&OsStr> = vec![OsStr::new("pack"), src.as_os_str(), dst.as_os_str()];
    args.extend(options.iter().map(OsStr::new));
    run(&args)
}
