//! Requests about integrations, converted to the registry's types. Error messages contain no
//! secrets.

use lockgate_registry::{
    Auth, CatalogueEntry, DailyCalls, Integration as Stored, IntegrationKind, IntegrationPatch,
    KEPT_DAYS, NewIntegration, Origin, Secret,
};
use lockgate_text::date;
use serde::Deserializer;
use serde::de::Error;

use super::validate::create;
use super::view::{Integration, describe_auth};
use crate::api::operation::*;
use crate::api::page::{ListPosition, StoredSort};

types! {
filter pub(crate) struct ListQuery {
    /// Part of the name or the slug, case-insensitive.
    search: Option<String> max 256,
    /// Only enabled, or only disabled integrations.
    enabled: Option<bool>,
    /// `custom` or `predefined`.
    #[serde(rename = "type")]
    kind: Option<IntegrationType>,
    /// Default `name`.
    pub(super) sort: Option<StoredSort>,
    pub(super) order: Option<SortOrder>,
}

/// The origin of an integration.
choice pub(crate) enum IntegrationType {
    Custom,
    Predefined,
}

/// An integration by its address.
input pub(crate) struct NewCustomIntegration {
    /// Display name; unique in the organisation.
    pub(super) name: String,
    /// The address of an MCP server: https, or http with a warning.
    pub(super) server_url: String,
    /// Authentication of the gateway at the server. Default `none`.
    #[serde(default)]
    pub(super) auth_method: AuthMethod,
    /// The header that carries the key, with `api_key`.
    #[serde(default, alias = "authHeaderName")]
    pub(super) header_name: Option<String>,
    /// The key or the token. It is never shown again.
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schema(write_only, value_type = Option<String>))]
    pub(super) credentials: Option<Secret>,
    /// The namespace of its tools. Default: derived from the name.
    pub(super) slug: Option<String>,
    /// Default `true`.
    pub(super) enabled: Option<bool>,
    /// Test the server first, and store nothing if the test fails. Default `false`.
    pub(super) validate: Option<bool>,
    /// The server of the operator's registry: `name@version`.
    #[serde(skip)]
    pub(super) source: Option<String>,
}

/// An integration from the catalogue.
input pub(crate) struct NewPredefinedIntegration {
    /// The entry of the catalogue.
    slug: String,
    /// Display name; unique in the organisation. Default: the title in the catalogue.
    name: Option<String>,
    /// The key or the token, if the entry requires one. It is never shown again.
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schema(write_only, value_type = Option<String>))]
    credentials: Option<Secret>,
    /// Default `true`.
    enabled: Option<bool>,
    /// Test the server first, and store nothing if the test fails. Default `false`.
    validate: Option<bool>,
}

/// The changes of an integration; omitted members are unchanged.
input pub(crate) struct IntegrationChange {
    name: Option<String>,
    /// A new address requires the credentials again. Integrations from the catalogue have none to
    /// change.
    server_url: Option<String>,
    /// A new method requires the credentials again.
    auth_method: Option<AuthMethod>,
    #[serde(default, alias = "authHeaderName")]
    header_name: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schema(write_only, value_type = Option<String>))]
    credentials: Option<Secret>,
    enabled: Option<bool>,
}
}

/// Authentication of the gateway at the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthMethod {
    #[default]
    None,
    ApiKey,
    BearerToken,
    /// Each member connects its own account.
    User,
    /// Each member enters its own key.
    UserHeaders,
}

impl ListQuery {
    pub(super) fn admits(&self, stored: &Stored) -> bool {
        let kind = self.kind.map(|kind| match kind {
            IntegrationType::Custom => IntegrationKind::Custom,
            IntegrationType::Predefined => IntegrationKind::Predefined,
        });
        let search = self.search.as_deref().unwrap_or_default();
        self.enabled.is_none_or(|enabled| enabled == stored.enabled)
            && kind.is_none_or(|kind| kind == stored.kind)
            && matches_search(stored, search)
    }
}

/// Returns whether the name or the slug of an integration has this part, ignoring case.
pub(crate) fn matches_search(stored: &Stored, search: &str) -> bool {
    let search = search.to_lowercase();
    stored.name.to_lowercase().contains(&search) || stored.slug.contains(&search)
}

/// Returns the position of an integration in a list.
pub(crate) fn place(stored: &Stored, sort: StoredSort) -> ListPosition {
    sort.place(&stored.name, &stored.id, (stored.created_at, stored.updated_at))
}

impl NewCustomIntegration {
    pub(super) fn read(self) -> Result<NewIntegration> {
        let auth = self.auth_method.with_header(self.header_name)?;
        Ok(NewIntegration {
            name: Some(self.name),
            slug: self.slug,
            origin: Origin::Custom { url: self.server_url, auth },
            credentials: self.credentials,
            enabled: self.enabled,
            source: self.source,
        })
    }
}

