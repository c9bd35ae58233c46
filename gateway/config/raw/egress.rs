//! `egress`: connections to other hosts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{List, Seconds, Text, Toggle, Whole};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Egress {
    /// PEM file of further certificate authorities, besides the system's; relative to this file.
    pub ca_file: Option<Text>,
    /// The HTTP proxy that servers, key sets, webhooks and the collector of spans are reached
    /// through, and the `web` tools unless they have one of their own. Databases and Redis never
    /// are.
    pub proxy: Option<Proxy>,
    /// What is reached without the proxy: `name` (with all names below it), `.name` (those below it
    /// alone), an address, a network such as `10.0.0.0/8`, or `*`; each with `:port` or without.
    /// This machine always is.
    pub no_proxy: List,
    /// Take from the environment what is not said here: `HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`
    /// and `SSL_CERT_DIR`.
    pub from_environment: Toggle<false>,
    /// Time for name lookup, connect and TLS handshake together, 1–300 s.
    pub connect_timeout: Seconds<1, 300, 10>,
    /// Idle connections kept per server, 0–1024.
    pub idle_connections: Whole<0, 1024, 64>,
    /// How long an idle connection is kept, 1–300 s. Shorter than servers keep theirs, many of them
    /// 5 s, so that no call meets one which is being closed.
    pub idle_timeout: Seconds<1, 300, 4>,
    /// Where servers that organisations add may be: at `public` addresses, in `private` networks
    /// too, or on this machine too (`local`); never at link-local and metadata addresses. On a
    /// development gateway of one machine they may be there in any case.
    pub organisations: Reach,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "EgressProxy")]
pub struct Proxy {
    /// `http://host:port`. Needed.
    pub url: Text,
    /// User name, if the proxy wants one.
    pub user: Option<Text>,
    /// Password. A reference: `${PROXY_PASSWORD}` or `file:PATH`.
    pub password: Option<Text>,
}

/// Which addresses organisations reach; each has those before it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Reach {
    #[default]
    Public,
    Private,
    Local,
}
