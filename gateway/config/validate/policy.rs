//! `policy`: the lists of the configuration and the policy files beside them, compiled once to find every mistake. It
//! decides on nothing.

use std::path::PathBuf;

use lockgate_policy::{Config, Lists, Mistake, Policy};

use super::Check;
use crate::policies::{self, Read};
use crate::raw;

impl Check<'_> {
    pub fn policy(&mut self, raw: &raw::Policy) -> Config {
        let named = self.layers.find(&["policy", "files"]).is_some() || self.layers.damaged(&["policy", "files"]);
        if self.production && !named && raw.tools.allow.is_none() && !self.layers.damaged(&["policy", "tools"]) {
            let hint = "list the tools that may be used, such as allow: [\"time__*\"]; or name policy.files";
            self.missing(&["policy", "tools", "allow"], hint);
        }
        let files = self.policy_files(&raw.files.0);
        let read = policies::read(&files, &self.sources.cwd, self.problems);
        self.wrong |= read.is_none();
        let lists = Lists {
            servers: allow(&raw.servers),
            tools: allow(&raw.tools),
            prompts: allow(&raw.prompts),
            resources: allow(&raw.resources),
            calls_per_minute: raw.calls_per_minute.as_ref().map(raw::leaf::Bounded::small),
            completions_per_minute: Some(raw.completions_per_minute.small()),
        };
        let read = read.unwrap_or_default();
        let config = Config { lists, documents: read.documents() };
        if let Err(mistakes) = Policy::compile(&config) {
            mistakes.into_iter().for_each(|mistake| self.mistake(mistake, &read));
        }
        config
    }

    /// The files that are meant. Every name has to stand for one at least.
    fn policy_files(&mut self, named: &[String]) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for (at, name) in named.iter().enumerate() {
            match policies::files(&self.sources.cwd.join(name)) {
                Ok(found) => files.extend(found),
                Err(what) => {
                    let hint = "name a file, a folder, or a pattern such as policies/*.yaml; relative to this file";
                    self.item_error(&["policy", "files"], at, &what, hint);
                }
            }
        }
        files.sort();
        files.dedup();
        files
    }

    fn mistake(&mut self, mistake: Mistake, read: &Read) {
        let Mistake { at, path, what, hint } = mistake;
        if let Some(problem) = at.and_then(|at| read.problem(at, &path, &what, &hint)) {
            self.wrong = true;
            return self.problems.push(problem);
        }
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match path.split_last() {
            Some((item, list)) if item.parse::<usize>().is_ok() => {
                self.item_error(list, item.parse().unwrap_or_default(), &what, &hint);
            }
            _ => self.error(&path, what, hint),
        }
    }
}

fn allow(raw: &raw::Allow) -> lockgate_policy::Allow {
    lockgate_policy::Allow { allow: raw.allow.as_ref().map(|list| list.0.clone()), deny: raw.deny.0.clone() }
}
