//! Names and beginnings that things can have at all, for policies to be held against when they are
//! loaded: a policy about something that cannot be would never fit, and one that denies would deny
//! nothing.

use globset::Glob;

use crate::file::{Policy, What, Who};
use crate::pattern;

/// Categories of built-in tools.
pub(crate) const CATEGORIES: [&str; 7] =
    ["content", "database", "example", "file", "shell", "system", "web"];
/// How names of a client certificate begin.
pub(crate) const CERTIFICATES: [&str; 5] = ["cn:", "dns:", "email:", "sha256:", "uri:"];
const ALL: &str = "/mcp";
const ONE: (&str, &str) = ("/servers/", "/mcp");

/// A list or an item of one: the keys that lead to it below the policy, and what is wrong with it.
type Misnomer = (Vec<String>, String);

/// Every list of a policy that is empty, and every name in one that nothing can have.
pub(crate) fn check(policy: &Policy) -> Vec<Misnomer> {
    let mut found = Vec::new();
    for (part, key, list) in lists(policy) {
        let mut path: Vec<String> = part.split('.').map(str::to_owned).collect();
        path.push(key.to_owned());
        if list.is_empty() {
            found.push((path.clone(), "is empty: nothing fits it".to_owned()));
        }
        for (at, text) in list.iter().enumerate() {
            let wrong = match key {
                "principals" => principal(text),
                "certificates" => certificate(text),
                "endpoints" => endpoint(text),
                "categories" => category(text),
                _ => None,
            };
            if let Some(words) = wrong {
                found.push(([path.as_slice(), &[at.to_string()]].concat(), words));
            }
        }
    }
    found
}

fn lists(policy: &Policy) -> impl Iterator<Item = (&'static str, &'static str, &[String])> {
    let What {
        tools,
        prompts,
        resources,
        completion,
        servers,
        not_servers,
        categories,
        endpoints,
        ..
    } = &policy.what;
    let What { words, not_words, .. } = &policy.what;
    let all = [
        ("what", "tools", tools),
        ("what", "words", words),
        ("what", "not_words", not_words),
        ("what", "prompts", prompts),
        ("what", "resources", resources),
        ("what", "completion", completion),
        ("what", "servers", servers),
        ("what", "not_servers", not_servers),
        ("what", "categories", categories),
        ("what", "endpoints", endpoints),
        ("what", "methods", &policy.what.methods),
    ];
    let approvers = policy.approval.as_ref().and_then(|approval| approval.by.as_ref());
    let approvers = approvers.map(|who| who_lists("approval.by", who));
    let all = who_lists("who", &policy.who).into_iter().chain(all);
    let all = all.chain(approvers.into_iter().flatten());
    all.filter_map(|(part, key, list)| Some((part, key, list.as_deref()?)))
}

type List<'a> = (&'static str, &'static str, &'a Option<Vec<String>>);

fn who_lists<'a>(part: &'static str, who: &'a Who) -> [List<'a>; 6] {
    let Who { principals, roles, organisations, scopes, agents, certificates, anonymous: _ } = who;
    [
        (part, "principals", principals),
        (part, "roles", roles),
        (part, "organisations", organisations),
        (part, "scopes", scopes),
        (part, "agents", agents),
        (part, "certificates", certificates),
    ]
}

/// What is wrong with a pattern over callers.
fn principal(text: &str) -> Option<String> {
    let wrong = !holds_bar(text);
    let words = "fits no caller: they are written `issuer|subject`, such as `key|3f6c0e9a17d2b458` \
        or `local|user`";
    wrong.then(|| words.to_owned())
}

/// What is wrong with a pattern over names of certificates.
fn certificate(text: &str) -> Option<String> {
    let wrong = !CERTIFICATES.iter().any(|start| may_begin(text, start));
    wrong
        .then(|| format!("fits no certificate: their names begin with {}", CERTIFICATES.join(", ")))
}

/// What is wrong with a pattern over endpoints.
fn endpoint(text: &str) -> Option<String> {
    let (start, end) = ONE;
    let whole = Glob::new(text).is_ok_and(|glob| glob.compile_matcher().is_match(ALL));
    // A server has a name.
    let named = is_open(text) || text.len() > start.len() + end.len();
    let wrong = !(whole || named && may_begin(text, start) && may_end(text, end));
    wrong.then(|| "fits no endpoint: there are `/mcp` and `/servers/NAME/mcp`".to_owned())
}

/// Whether this very text is an endpoint: patterns mean nothing in a comparison.
pub(crate) fn is_endpoint(text: &str) -> bool {
    let (start, end) = ONE;
    let name = text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    text == ALL
        || name.is_some_and(|name| !name.is_empty() && !name.contains('/') && !is_open(name))
}

/// What is wrong with a pattern over categories.
fn category(text: &str) -> Option<String> {
    let fits = pattern::compile(text).is_ok_and(|glob| pattern::any(&[glob], &CATEGORIES));
    (!fits).then(|| format!("fits no category: there are {}", CATEGORIES.join(", ")))
}

/// Characters that stand for others in a pattern.
pub(crate) const OPEN: [char; 5] = ['*', '?', '[', '{', '\\'];

fn is_open(pattern: &str) -> bool {
    pattern.contains(OPEN)
}

/// Whether the pattern could fit a text that begins so.
fn may_begin(pattern: &str, start: &str) -> bool {
    let plain = pattern.split(OPEN).next().unwrap_or(pattern);
    plain.starts_with(start) || is_open(pattern) && start.starts_with(plain)
}

/// Whether the pattern could fit a text that ends so.
fn may_end(pattern: &str, end: &str) -> bool {
    let plain = pattern.rsplit(['*', '?', ']', '}', '\\']).next().unwrap_or(pattern);
    plain.ends_with(end) || is_open(pattern) && end.ends_with(plain)
}

/// Whether the pattern could fit a text with `|` in it.
fn holds_bar(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find(['|', '*', '?', '[']) {
        let found = rest.get(at..).unwrap_or_default();
        if !found.starts_with('[') {
            return true;
        }
        // A `]` that comes first belongs to the class.
        let Some((end, _)) = found.char_indices().skip(2).find(|(_, c)| *c == ']') else {
            return true;
        };
        let class = found.get(..=end).unwrap_or_default();
        if Glob::new(class).is_ok_and(|glob| glob.compile_matcher().is_match("|")) {
            return true;
        }
        rest = found.get(end + 1..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests;
