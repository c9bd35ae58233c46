//! How many rows a SELECT may ask for. A limit that is missing is put behind the text as it came, which stays as it is.

use sqlparser::ast::{Expr, Fetch, LimitClause, Query, SetExpr, Value};

use super::MissingLimit;
use super::lex::no;
use crate::Refusal;

/// Holds a checked query against the most rows; gives the text with a limit if it had none.
pub(super) fn hold(query: &Query, most: u64, missing: MissingLimit, text: &str) -> Result<Option<String>, Refusal> {
    let limit = match (&query.limit_clause, &query.fetch) {
        (
            Some(LimitClause::LimitOffset { limit: Some(limit), .. } | LimitClause::OffsetCommaLimit { limit, .. }),
            None,
        ) => Some(limit),
        (None | Some(LimitClause::LimitOffset { limit: None, .. }), Some(Fetch { with_ties, percent, quantity })) => {
            if *with_ties || *percent {
                return no(format!("the limit must be a number of rows: end with LIMIT {most} or less"));
            }
            match quantity {
                Some(quantity) => Some(quantity),
                None => return Ok(None),
            }
        }
        // `LIMIT ALL` is no limit either; PostgreSQL refuses the second one that is put behind it.
        (None | Some(LimitClause::LimitOffset { limit: None, .. }), None) => None,
        (Some(_), Some(_)) => return no("use either LIMIT or FETCH, not both"),
    };
    match limit {
        // The rows of VALUES are all in the text.
        None if matches!(*query.body, SetExpr::Values(_)) => Ok(None),
        None if missing == MissingLimit::Refuse => {
            no(format!("the SELECT has no limit: end it with LIMIT {most} or less"))
        }
        None => Ok(Some(format!("{text}\nLIMIT {most}"))),
        Some(limit) if number(limit).is_some_and(|rows| rows <= most) => Ok(None),
        Some(_) => no(format!("the limit must be a number of at most {most}: use LIMIT {most} or less")),
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
