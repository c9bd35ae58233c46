//! Adding a server at run time: by its address, from the operator's catalogue, or at a fixed
//! version from the operator's registry. The connection can be tested first; the credential is
//! stored encrypted and never shown.

use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::access::{Admin, By};
use crate::api::body::body;
use crate::api::integrations::{
    Integration, PredefinedIntegration, RegistryInput, RegistryServer, create_custom_integration,
    create_predefined_integration, create_registry_integration, list_catalogue,
    show_registry_server,
};
use crate::api::page::{Page, query};
use crate::api::problem::Problem;
use crate::console::diagnosis::Severity;
use crate::console::form::{Fields, FormError};
use crate::console::redirect::PagePath;
use crate::console::render::{PageError, PageResult, render};
use crate::console::visit::Visit;

/// A form that adds a server.
struct Trial<'a> {
    typed: &'a Fields,
    mistake: FormError,
    /// The form passed its test and would be accepted.
    tried: Option<Integration>,
    /// htmx sent the form: it updates part of the page and keeps the entered values.
    is_script: bool,
    /// The target organisation; empty for the visitor's own.
    organisation: &'a str,
}

#[derive(Template)]
#[template(path = "integration_new.html")]
struct NewIntegrationPage<'a> {
    visit: &'a Visit,
    trial: Trial<'a>,
    /// The target of the form.
    action: String,
    /// Entries of the operator's catalogue, and the search text.
    catalogue: Page<PredefinedIntegration>,
    search: &'a str,
    /// Whether the operator has named a registry.
    has_registry: bool,
}

#[derive(Template)]
#[template(path = "catalogue_entry.html")]
struct EntryPage<'a> {
    visit: &'a Visit,
    trial: Trial<'a>,
    action: String,
    offer: &'a Offer,
}

impl NewIntegrationPage<'_> {
    fn entry_address(&self, entry: &PredefinedIntegration) -> String {
        let path = PagePath::new(&["console", "catalogue", &entry.slug]);
        path.with("organisation", self.trial.organisation).into_text()
    }
}

impl EntryPage<'_> {
    fn name(&self) -> &str {
        match self.trial.typed.get("name") {
            "" => self.offer.title(),
            typed => typed,
        }
    }

    /// Returns the entered value of an input, or its default.
    fn value<'a>(&'a self, input: &'a RegistryInput) -> &'a str {
        let typed = self.trial.typed.get_exact(&input.field());
        if typed.is_empty() { &input.default } else { typed }
    }
}

impl RegistryInput {
    /// Returns the name of its field.
    fn field(&self) -> String {
        format!("input-{}", self.name)
    }
}

impl PredefinedIntegration {
    /// Returns the credential that the entry requires; empty if it requires none.
    pub(crate) fn wants(&self) -> &'static str {
        match self.auth_method {
            "bearer_token" => "a token",
            "api_key" => "a key",
            _ => "",
        }
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
    match list_catalogue(visit.by()?, filter).await {
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
    /// Any server, by its address.
    Address,
    Entry(PredefinedIntegration),
    Server(RegistryServer),
}

impl Offer {
    /// Finds an entry of the catalogue; without a slug, a server of the registry.
    async fn find(visit: &Visit, slug: Option<Path<String>>) -> Result<Self, PageError> {
        if let Some(Path(slug)) = slug {
            let found = load_catalogue(visit, &slug).await?;
            let entry = found.items.into_iter().find(|entry| entry.slug == slug);
            return entry
                .map(Self::Entry)
                .ok_or_else(|| PageError::not_found("The catalogue has no such server."));
        }
        let server = visit.query.get("server");
        let (name, version) =
            server.split_once('@').unwrap_or((server, visit.query.get("version")));
        let asked = query(&[("server", name), ("version", version)])?;
        let by = visit.by_in(visit.query.get("organisation")).await?;
        Ok(Self::Server(show_registry_server(by, asked).await?.0))
    }

    fn title(&self) -> &str {
        match self {
            Self::Address => "a server",
            Self::Entry(entry) => &entry.name,
            Self::Server(server) => &server.title,
        }
    }

    fn description(&self) -> &str {
        match self {
            Self::Address => "",
            Self::Entry(entry) => entry.description.as_deref().unwrap_or(""),
            Self::Server(server) => &server.description,
        }
    }

    /// Returns the page of its form.
    fn path(&self) -> PagePath {
        match self {
            Self::Address => PagePath::new(&["console", "integrations", "new"]),
            Self::Entry(entry) => PagePath::new(&["console", "catalogue", &entry.slug]),
            Self::Server(RegistryServer { server, version, .. }) => {
                let path = PagePath::new(&["console", "registry"]);
                path.with("server", server).with("version", version)
            }
        }
    }

