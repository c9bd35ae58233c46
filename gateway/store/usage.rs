//! Calls by series and time step, and calls of integrations by day. Counting them is not a change:
//! it takes no revision. Gateways add to each other's counts. Rows of series are deleted when they
//! expire, days with their integration, or after [`KEPT_DAYS`].

use std::fmt::Write;
use std::sync::LazyLock;

use crate::database::{Store, within_background};
use crate::error::Result;
use crate::value::{Record, Row, Value, from_rows, record};

/// The number of buckets of durations.
pub const USAGE_BUCKETS: usize = 36;
/// The kind of rows that count calls.
pub const CALL: &str = "call";
/// The kind of rows that count samples of a server's state. Other kinds are reasons of denials.
pub const STATE: &str = "state";

/// Rows of a group by names, the largest first.
const MAX_ROWS: usize = 100;
/// Rows of a group by time.
const MAX_TIMES: usize = 50_000;

const DROP_OLD: &str = "DELETE FROM call_usage WHERE expires <= $1";

static ADD: LazyLock<String> = LazyLock::new(|| {
    let key = UsageKey::COLUMNS.join(", ");
    let mut columns = format!("{key}, expires, calls, failed");
    let mut values = "$1".to_owned();
    let mut sums = "calls = call_usage.calls + excluded.calls, \
        failed = call_usage.failed + excluded.failed"
        .to_owned();
    for parameter in 2..=11 + USAGE_BUCKETS {
        let _ = write!(values, ", ${parameter}");
    }
    for bucket in 0..USAGE_BUCKETS {
        let _ = write!(columns, ", b{bucket}");
        let _ = write!(sums, ", b{bucket} = call_usage.b{bucket} + excluded.b{bucket}");
    }
    format!(
        "INSERT INTO call_usage ({columns}) VALUES ({values}) \
        ON CONFLICT ({key}) DO UPDATE SET {sums}"
    )
});
/// Number of days kept, including today.
pub const KEPT_DAYS: i64 = 90;
/// Skips an integration that is gone.
const ADD_CALLS: &str = "INSERT INTO integration_calls (integration, day, calls, failed) \
    SELECT id, CAST($3 AS BIGINT), CAST($4 AS BIGINT), CAST($5 AS BIGINT) FROM integrations \
    WHERE organisation = $1 AND id = $2 \
    ON CONFLICT (integration, day) DO UPDATE SET calls = integration_calls.calls + excluded.calls, \
    failed = integration_calls.failed + excluded.failed";
const DROP_OLD_CALLS: &str = "DELETE FROM integration_calls WHERE day <= $1";
const LIST_CALLS: &str = "SELECT organisation, integration, day, calls, failed \
    FROM integration_calls \
    JOIN integrations ON integrations.id = integration_calls.integration \
    WHERE integrations.id = $1 AND integrations.organisation = $2 AND day > $3 ORDER BY day";

record! {
    /// The names of a series and its time step. In a group, names by which it does not group are
    /// empty.
    #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct UsageKey {
        /// The start, in seconds since 1970.
        pub at: i64,
        /// Seconds.
        pub step: i64,
        /// [`CALL`], [`STATE`] or the reason of a denial.
        pub kind: String,
        /// The organisation of the caller; of the server for states, empty if it is the operator's.
        pub organisation: String,
        /// `slug` or `organisation/slug`; empty for denials.
        pub server: String,
        /// The tool or the rule.
        pub name: String,
        pub issuer: String,
        pub subject: String,
    }
}

/// The counts of a series; for states, samples and those in which the server was down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageCounts {
    pub calls: i64,
    pub failed: i64,
    pub durations: [i64; USAGE_BUCKETS],
}

impl Default for UsageCounts {
    fn default() -> Self {
        Self { calls: 0, failed: 0, durations: [0; USAGE_BUCKETS] }
    }
}

