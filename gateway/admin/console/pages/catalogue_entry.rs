//! Adding a server from the operator's catalogue, or at a fixed version from the operator's
//! registry: by name, with the values that it requires. Secrets are never shown again. Only the
//! operator sees addresses of the catalogue.

use askama::Template;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::integrations::load_catalogue;
use super::integrations::{FormError, is_of_script, open_added};
use crate::api::body::body;
use crate::api::integrations::{
    Integration, PredefinedIntegration, RegistryInput, RegistryServer,
    create_predefined_integration, create_registry_integration, show_registry_server,
};
use crate::api::query::query;
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::redirect::PagePath;

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
pub(crate) async fn show_form(
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
pub(crate) async fn create(
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
    let text = write_body(&offer, &typed);
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

fn write_body(offer: &Offer, typed: &Fields) -> Value {
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
