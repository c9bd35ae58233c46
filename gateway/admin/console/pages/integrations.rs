//! Adding a server at run time by its address, or from the operator's catalogue. The connection can
//! be tested first; the credential is stored encrypted and never shown.

use askama::Template;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
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
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::redirect::PagePath;
use crate::fault::{Fault, sentence};

#[derive(Template)]
#[template(path = "integration_new.html")]
struct NewIntegrationPage<'a> {
    layout: &'a Layout,
    typed: &'a Fields,
    mistake: FormError,
    /// The form passed its test and would be accepted.
    tried: Option<Integration>,
    /// A script keeps the entered values.
    is_script: bool,
    /// The target organisation; empty for the visitor's own.
    organisation: &'a str,
    /// Entries of the operator's catalogue, and the search text.
    catalogue: Page<PredefinedIntegration>,
    search: &'a str,
    /// Whether the operator has named a registry.
    has_registry: bool,
}

impl NewIntegrationPage<'_> {
    /// Returns the target of the form.
    fn action(&self) -> String {
        let path = PagePath::new(&["console", "integrations", "new"]);
        path.with("organisation", self.organisation).into_text()
    }

    fn entry_address(&self, entry: &PredefinedIntegration) -> String {
        let path = PagePath::new(&["console", "catalogue", &entry.slug]);
        path.with("organisation", self.organisation).into_text()
    }
}

/// A form error and its field; no error if `words` is empty.
#[derive(Default)]
pub(super) struct FormError {
    field: String,
    pub(super) words: String,
    /// The failure, if the server failed.
    pub(super) fault: Option<Fault>,
}

impl FormError {
    pub(super) fn new(field: &str, words: &str) -> Self {
        Self { field: field.to_owned(), words: words.to_owned(), fault: None }
    }

    /// Moves an address error to the form as a whole, for forms without an address.
    pub(super) fn leave_address(&mut self) {
        if self.field == "serverUrl" {
            self.field.clear();
        }
    }

    /// Returns the error of a field.
    pub(super) fn at(&self, field: &str) -> &str {
        if self.field == field { &self.words } else { "" }
    }

    /// Returns an error that belongs to no field of the form.
    pub(super) fn elsewhere(&self) -> &str {
        let fields = ["name", "serverUrl", "slug", "authMethod", "headerName", "credentials"];
        // A failed stage is shown above the form.
        let is_above = self.fault.is_some() && self.field.is_empty();
        if fields.contains(&self.field.as_str()) || is_above { "" } else { &self.words }
    }
}

impl From<Problem> for FormError {
    fn from(problem: Problem) -> Self {
        let mut field = problem.pointer().trim_start_matches('/');
        if field.is_empty() {
            field = find_field(problem.member("stage").and_then(Value::as_str).unwrap_or(""));
        }
        let mut fault = problem.member("fault").and_then(|fault| Fault::deserialize(fault).ok());
        let words = match &fault {
            Some(fault) => fault.summary.clone(),
            None => sentence(problem.detail()),
        };
        if let Some(fault) = &mut fault {
            // A server that is not stored is not connected to.
            for later in
                [" Lockgate retries automatically.", " Lockgate then connects automatically."]
            {
                fault.fix = fault.fix.replace(later, "");
            }
        }
        Self { field: field.to_owned(), words, fault }
    }
}

/// Returns the field that a stage depends on.
fn find_field(stage: &str) -> &'static str {
    match stage {
        "" => "",
        "auth" => "credentials",
        _ => "serverUrl",
    }
}

/// Shows the form, with values from the address.
pub(crate) async fn show_form(
    layout: Layout,
    api: Api,
    QueryFields(typed): QueryFields,
) -> PageResult {
    show(&NewIntegrationPage {
        layout: &layout,
        typed: &typed,
        mistake: FormError::default(),
        tried: None,
        is_script: false,
        organisation: typed.get("organisation"),
        catalogue: load_catalogue(&api, typed.get("q")).await?,
        search: typed.get("q"),
        has_registry: has_registry(&api)?,
    })
}

fn has_registry(api: &Api) -> Result<bool, Problem> {
    let by: By<Admin> = api.by()?;
    Ok(by.state.operations.settings().import_registry.is_some())
}

