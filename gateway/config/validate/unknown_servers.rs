//! Warns of lists that name no server of the configuration: a list that was written for a server of
//! another name keeps nobody away from this one. Integrations come later, so it is no mistake.

use globset::Glob;
use lockgate_policy::file::What;
use lockgate_policy::{Config, Lists};

use super::Check;
use crate::policies::Read;
use crate::raw::Root;

/// Built-in servers, of which some may not be switched on.
const BUILTIN: [&str; 7] = ["content", "database", "example", "file", "shell", "system", "web"];
const HINT: &str = "servers are called as under `servers`; a list may also name integrations of \
    organisations, which nobody knows here";

/// The names that servers and what they offer begin with.
struct Names<'a> {
    servers: Vec<&'a str>,
    separator: &'static str,
    /// Longer names than this may be shortened.
    certain: usize,
}

impl Check<'_> {
    /// Warns of items of the configuration's own lists, and of policies whose list of servers fits
    /// none.
    pub fn warn_of_unknown_servers(&mut self, root: &Root, config: &Config, read: &Read) {
        if self.layers.damaged(&["servers"]) {
            return;
        }
        let mut servers = BUILTIN.to_vec();
        for slug in root.servers.keys() {
            servers.push(slug);
        }
        let names = Names {
            servers,
            separator: super::separator(root.names.separator),
            certain: root.names.max_length.size() / 2,
        };
        self.warn_of_lists(&config.lists, &names);
        for (file, document) in config.documents.iter().enumerate() {
            for (at, entry) in document.policies.iter().enumerate() {
                let Some(key) = names.find_unfit_list(&entry.policy.what) else { continue };
                let what = "names no server of this configuration";
                let path = ["what".to_owned(), key.to_owned()];
                if let Some(problem) = read.warning((file, at), &path, what, HINT) {
                    self.problems.push(problem);
                }
            }
        }
    }

    fn warn_of_lists(&mut self, lists: &Lists, names: &Names<'_>) {
        let all =
            [("servers", &lists.servers), ("tools", &lists.tools), ("prompts", &lists.prompts)];
        for (kind, list) in all {
            let allow = list.allow.as_deref().unwrap_or(&[]);
            for (key, items) in [("allow", allow), ("deny", list.deny.as_slice())] {
                for (at, pattern) in items.iter().enumerate() {
                    let is_known = match kind {
                        "servers" => names.has_server(pattern),
                        _ => names.may_offer(pattern),
                    };
                    if !is_known {
                        self.warn_of_item(&["policy", kind, key], at);
                    }
                }
            }
        }
    }

    fn warn_of_item(&mut self, list: &[&str], at: usize) {
        let at = at.to_string();
        let item = [list, &[at.as_str()]].concat();
        let path = if self.layers.get(&item).is_some() { &item[..] } else { list };
        let what = format!("names no server of this configuration{}", self.shown(path));
        self.warning(path, what, HINT);
    }
}

impl Names<'_> {
    /// The key of a list of servers that none of these fits.
    fn find_unfit_list(&self, what: &What) -> Option<&'static str> {
        let lists = [("servers", &what.servers), ("not_servers", &what.not_servers)];
        for (key, list) in lists {
            let Some(list) = list else { continue };
            if !list.is_empty() && !list.iter().any(|pattern| self.has_server(pattern)) {
                return Some(key);
            }
        }
        None
    }

    /// Whether a pattern fits the name of a server. One that is no pattern is a mistake, which is
    /// said elsewhere.
    fn has_server(&self, pattern: &str) -> bool {
        let Ok(glob) = Glob::new(pattern) else { return true };
        let glob = glob.compile_matcher();
        self.servers.iter().any(|server| glob.is_match(server))
    }

    /// Whether what a server offers can have a name that fits a pattern, going by its beginning.
    fn may_offer(&self, pattern: &str) -> bool {
        if Glob::new(pattern).is_err() {
            return true;
        }
        let open = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
        let (start, _) = pattern.split_at(open);
        for server in &self.servers {
            for separator in [self.separator, "/"] {
                if self.may_begin(start, &format!("{server}{separator}")) {
                    return true;
                }
            }
        }
        false
    }

    /// Whether a name may begin with both, as far as they reach and names are not shortened.
    fn may_begin(&self, one: &str, other: &str) -> bool {
        let length = one.len().min(other.len()).min(self.certain);
        one.as_bytes()[..length] == other.as_bytes()[..length]
    }
}
