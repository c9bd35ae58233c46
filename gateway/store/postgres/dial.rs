//! Connects to a server, at a host or a socket, and secures the connection.

use std::io;

use lockgate_postgres::{ByteStream, ssl_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, lookup_host};

use super::address::{Address, SslMode};
use super::tls;
use crate::error::StoreError;

/// Connects, and returns whether the connection is encrypted. Sockets need no encryption.
pub(super) async fn connect(address: &Address) -> Result<(Box<dyn ByteStream>, bool), StoreError> {
    if address.is_socket() {
        let path = format!("{}/.s.PGSQL.{}", address.host, address.port);
        let stream = UnixStream::connect(path).await.map_err(unavailable)?;
        return Ok((Box::new(stream), false));
    }
    let mut tcp = connect_host(&address.host, address.port).await?;
    if address.ssl_mode == SslMode::Disable {
        return Ok((Box::new(tcp), false));
    }
    tcp.write_all(&ssl_request()).await.map_err(unavailable)?;
    match tcp.read_u8().await.map_err(unavailable)? {
        b'S' => Ok((Box::new(tls::secure(tcp, address).await?), true)),
        b'N' if address.ssl_mode == SslMode::Prefer => Ok((Box::new(tcp), false)),
        _ => Err(StoreError::of_tls("the server does not support it")),
    }
}

#[allow(clippy::disallowed_methods, reason = "the database of the operator's configuration")]
async fn connect_host(host: &str, port: u16) -> Result<TcpStream, StoreError> {
    let Ok(found) = lookup_host((host, port)).await else {
        return Err(StoreError::Unavailable("its host name cannot be resolved".into()));
    };
    let found: Vec<_> = found.collect();
    let tcp = TcpStream::connect(found.as_slice()).await.map_err(unavailable)?;
    tcp.set_nodelay(true).map_err(unavailable)?;
    Ok(tcp)
}

#[allow(clippy::needless_pass_by_value, reason = "the form that map_err requires")]
fn unavailable(error: io::Error) -> StoreError {
    StoreError::Unavailable(error.kind().to_string())
}
