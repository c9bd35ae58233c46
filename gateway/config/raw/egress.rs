//! `egress`: connections to other hosts.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{List, Seconds, Text, Toggle, Whole};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Egress {
    /// PEM file of certificate authorities, in addition to the system's; relative to this file.
    pub ca_file: Option<Text>,
    /// The HTTP proxy for servers, key sets, webhooks and the collector of spans, and for the `web`
    /// tools unless they have their own. Never used for databases and Redis.
    pub proxy: Option<Proxy>,
    /// Hosts reached without the proxy: `name` (with all names below it), `.name` (only those below
    /// it), an address, a network such as `10.0.0.0/8`, or `*`; each with or without `:port`. This
    /// machine is always reached directly.
    pub no_proxy: List,
    /// Read settings that are missing here from the environment: `HTTPS_PROXY`, `NO_PROXY`,
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    pub from_environment: Toggle<false>,
    /// Time for name lookup, connect and TLS handshake together, 1–300 s.
    pub connect_timeout: Seconds<1, 300, 10>,
    /// Idle connections kept per server, 0–1024.
    pub idle_connections: Whole<0, 1024, 64>,
    /// How long an idle connection is kept, 1–300 s. Should be shorter than the servers' own
    /// timeout, often 5 s, so that no call uses a connection that is being closed.
    pub idle_timeout: Seconds<1, 300, 4>,
    /// Permitted addresses of servers that organisations add: `public`, also `private` networks, or
    /// also this machine (`local`); never link-local and metadata addresses. On a development
    /// gateway of a single machine, this machine is always permitted.
    pub organisations: Reach,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "EgressProxy"))]
pub struct Proxy {
    /// `http://host:port`. Required.
    pub url: Text,
    /// User name, if the proxy requires one.
    pub user: Option<Text>,
    /// Password. A reference: `${PROXY_PASSWORD}` or `file:PATH`.
    pub password: Option<Text>,
}

/// The addresses that organisations may reach; each includes the previous ones.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Reach {
    #[default]
    Public,
    Private,
    Local,
}
