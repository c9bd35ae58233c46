//! A program that only launches confined programs; the tests of this crate start theirs with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockgate_tools::confined(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
