//! Tests the JPEG decoder for aarch64, in QEMU: at all its levels, its pixels are those of libjpeg-turbo.

use crate::{
    Result,
    command::{cargo, command, is_installed, run, target, typed},
    tools,
};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// The emulator, with the folder of the libraries of the linker's package.
const EMULATOR: [&str; 3] = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];

/// Builds the tests of the decoder and runs them. Without an emulator, prints a note; CI installs it.
///
/// # Errors
/// If a test fails, or CI cannot install the emulator.
pub fn test() -> Result<()> {
    tools::emulator()?;
    if !is_installed(EMULATOR[0], &["--version"]) || !is_installed(LINKER, &["--version"]) {
        println!(
            "no emulator of aarch64 is installed: the decoder is NOT tested for it\n  help: apt-get install {}",
            tools::EMULATOR.join(" ")
        );
        return Ok(());
    }
    run(&mut command("rustup", ["target", "add", TARGET]))?;
    let variable = |name: &str| format!("CARGO_TARGET_{}_{name}", TARGET.to_uppercase().replace('-', "_"));
    let mut tests = cargo(&format!("test --package shardpack-jpeg --target {TARGET} --target-dir"));
    tests.arg(target("arm")).env(variable("LINKER"), LINKER).env(variable("RUNNER"), EMULATOR.join(" "));
    println!("{}", typed(&tests));
    run(&mut tests)
}
