//! Tests of `database`: real PostgreSQL, MariaDB, MySQL and SQLite, each with a canary table that
//! no statement may change.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests start servers of their own"
)]

pub(super) mod servers;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::answer::Ask;
use super::*;
use crate::Config as All;
use crate::tests::{Rig, rig};

pub(super) const ATTACKS: [(&str, &str); 3] = [
    ("postgres", include_str!("../../../tests/corpora/sql/attack-postgres.sql")),
    ("mysql", include_str!("../../../tests/corpora/sql/attack-mysql.sql")),
    ("sqlite", include_str!("../../../tests/corpora/sql/attack-sqlite.sql")),
];
pub(super) const BENIGN: [(&str, &str); 3] = [
    ("postgres", include_str!("../../../tests/corpora/sql/benign-postgres.sql")),
    ("mysql", include_str!("../../../tests/corpora/sql/benign-mysql.sql")),
    ("sqlite", include_str!("../../../tests/corpora/sql/benign-sqlite.sql")),
];

pub(super) fn lines(corpora: [(&str, &'static str); 3], name: &str) -> Vec<String> {
    let (_, corpus) = corpora.into_iter().find(|(found, _)| *found == name).unwrap();
    corpus.lines().map(|line| line.replace("${CR}", "\r")).collect()
}

pub(super) fn limits() -> Settings {
    Settings {
        timeout: Duration::from_secs(20),
        max_timeout: Duration::from_secs(60),
        lock_timeout: Duration::from_secs(1),
        max_rows: 1000,
        result_size: 1 << 20,
        pool: 2,
        embedded: config::EmbeddedSettings {
            import_size: 1 << 20,
            size: 8 << 20,
            ..config::EmbeddedSettings::default()
        },
        ..Settings::default()
    }
}

pub(super) fn ask(sql: &str) -> Ask {
    Ask {
        sql: sql.to_owned(),
        parameters: Vec::new(),
        max_rows: 100,
        max_bytes: 1 << 20,
        timeout: Duration::from_millis(300),
        own: false,
    }
}

pub(super) fn config(places: Vec<(&str, DatabasePlace)>, embedded: Option<&Path>) -> Settings {
    let connection = |place| Connection { place: Some(place), ..Connection::default() };
    let connections: BTreeMap<_, _> =
        places.into_iter().map(|(name, place)| (name.to_owned(), connection(place))).collect();
    let default = connections.keys().next().cloned().unwrap_or_else(|| EMBEDDED.to_owned());
    let mut config = Settings { connections, default: Some(default), ..limits() };
    config.embedded.folder = embedded.map(Path::to_owned);
    config
}

pub(super) fn connector() -> Arc<lockgate_egress::Connector> {
    let egress = lockgate_egress::Config {
        connect_timeout: Duration::from_secs(5),
        idle_connections: 4,
        idle_timeout: Duration::from_secs(5),
        ..lockgate_egress::Config::default()
    };
    Arc::new(lockgate_egress::Connector::new(&egress).unwrap())
}

pub(super) fn about() -> About {
    let (events, _) = tokio::sync::broadcast::channel(8);
    let (name, version) = ("gate".into(), "1.2.3".into());
    About { name, version, started: Instant::now(), events, connector: connector() }
}

pub(super) fn tools(config: Settings) -> Rig {
    rig(&All { database: Some(config), ..All::none() })
}

/// Tables for the benign statements, in all dialects.
pub(super) const TABLES: [&str; 7] = [
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(50) NOT NULL, email VARCHAR(80), city VARCHAR(40) DEFAULT 'x', \
     meta JSON_TYPE TAGS)",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, total DECIMAL(10,2) NOT NULL, status \
     VARCHAR(10), placed_at TIMESTAMP_TYPE, note VARCHAR(80))",
    "CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders (id), sku VARCHAR(10), quantity INTEGER, \
     price DECIMAL(10,2))",
    "INSERT INTO customers (id, name, email, city, meta) VALUES (1, 'Ada', 'ada@example.com', 'London', '{\"plan\":\"free\"}')",
    "INSERT INTO customers (id, name, email, city, meta) VALUES (2, 'Bo', 'bo@example.com', 'Paris', '{\"plan\":\"paid\"}')",
    "INSERT INTO orders VALUES (1, 1, 12.50, 'paid', '2024-05-01 10:00:00', 'quick'), (2, 2, 120.00, 'open', '2024-06-01 \
     11:00:00', NULL)",
    "CREATE INDEX orders_customer ON orders (customer_id)",
];

pub(super) fn table(sql: &str, json: &str, time: &str, tags: &str) -> String {
    sql.replace("JSON_TYPE", json).replace("TIMESTAMP_TYPE", time).replace("TAGS", tags)
}

/// Returns a connector that trusts the system's CA certificates and the given one.
pub(super) fn knowing(authority: &str) -> lockgate_egress::Connector {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority).unwrap();
    let egress = lockgate_egress::Config {
        ca_file: Some(file.path().to_owned()),
        connect_timeout: Duration::from_secs(5),
        idle_connections: 4,
        idle_timeout: Duration::from_secs(5),
        ..lockgate_egress::Config::default()
    };
    lockgate_egress::Connector::new(&egress).unwrap()
}

