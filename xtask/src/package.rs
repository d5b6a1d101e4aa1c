//! Builds the Python package as a wheel and runs its tests against the installed wheel.
//!
//! Tests run against the package that pip installs, in an environment without the sources.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use crate::{
    Result,
    arguments::Arguments,
    command::{cargo_of_tests, command, remove, run, smaller_in_ci, target, typed},
    python,
    test_programs::{self, ALL, Job, run_all, run_at_a_time},
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

/// Builds the tests and, with the same features, all that they and the debug wheel need.
pub fn build() -> Result<()> {
    run(&mut cargo_of_tests(&format!("build {ALL} --lib --bins --tests --examples")))
}

/// Build profile of the wheel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    /// The library of the tests' build, with the features of the workspace; maturin has no part in it.
    Debug,
    /// maturin's debug build: a tenth of the time of a release.
    Unoptimized,
    Release,
}

fn wheel(python: &Path, how: Build) -> Result<PathBuf> {
    let folder = target("wheels");
    remove(&folder)?;
    if how == Build::Debug {
        build()?;
        let library = target("debug").join("lib_native.so");
        run(command(python, ["xtask/src/debug_wheel.py"]).arg(library).arg(env!("CARGO_PKG_VERSION")).arg(&folder))?;
    } else {
        maturin(python, how, &folder)?;
    }
    let found = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let wheels: Vec<_> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
    match wheels.as_slice() {
        [wheel] => Ok(wheel.clone()),
        _ => Err(format!("{}: {} wheels", folder.display(), wheels.len())),
    }
}

/// Builds a wheel in `folder`.
fn maturin(python: &Path, how: Build, folder: &Path) -> Result<()> {
    let mut build = command(python, ["-m", "maturin", "build", "--quiet", "--manifest-path", "python/Cargo.toml"]);
    smaller_in_ci(&mut build);
    // `dist` decides which systems the wheel supports.
    let profile = if how == Build::Unoptimized { "dev" } else { "release" };
    build.args(["--compatibility", "linux", "--profile", profile, "--out"]).arg(folder);
    run(&mut build)
}

/// The Python of the environment with the release package installed.
pub fn installed() -> Result<PathBuf> {
    let python = environment()?;
    install(&python, &wheel(&python, Build::Release)?)?;
    Ok(python)
}

/// pip arguments that install a wheel.
const PIP: [&str; 7] = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"];

fn install(python: &Path, wheel: &Path) -> Result<()> {
    run(command(python, PIP).arg("--force-reinstall").arg(wheel))
}

/// Task `package`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let full = arguments.flag("--full");
    arguments.end()?;
    let Jobs { own, with_others, with_ray } = jobs(full, full)?;
    run_all(own)?;
    if full { run_with_others(with_others, with_ray).and_then(|()| installed_program()) } else { Ok(()) }
}

/// The jobs of the package's tests.
#[derive(Default)]
pub struct Jobs {
    /// Without other libraries.
    pub own: Vec<Job>,
    /// With PyTorch, JAX and others, which may use all cores.
    pub with_others: Vec<Job>,
    /// With Ray, which has time limits.
    pub with_ray: Vec<Job>,
}

/// Runs the tests with other libraries: two at a time, and those with Ray alone.
pub fn run_with_others(with_others: Vec<Job>, with_ray: Vec<Job>) -> Result<()> {
    run_at_a_time(2, with_others)?;
    run_at_a_time(1, with_ray)
}

