//! MySQL and MariaDB. Each statement is prepared (which accepts a single statement only), has to
//! return rows, and runs in a READ ONLY transaction that always ends in ROLLBACK, under timeouts.
//! Then the session is reset. Roles that may do more than read tables are rejected. The driver
//! opens its own sockets, to the address that the operator configured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_egress::Connector;
use mysql_async::consts::{ColumnFlags, ColumnType};
use mysql_async::prelude::Queryable;
use mysql_async::{Column as Field, Conn, Error, Opts, OptsBuilder, Params, SslOpts, Value as Sql};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::answer::{Answer, Ask, Column, binary, document, float, signed, unsigned};
use super::config::{Network, Settings};
use super::remote::{ACQUIRE_TIMEOUT, Abandoned, Remote, end_timeout, within};
use crate::tool::{ToolError, first_chars};

/// Prefix of a statement to explain.
pub(super) const EXPLAIN: &str = "EXPLAIN FORMAT=JSON";

/// Privileges that the role may have on everything (`*.*`).
const HARMLESS: [&str; 6] =
    ["USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES", "PROCESS", "REPLICATION CLIENT"];
/// Error codes of timeouts in MariaDB and MySQL.
const TIMEOUTS: [u16; 2] = [1969, 3024];
/// The collation id of binary data.
const BINARY_COLLATION: u16 = 63;

pub(super) struct Mysql {
    pub(super) remote: Remote,
    limits: Settings,
    ending: Ending,
    idle: Mutex<Vec<Session>>,
}

struct Session {
    conn: Conn,
    mariadb: bool,
    name: Name,
}

/// Verifies the server against the same CA certificates as all other outbound connections.
fn tls_options(connector: &Connector) -> SslOpts {
    let authorities = connector.authorities().map(|der| der.to_vec().into());
    SslOpts::default().with_disable_built_in_roots(true).with_root_certs(authorities.collect())
}

fn options(network: &Network, limits: &Settings, connector: &Connector) -> Opts {
    let Network { host, port, user, password, database, tls, privileged: _ } = network;
    let tls = if *tls { Some(tls_options(connector)) } else { None };
    let options = OptsBuilder::default()
        .ip_or_hostname(host.clone())
        .tcp_port(*port)
        .user(Some(user.clone()))
        .pass(Some(password.clone()))
        .db_name(Some(database.clone()))
        .ssl_opts(tls)
        .prefer_socket(false)
        .stmt_cache_size(0)
        .max_allowed_packet(Some(limits.result_size.saturating_add(1 << 16)));
    Opts::from(options)
}

impl Mysql {
    pub(super) fn new(network: Network, limits: Settings, connector: &Connector) -> Self {
        let ending = Ending {
            options: options(&network, &limits, connector),
            turn: Arc::new(Semaphore::new(1)),
        };
        let remote = Remote::new(network, &limits);
        Self { remote, limits, ending, idle: Mutex::default() }
    }

    pub(super) async fn run(&self, ask: &Ask) -> Result<Answer, ToolError> {
        let mut slot = self.remote.acquire().await?;
        let whole = async {
            let pooled = self.idle.lock().pop();
            let mut session = match pooled {
                // A pooled session may have been closed since.
                Some(mut session) => match session.conn.ping().await {
                    Ok(()) => session,
                    Err(_) => self.open().await?,
                },
                None => self.open().await?,
            };
            let deadline = Instant::now() + end_timeout(ask);
            let ending = self.ending.clone();
            slot.busy = Some(BusySession { ending, name: session.name.clone(), deadline });
            let done = self.attempt(&mut session, ask).await;
            if let Ok(true) = session.conn.reset().await {
                slot.busy = None;
                self.idle.lock().push(session);
            }
            done.map_err(|error| self.words(&error, ask))
        };
        within(ask, whole).await
    }

