//! Audit: requests, decisions and outcomes, the newest first; single records; and verification of
//! the trail.

use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::agents::name_agent;
use crate::console::api_client::{ApiClient, ApiError, ApiPath, sentence};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageError, PageResult, render, show};
use crate::console::fields::{Fields, QueryFields};
use crate::console::layout::Layout;
use crate::console::shown::show_json;

/// Number of records per page.
const PART: &str = "50";
/// Fields of the form, under the names of the API.
const FILTERS: [&str; 8] =
    ["principal", "tool", "server", "decision", "kind", "from", "to", "organizationId"];

/// Rarely used filters.
const SELDOM: [&str; 4] = ["kind", "from", "to", "organizationId"];

/// A record of the trail, unmodified.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct AuditRecord(Map<String, Value>);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AuditPart {
    #[serde(rename = "items")]
    pub(crate) records: Vec<AuditRecord>,
    next_cursor: Option<String>,
    complete: bool,
    /// No record of the searched part is missing or unreadable; set for operators only.
    whole: Option<bool>,
    unreadable: u64,
    gaps: u64,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage<'a> {
    layout: &'a Layout,
    fields: &'a Fields,
    found: AuditPart,
    next: Option<String>,
    mistake: &'a str,
    /// A rarely used filter is set.
    fields_more: bool,
    /// The reason that the trail cannot be searched; empty if it can.
    missing: &'a str,
}

#[derive(Template)]
#[template(path = "audit_record.html")]
struct RecordPage<'a> {
    layout: &'a Layout,
    record: &'a AuditRecord,
    facts: Vec<(&'static str, String)>,
    /// The name of the agent; empty without one.
    agent_name: String,
    json: String,
    explain: Option<String>,
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
        let path = ApiPath::new(&["console", "access"]).ok()?;
        let path = path
            .with("call", &call)
            .with("caller", &format!("{}|{}", self.get("issuer"), self.get("who")))
            .with("issuer", self.get("issuer"))
            .with("subject", self.get("who"))
            .with("organisation", self.get("organisation"))
            .with("at", self.get("endpoint"))
            .with("arguments", arguments)
            .with("unknown", unknown);
        Some(path.as_str().to_owned())
    }
}

/// Returns the newest matching records, at most 200.
pub(crate) async fn search_records(
    api: &ApiClient,
    filters: &[(&str, &str)],
    limit: &str,
) -> Result<AuditPart, ApiError> {
    let mut path = ApiPath::new(&["api", "audit"])?.with("limit", limit);
    for (name, value) in filters {
        path = path.with(name, value);
    }
    api.get(&path).await
}

/// Shows the search and its results.
pub(crate) async fn list_records(
    layout: Layout,
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let mut filters = Vec::new();
    let mut again = ApiPath::new(&["console", "audit"])?;
    for name in FILTERS {
        filters.push((name, fields.get(name)));
        again = again.with(name, fields.get(name));
    }
    filters.push(("cursor", fields.get("after")));
    let mut page = AuditPage {
        layout: &layout,
        fields: &fields,
        found: AuditPart::default(),
        next: None,
        mistake: "",
        fields_more: SELDOM.iter().any(|name| !fields.get(name).is_empty()),
        missing: "",
    };
    match search_records(&api, &filters, PART).await {
        Ok(found) => {
            let next = found.next_cursor.as_deref();
            page.next = next.map(|cursor| again.with("after", cursor).as_str().to_owned());
            page.found = found;
            show(&page)
        }
        Err(error) if error.status == StatusCode::CONFLICT => {
            page.missing = &error.detail;
            show(&page)
        }
        Err(error) if error.is_of_form() => {
            let mistake = sentence(&error.detail);
            page.mistake = &mistake;
            render(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn verify_trail(layout: Layout, api: ApiClient) -> PageResult {
    let path = ApiPath::new(&["api", "audit", "verify"])?;
    let report: Value = api.ask(&path, &Value::Null).await?;
    let records = report["records"].as_u64().unwrap_or(0);
    let first = report["first"].as_str().unwrap_or("");
    let page = ApiPath::new(&["console", "audit"])?;
    let (severity, text) = match report["intact"].as_bool() {
        Some(true) => (
            Severity::Good,
            format!("The trail is intact: {records} records verified, none changed or missing."),
        ),
        _ => (Severity::Bad, format!("The trail is not intact. {}", sentence(first))),
    };
    Ok(layout.redirect_with(page, severity, &text))
}

/// Shows the record of a time.
pub(crate) async fn show_record(
    layout: Layout,
    api: ApiClient,
    Path(time): Path<String>,
) -> PageResult {
    let missing = "The trail has no record of this time that you may see, or it was set aside.";
    let Some(next) = find_next_time(&time) else { return Err(PageError::not_found(missing)) };
    let found = search_records(&api, &[("from", &time), ("to", &next)], "10").await?;
    let Some(record) = found.records.iter().find(|record| record.get("time") == time) else {
        return Err(PageError::not_found(missing));
    };
    let agent_name = match record.get("agent") {
        "" => String::new(),
        agent => name_agent(&api, agent).await,
    };
    show(&RecordPage {
        facts: record.facts(),
        agent_name,
        json: show_json(&record.0),
        explain: if layout.is_operator() { record.explain_address() } else { None },
        layout: &layout,
        record,
    })
}

/// Returns the time one microsecond later; `None` if the text is not the time of a record.
fn find_next_time(time: &str) -> Option<String> {
    let (second, micros) = time.strip_suffix('Z')?.split_once('.')?;
    let micros: u32 = micros.parse().ok()?;
    Some(format!("{second}.{:06}Z", micros.checked_add(1)?))
}

#[cfg(test)]
mod tests;
