//! Launchers: instances of the gateway's executable that become another program. Starting such a
//! large executable is the slowest part of a call, so a few launchers are started in advance and
//! wait for their plan. Each becomes a program, or the guard of a program that may start others,
//! and is not reused.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as BlockingStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use lockgate_upstream::Group;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::confine;

/// Maximum number of waiting launchers, started from the first call on.
const MAX_WAITING: usize = 8;
/// Delay before each start of a launcher, because launchers share the processors with the programs
/// of calls.
const START_DELAY: Duration = Duration::from_millis(4);

/// A process that waits for its plan.
pub(super) struct Launcher {
    pub(super) child: Child,
    /// The process group that it leads.
    pub(super) group: Group,
    /// The socket to a guard. Closing it makes the guard kill the group.
    control: Option<UnixStream>,
}

impl Launcher {
    #[allow(
        clippy::disallowed_methods,
        reason = "starts the launcher, which confines itself before it becomes a program"
    )]
    fn start(program: &Path, children: bool) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .arg(confine::MODE)
            .args(children.then_some(confine::CHILDREN))
            .env_clear()
            .current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut control = None;
        if children {
            let (ours, theirs) = BlockingStream::pair()?;
            ours.set_nonblocking(true)?;
            control = Some(UnixStream::from_std(ours)?);
            command.stdin(OwnedFd::from(theirs));
        }
        let child = command.spawn()?;
        let Some(leader) = child.id() else { return Err(io::Error::other("it ended at once")) };
        Ok(Self { child, group: Group::new(leader), control })
    }

    /// Sends the plan.
    pub(super) async fn become_program(&mut self, plan: &[u8]) -> io::Result<()> {
        if let Some(control) = &mut self.control {
            return control.write_all(plan).await;
        }
        let Some(mut input) = self.child.stdin.take() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        input.write_all(plan).await?;
        input.shutdown().await
    }

    /// Waits for the end of the program. A guard continues until the group is killed.
    pub(super) async fn wait_for_program(&mut self) -> io::Result<ExitStatus> {
        if let Some(control) = &mut self.control {
            let mut status = [0; 4];
            if control.read_exact(&mut status).await.is_ok() {
                return Ok(ExitStatus::from_raw(i32::from_le_bytes(status)));
            }
            // The guard was killed.
        }
        self.child.wait().await
    }

    /// Kills all remaining processes of the group, including the guard.
    pub(super) async fn finish(&mut self) {
        self.group.finish();
        let _ = self.child.wait().await;
        self.group.reap().await;
    }
}

/// The launchers of a server. Dropping it ends the waiting launchers. All programs must have ended
/// before, because the kernel kills them together with the thread that started them.
pub(super) struct Launchers {
    line: Arc<Line>,
    more: SyncSender<()>,
}

struct Line {
    program: PathBuf,
    most: usize,
    waiting: Mutex<VecDeque<Launcher>>,
}

impl Launchers {
    /// Creates an empty pool. Requires a Tokio runtime.
    pub(super) fn new(program: PathBuf, concurrent: usize) -> io::Result<Self> {
        let line = Arc::new(Line {
            program,
            most: concurrent.min(MAX_WAITING),
            waiting: Mutex::default(),
        });
        let (more, wanted) = sync_channel(1);
        let filled = Arc::clone(&line);
        let runtime = Handle::current();
        std::thread::Builder::new().name("launchers".into()).spawn(move || {
            let _runtime = runtime.enter();
            while wanted.recv().is_ok() {
                filled.fill();
            }
        })?;
        Ok(Self { line, more })
    }

    /// Returns a waiting launcher, or a new launcher; always a new one if the program may start
    /// others.
    pub(super) fn take(&self, children: bool) -> io::Result<Launcher> {
        if children {
            return Launcher::start(&self.line.program, children);
        }
        let waiting = self.line.take();
        // If a request is pending already, the thread handles it after this.
        let _ = self.more.try_send(());
        match waiting {
            Some(launcher) => Ok(launcher),
            None => Launcher::start(&self.line.program, children),
        }
    }
}

impl Line {
    fn take(&self) -> Option<Launcher> {
        let mut waiting = self.waiting.lock();
        while let Some(mut launcher) = waiting.pop_front() {
            // The process may have been killed since it was queued.
            if let Ok(None) = launcher.child.try_wait() {
                return Some(launcher);
            }
        }
        None
    }

    fn fill(&self) {
        while self.waiting.lock().len() < self.most {
            std::thread::sleep(START_DELAY);
            match Launcher::start(&self.program, false) {
                Ok(launcher) => self.waiting.lock().push_back(launcher),
                Err(error) => {
                    return tracing::warn!(%error, "builtin.shell: no launcher could be started in \
                        advance");
                }
            }
        }
    }
}
