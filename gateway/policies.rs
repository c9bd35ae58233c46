//! `lockgate policy`: checks policy files, runs their cases, and explains a decision. It decides with the engine of the
//! gateway and reaches no server.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::{ArgGroup, Subcommand};
use lockgate_config::{Loaded, Place, Problem, policies};
use lockgate_policy::cases::{Caller, Case, Expect, Outcome};
use lockgate_policy::{Annotations, Config, DEFAULT, Explanation, Kind, Overlap, Policy, Question, Target};
use lockgate_protocol::uri;
use serde_json::{Value, json};

mod never;
mod surroundings;

use surroundings::Surroundings;

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
    /// Say which policies decide on a call, and what would change the answer
    #[command(group = ArgGroup::new("asked").args(["call", "prompt", "resource", "completion", "template"]).required(true))]
    Explain {
        /// The caller: `issuer|subject`, and words such as `role=analyst organisation=acme`; with quotes around what has
        /// blanks in it: `'"certificate:My CA|cn:alice" role=ops'`
        #[arg(long = "as", value_name = "WHO", default_value = "local|user")]
        caller: String,
        /// The tool: `server/tool`
        #[arg(long, value_name = "NAME")]
        call: Option<String>,
        /// Instead of a tool, a prompt: `server/prompt`
        #[arg(long, value_name = "NAME")]
        prompt: Option<String>,
        /// Instead of a tool, a resource: `server/uri`, or its URI at the endpoint, such as `server+uri`
        #[arg(long, value_name = "URI")]
        resource: Option<String>,
        /// Instead of a tool, values for the arguments of a prompt: `server/prompt`
        #[arg(long, value_name = "NAME")]
        completion: Option<String>,
        /// Instead of a tool, values for the variables of a resource template: `server/uri`
        #[arg(long, value_name = "URI")]
        template: Option<String>,
        /// Arguments as a JSON object
        #[arg(long, value_name = "JSON")]
        arguments: Option<String>,
        /// The endpoint
        #[arg(long, value_name = "PATH", default_value = "/mcp")]
        at: String,
        /// The category, for a tool of a built-in server [default: that of the configuration]
        #[arg(long, value_name = "NAME")]
        category: Option<String>,
        /// What the server says of the tool, as JSON: `{"readOnlyHint": true}` [default: what a built-in tool of the
        /// configuration says]
        #[arg(long, value_name = "JSON")]
        annotations: Option<String>,
        /// Policy files and folders [default: the policies of the configuration]
        #[arg(long, value_name = "FILE")]
        policies: Vec<PathBuf>,
    },
}

/// Policies, and what there is to be said of the configuration that they belong to.
pub(crate) struct Configured {
    config: Config,
    warnings: Vec<Problem>,
    /// The rest of the configuration; nothing where files of policies are named instead.
    around: Surroundings,
}

impl From<Loaded> for Configured {
    fn from(Loaded { config, warnings, .. }: Loaded) -> Self {
        Self { config: config.policy.clone(), warnings, around: Surroundings::new(Some(Box::new(config))) }
    }
}

/// What a command prints, and how it ends.
type Printed = anyhow::Result<(String, ExitCode)>;

impl Command {
    /// Runs it. `configured` loads the policies of the configuration, where the command needs them.
    pub(crate) fn run(&self, cwd: &Path, json: bool, configured: impl Fn() -> anyhow::Result<Configured>) -> Printed {
        let of = |files: &[PathBuf]| match files.is_empty() {
            true => configured(),
            false => match policies::load(files, cwd) {
                Ok(config) => Ok(Configured { config, warnings: Vec::new(), around: Surroundings::default() }),
                Err(report) => Err(report.into()),
            },
        };
        match self {
            Self::Check { files } => check(of(files)?, json),
            Self::Test { files } if files.is_empty() => {
                let configured = configured()?;
                test(&beside(&configured.config, cwd), cwd, &configured.around, json)
            }
            // Without a configuration that can be read they are tested by themselves.
            Self::Test { files } => test(files, cwd, &configured().map(|found| found.around).unwrap_or_default(), json),
            Self::Explain { policies, .. } => self.explain(&of(policies)?, json),
        }
    }

