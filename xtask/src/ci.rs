//! Tasks that a change must pass: `test` and `check`.

use std::{
    path::PathBuf,
    process::Command,
    thread::{self, ScopedJoinHandle},
};

use crate::{
    Result,
    arguments::Arguments,
    arm, circles,
    command::{Steps, cargo, command, is_ci, is_installed, output, read, root, run, target},
    docs, fresh, fuzz, licences, needs, package, prose, python, servers, small_build,
    test_programs::{self, ALL},
    tools,
    warm::Warm,
};

/// Variable that makes the sweeps of tests take all points: `shardpack_testing::sweep`.
const FULL_SWEEPS: &str = "SHARDPACK_FULL_SWEEPS";

/// Runs every check of a change; steps that are likely to fail run first.
pub fn test(mut arguments: Arguments) -> Result<()> {
    let is_ci = is_ci();
    let full = arguments.flag("--full");
    // CI also runs the peers' readers; long steps run only with --full.
    let peers = full || is_ci;
    let fuzz_seconds = arguments.number("--fuzz-seconds")?.unwrap_or(5);
    arguments.end()?;

    needs::check(is_ci)?;
    let (mut steps, mut pythons, mut package) = (Steps::default(), Vec::new(), package::Jobs::default());
    let mut others = others(full, peers, fuzz_seconds).into_iter();
    // Downloads and unpacking overlap with compilation. After a failure all threads are joined, so that none still runs in the next
    // run.
    thread::scope(|scope| {
        let making = scope.spawn(|| self::pythons(peers));
        let licences = scope.spawn(|| licences::check(peers));
        steps.step("format", format)?;
        steps.step("prose", prose::check)?;
        steps.step("circles", circles::check)?;
        if peers && !is_ci {
            steps.step("clippy", clippy)?;
        }
        let build = if is_ci { "clippy and the build of the tests" } else { "build of the tests" };
        steps.step(build, package::build)?;
        while !making.is_finished()
            && let Some((name, step)) = others.next()
        {
            steps.step(name, step)?;
        }
        steps.step("licences", || joined(licences))?;
        steps.step("python", || joined(making).map(|made| pythons = made))
    })?;
    steps.step("package", || package::jobs(peers, full).map(|jobs| package = jobs))?;
    steps.step("test", || {
        let _warm = warmed(&mut pythons)?;
        if full {
            pythons.push((FULL_SWEEPS, "1".into()));
        }
        let mut jobs = test_programs::jobs(ALL, &pythons)?;
        jobs.push(test_programs::doc_job(ALL, &pythons));
        if !peers {
            jobs = test_programs::without_longest(jobs);
        }
        jobs.append(&mut package.own);
        test_programs::run_all(jobs)
    })?;
    if peers {
        steps.step("test of the package", || package::run_with_others(package.with_others, package.with_ray))?;
        steps.step("the program of the package", package::installed_program)?;
    }
    if full {
        steps.step("stores at the size of users", || {
            run(&mut cargo("test --release --test stores all:: -- --ignored --nocapture"))
        })?;
    }
    others.try_for_each(|(name, step)| steps.step(name, step))?;
    steps.finish();
    Ok(())
}

/// Name and action of a step.
type Step = (&'static str, Box<dyn FnOnce() -> Result<()>>);

/// Steps that need no Python: they may run before or after the tests.
fn others(full: bool, peers: bool, fuzz_seconds: u64) -> Vec<Step> {
    let mut others: Vec<Step> = vec![("docs/reference/cli.md", Box::new(docs::check))];
    if peers {
        others.push(("doc", Box::new(doc)));
        if is_ci() {
            others.push(("clippy of other builds", Box::new(clippy_of_other_builds)));
        }
        others.push(("minimum Rust version", Box::new(minimum_rust_version)));
    } else {
        println!(
            "clippy, rustdoc and the minimum Rust version are asked with CI=true or --full, the first two by `cargo xtask check` too"
        );
    }
    if !full {
        println!("fuzzing and sweeps are done with --full only");
        return others;
    }
    others.extend::<[Step; 4]>([
        ("test of a build without features", Box::new(small_build::test)),
        ("test for aarch64", Box::new(arm::test)),
        ("fuzz", Box::new(move || fuzz::all(fuzz_seconds, is_ci()))),
        ("a fresh machine", Box::new(fresh::all)),
    ]);
    others
}

/// The result of a thread.
fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err("a panic".to_owned()))
}

