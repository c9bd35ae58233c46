//! Syslog over TCP, usually with TLS. The protocol has no acknowledgements, and written data may be
//! lost with the connection. But a receiver that closes its side after the gateway has read
//! everything. So each connection is closed after a while, and its records count as acknowledged
//! once the receiver closes too; after a failure they are sent again. Under TLS only `close_notify`
//! is authentic. Some receivers never send it, so it is required only of receivers that have sent
//! it before.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use lockgate_egress::{Connector, Policy, Stream, Target, describe};
use lockgate_telemetry::audit::{Facility, Syslog};
use lockgate_text::json;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::backlog::{Backlog, ForwardError};

/// Lifetime of a connection, which bounds the age of records sent again after a failure.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(30);
/// Most bytes per connection.
const MAX_CONNECTION_BYTES: usize = 16 << 20;
/// Time to write some records, and for the receiver to close the connection.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

const CLOSED: &str = "the receiver closed the connection";
const CUT: &str = "the receiver closed the connection without close_notify, which it has sent \
    before";

/// How the receiver closed a connection after the gateway.
enum End {
    /// Authentically: with `close_notify`, or without TLS.
    Said,
    /// Without `close_notify`. Unread data would have caused a reset, unless the network
    /// interfered.
    Bare,
}

pub(super) struct Collector {
    connector: Arc<Connector>,
    target: Target,
    sender: Sender,
    /// Whether both sides closed the last connection. If not, the next connection is closed as soon
    /// as the backlog is empty, to confirm delivery.
    is_proven: bool,
    /// Whether it has ever sent `close_notify`, which is then required.
    has_said: bool,
}

impl Collector {
    pub(super) fn new(config: &Syslog, connector: Arc<Connector>) -> anyhow::Result<Self> {
        let address = config.url().context("is not an address")?;
        Ok(Self {
            connector,
            target: Target::new(&address)?,
            sender: Sender::new(config.facility),
            is_proven: false,
            has_said: false,
        })
    }

    /// Sends the backlog and new records over a single connection.
    pub(super) async fn deliver(
        &mut self,
        backlog: &mut Backlog,
        ending: &CancellationToken,
    ) -> Result<(), ForwardError> {
        let delivered = match self.use_connection(backlog, ending).await {
            Ok(End::Said) => {
                self.has_said = true;
                Ok(())
            }
            Ok(End::Bare) if self.has_said => Err(ForwardError::new(&CUT)),
            Ok(End::Bare) => Ok(()),
            Err(trouble) => Err(trouble),
        };
        self.is_proven = delivered.is_ok();
        match delivered {
            Ok(()) => backlog.set_taken().await,
            Err(_) => backlog.rewind(),
        }
        delivered
    }

    async fn use_connection(
        &self,
        backlog: &mut Backlog,
        ending: &CancellationToken,
    ) -> Result<End, ForwardError> {
        let connecting = self.connector.connect_without_alpn(&self.target, Policy::Operator, None);
        let mut stream = connecting.await.map_err(|error| ForwardError::new(&error))?;
        let end =
            Instant::now() + if self.is_proven { CONNECTION_LIFETIME } else { Duration::ZERO };
        let mut bytes = 0;
        loop {
            let is_last = ending.is_cancelled() || Instant::now() >= end;
            while bytes < MAX_CONNECTION_BYTES
                && let Some(records) = backlog.next().await?
            {
                let mut messages = Vec::with_capacity(records.lines.len() * 5 / 4);
                self.sender.write(&mut messages, &records.lines);
                write(&mut stream, &messages).await?;
                backlog.set_sent();
                bytes += messages.len();
            }
            if is_last || bytes >= MAX_CONNECTION_BYTES {
                return finish(stream).await;
            }
            tokio::select! {
                () = backlog.more() => {}
                () = tokio::time::sleep_until(end) => {}
                () = ending.cancelled() => {}
                trouble = watch(&mut stream) => return Err(trouble),
            }
        }
    }
}

