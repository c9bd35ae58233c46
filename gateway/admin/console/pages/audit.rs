//! Audit: requests, decisions and outcomes, the newest first; single records; verification of the
//! trail; and activity, the latest calls, updated live.

use std::time::SystemTime;

use askama::Template;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use lockgate_telemetry::audit::Members;
use lockgate_text::date;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::agents::name_agent;
use crate::api::AuditReport;
use crate::api::access::ORGANISATION;
use crate::api::audit::{self, Integrity};
use crate::api::page::query;
use crate::api::problem::Problem;
use crate::console::diagnosis::Severity;
use crate::console::form::FormError;
use crate::console::redirect::PagePath;
use crate::console::render::{PageError, PageResult, render, show, show_json};
use crate::console::visit::Visit;
use crate::fault::sentence;

/// Number of records per page.
const PART: &str = "50";
/// Fields of the form, under the names of the API.
const FILTERS: [&str; 7] = ["principal", "tool", "server", "decision", "kind", "from", "to"];

/// The field of the start of a page.
const CURSOR: &str = "cursor";

/// Rarely used filters.
const SELDOM: [&str; 4] = ["kind", "from", "to", ORGANISATION];

/// A record of the trail, unmodified.
pub(crate) struct AuditRecord(Members);

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage<'a> {
    visit: &'a Visit,
    records: Vec<AuditRecord>,
    /// All records that could be on this page were searched.
    is_complete: bool,
    /// Set for operators only.
    integrity: Option<Integrity>,
    next: Option<String>,
    mistake: FormError,
    /// The same search from the newest records.
    newest: String,
    /// A rarely used filter is set.
    fields_more: bool,
    /// The reason that the trail cannot be searched; empty if it can.
    missing: String,
}

#[derive(Template)]
#[template(path = "audit_record.html")]
struct RecordPage<'a> {
    visit: &'a Visit,
    record: &'a AuditRecord,
    facts: Vec<(&'static str, String)>,
    /// The name of the agent; empty without one.
    agent_name: String,
    json: String,
    explain: Option<String>,
}

impl AuditPage<'_> {
    /// Returns a mistake that is not shown at its field.
    fn other_mistake(&self) -> &str {
        let is_shown = ["from", "to", CURSOR].iter().any(|name| !self.mistake.at(name).is_empty());
        if is_shown { "" } else { &self.mistake.words }
    }
}

