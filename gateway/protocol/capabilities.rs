//! Declared capabilities of clients and servers. Read once per handshake or cheaply per request,
//! and forwarded only where the gateway can relay their feature.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::VecDeque;

use bytes::Bytes;
use lockgate_text::json;
use serde_json::{Map, Value, json};

use crate::revision::Revision;
use crate::scan::{self, Keys, Scanner};

/// The tasks extension (2026-07-28).
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
/// Capabilities that declare the tasks extension only.
const TASKS_ALONE: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
/// MCP Apps.
pub const UI: &str = "io.modelcontextprotocol/ui";
/// Agent skills (SEP-2640).
pub const SKILLS: &str = "io.modelcontextprotocol/skills";
/// Extensions scoped to a hop, with which the two sides of that hop authorize each other.
const HOP_SCOPED: [&str; 2] = [
    "io.modelcontextprotocol/oauth-client-credentials",
    "io.modelcontextprotocol/enterprise-managed-authorization",
];
/// Maximum extensions of one side; beyond it, only known extensions are forwarded.
const MAX_EXTENSIONS: usize = 32;
const NONE: Bytes = Bytes::from_static(b"{}");
/// Maximum capabilities of a client in bytes of JSON text, because they are kept per connection.
const MAX_CAPABILITIES: usize = 4096;
/// Results of [`carried`] that a thread remembers.
const MAX_REMEMBERED: usize = 16;

thread_local! {
    static REMEMBERED: RefCell<VecDeque<(Vec<u8>, Bytes)>> =
        const { RefCell::new(VecDeque::new()) };
}

/// Capabilities that a server declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    /// `resources/subscribe`, or `resourceSubscriptions` of a listen.
    pub subscribe: bool,
    pub completions: bool,
    pub logging: bool,
    /// The experimental tasks of 2025-11-25.
    pub legacy_tasks: bool,
    /// The tasks extension.
    pub tasks: bool,
    /// Whether any list declares `listChanged`.
    pub list_changed: bool,
    /// The skills extension, and its setting `directoryRead`.
    pub skills: bool,
    pub directory_read: bool,
}

impl Offers {
    /// Reads a `ServerCapabilities` object.
    pub fn of(capabilities: &Value) -> Self {
        let lists = ["tools", "prompts", "resources"];
        // Skills are read as resources.
        let extensions = &capabilities["extensions"];
        let skills = has(extensions, SKILLS) && has(capabilities, "resources");
        Self {
            tools: has(capabilities, "tools"),
            prompts: has(capabilities, "prompts"),
            resources: has(capabilities, "resources"),
            subscribe: has_flag(capabilities, "resources", "subscribe"),
            completions: has(capabilities, "completions"),
            logging: has(capabilities, "logging"),
            legacy_tasks: has(capabilities, "tasks"),
            tasks: extensions.get(TASKS).is_some(),
            list_changed: lists.iter().any(|list| has_flag(capabilities, list, "listChanged")),
            skills,
            directory_read: skills && has_flag(extensions, SKILLS, "directoryRead"),
        }
    }

    /// Returns the union of both.
    #[must_use]
    pub fn or(mut self, mut other: Self) -> Self {
        for ((_, own), (_, more)) in self.named().into_iter().zip(other.named()) {
            *own |= *more;
        }
        self
    }

    /// Returns all features with their names.
    pub fn named(&mut self) -> [(&'static str, &mut bool); 11] {
        [
            ("tools", &mut self.tools),
            ("prompts", &mut self.prompts),
            ("resources", &mut self.resources),
            ("subscribe", &mut self.subscribe),
            ("completions", &mut self.completions),
            ("logging", &mut self.logging),
            ("legacyTasks", &mut self.legacy_tasks),
            ("tasks", &mut self.tasks),
            ("listChanged", &mut self.list_changed),
            ("skills", &mut self.skills),
            ("directoryRead", &mut self.directory_read),
        ]
    }

    /// Returns `ServerCapabilities` for a legacy client: a superset, because it applies to the
    /// whole session while servers come and go. Every declared method works, at least with an empty
    /// list.
    pub fn legacy_superset() -> Value {
        json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true},
            "completions": {},
            "logging": {}
        })
    }

    /// Returns `ServerCapabilities` for a modern client: the current offers.
    pub fn modern(self) -> Value {
        let resources = json!({"listChanged": true, "subscribe": self.subscribe});
        let mut all = Map::new();
        for (on, name, value) in [
            (self.tools, "tools", json!({"listChanged": true})),
            (self.prompts, "prompts", json!({"listChanged": true})),
            (self.resources, "resources", resources),
            (self.completions, "completions", json!({})),
            (self.logging, "logging", json!({})),
            // Tasks of 2025-11-25 are declared as the extension.
            (self.tasks || self.legacy_tasks, "extensions", json!({TASKS: {}})),
        ] {
            if on {
                all.insert(name.to_owned(), value);
            }
        }
        Value::Object(all)
    }
}

