//! The `url` rule: the URLs that an argument may contain, by scheme, host, port and path. A URL
//! that two parsers could read differently is refused, because the server parses the argument
//! again. The rule resolves no names: for a server that does, it is only as reliable as the listed
//! names.

mod text;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};

use ::url::{Host, Position};
use ipnet::IpNet;
use lockgate_text::address::{Class, carried, classify};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use crate::refusal::check_size;
use crate::{Refusal, no};
use text::Parts;

const AMBIGUOUS: &str = "parsers disagree on where this URL leads: write it as scheme://host/path";

/// The rule as it is written in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Schemes: `http`, `https`, `ws`, `wss`. Default `https` alone.
    pub schemes: Vec<String>,
    /// Names of hosts: exactly, as `api.example.com`, or all below a name, as `*.example.com`.
    /// Default none.
    pub hosts: Vec<String>,
    /// Any name and any public address, except names of local machines (`localhost`, `*.local`,
    /// `*.internal`, `*.svc`, `*.docker` and the like, names without a dot, names of services that
    /// resolve to the address in them). Any other name may still resolve to a private address, so
    /// this does not protect a server that resolves names itself.
    pub any_host: bool,
    /// Address literals, as `192.0.2.7` or `10.1.0.0/16`, that may be used in place of a name.
    /// Default none. Addresses of this machine, of the link and of cloud metadata are only allowed
    /// by a network that contains no others.
    pub addresses: Vec<String>,
    /// Ports. Default: the default port of the scheme.
    pub ports: Vec<u16>,
    /// Paths, each with everything below it: `/v1` allows `/v1` and `/v1/a`, not `/v12`. Default:
    /// any path.
    pub paths: Vec<String>,
    /// Longest URL in bytes, 1–8192.
    pub max_bytes: usize,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            schemes: vec!["https".into()],
            hosts: Vec::new(),
            any_host: false,
            addresses: Vec::new(),
            ports: Vec::new(),
            paths: Vec::new(),
            max_bytes: 2048,
        }
    }
}

const SCHEMES: [&str; 4] = ["http", "https", "ws", "wss"];
const MAX_BYTES: usize = 8192;

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Url {
    spec: Spec,
    hosts: Hosts,
    addresses: Vec<IpNet>,
}

impl Url {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Returns the first invalid entry.
    pub fn compile(spec: &Spec) -> Result<Self, String> {
        let lists = [&spec.schemes, &spec.hosts, &spec.addresses, &spec.paths].map(Vec::len);
        check_size(&[&lists[..], &[spec.ports.len()]].concat(), spec.max_bytes, MAX_BYTES)?;
        for scheme in &spec.schemes {
            if !SCHEMES.contains(&scheme.as_str()) {
                return Err(format!("schemes: {scheme:?} is not one of {}", SCHEMES.join(", ")));
            }
        }
        if spec.schemes.is_empty() {
            return Err("schemes: name at least one".into());
        }
        if spec.ports.contains(&0) {
            return Err("ports: 0 is not a port".into());
        }
        for path in &spec.paths {
            if !text::is_plain_path(path) {
                return Err(format!(
                    "paths: {path:?} must begin with / and have no dot segments, escapes, ? or #"
                ));
            }
        }
        let addresses =
            spec.addresses.iter().map(|text| network(text)).collect::<Result<_, _>>()?;
        let hosts = Hosts::compile(&spec.hosts, spec.any_host)?;
        Ok(Self { spec: spec.clone(), hosts, addresses })
    }

    /// Describes the allowed schemes, hosts, networks and ports.
    pub fn allowed(&self) -> String {
        let schemes = self.spec.schemes.join(", ");
        let hosts = self.hosts.shown();
        let addresses = match some_of(&self.addresses).as_str() {
            "" => String::new(),
            shown => format!("; addresses in: {shown}"),
        };
        let ports = some_of(&self.spec.ports);
        let ports = if ports.is_empty() { "only the default port of the scheme" } else { &ports };
        format!("schemes: {schemes}; hosts: {hosts}{addresses}; ports: {ports}")
    }

