//! Search in the audit trail, newest records first: all records for operators, decisions and
//! changes of their organisation for administrators. Servers and rules that hide an item are for
//! operators only, so that a hidden item looks like an unknown one.

use std::fmt::Debug;

use lockgate_authn::DEFAULT_ORGANISATION;
use lockgate_telemetry::audit::{Members, Search, SearchResult, search};

use super::operation::*;
use super::page::DEFAULT_ITEMS;
use super::state::{AuditReport, OrganisationPermit};

/// The purpose that cursors are sealed for.
const LIST: &str = "audit";

types! {
filter pub(crate) struct AuditQuery {
    /// Not before this time: RFC 3339 in UTC, such as `2026-11-23T06:00:00Z`.
    from: Option<String> max 32,
    /// Before this time.
    to: Option<String> max 32,
    /// The caller: `issuer|subject`, a subject, or the name of a key.
    principal: Option<String> max 512,
    /// The requested name or URI.
    tool: Option<String> max 512,
    /// The server of the request.
    server: Option<String> max 512,
    decision: Option<DecisionName>,
    /// `decision`, `change`, `approval`, `refusal`, …
    kind: Option<String> max 32,
}
}

lockgate_text::words! {
    /// The decision.
    #[derive(Deserialize)]
    #[cfg_attr(test, derive(utoipa::ToSchema))]
    #[serde(rename_all = "lowercase")]
    pub(crate) enum DecisionName {
        Allow = "allow",
        Deny = "deny",
    }
}

/// A page of the audit trail.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditPage {
    /// The newest first, in the format of the trail; a decision has `outcome` and `duration_us`.
    #[cfg_attr(test, schema(value_type = Vec<Object>))]
    pub(crate) items: Vec<Members>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
    /// All records that could be on this page were searched; otherwise continue at `nextCursor`.
    pub(crate) complete: bool,
    /// The integrity of the trail, for operators; other callers get none of its members.
    #[serde(flatten)]
    pub(crate) integrity: Option<Integrity>,
}

/// The integrity of the trail by record numbers. `lockgate audit verify` checks the hashes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Integrity {
    /// In the searched part, every line is a record and no number is missing.
    #[cfg_attr(test, schema(required = false))]
    pub(crate) whole: bool,
    /// Lines that are not records.
    #[cfg_attr(test, schema(required = false))]
    pub(crate) unreadable: u64,
    /// Gaps in the record numbers.
    #[cfg_attr(test, schema(required = false))]
    pub(crate) gaps: u64,
}

/// The records that a caller may see and has requested.
struct Filter {
    query: AuditQuery,
    reader: Reader,
    /// `None` for all organisations.
    organisation: Option<String>,
}

impl Filter {
    fn fits(&self, record: &Members) -> bool {
        let query = &self.query;
        let wanted = [
            ("kind", query.kind.as_deref()),
            ("name", query.tool.as_deref()),
            ("server", query.server.as_deref()),
            ("decision", query.decision.map(DecisionName::as_str)),
        ];
        for (name, wanted) in wanted {
            if let Some(wanted) = wanted
                && self.reader.text(record, name) != wanted
            {
                return false;
            }
        }
        self.is_by(record) && self.is_of_organisation(record)
    }

    fn is_by(&self, record: &Members) -> bool {
        let Some(wanted) = &self.query.principal else { return true };
        let who = text(record, "who");
        match wanted.split_once('|') {
            _ if wanted == who || wanted == text(record, "key") => true,
            Some((issuer, subject)) => subject == who && issuer == text(record, "issuer"),
            None => false,
        }
    }

    fn is_of_organisation(&self, record: &Members) -> bool {
        let Some(wanted) = &self.organisation else { return true };
        match (text(record, "kind"), record.get("organisation")) {
            ("decision" | "approval" | "change", Some(Value::String(organisation))) => {
                organisation == wanted
            }
            ("decision" | "approval", _) => DEFAULT_ORGANISATION == wanted,
            // A change without an organisation concerns shared objects.
            _ => false,
        }
    }
}

fn text<'a>(record: &'a Members, name: &str) -> &'a str {
    record.get(name).and_then(Value::as_str).unwrap_or("")
}

/// Returns whether the caller was told that a policy denied the request, and not that the name is
/// unknown.
fn is_told(record: &Members) -> bool {
    let reason = text(record, "reason");
    let refusal = format!("refused by policy {}", text(record, "rule"));
    reason.starts_with(&refusal) || reason.starts_with(&format!("the call was not made, {refusal}"))
}

/// The view of a caller on the trail.
struct Reader {
    role: Role,
    /// The prefix of slugs of the organisation's servers.
    own: String,
}

impl Reader {
    fn new(caller: &Caller) -> Self {
        Self { role: caller.role, own: format!("{}/", caller.organisation()) }
    }

    /// Returns whether a member is hidden. Administrators see the rule of a denial at a server of
    /// their organisation, and a rule that the caller was told. The server and rule that hide an
    /// item of the operator are for operators: to the organisation, the item does not exist. For
    /// the same reason only operators may have decisions explained (`/policies/explain`).
    fn is_hidden(&self, record: &Members, name: &str) -> bool {
        match name {
            // Both reveal the activity of all organisations.
            "seq" | "call" => self.role != Role::Operator,
            "server" => self.is_of_others_denial(record),
            "rule" => self.is_of_others_denial(record) && !is_told(record),
            "prev" | "hash" => true,
            _ => false,
        }
    }