fn has(capabilities: &Value, name: &str) -> bool {
    capabilities[name].is_object()
}

fn has_flag(capabilities: &Value, name: &str, flag: &str) -> bool {
    let Some(capability) = capabilities.get(name) else { return false };
    capability.get(flag) == Some(&Value::Bool(true))
}

/// Returns whether a `ClientCapabilities` object (JSON text) declares a feature by which servers
/// send requests to the client.
pub fn is_interactive(capabilities: &[u8]) -> bool {
    let mut features = ["elicitation", "sampling", "roots"].iter();
    capabilities != b"{}" && features.any(|feature| declares(capabilities, &[feature]))
}

/// Returns whether the JSON text of a capabilities object has a value other than `null` and `false`
/// at `path`.
pub fn declares(capabilities: &[u8], path: &[&str]) -> bool {
    let mut at = capabilities;
    for name in path {
        let Ok(mut scanner) = Scanner::new(at, scan::MAX_DEPTH) else { return false };
        let Ok((_, members)) = scanner.members(Keys::Distinct) else { return false };
        match scan::find(&members, at, name) {
            Some(span) => at = span.of(at),
            None => return false,
        }
    }
    !matches!(at, b"null" | b"false")
}

/// Returns the [`carried`] capabilities of a client with a legacy revision. Features unknown to
/// that revision are removed, so that no server sends a request the client cannot receive. Keeps
/// `roots.listChanged`.
pub fn carried_of(declared: &[u8], revision: Revision) -> Bytes {
    let carried = carried(declared);
    let Ok(Value::Object(mut all)) = json::from_slice::<Value>(&carried) else { return NONE };
    if let Some(Value::Object(roots)) = all.get_mut("roots")
        && declares(declared, &["roots", "listChanged"])
    {
        roots.insert("listChanged".into(), true.into());
    }
    if revision >= Revision::V2025_11_25 {
        return Value::Object(all).to_string().into();
    }
    if revision < Revision::V2025_06_18 {
        all.remove("elicitation");
    } else if let Some(Value::Object(modes)) = all.get_mut("elicitation") {
        // Only forms exist in these revisions, so modes are not listed.
        modes.clear();
    }
    if let Some(Value::Object(sampling)) = all.get_mut("sampling") {
        sampling.clear();
    }
    let text = Value::Object(all).to_string();
    if text.len() > MAX_CAPABILITIES { NONE } else { text.into() }
}

/// Adds the tasks extension. Copies at most once if no other extension is declared, because every
/// tool call of a legacy client passes here.
pub fn with_tasks(carried: &[u8]) -> Cow<'static, [u8]> {
    let others = match carried.strip_suffix(b"}") {
        None | Some(b"{") => return Cow::Borrowed(TASKS_ALONE.as_bytes()),
        Some(others) => others,
    };
    if memchr::memmem::find(carried, b"\"extensions\"").is_none() {
        let extension = TASKS_ALONE.trim_start_matches('{').as_bytes();
        return [others, b",", extension].concat().into();
    }
    let mut all: Map<String, Value> = json::from_slice(carried).unwrap_or(Map::new());
    let extensions = all.entry("extensions").or_insert_with(|| json!({}));
    if let Value::Object(extensions) = extensions {
        extensions.insert(TASKS.to_owned(), json!({}));
    }
    Value::Object(all).to_string().into_bytes().into()
}

/// Returns the client capabilities that the gateway forwards to a server of either era, as JSON
/// text: elicitation, sampling, roots and extensions. All others are scoped to the client's hop.
pub fn carried(declared: &[u8]) -> Bytes {
    if declared == b"{}" {
        return NONE;
    }
    // A client declares the same capabilities with every request.
    let known = REMEMBERED.with_borrow(|all| {
        let found = all.iter().find(|(seen, _)| seen == declared);
        found.map(|(_, carried)| carried.clone())
    });
    if let Some(carried) = known {
        return carried;
    }
    let carried = read_carried(declared);
    if declared.len() <= MAX_CAPABILITIES {
        REMEMBERED.with_borrow_mut(|all| {
            if all.len() >= MAX_REMEMBERED {
                all.pop_front();
            }
            all.push_back((declared.to_vec(), carried.clone()));
        });
    }
    carried
}

