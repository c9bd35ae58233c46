//! A child process that serves MCP on its standard streams: its own process group, an environment made from nothing, and no
//! way to outlive the gateway's interest in it. It starts what the operator's configuration named, without a shell.
//! A descendant that leaves the process group (`setsid`) is out of reach; so are all if the gateway is killed with SIGKILL,
//! but then their standard input ends.

mod group;
mod stderr;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::status::{Stage, Trouble};
pub use group::Group;
use stderr::Tail;

/// Between SIGTERM and SIGKILL, and between SIGKILL and giving up.
const AFTER_SIGNAL: Duration = Duration::from_secs(2);
/// How long the rest of stderr may take after the exit.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What a child inherits. Launchers (`npx`, `uvx`, `docker`) look for their caches and settings under the user's directories,
/// and text tools for the locale. Nothing else: above all no credentials, no proxy settings (they may hold passwords), no
/// agent sockets, no `SHELL`, no `LD_*`, and nothing of the gateway's own.
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

/// A child and its process group. Dropping it kills the group.
pub(crate) struct Child {
    group: Arc<Group>,
    /// How the child ended, in words, once it has.
    exit: watch::Receiver<Option<String>>,
    tail: Arc<Tail>,
}

/// Starts a child with an argument vector and nothing inherited but [`INHERITED`] and `LC_*`; `env` comes on top.
///
/// # Errors
/// The child could not be started, in words that say what to do about it.
#[allow(clippy::disallowed_methods, reason = "the one place that starts programs")]
pub(crate) fn spawn(
    slug: &str,
    command: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
    cwd: Option<&Path>,
) -> Result<(Child, ChildStdin, ChildStdout), Trouble> {
    if let Some(words) = cwd.and_then(unusable) {
        return Err(trouble(words));
    }
    let mut builder = Command::new(command);
    builder.args(args).env_clear().envs(inherited(std::env::vars_os())).envs(env);
    builder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    builder.process_group(0).kill_on_drop(true);
    if let Some(cwd) = cwd {
        builder.current_dir(cwd);
    }
    let mut process = builder.spawn().map_err(|error| trouble(explain(command, cwd, &error)))?;
    let streams = (process.stdin.take(), process.stdout.take(), process.stderr.take());
    let (Some(id), (Some(stdin), Some(stdout), Some(stderr))) = (process.id(), streams) else {
        return Err(trouble(format!("`{command}` was started without its standard streams")));
    };
    // Arguments and environment may hold secrets; the command does not.
    tracing::info!(server = slug, command, pid = id, "child process started");
    let group = Arc::new(Group::new(id));
    let tail = Arc::new(Tail::default());
    let reader = tokio::spawn(stderr::follow(stderr, slug.to_owned(), tail.clone()));
    let (ended, exit) = watch::channel(None);
    tokio::spawn(supervise(slug.to_owned(), process, Leader(group.clone()), reader, ended));
    Ok((Child { group, exit, tail }, stdin, stdout))
}

impl Child {
    /// The process id, which is also the number of its group; the log has it.
    #[cfg(test)]
    pub(crate) fn id(&self) -> u32 {
        self.group.leader()
    }

    /// The last lines that it wrote to stderr.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.tail.lines()
    }

    /// As [`Self::wait`], without holding on to the child.
    pub(crate) fn exit(&self) -> impl Future<Output = String> + Send + use<> {
        let mut exit = self.exit.clone();
        async move {
            match exit.wait_for(Option::is_some).await {
                Ok(words) => words.clone().unwrap_or_default(),
                // The supervisor is gone without a word only when the runtime is.
                Err(_) => "is no longer watched".to_owned(),
            }
        }
    }

    /// Waits for its end. Says how it ended: `exited with code 1`, `killed by signal 9`.
    pub(crate) async fn wait(&self) -> String {
        self.exit().await
    }

    /// Ends it: waits up to `grace` for a child whose stdin was closed before, then SIGTERM, then SIGKILL, both to the whole
    /// group. Nothing of the group runs when this returns, unless the kernel itself is stuck. Says how the child ended.
    pub(crate) async fn close(&self, grace: Duration) -> String {
        if let Ok(words) = timeout(grace, self.wait()).await {
            return words;
        }
        self.group.signal(Signal::TERM);
        if let Ok(words) = timeout(AFTER_SIGNAL, self.wait()).await {
            return words;
        }
        self.group.signal(Signal::KILL);
        timeout(AFTER_SIGNAL, self.wait()).await.unwrap_or_else(|_| "did not end even when killed".to_owned())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
    }
}

/// The group while its leader runs. When the leader is no longer waited for, the group must not run either.
struct Leader(Arc<Group>);

impl Drop for Leader {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Waits for the leader, then ends what it left behind.
async fn supervise(
    slug: String,
    mut process: tokio::process::Child,
    leader: Leader,
    mut stderr: tokio::task::JoinHandle<()>,
    ended: watch::Sender<Option<String>>,
) {
    let words = match process.wait().await {
        Ok(status) => in_words(status),
        Err(error) => format!("lost from sight: {error}"),
    };
    leader.0.finish();
    leader.0.reap().await;
    if timeout(LAST_WORDS, &mut stderr).await.is_err() {
        // Somebody outside the group holds the other end.
        stderr.abort();
    }
    tracing::info!(server = slug, "child process {words}");
    ended.send_replace(Some(words));
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn inherited(all: impl Iterator<Item = (OsString, OsString)>) -> impl Iterator<Item = (OsString, OsString)> {
    all.filter(|(name, _)| name.to_str().is_some_and(|name| INHERITED.contains(&name) || name.starts_with("LC_")))
}

fn trouble(words: String) -> Trouble {
    Trouble { stage: Stage::Start, words, stderr: Vec::new() }
}

/// Why a directory cannot be worked in, if it cannot.
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

/// What an error of the start means for whoever wrote the configuration.
fn explain(command: &str, cwd: Option<&Path>, error: &io::Error) -> String {
    let is_path = command.contains('/');
    let exists = is_path && cwd.unwrap_or(Path::new("")).join(command).exists();
    match error.kind() {
        io::ErrorKind::NotFound if exists => {
            format!("`{command}` exists, but the interpreter that its first line names does not")
        }
        io::ErrorKind::NotFound if is_path => format!("`{command}` does not exist"),
        io::ErrorKind::NotFound => format!("`{command}` was not found in PATH; install it or give its full path"),
        io::ErrorKind::PermissionDenied => format!(
            "permission denied: the gateway's user may not execute `{command}`{}",
            if cwd.is_some() { " or not enter the working directory" } else { "" }
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

#[cfg(test)]
mod tests;
