//! API keys: of an organisation for its administrators, all for operators. A key's text is only in
//! the response to its creation. Callers cannot create keys with more permissions than their own.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lockgate_admission::{CallerId, Permit};
use lockgate_authn::key::{Key, parse_time, write_time};
use lockgate_authn::{Identity, KEY, Principal, is_scope};
use lockgate_text::date;
use lockgate_text::organisation::find_mistake;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::access::unknown_organisation;
use super::change::wait_until;
use super::operation::*;
use super::state::{FileChangeError, Operations};

types! {
/// A created key.
output pub(crate) struct MadeKey {
    /// The key itself, shown only once. Absent in a dry run.
    pub(crate) key: Option<String>,
    #[serde(flatten)]
    pub(crate) about: ApiKey,
}
}

pub(crate) async fn list_keys(
    by: By<Admin>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ApiKey>>> {
    Ok(Json(query.cut(list_visible(&by), |key| &key.id)?))
}

/// Returns all keys that the caller may see.
pub(crate) fn list_visible(by: &By<Admin>) -> Vec<ApiKey> {
    let now = date::now();
    let keys = by.state.operations.keys();
    let visible = keys.iter().filter(|key| by.caller.sees(key.organisation_or_default()));
    visible.map(|key| ApiKey::new(key.clone(), now)).collect()
}

pub(crate) async fn create_key(
    by: By<Admin>,
    Body(body): Body<NewKey>,
) -> Result<(StatusCode, Json<MadeKey>)> {
    body.check()?;
    let now = date::now();
    let expires = body.read_expiry(now)?;
    let organisation = body.find_organisation(&by).await?;
    let (mut key, text) = Key::mint(now).ok_or_else(|| {
        let detail = "the system returned no random bytes";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NO_RANDOMNESS", detail)
    })?;
    key.name = body.name;
    key.organisation = organisation;
    key.roles = body.roles;
    key.scopes = body.scopes;
    key.agent = body.agent;
    key.expires = expires;
    check_grants(&by, &key)?;
    if by.options.dry_run {
        let about = try_change(&by, key).await?;
        return Ok((StatusCode::OK, Json(MadeKey { key: None, about })));
    }
    let is_in_force = change_keys(&by, None, &key).await?;
    let mut about = ApiKey::new(key, now);
    let mut status = StatusCode::CREATED;
    if !is_in_force {
        about.state = "pending";
        status = StatusCode::ACCEPTED;
    }
    Ok((status, Json(MadeKey { key: Some(text), about })))
}

pub(crate) async fn revoke_key(by: By<Admin>, Path(id): Path<String>) -> Result<Deletion<ApiKey>> {
    let keys = by.state.operations.keys();
    let mut visible = keys.iter().filter(|key| by.caller.sees(key.organisation_or_default()));
    let known = visible.find(|key| key.id == id);
    let Some(key) = known.cloned() else { return Err(unknown_key()) };
    if role_of(&by.state, &key) > by.caller.role {
        let detail = "this key has more permissions than your credential: ask an operator to \
            revoke it";
        return Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail));
    }
    let revoked = Key { revoked: key.revoked.or(Some(date::now())), ..key.clone() };
    if by.options.dry_run {
        return Ok(Deletion(Some(try_change(&by, revoked).await?)));
    }
    // A key that is revoked already needs no change.
    if key.revoked.is_none() && !change_keys(&by, Some(key), &revoked).await? {
        let detail = "the key is revoked in the file, but this gateway has not applied the file \
            yet: see its log, then retry";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_IN_FORCE", detail);
        return Err(problem.retry_after(RETRY_SECONDS));
    }
    Ok(Deletion(None))
}

/// The names of the keys that a caller may see, by their ids.
pub(crate) struct KeyNames(HashMap<String, String>);

impl KeyNames {
    pub(crate) fn of(by: &Context) -> Self {
        let keys = by.state.operations.keys();
        let visible = keys.iter().filter(|key| by.caller.sees(key.organisation_or_default()));
        Self(visible.map(|key| (key.id.clone(), key.name.clone())).collect())
    }

    /// Returns the name of a key by its issuer and subject.
    pub(crate) fn find(&self, issuer: &str, subject: &str) -> Option<&str> {
        let name = self.0.get(subject)?;
        (issuer == KEY).then_some(name)
    }
}

