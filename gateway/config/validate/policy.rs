//! `policy`: the configuration's lists and the policy files, compiled once to find every mistake.
//! Decides on no call.

use std::path::PathBuf;

use lockgate_authn as authn;
use lockgate_policy::file::Who;
use lockgate_policy::{Config, Document, Lists, Policy, PolicyError};

use super::Check;
use crate::policies::{self, Read};
use crate::raw;
use crate::source::node::as_words;

/// A check of whether a policy requires a certain kind of attribute.
type Asks = fn(&Who) -> bool;

impl Check<'_> {
    pub fn policy(&mut self, root: &raw::Root, authn: &authn::Config) -> Config {
        let raw = &root.policy;
        let named = self.layers.get(&["policy", "files"]).is_some()
            || self.layers.damaged(&["policy", "files"]);
        if self.production
            && !named
            && raw.tools.allow.is_none()
            && !self.layers.damaged(&["policy", "tools"])
        {
            let hint = "list the allowed tools, such as allow: [\"time__*\"]; or set policy.files";
            self.missing(&["policy", "tools", "allow"], hint);
        }
        let files = self.policy_files(&raw.files.0);
        let read = policies::read(&files, &self.sources.cwd, self.problems);
        self.wrong |= read.damaged;
        let lists = Lists {
            servers: raw.servers.clone(),
            tools: raw.tools.clone(),
            prompts: raw.prompts.clone(),
            resources: raw.resources.clone(),
            calls_per_minute: raw.calls_per_minute.as_ref().map(raw::leaf::Bounded::small),
            completions_per_minute: Some(raw.completions_per_minute.small()),
        };
        let config = Config { lists, documents: read.documents() };
        if let Err(mistakes) = Policy::compile(&config) {
            for mistake in mistakes {
                self.mistake(mistake, &read);
            }
        }
        if !self.layers.damaged(&["auth"]) && !self.layers.damaged(&["http"]) {
            self.who(&config, authn, &read);
        }
        self.warn_of_unknown_servers(root, &config, &read);
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
                let path = ["who".to_owned(), key.to_owned()];
                if let Some(problem) = read.warning((file, asking[0]), &path, &what, hint) {
                    self.problems.push(problem);
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
                    self.item_error(&["policy", "files"], at, &what, hint);
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
            && let Some(problem) = read.problem(at, &path, &what, &hint)
        {
            self.wrong = true;
            return self.problems.push(problem);
        }
        let path = as_words(&path);
        if let [list @ .., item] = path.as_slice()
            && let Ok(at) = item.parse()
        {
            return self.item_error(list, at, &what, &hint);
        }
        self.error(&path, what, hint);
    }
}

/// Returns the indices of policies that match `asks`.
fn find_asking(document: &Document, asks: Asks) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, entry) in document.policies.iter().enumerate() {
        if asks(&entry.policy.who) {
            found.push(at);
        }
    }
    found
}
