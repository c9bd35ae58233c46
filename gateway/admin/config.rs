//! The validated configuration of the operator's endpoints. Reads no files and no environment.

use std::fmt;
use std::net::SocketAddr;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use lockgate_authn::RoleHolders;
use lockgate_text::setting::Text;
use lockgate_text::settings;
use url::Url;

/// The configuration of `/healthz`, `/readyz`, `/metrics` and the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// A separate address. If `None`, the endpoints are on the clients' listener.
    pub listen: Option<SocketAddr>,
    /// The receiver of messages about calls that start to wait for approval.
    pub webhook: Option<Webhook>,
    pub api: ApiConfig,
    pub ready: Ready,
    /// A token that `/metrics` accepts in place of a caller's credential.
    pub scrape_token: Option<ScrapeToken>,
}

settings! {
    /// The condition under which the gateway is ready: every server is connected or has failed; at
    /// least one is connected, or none is configured; all are connected.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Ready { #[default] Started, Any, All }
}

/// The number of connected servers, out of all that should be connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    pub now: usize,
    pub of: usize,
}

impl Ready {
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

/// A credential for `/metrics` only. Only its hash is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct ScrapeToken(blake3::Hash);

impl ScrapeToken {
    pub fn new(text: &str) -> Self {
        Self(blake3::hash(text.as_bytes()))
    }

    /// Returns whether a request has this token as its only bearer token. Compares in constant
    /// time.
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

lockgate_text::debug_fields!(ScrapeToken);

settings! {
    // The receiver of messages about approvals.

    pub struct Webhook as "Webhook" {
        /// Address of the messages, which contain a link to the call; requires `http.public_url`.
        pub url: String = Text | "",
        /// Key that signs the messages (Standard Webhooks): `whsec_` and 24 to 64 random bytes in
        /// base64. A reference: `${WEBHOOK_SECRET}` or `file:PATH`.
        pub secret: String = Text | "",
    }
}

// Hides both, because the address may contain a secret.
lockgate_text::debug_fields!(Webhook);

/// The listeners of the API, and the holders of its roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiConfig {
    /// Served on the clients' address.
    pub on_clients_address: bool,
    /// Served on the operators' address, if separate.
    pub on_own_address: bool,
    pub role_holders: RoleHolders,
    /// Roles that administrators may give to keys besides their own.
    pub grants: Vec<String>,
    pub clients_address: ClientsAddress,
    /// The registry whose remote servers administrators may add.
    pub import_registry: Option<Url>,
}

/// The clients' address of the gateway, as far as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientsAddress {
    /// Set by the operator. If `None`, the base is the address that the caller has used.
    pub public_url: Option<Url>,
    pub has_tls: bool,
    /// The port of clients, and the port of operators if separate.
    pub ports: (u16, Option<u16>),
}

impl ClientsAddress {
    /// Returns the base of endpoint URLs, without a trailing `/`, for a request to this host. Empty
    /// if unknown.
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
