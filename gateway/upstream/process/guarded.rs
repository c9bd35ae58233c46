//! The gateway's side of a guard: starts it, sends it the plan, and receives the result.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::process::Stdio;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::guard::{ANSWER_BYTES, FAILED_ANSWER, NAME, ROLE, STARTED_ANSWER};

/// A guard, and the streams of the server that it starts. Dropping it ends that server.
pub(super) struct Guarded {
    pub(super) process: Child,
    pub(super) control: UnixStream,
    pub(super) stdin: pipe::Sender,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// The process id of a server and, if the kernel supports it, a pidfd, which is never reused.
pub(super) type Started = (u32, Option<OwnedFd>);

fn without_stream() -> io::Error {
    io::Error::other("it has no standard streams")
}

impl Guarded {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that starts programs, behind a guard"
    )]
    pub(super) async fn start(program: &Path, plan: &[u8]) -> io::Result<Self> {
        let (ours, theirs) = BlockingStream::pair()?;
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut builder = Command::new(program);
        builder.arg0(NAME).arg(ROLE).env_clear().process_group(0);
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
        Ok(Self {
            process,
            control,
            stdin: pipe::Sender::from_owned_fd(write_end)?,
            stdout,
            stderr,
        })
    }

    /// Waits until the server runs; the inner error is that of its start.
    pub(super) async fn started(&mut self) -> io::Result<Result<Started, io::Error>> {
        let mut answer = [0; ANSWER_BYTES];
        self.control.read_exact(&mut answer).await?;
        let [kind, number @ ..] = answer;
        let number = i32::from_le_bytes(number);
        match (kind, Pid::from_raw(number)) {
            (STARTED_ANSWER, Some(server)) => {
                Ok(Ok((number.unsigned_abs(), pidfd_open(server, PidfdFlags::empty()).ok())))
            }
            (FAILED_ANSWER, _) => Ok(Err(io::Error::from_raw_os_error(number))),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
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
