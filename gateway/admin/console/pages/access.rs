//! Access: may somebody call something, and why not. The question is in the address, so that it can
//! be sent to a colleague.

use askama::Template;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::console::api_client::{ApiClient, ApiPath, sentence};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, render, show};
use crate::console::fields::{Fields, QueryFields};
use crate::console::layout::Layout;

/// An explanation as the API gives it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Explanation {
    decision: String,
    rule: String,
    words: Option<String>,
    policies: Vec<PolicyWord>,
    changes: Vec<String>,
}

/// What one policy says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PolicyWord {
    policy: String,
    place: String,
    effect: String,
    dry_run: bool,
    says: String,
}

#[derive(Template)]
#[template(path = "access.html")]
struct AccessPage<'a> {
    layout: &'a Layout,
    question: &'a Fields,
    /// Why the question is none, beside the field that it is about.
    mistake: &'a str,
    arguments_mistake: &'a str,
    explanation: Option<Explanation>,
}

impl AccessPage<'_> {
    /// The page that makes a test case of the question.
    fn case_address(&self, decision: &str) -> String {
        let Ok(mut path) = ApiPath::new(&["console", "access", "cases"]) else {
            return String::new();
        };
        for name in ["call", "arguments", "issuer", "subject"] {
            path = path.with(name, self.question.get(name));
        }
        path.with("decision", decision).as_str().to_owned()
    }
}

impl Explanation {
    fn headline(&self) -> &'static str {
        match self.decision.as_str() {
            "allow" => "Allowed",
            "ask" => "Allowed, once somebody approves it",
            "deny" => "Denied",
            _ => "Hidden: it is neither listed nor callable",
        }
    }

    fn severity(&self) -> Severity {
        match self.decision.as_str() {
            "allow" => Severity::Good,
            "ask" => Severity::Waiting,
            "deny" => Severity::Bad,
            _ => Severity::Off,
        }
    }
}

/// The question, and its answer once there is one.
pub(crate) async fn explain(
    layout: Layout,
    api: ApiClient,
    QueryFields(question): QueryFields,
) -> PageResult {
    let mut page = AccessPage {
        layout: &layout,
        question: &question,
        mistake: "",
        arguments_mistake: "",
        explanation: None,
    };
    if question.get("call").is_empty() {
        return show(&page);
    }
    let asked = match write_question(&question) {
        Ok(asked) => asked,
        Err(mistake) => {
            page.arguments_mistake = &mistake;
            return render(StatusCode::UNPROCESSABLE_ENTITY, &page);
        }
    };
    let answer = api.ask(&ApiPath::new(&["api", "policies", "explain"])?, &asked).await;
    match answer {
        Ok(explanation) => page.explanation = Some(explanation),
        Err(error) if error.is_of_form() => {
            let mistake = sentence(&error.detail);
            page.mistake = &mistake;
            return render(StatusCode::UNPROCESSABLE_ENTITY, &page);
        }
        Err(error) => return Err(error.into()),
    }
    show(&page)
}

/// The question as the API takes it; without a subject it is about the visitor.
fn write_question(question: &Fields) -> Result<Value, String> {
    let mut asked = json!({"call": question.get("call")});
    let arguments = question.get("arguments");
    if !arguments.is_empty() {
        let arguments: Result<Value, _> = serde_json::from_str(arguments);
        asked["arguments"] = arguments.map_err(|error| format!("This must be JSON: {error}."))?;
    }
    if !question.get("subject").is_empty() {
        asked["as"] = json!({
            "issuer": question.get("issuer"),
            "subject": question.get("subject"),
            "roles": split_words(question.get("roles")),
            "scopes": split_words(question.get("scopes")),
        });
        let organisation = question.get("organisation");
        if !organisation.is_empty() {
            asked["as"]["organisation"] = organisation.into();
        }
    }
    Ok(asked)
}

fn split_words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}