    /// Whether mistakes are what it is asked for.
    pub(crate) fn finds(&self) -> bool {
        matches!(self, Self::Check { .. })
    }

    /// What a question is about.
    fn asked(&self) -> Option<(Kind, &str)> {
        let Self::Explain { call, prompt, resource, completion, template, .. } = self else { return None };
        let named = [
            (Kind::Tool, call),
            (Kind::Prompt, prompt),
            (Kind::Resource, resource),
            (Kind::PromptCompletion, completion),
            (Kind::ResourceCompletion, template),
        ];
        named.into_iter().find_map(|(kind, name)| Some((kind, name.as_deref()?)))
    }

    fn explain(&self, configured: &Configured, json: bool) -> Printed {
        let Self::Explain { caller, arguments, at, category, annotations, .. } = self else {
            return Err(anyhow!("this is not a question"));
        };
        let caller = Caller::parse(caller).map_err(|words| anyhow!("--as: {words}"))?;
        let (kind, name) = self.asked().context("name a tool with --call")?;
        let claims = |text: &String| Annotations::of_tool(format!("{{\"annotations\":{text}}}").as_bytes());
        let asked = configured.around.asked(kind, name, at).map_err(anyhow::Error::msg)?;
        let target = Target {
            kind,
            server: &asked.server,
            exposed: &asked.exposed,
            own: &asked.own,
            category: category.as_deref().or(asked.category.as_deref()),
            annotations: annotations.as_ref().map(claims).or(asked.annotations).unwrap_or_default(),
        };
        let policy = compiled(&configured.config)?;
        let caller = configured.around.known(caller);
        let subject = caller.subject();
        let question = Question { subject: &subject, endpoint: at, target: &target };
        let mut explanation = policy.explain(&question, arguments.as_deref().map(str::as_bytes));
        if let Some(words) = misspelt(kind, &asked.own) {
            explanation.decision = Expect::Hidden.as_str();
            explanation.rule = DEFAULT.to_owned();
            (explanation.words, explanation.forwards, explanation.changes) = (Some(words), None, Vec::new());
        }
        let text = if json { serde_json::to_string_pretty(&explanation)? } else { told(&explanation) };
        Ok((text, ExitCode::SUCCESS))
    }
}

/// Why nothing is asked about a URI, whatever policies say of it. A template is taken for one that its server lists.
fn misspelt(kind: Kind, own: &str) -> Option<String> {
    if !matches!(kind, Kind::Resource | Kind::ResourceCompletion) || own.contains('{') {
        return None;
    }
    uri::validate(own, uri::MAX_URI).and_then(|()| uri::check_spelling(own)).err().map(|bad| bad.to_string())
}

fn compiled(config: &Config) -> anyhow::Result<Policy> {
    Policy::compile(config).map_err(|mistakes| anyhow!("{mistakes:?}"))
}

fn check(Configured { config, mut warnings, around }: Configured, json: bool) -> Printed {
    warnings.extend(compiled(&config)?.overlaps().iter().map(overlap));
    warnings.extend(never::warnings(&config.documents, &around));
    let count: usize = config.documents.iter().map(|file| file.policies.len()).sum();
    let files = config.documents.len();
    let text = match json {
        true => json!({"problems": warnings, "policies": count, "files": files}).to_string(),
        false => {
            let warnings: String = warnings.iter().map(|warning| format!("{warning}\n")).collect();
            format!("{warnings}ok: {count} policies in {files} files")
        }
    };
    Ok((text, ExitCode::SUCCESS))
}

/// What there is to be said of a policy that puts values in and is got past.
fn overlap(found: &Overlap) -> Problem {
    let (path, line) = found.place.rsplit_once(':').unwrap_or((&found.place, ""));
    let place = Place::File { path: Arc::new(path.into()), line: line.parse().unwrap_or_default(), column: 0 };
    let (policy, other) = (&found.policy, &found.other);
    let what = format!(
        "policy {policy} puts values in with `set`, but policy {other} may allow the same calls as they are sent"
    );
    Problem::warning(place, "", what).hint(format!("narrow what {other} is about, or give it the same `set`"))
}

