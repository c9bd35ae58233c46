//! `replicas`: an address of this gateway, and names of all gateways. Looks up nothing.

use std::net::{IpAddr, SocketAddr};

use lockgate_proxy::Replicas;
use url::Host;

use super::Check;
use crate::raw::Root;

/// Maximum number of names.
const MAX_PEERS: usize = 64;

impl Check<'_> {
    /// Returns the settings for the connections between gateways; `None` for a single gateway.
    pub fn replicas(
        &mut self,
        root: &Root,
        listener: Option<&lockgate_listener::Config>,
    ) -> Option<Replicas> {
        let given = &root.replicas;
        let Some(address) = &given.address else {
            for key in ["peers", "tls_name"] {
                if self.layers.get(&["replicas", key]).is_some() {
                    let hint = "add it, such as ${POD_IP}, or remove `replicas`";
                    self.error(
                        &["replicas", key],
                        "has no effect without `replicas.address`",
                        hint,
                    );
                }
            }
            return None;
        };
        let listener = listener?;
        let port = listener.listen.port();
        if root.secret.is_none() {
            let hint = "add `secret`, with the same value on every gateway";
            let what = "requires `secret`, which authenticates gateways to each other";
            self.error(&["replicas", "address"], what, hint);
        }
        if given.peers.0.is_empty() {
            let hint = "add the name that resolves to all gateways, such as a headless Service";
            self.error(&["replicas", "peers"], "is required by `replicas.address`", hint);
        }
        if given.peers.0.len() > MAX_PEERS {
            let what = format!("has more than {MAX_PEERS} entries");
            self.error(&["replicas", "peers"], what, "use a name that resolves to several");
        }
        let mut peers = Vec::new();
        for (at, text) in given.peers.0.iter().enumerate() {
            match parse_peer(text, port) {
                Some(peer) => peers.push(peer),
                None => {
                    let hint = "for example gate-peers.tools.svc or 10.0.0.7:3001";
                    self.item_error(&["replicas", "peers"], at, "is not a name or address", hint);
                }
            }
        }
        self.check_peer_tls(given.tls_name.is_some(), listener);
        let Some(address) = parse_address(&address.0, port) else {
            let shown = self.shown(&["replicas", "address"]);
            let hint = "for example 10.0.0.7, 10.0.0.7:3001 or [2001:db8::7]:3001";
            let what = format!("is not a valid address of this gateway{shown}");
            self.error(&["replicas", "address"], what, hint);
            return None;
        };
        let tls_name = given.tls_name.as_ref().map(|name| name.0.clone());
        Some(Replicas { address, peers, tls_name })
    }

    fn check_peer_tls(&mut self, has_name: bool, listener: &lockgate_listener::Config) {
        let Some(tls) = &listener.tls else {
            if has_name {
                let hint = "remove it, or add `http.tls`";
                self.error(&["replicas", "tls_name"], "has no effect without `http.tls`", hint);
            }
            return;
        };
        if !has_name {
            let hint = "add the name in the certificate of `http.tls`";
            self.error(&["replicas", "tls_name"], "is required with `http.tls`", hint);
        }
        if tls.clients.as_ref().is_some_and(|clients| clients.required) {
            let what = "cannot be used with `http.tls.client_auth: required`: gateways have no \
                client certificate";
            let hint = "set it to `optional`, or remove `replicas` and use session affinity";
            self.error(&["replicas", "address"], what, hint);
        }
    }
}

fn parse_address(text: &str, port: u16) -> Option<SocketAddr> {
    let address = match text.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port),
        Err(_) => text.parse().ok()?,
    };
    let is_usable = !address.ip().is_unspecified() && !address.ip().is_multicast();
    (is_usable && address.port() != 0).then_some(address)
}

/// Parses a name or an address, with an optional port.
fn parse_peer(text: &str, port: u16) -> Option<(String, u16)> {
    if let Some(address) = parse_address(text, port) {
        return Some((address.ip().to_string(), address.port()));
    }
    let (name, port) = match text.rsplit_once(':') {
        None => (text, port),
        Some((name, port)) => (name, port.parse().ok()?),
    };
    match Host::parse(name).ok()? {
        Host::Domain(name) if port != 0 => Some((name, port)),
        _ => None,
    }
}
