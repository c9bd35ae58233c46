//! Conditions in CEL (`when`). When loaded, a condition is checked: known names only, bounded work,
//! no comparison that can never hold. It is also evaluated on samples, to detect type errors before
//! the first call. A failure during a call denies it. Only this module depends on CEL.

mod inspect;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, ExecutionError, Program, Value};
use regex::Regex;

use crate::arguments::{expression, pointer, undisguised};
use crate::target::{Annotations, Certificate, Subject, Target, TargetKind};
use crate::{Refusal, no};
use inspect::{FLAG, Findings, Kind, NUMBER, TEXT};

const MAX_BYTES: usize = 2048;
/// Number of arguments named in a type error.
const MAX_TOLD: usize = 3;

pub(crate) struct Condition {
    program: Program,
    /// The context of every evaluation: `matches`, with the compiled patterns.
    base: Context<'static, 'static>,
    findings: Findings,
}

impl Condition {
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("is longer than {MAX_BYTES} bytes"));
        }
        let program = Program::compile(text)
            .map_err(|errors| format!("is not a valid condition: {}", plain(&errors)))?;
        let findings = inspect::inspect(program.expression())?;
        let base = context_with_patterns(&findings.patterns)?;
        let condition = Self { program, base, findings };
        condition.try_samples()?;
        if condition.findings.asks_nothing() {
            samples(|sample| match condition.holds(sample) {
                Ok(true) => Ok(()),
                Ok(false) => Err("is false for every request: remove the policy, or `when`".into()),
                Err(failed) => Err(failed.words),
            })?;
        }
        Ok(condition)
    }

    pub(crate) fn needs_arguments(&self) -> bool {
        self.findings.uses("arguments")
    }

    pub(crate) fn needs_target(&self) -> bool {
        self.findings.uses("target")
    }

    pub(crate) fn needs_subject(&self) -> bool {
        self.findings.uses("subject")
    }

    /// Checks that no argument spells a name of the condition in other letters, or has another type
    /// than the literals that the condition compares it with. The condition would not recognise
    /// such an argument, but a lenient server would.
    ///
    /// # Errors
    /// Returns the argument that must be written differently.
    pub(crate) fn undisguised(&self, arguments: &serde_json::Value) -> Result<(), Refusal> {
        self.findings.members.iter().try_for_each(|steps| undisguised(arguments, steps))?;
        for (steps, kinds) in &self.findings.kinds {
            if !is_of_kind(arguments, steps, kinds) {
                let words = Vec::from_iter(kinds.iter().rev().copied()).join(" or ");
                return no(format!("the argument {} must be {words} here", pointer(steps)));
            }
        }
        Ok(())
    }

    /// Returns the argument that made an evaluation fail, in a message for the caller; `None` if
    /// the cause is not an argument.
    pub(crate) fn amiss(&self, failed: &Failed, arguments: &serde_json::Value) -> Option<String> {
        match &failed.why {
            Why::Missing(name) => {
                let mut ways = self.findings.taken().filter_map(|steps| missing(arguments, steps));
                let way = ways.find(|way| way.last() == Some(name))?;
                Some(format!("{} is missing", pointer(way)))
            }
            Why::Type => {
                let told = self.findings.taken().filter_map(|steps| given(arguments, steps));
                let told = Vec::from_iter(told.take(MAX_TOLD)).join(", ");
                (!told.is_empty()).then(|| format!("an argument has the wrong type: {told}"))
            }
            Why::Other => None,
        }
    }

    /// Evaluates the condition.
    pub(crate) fn holds(&self, world: World<'_>) -> Result<bool, Failed> {
        let mut scope = self.base.new_inner_scope();
        if self.findings.uses("subject") {
            scope.add_variable_from_value("subject", subject_value(world.subject));
        }
        if self.findings.uses("endpoint") {
            scope.add_variable_from_value("endpoint", world.endpoint);
        }
        if self.findings.uses("target")
            && let Some(target) = world.target
        {
            scope.add_variable_from_value("target", target_value(target));
        }
        if self.findings.uses("arguments")
            && let Some(arguments) = world.arguments
        {
            let bound = self.findings.bound();
            let mut left = bound;
            let Some(value) = convert(arguments, &mut left) else {
                let words =
                    format!("the arguments have more than {bound} values, too many for its loops");
                return Err(Failed { words, why: Why::Other });
            };
            scope.add_variable_from_value("arguments", value);
        }
        match self.program.execute(&scope) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(other) => {
                let words = format!("its result is a {}, not true or false", other.type_of());
                Err(Failed { words, why: Why::Other })
            }
            Err(error) => Err(Failed { words: brief(&error), why: Why::of(&error) }),
        }
    }

    /// Evaluates the condition on samples. Only arguments may be missing.
    fn try_samples(&self) -> Result<(), String> {
        samples(|sample| match self.holds(sample) {
            Err(failed) if !(matches!(failed.why, Why::Missing(_)) && self.needs_arguments()) => {
                Err(format!("cannot be evaluated: {}", failed.words))
            }
            _ => Ok(()),
        })
    }
}

