//! Changes with audit records. Space for the record is reserved before the change, and a client
//! that disconnects does not leave a change without a record.

use axum::http::StatusCode;
use lockgate_admission::spawn;
use lockgate_authn::Principal;
use lockgate_telemetry::audit;
use lockgate_upstream::BoxFuture;

use super::problem::Problem;
use super::state::ApiState;

/// A change, for the audit trail and the log.
pub(crate) struct ChangeRecord {
    /// Such as `create agent`.
    pub(crate) action: &'static str,
    /// The organisation of the changed object; `None` for shared objects.
    pub(crate) organisation: Option<String>,
    /// JSON text without secrets; `None` for a creation.
    pub(crate) before: Option<String>,
    /// JSON text without secrets; `None` for a deletion.
    pub(crate) after: Option<String>,
}

/// Makes a change on behalf of a principal, to its end, and records it if anything was changed.
/// Fails before the change if there is no space for a record.
pub(crate) async fn make_recorded<T: Send + 'static>(
    state: &ApiState,
    principal: &Principal,
    making: impl Future<Output = Result<(T, Option<ChangeRecord>), Problem>> + Send + 'static,
) -> Result<T, Problem> {
    let place = state.gateway.reserve_change().map_err(|unwritable| {
        let detail = unwritable.to_string();
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "AUDIT_UNAVAILABLE", detail)
    })?;
    let principal = principal.clone();
    // Boxed, so that the runtime's code for a task is generated once for all changes of a type.
    let making: BoxFuture<'static, _> = Box::pin(making);
    complete(async move {
        let (made, record) = making.await?;
        if let Some(record) = record {
            write(place, &principal, &record);
        }
        Ok(made)
    })
    .await
}

/// Runs a change in a separate task, so that it completes even if the client disconnects.
pub(super) async fn complete<T: Send + 'static>(
    making: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    spawn(making).await.unwrap_or_else(|_| {
        let detail = "the change failed; see the gateway's log";
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail))
    })
}

fn write(place: Option<audit::ChangePlace>, principal: &Principal, record: &ChangeRecord) {
    let who = format!("{}|{}", principal.issuer, principal.subject);
    let action = record.action;
    let organisation = record.organisation.as_deref();
    tracing::info!(target: "audit", action, who, organisation, "changed");
    let Some(place) = place else { return };
    place.record(&audit::Change {
        action,
        issuer: &principal.issuer,
        subject: &principal.subject,
        key: principal.key_name.as_deref(),
        organisation,
        before: record.before.as_deref(),
        after: record.after.as_deref(),
    });
}
