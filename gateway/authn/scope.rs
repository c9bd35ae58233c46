//! Scopes that requests need, and scopes that others imply, compiled when the configuration is
//! loaded. Scopes are a requirement, never a permission.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::config::Scopes;
use crate::identity::Identity;

/// Maximum number of scopes from a credential; the rest are ignored.
pub(crate) const MAX_SCOPES: usize = 256;

pub(crate) struct Needs {
    pub(crate) scopes: Scopes,
    /// The globs of each entry of `scopes.tools`.
    tools: Vec<GlobSet>,
}

impl Scopes {
    /// Returns the granted scopes and, transitively, the scopes that they imply.
    pub fn expand(&self, granted: &[impl AsRef<str>]) -> Box<[Arc<str>]> {
        let mut all = BTreeSet::new();
        let mut open: Vec<_> = granted.iter().map(AsRef::as_ref).take(MAX_SCOPES).collect();
        while let Some(scope) = open.pop() {
            if all.len() < MAX_SCOPES * 4
                && all.insert(Arc::from(scope))
                && let Some(implied) = self.implies.get(scope)
            {
                open.extend(implied.iter().map(String::as_str));
            }
        }
        all.into_iter().collect()
    }
}

impl Needs {
    pub(crate) fn compile(config: &Scopes) -> Result<Self, globset::Error> {
        let mut tools = Vec::new();
        for rule in &config.tools {
            let mut globs = GlobSetBuilder::new();
            for glob in &rule.tools {
                globs.add(Glob::new(glob)?);
            }
            tools.push(globs.build()?);
        }
        Ok(Self { scopes: config.clone(), tools })
    }

    pub(crate) fn base(&self, identity: &Identity) -> bool {
        self.scopes.required.iter().all(|scope| identity.has_scope(scope))
    }

    /// Returns all scopes that a call of a tool needs, if the caller lacks any of them.
    pub(crate) fn lacking(&self, identity: &Identity, slug: &str, own: &str) -> Option<Vec<&str>> {
        if self.tools.is_empty() {
            return None;
        }
        let name = format!("{slug}__{own}");
        let path = format!("{slug}/{own}");
        let mut all: Vec<&str> = self.scopes.required.iter().map(String::as_str).collect();
        for (globs, rule) in self.tools.iter().zip(&self.scopes.tools) {
            if !globs.is_match(&name) && !globs.is_match(&path) {
                continue;
            }
            for scope in &rule.scopes {
                if !all.contains(&scope.as_str()) {
                    all.push(scope);
                }
            }
        }
        let has_all = all.iter().all(|scope| identity.has_scope(scope));
        if has_all { None } else { Some(all) }
    }
}

/// Returns whether a text is a scope (RFC 6749, section 3.3) of at most 128 bytes.
pub fn is_scope(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

#[cfg(test)]
mod tests;
