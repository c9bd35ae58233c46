//! Hosts of URLs: distinguishes names from addresses in any spelling, and decides which names a
//! rule allows.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};

use ::url::Host;
use ipnet::IpNet;

use super::text::shown;

/// The host of a URL.
#[derive(Debug)]
pub(super) enum Named {
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
pub(super) fn read(written: &str, parsed: &Host<&str>) -> Result<Named, String> {
    let address = match *parsed {
        Host::Ipv4(address) => IpAddr::V4(address),
        Host::Ipv6(address) => IpAddr::V6(address),
        Host::Domain(name) => return read_name(written, name),
    };
    let holds_other = matches!(address, IpAddr::V6(six) if carries_v4(six));
    if !holds_other && written.eq_ignore_ascii_case(&parsed.to_string()) {
        return Ok(Named::Address(address));
    }
    let shown = shown(written);
    Err(format!(
        "the host {shown} is another form of the address {address}: use the name of a host"
    ))
}

fn read_name(written: &str, name: &str) -> Result<Named, String> {
    let shown_name = shown(written);
    if written.ends_with('.') {
        return Err("the host ends with a dot: leave the dot out".into());
    }
    if written.is_ascii() && !written.eq_ignore_ascii_case(name) {
        return Err(format!("parsers disagree on the host {shown_name}: write its usual form"));
    }
    if !written.is_ascii() && !is_faithful(written, name) {
        let read = shown(name);
        return Err(format!(
            "the host {shown_name} is read as {read}: write that form if it is intended"
        ));
    }
    plain(name)?;
    Ok(Named::Name(name.to_owned()))
}

/// Returns whether the network would deliver to an IPv4 address inside this address: compatible,
/// mapped, translated, NAT64, 6to4, Teredo, ISATAP.
fn carries_v4(address: Ipv6Addr) -> bool {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => false,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => true,
        [0x64, 0xff9b, ..] | [0x2002, ..] | [0x2001, 0, ..] => true,
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => true,
        _ => false,
    }
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

/// Networks without public hosts: IANA's special-purpose registries, and cloud metadata.
const NOT_PUBLIC: &str = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 \
    169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 \
    198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3 2001::/23 2001:db8::/32 2002::/16 \
    3fff::/20";

/// Returns whether an address is public, judging by its number.
pub(super) fn is_public(address: IpAddr) -> bool {
    let is_reserved = matches!(address, IpAddr::V6(six) if six.segments()[0] & 0xe000 != 0x2000);
    !is_reserved && networks_of(NOT_PUBLIC, address).next().is_none()
}

/// Returns the networks of a list that contain an address.
pub(super) fn networks_of(list: &str, address: IpAddr) -> impl Iterator<Item = IpNet> {
    let networks = list.split(' ').filter_map(|net| net.parse::<IpNet>().ok());
    networks.filter(move |net| net.contains(&address))
}

/// Checks the form of a name: labels of letters, digits, `-` and `_`; the last is no number.
fn plain(name: &str) -> Result<(), String> {
    let last = name.rsplit('.').next().unwrap_or("");
    let number = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
    if name.len() > NAME_BYTES || !name.split('.').all(is_label) || number {
        return Err(format!(
            "{} is not the name of a host: use one such as api.example.com",
            shown(name)
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
pub(super) struct Hosts {
    exact: HashSet<String>,
    /// Names of which all subdomains are allowed.
    above: HashSet<String>,
    any: bool,
    /// The names as written, for messages.
    shown: String,
}

impl Hosts {
    pub(super) fn compile(patterns: &[String], any: bool) -> Result<Self, String> {
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

    pub(super) fn is_any(&self) -> bool {
        self.any
    }

    /// Returns the names for a message.
    pub(super) fn shown(&self) -> &str {
        match (self.any, self.shown.is_empty()) {
            (true, _) => "any public host",
            (false, true) => "none by name",
            (false, false) => &self.shown,
        }
    }

    /// Checks whether a name is allowed.
    pub(super) fn decide(&self, name: &str) -> Result<(), String> {
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
pub(super) fn some_of<T: ToString>(list: &[T]) -> String {
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
