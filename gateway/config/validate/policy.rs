//! `policy`: patterns that compile, and allow lists that production has to have. It decides on nothing.

use super::Check;
use crate::raw;

/// Longest pattern.
const PATTERN_BYTES: usize = 1024;

impl Check<'_> {
    pub fn policy(&mut self, raw: &raw::Policy) -> lockgate_policy::Config {
        if self.production && raw.tools.allow.is_none() && !self.layers.damaged(&["policy", "tools"]) {
            let hint = "list the tools that may be used, such as allow: [\"time__*\"]; \"*\" allows all";
            self.missing(&["policy", "tools", "allow"], hint);
        }
        lockgate_policy::Config {
            servers: self.allow("servers", &raw.servers),
            tools: self.allow("tools", &raw.tools),
            prompts: self.allow("prompts", &raw.prompts),
            resources: self.allow("resources", &raw.resources),
            calls_per_minute: raw.calls_per_minute.as_ref().map(raw::leaf::Bounded::small),
            completions_per_minute: raw.completions_per_minute.small(),
        }
    }

    fn allow(&mut self, of: &str, raw: &raw::Allow) -> lockgate_policy::Allow {
        let allow = raw.allow.as_ref().map_or_else(|| vec!["*".to_string()], |list| list.0.clone());
        self.patterns(&["policy", of, "allow"], &allow);
        self.patterns(&["policy", of, "deny"], &raw.deny.0);
        lockgate_policy::Allow { allow, deny: raw.deny.0.clone() }
    }

    fn patterns(&mut self, path: &[&str], patterns: &[String]) {
        for (at, pattern) in patterns.iter().enumerate() {
            let why = match globset::Glob::new(pattern) {
                _ if pattern.is_empty() => "it is empty".to_string(),
                _ if pattern.len() > PATTERN_BYTES => format!("it is longer than {PATTERN_BYTES} bytes"),
                Ok(_) => continue,
                Err(error) => error.kind().to_string(),
            };
            self.item_error(path, at, &format!("is no pattern: {why}"), "use *, ?, [a-z] and {a,b}");
        }
    }
}
