//! The environment that a child needs behind a company's proxy and CA certificates, if its
//! configuration permits it: the gateway's own settings, and variables of its environment.

use std::collections::BTreeMap;

use lockgate_egress::{Config, Connector};

/// Proxies, CA certificates and package indexes, as the common programs name them.
const NAMES: [&str; 27] = [
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_NATIVE_TLS",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "NPM_CONFIG_CAFILE",
    "npm_config_cafile",
];

/// Returns the environment of a child with network access: the child's own variables take
/// precedence over the gateway's configuration, and that over the gateway's environment. Some of
/// the values contain passwords.
pub(crate) fn environment(
    own: &BTreeMap<String, String>,
    config: &Config,
    connector: &Connector,
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for name in NAMES {
        if let Some(value) = variable(name) {
            all.insert(name.to_owned(), value);
        }
    }
    if let Some(route) = &config.route {
        let proxy = route.proxy().secret_url().as_str().trim_end_matches('/');
        for name in ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"] {
            all.insert(name.to_owned(), proxy.to_owned());
        }
        for name in ["NO_PROXY", "no_proxy"] {
            all.insert(name.to_owned(), route.no_proxy());
        }
    }
    if let Some(file) = &config.ca_file {
        let whole = connector.authorities_file().unwrap_or_else(|error| {
            tracing::warn!(%error, "the file of all authorities could not be written; child \
                processes get `egress.ca_file` only");
            file.clone()
        });
        let whole = whole.to_string_lossy();
        for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"] {
            all.insert(name.to_owned(), whole.clone().into_owned());
        }
        // Node adds these to its own CA certificates.
        all.insert("NODE_EXTRA_CA_CERTS".to_owned(), file.to_string_lossy().into_owned());
    }
    all.extend(own.clone());
    all
}

/// Suggests `inherit: [network]` for a child that failed at its start, if the gateway has such a
/// variable and the child does not.
pub(crate) fn explain_withheld(own: &BTreeMap<String, String>) -> Option<String> {
    let mut withheld = NAMES.iter().filter(|name| !own.contains_key(**name));
    let name = withheld.find(|name| variable(name).is_some())?;
    Some(format!(
        "{name} is set but not passed to the server: if it needs the network, set `inherit: \
            [network]` beside its `command`"
    ))
}

/// Names a proxy variable that the gateway does not use, after a failed DNS lookup.
pub(crate) fn explain_unused_proxy(config: &Config) -> Option<String> {
    if config.route.is_some() {
        return None;
    }
    let name = ["HTTPS_PROXY", "https_proxy"].into_iter().find(|name| variable(name).is_some())?;
    Some(format!(
        "{name} is set but not used: if the server is behind that proxy, set `egress: {{ \
            from_environment: true }}`"
    ))
}

#[allow(clippy::disallowed_methods, reason = "a child may inherit these of the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
