//! `store`, `redis` and `replicas`: state that gateways share. Opens and looks up nothing.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use lockgate_listener::ClientAuth;
use lockgate_proxy::Replicas;
use lockgate_store::{Config, StorePlace};
use url::Host;

use super::Check;
use crate::loaded::Sources;
use crate::raw::{Redis, Root};
use crate::source::environment::find_set;
use crate::suggest;

/// The maximum that is tried for a credential.
const MAX_KEYS: usize = 8;
const FOLDER: &str = ".lockgate";
const FILE: &str = "lockgate.db";
/// The generated key's file, beside the SQLite file.
const KEY: &str = "vault.key";
const STRICTEST: &str = "verify-full";
const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", STRICTEST];

impl Check<'_> {
    /// Checks the store; `makes_key` is set if the gateway may create a key itself.
    pub fn store(&mut self, own: Option<&Path>, makes_key: bool) -> Config {
        let raw = &self.root.store;
        let path = "store.keys";
        let hint = "run `lockgate vault rotate`, then remove the last";
        self.at_most(path, raw.keys.0.len(), MAX_KEYS, hint);
        self.long_secrets(path, &raw.keys.0);
        let place = match (&raw.url, &raw.file) {
            (Some(_), Some(_)) => {
                let hint = "remove one of them";
                self.error("store.file", "is not used with `store.url`", hint);
                StorePlace::File(PathBuf::new())
            }
            (Some(url), None) => self.store_url(url),
            (None, Some(file)) => StorePlace::File(file.clone()),
            (None, None) => StorePlace::File(default_file(self.sources, own)),
        };
        let own_key = match &place {
            StorePlace::File(file) if raw.keys.0.is_empty() => Some(file.with_file_name(KEY)),
            _ => None,
        };
        Config { place, own_key, makes_key, ..raw.clone() }
    }

    fn store_url(&mut self, text: &str) -> StorePlace {
        let Some(url) = parse_postgres(text) else {
            let hint = "for example postgres://USER:PASSWORD@HOST/DATABASE; for a SQLite file use \
                `store.file`";
            self.error("store.url", "must be a PostgreSQL address", hint);
            return StorePlace::Postgres(text.to_owned());
        };
        let mode = find_parameter(&url, &["sslmode", "ssl-mode"]);
        if let Some(mode) = &mode {
            self.ssl_mode(mode, is_on_this_machine(&url));
        }
        StorePlace::Postgres(match mode {
            None if !is_on_this_machine(&url) => demand_certificate(text),
            _ => text.to_owned(),
        })
    }

    fn ssl_mode(&mut self, mode: &str, is_near: bool) {
        let key = "store.url";
        if !SSL_MODES.contains(&mode) {
            let what = "has an unknown `sslmode`";
            self.error(key, what, suggest::one_of(&SSL_MODES));
        } else if mode != STRICTEST && !is_near {
            let what =
                "has an `sslmode` that lets an attacker on the network impersonate the database";
            let hint = "remove it, or use sslmode=verify-full; set `sslrootcert` to the file of a \
                private authority";
            self.warning(key, what, hint);
        }
    }
}

fn parse_postgres(text: &str) -> Option<url::Url> {
    let url = url::Url::parse(text).ok()?;
    let is_fit = matches!(url.scheme(), "postgres" | "postgresql") && url.host().is_some();
    is_fit.then_some(url)
}

/// Returns whether the database is on this machine, at a loopback address or a socket path.
fn is_on_this_machine(url: &url::Url) -> bool {
    let host = find_parameter(url, &["host", "hostaddr"])
        .unwrap_or_else(|| url.host_str().unwrap_or("").to_owned());
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.starts_with('/') || host.starts_with("%2f"),
    }
}

/// Returns the last value of these parameters.
fn find_parameter(url: &url::Url, names: &[&str]) -> Option<String> {
    let pairs = url.query_pairs().filter(|(name, _)| names.contains(&&**name));
    pairs.last().map(|(_, value)| value.into_owned())
}

/// Adds the strictest certificate check, because the client's default would be weaker.
fn demand_certificate(url: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}sslmode={STRICTEST}")
}

/// Returns the default file: in a service's state directory, beside the configuration file, or in
/// the user's data folder.
fn default_file(sources: &Sources, own: Option<&Path>) -> PathBuf {
    let env = &sources.env;
    if let Some(folders) = find_set(env, "STATE_DIRECTORY") {
        let first = folders.split(':').next().unwrap_or("");
        return Path::new(first).join(FILE);
    }
    if let Some(own) = own
        && let Some(folder) = own.parent()
    {
        return folder.join(FOLDER).join(FILE);
    }
    match (find_set(env, "XDG_DATA_HOME"), find_set(env, "HOME")) {
        (Some(folder), _) => Path::new(folder).join("lockgate").join(FILE),
        (None, Some(home)) => Path::new(home).join(".local/share/lockgate").join(FILE),
        (None, None) => sources.cwd.join(FOLDER).join(FILE),
    }
}

