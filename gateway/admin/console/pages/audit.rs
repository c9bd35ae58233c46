//! Audit: requests, decisions and outcomes, the newest first; single records; verification of the
//! trail; and activity, the latest calls, updated live.

use std::borrow::Cow;
use std::time::SystemTime;

use lockgate_telemetry::audit::Members;
use lockgate_text::{date, json};
use serde::de::IgnoredAny;

use super::agents::name_agent;
use super::*;
use crate::api::AuditReport;
use crate::api::access::ORGANISATION;
use crate::api::audit;

/// Number of records per page.
const PART: &str = "50";
/// Fields of the form, under the names of the API.
const FILTERS: [&str; 7] = ["principal", "tool", "server", "decision", "kind", "from", "to"];

/// The field of the start of a page.
const CURSOR: &str = "cursor";
/// The fields that show their mistake, and the start of a page.
const LABELS: [(&str, &str); 3] = [("from", "From"), ("to", "Before"), (CURSOR, "Page")];

/// A record of the trail, unmodified.
pub(crate) struct AuditRecord<'a>(&'a Members);

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage<'a> {
    visit: &'a Visit,
    /// `None` if there was no search.
    found: Option<audit::AuditPage>,
    /// The reason that the trail cannot be searched; empty if it can.
    missing: String,
}

#[derive(Template)]
#[template(path = "audit_record.html")]
struct RecordPage<'a> {
    visit: &'a Visit,
    record: AuditRecord<'a>,
    /// The name of the agent; empty without one.
    agent_name: String,
    json: String,
    explain: Option<String>,
}

impl AuditRecord<'_> {
    pub(crate) fn get(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::String(text)) => text,
            _ => "",
        }
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
        let mut texts = names.iter().map(|name| self.get(name));
        texts.find(|text| !text.is_empty()).unwrap_or("")
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

    /// Returns a member as text.
    fn find(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.get(name).filter(|value| !value.is_null()).map(plain_text)
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
            Some(text) if json::from_str::<IgnoredAny>(text).is_ok() => (text, "secrets"),
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
        let path = PagePath::new(&["access"])
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

/// Returns the newest matching records of an organisation, or of the visitor's own if it is empty.
async fn search(
    visit: &Visit,
    organisation: &str,
    filters: &[(&str, &str)],
) -> Result<audit::AuditPage, Problem> {
    let by = visit.by_in(organisation).await?;
    Ok(audit::search_audit(by, query(filters)?).await?.0)
}

/// Shows the search and its results.
pub(crate) async fn list_records(mut visit: Visit) -> PageResult {
    let mut filters = vec![("limit", PART), (CURSOR, visit.query.get("after"))];
    filters.extend(FILTERS.map(|name| (name, visit.query.get(name))));
    let mut found = None;
    let mut missing = String::new();
    match search(&visit, visit.query.get(ORGANISATION), &filters).await {
        Ok(page) => found = Some(page),
        Err(problem) if problem.status() == StatusCode::CONFLICT => {
            missing = sentence(problem.detail());
        }
        Err(problem) => visit = visit.mistaken(problem, &LABELS)?,
    }
    visit.show(&AuditPage { visit: &visit, found, missing })
}

pub(crate) async fn verify_trail(visit: Visit) -> PageResult {
    let Json(AuditReport { intact, records, first }) = audit::verify_audit(visit.by()?).await?;
    let page = PagePath::new(&["audit"]);
    if intact {
        let text =
            format!("The trail is intact: {records} records verified, none changed or missing.");
        return visit.done(page, text);
    }
    let first = sentence(first.as_deref().unwrap_or(""));
    visit.redirect_with(page, Severity::Bad, format!("The trail is not intact. {first}"))
}

/// Shows the record of a time.
pub(crate) async fn show_record(visit: Visit, Path(time): Path<String>) -> PageResult {
    let missing = "The trail has no record of this time that you may see, or it was set aside.";
    let Some(next) = find_next_time(&time) else { return Err(PageError::not_found(missing)) };
    let filters = [("limit", "10"), ("from", &*time), ("to", &*next)];
    let found = search(&visit, "", &filters).await?;
    let mut records = found.items.iter().map(AuditRecord);
    let Some(record) = records.find(|record| record.get("time") == time) else {
        return Err(PageError::not_found(missing));
    };
    visit.show(&RecordPage {
        agent_name: name_agent(&visit, record.get("agent")).await,
        json: show_json(record.0),
        explain: if visit.is_operator() { record.explain_address() } else { None },
        visit: &visit,
        record,
    })
}

/// Returns the time one microsecond later; `None` if the text is not the time of a record. Times
/// are compared as text, so the second 60 follows all others of its minute.
fn find_next_time(time: &str) -> Option<String> {
    let (second, micros) = time.strip_suffix('Z')?.split_once('.')?;
    let micros: u32 = micros.parse().ok()?;
    if micros < 999_999 {
        return Some(format!("{second}.{:06}Z", micros + 1));
    }
    let (minute, second) = second.rsplit_once(':')?;
    let second: u32 = second.parse().ok()?;
    Some(format!("{minute}:{:02}Z", second.checked_add(1)?))
}

/// Number of calls shown.
const SHOWN: &str = "50";

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityPage<'a> {
    visit: &'a Visit,
    server: &'a str,
    decision: &'a str,
    /// `None` if the trail is not in a file.
    found: Option<audit::AuditPage>,
    is_live: bool,
    /// The time at which the page was rendered.
    now: String,
}

pub(crate) async fn show_activity(visit: Visit) -> PageResult {
    let [server, decision] = ["server", "decision"].map(|name| visit.query.get(name));
    let filters =
        [("limit", SHOWN), ("kind", "decision"), ("server", server), ("decision", decision)];
    let found = match search(&visit, "", &filters).await {
        Ok(found) => Some(found),
        Err(problem) if problem.status() == StatusCode::CONFLICT => None,
        Err(problem) => return Err(problem.into()),
    };
    let is_live = visit.query.get("live") != "no";
    let now = date::of_time(SystemTime::now());
    visit.show(&ActivityPage { visit: &visit, server, decision, found, is_live, now })
}

#[cfg(test)]
mod tests;
