//! Settings of the `database` server. Reads no file and no environment; `Debug` omits passwords.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_text::setting::{List, Seconds, Size, Text, Toggle, Whole};
use lockgate_text::settings;

settings! {
    /// SELECT on PostgreSQL, MySQL, MariaDB and SQLite; read-only.
    pub struct Settings as "Database" {
        /// Databases by name, at most 64. If the variable `DATABASE_URL` is set, it adds one with
        /// the name `default`.
        pub connections: BTreeMap<String, Connection>,
        /// The database used if a caller does not specify one. Default: `default`, or the first by
        /// name, or `embedded`.
        pub default: Option<String> = Option<Text>,
        /// The gateway's own SQLite databases, one for each organisation, into which CSV resources
        /// are imported.
        pub embedded: EmbeddedSettings,
        /// Default time for a statement, 1–280 s.
        pub timeout: Duration = Seconds<1, 280, 30>,
        /// Longest time for a statement that a caller may request, 1–280 s; at least `timeout`.
        pub max_timeout: Duration = Seconds<1, 280, 120>,
        /// How long a statement waits for a lock, 1–60 s.
        pub lock_timeout: Duration = Seconds<1, 60, 5>,
        /// Rows of one answer, 1–100000.
        pub max_rows: usize = Whole<1, 100_000, 1000>,
        /// Size of the rows of one answer, 64KiB–64MiB.
        pub result_size: usize = Size<0x1_0000, 0x400_0000, 0x40_0000>,
        /// Concurrent connections to each database, 1–100; MySQL gets one more while an abandoned
        /// statement is cancelled.
        pub pool: usize = Whole<1, 100, 4>,
    }

    pub struct Connection as "DatabaseConnection" {
        /// `postgres://user:password@host:5432/name` or `mysql://…`: use a reference, because it
        /// contains a password.
        pub url: Option<String> = Option<Text>,
        /// Instead of `url`: a SQLite file that exists.
        pub file: Option<String> = Option<Text>,
        /// Encrypted, with the certificate verified. Default: unless the host is this machine, or
        /// the URL has `sslmode=disable`.
        pub tls: Option<bool> = Option<Toggle<true>>,
        /// Functions that statements may call in addition to the built-in list, as `name` or
        /// `schema.name`; they are not checked.
        pub functions: Vec<String> = List,
        /// `true`: the role may be a superuser or have more permissions than reading tables. The
        /// parser is then the only protection of files and programs of the database's machine.
        pub allow_privileged_role: bool = Toggle<false>,
        /// The location that results from `url` or `file`.
        @serde(skip)
        pub place: Option<DatabasePlace>,
    }

    #[derive(Debug)]
    pub struct EmbeddedSettings as "DatabaseEmbedded" {
        /// Whether they are available.
        pub enabled: bool = Toggle<true>,
        /// The folder of their files, which is created if missing. Default: `lockgate-data`.
        pub folder: Option<PathBuf> = Option<Text>,
        /// Size of each, 1MiB–16GiB.
        pub size: u64 = Size<0x10_0000, 0x4_0000_0000, 0x1000_0000>,
        /// Size of one CSV that is imported, 1KiB–256MiB.
        pub import_size: usize = Size<1024, 0x1000_0000, 0x100_0000>,
    }
}

// Addresses contain passwords.
lockgate_text::debug_fields!(
    Settings: connections, default, embedded, timeout, max_timeout, max_rows, pool
);
lockgate_text::debug_fields!(Connection: place, functions);

impl Settings {
    /// Returns the folder of the embedded databases, one per organisation (or per person without
    /// one).
    pub fn embedded_folder(&self) -> Option<&PathBuf> {
        self.embedded.folder.as_ref().filter(|_| self.embedded.enabled)
    }
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

lockgate_text::debug_fields!(Network: host, port, user, database, tls, privileged);
