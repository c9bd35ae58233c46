//! Decisions of the policies in force: their explanation, and tests of expected decisions. Nothing
//! is called and nothing is counted.

use lockgate_authn::{Identity, KEY, Principal};
use lockgate_policy::cases::{Caller as Subject, Case, find_asked};
use lockgate_policy::{DEFAULT, Explanation as Explained, Step, TargetKind};
use lockgate_proxy::transport::Endpoint;
use lockgate_proxy::{DecisionQuestion, TargetState, TooManyJudgements};
use lockgate_text::date;

use super::operation::*;

/// Maximum number of cases per request.
const MAX_CASES: usize = 200;

types! {
/// A request to explain: exactly one of `call`, `prompt`, `resource`, `completion` and `template`.
#[cfg_attr(test, schema(as = ExplainRequest))]
input pub(crate) struct Explain {
    /// The caller of the request: `issuer`, `subject`, `organisation`, `roles`, `scopes`, `agent`,
    /// `certificates`. Default: the caller of the API.
    #[serde(default, rename = "as")]
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    subject: Option<Subject>,
    /// Instead of `as`: the name or id of a key, or `issuer|subject` of a key or console session.
    /// Its organisation, roles and scopes apply.
    caller: Option<String>,
    /// The path of the endpoint. Default `/mcp`; for a key that was created for an agent, the
    /// agent's endpoint.
    at: Option<String>,
    /// A tool, as `server/tool` or by its name at `/mcp`.
    call: Option<String>,
    /// A prompt, as `server/prompt` or by its name at `/mcp`.
    prompt: Option<String>,
    /// A resource, as `server/uri`.
    resource: Option<String>,
    /// A prompt, for completion of its arguments.
    completion: Option<String>,
    /// A resource template, for completion of its variables.
    template: Option<String>,
    /// The arguments.
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    arguments: Option<Value>,
}

/// The explanation of a decision.
output pub(crate) struct Explanation {
    /// `allow`, `ask`, `deny` or `hidden`.
    pub(crate) decision: &'static str,
    /// The deciding policy, or `default`.
    pub(crate) rule: String,
    /// Whether the caller has a key or a console session. Other callers need a valid token.
    pub(crate) knows_caller: bool,
    /// The state of the called tool for the caller at the endpoint, regardless of policies:
    /// `known`, `unknown-endpoint`, `unknown-server`, `unknown-tool`, `unavailable`,
    /// `quarantined`, `unassigned` (the endpoint does not offer the server), `switched-off` (for
    /// the agent) or `missing-scope`. Calls reach only `known` tools.
    pub(crate) target: &'static str,
    /// The path of the endpoint.
    pub(crate) at: String,
    /// The caller of the explained request.
    #[cfg_attr(test, schema(value_type = Object))]
    pub(crate) caller: AskedCaller,
    pub(crate) words: Option<String>,
    /// The policies that apply to it, each with its effect.
    #[cfg_attr(test, schema(value_type = Vec<Object>))]
    pub(crate) policies: Vec<Step>,
    /// Changes that would change the decision.
    pub(crate) changes: Vec<String>,
}
}

/// The caller of an explained request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskedCaller {
    pub(crate) name: Option<String>,
    pub(crate) issuer: String,
    pub(crate) subject: String,
    pub(crate) organization_id: Option<String>,
    pub(crate) roles: Vec<String>,
    pub(crate) scopes: Vec<String>,
}

types! {
/// Cases as in the case files of policies: `name`, `as`, `call`, `arguments`, `expect`, …
#[cfg_attr(test, schema(as = CasesRequest))]
input pub(crate) struct Cases {
    #[cfg_attr(test, schema(value_type = Vec<Object>, max_items = 200))]
    cases: Vec<Case>,
}

/// The results of cases.
#[cfg_attr(test, schema(as = CasesResult))]
output pub(crate) struct Tested {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) cases: Vec<TestedCase>,
}