    /// Checks a URL.
    ///
    /// # Errors
    /// Returns the mistake in a message for the author of the URL.
    pub fn check(&self, text: &str) -> Result<::url::Url, Refusal> {
        let bytes = text.len();
        let most = self.spec.max_bytes;
        if bytes > most {
            return no(format!("the URL has {bytes} bytes: use one of at most {most}"));
        }
        let parts = Parts::of(text)?;
        if !self.spec.schemes.contains(&parts.scheme) {
            let scheme = text::shown(&parts.scheme);
            let allowed = self.spec.schemes.join(" or ");
            return no(format!("the scheme {scheme} is not allowed: use {allowed}"));
        }
        let url = ::url::Url::parse(text)
            .map_err(|error| Refusal(format!("this is not a URL: {error}")))?;
        self.host(&parts, &url)?;
        self.port(&parts, &url)?;
        self.path(&parts, &url)?;
        Ok(url)
    }

    /// Checks the port, and that the parser has read it as written.
    fn port(&self, parts: &Parts<'_>, url: &::url::Url) -> Result<(), Refusal> {
        let Some(port @ 1..) = url.port_or_known_default() else {
            return no("the URL has no usable port");
        };
        if matches!(parts.port, Some(written) if written != port) {
            return no(AMBIGUOUS);
        }
        let usual = self.spec.ports.is_empty() && url.port().is_none();
        if usual || self.spec.ports.contains(&port) {
            return Ok(());
        }
        let ports = some_of(&self.spec.ports);
        no(match (ports.is_empty(), url.port()) {
            (true, _) => format!("the port {port} is not allowed: leave it out"),
            (false, Some(_)) => format!("the port {port} is not allowed: use one of {ports}"),
            (false, None) => {
                format!("the URL has no port, and {port} is not allowed: write one of {ports}")
            }
        })
    }

    /// Checks the host, and that the parser has read it as written.
    fn host(&self, parts: &Parts<'_>, url: &::url::Url) -> Result<(), Refusal> {
        let Some(parsed) = url.host() else { return no("the URL has no host") };
        if !url.username().is_empty() || url.password().is_some() || url.scheme() != parts.scheme {
            return no(AMBIGUOUS);
        }
        match read_host(parts.host, &parsed)? {
            Named::Address(address) if self.has(address) => Ok(()),
            Named::Address(address) if self.hosts.any && classify(address) == Class::Global => {
                Ok(())
            }
            Named::Address(address) => no(format!(
                "the host is the address {address}, which is not allowed: use the name of an \
                    allowed host"
            )),
            Named::Name(name) => Ok(self.hosts.decide(&name)?),
        }
    }

    /// Returns whether a listed network contains the address. A wider network does not include this
    /// machine and the link; services of cloud metadata have to be listed by their address.
    fn has(&self, address: IpAddr) -> bool {
        let class = classify(address);
        let mut networks = self.addresses.iter().filter(|net| net.contains(&address));
        networks.any(|net| match class {
            // Their ranges contain other hosts too.
            Class::Metadata | Class::Unspecified => net.prefix_len() == net.max_prefix_len(),
            Class::Loopback | Class::LinkLocal => {
                [net.network(), net.broadcast()].map(classify) == [class; 2]
            }
            _ => true,
        })
    }

    fn path(&self, parts: &Parts<'_>, url: &::url::Url) -> Result<(), Refusal> {
        let paths = &self.spec.paths;
        if paths.is_empty() {
            return Ok(());
        }
        text::same_everywhere(parts.path)?;
        let parsed = &url[Position::BeforePath..Position::AfterPath];
        if paths.iter().any(|prefix| is_below(parsed, prefix)) {
            return Ok(());
        }
        let path = text::shown(parsed);
        let paths = some_of(paths);
        no(format!("the path {path} is not allowed on this host: use one below {paths}"))
    }
}

fn is_below(path: &str, prefix: &str) -> bool {
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/')
}

