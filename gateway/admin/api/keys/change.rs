//! API keys as shown, and changes of the keys file: completed even if the caller disconnects,
//! recorded in the audit trail, and usually in force when the response is sent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_admission::{CallerId, Permit};
use lockgate_authn::key::{Key, write_time};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::api::change::wait_until;
use crate::api::operation::*;
use crate::api::state::{FileChangeError, KeyChange, Operations};

/// Maximum wait for other changes.
const TURN_TIMEOUT: Duration = Duration::from_secs(8);

/// Whether the gateway applies a change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    InForce,
    /// The reason is in the log.
    Waits,
}

/// Changes the keys file, or only checks whether it can be changed.
pub(super) async fn write_change(
    operations: Arc<dyn Operations>,
    change: KeyChange,
    dry_run: bool,
) -> Result<(), Problem> {
    let written = spawn_blocking(move || operations.change_keys(&change, dry_run)).await;
    written
        .unwrap_or_else(|error| Err(FileChangeError::Unwritable(error.to_string())))
        .map_err(describe)
}

/// Changes the keys file, records the change, and waits until it is in force.
pub(super) async fn change_keys(
    state: &Arc<ApiState>,
    caller: &Caller,
    key: &Key,
    change: KeyChange,
) -> Result<Effect, Problem> {
    let turn = take_turn(state, key).await?;
    let operations = Arc::clone(&state.operations);
    let key = key.clone();
    let written = change.clone();
    make_recorded(state, &caller.principal, async move {
        // The permit is kept until the change is made, even if the client disconnects.
        let _turn = turn;
        let record = describe_change(&key, &written);
        write_change(operations, written, false).await?;
        Ok(((), Some(record)))
    })
    .await?;
    // With errors elsewhere in the configuration, new keys are not applied until those are fixed.
    let is_applied = wait_until(|| is_in_force(&state.operations.keys(), &change)).await;
    Ok(if is_applied { Effect::InForce } else { Effect::Waits })
}

/// Waits for a permit. Organisations take turns.
async fn take_turn(state: &ApiState, key: &Key) -> Result<Permit, Problem> {
    let organisation = CallerId::of_organisation(key.organisation_or_default());
    let turn = timeout(TURN_TIMEOUT, state.key_turns.acquire(organisation)).await;
    turn.ok().and_then(Result::ok).ok_or_else(|| {
        let detail = "too many key changes are waiting: retry in a moment";
        Problem::overloaded(detail, RETRY_SECONDS)
    })
}

fn describe_change(key: &Key, change: &KeyChange) -> ChangeRecord {
    let (action, before) = match change {
        KeyChange::Add(_) => ("create key", None),
        KeyChange::Revoke { .. } => {
            ("revoke key", Some(write(&ApiKey::new(key.clone(), read_clock()))))
        }
    };
    ChangeRecord {
        action,
        organisation: Some(key.organisation_or_default().to_owned()),
        before,
        after: Some(write(&show_changed(key.clone(), change))),
    }
}

fn write(key: &ApiKey) -> String {
    serde_json::to_string(key).unwrap_or_default()
}

fn is_in_force(keys: &[Key], change: &KeyChange) -> bool {
    match change {
        KeyChange::Add(new) => keys.iter().any(|key| key.id == new.id),
        KeyChange::Revoke { id, .. } => {
            keys.iter().all(|key| key.id != *id || key.revoked.is_some())
        }
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
pub(super) const RETRY_SECONDS: u64 = 2;

/// An API key.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiKey {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_at: Option<String>,
    /// Set if this was a dry run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) dry_run: bool,
}

impl ApiKey {
    pub(super) fn new(key: Key, now: u64) -> Self {
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

pub(in crate::api) fn read_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

pub(super) fn show_trial(key: Key, change: &KeyChange) -> ApiKey {
    let mut shown = show_changed(key, change);
    shown.dry_run = true;
    shown
}

/// Returns the key as a change leaves it.
pub(super) fn show_changed(key: Key, change: &KeyChange) -> ApiKey {
    let mut shown = ApiKey::new(key, read_clock());
    if let KeyChange::Revoke { at, .. } = change {
        shown.revoked_at.get_or_insert_with(|| write_time(*at));
        shown.state = "revoked";
    }
    shown
}

pub(super) fn unknown_key() -> Problem {
    Problem::not_found("KEY_NOT_FOUND", "there is no such key: check its id in the list of keys")
}
