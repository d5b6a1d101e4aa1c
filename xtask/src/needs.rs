//! Checks for programs that the tests need and cannot install; prints all missing programs and one install command.

use crate::{
    Result,
    command::{is_installed, output},
    python,
};

/// A check of this machine, and the Debian package that satisfies it.
struct Need {
    name: &'static str,
    package: &'static str,
    is_met: fn() -> bool,
}

const NEEDS: [Need; 6] = [
    Need { name: "Python 3.10 or newer", package: "python3", is_met: || python::system_python().is_ok() },
    Need { name: "Python's module venv", package: "python3-venv", is_met: || imports("venv, ensurepip") },
    Need { name: "a C compiler", package: "gcc libc6-dev", is_met: || is_installed("cc", &["--version"]) },
    Need { name: "bash", package: "bash", is_met: || is_installed("bash", &["--version"]) },
    Need { name: "GNU tar", package: "tar", is_met: || is_installed("tar", &["--version"]) },
    Need { name: "unshare", package: "util-linux", is_met: || is_installed("unshare", &["--version"]) },
];

/// Needed only to build packages without wheels, as CI does: CI skips no package.
const OF_CI: [Need; 1] = [Need { name: "Python's headers", package: "python3-dev", is_met: has_headers }];

/// Fails if this machine lacks a program.
///
/// # Errors
/// Names everything that is missing and the command that installs it.
pub fn check(is_ci: bool) -> Result<()> {
    let of_ci: &[Need] = if is_ci { &OF_CI } else { &[] };
    let missing: Vec<&Need> = NEEDS.iter().chain(of_ci).filter(|need| !(need.is_met)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = |field: fn(&Need) -> &'static str, between| {
        missing.iter().map(|need| field(need)).collect::<Vec<_>>().join(between)
    };
    Err(format!(
        "missing on this machine: {}\n  help: apt-get install --yes {}",
        list(|need| need.name, ", "),
        list(|need| need.package, " ")
    ))
}

fn imports(modules: &str) -> bool {
    python::system_python().is_ok_and(|python| is_installed(python, &["-c", &format!("import {modules}")]))
}

fn has_headers() -> bool {
    let script = "import os, sysconfig; print(os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))";
    let found = python::system_python().and_then(|python| output(&mut crate::command::command(python, ["-c", script])));
    found.is_ok_and(|text| text.trim() == "True")
}
