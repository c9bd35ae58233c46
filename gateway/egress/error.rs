//! Errors of outbound connections. No message contains a header, a body or a URL's query.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use lockgate_text::pem::FileError;
use tokio::time::error::Elapsed;

use crate::http1::Http1Error;

/// A connector or an origin that cannot be built from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// `ca_file` cannot be read or contains no certificate.
    #[error("certificate authorities: {0}")]
    Authorities(String),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The client certificate cannot be used.
    #[error("client certificate: {0}")]
    Certificate(#[from] CertificateError),
    /// The URL is not supported.
    #[error("URL: {0}")]
    Url(&'static str),
}

/// Why a client certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error(transparent)]
    Cert(FileError),
    #[error(transparent)]
    Key(FileError),
    #[error("{cert} and {key} do not match: {cause}")]
    Pair { cert: PathBuf, key: PathBuf, cause: rustls::Error },
}

/// No connection was made. The request was not sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name does not resolve, or to no address.
    #[error("DNS lookup failed: {0}")]
    Resolve(io::Error),
    /// An address of the name is not permitted, so none is used.
    #[error("the address {0} is not allowed here")]
    Refused(IpAddr),
    /// No address answered; the error of the last attempt.
    #[error("connect failed: {0}")]
    Connect(io::Error),
    /// The operator's proxy opened no tunnel.
    #[error(transparent)]
    Proxy(ProxyError),
    /// The certificate is not valid for this name, or the handshake failed.
    #[error("TLS handshake failed: {}", describe(.0))]
    Tls(io::Error),
    /// Lookup, connect and handshake together exceeded the timeout.
    #[error("no connection within the time allowed")]
    Timeout,
}

/// A failure on the way to the operator's proxy, or of the proxy itself. Only `cause` may be shown
/// to callers: the addresses are the operator's.
#[derive(Debug, thiserror::Error)]
#[error("proxy {proxy}: {cause}, while reaching {target}")]
pub struct ProxyError {
    pub proxy: String,
    pub target: String,
    pub cause: String,
}

impl From<Elapsed> for ConnectError {
    fn from(_: Elapsed) -> Self {
        Self::Timeout
    }
}

/// A request without a response head.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct SendError {
    /// Whether the request may have reached the server. If false, it certainly did not run, and
    /// repeating it is safe.
    pub sent: bool,
    #[source]
    pub cause: Cause,
}

/// Why there was no response head.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("HTTP: {0}")]
    Http(#[from] Http1Error),
}

impl SendError {
    pub(crate) fn unsent(cause: impl Into<Cause>) -> Self {
        Self { sent: false, cause: cause.into() }
    }
}

/// Describes a connection error, explaining TLS errors with technical names. With TLS 1.3, a server
/// rejects a client certificate only after the handshake.
pub fn describe(error: &io::Error) -> String {
    use rustls::{AlertDescription, CertificateError as Invalid, Error, InvalidMessage};
    match error.get_ref().and_then(|cause| cause.downcast_ref()) {
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "the server does not speak TLS here (is it an http:// address?)".into()
        }
        Some(Error::InvalidCertificate(Invalid::UnknownIssuer)) => {
            "invalid peer certificate: unknown authority (add it to egress.ca_file)".into()
        }
        Some(Error::AlertReceived(AlertDescription::CertificateRequired)) => {
            "the server requires a client certificate".into()
        }
        _ => error.to_string(),
    }
}
