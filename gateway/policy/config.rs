//! The input of the policy engine, already read from configuration. This module reads no files.

use std::collections::{BTreeMap, BTreeSet};

use lockgate_text::setting::{List, Whole, Written};
use lockgate_text::settings;
use serde_json::Value;

use crate::file::{Effect, Key, Policy, Rate, What};

/// Length limit of a value in [`differences`], in characters.
const MAX_SHOWN: usize = 200;

/// The policies of a configuration, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The lists of the configuration file, a short form of policies.
    pub lists: Lists,
    /// The policy files. With at least one file, anything that no policy allows is denied. Without
    /// files, anything that the lists do not deny is allowed.
    pub documents: Vec<Document>,
}

/// Allows everything, at any rate.
impl Default for Config {
    fn default() -> Self {
        let lists = Lists { completions_per_minute: None, ..Lists::default() };
        Self { lists, documents: Vec::new() }
    }
}

impl Config {
    /// Returns a hash of the policies as written.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        // Different policies have different texts, because texts are quoted.
        *blake3::hash(format!("{self:?}").as_bytes()).as_bytes()
    }
}

impl Lists {
    fn written(&self) -> [(&'static str, String); 6] {
        [
            ("servers", self.servers.written()),
            ("tools", self.tools.written()),
            ("prompts", self.prompts.written()),
            ("resources", self.resources.written()),
            ("calls_per_minute", shown(self.calls_per_minute)),
            ("completions_per_minute", shown(self.completions_per_minute)),
        ]
    }
}

settings! {
    // The lists of the configuration file, a short form of policies, and the names of policy files.

    #[derive(Debug)]
    pub struct Lists as "Policy" {
        /// Policy files, folders of them, or patterns such as `policies/*.yaml`; relative to this
        /// file. With at least one of them, the default is to deny.
        pub files: Vec<String> = List,
        /// Servers, by name.
        pub servers: Allow,
        /// Tools, by exposed name: `time__get_current_time`, or `time/get_current_time`. Production
        /// requires it, or `files`.
        pub tools: Allow,
        /// Prompts, by exposed name.
        pub prompts: Allow,
        /// Resources and templates, by exposed URI.
        pub resources: Allow,
        /// Tool calls per caller and minute, 1–1000000; not limited without it.
        pub calls_per_minute: Option<u32> = Option<Whole<1, 1_000_000, 0>>,
        /// Completions per caller and minute, 1–1000000.
        pub completions_per_minute: Option<u32> = Whole<1, 1_000_000, 120> => limited,
    }

    /// An item is allowed if an `allow` pattern matches it and no `deny` pattern does.
    #[derive(Debug)]
    pub struct Allow as "Allow" {
        /// Patterns with `*`, `?`, `[…]` and `{a,b}`. Default `["*"]`; beside `policy.files` none.
        pub allow: Option<Vec<String>> = Option<List>,
        /// Patterns that take precedence over `allow`. Default none.
        pub deny: Vec<String> = List,
    }
}

fn limited(given: Whole<1, 1_000_000, 120>) -> Option<u32> {
    Some(given.plain())
}

impl Allow {
    fn written(&self) -> String {
        let allow = self.allow.as_ref().map(|allow| format!("allow {allow:?}"));
        let deny = (!self.deny.is_empty()).then(|| format!("deny {:?}", self.deny));
        let parts = Vec::from_iter(allow.into_iter().chain(deny)).join(", ");
        if parts.is_empty() { "none".into() } else { parts }
    }
}

/// A policy file as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The name of the file in messages.
    pub name: String,
    pub policies: Vec<PolicyEntry>,
}

/// One policy of a file.
#[derive(Clone)]
pub struct PolicyEntry {
    pub policy: Policy,
    /// The first line of the policy; 0 if unknown.
    pub line: usize,
    /// The policy as written, for detecting changes.
    pub source: Value,
}

