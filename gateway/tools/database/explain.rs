//! `database/explain`: how a database would run a SELECT. The statement is never executed.

use std::sync::Arc;

use lockgate_policy::sql::{Dialect, Kind};
use serde_json::{Value, json};

use super::answer::Answer;
use super::connections::Shared;
use super::embedded::Owner;
use super::mysql;
use crate::tool::{Arguments, Client, Output, Tool, ToolError, ToolSpec};

pub(super) struct Explain(pub(super) Arc<Shared>);

impl Tool for Explain {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "database/explain",
            "Explain a query",
            "Shows the plan of a SELECT (indexes, order, expected number of rows), without \
                running it. Use it when `query` is slow or times out.",
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
                "timeout_ms": self.0.timeout_schema(),
            }),
            &["sql"],
        )
        .output(json!({"plan": {"description": "As returned by the database"}}), &["plan"])
        .tags(&["database"])
        .permissions(&["database:read"])
        .timeout(self.0.time_limit())
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let connection = self.0.find_connection(&arguments)?;
        let checked = connection.check(arguments.text("sql")?)?;
        if checked.kind == Kind::Explain {
            return Err(ToolError::new(
                "this tool explains a SELECT: send it without EXPLAIN, or send it all to \
                    `query`",
            ));
        }
        let word = match connection.dialect {
            Dialect::Postgres => "EXPLAIN (FORMAT JSON)",
            Dialect::Mysql => mysql::EXPLAIN,
            Dialect::Sqlite => "EXPLAIN QUERY PLAN",
        };
        let ask = self.0.ask(format!("{word} {}", checked.text), &arguments)?;
        let answer = connection.run(&ask, Some(&Owner::of(&client))).await?;
        let plan = match connection.dialect {
            Dialect::Sqlite => answer.objects().into(),
            Dialect::Postgres | Dialect::Mysql => match first_value(answer) {
                Some(Value::String(text)) => {
                    serde_json::from_str(&text).unwrap_or(Value::String(text))
                }
                other => other.unwrap_or(Value::Null),
            },
        };
        Ok(json!({"plan": plan}).into())
    }
}

fn first_value(answer: Answer) -> Option<Value> {
    answer.rows.into_iter().next()?.into_iter().next()
}
