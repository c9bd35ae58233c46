//! The `sql` rule: the SQL that an argument may contain. A statement is split into tokens as the
//! named database splits it, parsed, and walked node by node; anything not known to be harmless is
//! refused. The rule cannot see the effects of a server's views, operators, casts and triggers:
//! where these matter, restrict the database role of the server.

mod cast;
mod expression;
mod from;
mod functions;
mod lex;
mod lexer;
mod limit;
mod metered;
mod names;
mod operators;
mod query;
mod quoted;
mod reserved;
mod rewrite;
mod rows;
mod spec;
mod values;
mod write;

use sqlparser::ast::{AnalyzeFormatKind, Statement, UtilityOption};
use sqlparser::dialect::{self, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::Refusal;
use lexer::no;
pub(crate) use metered::Effort;
use metered::Metered;
use names::Named;
pub use spec::{Dialect, Functions, Kind, MAX_BYTES, MissingLimit, Names, Spec};

const MAX_ROWS: u64 = 1_000_000_000;
/// MySQL tables that show the statements of other sessions.
const STATEMENTS_OF_OTHERS: &str = "information_schema.{processlist,innodb_*}";
/// Length limit of each list of a rule.
const MAX_ENTRIES: usize = 1000;
const PARSER_DEPTH: usize = 150;

/// The refusal of a statement that exceeds the limits on parsing.
const TOO_LONG: &str = "the SQL statement takes too long to parse: use fewer parentheses, check \
    that each is closed, and send fewer statements at once";

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Sql {
    dialect: Dialect,
    statements: Vec<Kind>,
    named: Named,
    max_rows: Option<u64>,
    missing_limit: MissingLimit,
    require_where: bool,
    max_bytes: usize,
}

/// A statement that a rule allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub kind: Kind,
    /// The statement with the limit that it lacked, which must be sent in place of the original.
    pub rewritten: Option<String>,
}

impl Sql {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Returns the mistake, prefixed with its key.
    pub fn compile(spec: &Spec) -> Result<Self, String> {
        for list in [
            &spec.schemas.allow,
            &spec.schemas.deny,
            &spec.tables.allow,
            &spec.tables.deny,
            &spec.functions.allow,
            &spec.functions.deny,
        ] {
            if list.len() > MAX_ENTRIES {
                return Err(format!("a list has more than {MAX_ENTRIES} entries"));
            }
        }
        if spec.statements.is_empty() {
            return Err("statements: at least one kind must be allowed".into());
        }
        if let Some(rows) = spec.max_rows
            && !(1..=MAX_ROWS).contains(&rows)
        {
            return Err(format!("max_rows: must be 1 to {MAX_ROWS}"));
        }
        if !(1..=MAX_BYTES).contains(&spec.max_bytes) {
            return Err(format!("max_bytes: must be 1 to {MAX_BYTES}"));
        }
        names::default_is_told(spec)?;
        let mut closed = spec.clone();
        if spec.dialect == Dialect::Mysql && !spec.system_tables {
            closed.tables.deny.push(STATEMENTS_OF_OTHERS.into());
        }
        Ok(Self {
            dialect: spec.dialect,
            statements: spec.statements.clone(),
            named: Named::compile(&closed)?,
            max_rows: spec.max_rows,
            missing_limit: spec.missing_limit,
            require_where: spec.require_where,
            max_bytes: spec.max_bytes,
        })
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
        if text.len() > self.max_bytes {
            return no(format!(
                "the SQL statement has {} bytes, more than {}: send a shorter one",
                text.len(),
                self.max_bytes
            ));
        }
        if effort.is_spent() {
            return no(TOO_LONG);
        }
        let lexed = lex::lex(text, self.dialect)?;
        if self.max_rows.is_some() {
            limit::no_all(&lexed.tokens)?;
        }
        let statement = self.parse(rewrite::rewrite(lexed.tokens, self.dialect), effort)?;
        let kind = self.statement(&statement)?;
        let rewritten = match (&statement, self.max_rows) {
            (Statement::Query(query), Some(most)) => {
                let hold = limit::Hold { most, missing: self.missing_limit, dialect: self.dialect };
                hold.query(query, &text[..lexed.end])?
            }
            _ => None,
        };
        Ok(Checked { kind, rewritten })
    }

