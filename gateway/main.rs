//! The program `lockgate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Started as the parent of a server process, this program is the server's guard.
    if let Some(code) = lockgate_upstream::guard(std::env::args_os()) {
        return code;
    }
    // Started in place of a program to confine, this program becomes that program or its guard.
    lockgate_tools::confined(std::env::args_os()).unwrap_or_else(lockgate::cli::run)
}
