//! Tools of several servers with equal definitions that appear as one, with an argument that
//! selects the server. Calls become calls of the server's own tool before any other step.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::list;
use lockgate_protocol::name::{Naming, Slug};
use lockgate_text::json;
use lockgate_upstream::Item;
use serde_json::{Map, Value, json};

use super::entry::CatalogEntry;
use crate::config::Group;

/// The groups of a view.
pub(crate) struct Groups {
    /// All tools of the view, of which each group is one.
    pub(crate) listed: Vec<Arc<CatalogEntry>>,
    by_name: HashMap<Arc<str>, GroupedTool>,
}

/// A tool that several servers offer.
pub(crate) struct GroupedTool {
    pub(crate) entry: Arc<CatalogEntry>,
    pub(crate) argument: String,
    /// The name that takes the servers' place.
    group: String,
    /// Names of the servers' tools, by server.
    pub(crate) members: BTreeMap<Slug, Arc<str>>,
}

impl Groups {
    /// Returns the groups among these tools, if any, and why other tools of the configured servers
    /// stay apart.
    pub(crate) fn find(
        tools: &[Arc<CatalogEntry>],
        groups: &BTreeMap<String, Group>,
        naming: Naming,
    ) -> (Option<Box<Self>>, Vec<String>) {
        let mut found = Self { listed: Vec::new(), by_name: HashMap::new() };
        let mut apart = Vec::new();
        let mut replaced: HashMap<*const CatalogEntry, Option<Arc<CatalogEntry>>> = HashMap::new();
        let mut taken: HashSet<&str> = HashSet::new();
        for tool in tools {
            taken.insert(&tool.exposed);
            taken.extend(tool.listed.as_deref());
        }
        for (name, group) in groups {
            let Ok(slug) = Slug::new(name) else { continue };
            let mut by_key: BTreeMap<&str, Vec<&Arc<CatalogEntry>>> = BTreeMap::new();
            for tool in tools {
                if group.servers.contains(tool.slug.as_str()) && tool.listed.is_none() {
                    by_key.entry(&tool.item.key).or_default().push(tool);
                }
            }
            for (key, members) in by_key {
                let exposed = naming.expose([(&slug, key)]).pop().unwrap_or_default();
                let exposed: Arc<str> = exposed.into();
                let joined = match join((name, group), &members, &exposed) {
                    Ok(joined) if !taken.contains(&*exposed) => joined,
                    Ok(_) => {
                        apart
                            .push(format!("groups.{name}: {key}: another tool is named {exposed}"));
                        continue;
                    }
                    Err(why) => {
                        apart.push(format!("groups.{name}: {key} stays apart: {why}"));
                        continue;
                    }
                };
                let mut first = Some(Arc::clone(&joined.entry));
                for member in members {
                    replaced.insert(Arc::as_ptr(member), first.take());
                }
                found.by_name.insert(exposed, joined);
            }
        }
        if found.by_name.is_empty() {
            return (None, apart);
        }
        for tool in tools {
            match replaced.remove(&Arc::as_ptr(tool)) {
                None => found.listed.push(Arc::clone(tool)),
                Some(group) => found.listed.extend(group),
            }
        }
        (Some(Box::new(found)), apart)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&GroupedTool> {
        self.by_name.get(name)
    }

    /// Returns the names of the groups' tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }
}

impl GroupedTool {
    /// Returns whether the group, or one of its servers, has this name.
    pub(crate) fn is_of(&self, server: &str) -> bool {
        self.group == server || self.members.contains_key(server)
    }
}

/// Joins the tools of the servers, or returns why they stay apart.
fn join(
    (name, group): (&str, &Group),
    members: &[&Arc<CatalogEntry>],
    exposed: &Arc<str>,
) -> Result<GroupedTool, String> {
    let [first, others @ ..] = members else { return Err("no server offers it".into()) };
    if let Some(other) = others.iter().find(|other| fingerprint(other) != fingerprint(first)) {
        return Err(format!("its definitions of {} and {} differ", first.slug, other.slug));
    }
    if others.iter().any(|other| other.audience != first.audience) {
        return Err("its servers offer it to different clients".into());
    }
    let slugs: Vec<&str> = members.iter().map(|tool| tool.slug.as_str()).collect();
    let text = add_argument(&first.item.text, &group.argument, &slugs)?;
    let mut entry = CatalogEntry::clone(first);
    entry.exposed = Arc::clone(exposed);
    entry.listed = Some(Arc::clone(exposed));
    entry.item = Item { text: Bytes::from(text), headers: None, ..entry.item };
    let members = members.iter().map(|one| (one.slug.clone(), Arc::clone(&one.exposed))).collect();
    let argument = group.argument.clone();
    Ok(GroupedTool { entry: Arc::new(entry), argument, group: name.into(), members })
}

fn fingerprint(tool: &CatalogEntry) -> &str {
    tool.inspected.as_ref().map_or("", |inspected| &inspected.fingerprint)
}

/// Adds the argument that selects a server to a definition, without annotations of headers.
fn add_argument(definition: &[u8], argument: &str, slugs: &[&str]) -> Result<Vec<u8>, String> {
    let plain = list::without_annotations(definition).ok_or("its definition cannot be read")?;
    if memchr::memmem::find(&plain, b"resourceUri").is_some() {
        return Err("it has a page (MCP Apps), which is of a single server".into());
    }
    let schema = list::member(&plain, "inputSchema").unwrap_or(b"{}");
    let Ok(mut schema) = json::from_slice::<Map<String, Value>>(schema) else {
        return Err("its `inputSchema` is not an object".into());
    };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(properties) = properties else {
        return Err("its `properties` are not an object".into());
    };
    let selector = json!({"type": "string", "enum": slugs, "description": "The server"});
    if properties.insert(argument.to_owned(), selector).is_some() {
        return Err(format!("it has an argument `{argument}` itself"));
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        required.push(argument.into());
    }
    let schema = Value::Object(schema).to_string();
    list::with_member(&plain, "inputSchema", schema.as_bytes())
        .ok_or_else(|| "its definition cannot be read".into())
}

#[cfg(test)]
mod tests;
