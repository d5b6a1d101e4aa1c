//! The Python package: a wheel, and its tests against the wheel that is installed.
//!
//! Holds at all times: what is tested is what pip installs, in an environment that has nothing of the sources.

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

/// The tools that make the package, and those that test it.
fn environment() -> Result<PathBuf> {
    python::environment("python-venv", "python/tests/requirements.txt")
}

/// Makes what the tests of the package need, if it is not there: they find it made.
pub fn environments(peers: bool) -> Result<()> {
    environment()?;
    if peers {
        torch_packages()?;
        sources()?;
    }
    Ok(())
}

/// PyTorch with what trains with it: the interpreter, and the folder of the packages.
fn torch_packages() -> Result<(PathBuf, PathBuf)> {
    python::with_packages("torch-packages", "python/tests/torch.txt")
}

/// Ray and Hugging Face datasets, which do not work from a folder on the path.
fn sources() -> Result<PathBuf> {
    python::environment_with_dependencies("package-sources", "python/tests/sources.txt")
}

/// How the wheel is built.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    Debug,
    /// For use, but without C: enough where nothing is decoded.
    Plain,
    /// For use, with libjpeg-turbo if that builds here.
    Fast,
}

fn wheel(python: &Path, how: Build) -> Result<PathBuf> {
    let folder = target("wheels");
    remove(&folder)?;
    let mut build = command(python, ["-m", "maturin", "build", "--quiet", "--manifest-path", "python/Cargo.toml"]);
    // Which systems it is for is a matter of `dist`.
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

/// `package`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let full = arguments.flag("--full");
    arguments.end().and_then(|()| test(full))
}

/// The Python of the environment that has the package, as it is for use.
pub fn installed() -> Result<PathBuf> {
    installed_as(Build::Fast)
}

/// The same without libjpeg-turbo, which takes long to build.
pub fn installed_plain() -> Result<PathBuf> {
    installed_as(Build::Plain)
}

fn installed_as(how: Build) -> Result<PathBuf> {
    let python = environment()?;
    install(&python, &wheel(&python, how)?)?;
    Ok(python)
}

/// Words of pip that put a wheel somewhere.
const PIP: [&str; 7] = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"];

fn install(python: &Path, wheel: &Path) -> Result<()> {
    run(command(python, PIP).arg("--force-reinstall").arg(wheel))
}

/// Builds the wheel and runs python/tests against it; if `peers`, the wheel as it is for use, and those with PyTorch and the like as well.
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
    // These have environments of their own.
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
    // A cluster of its own.
    run(pytest(&sources, &["python/tests/test_ray.py"]).env("PYTHONPATH", &site).env(INSTALLED, "ray"))?;
    program(&python)
}

/// Tells the tests what has to be there.
const INSTALLED: &str = "SHARDPACK_INSTALLED";
/// What the environment with PyTorch has, and python/tests/torch.txt.
const WITH_TORCH: &str = "PIL accelerate grain h5py ipykernel jax jupyter_client lightning litdata lmdb streaming timm torch \
                          torchdata torchvision transformers webdataset";

/// Tests of the command line that are run with the program of the package too; the others may be, with SHARDPACK_PROGRAM.
const OF_PROGRAM: [&str; 5] = ["inspect", "json", "pack", "terminal", "verify_shards"];

/// The tests of the command line, with the program that pip has installed.
fn program(python: &Path) -> Result<()> {
    // Of the whole workspace: with the features of one package alone, half of its crates would be compiled anew.
    let names = OF_PROGRAM.map(|name| format!(" --test {name}")).concat();
    run_tests(&format!("--workspace{names}"), false, &[("SHARDPACK_PROGRAM", python.with_file_name("shardpack"))])
}

/// pytest of `which`, with the interpreter `python`.
fn pytest(python: &Path, which: &[impl AsRef<OsStr>]) -> Command {
    // The folder that Python is started in is no package: python/shardpack has no native part.
    let mut pytest = command(python, ["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    pytest.args(which);
    pytest
}
