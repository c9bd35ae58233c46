//! What the operator's endpoints need to know, already validated. It reads no file and no
//! environment.

use std::fmt;
use std::net::SocketAddr;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use lockgate_authn::RoleHolders;
use url::Url;

/// Where `/healthz`, `/readyz`, `/metrics` and the API are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// An address of their own; without it they are on the clients' listener.
    pub listen: Option<SocketAddr>,
    /// Who is told when a call begins to wait for approvers.
    pub webhook: Option<Webhook>,
    pub api: ApiConfig,
    pub ready: Ready,
    /// What whoever reads `/metrics` may show in the place of a caller's credential.
    pub scrape_token: Option<ScrapeToken>,
}

/// What has to be there for the gateway to be ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ready {
    /// Every server is connected or has failed.
    #[default]
    Started,
    /// At least one is connected, if there are any.
    Any,
    /// All are connected.
    All,
}

/// How many servers are connected, of those that are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    pub now: usize,
    pub of: usize,
}

impl Ready {
    #[must_use]
    pub fn is_met(self, connected: Connected) -> bool {
        match self {
            Self::Started => true,
            Self::Any => connected.now > 0 || connected.of == 0,
            Self::All => connected.now == connected.of,
        }
    }
}

impl fmt::Display for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.now, self.of)
    }
}

/// A credential for `/metrics` alone. Only its hash is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct ScrapeToken(blake3::Hash);

impl ScrapeToken {
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(blake3::hash(text.as_bytes()))
    }

    /// Whether a request has it as its only bearer token. Takes the same time for every guess.
    #[must_use]
    pub fn is_shown(&self, headers: &HeaderMap) -> bool {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        let Some(only) = all.next() else { return false };
        if all.next().is_some() {
            return false;
        }
        let Some((scheme, token)) = only.as_bytes().split_at_checked(b"bearer ".len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"bearer ") && blake3::hash(token.trim_ascii()) == self.0
    }
}

impl fmt::Debug for ScrapeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScrapeToken")
    }
}

/// Where messages are posted.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// It may hold a secret, and is not shown.
    pub url: Url,
    /// What messages are signed with.
    pub secret: Vec<u8>,
    /// Where approvers reach the gateway.
    pub link_base: Url,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("link_base", &self.link_base).finish_non_exhaustive()
    }
}

/// Where the API is, and who administers what with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiConfig {
    /// On the address of clients.
    pub on_clients_address: bool,
    /// On the address of operators, if there is one.
    pub on_own_address: bool,
    /// Who administers what.
    pub role_holders: RoleHolders,
    pub clients_address: ClientsAddress,
}

/// How clients reach the gateway, as far as the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientsAddress {
    /// Where it is the operator's word; without it, it is the address that a caller has used.
    pub public_url: Option<Url>,
    pub has_tls: bool,
    /// The port of clients, and that of operators where they have one.
    pub ports: (u16, Option<u16>),
}

impl ClientsAddress {
    /// Returns the beginning of the addresses of endpoints, without a `/` at its end, for a caller
    /// who has addressed this host; empty where that is not known.
    #[must_use]
    pub fn base(&self, host: Option<&str>) -> String {
        if let Some(url) = &self.public_url {
            return url.as_str().trim_end_matches('/').to_owned();
        }
        let Some(host) = host.filter(|host| !host.is_empty()) else { return String::new() };
        let scheme = if self.has_tls { "https" } else { "http" };
        let (clients, operators) = self.ports;
        let own = operators.and_then(|port| host.strip_suffix(&format!(":{port}")));
        match own {
            Some(name) => format!("{scheme}://{name}:{clients}"),
            None => format!("{scheme}://{host}"),
        }
    }
}
