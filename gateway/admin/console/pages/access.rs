//! Access: whether a caller may call a tool, and why. The address holds the question, so that it
//! can be shared. Test cases of policies run against the current policies: nothing is called.

use lockgate_authn::KEY;
use lockgate_text::json;

use super::*;
use crate::api::keys::list_visible;
use crate::api::page::{PageQuery, Query};
use crate::api::policies::{Explanation, Tested, explain_decision, test_cases};
use crate::api::sessions::list_sessions;

/// The fields of the question.
const LABELS: [(&str, &str); 4] =
    [("caller", "Caller"), ("call", "Tool"), ("arguments", "Arguments"), ("subject", "Subject")];

#[derive(Template)]
#[template(path = "access.html")]
struct AccessPage<'a> {
    visit: &'a Visit,
    /// Suggested callers.
    callers: Vec<String>,
    /// Agents, whose endpoints are suggested.
    agents: Vec<Agent>,
    explanation: Option<Explanation>,
    /// The caller has no key and no session, and was described instead.
    is_described: bool,
}

impl AccessPage<'_> {
    /// Returns the address of the page that creates a test case from the question.
    fn case_address(&self, decision: &str) -> String {
        let mut path = PagePath::new(&["access", "cases"]);
        let question = &self.visit.query;
        let arguments = if question.has("of") { "of" } else { "arguments" };
        for name in ["call", arguments, "at"] {
            path = path.with(name, question.get(name));
        }
        if let Some(explanation) = &self.explanation
            && (question.has("caller") || question.has("subject"))
        {
            let caller = &explanation.caller;
            path = path.with("issuer", &caller.issuer).with("subject", &caller.subject);
        }
        path.with("decision", decision).into_text()
    }
}

impl Explanation {
    /// Returns the outcome of a real call.
    fn verdict(&self) -> (Severity, &'static str) {
        use Severity::{Denied, Good, Off, Waiting};
        match (self.knows_caller, self.target, self.decision) {
            (_, "unknown-endpoint", _) => (Off, "Unknown endpoint: the caller cannot open it"),
            (_, "unassigned", _) => (Off, "Not assigned: this endpoint does not offer the server"),
            (_, "switched-off", _) => {
                (Off, "Switched off for the agent: not listed and not callable")
            }
            (_, "missing-scope", _) => {
                (Denied, "Denied: the credential lacks a scope for this tool")
            }
            (_, "unknown-server", _) => {
                (Off, "Unknown server: the call is refused as an unknown tool")
            }
            (_, "unknown-tool", _) => (Off, "Unknown tool: the call is refused"),
            (_, "quarantined", _) => (Waiting, "Hidden until the changed tool is approved"),
            (false, ..) => {
                (Off, "Unknown caller: the request is refused without a valid credential")
            }
            (_, "unavailable", "allow" | "ask") => {
                (Waiting, "Allowed, but the server is not available now")
            }
            (.., "allow") => (Good, "Allowed"),
            (.., "ask") => (Waiting, "Allowed after approval"),
            (.., "deny") => (Denied, "Denied"),
            _ => (Off, "Hidden: not listed and not callable"),
        }
    }

    /// Returns the endpoint, by the name of its agent if that is known.
    fn endpoint_text(&self, agents: &[Agent]) -> String {
        let mut known = agents.iter();
        match known.find(|agent| agent.path() == self.at) {
            Some(agent) => format!("the endpoint of {}", agent.name),
            None => self.at.clone(),
        }
    }
}

/// Maximum number of suggested callers.
const MAX_SUGGESTED: usize = 200;

/// Returns the names of active keys and of signed-in accounts.
async fn list_callers(visit: &Visit) -> Result<Vec<String>, Problem> {
    let mut keys = list_visible(&visit.by()?);
    keys.retain(|key| key.state == "active");
    let mut callers: Vec<_> = keys.into_iter().map(|key| key.name).collect();
    let Json(sessions) = list_sessions(visit.by()?, Query(PageQuery::default())).await?;
    let accounts = sessions.items.iter().filter(|session| session.issuer != KEY);
    callers.extend(accounts.map(|one| format!("{}|{}", one.issuer, one.subject)));
    callers.sort();
    callers.dedup();
    callers.truncate(MAX_SUGGESTED);
    Ok(callers)
}

/// Returns agents of the visitor's organisation; none while the store is unavailable.
async fn find_agents(visit: &Visit) -> Result<Vec<Agent>, Problem> {
    let found = list_agents(visit.by()?, query(&[("limit", "200")])?).await;
    Ok(found.map(|Json(found)| found.items).unwrap_or_default())
}

/// Adds the arguments of the visitor's call that the address names (`of`).
fn add_arguments(visit: &mut Visit) {
    match visit.find_kept(visit.query.get("of")) {
        Some(Kept::Call(call)) => visit.query.set("arguments", &call.form.arguments),
        _ if visit.query.has("of") => visit.query.set("unknown", "arguments"),
        _ => {}
    }
}

