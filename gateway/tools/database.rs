//! The `database` server: SELECT on PostgreSQL, MySQL, MariaDB and SQLite. The policy's sql rule
//! checks each statement. Independently of it, the databases themselves refuse writes: through READ
//! ONLY transactions that end in ROLLBACK, unprivileged roles, and read-only files under an
//! authorizer.

mod answer;
mod catalog;
mod config;
mod connections;
mod csv;
mod embedded;
mod import;
mod mysql;
mod postgres;
mod remote;
mod sqlite;

pub use config::{Connection, DatabasePlace, Network, Settings};
use lockgate_text::json;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use lockgate_admission::spawn;
use lockgate_policy::sql::{Dialect, Kind};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::About;
use crate::blocking::BlockingPool;
use crate::server::{Backing, ServerDefinition};
use crate::tool::{AnyTool, Arguments, Client, Output, Tool, ToolError, ToolSpec, milliseconds};
use connections::{DatabaseConnection, Reached, Shared, columns_schema, rule};
use embedded::Embedded;

pub use connections::EMBEDDED;

/// Interval of health checks while all databases respond, and while at least one does not.
const HEALTHY_CHECK_INTERVAL: Duration = Duration::from_secs(15);
const UNHEALTHY_CHECK_INTERVAL: Duration = Duration::from_secs(3);

pub(crate) fn build(config: &Settings, about: &About) -> Result<ServerDefinition, String> {
    // Without the passwords of all connections in each.
    let limits = &Settings { connections: BTreeMap::new(), ..config.clone() };
    let mut connections = BTreeMap::new();
    for (name, settings) in &config.connections {
        let connection = prepare(settings, limits, about)
            .map_err(|words| format!("connections.{name}: {words}"))?;
        connections.insert(name.clone(), connection);
    }
    let mut embedded = None;
    if let Some(folder) = config.embedded_folder() {
        let databases = Embedded::new(folder.clone(), limits);
        let place = Reached::Embedded(databases.clone(), BlockingPool::new(limits.pool));
        let rule = rule(Dialect::Sqlite, &[])?;
        connections.insert(
            EMBEDDED.to_owned(),
            DatabaseConnection { rule, dialect: Dialect::Sqlite, place },
        );
        embedded = Some(databases);
    }
    let shared = Arc::new(Shared {
        connections,
        default: config.default.clone().unwrap_or_default(),
        limits: limits.clone(),
    });
    let backing = watch_databases(&shared);
    let mut tools: Vec<Box<dyn AnyTool>> = vec![
        Box::new(Query(Arc::clone(&shared))),
        Box::new(catalog::Tables(Arc::clone(&shared))),
        Box::new(catalog::Schema(Arc::clone(&shared))),
        Box::new(Explain(Arc::clone(&shared))),
    ];
    if let Some(embedded) = embedded {
        tools.push(Box::new(import::Import(Arc::clone(&shared), embedded.clone())));
        tools.push(Box::new(import::Imports(Arc::clone(&shared), embedded.clone())));
        tools.push(Box::new(import::DropImport(shared, embedded)));
    }
    let instructions = "Databases that can be read: `tables`, then `schema` of a table, then \
        `query`. Nothing can be changed.";
    Ok(ServerDefinition {
        instructions: instructions.into(),
        tools,
        backing,
        ..ServerDefinition::default()
    })
}

/// Prepares a connection without connecting.
fn prepare(
    settings: &Connection,
    limits: &Settings,
    about: &About,
) -> Result<DatabaseConnection, String> {
    let place = settings.place.clone().ok_or("has neither `url` nor `file`")?;
    let dialect = match &place {
        DatabasePlace::Postgres(_) => Dialect::Postgres,
        DatabasePlace::Mysql(_) => Dialect::Mysql,
        DatabasePlace::Sqlite(_) => Dialect::Sqlite,
    };
    let rule = rule(dialect, &settings.functions)?;
    let place = match place {
        DatabasePlace::Postgres(network) => Reached::Postgres(postgres::Postgres::new(
            network,
            limits.clone(),
            Arc::clone(&about.connector),
        )),
        DatabasePlace::Mysql(network) => {
            Reached::Mysql(mysql::Mysql::new(network, limits.clone(), &about.connector))
        }
        DatabasePlace::Sqlite(path) => Reached::Sqlite(sqlite::Sqlite {
            path: Some(path),
            rule: Arc::clone(&rule),
            lock_timeout: limits.lock_timeout,
            places: BlockingPool::new(limits.pool),
        }),
    };
    Ok(DatabaseConnection { rule, dialect, place })
}

/// Checks at the start and then regularly that each database responds, so that the operator sees a
/// failure before a caller does. Returns `None` if all databases are files.
fn watch_databases(shared: &Arc<Shared>) -> Option<watch::Receiver<Backing>> {
    if !shared.connections.values().any(|connection| connection.remote().is_some()) {
        return None;
    }
    let (tell, told) = watch::channel(Backing::Unknown);
    let shared = Arc::downgrade(shared);
    spawn(keep_asking(shared, tell));
    Some(told)
}

