//! A child process that serves MCP on its standard streams, in its own process group and with a
//! minimal environment. Its parent is a guard, which ensures that neither it nor its descendants
//! outlive their use. Only commands from the operator's configuration are started, without a shell.

mod guard;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memchr::memchr;
use parking_lot::Mutex;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::receiver::Pace;
use crate::status::{Stage, StageError};
use guard::Plan;

pub use crate::process::guard::Group;
pub use guard::{guard, outlive_signals};

/// Time between SIGTERM and SIGKILL, and between SIGKILL and giving up.
const SIGNAL_GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Most queued orders to a guard.
const MAX_QUEUED_ORDERS: usize = 4;
/// Time to read the rest of stderr after the exit.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_millis(200);

/// The inherited variables. Launchers (`npx`, `uvx`, `docker`) look for their caches and settings
/// under the user's directories, and text tools for the locale. Nothing else is inherited: above
/// all no credentials, no proxy settings (which may contain passwords), no agent sockets, no
/// `SHELL`, no `LD_*`, and no variables of the gateway itself.
const INHERITED: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// A child and all its descendants. Dropping it kills them.
pub(crate) struct Child {
    #[cfg(test)]
    id: u32,
    orders: mpsc::Sender<u8>,
    exit: watch::Receiver<Option<String>>,
    tail: Arc<Tail>,
}

/// Starts a child with an argument vector and an environment of [`INHERITED`], `LC_*` and `env`,
/// which takes precedence. Its parent is `program`, which starts with [`guard()`].
///
/// # Errors
/// The child could not be started. The message suggests a fix.
pub(crate) async fn spawn(
    program: &Path,
    slug: &str,
    command: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
    cwd: Option<&Path>,
) -> Result<(Child, pipe::Sender, ChildStdout), StageError> {
    if let Some(cwd) = cwd
        && let Some(words) = unusable(cwd)
    {
        return Err(StageError::new(Stage::Start, words));
    }
    let Some(plan) = plan(command, args, env, cwd).encode() else {
        let error = io::ErrorKind::InvalidInput.into();
        return Err(StageError::new(Stage::Start, explain(command, cwd, &error)));
    };
    let (guarded, started) = match Guarded::start(program, &plan).await {
        Ok(guarded) => guarded,
        Err(error) => {
            let words = format!("the guard of `{command}` could not be started: {error}");
            return Err(StageError::new(Stage::Start, words));
        }
    };
    let (id, server) =
        started.map_err(|error| StageError::new(Stage::Start, explain(command, cwd, &error)))?;
    let Guarded { process, control, stdin, stdout, stderr } = guarded;
    // Arguments and environment may contain secrets; the command does not.
    tracing::info!(server = slug, command, pid = id, "child process started");
    let tail = Arc::new(Tail::default());
    let reader = tokio::spawn(follow_stderr(stderr, slug.to_owned(), tail.clone()));
    let (ended, exit) = watch::channel(None);
    let (orders, received) = mpsc::channel(MAX_QUEUED_ORDERS);
    let leash = Leash { process, control, server };
    tokio::spawn(supervise(slug.to_owned(), leash, received, reader, ended));
    let child = Child {
        #[cfg(test)]
        id,
        orders,
        exit,
        tail,
    };
    Ok((child, stdin, stdout))
}

#[allow(
    clippy::disallowed_methods,
    reason = "a child inherits a few names of the gateway's environment"
)]
fn plan(
    command: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
    cwd: Option<&Path>,
) -> Plan {
    let mut environment = BTreeMap::from_iter(inherited(std::env::vars_os()));
    environment.extend(env.iter().map(|(name, value)| (name.into(), value.into())));
    let arguments = args.iter().map(OsString::from).collect();
    Plan {
        command: command.into(),
        arguments,
        environment: Vec::from_iter(environment),
        cwd: cwd.map(Path::to_owned),
    }
}

impl Child {
    #[cfg(test)]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.tail.lines()
    }

    /// Waits for the end and describes it: `exited with code 1`, `was killed by signal 9`. Does not
    /// borrow the child.
    pub(crate) fn exit(&self) -> impl Future<Output = String> + Send + use<> {
        let mut exit = self.exit.clone();
        async move {
            match exit.wait_for(Option::is_some).await {
                Ok(words) => words.clone().unwrap_or_default(),
                // The supervisor only disappears with the runtime.
                Err(_) => "is no longer watched".to_owned(),
            }
        }
    }

    /// Ends the child. Its stdin must already be closed. Waits up to `grace`, sends SIGTERM to its
    /// group, then SIGKILL to all descendants. No process remains when this returns, unless the
    /// kernel is stuck. Describes how the child ended.
    pub(crate) async fn close(&self, grace: Duration) -> String {
        if let Ok(words) = timeout(grace, self.exit()).await {
            return words;
        }
        let _ = self.orders.try_send(guard::TERMINATE_ORDER);
        if let Ok(words) = timeout(SIGNAL_GRACE_PERIOD, self.exit()).await {
            return words;
        }
        let _ = self.orders.try_send(guard::KILL_ORDER);
        let ended = timeout(SIGNAL_GRACE_PERIOD, self.exit()).await;
        ended.unwrap_or_else(|_| "did not end after SIGKILL".to_owned())
    }
}

