//! Runs commands from the root of the repository, and times the steps of a task.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::Result;

/// The root of the repository.
pub fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// `path` in cargo's target folder.
pub fn target(path: impl AsRef<Path>) -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(folder).join(path)
}

/// Path of the built command line; `profile` is `debug` or `release`.
pub fn shardpack(profile: &str) -> PathBuf {
    target(profile).join(format!("shardpack{}", std::env::consts::EXE_SUFFIX))
}

/// `program` with `arguments`.
pub fn command<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// `cargo` with `arguments`, separated by spaces.
pub fn cargo(arguments: &str) -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments.split_whitespace());
    smaller_in_ci(&mut cargo);
    cargo
}

/// Sets the profile of CI's debug builds for cargo, or for a program that runs cargo. Equal settings share the build of dependencies.
pub fn smaller_in_ci(build: &mut Command) {
    if is_ci() {
        // CI builds once. Incremental data takes as much disk as the build itself; so do symbols and line tables of more than a
        // hundred test programs. A panic still prints its line without them.
        build
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_PROFILE_DEV_STRIP", "symbols");
    }
}

/// [`cargo`] for the build of the tests. In CI, clippy compiles the workspace: lints and code come from one pass over the sources.
pub fn cargo_of_tests(arguments: &str) -> Command {
    let mut cargo = cargo(arguments);
    if is_ci() {
        // `cargo clippy` sets the same two variables, and separates its arguments by the same word.
        cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
    }
    cargo
}

/// Whether this is CI: a single run with nobody waiting.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// The command line as typed in a shell.
pub fn typed(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Runs a command; fails if the command fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("cannot run {}: {error}", typed(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", typed(command))) }
}

/// Returns the standard output of a command; fails if the command fails.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", typed(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}\n{}", typed(command), output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether `program` runs with `arguments` and succeeds.
pub fn is_installed(program: &str, arguments: &[&str]) -> bool {
    command(program, arguments).output().is_ok_and(|output| output.status.success())
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: cannot read: {error}", path.display()))
}

/// Writes a file, and creates its folder if missing.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| std::fs::write(path, bytes));
    written.map_err(|error| format!("{}: cannot write: {error}", path.display()))
}

/// Removes a file or a folder with its contents, if it exists.
pub fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: cannot remove: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The steps of a task: announces each step and lists all with their times at the end.
#[derive(Default)]
pub struct Steps {
    done: Vec<(String, f64)>,
}

impl Steps {
    /// Runs one step.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("== {name}");
        let start = Instant::now();
        work().map_err(|error| format!("{name}: {error}"))?;
        let seconds = start.elapsed().as_secs_f64();
        println!("== {name}: {seconds:.1} s");
        self.done.push((name.to_owned(), seconds));
        Ok(())
    }

    /// Lists the steps.
    pub fn finish(self) {
        println!("\nall steps passed:");
        for (name, seconds) in &self.done {
            println!("{seconds:>7.1} s  {name}");
        }
        println!("{:>7.1} s  in all", self.done.iter().map(|(_, seconds)| seconds).sum::<f64>());
    }
}
