//! The guard: the gateway's own program, run as the parent of each server that it starts. It kills
//! the server and all descendants, including those that left the process group, on the gateway's
//! order or when the gateway is gone for any reason. The server's streams do not pass through it.
//! Not meant to be run by people.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, kill_process,
    kill_process_group, wait, waitid, waitpgid,
};
use tokio::signal::unix::{SignalKind, signal};

/// The first argument that selects this mode, and the displayed process name, which differs from
/// the gateway's so that killing by name spares the guard.
pub(super) const ROLE: &str = "guard-server";
pub(super) const NAME: &str = "server-guard";
/// Orders of the gateway: send SIGTERM to the server, or kill all descendants at once.
pub(super) const TERMINATE_ORDER: u8 = b'T';
pub(super) const KILL_ORDER: u8 = b'K';
/// The kind of the first answer, followed by the server's process id or the error of its start.
pub(super) const STARTED_ANSWER: u8 = b'S';
pub(super) const FAILED_ANSWER: u8 = b'F';
/// Length of that answer in bytes. The second and last answer is the server's wait status, in the
/// four bytes of an `i32`.
pub(super) const ANSWER_BYTES: usize = 5;

/// Time for a server to exit by itself when the gateway is gone.
const EXIT_GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Longest time spent killing descendants that keep forking or that the kernel holds.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two scans for descendants.
const SCAN_INTERVAL: Duration = Duration::from_millis(2);

