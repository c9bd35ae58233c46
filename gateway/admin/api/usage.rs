//! Calls, errors and durations over an hour, a day or a week, denials by rule, and the state of
//! servers over the day: all for operators, those of its own callers for an organisation.

use std::collections::HashMap;

use lockgate_registry::{
    Registry, USAGE_BUCKETS, UsageCounts, UsageFilter, UsageGroup, UsageKey, UsageRow,
};
use lockgate_telemetry::{DURATION_BUCKETS, Denial, estimate_percentile};
use lockgate_text::date;

use super::figures::to_ms;
use super::keys::KeyNames;
use super::operation::*;
use super::servers::visible_servers;

const _: () = assert!(USAGE_BUCKETS == DURATION_BUCKETS);

const HOUR: i64 = 3600;
/// Hours of a server's day.
const DAY: i64 = 24;
/// Servers with their day.
const MAX_SERVERS: usize = 100;
/// Minimum of calls in an hour for failing calls, as for the state of a server.
const MIN_CALLS: i64 = 5;

types! {
#[derive(Clone)]
filter pub(crate) struct UsageQuery {
    /// Default `24h`.
    #[serde(default)]
    #[cfg_attr(test, param(inline))]
    window: UsageWindow,
    /// The grouping of `items`. Default `server`.
    #[serde(default)]
    #[cfg_attr(test, param(inline))]
    by: UsageBy,
    /// Only calls to this server.
    server: Option<String> max 512,
    /// Only calls of this caller: `issuer|subject`.
    principal: Option<String> max 1024,
}
}

/// A time span up to now.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) enum UsageWindow {
    /// In steps of 5 minutes.
    #[serde(rename = "1h")]
    Hour,
    /// In steps of an hour.
    #[default]
    #[serde(rename = "24h")]
    Day,
    /// In steps of an hour.
    #[serde(rename = "7d")]
    Week,
}

types! {
#[derive(Default, Serialize)]
choice pub(crate) enum UsageBy {
    #[default]
    Server,
    Tool,
    Caller,
}

/// Calls of tools that ended within a time span, by servers, tools or callers.
#[derive(Clone, Default, Deserialize)]
output pub(crate) struct Usage {
    pub(crate) window: UsageWindow,
    /// Seconds per step.
    pub(crate) step_seconds: i64,
    /// RFC 3339.
    pub(crate) from: String,
    pub(crate) until: String,
    /// Set if the figures are kept in memory alone, because the store is not in use: the start of
    /// the count (RFC 3339).
    pub(crate) since: Option<String>,
    /// The last time that this gateway wrote its figures to the store (RFC 3339).
    pub(crate) written_at: Option<String>,
    pub(crate) total: CallFigures,
    /// Every step, from the oldest to the current one.
    pub(crate) steps: Vec<UsageStep>,
    /// The 100 with the most calls.
    pub(crate) items: Vec<UsageItem>,
    /// Calls that are not in `items`.
    pub(crate) other_calls: i64,
    /// The 100 rules with the most denials.
    pub(crate) denials: Vec<UsageDenial>,
    /// The last 24 hours of up to 100 servers that the caller may see.
    pub(crate) servers: Vec<ServerDay>,
}

/// Outcomes and durations of calls.
#[derive(Clone, Default, Deserialize)]
#[cfg_attr(test, schema(as = UsageFigures))]
output pub(crate) struct CallFigures {
    pub(crate) calls: i64,
    pub(crate) failed: i64,
    /// Milliseconds, within 19 % from 0.5 ms to 65 s. Absent without a call that reached a server.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p95_ms: Option<f64>,
}

/// Calls of one time step.
#[derive(Clone, Default, Deserialize)]
output pub(crate) struct UsageStep {
    /// The start (RFC 3339).
    pub(crate) at: String,
    #[serde(flatten)]
    pub(crate) figures: CallFigures,
}

/// Calls of a server, a tool or a caller.
#[derive(Clone, Default, Deserialize)]
output pub(crate) struct UsageItem {
    /// `name`, or `organisation/name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) server: String,
    /// The server's own name of the tool; absent for tools that are counted together.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) tool: String,
    /// The organisation of the caller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) organization_id: String,
    /// Issuer and subject are absent for callers that are counted together.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) issuer: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) subject: String,
    /// The name of the caller's key.
    pub(crate) name: Option<String>,
    #[serde(flatten)]
    pub(crate) figures: CallFigures,
}

/// Denials by a rule.
#[derive(Clone, Default, Deserialize)]
output pub(crate) struct UsageDenial {
    /// Empty for rules that are counted together.
    pub(crate) rule: String,
    /// `policy`, `hidden` (operators only), `rate`, `scopes`, `approval`, or `dry_run` for rules on
    /// trial.
    pub(crate) reason: String,
    pub(crate) count: i64,
}

/// The last 24 hours of a server.
#[derive(Clone, Default, Deserialize)]
output pub(crate) struct ServerDay {
    pub(crate) name: String,
    pub(crate) organization_id: Option<String>,
    /// From the oldest to the current one.
    pub(crate) hours: Vec<ServerHour>,
}

/// An hour of a server.
#[derive(Clone, Default, Deserialize)]
output pub(crate) struct ServerHour {
    /// The start (RFC 3339).
    pub(crate) at: String,
    pub(crate) state: HourState,
    pub(crate) calls: i64,
    pub(crate) failed: i64,
    /// The share of the hour's samples in which it was down, in percent.
    pub(crate) down_percent: i64,
}
}

