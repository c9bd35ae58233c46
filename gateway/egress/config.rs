//! The configuration of outbound connections. Reads no files and no environment.

use std::path::PathBuf;
use std::time::Duration;

use lockgate_text::setting::{List, Seconds, Text, Toggle, Whole};
use lockgate_text::settings;

use crate::address::Policy;
use crate::proxy::Route;

settings! {
    // How the gateway reaches other hosts.

    pub struct Config as "Egress" {
        /// PEM file of certificate authorities, in addition to the system's; relative to this file.
        pub ca_file: Option<PathBuf> = Option<Text>,
        /// The HTTP proxy for servers, key sets, webhooks and the collector of spans, and for the
        /// `web` tools unless they have their own. Never used for databases and Redis.
        pub proxy: Option<ProxySettings>,
        /// Hosts reached without the proxy: `name` (with all names below it), `.name` (only those
        /// below it), an address, a network such as `10.0.0.0/8`, or `*`; each with or without
        /// `:port`. This machine is always reached directly.
        pub no_proxy: Vec<String> = List,
        /// Read settings that are missing here from the environment: `HTTPS_PROXY`, `NO_PROXY`,
        /// `SSL_CERT_FILE` and `SSL_CERT_DIR`.
        pub from_environment: bool = Toggle<false>,
        /// Time for name lookup, connect and TLS handshake together, 1–300 s.
        pub connect_timeout: Duration = Seconds<1, 300, 10>,
        /// Idle connections kept per server, 0–1024.
        pub idle_connections: usize = Whole<0, 1024, 128>,
        /// How long an idle connection is kept, 1–300 s. Should be shorter than the servers' own
        /// timeout, often 5 s, so that no call uses a connection that is being closed.
        pub idle_timeout: Duration = Seconds<1, 300, 4>,
        /// Permitted addresses of servers that organisations add: `public`, also `private`
        /// networks, or also this machine (`local`); never link-local and metadata addresses. On a
        /// development gateway of a single machine, this machine is always permitted.
        @serde(rename = "organisations")
        pub reach: Reach,
        /// The proxy and its exceptions. Databases and stores never use it.
        @serde(skip)
        pub route: Option<Route>,
        /// The permitted addresses of organisations' servers.
        @serde(skip)
        pub organisations: Policy,
    }

    pub struct ProxySettings as "EgressProxy" {
        /// `http://host:port`. Required.
        pub url: String = Text,
        /// User name, if the proxy requires one.
        pub user: Option<String> = Option<Text>,
        /// Password. A reference: `${PROXY_PASSWORD}` or `file:PATH`.
        pub password: Option<String> = Option<Text>,
    }

    /// The addresses that organisations may reach; each includes the previous ones.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Reach { #[default] Public, Private, Local }
}

// Hides the credentials of the proxy.
lockgate_text::debug_fields!(
    Config: ca_file, from_environment, route, connect_timeout, idle_connections, idle_timeout,
    organisations
);
