//! The values and operators that an expression may contain. In PostgreSQL, an operator not listed
//! here may run a user-defined function.

use sqlparser::ast::{BinaryOperator, UnaryOperator, Value, ValueWithSpan};

use super::spec::Dialect;
use crate::Refusal;
use crate::refusal::no;

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
