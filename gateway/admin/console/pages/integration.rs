//! A server added by an organisation: edited, tested, enabled or disabled, and removed. Its
//! credential can be replaced and is never shown.

use askama::Template;
use axum::extract::Path;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::integrations::FormError;
use crate::console::api_client::{ApiClient, ApiError, ApiPath, List, sentence};
use crate::console::diagnosis::{Severity, find_cause, say_state};
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::fault::Fault;

/// An integration as returned by the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Integration {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) slug: String,
    pub(crate) server_url: Option<String>,
    auth_method: String,
    header_name: Option<String>,
    has_credentials: bool,
    pub(crate) enabled: bool,
    organization_id: String,
    version: i64,
    updated_at: String,
    pub(crate) state: String,
    pub(crate) fault: Option<Fault>,
    reason: String,
    /// Ids of the agents that a change would affect; set for dry runs.
    affected_agents: Vec<String>,
}

/// The result of a connection test.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Trial {
    valid: bool,
    fault: Option<Fault>,
    capabilities: Offered,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Offered {
    tools: usize,
    resources: usize,
    prompts: usize,
}

#[derive(Template)]
#[template(path = "integration.html")]
struct IntegrationPage<'a> {
    layout: &'a Layout,
    integration: Integration,
    /// The entered values, if any.
    typed: &'a Fields,
    mistake: FormError,
    /// The query for links within the same organisation.
    query: String,
}

#[derive(Template)]
#[template(path = "integration_delete.html")]
struct DeletePage<'a> {
    layout: &'a Layout,
    integration: Integration,
    query: String,
}

impl Integration {
    pub(crate) fn severity(&self) -> Severity {
        Severity::of(&self.state)
    }

    pub(crate) fn state_text(&self) -> &str {
        say_state(&self.state)
    }

    /// Returns the stage that failed; empty if none did.
    pub(crate) fn stage(&self) -> &str {
        self.fault.as_ref().map_or("", |fault| &fault.stage)
    }

    /// Returns the problem and its fix.
    pub(crate) fn cause(&self) -> String {
        match &self.fault {
            Some(fault) => format!("{} {} {}", fault.summary, fault.cause, fault.fix),
            None => sentence(find_cause(&self.reason)),
        }
    }

    pub(crate) fn address(&self, organisation: &str) -> String {
        ApiPath::link(&["console", "integrations", &self.id], organisation, "/console/servers")
    }
}

impl IntegrationPage<'_> {
    /// Returns the value of a form field: the entered value, or the stored value.
    fn value(&self, field: &str) -> &str {
        if self.typed.has(field) {
            return self.typed.get(field);
        }
        let integration = &self.integration;
        match field {
            "name" => &integration.name,
            "serverUrl" => integration.server_url.as_deref().unwrap_or(""),
            "authMethod" => &integration.auth_method,
            _ => integration.header_name.as_deref().unwrap_or(""),
        }
    }
}

/// Returns the integration of this slug in the named organisation, or in the visitor's.
pub(crate) async fn find_integration(
    api: &ApiClient,
    slug: &str,
    organisation: &str,
) -> Result<Option<Integration>, ApiError> {
    let path = ApiPath::new(&["api", "mcp-integrations"])?
        .with("limit", "200")
        .with("search", slug)
        .with("organizationId", organisation);
    let found: List<Integration> = api.get(&path).await?;
    Ok(found.items.into_iter().find(|integration| integration.slug == slug))
}

fn api_path(id: &str, rest: &[&str], query: &Fields) -> Result<ApiPath, ApiError> {
    let mut segments = vec!["api", "mcp-integrations", id];
    segments.extend(rest);
    Ok(ApiPath::new(&segments)?.with("organizationId", query.get("organisation")))
}

fn own_path(id: &str, query: &Fields) -> Result<ApiPath, ApiError> {
    let path = ApiPath::new(&["console", "integrations", id])?;
    Ok(path.with("organisation", query.get("organisation")))
}

fn write_query(query: &Fields) -> String {
    match query.get("organisation") {
        "" => String::new(),
        name => {
            let mut query = form_urlencoded::Serializer::for_suffix(String::from("?"), 1);
            query.append_pair("organisation", name).finish()
        }
    }
}

pub(crate) async fn show_integration(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
    QueryFields(query): QueryFields,
) -> PageResult {
    let integration: Integration = api.get(&api_path(&id, &[], &query)?).await?;
    show(&IntegrationPage {
        layout: &layout,
        integration,
        typed: &Fields::default(),
        mistake: FormError::default(),
        query: write_query(&query),
    })
}

