//! A server added by an organisation: edited, tested, enabled or disabled, and removed. Its
//! credential can be replaced and is never shown.

use super::integrations::{AUTH_METHODS, LABELS};
use super::*;
use crate::api::Offered;
use crate::api::agents::name_agents;
use crate::api::answer::broken;
use crate::api::change::Deletion;
use crate::api::integrations;
use crate::console::diagnosis::{find_cause, say_server_state};

/// The fields of the form.
const FIELDS: [(&str, &str); 6] =
    [LABELS[0], LABELS[1], LABELS[2], LABELS[3], LABELS[4], ("credentials", "New key or token")];

#[derive(Template)]
#[template(path = "integration.html")]
struct IntegrationPage<'a> {
    visit: &'a Visit,
    integration: Integration,
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
        let path = PagePath::new(&["integrations", &self.id]);
        path.with("organisation", organisation).into_text()
    }
}

impl IntegrationPage<'_> {
    /// Returns the value of a form field: the entered value, or the stored value.
    fn value(&self, field: &str) -> &str {
        if self.visit.form.has(field) {
            return self.visit.form.get(field);
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
    let path = PagePath::new(&["integrations", id]);
    path.with("organisation", visit.query.get("organisation"))
}

async fn show_page(visit: &Visit, id: &str, mistake: FormError) -> PageResult {
    let by = visit.by_here().await?;
    let integration = integrations::show_integration(by, Path(id.to_owned())).await?.value;
    render(mistake.status(), &IntegrationPage { visit, integration, mistake })
}

pub(crate) async fn show_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    show_page(&visit, &id, FormError::default()).await
}

/// Edits an integration, unless another administrator changed it since the form was opened.
pub(crate) async fn change_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    let problem = match save(&visit, &id).await {
        Ok(()) => return visit.done(own_path(&id, &visit), "The changes were saved."),
        Err(problem) => problem,
    };
    let is_outdated = problem.status() == StatusCode::PRECONDITION_FAILED;
    let mut mistake = FormError::read(problem, &FIELDS)?;
    if is_outdated {
        let words = "Another administrator changed this server while you were editing. Your text \
            is still here: save again to replace their change.";
        mistake = FormError::new("", words);
    }
    show_page(&visit, &id, mistake).await
}

/// Saves the entered values. An empty credential is left unchanged.
async fn save(visit: &Visit, id: &str) -> Result<(), Problem> {
    let by = visit.by_here().await?.expecting(visit.form.get("version"))?;
    let mut patch = json!({});
    visit.form.write(&mut patch, &["name", "serverUrl", "authMethod", "headerName"]);
    visit.form.write_exact(&mut patch, "credentials");
    integrations::change_integration(by, Path(id.to_owned()), body(patch)?).await?;
    Ok(())
}

pub(crate) async fn try_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = visit.by_here().await?;
    let Json(trial) = integrations::validate_integration(by, Path(id.clone())).await?;
    if trial.valid {
        // Connect at once, instead of at the next scheduled retry.
        let by = visit.by_here().await?;
        let Json(_) = integrations::reconnect_integration(by, Path(id.clone())).await?;
    }
    let page = own_path(&id, &visit);
    let Offered { tools, prompts, resources } = trial.capabilities;
    if let Some(Fault { stage, summary, cause, fix, .. }) = trial.fault {
        let text = format!("Connection failed at {stage}. {summary} {cause} {fix}");
        return visit.redirect_with(page, Severity::Bad, text);
    }
    visit.done(
        page,
        format!("Connection works: {tools} tools, {prompts} prompts and {resources} resources."),
    )
}

pub(crate) async fn switch_integration(
    visit: Visit,
    Path((id, to)): Path<(String, String)>,
) -> PageResult {
    let by = visit.by_here().await?;
    match to.as_str() {
        "enable" => integrations::enable_integration(by, Path(id.clone())).await?,
        "disable" => integrations::disable_integration(by, Path(id.clone())).await?,
        _ => {
            let detail = "A server is enabled or disabled, and nothing else.";
            return Err(PageError::not_found(detail));
        }
    };
    visit.done(own_path(&id, &visit), format!("The server was {to}d."))
}

/// Asks for confirmation before an integration is removed, and lists the agents that lose it.
pub(crate) async fn show_deletion(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = visit.by_here().await?.trying();
    let Deletion(integration) = integrations::delete_integration(by, Path(id)).await?;
    let mut integration = integration.ok_or_else(broken)?;
    let affected = integration.affected_agents.take().unwrap_or_default();
    let agents = name_agents(&visit.by_here().await?, affected)?;
    let organisation = visit.query.get("organisation");
    let is_own = matches!(&visit.who, Some(who) if who.organisation() == organisation);
    let has_pages = organisation.is_empty() || is_own;
    show(&DeletePage { visit: &visit, integration, agents, has_pages })
}

/// Removes an integration, also from all agents.
pub(crate) async fn delete_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = visit.by_here().await?.expecting(visit.form.get("version"))?;
    integrations::delete_integration(by, Path(id)).await?;
    let page = match visit.query.get("organisation") {
        "" => PagePath::new(&["servers"]),
        name => PagePath::new(&["organisations", name]),
    };
    visit.done(page, "The server was removed.")
}
