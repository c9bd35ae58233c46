//! The last words to a connection that its address may not have. They are written at once; closing
//! while the client still sends would take them back, so what it sends is read for a moment.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::error;

const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n";
/// How long such a connection is read from.
const LINGER: Duration = Duration::from_secs(1);
/// Such connections that are read from at once; further ones are closed with the answer.
const LINGERING: usize = 64;

/// Connections that have their answer and are about to be closed.
pub(crate) struct TurnedAway(Arc<Semaphore>);

impl TurnedAway {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(LINGERING)))
    }

    /// Answers a plain connection, and closes it once the client has had time to read that.
    pub(crate) fn answer(&self, stream: TcpStream, retry_after: Option<Duration>) {
        let written = stream.try_write(text(retry_after).as_bytes());
        if let (Ok(_), Ok(permit)) = (written, Arc::clone(&self.0).try_acquire_owned()) {
            tokio::spawn(async move {
                let _ = tokio::time::timeout(LINGER, read_to_end(stream)).await;
                drop(permit);
            });
        }
    }
}

async fn read_to_end(mut stream: TcpStream) -> std::io::Result<()> {
    stream.shutdown().await?;
    let mut unread = [0; 4096];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

fn text(retry_after: Option<Duration>) -> String {
    match retry_after.map(error::write_retry_after) {
        Some(after) => format!("{FULL}retry-after: {}\r\n\r\n", after.to_str().unwrap_or("1")),
        None => format!("{FULL}\r\n"),
    }
}
