//! `when`: a condition in CEL, checked when it is loaded: known names only, bounded, without comparisons that never hold,
//! and tried on samples, so that a wrong type is found before the first call. What still fails on a call denies. This is the only module that knows CEL.

mod comparisons;
mod inspect;
mod world;

use std::collections::HashMap;
use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, ExecutionError, Program, Value};
use regex::Regex;

use crate::arguments::{expression, undisguised};
use crate::{Refusal, Subject, Target};
use inspect::Findings;

const MAX_BYTES: usize = 2048;

/// A compiled condition.
pub(crate) struct Condition {
    program: Program,
    /// What it knows besides the values of a call: `matches` with the expressions compiled.
    base: Context<'static, 'static>,
    findings: Findings,
}

/// What a condition is evaluated for.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) endpoint: &'a str,
    /// What is asked for, once that is known.
    pub(crate) target: Option<&'a Target<'a>>,
    /// The arguments, once they are known.
    pub(crate) arguments: Option<&'a serde_json::Value>,
}

impl Condition {
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("is longer than {MAX_BYTES} bytes"));
        }
        let program = Program::compile(text).map_err(|errors| format!("is no condition: {}", plain(&errors)))?;
        let findings = inspect::inspect(program.expression())?;
        comparisons::check(program.expression())?;
        let mut patterns = HashMap::new();
        for pattern in &findings.patterns {
            let compiled = expression(pattern, pattern.len()).map_err(|words| format!("{pattern:?} {words}"))?;
            patterns.insert(pattern.clone(), compiled);
        }
        let mut base = Context::default();
        let patterns: Arc<HashMap<String, Regex>> = Arc::new(patterns);
        let matches = move |This(text): This<Arc<String>>, pattern: Arc<String>| match patterns.get(pattern.as_str()) {
            Some(pattern) => Ok(pattern.is_match(&text)),
            None => Err(ExecutionError::function_error("matches", "the pattern is not written in the condition")),
        };
        base.add_function("matches", matches).map_err(|error| error.to_string())?;
        let condition = Self { program, base, findings };
        condition.try_samples()?;
        Ok(condition)
    }

    /// It is about the arguments, and so can only be known when there is a call.
    pub(crate) fn needs_arguments(&self) -> bool {
        self.findings.uses("arguments")
    }

    pub(crate) fn needs_target(&self) -> bool {
        self.findings.uses("target")
    }

    /// It may be another one for each caller.
    pub(crate) fn needs_subject(&self) -> bool {
        self.findings.uses("subject")
    }

    /// Whether the arguments have a name that it goes by, in other letters: it would take for absent what a reader that
    /// ignores case finds.
    ///
    /// # Errors
    /// The argument that must be written otherwise.
    pub(crate) fn undisguised(&self, arguments: &serde_json::Value) -> Result<(), Refusal> {
        self.findings.members.iter().try_for_each(|steps| undisguised(arguments, steps))
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// It cannot be evaluated: words for the log.
    pub(crate) fn holds(&self, world: World<'_>) -> Result<bool, String> {
        self.run(world).map_err(|failed| failed.words)
    }

    fn run(&self, world: World<'_>) -> Result<bool, Failed> {
        let mut scope = self.base.new_inner_scope();
        if self.findings.uses("subject") {
            scope.add_variable_from_value("subject", world::subject(world.subject));
        }
        if self.findings.uses("endpoint") {
            scope.add_variable_from_value("endpoint", world.endpoint);
        }
        if let Some(target) = world.target.filter(|_| self.findings.uses("target")) {
            scope.add_variable_from_value("target", world::target(target));
        }
        if let Some(arguments) = world.arguments.filter(|_| self.findings.uses("arguments")) {
            let bound = self.findings.bound();
            let words = || format!("the arguments have more than {bound} values, too many for its loops");
            let value = world::arguments(arguments, bound).ok_or_else(|| Failed { words: words(), missing: false })?;
            scope.add_variable_from_value("arguments", value);
        }
        match self.program.execute(&scope) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(other) => {
                let words = format!("it gives a {}, not true or false", other.type_of());
                Err(Failed { words, missing: false })
            }
            Err(error) => Err(Failed { words: brief(&error), missing: matches!(error, ExecutionError::NoSuchKey(_)) }),
        }
    }

    /// Runs it on a few callers. Only arguments that it wants may be missing there.
    fn try_samples(&self) -> Result<(), String> {
        world::samples(|sample| match self.run(sample) {
            Err(failed) if !(failed.missing && self.needs_arguments()) => {
                Err(format!("does not evaluate: {}", failed.words))
            }
            _ => Ok(()),
        })
    }
}

/// Why it could not be evaluated.
struct Failed {
    words: String,
    /// Something that it refers to is not there.
    missing: bool,
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Condition").field("findings", &self.findings).finish_non_exhaustive()
    }
}

/// An error without the values in it: they may be secrets of a caller.
fn brief(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("there is no `{key}`"),
        ExecutionError::NoSuchOverload(_) | ExecutionError::UndeclaredReference(_) => error.to_string(),
        ExecutionError::UnsupportedBinaryOperator(operator, ..) => format!("`{operator}` does not fit these types"),
        ExecutionError::ValuesNotComparable(..) => "values of different types are compared".into(),
        ExecutionError::UnsupportedIndex(..) | ExecutionError::IndexOutOfBounds(_) => "an index does not fit".into(),
        ExecutionError::FunctionError { function, .. } => format!("`{function}` failed"),
        _ => "it failed".into(),
    }
}

fn plain(errors: &cel::ParseErrors) -> String {
    let words = errors.to_string();
    let line = words.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().trim_start_matches("ERROR: <input>:").to_owned()
}