/// Edits an integration, unless another administrator changed it since the form was opened.
pub(crate) async fn change_integration(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
    QueryFields(query): QueryFields,
    FormFields(typed): FormFields,
) -> PageResult {
    let path = api_path(&id, &[], &query)?;
    let body = write_patch(&typed);
    let version = typed.get("version");
    let error = match api.change(Method::PATCH, &path, Some(&body), Some(version)).await {
        Ok(_) => {
            let text = "The changes were saved.";
            return Ok(layout.redirect_with(own_path(&id, &query)?, Severity::Good, text));
        }
        Err(error) if error.is_of_form() => error,
        Err(error) => return Err(error.into()),
    };
    let integration: Integration = api.get(&path).await?;
    let is_outdated = error.status == StatusCode::PRECONDITION_FAILED;
    let mistake = if is_outdated {
        FormError::new(
            "",
            "Another administrator changed this server while you were editing. Your text is still \
             here: save again to replace their change.",
        )
    } else {
        FormError::from(error)
    };
    render(
        StatusCode::UNPROCESSABLE_ENTITY,
        &IntegrationPage {
            layout: &layout,
            integration,
            typed: &typed,
            mistake,
            query: write_query(&query),
        },
    )
}

/// Returns the entered values as the API expects them. An empty credential is left unchanged.
fn write_patch(typed: &Fields) -> Value {
    let mut patch = json!({"authMethod": typed.get("authMethod")});
    for field in ["name", "serverUrl", "headerName"] {
        if !typed.get(field).is_empty() {
            patch[field] = typed.get(field).into();
        }
    }
    let credentials = typed.get_exact("credentials");
    if !credentials.is_empty() {
        patch["credentials"] = credentials.into();
    }
    patch
}

/// Tests the connection to a stored server.
pub(crate) async fn try_integration(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
    QueryFields(query): QueryFields,
) -> PageResult {
    let path = api_path(&id, &["validate"], &query)?;
    let tried = api.change(Method::POST, &path, None, None).await?;
    let trial: Trial = serde_json::from_slice(&tried).unwrap_or_default();
    if trial.valid {
        // Connect at once, instead of at the next scheduled retry.
        let path = api_path(&id, &["reconnect"], &query)?;
        api.change(Method::POST, &path, None, None).await?;
    }
    let page = own_path(&id, &query)?;
    let Offered { tools, prompts, resources } = trial.capabilities;
    match trial.fault {
        None => {
            let text = format!(
                "Connection works: {tools} tools, {prompts} prompts and {resources} resources."
            );
            Ok(layout.redirect_with(page, Severity::Good, &text))
        }
        Some(fault) => {
            let Fault { stage, summary, cause, fix, .. } = fault;
            let text = format!("Connection failed at {stage}. {summary} {cause} {fix}");
            Ok(layout.redirect_with(page, Severity::Bad, &text))
        }
    }
}

pub(crate) async fn switch_integration(
    layout: Layout,
    api: ApiClient,
    Path((id, to)): Path<(String, String)>,
    QueryFields(query): QueryFields,
) -> PageResult {
    if !matches!(to.as_str(), "enable" | "disable") {
        return Err(PageError::not_found("A server is enabled or disabled, and nothing else."));
    }
    api.change(Method::POST, &api_path(&id, &[&to], &query)?, None, None).await?;
    let text = format!("The server was {to}d.");
    Ok(layout.redirect_with(own_path(&id, &query)?, Severity::Good, &text))
}

/// Asks for confirmation before an integration is removed, and lists the agents that lose it.
pub(crate) async fn show_deletion(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
    QueryFields(query): QueryFields,
) -> PageResult {
    let path = api_path(&id, &[], &query)?.with("dryRun", "true");
    let tried = api.change(Method::DELETE, &path, None, None).await?;
    let integration: Integration = serde_json::from_slice(&tried).unwrap_or_default();
    show(&DeletePage { layout: &layout, integration, query: write_query(&query) })
}

/// Removes an integration, also from all agents.
pub(crate) async fn delete_integration(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
    QueryFields(query): QueryFields,
    FormFields(fields): FormFields,
) -> PageResult {
    let path = api_path(&id, &[], &query)?;
    api.change(Method::DELETE, &path, None, Some(fields.get("version"))).await?;
    let page = match query.get("organisation") {
        "" => ApiPath::new(&["console", "servers"])?,
        name => ApiPath::new(&["console", "organisations", name])?,
    };
    Ok(layout.redirect_with(page, Severity::Good, "The server was removed."))
}
