//! Settings: the current configuration with the source of each value, read-only.

use super::*;
use crate::api::integrations::list_integrations;
use crate::api::me::{Setting, list_settings};
use crate::api::organisations::{self, Organisation};

const PART: &str = "200";

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage<'a> {
    visit: &'a Visit,
    /// Includes defaults.
    is_whole: bool,
    found: Page<Setting>,
    /// Errors in the configuration files; empty if there are none.
    mistakes: String,
}

impl Setting {
    fn section(&self) -> &str {
        self.key.split('.').next().unwrap_or("")
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.section() == other.section()
    }

    /// Returns the key without its section.
    fn name(&self) -> &str {
        self.key.split_once('.').map_or(&self.key, |(_, name)| name)
    }

    fn value_text(&self) -> String {
        match &self.value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Shows the configured values, or all values.
pub(crate) async fn show_settings(visit: Visit) -> PageResult {
    let is_whole = visit.query.get("all") == "yes";
    let filter = visit.list_query(PART, &[("only", if is_whole { "" } else { "given" })])?;
    let (found, mistakes) = match list_settings(visit.by()?, filter).await {
        Ok(Json(found)) => (found, String::new()),
        Err(problem) if problem.status() == StatusCode::CONFLICT => {
            let none = Page { items: Vec::new(), total: 0, next_cursor: None };
            (none, problem.detail().to_owned())
        }
        Err(problem) => return Err(problem.into()),
    };
    show(&SettingsPage { visit: &visit, is_whole, found, mistakes })
}

// Organisations with their own servers or agents, and a page of each.

#[derive(Template)]
#[template(path = "organisations.html")]
struct OrganisationsPage<'a> {
    visit: &'a Visit,
    found: Page<Organisation>,
}

pub(crate) async fn list_organisations(visit: Visit) -> PageResult {
    let filter = visit.list_query("100", &[])?;
    let Json(found) = organisations::list_organisations(visit.by()?, filter).await?;
    show(&OrganisationsPage { visit: &visit, found })
}

#[derive(Template)]
#[template(path = "organisation.html")]
struct OrganisationPage<'a> {
    visit: &'a Visit,
    name: &'a str,
    integrations: Page<Integration>,
    agents: Page<Agent>,
}

/// Shows an organisation. An unknown name is shown as an empty organisation, because its first
/// server creates it.
pub(crate) async fn show_organisation(visit: Visit, Path(name): Path<String>) -> PageResult {
    let filter = [("limit", PART)];
    let integrations = list_integrations(visit.by_in(&name).await?, query(&filter)?).await?.0;
    let agents = list_agents(visit.by_in(&name).await?, query(&filter)?).await?.0;
    show(&OrganisationPage { visit: &visit, name: &name, integrations, agents })
}
