//! Checks of policies for names that cannot exist. A policy about such a name would never match,
//! and a `deny` policy would deny nothing.

use globset::Glob;

use crate::file::{Approval, Policy};
use crate::pattern;
use crate::refusal::{Mistake, mistake};

/// The built-in servers. A server's name is also the category of its tools.
pub const CATEGORIES: [&str; 7] =
    ["content", "database", "example", "file", "shell", "system", "web"];
/// The prefixes of client certificate names.
pub(crate) const CERTIFICATES: [&str; 5] = ["cn:", "dns:", "email:", "sha256:", "uri:"];
const ALL: &str = "/mcp";
/// Before and after the name of a server, and of a composed endpoint.
const NAMED: [&str; 2] = ["/servers/", "/endpoints/"];
const END: &str = "/mcp";

/// Returns every empty list of a policy, and every name that cannot exist.
pub(crate) fn check(policy: &Policy) -> Vec<Mistake> {
    let mut found = Vec::new();
    check_lists(&["who"], &policy.who.lists(), &mut found);
    check_lists(&["what"], &policy.what.lists(), &mut found);
    if let Some(Approval { by: Some(approvers), .. }) = &policy.approval {
        check_lists(&["approval", "by"], &approvers.lists(), &mut found);
    }
    found
}

fn check_lists(
    part: &[&str],
    lists: &[(&'static str, &Option<Vec<String>>)],
    found: &mut Vec<Mistake>,
) {
    for (key, list) in lists {
        let Some(list) = list else { continue };
        let path = [part, &[*key]].concat();
        if list.is_empty() {
            found.push(mistake(&path, "is empty and matches nothing"));
        }
        for (at, text) in list.iter().enumerate() {
            let wrong = match *key {
                "principals" => principal(text),
                "certificates" => certificate(text),
                "endpoints" => endpoint(text),
                "categories" => category(text),
                _ => None,
            };
            let at = at.to_string();
            let path = [path.as_slice(), &[&at]].concat();
            found.extend(wrong.map(|words| mistake(&path, words)));
        }
    }
}

/// Returns the mistake in a pattern over callers.
fn principal(text: &str) -> Option<String> {
    let words = "matches no caller: callers are written `issuer|subject`, such as \
        `key|3f6c0e9a17d2b458` or `local|user`";
    (!holds_bar(text)).then(|| words.to_owned())
}

/// Returns the mistake in a pattern over names of certificates.
fn certificate(text: &str) -> Option<String> {
    let known = CERTIFICATES.join(", ");
    let may_match = CERTIFICATES.iter().any(|start| may_begin(text, start));
    (!may_match).then(|| format!("matches no certificate: their names begin with {known}"))
}

/// Returns the mistake in a pattern over endpoints.
fn endpoint(text: &str) -> Option<String> {
    // The name is not empty.
    let may_match = NAMED.iter().any(|start| {
        (is_open(text) || text.len() > start.len() + END.len()) && may_begin(text, start)
    });
    let words = "matches no endpoint: the endpoints are `/mcp`, `/servers/NAME/mcp` and \
        `/endpoints/NAME/mcp`";
    let may_match = fits(text, ALL) || may_match && may_end(text, END);
    (!may_match).then(|| words.to_owned())
}

/// Returns whether a pattern matches a text; an invalid pattern matches nothing.
fn fits(pattern: &str, text: &str) -> bool {
    Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(text))
}

/// Returns whether a text is an endpoint, without interpreting it as a pattern.
pub(crate) fn is_endpoint(text: &str) -> bool {
    if text == ALL {
        return true;
    }
    let rest = NAMED.iter().find_map(|start| text.strip_prefix(start));
    let Some(name) = rest.and_then(|rest| rest.strip_suffix(END)) else { return false };
    !name.is_empty() && !name.contains('/') && !is_open(name)
}

/// Returns the mistake in a pattern over categories.
fn category(text: &str) -> Option<String> {
    let known = CATEGORIES.join(", ");
    let may_match = pattern::compile(text).is_ok_and(|glob| pattern::any(&[glob], &CATEGORIES));
    (!may_match).then(|| format!("matches no category: the categories are {known}"))
}

/// Characters with a special meaning in a pattern.
pub(crate) const OPEN: [char; 5] = ['*', '?', '[', '{', '\\'];

fn is_open(pattern: &str) -> bool {
    pattern.contains(OPEN)
}

fn may_begin(pattern: &str, start: &str) -> bool {
    let plain = pattern.split(OPEN).next().unwrap_or(pattern);
    plain.starts_with(start) || is_open(pattern) && start.starts_with(plain)
}

fn may_end(pattern: &str, end: &str) -> bool {
    let plain = pattern.rsplit(['*', '?', ']', '}', '\\']).next().unwrap_or(pattern);
    plain.ends_with(end) || is_open(pattern) && end.ends_with(plain)
}

/// Returns whether the pattern could match a text with `|` in it.
fn holds_bar(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find(['|', '*', '?', '[']) {
        let found = rest.get(at..).unwrap_or("");
        if !found.starts_with('[') {
            return true;
        }
        // A leading `]` belongs to the class.
        let Some((end, _)) = found.char_indices().skip(2).find(|(_, c)| *c == ']') else {
            return true;
        };
        let class = found.get(..=end).unwrap_or("");
        if fits(class, "|") {
            return true;
        }
        rest = found.get(end + 1..).unwrap_or("");
    }
    false
}

/// Returns whether a list, separated by white space, contains a word.
pub(crate) fn is_listed(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// Returns the known name that a misspelled name most likely stands for.
pub(crate) fn find_near<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|known| (strsim::damerau_levenshtein(name, known), *known));
    let (distance, near) = distances.min()?;
    (distance <= (near.len() / 3).max(1)).then_some(near)
}

#[cfg(test)]
mod tests;
