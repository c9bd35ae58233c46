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
mod explain;
mod hint;
mod import;
mod mysql;
mod postgres;
mod query;
mod sqlite;

pub use config::{Config, Connection, DatabasePlace, Limits, Network};

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockgate_policy::sql::Dialect;
use tokio::sync::{Semaphore, watch};

use crate::About;
use crate::server::{Backing, ServerDefinition};
use crate::tool::AnyTool;
pub use connections::EMBEDDED;
use connections::{DatabaseConnection, Reached, Shared, rule};
use embedded::Embedded;

/// Interval of health checks while all databases respond, and while at least one does not.
const HEALTHY_CHECK_INTERVAL: Duration = Duration::from_secs(15);
const UNHEALTHY_CHECK_INTERVAL: Duration = Duration::from_secs(3);

pub(crate) fn build(config: &Config, about: &About) -> Result<ServerDefinition, String> {
    let limits = &config.limits;
    let mut connections = BTreeMap::new();
    for (name, settings) in &config.connections {
        let connection = prepare(settings, limits, about)
            .map_err(|words| format!("connections.{name}: {words}"))?;
        connections.insert(name.clone(), connection);
    }
    let mut embedded = None;
    if let Some(folder) = &config.embedded {
        let databases = Embedded::new(folder.clone(), limits);
        let place = Reached::Embedded(databases.clone(), Arc::new(Semaphore::new(limits.pool)));
        let rule = rule(Dialect::Sqlite, &[])?;
        connections.insert(
            EMBEDDED.to_owned(),
            DatabaseConnection { rule, dialect: Dialect::Sqlite, place },
        );
        embedded = Some(databases);
    }
    let shared = Arc::new(Shared {
        connections,
        default: config.default.clone(),
        limits: limits.clone(),
        embedded,
    });
    let backing = watch_databases(&shared);
    let mut tools: Vec<Box<dyn AnyTool>> = vec![
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
    let instructions = "Databases that can be read: `tables`, then `schema` of a table, then \
        `query`. Nothing can be changed.";
    Ok(ServerDefinition { instructions: instructions.into(), tools, provider: None, backing })
}

/// Prepares a connection without connecting.
fn prepare(
    settings: &Connection,
    limits: &Limits,
    about: &About,
) -> Result<DatabaseConnection, String> {
    let dialect = match settings.place {
        DatabasePlace::Postgres(_) => Dialect::Postgres,
        DatabasePlace::Mysql(_) => Dialect::Mysql,
        DatabasePlace::Sqlite(_) => Dialect::Sqlite,
    };
    let rule = rule(dialect, &settings.functions)?;
    let place = match settings.place.clone() {
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
            places: Arc::new(Semaphore::new(limits.pool)),
        }),
    };
    Ok(DatabaseConnection { rule, dialect, place })
}

/// Checks at the start and then regularly that each database responds, so that the operator sees a
/// failure before a caller does. Returns `None` if all databases are files.
fn watch_databases(shared: &Arc<Shared>) -> Option<watch::Receiver<Backing>> {
    if !shared.connections.values().any(DatabaseConnection::is_remote) {
        return None;
    }
    let (tell, told) = watch::channel(Backing::Unknown);
    let shared = Arc::downgrade(shared);
    tokio::spawn(keep_asking(shared, tell));
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
        if let Some(words) = connection.find_trouble(&ask).await {
            troubles.push(format!("connection {name}: {words}"));
        }
    }
    if troubles.is_empty() { Backing::There } else { Backing::Away(troubles.join("; ")) }
}

#[cfg(test)]
pub(crate) mod tests;