/// Creates the base context. Its `matches` accepts only these patterns.
fn context_with_patterns(written: &BTreeSet<String>) -> Result<Context<'static, 'static>, String> {
    let mut patterns: HashMap<String, Regex> = HashMap::new();
    for pattern in written {
        let compiled = expression(pattern, pattern.len());
        let compiled = compiled.map_err(|words| format!("{pattern:?} {words}"))?;
        patterns.insert(pattern.clone(), compiled);
    }
    let mut base = Context::default();
    let added =
        base.add_function("matches", move |This(text): This<Arc<String>>, pattern: Arc<String>| {
            let found = patterns.get(pattern.as_str()).map(|pattern| pattern.is_match(&text));
            let what = "the pattern is not written in the condition";
            found.ok_or_else(|| ExecutionError::function_error("matches", what))
        });
    added.map(|_| base).map_err(|error| error.to_string())
}

/// Returns the path to the first missing member; `None` if every member exists.
fn missing<'a>(arguments: &serde_json::Value, steps: &'a [String]) -> Option<&'a [String]> {
    let mut value = arguments;
    for (at, step) in steps.iter().enumerate() {
        match value.get(step) {
            Some(inner) => value = inner,
            None if step == "*" => return None,
            None => return steps.get(..=at),
        }
    }
    None
}

/// Returns whether the value at a path is of one of the kinds. A missing value and `null` are of
/// every kind.
fn is_of_kind(value: &serde_json::Value, steps: &[String], kinds: &BTreeSet<Kind>) -> bool {
    use serde_json::Value as Json;
    let Some((step, rest)) = steps.split_first() else {
        return match value {
            Json::Null => true,
            Json::String(_) => kinds.contains(TEXT),
            Json::Number(_) => kinds.contains(NUMBER),
            Json::Bool(_) => kinds.contains(FLAG),
            Json::Array(_) | Json::Object(_) => false,
        };
    };
    let inner = match value {
        Json::Array(items) if step == "*" => {
            return items.iter().all(|item| is_of_kind(item, rest, kinds));
        }
        Json::Array(items) => step.parse().ok().and_then(|at: usize| items.get(at)),
        value => value.get(step),
    };
    inner.is_none_or(|inner| is_of_kind(inner, rest, kinds))
}

/// Describes the type of an argument that exists.
fn given(arguments: &serde_json::Value, steps: &[String]) -> Option<String> {
    use serde_json::Value as Json;
    let value = steps.iter().try_fold(arguments, |value, step| value.get(step))?;
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(number) if number.is_f64() => "a number with a fraction",
        Json::Number(_) => "a whole number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    };
    Some(format!("{} is {kind}", pointer(steps)))
}

/// A failed evaluation, with a message for the log.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Failed {
    words: String,
    why: Why,
}

#[derive(Debug)]
enum Why {
    /// A member of this name is missing.
    Missing(String),
    Type,
    Other,
}

impl Why {
    fn of(error: &ExecutionError) -> Self {
        use ExecutionError as E;
        match error {
            E::NoSuchKey(key) => Self::Missing(key.to_string()),
            E::UnsupportedBinaryOperator(..)
            | E::ValuesNotComparable(..)
            | E::UnsupportedIndex(..) => Self::Type,
            E::NoSuchOverload(_) | E::FunctionError { .. } => Self::Type,
            _ => Self::Other,
        }
    }
}

lockgate_text::debug_fields!(Condition: findings);

/// Formats an error without its values, which may be secrets of a caller.
fn brief(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("there is no `{key}`"),
        ExecutionError::NoSuchOverload(_) | ExecutionError::UndeclaredReference(_) => {
            error.to_string()
        }
        ExecutionError::UnsupportedBinaryOperator(operator, ..) => {
            format!("`{operator}` does not support these types")
        }
        ExecutionError::ValuesNotComparable(..) => "values of different types are compared".into(),
        ExecutionError::UnsupportedIndex(..) | ExecutionError::IndexOutOfBounds(_) => {
            "an index is invalid".into()
        }
        ExecutionError::FunctionError { function, .. } => format!("`{function}` failed"),
        _ => "the evaluation failed".into(),
    }
}

