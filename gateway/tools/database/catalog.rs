//! `database/tables` and `database/schema`: the contents of a database, through built-in statements
//! with bound names.

use std::sync::Arc;

use lockgate_policy::sql::Dialect;
use serde_json::{Value, json};

use super::connections::{DatabaseConnection, MAX_ROWS, Shared};
use crate::tool::{Arguments, Client, Output, Tool, ToolError, ToolSpec};

/// More tables than any database has.
const MAX_OFFSET: u64 = 1 << 31;

/// Statements that list objects: of a schema from an offset on, or of a schema and a table.
struct Statements {
    tables: &'static str,
    columns: &'static str,
    keys: &'static str,
    indexes: &'static str,
}

const POSTGRES: Statements = Statements {
    tables: "SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'v' THEN 'view' \
        WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' ELSE 'table' END AS type, \
        greatest(c.reltuples, 0)::bigint AS estimated_rows, pg_catalog.obj_description(c.oid, \
        'pg_class') AS comment FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid \
        = c.relnamespace WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND \
        pg_catalog.has_any_column_privilege(c.oid, 'SELECT') ORDER BY 2 OFFSET $2",
    columns: "SELECT a.attname AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type, \
        NOT a.attnotnull AS nullable, pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS default, \
        pg_catalog.col_description(c.oid, a.attnum) AS comment FROM pg_catalog.pg_attribute a JOIN \
        pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = \
        c.relnamespace LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = \
        a.attnum WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped \
        AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT') ORDER BY a.attnum",
    keys: "SELECT k.conname AS name, CASE k.contype WHEN 'p' THEN 'primary key' WHEN 'f' THEN \
        'foreign key' WHEN 'u' THEN 'unique' WHEN 'c' THEN 'check' ELSE 'exclusion' END AS type, \
        pg_catalog.pg_get_constraintdef(k.oid) AS definition FROM pg_catalog.pg_constraint k JOIN \
        pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = \
        c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND k.contype IN ('p', 'f', 'u', \
        'c', 'x') ORDER BY k.contype DESC, 1",
    indexes: "SELECT indexname AS name, indexdef AS definition FROM pg_catalog.pg_indexes \
        WHERE schemaname = $1 AND tablename = $2 ORDER BY 1",
};

// MySQL has no OFFSET without LIMIT. One row more than the limit shows whether there are more.
const _: () = assert!(MAX_ROWS + 1 == 2001, "the LIMIT below follows the bound");

const MYSQL: Statements = Statements {
    tables: "SELECT table_schema AS `schema`, table_name AS name, CASE table_type WHEN 'VIEW' THEN \
        'view' ELSE 'table' END AS type, table_rows AS estimated_rows, nullif(table_comment, '') \
        AS comment FROM information_schema.tables WHERE table_schema = coalesce(nullif(?, ''), \
        database()) ORDER BY 2 LIMIT 2001 OFFSET ?",
    // MariaDB returns defaults as SQL, MySQL returns constant defaults as bare text.
    columns: "SELECT column_name AS name, column_type AS type, is_nullable = 'YES' AS nullable, \
        CASE WHEN column_default IS NULL THEN NULL WHEN version() LIKE '%MariaDB%' OR extra LIKE \
        '%DEFAULT_GENERATED%' THEN nullif(column_default, 'NULL') WHEN numeric_precision IS NOT \
        NULL OR data_type IN ('year', 'binary', 'varbinary') THEN column_default ELSE \
        quote(column_default) END AS `default`, nullif(column_comment, '') AS comment FROM \
        information_schema.columns WHERE table_schema = coalesce(nullif(?, ''), database()) AND \
        table_name = ? ORDER BY ordinal_position",
    // `table_constraints` is empty for a role with SELECT only. A foreign key may have the name of
    // an index.
    keys: "SELECT constraint_name AS name, CASE WHEN referenced_table_name IS NOT NULL THEN \
        'foreign key' WHEN constraint_name = 'PRIMARY' THEN 'primary key' ELSE 'unique' END AS \
        type, concat('(', group_concat(column_name ORDER BY ordinal_position SEPARATOR ', '), ')', \
        coalesce(concat(' REFERENCES ', referenced_table_name, ' (', \
        group_concat(referenced_column_name ORDER BY ordinal_position SEPARATOR ', '), ')'), '')) \
        AS definition FROM information_schema.key_column_usage WHERE table_schema = \
        coalesce(nullif(?, ''), database()) AND table_name = ? GROUP BY constraint_name, \
        referenced_table_name ORDER BY 2 DESC, 1",
    indexes: "SELECT index_name AS name, concat(CASE min(non_unique) WHEN 0 THEN 'UNIQUE ' ELSE '' \
        END, '(', group_concat(coalesce(column_name, 'an expression') ORDER BY seq_in_index \
        SEPARATOR ', '), ')') AS definition FROM information_schema.statistics WHERE table_schema \
        = coalesce(nullif(?, ''), database()) AND table_name = ? GROUP BY index_name ORDER BY 1",
};

