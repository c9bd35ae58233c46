//! Keys: who may come in with what, without their secrets; a new one, shown once; one taken out of
//! force.

use askama::Template;
use axum::extract::Path;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List, sentence};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, FormFields, QueryFields};
use crate::console::layout::Layout;
use crate::console::redirect::redirect;

/// Keys of one page of the API.
const PART: &str = "200";
/// Pages of the API that are looked at.
const MAX_PARTS: usize = 50;

/// A key as the API shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ApiKey {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) organization_id: String,
    pub(crate) roles: Vec<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) state: String,
    pub(crate) created_at: String,
    pub(crate) expires_at: Option<String>,
}

/// A key that was made: its text is in this answer alone.
#[derive(Deserialize)]
struct MadeKey {
    key: String,
    #[serde(flatten)]
    about: ApiKey,
}

#[derive(Template)]
#[template(path = "keys.html")]
struct KeysPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    keys: Vec<ApiKey>,
    total: usize,
}

#[derive(Template)]
#[template(path = "key_new.html")]
struct NewKeyPage<'a> {
    layout: &'a Layout,
    typed: &'a Fields,
    /// The field that is wrong, and why.
    mistake: (String, String),
}

#[derive(Template)]
#[template(path = "key_made.html")]
struct MadeKeyPage<'a> {
    layout: &'a Layout,
    made: MadeKey,
}

#[derive(Template)]
#[template(path = "key_revoke.html")]
struct RevokePage<'a> {
    layout: &'a Layout,
    key: ApiKey,
}

impl ApiKey {
    /// Whether it ends before a time, both as RFC 3339 in UTC.
    pub(crate) fn ends_before(&self, time: &str) -> bool {
        matches!(self.expires_at.as_deref(), Some(ends) if ends < time)
    }

    pub(crate) fn severity(&self) -> Severity {
        match self.state.as_str() {
            "active" => Severity::Good,
            "expired" => Severity::Bad,
            _ => Severity::Off,
        }
    }

    fn fits(&self, search: &str) -> bool {
        self.name.contains(search) || self.id.starts_with(search)
    }
}

impl NewKeyPage<'_> {
    /// What is wrong with a field, or with one of its items.
    fn at(&self, field: &str) -> &str {
        let (place, words) = &self.mistake;
        if place.split('/').next() == Some(field) { words } else { "" }
    }
}

/// The keys that the visitor may see.
pub(crate) async fn load_keys(api: &ApiClient) -> Result<List<ApiKey>, ApiError> {
    let mut all = List { items: Vec::new(), total: 0, next_cursor: None };
    for _ in 0..MAX_PARTS {
        let cursor = all.next_cursor.take().unwrap_or_default();
        let path = ApiPath::new(&["api", "keys"])?.with("limit", PART).with("cursor", &cursor);
        let part: List<ApiKey> = api.get(&path).await?;
        all.items.extend(part.items);
        all.total = part.total;
        all.next_cursor = part.next_cursor;
        if all.next_cursor.is_none() {
            break;
        }
    }
    Ok(all)
}

/// The list. Keys are searched by name, or by the beginning of their id; those that are good come
/// first.
pub(crate) async fn list_keys(
    layout: Layout,
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let List { items: mut keys, total, .. } = load_keys(&api).await?;
    keys.retain(|key| key.fits(search));
    keys.sort_by_key(|key| key.state != "active");
    show(&KeysPage { layout: &layout, search, keys, total })
}

/// The form of a new key.
pub(crate) async fn show_form(layout: Layout, QueryFields(typed): QueryFields) -> PageResult {
    show(&NewKeyPage { layout: &layout, typed: &typed, mistake: (String::new(), String::new()) })
}

/// Makes a key, and shows it once.
pub(crate) async fn create_key(
    layout: Layout,
    api: ApiClient,
    FormFields(typed): FormFields,
) -> PageResult {
    let path = ApiPath::new(&["api", "keys"])?;
    let made: Result<MadeKey, ApiError> = api.ask(&path, &write_body(&typed)).await;
    match made {
        Ok(made) => show(&MadeKeyPage { layout: &layout, made }),
        Err(error) if error.is_of_form() || !error.pointer.is_empty() => {
            let field = error.pointer.trim_start_matches('/').to_owned();
            let mistake = (field, sentence(&error.detail));
            let page = NewKeyPage { layout: &layout, typed: &typed, mistake };
            render(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

fn write_body(typed: &Fields) -> Value {
    let mut body = json!({"name": typed.get("name")});
    for field in ["organizationId", "agent", "expiresAt"] {
        if !typed.get(field).is_empty() {
            body[field] = typed.get(field).into();
        }
    }
    for field in ["roles", "scopes"] {
        let words: Vec<&str> = typed.get(field).split_whitespace().collect();
        body[field] = words.into();
    }
    body
}

/// A key that is about to be taken out of force.
pub(crate) async fn show_revocation(
    layout: Layout,
    api: ApiClient,
    Path(id): Path<String>,
) -> PageResult {
    let found = load_keys(&api).await?.items.into_iter().find(|key| key.id == id);
    let Some(key) = found else {
        return Err(PageError::not_found("There is no key of this id that you may see."));
    };
    show(&RevokePage { layout: &layout, key })
}

/// Takes a key out of force.
pub(crate) async fn revoke_key(api: ApiClient, Path(id): Path<String>) -> PageResult {
    api.change(Method::DELETE, &ApiPath::new(&["api", "keys", &id])?, None, None).await?;
    Ok(redirect("/console/keys"))
}
