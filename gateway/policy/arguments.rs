//! Rules for the arguments of a call. Arguments are parsed once and strictly. The server receives
//! the checked arguments, which differ from the sent ones only in values that policies set or
//! rewrite.

mod bounds;
mod edit;
mod pointer;

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::command::Command;
use crate::file::{self, Effect, Others};
use crate::names::is_listed;
use crate::path::Path;
use crate::refusal::{Mistake, mistake};
use crate::schema;
use crate::sql::{Effort, Sql};
use crate::target::TargetKind;
use crate::url::Url;
use crate::{Refusal, Target, no};
use bounds::Bounds;
pub(crate) use bounds::expression;
pub(crate) use edit::{Edit, write};
use pointer::{Pointer, PointerMatches};
pub(crate) use pointer::{pointer, read, undisguised};

/// Maximum number of arguments named by a policy.
const MAX_NAMED: usize = 64;

#[derive(Debug)]
pub(crate) struct Arguments {
    rules: Vec<Rule>,
    /// The allowed top-level arguments; all if `None`.
    named: Option<BTreeSet<String>>,
}

#[derive(Debug)]
struct Rule {
    at: Pointer,
    optional: bool,
    forbid: bool,
    set: Option<file::Set>,
    structural: Vec<Structural>,
    schema: Option<Validator>,
    bounds: Option<Bounds>,
}

