//! `groups`, `endpoints` and `methods`: servers, patterns and names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_policy::Patterns;
use lockgate_proxy::{Compose, Config};

use super::{Check, is_slug};
use crate::raw;
use crate::raw::Root;
use crate::raw::leaf::{List, Text};

/// Groups, and likewise endpoints.
const MAX_ENTRIES: usize = 100;
const MAX_GROUPED: usize = 100;
/// Renamed, and likewise described, items of an endpoint.
const MAX_CHANGED: usize = 1000;
const DESCRIPTION_BYTES: usize = 4096;
/// Names of the gateway's own tools.
const RESERVED: [&str; 3] = ["find_tools", "describe_tools", "call_tool"];

impl Check<'_> {
    pub fn check_groups(&mut self, root: &Root) {
        self.entries("groups", root.groups.keys());
        for (name, group) in &root.groups {
            let at = ["groups", name.as_str(), "servers"];
            if !(2..=MAX_GROUPED).contains(&group.servers.len()) {
                self.error(&at, format!("must name 2 to {MAX_GROUPED} servers"), "list them");
            }
            if group.servers.iter().any(|server| !root.servers.contains_key(server)) {
                let what = "names a server that is not in `servers`";
                self.error(&at, what, "name servers; a group cannot contain a group");
            }
            if root.servers.contains_key(name) {
                let what = "is the name of a server";
                self.error(&["groups", name], what, "use a name of its own");
            }
            if !is_name(&group.argument) {
                let what = "must be 1 to 64 letters, digits, `_`, `-` and `.`";
                self.error(&["groups", name, "argument"], what, "such as `cluster`");
            }
        }
    }

    pub fn endpoints(&mut self, root: &Root) -> BTreeMap<String, Arc<Compose>> {
        let mut endpoints = BTreeMap::new();
        self.entries("endpoints", root.endpoints.keys());
        for (name, raw) in &root.endpoints {
            let mut names = BTreeSet::new();
            for (key, Text(listed)) in &raw.rename {
                let at = ["endpoints", name, "rename", key];
                if !is_name(listed) || RESERVED.contains(&listed.as_str()) {
                    let what = "must be 1 to 64 letters, digits, `_`, `-` and `.`, and not the \
                        name of a tool of the gateway";
                    self.error(&at, what, "choose another name");
                } else if !names.insert(listed.to_ascii_lowercase()) {
                    self.error(&at, "is the name of another item", "choose another name");
                }
            }
            for key in raw.describe.keys() {
                let at = ["endpoints", name, "describe", key];
                self.short(&at, raw.describe.get(key), DESCRIPTION_BYTES);
            }
            for (member, changed) in [("rename", &raw.rename), ("describe", &raw.describe)] {
                let at = ["endpoints", name, member];
                if changed.len() > MAX_CHANGED {
                    let what = format!("must not have more than {MAX_CHANGED} entries");
                    self.error(&at, what, "remove some");
                }
                if let Some(key) = changed.keys().find(|key| !key.contains('/')) {
                    let what = format!("`{key:.64}` must be `server/name`");
                    self.error(&at, what, "use the server's own name of the item");
                }
            }
            endpoints.insert(name.clone(), Arc::new(self.compose(name, raw)));
        }
        endpoints
    }

    fn compose(&mut self, name: &str, raw: &raw::Endpoint) -> Compose {
        Compose {
            tools: self.patterns(&["endpoints", name, "tools"], &raw.tools),
            prompts: self.patterns(&["endpoints", name, "prompts"], &raw.prompts),
            resources: self.patterns(&["endpoints", name, "resources"], &raw.resources),
            rename: texts(&raw.rename),
            describe: texts(&raw.describe),
        }
    }

    pub fn methods(&mut self, raw: &List) -> BTreeSet<String> {
        let mut methods = BTreeSet::new();
        if raw.0.len() > MAX_ENTRIES {
            let what = format!("must not have more than {MAX_ENTRIES} entries");
            self.error(&["methods"], what, "remove some");
        }
        for method in &raw.0 {
            let is_plain = method.contains('/') && method.split('/').all(is_name);
            if !is_plain || Config::knows_method(method) {
                let what = "has an entry that is not the name of an unknown method";
                self.error(&["methods"], what, "use names such as com.example/search");
            }
            methods.insert(method.clone());
        }
        methods
    }

    fn patterns(&mut self, at: &[&str], raw: &List) -> Patterns {
        Patterns::new(&raw.0).unwrap_or_else(|what| {
            self.error(at, what, "use `server/name`, with `*` for any text");
            Patterns::default()
        })
    }

    /// Checks the names and the number of the entries of a map.
    fn entries<'k>(&mut self, key: &str, names: impl ExactSizeIterator<Item = &'k String>) {
        if names.len() > MAX_ENTRIES {
            let what = format!("must not have more than {MAX_ENTRIES} entries");
            self.error(&[key], what, "remove some");
        }
        for name in names {
            if !is_slug(name) {
                let what = "the name of an entry must be 1 to 64 of a-z, 0-9 and -";
                self.error(&[key, name], what, "rename it");
            }
        }
    }
}

fn texts(raw: &BTreeMap<String, Text>) -> BTreeMap<String, String> {
    raw.iter().map(|(key, Text(text))| (key.clone(), text.clone())).collect()
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}