const SQLITE: Statements = Statements {
    tables: "SELECT 'main' AS schema, name, type FROM sqlite_master WHERE type IN ('table', \
        'view') \
        AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND ?1 = 'main' ORDER BY 2 LIMIT -1 OFFSET ?2",
    columns: "SELECT name, type, \"notnull\" = 0 AND pk = 0 AS nullable, dflt_value AS \"default\" \
        FROM pragma_table_xinfo(?2) WHERE ?1 = 'main'",
    keys: "SELECT NULL AS name, 'primary key' AS type, '(' || group_concat(name, ', ') || ')' AS \
        definition FROM (SELECT name FROM pragma_table_xinfo(?2) WHERE pk > 0 AND ?1 = 'main' \
        ORDER BY pk) HAVING count(*) > 0 UNION ALL SELECT NULL, 'foreign key', '(' || \
        group_concat(\"from\", ', ') || ') REFERENCES ' || \"table\" || ' (' || \
        coalesce(group_concat(\"to\", ', '), '') || ')' FROM pragma_foreign_key_list(?2) WHERE ?1 \
        = 'main' GROUP BY id",
    indexes: "SELECT l.name, CASE l.\"unique\" WHEN 1 THEN 'UNIQUE ' ELSE '' END || '(' || (SELECT \
        group_concat(coalesce(x.name, 'an expression'), ', ') FROM pragma_index_xinfo(l.name) AS x \
        WHERE x.key = 1) || ')' AS definition \
        FROM pragma_index_list(?2) AS l WHERE ?1 = 'main' ORDER BY 1",
};

impl DatabaseConnection {
    fn statements(&self) -> &'static Statements {
        match self.dialect {
            Dialect::Postgres => &POSTGRES,
            Dialect::Mysql => &MYSQL,
            Dialect::Sqlite => &SQLITE,
        }
    }

    /// Returns the default schema unless the caller names one; for MySQL, the connection's
    /// database.
    fn schema<'a>(&self, arguments: &'a Arguments) -> &'a str {
        arguments.maybe_text("schema").unwrap_or(match self.dialect {
            Dialect::Postgres => "public",
            Dialect::Mysql => "",
            Dialect::Sqlite => "main",
        })
    }
}

fn schema_argument() -> Value {
    json!({
        "type": "string",
        "maxLength": 64,
        "description": "Default: public (PostgreSQL), the connection's database (MySQL), main \
            (SQLite)",
    })
}

pub(super) struct Tables(pub(super) Arc<Shared>);

impl Tool for Tables {
    fn spec(&self) -> ToolSpec {
        self.0.spec(
            "database/tables",
            "Tables of a database",
            format!(
                "Lists the readable tables and views of one schema, by name, at most {MAX_ROWS} \
                    at once; `next` is the `offset` of the next page. Begin here, then call \
                    `schema` for a table."
            ),
        )
        .input(json!({
            "connection?": self.0.connection_schema(), "schema?": schema_argument(),
            "offset?": {
                "type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "default": 0,
                "description": "Tables to skip",
            },
        }))
        .output(json!({
            "tables": {"type": "array", "items": {"type": "object"}}, "count": "integer",
            "truncated": {
                "type": "boolean", "description": "There are more: continue with `offset` = `next`",
            },
            "next?": "integer",
        }))
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let connection = self.0.find_connection(&arguments)?;
        let offset = arguments.whole("offset")?;
        let ask = self.0.own(
            connection.statements().tables,
            vec![connection.schema(&arguments).into(), offset.into()],
        );
        let answer = connection.run(&ask, Some(&client)).await?;
        let truncated = answer.truncated.is_some();
        let tables = answer.objects();
        let seen = tables.len() as u64;
        let mut result = json!({"count": seen, "tables": tables, "truncated": truncated});
        if truncated {
            result["next"] = (offset + seen).into();
        }
        Ok(result.into())
    }
}

pub(super) struct Schema(pub(super) Arc<Shared>);

impl Tool for Schema {
    fn spec(&self) -> ToolSpec {
        self.0.spec(
            "database/schema",
            "Schema of a table",
            "Describes one table or view: columns with type, nullability and default, its keys and \
                its indexes.",
        )
        .input(json!({
            "table": {"type": "string", "minLength": 1, "maxLength": 128},
            "connection?": self.0.connection_schema(), "schema?": schema_argument(),
        }))
        .output(json!({
            "table": "string", "columns": {"type": "array", "items": {"type": "object"}},
            "keys": {"type": "array", "items": {"type": "object"}},
            "indexes": {"type": "array", "items": {"type": "object"}},
            "truncated": {
                "type": "boolean",
                "description": "There are more columns, keys or indexes than are shown",
            },
        }))
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let connection = self.0.find_connection(&arguments)?;
        let table = arguments.text("table")?;
        let names = vec![connection.schema(&arguments).into(), table.into()];
        let Statements { tables: _, columns, keys, indexes } = connection.statements();
        let columns = connection.run(&self.0.own(columns, names.clone()), Some(&client)).await?;
        let mut truncated = columns.truncated.is_some();
        let mut columns = columns.objects();
        if columns.is_empty() {
            return Err(ToolError::new(
                "there is no such table, or it may not be read: `tables` lists them",
            ));
        }
        for column in &mut columns {
            // MySQL and SQLite have no booleans.
            column["nullable"] = (column["nullable"] == 1 || column["nullable"] == true).into();
        }
        let keys = connection.run(&self.0.own(keys, names.clone()), Some(&client)).await?;
        let indexes = connection.run(&self.0.own(indexes, names), Some(&client)).await?;
        truncated |= keys.truncated.is_some() || indexes.truncated.is_some();
        Ok(json!({
            "table": table,
            "columns": columns,
            "keys": keys.objects(),
            "indexes": indexes.objects(),
            "truncated": truncated,
        })
        .into())
    }
}
