//! Test cases of policies, run against the current policies. Nothing is called or stored.

use askama::Template;
use axum::Json;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::body::body;
use crate::api::policies::{Tested, test_cases};
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, render, show};
use crate::console::fields::{FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::fault::sentence;

#[derive(Template)]
#[template(path = "cases.html")]
struct CasesPage<'a> {
    layout: &'a Layout,
    typed: &'a str,
    mistake: &'a str,
    tested: Option<Tested>,
}

/// Shows the form, with the case from the address.
pub(crate) async fn show_form(layout: Layout, QueryFields(fields): QueryFields) -> PageResult {
    let call = if fields.has("call") { fields.get("call") } else { "server/tool" };
    let mut case = json!({"name": format!("{call} as it should be"), "call": call});
    if !fields.get("at").is_empty() {
        case["at"] = fields.get("at").into();
    }
    let arguments = serde_json::from_str::<Value>(fields.get("arguments"));
    if let Ok(arguments) = arguments {
        case["arguments"] = arguments;
    }
    if !fields.get("subject").is_empty() {
        case["as"] = json!({"issuer": fields.get("issuer"), "subject": fields.get("subject")});
    }
    let expected = if fields.has("decision") { fields.get("decision") } else { "deny" };
    case["expect"] = expected.into();
    let typed = serde_json::to_string_pretty(&json!([case])).unwrap_or_default();
    show(&CasesPage { layout: &layout, typed: &typed, mistake: "", tested: None })
}

/// Runs the entered cases.
pub(crate) async fn try_cases(
    layout: Layout,
    api: Api,
    FormFields(fields): FormFields,
) -> PageResult {
    let typed = fields.get_exact("cases");
    let cases: Value = match serde_json::from_str(typed) {
        Ok(cases) => cases,
        Err(error) => {
            let mistake = format!("This must be a list of cases as JSON: {error}.");
            return refuse(&layout, typed, &mistake);
        }
    };
    let tested = match body(json!({"cases": cases})) {
        Ok(cases) => test_cases(api.by()?, cases).await,
        Err(problem) => Err(problem),
    };
    match tested {
        Ok(Json(tested)) => {
            show(&CasesPage { layout: &layout, typed, mistake: "", tested: Some(tested) })
        }
        Err(problem) if problem.is_of_form() => refuse(&layout, typed, &sentence(problem.detail())),
        Err(problem) => Err(problem.into()),
    }
}

/// Shows the form again with the mistake.
fn refuse(layout: &Layout, typed: &str, mistake: &str) -> PageResult {
    let page = CasesPage { layout, typed, mistake, tested: None };
    render(StatusCode::UNPROCESSABLE_ENTITY, &page)
}
