//! `builtin.web`: compiles its rule, and checks networks, headers and proxy.

use lockgate_policy::url::{Spec, Url as Rule};
use lockgate_tools::Web;

use super::super::Check;

impl Check<'_> {
    pub(super) fn web(&mut self, given: &Web) -> Web {
        let mut web = given.clone();
        if web.hosts.is_empty() && !web.any_host {
            let hint = "set hosts, such as hosts: [api.example.com, \"*.example.org\"], or \
                any_host: true for any public host";
            self.error(&["builtin", "web", "hosts"], "no host can be reached", hint);
        }
        self.networks(&["builtin", "web", "addresses"], &web.addresses);
        self.check_methods(&web.methods);
        web.methods = Web::METHODS.map(str::to_owned).to_vec();
        web.methods.retain(|method| given.methods.contains(method));
        if let Some(proxy) = &web.proxy {
            let credentials = (proxy.user.as_deref(), proxy.password.as_deref());
            self.http_proxy(&["builtin", "web", "proxy"], &proxy.url, credentials);
        }
        self.web_rule(&web);
        web
    }

    /// Reports mistakes that the layer itself would reject at the start.
    fn web_rule(&mut self, web: &Web) {
        let are_known = web.schemes.iter().all(|scheme| scheme == "http" || scheme == "https");
        if !are_known || web.schemes.is_empty() {
            self.error(
                &["builtin", "web", "schemes"],
                "must be http, https or both",
                "remove it for both",
            );
        }
        for (at, host) in web.hosts.iter().enumerate() {
            let spec = Spec { hosts: vec![host.clone()], ..Spec::default() };
            if Rule::compile(&spec).is_err() {
                let hint = "use api.example.com or *.example.com; `any_host` allows all hosts, \
                    and `addresses` contains addresses";
                self.item_error(&["builtin", "web", "hosts"], at, "is not a host name", hint);
            }
        }
        for (at, name) in web.headers.iter().enumerate() {
            if let Err(words) = Web::check_header(name) {
                self.item_error(&["builtin", "web", "headers"], at, &words, "remove it");
            }
        }
        if web.user_agent.is_empty()
            || !web.user_agent.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
        {
            let what = "must be printable ASCII characters";
            self.error(&["builtin", "web", "user_agent"], what, "such as MyAgency/1.0");
        }
    }

    fn check_methods(&mut self, given: &[String]) {
        let key = ["builtin", "web", "methods"];
        for (at, method) in given.iter().enumerate() {
            if !Web::METHODS.contains(&method.as_str()) {
                let hint = "use GET, POST, PUT, PATCH, DELETE or HEAD";
                self.item_error(&key, at, "is not a supported method", hint);
            }
        }
        if given.is_empty() {
            self.error(&key, "must name at least one method", "remove it for all");
        }
    }
}