// The request for a new key, and the check of its grants against those of the caller.

/// Limit on a name, role or agent, in bytes.
const MAX_TEXT: usize = 256;
/// Maximum number of roles, and of scopes, per key.
const MAX_GRANTS: usize = 256;

types! {
/// The properties of a new key.
input pub(crate) struct NewKey {
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
}

impl NewKey {
    fn check(&self) -> Result<()> {
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

    fn read_expiry(&self, now: u64) -> Result<Option<u64>> {
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
    async fn find_organisation(&self, by: &Context) -> Result<Option<String>> {
        if let Some(wanted) = &self.organization_id
            && wanted != by.caller.organisation()
        {
            if by.caller.role != Role::Operator {
                let detail = "only operators may create keys for another organisation";
                return Err(forbidden("/organizationId", detail));
            }
            if !by.state.knows_organisation(wanted).await {
                return Err(unknown_organisation().at("/organizationId"));
            }
            return Ok(Some(wanted.clone()));
        }
        Ok(by.caller.principal.named_organisation().map(str::to_owned))
    }
}

/// Rejects repeated words, which only take up space in the shared file.
fn check_repetition(pointer: &str, all: &[String]) -> Result<()> {
    let mut seen = HashSet::new();
    for (at, word) in all.iter().enumerate() {
        if !seen.insert(word.as_str()) {
            return Err(Problem::in_body(&format!("{pointer}/{at}"), "is repeated"));
        }
    }
    Ok(())
}

/// Checks that an administrator's key creates no key that expires later.
fn check_end(by: &Context, key: &Key) -> Result<()> {
    if *by.caller.principal.issuer != *KEY {
        return Ok(());
    }
    let keys = by.state.operations.keys();
    let own = keys.iter().find(|own| *own.id == *by.caller.principal.subject);
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
fn check_grants(by: &Context, key: &Key) -> Result<()> {
    let principal = &by.caller.principal;
    if role_of(&by.state, key) > by.caller.role {
        return Err(forbidden(
            "/roles",
            "this key would have more permissions than your credential: ask an operator for it",
        ));
    }
    if by.caller.role == Role::Operator {
        return Ok(());
    }
    check_end(by, key)?;
    if key.agent.is_some() && key.agent.as_deref() != principal.agent.as_deref() {
        check_agent(by, key)?;
    }
    for (at, role) in key.roles.iter().enumerate() {
        let is_own = principal.roles.iter().any(|own| **own == **role);
        if !is_own && !by.state.operations.settings().grants.contains(role) {
            let detail = "your own credential does not have this role, and it is not in \
                `admin.grants`: ask an operator for it";
            return Err(forbidden(&format!("/roles/{at}"), detail));
        }
    }
    for (at, scope) in key.scopes.iter().enumerate() {
        if !principal.has_scope(scope) {
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
fn check_agent(by: &Context, key: &Key) -> Result<()> {
    let detail = "this is neither an agent of your organisation nor the agent of your own \
        credential: ask an operator for it";
    let registry = by.registry().map_err(|_| forbidden("/agent", detail))?;
    let found = registry.agent(&by.actor(), key.agent.as_deref().unwrap_or(""));
    found.map(drop).map_err(|_| forbidden("/agent", detail))
}

fn check_text(pointer: &str, text: &str) -> Result<()> {
    if (1..=MAX_TEXT).contains(&text.len()) && !text.contains(char::is_control) {
        return Ok(());
    }
    Err(Problem::in_body(pointer, "must be 1 to 256 bytes without control characters"))
}

fn forbidden(pointer: &str, detail: &'static str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail).at(pointer)
}

// Changes of the keys file: completed even if the caller disconnects, recorded in the audit trail,
// and usually in force when the response is sent.

/// Maximum wait for other changes.
const TURN_TIMEOUT: Duration = Duration::from_secs(8);

/// Adds a key to the keys file or revokes it there, or only checks whether the file can be changed.
async fn write_change(operations: Arc<dyn Operations>, key: Key, dry_run: bool) -> Result<()> {
    let written = spawn_blocking(move || operations.change_keys(&key, dry_run)).await;
    written
        .unwrap_or_else(|error| Err(FileChangeError::Unwritable(error.to_string())))
        .map_err(describe)
}

/// Returns the key as a change would leave it.
async fn try_change(by: &Context, key: Key) -> Result<ApiKey> {
    write_change(Arc::clone(&by.state.operations), key.clone(), true).await?;
    Ok(ApiKey { dry_run: true, ..ApiKey::new(key, date::now()) })
}

/// Changes a key in the file, records the change, and waits until it is in force. Returns whether
/// it is; the log has the reason if it is not.
async fn change_keys(by: &Context, before: Option<Key>, after: &Key) -> Result<bool> {
    let turn = take_turn(by, after).await?;
    let operations = Arc::clone(&by.state.operations);
    let written = after.clone();
    by.record(async move {
        // The permit is kept until the change is made, even if the client disconnects.
        let _turn = turn;
        let record = ChangeRecord {
            action: if before.is_some() { "revoke key" } else { "create key" },
            organisation: Some(written.organisation_or_default().to_owned()),
            before: before.map(write),
            after: Some(write(written.clone())),
        };
        write_change(operations, written, false).await?;
        Ok(((), Some(record)))
    })
    .await?;
    // With errors elsewhere in the configuration, new keys are not applied until those are fixed.
    Ok(wait_until(|| is_in_force(&by.state.operations.keys(), after)).await)
}

/// Waits for a permit. Organisations take turns.
async fn take_turn(by: &Context, key: &Key) -> Result<Permit> {
    let organisation = CallerId::of_organisation(key.organisation_or_default());
    let turn = timeout(TURN_TIMEOUT, by.state.key_turns.acquire(organisation)).await;
    turn.ok().and_then(Result::ok).ok_or_else(|| {
        let detail = "too many key changes are waiting: retry in a moment";
        Problem::overloaded(detail, RETRY_SECONDS)
    })
}

fn write(key: Key) -> String {
    serde_json::to_string(&ApiKey::new(key, date::now())).unwrap_or_default()
}

fn is_in_force(keys: &[Key], wanted: &Key) -> bool {
    let known = keys.iter().find(|key| key.id == wanted.id);
    match wanted.revoked {
        None => known.is_some(),
        Some(_) => known.is_none_or(|key| key.revoked.is_some()),
    }
}

fn describe(error: FileChangeError) -> Problem {
    match error {
        FileChangeError::NoFile => {
            let detail = "`auth.keys_file` is not configured: ask an operator to set it";
            Problem::new(StatusCode::CONFLICT, "NO_KEYS_FILE", detail)
        }
        FileChangeError::Full => {
            let detail = "the limit on keys is reached: revoke unused keys first";
            Problem::new(StatusCode::CONFLICT, "TOO_MANY", detail)
        }
        FileChangeError::Unknown => unknown_key(),
        FileChangeError::Unwritable(words) => {
            tracing::warn!(words, "the keys file was not changed");
            let detail = "the keys file cannot be changed; see the gateway's log";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "KEYS_UNAVAILABLE", detail)
        }
    }
}

/// Retry delay for changes of keys, in seconds.
const RETRY_SECONDS: u64 = 2;

types! {
/// An API key.
output pub(crate) struct ApiKey {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) organization_id: String,
    pub(crate) roles: Vec<String>,
    pub(crate) scopes: Vec<String>,
    /// `active`, `expired` or `revoked`; `pending` in the response to its creation, if the gateway
    /// has not applied the changed file yet.
    pub(crate) state: &'static str,
    /// RFC 3339.
    pub(crate) created_at: String,
    pub(crate) expires_at: Option<String>,
    pub(crate) revoked_at: Option<String>,
    /// Set if this was a dry run.
    pub(crate) dry_run: bool,
}
}

impl ApiKey {
    fn new(key: Key, now: u64) -> Self {
        let state = key.state(now);
        Self {
            state,
            organization_id: key.organisation_or_default().to_owned(),
            id: key.id,
            name: key.name,
            roles: key.roles,
            scopes: key.scopes,
            created_at: write_time(key.created),
            expires_at: key.expires.map(write_time),
            revoked_at: key.revoked.map(write_time),
            dry_run: false,
        }
    }
}

fn unknown_key() -> Problem {
    Problem::not_found("KEY_NOT_FOUND", "there is no such key: check its id in the list of keys")
}
