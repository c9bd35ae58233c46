//! Conditions in CEL (`when`). When loaded, a condition is checked: known names only, bounded work,
//! no comparison that can never hold. It is also evaluated on samples, to detect type errors before
//! the first call. A failure during a call denies it. Only this module depends on CEL.

mod comparisons;
mod inspect;
mod world;

pub(crate) use world::World;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, ExecutionError, Program, Value};
use regex::Regex;

use crate::arguments::{expression, pointer, undisguised};
use crate::{Refusal, no};
use inspect::{Findings, Shape};

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
            world::samples(|sample| match condition.holds(sample) {
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
        for (steps, shapes) in &self.findings.shapes {
            if !shaped(arguments, steps, shapes) {
                let words = Vec::from_iter(shapes.iter().map(|shape| shape.words())).join(" or ");
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
                for steps in self.findings.taken() {
                    if let Some(way) = missing(arguments, steps)
                        && way.last() == Some(name)
                    {
                        return Some(format!("{} is missing", pointer(way)));
                    }
                }
                None
            }
            Why::Type => {
                let mut told = Vec::new();
                for steps in self.findings.taken() {
                    told.extend(given(arguments, steps));
                }
                told.truncate(MAX_TOLD);
                if told.is_empty() {
                    return None;
                }
                Some(format!("an argument has the wrong type: {}", told.join(", ")))
            }
            Why::Other => None,
        }
    }

    /// Evaluates the condition.
    pub(crate) fn holds(&self, world: World<'_>) -> Result<bool, Failed> {
        let mut scope = self.base.new_inner_scope();
        if self.findings.uses("subject") {
            scope.add_variable_from_value("subject", world::subject(world.subject));
        }
        if self.findings.uses("endpoint") {
            scope.add_variable_from_value("endpoint", world.endpoint);
        }
        if self.findings.uses("target")
            && let Some(target) = world.target
        {
            scope.add_variable_from_value("target", world::target(target));
        }
        if self.findings.uses("arguments")
            && let Some(arguments) = world.arguments
        {
            let bound = self.findings.bound();
            let Some(value) = world::arguments(arguments, bound) else {
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
        world::samples(|sample| match self.holds(sample) {
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
        match expression(pattern, pattern.len()) {
            Ok(compiled) => patterns.insert(pattern.clone(), compiled),
            Err(words) => return Err(format!("{pattern:?} {words}")),
        };
    }
    let mut base = Context::default();
    let added =
        base.add_function("matches", move |This(text): This<Arc<String>>, pattern: Arc<String>| {
            match patterns.get(pattern.as_str()) {
                Some(pattern) => Ok(pattern.is_match(&text)),
                None => Err(ExecutionError::function_error(
                    "matches",
                    "the pattern is not written in the condition",
                )),
            }
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

/// Returns whether the value at a path has one of the shapes. A missing value and `null` match
/// every shape.
fn shaped(value: &serde_json::Value, steps: &[String], shapes: &BTreeSet<Shape>) -> bool {
    use serde_json::Value as Json;
    let Some((step, rest)) = steps.split_first() else {
        return match value {
            Json::Null => true,
            Json::String(_) => shapes.contains(&Shape::Text),
            Json::Number(_) => shapes.contains(&Shape::Number),
            Json::Bool(_) => shapes.contains(&Shape::Flag),
            Json::Array(_) | Json::Object(_) => false,
        };
    };
    match value {
        Json::Array(items) if step == "*" => items.iter().all(|item| shaped(item, rest, shapes)),
        Json::Array(items) => {
            let Ok(at) = step.parse::<usize>() else { return true };
            let Some(item) = items.get(at) else { return true };
            shaped(item, rest, shapes)
        }
        value => {
            let Some(inner) = value.get(step) else { return true };
            shaped(inner, rest, shapes)
        }
    }
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
