//! `lockgate policy`: checks policy files, runs their cases, and explains a decision. Uses the
//! gateway's policy engine and contacts no server.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::{ArgGroup, Args, Subcommand};
pub(crate) use lint_context::Configured;
use lint_context::{LintContext, compile, misspelt};
use lockgate_config::{Problem, ValuePlace, policies};
use lockgate_policy::cases::{Caller, Case, Expect, Outcome, find_asked};
use lockgate_policy::{
    Annotations, Config, DEFAULT, Explanation, Overlap, Policy, Question, TargetKind,
};
use lockgate_text::count::count;
use lockgate_text::json;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::commands::Printed;

mod lint_context;
mod unreachable;

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
    let policies: usize = config.documents.iter().map(|file| file.policies.len()).sum();
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
    let mut text = String::new();
    let failures = tried.iter().filter(|case| !case.differences.is_empty());
    let failed = failures.clone().count();
    for case in failures {
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
    let tried = cases.cases.iter().map(|case| {
        let outcome = decide(case, &policy, context);
        let differences = match &outcome {
            Ok(outcome) => case.differences(outcome),
            Err(words) => vec![words.clone()],
        };
        let file = name.to_path_buf();
        Tried { file, name: case.name.clone(), outcome: outcome.ok(), differences }
    });
    Ok(tried.collect())
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

#[derive(Args)]
#[command(group = ArgGroup::new("asked")
    .args(["call", "prompt", "resource", "completion", "template"])
    .required(true))]
pub(crate) struct Explain {
    /// The caller: `issuer|subject` or the name of a key, and words such as `role=analyst
    /// organisation=acme`; with quotes around values that contain blanks: `'"certificate:My
    /// CA|cn:alice" role=ops'`
    #[arg(long = "as", value_name = "WHO", default_value = "local|user")]
    caller: String,
    /// The tool: `server/tool`
    #[arg(long, value_name = "NAME")]
    call: Option<String>,
    /// Instead of a tool, a prompt: `server/prompt`
    #[arg(long, value_name = "NAME")]
    prompt: Option<String>,
    /// Instead of a tool, a resource: `server/uri`, or its URI at the endpoint, such as
    /// `server+uri`
    #[arg(long, value_name = "URI")]
    resource: Option<String>,
    /// Instead of a tool, values for the arguments of a prompt: `server/prompt`
    #[arg(long, value_name = "NAME")]
    completion: Option<String>,
    /// Instead of a tool, values for the variables of a resource template: `server/uri`
    #[arg(long, value_name = "URI")]
    template: Option<String>,
    /// Arguments as a JSON object
    #[arg(long, value_name = "JSON", value_parser = read_arguments)]
    arguments: Option<String>,
    /// The endpoint
    #[arg(long, value_name = "PATH", default_value = "/mcp")]
    at: String,
    /// The category, for a tool of a built-in server [default: that of the configuration]
    #[arg(long, value_name = "NAME")]
    category: Option<String>,
    /// The server's annotations of the tool, as JSON: `{"readOnlyHint": true}` [default: those of a
    /// built-in tool of the configuration]
    #[arg(long, value_name = "JSON")]
    annotations: Option<String>,
    /// Policy files and folders [default: the policies of the configuration]
    #[arg(long, value_name = "FILE")]
    pub(crate) policies: Vec<PathBuf>,
}

/// Checks that the text is a JSON object, and returns it as it is: policies also judge JSON that no
/// writer produces.
fn read_arguments(text: &str) -> Result<String, String> {
    let is_json = json::from_str::<IgnoredAny>(text).is_ok();
    if is_json && text.trim_start().starts_with('{') {
        return Ok(text.to_owned());
    }
    Err("must be a JSON object, such as '{\"path\": \"/tmp\"}'".to_owned())
}

impl Explain {
    pub(crate) fn run(&self, configured: &Configured, json: bool) -> Printed {
        let Self { caller, arguments, at, category, annotations, .. } = self;
        let Self { call, prompt, resource, completion, template, .. } = self;
        let caller = Caller::parse(caller).map_err(|words| anyhow!("--as: {words}"))?;
        let (kind, name) = find_asked([call, prompt, resource, completion, template])
            .context("specify a tool with --call")?;
        let mut asked = configured.context.asked(kind, name, at).map_err(anyhow::Error::msg)?;
        asked.category = category.clone().or(asked.category);
        if let Some(text) = annotations {
            let definition = format!("{{\"annotations\":{text}}}");
            asked.annotations = Some(Annotations::of_tool(definition.as_bytes()));
        }
        let target = asked.target(kind, None);
        let policy = compile(&configured.config)?;
        let caller = configured.context.known(caller).map_err(|words| anyhow!("--as: {words}"))?;
        let unknown = configured.context.unknown(&caller, kind, &asked);
        let subject = caller.subject();
        let question = Question { subject: &subject, endpoint: at, target: &target };
        let mut explanation = policy.explain(&question, arguments.as_deref().map(str::as_bytes));
        // Reasons to hide the item that apply regardless of policies.
        let other = match misspelt(kind, &asked.own) {
            Some(words) => Some((DEFAULT, words, Vec::new())),
            None if kind == TargetKind::Tool
                && configured.context.is_unapproved(&asked.server, &asked.own) =>
            {
                let name = format!("{}/{}", asked.server, asked.own);
                let change = format!("`lockgate pins approve {name}`, after a review");
                Some((
                    "pins",
                    format!("{name} is not in the lock file of approved tools"),
                    vec![change],
                ))
            }
            None => None,
        };
        if let Some((rule, words, changes)) = other {
            explanation.decision = Expect::Hidden.as_str();
            explanation.rule = rule.to_owned();
            (explanation.words, explanation.forwards, explanation.changes) =
                (Some(words), None, changes);
        }
        print(explanation, &unknown, json)
    }
}

/// Prints the explanation. For a decision by default, names unknown to the gateway are the reason.
fn print(mut explanation: Explanation, unknown: &[String], json: bool) -> Printed {
    let is_default = explanation.rule == DEFAULT;
    if is_default && !unknown.is_empty() {
        explanation.words = Some(unknown.join("; "));
    }
    if json {
        let mut all = serde_json::to_value(&explanation)?;
        all["unknown"] = unknown.into();
        return Ok((serde_json::to_string_pretty(&all)?, ExitCode::SUCCESS));
    }
    let mut text = told(&explanation);
    for line in if is_default { &[] } else { unknown } {
        let _ = write!(text, "\n\nnote: {line}");
    }
    Ok((text, ExitCode::SUCCESS))
}

fn told(explanation: &Explanation) -> String {
    let Explanation { decision, rule, words, forwards, policies, changes } = explanation;
    let mut text = format!("{decision}, by {rule}");
    if let Some(words) = words {
        let _ = write!(text, ": {words}");
    }
    if let Some(forwards) = forwards {
        let _ = write!(text, "\nthe server receives {forwards}");
    }
    text.push_str("\n\nrelevant policies:");
    for step in policies {
        let dry = if step.dry_run { ", dry run" } else { "" };
        let _ = write!(
            text,
            "\n  {} ({}{dry}; {}) {}",
            step.policy, step.effect, step.place, step.says
        );
    }
    if policies.is_empty() {
        text.push_str("\n  none");
    }
    text.push_str("\n\nchanges that would alter the decision:");
    for change in changes {
        let _ = write!(text, "\n  {change}");
    }
    if changes.is_empty() {
        text.push_str("\n  no change to a single policy");
    }
    text
}
