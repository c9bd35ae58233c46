//! Checks of resource URIs: a denied resource must be unreachable by any URI that common
//! normalisers, in any order, or a server model equates with it. Such a URI is either not canonical
//! or denied by a policy.

pub mod models;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use lockgate_policy::{
    Annotations, Config, Document, Policy, PolicyEntry, Question, Subject, Target, TargetKind,
};
use lockgate_protocol::uri::{self, Form};

const DENIED: [&str; 6] = [
    "https://docs.example.com/private/plan",
    "http://h/x",
    "note://private/a",
    "file:///srv/private/key.txt",
    "urn:secret:1",
    "note://h/pl%C3%A4n",
];
/// Patterns that match the denied URIs and their descendants.
const GLOBS: [&str; 6] = [
    "https://docs.example.com/private/*",
    "http://h/x*",
    "note://private/*",
    "file:///srv/private/**",
    "urn:secret:*",
    "note://h/pl\u{e4}*",
];
/// Limits on the texts considered per input, and on the normalisers applied in sequence.
const FORMS: usize = 400;
const STEPS: usize = 4;

/// The keys of the denied URIs in each model.
static KEYS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let keys = |model: fn(&str) -> Option<String>| {
        DENIED.iter().map(|denied| model(denied).expect("a key")).collect()
    };
    models::MODELS.iter().map(|(_, model)| keys(*model)).collect()
});

thread_local! {
    static EXACT: Policy = policy(&DENIED);
    static GLOB: Policy = policy(&GLOBS);
}

fn policy(denied: &[&str]) -> Policy {
    let file = serde_json::json!({"policies": [
        {"name": "open", "effect": "allow"},
        {"name": "closed", "effect": "deny", "what": {"resources": denied}},
    ]});
    let file: lockgate_policy::file::File = serde_json::from_value(file).unwrap();
    let entry = |policy| PolicyEntry { policy, line: 1, source: serde_json::Value::Null };
    let document = Document {
        name: "fuzz.yaml".into(),
        policies: file.policies.into_iter().map(entry).collect(),
    };
    Policy::compile(&Config { documents: vec![document], ..Config::default() }).unwrap()
}

/// Checks an input. Panics when a denied resource is reachable.
pub fn check(data: &[u8]) {
    let Some((which, text)) = crate::split(data) else { return };
    let denied = DENIED[which % DENIED.len()];
    // Random texts are rarely related to a denied URI, so half of the inputs are edits of such a
    // URI.
    let text = match which / DENIED.len() % 2 {
        0 => text.to_owned(),
        _ => edited(denied, text),
    };
    if passes(&text)
        && let Some(denied) = reaches(&text)
    {
        panic!("{text:?} is {denied} to some");
    }
    if let Some((model, denied)) = found_by(&text)
        && passes(&text)
    {
        panic!("{text:?} is {denied} to {model}");
    }
}

/// Returns whether a request for this unlisted URI could reach a server: the URI is canonical or
/// fits a template, and one of the policies permits it.
pub fn passes(text: &str) -> bool {
    uri::validate(text, uri::MAX_URI).is_ok()
        && uri::form(text) != Form::Other
        && (EXACT.with(|policy| shows(policy, text)) || GLOB.with(|policy| shows(policy, text)))
}

fn shows(policy: &Policy, text: &str) -> bool {
    let subject = Subject::default();
    let target = Target {
        kind: TargetKind::Resource,
        server: "any",
        organisation: None,
        exposed: text,
        own: text,
        category: None,
        annotations: Annotations::default(),
    };
    let question = Question { subject: &subject, endpoint: "/mcp", target: &target };
    policy.verdict(&policy.class(&subject, "/mcp"), &question).is_visible()
}

/// Returns the first model that equates the URI with a denied URI, and that URI.
pub fn found_by(text: &str) -> Option<(&'static str, &'static str)> {
    for ((name, model), denied) in models::MODELS.into_iter().zip(&*KEYS) {
        let Some(key) = model(text) else { continue };
        if let Some(at) = denied.iter().position(|denied| *denied == key) {
            return Some((name, DENIED[at]));
        }
    }
    None
}

