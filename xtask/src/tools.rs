//! Tools of others. What libjpeg-turbo is built with, CMake and NASM: those of this machine, else made below target/tools. And Slurm, for
//! tests: that of this machine, which a machine that is there for tests alone installs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    Result,
    command::{command, is_ci, is_there, output, remove, run, target},
    python,
};

/// What Debian and Ubuntu call the parts of Slurm that a cluster on one machine needs.
const SLURM: [&str; 4] = ["slurmctld", "slurmd", "slurm-client", "munge"];
/// What is asked by the package manager before it starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs Slurm where it is missing, the machine is there for tests alone, and this process may: its test fails there without it, and says
/// elsewhere that it is not tried.
pub fn slurm() -> Result<()> {
    install("Slurm", &["slurmctld", "slurmd", "munged", "sbatch"], &SLURM)
}

/// The same of nginx.
pub fn nginx() -> Result<()> {
    install("nginx", &["nginx"], &["nginx-light"])
}

/// The same of a browser, which looks at the pictures of the pages.
pub fn chromium() -> Result<()> {
    install("Chromium", &["chromium"], &["chromium"])
}

fn install(name: &str, programs: &[&str], packages: &[&str]) -> Result<()> {
    // By name: without a cluster they do not tell their version.
    let has = |program: &&str| is_there("sh", &["-c", &format!("PATH=$PATH:/usr/sbin:/sbin; command -v {program}")]);
    if programs.iter().all(has) || !is_ci() {
        return Ok(());
    }
    if output(&mut command("id", ["-u"]))?.trim() != "0" {
        return Err(format!("{name} is not installed here\n  help: apt-get install {}", packages.join(" ")));
    }
    // Installed is not started: tests have servers of their own.
    let is_asked = PathBuf::from(POLICY).exists();
    if !is_asked {
        write_policy()?;
    }
    let install = || {
        let mut install = command("apt-get", ["install", "--yes", "--no-install-recommends"]);
        output(install.args(packages).env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
    };
    // The list of packages may be old, or not there.
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

/// A `PATH` on which CMake is and, where libjpeg-turbo has assembler code for it, NASM.
pub fn path() -> Result<OsString> {
    let mut folders = Vec::new();
    if !is_there("cmake", &["--version"]) {
        let python = python::environment("tools/cmake", "benches/cmake.txt");
        let python = python.map_err(|error| format!("there is no CMake here: {error}\n  help: install cmake"))?;
        folders.extend(python.parent().map(Path::to_owned));
    }
    // Without it, libjpeg-turbo builds as well, without SIMD and several times as slow.
    if cfg!(any(target_arch = "x86_64", target_arch = "x86")) && !is_there("nasm", &["-v"]) {
        folders.push(nasm().map_err(|error| format!("there is no NASM here: {error}\n  help: install nasm"))?);
    }
    let rest = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&rest))).map_err(|error| error.to_string())
}

/// The folder with NASM, unpacked from the package of Debian or Ubuntu, which needs no rights.
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
