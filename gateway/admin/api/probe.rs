//! Tests of servers: the input for the rest of the program, and the result.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use url::Url;

/// Limit on concurrent tests of an organisation.
pub(crate) const MAX_PROBES: usize = 4;

/// A server to test. Contains secrets, so it has no `Debug`.
pub struct Candidate {
    pub organisation: Arc<str>,
    pub slug: String,
    pub url: Url,
    /// The address is from the operator's catalogue.
    pub is_predefined: bool,
    pub headers: BTreeMap<String, String>,
    /// Members have their own credentials, so that the server may refuse this test.
    pub is_of_members: bool,
}

/// The number of items that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Offered {
    pub tools: usize,
    pub resources: usize,
    pub prompts: usize,
}

lockgate_text::words! {
    /// The stages of connecting to a server.
    #[derive(Serialize)]
    #[cfg_attr(test, derive(utoipa::ToSchema))]
    #[serde(rename_all = "lowercase")]
    pub enum ProbeStage {
        Dns = "dns",
        Connect = "connect",
        Tls = "tls",
        Http = "http",
        Auth = "auth",
        Handshake = "handshake",
        List = "list",
    }
}

/// Replaces an address in messages.
const HIDDEN: &str = "the server's host";

/// The reason why a server does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    pub stage: ProbeStage,
    /// The message, without secrets.
    pub words: String,
}

impl ProbeFailure {
    /// Removes a host and its port, which the caller may not see, from the message.
    pub(crate) fn without(self, host: &str, port: Option<u16>) -> Self {
        let mut words = self.words;
        if let Some(port) = port {
            words = words.replace(&format!("{host}:{port}"), HIDDEN);
        }
        Self { words: words.replace(host, HIDDEN), ..self }
    }
}

impl ProbeStage {
    /// Returns the kind of failure, for programs.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Dns | Self::Connect | Self::Tls => "connection",
            Self::Auth => "authentication",
            Self::Http | Self::Handshake | Self::List => "validation",
        }
    }
}