/// Shows the question, and the explanation once the form is sent.
pub(crate) async fn explain(mut visit: Visit) -> PageResult {
    add_arguments(&mut visit);
    let mut explanation = None;
    let mut is_described = false;
    if !visit.query.get("call").is_empty() {
        match ask(&visit).await {
            Ok((explained, described)) => {
                is_described = described;
                explanation = Some(explained);
            }
            Err(problem) => visit = visit.mistaken(problem, &LABELS)?,
        }
    }
    if !visit.mistake.elsewhere().is_empty() {
        visit.mistake = FormError::new("call", visit.mistake.words);
    }
    visit.show(&AccessPage {
        callers: list_callers(&visit).await?,
        agents: find_agents(&visit).await?,
        visit: &visit,
        explanation,
        is_described,
    })
}

/// Returns the explanation, and whether the caller was described, because it has no key and no
/// session.
async fn ask(visit: &Visit) -> Result<(Explanation, bool), Problem> {
    let question = &visit.query;
    let mut asked = write_question(question)?;
    let mut answer = explain_decision(visit.by()?, body(asked.clone())?).await;
    // The caller of a recorded call may have no key or session any more, or never had one.
    let is_unknown = matches!(&answer, Err(problem) if problem.pointer() == "/caller");
    let described = format!("{}|{}", question.get("issuer"), question.get("subject"));
    let is_described = is_unknown && question.get("caller") == described;
    if is_described {
        asked["caller"] = Value::Null;
        asked["as"] = describe_caller(question);
        answer = explain_decision(visit.by()?, body(asked)?).await;
    }
    let Json(mut explanation) = answer.map_err(|problem| match problem.pointer() {
        "/as/issuer" => problem.at("/subject"),
        _ => problem,
    })?;
    explanation.words = explanation.words.as_deref().map(sentence);
    Ok((explanation, is_described))
}

/// Fields that describe a caller, in addition to its subject.
const DESCRIBED: [&str; 4] = ["issuer", "organisation", "roles", "scopes"];

/// Returns the question in the format of the API. Without a caller it concerns the visitor.
fn write_question(question: &Fields) -> Result<Value, Problem> {
    let mut asked = json!({"call": question.get("call")});
    question.write(&mut asked, &["at", "caller"]);
    if !question.get("arguments").is_empty() {
        asked["arguments"] = json::from_str(question.get("arguments")).map_err(|error| {
            Problem::in_body("/arguments", format!("This must be JSON: {error}."))
        })?;
    }
    if !question.get("caller").is_empty() {
        return Ok(asked);
    }
    if !question.get("subject").is_empty() {
        asked["as"] = describe_caller(question);
    } else if question.has_any(&DESCRIBED) {
        let words = "Enter the subject of the caller, or clear the other fields.";
        return Err(Problem::in_body("/subject", words));
    }
    Ok(asked)
}

fn describe_caller(question: &Fields) -> Value {
    let mut described = json!({
        "issuer": question.get("issuer"),
        "subject": question.get("subject"),
        "roles": split_words(question.get("roles")),
        "scopes": split_words(question.get("scopes")),
    });
    question.write(&mut described, &["organisation"]);
    described
}

fn split_words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[derive(Template)]
#[template(path = "cases.html")]
struct CasesPage<'a> {
    visit: &'a Visit,
    typed: &'a str,
    tested: Option<Tested>,
}

/// Shows the form, with the case from the address.
pub(crate) async fn show_form(mut visit: Visit) -> PageResult {
    add_arguments(&mut visit);
    let call = if visit.query.has("call") { visit.query.get("call") } else { "server/tool" };
    let mut case = json!({"name": format!("{call} as it should be"), "call": call});
    visit.query.write(&mut case, &["at"]);
    if let Ok(arguments) = json::from_str::<Value>(visit.query.get("arguments")) {
        case["arguments"] = arguments;
    }
    if !visit.query.get("subject").is_empty() {
        case["as"] =
            json!({"issuer": visit.query.get("issuer"), "subject": visit.query.get("subject")});
    }
    let expected = if visit.query.has("decision") { visit.query.get("decision") } else { "deny" };
    case["expect"] = expected.into();
    let typed = serde_json::to_string_pretty(&json!([case])).unwrap_or_default();
    visit.show(&CasesPage { visit: &visit, typed: &typed, tested: None })
}

/// Runs the entered cases.
pub(crate) async fn try_cases(mut visit: Visit) -> PageResult {
    let mut tested = None;
    match json::from_str(visit.form.get_exact("cases")) {
        Ok(cases) => match run_cases(&visit, cases).await {
            Ok(done) => tested = Some(done),
            Err(problem) => visit = visit.mistaken(problem, &[])?,
        },
        Err(error) => {
            let words = format!("This must be a list of cases as JSON: {error}.");
            visit.mistake = FormError::new("", words);
        }
    }
    let typed = visit.form.get_exact("cases");
    visit.show(&CasesPage { visit: &visit, typed, tested })
}

async fn run_cases(visit: &Visit, cases: Value) -> Result<Tested, Problem> {
    Ok(test_cases(visit.by()?, body(json!({"cases": cases}))?).await?.0)
}
