//! Adding a server from the operator's catalogue: by name, with the credential that it requires,
//! which is never shown again. Only the operator sees the address of the server.

use askama::Template;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::catalogue::{CatalogueEntry, load_catalogue};
use super::integrations::{Added, FormError, is_of_script, open_added};
use crate::console::api_client::{ApiClient, ApiError, ApiPath};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;

#[derive(Template)]
#[template(path = "catalogue_entry.html")]
struct EntryPage<'a> {
    layout: &'a Layout,
    entry: &'a CatalogueEntry,
    typed: &'a Fields,
    mistake: FormError,
    /// The form passed its test and would be accepted.
    tried: Option<Added>,
    /// A script keeps the entered values.
    is_script: bool,
    organisation: &'a str,
}

impl EntryPage<'_> {
    /// Returns the target of the form.
    fn action(&self) -> String {
        ApiPath::link(&["console", "catalogue", &self.entry.slug], self.organisation, "")
    }

    fn name(&self) -> &str {
        match self.typed.get("name") {
            "" => &self.entry.name,
            typed => typed,
        }
    }
}

async fn find_entry(api: &ApiClient, slug: &str) -> Result<CatalogueEntry, PageError> {
    let found = load_catalogue(api, slug).await?;
    match found.items.into_iter().find(|entry| entry.slug == slug) {
        Some(entry) => Ok(entry),
        None => Err(PageError::not_found("The catalogue has no such server.")),
    }
}

/// Shows the form, with values from the address.
pub(crate) async fn show_form(
    layout: Layout,
    api: ApiClient,
    Path(slug): Path<String>,
    QueryFields(typed): QueryFields,
) -> PageResult {
    show(&EntryPage {
        layout: &layout,
        entry: &find_entry(&api, &slug).await?,
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
    api: ApiClient,
    Path(slug): Path<String>,
    QueryFields(query): QueryFields,
    headers: HeaderMap,
    FormFields(typed): FormFields,
) -> PageResult {
    let is_trial = typed.get("action") == "try";
    let organisation = query.get("organisation");
    let path = ApiPath::new(&["api", "mcp-integrations", "predefined"])?
        .with("dryRun", if is_trial { "true" } else { "" })
        .with("organizationId", organisation);
    let answer: Result<Added, ApiError> = api.ask(&path, &write_body(&slug, &typed)).await;
    if !is_trial && let Ok(added) = &answer {
        return open_added(&layout, added, organisation);
    }
    let entry = find_entry(&api, &slug).await?;
    let mut page = EntryPage {
        layout: &layout,
        entry: &entry,
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
        Err(error) if error.is_of_form() => {
            page.mistake = error.into();
            page.mistake.leave_address();
            render(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

fn write_body(slug: &str, typed: &Fields) -> Value {
    let mut body = json!({"slug": slug, "validate": typed.get("action") != "force"});
    if !typed.get("name").is_empty() {
        body["name"] = typed.get("name").into();
    }
    let credentials = typed.get_exact("credentials");
    if !credentials.is_empty() {
        body["credentials"] = credentials.into();
    }
    body
}
