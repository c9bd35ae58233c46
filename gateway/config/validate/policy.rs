//! `policy` and `pins`: the configuration's lists, the policy files and the lock file of approved
//! tools. Policies are compiled once to find every mistake. Decides on no call, approves nothing.

use std::io;
use std::path::{Path, PathBuf};

use globset::Glob;
use lockgate_authn as authn;
use lockgate_policy::file::{What, Who};
use lockgate_policy::{CATEGORIES, Config, Document, Lists, Policy, PolicyError, pin};

use super::Check;
use crate::policies::{self, Read};
use crate::raw::Root;
use crate::source::{read_bytes, reason};

/// A check of whether a policy requires a certain kind of attribute.
type Asks = fn(&Who) -> bool;

impl Check<'_> {
    pub fn policy(&mut self, authn: &authn::Config) -> Config {
        let raw = &self.root.policy;
        let named = self.given("policy.files").is_some() || self.is_damaged("policy.files");
        if self.production
            && !named
            && raw.tools.allow.is_none()
            && !self.is_damaged("policy.tools")
        {
            let hint = "list the allowed tools, such as allow: [\"time__*\"]; or set policy.files";
            self.missing("policy.tools.allow", hint);
        }
        let files = self.policy_files(&raw.files);
        let read = policies::read(&files, &self.sources.cwd, self.problems);
        let lists = Lists { files: Vec::new(), ..raw.clone() };
        let config = Config { lists, documents: read.documents() };
        if let Err(mistakes) = Policy::compile(&config) {
            for mistake in mistakes {
                self.mistake(mistake, &read);
            }
        }
        if !self.is_damaged("auth") && !self.is_damaged("http") {
            self.who(&config, authn, &read);
        }
        self.warn_of_unknown_servers(&config, &read);
        config
    }

    /// Warns of policies that require attributes which no credential of this configuration can
    /// have, once per key and file.
    fn who(&mut self, config: &Config, authn: &authn::Config, read: &Read) {
        let granted = authn.keys_file.is_some() || !authn.issuers.is_empty();
        let of_people = "set `auth.keys_file` or `auth.issuers`, or remove it";
        let of_machines = "set `http.tls.client_ca`, or remove it";
        let asked: [(&str, bool, &str, Asks); 5] = [
            ("roles", granted, of_people, |who| who.roles.is_some()),
            ("scopes", granted, of_people, |who| who.scopes.is_some()),
            ("agents", granted, of_people, |who| who.agents.is_some()),
            ("organisations", granted || authn.certificates, of_people, |who| {
                who.organisations.is_some()
            }),
            ("certificates", authn.certificates, of_machines, |who| who.certificates.is_some()),
        ];
        for (file, document) in config.documents.iter().enumerate() {
            for (key, possible, hint, asks) in asked {
                let asking = if possible { Vec::new() } else { find_asking(document, asks) };
                let what = match asking.len() {
                    0 => continue,
                    1 => "no caller can have any, so this policy never matches".to_owned(),
                    all => format!(
                        "no caller can have any, so this policy and {} more in this file never \
                            match",
                        all - 1
                    ),
                };
                if let Some((place, key)) = read.locate((file, asking[0]), &["who", key]) {
                    self.problems.warning(place, key, what, hint);
                }
            }
        }
    }

    /// Returns the policy files. Every name must match at least one.
    fn policy_files(&mut self, named: &[String]) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for (at, name) in named.iter().enumerate() {
            match policies::files(&self.sources.cwd.join(name)) {
                Ok(found) => files.extend(found),
                Err(what) => {
                    let hint = "use a file, a folder, or a pattern such as policies/*.yaml; \
                        relative to this file";
                    self.item_error("policy.files", at, &what, hint);
                }
            }
        }
        files.sort();
        files.dedup();
        files
    }

    fn mistake(&mut self, mistake: PolicyError, read: &Read) {
        let PolicyError { at, path, what, hint } = mistake;
        if let Some(at) = at
            && let Some((place, key)) = read.locate(at, &path)
        {
            return self.problems.error(place, key, what, hint);
        }
        if let [list @ .., at] = path.as_slice()
            && let Ok(at) = at.parse()
        {
            return self.item_error(&list.join("."), at, &what, &hint);
        }
        self.error_at(&path, what, hint);
    }
}

