//! Policies that can never match on this gateway: their callers, servers, tools or arguments do not
//! exist. Such a `deny` policy denies nothing. The findings are warnings about probable mistakes
//! and have no effect on decisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_authn::key::is_id;
use lockgate_config::{Config, Problem, ValuePlace};
use lockgate_policy::file::Policy;
use lockgate_policy::{Document, TargetKind};
use lockgate_text::json;
use serde_json::Value;

use super::lint_context::{LintContext, split_name};

/// Maximum number of warnings.
const MAX_WARNINGS: usize = 100;
/// Maximum number of names in a hint.
const MAX_HINT_NAMES: usize = 10;
/// Wildcard characters of patterns.
const OPEN: [char; 5] = ['*', '?', '[', '{', '\\'];

/// A problem and its hint.
type Words = (String, String);

/// Returns all warnings; empty without a configuration.
pub(super) fn warnings(documents: &[Document], context: &LintContext) -> Vec<Problem> {
    let Some(config) = context.config() else { return Vec::new() };
    let mut all = Vec::new();
    for file in documents {
        for (at, entry) in file.policies.iter().enumerate() {
            let path = Arc::new(file.name.clone().into());
            let place = ValuePlace::File { path, line: entry.line, column: 0 };
            for (key, (what, hint)) in of_policy(&entry.policy, context, config) {
                let key = format!("policies.{at}.{key}");
                all.push(Problem::warning(place.clone(), key, what).hint(hint));
            }
        }
    }
    all.truncate(MAX_WARNINGS);
    all
}

fn of_policy(policy: &Policy, context: &LintContext, config: &Config) -> Vec<(String, Words)> {
    let mut servers: BTreeSet<&str> = config.tools.names().collect();
    for server in &config.servers {
        servers.insert(&server.slug);
    }
    let mut found = Vec::new();
    let principals = policy.who.principals.as_deref().unwrap_or(&[]);
    for (at, text) in principals.iter().enumerate() {
        if let Some(words) = principal(text, config) {
            found.push((format!("who.principals.{at}"), words));
        }
    }
    let named = policy.what.servers.as_deref().unwrap_or(&[]);
    for (at, text) in named.iter().enumerate() {
        if !text.contains(OPEN) && !servers.contains(text.as_str()) {
            let words = (format!("there is no server `{text}`"), there_are(&servers));
            found.push((format!("what.servers.{at}"), words));
        }
    }
    let tools = policy.what.tools.as_deref().unwrap_or(&[]);
    for (at, text) in tools.iter().enumerate() {
        if let Some(words) = tool(text, &servers, context, config) {
            found.push((format!("what.tools.{at}"), words));
        }
    }
    found.extend(arguments(policy, context));
    found
}

/// Checks a pattern over callers.
fn principal(text: &str, config: &Config) -> Option<Words> {
    let (issuer, subject) = text.split_once('|')?;
    if issuer.contains(OPEN) {
        return None;
    }
    let auth = &config.authn;
    match issuer {
        "local" | "anonymous" => None,
        "key" if subject == "default" => match auth.key {
            None => nobody("set `auth.key`, or remove it"),
            Some(_) => None,
        },
        "key" if auth.key.is_none() && auth.keys.is_none() => {
            nobody("set `auth.keys_file`, or remove it")
        }
        "key" if subject.contains(OPEN) => None,
        "key" if is_id(subject) => match &auth.keys {
            Some(keys) if !keys.iter().any(|key| key.id == subject) => Some((
                format!("the keys file has no key `{subject}`"),
                "`lockgate keys list` shows the existing keys".to_owned(),
            )),
            _ => None,
        },
        "key" => {
            let named = auth.keys.iter().flatten().filter(|key| key.name == subject);
            let subjects = named.take(MAX_HINT_NAMES).map(|key| format!("key|{}", key.id));
            let subjects: Vec<_> = subjects.collect();
            let hint = if subjects.is_empty() {
                "`lockgate keys list` shows it".to_owned()
            } else {
                format!("the key with this name is {}", subjects.join(", "))
            };
            Some((format!("matches no key: the subject of a key is its id, not `{subject}`"), hint))
        }
        _ if issuer.starts_with("certificate:") => {
            if auth.certificates {
                None
            } else {
                nobody("set `http.tls.client_ca`, or remove it")
            }
        }
        _ if auth.issuers.values().any(|one| one.issuer == issuer) => None,
        _ => nobody("add it to `auth.issuers` exactly as in its tokens, or remove it"),
    }
}

fn nobody(hint: &str) -> Option<Words> {
    Some(("no caller can have this issuer".to_owned(), hint.to_owned()))
}

