//! `builtin.web`: compiles its rule, and checks networks, headers and proxy.

use lockgate_egress::Proxy;
use lockgate_policy::url::{Spec, Url as Rule};
use lockgate_tools::Web;

use super::super::Check;
use crate::raw::builtin::web as raw;
use crate::raw::given::{list_or, owned, text_or};

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
const HEADERS: [&str; 15] = [
    "accept",
    "accept-language",
    "authorization",
    "cache-control",
    "content-language",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "prefer",
    "range",
    "x-api-key",
    "x-request-id",
];
const USER_AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"));

impl Check<'_> {
    pub(super) fn web(&mut self, raw: &raw::Web) -> Web {
        if raw.hosts.0.is_empty() && !raw.any_host.0 {
            let hint = "set hosts, such as hosts: [api.example.com, \"*.example.org\"], or \
                any_host: true for any public host";
            self.error(&["builtin", "web", "hosts"], "no host can be reached", hint);
        }
        let networks = self.networks(&["builtin", "web", "addresses"], &raw.addresses);
        let methods = self.web_methods(&list_or(&raw.methods, &METHODS));
        let mut headers = list_or(&raw.headers, &HEADERS);
        for name in &mut headers {
            name.make_ascii_lowercase();
        }
        let proxy = match &raw.proxy {
            Some(proxy) => self.web_proxy(proxy),
            None => None,
        };
        let mut ports = Vec::with_capacity(raw.ports.len());
        for port in &raw.ports {
            ports.push(u16::try_from(port.get()).unwrap_or(u16::MAX));
        }
        let web = Web {
            hosts: raw.hosts.0.clone(),
            any_host: raw.any_host.0,
            schemes: list_or(&raw.schemes, &["http", "https"]),
            ports,
            networks,
            methods,
            headers,
            user_agent: text_or(&raw.user_agent, USER_AGENT).to_owned(),
            timeout: raw.timeout.duration(),
            redirects: raw.redirects.size(),
            request_bytes: raw.request_size.size(),
            response_bytes: raw.response_size.size(),
            proxy,
        };
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

    /// Returns the methods in order, with GET first because it is the default of a request.
    fn web_methods(&mut self, given: &[String]) -> Vec<String> {
        let key = ["builtin", "web", "methods"];
        for (at, method) in given.iter().enumerate() {
            if !METHODS.contains(&method.as_str()) {
                self.item_error(
                    &key,
                    at,
                    "is not a supported method",
                    "use GET, POST, PUT, PATCH, DELETE or HEAD",
                );
            }
        }
        if given.is_empty() {
            self.error(&key, "must name at least one method", "remove it for all");
        }
        let mut methods = owned(&METHODS);
        methods.retain(|method| given.contains(method));
        methods
    }

    fn web_proxy(&mut self, raw: &raw::WebProxy) -> Option<Proxy> {
        let resolves = raw.resolve == raw::Resolver::Proxy;
        let credentials = (raw.user.as_ref(), raw.password.as_ref());
        self.http_proxy(&["builtin", "web", "proxy"], &raw.url, credentials, resolves)
    }
}
