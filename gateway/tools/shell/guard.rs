//! The parent of a program that may start others. When the gateway ends, for any reason, the guard
//! kills the whole process group, which no process in it can leave. Only the thread that starts the
//! program is confined. The program inherits the confinement, and can access the rest of this
//! process neither by signals nor through `/proc`.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use rustix::process::{
    DumpableBehavior, Signal, kill_current_process_group, set_dumpable_behavior,
};

use super::confine::{self, CHILDREN, FAILED_EXIT_CODE, MODE, Plan};

/// Confines this process and becomes the program, if the command line requests it. Call before
/// anything else. Returns `None` if not requested, and an exit code on failure.
#[must_use]
pub fn confined(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1)? != MODE {
        return None;
    }
    let children = matches!(arguments.next(), Some(word) if word == CHILDREN);
    let Err(words) = if children { guard_program() } else { confine::become_program() };
    confine::write_last_words(&words);
    Some(ExitCode::from(FAILED_EXIT_CODE))
}

/// Starts the program, writes its wait status to the gateway as the four bytes of an `i32`, and
/// stays until the gateway kills the group or ends: processes left by the program are guarded, too.
/// Standard input is the socket to the gateway.
fn guard_program() -> Result<Infallible, String> {
    confine::close_inherited()?;
    let mut control = prepare().map_err(|error| failed(&error))?;
    // The gateway sends SIGTERM to the group, which includes this process.
    let _handlers = lockgate_upstream::outlive_signals().map_err(|error| failed(&error))?;
    let plan = confine::read_plan(true)?;
    start_confined(plan, &control).map_err(|error| failed(&error))?;
    wait_for_close(&mut control);
    let _ = kill_current_process_group(Signal::KILL);
    Err("the gateway is gone".into())
}

fn failed(error: &io::Error) -> String {
    format!("its guard failed: {error}")
}

/// Hardens this process, and returns the socket to the gateway.
fn prepare() -> io::Result<UnixStream> {
    rustix::thread::set_name(c"program-guard")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Runs the program from a confined thread. The current thread is not confined.
fn start_confined(plan: Plan, control: &UnixStream) -> io::Result<()> {
    let mut answer = control.try_clone()?;
    std::thread::Builder::new().name("confined".into()).spawn(move || {
        let status = run_program(&plan).unwrap_or_else(|words| {
            confine::write_last_words(&words);
            ExitStatus::from_raw(i32::from(FAILED_EXIT_CODE) << 8)
        });
        // Fails if the gateway is gone.
        let _ = answer.write_all(&status.into_raw().to_le_bytes());
    })?;
    Ok(())
}

/// Confines this thread, starts the program and waits for its end.
fn run_program(plan: &Plan) -> Result<ExitStatus, String> {
    confine::filter_calls(true)?;
    let mut program = confine::confine(plan)?
        .spawn()
        .map_err(|error| format!("{}: {error}", plan.program.display()))?;
    program.wait().map_err(|error| format!("the program's exit status is unknown: {error}"))
}

/// Waits until the gateway closes the socket. The gateway sends nothing after the plan.
fn wait_for_close(control: &mut UnixStream) {
    while control.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
}
