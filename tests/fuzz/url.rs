//! Checks of the URL rule: a browser's parser and a simple split of an allowed URL find the same
//! permitted host, and the URL printed by that parser is allowed again.

use lockgate_policy::url::{Spec, Url};

thread_local! {
    static RULES: Vec<(Spec, Url)> = rules();
}

const NAMES: [&str; 3] = ["api.example.com", "*.example.org", "münchen.example"];

fn rules() -> Vec<(Spec, Url)> {
    let owned = crate::owned;
    let listed =
        Spec { schemes: owned(&["http", "https"]), hosts: owned(&NAMES), ..Spec::default() };
    let all = [
        listed.clone(),
        Spec { schemes: owned(&["http", "https"]), any_host: true, ..Spec::default() },
        Spec { hosts: owned(&NAMES[..1]), paths: owned(&["/v1", "/public/"]), ..Spec::default() },
        Spec { ports: vec![443, 8443], ..listed },
    ];
    all.into_iter().map(|spec| (spec.clone(), Url::compile(&spec).unwrap())).collect()
}

/// Checks the rule on an input. Panics when a property does not hold.
pub fn check(data: &[u8]) {
    let Some((which, text)) = crate::split(data) else { return };
    RULES.with(|rules| {
        let (spec, rule) = &rules[which % rules.len()];
        if crate::timed(|| rule.check(text)).is_none() {
            return;
        }
        let seen =
            url::Url::parse(text).unwrap_or_else(|error| panic!("{text:?} is no URL: {error}"));
        let host = match seen.host().unwrap() {
            url::Host::Domain(host) => host,
            address => {
                let nearby = ["10.", "127.", "169.254.", "192.168.", "[fe80:", "[fc", "[fd", "[::"];
                let near = nearby.iter().any(|start| address.to_string().starts_with(start));
                assert!(spec.any_host && !near, "{text:?} leads to {address}");
                return;
            }
        };
        let listed = host == "api.example.com"
            || host == "xn--mnchen-3ya.example"
            || host.ends_with(".example.org");
        assert!(spec.any_host || listed, "{text:?} leads to {host}");
        assert!(matches!(seen.scheme(), "http" | "https"), "{text:?}");
        assert!(
            seen.username().is_empty() && seen.password().is_none(),
            "{text:?} has credentials"
        );
        assert_eq!(
            plain_host(text).to_lowercase().trim_end_matches('.'),
            spelled(text, host),
            "{text:?}"
        );
        if !spec.ports.is_empty() {
            assert!(
                seen.port_or_known_default().is_some_and(|port| spec.ports.contains(&port)),
                "{text:?}"
            );
        }
        if !spec.paths.is_empty() {
            let path = seen.path();
            let inside = path == "/v1" || path.starts_with("/v1/") || path.starts_with("/public/");
            assert!(inside, "{text:?} leads to {path}");
        }
        let again = rule.check(seen.as_str());
        assert!(again.is_ok(), "{text:?} is allowed, and {:?} is not: {again:?}", seen.as_str());
    });
}

/// Returns the host found by splitting at the usual delimiters.
fn plain_host(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.split_once(':').map_or(host, |(host, _)| host)
}

/// Returns the parsed host in the spelling of the text, since the parser converts non-ASCII names.
fn spelled<'a>(text: &'a str, host: &'a str) -> String {
    let plain = plain_host(text);
    if plain.is_ascii() {
        host.trim_end_matches('.').to_owned()
    } else {
        plain.to_lowercase().trim_end_matches('.').to_owned()
    }
}
