//! Creates Python environments with pinned packages, if they are missing or their requirements have changed.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Result,
    command::{command, is_ci, output, read, remove, root, run, target, write},
};

/// The oldest Python that the pinned packages run on.
const OLDEST: (u32, u32) = (3, 10);

/// The Python of environment `name` in the target folder, with exactly the packages of `requirements` (relative to the root).
/// The requirements must list their dependencies.
pub fn environment(name: &str, requirements: &str) -> Result<PathBuf> {
    make(name, requirements, &["--no-deps"])
}

/// As [`environment`], but also installs the dependencies of the packages.
pub fn environment_with_dependencies(name: &str, requirements: &str) -> Result<PathBuf> {
    make(name, requirements, &[])
}

/// The readers and writers that every test run uses.
pub fn peers() -> Result<PathBuf> {
    environment("peers-venv", "tests/peers/requirements.txt")
}

/// TensorFlow, some 2 GB: it has its own environment, made on request.
pub fn tensorflow() -> Result<PathBuf> {
    environment_with_dependencies("peers-tensorflow", "tests/peers/tensorflow.txt")
}

/// MXNet, last released in 2022: it runs on some machines only.
pub fn mxnet() -> Result<PathBuf> {
    environment_with_dependencies("peers-mxnet", "tests/peers/mxnet.txt")
}

/// wids and Hugging Face datasets, which need a newer Python than the others.
pub fn sidecars() -> Result<PathBuf> {
    environment("peers-sidecars", "tests/peers/sidecars.txt")
}

/// Schemas of Kubernetes and AWS Batch, which validate the manifests of the documentation.
pub fn manifests() -> Result<PathBuf> {
    environment("peers-manifests", "tests/peers/manifests.txt")
}

/// NVIDIA DALI: some 1 GB.
pub fn dali() -> Result<PathBuf> {
    environment_with_dependencies("peers-dali", "tests/peers/dali.txt")
}

/// The versions of the package zstd that mosaicml-streaming may decompress with: three small environments.
pub fn zstds() -> Result<Vec<PathBuf>> {
    let of = |version: &str| environment(&format!("peers-zstd-{version}"), &format!("tests/peers/zstd-{version}.txt"));
    ["1.5.4", "1.5.6", "1.5.7"].into_iter().map(of).collect()
}

/// mosaicml-streaming and PyTorch, in the environment of `cargo xtask bench`: some 6 GB.
pub fn streaming() -> Result<PathBuf> {
    environment_with_dependencies("bench-venv", "benches/requirements.txt")
}

/// Photographs that are part of Python packages, and Pillow.
pub fn photographs() -> Result<PathBuf> {
    environment("photographs-venv", "benches/photographs.txt")
}

/// A Python with PyTorch, and the `PYTHONPATH` that puts the packages of `requirements` before its own.
pub fn with_packages(name: &str, requirements: &str) -> Result<(PathBuf, PathBuf)> {
    let (python, packages) = (streaming()?, target(name));
    let stamp = packages.join("requirements.stamp");
    let wanted = read(&root().join(requirements))?;
    if !read(&stamp).is_ok_and(|found| found == wanted) {
        println!("making {} from {requirements}", Path::new("target").join(name).display());
        remove(&packages)?;
        // Source builds use the PyTorch and numpy already installed.
        let mut install = pip_install(&python, requirements);
        run_again(install.args(["--no-deps", "--no-build-isolation", "--target"]).arg(&packages))?;
        write(&stamp, wanted)?;
    }
    Ok((python, packages))
}

/// `pip install` of `requirements`.
fn pip_install(python: &Path, requirements: &str) -> Command {
    // Skip byte-compiling: it takes as long as the rest, and many packages are never imported.
    let options = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"];
    let mut install = command(python, options);
    if is_ci() {
        // CI never installs again, and cached downloads take as much disk as the installed packages.
        install.arg("--no-cache-dir");
    }
    install.args(["-r", requirements]);
    install
}

/// Runs an installation, up to three times: pip fails if a connection breaks amid a package. An error includes the free disk space.
fn run_again(install: &mut Command) -> Result<()> {
    for pause in [20, 60] {
        let Err(error) = run(install) else { return Ok(()) };
        println!("{error}; trying again in {pause} s\n{}", free_space());
        std::thread::sleep(Duration::from_secs(pause));
    }
    run(install).map_err(|error| format!("{error}\n{}", free_space()))
}

/// Output of `df` for the disk that holds the repository.
fn free_space() -> String {
    output(&mut command("df", ["-h", "."])).unwrap_or_default()
}

/// The folder with the packages of an environment.
pub fn packages_of(python: &Path) -> Result<PathBuf> {
    let found = output(&mut command(python, ["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]))?;
    Ok(found.trim().into())
}

/// scikit-learn, for its bundled images.
#[cfg(feature = "simulate")]
pub fn digits() -> Result<PathBuf> {
    environment("digits-venv", "benches/digits.txt")
}

fn interpreter(folder: &Path) -> PathBuf {
    folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}

fn make(name: &str, requirements: &str, options: &[&str]) -> Result<PathBuf> {
    let folder = target(name);
    let python = interpreter(&folder);
    let stamp = folder.join("requirements.stamp");
    let wanted = read(&root().join(requirements))?;
    if python.exists() && read(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    println!("making {} from {requirements}", Path::new("target").join(name).display());
    remove(&folder)?;
    run(command(system_python()?, ["-m", "venv"]).arg(&folder))
        .map_err(|error| format!("{error}\n  help: Debian keeps venv in a package of its own, python3-venv"))?;
    run_again(pip_install(&python, requirements).args(options))?;
    write(&stamp, wanted)?;
    Ok(python)
}

/// A system Python that is at least [`OLDEST`].
pub fn system_python() -> Result<&'static str> {
    let version = "import sys; print(*sys.version_info[:2])";
    let mut found = Vec::new();
    for program in ["python3", "python"] {
        let Ok(text) = output(&mut command(program, ["-c", version])) else { continue };
        let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
        let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if number >= OLDEST {
            return Ok(program);
        }
        found.push(format!("{program} is {}.{}", number.0, number.1));
    }
    let found = if found.is_empty() { "there is none".to_owned() } else { found.join(", ") };
    Err(format!("Python {}.{} or newer is needed, {found}", OLDEST.0, OLDEST.1))
}