/// Tests the connection, or adds the server.
pub(crate) async fn create(
    layout: Layout,
    api: Api,
    QueryFields(query): QueryFields,
    headers: HeaderMap,
    FormFields(typed): FormFields,
) -> PageResult {
    let is_trial = typed.get("action") == "try";
    let organisation = query.get("organisation");
    let by = api.by_in(organisation).await?;
    let by = if is_trial { by.trying() } else { by };
    let answer = match body(write_body(&typed)) {
        Ok(new) => create_custom_integration(by, new).await.map(|reply| reply.value),
        Err(problem) => Err(problem),
    };
    if !is_trial && let Ok(added) = &answer {
        return open_added(&layout, added, organisation);
    }
    let mut page = NewIntegrationPage {
        layout: &layout,
        typed: &typed,
        mistake: FormError::default(),
        tried: None,
        is_script: is_of_script(&headers),
        organisation,
        catalogue: load_catalogue(&api, "").await?,
        search: "",
        has_registry: has_registry(&api)?,
    };
    match answer {
        Ok(added) => {
            page.tried = Some(added);
            show(&page)
        }
        Err(problem) if problem.is_of_form() => {
            page.mistake = problem.into();
            render(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(problem) => Err(problem.into()),
    }
}

/// Returns whether htmx sent the request: it updates part of the page and keeps the entered values.
pub(super) fn is_of_script(headers: &HeaderMap) -> bool {
    headers.contains_key("hx-request")
}

/// Redirects to the page of an added server.
pub(super) fn open_added(layout: &Layout, added: &Integration, organisation: &str) -> PageResult {
    let page = match organisation {
        "" => PagePath::new(&["console", "servers", &added.slug]),
        name => PagePath::new(&["console", "organisations", name]),
    };
    let text = format!("{} was added.", added.slug);
    Ok(layout.redirect_with(page, Severity::Good, &text))
}

/// Returns the entered values as the API expects them, without empty fields. A server that fails
/// its test is stored only on request.
fn write_body(typed: &Fields) -> Value {
    let mut body = json!({
        "name": typed.get("name"),
        "serverUrl": typed.get("serverUrl"),
        "validate": typed.get("action") != "force",
    });
    for field in ["slug", "authMethod", "headerName"] {
        if !typed.get(field).is_empty() {
            body[field] = typed.get(field).into();
        }
    }
    let credentials = typed.get_exact("credentials");
    if !credentials.is_empty() {
        body["credentials"] = credentials.into();
    }
    body
}

/// Number of entries per page.
const PART: &str = "200";

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

/// Returns the first entries by name, and their total number.
pub(crate) async fn load_catalogue(
    api: &Api,
    search: &str,
) -> Result<Page<PredefinedIntegration>, Problem> {
    let filter = query(&[("limit", PART), ("search", search)])?;
    match list_catalogue(api.by()?, filter).await {
        Ok(found) => Ok(found.0),
        // Without a store there is nothing to choose.
        Err(problem) if problem.status() == StatusCode::SERVICE_UNAVAILABLE => {
            Ok(Page { items: Vec::new(), total: 0, next_cursor: None })
        }
        Err(problem) => Err(problem),
    }
}

// Adding a server from the operator's catalogue, or at a fixed version from the operator's
// registry: by name, with the values that it requires.

/// A server that can be added.
enum Offer {
    Entry(PredefinedIntegration),
    Server(RegistryServer),
}

impl Offer {
    /// Finds an entry of the catalogue; without a slug, a server of the registry.
    async fn find(
        api: &Api,
        slug: Option<Path<String>>,
        named: &Fields,
    ) -> Result<Self, PageError> {
        if let Some(Path(slug)) = slug {
            let found = load_catalogue(api, &slug).await?;
            let entry = found.items.into_iter().find(|entry| entry.slug == slug);
            return entry
                .map(Self::Entry)
                .ok_or_else(|| PageError::not_found("The catalogue has no such server."));
        }
        let server = named.get("server");
        let (name, version) = server.split_once('@').unwrap_or((server, named.get("version")));
        let asked = query(&[("server", name), ("version", version)])?;
        let by = api.by_in(named.get("organisation")).await?;
        Ok(Self::Server(show_registry_server(by, asked).await?.0))
    }

    fn title(&self) -> &str {
        match self {
            Self::Entry(entry) => &entry.name,
            Self::Server(server) => &server.title,
        }
    }

    fn description(&self) -> &str {
        match self {
            Self::Entry(entry) => entry.description.as_deref().unwrap_or(""),
            Self::Server(server) => &server.description,
        }
    }
}

#[derive(Template)]
#[template(path = "catalogue_entry.html")]
struct EntryPage<'a> {
    layout: &'a Layout,
    offer: &'a Offer,
    typed: &'a Fields,
    mistake: FormError,
    /// The form passed its test and would be accepted.
    tried: Option<Integration>,
    /// A script keeps the entered values.
    is_script: bool,
    organisation: &'a str,
}

impl EntryPage<'_> {
    /// Returns the target of the form.
    fn action(&self) -> String {
        let path = match self.offer {
            Offer::Entry(entry) => PagePath::new(&["console", "catalogue", &entry.slug]),
            Offer::Server(RegistryServer { server, version, .. }) => {
                PagePath::new(&["console", "registry"])
                    .with("server", server)
                    .with("version", version)
            }
        };
        path.with("organisation", self.organisation).into_text()
    }

    fn name(&self) -> &str {
        match self.typed.get("name") {
            "" => self.offer.title(),
            typed => typed,
        }
    }

    /// Returns the entered value of an input, or its default.
    fn value<'a>(&'a self, input: &'a RegistryInput) -> &'a str {
        let typed = self.typed.get_exact(&input.field());
        if typed.is_empty() { &input.default } else { typed }
    }
}

