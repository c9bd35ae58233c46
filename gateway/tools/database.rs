//! The `database` server: SELECT on PostgreSQL, MySQL, MariaDB and SQLite. A statement is judged by
//! policy's sql rule, and whatever that let through, the databases themselves are made to refuse
//! writes: transactions that only read and end in ROLLBACK, roles without rights, read-only files
//! under an authorizer.

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

pub use config::{Config, Connection, Limits, Network, Place};

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_policy::sql::Dialect;
use tokio::sync::Semaphore;

use crate::About;
use crate::server::ServerDefinition;
use crate::tool::{Tool, ToolError};
pub use connections::EMBEDDED;
use connections::{Link, Reached, Shared, rule};
use embedded::Embedded;

pub(crate) fn build(config: &Config, about: &About) -> Result<ServerDefinition, String> {
    let limits = &config.limits;
    let mut links = BTreeMap::new();
    for (name, connection) in &config.connections {
        let dialect = match connection.place {
            Place::Postgres(_) => Dialect::Postgres,
            Place::Mysql(_) => Dialect::Mysql,
            Place::Sqlite(_) => Dialect::Sqlite,
        };
        let rule = rule(dialect, &connection.functions)
            .map_err(|words| format!("connections.{name}: {words}"))?;
        let place = match connection.place.clone() {
            Place::Postgres(network) => Reached::Postgres(postgres::Postgres::new(
                network,
                limits.clone(),
                Arc::clone(&about.connector),
            )),
            Place::Mysql(network) => {
                Reached::Mysql(mysql::Mysql::new(network, limits.clone(), &about.connector))
            }
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
    let shared = Arc::new(Shared {
        links,
        default: config.default.clone(),
        limits: limits.clone(),
        embedded,
    });
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
    let instructions = "Databases that can be read: `tables`, then `schema` of a table, then \
        `query`. Nothing can be changed.";
    Ok(ServerDefinition { instructions: instructions.into(), tools, provider: None })
}

/// Asks each database once at the start, so that an operator reads of a role that is refused before
/// a caller does.
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

#[cfg(test)]
pub(crate) mod tests;
