//! The values, operators and types that an expression may contain. In PostgreSQL, an operator not
//! listed here may run a user-defined function.

use sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, UnaryOperator, Value, ValueWithSpan,
};

use super::names::{Named, cut};
use super::reserved::has;
use super::spec::Dialect;
use crate::Refusal;
use crate::refusal::no;

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