lockgate_text::words! {
    /// The state of a server in an hour.
    #[derive(Default, Deserialize, Serialize)]
    #[cfg_attr(test, derive(utoipa::ToSchema))]
    #[serde(rename_all = "kebab-case")]
    pub(crate) enum HourState {
        Ok = "ok",
        /// At least half of 5 or more calls failed, or it was down for a part of the hour.
        Failing = "failing",
        /// It was down for at least half of the hour.
        Down = "down",
        /// Not connected, not called, or not recorded.
        #[default]
        NoData = "no-data",
    }
}

impl UsageWindow {
    /// Returns the seconds per step and the number of steps.
    fn steps(self) -> (i64, i64) {
        match self {
            Self::Hour => (300, 12),
            Self::Day => (HOUR, DAY),
            Self::Week => (HOUR, 7 * DAY),
        }
    }
}

impl CallFigures {
    fn new(counts: &UsageCounts) -> Self {
        let durations = counts.durations.map(|count| u64::try_from(count).unwrap_or(0));
        Self {
            calls: counts.calls,
            failed: counts.failed,
            p50_ms: to_ms(estimate_percentile(&durations, 50)),
            p95_ms: to_ms(estimate_percentile(&durations, 95)),
        }
    }
}

impl UsageItem {
    fn new(row: UsageRow, names: &KeyNames) -> Self {
        let UsageKey { organisation, server, name: tool, issuer, subject, .. } = row.key;
        Self {
            name: names.find(&issuer, &subject).map(str::to_owned),
            server,
            tool,
            organization_id: organisation,
            issuer,
            subject,
            figures: CallFigures::new(&row.counts),
        }
    }
}

impl ServerHour {
    fn new(at: i64, calls: &UsageCounts, samples: &UsageCounts) -> Self {
        Self {
            at: date::of_seconds(at),
            state: HourState::new(calls, samples),
            calls: calls.calls,
            failed: calls.failed,
            down_percent: (samples.failed * 100).checked_div(samples.calls).unwrap_or(0),
        }
    }
}

impl HourState {
    fn new(calls: &UsageCounts, samples: &UsageCounts) -> Self {
        let is_failing = calls.calls >= MIN_CALLS && calls.failed * 2 >= calls.calls;
        match samples.failed {
            down if down > 0 && down * 2 >= samples.calls => Self::Down,
            down if down > 0 || is_failing => Self::Failing,
            _ if samples.calls + calls.calls > 0 => Self::Ok,
            _ => Self::NoData,
        }
    }
}

pub(crate) async fn show_usage(
    by: By<Admin>,
    Query(query): Query<UsageQuery>,
) -> Result<Json<Usage>> {
    let registry = by.registry()?;
    let Some(_place) = by.state.usage_reads.enter(by.caller.organisation()) else {
        let detail = "too many requests for usage are running: retry in a moment";
        return Err(Problem::overloaded(detail, 2));
    };
    let now = i64::try_from(date::now()).unwrap_or(0);
    let (step, count) = query.window.steps();
    let filter = make_filter(&by.caller, &query, (step, count, now))?;
    let group = match query.by {
        UsageBy::Server => UsageGroup::Server,
        UsageBy::Tool => UsageGroup::Tool,
        UsageBy::Caller => UsageGroup::Caller,
    };
    let times = registry.sum_usage(UsageGroup::Time, &filter).await?;
    let rows = registry.sum_usage(group, &filter).await?;
    let denials = list_denials(&by, &registry, &filter).await?;
    let servers = list_days(&by, &registry, &query, now).await?;
    let mut total = UsageCounts::default();
    for row in &times {
        total.add(&row.counts);
    }
    let names = KeyNames::of(&by);
    let listed: i64 = rows.iter().map(|row| row.counts.calls).sum();
    let standing = registry.usage_standing();
    let since = standing.since.map(date::of_seconds);
    let written_at = standing.written.map(date::of_seconds);
    Ok(Json(Usage {
        window: query.window,
        step_seconds: step,
        from: date::of_seconds(filter.from),
        until: date::of_seconds(now),
        since,
        written_at,
        total: CallFigures::new(&total),
        steps: list_steps(&times, filter.from, (step, count)),
        items: rows.into_iter().map(|row| UsageItem::new(row, &names)).collect(),
        other_calls: (total.calls - listed).max(0),
        denials,
        servers,
    }))
}

