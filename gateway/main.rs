//! The program `lockgate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockgate::cli::run()
}
