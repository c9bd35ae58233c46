//! Sanitizes list items: removes icons that would make a client fetch from its own network or run a
//! script, and detects descriptions over a limit (their items are omitted). Page: basic/index.mdx
//! (icons).

use lockgate_egress::Policy;
use lockgate_protocol::scan::{self, Keys, Scanner};
use lockgate_protocol::strings::{self, StringRole};
use lockgate_protocol::write::Object;
use url::{Host, Url};

/// Names that never belong to public hosts.
const INNER: [&str; 5] = ["localhost", "local", "internal", "lan", "home.arpa"];

/// Returns the item without unsafe icons, and their number; `None` if there are none.
pub(crate) fn without_unsafe_icons(item: &[u8]) -> Option<(Vec<u8>, usize)> {
    // The name may be written with escapes.
    if !has(item, b"icons") && !has(item, b"\\u") {
        return None;
    }
    let (_, members) = Scanner::new(item, scan::MAX_DEPTH).ok()?.members(Keys::Distinct).ok()?;
    let icons = scan::find(&members, item, "icons")?.of(item);
    let mut kept = Vec::new();
    let mut dropped = 0;
    let mut scanner = Scanner::new(icons, scan::MAX_DEPTH).ok()?;
    let walked = scanner.array(&mut |scanner| {
        let icon = scanner.value()?.of(icons);
        match source(icon) {
            Some(source) if is_safe(&source) => kept.push(icon),
            _ => dropped += 1,
        }
        Ok(())
    });
    if walked.is_err() || dropped == 0 {
        return None;
    }
    let mut out = Vec::with_capacity(item.len());
    let mut object = Object::open(&mut out);
    for member in &members {
        match (member.is(item, "icons"), kept.is_empty()) {
            (true, true) => {}
            (true, false) => object.raw("icons", &[b"[", &kept.join(&b","[..])[..], b"]"].concat()),
            (false, _) => object.copy(member.key.of(item), member.value.of(item)),
        }
    }
    object.close();
    Some((out, dropped))
}

fn has(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

fn source(icon: &[u8]) -> Option<String> {
    let icon: serde_json::Value = serde_json::from_slice(icon).ok()?;
    Some(icon.get("src")?.as_str()?.to_owned())
}

/// Reports whether a source is an inline image, or on a public host over TLS.
fn is_safe(source: &str) -> bool {
    let Ok(url) = Url::parse(source) else { return false };
    match (url.scheme(), url.host()) {
        ("data", _) => url.path().get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case("image/")),
        ("https", Some(host)) => {
            url.username().is_empty() && url.password().is_none() && is_public(&host)
        }
        _ => false,
    }
}

fn is_public(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => Policy::Public.permits((*address).into(), true),
        Host::Ipv6(address) => Policy::Public.permits((*address).into(), true),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            name.contains('.') && !INNER.iter().any(|inner| is_at_or_under(name, inner))
        }
    }
}

fn is_at_or_under(name: &str, end: &str) -> bool {
    let Some(rest) = name.strip_suffix(end) else { return false };
    rest.is_empty() || rest.ends_with('.')
}

/// Returns the length of the longest description of the item, at its root or in a schema, if it
/// exceeds `most` bytes.
pub(crate) fn too_long_description(item: &[u8], most: usize) -> Option<usize> {
    if item.len() <= most {
        return None;
    }
    let mut longest = 0;
    let _ = strings::rewrite(item, &mut |place, text| {
        if let StringRole::Value("description" | "title") = place {
            longest = longest.max(text.len());
        }
        None
    });
    if longest > most { Some(longest) } else { None }
}

#[cfg(test)]
mod tests;