impl UsageCounts {
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        for (count, more) in self.durations.iter_mut().zip(other.durations) {
            *count += more;
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    pub key: UsageKey,
    pub counts: UsageCounts,
}

/// The rows of a query, and the names that are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageGroup {
    /// Calls by time.
    Time,
    /// Calls by server.
    Server,
    /// Calls by server and tool.
    Tool,
    /// Calls by organisation and caller.
    Caller,
    /// Denials by rule and reason.
    Rule,
    /// Calls by time and server, without durations.
    ServerTime,
    /// States by time and server, of the operator's servers too.
    StateTime,
}

impl UsageGroup {
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Time => &["at"],
            Self::Server => &["server"],
            Self::Tool => &["server", "name"],
            Self::Caller => &["organisation", "issuer", "subject"],
            Self::Rule => &["kind", "name"],
            Self::ServerTime | Self::StateTime => &["at", "server"],
        }
    }

    fn has_durations(self) -> bool {
        matches!(self, Self::Time | Self::Server | Self::Tool | Self::Caller)
    }

    /// Returns whether rows are in the order of time, not of counts.
    pub fn is_by_time(self) -> bool {
        matches!(self, Self::Time | Self::ServerTime | Self::StateTime)
    }

    /// Returns the maximum number of rows.
    pub fn limit(self) -> usize {
        if self.is_by_time() { MAX_TIMES } else { MAX_ROWS }
    }

    fn has_kind(self, kind: &str) -> bool {
        match self {
            Self::Rule => kind != CALL && kind != STATE,
            Self::StateTime => kind == STATE,
            _ => kind == CALL,
        }
    }

    fn write_sql(self) -> String {
        let mut selected = String::new();
        for name in UsageKey::COLUMNS {
            let _ = match (self.columns().contains(name), *name) {
                (true, _) => write!(selected, "{name}, "),
                (false, "at" | "step") => write!(selected, "CAST(0 AS BIGINT) AS {name}, "),
                (false, _) => write!(selected, "CAST('' AS TEXT) AS {name}, "),
            };
        }
        selected.push_str("CAST(SUM(calls) AS BIGINT) AS calls");
        selected.push_str(", CAST(SUM(failed) AS BIGINT) AS failed");
        if self.has_durations() {
            for bucket in 0..USAGE_BUCKETS {
                let _ = write!(selected, ", CAST(SUM(b{bucket}) AS BIGINT) AS b{bucket}");
            }
        }
        let (kind, shared) = match self {
            Self::Rule => ("kind NOT IN ('call', 'state')", ""),
            Self::StateTime => ("kind = 'state'", " OR organisation = ''"),
            _ => ("kind = 'call'", ""),
        };
        let columns = self.columns().join(", ");
        let order =
            if self.is_by_time() { columns.clone() } else { format!("SUM(calls) DESC, {columns}") };
        format!(
            "SELECT {selected} FROM call_usage WHERE step = $1 AND at >= $2 AND {kind} \
            AND (CAST($3 AS TEXT) = '' OR organisation = $3{shared}) \
            AND (CAST($4 AS TEXT) = '' OR server = $4 OR server = $5) \
            AND (CAST($6 AS TEXT) = '' OR issuer = $6 AND subject = $7) \
            GROUP BY {columns} ORDER BY {order} LIMIT {}",
            self.limit()
        )
    }
}

/// The selected rows. Empty texts select all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageFilter {
    pub step: i64,
    /// The first time step.
    pub from: i64,
    pub organisation: String,
    /// Two spellings of a server.
    pub servers: [String; 2],
    pub issuer: String,
    pub subject: String,
}

impl UsageFilter {
    /// Returns the key of the group that a row belongs to, if it is selected: the equivalent of
    /// the query for rows in memory.
    pub fn find_group(&self, group: UsageGroup, key: &UsageKey) -> Option<UsageKey> {
        let is_shared = group == UsageGroup::StateTime && key.organisation.is_empty();
        let is_selected = key.step == self.step
            && key.at >= self.from
            && group.has_kind(&key.kind)
            && (self.organisation.is_empty() || self.organisation == key.organisation || is_shared)
            && (self.servers[0].is_empty() || self.servers.contains(&key.server))
            && (self.issuer.is_empty() || self.issuer == key.issuer && self.subject == key.subject);
        if !is_selected {
            return None;
        }
        let mut masked = UsageKey { step: self.step, ..UsageKey::default() };
        for column in group.columns() {
            match *column {
                "at" => masked.at = key.at,
                "kind" => masked.kind.clone_from(&key.kind),
                "organisation" => masked.organisation.clone_from(&key.organisation),
                "server" => masked.server.clone_from(&key.server),
                "name" => masked.name.clone_from(&key.name),
                "issuer" => masked.issuer.clone_from(&key.issuer),
                _ => masked.subject.clone_from(&key.subject),
            }
        }
        Some(masked)
    }
}