/// Builds the wheel, installs it, checks the sources, and returns the jobs that run python/tests against it. With `peers`, maturin builds
/// the wheel, and the tests with PyTorch and other libraries are added; with `full`, it is the release wheel.
pub fn jobs(peers: bool, full: bool) -> Result<Jobs> {
    let python = environment()?;
    let how = match (full, peers) {
        (true, _) => Build::Release,
        (false, true) => Build::Unoptimized,
        (false, false) => Build::Debug,
    };
    let wheel = wheel(&python, how)?;
    install(&python, &wheel)?;
    run(&mut command(&python, ["-m", "ruff", "check", "python"]))?;
    run(&mut command(&python, ["-m", "ruff", "format", "--quiet", "--check", "python"]))?;
    run(&mut command(&python, ["-m", "mypy", "--config-file", "python/pyproject.toml", "python/shardpack"]))?;
    let mut jobs = Jobs { own: alone(&python, peers), ..Jobs::default() };
    if !peers {
        println!("the package with PyTorch, and the code of its pages, are tested with CI=true or --full");
        return Ok(jobs);
    }
    let (torch, packages) = torch_packages()?;
    let site = target("python-site");
    remove(&site)?;
    run(command(&python, PIP).arg("--target").arg(&site).arg(&wheel))?;
    let path = std::env::join_paths([&site, &packages]).map_err(|error| format!("the target folder: {error}"))?;
    let mut add = |python: &Path, which: &[&str], path: &OsStr, installed: &str| {
        let mut job = pytest(python, which);
        job.command.env("PYTHONPATH", path).env(INSTALLED, installed);
        let has_ray = installed.split(' ').any(|name| name == "ray");
        if has_ray { jobs.with_ray.push(job) } else { jobs.with_others.push(job) }
    };
    for name in ["torch", "pages", "jax", "notebook"] {
        add(&torch, &[&format!("python/tests/test_{name}.py")], &path, WITH_TORCH);
    }
    // These have their own environments.
    for (peer, name) in [(python::tensorflow(), "tensorflow"), (python::dali(), "nvidia")] {
        match peer {
            Ok(peer) => add(&peer, &["python/tests/test_pages.py", "-k", "coming-from"], &path, name),
            Err(error) => println!("{name} does not install here, and its part of the pages is NOT run: {error}"),
        }
    }
    add(&torch, &["python/tests/test_examples.py", "-k", "molecules"], &path, "lmdb");
    add(&torch, &["python/tests/test_litdata.py"], &path, "litdata");
    let sources = sources()?;
    add(&sources, &["python/tests/test_pages.py", "-k", "python.md"], site.as_os_str(), "datasets ray");
    add(&torch, &["python/tests/test_tables.py", "-k", "torch"], &path, "torch");
    for name in ["ragged", "cropped", "augment"] {
        add(&torch, &[&format!("python/tests/test_{name}.py")], &path, "torch");
    }
    add(
        &sources,
        &["python/tests/test_tables.py", "-k", "hugging_face or pandas"],
        site.as_os_str(),
        "datasets pandas",
    );
    // Needs its own cluster.
    add(&sources, &["python/tests/test_ray.py"], site.as_os_str(), "ray");
    Ok(jobs)
}

/// The jobs of python/tests in the environment without other libraries: the longest files apart, and all other files.
fn alone(python: &Path, has_pages: bool) -> Vec<Job> {
    let files = [LOADER, PAGES].map(|name| format!("python/tests/{name}"));
    let ignored = files.each_ref().map(|file| format!("--ignore={file}"));
    let rest = std::iter::once("python/tests").chain(ignored.iter().map(String::as_str)).collect::<Vec<_>>();
    let apart = files.iter().filter(|file| has_pages || !file.ends_with(PAGES));
    apart.map(|file| pytest(python, &[file])).chain([pytest(python, &rest)]).collect()
}

/// Test files that take longest.
const LOADER: &str = "test_loader.py";
const PAGES: &str = "test_pages.py";

/// Variable that lists the libraries that the tests must find installed.
const INSTALLED: &str = "SHARDPACK_INSTALLED";
/// Libraries of the environment with PyTorch and of python/tests/torch.txt.
const WITH_TORCH: &str = "PIL accelerate grain h5py ipykernel jax jupyter_client lightning litdata lmdb streaming timm torch \
                          torchdata torchvision transformers webdataset";

/// Modules of the tests that also run with the program of the package; the others can run with SHARDPACK_PROGRAM.
const OF_PROGRAM: [&str; 5] = ["cli::inspect", "cli::json", "cli::terminal", "pack::pack", "pack::verify_shards"];

/// Runs tests of the command line with the program that pip installed.
pub fn installed_program() -> Result<()> {
    let program = environment()?.with_file_name("shardpack");
    // Whole workspace: the features of a single package would recompile half of its crates.
    let mut jobs = test_programs::jobs(&format!("{ALL} --test cli --test pack"), &[("SHARDPACK_PROGRAM", program)])?;
    jobs.retain(|job| OF_PROGRAM.contains(&job.key.as_str()));
    if jobs.len() != OF_PROGRAM.len() {
        return Err(format!("not all of {} are modules of tests", OF_PROGRAM.join(", ")));
    }
    run_all(jobs)
}

/// The job that runs pytest with arguments `which` and the interpreter `python`.
fn pytest(python: &Path, which: &[&str]) -> Job {
    // Runs from the root: from python/, `import shardpack` would find the sources, which have no native part.
    let mut command = command(python, ["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    command.args(which);
    Job { key: format!("python::{}", which.join(" ")), name: typed(&command), command }
}