#[test]
fn json_is_a_value_only_where_nothing_is_lost() {
    use super::answer::document;
    assert_eq!(document("{\"a\": [1, 2.5, \"x y\", null]}"), json!({"a": [1, 2.5, "x y", null]}));
    for text in
        ["{\"a\": 1.10}", "12345678901234567890123", "{\"a\":1,\"a\":2}", "\"\\u0041\"", "{"]
    {
        assert_eq!(document(text), json!(text), "{text}");
    }
}

/// The parser rejects the statements before any connection is made.
#[tokio::test]
async fn what_is_refused_says_how_it_is_written_here() {
    let network = || Network {
        host: "127.0.0.1".into(),
        port: 1,
        user: "reader".into(),
        password: "secret".into(),
        database: "test".into(),
        tls: false,
        privileged: false,
    };
    let folder = tempfile::tempdir().unwrap();
    let places =
        vec![("pg", DatabasePlace::Postgres(network())), ("my", DatabasePlace::Mysql(network()))];
    let rig = tools(config(places, Some(folder.path())));
    for (connection, sql, words) in [
        (
            "pg",
            "SELECT * FROM t WHERE a =?",
            "; placeholders are written $1, $2 … in PostgreSQL, not ?",
        ),
        (
            "pg",
            "SELECT * FROM t WHERE a = ? AND b = '$1'",
            "; placeholders are written $1, $2 … in PostgreSQL, not ?",
        ),
        (
            "my",
            "SELECT * FROM t WHERE a = $1",
            "; placeholders are written ? in MySQL and MariaDB, not $1",
        ),
        (
            "pg",
            "show tables",
            "; the tools `database__tables` and `database__schema` list the tables and columns",
        ),
        (
            "my",
            "DESCRIBE t",
            "; the tools `database__tables` and `database__schema` list the tables and columns",
        ),
        (
            "pg",
            "\\d t",
            "; the tools `database__tables` and `database__schema` list the tables and columns",
        ),
        (
            "embedded",
            "PRAGMA table_list",
            "; the tools `database__tables` and `database__schema` list the tables and columns",
        ),
        (
            "my",
            "EXPLAIN ANALYZE SELECT 1",
            "; the tool `database__explain` shows the plan of a SELECT",
        ),
    ] {
        let said = rig
            .call("database/query", json!({"sql": sql, "connection": connection}))
            .await
            .unwrap_err();
        assert!(said.ends_with(words), "{sql}: {said}");
    }
    let plain = json!({"sql": "DELETE FROM t WHERE a = '?'", "connection": "pg"});
    let said = rig.call("database/query", plain).await.unwrap_err();
    assert!(!said.contains("placeholder"), "{said}");
}
