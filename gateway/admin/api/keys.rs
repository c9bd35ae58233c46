//! API keys: of an organisation for its administrators, all for operators. A key's text is only in
//! the response to its creation. Callers cannot create keys with more permissions than their own.

mod change;

use std::collections::{HashMap, HashSet};

use change::{Effect, RETRY_SECONDS, change_keys, show_trial, unknown_key, write_change};
use lockgate_authn::key::{Key, parse_time, write_time};
use lockgate_authn::{Identity, KEY, Principal, is_scope};
use lockgate_text::organisation::find_mistake;

use super::access::unknown_organisation;
use super::operation::*;
use super::state::KeyChange;

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
    let keys = by.state.operations.keys();
    let visible = keys.iter().filter(|key| by.caller.sees(key.organisation_or_default()));
    visible.map(|key| ApiKey::new(key.clone(), now)).collect()
}

/// Creates a key, and returns it once.
///
/// The key is in force when the response arrives. It is stored in the file `auth.keys_file`, as by
/// `lockgate keys create`.
#[cfg_attr(test, utoipa::path(
    post, path = "/keys", tag = "keys", params(ChangeQuery, OrganisationQuery),
    request_body = NewKey,
    responses(
        (status = 201, body = MadeKey),
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
    let (mut key, text) = Key::mint(now).map_err(|error| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NO_RANDOMNESS", error.to_string())
    })?;
    key.name = body.name;
    key.organisation = organisation;
    key.roles = body.roles;
    key.scopes = body.scopes;
    key.agent = body.agent;
    key.expires = expires;
    check_grants(&state, &caller, &key)?;
    let change = KeyChange::Add(key.clone());
    if options.dry_run {
        write_change(Arc::clone(&state.operations), change.clone(), true).await?;
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
    delete, path = "/keys/{id}", tag = "keys", params(ChangeQuery, OrganisationQuery),
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
    let mut visible = keys.iter().filter(|key| caller.sees(key.organisation_or_default()));
    let known = visible.find(|key| key.id == id);
    let Some(key) = known.cloned() else { return Err(unknown_key()) };
    if role_of(&state, &key) > caller.role {
        let detail = "this key has more permissions than your credential: ask an operator to \
            revoke it";
        return Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail));
    }
    let change = KeyChange::Revoke { id, at: read_clock() };
    if options.dry_run {
        write_change(Arc::clone(&state.operations), change.clone(), true).await?;
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
        let keys = state.operations.keys();
        let visible = keys.iter().filter(|key| caller.sees(key.organisation_or_default()));
        Self(visible.map(|key| (key.id.clone(), key.name.clone())).collect())
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

// The request for a new key, and the check of its grants against those of the caller.

/// Limit on a name, role or agent, in bytes.
const MAX_TEXT: usize = 256;
/// Maximum number of roles, and of scopes, per key.
const MAX_GRANTS: usize = 256;

/// The properties of a new key.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct NewKey {
    /// Its user or purpose.
    #[cfg_attr(test, schema(min_length = 1, max_length = 256))]
    name: String,
    /// Only operators may set an organisation other than their own.
    #[cfg_attr(test, schema(max_length = 256))]
    organization_id: Option<String>,
    /// Administrators may grant only roles and scopes of their own credential.
    #[serde(default)]
    #[cfg_attr(test, schema(max_items = 256))]
    roles: Vec<String>,
    #[serde(default)]
    #[cfg_attr(test, schema(max_items = 256))]
    scopes: Vec<String>,
    /// The software that uses it.
    #[cfg_attr(test, schema(max_length = 256))]
    agent: Option<String>,
    /// Its expiry: `2027-01-31`, or RFC 3339. Never expires if omitted.
    expires_at: Option<String>,
}

impl NewKey {
    fn check(&self) -> Result<(), Problem> {
        check_text("/name", &self.name)?;
        if let Some(agent) = &self.agent {
            check_text("/agent", agent)?;
        }
        if let Some(mistake) = self.organization_id.as_deref().and_then(find_mistake) {
            return Err(Problem::in_body("/organizationId", mistake));
        }
        for (pointer, all) in [("/roles", &self.roles), ("/scopes", &self.scopes)] {
            if all.len() > MAX_GRANTS {
                return Err(Problem::in_body(pointer, "has more than 256 items"));
            }
            check_repetition(pointer, all)?;
        }
        for (at, role) in self.roles.iter().enumerate() {
            check_text(&format!("/roles/{at}"), role)?;
        }
        for (at, scope) in self.scopes.iter().enumerate() {
            if !is_scope(scope) {
                let detail = "is not a scope: use ASCII without spaces and quotes";
                return Err(Problem::in_body(&format!("/scopes/{at}"), detail));
            }
        }
        Ok(())
    }

