//! The `sql` rule as written in a policy file.

use schemars::JsonSchema;
use serde::Deserialize;

/// Length limit of a statement for all rules, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// The rule as it is written in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The database that runs the statement. Default `postgres`.
    pub dialect: Dialect,
    /// Kinds of statements. Default `select` alone.
    pub statements: Vec<Kind>,
    /// Schemas (MySQL: databases) of tables, by glob. Default: any.
    pub schemas: Names,
    /// Tables, by glob over `table` and `schema.table`. Default: any.
    pub tables: Names,
    /// The schema that a table without one counts as being in: of MySQL the database of the
    /// connection, of PostgreSQL where the role's search_path finds it. Default `public`
    /// (PostgreSQL), `main` (SQLite), none (MySQL). What denies by schema needs it, except in
    /// SQLite.
    pub default_schema: Option<String>,
    /// Whether system tables may be read: `pg_*`, `mysql.*`, `performance_schema.*`, `sys.*`,
    /// `sqlite_*`, `pragma_*`, modules like `zipfile`, and of MySQL's `information_schema` what
    /// shows statements of others: `processlist`, `innodb_*`. The rest of `information_schema` and
    /// `sqlite_master` always may. Default false.
    pub system_tables: bool,
    /// Functions beyond the built-in list of those that only compute, and exceptions from it.
    pub functions: Functions,
    /// Most rows that a SELECT may ask for, 1–1000000000. Default: no limit.
    pub max_rows: Option<u64>,
    /// What happens to a SELECT without a limit when `max_rows` is set: `add` one, or `refuse`.
    /// Default `add`.
    pub missing_limit: MissingLimit,
    /// Whether UPDATE and DELETE need a WHERE. Default true.
    pub require_where: bool,
    /// Longest statement in bytes, 1–65536.
    pub max_bytes: usize,
}

/// The databases whose SQL is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    #[default]
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
    Sqlite,
}

/// Kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// SELECT, VALUES and TABLE, and EXPLAIN of them; never ANALYZE, which runs them.
    Select,
    /// EXPLAIN of any allowed statement.
    Explain,
    Insert,
    Update,
    Delete,
}

/// Names by glob: allowed when some `allow` matches and no `deny` does. `deny` does not look at
/// upper and lower case.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Names {
    /// Default `*`.
    pub allow: Vec<String>,
    /// Default none.
    pub deny: Vec<String>,
}

/// Functions: `name`, or `schema.name` for those of a schema of its own. An entry that can fit none
/// is a mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Functions {
    /// In addition to the built-in list, each by its name. What they do is not looked at.
    pub allow: Vec<String>,
    /// Taken from the list, by glob. What an operator does is not.
    pub deny: Vec<String>,
}

/// What happens to a SELECT without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MissingLimit {
    #[default]
    Add,
    Refuse,
}

impl Default for Names {
    fn default() -> Self {
        Self { allow: vec!["*".into()], deny: Vec::new() }
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            statements: vec![Kind::Select],
            schemas: Names::default(),
            tables: Names::default(),
            default_schema: None,
            system_tables: false,
            functions: Functions::default(),
            max_rows: None,
            missing_limit: MissingLimit::default(),
            require_where: true,
            max_bytes: MAX_BYTES,
        }
    }
}