    /// Connects and checks the role.
    async fn open(&self) -> Result<Session, ToolError> {
        let connect = tokio::time::timeout(ACQUIRE_TIMEOUT, Conn::new(self.ending.options.clone()));
        let Ok(connected) = connect.await else {
            return Err(ToolError::new("the database does not respond"));
        };
        let looked = match connected {
            Ok(conn) => self.look(conn).await,
            Err(error) => Err(error),
        };
        let (session, grants) =
            looked.map_err(|error| self.remote.report_unreachable(&error.to_string()))?;
        match grants.iter().find_map(|grant| too_much(grant)) {
            Some(found) => Err(self.remote.report_role(&found)),
            None => Ok(session),
        }
    }

    /// Reads the version and identity of a new connection's server, and the role's grants if they
    /// matter.
    async fn look(&self, mut conn: Conn) -> Result<(Session, Vec<String>), Error> {
        let (version, server) = find_server(&mut conn).await?;
        let name = Name { server, id: conn.id() };
        let privileged = self.remote.network.privileged;
        let grants = if privileged { Vec::new() } else { conn.query("SHOW GRANTS").await? };
        Ok((Session { conn, mariadb: version.contains("MariaDB"), name }, grants))
    }

    async fn attempt(&self, session: &mut Session, ask: &Ask) -> Result<Answer, Error> {
        let conn = &mut session.conn;
        let seconds = ask.timeout.as_secs_f64();
        let milliseconds = ask.timeout.as_millis();
        let timeout = if session.mariadb {
            format!("max_statement_time = {seconds}")
        } else {
            format!("max_execution_time = {milliseconds}")
        };
        let lock = self.limits.lock_timeout.as_secs().max(1);
        let rows = ask.max_rows + 1;
        let text = ask.max_bytes;
        // Fixes the character set that the sql rule assumes. MySQL's reset restores the server's
        // own, and in GBK, the second byte of a character may be a backslash or a backquote. MySQL
        // also truncates results of GROUP_CONCAT at 1 KiB by default.
        conn.query_drop(format!(
            "SET SESSION {timeout}, lock_wait_timeout = {lock}, innodb_lock_wait_timeout = {lock}, \
                time_zone = '+00:00', sql_select_limit = {rows}, autocommit = 1, \
                group_concat_max_len = {text}, character_set_client = utf8mb4, \
                character_set_connection = utf8mb4, character_set_results = utf8mb4"
        ))
        .await?;
        conn.query_drop("START TRANSACTION READ ONLY").await?;
        conn.query_drop("SELECT 1").await?;
        let done = collect(conn, ask).await;
        // Always roll back; the caller resets the session.
        match (done, conn.query_drop("ROLLBACK").await) {
            (Ok(answer), Ok(())) => Ok(answer),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
        }
    }

    fn words(&self, error: &Error, ask: &Ask) -> ToolError {
        match error {
            Error::Server(server) if TIMEOUTS.contains(&server.code) => ask.late(),
            Error::Server(server) => {
                let words = first_chars(&server.message, 500);
                ToolError(format!("the database refuses the statement: {words} [{}]", server.code))
            }
            Error::Other(other) => ToolError::new(other.to_string()),
            // The driver's own error type is private.
            Error::Io(error) if error.to_string().contains("max_allowed_packet") => ask.large(),
            other => self.remote.report_lost(&other.to_string()),
        }
    }
}

const NO_ROWS: &str = "the statement returns no rows";

async fn collect(conn: &mut Conn, ask: &Ask) -> Result<Answer, Error> {
    let statement = conn.prep(ask.sql.as_str()).await?;
    // MySQL does not report the columns of an EXPLAIN before it runs.
    if statement.num_columns() == 0 && !ask.sql.starts_with(EXPLAIN) {
        conn.close(statement).await?;
        return Err(Error::Other(NO_ROWS.into()));
    }
    if usize::from(statement.num_params()) != ask.parameters.len() {
        let words = format!(
            "the statement takes {} parameters, received {}",
            statement.num_params(),
            ask.parameters.len()
        );
        conn.close(statement).await?;
        return Err(Error::Other(words.into()));
    }
    let values: Vec<Sql> = ask.parameters.iter().map(parameter).collect();
    let values = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
    let mut result = conn.exec_iter(&statement, values).await?;
    let Some(fields) = result.columns() else { return Err(Error::Other(NO_ROWS.into())) };
    let columns = fields
        .iter()
        .map(|field| Column { name: field.name_str().into_owned(), kind: kind(field) });
    let mut answer = Answer::new(columns.collect());
    while let Some(row) = result.next().await? {
        let values = row.unwrap().into_iter().zip(fields.iter());
        if !answer.push(values.map(|(value, field)| json(value, field)).collect(), ask) {
            break;
        }
    }
    result.drop_result().await?;
    Ok(answer)
}

