//! Syslog over TCP, mostly under TLS. It has no acknowledgements, and what was written may still be
//! lost with the connection. But a receiver that closes its side after we have closed ours has read
//! everything: so each connection is ended after a while, and what it carried counts as taken when
//! the other side ends it too. Until then it is kept, and sent again when the connection fails.
//! Under TLS only its last word (`close_notify`) is the receiver's own: an end without it could be
//! anybody's on the way. Some receivers never say it, so it is asked of those that have said it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use lockgate_authn::Outside;
use lockgate_egress::{Connector, Policy, SetupError, Stream, Target, describe};
use lockgate_telemetry::audit::{Sender, Syslog};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::backlog::Backlog;
use super::trouble::ForwardError;

/// How long a connection is used; what is sent again after a failure is at most so old.
const ROUND: Duration = Duration::from_secs(30);
/// And how much it carries.
const MOST: usize = 16 << 20;
/// How long some records may take to be written, and the other side to end the connection.
const PATIENCE: Duration = Duration::from_secs(10);

const CLOSED: &str = "it has closed the connection";
const CUT: &str = "the connection ended without the last word of TLS, which it has said before";

/// How the other side ended a connection after us.
enum End {
    /// In a way that is its own: with the last word of TLS, or without TLS.
    Said,
    /// Without that word. What it had not read would have reset the connection, if nobody stands
    /// between.
    Bare,
}

/// A receiver of syslog.
pub(super) struct Collector {
    connector: Arc<Connector>,
    target: Target,
    sender: Sender,
    /// The last connection was ended by both sides. Else the next one ends as soon as nothing
    /// waits, to know where we are.
    is_proven: bool,
    /// It has said how it ends, so that an end of another kind is not taken for its own.
    has_said: bool,
}

impl Collector {
    pub(super) fn new(config: &Syslog, outside: &Outside) -> Result<Self, SetupError> {
        Ok(Self {
            connector: Arc::clone(&outside.connector),
            target: Target::new(&config.address)?,
            sender: Sender::new(config.facility),
            is_proven: false,
            has_said: false,
        })
    }

    /// Sends what waits and what comes, over one connection.
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
        let connected = self.connector.connect_without_alpn(&self.target, Policy::Operator).await;
        let mut stream = connected.map_err(|error| ForwardError::new(&error))?;
        let end = Instant::now() + if self.is_proven { ROUND } else { Duration::ZERO };
        let mut bytes = 0;
        loop {
            let is_last = ending.is_cancelled() || Instant::now() >= end;
            while bytes < MOST
                && let Some(records) = backlog.next().await?
            {
                let mut messages = Vec::with_capacity(records.lines.len() * 5 / 4);
                self.sender.write(&mut messages, &records.lines);
                write(&mut stream, &messages).await?;
                backlog.set_sent();
                bytes += messages.len();
            }
            if is_last || bytes >= MOST {
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
    let written = timeout(PATIENCE, async {
        stream.write_all(messages).await?;
        stream.flush().await
    });
    match written.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(lost(&error)),
        Err(_) => Err(ForwardError::new(&"it does not read what it is sent")),
    }
}

/// Waits for the end of a connection that should go on; receivers of syslog say nothing.
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

/// Ends our side, and waits for the other one to have read everything and end its own.
async fn finish(mut stream: Stream) -> Result<End, ForwardError> {
    let mut said = [0; 256];
    // Whoever has ended it before us has not read to our end.
    while let Some(read) = stream.read(&mut said).now_or_never() {
        if read.map_err(|error| lost(&error))? == 0 {
            return Err(ForwardError::new(&CLOSED));
        }
    }
    let ended = timeout(PATIENCE, async {
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
        Err(_) => Err(ForwardError::new(&"it does not end a connection that we have ended")),
    }
}

fn lost(error: &io::Error) -> ForwardError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return ForwardError::new(&CLOSED);
    }
    ForwardError::new(&format!("the connection was lost: {}", describe(error)))
}