/// Inserts every second character of `edits` into the URI, where the preceding character points.
fn edited(uri: &str, edits: &str) -> String {
    let mut made = uri.to_owned();
    let mut edits = edits.chars();
    while let (Some(place), Some(what)) = (edits.next(), edits.next()) {
        let at = u32::from(place) as usize % (made.len() + 1);
        if made.is_char_boundary(at) {
            made.insert(at, what);
        }
    }
    made
}

/// Returns a denied URI that some sequence of normalisers produces from the text.
fn reaches(text: &str) -> Option<&'static str> {
    let normalisers: [fn(&str) -> Option<String>; 10] = [
        whatwg,
        decoded,
        without_parameters,
        with_slashes,
        without_dots,
        without_empty,
        lower,
        plain_host,
        bare,
        trimmed,
    ];
    let mut seen = BTreeSet::from([text.to_owned()]);
    let mut last = vec![text.to_owned()];
    for _ in 0..STEPS {
        let mut next = Vec::new();
        for form in
            last.iter().flat_map(|form| normalisers.iter().filter_map(|normal| normal(form)))
        {
            if seen.len() < FORMS && seen.insert(form.clone()) {
                next.push(form);
            }
        }
        last = next;
    }
    DENIED.into_iter().find(|denied| seen.contains(*denied))
}

fn whatwg(text: &str) -> Option<String> {
    url::Url::parse(text).ok().map(String::from)
}

/// Decodes every escape once. Denied URIs are valid UTF-8, so other results are dropped.
fn decoded(text: &str) -> Option<String> {
    String::from_utf8(models::decode(text).0).ok()
}

/// Splits a URI into scheme with colon and slashes, authority, path, and query with fragment.
fn parts(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, tail) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let colon = before.find(':')? + 1;
    match before[colon..].strip_prefix("//") {
        Some(rest) if !rest.starts_with('/') => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            Some((&before[..colon + 2], authority, path, tail))
        }
        _ => Some((&before[..colon], "", &before[colon..], tail)),
    }
}

/// Removes path parameters, like Tomcat.
fn without_parameters(text: &str) -> Option<String> {
    let (scheme, authority, path, tail) = parts(text)?;
    let segments: Vec<&str> =
        path.split('/').map(|segment| segment.split(';').next().unwrap_or_default()).collect();
    Some([scheme, authority, &segments.join("/"), tail].concat())
}

fn with_slashes(text: &str) -> Option<String> {
    let (before, tail) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    Some(before.replace('\\', "/") + tail)
}

/// Removes dot segments (RFC 3986, section 5.2.4).
fn without_dots(text: &str) -> Option<String> {
    let (scheme, authority, path, tail) = parts(text)?;
    let (root, below) = path.split_at(usize::from(path.starts_with('/')));
    let mut kept: Vec<&str> = Vec::new();
    for segment in below.split('/') {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    Some([scheme, authority, root, &kept.join("/"), tail].concat())
}

fn without_empty(text: &str) -> Option<String> {
    let (scheme, authority, path, tail) = parts(text)?;
    let root = path.len() - path.trim_start_matches('/').len();
    let below: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    // A file URI has an empty host and three slashes.
    let slashes = if scheme.ends_with("//") { 1 } else { root.min(3) };
    Some([scheme, authority, &path[..root.min(slashes)], &below.join("/"), tail].concat())
}

fn lower(text: &str) -> Option<String> {
    let (scheme, authority, path, tail) = parts(text)?;
    Some([&scheme.to_lowercase(), &authority.to_lowercase(), path, tail].concat())
}

/// Removes user information, the default port and a trailing dot from the authority.
fn plain_host(text: &str) -> Option<String> {
    let (scheme, authority, path, tail) = parts(text)?;
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(host);
    Some([scheme, host.trim_end_matches('.'), path, tail].concat())
}

fn bare(text: &str) -> Option<String> {
    text.split(['?', '#']).next().map(str::to_owned)
}

/// Removes the characters that URL parsers drop at the ends and inside.
fn trimmed(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    Some(text.trim_matches(|c: char| c <= ' ').to_owned())
}

#[cfg(test)]
mod tests;
