//! Writers of large amounts of data.

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub(super) async fn write_long(
    socket: &mut BufReader<TcpStream>,
    start: &[u8],
    count: usize,
    end: &str,
) -> std::io::Result<()> {
    let block = vec![b'x'; 65536];
    socket.write_all(start).await?;
    let mut left = count;
    while left > 0 {
        let part = &block[..left.min(block.len())];
        socket.write_all(part).await?;
        left -= part.len();
    }
    socket.write_all(end.as_bytes()).await
}

/// Writes up to a gigabyte, more than any reader should accept.
pub(super) async fn forever(socket: &mut BufReader<TcpStream>, byte: u8) -> std::io::Result<()> {
    let block = vec![byte; 65536];
    for _ in 0..16_384 {
        socket.write_all(&block).await?;
    }
    Ok(())
}
