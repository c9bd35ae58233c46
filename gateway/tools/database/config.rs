//! Which databases may be asked, already validated. It reads no file and no environment, and no
//! `Debug` of it shows a password.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The `database` server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// By the name that callers use.
    pub connections: BTreeMap<String, Connection>,
    /// The connection that is meant when a caller names none.
    pub default: String,
    /// The folder of the embedded databases, one for each organisation (or person without one).
    pub embedded: Option<PathBuf>,
    pub limits: Limits,
}

/// One named database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub place: Place,
    /// Functions that statements may call beyond the built-in list.
    pub functions: Vec<String>,
}

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Postgres(Network),
    /// MySQL or MariaDB.
    Mysql(Network),
    /// A file that exists already.
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
    /// Encrypted, with the server's certificate checked.
    pub tls: bool,
    /// The role may be one that can do more than read tables.
    pub privileged: bool,
}

impl Network {
    /// What was said of a connection, for its operator.
    pub(super) fn without_password(&self, words: &str) -> String {
        let Self { host, port, password, .. } = self;
        let words = match password.is_empty() {
            true => words.to_owned(),
            false => words.replace(password.as_str(), "[redacted]"),
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

/// The bounds of all connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a statement may run when the caller does not say.
    pub timeout: Duration,
    /// How long a caller may let it run.
    pub max_timeout: Duration,
    /// How long a statement waits for a lock.
    pub lock_timeout: Duration,
    /// Rows of one answer at most.
    pub max_rows: usize,
    /// Bytes of one answer at most.
    pub max_bytes: usize,
    /// Open connections to each database.
    pub pool: usize,
    /// Bytes of one CSV resource that is imported.
    pub import_bytes: usize,
    /// Bytes of one embedded database.
    pub embedded_bytes: u64,
}