/// Runs as a guard if the command line requests it. Call it before anything else. Returns only if
/// it was not requested, or when no process of the server is left.
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
    // Standard input is the socket to the gateway; it ends with the gateway.
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::thread::set_name(c"server-guard")?;
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let _handlers = outlive_signals()?;
    let (plan, stdin) = receive_plan(&control)?;
    let server = match start_server(&plan, stdin) {
        Ok(server) => server,
        Err(error) => {
            let code = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            send_answer(&mut control, FAILED_ANSWER, code)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    send_answer(&mut control, STARTED_ANSWER, server.as_raw_nonzero().get())?;
    drop_streams()?;
    let running = Arc::new(Mutex::new(true));
    let orders = control.try_clone()?;
    let obeyed = Arc::clone(&running);
    std::thread::Builder::new()
        .name("orders".into())
        .spawn(move || obey(orders, server, &obeyed))?;
    let status = wait_for(server, &running)?;
    end_descendants();
    // The gateway may be gone.
    let _ = control.write_all(&status.as_raw().to_le_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Keeps this process alive when its group is signalled. Installs handlers without effect, because
/// ignored signals would be inherited by child processes. Keep the result alive.
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

/// Releases the standard streams, so that they end with the server's copies.
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

/// Executes the gateway's orders until it orders the end or is gone. Descendants that outlive the
/// server are killed by the thread that waits for it.
fn obey(mut control: UnixStream, server: Pid, running: &Mutex<bool>) {
    loop {
        let mut order = [0];
        match control.read(&mut order) {
            Ok(1) if order == [TERMINATE_ORDER] => signal_server(server, Signal::TERM, running),
            Ok(1) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => {
                signal_server(server, Signal::TERM, running);
                std::thread::sleep(EXIT_GRACE_PERIOD);
                break;
            }
        }
    }
    signal_server(server, Signal::KILL, running);
}

/// Signals the server's process group. Its id is valid until the server has been reaped.
fn signal_server(server: Pid, signal: Signal, running: &Mutex<bool>) {
    let running = running.lock();
    if *running && kill_process_group(server, signal).is_err() {
        // It has left its group.
        let _ = kill_process(server, signal);
    }
}

/// Waits for the server, reaping orphans on the way.
fn wait_for(server: Pid, running: &Mutex<bool>) -> io::Result<WaitStatus> {
    loop {
        // Checks first and reaps under the lock, so that a reused process id is never signalled.
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

/// Kills the remaining descendants. Only direct children are killed, because their ids are valid
/// until they are reaped; the guard then adopts their own children.
fn end_descendants() {
    let began = Instant::now();
    while began.elapsed() < KILL_TIMEOUT {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => continue,
            Err(Errno::CHILD) => return,
            _ => {}
        }
        for child in own_children() {
            let _ = kill_process(child, Signal::KILL);
        }
        std::thread::sleep(SCAN_INTERVAL);
    }
}

#[allow(clippy::disallowed_methods, reason = "reads the kernel's list of processes")]
fn own_children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get().to_string();
    let mut children = Vec::new();
    let Ok(processes) = std::fs::read_dir("/proc") else { return children };
    for entry in processes.flatten() {
        let Some(id) = parse_pid(&entry.file_name()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The program name, in parentheses, may contain anything; the state and the parent follow.
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

/// A program with its complete environment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) command: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) cwd: Option<PathBuf>,
}

impl Plan {
    /// Returns `None` if a field contains a NUL, which no program can be started with.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let cwd = self.cwd.as_ref().map_or_else(|| OsStr::new(""), |cwd| cwd.as_os_str());
        let count = self.arguments.len().to_string();
        let mut fields = vec![self.command.as_bytes(), cwd.as_bytes(), count.as_bytes()];
        fields.extend(self.arguments.iter().map(|argument| argument.as_bytes()));
        for (name, value) in &self.environment {
            fields.extend([name.as_bytes(), value.as_bytes()]);
        }
        if fields.iter().any(|field| field.contains(&0)) { None } else { Some(fields.join(&0)) }
    }

    pub(super) fn decode(text: &[u8]) -> Option<Self> {
        let mut fields =
            text.split(|byte| *byte == 0).map(|field| OsString::from_vec(field.to_vec()));
        let command = fields.next()?;
        let cwd = fields.next().filter(|cwd| !cwd.is_empty()).map(PathBuf::from);
        let count: usize = fields.next()?.to_str()?.parse().ok()?;
        let arguments: Vec<OsString> = fields.by_ref().take(count).collect();
        if arguments.len() < count {
            return None;
        }
        let mut environment = Vec::new();
        while let Some(name) = fields.next() {
            environment.push((name, fields.next()?));
        }
        Some(Self { command, arguments, environment, cwd })
    }
}

#[cfg(test)]
mod tests;

/// Number of attempts to reap killed descendants that became children of the gateway.
const MAX_REAP_ATTEMPTS: usize = 100;
const REAP_INTERVAL: Duration = Duration::from_millis(5);

/// A process group, killed on drop.
#[derive(Debug)]
pub struct Group {
    id: Option<Pid>,
    /// The group id is valid until the leader has been waited for.
    live: Mutex<bool>,
}

impl Group {
    /// Creates the group of a process that was started as its leader.
    pub fn new(leader: u32) -> Self {
        let id = i32::try_from(leader).ok().and_then(Pid::from_raw);
        Self { id, live: Mutex::new(true) }
    }

    /// Sends a signal to all members.
    pub fn signal(&self, signal: Signal) {
        let live = self.live.lock();
        if *live && let Some(id) = self.id {
            // No such group: it has ended on its own.
            let _ = kill_process_group(id, signal);
        }
    }

    /// Kills the remaining members for the last time. Call it when the leader has been waited for.
    pub fn finish(&self) {
        self.signal(Signal::KILL);
        *self.live.lock() = false;
    }

    /// Reaps killed descendants. They become children of the gateway only if it adopts orphans,
    /// like the first process of a container, and then no other process reaps them.
    pub async fn reap(&self) {
        let Some(id) = self.id else { return };
        for _ in 0..MAX_REAP_ATTEMPTS {
            match waitpgid(id, WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => tokio::time::sleep(REAP_INTERVAL).await,
                Err(_) => return,
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.finish();
    }
}
