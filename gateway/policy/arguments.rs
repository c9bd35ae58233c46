//! Rules for the arguments of a call. Arguments are parsed once and strictly. The server receives
//! the checked arguments, which differ from the sent ones only in values that policies set or
//! rewrite.

mod bounds;
mod edit;
mod pass;
mod pointer;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::file::{self, Effect, Others};
use crate::refusal::Mistake;
use crate::{Refusal, no};
use bounds::Bounds;
pub(crate) use bounds::expression;
pub(crate) use edit::{Edit, write};
pub(crate) use pass::Pass;
use pass::{Misrule, Structural, under};
use pointer::{Pointer, PointerMatches};
pub(crate) use pointer::{pointer, read, undisguised};
pub(crate) use schema::short;

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
    set: Option<Set>,
    structural: Vec<Structural>,
    schema: Option<Validator>,
    bounds: Option<Bounds>,
}

#[derive(Debug)]
enum Set {
    To(Value),
    Default(Value),
}

impl Arguments {
    pub(crate) fn compile(
        rules: &BTreeMap<String, file::Argument>,
        others: Option<Others>,
        effect: Effect,
    ) -> Result<Option<Self>, Vec<Mistake>> {
        if rules.is_empty() {
            return match others {
                Some(_) => {
                    Err(vec![(vec![], "`other_arguments` needs an entry in `arguments`".into())])
                }
                None => Ok(None),
            };
        }
        if rules.len() > MAX_NAMED {
            return Err(vec![(vec![], format!("names more than {MAX_NAMED} arguments"))]);
        }
        let mut all = Vec::new();
        let mut mistakes = Vec::new();
        for (at, spec) in rules {
            match Rule::compile(at, spec, effect) {
                Ok(rule) => all.push(rule),
                Err((key, words)) => {
                    let mut path = vec![at.clone()];
                    if !key.is_empty() {
                        path.push(key.to_owned());
                    }
                    mistakes.push((path, words));
                }
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut named = BTreeSet::new();
        for rule in &all {
            if let Some(first) = rule.at.steps.first() {
                named.insert(first.clone());
            }
        }
        let closed = match others {
            Some(Others::Allow) => false,
            Some(Others::Refuse) => true,
            None => effect == Effect::Allow && !named.is_empty(),
        };
        let named = if closed { Some(named) } else { None };
        Ok(Some(Self { rules: all, named }))
    }

    pub(crate) fn sets(&self) -> bool {
        self.rules.iter().any(|rule| rule.set.is_some())
    }

    /// Returns whether a rule has to parse SQL.
    pub(crate) fn parses(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.structural.iter().any(|rule| matches!(rule, Structural::Sql(_))))
    }

    /// Checks arguments against the rules, after inserting the values that they set.
    pub(crate) fn check(&self, arguments: &mut Value, pass: &mut Pass) -> Result<(), Refusal> {
        if let (Some(named), Value::Object(object)) = (&self.named, &*arguments) {
            only_named(object, named)?;
        }
        for rule in &self.rules {
            rule.put(arguments, &mut pass.edits)?;
        }
        for rule in &self.rules {
            rule.check(arguments, pass)?;
        }
        Ok(())
    }
}

/// Refuses the first argument that no rule names.
fn only_named(object: &Map<String, Value>, named: &BTreeSet<String>) -> Result<(), Refusal> {
    for key in object.keys() {
        if !named.contains(key) {
            let other: String = key.chars().take(64).collect();
            let known = Vec::from_iter(named.iter().map(String::as_str)).join(", ");
            return no(format!("the argument `{other}` is not allowed here, only {known}"));
        }
    }
    Ok(())
}

impl Set {
    fn compile(set: &file::Set, at: &Pointer, effect: Effect) -> Result<Self, String> {
        if effect != Effect::Allow {
            return Err("is only for an `allow` policy: other policies change no arguments".into());
        }
        if !at.is_single() || at.steps.is_empty() {
            return Err("needs a pointer to one argument".into());
        }
        match set {
            file::Set { to: Some(value), default: None } => Ok(Self::To(value.clone())),
            file::Set { to: None, default: Some(value) } => Ok(Self::Default(value.clone())),
            _ => Err("needs either `to` or `default`".into()),
        }
    }
}

impl Rule {
    fn compile(at: &str, spec: &file::Argument, effect: Effect) -> Result<Self, Misrule> {
        let at = under("", Pointer::parse(at))?;
        let structural = pass::compile(spec)?;
        let schema = under("schema", spec.schema.as_ref().map(schema::compile).transpose())?;
        let bounds = under("value", spec.value.as_ref().map(Bounds::compile).transpose())?;
        let set = spec.set.as_ref().map(|set| Set::compile(set, &at, effect));
        let set = under("set", set.transpose())?;
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
        let value = match set {
            Set::To(value) => value,
            Set::Default(value) if is_missing => value,
            Set::Default(_) => return Ok(()),
        };
        if !edit::put(arguments, &self.at.steps, value) {
            return no(format!("the parent of the argument {} is missing", self.at.text));
        }
        edits.push(Edit { at: self.at.steps.clone(), value: value.clone() });
        Ok(())
    }

    fn check(&self, arguments: &mut Value, pass: &mut Pass) -> Result<(), Refusal> {
        let PointerMatches { places, missing } = self.at.find(arguments)?;
        if self.forbid {
            return if places.is_empty() {
                Ok(())
            } else {
                no(format!("the argument {} must not be given", self.at.text))
            };
        }
        if missing && !self.optional {
            return no(format!("the argument {} is missing", self.at.text));
        }
        let mut narrowed = Vec::new();
        for (at, value) in places {
            match self.judge(value, pass) {
                Ok(Some(value)) => narrowed.push(Edit { at, value }),
                Ok(None) => {}
                Err(refusal) => return Err(self.name_argument(&refusal)),
            }
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
            if let Some(other) = rule.check(narrowed.as_ref().unwrap_or(value), pass)? {
                narrowed = Some(other);
            }
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
