//! The `database` server: SELECT on PostgreSQL, MySQL, MariaDB and SQLite. A statement is judged by policy's sql rule, and
//! whatever that let through, the databases themselves are made to refuse writes: transactions that only read and end in
//! ROLLBACK, roles without rights, read-only files under an authorizer.

mod answer;
mod catalog;
mod config;
mod csv;
mod embedded;
mod explain;
mod hint;
mod import;
mod mysql;
mod postgres;
mod query;
mod sqlite;

pub use config::{Config, Connection, Limits, Network, Place};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_policy::sql::{Dialect, Functions, Kind, Spec, Sql};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::About;
use crate::server::ServerDefinition;
use crate::tool::{Arguments, Tool, ToolError, list_schema};
use answer::{Answer, Ask};
use embedded::{Embedded, Owner};

/// The name of the embedded database among the connections.
pub const EMBEDDED: &str = "embedded";
/// Most parameters of a statement.
const MAX_PARAMETERS: usize = 500;

/// What all tools of the server share.
struct Shared {
    links: BTreeMap<String, Link>,
    default: String,
    limits: Limits,
    embedded: Option<Embedded>,
}

/// One connection, with the rule for its statements.
struct Link {
    rule: Arc<Sql>,
    dialect: Dialect,
    place: Reached,
}

enum Reached {
    Postgres(postgres::Postgres),
    Mysql(mysql::Mysql),
    Sqlite(sqlite::Sqlite),
    /// The caller's own file.
    Embedded(Embedded, Arc<Semaphore>),
}

pub(crate) fn build(config: &Config, about: &About) -> Result<ServerDefinition, String> {
    let limits = &config.limits;
    let mut links = BTreeMap::new();
    for (name, connection) in &config.connections {
        let dialect = match connection.place {
            Place::Postgres(_) => Dialect::Postgres,
            Place::Mysql(_) => Dialect::Mysql,
            Place::Sqlite(_) => Dialect::Sqlite,
        };
        let rule = rule(dialect, &connection.functions).map_err(|words| format!("connections.{name}: {words}"))?;
        let place = match connection.place.clone() {
            Place::Postgres(network) => {
                Reached::Postgres(postgres::Postgres::new(network, limits.clone(), Arc::clone(&about.connector)))
            }
            Place::Mysql(network) => Reached::Mysql(mysql::Mysql::new(network, limits.clone(), &about.connector)),
            Place::Sqlite(path) => Reached::Sqlite(sqlite::Sqlite {
                path: Some(path),
                rule: Arc::clone(&rule),
                patience: limits.lock_timeout,
                places: Arc::new(Semaphore::new(limits.pool)),
            }),
        };
        links.insert(name.clone(), Link { rule, dialect, place });
    }
    let embedded = config.embedded.clone().map(|folder| Embedded::new(folder, limits));
    if let Some(embedded) = &embedded {
        let place = Reached::Embedded(embedded.clone(), Arc::new(Semaphore::new(limits.pool)));
        let rule = rule(Dialect::Sqlite, &[])?;
        links.insert(EMBEDDED.to_owned(), Link { rule, dialect: Dialect::Sqlite, place });
    }
    let shared = Arc::new(Shared { links, default: config.default.clone(), limits: limits.clone(), embedded });
    look(&shared);
    let mut tools: Vec<Box<dyn Tool>> = vec![
        Box::new(query::Query(Arc::clone(&shared))),
        Box::new(catalog::Tables(Arc::clone(&shared))),
        Box::new(catalog::Schema(Arc::clone(&shared))),
        Box::new(explain::Explain(Arc::clone(&shared))),
    ];
    if shared.embedded.is_some() {
        tools.push(Box::new(import::Import(Arc::clone(&shared))));
        tools.push(Box::new(import::Imports(Arc::clone(&shared))));
        tools.push(Box::new(import::DropImport(shared)));
    }
    let instructions =
        "Databases that can be read: `tables`, then `schema` of a table, then `query`. Nothing can be changed.";
    Ok(ServerDefinition { instructions: instructions.into(), tools, provider: None })
}

fn rule(dialect: Dialect, functions: &[String]) -> Result<Arc<Sql>, String> {
    let functions = Functions { allow: functions.to_vec(), deny: Vec::new() };
    Sql::compile(&Spec { dialect, functions, ..Spec::default() }).map(Arc::new)
}

/// Names and types of columns.
fn columns_schema() -> Value {
    list_schema(json!({"name": {"type": "string"}, "type": {"type": "string"}}), &["name", "type"])
}

