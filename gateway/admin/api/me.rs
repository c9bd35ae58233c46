//! The caller: its name, its permissions and the number of calls that wait for it.

use super::access::Permission;
use super::events::Position;
use super::operation::*;
pub(crate) use super::state::EffectiveSetting as Setting;

types! {
/// The caller of the API.
#[derive(Clone, Default)]
#[serde(default)]
output pub(crate) struct Me {
    pub(crate) issuer: String,
    pub(crate) subject: String,
    /// The name of its API key.
    pub(crate) name: Option<String>,
    pub(crate) organization_id: String,
    /// `user`, `admin` or `operator`.
    pub(crate) role: String,
    pub(crate) roles: Vec<String>,
    pub(crate) scopes: Vec<String>,
    /// Roles that the caller may give to keys; operators can give any role.
    pub(crate) grants: Vec<String>,
    /// The URL for MCP clients.
    pub(crate) endpoint: String,
    /// Calls that wait for the caller's approval.
    pub(crate) approvals: usize,
    /// The tools of the caller's own calls that wait for the approval of others.
    pub(crate) pending: Vec<String>,
    /// Whether keys can be created and revoked: `auth.keys_file` is set.
    pub(crate) has_keys_file: bool,
    /// The current position in the caller's events, for `GET /events`.
    pub(crate) position: String,
}

filter pub(crate) struct MeQuery {
    /// For administrators: `position` includes `decided`.
    pub(crate) decisions: Option<bool>,
}
}

pub(crate) async fn show_me(by: By<User>, Query(query): Query<MeQuery>) -> Json<Me> {
    let Context { state, caller, .. } = &*by;
    let decisions = query.decisions.unwrap_or(false) && caller.role >= Role::Admin;
    let position = Position::now(&by, decisions).await.to_string();
    let principal = &caller.principal;
    let roles: Vec<String> = principal.roles.iter().map(ToString::to_string).collect();
    let scopes = principal.scopes.iter().map(ToString::to_string).collect();
    let mut grants = roles.clone();
    if caller.role >= Role::Admin {
        grants.extend(state.operations.settings().grants.iter().cloned());
    }
    grants.sort();
    grants.dedup();
    let waiting = &state.gateway.approvals.waiting;
    Json(Me {
        grants,
        issuer: principal.issuer.to_string(),
        subject: principal.subject.to_string(),
        name: principal.key_name.as_deref().map(str::to_owned),
        organization_id: caller.organisation().to_owned(),
        role: Permission::AtLeast(caller.role).as_str().to_owned(),
        roles,
        scopes,
        endpoint: format!("{}/mcp", caller.base),
        approvals: waiting.list(state.gateway.approver(principal)).len(),
        pending: waiting.list_tools_of(principal),
        has_keys_file: state.operations.has_keys_file(),
        position,
    })
}

// The configuration in force, for operators: every key, its value and its origin. Secrets are
// references or omitted.

types! {
filter pub(crate) struct SettingsQuery {
    /// Only keys that contain this text.
    search: Option<String> max 256,
    /// `given`: only settings that are not defaults.
    only: Option<Only>,
}

/// A filter of the settings.
choice pub(crate) enum Only {
    Given,
}
}

pub(crate) async fn list_settings(
    by: By<Operator>,
    Query(query): Query<Paged<SettingsQuery>>,
) -> Result<Json<Page<Setting>>> {
    let operations = Arc::clone(&by.state.operations);
    let read = tokio::task::spawn_blocking(move || operations.effective_settings()).await;
    let read = read.map_err(|_| {
        let detail = "the configuration cannot be read; see the gateway's log";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", detail)
    })?;
    let mut all = read
        .map_err(|mistakes| Problem::new(StatusCode::CONFLICT, "CONFIGURATION_BROKEN", mistakes))?;
    all.retain(|setting| query.filter.only.is_none() || setting.origin.is_some());
    let search = query.filter.search.as_deref();
    Ok(Json(query.part.cut(search, all, |setting| &setting.key)?))
}
