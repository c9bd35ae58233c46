//! Patterns over the claims of a caller's credential. They select the callers of a policy, or the
//! approvers of an `ask` policy.

use std::sync::Arc;

use globset::Glob;

use crate::pattern;
use crate::target::Subject;

/// Number of lists of patterns over callers.
pub(crate) const LISTS: usize = 6;

/// Patterns over callers. `None` matches every caller.
#[derive(Debug)]
pub(crate) struct Who {
    /// The patterns with their keys, in the order of [`Who::names`].
    pub(crate) lists: [(&'static str, Option<Vec<Glob>>); LISTS],
    pub(crate) anonymous: Option<bool>,
}

impl Who {
    /// Returns the values of a caller, in the order of the lists.
    pub(crate) fn names(subject: &Subject<'_>) -> [Vec<String>; LISTS] {
        [
            vec![subject.principal()],
            to_texts(subject.roles),
            to_list(subject.organisation),
            to_texts(subject.scopes),
            to_list(subject.agent),
            subject.certificates(),
        ]
    }

    pub(crate) fn fits(&self, subject: &Subject<'_>) -> bool {
        self.misfits(subject).is_empty()
    }

    /// Describes the selected callers for a message.
    pub(crate) fn describe(&self) -> String {
        let mut parts = Vec::new();
        for (key, globs) in &self.lists {
            if let Some(globs) = globs {
                parts.push(format!("{key} {}", wanted(globs)));
            }
        }
        parts.join(" and ")
    }

    /// Describes each key that does not match a caller.
    pub(crate) fn misfits(&self, subject: &Subject<'_>) -> Vec<String> {
        let names = Self::names(subject);
        let mut all = Vec::new();
        for ((key, globs), names) in self.lists.iter().zip(&names) {
            if let Some(globs) = globs
                && !pattern::any(globs, names)
            {
                all.push(format!("who.{key}: {}", wanted(globs)));
            }
        }
        if let Some(wanted) = self.anonymous
            && wanted != subject.is_anonymous()
        {
            all.push(format!("who.anonymous: {wanted}"));
        }
        all
    }
}

fn to_texts(all: &[Arc<str>]) -> Vec<String> {
    let texts: Vec<_> = all.iter().map(|one| one.to_string()).collect();
    texts
}

fn to_list(text: Option<&str>) -> Vec<String> {
    text.map(|text| vec![text.to_owned()]).unwrap_or_default()
}

/// Formats patterns for a message.
pub(crate) fn wanted(globs: &[Glob]) -> String {
    let patterns: Vec<_> = globs.iter().map(|glob| glob.glob()).collect();
    shown(&patterns)
}

/// Formats the first items of a list for a message.
pub(crate) fn shown(list: &[impl ToString]) -> String {
    let first: Vec<_> = list.iter().take(5).map(|one| one.to_string()).collect();
    if first.is_empty() {
        return "an empty list matches nothing".into();
    }
    let more = if list.len() > first.len() { ", …" } else { "" };
    format!("{}{more}", first.join(", "))
}
