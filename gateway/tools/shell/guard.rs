//! The parent of a program that may start others. It kills the whole process group, which nothing
//! in it can leave, when the gateway is gone, however the gateway ended. Only the thread that
//! starts the program is confined: the program inherits that, and reaches the rest of this process
//! neither with signals nor through `/proc`.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{
    DumpableBehavior, Signal, kill_current_process_group, set_dumpable_behavior,
};

use super::confine::{self, FAILED};
use super::plan::Plan;

/// Starts the program, writes its wait status to the gateway, in the four bytes of an `i32`, and
/// stays until the gateway kills the group or is gone: what the program left behind is guarded too.
/// Standard input is the socket to the gateway.
pub(super) fn guard_program() -> Result<Infallible, String> {
    let failed = |error: io::Error| format!("its guard failed: {error}");
    confine::close_inherited()?;
    rustix::thread::set_name(c"program-guard").map_err(|error| failed(error.into()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| failed(error.into()))?;
    let control = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let mut control = UnixStream::from(control);
    // The gateway asks the group to end, to which this process belongs.
    let _handlers = lockgate_upstream::outlive_signals().map_err(failed)?;
    let plan = confine::read_plan(true)?;
    let mut answer = control.try_clone().map_err(failed)?;
    let run = move || {
        let status = run_program(&plan).unwrap_or_else(|words| {
            confine::write_last_words(&words);
            ExitStatus::from_raw(i32::from(FAILED) << 8)
        });
        // The gateway may be gone.
        let _ = answer.write_all(&status.into_raw().to_le_bytes());
    };
    std::thread::Builder::new().name("confined".into()).spawn(run).map_err(failed)?;
    wait_for_close(&mut control);
    let _ = kill_current_process_group(Signal::KILL);
    Err("the gateway is gone".into())
}

/// Confines this thread, starts the program from it and waits for the program's end.
fn run_program(plan: &Plan) -> Result<ExitStatus, String> {
    confine::filter_calls(true)?;
    let started = confine::confine(plan)?.spawn();
    let mut program = started.map_err(|error| format!("{}: {error}", plan.program.display()))?;
    program.wait().map_err(|error| format!("the program's end is not known: {error}"))
}

/// The gateway writes nothing after the plan.
fn wait_for_close(control: &mut UnixStream) {
    while control.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
}
