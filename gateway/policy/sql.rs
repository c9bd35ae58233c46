//! The `sql` rule: the SQL that an argument may contain. A statement is parsed and walked node by
//! node; anything not known to be harmless is refused. The server receives the text that the parser
//! prints. The rule cannot see the effects of a server's views, operators, casts and triggers:
//! where these matter, restrict the database role of the server.

mod canonical;
mod expression;
mod from;
mod functions;
mod metered;
mod names;
mod query;
mod spec;
mod values;
mod write;

use canonical::Reader;
pub(crate) use metered::Effort;
#[cfg(test)]
pub(crate) use metered::thread_time;
use names::Named;
pub use spec::{Dialect, Functions, Kind, MAX_BYTES, MissingLimit, Names, Spec};
use sqlparser::ast::{
    AnalyzeFormatKind, Expr, Fetch, LimitClause, Query, SetExpr, Statement, UtilityOption, Value,
    ValueWithSpan,
};

use crate::refusal::check_size;
use crate::{Refusal, no};

const MAX_ROWS: u64 = 1_000_000_000;
/// MySQL tables that show the statements of other sessions.
const STATEMENTS_OF_OTHERS: &str = "information_schema.{processlist,innodb_*}";

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Sql {
    spec: Spec,
    named: Named,
}

/// A statement that a rule allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub kind: Kind,
    /// The canonical text, with a limit if it lacked one, which must be sent in place of the
    /// original.
    pub text: String,
    /// The number of rows that the statement requests at most, if it is a query with such a limit.
    pub limit: Option<u64>,
}

impl Sql {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Returns the mistake, prefixed with its key.
    pub fn compile(spec: &Spec) -> Result<Self, String> {
        let Spec { schemas, tables, functions, .. } = spec;
        let lists = [&schemas.allow, &schemas.deny, &tables.allow, &tables.deny];
        let lists = [&lists[..], &[&functions.allow, &functions.deny]].concat();
        let lengths = Vec::from_iter(lists.iter().map(|list| list.len()));
        check_size(&lengths, spec.max_bytes, MAX_BYTES)?;
        if spec.statements.is_empty() {
            return Err("statements: at least one kind must be allowed".into());
        }
        if let Some(rows) = spec.max_rows
            && !(1..=MAX_ROWS).contains(&rows)
        {
            return Err(format!("max_rows: must be 1 to {MAX_ROWS}"));
        }
        names::default_is_told(spec)?;
        let mut spec = spec.clone();
        if spec.dialect == Dialect::Mysql && !spec.system_tables {
            spec.tables.deny.push(STATEMENTS_OF_OTHERS.into());
        }
        let named = Named::compile(&spec)?;
        Ok(Self { spec, named })
    }

    /// Checks a statement. The whole text is checked, including comments and a final semicolon.
    ///
    /// # Errors
    /// Returns the first refused part.
    pub fn check(&self, text: &str) -> Result<Checked, Refusal> {
        self.check_within(text, &Effort::default())
    }

    /// Checks one of several statements, which share the time limit for parsing.
    pub(crate) fn check_within(&self, text: &str, effort: &Effort) -> Result<Checked, Refusal> {
        let bytes = text.len();
        let most = self.spec.max_bytes;
        if bytes > most {
            return no(format!(
                "the SQL statement has {bytes} bytes, more than {most}: send a shorter one"
            ));
        }
        let reader = Reader { dialect: self.spec.dialect, effort };
        let mut statement = reader.read(text)?;
        let kind = self.statement(&statement)?;
        let mut limit = None;
        if let Statement::Query(query) = &mut statement {
            if let Some(most) = self.spec.max_rows {
                self.limit(query, most)?;
            }
            limit = rows(query);
        }
        let text = reader.write(&statement, text)?;
        Ok(Checked { kind, text, limit })
    }

    /// Returns whether the function with this name, in lower case, is allowed.
    pub fn allows_function(&self, lower: &str) -> bool {
        self.named.has_function(lower)
    }

