//! `egress`: connections to other hosts, and the operator's HTTP proxies.

use std::path::{Path, PathBuf};

use lockgate_egress::{Config, Direct, Policy, Proxy, Route};
use lockgate_text::percent;
use url::Url;

use super::{Check, is_http};
use crate::raw;
use crate::source::environment::find_first;

/// Conventional variables for the proxy of `https` URLs; the first that is set is used.
pub const PROXY_VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
pub const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

impl Check<'_> {
    /// Returns the settings; organisations may use local addresses if `is_local`.
    pub(super) fn egress(&mut self, raw: &raw::Egress, is_local: bool) -> Config {
        let from_environment = raw.from_environment;
        let proxy = match &raw.proxy {
            Some(given) => {
                let credentials = (given.user.as_deref(), given.password.as_deref());
                self.http_proxy("egress.proxy", &given.url, credentials)
            }
            None if from_environment => self.proxy_of_environment(),
            None => None,
        };
        let direct = self.direct(raw);
        if proxy.is_none() && !raw.no_proxy.is_empty() && !from_environment {
            self.error("egress.no_proxy", "has no effect without `proxy`", "remove it");
        }
        Config {
            ca_file: raw.ca_file.as_ref().map(|file| self.authorities(file)),
            from_environment,
            route: proxy.map(|proxy| Route::new(proxy, direct)),
            connect_timeout: raw.connect_timeout,
            idle_connections: raw.idle_connections,
            idle_timeout: raw.idle_timeout,
            organisations: Policy::Organisation {
                private: raw.organisations != raw::Reach::Public,
                loopback: is_local || raw.organisations == raw::Reach::Local,
            },
        }
    }

    /// Checks that a file contains CA certificates.
    fn authorities(&mut self, file: &Path) -> PathBuf {
        let path = "egress.ca_file";
        let file = self.file(path, file);
        if file.is_file()
            && let Err(words) = lockgate_egress::check_authorities(&file)
        {
            let what = format!("cannot be used: {words}{}", self.shown(path));
            self.error(path, what, "use a PEM file with certificates of authorities");
        }
        file
    }

    /// Checks a proxy with settings below `key`.
    pub(super) fn http_proxy(
        &mut self,
        key: &str,
        url: &str,
        (user, password): (Option<&str>, Option<&str>),
    ) -> Option<Proxy> {
        let url = Url::parse(url).ok().filter(is_proxy);
        if url.is_none() {
            let hint =
                "such as http://proxy.example.com:3128; user and password have separate keys";
            self.error(&format!("{key}.url"), "must be http://host:port", hint);
        }
        let user_key = format!("{key}.user");
        if user.is_none() && password.is_some() {
            self.error(&user_key, "is required with `password`", "set the user name");
        }
        if user.is_some_and(|user| user.contains(':')) {
            self.error(&user_key, "must not contain a colon", "the password has a separate key");
        }
        let credentials = user.map(|user| (user, password.unwrap_or("")));
        let hint = "user and password must be text without control characters";
        Proxy::new(&url?, credentials, false)
            .map_err(|error| self.error(key, error.to_string(), hint))
            .ok()
    }

    fn proxy_of_environment(&mut self) -> Option<Proxy> {
        let (name, text) = find_first(&self.sources.env, PROXY_VARIABLES)?;
        let scheme = if text.contains("://") { "" } else { "http://" };
        let proxy = read_proxy(&format!("{scheme}{text}"));
        if proxy.is_none() {
            let what = format!("{name} is not http://host:port or http://user:password@host:port");
            let hint = "correct the variable, or set the proxy in `egress.proxy`";
            self.error("egress.from_environment", what, hint);
        }
        proxy
    }

    fn direct(&mut self, raw: &raw::Egress) -> Vec<Direct> {
        let what = "must be a host, an address, a network or `*`";
        let hint = "such as corp.example.com, 10.0.0.0/8 or db.example.com:8443";
        let mut all = self.items("egress.no_proxy", &raw.no_proxy, (what, hint), Direct::parse);
        let found = find_first(&self.sources.env, NO_PROXY_VARIABLES);
        let Some((name, text)) = found.filter(|_| raw.from_environment) else { return all };
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let direct = Direct::parse(entry);
            if direct.is_none() {
                let what =
                    format!("{name} contains `{entry}`, which is not a host, address or network");
                let hint = "correct the variable, or list the hosts in `egress.no_proxy`";
                self.error("egress.from_environment", what, hint);
            }
            all.extend(direct);
        }
        all
    }
}

/// Checks for `http://host:port` without other parts.
fn is_proxy(url: &Url) -> bool {
    is_http(url)
        && url.scheme() == "http"
        && url.username().is_empty()
        && url.password().is_none()
        && matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none()
}

fn read_proxy(text: &str) -> Option<Proxy> {
    let (url, credentials) = split_credentials(Url::parse(text).ok()?)?;
    if !is_proxy(&url) {
        return None;
    }
    let credentials = credentials.as_ref().map(|(user, password)| (&**user, &**password));
    Proxy::new(&url, credentials, false).ok()
}

type Credentials = (String, String);

/// Separates user and password from a URL.
fn split_credentials(mut url: Url) -> Option<(Url, Option<Credentials>)> {
    if url.username().is_empty() && url.password().is_none() {
        return Some((url, None));
    }
    let user = percent_decoded(url.username())?;
    let password = percent_decoded(url.password().unwrap_or(""))?;
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some((url, Some((user, password))))
}

fn percent_decoded(text: &str) -> Option<String> {
    String::from_utf8(percent::decode_strictly(text)?).ok()
}
