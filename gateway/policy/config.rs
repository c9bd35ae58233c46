//! What policy decides on, already read from configuration. It reads no file.

/// Allow lists by glob (`*`, `?`, `[…]`, `{a,b}`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
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
    /// `completion/complete` per principal and minute.
    pub completions_per_minute: u32,
}

/// Allowed when some `allow` glob matches and no `deny` glob does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}
