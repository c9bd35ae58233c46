//! PostgreSQL. Each statement runs alone in a READ ONLY transaction that has already run a query
//! and always ends in ROLLBACK, through the extended protocol, under timeouts. Then the session is
//! reset. Roles that may do more than read tables are rejected.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fallible_iterator::FallibleIterator;
use lockgate_egress::{Connector, Policy, Stream, Target};
use lockgate_postgres::{
    DataRowBody, Handle, Login, Message, RowDescriptionBody, Session, WireError, read_texts,
    ssl_request,
};
use lockgate_text::hex;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::answer::{Answer, Ask, Column};
use super::config::{Network, Settings};
use super::remote::{Abandoned, Remote, Slot, end_timeout, lost, within};
use crate::database::answer::{binary, document, float, signed};
use crate::tool::ToolError;

/// `query_canceled`, also used for timeouts.
const CANCELED: &str = "57014";
/// Maximum number of cached names of types.
const MAX_NAMES: usize = 1000;

/// These settings are a query. After a query, PostgreSQL refuses to make the transaction writable.
const SETTINGS: &str = "SELECT set_config('statement_timeout', $1, true), \
    set_config('lock_timeout', $2, true), set_config('idle_in_transaction_session_timeout', $1, \
    true), set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO, YMD', true), \
    set_config('IntervalStyle', 'iso_8601', true), set_config('extra_float_digits', '1', true), \
    set_config('bytea_output', 'hex', true), set_config('standard_conforming_strings', 'on', true)";

/// Lists privileges of the role beyond reading tables.
const PRIVILEGES: &str = "SELECT concat_ws(', ', CASE WHEN r.rolsuper THEN 'superuser' END, CASE \
    WHEN r.rolreplication THEN 'replication' END, CASE WHEN r.rolcreaterole THEN 'createrole' END, \
    CASE WHEN r.rolbypassrls THEN 'bypassrls' END, (SELECT string_agg(p.rolname, ', ') FROM \
    pg_catalog.pg_roles p WHERE p.rolname IN ('pg_read_server_files', 'pg_write_server_files', \
    'pg_execute_server_program', 'pg_signal_backend', 'pg_write_all_data') AND \
    pg_catalog.pg_has_role(current_user, p.oid, 'MEMBER'))) FROM pg_catalog.pg_roles r WHERE \
    r.rolname = current_user";

const NAMES: &str = "SELECT o::text, pg_catalog.format_type(o, NULL) FROM unnest($1::oid[]) AS o";

pub(super) struct Postgres {
    pub(super) remote: Remote,
    limits: Settings,
    connector: Arc<Connector>,
    idle: Mutex<Vec<Session>>,
    names: Mutex<HashMap<u32, String>>,
}

impl Postgres {
    pub(super) fn new(network: Network, limits: Settings, connector: Arc<Connector>) -> Self {
        let remote = Remote::new(network, &limits);
        Self { remote, limits, connector, idle: Mutex::default(), names: Mutex::default() }
    }

    pub(super) async fn run(&self, ask: &Ask) -> Result<Answer, ToolError> {
        let mut slot = self.remote.acquire().await?;
        let whole = async {
            // A pooled session may have been closed since; that shows before the statement runs.
            let pooled = self.idle.lock().pop();
            if let Some(session) = pooled
                && let Some(done) = self.attempt(&mut slot, session, ask, true).await
            {
                return done;
            }
            let session = self.open().await?;
            self.attempt(&mut slot, session, ask, false).await.unwrap_or_else(|| Err(lost()))
        };
        within(ask, whole).await
    }

    /// Returns the session of a slot to the pool.
    fn keep(&self, slot: &mut Slot<BusySession>) {
        self.idle.lock().extend(slot.busy.take().map(|busy| busy.session));
    }

    /// Connects and checks the role.
    async fn open(&self) -> Result<Session, ToolError> {
        let (session, found) =
            self.look().await.map_err(|trouble| self.report_unreachable(&trouble))?;
        if !found.is_empty() {
            return Err(self.remote.report_role(&found));
        }
        Ok(session)
    }

