//! `listen`, `http` and `admin`: the gateway's addresses, and the rule that only loopback is bound
//! while callers cannot authenticate.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use lockgate_admin::ClientsAddress;
use lockgate_authn::{Holder, RoleHolders};
use lockgate_egress::parse_network;
use lockgate_listener::HttpSettings;

use super::Check;
use crate::problem::ValuePlace;
use crate::raw::{self, Root};

/// Maximum length of a role name, in bytes.
const MAX_ROLE: usize = 256;

impl Check<'_> {
    pub fn listener(&mut self, has_key: bool) -> Option<lockgate_listener::Config> {
        let listen = self.address("listen", &self.root.listen, has_key);
        let mut http = self.root.http.clone();
        self.check_tls(&http);
        // The listener does not depend on these settings.
        http.public_url = None;
        http.privileged_ports = false;
        http.connections_per_address = Some(http.most_of_address());
        http.hosts = self.hosts(&http.hosts);
        http.origins = self.origins(&http.origins);
        // Without a credential the address is not bound, and only that mistake matters.
        if let Some(listen) = listen
            && has_key
        {
            self.exposed(listen, &http);
        }
        Some(lockgate_listener::Config {
            listen: listen?,
            audience: lockgate_listener::Audience::Clients,
            trusted_proxies: lockgate_listener::TrustedProxies {
                networks: self.networks("http.trusted_proxies", &http.trusted_proxies),
                header: http.forwarded_header,
            },
            // A gateway on a development machine has no load balancer in front.
            drains_when_idle: self.production || self.given("http.drain").is_some(),
            http,
        })
    }

    pub fn admin(&mut self, main: Option<SocketAddr>, has_key: bool) -> lockgate_admin::Config {
        let Root { admin: raw, http, approvals, .. } = self.root;
        let path = "admin.listen";
        let listen = raw.listen.as_ref().and_then(|text| self.address(path, text, has_key));
        if let Some(listen) = listen
            && listen.port() != 0
            && main == Some(listen)
        {
            let hint = "use another port, or remove it to share the address";
            self.error(path, "is the address of `listen`", hint);
        }
        // Behind a proxy, all requests come from this machine.
        let is_private =
            matches!(main, Some(main) if is_loopback(main.ip())) && !is_behind_proxy(http);
        let trusts_local = is_private && !self.production;
        let import_registry = raw.import_registry.as_ref();
        let api = lockgate_admin::ApiConfig {
            on_clients_address: match raw.api {
                raw::ApiPlace::Auto => !self.production,
                raw::ApiPlace::Everywhere => true,
                raw::ApiPlace::Off => false,
            },
            on_own_address: raw.api != raw::ApiPlace::Off,
            role_holders: RoleHolders {
                trusts_local,
                operators: self.holders("operators", raw.operators.as_deref(), "operator"),
                admins: self.holders("admins", raw.admins.as_deref(), "admin"),
            },
            grants: self.grants(&raw.grants),
            clients_address: ClientsAddress::default(),
            import_registry: import_registry
                .and_then(|url| self.remote_url("admin.import_registry", url)),
        };
        let scrape_token = self.scrape_token(raw.scrape_token.as_deref());
        lockgate_admin::Config {
            listen,
            webhook: approvals.webhook.clone(),
            api,
            ready: raw.ready,
            scrape_token,
        }
    }

    /// Returns the roles that administrators may give to keys. Keys with a higher role than their
    /// creator are refused regardless of this setting.
    fn grants(&mut self, raw: &[String]) -> Vec<String> {
        let wrong = ("is not the name of a role", "write the name of a role, of 1 to 256 bytes");
        self.items("admin.grants", raw, wrong, |role| {
            let is_fit = (1..=MAX_ROLE).contains(&role.len()) && !role.contains(char::is_control);
            is_fit.then(|| role.to_owned())
        })
    }

    /// Returns the holders of an API role; by default, API keys with the role named `default`.
    fn holders(&mut self, key: &str, raw: Option<&[String]>, default: &str) -> Vec<Holder> {
        let Some(raw) = raw else { return vec![Holder::of_key(default)] };
        let what = "is not a valid role, principal or certificate";
        let hint = "write role:NAME, principal:ISSUER|SUBJECT or certificate:dns:NAME";
        self.items(&format!("admin.{key}"), raw, (what, hint), Holder::parse)
    }

    fn address(&mut self, path: &str, text: &str, has_key: bool) -> Option<SocketAddr> {
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_string(),
        };
        let Ok(address) = numeric.parse::<SocketAddr>() else {
            let hint = "such as 127.0.0.1:3001, [::1]:3001, or 0.0.0.0:3001 for every interface";
            self.wrong_value(path, "must be ADDRESS:PORT", hint);
            return None;
        };
        let hint = match address.port() {
            0 if matches!(self.layers.place(&self.path(path)), ValuePlace::Flag(_)) => None,
            0 => Some("port 0 (any free port) is only accepted on the command line"),
            1..1024 if !self.root.http.privileged_ports => {
                Some("use a higher port, or set `http.privileged_ports: true`")
            }
            _ => None,
        };
        if let Some(hint) = hint {
            self.wrong_value(path, "the port must be from 1024 to 65535", hint);
        }
        if !has_key && !is_loopback(address.ip()) && !self.is_damaged("auth") {
            let what = "without `auth.key` only a loopback address may be bound";
            let hint = "set `auth.key: \"${LOCKGATE_KEY}\"` or another credential of `auth`, or \
                bind 127.0.0.1";
            self.wrong_value(path, what, hint);
        }
        Some(address)
    }

    /// Warns of probable oversights if others can reach the gateway.
    fn exposed(&mut self, listen: SocketAddr, http: &HttpSettings) {
        if is_loopback(listen.ip()) {
            return;
        }
        if http.tls.is_none() && !self.is_damaged("http.tls") {
            let hint = "set `http.tls`, or put a proxy with TLS in front";
            self.warning("listen", "the key crosses the network unencrypted", hint);
        }
        if listen.ip().is_unspecified() && http.hosts.is_empty() {
            let what = "requests with a host name are rejected";
            self.warning("listen", what, "add the host name to `http.hosts`");
        }
    }

    /// Reports mistakes in TLS files that would prevent the start.
    fn check_tls(&mut self, http: &HttpSettings) {
        let Some(tls) = &http.tls else { return };
        let files = [
            ("cert", Some(&tls.cert)),
            ("key", Some(&tls.key)),
            ("client_ca", tls.client_ca.as_ref()),
        ];
        let mut are_complete = true;
        for (name, file) in files {
            let path = format!("http.tls.{name}");
            let Some(file) = file else { continue };
            are_complete &= file.is_file();
            if file.as_os_str().is_empty() && name != "client_ca" {
                let what = "is required: TLS needs both `cert` and `key`";
                self.absent(&path, what, "set it to a PEM file");
            } else {
                self.file(&path, file);
            }
        }
        if are_complete && let Err(error) = tls.check() {
            let hint = "use PEM files: a certificate with its chain, its key, and authorities";
            self.error("http.tls", error.to_string(), hint);
        }
    }

    fn hosts(&mut self, hosts: &[String]) -> Vec<String> {
        let hint = "use a name such as mcp.example.com, or a single * for any";
        self.items("http.hosts", hosts, ("is not a host name", hint), |host| {
            let is_name = (1..=255).contains(&host.len()) && has_host_characters(host);
            (host == "*" || is_name).then(|| host.to_ascii_lowercase())
        })
    }

    /// Parses networks. An address is a network of a single host.
    pub fn networks(&mut self, path: &str, list: &[String]) -> Vec<IpNet> {
        let wrong = ("is not an address or network", "such as 10.1.2.3 or 10.1.0.0/16");
        self.items(path, list, wrong, parse_network)
    }

    fn origins(&mut self, origins: &[String]) -> Vec<String> {
        let hint = "write scheme://host or scheme://host:port without a path";
        self.items("http.origins", origins, ("is not an origin", hint), |origin| {
            is_origin(origin).then(|| origin.to_ascii_lowercase())
        })
    }
}

/// Returns whether the configuration implies a reverse proxy in front.
fn is_behind_proxy(http: &HttpSettings) -> bool {
    !http.hosts.is_empty() || http.public_url.is_some() || !http.trusted_proxies.is_empty()
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else {
        return false;
    };
    !scheme.is_empty()
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        && !host.is_empty()
        && has_host_characters(host)
        && url::Url::parse(text).is_ok()
}

/// Checks the characters of a host name or address, with a port.
fn has_host_characters(host: &str) -> bool {
    host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b))
}