impl RegistryInput {
    /// Returns the name of its field.
    fn field(&self) -> String {
        format!("input-{}", self.name)
    }
}

/// Shows the form, with values from the address.
pub(crate) async fn show_entry(
    layout: Layout,
    api: Api,
    slug: Option<Path<String>>,
    QueryFields(typed): QueryFields,
) -> PageResult {
    show(&EntryPage {
        layout: &layout,
        offer: &Offer::find(&api, slug, &typed).await?,
        typed: &typed,
        mistake: FormError::default(),
        tried: None,
        is_script: false,
        organisation: typed.get("organisation"),
    })
}

/// Tests the connection, or adds the server.
pub(crate) async fn add_entry(
    layout: Layout,
    api: Api,
    slug: Option<Path<String>>,
    QueryFields(query): QueryFields,
    headers: HeaderMap,
    FormFields(typed): FormFields,
) -> PageResult {
    let is_trial = typed.get("action") == "try";
    let organisation = query.get("organisation");
    let offer = Offer::find(&api, slug, &query).await?;
    let by = api.by_in(organisation).await?;
    let by = if is_trial { by.trying() } else { by };
    let text = write_entry(&offer, &typed);
    let answer = match &offer {
        Offer::Entry(_) => create_predefined_integration(by, body(text)?).await,
        Offer::Server(_) => create_registry_integration(by, body(text)?).await,
    };
    let answer = answer.map(|reply| reply.value);
    if !is_trial && let Ok(added) = &answer {
        return open_added(&layout, added, organisation);
    }
    let mut page = EntryPage {
        layout: &layout,
        offer: &offer,
        typed: &typed,
        mistake: FormError::default(),
        tried: None,
        is_script: is_of_script(&headers),
        organisation,
    };
    match answer {
        Ok(added) => {
            page.tried = Some(added);
            show(&page)
        }
        Err(problem) if problem.is_of_form() => {
            page.mistake = problem.into();
            page.mistake.leave_address();
            render(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(problem) => Err(problem.into()),
    }
}

fn write_entry(offer: &Offer, typed: &Fields) -> Value {
    let mut body = json!({"validate": typed.get("action") != "force"});
    if !typed.get("name").is_empty() {
        body["name"] = typed.get("name").into();
    }
    match offer {
        Offer::Entry(entry) => {
            body["slug"] = entry.slug.as_str().into();
            let credentials = typed.get_exact("credentials");
            if !credentials.is_empty() {
                body["credentials"] = credentials.into();
            }
        }
        Offer::Server(RegistryServer { server, version, inputs, .. }) => {
            body["server"] = server.as_str().into();
            body["version"] = version.as_str().into();
            let shown = typed.get_exact("url");
            if !shown.is_empty() {
                body["url"] = shown.into();
            }
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