    /// Returns whether the function with this name, in lower case, is allowed.
    #[must_use]
    pub fn allows_function(&self, lower: &str) -> bool {
        self.named.has_function(lower)
    }

    fn parse(&self, tokens: Vec<Token>, effort: &Effort) -> Result<Statement, Refusal> {
        let dialect: &'static dyn dialect::Dialect = match self.dialect {
            Dialect::Postgres => &PostgreSqlDialect {},
            Dialect::Mysql => &MySqlDialect {},
            Dialect::Sqlite => &SQLiteDialect {},
        };
        let dialect = Metered::new(dialect, tokens.len(), effort);
        let mut parser =
            Parser::new(&dialect).with_recursion_limit(PARSER_DEPTH).with_tokens(tokens);
        // Not `parse_statements`, which stops at END and ignores the rest.
        let parsed = parser.parse_statement();
        if dialect.is_spent() {
            return no(TOO_LONG);
        }
        let statement = match parsed {
            Ok(statement) => statement,
            Err(ParserError::RecursionLimitExceeded) => {
                return no("the SQL statement is nested too deeply: reduce the nesting");
            }
            Err(ParserError::TokenizerError(words) | ParserError::ParserError(words)) => {
                return no(format!(
                    "the SQL statement cannot be parsed ({}): write it in plainer SQL",
                    names::short(&words)
                ));
            }
        };
        match parser.peek_token().token {
            Token::EOF => Ok(statement),
            rest => no(format!(
                "the SQL statement cannot be parsed from {} on: write it in plainer SQL",
                names::cut(&rest.to_string(), 40)
            )),
        }
    }

    fn statement(&self, statement: &Statement) -> Result<Kind, Refusal> {
        let mut walk = query::Walk::new(&self.named);
        let kind = match statement {
            Statement::Query(_) => Kind::Select,
            Statement::Explain { .. } => Kind::Explain,
            Statement::Insert(_) => Kind::Insert,
            Statement::Update(_) => Kind::Update,
            Statement::Delete(_) => Kind::Delete,
            _ => return no(format!("this kind of SQL statement is not allowed: {}", self.kinds())),
        };
        if !self.permits(kind, statement) {
            return no(format!("this kind of SQL statement is not allowed: {}", self.kinds()));
        }
        match statement {
            Statement::Query(query) => walk.query(query)?,
            Statement::Insert(insert) => walk.insert(insert)?,
            Statement::Update(update) => walk.update(update, self.require_where)?,
            Statement::Delete(delete) => walk.delete(delete, self.require_where)?,
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
            _ => return no("this kind of SQL statement is not allowed"),
        }
        walk.rows.check()?;
        Ok(kind)
    }

    /// Returns whether the rule allows this kind. SELECT includes EXPLAIN of a SELECT.
    fn permits(&self, kind: Kind, statement: &Statement) -> bool {
        let Statement::Explain { statement: explained, .. } = statement else {
            return self.statements.contains(&kind);
        };
        let plan =
            matches!(**explained, Statement::Query(_)) && self.statements.contains(&Kind::Select);
        plan || self.statements.contains(&Kind::Explain)
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

    fn kinds(&self) -> String {
        let mut words = Vec::with_capacity(self.statements.len());
        for kind in &self.statements {
            words.push(keyword(kind));
        }
        format!("send {}", words.join(" or "))
    }
}

/// Returns whether an option of EXPLAIN only affects the output.
fn is_harmless(option: &UtilityOption) -> bool {
    const SHOWING: [&str; 8] =
        ["costs", "verbose", "format", "summary", "settings", "buffers", "memory", "generic_plan"];
    let UtilityOption { name, arg: _ } = option;
    reserved::has(&SHOWING, &name.value)
}

fn keyword(kind: &Kind) -> &'static str {
    match kind {
        Kind::Select => "SELECT",
        Kind::Explain => "EXPLAIN",
        Kind::Insert => "INSERT",
        Kind::Update => "UPDATE",
        Kind::Delete => "DELETE",
    }
}

#[cfg(test)]
mod tests;
