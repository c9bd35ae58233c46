//! Access: whether a caller may call a tool, and why. The address holds the question, so that it
//! can be shared. Test cases of policies run against the current policies: nothing is called.

use lockgate_authn::KEY;
use lockgate_text::json;

use super::*;
use crate::api::keys::list_visible;
use crate::api::page::{PageQuery, Query};
use crate::api::policies::{AskedCaller, Explanation, Tested, explain_decision, test_cases};
use crate::api::sessions::list_sessions;

/// The fields of the question.
const LABELS: [(&str, &str); 3] =
    [("caller", "Caller"), ("call", "Tool"), ("arguments", "Arguments")];

#[derive(Template)]
#[template(path = "access.html")]
struct AccessPage<'a> {
    visit: &'a Visit,
    question: &'a Fields,
    mistake: FormError,
    /// Suggested callers.
    callers: Vec<String>,
    /// Agents, whose endpoints are suggested.
    agents: Vec<Agent>,
    explanation: Option<Explanation>,
    /// The caller has no key and no session, and was described instead.
    is_described: bool,
}

impl AccessPage<'_> {
    /// Returns a sentence about arguments that the record of a call does not contain.
    fn unknown_arguments(&self) -> &'static str {
        match self.question.get("unknown") {
            "arguments" => {
                "The record has no arguments. Enter those of the call: without them, policies with \
                 conditions on arguments may decide otherwise."
            }
            "secrets" => "The record has the arguments without secrets.",
            _ => "",
        }
    }

    /// Returns a sentence about a caller that has no key and no session.
    fn described_text(&self) -> &'static str {
        if self.question.get("issuer") == KEY {
            "This key is revoked, expired or gone: enter its roles and scopes under “Describe \
             another caller”."
        } else {
            "No session is open for this identity: enter the roles and scopes of its token under \
             “Describe another caller”."
        }
    }

    fn arguments_hint(&self) -> &'static str {
        if self.unknown_arguments().is_empty() { "" } else { "arguments-hint" }
    }

    /// Returns the address of the page that creates a test case from the question.
    fn case_address(&self, decision: &str) -> String {
        let mut path = PagePath::new(&["access", "cases"]);
        for name in ["call", "arguments", "at"] {
            path = path.with(name, self.question.get(name));
        }
        if let Some(explanation) = &self.explanation
            && (self.question.has("caller") || self.question.has("subject"))
        {
            let caller = &explanation.caller;
            path = path.with("issuer", &caller.issuer).with("subject", &caller.subject);
        }
        path.with("decision", decision).into_text()
    }
}

impl AskedCaller {
    fn text(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => format!("{}|{}", self.issuer, self.subject),
        }
    }
}

