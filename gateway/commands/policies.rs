//! `lockgate policy`: checks policy files, runs their cases, and explains a decision. Uses the
//! gateway's policy engine and contacts no server.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Subcommand;
use lockgate_config::{Problem, ValuePlace, policies};
use lockgate_policy::cases::{Case, Expect, Outcome};
use lockgate_policy::{Config, DEFAULT, Overlap, Policy};
use lockgate_text::count::count;
use serde_json::{Value, json};

mod explain;
mod lint_context;
mod unreachable;

use explain::Explain;
pub(crate) use lint_context::Configured;
use lint_context::{LintContext, Printed, compile, misspelt};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Find every mistake in policy files; exit code 1 if there is one
    Check {
        /// Files and folders [default: `policy.files` of the configuration]
        files: Vec<PathBuf>,
    },
    /// Run the cases beside policy files; exit code 1 if one fails
    Test {
        /// Files of cases, and folders of them [default: `cases` beside the policy files]
        files: Vec<PathBuf>,
    },
    /// Show which policies decide on a call, and which changes would alter the decision
    Explain(Box<Explain>),
}

impl Command {
    /// Runs the command. `configured` loads the policies of the configuration, where required.
    pub(crate) fn run(
        &self,
        cwd: &Path,
        json: bool,
        configured: impl Fn() -> anyhow::Result<Configured>,
    ) -> Printed {
        match self {
            Self::Check { files } => check(load(files, cwd, configured)?, json),
            Self::Test { files } if files.is_empty() => {
                let configured = configured()?;
                test(&beside(&configured.config, cwd), cwd, &configured.context, json)
            }
            // Without a valid configuration, cases are tested without its context.
            Self::Test { files } => {
                let context = match configured() {
                    Ok(found) => found.context,
                    Err(_) => LintContext::default(),
                };
                test(files, cwd, &context, json)
            }
            Self::Explain(question) => {
                question.run(&load(&question.policies, cwd, configured)?, json)
            }
        }
    }

    /// Reports whether mistakes are the command's result rather than its failure.
    pub(crate) fn finds(&self) -> bool {
        matches!(self, Self::Check { .. })
    }
}

/// Loads the policies in `files`, or those of the configuration if `files` is empty.
fn load(
    files: &[PathBuf],
    cwd: &Path,
    configured: impl FnOnce() -> anyhow::Result<Configured>,
) -> anyhow::Result<Configured> {
    if files.is_empty() {
        return configured();
    }
    let config = policies::load(files, cwd)?;
    Ok(Configured { config, warnings: Vec::new(), context: LintContext::default() })
}

fn check(Configured { config, mut warnings, context }: Configured, json: bool) -> Printed {
    warnings.extend(compile(&config)?.overlaps().iter().map(overlap));
    warnings.extend(unreachable::warnings(&config.documents, &context));
    let mut policies = 0;
    for file in &config.documents {
        policies += file.policies.len();
    }
    let files = config.documents.len();
    if json {
        let found = json!({"problems": warnings, "policies": policies, "files": files});
        return Ok((found.to_string(), ExitCode::SUCCESS));
    }
    let mut text = String::new();
    for warning in &warnings {
        let _ = writeln!(text, "{warning}");
    }
    let _ = write!(text, "ok: {} in {}", count(policies, "policy"), count(files, "file"));
    Ok((text, ExitCode::SUCCESS))
}

/// Describes a policy on arguments that another policy bypasses.
fn overlap(found: &Overlap) -> Problem {
    let (path, line) = found.place.rsplit_once(':').unwrap_or((&found.place, ""));
    let place = ValuePlace::File {
        path: Arc::new(path.into()),
        line: line.parse().unwrap_or(0),
        column: 0,
    };
    let policy = &found.policy;
    let other = &found.other;
    let (does, same) = if found.sets {
        ("adds values with `set`", "the same `set`")
    } else {
        ("checks arguments", "the same rules, or make them a `deny` policy")
    };
    let what =
        format!("policy {policy} {does}, but policy {other} may allow the same calls unchanged");
    Problem::warning(place, "", what)
        .hint(format!("narrow the scope of {other}, or give it {same}"))
}

