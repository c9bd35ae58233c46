//! The choice of an endpoint's items, by the operator for `endpoints` and by owners of agents for
//! theirs: patterns, other names and other descriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_policy::{Patterns, pin};
use lockgate_text::setting::{List, Text};
use lockgate_text::{json, settings};
use serde::Serialize;

/// Names of the tools of the gateway (`catalog/tool_index`), which no item may have.
pub(crate) const FIND: &str = "find_tools";
pub(crate) const DESCRIBE: &str = "describe_tools";
pub(crate) const CALL: &str = "call_tool";

/// Renamed, and likewise described, items of an endpoint.
const MAX_CHANGED: usize = 1000;
/// Maximum number of patterns in a list of an agent, and of wildcards in all of them.
const MAX_AGENT_PATTERNS: usize = 100;
/// Characters that make a pattern costly to compile.
const WILDCARDS: [char; 4] = ['*', '?', '[', '{'];
const DESCRIPTION_BYTES: usize = 4096;

settings! {
    /// The items of an endpoint. Keys are `server/name` with the server's own name.
    #[derive(Debug, Serialize)]
    pub struct Items as "Endpoint" {
        /// Patterns of its tools: `server/name`, with `*`, `?`, `[…]` and `{a,b}`.
        pub tools: Vec<String> = List,
        /// Patterns of its prompts, likewise.
        pub prompts: Vec<String> = List,
        /// Patterns of its resources, templates and skills: `server/uri`, or the URI.
        pub resources: Vec<String> = List,
        /// Other names of tools and prompts, by `server/name`: 1 to 64 letters, digits, `_`, `-`
        /// and `.`.
        pub rename: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// Other descriptions, by `server/name` or `server/uri`; at most 4096 bytes.
        pub describe: BTreeMap<String, String> = BTreeMap<String, Text>,
    }
}

/// A mistake in [`Items`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemMistake {
    /// The member, and the key within it.
    pub member: &'static str,
    pub key: Option<String>,
    /// The mistake, phrased to follow the member's name.
    pub what: String,
    pub fix: &'static str,
}

/// [`Items`] that were checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compose {
    pub tools: Patterns,
    pub prompts: Patterns,
    /// Also for templates and skills.
    pub resources: Patterns,
    /// Names of tools and prompts at the endpoint.
    pub rename: BTreeMap<String, String>,
    /// Descriptions at the endpoint.
    pub describe: BTreeMap<String, String>,
}

impl Items {
    /// Checks the items of an agent. Any user can store them, and their patterns are compiled for
    /// every view, so there may be fewer than the operator's.
    ///
    /// # Errors
    /// All mistakes, or those in the numbers of patterns.
    pub(crate) fn check_agent(&self) -> Result<Compose, Vec<ItemMistake>> {
        let mut mistakes = Vec::new();
        for (member, texts) in self.pattern_lists() {
            let wildcards = texts.iter().flat_map(|text| text.matches(WILDCARDS)).count();
            if texts.len().max(wildcards) > MAX_AGENT_PATTERNS {
                let what = format!(
                    "must not have more than {MAX_AGENT_PATTERNS} patterns, or more than \
                        {MAX_AGENT_PATTERNS} wildcards (`*`, `?`, `[`, `{{`) in sum"
                );
                let fix = "remove some, or use wider patterns such as `server/*`";
                mistakes.push(ItemMistake { member, key: None, what, fix });
            }
        }
        if mistakes.is_empty() { self.check() } else { Err(mistakes) }
    }

    /// Checks everything that does not depend on the servers' lists.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check(&self) -> Result<Compose, Vec<ItemMistake>> {
        let mut mistakes = Vec::new();
        self.check_names(&mut mistakes);
        for (key, text) in &self.describe {
            if text.len() > DESCRIPTION_BYTES {
                let what = format!("must not be longer than {DESCRIPTION_BYTES} bytes");
                mistakes.push(mistake("describe", key, what, "shorten it"));
            }
            if pin::strip(text).is_some() {
                let what = "has invisible characters".into();
                mistakes.push(mistake("describe", key, what, "remove them"));
            }
        }
        for (member, changed) in [("rename", &self.rename), ("describe", &self.describe)] {
            if changed.len() > MAX_CHANGED {
                let what = format!("must not have more than {MAX_CHANGED} entries");
                mistakes.push(ItemMistake { member, key: None, what, fix: "remove some" });
            }
            if let Some(key) = changed.keys().find(|key| !key.contains('/')) {
                let fix = "use the server's own name of the item";
                mistakes.push(mistake(member, key, "must be `server/name`".into(), fix));
            }
        }
        let mut lists = [Patterns::default(), Patterns::default(), Patterns::default()];
        for ((member, texts), list) in self.pattern_lists().into_iter().zip(&mut lists) {
            match Patterns::new(texts) {
                Ok(patterns) => *list = patterns,
                Err(what) => {
                    let fix = "use `server/name`, with `*` for any text";
                    mistakes.push(ItemMistake { member, key: None, what, fix });
                }
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let [tools, prompts, resources] = lists;
        Ok(Compose {
            tools,
            prompts,
            resources,
            rename: self.rename.clone(),
            describe: self.describe.clone(),
        })
    }

    /// Returns the lists of patterns, by member.
    fn pattern_lists(&self) -> [(&'static str, &[String]); 3] {
        [("tools", &self.tools), ("prompts", &self.prompts), ("resources", &self.resources)]
    }

    fn check_names(&self, mistakes: &mut Vec<ItemMistake>) {
        let mut names = BTreeSet::new();
        for (key, name) in &self.rename {
            let fix = "choose another name";
            if !is_name(name) || is_management(name) {
                let what = "must be 1 to 64 letters, digits, `_`, `-` and `.`, and not the name \
                    of a tool of the gateway";
                mistakes.push(mistake("rename", key, what.into(), fix));
            } else if !names.insert(name.to_ascii_lowercase()) {
                mistakes.push(mistake("rename", key, "is the name of another item".into(), fix));
            }
        }
    }
}

impl Compose {
    /// Reads the stored items of an agent. Those that cannot be read select nothing.
    pub(crate) fn read(stored: &str) -> Arc<Self> {
        let items: Option<Items> = json::from_str(stored).ok();
        let checked = items.and_then(|items| items.check_agent().ok());
        if checked.is_none() {
            tracing::error!("the stored items of an agent cannot be read; it has none");
        }
        Arc::new(checked.unwrap_or_default())
    }
}

fn mistake(member: &'static str, key: &str, what: String, fix: &'static str) -> ItemMistake {
    ItemMistake { member, key: Some(key.to_owned()), what, fix }
}

/// Returns whether a text can be the name of a tool, or of an argument.
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

/// Returns whether a name is that of a management tool.
pub(crate) fn is_management(name: &str) -> bool {
    matches!(name, FIND | DESCRIBE | CALL)
}

#[cfg(test)]
mod tests;
