//! Servers that an organisation adds at run time: by address, from the operator's catalogue, or at
//! a fixed version from the operator's registry. They are tested, edited, enabled or disabled, and
//! removed. A credential is stored encrypted and never shown.

use super::*;
use crate::api::Offered;
use crate::api::agents::name_agents;
use crate::api::answer::broken;
use crate::api::change::Deletion;
use crate::api::integrations::{self, PredefinedIntegration, RegistryInput, RegistryServer};

/// The fields of a server by its address.
const LABELS: [(&str, &str); 6] = [
    ("name", "Name"),
    ("serverUrl", "Address"),
    ("slug", "Prefix of its tools"),
    ("authMethod", "Authentication"),
    ("headerName", "Header name"),
    ("credentials", "Key or token"),
];
/// The fields of a server that is edited: by its address, and from the catalogue.
const EDIT_LABELS: [(&str, &str); 5] =
    [LABELS[0], LABELS[1], LABELS[3], LABELS[4], ("credentials", "New key or token")];
const EDIT_ENTRY_LABELS: [(&str, &str); 2] = [EDIT_LABELS[0], EDIT_LABELS[4]];

/// The methods of authentication, and their labels.
const AUTH_METHODS: [(&str, &str); 5] = [
    ("none", "None"),
    ("bearer_token", "Bearer token"),
    ("api_key", "Key in a header"),
    ("user", "Each member’s own account"),
    ("user_headers", "Each member’s own key"),
];

#[derive(Template)]
#[template(path = "integration_new.html")]
struct AddPage<'a> {
    visit: &'a Visit,
    offer: &'a Offer,
    /// The target of the form.
    action: String,
    /// The form passed its test and would be accepted.
    tried: Option<Integration>,
}

impl PredefinedIntegration {
    /// Returns whether its form has a field for a key or token.
    fn takes_credentials(&self) -> bool {
        ["bearer_token", "api_key"].contains(&self.auth_method)
    }
}

impl RegistryInput {
    /// Returns the name of its field.
    fn field(&self) -> String {
        format!("input-{}", self.name)
    }
}

/// Number of entries per page.
const PART: &str = "200";

/// Returns the first entries by name, and their total number.
async fn load_catalogue(
    visit: &Visit,
    search: &str,
) -> Result<Page<PredefinedIntegration>, Problem> {
    let filter = query(&[("limit", PART), ("search", search)])?;
    match integrations::list_catalogue(visit.by()?, filter).await {
        Ok(found) => Ok(found.0),
        // Without a store there is nothing to choose.
        Err(problem) if problem.status() == StatusCode::SERVICE_UNAVAILABLE => {
            Ok(Page { items: Vec::new(), total: 0, next_cursor: None })
        }
        Err(problem) => Err(problem),
    }
}

/// A server that can be added.
enum Offer {
    /// Any server, by its address; with entries of the operator's catalogue, and whether the
    /// operator has named a registry.
    Address(Page<PredefinedIntegration>, bool),
    Entry(PredefinedIntegration),
    Server(RegistryServer),
}

impl Offer {
    /// Finds the offer of a page: an entry of the catalogue, or a server of the registry.
    async fn find(visit: &Visit, slug: Option<Path<String>>) -> Result<Self, PageError> {
        if let Some(Path(slug)) = slug {
            let found = load_catalogue(visit, &slug).await?;
            let entry = found.items.into_iter().find(|entry| entry.slug == slug);
            return entry
                .map(Self::Entry)
                .ok_or_else(|| PageError::not_found("The catalogue has no such server."));
        }
        if visit.address.starts_with("/console/integrations/") {
            let by: By<Admin> = visit.by()?;
            let has_registry = by.state.operations.settings().import_registry.is_some();
            return Ok(Self::Address(
                load_catalogue(visit, visit.query.get("q")).await?,
                has_registry,
            ));
        }
        let server = visit.query.get("server");
        let (name, version) =
            server.split_once('@').unwrap_or((server, visit.query.get("version")));
        let asked = query(&[("server", name), ("version", version)])?;
        Ok(Self::Server(integrations::show_registry_server(visit.by_here().await?, asked).await?.0))
    }

    /// Returns whether the form is for any server, by its address.
    fn is_any(&self) -> bool {
        matches!(self, Self::Address(..))
    }

    /// Returns the name that its form suggests.
    fn name(&self) -> &str {
        match self {
            Self::Address(..) => "",
            Self::Entry(entry) => &entry.name,
            Self::Server(server) => &server.title,
        }
    }