/// Prepares the interpreters of the tests and returns them with their environment variables. Also installs Slurm, nginx, Chromium and
/// object stores, which the tests find without variables.
fn pythons(peers: bool) -> Result<Vec<(&'static str, PathBuf)>> {
    tools::slurm()?;
    tools::nginx()?;
    tools::chromium()?;
    let mut pythons =
        vec![("SHARDPACK_PYTHON", python::peers()?), ("SHARDPACK_PYTHON_MANIFESTS", python::manifests()?)];
    let found = |who: &str, python: Result<PathBuf>| match python {
        Ok(python) => Some(python),
        Err(error) => {
            println!("{who} does not install here, and is NOT asked: {error}");
            None
        }
    };
    let sidecars = found("wids or datasets", python::sidecars());
    pythons.extend(sidecars.map(|python| ("SHARDPACK_PYTHON_SIDECARS", python)));
    // PyPI has wheels of these for some Pythons only; elsewhere pip compiles them, which needs Python's headers.
    match python::zstds() {
        Ok(zstds) => {
            let zstds = std::env::join_paths(&zstds).map_err(|error| format!("the target folder: {error}"))?;
            pythons.push(("SHARDPACK_PYTHON_ZSTD", zstds.into()));
        }
        Err(error) if is_ci() => return Err(error),
        Err(error) => println!(
            "the package zstd does not install here, and is NOT asked: {error}\n  help: apt-get install python3-dev"
        ),
    }
    package::environments(peers)?;
    if !peers {
        println!("object stores are tried with CI=true or --full, unless they are below target/tools");
        println!(
            "TensorFlow, MXNet, DALI, streaming and PyTorch are asked with CI=true or --full: they are some 10 GB"
        );
        return Ok(pythons);
    }
    servers::install();
    pythons.push(("SHARDPACK_PYTHON_TENSORFLOW", python::tensorflow()?));
    pythons.extend(found("MXNet", python::mxnet()).map(|python| ("SHARDPACK_PYTHON_MXNET", python)));
    pythons.extend(found("DALI", python::dali()).map(|python| ("SHARDPACK_PYTHON_DALI", python)));
    pythons.push(("SHARDPACK_PYTHON_STREAMING", python::streaming()?));
    Ok(pythons)
}

/// Replaces the interpreters that start slowly by warm ones.
fn warmed(pythons: &mut [(&'static str, PathBuf)]) -> Result<Vec<Warm>> {
    let mut warm = Vec::new();
    for (name, python) in pythons {
        // Concurrent programs of mosaicml-streaming 0.13.0 may pick the same name for their shared data.
        let (module, is_alone) = match *name {
            "SHARDPACK_PYTHON_TENSORFLOW" => ("tensorflow", false),
            "SHARDPACK_PYTHON_STREAMING" => ("streaming", true),
            _ => continue,
        };
        warm.push(Warm::start(python, module, is_alone)?);
        *python = warm[warm.len() - 1].python.clone();
    }
    Ok(warm)
}

/// Checks that run no tests: format, clippy, rustdoc, prose and circles of imports.
pub fn check() -> Result<()> {
    let mut steps = Steps::default();
    steps.step("format", format)?;
    steps.step("clippy", clippy)?;
    steps.step("doc", doc)?;
    steps.step("prose", prose::check)?;
    steps.step("circles", circles::check)?;
    steps.finish();
    Ok(())
}

fn format() -> Result<()> {
    run(&mut cargo("fmt --all --check"))?;
    run(&mut cargo("fmt --all --check --manifest-path fuzz/Cargo.toml"))
}

fn clippy() -> Result<()> {
    run(&mut cargo(&format!("clippy {ALL} --all-targets -- -D warnings")))?;
    clippy_of_other_builds()
}

/// Lints of builds that the tests do not have.
fn clippy_of_other_builds() -> Result<()> {
    run(&mut cargo("clippy --package shardpack --no-default-features -- -D warnings"))?;
    run(&mut cargo("clippy --package xtask -- -D warnings"))?;
    // fuzz/ is its own workspace, built only with --full; API changes could break it unnoticed.
    let mut fuzz = cargo("clippy --quiet --manifest-path fuzz/Cargo.toml --target-dir");
    run(fuzz.arg(target("")).args(["--", "-D", "warnings"]))
}

/// Checks rustdoc of the libraries. In the two programs, doc comments are the text of --help, which is not Markdown.
fn doc() -> Result<()> {
    let libraries = "doc --workspace --no-deps --exclude shardpack --exclude xtask";
    run(cargo(libraries).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds everything with the oldest Rust that Cargo.toml supports.
fn minimum_rust_version() -> Result<()> {
    let manifest = read(&root().join("Cargo.toml"))?;
    let minimum = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let minimum = minimum.ok_or("Cargo.toml states no rust-version")?.trim().trim_matches('"');
    let current = output(&mut command("rustc", ["--version"]))?;
    let current = current.split_whitespace().nth(1).unwrap_or_default();
    let numbers = |version: &str| -> Vec<u32> {
        version.split(['.', '-']).take(2).map(|number| number.parse().unwrap_or(0)).collect()
    };
    if numbers(current) < numbers(minimum) {
        return Err(format!("rustc is {current}, Cargo.toml says {minimum}"));
    }
    if numbers(current) == numbers(minimum) {
        println!("rustc {current} is the minimum: all steps before this one were done with it");
        return Ok(());
    }
    let toolchain = [format!("{minimum}.0"), minimum.to_owned()]
        .into_iter()
        .find(|toolchain| is_installed("rustup", &["run", toolchain, "rustc", "--version"]));
    let Some(toolchain) = toolchain else {
        println!("rustc is {current} and rustup has no {minimum}: the minimum was NOT tested here");
        return Ok(());
    };
    let mut check: Command = command("rustup", ["run", &toolchain, "cargo", "check", "--all-targets"]);
    check.args(ALL.split(' '));
    // Cargo set these variables for the toolchain that runs this task.
    check.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    run(check.env("CARGO_TARGET_DIR", target("minimum-rust")))
}
