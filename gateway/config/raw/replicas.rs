//! `replicas`: connections between gateways that share a secret.

use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{List, Text};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Replicas {
    /// Where the other gateways of this `secret` reach this one: an address, with a port where that
    /// is not the one of `listen`, such as `${POD_IP}`. Answers to questions and the ends of
    /// sessions are then sent to the gateway that holds the call. Needs `replicas.peers` and
    /// `secret`.
    pub address: Option<Text>,
    /// Names or addresses that lead to all gateways, this one included, each with a port where that
    /// is not the one of `listen`; at most 64. A name is looked up whenever something is sent, and
    /// nothing is sent to an address that it does not lead to.
    pub peers: List,
    /// The name in the certificate of all gateways; needed with `http.tls`. `http.hosts` has to
    /// accept it.
    pub tls_name: Option<Text>,
}
