//! The tools that libjpeg-turbo is built with, CMake and NASM: those of this machine, else made below target/tools.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{
    Result,
    command::{command, is_there, output, remove, run, target},
    python,
};

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
