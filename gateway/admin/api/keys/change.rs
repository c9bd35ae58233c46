//! Changes of the keys file: completed even if the caller disconnects, recorded in the audit trail,
//! and usually in force when the response is sent.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use lockgate_admission::{CallerId, Permit};
use lockgate_authn::key::Key;
use tokio::time::{Instant, sleep, timeout};

use super::api_key::{ApiKey, RETRY_SECONDS, read_clock, show_changed, unknown_key};
use crate::api::access::Caller;
use crate::api::problem::Problem;
use crate::api::recorded::{ChangeRecord, make_recorded};
use crate::api::state::{ApiState, KeyChange, KeyChangeError};

/// Maximum wait until the gateway applies a changed file.
const APPLY_TIMEOUT: Duration = Duration::from_secs(5);
const APPLY_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum wait for other changes.
const TURN_TIMEOUT: Duration = Duration::from_secs(8);

/// Whether the gateway applies a change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    InForce,
    /// The reason is in the log.
    Waits,
}

/// Checks whether the keys file can be changed.
pub(super) async fn rehearse(state: &ApiState, change: KeyChange) -> Result<(), Problem> {
    let operations = Arc::clone(&state.operations);
    let tried = tokio::task::spawn_blocking(move || operations.rehearse_key_change(&change)).await;
    match tried {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(describe(error)),
        Err(_) => Err(describe(KeyChangeError::Unwritable("reading it failed".to_owned()))),
    }
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
        let made = tokio::task::spawn_blocking(move || operations.change_keys(&written)).await;
        match made {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(describe(error)),
            Err(_) => {
                let error = KeyChangeError::Unwritable("writing it failed".to_owned());
                return Err(describe(error));
            }
        }
        Ok(((), Some(record)))
    })
    .await?;
    Ok(wait_until_in_force(state, &change).await)
}

/// Waits for a permit. Organisations take turns.
async fn take_turn(state: &ApiState, key: &Key) -> Result<Permit, Problem> {
    let organisation = CallerId::of_organisation(key.organisation_or_default());
    match timeout(TURN_TIMEOUT, state.key_turns.acquire(organisation)).await {
        Ok(Ok(turn)) => Ok(turn),
        _ => {
            let detail = "too many key changes are waiting: retry in a moment";
            let busy = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", detail);
            Err(busy.retry_after(RETRY_SECONDS))
        }
    }
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

/// Waits until the gateway applies the file, which is watched like all files of the configuration.
/// With errors elsewhere in the configuration, new keys are not applied until those are fixed.
async fn wait_until_in_force(state: &ApiState, change: &KeyChange) -> Effect {
    let end = Instant::now() + APPLY_TIMEOUT;
    while !is_in_force(&state.operations.keys(), change) {
        if Instant::now() > end {
            return Effect::Waits;
        }
        sleep(APPLY_CHECK_INTERVAL).await;
    }
    Effect::InForce
}

fn is_in_force(keys: &[Key], change: &KeyChange) -> bool {
    match change {
        KeyChange::Add(new) => keys.iter().any(|key| key.id == new.id),
        KeyChange::Revoke { id, .. } => {
            keys.iter().all(|key| key.id != *id || key.revoked.is_some())
        }
    }
}

fn describe(error: KeyChangeError) -> Problem {
    match error {
        KeyChangeError::NoFile => {
            let detail = "`auth.keys_file` is not configured: ask an operator to set it";
            Problem::new(StatusCode::CONFLICT, "NO_KEYS_FILE", detail)
        }
        KeyChangeError::Full => {
            let detail = "the limit on keys is reached: revoke unused keys first";
            Problem::new(StatusCode::CONFLICT, "TOO_MANY", detail)
        }
        KeyChangeError::Unknown => unknown_key(),
        KeyChangeError::Unwritable(words) => {
            tracing::warn!(words, "the keys file was not changed");
            let detail = "the keys file cannot be changed; see the gateway's log";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "KEYS_UNAVAILABLE", detail)
        }
    }
}
