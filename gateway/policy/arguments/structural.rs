//! Rules that parse a value in its own language. The value of an argument is passed to a rule, and
//! some rules return a narrower value.

use serde_json::Value;

use super::pass::Pass;
use crate::command::Command;
use crate::path::Path;
use crate::sql::Sql;
use crate::url::Url;
use crate::{Refusal, file};

/// The alternative to a rule that refuses everything.
const FORBID: &str = ", or write `forbid: true` to refuse the argument";

#[derive(Debug)]
pub(crate) enum Structural {
    Command(Box<Command>),
    Path(Box<Path>),
    Sql(Box<Sql>),
    Url(Box<Url>),
}

/// A mistake in the rules of an argument: the key of the rule, empty if it concerns all of them,
/// and a message.
pub(super) type Misrule = (&'static str, String);

/// Adds the key of the rule to an error.
pub(super) fn under<T>(key: &'static str, compiled: Result<T, String>) -> Result<T, Misrule> {
    compiled.map_err(|words| (key, words))
}

/// Compiles the rules of an argument. Errors carry the key of the rule.
pub(super) fn compile(spec: &file::Argument) -> Result<Vec<Structural>, Misrule> {
    let mut rules = Vec::new();
    if let Some(spec) = &spec.command {
        if spec.programs.is_empty() {
            return Err(("command", format!("allows no program: name them in `programs`{FORBID}")));
        }
        let rule = under("command", Command::compile(spec))?;
        rules.push(Structural::Command(Box::new(rule)));
    }
    if let Some(spec) = &spec.path {
        let rule = under("path", Path::compile(spec))?;
        rules.push(Structural::Path(Box::new(rule)));
    }
    if let Some(spec) = &spec.sql {
        let rule = under("sql", Sql::compile(spec))?;
        rules.push(Structural::Sql(Box::new(rule)));
    }
    if let Some(spec) = &spec.url {
        if spec.hosts.is_empty() && spec.addresses.is_empty() && !spec.any_host {
            return Err(("url", format!("allows no host: name them in `hosts`{FORBID}")));
        }
        let rule = under("url", Url::compile(spec))?;
        rules.push(Structural::Url(Box::new(rule)));
    }
    Ok(rules)
}

impl Structural {
    /// Checks a value. Returns the value to forward in its place, if that differs.
    pub(crate) fn check(&self, value: &Value, pass: &Pass) -> Result<Option<Value>, Refusal> {
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
        _ => Err(Refusal("must be text".into())),
    }
}
