//! Between the gateway and each server that it starts stands the gateway's own program once more,
//! as the server's parent: it ends the server and everything that the server started, also what
//! left its process group, when the gateway says so and when the gateway is gone, however it ended.
//! The server's streams do not pass through it. It is no command for people.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process,
    kill_process_group, wait, waitid,
};
use tokio::signal::unix::{SignalKind, signal};

use super::plan::Plan;

/// The first argument that asks for this mode, and the name that the process shows: one that who
/// ends all processes of the gateway's name does not meet.
pub(super) const ROLE: &str = "guard-server";
pub(super) const NAME: &str = "server-guard";
/// What the gateway may order: to ask the server to end, and to end all of it at once.
pub(super) const TERMINATE: u8 = b'T';
pub(super) const KILL: u8 = b'K';
/// How the first answer begins: the server's process id follows, or the error of its start.
pub(super) const STARTED: u8 = b'S';
pub(super) const FAILED: u8 = b'F';
/// Bytes of that answer. The second and last one is the server's wait status, in the four bytes of
/// an `i32`.
pub(super) const ANSWER: usize = 5;

/// How long a server may take to end by itself when the gateway is gone.
const GRACE: Duration = Duration::from_secs(1);
/// How long descendants are killed that start others meanwhile, or that the kernel holds.
const LONGEST_END: Duration = Duration::from_secs(2);
/// Between two looks for them.
const PAUSE: Duration = Duration::from_millis(2);

/// Guards a server, if the command line asks for it; call it before anything else. Returns only
/// when it was not asked, or when nothing of the server is left.
#[must_use]
pub fn guard(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.nth(1)? != ROLE {
        return None;
    }
    match guard_server() {
        Ok(code) => Some(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "lockgate: the guard of a server failed: {error}");
            Some(ExitCode::FAILURE)
        }
    }
}

fn guard_server() -> io::Result<ExitCode> {
    // Standard input is the way to the gateway; it ends with the gateway.
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::thread::set_name(c"server-guard")?;
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let _handlers = outlive_signals()?;
    let (plan, stdin) = receive_plan(&control)?;
    let server = match start_server(&plan, stdin) {
        Ok(server) => server,
        Err(error) => {
            let code = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            send_answer(&mut control, FAILED, code)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    send_answer(&mut control, STARTED, server.as_raw_nonzero().get())?;
    drop_streams()?;
    let running = Arc::new(Mutex::new(true));
    let orders = control.try_clone()?;
    let obeyed = Arc::clone(&running);
    std::thread::Builder::new()
        .name("orders".into())
        .spawn(move || obey(orders, server, &obeyed))?;
    let status = wait_for(server, &running)?;
    end_descendants();
    // Whoever asked may be gone.
    let _ = control.write_all(&status.as_raw().to_le_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Keeps this process alive when its group is asked to end: handlers that do nothing, because a
/// signal that is ignored would be ignored by what the process starts too. Keep the result.
///
/// # Errors
/// The kernel has no room for a handler.
pub fn outlive_signals() -> io::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let asking = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let others = [SignalKind::user_defined1(), SignalKind::user_defined2(), SignalKind::alarm()];
    for kind in asking.into_iter().chain(others) {
        drop(signal(kind)?);
    }
    drop(entered);
    Ok(runtime)
}

/// What to start, and what the server reads from.
fn receive_plan(mut control: &UnixStream) -> io::Result<(Plan, OwnedFd)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut length = [0; 4];
    recvmsg(control, &mut [IoSliceMut::new(&mut length)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut stdin = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            stdin = descriptors.next();
        }
    }
    let mut text = vec![0; u32::from_le_bytes(length) as usize];
    control.read_exact(&mut text)?;
    match (Plan::decode(&text), stdin) {
        (Some(plan), Some(stdin)) => Ok((plan, stdin)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "starts the server that the gateway was configured with"
)]
fn start_server(plan: &Plan, stdin: OwnedFd) -> io::Result<Pid> {
    let mut command = Command::new(&plan.command);
    command
        .args(&plan.arguments)
        .env_clear()
        .envs(plan.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::from(stdin)).process_group(0);
    if let Some(cwd) = &plan.cwd {
        command.current_dir(cwd);
    }
    let server = command.spawn()?;
    if let Ok(id) = i32::try_from(server.id())
        && let Some(id) = Pid::from_raw(id)
    {
        return Ok(id);
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Lets go of the streams, so that they end when the server ends them.
fn drop_streams() -> io::Result<()> {
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

fn send_answer(control: &mut UnixStream, kind: u8, number: i32) -> io::Result<()> {
    let mut answer = vec![kind];
    answer.extend_from_slice(&number.to_le_bytes());
    control.write_all(&answer)
}

/// Does what the gateway orders, until it orders the end or is gone. What the server leaves behind
/// when it ends is ended by whoever waits for it.
fn obey(mut control: UnixStream, server: Pid, running: &Mutex<bool>) {
    loop {
        let mut order = [0];
        match control.read(&mut order) {
            Ok(1) if order == [TERMINATE] => signal_server(server, Signal::TERM, running),
            Ok(1) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => {
                signal_server(server, Signal::TERM, running);
                std::thread::sleep(GRACE);
                break;
            }
        }
    }
    signal_server(server, Signal::KILL, running);
}

/// To the server and the rest of its group. The number is the server's as long as nobody has waited
/// for it.
fn signal_server(server: Pid, signal: Signal, running: &Mutex<bool>) {
    let running = running.lock();
    if *running && kill_process_group(server, signal).is_err() {
        // It has left its group.
        let _ = kill_process(server, signal);
    }
}

/// Waits for the server, and for orphans on the way.
fn wait_for(server: Pid, running: &Mutex<bool>) -> io::Result<WaitStatus> {
    loop {
        // It is looked at first and taken away under the lock, so that nobody signals a number that
        // is free again.
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut running = running.lock();
        while let Ok(Some((ended, status))) = wait(WaitOptions::NOHANG) {
            if ended == server {
                *running = false;
                return Ok(status);
            }
        }
    }
}

/// Kills what the server left behind. Only own children are killed, whose numbers are theirs until
/// they are waited for; what those started becomes an own child then.
fn end_descendants() {
    let began = Instant::now();
    while began.elapsed() < LONGEST_END {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => continue,
            Err(Errno::CHILD) => return,
            _ => {}
        }
        for child in own_children() {
            let _ = kill_process(child, Signal::KILL);
        }
        std::thread::sleep(PAUSE);
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the kernel's list of processes: who is left of the server"
)]
fn own_children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get().to_string();
    let mut children = Vec::new();
    let Ok(processes) = std::fs::read_dir("/proc") else { return children };
    for entry in processes.flatten() {
        let Some(id) = parse_pid(&entry.file_name()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name of the program, in brackets, may hold anything; after it come the state and the
        // parent.
        let Some((_, after)) = stat.rsplit_once(')') else { continue };
        if after.split_whitespace().nth(1) == Some(own.as_str()) {
            children.push(id);
        }
    }
    children
}

fn parse_pid(name: &OsStr) -> Option<Pid> {
    Pid::from_raw(name.to_str()?.parse().ok()?)
}
