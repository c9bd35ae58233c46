//! The `sql` rule as written in a policy file.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

/// Length limit of a statement for all rules, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// The rule as it is written in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
    /// The schema of tables that are named without one: for MySQL the database of the connection,
    /// for PostgreSQL the schema in which the role's search_path finds them. Default `public`
    /// (PostgreSQL), `main` (SQLite), none (MySQL). Required to deny by schema, except in SQLite.
    pub default_schema: Option<String>,
    /// Whether system tables may be read: `pg_*`, `mysql.*`, `performance_schema.*`, `sys.*`,
    /// `sqlite_*`, `pragma_*`, modules like `zipfile`, and the tables of MySQL's
    /// `information_schema` that show statements of other sessions: `processlist`, `innodb_*`. The
    /// rest of `information_schema` and `sqlite_master` may always be read. Default false.
    pub system_tables: bool,
    /// Functions beyond the built-in list of those that only compute, and exceptions from it.
    pub functions: Functions,
    /// Maximum number of rows that a SELECT may request, 1–1000000000. Default: no limit.
    pub max_rows: Option<u64>,
    /// Handling of a SELECT without a limit if `max_rows` is set: `add` a limit, or `refuse` it.
    /// Default `add`.
    pub missing_limit: MissingLimit,
    /// Whether UPDATE and DELETE need a WHERE. Default true.
    pub require_where: bool,
    /// Longest statement in bytes, 1–65536.
    pub max_bytes: usize,
}

/// The supported databases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    #[default]
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
    Sqlite,
}

lockgate_text::words! {
    /// Kinds of statements.
    #[derive(Deserialize)]
    #[cfg_attr(test, derive(JsonSchema))]
    #[serde(rename_all = "lowercase")]
    pub enum Kind {
        /// SELECT and VALUES, and EXPLAIN of them; never ANALYZE, which runs them.
        Select = "SELECT",
        /// EXPLAIN of any allowed statement.
        Explain = "EXPLAIN",
        Insert = "INSERT",
        Update = "UPDATE",
        Delete = "DELETE",
    }
}

/// Names by glob: allowed when some `allow` matches and no `deny` does. `deny` ignores case.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Names {
    /// Default `*`.
    pub allow: Vec<String>,
    /// Default none.
    pub deny: Vec<String>,
}

/// Functions: `name`, or `schema.name` for those of another schema. An entry that cannot match a
/// function is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Functions {
    /// Added to the built-in list, each by its name. Their effects are not checked.
    pub allow: Vec<String>,
    /// Removed from the list, by glob. Operators are not affected.
    pub deny: Vec<String>,
}

/// Handling of a SELECT without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
