//! The gateway's own program under another command line: it becomes a program of the shell, or
//! the guard of one.

use std::ffi::OsString;
use std::process::ExitCode;

use super::confine::{self, CHILDREN, FAILED, MODE};
use super::guard;

/// Confines this process and becomes the program, if the command line asks for it; call it before
/// anything else. Returns only when it was not asked, or failed.
#[must_use]
pub fn confined(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1)? != MODE {
        return None;
    }
    let children = matches!(arguments.next(), Some(word) if word == CHILDREN);
    let Err(words) = if children { guard::guard_program() } else { confine::become_program() };
    confine::write_last_words(&words);
    Some(ExitCode::from(FAILED))
}