    /// Opens a session. Returns it with the role's excess privileges, if they matter.
    async fn look(&self) -> Result<(Session, String), WireError> {
        let mut session = log_in(&self.connector, &self.remote.network).await?;
        if self.remote.network.privileged {
            return Ok((session, String::new()));
        }
        let rows = own(&mut session, PRIVILEGES, &[]).await?;
        let found = rows.into_iter().flatten().next().flatten();
        Ok((session, found.unwrap_or_else(|| "unknown".into())))
    }

    fn report_unreachable(&self, trouble: &WireError) -> ToolError {
        self.remote.report_unreachable(match trouble {
            WireError::Lost(words) | WireError::Refused { message: words, .. } => words,
            WireError::Large => "the response to the first query is too large",
        })
    }

    /// Runs the statement in a session. Returns `None` if the session turns out to be closed before
    /// the statement ran.
    async fn attempt(
        &self,
        slot: &mut Slot<BusySession>,
        session: Session,
        ask: &Ask,
        reused: bool,
    ) -> Option<Result<Answer, ToolError>> {
        let began = Instant::now();
        let busy = BusySession {
            session,
            connector: Arc::clone(&self.connector),
            network: Arc::clone(&self.remote.network),
            timeout: end_timeout(ask),
        };
        let session = &mut slot.busy.insert(busy).session;
        session.max_message = ask.max_bytes.saturating_add(1 << 16);
        let columns = match self.begin(session, ask).await {
            Ok(columns) => Ok(columns),
            Err(WireError::Lost(_)) if reused => {
                slot.busy = None;
                return None;
            }
            Err(trouble) => Err(trouble),
        };
        let done = match columns {
            Ok(columns) => self.finish(session, ask, columns).await,
            Err(lost @ (WireError::Lost(_) | WireError::Large)) => Err(lost),
            Err(refused) => clean(session).await.and(Err(refused)),
        };
        match done {
            Ok((answer, whole)) => {
                // Unread rows are still in transit, so such a session is not reused.
                if whole {
                    self.keep(slot);
                }
                Some(Ok(answer))
            }
            Err(WireError::Refused { code, message }) => {
                self.keep(slot);
                // The code is also used when another session cancels the statement.
                if code == CANCELED && began.elapsed() >= ask.timeout {
                    return Some(Err(ask.late()));
                }
                Some(Err(ToolError::new(format!(
                    "PostgreSQL refuses the statement: {message} [{code}]"
                ))))
            }
            Err(WireError::Lost(words)) => Some(Err(self.remote.report_lost(&words))),
            Err(WireError::Large) => Some(Err(ask.large())),
        }
    }

    /// Begins the transaction and prepares the statement in it, in one round trip.
    async fn begin(
        &self,
        session: &mut Session,
        ask: &Ask,
    ) -> Result<Vec<(u32, Column)>, WireError> {
        session.add("BEGIN TRANSACTION READ ONLY")?;
        session.prepare("", SETTINGS, [])?;
        session.bind("", &[milliseconds(ask.timeout), milliseconds(self.limits.lock_timeout)])?;
        session.execute(0)?;
        session.prepare("caller", &ask.sql, [])?;
        session.sync();
        let mut described = None;
        let status = loop {
            match session.next().await {
                Ok(Message::RowDescription(body)) => described = Some(body),
                Ok(Message::NoData) => described = None,
                Ok(Message::ReadyForQuery(body)) => break body.status(),
                Ok(_) => {}
                Err(lost @ (WireError::Lost(_) | WireError::Large)) => return Err(lost),
                Err(refused) => {
                    session.ready().await?;
                    return Err(refused);
                }
            }
        };
        if status != b'T' {
            return Err(WireError::Lost("there is no transaction".into()));
        }
        let Some(described) = described else {
            return Err(WireError::Refused {
                code: "-".into(),
                message: "the statement returns no rows".into(),
            });
        };
        self.columns(session, &described).await
    }

