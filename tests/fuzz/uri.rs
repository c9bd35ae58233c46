//! A resource that is denied is denied by every URI that a usual normaliser makes equal to its own,
//! one after another in any order: WHATWG's URL, escapes, parameters of segments, backslashes, dots
//! and slashes, host and port, query and fragment.

use std::collections::BTreeSet;

use lockgate_policy::{
    Annotations, Config, Document, Entry, Kind, Policy, Question, Subject, Target,
};

const DENIED: [&str; 5] = [
    "https://docs.example.com/private/plan",
    "http://h/x",
    "note://private/a",
    "file:///srv/private/key.txt",
    "urn:secret:1",
];
/// Most texts that are looked at on the way, and how many steps they are made by.
const FORMS: usize = 400;
const STEPS: usize = 4;

thread_local! {
    static POLICY: Policy = policy();
}

fn policy() -> Policy {
    let file = serde_json::json!({"policies": [
        {"name": "open", "effect": "allow"},
        {"name": "closed", "effect": "deny", "what": {"resources": DENIED}},
    ]});
    let file: lockgate_policy::file::File = serde_json::from_value(file).unwrap();
    let entry = |policy| Entry { policy, line: 1, source: serde_json::Value::Null };
    let document = Document {
        name: "fuzz.yaml".into(),
        policies: file.policies.into_iter().map(entry).collect(),
    };
    Policy::compile(&Config { documents: vec![document], ..Config::default() }).unwrap()
}

/// # Panics
/// Where something is not as it must be.
pub fn check(data: &[u8]) {
    let Some((which, text)) = crate::split(data) else { return };
    let denied = DENIED[which % DENIED.len()];
    // Most texts have nothing to do with it: half of them are edits of the URI itself.
    let text = match which / DENIED.len() % 2 {
        0 => text.to_owned(),
        _ => edited(denied, text),
    };
    let visible = POLICY.with(|policy| {
        let subject = Subject::default();
        let annotations = Annotations::default();
        let target = Target {
            kind: Kind::Resource,
            server: "any",
            organisation: None,
            exposed: &text,
            own: &text,
            category: None,
            annotations,
        };
        let question = Question { subject: &subject, endpoint: "/mcp", target: &target };
        policy.verdict(&policy.class(&subject, "/mcp"), &question).is_visible()
    });
    if visible && let Some(denied) = reaches(&text) {
        panic!("{text:?} is {denied} to some");
    }
}

/// Text put into a URI at each of the places that its own characters choose.
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

/// What is denied, if some order of normalisers comes to it.
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

/// Every escape once, as servers do it; what is no text then is none of those that are denied.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        let escape = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = escape.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).ok()
}

/// Scheme with its colon and slashes, authority, path, and query with fragment.
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

/// As Tomcat does it.
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

/// As RFC 3986 says in 5.2.4.
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
    // A file has no host, and three slashes.
    let slashes = if scheme.ends_with("//") { 1 } else { root.min(3) };
    Some([scheme, authority, &path[..root.min(slashes)], &below.join("/"), tail].concat())
}

fn lower(text: &str) -> Option<String> {
    let (scheme, authority, path, tail) = parts(text)?;
    Some([&scheme.to_lowercase(), &authority.to_lowercase(), path, tail].concat())
}

/// Without who uses it, the usual port, and the dot behind a name.
fn plain_host(text: &str) -> Option<String> {
    let (scheme, authority, path, tail) = parts(text)?;
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(host);
    Some([scheme, host.trim_end_matches('.'), path, tail].concat())
}

fn bare(text: &str) -> Option<String> {
    text.split(['?', '#']).next().map(str::to_owned)
}

/// Without what parsers drop at the ends and between.
fn trimmed(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    Some(text.trim_matches(|c: char| c <= ' ').to_owned())
}
