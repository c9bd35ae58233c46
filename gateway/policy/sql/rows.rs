//! What PostgreSQL makes of `x.f` when `x` is a function in FROM: where its rows are single values
//! and no column is called `f`, that is the call `f(x)`. And of `f(x)` when `x` is a table: a call
//! with a whole row, for which somebody may have made another `f`. A statement is judged by this at
//! its end, when all of FROM is known; a name that two have is held against both.

use sqlparser::ast::{Ident, TableAlias};

use super::functions::OF_ROWS;
use super::lexer::no;
use super::names::{Named, short};
use super::spec::Dialect;
use crate::Refusal;

/// Columns that functions of the list name themselves; none of these names is a function.
const NAMED: [(&str, &[&str]); 9] = [
    ("json_array_elements", &["value"]),
    ("json_array_elements_text", &["value"]),
    ("json_each", &["key", "value"]),
    ("json_each_text", &["key", "value"]),
    ("jsonb_array_elements", &["value"]),
    ("jsonb_array_elements_text", &["value"]),
    ("jsonb_each", &["key", "value"]),
    ("jsonb_each_text", &["key", "value"]),
    ("unnest", &["unnest", "lexeme", "positions", "weights"]),
];
/// The column of WITH ORDINALITY.
const ORDINALITY: &str = "ordinality";

/// The functions in FROM and the fields that a statement asks for.
#[derive(Default)]
pub(super) struct Rows {
    /// Names by which tables are known.
    tables: Vec<String>,
    /// Functions, each with a bare name that it is given.
    given: Vec<(String, String)>,
    functions: Vec<Function>,
    /// `x.f`, where `f` is no function of the list.
    fields: Vec<(String, String)>,
}

struct Function {
    known_as: String,
    columns: Vec<String>,
}

impl Rows {
    /// A function in FROM, with its own name and its alias.
    pub(super) fn function(&mut self, named: &Named, name: &str, alias: Option<&TableAlias>) {
        if named.dialect() != Dialect::Postgres {
            return;
        }
        let mut columns = Vec::new();
        let known_as = match alias {
            Some(alias) => {
                for column in &alias.columns {
                    columns.push(named.scoped(&column.name));
                }
                named.scoped(&alias.name)
            }
            None => name.to_owned(),
        };
        if columns.is_empty() {
            match NAMED.iter().find(|(known, _)| *known == name) {
                Some((_, names)) => {
                    for name in *names {
                        columns.push((*name).to_owned());
                    }
                }
                // The only column is called like the whole.
                None => columns.push(known_as.clone()),
            }
            if name == "unnest" {
                columns.push(known_as.clone());
            }
        }
        self.functions.push(Function { known_as, columns });
    }

    /// A table in FROM, with its own name and its alias.
    pub(super) fn table(&mut self, named: &Named, name: String, alias: Option<&TableAlias>) {
        if named.dialect() == Dialect::Postgres {
            self.tables.push(match alias {
                Some(alias) => named.scoped(&alias.name),
                None => name,
            });
        }
    }

    /// A bare name as an argument of a function.
    pub(super) fn argument(&mut self, named: &Named, function: &str, argument: &Ident) {
        if named.dialect() == Dialect::Postgres && !OF_ROWS.contains(&function) {
            self.given.push((function.to_owned(), named.scoped(argument)));
        }
    }

    /// A name of several parts in an expression.
    pub(super) fn field(&mut self, named: &Named, idents: &[Ident]) {
        if let [.., of, field] = idents
            && named.dialect() == Dialect::Postgres
        {
            let field = named.scoped(field);
            if field != ORDINALITY && !named.has_function(&field) {
                self.fields.push((named.scoped(of), field));
            }
        }
    }

    /// At the end of the statement.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        for (function, argument) in &self.given {
            if self.tables.contains(argument) {
                let function = short(function);
                let argument = short(argument);
                return no(format!(
                    "`{function}({argument})` is given a whole row, and may be another function \
                        then: write {argument}.column"
                ));
            }
        }
        for (of, field) in &self.fields {
            if self.may_be_call(of, field) {
                let of = short(of);
                let field = short(field);
                return no(format!(
                    "`{of}.{field}` may be a call of a function: name the columns, as in FROM f(…) \
                        AS {of}({field})"
                ));
            }
        }
        Ok(())
    }

    /// Whether a function in FROM goes by this name and has no such column.
    fn may_be_call(&self, of: &str, field: &String) -> bool {
        for function in &self.functions {
            if function.known_as == of && !function.columns.contains(field) {
                return true;
            }
        }
        false
    }
}
