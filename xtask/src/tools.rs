//! Finds or installs third-party tools: tests use the Slurm, nginx and Chromium of this machine; CI installs them.

use std::path::PathBuf;

use crate::{
    Result,
    command::{command, is_ci, is_installed, output},
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

/// Packages of an emulator of aarch64 and a linker for it.
pub const EMULATOR: [&str; 3] = ["qemu-user", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"];

/// Installs an emulator of aarch64 and a linker for it, under the rules of [`slurm`].
pub fn emulator() -> Result<()> {
    install("QEMU", &["qemu-aarch64", "aarch64-linux-gnu-gcc"], &EMULATOR)
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