/// Why there is no connection: what the operator has to do where it is clear, and else that the log says more.
fn unreachable(error: &str) -> ToolError {
    // How the TLS library begins what it says of a certificate.
    ToolError::new(match error.contains("invalid peer certificate") {
        true => {
            "the database's certificate is not valid for this gateway: its operator names the authority that made it in \
             `egress.ca_file`, or mends the certificate, and finds more in the log"
        }
        false => "the database cannot be reached, or refuses the gateway: its operator finds the reason in the log",
    })
}

/// Asks each database once at the start, so that an operator reads of a role that is refused before a caller does.
fn look(shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        for (name, link) in &shared.links {
            let ask = shared.own("SELECT 1", Vec::new());
            if let Reached::Postgres(_) | Reached::Mysql(_) = link.place
                && let Err(ToolError(words)) = link.run(&ask, None).await
            {
                tracing::error!(connection = %name, "{words}");
            }
        }
    });
}

impl Shared {
    /// The connection that a call names, and its owner's part of it.
    fn link(&self, arguments: &Arguments) -> Result<&Link, ToolError> {
        let name = arguments.maybe_text("connection").unwrap_or(&self.default);
        let known = || self.links.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        self.links
            .get(name)
            .ok_or_else(|| ToolError::new(format!("there is no connection of this name; there are: {}", known())))
    }

    fn embedded(&self) -> Result<&Embedded, ToolError> {
        self.embedded.as_ref().ok_or_else(|| ToolError::new("there is no embedded database"))
    }

    /// A statement of the caller's.
    fn ask(&self, sql: String, arguments: &Arguments) -> Result<Ask, ToolError> {
        let parameters = arguments.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default();
        let timeout = arguments.maybe_whole("timeout_ms").map_or(self.limits.timeout, Duration::from_millis);
        let rows = arguments.maybe_whole("limit").and_then(|rows| usize::try_from(rows).ok());
        Ok(Ask {
            sql,
            parameters,
            max_rows: rows.unwrap_or(self.limits.max_rows).min(self.limits.max_rows),
            max_bytes: self.limits.max_bytes,
            timeout: timeout.min(self.limits.max_timeout),
            own: false,
        })
    }

    /// A fixed statement of ours.
    fn own(&self, sql: &str, parameters: Vec<Value>) -> Ask {
        Ask {
            sql: sql.to_owned(),
            parameters,
            max_rows: catalog::MAX_ROWS,
            max_bytes: self.limits.max_bytes,
            timeout: self.limits.timeout,
            own: true,
        }
    }

    /// The argument that chooses a connection.
    fn connection_schema(&self) -> Value {
        let names: Vec<&String> = self.links.keys().collect();
        json!({"type": "string", "enum": names, "default": self.default, "description": "Which database"})
    }

    fn timeout_schema(&self) -> Value {
        let (most, default) = (self.limits.max_timeout.as_millis(), self.limits.timeout.as_millis());
        json!({
            "type": "integer", "minimum": 1, "maximum": u64::try_from(most).unwrap_or(u64::MAX),
            "default": u64::try_from(default).unwrap_or(u64::MAX), "description": "How long the statement may run"
        })
    }

    fn parameters_schema() -> Value {
        json!({
            "type": "array", "maxItems": MAX_PARAMETERS, "default": [],
            "items": {"type": ["string", "number", "boolean", "null"]},
            "description": "Values for $1, $2 … (PostgreSQL) or ? (MySQL, SQLite), in order"
        })
    }

    /// How long a tool may take in all: its statement, and the way there and back.
    fn patience(&self) -> Duration {
        self.limits.max_timeout + Duration::from_secs(10)
    }
}

impl Link {
    /// Refuses what is no harmless SELECT, nor the plan of one.
    fn check(&self, sql: &str) -> Result<Kind, ToolError> {
        self.rule.check(sql).map(|checked| checked.kind).map_err(|refusal| match hint::hint(self.dialect, sql) {
            Some(hint) => ToolError(format!("{}; {hint}", refusal.0)),
            None => ToolError(refusal.0),
        })
    }

    /// Runs a statement in the database, for a caller.
    async fn run(&self, ask: &Ask, owner: Option<&Owner>) -> Result<Answer, ToolError> {
        match &self.place {
            Reached::Postgres(postgres) => postgres.run(ask).await,
            Reached::Mysql(mysql) => mysql.run(ask).await,
            Reached::Sqlite(sqlite) => sqlite.run(ask).await,
            Reached::Embedded(embedded, places) => {
                let path = owner.and_then(|owner| embedded.file(owner));
                let (rule, places) = (Arc::clone(&self.rule), Arc::clone(places));
                sqlite::Sqlite { path, rule, patience: embedded.patience(), places }.run(ask).await
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