    /// Returns whether the record is of a denial at a server of the operator or an unknown one.
    fn is_of_others_denial(&self, record: &Members) -> bool {
        self.role != Role::Operator
            && text(record, "decision") == "deny"
            && !text(record, "server").starts_with(&self.own)
    }

    /// Returns the text of a member, or an empty one if hidden.
    fn text<'a>(&self, record: &'a Members, name: &str) -> &'a str {
        if self.is_hidden(record, name) { "" } else { text(record, name) }
    }

    fn show(&self, record: &Members) -> Members {
        let mut shown = record.clone();
        shown.retain(|name, _| !self.is_hidden(record, name));
        shown
    }
}

pub(crate) async fn search_audit(
    by: By<Admin>,
    Query(Paged { part, filter: mut query }): Query<Paged<AuditQuery>>,
) -> Result<Json<AuditPage>> {
    let limit = part.check_limit()?.unwrap_or(DEFAULT_ITEMS);
    for (name, time) in [("from", &mut query.from), ("to", &mut query.to)] {
        let Some(time) = time else { continue };
        if !is_time(time) {
            let detail = format!("`{name}`: must be a time in UTC such as 2026-11-23T06:00:00Z");
            return Err(Problem::in_query(detail));
        }
        // Record times within the same second begin with the remaining text.
        time.truncate(time.trim_end_matches('Z').len());
    }
    let Context { state, caller, .. } = &*by;
    let organisation = (!caller.sees_all()).then(|| caller.organisation().to_owned());
    let path = state.operations.audit_file().ok_or_else(|| no_file("search"))?;
    let before = part.cursor.as_deref().map(|cursor| read_cursor(&by, cursor)).transpose()?;
    let filter = Filter { query, reader: Reader::new(caller), organisation };
    let unreadable = "the audit trail cannot be read; see the gateway's log";
    let found = read_trail(unreadable, enter_search(&by)?, move || {
        let from = filter.query.from.as_deref();
        let to = filter.query.to.as_deref();
        search(&path, &Search { before, from, to, limit, fits: &|record| filter.fits(record) })
    });
    let found = found.await?;
    let next = find_next(&found, before);
    let integrity = (caller.role == Role::Operator).then_some(Integrity {
        whole: found.unreadable == 0 && found.gaps == 0,
        unreadable: found.unreadable,
        gaps: found.gaps,
    });
    let reader = Reader::new(caller);
    let items = found.records.iter().map(|record| reader.show(record));
    Ok(Json(AuditPage {
        items: items.collect(),
        next_cursor: next.and_then(|seq| state.gateway.seal_cursor(LIST, &caller.principal, seq)),
        complete: found.is_complete || found.has_more,
        integrity,
    }))
}

pub(crate) async fn verify_audit(by: By<Operator>) -> Result<Json<AuditReport>> {
    let place = enter_search(&by)?;
    if by.state.operations.audit_file().is_none() {
        return Err(no_file("verify"));
    }
    let operations = Arc::clone(&by.state.operations);
    let unreadable = "the audit trail cannot be read; the log has the cause";
    Ok(Json(read_trail(unreadable, place, move || operations.verify_audit()).await?))
}

fn no_file(action: &str) -> Problem {
    let detail = format!(
        "the audit trail of this gateway is not written to a file: {action} it where its output is \
            collected"
    );
    Problem::new(StatusCode::CONFLICT, "NO_AUDIT_FILE", detail)
}

fn enter_search(by: &Context) -> Result<OrganisationPermit> {
    let places = match by.caller.role {
        Role::Operator => &by.state.operator_searches,
        Role::Admin | Role::User => &by.state.searches,
    };
    places.enter(by.caller.organisation()).ok_or_else(|| {
        let detail = "too many searches of the audit trail are running: retry in a moment";
        Problem::overloaded(detail, 2)
    })
}

/// Reads the trail on another thread. The permit is kept until the end, even if the client
/// disconnects.
async fn read_trail<T: Send + 'static, E: Debug + Send + 'static>(
    unreadable: &'static str,
    permit: OrganisationPermit,
    read: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T> {
    let reading = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        read()
    });
    match reading.await {
        Ok(Ok(found)) => Ok(found),
        failed => {
            let failed = failed.map(|read| read.err());
            tracing::warn!(?failed, "reading the audit trail failed");
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "AUDIT_UNAVAILABLE", unreadable))
        }
    }
}

/// Returns the number of the record before which the next page begins, if there may be one.
fn find_next(found: &SearchResult, before: Option<u64>) -> Option<u64> {
    if found.has_more {
        return found.records.last()?.get("seq")?.as_u64();
    }
    match (found.is_complete, found.last, before) {
        (true, ..) => None,
        // Never after the start of this page.
        (false, Some(last), Some(before)) => Some(last.min(before)),
        (false, last, before) => last.or(before),
    }
}

/// Returns the number of the record before which the page begins.
fn read_cursor(by: &Context, cursor: &str) -> Result<u64> {
    let before = by.state.gateway.open_cursor(LIST, &by.caller.principal, cursor);
    let detail = "`cursor`: is not from a response to this caller";
    before.ok_or_else(|| Problem::in_query(detail))
}

/// Returns whether a text is a prefix of a record's time, and at least a day.
fn is_time(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00.000000Z";
    let text = text.strip_suffix('Z').unwrap_or(text).as_bytes();
    text.len() >= 10
        && text.iter().enumerate().all(|(at, byte)| match SHAPE.get(at) {
            Some(b'0') => byte.is_ascii_digit(),
            shape => shape == Some(byte),
        })
}
