//! Decisions of the policies in force: their explanation, and tests of expected decisions. Nothing
//! is called and nothing is counted.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lockgate_policy::TargetKind;
use lockgate_policy::cases::{Caller as Subject, Case};
use lockgate_proxy::{DecisionQuestion, TooManyJudgements};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::access::Caller;
use super::body::Body;
use super::problem::Problem;
use super::state::Shared;

/// Limit on the cases of a request.
const MAX_CASES: usize = 200;

/// A request to explain: exactly one of `call`, `prompt`, `resource`, `completion` and `template`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ExplainRequest)]
pub(crate) struct Explain {
    /// The caller of the request: `issuer`, `subject`, `organisation`, `roles`, `scopes`, `agent`,
    /// `certificates`. Default: the caller of the API.
    #[serde(default, rename = "as")]
    #[schema(value_type = Option<Object>)]
    subject: Option<Subject>,
    /// The path of the endpoint. Default `/mcp`.
    #[serde(default)]
    at: Option<String>,
    /// A tool, as `server/tool` or by its name at `/mcp`.
    #[serde(default)]
    call: Option<String>,
    /// A prompt, as `server/prompt` or by its name at `/mcp`.
    #[serde(default)]
    prompt: Option<String>,
    /// A resource, as `server/uri`.
    #[serde(default)]
    resource: Option<String>,
    /// A prompt, for completion of its arguments.
    #[serde(default)]
    completion: Option<String>,
    /// A resource template, for completion of its variables.
    #[serde(default)]
    template: Option<String>,
    /// The arguments.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    arguments: Option<Value>,
}

/// The explanation of a decision.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// `allow`, `ask`, `deny` or `hidden`.
    decision: &'static str,
    /// The deciding policy, or `default`.
    rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    /// The policies that apply to it, each with its effect.
    #[schema(value_type = Vec<Object>)]
    policies: Value,
    /// Changes that would change the decision.
    changes: Vec<String>,
}

/// Cases as in the case files of policies: `name`, `as`, `call`, `arguments`, `expect`, …
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CasesRequest)]
pub(crate) struct Cases {
    #[schema(value_type = Vec<Object>, max_items = 200)]
    cases: Vec<Case>,
}

/// The results of cases.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CasesResult)]
pub(crate) struct Tested {
    passed: usize,
    failed: usize,
    cases: Vec<TestedCase>,
}

/// The result of a case.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CaseResult)]
pub(crate) struct TestedCase {
    name: String,
    passed: bool,
    /// The differences from the case.
    differences: Vec<String>,
}

impl Explain {
    fn asked(&self) -> Result<(TargetKind, &str), Problem> {
        let named = [
            (TargetKind::Tool, &self.call),
            (TargetKind::Prompt, &self.prompt),
            (TargetKind::Resource, &self.resource),
            (TargetKind::PromptCompletion, &self.completion),
            (TargetKind::ResourceCompletion, &self.template),
        ];
        let mut given = Vec::new();
        for (kind, name) in named {
            if let Some(name) = name {
                given.push((kind, name.as_str()));
            }
        }
        match given.as_slice() {
            [one] => Ok(*one),
            _ => {
                let detail = "name one of call, prompt, resource, completion and template";
                Err(Problem::in_body("", detail))
            }
        }
    }
}

fn own_subject(caller: &Caller) -> Subject {
    let principal = &caller.principal;
    let organisation = Some(principal.organisation().to_owned());
    let agent = principal.agent.as_deref().map(str::to_owned);
    let certificates = match principal.certificate() {
        Some(certificate) => certificate.names.to_vec(),
        None => Vec::new(),
    };
    Subject {
        issuer: principal.issuer.to_string(),
        subject: principal.subject.to_string(),
        organisation,
        roles: principal.roles.to_vec(),
        scopes: principal.scopes.to_vec(),
        agent,
        certificates,
    }
}

/// Returns the policies that decide on a request, and changes that would change the decision.
#[utoipa::path(
    post,
    path = "/policies/explain",
    tag = "policies",
    request_body = Explain,
    responses((status = 200, body = Explanation), (status = 400, description = "A mistake"))
)]
pub(crate) async fn explain_decision(
    State(state): Shared,
    caller: Caller,
    Body(question): Body<Explain>,
) -> Result<Json<Explanation>, Problem> {
    let (kind, name) = question.asked()?;
    let arguments = question.arguments.as_ref().map(ToString::to_string);
    let subject = match &question.subject {
        Some(subject) => subject.clone(),
        None => own_subject(&caller),
    };
    let asked = DecisionQuestion {
        kind,
        name: name.to_owned(),
        endpoint: question.at.as_deref().unwrap_or("/mcp").to_owned(),
        subject,
        arguments,
    };
    let explained = state.gateway.explain(&caller.principal, asked).await;
    let explained = match explained {
        Ok(Ok(explained)) => explained,
        Ok(Err(words)) => return Err(Problem::in_body("", words)),
        Err(busy) => return Err(overloaded(&busy)),
    };
    Ok(Json(Explanation {
        decision: explained.decision,
        rule: explained.rule,
        words: explained.words,
        policies: serde_json::to_value(&explained.policies).unwrap_or(Value::Null),
        changes: explained.changes,
    }))
}

/// Tests cases against the policies in force.
#[utoipa::path(
    post,
    path = "/policies/test",
    tag = "policies",
    request_body = Cases,
    responses((status = 200, body = Tested), (status = 400, description = "A mistake"))
)]
pub(crate) async fn test_cases(
    State(state): Shared,
    caller: Caller,
    Body(Cases { cases }): Body<Cases>,
) -> Result<Json<Tested>, Problem> {
    if cases.len() > MAX_CASES {
        return Err(Problem::in_body("/cases", "has more than 200 cases: send them in parts"));
    }
    let tried = state.gateway.try_cases(&caller.principal, cases).await;
    let tried = match tried {
        Ok(tried) => tried,
        Err(busy) => return Err(overloaded(&busy)),
    };
    let mut tested = Tested { passed: 0, failed: 0, cases: Vec::new() };
    for (name, differences) in tried {
        let passed = differences.is_empty();
        if passed {
            tested.passed += 1
        } else {
            tested.failed += 1
        }
        tested.cases.push(TestedCase { name, passed, differences });
    }
    Ok(Json(tested))
}

fn overloaded(busy: &TooManyJudgements) -> Problem {
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", busy.to_string());
    problem.retry_after(busy.retry_after.as_secs())
}
