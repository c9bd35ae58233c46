//! A program that is nothing but a guard of servers; the tests of this crate start theirs with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockgate_upstream::guard(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
