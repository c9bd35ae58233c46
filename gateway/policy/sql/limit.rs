//! The row limit of a SELECT. A missing limit is appended to the text, which is otherwise
//! unchanged.

use sqlparser::ast::{Expr, Fetch, LimitClause, Query, SetExpr, Value};
use sqlparser::tokenizer::{Token, Whitespace};

use super::lexer::{is_word, no};
use super::spec::{Dialect, MissingLimit};
use crate::Refusal;

pub(super) struct Hold {
    pub(super) most: u64,
    pub(super) missing: MissingLimit,
    pub(super) dialect: Dialect,
}

/// Refuses `LIMIT ALL`, which sets no limit. The parser drops it, and a database would reject
/// another limit after it.
pub(super) fn no_all(tokens: &[Token]) -> Result<(), Refusal> {
    for three in tokens.windows(3) {
        if let [first, Token::Whitespace(Whitespace::Space), second] = three
            && is_word(first, "limit")
            && is_word(second, "all")
        {
            return no("LIMIT ALL sets no limit: write a number, or leave it out");
        }
    }
    Ok(())
}

impl Hold {
    /// Checks the limit of a query. Returns the text with a limit if the query has none.
    pub(super) fn query(&self, query: &Query, text: &str) -> Result<Option<String>, Refusal> {
        let most = self.most;
        let limit = match (&query.limit_clause, &query.fetch) {
            (
                Some(
                    LimitClause::LimitOffset { limit: Some(limit), .. }
                    | LimitClause::OffsetCommaLimit { limit, .. },
                ),
                None,
            ) => Some(limit),
            (
                None | Some(LimitClause::LimitOffset { limit: None, .. }),
                Some(Fetch { with_ties, percent, quantity }),
            ) => {
                if *with_ties || *percent {
                    return no(format!(
                        "the limit must be a number of rows: end with LIMIT {most} or less"
                    ));
                }
                let Some(quantity) = quantity else { return Ok(None) };
                Some(quantity)
            }
            (None | Some(LimitClause::LimitOffset { limit: None, .. }), None) => None,
            (Some(_), Some(_)) => return no("use either LIMIT or FETCH, not both"),
        };
        match limit {
            None => self.without(query, text),
            Some(limit) if matches!(number(limit), Some(rows) if rows <= most) => Ok(None),
            Some(_) => no(format!(
                "the limit must be a number of at most {most}: use LIMIT {most} or less"
            )),
        }
    }

    fn without(&self, query: &Query, text: &str) -> Result<Option<String>, Refusal> {
        let most = self.most;
        match &*query.body {
            // The text contains all rows of VALUES.
            SetExpr::Values(_) => return Ok(None),
            // PostgreSQL accepts a single limit for both; the inner limit applies to the whole.
            SetExpr::Query(inner) => return self.query(inner, text),
            SetExpr::SetOperation { right, .. }
                if self.dialect == Dialect::Sqlite && matches!(**right, SetExpr::Values(_)) =>
            {
                return no(
                    "SQLite supports no LIMIT after VALUES: write SELECT * FROM (VALUES …), and \
                        end it with LIMIT",
                );
            }
            _ => {}
        }
        if self.missing == MissingLimit::Refuse {
            return no(format!("the SELECT has no limit: end it with LIMIT {most} or less"));
        }
        if query.limit_clause.is_some() && self.dialect != Dialect::Postgres {
            return no(format!("OFFSET must follow LIMIT here: end with LIMIT {most} OFFSET …"));
        }
        Ok(Some(format!("{text}\nLIMIT {most}")))
    }
}

fn number(expression: &Expr) -> Option<u64> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
