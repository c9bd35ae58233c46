//! The 503 response to connections beyond the limit of their address. Closing while the client
//! still sends would reset the connection and discard the response, so its input is read briefly.

use std::sync::Arc;
use std::time::Duration;

use lockgate_admission::spawn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::error;

const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n";
/// Maximum time for reading from such a connection.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of such connections being read; beyond it they close with the response.
const MAX_LINGERING: usize = 64;

pub(crate) struct TurnedAway(Arc<Semaphore>);

impl TurnedAway {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LINGERING)))
    }

    /// Answers a plaintext connection, then gives the client time to read the response.
    pub(crate) fn answer(&self, stream: TcpStream, retry_after: Option<Duration>) {
        let written = stream.try_write(text(retry_after).as_bytes());
        if let (Ok(_), Ok(permit)) = (written, Arc::clone(&self.0).try_acquire_owned()) {
            spawn(async move {
                let _ = tokio::time::timeout(LINGER_TIMEOUT, read_to_end(stream)).await;
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
