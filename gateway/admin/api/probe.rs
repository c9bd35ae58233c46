//! Servers that are tried: what is asked of the rest of the program, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use url::Url;
use utoipa::ToSchema;

/// Servers of one organisation that are tried at once.
pub(crate) const PROBES: usize = 4;

/// A server to try. It holds secrets, and so has no Debug.
pub struct Candidate {
    pub organisation: Arc<str>,
    pub slug: String,
    pub url: Url,
    /// The operator chose the address, in the catalogue.
    pub is_predefined: bool,
    pub headers: BTreeMap<String, String>,
}

/// How many of each a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Offered {
    pub tools: usize,
    pub resources: usize,
    pub prompts: usize,
}

/// The stages on the way to a server that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProbeStage {
    Dns,
    Connect,
    Tls,
    Http,
    Auth,
    Handshake,
    List,
}

/// In the place of an address.
const HIDDEN: &str = "the server's host";

/// Why a server does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    pub stage: ProbeStage,
    /// Without what is secret.
    pub words: String,
}

impl ProbeFailure {
    /// The same without a host and its port, which the caller does not know.
    pub(crate) fn without(self, host: &str, port: Option<u16>) -> Self {
        let mut words = self.words;
        if let Some(port) = port {
            words = words.replace(&format!("{host}:{port}"), HIDDEN);
        }
        Self { words: words.replace(host, HIDDEN), ..self }
    }
}

impl ProbeStage {
    /// What failed, for programs.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Dns | Self::Connect | Self::Tls => "connection",
            Self::Auth => "authentication",
            Self::Http | Self::Handshake | Self::List => "validation",
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Auth => "auth",
            Self::Handshake => "handshake",
            Self::List => "list",
        }
    }
}