// `redis`: a valid address, and the secret shared by all gateways.

const PREFIX: &str = "lockgate";
const PREFIX_BYTES: usize = 64;

impl Check<'_> {
    /// Returns the shared store of rates; `None` if each gateway counts for itself.
    pub fn redis(&mut self) -> Option<lockgate_limits::Config> {
        let Root { redis: Redis { url, prefix }, secret, old_secrets, .. } = self.root;
        let Some(url) = url else {
            if prefix.is_some() {
                let hint = "add it, or remove `redis.prefix`";
                self.error("redis.prefix", "has no effect without `redis.url`", hint);
            }
            return None;
        };
        let prefix = prefix.as_deref().unwrap_or(PREFIX);
        if !(1..=PREFIX_BYTES).contains(&prefix.len()) || !prefix.bytes().all(is_plain) {
            let what = format!("must be 1 to {PREFIX_BYTES} letters, digits and -_.:");
            self.error("redis.prefix", what, "for example lockgate-production");
        }
        // The oldest of the ring: a new secret reaches all gateways before it is first anywhere.
        let oldest = old_secrets.last().or(secret.as_ref()).map_or("", String::as_str);
        if secret.is_none() {
            let hint = "add `secret`, with the same value on every gateway";
            let what = "requires `secret`, which is used to hash callers in the store";
            self.error("redis.url", what, hint);
        }
        let hint = "for example redis://:PASSWORD@HOST:6379/0, with TLS rediss://";
        lockgate_limits::Config::new(url, prefix, oldest)
            .map_err(|error| self.error("redis.url", error.to_string(), hint))
            .ok()
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte)
}

// `replicas`: an address of this gateway, and names of all gateways.

/// Maximum number of names.
const MAX_PEERS: usize = 64;

impl Check<'_> {
    /// Returns the settings for the connections between gateways; `None` for a single gateway.
    pub fn replicas(&mut self, listener: Option<&lockgate_listener::Config>) -> Option<Replicas> {
        let given = &self.root.replicas;
        let Some(address) = &given.address else {
            for key in ["replicas.peers", "replicas.tls_name"] {
                if self.given(key).is_some() {
                    let hint = "add it, such as ${POD_IP}, or remove `replicas`";
                    self.error(key, "has no effect without `replicas.address`", hint);
                }
            }
            return None;
        };
        let listener = listener?;
        let port = listener.listen.port();
        if self.root.secret.is_none() {
            let hint = "add `secret`, with the same value on every gateway";
            let what = "requires `secret`, which authenticates gateways to each other";
            self.error("replicas.address", what, hint);
        }
        let path = "replicas.peers";
        let names = &given.peers;
        if names.is_empty() {
            let hint = "add the name that resolves to all gateways, such as a headless Service";
            self.error(path, "is required by `replicas.address`", hint);
        }
        self.at_most(path, names.len(), MAX_PEERS, "use a name that resolves to several");
        let hint = "for example gate-peers.tools.svc or 10.0.0.7:3001";
        let wrong = ("is not a name or address", hint);
        let peers = self.items(path, names, wrong, |text| parse_peer(text, port));
        self.check_peer_tls(given.tls_name.is_some(), listener);
        let Some(address) = parse_address(address, port) else {
            let hint = "for example 10.0.0.7, 10.0.0.7:3001 or [2001:db8::7]:3001";
            let what = "is not a valid address of this gateway";
            self.wrong_value("replicas.address", what, hint);
            return None;
        };
        Some(Replicas { address, peers, tls_name: given.tls_name.clone() })
    }

    fn check_peer_tls(&mut self, has_name: bool, listener: &lockgate_listener::Config) {
        let Some(tls) = &listener.http.tls else {
            if has_name {
                let hint = "remove it, or add `http.tls`";
                self.error("replicas.tls_name", "has no effect without `http.tls`", hint);
            }
            return;
        };
        if !has_name {
            let hint = "add the name in the certificate of `http.tls`";
            self.error("replicas.tls_name", "is required with `http.tls`", hint);
        }
        if tls.client_ca.is_some() && tls.client_auth == ClientAuth::Required {
            let what = "cannot be used with `http.tls.client_auth: required`: gateways have no \
                client certificate";
            let hint = "set it to `optional`, or remove `replicas` and use session affinity";
            self.error("replicas.address", what, hint);
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