/// The connection to a guard, which ends the child when this is dropped.
struct Leash {
    process: tokio::process::Child,
    control: UnixStream,
    /// A handle to the child itself, if the kernel supports pidfds.
    server: Option<OwnedFd>,
}

/// Forwards orders to the guard, waits for the child's end and publishes it.
async fn supervise(
    slug: String,
    mut leash: Leash,
    mut orders: mpsc::Receiver<u8>,
    mut stderr: tokio::task::JoinHandle<()>,
    ended: watch::Sender<Option<String>>,
) {
    let told = follow_orders(&mut leash.control, &mut orders).await;
    let words = match (told, leash.process.wait().await) {
        (Some(status), _) => in_words(status),
        (None, guard) => {
            if let Some(server) = leash.server {
                // The guard was killed before it could end the child.
                let _ = pidfd_send_signal(server, Signal::KILL);
            }
            let guard = guard.map_or_else(|error| error.to_string(), in_words);
            format!("lost its guard ({guard})")
        }
    };
    if timeout(LAST_OUTPUT_TIMEOUT, &mut stderr).await.is_err() {
        // An unkillable process holds the other end.
        stderr.abort();
    }
    tracing::info!(server = slug, "child process {words}");
    ended.send_replace(Some(words));
}

/// Forwards orders until the guard reports the child's exit status; `None` if the guard ends
/// without a report.
async fn follow_orders(
    control: &mut UnixStream,
    orders: &mut mpsc::Receiver<u8>,
) -> Option<ExitStatus> {
    let (mut reader, mut writer) = control.split();
    let mut status = [0; 4];
    let mut killed = false;
    {
        let mut told = std::pin::pin!(reader.read_exact(&mut status));
        loop {
            tokio::select! {
                read = &mut told => break read.ok()?,
                order = orders.recv(), if !killed => {
                    // No sender is left, so the child was dropped.
                    let order = order.unwrap_or(guard::KILL_ORDER);
                    let _ = writer.write_all(&[order]).await;
                    killed = order == guard::KILL_ORDER;
                }
            }
        }
    };
    Some(ExitStatus::from_raw(i32::from_le_bytes(status)))
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn inherited(
    all: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    all.filter(|(name, _)| {
        let name = name.to_str();
        name.is_some_and(|name| INHERITED.contains(&name) || name.starts_with("LC_"))
    })
}

/// Returns why a directory cannot be used as working directory, if it cannot.
fn unusable(cwd: &Path) -> Option<String> {
    let shown = cwd.display();
    match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some(format!("working directory `{shown}` is not a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("working directory `{shown}` does not exist"))
        }
        Err(error) => Some(format!("working directory `{shown}` cannot be used: {error}")),
    }
}

/// Explains an error of the start to the author of the configuration.
fn explain(command: &str, cwd: Option<&Path>, error: &io::Error) -> String {
    let is_path = command.contains('/');
    let exists = is_path && cwd.unwrap_or(Path::new("")).join(command).exists();
    match error.kind() {
        io::ErrorKind::NotFound if exists => {
            format!("`{command}` exists, but the interpreter in its first line does not")
        }
        io::ErrorKind::NotFound if is_path => format!("`{command}` does not exist"),
        io::ErrorKind::NotFound => {
            format!("`{command}` was not found in PATH; install it or give its full path")
        }
        io::ErrorKind::PermissionDenied => format!(
            "permission denied: the gateway's user cannot execute `{command}`{}",
            if cwd.is_some() { " or enter the working directory" } else { "" }
        ),
        io::ErrorKind::ArgumentListTooLong => {
            format!("`{command}`: arguments and environment together are too long")
        }
        io::ErrorKind::InvalidInput => {
            format!("`{command}`: command, arguments and environment must not contain NUL bytes")
        }
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            format!("`{command}` is not a program; a script needs a first line such as `#!/bin/sh`")
        }
        _ => format!("`{command}` could not be started: {error}"),
    }
}

