//! The row limit of a SELECT, which is set if it is missing.

use sqlparser::ast::{Expr, Fetch, LimitClause, Query, SetExpr, Value};

use super::spec::{Dialect, MissingLimit};
use crate::Refusal;
use crate::refusal::no;

pub(super) struct Hold {
    pub(super) most: u64,
    pub(super) missing: MissingLimit,
    pub(super) dialect: Dialect,
}

impl Hold {
    /// Checks the limit of a query, and sets it if the query has none.
    pub(super) fn query(&self, query: &mut Query) -> Result<(), Refusal> {
        if self.is_limited(query)? {
            return Ok(());
        }
        let most = self.most;
        if self.missing == MissingLimit::Refuse {
            return no(format!("the SELECT has no limit: end it with LIMIT {most} or less"));
        }
        let offset = match query.limit_clause.take() {
            Some(LimitClause::LimitOffset { offset, .. }) => offset,
            _ => None,
        };
        let limit = Some(Expr::value(Value::Number(most.to_string(), false)));
        query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by: Vec::new() });
        Ok(())
    }

    /// Returns whether a query returns at most as many rows as allowed.
    fn is_limited(&self, query: &Query) -> Result<bool, Refusal> {
        let most = self.most;
        match (&query.limit_clause, &query.fetch) {
            (None | Some(LimitClause::LimitOffset { limit: None, .. }), None) => {}
            (Some(LimitClause::LimitOffset { limit: Some(_), .. }), Some(_)) => {
                return no("use either LIMIT or FETCH, not both");
            }
            (_, Some(Fetch { with_ties, percent, .. })) if *with_ties || *percent => {
                return no(format!(
                    "the limit must be a number of rows: end with LIMIT {most} or less"
                ));
            }
            _ if matches!(rows(query), Some(rows) if rows <= most) => return Ok(true),
            _ => {
                return no(format!(
                    "the limit must be a number of at most {most}: use LIMIT {most} or less"
                ));
            }
        }
        match &*query.body {
            // The text contains all rows of VALUES.
            SetExpr::Values(_) => return Ok(true),
            // PostgreSQL accepts a single limit for both; the inner limit applies to the whole.
            SetExpr::Query(inner) if self.is_limited(inner)? => return Ok(true),
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
        if query.limit_clause.is_some() && self.dialect != Dialect::Postgres {
            return no(format!("OFFSET must follow LIMIT here: end with LIMIT {most} OFFSET …"));
        }
        Ok(false)
    }
}

/// Returns the limit of a query, if it is a number.
pub(super) fn rows(query: &Query) -> Option<u64> {
    let limit = match (&query.limit_clause, &query.fetch) {
        (
            Some(
                LimitClause::LimitOffset { limit: Some(limit), .. }
                | LimitClause::OffsetCommaLimit { limit, .. },
            ),
            None,
        ) => limit,
        (_, Some(Fetch { quantity: Some(quantity), .. })) => quantity,
        // `FETCH FIRST ROW ONLY`
        (_, Some(Fetch { quantity: None, .. })) => return Some(1),
        _ => return None,
    };
    match limit {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
