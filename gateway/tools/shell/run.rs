//! A run of a program: in its own process group, with a new environment and an empty standard
//! input. A task ends the whole group at the time limit, or when the caller no longer waits for the
//! result.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_admission::spawn;
use lockgate_policy::command::Invocation;
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::confine::Plan;
use super::folder::Folder;
use super::launch::{Launcher, Launchers};
use super::program::{Program, ProgramKind, git_arguments, git_environment};
use super::{Shell, confine};

/// Time between SIGTERM and SIGKILL.
const TERMINATION_GRACE_PERIOD: Duration = Duration::from_secs(2);
/// How long to wait for the remaining output after the end.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Ran {
    /// `None` if waiting for it failed.
    pub(super) status: Option<ExitStatus>,
    pub(super) timed_out: bool,
    pub(super) took: Duration,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

impl Ran {
    pub(super) fn code(&self) -> Option<i32> {
        self.status?.code()
    }

    pub(super) fn signal(&self) -> Option<i32> {
        self.status?.signal()
    }

    /// Returns the launcher's error message, if the program was not started.
    pub(super) fn not_started(&self) -> Option<String> {
        if self.code() != Some(i32::from(confine::FAILED_EXIT_CODE)) || self.stdout.total != 0 {
            return None;
        }
        let words = String::from_utf8_lossy(&self.stderr.kept);
        Some(words.strip_prefix(confine::LAST_WORDS)?.trim().to_owned())
    }
}

pub(super) struct Start<'a> {
    pub(super) program: &'a Program,
    pub(super) call: &'a Invocation,
    pub(super) folder: &'a Folder,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) limit: Duration,
}

/// Starts a program. The result is sent over the channel; dropping the receiver ends the program.
pub(super) async fn start(
    shell: &Shell,
    start: Start<'_>,
    place: OwnedSemaphorePermit,
) -> Result<oneshot::Receiver<Ran>, String> {
    let began = Instant::now();
    let program = start.program;
    let limit = start.limit;
    let mut launcher = launch(shell, start)
        .await
        .map_err(|error| format!("`{}` could not be started: {error}", program.name))?;
    let child = &mut launcher.child;
    let cap = shell.config.output_size;
    let output = (Reader::start(child.stdout.take(), cap), Reader::start(child.stderr.take(), cap));
    tracing::debug!(program = program.name, pid = child.id(), "program started");
    let (result, wanted) = oneshot::channel();
    let launchers = Arc::clone(&shell.launchers);
    spawn(watch(launcher, output, (began, limit), result, (place, launchers)));
    Ok(wanted)
}

async fn launch(shell: &Shell, start: Start<'_>) -> std::io::Result<Launcher> {
    let runs_code = start.program.runs_code();
    let mut plan = serde_json::to_vec(&plan(shell, start)?)?;
    plan.push(b'\n');
    let mut launcher = shell.launchers.take(runs_code)?;
    launcher.become_program(&plan).await?;
    Ok(launcher)
}

fn plan(shell: &Shell, start: Start<'_>) -> Result<Plan, rustix::io::Errno> {
    let Start { program, call, folder, variables, limit } = start;
    let config = &shell.config;
    let mut arguments = program.before.clone();
    match program.kind {
        ProgramKind::Git => {
            let subcommand = call.subcommands.first().map(String::as_str);
            arguments.extend(git_arguments(&call.arguments, subcommand));
        }
        _ => arguments.extend_from_slice(&call.arguments),
    }
    let mut read = program.read.clone();
    read.extend_from_slice(&config.read);
    Ok(Plan {
        gateway: std::process::id(),
        program: program.file.clone(),
        name: if program.before.is_empty() {
            program.name.clone()
        } else {
            program.file.display().to_string()
        },
        arguments,
        environment: environment(shell, program, variables),
        // Package managers run programs named in files of the working folder, such as `.yarnrc`.
        folder: if program.kind == ProgramKind::Version { None } else { Some(folder.held()?) },
        landlock: shell.landlock,
        roots: shell.folders.held(),
        read,
        execute: program.execute.clone(),
        children: program.runs_code(),
        // In seconds per process, over all its threads.
        cpu_seconds: limit.as_secs().saturating_mul(4).saturating_add(1),
        memory_bytes: config.memory,
        file_bytes: config.file_size,
        open_files: config.open_files,
        processes: config.processes,
    })
}