/// The result of a case.
#[cfg_attr(test, schema(as = CaseResult))]
output pub(crate) struct TestedCase {
    pub(crate) name: String,
    pub(crate) passed: bool,
    /// The differences from the case.
    pub(crate) differences: Vec<String>,
}
}

impl Explain {
    fn asked(&self) -> Result<(TargetKind, &str)> {
        let Self { call, prompt, resource, completion, template, .. } = self;
        find_asked([call, prompt, resource, completion, template]).ok_or_else(|| {
            Problem::in_body("", "name one of call, prompt, resource, completion and template")
        })
    }
}

/// Returns the caller of the explained request, out of the callers that are known by name.
fn find_subject(known: &[(String, Subject)], by: &Context, question: &Explain) -> Result<Subject> {
    if let Some(subject) = &question.subject {
        if question.caller.is_some() {
            return Err(Problem::in_body("/caller", "use either `caller` or `as`"));
        }
        check_subject(subject)?;
        return Ok(subject.clone());
    }
    let Some(wanted) = &question.caller else { return Ok(read_subject(&by.caller.principal)) };
    let mut found: Vec<&Subject> = Vec::new();
    for (name, subject) in known {
        let is_wanted = name == wanted
            || subject.subject == *wanted
            || format!("{}|{}", subject.issuer, subject.subject) == *wanted;
        if is_wanted && !found.iter().any(|one| is_same(one, subject)) {
            found.push(subject);
        }
    }
    let detail = match found.as_slice() {
        [one] => return Ok((*one).clone()),
        [] => {
            "no key and no console session has this name: use another name, or describe the caller"
                .to_owned()
        }
        all => format!("{} callers have this name: use the id of one of them", all.len()),
    };
    Err(Problem::in_body("/caller", detail))
}

/// Checks that a described caller has an issuer. The default issuer has a single subject.
fn check_subject(subject: &Subject) -> Result<()> {
    let local = Subject::default();
    let is_local = subject.issuer == local.issuer;
    if subject.issuer.is_empty() || is_local && subject.subject != local.subject {
        let detail = "a caller is identified by `issuer` and `subject`: add the issuer of its \
            token, or `key` for a key";
        return Err(Problem::in_body("/as/issuer", detail));
    }
    Ok(())
}

fn is_same(one: &Subject, other: &Subject) -> bool {
    one.issuer == other.issuer && one.subject == other.subject
}

/// Lists the caller of the API and all callers with a valid key or a console session, by name.
fn known_callers(by: &Context) -> Vec<(String, Subject)> {
    let Context { state, caller, .. } = by;
    let now = date::now();
    let own = read_subject(&caller.principal);
    let mut known = Vec::new();
    for key in &*state.operations.keys() {
        if key.revoked.is_some() || key.expires.is_some_and(|end| end <= now) {
            continue;
        }
        let roles = key.roles.iter().map(|role| role.as_str().into()).collect();
        let scopes = state.gateway.snapshot().authenticator.expand_scopes(&key.scopes).into_vec();
        let subject = Subject {
            issuer: KEY.to_owned(),
            subject: key.id.clone(),
            organisation: Some(key.organisation_or_default().to_owned()),
            roles,
            scopes,
            agent: key.agent.clone(),
            certificates: Vec::new(),
        };
        known.push((key.name.clone(), subject));
    }
    for session in state.sessions.list() {
        let subject = read_subject(&session.principal);
        if subject.issuer != KEY {
            known.push((subject.subject.clone(), subject));
        }
    }
    if own.issuer != KEY {
        known.push((own.subject.clone(), own));
    }
    known
}

/// Describes a caller for the response: its name and the properties that policies use.
fn describe_subject(known: &[(String, Subject)], subject: &Subject) -> AskedCaller {
    let name = known.iter().find(|(_, one)| is_same(one, subject)).map(|(name, _)| name);
    AskedCaller {
        name: name.cloned(),
        issuer: subject.issuer.clone(),
        subject: subject.subject.clone(),
        organization_id: subject.organisation.clone(),
        roles: list(&subject.roles),
        scopes: list(&subject.scopes),
    }
}