/// Returns the differences between two configurations, one line each, for the log.
pub fn differences(old: &Config, new: &Config) -> Vec<String> {
    let was = entries_by_name(old);
    let is = entries_by_name(new);
    let mut lines = Vec::new();
    for (name, (entry, file)) in &is {
        match was.get(name) {
            None => lines.push(format!("+ {name} ({file}:{})", entry.line)),
            Some((before, _)) if before.source != entry.source => {
                let keys = keys(&before.source, &entry.source);
                lines.push(format!("~ {name} ({file}:{}): {keys}", entry.line));
            }
            Some(_) => {}
        }
    }
    let removed = was.iter().filter(|(name, _)| !is.contains_key(*name));
    lines.extend(removed.map(|(name, (_, file))| format!("- {name} ({file})")));
    for ((key, was), (_, is)) in old.lists.written().into_iter().zip(new.lists.written()) {
        if was != is {
            let change = format!("{} -> {}", cut(was), cut(is));
            lines.push(format!("~ policy.{key} of the configuration file: {change}"));
        }
    }
    lines
}

fn entries_by_name(config: &Config) -> BTreeMap<&str, (&PolicyEntry, &str)> {
    let mut entries = BTreeMap::new();
    for file in &config.documents {
        let all = file.policies.iter();
        entries.extend(all.map(|entry| (entry.policy.name.as_str(), (entry, file.name.as_str()))));
    }
    entries
}

/// Returns the keys of a policy that differ, with both values.
fn keys(old: &Value, new: &Value) -> String {
    let Value::Object(old) = old else { return String::new() };
    let Value::Object(new) = new else { return String::new() };
    let all = BTreeSet::from_iter(old.keys().chain(new.keys()));
    let values = all.into_iter().map(|key| (key, old.get(key), new.get(key)));
    let differing = values.filter(|(_, was, is)| was != is);
    let lines = differing.map(|(key, was, is)| format!("{key} {} -> {}", shown(was), shown(is)));
    Vec::from_iter(lines).join(", ")
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".into(), |value| cut(value.to_string()))
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Compares the sources only, because `policy` is derived from `source`.
impl PartialEq for PolicyEntry {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for PolicyEntry {}

lockgate_text::debug_fields!(PolicyEntry: source);

// The lists of the configuration file as policies, so that one engine decides on both.

/// Returns the policies for the lists. `alone` indicates that there are no policy files, so that a
/// missing `allow` list allows everything.
pub(crate) fn policies(lists: &Lists, alone: bool) -> Vec<Policy> {
    let mut all = Vec::new();
    if let Some(servers) = &lists.servers.allow {
        add(&mut all, "servers.allow", Effect::Deny, servers, |what| &mut what.not_servers);
    }
    if !lists.servers.deny.is_empty() {
        add(&mut all, "servers.deny", Effect::Deny, &lists.servers.deny, |what| &mut what.servers);
    }
    kind(&mut all, "tools", &lists.tools, alone, |what| &mut what.tools);
    kind(&mut all, "prompts", &lists.prompts, alone, |what| &mut what.prompts);
    kind(&mut all, "resources", &lists.resources, alone, |what| &mut what.resources);
    let rates = [
        ("policy.calls_per_minute", "tools/call", lists.calls_per_minute),
        ("policy.completions_per_minute", "completion/complete", lists.completions_per_minute),
    ];
    for (name, method, per_minute) in rates {
        let Some(per_minute) = per_minute else { continue };
        let what = What { methods: Some(vec![method.into()]), ..What::default() };
        let rate = Rate {
            per_minute: Some(per_minute),
            by: Some(vec![Key::Principal]),
            ..Rate::default()
        };
        all.push(Policy { what, rate: Some(rate), ..Policy::deny(name) });
    }
    all
}

/// Selects a list of a policy.
type Pick = fn(&mut What) -> &mut Option<Vec<String>>;

fn kind(all: &mut Vec<Policy>, key: &str, list: &Allow, alone: bool, pick: Pick) {
    let name = format!("{key}.allow");
    match &list.allow {
        Some(allow) => add(all, &name, Effect::Allow, allow, pick),
        None if alone => add(all, &name, Effect::Allow, &["*".to_owned()], pick),
        None => {}
    }
    if !list.deny.is_empty() {
        add(all, &format!("{key}.deny"), Effect::Deny, &list.deny, pick);
    }
}

fn add(all: &mut Vec<Policy>, name: &str, effect: Effect, list: &[String], pick: Pick) {
    let mut policy = Policy { effect, ..Policy::deny(&format!("policy.{name}")) };
    *pick(&mut policy.what) = Some(list.to_vec());
    all.push(policy);
}
