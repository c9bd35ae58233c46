//! Adding a server while the gateway runs, by its address: tried first if one likes, and stored
//! with a credential that is never shown again.

use askama::Template;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::console::api_client::{ApiClient, ApiError, ApiPath, sentence};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::sign_in::redirect;

/// What an added server is, or would be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Added {
    slug: String,
    warnings: Vec<Warning>,
}

/// Something that was accepted and should be known.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Warning {
    message: String,
}

#[derive(Template)]
#[template(path = "integration_new.html")]
struct NewIntegrationPage<'a> {
    layout: &'a Layout,
    typed: &'a Fields,
    mistake: Mistake,
    /// The form was tried and would be accepted.
    tried: Option<Added>,
    /// The organisation that it is for, where that is not the visitor's own.
    organisation: &'a str,
}

/// What is wrong, and at which field; none where that is empty.
#[derive(Default)]
pub(super) struct Mistake {
    field: String,
    words: String,
    /// The stage of the server that failed.
    pub(super) stage: String,
}

impl Mistake {
    pub(super) fn new(field: &str, words: &str) -> Self {
        Self { field: field.to_owned(), words: words.to_owned(), stage: String::new() }
    }

    /// What is wrong with a field.
    pub(super) fn at(&self, field: &str) -> &str {
        if self.field == field { &self.words } else { "" }
    }

    /// What is wrong with none of the fields that the form has.
    pub(super) fn elsewhere(&self) -> &str {
        let fields = ["name", "serverUrl", "slug", "authMethod", "headerName", "credentials"];
        if fields.contains(&self.field.as_str()) { "" } else { &self.words }
    }
}

impl From<ApiError> for Mistake {
    fn from(error: ApiError) -> Self {
        let mut field = error.pointer.trim_start_matches('/');
        if field.is_empty() {
            field = find_field(&error.stage);
        }
        Self { field: field.to_owned(), words: sentence(&error.detail), stage: error.stage }
    }
}

/// The field that a stage is about.
fn find_field(stage: &str) -> &'static str {
    match stage {
        "" => "",
        "auth" => "credentials",
        _ => "serverUrl",
    }
}

/// The form, with what an address gives it.
pub(crate) async fn show_form(layout: Layout, QueryFields(typed): QueryFields) -> PageResult {
    show(&NewIntegrationPage {
        layout: &layout,
        typed: &typed,
        mistake: Mistake::default(),
        tried: None,
        organisation: typed.get("organisation"),
    })
}

/// Tries what was typed, or adds the server.
pub(crate) async fn create(
    layout: Layout,
    api: ApiClient,
    QueryFields(query): QueryFields,
    FormFields(typed): FormFields,
) -> PageResult {
    let is_trial = typed.get("action") == "try";
    let organisation = query.get("organisation");
    let path = ApiPath::new(&["api", "mcp-integrations", "custom"])?;
    let path = path.with("dryRun", if is_trial { "true" } else { "" });
    let path = path.with("organizationId", organisation);
    let answer: Result<Added, ApiError> = api.ask(&path, &write_body(&typed)).await;
    let mut page = NewIntegrationPage {
        layout: &layout,
        typed: &typed,
        mistake: Mistake::default(),
        tried: None,
        organisation,
    };
    match answer {
        Ok(added) if is_trial => {
            page.tried = Some(added);
            show(&page)
        }
        Ok(added) => {
            let server = match organisation {
                "" => ApiPath::new(&["console", "servers", &added.slug])?,
                name => ApiPath::new(&["console", "organisations", name])?,
            };
            Ok(redirect(server.as_str()))
        }
        Err(error) if error.is_of_form() => {
            page.mistake = error.into();
            render(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

/// What was typed, as the API takes it; fields that were left empty are left out. A server that
/// does not work is only stored where somebody asks for it.
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
