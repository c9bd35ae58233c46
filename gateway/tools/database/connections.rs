//! The databases shared by the tools, and the statements that may run on each.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_policy::sql::{Checked, Dialect, Functions, Spec, Sql};
use serde_json::{Value, json};

use super::answer::{Answer, Ask};
use super::config::Settings;
use super::embedded::{Embedded, Owner};
use super::remote::Remote;
use super::{mysql, postgres, sqlite};
use crate::blocking::BlockingPool;
use crate::tool::{Arguments, Client, ToolError, ToolSpec, list_schema, timeout_schema};

/// The name of the embedded database among the connections.
pub const EMBEDDED: &str = "embedded";
/// Maximum number of tables, or columns of a table, returned at once.
pub(super) const MAX_ROWS: usize = 2000;
/// Maximum number of parameters per statement.
const MAX_PARAMETERS: usize = 500;

/// State shared by all tools of the server.
pub(super) struct Shared {
    pub(super) connections: BTreeMap<String, DatabaseConnection>,
    pub(super) default: String,
    pub(super) limits: Settings,
}

/// A connection, with the rule for its statements.
pub(super) struct DatabaseConnection {
    pub(super) rule: Arc<Sql>,
    pub(super) dialect: Dialect,
    pub(super) place: Reached,
}

pub(super) enum Reached {
    Postgres(postgres::Postgres),
    Mysql(mysql::Mysql),
    Sqlite(sqlite::Sqlite),
    /// A file per caller.
    Embedded(Embedded, BlockingPool),
}

pub(super) fn rule(dialect: Dialect, functions: &[String]) -> Result<Arc<Sql>, String> {
    let functions = Functions { allow: functions.to_vec(), deny: Vec::new() };
    let rule = Sql::compile(&Spec { dialect, functions, ..Spec::default() })?;
    Ok(Arc::new(rule))
}

pub(super) fn columns_schema() -> Value {
    list_schema(json!({"name": "string", "type": "string"}))
}

impl Shared {
    /// Returns the connection that a call names, or the default.
    pub(super) fn find_connection(
        &self,
        arguments: &Arguments,
    ) -> Result<&DatabaseConnection, ToolError> {
        let name = arguments.maybe_text("connection").unwrap_or(&self.default);
        self.connections.get(name).ok_or_else(|| {
            let known = self.connection_names().join(", ");
            ToolError(format!("there is no connection of this name; use one of: {known}"))
        })
    }

    fn connection_names(&self) -> Vec<&str> {
        self.connections.keys().map(String::as_str).collect()
    }

    /// Creates a caller's statement.
    pub(super) fn ask(&self, sql: String, arguments: &Arguments) -> Ask {
        let parameters = arguments.get("parameters").and_then(Value::as_array);
        let timeout = arguments.maybe_whole("timeout_ms").map(Duration::from_millis);
        let timeout = timeout.unwrap_or(self.limits.timeout);
        let limit = arguments.count("limit").unwrap_or(usize::MAX);
        Ask {
            sql,
            parameters: parameters.cloned().unwrap_or_default(),
            max_rows: limit.min(self.limits.max_rows),
            max_bytes: self.limits.result_size,
            timeout: timeout.min(self.limits.max_timeout),
            own: false,
        }
    }

    /// Creates a built-in statement.
    pub(super) fn own(&self, sql: &str, parameters: Vec<Value>) -> Ask {
        Ask {
            sql: sql.to_owned(),
            parameters,
            max_rows: MAX_ROWS,
            max_bytes: self.limits.result_size,
            timeout: self.limits.timeout,
            own: true,
        }
    }

    pub(super) fn connection_schema(&self) -> Value {
        json!({
            "type": "string",
            "enum": self.connection_names(),
            "default": self.default,
            "description": "The database",
        })
    }

