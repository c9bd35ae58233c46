//! May they? A pure decision over names, the same for lists and calls. It reads no file, knows no wire format and
//! denies what it cannot decide.

pub mod command;
mod config;
pub mod path;
mod rate;
mod refusal;
pub mod sql;
pub mod url;

use globset::{Glob, GlobSet, GlobSetBuilder};

pub use config::{Allow, Config};
pub use rate::Rates;
pub use refusal::Refusal;

/// What policy says of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow,
    /// With the setting that decided, such as `policy.tools.deny`.
    Deny(&'static str),
}

/// A glob that does not compile.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {glob:?} is not a glob: {words}")]
pub struct BadGlob {
    pub setting: String,
    pub glob: String,
    pub words: String,
}

/// Compiled allow lists.
#[derive(Debug)]
pub struct Policy {
    servers: Globs,
    tools: Globs,
    prompts: Globs,
    resources: Globs,
}

#[derive(Debug)]
struct Globs {
    allow: GlobSet,
    deny: GlobSet,
    not_allowed: &'static str,
    denied: &'static str,
}

impl Policy {
    /// Compiles every glob.
    ///
    /// # Errors
    /// The first one that does not compile.
    pub fn compile(config: &Config) -> Result<Self, BadGlob> {
        Ok(Self {
            servers: Globs::compile(&config.servers, "policy.servers.allow", "policy.servers.deny")?,
            tools: Globs::compile(&config.tools, "policy.tools.allow", "policy.tools.deny")?,
            prompts: Globs::compile(&config.prompts, "policy.prompts.allow", "policy.prompts.deny")?,
            resources: Globs::compile(&config.resources, "policy.resources.allow", "policy.resources.deny")?,
        })
    }

    /// Whether a server is there at all.
    #[must_use]
    pub fn server(&self, slug: &str) -> Decision {
        self.servers.decide(&[slug])
    }

    /// Whether a tool is there, under its exposed name or as `slug/tool`.
    #[must_use]
    pub fn tool(&self, slug: &str, exposed: &str, own: &str) -> Decision {
        self.item(&self.tools, slug, exposed, own)
    }

    /// Whether a prompt is there, under its exposed name or as `slug/prompt`.
    #[must_use]
    pub fn prompt(&self, slug: &str, exposed: &str, own: &str) -> Decision {
        self.item(&self.prompts, slug, exposed, own)
    }

    /// Whether a resource is there, under its exposed URI (which begins with the slug) or its own.
    #[must_use]
    pub fn resource(&self, slug: &str, exposed: &str, own: &str) -> Decision {
        match self.server(slug) {
            Decision::Allow => self.resources.decide(&[exposed, own]),
            deny @ Decision::Deny(_) => deny,
        }
    }

    fn item(&self, globs: &Globs, slug: &str, exposed: &str, own: &str) -> Decision {
        match self.server(slug) {
            Decision::Allow => globs.decide(&[exposed, &format!("{slug}/{own}"), &format!("{slug}__{own}")]),
            deny @ Decision::Deny(_) => deny,
        }
    }
}

impl Globs {
    fn compile(allow: &Allow, not_allowed: &'static str, denied: &'static str) -> Result<Self, BadGlob> {
        Ok(Self { allow: set(&allow.allow, not_allowed)?, deny: set(&allow.deny, denied)?, not_allowed, denied })
    }

    /// Denied when any spelling is denied; allowed when any spelling is allowed.
    fn decide(&self, spellings: &[&str]) -> Decision {
        if spellings.iter().any(|s| self.deny.is_match(s)) {
            return Decision::Deny(self.denied);
        }
        if spellings.iter().any(|s| self.allow.is_match(s)) {
            Decision::Allow
        } else {
            Decision::Deny(self.not_allowed)
        }
    }
}

fn set(globs: &[String], setting: &str) -> Result<GlobSet, BadGlob> {
    let bad = |glob: &str, e: &globset::Error| BadGlob {
        setting: setting.into(),
        glob: glob.into(),
        words: e.kind().to_string(),
    };
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        builder.add(Glob::new(glob).map_err(|e| bad(glob, &e))?);
    }
    builder.build().map_err(|e| bad("", &e))
}

#[cfg(test)]
mod tests;
