//! Guesses the intention of a rejected statement, and the syntax supported here. A courtesy to
//! models, which mix up dialects. Matches words only, since the parser has already rejected the
//! statement, and decides nothing.

use lockgate_policy::sql::Dialect;

/// Returns a hint to append to the reason, if any.
pub(super) fn hint(dialect: Dialect, sql: &str) -> Option<&'static str> {
    let sql = sql.trim_start();
    let end = sql.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(sql.len());
    match sql[..end].to_ascii_uppercase().as_str() {
        "SHOW" | "DESCRIBE" | "DESC" | "PRAGMA" => {
            return Some(
                "the tools `database__tables` and `database__schema` list the tables and \
                columns",
            );
        }
        "EXPLAIN" => return Some("the tool `database__explain` shows the plan of a SELECT"),
        "USE" => return Some("`connection` chooses the database"),
        _ if sql.starts_with('\\') => {
            return Some(
                "the tools `database__tables` and `database__schema` list the tables and \
                columns",
            );
        }
        _ => {}
    }
    match dialect {
        Dialect::Postgres if plain(sql).contains('?') => {
            Some("placeholders are written $1, $2 … in PostgreSQL, not ?")
        }
        Dialect::Mysql if numbered(&plain(sql)) => {
            Some("placeholders are written ? in MySQL and MariaDB, not $1")
        }
        _ => None,
    }
}

/// Returns the text outside of single quotes. An approximation.
fn plain(sql: &str) -> String {
    sql.split('\'').step_by(2).collect()
}

fn numbered(sql: &str) -> bool {
    sql.as_bytes().windows(2).any(|pair| matches!(pair, [b'$', b'0'..=b'9']))
}