fn network(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    match text.parse::<IpNet>() {
        Ok(net) => Ok(net.trunc()),
        Err(_) => Err(format!(
            "addresses: {text:?} is neither an address nor a network such as \
                10.1.0.0/16"
        )),
    }
}

// Hosts of URLs: distinguishes names from addresses in any spelling, and decides which names a rule
// allows.

/// The host of a URL.
#[derive(Debug)]
enum Named {
    /// In lower case, in the form used for DNS lookups (`xn--` for other scripts).
    Name(String),
    /// Written in the canonical form.
    Address(IpAddr),
}

/// Letters that IDNA 2003 and IDNA 2008 map to different names.
const DEVIATIONS: [char; 5] = ['ß', 'ẞ', 'ς', '\u{200c}', '\u{200d}'];
/// Length limits of a name and of a label, in bytes (RFC 1035).
const NAME_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

/// Classifies the host as written, compared with the parser's result.
fn read_host(written: &str, parsed: &Host<&str>) -> Result<Named, String> {
    let address = match *parsed {
        Host::Ipv4(address) => IpAddr::V4(address),
        Host::Ipv6(address) => IpAddr::V6(address),
        Host::Domain(name) => return read_name(written, name),
    };
    let holds_other = matches!(address, IpAddr::V6(six) if carries_v4(six));
    if !holds_other && written.eq_ignore_ascii_case(&parsed.to_string()) {
        return Ok(Named::Address(address));
    }
    let shown = text::shown(written);
    Err(format!(
        "the host {shown} is another form of the address {address}: use the name of a host"
    ))
}

fn read_name(written: &str, name: &str) -> Result<Named, String> {
    let shown_name = text::shown(written);
    if written.ends_with('.') {
        return Err("the host ends with a dot: leave the dot out".into());
    }
    if written.is_ascii() && !written.eq_ignore_ascii_case(name) {
        return Err(format!("parsers disagree on the host {shown_name}: write its usual form"));
    }
    if !written.is_ascii() && !is_faithful(written, name) {
        let read = text::shown(name);
        return Err(format!(
            "the host {shown_name} is read as {read}: write that form if it is intended"
        ));
    }
    plain(name)?;
    Ok(Named::Name(name.to_owned()))
}

/// Returns whether the network would deliver to an IPv4 address inside this address.
fn carries_v4(address: Ipv6Addr) -> bool {
    // Other forms of NAT64, Teredo, ISATAP.
    let is_tunnel = matches!(
        address.segments(),
        [0x64, 0xff9b, ..] | [0x2001, 0, ..] | [_, _, _, _, 0 | 0x200, 0x5efe, ..]
    );
    is_tunnel || carried(address).is_some()
}

/// Returns whether a name in another script is equal to its `xn--` form under every version of
/// IDNA.
fn is_faithful(written: &str, ascii: &str) -> bool {
    let lower = written.to_lowercase();
    for (label, ascii) in lower.split('.').zip(ascii.split('.')) {
        if !label.is_ascii() && !ascii.starts_with("xn--") {
            return false;
        }
    }
    let Ok(back) = Host::parse(&lower) else { return false };
    back.to_string() == ascii && !lower.contains(DEVIATIONS)
}

/// Checks the form of a name: labels of letters, digits, `-` and `_`; the last is no number.
fn plain(name: &str) -> Result<(), String> {
    let last = name.rsplit('.').next().unwrap_or("");
    let number = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
    if name.len() > NAME_BYTES || !name.split('.').all(is_label) || number {
        return Err(format!(
            "{} is not the name of a host: use one such as api.example.com",
            text::shown(name)
        ));
    }
    Ok(())
}

fn is_label(text: &str) -> bool {
    (1..=LABEL_BYTES).contains(&text.len())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
}

/// Limits of the shown part of a list: entries, and bytes in total.
const MAX_SHOWN: usize = 20;
const SHOWN_BYTES: usize = 250;

#[derive(Clone, Debug)]
struct Hosts {
    exact: HashSet<String>,
    /// Names of which all subdomains are allowed.
    above: HashSet<String>,
    any: bool,
    /// The names as written, for messages.
    shown: String,
}