/// Returns the indices of policies that match `asks`.
fn find_asking(document: &Document, asks: Asks) -> Vec<usize> {
    let policies = document.policies.iter().enumerate();
    let asking = policies.filter(|(_, entry)| asks(&entry.policy.who));
    asking.map(|(at, _)| at).collect()
}

// Lists that match no configured server: a list with a wrong name restricts no server. They are
// warnings, because integrations are added later.

const UNKNOWN: &str = "matches no server of this configuration";
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
    fn warn_of_unknown_servers(&mut self, config: &Config, read: &Read) {
        if self.is_damaged("servers") {
            return;
        }
        let Root { servers, names, .. } = self.root;
        let own = servers.keys().map(String::as_str);
        let names = Names {
            servers: CATEGORIES.into_iter().chain(own).collect(),
            separator: names.separator.as_str(),
            certain: names.max_length / 2,
        };
        self.warn_of_lists(&config.lists, &names);
        for (file, document) in config.documents.iter().enumerate() {
            for (at, entry) in document.policies.iter().enumerate() {
                let Some(key) = names.find_unfit_list(&entry.policy.what) else { continue };
                if let Some((place, key)) = read.locate((file, at), &["what", key]) {
                    self.problems.warning(place, key, UNKNOWN, HINT);
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
                        let item = self.item_key(&format!("policy.{kind}.{key}"), at);
                        self.warning(&item, format!("{UNKNOWN}{}", self.shown(&item)), HINT);
                    }
                }
            }
        }
    }
}

impl Names<'_> {
    /// Returns the key of a list of servers that matches none of these.
    fn find_unfit_list(&self, what: &What) -> Option<&'static str> {
        let lists = [("servers", &what.servers), ("not_servers", &what.not_servers)];
        let unfit = lists.into_iter().find(|(_, list)| {
            let list = list.as_deref().unwrap_or_default();
            !list.is_empty() && !list.iter().any(|pattern| self.has_server(pattern))
        });
        unfit.map(|(key, _)| key)
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
        self.servers.iter().any(|server| {
            self.may_begin(start, &format!("{server}{}", self.separator))
                || self.may_begin(start, &format!("{server}/"))
        })
    }

    /// Returns whether a name may begin with both texts, as far as names are not shortened.
    fn may_begin(&self, one: &str, other: &str) -> bool {
        let length = one.len().min(other.len()).min(self.certain);
        one.as_bytes()[..length] == other.as_bytes()[..length]
    }
}

// `pins`: the lock file.

/// Maximum size of a lock file.
const MAX_BYTES: u64 = 64 << 20;

impl Check<'_> {
    /// Returns the pins with the content of their lock file.
    pub fn pins(&mut self) -> pin::Pins {
        let given = &self.root.pins;
        let lock = given.file.as_deref().map(|file| self.lock(file));
        pin::Pins { lock, ..given.clone() }
    }

    fn lock(&mut self, file: &Path) -> pin::Lock {
        let path = "pins.file";
        let bytes = read_bytes(file, MAX_BYTES);
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        match text.map(|text| pin::Lock::read(&text)) {
            Ok(Ok(lock)) => return lock,
            Ok(Err(what)) => {
                let hint = "restore it from version control, or approve the tools again into \
                    another file";
                self.error(path, format!("is not a lock file: {what}"), hint);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let hint = "review the tools with `lockgate pins diff`, then run `lockgate pins \
                    approve --all`";
                self.warning(path, "does not exist yet, so no tool is approved", hint);
            }
            Err(error) => {
                self.error(path, format!("cannot be read: {}", reason(&error)), "make it readable")
            }
        }
        pin::Lock::default()
    }
}
