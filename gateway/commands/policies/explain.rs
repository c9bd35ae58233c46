//! `lockgate policy explain`: explains the decision on a single call, as text or JSON.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::{ArgGroup, Args};
use lockgate_policy::cases::{Caller, Expect};
use lockgate_policy::{Annotations, DEFAULT, Explanation, Question, Target, TargetKind};

use super::lint_context::{Configured, Printed, compile, misspelt};

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
    #[arg(long, value_name = "JSON")]
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
    pub(super) policies: Vec<PathBuf>,
}

impl Explain {
    /// Returns the kind and name of the item in question.
    fn asked(&self) -> Option<(TargetKind, &str)> {
        let named = [
            (TargetKind::Tool, &self.call),
            (TargetKind::Prompt, &self.prompt),
            (TargetKind::Resource, &self.resource),
            (TargetKind::PromptCompletion, &self.completion),
            (TargetKind::ResourceCompletion, &self.template),
        ];
        named.into_iter().find_map(|(kind, name)| Some((kind, name.as_deref()?)))
    }

    pub(super) fn run(&self, configured: &Configured, json: bool) -> Printed {
        let Self { caller, arguments, at, category, annotations, .. } = self;
        let caller = Caller::parse(caller).map_err(|words| anyhow!("--as: {words}"))?;
        let (kind, name) = self.asked().context("specify a tool with --call")?;
        let asked = configured.context.asked(kind, name, at).map_err(anyhow::Error::msg)?;
        let annotations = match annotations {
            Some(text) => {
                Some(Annotations::of_tool(format!("{{\"annotations\":{text}}}").as_bytes()))
            }
            None => asked.annotations,
        };
        let target = Target {
            kind,
            server: &asked.server,
            organisation: None,
            exposed: &asked.exposed,
            own: &asked.own,
            category: category.as_deref().or(asked.category.as_deref()),
            annotations: annotations.unwrap_or_default(),
        };
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