    /// Returns the arguments of a tool that takes a statement.
    pub(super) fn statement_schema(&self) -> Value {
        let Settings { timeout, max_timeout, .. } = self.limits;
        json!({
            "sql": {
                "type": "string", "minLength": 1, "maxLength": 65536,
                "description": "One SELECT statement",
            },
            "parameters?": {
                "type": "array", "maxItems": MAX_PARAMETERS, "default": [],
                "items": {"type": ["string", "number", "boolean", "null"]},
                "description": "Values for $1, $2 … (PostgreSQL) or ? (MySQL, SQLite), in order"
            },
            "connection?": self.connection_schema(),
            "timeout_ms?": timeout_schema(timeout, max_timeout, "Time limit of the statement"),
        })
    }

    /// Creates the spec of a tool that reads. Its timeout is the statement's, plus the connection's
    /// overhead.
    pub(super) fn spec(
        &self,
        name: &'static str,
        title: &'static str,
        description: impl Into<Cow<'static, str>>,
    ) -> ToolSpec {
        ToolSpec::new(name, title, description)
            .tags(&["database"])
            .permissions(&["database:read"])
            .timeout(self.limits.max_timeout + Duration::from_secs(10))
    }
}

impl DatabaseConnection {
    /// Rejects statements other than a safe SELECT or its EXPLAIN. Returns the text to run.
    pub(super) fn check(&self, sql: &str) -> Result<Checked, ToolError> {
        self.rule.check(sql).map_err(|refusal| match hint(self.dialect, sql) {
            Some(hint) => ToolError(format!("{}; {hint}", refusal.0)),
            None => refusal.into(),
        })
    }

    /// Runs a statement on behalf of a caller.
    pub(super) async fn run(
        &self,
        ask: &Ask,
        client: Option<&Client<'_>>,
    ) -> Result<Answer, ToolError> {
        match &self.place {
            Reached::Postgres(postgres) => postgres.run(ask).await,
            Reached::Mysql(mysql) => mysql.run(ask).await,
            Reached::Sqlite(sqlite) => sqlite.run(ask).await,
            Reached::Embedded(embedded, places) => {
                let path = client.and_then(|client| embedded.file(&Owner::of(client)));
                let rule = Arc::clone(&self.rule);
                let places = places.clone();
                sqlite::Sqlite { path, rule, lock_timeout: embedded.lock_timeout, places }
                    .run(ask)
                    .await
            }
        }
    }

    /// Returns the server of the database, unless it is a file.
    pub(super) fn remote(&self) -> Option<&Remote> {
        match &self.place {
            Reached::Postgres(postgres) => Some(&postgres.remote),
            Reached::Mysql(mysql) => Some(&mysql.remote),
            Reached::Sqlite(_) | Reached::Embedded(..) => None,
        }
    }
}

// Guesses the intention of a rejected statement, and the syntax supported here. A courtesy to
// models, which mix up dialects. Matches words only, since the parser has already rejected the
// statement, and decides nothing.

/// Returns a hint to append to the reason, if any.
fn hint(dialect: Dialect, sql: &str) -> Option<&'static str> {
    let sql = sql.trim_start();
    let end = sql.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(sql.len());
    let first = if sql.starts_with('\\') { "\\" } else { &sql[..end] };
    match first.to_ascii_uppercase().as_str() {
        "SHOW" | "DESCRIBE" | "DESC" | "PRAGMA" | "\\" => {
            return Some(
                "the tools `database__tables` and `database__schema` list the tables and \
                columns",
            );
        }
        "EXPLAIN" => return Some("the tool `database__explain` shows the plan of a SELECT"),
        "USE" => return Some("`connection` chooses the database"),
        _ => {}
    }
    match dialect {
        Dialect::Postgres if plain(sql).contains('?') => {
            Some("placeholders are written $1, $2 … in PostgreSQL, not ?")
        }
        Dialect::Mysql if numbered(&plain(sql)) => {
            Some("placeholders are written ? in MySQL and MariaDB, not $1")
        }
        _ => None,
    }
}

/// Returns the text outside of single quotes. An approximation.
fn plain(sql: &str) -> String {
    sql.split('\'').step_by(2).collect()
}

fn numbered(sql: &str) -> bool {
    sql.as_bytes().windows(2).any(|pair| matches!(pair, [b'$', b'0'..=b'9']))
}
