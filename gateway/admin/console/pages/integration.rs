//! A server added by an organisation: edited, tested, enabled or disabled, and removed. Its
//! credential can be replaced and is never shown.

use askama::Template;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::Offered;
use crate::api::access::{By, LeastRole};
use crate::api::agents::name_agents;
use crate::api::answer::broken;
use crate::api::body::body;
use crate::api::change::Deletion;
use crate::api::integrations::{self, Integration};
use crate::api::page::query;
use crate::api::problem::Problem;
use crate::console::diagnosis::{Severity, find_cause, say_server_state};
use crate::console::form::{Fields, FormError};
use crate::console::redirect::PagePath;
use crate::console::render::{PageError, PageResult, render, show};
use crate::console::visit::Visit;
use crate::fault::{Fault, sentence};

#[derive(Template)]
#[template(path = "integration.html")]
struct IntegrationPage<'a> {
    visit: &'a Visit,
    integration: Integration,
    /// The entered values, if any.
    typed: &'a Fields,
    mistake: FormError,
}

#[derive(Template)]
#[template(path = "integration_delete.html")]
struct DeletePage<'a> {
    visit: &'a Visit,
    integration: Integration,
    /// Ids and names of the agents that lose it.
    agents: Vec<(String, String)>,
    /// The visitor has pages of these agents: they are of its own organisation.
    has_pages: bool,
}

impl Integration {
    pub(crate) fn severity(&self) -> Severity {
        Severity::of_server(self.state, self.fault.as_ref())
    }

    pub(crate) fn state_text(&self) -> &str {
        say_server_state(self.state, self.fault.as_ref())
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
        let path = PagePath::new(&["console", "integrations", &self.id]);
        path.with("organisation", organisation).into_text()
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
            "authMethod" => integration.auth_method,
            _ => integration.header_name.as_deref().unwrap_or(""),
        }
    }
}

/// Returns the integration of this slug in the visitor's organisation.
pub(crate) async fn find_integration(
    visit: &Visit,
    slug: &str,
) -> Result<Option<Integration>, Problem> {
    let filter = query(&[("limit", "200"), ("search", slug)])?;
    let Json(found) = integrations::list_integrations(visit.by()?, filter).await?;
    Ok(found.items.into_iter().find(|integration| integration.slug == slug))
}

fn own_path(id: &str, visit: &Visit) -> PagePath {
    let path = PagePath::new(&["console", "integrations", id]);
    path.with("organisation", visit.query.get("organisation"))
}

/// Returns the visitor in the organisation of the address.
async fn act<R: LeastRole>(visit: &Visit) -> Result<By<R>, Problem> {
    visit.by_in(visit.query.get("organisation")).await
}

async fn load(visit: &Visit, id: &str) -> Result<Integration, Problem> {
    let by = act(visit).await?;
    Ok(integrations::show_integration(by, Path(id.to_owned())).await?.value)
}

pub(crate) async fn show_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    let integration = load(&visit, &id).await?;
    show(&IntegrationPage {
        visit: &visit,
        integration,
        typed: &Fields::default(),
        mistake: FormError::default(),
    })
}

/// Edits an integration, unless another administrator changed it since the form was opened.
pub(crate) async fn change_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = act(&visit).await?.expecting(visit.form.get("version"))?;
    let changed = match body(write_patch(&visit.form)) {
        Ok(patch) => integrations::change_integration(by, Path(id.clone()), patch).await,
        Err(problem) => Err(problem),
    };
    let problem = match changed {
        Ok(_) => {
            let text = "The changes were saved.";
            return Ok(visit.redirect_with(own_path(&id, &visit), Severity::Good, text));
        }
        Err(problem) if problem.is_of_form() => problem,
        Err(problem) => return Err(problem.into()),
    };
    let integration = load(&visit, &id).await?;
    let is_outdated = problem.status() == StatusCode::PRECONDITION_FAILED;
    let mistake = if is_outdated {
        FormError::new(
            "",
            "Another administrator changed this server while you were editing. Your text is still \
             here: save again to replace their change.",
        )
    } else {
        FormError::from(problem)
    };
    render(
        StatusCode::UNPROCESSABLE_ENTITY,
        &IntegrationPage { visit: &visit, integration, typed: &visit.form, mistake },
    )
}