fn list(words: &[Arc<str>]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn read_subject(principal: &Principal) -> Subject {
    let organisation = Some(principal.organisation().to_owned());
    let agent = principal.agent.as_deref().map(str::to_owned);
    let certificate = principal.certificate();
    let certificates = certificate.map(|one| one.names.to_vec()).unwrap_or_default();
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

fn make_principal(subject: &Subject) -> Principal {
    let identity = Identity::new(&subject.issuer, &subject.subject);
    let mut identity = identity.in_organisation(subject.organisation.as_deref());
    identity.roles = subject.roles.clone().into();
    identity.scopes = subject.scopes.clone().into();
    identity.agent = subject.agent.as_deref().map(Into::into);
    Principal::new(identity)
}

pub(crate) async fn explain_decision(
    by: By<Operator>,
    Body(question): Body<Explain>,
) -> Result<Json<Explanation>> {
    let (kind, name) = question.asked()?;
    if question.arguments.as_ref().is_some_and(|arguments| !arguments.is_object()) {
        let detail = "must be an object with the arguments by name, as in a call";
        return Err(Problem::in_body("/arguments", detail));
    }
    let arguments = question.arguments.as_ref().map(ToString::to_string);
    let known = known_callers(&by);
    let subject = find_subject(&known, &by, &question)?;
    let shown = describe_subject(&known, &subject);
    // A caller that is described may have neither a key nor a session.
    let knows_caller = question.subject.is_none() || shown.name.is_some();
    let principal = make_principal(&subject);
    let at = match (&question.at, principal.only_agent()) {
        (Some(at), _) => at.clone(),
        (None, Some(agent)) => Endpoint::agent(agent).path().into_owned(),
        (None, None) => Endpoint::All.path().into_owned(),
    };
    let target = match kind {
        TargetKind::Tool => by.state.gateway.find_tool_state(&principal, &at, name),
        _ => TargetState::Known,
    };
    let asked =
        DecisionQuestion { kind, name: name.to_owned(), endpoint: at.clone(), subject, arguments };
    let explained = match by.state.gateway.explain(&by.caller.principal, asked).await {
        Ok(Ok(explained)) => explained,
        // The name does not exist, so policies cannot change the outcome.
        Ok(Err(_)) if target == TargetState::UnknownName => Explained {
            decision: "hidden",
            rule: DEFAULT.to_owned(),
            words: None,
            forwards: None,
            policies: Vec::new(),
            changes: Vec::new(),
        },
        Ok(Err(words)) => return Err(Problem::in_body("", words)),
        Err(busy) => return Err(overloaded(&busy)),
    };
    Ok(Json(Explanation {
        decision: explained.decision,
        rule: explained.rule,
        knows_caller,
        target: target.as_str(),
        at,
        caller: shown,
        words: explained.words,
        policies: explained.policies,
        changes: explained.changes,
    }))
}

pub(crate) async fn test_cases(
    by: By<Operator>,
    Body(Cases { cases }): Body<Cases>,
) -> Result<Json<Tested>> {
    if cases.len() > MAX_CASES {
        return Err(Problem::in_body("/cases", "has more than 200 cases: send them in parts"));
    }
    for (at, case) in cases.iter().enumerate() {
        check_subject(&case.subject).map_err(|problem| problem.within(&format!("/cases/{at}")))?;
    }
    let tried = by.state.gateway.try_cases(&by.caller.principal, cases).await;
    let tried = tried.map_err(|busy| overloaded(&busy))?;
    let cases = tried.into_iter().map(|(name, differences)| {
        let passed = differences.is_empty();
        TestedCase { name, passed, differences }
    });
    let cases: Vec<_> = cases.collect();
    let passed = cases.iter().filter(|case| case.passed).count();
    Ok(Json(Tested { passed, failed: cases.len() - passed, cases }))
}

fn overloaded(busy: &TooManyJudgements) -> Problem {
    Problem::overloaded(busy.to_string(), busy.retry_after.as_secs())
}
