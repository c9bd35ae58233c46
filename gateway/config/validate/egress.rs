//! `egress`: connections to other hosts, and the operator's HTTP proxies.

use std::path::{Path, PathBuf};

use lockgate_egress::{Config, Direct, Policy, Proxy, Reach, Route};
use url::Url;

use super::Check;
use crate::source::environment::is_proxy;

impl Check<'_> {
    /// Returns the settings; organisations may use local addresses if `is_local`.
    pub(super) fn egress(&mut self, is_local: bool) -> Config {
        let raw = &self.root.egress;
        let proxy = raw.proxy.as_ref().and_then(|given| {
            let credentials = (given.user.as_deref(), given.password.as_deref());
            self.http_proxy("egress.proxy", &given.url, credentials)
        });
        let what = "must be a host, an address, a network or `*`";
        let hint = "such as corp.example.com, 10.0.0.0/8 or db.example.com:8443";
        let direct = self.items("egress.no_proxy", &raw.no_proxy, (what, hint), Direct::parse);
        if proxy.is_none() && !raw.no_proxy.is_empty() && !raw.from_environment {
            self.error("egress.no_proxy", "has no effect without `proxy`", "remove it");
        }
        Config {
            ca_file: raw.ca_file.as_ref().map(|file| self.authorities(file)),
            route: proxy.map(|proxy| Route::new(proxy, direct)),
            organisations: Policy::Organisation {
                private: raw.reach != Reach::Public,
                loopback: is_local || raw.reach == Reach::Local,
            },
            ..raw.clone()
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
}
