//! Validated settings of the databases. Reads no file and no environment; `Debug` omits passwords.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the `database` server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Connections by the name that callers use.
    pub connections: BTreeMap<String, Connection>,
    /// The connection used when a caller names none.
    pub default: String,
    /// The folder of the embedded databases, one per organisation (or per person without one).
    pub embedded: Option<PathBuf>,
    pub limits: Limits,
}

/// A named database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub place: DatabasePlace,
    /// Functions that statements may call, in addition to the built-in list.
    pub functions: Vec<String>,
}

/// The location of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabasePlace {
    Postgres(Network),
    /// MySQL or MariaDB.
    Mysql(Network),
    /// An existing file.
    Sqlite(PathBuf),
}

/// A database behind a socket.
#[derive(Clone, PartialEq, Eq)]
pub struct Network {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
    pub database: String,
    /// Whether to use TLS, with verification of the server's certificate.
    pub tls: bool,
    /// Whether to accept a role that may do more than read tables.
    pub privileged: bool,
}

impl Network {
    /// Formats an error of a connection for its operator, without the password.
    pub(super) fn without_password(&self, words: &str) -> String {
        let Self { host, port, password, .. } = self;
        let words = if password.is_empty() {
            words.to_owned()
        } else {
            words.replace(password.as_str(), "[redacted]")
        };
        format!("{host}:{port}: {words}")
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, user, password: _, database, tls, privileged } = self;
        write!(f, "Network({user}@{host}:{port}/{database}, tls: {tls}, privileged: {privileged})")
    }
}

/// Limits that apply to every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Default timeout of a statement.
    pub timeout: Duration,
    /// Maximum timeout that a caller may set.
    pub max_timeout: Duration,
    /// Timeout for acquiring a lock.
    pub lock_timeout: Duration,
    /// Maximum number of rows of a result.
    pub max_rows: usize,
    /// Maximum size of a result in bytes.
    pub max_bytes: usize,
    /// Maximum number of open connections per database.
    pub pool: usize,
    /// Maximum size in bytes of an imported CSV resource.
    pub import_bytes: usize,
    /// Maximum size in bytes of an embedded database.
    pub embedded_bytes: u64,
}
