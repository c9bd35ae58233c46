//! `replicas`: connections between gateways that share a secret.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{List, Text};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Replicas {
    /// Address at which the other gateways with this `secret` reach this one, with a port if it
    /// differs from that of `listen`, such as `${POD_IP}`. Answers to questions and the ends of
    /// sessions are then sent to the gateway that holds the call. Requires `replicas.peers` and
    /// `secret`.
    pub address: Option<Text>,
    /// Names or addresses that resolve to all gateways, including this one, each with a port if it
    /// differs from that of `listen`; at most 64. A name is resolved for each message, and nothing
    /// is sent to any other address.
    pub peers: List,
    /// The name in the certificate of all gateways; required with `http.tls`. `http.hosts` must
    /// accept it.
    pub tls_name: Option<Text>,
}
