//! The program `lockgate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Started as the parent of a server, it guards that server.
    if let Some(code) = lockgate_upstream::guard(std::env::args_os()) {
        return code;
    }
    // Started in the place of a program that has to be confined, it becomes that program, or its
    // guard.
    lockgate_tools::confined(std::env::args_os()).unwrap_or_else(lockgate::cli::run)
}