/// Runs for as long as the server exists.
async fn keep_asking(shared: Weak<Shared>, tell: watch::Sender<Backing>) {
    loop {
        let Some(databases) = shared.upgrade() else { return };
        let found = find_away(&databases).await;
        drop(databases);
        let pause =
            if found == Backing::There { HEALTHY_CHECK_INTERVAL } else { UNHEALTHY_CHECK_INTERVAL };
        let has_changed = tell.send_if_modified(|known| {
            let is_other = *known != found;
            known.clone_from(&found);
            is_other
        });
        match &found {
            Backing::Away(words) if has_changed => tracing::error!("{words}"),
            Backing::There if has_changed => tracing::info!("the databases answer"),
            _ => {}
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = tell.closed() => return,
        }
    }
}

async fn find_away(shared: &Shared) -> Backing {
    let mut troubles = Vec::new();
    for (name, connection) in &shared.connections {
        let ask = shared.own("SELECT 1", Vec::new());
        let Some(remote) = connection.remote() else { continue };
        if let Some(words) = remote.find_trouble(connection.run(&ask, None)).await {
            troubles.push(format!("connection {name}: {words}"));
        }
    }
    if troubles.is_empty() { Backing::There } else { Backing::Away(troubles.join("; ")) }
}

#[cfg(test)]
pub(crate) mod tests;

struct Explain(Arc<Shared>);

impl Tool for Explain {
    fn spec(&self) -> ToolSpec {
        self.0
            .spec(
                "database/explain",
                "Explain a query",
                "Shows the plan of a SELECT (indexes, order, expected number of rows), without \
                running it. Use it when `query` is slow or times out.",
            )
            .input(self.0.statement_schema())
            .output(json!({"plan": {"description": "As returned by the database"}}))
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let connection = self.0.find_connection(&arguments)?;
        let checked = connection.check(arguments.text("sql")?)?;
        if checked.kind == Kind::Explain {
            return Err(ToolError::new(
                "this tool explains a SELECT: send it without EXPLAIN, or send it all to \
                    `query`",
            ));
        }
        let word = match connection.dialect {
            Dialect::Postgres => "EXPLAIN (FORMAT JSON)",
            Dialect::Mysql => mysql::EXPLAIN,
            Dialect::Sqlite => "EXPLAIN QUERY PLAN",
        };
        let ask = self.0.ask(format!("{word} {}", checked.text), &arguments);
        let answer = connection.run(&ask, Some(&client)).await?;
        let plan = match connection.dialect {
            Dialect::Sqlite => answer.objects().into(),
            Dialect::Postgres | Dialect::Mysql => match answer.rows.into_iter().flatten().next() {
                Some(Value::String(text)) => json::from_str(&text).unwrap_or(Value::String(text)),
                other => other.unwrap_or(Value::Null),
            },
        };
        Ok(json!({"plan": plan}).into())
    }
}

/// Default maximum number of rows.
const DEFAULT_ROWS: usize = 100;

struct Query(Arc<Shared>);

impl Tool for Query {
    fn spec(&self) -> ToolSpec {
        let most = self.0.limits.max_rows;
        let mut input = self.0.statement_schema();
        input["limit?"] = json!({
            "type": "integer", "minimum": 1, "maximum": most, "default": DEFAULT_ROWS.min(most),
            "description": "Maximum number of rows",
        });
        self.0.spec(
            "database/query",
            "Query a database",
            "Runs one SELECT, or EXPLAIN of one, with `parameters` for its values, and returns \
                `columns` (name, type), `rows` (a list of values each, in the order of the \
                columns) and `row_count`. Nothing can be changed. `truncated` is set if there are \
                more rows than `limit` or than fit: use WHERE, aggregates or LIMIT … OFFSET. \
                Decimals, dates and whole numbers beyond 2^53 are strings, bytes are {\"base64\": \
                …}.",
        )
        .input(input)
        .output(json!({
            "columns": columns_schema(), "rows": {"type": "array", "items": {"type": "array"}},
            "row_count": "integer",
            "truncated": {
                "type": ["string", "null"],
                "description": "Why rows are missing: max_rows or max_bytes; or may be missing: \
                    limit, that of the statement, which a policy may have added",
            },
            "duration_ms": "number",
        }))
        .cap(self.0.limits.result_size.saturating_mul(6))
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let connection = self.0.find_connection(&arguments)?;
        let checked = connection.check(arguments.text("sql")?)?;
        let ask = self.0.ask(checked.text, &arguments);
        let began = Instant::now();
        let answer = connection.run(&ask, Some(&client)).await?;
        let duration_ms = milliseconds(began.elapsed());
        let columns = answer.columns_json();
        let count = answer.rows.len();
        let is_full = checked.limit.is_some_and(|most| count as u64 >= most);
        let truncated = answer.truncated.or_else(|| is_full.then_some("limit"));
        Ok(json!({
            "columns": columns, "rows": answer.rows, "row_count": count,
            "truncated": truncated, "duration_ms": duration_ms
        })
        .into())
    }
}
