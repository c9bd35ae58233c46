//! SQLite. Each statement runs alone on a new read-only connection, restricted to reading: by an
//! authorizer that denies by default, limits, a timeout, and without attached files or extensions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_policy::sql::Sql;
use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{Value as Owned, ValueRef};
use rusqlite::{Batch, Connection, ErrorCode, OpenFlags, Statement};
use serde_json::Value;

use super::answer::{Answer, Ask, Column, binary, float, signed};
use crate::blocking::{BlockingPool, CancellationToken};
use crate::tool::{ToolError, first_chars};

/// Instructions of SQLite's virtual machine between two checks of the timeout.
const STEPS_PER_CHECK: i32 = 1000;
/// Pragmas with which built-in statements read the schema.
const SCHEMA: [&str; 5] =
    ["table_list", "table_xinfo", "foreign_key_list", "index_list", "index_xinfo"];
/// Maximum length of a statement in bytes, built-in ones included.
const SQL_BYTES: i32 = 70_000;

/// A database file.
#[derive(Clone)]
pub(super) struct Sqlite {
    /// `None` is an empty database.
    pub(super) path: Option<PathBuf>,
    pub(super) rule: Arc<Sql>,
    /// Timeout for acquiring a lock.
    pub(super) lock_timeout: Duration,
    pub(super) places: BlockingPool,
}

impl Sqlite {
    /// Runs a statement on a blocking thread.
    pub(super) async fn run(&self, ask: &Ask) -> Result<Answer, ToolError> {
        let Some(permit) = self.places.acquire(ask.timeout).await else {
            return Err(ToolError::new(
                "too many statements run on this database: try again in a moment",
            ));
        };
        let database = self.clone();
        let ask = ask.clone();
        permit.run(move |stop| database.run_blocking(&ask, stop)).await
    }

    fn run_blocking(&self, ask: &Ask, stop: &CancellationToken) -> Result<Answer, ToolError> {
        let mut connection = open(self.path.as_deref()).map_err(|error| {
            tracing::warn!(path = ?self.path, %error, "no database");
            ToolError::new("the database file cannot be opened: the gateway's log has the reason")
        })?;
        self.confine(&mut connection, ask, stop).map_err(|error| refused(&error, ask))?;
        let mut batch = Batch::new(&connection, &ask.sql);
        let first = batch.next().map_err(|error| refused(&error, ask))?;
        let mut statement = first.ok_or_else(|| ToolError::new("the statement is empty"))?;
        if !matches!(batch.next(), Ok(None)) {
            return Err(ToolError::new("only one SQL statement is allowed"));
        }
        if !statement.readonly() || statement.column_count() == 0 {
            return Err(ToolError::new("the statement returns no rows, or is not read-only"));
        }
        if statement.parameter_count() != ask.parameters.len() {
            let takes = statement.parameter_count();
            let received = ask.parameters.len();
            return Err(ToolError::new(format!(
                "the statement takes {takes} parameters, received {received}"
            )));
        }
        collect(&mut statement, ask).map_err(|error| refused(&error, ask))
    }

    fn confine(
        &self,
        connection: &mut Connection,
        ask: &Ask,
        stop: &CancellationToken,
    ) -> rusqlite::Result<()> {
        connection.busy_timeout(self.lock_timeout)?;
        for (setting, on) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
            (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
        ] {
            connection.set_db_config(setting, on)?;
        }
        let bytes = i32::try_from(ask.max_bytes).unwrap_or(i32::MAX);
        for (limit, most) in [
            (Limit::SQLITE_LIMIT_LENGTH, bytes.max(SQL_BYTES)),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
            (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 1000),
            (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
        ] {
            connection.set_limit(limit, most)?;
        }
        let deadline = Instant::now() + ask.timeout;
        let stop = stop.clone();
        connection.progress_handler(
            STEPS_PER_CHECK,
            Some(move || stop.is_set() || Instant::now() > deadline),
        )?;
        let rule = Arc::clone(&self.rule);
        let own = ask.own;
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if permitted(&rule, own, &context.action) {
                Authorization::Allow
            } else {
                Authorization::Deny
            }
        }))
    }
}

fn refused(error: &rusqlite::Error, ask: &Ask) -> ToolError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => ask.late(),
        Some(ErrorCode::TooBig) => ask.large(),
        _ => {
            let words = error.to_string();
            ToolError(format!("SQLite refuses the statement: {}", first_chars(&words, 500)))
        }
    }
}

fn open(path: Option<&Path>) -> rusqlite::Result<Connection> {
    let only = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match path {
        Some(path) => Connection::open_with_flags(path, only),
        None => Connection::open_in_memory_with_flags(
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        ),
    }
}

/// Permits reading, calls of functions that only compute, and the declarations of virtual tables.
/// Denies everything else.
fn permitted(rule: &Sql, own: bool, action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        // JSON operators.
        AuthAction::Function { function_name: "->" | "->>" } => true,
        AuthAction::Function { function_name } => {
            rule.allows_function(&function_name.to_ascii_lowercase())
        }
        // Virtual tables request this to declare their columns. The file is opened read-only and in
        // defensive mode.
        AuthAction::Update { table_name: "sqlite_master", .. } => true,
        AuthAction::Pragma { pragma_name: "data_version", pragma_value: None } => true,
        AuthAction::Pragma { pragma_name, .. } => own && SCHEMA.contains(pragma_name),
        _ => false,
    }
}

fn collect(statement: &mut Statement<'_>, ask: &Ask) -> rusqlite::Result<Answer> {
    let columns = statement.columns().map(|column| Column {
        name: column.name().to_owned(),
        kind: column.decl_type().unwrap_or("").to_ascii_lowercase(),
    });
    let mut answer = Answer::new(columns.collect());
    let values: Vec<Owned> = ask.parameters.iter().map(parameter).collect();
    let mut rows = statement.query(rusqlite::params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let mut values = Vec::with_capacity(answer.columns.len());
        for (at, column) in answer.columns.iter_mut().enumerate() {
            let value = row.get_ref(at)?;
            if column.kind.is_empty() && value != ValueRef::Null {
                // An expression has no declared type, so its first value determines the type.
                column.kind = value.data_type().to_string().to_ascii_lowercase();
            }
            values.push(json(value));
        }
        if !answer.push(values, ask) {
            break;
        }
    }
    Ok(answer)
}

fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => signed(number),
        ValueRef::Real(number) => float(number),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => binary(bytes),
        },
        ValueRef::Blob(bytes) => binary(bytes),
    }
}

pub(super) fn parameter(value: &Value) -> Owned {
    match value {
        Value::Null => Owned::Null,
        Value::Bool(flag) => Owned::Integer(i64::from(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Owned::Integer(number),
            (_, Some(number)) => Owned::Real(number),
            _ => Owned::Text(number.to_string()),
        },
        Value::String(text) => Owned::Text(text.clone()),
        other => Owned::Text(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
