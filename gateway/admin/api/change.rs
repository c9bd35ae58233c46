//! Changes of an organisation's data: completed even if the caller disconnects, and recorded in the
//! audit trail with the state before and after. Records contain no secrets.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use lockgate_admission::spawn;
use lockgate_authn::Principal;
use lockgate_proxy::Gateway;
use lockgate_registry::{Actor, ChangeOptions, Changed, PrincipalKey, Registry, RegistryError};
use lockgate_telemetry::audit;
use lockgate_upstream::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use url::Url;

use super::access::{By, Caller, Context, LeastRole};
use super::page::{Query, flag};
use super::problem::{Problem, Result};
use super::state::ApiState;

/// Limit on a path segment in the audit trail, in bytes.
const MAX_WORD: usize = 24;
/// Maximum number of digits in such a segment.
const MAX_DIGITS: usize = 3;

/// Maximum wait until the gateway applies a changed file.
const APPLY_TIMEOUT: Duration = Duration::from_secs(5);
const APPLY_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Returns a change for [`Context::make`]: an operation of the registry with its arguments between
/// the actor and the options.
macro_rules! apply {
    ($operation:ident($($argument:expr),*)) => {
        |registry, actor, options| async move {
            registry.$operation(&actor, $($argument,)* &options).await
        }
    };
}

pub(crate) use apply;

/// A response with a status and the version for `If-Match`.
pub(crate) struct Reply<T> {
    pub(crate) value: T,
    status: StatusCode,
    version: Option<i64>,
}

impl<T> Reply<T> {
    pub(crate) fn new(value: T, version: Option<i64>) -> Self {
        Self { value, status: StatusCode::OK, version }
    }

    /// Sets the status of a change; that of a dry run is 200.
    pub(crate) fn with_status(mut self, status: StatusCode, is_dry_run: bool) -> Self {
        if !is_dry_run {
            self.status = status;
        }
        self
    }
}

/// The response to a deletion: in a dry run the object that would be deleted.
pub(crate) struct Deletion<T>(pub(crate) Option<T>);

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        let tag = self.version.map(|version| [(ETAG, format!("\"{version}\""))]);
        (self.status, tag, Json(self.value)).into_response()
    }
}

impl<T: Serialize> IntoResponse for Deletion<T> {
    fn into_response(self) -> Response {
        match self.0 {
            Some(value) => Json(value).into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        }
    }
}

impl<R: LeastRole> FromRequestParts<Arc<ApiState>> for By<R> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let mut by = Self::new(state, caller)?;
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            let Query(query) = Query::<ChangeQuery>::from_request_parts(parts, state).await?;
            by.0.options = query.read_options(&parts.headers)?;
        }
        Ok(by)
    }
}

impl<R> By<R> {
    /// Requires that the changed object has this version.
    pub(crate) fn expecting(mut self, version: &str) -> Result<Self> {
        self.0.options.expected_version = Some(parse_version(version)?);
        Ok(self)
    }

    /// Requests the outcome of a change without making it.
    pub(crate) fn trying(mut self) -> Self {
        self.0.options.dry_run = true;
        self
    }

    /// Returns the caller in the named organisation, which exists for it.
    pub(crate) async fn in_organisation(mut self, name: &str) -> Result<Self> {
        self.0.caller = self.0.caller.in_organisation(&self.0.state, name).await?;
        Ok(self)
    }

    /// Returns the caller as a member of an organisation, which may not exist yet.
    pub(crate) fn acting_in(mut self, organisation: &str) -> Self {
        self.0.caller = self.0.caller.acting_in(organisation);
        self
    }
}

impl Context {
    pub(crate) fn registry(&self) -> Result<Arc<Registry>> {
        self.state.registry()
    }

    /// Returns the caller as an actor of the registry.
    pub(crate) fn actor(&self) -> Actor {
        Actor {
            organisation: Arc::from(self.caller.organisation()),
            principal: PrincipalKey {
                issuer: self.caller.principal.issuer.to_string(),
                subject: self.caller.principal.subject.to_string(),
            },
            role: self.caller.role,
        }
    }

    /// Returns the ids of the agents of the caller's organisation that have an integration.
    pub(crate) fn agents_with(&self, integration: &str) -> Vec<String> {
        let registry = self.state.operations.registry();
        let agents = registry.map(|one| one.agents_with(self.caller.organisation(), integration));
        agents.unwrap_or_default()
    }

    /// Checks whether a change would succeed, without making it.
    pub(crate) async fn rehearse<T, F>(
        &self,
        make: impl FnOnce(Arc<Registry>, Actor, ChangeOptions) -> F,
    ) -> Result<Changed<T>>
    where
        F: Future<Output = Result<Changed<T>, RegistryError>>,
    {
        let options = ChangeOptions { dry_run: true, ..self.options.clone() };
        Ok(make(self.registry()?, self.actor(), options).await?)
    }

    /// Makes a change and records it under a name such as `create agent`. Waits until this gateway
    /// applies the change.
    pub(crate) async fn make<T, F>(
        &self,
        action: &'static str,
        make: impl FnOnce(Arc<Registry>, Actor, ChangeOptions) -> F,
    ) -> Result<Changed<T>>
    where
        T: Serialize + Send + 'static,
        F: Future<Output = Result<Changed<T>, RegistryError>> + Send + 'static,
    {
        let making = make(self.registry()?, self.actor(), self.options.clone());
        let organisation = Some(self.caller.organisation().to_owned());
        let made = self.record(async move {
            let changed = making.await?;
            if changed.is_dry_run || changed.is_replayed {
                return Ok((changed, None));
            }
            let before = changed.before.as_ref().map(describe);
            let after = changed.after.as_ref().map(describe);
            Ok((changed, Some(ChangeRecord { action, organisation, before, after })))
        });
        let changed = made.await?;
        if !changed.is_dry_run {
            self.state.operations.serve_changes(self.caller.organisation()).await;
        }
        Ok(changed)
    }

