//! Syslog over TCP, usually with TLS. The protocol has no acknowledgements, and written data may be
//! lost with the connection. But a receiver that closes its side after the gateway has read
//! everything. So each connection is closed after a while, and its records count as acknowledged
//! once the receiver closes too; after a failure they are sent again. Under TLS only `close_notify`
//! is authentic. Some receivers never send it, so it is required only of receivers that have sent
//! it before.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use lockgate_authn::Outside;
use lockgate_egress::{Connector, Policy, Stream, Target, describe};
use lockgate_telemetry::audit::Syslog;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::backlog::{Backlog, ForwardError};
use super::message::Sender;

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
    pub(super) fn new(config: &Syslog, outside: &Outside) -> anyhow::Result<Self> {
        let address = config.url().context("is not an address")?;
        Ok(Self {
            connector: Arc::clone(&outside.connector),
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