    /// Tests the server, or adds it, with the entered values that are not empty. A server that
    /// fails its test is stored only on request.
    async fn add(&self, by: By<Admin>, typed: &Fields) -> Result<Integration, Problem> {
        let mut new = json!({"validate": typed.get("action") != "force"});
        let reply = match self {
            Self::Address(..) => {
                new["serverUrl"] = typed.get("serverUrl").into();
                new["name"] = typed.get("name").into();
                typed.write(&mut new, &["slug", "authMethod", "headerName"]);
                typed.write_exact(&mut new, "credentials");
                integrations::create_custom_integration(by, body(new)?).await?
            }
            Self::Entry(entry) => {
                new["slug"] = entry.slug.as_str().into();
                typed.write(&mut new, &["name"]);
                typed.write_exact(&mut new, "credentials");
                integrations::create_predefined_integration(by, body(new)?).await?
            }
            Self::Server(RegistryServer { server, version, inputs, .. }) => {
                new["server"] = server.as_str().into();
                new["version"] = version.as_str().into();
                typed.write(&mut new, &["name"]);
                typed.write_exact(&mut new, "url");
                for input in inputs {
                    let value = typed.get_exact(&input.field());
                    if !value.is_empty() {
                        new["inputs"][&input.name] = value.into();
                    }
                }
                integrations::create_registry_integration(by, body(new)?).await?
            }
        };
        Ok(reply.value)
    }

    /// Returns the names and labels of the fields of its form.
    fn labels(&self) -> &'static Labels {
        match self {
            Self::Address(..) => &LABELS,
            Self::Entry(entry) if entry.takes_credentials() => &[LABELS[0], LABELS[5]],
            Self::Entry(_) | Self::Server(_) => &[LABELS[0]],
        }
    }

    fn show(&self, visit: &Visit, tried: Option<Integration>) -> PageResult {
        let mut page = PagePath::of_address(&visit.address);
        if let Self::Server(RegistryServer { server, version, .. }) = self {
            page = page.with("server", server).with("version", version);
        }
        let action = page.with("organisation", visit.query.get("organisation")).into_text();
        visit.show(&AddPage { visit, offer: self, action, tried })
    }
}

/// Shows the form that adds a server, with values from the address.
pub(crate) async fn show_form(visit: Visit, slug: Option<Path<String>>) -> PageResult {
    Offer::find(&visit, slug).await?.show(&visit, None)
}

/// Tests the connection to a server, or adds it.
pub(crate) async fn add(visit: Visit, slug: Option<Path<String>>) -> PageResult {
    let offer = Offer::find(&visit, slug).await?;
    let is_trial = visit.form.get("action") == "try";
    let by = visit.by_here().await?;
    let by = if is_trial { by.trying() } else { by };
    match offer.add(by, &visit.form).await {
        Ok(added) if is_trial => offer.show(&visit, Some(added)),
        Ok(Integration { slug, .. }) => {
            visit.done(home_of(&visit, &["servers", &slug]), format!("{slug} was added."))
        }
        Err(problem) => offer.show(&visit.mistaken(problem, offer.labels())?, None),
    }
}

// An added server.

#[derive(Template)]
#[template(path = "integration.html")]
struct IntegrationPage<'a> {
    visit: &'a Visit,
    integration: Integration,
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
    pub(crate) fn address(&self, organisation: &str) -> String {
        let path = PagePath::new(&["integrations", &self.id]);
        path.with("organisation", organisation).into_text()
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

pub(crate) async fn show_integration(visit: Visit, id: Path<String>) -> PageResult {
    let integration = integrations::show_integration(visit.by_here().await?, id).await?.value;
    visit.show(&IntegrationPage { visit: &visit, integration })
}

/// Edits an integration, unless another administrator changed it since the form was opened.
pub(crate) async fn change_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    let Err(problem) = save(&visit, &id).await else {
        return visit.done(own_path(&id, &visit), "The changes were saved.");
    };
    let path = Path(id);
    let integration = integrations::show_integration(visit.by_here().await?, path).await?.value;
    let is_entry = integration.predefined.is_some();
    let labels: &Labels = if is_entry { &EDIT_ENTRY_LABELS } else { &EDIT_LABELS };
    let visit = visit.mistaken(problem, labels)?;
    visit.show(&IntegrationPage { visit: &visit, integration })
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
    visit.show(&DeletePage { visit: &visit, integration, agents, has_pages })
}

/// Removes an integration, also from all agents.
pub(crate) async fn delete_integration(visit: Visit, Path(id): Path<String>) -> PageResult {
    let by = visit.by_here().await?.expecting(visit.form.get("version"))?;
    integrations::delete_integration(by, Path(id)).await?;
    visit.done(home_of(&visit, &["servers"]), "The server was removed.")
}

/// Returns the page of the organisation that the address names, or a page of the visitor's own.
fn home_of(visit: &Visit, own: &[&str]) -> PagePath {
    match visit.query.get("organisation") {
        "" => PagePath::new(own),
        name => PagePath::new(&["organisations", name]),
    }
}