async fn write(stream: &mut Stream, messages: &[u8]) -> Result<(), ForwardError> {
    let written = timeout(WRITE_TIMEOUT, async {
        stream.write_all(messages).await?;
        stream.flush().await
    });
    match written.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(lost(&error)),
        Err(_) => Err(ForwardError::new(&"the receiver does not read its input")),
    }
}

/// Waits for an unexpected end of the connection; syslog receivers send no data.
async fn watch(stream: &mut Stream) -> ForwardError {
    let mut said = [0; 256];
    loop {
        match stream.read(&mut said).await {
            Ok(0) => return ForwardError::new(&CLOSED),
            Ok(_) => {}
            Err(error) => return lost(&error),
        }
    }
}

/// Closes the gateway's side, and waits until the receiver has read everything and closes its own.
async fn finish(mut stream: Stream) -> Result<End, ForwardError> {
    let mut said = [0; 256];
    // A receiver that closed first has not read everything.
    while let Some(read) = stream.read(&mut said).now_or_never() {
        if read.map_err(|error| lost(&error))? == 0 {
            return Err(ForwardError::new(&CLOSED));
        }
    }
    let ended = timeout(WRITE_TIMEOUT, async {
        stream.shutdown().await?;
        loop {
            match stream.read(&mut said).await {
                Ok(0) => return Ok(End::Said),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(End::Bare),
                Err(error) => return Err(error),
            }
        }
    });
    match ended.await {
        Ok(Ok(end)) => Ok(end),
        Ok(Err(error)) => Err(lost(&error)),
        Err(_) => Err(ForwardError::new(&"the receiver did not close its side of the connection")),
    }
}

fn lost(error: &io::Error) -> ForwardError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return ForwardError::new(&CLOSED);
    }
    ForwardError::new(&format!("the connection was lost: {}", describe(error)))
}

// Records as syslog messages: RFC 5424, with the length before each message (RFC 6587, as RFC 5425
// requires under TLS). The message text is the record's line, unchanged.

/// Maximum bytes of a host name (RFC 5424, section 6).
const MAX_HOST: usize = 255;

/// The common fields of all messages of a process.
#[derive(Clone, Debug)]
struct Sender {
    facility: Facility,
    host: String,
    process: u32,
}

// Severities of RFC 5424.
const WARNING: u8 = 4;
const NOTICE: u8 = 5;
const INFO: u8 = 6;

/// The members of a record that its message header contains.
#[derive(Deserialize)]
struct Head<'a> {
    time: &'a str,
    kind: &'a str,
    decision: Option<&'a str>,
}

impl Sender {
    /// Creates the sender for this process and host.
    fn new(facility: Facility) -> Self {
        Self::named(facility, &host(), std::process::id())
    }

    fn named(facility: Facility, host: &str, process: u32) -> Self {
        let mut host: String = host.chars().filter(char::is_ascii_graphic).collect();
        host.truncate(MAX_HOST);
        if host.is_empty() {
            host.push('-');
        }
        Self { facility, host, process }
    }

    /// Appends the messages of some records.
    fn write(&self, out: &mut Vec<u8>, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let head = self.write_head(line);
            // Writing to memory cannot fail.
            let _ = write!(out, "{} {head}", head.len() + line.len());
            out.extend_from_slice(line);
        }
    }

    fn write_head(&self, line: &[u8]) -> String {
        let head = json::from_slice::<Head<'_>>(line).ok();
        let head = head.unwrap_or(Head { time: "-", kind: "-", decision: None });
        let severity = match (head.kind, head.decision) {
            ("decision", Some("deny")) | ("refusal" | "gap", _) => WARNING,
            ("open" | "rotate" | "close" | "approval" | "change", _) => NOTICE,
            _ => INFO,
        };
        let priority = self.facility as u8 * 8 + severity;
        let Self { host, process, .. } = self;
        format!("<{priority}>1 {} {host} lockgate {process} {} - ", head.time, head.kind)
    }
}

/// Returns the host name, or an empty string if unknown.
#[allow(clippy::disallowed_methods, reason = "the kernel's file with the name of the host")]
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

#[cfg(test)]
mod tests;
