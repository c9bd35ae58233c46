//! One compiled policy: its patterns and its rules. This module matches a single policy against a
//! request, for explanations; [`crate::index`] matches many at once.

use std::sync::Arc;

use globset::Glob;

use crate::approval::ApprovalRule;
use crate::arguments::Arguments;
use crate::class::{Who, shown, wanted};
use crate::condition::{Condition, Failed, World};
use crate::file::{Effect, Hints};
use crate::pattern;
use crate::rate::Limit;
use crate::response::Response;
use crate::target::{Annotations, TargetKind};
use crate::words::{self, Word};
use crate::{Refusal, Subject, Target};

/// The name reported as the deciding rule if no policy allows a request.
pub const DEFAULT: &str = "default";

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: Arc<str>,
    /// The file and line of the policy.
    pub(crate) place: String,
    pub(crate) effect: Effect,
    pub(crate) dry_run: bool,
    pub(crate) who: Who,
    pub(crate) what: What,
    pub(crate) when: Option<Condition>,
    pub(crate) arguments: Option<Arguments>,
    pub(crate) rate: Option<Limit>,
    pub(crate) response: Option<Response>,
    /// The approval that the policy requires; only in `ask` policies.
    pub(crate) approval: Option<Arc<ApprovalRule>>,
}

/// Patterns over targets. `None` matches every target.
#[derive(Debug, Default)]
pub(crate) struct What {
    pub(crate) tools: Option<Vec<Glob>>,
    pub(crate) prompts: Option<Vec<Glob>>,
    pub(crate) resources: Option<Vec<Glob>>,
    pub(crate) completion: Option<Vec<Glob>>,
    pub(crate) servers: Option<Vec<Glob>>,
    pub(crate) not_servers: Option<Vec<Glob>>,
    pub(crate) categories: Option<Vec<Glob>>,
    pub(crate) endpoints: Option<Vec<Glob>>,
    pub(crate) annotations: Option<Hints>,
    /// The name of a tool must contain at least one of these words.
    pub(crate) words: Option<Vec<Word>>,
    /// The name of a tool must contain none of these words.
    pub(crate) not_words: Option<Vec<Word>>,
    /// The limited methods. A policy with methods makes no decision.
    pub(crate) methods: Option<Vec<Glob>>,
}

impl Rule {
    /// Returns whether the policy only limits requests and makes no decision.
    pub(crate) fn only_limits(&self) -> bool {
        let limits = self.rate.is_some() || self.response.is_some();
        self.effect == Effect::Deny && limits && self.arguments.is_none()
    }

    pub(crate) fn denies(&self) -> bool {
        self.effect == Effect::Deny
    }

    /// Returns whether the policy denies everything of its servers, regardless of the arguments.
    pub(crate) fn denies_whole_servers(&self) -> bool {
        self.denies()
            && !self.only_limits()
            && self.what.is_of_whole_servers()
            && self.when.is_none()
            && self.arguments.is_none()
    }

    pub(crate) fn denies_by_uri(&self) -> bool {
        let named = self.what.resources.is_some() || self.what.completion.is_some();
        self.effect == Effect::Deny && (named || self.when.is_some())
    }

    /// Returns whether the condition can be evaluated without arguments.
    pub(crate) fn is_settled_early(&self) -> bool {
        !matches!(&self.when, Some(when) if when.needs_arguments())
    }

    /// Evaluates the condition. A policy without a condition holds.
    pub(crate) fn holds(&self, world: World<'_>) -> Result<bool, Failed> {
        self.when.as_ref().map_or(Ok(true), |when| when.holds(world))
    }

    /// Checks that no argument evades the condition. See [`Condition::undisguised`].
    pub(crate) fn undisguised(&self, arguments: &serde_json::Value) -> Result<(), Refusal> {
        self.when.as_ref().map_or(Ok(()), |when| when.undisguised(arguments))
    }

    /// Describes each key that does not match the caller, the endpoint or the target.
    pub(crate) fn misfits(
        &self,
        subject: &Subject<'_>,
        endpoint: &str,
        target: &Target<'_>,
    ) -> Vec<String> {
        let mut all = self.who.misfits(subject);
        all.extend(self.what.misfits(endpoint, target));
        all
    }
}

impl What {
    pub(crate) fn names_kinds(&self) -> bool {
        self.tools.is_some()
            || self.prompts.is_some()
            || self.resources.is_some()
            || self.completion.is_some()
    }

    pub(crate) fn is_of_whole_servers(&self) -> bool {
        !self.names_kinds()
            && !self.has_words()
            && self.categories.is_none()
            && self.annotations.is_none()
    }

    pub(crate) fn may_be_of_resources(&self) -> bool {
        let names_others = self.names_kinds() && self.resources.is_none();
        !names_others && !self.has_words() && self.annotations.is_none()
    }

