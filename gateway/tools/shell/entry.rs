//! The launcher mode of the gateway's executable: becomes a program of the shell, or its guard.

use std::ffi::OsString;
use std::process::ExitCode;

use super::confine::{self, CHILDREN, FAILED_EXIT_CODE, MODE};
use super::guard;

/// Confines this process and becomes the program, if the command line requests it. Call before
/// anything else. Returns `None` if not requested, and an exit code on failure.
#[must_use]
pub fn confined(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1)? != MODE {
        return None;
    }
    let children = matches!(arguments.next(), Some(word) if word == CHILDREN);
    let Err(words) = if children { guard::guard_program() } else { confine::become_program() };
    confine::write_last_words(&words);
    Some(ExitCode::from(FAILED_EXIT_CODE))
}