impl UsageRow {
    fn from_row(row: &Row, step: i64, has_durations: bool) -> Result<Self> {
        let key = UsageKey { step, ..UsageKey::from_row(row)? };
        let mut counts = UsageCounts {
            calls: row.get("calls")?,
            failed: row.get("failed")?,
            ..UsageCounts::default()
        };
        if has_durations {
            for (bucket, count) in counts.durations.iter_mut().enumerate() {
                *count = row.read(UsageKey::COLUMNS.len() + 2 + bucket, "of durations")?;
            }
        }
        Ok(Self { key, counts })
    }

    /// Returns the parameters of [`ADD`].
    fn to_values(&self, expires: i64) -> Vec<Value> {
        let Self { key, counts } = self;
        let mut values = key.to_values();
        values.extend([expires, counts.calls, counts.failed].map(Value::from));
        values.extend(counts.durations.map(Value::from));
        values
    }
}

impl Store {
    /// Adds counts with their expiry, all or none, and drops rows that have expired at `now`.
    /// Creates the database for calls and denials; returns `false`, and stores nothing, if there is
    /// none yet and only states are counted.
    pub async fn add_usage(&self, all: &[(UsageRow, i64)], now: i64) -> Result<bool> {
        if !self.exists()? && all.iter().all(|(row, _)| row.key.kind == STATE) {
            return Ok(false);
        }
        let pool = self.pool().await?;
        within_background(async {
            let mut transaction = pool.begin().await?;
            let rows = all.iter().map(|(row, expires)| row.to_values(*expires)).collect();
            transaction.execute_each(&ADD, rows).await?;
            transaction.execute(DROP_OLD, &[now.into()]).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    /// Returns the selected rows, summed by group. `None` if there is no database yet.
    pub async fn sum_usage(
        &self,
        group: UsageGroup,
        filter: &UsageFilter,
    ) -> Result<Option<Vec<UsageRow>>> {
        if !self.exists()? {
            return Ok(None);
        }
        let mut values = vec![filter.step.into(), filter.from.into()];
        let [server, other] = &filter.servers;
        let texts = [&filter.organisation, server, other, &filter.issuer, &filter.subject];
        values.extend(texts.map(Value::from));
        let rows = self.rows(&group.write_sql(), &values).await?;
        let rows = rows.iter();
        let rows = rows.map(|row| UsageRow::from_row(row, filter.step, group.has_durations()));
        rows.collect::<Result<_, _>>().map(Some)
    }

    /// Adds counts, all or none, and drops counts that are too old on `today`.
    pub async fn add_calls(&self, all: &[DailyCalls], today: i64) -> Result<()> {
        let pool = self.pool().await?;
        within_background(async {
            let mut transaction = pool.begin().await?;
            for counted in all {
                transaction.execute(ADD_CALLS, &counted.to_values()).await?;
            }
            transaction.execute(DROP_OLD_CALLS, &[(today - KEPT_DAYS).into()]).await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the days after `day` on which an integration was called, in order.
    pub async fn list_calls(
        &self,
        (organisation, integration): (&str, &str),
        day: i64,
    ) -> Result<Vec<DailyCalls>> {
        let values = [integration.into(), organisation.into(), day.into()];
        from_rows(&self.rows(LIST_CALLS, &values).await?)
    }
}

record! {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DailyCalls {
        pub organisation: String,
        /// The id of the integration.
        pub integration: String,
        /// Days since 1970, in UTC.
        pub day: i64,
        pub calls: i64,
        pub failed: i64,
    }
}