    pub(crate) fn is_of_all_resources(&self) -> bool {
        let names_all = self
            .resources
            .as_ref()
            .is_none_or(|globs| globs.iter().any(|glob| matches!(glob.glob(), "*" | "**")));
        names_all && self.may_be_of_resources() && self.categories.is_none()
    }

    /// Returns the patterns for a kind of item. A completion without its own patterns uses those of
    /// the completed item.
    pub(crate) fn of(&self, kind: TargetKind) -> Option<&[Glob]> {
        let list = match kind {
            TargetKind::Tool => &self.tools,
            TargetKind::Prompt => &self.prompts,
            TargetKind::Resource => &self.resources,
            TargetKind::PromptCompletion if self.completion.is_none() => &self.prompts,
            TargetKind::ResourceCompletion if self.completion.is_none() => &self.resources,
            TargetKind::PromptCompletion | TargetKind::ResourceCompletion => &self.completion,
        };
        list.as_deref()
    }

    /// Returns whether the policy selects by words, which only tools have.
    pub(crate) fn has_words(&self) -> bool {
        self.words.is_some() || self.not_words.is_some()
    }

    pub(crate) fn words_fit(&self, own: &str) -> bool {
        let excluded = self.not_words.as_ref().and_then(|words| words::find(words, own));
        excluded.is_none() && (self.words.is_none() || self.word_of(own).is_some())
    }

    /// Returns the word that selects a tool of this name.
    pub(crate) fn word_of(&self, own: &str) -> Option<&Word> {
        words::find(self.words.as_deref()?, own)
    }

    /// Returns whether a pattern could match a name of this server, judging by its literal prefix.
    /// Words can match names of any server.
    pub(crate) fn may_name(&self, server: &str) -> bool {
        if self.has_words() && !self.names_kinds() {
            return true;
        }
        let mut globs =
            [&self.tools, &self.prompts, &self.resources].into_iter().flatten().flatten();
        globs.any(|glob| may_name(glob, server))
    }

    pub(crate) fn annotations_fit(&self, target: &Target<'_>) -> bool {
        self.annotations
            .is_none_or(|hints| target.kind == TargetKind::Tool && fits(hints, target.annotations))
    }

    fn misfits(&self, endpoint: &str, target: &Target<'_>) -> Vec<String> {
        let mut all = Vec::new();
        for (key, globs, names) in [
            ("servers", &self.servers, &[target.server][..]),
            ("categories", &self.categories, target.category.as_slice()),
            ("endpoints", &self.endpoints, &[endpoint]),
        ] {
            if let Some(globs) = globs
                && !pattern::any(globs, names)
            {
                all.push(format!("what.{key}: {}", wanted(globs)));
            }
        }
        if let Some(globs) = &self.not_servers
            && pattern::any(globs, &[target.server])
        {
            all.push(format!("what.not_servers: {}", target.server));
        }
        if !self.annotations_fit(target) {
            all.push("what.annotations: the tool has other annotations".into());
        }
        all.extend(self.misfit_of_words(target));
        match self.of(target.kind) {
            Some(globs) if pattern::any(globs, &target.spellings()) => {}
            Some(globs) => all.push(format!("what.{}s: {}", target.kind.as_str(), wanted(globs))),
            None if self.names_kinds() => {
                all.push(format!("what: it names no {}", target.kind.as_str()))
            }
            None => {}
        }
        all
    }

    /// Describes the mismatch between the words and a target's name.
    fn misfit_of_words(&self, target: &Target<'_>) -> Option<String> {
        if !self.has_words() {
            return None;
        }
        if target.kind != TargetKind::Tool {
            let kind = target.kind.as_str();
            return Some(format!("what.words: a {kind} is not searched for words"));
        }
        if let Some(words) = &self.words
            && self.word_of(target.own).is_none()
        {
            return Some(format!("what.words: {}", shown(words)));
        }
        let word = words::find(self.not_words.as_deref()?, target.own)?;
        Some(format!("what.not_words: {word}"))
    }
}

/// Returns whether a pattern could match a name of this server: its literal prefix continues after
/// the server's name, or has a wildcard before the end of that name.
fn may_name(glob: &Glob, server: &str) -> bool {
    let text = glob.glob();
    let plain = text.split(['*', '?', '[', '{', '\\']).next().unwrap_or(text);
    match plain.strip_prefix(server) {
        Some(rest) => !rest.starts_with(|c: char| c.is_ascii_alphanumeric()),
        None => plain.len() < text.len() && server.starts_with(plain),
    }
}

fn fits(hints: Hints, has: Annotations) -> bool {
    hints.read_only.unwrap_or(has.read_only) == has.read_only
        && hints.destructive.unwrap_or(has.destructive) == has.destructive
        && hints.idempotent.unwrap_or(has.idempotent) == has.idempotent
        && hints.open_world.unwrap_or(has.open_world) == has.open_world
}

#[cfg(test)]
mod tests;