// The gateway's side of a guard.

/// A guard, and the streams of the server that it starts. Dropping it ends that server.
struct Guarded {
    process: tokio::process::Child,
    control: UnixStream,
    stdin: pipe::Sender,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

/// The process id of a server and, if the kernel supports it, a pidfd, which is never reused.
type Started = (u32, Option<OwnedFd>);

fn without_stream() -> io::Error {
    io::Error::other("it has no standard streams")
}

impl Guarded {
    /// Starts a guard, sends it the plan, and waits until its server runs; the inner error is that
    /// of the server's start.
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that starts programs, behind a guard"
    )]
    async fn start(program: &Path, plan: &[u8]) -> io::Result<(Self, Result<Started, io::Error>)> {
        let (ours, theirs) = BlockingStream::pair()?;
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut builder = Command::new(program);
        builder.arg0(guard::NAME).arg(guard::ROLE).env_clear().process_group(0);
        builder.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = builder.spawn()?;
        // The builder holds the guard's end of the socket, which would hide the end of the guard.
        drop(builder);
        let stdout = process.stdout.take().ok_or_else(without_stream)?;
        let stderr = process.stderr.take().ok_or_else(without_stream)?;
        let length = u32::try_from(plan.len()).map_err(|_| io::ErrorKind::ArgumentListTooLong)?;
        send_with_descriptor(&ours, &length.to_le_bytes(), &read_end)?;
        drop(read_end);
        ours.set_nonblocking(true)?;
        let mut control = UnixStream::from_std(ours)?;
        control.write_all(plan).await?;
        let mut answer = [0; guard::ANSWER_BYTES];
        control.read_exact(&mut answer).await?;
        let [kind, number @ ..] = answer;
        let number = i32::from_le_bytes(number);
        let started = match (kind, Pid::from_raw(number)) {
            (guard::STARTED_ANSWER, Some(server)) => {
                Ok((number.unsigned_abs(), pidfd_open(server, PidfdFlags::empty()).ok()))
            }
            (guard::FAILED_ANSWER, _) => Err(io::Error::from_raw_os_error(number)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let stdin = pipe::Sender::from_owned_fd(write_end)?;
        Ok((Self { process, control, stdin, stdout, stderr }, started))
    }
}

/// Sends bytes together with a file descriptor.
fn send_with_descriptor(
    socket: &BlockingStream,
    bytes: &[u8],
    descriptor: &OwnedFd,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

// The standard error of a child: logged, and its last lines kept for error reports. The text is
// untrusted: bounded, escaped, and never interpreted.

/// Bytes kept per line.
const MAX_LINE: usize = 8 << 10;
/// Number of lines kept.
const MAX_KEPT_LINES: usize = 20;
/// Lines per second logged at level info; the rest are logged at level debug.
const MAX_INFO_LINES_PER_SECOND: u32 = 20;

#[derive(Default)]
struct Tail(Mutex<VecDeque<String>>);

impl Tail {
    fn lines(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() >= MAX_KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

async fn follow_stderr(stderr: impl AsyncRead + Unpin, slug: String, tail: Arc<Tail>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    let mut length = 0;
    let pace = Pace::default();
    loop {
        let (taken, ended) = match reader.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(bytes) => {
                let end = memchr(b'\n', bytes);
                let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(&[]);
                length += part.len();
                let room = MAX_LINE - line.len();
                line.extend_from_slice(part.get(..room).unwrap_or(part));
                (part.len() + usize::from(end.is_some()), end.is_some())
            }
        };
        reader.consume(taken);
        if ended {
            keep(&line, length, &slug, &tail, &pace);
            line.clear();
            length = 0;
        }
    }
    keep(&line, length, &slug, &tail, &pace);
}

fn keep(line: &[u8], length: usize, slug: &str, tail: &Tail, pace: &Pace) {
    let line = line.trim_ascii_end();
    if line.is_empty() {
        return;
    }
    let mut shown = printable(line);
    if length > MAX_LINE {
        let _ = write!(shown, " … ({length} bytes)");
    }
    if pace.admits(MAX_INFO_LINES_PER_SECOND, Instant::now()) {
        tracing::info!(target: "upstream.stderr", server = slug, "{shown}");
    } else {
        tracing::debug!(target: "upstream.stderr", server = slug, "{shown}");
    }
    tail.push(shown);
}

/// Escapes control characters and marks of the reading direction, so that the text cannot affect
/// the display.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push(c),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(c.escape_unicode());
            }
            c if c.is_control() => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests;
