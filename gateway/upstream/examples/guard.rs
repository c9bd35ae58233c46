//! A program that is only a guard of servers; the tests of this crate start their servers with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockgate_upstream::guard(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