impl IntegrationChange {
    pub(super) fn read(self) -> Result<IntegrationPatch> {
        let auth = match (self.auth_method, self.header_name) {
            (None, None) => None,
            (None, Some(header)) => Some(Auth::ApiKey { header }),
            (Some(method), header) => Some(method.with_header(header)?),
        };
        Ok(IntegrationPatch {
            name: self.name,
            url: self.server_url,
            auth,
            credentials: self.credentials,
            enabled: self.enabled,
        })
    }
}

impl AuthMethod {
    /// Adds the header to the method. `api_key` requires a header, `user_headers` permits it, and
    /// other methods reject it.
    pub(crate) fn with_header(self, header: Option<String>) -> Result<Auth> {
        match (self, header) {
            (Self::ApiKey, Some(header)) => Ok(Auth::ApiKey { header }),
            (Self::ApiKey, None) => Err(wrong_header("`api_key` needs the name of the header")),
            (Self::UserHeaders, header) => Ok(Auth::UserHeaders { header }),
            (_, Some(_)) => Err(wrong_header("only `api_key` and `user_headers` have a header")),
            (Self::None, None) => Ok(Auth::None),
            (Self::BearerToken, None) => Ok(Auth::BearerToken),
            (Self::User, None) => Ok(Auth::User),
        }
    }
}

fn wrong_header(detail: &'static str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "INVALID_FIELD", detail).at("/headerName")
}

/// Deserializes a string that no error message repeats.
pub(crate) fn secret<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Secret>, D::Error> {
    match Value::deserialize(deserializer) {
        Ok(Value::String(text)) => Ok(Some(Secret::new(text))),
        Ok(Value::Null) => Ok(None),
        Ok(_) | Err(_) => Err(D::Error::custom("must be a string")),
    }
}

// Integrations from the operator's catalogue, whose addresses are for operators only, and daily
// counts of calls to an integration's tools.

types! {
/// An entry of the operator's catalogue.
output pub(crate) struct PredefinedIntegration {
    pub(crate) slug: String,
    /// Display name.
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    /// The required `credentials`: `api_key` or `bearer_token`; or `none`, `user` or
    /// `user_headers`.
    pub(crate) auth_method: &'static str,
    /// The header that carries the key, with `api_key` and `user_headers`.
    pub(crate) header_name: Option<String>,
}
}

impl PredefinedIntegration {
    fn new(slug: &str, entry: &CatalogueEntry) -> Self {
        let (auth_method, header_name) = describe_auth(&entry.auth);
        Self {
            slug: slug.to_owned(),
            name: entry.title.clone(),
            description: entry.description.clone(),
            auth_method,
            header_name,
        }
    }
}

pub(crate) async fn list_catalogue(
    by: By<User>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<PredefinedIntegration>>> {
    let catalogue = by.registry()?.catalogue();
    let all: Vec<_> =
        catalogue.iter().map(|(slug, entry)| PredefinedIntegration::new(slug, entry)).collect();
    Ok(Json(query.cut(all, |entry| &entry.slug)?))
}

pub(crate) async fn create_predefined_integration(
    by: By<Admin>,
    Body(body): Body<NewPredefinedIntegration>,
) -> Result<Reply<Integration>> {
    let new = NewIntegration {
        name: body.name,
        slug: None,
        origin: Origin::Predefined(body.slug),
        credentials: body.credentials,
        enabled: body.enabled,
        source: None,
    };
    create(by, new, body.validate).await
}

const SECONDS_PER_DAY: i64 = 86_400;

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CallsQuery {
    /// Number of days, up to today. Default 30.
    #[serde(default, deserialize_with = "number")]
    #[cfg_attr(test, param(minimum = 1, maximum = 90))]
    days: Option<i64>,
}

types! {
/// Calls of an integration's tools.
output pub(crate) struct IntegrationCalls {
    /// Days with calls, the oldest first.
    items: Vec<CallsOfDay>,
}

/// Calls of one day.
output pub(crate) struct CallsOfDay {
    /// In UTC, such as `2026-11-24`.
    day: String,
    calls: i64,
    failed: i64,
}
}

impl CallsOfDay {
    fn new(counted: &DailyCalls) -> Self {
        let DailyCalls { day, calls, failed, .. } = *counted;
        let mut day = date::of_seconds(day.saturating_mul(SECONDS_PER_DAY));
        day.truncate("2026-11-24".len());
        Self { day, calls, failed }
    }
}

pub(crate) async fn list_calls(
    by: By<User>,
    Path(id): Path<String>,
    Query(query): Query<CallsQuery>,
) -> Result<Json<IntegrationCalls>> {
    let days = query.days.unwrap_or(30);
    if !(1..=KEPT_DAYS).contains(&days) {
        let detail = format!("`days`: must be from 1 to {KEPT_DAYS}");
        return Err(Problem::in_query(detail));
    }
    let counted = by.registry()?.list_calls(&by.actor(), &id, days).await?;
    Ok(Json(IntegrationCalls { items: counted.iter().map(CallsOfDay::new).collect() }))
}

#[cfg(test)]
mod tests;