    fn statement(&self, statement: &Statement) -> Result<Kind, Refusal> {
        let kind = match statement {
            Statement::Query(_) => Kind::Select,
            Statement::Explain { .. } => Kind::Explain,
            Statement::Insert(_) => Kind::Insert,
            Statement::Update(_) => Kind::Update,
            Statement::Delete(_) => Kind::Delete,
            _ => return self.refuse_kind(),
        };
        if !self.permits(kind, statement) {
            return self.refuse_kind();
        }
        let mut walk = query::Walk::new(&self.named);
        match statement {
            Statement::Query(query) => walk.query(query)?,
            Statement::Insert(insert) => walk.insert(insert)?,
            Statement::Update(update) => walk.update(update, self.spec.require_where)?,
            Statement::Delete(delete) => walk.delete(delete, self.spec.require_where)?,
            Statement::Explain {
                describe_alias: _,
                analyze,
                verbose: _,
                query_plan: _,
                estimate,
                statement,
                format,
                options,
            } => {
                self.explain(*analyze || *estimate, format.as_ref(), options.as_deref())?;
                if matches!(**statement, Statement::Explain { .. }) {
                    return no("EXPLAIN of EXPLAIN is not allowed");
                }
                self.statement(statement)?;
            }
            _ => return self.refuse_kind(),
        }
        walk.rows.check()?;
        Ok(kind)
    }

    /// Returns whether the rule allows this kind. SELECT includes EXPLAIN of a SELECT.
    fn permits(&self, kind: Kind, statement: &Statement) -> bool {
        let is_plan = matches!(statement, Statement::Explain { statement, .. }
            if matches!(**statement, Statement::Query(_)));
        let kinds = &self.spec.statements;
        kinds.contains(&kind) || is_plan && kinds.contains(&Kind::Select)
    }

    fn explain(
        &self,
        runs: bool,
        format: Option<&AnalyzeFormatKind>,
        options: Option<&[UtilityOption]>,
    ) -> Result<(), Refusal> {
        match format {
            None | Some(AnalyzeFormatKind::Keyword(_) | AnalyzeFormatKind::Assignment(_)) => {}
        }
        if runs || !options.unwrap_or(&[]).iter().all(is_harmless) {
            return no("EXPLAIN may not run the statement: leave ANALYZE and unusual options out");
        }
        Ok(())
    }

    fn refuse_kind<T>(&self) -> Result<T, Refusal> {
        let kinds = self.spec.statements.iter().map(|kind| kind.as_str());
        let kinds = Vec::from_iter(kinds).join(" or ");
        no(format!("this kind of SQL statement is not allowed: send {kinds}"))
    }

    /// Checks the row limit of a query, and sets it if the query has none.
    fn limit(&self, query: &mut Query, most: u64) -> Result<(), Refusal> {
        if self.is_limited(query, most)? {
            return Ok(());
        }
        if self.spec.missing_limit == MissingLimit::Refuse {
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
    fn is_limited(&self, query: &Query, most: u64) -> Result<bool, Refusal> {
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
            SetExpr::Query(inner) if self.is_limited(inner, most)? => return Ok(true),
            SetExpr::SetOperation { right, .. }
                if self.spec.dialect == Dialect::Sqlite
                    && matches!(**right, SetExpr::Values(_)) =>
            {
                return no(
                    "SQLite supports no LIMIT after VALUES: write SELECT * FROM (VALUES …), and \
                        end it with LIMIT",
                );
            }
            _ => {}
        }
        if query.limit_clause.is_some() && self.spec.dialect != Dialect::Postgres {
            return no(format!("OFFSET must follow LIMIT here: end with LIMIT {most} OFFSET …"));
        }
        Ok(false)
    }
}

/// Returns whether an option of EXPLAIN only affects the output.
fn is_harmless(option: &UtilityOption) -> bool {
    const SHOWING: &str = "costs verbose format summary settings buffers memory generic_plan";
    let UtilityOption { name, arg: _ } = option;
    names::has(SHOWING, &name.value)
}

/// Returns the limit of a query, if it is a number.
fn rows(query: &Query) -> Option<u64> {
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
        Expr::Value(ValueWithSpan { value: Value::Number(digits, false), .. }) => {
            digits.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
