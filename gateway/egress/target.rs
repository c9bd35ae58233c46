//! The destination of a connection: host, port, and use of TLS. Resolves nothing.

use std::net::IpAddr;

use http::{HeaderValue, Uri};
use rustls_pki_types::ServerName;
use url::{Host, Position, Url};

use crate::error::SetupError;

/// The destination of a connection, parsed from a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    host: Host<String>,
    port: u16,
    /// The name required in the certificate; `None` for plain connections.
    name: Option<ServerName<'static>>,
}

impl Target {
    /// Takes host, port and scheme from an `http` or `https` URL. Rejects user information, because
    /// URLs are logged.
    pub fn new(url: &Url) -> Result<Self, SetupError> {
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(SetupError::Url("only http and https are supported")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(SetupError::Url("user information is not allowed"));
        }
        let Some(host) = url.host() else {
            return Err(SetupError::Url("no host"));
        };
        let host = host.to_owned();
        let port = url.port_or_known_default().unwrap_or(0);
        if port == 0 {
            return Err(SetupError::Url("no port"));
        }
        let name = match (&host, tls) {
            (_, false) => None,
            (Host::Domain(name), true) => match ServerName::try_from(name.clone()) {
                Ok(name) => Some(name),
                Err(_) => return Err(SetupError::Url("the host is not valid in a certificate")),
            },
            (Host::Ipv4(address), true) => Some(ServerName::from(IpAddr::V4(*address))),
            (Host::Ipv6(address), true) => Some(ServerName::from(IpAddr::V6(*address))),
        };
        Ok(Self { host, port, name })
    }

    /// Returns the target of a URL, the value of `Host`, and the path and query.
    pub(crate) fn split(url: &Url) -> Result<(Self, HeaderValue, Uri), SetupError> {
        let target = Self::new(url)?;
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).ok();
        let uri = url[Position::BeforePath..Position::AfterQuery].parse().ok();
        let (host, uri) =
            host.zip(uri).ok_or(SetupError::Url("the host or path cannot be sent"))?;
        Ok((target, host, uri))
    }

    pub(crate) fn name(&self) -> Option<&ServerName<'static>> {
        self.name.as_ref()
    }

    pub(crate) fn parts(&self) -> (&Host<String>, u16) {
        (&self.host, self.port)
    }

    pub(crate) fn literal(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }
}

/// Reports whether a name always means this machine (RFC 6761, 6.3).
pub(crate) fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}
