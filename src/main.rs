//! The program `shardpack`. All code is in the library next to it, which Python uses too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(shardpack::main(std::env::args_os()))
}
