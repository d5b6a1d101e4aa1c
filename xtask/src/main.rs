//! Tasks of this repository, run as `cargo xtask TASK`: the only task runner.
#![expect(clippy::print_stdout, reason = "a task says what it does")]
#![allow(clippy::disallowed_methods, reason = "no simulator runs tasks")]

mod arguments;
mod arm;
mod bench;
mod ci;
mod circles;
mod command;
mod count;
mod dist;
mod docs;
mod fixtures;
mod fresh;
mod fuzz;
mod licences;
mod needs;
mod package;
mod plot;
mod prose;
mod python;
mod random;
mod servers;
#[cfg(feature = "simulate")]
mod simulate;
mod small_build;
mod sources;
mod test_programs;
mod tools;
mod warm;

use std::process::ExitCode;

use arguments::Arguments;

/// Result of a task; the error is the message for the user.
type Result<T, E = String> = std::result::Result<T, E>;

/// Tasks of the feature `simulate`.
const SIMULATIONS: [&str; 3] = ["shuffle-quality", "training-order", "many-machines"];

const HELP: &str = "\
cargo xtask test [--fuzz-seconds N] [--full]   all that a change has to pass; sets up what it needs
cargo xtask check                              what runs no test: format, clippy, rustdoc, circles of imports, and the English of pages
cargo xtask package [--full]                   build the Python package and test it; --full: for use, and with PyTorch
cargo xtask fuzz [TARGET] [--seconds N]        fuzz one target or all of them
cargo xtask fuzz TARGET --replay FILE          run one input
cargo xtask bench [--quick] [--small K] [ROW…] measure; no ROW: all of them
cargo xtask shuffle-quality [--keep]           simulate how well epochs are shuffled, here and by other loaders
cargo xtask training-order [--seeds N]         train a small network on each order
cargo xtask many-machines [--keep]             simulate packing and training on many machines
cargo xtask docs [--check]                     write docs/reference/cli.md and json.schema.json
cargo xtask fixtures                           make the fixtures anew and compare
cargo xtask small-build                        the program without its default features
cargo xtask arm                                the JPEG decoder for aarch64, in QEMU
cargo xtask count                              lines of each crate without tests, and lines that tell URLs from folders
cargo xtask fresh [--first]                    both commands of the README in a root with nothing else; --first: packing alone
cargo xtask dist                               make what a release hands out, in target/dist, and try it in empty roots

  test: CI=true asks the readers of others too, and clippy, rustdoc and cargo-deny; --full all that, fuzzing and sweeps
  bench: --quick takes 3 rounds instead of 5, --rounds N takes N; --small K makes trees K times as small and leaves docs/ alone;
         rows: pack peers formats format-peers convert lmdb values rows selection resize cold slow verify read raw augment parts training
               training-peers loops samples waits stores buckets scale listing targets
         training, training-peers, waits: --photos FOLDER takes its JPEGs and leaves docs/ alone; --under WORDS puts them before each
               command that reads, as in --under 'taskset -c 0,1'
         --before PROGRAM compares with an earlier build in rows pack, cold, read, convert and stores, and leaves docs/ alone
  shuffle-quality: --keep prints and leaves docs/ alone; --samples --classes --ranks --workers --batch --sample-bytes --seed N
  many-machines: --keep prints and leaves docs/ alone, as do your own numbers, rates a second: --samples --sample-bytes --shard-bytes
         --cores --network --in-flight --walkers --start --read --write --of-one --opens --open-seconds --looks --look-seconds
         --looks-a-sample --shard-look-seconds N
  dist: --no-try only makes it, --only-try only tries what is there
  training-order: with fewer seeds than 20 it prints and leaves docs/ alone
";

/// Runs a task of the module `simulate`.
#[cfg(feature = "simulate")]
fn simulation(name: &str, arguments: Arguments) -> Result<()> {
    simulate::task(name, arguments)
}

/// Runs the build that has the module `simulate`.
#[cfg(not(feature = "simulate"))]
fn simulation(name: &str, arguments: Arguments) -> Result<()> {
    let mut cargo = command::cargo("run --quiet --package xtask --features simulate --");
    command::run(cargo.arg(name).args(arguments.rest()))
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_command_line();
    let result = match arguments.word().as_deref() {
        Some("test" | "ci") => ci::test(arguments),
        Some("check") => arguments.end().and_then(|()| ci::check()),
        Some("package") => package::task(arguments),
        Some("fuzz") => fuzz::task(arguments),
        Some("bench") => bench::task(arguments),
        Some(name) if SIMULATIONS.contains(&name) => simulation(name, arguments),
        Some("docs") => docs::task(arguments),
        Some("dist") => dist::task(arguments),
        Some("fresh") => fresh::task(arguments),
        Some("fixtures") => arguments.end().and_then(|()| fixtures::task()),
        Some("small-build") => arguments.end().and_then(|()| small_build::test()),
        Some("arm") => arguments.end().and_then(|()| arm::test()),
        Some("count") => arguments.end().and_then(|()| count::task()),
        Some("help" | "--help" | "-h") | None => {
            print!("{HELP}");
            Ok(())
        }
        Some(other) => Err(format!("no task {other:?}\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