/// Checks a pattern over tools.
fn tool(
    text: &str,
    servers: &BTreeSet<&str>,
    context: &LintContext,
    config: &Config,
) -> Option<Words> {
    if !may_name_server(text, servers, config.proxy.names.separator.as_str()) {
        return Some(without_server(text, servers));
    }
    if text.contains(OPEN) {
        return None;
    }
    let (server, own) = split_name(text)?;
    let tools = context.tools(server);
    if tools.is_empty() || ends_in_hash(own) {
        return None;
    }
    let mut names = BTreeSet::new();
    for name in &tools {
        if name == own {
            return None;
        }
        if let Ok(asked) = context.asked(TargetKind::Tool, &format!("{server}/{name}"), "/mcp")
            && asked.exposed == text
        {
            return None;
        }
        names.insert(name.as_str());
    }
    let what = format!("server `{server}` has no known tool `{own}`");
    Some((what, there_are(&names)))
}

/// Reports whether a pattern could match a tool of one of these servers.
fn may_name_server(text: &str, servers: &BTreeSet<&str>, separator: &str) -> bool {
    let plain = text.split(OPEN).next().unwrap_or(text);
    let is_open = plain.len() < text.len();
    let mut starts = servers
        .iter()
        .flat_map(|server| ["/", "__", separator].map(|separator| [*server, separator].concat()));
    starts.any(|start| plain.starts_with(&start) || is_open && start.starts_with(plain))
}

/// Describes a pattern over tools that matches no server's tools.
fn without_server(text: &str, servers: &BTreeSet<&str>) -> Words {
    let plain = text.split(OPEN).next().unwrap_or(text);
    if let Some((server, _)) = split_name(plain) {
        return (format!("there is no server `{server}`"), there_are(servers));
    }
    let what = "matches no tool: it contains no server name".to_owned();
    if let Some((server, _)) = plain.split_once(['.', ':', '-', '_'])
        && servers.contains(server)
        && let Some(own) = text.get(server.len() + 1..)
    {
        return (what, format!("did you mean `{server}/{own}`?"));
    }
    (what, format!("write it as server/tool or server__tool; {}", there_are(servers)))
}

/// Reports whether a name may end in the hash that distinguishes colliding names.
fn ends_in_hash(own: &str) -> bool {
    let Some((_, end)) = own.rsplit_once('_') else { return false };
    matches!(end.len(), 8 | 16 | 32) && end.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Returns argument pointers that none of the policy's tools accept. Requires that every tool is
/// named and its arguments are known.
fn arguments(policy: &Policy, context: &LintContext) -> Vec<(String, Words)> {
    let tools = policy.what.tools.as_deref().unwrap_or(&[]);
    let taken = tools.iter().map(|text| taken_by(text, context));
    let taken: Option<Vec<_>> = taken.collect();
    let Some(taken) = taken.filter(|taken| !taken.is_empty()) else { return Vec::new() };
    let known: BTreeSet<String> = taken.into_iter().flatten().collect();
    let names: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    for (pointer, rule) in &policy.arguments {
        if rule.forbid {
            continue;
        }
        if let Some(name) = first_part(pointer)
            && name != "*"
            && !known.contains(&name)
        {
            let what = "none of these tools has such an argument".to_owned();
            found.push((format!("arguments.{pointer}"), (what, there_are(&names))));
        }
    }
    found
}

/// Returns the arguments of a tool, if the pattern names a tool with known arguments.
fn taken_by(text: &str, context: &LintContext) -> Option<BTreeSet<String>> {
    let (server, own) = split_name(text)?;
    properties(&context.definition(server, own).ok()??)
}

/// Returns the first segment of a pointer.
fn first_part(pointer: &str) -> Option<String> {
    let part = pointer.strip_prefix('/')?.split('/').next()?;
    Some(part.replace("~1", "/").replace("~0", "~"))
}

/// Returns the arguments of a tool, if its schema lists all of them.
fn properties(definition: &[u8]) -> Option<BTreeSet<String>> {
    let definition: Value = json::from_slice(definition).ok()?;
    let schema = definition.get("inputSchema")?.as_object()?;
    let open = [
        "$ref",
        "$dynamicRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "patternProperties",
        "dependentSchemas",
    ];
    let is_closed = matches!(schema.get("additionalProperties"), None | Some(Value::Bool(false)));
    if !is_closed || open.iter().any(|key| schema.contains_key(*key)) {
        return None;
    }
    Some(schema.get("properties")?.as_object()?.keys().cloned().collect())
}

fn there_are(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        return "there are none".into();
    }
    let shown: Vec<&str> = names.iter().copied().take(MAX_HINT_NAMES).collect();
    let more = if names.len() > MAX_HINT_NAMES { ", …" } else { "" };
    format!("there are {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests;
