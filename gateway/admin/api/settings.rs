//! The configuration in force, for operators: every key, its value and its origin. Secrets are
//! references or omitted.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::page::{Page, PageQuery};
use super::problem::Problem;
use super::query::{Query, number};
use super::state::{EffectiveSetting, Shared};

/// A key of the configuration.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Setting {
    /// Such as `servers.time.timeout`.
    key: String,
    /// None where nothing is set; a secret is the reference to it, or is not shown.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Value>)]
    value: Value,
    /// What holds where nothing is set, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    otherwise: Option<String>,
    /// The file with line and column, the variable or the flag that says so; none of a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

impl Setting {
    fn new(setting: EffectiveSetting) -> Self {
        let EffectiveSetting { key, value, otherwise, origin } = setting;
        Self { key, value, otherwise, origin }
    }
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SettingsQuery {
    /// Items of a page.
    #[serde(default, deserialize_with = "number")]
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// Where the page begins: `nextCursor` of the page before.
    #[serde(default)]
    #[param(max_length = 1024)]
    cursor: Option<String>,
    /// Only keys that have this text in them.
    #[serde(default)]
    #[param(max_length = 256)]
    search: Option<String>,
    /// `given`: only what somebody has written somewhere.
    #[serde(default)]
    #[param(inline)]
    only: Option<Only>,
}

/// What lists of settings are narrowed to.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Only {
    Given,
}

/// The configuration that is in force.
///
/// As `lockgate config show` prints it. It is read anew: where the files have mistakes, the gateway
/// goes by what it read before, and this says which mistakes.
#[utoipa::path(
    get,
    path = "/settings",
    tag = "settings",
    params(SettingsQuery),
    responses(
        (status = 200, body = Page<Setting>),
        (status = 409, description = "The configuration has errors"),
    )
)]
pub(crate) async fn list_settings(
    State(state): Shared,
    Query(query): Query<SettingsQuery>,
) -> Result<Json<Page<Setting>>, Problem> {
    let operations = Arc::clone(&state.operations);
    let read = tokio::task::spawn_blocking(move || operations.effective_settings()).await;
    let all = match read {
        Ok(Ok(all)) => all,
        Ok(Err(mistakes)) => {
            return Err(Problem::new(StatusCode::CONFLICT, "CONFIGURATION_BROKEN", mistakes));
        }
        Err(_) => {
            let detail = "the configuration cannot be read; see the gateway's log";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", detail));
        }
    };
    let mut settings = Vec::new();
    for setting in all {
        if query.only.is_none() || setting.origin.is_some() {
            settings.push(Setting::new(setting));
        }
    }
    let SettingsQuery { limit, cursor, search, .. } = query;
    let page = PageQuery { limit, cursor, search };
    Ok(Json(page.cut(settings, |setting| &setting.key)?))
}