/// Returns the filter for the last `count` steps.
fn make_filter(
    caller: &Caller,
    query: &UsageQuery,
    (step, count, now): (i64, i64, i64),
) -> Result<UsageFilter> {
    let organisation = if caller.sees_all() { "" } else { caller.organisation() };
    let server = query.server.as_deref().unwrap_or("");
    let (issuer, subject) = match query.principal.as_deref().map(|one| one.split_once('|')) {
        None => ("", ""),
        Some(Some((issuer, subject))) if !issuer.is_empty() => (issuer, subject),
        Some(_) => {
            let detail = "`principal`: must be `issuer|subject`, as in `items`";
            return Err(Problem::in_query(detail));
        }
    };
    Ok(UsageFilter {
        step,
        from: now - now.rem_euclid(step) - (count - 1) * step,
        organisation: organisation.to_owned(),
        servers: [server.to_owned(), format!("{}/{server}", caller.organisation())],
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
    })
}

/// Returns all steps, also those without calls.
fn list_steps(rows: &[UsageRow], from: i64, (step, count): (i64, i64)) -> Vec<UsageStep> {
    let known: HashMap<i64, &UsageCounts> =
        rows.iter().map(|row| (row.key.at, &row.counts)).collect();
    let nothing = UsageCounts::default();
    let steps = (0..count).map(|index| {
        let at = from + index * step;
        let counts = known.get(&at).copied().unwrap_or(&nothing);
        UsageStep { at: date::of_seconds(at), figures: CallFigures::new(counts) }
    });
    steps.collect()
}

/// Returns the denials by rule. They have no server or caller, so these filters do not apply. Rules
/// that hide an item are for operators only.
async fn list_denials(
    by: &Context,
    registry: &Registry,
    filter: &UsageFilter,
) -> Result<Vec<UsageDenial>> {
    let filter = UsageFilter {
        servers: Default::default(),
        issuer: String::new(),
        subject: String::new(),
        ..filter.clone()
    };
    let mut rows = registry.sum_usage(UsageGroup::Rule, &filter).await?;
    let is_operator = by.caller.role == Role::Operator;
    rows.retain(|row| is_operator || row.key.kind != Denial::Hidden.as_str());
    let denials = rows.into_iter().map(|row| {
        let UsageKey { kind: reason, name: rule, .. } = row.key;
        UsageDenial { rule, reason, count: row.counts.calls }
    });
    Ok(denials.collect())
}

/// Returns the last 24 hours of the servers that the caller may see.
async fn list_days(
    by: &Context,
    registry: &Registry,
    query: &UsageQuery,
    now: i64,
) -> Result<Vec<ServerDay>> {
    let mut servers = visible_servers(&by.state, &by.caller);
    if let Some(wanted) = &query.server {
        servers.retain(|server| server.slug() == wanted || server.qualified_name() == *wanted);
    }
    servers.sort_by(|a, b| a.slug().cmp(b.slug()));
    servers.truncate(MAX_SERVERS);
    let query = UsageQuery { principal: None, ..query.clone() };
    let filter = make_filter(&by.caller, &query, (HOUR, DAY, now))?;
    let calls = index(registry.sum_usage(UsageGroup::ServerTime, &filter).await?);
    let samples = index(registry.sum_usage(UsageGroup::StateTime, &filter).await?);
    let nothing = UsageCounts::default();
    let days = servers.iter().map(|server| {
        let hours = (0..DAY).map(|hour| {
            let key = (filter.from + hour * HOUR, server.qualified_name().into_owned());
            let samples = samples.get(&key).unwrap_or(&nothing);
            ServerHour::new(key.0, calls.get(&key).unwrap_or(&nothing), samples)
        });
        ServerDay {
            name: server.slug().to_owned(),
            organization_id: server.organisation().map(ToString::to_string),
            hours: hours.collect(),
        }
    });
    Ok(days.collect())
}

/// Returns counts by time and server.
fn index(rows: Vec<UsageRow>) -> HashMap<(i64, String), UsageCounts> {
    rows.into_iter().map(|row| ((row.key.at, row.key.server), row.counts)).collect()
}

#[cfg(test)]
mod tests;
