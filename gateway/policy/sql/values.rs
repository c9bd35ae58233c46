//! The values, operators and types that an expression may contain. In PostgreSQL, an operator not
//! listed here may run a user-defined function.

use sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Ident, TableAlias, UnaryOperator, Value,
    ValueWithSpan,
};

use super::functions::OF_ROWS;
use super::names::{Named, cut, has, short};
use super::spec::Dialect;
use crate::{Refusal, no};

/// The words of types.
const WORDS: &str = "CHARACTER CHAR VARYING VARCHAR NVARCHAR TEXT UUID JSON JSONB TSVECTOR TSQUERY \
    BINARY VARBINARY BLOB BYTES BYTEA BIT VARBIT NUMERIC DECIMAL DEC UNSIGNED FLOAT FLOAT4 FLOAT8 \
    REAL DOUBLE PRECISION TINYINT INT2 SMALLINT MEDIUMINT INT INT4 INT8 INTEGER BIGINT SIGNED \
    BOOL BOOLEAN DATE TIME DATETIME TIMESTAMP WITH WITHOUT ZONE TIMETZ TIMESTAMPTZ INTERVAL YEAR \
    MONTH DAY HOUR MINUTE SECOND TO REGCLASS POINT LINE LSEG BOX PATH POLYGON CIRCLE";
/// Nesting limit of array types.
const MAX_TYPE_DEPTH: usize = 6;

pub(super) fn literal(dialect: Dialect, value: &ValueWithSpan) -> Result<(), Refusal> {
    match &value.value {
        Value::Placeholder(name) if dialect == Dialect::Postgres && !name.starts_with('$') => {
            no("a parameter is written in another way here: write $1")
        }
        Value::Number(..)
        | Value::SingleQuotedString(_)
        | Value::DoubleQuotedString(_)
        | Value::NationalStringLiteral(_)
        | Value::HexStringLiteral(_)
        | Value::SingleQuotedByteStringLiteral(_)
        | Value::Boolean(_)
        | Value::Null
        | Value::Placeholder(_) => Ok(()),
        _ => no("a literal is written in a way that is not allowed: use plain quotes"),
    }
}

/// The operators between two values, as they are printed.
const OPERATORS: &str = "+ - * / % || > < >= <= <=> = <> AND OR XOR | & ^ DIV MATCH REGEXP GLOB # \
    << >> && ~ ~* !~ !~* ~~ ~~* !~~ !~~* ^@ -> ->> #> #>> @@ @> <@ #- @? ? ?& ?| <-> OVERLAPS";

pub(super) fn operator(operator: &BinaryOperator) -> Result<(), Refusal> {
    let sent = operator.to_string();
    if OPERATORS.split_whitespace().any(|known| known == sent) {
        return Ok(());
    }
    no("an operator is not allowed here: in PostgreSQL it may call a user-defined function")
}

/// Returns whether an operator may precede a value.
pub(super) fn is_prefix(operator: &UnaryOperator) -> bool {
    use UnaryOperator as U;
    matches!(
        operator,
        U::Plus
            | U::Minus
            | U::Not
            | U::BitwiseNot
            | U::BangNot
            | U::PGAbs
            | U::PGSquareRoot
            | U::PGCubeRoot
            | U::PGPrefixFactorial
            | U::AtDashAt
            | U::DoubleAt
            | U::Hash
            | U::QuestionDash
            | U::QuestionPipe
    )
}

/// Checks a type that a value is cast to: only those of the database, and those that a rule adds.
/// In PostgreSQL a cast to any other type may call functions of the type's author. Types declared
/// inline are refused.
pub(super) fn cast(named: &Named, data_type: &DataType) -> Result<(), Refusal> {
    let mut inner = data_type;
    for _ in 0..MAX_TYPE_DEPTH {
        inner = match inner {
            DataType::Array(
                ArrayElemTypeDef::SquareBracket(element, _)
                | ArrayElemTypeDef::Qualified(element, _),
            ) => element,
            DataType::Custom(name, _) => return named.type_name(name),
            plain if is_plain(plain) => return Ok(()),
            _ => break,
        };
    }
    no(format!("the type {} is not allowed", cut(&data_type.to_string(), 60)))
}