fn read_carried(declared: &[u8]) -> Bytes {
    let Ok(Value::Object(mut all)) = json::from_slice::<Value>(declared) else { return NONE };
    all.retain(|name, _| {
        matches!(name.as_str(), "elicitation" | "sampling" | "roots" | "extensions")
    });
    if let Some(Value::Object(extensions)) = all.get_mut("extensions") {
        retain_carried(extensions);
        if extensions.is_empty() {
            all.remove("extensions");
        }
    } else {
        all.remove("extensions");
    }
    if let Some(Value::Object(roots)) = all.get_mut("roots") {
        roots.clear();
    }
    let mut all = Value::Object(all);
    let mut text = all.to_string();
    if text.len() > MAX_CAPABILITIES {
        // Too long to keep: unknown extensions are removed.
        if let Some(Value::Object(extensions)) = all.get_mut("extensions") {
            extensions.retain(|name, _| matches!(name.as_str(), TASKS | UI));
        }
        text = all.to_string();
    }
    if text.len() > MAX_CAPABILITIES { NONE } else { text.into() }
}

/// Keeps the extensions that may be forwarded: known ones, and unknown ones, with their settings
/// and payload unchanged.
fn retain_carried(extensions: &mut Map<String, Value>) {
    let is_crowded = extensions.len() > MAX_EXTENSIONS;
    extensions.retain(|name, _| {
        let is_known = matches!(name.as_str(), TASKS | UI);
        is_known || !is_crowded && is_extension(name) && !HOP_SCOPED.contains(&name.as_str())
    });
}

/// Returns whether a name has the specification's form `prefix/name`.
fn is_extension(name: &str) -> bool {
    let Some((prefix, rest)) = name.split_once('/') else { return false };
    is_plain(prefix) && is_plain(rest)
}

fn is_plain(part: &str) -> bool {
    let mut bytes = part.bytes();
    !part.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// The extensions of several servers that an endpoint announces: those that add no methods, which
/// the gateway would not serve. Tasks and skills are left out, because the gateway announces its
/// own support.
#[derive(Default)]
pub struct ServerExtensions {
    all: Map<String, Value>,
    /// Names with different settings.
    contradicted: Vec<String>,
}

impl ServerExtensions {
    /// Adds the extensions that a server declares (JSON text of an object). `adds_no_methods` are
    /// names besides those of extensions that the gateway supports.
    pub fn add(&mut self, declared: &[u8], adds_no_methods: &BTreeSet<String>) {
        if declared.len() > MAX_CAPABILITIES {
            return;
        }
        let Ok(Value::Object(mut declared)) = json::from_slice(declared) else { return };
        retain_carried(&mut declared);
        declared.retain(|name, _| {
            let is_own = matches!(name.as_str(), TASKS | SKILLS);
            name == UI || !is_own && adds_no_methods.contains(name)
        });
        for (name, settings) in declared {
            match self.all.get(&name) {
                None if self.all.len() < MAX_EXTENSIONS => drop(self.all.insert(name, settings)),
                Some(known) if *known != settings => self.contradicted.push(name),
                _ => {}
            }
        }
    }

    /// Returns the extensions with the settings on which all of their servers agree, and the skills
    /// extension if it is offered.
    #[must_use]
    pub fn finish(mut self, offers: Offers) -> Map<String, Value> {
        for name in self.contradicted {
            self.all.remove(&name);
        }
        if offers.skills {
            let settings =
                if offers.directory_read { json!({"directoryRead": true}) } else { json!({}) };
            self.all.insert(SKILLS.into(), settings);
        }
        self.all
    }
}

/// Adds extensions to a server's capabilities.
pub fn add_extensions(capabilities: &mut Value, extensions: &Map<String, Value>) {
    let Value::Object(all) = capabilities else { return };
    if extensions.is_empty() {
        return;
    }
    let known = all.entry("extensions").or_insert_with(|| json!({}));
    if let Value::Object(known) = known {
        known.extend(extensions.clone());
    }
}

#[cfg(test)]
mod tests;