impl Explanation {
    /// Returns the outcome of a real call.
    fn headline(&self) -> &'static str {
        match (self.knows_caller, self.target, self.decision) {
            (_, "unknown-endpoint", _) => "Unknown endpoint: the caller cannot open it",
            (_, "unassigned", _) => "Not assigned: this endpoint does not offer the server",
            (_, "switched-off", _) => "Switched off for the agent: not listed and not callable",
            (_, "missing-scope", _) => "Denied: the credential lacks a scope for this tool",
            (_, "unknown-server", _) => "Unknown server: the call is refused as an unknown tool",
            (_, "unknown-tool", _) => "Unknown tool: the call is refused",
            (_, "quarantined", _) => "Hidden until the changed tool is approved",
            (false, ..) => "Unknown caller: the request is refused without a valid credential",
            (_, "unavailable", "allow" | "ask") => "Allowed, but the server is not available now",
            (.., "allow") => "Allowed",
            (.., "ask") => "Allowed after approval",
            (.., "deny") => "Denied",
            _ => "Hidden: not listed and not callable",
        }
    }

    /// Returns the decision of the policies alone, if it does not determine the outcome of a call.
    fn policy_headline(&self) -> Option<&'static str> {
        let is_answer = self.knows_caller && self.target == "known";
        (!is_answer).then_some(match self.decision {
            "allow" => "The policies alone would allow it.",
            "ask" => "The policies alone would ask for approval.",
            "deny" => "The policies deny it as well.",
            _ => "The policies hide it as well.",
        })
    }

    /// Returns the endpoint, by the name of its agent if that is known.
    fn endpoint_text(&self, agents: &[Agent]) -> String {
        let mut known = agents.iter();
        match known.find(|agent| agent.path() == self.at) {
            Some(agent) => format!("the endpoint of {}", agent.name),
            None => self.at.clone(),
        }
    }

    fn severity(&self) -> Severity {
        match (self.knows_caller, self.target, self.decision) {
            (_, "missing-scope", _) => Severity::Denied,
            (_, "unknown-endpoint" | "unassigned" | "switched-off", _) => Severity::Off,
            (_, "unknown-server" | "unknown-tool", _) | (false, ..) => Severity::Off,
            (_, "quarantined" | "unavailable", _) => Severity::Waiting,
            (.., "allow") => Severity::Good,
            (.., "ask") => Severity::Waiting,
            (.., "deny") => Severity::Denied,
            _ => Severity::Off,
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

/// Shows the question, and the explanation once the form is sent.
pub(crate) async fn explain(visit: Visit) -> PageResult {
    let mut page = AccessPage {
        visit: &visit,
        question: &visit.query,
        mistake: FormError::default(),
        callers: list_callers(&visit).await?,
        agents: find_agents(&visit).await?,
        explanation: None,
        is_described: false,
    };
    if visit.query.get("call").is_empty() {
        return show(&page);
    }
    let mut asked = match write_question(&visit.query) {
        Ok(asked) => asked,
        Err(mistake) => {
            page.mistake = mistake;
            return render(page.mistake.status(), &page);
        }
    };
    let mut answer = ask(&visit, &asked).await;
    // The caller of a recorded call may have no key or session any more, or never had one.
    if matches!(&answer, Err(problem) if problem.pointer() == "/caller")
        && visit.query.get("caller") == described_name(&visit.query)
    {
        asked["caller"] = Value::Null;
        asked["as"] = describe_caller(&visit.query);
        page.is_described = true;
        answer = ask(&visit, &asked).await;
    }
    match answer {
        Ok(mut explanation) => {
            explanation.words = explanation.words.as_deref().map(sentence);
            page.explanation = Some(explanation);
        }
        Err(problem) => {
            let is_described = problem.pointer() == "/as/issuer";
            page.mistake = FormError::read(problem, &LABELS)?;
            if !page.mistake.elsewhere().is_empty() {
                let field = if is_described { "subject" } else { "call" };
                page.mistake = FormError::new(field, page.mistake.words);
            }
        }
    }
    render(page.mistake.status(), &page)
}

async fn ask(visit: &Visit, asked: &Value) -> Result<Explanation, Problem> {
    Ok(explain_decision(visit.by()?, body(asked.clone())?).await?.0)
}

/// Fields that describe a caller, in addition to its subject.
const DESCRIBED: [&str; 4] = ["issuer", "organisation", "roles", "scopes"];

/// Returns the question in the format of the API. Without a caller it concerns the visitor.
fn write_question(question: &Fields) -> Result<Value, FormError> {
    let mut asked = json!({"call": question.get("call")});
    question.write(&mut asked, &["at", "caller"]);
    if !question.get("arguments").is_empty() {
        let arguments: Result<Value, _> = json::from_str(question.get("arguments"));
        asked["arguments"] = arguments
            .map_err(|error| FormError::new("arguments", format!("This must be JSON: {error}.")))?;
    }
    if !question.get("caller").is_empty() {
        return Ok(asked);
    }
    if !question.get("subject").is_empty() {
        asked["as"] = describe_caller(question);
    } else if DESCRIBED.iter().any(|name| !question.get(name).is_empty()) {
        let words = "Enter the subject of the caller, or clear the other fields.";
        return Err(FormError::new("subject", words));
    }
    Ok(asked)
}

fn described_name(question: &Fields) -> String {
    format!("{}|{}", question.get("issuer"), question.get("subject"))
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
    mistake: FormError,
    tested: Option<Tested>,
}

/// Shows the form, with the case from the address.
pub(crate) async fn show_form(visit: Visit) -> PageResult {
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
    show(&CasesPage { visit: &visit, typed: &typed, mistake: FormError::default(), tested: None })
}

/// Runs the entered cases.
pub(crate) async fn try_cases(visit: Visit) -> PageResult {
    let typed = visit.form.get_exact("cases");
    let mut page = CasesPage { visit: &visit, typed, mistake: FormError::default(), tested: None };
    match json::from_str(typed) {
        Ok(cases) => match run_cases(&visit, cases).await {
            Ok(tested) => page.tested = Some(tested),
            Err(problem) => page.mistake = FormError::read(problem, &[])?,
        },
        Err(error) => {
            let words = format!("This must be a list of cases as JSON: {error}.");
            page.mistake = FormError::new("", words);
        }
    }
    render(page.mistake.status(), &page)
}

async fn run_cases(visit: &Visit, cases: Value) -> Result<Tested, Problem> {
    Ok(test_cases(visit.by()?, body(json!({"cases": cases}))?).await?.0)
}
