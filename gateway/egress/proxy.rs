//! Tunnels through an operator's HTTP proxy (`CONNECT`). The proxy comes from configuration alone,
//! never from the environment, and tunnelled connections are checked like direct connections.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

use crate::error::{ConnectError, ProxyError, SetupError};
use crate::target::Target;

/// Longest response to `CONNECT`, in bytes.
const MAX_HEAD: usize = 8 << 10;

const UNFIT: &str = "the proxy's credentials cannot be sent";

/// An HTTP proxy that opens tunnels.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// With user and password: never shown.
    url: Url,
    pub(crate) target: Target,
    authorization: Option<HeaderValue>,
    /// Whether the proxy resolves names, and thereby chooses the addresses.
    pub(crate) resolves: bool,
}

impl Proxy {
    /// Creates a proxy at an `http` URL. User and password are sent to it as `Proxy-Authorization:
    /// Basic`. With `resolves` the proxy receives names instead of addresses, so that addresses
    /// cannot be checked here.
    ///
    /// # Errors
    /// A URL other than a plain `http://host:port`, or credentials that are invalid in a header.
    pub fn new(
        url: &Url,
        credentials: Option<(&str, &str)>,
        resolves: bool,
    ) -> Result<Self, SetupError> {
        if url.scheme() != "http" {
            return Err(SetupError::Url("a proxy URL must use http"));
        }
        let target = Target::new(url)?;
        let mut url = url.clone();
        let mut authorization = None;
        if let Some((user, password)) = credentials {
            authorization = Some(basic(user, password)?);
            if url.set_username(user).is_err() || url.set_password(Some(password)).is_err() {
                return Err(SetupError::Url(UNFIT));
            }
        }
        Ok(Self { url, target, authorization, resolves })
    }

    /// Returns the URL with user and password, in the format of `HTTPS_PROXY`: a secret.
    pub fn secret_url(&self) -> &Url {
        &self.url
    }

    /// Returns whether user and password are sent to it.
    pub fn has_credentials(&self) -> bool {
        self.authorization.is_some()
    }

    pub(crate) fn failure(&self, authority: &str, cause: &ConnectError) -> ConnectError {
        let (host, port) = self.target.parts();
        let cause = match cause {
            ConnectError::Connect(error) => describe_io(error),
            other => other.to_string(),
        };
        let proxy = format!("{host}:{port}");
        ConnectError::Proxy(ProxyError { proxy, target: authority.to_owned(), cause })
    }

    /// Opens a tunnel to `authority` (`host:port`) on a fresh connection to the proxy.
    pub(crate) async fn tunnel(&self, tcp: &mut TcpStream, authority: &str) -> io::Result<()> {
        let mut request =
            format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
        if let Some(authorization) = &self.authorization {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(authorization.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        tcp.write_all(&request).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            // Byte by byte: any bytes after the head belong to the tunnel.
            let byte = tcp.read_u8().await?;
            head.push(byte);
            if head.len() > MAX_HEAD {
                return Err(io::Error::other("its response is too long"));
            }
        }
        let status = match head.strip_prefix(b"HTTP/1.") {
            Some(rest) => rest.get(2..5).unwrap_or(b""),
            None => b"",
        };
        if status.starts_with(b"2") {
            return Ok(());
        }
        Err(io::Error::other(format!("it returned {}", status.escape_ascii())))
    }
}

fn describe_io(error: &io::Error) -> String {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::UnexpectedEof, _) => "it closed the connection without a response".into(),
        (kind, Some(_)) => kind.to_string(),
        (_, None) => error.to_string(),
    }
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, SetupError> {
    let encoded = STANDARD.encode(format!("{user}:{password}"));
    let Ok(mut value) = HeaderValue::try_from(format!("Basic {encoded}")) else {
        return Err(SetupError::Url(UNFIT));
    };
    value.set_sensitive(true);
    Ok(value)
}

lockgate_text::debug_fields!(Proxy: target, resolves);
