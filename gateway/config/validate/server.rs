//! `servers`: each is either a program or an address, and sets no header of the gateway's own. No
//! message quotes arguments, environment or headers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lockgate_upstream::{
    CLIENT_CONNECTIONS, CLIENT_PROCESSES, Config, EraChoice, Health, Limits, Transport,
};

use super::receivers::is_framing;
use super::{Check, RELATIVE, is_http, is_local, is_slug};
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
    pub fn servers(&mut self, builtin: &lockgate_tools::Config) -> Vec<Config> {
        let servers = &self.root.servers;
        self.at_most("servers", servers.len(), MAX_SERVERS, "start several gateways");
        if servers.len() > MAX_SERVERS {
            return Vec::new();
        }
        let mut made = Vec::with_capacity(servers.len());
        for (slug, server) in servers {
            made.extend(self.within("servers", slug, |check| {
                check.server_name(slug, builtin);
                check.server(slug, server)
            }));
        }
        self.shared_audiences(&made);
        made
    }

    fn server_name(&mut self, slug: &str, builtin: &lockgate_tools::Config) {
        if !is_slug(slug) {
            let what = "the name of a server must be 1 to 64 of a-z, 0-9 and -";
            self.error("", what, "rename it; tools are exposed as NAME__TOOL");
        }
        if builtin.runs(slug) {
            let hint = match slug {
                "system" | "example" => format!("rename it, or set `builtin.{slug}: false`"),
                _ => format!("rename it, or remove `builtin.{slug}`"),
            };
            self.error("", "a built-in server has this name", hint);
        }
    }

    fn server(&mut self, slug: &str, raw: &Server) -> Option<Config> {
        let transport = self.transport(raw);
        let sse = raw.url.is_some() && raw.transport == Some(raw::Transport::Sse);
        if sse && raw.era == EraChoice::Modern {
            let hint = "use `transport: http`, or remove `era`";
            self.error("era", "HTTP+SSE exists only in the legacy era", hint);
        }
        let identity = self.audience(raw);
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
                depth: self.root.limits.depth,
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

    /// Returns the transport. Mistakes in a program and in an address are reported at once.
    fn transport(&mut self, raw: &Server) -> Option<Transport> {
        match (&raw.command, &raw.url, raw.transport) {
            (Some(_), Some(_), _) => {
                let hint = "keep one: a program to start, or an address to call";
                self.error("", "has both `command` and `url`", hint);
            }
            (None, None, _) => {
                let hint = "a program to start, or an address to call";
                self.absent("", "requires `command` or `url`", hint);
            }
            (Some(_), None, Some(raw::Transport::Http | raw::Transport::Sse)) => {
                self.error("transport", "a `command` uses stdio", "set `url`, or remove it");
            }
            (None, Some(_), Some(raw::Transport::Stdio)) => {
                self.error("transport", "a `url` is reached over `http` or `sse`", "remove it");
            }
            _ => {}
        }
        for (key, is_given, is_wrong, belongs) in [
            ("args", !raw.args.is_empty(), raw.command.is_none(), "command"),
            ("env", !raw.env.is_empty(), raw.command.is_none(), "command"),
            ("cwd", raw.cwd.is_some(), raw.command.is_none(), "command"),
            ("headers", !raw.headers.is_empty(), raw.url.is_none(), "url"),
            ("identity", raw.identity.is_some(), raw.url.is_none(), "url"),
        ] {
            if is_given && is_wrong && (raw.command.is_some() || raw.url.is_some()) {
                self.error(key, format!("is only valid with `{belongs}`"), "remove it");
            }
        }
        // Misplaced settings are not checked further.
        if raw.command.is_some() || raw.url.is_none() {
            self.variables(raw);
        }
        let program = raw.command.as_ref().and_then(|command| self.program(command, raw));
        if raw.command.is_some() && raw.url.is_none() {
            return program;
        }
        let headers = self.headers("headers", &raw.headers, is_own_header);
        let remote = raw.url.as_ref().and_then(|url| self.remote(url, headers, raw));
        program.xor(remote)
    }

    fn program(&mut self, command: &str, raw: &Server) -> Option<Transport> {
        if let Some(cwd) = &raw.cwd
            && raw.enabled
            && !cwd.is_dir()
        {
            self.warning("cwd", "there is no such folder", RELATIVE);
        }
        if command.trim().is_empty() {
            self.error("command", "must not be empty", "set a program");
            return None;
        }
        if raw.enabled && !self.is_installed(command, raw) {
            // It may be installed later.
            let hint = if command.contains(' ') {
                "put arguments into `args`"
            } else {
                "install it, or use its full path"
            };
            self.warning("command", "program not found", hint);
        }
        Some(Transport::Stdio {
            command: command.to_owned(),
            args: raw.args.clone(),
            env: raw.env.clone(),
            cwd: raw.cwd.clone(),
            has_network: raw.inherit.contains(&raw::Inherited::Network),
        })
    }

    fn is_installed(&self, command: &str, raw: &Server) -> bool {
        if command.contains('/') {
            return Path::new(command).is_file();
        }
        let path = raw.env.get("PATH").or(self.sources.env.get("PATH"));
        let mut folders = std::env::split_paths(path.map_or("", String::as_str));
        folders.any(|folder| folder.join(command).is_file())
    }

    fn variables(&mut self, raw: &Server) {
        self.at_most("args", raw.args.len(), MAX_ARGUMENTS, "use a file");
        for name in raw.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                let hint = "it must not be empty or contain =";
                let what = "is not a variable name";
                self.within("env", name, |check| check.error("", what, hint));
            }
        }
    }

    fn remote(
        &mut self,
        url: &str,
        headers: BTreeMap<String, String>,
        raw: &Server,
    ) -> Option<Transport> {
        let url = self.remote_url("url", url)?;
        if url.scheme() == "http" && headers.contains_key("authorization") && !is_local(&url) {
            self.warning("url", "credentials cross the network unencrypted", "use https://");
        }
        Some(match raw.transport {
            Some(raw::Transport::Sse) => Transport::Sse { url, headers },
            _ => Transport::Http { url, headers },
        })
    }

    /// Checks a server's address, which must not contain credentials.
    pub(super) fn remote_url(&mut self, key: &str, url: &str) -> Option<url::Url> {
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
    let default = raw.command.as_ref().map(|_| Duration::from_secs(15));
    let interval = raw.health.interval.or(default).filter(|interval| !interval.is_zero())?;
    Some(Health { interval, timeout: raw.health.timeout })
}
