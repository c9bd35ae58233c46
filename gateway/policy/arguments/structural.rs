//! The rules that take a value apart by its own language, plugged in: the value of an argument goes
//! in, and with some of them a narrower value comes out.

use serde_json::Value;

use super::pass::Pass;
use crate::command::Command;
use crate::path::Path;
use crate::sql::Sql;
use crate::url::Url;
use crate::{Refusal, file};

/// What else is meant by a rule that refuses everything.
const FORBID: &str = ", or write `forbid: true` for an argument that may not be there";

/// One compiled rule.
#[derive(Debug)]
pub(crate) enum Structural {
    Command(Box<Command>),
    Path(Box<Path>),
    Sql(Box<Sql>),
    Url(Box<Url>),
}

/// Compiles the rules of one argument; mistakes come with the key of the rule.
pub(crate) fn compile(spec: &file::Argument) -> Result<Vec<Structural>, (&'static str, String)> {
    let mut rules = Vec::new();
    if let Some(spec) = &spec.command {
        if spec.programs.is_empty() {
            return Err(("command", format!("allows no program: name them in `programs`{FORBID}")));
        }
        rules.push(Structural::Command(Box::new(
            Command::compile(spec).map_err(|words| ("command", words))?,
        )));
    }
    if let Some(spec) = &spec.path {
        rules.push(Structural::Path(Box::new(
            Path::compile(spec).map_err(|words| ("path", words))?,
        )));
    }
    if let Some(spec) = &spec.sql {
        rules.push(Structural::Sql(Box::new(Sql::compile(spec).map_err(|words| ("sql", words))?)));
    }
    if let Some(spec) = &spec.url {
        if spec.hosts.is_empty() && spec.addresses.is_empty() && !spec.any_host {
            return Err(("url", format!("allows no host: name them in `hosts`{FORBID}")));
        }
        rules.push(Structural::Url(Box::new(Url::compile(spec).map_err(|words| ("url", words))?)));
    }
    Ok(rules)
}

impl Structural {
    /// Holds a value against the rule; gives what has to be forwarded in its place, if that is
    /// something else.
    pub(crate) fn check(&self, value: &Value, pass: &Pass) -> Result<Option<Value>, Refusal> {
        match (self, value) {
            (Self::Command(rule), value) => rule.check_value(value).map(|_| None),
            (Self::Path(rule), value) => {
                Ok(rule.check_argument(text(value)?, pass.reads)?.map(Value::from))
            }
            (Self::Sql(rule), value) => {
                Ok(rule.check_within(text(value)?, &pass.effort)?.rewritten.map(Value::from))
            }
            (Self::Url(rule), value) => rule.check(text(value)?).map(|_| None),
        }
    }
}

fn text(value: &Value) -> Result<&str, Refusal> {
    value.as_str().ok_or_else(|| Refusal("must be text".into()))
}