impl AuditRecord {
    pub(crate) fn get(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::String(text)) => text,
            _ => "",
        }
    }

    /// Returns the address of the record's page. The time of a record identifies it.
    pub(crate) fn address(&self) -> String {
        format!("/console/audit/{}", self.get("time"))
    }

    /// Returns the name of the caller, or the subject of its credential.
    pub(crate) fn who(&self) -> &str {
        self.find_first(&["key", "who"])
    }

    /// Returns the requested name, action or method.
    pub(crate) fn subject(&self) -> &str {
        self.find_first(&["name", "action", "words", "why", "method", "kind"])
    }

    pub(crate) fn result(&self) -> &str {
        match (self.get("decision"), self.get("outcome")) {
            ("deny", _) => "denied",
            ("allow", "") => "runs",
            ("allow", "tool_error") => "tool error",
            ("allow", "protocol_error") => "protocol error",
            ("allow", outcome) => outcome,
            _ => self.find_first(&["state", "reason", "kind"]),
        }
    }

    /// Returns the first of these members that is not empty.
    fn find_first(&self, names: &[&str]) -> &str {
        for name in names {
            if !self.get(name).is_empty() {
                return self.get(name);
            }
        }
        ""
    }

    pub(crate) fn severity(&self) -> Severity {
        match (self.get("kind"), self.result()) {
            ("decision", "ok")
            | ("approval", "approved")
            | ("change" | "open" | "anchor" | "rotate", _) => Severity::Good,
            ("decision", "runs") | ("approval", "asked" | "counted") => Severity::Waiting,
            ("decision", "denied") | ("approval", "denied") | ("refusal", _) => Severity::Denied,
            ("decision", "cancelled") | ("approval" | "close", _) => Severity::Off,
            _ => Severity::Bad,
        }
    }

    /// Returns the duration in milliseconds, if known.
    pub(crate) fn milliseconds(&self) -> Option<String> {
        let micros = self.0.get("duration_us").and_then(Value::as_u64)?;
        Some(format!("{}.{:02}", micros / 1000, micros % 1000 / 10))
    }

    /// Returns the members in order of importance to readers.
    fn facts(&self) -> Vec<(&'static str, String)> {
        const SHOWN: [(&str, &str); 17] = [
            ("Name", "key"),
            ("Decided by", "by_name"),
            ("Id of the decider", "by"),
            ("Subject", "who"),
            ("Issuer", "issuer"),
            ("Organisation", "organisation"),
            ("Agent", "agent"),
            ("Method", "method"),
            ("Server", "server"),
            ("Called", "name"),
            ("Policy", "rule"),
            ("Reason", "reason"),
            ("Outcome", "outcome"),
            ("Endpoint", "endpoint"),
            ("Transport", "transport"),
            ("Trace", "trace"),
            ("Call", "call"),
        ];
        let mut facts = Vec::new();
        for (label, name) in SHOWN {
            let text = match self.0.get(name) {
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            facts.push((label, text));
        }
        if let Some(milliseconds) = self.milliseconds() {
            facts.push(("Took", format!("{milliseconds} ms")));
        }
        facts
    }

    /// Returns the recorded arguments as JSON, and the part of them that is unknown: `arguments`,
    /// `secrets`, or nothing.
    fn arguments(&self) -> (&str, &'static str) {
        let Some(recorded) = self.0.get("arguments") else { return ("", "arguments") };
        // `{}` or none.
        if recorded["bytes"].as_u64().is_some_and(|bytes| bytes <= 2) {
            return ("", "");
        }
        match recorded["redacted"].as_str() {
            // Truncated text is not JSON.
            Some(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => (text, "secrets"),
            _ => ("", "arguments"),
        }
    }

    /// Returns the address that explains the decision: the access page with everything that the
    /// record contains, and the name of the part that it does not.
    fn explain_address(&self) -> Option<String> {
        if self.get("kind") != "decision" || self.get("method") != "tools/call" {
            return None;
        }
        // The server of an organisation is recorded as `organisation/server`.
        let server = self.get("server").rsplit('/').next().unwrap_or("");
        let name = self.get("name");
        // The endpoint of a server has the server's own names.
        let has_own_names = self.get("endpoint").starts_with("/servers/") && !server.is_empty();
        let call = if has_own_names { format!("{server}/{name}") } else { name.to_owned() };
        let (arguments, unknown) = self.arguments();
        let path = PagePath::new(&["console", "access"])
            .with("call", &call)
            .with("caller", &format!("{}|{}", self.get("issuer"), self.get("who")))
            .with("issuer", self.get("issuer"))
            .with("subject", self.get("who"))
            .with("organisation", self.get("organisation"))
            .with("at", self.get("endpoint"))
            .with("arguments", arguments)
            .with("unknown", unknown);
        Some(path.into_text())
    }
}

/// Returns the newest matching records, at most 200.
pub(crate) async fn search_records(
    visit: &Visit,
    filters: &[(&str, &str)],
) -> Result<audit::AuditPage, Problem> {
    search_in(visit, "", filters).await
}

async fn search_in(
    visit: &Visit,
    organisation: &str,
    filters: &[(&str, &str)],
) -> Result<audit::AuditPage, Problem> {
    let by = visit.by_in(organisation).await?;
    Ok(audit::search_audit(by, query(filters)?).await?.0)
}

pub(crate) fn view_records(records: Vec<Members>) -> Vec<AuditRecord> {
    records.into_iter().map(AuditRecord).collect()
}

/// Shows the search and its results.
pub(crate) async fn list_records(visit: Visit) -> PageResult {
    let organisation = visit.query.get(ORGANISATION);
    let mut filters = vec![("limit", PART), (CURSOR, visit.query.get("after"))];
    let mut again = PagePath::new(&["console", "audit"]).with(ORGANISATION, organisation);
    for name in FILTERS {
        filters.push((name, visit.query.get(name)));
        again = again.with(name, visit.query.get(name));
    }
    let mut page = AuditPage {
        visit: &visit,
        records: Vec::new(),
        is_complete: false,
        integrity: None,
        next: None,
        mistake: FormError::default(),
        newest: again.as_str().to_owned(),
        fields_more: SELDOM.iter().any(|name| !visit.query.get(name).is_empty()),
        missing: String::new(),
    };
    match search_in(&visit, organisation, &filters).await {
        Ok(found) => {
            page.next = again.after(found.next_cursor.as_deref());
            page.records = view_records(found.items);
            page.is_complete = found.complete;
            page.integrity = found.integrity;
            show(&page)
        }
        Err(problem) if problem.status() == StatusCode::CONFLICT => {
            page.missing = sentence(problem.detail());
            show(&page)
        }
        Err(problem) if problem.is_of_form() => {
            // The error begins with the name of the field, as `from`.
            let field = problem.detail().split('`').nth(1).unwrap_or("");
            page.mistake = FormError::new(field, &sentence(problem.detail()));
            render(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(problem) => Err(problem.into()),
    }
}

pub(crate) async fn verify_trail(visit: Visit) -> PageResult {
    let Json(AuditReport { intact, records, first }) = audit::verify_audit(visit.by()?).await?;
    let page = PagePath::new(&["console", "audit"]);
    let (severity, text) = if intact {
        let text =
            format!("The trail is intact: {records} records verified, none changed or missing.");
        (Severity::Good, text)
    } else {
        let first = sentence(first.as_deref().unwrap_or(""));
        (Severity::Bad, format!("The trail is not intact. {first}"))
    };
    Ok(visit.redirect_with(page, severity, &text))
}

/// Shows the record of a time.
pub(crate) async fn show_record(visit: Visit, Path(time): Path<String>) -> PageResult {
    let missing = "The trail has no record of this time that you may see, or it was set aside.";
    let Some(next) = find_next_time(&time) else { return Err(PageError::not_found(missing)) };
    let filters = [("limit", "10"), ("from", &*time), ("to", &*next)];
    let records = view_records(search_records(&visit, &filters).await?.items);
    let Some(record) = records.iter().find(|record| record.get("time") == time) else {
        return Err(PageError::not_found(missing));
    };
    let agent_name = match record.get("agent") {
        "" => String::new(),
        agent => name_agent(&visit, agent).await,
    };
    show(&RecordPage {
        facts: record.facts(),
        agent_name,
        json: show_json(&record.0),
        explain: if visit.is_operator() { record.explain_address() } else { None },
        visit: &visit,
        record,
    })
}

/// Returns the time one microsecond later; `None` if the text is not the time of a record.
fn find_next_time(time: &str) -> Option<String> {
    let (second, micros) = time.strip_suffix('Z')?.split_once('.')?;
    let micros: u32 = micros.parse().ok()?;
    Some(format!("{second}.{:06}Z", micros.checked_add(1)?))
}

/// Number of calls shown.
const SHOWN: &str = "50";

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityPage<'a> {
    visit: &'a Visit,
    calls: Vec<AuditRecord>,
    server: &'a str,
    decision: &'a str,
    is_live: bool,
    /// The time at which the page was rendered.
    now: String,
    missing: &'a str,
    /// Whether the search reached the beginning of the trail.
    is_complete: bool,
    /// The address of a longer search.
    search: String,
    /// The address of the same page, paused or live.
    other: String,
    /// The address of the page without filters.
    all: String,
}

pub(crate) async fn show_activity(visit: Visit) -> PageResult {
    let server = visit.query.get("server");
    let decision = visit.query.get("decision");
    let is_live = visit.query.get("live") != "no";
    let filters =
        [("limit", SHOWN), ("kind", "decision"), ("server", server), ("decision", decision)];
    let mut page = ActivityPage {
        visit: &visit,
        calls: Vec::new(),
        server,
        decision,
        is_live,
        now: date::of_time(SystemTime::now()),
        missing: "",
        is_complete: true,
        search: PagePath::new(&["console", "audit"])
            .with("server", server)
            .with("decision", decision)
            .into_text(),
        other: write_activity(server, decision, !is_live),
        all: write_activity("", "", is_live),
    };
    match search_records(&visit, &filters).await {
        Ok(found) => {
            page.is_complete = found.complete;
            page.calls = view_records(found.items);
        }
        Err(problem) if problem.status() == StatusCode::CONFLICT => {
            page.missing = "Activity is read from the audit trail, which must be in a file.";
        }
        Err(problem) => return Err(problem.into()),
    }
    show(&page)
}

fn write_activity(server: &str, decision: &str, is_live: bool) -> String {
    PagePath::new(&["console", "activity"])
        .with("server", server)
        .with("decision", decision)
        .with("live", if is_live { "" } else { "no" })
        .into_text()
}

#[cfg(test)]
mod tests;