    fn read_expiry(&self, now: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = &self.expires_at else { return Ok(None) };
        match parse_time(text) {
            Some(expires) if expires > now => Ok(Some(expires)),
            Some(_) => Err(Problem::in_body("/expiresAt", "is in the past")),
            None => {
                Err(Problem::in_body("/expiresAt", "is not a time: use 2027-01-31 or RFC 3339"))
            }
        }
    }

    /// Returns the organisation of the key, if the caller may create keys there.
    async fn find_organisation(
        &self,
        state: &ApiState,
        caller: &Caller,
    ) -> Result<Option<String>, Problem> {
        if let Some(wanted) = &self.organization_id
            && wanted != caller.organisation()
        {
            if caller.role != Role::Operator {
                let detail = "only operators may create keys for another organisation";
                return Err(forbidden("/organizationId", detail));
            }
            if !state.knows_organisation(wanted).await {
                return Err(unknown_organisation().at("/organizationId"));
            }
            return Ok(Some(wanted.clone()));
        }
        Ok(caller.principal.named_organisation().map(str::to_owned))
    }
}

/// Rejects repeated words, which only take up space in the shared file.
fn check_repetition(pointer: &str, all: &[String]) -> Result<(), Problem> {
    let mut seen = HashSet::new();
    for (at, word) in all.iter().enumerate() {
        if !seen.insert(word.as_str()) {
            return Err(Problem::in_body(&format!("{pointer}/{at}"), "is repeated"));
        }
    }
    Ok(())
}

/// Checks that an administrator's key creates no key that expires later.
fn check_end(state: &ApiState, caller: &Caller, key: &Key) -> Result<(), Problem> {
    if *caller.principal.issuer != *KEY {
        return Ok(());
    }
    let keys = state.operations.keys();
    let own = keys.iter().find(|own| *own.id == *caller.principal.subject);
    let Some(Key { expires: Some(end), .. }) = own else { return Ok(()) };
    if matches!(key.expires, Some(expires) if expires <= *end) {
        return Ok(());
    }
    let end = write_time(*end);
    let detail = format!("your own key expires at {end}: choose an expiry that is not later");
    Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail).at("/expiresAt"))
}

/// Checks that callers grant only their own permissions: no higher role of the gateway, and for
/// administrators only roles, scopes and the agent of their own credential.
fn check_grants(state: &ApiState, caller: &Caller, key: &Key) -> Result<(), Problem> {
    if role_of(state, key) > caller.role {
        return Err(forbidden(
            "/roles",
            "this key would have more permissions than your credential: ask an operator for it",
        ));
    }
    if caller.role == Role::Operator {
        return Ok(());
    }
    check_end(state, caller, key)?;
    if key.agent.is_some() && key.agent.as_deref() != caller.principal.agent.as_deref() {
        check_agent(state, caller, key)?;
    }
    for (at, role) in key.roles.iter().enumerate() {
        let is_own = caller.principal.roles.iter().any(|own| **own == **role);
        if !is_own && !state.operations.settings().grants.contains(role) {
            let detail = "your own credential does not have this role, and it is not in \
                `admin.grants`: ask an operator for it";
            return Err(forbidden(&format!("/roles/{at}"), detail));
        }
    }
    for (at, scope) in key.scopes.iter().enumerate() {
        if !caller.principal.has_scope(scope) {
            let detail = "your own credential does not have this scope: ask an operator for it";
            return Err(forbidden(&format!("/scopes/{at}"), detail));
        }
    }
    Ok(())
}

/// Returns the role of a key's holder.
fn role_of(state: &ApiState, key: &Key) -> Role {
    let mut identity = Identity::new(KEY, &key.id).in_organisation(key.organisation.as_deref());
    identity.roles = key.roles.iter().map(|role| role.as_str().into()).collect();
    state.operations.settings().role_holders.role_of(&Principal::new(identity))
}

/// Checks that an administrator creates keys only for agents of its organisation.
fn check_agent(state: &ApiState, caller: &Caller, key: &Key) -> Result<(), Problem> {
    let detail = "this is neither an agent of your organisation nor the agent of your own \
        credential: ask an operator for it";
    let registry = state.operations.registry().ok_or_else(|| forbidden("/agent", detail))?;
    let agent = key.agent.as_deref().unwrap_or("");
    let found = registry.agent(&make_actor(caller), agent);
    found.map(drop).map_err(|_| forbidden("/agent", detail))
}

fn check_text(pointer: &str, text: &str) -> Result<(), Problem> {
    if (1..=MAX_TEXT).contains(&text.len()) && !text.contains(char::is_control) {
        return Ok(());
    }
    Err(Problem::in_body(pointer, "must be 1 to 256 bytes without control characters"))
}

fn forbidden(pointer: &str, detail: &'static str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail).at(pointer)
}
