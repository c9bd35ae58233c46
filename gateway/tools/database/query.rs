//! `database/query`: one SELECT with bound parameters.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::connections::{Shared, columns_schema};
use super::embedded::Owner;
use crate::tool::{Arguments, Client, Output, Tool, ToolError, ToolSpec};

/// Default maximum number of rows.
const DEFAULT_ROWS: usize = 100;

pub(super) struct Query(pub(super) Arc<Shared>);

impl Tool for Query {
    fn spec(&self) -> ToolSpec {
        let most = self.0.limits.max_rows;
        ToolSpec::new(
            "database/query",
            "Query a database",
            "Runs one SELECT, or EXPLAIN of one, with `parameters` for its values, and returns \
                `columns` (name, type), `rows` (a list of values each, in the order of the \
                columns) and `row_count`. Nothing can be changed. `truncated` is set if there are \
                more rows than `limit` or than fit: use WHERE, aggregates or LIMIT … OFFSET. \
                Decimals, dates and whole numbers beyond 2^53 are strings, bytes are {\"base64\": \
                …}.",
        )
        .input(
            json!({
                "sql": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 65536,
                    "description": "One SELECT statement",
                },
                "parameters": Shared::parameters_schema(),
                "connection": self.0.connection_schema(),
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": most,
                    "default": DEFAULT_ROWS.min(most),
                    "description": "Maximum number of rows",
                },
                "timeout_ms": self.0.timeout_schema(),
            }),
            &["sql"],
        )
        .output(
            json!({
                "columns": columns_schema(),
                "rows": {"type": "array", "items": {"type": "array"}},
                "row_count": {"type": "integer"},
                "truncated": {
                    "type": ["string", "null"],
                    "description": "Why rows are missing: max_rows or max_bytes; or may be \
                        missing: limit, that of the statement, which a policy may have added",
                },
                "duration_ms": {"type": "number"},
            }),
            &["columns", "rows", "row_count", "truncated", "duration_ms"],
        )
        .tags(&["database"])
        .permissions(&["database:read"])
        .timeout(self.0.time_limit())
        .cap(self.0.limits.max_bytes.saturating_mul(6))
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let connection = self.0.find_connection(&arguments)?;
        let checked = connection.check(arguments.text("sql")?)?;
        let ask = self.0.ask(checked.text, &arguments)?;
        let began = Instant::now();
        let answer = connection.run(&ask, Some(&Owner::of(&client))).await?;
        let duration = (began.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        let columns = answer.columns_json();
        let count = answer.rows.len();
        let is_full = checked.limit.is_some_and(|most| count as u64 >= most);
        let truncated = answer.truncated.or_else(|| is_full.then_some("limit"));
        Ok(json!({
            "columns": columns, "rows": answer.rows, "row_count": count,
            "truncated": truncated, "duration_ms": duration
        })
        .into())
    }
}
