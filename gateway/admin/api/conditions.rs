//! The conditions of a change (`If-Match`, `Idempotency-Key`, `dryRun`) and its actor.

use std::sync::Arc;

use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};
use lockgate_authn::Role;
use lockgate_registry::{Actor, ChangeOptions, PrincipalKey};
use serde::Deserialize;

use super::access::Caller;
use super::problem::Problem;
use super::query::flag;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ChangeQuery {
    /// Return the result of the change and the affected agents, without making the change.
    #[serde(default, deserialize_with = "flag")]
    dry_run: Option<bool>,
}

#[cfg(test)]
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "describes headers; they are read by name")]
pub(crate) struct ChangeHeaders {
    /// The `ETag` of the version to change; 412 if there is a newer version.
    #[param(rename = "If-Match", pattern = r#"^(\*|"[0-9]{1,18}")$"#)]
    if_match: Option<String>,
    /// A repeated request with the same key within a day returns the first response, and the change
    /// is not made again.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255, pattern = "^[!-~]+$")]
    idempotency_key: Option<String>,
}

/// Headers of a change without an earlier version, such as a creation.
#[cfg(test)]
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "describes a header; it is read by name")]
pub(crate) struct CreationHeaders {
    /// A repeated request with the same key within a day returns the first response, and the change
    /// is not made again.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255, pattern = "^[!-~]+$")]
    idempotency_key: Option<String>,
}

#[cfg(test)]
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[allow(dead_code, reason = "describes a parameter; `Caller` reads it")]
pub(crate) struct OrganisationQuery {
    /// For operators: an organisation other than their own.
    #[param(max_length = 256)]
    organization_id: Option<String>,
}

impl ChangeQuery {
    /// Returns the options of a change. Fails if a header is invalid.
    pub(crate) fn read_options(&self, headers: &HeaderMap) -> Result<ChangeOptions, Problem> {
        Ok(ChangeOptions {
            expected_version: read_version(headers)?,
            idempotency_key: read_single(headers, IDEMPOTENCY_KEY)?.map(str::to_owned),
            dry_run: self.dry_run.unwrap_or(false),
        })
    }
}

/// Converts the caller to an actor of the registry.
pub(crate) fn make_actor(caller: &Caller) -> Actor {
    Actor {
        organisation: Arc::from(caller.organisation()),
        principal: PrincipalKey {
            issuer: caller.principal.issuer.to_string(),
            subject: caller.principal.subject.to_string(),
        },
        role: match caller.role {
            Role::Operator => lockgate_registry::Role::Operator,
            Role::Admin => lockgate_registry::Role::Admin,
            Role::User => lockgate_registry::Role::User,
        },
    }
}

/// Returns the version in `If-Match`, an entity tag of an earlier response; `None` if missing or
/// `*`.
fn read_version(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let Some(given) = read_single(headers, IF_MATCH.as_str())? else { return Ok(None) };
    if given == "*" {
        return Ok(None);
    }
    let tag = given.strip_prefix('"').and_then(|given| given.strip_suffix('"'));
    parse_version(tag.unwrap_or("")).map(Some)
}

/// Parses the version in an entity tag.
pub(crate) fn parse_version(tag: &str) -> Result<i64, Problem> {
    let wrong = "If-Match must be an ETag from a response, such as \"3\", or *";
    tag.parse().map_err(|_| invalid(wrong))
}

fn read_single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(invalid("a header contains non-ASCII characters")),
        },
        (Some(_), Some(_)) => Err(invalid("send If-Match and Idempotency-Key at most once")),
    }
}

fn invalid(detail: &'static str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "INVALID_HEADER", detail)
}

#[cfg(test)]
mod tests;
