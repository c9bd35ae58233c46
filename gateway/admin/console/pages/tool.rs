//! One tool, with a form to try it: the call takes the path of every other call, in the visitor's
//! name.

use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::console::api_client::{ApiClient, ApiError, ApiPath};
use crate::console::call_outcome::{CallOutcome, Called};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, render, show};
use crate::console::fields::{Fields, FormFields};
use crate::console::layout::Layout;
use crate::console::shown::{show_json, show_text};
use crate::console::tool_form::{FieldKind, ToolField, make_fields, read_arguments};

/// A tool with what its arguments are.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ToolDefinition {
    name: String,
    server: String,
    title: Option<String>,
    description: Option<String>,
    input_schema: Value,
}

#[derive(Template)]
#[template(path = "tool.html")]
struct ToolPage<'a> {
    layout: &'a Layout,
    tool: &'a ToolDefinition,
    fields: &'a [ToolField],
    schema: String,
    outcome: Option<CallOutcome>,
}

/// One tool, with a form to try it.
pub(crate) async fn show_tool(
    layout: Layout,
    api: ApiClient,
    Path(name): Path<String>,
) -> PageResult {
    let tool = load_tool(&api, &name).await?;
    let fields = make_fields(&tool.input_schema, &Fields::default());
    show(&make_page(&layout, &tool, &fields, None))
}

/// Calls a tool with what was typed.
pub(crate) async fn try_tool(
    layout: Layout,
    api: ApiClient,
    Path(name): Path<String>,
    FormFields(typed): FormFields,
) -> PageResult {
    let tool = load_tool(&api, &name).await?;
    let mut fields = make_fields(&tool.input_schema, &typed);
    let Some(arguments) = read_arguments(&tool.input_schema, &mut fields) else {
        let page = make_page(&layout, &tool, &fields, None);
        return render(StatusCode::UNPROCESSABLE_ENTITY, &page);
    };
    let path = ApiPath::new(&["api", "tools", &name, "execute"])?;
    let outcome = match api.ask(&path, &json!({"arguments": arguments})).await {
        Ok(result) => {
            let outcome = CallOutcome::of_result(&result);
            explain_refusal(&api, &layout, &name, &arguments, outcome).await
        }
        Err(error) => {
            let is_operator = layout.is_operator();
            let server = &tool.server;
            let called = Called { server, name: &name, arguments: &arguments, is_operator };
            CallOutcome::of_error(&error, &called)
        }
    };
    show(&make_page(&layout, &tool, &fields, Some(outcome)))
}

/// A policy that refuses arguments does so as the tool would, for models to read. Whoever may have
/// decisions explained is told which of the two it was.
async fn explain_refusal(
    api: &ApiClient,
    layout: &Layout,
    name: &str,
    arguments: &Value,
    outcome: CallOutcome,
) -> CallOutcome {
    if !outcome.is_error() || !layout.is_operator() {
        return outcome;
    }
    let Ok(path) = ApiPath::new(&["api", "policies", "explain"]) else { return outcome };
    let question = json!({"call": name, "arguments": arguments});
    let explained: Result<Value, ApiError> = api.ask(&path, &question).await;
    match explained {
        Ok(explained) if explained["decision"] == "deny" => {
            outcome.refused_by_policy(name, arguments)
        }
        _ => outcome,
    }
}

async fn load_tool(api: &ApiClient, name: &str) -> Result<ToolDefinition, ApiError> {
    let mut tool: ToolDefinition = api.get(&ApiPath::new(&["api", "tools", name])?).await?;
    tool.description = tool.description.as_deref().map(show_text);
    Ok(tool)
}

fn make_page<'a>(
    layout: &'a Layout,
    tool: &'a ToolDefinition,
    fields: &'a [ToolField],
    outcome: Option<CallOutcome>,
) -> ToolPage<'a> {
    ToolPage { layout, tool, fields, schema: show_json(&tool.input_schema), outcome }
}