impl Hosts {
    fn compile(patterns: &[String], any: bool) -> Result<Self, String> {
        let mut exact = HashSet::new();
        let mut above = HashSet::new();
        for pattern in patterns {
            let (set, name) = match pattern.strip_prefix("*.") {
                Some(name) => (&mut above, name),
                None => (&mut exact, pattern.as_str()),
            };
            match listed(name) {
                Ok(name) => set.insert(name),
                Err(why) => return Err(format!("hosts: {pattern:?} {why}")),
            };
        }
        Ok(Self { exact, above, any, shown: some_of(patterns) })
    }

    /// Returns the names for a message.
    fn shown(&self) -> &str {
        match (self.any, self.shown.is_empty()) {
            (true, _) => "any public host",
            (false, true) => "none by name",
            (false, false) => &self.shown,
        }
    }

    /// Checks whether a name is allowed.
    fn decide(&self, name: &str) -> Result<(), String> {
        let mut dots = name.match_indices('.');
        if self.exact.contains(name) || dots.any(|(at, _)| self.above.contains(&name[at + 1..])) {
            return Ok(());
        }
        if !self.any {
            let hint = match self.shown.as_str() {
                "" => "no name is allowed".to_owned(),
                shown => format!("use one of {shown}"),
            };
            return Err(format!("the host {name} is not on the list of allowed hosts: {hint}"));
        }
        let Some(why) = nearby(name) else { return Ok(()) };
        Err(format!("the host {name} is not allowed: {why}; use the name of a public host"))
    }
}

/// Formats the first entries of a list and the number of the others.
fn some_of<T: ToString>(list: &[T]) -> String {
    let mut text = String::new();
    for (at, entry) in list.iter().enumerate() {
        let entry = entry.to_string();
        if at == MAX_SHOWN || text.len() + entry.len() > SHOWN_BYTES {
            return format!("{text} and {} more", list.len() - at);
        }
        text = if at == 0 { entry } else { format!("{text}, {entry}") };
    }
    text
}

/// Converts a listed name to the form in which names are compared.
fn listed(name: &str) -> Result<String, &'static str> {
    if name == "*" {
        return Err("allows any name: set any_host: true if that is intended");
    }
    if name.contains('*') {
        return Err("may have a * only at its beginning, as *.example.com");
    }
    match Host::parse(name) {
        Ok(Host::Domain(ascii)) if plain(&ascii).is_ok() => Ok(ascii),
        Ok(Host::Ipv4(_) | Host::Ipv6(_)) => Err("is an address: list it in addresses"),
        _ => Err("is not the name of a host: write one such as api.example.com, without scheme, \
            port and path"),
    }
}

/// Domains that are never public: reserved ones, and those of clusters, containers and private
/// networks.
const NEARBY: &str = "localhost local localdomain internal intranet private lan home corp mail \
    arpa test invalid onion alt consul nomad svc default cluster kubernetes k8s mesh docker \
    containers vagrant ts.net";
/// Services that resolve a name to an address spelled in it, to this machine, or to any address
/// that the author of the name chooses.
const SPELLING: &str = "nip.io sslip.io xip.io xip.name nip.name localtest.me lvh.me lacolhost.com \
    vcap.me localho.st fuf.me fuf.mobi 1u.ms rbndr.us rebind.network traefik.me backname.io";

/// Returns why an unlisted name counts as local. Best effort: the list cannot be complete.
fn nearby(name: &str) -> Option<&'static str> {
    if !name.contains('.') {
        return Some("a name without a dot is in the local network");
    }
    if is_in_some(name, NEARBY) {
        return Some("it is in the local network");
    }
    is_in_some(name, SPELLING).then_some("it encodes an address")
}

/// Returns whether a name is one of these domains, or below one.
fn is_in_some(name: &str, domains: &str) -> bool {
    let mut rests = domains.split(' ').filter_map(|domain| name.strip_suffix(domain));
    rests.any(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests;