impl Arguments {
    pub(crate) fn compile(
        rules: &BTreeMap<String, file::Argument>,
        others: Option<Others>,
        effect: Effect,
    ) -> Result<Option<Self>, Vec<Mistake>> {
        if rules.is_empty() {
            let what = "`other_arguments` needs an entry in `arguments`";
            return others.map_or(Ok(None), |_| Err(vec![mistake(&[], what)]));
        }
        if rules.len() > MAX_NAMED {
            return Err(vec![mistake(&[], format!("names more than {MAX_NAMED} arguments"))]);
        }
        let mut all = Vec::new();
        let mut mistakes = Vec::new();
        for (at, spec) in rules {
            match Rule::compile(at, spec, effect) {
                Ok(rule) => all.push(rule),
                Err(("", words)) => mistakes.push(mistake(&[at], words)),
                Err((key, words)) => mistakes.push(mistake(&[at, key], words)),
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let named =
            BTreeSet::from_iter(all.iter().filter_map(|rule| rule.at.steps.first().cloned()));
        let closed = match others {
            Some(others) => others == Others::Refuse,
            None => effect == Effect::Allow && !named.is_empty(),
        };
        Ok(Some(Self { rules: all, named: closed.then_some(named) }))
    }

    pub(crate) fn sets(&self) -> bool {
        self.rules.iter().any(|rule| rule.set.is_some())
    }

    /// Returns whether a rule has to parse SQL.
    pub(crate) fn parses(&self) -> bool {
        let mut all = self.rules.iter().flat_map(|rule| &rule.structural);
        all.any(|rule| matches!(rule, Structural::Sql(_)))
    }

    /// Checks arguments against the rules, after inserting the values that they set.
    pub(crate) fn check(&self, arguments: &mut Value, pass: &mut Pass) -> Result<(), Refusal> {
        if let (Some(named), Value::Object(object)) = (&self.named, &*arguments) {
            only_named(object, named)?;
        }
        self.rules.iter().try_for_each(|rule| rule.put(arguments, &mut pass.edits))?;
        self.rules.iter().try_for_each(|rule| rule.check(arguments, pass))
    }
}

/// Refuses the first argument that no rule names.
fn only_named(object: &Map<String, Value>, named: &BTreeSet<String>) -> Result<(), Refusal> {
    let Some(key) = object.keys().find(|key| !named.contains(*key)) else { return Ok(()) };
    let other: String = key.chars().take(64).collect();
    let known = Vec::from_iter(named.iter().map(String::as_str)).join(", ");
    no(format!("the argument `{other}` is not allowed here, only {known}"))
}

fn check_set(set: &file::Set, at: &Pointer, effect: Effect) -> Result<(), String> {
    if effect != Effect::Allow {
        return Err("is only for an `allow` policy: other policies change no arguments".into());
    }
    if !at.is_single() || at.steps.is_empty() {
        return Err("needs a pointer to one argument".into());
    }
    if set.to.is_some() == set.default.is_some() {
        return Err("needs either `to` or `default`".into());
    }
    Ok(())
}

impl Rule {
    fn compile(at: &str, spec: &file::Argument, effect: Effect) -> Result<Self, Misrule> {
        let at = under("", Pointer::parse(at))?;
        let structural = structural(spec)?;
        let schema = under("schema", spec.schema.as_ref().map(schema::compile).transpose())?;
        let bounds = under("value", spec.value.as_ref().map(Bounds::compile).transpose())?;
        let set = spec.set.clone();
        under("set", set.as_ref().map_or(Ok(()), |set| check_set(set, &at, effect)))?;
        let judges = !structural.is_empty() || schema.is_some() || bounds.is_some();
        if spec.forbid && (judges || set.is_some() || spec.require || spec.optional) {
            return Err(("forbid", "cannot be combined with other rules".into()));
        }
        if spec.require && spec.optional {
            return Err(("require", "contradicts `optional`".into()));
        }
        if !(judges || spec.forbid || spec.require || spec.optional || set.is_some()) {
            return Err(("", "has no rule; write `optional: true` to allow the argument".into()));
        }
        if spec.forbid && at.steps.is_empty() {
            return Err(("forbid", "needs a pointer to an argument".into()));
        }
        // An argument that is only set may be absent, because a fixed value is inserted anyway.
        let optional = spec.optional || set.is_some() && !judges && !spec.require;
        Ok(Self { at, optional, forbid: spec.forbid, set, structural, schema, bounds })
    }

    /// Inserts the value that the rule sets, if any.
    fn put(&self, arguments: &mut Value, edits: &mut Vec<Edit>) -> Result<(), Refusal> {
        let Some(set) = &self.set else { return Ok(()) };
        let is_missing = self.at.find(arguments)?.missing;
        let default = set.default.as_ref().filter(|_| is_missing);
        let Some(value) = set.to.as_ref().or(default) else { return Ok(()) };
        if !edit::put(arguments, &self.at.steps, value) {
            return no(format!("the parent of the argument {} is missing", self.at.text));
        }
        edits.push(Edit { at: self.at.steps.clone(), value: value.clone() });
        Ok(())
    }

    fn check(&self, arguments: &mut Value, pass: &mut Pass) -> Result<(), Refusal> {
        let PointerMatches { places, missing } = self.at.find(arguments)?;
        if self.forbid && !places.is_empty() {
            return no(format!("the argument {} must not be given", self.at.text));
        }
        if missing && !self.optional && !self.forbid {
            return no(format!("the argument {} is missing", self.at.text));
        }
        let mut narrowed = Vec::new();
        for (at, value) in places {
            let judged = self.judge(value, pass).map_err(|refusal| self.name_argument(&refusal))?;
            narrowed.extend(judged.map(|value| Edit { at, value }));
        }
        for edit in narrowed {
            edit::put(arguments, &edit.at, &edit.value);
            pass.edits.push(edit);
        }
        Ok(())
    }

    /// Applies every check, each to the result of the previous one.
    fn judge(&self, value: &Value, pass: &Pass) -> Result<Option<Value>, Refusal> {
        let mut narrowed: Option<Value> = None;
        for rule in &self.structural {
            narrowed = rule.check(narrowed.as_ref().unwrap_or(value), pass)?.or(narrowed);
        }
        let value = narrowed.as_ref().unwrap_or(value);
        if let Some(schema) = &self.schema {
            schema::check(schema, value)?;
        }
        if let Some(bounds) = &self.bounds {
            bounds.check(value)?;
        }
        Ok(narrowed)
    }

    fn name_argument(&self, refusal: &Refusal) -> Refusal {
        match self.at.text.as_str() {
            "" => Refusal(format!("the arguments: {}", refusal.0)),
            at => Refusal(format!("the argument {at}: {}", refusal.0)),
        }
    }
}

// Rules for the structure of an argument: a command, a path, an SQL statement or a URL.

/// The alternative to a rule that refuses everything.
const FORBID: &str = ", or write `forbid: true` to refuse the argument";

#[derive(Debug)]
enum Structural {
    Command(Box<Command>),
    Path(Box<Path>),
    Sql(Box<Sql>),
    Url(Box<Url>),
}

/// A mistake in the rules of an argument: the key of the rule, empty if it concerns all of them,
/// and a message.
type Misrule = (&'static str, String);

/// Adds the key of the rule to an error.
fn under<T>(key: &'static str, compiled: Result<T, String>) -> Result<T, Misrule> {
    compiled.map_err(|words| (key, words))
}

/// Compiles the rules of an argument. Errors carry the key of the rule.
fn structural(spec: &file::Argument) -> Result<Vec<Structural>, Misrule> {
    let mut rules = Vec::new();
    if let Some(spec) = &spec.command {
        if spec.programs.is_empty() {
            return Err(("command", format!("allows no program: name them in `programs`{FORBID}")));
        }
        rules.push(Structural::Command(under("command", Command::compile(spec))?.into()));
    }
    if let Some(spec) = &spec.path {
        rules.push(Structural::Path(under("path", Path::compile(spec))?.into()));
    }
    if let Some(spec) = &spec.sql {
        rules.push(Structural::Sql(under("sql", Sql::compile(spec))?.into()));
    }
    if let Some(spec) = &spec.url {
        if spec.hosts.is_empty() && spec.addresses.is_empty() && !spec.any_host {
            return Err(("url", format!("allows no host: name them in `hosts`{FORBID}")));
        }
        rules.push(Structural::Url(under("url", Url::compile(spec))?.into()));
    }
    Ok(rules)
}

impl Structural {
    /// Checks a value. Returns the value to forward in its place, if that differs.
    fn check(&self, value: &Value, pass: &Pass) -> Result<Option<Value>, Refusal> {
        let other = match self {
            Self::Command(rule) => {
                rule.check_value(value)?;
                None
            }
            Self::Path(rule) => rule.check_argument(text(value)?, pass.reads)?,
            Self::Sql(rule) => {
                let sent = text(value)?;
                let checked = rule.check_within(sent, &pass.effort)?.text;
                (checked != sent).then_some(checked)
            }
            Self::Url(rule) => {
                rule.check(text(value)?)?;
                None
            }
        };
        Ok(other.map(Value::from))
    }
}

fn text(value: &Value) -> Result<&str, Refusal> {
    match value {
        Value::String(text) => Ok(text),
        _ => no("must be text"),
    }
}

// The state of an evaluation: the edits so far, and the time spent.

/// Words in the names of tools that list folders. Such a name has at least one of them, and no
/// words other than these and [`OBJECTS`]. Many servers mark such tools in no other way.
const LISTING: &str = "dir find get glob list ls search show stat tree view";
const OBJECTS: &str = "content contents directories directory entries file files folder folders \
    info path recursive sizes with";

/// The state of the rules for a call.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    pub(crate) edits: Vec<Edit>,
    effort: Effort,
    /// Whether the call changes nothing, judging by the target's kind, annotations or name.
    reads: bool,
}

impl Pass {
    /// Creates the state for a call of a target.
    pub(crate) fn of(target: &Target<'_>) -> Self {
        let reads = target.kind != TargetKind::Tool
            || target.annotations.read_only
            || is_name_of_listing(target.own);
        Self { reads, ..Self::default() }
    }
}

/// Returns whether a name is that of a listing tool: `list_directory_with_sizes`, `directoryTree`.
/// A noun alone (`file`) may be a tool that takes an action as an argument.
fn is_name_of_listing(name: &str) -> bool {
    let mut lists = false;
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(parts_of_word) {
        if is_listed(LISTING, &word.to_ascii_lowercase()) {
            lists = true;
        } else if !is_listed(OBJECTS, &word.to_ascii_lowercase()) {
            return false;
        }
    }
    lists && name.is_ascii()
}

/// Splits a word before each capital.
fn parts_of_word(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let inner = rest.get(1..)?;
        let end = inner.find(|c: char| c.is_ascii_uppercase()).map_or(rest.len(), |at| at + 1);
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

#[cfg(test)]
mod tests;
