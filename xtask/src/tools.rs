//! Finds or installs third-party tools.
//!
//! libjpeg-turbo builds with CMake and NASM: those of this machine, otherwise installed below target/tools. Tests use the Slurm, nginx
//! and Chromium of this machine; CI installs them.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    Result,
    command::{command, is_ci, is_installed, output, remove, run, target},
    python,
};

/// Debian and Ubuntu packages of Slurm for a cluster on one machine.
const SLURM: [&str; 4] = ["slurmctld", "slurmd", "slurm-client", "munge"];
/// The package manager runs this program before it starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs Slurm if it is missing and this is CI.
///
/// # Errors
/// If CI does not run as root, or the installation fails. Elsewhere the test of Slurm skips and prints a note.
pub fn slurm() -> Result<()> {
    install("Slurm", &["slurmctld", "slurmd", "munged", "sbatch"], &SLURM)
}

/// Installs nginx under the rules of [`slurm`].
pub fn nginx() -> Result<()> {
    install("nginx", &["nginx"], &["nginx-light"])
}

/// Installs a browser under the rules of [`slurm`]; a test uses it to look at the pictures of the pages.
pub fn chromium() -> Result<()> {
    install("Chromium", &["chromium"], &["chromium"])
}

fn install(name: &str, programs: &[&str], packages: &[&str]) -> Result<()> {
    // Looked up by name: without a cluster they do not print their version.
    let has =
        |program: &&str| is_installed("sh", &["-c", &format!("PATH=$PATH:/usr/sbin:/sbin; command -v {program}")]);
    if programs.iter().all(has) || !is_ci() {
        return Ok(());
    }
    if output(&mut command("id", ["-u"]))?.trim() != "0" {
        return Err(format!("{name} is not installed here\n  help: apt-get install {}", packages.join(" ")));
    }
    // Install without starting services: tests run their own servers.
    let is_asked = PathBuf::from(POLICY).exists();
    if !is_asked {
        write_policy()?;
    }
    let install = || {
        let mut install = command("apt-get", ["install", "--yes", "--no-install-recommends"]);
        output(install.args(packages).env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
    };
    // The package list may be old or missing.
    let installed = install().or_else(|_| output(&mut command("apt-get", ["update"])).and_then(|_| install()));
    if !is_asked {
        std::fs::remove_file(POLICY).map_err(|error| format!("{POLICY}: {error}"))?;
    }
    installed
}

fn write_policy() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let written = std::fs::write(POLICY, "#!/bin/sh\nexit 101\n")
        .and_then(|()| std::fs::set_permissions(POLICY, std::fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{POLICY}: {error}"))
}

/// A `PATH` with CMake and, if libjpeg-turbo has assembler code for this machine, NASM.
pub fn path() -> Result<OsString> {
    let mut folders = Vec::new();
    if !is_installed("cmake", &["--version"]) {
        let python = python::environment("tools/cmake", "benches/cmake.txt");
        let python = python.map_err(|error| format!("there is no CMake here: {error}\n  help: install cmake"))?;
        folders.extend(python.parent().map(Path::to_owned));
    }
    // Without NASM, libjpeg-turbo builds without SIMD and is several times slower.
    if cfg!(any(target_arch = "x86_64", target_arch = "x86")) && !is_installed("nasm", &["-v"]) {
        folders.push(nasm().map_err(|error| format!("there is no NASM here: {error}\n  help: install nasm"))?);
    }
    let rest = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&rest))).map_err(|error| error.to_string())
}

/// The folder with NASM, unpacked from the Debian or Ubuntu package without root rights.
fn nasm() -> Result<PathBuf> {
    let folder = target("tools/nasm");
    let programs = folder.join("usr/bin");
    if programs.join("nasm").exists() {
        return Ok(programs);
    }
    remove(&folder)?;
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    output(command("apt-get", ["download", "nasm"]).current_dir(&folder))?;
    let packages = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let package = packages.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb"));
    let package = package.ok_or("apt-get downloaded no package")?;
    run(command("dpkg", ["-x"]).arg(package).arg(&folder))?;
    Ok(programs)
}
