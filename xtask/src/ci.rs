//! `test` and `check`: what a change has to pass.

use std::{
    path::PathBuf,
    process::Command,
    thread::{self, ScopedJoinHandle},
};

use crate::{
    Result,
    arguments::Arguments,
    command::{Steps, cargo, command, is_ci, is_there, output, read, root, run, target},
    docs, fresh, fuzz, licences, needs, package, prose, python, servers,
    test_programs::run_tests,
    tools,
    warm::Warm,
};

/// All that a change has to pass, in the order in which it is likely to fail.
pub fn test(mut arguments: Arguments) -> Result<()> {
    let is_ci = is_ci();
    let full = arguments.flag("--full");
    // CI runs the peers' readers, too; long steps are left to --full.
    let peers = full || is_ci;
    let fuzz_seconds = arguments.number("--fuzz-seconds")?.unwrap_or(5);
    arguments.end()?;

    needs::check(is_ci)?;
    let (mut steps, mut pythons) = (Steps::default(), Vec::new());
    let mut others = others(full, peers, fuzz_seconds).into_iter();
    // What is downloaded and unpacked is so while the compiler computes. Whatever fails, all are waited for: the next run
    // would find them at work.
    thread::scope(|scope| {
        let making = scope.spawn(|| self::pythons(peers));
        let licences = scope.spawn(|| licences::check(peers));
        steps.step("format", format)?;
        steps.step("prose", prose::check)?;
        if peers {
            steps.step("clippy", clippy)?;
        }
        steps.step("build of the tests", || run(&mut cargo("test --workspace --no-run")))?;
        while !making.is_finished()
            && let Some((name, step)) = others.next()
        {
            steps.step(name, step)?;
        }
        steps.step("licences", || joined(licences))?;
        steps.step("python", || joined(making).map(|made| pythons = made))
    })?;
    steps.step("test", || {
        let _warm = warmed(&mut pythons)?;
        run_tests("--workspace", true, &pythons)
    })?;
    steps.step("package", || package::test(peers))?;
    if full {
        steps.step("stores at the size of users", || {
            run(&mut cargo("test --release --test stores_all -- --ignored --nocapture"))
        })?;
    }
    others.try_for_each(|(name, step)| steps.step(name, step))?;
    steps.finish();
    Ok(())
}

/// Its name, and what does it.
type Step = (&'static str, Box<dyn FnOnce() -> Result<()>>);

/// What asks no Python: it may be done before the tests or after them.
fn others(full: bool, peers: bool, fuzz_seconds: u64) -> Vec<Step> {
    let mut others: Vec<Step> = vec![("docs/reference/cli.md", Box::new(docs::check))];
    if peers {
        others.push(("doc", Box::new(doc)));
        others.push(("minimum Rust version", Box::new(minimum_rust_version)));
    } else {
        println!(
            "clippy, rustdoc and the minimum Rust version are asked with CI=true or --full, the first two by `cargo xtask check` too"
        );
    }
    if !full {
        println!("the feature turbo, fuzzing and sweeps are done with --full only");
        return others;
    }
    let turbo = || match tools::path() {
        Err(error) => {
            println!("libjpeg-turbo does not build here, and its feature is NOT tested: {error}");
            Ok(())
        }
        Ok(path) => run_tests("--package shardpack-imaging --features turbo", true, &[("PATH", path.into())]),
    };
    others.extend::<[Step; 3]>([
        ("fuzz", Box::new(move || fuzz::all(fuzz_seconds, is_ci()))),
        ("test of turbo", Box::new(turbo)),
        ("a fresh machine", Box::new(fresh::all)),
    ]);
    others
}

/// What a thread comes to.
fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err("a panic".to_owned()))
}

/// The interpreters that the tests ask, by the variables that name them; and Slurm, nginx and object stores, which they find
/// themselves.
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

/// In place of those that take long to start, what asks one that is already there.
fn warmed(pythons: &mut [(&'static str, PathBuf)]) -> Result<Vec<Warm>> {
    let mut warm = Vec::new();
    for (name, python) in pythons {
        // Programs of mosaicml-streaming 0.13.0 that begin at once may pick the same name for what they share.
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

/// What needs no test to be run: format, clippy and rustdoc.
pub fn check() -> Result<()> {
    let mut steps = Steps::default();
    steps.step("format", format)?;
    steps.step("clippy", clippy)?;
    steps.step("doc", doc)?;
    steps.step("prose", prose::check)?;
    steps.finish();
    Ok(())
}

fn format() -> Result<()> {
    run(&mut cargo("fmt --all --check"))?;
    run(&mut cargo("fmt --all --check --manifest-path fuzz/Cargo.toml"))
}

fn clippy() -> Result<()> {
    run(&mut cargo("clippy --workspace --all-targets -- -D warnings"))?;
    // A workspace of its own, which is built with --full only: what it calls may have changed.
    let mut fuzz = cargo("clippy --quiet --manifest-path fuzz/Cargo.toml --target-dir");
    run(fuzz.arg(target("")).args(["--", "-D", "warnings"]))
}

/// Those of the libraries: in the two programs, doc comments are what --help prints, which is no Markdown.
fn doc() -> Result<()> {
    let libraries = "doc --workspace --no-deps --exclude shardpack --exclude xtask";
    run(cargo(libraries).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds everything with the oldest Rust that Cargo.toml promises.
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
        .find(|toolchain| is_there("rustup", &["run", toolchain, "rustc", "--version"]));
    let Some(toolchain) = toolchain else {
        println!("rustc is {current} and rustup has no {minimum}: the minimum was NOT tested here");
        return Ok(());
    };
    let mut check: Command = command("rustup", ["run", &toolchain, "cargo", "check", "--workspace", "--all-targets"]);
    // Cargo set these for the toolchain that runs this task.
    check.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    run(check.env("CARGO_TARGET_DIR", target("minimum-rust")))
}