fn plain(errors: &cel::ParseErrors) -> String {
    let words = errors.to_string();
    let line = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    line.trim().trim_start_matches("ERROR: <input>:").to_owned()
}

// The variables of a condition, built from a request, and the samples for trying a condition when
// it is loaded.

/// The input of a condition.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) endpoint: &'a str,
    /// The target, once known.
    pub(crate) target: Option<&'a Target<'a>>,
    /// The arguments, once known.
    pub(crate) arguments: Option<&'a serde_json::Value>,
}

fn subject_value(subject: &Subject<'_>) -> Value {
    let certificates: Vec<_> = subject.certificates().into_iter().map(Value::from).collect();
    map([
        ("issuer", subject.issuer.into()),
        ("id", subject.subject.into()),
        ("principal", subject.principal().into()),
        // Absent values are empty, so that comparing with them is false and not an error.
        ("organisation", subject.organisation.unwrap_or("").into()),
        ("roles", list(subject.roles)),
        ("scopes", list(subject.scopes)),
        ("agent", subject.agent.unwrap_or("").into()),
        ("certificates", certificates.into()),
        ("anonymous", Value::Bool(subject.is_anonymous())),
    ])
}

fn target_value(target: &Target<'_>) -> Value {
    let Annotations { read_only, destructive, idempotent, open_world } = target.annotations;
    let annotations = map([
        ("read_only", Value::Bool(read_only)),
        ("destructive", Value::Bool(destructive)),
        ("idempotent", Value::Bool(idempotent)),
        ("open_world", Value::Bool(open_world)),
    ]);
    map([
        ("kind", target.kind.as_str().into()),
        ("server", target.server.into()),
        ("name", target.own.into()),
        ("exposed", target.exposed.into()),
        ("category", target.category.unwrap_or("").into()),
        ("annotations", annotations),
    ])
}

fn list(all: &[Arc<str>]) -> Value {
    let values: Vec<_> = all.iter().map(|one| Value::from(&**one)).collect();
    values.into()
}

fn map<const N: usize>(members: [(&str, Value); N]) -> Value {
    HashMap::from(members).into()
}

/// Converts the arguments; returns `None` if they have more than `left` values.
fn convert(value: &serde_json::Value, left: &mut usize) -> Option<Value> {
    *left = left.checked_sub(1)?;
    Some(match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Int(whole),
            (None, number) => Value::Float(number?),
        },
        serde_json::Value::String(text) => text.as_str().into(),
        serde_json::Value::Array(items) => {
            let values = items.iter().map(|item| convert(item, left));
            values.collect::<Option<Vec<_>>>()?.into()
        }
        serde_json::Value::Object(members) => {
            let mut values = HashMap::new();
            for (key, value) in members {
                values.insert(key.as_str(), convert(value, left)?);
            }
            values.into()
        }
    })
}

/// Calls `each` with sample callers and targets. The arguments are empty, because their shape is
/// unknown.
fn samples(mut each: impl FnMut(World<'_>) -> Result<(), String>) -> Result<(), String> {
    let words = ["word".into()];
    let tool = Target {
        kind: TargetKind::Tool,
        server: "server",
        organisation: None,
        exposed: "server__tool",
        own: "tool",
        category: None,
        annotations: Annotations::default(),
    };
    let nobody = Subject { issuer: "anonymous", subject: "anonymous", ..Subject::default() };
    let somebody = Subject {
        issuer: "https://issuer.example",
        subject: "somebody",
        organisation: Some("organisation"),
        agent: Some("agent"),
        roles: &words,
        scopes: &words,
        certificate: Some(Certificate { names: &[], fingerprint: "00" }),
        ..Subject::default()
    };
    let resource = Target {
        kind: TargetKind::Resource,
        exposed: "server+file:///a",
        own: "file:///a",
        ..tool
    };
    let builtin = Target { category: Some("file"), ..tool };
    let none = serde_json::json!({});
    for (subject, target) in [(nobody, tool), (somebody, builtin), (somebody, resource)] {
        each(World {
            subject: &subject,
            endpoint: "/mcp",
            target: Some(&target),
            arguments: Some(&none),
        })?;
    }
    Ok(())
}