    async fn columns(
        &self,
        session: &mut Session,
        rows: &RowDescriptionBody,
    ) -> Result<Vec<(u32, Column)>, WireError> {
        let fields = rows.fields().map(|field| Ok((field.type_oid(), field.name().to_owned())));
        let fields: Vec<(u32, String)> = fields.collect()?;
        let mut unknown: Vec<String> = Vec::new();
        {
            let names = self.names.lock();
            let all = fields.iter().filter(|(oid, _)| !names.contains_key(oid));
            unknown.extend(all.map(|(oid, _)| oid.to_string()));
        }
        let mut read = HashMap::new();
        if !unknown.is_empty() {
            for row in own(session, NAMES, &[Some(format!("{{{}}}", unknown.join(",")))]).await? {
                if let [Some(oid), Some(name)] = row.as_slice()
                    && let Ok(oid) = oid.parse()
                {
                    read.insert(oid, name.clone());
                }
            }
        }
        let mut names = self.names.lock();
        let mut columns = Vec::with_capacity(fields.len());
        for (oid, name) in fields {
            let known = names.get(&oid).or_else(|| read.get(&oid));
            let kind = known.map_or("unknown", String::as_str).to_owned();
            columns.push((oid, Column { name, kind }));
        }
        let room = MAX_NAMES.saturating_sub(names.len());
        names.extend(read.into_iter().take(room));
        Ok(columns)
    }

    /// Runs the prepared statement, ends the transaction and resets the session, in one round trip.
    async fn finish(
        &self,
        session: &mut Session,
        ask: &Ask,
        columns: Vec<(u32, Column)>,
    ) -> Result<(Answer, bool), WireError> {
        let parameters: Vec<Option<String>> = ask.parameters.iter().map(parameter).collect();
        session.bind("caller", &parameters)?;
        session.execute(i32::try_from(ask.max_rows + 1).unwrap_or(i32::MAX))?;
        session.sync();
        forget(session)?;
        let (oids, columns): (Vec<u32>, Vec<Column>) = columns.into_iter().unzip();
        let mut answer = Answer::new(columns);
        let mut refused = None;
        loop {
            match session.next().await {
                Ok(Message::DataRow(body)) => {
                    if answer.truncated.is_none()
                        && !answer.push(row(&body, &oids)?, ask)
                        && answer.truncated == Some("max_bytes")
                    {
                        return Ok((answer, false));
                    }
                }
                Ok(Message::ReadyForQuery(_)) => break,
                Ok(_) => {}
                Err(lost @ (WireError::Lost(_) | WireError::Large)) => return Err(lost),
                Err(words) => refused = refused.or(Some(words)),
            }
        }
        forgotten(session).await?;
        refused.map_or(Ok((answer, true)), Err)
    }
}

fn milliseconds(time: Duration) -> Option<String> {
    Some(time.as_millis().max(1).to_string())
}

#[cfg(test)]
pub(super) mod tests;

// Exchanges common to all statements: built-in statements, the reset of a session, and rows and
// parameters as text.

/// Queues the rollback of the transaction and the reset of all session state: locks, prepared
/// statements, settings.
fn forget(session: &mut Session) -> Result<(), WireError> {
    session.add("ROLLBACK")?;
    session.sync();
    session.add("DISCARD ALL")?;
    session.sync();
    Ok(())
}

async fn forgotten(session: &mut Session) -> Result<(), WireError> {
    let ended = match session.ready().await {
        Ok(_) => session.ready().await,
        refused => refused,
    };
    match ended {
        Ok(b'I') => Ok(()),
        Ok(_) => Err(WireError::Lost("the transaction did not end".into())),
        Err(trouble) => Err(lose_session(trouble)),
    }
}

/// A session that cannot be reset is not reused.
fn lose_session(trouble: WireError) -> WireError {
    match trouble {
        WireError::Refused { message, .. } => WireError::Lost(message),
        lost @ (WireError::Lost(_) | WireError::Large) => lost,
    }
}

async fn clean(session: &mut Session) -> Result<(), WireError> {
    forget(session)?;
    forgotten(session).await
}

