//! Warns of lists that match no configured server: a list with a wrong name restricts no server.
//! Not an error, because integrations are added later.

use globset::Glob;
use lockgate_policy::file::What;
use lockgate_policy::{Config, Lists};

use super::Check;
use crate::policies::Read;
use crate::raw::Root;

/// Built-in servers, including disabled ones.
const BUILTIN: [&str; 7] = ["content", "database", "example", "file", "shell", "system", "web"];
const HINT: &str = "use a name of `servers`; lists may also contain integrations of \
    organisations, which are not checked here";

/// Prefixes of the names of servers and their items.
struct Names<'a> {
    servers: Vec<&'a str>,
    separator: &'static str,
    /// Maximum length up to which names are never shortened.
    certain: usize,
}

impl Check<'_> {
    /// Warns of items in the configuration's own lists, and of policies with a list of servers that
    /// matches none.
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
            separator: root.names.separator.as_str(),
            certain: root.names.max_length / 2,
        };
        self.warn_of_lists(&config.lists, &names);
        for (file, document) in config.documents.iter().enumerate() {
            for (at, entry) in document.policies.iter().enumerate() {
                let Some(key) = names.find_unfit_list(&entry.policy.what) else { continue };
                let what = "matches no server of this configuration";
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
        let what = format!("matches no server of this configuration{}", self.shown(path));
        self.warning(path, what, HINT);
    }
}

impl Names<'_> {
    /// Returns the key of a list of servers that matches none of these.
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

    /// Returns whether a pattern matches a server's name. Invalid patterns are reported elsewhere.
    fn has_server(&self, pattern: &str) -> bool {
        let Ok(glob) = Glob::new(pattern) else { return true };
        let glob = glob.compile_matcher();
        self.servers.iter().any(|server| glob.is_match(server))
    }

    /// Returns whether a pattern may match a server's item, judged by the pattern's literal prefix.
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

    /// Returns whether a name may begin with both texts, as far as names are not shortened.
    fn may_begin(&self, one: &str, other: &str) -> bool {
        let length = one.len().min(other.len()).min(self.certain);
        one.as_bytes()[..length] == other.as_bytes()[..length]
    }
}
