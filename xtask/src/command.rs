//! Commands, all run from the root of the repository, and the steps of a task with their times.

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
    if is_ci() {
        // What makes the next build sooner takes as much of the disk as this one, which is the last. So do names and lines of more than
        // a hundred test programs, without which a panic still says its line.
        cargo
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_PROFILE_DEV_STRIP", "symbols");
    }
    cargo
}

/// Whether a machine runs this once, and nobody waits.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// A command as one would type it.
pub fn typed(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Runs a command; fails if it does.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("cannot run {}: {error}", typed(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", typed(command))) }
}

/// What a command prints; fails if it does.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", typed(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}\n{}", typed(command), output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether `program --version` runs.
pub fn is_there(program: &str, arguments: &[&str]) -> bool {
    command(program, arguments).output().is_ok_and(|output| output.status.success())
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: cannot read: {error}", path.display()))
}

/// Writes a file, and its folder if need be.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| std::fs::write(path, bytes));
    written.map_err(|error| format!("{}: cannot write: {error}", path.display()))
}

/// Removes a file or folder with all that is in it, if it is there.
pub fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: cannot remove: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The steps of a task, each announced, and at the end listed with its time.
#[derive(Default)]
pub struct Steps {
    done: Vec<(String, f64)>,
}

impl Steps {
    /// Does one step.
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
