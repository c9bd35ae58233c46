//! Adding a server from the operator's catalogue: by name, with the credential that it requires,
//! which is never shown again. Only the operator sees the address of the server.

use askama::Template;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::integrations::load_catalogue;
use super::integrations::{FormError, is_of_script, open_added};
use crate::api::body::body;
use crate::api::integrations::{Integration, PredefinedIntegration, create_predefined_integration};
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::page_path::PagePath;

#[derive(Template)]
#[template(path = "catalogue_entry.html")]
struct EntryPage<'a> {
    layout: &'a Layout,
    entry: &'a PredefinedIntegration,
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
        let path = PagePath::new(&["console", "catalogue", &self.entry.slug]);
        path.with("organisation", self.organisation).into_text()
    }

    fn name(&self) -> &str {
        match self.typed.get("name") {
            "" => &self.entry.name,
            typed => typed,
        }
    }
}

async fn find_entry(api: &Api, slug: &str) -> Result<PredefinedIntegration, PageError> {
    let found = load_catalogue(api, slug).await?;
    match found.items.into_iter().find(|entry| entry.slug == slug) {
        Some(entry) => Ok(entry),
        None => Err(PageError::not_found("The catalogue has no such server.")),
    }
}

/// Shows the form, with values from the address.
pub(crate) async fn show_form(
    layout: Layout,
    api: Api,
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
    api: Api,
    Path(slug): Path<String>,
    QueryFields(query): QueryFields,
    headers: HeaderMap,
    FormFields(typed): FormFields,
) -> PageResult {
    let is_trial = typed.get("action") == "try";
    let organisation = query.get("organisation");
    let by = api.by_in(organisation).await?;
    let by = if is_trial { by.trying() } else { by };
    let answer = create_predefined_integration(by, body(write_body(&slug, &typed))?).await;
    let answer = answer.map(|reply| reply.value);
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
        Err(problem) if problem.is_of_form() => {
            page.mistake = problem.into();
            page.mistake.leave_address();
            render(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(problem) => Err(problem.into()),
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
