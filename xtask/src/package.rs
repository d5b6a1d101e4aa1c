//! Builds the Python package as a wheel and runs its tests against the installed wheel.
//!
//! Tests run against the package that pip installs, in an environment without the sources.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result,
    arguments::Arguments,
    command::{command, remove, run, target},
    python,
    test_programs::run_tests,
    tools,
};

/// The environment with the tools that build and test the package.
fn environment() -> Result<PathBuf> {
    python::environment("python-venv", "python/tests/requirements.txt")
}

/// Creates the missing environments for the tests of the package in advance.
pub fn environments(peers: bool) -> Result<()> {
    environment()?;
    if peers {
        torch_packages()?;
        sources()?;
    }
    Ok(())
}

/// PyTorch and training libraries: the interpreter, and the folder of the packages.
fn torch_packages() -> Result<(PathBuf, PathBuf)> {
    python::with_packages("torch-packages", "python/tests/torch.txt")
}

/// Ray and Hugging Face datasets, which do not work from a folder on the path.
fn sources() -> Result<PathBuf> {
    python::environment_with_dependencies("package-sources", "python/tests/sources.txt")
}

/// Build profile of the wheel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    Debug,
    /// Release build without C code: enough if nothing is decoded.
    Plain,
    /// Release build, with libjpeg-turbo if it builds here.
    Fast,
}

fn wheel(python: &Path, how: Build) -> Result<PathBuf> {
    let folder = target("wheels");
    remove(&folder)?;
    let mut build = command(python, ["-m", "maturin", "build", "--quiet", "--manifest-path", "python/Cargo.toml"]);
    // `dist` decides which systems the wheel supports.
    build.args(["--compatibility", "linux", "--out"]).arg(&folder);
    if how != Build::Debug {
        build.arg("--release");
    }
    if how == Build::Fast {
        match tools::path() {
            Ok(path) => {
                build.args(["--features", "turbo"]).env("PATH", path);
            }
            Err(error) => println!("libjpeg-turbo does not build here, and the wheel lacks it: {error}"),
        }
    }
    run(&mut build)?;
    let found = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let wheels: Vec<_> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
    match wheels.as_slice() {
        [wheel] => Ok(wheel.clone()),
        _ => Err(format!("{}: {} wheels", folder.display(), wheels.len())),
    }
}

/// Task `package`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let full = arguments.flag("--full");
    arguments.end().and_then(|()| test(full))
}

/// The Python of the environment with the release package installed.
pub fn installed() -> Result<PathBuf> {
    installed_as(Build::Fast)
}

/// [`installed`] without libjpeg-turbo, which takes long to build.
pub fn installed_plain() -> Result<PathBuf> {
    installed_as(Build::Plain)
}

fn installed_as(how: Build) -> Result<PathBuf> {
    let python = environment()?;
    install(&python, &wheel(&python, how)?)?;
    Ok(python)
}

/// pip arguments that install a wheel.
const PIP: [&str; 7] = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"];

fn install(python: &Path, wheel: &Path) -> Result<()> {
    run(command(python, PIP).arg("--force-reinstall").arg(wheel))
}

/// Builds the wheel and runs python/tests against it. With `peers`, builds the release wheel and also runs the tests with PyTorch
/// and other libraries.
pub fn test(peers: bool) -> Result<()> {
    let python = environment()?;
    let wheel = wheel(&python, if peers { Build::Fast } else { Build::Debug })?;
    install(&python, &wheel)?;
    run(&mut command(&python, ["-m", "ruff", "check", "python"]))?;
    run(&mut command(&python, ["-m", "ruff", "format", "--quiet", "--check", "python"]))?;
    run(&mut command(&python, ["-m", "mypy", "--config-file", "python/pyproject.toml", "python/shardpack"]))?;
    run(&mut pytest(&python, &["python/tests"]))?;
    if !peers {
        println!("the package with PyTorch is tested with CI=true or --full");
        return Ok(());
    }
    let (torch, packages) = torch_packages()?;
    let site = target("python-site");
    remove(&site)?;
    run(command(&python, PIP).arg("--target").arg(&site).arg(&wheel))?;
    let path = std::env::join_paths([&site, &packages]).map_err(|error| format!("the target folder: {error}"))?;
    let with_torch = ["torch", "pages", "jax", "notebook"].map(|name| format!("python/tests/test_{name}.py"));
    run(pytest(&torch, &with_torch).env("PYTHONPATH", &path).env(INSTALLED, WITH_TORCH))?;
    // These have their own environments.
    for (peer, name) in [(python::tensorflow(), "tensorflow"), (python::dali(), "nvidia")] {
        match peer {
            Ok(peer) => {
                let mut pages = pytest(&peer, &["python/tests/test_pages.py", "-k", "coming-from"]);
                run(pages.env("PYTHONPATH", &path).env(INSTALLED, name))?;
            }
            Err(error) => println!("{name} does not install here, and its part of the pages is NOT run: {error}"),
        }
    }
    let sources = sources()?;
    let mut pages = pytest(&sources, &["python/tests/test_pages.py", "-k", "python.md"]);
    run(pages.env("PYTHONPATH", &site).env(INSTALLED, "datasets ray"))?;
    // Needs its own cluster.
    run(pytest(&sources, &["python/tests/test_ray.py"]).env("PYTHONPATH", &site).env(INSTALLED, "ray"))?;
    program(&python)
}

/// Variable that lists the libraries that the tests must find installed.
const INSTALLED: &str = "SHARDPACK_INSTALLED";
/// Libraries of the environment with PyTorch and of python/tests/torch.txt.
const WITH_TORCH: &str = "PIL accelerate grain h5py ipykernel jax jupyter_client lightning litdata lmdb streaming timm torch \
                          torchdata torchvision transformers webdataset";

/// Tests of the command line that also run with the package's program; the others can run with SHARDPACK_PROGRAM.
const OF_PROGRAM: [&str; 5] = ["inspect", "json", "pack", "terminal", "verify_shards"];

/// Runs the tests of the command line with the program that pip installed.
fn program(python: &Path) -> Result<()> {
    // Whole workspace: the features of a single package would recompile half of its crates.
    let names = OF_PROGRAM.map(|name| format!(" --test {name}")).concat();
    run_tests(&format!("--workspace{names}"), false, &[("SHARDPACK_PROGRAM", python.with_file_name("shardpack"))])
}

/// pytest with arguments `which`, run by the interpreter `python`.
fn pytest(python: &Path, which: &[impl AsRef<OsStr>]) -> Command {
    // Runs from the root: from python/, `import shardpack` would find the sources, which have no native part.
    let mut pytest = command(python, ["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    pytest.args(which);
    pytest
}
