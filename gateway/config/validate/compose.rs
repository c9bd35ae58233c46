//! `groups`, `endpoints` and `methods`: servers, patterns and names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_proxy::{Compose, Config, ItemMistake, is_name};

use super::{Check, is_slug};
use crate::raw::Root;
use crate::raw::leaf::List;

/// Groups, and likewise endpoints.
const MAX_ENTRIES: usize = 100;
const MAX_GROUPED: usize = 100;

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
        for (name, items) in &root.endpoints {
            let compose = items.check().unwrap_or_else(|mistakes| {
                for ItemMistake { member, key, what, fix } in mistakes {
                    let mut at = vec!["endpoints", name, member];
                    at.extend(key.as_deref());
                    self.error(&at, what, fix);
                }
                Compose::default()
            });
            endpoints.insert(name.clone(), Arc::new(compose));
        }
        endpoints
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
