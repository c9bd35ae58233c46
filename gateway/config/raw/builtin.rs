//! `builtin`: the list of built-in servers.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::leaf::{List, Seconds, Size, Text, Toggle, Whole};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Builtin {
    /// Reports the state of the gateway and its servers.
    pub system: Toggle<true>,
    /// A few harmless tools to try a client with. By default on in development when neither a
    /// server nor another category is configured.
    pub example: Option<Toggle<false>>,
    /// Reads and changes files in folders; off until it is configured.
    pub file: Option<lockgate_tools::File>,
    /// Resources and prompts that the gateway itself offers; off until it is configured.
    pub content: Option<lockgate_tools::content::Config>,
    /// Reads databases; off until it is configured.
    pub database: Option<Database>,
    /// Runs allowed programs, confined; off until it is configured.
    pub shell: Option<lockgate_tools::Shell>,
    /// Requests to web servers and pages as text; off until it is configured.
    pub web: Option<lockgate_tools::Web>,
}

// `builtin.database`: the databases open to queries, and limits.

/// SELECT on PostgreSQL, MySQL, MariaDB and SQLite; read-only.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// Databases by name, at most 64. If the variable `DATABASE_URL` is set, it adds one with the
    /// name `default`.
    pub connections: BTreeMap<String, Connection>,
    /// The database used if a caller does not specify one. Default: `default`, or the first by
    /// name, or `embedded`.
    pub default: Option<Text>,
    /// The gateway's own SQLite databases, one for each organisation, into which CSV resources are
    /// imported.
    pub embedded: Embedded,
    /// Default time for a statement, 1–280 s.
    pub timeout: Seconds<1, 280, 30>,
    /// Longest time for a statement that a caller may request, 1–280 s; at least `timeout`.
    pub max_timeout: Seconds<1, 280, 120>,
    /// How long a statement waits for a lock, 1–60 s.
    pub lock_timeout: Seconds<1, 60, 5>,
    /// Rows of one answer, 1–100000.
    pub max_rows: Whole<1, 100_000, 1000>,
    /// Size of the rows of one answer, 64KiB–64MiB.
    pub result_size: Size<0x1_0000, 0x400_0000, 0x40_0000>,
    /// Concurrent connections to each database, 1–100; MySQL gets one more while an abandoned
    /// statement is cancelled.
    pub pool: Whole<1, 100, 4>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "DatabaseConnection"))]
pub struct Connection {
    /// `postgres://user:password@host:5432/name` or `mysql://…`: use a reference, because it
    /// contains a password.
    pub url: Option<Text>,
    /// Instead of `url`: a SQLite file that exists.
    pub file: Option<Text>,
    /// Encrypted, with the certificate verified. Default: unless the host is this machine, or the
    /// URL has `sslmode=disable`.
    pub tls: Option<Toggle<true>>,
    /// Functions that statements may call in addition to the built-in list, as `name` or
    /// `schema.name`; they are not checked.
    pub functions: List,
    /// `true`: the role may be a superuser or have more permissions than reading tables. The parser
    /// is then the only protection of files and programs of the database's machine.
    pub allow_privileged_role: Toggle<false>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "DatabaseEmbedded"))]
pub struct Embedded {
    /// Whether they are available.
    pub enabled: Toggle<true>,
    /// The folder of their files, which is created if missing. Default: `lockgate-data`.
    pub folder: Option<Text>,
    /// Size of each, 1MiB–16GiB.
    pub size: Size<0x10_0000, 0x4_0000_0000, 0x1000_0000>,
    /// Size of one CSV that is imported, 1KiB–256MiB.
    pub import_size: Size<1024, 0x1000_0000, 0x100_0000>,
}