/// Builds the environment: fixed variables, the operator's, the caller's, and for git the
/// restrictions.
fn environment(
    shell: &Shell,
    program: &Program,
    variables: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let search: Vec<&str> = shell.config.search.iter().filter_map(|path| path.to_str()).collect();
    let path = search.join(":");
    let always = [
        ("PATH", path.as_str()),
        ("HOME", "/nonexistent"),
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
        ("COREPACK_ENABLE_NETWORK", "0"),
        ("COREPACK_ENABLE_PROJECT_SPEC", "0"),
        ("NO_UPDATE_NOTIFIER", "1"),
    ];
    let mut all: BTreeMap<_, _> =
        always.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    all.extend(shell.config.environment.clone());
    all.extend(variables);
    if program.kind == ProgramKind::Git {
        all.extend(git_environment(&shell.folders.paths()));
    }
    all
}

async fn watch(
    mut launcher: Launcher,
    (mut stdout, mut stderr): (Reader, Reader),
    (began, limit): (Instant, Duration),
    mut result: oneshot::Sender<Ran>,
    _held: (OwnedSemaphorePermit, Arc<Launchers>),
) {
    let (ended, timed_out) = tokio::select! {
        ended = launcher.wait_for_program() => (Some(ended), false),
        () = tokio::time::sleep(limit) => (None, true),
        () = result.closed() => (None, false),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => stop(&mut launcher).await,
    };
    launcher.finish().await;
    let took = began.elapsed();
    // All other ends of the streams are closed now, unless the kernel is stuck.
    let _ = timeout(LAST_OUTPUT_TIMEOUT, async {
        stdout.end().await;
        stderr.end().await;
    })
    .await;
    let ran = Ran {
        status: ended.ok(),
        timed_out,
        took,
        stdout: std::mem::take(&mut *stdout.output.lock()),
        stderr: std::mem::take(&mut *stderr.output.lock()),
    };
    // Fails if the caller is gone.
    let _ = result.send(ran);
}

/// Terminates the whole group with SIGTERM, then with SIGKILL.
async fn stop(launcher: &mut Launcher) -> std::io::Result<ExitStatus> {
    launcher.group.signal(Signal::TERM);
    if let Ok(ended) = timeout(TERMINATION_GRACE_PERIOD, launcher.wait_for_program()).await {
        return ended;
    }
    launcher.group.signal(Signal::KILL);
    launcher.wait_for_program().await
}

// Collects a program's output. The first bytes are kept; the rest is counted and discarded, so
// that the program never blocks.

const CHUNK_BYTES: usize = 64 * 1024;

/// The kept bytes, and the total number of bytes.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) kept: Vec<u8>,
    pub(super) total: u64,
}

impl Output {
    /// Returns the text, and whether invalid UTF-8 was replaced.
    pub(super) fn text(&self) -> (String, bool) {
        let text = String::from_utf8_lossy(&self.kept);
        // A character cut off by the limit does not count as binary data.
        let cut = self.truncated() && text.trim_end_matches('\u{fffd}').len() + 3 >= text.len();
        let clean = if cut { text.trim_end_matches('\u{fffd}') } else { &*text };
        let lossy = matches!(text, std::borrow::Cow::Owned(_)) && clean.contains('\u{fffd}');
        (clean.to_owned(), lossy)
    }

    pub(super) fn truncated(&self) -> bool {
        self.total > self.kept.len() as u64
    }
}

/// Reads a stream to its end in the background.
pub(super) struct Reader {
    pub(super) output: Arc<Mutex<Output>>,
    task: JoinHandle<()>,
}

impl Reader {
    pub(super) fn start(
        stream: Option<impl AsyncRead + Unpin + Send + 'static>,
        cap: usize,
    ) -> Self {
        let output: Arc<Mutex<Output>> = Arc::default();
        let into = Arc::clone(&output);
        let task = spawn(async move {
            let Some(mut stream) = stream else { return };
            let mut chunk = vec![0; CHUNK_BYTES];
            let mut room = cap;
            while let Ok(read @ 1..) = stream.read(&mut chunk).await {
                let mut output = into.lock();
                let fits = fitting(&chunk[..read], &mut room);
                output.kept.extend_from_slice(&chunk[..fits]);
                output.total += read as u64;
            }
        });
        Self { output, task }
    }

    pub(super) async fn end(&mut self) {
        let _ = (&mut self.task).await;
    }
}

/// Returns how many of the bytes fit, and reduces the room. A control character counts as many
/// bytes as in JSON, so that the limit also bounds the size of the result.
fn fitting(bytes: &[u8], room: &mut usize) -> usize {
    for (at, byte) in bytes.iter().enumerate() {
        let escaped = byte.is_ascii_control() && !byte.is_ascii_whitespace();
        match room.checked_sub(if escaped { 6 } else { 1 }) {
            Some(left) => *room = left,
            None => {
                *room = 0;
                return at;
            }
        }
    }
    bytes.len()
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}