/// Runs a built-in statement.
async fn own(
    session: &mut Session,
    sql: &str,
    values: &[Option<String>],
) -> Result<Vec<Vec<Option<String>>>, WireError> {
    session.prepare("", sql, [])?;
    session.bind("", values)?;
    session.execute(0)?;
    session.sync();
    let mut rows = Vec::new();
    loop {
        let message = match session.next().await {
            Err(refused @ WireError::Refused { .. }) => {
                session.ready().await?;
                return Err(refused);
            }
            other => other?,
        };
        match message {
            Message::DataRow(body) => {
                let texts = read_texts(&body)?.into_iter();
                rows.push(texts.map(|text| Some(text?.to_owned())).collect());
            }
            Message::ReadyForQuery(_) => return Ok(rows),
            _ => {}
        }
    }
}

fn row(body: &DataRowBody, oids: &[u32]) -> Result<Vec<Value>, WireError> {
    let texts = oids.iter().zip(read_texts(body)?);
    let values = texts.map(|(oid, text)| text.map_or(Value::Null, |text| json(*oid, text)));
    Ok(values.collect())
}

/// Converts a parameter to text. PostgreSQL parses it as the type that the statement requires.
fn parameter(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

// Converts PostgreSQL's text values to JSON, by type.

fn bytes(text: &str) -> Option<Value> {
    let digits = text.strip_prefix("\\x")?;
    Some(binary(&hex::decode(digits.as_bytes())?))
}

/// Converts a value. Types without a lossless JSON form stay text: dates, numeric, arrays, ranges,
/// user-defined types.
fn json(oid: u32, text: &str) -> Value {
    let converted = match oid {
        16 => Some(Value::Bool(text == "t")),
        17 => bytes(text),
        20 | 21 | 23 | 26 => text.parse().ok().map(signed),
        700 | 701 => text.parse().ok().map(float),
        114 | 3802 => Some(document(text)),
        _ => None,
    };
    converted.unwrap_or_else(|| text.into())
}

// Connections to the server, through the gateway's connector, and their cleanup when the caller of
// a statement has gone.

/// Interval between two attempts to cancel a statement. A request that arrives between two steps of
/// the statement has no effect.
const CANCEL_INTERVAL: Duration = Duration::from_millis(250);

/// Connects and logs in.
async fn log_in(connector: &Connector, network: &Network) -> Result<Session, WireError> {
    let stream = dial(connector, network).await?;
    let login = Login {
        user: &network.user,
        password: &network.password,
        database: &network.database,
        is_encrypted: network.tls,
        parameters: &[("application_name", "lockgate")],
    };
    Session::start(Box::new(stream), login).await
}

/// Requests the server to cancel a session's statement. If the request is lost, the statement's
/// timeout ends it.
async fn cancel(handle: &Handle, connector: &Connector, network: &Network) {
    let Ok(mut stream) = dial(connector, network).await else { return };
    let request = handle.cancel_request();
    if stream.write_all(&request).await.is_ok() && stream.flush().await.is_ok() {
        let _closed = stream.read_u8().await;
    }
}

async fn dial(connector: &Connector, network: &Network) -> Result<Stream, WireError> {
    let host = if network.host.contains(':') {
        format!("[{}]", network.host)
    } else {
        network.host.clone()
    };
    let scheme = if network.tls { "https" } else { "http" };
    let url = url::Url::parse(&format!("{scheme}://{host}:{}/", network.port)).map_err(lose)?;
    let target = Target::new(&url).map_err(lose)?;
    let request = ssl_request();
    let upgrade = network.tls.then_some((&request[..], b'S'));
    connector.connect_without_alpn(&target, Policy::Operator, upgrade).await.map_err(lose)
}

fn lose(error: impl std::fmt::Display) -> WireError {
    WireError::Lost(error.to_string())
}

/// A session in use.
struct BusySession {
    session: Session,
    connector: Arc<Connector>,
    network: Arc<Network>,
    /// The statement's own timeout has ended it by then.
    timeout: Duration,
}

impl Abandoned for BusySession {
    async fn end(mut self) {
        let ended = async {
            loop {
                cancel(&self.session.handle, &self.connector, &self.network).await;
                if tokio::time::timeout(CANCEL_INTERVAL, self.session.end()).await.is_ok() {
                    break;
                }
            }
        };
        if tokio::time::timeout(self.timeout, ended).await.is_err() {
            let database = &self.network.database;
            tracing::warn!(%database, "an abandoned statement cannot be stopped");
        }
    }
}