/// Returns a privilege on everything beyond reading, from a line of SHOW GRANTS.
fn too_much(grant: &str) -> Option<String> {
    let (allowed, place) = grant.strip_prefix("GRANT ")?.split_once(" ON ")?;
    if !place.starts_with("*.*") {
        return None;
    }
    let option = place.contains("WITH GRANT OPTION").then_some("GRANT OPTION");
    let harmful = allowed.split(',').map(str::trim).find(|privilege| !HARMLESS.contains(privilege));
    harmful.or(option).map(str::to_owned)
}

fn parameter(value: &Value) -> Sql {
    match value {
        Value::Null => Sql::NULL,
        Value::Bool(flag) => Sql::Int(i64::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => Sql::Int(number),
            (_, Some(number), _) => Sql::UInt(number),
            (.., Some(number)) => Sql::Double(number),
            _ => Sql::Bytes(number.to_string().into_bytes()),
        },
        Value::String(text) => Sql::Bytes(text.clone().into_bytes()),
        other => Sql::Bytes(other.to_string().into_bytes()),
    }
}

fn json(value: Sql, field: &Field) -> Value {
    use ColumnType as T;
    match value {
        Sql::NULL => Value::Null,
        Sql::Int(number) => signed(number),
        Sql::UInt(number) => unsigned(number),
        // The shortest text that identifies the same 32 bits, as the server writes it.
        Sql::Float(number) => float(number.to_string().parse().unwrap_or(f64::from(number))),
        Sql::Double(number) => float(number),
        Sql::Date(year, month, day, hour, minute, second, micro) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            match field.column_type() {
                T::MYSQL_TYPE_DATE => date.into(),
                _ => format!("{date} {hour:02}:{minute:02}:{second:02}{}", fraction(micro)).into(),
            }
        }
        Sql::Time(negative, days, hours, minutes, seconds, micro) => {
            let sign = if negative { "-" } else { "" };
            let hours = days * 24 + u32::from(hours);
            format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", fraction(micro)).into()
        }
        Sql::Bytes(bytes) => match field.column_type() {
            T::MYSQL_TYPE_BIT if bytes.len() <= 8 => unsigned(bits(&bytes)),
            T::MYSQL_TYPE_JSON => match std::str::from_utf8(&bytes) {
                Ok(text) => document(text),
                Err(_) => binary(&bytes),
            },
            T::MYSQL_TYPE_DECIMAL | T::MYSQL_TYPE_NEWDECIMAL => {
                String::from_utf8_lossy(&bytes).into()
            }
            _ if field.character_set() == BINARY_COLLATION => binary(&bytes),
            _ => match String::from_utf8(bytes) {
                Ok(text) => Value::String(text),
                Err(error) => binary(error.as_bytes()),
            },
        },
    }
}

/// Converts at most eight bytes to a number, big-endian.
fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn fraction(micro: u32) -> String {
    if micro == 0 { String::new() } else { format!(".{micro:06}") }
}

