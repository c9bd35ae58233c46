//! The request for a new key, and the check of its grants against those of the caller.

use std::collections::HashSet;

use axum::http::StatusCode;
use lockgate_authn::key::{Key, parse_time, write_time};
use lockgate_authn::{Identity, KEY, Principal, Role, is_scope};
use lockgate_text::organisation::find_mistake;
use serde::Deserialize;

use crate::api::access::{Caller, unknown_organisation};
use crate::api::conditions::make_actor;
use crate::api::problem::Problem;
use crate::api::state::ApiState;

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
    pub(super) name: String,
    /// Only operators may set an organisation other than their own.
    #[cfg_attr(test, schema(max_length = 256))]
    pub(super) organization_id: Option<String>,
    /// Administrators may grant only roles and scopes of their own credential.
    #[serde(default)]
    #[cfg_attr(test, schema(max_items = 256))]
    pub(super) roles: Vec<String>,
    #[serde(default)]
    #[cfg_attr(test, schema(max_items = 256))]
    pub(super) scopes: Vec<String>,
    /// The software that uses it.
    #[cfg_attr(test, schema(max_length = 256))]
    pub(super) agent: Option<String>,
    /// Its expiry: `2027-01-31`, or RFC 3339. Never expires if omitted.
    expires_at: Option<String>,
}

impl NewKey {
    pub(super) fn check(&self) -> Result<(), Problem> {
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

    pub(super) fn read_expiry(&self, now: u64) -> Result<Option<u64>, Problem> {
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
    pub(super) async fn find_organisation(
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
pub(super) fn check_grants(state: &ApiState, caller: &Caller, key: &Key) -> Result<(), Problem> {
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
pub(super) fn role_of(state: &ApiState, key: &Key) -> Role {
    let mut identity = Identity::new(KEY, &key.id).in_organisation(key.organisation.as_deref());
    identity.roles = key.roles.iter().map(|role| role.as_str().into()).collect();
    state.operations.settings().role_holders.role_of(&Principal::new(identity))
}

/// Checks that an administrator creates keys only for agents of its organisation.
fn check_agent(state: &ApiState, caller: &Caller, key: &Key) -> Result<(), Problem> {
    let detail = "this is neither an agent of your organisation nor the agent of your own \
        credential: ask an operator for it";
    let Some(registry) = state.operations.registry() else {
        return Err(forbidden("/agent", detail));
    };
    match registry.agent(&make_actor(caller), key.agent.as_deref().unwrap_or("")) {
        Ok(_) => Ok(()),
        Err(_) => Err(forbidden("/agent", detail)),
    }
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
