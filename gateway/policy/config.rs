//! What policy decides on, already read from configuration. It reads no file.

use std::fmt;

use serde_json::Value;

use crate::file;

/// Everything that policies are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The lists of the configuration file: policies in short.
    pub lists: Lists,
    /// Policy files. With one of them, what no policy allows is denied; without any, what the lists do not deny is allowed.
    pub documents: Vec<Document>,
}

/// Policies in short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Slugs of servers that clients may see and use at all.
    pub servers: Allow,
    /// Exposed names (`slug__tool`, also as `slug/tool`) of tools that clients may see and call.
    pub tools: Allow,
    /// Exposed names of prompts that clients may see and get.
    pub prompts: Allow,
    /// Exposed URIs of resources and templates that clients may see and read.
    pub resources: Allow,
    /// `tools/call` per principal and minute; none without it.
    pub calls_per_minute: Option<u32>,
    /// `completion/complete` per principal and minute; none without it.
    pub completions_per_minute: Option<u32>,
}

/// Allowed when some `allow` glob matches and no `deny` glob does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// `None` when nothing is written: everything without policy files, nothing beside them.
    pub allow: Option<Vec<String>>,
    pub deny: Vec<String>,
}

/// A policy file as it was read.
#[derive(Clone)]
pub struct Document {
    /// How the file is named to people.
    pub name: String,
    pub policies: Vec<Entry>,
}

/// One policy of a file.
#[derive(Clone)]
pub struct Entry {
    pub policy: file::Policy,
    /// The line that it begins at; 0 where it has none.
    pub line: usize,
    /// The same as it was written, to tell what has changed.
    pub source: Value,
}

/// The source alone: a policy is what was written.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.policies == other.policies
    }
}

impl Eq for Document {}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.policies.iter().map(|entry| entry.policy.name.as_str()).collect();
        f.debug_struct("Document").field("name", &self.name).field("policies", &names).finish()
    }
}