/// Returns whether a type is built in, by the words and numbers of its printed form.
fn is_plain(data_type: &DataType) -> bool {
    let printed = data_type.to_string();
    let mut words = printed.split([' ', '(', ')', ',']);
    !printed.is_empty()
        && words.all(|word| has(WORDS, word) || word.bytes().all(|b| b.is_ascii_digit()))
}

// Function calls in the form of field accesses. In PostgreSQL, `x.f` is the call `f(x)` if `x` is a
// function in FROM that returns single values and no column is named `f`. Conversely, `f(x)` with a
// table `x` is a call with a whole row, for which another user may have defined another `f`. Both
// are checked at the end of a statement, when all of FROM is known; an ambiguous name is checked
// against both meanings.

/// Column names that listed functions define. None of them is also a function.
const NAMED: [(&str, &str); 9] = [
    ("json_array_elements", "value"),
    ("json_array_elements_text", "value"),
    ("json_each", "key value"),
    ("json_each_text", "key value"),
    ("jsonb_array_elements", "value"),
    ("jsonb_array_elements_text", "value"),
    ("jsonb_each", "key value"),
    ("jsonb_each_text", "key value"),
    ("unnest", "unnest lexeme positions weights"),
];
/// The column of WITH ORDINALITY.
const ORDINALITY: &str = "ordinality";

/// The functions in FROM, and the fields that a statement uses.
#[derive(Default)]
pub(super) struct Rows {
    /// The names or aliases of the tables in FROM.
    tables: Vec<String>,
    /// Function names, each with a bare name that is passed as an argument.
    given: Vec<(String, String)>,
    functions: Vec<Function>,
    /// Fields `x.f`, where `f` is not an allowed function.
    fields: Vec<(String, String)>,
}

struct Function {
    known_as: String,
    columns: Vec<String>,
}

impl Rows {
    /// Records a function in FROM with its name and alias.
    pub(super) fn function(&mut self, named: &Named, name: &str, alias: Option<&TableAlias>) {
        if named.dialect() != Dialect::Postgres {
            return;
        }
        let known_as = alias.map_or_else(|| name.to_owned(), |alias| named.scoped(&alias.name));
        let written = alias.map_or(&[][..], |alias| &alias.columns);
        let mut columns = Vec::from_iter(written.iter().map(|column| named.scoped(&column.name)));
        if columns.is_empty() {
            match NAMED.iter().find(|(known, _)| *known == name) {
                Some((_, names)) => columns.extend(names.split(' ').map(str::to_owned)),
                // The only column is named after the alias or the function.
                None => columns.push(known_as.clone()),
            }
            if name == "unnest" {
                columns.push(known_as.clone());
            }
        }
        self.functions.push(Function { known_as, columns });
    }

    /// Records a table in FROM with its name and alias.
    pub(super) fn table(&mut self, named: &Named, name: String, alias: Option<&TableAlias>) {
        if named.dialect() == Dialect::Postgres {
            self.tables.push(alias.map_or(name, |alias| named.scoped(&alias.name)));
        }
    }

    /// Records a bare name that is passed to a function.
    pub(super) fn argument(&mut self, named: &Named, function: &str, argument: &Ident) {
        if named.dialect() == Dialect::Postgres && !has(OF_ROWS, function) {
            self.given.push((function.to_owned(), named.scoped(argument)));
        }
    }

    /// Records a qualified name in an expression.
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

    /// Checks the recorded names, at the end of the statement.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        for (function, argument) in &self.given {
            if self.tables.contains(argument) {
                let function = short(function);
                let argument = short(argument);
                return no(format!(
                    "`{function}({argument})` is called with a whole row, which may call another \
                        function: write {argument}.column"
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

    /// Returns whether a function in FROM has this name, but no such column.
    fn may_be_call(&self, of: &str, field: &String) -> bool {
        self.functions
            .iter()
            .any(|function| function.known_as == of && !function.columns.contains(field))
    }
}