fn kind(field: &Field) -> String {
    use ColumnType as T;
    let text = field.character_set() != BINARY_COLLATION;
    let word = match field.column_type() {
        T::MYSQL_TYPE_TINY => "tinyint",
        T::MYSQL_TYPE_SHORT => "smallint",
        T::MYSQL_TYPE_INT24 => "mediumint",
        T::MYSQL_TYPE_LONG => "int",
        T::MYSQL_TYPE_LONGLONG => "bigint",
        T::MYSQL_TYPE_FLOAT => "float",
        T::MYSQL_TYPE_DOUBLE => "double",
        T::MYSQL_TYPE_DECIMAL | T::MYSQL_TYPE_NEWDECIMAL => "decimal",
        T::MYSQL_TYPE_DATE | T::MYSQL_TYPE_NEWDATE => "date",
        T::MYSQL_TYPE_TIME | T::MYSQL_TYPE_TIME2 => "time",
        T::MYSQL_TYPE_DATETIME | T::MYSQL_TYPE_DATETIME2 => "datetime",
        T::MYSQL_TYPE_TIMESTAMP | T::MYSQL_TYPE_TIMESTAMP2 => "timestamp",
        T::MYSQL_TYPE_YEAR => "year",
        T::MYSQL_TYPE_JSON => "json",
        T::MYSQL_TYPE_BIT => "bit",
        T::MYSQL_TYPE_NULL => "null",
        T::MYSQL_TYPE_GEOMETRY => "geometry",
        T::MYSQL_TYPE_VECTOR => "vector",
        T::MYSQL_TYPE_STRING if text => "char",
        T::MYSQL_TYPE_STRING => "binary",
        T::MYSQL_TYPE_VARCHAR | T::MYSQL_TYPE_VAR_STRING if text => "varchar",
        T::MYSQL_TYPE_VARCHAR | T::MYSQL_TYPE_VAR_STRING => "varbinary",
        _ if text => "text",
        _ => "blob",
    };
    let number = matches!(
        field.column_type(),
        T::MYSQL_TYPE_TINY
            | T::MYSQL_TYPE_SHORT
            | T::MYSQL_TYPE_INT24
            | T::MYSQL_TYPE_LONG
            | T::MYSQL_TYPE_LONGLONG
    );
    let unsigned = number && field.flags().contains(ColumnFlags::UNSIGNED_FLAG);
    if unsigned { format!("{word} unsigned") } else { word.to_owned() }
}

// The end of an abandoned session.

/// Timeout of an attempt to end a session.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two checks of whether a session is gone.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Error codes of both servers for a missing session, or a session of another user.
const NO_SESSION_OF_OURS: [u16; 2] = [1094, 1095];

/// Resources for ending a session.
#[derive(Clone)]
struct Ending {
    options: Opts,
    /// At most one extra session per pool ends others at a time, beyond the pool's limit.
    turn: Arc<Semaphore>,
}

/// Identifies a session at one server. Behind a load balancer, the same id may be another session
/// at another server.
#[derive(Clone, PartialEq, Eq)]
struct Name {
    server: String,
    id: u32,
}

/// A session in use. The server does not detect an abandoned connection before its statement ends,
/// so the session is killed.
struct BusySession {
    ending: Ending,
    name: Name,
    /// The deadline of its statement.
    deadline: Instant,
}

impl Abandoned for BusySession {
    async fn end(self) {
        let Self { ending, name, deadline } = self;
        let turn = tokio::time::timeout_at(deadline.into(), ending.turn.acquire()).await;
        let Ok(Ok(turn)) = turn else { return };
        let ended = tokio::time::timeout(END_TIMEOUT, kill(&ending.options, &name)).await;
        drop(turn);
        if !matches!(ended, Ok(Ok(true))) {
            tracing::warn!(
                session = name.id,
                "an abandoned statement could not be ended and runs until its timeout"
            );
            tokio::time::sleep_until(deadline.into()).await;
        }
    }
}

/// Kills a session from another connection. Returns whether it is gone.
async fn kill(options: &Opts, name: &Name) -> Result<bool, Error> {
    let mut conn = Conn::new(options.clone()).await?;
    if find_server(&mut conn).await?.1 != name.server {
        return Ok(false);
    }
    // A killed session remains listed until it has ended.
    while is_there(conn.query_drop(format!("KILL {}", name.id)).await)? {
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    conn.disconnect().await?;
    Ok(true)
}

/// Returns whether a session may still exist.
fn is_there(kill: Result<(), Error>) -> Result<bool, Error> {
    match kill {
        Ok(()) => Ok(true),
        Err(Error::Server(error)) if NO_SESSION_OF_OURS.contains(&error.code) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the version of a server and its identity.
async fn find_server(conn: &mut Conn) -> Result<(String, String), Error> {
    let found = conn.query_first("SELECT version(), concat(@@hostname, ':', @@port)").await?;
    Ok(found.unwrap_or((String::new(), String::new())))
}

#[cfg(test)]
mod tests;
