//! `servers`: each is either a program or an address, and sets no header of the gateway's own. No
//! message quotes arguments, environment or headers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lockgate_upstream::{
    CLIENT_CONNECTIONS, CLIENT_PROCESSES, Config, EraChoice, Health, Limits, Transport,
};

use super::receivers::is_framing;
use super::{Check, is_http, is_slug};
use crate::raw::{self, Server};

const MAX_SERVERS: usize = 256;
const MAX_ARGUMENTS: usize = 1000;
/// Headers that the gateway writes itself, besides HTTP framing and every `Mcp-…`.
const OWN_HEADERS: [&str; 3] = ["accept", "last-event-id", lockgate_upstream::IDENTITY_HEADER];

/// Returns whether the gateway writes this header (in lower case) itself.
pub fn is_own_header(name: &str) -> bool {
    is_framing(name) || OWN_HEADERS.contains(&name) || name.starts_with("mcp-")
}

impl Check<'_> {
    pub fn servers(
        &mut self,
        servers: &BTreeMap<String, Server>,
        depth: usize,
        builtin: &lockgate_tools::Config,
    ) -> Vec<Config> {
        self.at_most(&["servers"], servers.len(), MAX_SERVERS, "start several gateways");
        if servers.len() > MAX_SERVERS {
            return Vec::new();
        }
        let mut made = Vec::with_capacity(servers.len());
        for (slug, server) in servers {
            self.server_name(slug, builtin);
            made.extend(self.server(slug, server, depth));
        }
        self.shared_audiences(&made);
        made
    }

    fn server_name(&mut self, slug: &str, builtin: &lockgate_tools::Config) {
        let path = ["servers", slug];
        if !is_slug(slug) {
            let what = "the name of a server must be 1 to 64 of a-z, 0-9 and -";
            self.error(&path, what, "rename it; tools are exposed as NAME__TOOL");
        }
        if builtin.runs(slug) {
            let what = "a built-in server has this name";
            let hint = match slug {
                "system" | "example" => format!("rename it, or set `builtin.{slug}: false`"),
                _ => format!("rename it, or remove `builtin.{slug}`"),
            };
            self.error(&path, what, hint);
        }
    }

    fn server(&mut self, slug: &str, raw: &Server, depth: usize) -> Option<Config> {
        let transport = self.transport(slug, raw);
        let sse = raw.url.is_some() && raw.transport == Some(raw::Transport::Sse);
        if sse && raw.era == EraChoice::Modern {
            let hint = "use `transport: http`, or remove `era`";
            self.error(&["servers", slug, "era"], "HTTP+SSE exists only in the legacy era", hint);
        }
        let identity = self.audience(slug, raw);
        let transport = transport?;
        Some(Config {
            slug: slug.to_string(),
            organisation: None,
            rests_after: None,
            transport,
            identity,
            has_authorization: raw.auth.is_some(),
            addresses: lockgate_egress::Policy::Operator,
            era: raw.era,
            validates_arguments: raw.validate_arguments,
            enabled: raw.enabled,
            sessions: raw.sessions,
            call_timeout: raw.timeout,
            tool_timeouts: raw.tool_timeouts.clone(),
            stall_timeout: raw.stall_timeout,
            start_timeout: raw.start_timeout,
            limits: Limits {
                depth,
                concurrency: raw.concurrency,
                queue: raw.queue,
                client_connections: match raw.client_connections {
                    Some(most) => most,
                    None if raw.command.is_some() => CLIENT_PROCESSES,
                    None => CLIENT_CONNECTIONS,
                },
                ..raw.limits.clone()
            },
            breaker: raw.breaker.clone(),
            health: health(raw),
        })
    }

    fn transport(&mut self, slug: &str, raw: &Server) -> Option<Transport> {
        let path = ["servers", slug];
        match (&raw.command, &raw.url) {
            (Some(_), Some(_)) => {
                let hint = "keep one: a program to start, or an address to call";
                self.error(&path, "has both `command` and `url`", hint);
                // Reports mistakes in either part at once.
                self.both(slug, raw);
                None
            }
            (None, None) => {
                let hint = "a program to start, or an address to call";
                self.absent(&path, "requires `command` or `url`", hint);
                self.variables(slug, raw);
                self.headers(&["servers", slug, "headers"], &raw.headers, is_own_header);
                None
            }
            (Some(command), None) => self.stdio(slug, command, raw),
            (None, Some(url)) => self.remote(slug, url, raw),
        }
    }

    fn misplaced(&mut self, slug: &str, keys: &[(&str, bool)], belongs: &str) {
        for (key, given) in keys {
            if *given {
                let what = format!("is only valid with `{belongs}`");
                self.error(&["servers", slug, key], what, "remove it");
            }
        }
    }

    fn stdio(&mut self, slug: &str, command: &str, raw: &Server) -> Option<Transport> {
        let remote = [("headers", !raw.headers.is_empty()), ("identity", raw.identity.is_some())];
        self.misplaced(slug, &remote, "url");
        if matches!(raw.transport, Some(raw::Transport::Http | raw::Transport::Sse)) {
            let path = ["servers", slug, "transport"];
            self.error(&path, "a `command` uses stdio", "set `url`, or remove it");
        }
        if !self.program(slug, command, raw) {
            return None;
        }
        Some(Transport::Stdio {
            command: command.to_owned(),
            args: raw.args.clone(),
            env: raw.env.clone(),
            cwd: raw.cwd.clone(),
            has_network: raw.inherit.contains(&raw::Inherited::Network),
        })
    }

    /// Checks a program and its settings; returns false if it has no name.
    fn program(&mut self, slug: &str, command: &str, raw: &Server) -> bool {
        self.variables(slug, raw);
        let named = !command.trim().is_empty();
        if named {
            self.found(slug, command, raw);
        } else {
            self.error(&["servers", slug, "command"], "must not be empty", "set a program");
        }
        if let Some(cwd) = &raw.cwd
            && raw.enabled
            && !cwd.is_dir()
        {
            let hint = "paths are relative to the file that contains them";
            self.warning(&["servers", slug, "cwd"], "there is no such folder", hint);
        }
        named
    }

    fn variables(&mut self, slug: &str, raw: &Server) {
        self.at_most(&["servers", slug, "args"], raw.args.len(), MAX_ARGUMENTS, "use a file");
        for name in raw.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                let hint = "it must not be empty or contain =";
                self.error(&["servers", slug, "env", name], "is not a variable name", hint);
            }
        }
    }

    /// Checks both parts of a server that is a program and an address.
    fn both(&mut self, slug: &str, raw: &Server) {
        if let Some(command) = &raw.command {
            self.program(slug, command, raw);
        }
        if let Some(url) = &raw.url {
            self.remote_url(&["servers", slug, "url"], url);
        }
        self.headers(&["servers", slug, "headers"], &raw.headers, is_own_header);
    }

    /// Warns of a program that is not installed, which may be installed later.
    fn found(&mut self, slug: &str, command: &str, raw: &Server) {
        let path = match (raw.env.get("PATH"), self.sources.env.get("PATH")) {
            (Some(path), _) | (None, Some(path)) => path,
            (None, None) => "",
        };
        let there = if command.contains('/') {
            Path::new(command).is_file()
        } else {
            std::env::split_paths(path).any(|folder| folder.join(command).is_file())
        };
        if raw.enabled && !there {
            let hint = if command.contains(' ') {
                "put arguments into `args`"
            } else {
                "install it, or use its full path"
            };
            self.warning(&["servers", slug, "command"], "program not found", hint);
        }
    }

    fn remote(&mut self, slug: &str, url: &str, raw: &Server) -> Option<Transport> {
        let stdio = [
            ("args", !raw.args.is_empty()),
            ("env", !raw.env.is_empty()),
            ("cwd", raw.cwd.is_some()),
        ];
        self.misplaced(slug, &stdio, "command");
        if raw.transport == Some(raw::Transport::Stdio) {
            let path = ["servers", slug, "transport"];
            self.error(&path, "a `url` is reached over `http` or `sse`", "remove it");
        }
        let url = self.remote_url(&["servers", slug, "url"], url);
        let headers = self.headers(&["servers", slug, "headers"], &raw.headers, is_own_header);
        let url = url?;
        if url.scheme() == "http" && headers.contains_key("authorization") && !super::is_local(&url)
        {
            let key = ["servers", slug, "url"];
            self.warning(&key, "credentials cross the network unencrypted", "use https://");
        }
        Some(match raw.transport {
            Some(raw::Transport::Sse) => Transport::Sse { url, headers },
            _ => Transport::Http { url, headers },
        })
    }

    /// Checks a server's address, which must not contain credentials.
    pub(super) fn remote_url(&mut self, key: &[&str], url: &str) -> Option<url::Url> {
        let url = match url::Url::parse(url) {
            Ok(url) if is_http(&url) => url,
            _ => {
                let what = "must be an http:// or https:// address";
                self.error(key, what, "such as https://mcp.example.com/mcp");
                return None;
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            let hint = "send it in `headers`: { Authorization: \"Bearer ${TOKEN}\" }";
            self.error(key, "must not contain a user or password", hint);
        }
        if url.fragment().is_some() {
            self.error(key, "must not have a # fragment", "remove it");
        }
        Some(url)
    }
}

/// Returns the health check: by default only child processes are checked.
fn health(raw: &Server) -> Option<Health> {
    let interval = match raw.health.interval {
        Some(interval) => interval,
        None if raw.command.is_some() => Duration::from_secs(15),
        None => return None,
    };
    if interval.is_zero() {
        return None;
    }
    Some(Health { interval, timeout: raw.health.timeout })
}
