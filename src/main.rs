//! The program `shardpack`: all of it is in the library beside, so that Python has the same.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(shardpack::main(std::env::args_os()))
}