/// The folders of cases beside the policy files.
fn beside(config: &Config, cwd: &Path) -> Vec<PathBuf> {
    let folders = config.documents.iter().filter_map(|file| Some(cwd.join(&file.name).parent()?.join("cases")));
    let mut folders: Vec<PathBuf> = folders.chain([cwd.join("policies/cases")]).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// How one case went.
struct Tried {
    file: PathBuf,
    name: String,
    outcome: Option<Outcome>,
    differences: Vec<String>,
}

fn test(paths: &[PathBuf], cwd: &Path, around: &Surroundings, json: bool) -> Printed {
    let mut tried = Vec::new();
    for path in paths {
        let files = policies::files(&cwd.join(path)).map_err(|words| anyhow!("{}: {words}", path.display()))?;
        for file in files {
            tried.extend(run(&file, cwd, around)?);
        }
    }
    if tried.is_empty() {
        return Err(anyhow!("there are no cases; they belong into a folder `cases` beside the policy files"));
    }
    let failed = tried.iter().filter(|case| !case.differences.is_empty()).count();
    let code = if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let passed = tried.len() - failed;
    if json {
        let cases: Vec<Value> = tried.iter().map(as_json).collect();
        return Ok((serde_json::to_string_pretty(&json!({"passed": passed, "failed": failed, "cases": cases}))?, code));
    }
    let mut text = String::new();
    for case in tried.iter().filter(|case| !case.differences.is_empty()) {
        let _ = writeln!(text, "FAIL {}: {}", case.file.display(), case.name);
        for line in &case.differences {
            let _ = writeln!(text, "     {line}");
        }
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

/// The cases of one file against the policies that it names.
fn run(file: &Path, cwd: &Path, around: &Surroundings) -> anyhow::Result<Vec<Tried>> {
    let cases = policies::cases(file, cwd)?;
    let folder = file.parent().unwrap_or(cwd);
    let named: Vec<PathBuf> = match cases.policies.is_empty() {
        true => vec![tested(file)],
        false => cases.policies.iter().map(|name| folder.join(name)).collect(),
    };
    let config = policies::load(&named, cwd)?;
    let policy = compiled(&config)?;
    let name = file.strip_prefix(cwd).unwrap_or(file);
    let one = |case: &Case| {
        let mut misspelling = None;
        let find = |kind, name: &str, at: &str| {
            let asked = around.asked(kind, name, at)?;
            misspelling = misspelt(kind, &asked.own);
            Ok(asked)
        };
        let (outcome, differences) = match case.decide(&policy, find) {
            Ok(outcome) => {
                let hidden = |words| Outcome {
                    decision: Expect::Hidden,
                    rule: DEFAULT.to_owned(),
                    words: Some(words),
                    forwards: None,
                };
                let outcome = misspelling.map_or(outcome, hidden);
                (Some(outcome.clone()), case.differences(&outcome))
            }
            Err(words) => (None, vec![words]),
        };
        Tried { file: name.to_path_buf(), name: case.name.clone(), outcome, differences }
    };
    Ok(cases.cases.iter().map(one).collect())
}

/// What cases without a word of it test: the file of the same name in the folder above, or all files there.
fn tested(cases: &Path) -> PathBuf {
    let above = cases.parent().and_then(Path::parent).unwrap_or(cases);
    let same = cases.file_name().map(|name| above.join(name));
    same.filter(|path| path.is_file()).unwrap_or_else(|| above.to_path_buf())
}

fn told(explanation: &Explanation) -> String {
    let Explanation { decision, rule, words, forwards, policies, changes } = explanation;
    let mut text = format!("{decision}, by {rule}");
    if let Some(words) = words {
        let _ = write!(text, ": {words}");
    }
    if let Some(forwards) = forwards {
        let _ = write!(text, "\nthe server gets {forwards}");
    }
    text.push_str("\n\npolicies that concern it:");
    for step in policies {
        let dry = if step.dry_run { ", dry run" } else { "" };
        let _ = write!(text, "\n  {} ({}{dry}; {}) {}", step.policy, step.effect, step.place, step.says);
    }
    if policies.is_empty() {
        text.push_str("\n  none");
    }
    text.push_str("\n\nwhat would change the answer:");
    for change in changes {
        let _ = write!(text, "\n  {change}");
    }
    if changes.is_empty() {
        text.push_str("\n  no change to a single policy");
    }
    text
}