fn beside(config: &Config, cwd: &Path) -> Vec<PathBuf> {
    let mut folders = vec![cwd.join("policies/cases")];
    for file in &config.documents {
        if let Some(folder) = cwd.join(&file.name).parent() {
            folders.push(folder.join("cases"));
        }
    }
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders.dedup();
    folders
}

struct Tried {
    file: PathBuf,
    name: String,
    outcome: Option<Outcome>,
    differences: Vec<String>,
}

fn test(paths: &[PathBuf], cwd: &Path, context: &LintContext, json: bool) -> Printed {
    let mut tried = Vec::new();
    for path in paths {
        let files = policies::files(&cwd.join(path))
            .map_err(|words| anyhow!("{}: {words}", path.display()))?;
        for file in files {
            tried.extend(run(&file, cwd, context)?);
        }
    }
    if tried.is_empty() {
        return Err(anyhow!(
            "there are no cases; put them into a folder `cases` next to the policy files"
        ));
    }
    let mut failed = 0;
    let mut text = String::new();
    for case in &tried {
        if case.differences.is_empty() {
            continue;
        }
        failed += 1;
        let _ = writeln!(text, "FAIL {}: {}", case.file.display(), case.name);
        for line in &case.differences {
            let _ = writeln!(text, "     {line}");
        }
    }
    let code = if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let passed = tried.len() - failed;
    if json {
        let cases: Vec<Value> = tried.iter().map(as_json).collect();
        let report = json!({"passed": passed, "failed": failed, "cases": cases});
        return Ok((serde_json::to_string_pretty(&report)?, code));
    }
    let _ = write!(text, "{passed} passed, {failed} failed");
    Ok((text, code))
}

fn as_json(case: &Tried) -> Value {
    json!({
        "file": case.file.display().to_string(),
        "case": case.name,
        "passed": case.differences.is_empty(),
        "decision": case.outcome.as_ref().map(|outcome| outcome.decision.as_str()),
        "rule": case.outcome.as_ref().map(|outcome| outcome.rule.as_str()),
        "differences": case.differences,
    })
}

/// Runs the cases of a file against the policies that it names.
fn run(file: &Path, cwd: &Path, context: &LintContext) -> anyhow::Result<Vec<Tried>> {
    let cases = policies::cases(file, cwd)?;
    let folder = file.parent().unwrap_or(cwd);
    let mut named: Vec<_> = cases.policies.iter().map(|name| folder.join(name)).collect();
    if named.is_empty() {
        named.push(tested(file));
    }
    let config = policies::load(&named, cwd)?;
    let policy = compile(&config)?;
    let name = file.strip_prefix(cwd).unwrap_or(file);
    let mut tried = Vec::with_capacity(cases.cases.len());
    for case in &cases.cases {
        let (outcome, differences) = match decide(case, &policy, context) {
            Ok(outcome) => {
                let differences = case.differences(&outcome);
                (Some(outcome), differences)
            }
            Err(words) => (None, vec![words]),
        };
        tried.push(Tried {
            file: name.to_path_buf(),
            name: case.name.clone(),
            outcome,
            differences,
        });
    }
    Ok(tried)
}

/// Decides a case. A resource with an invalid URI counts as hidden.
fn decide(case: &Case, policy: &Policy, context: &LintContext) -> Result<Outcome, String> {
    let mut misspelling = None;
    let outcome = case.decide(policy, |kind, name, at| {
        let asked = context.asked(kind, name, at)?;
        misspelling = misspelt(kind, &asked.own);
        Ok(asked)
    })?;
    let Some(words) = misspelling else { return Ok(outcome) };
    Ok(Outcome {
        decision: Expect::Hidden,
        rule: DEFAULT.to_owned(),
        words: Some(words),
        forwards: None,
    })
}

/// Returns the policy files for cases that name none: the file of the same name in the parent
/// folder, or that folder.
fn tested(cases: &Path) -> PathBuf {
    let above = cases.parent().and_then(Path::parent).unwrap_or(cases);
    if let Some(name) = cases.file_name() {
        let same = above.join(name);
        if same.is_file() {
            return same;
        }
    }
    above.to_path_buf()
}