    /// Tests the server, or adds it.
    async fn add(&self, by: By<Admin>, typed: &Fields) -> Result<Integration, Problem> {
        let text = self.write(typed);
        let reply = match self {
            Self::Address => create_custom_integration(by, body(text)?).await,
            Self::Entry(_) => create_predefined_integration(by, body(text)?).await,
            Self::Server(_) => create_registry_integration(by, body(text)?).await,
        };
        Ok(reply?.value)
    }

    /// Returns the entered values as the API expects them, without empty fields. A server that
    /// fails its test is stored only on request.
    fn write(&self, typed: &Fields) -> Value {
        let mut body = json!({"validate": typed.get("action") != "force"});
        match self {
            Self::Address => {
                body["serverUrl"] = typed.get("serverUrl").into();
                body["name"] = typed.get("name").into();
                typed.write(&mut body, &["slug", "authMethod", "headerName"]);
                typed.write_exact(&mut body, "credentials");
            }
            Self::Entry(entry) => {
                body["slug"] = entry.slug.as_str().into();
                typed.write(&mut body, &["name"]);
                typed.write_exact(&mut body, "credentials");
            }
            Self::Server(RegistryServer { server, version, inputs, .. }) => {
                body["server"] = server.as_str().into();
                body["version"] = version.as_str().into();
                typed.write(&mut body, &["name"]);
                typed.write_exact(&mut body, "url");
                for input in inputs {
                    let value = typed.get_exact(&input.field());
                    if !value.is_empty() {
                        body["inputs"][&input.name] = value.into();
                    }
                }
            }
        }
        body
    }

    async fn show(&self, visit: &Visit, status: StatusCode, mut trial: Trial<'_>) -> PageResult {
        let action = self.path().with("organisation", trial.organisation).into_text();
        if !matches!(self, Self::Address) {
            trial.mistake.leave_address();
            return render(status, &EntryPage { visit, trial, action, offer: self });
        }
        let by: By<Admin> = visit.by()?;
        let search = visit.query.get("q");
        let page = NewIntegrationPage {
            catalogue: load_catalogue(visit, search).await?,
            has_registry: by.state.operations.settings().import_registry.is_some(),
            visit,
            trial,
            action,
            search,
        };
        render(status, &page)
    }
}

/// Shows the form, with values from the address.
pub(crate) async fn show_form(visit: Visit) -> PageResult {
    show_offer(&visit, &Offer::Address).await
}

/// Shows the form of an entry, with values from the address.
pub(crate) async fn show_entry(visit: Visit, slug: Option<Path<String>>) -> PageResult {
    show_offer(&visit, &Offer::find(&visit, slug).await?).await
}

async fn show_offer(visit: &Visit, offer: &Offer) -> PageResult {
    let trial = Trial {
        typed: &visit.query,
        mistake: FormError::default(),
        tried: None,
        is_script: false,
        organisation: visit.query.get("organisation"),
    };
    offer.show(visit, StatusCode::OK, trial).await
}

/// Tests the connection to a server by its address, or adds it.
pub(crate) async fn create(visit: Visit) -> PageResult {
    add(&visit, &Offer::Address).await
}

/// Tests the connection to a server of the catalogue or the registry, or adds it.
pub(crate) async fn add_entry(visit: Visit, slug: Option<Path<String>>) -> PageResult {
    add(&visit, &Offer::find(&visit, slug).await?).await
}

async fn add(visit: &Visit, offer: &Offer) -> PageResult {
    let is_trial = visit.form.get("action") == "try";
    let organisation = visit.query.get("organisation");
    let by = visit.by_in(organisation).await?;
    let by = if is_trial { by.trying() } else { by };
    let (status, mistake, tried) = match offer.add(by, &visit.form).await {
        Ok(added) if is_trial => (StatusCode::OK, FormError::default(), Some(added)),
        Ok(added) => return open_added(visit, &added, organisation),
        Err(problem) if problem.is_of_form() => {
            (StatusCode::UNPROCESSABLE_ENTITY, problem.into(), None)
        }
        Err(problem) => return Err(problem.into()),
    };
    let is_script = visit.headers.contains_key("hx-request");
    let trial = Trial { typed: &visit.form, mistake, tried, is_script, organisation };
    offer.show(visit, status, trial).await
}

/// Redirects to the page of an added server.
fn open_added(visit: &Visit, added: &Integration, organisation: &str) -> PageResult {
    let page = match organisation {
        "" => PagePath::new(&["console", "servers", &added.slug]),
        name => PagePath::new(&["console", "organisations", name]),
    };
    let text = format!("{} was added.", added.slug);
    Ok(visit.redirect_with(page, Severity::Good, &text))
}