/// Returns the entered values as the API expects them. An empty credential is left unchanged.
fn write_patch(typed: &Fields) -> Value {
    let mut patch = json!({});
    typed.write(&mut patch, &["name", "serverUrl", "authMethod", "headerName"]);
    typed.write_exact(&mut patch, "credentials");
    patch
}

/// Tests the connection to a stored server.
pub(crate) async fn try_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = act(&visit).await?;
    let Json(trial) = integrations::validate_integration(by, Path(id.clone())).await?;
    if trial.valid {
        // Connect at once, instead of at the next scheduled retry.
        let by = act(&visit).await?;
        let Json(_) = integrations::reconnect_integration(by, Path(id.clone())).await?;
    }
    let page = own_path(&id, &visit);
    let Offered { tools, prompts, resources } = trial.capabilities;
    match trial.fault {
        None => {
            let text = format!(
                "Connection works: {tools} tools, {prompts} prompts and {resources} resources."
            );
            Ok(visit.redirect_with(page, Severity::Good, &text))
        }
        Some(fault) => {
            let Fault { stage, summary, cause, fix, .. } = fault;
            let text = format!("Connection failed at {stage}. {summary} {cause} {fix}");
            Ok(visit.redirect_with(page, Severity::Bad, &text))
        }
    }
}

pub(crate) async fn switch_integration(
    visit: Visit,
    Path((id, to)): Path<(String, String)>,
) -> PageResult {
    let by = act(&visit).await?;
    match to.as_str() {
        "enable" => integrations::enable_integration(by, Path(id.clone())).await?,
        "disable" => integrations::disable_integration(by, Path(id.clone())).await?,
        _ => {
            let detail = "A server is enabled or disabled, and nothing else.";
            return Err(PageError::not_found(detail));
        }
    };
    let text = format!("The server was {to}d.");
    Ok(visit.redirect_with(own_path(&id, &visit), Severity::Good, &text))
}

/// Asks for confirmation before an integration is removed, and lists the agents that lose it.
pub(crate) async fn show_deletion(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = act(&visit).await?.trying();
    let Deletion(integration) = integrations::delete_integration(by, Path(id)).await?;
    let mut integration = integration.ok_or_else(broken)?;
    let affected = integration.affected_agents.take().unwrap_or_default();
    let agents = name_agents(&act(&visit).await?, affected)?;
    let organisation = visit.query.get("organisation");
    let is_own = matches!(&visit.who, Some(who) if who.organisation == organisation);
    let has_pages = organisation.is_empty() || is_own;
    show(&DeletePage { visit: &visit, integration, agents, has_pages })
}

/// Removes an integration, also from all agents.
pub(crate) async fn delete_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = act(&visit).await?.expecting(visit.form.get("version"))?;
    integrations::delete_integration(by, Path(id)).await?;
    let page = match visit.query.get("organisation") {
        "" => PagePath::new(&["console", "servers"]),
        name => PagePath::new(&["console", "organisations", name]),
    };
    Ok(visit.redirect_with(page, Severity::Good, "The server was removed."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_integration_that_fails_is_not_good() {
        let mut integration = Integration {
            id: "int_1".to_owned(),
            name: "Search".to_owned(),
            r#type: "custom",
            slug: "search".to_owned(),
            server_url: None,
            predefined: None,
            source: None,
            auth_method: "none",
            header_name: None,
            has_credentials: false,
            enabled: true,
            organization_id: "acme".to_owned(),
            version: 1,
            created_at: String::new(),
            updated_at: String::new(),
            state: "resting",
            stage: None,
            reason: String::new(),
            fault: None,
            warnings: Vec::new(),
            dry_run: false,
            affected_agents: None,
            has_server: true,
        };
        assert_eq!((integration.severity(), integration.state_text()), (Severity::Good, "idle"));
        integration.fault = Some(Fault::new("call", "search", "", "it is so"));
        let shown = (integration.severity(), integration.state_text());
        assert_eq!(shown, (Severity::Bad, "calls fail"));
    }
}