    /// Makes a change to its end, and records it if anything was changed. Fails before the change
    /// if there is no space for a record.
    pub(crate) async fn record<T: Send + 'static>(
        &self,
        making: impl Future<Output = Result<(T, Option<ChangeRecord>)>> + Send + 'static,
    ) -> Result<T> {
        let place = self.state.gateway.reserve_change().map_err(|unwritable| {
            let detail = unwritable.to_string();
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "AUDIT_UNAVAILABLE", detail)
        })?;
        let principal = self.caller.principal.clone();
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
}

fn describe<T: Serialize>(thing: &T) -> String {
    let mut value = serde_json::to_value(thing).unwrap_or(Value::Null);
    hide_secrets(&mut value);
    value.to_string()
}

/// Shortens addresses: queries may contain secrets, as may path segments that are not words.
fn hide_secrets(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(hide_secrets),
        Value::Object(members) => members.iter_mut().for_each(|(name, member)| match member {
            Value::String(url) if name == "url" => *url = shorten_address(url),
            member => hide_secrets(member),
        }),
        _ => {}
    }
}

fn shorten_address(url: &str) -> String {
    let Ok(parsed) = Url::parse(url) else { return "…".to_owned() };
    let mut short = parsed.origin().ascii_serialization();
    for part in parsed.path().split('/').skip(1) {
        short.push('/');
        short.push_str(if is_word(part) { part } else { "…" });
    }
    if parsed.query().is_some() {
        short.push_str("?…");
    }
    short
}

/// Returns whether a path segment looks like a name, such as `mcp`, `v1` or `my-server`, and unlike
/// a password.
fn is_word(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    part.len() <= MAX_WORD && digits <= MAX_DIGITS && part.bytes().all(is_plain)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_lowercase() || b"-_.0123456789".contains(&byte)
}

// Changes with audit records. Space for the record is reserved before the change, and a client
// that disconnects does not leave a change without a record.

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

/// Runs a change in a separate task, so that it completes even if the client disconnects.
pub(super) async fn complete<T: Send + 'static>(
    making: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    spawn(making).await.unwrap_or_else(|_| {
        let detail = "the change failed; see the gateway's log";
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail))
    })
}

/// Waits until the gateway applies a changed file, which is watched like all files of the
/// configuration. Returns whether it did in time.
pub(crate) async fn wait_until(is_applied: impl Fn() -> bool) -> bool {
    let end = Instant::now() + APPLY_TIMEOUT;
    while !is_applied() {
        if Instant::now() > end {
            return false;
        }
        sleep(APPLY_CHECK_INTERVAL).await;
    }
    true
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

/// A reserved audit record for the start or end of a session.
pub struct SessionRecord(Option<audit::ChangePlace>);

impl SessionRecord {
    /// Reserves a record. Returns `None` if auditing is mandatory and the trail is full.
    #[must_use]
    pub fn reserve(gateway: &Gateway) -> Option<Self> {
        gateway.reserve_change().ok().map(Self)
    }

    /// Records a sign-in.
    pub fn signed_in(self, principal: &Principal) {
        self.write("sign in", principal);
    }

    /// Records a sign-out.
    pub fn signed_out(self, principal: &Principal) {
        self.write("sign out", principal);
    }

    fn write(self, action: &'static str, principal: &Principal) {
        let organisation = Some(principal.organisation().to_owned());
        write(self.0, principal, &ChangeRecord { action, organisation, before: None, after: None });
    }
}

// The conditions of a change: `If-Match`, `Idempotency-Key`, `dryRun`.

const IDEMPOTENCY_KEY: &str = "idempotency-key";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ChangeQuery {
    #[serde(default, deserialize_with = "flag")]
    dry_run: Option<bool>,
}

impl ChangeQuery {
    /// Returns the options of a change. Fails if a header is invalid.
    pub(crate) fn read_options(&self, headers: &HeaderMap) -> Result<ChangeOptions> {
        Ok(ChangeOptions {
            expected_version: read_version(headers)?,
            idempotency_key: read_single(headers, IDEMPOTENCY_KEY)?.map(str::to_owned),
            dry_run: self.dry_run.unwrap_or(false),
        })
    }
}

/// Returns the version in `If-Match`, an entity tag of an earlier response; `None` if missing or
/// `*`.
fn read_version(headers: &HeaderMap) -> Result<Option<i64>> {
    let given = read_single(headers, IF_MATCH.as_str())?.filter(|given| *given != "*");
    let tag = given.map(|given| given.strip_prefix('"').and_then(|given| given.strip_suffix('"')));
    tag.map(|tag| parse_version(tag.unwrap_or(""))).transpose()
}

/// Parses the version in an entity tag.
pub(crate) fn parse_version(tag: &str) -> Result<i64> {
    let wrong = "If-Match must be an ETag from a response, such as \"3\", or *";
    tag.parse().map_err(|_| invalid(wrong))
}

fn read_single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let text = value.to_str();
            text.map(Some).map_err(|_| invalid("a header contains non-ASCII characters"))
        }
        (Some(_), Some(_)) => Err(invalid("send If-Match and Idempotency-Key at most once")),
    }
}

fn invalid(detail: &'static str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "INVALID_HEADER", detail)
}

#[cfg(test)]
mod tests;
