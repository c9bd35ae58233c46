//! The gateway's own program, started to become another one. Starting something that large takes
//! longer than all else that a call does, so that a few are started ahead and wait for their plan.
//! Each becomes one program, or guards one that may start others, and is never used again.

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

/// How many wait at most, from the first call on.
const WAITING: usize = 8;
/// How long after a call, and after each other, they are started: they share the processors with
/// the programs of calls.
const PAUSE: Duration = Duration::from_millis(4);

/// A process that waits for its plan.
pub(super) struct Launcher {
    pub(super) child: Child,
    /// Which it leads.
    pub(super) group: Group,
    /// To a guard. Closing it makes the guard kill the group.
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

    /// Tells it what to become.
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

    /// Waits for the end of the program. Its guard, if it has one, goes on until the group is
    /// killed.
    pub(super) async fn wait_for_program(&mut self) -> io::Result<ExitStatus> {
        if let Some(control) = &mut self.control {
            let mut status = [0; 4];
            if control.read_exact(&mut status).await.is_ok() {
                return Ok(ExitStatus::from_raw(i32::from_le_bytes(status)));
            }
            // Somebody killed the guard.
        }
        self.child.wait().await
    }

    /// Kills what is left of the group, the guard with it.
    pub(super) async fn finish(&mut self) {
        self.group.finish();
        let _ = self.child.wait().await;
        self.group.reap().await;
    }
}

/// The launchers of a server. Dropping it ends those that wait; what they became has to have ended
/// before, since the kernel ends it together with the thread that started it.
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
    /// Starts none yet. Needs a runtime.
    pub(super) fn new(program: PathBuf, concurrent: usize) -> io::Result<Self> {
        let line =
            Arc::new(Line { program, most: concurrent.min(WAITING), waiting: Mutex::default() });
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

    /// One that waits, or else a new one; always a new one for a program that may start others.
    pub(super) fn take(&self, children: bool) -> io::Result<Launcher> {
        if children {
            return Launcher::start(&self.line.program, children);
        }
        let waiting = self.line.take();
        // When the thread has been asked already, it looks again after this.
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
            // Somebody may have ended it meanwhile.
            if let Ok(None) = launcher.child.try_wait() {
                return Some(launcher);
            }
        }
        None
    }

    fn fill(&self) {
        while self.waiting.lock().len() < self.most {
            std::thread::sleep(PAUSE);
            match Launcher::start(&self.program, false) {
                Ok(launcher) => self.waiting.lock().push_back(launcher),
                Err(error) => {
                    return tracing::warn!(%error, "builtin.shell: no launcher could be started \
                        ahead");
                }
            }
        }
    }
}
