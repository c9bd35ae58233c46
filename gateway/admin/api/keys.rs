//! API keys: of an organisation for its administrators, all for operators. A key's text is only in
//! the response to its creation. Callers cannot create keys with more permissions than their own.

mod change;
mod input;

use std::collections::HashMap;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use change::{Effect, change_keys, rehearse};
use change::{RETRY_SECONDS, show_trial, unknown_key};
use input::{NewKey, check_grants, role_of};
use lockgate_authn::KEY;
use lockgate_authn::key::Key;
use serde::Serialize;

use super::access::{Admin, By, Caller};
use super::body::Body;
use super::change::Deletion;
#[cfg(test)]
use super::conditions::{ChangeQuery, OrganisationQuery};
use super::page::{Page, PageQuery};
#[cfg(test)]
use super::page::{PartQuery, SearchQuery};
use super::problem::Problem;
use super::query::Query;
use super::state::{ApiState, KeyChange};

pub(crate) use change::ApiKey;
pub(in crate::api) use change::read_clock;

/// A created key.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct MadeKey {
    /// The key itself, shown only once. Absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(flatten)]
    pub(crate) about: ApiKey,
}

/// Lists the API keys of the caller's organisation; for operators, all.
#[cfg_attr(test, utoipa::path(
    get, path = "/keys", tag = "keys", params(PartQuery, SearchQuery, OrganisationQuery),
    responses((status = 200, body = Page<ApiKey>)),
))]
pub(crate) async fn list_keys(
    by: By<Admin>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ApiKey>>, Problem> {
    Ok(Json(query.cut(list_visible(&by), |key| &key.id)?))
}

/// Returns all keys that the caller may see.
pub(crate) fn list_visible(by: &By<Admin>) -> Vec<ApiKey> {
    let now = read_clock();
    let mut keys = Vec::new();
    for key in &*by.state.operations.keys() {
        if may_see(&by.caller, key) {
            keys.push(ApiKey::new(key.clone(), now));
        }
    }
    keys
}

fn may_see(caller: &Caller, key: &Key) -> bool {
    caller.sees_all() || key.organisation_or_default() == caller.organisation()
}

/// Creates a key, and returns it once.
///
/// The key is in force when the response arrives. It is stored in the file `auth.keys_file`, as by
/// `lockgate keys create`.
#[cfg_attr(test, utoipa::path(
    post, path = "/keys", tag = "keys", params(ChangeQuery, OrganisationQuery),
    request_body = NewKey,
    responses(
        (status = 201, body = MadeKey), (status = 200, body = MadeKey, description = "`dryRun`"),
        (status = 202, body = MadeKey, description = "Created, but not in force yet"),
        (status = 400, description = "An error in the body"),
        (status = 409, description = "No keys file is configured, or it is full"),
    ),
))]
pub(crate) async fn create_key(
    By { state, caller, options, .. }: By<Admin>,
    Body(body): Body<NewKey>,
) -> Result<(StatusCode, Json<MadeKey>), Problem> {
    body.check()?;
    let now = read_clock();
    let expires = body.read_expiry(now)?;
    let organisation = body.find_organisation(&state, &caller).await?;
    let (mut key, text) = match Key::mint(now) {
        Ok(minted) => minted,
        Err(error) => {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Err(Problem::new(status, "NO_RANDOMNESS", error.to_string()));
        }
    };
    key.name = body.name;
    key.organisation = organisation;
    key.roles = body.roles;
    key.scopes = body.scopes;
    key.agent = body.agent;
    key.expires = expires;
    check_grants(&state, &caller, &key)?;
    let change = KeyChange::Add(key.clone());
    if options.dry_run {
        rehearse(&state, change.clone()).await?;
        return Ok((StatusCode::OK, Json(MadeKey { key: None, about: show_trial(key, &change) })));
    }
    let effect = change_keys(&state, &caller, &key, change).await?;
    let mut about = ApiKey::new(key, now);
    let mut status = StatusCode::CREATED;
    if effect == Effect::Waits {
        about.state = "pending";
        status = StatusCode::ACCEPTED;
    }
    Ok((status, Json(MadeKey { key: Some(text), about })))
}

/// Revokes a key.
///
/// It is no longer valid when the response arrives. A revoked key stays revoked.
#[cfg_attr(test, utoipa::path(
    delete, path = "/keys/{id}", tag = "keys",
    params(("id" = String, Path), ChangeQuery, OrganisationQuery),
    responses(
        (status = 204, description = "Revoked"),
        (status = 200, body = ApiKey, description = "`dryRun`"),
        (status = 404, description = "No such key"),
        (status = 503, description = "Not revoked, or not in force yet"),
    ),
))]
pub(crate) async fn revoke_key(
    By { state, caller, options, .. }: By<Admin>,
    Path(id): Path<String>,
) -> Result<Deletion<ApiKey>, Problem> {
    let keys = state.operations.keys();
    let known = keys.iter().find(|key| key.id == id && may_see(&caller, key));
    let Some(key) = known.cloned() else { return Err(unknown_key()) };
    if role_of(&state, &key) > caller.role {
        let detail = "this key has more permissions than your credential: ask an operator to \
            revoke it";
        return Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail));
    }
    let change = KeyChange::Revoke { id, at: read_clock() };
    if options.dry_run {
        rehearse(&state, change.clone()).await?;
        return Ok(Deletion(Some(show_trial(key, &change))));
    }
    // A key that is revoked already needs no change.
    if key.revoked.is_none() && change_keys(&state, &caller, &key, change).await? == Effect::Waits {
        let detail = "the key is revoked in the file, but this gateway has not applied the file \
            yet: see its log, then retry";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_IN_FORCE", detail);
        return Err(problem.retry_after(RETRY_SECONDS));
    }
    Ok(Deletion(None))
}

pub(crate) struct KeyNames(HashMap<String, String>);

impl KeyNames {
    pub(crate) fn of(state: &ApiState, caller: &Caller) -> Self {
        let mut names = HashMap::new();
        for key in &*state.operations.keys() {
            if caller.sees_all() || key.organisation_or_default() == caller.organisation() {
                names.insert(key.id.clone(), key.name.clone());
            }
        }
        Self(names)
    }

    /// Returns the name of a key by its issuer and subject.
    pub(crate) fn find(&self, issuer: &str, subject: &str) -> Option<&str> {
        let name = self.0.get(subject)?;
        (issuer == KEY).then_some(name)
    }

    /// Returns the name of a key by `issuer|subject`.
    pub(crate) fn find_whole(&self, principal: &str) -> Option<&str> {
        let (issuer, subject) = principal.split_once('|')?;
        self.find(issuer, subject)
    }
}
