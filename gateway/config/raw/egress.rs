//! `egress`: how the gateway reaches other hosts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{Seconds, Text, Whole};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Egress {
    /// PEM file of further certificate authorities, besides the system's; relative to this file.
    pub ca_file: Option<Text>,
    /// Time for name lookup, connect and TLS handshake together, 1–300 s.
    pub connect_timeout: Seconds<1, 300, 10>,
    /// Idle connections kept per server, 0–1024.
    pub idle_connections: Whole<0, 1024, 64>,
    /// How long an idle connection is kept, 1–300 s.
    pub idle_timeout: Seconds<1, 300, 60>,
    /// Where servers that organisations add may be: at `public` addresses, in `private` networks
    /// too, or on this machine too (`local`); never at link-local and metadata addresses. On a
    /// development gateway of one machine they may be there in any case.
    pub organisations: Reach,
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
